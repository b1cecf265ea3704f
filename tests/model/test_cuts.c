/* test_cuts.c: in the fixed order the logits of a token are the same bits however the text before it was cut into reads, for
 * any number of threads, any room in the cache and any type of weights. */
#include "gyre/gyre_model.h"
#include "make_quantized_model.h"
#include "make_synthetic_model.h"
#include "model/model.h"
#include "random_cuts.h"
#include "temp_folder.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A decoder passes 512 tokens at a time. */
enum { TOKENS = 192, SHORT_TOKENS = 40, LONG_TOKENS = 640, THREADS = 3 };

/* Trained models that lie beside the source. */
static const char *const bundled[] = {"rope", "alibi", "rope-tuned-yarn-16"};
/* Windows, softcap, slopes, shared key heads, two kinds of layers, positions at the input. */
static const char *const families[] = {"llama", "gemma2_long", "gemma3_six", "mistral_window",
                                       "bloom", "mpt",         "gpt_neox",   "llama_wide_bf16"};
enum { BUNDLED = sizeof bundled / sizeof *bundled, FAMILIES = sizeof families / sizeof *families };

static const gyre_dtype cache_dtypes[] = {GYRE_DTYPE_F32, GYRE_DTYPE_F16, GYRE_DTYPE_Q8};
static gyre_pool *pools[THREADS];

static int make_folder(void **state) {
    for (int i = 0; i < THREADS; i++)
        if (gyre_pool_create(&pools[i], i + 1, NULL) != GYRE_OK) return -1;
    return make_empty_folder(state);
}

static int free_all(void **state) {
    for (int i = 0; i < THREADS; i++)
        gyre_pool_free(pools[i]);
    return remove_folder(state);
}

typedef struct reader {
    const gyre_model *model;
    const char *name;
    gyre_dtype cache;
    int64_t vocab, count; /* count: of tokens */
    int32_t tokens[LONG_TOKENS];
    test_random random;
    float *logits, *piece; /* [count][vocab] both */
} reader;

/* A context with a random number of threads and random room. */
static gyre_context *open_context(reader *r, gyre_exec *exec) {
    gyre_context_options options = GYRE_INIT(gyre_context_options);
    gyre_context *context = NULL;
    gyre_error err = {0, ""};
    *exec = gyre_pool_exec(pools[test_next(&r->random) % THREADS]);
    options.max_tokens = r->count + (int64_t)(test_next(&r->random) % 300);
    options.cache_dtype = r->cache;
    options.exec = exec;
    options.order = GYRE_ORDER_FIXED;
    if (gyre_context_create(&context, r->model, &options, &err) != GYRE_OK) fail_msg("%s: %s", r->name, err.text);
    return context;
}

/* logits = those of the last `wanted` tokens. */
static void read_piece(gyre_context *context, const reader *r, int64_t first, int64_t count, int64_t wanted, float *logits) {
    gyre_error err = {0, ""};
    if (gyre_context_forward(context, r->tokens + first, count, wanted, logits, &err) != GYRE_OK)
        fail_msg("%s: %s", r->name, err.text);
}

/* Reads all tokens in random pieces, single tokens among them, and takes the logits of all tokens of a piece or of the last
 * ones.  out = number of pieces. */
static int read_in_pieces(reader *r) {
    gyre_exec exec;
    gyre_context *context = open_context(r, &exec);
    int pieces = 0;
    for (int64_t first = 0, count; first < r->count; first += count, pieces++) {
        const int64_t left = r->count - first, most = test_next(&r->random) % 2 ? left : 3;
        count = 1 + (int64_t)(test_next(&r->random) % (uint64_t)(most < left ? most : left));
        const int64_t some = (int64_t)(test_next(&r->random) % (uint64_t)(count + 1));
        const int64_t wanted = test_next(&r->random) % 2 ? count : some, from = first + count - wanted;
        read_piece(context, r, first, count, wanted, r->piece);
        if (memcmp(r->piece, r->logits + from * r->vocab, (size_t)(wanted * r->vocab) * sizeof *r->piece) != 0)
            fail_msg("%s, cache of type %d: tokens %lld .. %lld", r->name, (int)r->cache, (long long)first,
                     (long long)(first + count - 1));
    }
    gyre_context_free(context);
    return pieces;
}

static void read_whole(reader *r) {
    gyre_exec exec;
    gyre_context *context = open_context(r, &exec);
    read_piece(context, r, 0, r->count, r->count, r->logits);
    gyre_context_free(context);
}

static void read_at_once(reader *r) {
    read_whole(r);
    for (int64_t i = 0; i < r->count * r->vocab; i++)
        assert_true(isfinite(r->logits[i]));
    assert_memory_not_equal(r->logits, r->logits + (r->count - 1) * r->vocab, (size_t)r->vocab * sizeof *r->logits);
}

/* out = a reader of `count` random tokens, without logits. */
static reader begin_reader(const gyre_model *model, const char *name, int64_t count) {
    reader r = {.model = model, .name = name, .vocab = gyre_model_get_config(model)->vocab, .count = count, .random = {21}};
    for (int64_t i = 0; i < count; i++)
        r.tokens[i] = (int32_t)(test_next(&r.random) % (uint64_t)r.vocab);
    r.logits = malloc((size_t)(count * r.vocab) * sizeof *r.logits);
    r.piece = malloc((size_t)(count * r.vocab) * sizeof *r.piece);
    assert_true(r.logits && r.piece);
    return r;
}

static void end_reader(reader *r) {
    free(r->logits);
    free(r->piece);
}

static int64_t usual_tokens(void) {
    return is_short_test() ? SHORT_TOKENS : TOKENS;
}

static void check_cuts(reader *r, gyre_dtype cache) {
    r->cache = cache;
    read_at_once(r);
    for (int pieces = 0; pieces < random_cuts();)
        pieces += read_in_pieces(r);
}

static void check_model(const gyre_model *model, const char *name) {
    reader r = begin_reader(model, name, usual_tokens());
    for (size_t i = 0; i < sizeof cache_dtypes / sizeof *cache_dtypes; i++)
        if (cache_dtypes[i] != GYRE_DTYPE_Q8 || gyre_model_get_config(model)->head_dim % 8 == 0)
            check_cuts(&r, cache_dtypes[i]);
    end_reader(&r);
}

static gyre_model *open_model(const char *path) {
    gyre_model *model = NULL;
    gyre_error err = {0, ""};
    if (gyre_model_open(&model, path, NULL, &err) != GYRE_OK) fail_msg("%s: %s", path, err.text);
    return model;
}

static gyre_model *open_bundled(const char *name) {
    char path[256];
    snprintf(path, sizeof path, "%s/../models/%s", GYRE_TEST_DATA, name);
    return open_model(path);
}

static gyre_model *open_family(const char *name) {
    json_t *fixture = synthetic_fixture(name);
    synthetic_write_folder(fixture, folder);
    json_decref(fixture);
    return open_model(folder);
}

static void bundled_models(void **state) {
    (void)state;
    for (int m = 0; m < BUNDLED; m++) {
        gyre_model *model = open_bundled(bundled[m]);
        check_model(model, bundled[m]);
        gyre_model_free(model);
    }
}

static void families_of_models(void **state) {
    (void)state;
    for (int m = 0; m < FAMILIES; m++) {
        gyre_model *model = open_family(families[m]);
        check_model(model, families[m]);
        gyre_model_free(model);
    }
}

/* Layers of a model made here, each with another base or none. */
static void bases_of_layers(void **state) {
    static const double bases[] = {100, 0, 10000};
    gyre_model_config config = GYRE_INIT(gyre_model_config);
    gyre_model *model = NULL;
    (void)state;
    config.model_dim = 32;
    config.layers = config.layer_bases_count = 3;
    config.position.kind = GYRE_KIND_ROPE;
    config.layer_bases = bases;
    assert_int_equal(gyre_model_create(&model, &config, 1, NULL), GYRE_OK);
    check_model(model, "bases of layers");
    gyre_model_free(model);
}

/* The bundled models are BF16. */
static void converted_weights(void **state) {
    static const struct {
        const char *name;
        gyre_model_format format;
        gyre_dtype dtype;
    } targets[] = {{"f32", GYRE_MODEL_FORMAT_SAFETENSORS, GYRE_DTYPE_F32},
                   {"f16", GYRE_MODEL_FORMAT_SAFETENSORS, GYRE_DTYPE_F16},
                   {"q8_0.gguf", GYRE_MODEL_FORMAT_GGUF, GYRE_DTYPE_Q8}};
    (void)state;
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        gyre_convert_options options = GYRE_INIT(gyre_convert_options);
        gyre_error err = {0, ""};
        options.format = targets[i].format;
        options.dtype = &targets[i].dtype;
        if (gyre_convert(GYRE_TEST_DATA "/../models/rope", in_folder(targets[i].name), &options, &err) != GYRE_OK)
            fail_msg("%s", err.text);
        gyre_model *model = open_model(in_folder(targets[i].name));
        check_model(model, targets[i].name);
        gyre_model_free(model);
    }
}

static void blocks_of_ggml(void **state) {
    (void)state;
    for (int i = 0; i < QUANT_FORMATS; i++) {
        write_quantized_model(&quant_formats[i], in_folder("blocks.gguf"));
        gyre_model *model = open_model(in_folder("blocks.gguf"));
        reader r = begin_reader(model, quant_formats[i].name, usual_tokens());
        check_cuts(&r, GYRE_DTYPE_F16);
        end_reader(&r);
        gyre_model_free(model);
    }
}

/* Reads of more tokens than one pass. */
static void more_than_a_pass(void **state) {
    static const char *const names[] = {"llama", "gemma2_long"};
    (void)state;
    for (int m = 0; m < (is_short_test() ? 1 : 2); m++) {
        gyre_model *model = open_family(names[m]);
        reader r = begin_reader(model, names[m], LONG_TOKENS);
        check_cuts(&r, GYRE_DTYPE_F16);
        end_reader(&r);
        gyre_model_free(model);
    }
}

/* gyre_evaluate reads in the fixed order: another number of threads changes no bit, of no window. */
static void evaluation_on_any_threads(void **state) {
    enum { COUNT = 2500, CONTEXT = 600, STRIDE = 300, WINDOWS = 7, FEW_WINDOWS = 2 };
    static int32_t ids[COUNT];
    static const gyre_text text = {ids, COUNT, 1, 1, COUNT};
    test_random random = {22};
    double nats[THREADS], by_window[THREADS][WINDOWS] = {{0}};
    gyre_model *model = open_family("llama");
    const uint64_t vocab = (uint64_t)gyre_model_get_config(model)->vocab;
    (void)state;
    for (int i = 0; i < COUNT; i++)
        ids[i] = (int32_t)(test_next(&random) % vocab);
    for (int t = 0; t < THREADS; t++) {
        gyre_eval_options options = GYRE_INIT(gyre_eval_options);
        gyre_eval_result result = {0};
        gyre_error err = {0, ""};
        const gyre_exec exec = gyre_pool_exec(pools[t]);
        options.context = CONTEXT;
        options.stride = STRIDE;
        options.windows = is_short_test() ? FEW_WINDOWS : 0;
        options.by_window = by_window[t];
        if (gyre_evaluate(model, &text, &options, &result, &exec, &err) != GYRE_OK) fail_msg("%s", err.text);
        assert_int_equal(result.windows, is_short_test() ? FEW_WINDOWS : WINDOWS);
        nats[t] = result.nats;
        assert_memory_equal(&nats[t], &nats[0], sizeof nats[0]);
        assert_memory_equal(by_window[t], by_window[0], sizeof by_window[0]);
    }
    gyre_model_free(model);
}

static void unknown_order(void **state) {
    gyre_context_options options = GYRE_INIT(gyre_context_options);
    gyre_context *context = NULL;
    gyre_model *model = NULL;
    gyre_error err = {0, ""};
    (void)state;
    assert_int_equal(gyre_model_open(&model, GYRE_TEST_DATA "/../models/rope", NULL, &err), GYRE_OK);
    options.max_tokens = TOKENS;
    options.order = (gyre_order)2;
    assert_int_equal(gyre_context_create(&context, model, &options, &err), GYRE_EINVAL);
    assert_string_equal(err.text, "order: 2 is not a gyre_order (gyre_context_create)");
    assert_null(context);
    gyre_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bundled_models),
        cmocka_unit_test(families_of_models),
        cmocka_unit_test(converted_weights),
        cmocka_unit_test(bases_of_layers),
        cmocka_unit_test(blocks_of_ggml),
        cmocka_unit_test(more_than_a_pass),
        cmocka_unit_test(evaluation_on_any_threads),
        cmocka_unit_test(unknown_order),
    };
    return cmocka_run_group_tests(tests, make_folder, free_all);
}
