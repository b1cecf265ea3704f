/* double_job.c: the keys of an item, its heads and its queries, as doubles. */
#include "attention/double/double_job.h"
#include "attention/terms/visibility.h"
#include "call/arena.h"
#include "core/convert.h"
#include "core/positions.h"
#include "core/rotation/rotate_rows.h"
#include "core/rotation/temperature.h"
#include "core/table_view.h"
#include <math.h>
#include <string.h>

static double *doubles(gyre_arena *a, int64_t rows, int64_t columns) {
    return gyre_arena_alloc(a, rows * columns, sizeof(double));
}

size_t gyre_double_job_layout(const gyre_attention_plan *plan, char *memory, gyre_double_job *job) {
    gyre_arena a = {memory, 0};
    const int64_t keys = plan->keys, head = plan->head_dim, value = plan->value_dim;
    *job = (gyre_double_job){.plan = plan};
    int64_t **const indices[] = {&job->positions, &job->order, &job->key, &job->at};
    double **const numbers[] = {&job->mask,   &job->bias,      &job->kept,      &job->turns,     &job->score,
                                &job->dscore, &job->cap_slope, &job->gate_sums, &job->dgate_sums};
    double **const rows[] = {&job->query_table.row, &job->key_table.row, &job->value_table.row,
                             &job->table_q,         &job->dtable_q,      &job->channels};
    for (size_t i = 0; i < sizeof indices / sizeof *indices; i++)
        *indices[i] = gyre_arena_alloc(&a, keys, sizeof(int64_t));
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        *numbers[i] = doubles(&a, keys, 1);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        *rows[i] = doubles(&a, head > value ? head : value, 1);
    for (int variant = 0; variant < plan->rotation.variants[GYRE_ROLE_KEY]; variant++) {
        job->k[variant] = doubles(&a, keys, plan->key_dim);
        job->dk[variant] = doubles(&a, plan->gradient ? keys : 0, plan->key_dim);
    }
    for (int variant = 0; variant < plan->rotation.variants[GYRE_ROLE_QUERY]; variant++) {
        job->q[variant] = doubles(&a, head, 1);
        job->dq[variant] = doubles(&a, head, 1);
    }
    job->v = doubles(&a, keys, value);
    job->dv = doubles(&a, plan->gradient ? keys : 0, value);
    job->out = doubles(&a, value, 1);
    job->dout = doubles(&a, value, 1);
    job->value = doubles(&a, value, 1);
    job->angles = doubles(&a, 2, plan->rotation.pairs);
    return a.used;
}

/* -- rotation -- */

/* x = a row of a token in that variant, rotated; transpose: by the transposed rotation. */
static void rotate(gyre_double_job *job, gyre_role role, int variant, int64_t token, int transpose, double *x) {
    const gyre_attention_plan *plan = job->plan;
    const gyre_attention_inputs *args = plan->args;
    const gyre_rotation_spec how = {.role = role,
                                    .variant = variant,
                                    .length = args->q_pos.context_length,
                                    .batch = job->batch,
                                    .positions = role == GYRE_ROLE_QUERY ? &args->q_pos : &args->k_pos};
    if (plan->rotation.pairs == 0) return;
    gyre_rotation_angles_f64(plan->encoding, &how, token, job->angles);
    gyre_rotate_row_f64(plan->encoding, job->angles, x, transpose);
}

/* x[0] = gradient of x, from gradients of E x in each variant. */
static void rotate_back(gyre_double_job *job, gyre_role role, int64_t token, double *const *x, int64_t channels) {
    for (int variant = 0; variant < job->plan->rotation.variants[role]; variant++) {
        rotate(job, role, variant, token, 1, x[variant]);
        for (int64_t c = 0; variant > 0 && c < channels; c++)
            x[0][c] += x[variant][c];
    }
}

/* -- an item -- */

static void read_keys(gyre_double_job *job) {
    const gyre_attention_plan *plan = job->plan;
    const gyre_key_source *source = plan->source;
    gyre_key_run run;
    for (int64_t n = 0; n < plan->keys; n++) {
        gyre_key_run_at(source, job->batch, job->key_head, n, 1, &run);
        gyre_load_row_f64(run.k, source->k_dtype, run.k_step, plan->key_dim, job->k[0] + n * plan->key_dim);
        gyre_load_row_f64(run.v, source->v_dtype, run.v_step, plan->value_dim, job->v + n * plan->value_dim);
        for (int variant = plan->rotation.variants[GYRE_ROLE_KEY] - 1; variant >= 0; variant--) {
            double *row = job->k[variant] + n * plan->key_dim;
            if (variant > 0) memcpy(row, job->k[0] + n * plan->key_dim, (size_t)plan->key_dim * sizeof *row);
            rotate(job, GYRE_ROLE_KEY, variant, n, 0, row);
        }
    }
}

void gyre_double_item_begin(gyre_double_job *job, int64_t item) {
    const gyre_attention_plan *plan = job->plan;
    job->batch = item / plan->key_heads;
    job->key_head = item % plan->key_heads;
    const gyre_row_range all = {job->batch, 0, 0, plan->keys};
    gyre_positions_read(&plan->args->k_pos, job->batch, 0, plan->keys, job->positions);
    gyre_order_read(plan, GYRE_ROLE_KEY, &all, job->order);
    read_keys(job);
    if (!plan->gradient) return;
    memset(job->dv, 0, (size_t)(plan->keys * plan->value_dim) * sizeof *job->dv);
    for (int variant = 0; variant < plan->rotation.variants[GYRE_ROLE_KEY]; variant++)
        memset(job->dk[variant], 0, (size_t)(plan->keys * plan->key_dim) * sizeof(double));
}

/* view[at] = x[n], or += x[n]; channels of the view past those become, or stay with, what a gradient of 0 leaves. */
static void write_row(const gyre_view *view, const int64_t at[3], int add, const double *x, int64_t n) {
    for (int64_t c = 0; c < view->shape[3]; c++) {
        void *to = gyre_view_at(view, at[0], at[1], at[2], c);
        double sum = c < n ? x[c] : 0, before = 0;
        if (add) gyre_load_row_f64(to, view->dtype, 1, 1, &before);
        sum += before;
        gyre_store_row_f64(&sum, 1, to, view->dtype, 1);
    }
}

void gyre_double_item_end(gyre_double_job *job, const gyre_view *dkv) {
    const gyre_attention_plan *plan = job->plan;
    const int add = plan->segment->accumulate_dkv;
    for (int64_t n = 0; n < plan->keys; n++) {
        const int64_t at[3] = {job->batch, n, job->key_head};
        double *rows[GYRE_MAX_KEY_VARIANTS] = {job->dk[0] + n * plan->key_dim};
        for (int variant = 1; variant < plan->rotation.variants[GYRE_ROLE_KEY]; variant++)
            rows[variant] = job->dk[variant] + n * plan->key_dim;
        rotate_back(job, GYRE_ROLE_KEY, n, rows, plan->key_dim);
        write_row(&dkv[0], at, add, rows[0], plan->key_dim);
        write_row(&dkv[1], at, add, job->dv + n * plan->value_dim, plan->value_dim);
    }
}

/* -- a head -- */

static void find_table(gyre_double_job *job, gyre_table which, int wanted, gyre_double_table *table) {
    const gyre_attention_plan *plan = job->plan;
    table->view.data = NULL;
    if (!wanted || !gyre_vector_table_view(plan->encoding, plan->args->tables, which, &table->view)) return;
    table->head = table->view.shape[1] > 1 ? gyre_head_in_call(plan, job->head) : 0;
}

void gyre_double_head_begin(gyre_double_job *job, int64_t head) {
    const gyre_attention_plan *plan = job->plan;
    const gyre_key_source *source = plan->source;
    job->head = head;
    find_table(job, GYRE_TABLE_QUERY, plan->table.query || plan->table.factors, &job->query_table);
    find_table(job, GYRE_TABLE_KEY, plan->table.key, &job->key_table);
    find_table(job, GYRE_TABLE_VALUE, plan->table.value, &job->value_table);
    if (!plan->gated) return;
    source->gate_sums(source, source->batch_first + job->batch, plan->segment->view_head + head, source->key_first,
                      plan->keys, job->gate_sums);
    memset(job->dgate_sums, 0, (size_t)plan->keys * sizeof *job->dgate_sums);
}

void gyre_double_head_end(const gyre_double_job *job) {
    const gyre_view *view = &job->plan->args->dk_gate_sums;
    for (int64_t n = 0; view->data && n < job->plan->keys; n++) {
        const int64_t at[3] = {job->batch, n, job->head};
        write_row(view, at, job->plan->segment->accumulate_gates, &job->dgate_sums[n], 1);
    }
}

const double *gyre_double_table_row(const gyre_double_table *table, int64_t row) {
    const gyre_cview *view = &table->view;
    if (!view->data || row >= view->shape[2]) return NULL;
    gyre_load_row_f64(gyre_cview_at(view, 0, table->head, row, 0), view->dtype, view->stride[3], view->shape[3], table->row);
    return table->row;
}

void gyre_double_table_add(const gyre_double_job *job, gyre_table which, int64_t row, const double *x, double factor,
                           int64_t n) {
    const gyre_view *view = gyre_table_gradient_of(job->gradients, which);
    const gyre_table_size *size = &job->plan->encoding->table[which];
    const int64_t head = size->heads > 1 ? gyre_head_in_call(job->plan, job->head) : 0;
    for (int64_t c = 0; view && view->data && size->rows > 0 && row < size->rows && c < n; c++)
        gyre_view_add(view, 0, head, row, c, factor * x[c]);
}

/* -- a query -- */

/* key, at and mask = those of the keys that it sees. */
static void find_keys(gyre_double_job *job) {
    const gyre_attention_plan *plan = job->plan;
    const gyre_cview *mask = &plan->args->mask;
    const gyre_row_range own = {job->batch, job->head, job->query, 1};
    int64_t order;
    gyre_order_read(plan, GYRE_ROLE_QUERY, &own, &order);
    const gyre_visible_range visible = gyre_visible_to_query(plan, order);
    memset(job->mask, 0, (size_t)plan->keys * sizeof *job->mask);
    if (mask->data)
        gyre_load_row_f64(gyre_cview_at(mask, job->batch, job->query, job->head, 0), mask->dtype, mask->stride[3],
                          plan->keys, job->mask);
    job->count = 0;
    for (int64_t n = 0; n < plan->keys; n++) {
        if (gyre_outside_visible_range(visible, job->order[n]) || job->mask[n] == -INFINITY) continue;
        job->key[job->count] = n;
        job->at[job->count] = job->positions[n];
        job->mask[job->count++] = job->mask[n];
    }
}

/* x[c] += scale times the bias of the head. */
static void add_query_bias(const gyre_double_job *job, gyre_table which, double *x) {
    const gyre_attention_plan *plan = job->plan;
    const gyre_cview *view = gyre_table_of(plan->args->tables, which);
    double *const bias = job->channels;
    gyre_load_row_f64(gyre_cview_at(view, 0, gyre_head_in_call(plan, job->head), 0, 0), view->dtype, view->stride[3],
                      plan->head_dim, bias);
    for (int64_t c = 0; c < plan->head_dim; c++)
        x[c] += gyre_score_scale(plan) * bias[c];
}

/* out = what channel c of a query is multiplied by: phases by nothing, vectors for a table by the temperature. */
static double channel_scale(const gyre_double_job *job, int64_t c) {
    if (c < job->plan->part[0].count) return job->scale;
    return job->plan->parts > job->plan->products ? job->temperature : 1;
}

void gyre_double_query_begin(gyre_double_job *job, int64_t query) {
    const gyre_attention_plan *plan = job->plan;
    const gyre_cview *q = &plan->args->q;
    const int64_t n = plan->head_dim;
    job->query = query;
    job->position = gyre_position_at(&plan->args->q_pos, job->batch, query, 0);
    job->temperature = plan->encoding ? gyre_temperature_at(plan->encoding, job->position) : 1;
    job->scale = gyre_score_scale(plan) * job->temperature;
    job->gate_sum = plan->gated ? gyre_cview_real(&plan->args->q_gate_sums, job->batch, query, job->head) : 0;
    job->dgate_sum = 0;
    find_keys(job);
    for (int variant = 0; variant < plan->rotation.variants[GYRE_ROLE_QUERY]; variant++) {
        double *row = job->q[variant];
        gyre_load_row_f64(gyre_cview_at(q, job->batch, query, job->head, 0), q->dtype, q->stride[3], n, row);
        rotate(job, GYRE_ROLE_QUERY, variant, query, 0, row);
        for (int64_t c = 0; c < n; c++)
            row[c] *= channel_scale(job, c);
        memset(job->dq[variant], 0, (size_t)n * sizeof(double));
    }
    memcpy(job->table_q, job->q[0], (size_t)n * sizeof(double));
    memset(job->dtable_q, 0, (size_t)n * sizeof(double));
    if (plan->table.position) add_query_bias(job, GYRE_TABLE_POSITION_BIAS, job->table_q);
    if (plan->table.content) add_query_bias(job, GYRE_TABLE_CONTENT_BIAS, job->q[0]);
}

void gyre_double_query_end(gyre_double_job *job, const gyre_view *dq) {
    const gyre_attention_plan *plan = job->plan;
    const int64_t at[3] = {job->batch, job->query, job->head};
    const double scale = gyre_score_scale(plan);
    const gyre_view *gates = &plan->args->dq_gate_sums;
    if (plan->table.content) gyre_double_table_add(job, GYRE_TABLE_CONTENT_BIAS, 0, job->dq[0], scale, plan->head_dim);
    if (plan->table.position) gyre_double_table_add(job, GYRE_TABLE_POSITION_BIAS, 0, job->dtable_q, scale, plan->head_dim);
    for (int64_t c = 0; c < plan->head_dim; c++)
        job->dq[0][c] += job->dtable_q[c];
    for (int variant = 0; variant < plan->rotation.variants[GYRE_ROLE_QUERY]; variant++)
        for (int64_t c = 0; c < plan->head_dim; c++)
            job->dq[variant][c] *= channel_scale(job, c);
    rotate_back(job, GYRE_ROLE_QUERY, job->query, job->dq, plan->head_dim);
    write_row(dq, at, plan->args->accumulate, job->dq[0], plan->head_dim);
    if (gates->data) write_row(gates, at, plan->args->accumulate, &job->dgate_sum, 1);
}
