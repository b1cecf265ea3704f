# gyre.bash: completion for bash.  The words come from `gyre help --words`, which prints the table of --help.

# COMPREPLY = what `compgen` prints, a line each.  A here-string: <(...) needs /dev/fd, which a chroot may lack.
_gyre_reply() { # ARGUMENT OF COMPGEN...
    local found
    if found=$(compgen "$@"); then mapfile -t COMPREPLY <<<"$found"; else COMPREPLY=(); fi
}

_gyre_files() { # PREFIX [-d]
    local IFS=$'\n'
    compopt -o filenames 2>/dev/null
    _gyre_reply "${2:--f}" -- "$1"
}

# Completes the value of an option or an argument: TAKES CHOICES WORD.
_gyre_value() {
    local takes=$1 choices=$2 word=$3 done_part=
    case $takes in
    file) _gyre_files "$word" ;;
    folder) _gyre_files "$word" -d ;;
    list)
        [[ $word != *,* ]] || done_part=${word%,*},
        _gyre_reply -P "$done_part" -W "$choices" -- "${word##*,}"
        [ -z "$choices" ] || compopt -o nospace 2>/dev/null
        ;;
    *) _gyre_reply -W "$choices" -- "$word" ;;
    esac
}

# Whether one of the choices stands before the word that is completed.
_gyre_is_given() { # CHOICES
    local given
    for given in "${COMP_WORDS[@]:2:COMP_CWORD-2}"; do
        [[ " $1 " != *" $given "* ]] || return 0
    done
    return 1
}

_gyre() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[0]} table line
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ] || { [ "$COMP_CWORD" -eq 2 ] && [ "$before" = help ]; }; then
        _gyre_reply -W "$("$command" help --words 2>/dev/null | cut -f 1)" -- "$word"
        return
    fi
    table=$("$command" help --words "${COMP_WORDS[1]}" 2>/dev/null) || return
    # Bash splits --name=value at the sign, unless COMP_WORDBREAKS lacks it.
    if [ "$word" = = ]; then
        word=
    elif [ "$before" = = ]; then
        before=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    local name takes choices help
    while IFS= read -r line; do
        IFS=$'\x1f' read -r name takes choices help <<<"${line//$'\t'/$'\x1f'}"
        if [ "$name" = "$before" ] && [ "$takes" != none ]; then
            _gyre_value "$takes" "$choices" "$word"
            return
        fi
    done <<<"$table"
    if [[ $word == -* ]]; then
        _gyre_reply -W "$(cut -f 1 <<<"$table" | grep -e '^--')" -- "$word"
        return
    fi
    while IFS= read -r line; do
        IFS=$'\x1f' read -r name takes choices help <<<"${line//$'\t'/$'\x1f'}"
        if [ "$name" = - ] && ! _gyre_is_given "$choices"; then
            _gyre_value "$takes" "$choices" "$word"
            return
        fi
    done <<<"$table"
}

complete -F _gyre gyre
