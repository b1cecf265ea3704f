/* gradient_tables.c: the gradients of the tables, from the parts that items leave. */
#include "attention/gradient/gradient_tables.h"
#include "attention/gradient/gradient_tiles.h"
#include "attention/terms/table_buffers.h"
#include "core/convert.h"
#include "core/exec.h"
#include "core/table_view.h"
#include "core/view.h"

/* view[0, head, r, c] += scale from[c] */
static void add_row(const gyre_view *view, int64_t head, int64_t r, const float *from, double scale) {
    enum { CHUNK = 64 };
    double sum[CHUNK];
    for (int64_t first = 0; first < view->shape[3]; first += CHUNK) {
        const int64_t count = view->shape[3] - first < CHUNK ? view->shape[3] - first : CHUNK;
        void *to = gyre_view_at(view, 0, head, r, first);
        gyre_load_row_f64(to, view->dtype, view->stride[3], count, sum);
        for (int64_t c = 0; c < count; c++)
            sum[c] += scale * (double)from[first + c];
        gyre_store_row_f64(sum, count, to, view->dtype, view->stride[3]);
    }
}

/* Adds row r of one vector table, from one item. */
static void collect_vectors(const gyre_attention_call *call, int64_t item, const gyre_packed_table *packed, int which,
                            int64_t r) {
    const gyre_attention_plan *plan = call->plan;
    const gyre_view *to = gyre_table_gradient_of(call->gradients, (gyre_table)which);
    const int64_t pad = which == GYRE_TABLE_VALUE   ? plan->value_pad
                        : which == GYRE_TABLE_QUERY ? plan->table.query_part.pad
                                                    : plan->head_pad;
    const int64_t heads = gyre_table_heads_in_item(plan, which);
    if (!packed->gradient || !to->data || r >= to->shape[2]) return;
    const double scale = which == GYRE_TABLE_KEY ? (double)plan->scale : 1; /* queries are scaled already */
    const int64_t first = packed->shared ? 0 : gyre_head_in_call(plan, item % plan->key_heads * plan->group);
    for (int64_t h = 0; h < heads; h++)
        add_row(to, first + h, r, packed->gradient + (h * plan->table.rows + r) * pad, scale);
}

static void collect_score_bias(const gyre_attention_call *call, int64_t item, const gyre_table_buffers *t, int64_t r) {
    const gyre_attention_plan *plan = call->plan;
    for (int64_t h = 0; h < plan->group; h++)
        gyre_view_add(&call->gradients->bias, 0, 0, r, gyre_head_in_call(plan, item % plan->key_heads * plan->group + h),
                      t->dbias[r * plan->group + h]);
}

/* Adds one query bias, from one item. */
static void collect_bias(const gyre_attention_plan *plan, int64_t item, const double *from, const gyre_view *to) {
    const int64_t first = gyre_head_in_call(plan, item % plan->key_heads * plan->group);
    for (int64_t i = 0; from && to->data && i < plan->group * plan->head_dim; i++) {
        const int64_t h = i / plan->head_dim, c = i % plan->head_dim;
        gyre_view_add(to, 0, first + h, 0, c, (double)plan->scale * from[h * plan->head_pad + c]);
    }
}

/* Adds one row of every table.  Rows never overlap, even if two tables share their memory. */
static void collect_row(void *arg, int64_t r) {
    const gyre_attention_call *call = arg;
    const gyre_attention_plan *plan = call->plan;
    for (int64_t job = 0; job < plan->jobs && call->wave + job < call->tasks; job++) {
        gyre_gradient_job work;
        const int64_t item = call->wave + job;
        gyre_gradient_job_layout(plan, gyre_job_memory(call, job), &work);
        const gyre_table_buffers *tables = &work.tables;
        if (r >= plan->table.first_row && r < plan->table.end_row) {
            collect_vectors(call, item, &tables->query, GYRE_TABLE_QUERY, r);
            collect_vectors(call, item, &tables->key, GYRE_TABLE_KEY, r);
            collect_vectors(call, item, &tables->value, GYRE_TABLE_VALUE, r);
        }
        if (r == 0) {
            collect_bias(plan, item, tables->dcontent, &call->gradients->content_bias);
            collect_bias(plan, item, tables->dposition, &call->gradients->position_bias);
        }
        if (tables->dbias && call->gradients->bias.data && r < plan->table.bias_rows)
            collect_score_bias(call, item, tables, r);
    }
}

void gyre_tables_collect(gyre_attention_call *call, const gyre_exec *exec) {
    const int64_t rows = call->plan->table.rows, bias_rows = call->plan->table.bias_rows;
    const int64_t most = rows > bias_rows ? rows : bias_rows;
    gyre_parallel(exec, collect_row, call, most > 0 ? most : 1);
}
