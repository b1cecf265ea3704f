/* argp.h: the part of glibc's option parser that the command uses; wasi-libc has none.  Names and values are glibc's. */
#ifndef GYRE_PLATFORM_ARGP_H
#define GYRE_PLATFORM_ARGP_H
#include <stdio.h>

typedef int error_t;
struct argp_state;
typedef error_t (*argp_parser_t)(int key, char *arg, struct argp_state *state);

struct argp_option {
    const char *name;
    int key;
    const char *arg;
    int flags;
    const char *doc;
    int group;
};
struct argp {
    const struct argp_option *options;
    argp_parser_t parser;
    const char *args_doc, *doc;
    char *(*help_filter)(int key, const char *text, void *input);
    const char *argp_domain;
};
struct argp_state {
    const struct argp *root_argp;
    int argc;
    char **argv;
    int next;
    unsigned flags;
    unsigned arg_num;
    void *input;
};

enum {
    OPTION_HIDDEN = 2,
    ARGP_NO_ERRS = 2,
    ARGP_NO_HELP = 16,
    ARGP_NO_EXIT = 32,
    ARGP_HELP_STD_HELP = 0x26a,
    ARGP_ERR_UNKNOWN = 7, /* glibc: E2BIG */
    ARGP_KEY_ARG = 0,
    ARGP_KEY_END = 0x1000001,
    ARGP_KEY_ERROR = 0x1000005,
    ARGP_KEY_HELP_DUP_ARGS_NOTE = 0x2000005
};

/* Parses argv; arguments between options are taken in order, after all options.  *next = the first that nobody takes.
 * out = 0, or EINVAL after ARGP_KEY_ERROR. */
error_t argp_parse(const struct argp *argp, int argc, char **argv, unsigned flags, int *next, void *input);
/* Prints the options by name. */
void argp_state_help(const struct argp_state *state, FILE *stream, unsigned flags);

#endif
