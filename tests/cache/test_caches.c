/* test_caches.c: an edit of the caches of all layers is that edit of each, or nothing; their file is read back whole, or
 * refused. */
#include "attention_setup.h"
#include "cache/cache.h"
#include "cache_path.h"
#include "gyre/gyre_cache.h"

/* Layer 1 has no cache.  Layer 2 has another shape than 0 and 3. */
enum { LAYERS = 4, DIM = 16, MOST_HEADS = 2, SEQUENCES = 3, MOST = 3000 };

typedef struct layers {
    gyre_encoding *rope;
    gyre_cache *cache[LAYERS];
    const gyre_encoding *encoding[LAYERS];
} layers;

/* -- caches -- */

static gyre_cache *create(const gyre_encoding *encoding, int layer, int64_t sequences, int64_t max_tokens) {
    gyre_cache_config config = GYRE_INIT(gyre_cache_config);
    gyre_cache *cache = NULL;
    config.encoding = encoding;
    config.keys = GYRE_CACHE_KEYS_ROTATED;
    config.key_dtype = layer == 2 ? GYRE_DTYPE_Q8 : GYRE_DTYPE_F32;
    config.value_dtype = layer == 2 ? GYRE_DTYPE_BF16 : GYRE_DTYPE_F32;
    config.heads = layer == 2 ? 1 : MOST_HEADS;
    config.head_dim = DIM;
    config.value_dim = layer == 2 ? 8 : DIM;
    config.sequences = sequences;
    config.max_tokens = max_tokens;
    config.page_tokens = layer == 2 ? 32 : 0;
    assert_ok(gyre_cache_create(&cache, &config, NULL, NULL));
    return cache;
}

static void append(gyre_cache *cache, int64_t sequence, int64_t tokens, uint64_t seed) {
    static float k[MOST * MOST_HEADS * DIM], v[MOST * MOST_HEADS * DIM];
    const gyre_cache_config *c = gyre_cache_get_config(cache);
    test_random random = {seed};
    test_fill(&random, k, (size_t)(tokens * c->heads * c->head_dim));
    test_fill(&random, v, (size_t)(tokens * c->heads * c->value_dim));
    const gyre_positions at = {.base = gyre_cache_tokens(cache, sequence)};
    assert_ok(gyre_cache_append(cache,
                                GYRE_ARGS(gyre_cache_append_args, .sequence = sequence,
                                          .k = gyre_cdense(k, GYRE_DTYPE_F32, 1, tokens, c->heads, c->head_dim),
                                          .v = gyre_cdense(v, GYRE_DTYPE_F32, 1, tokens, c->heads, c->value_dim),
                                          .positions = &at),
                                NULL, NULL));
}

/* Sequence 0 has `tokens`, sequence 2 has 5, sequence 1 none. */
static layers make_layers(int64_t tokens, int64_t max_tokens) {
    const gyre_config config = test_rope_config(DIM, GYRE_LAYOUT_HALF);
    layers x = {.rope = test_encoding(&config)};
    for (int i = 0; i < LAYERS; i++) {
        if (i == 1) continue;
        x.encoding[i] = i == 3 ? NULL : x.rope;
        x.cache[i] = create(x.encoding[i], i, SEQUENCES, max_tokens);
        append(x.cache[i], 0, tokens, 10 + (uint64_t)i);
        append(x.cache[i], 2, 5, 20 + (uint64_t)i);
    }
    return x;
}

static void free_layers(layers *x) {
    for (int i = 0; i < LAYERS; i++)
        gyre_cache_free(x->cache[i]);
    gyre_encoding_free(x->rope);
}

/* -- what is in a cache, wherever its slots are -- */

typedef struct contents {
    char *bytes;
    size_t size;
} contents;

static void put_rows(FILE *to, const void *row, const float *scale, int64_t j, int64_t stride, size_t bytes) {
    const size_t size = bytes / (size_t)stride; /* of a number */
    fwrite((const char *)row + (size_t)(j * stride) * size, 1, bytes, to);
    if (scale) fwrite(scale + j, sizeof *scale, 1, to);
}

static void put_sequence(FILE *to, const gyre_cache *cache, int64_t sequence) {
    const gyre_cache_config *c = gyre_cache_get_config(cache);
    const gyre_key_source source = gyre_cache_source(cache, sequence);
    const int64_t tokens = gyre_cache_tokens(cache, sequence);
    int64_t at[MOST];
    fwrite(&tokens, sizeof tokens, 1, to);
    assert_ok(gyre_cache_positions(cache, (gyre_cache_range){sequence, 0, tokens}, 0, at, NULL));
    fwrite(at, sizeof *at, (size_t)tokens, to);
    for (int64_t h = 0; h < c->heads; h++)
        for (int64_t t = 0; t < tokens;) {
            gyre_key_run run;
            source.run(&source, 0, h, t, &run);
            assert_int_equal(run.k_row_stride, c->head_dim);
            assert_int_equal(run.v_row_stride, c->value_dim);
            for (int64_t j = 0; j < run.count; j++, t++) {
                put_rows(to, run.k, run.k_scale, j, c->head_dim, (size_t)c->head_dim * gyre_dtype_size(c->key_dtype));
                put_rows(to, run.v, run.v_scale, j, c->value_dim, (size_t)c->value_dim * gyre_dtype_size(c->value_dtype));
                const int64_t shift = run.shift ? run.shift[0] : 0;
                fwrite(&shift, sizeof shift, 1, to);
            }
        }
}

static contents contents_of(const layers *x) {
    contents out = {NULL, 0};
    FILE *to = open_memstream(&out.bytes, &out.size);
    assert_non_null(to);
    for (int i = 0; i < LAYERS; i++)
        for (int64_t s = 0; x->cache[i] && s < gyre_cache_get_config(x->cache[i])->sequences; s++)
            put_sequence(to, x->cache[i], s);
    assert_int_equal(fclose(to), 0);
    return out;
}

/* Compares and frees. */
static void assert_same(contents a, contents b) {
    assert_int_equal(a.size, b.size);
    assert_memory_equal(a.bytes, b.bytes, a.size);
    free(a.bytes);
    free(b.bytes);
}

/* -- edits -- */

typedef enum edit { REMOVE, SHIFT, FORK, SLIDE, EDITS } edit;
static const int64_t delta[GYRE_MAX_AXES] = {7};

static gyre_status edit_all(const layers *x, edit which, gyre_error *err) {
    switch (which) {
    case REMOVE:
        return gyre_caches_remove(x->cache, LAYERS, (gyre_cache_range){0, 130, 9}, err);
    case SHIFT:
        return gyre_caches_shift(x->cache, LAYERS, (gyre_cache_range){0, 20, 115}, delta, err);
    case FORK:
        return gyre_caches_fork(x->cache, LAYERS, 0, 1, err);
    default:
        return gyre_caches_slide(x->cache, LAYERS, 0, 4, 120, err);
    }
}

static gyre_status edit_one(gyre_cache *cache, edit which) {
    switch (which) {
    case REMOVE:
        return gyre_cache_remove(cache, (gyre_cache_range){0, 130, 9}, NULL);
    case SHIFT:
        return gyre_cache_shift(cache, (gyre_cache_range){0, 20, 115}, delta, NULL);
    case FORK:
        return gyre_cache_fork(cache, 0, 1, NULL);
    default:
        return gyre_cache_slide(cache, 0, 4, 120, NULL, NULL);
    }
}

static void equal_the_loop(void **state) {
    (void)state;
    layers x = make_layers(200, 900), y = make_layers(200, 900);
    contents before = contents_of(&x);
    for (int round = 0; round < 2; round++)
        for (edit which = 0; which < EDITS; which++) {
            if (which == SLIDE && round == 0) continue;
            gyre_error err = {0, ""};
            if (edit_all(&x, which, &err)) fail_msg("%s", err.text);
            for (int i = 0; i < LAYERS; i++)
                if (y.cache[i]) assert_ok(edit_one(y.cache[i], which));
            contents after = contents_of(&x);
            assert_true(after.size != before.size || memcmp(after.bytes, before.bytes, after.size) != 0);
            free(before.bytes);
            before = after;
            assert_same(contents_of(&x), contents_of(&y));
        }
    assert_int_equal(gyre_cache_tokens(x.cache[2], 0), 120);
    free(before.bytes);
    free_layers(&x);
    free_layers(&y);
}

/* The edit fails in that layer, and every layer is as before. */
static void refuse(const layers *x, edit which, gyre_status wanted, int layer) {
    gyre_error err = {0, ""};
    char prefix[32];
    snprintf(prefix, sizeof prefix, "layer %d: ", layer);
    const contents before = contents_of(x);
    assert_int_equal(edit_all(x, which, &err), wanted);
    if (strncmp(err.text, prefix, strlen(prefix)) != 0 || !strstr(err.text, "(gyre_caches_"))
        fail_msg("edit %d, layer %d: %s", (int)which, layer, err.text);
    assert_same(before, contents_of(x));
}

/* Splits the tokens of sequence 0 into ranges until there is room for none. */
static void use_up_ranges(gyre_cache *cache) {
    const int64_t tokens = gyre_cache_tokens(cache, 0), one[GYRE_MAX_AXES] = {1};
    gyre_status status = GYRE_OK;
    /* The first 150 tokens stay whole, so that the edits have something to split. */
    for (int64_t t = 150; t < tokens && !status; t++)
        status = gyre_cache_shift(cache, (gyre_cache_range){0, t, tokens - t}, one, NULL);
    assert_int_equal(status, GYRE_ENOMEM);
}

static void no_room_in_one_layer(void **state) {
    (void)state;
    for (int layer = 0; layer < LAYERS; layer++) {
        if (layer == 1) continue;
        layers x = make_layers(2000, 6200);
        use_up_ranges(x.cache[layer]);
        for (edit which = 0; which < EDITS; which++)
            if (which != SLIDE) refuse(&x, which, GYRE_ENOMEM, layer);
        free_layers(&x);
    }
}

/* With runs of positions that are no neighbours, each kept token needs a range. */
static void no_room_to_slide(void **state) {
    (void)state;
    for (int layer = 0; layer < LAYERS; layer++) {
        if (layer == 1) continue;
        layers x = make_layers(2000, 6200);
        use_up_ranges(x.cache[layer]);
        const contents before = contents_of(&x);
        gyre_error err = {0, ""};
        assert_int_equal(gyre_caches_slide(x.cache, LAYERS, 0, 4, 1999, &err), GYRE_ENOMEM);
        assert_int_equal(err.text[6], '0' + layer);
        assert_same(before, contents_of(&x));
        free_layers(&x);
    }
}

static void another_layer(void **state) {
    (void)state;
    for (int layer = 0; layer < LAYERS; layer++) {
        if (layer == 1) continue;
        layers x = make_layers(200, 900);
        const int64_t far[GYRE_MAX_AXES] = {(INT64_C(1) << 31) - 205};
        assert_ok(gyre_cache_shift(x.cache[layer], (gyre_cache_range){0, 0, 200}, far, NULL));
        append(x.cache[layer], 2, 1, 1); /* the edited sequence is another one */
        const int64_t down[GYRE_MAX_AXES] = {-200};
        const contents before = contents_of(&x);
        gyre_error err = {0, ""};
        assert_int_equal(gyre_caches_shift(x.cache, LAYERS, (gyre_cache_range){0, 0, 200}, (const int64_t[4]){300}, &err),
                         GYRE_ERANGE);
        assert_int_equal(err.text[6], '0' + layer);
        assert_same(before, contents_of(&x));
        assert_ok(gyre_caches_shift(x.cache, LAYERS, (gyre_cache_range){0, 0, 200}, down, NULL));

        append(x.cache[layer], 0, 1, 2); /* one more token than in the others */
        refuse(&x, REMOVE, GYRE_EINVAL, layer == 0 ? 2 : layer);
        refuse(&x, SHIFT, GYRE_EINVAL, layer == 0 ? 2 : layer);
        refuse(&x, SLIDE, GYRE_EINVAL, layer == 0 ? 2 : layer);
        assert_ok(edit_all(&x, FORK, NULL)); /* a copy needs no equal lengths */
        assert_int_equal(gyre_cache_tokens(x.cache[layer], 1), 201);

        gyre_cache_free(x.cache[layer]);
        x.cache[layer] = create(x.encoding[layer], layer, 1, 900); /* no sequence 1 */
        append(x.cache[layer], 0, 200, 3);
        refuse(&x, FORK, GYRE_EINVAL, layer);
        free_layers(&x);
    }
}

static void arguments(void **state) {
    (void)state;
    layers x = make_layers(200, 900);
    gyre_cache *none[2] = {NULL, NULL}, *twice[3] = {x.cache[0], x.cache[2], x.cache[0]};
    gyre_error err = {0, ""};
    assert_ok(gyre_caches_fork(NULL, 0, 0, 1, NULL));
    assert_ok(gyre_caches_slide(none, 2, 0, 4, 120, NULL));
    assert_int_equal(gyre_caches_fork(NULL, 2, 0, 1, &err), GYRE_EINVAL);
    assert_non_null(strstr(err.text, "caches: is NULL"));
    assert_int_equal(gyre_caches_fork(x.cache, -1, 0, 1, &err), GYRE_EINVAL);
    assert_non_null(strstr(err.text, "count: -1"));
    assert_int_equal(gyre_caches_remove(twice, 3, (gyre_cache_range){0, 0, 1}, &err), GYRE_EINVAL);
    assert_non_null(strstr(err.text, "layers 0 and 2"));
    assert_int_equal(gyre_caches_shift(x.cache, LAYERS, (gyre_cache_range){0, 0, 1}, NULL, &err), GYRE_EINVAL);
    assert_int_equal(gyre_caches_slide(x.cache, LAYERS, 0, 5, 4, NULL), GYRE_EINVAL);
    assert_int_equal(gyre_cache_tokens(x.cache[0], 0), 200);
    free_layers(&x);
}

/* -- files -- */

/* Loading fails, and leaves nothing. */
static gyre_status refuse_file(const layers *x, int64_t count, gyre_error *err) {
    gyre_cache *out[LAYERS + 1];
    test_budget budget = {.left = 1000};
    const gyre_alloc alloc = test_budget_alloc(&budget);
    memset(out, 0xA5, sizeof out);
    const gyre_status status = gyre_caches_load(out, count, path, x->encoding, &alloc, err);
    assert_int_not_equal(status, GYRE_OK);
    for (int64_t i = 0; i < count; i++)
        assert_null(out[i]);
    assert_int_equal(budget.live, 0);
    return status;
}

static void there_and_back(void **state) {
    (void)state;
    layers x = make_layers(200, 900), y = {.rope = NULL};
    gyre_error err = {0, ""};
    assert_ok(edit_all(&x, FORK, NULL));
    assert_ok(edit_all(&x, SHIFT, NULL));
    assert_ok(edit_all(&x, REMOVE, NULL));
    assert_ok(gyre_caches_save(x.cache, LAYERS, path, &err));
    if (gyre_caches_load(y.cache, LAYERS, path, x.encoding, NULL, &err)) fail_msg("%s", err.text);
    assert_null(y.cache[1]);
    assert_same(contents_of(&x), contents_of(&y));

    assert_int_equal(refuse_file(&x, LAYERS - 1, &err), GYRE_EINVAL);
    assert_non_null(strstr(err.text, "the file has 4 layers"));
    assert_int_equal(refuse_file(&x, LAYERS + 1, &err), GYRE_EINVAL);
    layers other = x;
    other.encoding[3] = x.rope;
    assert_int_equal(refuse_file(&other, LAYERS, &err), GYRE_EINVAL);
    assert_non_null(strstr(err.text, "layer 3: encoding: kind"));
    gyre_cache *one = NULL;
    assert_int_equal(gyre_cache_load(&one, path, x.rope, NULL, NULL), GYRE_EFORMAT);
    assert_ok(gyre_cache_save(x.cache[0], path, NULL));
    assert_int_equal(refuse_file(&x, LAYERS, &err), GYRE_EFORMAT);

    gyre_cache *twice[2] = {x.cache[0], x.cache[0]};
    assert_int_equal(gyre_caches_save(twice, 2, path, NULL), GYRE_EINVAL);
    assert_int_equal(gyre_caches_save(x.cache, LAYERS, NULL, NULL), GYRE_EINVAL);
    assert_int_equal(gyre_caches_load(y.cache, -1, path, NULL, NULL, NULL), GYRE_EINVAL);
    assert_ok(gyre_caches_save(NULL, 0, path, NULL));
    assert_ok(gyre_caches_load(NULL, 0, path, NULL, NULL, NULL));
    free_layers(&x);
    free_layers(&y);
}

static void damaged_files(void **state) {
    (void)state;
    layers x = make_layers(6, 18);
    size_t size;
    assert_ok(gyre_caches_save(x.cache, LAYERS, path, NULL));
    char *bytes = read_cache(&size);
    for (size_t i = 0; i < size; i++) {
        bytes[i] ^= (char)(1 << i % 8);
        write_cache(bytes, size);
        (void)refuse_file(&x, LAYERS, NULL);
        bytes[i] ^= (char)(1 << i % 8);
    }
    for (size_t n = 0; n < size; n++) {
        gyre_error err = {0, ""};
        write_cache(bytes, n);
        assert_int_equal(refuse_file(&x, LAYERS, &err), GYRE_EFORMAT);
        assert_true(err.offset <= n);
    }
    bytes[size] = 0;
    write_cache(bytes, size + 1);
    assert_int_equal(refuse_file(&x, LAYERS, NULL), GYRE_EFORMAT);
    write_cache(bytes, size); /* undamaged, it loads: so the damage was the reason */
    gyre_cache *out[LAYERS];
    for (int n = 0; n < 3; n++) { /* memory for n caches */
        test_budget budget = {.left = n};
        const gyre_alloc alloc = test_budget_alloc(&budget);
        assert_int_equal(gyre_caches_load(out, LAYERS, path, x.encoding, &alloc, NULL), GYRE_ENOMEM);
        assert_int_equal(budget.live, 0);
        assert_null(out[0]);
    }
    assert_ok(gyre_caches_load(out, LAYERS, path, x.encoding, NULL, NULL));
    for (int i = 0; i < LAYERS; i++)
        gyre_cache_free(out[i]);
    free(bytes);
    free_layers(&x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_the_loop),   cmocka_unit_test(no_room_in_one_layer),
        cmocka_unit_test(no_room_to_slide), cmocka_unit_test(another_layer),
        cmocka_unit_test(arguments),        cmocka_unit_test(there_and_back),
        cmocka_unit_test(damaged_files),
    };
    return cmocka_run_group_tests(tests, make_path, remove_folder);
}
