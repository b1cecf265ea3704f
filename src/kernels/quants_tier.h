/* quants_tier.h: dequantizes the block formats of ggml.  Products and differences are computed in float, in the order
 * written beside each format, without FMA. */
#ifndef GYRE_KERNELS_QUANTS_TIER_H
#define GYRE_KERNELS_QUANTS_TIER_H
#include "kernels/decode_tier.h"
#include "kernels/half_precision.h"
#include "kernels/quant_blocks.h"

static inline float scale_at(const unsigned char *bytes) {
    return gyre_f16_widen((uint16_t)(bytes[0] | bytes[1] << 8));
}

/* Block: d, 32 signed bytes q.  Number = q d. */
KERNEL(dequantize_q8_0)(const void *row, float *out, int64_t n) {
    const unsigned char *block = row;
    for (; n > 0; n -= GYRE_Q_BLOCK, block += GYRE_Q8_0_BYTES, out += GYRE_Q_BLOCK) {
        const vec d = vec_broadcast_f16(block);
        DECODE_UNROLL
        for (int i = 0; i < GYRE_Q_BLOCK; i += LANES)
            vec_store(out + i, vec_mul(vec_load_q8((const int8_t *)block + 2 + i), d));
    }
}

/* Block: d, 16 bytes.  Low halves are numbers 0 to 15, high halves 16 to 31.  Number = (q - 8) d. */
KERNEL(dequantize_q4_0)(const void *row, float *out, int64_t n) {
    const unsigned char *block = row;
    const vecu low = vecu_set1(15);
    const vec zero = vec_set1(8);
    for (; n > 0; n -= GYRE_Q_BLOCK, block += GYRE_Q4_0_BYTES, out += GYRE_Q_BLOCK) {
        const vec d = vec_broadcast_f16(block);
        DECODE_UNROLL
        for (int i = 0; i < 16; i += LANES) {
            const vecu q = vecu_load_u8(block + 2 + i);
            vec_store(out + i, vec_mul(vec_sub(vec_from_vecu(vecu_and(q, low)), zero), d));
            vec_store(out + i + 16, vec_mul(vec_sub(vec_from_vecu(vecu_shift_right(q, 4)), zero), d));
        }
    }
}

/* Q4_K and Q5_K: eight groups of 32 numbers, each with a 6-bit scale and a 6-bit minimum, in 12 bytes:
 *
 *    bytes 0 .. 3    low 6 bits: scales of groups 0 to 3     upper 2 bits: top of scales of groups 4 to 7
 *    bytes 4 .. 7    low 6 bits: minima of groups 0 to 3     upper 2 bits: top of minima of groups 4 to 7
 *    bytes 8 .. 11   low 4 bits: scales of groups 4 to 7     high 4 bits: minima of groups 4 to 7 */
static inline void unpack_scales_mins(const unsigned char *block, float scale[16], float mins[16]) {
    const uint32_t six = 0x3f3f3f3fu, four = 0x0f0f0f0fu, two = 0x03030303u; /* bits of each of four bytes */
    uint32_t word[3], groups[8] = {0};                                       /* 16 bytes of scales, 16 of minima */
    memcpy(word, block + 4, sizeof word);
    groups[0] = word[0] & six;
    groups[1] = (word[2] & four) | (word[0] >> 6 & two) << 4;
    groups[4] = word[1] & six;
    groups[5] = (word[2] >> 4 & four) | (word[1] >> 6 & two) << 4;
    const vec d = vec_broadcast_f16(block + GYRE_Q_SCALE), m = vec_broadcast_f16(block + GYRE_K_DMIN);
    DECODE_UNROLL
    for (int g = 0; g < 8; g += LANES) {
        vec_store(scale + g, vec_mul(d, vec_from_vecu(vecu_load_u8((const unsigned char *)groups + g))));
        vec_store(mins + g, vec_mul(m, vec_from_vecu(vecu_load_u8((const unsigned char *)groups + 16 + g))));
    }
}

/* out = scale q - min, LANES numbers. */
TIER_INLINE void store_scaled(float *out, vecu q, float scale, float min) {
    vec_store(out, vec_sub(vec_mul(vec_set1(scale), vec_from_vecu(q)), vec_set1(min)));
}

/* Block: d, m, the 12 bytes of groups, 128 bytes.  Each 32 bytes hold two groups, the first in the low halves.  Number =
 * (d s) q - (m l), s and l being the group's scale and minimum. */
KERNEL(dequantize_q4_k)(const void *row, float *out, int64_t n) {
    const unsigned char *block = row;
    for (; n > 0; n -= GYRE_QK_K, block += GYRE_Q4_K_BYTES, out += GYRE_QK_K) {
        float scale[16], mins[16];
        unpack_scales_mins(block, scale, mins);
        for (int g = 0; g < 8; g += 2) {
            const unsigned char *bytes = block + 16 + 16 * g;
            float *to = out + 32 * g;
            DECODE_UNROLL
            for (int i = 0; i < 32; i += LANES) {
                const vecu q = vecu_load_u8(bytes + i);
                store_scaled(to + i, vecu_and(q, vecu_set1(15)), scale[g], mins[g]);
                store_scaled(to + i + 32, vecu_shift_right(q, 4), scale[g + 1], mins[g + 1]);
            }
        }
    }
}

/* As Q4_K with a fifth bit on top: bit g of byte i of 32 belongs to number i of group g. */
KERNEL(dequantize_q5_k)(const void *row, float *out, int64_t n) {
    const unsigned char *block = row;
    const vecu one = vecu_set1(1), low = vecu_set1(15);
    for (; n > 0; n -= GYRE_QK_K, block += GYRE_Q5_K_BYTES, out += GYRE_QK_K) {
        float scale[16], mins[16];
        unpack_scales_mins(block, scale, mins);
        for (int g = 0; g < 8; g += 2) {
            const unsigned char *bytes = block + 48 + 16 * g, *fifth = block + 16;
            float *to = out + 32 * g;
            DECODE_UNROLL
            for (int i = 0; i < 32; i += LANES) {
                const vecu q = vecu_load_u8(bytes + i), bits = vecu_shift_right(vecu_load_u8(fifth + i), g);
                const vecu top = vecu_shift_left(vecu_and(bits, one), 4);
                const vecu next_top = vecu_shift_left(vecu_and(vecu_shift_right(bits, 1), one), 4);
                store_scaled(to + i, vecu_or(vecu_and(q, low), top), scale[g], mins[g]);
                store_scaled(to + i + 32, vecu_or(vecu_shift_right(q, 4), next_top), scale[g + 1], mins[g + 1]);
            }
        }
    }
}

/* Two halves of 128 numbers.  In each half, 64 bytes hold the low four bits and 32 bytes the upper two.  Number 32 k + i
 * has its low bits in byte i + 32 (k & 1), in the low half of the byte for k < 2, and its upper bits in bits 2 k and 2 k
 * + 1 of byte i.  16 numbers share a signed 8-bit scale s.  Number = (d s) (q - 32). */
KERNEL(dequantize_q6_k)(const void *row, float *out, int64_t n) {
    const unsigned char *block = row;
    const vecu low = vecu_set1(15), high = vecu_set1(3);
    for (; n > 0; n -= GYRE_QK_K, block += GYRE_Q6_K_BYTES, out += GYRE_QK_K) {
        const float d = scale_at(block + GYRE_Q6_K_SCALE);
        for (int at = 0; at < GYRE_QK_K; at += 32) {
            const int half = at / 128, k = at / 32 % 4;
            const unsigned char *bytes = block + 64 * half + 32 * (k & 1), *tops = block + 128 + 32 * half;
            const signed char *s = (const signed char *)block + 192 + at / 16;
            DECODE_UNROLL
            for (int i = 0; i < 32; i += LANES) {
                const vecu q = vecu_and(vecu_shift_right(vecu_load_u8(bytes + i), k / 2 * 4), low);
                const vecu top = vecu_and(vecu_shift_right(vecu_load_u8(tops + i), 2 * k), high);
                const vec number = vec_sub(vec_from_vecu(vecu_or(q, vecu_shift_left(top, 4))), vec_set1(32));
                const int group = i / 16;
                vec_store(out + at + i, vec_mul(vec_set1(d * (float)s[group]), number));
            }
        }
    }
}

#endif
