/* diff_compare.h: two readings side by side: what they say differently, and what that does to rotations and scores. */
#ifndef GYRE_TOOLS_DIFF_COMPARE_H
#define GYRE_TOOLS_DIFF_COMPARE_H
#include "tools/explain/explain_stats.h"
#include "tools/explain/explain_text.h"

/* A setting that differs, in words. */
typedef struct diff_setting {
    const char *name; /* "layout", "window" */
    char a[EXPLAIN_TEXT_SIZE], b[EXPLAIN_TEXT_SIZE];
} diff_setting;
enum { DIFF_MAX_SETTINGS = 48 };

/* The same layers in both. */
typedef struct diff_layers {
    explain_stats a, b;
    diff_setting settings[DIFF_MAX_SETTINGS]; /* other than frequencies and factors */
    int settings_count;
    int reordered; /* the layouts differ, and so do the formats: who writes a GGUF reorders the weights to match */
    int rotates;   /* both turn pairs: what follows up to the ratios holds */
    double max_relative_difference; /* the largest |b - a| / a of any pair's frequency; infinite where a pair stands still in
                                       a */
    int64_t pair;                   /* which; -1 where all are the same */
    int uniform_ratio;              /* every pair differs by as much */
    double max_difference; /* the largest |b - a|, radians per position; a pair that one side lacks stands still there */
    int64_t max_difference_pair; /* which; -1 where all are the same */
    int64_t first_position;      /* where some pair is more than 0.01 rad off; -1 = nowhere up to 2^31 */
    int64_t length;              /* the length in use */
    double angle_difference;     /* radians, of pair max_difference_pair at that position */
    double factor_ratio;         /* attention factors, b over a */
    double scale_ratio;          /* what scores are multiplied by, b over a; 1 where neither side tells */
    double softmax_ratio;        /* the part of it that a scaling adds */
    double score_ratio;          /* of scores of turning channels: factor_ratio^2 scale_ratio */
    int same_frequencies, same;
} diff_layers;

/* One line of the table of what is read differently: either side may have no such field. */
typedef struct diff_field {
    const gyre_reading_field *a, *b;
} diff_field;

/* Largest relative difference that is rounding. */
#define DIFF_ROUNDING 1e-12
/* Radians that count as another rotation. */
#define DIFF_ANGLE 0.01L

/* out = the least m >= 0 with m * gap > 0.01, or -1 where it is past 2^31. */
int64_t diff_first_position(double gap);
/* *out = one group of each reading, for diff_layers_free. */
gyre_status diff_layers_compare(diff_layers *out, const gyre_reading *a, const gyre_layer_reading *group_a,
                                const gyre_reading *b, const gyre_layer_reading *group_b, gyre_error *err);
void diff_layers_free(diff_layers *layers);
/* diff_settings.c: fills settings with what differs in the two configs. */
void diff_settings_compare(diff_layers *layers);
/* Fields whose values differ, at most `most`; out = how many. */
int diff_fields_compare(const gyre_layer_reading *a, const gyre_layer_reading *b, diff_field *out, int most);

/* -- two readings -- */
enum { DIFF_MAX_GROUPS = 32, DIFF_MAX_FIELDS = 64 };
typedef struct diff_operand {
    const char *path;
    gyre_profile profile;  /* as asked for */
    gyre_reading *reading; /* NULL where it was refused */
    gyre_status status;
    gyre_error err;
    char label[32]; /* "vllm", or "A" where both have one reader */
} diff_operand;

typedef struct diff_result {
    diff_operand operand[2];
    diff_layers *layers; /* [count] */
    int count;
    const gyre_layer_reading *unmatched[2][DIFF_MAX_GROUPS]; /* groups of a side that the other has no partner for */
    int unmatched_count[2];
    int same;
    char verdict[1024];
} diff_result;
/* Reads nothing: both sides are open, or one refused.  Fills in all but the sides. */
gyre_status diff_compare(diff_result *result, const char *layer_type, gyre_error *err);
void diff_result_free(diff_result *result);
/* diff_verdict.c: one sentence. */
void diff_verdict(diff_result *result);

/* diff_view.c and diff_json.c */
void diff_view(const explain_terminal *page, const diff_result *result);
int diff_write_json(const diff_result *result, FILE *file);

#endif
