/* stretch_options.h: options of the commands that stretch a model to a longer context: --to, --trained and --write. */
#ifndef GYRE_TOOLS_STRETCH_OPTIONS_H
#define GYRE_TOOLS_STRETCH_OPTIONS_H
#include "tools/cli/cli_parse.h"

enum { STRETCH_KEY_TO = 0x1c0, STRETCH_KEY_TRAINED, STRETCH_KEY_WRITE };

#define OPTION_TO(group)                                                                                                    \
    { "to", STRETCH_KEY_TO, "N", 0, "The context length wanted, in tokens; 128k is 131072, 1M 1048576", group }
#define OPTION_TRAINED(group)                                                                                               \
    {                                                                                                                       \
        "trained", STRETCH_KEY_TRAINED, "N", 0,                                                                             \
            "Tokens that the model was trained on, before any scaling (default: as its config says)", group                 \
    }
/* change: what the config is changed for. */
#define OPTION_WRITE(change, group)                                                                                         \
    {                                                                                                                       \
        "write", STRETCH_KEY_WRITE, "PATH", 0,                                                                              \
            "Write the model's config, changed for " change                                                                 \
            ", to this file, or as config.json into this folder; everything "                                               \
            "else in it stays byte for byte. Never the model's own file",                                                   \
            group                                                                                                           \
    }

typedef struct stretch_options {
    int64_t to, trained; /* 0 without the option */
    const char *write;   /* NULL without the option */
} stretch_options;

/* out = 0, or ARGP_ERR_UNKNOWN if the key is not one of these.  A wrong value is a usage error. */
error_t stretch_option(stretch_options *o, int key, char *text);
/* Called after parsing.  Usage error if --to is missing or --write is empty. */
void stretch_options_check(const stretch_options *o);
/* Checks `trained`, the model's trained length, against --to.  out = 0, or CLI_FAILED with the error printed. */
int stretch_check_length(const stretch_options *o, int64_t trained, const char *path);

#endif
