/* attention_check.c: all that a call of attention must satisfy. */
#include "attention/attention_check.h"
#include "attention/segments.h"
#include "attention/terms/table_buffers.h"
#include "call/call_sequences.h"
#include "call/call_views.h"
#include "core/positions.h"
#include "core/rotation/angles.h"
#include "core/scheme.h"
#include "core/table_view.h"
#include "core/view.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>

typedef gyre_attention_request request; /* short, for the many signatures below */

static gyre_status check_type(const request *call, gyre_error *err, const char *field, gyre_dtype dtype,
                              gyre_call_types types) {
    return gyre_call_check_type(dtype, types, field, call->name, err);
}

static gyre_status check_input(const request *call, gyre_error *err, const char *field, const gyre_cview *view) {
    return gyre_cview_check(view, field, call->name, err);
}

static gyre_status check_output(const request *call, gyre_error *err, const char *field, const gyre_view *view) {
    return gyre_output_check(view, field, call->name, err);
}

/* 1: the call is in double.  Keys that are not in views have no doubles. */
static int is_double(const request *call) {
    return call->args->q.dtype == GYRE_DTYPE_F64 && !call->source;
}

/* out = the types of queries, values and what has their shape: `floats`, or F64 in a call in double. */
static gyre_call_types types_of(const request *call, gyre_call_types floats) {
    return is_double(call) ? GYRE_TYPES_F64 : floats;
}

/* -- numbers -- */

static gyre_status check_integers(const request *call, gyre_error *err) {
    const gyre_attention_inputs *args = call->args;
    const struct {
        const char *name;
        int64_t value;
    } fields[] = {{"window", args->window},
                  {"window_after", args->window_after},
                  {"q_pos.context_length", args->q_pos.context_length},
                  {"sinks", args->sinks},
                  {"sequences", args->sequences}};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (fields[i].value < 0)
            return gyre_fail(err, GYRE_EINVAL, "%s: %" PRId64 " is below 0 (%s)", fields[i].name, fields[i].value,
                             call->name);
    if (args->causal < 0 || args->causal > GYRE_CAUSAL_BY_ORDER)
        return gyre_fail(err, GYRE_EINVAL, "causal: %d is not a gyre_causal (%s)", (int)args->causal, call->name);
    if (args->order != GYRE_ORDER_FAST && args->order != GYRE_ORDER_FIXED)
        return gyre_fail(err, GYRE_EINVAL, "order: %d is not a gyre_order (%s)", (int)args->order, call->name);
    return GYRE_OK;
}

/* A softcap below FLT_MIN would divide by 0 or by a denormal. */
static gyre_status check_reals(const request *call, gyre_error *err) {
    const gyre_attention_inputs *args = call->args;
    if (!(fabs(args->scale) <= FLT_MAX))
        return gyre_fail(err, GYRE_EINVAL, "scale: %g is not finite as a float (%s)", args->scale, call->name);
    if (args->softcap != 0 && !((double)FLT_MIN <= args->softcap && args->softcap <= (double)FLT_MAX))
        return gyre_fail(err, GYRE_EINVAL, "softcap: %g is neither 0 nor in %g .. %g (%s)", args->softcap, (double)FLT_MIN,
                         (double)FLT_MAX, call->name);
    if (!(args->dropout >= 0 && args->dropout < 1))
        return gyre_fail(err, GYRE_EINVAL, "dropout: %g is not in [0, 1) (%s)", args->dropout, call->name);
    return GYRE_OK;
}

/* -- out and lse -- */

static gyre_status check_results(const request *call, gyre_error *err) {
    const gyre_attention_inputs *args = call->args;
    const int64_t *q = args->q.shape, out[4] = {q[0], q[1], q[2], args->v.shape[3]}, lse[4] = {q[0], q[1], q[2], 1};
    gyre_status status = check_type(call, err, "out", args->out.dtype, types_of(call, GYRE_TYPES_FLOATS));
    if (!status) status = gyre_shape_check(args->out.shape, out, "out", call->name, err);
    if (!status && gyre_view_elements(out) < 0)
        status = gyre_fail(err, GYRE_ESHAPE, "out: more elements than can be counted (%s)", call->name);
    if (status || !args->lse.data) return status;
    status = check_type(call, err, "lse", args->lse.dtype, types_of(call, GYRE_TYPES_WIDE));
    return status ? status : gyre_shape_check(args->lse.shape, lse, "lse", call->name, err);
}

/* -- the encoding -- */

static gyre_status check_head_dim(const request *call, gyre_error *err, const char *field, int64_t channels) {
    const int64_t head_dim = call->args->encoding->config.head_dim;
    if (head_dim == channels) return GYRE_OK;
    return gyre_fail(err, GYRE_ESHAPE, "%s: %" PRId64 " channels, but the encoding has head_dim %" PRId64 " (%s)", field,
                     channels, head_dim, call->name);
}

static gyre_status check_rotation(const request *call, gyre_error *err) {
    const gyre_encoding *encoding = call->args->encoding;
    const int needs_channels = (encoding->scheme->places & GYRE_PLACE_QUERY_KEY) || encoding->product_channels > 0;
    const gyre_status status = needs_channels ? check_head_dim(call, err, "q", call->args->q.shape[3]) : GYRE_OK;
    if (status || call->args->causal == GYRE_CAUSAL_BY_POSITION) return status;
    /* Both depend on the sign of the distance, which does not follow from the order of tokens. */
    if (encoding->xpos_log2_decay)
        return gyre_fail(err, GYRE_EUNSUPPORTED, "causal: xPos needs GYRE_CAUSAL_BY_POSITION (%s)", call->name);
    if (encoding->config.rope.far)
        return gyre_fail(err, GYRE_EUNSUPPORTED, "causal: rope.far needs GYRE_CAUSAL_BY_POSITION (%s)", call->name);
    return GYRE_OK;
}

static gyre_status check_table_shapes(const request *call, gyre_error *err) {
    const gyre_encoding *encoding = call->args->encoding;
    const int scores = gyre_has_vector_table(encoding, GYRE_TABLE_QUERY, GYRE_TERM_QUERY) ||
                       gyre_has_vector_table(encoding, GYRE_TABLE_KEY, GYRE_TERM_KEY) ||
                       gyre_has_vector_table(encoding, GYRE_TABLE_CONTENT_BIAS, 0) ||
                       gyre_has_vector_table(encoding, GYRE_TABLE_POSITION_BIAS, 0);
    gyre_status status = scores ? check_head_dim(call, err, "q", call->args->q.shape[3]) : GYRE_OK;
    for (int which = GYRE_TABLE_QUERY; which < GYRE_TABLE_COUNT && !status; which++) {
        int64_t shape[4];
        status = gyre_encoding_table_shape(encoding, (gyre_table)which, shape);
        /* Rows are padded to 16 channels of up to 8 bytes, and the bytes must not overflow. */
        const int64_t elements = status ? 0 : gyre_view_elements(shape);
        if (elements < 0 || elements > INT64_MAX / 256)
            return gyre_fail(err, GYRE_ENOMEM, "encoding: its tables have more than 2^63 elements (%s)", call->name);
    }
    if (status) return status;
    const int values = gyre_has_vector_table(encoding, GYRE_TABLE_VALUE, GYRE_TERM_VALUE);
    return values ? check_head_dim(call, err, "v", call->args->v.shape[3]) : GYRE_OK;
}

/* out = query heads of the call, of which the views may have some. */
static int64_t heads_of(const request *call) {
    return call->heads > 0 ? call->heads : call->args->q.shape[2];
}

static gyre_status check_encoding(const request *call, gyre_error *err) {
    const gyre_encoding *encoding = call->args->encoding;
    if (!encoding) return GYRE_OK;
    const int64_t heads = encoding->config.heads, query_heads = heads_of(call); /* heads 0: all share the tables */
    if ((encoding->scheme->places & GYRE_PLACE_SCORE) && heads > 0 && heads != query_heads)
        return gyre_fail(err, GYRE_ESHAPE, "q: %" PRId64 " heads, but the encoding has %" PRId64 " (%s)", query_heads, heads,
                         call->name);
    const gyre_status status = check_rotation(call, err);
    return status ? status : check_table_shapes(call, err);
}

/* -- padding of queries -- */

static gyre_status check_query_ends(const request *call, gyre_error *err) {
    const gyre_attention_inputs *args = call->args;
    const int64_t sequences = args->q_end && args->causal == GYRE_CAUSAL_BY_ORDER ? gyre_sequence_count(args) : 0;
    for (int64_t s = 0; s < sequences; s++) {
        const int64_t queries = args->q_starts ? args->q_starts[s + 1] - args->q_starts[s] : args->q.shape[1];
        if (args->q_end[s] < 0 || args->q_end[s] > queries)
            return gyre_fail(err, GYRE_EINVAL, "q_end[%" PRId64 "]: %" PRId64 " is not in 0 .. %" PRId64 " queries (%s)", s,
                             args->q_end[s], queries, call->name);
    }
    return GYRE_OK;
}

/* -- mask, sink logits and weights -- */

/* out = keys in a row of the mask and of the weights: those of the view, or of the longest packed sequence. */
static int64_t mask_keys(const gyre_attention_inputs *args) {
    return gyre_call_longest(args->k_starts, args->sequences, args->k.shape[1]);
}

static gyre_status check_mask(const request *call, gyre_error *err) {
    const gyre_attention_inputs *args = call->args;
    const int64_t shape[4] = {args->q.shape[0], args->q.shape[1], args->q.shape[2], mask_keys(args)};
    if (!args->mask.data) return GYRE_OK;
    const gyre_call_types types = is_double(call) ? GYRE_TYPES_REALS : GYRE_TYPES_FLOATS;
    return gyre_call_check_input(&args->mask, shape, types, "mask", call->name, err);
}

static gyre_status check_sink_logits(const request *call, gyre_error *err) {
    const gyre_cview *sinks = &call->args->sink_logits;
    const int64_t shape[4] = {1, 1, heads_of(call), 1};
    if (!sinks->data) return GYRE_OK;
    const gyre_call_types types = is_double(call) ? GYRE_TYPES_WIDE : GYRE_TYPES_F32;
    return gyre_call_check_input(sinks, shape, types, "sink_logits", call->name, err);
}

static gyre_status check_weights(const request *call, gyre_error *err) {
    const gyre_attention_inputs *args = call->args;
    const gyre_view *weights = &args->weights;
    const int64_t queries = args->q.shape[1], n = weights->shape[1];
    if (!weights->data) return GYRE_OK;
    const int64_t shape[4] = {args->q.shape[0], n, args->q.shape[2], mask_keys(args)};
    gyre_status status = check_type(call, err, "weights", weights->dtype, GYRE_TYPES_F32);
    if (!status) status = gyre_shape_check(weights->shape, shape, "weights", call->name, err);
    if (status) return status;
    if (args->weights_first < 0 || args->weights_first > queries || n > queries - args->weights_first)
        return gyre_fail(err, GYRE_EINVAL,
                         "weights.first: %" PRId64 " queries from %" PRId64 " on, but there are %" PRId64 " (%s)", n,
                         args->weights_first, queries, call->name);
    return check_output(call, err, "weights", weights);
}

static gyre_status check_slopes(const request *call, gyre_error *err) {
    const gyre_attention_inputs *args = call->args;
    const int64_t shape[4] = {gyre_sequence_count(args), 1, heads_of(call), 1};
    if (!args->slopes.data) return GYRE_OK;
    if (!args->encoding || !args->encoding->slopes)
        return gyre_fail(err, GYRE_EINVAL, "slopes: the encoding has no slopes to replace (%s)", call->name);
    return gyre_call_check_input(&args->slopes, shape, GYRE_TYPES_F32, "slopes", call->name, err);
}

/* -- gate sums -- */

static gyre_status check_gate_view(const request *call, gyre_error *err, const char *field, const gyre_cview *view,
                                   const int64_t *tokens) {
    const int64_t shape[4] = {tokens[0], tokens[1], call->args->q.shape[2], 1};
    return view->data ? gyre_call_check_input(view, shape, GYRE_TYPES_WIDE, field, call->name, err) : GYRE_OK;
}

/* Keys of a cache have theirs there. */
static gyre_status check_gates(const request *call, gyre_error *err) {
    const gyre_attention_inputs *args = call->args;
    const gyre_status status = check_gate_view(call, err, "gates.q", &args->q_gate_sums, args->q.shape);
    return status || call->source ? status : check_gate_view(call, err, "gates.k", &args->k_gate_sums, args->k.shape);
}

static gyre_status check_gate_pair(const request *call, gyre_error *err) {
    const gyre_attention_inputs *args = call->args;
    const int keys = call->source ? call->source->gate_sums != NULL : args->k_gate_sums.data != NULL;
    if ((args->q_gate_sums.data != NULL) == keys) return GYRE_OK;
    if (call->source)
        return gyre_fail(err, GYRE_EINVAL, "gates.q: %s, but the cache %s gate sums (%s)", keys ? "is missing" : "is set",
                         keys ? "keeps" : "has no", call->name);
    return gyre_fail(err, GYRE_EINVAL, "%s: is missing, but %s is set (%s)", keys ? "gates.q" : "gates.k",
                     keys ? "gates.k" : "gates.q", call->name);
}

static gyre_status check_gate_gradients(const request *call, gyre_error *err) {
    const gyre_attention_inputs *args = call->args;
    const struct {
        const char *name;
        const gyre_view *view;
        const int64_t *tokens;
    } outputs[] = {{"dq_gates", &args->dq_gate_sums, args->q.shape}, {"dk_gates", &args->dk_gate_sums, args->k.shape}};
    gyre_status status = GYRE_OK;
    for (int i = 0; i < 2 && !status; i++) {
        const gyre_cview view = gyre_const(*outputs[i].view);
        if (!view.data) continue;
        if (!args->q_gate_sums.data)
            return gyre_fail(err, GYRE_EINVAL, "%s: is set, but the call has no gate sums (%s)", outputs[i].name,
                             call->name);
        status = check_gate_view(call, err, outputs[i].name, &view, outputs[i].tokens);
        if (!status) status = check_output(call, err, outputs[i].name, outputs[i].view);
    }
    return status;
}

/* -- a part of a sequence -- */

static gyre_status check_state(const request *call, gyre_error *err) {
    const gyre_attention_inputs *args = call->args;
    const int64_t *q = args->q.shape, shape[4] = {q[0], q[1], q[2], 2 + args->v.shape[3]};
    if (!args->state.data) return GYRE_OK;
    if (is_double(call))
        return gyre_fail(err, GYRE_EUNSUPPORTED, "state: a call in F64 has all keys of its rows (%s)", call->name);
    const gyre_status status = gyre_call_check_result(&args->state, shape, GYRE_TYPES_F64, "state", call->name, err);
    if (status) return status;
    if (args->state.stride[3] != 1)
        return gyre_fail(err, GYRE_EINVAL, "state: the last stride is %" PRId64 ", not 1 (%s)", args->state.stride[3],
                         call->name);
    if (args->weights.data)
        return gyre_fail(err, GYRE_EINVAL, "weights: are unknown while state has keys of other calls (%s)", call->name);
    return GYRE_OK;
}

static gyre_status check_lengths(const request *call, gyre_error *err) {
    const gyre_attention_inputs *args = call->args;
    const int64_t sequences = args->context_lengths ? gyre_sequence_count(args) : 0;
    if (!args->q_index != !args->k_index)
        return gyre_fail(err, GYRE_EINVAL, "%s: is NULL, but %s is not (%s)", args->q_index ? "k_index" : "q_index",
                         args->q_index ? "q_index" : "k_index", call->name);
    for (int64_t s = 0; s < sequences; s++)
        if (args->context_lengths[s] < 0)
            return gyre_fail(err, GYRE_EINVAL, "context_lengths[%" PRId64 "]: %" PRId64 " is below 0 (%s)", s,
                             args->context_lengths[s], call->name);
    return GYRE_OK;
}

/* The limit of the slopes of an encoding. */
static gyre_status check_slope_values(const request *call, gyre_error *err) {
    const gyre_cview *slopes = &call->args->slopes;
    for (int64_t b = 0; slopes->data && b < slopes->shape[0]; b++)
        for (int64_t h = 0; h < slopes->shape[2]; h++) {
            const float slope = *(const float *)gyre_cview_at(slopes, b, 0, h, 0);
            if (!(fabsf(slope) <= 0x1p64F))
                return gyre_fail(err, GYRE_EINVAL,
                                 "slopes: %g of head %" PRId64 " in row %" PRId64 " is not within 2^64 of 0 (%s)",
                                 (double)slope, h, b, call->name);
        }
    return GYRE_OK;
}

/* -- gradients -- */

static const char *const gradient_names[3] = {"dq", "dk", "dv"};

/* 1: sums in it lose bits. */
static int is_rounded(const gyre_view *view) {
    return view->dtype != GYRE_DTYPE_F32 && view->dtype != GYRE_DTYPE_F64;
}

static gyre_status check_gradient_views(const request *call, gyre_error *err) {
    const gyre_gradient_views *g = call->gradient;
    const gyre_cview *like[3] = {&call->args->q, &call->args->k, &call->args->v};
    gyre_status status = gyre_call_check_dout(g->dout, &call->args->out, types_of(call, GYRE_TYPES_FLOATS), call->name, err);
    if (!status && g->dlse && g->dlse->data)
        status = gyre_call_check_input(g->dlse, call->args->lse.shape, GYRE_TYPES_WIDE, "dlse", call->name, err);
    for (int i = 0; i < 3 && !status; i++) {
        if (g->dqkv[i].dtype != GYRE_DTYPE_F32 && g->dqkv[i].dtype != like[i]->dtype)
            return gyre_fail(err, GYRE_EDTYPE, "%s: element type %s is not F32 or the type of its input (%s)",
                             gradient_names[i], gyre_dtype_text(g->dqkv[i].dtype), call->name);
        status = gyre_shape_check(g->dqkv[i].shape, like[i]->shape, gradient_names[i], call->name, err);
        if (!status) status = check_output(call, err, gradient_names[i], &g->dqkv[i]);
    }
    if (status || !call->args->accumulate) return status;
    for (int i = 0; i < 3; i++)
        if (is_rounded(&g->dqkv[i]))
            return gyre_fail(err, GYRE_EDTYPE, "%s: element type %s is not F32, but it is added to (%s)", gradient_names[i],
                             gyre_dtype_text(g->dqkv[i].dtype), call->name);
    if (call->args->lse.data && call->args->lse.dtype != GYRE_DTYPE_F64)
        return gyre_fail(err, GYRE_EDTYPE, "lse: element type F32 is not F64, which accumulate needs (%s)", call->name);
    return GYRE_OK;
}

static gyre_status check_sink_gradient(const request *call, gyre_error *err) {
    const gyre_table_gradients *gradients = call->gradient->gradients;
    const int64_t shape[4] = {1, 1, heads_of(call), 1};
    if (!gradients || !gradients->sink_logits.data || !call->args->sink_logits.data) return GYRE_OK;
    const gyre_view *view = &gradients->sink_logits;
    return gyre_call_check_result(view, shape, GYRE_TYPES_WIDE, "gradients.sink_logits", call->name, err);
}

/* -- tables -- */

static gyre_status check_tables(const request *call, gyre_error *err) {
    const gyre_encoding *encoding = call->args->encoding;
    gyre_status status = GYRE_OK;
    for (int i = GYRE_TABLE_QUERY; encoding && i < GYRE_TABLE_COUNT && !status; i++) {
        const gyre_table which = (gyre_table)i;
        status = gyre_table_check(encoding, which, call->args->tables, call->name, err);
        if (!status && call->gradient)
            status = gyre_table_gradient_check(encoding, which, call->gradient->gradients, call->name, err);
    }
    return status;
}

/* -- positions -- */

/* Positions as they are, whatever the encoding asks of them. */
static gyre_status check_positions(const request *call, gyre_error *err, const char *field, const gyre_positions *positions,
                                   const int64_t *shape) {
    gyre_positions own = *positions;
    own.context_length = 0; /* that of queries is checked, that of keys is ignored */
    return gyre_positions_check(NULL, &own, shape[0], shape[1], field, call->name, err);
}

/* What the encoding asks of them, at the context length of the segment: that of its queries. */
static gyre_status check_scaled(const request *call, gyre_error *err, const char *field,
                                const gyre_attention_inputs *segment, const gyre_positions *positions,
                                const int64_t *shape) {
    const gyre_encoding *encoding = segment->encoding;
    gyre_positions own = *positions;
    own.context_length = segment->q_pos.context_length;
    if (encoding && encoding->config.length_policy != GYRE_LENGTH_POLICY_DECLARED) own.context_length = INT64_MAX;
    return gyre_positions_check(encoding, &own, shape[0], shape[1], field, call->name, err);
}

/* Segments are cut from all of them. */
static gyre_status check_positions_memory(const request *call, gyre_error *err) {
    const gyre_attention_inputs *args = call->args;
    const int64_t axes = args->encoding ? gyre_axes_of(args->encoding) : 1, *q = args->q.shape, *k = args->k.shape;
    const struct {
        const char *name;
        const gyre_positions *positions;
        gyre_positions_extent extent;
    } all[] = {{"q_pos", &args->q_pos, {q[0], q[1], axes, q[2], args->q_pos_head_stride}},
               {"k_pos", &args->k_pos, {k[0], k[1], axes, k[2], args->k_pos_head_stride}},
               {"q_index", args->q_index, {q[0], q[1], 1, 1, 0}},
               {"k_index", args->k_index, {k[0], k[1], 1, 1, 0}}};
    gyre_status status = GYRE_OK;
    for (size_t i = 0; i < sizeof all / sizeof *all && !status; i++)
        if (all[i].positions)
            status = gyre_positions_memory_check(all[i].positions, &all[i].extent, all[i].name, call->name, err);
    return status;
}

/* What segments are made from: bases, which they add to, and the positions that decide the context length.  What the
 * encoding requires is checked for each segment, because padding may have any position. */
static gyre_status check_segment_positions(const request *call, gyre_error *err) {
    const gyre_attention_inputs *args = call->args;
    const int64_t key[2] = {1, args->k.shape[1] > 0}, query[2] = {1, args->q.shape[1] > 0};
    if (!gyre_split_by_sequence(args)) return GYRE_OK;
    if (args->q_pos_head_stride != 0 && !args->q_pos.data)
        return gyre_fail(err, GYRE_EINVAL, "q_pos_head_stride: %" PRId64 ", but q_pos has no data (%s)",
                         args->q_pos_head_stride, call->name);
    if (args->k_pos_head_stride != 0 && !args->k_pos.data)
        return gyre_fail(err, GYRE_EINVAL, "k_pos_head_stride: %" PRId64 ", but k_pos has no data (%s)",
                         args->k_pos_head_stride, call->name);
    gyre_status status = args->k_pos.data ? GYRE_OK : check_positions(call, err, "k_pos", &args->k_pos, key);
    if (!status && args->q_index && !args->q_index->data)
        status = check_positions(call, err, "q_index", args->q_index, query);
    if (!status && args->k_index && !args->k_index->data) status = check_positions(call, err, "k_index", args->k_index, key);
    if (status) return status;
    if (!args->q_pos.data) return check_positions(call, err, "q_pos", &args->q_pos, query);
    gyre_positions positions = args->q_pos;
    const int64_t heads = args->q_pos_head_stride != 0 ? args->q.shape[2] : 1,
                  step = args->q_pos_head_stride * (int64_t)gyre_dtype_size(positions.dtype);
    for (int64_t h = 0; gyre_length_is_dynamic(args) && h < heads && !status; h++) {
        status = check_positions(call, err, "q_pos", &positions, args->q.shape);
        positions.data = (const char *)positions.data + step;
    }
    return status;
}

/* What xPos leaves of the fastest pair across one tile must stay a float with room to spare. */
static gyre_status check_xpos_range(const request *call, gyre_error *err, const char *field, const gyre_positions *positions,
                                    const int64_t *shape, int64_t tile) {
    enum { MOST_BITS = 100 };
    const int64_t sets = positions->data && positions->stride_batch != 0 ? shape[0] : 1, tokens = shape[1];
    for (int64_t b = 0; b < sets; b++)
        for (int64_t first = 0; first < tokens; first += tile) {
            int64_t low = INT64_MAX, high = INT64_MIN;
            for (int64_t i = first; i < tokens && i < first + tile; i++) {
                const int64_t position = gyre_position_at(positions, b, i, 0);
                low = position < low ? position : low;
                high = position > high ? position : high;
            }
            if (-call->args->encoding->xpos_log2_decay[0] * (double)(high - low) > MOST_BITS)
                return gyre_fail(err, GYRE_ERANGE,
                                 "%s: positions %" PRId64 " and %" PRId64 " of one tile of %" PRId64
                                 " tokens are too far apart for xPos (%s)",
                                 field, low, high, tile, call->name);
        }
    return GYRE_OK;
}

gyre_status gyre_attention_check_segment(const request *call, const gyre_segment *segment, gyre_error *err) {
    const gyre_attention_inputs *args = &segment->args;
    const int64_t *q = args->q.shape, *k = args->k.shape;
    gyre_status status = check_scaled(call, err, "q_pos", args, &args->q_pos, q);
    if (!status) status = check_scaled(call, err, "k_pos", args, &args->k_pos, k);
    if (!status && segment->indexed) status = check_positions(call, err, "q_index", &segment->q_index, q);
    if (!status && segment->indexed) status = check_positions(call, err, "k_index", &segment->k_index, k);
    if (!status && args->encoding && args->encoding->xpos_log2_decay) {
        if (call->gradient || args->order != GYRE_ORDER_FIXED) /* where queries are relative to positions near them */
            status = check_xpos_range(call, err, "q_pos", &args->q_pos, q, gyre_query_tile_rows(args));
        if (!status) status = check_xpos_range(call, err, "k_pos", &args->k_pos, k, KEY_TILE);
    }
    if (status || !call->gradient || !segment->accumulate_dkv) return status;
    for (int i = 1; i < 3; i++) /* what is added to must not be rounded each time */
        if (is_rounded(&call->gradient->dqkv[i]))
            return gyre_fail(err, GYRE_EDTYPE, "%s: element type %s is not F32, but %s (%s)", gradient_names[i],
                             gyre_dtype_text(call->gradient->dqkv[i].dtype),
                             call->args->q_pos_head_stride != 0 ? "query heads of a key head have different positions"
                                                                : "context lengths differ",
                             call->name);
    return GYRE_OK;
}

/* -- the call -- */

int gyre_attention_is_empty(const gyre_attention_request *call) {
    const gyre_attention_inputs *args = call->args;
    if (!call->gradient) return gyre_view_elements(args->out.shape) == 0;
    return gyre_view_elements(args->q.shape) == 0 && gyre_view_elements(args->k.shape) == 0;
}

gyre_status gyre_attention_check_views(const gyre_attention_request *call, gyre_error *err) {
    const gyre_attention_inputs *args = call->args;
    gyre_cview q = args->q, k = args->k, v = args->v;
    if (args->encoding && k.shape[3] == q.shape[3] - gyre_encoding_query_vectors(args->encoding)) q.shape[3] = k.shape[3];
    const gyre_call_types types = types_of(call, call->gradient ? GYRE_TYPES_FLOATS : GYRE_TYPES_KEYS);
    gyre_status status = GYRE_OK;
    if (!call->source) { /* a source reads its own types */
        status = gyre_call_check_blocks(&k, types, "k", call->name, err);
        if (!status) status = gyre_call_check_blocks(&v, types, "v", call->name, err);
    }
    k.dtype = v.dtype = is_double(call) ? GYRE_DTYPE_F64 : GYRE_DTYPE_F32; /* their own are checked */
    if (!status) status = gyre_call_check_qkv(&q, &k, &v, types_of(call, GYRE_TYPES_FLOATS), call->name, err);
    return status ? status : check_results(call, err);
}

gyre_status gyre_attention_check_shapes(const gyre_attention_request *call, gyre_error *err) {
    const gyre_call_batch batch = GYRE_CALL_BATCH(call->args);
    gyre_status status = check_integers(call, err);
    if (!status) status = check_reals(call, err);
    if (!status) status = gyre_attention_check_views(call, err);
    if (!status) status = check_encoding(call, err);
    if (!status) status = gyre_call_check_packing(&batch, call->name, err);
    if (!status) status = gyre_call_check_padding(&batch, call->name, err);
    if (!status) status = check_query_ends(call, err);
    if (!status) status = check_mask(call, err);
    if (!status) status = check_sink_logits(call, err);
    if (!status) status = check_slopes(call, err);
    if (!status) status = check_gates(call, err);
    if (!status) status = check_lengths(call, err);
    return status ? status : check_weights(call, err);
}

/* Shapes of views without memory, and of the keys of a cache, are not looked at. */
gyre_status gyre_attention_check_overlap(const gyre_attention_request *call, gyre_error *err) {
    const gyre_attention_inputs *args = call->args;
    const gyre_gradient_views *g = call->gradient;
    const gyre_cview none = {.data = NULL}, out = gyre_const(args->out), lse = gyre_const(args->lse);
    gyre_named_views read = {8,
                             {{"q", args->q},
                              {"k", call->source ? none : args->k},
                              {"v", call->source ? none : args->v},
                              {"mask", args->mask},
                              {"sink_logits", args->sink_logits},
                              {"slopes", args->slopes},
                              {"gates.q", args->q_gate_sums},
                              {"gates.k", call->source ? none : args->k_gate_sums}}};
    gyre_named_views written = {.count = 0};
    for (int i = 0; g && i < 3; i++)
        gyre_named_views_add(&written, gradient_names[i], gyre_const(g->dqkv[i]));
    if (g) {
        gyre_named_views_add(&written, "dq_gates", gyre_const(args->dq_gate_sums));
        gyre_named_views_add(&written, "dk_gates", gyre_const(args->dk_gate_sums));
        gyre_named_views_add(&read, "dout", *g->dout);
        if (g->dlse) gyre_named_views_add(&read, "dlse", *g->dlse);
    }
    gyre_named_views_add(g ? &read : &written, "out", out);
    gyre_named_views_add(g ? &read : &written, "lse", lse);
    if (!g) {
        gyre_named_views_add(&written, "weights", gyre_const(args->weights));
        gyre_named_views_add(&written, "state", gyre_const(args->state));
    }
    return gyre_call_check_apart(&written, &read, call->name, err);
}

/* Tables and positions, and what the gradient needs of them. */
static gyre_status check_parameters(const request *call, gyre_error *err) {
    if (call->gradient && !call->args->lse.data)
        return gyre_fail(err, GYRE_EINVAL, "lse: data is NULL, but the gradient needs it (%s)", call->name);
    gyre_status status = check_positions_memory(call, err);
    if (!status) status = check_tables(call, err);
    return status || !call->gradient ? status : check_sink_gradient(call, err);
}

static gyre_status check_memory(const request *call, gyre_error *err) {
    const gyre_attention_inputs *args = call->args;
    gyre_status status = check_input(call, err, "q", &args->q);
    if (!status && !call->source) status = check_input(call, err, "k", &args->k);
    if (!status && !call->source) status = check_input(call, err, "v", &args->v);
    if (!status && (args->out.data || !args->state.data)) status = check_output(call, err, "out", &args->out);
    if (!status) status = check_state(call, err);
    if (!status) status = check_gate_pair(call, err);
    if (!status && call->gradient) status = check_gate_gradients(call, err);
    if (!status && args->lse.data) status = check_output(call, err, "lse", &args->lse);
    if (!status && !gyre_attention_is_empty(call)) status = check_parameters(call, err);
    return status ? status : gyre_attention_check_overlap(call, err);
}

gyre_status gyre_attention_check(const gyre_attention_request *call, gyre_error *err) {
    gyre_segments segments;
    gyre_segment segment;
    gyre_status status = gyre_attention_check_shapes(call, err);
    if (!status && call->gradient) status = check_gradient_views(call, err);
    if (!status && (call->gradient || !gyre_attention_is_empty(call))) status = check_memory(call, err);
    if (status || gyre_attention_is_empty(call)) return status;
    status = check_segment_positions(call, err);
    if (!status) status = check_slope_values(call, err);
    gyre_segments_begin(&segments, call->args, call->source, call->head_first);
    while (!status && gyre_segments_next(&segments, &segment))
        status = gyre_attention_check_segment(call, &segment, err);
    return status;
}
