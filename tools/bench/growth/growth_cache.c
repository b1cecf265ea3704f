/* growth_cache.c: each call of a cache over a rising number of tokens. */
#include "gyre/gyre_cache.h"
#include "tools/bench/growth/growth.h"
#include <math.h>
#include <stdlib.h>

enum { HEAD_DIM = 16, PAGE = 16, SINKS = 4, REPEATED = 16, ALIGNMENT = 64, FIRST = 1 << 9, LAST = 1 << 17 };

/* Sequence 0 has the tokens of the size; sequence 1 is for forks. */
typedef struct cached {
    gyre_cache *cache;
    gyre_encoding *encoding[2]; /* the cache is switched to the second and back */
    float *rows;                /* [size][HEAD_DIM] keys, and values */
    void *scratch;
    size_t scratch_bytes;
    char path[2048 + 16];
} cached;

static gyre_status append(const growth *g, int64_t tokens) {
    const cached *c = g->state;
    const gyre_cview rows = gyre_cdense(c->rows, GYRE_DTYPE_F32, 1, tokens, 1, HEAD_DIM);
    const gyre_positions at = {.base = gyre_cache_tokens(c->cache, 0)};
    return gyre_cache_append(c->cache, GYRE_ARGS(gyre_cache_append_args, .k = rows, .v = rows, .positions = &at), NULL,
                             NULL);
}

static gyre_status empty(const growth *g) {
    const cached *c = g->state;
    gyre_status status = GYRE_OK;
    for (int64_t i = 0; i < 2 && !status; i++)
        status = gyre_cache_remove(c->cache, (gyre_cache_range){i, 0, gyre_cache_tokens(c->cache, i)}, NULL);
    return status;
}

static gyre_status refill(const growth *g) {
    const gyre_status status = empty(g);
    return status ? status : append(g, g->size);
}

static gyre_status open_cache(cached *c, int64_t tokens) {
    gyre_config rope = GYRE_INIT(gyre_config);
    gyre_cache_config config = GYRE_INIT(gyre_cache_config);
    gyre_status status = GYRE_OK;
    rope.kind = gyre_kind_find("rope");
    rope.head_dim = rope.rope.dim = HEAD_DIM;
    rope.trained_length = LAST; /* angles of all positions in tables; without, those past 32768 take longer */
    for (int i = 0; i < 2 && !status; i++) {
        rope.rope.base = i ? 500000 : 10000;
        status = gyre_encoding_create(&c->encoding[i], &rope, NULL, NULL);
    }
    config.encoding = c->encoding[0];
    config.keys = GYRE_CACHE_KEYS_ROTATED;
    config.key_dtype = config.value_dtype = GYRE_DTYPE_F32;
    config.heads = 1;
    config.head_dim = HEAD_DIM;
    config.sequences = 2;
    config.max_tokens = 2 * tokens;
    config.page_tokens = PAGE;
    return status ? status : gyre_cache_create(&c->cache, &config, NULL, NULL);
}

static int prepare_empty(void *arg) {
    growth *g = arg;
    cached *c = calloc(1, sizeof *c);
    if (!c) return 1;
    g->state = c;
    c->rows = calloc((size_t)g->size, HEAD_DIM * sizeof *c->rows);
    for (int64_t i = 0; c->rows && i < g->size * HEAD_DIM; i++)
        c->rows[i] = (float)(i % 7) - 3;
    snprintf(c->path, sizeof c->path, "%s/saved", g->folder.path);
    return !c->rows || open_cache(c, g->size);
}
static int prepare_cache(void *g) {
    return prepare_empty(g) || refill(g);
}

/* -- the calls: out = 0, or the status of the first that failed -- */
static gyre_status append_one(growth *g) {
    return append(g, 1);
}
static gyre_status fork_sequence(growth *g) {
    const cached *c = g->state;
    return gyre_cache_fork(c->cache, 0, 1, NULL);
}
static gyre_status remove_one(growth *g) {
    const cached *c = g->state;
    return gyre_cache_remove(c->cache, (gyre_cache_range){0, SINKS, 1}, NULL);
}
static gyre_status shift_most(growth *g) {
    const cached *c = g->state;
    const int64_t delta[GYRE_MAX_AXES] = {1};
    return gyre_cache_shift(c->cache, (gyre_cache_range){0, g->size / 4, g->size - g->size / 4}, delta, NULL);
}
static gyre_status slide_by_one(growth *g) {
    const cached *c = g->state;
    return gyre_cache_slide(c->cache, 0, SINKS, g->size - 1, NULL, NULL);
}
static gyre_status change_encoding(growth *g) {
    const cached *c = g->state;
    return gyre_cache_set_encoding(c->cache, c->encoding[gyre_cache_get_config(c->cache)->encoding == c->encoding[0]], 0,
                                   NULL, NULL);
}
static gyre_status save_and_load(growth *g) {
    const cached *c = g->state;
    gyre_cache *loaded = NULL;
    gyre_status status = gyre_cache_save(c->cache, c->path, NULL);
    if (!status) status = gyre_cache_load(&loaded, c->path, gyre_cache_get_config(c->cache)->encoding, NULL, NULL);
    gyre_cache_free(loaded);
    return status;
}
static gyre_status attend(growth *g) {
    cached *c = g->state;
    float q[HEAD_DIM] = {1}, out[HEAD_DIM];
    const int64_t sequence = 0;
    gyre_attention_args args = GYRE_INIT(gyre_attention_args);
    args.q = gyre_cdense(q, GYRE_DTYPE_F32, 1, 1, 1, HEAD_DIM);
    args.out = gyre_dense(out, GYRE_DTYPE_F32, 1, 1, 1, HEAD_DIM);
    args.q_pos.base = g->size - 1;
    args.causal = GYRE_CAUSAL_BY_POSITION;
    size_t bytes = 0;
    gyre_status status = gyre_cache_attention_scratch(c->cache, &sequence, &args, NULL, &bytes, NULL);
    if (!status && bytes > c->scratch_bytes) {
        free(c->scratch);
        c->scratch = aligned_alloc(ALIGNMENT, (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
        c->scratch_bytes = bytes;
    }
    if (!status && !c->scratch) status = GYRE_ENOMEM;
    return status
               ? status
               : gyre_cache_attention(c->cache, &sequence, &args, (gyre_scratch){c->scratch, c->scratch_bytes}, NULL, NULL);
}

/* *g->seconds = the least time of one call over the rounds, each with the tokens of the size in the cache. */
static int time_call(growth *g, gyre_status (*call)(growth *g), int times) {
    double least = INFINITY;
    for (int64_t round = 0; round < g->rounds; round++) {
        if (refill(g)) return 1;
        const double started = growth_processor_seconds();
        for (int i = 0; i < times; i++)
            if (call(g)) return 1;
        least = fmin(least, (growth_processor_seconds() - started) / times);
    }
    *g->seconds = least;
    return 0;
}

static int work_append_one(void *g) {
    return time_call(g, append_one, REPEATED);
}
static int work_fork(void *g) {
    return time_call(g, fork_sequence, REPEATED);
}
static int work_remove(void *g) {
    return time_call(g, remove_one, REPEATED);
}
static int work_shift(void *g) {
    return time_call(g, shift_most, REPEATED);
}
static int work_slide(void *g) {
    return time_call(g, slide_by_one, 1);
}
static int work_change_encoding(void *g) {
    return time_call(g, change_encoding, 1);
}
static int work_save(void *g) {
    return time_call(g, save_and_load, 1);
}
static int work_attend(void *g) {
    return time_call(g, attend, 1);
}
static int work_append_all(void *arg) {
    growth *g = arg;
    double least = INFINITY;
    for (int64_t round = 0; round < g->rounds; round++) {
        if (empty(g)) return 1;
        const double started = growth_processor_seconds();
        if (append(g, g->size)) return 1;
        least = fmin(least, growth_processor_seconds() - started);
    }
    *g->seconds = least;
    return 0;
}

#define OF_TOKENS "tokens", FIRST, LAST, 4
const growth_case growth_cache_cases[GROWTH_CACHE_CASES] = {
    {"cache-append-all", OF_TOKENS, 1, 1, NULL, prepare_empty, work_append_all},
    {"cache-append-one", OF_TOKENS, 0, 0, NULL, prepare_cache, work_append_one},
    {"cache-fork", OF_TOKENS, 1, 1, NULL, prepare_cache, work_fork},
    {"cache-remove", OF_TOKENS, 1, 0, NULL, prepare_cache, work_remove},
    {"cache-shift", OF_TOKENS, 1, 0, NULL, prepare_cache, work_shift},
    {"cache-slide", OF_TOKENS, 1, 0, NULL, prepare_cache, work_slide},
    {"cache-encoding", OF_TOKENS, 1, 1, NULL, prepare_cache, work_change_encoding}, /* memory: a table of angles is filled */
    {"cache-save", OF_TOKENS, 1, 1, NULL, prepare_cache, work_save},
    {"cache-attend", OF_TOKENS, 1, 1, NULL, prepare_cache, work_attend},
};
