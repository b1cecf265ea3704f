/* explorer_numbers.h: what every part of the explorer's module shares: its last error, and exported functions. */
#ifndef GYRE_EXPLORER_NUMBERS_H
#define GYRE_EXPLORER_NUMBERS_H
#include "gyre/gyre.h"

/* Exports a function to JavaScript under its own name.  Other compilers build the same files for the tests. */
#if defined(__wasm__)
#define EXPLORER_EXPORT(name) __attribute__((export_name(#name)))
#else
#define EXPLORER_EXPORT(name)
#endif

/* The error of the last call that failed; static. */
extern gyre_error explorer_failure;

EXPLORER_EXPORT(explorer_error) const char *explorer_error(void);
EXPLORER_EXPORT(explorer_version) const char *explorer_version(void);
/* out = bytes for arguments; explorer_free gives them back. */
EXPLORER_EXPORT(explorer_alloc) void *explorer_alloc(size_t bytes);
EXPLORER_EXPORT(explorer_free) void explorer_free(void *memory);
/* out = *memory, grown to `bytes` where it is smaller; NULL and explorer_failure without memory.  The content is lost. */
void *explorer_grow(void **memory, size_t *size, size_t bytes);

/* -- one rotation -- */
/* Every function below is about the setup of the last call of explorer_setup. */
/* Numbers are doubles, which JavaScript has.  method: as in tools/common/methods.h; NULL or a bad one fails.  factor: for a
 * method without a number; 0 = as `gyre eval` takes it.  out = GYRE_OK, or a status with explorer_failure set. */
EXPLORER_EXPORT(explorer_setup)
int explorer_setup(const char *method, double factor, double base, double head_dim, double trained, double target,
                   double beta_fast, double beta_slow);
/* out = number of pairs. */
EXPLORER_EXPORT(explorer_pairs) int explorer_pairs(void);
/* out = [pairs] radians per position, of the method or (trained 1) of "none"; until the next setup. */
EXPLORER_EXPORT(explorer_inv_freq) const double *explorer_inv_freq(int trained);
EXPLORER_EXPORT(explorer_attention_factor) double explorer_attention_factor(void);
EXPLORER_EXPORT(explorer_factor) double explorer_factor(void);
/* out = number of pairs kept (0), blended (1) or divided (2). */
EXPLORER_EXPORT(explorer_part) int explorer_part(int which);
/* out = [pairs][count] angles in -pi .. pi at positions from + c step; NULL after an error; until the next call. */
EXPLORER_EXPORT(explorer_angles) const float *explorer_angles(double from, int count, double step);
/* out = [pairs][count] how far the angle at distances |from + c step| is past the arc that training showed, in shares of
 * the arc (method_map_excess); NULL after an error; until the next call. */
EXPLORER_EXPORT(explorer_excess) const float *explorer_excess(double from, int count, double step);
/* out = [pairs] the length of the mean of e^(i angle) over distances `width` apart in all: 1 = they point alike, 0 = the
 * pair goes round within them; until the next call. */
EXPLORER_EXPORT(explorer_resultant) const double *explorer_resultant(double width);
/* out = [pairs] first position with an angle past those of positions 0 .. trained under "none"; INFINITY if training showed
 * a whole revolution, or no position gets there. */
EXPLORER_EXPORT(explorer_unseen) const double *explorer_unseen(void);
/* out = [pairs] 1 = as trained, 0 = divided by the factor. */
EXPLORER_EXPORT(explorer_kept) const double *explorer_kept(void);
/* mean[i], bound[i] = of cos(angle) over the pairs, and of the partial sums of e^(i angle), at distances[i], i < n. */
EXPLORER_EXPORT(explorer_decay) void explorer_decay(const double *distances, int n, double *mean, double *bound);
/* vector[head_dim], rotated in place.  out = GYRE_OK, or a status with explorer_failure set. */
EXPLORER_EXPORT(explorer_rotate) int explorer_rotate(float *vector, double position);

/* -- a score -- */
/* The score of a query q[head_dim] at position m and a key k[head_dim] at n, as a sum over pairs, before the softmax:
 * bars[i] = amplitude[i] cos((m - n) theta_i + phase[i]), computed from both rotated vectors.  out = GYRE_OK, or a status
 * with explorer_failure set. */
EXPLORER_EXPORT(explorer_score)
int explorer_score(const float *q, const float *k, double m, double n, double *bars, double *amplitude, double *phase);

/* -- methods -- */
/* out = name of method `index`, then what its number is ("factor", "base", "past", "window", "pairs", "none"; "slopes" = for
 * ALiBi alone), then flags: 1 follows the length, 2 far pairs only; then its colour on a light and on a dark ground, and the
 * path of its symbol; separated by spaces; NULL past the last; until the next call. */
EXPLORER_EXPORT(explorer_method) const char *explorer_method(int index);
/* out = the colour of an encoding or method on a light and on a dark ground, and the path of its symbol, as in every figure
 * (subject_looks.def); until the next call. */
EXPLORER_EXPORT(explorer_look) const char *explorer_look(const char *name);

/* -- colours -- */
/* pixels[n] = the colours of angles -pi .. pi as bytes red, green, blue, opaque (gyre_report_angle_color). */
EXPLORER_EXPORT(explorer_wheel) void explorer_wheel(double resultant, int n, uint32_t *pixels);
/* out = the colour of an excess, 0xRRGGBB, and its strength (gyre_report_excess_color). */
EXPLORER_EXPORT(explorer_excess_color) int explorer_excess_color(double excess);
EXPLORER_EXPORT(explorer_excess_strength) double explorer_excess_strength(double excess);

/* -- biases -- */
typedef struct explorer_bias_params {
    double heads, buckets, max_distance, bidirectional, r1, r2, sandwich_dim, seed; /* 0 = the paper's */
    double factor;                                                                  /* of stretched slopes; 0 = 4 */
} explorer_bias_params;
/* map[heads][n][n] = what `kind` adds to scores; bucket[n][n] = rows of its table, -1 where there are none.  kind: the name
 * of a scheme that puts a number on scores, "deberta", or a form: "alibi-linear", "alibi-ntk", "kerple-log", "kerple-power".
 * table: [rows][heads] for t5, or NULL = an example.  out = GYRE_OK, or a status with explorer_failure set. */
EXPLORER_EXPORT(explorer_bias)
int explorer_bias(const char *kind, const explorer_bias_params *params, const float *table, int n, float *map,
                  int32_t *bucket);
#endif
