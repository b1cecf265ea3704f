/* stretch_options.h: options of the commands that stretch a model to a longer context: --to, --trained and --write. */
#ifndef GYRE_TOOLS_STRETCH_OPTIONS_H
#define GYRE_TOOLS_STRETCH_OPTIONS_H
#include "tools/cli/cli_parse.h"
#include "tools/cli/cli_values.h"

/* A trained length below this leaves nothing to stretch. */
enum { STRETCH_MIN_TRAINED = 4 };

#define ROW_TO(member, group)                                                                                               \
    {                                                                                                                       \
        "to", "N", "The context length wanted, in tokens; 128k is 131072, 1M 1048576", group,                               \
            CLI_INTEGER(member, 2, CLI_MAX_TOKENS)                                                                          \
    }
#define ROW_TRAINED(member, group)                                                                                          \
    {                                                                                                                       \
        "trained", "N", "Tokens that the model was trained on, before any scaling (default: as its config says)", group,    \
            CLI_INTEGER(member, STRETCH_MIN_TRAINED, CLI_MAX_TOKENS)                                                        \
    }
/* change: what the config is changed for. */
#define ROW_WRITE(member, change, group)                                                                                    \
    {                                                                                                                       \
        "write", "PATH",                                                                                                    \
            "Write the model's config, changed for " change                                                                 \
            ", to this file, or into this folder under its own name. A name that ends in .json or .gguf is a file, "        \
            "another that does not exist a folder, which is made. Everything else in the config stays byte for byte. "      \
            "Never the model's own file",                                                                                   \
            group, CLI_TEXT(member), .file = CLI_FILE_CONFIG                                                                \
    }

typedef struct stretch_options {
    int64_t to, trained; /* 0 without the option */
    const char *write;   /* NULL without the option */
} stretch_options;

/* Called after parsing.  Usage error if --to is missing. */
void stretch_options_check(const stretch_options *o);

enum { STRETCH_PATH = 4200 };
/* Where --write goes. */
typedef struct stretch_target {
    char path[STRETCH_PATH];   /* of the file */
    char folder[STRETCH_PATH]; /* of a folder that has to be made first; "" = none */
} stretch_target;
/* *out = the file that --write `write` means.  name: of the file in a folder.  A folder that exists, a name with a slash at
 * its end, and a name that neither exists nor ends in .json or .gguf mean a folder.  EINVAL: too long. */
gyre_status stretch_target_find(const char *write, const char *name, stretch_target *out, gyre_error *err);
/* Makes the folder, if there is one to make.  Errors: EIO. */
gyre_status stretch_target_make_folder(const stretch_target *target, gyre_error *err);
/* Removes a folder that was made and is still empty, after a failure. */
void stretch_target_discard(const stretch_target *target);

/* Checks `trained`, the model's trained length, against --to.  out = 0, or CLI_FAILED with the error printed. */
int stretch_check_length(const stretch_options *o, int64_t trained, const char *path);

#endif
