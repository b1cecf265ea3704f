/* test_cuts.c: in the fixed order the logits of a token are the same bits however the text before it was cut into reads, for
 * any number of threads and any room in the cache. */
#include "gyre/gyre_model.h"
#include "make_synthetic_model.h"
#include "temp_folder.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TOKENS = 192, CUTS = 200, THREADS = 3 };

/* Trained models that lie beside the source. */
static const char *const bundled[] = {"rope", "alibi", "rope-tuned-yarn-16"};
/* Windows, softcap, slopes, shared key heads, two kinds of layers, positions at the input. */
static const char *const families[] = {"llama", "gemma2_long", "gemma3_six", "mistral_window", "bloom", "mpt", "gpt_neox"};
enum { BUNDLED = sizeof bundled / sizeof *bundled, FAMILIES = sizeof families / sizeof *families };

static const gyre_dtype cache_dtypes[] = {GYRE_DTYPE_F32, GYRE_DTYPE_F16, GYRE_DTYPE_Q8};
static gyre_pool *pools[THREADS];

static int make_folder(void **state) {
    for (int i = 0; i < THREADS; i++)
        if (gyre_pool_create(&pools[i], i + 1, NULL) != GYRE_OK) return -1;
    return make_empty_folder(state);
}

static int remove_files(void **state) {
    (void)state;
    for (int i = 0; i < THREADS; i++)
        gyre_pool_free(pools[i]);
    unlink(in_folder("config.json"));
    unlink(in_folder("model.safetensors"));
    return rmdir(folder);
}

typedef struct reader {
    const gyre_model *model;
    const char *name;
    gyre_dtype cache;
    int64_t vocab;
    const int32_t *tokens;
    test_random random;
    float *logits, *piece; /* [TOKENS][vocab]; [TOKENS][vocab] */
} reader;

/* A context with a random number of threads and random room. */
static gyre_context *open_context(reader *r, gyre_exec *exec) {
    gyre_context_options options = GYRE_INIT(gyre_context_options);
    gyre_context *context = NULL;
    gyre_error err = {0, ""};
    *exec = gyre_pool_exec(pools[test_next(&r->random) % THREADS]);
    options.max_tokens = TOKENS + (int64_t)(test_next(&r->random) % 300);
    options.cache_dtype = r->cache;
    options.exec = exec;
    options.order = GYRE_ORDER_FIXED;
    if (gyre_context_create(&context, r->model, &options, &err) != GYRE_OK) fail_msg("%s: %s", r->name, err.text);
    return context;
}

static void read_piece(gyre_context *context, const reader *r, int64_t first, int64_t count, float *logits) {
    gyre_error err = {0, ""};
    if (gyre_context_forward(context, r->tokens + first, count, count, logits, &err) != GYRE_OK)
        fail_msg("%s: %s", r->name, err.text);
}

/* Reads all tokens in random pieces, single tokens among them.  out = number of pieces. */
static int read_in_pieces(reader *r) {
    gyre_exec exec;
    gyre_context *context = open_context(r, &exec);
    int pieces = 0;
    for (int64_t first = 0, count; first < TOKENS; first += count, pieces++) {
        const int64_t left = TOKENS - first, most = test_next(&r->random) % 2 ? TOKENS : 3;
        count = 1 + (int64_t)(test_next(&r->random) % (uint64_t)(most < left ? most : left));
        read_piece(context, r, first, count, r->piece);
        if (memcmp(r->piece, r->logits + first * r->vocab, (size_t)(count * r->vocab) * sizeof *r->piece) != 0)
            fail_msg("%s, cache of type %d: tokens %lld .. %lld", r->name, (int)r->cache, (long long)first,
                     (long long)(first + count - 1));
    }
    gyre_context_free(context);
    return pieces;
}

static void read_at_once(reader *r) {
    gyre_exec exec;
    gyre_context *context = open_context(r, &exec);
    read_piece(context, r, 0, TOKENS, r->logits);
    gyre_context_free(context);
}

static void check_model(const gyre_model *model, const char *name) {
    int32_t tokens[TOKENS];
    const gyre_model_config *config = gyre_model_get_config(model);
    reader r = {.model = model, .name = name, .vocab = config->vocab, .tokens = tokens, .random = {21}};
    for (int i = 0; i < TOKENS; i++)
        tokens[i] = (int32_t)(test_next(&r.random) % (uint64_t)r.vocab);
    r.logits = malloc((size_t)(TOKENS * r.vocab) * sizeof *r.logits);
    r.piece = malloc((size_t)(TOKENS * r.vocab) * sizeof *r.piece);
    assert_true(r.logits && r.piece);
    for (size_t i = 0; i < sizeof cache_dtypes / sizeof *cache_dtypes; i++) {
        r.cache = cache_dtypes[i];
        if (r.cache == GYRE_DTYPE_Q8 && config->head_dim % 8 != 0) continue;
        read_at_once(&r);
        for (int pieces = 0; pieces < CUTS;)
            pieces += read_in_pieces(&r);
    }
    free(r.logits);
    free(r.piece);
}

static void bundled_models(void **state) {
    char path[256];
    (void)state;
    for (int m = 0; m < BUNDLED; m++) {
        gyre_model *model = NULL;
        gyre_error err = {0, ""};
        snprintf(path, sizeof path, "%s/../models/%s", GYRE_TEST_DATA, bundled[m]);
        if (gyre_model_open(&model, path, &err) != GYRE_OK) fail_msg("%s", err.text);
        check_model(model, bundled[m]);
        gyre_model_free(model);
    }
}

static void families_of_models(void **state) {
    (void)state;
    for (int m = 0; m < FAMILIES; m++) {
        gyre_model *model = NULL;
        gyre_error err = {0, ""};
        json_t *fixture = synthetic_fixture(families[m]);
        synthetic_write_folder(fixture, folder);
        json_decref(fixture);
        if (gyre_model_open(&model, folder, &err) != GYRE_OK) fail_msg("%s: %s", families[m], err.text);
        check_model(model, families[m]);
        gyre_model_free(model);
    }
}

static void unknown_order(void **state) {
    gyre_context_options options = GYRE_INIT(gyre_context_options);
    gyre_context *context = NULL;
    gyre_model *model = NULL;
    gyre_error err = {0, ""};
    (void)state;
    assert_int_equal(gyre_model_open(&model, GYRE_TEST_DATA "/../models/rope", &err), GYRE_OK);
    options.max_tokens = TOKENS;
    options.order = (gyre_order)2;
    assert_int_equal(gyre_context_create(&context, model, &options, &err), GYRE_EINVAL);
    assert_string_equal(err.text, "order: 2 is no gyre_order (gyre_context_create)");
    assert_null(context);
    gyre_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(bundled_models), cmocka_unit_test(families_of_models),
                                       cmocka_unit_test(unknown_order)};
    return cmocka_run_group_tests(tests, make_folder, remove_files);
}
