/* quants_rare.c: dequantizes the types of stored_types.def that few files have.  Products and sums are computed in float, in
 * the order written beside each format, without FMA.  d is the block's scale. */
#include "kernels/quants/quants_rare.h"

#include "kernels/half_precision.h"
#include "kernels/quants/quant_blocks.h"
#include "kernels/quants/quant_grids.h"

#include <math.h>
#include <string.h>

/* The blocks of a row, one after the other. */
#define FOR_BLOCKS(type)                                                                                                    \
    for (const unsigned char *block = row; n > 0;                                                                           \
         n -= GYRE_##type##_COUNT, block += GYRE_##type##_BYTES, out += GYRE_##type##_COUNT)

static uint32_t u16_at(const unsigned char *bytes) {
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8;
}
static uint32_t u32_at(const unsigned char *bytes) {
    return u16_at(bytes) | u16_at(bytes + 2) << 16;
}
static float f16_at(const unsigned char *bytes) {
    return gyre_f16_widen((uint16_t)u16_at(bytes));
}
/* Nibble i of bytes; the low half of a byte is the first. */
static uint32_t nibble(const unsigned char *bytes, int i) {
    return (uint32_t)bytes[i / 2] >> (i % 2 * 4) & 15;
}

/* -- plain numbers and integers -- */
void gyre_dequantize_f64(const void *row, float *out, int64_t n) {
    FOR_BLOCKS(F64) {
        double x;
        memcpy(&x, block, sizeof x);
        *out = (float)x;
    }
}

/* Block: d, the f16 of a sum that is not needed here, 32 signed bytes q.  Number = q d. */
void gyre_dequantize_q8_1(const void *row, float *out, int64_t n) {
    FOR_BLOCKS(Q8_1) {
        const float d = f16_at(block);
        for (int i = 0; i < GYRE_Q8_1_COUNT; i++)
            out[i] = (float)(signed char)block[4 + i] * d;
    }
}

/* Block: d in f32, 256 signed bytes q, 16 sums that are not needed here.  Number = d q. */
void gyre_dequantize_q8_k(const void *row, float *out, int64_t n) {
    FOR_BLOCKS(Q8_K) {
        float d;
        memcpy(&d, block, sizeof d);
        for (int i = 0; i < GYRE_Q8_K_COUNT; i++)
            out[i] = d * (float)(signed char)block[4 + i];
    }
}

/* -- three values -- */
/* Block: 64 bytes of four numbers, d.  Numbers 32 k + i of each half of 128 are bits 2 k and 2 k + 1 of byte i of its 32.
 * Number = (q - 1) d. */
void gyre_dequantize_tq2_0(const void *row, float *out, int64_t n) {
    FOR_BLOCKS(TQ2_0) {
        const float d = f16_at(block + 64);
        for (int i = 0; i < GYRE_TQ2_0_COUNT; i++)
            out[i] = (float)((block[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2) & 3) - 1) * d;
    }
}

/* Digits of base three: digit k of `bytes` bytes, k < digits, is the number k bytes + i.  A byte is a fraction of 256, so
 * three times what is left after k digits has the next one above it. */
static float *put_ternary(float *out, const unsigned char *from, int bytes, int digits, float d) {
    for (int k = 0, power = 1; k < digits; k++, power *= 3)
        for (int i = 0; i < bytes; i++)
            *out++ = (float)(((from[i] * power & 255) * 3 >> 8) - 1) * d;
    return out;
}

/* Block: 32 and 16 bytes of five numbers, 4 bytes of four, d.  Number = (q - 1) d. */
void gyre_dequantize_tq1_0(const void *row, float *out, int64_t n) {
    FOR_BLOCKS(TQ1_0) {
        const float d = f16_at(block + 52);
        float *to = put_ternary(out, block, 32, 5, d);
        to = put_ternary(to, block + 32, 16, 5, d);
        put_ternary(to, block + 48, 4, 4, d);
    }
}

/* -- four bits of a float -- */
/* Half of an unsigned E4M3 of bias 7, which makes up for values that are doubled. */
static float half_of_e4m3(unsigned byte) {
    const int exponent = (int)(byte >> 3 & 15), fraction = (int)(byte & 7);
    if (byte == 0x7f) return 0;
    return exponent ? ldexpf((float)(8 + fraction), exponent - 11) : ldexpf((float)fraction, -10);
}

/* Block: four E4M3 scales, then eight bytes for each: numbers 0 to 7 in the low halves, 8 to 15 in the high ones.  Number =
 * scale value. */
void gyre_dequantize_nvfp4(const void *row, float *out, int64_t n) {
    FOR_BLOCKS(NVFP4) {
        for (int i = 0; i < GYRE_NVFP4_COUNT; i++) {
            const unsigned byte = block[4 + i / 16 * 8 + i % 8];
            out[i] = half_of_e4m3(block[i / 16]) * (float)gyre_e2m1_values[byte >> (i / 8 % 2 * 4) & 15];
        }
    }
}

/* -- codebooks -- */
/* Seven signs as stored; the eighth makes the number of minus signs even. */
static unsigned even_signs(uint32_t seven) {
    unsigned parity = seven & 127;
    parity ^= parity >> 4;
    parity ^= parity >> 2;
    parity ^= parity >> 1;
    return (seven & 127) | (parity & 1) << 7;
}

/* out[i] = scale value[digit i of the entry], negative where bit i of signs is set. */
static void put_entry(float *out, const float *value, uint32_t entry, int digits, int bits, float scale, unsigned signs) {
    for (int i = 0; i < digits; i++) {
        const float x = scale * value[entry >> (i * bits) & ((1u << bits) - 1)];
        out[i] = signs >> i & 1 ? -x : x;
    }
}
static void put_eight(float *out, uint32_t entry, float scale, unsigned signs) {
    static const float value[4] = {8, 25, 43, 0}; /* no entry has a digit 3 */
    put_entry(out, value, entry, 8, 2, scale, signs);
}

/* Block: d, eight groups of 32: four bytes, each the entry of eight numbers, and a word of 4 times 7 signs and the scale s
 * in its upper 4 bits.  Number = d (0.5 + s) 0.25 value. */
void gyre_dequantize_iq2_xxs(const void *row, float *out, int64_t n) {
    FOR_BLOCKS(IQ2_XXS) {
        for (int e = 0; e < 32; e++) {
            const unsigned char *group = block + 2 + e / 4 * 8;
            const uint32_t word = u32_at(group + 4);
            const float scale = f16_at(block) * (0.5f + (float)(word >> 28)) * 0.25f;
            put_eight(out + 8 * e, gyre_grid_iq2_xxs[group[e % 4]], scale, even_signs(word >> (e % 4 * 7)));
        }
    }
}

/* Block: d, 32 words of 9 bits of an entry and 7 signs, 16 scales of 4 bits.  Number as of IQ2_XXS. */
void gyre_dequantize_iq2_xs(const void *row, float *out, int64_t n) {
    FOR_BLOCKS(IQ2_XS) {
        for (int e = 0; e < 32; e++) {
            const uint32_t word = u16_at(block + 2 + 2 * e);
            const float scale = f16_at(block) * (0.5f + (float)nibble(block + 66, e / 2)) * 0.25f;
            put_eight(out + 8 * e, gyre_grid_iq2_xs[word & 511], scale, even_signs(word >> 9));
        }
    }
}

/* Block: d, 32 bytes of the entries, 32 of signs, 8 of the entries' upper 2 bits, 16 scales of 4 bits.  Number as of
 * IQ2_XXS. */
void gyre_dequantize_iq2_s(const void *row, float *out, int64_t n) {
    FOR_BLOCKS(IQ2_S) {
        for (int e = 0; e < 32; e++) {
            const uint32_t upper = (uint32_t)block[66 + e / 4] >> (e % 4 * 2) & 3;
            const float scale = f16_at(block) * (0.5f + (float)nibble(block + 74, e / 2)) * 0.25f;
            put_eight(out + 8 * e, gyre_grid_iq2_s[block[2 + e] | upper << 8], scale, block[34 + e]);
        }
    }
}

/* Block: d, 64 bytes, each the entry of four numbers, and for each 32 numbers a word as of IQ2_XXS.  Number = d (0.5 + s)
 * 0.5 value. */
void gyre_dequantize_iq3_xxs(const void *row, float *out, int64_t n) {
    static const float value[8] = {4, 12, 20, 28, 36, 44, 52, 62};
    FOR_BLOCKS(IQ3_XXS) {
        for (int e = 0; e < 64; e++) {
            const uint32_t word = u32_at(block + 66 + e / 8 * 4);
            const float scale = f16_at(block) * (0.5f + (float)(word >> 28)) * 0.5f;
            const unsigned signs = even_signs(word >> (e / 2 % 4 * 7));
            put_entry(out + 4 * e, value, gyre_grid_iq3_xxs[block[2 + e]], 4, 3, scale, signs >> (e % 2 * 4));
        }
    }
}

/* Block: d, 64 bytes of the entries, 64 bits on top of them, 32 bytes of signs, 8 scales s of 4 bits.  Number = d (1 + 2 s)
 * value. */
void gyre_dequantize_iq3_s(const void *row, float *out, int64_t n) {
    static const float value[8] = {1, 3, 5, 7, 9, 11, 13, 15};
    FOR_BLOCKS(IQ3_S) {
        for (int e = 0; e < 64; e++) {
            const uint32_t upper = (uint32_t)block[66 + e / 8] >> e % 8 & 1;
            const float scale = f16_at(block) * (float)(1 + 2 * nibble(block + 106, e / 8));
            const unsigned signs = (unsigned)block[74 + e / 2] >> (e % 2 * 4);
            put_entry(out + 4 * e, value, gyre_grid_iq3_s[block[2 + e] | upper << 8], 4, 3, scale, signs);
        }
    }
}

/* Eight numbers: scale (value + shift), with values of -1, 0 and 1. */
static void put_shifted(float *out, uint32_t entry, float scale, int shift_is_negative) {
    for (int i = 0; i < 8; i++)
        out[i] = scale * ((float)(int)(entry >> 2 * i & 3) - 1 + (shift_is_negative ? -0.125f : 0.125f));
}

/* Block: d, 32 bytes of the entries, 8 words: 3 more bits of each of four entries, a scale s of 3 bits, the sign of the
 * shift.  Number = d (2 s + 1) (value + shift). */
void gyre_dequantize_iq1_s(const void *row, float *out, int64_t n) {
    FOR_BLOCKS(IQ1_S) {
        for (int e = 0; e < 32; e++) {
            const uint32_t word = u16_at(block + 34 + e / 4 * 2), upper = word >> (e % 4 * 3) & 7;
            const float scale = f16_at(block) * (float)(2 * (word >> 12 & 7) + 1);
            put_shifted(out + 8 * e, gyre_grid_iq1[block[2 + e] | upper << 8], scale, word >> 15 & 1);
        }
    }
}

/* Block: 32 bytes of the entries, 32 times 3 more bits and the sign of the shift, 4 words: four scales s of 3 bits, and in
 * the upper 4 bits a quarter of d.  Number as of IQ1_S. */
void gyre_dequantize_iq1_m(const void *row, float *out, int64_t n) {
    FOR_BLOCKS(IQ1_M) {
        uint32_t d = 0;
        for (int i = 0; i < 4; i++)
            d |= u16_at(block + 48 + 2 * i) >> 12 << 4 * i;
        for (int e = 0; e < 32; e++) {
            const uint32_t upper = nibble(block + 32, e), s = u16_at(block + 48 + e / 8 * 2) >> (e / 2 % 4 * 3) & 7;
            const float scale = gyre_f16_widen((uint16_t)d) * (float)(2 * s + 1);
            put_shifted(out + 8 * e, gyre_grid_iq1[block[e] | (upper & 7) << 8], scale, upper >> 3 & 1);
        }
    }
}
