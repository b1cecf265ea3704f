/* diff_compare.h: two readings side by side: what differs, and the effect on rotations and scores. */
#ifndef GYRE_TOOLS_DIFF_COMPARE_H
#define GYRE_TOOLS_DIFF_COMPARE_H
#include "tools/common/methods.h"
#include "tools/explain/explain_accuracy.h"
#include "tools/explain/explain_format.h"
#include "tools/explain/explain_stats.h"
#include "tools/explain/explain_terminal.h"

/* A setting that differs, as text. */
typedef struct diff_setting {
    const char *name; /* "layout", "window" */
    char a[EXPLAIN_TEXT_SIZE], b[EXPLAIN_TEXT_SIZE];
} diff_setting;
enum { DIFF_MAX_SETTINGS = 160 }; /* more than gyre_config has fields */

/* The same layers in both readings. */
typedef struct diff_layers {
    explain_stats a, b;
    diff_setting settings[DIFF_MAX_SETTINGS]; /* other than frequencies and factors */
    int settings_count;
    int parts_differ; /* 1: layers of one train what those of the other do not */
    int reordered;    /* 1: both layout and format differ; the converter to GGUF reorders the weights to match */
    int rotates;      /* 1: both rotate pairs; the fields up to the ratios are valid */
    double max_relative_difference; /* largest |b - a| / a of any pair's frequency; infinite for a pair that is not
                                       rotated in a */
    int64_t pair;                   /* that pair; -1 if all are the same */
    int uniform_ratio;              /* 1: all pairs differ by the same ratio */
    double max_difference; /* largest |b - a| in radians per position; a pair that one side lacks has frequency 0 there */
    int64_t max_difference_pair; /* that pair; -1 if all are the same */
    int64_t first_distance;      /* of two tokens that rotate otherwise, as rope.far of one or both says; -1 = none */
    int64_t first_position;      /* first position where a pair is more than 0.01 rad off; -1 = none up to 2^31 */
    int64_t start_tokens;        /* the first tokens, which rotate as trained in at least one reading; 0 = none */
    int64_t length;              /* the length in use */
    double angle_difference;     /* of pair max_difference_pair at that position, in radians */
    double factor_ratio;         /* attention factors, b over a */
    double scale_ratio;          /* multipliers of scores, b over a; 1 if either is not known */
    double softmax_ratio;        /* the part of it that comes from a scaling */
    double score_ratio;          /* of scores of rotated channels: factor_ratio^2 scale_ratio */
    int same_frequencies, same;
    const explain_accuracy *accuracy[2]; /* of a and b, or NULL */
} diff_layers;

/* One line of the table of fields.  NULL: that side has no such field. */
typedef struct diff_field {
    const gyre_reading_field *a, *b;
} diff_field;

/* Largest relative difference that counts as rounding. */
#define DIFF_ROUNDING 1e-12
/* Radians above which a rotation counts as different. */
#define DIFF_ANGLE 0.01L

/* out = 1 if a pair of this frequency is less than DIFF_ANGLE from where it began at every position up to 2^31. */
int diff_stands_still(double inv_freq);
/* out = the smallest m >= 0 with m * gap > 0.01, or -1 if it is past 2^31. */
int64_t diff_first_position(double gap);
/* *out = the comparison of one group of each reading, released with diff_layers_free.  Errors: those of
 * explain_stats_compute. */
gyre_status diff_layers_compare(diff_layers *out, const gyre_reading *a, const gyre_layer_reading *group_a,
                                const gyre_reading *b, const gyre_layer_reading *group_b, gyre_error *err);
void diff_layers_free(diff_layers *layers);
/* diff_settings.c: fills in `settings`. */
void diff_settings_compare(diff_layers *layers);
/* Adds a setting if groups of one name hold other layers of those that both models have. */
void diff_layer_lists_compare(diff_layers *layers, const gyre_reading *a, const gyre_reading *b);
/* out[0 .. returned - 1] = the fields whose values differ, at most `max`; and the lists of LongRoPE where a program says
 * which of them it uses. */
int diff_fields_compare(const gyre_layer_reading *a, const gyre_layer_reading *b, diff_field *out, int max);

/* -- two readings -- */
enum { DIFF_MAX_GROUPS = 32, DIFF_MAX_FIELDS = 64 };
typedef struct diff_operand {
    const char *path;
    gyre_profile profile;  /* as requested; once read, the one that read the file or refused it */
    gyre_reading *reading; /* NULL if the profile refused the file */
    gyre_status status;
    gyre_error err;
    char label[32]; /* "vllm", or "A" if both have the same profile */
} diff_operand;

typedef struct diff_result {
    diff_operand operand[2];
    diff_layers *layers; /* [count] */
    int count;
    const gyre_layer_reading *unmatched[2][DIFF_MAX_GROUPS]; /* groups without a match on the other side */
    int unmatched_count[2];
    explain_accuracy *accuracy[2 * DIFF_MAX_GROUPS]; /* of a and b of each of layers[]; NULL = not measured */
    int same;
    char verdict[1024];
} diff_result;
/* Compares the operands, which are read already; one may have been refused.  layer_type NULL = all layers.  Errors: ENOMEM,
 * EUNSUPPORTED (too many groups), those of explain_stats_compute. */
gyre_status diff_compare(diff_result *result, const char *layer_type, gyre_error *err);
/* Fills in `accuracy` of all layers that rotate.  Errors: ENOMEM, those of explain_accuracy_compute. */
gyre_status diff_measure_accuracy(diff_result *result, gyre_error *err);
void diff_result_free(diff_result *result);
/* diff_verdict.c: writes the verdict, one sentence. */
void diff_verdict(diff_result *result);
/* Appends to a text of `size` bytes, cut at its end. */
void diff_append(char *text, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* diff_view.c and diff_json.c */
void diff_view(const explain_terminal *page, const diff_result *result);
struct diff_draft;
/* draft: with --draft; NULL = without. */
int diff_write_json(const diff_result *result, const struct diff_draft *draft, FILE *file);

#endif
