/* argp.c: glibc's option parser, as far as the command uses it: a root without children. */
#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static error_t call(struct argp_state *state, int key, char *arg) {
    return state->root_argp->parser(key, arg, state);
}

/* -- options -- */
/* out = 1 if the option is meant by name[0 .. length - 1] or, where that is NULL, by the letter. */
static int matches(const struct argp_option *o, const char *name, size_t length, int letter, int exact) {
    if (!name) return o->key == letter;
    return o->name && strncmp(o->name, name, length) == 0 && (!exact || strlen(o->name) == length);
}

/* out = the option; NULL if none is meant, or two that differ. */
static const struct argp_option *find(const struct argp *root, const char *name, size_t length, int letter) {
    for (int exact = 1; exact >= 0; exact--) {
        const struct argp_option *found = NULL;
        for (const struct argp_option *o = root->options; o->name || o->doc; o++) {
            if (!matches(o, name, length, letter, exact)) continue;
            if (found && found->key != o->key) return NULL;
            found = o;
        }
        if (found || !name) return found;
    }
    return NULL;
}

/* The option at argv[next], with its value in it or after it. */
static error_t take_option(struct argp_state *state) {
    char *text = state->argv[state->next++];
    const int is_long = text[1] == '-';
    char *const name = is_long ? text + 2 : NULL, *const equals = is_long ? strchr(name, '=') : NULL;
    const struct argp_option *option =
        find(state->root_argp, name, is_long ? strcspn(name, "=") : 0, (unsigned char)text[1]);
    char *value = is_long ? (equals ? equals + 1 : NULL) : (text[2] ? text + 2 : NULL);
    if (!option || (value && !option->arg)) return EINVAL;
    if (option->arg && !value) {
        if (state->next >= state->argc) return EINVAL;
        value = state->argv[state->next++];
    }
    return call(state, option->key, value);
}

/* -- arguments -- */
/* The arguments that are no options, in order, after all options.  *taken = the first that nobody takes. */
static error_t take_arguments(struct argp_state *state, char **arguments, int count, int *taken) {
    for (*taken = 0; *taken < count; (*taken)++, state->arg_num++) {
        const error_t error = call(state, ARGP_KEY_ARG, arguments[*taken]);
        if (error) return error == ARGP_ERR_UNKNOWN ? 0 : error;
    }
    return 0;
}

/* Options first; they leave arguments[count] behind. */
static error_t take_options(struct argp_state *state, char **arguments, int *count) {
    while (state->next < state->argc) {
        char *text = state->argv[state->next];
        error_t error = 0;
        if (strcmp(text, "--") == 0) {
            while (++state->next < state->argc)
                arguments[(*count)++] = state->argv[state->next];
        } else if (text[0] == '-' && text[1]) {
            error = take_option(state);
        } else {
            arguments[(*count)++] = text;
            state->next++;
        }
        if (error) return error;
    }
    return 0;
}

error_t argp_parse(const struct argp *argp, int argc, char **argv, unsigned flags, int *next, void *input) {
    char **arguments = calloc((size_t)argc + 1, sizeof *arguments);
    if (!arguments) return ENOMEM;
    struct argp_state state = {argp, argc, argv, 1, flags, 0, input};
    int count = 0, taken = 0;
    error_t error = take_options(&state, arguments, &count);
    if (error) {
        (void)call(&state, ARGP_KEY_ERROR, NULL);
        free(arguments);
        return error;
    }
    error = take_arguments(&state, arguments, count, &taken);
    for (int i = 0; i < count; i++) /* where glibc leaves them */
        argv[argc - count + i] = arguments[i];
    *next = argc - count + taken;
    if (!error) error = call(&state, ARGP_KEY_END, NULL);
    free(arguments);
    return error;
}

void argp_state_help(const struct argp_state *state, FILE *stream, unsigned flags) {
    (void)flags;
    fprintf(stream, "Usage: %s [OPTION...]\n", state->argv[0]);
    for (const struct argp_option *o = state->root_argp->options; o->name || o->doc; o++)
        if (o->name && !(o->flags & OPTION_HIDDEN))
            fprintf(stream, "  --%s%s%s\n        %s\n", o->name, o->arg ? "=" : "", o->arg ? o->arg : "",
                    o->doc ? o->doc : "");
}
