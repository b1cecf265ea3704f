/* row_math.h: functions of rows of doubles, in loops that compilers vectorize.  Only +, -, *, / and bits: the same
 * results on every processor. */
#ifndef GYRE_TRAINED_ROW_MATH_H
#define GYRE_TRAINED_ROW_MATH_H
#include <stdint.h>

/* cosine[i], sine[i] = those of angle[i], within 2^-52.5 of them up to 2^31; further away those of libm.  angle
 * may not overlap the results. */
void gyre_row_cos_sin(const double *angle, int64_t n, double *cosine, double *sine);
/* out[i] = ln(1 + e^x[i]), within 2^-51.5 of its size.  out may be x. */
void gyre_row_softplus(const double *x, int64_t n, double *out);
/* out[i] = 1 / (1 + e^-x[i]), the slope of softplus, within 2^-51 of its size.  out may be x. */
void gyre_row_sigmoid(const double *x, int64_t n, double *out);

#endif
