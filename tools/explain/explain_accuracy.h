/* explain_accuracy.h: how far the angles of each program are from exact ones, and what that does to scores. */
#ifndef GYRE_TOOLS_EXPLAIN_ACCURACY_H
#define GYRE_TOOLS_EXPLAIN_ACCURACY_H
#include "tools/explain/explain_stats.h"
#include "tools/explain/explain_terminal.h"

enum { ACCURACY_PROGRAMS = 6, ACCURACY_POSITIONS = 5, ACCURACY_TYPES = 3, ACCURACY_SHIFTS = 3 };

typedef struct explain_accuracy {
    int64_t positions[ACCURACY_POSITIONS]; /* ascending: 4k, 32k, 128k, 1M and the model's own length, each once */
    int count;                             /* of them */
    int has[ACCURACY_PROGRAMS];            /* 0: the program has no such scaling or axes, or this build has no SLEEF */
    int64_t neighbours, keys; /* 16 positions up to each of positions[], and 64 keys; fewer of a head above 1024 channels */
    /* Largest error of cos and sin over the pairs, in the `neighbours` positions up to positions[i]. */
    double error[ACCURACY_PROGRAMS][ACCURACY_POSITIONS];
    /* From here on a score moves by more than `rounding`; 0 = nowhere up to 2^24. */
    int64_t moves_from[ACCURACY_PROGRAMS];
    double rounding; /* root mean square of the change of a score, over the score's own, when query and key become bf16 */
    /* The same for a rotated key alone that is kept in a type, and after it was shifted 1, 10, 100 times. */
    double kept[ACCURACY_TYPES], shifted[ACCURACY_TYPES][ACCURACY_SHIFTS];
} explain_accuracy;

/* out = the name of program p, of cache type t; shifts of column s. */
const char *explain_accuracy_program(int p);
const char *explain_accuracy_type(int t);
int64_t explain_accuracy_shifts(int s);

/* Only for groups that rotate (stats->pairs > 0).  Errors: ENOMEM, those of gyre_encoding_create. */
gyre_status explain_accuracy_compute(explain_accuracy *out, const explain_stats *stats, gyre_error *err);
/* explain_accuracy_view.c */
void explain_accuracy_view(const explain_terminal *page, const explain_accuracy *accuracy);
json_t *explain_accuracy_json(const explain_accuracy *accuracy);

#endif
