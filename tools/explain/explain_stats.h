/* explain_stats.h: the numbers behind one group of layers, computed by the library from its config. */
#ifndef GYRE_TOOLS_EXPLAIN_STATS_H
#define GYRE_TOOLS_EXPLAIN_STATS_H
#include "gyre/gyre_model.h"
#include <jansson.h>

/* What a scaling makes of a pair of channels. */
typedef enum explain_pair_state {
    EXPLAIN_PAIR_UNSCALED,
    EXPLAIN_PAIR_BLENDED,
    EXPLAIN_PAIR_INTERPOLATED,
    EXPLAIN_PAIR_NOT_ROTATED,
    EXPLAIN_PAIR_STATES
} explain_pair_state;

typedef struct explain_stats {
    const gyre_layer_reading *group;
    gyre_encoding *encoding;
    const gyre_config *config; /* defaults filled in */
    char label[64];            /* "rope+yarn" */
    int64_t pairs;             /* that turn; 0 = the scheme is no rotation, and inv_freq and stretch are NULL */
    double *inv_freq;          /* [pairs], at `length` */
    double *freq_factor;       /* [pairs]: what a pair's trained frequency is divided by; infinite where it stands still */
    explain_pair_state *state; /* [pairs] */
    int64_t count[EXPLAIN_PAIR_STATES];
    double attention_factor;       /* of cos and sin; 1 where nothing turns */
    double *slopes;                /* [config->heads] of ALiBi, else NULL */
    double scale;                  /* of scores, all told; 0 = the file does not tell the size of a head */
    int64_t trained;               /* tokens; 0 = not known */
    int64_t length;                /* the length in use; 0 = not known */
    int64_t max_length;            /* how far the model says that it reads with these frequencies; at least `length` */
    int64_t incomplete;            /* pairs that never finish a turn within `trained` tokens */
    int64_t incomplete_max_length; /* ... within `reach` */
} explain_stats;

/* *out = the figures, for explain_stats_free.  ENOMEM; or what gyre_encoding_create says. */
gyre_status explain_stats_compute(explain_stats *out, const gyre_reading *reading, const gyre_layer_reading *group,
                                  gyre_error *err);
void explain_stats_free(explain_stats *stats);
/* out = 1 where pairs turn otherwise at another length in use, so that gyre_length_policy matters. */
int explain_depends_on_length(const explain_stats *stats);
/* Tokens of a whole turn; infinite where a pair stands still. */
double explain_wavelength(double inv_freq);
/* out = 1 where a pair of that frequency makes less than one turn in so many tokens; 0 for 0 tokens. */
int explain_wavelength_exceeds(double inv_freq, int64_t tokens);
/* out = "yarn", ...: how config.json calls a scaling. */
const char *explain_scaling_name(gyre_scaling scaling);
const char *explain_layout_name(gyre_layout layout);
/* out = "32 buckets: ...": what a scheme without pairs does, a line in words; "" where there is nothing to tell. */
void explain_describe_scheme(const explain_stats *stats, char *out, size_t size);

/* explain_json.c: the keys that describe a group, into `object`; 0, or 1 without memory. */
int explain_group_json(json_t *object, const gyre_reading *reading, const explain_stats *stats);
/* out = {text, key, line} of each warning. */
json_t *explain_warnings_json(const gyre_reading *reading);
/* out = {value, from, key, line, why}, with its name where `named`. */
json_t *explain_field_json(const gyre_reading_field *field, int named);

#endif
