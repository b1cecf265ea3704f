#include "model/decoder.h"

#include "core/exec.h"
#include "model/input_positions.h"
#include "model/ops/activation.h"
#include "model/overflow.h"

#include <string.h>

static void look(gyre_decoder *d, int64_t layer, gyre_decoder_step step, int64_t rows) {
    if (d->overflow) gyre_overflow_look(d, layer, step, rows, NULL);
}

/* -- norms and linear maps -- */
static void normalize(const gyre_decoder *d, const gyre_norm_weights *norm, int64_t rows, const float *in, float *out) {
    const gyre_architecture *a = &d->net->arch;
    const gyre_norm_args args = {a->norm, norm, a->norm_epsilon, rows, a->model_dim};
    gyre_normalize_rows(&args, in, out, a->model_dim, NULL);
}

/* buffers.norm = norm(x), or x itself in families that normalize after the block. */
static void pre_norm(gyre_decoder *d, const gyre_norm_weights *norm, int64_t rows) {
    if (norm->gain)
        normalize(d, norm, rows, d->buffers.x, d->buffers.norm);
    else
        memcpy(d->buffers.norm, d->buffers.x, (size_t)(rows * d->net->arch.model_dim) * sizeof(float));
}

typedef struct row_block {
    const float *x;
    int64_t rows;
} row_block;

static gyre_gemm gemm_of(const gyre_affine *map, row_block in, float *y, int64_t y_row_stride, int accumulate) {
    return (gyre_gemm){&map->w, map->bias, in.x, y, in.rows, map->w.in, y_row_stride, accumulate};
}

static void linear(const gyre_decoder *d, const gyre_affine *map, row_block in, float *y, int64_t y_row_stride,
                   int accumulate) {
    const gyre_gemm gemm = gemm_of(map, in, y, y_row_stride, accumulate);
    gyre_gemm_run(&gemm, d->kernels, d->buffers.gemm_scratch, d->exec);
}

/* Up to three maps of the same rows, their outputs side by side in a row of y.  Wakes the threads once for all of them. */
static void linears_side_by_side(const gyre_decoder *d, const gyre_affine *maps, int count, row_block in, float *y,
                                 int64_t y_row_stride) {
    gyre_gemm gemms[3];
    int n = 0;
    for (; n < count && maps[n].w.out > 0; n++) {
        gemms[n] = gemm_of(&maps[n], in, y, y_row_stride, 0);
        y += maps[n].w.out;
    }
    gyre_gemm_run_many(gemms, n, d->kernels, d->buffers.gemm_scratch, d->exec);
}

/* -- embedding -- */
gyre_status gyre_decoder_embed(gyre_decoder *d, const int32_t *tokens, int64_t rows, gyre_error *err) {
    const gyre_network *n = d->net;
    const int64_t model_dim = n->arch.model_dim;
    const float scale = (float)n->arch.embed_scale;
    for (int64_t i = 0; i < rows; i++) {
        float *row = d->buffers.x + i * model_dim;
        gyre_matrix_row(&n->embedding.w, d->kernels, tokens[i], row);
        for (int64_t c = 0; scale != 1 && c < model_dim; c++)
            row[c] *= scale;
    }
    if (n->embed_norm.gain) normalize(d, &n->embed_norm, rows, d->buffers.x, d->buffers.x);
    look(d, -1, GYRE_STEP_EMBEDDING, rows);
    gyre_decoder_embed_layers(d, tokens, rows);
    if (!(gyre_encoding_places(d->encoding) & GYRE_PLACE_INPUT)) return GYRE_OK;
    const gyre_tables tables = {.input = n->input};
    const gyre_positions positions = {.base = d->first + d->cached};
    const gyre_view view = gyre_dense(d->buffers.x, GYRE_DTYPE_F32, 1, rows, 1, model_dim);
    const gyre_status status = gyre_input_positions(d->encoding, n->arch.position_form, &tables, &positions, &view, err);
    look(d, -1, GYRE_STEP_POSITIONS, rows);
    return status;
}

/* -- attention block -- */
static void clamp(float *x, int64_t n, float limit) {
    for (int64_t i = 0; i < n; i++)
        x[i] = x[i] > limit ? limit : x[i] < -limit ? -limit : x[i];
}

/* The norm of queries or keys (gyre_head_norms).  Gains for each head are those of the head's channels in norm->gain. */
static void normalize_heads(const gyre_decoder *d, const gyre_norm_weights *norm, const gyre_head_layout *heads,
                            int64_t rows) {
    const gyre_architecture *a = &d->net->arch;
    if (!norm->gain) return;
    const int by_gains = a->qk_norm == GYRE_HEAD_NORMS_GAINS;
    for (int64_t h = 0; h < (by_gains ? heads->count : 1); h++) {
        const gyre_norm_weights gains = {norm->gain + (by_gains ? h * norm->dim : 0), norm->bias, norm->dim};
        const int64_t at_once = a->qk_norm == GYRE_HEAD_NORMS_ALL || by_gains ? 1 : heads->count;
        const gyre_norm_args args = {a->norm, &gains, a->norm_epsilon, at_once, heads->stride};
        for (int64_t r = 0; r < rows; r++) {
            float *row = d->buffers.qkv + r * d->qkv_dim + heads->offset + h * heads->stride;
            gyre_normalize_rows(&args, row, row, heads->stride, NULL);
        }
    }
}

gyre_view gyre_decoder_heads(const gyre_decoder *d, const gyre_head_layout *heads, int64_t rows) {
    gyre_view view = gyre_dense(d->buffers.qkv + heads->offset, GYRE_DTYPE_F32, 1, rows, heads->count, heads->channels);
    view.stride[0] = rows * d->qkv_dim;
    view.stride[1] = d->qkv_dim;
    view.stride[2] = heads->stride;
    return view;
}

/* out = queries and keys of the projections, and as attention takes them. */
static gyre_head_views query_key_views(const gyre_decoder *d, int64_t layer, int64_t rows) {
    const gyre_architecture *a = &d->net->arch;
    const gyre_network_layer *l = &d->net->layer[layer];
    const int64_t row = gyre_decoder_resized_dim(d), heads[2] = {a->heads, a->kv_heads};
    const int64_t dim = row / (a->heads + a->kv_heads);
    const gyre_view q = gyre_decoder_heads(d, &l->q, rows), k = gyre_decoder_heads(d, &l->k, rows);
    gyre_head_views views = {.in = {q, k}, .out = {q, k}};
    for (int i = 0; i < 2 && row; i++) {
        views.out[i] = gyre_dense(d->buffers.resized + (i ? a->heads * dim : 0), GYRE_DTYPE_F32, 1, rows, heads[i], dim);
        views.out[i].stride[0] = rows * row;
        views.out[i].stride[1] = row;
    }
    return views;
}

gyre_attention_args gyre_decoder_attention_args(const gyre_decoder *d, int64_t layer, int64_t rows, int64_t tokens,
                                                gyre_attention_gates *gates) {
    const gyre_architecture *a = &d->net->arch;
    const int group = d->net->layer[layer].group;
    gyre_attention_args args = GYRE_INIT(gyre_attention_args);
    args.tables = d->tables.layer ? &d->tables.layer[layer] : NULL;
    args.q = gyre_const(query_key_views(d, layer, rows).out[0]);
    args.q_pos.base = d->first + tokens - rows;
    args.q_pos.context_length = d->net->group[group].shares_main ? d->length : 0;
    args.scale = d->net->group[group].scale;
    args.window = d->net->group[group].window;
    args.softcap = a->attn_softcap;
    if (d->net->layer[layer].sinks)
        args.sink_logits = gyre_cdense(d->net->layer[layer].sinks, GYRE_DTYPE_F32, 1, 1, a->heads, 1);
    args.causal = GYRE_CAUSAL_BY_POSITION;
    args.order = d->order;
    args.out = gyre_dense(d->buffers.attn_out, GYRE_DTYPE_F32, 1, rows, a->heads, d->net->layer[layer].v.channels);
    *gates = (gyre_attention_gates)GYRE_INIT(gyre_attention_gates);
    if (gyre_decoder_forgets(d)) {
        gates->q = gyre_const(gyre_decoder_gate_sums(d, rows));
        args.gates = gates;
    }
    return args;
}

gyre_own_call gyre_decoder_own_call(const gyre_decoder *d, int64_t layer, int64_t rows, int64_t tokens) {
    const gyre_architecture *a = &d->net->arch;
    return (gyre_own_call){.layer = gyre_network_own_attention(d->net, layer),
                           .q = gyre_const(gyre_decoder_heads(d, &d->net->layer[layer].q, rows)),
                           .cache = gyre_decoder_cache(d, layer),
                           .encoding = d->encoding,
                           .tables = d->tables.layer ? &d->tables.layer[layer] : NULL,
                           .q_pos = {.base = tokens - rows, .context_length = d->length},
                           .out = gyre_dense(d->buffers.attn_out, GYRE_DTYPE_F32, 1, rows, a->heads, a->value_dim)};
}

/* rotates_input: the queries and keys of E(m) norm in place of those of norm. */
static gyre_status project_rotated(gyre_decoder *d, const gyre_network_layer *l, int64_t rows, gyre_error *err) {
    const gyre_architecture *a = &d->net->arch;
    const gyre_positions positions = {.base = d->first + d->cached, .context_length = d->length};
    const int64_t heads = a->model_dim / a->head_dim;
    const gyre_cview in = gyre_cdense(d->buffers.norm, GYRE_DTYPE_F32, 1, rows, heads, a->head_dim);
    const gyre_view out = gyre_dense(d->buffers.block_out, GYRE_DTYPE_F32, 1, rows, heads, a->head_dim);
    const row_block rotated = {d->buffers.block_out, rows};
    gyre_affine part = l->qkv[0];
    const gyre_rotate_args args = {
        .size = sizeof args, .role = GYRE_ROLE_KEY, .positions = &positions, .in = in, .out = out};
    const gyre_status status = gyre_rotate(d->encoding, &args, d->exec, err);
    if (status) return status;
    if (l->qkv[1].w.out > 0) { /* in a file they need not be adjacent */
        linears_side_by_side(d, l->qkv, 2, rotated, d->buffers.qkv, d->qkv_dim);
        return GYRE_OK;
    }
    part.w.out = (a->heads + a->kv_heads) * a->head_dim; /* q, k and v in one: the first rows */
    linear(d, &part, rotated, d->buffers.qkv, d->qkv_dim, 0);
    return GYRE_OK;
}

/* Queries and keys as attention takes them, in place or in buffers.resized. */
static gyre_status apply_trained(gyre_decoder *d, int64_t layer, int64_t rows, gyre_error *err) {
    gyre_trained_heads heads = gyre_network_trained_heads(d->net, layer);
    gyre_head_views views = query_key_views(d, layer, rows);
    const gyre_positions positions = {.base = d->first + d->cached};
    const gyre_part_work work = {d->kernels, d->exec, d->buffers.part_scratch};
    const int64_t kept = d->part.numbers;
    if (!heads.part) return GYRE_OK;
    if (d->prepared) heads.prepared = d->prepared + layer * d->prepared_floats;
    if (heads.part->reads_x) views.x = gyre_dense(d->buffers.norm, GYRE_DTYPE_F32, 1, rows, 1, d->net->arch.model_dim);
    if (kept) {
        views.kept = gyre_dense(d->buffers.part_kept, GYRE_DTYPE_F64, 1, rows, 1, kept);
        views.before = gyre_cdense(gyre_kept_last(&d->part, layer), GYRE_DTYPE_F64, 1, 1, 1, kept);
    }
    const gyre_status status = heads.part->forward(&heads, &positions, &views, &work, err);
    if (!status) gyre_kept_store(&d->part, layer, d->cached, rows, d->buffers.part_kept);
    return status;
}

/* Queries and keys as they are before they rotate. */
static void write_watched_heads(const gyre_decoder *d, const gyre_network_layer *l, int64_t rows) {
    const gyre_architecture *a = &d->net->arch;
    const gyre_head_layout *from[2] = {&l->q, &l->k};
    float *const to[2] = {d->watched_queries, d->watched_keys};
    for (int i = 0; i < 2; i++)
        for (int64_t r = 0; r < rows; r++)
            for (int64_t head = 0; head < from[i]->count; head++)
                memcpy(to[i] + ((d->cached + r) * from[i]->count + head) * a->head_dim,
                       d->buffers.qkv + r * d->qkv_dim + from[i]->offset + head * from[i]->stride,
                       (size_t)a->head_dim * sizeof **to);
}

static gyre_status append_keys(gyre_decoder *d, int64_t layer, int64_t rows, gyre_error *err) {
    gyre_cache_append_args args = GYRE_INIT(gyre_cache_append_args);
    const gyre_positions positions = {.base = d->first + d->cached};
    args.k = gyre_const(query_key_views(d, layer, rows).out[1]);
    args.v = gyre_const(gyre_decoder_heads(d, &d->net->layer[layer].v, rows));
    args.positions = &positions;
    gyre_status status = GYRE_OK;
    if (gyre_decoder_forgets(d)) {
        status = gyre_decoder_sum_gates(d, layer, rows, err);
        args.gates = gyre_const(gyre_decoder_gate_sums(d, rows));
    }
    return status ? status : gyre_cache_append(d->cache[layer], &args, d->exec, err);
}

/* Moves the last `wanted` of `rows` rows to the front of the buffers that are read after the keys are stored. */
static void keep_last_rows(gyre_decoder *d, int64_t rows, int64_t wanted) {
    const gyre_architecture *a = &d->net->arch;
    const gyre_decoder_buffers *b = &d->buffers;
    const int64_t resized = gyre_decoder_resized_dim(d), inputs = a->layers * a->layer_rules.inputs;
    float *const buffers[] = {b->x, b->norm, b->qkv, resized ? b->resized : NULL, inputs ? b->layer_inputs : NULL};
    const int64_t dims[] = {a->model_dim, a->model_dim, d->qkv_dim, resized, inputs};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        if (buffers[i])
            memmove(buffers[i], buffers[i] + (rows - wanted) * dims[i], (size_t)(wanted * dims[i]) * sizeof(float));
    if (d->overflow) d->overflow->first = rows - wanted;
    if (gyre_decoder_forgets(d))
        memmove(b->gate_sums, b->gate_sums + (rows - wanted) * a->heads, (size_t)(wanted * a->heads) * sizeof *b->gate_sums);
}

/* Rows from .. from + rows - 1 of the buffers, the last of which is the last of `tokens` tokens. */
typedef struct row_range {
    int64_t from, rows, tokens;
} row_range;

/* out = where the weights of the rows over `keys` keys go. */
static gyre_view watched_view(const gyre_decoder *d, row_range at, int64_t keys) {
    const int64_t heads = d->net->arch.heads, row = heads * d->watched_tokens;
    gyre_view view = gyre_dense(d->watched + (at.tokens - at.rows) * row, GYRE_DTYPE_F32, 1, at.rows, heads, keys);
    view.stride[0] = at.rows * row;
    view.stride[1] = row;
    view.stride[2] = d->watched_tokens;
    return view;
}

/* batch: NULL = the rows see all keys. */
static gyre_status attend_rows(gyre_decoder *d, int64_t layer, row_range at, int64_t keys, const gyre_attention_batch *batch,
                               gyre_error *err) {
    const int64_t sequence = 0;
    gyre_attention_gates gates;
    gyre_attention_weights weights = GYRE_INIT(gyre_attention_weights);
    gyre_attention_args args = gyre_decoder_attention_args(d, layer, at.rows, at.tokens, &gates);
    args.q.data = (const float *)args.q.data + at.from * args.q.stride[1];
    args.out.data = (float *)args.out.data + at.from * args.out.stride[1];
    args.batch = batch;
    if (d->watched && layer == d->watched_layer) {
        weights.out = watched_view(d, at, keys);
        args.weights = &weights;
    }
    return gyre_cache_attention(gyre_decoder_cache(d, layer), &sequence, &args,
                                (gyre_scratch){d->buffers.attn_scratch, d->buffers.attn_scratch_bytes}, d->exec, err);
}

/* The last `wanted` of `rows` tokens, in one call, or one for each chunk of keys that they see. */
static gyre_status attend(gyre_decoder *d, int64_t layer, int64_t rows, int64_t wanted, gyre_error *err) {
    const int64_t chunk = d->net->group[d->net->layer[layer].group].chunk, end = d->cached + rows, from = end - wanted;
    gyre_status status = GYRE_OK;
    if (!chunk) return attend_rows(d, layer, (row_range){0, wanted, end}, end, NULL, err);
    for (int64_t at = from, next; at < end && !status; at = next) {
        const int64_t begins = (d->first + at) / chunk * chunk - d->first, first = begins > 0 ? begins : 0;
        gyre_attention_batch batch = GYRE_INIT(gyre_attention_batch);
        batch.k_first = &first;
        batch.k_end = &next; /* queries from position 0 on are those before it */
        next = begins + chunk < end ? begins + chunk : end;
        status = attend_rows(d, layer, (row_range){at - from, next - at, next}, end, &batch, err);
    }
    return status;
}

/* Values that are keys, before both are normalized. */
static void copy_values(const gyre_decoder *d, const gyre_network_layer *l, int64_t rows) {
    for (int64_t row = 0; row < rows; row++) {
        float *const qkv = d->buffers.qkv + row * d->qkv_dim;
        memcpy(qkv + l->v.offset, qkv + l->k.offset, (size_t)(l->k.count * l->k.channels) * sizeof(float));
    }
}

/* The keys and values of `rows` rows are appended to the cache.  Then the last `wanted` rows are moved to the front, and
 * buffers.attn_out = their attention over the cache. */
static gyre_status attention(gyre_decoder *d, int64_t layer, int64_t rows, int64_t wanted, gyre_error *err) {
    const gyre_network_layer *l = &d->net->layer[layer];
    if (d->net->arch.latents.kv > 0)
        gyre_decoder_project_latents(d, l, rows);
    else
        linears_side_by_side(d, l->qkv, 3, (row_block){d->buffers.norm, rows}, d->buffers.qkv, d->qkv_dim);
    if (l->values_are_keys) copy_values(d, l, rows);
    if (d->net->arch.rotates_input) {
        const gyre_status status = project_rotated(d, l, rows, err);
        if (status) return status;
    }
    look(d, layer, GYRE_STEP_PROJECTIONS, rows);
    if (d->net->arch.clip_qkv > 0) clamp(d->buffers.qkv, rows * d->qkv_dim, (float)d->net->arch.clip_qkv);
    normalize_heads(d, &l->query_norm, &l->q, rows);
    normalize_heads(d, &l->key_norm, &l->k, rows);
    normalize_heads(d, &l->value_norm, &l->v, rows);
    if (d->watched_queries && layer == d->watched_heads_layer) write_watched_heads(d, l, rows);
    gyre_status status = apply_trained(d, layer, rows, err);
    look(d, layer, GYRE_STEP_HEAD_NORMS, rows);
    if (!status && l->keys_of == layer) status = append_keys(d, layer, rows, err);
    if (status && d->overflow) d->overflow->refused = layer + 1;
    if (status || !wanted) return status;
    if (wanted < rows) keep_last_rows(d, rows, wanted);
    if (gyre_decoder_has_own_attention(d)) {
        const gyre_own_call call = gyre_decoder_own_call(d, layer, wanted, d->cached + rows);
        return gyre_own_attention_run(&call, d->buffers.attn_scratch, d->buffers.attn_scratch_bytes, d->exec, err);
    }
    return attend(d, layer, rows, wanted, err);
}

void gyre_decoder_add_block(const gyre_decoder *d, const gyre_norm_weights *post, int64_t rows) {
    const gyre_architecture *a = &d->net->arch;
    const float scale = (float)a->residual_scale;
    if (post->gain) normalize(d, post, rows, d->buffers.block_out, d->buffers.block_out);
    for (int64_t i = 0; i < rows * a->model_dim; i++)
        d->buffers.x[i] += scale * d->buffers.block_out[i];
}

/* x += scale * post_norm(map(in)): the end of a block. */
static void add_to_residual(const gyre_decoder *d, const gyre_affine *map, const gyre_norm_weights *post, row_block in) {
    const gyre_architecture *a = &d->net->arch;
    if (!post->gain && a->residual_scale == 1) {
        linear(d, map, in, d->buffers.x, a->model_dim, 1);
        return;
    }
    linear(d, map, in, d->buffers.block_out, a->model_dim, 0);
    gyre_decoder_add_block(d, post, in.rows);
}

/* -- mlp block -- */
typedef struct activation_job {
    const gyre_decoder *d;
    int64_t rows, dim;
} activation_job;

enum { ACTIVATION_ROWS = 32 }; /* rows of a task */

static void activate_rows(void *arg, int64_t i) {
    const activation_job *job = arg;
    const gyre_architecture *a = &job->d->net->arch;
    const int64_t first = i * ACTIVATION_ROWS, left = job->rows - first, gate_up_dim = (a->gated ? 2 : 1) * job->dim;
    gyre_activate(job->d->kernels, a->activation, a->gated, left < ACTIVATION_ROWS ? left : ACTIVATION_ROWS, job->dim,
                  job->d->buffers.gate_up + first * gate_up_dim, job->d->buffers.mlp_act + first * job->dim);
}

/* buffers.mlp_act = act(gate) * up of buffers.norm. */
static void mlp(gyre_decoder *d, const gyre_network_layer *l, int64_t rows) {
    const gyre_architecture *a = &d->net->arch;
    const int64_t tasks = (rows + ACTIVATION_ROWS - 1) / ACTIVATION_ROWS;
    activation_job job = {d, rows, l->mlp_dim};
    linears_side_by_side(d, l->gate_up, 2, (row_block){d->buffers.norm, rows}, d->buffers.gate_up,
                         (a->gated ? 2 : 1) * l->mlp_dim);
    gyre_parallel(d->exec, activate_rows, &job, tasks);
}

/* What the experts of a layer read, each [rows][model_dim], and where their output goes. */
typedef struct expert_rows {
    const float *x, *routed;
    float *y;
} expert_rows;

static void run_experts(gyre_decoder *d, const gyre_network_layer *l, expert_rows at, int64_t rows) {
    const gyre_decoder_buffers *b = &d->buffers;
    const gyre_architecture *a = &d->net->arch;
    const gyre_experts_call call = {.mixture = &a->mixture,
                                    .experts = &l->experts,
                                    .activation = a->activation,
                                    .kernels = d->kernels,
                                    .exec = d->exec,
                                    .rows = rows,
                                    .model_dim = a->model_dim,
                                    .x = at.x,
                                    .routed = at.routed,
                                    .y = at.y,
                                    .scratch = b->experts,
                                    .gemm_scratch = b->gemm_scratch};
    gyre_experts_run(&call);
}

/* block_out = post_dense_norm(mlp) + post_norm(experts), which read the stream through norms of their own. */
static void add_experts_beside(gyre_decoder *d, const gyre_network_layer *l, int64_t rows) {
    const gyre_decoder_buffers *b = &d->buffers;
    const gyre_experts *e = &l->experts;
    const int64_t n = rows * d->net->arch.model_dim;
    float *const routed = b->beside, *const x = b->beside + n;
    linear(d, &l->down, (row_block){b->mlp_act, rows}, b->block_out, d->net->arch.model_dim, 0);
    normalize(d, &e->post_dense_norm, rows, b->block_out, b->block_out);
    normalize(d, &e->router_norm, rows, b->x, routed);
    normalize(d, &e->norm, rows, b->x, x);
    run_experts(d, l, (expert_rows){x, routed, b->norm}, rows);
    normalize(d, &e->post_norm, rows, b->norm, x);
    for (int64_t i = 0; i < n; i++)
        b->block_out[i] += x[i];
}

/* x += the mlp, the experts, or both, of buffers.norm. */
static void feed_forward(gyre_decoder *d, int64_t layer, int64_t rows) {
    const gyre_network_layer *l = &d->net->layer[layer];
    const int has_mlp = l->down.w.out > 0;
    if (has_mlp) {
        mlp(d, l, rows);
        look(d, layer, GYRE_STEP_GATE_UP, rows);
        look(d, layer, GYRE_STEP_ACTIVATION, rows);
    }
    if (l->experts.expert) {
        if (has_mlp)
            add_experts_beside(d, l, rows);
        else
            run_experts(d, l, (expert_rows){d->buffers.norm, NULL, d->buffers.block_out}, rows);
        gyre_decoder_add_block(d, &l->post_mlp_norm, rows);
        look(d, layer, GYRE_STEP_EXPERTS_RESIDUAL, rows);
        return;
    }
    add_to_residual(d, &l->down, &l->post_mlp_norm, (row_block){d->buffers.mlp_act, rows});
    look(d, layer, GYRE_STEP_MLP_RESIDUAL, rows);
}

/* -- layers -- */
/* Inputs beside the stream, and the scale of the layer. */
static void end_layer(gyre_decoder *d, int64_t layer, int64_t rows) {
    const gyre_network_layer *l = &d->net->layer[layer];
    if (!l->inputs.gate.w.out && !l->scale) return;
    gyre_decoder_add_layer_inputs(d, layer, rows);
    for (int64_t i = 0; l->scale && i < rows * d->net->arch.model_dim; i++)
        d->buffers.x[i] *= *l->scale;
    look(d, layer, GYRE_STEP_LAYER_END, rows);
}

/* Parallel residual (gpt_neox, phi): the mlp reads the x that entered the layer, so its norm, if it has a separate one,
 * is taken before the attention block adds to x. */
gyre_status gyre_decoder_forward(gyre_decoder *d, int64_t rows, int64_t wanted, gyre_error *err) {
    const int64_t layers = d->net->arch.layers;
    const int parallel = d->net->arch.parallel_residual;
    for (int64_t i = 0; i < layers; i++) {
        const gyre_network_layer *l = &d->net->layer[i];
        const int64_t needed = i + 1 == layers ? wanted : rows;
        pre_norm(d, &l->attn_norm, rows);
        look(d, i, GYRE_STEP_ATTN_NORM, rows);
        const gyre_status status = attention(d, i, rows, needed, err);
        if (status || !needed) return status;
        look(d, i, GYRE_STEP_ATTENTION, needed);
        if (parallel && l->mlp_norm.gain) pre_norm(d, &l->mlp_norm, needed);
        add_to_residual(d, &l->o, &l->post_attn_norm, (row_block){d->buffers.attn_out, needed});
        look(d, i, GYRE_STEP_ATTN_RESIDUAL, needed);
        if (!parallel) pre_norm(d, &l->mlp_norm, needed);
        look(d, i, GYRE_STEP_MLP_NORM, needed);
        feed_forward(d, i, needed);
        end_layer(d, i, needed);
    }
    return GYRE_OK;
}

/* -- results -- */
/* buffers.norm = the final norm of the last `wanted` of `rows` rows. */
static void final_norm(gyre_decoder *d, int64_t rows, int64_t wanted) {
    if (d->overflow) d->overflow->first += rows - wanted;
    normalize(d, &d->net->final_norm, wanted, d->buffers.x + (rows - wanted) * d->net->arch.model_dim, d->buffers.norm);
    look(d, -1, GYRE_STEP_FINAL_NORM, wanted);
}

void gyre_decoder_states(gyre_decoder *d, int64_t rows, int64_t wanted, float *states) {
    final_norm(d, rows, wanted);
    memcpy(states, d->buffers.norm, (size_t)(wanted * d->net->arch.model_dim) * sizeof *states);
}

void gyre_decoder_logits(gyre_decoder *d, int64_t rows, int64_t wanted, float *logits) {
    const gyre_architecture *a = &d->net->arch;
    const float scale = (float)a->logit_scale;
    final_norm(d, rows, wanted);
    linear(d, &d->net->lm_head, (row_block){d->buffers.norm, wanted}, logits, a->vocab, 0);
    for (int64_t i = 0; scale != 1 && i < wanted * a->vocab; i++)
        logits[i] *= scale;
    if (a->logit_softcap > 0) gyre_softcap(d->kernels, logits, wanted * a->vocab, a->logit_softcap);
    if (d->overflow) gyre_overflow_look(d, -1, GYRE_STEP_LOGITS, wanted, logits);
}
