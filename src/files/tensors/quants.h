/* quants.h: dequantizes the block formats of ggml.
 *
 * A block holds 32 or 256 numbers of a row: small integers q and one or two f16 scales.  Results are bit-identical to
 * those of ggml's reference code: products and differences are computed in float, in the order written beside each
 * format, without FMA. */
#ifndef GYRE_FILES_QUANTS_H
#define GYRE_FILES_QUANTS_H
#include <stdint.h>

/* Numbers per block, and bytes per block. */
enum { GYRE_Q_BLOCK = 32, GYRE_QK_K = 256 };
enum { GYRE_Q8_0_BYTES = 34, GYRE_Q4_0_BYTES = 18, GYRE_Q4_K_BYTES = 144, GYRE_Q5_K_BYTES = 176, GYRE_Q6_K_BYTES = 210 };
/* Offsets in a block, both f16: the scale d, and the scale m of the minima (Q4_K, Q5_K). */
enum { GYRE_Q_SCALE = 0, GYRE_K_DMIN = 2, GYRE_Q6_K_SCALE = 208 };

/* out[0 .. n - 1] = the numbers of a row of blocks.  n is a multiple of the block; `row` needs no alignment. */
void gyre_dequantize_q8_0(const void *row, float *out, int64_t n);
void gyre_dequantize_q4_0(const void *row, float *out, int64_t n);
void gyre_dequantize_q4_k(const void *row, float *out, int64_t n);
void gyre_dequantize_q5_k(const void *row, float *out, int64_t n);
void gyre_dequantize_q6_k(const void *row, float *out, int64_t n);

#endif
