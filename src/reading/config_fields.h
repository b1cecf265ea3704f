/* config_fields.h: which key of config.json stands for which field of gyre_config, and the names of enumerators. */
#ifndef GYRE_READING_CONFIG_FIELDS_H
#define GYRE_READING_CONFIG_FIELDS_H
#include "gyre/gyre.h"

typedef struct gyre_config_enum_name {
    const char *text;
    int value;
} gyre_config_enum_name;
/* Names of scalings, as in transformers' rope_type where it has them.  Lists of names end with a NULL text. */
extern const gyre_config_enum_name gyre_rope_types[];
/* out = the entry of this value or name; NULL if there is none. */
const gyre_config_enum_name *gyre_config_find_enum(const gyre_config_enum_name *enum_names, const char *text);
const char *gyre_config_enum_text(const gyre_config_enum_name *enum_names, int value);

/* Type of a field of gyre_config that has a key of its own.  The key is absent if the field is 0, its default.  In a
 * file, a count or number of 0 is refused, because it would mean the default. */
typedef enum gyre_config_field_type {
    GYRE_CONFIG_SIZE,    /* at least 1 */
    GYRE_CONFIG_INTEGER, /* any sign */
    GYRE_CONFIG_NUMBER,  /* a double */
    GYRE_CONFIG_FLAG,
    GYRE_CONFIG_ENUM,
    GYRE_CONFIG_BITMASK /* a list of names, one for each bit */
} gyre_config_field_type;
typedef struct gyre_config_field {
    const char *key;
    size_t offset;
    gyre_config_field_type type;
    const gyre_config_enum_name *enum_names;
} gyre_config_field;
/* Fields at the input and on scores; of queries; of rotations, as far as transformers has no key for them.  Each list
 * ends with a NULL key.  rope.table_positions is left out: it changes memory use, not results. */
extern const gyre_config_field gyre_input_score_fields[], gyre_query_fields[], gyre_rope_fields[], gyre_length_fields[];
/* Keys of older files, where one key served several kinds: for `kind` it fills this field.  Ends with a NULL key. */
typedef struct gyre_config_older_field {
    gyre_kind kind;
    gyre_config_field field;
} gyre_config_older_field;
extern const gyre_config_older_field gyre_older_fields[];
/* out = the field that an older file means by `key` for `kind`; NULL if the key has its own meaning. */
const gyre_config_field *gyre_config_find_older(gyre_kind kind, const char *key);
/* out = the field's address, by its type: sizes and integers, numbers, everything else. */
int64_t *gyre_config_int64_field(gyre_config *config, const gyre_config_field *field);
double *gyre_config_double_field(gyre_config *config, const gyre_config_field *field);
unsigned *gyre_config_unsigned_field(gyre_config *config, const gyre_config_field *field);

/* out = "none", "soft" or "hard", as rope_clip has it. */
const char *gyre_config_clip_name(gyre_clip mode);
/* out = "paper" or "released", as rope_starts has it. */
const char *gyre_config_start_name(gyre_longrope_start mode);
/* out = 1 if the frequencies depend on the trained length L, which the file then states apart from the length served. */
int gyre_scaling_has_original_length(gyre_scaling scaling);
/* out = 1 if the scaling has an attention factor of its own, which the key attention_factor overrides. */
int gyre_scaling_has_attention_factor(gyre_scaling scaling);

#endif
