/* shard_plan.c: the arithmetic of the plan.
 *
 * Keys of a layer that sees all of them go around a ring of `ranks` steps.  In each a rank computes with one block of
 * keys and values while that block moves to the next rank, so a step takes the longer of the two.  The last block is not
 * sent on.  A layer with a window fetches the keys that its windows reach, from the ranks that have them. */
#include "tools/shard/shard.h"
#include <math.h>

/* -- pairs -- */

/* Keys that the first n queries of a sequence see, all of them together.  window 0 = all. */
static double pairs_below(double n, double window) {
    if (window <= 0 || n <= window) return n * (n + 1) / 2;
    return window * (window + 1) / 2 + (n - window) * window;
}

/* The same where a query sees the keys of its chunk alone. */
static double chunk_pairs_below(double n, double chunk) {
    const double whole = floor(n / chunk), left = n - whole * chunk;
    return whole * chunk * (chunk + 1) / 2 + left * (left + 1) / 2;
}

typedef struct token_part {
    int64_t first, end;
} token_part;

/* out = parts of a rank of a layout in parts: 1, or 2 of zigzag. */
static int parts_of(const shard_options *o, int64_t rank, token_part out[2]) {
    const int halves = o->layout == GYRE_SHARD_ZIGZAG ? 2 : 1;
    const int64_t parts = halves * o->ranks;
    for (int half = 0; half < halves; half++) {
        const int64_t part = half ? parts - 1 - rank : rank;
        out[half] = (token_part){part * o->context / parts, (part + 1) * o->context / parts};
    }
    return halves;
}

/* Queries at rank, rank + ranks, ...: the first of them see all keys before them, the others a window. */
static double striped_pairs(const shard_options *o, int64_t rank, int64_t window) {
    const int64_t count = (o->context - rank + o->ranks - 1) / o->ranks;
    int64_t growing = count;
    if (window > 0) growing = window <= rank ? 0 : (window - rank - 1) / o->ranks + 1;
    if (growing > count) growing = count;
    const double n = (double)growing;
    return n * (double)(rank + 1) + (double)o->ranks * n * (n - 1) / 2 + (double)(count - growing) * (double)window;
}

/* out = keys that the first n queries see, all of them together. */
static double seen_below(const shard_kind *kind, double n) {
    return kind->chunked ? chunk_pairs_below(n, (double)kind->window) : pairs_below(n, (double)kind->window);
}

/* out = the pairs of a rank; not of chunks dealt out in stripes. */
static double pairs_of_rank(const shard_options *o, int64_t rank, const shard_kind *kind) {
    token_part parts[2];
    double pairs = 0;
    if (o->layout == GYRE_SHARD_STRIPED) return striped_pairs(o, rank, kind->window);
    for (int i = 0, n = parts_of(o, rank, parts); i < n; i++)
        pairs += seen_below(kind, (double)parts[i].end) - seen_below(kind, (double)parts[i].first);
    return pairs;
}

/* -- keys of other ranks -- */

/* out = the first key that a query sees. */
static int64_t first_seen(const shard_kind *kind, int64_t query) {
    if (kind->chunked) return query / kind->window * kind->window;
    return query > kind->window - 1 ? query - (kind->window - 1) : 0;
}

/* out = tokens of other ranks that the windows of a rank's queries reach; not of chunks dealt out in stripes. */
static double fetched_by(const shard_options *o, int64_t rank, const shard_kind *kind) {
    const int64_t window = kind->window;
    token_part parts[2];
    int64_t fetched = 0;
    if (o->layout == GYRE_SHARD_STRIPED) {
        const int64_t own = (o->context - rank + o->ranks - 1) / o->ranks, before = window - 1;
        const int64_t between = before < o->ranks - 1 ? before : o->ranks - 1; /* of two own tokens */
        return (double)((before < rank ? before : rank) + (own - 1) * between);
    }
    for (int i = 0, n = parts_of(o, rank, parts); i < n; i++) {
        const int64_t from = first_seen(kind, parts[i].first);
        const int64_t known = i == 1 && parts[0].end > from ? parts[0].end : from; /* own, or fetched for the first part */
        fetched += parts[i].first - known;
    }
    return (double)fetched;
}

/* out = ranks that a rank fetches keys from, at most. */
static double senders(const shard_options *o, int64_t window) {
    const int64_t others = o->ranks - 1, halves = o->layout == GYRE_SHARD_ZIGZAG ? 2 : 1;
    if (o->layout == GYRE_SHARD_STRIPED) return (double)(window - 1 < others ? window - 1 : others);
    const int64_t part = o->context / (halves * o->ranks), reached = halves * ((window - 1 + part - 1) / part);
    return (double)(reached < others ? reached : others);
}

/* -- chunks dealt out in stripes -- */

/* Of one rank: pairs of its queries, and keys of other ranks that it fetches. */
typedef struct chunk_work {
    int64_t pairs, fetched;
} chunk_work;

/* out = those of a chunk of `length` tokens, the first of the rank's at `offset`.  It fetches all tokens before its last but
 * its own. */
static chunk_work work_of_chunk(const shard_options *o, int64_t offset, int64_t length) {
    const int64_t n = offset < length ? (length - offset + o->ranks - 1) / o->ranks : 0;
    return (chunk_work){n * (offset + 1) + o->ranks * (n * (n - 1) / 2), n > 0 ? offset + (n - 1) * (o->ranks - 1) : 0};
}

static void add_work(chunk_work *sum, int64_t times, chunk_work work) {
    sum->pairs += times * work.pairs;
    sum->fetched += times * work.fetched;
}

/* out = the place of the first token of a rank in a chunk that begins `begin` tokens after one of rank 0. */
static int64_t offset_in(const shard_options *o, int64_t rank, int64_t begin) {
    return ((rank - begin) % o->ranks + o->ranks) % o->ranks;
}

static int64_t common_divisor(int64_t a, int64_t b) {
    return b == 0 ? a : common_divisor(b, a % b);
}

/* p->pairs, p->fetched = those of the rank with most.  A context may have 2^31 chunks.  The offsets of a rank repeat after
 * `period` chunks, and in them it has those of rank + step, which come one chunk later: the sums of one rank make those of
 * the next, and the work grows with the ranks alone. */
static void count_striped_chunks(const shard_options *o, int64_t chunk, shard_kind_plan *p) {
    const int64_t whole = o->context / chunk, step = chunk % o->ranks;
    const int64_t period = o->ranks / common_divisor(chunk, o->ranks), periods = whole / period, more = whole % period;
    p->pairs = p->fetched = 0;
    for (int64_t first = 0; first < o->ranks / period; first++) {
        chunk_work of_period = {0, 0}, of_more = {0, 0};
        for (int64_t k = 0; k < period; k++) {
            const chunk_work work = work_of_chunk(o, offset_in(o, first, k * step), chunk);
            add_work(&of_period, 1, work);
            add_work(&of_more, k < more, work);
        }
        for (int64_t i = 0, rank = first; i < period; i++) {
            chunk_work sum = of_more;
            add_work(&sum, periods, of_period);
            add_work(&sum, 1, work_of_chunk(o, offset_in(o, rank, whole % o->ranks * step), o->context % chunk));
            p->pairs = fmax(p->pairs, (double)sum.pairs);
            p->fetched = fmax(p->fetched, (double)sum.fetched);
            rank = (rank + step) % o->ranks;
            add_work(&of_more, 1, work_of_chunk(o, rank, chunk));
            add_work(&of_more, -1, work_of_chunk(o, offset_in(o, rank, more * step), chunk));
        }
    }
}

/* -- a kind of layers -- */

static void count_ranks(const shard_options *o, const shard_kind *kind, shard_kind_plan *p) {
    if (kind->chunked && o->layout == GYRE_SHARD_STRIPED) {
        count_striped_chunks(o, kind->window, p);
        return;
    }
    for (int64_t r = 0; r < o->ranks; r++) {
        p->pairs = fmax(p->pairs, pairs_of_rank(o, r, kind));
        if (kind->window > 0) p->fetched = fmax(p->fetched, fetched_by(o, r, kind));
    }
}

static void count_pairs(const shard_options *o, const shard_kind *kind, double tokens, shard_kind_plan *p) {
    p->pairs_all = seen_below(kind, (double)o->context);
    count_ranks(o, kind, p);
    p->step_pairs = p->pairs;
    if (kind->window == 0) p->fetched = (double)o->context - tokens;
    /* Dealt out in contiguous parts, one rank has a whole block in every step but the first, and all wait for it.
     * Zigzag and striped ranks have half a block each.  Keys within a window are not passed on, and no rank waits. */
    if (o->layout == GYRE_SHARD_CONTIGUOUS && kind->window == 0)
        p->step_pairs = (double)(o->ranks - 1) * tokens * tokens + tokens * (tokens + 1) / 2;
}

static double bytes_of(gyre_dtype type) {
    return type == GYRE_DTYPE_F32 ? 4 : 2;
}

double shard_numbers_of_token(const shard_model *m, const shard_options *o) {
    /* Every device needs the whole latent.  More devices than heads of keys: some have the same head. */
    if (m->latent) return (double)(m->latent + m->latent_rope);
    return fmax(1, (double)m->kv_heads / (double)o->tensor) * (double)(m->head_dim + m->value_dim);
}

/* A window keeps its last keys alone once a prompt is read; the gradient needs all. */
static void count_kind_bytes(const shard_model *m, const shard_options *o, const shard_kind *kind, double tokens,
                             shard_kind_plan *p) {
    const double numbers = shard_numbers_of_token(m, o), element = bytes_of(o->dtype), layers = (double)kind->layers;
    const double kept = kind->window > 0 && !o->gradient ? fmin(tokens, (double)kind->window) : tokens;
    const double exchanges = kind->window > 0 ? senders(o, kind->window) : (double)(o->ranks - 1);
    const double moved = kind->window > 0 ? p->fetched : exchanges * tokens;
    p->cache = layers * kept * numbers * element;
    p->message = exchanges > 0 ? moved / exchanges * numbers * element : 0;
    p->messages = layers * exchanges;
    p->sent = layers * moved * numbers * element;
    if (!o->gradient) return;
    /* Keys and values again, and their gradients in float, which end where they belong: on a ring one step more. */
    const double back = kind->window > 0 || o->ranks == 1 ? exchanges : exchanges + 1;
    p->sent += p->sent + layers * (kind->window > 0 ? moved : back * tokens) * numbers * 4;
    p->messages += p->messages + layers * back;
}

/* Operations of attention.  A pair: 2 a channel of keys and 2 one of values; the gradient computes the scores again.  A
 * token of another rank whose latent is made keys and values here: 2 a weight; the gradient makes them again, and goes back
 * through the weights. */
static double pair_operations(const shard_model *m, const shard_options *o) {
    const double keys = (double)m->head_dim, values = (double)m->value_dim;
    return (double)m->heads * (o->gradient ? 8 * keys + 6 * values : 2 * keys + 2 * values);
}

static double latent_operations(const shard_model *m, const shard_options *o) {
    if (!m->latent) return 0;
    const double made = (double)(m->heads * (m->head_dim - m->latent_rope + m->value_dim));
    return (o->gradient ? 8.0 : 2.0) * (double)m->latent * made;
}

static void count_kind_seconds(const shard_model *m, const shard_options *o, const shard_kind *kind, double tokens,
                               shard_kind_plan *p) {
    const double rate = o->flops * (double)o->tensor, layers = (double)kind->layers;
    p->attention = layers * (pair_operations(m, o) * p->step_pairs + latent_operations(m, o) * p->fetched) / rate;
    p->transfer = p->sent / o->bandwidth + p->messages * o->latency;
    const double beside = kind->window > 0 ? tokens / (tokens + p->fetched)             /* attention to own keys */
                                           : (double)(o->ranks - 1) / (double)o->ranks; /* steps with a message */
    p->exposed = fmax(0, p->transfer - p->attention * beside);
}

/* -- the plan -- */

static void add_up(const shard_model *m, const shard_options *o, shard_plan *p) {
    const double of_token = (o->gradient ? 6.0 : 2.0) * m->active_weights, rate = o->flops * (double)o->tensor;
    p->linear = of_token * p->tokens / rate;
    p->single = of_token * (double)o->context / rate;
    for (int i = 0; i < m->kinds_count; i++) {
        const shard_kind_plan *k = &p->kinds[i];
        p->cache += k->cache;
        p->message = fmax(p->message, k->message);
        p->messages += k->messages;
        p->sent += k->sent;
        p->attention += k->attention;
        p->transfer += k->transfer;
        p->exposed += k->exposed;
        p->single += (double)m->kinds[i].layers * pair_operations(m, o) * k->pairs_all / rate;
    }
    p->overlapped = p->linear + p->attention + p->exposed;
    p->apart = p->linear + p->attention + p->transfer;
}

void shard_plan_make(const shard_model *m, const shard_options *o, shard_plan *out) {
    const double element = bytes_of(o->dtype), numbers = shard_numbers_of_token(m, o), heads = (double)m->heads;
    *out = (shard_plan){.tokens = ceil((double)o->context / (double)o->ranks)};
    for (int i = 0; i < m->kinds_count; i++) {
        count_pairs(o, &m->kinds[i], out->tokens, &out->kinds[i]);
        count_kind_bytes(m, o, &m->kinds[i], out->tokens, &out->kinds[i]);
        count_kind_seconds(m, o, &m->kinds[i], out->tokens, &out->kinds[i]);
        const double ring = out->tokens * (2 * element + (o->gradient ? 12 : 0)); /* two blocks, three of gradients */
        const double reached = out->kinds[i].fetched * (element + (o->gradient ? 4 : 0));
        out->blocks = fmax(out->blocks, numbers * (m->kinds[i].window > 0 ? reached : ring));
    }
    out->weights = m->weights / (double)o->tensor * element;
    out->state = out->tokens * heads / (double)o->tensor * (double)(m->value_dim + 2) * (o->gradient ? 4 : 8);
    add_up(m, o, out);
    /* 2 heads (keys + values) block^2 / flops >= bytes of a block / bandwidth: section 3 of the paper on ring attention. */
    out->hiding_block =
        numbers * element * o->flops * (double)o->tensor / (2 * heads * (double)(m->head_dim + m->value_dim) * o->bandwidth);
}

double shard_efficiency(const shard_options *o, const shard_plan *p, double seconds) {
    return p->single / (double)o->ranks / seconds;
}

double shard_imbalance(const shard_options *o, const shard_kind_plan *kind) {
    return kind->pairs * (double)o->ranks / kind->pairs_all;
}
