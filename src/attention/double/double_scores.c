/* double_scores.c: the scores of one query, key by key, and their gradient.  The terms are those of gyre_attention:
 *
 *     score = softcap(scale E(m)q . E(n)k + q . A[r] + scale k . B[r] + b(m, n) + c[m] - c[n]) + mask
 *
 * Biases that fall without bound are added as they are: a double keeps the digits that a float would lose. */
#include "attention/double/double_scores.h"
#include "core/scheme.h"
#include "core/table_view.h"
#include <math.h>
#include <string.h>

static const double TURN = 6.283185307179586476925286766559;

static double dot(const double *a, const double *b, int64_t n) {
    double sum = 0;
    for (int64_t c = 0; c < n; c++)
        sum += a[c] * b[c];
    return sum;
}

static void add(double *to, double factor, const double *x, int64_t n) {
    for (int64_t c = 0; c < n; c++)
        to[c] += factor * x[c];
}

/* A key that the query sees, and how both rotate. */
typedef struct pair {
    int64_t row; /* of tables */
    const double *q, *k;
    double *dq, *dk;    /* of a gradient */
    const double *each; /* what channels are multiplied by: xPos's decay, or a row of factors; NULL = nothing */
} pair;

/* out = xPos's decay of each channel over a distance. */
static const double *fill_decay(gyre_double_job *job, int64_t distance) {
    const gyre_attention_plan *plan = job->plan;
    const struct gyre_rope_config *rope = &plan->encoding->config.rope;
    const int64_t pairs = rope->dim / 2;
    const int half = rope->layout == GYRE_LAYOUT_HALF;
    for (int64_t c = 0; c < plan->head_dim; c++)
        job->channels[c] = 1;
    for (int64_t i = 0; i < pairs; i++) {
        const double size = exp2(plan->encoding->xpos_log2_decay[i] * (double)distance);
        job->channels[rope->first_channel + (half ? i : 2 * i)] = size;
        job->channels[rope->first_channel + (half ? i + pairs : 2 * i + 1)] = size;
    }
    return job->channels;
}

/* out = the row of the vector tables; 0 without them. */
static int64_t row_of(const gyre_double_job *job, int64_t j) {
    const gyre_attention_plan *plan = job->plan;
    return plan->table.rows > 0 ? gyre_distance_map_row(&plan->encoding->distance_map, job->at[j] - job->position) : 0;
}

static pair pair_of(gyre_double_job *job, int64_t j) {
    const gyre_attention_plan *plan = job->plan;
    const int64_t n = job->key[j] * plan->key_dim;
    int variant = plan->rotation.variants[GYRE_ROLE_QUERY] - 1;
    while (variant > 0 && job->at[j] > gyre_variant_last_key(&plan->encoding->config, variant, job->position))
        variant--;
    const int of_key = gyre_key_variant(plan, variant);
    double *dk = job->dk[of_key] + (plan->gradient ? n : 0);
    pair p = {row_of(job, j), job->q[variant], job->k[of_key] + n, job->dq[variant], dk, NULL};
    if (plan->rotation.xpos) p.each = fill_decay(job, job->position - job->at[j]);
    if (plan->table.factors) p.each = gyre_double_table_row(&job->query_table, p.row);
    return p;
}

/* -- products -- */

static double product(const gyre_double_job *job, const pair *p) {
    const int64_t n = job->plan->part[0].count;
    double sum = 0;
    if (!p->each) return dot(p->q, p->k, n);
    for (int64_t c = 0; c < n; c++)
        sum += p->q[c] * p->each[c] * p->k[c];
    return sum;
}

static void product_backward(gyre_double_job *job, const pair *p, double dproduct) {
    const int64_t n = job->plan->part[0].count;
    for (int64_t c = 0; c < n; c++) {
        const double each = dproduct * (p->each ? p->each[c] : 1);
        p->dq[c] += each * p->k[c];
        p->dk[c] += each * p->q[c];
    }
    if (!job->plan->table.factors) return;
    for (int64_t c = 0; c < n; c++)
        job->channels[c] = p->q[c] * p->k[c];
    gyre_double_table_add(job, GYRE_TABLE_QUERY, p->row, job->channels, dproduct, n);
}

/* out = the product of the phases. */
static double phase(const gyre_double_job *job, const pair *p) {
    const gyre_channel_part *part = &job->plan->part[1];
    return dot(p->q + part->first, p->k + part->first, part->count);
}

static void products_backward(gyre_double_job *job, int64_t j, const pair *p, double ds) {
    const gyre_channel_part *part = &job->plan->part[1];
    if (job->plan->products == 1) {
        product_backward(job, p, ds);
        return;
    }
    const double turns = TURN * job->turns[j], angle = turns * phase(job, p);
    const double dphase = -ds * product(job, p) * turns * sin(angle);
    product_backward(job, p, ds * cos(angle));
    add(p->dq + part->first, dphase, p->k + part->first, part->count);
    add(p->dk + part->first, dphase, p->q + part->first, part->count);
}

/* -- scores -- */

/* The part of a query that the query table is multiplied with. */
static int64_t table_first(const gyre_attention_plan *plan) {
    return plan->table.query_part.first;
}

static double pair_score(gyre_double_job *job, int64_t j) {
    const gyre_attention_plan *plan = job->plan;
    const pair p = pair_of(job, j);
    double score = product(job, &p);
    if (plan->products > 1) score *= cos(TURN * job->turns[j] * phase(job, &p));
    const double *a = plan->table.query ? gyre_double_table_row(&job->query_table, p.row) : NULL;
    if (a) score += dot(job->table_q + table_first(plan), a, plan->table.query_part.count);
    const double *b = plan->table.key ? gyre_double_table_row(&job->key_table, p.row) : NULL;
    if (b) score += gyre_score_scale(plan) * dot(p.k, b, plan->key_dim);
    return score;
}

static void read_terms(gyre_double_job *job) {
    const gyre_attention_plan *plan = job->plan;
    const gyre_scheme *scheme = plan->encoding ? plan->encoding->scheme : NULL;
    const gyre_bias_row row = {gyre_head_in_call(plan, job->head),
                               job->position,
                               job->at,
                               job->count,
                               gyre_slope_of_call(plan, job->batch, job->head),
                               plan->args->q_pos.context_length};
    memset(job->bias, 0, (size_t)job->count * sizeof *job->bias);
    if (scheme && scheme->bias_row) scheme->bias_row(plan->encoding, plan->args->tables, &row, job->bias);
    if (scheme && plan->products > 1) scheme->phase_row(plan->encoding, job->position, job->at, job->count, job->turns);
}

void gyre_double_scores(gyre_double_job *job) {
    const gyre_attention_plan *plan = job->plan;
    const double cap = plan->args->softcap;
    read_terms(job);
    for (int64_t j = 0; j < job->count; j++) {
        double score = pair_score(job, j) + job->bias[j];
        if (plan->gated) score += job->gate_sum - job->gate_sums[job->key[j]];
        const double bent = cap > 0 ? tanh(score / cap) : 0;
        job->cap_slope[j] = 1 - bent * bent;
        job->score[j] = (cap > 0 ? cap * bent : score) + job->mask[j];
    }
}

static void bias_backward(gyre_double_job *job) {
    const gyre_attention_plan *plan = job->plan;
    const gyre_view *view = gyre_table_gradient_of(job->gradients, GYRE_TABLE_BIAS);
    if (!view || !view->data || !plan->encoding || !plan->encoding->scheme->bias_row_gradient) return;
    const gyre_bias_row row = {gyre_head_in_call(plan, job->head), job->position, job->at, job->count, NULL, 0};
    plan->encoding->scheme->bias_row_gradient(plan->encoding, plan->args->tables, &row, job->dscore, view, row.head);
}

static void pair_backward(gyre_double_job *job, int64_t j) {
    const gyre_attention_plan *plan = job->plan;
    const double ds = job->dscore[j], scale = gyre_score_scale(plan);
    const int64_t first = table_first(plan), channels = plan->table.query_part.count;
    const pair p = pair_of(job, j);
    products_backward(job, j, &p, ds);
    const double *a = plan->table.query ? gyre_double_table_row(&job->query_table, p.row) : NULL;
    if (a) {
        add(job->dtable_q + first, ds, a, channels);
        gyre_double_table_add(job, GYRE_TABLE_QUERY, p.row, job->table_q + first, ds, channels);
    }
    const double *b = plan->table.key ? gyre_double_table_row(&job->key_table, p.row) : NULL;
    if (b) {
        add(p.dk, ds * scale, b, plan->key_dim);
        gyre_double_table_add(job, GYRE_TABLE_KEY, p.row, p.k, ds * scale, plan->key_dim);
    }
    if (!plan->gated) return;
    job->dgate_sum += ds;
    job->dgate_sums[job->key[j]] -= ds;
}

void gyre_double_scores_backward(gyre_double_job *job) {
    for (int64_t j = 0; j < job->count; j++)
        job->dscore[j] *= job->cap_slope[j];
    for (int64_t j = 0; j < job->count; j++)
        if (job->dscore[j] != 0) pair_backward(job, j);
    bias_backward(job);
}

/* -- values -- */

void gyre_double_value(gyre_double_job *job, int64_t j) {
    const gyre_attention_plan *plan = job->plan;
    memcpy(job->value, job->v + job->key[j] * plan->value_dim, (size_t)plan->value_dim * sizeof *job->value);
    if (!plan->table.value) return;
    const double *more = gyre_double_table_row(&job->value_table, row_of(job, j));
    if (more) add(job->value, 1, more, plan->value_dim);
}

void gyre_double_value_backward(gyre_double_job *job, int64_t j, double factor, const double *x) {
    const gyre_attention_plan *plan = job->plan;
    add(job->dv + job->key[j] * plan->value_dim, factor, x, plan->value_dim);
    if (plan->table.value) gyre_double_table_add(job, GYRE_TABLE_VALUE, row_of(job, j), x, factor, plan->value_dim);
}
