/* straight.c: one query with few keys, by the kernel attend_query.
 *
 * Heads go to the kernel in chunks whose queries and results fit the stack, if they need memory there: queries that are
 * rotated or not dense floats, and results that are not. */
#include "attention/forward/straight.h"
#include "attention/terms/attention_rotation.h"
#include "attention/terms/softmax.h"
#include "attention/tiles/rows.h"
#include "core/positions.h"
#include "core/rotation/temperature.h"
#include "core/scheme.h"

enum { CHUNK_ROWS = 64, CHUNK_FLOATS = 4096 };

/* Key heads of a batch row that are computed together. */
typedef struct straight_chunk {
    const gyre_attention_plan *plan;
    int64_t batch, head, heads; /* of keys */
    float q[CHUNK_FLOATS], out[CHUNK_FLOATS], row_max[CHUNK_ROWS];
    double row_sum[CHUNK_ROWS];
} straight_chunk;

/* -- what the kernel serves -- */

static int rotates_keys(const gyre_attention_plan *plan) {
    return plan->rotation.pairs > 0 && !plan->source->rotated;
}

/* Keys as gyre_decode_split rotates them in its kernels. */
static int rotation_suits(const gyre_attention_plan *plan) {
    const gyre_encoding *encoding = plan->encoding;
    if (!encoding || !rotates_keys(plan)) return 1;
    const struct gyre_rope_config *rope = &encoding->config.rope;
    return plan->rotation.pairs % 16 == 0 && rope->layout == GYRE_LAYOUT_HALF && rope->first_channel == 0;
}

static int views_suit(const gyre_cview *k, const gyre_cview *v) {
    return k->stride[3] == 1 && v->stride[3] == 1;
}

int gyre_straight_suits(const gyre_attention_plan *plan) {
    const gyre_key_source *source = plan->source;
    const gyre_dtype type = source->k_dtype;
    return source->v_dtype == type && (type == GYRE_DTYPE_F32 || type == GYRE_DTYPE_F16 || type == GYRE_DTYPE_BF16) &&
           (!source->k_view || views_suit(source->k_view, source->v_view)) && plan->head_dim <= GYRE_MAX_QUERY_CHANNELS &&
           plan->value_dim <= GYRE_MAX_QUERY_CHANNELS && plan->group <= CHUNK_ROWS &&
           plan->group * (plan->head_pad + plan->value_pad) <= CHUNK_FLOATS && !plan->args->sink_logits.data &&
           rotation_suits(plan);
}

/* 1: all keys of a head are one run that the kernel can read.  Those of views are, as their channels are adjacent. */
static int runs_suit(const gyre_attention_plan *plan) {
    gyre_key_run run;
    for (int64_t item = 0; !plan->source->k_view && item < plan->items; item++) {
        int64_t moved = 0;
        gyre_key_run_at(plan->source, item / plan->key_heads, item % plan->key_heads, 0, plan->keys, &run);
        for (int a = 0; run.shift && a < GYRE_MAX_AXES; a++)
            moved |= run.shift[a];
        if (run.count < plan->keys || run.k_step != 1 || run.v_step != 1 || moved != 0) return 0;
    }
    return 1;
}

/* -- a chunk -- */

/* Rotates dense rows of floats of all channels, with their angles. */
static void rotate_queries(straight_chunk *c, const float *angles, int64_t rows) {
    const gyre_attention_plan *plan = c->plan;
    const gyre_cview *q = &plan->args->q;
    const gyre_encoding *encoding = plan->encoding;
    const int half = encoding && encoding->config.rope.layout == GYRE_LAYOUT_HALF; /* (without one there are no angles) */
    const gyre_rotate_job job = {.in = gyre_cview_at(q, c->batch, 0, c->head * plan->group, 0),
                                 .out = c->q,
                                 .heads = rows,
                                 .pairs = plan->rotation.pairs,
                                 .in_head_stride = q->stride[2],
                                 .out_head_stride = plan->head_pad,
                                 .from_half = half,
                                 .to_half = half,
                                 .cosine = angles,
                                 .sine = angles + plan->rotation.pairs};
    plan->kernels->rotate_f32(&job);
}

/* job->q = the rows of queries as gyre_query_buffers_fill makes them, not yet scaled. */
static void take_queries(straight_chunk *c, gyre_query_attention *job) {
    const gyre_attention_plan *plan = c->plan;
    const gyre_cview *q = &plan->args->q;
    const gyre_attention_rotation how = {.role = GYRE_ROLE_QUERY};
    const int64_t first = c->head * plan->group, rows = c->heads * plan->group;
    const int dense = q->dtype == GYRE_DTYPE_F32 && q->stride[3] == 1;
    const gyre_row_range query = {c->batch, first, 0, 1};
    job->q = c->q;
    job->q_head_stride = plan->head_pad;
    if (dense && plan->rotation.pairs == 0) {
        job->q = gyre_cview_at(q, c->batch, 0, first, 0);
        job->q_head_stride = q->stride[2];
        return;
    }
    const float *angles = plan->rotation.pairs > 0 ? gyre_attention_angle_rows(plan, &query, &how) : NULL;
    if (dense && angles && 2 * plan->rotation.pairs == plan->head_dim) {
        rotate_queries(c, angles, rows);
        return;
    }
    for (int64_t r = 0; r < rows; r++) {
        const gyre_row_range row = {c->batch, first + r, 0, 1};
        gyre_rows_read(plan, q, &row, c->q + r * plan->head_pad, plan->head_pad);
        gyre_attention_rotate(plan, &row, &how, c->q + r * plan->head_pad);
    }
}

static void attend(const gyre_attention_plan *plan, const gyre_query_attention *job, int *finite) {
    const gyre_dtype type = plan->source->k_dtype;
    (type == GYRE_DTYPE_F16    ? plan->kernels->attend_query_f16
     : type == GYRE_DTYPE_BF16 ? plan->kernels->attend_query_bf16
                               : plan->kernels->attend_query_f32)(job, finite);
}

static void take_run(const straight_chunk *c, int64_t head, gyre_query_attention *job) {
    gyre_key_run run;
    gyre_key_run_at(c->plan->source, c->batch, head, 0, c->plan->keys, &run);
    job->k = run.k;
    job->v = run.v;
    job->k_row_stride = run.k_row_stride;
    job->v_row_stride = run.v_row_stride;
}

/* out = 1 if all is finite. */
static int attend_chunk(const straight_chunk *c, gyre_query_attention *job) {
    const gyre_attention_plan *plan = c->plan;
    int all = 1, finite;
    take_run(c, c->head, job);
    if (plan->source->k_view) {
        job->heads = c->heads;
        job->k_head_stride = plan->source->k_view->stride[2];
        job->v_head_stride = plan->source->v_view->stride[2];
        attend(plan, job, &all);
        return all;
    }
    job->heads = 1;
    for (int64_t h = 0; h < c->heads; h++) {
        if (h > 0) take_run(c, c->head + h, job);
        attend(plan, job, &finite);
        all &= finite;
        job->q += plan->group * job->q_head_stride;
        job->out += plan->group * job->out_head_stride;
        if (job->row_max) job->row_max += plan->group, job->row_sum += plan->group;
    }
    return all;
}

static void write_lse(straight_chunk *c) {
    const gyre_attention_plan *plan = c->plan;
    const gyre_view *lse = &plan->args->lse;
    const int64_t first = c->head * plan->group;
    for (int64_t r = 0; r < c->heads * plan->group; r++) {
        const gyre_row_state state = {c->row_max[r], c->row_sum[r], 0, NULL};
        const double value = gyre_row_finish(plan, first + r, &state).lse;
        void *to = gyre_view_at(lse, c->batch, 0, first + r, 0);
        if (lse->dtype == GYRE_DTYPE_F64)
            *(double *)to = value;
        else
            *(float *)to = (float)value;
    }
}

static int run_chunk(straight_chunk *c) {
    const gyre_attention_plan *plan = c->plan;
    const gyre_view *out = &plan->args->out;
    const gyre_attention_rotation key = {.role = GYRE_ROLE_KEY};
    const gyre_row_range keys = {c->batch, c->head, 0, plan->keys};
    const int64_t first = c->head * plan->group, rows = c->heads * plan->group;
    const int dense = out->dtype == GYRE_DTYPE_F32 && out->stride[3] == 1, sums = plan->args->lse.data != NULL;
    gyre_query_attention job = {.group = plan->group,
                                .keys = plan->keys,
                                .channels = plan->head_dim,
                                .value_channels = plan->value_dim,
                                .scale = plan->scale,
                                .angles = rotates_keys(plan) ? gyre_attention_angle_rows(plan, &keys, &key) : NULL,
                                .pairs = plan->rotation.pairs,
                                .out = dense ? gyre_view_at(out, c->batch, 0, first, 0) : c->out,
                                .out_head_stride = dense ? out->stride[2] : plan->value_pad,
                                .row_max = sums ? c->row_max : NULL,
                                .row_sum = sums ? c->row_sum : NULL};
    if (plan->encoding)
        job.scale *= (float)gyre_temperature_at(plan->encoding, gyre_position_at(&plan->args->q_pos, c->batch, 0, 0));
    take_queries(c, &job);
    if (!attend_chunk(c, &job)) return 0;
    for (int64_t r = 0; !dense && r < rows; r++) {
        const gyre_row_range row = {c->batch, first + r, 0, 1};
        gyre_rows_write(plan, out, &row, c->out + r * plan->value_pad, plan->value_pad);
    }
    if (sums) write_lse(c);
    return 1;
}

int gyre_straight_run(const gyre_attention_plan *plan, int *finite) {
    straight_chunk c;
    if (!plan->straight_kernel || !plan->args->out.data || !runs_suit(plan)) return 0;
    const int64_t pad = plan->head_pad > plan->value_pad ? plan->head_pad : plan->value_pad;
    const int64_t by_floats = CHUNK_FLOATS / (plan->group * pad), by_rows = CHUNK_ROWS / plan->group;
    const int64_t most = by_floats < by_rows ? by_floats : by_rows;
    c.plan = plan;
    *finite = 1;
    for (c.batch = 0; c.batch < plan->items / plan->key_heads; c.batch++)
        for (c.head = 0; c.head < plan->key_heads; c.head += c.heads) {
            const int64_t left = plan->key_heads - c.head;
            c.heads = left < most ? left : most;
            *finite = run_chunk(&c);
            if (!*finite) return 1;
        }
    return 1;
}
