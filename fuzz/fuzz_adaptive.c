/* fuzz_adaptive.c: legal calls of gyre_adaptive_attention and its gradient, chosen by the bytes, against their definitions
 * in double (fuzz_network.h, fuzz_tables.h).  Two threads and other strides have the bits of one call, and so do queries
 * that are cut out of their sequence, and keys in a cache.  Keys and biases that no query sees may be NaN.  A refused call
 * writes nothing. */
#include "fuzz_adaptive_call.h"
#include "fuzz_cached.h"
#include "fuzz_support.h"
#include "scratch_bytes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const double ROUNDING = 0x1p-24;

/* -- the definition -- */
/* A query of all heads: its pairs, and of each head the softmax. */
typedef struct row {
    call *c;
    sequence at;
    int64_t query, seen;
    fuzz_network_pair *pair; /* [seen] */
    fuzz_number *weight;     /* [heads][seen] */
    fuzz_number lse, total;  /* total: dout . out */
} row;

static fuzz_number *want_at(const call *c, part which, int64_t b, int64_t t, int64_t h, int64_t channel) {
    const int64_t *s = c->part[which].view.shape;
    return &c->want[which][((b * s[1] + t) * s[2] + h) * s[3] + channel];
}

/* Once, because each is part of many pairs. */
static void read_rows(call *c) {
    static const part parts[] = {Q, K, V, DOUT};
    for (int n = 0; n < 4; n++) {
        const fuzz_view *v = &c->part[parts[n]];
        const int64_t *s = v->view.shape, count = s[0] * s[1] * s[2] * s[3];
        double *x = c->row[parts[n]] = fuzz_room((size_t)count, sizeof *x);
        for (int64_t i = 0; i < count; i++)
            x[i] = fuzz_view_at(v, i / s[3] / s[2] / s[1], i / s[3] / s[2] % s[1], i / s[3] % s[2], i % s[3]);
    }
}

static const double *of_query(const row *r, part which, int64_t h) {
    const int64_t *s = r->c->part[which].view.shape;
    return r->c->row[which] + ((r->at.batch * s[1] + r->at.query + r->query) * s[2] + h) * s[3];
}

static const double *of_key(const row *r, part which, int64_t j, int64_t h) {
    const int64_t *s = r->c->part[which].view.shape, group = r->c->heads / s[2];
    return r->c->row[which] + ((r->at.batch * s[1] + r->at.key + j) * s[2] + h / group) * s[3];
}

static fuzz_number number(double x) {
    return (fuzz_number){x, ROUNDING * fabs(x)};
}

/* FIRE's is a sum of up to eight units within 1, of numbers near 1. */
static fuzz_number bias_of(const row *r, int64_t h, int64_t j) {
    const call *c = r->c;
    const int64_t m = fuzz_adaptive_position(c, &r->at, 0, r->query), n = fuzz_adaptive_position(c, &r->at, 1, j);
    fuzz_number bias = {0, 0};
    if (c->args.encoding) {
        bias.of = fuzz_positions_bias(&c->positions, h, m, n);
        bias.error = 4 * ROUNDING * (fabs(bias.of) + (c->positions.config.kind == GYRE_KIND_FIRE ? 20 : 0));
    }
    if (!c->has_bias) return bias;
    const double more = fuzz_view_at(&c->part[BIAS], r->at.batch, r->at.query + r->query, h, r->at.padding + j);
    bias.of += more;
    bias.error += 2 * ROUNDING * (fabs(more) + fabs(bias.of));
    return bias;
}

static void define_pair(const row *r, int64_t j) {
    const call *c = r->c;
    const int64_t d = c->dim;
    fuzz_number products[FUZZ_NETWORK_HEADS] = {{0, 0}}, biases[FUZZ_NETWORK_HEADS];
    for (int64_t h = 0; h < c->heads; h++) {
        const double *q = of_query(r, Q, h), *k = of_key(r, K, j, h);
        for (int64_t i = 0; i < d; i++)
            fuzz_number_add(&products[h], number(c->scale * q[i]), number(k[i]), d + 4);
        biases[h] = bias_of(r, h, j);
    }
    fuzz_network_run(&c->network, products, biases, &r->pair[j]);
}

/* *lse and the weights of a head.  An exponential has the error of its score and a few roundings. */
static void define_weights(row *r, int64_t h) {
    double most = -INFINITY, sum = 0, off = 0;
    fuzz_number *weight = r->weight + h * r->seen;
    for (int64_t j = 0; j < r->seen; j++) {
        const fuzz_number score = r->pair[j].score[h];
        most = fmax(most, score.of);
        off = fmax(off, score.error + 4 * ROUNDING * fabs(score.of));
    }
    for (int64_t j = 0; j < r->seen; j++)
        sum += weight[j].of = exp(r->pair[j].score[h].of - most);
    r->lse = (fuzz_number){-INFINITY, 0};
    if (r->seen > 0) r->lse = (fuzz_number){most + log(sum), fmin(300, off + ROUNDING * (16 + 2 * fabs(most + log(sum))))};
    for (int64_t j = 0; j < r->seen; j++) {
        weight[j].of /= sum;
        weight[j].error = weight[j].of * expm1(2 * r->lse.error) + 0x1p-99; /* below 2^-100 they are 0 */
    }
    *want_at(r->c, LSE, r->at.batch, r->at.query + r->query, h, 0) = r->lse;
}

/* out, and dout . out as the gradient reads it: of the numbers that were stored. */
static void define_out(row *r, int64_t h) {
    const call *c = r->c;
    const int64_t e = c->channels;
    r->total = (fuzz_number){0, 0};
    for (int64_t i = 0; i < e; i++) {
        fuzz_number *out = want_at(c, OUT, r->at.batch, r->at.query + r->query, h, i), stored;
        for (int64_t j = 0; j < r->seen; j++)
            fuzz_number_add(out, r->weight[h * r->seen + j], number(of_key(r, V, j, h)[i]), r->seen + 8);
        stored = *out;
        stored.error += fuzz_rounding(c->part[OUT].view.dtype, fabs(out->of) + out->error);
        fuzz_number_add(&r->total, number(of_query(r, DOUT, h)[i]), stored, e + 2);
    }
}

/* *ds = the gradient to the score of a pair, and dv of it. */
static fuzz_number define_value(const row *r, int64_t h, int64_t j) {
    const call *c = r->c;
    const int64_t e = c->channels, group = c->heads / c->key_heads;
    const fuzz_number weight = r->weight[h * r->seen + j];
    const double *dout = of_query(r, DOUT, h), *v = of_key(r, V, j, h);
    fuzz_number slope = {0, 0}, ds = {0, 0}, *dv = want_at(c, DV, r->at.batch, r->at.key + j, h / group, 0);
    for (int64_t i = 0; i < e; i++) {
        const fuzz_number from = number(dout[i]);
        fuzz_number_add(&slope, from, number(v[i]), e + 2);
        fuzz_number_add(&dv[i], weight, from, r->at.queries * group + 8);
    }
    slope.of -= r->total.of;
    slope.error += r->total.error + ROUNDING * fabs(slope.of);
    fuzz_number_add(&ds, weight, slope, 4);
    return ds;
}

static void define_products_gradient(const row *r, int64_t j, const fuzz_number *dproducts) {
    const call *c = r->c;
    const int64_t group = c->heads / c->key_heads;
    for (int64_t h = 0; h < c->heads; h++) {
        const double *q = of_query(r, Q, h), *k = of_key(r, K, j, h);
        fuzz_number *dq = want_at(c, DQ, r->at.batch, r->at.query + r->query, h, 0),
                    *dk = want_at(c, DK, r->at.batch, r->at.key + j, h / group, 0);
        for (int64_t i = 0; i < c->dim; i++) {
            fuzz_number_add(&dq[i], dproducts[h], number(c->scale * k[i]), r->seen + 8);
            fuzz_number_add(&dk[i], dproducts[h], number(c->scale * q[i]), r->at.queries * group + 8);
        }
    }
}

static void define_pair_gradient(const row *r, int64_t j, const fuzz_number *dscores) {
    call *c = r->c;
    const fuzz_network_gradients to = {c->want[DW1], c->want[DB1], c->want[DW2], c->want[DB2]};
    fuzz_number dproducts[FUZZ_NETWORK_HEADS], dbiases[FUZZ_NETWORK_HEADS];
    fuzz_network_back(&c->network, &r->pair[j], dscores, &to, dproducts, dbiases);
    define_products_gradient(r, j, dproducts);
    for (int64_t h = 0; h < c->heads; h++) {
        const fuzz_pair pair = {
            .head = h, .m = fuzz_adaptive_position(c, &r->at, 0, r->query), .n = fuzz_adaptive_position(c, &r->at, 1, j)};
        if (c->args.encoding) fuzz_tables_bias_gradient(&c->positions.tables, &pair, dbiases[h]);
        if (c->has_bias) *want_at(c, DBIAS, r->at.batch, r->at.query + r->query, h, r->at.padding + j) = dbiases[h];
    }
}

static void define_row(row *r) {
    const int64_t heads = r->c->heads;
    fuzz_number dscores[FUZZ_NETWORK_HEADS], *all = fuzz_room((size_t)(heads * r->seen), sizeof *all);
    r->pair = fuzz_room((size_t)r->seen, sizeof *r->pair);
    r->weight = fuzz_room((size_t)(heads * r->seen), sizeof *r->weight);
    for (int64_t j = 0; j < r->seen; j++)
        define_pair(r, j);
    for (int64_t h = 0; h < heads; h++) {
        define_weights(r, h);
        define_out(r, h);
        for (int64_t j = 0; j < r->seen; j++)
            all[h * r->seen + j] = define_value(r, h, j);
    }
    for (int64_t j = 0; j < r->seen; j++) {
        for (int64_t h = 0; h < heads; h++)
            dscores[h] = all[h * r->seen + j];
        define_pair_gradient(r, j, dscores);
    }
    free(all);
    free(r->pair);
    free(r->weight);
}

static void define(call *c) {
    const fuzz_network *n = &c->network; /* which has the biases of both layers, whether or not the call does */
    if (!c->has_biases[0]) c->want[DB1] = fuzz_room((size_t)n->width, sizeof *c->want[DB1]);
    if (!c->has_biases[1]) c->want[DB2] = fuzz_room((size_t)n->heads, sizeof *c->want[DB2]);
    read_rows(c);
    for (int64_t s = 0; s < c->sequences; s++) {
        const sequence at = fuzz_adaptive_sequence(c, s);
        for (int64_t i = 0; i < at.queries; i++)
            define_row(&(row){.c = c, .at = at, .query = i, .seen = fuzz_adaptive_seen(c, &at, i)});
    }
}

/* -- calls -- */
static void forward(const gyre_adaptive_args *args, const gyre_exec *exec) {
    gyre_error err = {0, ""};
    const fuzz_scratch s = fuzz_scratch_make(adaptive_scratch(args, 0, exec));
    const gyre_status status = gyre_adaptive_attention(args, (gyre_scratch){s.memory, s.bytes}, exec, &err);
    free(s.memory);
    fuzz_require_error(status, &err);
    fuzz_require(!status, err.text[0] ? err.text : "a legal call is done");
}

static void backward(const call *c, const gyre_exec *exec) {
    gyre_error err = {0, ""};
    const gyre_cview dout = gyre_const(c->part[DOUT].view);
    const fuzz_scratch s = fuzz_scratch_make(adaptive_scratch(&c->args, 1, exec));
    const gyre_status status =
        gyre_adaptive_gradient(&c->args, &dout, &c->to, (gyre_scratch){s.memory, s.bytes}, exec, &err);
    free(s.memory);
    fuzz_require_error(status, &err);
    fuzz_require(!status, err.text[0] ? err.text : "what is computed has a gradient");
}

/* -- checking -- */
static void check_part(const call *c, part which) {
    const fuzz_view *v = &c->part[which];
    const int64_t *s = v->view.shape;
    const double start = fuzz_adaptive_is_sum(which) ? fuzz_adaptive_start : 0;
    for (int64_t i = 0; i < s[0] * s[1] * s[2] * s[3]; i++) {
        const fuzz_number x = c->want[which][i];
        const double want = x.of + start,
                     got = fuzz_view_at(v, i / s[3] / s[2] / s[1], i / s[3] / s[2] % s[1], i / s[3] % s[2], i % s[3]);
        if (want == got || (v->view.dtype == GYRE_DTYPE_F16 && fabs(want) + x.error > 65000)) continue;
        const double off = x.error + fuzz_rounding(v->view.dtype, fabs(want) + x.error) + 1e-30;
        fuzz_require(fabs(got - want) <= off, "a number is that of the definition");
    }
}

static void check_twin(call *c, const gyre_exec *exec) {
    static const char *const what = "threads and strides change no bit";
    const gyre_view table = c->to.dtable;
    fuzz_adaptive_set_results(c, c->twin);
    if (table.data) c->to.dtable = c->twin_table.view;
    forward(&c->args, exec);
    backward(c, exec);
    for (part i = OUT; i < PARTS; i++)
        if (fuzz_adaptive_has(c, i)) fuzz_views_require_same(&c->part[i], &c->twin[i], what);
    if (table.data) fuzz_views_require_same(&(fuzz_view){table, 0}, &c->twin_table, what);
    fuzz_adaptive_set_results(c, c->part);
    c->to.dtable = table;
}

/* Queries `from` .. `end` - 1 of a sequence as a call of its own, with the keys that they see and the same positions. */
static void check_cut(const call *c, const sequence *at, int64_t from, int64_t end) {
    const int64_t keys = fuzz_adaptive_seen(c, at, end - 1), count = end - from, *o = c->args.out.shape;
    const gyre_dtype out_dtype = c->args.out.dtype, lse_dtype = c->args.lse.dtype;
    gyre_adaptive_args args = c->args;
    gyre_positions positions[2];
    int64_t *numbers[2];
    fuzz_bytes none = {NULL, 0};
    fuzz_view out = fuzz_view_make(&none, out_dtype, 1, count, o[2], o[3]),
              lse = fuzz_view_make(&none, lse_dtype, 1, count, o[2], 1);
    for (int side = 0; side < 2; side++) {
        const int64_t n = side ? keys : count;
        numbers[side] = fuzz_room((size_t)n, sizeof **numbers);
        for (int64_t t = 0; t < n; t++)
            numbers[side][t] = fuzz_adaptive_position(c, at, side, side ? t : from + t);
        positions[side] = (gyre_positions){.data = numbers[side], .dtype = GYRE_DTYPE_I64, .stride_token = 1};
        positions[side].context_length = c->at[side].context_length;
    }
    const fuzz_tokens queries = {at->batch, at->query + from, count}, seen = {at->batch, at->key, keys};
    args.q = fuzz_tokens_of(&c->args.q, &queries);
    args.k = fuzz_tokens_of(&c->args.k, &seen);
    args.v = fuzz_tokens_of(&c->args.v, &seen);
    args.bias = fuzz_tokens_of(&c->args.bias, &queries);
    args.bias.shape[3] = keys;
    if (args.bias.data)
        args.bias.data =
            (const char *)args.bias.data + at->padding * args.bias.stride[3] * (int64_t)gyre_dtype_size(args.bias.dtype);
    args.q_starts = args.k_starts = args.k_first = args.k_end = NULL;
    args.sequences = 0;
    args.q_pos = &positions[0];
    args.k_pos = &positions[1];
    args.out = out.view;
    args.lse = lse.view;
    forward(&args, NULL);
    for (int64_t i = 0; i < count; i++)
        for (int64_t h = 0; h < o[2]; h++) {
            const int64_t query = at->query + from + i;
            for (int64_t e = 0; e < o[3]; e++)
                fuzz_require(fuzz_view_at(&out, 0, i, h, e) == fuzz_view_at(&c->part[OUT], at->batch, query, h, e),
                             "cutting queries changes no bit of out");
            fuzz_require(fuzz_view_at(&lse, 0, i, h, 0) == fuzz_view_at(&c->part[LSE], at->batch, query, h, 0),
                         "cutting queries changes no bit of lse");
        }
    fuzz_view_free(&out);
    fuzz_view_free(&lse);
    free(numbers[0]);
    free(numbers[1]);
}

/* -- over a cache -- */
static void forward_cached(const gyre_cache *cache, const gyre_adaptive_args *args) {
    gyre_error err = {0, ""};
    const int64_t sequence = 0;
    const fuzz_scratch s = fuzz_scratch_make(cache_adaptive_scratch(cache, &sequence, args, NULL));
    const gyre_status status =
        gyre_cache_adaptive_attention(cache, &sequence, args, (gyre_scratch){s.memory, s.bytes}, NULL, &err);
    free(s.memory);
    fuzz_require_error(status, &err);
    fuzz_require(!status, err.text[0] ? err.text : "a legal call over a cache is done");
}

/* Positions of the keys of a sequence, those of its padding too, and of its queries.  out = 1 where the queries stand where
 * a cache takes them to stand by itself. */
static int positions_in_cache(const call *c, const sequence *at, const fuzz_tokens *keys, int64_t *of_keys,
                              int64_t *of_queries) {
    const int64_t end = at->padding + at->keys - at->queries; /* place of the first query */
    int same = end >= 0 && c->at[0].context_length == 0;
    for (int64_t t = 0; t < keys->count; t++)
        of_keys[t] = t < at->padding || t >= at->padding + at->keys ? t - at->padding
                                                                    : fuzz_adaptive_position(c, at, 1, t - at->padding);
    for (int64_t t = 0; t < at->queries; t++) {
        of_queries[t] = fuzz_adaptive_position(c, at, 0, t);
        same = same && of_queries[t] == of_keys[end + t];
    }
    return same;
}

/* The keys of a sequence in a cache, its padding too. */
static void check_cached(const call *c, int64_t s, test_random *random) {
    const sequence at = fuzz_adaptive_sequence(c, s);
    const int64_t end = c->args.k_starts ? c->k_starts[s + 1] - c->k_starts[s] : c->keys, *o = c->args.out.shape;
    const fuzz_tokens keys = {at.batch, at.key - at.padding, end}, queries = {at.batch, at.query, at.queries};
    int64_t *of_keys = fuzz_room((size_t)end, sizeof *of_keys), *of_queries = fuzz_room((size_t)at.queries, sizeof *of_keys);
    fuzz_bytes none = {NULL, 0};
    fuzz_view out = fuzz_view_make(&none, c->args.out.dtype, 1, at.queries, o[2], o[3]),
              lse = fuzz_view_make(&none, c->args.lse.dtype, 1, at.queries, o[2], 1);
    const int by_itself = positions_in_cache(c, &at, &keys, of_keys, of_queries) && test_next(random) % 2;
    gyre_cache *cache = fuzz_cached_make(c->args.encoding, &c->args.k, &c->args.v, &keys, of_keys, random);
    const gyre_positions q_pos = {
        .data = of_queries, .dtype = GYRE_DTYPE_I64, .stride_token = 1, .context_length = c->at[0].context_length};
    gyre_adaptive_args args = c->args;
    args.q = fuzz_tokens_of(&c->args.q, &queries);
    args.bias = fuzz_tokens_of(&c->args.bias, &queries);
    args.bias.shape[3] = end;
    args.q_starts = args.k_starts = NULL;
    args.sequences = 0;
    args.q_pos = by_itself ? NULL : &q_pos;
    args.k_pos = NULL;
    if (args.k_first) args.k_first += s;
    if (args.k_end) args.k_end += s;
    args.out = out.view;
    args.lse = lse.view;
    forward_cached(cache, &args);
    fuzz_cached_require_same(&out, &c->part[OUT], &queries);
    fuzz_cached_require_same(&lse, &c->part[LSE], &queries);
    gyre_cache_free(cache);
    fuzz_view_free(&out);
    fuzz_view_free(&lse);
    free(of_keys);
    free(of_queries);
}

static void check_parts(const call *c, uint64_t seed) {
    test_random random = {1 + seed};
    for (int64_t s = 0; s < c->sequences; s++) {
        const sequence at = fuzz_adaptive_sequence(c, s);
        if (at.queries == 0) continue;
        const int64_t from = (int64_t)(test_next(&random) % (uint64_t)at.queries);
        check_cut(c, &at, from, from + 1 + (int64_t)(test_next(&random) % (uint64_t)(at.queries - from)));
        check_cached(c, s, &random);
    }
}

/* -- refusals -- */
static void fill_results(const call *c, int byte) {
    for (part i = OUT; i < PARTS; i++)
        if (c->part[i].bytes && !fuzz_adaptive_is_sum(i)) memset(c->part[i].view.data, byte, c->part[i].bytes);
}

static void require_untouched(const call *c) {
    for (part i = OUT; i < PARTS; i++)
        for (size_t n = 0; n < c->part[i].bytes && !fuzz_adaptive_is_sum(i); n++)
            fuzz_require(((unsigned char *)c->part[i].view.data)[n] == 0x5a, "a refused call writes nothing");
}

/* Too little scratch, and one argument that is wrong. */
static void check_refusals(call *c, unsigned way) {
    gyre_error err = {0, ""};
    const gyre_cview dout = gyre_const(c->part[DOUT].view);
    const fuzz_scratch s = fuzz_scratch_make(adaptive_scratch(&c->args, 1, NULL));
    gyre_adaptive_args wrong = c->args;
    if (way % 4 == 0) wrong.form = (gyre_adaptive_form)3;
    if (way % 4 == 1) wrong.scale = (double)INFINITY;
    if (way % 4 == 2) wrong.network.hidden_weights.shape[3]++;
    if (way % 4 == 3) wrong.lse.dtype = GYRE_DTYPE_F16;
    fill_results(c, 0x5a);
    const gyre_status too_little = gyre_adaptive_attention(&c->args, (gyre_scratch){s.memory, 64}, NULL, &err);
    fuzz_require(too_little == (c->part[OUT].bytes ? GYRE_ENOMEM : GYRE_OK), "too little scratch, where any is needed");
    fuzz_require_error(too_little, &err);
    fuzz_require(gyre_adaptive_gradient(&c->args, &dout, &c->to, (gyre_scratch){s.memory, 64}, NULL, &err) == GYRE_ENOMEM,
                 "too little scratch for a gradient");
    fuzz_require(gyre_adaptive_attention(&wrong, (gyre_scratch){s.memory, s.bytes}, NULL, &err), "a wrong call is refused");
    fuzz_require_error(GYRE_EINVAL, &err);
    fuzz_require(gyre_adaptive_gradient(&wrong, &dout, &c->to, (gyre_scratch){s.memory, s.bytes}, NULL, &err),
                 "a wrong gradient is refused");
    require_untouched(c);
    fill_results(c, 0);
    free(s.memory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static gyre_pool *pool;
    static call c;
    if (!pool) fuzz_require(!gyre_pool_create(&pool, 2, NULL), "two threads");
    const gyre_exec exec = gyre_pool_exec(pool);
    fuzz_adaptive_make(&c, data, size);
    check_refusals(&c, size > 0 ? data[size - 1] : 0);
    forward(&c.args, NULL);
    backward(&c, NULL);
    define(&c);
    for (part i = OUT; i < PARTS; i++)
        if (fuzz_adaptive_has(&c, i)) check_part(&c, i);
    if (c.args.encoding) fuzz_tables_check(&c.positions.tables);
    check_twin(&c, &exec);
    check_parts(&c, size > 0 ? data[0] : 0);
    fuzz_adaptive_free(&c);
    return 0;
}
