/* config_fields.h: which key of config.json stands for which field of gyre_config, and the words for its enumerations. */
#ifndef GYRE_READING_CONFIG_FIELDS_H
#define GYRE_READING_CONFIG_FIELDS_H
#include "gyre/gyre.h"

typedef struct gyre_config_enum_name {
    const char *text;
    int value;
} gyre_config_enum_name;
/* Scalings, as transformers' rope_type spells those that it knows; ends with a NULL text, as every list. */
extern const gyre_config_enum_name gyre_rope_types[];
/* NULL where there is none. */
const gyre_config_enum_name *gyre_config_find_enum(const gyre_config_enum_name *enum_names, const char *text);
const char *gyre_config_enum_text(const gyre_config_enum_name *enum_names, int value);

/* A field of gyre_config under a key of its own, absent where the field is 0: its default.  Counts and numbers that a 0 in
 * the file would turn into a default are refused there. */
typedef enum gyre_config_field_type {
    GYRE_CONFIG_SIZE,    /* from 1 */
    GYRE_CONFIG_INTEGER, /* of any sign */
    GYRE_CONFIG_NUMBER,  /* a double */
    GYRE_CONFIG_FLAG,
    GYRE_CONFIG_ENUM,
    GYRE_CONFIG_BITMASK /* a list of words, one for each bit */
} gyre_config_field_type;
typedef struct gyre_config_field {
    const char *key;
    size_t offset;
    gyre_config_field_type type;
    const gyre_config_enum_name *enum_names;
} gyre_config_field;
/* At the input and on scores; of queries under any kind; of rotations, beside what transformers has words for.  Each ends
 * with a NULL key.  Not among them: rope.table_positions, which changes what is kept in memory and no number. */
extern const gyre_config_field gyre_input_score_fields[], gyre_query_fields[], gyre_rope_fields[];
/* Keys of older files, where one key served several kinds: under `kind` it fills this field.  Ends with a NULL key. */
typedef struct gyre_config_older_field {
    gyre_kind kind;
    gyre_config_field field;
} gyre_config_older_field;
extern const gyre_config_older_field gyre_older_fields[];
/* out = the field that an older file means by `key` under `kind`; NULL if the key has its own meaning. */
const gyre_config_field *gyre_config_find_older(gyre_kind kind, const char *key);
/* Where a field lies, by its type: sizes and wholes, numbers, all others. */
int64_t *gyre_config_int64_field(gyre_config *config, const gyre_config_field *field);
double *gyre_config_double_field(gyre_config *config, const gyre_config_field *field);
unsigned *gyre_config_unsigned_field(gyre_config *config, const gyre_config_field *field);

/* 1: the frequencies depend on L, and the file keeps it apart from the length that the model now serves. */
int gyre_scaling_has_original_length(gyre_scaling scaling);
/* 1: it has an attention factor of its own, which attention_factor takes the place of. */
int gyre_scaling_has_attention_factor(gyre_scaling scaling);

#endif
