/* quants.c: the block formats of ggml.  Loops of fixed length, which compilers make vectors of: first over bytes, then from
 * bytes to floats. */
#include "files/quants.h"

#include "kernels/half_precision.h"

static inline float scale_at(const unsigned char *bytes) {
    return gyre_f16_widen((uint16_t)(bytes[0] | bytes[1] << 8));
}

/* d, then 32 signed bytes q: q d. */
void gyre_dequantize_q8_0(const void *row, float *out, int64_t n) {
    const unsigned char *block = row;
    for (; n > 0; n -= GYRE_Q_BLOCK, block += GYRE_Q8_0_BYTES, out += GYRE_Q_BLOCK) {
        const float d = scale_at(block);
        const signed char *q = (const signed char *)block + 2;
        for (int i = 0; i < GYRE_Q_BLOCK; i++)
            out[i] = (float)q[i] * d;
    }
}

/* d, then 16 bytes: low halves are numbers 0 to 15, high halves 16 to 31: (q - 8) d. */
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

/* Q4_K and Q5_K: eight groups of 32 with a scale and a least of 6 bits each, in 12 bytes: those of groups 0 to 3 in the low
 * bits of bytes 0 to 3 and 4 to 7; those of 4 to 7 in the halves of bytes 8 to 11, their upper two bits on top of those of
 * group - 4. */
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

/* d, m, the groups, then 128 bytes, 32 for each two groups, of which the first has the low halves: (d s) q - (m l). */
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

/* The two groups g and g + 1 of 32.  Where g is a literal, shifts of bytes are vectors'. */
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

/* The same with a fifth bit, on top: bit g of byte i of 32 is that of number i of group g. */
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

/* Numbers 32 k to 32 k + 31 of a half block, k a literal. */
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

/* Two halves of 128 numbers.  Of each, 64 bytes hold the low four bits and 32 the upper two: number 32 k + i has its low
 * ones in byte i + 32 (k & 1), in the low half for k < 2, and its upper ones in bits 2 k of byte i.  16 numbers share a
 * signed scale s of 8 bits: (d s) (q - 32). */
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
