/* gyre_fields.h: the fields of gyre_config and the kinds of schemes as data, for programs that read, write, compare or
 * print configs of any scheme.
 *
 *     for (int i = 0; (field = gyre_config_field_at(i)); i++)
 *         if (gyre_config_field_acts(&config, field)) printf("%s\n", field->name);
 *
 * Each field and each name of an enumerator is defined once in Gyre; this table is generated from it. */
#ifndef GYRE_FIELDS_H
#define GYRE_FIELDS_H
#include "gyre/gyre.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum gyre_field_type {
    GYRE_FIELD_COUNT,   /* int64_t, 0 .. 2^31 - 1 */
    GYRE_FIELD_LENGTH,  /* int64_t, from 0 up */
    GYRE_FIELD_INTEGER, /* int64_t */
    GYRE_FIELD_NUMBER,  /* double */
    GYRE_FIELD_FLAG,    /* int, 0 or 1 */
    GYRE_FIELD_CHOICE,  /* an enum */
    GYRE_FIELD_SET,     /* unsigned: a sum of enumerators */
    GYRE_FIELD_LIST     /* const double *, or NULL */
} gyre_field_type;
/* Properties of a field, for programs that compare, check or list fields. */
typedef enum gyre_field_mark {
    GYRE_FIELD_MARK_MEMORY = 1,      /* changes only the memory in use, no result */
    GYRE_FIELD_MARK_ROUNDING = 2,    /* changes scores only by rounding */
    GYRE_FIELD_MARK_FREQUENCIES = 4, /* acts through gyre_encoding_frequencies; a LIST has a number for each pair */
    GYRE_FIELD_MARK_SLOPES = 8,      /* acts through gyre_encoding_slopes; a LIST has a number for each head */
    GYRE_FIELD_MARK_LENGTH = 16,     /* the length in use, or the length that it is compared with */
    GYRE_FIELD_MARK_AXES = 32,       /* of rope; an axis with a separate scaling reads it too */
    GYRE_FIELD_MARK_NOT_ZERO = 64    /* 0 is only the default, never the number 0 */
} gyre_field_mark;
/* A value of an enum and its spelling. */
typedef struct gyre_field_name {
    const char *text;
    int value;
} gyre_field_name;
typedef struct gyre_config_field {
    const char *name;             /* the member of gyre_config: "rope.chunk.size" */
    const char *key;              /* in config.json of Gyre's own models; NULL = none, or a key of transformers */
    const char *label;            /* in the tables of the gyre command */
    const gyre_field_name *names; /* of a CHOICE or SET, ended by a NULL text; else NULL */
    size_t offset;                /* in gyre_config */
    size_t when;                  /* offset of the int or enum that enables the field; 0 = always enabled */
    double minimum, maximum;      /* of a value that is not 0; infinite if none is fixed: gyre_encoding_create may refuse
                                   * more, depending on other fields */
    double standard;              /* the value that 0 stands for; 0 = none, or it depends on other fields */
    gyre_field_type type;
    unsigned kinds;       /* bit 1 << kind: schemes that have the field */
    unsigned when_values; /* bit 1 << value of the member at `when`: the values that enable the field */
    int above_minimum;    /* 1 = the minimum itself is not allowed */
    unsigned marks;       /* a set of gyre_field_mark */
} gyre_config_field;

/* out = field i; static; NULL past the last.  Fields are counted from 0, in the order of config.def. */
GYRE_API const gyre_config_field *gyre_config_field_at(int i);
/* out = the field of that name, or NULL. */
GYRE_API const gyre_config_field *gyre_config_find_field(const char *name);
/* out = the field whose value enables this one, NULL = none: it always has an effect. */
GYRE_API const gyre_config_field *gyre_config_field_switch(const gyre_config_field *field);
/* out = 1 if the field has an effect on this config: its kind has it, and the member at `when` enables it, or for fields
 * with MARK_AXES the scaling of an axis. */
GYRE_API int gyre_config_field_acts(const gyre_config *config, const gyre_config_field *field);
/* The same for the field of that name; 0 if there is none. */
GYRE_API int gyre_config_has(const gyre_config *config, const char *name);

/* The value of a field, in the member for its type; the others are 0. */
typedef struct gyre_field_value {
    int64_t integer; /* all but NUMBER and LIST */
    double number;
    const double *list;
} gyre_field_value;
GYRE_API gyre_field_value gyre_config_get(const gyre_config *config, const gyre_config_field *field);
/* Zeros the fields that gyre_encoding_create refuses because the switch they need is 0, as after rope.scaling = NONE in a
 * copy. */
GYRE_API void gyre_config_clear_unused(gyre_config *config);
/* Takes off what changes the frequencies of the base: scaling, resonance, clipped pairs, start tokens. */
GYRE_API void gyre_config_unscale(gyre_config *config);
GYRE_API void gyre_config_set(gyre_config *config, const gyre_config_field *field, gyre_field_value value);
/* out = the length of a LIST under this config: heads, or the rotated pairs; 0 for other types. */
GYRE_API int64_t gyre_config_list_length(const gyre_config *config, const gyre_config_field *field);

/* out = the spelling of a value, or NULL; *value = that of a spelling, out = 1, or 0 if there is no such spelling. */
GYRE_API const char *gyre_field_spelling(const gyre_config_field *field, int value);
GYRE_API int gyre_field_find_value(const gyre_config_field *field, const char *text, int *value);

/* -- kinds -- */

/* Properties of a scheme under any config.  A program that tests traits needs no list of kinds. */
typedef enum gyre_trait {
    GYRE_TRAIT_ROTATES =
        1, /* rotates pairs of channels by frequencies: rope's fields, gyre_encoding_frequencies, gyre_cos_sin */
    GYRE_TRAIT_SLOPES = 2,        /* a slope for each head: gyre_encoding_slopes */
    GYRE_TRAIT_BIAS = 4,          /* a number on each score: gyre_add_bias */
    GYRE_TRAIT_ENDS = 8,          /* a row for each position or distance up to a last one; beyond it a position is ERANGE */
    GYRE_TRAIT_QUERY_VECTORS = 16 /* the last score.relative_channels channels of queries are vectors that keys lack */
} gyre_trait;
/* out = 1 if schemes of this kind have the trait, else 0; 0 for an invalid kind. */
GYRE_API int gyre_kind_has(gyre_kind kind, gyre_trait trait);
/* out = the set of gyre_places where schemes of this kind act; 0 for an invalid kind. */
GYRE_API unsigned gyre_kind_places(gyre_kind kind);

/* out = the spelling of an enumerator in files, options and Python; NULL if it is not one. */
GYRE_API const char *gyre_scaling_name(gyre_scaling scaling);
/* The same as a rope_type of transformers: "default" for NONE. */
GYRE_API const char *gyre_rope_type(gyre_scaling scaling);
GYRE_API const char *gyre_layout_name(gyre_layout layout);
GYRE_API const char *gyre_length_policy_name(gyre_length_policy policy);

/* -- parts of layers -- */

/* A part of layers that makes queries and keys of attention, in models made here (gyre_layer_part). */
typedef struct gyre_head_part_facts {
    const char *key;        /* of config.json, and the name of a gyre_reading_field: "polar" */
    const char *option;     /* another one, which changes what it computes; NULL = none */
    const char *note;       /* of the gyre_reading_field */
    int replaces_rotation;  /* 1: it rotates in the place of the encoding; 0: in front of the encoding's rotation */
    int64_t channel_factor; /* channels of attention for each channel of a query or key */
} gyre_head_part_facts;
/* out = those of part i, i >= 0; NULL = there are no more. */
GYRE_API const gyre_head_part_facts *gyre_head_part_facts_at(int i);

#ifdef __cplusplus
}
#endif
#endif /* GYRE_FIELDS_H */
