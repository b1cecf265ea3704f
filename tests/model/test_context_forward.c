/* test_context_forward.c: opened models on sequences longer than their tiles, chunks and windows: token by token as all at
 * once, on any number of threads, and after a truncation, an error or a reset. */
#include "gyre/gyre_model.h"
#include "make_synthetic_model.h"
#include "temp_folder.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TOKENS = 600, VOCAB = 61, LONGEST_PATH = 400 };

/* Layers of several kinds, windows, parallel blocks, slopes, normalised heads, and dynamic lengths. */
static const char *const names[] = {"llama",          "gemma2_long", "gemma3_six", "mistral_window", "phi3_window",
                                    "smollm3_window", "qwen3_types", "olmo2",      "gpt_neox",       "gptj",
                                    "bloom",          "mpt",         "phi",        "cohere",         "starcoder2_window"};
enum { MODELS = sizeof names / sizeof *names };

static int32_t tokens[TOKENS];
static float whole[TOKENS * VOCAB], other[TOKENS * VOCAB];

static int make_folder(void **state) {
    test_random random = {11};
    for (int i = 0; i < TOKENS; i++)
        tokens[i] = (int32_t)((test_next(&random) >> 33) % VOCAB);
    return make_empty_folder(state);
}

/* Fails where a test left another file behind. */
static int remove_files(void **state) {
    (void)state;
    unlink(in_folder("config.json"));
    unlink(in_folder("model.safetensors"));
    return rmdir(folder);
}

static gyre_model *open_model(const char *name) {
    gyre_model *model = NULL;
    gyre_error err = {0, ""};
    json_t *fixture = synthetic_fixture(name);
    synthetic_write_folder(fixture, folder);
    json_decref(fixture);
    if (gyre_model_open(&model, folder, NULL, &err) != GYRE_OK) fail_msg("%s: %s", name, err.text);
    return model;
}

static gyre_context *open_context(const gyre_model *model, const gyre_exec *exec) {
    gyre_context_options options = GYRE_INIT(gyre_context_options);
    gyre_context *context = NULL;
    gyre_error err = {0, ""};
    options.max_tokens = TOKENS;
    options.exec = exec;
    if (gyre_context_create(&context, model, &options, &err) != GYRE_OK) fail_msg("%s", err.text);
    return context;
}

/* Reads tokens[from .. from + n - 1], `piece` at a time, with all logits. */
static void read_some(gyre_context *context, int64_t from, int64_t n, int64_t piece, float *logits) {
    gyre_error err = {0, ""};
    for (int64_t at = 0; at < n; at += piece) {
        const int64_t rows = n - at < piece ? n - at : piece;
        if (gyre_context_forward(context, tokens + from + at, rows, rows, logits + at * VOCAB, &err) != GYRE_OK)
            fail_msg("%s", err.text);
    }
}

static void check_close(const float *a, const float *b, int64_t n, const char *what) {
    double largest = 0;
    for (int64_t i = 0; i < n; i++)
        largest = fmax(largest, fabs((double)b[i]));
    for (int64_t i = 0; i < n; i++)
        test_close((double)a[i], (double)b[i], 2e-5 * largest, what);
}

static void pieces_and_threads(void **state) {
    static const int64_t pieces[] = {1, 65, 511};
    (void)state;
    for (int m = 0; m < MODELS; m++) {
        gyre_model *model = open_model(names[m]);
        gyre_context *context = open_context(model, NULL);
        gyre_pool *pool = NULL;
        read_some(context, 0, TOKENS, TOKENS, whole);
        for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
            gyre_context_reset(context);
            read_some(context, 0, TOKENS, pieces[i], other);
            check_close(other, whole, TOKENS * VOCAB, names[m]);
        }
        gyre_context_free(context);
        assert_int_equal(gyre_pool_create(&pool, 3, NULL), GYRE_OK);
        const gyre_exec exec = gyre_pool_exec(pool);
        context = open_context(model, &exec);
        read_some(context, 0, TOKENS, TOKENS, other);
        assert_memory_equal(other, whole, sizeof whole);
        gyre_context_free(context);
        gyre_pool_free(pool);
        gyre_model_free(model);
    }
}

/* The vectors of tokens, times the output matrix, are the logits; for any split, and beside logits of the same sequence. */
static void vectors_of_tokens(void **state) {
    static float states[TOKENS * 64];
    (void)state;
    for (int m = 0; m < MODELS; m++) {
        json_t *fixture = synthetic_fixture(names[m]);
        const int tied = !json_object_get(json_object_get(fixture, "tensors"), "lm_head.weight");
        const int is_plain = strcmp(names[m], "llama") == 0 || strcmp(names[m], "olmo2") == 0;
        gyre_model *model = open_model(names[m]);
        gyre_context *context = open_context(model, NULL);
        gyre_error err = {0, ""};
        const int64_t dim = gyre_model_get_config(model)->model_dim;
        assert_true(dim <= 64);
        if (gyre_context_embed(context, tokens, TOKENS, TOKENS, states, &err)) fail_msg("%s: %s", names[m], err.text);
        assert_int_equal(gyre_context_tokens(context), TOKENS);
        gyre_context_reset(context);
        read_some(context, 0, 500, 500, whole);
        for (int64_t at = 500; at < TOKENS; at++) { /* token by token, after a read of logits */
            if (gyre_context_embed(context, tokens + at, 1, 1, other, &err)) fail_msg("%s: %s", names[m], err.text);
            check_close(other, states + at * dim, dim, names[m]);
        }
        if (is_plain) {
            int64_t count;
            float *head = synthetic_tensor(fixture, tied ? "model.embed_tokens.weight" : "lm_head.weight", &count);
            for (int64_t i = 0; i < 500 * VOCAB; i++) {
                double sum = 0;
                for (int64_t c = 0; c < dim; c++)
                    sum += (double)states[i / VOCAB * dim + c] * (double)head[i % VOCAB * dim + c];
                other[i] = (float)sum;
            }
            check_close(other, whole, 500 * VOCAB, names[m]);
            free(head);
        }
        gyre_context_free(context);
        gyre_model_free(model);
        json_decref(fixture);
    }
}

/* The errors are those of a read of logits, and name this call. */
static void vectors_that_are_refused(void **state) {
    const int32_t bad[2] = {1, VOCAB};
    gyre_error err = {0, ""};
    (void)state;
    gyre_model *model = open_model("llama");
    gyre_context *context = open_context(model, NULL);
    assert_int_equal(gyre_context_embed(context, tokens, 2, 1, NULL, &err), GYRE_EINVAL);
    assert_string_equal(err.text, "states: is NULL, but those of 1 tokens are wanted (gyre_context_embed)");
    assert_int_equal(gyre_context_embed(context, bad, 2, 0, NULL, &err), GYRE_EINVAL);
    assert_non_null(strstr(err.text, "(gyre_context_embed)"));
    assert_int_equal(gyre_context_embed(context, tokens, TOKENS + 1, 0, NULL, &err), GYRE_EINVAL);
    assert_int_equal(gyre_context_tokens(context), 0);
    gyre_context_free(context);
    gyre_model_free(model);
}

/* After an error the next read gives what it would have given without it. */
static void cuts_and_errors(void **state) {
    const int32_t bad[3] = {1, VOCAB, 2};
    gyre_error err = {0, ""};
    (void)state;
    for (int m = 0; m < MODELS; m++) {
        gyre_model *model = open_model(names[m]);
        gyre_context *context = open_context(model, NULL), *fresh = open_context(model, NULL);
        read_some(context, 0, 300, 300, other);
        assert_int_equal(gyre_context_truncate(context, 301), GYRE_EINVAL);
        assert_int_equal(gyre_context_truncate(context, -1), GYRE_EINVAL);
        assert_int_equal(gyre_context_truncate(context, 100), GYRE_OK);
        assert_int_equal(gyre_context_forward(context, bad, 3, 1, other, &err), GYRE_EINVAL);
        assert_int_equal(gyre_context_forward(context, tokens, 501, 1, other, &err), GYRE_EINVAL);
        assert_int_equal(gyre_context_forward(context, tokens, 2, 3, other, &err), GYRE_EINVAL);
        assert_int_equal(gyre_context_forward(context, tokens, 2, 1, NULL, &err), GYRE_EINVAL);
        assert_non_null(strstr(err.text, "logits: is NULL"));
        assert_int_equal(gyre_context_tokens(context), 100);
        read_some(fresh, 0, 100, 100, whole);
        read_some(context, 300, 250, 250, other);
        read_some(fresh, 300, 250, 250, whole);
        assert_memory_equal(other, whole, 250 * VOCAB * sizeof *whole);
        gyre_context_free(context);
        gyre_context_free(fresh);
        gyre_model_free(model);
    }
}

/* A sliding window: reading token by token, and reading the first window at once, agree. */
static void streams(void **state) {
    gyre_error err = {0, ""};
    const int32_t bad[2] = {1, -1};
    (void)state;
    for (int m = 0; m < MODELS; m++) {
        gyre_model *model = open_model(names[m]);
        gyre_context *context = open_context(model, NULL), *single = open_context(model, NULL);
        assert_int_equal(gyre_context_stream(context, 4, 3, &err), GYRE_EINVAL);
        assert_int_equal(gyre_context_stream(context, 4, 40, &err), GYRE_OK);
        assert_int_equal(gyre_context_stream(single, 4, 40, &err), GYRE_OK);
        read_some(context, 0, 200, 200, other);
        read_some(single, 0, 200, 1, whole);
        check_close(other, whole, 200 * VOCAB, names[m]);
        assert_int_equal(gyre_context_truncate(context, 10), GYRE_EINVAL);
        assert_int_equal(gyre_context_forward(context, bad, 2, 1, other, &err), GYRE_EINVAL);
        assert_int_equal(gyre_context_tokens(context), 200);
        gyre_context_reset(context);
        gyre_context_reset(single);
        read_some(context, 0, 60, 60, other);
        read_some(single, 0, 60, 1, whole);
        check_close(other, whole, 60 * VOCAB, names[m]);
        gyre_context_free(context);
        gyre_context_free(single);
        gyre_model_free(model);
    }
}

/* A cache type that does not fit the heads, and an encoding for other heads. */
static void contexts_that_do_not_fit(void **state) {
    gyre_model *model = open_model("llama"); /* heads of 6 */
    gyre_context_options options = GYRE_INIT(gyre_context_options);
    gyre_context *context = NULL;
    gyre_error err = {0, ""};
    (void)state;
    options.max_tokens = TOKENS;
    options.cache_dtype = GYRE_DTYPE_Q8;
    assert_int_equal(gyre_context_create(&context, model, &options, &err), GYRE_EINVAL);
    assert_non_null(strstr(err.text, "head_dim: 6 is not a multiple of 8"));
    options.cache_dtype = GYRE_DTYPE_F64;
    assert_int_equal(gyre_context_create(&context, model, &options, &err), GYRE_EDTYPE);
    assert_non_null(strstr(err.text, "key_dtype"));
    options.cache_dtype = GYRE_DTYPE_F32;
    const gyre_config config = test_rope_config(16, GYRE_LAYOUT_HALF);
    gyre_encoding *wider = test_encoding(&config);
    options.encoding = wider;
    assert_int_equal(gyre_context_create(&context, model, &options, &err), GYRE_ESHAPE);
    assert_non_null(strstr(err.text, "head_dim"));
    gyre_encoding_free(wider);
    assert_null(context);
    gyre_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(pieces_and_threads),
                                       cmocka_unit_test(cuts_and_errors),
                                       cmocka_unit_test(vectors_of_tokens),
                                       cmocka_unit_test(vectors_that_are_refused),
                                       cmocka_unit_test(streams),
                                       cmocka_unit_test(contexts_that_do_not_fit)};
    return cmocka_run_group_tests(tests, make_folder, remove_files);
}
