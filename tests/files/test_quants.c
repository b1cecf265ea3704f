/* test_quants.c: ggml's block formats against blocks computed by hand, and against their description bit by bit. */
#include "files/tensors/tensor_store.h"
#include "run_each_tier.h"
#include "support.h"
#include "util/fnv1a.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const gyre_stored_type quantised[] = {GYRE_STORED_Q8_0, GYRE_STORED_Q4_0, GYRE_STORED_Q4_K, GYRE_STORED_Q5_K,
                                             GYRE_STORED_Q6_K};
enum { TYPES = sizeof quantised / sizeof *quantised };

/* -- by hand -- */
/* The scale 0x3800 is 0.5, 0xb400 is -0.25, 0x3000 is 0.125, 0x3c00 is 1. */
static void widen(gyre_stored_type type, const unsigned char *block, float *out) {
    for (int i = 0; i < 256; i++)
        out[i] = 777;
    gyre_stored_dequantize(gyre_kernels_select(), type, block, out, gyre_stored_block_size(type));
}

static void test_q8_0_by_hand(void **state) {
    (void)state;
    unsigned char block[34] = {0x00, 0x38, 1, 0xff, 127, 0x80};
    float out[256];
    block[33] = 0xfe;
    widen(GYRE_STORED_Q8_0, block, out);
    assert_true(out[0] == 0.5f && out[1] == -0.5f && out[2] == 63.5f && out[3] == -64.0f);
    assert_true(out[4] == 0.0f && out[31] == -1.0f && out[32] == 777);
}

static void test_q4_0_by_hand(void **state) {
    (void)state;
    unsigned char block[18] = {0x00, 0xb4, 0xf0, 0x79};
    float out[256];
    block[17] = 0x1f;
    widen(GYRE_STORED_Q4_0, block, out);
    assert_true(out[0] == 2.0f && out[16] == -1.75f);  /* 0 and 15, less 8, times -1/4 */
    assert_true(out[1] == -0.25f && out[17] == 0.25f); /* 9 and 7 */
    assert_true(out[15] == -1.75f && out[31] == 1.75f);
    assert_true(out[2] == 2.0f && out[32] == 777);
}

/* Scale 0.5, minimum 0.125. The 6-bit numbers of groups 0 and 3 are in bytes of their own, those of 4 and 7 in three
 * places. */
static void put_groups(unsigned char *block) {
    static const unsigned char head[16] = {0x00,        0x38, 0x00, 0x30,        0x01 | 0x80, 0x02, 0x03, 0x3f | 0x40,
                                           0x05 | 0x40, 0x06, 0x07, 0x3e | 0xc0, 0x29,        0x00, 0x00, 0xf3};
    memcpy(block, head, sizeof head);
}
/* Scales 1, 2, 3, 63, 41 = 9 + 2 x 16, 0, 0, 19 = 3 + 1 x 16. Minimums: number 4 is 2 + 1 x 16, the last is 15 + 3 x 16. */
static const double group_least[8] = {5, 6, 7, 62, 18, 0, 0, 63};

static void test_q4_k_by_hand(void **state) {
    (void)state;
    unsigned char block[144];
    float out[256];
    memset(block, 0, sizeof block);
    put_groups(block);
    block[16] = 0x4f;       /* group 0, number 0: 15; group 1: 4 */
    block[16 + 63] = 0xa1;  /* group 2, number 31: 1; group 3: 10 */
    block[16 + 64] = 0x0e;  /* group 4, number 0: 14 */
    block[16 + 127] = 0xc0; /* group 7, number 31: 12 */
    widen(GYRE_STORED_Q4_K, block, out);
    assert_true(out[0] == 0.5f * 1 * 15 - 0.125f * 5);
    assert_true(out[32] == 0.5f * 2 * 4 - 0.125f * 6);
    assert_true(out[64 + 31] == 0.5f * 3 * 1 - 0.125f * 7);
    assert_true(out[96 + 31] == 0.5f * 63 * 10 - 0.125f * 62);
    assert_true(out[128] == 0.5f * 41 * 14 - 0.125f * 18);
    assert_true(out[224 + 31] == 0.5f * 19 * 12 - 0.125f * 63);
    for (int g = 0; g < 8; g++) /* number 1 of each group is 0 */
        assert_true((double)out[32 * g + 1] == -0.125 * group_least[g]);
}

static void test_q5_k_by_hand(void **state) {
    (void)state;
    unsigned char block[176];
    float out[256];
    memset(block, 0, sizeof block);
    put_groups(block);
    block[16] = 0x81;      /* the fifth bit of number 0 of groups 0 and 7 */
    block[16 + 31] = 0x18; /* of number 31 of groups 3 and 4 */
    block[48] = 0x4f;
    block[48 + 63] = 0xa1;
    block[48 + 95] = 0x03; /* group 4, number 31: 3 */
    widen(GYRE_STORED_Q5_K, block, out);
    assert_true(out[0] == 0.5f * 1 * 31 - 0.125f * 5);
    assert_true(out[32] == 0.5f * 2 * 4 - 0.125f * 6);
    assert_true(out[64 + 31] == 0.5f * 3 * 1 - 0.125f * 7);
    assert_true(out[96 + 31] == 0.5f * 63 * 26 - 0.125f * 62);
    assert_true(out[128 + 31] == 0.5f * 41 * 19 - 0.125f * 18);
    assert_true(out[224] == 0.5f * 19 * 16 - 0.125f * 63);
}

static void test_q6_k_by_hand(void **state) {
    (void)state;
    unsigned char block[210];
    float out[256];
    memset(block, 0, sizeof block);
    for (int i = 0; i < 16; i++)
        block[192 + i] = (unsigned char)(i % 2 ? 256 - i : i); /* scales 0, -1, 2, -3, ... */
    block[209] = 0x3c;
    block[16] = 0x5f;           /* low bits of numbers 16 (15) and 80 (5) */
    block[128 + 16] = 0x23;     /* high bits: of number 16 3, of 48 0, of 80 2, of 112 0 */
    block[64 + 32 + 5] = 0xd0;  /* low bits of number 128 + 32 + 5 (0) and 128 + 96 + 5 (13) */
    block[128 + 32 + 5] = 0x40; /* high bits of number 128 + 96 + 5: 1 */
    widen(GYRE_STORED_Q6_K, block, out);
    assert_true(out[16] == -1.0f * (15 + 48 - 32));
    assert_true(out[80] == -5.0f * (5 + 32 - 32));
    assert_true(out[48] == -3.0f * -32 && out[112] == -7.0f * -32);
    assert_true(out[128 + 32 + 5] == 10.0f * -32);
    assert_true(out[128 + 96 + 5] == 14.0f * (13 + 16 - 32));
    assert_true(out[255] == -15.0f * -32);
}

/* -- bit by bit -- */
static int bit(const unsigned char *block, int byte, int position) {
    return (block[byte] & (1 << position)) != 0;
}

/* Bits `first` to `first` + count - 1 of a byte. */
static int bits(const unsigned char *block, int byte, int first, int count) {
    int x = 0;
    for (int i = count - 1; i >= 0; i--)
        x = 2 * x + bit(block, byte, first + i);
    return x;
}

static double half_at(const unsigned char *block, int byte) {
    const int sign = bit(block, byte + 1, 7), exponent = bits(block, byte + 1, 2, 5);
    const int fraction = 256 * bits(block, byte + 1, 0, 2) + bits(block, byte, 0, 8);
    const double x = exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
    return sign ? -x : x;
}

static int signed_at(const unsigned char *block, int byte) {
    return bits(block, byte, 0, 7) - 128 * bit(block, byte, 7);
}

/* Six bits of a group: the scale (which = 0) or the minimum (1). */
static int group_bits(const unsigned char *block, int group, int which) {
    if (group < 4) return bits(block, 4 + 4 * which + group, 0, 6);
    return bits(block, 8 + group, 4 * which, 4) + 16 * bits(block, 4 * which + group, 6, 2);
}

static double number_of(gyre_stored_type type, const unsigned char *block, int i) {
    const int group = i / 32, pair = i / 64, in_group = i % 32, high = group % 2 ? 4 : 0;
    if (type == GYRE_STORED_Q8_0) return half_at(block, 0) * signed_at(block, 2 + i);
    if (type == GYRE_STORED_Q4_0) return half_at(block, 0) * (bits(block, 2 + i % 16, i < 16 ? 0 : 4, 4) - 8);
    if (type == GYRE_STORED_Q6_K) {
        const int part = i / 128, in_part = i % 128;
        const int low = bits(block, 64 * part + in_part % 64, in_part < 64 ? 0 : 4, 4);
        const int upper = bits(block, 128 + 32 * part + in_part % 32, 2 * (in_part / 32), 2);
        return half_at(block, 208) * signed_at(block, 192 + i / 16) * (low + 16 * upper - 32);
    }
    const int is_five = type == GYRE_STORED_Q5_K;
    int q = bits(block, (is_five ? 48 : 16) + 32 * pair + in_group, high, 4);
    if (is_five) q += 16 * bit(block, 16 + in_group, group);
    return half_at(block, 0) * group_bits(block, group, 0) * q - half_at(block, 2) * group_bits(block, group, 1);
}

/* A finite scale. */
static void put_scale(unsigned char *block, int byte, test_random *random) {
    block[byte] = (unsigned char)test_next(random);
    do
        block[byte + 1] = (unsigned char)(test_next(random) >> 8);
    while (bits(block, byte + 1, 2, 5) == 31);
}

static void fill_block(gyre_stored_type type, unsigned char *block, test_random *random) {
    const int64_t bytes = gyre_stored_row_bytes(type, gyre_stored_block_size(type));
    for (int64_t i = 0; i < bytes; i++)
        block[i] = (unsigned char)(test_next(random) >> 16);
    put_scale(block, type == GYRE_STORED_Q6_K ? 208 : 0, random);
    if (type == GYRE_STORED_Q4_K || type == GYRE_STORED_Q5_K) put_scale(block, 2, random);
}

/* Doubles hold these sums of products exactly, so one rounding gives the right answer to the last bit. */
static void test_random_rows(void **state) {
    (void)state;
    enum { BLOCKS = 3, MOST = 210 * BLOCKS + 1 };
    test_random random = {41};
    for (int t = 0; t < TYPES; t++) {
        const gyre_stored_type type = quantised[t];
        const int64_t block = gyre_stored_block_size(type), bytes = gyre_stored_row_bytes(type, block);
        for (int round = 0; round < 100; round++) {
            unsigned char room[MOST], *row = room + round % 2; /* aligned to nothing */
            float out[256 * BLOCKS + 1];
            for (int b = 0; b < BLOCKS; b++)
                fill_block(type, row + b * bytes, &random);
            out[block * BLOCKS] = 777;
            gyre_stored_dequantize(gyre_kernels_select(), type, row, out, block * BLOCKS);
            assert_true(out[block * BLOCKS] == 777);
            for (int64_t i = 0; i < block * BLOCKS; i++) {
                const float want = (float)number_of(type, row + i / block * bytes, (int)(i % block));
                if (memcmp(&out[i], &want, sizeof want) != 0)
                    fail_msg("%s, number %d: %.9g, not %.9g", gyre_stored_type_name(type), (int)i, (double)out[i],
                             (double)want);
            }
        }
    }
}

/* Every finite f16 as the scale of q = 1. */
static void test_every_scale(void **state) {
    (void)state;
    unsigned char block[34] = {0};
    float out[256];
    block[2] = 1;
    for (unsigned half = 0; half < 65536; half++) {
        if ((half >> 10 & 31) == 31) continue;
        block[0] = (unsigned char)half;
        block[1] = (unsigned char)(half >> 8);
        gyre_stored_dequantize(gyre_kernels_select(), GYRE_STORED_Q8_0, block, out, 32);
        if ((double)out[0] != half_at(block, 0)) fail_msg("scale %04x: %g", half, (double)out[0]);
    }
}

/* -- all types, against the gguf package of llama.cpp -- */
static unsigned char nibble_of(char hex) {
    return (unsigned char)(hex <= '9' ? hex - '0' : hex - 'a' + 10);
}

/* The bytes that tests/reference/gguf_blocks.py makes. */
static void fill_reference_bytes(const json_t *type, unsigned char *bytes, int64_t count) {
    const int64_t block = test_integer(type, "bytes");
    const json_t *cleared = json_object_get(type, "cleared");
    uint64_t x = 0;
    for (int64_t i = 0; i < count; i++) {
        x = 6364136223846793005u * x + 1442695040888963407u;
        bytes[i] = (unsigned char)(x >> 56);
    }
    for (size_t c = 0; c < json_array_size(cleared); c++)
        for (int64_t at = json_integer_value(json_array_get(cleared, c)); at < count; at += block)
            bytes[at] &= 0xbf;
}

/* The numbers of the first block one by one, and a hash over all bits. */
static void check_numbers_of(const json_t *type, const float *numbers, int64_t count) {
    const char *first = test_string(type, "first"), *name = test_string(type, "name");
    char hash[20];
    for (int64_t i = 0; i < test_integer(type, "numbers"); i++) {
        uint32_t want = 0, got;
        for (int digit = 0; digit < 8; digit++)
            want = want << 4 | nibble_of(first[8 * i + digit]);
        memcpy(&got, &numbers[i], sizeof got);
        if (got != want) fail_msg("%s, number %d: bits %08x, not %08x", name, (int)i, got, want);
    }
    snprintf(hash, sizeof hash, "%016llx",
             (unsigned long long)gyre_fnv1a(GYRE_FNV1A_OFFSET_BASIS, numbers, (size_t)count * sizeof *numbers));
    if (strcmp(hash, test_string(type, "hash")) != 0) fail_msg("%s: other bits past the first block", name);
}

static void agrees_with_reference(void **state) {
    const gyre_kernels *kernels = tier_or_skip(*state);
    json_t *types = test_reference("gguf_blocks.json"), *type;
    size_t i;
    int checked[GYRE_STORED_OTHER] = {[GYRE_STORED_F32] = 1};
    json_array_foreach(types, i, type) {
        const int64_t blocks = test_integer(type, "blocks");
        const gyre_stored_type stored = gyre_stored_type_named(test_string(type, "name"));
        const int64_t numbers = blocks * test_integer(type, "numbers"), bytes = blocks * test_integer(type, "bytes");
        assert_int_not_equal(stored, GYRE_STORED_OTHER);
        assert_int_equal(gyre_stored_ggml_type(stored), test_integer(type, "ggml"));
        assert_int_equal(gyre_stored_block_size(stored), test_integer(type, "numbers"));
        assert_int_equal(gyre_stored_row_bytes(stored, numbers), bytes);
        unsigned char *row = malloc((size_t)bytes + 1);
        float *out = malloc((size_t)(numbers + 1) * sizeof *out);
        assert_true(row && out);
        for (int odd = 0; odd < 2; odd++) { /* aligned to nothing */
            fill_reference_bytes(type, row + odd, bytes);
            out[numbers] = 777;
            gyre_stored_dequantize(kernels, stored, row + odd, out, numbers);
            assert_true(out[numbers] == 777);
            check_numbers_of(type, out, numbers);
        }
        free(row);
        free(out);
        checked[stored] = 1;
    }
    for (int t = 0; t < GYRE_STORED_OTHER; t++)
        if (!checked[t]) fail_msg("no reference of %s", gyre_stored_type_name((gyre_stored_type)t));
    json_decref(types);
}

/* The page has the sizes of the table of types; scripts/stored-types-page writes it. */
static void documents_list_every_type(void **state) {
    static const char *const rows[] = {
#define ROW_OF(NAME, number, count, bytes)                                      "| " NAME " | " #number " | " #count " | " #bytes " |"
#define GYRE_STORED_PLAIN(NAME, number, file_type, bytes)                       ROW_OF(#NAME, number, 1, bytes),
#define GYRE_STORED_BLOCK(NAME, name, number, file, count, bytes, scale, least) ROW_OF(#NAME, number, count, bytes),
#define GYRE_STORED_RARE                                                        GYRE_STORED_BLOCK
#define GYRE_STORED_UNREAD(NAME, number, count, bytes)                          ROW_OF(#NAME, number, count, bytes),
#include "kernels/quants/stored_types.def"
    };
    static char page[1 << 17];
    (void)state;
    FILE *file = fopen(GYRE_TEST_DATA "/../docs/models.md", "rb");
    assert_non_null(file);
    page[fread(page, 1, sizeof page - 1, file)] = '\0';
    fclose(file);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strstr(page, rows[i])) fail_msg("docs/models.md: no %s: run scripts/stored-types-page", rows[i]);
}

/* -- sizes and plain types -- */
static void test_sizes(void **state) {
    (void)state;
    static const struct {
        gyre_stored_type type;
        const char *name;
        int64_t block, bytes_of_256;
    } sizes[] = {{GYRE_STORED_F32, "F32", 1, 1024},    {GYRE_STORED_F16, "F16", 1, 512},
                 {GYRE_STORED_BF16, "BF16", 1, 512},   {GYRE_STORED_Q8_0, "Q8_0", 32, 272},
                 {GYRE_STORED_Q4_0, "Q4_0", 32, 144},  {GYRE_STORED_Q4_K, "Q4_K", 256, 144},
                 {GYRE_STORED_Q5_K, "Q5_K", 256, 176}, {GYRE_STORED_Q6_K, "Q6_K", 256, 210}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        assert_string_equal(gyre_stored_type_name(sizes[i].type), sizes[i].name);
        assert_int_equal(gyre_stored_block_size(sizes[i].type), sizes[i].block);
        assert_int_equal(gyre_stored_row_bytes(sizes[i].type, 256), sizes[i].bytes_of_256);
        assert_int_equal(gyre_stored_row_bytes(sizes[i].type, 0), 0);
    }
}

/* On every tier, at even and odd addresses, more elements than one block of the kernel. */
static void test_plain_types(void **state) {
    (void)state;
    static const struct {
        gyre_stored_type type;
        gyre_dtype dtype;
    } plain[] = {{GYRE_STORED_F32, GYRE_DTYPE_F32}, {GYRE_STORED_F16, GYRE_DTYPE_F16}, {GYRE_STORED_BF16, GYRE_DTYPE_BF16}};
    static const char *const tiers[] = {"scalar", "avx2", "avx512", "neon"};
    enum { COUNT = 5003 };
    static float out[COUNT + 1];
    static unsigned char aligned[4 * COUNT], room[4 * COUNT + 1];
    test_random random = {3};
    for (size_t p = 0; p < 3; p++) {
        const size_t bytes = (size_t)gyre_stored_row_bytes(plain[p].type, COUNT);
        for (size_t i = 0; i < COUNT; i++)
            test_put(aligned, plain[p].dtype, i, test_uniform(&random));
        for (size_t t = 0; t < 8; t++) {
            const gyre_kernels *kernels = gyre_kernels_tier(tiers[t / 2]);
            if (!kernels) continue;
            memcpy(room + t % 2, aligned, bytes);
            out[COUNT] = 777;
            gyre_stored_dequantize(kernels, plain[p].type, room + t % 2, out, COUNT);
            assert_true(out[COUNT] == 777);
            for (size_t i = 0; i < COUNT; i++)
                assert_true((double)out[i] == test_get(aligned, plain[p].dtype, i));
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_q8_0_by_hand),
        cmocka_unit_test(test_q4_0_by_hand),
        cmocka_unit_test(test_q4_k_by_hand),
        cmocka_unit_test(test_q5_k_by_hand),
        cmocka_unit_test(test_q6_k_by_hand),
        cmocka_unit_test(test_random_rows),
        FOR_TIERS(agrees_with_reference),
        cmocka_unit_test(test_every_scale),
        cmocka_unit_test(documents_list_every_type),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_plain_types),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
