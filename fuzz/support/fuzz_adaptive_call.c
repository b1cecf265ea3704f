/* fuzz_adaptive_call.c: calls of adaptive attention from bytes. */
#include "fuzz_adaptive_call.h"

#include "fuzz_support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_KEYS = 300, MOST_CHANNELS = 40 };
const double fuzz_adaptive_start = 0.25;

/* -- choosing -- */
static void choose_sequences(call *c, fuzz_bytes *in) {
    static const int64_t most[] = {9, 9, 40, 150, MOST_KEYS};
    const int64_t most_keys = most[fuzz_choice(in, 5)];
    c->sequences = 1 + fuzz_choice(in, MOST_SEQUENCES - 1);
    for (int64_t s = 0; s < c->sequences; s++) {
        const int64_t keys = fuzz_between(in, 0, most_keys / c->sequences), way = fuzz_choice(in, 16);
        int64_t queries = way % 2 && keys < 60 ? keys : fuzz_between(in, 0, 9);
        if (way == 2 && keys < 60) queries = fuzz_between(in, 0, 80);
        if (way == 4 && keys < 20) queries = fuzz_between(in, 256, 600); /* several tasks of a gradient */
        c->q_starts[s + 1] = c->q_starts[s] + queries;
        c->k_starts[s + 1] = c->k_starts[s] + keys;
    }
}

static void choose_padding(call *c, fuzz_bytes *in) {
    const int first = fuzz_choice(in, 3) == 1, end = fuzz_choice(in, 3) == 1;
    for (int64_t s = 0; s < c->sequences; s++) {
        const int64_t row = c->args.k_starts ? s : 0, keys = c->k_starts[row + 1] - c->k_starts[row];
        c->k_end[s] = end ? fuzz_between(in, 0, keys) : keys;
        c->k_first[s] = first ? fuzz_between(in, 0, c->k_end[s]) : 0;
    }
    if (first) c->args.k_first = c->k_first;
    if (end) c->args.k_end = c->k_end;
}

static void choose_batch(call *c, fuzz_bytes *in) {
    choose_sequences(c, in);
    if (fuzz_choice(in, 2)) {
        c->args.q_starts = c->q_starts;
        c->args.k_starts = c->k_starts;
        c->args.sequences = c->sequences;
    }
    choose_padding(c, in);
    const int64_t packed = c->args.q_starts != NULL, last = packed ? c->sequences : 1;
    c->batch = packed ? 1 : c->sequences;
    c->queries = c->q_starts[last];
    c->keys = c->k_starts[last];
}

static void choose_sizes(call *c, fuzz_bytes *in) {
    c->key_heads = 1 + fuzz_choice(in, 2);
    c->heads = c->key_heads * (1 + fuzz_choice(in, 4));
    c->dim = 1 + fuzz_choice(in, MOST_CHANNELS);
    c->channels = fuzz_choice(in, 2) ? c->dim : 1 + fuzz_choice(in, MOST_CHANNELS);
    c->network = (fuzz_network){.heads = c->heads, .form = (gyre_adaptive_form)fuzz_choice(in, 3)};
    c->network.inputs = c->network.form == GYRE_ADAPTIVE_FORM_ADD_RESIDUAL ? c->heads : 2 * c->heads;
    c->network.width = 1 + fuzz_choice(in, c->batch * c->queries * c->keys < 500 ? FUZZ_MOST_WIDTH : 6);
}

static int64_t longest(const call *c) {
    int64_t most = c->args.k_starts ? 0 : c->k_starts[1];
    for (int64_t s = 0; s < c->sequences && c->args.k_starts; s++)
        if (c->k_starts[s + 1] - c->k_starts[s] > most) most = c->k_starts[s + 1] - c->k_starts[s];
    return most;
}

static gyre_dtype any_dtype(fuzz_bytes *in) {
    return fuzz_choice(in, 4) == 1 ? GYRE_DTYPE_F64 : fuzz_dtype(in);
}

static gyre_dtype wide_dtype(fuzz_bytes *in) {
    return fuzz_choice(in, 2) ? GYRE_DTYPE_F64 : GYRE_DTYPE_F32;
}

int fuzz_adaptive_has(const call *c, part which) {
    if (which == B1 || which == DB1) return c->has_biases[0];
    if (which == B2 || which == DB2) return c->has_biases[1];
    return which == BIAS || which == DBIAS ? c->has_bias : 1;
}

int fuzz_adaptive_is_sum(part which) {
    return which >= DW1 && which <= DB2;
}

static void fill(const fuzz_view *v, double x) {
    for (size_t i = 0; v->bytes && i < v->bytes / gyre_dtype_size(v->view.dtype); i++)
        test_put(v->view.data, v->view.dtype, i, x);
}

/* A bias that queries, heads, rows or keys share has stride 0 there. */
static void make_bias(call *c, fuzz_bytes *in, test_random *random, const int64_t shape[4]) {
    const int shared = fuzz_choice(in, 2) ? fuzz_choice(in, 16) : 0;
    int64_t stored[4];
    for (int i = 0; i < 4; i++)
        stored[i] = shared >> i & 1 && shape[i] > 0 ? 1 : shape[i];
    fuzz_view *bias = &c->part[BIAS];
    *bias = fuzz_view_make(in, any_dtype(in), stored[0], stored[1], stored[2], stored[3]);
    fuzz_view_fill(bias, random, 1);
    for (int i = 0; i < 4; i++) {
        if (stored[i] != shape[i]) bias->view.stride[i] = 0;
        bias->view.shape[i] = shape[i];
    }
}

static void make_parts(call *c, fuzz_bytes *in, test_random *random) {
    static const double amplitudes[] = {1, 1, 0.2, 0, 2};
    const int64_t b = c->batch, q = c->queries, k = c->keys, h = c->heads, g = c->key_heads, d = c->dim, e = c->channels;
    const int64_t width = c->network.width, inputs = c->network.inputs;
    const int64_t qs[4] = {b, q, h, d}, ks[4] = {b, k, g, d}, vs[4] = {b, k, g, e}, outs[4] = {b, q, h, e},
                  lses[4] = {b, q, h, 1}, w1[4] = {1, 1, width, inputs}, b1[4] = {1, 1, 1, width}, w2[4] = {1, 1, h, width},
                  b2[4] = {1, 1, 1, h}, biases[4] = {b, q, h, longest(c)};
    const int64_t *const shapes[PARTS] = {qs,   ks, vs, w1, b1, w2, b2, biases, outs,  outs,
                                          lses, qs, ks, vs, w1, b1, w2, b2,     biases};
    const double amplitude = amplitudes[fuzz_choice(in, 5)], of_network = amplitudes[fuzz_choice(in, 5)];
    fuzz_bytes none = {NULL, 0};
    for (part i = Q; i < PARTS; i++) {
        const int64_t *s = shapes[i];
        if (!fuzz_adaptive_has(c, i)) continue;
        if (i == BIAS) {
            make_bias(c, in, random, s);
            continue;
        }
        const gyre_dtype dtype = i == LSE || fuzz_adaptive_is_sum(i) ? wide_dtype(in) : any_dtype(in);
        c->part[i] = fuzz_view_make(in, dtype, s[0], s[1], s[2], s[3]);
        if (i < INPUTS) fuzz_view_fill(&c->part[i], random, i == Q ? amplitude : i >= W1 && i <= B2 ? of_network : 1);
        if (i < INPUTS) continue;
        c->twin[i] = fuzz_view_make(&none, dtype, s[0], s[1], s[2], s[3]);
        c->want[i] = fuzz_room((size_t)(s[0] * s[1] * s[2] * s[3]), sizeof *c->want[i]);
        if (fuzz_adaptive_is_sum(i)) fill(&c->part[i], fuzz_adaptive_start), fill(&c->twin[i], fuzz_adaptive_start);
    }
}

/* NULL: counted by the call.  Otherwise both from bases, or of each token: in order with gaps, or anywhere. */
static void choose_positions(call *c, fuzz_bytes *in, test_random *random) {
    const int way = fuzz_choice(in, 6), narrow = fuzz_choice(in, 2), far = fuzz_choice(in, 4) == 1;
    const int64_t start = far ? fuzz_between(in, -70000, 1 << 20) : 0, ahead = fuzz_between(in, 0, 60) - 20;
    if (way < 2) return;
    for (int side = 0; side < 2; side++) {
        const int64_t tokens = side ? c->keys : c->queries, n = c->batch * tokens;
        c->at[side] = (gyre_positions){.base = start + (side ? 0 : ahead), .context_length = narrow ? 4096 : 0};
        if (way == 2) continue;
        c->places[side] = fuzz_room((size_t)n, sizeof(int32_t));
        for (int64_t i = 0; i < n; i++) {
            const int32_t step = (int32_t)(test_next(random) % (way == 3 ? 3 : (uint64_t)tokens + 9));
            const int follows = way == 3 && i % tokens > 0;
            c->places[side][i] = step + (follows ? c->places[side][i - 1] : (int32_t)start);
        }
        c->at[side].data = c->places[side];
        c->at[side].dtype = GYRE_DTYPE_I32;
        c->at[side].base = 0;
        c->at[side].stride_batch = tokens;
        c->at[side].stride_token = 1;
    }
    c->args.q_pos = &c->at[0];
    c->args.k_pos = &c->at[1];
}

static void choose_encoding(call *c, fuzz_bytes *in, test_random *random) {
    const fuzz_limits limits = {.head_dim = c->dim, .heads = c->heads, .schemes = FUZZ_SCHEMES_NUMBERS};
    fuzz_positions_make(&c->positions, in, &limits, random);
    if (!fuzz_positions_adds(&c->positions)) return;
    c->args.encoding = c->positions.encoding;
    c->args.tables = &c->positions.tables.views;
    c->to.dtable = c->positions.tables.gradients.bias;
    const int64_t *s = c->to.dtable.shape;
    if (!c->to.dtable.data) return;
    c->twin_table = fuzz_view_make(&(fuzz_bytes){NULL, 0}, c->to.dtable.dtype, 1, 1, s[2], s[3]);
    fill(&c->twin_table, fuzz_adaptive_start);
}

static double *matrix_of(const call *c, part which) {
    const int64_t *s = c->part[which].view.shape;
    const int64_t count = which == B1 ? c->network.width : which == B2 ? c->network.heads : s[2] * s[3];
    double *x = fuzz_room((size_t)count, sizeof *x);
    for (int64_t i = 0; i < count && fuzz_adaptive_has(c, which); i++)
        x[i] = fuzz_view_at(&c->part[which], 0, 0, i / s[3], i % s[3]);
    return x;
}

static void describe_call(call *c) {
    gyre_adaptive_args *a = &c->args;
    gyre_cview *const inputs[INPUTS] = {&a->q,
                                        &a->k,
                                        &a->v,
                                        &a->network.hidden_weights,
                                        &a->network.hidden_bias,
                                        &a->network.output_weights,
                                        &a->network.output_bias,
                                        &a->bias};
    for (part i = Q; i <= BIAS; i++)
        if (fuzz_adaptive_has(c, i)) *inputs[i] = gyre_const(c->part[i].view);
    c->network.w1 = matrix_of(c, W1);
    c->network.b1 = matrix_of(c, B1);
    c->network.w2 = matrix_of(c, W2);
    c->network.b2 = matrix_of(c, B2);
}

void fuzz_adaptive_set_results(call *c, const fuzz_view *views) {
    gyre_view *const results[PARTS - OUT] = {
        &c->args.out,        &c->args.lse,           &c->to.dq,           &c->to.dk,   &c->to.dv, &c->to.dhidden_weights,
        &c->to.dhidden_bias, &c->to.doutput_weights, &c->to.doutput_bias, &c->to.dbias};
    for (part i = OUT; i < PARTS; i++)
        if (fuzz_adaptive_has(c, i)) *results[i - OUT] = views[i].view;
}

/* -- sequences -- */
sequence fuzz_adaptive_sequence(const call *c, int64_t s) {
    const int packed = c->args.q_starts != NULL;
    sequence at = {.batch = packed ? 0 : s, .padding = c->k_first[s], .keys = c->k_end[s] - c->k_first[s]};
    at.query = packed ? c->q_starts[s] : 0;
    at.queries = packed ? c->q_starts[s + 1] - c->q_starts[s] : c->queries;
    at.key = (packed ? c->k_starts[s] : 0) + at.padding;
    return at;
}

int64_t fuzz_adaptive_position(const call *c, const sequence *at, int side, int64_t t) {
    const int64_t tokens = side ? c->keys : c->queries;
    if (!c->args.q_pos) return side ? t : at->keys - at->queries + t;
    if (c->places[side]) return c->places[side][at->batch * tokens + (side ? at->key : at->query) + t];
    return c->at[side].base + t + (side ? at->padding : 0);
}

int64_t fuzz_adaptive_seen(const call *c, const sequence *at, int64_t i) {
    const int64_t seen = c->args.two_sided ? at->keys : at->keys - at->queries + i + 1;
    return seen > 0 ? seen : 0;
}

/* -- numbers that no query sees -- */
static void spoil(const fuzz_view *v, int64_t b, int64_t t, int64_t h, int64_t channel, int which) {
    const int64_t *s = v->view.stride;
    test_put(v->view.data, v->view.dtype, (size_t)(b * s[0] + t * s[1] + h * s[2] + channel * s[3]),
             which ? (double)NAN : -(double)INFINITY);
}

static void spoil_keys(const call *c) {
    const int packed = c->args.q_starts != NULL;
    for (int64_t s = 0; s < c->sequences; s++) {
        const int64_t first = packed ? c->k_starts[s] : 0, end = packed ? c->k_starts[s + 1] : c->keys;
        for (int64_t t = first; t < end; t++)
            if (t - first < c->k_first[s] || t - first >= c->k_end[s])
                for (int64_t h = 0; h < c->key_heads; h++) {
                    spoil(&c->part[K], packed ? 0 : s, t, h, 0, t & 1);
                    spoil(&c->part[V], packed ? 0 : s, t, h, 0, t & 1);
                }
    }
}

static void spoil_biases(const call *c) {
    const gyre_view *bias = &c->part[BIAS].view;
    for (int i = 0; i < 4; i++)
        if (bias->stride[i] == 0) return; /* seen elsewhere */
    for (int64_t s = 0; s < c->sequences; s++) {
        const sequence at = fuzz_adaptive_sequence(c, s);
        for (int64_t i = 0; i < at.queries; i++)
            for (int64_t j = 0; j < bias->shape[3]; j++)
                if (j < at.padding || j >= at.padding + fuzz_adaptive_seen(c, &at, i))
                    spoil(&c->part[BIAS], at.batch, at.query + i, (i + j) % bias->shape[2], j, j & 1);
    }
}

void fuzz_adaptive_make(call *c, const uint8_t *data, size_t size) {
    static const double scales[] = {0, 0, 1, -0.4, 0.3}, slopes[] = {0, 0, 0.2, -0.3, 1};
    fuzz_bytes in = {data, size};
    test_random random = {1 + fuzz_byte(&in)};
    memset(c, 0, sizeof *c);
    c->args = (gyre_adaptive_args)GYRE_INIT(gyre_adaptive_args);
    c->to = (gyre_adaptive_gradients)GYRE_INIT(gyre_adaptive_gradients);
    choose_batch(c, &in);
    choose_sizes(c, &in);
    c->args.form = c->network.form;
    c->args.two_sided = fuzz_choice(&in, 2);
    c->args.scale = scales[fuzz_choice(&in, 5)];
    c->scale = c->args.scale != 0 ? c->args.scale : 1 / sqrt((double)c->dim);
    c->args.slope = slopes[fuzz_choice(&in, 5)];
    c->network.slope = c->args.slope != 0 ? c->args.slope : 0.01;
    for (int i = 0; i < 2; i++)
        c->has_biases[i] = fuzz_choice(&in, 3) != 1;
    c->has_bias = fuzz_choice(&in, 2);
    const int spoiled = fuzz_choice(&in, 3) == 1;
    choose_encoding(c, &in, &random);
    choose_positions(c, &in, &random);
    make_parts(c, &in, &random);
    describe_call(c);
    if (spoiled) spoil_keys(c);
    if (spoiled && c->has_bias) spoil_biases(c);
    fuzz_adaptive_set_results(c, c->part);
}

void fuzz_adaptive_free(call *c) {
    double *const matrices[] = {c->network.w1, c->network.b1, c->network.w2, c->network.b2};
    for (int i = 0; i < 4; i++)
        free(matrices[i]);
    for (int i = 0; i < PARTS; i++) {
        fuzz_view_free(&c->part[i]);
        fuzz_view_free(&c->twin[i]);
        free(c->want[i]);
    }
    for (int i = 0; i < INPUTS; i++)
        free(c->row[i]);
    fuzz_view_free(&c->twin_table);
    free(c->places[0]);
    free(c->places[1]);
    fuzz_positions_free(&c->positions);
}
