/* fuzz_attention_check.c: calls of fuzz_attention_call.h against their definitions in double.  Two threads and one have the
 * same bits, in the fixed order a sequence in pieces has those of the whole, and a refused call changes nothing. */
#include "attention_setup.h"
#include "fuzz_attention_call.h"
#include "fuzz_frequencies.h"
#include "fuzz_phases.h"
#include "fuzz_support.h"
#include "naive_philox.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* -- the definition -- */
/* out = channels of a row of c->row. */
static int64_t channels_of(const call *c, part which) {
    return which == K ? c->dim : c->part[which].view.shape[3];
}

/* Once, because each is part of many pairs. */
static void read_rows(call *c) {
    for (part which = Q; which < OUT; which++) {
        const int64_t *s = c->part[which].view.shape;
        const int64_t channels = channels_of(c, which);
        c->row[which] = fuzz_room((size_t)(s[0] * s[1] * s[2] * channels), sizeof(double));
        c->most[which] = fuzz_room((size_t)(s[0] * s[1] * s[2]), sizeof(double));
        for (int64_t i = 0; i < s[0] * s[1] * s[2]; i++) {
            const int64_t b = i / s[2] / s[1], t = i / s[2] % s[1];
            double *x = c->row[which] + i * channels;
            for (int64_t n = 0; n < s[3]; n++)
                x[n] = fuzz_view_at(&c->part[which], b, t, i % s[2], n);
            if ((which == Q || which == K) && !c->turning)
                fuzz_positions_rotate(&c->positions, fuzz_attention_place(c, which == K, b, t, i % s[2]), 1, x);
            for (int64_t n = 0; n < s[3]; n++)
                c->most[which][i] = fmax(c->most[which][i], fabs(x[n]));
        }
    }
}

static const double *row_at(const call *c, part which, int64_t b, int64_t t, int64_t h) {
    const int64_t *s = c->part[which].view.shape;
    return c->row[which] + ((b * s[1] + t) * s[2] + h) * channels_of(c, which);
}

static fuzz_pair pair_of(const call *c, int64_t b, int64_t i, int64_t h, int64_t j, const double *q, const double *k) {
    const int64_t *m = fuzz_attention_place(c, 0, b, i, h),
                  *n = fuzz_attention_place(c, 1, b, j, fuzz_attention_group(c, h));
    return (fuzz_pair){.head = h, .m = *m, .n = *n, .q = q, .k = k};
}

static fuzz_rotated_pair turned_of(const call *c, int64_t b, int64_t i, int64_t h, int64_t j, const fuzz_pair *pair) {
    const int64_t *m = fuzz_attention_place(c, 0, b, i, h),
                  *n = fuzz_attention_place(c, 1, b, j, fuzz_attention_group(c, h));
    return (fuzz_rotated_pair){m, n, pair->q, pair->k};
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
    const double *factors = fuzz_tables_factors(&c->positions.tables, pair);
    for (int64_t n = 0; n < c->dim; n++)
        sum.of += pair->q[n] * pair->k[n] * (factors ? factors[n] : 1);
    sum.of += fuzz_tables_product(&c->positions.tables, pair);
    return sum;
}

static double score_of(call *c, int64_t b, int64_t i, int64_t h, int64_t j, const double *q) {
    if (!fuzz_attention_visible(c, b, i, h, j)) return -INFINITY;
    const fuzz_pair pair = pair_of(c, b, i, h, j, q, row_at(c, K, b, j, fuzz_attention_group(c, h)));
    const fuzz_rotated_pair turned = turned_of(c, b, i, h, j, &pair);
    const fuzz_number product = c->turning ? fuzz_pair_rotation_product(&c->turns, &turned) : product_of(c, &pair);
    double sum = product.of, *off = &c->score_off[(b * c->queries + i) * c->heads + h];
    *off = fmax(*off, fabs(c->scale) * product.error);
    if (*off > 1) c->is_vague = 1;
    double s = c->scale * sum + fuzz_positions_bias(&c->positions, h, pair.m, pair.n) +
               fuzz_tables_relative(&c->positions.tables, &pair);
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
    if (c->turning) fuzz_pair_rotation_at(&c->turns, fuzz_attention_length(c, b, i, h));
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
        memcpy(v, row_at(c, V, b, j, fuzz_attention_group(c, h)), (size_t)c->channels * sizeof *v);
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
    const fuzz_view *weights = &c->part[WEIGHTS];
    const int64_t at = i - c->args.weights_first;
    for (int64_t j = 0; weights->view.data && at >= 0 && at < weights->view.shape[1] && j < c->keys; j++)
        fuzz_require(fabs(fuzz_view_at(weights, b, at, h, j) - c->weight[row * c->keys + j]) <= error,
                     "weights are those of the definition");
}

static gyre_status forward(const attention_setup *args, const gyre_exec *exec, gyre_error *err) {
    const fuzz_scratch s = fuzz_scratch_make(attention_scratch(args, 0, exec));
    const gyre_status status = run_attention(args, (gyre_scratch){s.memory, s.bytes}, exec, err);
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
    attention_setup args = c->args;
    args.out = out.view;
    args.lse = lse.view;
    args.weights = (gyre_view){.data = NULL};
    fuzz_require(!forward(&args, exec, &err), "a call that one thread does, two do");
    fuzz_views_require_same(&out, &c->part[OUT], "threads change no bit of out");
    fuzz_views_require_same(&lse, &c->part[LSE], "threads change no bit of lse");
    fuzz_view_free(&out);
    fuzz_view_free(&lse);
}

/* out = queries first .. first + count - 1. */
static fuzz_view queries_of(const fuzz_view *whole, int64_t first, int64_t count) {
    fuzz_view out = *whole;
    const int64_t at = first * out.view.stride[1] * (int64_t)gyre_dtype_size(out.view.dtype);
    if (out.view.data) out.view.data = (char *)out.view.data + at;
    out.view.shape[1] = count;
    return out;
}

/* Queries of a call by themselves, with all its keys. */
static void check_queries(call *c, int64_t first, int64_t count) {
    fuzz_bytes none = {NULL, 0};
    gyre_error err = {0, ""};
    attention_setup args = c->args;
    const fuzz_view q = queries_of(&c->part[Q], first, count), mask = queries_of(&c->part[MASK], first, count);
    const fuzz_view whole[2] = {queries_of(&c->part[OUT], first, count), queries_of(&c->part[LSE], first, count)};
    fuzz_view out = fuzz_view_make(&none, c->part[OUT].view.dtype, c->batch, count, c->heads, c->channels),
              lse = fuzz_view_make(&none, c->part[LSE].view.dtype, c->batch, count, c->heads, 1);
    args.q = gyre_const(q.view);
    if (args.mask.data) args.mask = gyre_const(mask.view);
    args.out = out.view;
    args.lse = lse.view;
    args.weights = (gyre_view){.data = NULL};
    if (args.q_pos.data)
        args.q_pos.data = (const int64_t *)args.q_pos.data + first * args.q_pos.stride_token;
    else
        args.q_pos.base += first;
    fuzz_require(!forward(&args, NULL, &err), "queries of a legal call are one");
    fuzz_views_require_same(&out, &whole[0], "in the fixed order a cut changes no bit of out");
    fuzz_views_require_same(&lse, &whole[1], "in the fixed order a cut changes no bit of lse");
    fuzz_view_free(&out);
    fuzz_view_free(&lse);
}

/* In the fixed order, and where nothing counts the queries of a call. */
static void check_pieces(call *c) {
    const int counts = c->args.dropout > 0 || c->args.causal == GYRE_CAUSAL_BY_ORDER ||
                       c->positions.config.length_policy == GYRE_LENGTH_POLICY_PREFIX;
    if (c->args.order != GYRE_ORDER_FIXED || counts || c->queries < 2 || c->keys == 0) return;
    check_queries(c, 0, (c->queries + 1) / 3);
    check_queries(c, (c->queries + 1) / 3, c->queries - (c->queries + 1) / 3);
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
    const double *factors = fuzz_tables_factors(&c->positions.tables, pair);
    for (int64_t n = 0; n < c->dim; n++) {
        const double of = c->scale * ds.of * factor[n >= first].of * (factors ? factors[n] : 1);
        dq[n] += of * pair->k[n];
        dk[n] += of * pair->q[n];
    }
}

/* The same where the rotation is of the pair. */
static void add_turned_gradient(const call *c, const fuzz_rotated_pair *turned, fuzz_number ds, int64_t row, int64_t key) {
    const double size =
        fuzz_pair_rotation_gradient(&c->turns, turned, c->scale * ds.of, found->q + row * c->dim, found->k + key * c->dim);
    const double off = fabs(c->scale) * size * (ds.error + 1e-5 * fabs(ds.of));
    found->of_q[2 * row] += off * c->most[K][key];
    found->of_k[2 * key] += off * c->most[Q][row];
}

static void define_gradient_row(call *c, int64_t b, int64_t i, int64_t h) {
    const int64_t row = (b * c->queries + i) * c->heads + h, group = fuzz_attention_group(c, h);
    const double *out = c->out + row * c->channels;
    const double *q = row_at(c, Q, b, i, h), *dout = row_at(c, DOUT, b, i, h);
    double v[MOST_CHANNELS], total = 0, *dq = found->q + row * c->dim;
    fuzz_tables *tables = &c->positions.tables;
    if (c->turning) fuzz_pair_rotation_at(&c->turns, fuzz_attention_length(c, b, i, h));
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
        fuzz_tables_relative_gradient(tables, &pair, (fuzz_number){ds, error}, dq);
        if (fuzz_tables_relative_channels(tables) > 0)
            found->of_q[2 * row] += error + 1e-5 * fabs(ds); /* numbers of tables are within 1 */
        fuzz_tables_product_gradient(tables, &pair, (fuzz_number){c->scale * ds, fabs(c->scale) * error}, dq, dk);
        const fuzz_rotated_pair turned = turned_of(c, b, i, h, j, &pair);
        if (c->turning)
            add_turned_gradient(c, &turned, (fuzz_number){ds, error}, row, key);
        else
            add_product_gradient(c, &pair, (fuzz_number){ds, error}, row, key);
    }
    if (!c->turning) fuzz_positions_rotate(&c->positions, fuzz_attention_place(c, 0, b, i, h), -1, dq);
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
    const int64_t *s = v->view.shape, channels = which == DK ? c->dim : s[3];
    for (int64_t i = 0; i < s[0] * s[1] * s[2] * s[3]; i++) {
        const double of = want[i / s[3] * channels + i % s[3]];
        const double got = fuzz_view_at(v, i / s[3] / s[2] / s[1], i / s[3] / s[2] % s[1], i / s[3] % s[2], i % s[3]);
        const double rotated = turns ? 2 * fmax(1, c->positions.factor) : 1;
        fuzz_require(fabs(got - of) <= rotated * off[2 * (i / s[3]) + (i % s[3] >= first)] + 1e-5 * fabs(of) + 1e-6,
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
    const fuzz_scratch s = fuzz_scratch_make(attention_scratch(&c->args, 1, exec));
    const gyre_status status = run_attention_gradient(
        &c->args,
        GYRE_ARGS(gyre_attention_gradients, .dout = dout, .dq = dqkv[0], .dk = dqkv[1], .dv = dqkv[2], .tables = tables),
        (gyre_scratch){s.memory, s.bytes}, exec, &err);
    free(s.memory);
    fuzz_require_error(status, &err);
    fuzz_require(!status, "what is computed has a gradient");
    found = &g;
    if (!c->is_vague) for_each_row(c, define_gradient_row);
    for (int64_t i = 0; i < c->batch * c->keys * c->key_heads && !c->turning; i++) { /* dk was summed as keys are rotated */
        const int64_t b = i / c->key_heads / c->keys, t = i / c->key_heads % c->keys;
        fuzz_positions_rotate(&c->positions, fuzz_attention_place(c, 1, b, t, i % c->key_heads), -1, g.k + i * c->dim);
    }
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
    const fuzz_scratch s = fuzz_scratch_make(attention_scratch(&c->args, 0, NULL));
    memset(c->part[OUT].view.data, 0x5a, c->part[OUT].bytes);
    const gyre_status status = run_attention(&c->args, (gyre_scratch){s.memory, 64}, NULL, &err);
    fuzz_require_error(status, &err);
    fuzz_require(!status || status == GYRE_ENOMEM, "too little scratch is refused as such");
    for (size_t i = 0; i < c->part[OUT].bytes && status; i++)
        fuzz_require(((unsigned char *)c->part[OUT].view.data)[i] == 0x5a, "a refused call writes nothing");
    memset(c->part[OUT].view.data, 0, c->part[OUT].bytes);
    free(s.memory);
}

/* -- the simple call -- */
/* Dense floats at positions that count up: the simple call has the bits of the complete one. */
static void check_simple(const call *c) {
    gyre_attention_dense_args dense = GYRE_INIT(gyre_attention_dense_args);
    attention_setup args = GYRE_INIT(attention_setup);
    const int64_t q = c->batch * c->queries * c->heads * c->dim, k = c->batch * c->keys * c->key_heads * c->dim;
    test_random random = {7};
    gyre_error err = {0, ""};
    if (q == 0) return; /* nothing to write is no error */
    float *memory = fuzz_room((size_t)(3 * q + 2 * k), sizeof *memory);
    int has_tables = 0;
    test_fill(&random, memory, (size_t)(q + 2 * k));
    for (int i = 0; i < FUZZ_TABLES; i++)
        has_tables |= c->positions.tables.table[i].view.data != NULL;
    dense.batch = c->batch, dense.queries = c->queries, dense.keys = c->keys, dense.heads = c->heads;
    dense.kv_heads = c->key_heads, dense.head_dim = c->dim, dense.causal = args.causal = c->args.causal;
    dense.window = args.window = c->args.window, dense.window_after = args.window_after = c->args.window_after;
    dense.scale = args.scale = c->args.scale, dense.softcap = args.softcap = c->args.softcap;
    dense.context_length = args.q_pos.context_length = c->args.q_pos.context_length;
    float *const out[2] = {memory + q + 2 * k, memory + 2 * q + 2 * k};
    dense.encoding = c->args.encoding;
    dense.q = memory, dense.k = memory + q, dense.v = memory + q + k, dense.out = out[0];
    const gyre_status status = gyre_attention_dense(&dense, &err);
    fuzz_require_error(status, &err);
    fuzz_require(status == (has_tables ? GYRE_EINVAL : GYRE_OK), "the simple call is for encodings without tables");
    args.encoding = c->args.encoding;
    args.q_pos.base = c->keys - c->queries;
    args.q = gyre_cdense(memory, GYRE_DTYPE_F32, c->batch, c->queries, c->heads, c->dim);
    args.k = gyre_cdense(memory + q, GYRE_DTYPE_F32, c->batch, c->keys, c->key_heads, c->dim);
    args.v = gyre_cdense(memory + q + k, GYRE_DTYPE_F32, c->batch, c->keys, c->key_heads, c->dim);
    args.out = gyre_dense(out[1], GYRE_DTYPE_F32, c->batch, c->queries, c->heads, c->dim);
    if (!status) fuzz_require(!forward(&args, NULL, &err), "and so is the complete one");
    fuzz_require(status || memcmp(out[0], out[1], (size_t)q * sizeof *memory) == 0, "simple and complete agree");
    free(memory);
}

/* A rotation that follows the length in use needs to know it past the trained length.  Then each row is told that one, under
 * which the definition has the numbers that it has without. */
static void tell_lengths(call *c) {
    const gyre_config *config = &c->positions.config;
    gyre_error err = {0, ""};
    if (!c->turning || config->context_length > 0 || config->length_policy != GYRE_LENGTH_POLICY_DECLARED) return;
    if (!fuzz_follows_length(config)) return;
    const gyre_status status = forward(&c->args, NULL, &err);
    fuzz_require(!status || (status == GYRE_EINVAL && strstr(err.text, "past the trained length")),
                 "a call whose length is open is done or refused");
    if (c->args.q_pos.context_length == 0) c->args.q_pos.context_length = config->trained_length;
    for (int64_t b = 0; b < c->batch; b++)
        if (c->lengths[b] == 0) c->lengths[b] = config->trained_length;
    memset(c->part[OUT].view.data, 0, c->part[OUT].bytes);
    memset(c->part[LSE].view.data, 0, c->part[LSE].bytes);
}

void fuzz_attention_judge(const uint8_t *data, size_t size, int turning) {
    static gyre_pool *pool;
    static call c;
    gyre_error err = {0, ""};
    if (!pool) fuzz_require(!gyre_pool_create(&pool, 2, NULL), "two threads");
    const gyre_exec exec = gyre_pool_exec(pool);
    if (fuzz_attention_make(&c, data, size, turning)) {
        tell_lengths(&c);
        check_refusal(&c);
        const gyre_status status = forward(&c.args, NULL, &err);
        fuzz_require(!status, "a legal call is done");
        read_rows(&c);
        for_each_row(&c, define_row);
        if (!c.is_vague) for_each_row(&c, check_row);
        check_threads(&c, &exec);
        check_pieces(&c);
        fuzz_attention_check_packed(&c, forward);
        check_gradient(&c, c.batch > 1 ? &exec : NULL);
        check_simple(&c);
    }
    fuzz_attention_free(&c);
}
