/* fuzz_attention.c: legal calls of gyre_attention and gyre_attention_gradient, chosen by the bytes, against their
 * definitions in double.  Two threads and one have the same bits, and a refused call changes nothing. */
#include "fuzz_positions.h"
#include "fuzz_support.h"

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
    int64_t *at[2]; /* positions [batch][token] of queries and keys */
    gyre_attention_args args;
    float sink[FUZZ_MOST_HEADS];
    double scale, largest;  /* largest: of the scores, in magnitude */
    double *weight, *score; /* [batch][query][head][key]: the definition's softmax, and the scores under it */
    double *out, *lse;      /* [batch][query][head](channels) */
} call;

/* -- choosing -- */
static void choose_shape(call *c, fuzz_bytes *in) {
    static const int64_t most_keys[] = {9, 9, 40, 140, MOST_KEYS};
    c->batch = 1 + fuzz_choice(in, 2);
    c->keys = fuzz_between(in, 0, most_keys[fuzz_choice(in, 5)]);
    c->queries = fuzz_choice(in, 3) ? fuzz_between(in, 0, 10) : fuzz_between(in, 0, 90);
    c->key_heads = 1 + fuzz_choice(in, 2);
    c->heads = c->key_heads * (1 + fuzz_choice(in, 3));
    c->dim = 1 + fuzz_between(in, 0, FUZZ_MOST_DIM - 1);
    c->channels = fuzz_choice(in, 3) ? c->dim : 1 + fuzz_between(in, 0, MOST_CHANNELS - 1);
}

static void choose_positions(call *c, fuzz_bytes *in, test_random *random) {
    const int64_t start = fuzz_choice(in, 4) ? 0 : fuzz_between(in, -70000, 1 << 20), count[2] = {c->queries, c->keys};
    const int random_places = fuzz_choice(in, 4) == 1, bare = !random_places && fuzz_choice(in, 2);
    gyre_positions *out[2] = {&c->args.q_pos, &c->args.k_pos};
    for (int side = 0; side < 2; side++) {
        c->at[side] = fuzz_room((size_t)(c->batch * count[side]), sizeof(int64_t));
        for (int64_t i = 0; i < c->batch * count[side]; i++) {
            const int64_t t = i % (count[side] ? count[side] : 1);
            c->at[side][i] = start + (side == 0 ? c->keys - c->queries : 0) + t;
            if (random_places) c->at[side][i] = start + (int64_t)(test_next(random) % (uint64_t)(c->keys + 9));
        }
        *out[side] = bare ? (gyre_positions){.base = start + (side == 0 ? c->keys - c->queries : 0)}
                          : (gyre_positions){c->at[side], GYRE_DTYPE_I64, 0, 0, count[side], 1, 0};
    }
}

static void choose_options(call *c, fuzz_bytes *in, test_random *random) {
    gyre_attention_args *a = &c->args;
    a->causal = (gyre_causal)fuzz_choice(in, 3);
    a->window = fuzz_choice(in, 3) ? 0 : 1 + fuzz_between(in, 0, 150);
    a->window_after = fuzz_choice(in, 4) ? 0 : 1 + fuzz_between(in, 0, 20);
    a->sinks = fuzz_choice(in, 4) ? 0 : fuzz_between(in, 0, 9);
    a->softcap = fuzz_choice(in, 4) ? 0 : 1 + fuzz_choice(in, 30);
    a->scale = fuzz_choice(in, 4) ? 0 : fuzz_choice(in, 8) / 4.0;
    a->order = fuzz_choice(in, 2) ? GYRE_ORDER_FIXED : GYRE_ORDER_FAST;
    c->scale = a->scale != 0 ? a->scale : 1 / sqrt((double)c->dim);
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
    const double amplitude = fuzz_choice(in, 4) ? 1 : fuzz_choice(in, 6);
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
    fuzz_positions_make(&c->positions, &in, c->dim, c->heads, &random);
    c->args.encoding = c->positions.encoding;
    c->args.tables = &c->positions.tables;
    choose_positions(c, &in, &random);
    choose_options(c, &in, &random);
    make_views(c, &in, &random);
    const size_t rows = (size_t)(c->batch * c->queries * c->heads);
    c->weight = fuzz_room(rows * (size_t)c->keys, sizeof *c->weight);
    c->score = fuzz_room(rows * (size_t)c->keys, sizeof *c->score);
    c->out = fuzz_room(rows * (size_t)c->channels, sizeof *c->out);
    c->lse = fuzz_room(rows, sizeof *c->lse);
    return c->positions.encoding != NULL;
}

static void free_call(call *c) {
    void *all[] = {c->weight, c->score, c->out, c->lse, c->at[0], c->at[1]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    for (int i = 0; i < PARTS; i++)
        fuzz_view_free(&c->part[i]);
    fuzz_positions_free(&c->positions);
}

/* -- the definition -- */
static int visible(const call *c, int64_t b, int64_t i, int64_t j) {
    const gyre_attention_args *a = &c->args;
    const int by_order = a->causal == GYRE_CAUSAL_BY_ORDER;
    const int64_t m = by_order ? i + c->keys - c->queries : c->at[0][b * c->queries + i];
    const int64_t n = by_order ? j : c->at[1][b * c->keys + j];
    if (a->causal && n > m) return 0;
    const int64_t after = a->window_after ? a->window_after : a->window;
    if ((a->window == 0 || m - n < a->window) && (after == 0 || n - m < after)) return 1;
    return a->sinks > 0 && n < a->sinks;
}

static void read_head(const call *c, part which, int64_t b, int64_t t, int64_t h, int rotated, double *x) {
    const int64_t channels = c->part[which].view.shape[3];
    for (int64_t i = 0; i < channels; i++)
        x[i] = fuzz_view_at(&c->part[which], b, t, h, i);
    if (rotated) fuzz_positions_rotate(&c->positions, c->at[which == K][b * (which == K ? c->keys : c->queries) + t], 1, x);
}

/* *raw = the score before the softcap. */
static double score_of(call *c, int64_t b, int64_t i, int64_t h, int64_t j, const double *q) {
    double k[MOST_CHANNELS], sum = 0;
    if (!visible(c, b, i, j)) return -INFINITY;
    read_head(c, K, b, j, h / (c->heads / c->key_heads), 1, k);
    for (int64_t n = 0; n < c->dim; n++)
        sum += q[n] * k[n];
    double s =
        c->scale * sum + fuzz_positions_bias(&c->positions, h, c->at[0][b * c->queries + i], c->at[1][b * c->keys + j]);
    if (c->args.softcap > 0) s = c->args.softcap * tanh(s / c->args.softcap);
    if (c->part[MASK].view.data) s += fuzz_view_at(&c->part[MASK], b, i, h, j);
    if (s > -INFINITY) c->largest = fmax(c->largest, fmax(fabs(s), fabs(c->scale * sum)));
    return s;
}

static void define_row(call *c, int64_t b, int64_t i, int64_t h) {
    const int64_t row = (b * c->queries + i) * c->heads + h;
    double *weight = c->weight + row * c->keys, *score = c->score + row * c->keys, *out = c->out + row * c->channels;
    double q[MOST_CHANNELS], v[MOST_CHANNELS], most = c->args.sink_logits.data ? (double)c->sink[h] : -INFINITY;
    const double sink = most;
    read_head(c, Q, b, i, h, 1, q);
    for (int64_t j = 0; j < c->keys; j++)
        most = fmax(most, score[j] = score_of(c, b, i, h, j, q));
    double sum = most > -INFINITY ? exp(sink - most) : 0;
    for (int64_t j = 0; j < c->keys; j++)
        sum += weight[j] = most > -INFINITY ? exp(score[j] - most) : 0;
    c->lse[row] = sum > 0 ? most + log(sum) : -INFINITY;
    for (int64_t j = 0; j < c->keys && sum > 0; j++) {
        weight[j] /= sum;
        read_head(c, V, b, j, h / (c->heads / c->key_heads), 0, v);
        for (int64_t n = 0; n < c->channels; n++)
            out[n] += weight[j] * v[n];
    }
}

static void for_each_row(call *c, void (*fn)(call *, int64_t, int64_t, int64_t)) {
    for (int64_t b = 0; b < c->batch; b++)
        for (int64_t i = 0; i < c->queries; i++)
            for (int64_t h = 0; h < c->heads; h++)
                fn(c, b, i, h);
}

/* -- forward -- */
static void check_row(call *c, int64_t b, int64_t i, int64_t h) {
    const int64_t row = (b * c->queries + i) * c->heads + h;
    const double lse = fuzz_view_at(&c->part[LSE], b, i, h, 0), error = 1e-5 * (1 + c->largest);
    if (c->lse[row] == -INFINITY)
        fuzz_require(lse == -INFINITY, "a row without keys has lse -infinity");
    else
        fuzz_require(fabs(lse - c->lse[row]) <= error, "lse is that of the definition");
    for (int64_t n = 0; n < c->channels; n++) {
        const double want = c->out[row * c->channels + n], got = fuzz_view_at(&c->part[OUT], b, i, h, n);
        fuzz_require(fabs(got - want) <= error + fuzz_rounding(c->part[OUT].view.dtype, want),
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
    double *q, *k, *v; /* dense, as the views are shaped */
} gradients;

static gradients *found; /* for_each_row hands nothing else through */

static void define_gradient_row(call *c, int64_t b, int64_t i, int64_t h) {
    const int64_t row = (b * c->queries + i) * c->heads + h, group = h / (c->heads / c->key_heads);
    double q[MOST_CHANNELS], k[MOST_CHANNELS], v[MOST_CHANNELS], dout[MOST_CHANNELS], dq[MOST_CHANNELS] = {0}, total = 0;
    read_head(c, Q, b, i, h, 1, q);
    read_head(c, DOUT, b, i, h, 0, dout);
    for (int64_t n = 0; n < c->channels; n++)
        total += dout[n] * c->out[row * c->channels + n];
    for (int64_t j = 0; j < c->keys; j++) {
        const double weight = c->weight[row * c->keys + j];
        double back[MOST_CHANNELS], dot = 0;
        const int64_t key = (b * c->keys + j) * c->key_heads + group;
        if (weight == 0) continue;
        read_head(c, K, b, j, group, 1, k);
        read_head(c, V, b, j, group, 0, v);
        for (int64_t n = 0; n < c->channels; n++) {
            dot += dout[n] * v[n];
            found->v[key * c->channels + n] += weight * dout[n];
        }
        double ds = weight * (dot - total) * c->scale;
        if (c->args.softcap > 0) {
            const double mask = c->part[MASK].view.data ? fuzz_view_at(&c->part[MASK], b, i, h, j) : 0;
            const double t = (c->score[row * c->keys + j] - mask) / c->args.softcap;
            ds *= 1 - t * t;
        }
        for (int64_t n = 0; n < c->dim; n++) {
            dq[n] += ds * k[n];
            back[n] = ds * q[n];
        }
        fuzz_positions_rotate(&c->positions, c->at[1][b * c->keys + j], -1, back);
        for (int64_t n = 0; n < c->dim; n++)
            found->k[key * c->dim + n] += back[n];
    }
    fuzz_positions_rotate(&c->positions, c->at[0][b * c->queries + i], -1, dq);
    memcpy(found->q + row * c->dim, dq, (size_t)c->dim * sizeof *dq);
}

static double largest_of(const double *x, size_t n) {
    double most = 0;
    for (size_t i = 0; i < n; i++)
        most = fmax(most, fabs(x[i]));
    return most;
}

/* out and lse were rounded before the gradient reads them, so an error of out is one of every weight's gradient. */
static void check_part(const call *c, part which, const double *want, double error) {
    const int64_t *s = c->part[which].view.shape;
    for (int64_t i = 0; i < s[0] * s[1] * s[2] * s[3]; i++)
        fuzz_require(
            fabs(fuzz_view_at(&c->part[which], i / s[3] / s[2] / s[1], i / s[3] / s[2] % s[1], i / s[3] % s[2], i % s[3]) -
                 want[i]) <= error,
            "a gradient is that of the definition");
}

static void check_gradient(call *c, const gyre_exec *exec) {
    gyre_error err = {0, ""};
    const gyre_cview dout = gyre_const(c->part[DOUT].view);
    const gyre_view dqkv[3] = {c->part[DQ].view, c->part[DK].view, c->part[DV].view};
    const size_t q = (size_t)(c->batch * c->queries * c->heads), k = (size_t)(c->batch * c->keys * c->key_heads);
    const size_t d = (size_t)c->dim, e = (size_t)c->channels;
    gradients g = {fuzz_room(q * d, sizeof(double)), fuzz_room(k * d, sizeof(double)), fuzz_room(k * e, sizeof(double))};
    const scratch s = scratch_make(&c->args, 1, exec);
    const gyre_status status = gyre_attention_gradient(&c->args, &dout, dqkv, NULL, s.memory, s.bytes, exec, &err);
    free(s.memory);
    fuzz_require_error(status, &err);
    fuzz_require(status == GYRE_OK, "what is computed has a gradient");
    found = &g;
    for_each_row(c, define_gradient_row);
    const double rounded = fuzz_rounding(c->part[OUT].view.dtype, 1), factor = c->positions.factor * c->positions.factor;
    const double most = fmax(largest_of(g.q, q * d), fmax(largest_of(g.k, k * d), largest_of(g.v, k * e)));
    const double sums = (double)(c->queries * c->heads + c->keys + 1), reach = fmax(1, c->scale) * fmax(1, factor) * 6;
    const double error = 1e-5 * (1 + c->largest) * (1 + most) * reach + rounded * reach * (double)e * sums;
    check_part(c, DQ, g.q, error);
    check_part(c, DK, g.k, error);
    check_part(c, DV, g.v, error);
    free(g.q);
    free(g.k);
    free(g.v);
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
        for_each_row(&c, define_row);
        for_each_row(&c, check_row);
        check_threads(&c, &exec);
        check_gradient(&c, c.batch > 1 ? &exec : NULL);
    }
    free_call(&c);
    return 0;
}
