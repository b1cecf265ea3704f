/* quants_tier.h: the block formats of ggml as floats.  Products and differences are computed in float, in the order written
 * beside each format, without FMA.
 *
 * A format is two functions, which both dequantization and products in place inline (project_quants_tier.h): what the
 * numbers of a block have in common, and the numbers of a group of channels in vectors. */
#ifndef GYRE_KERNELS_QUANTS_TIER_H
#define GYRE_KERNELS_QUANTS_TIER_H
#include "kernels/decode_tier.h"
#include "kernels/half_precision.h"
#include "kernels/quants/quant_blocks.h"
#include "kernels/quants/quant_grids.h"

/* -- sixteen numbers -- */
typedef enum least_use { NO_LEAST, ADD_LEAST, SUBTRACT_LEAST } least_use;

/* The numbers of 16 integers q, `from` on, or of 16 places in a table: q d, q d + m or q d - m.  A vector of 16 has each of
 * them once for all numbers that share d and m, and then looks them up by the low four bits of a lane. */
typedef struct sixteen {
#ifdef VEC_ENTRIES
    vec entries;
#else
    vec d, m;
#endif
} sixteen;

TIER_INLINE vec number_of(vec q, vec d, vec m, least_use least) {
    const vec product = vec_mul(q, d);
    return least == ADD_LEAST ? vec_add(product, m) : least == SUBTRACT_LEAST ? vec_sub(product, m) : product;
}

/* What 16 numbers are made of; constants after inlining. */
typedef struct sixteen_kind {
    int from;
    const int8_t *table; /* [16]; NULL = integers */
    least_use least;
} sixteen_kind;

TIER_INLINE sixteen sixteen_of(sixteen_kind kind, vec d, vec m) {
#ifdef VEC_ENTRIES
    static const int8_t whole[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const vec q = vec_load_q8(kind.table ? kind.table : whole);
    return (sixteen){number_of(kind.from ? vec_add(q, vec_set1((float)kind.from)) : q, d, m, kind.least)};
#else
    (void)kind;
    return (sixteen){d, m};
#endif
}

/* Those of the low four bits of each lane. */
TIER_INLINE vec sixteen_at(sixteen_kind kind, sixteen numbers, vecu bits) {
#ifdef VEC_ENTRIES
    (void)kind;
    return vec_entry(numbers.entries, bits);
#else
    const vecu low = vecu_and(bits, vecu_set1(15));
    vec q = kind.table ? vec_lookup(kind.table, low) : vec_from_vecu(low);
    if (kind.from) q = vec_add(q, vec_set1((float)kind.from));
    return number_of(q, numbers.d, numbers.m, kind.least);
#endif
}

/* -- formats -- */
/* What the numbers of a block have in common. */
typedef struct block_scales {
    sixteen numbers, upper; /* upper: of integers with a fifth bit */
    vec d, m;
    float scale[16], least[16]; /* of each group of channels */
} block_scales;

enum { MOST_GROUP = 128 };

/* Always passed as a constant, so that the calls are inlined. */
typedef struct block_format {
    int count, bytes, group; /* numbers and bytes of a block; channels of a group */
    void (*scales)(const unsigned char *block, block_scales *s);
    void (*numbers)(const unsigned char *block, const block_scales *s, int first, vec *out); /* a group, from `first` on */
} block_format;

static inline float scale_at(const unsigned char *bytes) {
    return gyre_f16_widen((uint16_t)(bytes[0] | bytes[1] << 8));
}

/* A block that begins with d. */
TIER_INLINE void leading_scale(const unsigned char *block, block_scales *s) {
    s->d = vec_broadcast_f16(block);
}

/* Q8_0.  Block: d, 32 signed bytes q.  Number = q d. */
TIER_INLINE void q8_0_numbers(const unsigned char *block, const block_scales *s, int first, vec *out) {
    DECODE_UNROLL
    for (int i = 0; i < GYRE_Q_BLOCK; i += LANES)
        out[i / LANES] = vec_mul(vec_load_q8((const int8_t *)block + 2 + first + i), s->d);
}

/* 16 bytes of two numbers each: low halves are numbers 0 to 15, high halves 16 to 31. */
TIER_INLINE void nibble_numbers(sixteen_kind kind, const unsigned char *bytes, sixteen numbers, vec *out) {
    DECODE_UNROLL
    for (int i = 0; i < 16; i += LANES) {
        const vecu q = vecu_load_u8(bytes + i);
        out[i / LANES] = sixteen_at(kind, numbers, q);
        out[(i + 16) / LANES] = sixteen_at(kind, numbers, vecu_shift_right(q, 4));
    }
}

/* Q4_0.  Block: d, 16 bytes.  Number = (q - 8) d. */
static const sixteen_kind q4_0_kind = {-8, NULL, NO_LEAST};
TIER_INLINE void q4_0_scales(const unsigned char *block, block_scales *s) {
    const vec d = vec_broadcast_f16(block);
    s->numbers = sixteen_of(q4_0_kind, d, d);
}
TIER_INLINE void q4_0_numbers(const unsigned char *block, const block_scales *s, int first, vec *out) {
    nibble_numbers(q4_0_kind, block + 2 + first / 2, s->numbers, out);
}

/* Q4_1.  Block: d, m, 16 bytes as of Q4_0.  Number = q d + m. */
static const sixteen_kind q4_1_kind = {0, NULL, ADD_LEAST};
TIER_INLINE void q4_1_scales(const unsigned char *block, block_scales *s) {
    vec d, m;
    vec_broadcast_two_f16(block, &d, &m);
    s->numbers = sixteen_of(q4_1_kind, d, m);
}
TIER_INLINE void q4_1_numbers(const unsigned char *block, const block_scales *s, int first, vec *out) {
    nibble_numbers(q4_1_kind, block + 4 + first / 2, s->numbers, out);
}

/* Q5_0, Q5_1: 16 bytes as of Q4_0 with a fifth bit on top, in four bytes before them: bit i belongs to number i.  Number =
 * (q + from) d + m.  All integers, so q + from is exact. */
typedef struct five_bit_kind {
    sixteen_kind low, upper; /* without and with the fifth bit */
} five_bit_kind;

TIER_INLINE void five_bit_scales(five_bit_kind kind, vec d, vec m, block_scales *s) {
    s->numbers = sixteen_of(kind.low, d, m);
#ifdef VEC_ENTRIES
    s->upper = sixteen_of(kind.upper, d, m);
#endif
}
/* An entry of a table is found by the low four bits alone. */
TIER_INLINE vecu low_half(vecu q) {
#ifdef VEC_ENTRIES
    return q;
#else
    return vecu_and(q, vecu_set1(15));
#endif
}
/* tops: fifth bits; those of the lanes are bits i .. i + LANES - 1. */
TIER_INLINE vec five_bit_number(five_bit_kind kind, vecu q, uint32_t tops, int i, const block_scales *s) {
#ifdef VEC_ENTRIES
    (void)kind;
    return vec_entry_of_two(s->numbers.entries, s->upper.entries, tops >> i, q);
#else
    const vec number = vec_from_vecu(vecu_or(q, vecu_sixteens(tops, i)));
    const vec from = vec_set1((float)kind.low.from);
    return number_of(kind.low.from ? vec_add(number, from) : number, s->numbers.d, s->numbers.m, kind.low.least);
#endif
}
TIER_INLINE void five_bit_numbers(five_bit_kind kind, const unsigned char *fifths, const block_scales *s, vec *out) {
    const uint32_t low = (uint32_t)(fifths[0] | fifths[1] << 8), high = (uint32_t)(fifths[2] | fifths[3] << 8);
    DECODE_UNROLL
    for (int i = 0; i < 16; i += LANES) {
        const vecu q = vecu_load_u8(fifths + 4 + i);
        out[i / LANES] = five_bit_number(kind, low_half(q), low, i, s);
        out[(i + 16) / LANES] = five_bit_number(kind, vecu_shift_right(q, 4), high, i, s);
    }
}

/* Q5_0.  Block: d, four bytes of fifth bits, 16 bytes.  Number = (q - 16) d. */
static const five_bit_kind q5_0_kind = {{-16, NULL, NO_LEAST}, {0, NULL, NO_LEAST}};
TIER_INLINE void q5_0_scales(const unsigned char *block, block_scales *s) {
    const vec d = vec_broadcast_f16(block);
    five_bit_scales(q5_0_kind, d, d, s);
}
TIER_INLINE void q5_0_numbers(const unsigned char *block, const block_scales *s, int first, vec *out) {
    five_bit_numbers(q5_0_kind, block + 2 + first, s, out);
}

/* Q5_1.  Block: d, m, four bytes of fifth bits, 16 bytes.  Number = q d + m. */
static const five_bit_kind q5_1_kind = {{0, NULL, ADD_LEAST}, {16, NULL, ADD_LEAST}};
TIER_INLINE void q5_1_scales(const unsigned char *block, block_scales *s) {
    vec d, m;
    vec_broadcast_two_f16(block, &d, &m);
    five_bit_scales(q5_1_kind, d, m, s);
}
TIER_INLINE void q5_1_numbers(const unsigned char *block, const block_scales *s, int first, vec *out) {
    five_bit_numbers(q5_1_kind, block + 4 + first, s, out);
}

/* IQ4_NL.  Block: d, 16 bytes as of Q4_0, whose halves are places in a table of values.  Number = d value. */
static const sixteen_kind iq4_kind = {0, gyre_iq4_values, NO_LEAST};
TIER_INLINE void iq4_nl_scales(const unsigned char *block, block_scales *s) {
    const vec d = vec_broadcast_f16(block);
    s->numbers = sixteen_of(iq4_kind, d, d);
}
TIER_INLINE void iq4_nl_numbers(const unsigned char *block, const block_scales *s, int first, vec *out) {
    nibble_numbers(iq4_kind, block + 2 + first / 2, s->numbers, out);
}

/* IQ4_XS.  Block: d; 16 bits with the upper two of eight scales s; 4 bytes with their low four; 8 times 16 bytes.  Number =
 * d (s - 32) value. */
TIER_INLINE void iq4_xs_scales(const unsigned char *block, block_scales *s) {
    const float d = scale_at(block);
    for (int g = 0; g < 8; g++) {
        const int low = block[4 + g / 2] >> (g % 2 * 4) & 15, upper = block[2 + g / 4] >> (g % 4 * 2) & 3;
        s->scale[g] = d * (float)((low | upper << 4) - 32);
    }
}
TIER_INLINE void iq4_xs_numbers(const unsigned char *block, const block_scales *s, int first, vec *out) {
    const vec scale = vec_set1(s->scale[first / 32]);
    nibble_numbers(iq4_kind, block + 8 + first / 2, sixteen_of(iq4_kind, scale, scale), out);
}

/* Half of 2^(e - 127), which makes up for values that are doubled. */
static inline float half_of_e8m0(unsigned e) {
    const uint32_t bits = e < 2 ? 0x00200000u << e : (e - 1) << 23;
    float out;
    memcpy(&out, &bits, sizeof out);
    return out;
}

/* MXFP4.  Block: e, 16 bytes.  Number = 2^(e - 127) times a float of four bits. */
static const sixteen_kind mxfp4_kind = {0, gyre_e2m1_values, NO_LEAST};
TIER_INLINE void mxfp4_scales(const unsigned char *block, block_scales *s) {
    const vec d = vec_set1(half_of_e8m0(block[0]));
    s->numbers = sixteen_of(mxfp4_kind, d, d);
}
TIER_INLINE void mxfp4_numbers(const unsigned char *block, const block_scales *s, int first, vec *out) {
    nibble_numbers(mxfp4_kind, block + 1 + first / 2, s->numbers, out);
}

/* Q4_K and Q5_K begin with d, m: eight groups of 32 numbers, each with a 6-bit scale and a 6-bit minimum, in 12 bytes:
 *
 *    bytes 0 .. 3    low 6 bits: scales of groups 0 to 3     upper 2 bits: top of scales of groups 4 to 7
 *    bytes 4 .. 7    low 6 bits: minima of groups 0 to 3     upper 2 bits: top of minima of groups 4 to 7
 *    bytes 8 .. 11   low 4 bits: scales of groups 4 to 7     high 4 bits: minima of groups 4 to 7 */
TIER_INLINE void q4_k_scales(const unsigned char *block, block_scales *s) {
    const uint32_t six = 0x3f3f3f3fu, four = 0x0f0f0f0fu, two = 0x03030303u; /* bits of each of four bytes */
    uint32_t word[3], groups[8] = {0};                                       /* 16 bytes of scales, 16 of minima */
    memcpy(word, block + 4, sizeof word);
    groups[0] = word[0] & six;
    groups[1] = (word[2] & four) | (word[0] >> 6 & two) << 4;
    groups[4] = word[1] & six;
    groups[5] = (word[2] >> 4 & four) | (word[1] >> 6 & two) << 4;
    vec d, m;
    vec_broadcast_two_f16(block, &d, &m);
    DECODE_UNROLL
    for (int g = 0; g < 8; g += LANES) {
        vec_store(s->scale + g, vec_mul(d, vec_from_vecu(vecu_load_u8((const unsigned char *)groups + g))));
        vec_store(s->least + g, vec_mul(m, vec_from_vecu(vecu_load_u8((const unsigned char *)groups + 16 + g))));
    }
}

/* Q4_K.  Block: d, m, the 12 bytes of groups, 128 bytes.  Each 32 bytes hold two groups, the first in the low halves.
 * Number = (d s) q - (m l), s and l being the group's scale and minimum. */
static const sixteen_kind q4_k_kind = {0, NULL, SUBTRACT_LEAST};
TIER_INLINE sixteen q4_k_sixteen(const block_scales *s, int group) {
    return sixteen_of(q4_k_kind, vec_set1(s->scale[group]), vec_set1(s->least[group]));
}
TIER_INLINE void q4_k_numbers(const unsigned char *block, const block_scales *s, int first, vec *out) {
    const unsigned char *bytes = block + 16 + first / 2;
    const sixteen one = q4_k_sixteen(s, first / 32), two = q4_k_sixteen(s, first / 32 + 1);
    DECODE_UNROLL
    for (int i = 0; i < 32; i += LANES) {
        const vecu q = vecu_load_u8(bytes + i);
        out[i / LANES] = sixteen_at(q4_k_kind, one, q);
        out[(i + 32) / LANES] = sixteen_at(q4_k_kind, two, vecu_shift_right(q, 4));
    }
}

/* scale q - least of a group. */
TIER_INLINE vec scaled_number(vecu q, const block_scales *s, int group) {
    return vec_sub(vec_mul(vec_set1(s->scale[group]), vec_from_vecu(q)), vec_set1(s->least[group]));
}

/* Q5_K.  As Q4_K with 32 bytes of fifth bits before the numbers: bit g of byte i belongs to number i of group g. */
TIER_INLINE void q5_k_numbers(const unsigned char *block, const block_scales *s, int first, vec *out) {
    const unsigned char *bytes = block + 48 + first / 2, *fifth = block + 16;
    const int group = first / 32;
    DECODE_UNROLL
    for (int i = 0; i < 32; i += LANES) {
        const vecu q = vecu_load_u8(bytes + i), bits = vecu_shift_left(vecu_load_u8(fifth + i), 4);
        const vecu top = vecu_and(vecu_shift_right(bits, group), vecu_set1(16));
        const vecu next_top = vecu_and(vecu_shift_right(bits, group + 1), vecu_set1(16));
        out[i / LANES] = scaled_number(vecu_or(vecu_and(q, vecu_set1(15)), top), s, group);
        out[(i + 32) / LANES] = scaled_number(vecu_or(vecu_shift_right(q, 4), next_top), s, group + 1);
    }
}

/* Types of two bits have 64 bytes: numbers 32 k + i of each half of 128 are bits 2 k and 2 k + 1 of byte i of its 32.  Each
 * LANES bytes are read once, for four groups of numbers. */
TIER_INLINE vecu two_bits(vecu bytes, int k) {
    return vecu_and(vecu_shift_right(bytes, 2 * k), vecu_set1(3));
}

/* Q2_K.  Block: 16 bytes, each with a scale s in its low half and a minimum l, for 16 numbers; 64 bytes of two bits; d, m.
 * Number = (d s) q - (m l). */
TIER_INLINE void q2_k_scales(const unsigned char *block, block_scales *s) {
    vec d, m;
    vec_broadcast_two_f16(block + GYRE_Q2_K_SCALE, &d, &m);
    DECODE_UNROLL
    for (int g = 0; g < 16; g += LANES) {
        const vecu both = vecu_load_u8(block + g);
        vec_store(s->scale + g, vec_mul(d, vec_from_vecu(vecu_and(both, vecu_set1(15)))));
        vec_store(s->least + g, vec_mul(m, vec_from_vecu(vecu_shift_right(both, 4))));
    }
}
TIER_INLINE void q2_k_numbers(const unsigned char *block, const block_scales *s, int first, vec *out) {
    DECODE_UNROLL
    for (int i = 0; i < 32; i += LANES) {
        const vecu bytes = vecu_load_u8(block + 16 + first / 4 + i);
        DECODE_UNROLL
        for (int k = 0; k < 4; k++)
            out[(32 * k + i) / LANES] = scaled_number(two_bits(bytes, k), s, (first + i) / 16 + 2 * k);
    }
}

/* Q3_K.  Block: 32 bytes of third bits, of which bit g of byte i belongs to number i of the 32 of group g; 64 bytes of two
 * bits; 12 bytes of sixteen 6-bit scales s; d.  Scale g has its low four bits in byte g % 8, the first eight in the low
 * halves, and its upper two in bits 2 (g / 4) and 2 (g / 4) + 1 of byte 8 + g % 4.  Number = d (s - 32) (q - 4). */
TIER_INLINE void q3_k_scales(const unsigned char *block, block_scales *s) {
    const uint32_t four = 0x0f0f0f0fu, two = 0x03030303u;
    const vec d = vec_broadcast_f16(block + GYRE_Q3_K_SCALE);
    uint32_t word[3], six[4];
    memcpy(word, block + 96, sizeof word);
    for (int i = 0; i < 4; i++)
        six[i] = (word[i % 2] >> (i / 2 * 4) & four) | (word[2] >> (2 * i) & two) << 4;
    DECODE_UNROLL
    for (int g = 0; g < 16; g += LANES) {
        const vec of_group = vec_from_vecu(vecu_load_u8((const unsigned char *)six + g));
        vec_store(s->scale + g, vec_mul(d, vec_sub(of_group, vec_set1(32))));
    }
}
#ifdef VEC_ENTRIES
/* 32 bytes are put together at once, each a place in a table of eight numbers for its scale; the bits above are any. */
TIER_INLINE void q3_k_numbers(const unsigned char *block, const block_scales *s, int first, vec *out) {
    static const int8_t values[16] = {-4, -3, -2, -1, 0, 1, 2, 3, -4, -3, -2, -1, 0, 1, 2, 3};
    const sixteen_kind kind = {0, values, NO_LEAST};
    const bytes32 twos = bytes32_load(block + 32 + first / 4);
    const bytes32 thirds = bytes32_shift_left(bytes32_shift_right(bytes32_load(block), first / 32), 2);
    DECODE_UNROLL
    for (int k = 0; k < 4; k++) {
        const bytes32 places = bytes32_low_two(bytes32_shift_right(twos, 2 * k), bytes32_shift_right(thirds, k));
        DECODE_UNROLL
        for (int half = 0; half < 2; half++) {
            const vec scale = vec_set1(s->scale[first / 16 + half + 2 * k]);
            out[2 * k + half] = vec_entry(sixteen_of(kind, scale, scale).entries, bytes32_half(places, half));
        }
    }
}
#else
TIER_INLINE void q3_k_numbers(const unsigned char *block, const block_scales *s, int first, vec *out) {
    DECODE_UNROLL
    for (int i = 0; i < 32; i += LANES) {
        const vecu bytes = vecu_load_u8(block + 32 + first / 4 + i);
        const vecu thirds = vecu_shift_left(vecu_shift_right(vecu_load_u8(block + i), first / 32), 2);
        DECODE_UNROLL
        for (int k = 0; k < 4; k++) {
            const vecu third = vecu_and(vecu_shift_right(thirds, k), vecu_set1(4));
            const vec q = vec_sub(vec_from_vecu(vecu_or(two_bits(bytes, k), third)), vec_set1(4));
            out[(32 * k + i) / LANES] = vec_mul(vec_set1(s->scale[(first + i) / 16 + 2 * k]), q);
        }
    }
}
#endif

/* Q6_K.  Two halves of 128 numbers; 16 signed 8-bit scales s, each of 16 numbers; d.  In each half, 64 bytes hold the low
 * four bits and 32 bytes the upper two.  Number 32 k + i has its low bits in byte i + 32 (k & 1), in the low half of the
 * byte for k < 2, and its upper bits in bits 2 k and 2 k + 1 of byte i.  Number = (d s) (q - 32). */
TIER_INLINE void q6_k_scales(const unsigned char *block, block_scales *s) {
    const vec d = vec_broadcast_f16(block + GYRE_Q6_K_SCALE);
    DECODE_UNROLL
    for (int g = 0; g < 16; g += LANES)
        vec_store(s->scale + g, vec_mul(d, vec_load_q8((const int8_t *)block + 192 + g)));
}
TIER_INLINE void q6_k_numbers(const unsigned char *block, const block_scales *s, int first, vec *out) {
    DECODE_UNROLL
    for (int i = 0; i < 32; i += LANES) {
        const vecu tops = vecu_shift_left(vecu_load_u8(block + 128 + first / 4 + i), 4);
        DECODE_UNROLL
        for (int k = 0; k < 4; k++) {
            const vecu low = vecu_shift_right(vecu_load_u8(block + first / 2 + 32 * (k & 1) + i), k / 2 * 4);
            const vecu top = vecu_and(vecu_shift_right(tops, 2 * k), vecu_set1(48));
            const vec q = vec_from_vecu(vecu_or(vecu_and(low, vecu_set1(15)), top));
            const vec scale = vec_set1(s->scale[(first + i) / 16 + 2 * k]);
            out[(32 * k + i) / LANES] = vec_mul(scale, vec_sub(q, vec_set1(32)));
        }
    }
}

/* Name, scales and numbers of a format, and the channels of a group. */
#define BLOCK_FORMATS(FORMAT)                                                                                               \
    FORMAT(Q8_0, q8_0, leading_scale, q8_0_numbers, 32)                                                                     \
    FORMAT(Q4_0, q4_0, q4_0_scales, q4_0_numbers, 32)                                                                       \
    FORMAT(Q4_1, q4_1, q4_1_scales, q4_1_numbers, 32)                                                                       \
    FORMAT(Q5_0, q5_0, q5_0_scales, q5_0_numbers, 32)                                                                       \
    FORMAT(Q5_1, q5_1, q5_1_scales, q5_1_numbers, 32)                                                                       \
    FORMAT(Q2_K, q2_k, q2_k_scales, q2_k_numbers, 128)                                                                      \
    FORMAT(Q3_K, q3_k, q3_k_scales, q3_k_numbers, 128)                                                                      \
    FORMAT(Q4_K, q4_k, q4_k_scales, q4_k_numbers, 64)                                                                       \
    FORMAT(Q5_K, q5_k, q4_k_scales, q5_k_numbers, 64)                                                                       \
    FORMAT(Q6_K, q6_k, q6_k_scales, q6_k_numbers, 128)                                                                      \
    FORMAT(IQ4_NL, iq4_nl, iq4_nl_scales, iq4_nl_numbers, 32)                                                               \
    FORMAT(IQ4_XS, iq4_xs, iq4_xs_scales, iq4_xs_numbers, 32)                                                               \
    FORMAT(MXFP4, mxfp4, mxfp4_scales, mxfp4_numbers, 32)

/* -- dequantization -- */
TIER_INLINE void dequantize(block_format format, const unsigned char *block, float *out, int64_t n) {
    for (; n > 0; n -= format.count, block += format.bytes, out += format.count) {
        block_scales s;
        format.scales(block, &s);
        for (int first = 0; first < format.count; first += format.group) {
#if LANES == 1
            format.numbers(block, &s, first, out + first);
#else
            vec numbers[MOST_GROUP / LANES];
            format.numbers(block, &s, first, numbers);
            DECODE_UNROLL
            for (int i = 0; i < format.group; i += LANES)
                vec_store(out + first + i, numbers[i / LANES]);
#endif
        }
    }
}

#define FORMAT_OF(NAME, scales, numbers, group)                                                                             \
    ((block_format){GYRE_##NAME##_COUNT, GYRE_##NAME##_BYTES, group, scales, numbers})
#define DEQUANTIZE(NAME, name, scales, numbers, group)                                                                      \
    KERNEL(dequantize_##name)(const void *row, float *out, int64_t n) {                                                     \
        dequantize(FORMAT_OF(NAME, scales, numbers, group), row, out, n);                                                   \
    }
BLOCK_FORMATS(DEQUANTIZE)
#undef DEQUANTIZE

#endif
