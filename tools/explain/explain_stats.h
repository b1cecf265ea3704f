/* explain_stats.h: the numbers of one group of layers, computed by the library from its config. */
#ifndef GYRE_TOOLS_EXPLAIN_STATS_H
#define GYRE_TOOLS_EXPLAIN_STATS_H
#include "gyre/gyre_model.h"
#include <jansson.h>

/* The effect of a scaling on a pair of channels. */
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
    const gyre_config *config; /* of `encoding`, with defaults filled in */
    char label[64];            /* "rope+yarn" */
    int64_t pairs;             /* rotated pairs; 0 = the scheme is no rotation, and inv_freq, freq_factor, state are NULL */
    double *inv_freq;          /* [pairs], at `length` */
    double *freq_factor;       /* [pairs] divisor of the trained frequency; infinite for pairs that are not rotated */
    explain_pair_state *state; /* [pairs] */
    int64_t count[EXPLAIN_PAIR_STATES];
    double attention_factor;       /* of cos and sin; 1 without rotation */
    double *slopes;                /* [config->heads] of ALiBi, else NULL */
    double scale;                  /* total multiplier of scores; 0 = the file does not state head_dim */
    int64_t trained;               /* tokens; 0 = not known */
    int64_t length;                /* the length in use; 0 = not known */
    int64_t max_length;            /* the longest stated length with these frequencies; at least `length` */
    int64_t incomplete;            /* pairs that make less than one revolution in `trained` tokens */
    int64_t incomplete_max_length; /* ... in `max_length` tokens */
} explain_stats;

/* *out = the numbers, released with explain_stats_free.  Errors: ENOMEM, those of gyre_encoding_create. */
gyre_status explain_stats_compute(explain_stats *out, const gyre_reading *reading, const gyre_layer_reading *group,
                                  gyre_error *err);
void explain_stats_free(explain_stats *stats);
/* out = the field of that name, or NULL. */
const gyre_reading_field *explain_find_field(const gyre_layer_reading *group, const char *name);
/* out = 1 if frequencies depend on the length in use, so that gyre_length_policy matters. */
int explain_depends_on_length(const explain_stats *stats);
/* out = the base after NTK or dynamic NTK changed it at `length`; the config's own under other scalings. */
double explain_base_in_use(const explain_stats *stats);
/* out = tokens per revolution; infinite for a pair that is not rotated. */
double explain_wavelength(double inv_freq);
/* out = 1 if a pair of that frequency makes less than one revolution in `tokens` tokens; 0 for 0 tokens. */
int explain_wavelength_exceeds(double inv_freq, int64_t tokens);
/* explain_scheme.c: writes what a scheme without pairs does, in one line: "32 buckets: ..."; "" if there is nothing to
 * say. */
void explain_describe_scheme(const explain_stats *stats, char *out, size_t size);

/* explain_json.c: sets the keys that describe a group.  out = 0, or 1 if memory runs out. */
int explain_group_json(json_t *object, const gyre_reading *reading, const explain_stats *stats);
/* out = [{text, see, key, line, kind}], one per warning. */
json_t *explain_warnings_json(const gyre_reading *reading);
/* out = "unread_key", "assumed" or "other". */
const char *explain_warning_kind(const gyre_reading_warning *warning);
/* out = {value, from, key, line, why}; named: also its name. */
json_t *explain_field_json(const gyre_reading_field *field, int named);

#endif
