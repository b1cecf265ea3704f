/* test_decoder.c: the forward pass: against the formulas in double, and token by token against all at once. */
#include "model/model.h"
#include "naive_decoder.h"
#include "support.h"
#include "temp_folder.h"

#include <stdio.h>

enum { TOKENS = 80, TRAINED = 32, VOCAB = NAIVE_VOCAB };

static gyre_model_config tiny(gyre_kind kind) {
    gyre_model_config c = naive_model_config();
    c.position.kind = kind;
    c.position.trained_length = TRAINED;
    c.position.input.positions = 2 * TOKENS;
    return c;
}

/* Reads tokens in pieces of `piece`, with all logits. */
static void read_in(const gyre_model *m, const gyre_encoding *e, const int32_t *tokens, int64_t piece, float *logits) {
    gyre_context *x = NULL;
    gyre_error err;
    const gyre_context_options options = {.size = sizeof options, .encoding = e, .max_tokens = TOKENS};
    if (gyre_context_create(&x, m, &options, &err)) fail_msg("%s", err.text);
    for (int64_t from = 0; from < TOKENS; from += piece) {
        const int64_t n = TOKENS - from < piece ? TOKENS - from : piece;
        assert_ok(gyre_context_forward(x, tokens + from, n, n, logits + from * VOCAB, &err));
    }
    assert_int_equal(gyre_context_tokens(x), TOKENS);
    gyre_context_free(x);
}

static double largest(const float *x, int64_t n) {
    double most = 0;
    for (int64_t i = 0; i < n; i++)
        most = fmax(most, fabs((double)x[i]));
    return most;
}

static void check_same(const float *a, const float *b, double bound, const char *what) {
    const double scale = largest(b, TOKENS * VOCAB);
    for (int64_t i = 0; i < TOKENS * VOCAB; i++)
        test_close((double)a[i], (double)b[i], bound * scale, what);
}

static void check_encoding(const gyre_model *m, const gyre_encoding *e, int64_t length, const char *what) {
    static float whole[TOKENS * VOCAB], pieces[TOKENS * VOCAB], exact[TOKENS * VOCAB];
    static double logits[TOKENS * VOCAB];
    int32_t tokens[TOKENS];
    naive_draw_tokens(tokens, TOKENS);
    read_in(m, e, tokens, TOKENS, whole);
    double *w = naive_weights(m);
    const naive d = {m, e, w, TOKENS, length, NULL, NULL};
    naive_logits(&d, tokens, logits);
    free(w);
    for (int64_t i = 0; i < TOKENS * VOCAB; i++)
        exact[i] = (float)logits[i];
    check_same(whole, exact, naive_error(e), what);
    read_in(m, e, tokens, 1, pieces);
    check_same(pieces, whole, naive_error(e), what);
    read_in(m, e, tokens, 7, pieces);
    check_same(pieces, whole, naive_error(e), what);
}

static void every_encoding(void **state) {
    (void)state;
    gyre_model_config c = tiny(GYRE_KIND_NOPE);
    for (int i = 0; naive_case(i, TOKENS, &c.position); i++) {
        gyre_model *m = naive_model(&c, 0.1);
        check_encoding(m, gyre_model_get_encoding(m), 0, test_schemes[i].name);
        gyre_model_free(m);
    }
}

/* Decoding token by token equals reading the whole prefix under every extension, at one declared length. */
/* The fields for experiments: in a model made here, and in one saved and opened. */
static void experiments(void **state) {
    (void)state;
    static float made[TOKENS * VOCAB], opened[TOKENS * VOCAB];
    int32_t tokens[TOKENS];
    gyre_model_config c = tiny(GYRE_KIND_NOPE);
    naive_draw_tokens(tokens, TOKENS);
    for (int i = 0; naive_experiment(i, &c); i++) {
        gyre_model *m = naive_model(&c, 0.1), *other = NULL, *trained = NULL;
        gyre_error err = {0, ""};
        check_encoding(m, gyre_model_get_encoding(m), 0, "experiment");
        if (gyre_model_save(m, in_folder("experiment"), GYRE_DTYPE_F32, &err)) fail_msg("%s", err.text);
        if (gyre_model_open(&other, in_folder("experiment"), NULL, &err)) fail_msg("%s", err.text);
        if (gyre_model_open_to_train(&trained, in_folder("experiment"), &err)) fail_msg("%s", err.text);
        read_in(m, NULL, tokens, TOKENS, made);
        read_in(other, NULL, tokens, TOKENS, opened);
        check_same(opened, made, 1e-6, "opened");
        read_in(trained, NULL, tokens, TOKENS, opened);
        assert_memory_equal(made, opened, sizeof made);
        gyre_model_free(m);
        gyre_model_free(other);
        gyre_model_free(trained);
    }
}

static void refuses_context(const gyre_model *m, const gyre_config *p, gyre_dtype cache, gyre_status status,
                            const char *why) {
    gyre_context *x = NULL;
    gyre_error err = {0, ""};
    gyre_encoding *e = test_encoding(p);
    const gyre_context_options options = {.size = sizeof options, .max_tokens = TOKENS, .encoding = e, .cache_dtype = cache};
    assert_int_equal(gyre_context_create(&x, m, &options, &err), status);
    if (!strstr(err.text, why)) fail_msg("\"%s\", not \"%s\"", err.text, why);
    gyre_encoding_free(e);
}

static void refuses_stream(const gyre_model *m, const char *why) {
    gyre_context *x = NULL;
    gyre_error err = {0, ""};
    const gyre_context_options options = {.size = sizeof options, .max_tokens = TOKENS};
    assert_ok(gyre_context_create(&x, m, &options, &err));
    assert_int_equal(gyre_context_stream(x, 1, 8, &err), GYRE_EUNSUPPORTED);
    if (!strstr(err.text, why)) fail_msg("\"%s\", not \"%s\"", err.text, why);
    gyre_context_free(x);
}

/* What a rotation may do beside turning each pair by position x frequency. */
enum { NOT_PLAIN = 9 };
static gyre_config not_plain(gyre_config p, int which) {
    if (which == 0) p.rope.clip = (struct gyre_clip_config){GYRE_CLIP_SOFT, 2};
    if (which == 1) p.rope.clip = (struct gyre_clip_config){GYRE_CLIP_HARD, 2};
    if (which == 2) p.rope.clockwise = 1;
    if (which == 3) p.rope.attention_factor = 1.25;
    if (which == 4) p.rope.axis[0].own = 1, p.rope.axis[0].scaling = GYRE_SCALING_LINEAR, p.rope.axis[0].factor = 2;
    if (which == 5) p.rope.scaling = GYRE_SCALING_LINEAR, p.rope.diffusion.timed = 1, p.rope.diffusion.time = 0.5;
    if (which == 6) p.rope.scaling = GYRE_SCALING_LINEAR, p.rope.factor = 2;
    if (which == 7) p.rope.far = GYRE_FAR_CLAMPED, p.rope.far_window = 4;
    if (which == 8) p.query.temperature = GYRE_TEMPERATURE_LOG;
    return p;
}

static void parts_need_a_plain_rotation(void **state) {
    (void)state;
    for (int which = 0; which < NOT_PLAIN; which++)
        for (int i = 0; i < NAIVE_PARTS; i++) {
            if (!naive_parts[i].rotates) continue;
            gyre_model_config c = tiny(GYRE_KIND_ROPE);
            gyre_model *m = NULL;
            gyre_error err = {0, ""};
            c.layer_parts = naive_parts[i].parts;
            c.position = not_plain(c.position, which);
            if (gyre_model_create(&m, &c, 1, &err) != GYRE_EINVAL || !strstr(err.text, "needs a plain rotation"))
                fail_msg("%d: %s", which, err.text);
        }
}

/* A rotation that the model did not train cannot take the place of its frequencies or series. */
static void turns_are_the_models(void **state) {
    (void)state;
    for (int i = 0; i < NAIVE_PARTS; i++) {
        char why[80];
        snprintf(why, sizeof why, "the model trained what rotates (%s)", naive_parts[i].key);
        if (!naive_parts[i].rotates) continue;
        gyre_model_config c = tiny(GYRE_KIND_ROPE);
        c.layer_parts = naive_parts[i].parts;
        gyre_model *m = naive_model(&c, 0.1);
        gyre_config p = m->config.position;
        gyre_encoding *same = test_encoding(&p);
        check_encoding(m, same, 0, "an equal rotation");
        gyre_encoding_free(same);
        p.rope.base = 500;
        refuses_context(m, &p, GYRE_DTYPE_F32, GYRE_EUNSUPPORTED, why);
        for (int which = 0; which < NOT_PLAIN; which++) {
            p = not_plain(m->config.position, which);
            refuses_context(m, &p, GYRE_DTYPE_F32, GYRE_EUNSUPPORTED, why);
        }
        refuses_stream(m, "rotated before they are cached");
        gyre_model_free(m);
    }
}

/* However the tokens are cut, and on any number of threads, the same bits: in caches of every type. */
static void check_bits(const gyre_model *m, gyre_dtype cache) {
    static float whole[TOKENS * VOCAB], logits[TOKENS * VOCAB];
    int32_t tokens[TOKENS];
    naive_draw_tokens(tokens, TOKENS);
    for (int64_t piece = TOKENS; piece > 0; piece = piece == 1 ? 0 : piece == TOKENS ? 33 : piece == 33 ? 7 : 1) {
        gyre_pool *pool = NULL;
        gyre_context *x = NULL;
        gyre_error err = {0, ""};
        assert_ok(gyre_pool_create(&pool, piece == 33 ? 3 : 1, &err));
        const gyre_exec exec = gyre_pool_exec(pool);
        const gyre_context_options options = {
            .size = sizeof options, .max_tokens = TOKENS, .cache_dtype = cache, .exec = &exec, .order = GYRE_ORDER_FIXED};
        assert_ok(gyre_context_create(&x, m, &options, &err));
        for (int64_t from = 0; from < TOKENS; from += piece) {
            const int64_t n = TOKENS - from < piece ? TOKENS - from : piece;
            assert_ok(gyre_context_forward(x, tokens + from, n, n, logits + from * VOCAB, &err));
        }
        if (piece == TOKENS) memcpy(whole, logits, sizeof whole);
        assert_memory_equal(logits, whole, sizeof whole);
        gyre_context_free(x);
        gyre_pool_free(pool);
    }
}

static void parts_have_the_same_bits_however_cut(void **state) {
    (void)state;
    static const struct {
        gyre_kind kind;
        int64_t parts;
    } cases[] = {{GYRE_KIND_NOPE, GYRE_LAYER_PART_CONTEXTUAL},
                 {GYRE_KIND_KERPLE, GYRE_LAYER_PART_ADAPTIVE},
                 {GYRE_KIND_ALIBI, GYRE_LAYER_PART_ADAPTIVE | GYRE_LAYER_PART_ADAPTIVE_ADD}};
    enum { CASES = sizeof cases / sizeof *cases };
    for (int i = 0; i < CASES + NAIVE_PARTS; i++) {
        gyre_model_config c = tiny(i < CASES ? cases[i].kind : GYRE_KIND_ROPE);
        c.layer_parts = i < CASES ? cases[i].parts : naive_parts[i - CASES].parts;
        gyre_model *m = naive_model(&c, 0.1);
        check_bits(m, GYRE_DTYPE_F32);
        check_bits(m, GYRE_DTYPE_F16);
        check_bits(m, GYRE_DTYPE_BF16);
        check_bits(m, GYRE_DTYPE_Q8);
        gyre_model_free(m);
    }
}

/* With one layer keys and values are of their tokens alone: reading through a window of sinks and last tokens is reading the
 * tokens that are kept, from the start. */
static void check_window(gyre_kind kind, int64_t parts, gyre_dtype cache) {
    enum { WINDOW = 14, SINKS = 2 };
    static float through[TOKENS * VOCAB], fresh[WINDOW * VOCAB];
    int32_t tokens[TOKENS], kept[WINDOW];
    gyre_model_config c = tiny(kind);
    gyre_context *x = NULL;
    gyre_error err = {0, ""};
    c.layer_parts = parts;
    c.layers = 1;
    gyre_model *m = naive_model(&c, 0.1);
    const gyre_context_options options = {.size = sizeof options, .max_tokens = TOKENS, .cache_dtype = cache};
    naive_draw_tokens(tokens, TOKENS);
    assert_ok(gyre_context_create(&x, m, &options, &err));
    assert_ok(gyre_context_stream(x, SINKS, WINDOW, &err));
    assert_ok(gyre_context_forward(x, tokens, TOKENS, TOKENS, through, &err));
    for (int64_t last = WINDOW; last < TOKENS; last += 5) {
        memcpy(kept, tokens, SINKS * sizeof *kept);
        memcpy(kept + SINKS, tokens + last + 1 - (WINDOW - SINKS), (WINDOW - SINKS) * sizeof *kept);
        gyre_context *own = NULL;
        assert_ok(gyre_context_create(&own, m, &options, &err));
        assert_ok(gyre_context_forward(own, kept, WINDOW, 1, fresh, &err));
        for (int i = 0; i < VOCAB; i++)
            assert_true(fabsf(fresh[i] - through[last * VOCAB + i]) <= 1e-5F * (1 + fabsf(fresh[i])));
        gyre_context_free(own);
    }
    gyre_context_free(x);
    gyre_model_free(m);
}

static void own_attention_reads_through_a_window(void **state) {
    (void)state;
    check_window(GYRE_KIND_NOPE, GYRE_LAYER_PART_CONTEXTUAL, GYRE_DTYPE_F32);
    check_window(GYRE_KIND_NOPE, GYRE_LAYER_PART_CONTEXTUAL, GYRE_DTYPE_Q8);
    check_window(GYRE_KIND_ALIBI, GYRE_LAYER_PART_ADAPTIVE, GYRE_DTYPE_F32);
    check_window(GYRE_KIND_KERPLE, GYRE_LAYER_PART_ADAPTIVE, GYRE_DTYPE_Q8);
}

/* A model whose layers have an attention of their own: what a context of it does not do, and dropping tokens, which it
 * does.  says: how errors begin. */
static void check_own_attention(gyre_kind kind, int64_t parts, const char *says) {
    static float logits[TOKENS * VOCAB], whole[TOKENS * VOCAB], weights[TOKENS];
    int32_t tokens[TOKENS];
    gyre_model_config c = tiny(kind);
    gyre_context *x = NULL;
    gyre_error err = {0, ""};
    char why[160];
    c.layer_parts = parts;
    gyre_model *m = naive_model(&c, 0.1);
    gyre_config p = m->config.position;
    if (kind == GYRE_KIND_NOPE) assert_int_equal(p.score.max_positions, TRAINED + 1);
    snprintf(why, sizeof why, "encoding: %s, and this one does not fit", says);
    p.query.temperature = GYRE_TEMPERATURE_LOG;
    refuses_context(m, &p, GYRE_DTYPE_F32, GYRE_EUNSUPPORTED, why);
    p = m->config.position;
    p.kind = GYRE_KIND_ROPE;
    refuses_context(m, &p, GYRE_DTYPE_F32, GYRE_EUNSUPPORTED, why);
    naive_draw_tokens(tokens, TOKENS);
    read_in(m, NULL, tokens, TOKENS, whole);
    const gyre_context_options options = {.size = sizeof options, .max_tokens = TOKENS};
    assert_ok(gyre_context_create(&x, m, &options, &err));
    assert_true(gyre_context_bytes(x) > 2 * 3 * TOKENS * 2 * 8 * 4);
    assert_int_equal(gyre_context_watch(x, 0, weights, &err), GYRE_EUNSUPPORTED);
    assert_ok(gyre_context_watch(x, 0, NULL, &err));
    for (int64_t kept = 20; kept >= 0; kept -= 20) {
        assert_ok(gyre_context_forward(x, tokens, 40, 0, NULL, &err));
        assert_ok(gyre_context_truncate(x, kept));
        assert_ok(gyre_context_forward(x, tokens + kept, TOKENS - kept, TOKENS - kept, logits + kept * VOCAB, &err));
        assert_memory_equal(logits + kept * VOCAB, whole + kept * VOCAB, sizeof(float) * (size_t)((TOKENS - kept) * VOCAB));
        gyre_context_reset(x);
    }
    gyre_context_free(x);
    gyre_model_free(m);
}

static void layers_with_an_attention_of_their_own(void **state) {
    (void)state;
    check_own_attention(GYRE_KIND_NOPE, GYRE_LAYER_PART_CONTEXTUAL, "the queries of the model count positions");
    check_own_attention(GYRE_KIND_KERPLE, GYRE_LAYER_PART_ADAPTIVE, "the layers of the model adapt biases");
}

/* Networks adapt the biases of the encoding that a context has: slopes divided by a fixed number, or by the length in use of
 * a read, are slopes of their own. */
static void adapts_the_biases_of_the_context(void **state) {
    (void)state;
    static float own[TOKENS * VOCAB], stretched[TOKENS * VOCAB], same[TOKENS * VOCAB];
    int32_t tokens[TOKENS];
    double slopes[4];
    gyre_model_config c = tiny(GYRE_KIND_ALIBI);
    c.layer_parts = GYRE_LAYER_PART_ADAPTIVE;
    gyre_model *m = naive_model(&c, 0.1);
    naive_draw_tokens(tokens, TOKENS);
    read_in(m, NULL, tokens, TOKENS, own);
    for (int i = 0; i < 2; i++) {
        const double factor = i ? (double)TOKENS / TRAINED : 2;
        gyre_config p = m->config.position;
        for (int h = 0; h < 4; h++)
            slopes[h] = pow(2, -2.0 * (double)(h + 1)) / factor;
        p.score.slopes = slopes;
        gyre_encoding *e = test_encoding(&p);
        read_in(m, e, tokens, TOKENS, same);
        gyre_encoding_free(e);
        p.score.slopes = NULL;
        p.score.slope_scaling = GYRE_SLOPE_SCALING_LINEAR;
        p.score.slope_factor = i ? 0 : factor;
        p.length_policy = i ? GYRE_LENGTH_POLICY_PREFIX : GYRE_LENGTH_POLICY_DECLARED;
        e = test_encoding(&p);
        read_in(m, e, tokens, TOKENS, stretched);
        check_same(stretched, same, 1e-6, "stretched slopes");
        double most = 0;
        for (int64_t k = 0; k < TOKENS * VOCAB; k++)
            most = fmax(most, fabs((double)stretched[k] - (double)own[k]));
        assert_true(most > 1e-3 * largest(own, TOKENS * VOCAB));
        gyre_encoding_free(e);
    }
    gyre_model_free(m);
}

/* After tokens are dropped, gates and what a part keeps go on from those that are left. */
static void check_cut(const gyre_model_config *c) {
    static float logits[TOKENS * VOCAB], whole[TOKENS * VOCAB];
    int32_t tokens[TOKENS], other[9];
    gyre_context *x = NULL;
    gyre_error err = {0, ""};
    gyre_model *m = naive_model(c, 0.1);
    const gyre_context_options options = {.size = sizeof options, .max_tokens = TOKENS};
    naive_draw_tokens(tokens, TOKENS);
    read_in(m, NULL, tokens, TOKENS, whole);
    for (int i = 0; i < 9; i++)
        other[i] = (tokens[i + 20] + 1) % VOCAB;
    assert_ok(gyre_context_create(&x, m, &options, &err));
    for (int64_t kept = 20; kept >= 0; kept -= 20) {
        assert_ok(gyre_context_forward(x, tokens, 20, 20, logits, &err));
        assert_ok(gyre_context_forward(x, other, 9, 9, logits + 20 * VOCAB, &err));
        other[3] = VOCAB;
        assert_int_equal(gyre_context_forward(x, other, 9, 9, logits, &err), GYRE_EINVAL);
        other[3] = 0;
        assert_ok(gyre_context_truncate(x, kept));
        assert_ok(gyre_context_forward(x, tokens + kept, TOKENS - kept, TOKENS - kept, logits + kept * VOCAB, &err));
        check_same(logits, whole, 1e-5, "after a cut");
        gyre_context_reset(x);
    }
    gyre_context_free(x);
    gyre_model_free(m);
}

static void goes_on_after_a_cut(void **state) {
    (void)state;
    gyre_model_config c = tiny(GYRE_KIND_NOPE);
    c.layer_parts = GYRE_LAYER_PART_FORGET_GATES;
    check_cut(&c);
    for (int i = 0; i < NAIVE_PARTS; i++) {
        naive_part_config(&naive_parts[i], 1, &c);
        check_cut(&c);
    }
}

static void every_method(void **state) {
    (void)state;
    static const double factors[4] = {1, 1.5, 2.5, 4};
    for (int scaling = GYRE_SCALING_NONE; scaling <= GYRE_SCALING_PROPORTIONAL; scaling++)
        for (int layout = GYRE_LAYOUT_HALF; layout <= GYRE_LAYOUT_INTERLEAVED; layout++) {
            gyre_model_config c = tiny(GYRE_KIND_ROPE);
            struct gyre_rope_config *r = &c.position.rope;
            r->layout = (gyre_layout)layout;
            gyre_model *m = naive_model(&c, 0.1);
            gyre_config p = m->config.position;
            p.rope.scaling = (gyre_scaling)scaling;
            p.context_length = TOKENS;
            p.rope.table_positions =
                layout == GYRE_LAYOUT_HALF ? TOKENS / 2 : 0; /* with cached angles and with computed ones */
            p.rope.factor = scaling == GYRE_SCALING_NONE ? 0 : 2.5;
            p.rope.proportion = scaling == GYRE_SCALING_PROPORTIONAL ? 0.5 : 0;
            if (scaling == GYRE_SCALING_LONGROPE) p.rope.short_factor = p.rope.long_factor = factors;
            gyre_encoding *e = test_encoding(&p);
            check_encoding(m, e, TOKENS, "scaling");
            gyre_encoding_free(e);
            gyre_model_free(m);
        }
}

/* Pairs beyond a window rotate by other angles, which no rotation of the keys alone can do. */
static void far_rotations(void **state) {
    (void)state;
    const gyre_model_config c = tiny(GYRE_KIND_ROPE);
    gyre_model *m = naive_model(&c, 0.1);
    gyre_config p = m->config.position;
    gyre_encoding *e = NULL;
    p.rope.far = GYRE_FAR_CLAMPED;
    assert_int_equal(gyre_encoding_create(&e, &p, NULL, NULL), GYRE_EINVAL); /* without a window */
    for (int far = GYRE_FAR_CLAMPED; far <= GYRE_FAR_CHUNKED_PAPER; far++) {
        const int chunked = far >= GYRE_FAR_CHUNKED;
        p.rope.far = (gyre_far)far;
        p.rope.far_window = chunked ? 0 : 20;
        p.rope.chunk = (struct gyre_chunk_config){chunked ? 30 : 0, chunked ? 11 : 0, 0};
        p.rope.far_factor = far == GYRE_FAR_LEAKY ? 2.5 : far == GYRE_FAR_GROUPED ? 3 : 0;
        e = test_encoding(&p);
        check_encoding(m, e, 0, "far turns");
        gyre_encoding_free(e);
    }
    p = m->config.position;
    p.rope.scaling = GYRE_SCALING_NTK_MIXED;
    p.rope.factor = 4;
    e = test_encoding(&p);
    check_encoding(m, e, 0, "NTK-mixed");
    gyre_encoding_free(e);
    gyre_model_free(m);
}

/* Computing only the last rows gives the same numbers; tokens before them may skip work. */
static void last_rows(void **state) {
    (void)state;
    const gyre_model_config c = tiny(GYRE_KIND_ROPE);
    gyre_model *m = naive_model(&c, 0.1);
    static float all[600 * VOCAB], some[600 * VOCAB];
    static int32_t tokens[600];
    naive_draw_tokens(tokens, 600);
    gyre_context *x = NULL;
    gyre_error err;
    assert_ok(
        gyre_context_create(&x, m, &(gyre_context_options){.size = sizeof(gyre_context_options), .max_tokens = 600}, &err));
    assert_ok(gyre_context_forward(x, tokens, 600, 600, all, &err));
    for (int64_t rows = 0; rows <= 600; rows += 150) {
        gyre_context_reset(x);
        assert_ok(gyre_context_forward(x, tokens, 600, rows, some, &err));
        for (int64_t i = 0; i < rows * VOCAB; i++)
            test_close((double)some[i], (double)all[(600 - rows) * VOCAB + i], 2e-5, "last rows");
    }
    gyre_context_free(x);
    gyre_model_free(m);
}

/* Another encoding uses the model's tables if their shapes agree. */
static void other_encodings(void **state) {
    (void)state;
    gyre_model_config c = tiny(GYRE_KIND_KERPLE);
    gyre_model *m = naive_model(&c, 0.1);
    gyre_config p = m->config.position;
    p.score.decay = GYRE_DECAY_POWER;
    gyre_encoding *e = test_encoding(&p);
    check_encoding(m, e, 0, "another decay");
    gyre_encoding_free(e);
    p = m->config.position;
    p.kind = GYRE_KIND_ROPE;
    e = test_encoding(&p);
    check_encoding(m, e, 0, "no table where the model has one");
    gyre_encoding_free(e);
    gyre_model_free(m);
    c = tiny(GYRE_KIND_DEBERTA);
    c.position.score.max_distance = 16;
    m = naive_model(&c, 0.1);
    p = m->config.position;
    p.score.position_buckets = 16;
    p.score.max_distance = 48;
    e = test_encoding(&p);
    check_encoding(m, e, 0, "another map to the same rows");
    gyre_encoding_free(e);
    gyre_model_free(m);
}

static void refuses(const gyre_model *m, const gyre_config *p, const char *why) {
    gyre_context *x = NULL;
    gyre_error err = {0};
    gyre_encoding *e = test_encoding(p);
    assert_int_equal(
        gyre_context_create(
            &x, m, &(gyre_context_options){.size = sizeof(gyre_context_options), .encoding = e, .max_tokens = TOKENS}, &err),
        GYRE_EINVAL);
    if (!strstr(err.text, why)) fail_msg("\"%s\", not \"%s\"", err.text, why);
    assert_null(x);
    gyre_encoding_free(e);
}

static void refuses_tables_that_do_not_fit(void **state) {
    (void)state;
    gyre_model_config c = tiny(GYRE_KIND_SHAW);
    c.position.score.max_distance = 4;
    gyre_model *m = naive_model(&c, 0.1);
    gyre_config p = m->config.position;
    p.score.max_distance = 5;
    refuses(m, &p, "the table of shaw (query) has 1 x 11 x 8 numbers where the model's has 1 x 9 x 8");
    p = m->config.position;
    p.kind = GYRE_KIND_T5;
    p.score.terms = 0;
    p.score.buckets = 8;
    p.score.max_distance = 16;
    refuses(m, &p, "t5 needs a table (bias) that the model, trained with shaw, does not have");
    p.kind = GYRE_KIND_LEARNED;
    p.input.positions = 2 * TOKENS;
    refuses(m, &p, "learned needs a table (input) that the model");
    gyre_model_free(m);
}

/* A table trained for few positions at far larger ones, and the trained scale of a sinusoid. */
static void extended_inputs(void **state) {
    (void)state;
    gyre_model_config c = tiny(GYRE_KIND_LEARNED);
    c.position.input.positions = 16;
    gyre_model *m = naive_model(&c, 0.1);
    gyre_config p = m->config.position;
    p.input.resized_length = TOKENS;
    gyre_encoding *e = test_encoding(&p);
    int64_t shape[4];
    check_encoding(m, e, 0, "stretched");
    gyre_encoding_free(e);
    p.input.hierarchy = 0.4;
    e = test_encoding(&p);
    check_encoding(m, e, 0, "hierarchy");
    gyre_encoding_free(e);
    gyre_model_free(m);
    c = tiny(GYRE_KIND_SINUSOIDAL);
    c.position.input.trained_scale = 1;
    m = naive_model(&c, 0.1);
    assert_ok(gyre_encoding_table_shape(m->encoding, GYRE_TABLE_INPUT, shape));
    assert_int_equal(shape[0], 1);
    check_encoding(m, m->encoding, 0, "trained scale");
    gyre_model_free(m);
}

/* A table that ends reports its limit. */
static void positions_beyond_tables(void **state) {
    (void)state;
    static const gyre_kind kinds[] = {GYRE_KIND_LEARNED, GYRE_KIND_BERT};
    for (int i = 0; i < 2; i++) {
        gyre_model_config c = tiny(kinds[i]);
        c.position.input.positions = c.position.score.max_positions = 6;
        gyre_model *m = naive_model(&c, 0.1);
        gyre_context *x = NULL;
        gyre_error err;
        char why[64];
        float logits[VOCAB];
        const int32_t tokens[7] = {1, 2, 3, 4, 5, 6, 7};
        snprintf(why, sizeof why, "position 6: the encoding (%s) ends before it", gyre_kind_name(kinds[i]));
        assert_ok(gyre_context_create(&x, m, &(gyre_context_options){.size = sizeof(gyre_context_options), .max_tokens = 7},
                                      &err));
        assert_int_equal(gyre_context_forward(x, tokens, 7, 1, logits, &err), GYRE_ERANGE);
        assert_non_null(strstr(err.text, why));
        assert_ok(gyre_context_forward(x, tokens, 6, 1, logits, &err));
        assert_int_equal(gyre_context_forward(x, tokens, 1, 1, logits, &err), GYRE_ERANGE);
        assert_int_equal(gyre_context_tokens(x), 6);
        gyre_context_free(x);
        gyre_model_free(m);
    }
}

static void errors(void **state) {
    (void)state;
    const gyre_model_config c = tiny(GYRE_KIND_LEARNED);
    gyre_model *m = naive_model(&c, 0.1);
    gyre_context *x = NULL;
    gyre_error err;
    float logits[VOCAB];
    int32_t tokens[3] = {1, 2, VOCAB};
    assert_int_equal(
        gyre_context_create(&x, m, &(gyre_context_options){.size = sizeof(gyre_context_options), .max_tokens = 0}, &err),
        GYRE_EINVAL);
    assert_null(x);
    assert_ok(gyre_context_create(
        &x, m, &(gyre_context_options){.size = sizeof(gyre_context_options), .max_tokens = 4 * TOKENS}, &err));
    assert_int_equal(gyre_context_forward(x, tokens, 3, 1, logits, &err), GYRE_EINVAL);
    assert_non_null(strstr(err.text, "token 2: 48"));
    assert_int_equal(gyre_context_forward(x, tokens, 2, 3, logits, &err), GYRE_EINVAL);
    assert_int_equal(gyre_context_tokens(x), 0);
    tokens[2] = 0;
    for (int i = 0; i < 2 * TOKENS; i++)
        assert_ok(gyre_context_forward(x, tokens, 1, 0, NULL, &err));
    assert_int_equal(gyre_context_forward(x, tokens, 1, 1, logits, &err), GYRE_ERANGE); /* the learned table ends */
    assert_int_equal(gyre_context_tokens(x), 2 * TOKENS);
    gyre_context_free(x);
    assert_ok(
        gyre_context_create(&x, m, &(gyre_context_options){.size = sizeof(gyre_context_options), .max_tokens = 2}, &err));
    assert_int_equal(gyre_context_forward(x, tokens, 3, 1, logits, &err), GYRE_EINVAL);
    assert_non_null(strstr(err.text, "no room"));
    gyre_context_free(x);
    gyre_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_encoding),
                                       cmocka_unit_test(experiments),

                                       cmocka_unit_test(goes_on_after_a_cut),
                                       cmocka_unit_test(parts_need_a_plain_rotation),
                                       cmocka_unit_test(turns_are_the_models),
                                       cmocka_unit_test(parts_have_the_same_bits_however_cut),
                                       cmocka_unit_test(own_attention_reads_through_a_window),
                                       cmocka_unit_test(layers_with_an_attention_of_their_own),
                                       cmocka_unit_test(adapts_the_biases_of_the_context),
                                       cmocka_unit_test(every_method),
                                       cmocka_unit_test(far_rotations),
                                       cmocka_unit_test(last_rows),
                                       cmocka_unit_test(other_encodings),
                                       cmocka_unit_test(refuses_tables_that_do_not_fit),
                                       cmocka_unit_test(extended_inputs),
                                       cmocka_unit_test(positions_beyond_tables),
                                       cmocka_unit_test(errors)};
    return cmocka_run_group_tests(tests, make_empty_folder, remove_folder);
}
