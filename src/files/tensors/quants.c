/* quants.c: the block formats of ggml.  Loops have a fixed length, so that compilers vectorise them: bytes first, then
 * bytes to floats. */
#include "files/tensors/quants.h"

#include "kernels/half_precision.h"

static inline float scale_at(const unsigned char *bytes) {
    return gyre_f16_widen((uint16_t)(bytes[0] | bytes[1] << 8));
}

/* Block: d, 32 signed bytes q.  Number = q d. */
void gyre_dequantize_q8_0(const void *row, float *out, int64_t n) {
    const unsigned char *block = row;
    for (; n > 0; n -= GYRE_Q_BLOCK, block += GYRE_Q8_0_BYTES, out += GYRE_Q_BLOCK) {
        const float d = scale_at(block);
        const signed char *q = (const signed char *)block + 2;
        for (int i = 0; i < GYRE_Q_BLOCK; i++)
            out[i] = (float)q[i] * d;
    }
}

/* Block: d, 16 bytes.  Low halves are numbers 0 to 15, high halves 16 to 31.  Number = (q - 8) d. */
void gyre_dequantize_q4_0(const void *row, float *out, int64_t n) {
    const unsigned char *block = row;
    for (; n > 0; n -= GYRE_Q_BLOCK, block += GYRE_Q4_0_BYTES, out += GYRE_Q_BLOCK) {
        const float d = scale_at(block);
        signed char q[GYRE_Q_BLOCK];
        for (int i = 0; i < 16; i++) {
            q[i] = (signed char)((block[2 + i] & 15) - 8);
            q[i + 16] = (signed char)((block[2 + i] >> 4) - 8);
        }
        for (int i = 0; i < GYRE_Q_BLOCK; i++)
            out[i] = (float)q[i] * d;
    }
}

/* Q4_K and Q5_K: eight groups of 32 numbers, each with a 6-bit scale and a 6-bit minimum, in 12 bytes:
 *
 *    bytes 0 .. 3    low 6 bits: scales of groups 0 to 3     upper 2 bits: top of scales of groups 4 to 7
 *    bytes 4 .. 7    low 6 bits: minima of groups 0 to 3     upper 2 bits: top of minima of groups 4 to 7
 *    bytes 8 .. 11   low 4 bits: scales of groups 4 to 7     high 4 bits: minima of groups 4 to 7 */
static inline void unpack_scales_mins(const unsigned char *block, float scale[8], float mins[8]) {
    const float d = scale_at(block + GYRE_Q_SCALE), m = scale_at(block + GYRE_K_DMIN);
    const unsigned char *p = block + 4;
    for (int g = 0; g < 4; g++) {
        scale[g] = d * (float)(p[g] & 63);
        mins[g] = m * (float)(p[g + 4] & 63);
        scale[g + 4] = d * (float)((p[g + 8] & 15) | p[g] >> 6 << 4);
        mins[g + 4] = m * (float)(p[g + 8] >> 4 | p[g + 4] >> 6 << 4);
    }
}

/* Block: d, m, the 12 bytes of groups, 128 bytes.  Each 32 bytes hold two groups, the first in the low halves.  Number =
 * (d s) q - (m l), s and l being the group's scale and minimum. */
void gyre_dequantize_q4_k(const void *row, float *out, int64_t n) {
    const unsigned char *block = row;
    for (; n > 0; n -= GYRE_QK_K, block += GYRE_Q4_K_BYTES, out += GYRE_QK_K) {
        float scale[8], mins[8];
        unpack_scales_mins(block, scale, mins);
        for (int g = 0; g < 8; g += 2) {
            const unsigned char *q = block + 16 + 16 * g;
            float *to = out + 32 * g;
            for (int i = 0; i < 32; i++)
                to[i] = scale[g] * (float)(q[i] & 15) - mins[g];
            for (int i = 0; i < 32; i++)
                to[i + 32] = scale[g + 1] * (float)(q[i] >> 4) - mins[g + 1];
        }
    }
}

/* Dequantizes groups g and g + 1.  g must be a literal: byte shifts by a constant are vectorised. */
static inline void dequantize_q5_groups(const unsigned char *low, const unsigned char *fifth, int g, const float scale[8],
                                        const float mins[8], float *out) {
    unsigned char q[64];
    for (int i = 0; i < 32; i++) {
        q[i] = (unsigned char)((low[16 * g + i] & 15) | (fifth[i] >> g & 1) << 4);
        q[i + 32] = (unsigned char)(low[16 * g + i] >> 4 | (fifth[i] >> (g + 1) & 1) << 4);
    }
    for (int i = 0; i < 32; i++)
        out[32 * g + i] = scale[g] * (float)q[i] - mins[g];
    for (int i = 32; i < 64; i++)
        out[32 * g + i] = scale[g + 1] * (float)q[i] - mins[g + 1];
}

/* As Q4_K with a fifth bit on top: bit g of byte i of 32 belongs to number i of group g. */
void gyre_dequantize_q5_k(const void *row, float *out, int64_t n) {
    const unsigned char *block = row;
    for (; n > 0; n -= GYRE_QK_K, block += GYRE_Q5_K_BYTES, out += GYRE_QK_K) {
        float scale[8], mins[8];
        unpack_scales_mins(block, scale, mins);
        dequantize_q5_groups(block + 48, block + 16, 0, scale, mins, out);
        dequantize_q5_groups(block + 48, block + 16, 2, scale, mins, out);
        dequantize_q5_groups(block + 48, block + 16, 4, scale, mins, out);
        dequantize_q5_groups(block + 48, block + 16, 6, scale, mins, out);
    }
}

/* Dequantizes numbers 32 k to 32 k + 31 of half a block.  k must be a literal. */
static inline void dequantize_q6_group(const unsigned char *low, const unsigned char *high, int k, float d,
                                       const signed char *s, float *out) {
    signed char q[32];
    for (int i = 0; i < 32; i++)
        q[i] = (signed char)(((low[32 * (k & 1) + i] >> (k / 2 * 4) & 15) | (high[i] >> 2 * k & 3) << 4) - 32);
    for (int j = 0; j < 2; j++) {
        const float scale = d * (float)s[2 * k + j];
        for (int i = 16 * j; i < 16 * j + 16; i++)
            out[32 * k + i] = scale * (float)q[i];
    }
}

/* Two halves of 128 numbers.  In each half, 64 bytes hold the low four bits and 32 bytes the upper two.  Number 32 k + i
 * has its low bits in byte i + 32 (k & 1), in the low half of the byte for k < 2, and its upper bits in bits 2 k and 2 k
 * + 1 of byte i.  16 numbers share a signed 8-bit scale s.  Number = (d s) (q - 32). */
void gyre_dequantize_q6_k(const void *row, float *out, int64_t n) {
    const unsigned char *block = row;
    for (; n > 0; n -= GYRE_QK_K, block += GYRE_Q6_K_BYTES, out += GYRE_QK_K) {
        const float d = scale_at(block + GYRE_Q6_K_SCALE);
        for (int half = 0; half < 2; half++) {
            const unsigned char *low = block + 64 * half, *high = block + 128 + 32 * half;
            const signed char *s = (const signed char *)block + 192 + 8 * half;
            dequantize_q6_group(low, high, 0, d, s, out + 128 * half);
            dequantize_q6_group(low, high, 1, d, s, out + 128 * half);
            dequantize_q6_group(low, high, 2, d, s, out + 128 * half);
            dequantize_q6_group(low, high, 3, d, s, out + 128 * half);
        }
    }
}
