/* ring_seen.c: which keys of a rank some query of another sees.  The others need not travel.
 *
 * Both sides come to the same answer: it depends on shards, the causal rule, window and sinks alone.  Within a sequence
 * the orders of queries and of keys rise, so the first and the last key that are seen are found alternately: the first
 * query that looks as far as a key, the first key that this query sees, and so on.  That takes as many steps as runs of
 * neighbours. */
#include "core/positions.h"
#include "positions/shards.h"
#include "ring/ring_call.h"
#include "util/integers.h"

enum { TILE = 128 }; /* of keys: a range begins at one, so that the sums are those of the whole block */

/* What decides visibility, as attention does: a query with order q sees q - before .. q + after and the sinks. */
typedef struct sight {
    int64_t before, after, sinks; /* INT64_MAX / 4: without limit; sinks: orders below it, 0 = none */
    int causal;
} sight;

static sight sight_of(const gyre_ring_call *r) {
    const int64_t far = INT64_MAX / 4, most = 2 * GYRE_MAX_POSITION;
    const gyre_attention_inputs *a = &r->whole;
    const int64_t window = a->window > most ? 0 : a->window, given = a->window_after > 0 ? a->window_after : a->window;
    const int64_t after = given > most ? 0 : given;
    sight s = {.before = window > 0 ? window - 1 : far, .causal = a->causal != 0};
    s.after = s.causal ? 0 : after > 0 ? after - 1 : far;
    if (window > 0 || (!s.causal && after > 0)) s.sinks = a->sinks;
    return s;
}

static const gyre_positions *orders_of(const gyre_ring_call *r, const gyre_shard_info *shard) {
    return r->whole.causal == GYRE_CAUSAL_BY_ORDER ? &shard->order : &shard->positions;
}

/* Tokens of one sequence, whose orders rise. */
typedef struct run_of_tokens {
    const gyre_positions *orders;
    int64_t row, first, end;
} run_of_tokens;

static int64_t order_at(const run_of_tokens *t, int64_t token) {
    return gyre_position_at(t->orders, t->row, token, 0);
}

/* out = the first token from `from` on with at least that order; t->end: none. */
static int64_t first_from(const run_of_tokens *t, int64_t from, int64_t order) {
    int64_t low = from, high = t->end;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (order_at(t, middle) < order)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* out = the first key that some query sees within its window; k->end: none. */
static int64_t first_seen(const sight *s, const run_of_tokens *q, const run_of_tokens *k) {
    for (int64_t key = k->first, query = q->first; key < k->end;) {
        query = first_from(q, query, order_at(k, key) - s->after);
        if (query == q->end) break;
        const int64_t low = order_at(q, query) - s->before;
        if (low <= order_at(k, key)) return key;
        key = first_from(k, key, low);
    }
    return k->end;
}

/* out = past the last key that some query sees within its window; k->first: none. */
static int64_t end_seen(const sight *s, const run_of_tokens *q, const run_of_tokens *k) {
    for (int64_t key = k->end - 1; key >= k->first;) {
        const int64_t query = first_from(q, q->first, order_at(k, key) + s->before + 1) - 1;
        if (query < q->first) break;
        const int64_t high = order_at(q, query) + s->after;
        if (order_at(k, key) <= high) return key + 1;
        key = first_from(k, k->first, high + 1) - 1;
    }
    return k->first;
}

/* Widens *seen by what the queries see of the keys. */
static void widen(const sight *s, const run_of_tokens *q, const run_of_tokens *k, gyre_ring_range *seen) {
    if (q->first >= q->end || k->first >= k->end) return;
    int64_t first = first_seen(s, q, k), end = end_seen(s, q, k);
    const int64_t last = order_at(q, q->end - 1), sinks = s->causal && last < s->sinks - 1 ? last + 1 : s->sinks;
    if (s->sinks > 0 && order_at(k, k->first) < sinks) {
        const int64_t sink_end = first_from(k, k->first, sinks);
        end = end > sink_end && first < k->end ? end : sink_end;
        first = k->first;
    }
    if (first >= end) return;
    first = k->first + (first - k->first) / TILE * TILE;
    const int64_t before = seen->first + seen->count;
    if (seen->count == 0)
        *seen = (gyre_ring_range){first, end - first};
    else
        seen->first = gyre_min_i64(seen->first, first), seen->count = gyre_max_i64(before, end) - seen->first;
}

/* out = the sequence that has a token. */
static int64_t sequence_at(const int64_t *starts, int64_t sequences, int64_t token) {
    int64_t low = 0, high = sequences;
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (starts[middle] <= token)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static gyre_ring_range seen_of(const gyre_ring_call *r, const gyre_ring_side_info *q, const gyre_ring_side_info *k) {
    const sight s = sight_of(r);
    gyre_ring_range seen = {k->range.first, 0};
    const int64_t q_end = q->range.first + q->range.count, k_end = k->range.first + k->range.count;
    if (q->range.count == 0 || k->range.count == 0) return seen;
    if (!q->starts || !k->starts) {
        for (int64_t row = 0; row < r->own.rows; row++) {
            const run_of_tokens queries = {q->orders, row, q->range.first, q_end},
                                keys = {k->orders, row, k->range.first, k_end};
            widen(&s, &queries, &keys, &seen);
        }
        return seen;
    }
    for (int64_t n = sequence_at(q->starts, r->own.sequences, q->range.first);
         n < r->own.sequences && q->starts[n] < q_end && k->starts[n] < k_end; n++) {
        const run_of_tokens queries = {q->orders, 0, gyre_max_i64(q->starts[n], q->range.first),
                                       gyre_min_i64(q->starts[n + 1], q_end)};
        const run_of_tokens keys = {k->orders, 0, gyre_max_i64(k->starts[n], k->range.first),
                                    gyre_min_i64(k->starts[n + 1], k_end)};
        widen(&s, &queries, &keys, &seen);
    }
    return seen;
}

gyre_ring_range gyre_ring_seen(const gyre_ring_call *r, int64_t rank, const gyre_ring_side_info *keys) {
    const gyre_shard_info shard = gyre_ring_queries_of(r, rank);
    const gyre_ring_range chunk = gyre_ring_chunk(r, rank);
    const gyre_ring_side_info queries = {orders_of(r, &shard), shard.starts, chunk};
    if (chunk.count == 0) return (gyre_ring_range){keys->range.first, 0};
    return r->rising ? seen_of(r, &queries, keys) : keys->range;
}

gyre_ring_range gyre_ring_seen_piece(const gyre_ring_call *r, int64_t rank, int64_t owner, int64_t piece) {
    const gyre_shard_info shard = gyre_ring_keys_of(r, owner);
    const gyre_ring_side_info keys = {orders_of(r, &shard), shard.starts, gyre_ring_piece(r, owner, piece)};
    return gyre_ring_seen(r, rank, &keys);
}

/* -- orders that rise -- */

static int batch_rises(const gyre_ring_call *r, const gyre_batch *batch) {
    const int64_t *orders = r->whole.causal == GYRE_CAUSAL_BY_ORDER ? batch->order : batch->positions;
    if (batch->padded && batch->form != GYRE_BATCH_PACKED) return 0;
    for (int64_t i = 1; i < batch->rows * batch->tokens; i++)
        if (batch->document_of[i] == batch->document_of[i - 1] && i % batch->tokens != 0 && orders[i] < orders[i - 1])
            return 0;
    return 1;
}

int gyre_ring_orders_rise(const gyre_ring_call *r) {
    const sight s = sight_of(r);
    const int64_t far = INT64_MAX / 4;
    if (s.before >= far && s.after >= far) return 0; /* everything is seen */
    return batch_rises(r, r->shards->batch) && batch_rises(r, r->key_shards->batch);
}
