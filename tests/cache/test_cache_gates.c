/* test_cache_gates.c: a cache that keeps gate sums beside its keys: attention over it is attention over its tokens, whatever
 * was forked, removed, shifted, moved together, saved and loaded. */
#include "attention_memory.h"
#include "attention_setup.h"
#include "gyre/gyre_cache.h"

#include <math.h>
#include <unistd.h>

enum { HEADS = 4, KEY_HEADS = 2, DIM = 16, MOST = 400, SEQUENCES = 3 };

/* What the cache should hold. */
typedef struct tokens {
    int64_t count, at[MOST];
    float k[MOST][KEY_HEADS][DIM], v[MOST][KEY_HEADS][DIM];
    double sums[MOST][HEADS];
} tokens;

static gyre_encoding *make_rope(void) {
    gyre_config config = test_rope_config(DIM, GYRE_LAYOUT_HALF);
    return test_encoding(&config);
}

static gyre_cache *make_cache(const gyre_encoding *encoding, int64_t page_tokens) {
    gyre_cache_config config = GYRE_INIT(gyre_cache_config);
    gyre_cache *cache;
    config.encoding = encoding;
    config.keys = GYRE_CACHE_KEYS_RAW;
    config.heads = KEY_HEADS;
    config.head_dim = DIM;
    config.sequences = SEQUENCES;
    config.max_tokens = page_tokens ? 500 : 3 * MOST;
    config.page_tokens = page_tokens;
    config.gate_heads = HEADS;
    assert_ok(gyre_cache_create(&cache, &config, NULL, NULL));
    return cache;
}

/* *positions: those of the arguments. */
static gyre_cache_append_args append_args(const tokens *s, int64_t sequence, int64_t count, gyre_positions *positions) {
    gyre_cache_append_args args = GYRE_INIT(gyre_cache_append_args);
    args.sequence = sequence;
    args.k = gyre_cdense(s->k[s->count], GYRE_DTYPE_F32, 1, count, KEY_HEADS, DIM);
    args.v = gyre_cdense(s->v[s->count], GYRE_DTYPE_F32, 1, count, KEY_HEADS, DIM);
    *positions = (gyre_positions){s->at + s->count, GYRE_DTYPE_I64, 0, 0, 0, 1, 0, 0};
    args.positions = positions;
    args.gates = gyre_cdense(s->sums[s->count], GYRE_DTYPE_F64, 1, count, HEADS, 1);
    return args;
}

static void append(gyre_cache *cache, tokens *s, int64_t sequence, int64_t count, test_random *random) {
    assert_true(s->count + count <= MOST);
    for (int64_t t = s->count; t < s->count + count; t++) {
        s->at[t] = t > 0 ? s->at[t - 1] + 1 : 0;
        test_fill(random, s->k[t][0], (size_t)(KEY_HEADS * DIM));
        test_fill(random, s->v[t][0], (size_t)(KEY_HEADS * DIM));
        for (int h = 0; h < HEADS; h++)
            s->sums[t][h] = (t > 0 ? s->sums[t - 1][h] : 0) - 0.2 * (1 + test_uniform(random));
    }
    gyre_positions positions;
    const gyre_cache_append_args args = append_args(s, sequence, count, &positions);
    assert_ok(gyre_cache_append(cache, &args, NULL, NULL));
    s->count += count;
}

static void drop(tokens *s, int64_t first, int64_t count) {
    const size_t rest = (size_t)(s->count - first - count);
    memmove(s->at + first, s->at + first + count, rest * sizeof *s->at);
    memmove(s->k + first, s->k + first + count, rest * sizeof *s->k);
    memmove(s->v + first, s->v + first + count, rest * sizeof *s->v);
    memmove(s->sums + first, s->sums + first + count, rest * sizeof *s->sums);
    s->count -= count;
}

/* The last queries over the sequence, and over its tokens in memory: the same bits in the fixed order. */
static void check_sequence(const gyre_cache *cache, const tokens *s, int64_t sequence, int64_t queries,
                           const gyre_encoding *encoding) {
    float q[40 * HEADS * DIM], out[2][40 * HEADS * DIM];
    test_random random = {17};
    test_fill(&random, q, (size_t)(queries * HEADS * DIM));
    attention_setup args = GYRE_INIT(attention_setup);
    args.q = gyre_cdense(q, GYRE_DTYPE_F32, 1, queries, HEADS, DIM);
    args.q_pos = (gyre_positions){s->at + s->count - queries, GYRE_DTYPE_I64, 0, 0, 0, 1, 0, 0};
    args.causal = GYRE_CAUSAL_BY_POSITION;
    args.q_gate_sums = gyre_cdense(s->sums[s->count - queries], GYRE_DTYPE_F64, 1, queries, HEADS, 1);
    args.order = GYRE_ORDER_FIXED;
    for (int i = 0; i < 2; i++) {
        args.out = gyre_dense(out[i], GYRE_DTYPE_F32, 1, queries, HEADS, DIM);
        if (i == 0) {
            const size_t bytes = cache_attention_scratch(cache, &sequence, &args, NULL);
            void *scratch = scratch_for(bytes);
            assert_ok(run_cache_attention(cache, &sequence, &args, (gyre_scratch){scratch, bytes}, NULL, NULL));
            free(scratch);
            continue;
        }
        args.encoding = encoding;
        args.k = gyre_cdense(s->k, GYRE_DTYPE_F32, 1, s->count, KEY_HEADS, DIM);
        args.v = gyre_cdense(s->v, GYRE_DTYPE_F32, 1, s->count, KEY_HEADS, DIM);
        args.k_pos = (gyre_positions){s->at, GYRE_DTYPE_I64, 0, 0, 0, 1, 0, 0};
        args.k_gate_sums = gyre_cdense(s->sums, GYRE_DTYPE_F64, 1, s->count, HEADS, 1);
        attend(&args, NULL);
    }
    assert_memory_equal(out[0], out[1], (size_t)(queries * HEADS * DIM) * sizeof(float));
}

static tokens *make_tokens(void) {
    tokens *s = calloc(SEQUENCES, sizeof *s);
    assert_non_null(s);
    return s;
}

static void check_all(const gyre_cache *cache, const tokens *s, const gyre_encoding *encoding) {
    for (int64_t i = 0; i < SEQUENCES; i++) {
        if (s[i].count > 0) check_sequence(cache, &s[i], i, 1, encoding);
        if (s[i].count >= 40) check_sequence(cache, &s[i], i, 40, encoding);
    }
}

/* Appends, forks, removals, shifts, and so many tokens that pages are moved together. */
static void edits_keep_sums(void **state) {
    (void)state;
    static const int64_t pages[] = {0, 1, 16, 100};
    gyre_encoding *encoding = make_rope();
    for (int p = 0; p < 4; p++) {
        gyre_cache *cache = make_cache(encoding, pages[p]);
        tokens *s = make_tokens();
        test_random random = {3};
        const int64_t shift[GYRE_MAX_AXES] = {-30};
        append(cache, &s[0], 0, 130, &random);
        append(cache, &s[1], 1, 50, &random);
        assert_ok(gyre_cache_fork(cache, 0, 2, NULL));
        s[2] = s[0];
        append(cache, &s[2], 2, 20, &random);
        append(cache, &s[0], 0, 7, &random);
        check_all(cache, s, encoding);
        assert_ok(gyre_cache_remove(cache, (gyre_cache_range){0, 10, 30}, NULL));
        drop(&s[0], 10, 30);
        assert_ok(gyre_cache_remove(cache, (gyre_cache_range){2, 0, 75}, NULL));
        drop(&s[2], 0, 75);
        assert_ok(gyre_cache_shift(cache, (gyre_cache_range){0, 10, 97}, shift, NULL));
        for (int64_t t = 10; t < 107; t++)
            s[0].at[t] -= 30;
        append(cache, &s[0], 0, 150, &random);
        append(cache, &s[1], 1, pages[p] ? 60 : 200, &random);
        check_all(cache, s, encoding);
        free(s);
        gyre_cache_free(cache);
    }
    gyre_encoding_free(encoding);
}

static void files_keep_sums(void **state) {
    (void)state;
    char path[] = "/tmp/gyre_gates_XXXXXX";
    const int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    gyre_encoding *encoding = make_rope();
    gyre_cache *cache = make_cache(encoding, 16), *loaded;
    tokens *s = make_tokens();
    test_random random = {4};
    append(cache, &s[0], 0, 130, &random);
    append(cache, &s[1], 1, 41, &random);
    assert_ok(gyre_cache_remove(cache, (gyre_cache_range){0, 100, 9}, NULL));
    drop(&s[0], 100, 9);
    assert_ok(gyre_cache_save(cache, path, NULL));
    assert_ok(gyre_cache_load(&loaded, path, encoding, NULL, NULL));
    assert_int_equal(gyre_cache_get_config(loaded)->gate_heads, HEADS);
    check_all(loaded, s, encoding);
    append(loaded, &s[1], 1, 30, &random);
    check_all(loaded, s, encoding);
    gyre_cache_free(loaded);
    gyre_cache_free(cache);
    gyre_encoding_free(encoding);
    free(s);
    unlink(path);
}

static void says_what_is_wrong(void **state) {
    (void)state;
    gyre_error err = {0, ""};
    gyre_encoding *encoding = make_rope();
    gyre_cache *cache = make_cache(encoding, 16), *plain;
    gyre_cache_config config = *gyre_cache_get_config(cache);
    tokens *s = make_tokens();
    test_random random = {5};
    config.gate_heads = 0;
    assert_ok(gyre_cache_create(&plain, &config, NULL, NULL));
    append(cache, &s[0], 0, 5, &random);
    s->count = 0;
    gyre_positions positions;
    gyre_cache_append_args args = append_args(s, 0, 5, &positions);
    assert_int_equal(gyre_cache_append(plain, &args, NULL, &err), GYRE_EINVAL);
    assert_string_equal(err.text, "gates: the cache has no gate_heads (gyre_cache_append)");
    assert_int_equal(gyre_cache_append(cache,
                                       GYRE_ARGS(gyre_cache_append_args, .k = args.k, .v = args.v, .positions = &positions),
                                       NULL, &err),
                     GYRE_EINVAL);
    assert_string_equal(err.text, "gates: missing; the cache keeps gate sums (gyre_cache_append)");
    args.gates.shape[2] = 3;
    assert_int_equal(gyre_cache_append(cache, &args, NULL, &err), GYRE_ESHAPE);
    assert_string_equal(err.text, "gates: shape [1, 5, 3, 1] is not [1, 5, 4, 1] (gyre_cache_append)");
    args.gates.shape[2] = HEADS;
    args.gates.dtype = GYRE_DTYPE_F16;
    assert_int_equal(gyre_cache_append(cache, &args, NULL, &err), GYRE_EDTYPE);
    args.gates.dtype = GYRE_DTYPE_F64;
    s->sums[2][1] = NAN;
    assert_int_equal(gyre_cache_append(cache, &args, NULL, &err), GYRE_EINVAL);
    assert_string_equal(err.text, "gates: nan of token 2, head 1 is not finite (gyre_cache_append)");
    assert_int_equal(gyre_cache_tokens(cache, 0), 5);
    config.gate_heads = -1;
    assert_int_equal(gyre_cache_create(&plain, &config, NULL, &err), GYRE_EINVAL);
    assert_string_equal(err.text, "gate_heads: -1 is not in 0 .. 65536 (gyre_cache_config)");
    config.heads = 2;
    config.gate_heads = 3;
    assert_int_equal(gyre_cache_create(&plain, &config, NULL, &err), GYRE_EINVAL);
    assert_string_equal(err.text, "gate_heads: 3 query heads cannot share 2 key heads evenly (gyre_cache_config)");
    free(s);
    gyre_cache_free(plain);
    gyre_cache_free(cache);
    gyre_encoding_free(encoding);
}

/* Attention needs the sums of the queries exactly where the cache keeps those of the keys. */
static void attention_says_what_is_wrong(void **state) {
    (void)state;
    gyre_error err = {0, ""};
    gyre_encoding *encoding = make_rope();
    gyre_cache *cache = make_cache(encoding, 16);
    tokens *s = make_tokens();
    test_random random = {6};
    float q[HEADS * DIM] = {0}, out[HEADS * DIM];
    double sums[HEADS] = {0};
    const int64_t sequence = 0;
    const size_t bytes = 1 << 20;
    void *scratch = scratch_for(bytes);
    append(cache, &s[0], 0, 5, &random);
    attention_setup args = GYRE_INIT(attention_setup);
    args.q = gyre_cdense(q, GYRE_DTYPE_F32, 1, 1, HEADS, DIM);
    args.out = gyre_dense(out, GYRE_DTYPE_F32, 1, 1, HEADS, DIM);
    assert_int_equal(run_cache_attention(cache, &sequence, &args, (gyre_scratch){scratch, bytes}, NULL, &err), GYRE_EINVAL);
    assert_string_equal(err.text, "gates.q: is missing, but the cache keeps gate sums (gyre_cache_attention)");
    args.q_gate_sums = gyre_cdense(sums, GYRE_DTYPE_F64, 1, 1, 2, 1);
    assert_int_equal(run_cache_attention(cache, &sequence, &args, (gyre_scratch){scratch, bytes}, NULL, &err), GYRE_ESHAPE);
    assert_string_equal(err.text, "gates.q: 2 heads, but the cache keeps those of 4 (gyre_cache_attention)");
    gyre_cache_config config = *gyre_cache_get_config(cache);
    gyre_cache *plain;
    config.gate_heads = 0;
    assert_ok(gyre_cache_create(&plain, &config, NULL, NULL));
    args.q_gate_sums = gyre_cdense(sums, GYRE_DTYPE_F64, 1, 1, HEADS, 1);
    assert_int_equal(run_cache_attention(plain, &sequence, &args, (gyre_scratch){scratch, bytes}, NULL, &err), GYRE_EINVAL);
    assert_string_equal(err.text, "gates.q: is set, but the cache has no gate sums (gyre_cache_attention)");
    free(scratch);
    free(s);
    gyre_cache_free(plain);
    gyre_cache_free(cache);
    gyre_encoding_free(encoding);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(edits_keep_sums),
        cmocka_unit_test(files_keep_sums),
        cmocka_unit_test(says_what_is_wrong),
        cmocka_unit_test(attention_says_what_is_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
