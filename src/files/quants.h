/* quants.h: the block formats of ggml, widened to float.
 *
 * A block is 32 or 256 numbers of a row: small whole numbers q and one or two scales of 16 bits.  Every result is what
 * ggml's own reference gives, to the bit: products and differences in float in the order that is written beside each, no
 * FMA. */
#ifndef GYRE_MODEL_QUANTS_H
#define GYRE_MODEL_QUANTS_H
#include <stdint.h>

/* Numbers of a block, and its bytes. */
enum { GYRE_Q_BLOCK = 32, GYRE_QK_K = 256 };
enum { GYRE_Q8_0_BYTES = 34, GYRE_Q4_0_BYTES = 18, GYRE_Q4_K_BYTES = 144, GYRE_Q5_K_BYTES = 176, GYRE_Q6_K_BYTES = 210 };
/* Where in a block its scale d is, and that of the least (Q4_K, Q5_K), both f16. */
enum { GYRE_Q_SCALE = 0, GYRE_K_DMIN = 2, GYRE_Q6_K_SCALE = 208 };

/* out[0 .. n - 1] = the numbers of a row of blocks; n a multiple of the block; `row` is aligned to nothing. */
void gyre_dequantize_q8_0(const void *row, float *out, int64_t n);
void gyre_dequantize_q4_0(const void *row, float *out, int64_t n);
void gyre_dequantize_q4_k(const void *row, float *out, int64_t n);
void gyre_dequantize_q5_k(const void *row, float *out, int64_t n);
void gyre_dequantize_q6_k(const void *row, float *out, int64_t n);

#endif
