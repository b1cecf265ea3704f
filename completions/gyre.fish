# Completion for fish.  The words come from `gyre help --words`, which prints the table of --help.

function __gyre_value --argument-names takes choices word
    switch $takes
        case file
            __fish_complete_path $word
        case folder
            __fish_complete_directories $word
        case list
            # In quotes: an empty list would make the whole word none.
            set -l done (string match -r '^.*,' -- $word)
            for choice in (string split -n ' ' -- $choices)
                echo "$done$choice"
            end
        case '*'
            string split -n ' ' -- $choices
    end
end

function __gyre_complete
    set -l tokens (commandline -opc)
    set -l word (commandline -ct)
    if test (count $tokens) -eq 1; or begin; test (count $tokens) -eq 2; and test $tokens[2] = help; end
        for row in ($tokens[1] help --words 2>/dev/null)
            set -l columns (string split \t -- $row)
            printf '%s\t%s\n' $columns[1] $columns[4]
        end
        return
    end
    set -l rows ($tokens[1] help --words $tokens[2] 2>/dev/null)
    set -l before $tokens[-1]
    set -l prefix ''
    if string match -qr '^--[a-z-]+=' -- $word
        set before (string replace -r '=.*' '' -- $word)
        set prefix $before=
        set word (string replace -r '^[^=]*=' '' -- $word)
    end
    for row in $rows
        set -l columns (string split \t -- $row)
        if test "$columns[1]" = "$before"; and test "$columns[2]" != none
            for value in (__gyre_value "$columns[2]" "$columns[3]" "$word")
                echo $prefix$value
            end
            return
        end
    end
    for row in $rows
        set -l columns (string split \t -- $row)
        if string match -q -- '-*' $word
            string match -q -- '--*' $columns[1]; and printf '%s\t%s\n' $columns[1] $columns[4]
        else if test "$columns[1]" = -
            # An argument whose choice stands already is not completed again, but the next one.
            set -l given $tokens[3..]
            set -l choices (string split -n ' ' -- $columns[3])
            if not set -q choices[1]; or not string match -qr "^("(string join '|' -- (string escape --style=regex -- $choices))")\$" -- $given
                __gyre_value "$columns[2]" "$columns[3]" "$word"
                return
            end
        end
    end
end

complete -c gyre -f -a '(__gyre_complete)'
