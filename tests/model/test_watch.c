/* test_watch.c: gyre_context_watch against softmax(q . k) of a first layer, computed in double from the weights, however the
 * tokens are cut; and gyre_model_get_input_table. */
#include "model/model.h"
#include "naive_decoder.h"
#include "support.h"

enum { TOKENS = 40, ROOM = 48, HEAD = NAIVE_HEAD_DIM };

static gyre_model *model_of(gyre_kind kind) {
    gyre_model_config c = naive_model_config();
    c.position = (gyre_config)GYRE_INIT(gyre_config);
    c.position.kind = kind;
    if (kind == GYRE_KIND_T5) c.position.score.buckets = 32;
    if (kind == GYRE_KIND_LEARNED) c.position.input.positions = ROOM;
    return naive_model(&c, 0.15);
}

/* weights[TOKENS][heads][TOKENS] of the first layer. */
static void first_layer(const naive *d, const int32_t *tokens, double *weights) {
    const gyre_model_config *c = &d->m->config;
    const int64_t row = (c->heads + 2 * c->kv_heads) * c->head_dim, group = c->heads / c->kv_heads;
    double *qkv = calloc((size_t)(TOKENS * row), sizeof *qkv), y[32] = {0};
    assert_non_null(qkv);
    const double *w[2] = {d->w + gyre_layer_tensor_offset(&d->m->layout, 0, GYRE_WEIGHT_ATTN_NORM),
                          d->w + gyre_layer_tensor_offset(&d->m->layout, 0, GYRE_WEIGHT_Q)};
    for (int64_t t = 0; t < TOKENS; t++) {
        naive_norm(d, w[0], d->w + tokens[t] * c->model_dim, y);
        naive_product(w[1], row, c->model_dim, y, qkv + t * row);
        for (int64_t h = 0; h < c->heads + c->kv_heads; h++)
            naive_rotate(d, 0, (double)t, qkv + t * row + h * HEAD);
    }
    for (int64_t m = 0; m < TOKENS; m++)
        for (int64_t h = 0; h < c->heads; h++) {
            double *out = weights + (m * c->heads + h) * TOKENS, sum = 0;
            for (int64_t n = 0; n <= m; n++)
                sum += out[n] = exp(
                    scheme_dot(qkv + m * row + h * HEAD, qkv + n * row + (c->heads + h / group) * HEAD, HEAD) / sqrt(HEAD));
            for (int64_t n = 0; n <= m; n++)
                out[n] /= sum;
        }
    free(qkv);
}

/* Reads `piece` tokens at a time and compares all weights of all queries. */
static void check_pieces(const gyre_model *model, const double *want, int64_t layer, int64_t piece, float *got) {
    const int64_t heads = gyre_model_get_config(model)->heads;
    gyre_context_options options = GYRE_INIT(gyre_context_options);
    gyre_context *context = NULL;
    gyre_error err = {0, ""};
    int32_t tokens[TOKENS];
    naive_draw_tokens(tokens, TOKENS);
    options.max_tokens = ROOM;
    assert_int_equal(gyre_context_create(&context, model, &options, &err), GYRE_OK);
    assert_int_equal(gyre_context_watch(context, layer, got, &err), GYRE_OK);
    for (int64_t from = 0; from < TOKENS; from += piece)
        assert_int_equal(
            gyre_context_forward(context, tokens + from, TOKENS - from < piece ? TOKENS - from : piece, 0, NULL, &err),
            GYRE_OK);
    for (int64_t m = 0; m < TOKENS; m++)
        for (int64_t h = 0; h < heads; h++) {
            double sum = 0;
            for (int64_t n = 0; n <= m; n++) {
                const double value = (double)got[(m * heads + h) * ROOM + n];
                if (want) test_close(value, want[(m * heads + h) * TOKENS + n], 2e-6, "weight");
                sum += value;
            }
            test_close(sum, 1, 1e-5, "sum of a row");
        }
    gyre_context_free(context);
}

static void weights(void **state) {
    (void)state;
    gyre_model *model = model_of(GYRE_KIND_ROPE);
    const int64_t heads = gyre_model_get_config(model)->heads, layers = gyre_model_get_config(model)->layers;
    double *w = naive_weights(model), *want = calloc((size_t)(TOKENS * heads * TOKENS), sizeof *want);
    float *got = calloc((size_t)(ROOM * heads * ROOM), sizeof *got);
    int32_t tokens[TOKENS];
    const naive d = {model, gyre_model_get_encoding(model), w, TOKENS, 0, NULL, NULL};
    naive_draw_tokens(tokens, TOKENS);
    first_layer(&d, tokens, want);
    const int64_t pieces[] = {TOKENS, 7, 1};
    for (int i = 0; i < 3; i++) {
        memset(got, 0, (size_t)(ROOM * heads * ROOM) * sizeof *got);
        check_pieces(model, want, 0, pieces[i], got);
        check_pieces(model, NULL, layers - 1, pieces[i], got); /* also where no logits are asked for */
    }
    free(got);
    free(want);
    free(w);
    gyre_model_free(model);
}

/* Weights that are computed in double from watched queries and keys, rotated here, are those that are watched. */
static void heads_before_rotation(void **state) {
    (void)state;
    gyre_model *model = model_of(GYRE_KIND_ROPE);
    const gyre_model_config *c = gyre_model_get_config(model);
    const int64_t heads = c->heads, kv = c->kv_heads, group = heads / kv;
    double *w = naive_weights(model);
    const naive d = {model, gyre_model_get_encoding(model), w, TOKENS, 0, NULL, NULL};
    float *got = calloc((size_t)(ROOM * heads * ROOM), sizeof *got), q[ROOM * 16 * HEAD], k[ROOM * 16 * HEAD];
    gyre_context_options options = GYRE_INIT(gyre_context_options);
    gyre_context *context = NULL;
    gyre_error err = {0, ""};
    int32_t tokens[TOKENS];
    assert_true(heads <= 16 && kv <= 16);
    naive_draw_tokens(tokens, TOKENS);
    options.max_tokens = ROOM;
    options.first_position = 1000; /* a score sees only the distance, and so does this test */
    assert_int_equal(gyre_context_create(&context, model, &options, &err), GYRE_OK);
    assert_int_equal(gyre_context_watch(context, 1, got, &err), GYRE_OK);
    assert_int_equal(gyre_context_watch_heads(context, 1, q, k, &err), GYRE_OK);
    assert_int_equal(gyre_context_forward(context, tokens, 7, 0, NULL, &err), GYRE_OK);
    assert_int_equal(gyre_context_forward(context, tokens + 7, TOKENS - 7, 0, NULL, &err), GYRE_OK);
    for (int64_t h = 0; h < heads; h++) {
        double query[HEAD], key[HEAD], score[TOKENS], sum = 0;
        for (int64_t i = 0; i < HEAD; i++)
            query[i] = (double)q[((TOKENS - 1) * heads + h) * HEAD + i];
        naive_rotate(&d, 1, TOKENS - 1, query);
        for (int64_t n = 0; n < TOKENS; n++) {
            for (int64_t i = 0; i < HEAD; i++)
                key[i] = (double)k[(n * kv + h / group) * HEAD + i];
            naive_rotate(&d, 1, (double)n, key);
            sum += score[n] = exp(scheme_dot(query, key, HEAD) / sqrt(HEAD));
        }
        for (int64_t n = 0; n < TOKENS; n++)
            test_close((double)got[((TOKENS - 1) * heads + h) * ROOM + n], score[n] / sum, 1e-4, "weight");
    }
    assert_int_equal(gyre_context_watch_heads(context, c->layers, q, k, &err), GYRE_EINVAL);
    assert_int_equal(gyre_context_watch_heads(context, 0, q, NULL, &err), GYRE_EINVAL);
    gyre_context_reset(context);
    assert_int_equal(gyre_context_stream(context, 2, 8, &err), GYRE_EUNSUPPORTED);
    assert_int_equal(gyre_context_watch_heads(context, 0, NULL, NULL, &err), GYRE_OK);
    gyre_context_free(context);
    free(got);
    free(w);
    gyre_model_free(model);
}

/* Logits at positions from elsewhere: the same for a rotation, others for a code of each position. */
static void first_position(void **state) {
    (void)state;
    static const gyre_kind kinds[] = {GYRE_KIND_ROPE, GYRE_KIND_ALIBI, GYRE_KIND_NOPE, GYRE_KIND_SINUSOIDAL};
    static float logits[2][512];
    gyre_error err = {0, ""};
    int32_t tokens[TOKENS];
    naive_draw_tokens(tokens, TOKENS);
    for (int i = 0; i < 4; i++) {
        gyre_model *model = model_of(kinds[i]);
        const int64_t vocab = gyre_model_get_config(model)->vocab;
        double most = 0;
        assert_true(vocab <= 512);
        for (int there = 0; there < 2; there++) {
            gyre_context_options options = GYRE_INIT(gyre_context_options);
            gyre_context *context = NULL;
            options.max_tokens = ROOM;
            options.first_position = there ? 100000 : 0;
            assert_int_equal(gyre_context_create(&context, model, &options, &err), GYRE_OK);
            assert_int_equal(gyre_context_forward(context, tokens, TOKENS, 1, logits[there], &err), GYRE_OK);
            if (there) assert_int_equal(gyre_context_tokens(context), TOKENS);
            gyre_context_reset(context);
            assert_int_equal(gyre_context_stream(context, 2, 8, &err),
                             there || i == 3 ? GYRE_EUNSUPPORTED : GYRE_OK); /* a window counts from 0 */
            gyre_context_free(context);
        }
        for (int64_t v = 0; v < vocab; v++)
            most = fmax(most, fabs((double)logits[1][v] - (double)logits[0][v]));
        if (i < 3 ? most > 1e-3 : most < 1e-2) fail_msg("%s: %g", gyre_kind_name(kinds[i]), most);
        gyre_model_free(model);
    }
    gyre_model *learned = model_of(GYRE_KIND_LEARNED);
    gyre_context_options options = GYRE_INIT(gyre_context_options);
    gyre_context *context = NULL;
    options.max_tokens = ROOM;
    for (int i = 0; i < 2; i++) {
        options.first_position = i ? -1 : ((int64_t)1 << 31) - ROOM + 1;
        assert_int_equal(gyre_context_create(&context, learned, &options, &err), GYRE_EINVAL);
    }
    options.first_position = 20;
    assert_int_equal(gyre_context_create(&context, learned, &options, &err), GYRE_OK);
    assert_int_equal(gyre_context_forward(context, tokens, ROOM - 20, 0, NULL, &err), GYRE_OK);
    assert_int_equal(gyre_context_forward(context, tokens, 1, 0, NULL, &err), GYRE_ERANGE); /* past its table */
    gyre_context_free(context);
    gyre_model_free(learned);
}

static void refusals(void **state) {
    (void)state;
    gyre_model *model = model_of(GYRE_KIND_ROPE);
    gyre_context_options options = GYRE_INIT(gyre_context_options);
    gyre_context *context = NULL;
    gyre_error err = {0, ""};
    float weight = 0;
    options.max_tokens = ROOM;
    assert_int_equal(gyre_context_create(&context, model, &options, &err), GYRE_OK);
    assert_int_equal(gyre_context_watch(context, gyre_model_get_config(model)->layers, &weight, &err), GYRE_EINVAL);
    assert_non_null(strstr(err.text, "layer: "));
    assert_int_equal(gyre_context_watch(context, -1, &weight, &err), GYRE_EINVAL);
    assert_int_equal(gyre_context_watch(context, 0, &weight, &err), GYRE_OK);
    assert_int_equal(gyre_context_stream(context, 2, 8, &err), GYRE_EUNSUPPORTED);
    assert_int_equal(gyre_context_watch(context, 0, NULL, &err), GYRE_OK);
    assert_int_equal(gyre_context_stream(context, 2, 8, &err), GYRE_OK);
    assert_int_equal(gyre_context_watch(context, 0, &weight, &err), GYRE_EUNSUPPORTED);
    gyre_context_free(context);
    gyre_model_free(model);
}

static void input_table(void **state) {
    (void)state;
    gyre_model *rope = model_of(GYRE_KIND_ROPE), *learned = model_of(GYRE_KIND_LEARNED);
    assert_null(gyre_model_get_input_table(rope).data);
    const gyre_cview table = gyre_model_get_input_table(learned);
    int64_t shape[4];
    assert_int_equal(gyre_encoding_table_shape(gyre_model_get_encoding(learned), GYRE_TABLE_INPUT, shape), GYRE_OK);
    assert_non_null(table.data);
    assert_memory_equal(table.shape, shape, sizeof shape);
    gyre_model_free(rope);
    gyre_model_free(learned);
}

/* The table of a layer has the shape of its encoding's, and other numbers than another layer's; a model opened to be read
 * gives what one opened to be trained does. */
static void bias_table(void **state) {
    (void)state;
    gyre_model *t5 = model_of(GYRE_KIND_T5), *rope = model_of(GYRE_KIND_ROPE);
    const gyre_cview first = gyre_model_get_bias_table(t5, 0), second = gyre_model_get_bias_table(t5, 1);
    int64_t shape[4];
    assert_null(gyre_model_get_bias_table(rope, 0).data);
    assert_null(gyre_model_get_bias_table(t5, gyre_model_get_config(t5)->layers).data);
    assert_null(gyre_model_get_bias_table(t5, -1).data);
    assert_int_equal(gyre_encoding_table_shape(gyre_model_get_encoding(t5), GYRE_TABLE_BIAS, shape), GYRE_OK);
    assert_memory_equal(first.shape, shape, sizeof shape);
    assert_true(first.data != second.data);
    gyre_model_free(rope);
    gyre_model_free(t5);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(weights),        cmocka_unit_test(heads_before_rotation),
                                       cmocka_unit_test(first_position), cmocka_unit_test(refusals),
                                       cmocka_unit_test(input_table),    cmocka_unit_test(bias_table)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
