/* explain_accuracy.h: how far the angles of each program are from exact ones, and what that does to scores. */
#ifndef GYRE_TOOLS_EXPLAIN_ACCURACY_H
#define GYRE_TOOLS_EXPLAIN_ACCURACY_H
#include "tools/explain/explain_stats.h"
#include "tools/explain/explain_terminal.h"

enum { ACCURACY_PROGRAMS = 8, ACCURACY_LENGTHS = 5, ACCURACY_CACHES = 6, ACCURACY_SHIFTS = 3, ACCURACY_REASON = 192 };
/* The position of cached keys before they are shifted, and by how much a shift moves them.  moves_from: numbers of so
 * many digits. */
enum { ACCURACY_KEY_POSITION = 65536, ACCURACY_SHIFT = -64, ACCURACY_DIGITS = 2 };
/* Pairs of a head, and of all heads that one command measures.  Heads of more than ACCURACY_USUAL_PAIRS are measured at
 * fewer positions, so that a config of a few bytes costs no more than that of a model. */
enum { ACCURACY_USUAL_PAIRS = 256, ACCURACY_MOST_PAIRS = 32768 };
enum { ACCURACY_USUAL_QUERIES = 8, ACCURACY_USUAL_RATIO = 8 }; /* search_queries and distance_ratio of such a head */

typedef struct explain_accuracy {
    int64_t lengths[ACCURACY_LENGTHS]; /* ascending: contexts of 4k, 32k, 128k, 1M tokens and the model's own, each once */
    int count;                         /* of them */
    char reason[ACCURACY_PROGRAMS][ACCURACY_REASON]; /* why a program's angles are not computed; "" = they are */
    /* Measured: all positions below `every`, `of_octave` of each doubling from there on, `last` consecutive ones at a time,
     * and the last ones of each length. */
    int64_t every, of_octave, last;
    int64_t angles;           /* the work: pairs whose cos and sin were computed, over all positions and programs */
    int64_t largest_position; /* under dual chunks: of any angle that is made; 0 = each position has its own angle */
    int follows_length;       /* 1: lengths[i] has its own frequencies */
    int turns_in_weights;     /* 1: layers train their rotation, so nothing from `error` on is computed */
    /* Largest error of cos and sin over the pairs, among the measured positions of a context of lengths[i] tokens.  Never
     * falls with i, unless follows_length. */
    double error[ACCURACY_PROGRAMS][ACCURACY_LENGTHS];
    /* From this position on a score moves by more than `rounding`; 0 = nowhere up to search_end.  Found among
     * search_of_doubling positions of each doubling, from search_end down to the first that moves a score by no more, and by
     * bisection between that one and the one before, among numbers of ACCURACY_DIGITS digits.  At each: so many queries up to
     * it, and keys 1, distance_ratio, its square ... tokens before it, and the first token. */
    int64_t moves_from[ACCURACY_PROGRAMS], search_end;
    int64_t search_of_doubling, search_queries, distance_ratio;
    double attention_factor;
    /* The attention factor as a 16-bit table has it, and by how much that alone moves the score of a pair that does not
     * rotate, over its size.  0 for tables of floats. */
    double table_factor[ACCURACY_PROGRAMS], factor_moves[ACCURACY_PROGRAMS];
    double rounding; /* root mean square of the change of a score, over the score's own, when query and key become bf16 */
    /* The same for a rotated key alone that a cache keeps, and after 1, 10, 100 shifts.  NAN: the cache takes no such
     * head, or its program has no such layers. */
    double kept[ACCURACY_CACHES], shifted[ACCURACY_CACHES][ACCURACY_SHIFTS];
    int64_t keys; /* 64 of them; fewer of a head above 1024 channels */
} explain_accuracy;

/* out = the name of program p, of the program and the type of cache c; shifts of column s. */
const char *explain_accuracy_program(int p);
const char *explain_accuracy_cache(int c);
const char *explain_accuracy_type(int c);
int64_t explain_accuracy_shifts(int s);

/* out = 1 if all that is shown of a and b is the same. */
int explain_accuracy_equal(const explain_accuracy *a, const explain_accuracy *b);
/* made[i] = the accuracy of stats[i], NULL where it does not rotate.  Groups that rotate alike are computed once and
 * have the same pointer.  More pairs in all than four usual heads share their work.  Errors: EUNSUPPORTED (more than
 * ACCURACY_MOST_PAIRS in all), ENOMEM, those of gyre_encoding_create; made[] is then to be freed too. */
gyre_status explain_accuracy_compute(explain_accuracy **made, const explain_stats *const *stats, int count, gyre_error *err);
void explain_accuracy_free(explain_accuracy **made, int count);
/* explain_accuracy_caches.c: fills in rounding, kept, shifted and keys.  config: without positions in chunks, magnitudes,
 * temperature and start tokens. */
gyre_status explain_accuracy_of_caches(explain_accuracy *out, const gyre_config *config, gyre_error *err);
/* explain_accuracy_view.c */
void explain_accuracy_view(const explain_terminal *page, const explain_accuracy *accuracy);
json_t *explain_accuracy_json(const explain_accuracy *accuracy);

#endif
