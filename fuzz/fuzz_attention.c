/* fuzz_attention.c: legal calls of gyre_attention and gyre_attention_gradient, chosen by the bytes, against their
 * definitions in double: every scheme that acts inside attention (TAPA: fuzz_phases.h), with the gradients of its tables and
 * of sink logits.  Two threads and one have the same bits, and a refused call changes nothing. */
#include "fuzz_phases.h"
#include "fuzz_positions.h"
#include "fuzz_support.h"
#include "naive_philox.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_KEYS = 300, MOST_CHANNELS = 128 };
/* Reads of q, k and v; writes of out, lse; gradients dout, dq, dk, dv. */
typedef enum part { Q, K, V, DOUT, OUT, LSE, DQ, DK, DV, MASK, PARTS } part;

typedef struct call {
    int64_t batch, queries, keys, heads, key_heads, dim, channels;
    fuzz_positions positions;
    fuzz_view part[PARTS];
    int64_t *at[2]; /* positions [batch][token][axis] of queries and keys */
    gyre_attention_args args;
    float sink[FUZZ_MOST_HEADS];
    double scale, largest; /* largest: of the scores, in magnitude */
    double dsink[FUZZ_MOST_HEADS], found_dsink[FUZZ_MOST_HEADS], dsink_error;
    double *row[OUT];       /* Q to DOUT: [batch][token][head][channel], queries and keys rotated */
    double *most[OUT];      /* [batch][token][head]: the largest of a row, in magnitude */
    double *weight, *score; /* [batch][query][head][key]: the definition's softmax, and the scores under it */
    double *out, *lse;      /* [batch][query][head](channels) */
    double *score_off;      /* [batch][query][head]: what a score of the row may be off, where phases have many turns */
    int is_vague;           /* 1: some score may be off so much that nothing can be said of weights */
} call;

/* -- choosing -- */
static void choose_shape(call *c, fuzz_bytes *in) {
    static const int64_t most_keys[] = {9, 9, 40, 140, MOST_KEYS};
    c->batch = 1 + fuzz_choice(in, 2);
    c->keys = fuzz_between(in, 0, most_keys[fuzz_choice(in, 5)]);
    c->queries = fuzz_choice(in, 3) == 1 ? fuzz_between(in, 0, 90) : fuzz_between(in, 0, 10);
    c->key_heads = 1 + fuzz_choice(in, 2);
    c->heads = c->key_heads * (1 + fuzz_choice(in, 3));
    c->dim = 1 + fuzz_between(in, 0, FUZZ_MOST_DIM - 1);
    c->channels = fuzz_choice(in, 3) == 1 ? 1 + fuzz_between(in, 0, MOST_CHANNELS - 1) : c->dim;
}

/* out = 0 if the config was refused. */
static int choose_encoding(call *c, fuzz_bytes *in, test_random *random) {
    const fuzz_limits limits = {c->dim, c->heads, FUZZ_SCHEMES_ALL, c->keys + 10};
    fuzz_positions_make(&c->positions, in, &limits, random);
    if (!c->positions.encoding) return 0;
    if (gyre_encoding_places(c->positions.encoding) & GYRE_PLACE_VALUE) c->channels = c->dim; /* of its rows */
    c->args.encoding = c->positions.encoding;
    c->args.tables = &c->positions.tables.views;
    c->scale = fuzz_positions_scale(&c->positions);
    return 1;
}

static int64_t *place(const call *c, int side, int64_t b, int64_t t) {
    return c->at[side] + (b * (side ? c->keys : c->queries) + t) * c->positions.axes;
}

static void choose_positions(call *c, fuzz_bytes *in, test_random *random) {
    const int64_t axes = c->positions.axes, count[2] = {c->queries, c->keys};
    const int is_bert = c->positions.config.kind == GYRE_KIND_BERT; /* its positions begin at 0 */
    const int64_t start = fuzz_choice(in, 4) == 1 && !is_bert ? fuzz_between(in, -70000, 1 << 20) : 0;
    const int random_places = fuzz_choice(in, 4) == 1;
    const int bare = !random_places && fuzz_choice(in, 2) && !(is_bert && c->queries > c->keys);
    gyre_positions *out[2] = {&c->args.q_pos, &c->args.k_pos};
    for (int side = 0; side < 2; side++) {
        const int64_t first = start + (side == 0 ? c->keys - c->queries : 0), n = c->batch * count[side] * axes;
        c->at[side] = fuzz_room((size_t)n, sizeof(int64_t));
        for (int64_t i = 0; i < n; i++) {
            const int64_t t = i / axes % (count[side] ? count[side] : 1);
            c->at[side][i] = random_places ? start + (int64_t)(test_next(random) % (uint64_t)(c->keys + 9)) : first + t;
            if (is_bert && c->at[side][i] < 0) c->at[side][i] = 0;
        }
        *out[side] = bare ? (gyre_positions){.base = first}
                          : (gyre_positions){c->at[side], GYRE_DTYPE_I64, 0, 0, count[side] * axes, axes, 1};
    }
}

static void choose_options(call *c, fuzz_bytes *in, test_random *random) {
    gyre_attention_args *a = &c->args;
    /* Past the end of the input every choice is 0, which has to be the usual one. */
    a->causal = (gyre_causal)fuzz_choice(in, 3);
    a->window = fuzz_choice(in, 3) == 1 ? 1 + fuzz_between(in, 0, 150) : 0;
    a->window_after = fuzz_choice(in, 4) == 1 ? 1 + fuzz_between(in, 0, 20) : 0;
    a->sinks = fuzz_choice(in, 4) == 1 ? fuzz_between(in, 0, 9) : 0;
    a->softcap = fuzz_choice(in, 4) == 1 ? 1 + fuzz_choice(in, 30) : 0;
    a->scale = fuzz_choice(in, 4) == 1 ? fuzz_choice(in, 8) / 4.0 : 0;
    a->order = fuzz_choice(in, 2) ? GYRE_ORDER_FIXED : GYRE_ORDER_FAST;
    if (a->scale != 0) c->scale = a->scale;
    a->dropout = fuzz_choice(in, 5) == 1 ? fuzz_choice(in, 10) / 10.0 : 0;
    a->seed = a->dropout > 0 ? test_next(random) : 0;
    if (fuzz_choice(in, 4) == 1) {
        test_fill(random, c->sink, FUZZ_MOST_HEADS);
        a->sink_logits = gyre_cdense(c->sink, GYRE_DTYPE_F32, 1, 1, c->heads, 1);
    }
    if (fuzz_choice(in, 4) != 1) return;
    fuzz_view *mask = &c->part[MASK];
    *mask = fuzz_view_make(in, fuzz_dtype(in), c->batch, c->queries, c->heads, c->keys);
    fuzz_view_fill(mask, random, 2);
    for (size_t i = 0; mask->bytes && i < mask->bytes / gyre_dtype_size(mask->view.dtype); i++)
        if (test_next(random) % 4 == 0) test_put(mask->view.data, mask->view.dtype, i, -INFINITY);
    a->mask = gyre_const(mask->view);
}

static void make_views(call *c, fuzz_bytes *in, test_random *random) {
    const int64_t b = c->batch, q = c->queries, k = c->keys, h = c->heads, g = c->key_heads, d = c->dim, e = c->channels;
    const double amplitude = fuzz_choice(in, 4) == 1 ? fuzz_choice(in, 6) : 1;
    c->part[Q] = fuzz_view_make(in, fuzz_dtype(in), b, q, h, d);
    c->part[K] = fuzz_view_make(in, fuzz_dtype(in), b, k, g, d);
    c->part[V] = fuzz_view_make(in, fuzz_dtype(in), b, k, g, e);
    c->part[OUT] = fuzz_view_make(in, fuzz_dtype(in), b, q, h, e);
    c->part[LSE] = fuzz_view_make(in, fuzz_choice(in, 2) ? GYRE_DTYPE_F64 : GYRE_DTYPE_F32, b, q, h, 1);
    c->part[DOUT] = fuzz_view_make(in, fuzz_dtype(in), b, q, h, e);
    c->part[DQ] = fuzz_view_make(in, GYRE_DTYPE_F32, b, q, h, d);
    c->part[DK] = fuzz_view_make(in, GYRE_DTYPE_F32, b, k, g, d);
    c->part[DV] = fuzz_view_make(in, GYRE_DTYPE_F32, b, k, g, e);
    for (part i = Q; i <= DOUT; i++)
        fuzz_view_fill(&c->part[i], random, i == V || i == DOUT ? 1 : amplitude);
    c->args.q = gyre_const(c->part[Q].view);
    c->args.k = gyre_const(c->part[K].view);
    c->args.v = gyre_const(c->part[V].view);
    c->args.out = c->part[OUT].view;
    c->args.lse = c->part[LSE].view;
}

/* out = 0 if the config was refused. */
static int make_call(call *c, const uint8_t *data, size_t size) {
    fuzz_bytes in = {data, size};
    test_random random = {1 + fuzz_byte(&in)};
    memset(c, 0, sizeof *c);
    c->args = (gyre_attention_args)GYRE_INIT(gyre_attention_args);
    choose_shape(c, &in);
    if (!choose_encoding(c, &in, &random)) return 0;
    choose_positions(c, &in, &random);
    choose_options(c, &in, &random);
    make_views(c, &in, &random);
    const size_t rows = (size_t)(c->batch * c->queries * c->heads);
    c->weight = fuzz_room(rows * (size_t)c->keys, sizeof *c->weight);
    c->score = fuzz_room(rows * (size_t)c->keys, sizeof *c->score);
    c->out = fuzz_room(rows * (size_t)c->channels, sizeof *c->out);
    c->lse = fuzz_room(rows, sizeof *c->lse);
    c->score_off = fuzz_room(rows, sizeof *c->score_off);
    return 1;
}

static void free_call(call *c) {
    void *all[] = {c->weight, c->score, c->out, c->lse, c->score_off, c->at[0], c->at[1]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    for (int i = 0; i < OUT; i++) {
        free(c->row[i]);
        free(c->most[i]);
    }
    for (int i = 0; i < PARTS; i++)
        fuzz_view_free(&c->part[i]);
    fuzz_positions_free(&c->positions);
}

/* -- the definition -- */
static int visible(const call *c, int64_t b, int64_t i, int64_t j) {
    const gyre_attention_args *a = &c->args;
    const int by_order = a->causal == GYRE_CAUSAL_BY_ORDER;
    const int64_t m = by_order ? i + c->keys - c->queries : *place(c, 0, b, i);
    const int64_t n = by_order ? j : *place(c, 1, b, j);
    if (a->causal && n > m) return 0;
    const int64_t after = a->window_after ? a->window_after : a->window;
    if ((a->window == 0 || m - n < a->window) && (after == 0 || n - m < after)) return 1;
    return a->sinks > 0 && n < a->sinks;
}

/* Once, because each is part of many pairs. */
static void read_rows(call *c) {
    for (part which = Q; which < OUT; which++) {
        const int64_t *s = c->part[which].view.shape;
        c->row[which] = fuzz_room((size_t)(s[0] * s[1] * s[2] * s[3]), sizeof(double));
        c->most[which] = fuzz_room((size_t)(s[0] * s[1] * s[2]), sizeof(double));
        for (int64_t i = 0; i < s[0] * s[1] * s[2]; i++) {
            const int64_t b = i / s[2] / s[1], t = i / s[2] % s[1];
            double *x = c->row[which] + i * s[3];
            for (int64_t n = 0; n < s[3]; n++)
                x[n] = fuzz_view_at(&c->part[which], b, t, i % s[2], n);
            if (which == Q || which == K) fuzz_positions_rotate(&c->positions, place(c, which == K, b, t), 1, x);
            for (int64_t n = 0; n < s[3]; n++)
                c->most[which][i] = fmax(c->most[which][i], fabs(x[n]));
        }
    }
}

static const double *row_at(const call *c, part which, int64_t b, int64_t t, int64_t h) {
    const int64_t *s = c->part[which].view.shape;
    return c->row[which] + ((b * s[1] + t) * s[2] + h) * s[3];
}

static fuzz_pair pair_of(const call *c, int64_t b, int64_t i, int64_t h, int64_t j, const double *q, const double *k) {
    return (fuzz_pair){.head = h, .m = *place(c, 0, b, i), .n = *place(c, 1, b, j), .q = q, .k = k};
}

/* out = what dropout makes of a weight of 1. */
static double kept(const call *c, int64_t b, int64_t i, int64_t h, int64_t j) {
    if (c->args.dropout == 0) return 1;
    return naive_is_kept(c->args.dropout, c->args.seed, b, h, i, j) ? 1 / (1 - c->args.dropout) : 0;
}

static int is_phased(const call *c) {
    return c->positions.config.kind == GYRE_KIND_TAPA;
}

/* out = q . k, or what the scheme has in its place. */
static fuzz_number product_of(const call *c, const fuzz_pair *pair) {
    fuzz_number sum = {0, 0};
    if (is_phased(c)) return fuzz_phases_of(&c->positions.config, pair).product;
    for (int64_t n = 0; n < c->dim; n++)
        sum.of += pair->q[n] * pair->k[n];
    sum.of += fuzz_tables_product(&c->positions.tables, pair);
    return sum;
}

static double score_of(call *c, int64_t b, int64_t i, int64_t h, int64_t j, const double *q) {
    if (!visible(c, b, i, j)) return -INFINITY;
    const fuzz_pair pair = pair_of(c, b, i, h, j, q, row_at(c, K, b, j, h / (c->heads / c->key_heads)));
    const fuzz_number product = product_of(c, &pair);
    double sum = product.of, *off = &c->score_off[(b * c->queries + i) * c->heads + h];
    *off = fmax(*off, fabs(c->scale) * product.error);
    if (*off > 1) c->is_vague = 1;
    double s = c->scale * sum + fuzz_positions_bias(&c->positions, h, pair.m, pair.n);
    if (c->args.softcap > 0) s = c->args.softcap * tanh(s / c->args.softcap);
    if (c->part[MASK].view.data) s += fuzz_view_at(&c->part[MASK], b, i, h, j);
    if (s > -INFINITY) c->largest = fmax(c->largest, fmax(fabs(s), fabs(c->scale * sum)));
    return s;
}

static void define_row(call *c, int64_t b, int64_t i, int64_t h) {
    const int64_t row = (b * c->queries + i) * c->heads + h;
    double *weight = c->weight + row * c->keys, *score = c->score + row * c->keys, *out = c->out + row * c->channels;
    double v[MOST_CHANNELS], most = c->args.sink_logits.data ? (double)c->sink[h] : -INFINITY;
    const double sink = most, *q = row_at(c, Q, b, i, h);
    for (int64_t j = 0; j < c->keys; j++)
        most = fmax(most, score[j] = score_of(c, b, i, h, j, q));
    double sum = most > -INFINITY ? exp(sink - most) : 0;
    for (int64_t j = 0; j < c->keys; j++)
        sum += weight[j] = most > -INFINITY ? exp(score[j] - most) : 0;
    c->lse[row] = sum > 0 ? most + log(sum) : -INFINITY;
    for (int64_t j = 0; j < c->keys && sum > 0; j++) {
        weight[j] /= sum;
        const fuzz_pair pair = pair_of(c, b, i, h, j, NULL, NULL);
        const double part = weight[j] * kept(c, b, i, h, j);
        if (part == 0) continue;
        memcpy(v, row_at(c, V, b, j, h / (c->heads / c->key_heads)), (size_t)c->channels * sizeof *v);
        fuzz_tables_add_value(&c->positions.tables, &pair, v);
        for (int64_t n = 0; n < c->channels; n++)
            out[n] += part * v[n];
    }
}

static void for_each_row(call *c, void (*fn)(call *, int64_t, int64_t, int64_t)) {
    for (int64_t b = 0; b < c->batch; b++)
        for (int64_t i = 0; i < c->queries; i++)
            for (int64_t h = 0; h < c->heads; h++)
                fn(c, b, i, h);
}

/* out = what the scores of a row let its weights be off, relative to them. */
static double weights_off(const call *c, int64_t row) {
    return expm1(2 * c->score_off[row]);
}

/* -- forward -- */
static void check_row(call *c, int64_t b, int64_t i, int64_t h) {
    const int64_t row = (b * c->queries + i) * c->heads + h;
    const double lse = fuzz_view_at(&c->part[LSE], b, i, h, 0), error = 3e-6 * (1 + c->largest) + weights_off(c, row);
    if (c->lse[row] == -INFINITY)
        fuzz_require(lse == -INFINITY, "a row without keys has lse -infinity");
    else
        fuzz_require(fabs(lse - c->lse[row]) <= error, "lse is that of the definition");
    for (int64_t n = 0; n < c->channels; n++) {
        const double want = c->out[row * c->channels + n], got = fuzz_view_at(&c->part[OUT], b, i, h, n);
        fuzz_require(fabs(got - want) <= error / (1 - c->args.dropout) + fuzz_rounding(c->part[OUT].view.dtype, want),
                     "out is that of the definition");
    }
}

typedef struct scratch {
    void *memory;
    size_t bytes;
} scratch;

static scratch scratch_make(const gyre_attention_args *args, int gradient, const gyre_exec *exec) {
    scratch s = {NULL, gyre_attention_scratch(args, gradient, exec)};
    fuzz_require(s.bytes > 0, "legal shapes have a size of scratch");
    s.memory = aligned_alloc(64, (s.bytes + 63) / 64 * 64);
    fuzz_require(s.memory != NULL, "memory for scratch");
    return s;
}

static gyre_status forward(const gyre_attention_args *args, const gyre_exec *exec, gyre_error *err) {
    const scratch s = scratch_make(args, 0, exec);
    const gyre_status status = gyre_attention(args, s.memory, s.bytes, exec, err);
    free(s.memory);
    fuzz_require_error(status, err);
    return status;
}

/* The same call on two threads into memory of its own. */
static void check_threads(call *c, const gyre_exec *exec) {
    fuzz_bytes none = {NULL, 0};
    gyre_error err = {0, ""};
    fuzz_view out = fuzz_view_make(&none, c->part[OUT].view.dtype, c->batch, c->queries, c->heads, c->channels),
              lse = fuzz_view_make(&none, c->part[LSE].view.dtype, c->batch, c->queries, c->heads, 1);
    gyre_attention_args args = c->args;
    args.out = out.view;
    args.lse = lse.view;
    fuzz_require(forward(&args, exec, &err) == GYRE_OK, "a call that one thread does, two do");
    fuzz_views_require_same(&out, &c->part[OUT], "threads change no bit of out");
    fuzz_views_require_same(&lse, &c->part[LSE], "threads change no bit of lse");
    fuzz_view_free(&out);
    fuzz_view_free(&lse);
}

/* -- gradient -- */
typedef struct gradients {
    double *q, *k, *v;          /* dense, as the views are shaped */
    double *of_q, *of_k, *of_v; /* [row][2]: what an element may be off, of the first channels and of phases */
} gradients;

static gradients *found; /* for_each_row hands nothing else through */

/* What dout . (a value) may be off, given that the library has out as it was rounded. */
static double error_of_products(const call *c, int64_t row, const double *dout, const double *out) {
    const double error = 3e-6 * (1 + c->largest) + weights_off(c, row);
    double sum = 0;
    for (int64_t n = 0; n < c->channels; n++)
        sum += fabs(dout[n]) * (fuzz_rounding(c->part[OUT].view.dtype, out[n]) + error);
    return sum / (1 - c->args.dropout);
}

/* out = ds of a pair under the softcap over ds of the capped score. */
static double slope_of_cap(const call *c, int64_t b, int64_t i, int64_t h, int64_t j, double score) {
    if (!(c->args.softcap > 0)) return 1;
    const double t = (score - (c->part[MASK].view.data ? fuzz_view_at(&c->part[MASK], b, i, h, j) : 0)) / c->args.softcap;
    return 1 - t * t;
}

/* Adds to dq and dk of a pair, and to what their elements may be off, given the gradient to its score.  The two factors are
 * those of the channels before `first` and of those from there on. */
static void add_product_gradient(const call *c, const fuzz_pair *pair, fuzz_number ds, int64_t row, int64_t key) {
    fuzz_number factor[2] = {{1, 0}, {1, 0}};
    const int64_t first = is_phased(c) ? fuzz_phases_first(&c->positions.config) : c->dim;
    double *dq = found->q + row * c->dim, *dk = found->k + key * c->dim;
    if (is_phased(c)) {
        const fuzz_phased phased = fuzz_phases_of(&c->positions.config, pair);
        factor[0] = phased.of_amplitude;
        factor[1] = phased.of_phase;
    }
    for (int i = 0; i < 2; i++) {
        const double size = fabs(factor[i].of) + factor[i].error;
        const double off = fabs(c->scale) * (ds.error * size + fabs(ds.of) * (factor[i].error + 1e-5 * size));
        found->of_q[2 * row + i] += off * (1 + c->most[K][key]); /* numbers of tables are within 1 */
        found->of_k[2 * key + i] += off * (1 + c->most[Q][row]);
    }
    for (int64_t n = 0; n < c->dim; n++) {
        dq[n] += c->scale * ds.of * factor[n >= first].of * pair->k[n];
        dk[n] += c->scale * ds.of * factor[n >= first].of * pair->q[n];
    }
}

static void define_gradient_row(call *c, int64_t b, int64_t i, int64_t h) {
    const int64_t row = (b * c->queries + i) * c->heads + h, group = h / (c->heads / c->key_heads);
    const double *out = c->out + row * c->channels;
    const double *q = row_at(c, Q, b, i, h), *dout = row_at(c, DOUT, b, i, h);
    double v[MOST_CHANNELS], total = 0, *dq = found->q + row * c->dim;
    fuzz_tables *tables = &c->positions.tables;
    for (int64_t n = 0; n < c->channels; n++)
        total += dout[n] * out[n];
    const double off = error_of_products(c, row, dout, out), rough = 1e-5 * (1 + c->largest) + weights_off(c, row);
    for (int64_t j = 0; j < c->keys; j++) {
        const double weight = c->weight[row * c->keys + j], share = kept(c, b, i, h, j);
        const double *k = row_at(c, K, b, j, group);
        const int64_t key = (b * c->keys + j) * c->key_heads + group;
        double *dk = found->k + key * c->dim, dot = 0;
        if (weight == 0) continue;
        memcpy(v, row_at(c, V, b, j, group), (size_t)c->channels * sizeof *v);
        const fuzz_pair pair = pair_of(c, b, i, h, j, q, k);
        fuzz_tables_add_value(tables, &pair, v);
        for (int64_t n = 0; n < c->channels; n++) {
            dot += share * dout[n] * v[n];
            found->v[key * c->channels + n] += share * weight * dout[n];
        }
        const double ds = weight * (dot - total) * slope_of_cap(c, b, i, h, j, c->score[row * c->keys + j]);
        const double error = weight * (2 * off + rough * (fabs(dot) + fabs(total)));
        const double of_value = rough * share * weight;
        found->of_v[2 * key] += of_value * c->most[DOUT][row];
        fuzz_tables_value_gradient(tables, &pair, (fuzz_number){share * weight, of_value}, dout);
        fuzz_tables_bias_gradient(tables, &pair, (fuzz_number){ds, error});
        fuzz_tables_product_gradient(tables, &pair, (fuzz_number){c->scale * ds, fabs(c->scale) * error}, dq, dk);
        add_product_gradient(c, &pair, (fuzz_number){ds, error}, row, key);
    }
    fuzz_positions_rotate(&c->positions, place(c, 0, b, i), -1, dq);
    if (!c->args.sink_logits.data || c->lse[row] == -INFINITY) return;
    const double weight = exp((double)c->sink[h] - c->lse[row]);
    c->dsink[h] -= weight * total;
    c->dsink_error += weight * (2 * off + rough * fabs(total));
}

/* off: of each row, and of its phases.  turns: the part was rotated back, which adds two numbers and has the attention
 * factor. */
static void check_part(const call *c, part which, const double *want, const double *off, int turns) {
    const int64_t first = turns && is_phased(c) ? fuzz_phases_first(&c->positions.config) : MOST_CHANNELS;
    const fuzz_view *v = &c->part[which];
    const int64_t *s = v->view.shape;
    for (int64_t i = 0; i < s[0] * s[1] * s[2] * s[3]; i++) {
        const double got = fuzz_view_at(v, i / s[3] / s[2] / s[1], i / s[3] / s[2] % s[1], i / s[3] % s[2], i % s[3]);
        const double rotated = turns ? 2 * fmax(1, c->positions.factor) : 1;
        fuzz_require(fabs(got - want[i]) <=
                         rotated * off[2 * (i / s[3]) + (i % s[3] >= first)] + 1e-5 * fabs(want[i]) + 1e-6,
                     "a gradient is that of the definition");
    }
}

static void check_gradient(call *c, const gyre_exec *exec) {
    gyre_error err = {0, ""};
    const gyre_cview dout = gyre_const(c->part[DOUT].view);
    const gyre_view dqkv[3] = {c->part[DQ].view, c->part[DK].view, c->part[DV].view};
    const size_t q = (size_t)(c->batch * c->queries * c->heads), k = (size_t)(c->batch * c->keys * c->key_heads);
    const size_t d = (size_t)c->dim, e = (size_t)c->channels;
    gyre_table_gradients *tables = &c->positions.tables.gradients;
    if (c->args.sink_logits.data) tables->sink_logits = gyre_dense(c->found_dsink, GYRE_DTYPE_F64, 1, 1, c->heads, 1);
    const size_t sizes[6] = {q * d, k * d, k * e, 2 * q, 2 * k, 2 * k};
    gradients g;
    double **const all[6] = {&g.q, &g.k, &g.v, &g.of_q, &g.of_k, &g.of_v};
    for (int i = 0; i < 6; i++)
        *all[i] = fuzz_room(sizes[i], sizeof(double));
    const scratch s = scratch_make(&c->args, 1, exec);
    const gyre_status status = gyre_attention_gradient(&c->args, &dout, dqkv, tables, s.memory, s.bytes, exec, &err);
    free(s.memory);
    fuzz_require_error(status, &err);
    fuzz_require(status == GYRE_OK, "what is computed has a gradient");
    found = &g;
    if (!c->is_vague) for_each_row(c, define_gradient_row);
    for (int64_t i = 0; i < c->batch * c->keys * c->key_heads; i++) /* dk was summed as keys are rotated */
        fuzz_positions_rotate(&c->positions, place(c, 1, i / c->key_heads / c->keys, i / c->key_heads % c->keys), -1,
                              g.k + i * c->dim);
    if (!c->is_vague) {
        check_part(c, DQ, g.q, g.of_q, 1);
        check_part(c, DK, g.k, g.of_k, 1);
        check_part(c, DV, g.v, g.of_v, 0);
        fuzz_tables_check(&c->positions.tables);
    }
    for (int64_t h = 0; h < c->heads && !c->is_vague; h++)
        fuzz_require(fabs(c->found_dsink[h] - c->dsink[h]) <= c->dsink_error + 1e-6, "the gradient of a sink logit");
    for (int i = 0; i < 6; i++)
        free(*all[i]);
}

/* The size of scratch is that of the largest call of its kind, so a little less may do. */
static void check_refusal(call *c) {
    gyre_error err = {0, ""};
    const scratch s = scratch_make(&c->args, 0, NULL);
    memset(c->part[OUT].view.data, 0x5a, c->part[OUT].bytes);
    const gyre_status status = gyre_attention(&c->args, s.memory, 64, NULL, &err);
    fuzz_require_error(status, &err);
    fuzz_require(status == GYRE_OK || status == GYRE_ENOMEM, "too little scratch is refused as such");
    for (size_t i = 0; i < c->part[OUT].bytes && status; i++)
        fuzz_require(((unsigned char *)c->part[OUT].view.data)[i] == 0x5a, "a refused call writes nothing");
    memset(c->part[OUT].view.data, 0, c->part[OUT].bytes);
    free(s.memory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static gyre_pool *pool;
    static call c;
    gyre_error err = {0, ""};
    if (!pool) fuzz_require(gyre_pool_create(&pool, 2, NULL) == GYRE_OK, "two threads");
    const gyre_exec exec = gyre_pool_exec(pool);
    if (make_call(&c, data, size)) {
        check_refusal(&c);
        const gyre_status status = forward(&c.args, NULL, &err);
        fuzz_require(status == GYRE_OK, "a legal call is done");
        read_rows(&c);
        for_each_row(&c, define_row);
        if (!c.is_vague) for_each_row(&c, check_row);
        check_threads(&c, &exec);
        check_gradient(&c, c.batch > 1 ? &exec : NULL);
    }
    free_call(&c);
    return 0;
}
