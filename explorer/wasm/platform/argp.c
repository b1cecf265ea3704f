/* argp.c: glibc's option parser, as far as the command uses it: a root without options and two children that have them. */
#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { CHILDREN = 4 };

/* -- the children -- */
/* Calls the parser of a child, or of the root where child is -1. */
static error_t call(struct argp_state *state, void **inputs, int child, int key, char *arg) {
    void *const own = state->input;
    const struct argp *argp = child < 0 ? state->root_argp : state->root_argp->children[child].argp;
    if (child >= 0) state->input = inputs[child];
    const error_t error = argp->parser ? argp->parser(key, arg, state) : ARGP_ERR_UNKNOWN;
    state->input = own;
    return error;
}

static error_t call_all(struct argp_state *state, void **inputs, int key) {
    error_t error = 0;
    for (int c = -1; (c < 0 || state->root_argp->children[c].argp) && !error; c++) {
        error = call(state, inputs, c, key, NULL);
        if (error == ARGP_ERR_UNKNOWN) error = 0;
    }
    return error;
}

/* -- options -- */
/* out = 1 if the option is meant by name[0 .. length - 1] or, where that is NULL, by the letter. */
static int matches(const struct argp_option *o, const char *name, size_t length, int letter, int exact) {
    if (!name) return o->key == letter;
    return o->name && strncmp(o->name, name, length) == 0 && (!exact || strlen(o->name) == length);
}

/* out = the option, with its child in *child; NULL if none is meant, or two that differ. */
static const struct argp_option *find(const struct argp *root, const char *name, size_t length, int letter, int *child) {
    for (int exact = 1; exact >= 0; exact--) {
        const struct argp_option *found = NULL;
        for (int c = 0; root->children[c].argp; c++)
            for (const struct argp_option *o = root->children[c].argp->options; o && (o->name || o->doc); o++) {
                if (!matches(o, name, length, letter, exact)) continue;
                if (found && found->key != o->key) return NULL;
                found = o;
                *child = c;
            }
        if (found || !name) return found;
    }
    return NULL;
}

/* The option at argv[next], with its value in it or after it. */
static error_t take_option(struct argp_state *state, void **inputs) {
    char *text = state->argv[state->next++];
    const int is_long = text[1] == '-';
    char *const name = is_long ? text + 2 : NULL, *const equals = is_long ? strchr(name, '=') : NULL;
    int child = 0;
    const struct argp_option *option =
        find(state->root_argp, name, is_long ? strcspn(name, "=") : 0, (unsigned char)text[1], &child);
    char *value = is_long ? (equals ? equals + 1 : NULL) : (text[2] ? text + 2 : NULL);
    if (!option || (value && !option->arg)) return EINVAL;
    if (option->arg && !value) {
        if (state->next >= state->argc) return EINVAL;
        value = state->argv[state->next++];
    }
    return call(state, inputs, child, option->key, value);
}

/* -- arguments -- */
/* The arguments that are no options, in order, after all options.  out = the first that nobody takes. */
static error_t take_arguments(struct argp_state *state, void **inputs, char **arguments, int count, int *taken) {
    for (*taken = 0; *taken < count; (*taken)++, state->arg_num++) {
        error_t error = ARGP_ERR_UNKNOWN;
        for (int c = -1; (c < 0 || state->root_argp->children[c].argp) && error == ARGP_ERR_UNKNOWN; c++)
            error = call(state, inputs, c, ARGP_KEY_ARG, arguments[*taken]);
        if (error == ARGP_ERR_UNKNOWN) return 0;
        if (error) return error;
    }
    return 0;
}

/* Options first; they leave arguments[count] behind. */
static error_t take_options(struct argp_state *state, void **inputs, char **arguments, int *count) {
    while (state->next < state->argc) {
        char *text = state->argv[state->next];
        error_t error = 0;
        if (strcmp(text, "--") == 0) {
            while (++state->next < state->argc)
                arguments[(*count)++] = state->argv[state->next];
        } else if (text[0] == '-' && text[1]) {
            error = take_option(state, inputs);
        } else {
            arguments[(*count)++] = text;
            state->next++;
        }
        if (error) return error;
    }
    return 0;
}

error_t argp_parse(const struct argp *argp, int argc, char **argv, unsigned flags, int *next, void *input) {
    void *inputs[CHILDREN] = {NULL};
    char **arguments = calloc((size_t)argc + 1, sizeof *arguments);
    if (!arguments) return ENOMEM;
    struct argp_state state = {argp, argc, argv, 1, flags, 0, input, inputs};
    int count = 0, taken = 0;
    error_t error = call_all(&state, inputs, ARGP_KEY_INIT);
    if (!error) error = take_options(&state, inputs, arguments, &count);
    if (error) {
        (void)call_all(&state, inputs, ARGP_KEY_ERROR);
        free(arguments);
        return error;
    }
    error = take_arguments(&state, inputs, arguments, count, &taken);
    for (int i = 0; i < count; i++) /* where glibc leaves them */
        argv[argc - count + i] = arguments[i];
    *next = argc - count + taken;
    if (!error && count == 0) error = call_all(&state, inputs, ARGP_KEY_NO_ARGS);
    if (!error) error = call_all(&state, inputs, ARGP_KEY_END);
    if (!error) error = call_all(&state, inputs, ARGP_KEY_SUCCESS);
    free(arguments);
    return error;
}

void argp_state_help(const struct argp_state *state, FILE *stream, unsigned flags) {
    (void)flags;
    fprintf(stream, "Usage: %s [OPTION...]\n", state->argv[0]);
    for (int c = 0; state->root_argp->children[c].argp; c++)
        for (const struct argp_option *o = state->root_argp->children[c].argp->options; o && (o->name || o->doc); o++)
            if (o->name && !(o->flags & OPTION_HIDDEN))
                fprintf(stream, "  --%s%s%s\n        %s\n", o->name, o->arg ? "=" : "", o->arg ? o->arg : "",
                        o->doc ? o->doc : "");
}
