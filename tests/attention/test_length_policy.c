/* test_length_policy.c: frequencies that depend on the current length, under every length policy. */
#include "attention_setup.h"
#include "gyre/gyre_cache.h"
#include "gyre/gyre_fields.h"
#include "model/model.h"
#include "naive_chunks.h"
#include "naive_contextual.h"
#include "naive_decoder.h"
#include "support.h"

#include <stdio.h>

enum { TOKENS = 80, TRAINED = 32, VOCAB = NAIVE_VOCAB, HEAD = NAIVE_HEAD_DIM, PAIRS = HEAD / 2 };

/* -- the formulas -- */
static const double near_factors[PAIRS] = {1, 1.1, 1.3, 1.5}, far_factors[PAIRS] = {1, 1.7, 2.6, 4};

static double theta(const gyre_config *p, int i) {
    return pow(p->rope.base, -2.0 * i / HEAD);
}

static double stretch(int64_t length) {
    return fmax(1, (double)length / TRAINED);
}

static void dynamic_ntk(const gyre_config *p, int64_t length, double *inv_freq, double *attention) {
    const double s = p->rope.factor * stretch(length) - (p->rope.factor - 1);
    const double base = p->rope.base * pow(s, (double)HEAD / (HEAD - 2));
    *attention = 1;
    for (int i = 0; i < PAIRS; i++)
        inv_freq[i] = pow(base, -2.0 * i / HEAD);
}

/* The channel that makes this many revolutions over the trained length. */
static double place_of(const gyre_config *p, double revolutions) {
    return HEAD * log(TRAINED / (revolutions * 2 * 3.14159265358979323846)) / (2 * log(p->rope.base));
}

static void dynamic_yarn(const gyre_config *p, int64_t length, double *inv_freq, double *attention) {
    const double s = stretch(length), low = fmax(0, floor(place_of(p, 4))), high = fmin(HEAD - 1, ceil(place_of(p, 0.5)));
    *attention = 0.1 * log(s) + 1;
    for (int i = 0; i < PAIRS; i++) {
        const double ramp = fmin(1, fmax(0, (i - low) / (high - low)));
        inv_freq[i] = theta(p, i) * (1 - ramp) + theta(p, i) / s * ramp;
    }
}

static void longrope(const gyre_config *p, int64_t length, double *inv_freq, double *attention) {
    *attention = sqrt(1 + log(p->rope.factor) / log(TRAINED));
    for (int i = 0; i < PAIRS; i++)
        inv_freq[i] = theta(p, i) / (length > TRAINED ? far_factors[i] : near_factors[i]);
}

static void unscaled(const gyre_config *p, int64_t length, double *inv_freq, double *attention) {
    (void)length;
    *attention = 1;
    for (int i = 0; i < PAIRS; i++)
        inv_freq[i] = theta(p, i);
}

/* Dual Chunk Attention of vLLM. */
static void sharpened(const gyre_config *p, int64_t length, double *inv_freq, double *attention) {
    unscaled(p, length, inv_freq, attention);
    *attention = 0.1 * log(stretch(length)) + 1;
}

/* -- what is tried -- */
typedef struct way {
    const char *name;
    gyre_scaling scaling;
    double factor;
    gyre_temperature temperature;
    gyre_layout layout;
    void (*frequencies)(const gyre_config *p, int64_t length, double *inv_freq, double *attention);
} way;
static const way ways[] = {
    {"dynamic NTK", GYRE_SCALING_DYNAMIC_NTK, 1, GYRE_TEMPERATURE_NONE, GYRE_LAYOUT_HALF, dynamic_ntk},
    {"dynamic NTK by 2.5", GYRE_SCALING_DYNAMIC_NTK, 2.5, GYRE_TEMPERATURE_NONE, GYRE_LAYOUT_INTERLEAVED, dynamic_ntk},
    {"dynamic YaRN", GYRE_SCALING_DYNAMIC_YARN, 1, GYRE_TEMPERATURE_NONE, GYRE_LAYOUT_HALF, dynamic_yarn},
    {"LongRoPE", GYRE_SCALING_LONGROPE, 2.5, GYRE_TEMPERATURE_NONE, GYRE_LAYOUT_HALF, longrope},
    {"dual chunks", GYRE_SCALING_NONE, 1, GYRE_TEMPERATURE_NONE, GYRE_LAYOUT_HALF, sharpened},
    {"log-n", GYRE_SCALING_NONE, 1, GYRE_TEMPERATURE_LOG, GYRE_LAYOUT_HALF, unscaled},
    {"dynamic YaRN, log-n", GYRE_SCALING_DYNAMIC_YARN, 1, GYRE_TEMPERATURE_LOG, GYRE_LAYOUT_INTERLEAVED, dynamic_yarn}};
enum { WAYS = sizeof ways / sizeof *ways };

static gyre_config config_of(const way *w, gyre_length_policy policy, int64_t block) {
    gyre_config p = test_rope_config(HEAD, w->layout);
    p.heads = 4;
    p.trained_length = TRAINED;
    p.rope.base = 100;
    p.rope.scaling = w->scaling;
    p.rope.factor = w->factor;
    p.rope.beta_fast = 4;
    p.rope.beta_slow = 0.5;
    p.context_length = TOKENS;
    p.length_policy = policy;
    p.length_block = block;
    if (w->scaling == GYRE_SCALING_LONGROPE) {
        p.rope.short_factor = near_factors;
        p.rope.long_factor = far_factors;
    }
    p.query.temperature = w->temperature;
    if (w->frequencies == sharpened) {
        p.rope.far = GYRE_FAR_CHUNKED;
        p.rope.chunk = (struct gyre_chunk_config){24, 8, TRAINED};
    }
    gyre_config_clear_unused(&p);
    return p;
}

static gyre_model *model_of(const gyre_config *position) {
    gyre_model_config c = naive_model_config();
    c.position = *position;
    return naive_model(&c, 0.15);
}

/* -- lengths -- */
/* Rounds up to a multiple of step, but not beyond the last. */
static int64_t stepwise(const naive_lengths *lengths, int64_t m) {
    const int64_t up = (m / lengths->step + 1) * lengths->step;
    return lengths->last && up > lengths->last ? lengths->last : up;
}

/* Logits of all tokens, read in pieces. */
static void read_in(const gyre_model *m, int64_t piece, float *logits) {
    int32_t tokens[TOKENS];
    gyre_context *x = NULL;
    gyre_error err = {0, ""};
    naive_draw_tokens(tokens, TOKENS);
    assert_ok(gyre_context_create(&x, m, &(gyre_context_options){.size = sizeof(gyre_context_options), .max_tokens = TOKENS},
                                  &err));
    for (int64_t from = 0; from < TOKENS; from += piece) {
        const int64_t n = TOKENS - from < piece ? TOKENS - from : piece;
        if (gyre_context_forward(x, tokens + from, n, n, logits + from * VOCAB, &err)) fail_msg("%s", err.text);
    }
    gyre_context_free(x);
}

static void compute(const gyre_model *m, const naive_lengths *lengths, double *logits) {
    int32_t tokens[TOKENS];
    naive_draw_tokens(tokens, TOKENS);
    double *w = naive_weights(m);
    const naive d = {m, gyre_model_get_encoding(m), w, TOKENS, 0, lengths, NULL};
    naive_logits(&d, tokens, logits);
    free(w);
}

static double apart(const float *a, const double *b, int64_t from, int64_t to) {
    double most = 0, scale = 0;
    for (int64_t i = 0; i < TOKENS * VOCAB; i++)
        scale = fmax(scale, fabs(b[i]));
    for (int64_t i = from * VOCAB; i < to * VOCAB; i++)
        most = fmax(most, fabs((double)a[i] - b[i]));
    return most / scale;
}

static void agrees(const gyre_model *m, int64_t piece, const naive_lengths *lengths, const char *what) {
    static float logits[TOKENS * VOCAB];
    static double exact[TOKENS * VOCAB];
    read_in(m, piece, logits);
    compute(m, lengths, exact);
    if (!(apart(logits, exact, 0, TOKENS) <= 1e-5))
        fail_msg("%s in pieces of %lld: %g apart", what, (long long)piece, apart(logits, exact, 0, TOKENS));
}

/* Pieces of any size give what one read gives. */
static void same_however_read(const gyre_model *m, const char *what) {
    static float whole[TOKENS * VOCAB], pieces[TOKENS * VOCAB];
    static double exact[TOKENS * VOCAB];
    read_in(m, TOKENS, whole);
    for (int64_t i = 0; i < TOKENS * VOCAB; i++)
        exact[i] = (double)whole[i];
    for (int64_t piece = 1; piece < TOKENS; piece += 13) {
        read_in(m, piece, pieces);
        if (!(apart(pieces, exact, 0, TOKENS) <= 1e-5))
            fail_msg("%s: pieces of %lld and one read are %g apart", what, (long long)piece,
                     apart(pieces, exact, 0, TOKENS));
    }
}

/* -- tests -- */
static const int64_t pieces[] = {TOKENS, 1, 7};

/* One length for all: in any pieces, the result is that of the whole prefix at that length. */
static void declared_is_one_length(void **state) {
    (void)state;
    for (int w = 0; w < WAYS; w++) {
        const gyre_config p = config_of(&ways[w], GYRE_LENGTH_POLICY_DECLARED, 0);
        const naive_lengths all = {stepwise, ways[w].frequencies, TOKENS, 0};
        gyre_model *m = model_of(&p);
        for (int i = 0; i < 3; i++)
            agrees(m, pieces[i], &all, ways[w].name);
        same_however_read(m, ways[w].name);
        gyre_model_free(m);
    }
}

/* Each token uses the length up to the end of its block, whatever follows and in any pieces. */
static void causal_is_the_same_through_all_layers(void **state) {
    (void)state;
    static const int64_t blocks[] = {1, 6, 0};
    for (int w = 0; w < WAYS; w++)
        for (int b = 0; b < 3; b++) {
            const gyre_config p = config_of(&ways[w], GYRE_LENGTH_POLICY_CAUSAL, blocks[b]);
            const naive_lengths all = {stepwise, ways[w].frequencies, blocks[b] ? blocks[b] : 64, 0};
            gyre_model *m = model_of(&p);
            for (int i = 0; i < 3; i++)
                agrees(m, pieces[i], &all, ways[w].name);
            same_however_read(m, ways[w].name);
            gyre_model_free(m);
        }
}

/* The results of a prefix do not change with what follows it. */
static void causal_has_no_future(void **state) {
    (void)state;
    static float shorter[VOCAB], longer[TOKENS * VOCAB];
    int32_t tokens[TOKENS];
    gyre_context *x = NULL;
    naive_draw_tokens(tokens, TOKENS);
    const gyre_config p = config_of(&ways[2], GYRE_LENGTH_POLICY_CAUSAL, 6);
    gyre_model *m = model_of(&p);
    read_in(m, TOKENS, longer);
    assert_ok(gyre_context_create(&x, m, &(gyre_context_options){.size = sizeof(gyre_context_options), .max_tokens = TOKENS},
                                  NULL));
    for (int64_t n = TRAINED - 8; n <= TOKENS; n++) {
        gyre_context_reset(x);
        assert_ok(gyre_context_forward(x, tokens, n, 1, shorter, NULL));
        for (int64_t i = 0; i < VOCAB; i++)
            test_close((double)shorter[i], (double)longer[(n - 1) * VOCAB + i], 3e-5L, "a prefix alone");
    }
    gyre_context_free(x);
    gyre_model_free(m);
}

/* A read uses the length up to its end, so the pieces matter, as in transformers. The test prints how much the results
 * move. */
static void prefix_keeps_its_initial_length(void **state) {
    (void)state;
    static float by_token[TOKENS * VOCAB];
    static double whole[TOKENS * VOCAB];
    for (int w = 0; w < WAYS; w++) {
        const gyre_config p = config_of(&ways[w], GYRE_LENGTH_POLICY_PREFIX, 0);
        gyre_model *m = model_of(&p);
        for (int i = 0; i < 3; i++) {
            const naive_lengths all = {stepwise, ways[w].frequencies, pieces[i], TOKENS};
            agrees(m, pieces[i], &all, ways[w].name);
        }
        const naive_lengths once = {stepwise, ways[w].frequencies, TOKENS, TOKENS};
        read_in(m, 1, by_token);
        compute(m, &once, whole);
        const double within = apart(by_token, whole, 0, TRAINED), past = apart(by_token, whole, TRAINED, TOKENS);
        print_message("%s, prefix: token by token and all at once are %.2g of the largest logit apart up to %d, %.2g past\n",
                      ways[w].name, within, TRAINED, past);
        if (ways[w].frequencies == unscaled)
            assert_true(within <= 1e-5 && past <= 1e-5); /* nothing depends on the length */
        else
            assert_true(past > 1e-3);
        gyre_model_free(m);
    }
}

/* -- one attention -- */
enum { HEADS = 4, KEY_HEADS = 2 };
typedef struct inputs {
    float q[TOKENS * HEADS * HEAD], k[TOKENS * KEY_HEADS * HEAD], v[TOKENS * KEY_HEADS * HEAD];
} inputs;

static void rotate_head(const way *w, const gyre_config *p, int64_t length, int64_t position, const float *x, double *out) {
    double f[PAIRS], a;
    w->frequencies(p, length, f, &a);
    for (int i = 0; i < PAIRS; i++) {
        const int one = w->layout == GYRE_LAYOUT_HALF ? i : 2 * i,
                  two = w->layout == GYRE_LAYOUT_HALF ? i + PAIRS : 2 * i + 1;
        const double c = a * cos((double)position * f[i]), s = a * sin((double)position * f[i]);
        out[one] = (double)x[one] * c - (double)x[two] * s;
        out[two] = (double)x[one] * s + (double)x[two] * c;
    }
}

/* The query at m of one head over the prefix up to it, all at one length. */
static void attend(const way *w, const gyre_config *p, const inputs *in, int64_t length, int64_t m, int64_t h, double *out) {
    double q[HEAD], k[HEAD], s[TOKENS], sum = 0;
    const int64_t kh = h * KEY_HEADS / HEADS;
    for (int64_t n = 0; n <= m; n++) {
        const int64_t at = naive_is_chunked(p) ? n + (int64_t)naive_chunk_distance(p, m, n) : m;
        rotate_head(w, p, length, at, in->q + (m * HEADS + h) * HEAD, q);
        for (int i = 0; i < HEAD && w->temperature; i++)
            q[i] *= fmax(1, log((double)(m + 1)) / log(TRAINED));
        rotate_head(w, p, length, n, in->k + (n * KEY_HEADS + kh) * HEAD, k);
        s[n] = exp(naive_dot(q, k, HEAD) / sqrt(HEAD));
        sum += s[n];
    }
    memset(out, 0, HEAD * sizeof *out);
    for (int64_t n = 0; n <= m; n++)
        for (int i = 0; i < HEAD; i++)
            out[i] += s[n] / sum * (double)in->v[(n * KEY_HEADS + kh) * HEAD + i];
}

/* Queries first .. n - 1 of the first n tokens in one call. */
static void call(const gyre_encoding *e, const inputs *in, int64_t first, int64_t n, float *out) {
    static _Alignas(64) char scratch[1 << 22];
    attention_setup args = GYRE_INIT(attention_setup);
    args.encoding = e;
    args.q = gyre_cdense(in->q + first * HEADS * HEAD, GYRE_DTYPE_F32, 1, n - first, HEADS, HEAD);
    args.k = gyre_cdense(in->k, GYRE_DTYPE_F32, 1, n, KEY_HEADS, HEAD);
    args.v = gyre_cdense(in->v, GYRE_DTYPE_F32, 1, n, KEY_HEADS, HEAD);
    args.q_pos.base = first;
    args.causal = GYRE_CAUSAL_BY_POSITION;
    args.out = gyre_dense(out, GYRE_DTYPE_F32, 1, n - first, HEADS, HEAD);
    const size_t bytes = attention_scratch(&args, 0, NULL);
    assert_in_range(bytes, 1, sizeof scratch);
    assert_ok(run_attention(&args, (gyre_scratch){scratch, bytes}, NULL, NULL));
}

static inputs draw_inputs(void) {
    inputs in;
    test_random r = {77};
    for (size_t i = 0; i < sizeof in.q / sizeof *in.q; i++)
        in.q[i] = (float)(2 * test_uniform(&r) - 1);
    for (size_t i = 0; i < sizeof in.k / sizeof *in.k; i++) {
        in.k[i] = (float)(2 * test_uniform(&r) - 1);
        in.v[i] = (float)(2 * test_uniform(&r) - 1);
    }
    return in;
}

/* Given the same inputs, a query after the prefix gives the same row as the whole prefix at that length. */
static void prefix_is_one_attention_at_the_length(void **state) {
    (void)state;
    static float last[HEADS * HEAD], whole[TOKENS * HEADS * HEAD];
    const inputs in = draw_inputs();
    double want[HEAD];
    for (int w = 0; w < WAYS; w++) {
        const gyre_config p = config_of(&ways[w], GYRE_LENGTH_POLICY_PREFIX, 0);
        gyre_encoding *e = test_encoding(&p);
        for (int64_t n = 1; n <= TOKENS; n++) {
            call(e, &in, n - 1, n, last);
            call(e, &in, 0, n, whole);
            for (int64_t h = 0; h < HEADS; h++) {
                attend(&ways[w], gyre_encoding_get_config(e), &in, n, n - 1, h, want);
                for (int i = 0; i < HEAD; i++) {
                    test_close((double)last[h * HEAD + i], want[i], 2e-6L, ways[w].name);
                    test_close((double)whole[((n - 1) * HEADS + h) * HEAD + i], want[i], 2e-6L, ways[w].name);
                }
                attend(&ways[w], gyre_encoding_get_config(e), &in, n, n / 2, h, want);
                for (int i = 0; i < HEAD; i++)
                    test_close((double)whole[(n / 2 * HEADS + h) * HEAD + i], want[i], 2e-6L, ways[w].name);
            }
        }
        gyre_encoding_free(e);
    }
}

/* The last token of those in the cache, its length by the policy alone. */
static void call_cache(const gyre_cache *cache, const inputs *in, float *out) {
    static _Alignas(64) char scratch[1 << 22];
    const int64_t only = 0, m = gyre_cache_tokens(cache, 0) - 1;
    attention_setup args = GYRE_INIT(attention_setup);
    args.q = gyre_cdense(in->q + m * HEADS * HEAD, GYRE_DTYPE_F32, 1, 1, HEADS, HEAD);
    args.q_pos.base = m;
    args.causal = GYRE_CAUSAL_BY_POSITION;
    args.out = gyre_dense(out, GYRE_DTYPE_F32, 1, 1, HEADS, HEAD);
    const size_t bytes = cache_attention_scratch(cache, &only, &args, NULL);
    assert_in_range(bytes, 1, sizeof scratch);
    assert_in_range(cache_attention_scratch(cache, NULL, &args, NULL), bytes, sizeof scratch);
    assert_ok(run_cache_attention(cache, &only, &args, (gyre_scratch){scratch, bytes}, NULL, NULL));
}

/* An empty cache. length: of keys stored rotated, 0 = raw. */
static gyre_cache *cache_of(const gyre_encoding *e, int64_t length) {
    gyre_cache_config config = GYRE_INIT(gyre_cache_config);
    gyre_cache *cache = NULL;
    config.encoding = e;
    config.keys = length ? GYRE_CACHE_KEYS_ROTATED : GYRE_CACHE_KEYS_RAW;
    config.context_length = length;
    config.heads = KEY_HEADS;
    config.head_dim = HEAD;
    config.max_tokens = TOKENS;
    config.page_tokens = 16;
    assert_ok(gyre_cache_create(&cache, &config, NULL, NULL));
    return cache;
}

/* Appends token m and queries it at the length that is then current. */
static void next_token(gyre_cache *cache, const way *w, const inputs *in, int64_t m, int64_t length) {
    float got[HEADS * HEAD];
    double want[HEAD];
    const gyre_positions at = {.base = m};
    const gyre_cview k = gyre_cdense(in->k + m * KEY_HEADS * HEAD, GYRE_DTYPE_F32, 1, 1, KEY_HEADS, HEAD);
    const gyre_cview v = gyre_cdense(in->v + m * KEY_HEADS * HEAD, GYRE_DTYPE_F32, 1, 1, KEY_HEADS, HEAD);
    assert_ok(gyre_cache_append(cache, GYRE_ARGS(gyre_cache_append_args, .k = k, .v = v, .positions = &at), NULL, NULL));
    call_cache(cache, in, got);
    for (int64_t h = 0; h < HEADS; h++) {
        attend(w, gyre_encoding_get_config(gyre_cache_get_config(cache)->encoding), in, length, m, h, want);
        for (int c = 0; c < HEAD; c++)
            test_close((double)got[h * HEAD + c], want[c], 2e-6L, w->name);
    }
}

/* Keys appended one by one while the length grows match the whole prefix at the current length. */
static void caches_rotate_keys_for_the_current_length(void **state) {
    (void)state;
    static const gyre_length_policy policies[] = {GYRE_LENGTH_POLICY_DECLARED, GYRE_LENGTH_POLICY_CAUSAL,
                                                  GYRE_LENGTH_POLICY_PREFIX};
    const inputs in = draw_inputs();
    for (int w = 0; w < WAYS; w++)
        for (int i = 0; i < 3; i++) {
            const gyre_config p = config_of(&ways[w], policies[i], 6);
            gyre_encoding *e = test_encoding(&p);
            gyre_cache *cache = cache_of(e, 0);
            for (int64_t m = 0; m < TOKENS; m++)
                next_token(cache, &ways[w], &in, m, i == 0 ? TOKENS : i == 1 ? (m / 6 + 1) * 6 : m + 1);
            gyre_cache_free(cache);
            gyre_encoding_free(e);
        }
}

/* Keys stored rotated have the frequencies and the factor of the cache's length, also at position 0. */
static void rotated_keys_use_the_length_of_their_cache(void **state) {
    (void)state;
    const inputs in = draw_inputs();
    for (int w = 0; w < WAYS; w++)
        for (int64_t own = TRAINED; own <= TOKENS; own += TOKENS - TRAINED) {
            gyre_config p = config_of(&ways[w], GYRE_LENGTH_POLICY_DECLARED, 0);
            p.context_length = own;
            if (p.rope.far) continue; /* only raw keys can be kept */
            gyre_encoding *e = test_encoding(&p);
            for (int64_t length = TRAINED; length <= TOKENS; length += TOKENS - TRAINED) {
                gyre_cache *cache = cache_of(e, length);
                for (int64_t m = 0; m < TOKENS; m++)
                    next_token(cache, &ways[w], &in, m, length);
                gyre_cache_free(cache);
            }
            gyre_encoding_free(e);
        }
}

/* -- several sequences -- */
enum { SEQUENCES = 3, ALL = TOKENS + 20 + 50 };
static const int64_t starts[SEQUENCES + 1] = {0, TOKENS, TOKENS + 20, ALL};

static void check_last(const way *w, const gyre_encoding *e, const inputs *in, int64_t tokens, const float *got) {
    const gyre_config *p = gyre_encoding_get_config(e);
    const int64_t length = p->length_policy == GYRE_LENGTH_POLICY_PREFIX ? tokens : ((tokens - 1) / 6 + 1) * 6;
    double want[HEAD];
    for (int64_t h = 0; h < HEADS; h++) {
        attend(w, p, in, length, tokens - 1, h, want);
        for (int c = 0; c < HEAD; c++)
            test_close((double)got[h * HEAD + c], want[c], 2e-6L, w->name);
    }
}

/* Packed: each sequence is a number of first tokens.  lengths, of: context_lengths and that of q_pos. */
static void packed(const way *w, const gyre_encoding *e, const inputs *in, const int64_t *lengths, int64_t of) {
    static _Alignas(64) char scratch[1 << 22];
    static float q[ALL * HEADS * HEAD], k[ALL * KEY_HEADS * HEAD], v[ALL * KEY_HEADS * HEAD], out[ALL * HEADS * HEAD];
    attention_setup args = GYRE_INIT(attention_setup);
    for (int s = 0; s < SEQUENCES; s++) {
        const size_t tokens = (size_t)(starts[s + 1] - starts[s]);
        memcpy(q + starts[s] * HEADS * HEAD, in->q, tokens * HEADS * HEAD * sizeof *q);
        memcpy(k + starts[s] * KEY_HEADS * HEAD, in->k, tokens * KEY_HEADS * HEAD * sizeof *k);
        memcpy(v + starts[s] * KEY_HEADS * HEAD, in->v, tokens * KEY_HEADS * HEAD * sizeof *v);
    }
    args.encoding = e;
    args.q = gyre_cdense(q, GYRE_DTYPE_F32, 1, ALL, HEADS, HEAD);
    args.k = gyre_cdense(k, GYRE_DTYPE_F32, 1, ALL, KEY_HEADS, HEAD);
    args.v = gyre_cdense(v, GYRE_DTYPE_F32, 1, ALL, KEY_HEADS, HEAD);
    args.q_starts = args.k_starts = starts;
    args.sequences = SEQUENCES;
    args.context_lengths = lengths;
    args.q_pos.context_length = of;
    args.causal = GYRE_CAUSAL_BY_POSITION;
    args.out = gyre_dense(out, GYRE_DTYPE_F32, 1, ALL, HEADS, HEAD);
    assert_in_range(attention_scratch(&args, 0, NULL), 1, sizeof scratch);
    assert_ok(run_attention(&args, (gyre_scratch){scratch, sizeof scratch}, NULL, NULL));
    for (int s = 0; s < SEQUENCES; s++)
        check_last(w, e, in, starts[s + 1] - starts[s], out + (starts[s + 1] - 1) * HEADS * HEAD);
}

/* One more token for sequences of a cache of different lengths, in one batch. */
static void batched(const way *w, const gyre_encoding *e, const inputs *in) {
    static _Alignas(64) char scratch[1 << 22];
    float q[SEQUENCES * HEADS * HEAD], out[SEQUENCES * HEADS * HEAD];
    int64_t last[SEQUENCES], ids[SEQUENCES];
    gyre_cache_config config = {.size = sizeof config,
                                .encoding = e,
                                .heads = KEY_HEADS,
                                .head_dim = HEAD,
                                .sequences = SEQUENCES,
                                .max_tokens = 2 * ALL,
                                .page_tokens = 16};
    attention_setup args = GYRE_INIT(attention_setup);
    gyre_cache *cache = NULL;
    assert_ok(gyre_cache_create(&cache, &config, NULL, NULL));
    for (int s = 0; s < SEQUENCES; s++) {
        const int64_t tokens = starts[s + 1] - starts[s];
        const gyre_cview k = gyre_cdense(in->k, GYRE_DTYPE_F32, 1, tokens, KEY_HEADS, HEAD);
        const gyre_cview v = gyre_cdense(in->v, GYRE_DTYPE_F32, 1, tokens, KEY_HEADS, HEAD);
        assert_ok(gyre_cache_append(
            cache, GYRE_ARGS(gyre_cache_append_args, .sequence = s, .k = k, .v = v, .positions = &(gyre_positions){0}), NULL,
            NULL));
        ids[s] = s;
        last[s] = tokens - 1;
        memcpy(q + s * HEADS * HEAD, in->q + last[s] * HEADS * HEAD, HEADS * HEAD * sizeof *q);
    }
    args.q = gyre_cdense(q, GYRE_DTYPE_F32, SEQUENCES, 1, HEADS, HEAD);
    args.q_pos = (gyre_positions){.data = last, .dtype = GYRE_DTYPE_I64, .stride_batch = 1};
    args.causal = GYRE_CAUSAL_BY_POSITION;
    args.out = gyre_dense(out, GYRE_DTYPE_F32, SEQUENCES, 1, HEADS, HEAD);
    assert_in_range(cache_attention_scratch(cache, ids, &args, NULL), 1, sizeof scratch);
    assert_ok(run_cache_attention(cache, ids, &args, (gyre_scratch){scratch, sizeof scratch}, NULL, NULL));
    for (int s = 0; s < SEQUENCES; s++)
        check_last(w, e, in, last[s] + 1, out + s * HEADS * HEAD);
    gyre_cache_free(cache);
}

/* Never the longest of the batch. */
static void each_sequence_has_its_own_length(void **state) {
    (void)state;
    const inputs in = draw_inputs();
    for (int w = 0; w < WAYS; w++)
        for (int prefix = 0; prefix < 2; prefix++) {
            const gyre_config p = config_of(&ways[w], prefix ? GYRE_LENGTH_POLICY_PREFIX : GYRE_LENGTH_POLICY_CAUSAL, 6);
            gyre_encoding *e = test_encoding(&p);
            packed(&ways[w], e, &in, NULL, 0);
            batched(&ways[w], e, &in);
            gyre_encoding_free(e);
        }
}

/* context_lengths takes the place of the length in q_pos: where it has 0 the policy decides, not the other length. */
static void open_lengths_of_sequences_follow_the_policy(void **state) {
    (void)state;
    static const int64_t open[SEQUENCES] = {0, 0, 0};
    const inputs in = draw_inputs();
    for (int w = 0; w < WAYS; w++)
        for (int prefix = 0; prefix < 2; prefix++) {
            const gyre_config p = config_of(&ways[w], prefix ? GYRE_LENGTH_POLICY_PREFIX : GYRE_LENGTH_POLICY_CAUSAL, 6);
            gyre_encoding *e = test_encoding(&p);
            packed(&ways[w], e, &in, open, 10 * TOKENS);
            gyre_encoding_free(e);
        }
}

/* The current length follows from positions, so positions are checked first. Sanitizers would detect otherwise. */
static void positions_are_checked_first(void **state) {
    (void)state;
    enum { N = 4 };
    static const float x[N * HEAD];
    static const int64_t far[N] = {0, 1, 2, INT64_MAX};
    static _Alignas(64) unsigned char scratch[1 << 20];
    float out[N * HEAD];
    const struct {
        gyre_positions q, k;
        gyre_status want;
    } wrong[] = {{{far, GYRE_DTYPE_I64, 0, 0, 0, 1, 0, 0}, {NULL, GYRE_DTYPE_I64, 0, 0, 0, 0, 0, 0}, GYRE_ERANGE},
                 {{NULL, GYRE_DTYPE_I64, INT64_MAX, 0, 0, 0, 0, 0}, {NULL, GYRE_DTYPE_I64, 0, 0, 0, 0, 0, 0}, GYRE_ERANGE},
                 {{NULL, GYRE_DTYPE_I64, 0, 0, 0, 0, 0, 0}, {NULL, GYRE_DTYPE_I64, INT64_MAX, 0, 0, 0, 0, 0}, GYRE_ERANGE},
                 {{x, GYRE_DTYPE_F32, 0, 0, 0, N * HEAD, 0, 0}, {NULL, GYRE_DTYPE_I64, 0, 0, 0, 0, 0, 0}, GYRE_EDTYPE}};
    const int64_t first[1] = {1};
    for (int policy = GYRE_LENGTH_POLICY_DECLARED; policy <= GYRE_LENGTH_POLICY_PREFIX; policy++)
        for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
            gyre_config config = config_of(&ways[0], (gyre_length_policy)policy, 8);
            gyre_encoding *encoding = test_encoding(&config);
            attention_setup args = GYRE_INIT(attention_setup);
            args.encoding = encoding;
            args.q = args.k = args.v = gyre_cdense(x, GYRE_DTYPE_F32, 1, N, 1, HEAD);
            args.out = gyre_dense(out, GYRE_DTYPE_F32, 1, N, 1, HEAD);
            args.q_pos = wrong[i].q;
            args.k_pos = wrong[i].k;
            args.k_first = first;
            assert_int_equal(run_attention(&args, (gyre_scratch){scratch, sizeof scratch}, NULL, NULL), wrong[i].want);
            gyre_encoding_free(encoding);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(positions_are_checked_first),
                                       cmocka_unit_test(declared_is_one_length),
                                       cmocka_unit_test(causal_is_the_same_through_all_layers),
                                       cmocka_unit_test(causal_has_no_future),
                                       cmocka_unit_test(prefix_keeps_its_initial_length),
                                       cmocka_unit_test(prefix_is_one_attention_at_the_length),
                                       cmocka_unit_test(caches_rotate_keys_for_the_current_length),
                                       cmocka_unit_test(each_sequence_has_its_own_length),
                                       cmocka_unit_test(open_lengths_of_sequences_follow_the_policy),
                                       cmocka_unit_test(rotated_keys_use_the_length_of_their_cache)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
