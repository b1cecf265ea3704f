/* shard_plan.c: the arithmetic of the plan.
 *
 * A layer of a ring has `ranks` steps.  In each a rank computes with one block of keys and values while that block goes on
 * to the next rank, so a step takes the longer of the two.  The last block is not sent on. */
#include "tools/shard/shard.h"
#include <math.h>

/* Keys that the queries first .. first + count - 1 of a sequence see, all of them together. */
static double pairs_of_run(double first, double count) {
    return count * first + count * (count + 1) / 2;
}

/* out = the pairs of a rank. */
static double pairs_of_rank(const shard_options *o, int64_t rank) {
    const int64_t tokens = o->context, ranks = o->ranks;
    if (o->layout == GYRE_SHARD_STRIPED) {
        const int64_t of_rank = (tokens - rank + ranks - 1) / ranks;
        const double count = (double)of_rank;
        return count * (double)(rank + 1) + (double)ranks * count * (count - 1) / 2;
    }
    const int64_t parts = o->layout == GYRE_SHARD_ZIGZAG ? 2 * ranks : ranks;
    double pairs = 0;
    for (int half = 0; half < (o->layout == GYRE_SHARD_ZIGZAG ? 2 : 1); half++) {
        const int64_t part = half ? parts - 1 - rank : rank, first = part * tokens / parts,
                      end = (part + 1) * tokens / parts;
        pairs += pairs_of_run((double)first, (double)(end - first));
    }
    return pairs;
}

static void count_pairs(const shard_options *o, shard_plan *p) {
    const double tokens = (double)o->context, ranks = (double)o->ranks;
    p->tokens = ceil(tokens / ranks);
    p->pairs_all = pairs_of_run(0, tokens);
    for (int64_t r = 0; r < o->ranks; r++)
        p->pairs = fmax(p->pairs, pairs_of_rank(o, r));
    /* Dealt out in contiguous parts, one rank has a whole block in every step but the first, and all wait for it.  Zigzag
     * and striped ranks have half a block each. */
    p->step_pairs = o->layout == GYRE_SHARD_CONTIGUOUS
                        ? (ranks - 1) * p->tokens * p->tokens + p->tokens * (p->tokens + 1) / 2
                        : p->pairs;
}

static double bytes_of(gyre_dtype type) {
    return type == GYRE_DTYPE_F32 ? 4 : 2;
}

static void count_bytes(const shard_model *m, const shard_options *o, shard_plan *p) {
    const double element = bytes_of(o->dtype), tensor = (double)o->tensor;
    /* More devices than heads of keys: some have the same head. */
    const double kv_heads = fmax(1, (double)m->kv_heads / tensor), heads = (double)m->heads / tensor;
    const double of_token = 2 * kv_heads * (double)m->head_dim, block = of_token * p->tokens;
    p->weights = m->weights / tensor * element;
    p->cache = (double)m->layers * block * element;
    p->blocks = 2 * block * element + (o->gradient ? 3 * block * 4 : 0);
    p->state = p->tokens * heads * (double)(m->head_dim + 2) * (o->gradient ? 4 : 8);
    p->message = block * element;
    p->messages = (double)(m->layers * (o->ranks - 1));
    p->sent = p->messages * p->message;
    if (o->gradient) { /* keys and values again; their gradients in float, which end where they belong */
        const double back = (double)(m->layers * (o->ranks > 1 ? o->ranks : 0));
        p->sent += p->messages * p->message + back * block * 4;
        p->messages = 2 * p->messages + back;
    }
}

/* Products: 2 operations a weight and token, and 4 more for the gradient.  Attention: 4 a channel and pair, and 10 more,
 * because the gradient computes the scores again. */
static void count_seconds(const shard_model *m, const shard_options *o, shard_plan *p) {
    const double tensor = (double)o->tensor, rate = o->flops * tensor;
    const double of_pair = (o->gradient ? 14.0 : 4.0) * (double)(m->heads * m->head_dim * m->layers);
    const double of_token = (o->gradient ? 6.0 : 2.0) * m->active_weights;
    p->linear = of_token * p->tokens / rate;
    p->attention = of_pair * p->step_pairs / rate;
    p->transfer = p->sent / o->bandwidth + p->messages * o->latency;
    const double steps = (double)(o->ranks - 1) / (double)o->ranks; /* of attention, that have a message beside them */
    p->exposed = fmax(0, p->transfer - p->attention * steps);
    p->overlapped = p->linear + p->attention + p->exposed;
    p->apart = p->linear + p->attention + p->transfer;
    p->single = (of_token * (double)o->context + of_pair * p->pairs_all) / rate;
    /* 4 heads head_dim block^2 / flops >= bytes of a block / bandwidth: section 3 of the paper on ring attention. */
    p->hiding_block = p->message / p->tokens * rate / (4 * (double)(m->heads * m->head_dim) * o->bandwidth);
}

void shard_plan_make(const shard_model *m, const shard_options *o, shard_plan *out) {
    *out = (shard_plan){.tokens = 0};
    count_pairs(o, out);
    count_bytes(m, o, out);
    count_seconds(m, o, out);
}

double shard_efficiency(const shard_options *o, const shard_plan *p, double seconds) {
    return p->single / (double)o->ranks / seconds;
}
