/* test_cache_file.c: a saved cache is read back whole, and any file that is not such a cache is refused. */
#include "cache/cache_file.h"
#include "cache_path.h"
#include "gyre/gyre_cache.h"
#include "naive_cache.h"

/* -- memory: no file may have the loader ask for much -- */

typedef struct purse {
    size_t most;
    int live;
} purse;

static void *purse_alloc(void *ctx, size_t bytes, size_t align) {
    purse *p = ctx;
    if (bytes > p->most) return NULL;
    void *memory = aligned_alloc(align, (bytes + align - 1) / align * align);
    assert_non_null(memory);
    memset(memory, 0xA5, bytes);
    p->live++;
    return memory;
}

static void purse_free(void *ctx, void *memory) {
    ((purse *)ctx)->live--;
    free(memory);
}

/* -- there and back -- */

/* Sequences that share, with holes, shifts and one that is empty. */
static void make_history(gyre_cache *cache, const cache_case *c, model_sequence *s) {
    test_random random = {11};
    const int64_t delta[GYRE_MAX_AXES] = {-3, 8, 0, 0};
    assert_ok(model_append(cache, c, &s[1], 1, 6, 3, 2, &random)); /* a page that is then given back */
    assert_ok(model_append(cache, c, &s[0], 0, 29, 0, 1, &random));
    assert_ok(gyre_cache_fork(cache, 0, 2, NULL));
    s[2] = s[0];
    assert_ok(model_append(cache, c, &s[2], 2, 3, 29, 1, &random));
    assert_ok(gyre_cache_remove(cache, (gyre_cache_range){0, 5, 2}, NULL));
    model_drop(&s[0], 5, 2);
    assert_ok(gyre_cache_shift(cache, (gyre_cache_range){0, 4, 10}, delta, NULL));
    for (int i = 4; i < 14; i++)
        for (int a = 0; a < 2; a++)
            s[0].token[i].at[a] += delta[a];
    assert_ok(gyre_cache_remove(cache, (gyre_cache_range){1, 0, 6}, NULL));
    s[1].count = 0;
}

static void there_and_back(void **state) {
    (void)state;
    const cache_case cases[] = {
        {GYRE_CACHE_KEYS_ROTATED, GYRE_DTYPE_F16, GYRE_DTYPE_Q8, 3, 120, 8, 1, GYRE_LAYOUT_HALF, 1.2},
        {GYRE_CACHE_KEYS_RAW, GYRE_DTYPE_Q8, GYRE_DTYPE_F32, 3, 120, 7, 2, GYRE_LAYOUT_HALF, 0},
        {GYRE_CACHE_KEYS_ROTATED, GYRE_DTYPE_F32, GYRE_DTYPE_BF16, 3, 120, 0, 2, GYRE_LAYOUT_INTERLEAVED, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const cache_case *c = &cases[i];
        gyre_encoding *encoding = case_encoding(c);
        gyre_cache *cache = case_cache(c, encoding), *loaded = NULL;
        model_sequence *s = calloc(3, sizeof *s);
        gyre_error err = {0, ""};
        make_history(cache, c, s);
        assert_ok(gyre_cache_save(cache, path, &err));
        assert_int_equal(count_entries(folder), 1);
        purse p = {SIZE_MAX, 0};
        const gyre_alloc alloc = {purse_alloc, purse_free, &p};
        if (gyre_cache_load(&loaded, path, encoding, &alloc, &err) != GYRE_OK) fail_msg("%s", err.text);
        compare_cache(loaded, c, s);
        const gyre_cache_usage a = cache_usage(cache), b = cache_usage(loaded);
        assert_memory_equal(&a, &b, sizeof a);
        const gyre_cache_config *x = gyre_cache_get_config(cache), *y = gyre_cache_get_config(loaded);
        assert_true(x->encoding == y->encoding && x->keys == y->keys && x->page_tokens == y->page_tokens &&
                    x->max_tokens == y->max_tokens && x->context_length == y->context_length);
        test_random random = {12}; /* it goes on as the other does */
        for (int64_t n = 0; n < 3; n++)
            assert_ok(model_append(loaded, c, &s[n], n, 4, 40, 1, &random));
        assert_ok(gyre_cache_remove(loaded, (gyre_cache_range){2, 0, 20}, NULL));
        model_drop(&s[2], 0, 20);
        compare_cache(loaded, c, s);
        gyre_cache_free(loaded);
        assert_int_equal(p.live, 0);
        free(s);
        gyre_cache_free(cache);
        gyre_encoding_free(encoding);
    }
}

/* Who may read the file that is replaced may read the new one. */
static void same_mode(void **state) {
    (void)state;
    const cache_case c = {GYRE_CACHE_KEYS_RAW, GYRE_DTYPE_F32, GYRE_DTYPE_F32, 1, 16, 4, 1, GYRE_LAYOUT_HALF, 0};
    const mode_t modes[] = {0600, 0640, 0666};
    gyre_encoding *encoding = case_encoding(&c);
    gyre_cache *cache = case_cache(&c, encoding);
    struct stat file;
    for (int i = 0; i < 3; i++) {
        write_cache("old", 3);
        assert_int_equal(chmod(path, modes[i]), 0);
        assert_ok(gyre_cache_save(cache, path, NULL));
        assert_int_equal(stat(path, &file), 0);
        assert_int_equal(file.st_mode & 0777, modes[i]);
        assert_int_equal(count_entries(folder), 1);
    }
    gyre_cache_free(cache);
    gyre_encoding_free(encoding);
}

static void nothing_in_it(void **state) {
    (void)state;
    gyre_cache_config config = GYRE_INIT(gyre_cache_config);
    gyre_cache *cache = NULL, *loaded = NULL;
    config.heads = 1;
    config.head_dim = 4;
    config.max_tokens = 10;
    assert_ok(gyre_cache_create(&cache, &config, NULL, NULL));
    assert_ok(gyre_cache_save(cache, path, NULL));
    assert_ok(gyre_cache_load(&loaded, path, NULL, NULL, NULL));
    assert_int_equal(cache_usage(loaded).tokens, 0);
    gyre_cache_free(loaded);
    gyre_cache_free(cache);
}

/* -- files that are not -- */

typedef struct sample {
    gyre_encoding *encoding;
    char *bytes;
    size_t size;
} sample;

static sample make_sample(int64_t page_tokens) {
    const cache_case c = {
        GYRE_CACHE_KEYS_ROTATED, GYRE_DTYPE_Q8, GYRE_DTYPE_F16, 3, 96, page_tokens, 1, GYRE_LAYOUT_HALF, 0};
    sample out = {.encoding = case_encoding(&c)};
    gyre_cache *cache = case_cache(&c, out.encoding);
    model_sequence *s = calloc(3, sizeof *s);
    make_history(cache, &c, s);
    assert_ok(gyre_cache_save(cache, path, NULL));
    out.bytes = read_cache(&out.size);
    free(s);
    gyre_cache_free(cache);
    return out;
}

static void free_sample(sample *s) {
    free(s->bytes);
    gyre_encoding_free(s->encoding);
}

/* Whatever is loaded must be usable. */
static void use(gyre_cache *cache) {
    const cache_case c = {.axes = 1};
    const gyre_cache_config *config = gyre_cache_get_config(cache);
    model_sequence *s = calloc(1, sizeof *s);
    assert_non_null(s);
    test_random random = {1};
    for (int64_t i = 0; i < config->sequences; i++) {
        const int64_t tokens = gyre_cache_tokens(cache, i);
        assert_true(tokens >= 0 && tokens <= (config->page_tokens ? MOST_TOKENS : config->max_tokens / config->sequences));
        if (config->heads != HEADS || config->head_dim != DIM || config->value_dim != VALUES) continue;
        const gyre_status status = model_append(cache, &c, s, i, 3, 50, 1, &random);
        assert_true(status == GYRE_OK || status == GYRE_ENOMEM);
        assert_ok(gyre_cache_remove(cache, (gyre_cache_range){i, 0, tokens / 2}, NULL));
    }
    free(s);
}

static gyre_status try_load(const sample *s, const char *bytes, size_t size, gyre_error *err) {
    purse p = {1 << 20, 0};
    const gyre_alloc alloc = {purse_alloc, purse_free, &p};
    gyre_cache *cache = NULL;
    write_cache(bytes, size);
    const gyre_status status = gyre_cache_load(&cache, path, s->encoding, &alloc, err);
    assert_true((status == GYRE_OK) == (cache != NULL));
    if (cache) use(cache);
    gyre_cache_free(cache);
    assert_int_equal(p.live, 0);
    return status;
}

static void truncated(void **state) {
    (void)state;
    sample s = make_sample(16);
    for (size_t n = 0; n < s.size; n += n < 900 ? 1 : 31) {
        gyre_error err = {99, ""};
        assert_int_equal(try_load(&s, s.bytes, n, &err), GYRE_EFORMAT);
        assert_true(err.offset <= n);
        assert_non_null(strstr(err.text, "cache"));
    }
    s.bytes[s.size] = 0; /* and too much is no better */
    assert_int_equal(try_load(&s, s.bytes, s.size + 1, NULL), GYRE_EFORMAT);
    free_sample(&s);
}

static void flipped(void **state) {
    (void)state;
    sample s = make_sample(16);
    for (size_t n = 0; n < s.size; n += n < 900 ? 1 : 29) {
        s.bytes[n] ^= (char)(1 << n % 8);
        assert_int_equal(try_load(&s, s.bytes, s.size, NULL), GYRE_EFORMAT);
        s.bytes[n] ^= (char)(1 << n % 8);
    }
    assert_ok(try_load(&s, s.bytes, s.size, NULL));
    free_sample(&s);
}

/* CRC-32C bit by bit, from its definition. */
static uint32_t slow_sum(const char *bytes, size_t n) {
    uint32_t sum = 0xffffffffu;
    for (size_t i = 0; i < n; i++)
        for (int bit = 0; bit < 8; bit++) {
            const uint32_t in = ((unsigned char)bytes[i] >> bit & 1u) ^ (sum & 1u);
            sum = sum >> 1 ^ (in ? 0x82f63b78u : 0);
        }
    return ~sum;
}

static void checksum(void **state) {
    (void)state;
    gyre_checksum c;
    gyre_checksum_begin(&c);
    gyre_checksum_add(&c, "123456789", 9);
    assert_int_equal(gyre_checksum_of(&c), 0xe3069283u);
    sample s = make_sample(16);
    uint32_t said;
    memcpy(&said, s.bytes + s.size - 4, sizeof said);
    assert_int_equal(said, slow_sum(s.bytes, s.size - 4));
    for (size_t first = 0; first < 20; first++) { /* in any pieces */
        gyre_checksum_begin(&c);
        gyre_checksum_add(&c, s.bytes, first);
        gyre_checksum_add(&c, s.bytes + first, s.size - 4 - first);
        assert_int_equal(gyre_checksum_of(&c), said);
    }
    free_sample(&s);
}

/* The position of the header's checksum: 8 pairs rotate. */
enum { HEADER_SUM = GYRE_CACHE_MAGIC_BYTES + 4 + 8 * GYRE_CACHE_HEADER_FIELDS + 8 * (1 + DIM / 2) };

/* With right checksums, a file can contain anything. */
static void sign(sample *s) {
    uint32_t sum = slow_sum(s->bytes, HEADER_SUM);
    memcpy(s->bytes + HEADER_SUM, &sum, sizeof sum);
    sum = slow_sum(s->bytes, s->size - 4);
    memcpy(s->bytes + s->size - 4, &sum, sizeof sum);
}

static void hostile(void **state) {
    (void)state;
    const int64_t values[] = {
        -1, 0, 1, 2, 7, 15, 16, 17, 33, 1000, INT64_C(1) << 31, INT64_C(1) << 33, INT64_C(1) << 40, INT64_MAX, INT64_MIN};
    for (int64_t page = 0; page <= 16; page += 16) {
        sample s = make_sample(page);
        char *kept = malloc(s.size);
        assert_non_null(kept);
        memcpy(kept, s.bytes, s.size);
        /* every number of the header and the lists, and some of the positions behind them */
        for (size_t at = GYRE_CACHE_MAGIC_BYTES + 4; at + 8 < HEADER_SUM + 4 + 8 * 80; at += 8) {
            const size_t place = at >= HEADER_SUM ? at + 4 : at;
            for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
                memcpy(s.bytes + place, &values[i], 8);
                sign(&s);
                const gyre_status status = try_load(&s, s.bytes, s.size, NULL);
                assert_true(status == GYRE_OK || status == GYRE_EFORMAT || status == GYRE_ENOMEM || status == GYRE_EINVAL);
                memcpy(s.bytes, kept, s.size);
            }
        }
        free(kept);
        free_sample(&s);
    }
}

/* Slots in a hole of a page belong to no sequence, but gyre_cache_set_encoding rotates them with the rest. */
static void far_position_in_a_hole(void **state) {
    const cache_case c = {GYRE_CACHE_KEYS_ROTATED, GYRE_DTYPE_F32, GYRE_DTYPE_F32, 1, 32, 16, 1, GYRE_LAYOUT_HALF, 0};
    const int64_t kept = INT64_C(1000003), far = INT64_C(1) << 62;
    gyre_encoding *encoding = case_encoding(&c);
    gyre_cache *cache = case_cache(&c, encoding);
    model_sequence *s = calloc(1, sizeof *s);
    test_random random = {3};
    sample a = {.encoding = encoding};
    int found = 0;
    (void)state;
    assert_non_null(s);
    assert_ok(model_append(cache, &c, s, 0, 8, kept, 1, &random));
    assert_ok(gyre_cache_remove(cache, (gyre_cache_range){0, 3, 1}, NULL));
    assert_ok(gyre_cache_save(cache, path, NULL));
    a.bytes = read_cache(&a.size);
    for (size_t at = 0; at + 8 <= a.size; at++) {
        const int64_t dropped = kept + 3;
        if (memcmp(a.bytes + at, &dropped, 8) != 0) continue;
        memcpy(a.bytes + at, &far, 8);
        found++;
    }
    assert_int_equal(found, 1);
    sign(&a);
    assert_int_equal(try_load(&a, a.bytes, a.size, NULL), GYRE_EFORMAT);
    free(s);
    gyre_cache_free(cache);
    free_sample(&a);
}

/* -- other encodings, other places -- */

static void other_encodings(void **state) {
    (void)state;
    sample s = make_sample(16);
    gyre_config plain = *gyre_encoding_get_config(s.encoding);
    for (int i = 0; i < 5; i++) {
        gyre_config config = plain;
        gyre_error err = {0, ""};
        gyre_cache *cache = NULL;
        if (i == 0) config.rope.base = 101;
        if (i == 1) config.rope.attention_factor = 1.1;
        if (i == 2) config.rope.layout = GYRE_LAYOUT_INTERLEAVED;
        if (i == 3) config.rope.clockwise = 1;
        gyre_encoding *other = i < 4 ? test_encoding(&config) : NULL;
        write_cache(s.bytes, s.size);
        assert_int_equal(gyre_cache_load(&cache, path, other, NULL, &err), GYRE_EINVAL);
        assert_non_null(strstr(err.text, "encoding"));
        assert_null(cache);
        gyre_encoding_free(other);
    }
    free_sample(&s);
}

/* Raw keys do not depend on far positions, and a file does not know them: what is loaded has those of its new encoding.
 * A clip is in the frequencies. */
static void raw_keys_under_far_positions(void **state) {
    (void)state;
    const cache_case c = {GYRE_CACHE_KEYS_RAW, GYRE_DTYPE_F32, GYRE_DTYPE_F32, 3, 96, 16, 1, GYRE_LAYOUT_HALF, 0};
    gyre_encoding *encoding = case_encoding(&c);
    gyre_cache *cache = case_cache(&c, encoding), *loaded = NULL;
    model_sequence *s = calloc(3, sizeof *s);
    gyre_error err = {0, ""};
    assert_non_null(s);
    make_history(cache, &c, s);
    assert_ok(gyre_cache_save(cache, path, NULL));
    gyre_config config = *gyre_encoding_get_config(encoding);
    config.rope.far = GYRE_FAR_CLAMPED;
    config.rope.far_window = 4;
    gyre_encoding *far = test_encoding(&config);
    assert_ok(gyre_cache_load(&loaded, path, far, NULL, &err));
    assert_ptr_equal(gyre_cache_get_config(loaded)->encoding, far);
    gyre_cache_free(loaded);
    config = *gyre_encoding_get_config(encoding);
    config.rope.clip = (struct gyre_clip_config){GYRE_CLIP_SOFT, 2};
    gyre_encoding *clipped = test_encoding(&config);
    assert_int_equal(gyre_cache_load(&loaded, path, clipped, NULL, &err), GYRE_EINVAL);
    assert_non_null(strstr(err.text, "frequency of a pair"));
    gyre_encoding_free(clipped);
    gyre_encoding_free(far);
    gyre_cache_free(cache);
    gyre_encoding_free(encoding);
    free(s);
}

static void other_places(void **state) {
    (void)state;
    gyre_cache_config config = GYRE_INIT(gyre_cache_config);
    gyre_cache *cache = NULL;
    gyre_error err = {0, ""};
    config.heads = 1;
    config.head_dim = 4;
    config.max_tokens = 10;
    assert_ok(gyre_cache_create(&cache, &config, NULL, NULL));
    assert_int_equal(gyre_cache_save(cache, "/nonexistent/x", &err), GYRE_EIO);
    assert_non_null(strstr(err.text, "/nonexistent/x"));
    assert_int_equal(gyre_cache_save(cache, folder, &err), GYRE_EIO); /* a folder is not replaced */
    char long_path[8000];
    memset(long_path, 'x', sizeof long_path);
    long_path[sizeof long_path - 1] = '\0';
    assert_int_equal(gyre_cache_save(cache, long_path, &err), GYRE_EINVAL);
    assert_int_equal(gyre_cache_save(cache, "", &err), GYRE_EINVAL);
    assert_int_equal(gyre_cache_save(NULL, path, &err), GYRE_EINVAL);
    gyre_cache_free(cache);
    cache = NULL;
    assert_int_equal(gyre_cache_load(&cache, "/nonexistent/x", NULL, NULL, &err), GYRE_EIO);
    assert_int_equal(gyre_cache_load(&cache, folder, NULL, NULL, &err), GYRE_EIO);
    char pipe[300];
    snprintf(pipe, sizeof pipe, "%s/pipe", folder);
    assert_int_equal(mkfifo(pipe, 0600), 0);
    alarm(60); /* nobody writes into the pipe */
    assert_int_equal(gyre_cache_load(&cache, pipe, NULL, NULL, &err), GYRE_EIO);
    alarm(0);
    assert_non_null(strstr(err.text, "opening: not a regular file ("));
    assert_int_equal(unlink(pipe), 0);
    assert_int_equal(gyre_cache_load(NULL, path, NULL, NULL, &err), GYRE_EINVAL);
    assert_int_equal(gyre_cache_load(&cache, NULL, NULL, NULL, &err), GYRE_EINVAL);
    assert_null(cache);
    char beside[80];
    snprintf(beside, sizeof beside, "%s.%ld-0.tmp", folder, (long)getpid());
    assert_int_equal(access(beside, F_OK), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(there_and_back),
        cmocka_unit_test(nothing_in_it),
        cmocka_unit_test(truncated),
        cmocka_unit_test(flipped),
        cmocka_unit_test(checksum),
        cmocka_unit_test(hostile),
        cmocka_unit_test(raw_keys_under_far_positions),
        cmocka_unit_test(other_encodings),
        cmocka_unit_test(other_places),
        cmocka_unit_test(same_mode),
        cmocka_unit_test(far_position_in_a_hole),
    };
    return cmocka_run_group_tests(tests, make_path, remove_folder);
}
