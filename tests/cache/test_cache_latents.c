/* test_cache_latents.c: a cache whose values are in its keys keeps each latent once, and is otherwise the cache that keeps a
 * copy of them as values: after every edit, in files, and with gates. */
#include "attention_setup.h"
#include "gyre/gyre_cache.h"
#include "naive_latents.h"

#include <stdio.h>
#include <unistd.h>

static const gyre_dtype TYPES[] = {GYRE_DTYPE_F32, GYRE_DTYPE_F16, GYRE_DTYPE_BF16, GYRE_DTYPE_Q8};
enum { TYPE_COUNT = 4, SEQUENCES = 3, TOKENS = 400 };

static const latent_shape SHAPE = {4, 32, 16, 8, 8, TOKENS, 0, GYRE_LAYOUT_INTERLEAVED, 1};

/* Two caches that should agree: latents, and latents with a copy as values. */
typedef struct pair {
    gyre_cache *latents, *copy;
    const latent_problem *p;
    int64_t next[SEQUENCES]; /* position of the next token */
    int64_t used;            /* tokens of the problem that were appended */
} pair;

static pair make_pair(const latent_problem *p, gyre_dtype type, gyre_cache_keys keys, int64_t page_tokens) {
    pair c = {.p = p};
    gyre_cache_config config = latent_cache_config(p, type, keys);
    config.sequences = SEQUENCES;
    config.max_tokens = page_tokens ? 500 : 3 * TOKENS;
    config.page_tokens = page_tokens;
    assert_ok(gyre_cache_create(&c.latents, &config, NULL, NULL));
    config.values_in_keys = 0;
    config.value_dtype = type;
    config.value_dim = p->s.rank;
    assert_ok(gyre_cache_create(&c.copy, &config, NULL, NULL));
    return c;
}

static void free_pair(pair *c) {
    gyre_cache_free(c->latents);
    gyre_cache_free(c->copy);
}

static void append(pair *c, int64_t sequence, int64_t count) {
    assert_true(c->used + count <= TOKENS);
    const gyre_cview k = latent_keys(c->p, c->used, count), v = latent_values(c->p, c->used, count);
    const gyre_positions at = {.base = c->next[sequence]};
    assert_ok(gyre_cache_append(
        c->latents, GYRE_ARGS(gyre_cache_append_args, .sequence = sequence, .k = k, .positions = &at), NULL, NULL));
    assert_ok(gyre_cache_append(
        c->copy, GYRE_ARGS(gyre_cache_append_args, .sequence = sequence, .k = k, .v = v, .positions = &at), NULL, NULL));
    c->next[sequence] += count;
    c->used += count;
}

/* Q8 has one scale for a key, and another for a copy of its latent, so these two are only alike. */
static void compare(const gyre_dtype type, const float *a, const float *b, size_t n) {
    if (type != GYRE_DTYPE_Q8) {
        assert_memory_equal(a, b, n * sizeof *a);
        return;
    }
    for (size_t i = 0; i < n; i++)
        test_close((long double)a[i], (long double)b[i], 2.5 / 254.0L, "a channel of a latent");
}

/* The last queries of each sequence, few and many, in both orders. */
static void check(const pair *c) {
    enum { MOST = 20 };
    const latent_problem *p = c->p;
    const size_t row = (size_t)(p->s.heads * p->s.rank);
    float *out[2] = {room(MOST * row, sizeof(float)), room(MOST * row, sizeof(float))};
    for (int64_t s = 0; s < SEQUENCES; s++) {
        const int64_t tokens = gyre_cache_tokens(c->copy, s);
        assert_int_equal(gyre_cache_tokens(c->latents, s), tokens);
        for (int i = 0; i < 4 && tokens > 0; i++) {
            const int64_t most = i % 2 ? MOST : 1, count = tokens < most ? tokens : most;
            for (int k = 0; k < 2; k++) {
                attention_setup args = latent_args(p, 0, count, out[k]);
                args.q_pos.base = c->next[s] - count;
                args.order = (gyre_order)(i / 2);
                latent_attend(k ? c->copy : c->latents, s, &args);
            }
            compare(gyre_cache_get_config(c->copy)->key_dtype, out[0], out[1], (size_t)count * row);
        }
    }
    free(out[0]);
    free(out[1]);
}

#define BOTH(call)                                                                                                          \
    do {                                                                                                                    \
        gyre_cache *cache = c->latents;                                                                                     \
        assert_ok(call);                                                                                                    \
        cache = c->copy;                                                                                                    \
        assert_ok(call);                                                                                                    \
    } while (0)

static void edit(pair *c, const gyre_encoding *other) {
    const int64_t shift[GYRE_MAX_AXES] = {-30};
    append(c, 0, 90);
    append(c, 1, 50);
    check(c);
    BOTH(gyre_cache_fork(cache, 0, 2, NULL));
    c->next[2] = c->next[0];
    append(c, 2, 20);
    append(c, 0, 7);
    check(c);
    BOTH(gyre_cache_remove(cache, (gyre_cache_range){0, 10, 30}, NULL));
    BOTH(gyre_cache_remove(cache, (gyre_cache_range){2, 0, 75}, NULL));
    check(c);
    BOTH(gyre_cache_shift(cache, (gyre_cache_range){0, 10, 57}, shift, NULL));
    c->next[0] -= 30;
    check(c);
    append(c, 0, 120); /* pages are moved together where there are any */
    append(c, 1, 30);
    check(c);
    BOTH(gyre_cache_slide(cache, 1, 4, 40, &c->next[1], NULL));
    append(c, 1, 3);
    check(c);
    BOTH(gyre_cache_set_encoding(cache, other, 0, NULL, NULL));
    append(c, 1, 3);
    check(c);
}

static void edits_move_latents(void **state) {
    (void)state;
    static const int64_t pages[] = {0, 1, 16, 100};
    latent_problem p = make_latents(&SHAPE, 21);
    gyre_config config = latent_config(&SHAPE);
    config.rope.base = 50000;
    gyre_encoding *other = test_encoding(&config);
    for (int t = 0; t < TYPE_COUNT; t++)
        for (int k = 0; k < 2; k++)
            for (int g = 0; g < 4; g++) {
                pair c = make_pair(&p, TYPES[t], (gyre_cache_keys)k, pages[g]);
                edit(&c, other);
                free_pair(&c);
            }
    gyre_encoding_free(other);
    free_latents(&p);
}

/* -- files -- */

static void files_keep_latents(void **state) {
    (void)state;
    char path[] = "/tmp/gyre_latents_XXXXXX";
    const int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    latent_problem p = make_latents(&SHAPE, 22);
    for (int t = 0; t < TYPE_COUNT; t++) {
        pair c = make_pair(&p, TYPES[t], (gyre_cache_keys)(t % 2), 16);
        gyre_cache *loaded;
        append(&c, 0, 130);
        append(&c, 1, 41);
        assert_ok(gyre_cache_remove(c.latents, (gyre_cache_range){0, 100, 9}, NULL));
        assert_ok(gyre_cache_remove(c.copy, (gyre_cache_range){0, 100, 9}, NULL));
        assert_ok(gyre_cache_save(c.latents, path, NULL));
        assert_ok(gyre_cache_load(&loaded, path, p.encoding, NULL, NULL));
        gyre_cache_free(c.latents);
        c.latents = loaded;
        assert_int_equal(gyre_cache_get_config(loaded)->values_in_keys, 1);
        assert_int_equal(gyre_cache_get_config(loaded)->value_dim, SHAPE.rank);
        check(&c);
        append(&c, 1, 30);
        check(&c);
        free_pair(&c);
    }
    free_latents(&p);
    unlink(path);
}

/* Byte 8 is the version, which older programs refuse; the last field of the header says that values are in keys. */
static void files_have_version_3(void **state) {
    (void)state;
    char path[] = "/tmp/gyre_latents_XXXXXX";
    unsigned char bytes[512];
    const int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    latent_problem p = make_latents(&SHAPE, 23);
    pair c = make_pair(&p, GYRE_DTYPE_F16, GYRE_CACHE_KEYS_ROTATED, 16);
    gyre_cache *loaded = NULL;
    gyre_error err = {0, ""};
    append(&c, 0, 5);
    assert_ok(gyre_cache_save(c.latents, path, NULL));
    FILE *saved = fopen(path, "r+b");
    assert_non_null(saved);
    assert_int_equal(fread(bytes, 1, sizeof bytes, saved), sizeof bytes);
    assert_int_equal(bytes[8], 3);
    const long at = 8 + 4 + 19 * 8 + 8;
    assert_int_equal(bytes[at], 1);
    assert_int_equal(fseek(saved, at, SEEK_SET), 0);
    assert_int_equal(fputc(2, saved), 2);
    fclose(saved);
    assert_int_equal(gyre_cache_load(&loaded, path, p.encoding, NULL, &err), GYRE_EFORMAT);
    assert_string_equal(err.text, "cache: values neither in keys nor beside them at byte 172");
    assert_int_equal(err.offset, at);
    free_pair(&c);
    free_latents(&p);
    unlink(path);
}

/* -- gates, memory, errors -- */

static void gates_beside_latents(void **state) {
    (void)state;
    latent_problem p = make_latents(&SHAPE, 24);
    double sums[60 * 4], last = 0;
    float out[2][4 * 32];
    const int64_t sequence = 0;
    for (int i = 0; i < 60 * 4; i++)
        sums[i] = last -= 0.01 * (i % 7);
    for (int copy = 0; copy < 2; copy++) {
        gyre_cache_config config = latent_cache_config(&p, GYRE_DTYPE_BF16, GYRE_CACHE_KEYS_ROTATED);
        gyre_cache *cache;
        config.gate_heads = 4;
        config.values_in_keys = !copy;
        if (copy) config.value_dtype = GYRE_DTYPE_BF16, config.value_dim = SHAPE.rank;
        assert_ok(gyre_cache_create(&cache, &config, NULL, NULL));
        gyre_cache_append_args append_args = GYRE_INIT(gyre_cache_append_args);
        append_args.positions = &(const gyre_positions){0};
        append_args.k = latent_keys(&p, 0, 60);
        if (copy) append_args.v = latent_values(&p, 0, 60);
        append_args.gates = gyre_cdense(sums, GYRE_DTYPE_F64, 1, 60, 4, 1);
        assert_ok(gyre_cache_append(cache, &append_args, NULL, NULL));
        attention_setup args = latent_args(&p, 59, 1, out[copy]);
        args.q_gate_sums = gyre_cdense(sums + 59 * 4, GYRE_DTYPE_F64, 1, 1, 4, 1);
        latent_attend(cache, sequence, &args);
        gyre_cache_free(cache);
    }
    assert_memory_equal(out[0], out[1], sizeof out[0]);
    free_latents(&p);
}

/* DeepSeek-V3: 512 + 64 channels for all heads, against 128 heads with 192 channels of a key and 128 of a value. */
static void a_token_takes_its_latent(void **state) {
    (void)state;
    static const size_t latent[] = {2304, 1152, 1152, 580}, plain[] = {163840, 81920, 81920, 41984};
    const size_t bookkeeping = sizeof(int64_t) + sizeof(int32_t);
    for (int t = 0; t < TYPE_COUNT; t++) {
        gyre_cache_config config = GYRE_INIT(gyre_cache_config);
        config.key_dtype = config.value_dtype = TYPES[t];
        config.heads = 128;
        config.head_dim = 192;
        config.value_dim = 128;
        config.max_tokens = 1000;
        assert_int_equal(gyre_cache_token_bytes(&config), plain[t] + bookkeeping);
        config.heads = 1;
        config.head_dim = 576;
        config.value_dim = 512;
        config.values_in_keys = 1;
        assert_int_equal(gyre_cache_token_bytes(&config), latent[t] + bookkeeping);
        config.gate_heads = 128;
        assert_int_equal(gyre_cache_token_bytes(&config), latent[t] + bookkeeping + 128 * sizeof(double));
        config.gate_heads = 0;
        config.page_tokens = 10;
        gyre_cache *cache;
        assert_ok(gyre_cache_create(&cache, &config, NULL, NULL));
        float k[5 * 576] = {0};
        const gyre_cview keys = gyre_cdense(k, GYRE_DTYPE_F32, 1, 5, 1, 576);
        assert_ok(gyre_cache_append(cache, GYRE_ARGS(gyre_cache_append_args, .k = keys, .positions = &(gyre_positions){0}),
                                    NULL, NULL));
        const gyre_cache_usage usage = cache_usage(cache);
        assert_int_equal(usage.used, 10 * (latent[t] + bookkeeping));
        assert_true(usage.bytes < 1011 * (latent[t] + bookkeeping) + (1 << 18));
        gyre_cache_free(cache);
    }
    gyre_cache_config bad = GYRE_INIT(gyre_cache_config);
    assert_int_equal(gyre_cache_token_bytes(&bad), 0);
    assert_int_equal(gyre_cache_token_bytes(NULL), 0);
}

static void refuse(const gyre_cache_config *config, gyre_status status, const char *text) {
    gyre_cache *cache = NULL;
    gyre_error err = {0, ""};
    assert_int_equal(gyre_cache_create(&cache, config, NULL, &err), status);
    assert_string_equal(err.text, text);
    assert_null(cache);
}

static void says_what_is_wrong(void **state) {
    (void)state;
    latent_problem p = make_latents(&SHAPE, 25);
    const gyre_cache_config good = latent_cache_config(&p, GYRE_DTYPE_F32, GYRE_CACHE_KEYS_ROTATED);
    gyre_cache_config config = good;
    config.values_in_keys = 2;
    refuse(&config, GYRE_EINVAL, "values_in_keys: 2 is not in 0 .. 1 (gyre_cache_config)");
    config = good;
    config.value_dim = 33;
    refuse(&config, GYRE_ESHAPE,
           "encoding: rotates channels from 32 on, but the first 33 channels of a key are its value (gyre_cache_config)");
    config.encoding = NULL;
    config.value_dim = 49;
    refuse(&config, GYRE_ESHAPE, "value_dim: 49 is above head_dim, 48, but values are in keys (gyre_cache_config)");
    gyre_config early = latent_config(&SHAPE);
    early.rope.first_channel = 0;
    early.rope.dim = 16;
    gyre_encoding *wrong = test_encoding(&early);
    config = good;
    config.encoding = wrong;
    refuse(&config, GYRE_EINVAL, "value_dim: 0 is not in 1 .. 1024 (gyre_cache_config)");

    gyre_cache *cache;
    gyre_error err = {0, ""};
    config = good;
    config.keys = GYRE_CACHE_KEYS_RAW;
    config.value_dtype = (gyre_dtype)77; /* ignored */
    assert_ok(gyre_cache_create(&cache, &config, NULL, NULL));
    const gyre_cview k = latent_keys(&p, 0, 4), v = latent_values(&p, 0, 4);
    const gyre_positions at = {.base = 0};
    assert_int_equal(
        gyre_cache_append(cache, GYRE_ARGS(gyre_cache_append_args, .k = k, .v = v, .positions = &at), NULL, &err),
        GYRE_EINVAL);
    assert_string_equal(err.text, "v: is set, but the first 32 channels of a key are its value (gyre_cache_append)");
    gyre_cview narrow = k;
    narrow.shape[3] = 32;
    assert_int_equal(gyre_cache_append(cache, GYRE_ARGS(gyre_cache_append_args, .k = narrow, .positions = &at), NULL, &err),
                     GYRE_ESHAPE);
    assert_string_equal(err.text, "k: shape [1, 4, 1, 32] is not [1, 4, 1, 48] (gyre_cache_append)");
    gyre_cview no_memory = k;
    no_memory.data = NULL;
    assert_int_equal(
        gyre_cache_append(cache, GYRE_ARGS(gyre_cache_append_args, .k = no_memory, .positions = &at), NULL, &err),
        GYRE_EINVAL);
    assert_string_equal(err.text, "k: has no memory for its shape [1, 4, 1, 48] (gyre_cache_append)");
    assert_int_equal(gyre_cache_tokens(cache, 0), 0);
    assert_int_equal(gyre_cache_set_encoding(cache, wrong, 0, NULL, &err), GYRE_ESHAPE);
    assert_string_equal(err.text, "encoding: rotates channels from 0 on, but the first 32 channels of a key are its value "
                                  "(gyre_cache_set_encoding)");
    assert_ok(gyre_cache_append(cache, GYRE_ARGS(gyre_cache_append_args, .k = k, .positions = &at), NULL, NULL));
    float out[4 * 48];
    attention_setup args = latent_args(&p, 3, 1, out);
    args.out.shape[3] = 48;
    void *scratch = scratch_for(1 << 20);
    const int64_t sequence = 0;
    assert_int_equal(run_cache_attention(cache, &sequence, &args, (gyre_scratch){scratch, 1 << 20}, NULL, &err),
                     GYRE_ESHAPE);
    free(scratch);
    gyre_cache_free(cache);

    config = good;
    config.values_in_keys = 0;
    assert_ok(gyre_cache_create(&cache, &config, NULL, NULL));
    assert_int_equal(gyre_cache_append(cache, GYRE_ARGS(gyre_cache_append_args, .k = k, .positions = &at), NULL, &err),
                     GYRE_EINVAL);
    assert_string_equal(err.text, "v: has no memory, and the cache has no values_in_keys (gyre_cache_append)");
    gyre_cache_free(cache);
    gyre_encoding_free(wrong);
    free_latents(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(edits_move_latents),       cmocka_unit_test(files_keep_latents),
        cmocka_unit_test(files_have_version_3),     cmocka_unit_test(gates_beside_latents),
        cmocka_unit_test(a_token_takes_its_latent), cmocka_unit_test(says_what_is_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
