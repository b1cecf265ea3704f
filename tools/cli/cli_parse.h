/* cli_parse.h: the options of a subcommand: its own table plus --threads, --json, --output, --force (of a command that
 * writes files) and --help; and that table for man pages and completion. */
#ifndef GYRE_TOOLS_CLI_PARSE_H
#define GYRE_TOOLS_CLI_PARSE_H
#include "gyre/gyre.h"
#include <math.h>
#include <stddef.h>

enum { CLI_MAX_OPTIONS = 96 };
/* Values of the common options.  The options struct of a command begins with this struct. */
typedef struct cli_options {
    int threads;                                     /* --threads, else GYRE_THREADS, else 0 = one per processor */
    int json;                                        /* --json */
    const char *output;                              /* --output; NULL = standard output */
    int force;                                       /* --force */
    const struct cli_option *given[CLI_MAX_OPTIONS]; /* [given_count] rows of the command's options, each once */
    int given_count;
} cli_options;
enum { CLI_THREADS = 1, CLI_JSON = 2, CLI_OUTPUT = 4, CLI_ALL = 7 };

/* -- the table of a command's options -- */
typedef enum cli_type {
    CLI_TYPE_NONE,    /* nothing is set */
    CLI_TYPE_FLAG,    /* int: 1 */
    CLI_TYPE_INTEGER, /* int64_t within least .. most, such as 4096, 4k or 1M */
    CLI_TYPE_EVEN,    /* the same without the odd ones */
    CLI_TYPE_NUMBER,  /* double within least .. most */
    CLI_TYPE_TEXT,    /* const char *, borrowed from argv */
    CLI_TYPE_CHOICE,  /* int or an enum: the place of the value among the words of `argument`, counted from `least` */
    CLI_TYPE_OTHER    /* what `read` makes of it */
} cli_type;

/* What file an option names, for cli_guard. */
typedef enum cli_file {
    CLI_FILE_NONE,
    CLI_FILE_READ,
    CLI_FILE_WRITTEN, /* a result */
    CLI_FILE_CONFIG,  /* a config or a GGUF, written to this file, or into this folder */
    CLI_FILE_JOURNAL, /* results are added to it */
    CLI_FILE_FOLDER   /* the command fills it */
} cli_file;

/* Reads a value into *at, or ends with a usage error.  option: "--depths".  text: NULL for an option without a value. */
typedef void cli_read(const char *option, const char *text, void *at);

/* A row.  Without a name it is a heading of the help, and without a help the end of the table. */
typedef struct cli_option {
    const char *name;     /* "depths" */
    const char *argument; /* what help calls the value, or its words: "a|b|c"; NULL = no value */
    const char *help;
    int group; /* orders the help */
    cli_type type;
    size_t at;          /* offset of the member that the value fills, in the options struct */
    double least, most; /* most INFINITY: INT64_MAX for integers */
    cli_read *read;
    char letter; /* of -o; 0 = none */
    cli_file file;
    unsigned of; /* bits that only the command knows: see cli_given_of */
    /* Another option of the command, or of the common ones, without which or with which this one is a usage error: its text
     * is "--name: why".  needs: "a|b" = one of them. */
    const char *needs, *excludes, *why;
} cli_option;

/* The last part of a row.  A file with a table defines CLI_STRUCT as the name of its options struct, so that a member of
 * another type does not compile. */
#define CLI_AT(of_type, member) _Generic(&((CLI_STRUCT *)0)->member, of_type * : offsetof(CLI_STRUCT, member))
#define CLI_NONE                .type = CLI_TYPE_NONE
#define CLI_FLAG(member)        .type = CLI_TYPE_FLAG, .at = CLI_AT(int, member)
#define CLI_INTEGER(member, low, high)                                                                                      \
    .type = CLI_TYPE_INTEGER, .at = CLI_AT(int64_t, member), .least = (double)(low), .most = (double)(high)
#define CLI_EVEN(member, low, high)                                                                                         \
    .type = CLI_TYPE_EVEN, .at = CLI_AT(int64_t, member), .least = (double)(low), .most = (double)(high)
#define CLI_SEED(member)              .type = CLI_TYPE_INTEGER, .at = CLI_AT(uint64_t, member), .most = INFINITY
#define CLI_NUMBER(member, low, high) .type = CLI_TYPE_NUMBER, .at = CLI_AT(double, member), .least = (low), .most = (high)
#define CLI_TEXT(member)              .type = CLI_TYPE_TEXT, .at = CLI_AT(const char *, member)
/* In place of a row's group. */
#define CLI_GROUP_OF(group, bits) group, .of = (bits)
/* first: the value of the first word. */
#define CLI_CHOICE(of_type, member, first) .type = CLI_TYPE_CHOICE, .at = CLI_AT(of_type, member), .least = (first)
#define CLI_OTHER(of_type, member, reader) .type = CLI_TYPE_OTHER, .at = CLI_AT(of_type, member), .read = (reader)
#define CLI_OTHER_OF_ALL(reader)           .type = CLI_TYPE_OTHER, .read = (reader) /* *at is the options struct */

typedef struct cli_command {
    const cli_option *options;
    unsigned common;              /* CLI_THREADS, CLI_JSON, CLI_OUTPUT */
    const char *arguments, *text; /* of the help: "MODEL"; paragraphs, with \v before those below the options */
    /* Reads an argument.  out = 0, or 1 if it is one too many.  NULL: the command takes none.  at: the options struct, or the
     * member at the offset argument_at. */
    int (*argument)(void *at, char *text);
    size_t argument_at;
    /* Called after all, before files to write are compared with those that are read; NULL = nothing is left to do. */
    void (*finish)(void *options);
} cli_command;

/* Parses argv into the options struct of the command.  --help prints and exits with 0.  A wrong option exits with
 * CLI_USAGE. */
void cli_parse(const cli_command *command, int argc, char **argv, void *options);
/* Sets the member of one row. */
void cli_option_read(const cli_option *option, const char *text, void *options);
/* out = 1 if the option was on the command line.  name: without --. */
int cli_given(const cli_options *options, const char *name);
/* out = the first row given that has one of these bits, or NULL. */
const cli_option *cli_given_of(const cli_options *options, unsigned bits);

/* The table of a command, as --help prints it. */
typedef struct cli_description {
    const char *title;             /* "gyre eval" */
    const cli_option *const *rows; /* [count] by group and then by name, groups below zero last */
    int count;
    const char *arguments, *text; /* as in cli_command */
} cli_description;
/* From now on cli_parse does not parse: it passes the table of its command to `describe` and exits with the result.
 * context: passed on; borrowed. */
void cli_parse_describe(int (*describe)(const cli_description *description, const void *context), const void *context);
/* From now on cli_parse exits with 0 once a command line is valid, before any file is looked at. */
void cli_parse_alone(void);

/* Creates the thread pool of a command; *exec is valid as long as the pool.  out = 0, or CLI_FAILED with the error
 * printed. */
int cli_pool_open(const cli_options *options, gyre_pool **pool, gyre_exec *exec);

/* out[0 .. size - 1] = the command line that runs this again, quoted for a shell. */
void cli_command_line(int argc, char **argv, char *out, size_t size);

#endif
