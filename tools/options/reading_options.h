/* reading_options.h: options that choose how a model's config is read and which of its layers are looked at: --as, --length
 * and --layer-type.
 *
 * Each OPTION_ macro of this header and of the other *_options.h is one entry of an argp table; `group` orders the help.
 * Their keys lie below CLI_FIRST_KEY, and no two of them are equal.  A command passes keys that it does not know to the
 * parsers of the groups it uses. */
#ifndef GYRE_TOOLS_READING_OPTIONS_H
#define GYRE_TOOLS_READING_OPTIONS_H
#include "gyre/gyre_reading.h"
#include "tools/cli/cli_parse.h"
#include "tools/options/value_names.h"

enum { READING_KEY_AS = 0x180, READING_KEY_LENGTH, READING_KEY_LAYER_TYPE };

#define OPTION_AS(group)                                                                                                    \
    {                                                                                                                       \
        "as", READING_KEY_AS, "PROFILE", 0,                                                                                 \
            "Read the model's positions as " PROFILE_NAMES " does (default: llama.cpp for a GGUF, else hf-5)", group        \
    }
#define OPTION_LENGTH(group)                                                                                                \
    { "length", READING_KEY_LENGTH, "N", 0, "The context length in use (default: the trained length)", group }
#define OPTION_LAYER_TYPE(help, group)                                                                                      \
    { "layer-type", READING_KEY_LAYER_TYPE, "NAME", 0, help, group }
#define ONLY_LAYERS_HELP "Only these layers: full_attention, vision; a wrong name lists them"

typedef struct reading_options {
    gyre_profile profile;   /* GYRE_PROFILE_DEFAULT without --as */
    int64_t length;         /* 0 without --length */
    const char *layer_type; /* NULL without --layer-type */
} reading_options;

/* out = 0, or ARGP_ERR_UNKNOWN if the key is not one of these.  A wrong value is a usage error. */
error_t reading_option(reading_options *o, int key, char *text);

/* -- the layers that --layer-type names -- */
/* out = 1 if the group has this name, or if layer_type is NULL. */
int reading_is_selected(const gyre_layer_reading *group, const char *layer_type);
/* out = the group of that name, or NULL.  reading may be NULL. */
const gyre_layer_reading *reading_find_group(const gyre_reading *reading, const char *name);
/* Usage error that lists the known names if neither reading has a group of that name.  layer_type NULL: no check.  Either
 * reading may be NULL. */
void reading_check_layer_type(const char *layer_type, const gyre_reading *one, const gyre_reading *other);

#endif
