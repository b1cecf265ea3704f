/* reading_options.h: options that choose how a model's config is read and which of its layers are looked at: --as, --length
 * and --layer-type.
 *
 * Each ROW_ macro of this header and of the other *_options.h is a row of a table of options (tools/cli/cli_parse.h).
 * member: that of the command's options struct which the row fills, such as reading.profile; `group` orders the help. */
#ifndef GYRE_TOOLS_READING_OPTIONS_H
#define GYRE_TOOLS_READING_OPTIONS_H
#include "gyre/gyre_reading.h"
#include "tools/cli/cli_parse.h"
#include "tools/cli/cli_values.h"
#include "tools/options/value_names.h"

#define ROW_AS(member, group)                                                                                               \
    {                                                                                                                       \
        "as", "PROFILE", "Read the model's positions as " PROFILE_NAMES " does (default: llama.cpp for a GGUF, else hf-5)", \
            group, CLI_OTHER(gyre_profile, member, profile_read)                                                            \
    }
#define ROW_LENGTH(member, group)                                                                                           \
    {                                                                                                                       \
        "length", "N", "The context length in use (default: the trained length)", group,                                    \
            CLI_INTEGER(member, 1, CLI_MAX_TOKENS - 1)                                                                      \
    }
#define ROW_LAYER_TYPE(member, help, group)                                                                                 \
    { "layer-type", "NAME", help, group, CLI_TEXT(member) }
#define ONLY_LAYERS_HELP "Only these layers: full_attention, vision; a wrong name lists them"

typedef struct reading_options {
    gyre_profile profile;   /* GYRE_PROFILE_DEFAULT without --as */
    int64_t length;         /* 0 without --length */
    const char *layer_type; /* NULL without --layer-type */
} reading_options;

/* -- the layers that --layer-type names -- */
/* out = 1 if the group has this name or is of layers of this type, or if layer_type is NULL. */
int reading_is_selected(const gyre_layer_reading *group, const char *layer_type);
/* out = the first group that is selected, or NULL.  reading may be NULL. */
const gyre_layer_reading *reading_find_layers(const gyre_reading *reading, const char *layer_type);
/* out = the group of that name, or NULL.  reading may be NULL. */
const gyre_layer_reading *reading_find_group(const gyre_reading *reading, const char *name);
/* out = 1 for rotations beside those of the decoder's layers: towers of images and sound, indexers, layers that predict
 * further tokens. */
int reading_is_beside(const gyre_layer_reading *group);
/* Usage error that lists the known names if neither reading has a group of that name.  layer_type NULL: no check.  Either
 * reading may be NULL. */
void reading_check_layer_type(const char *layer_type, const gyre_reading *one, const gyre_reading *other);

#endif
