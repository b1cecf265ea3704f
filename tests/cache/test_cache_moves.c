/* test_cache_moves.c: after any operations on the sequences of a cache, each token has the key and value that were appended,
 * at its current position. */
#include "gyre/gyre_cache.h"
#include "naive_cache.h"

#define ROTATED GYRE_CACHE_KEYS_ROTATED
#define RAW     GYRE_CACHE_KEYS_RAW

/* -- anything, in any order, against the model -- */

typedef struct drive {
    const cache_case *c;
    gyre_cache *cache;
    model_sequence *s;
    test_random random;
    int64_t refused, appended;
} drive;

static int64_t below(drive *d, int64_t n) {
    return (int64_t)(test_next(&d->random) % (uint64_t)n);
}

/* If no two pages can be merged, more than half of their slots have tokens. */
static int may_refuse(const drive *d, int64_t sequence, int64_t count) {
    const gyre_cache_usage usage = cache_usage(d->cache);
    if (d->c->page_tokens == 0) return d->s[sequence].count + count > d->c->max_tokens / d->c->sequences;
    const int64_t packed = (usage.pages / 2 - 1) * d->c->page_tokens;
    return usage.tokens + count > (packed < d->c->max_tokens ? packed : d->c->max_tokens);
}

static void try_append(drive *d, int64_t sequence) {
    model_sequence *s = &d->s[sequence];
    const int64_t count = 1 + below(d, below(d, 4) ? 3 : 40);
    if (s->count + count > MOST_TOKENS) return;
    const int64_t first = s->count > 0 ? s->token[s->count - 1].at[0] + 1 + 5 * !below(d, 8) : below(d, 100);
    const gyre_status status = model_append(d->cache, d->c, s, sequence, count, first, 1, &d->random);
    d->appended += status == GYRE_OK;
    d->refused += status != GYRE_OK;
    if (status != GYRE_OK) {
        assert_int_equal(status, GYRE_ENOMEM);
        assert_true(may_refuse(d, sequence, count));
    } else if (d->c->page_tokens == 0) {
        assert_true(s->count <= d->c->max_tokens / d->c->sequences);
    }
}

static void try_drop(drive *d, int64_t sequence) {
    model_sequence *s = &d->s[sequence];
    const int64_t first = below(d, s->count + 1), most = s->count - first;
    const int64_t count = below(d, 6) ? below(d, most < 4 ? most + 1 : 4) : below(d, 2) ? most : below(d, most + 1);
    assert_ok(gyre_cache_remove(d->cache, (gyre_cache_range){sequence, first, count}, NULL));
    model_drop(s, first, count);
}

static void try_shift(drive *d, int64_t sequence) {
    model_sequence *s = &d->s[sequence];
    const int64_t first = below(d, s->count + 1), count = below(d, s->count - first + 1);
    const int64_t delta[GYRE_MAX_AXES] = {below(d, 200) - 100, below(d, 60) - 30, 7, -9};
    assert_ok(gyre_cache_shift(d->cache, (gyre_cache_range){sequence, first, count}, delta, NULL));
    for (int64_t i = first; i < first + count; i++)
        for (int a = 0; a < 2; a++)
            s->token[i].at[a] += delta[a];
}

static void try_slide(drive *d, int64_t sequence) {
    model_sequence *s = &d->s[sequence];
    const int64_t window = 1 + below(d, s->count + 8), sinks = below(d, window < 5 ? window + 1 : 5);
    const int slides = s->count > window;
    int64_t next = -1;
    assert_ok(gyre_cache_slide(d->cache, sequence, sinks, window, &next, NULL));
    if (slides) {
        model_drop(s, sinks, s->count - window);
        for (int64_t i = 0; i < s->count; i++)
            s->token[i].at[0] = s->token[i].at[1] = i;
    }
    assert_int_equal(next, s->count > 0 ? s->token[s->count - 1].at[0] + 1 : 0);
}

static void step(drive *d) {
    const int64_t sequence = below(d, d->c->sequences), other = below(d, d->c->sequences);
    switch (below(d, 10)) {
    case 0:
    case 1:
        try_drop(d, sequence);
        break;
    case 2:
    case 3:
        try_shift(d, sequence);
        break;
    case 4:
        if (below(d, 3)) break;
        assert_ok(gyre_cache_fork(d->cache, sequence, other, NULL));
        memmove(&d->s[other], &d->s[sequence], sizeof *d->s);
        break;
    case 5:
        if (below(d, 2)) try_slide(d, sequence);
        break;
    default:
        try_append(d, sequence);
    }
}

static void against_model(const cache_case *c, uint64_t seed, int steps) {
    gyre_encoding *encoding = case_encoding(c);
    drive d = {.c = c, .cache = case_cache(c, encoding), .random = {seed}};
    d.s = calloc(MOST_SEQUENCES, sizeof *d.s);
    assert_non_null(d.s);
    for (int i = 0; i < steps; i++) {
        step(&d);
        compare_cache(d.cache, c, d.s);
    }
    assert_true(d.appended > steps / 8);
    for (int64_t i = 0; i < c->sequences; i++)
        assert_ok(gyre_cache_remove(d.cache, (gyre_cache_range){i, 0, d.s[i].count}, NULL));
    const gyre_cache_usage usage = cache_usage(d.cache);
    assert_int_equal(usage.free_pages, usage.pages);
    assert_int_equal(usage.tokens + usage.shared_tokens, 0);
    assert_int_equal(usage.used, 0);
    free(d.s);
    gyre_cache_free(d.cache);
    gyre_encoding_free(encoding);
}

static void anything(void **state) {
    (void)state;
    const cache_case cases[] = {{RAW, GYRE_DTYPE_F32, GYRE_DTYPE_F32, 4, 256, 16, 1, GYRE_LAYOUT_HALF, 0},
                                {ROTATED, GYRE_DTYPE_F32, GYRE_DTYPE_F16, 4, 256, 16, 1, GYRE_LAYOUT_HALF, 0},
                                {ROTATED, GYRE_DTYPE_F16, GYRE_DTYPE_BF16, 4, 300, 7, 2, GYRE_LAYOUT_HALF, 0},
                                {ROTATED, GYRE_DTYPE_BF16, GYRE_DTYPE_F32, 3, 200, 32, 1, GYRE_LAYOUT_INTERLEAVED, 1.25},
                                {ROTATED, GYRE_DTYPE_Q8, GYRE_DTYPE_Q8, 4, 256, 1, 1, GYRE_LAYOUT_HALF, 1.5},
                                {RAW, GYRE_DTYPE_Q8, GYRE_DTYPE_F16, 2, 128, 16, 2, GYRE_LAYOUT_HALF, 0},
                                {ROTATED, GYRE_DTYPE_F32, GYRE_DTYPE_Q8, 4, 256, 0, 1, GYRE_LAYOUT_HALF, 0},
                                {RAW, GYRE_DTYPE_F16, GYRE_DTYPE_F16, 1, 100, 0, 1, GYRE_LAYOUT_HALF, 0},
                                {ROTATED, GYRE_DTYPE_F16, GYRE_DTYPE_F16, 3, 240, 0, 2, GYRE_LAYOUT_HALF, 0},
                                {RAW, GYRE_DTYPE_BF16, GYRE_DTYPE_BF16, 4, 96, 4, 1, GYRE_LAYOUT_HALF, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        against_model(&cases[i], 77 + i, 500);
}

/* -- shifts -- */

/* The first key of a sequence, rotated back to position 0. */
static void read_first(const gyre_cache *cache, const cache_case *c, double *k) {
    const gyre_key_source source = gyre_cache_source(cache, 0);
    gyre_key_run run;
    int64_t at[GYRE_MAX_AXES] = {0};
    source.run(&source, 0, 0, 0, &run);
    assert_ok(gyre_cache_positions(cache, (gyre_cache_range){0, 0, 1}, 0, at, NULL));
    if (run.shift) at[0] -= run.shift[0];
    for (int i = 0; i < DIM; i++)
        k[i] = stored(run.k, c->key_dtype, run.k_scale, i);
    case_rotate(c, at, -1, k);
}

/* A thousand shifts give the same key as one, to the last bit. */
static void thousand_shifts(void **state) {
    (void)state;
    const gyre_dtype dtypes[] = {GYRE_DTYPE_F32, GYRE_DTYPE_F16, GYRE_DTYPE_BF16, GYRE_DTYPE_Q8};
    for (int i = 0; i < 4; i++) {
        const cache_case c = {ROTATED, dtypes[i], GYRE_DTYPE_F32, 1, 64, 16, 1, GYRE_LAYOUT_HALF, 1.4};
        gyre_encoding *encoding = case_encoding(&c);
        gyre_cache *cache = case_cache(&c, encoding);
        model_sequence *s = calloc(1, sizeof *s);
        test_random random = {5};
        double before[DIM], after[DIM];
        assert_ok(model_append(cache, &c, s, 0, 40, 17, 1, &random));
        read_first(cache, &c, before);
        for (int n = 0; n < 1000; n++) {
            const int64_t delta[GYRE_MAX_AXES] = {n % 2 ? -3 : 5, 0, 0, 0};
            assert_ok(gyre_cache_shift(cache, (gyre_cache_range){0, 0, 40}, delta, NULL));
        }
        for (int j = 0; j < 40; j++)
            s->token[j].at[0] += 1000;
        compare_sequence(cache, &c, 0, s);
        read_first(cache, &c, after);
        assert_memory_equal(before, after, sizeof after);
        /* the factor is there once */
        double norm = 0, raw = 0;
        for (int j = 0; j < DIM; j++)
            norm += after[j] * after[j], raw += s->token[0].k[0][j] * s->token[0].k[0][j];
        assert_true(fabs(sqrt(norm / raw) / 1.4 - 1) < 0.01);
        free(s);
        gyre_cache_free(cache);
        gyre_encoding_free(encoding);
    }
}

static void shifts_refused(void **state) {
    (void)state;
    const cache_case c = {RAW, GYRE_DTYPE_F32, GYRE_DTYPE_F32, 2, 64, 16, 1, GYRE_LAYOUT_HALF, 0};
    gyre_encoding *encoding = case_encoding(&c);
    gyre_cache *cache = case_cache(&c, encoding);
    model_sequence *s = calloc(2, sizeof *s);
    test_random random = {5};
    assert_ok(model_append(cache, &c, s, 0, 20, 0, 1, &random));
    const int64_t most = INT64_C(1) << 31, far[4] = {most - 19 + 1, 0, 0, 0}, absurd[4] = {INT64_MAX, 0, 0, 0},
                  small[4] = {INT64_MIN, 0, 0, 0}, none[4] = {0}, fits[4] = {most - 19, INT64_MAX, 0, 0};
    assert_int_equal(gyre_cache_shift(cache, (gyre_cache_range){0, 0, 20}, far, NULL), GYRE_ERANGE);
    assert_int_equal(gyre_cache_shift(cache, (gyre_cache_range){0, 0, 20}, absurd, NULL), GYRE_ERANGE);
    gyre_error err = {0, ""};
    const int64_t widest[4] = {2 * most, 0, 0, 0}, wider[4] = {2 * most + 1, 0, 0, 0};
    assert_int_equal(gyre_cache_shift(cache, (gyre_cache_range){0, 0, 20}, widest, &err), GYRE_ERANGE);
    assert_non_null(strstr(err.text, "delta: token 0 would move to position 4294967296"));
    assert_int_equal(gyre_cache_shift(cache, (gyre_cache_range){0, 0, 20}, wider, &err), GYRE_ERANGE);
    assert_non_null(strstr(err.text, "delta: 4294967297 is past 2^32"));
    assert_int_equal(gyre_cache_shift(cache, (gyre_cache_range){0, 3, 2}, small, NULL), GYRE_ERANGE);
    assert_int_equal(gyre_cache_shift(cache, (gyre_cache_range){0, 0, 21}, none, NULL), GYRE_EINVAL);
    assert_int_equal(gyre_cache_shift(cache, (gyre_cache_range){0, 21, 0}, none, NULL), GYRE_EINVAL);
    assert_int_equal(gyre_cache_shift(cache, (gyre_cache_range){0, -1, 2}, none, NULL), GYRE_EINVAL);
    assert_int_equal(gyre_cache_shift(cache, (gyre_cache_range){2, 0, 0}, none, NULL), GYRE_EINVAL);
    assert_int_equal(gyre_cache_shift(cache, (gyre_cache_range){0, 0, 1}, NULL, NULL), GYRE_EINVAL);
    assert_int_equal(gyre_cache_remove(cache, (gyre_cache_range){0, 20, 1}, NULL), GYRE_EINVAL);
    assert_int_equal(gyre_cache_remove(cache, (gyre_cache_range){0, 1, INT64_MAX}, NULL), GYRE_EINVAL);
    assert_int_equal(gyre_cache_remove(cache, (gyre_cache_range){-1, 0, 0}, NULL), GYRE_EINVAL);
    assert_int_equal(gyre_cache_fork(cache, 0, 2, NULL), GYRE_EINVAL);
    assert_int_equal(gyre_cache_slide(cache, 0, 3, 2, NULL, NULL), GYRE_EINVAL);
    assert_int_equal(gyre_cache_slide(cache, 0, 0, 0, NULL, NULL), GYRE_EINVAL);
    assert_int_equal(gyre_cache_slide(cache, 0, -1, 4, NULL, NULL), GYRE_EINVAL);
    assert_ok(gyre_cache_shift(cache, (gyre_cache_range){0, 20, 0}, far, NULL));
    compare_cache(cache, &c, s);
    assert_ok(gyre_cache_shift(cache, (gyre_cache_range){0, 0, 20}, fits, NULL));
    for (int i = 0; i < 20; i++)
        s[0].token[i].at[0] += fits[0];
    compare_cache(cache, &c, s);
    free(s);
    gyre_cache_free(cache);
    gyre_encoding_free(encoding);
}

/* Shifts continue to work beyond tokens that have one, but not to positions where angles are inexact. */
static void far_shift(void **state) {
    (void)state;
    const cache_case c = {ROTATED, GYRE_DTYPE_F32, GYRE_DTYPE_F32, 1, 64, 16, 2, GYRE_LAYOUT_HALF, 0};
    const int64_t most = INT64_C(1) << 31, delta[GYRE_MAX_AXES] = {most - 100, most - 100, 0, 0};
    gyre_encoding *encoding = case_encoding(&c);
    gyre_cache *cache = case_cache(&c, encoding);
    model_sequence *s = calloc(1, sizeof *s);
    test_random random = {5};
    assert_ok(model_append(cache, &c, s, 0, 5, 0, 1, &random));
    assert_ok(gyre_cache_shift(cache, (gyre_cache_range){0, 0, 5}, delta, NULL));
    for (int i = 0; i < 5; i++)
        s->token[i].at[0] += delta[0], s->token[i].at[1] += delta[1];
    assert_ok(model_append(cache, &c, s, 0, 5, most - 95, 1, &random));
    assert_int_equal(cache->sequence[0].count, 1);
    assert_ok(model_append(cache, &c, s, 0, 5, -100000, 1, &random));
    assert_int_equal(cache->sequence[0].count, 2);
    for (int64_t i = 0; i < 15; i++)
        for (int a = 0; a < 2; a++)
            assert_true(llabs((long long)gyre_cache_position(cache, 0, i)[a]) <= most);
    compare_cache(cache, &c, s);
    free(s);
    gyre_cache_free(cache);
    gyre_encoding_free(encoding);
}

/* -- sharing -- */

static void forks(void **state) {
    (void)state;
    for (int64_t page = 0; page <= 16; page += 8) {
        const cache_case c = {ROTATED, GYRE_DTYPE_F16, GYRE_DTYPE_F16, 3, 192, page, 1, GYRE_LAYOUT_HALF, 0};
        gyre_encoding *encoding = case_encoding(&c);
        gyre_cache *cache = case_cache(&c, encoding);
        model_sequence *s = calloc(3, sizeof *s);
        test_random random = {5};
        const int64_t delta[GYRE_MAX_AXES] = {-4, 0, 0, 0};
        assert_ok(model_append(cache, &c, &s[0], 0, 37, 0, 1, &random));
        assert_int_equal(cache_usage(cache).shared_tokens, 0);
        assert_ok(gyre_cache_fork(cache, 0, 1, NULL));
        assert_ok(gyre_cache_fork(cache, 0, 2, NULL));
        s[1] = s[2] = s[0];
        gyre_cache_usage usage = cache_usage(cache);
        assert_int_equal(usage.tokens, 3 * 37);
        assert_int_equal(usage.shared_tokens, 37);
        assert_int_equal(usage.pages - usage.free_pages, page ? (37 + page - 1) / page : 1);
        compare_cache(cache, &c, s);
        for (int i = 0; i < 3; i++) /* each goes on its own way */
            assert_ok(model_append(cache, &c, &s[i], i, 5 + i, 37, 1, &random));
        compare_cache(cache, &c, s);
        assert_ok(gyre_cache_shift(cache, (gyre_cache_range){1, 10, 20}, delta, NULL));
        for (int i = 10; i < 30; i++)
            s[1].token[i].at[0] -= 4;
        assert_ok(gyre_cache_remove(cache, (gyre_cache_range){2, 1, 30}, NULL));
        model_drop(&s[2], 1, 30);
        compare_cache(cache, &c, s);
        assert_ok(gyre_cache_remove(cache, (gyre_cache_range){0, 0, s[0].count}, NULL));
        s[0].count = 0;
        compare_cache(cache, &c, s);
        assert_ok(model_append(cache, &c, &s[0], 0, 64, 0, 1, &random));
        compare_cache(cache, &c, s);
        free(s);
        gyre_cache_free(cache);
        gyre_encoding_free(encoding);
    }
}

/* -- room -- */

/* Pages run out: nothing has changed, and holes were filled first. */
static void no_room(void **state) {
    (void)state;
    const cache_case c = {ROTATED, GYRE_DTYPE_F32, GYRE_DTYPE_F32, 2, 64, 8, 1, GYRE_LAYOUT_HALF, 0};
    gyre_encoding *encoding = case_encoding(&c);
    gyre_cache *cache = case_cache(&c, encoding);
    model_sequence *s = calloc(2, sizeof *s);
    test_random random = {5};
    assert_int_equal(cache_usage(cache).pages, 9);
    assert_ok(model_append(cache, &c, &s[0], 0, 60, 0, 1, &random));
    assert_int_equal(model_append(cache, &c, &s[1], 1, 5, 0, 1, &random), GYRE_ENOMEM);
    assert_int_equal(model_append(cache, &c, &s[0], 0, 5, 60, 1, &random), GYRE_ENOMEM);
    compare_cache(cache, &c, s);
    assert_ok(model_append(cache, &c, &s[1], 1, 4, 0, 1, &random));
    assert_int_equal(model_append(cache, &c, &s[0], 0, 1, 60, 1, &random), GYRE_ENOMEM);
    compare_cache(cache, &c, s);
    for (int i = 0; i < 30; i++) { /* every other token */
        assert_ok(gyre_cache_remove(cache, (gyre_cache_range){0, i, 1}, NULL));
        model_drop(&s[0], i, 1);
    }
    compare_cache(cache, &c, s);
    assert_int_equal(cache_usage(cache).free_pages, 0);
    assert_ok(model_append(cache, &c, &s[1], 1, 30, 4, 1, &random));
    assert_int_equal(model_append(cache, &c, &s[1], 1, 1, 34, 1, &random), GYRE_ENOMEM);
    compare_cache(cache, &c, s);
    free(s);
    gyre_cache_free(cache);
    gyre_encoding_free(encoding);
}

/* Without pages a sequence holds its share whatever was dropped, in one piece. */
static void contiguous(void **state) {
    (void)state;
    const cache_case c = {RAW, GYRE_DTYPE_F16, GYRE_DTYPE_F16, 2, 64, 0, 1, GYRE_LAYOUT_HALF, 0};
    gyre_encoding *encoding = case_encoding(&c);
    gyre_cache *cache = case_cache(&c, encoding);
    model_sequence *s = calloc(2, sizeof *s);
    test_random random = {5};
    assert_ok(model_append(cache, &c, &s[0], 0, 32, 0, 1, &random));
    assert_ok(model_append(cache, &c, &s[1], 1, 32, 0, 1, &random));
    assert_int_equal(model_append(cache, &c, &s[0], 0, 1, 32, 1, &random), GYRE_ENOMEM);
    for (int i = 0; i < 100; i++) {
        const int64_t first = i % 3 ? 0 : 7;
        assert_ok(gyre_cache_remove(cache, (gyre_cache_range){0, first, 1}, NULL));
        model_drop(&s[0], first, 1);
        assert_ok(model_append(cache, &c, &s[0], 0, 1, 32 + i, 1, &random));
        compare_cache(cache, &c, s);
        const gyre_key_source source = gyre_cache_source(cache, 0);
        gyre_key_run run;
        source.run(&source, 0, 0, 0, &run);
        assert_int_equal(run.count, 32);
    }
    free(s);
    gyre_cache_free(cache);
    gyre_encoding_free(encoding);
}

/* Each dropped token leaves a hole: range lists grow, and are compacted when they are full. */
static void many_holes(void **state) {
    (void)state;
    const cache_case c = {ROTATED, GYRE_DTYPE_F32, GYRE_DTYPE_F32, 1, 500, 0, 1, GYRE_LAYOUT_HALF, 0};
    gyre_encoding *encoding = case_encoding(&c);
    gyre_cache *cache = case_cache(&c, encoding);
    model_sequence *s = calloc(1, sizeof *s);
    test_random random = {5};
    for (int round = 0; round < 6; round++) {
        while (s->count + 50 <= 500)
            assert_ok(model_append(cache, &c, s, 0, 50, s->count ? s->token[s->count - 1].at[0] + 1 : 0, 1, &random));
        for (int i = 0; i < 220; i++) {
            assert_ok(gyre_cache_remove(cache, (gyre_cache_range){0, i, 1}, NULL));
            model_drop(s, i, 1);
        }
        compare_cache(cache, &c, s);
    }
    free(s);
    gyre_cache_free(cache);
    gyre_encoding_free(encoding);
}

/* Shifts that separate every token from the next need a range each. If there is none, nothing has changed. */
static void no_stretches(void **state) {
    (void)state;
    const cache_case c = {ROTATED, GYRE_DTYPE_F32, GYRE_DTYPE_F32, 2, 1000, 0, 1, GYRE_LAYOUT_HALF, 0};
    gyre_encoding *encoding = case_encoding(&c);
    gyre_cache *cache = case_cache(&c, encoding);
    model_sequence *s = calloc(2, sizeof *s);
    test_random random = {5};
    int refused = 0;
    for (int i = 0; i < 2; i++)
        for (int n = 0; n < 10; n++)
            assert_ok(model_append(cache, &c, &s[i], i, 50, 50 * n, 1, &random));
    for (int i = 0; i < 1000; i++) {
        const int64_t delta[GYRE_MAX_AXES] = {1 + i % 3, 0, 0, 0};
        const gyre_status status = gyre_cache_shift(cache, (gyre_cache_range){i % 2, i / 2, 1}, delta, NULL);
        if (status == GYRE_OK) s[i % 2].token[i / 2].at[0] += delta[0];
        refused += status == GYRE_ENOMEM;
        assert_true(status == GYRE_OK || status == GYRE_ENOMEM);
    }
    assert_true(refused > 0 && refused < 700);
    compare_cache(cache, &c, s);
    assert_ok(gyre_cache_remove(cache, (gyre_cache_range){0, 100, 390}, NULL)); /* which frees some */
    model_drop(&s[0], 100, 390);
    assert_ok(model_append(cache, &c, &s[0], 0, 20, 500, 1, &random));
    compare_cache(cache, &c, s);
    assert_ok(gyre_cache_fork(cache, 0, 1, NULL));
    s[1] = s[0];
    compare_cache(cache, &c, s);
    free(s);
    gyre_cache_free(cache);
    gyre_encoding_free(encoding);
}

/* -- streams -- */

/* A stream that is slid at each token needs few ranges, and equals a new cache. */
/* Two sequences: even tokens of the first `holes` of sequence 1 are gone, each of the `shifted` of sequence 0 is shifted by
 * another number. */
static gyre_cache *parted(const cache_case *c, const gyre_encoding *encoding, model_sequence *s, int shifted, int holes) {
    test_random random = {5};
    gyre_cache *cache = case_cache(c, encoding);
    memset(s, 0, 2 * sizeof *s);
    assert_ok(model_append(cache, c, &s[0], 0, 32, 0, 1, &random));
    assert_ok(model_append(cache, c, &s[1], 1, 32, 0, 1, &random));
    for (int64_t i = 0; i < shifted; i++) {
        const int64_t delta[GYRE_MAX_AXES] = {100 * i + 100};
        assert_ok(gyre_cache_shift(cache, (gyre_cache_range){0, i, 1}, delta, NULL));
        s[0].token[i].at[0] += delta[0];
    }
    for (int64_t i = 0; i < holes; i++) {
        assert_ok(gyre_cache_remove(cache, (gyre_cache_range){1, i + 1, 1}, NULL));
        model_drop(&s[1], i + 1, 1);
    }
    return cache;
}

static void within_pool(const gyre_cache *cache) {
    for (int64_t i = 0; i < 2; i++)
        assert_true(cache->sequence[i].count <= cache->sequence[i].capacity);
}

/* Room for stretches is made by closing holes, which leaves both sequences with other numbers of stretches. */
static void forks_in_a_full_pool(void **state) {
    const cache_case c = {RAW, GYRE_DTYPE_F32, GYRE_DTYPE_F32, 2, 128, 32, 1, GYRE_LAYOUT_HALF, 0};
    gyre_encoding *encoding = case_encoding(&c);
    model_sequence *s = malloc(2 * sizeof *s);
    (void)state;
    assert_non_null(s);
    for (int64_t pool = 40; pool < 80; pool++) {
        gyre_cache *cache = parted(&c, encoding, s, 30, 8);
        cache->pool_size = pool; /* as if no more had been taken */
        const gyre_status status = gyre_cache_fork(cache, 0, 1, NULL);
        assert_true(status == GYRE_OK || status == GYRE_ENOMEM);
        if (status == GYRE_OK) s[1] = s[0];
        within_pool(cache);
        compare_cache(cache, &c, s);
        gyre_cache_free(cache);
    }
    free(s);
    gyre_encoding_free(encoding);
}

static void shifts_in_a_full_pool(void **state) {
    const cache_case c = {RAW, GYRE_DTYPE_F32, GYRE_DTYPE_F32, 2, 128, 32, 1, GYRE_LAYOUT_HALF, 0};
    const int64_t delta[GYRE_MAX_AXES] = {1000};
    gyre_encoding *encoding = case_encoding(&c);
    model_sequence *s = malloc(2 * sizeof *s);
    (void)state;
    assert_non_null(s);
    for (int64_t free_ones = 0; free_ones < 3; free_ones++)
        for (int64_t first = 0; first < 3; first++) {
            gyre_cache *cache = parted(&c, encoding, s, 3, 1);
            /* one end is where a hole is, which may go, the other inside a stretch */
            const int64_t count = first == 0 ? 1 : 1 + 4 * first;
            assert_ok(gyre_cache_shift(cache, (gyre_cache_range){1, 20, 1}, delta, NULL));
            s[1].token[20].at[0] += delta[0];
            cache->pool_size = cache->sequence[0].count + cache->sequence[1].count + free_ones;
            const gyre_status status = gyre_cache_shift(cache, (gyre_cache_range){1, first, count}, delta, NULL);
            assert_true(status == GYRE_OK || status == GYRE_ENOMEM);
            for (int64_t i = first; status == GYRE_OK && i < first + count; i++)
                s[1].token[i].at[0] += delta[0];
            within_pool(cache);
            compare_cache(cache, &c, s);
            gyre_cache_free(cache);
        }
    free(s);
    gyre_encoding_free(encoding);
}

static void stream(void **state) {
    (void)state;
    for (int64_t page = 0; page <= 16; page += 16) {
        const cache_case c = {ROTATED, GYRE_DTYPE_F16, GYRE_DTYPE_F16, 1, 96, page, 1, GYRE_LAYOUT_HALF, 1.2};
        gyre_encoding *encoding = case_encoding(&c);
        gyre_cache *cache = case_cache(&c, encoding);
        model_sequence *s = calloc(1, sizeof *s);
        test_random random = {5};
        for (int64_t i = 0, next = 0; i < 1000; i++) {
            assert_ok(model_append(cache, &c, s, 0, 1, next, 1, &random));
            assert_ok(gyre_cache_slide(cache, 0, 4, 64, &next, NULL));
            if (s->count > 64) model_drop(s, 4, 1);
            for (int64_t t = 0; t < s->count; t++)
                s->token[t].at[0] = t;
            assert_int_equal(next, s->count);
            if (i % 50 == 0) compare_cache(cache, &c, s);
            assert_true(cache->sequence[0].count <= 8);
        }
        compare_cache(cache, &c, s);
        free(s);
        gyre_cache_free(cache);
        gyre_encoding_free(encoding);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(anything),
        cmocka_unit_test(thousand_shifts),
        cmocka_unit_test(shifts_refused),
        cmocka_unit_test(far_shift),
        cmocka_unit_test(forks),
        cmocka_unit_test(no_room),
        cmocka_unit_test(contiguous),
        cmocka_unit_test(many_holes),
        cmocka_unit_test(no_stretches),
        cmocka_unit_test(stream),
        cmocka_unit_test(forks_in_a_full_pool),
        cmocka_unit_test(shifts_in_a_full_pool),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
