/* test_products.c: contexts and evaluations whose products with matrices in bf16 round what they multiply
 * (gyre_context_options.products). */
#include "gyre/gyre_model.h"
#include "kernels/half_precision.h"
#include "model/model.h"
#include "temp_folder.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS = 90, VOCAB = 96, DIM = 64 };

static int32_t tokens[TOKENS + 1];

static int make_folder(void **state) {
    test_random random = {61};
    for (int i = 0; i <= TOKENS; i++)
        tokens[i] = (int32_t)((test_next(&random) >> 33) % VOCAB);
    return make_empty_folder(state);
}

/* out = a llama opened from files of that type. */
static gyre_model *open_model(gyre_dtype dtype) {
    gyre_model_config config = GYRE_INIT(gyre_model_config);
    gyre_model *made = NULL, *model = NULL;
    gyre_error err = {0, ""};
    config.vocab = VOCAB;
    config.model_dim = DIM;
    config.layers = 2;
    config.heads = 4;
    config.kv_heads = 2;
    config.mlp_dim = 160;
    config.position.kind = gyre_kind_find("rope");
    if (gyre_model_create(&made, &config, 5, &err) || gyre_model_save(made, folder, dtype, &err) ||
        gyre_model_open(&model, folder, NULL, &err))
        fail_msg("%s", err.text);
    gyre_model_free(made);
    return model;
}

static gyre_context *open_context(const gyre_model *model, gyre_products products, const gyre_exec *exec) {
    gyre_context_options options = GYRE_INIT(gyre_context_options);
    gyre_context *context = NULL;
    gyre_error err = {0, ""};
    options.max_tokens = TOKENS;
    options.products = products;
    options.order = GYRE_ORDER_FIXED;
    options.exec = exec;
    if (gyre_context_create(&context, model, &options, &err)) fail_msg("%s", err.text);
    return context;
}

/* Reads all tokens, `piece` at a time, with all logits. */
static void read_all(gyre_context *context, int64_t piece, float *logits) {
    gyre_error err = {0, ""};
    gyre_context_reset(context);
    for (int64_t at = 0; at < TOKENS; at += piece) {
        const int64_t n = TOKENS - at < piece ? TOKENS - at : piece;
        if (gyre_context_forward(context, tokens + at, n, n, logits + at * VOCAB, &err)) fail_msg("%s", err.text);
    }
}

static void any_cut_and_threads(void **state) {
    static float whole[TOKENS * VOCAB], other[TOKENS * VOCAB];
    (void)state;
    gyre_model *model = open_model(GYRE_DTYPE_BF16);
    gyre_pool *pool = NULL;
    assert_int_equal(gyre_pool_create(&pool, 3, NULL), GYRE_OK);
    const gyre_exec exec = gyre_pool_exec(pool);
    const gyre_exec *const execs[] = {NULL, &exec};
    for (int threads = 0; threads < 2; threads++) {
        gyre_context *context = open_context(model, GYRE_PRODUCTS_BF16, execs[threads]);
        static const int64_t pieces[] = {TOKENS, 1, 4, 31};
        for (int i = 0; i < 4; i++) {
            read_all(context, pieces[i], threads || i ? other : whole);
            if (threads || i) assert_memory_equal(other, whole, sizeof whole);
        }
        gyre_context_free(context);
    }
    gyre_pool_free(pool);
    gyre_model_free(model);
}

/* x rounded to eight significant bits, to the nearest and else to the even one. */
static double rounded(double x) {
    int exponent;
    const double scaled = ldexp(frexp(x, &exponent), 8);
    return ldexp(nearbyint(scaled), exponent - 8);
}

/* Logits are the products of the rounded vectors of tokens with the output matrix.  Other layers have rounded too. */
static void logits_of_rounded_vectors(void **state) {
    static float logits[TOKENS * VOCAB], of_floats[TOKENS * VOCAB], states[TOKENS * DIM];
    (void)state;
    gyre_model *model = open_model(GYRE_DTYPE_BF16);
    gyre_context *context = open_context(model, GYRE_PRODUCTS_BF16, NULL), *floats = open_context(model, 0, NULL);
    const uint16_t *w = model->network->lm_head.w.data;
    double error = 0, size = 0;
    assert_int_equal(model->network->lm_head.w.type, GYRE_STORED_BF16);
    read_all(context, TOKENS, logits);
    read_all(floats, TOKENS, of_floats);
    gyre_context_reset(context);
    assert_int_equal(gyre_context_embed(context, tokens, TOKENS, TOKENS, states, NULL), GYRE_OK);
    for (int i = 0; i < TOKENS * VOCAB; i++) {
        double exact = 0, terms = 0;
        for (int c = 0; c < DIM; c++) {
            const double term =
                rounded((double)states[i / VOCAB * DIM + c]) * (double)gyre_bf16_widen(w[i % VOCAB * DIM + c]);
            exact += term;
            terms += fabs(term);
        }
        assert_true(fabs((double)logits[i] - exact) <= (DIM + 1) * 0x1p-24 * 1.001 * terms);
        error += pow((double)logits[i] - (double)of_floats[i], 2);
        size += pow((double)of_floats[i], 2);
    }
    const double relative = sqrt(error / size);
    print_message("logits: %.2g of their root mean square from those of products of floats\n", relative);
    assert_true(relative > 1e-4 && relative < 0.02); /* one rounding is up to 2^-8, and there are about ten in a row */
    gyre_context_free(context);
    gyre_context_free(floats);
    gyre_model_free(model);
}

/* An evaluation has the loss of the logits of such a context. */
static void evaluations(void **state) {
    static float logits[TOKENS * VOCAB];
    (void)state;
    gyre_model *model = open_model(GYRE_DTYPE_BF16);
    const gyre_text text = {.ids = tokens, .count = TOKENS + 1};
    gyre_eval_options options = GYRE_INIT(gyre_eval_options);
    gyre_eval_result of_floats, result;
    options.context = TOKENS;
    options.protocol = GYRE_EVAL_PROTOCOL_TRUNCATE;
    assert_int_equal(gyre_evaluate(model, &text, &options, &of_floats, NULL, NULL), GYRE_OK);
    options.products = GYRE_PRODUCTS_BF16;
    assert_int_equal(gyre_evaluate(model, &text, &options, &result, NULL, NULL), GYRE_OK);
    gyre_context *context = open_context(model, GYRE_PRODUCTS_BF16, NULL);
    double nats = 0;
    read_all(context, TOKENS, logits);
    for (int i = 0; i < TOKENS; i++) {
        double sum = 0;
        for (int v = 0; v < VOCAB; v++)
            sum += exp((double)logits[i * VOCAB + v]);
        nats += (log(sum) - (double)logits[i * VOCAB + tokens[i + 1]]) / TOKENS;
    }
    assert_true(fabs(nats - result.nats) < 1e-6 * nats);
    assert_true(result.nats != of_floats.nats);
    gyre_context_free(context);
    gyre_model_free(model);
}

static void refused(void **state) {
    static const gyre_dtype others[] = {GYRE_DTYPE_F32, GYRE_DTYPE_F16};
    (void)state;
    for (int i = 0; i < 3; i++) {
        gyre_model *model = open_model(i < 2 ? others[i] : GYRE_DTYPE_BF16);
        gyre_context_options options = GYRE_INIT(gyre_context_options);
        gyre_context *context = NULL;
        gyre_error err = {0, ""};
        options.max_tokens = TOKENS;
        options.products = i < 2 ? GYRE_PRODUCTS_BF16 : (gyre_products)2;
        const gyre_status status = gyre_context_create(&context, model, &options, &err);
        assert_int_equal(status, i < 2 ? GYRE_EUNSUPPORTED : GYRE_EINVAL);
        assert_string_equal(
            err.text, i < 2 ? "products: bf16 is for matrices stored as bf16, and the model has none (gyre_context_create)"
                            : "products: 2 is not a gyre_products (gyre_context_create)");
        assert_null(context);
        gyre_model_free(model);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(any_cut_and_threads), cmocka_unit_test(logits_of_rounded_vectors),
                                       cmocka_unit_test(evaluations), cmocka_unit_test(refused)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
