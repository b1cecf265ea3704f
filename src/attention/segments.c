/* segments.c: a call cut into passes of one shape and one length in use. */
#include "attention/segments.h"
#include "core/encoding.h"
#include "core/positions.h"
#include "core/rotation/frequency.h"
#include "core/scheme.h"
#include "core/view.h"

/* Frequencies depend on a length that the call does not say and that is not the same for all. */
static int length_is_dynamic(const gyre_attention_args *args) {
    const gyre_encoding *encoding = args->encoding;
    if (!encoding || args->q_pos.context_length != 0 || !(encoding->scheme->places & GYRE_PLACE_QUERY_KEY)) return 0;
    return encoding->config.rope.length_policy != GYRE_LENGTH_POLICY_DECLARED &&
           !gyre_rope_same_frequencies(&encoding->config, 1, GYRE_MAX_POSITION + 1);
}

static int split_by_sequence(const gyre_attention_args *args) {
    return args->q_starts || args->k_first || args->k_end || length_is_dynamic(args);
}

static int64_t sequence_count(const gyre_attention_args *args) {
    return args->q_starts ? args->sequences : args->q.shape[0];
}

/* -- what the caller says -- */
static gyre_status check_starts(const int64_t *starts, int64_t sequences, int64_t tokens) {
    if (starts[0] != 0 || starts[sequences] != tokens) return GYRE_EINVAL;
    for (int64_t s = 0; s < sequences; s++)
        if (starts[s] > starts[s + 1]) return GYRE_EINVAL;
    return GYRE_OK;
}

gyre_status gyre_segments_check(const gyre_attention_args *args) {
    if (!args->q_starts != !args->k_starts || args->sequences < 0) return GYRE_EINVAL;
    if (args->q_starts) {
        if (args->q.shape[0] != 1) return GYRE_ESHAPE;
        if (args->sequences < 1) return GYRE_EINVAL;
        gyre_status status = check_starts(args->q_starts, args->sequences, args->q.shape[1]);
        if (!status) status = check_starts(args->k_starts, args->sequences, args->k.shape[1]);
        if (status) return status;
    }
    for (int64_t s = 0; s < sequence_count(args); s++) {
        const int64_t keys = args->k_starts ? args->k_starts[s + 1] - args->k_starts[s] : args->k.shape[1];
        const int64_t first = args->k_first ? args->k_first[s] : 0, end = args->k_end ? args->k_end[s] : keys;
        if (first < 0 || first > end || end > keys) return GYRE_EINVAL;
    }
    return GYRE_OK;
}

/* What positions count from must leave room to add to, and the length in use is that of queries.  What an encoding asks
 * beyond is each pass's to check: where padding stands it asks nothing. */
gyre_status gyre_segments_positions_check(const gyre_attention_args *args) {
    gyre_positions k_pos = args->k_pos;
    k_pos.context_length = 0;
    if (!split_by_sequence(args)) return GYRE_OK;
    if (!k_pos.data && gyre_positions_check(NULL, &k_pos, 1, args->k.shape[1] > 0, "k_pos", "gyre_attention", NULL))
        return GYRE_ERANGE;
    if (!args->q_pos.data)
        return gyre_positions_check(NULL, &args->q_pos, 1, args->q.shape[1] > 0, "q_pos", "gyre_attention", NULL);
    if (!length_is_dynamic(args)) return GYRE_OK;
    return gyre_positions_check(NULL, &args->q_pos, args->q.shape[0], args->q.shape[1], "q_pos", "gyre_attention", NULL);
}

/* -- narrowing -- */
static const void *advance(const void *data, gyre_dtype dtype, int64_t elements) {
    return data ? (const char *)data + elements * (int64_t)gyre_dtype_size(dtype) : NULL;
}

/* Tokens first .. first + count - 1 of batch row b. */
static void narrow(gyre_cview *view, int64_t b, int64_t first, int64_t count) {
    view->data = advance(view->data, view->dtype, b * view->stride[0] + first * view->stride[1]);
    view->shape[0] = 1;
    view->shape[1] = count;
}

static void narrow_out(gyre_view *view, int64_t b, int64_t first, int64_t count) {
    const int64_t elements = b * view->stride[0] + first * view->stride[1];
    if (view->data) view->data = (char *)view->data + elements * (int64_t)gyre_dtype_size(view->dtype);
    view->shape[0] = 1;
    view->shape[1] = count;
}

/* Positions from token `token` of row b on, which stands `place` in its sequence. */
static void narrow_positions(gyre_positions *positions, int64_t b, int64_t token, int64_t place) {
    if (!positions->data)
        positions->base += place;
    else
        positions->data =
            advance(positions->data, positions->dtype, b * positions->stride_batch + token * positions->stride_token);
}

/* The part of the weights wanted that falls to queries first .. first + count - 1, with keys from `key` on. */
static void narrow_weights(gyre_attention_args *args, int64_t b, int64_t first, int64_t count, int64_t key, int64_t keys) {
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

/* -- passes -- */
typedef struct sequence {
    int64_t batch, q_first, queries; /* in the views */
    int64_t k_first, first, end;     /* where its keys begin in the views; those that are there, counted in it */
} sequence;

static sequence sequence_of(const gyre_attention_args *args, int64_t s) {
    sequence out = {.batch = args->q_starts ? 0 : s, .queries = args->q.shape[1], .end = args->k.shape[1]};
    if (args->q_starts) {
        out.q_first = args->q_starts[s];
        out.queries = args->q_starts[s + 1] - out.q_first;
        out.k_first = args->k_starts[s];
        out.end = args->k_starts[s + 1] - out.k_first;
    }
    if (args->k_end) out.end = args->k_end[s];
    if (args->k_first) out.first = args->k_first[s];
    return out;
}

/* The length in use for the query at m. */
static int64_t length_at(const gyre_encoding *encoding, int64_t m) {
    const int64_t said = encoding->config.rope.length_block, block = said > 0 ? said : 64, least = m < 0 ? 0 : m;
    return (least / block + 1) * block;
}

static int64_t max_position(const gyre_positions *positions, int64_t batch, int64_t first, int64_t count) {
    int64_t most = 0;
    for (int64_t i = 0; i < count; i++) {
        const int64_t m = gyre_position_at(positions, batch, first + i, 0);
        most = m > most ? m : most;
    }
    return most;
}

/* *length = the length in use of queries from `query` of the sequence on; out = how many have it. */
static int64_t count_of_length(const gyre_attention_args *args, const sequence *s, int64_t query, int64_t *length) {
    const gyre_encoding *encoding = args->encoding;
    gyre_positions positions = args->q_pos;
    int64_t count = s->queries - query;
    narrow_positions(&positions, s->batch, s->q_first + query, query);
    *length = args->q_pos.context_length;
    if (!length_is_dynamic(args) || count == 0) return count;
    if (encoding->config.rope.length_policy == GYRE_LENGTH_POLICY_PREFIX) {
        *length = max_position(&positions, 0, 0, count) + 1;
        return count;
    }
    *length = length_at(encoding, gyre_position_at(&positions, 0, 0, 0));
    for (int64_t i = 1; i < count; i++)
        if (!gyre_rope_same_frequencies(&encoding->config, *length,
                                        length_at(encoding, gyre_position_at(&positions, 0, i, 0))))
            return i;
    return count;
}

static void make_segment(const gyre_segments *segments, const sequence *s, int64_t count, int64_t length,
                         gyre_segment *out) {
    const int64_t query = segments->query, at = s->q_first + query, keys = s->end - s->first;
    gyre_attention_args *args = &out->args;
    *out = (gyre_segment){.args = *segments->args, .source = segments->source, .sequence = segments->sequence};
    out->query_first = query;
    out->key_first = s->first;
    out->query_order = query + s->end - s->queries;
    out->packed_key_first = s->k_first;
    out->accumulate_dkv = query > 0;
    out->source.batch_first += s->batch;
    out->source.key_first += s->k_first + s->first;
    args->q_starts = args->k_starts = args->k_first = args->k_end = NULL;
    args->sequences = 0;
    narrow(&args->q, s->batch, at, count);
    narrow_out(&args->out, s->batch, at, count);
    if (args->lse.data) narrow_out(&args->lse, s->batch, at, count);
    narrow(&args->k, s->batch, s->k_first + s->first, keys);
    narrow(&args->v, s->batch, s->k_first + s->first, keys);
    if (args->mask.data) {
        narrow(&args->mask, s->batch, at, count);
        args->mask.data = advance(args->mask.data, args->mask.dtype, s->first * args->mask.stride[3]);
        args->mask.shape[3] = keys;
    }
    narrow_weights(args, s->batch, at, count, s->first, keys);
    narrow_positions(&args->q_pos, s->batch, at, query);
    narrow_positions(&args->k_pos, s->batch, s->k_first + s->first, s->first);
    args->q_pos.context_length = length;
}

void gyre_segments_begin(gyre_segments *segments, const gyre_attention_args *args, const gyre_key_source *source) {
    *segments = (gyre_segments){.args = args, .source = source ? *source : gyre_key_source_of_views(args)};
}

static void whole_call(const gyre_segments *segments, gyre_segment *out) {
    const gyre_attention_args *args = segments->args;
    *out = (gyre_segment){.args = *args, .source = segments->source};
    out->query_order = args->k.shape[1] - args->q.shape[1];
}

int gyre_segments_next(gyre_segments *segments, gyre_segment *out) {
    const gyre_attention_args *args = segments->args;
    if (!split_by_sequence(args)) {
        if (segments->sequence++ > 0) return 0;
        whole_call(segments, out);
        return 1;
    }
    while (segments->sequence < sequence_count(args)) {
        const sequence s = sequence_of(args, segments->sequence);
        int64_t length;
        const int64_t count = count_of_length(args, &s, segments->query, &length);
        if (count > 0 || segments->query == 0) make_segment(segments, &s, count, length, out);
        const int last = segments->query + count >= s.queries, any = count > 0 || segments->query == 0;
        segments->query = last ? 0 : segments->query + count;
        segments->sequence += last;
        if (any) return 1;
    }
    return 0;
}

/* Each pass has as many queries as keys, one beside the other, where the whole call has. */
static int queries_match_keys(const gyre_attention_args *args) {
    if (args->k_first || args->k_end || length_is_dynamic(args) || !args->q_starts) return 0;
    for (int64_t s = 0; s <= args->sequences; s++)
        if (args->q_starts[s] != args->k_starts[s]) return 0;
    return 1;
}

void gyre_segments_upper_bound(const gyre_attention_args *args, const gyre_key_source *source, gyre_segment *out) {
    gyre_segments segments;
    gyre_segments_begin(&segments, args, source);
    whole_call(&segments, out);
    out->is_upper_bound = source || (split_by_sequence(args) && !queries_match_keys(args));
    if (!split_by_sequence(args)) return;
    gyre_attention_args *all = &out->args;
    all->q.shape[0] = all->k.shape[0] = all->v.shape[0] = all->out.shape[0] = all->lse.shape[0] =
        args->q.shape[0] > 0 ? 1 : 0;
    all->mask.shape[0] = all->weights.shape[0] = all->q.shape[0];
    all->q_starts = all->k_starts = all->k_first = all->k_end = NULL;
    all->sequences = 0;
}
