/* quants_tier.h: dequantizes the block formats of ggml.  Products and differences are computed in float, in the order
 * written beside each format, without FMA. */
#ifndef GYRE_KERNELS_QUANTS_TIER_H
#define GYRE_KERNELS_QUANTS_TIER_H
#include "kernels/decode_tier.h"
#include "kernels/half_precision.h"
#include "kernels/quants/quant_blocks.h"
#include "kernels/quants/quant_grids.h"

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

/* Block: d, m, 16 bytes as of Q4_0.  Number = q d + m. */
KERNEL(dequantize_q4_1)(const void *row, float *out, int64_t n) {
    const unsigned char *block = row;
    for (; n > 0; n -= GYRE_Q_BLOCK, block += GYRE_Q4_1_BYTES, out += GYRE_Q_BLOCK) {
        const vec d = vec_broadcast_f16(block), m = vec_broadcast_f16(block + GYRE_Q4_1_LEAST);
        DECODE_UNROLL
        for (int i = 0; i < 16; i += LANES) {
            const vecu q = vecu_load_u8(block + 4 + i);
            vec_store(out + i, vec_add(vec_mul(vec_from_vecu(vecu_and(q, vecu_set1(15))), d), m));
            vec_store(out + i + 16, vec_add(vec_mul(vec_from_vecu(vecu_shift_right(q, 4)), d), m));
        }
    }
}

/* q + base, with 16 added where bit i + lane of the 16 bits is set: integers, so every step is exact. */
TIER_INLINE vec with_fifth_bit(vecu q, uint32_t bits, int i, float base) {
    const vec number = vec_from_vecu(vecu_or(q, vecu_sixteens(bits, i)));
    return base != 0 ? vec_add(number, vec_set1(base)) : number;
}

/* 16 bytes as of Q4_0 with a fifth bit on top, in four bytes: bit i belongs to number i.  out = (q + base) d + m; no sum for
 * a `least` of NULL. */
TIER_INLINE void store_five_bits(const unsigned char *fifths, float base, vec d, const vec *least, float *out) {
    const uint32_t low = (uint32_t)(fifths[0] | fifths[1] << 8), high = (uint32_t)(fifths[2] | fifths[3] << 8);
    DECODE_UNROLL
    for (int i = 0; i < 16; i += LANES) {
        const vecu q = vecu_load_u8(fifths + 4 + i);
        const vec first = vec_mul(with_fifth_bit(vecu_and(q, vecu_set1(15)), low, i, base), d);
        const vec second = vec_mul(with_fifth_bit(vecu_shift_right(q, 4), high, i, base), d);
        vec_store(out + i, least ? vec_add(first, *least) : first);
        vec_store(out + i + 16, least ? vec_add(second, *least) : second);
    }
}

/* Block: d, four bytes of fifth bits, 16 bytes.  Number = (q - 16) d. */
KERNEL(dequantize_q5_0)(const void *row, float *out, int64_t n) {
    const unsigned char *block = row;
    for (; n > 0; n -= GYRE_Q_BLOCK, block += GYRE_Q5_0_BYTES, out += GYRE_Q_BLOCK)
        store_five_bits(block + 2, -16, vec_broadcast_f16(block), NULL, out);
}

/* Block: d, m, four bytes of fifth bits, 16 bytes.  Number = q d + m. */
KERNEL(dequantize_q5_1)(const void *row, float *out, int64_t n) {
    const unsigned char *block = row;
    for (; n > 0; n -= GYRE_Q_BLOCK, block += GYRE_Q5_1_BYTES, out += GYRE_Q_BLOCK) {
        const vec m = vec_broadcast_f16(block + GYRE_Q5_1_LEAST);
        store_five_bits(block + 4, 0, vec_broadcast_f16(block), &m, out);
    }
}

/* 16 bytes as of Q4_0, whose halves are places in a table of values.  out = d value. */
TIER_INLINE void store_looked_up(const unsigned char *bytes, const int8_t values[16], vec d, float *out) {
    DECODE_UNROLL
    for (int i = 0; i < 16; i += LANES) {
        const vecu q = vecu_load_u8(bytes + i);
        vec_store(out + i, vec_mul(d, vec_lookup(values, vecu_and(q, vecu_set1(15)))));
        vec_store(out + i + 16, vec_mul(d, vec_lookup(values, vecu_shift_right(q, 4))));
    }
}

/* Block: d, 16 bytes. */
KERNEL(dequantize_iq4_nl)(const void *row, float *out, int64_t n) {
    const unsigned char *block = row;
    for (; n > 0; n -= GYRE_Q_BLOCK, block += GYRE_IQ4_NL_BYTES, out += GYRE_Q_BLOCK)
        store_looked_up(block + 2, gyre_iq4_values, vec_broadcast_f16(block), out);
}

/* Block: d; 16 bits with the upper two of eight scales s; 4 bytes with their low four; 8 times 16 bytes.  Number = d (s -
 * 32) value. */
KERNEL(dequantize_iq4_xs)(const void *row, float *out, int64_t n) {
    const unsigned char *block = row;
    for (; n > 0; n -= GYRE_QK_K, block += GYRE_IQ4_XS_BYTES, out += GYRE_QK_K) {
        const float d = scale_at(block);
        for (int g = 0; g < 8; g++) {
            const int low = block[4 + g / 2] >> (g % 2 * 4) & 15, upper = block[2 + g / 4] >> (g % 4 * 2) & 3;
            const vec scale = vec_set1(d * (float)((low | upper << 4) - 32));
            store_looked_up(block + 8 + 16 * g, gyre_iq4_values, scale, out + 32 * g);
        }
    }
}

/* Half of 2^(e - 127), which makes up for values that are doubled. */
static inline float half_of_e8m0(unsigned e) {
    const uint32_t bits = e < 2 ? 0x00200000u << e : (e - 1) << 23;
    float out;
    memcpy(&out, &bits, sizeof out);
    return out;
}

/* Block: e, 16 bytes.  Number = 2^(e - 127) times a float of four bits. */
KERNEL(dequantize_mxfp4)(const void *row, float *out, int64_t n) {
    const unsigned char *block = row;
    for (; n > 0; n -= GYRE_Q_BLOCK, block += GYRE_MXFP4_BYTES, out += GYRE_Q_BLOCK)
        store_looked_up(block + 1, gyre_e2m1_values, vec_set1(half_of_e8m0(block[0])), out);
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
    const vec d = vec_broadcast_f16(block + GYRE_Q4_K_SCALE), m = vec_broadcast_f16(block + GYRE_Q4_K_LEAST);
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

/* Types of two bits have 64 bytes: numbers 32 k + i of each half of 128 are bits 2 k and 2 k + 1 of byte i of its 32.  Each
 * LANES bytes are read once, for four groups of numbers. */
TIER_INLINE vecu two_bits(vecu bytes, int k) {
    return vecu_and(vecu_shift_right(bytes, 2 * k), vecu_set1(3));
}

/* Block: 16 bytes, each with a scale s in its low half and a minimum l, for 16 numbers; 64 bytes of two bits; d, m.  Number
 * = (d s) q - (m l). */
KERNEL(dequantize_q2_k)(const void *row, float *out, int64_t n) {
    const unsigned char *block = row;
    for (; n > 0; n -= GYRE_QK_K, block += GYRE_Q2_K_BYTES, out += GYRE_QK_K) {
        const vec d = vec_broadcast_f16(block + GYRE_Q2_K_SCALE), m = vec_broadcast_f16(block + GYRE_Q2_K_LEAST);
        float scale[16], mins[16];
        DECODE_UNROLL
        for (int g = 0; g < 16; g += LANES) {
            const vecu both = vecu_load_u8(block + g);
            vec_store(scale + g, vec_mul(d, vec_from_vecu(vecu_and(both, vecu_set1(15)))));
            vec_store(mins + g, vec_mul(m, vec_from_vecu(vecu_shift_right(both, 4))));
        }
        for (int half = 0; half < 2; half++)
            for (int i = 0; i < 32; i += LANES) {
                const vecu bytes = vecu_load_u8(block + 16 + 32 * half + i);
                const int group = 8 * half + i / 16;
                DECODE_UNROLL
                for (int k = 0; k < 4; k++)
                    store_scaled(out + 128 * half + 32 * k + i, two_bits(bytes, k), scale[group + 2 * k],
                                 mins[group + 2 * k]);
            }
    }
}

/* Q3_K: sixteen 6-bit scales in 12 bytes.  Scale g has its low four bits in byte g % 8, the first eight in the low halves,
 * and its upper two in bits 2 (g / 4) and 2 (g / 4) + 1 of byte 8 + g % 4.  scale[g] = d (s - 32). */
static inline void unpack_scales(const unsigned char *bytes, vec d, float scale[16]) {
    const uint32_t four = 0x0f0f0f0fu, two = 0x03030303u;
    uint32_t word[3], s[4];
    memcpy(word, bytes, sizeof word);
    for (int i = 0; i < 4; i++)
        s[i] = (word[i % 2] >> (i / 2 * 4) & four) | (word[2] >> (2 * i) & two) << 4;
    DECODE_UNROLL
    for (int g = 0; g < 16; g += LANES) {
        const vec six = vec_from_vecu(vecu_load_u8((const unsigned char *)s + g));
        vec_store(scale + g, vec_mul(d, vec_sub(six, vec_set1(32))));
    }
}

/* Block: 32 bytes of third bits, of which bit g of byte i belongs to number i of the 32 of group g; 64 bytes of two bits;
 * the 12 bytes of scales s; d.  Number = d (s - 32) (q - 4). */
KERNEL(dequantize_q3_k)(const void *row, float *out, int64_t n) {
    const unsigned char *block = row;
    for (; n > 0; n -= GYRE_QK_K, block += GYRE_Q3_K_BYTES, out += GYRE_QK_K) {
        float scale[16];
        unpack_scales(block + 96, vec_broadcast_f16(block + GYRE_Q3_K_SCALE), scale);
        for (int half = 0; half < 2; half++)
            for (int i = 0; i < 32; i += LANES) {
                const vecu bytes = vecu_load_u8(block + 32 + 32 * half + i);
                const vecu thirds = vecu_shift_left(vecu_shift_right(vecu_load_u8(block + i), 4 * half), 2);
                const int group = 8 * half + i / 16;
                DECODE_UNROLL
                for (int k = 0; k < 4; k++) {
                    const vecu third = vecu_and(vecu_shift_right(thirds, k), vecu_set1(4));
                    const vec q = vec_sub(vec_from_vecu(vecu_or(two_bits(bytes, k), third)), vec_set1(4));
                    vec_store(out + 128 * half + 32 * k + i, vec_mul(vec_set1(scale[group + 2 * k]), q));
                }
            }
    }
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
