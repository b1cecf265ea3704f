/* segments.c: a call cut into segments of one shape and one context length. */
#include "attention/segments.h"
#include "call/call_sequences.h"
#include "core/encoding.h"
#include "core/positions.h"
#include "core/scheme.h"
#include "core/view.h"

int gyre_length_is_dynamic(const gyre_attention_inputs *args) {
    const gyre_encoding *encoding = args->encoding;
    const int64_t given = args->context_lengths ? 0 : args->q_pos.context_length; /* context_lengths takes its place */
    if (!encoding || given != 0) return 0;
    return encoding->config.length_policy != GYRE_LENGTH_POLICY_DECLARED &&
           !gyre_encoding_same_at(encoding, 1, GYRE_MAX_POSITION + 1);
}

int gyre_split_by_sequence(const gyre_attention_inputs *args) {
    const int moved = args->q_end && args->causal == GYRE_CAUSAL_BY_ORDER;
    return args->q_starts || args->k_first || args->k_end || args->context_lengths || moved ||
           args->q_pos_head_stride != 0 || args->k_pos_head_stride != 0 || gyre_length_is_dynamic(args);
}

int64_t gyre_sequence_count(const gyre_attention_inputs *args) {
    const gyre_call_batch batch = GYRE_CALL_BATCH(args);
    return gyre_call_sequences(&batch);
}

int64_t gyre_segment_heads(const gyre_attention_inputs *args) {
    if (args->q_pos_head_stride != 0) return 1;
    return args->k_pos_head_stride != 0 ? args->q.shape[2] / args->k.shape[2] : args->q.shape[2];
}

/* -- narrowing -- */
static const void *advance(const void *data, gyre_dtype dtype, int64_t elements) {
    return data ? (const char *)data + elements * (int64_t)gyre_dtype_size(dtype) : NULL;
}

/* Narrows a view to tokens first .. first + count - 1 of batch row b. */
static void narrow(gyre_cview *view, int64_t b, int64_t first, int64_t count) {
    gyre_cview_narrow(view, 0, b, 1);
    gyre_cview_narrow(view, 1, first, count);
}

static void narrow_out(gyre_view *view, int64_t b, int64_t first, int64_t count) {
    gyre_view_narrow(view, 0, b, 1);
    gyre_view_narrow(view, 1, first, count);
}

/* Narrows positions to those from token `token` of row b on, which has index `place` in its sequence. */
static void narrow_positions(gyre_positions *positions, int64_t b, int64_t token, int64_t place) {
    if (!positions->data)
        positions->base += place;
    else
        positions->data =
            advance(positions->data, positions->dtype, b * positions->stride_batch + token * positions->stride_token);
}

void gyre_weights_narrow(gyre_attention_inputs *args, int64_t b, int64_t first, int64_t count, int64_t key, int64_t keys) {
    if (!args->weights.data) return;
    const int64_t from = args->weights_first > first ? args->weights_first : first;
    const int64_t end = args->weights_first + args->weights.shape[1], to = end < first + count ? end : first + count;
    if (from >= to) {
        args->weights.data = NULL;
        return;
    }
    narrow_out(&args->weights, b, from - args->weights_first, to - from);
    args->weights.data = (float *)args->weights.data + key * args->weights.stride[3];
    args->weights.shape[3] = keys;
    args->weights_first = from - first;
}

/* -- segments -- */
/* Gate sums of the `count` queries from `at` on, and of the keys of the sequence. */
static void narrow_gate_sums(gyre_attention_inputs *args, const gyre_call_sequence *s, int64_t at, int64_t count) {
    narrow(&args->q_gate_sums, s->batch, at, count);
    narrow(&args->k_gate_sums, s->batch, s->key, s->keys);
    narrow_out(&args->dq_gate_sums, s->batch, at, count);
    narrow_out(&args->dk_gate_sums, s->batch, s->key, s->keys);
}

static gyre_call_sequence sequence_of(const gyre_attention_inputs *args, int64_t s) {
    const gyre_call_batch batch = GYRE_CALL_BATCH(args);
    return gyre_call_sequence_at(&batch, s);
}

/* out = the last key that query 0 of a sequence sees (GYRE_CAUSAL_BY_ORDER): padding of keys does not move it. */
static int64_t first_order(const gyre_attention_inputs *args, const gyre_call_sequence *s, int64_t index) {
    if (!args->q_end || args->causal != GYRE_CAUSAL_BY_ORDER) return s->k_count - s->queries;
    return s->key - s->k_start + s->keys - args->q_end[index];
}

/* out = the context length for a query at m (GYRE_LENGTH_POLICY_CAUSAL). */
static int64_t length_at(const gyre_encoding *encoding, int64_t m) {
    const int64_t given = encoding->config.length_block, block = given > 0 ? given : 64, position = m < 0 ? 0 : m;
    return (position / block + 1) * block;
}

static int64_t max_position(const gyre_positions *positions, int64_t batch, int64_t first, int64_t count) {
    int64_t most = 0;
    for (int64_t i = 0; i < count; i++) {
        const int64_t m = gyre_position_at(positions, batch, first + i, 0);
        most = m > most ? m : most;
    }
    return most;
}

/* out = positions of the segment's queries, if that began at token 0 of the batch. */
static gyre_positions query_positions(const gyre_segments *segments) {
    gyre_positions out = segments->args->q_pos;
    out.data = advance(out.data, out.dtype, segments->head * segments->args->q_pos_head_stride);
    return out;
}

/* *length = the context length of query `query` of the sequence; out = how many queries from there on have it. */
static int64_t count_of_length(const gyre_segments *segments, const gyre_call_sequence *s, int64_t *length) {
    const gyre_attention_inputs *args = segments->args;
    const gyre_encoding *encoding = args->encoding;
    const int64_t query = segments->query, count = s->queries - query;
    gyre_positions positions = query_positions(segments);
    narrow_positions(&positions, s->batch, s->query + query, query);
    *length = args->context_lengths ? args->context_lengths[segments->sequence] : args->q_pos.context_length;
    if (!segments->dynamic || count == 0 || *length > 0) return count;
    if (encoding->config.length_policy == GYRE_LENGTH_POLICY_PREFIX) {
        *length = max_position(&positions, 0, 0, count) + 1;
        return count;
    }
    *length = length_at(encoding, gyre_position_at(&positions, 0, 0, 0));
    for (int64_t i = 1; i < count; i++)
        if (!gyre_encoding_same_at(encoding, *length, length_at(encoding, gyre_position_at(&positions, 0, i, 0)))) return i;
    return count;
}

/* Narrows a segment to its heads. */
static void take_heads(const gyre_segments *segments, gyre_segment *out) {
    gyre_attention_inputs *args = &out->args;
    const int64_t heads = gyre_segment_heads(segments->args), group = args->q.shape[2] / args->k.shape[2];
    const int64_t first = segments->head, key_first = first / group, key_heads = heads < group ? 1 : heads / group;
    enum { READ = 4, WRITTEN = 6 };
    gyre_cview *const read[READ] = {&args->q, &args->mask, &args->q_gate_sums, &args->k_gate_sums};
    gyre_view *const written[WRITTEN] = {&args->dq_gate_sums, &args->dk_gate_sums, &args->out,
                                         &args->lse,          &args->state,        &args->weights};
    out->view_head = first;
    out->head_first = segments->head_first + first;
    out->source.head_first += key_first;
    out->accumulate_dkv |= first % group != 0;
    for (int i = 0; i < READ; i++)
        gyre_cview_narrow(read[i], 2, first, heads);
    for (int i = 0; i < WRITTEN; i++)
        gyre_view_narrow(written[i], 2, first, heads);
    gyre_cview_narrow(&args->k, 2, key_first, key_heads);
    gyre_cview_narrow(&args->v, 2, key_first, key_heads);
    args->q_pos = query_positions(segments);
    args->k_pos.data = advance(args->k_pos.data, args->k_pos.dtype, key_first * args->k_pos_head_stride);
    args->q_pos_head_stride = args->k_pos_head_stride = 0;
}

/* Copies the indices that the caller gives, if it does. */
static void take_indices(gyre_segment *out) {
    out->indexed = out->args.q_index != NULL;
    if (!out->indexed) return;
    out->q_index = *out->args.q_index;
    out->k_index = *out->args.k_index;
}

static void make_segment(const gyre_segments *segments, const gyre_call_sequence *s, int64_t count, int64_t length,
                         gyre_segment *out) {
    const int64_t query = segments->query, at = s->query + query, first = s->key - s->k_start;
    gyre_attention_inputs *args = &out->args;
    *out = (gyre_segment){.args = *segments->args, .source = segments->source, .sequence = segments->sequence};
    out->query_first = query;
    out->key_first = first;
    out->query_order = query + first_order(segments->args, s, segments->sequence);
    out->packed_key_first = s->k_start;
    out->accumulate_dkv = out->accumulate_gates = query > 0 || args->accumulate;
    take_indices(out);
    if (out->indexed) {
        narrow_positions(&out->q_index, s->batch, at, query);
        narrow_positions(&out->k_index, s->batch, s->key, first);
    }
    out->source.batch_first += s->batch;
    out->source.key_first += s->key;
    args->q_starts = args->k_starts = args->k_first = args->k_end = args->q_end = args->context_lengths = NULL;
    args->sequences = 0;
    take_heads(segments, out);
    gyre_cview_narrow(&args->slopes, 0, segments->sequence, 1);
    narrow(&args->q, s->batch, at, count);
    narrow_out(&args->out, s->batch, at, count);
    if (args->lse.data) narrow_out(&args->lse, s->batch, at, count);
    if (args->state.data) narrow_out(&args->state, s->batch, at, count);
    narrow(&args->k, s->batch, s->key, s->keys);
    narrow(&args->v, s->batch, s->key, s->keys);
    if (args->mask.data) {
        narrow(&args->mask, s->batch, at, count);
        gyre_cview_narrow(&args->mask, 3, first, s->keys);
    }
    narrow_gate_sums(args, s, at, count);
    gyre_weights_narrow(args, s->batch, at, count, first, s->keys);
    narrow_positions(&args->q_pos, s->batch, at, query);
    narrow_positions(&args->k_pos, s->batch, s->key, first);
    args->q_pos.context_length = length;
}

void gyre_segments_begin(gyre_segments *segments, const gyre_attention_inputs *args, const gyre_key_source *source,
                         int64_t head_first) {
    *segments =
        (gyre_segments){.args = args,
                        .head_first = head_first,
                        .source = source ? *source : gyre_key_source_of_views(&args->k, &args->v, &args->k_gate_sums),
                        .split = gyre_split_by_sequence(args),
                        .dynamic = gyre_length_is_dynamic(args)};
}

static void whole_call(const gyre_segments *segments, gyre_segment *out) {
    const gyre_attention_inputs *args = segments->args;
    *out = (gyre_segment){.args = *args, .source = segments->source, .head_first = segments->head_first};
    out->query_order = args->k.shape[1] - args->q.shape[1];
    out->accumulate_dkv = out->accumulate_gates = args->accumulate;
    take_indices(out);
}

/* Moves on by `count` of `queries` queries: to the next query, head or sequence. */
static void advance_segments(gyre_segments *segments, int64_t queries, int64_t count) {
    segments->query += count;
    if (segments->query < queries) return;
    segments->query = 0;
    segments->head += gyre_segment_heads(segments->args);
    if (segments->head < segments->args->q.shape[2]) return;
    segments->head = 0;
    segments->sequence++;
}

int gyre_segments_next(gyre_segments *segments, gyre_segment *out) {
    const gyre_attention_inputs *args = segments->args;
    if (!segments->split) {
        if (segments->sequence++ > 0) return 0;
        whole_call(segments, out);
        return 1;
    }
    while (segments->sequence < gyre_sequence_count(args)) {
        const gyre_call_sequence s = sequence_of(args, segments->sequence);
        int64_t length;
        const int64_t count = count_of_length(segments, &s, &length);
        if (count > 0 || segments->query == 0) make_segment(segments, &s, count, length, out);
        const int any = count > 0 || segments->query == 0;
        advance_segments(segments, s.queries, count);
        if (any) return 1;
    }
    return 0;
}

int gyre_segments_largest(const gyre_attention_inputs *args, const gyre_key_source *source, gyre_segment *out) {
    gyre_segments segments;
    gyre_segments_begin(&segments, args, source, 0);
    whole_call(&segments, out);
    if (!segments.split) return 0;
    gyre_attention_inputs *all = &out->args;
    all->q.shape[0] = all->k.shape[0] = all->v.shape[0] = all->out.shape[0] = all->lse.shape[0] =
        args->q.shape[0] > 0 ? 1 : 0;
    all->mask.shape[0] = all->weights.shape[0] = all->q.shape[0];
    all->q_starts = all->k_starts = all->k_first = all->k_end = all->q_end = all->context_lengths = NULL;
    all->sequences = 0;
    take_heads(&segments, out);
    return 1;
}
