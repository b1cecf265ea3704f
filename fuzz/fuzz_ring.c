/* fuzz_ring.c: one rank of a ring whose other ranks are the bytes: what they say before the call begins, the numbers that
 * they send, and the exchange at which they fail.
 *
 * A greeting that is spoiled where it says what it is, or a failed exchange, never passes for agreement; with true greetings
 * and a transport that works the call succeeds, whatever numbers arrive. */
#include "attention_setup.h"
#include "fuzz_bytes.h"
#include "fuzz_support.h"
#include "gyre/gyre_ring.h"
#include "numbers.h"
#include "ring/ring_call.h"
#include "scratch_bytes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A greeting (ring_agreement.c): magic, version, status, rank, count, text, fields. */
enum { STATUS_AT = 16, STATUS_END = 24, TEXT_AT = 40, TEXT = 504, GREETING = TEXT_AT + TEXT + 8 * GYRE_RING_MOST_FIELDS };
enum { HEADS = 2, DIM = 4, MOST_DOCUMENTS = 3 };

typedef struct peers {
    fuzz_bytes in;
    test_random random;
    int64_t fails_at, exchanges; /* fails_at: -1 = none */
    int failed, spoiled, records;
    uint8_t greeting[GREETING]; /* what a rank like this one says */
} peers;

/* -- the other ranks -- */
static void spoil(peers *p, uint8_t *greeting) {
    const int way = fuzz_choice(&p->in, 4);
    memcpy(greeting, p->greeting, GREETING);
    for (int i = 0; way == 1 && i < GREETING; i++)
        greeting[i] = (uint8_t)fuzz_byte(&p->in);
    for (int i = 0; way > 1 && i < way; i++)
        greeting[fuzz_between(&p->in, 0, GREETING - 1)] ^= (uint8_t)fuzz_byte(&p->in);
    p->spoiled |= memcmp(greeting, p->greeting, GREETING) != 0 ? 1 : 0;
    p->spoiled |= memcmp(greeting, p->greeting, STATUS_END) != 0 ? 2 : 0;
}

static void send_numbers(peers *p, char *to, size_t bytes) {
    const int kind = fuzz_choice(&p->in, 4);
    for (size_t i = 0; i < bytes; i += sizeof(float)) {
        const uint64_t bits = test_next(&p->random);
        const float number = kind == 0   ? (float)(bits % 1000) / 500 - 1
                             : kind == 1 ? (bits % 3 ? INFINITY : -INFINITY)
                             : kind == 2 ? NAN
                                         : 0;
        memcpy(to + i, kind == 3 ? (const void *)&bits : &number, bytes - i < sizeof number ? bytes - i : sizeof number);
    }
}

static gyre_status begin(void *ctx, int channel, const gyre_exchange *e) {
    peers *p = ctx;
    fuzz_require(channel >= 0 && channel < GYRE_TRANSPORT_CHANNELS, "a channel that there is");
    fuzz_require((!e->sent || e->send) && (!e->received || e->receive), "memory to send from and to receive in");
    if (p->exchanges++ == p->fails_at) {
        p->failed = 1;
        return GYRE_EIO;
    }
    if (p->records) {
        if (e->sent == GREETING) memcpy(p->greeting, e->send, GREETING);
        if (e->received) memset(e->receive, 0, e->received);
    } else if (e->received == GREETING && !e->sent) {
        spoil(p, e->receive);
    } else if (e->received) {
        send_numbers(p, e->receive, e->received);
    }
    return GYRE_OK;
}

static gyre_status wait_for(void *ctx, int channel) {
    peers *p = ctx;
    (void)channel;
    if (p->exchanges++ != p->fails_at) return GYRE_OK;
    p->failed = 1;
    return GYRE_EIO;
}

/* -- one rank -- */
typedef struct rank_call {
    peers others;
    gyre_transport transport;
    gyre_encoding *encoding;
    gyre_batch *batch;
    gyre_shards *shards;
    attention_setup attention;
    attention_structs structs;
    gyre_ring_args ring;
    float *numbers[8]; /* q, k, v, out, dout, dq, dk, dv */
    double *lse, *state;
} rank_call;

static gyre_view rows_of(rank_call *c, int which, const gyre_shard_info *info) {
    const size_t count = (size_t)(info->rows * info->tokens * HEADS * DIM);
    c->numbers[which] = fuzz_room(count, sizeof(float));
    test_fill(&c->others.random, c->numbers[which], count);
    return gyre_dense(c->numbers[which], GYRE_DTYPE_F32, info->rows, info->tokens, HEADS, DIM);
}

/* out = 0 if the batch or its shards were refused. */
static int make_batch(rank_call *c, fuzz_bytes *in, gyre_shard_info *info) {
    gyre_batch_config batch = GYRE_INIT(gyre_batch_config);
    gyre_shard_config shards = GYRE_INIT(gyre_shard_config);
    gyre_error err = {0, ""};
    int64_t lengths[MOST_DOCUMENTS];
    batch.form = (gyre_batch_form)fuzz_choice(in, 3);
    batch.documents = 1 + fuzz_choice(in, MOST_DOCUMENTS);
    batch.lengths = lengths;
    for (int i = 0; i < MOST_DOCUMENTS; i++)
        lengths[i] = fuzz_between(in, 0, 20);
    shards.layout = (gyre_shard_layout)fuzz_choice(in, 4);
    shards.ranks = c->transport.ranks;
    shards.chunk_multiple = fuzz_choice(in, 3);
    gyre_status status = gyre_batch_create(&c->batch, &batch, NULL, &err);
    if (!status) status = gyre_shards_create(&c->shards, c->batch, &shards, NULL, &err);
    fuzz_require_error(status, &err);
    return !status && !gyre_shards_get(c->shards, c->transport.rank, info);
}

static int make_call(rank_call *c, fuzz_bytes *in) {
    gyre_shard_info info = GYRE_INIT(gyre_shard_info);
    attention_setup *a = &c->attention;
    const int order = fuzz_choice(in, 3) == 1;
    if (gyre_rope_create(&c->encoding, DIM, 100, GYRE_LAYOUT_HALF, NULL) || !make_batch(c, in, &info)) return 0;
    *a = (attention_setup)GYRE_INIT(attention_setup);
    a->encoding = c->encoding;
    a->causal = (gyre_causal)fuzz_choice(in, 3);
    a->window = fuzz_choice(in, 3) ? 0 : 1 + fuzz_between(in, 0, 20);
    a->order = order ? GYRE_ORDER_FIXED : GYRE_ORDER_FAST;
    a->q = gyre_const(rows_of(c, 0, &info));
    a->k = gyre_const(rows_of(c, 1, &info));
    a->v = gyre_const(rows_of(c, 2, &info));
    a->out = rows_of(c, 3, &info);
    c->lse = fuzz_room((size_t)(info.rows * info.tokens * HEADS), sizeof *c->lse);
    a->lse = gyre_dense(c->lse, GYRE_DTYPE_F64, info.rows, info.tokens, HEADS, 1);
    c->ring = (gyre_ring_args)GYRE_INIT(gyre_ring_args);
    c->ring.transport = &c->transport;
    c->ring.shards = c->shards;
    c->ring.attention = attention_setup_args(a, &c->structs);
    c->ring.pass = (gyre_ring_pass)fuzz_choice(in, 4);
    c->ring.gather_bytes = 4096;
    return 1;
}

static gyre_status attend(rank_call *c, int gradient, gyre_error *err) {
    gyre_shard_info info = GYRE_INIT(gyre_shard_info);
    gyre_ring_plan plan = GYRE_INIT(gyre_ring_plan);
    gyre_status status = gyre_ring_get_plan(&c->ring, gradient, NULL, &plan, err);
    if (status) return status;
    const fuzz_scratch scratch = fuzz_scratch_make(plan.scratch);
    fuzz_require(!gyre_shards_get(c->shards, c->transport.rank, &info), "a rank of the shards");
    if (gradient) {
        gyre_view d[4];
        for (int i = 0; i < 4; i++) {
            free(c->numbers[4 + i]);
            d[i] = rows_of(c, 4 + i, &info);
        }
        const gyre_attention_gradients gradients = {
            .size = sizeof gradients, .dout = gyre_const(d[0]), .dq = d[1], .dk = d[2], .dv = d[3]};
        status =
            gyre_ring_attention_gradient(&c->ring, &gradients, (gyre_scratch){scratch.memory, scratch.bytes}, NULL, err);
    } else {
        status = gyre_ring_attention(&c->ring, (gyre_scratch){scratch.memory, scratch.bytes}, NULL, err);
    }
    free(scratch.memory);
    return status;
}

/* Rows of three queries, which are on every rank. */
static gyre_status merge(rank_call *c, gyre_error *err) {
    enum { QUERIES = 3 };
    static float out[QUERIES * HEADS * DIM];
    const gyre_ring_merge_args none = GYRE_INIT(gyre_ring_merge_args);
    gyre_ring_merge_args m = none;
    if (!c->state) c->state = fuzz_room(QUERIES * HEADS * (DIM + 2), sizeof *c->state);
    m.transport = &c->transport;
    m.state = gyre_cdense(c->state, GYRE_DTYPE_F64, 1, QUERIES, HEADS, DIM + 2);
    m.out = gyre_dense(out, GYRE_DTYPE_F32, 1, QUERIES, HEADS, DIM);
    const fuzz_scratch scratch = fuzz_scratch_make(ring_merge_scratch(&m));
    const gyre_status status = gyre_ring_merge(&m, (gyre_scratch){scratch.memory, scratch.bytes}, NULL, err);
    free(scratch.memory);
    return status;
}

static gyre_status call_ring(rank_call *c, int kind, gyre_error *err) {
    *err = (gyre_error){0, ""};
    c->others.exchanges = 0;
    return kind == 2 ? merge(c, err) : attend(c, kind == 1, err);
}

/* The greeting of a rank that has no complaint, as this rank says it when the others send zeros. */
static void learn_greeting(rank_call *c, int kind) {
    gyre_error err;
    const int64_t fails_at = c->others.fails_at;
    c->others.records = 1, c->others.fails_at = -1;
    (void)call_ring(c, kind, &err);
    c->others.records = 0, c->others.fails_at = fails_at;
    memset(c->others.greeting + STATUS_AT, 0, STATUS_END - STATUS_AT);
    memset(c->others.greeting + TEXT_AT, 0, TEXT);
}

static void free_call(rank_call *c) {
    for (size_t i = 0; i < sizeof c->numbers / sizeof *c->numbers; i++)
        free(c->numbers[i]);
    free(c->lse);
    free(c->state);
    gyre_shards_free(c->shards);
    gyre_batch_free(c->batch);
    gyre_encoding_free(c->encoding);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_bytes in = {data, size};
    rank_call c = {.others = {.fails_at = -1}};
    gyre_error err;
    c.others.random = (test_random){1 + fuzz_byte(&in)};
    c.transport = (gyre_transport)GYRE_INIT(gyre_transport);
    c.transport.ranks = 2 + fuzz_choice(&in, 3);
    c.transport.rank = fuzz_between(&in, 0, c.transport.ranks - 1);
    c.transport.ctx = &c.others;
    c.transport.begin = begin;
    c.transport.wait = wait_for;
    if (fuzz_choice(&in, 4) == 1) c.others.fails_at = fuzz_between(&in, 0, 20);
    const int kind = fuzz_choice(&in, 3); /* forward, gradient, merge */
    gyre_ring_plan plan = GYRE_INIT(gyre_ring_plan);
    if (make_call(&c, &in) && (kind == 2 || !gyre_ring_get_plan(&c.ring, kind, NULL, &plan, NULL))) {
        learn_greeting(&c, kind);
        c.others.in = in;
        const gyre_status status = call_ring(&c, kind, &err);
        fuzz_require(status <= GYRE_OK && status >= GYRE_ERANGE, "a status that gyre.h names");
        fuzz_require_error(status, &err);
        fuzz_require(memchr(err.text, 0, sizeof err.text) != NULL, "a text that ends");
        fuzz_require(!c.others.failed || status, "a failed exchange fails the call");
        fuzz_require(!(c.others.spoiled & 2) || status, "a spoiled greeting is no agreement");
        fuzz_require(c.others.failed || c.others.spoiled || !status, err.text[0] ? err.text : "true greetings agree");
    }
    free_call(&c);
    return 0;
}
