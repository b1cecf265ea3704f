/* test_block_keys.c: attention over keys and values in ggml's blocks (Q8_0, Q4_0), in views and in pages.  The numbers of a
 * block are computed here by its definition.  The results have the bits of a call over those numbers as floats, and are
 * compared with attention in double. */
#include "attention_memory.h"
#include "gyre/gyre_attention.h"
#include "gyre/gyre_cache.h"
#include "naive_head.h"
#include "run_each_tier.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { HEADS = 6, KV_HEADS = 2, DIM = 64, VALUE_DIM = 96, KEYS = 300, MOST_QUERIES = 70, BLOCK = 32 };
#define F32  GYRE_DTYPE_F32
#define F16  GYRE_DTYPE_F16
#define Q8_0 GYRE_DTYPE_Q8_0
#define Q4_0 GYRE_DTYPE_Q4_0

typedef struct block_case {
    const char *name;
    gyre_dtype k, v;
    int64_t queries, keys;
    int layout; /* of the rotation of raw keys; -1 = none */
    int by_heads;
    gyre_order order;
} block_case;
static const block_case cases[] = {{"one query", Q8_0, Q8_0, 1, KEYS, -1, 0, GYRE_ORDER_FAST},
                                   {"one query, few keys", Q4_0, Q4_0, 1, 5, -1, 0, GYRE_ORDER_FAST},
                                   {"one query, heads first", Q4_0, Q8_0, 1, KEYS, -1, 1, GYRE_ORDER_FAST},
                                   {"rotated in halves", Q8_0, Q4_0, 1, KEYS, GYRE_LAYOUT_HALF, 0, GYRE_ORDER_FAST},
                                   {"rotated in pairs", Q8_0, Q8_0, 3, KEYS, GYRE_LAYOUT_INTERLEAVED, 0, GYRE_ORDER_FAST},
                                   {"floats beside blocks", Q8_0, F16, 2, KEYS, -1, 0, GYRE_ORDER_FAST},
                                   {"blocks beside floats", F32, Q4_0, 8, 129, GYRE_LAYOUT_HALF, 1, GYRE_ORDER_FAST},
                                   {"a prompt", Q8_0, Q8_0, MOST_QUERIES, KEYS, GYRE_LAYOUT_HALF, 0, GYRE_ORDER_FAST},
                                   {"a prompt in four bits", Q4_0, Q4_0, MOST_QUERIES, KEYS, -1, 1, GYRE_ORDER_FAST},
                                   {"a fixed order", Q8_0, Q4_0, 1, KEYS, GYRE_LAYOUT_HALF, 0, GYRE_ORDER_FIXED},
                                   {"a prompt, fixed order", Q4_0, Q8_0, 20, KEYS, -1, 0, GYRE_ORDER_FIXED}};
enum { CASES = sizeof cases / sizeof *cases };

/* Rows as they are stored, and their numbers. */
typedef struct stored_rows {
    gyre_dtype type;
    int64_t rows, channels;
    unsigned char *stored;
    float *numbers;
} stored_rows;

static float queries[MOST_QUERIES][HEADS][DIM], out[MOST_QUERIES][HEADS][VALUE_DIM], want[MOST_QUERIES][HEADS][VALUE_DIM],
    lse[MOST_QUERIES][HEADS], want_lse[MOST_QUERIES][HEADS];

static size_t block_bytes(gyre_dtype type) {
    return type == Q8_0 ? 34 : 18;
}
static size_t bytes_of(gyre_dtype type, int64_t elements) {
    return type == Q8_0 || type == Q4_0 ? (size_t)(elements / BLOCK) * block_bytes(type)
                                        : (size_t)elements * gyre_dtype_size(type);
}

/* A block by ggml's definition: a scale in f16, then signed bytes, or pairs of four bits less 8: the low ones are the first
 * sixteen numbers. */
static void make_block(test_random *random, gyre_dtype type, unsigned char *block, float *numbers) {
    uint16_t scale;
    test_put(&scale, F16, 0, test_uniform(random) / (type == Q8_0 ? 127 : 8));
    const double d = test_get(&scale, F16, 0);
    memcpy(block, &scale, sizeof scale);
    for (int i = 0; i < (type == Q8_0 ? BLOCK : BLOCK / 2); i++)
        block[2 + i] = (unsigned char)(test_next(random) >> 40);
    for (int i = 0; i < BLOCK; i++) {
        const int byte = block[2 + (type == Q8_0 ? i : i % 16)];
        const int q = type == Q8_0 ? (byte < 128 ? byte : byte - 256) : (i < 16 ? byte & 15 : byte >> 4) - 8;
        numbers[i] = (float)(q * d);
    }
}

static stored_rows make_rows(test_random *random, gyre_dtype type, int64_t rows, int64_t channels) {
    stored_rows r = {type, rows, channels, room((size_t)(rows * channels), 4), room((size_t)(rows * channels), 4)};
    for (int64_t i = 0; i < rows * channels; i += BLOCK) {
        if (type == Q8_0 || type == Q4_0) {
            make_block(random, type, r.stored + bytes_of(type, i), r.numbers + i);
            continue;
        }
        for (int64_t c = i; c < i + BLOCK; c++) {
            test_put(r.stored, type, (size_t)c, test_uniform(random));
            r.numbers[c] = (float)test_get(r.stored, type, (size_t)c);
        }
    }
    return r;
}
static void free_rows(stored_rows *r) {
    free(r->stored), free(r->numbers);
}

/* Keys [tokens][heads], or heads first. */
static gyre_cview view_of(const stored_rows *r, int is_stored, int64_t keys, int by_heads) {
    gyre_cview view = gyre_cdense(is_stored ? (const void *)r->stored : r->numbers, is_stored ? r->type : F32, 1, keys,
                                  KV_HEADS, r->channels);
    if (by_heads) view.stride[1] = r->channels, view.stride[2] = keys * r->channels;
    return view;
}

static gyre_attention_args args_of(const block_case *c, const gyre_encoding *rope, const stored_rows *k,
                                   const stored_rows *v, int is_stored) {
    gyre_attention_args args = GYRE_INIT(gyre_attention_args);
    args.encoding = rope;
    args.q = gyre_cdense(queries, F32, 1, c->queries, HEADS, DIM);
    args.k = view_of(k, is_stored, c->keys, c->by_heads);
    args.v = view_of(v, is_stored, c->keys, c->by_heads);
    args.out = gyre_dense(is_stored ? out : want, F32, 1, c->queries, HEADS, VALUE_DIM);
    args.lse = gyre_dense(is_stored ? lse : want_lse, F32, 1, c->queries, HEADS, 1);
    args.causal = GYRE_CAUSAL_BY_POSITION;
    args.order = c->order;
    args.q_pos.base = 500 + c->keys - c->queries, args.k_pos.base = 500;
    return args;
}

static void run(const gyre_attention_args *args) {
    size_t bytes;
    gyre_error err;
    assert_ok(gyre_attention_scratch(args, 0, NULL, &bytes, &err));
    void *scratch = scratch_for(bytes);
    if (gyre_attention(args, (gyre_scratch){scratch, bytes}, NULL, &err)) fail_msg("%s", err.text);
    free(scratch);
}

/* -- the definition, in double -- */

static void rotate(const block_case *c, double *x, int64_t position) {
    double frequency[DIM / 2];
    for (int i = 0; i < DIM / 2; i++)
        frequency[i] = pow(10000, -2.0 * i / DIM);
    if (c->layout >= 0) naive_rotate_head(x, DIM / 2, (gyre_layout)c->layout, frequency, (double)position, 1);
}

/* Row i of head h, and the largest |value| that a channel sums. */
static void attend_in_double(const block_case *c, const stored_rows *k, const stored_rows *v, int64_t i, int64_t h,
                             double *row, double *largest) {
    const int64_t visible = c->keys - c->queries + i + 1, head = h / (HEADS / KV_HEADS);
    double q[DIM], key[DIM], sum = 0, scores[KEYS], most = -INFINITY;
    for (int d = 0; d < DIM; d++)
        q[d] = (double)queries[i][h][d];
    rotate(c, q, 500 + visible - 1);
    for (int64_t j = 0; j < visible; j++) {
        const int64_t at = c->by_heads ? head * c->keys + j : j * KV_HEADS + head;
        for (int d = 0; d < DIM; d++)
            key[d] = (double)k->numbers[at * DIM + d];
        rotate(c, key, 500 + j);
        scores[j] = 0;
        for (int d = 0; d < DIM; d++)
            scores[j] += q[d] * key[d] / sqrt(DIM);
        most = fmax(most, scores[j]);
    }
    memset(row, 0, VALUE_DIM * sizeof *row);
    *largest = 0;
    for (int64_t j = 0; j < visible; j++)
        sum += exp(scores[j] - most);
    for (int64_t j = 0; j < visible; j++) {
        const int64_t at = c->by_heads ? head * c->keys + j : j * KV_HEADS + head;
        for (int d = 0; d < VALUE_DIM; d++) {
            const double value = (double)v->numbers[at * VALUE_DIM + d];
            row[d] += exp(scores[j] - most) / sum * value;
            *largest = fmax(*largest, fabs(value));
        }
    }
}

/* A score is a sum of DIM products of floats below 3 and 1, and its error is that of a weight, relatively; another of the
 * sums of KEYS weights and values.  Each rounding is 2^-24 of its result. */
static void compare_with_double(const block_case *c, const stored_rows *k, const stored_rows *v) {
    const double scores = 3 * sqrt(DIM) * (DIM + 8) * 0x1p-24, sums = 2 * (double)(c->keys + 8) * 0x1p-24;
    for (int64_t i = 0; i < c->queries; i++)
        for (int64_t h = 0; h < HEADS; h++) {
            double row[VALUE_DIM], largest;
            attend_in_double(c, k, v, i, h, row, &largest);
            for (int d = 0; d < VALUE_DIM; d++)
                test_close((long double)out[i][h][d], row[d], (long double)((2 * scores + sums) * largest), c->name);
        }
}

/* -- tests -- */

static gyre_encoding *rope_of(const block_case *c) {
    gyre_encoding *rope = NULL;
    if (c->layout >= 0) assert_ok(gyre_rope_create(&rope, DIM, 10000, (gyre_layout)c->layout, NULL));
    return rope;
}

static void check_case(const block_case *c) {
    test_random random = {77};
    stored_rows k = make_rows(&random, c->k, KEYS * KV_HEADS, DIM), v = make_rows(&random, c->v, KEYS * KV_HEADS, VALUE_DIM);
    gyre_encoding *rope = rope_of(c);
    test_fill(&random, &queries[0][0][0], sizeof queries / sizeof(float));
    for (size_t i = 0; i < sizeof queries / sizeof(float); i++)
        (&queries[0][0][0])[i] *= 3;
    gyre_attention_args args = args_of(c, rope, &k, &v, 0);
    run(&args);
    memset(out, 0xff, sizeof out), memset(lse, 0xff, sizeof lse);
    args = args_of(c, rope, &k, &v, 1);
    run(&args);
    if (memcmp(out, want, (size_t)(c->queries * HEADS * VALUE_DIM) * sizeof(float)) != 0) fail_msg("%s: out", c->name);
    if (memcmp(lse, want_lse, (size_t)(c->queries * HEADS) * sizeof(float)) != 0) fail_msg("%s: lse", c->name);
    compare_with_double(c, &k, &v);
    gyre_encoding_free(rope);
    free_rows(&k), free_rows(&v);
}

static void blocks_have_the_bits_of_their_numbers(void **state) {
    if (!gyre_kernels_tier(*state)) skip();
    setenv("GYRE_CPU", *state, 1);
    for (int i = 0; i < CASES; i++)
        check_case(&cases[i]);
    unsetenv("GYRE_CPU");
}

/* Pages of 16 tokens, last page first: the bits of one view. */
static void blocks_in_pages_have_the_bits_of_a_view(void **state) {
    enum { PAGE = 16, PAGES = (KEYS + PAGE - 1) / PAGE };
    (void)state;
    for (int n = 0; n < CASES; n++) {
        const block_case *c = &cases[n];
        if (c->by_heads) continue;
        test_random random = {78};
        stored_rows k = make_rows(&random, c->k, PAGES * PAGE * KV_HEADS, DIM),
                    v = make_rows(&random, c->v, PAGES * PAGE * KV_HEADS, VALUE_DIM);
        const size_t k_page = bytes_of(c->k, PAGE * KV_HEADS * DIM), v_page = bytes_of(c->v, PAGE * KV_HEADS * VALUE_DIM);
        unsigned char *k_pages = room(PAGES, k_page), *v_pages = room(PAGES, v_page);
        int32_t indices[PAGES];
        for (int32_t p = 0; p < PAGES; p++) {
            indices[p] = PAGES - 1 - p;
            memcpy(k_pages + (size_t)indices[p] * k_page, k.stored + (size_t)p * k_page, k_page);
            memcpy(v_pages + (size_t)indices[p] * v_page, v.stored + (size_t)p * v_page, v_page);
        }
        const int32_t length = (int32_t)c->keys;
        gyre_pages pages = GYRE_INIT(gyre_pages);
        pages.k = gyre_cdense(k_pages, c->k, PAGES, PAGE, KV_HEADS, DIM);
        pages.v = gyre_cdense(v_pages, c->v, PAGES, PAGE, KV_HEADS, VALUE_DIM);
        pages.indices = indices, pages.lengths = &length, pages.row_stride = PAGES, pages.sequences = 1;
        gyre_encoding *rope = rope_of(c);
        gyre_attention_args args = args_of(c, rope, &k, &v, 1);
        size_t bytes;
        gyre_error err;
        run(&args);
        memcpy(want, out, sizeof out), memcpy(want_lse, lse, sizeof lse);
        memset(out, 0xff, sizeof out), memset(lse, 0xff, sizeof lse);
        assert_ok(gyre_paged_attention_scratch(&args, &pages, NULL, &bytes, &err));
        void *scratch = scratch_for(bytes);
        if (gyre_paged_attention(&args, &pages, (gyre_scratch){scratch, bytes}, NULL, &err)) fail_msg("%s", err.text);
        assert_memory_equal(out, want, (size_t)(c->queries * HEADS * VALUE_DIM) * sizeof(float));
        assert_memory_equal(lse, want_lse, (size_t)(c->queries * HEADS) * sizeof(float));
        free(scratch), free(k_pages), free(v_pages);
        gyre_encoding_free(rope);
        free_rows(&k), free_rows(&v);
    }
}

/* A prepared call, and slices of heads. */
static void other_forms_have_the_same_bits(void **state) {
    (void)state;
    const block_case *c = &cases[0];
    test_random random = {79};
    stored_rows k = make_rows(&random, c->k, KEYS * KV_HEADS, DIM), v = make_rows(&random, c->v, KEYS * KV_HEADS, VALUE_DIM);
    gyre_attention_args args = args_of(c, NULL, &k, &v, 1);
    gyre_prepared_attention *prepared = NULL;
    gyre_attention_memory memory = GYRE_INIT(gyre_attention_memory);
    gyre_error err;
    size_t bytes;
    run(&args);
    memcpy(want, out, sizeof out);
    assert_ok(gyre_prepared_attention_create(&prepared, &args, NULL, NULL, &err));
    memory.q_base = args.q_pos.base, memory.k_base = args.k_pos.base;
    for (int i = 0; i < 2; i++) { /* the first run makes other checks than later ones */
        memset(out, 0xff, sizeof out);
        if (gyre_prepared_attention_run(prepared, &memory, &err)) fail_msg("%s", err.text);
        assert_memory_equal(out, want, HEADS * VALUE_DIM * sizeof(float));
    }
    gyre_prepared_attention_free(prepared);
    memset(out, 0xff, sizeof out);
    assert_ok(gyre_attention_scratch(&args, 0, NULL, &bytes, &err));
    void *scratch = scratch_for(bytes);
    for (int64_t i = 0; i < 2; i++)
        assert_ok(gyre_attention_slice(&args, (gyre_slice){i, 2}, (gyre_scratch){scratch, bytes}, &err));
    assert_memory_equal(out, want, HEADS * VALUE_DIM * sizeof(float));
    free(scratch);
    free_rows(&k), free_rows(&v);
}

#define REFUSED(status, message, ...)                                                                                       \
    do {                                                                                                                    \
        gyre_attention_args args = good;                                                                                    \
        gyre_error err = {0, ""};                                                                                           \
        __VA_ARGS__;                                                                                                        \
        assert_int_equal(gyre_attention(&args, (gyre_scratch){scratch, sizeof scratch}, NULL, &err), status);               \
        assert_string_equal(err.text, message);                                                                             \
    } while (0)

static void what_blocks_refuse(void **state) {
    (void)state;
    static _Alignas(64) char scratch[1 << 20];
    const block_case *c = &cases[0];
    test_random random = {80};
    stored_rows k = make_rows(&random, c->k, KEYS * KV_HEADS, DIM), v = make_rows(&random, c->v, KEYS * KV_HEADS, VALUE_DIM);
    const gyre_attention_args good = args_of(c, NULL, &k, &v, 1);
    gyre_attention_gradients gradients = GYRE_INIT(gyre_attention_gradients);
    gyre_cache_config config = GYRE_INIT(gyre_cache_config);
    gyre_cache *cache = NULL;
    gyre_error error;
    REFUSED(GYRE_ESHAPE, "k: 48 channels are not a multiple of 32, as blocks of Q8_0 are (gyre_attention)",
            (args.k.shape[3] = args.q.shape[3] = 48));
    REFUSED(GYRE_EINVAL,
            "k: shape [1, 300, 2, 64] and strides [38400, 130, 64, 1] do not keep blocks of 32 Q8_0 channels whole "
            "(gyre_attention)",
            args.k.stride[1] = 130);
    REFUSED(GYRE_EINVAL,
            "v: shape [1, 300, 2, 96] and strides [57600, 192, 96, 2] do not keep blocks of 32 Q8_0 channels whole "
            "(gyre_attention)",
            args.v.stride[3] = 2);
    REFUSED(GYRE_EINVAL, "out: overlaps v (gyre_attention)", args.out.data = v.stored + 34 * 32);
    REFUSED(GYRE_EDTYPE, "q: element type Q8_0 is not F32, F16 or BF16 (gyre_attention)", args.q.dtype = Q8_0);
    REFUSED(GYRE_EINVAL,
            "k: its strides [38400, 1152921504606846976, 64, 1] reach further than memory does, for shape [1, 300, 2, 64] "
            "(gyre_attention)",
            args.k.stride[1] = (int64_t)1 << 60);
    gradients.dout = gyre_const(good.out);
    gradients.dq = gyre_dense(want, F32, 1, 1, HEADS, DIM);
    gradients.dk = gradients.dv = gyre_dense(want, F32, 1, KEYS, KV_HEADS, DIM);
    assert_int_equal(gyre_attention_gradient(&good, &gradients, (gyre_scratch){scratch, sizeof scratch}, NULL, &error),
                     GYRE_EDTYPE);
    assert_string_equal(error.text, "k: element type Q8_0 is not F32, F16 or BF16 (gyre_attention_gradient)");
    config.heads = 1, config.head_dim = 32, config.max_tokens = 8;
    config.key_dtype = config.value_dtype = Q8_0;
    assert_int_equal(gyre_cache_create(&cache, &config, NULL, &error), GYRE_EDTYPE);
    assert_int_equal((int)gyre_dtype_size(Q4_0), 0);
    free_rows(&k), free_rows(&v);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        FOR_TIERS(blocks_have_the_bits_of_their_numbers),
        cmocka_unit_test(blocks_in_pages_have_the_bits_of_a_view),
        cmocka_unit_test(other_forms_have_the_same_bits),
        cmocka_unit_test(what_blocks_refuse),
    };
    return cmocka_run_group_tests_name("test_block_keys", tests, NULL, NULL);
}
