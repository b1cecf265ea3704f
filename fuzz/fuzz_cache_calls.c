/* fuzz_cache_calls.c: any sequence of legal calls of a cache, against plain arrays: what it holds, where its tokens are,
 * and attention over them by the definition in double, of one sequence and of several in one call.  A call that fails
 * changes nothing, and an edit fails only where the pool of slot ranges may be full.  The last byte of an input chooses
 * integers for the keys and a pool so small that regions are widened in place and pages compacted for want of ranges. */
#include "attention_setup.h"
#include "cache/cache.h"
#include "fuzz_positions.h"
#include "fuzz_support.h"
#include "gyre/gyre_cache.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SEQUENCES = 3, MOST_TOKENS = 200, MOST_KEY_HEADS = 2, MOST_CALLS = 40, MOST_QUERIES = 10, GROUP = 2, MOST_ROWS = 4 };
enum { FIRST_MORE = 7 * 33 }; /* of the byte that chooses a call: the calls that came later */

typedef struct token {
    int64_t at;
    double k[MOST_KEY_HEADS][FUZZ_MOST_DIM], v[MOST_KEY_HEADS][FUZZ_MOST_DIM];
} token;

typedef struct sequence {
    int64_t count;
    token token[MOST_TOKENS];
} sequence;

typedef struct run {
    fuzz_bytes in;
    test_random random;
    fuzz_positions positions;
    gyre_cache_config config;
    gyre_cache *cache;
    sequence sequence[SEQUENCES];
    unsigned ends_with; /* the last byte of the input */
} run;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int is_q8(const run *r) {
    return r->config.key_dtype == GYRE_DTYPE_Q8;
}

/* Numbers that are rounded before they are rotated are known exactly; of others float alone is near enough. */
static gyre_dtype type_of_keys(run *r) {
    if (is_q8(r)) return GYRE_DTYPE_Q8;
    return r->config.keys == GYRE_CACHE_KEYS_RAW ? fuzz_dtype(&r->in) : GYRE_DTYPE_F32;
}

/* 1: values may be in keys, and are by a choice: no channel of a value rotates. */
static int chooses_values_in_keys(run *r) {
    const gyre_cache_config *c = &r->config;
    const gyre_config *e = gyre_encoding_get_config(c->encoding);
    if (c->value_dim == 0 || c->value_dim > c->head_dim) return 0;
    if (e->kind == GYRE_KIND_ROPE && e->rope.first_channel < c->value_dim) return 0;
    return fuzz_choice(&r->in, 2) == 1;
}

/* As if no more ranges had been taken: a cache has hundreds, which so few tokens never fill. */
static void shrink_pool(run *r) {
    const int64_t few = SEQUENCES + (r->ends_with >> 5) * 9;
    if ((r->ends_with >> 3 & 3) == 3 && few < r->cache->pool_size && few >= r->cache->pool_used) r->cache->pool_size = few;
}

static void make_cache(run *r) {
    fuzz_bytes *in = &r->in;
    gyre_error err = {0, ""};
    gyre_cache_config *c = &r->config;
    *c = (gyre_cache_config)GYRE_INIT(gyre_cache_config);
    c->heads = 1 + fuzz_choice(in, MOST_KEY_HEADS);
    c->head_dim = 1 + fuzz_choice(in, 40);
    c->value_dim = fuzz_choice(in, 2) ? 0 : 1 + fuzz_choice(in, 40);
    if (r->ends_with % 8 == 7) {
        c->key_dtype = GYRE_DTYPE_Q8;
        c->head_dim = 8 * (1 + c->head_dim / 10);
    }
    const fuzz_limits limits = {.head_dim = c->head_dim, .heads = c->heads * GROUP};
    fuzz_positions_make(&r->positions, in, &limits, &r->random);
    if (!r->positions.encoding) return;
    c->encoding = r->positions.encoding;
    c->keys = fuzz_choice(in, 2) && !is_q8(r) ? GYRE_CACHE_KEYS_ROTATED : GYRE_CACHE_KEYS_RAW;
    c->key_dtype = type_of_keys(r);
    c->value_dtype = fuzz_dtype(in);
    c->sequences = 1 + fuzz_choice(in, SEQUENCES);
    c->max_tokens = fuzz_between(in, SEQUENCES, MOST_TOKENS);
    c->page_tokens = fuzz_choice(in, 2) ? 0 : 1 + fuzz_choice(in, 20);
    c->values_in_keys = chooses_values_in_keys(r);
    const gyre_status status = gyre_cache_create(&r->cache, c, NULL, &err);
    fuzz_require_error(status, &err);
    fuzz_require(!status, err.text[0] ? err.text : "a legal cache is made");
    r->config = *gyre_cache_get_config(r->cache);
    shrink_pool(r);
}

/* -- calls -- */
/* Integers of a row depend on its largest number; tolerance() counts what they lose. */
static double rounded(gyre_dtype dtype, double x) {
    float memory[2];
    if (dtype == GYRE_DTYPE_Q8) return x;
    test_put(memory, dtype, 0, x);
    return test_get(memory, dtype, 0);
}

static void append(run *r, int64_t to) {
    const gyre_cache_config *c = &r->config;
    const int64_t count = 1 + fuzz_choice(&r->in, 20), first = fuzz_between(&r->in, 0, 400) - 20;
    sequence *s = &r->sequence[to];
    gyre_error err = {0, ""};
    if (s->count + count > MOST_TOKENS) return;
    fuzz_view k = fuzz_view_make(&r->in, fuzz_dtype(&r->in), 1, count, c->heads, c->head_dim),
              v = fuzz_view_make(&r->in, fuzz_dtype(&r->in), 1, count, c->heads, c->value_dim);
    fuzz_view_fill(&k, &r->random, 1);
    fuzz_view_fill(&v, &r->random, 1);
    const fuzz_view *from = c->values_in_keys ? &k : &v;
    const gyre_positions at = {.base = first};
    gyre_cache_append_args args = GYRE_INIT(gyre_cache_append_args);
    args.sequence = to, args.positions = &at;
    args.k = gyre_const(k.view);
    if (!c->values_in_keys) args.v = gyre_const(v.view);
    const gyre_status status = gyre_cache_append(r->cache, &args, NULL, &err);
    fuzz_require_error(status, &err);
    fuzz_require(!status || status == GYRE_ENOMEM, "tokens are appended, or there is no page");
    for (int64_t t = 0; t < count && !status; t++) {
        token *new = &s->token[s->count + t];
        new->at = first + t;
        for (int64_t h = 0; h < c->heads; h++) {
            for (int64_t i = 0; i < c->head_dim; i++)
                new->k[h][i] =
                    rounded(c->keys == GYRE_CACHE_KEYS_RAW ? c->key_dtype : GYRE_DTYPE_F32, fuzz_view_at(&k, 0, t, h, i));
            for (int64_t i = 0; i < c->value_dim; i++)
                new->v[h][i] = rounded(c->value_dtype, fuzz_view_at(from, 0, t, h, i));
        }
    }
    if (!status) s->count += count;
    fuzz_view_free(&k);
    fuzz_view_free(&v);
}

static void require_edited(gyre_status status, const gyre_error *err) {
    fuzz_require_error(status, err);
    fuzz_require(!status || status == GYRE_ENOMEM || status == GYRE_ERANGE, "a legal edit is done or has no room");
}

/* Before a call is refused for want of ranges, all pages have closed their holes and neighbors have become one range. */
static void require_compacted(const gyre_cache *c) {
    for (int64_t page = 0; page < c->page_high_water; page++)
        fuzz_require(c->page[page].live == c->page[page].fill, "no page has holes");
    for (int64_t i = 0; i < c->config.sequences; i++)
        for (int64_t k = 1; k < c->sequence[i].count; k++) {
            const gyre_slot_range *a = &c->sequence[i].ranges[k - 1], *b = a + 1;
            fuzz_require(a->page != b->page || a->first + a->count != b->first ||
                             memcmp(a->delta, b->delta, sizeof a->delta) != 0,
                         "no two ranges could be one");
        }
}

/* An edit that needs no page: it cuts at most two ranges, and no sequence has more ranges than tokens. */
static void require_room(const run *r, gyre_status status) {
    int64_t most = 2;
    for (int64_t i = 0; i < r->config.sequences; i++)
        most += r->sequence[i].count;
    fuzz_require(status != GYRE_ENOMEM || most > r->cache->pool_size, "an edit finds the ranges that are free");
    if (status == GYRE_ENOMEM) require_compacted(r->cache);
}

static void take_out(run *r, int64_t of) {
    sequence *s = &r->sequence[of];
    gyre_error err = {0, ""};
    const int64_t first = fuzz_between(&r->in, 0, s->count), count = fuzz_between(&r->in, 0, s->count - first);
    const gyre_status status = gyre_cache_remove(r->cache, (gyre_cache_range){of, first, count}, &err);
    require_edited(status, &err);
    require_room(r, status);
    if (status) return;
    memmove(s->token + first, s->token + first + count, (size_t)(s->count - first - count) * sizeof(token));
    s->count -= count;
}

static void shift(run *r, int64_t of) {
    sequence *s = &r->sequence[of];
    gyre_error err = {0, ""};
    const int64_t first = fuzz_between(&r->in, 0, s->count), count = fuzz_between(&r->in, 0, s->count - first);
    const int64_t delta[GYRE_MAX_AXES] = {fuzz_between(&r->in, -300, 300)};
    const gyre_status status = gyre_cache_shift(r->cache, (gyre_cache_range){of, first, count}, delta, &err);
    require_edited(status, &err);
    if (r->config.keys == GYRE_CACHE_KEYS_RAW) require_room(r, status); /* rotated keys may need a page of their own */
    for (int64_t t = first; t < first + count && !status; t++)
        s->token[t].at += delta[0];
}

static void fork_sequence(run *r, int64_t from) {
    const int64_t to = fuzz_choice(&r->in, (int)r->config.sequences);
    gyre_error err = {0, ""};
    const gyre_status status = gyre_cache_fork(r->cache, from, to, &err);
    require_edited(status, &err);
    if (!status && from != to) memcpy(&r->sequence[to], &r->sequence[from], sizeof(sequence));
}

static void slide(run *r, int64_t of) {
    sequence *s = &r->sequence[of];
    gyre_error err = {0, ""};
    const int64_t window = 1 + fuzz_choice(&r->in, 60), sinks = fuzz_between(&r->in, 0, window - 1);
    int64_t next = -1;
    const int64_t before = s->count;
    const gyre_status status = gyre_cache_slide(r->cache, of, sinks, window, &next, &err);
    require_edited(status, &err);
    if (status || before <= window) return;
    memmove(s->token + sinks, s->token + before - (window - sinks), (size_t)(window - sinks) * sizeof(token));
    s->count = window;
    for (int64_t t = 0; t < window; t++)
        s->token[t].at = t;
    fuzz_require(next == window, "the next token stands after the window");
}

/* -- attention -- */
static double score_of(const run *r, const token *k, int64_t head, int64_t m, const double *q, double scale) {
    double key[FUZZ_MOST_DIM], sum = 0;
    memcpy(key, k->k[head / GROUP], sizeof key);
    fuzz_positions_rotate(&r->positions, &k->at, 1, key);
    for (int64_t i = 0; i < r->config.head_dim; i++)
        sum += q[i] * key[i];
    return scale * sum + fuzz_positions_bias(&r->positions, head, m, k->at);
}

/* What a row of attention is and may be off by.  Integers, -127 .. 127 times a scale, are within 1 / 254 of numbers up to 1:
 * a score moves by at most the norms of query and difference, and the sum of the weights' changes by that. */
typedef struct wanted_row {
    double score[MOST_TOKENS], out[FUZZ_MOST_DIM], tolerance;
} wanted_row;

static double tolerance(const run *r, double largest) {
    const double f = r->positions.factor, root = sqrt((double)r->config.head_dim);
    return 3e-5 * (1 + largest) + (is_q8(r) ? 2 * expm1(2 * f * f * root / 254) + 1.0 / 254 : 0);
}

static void want_row(const run *r, const sequence *s, const double *raw, int64_t m, int64_t head, wanted_row *out) {
    double q[FUZZ_MOST_DIM] = {0}, most = -INFINITY, sum = 0, largest = 0, *score = out->score;
    const double scale = 1 / sqrt((double)r->config.head_dim);
    memcpy(q, raw, (size_t)r->config.head_dim * sizeof *q);
    fuzz_positions_rotate(&r->positions, &m, 1, q);
    for (int64_t j = 0; j < s->count; j++) {
        score[j] = s->token[j].at <= m ? score_of(r, &s->token[j], head, m, q, scale) : -INFINITY;
        most = fmax(most, score[j]);
        if (score[j] > -INFINITY) largest = fmax(largest, fabs(score[j]));
    }
    for (int64_t j = 0; j < s->count; j++)
        sum += score[j] = most > -INFINITY ? exp(score[j] - most) : 0;
    for (int64_t j = 0; j < s->count && sum > 0; j++)
        score[j] /= sum;
    for (int64_t i = 0; i < r->config.value_dim; i++) {
        out->out[i] = 0;
        for (int64_t j = 0; j < s->count; j++)
            out->out[i] += score[j] * s->token[j].v[head / GROUP][i];
    }
    out->tolerance = tolerance(r, largest);
}

/* Batch row b over the sequence s; weights.view.data NULL = none. */
static void check_row(const run *r, const sequence *s, const fuzz_view *queries, const fuzz_view *out,
                      const fuzz_view *weights, const int64_t at[4], int64_t m) {
    double q[FUZZ_MOST_DIM];
    wanted_row want;
    const int64_t b = at[0], t = at[1], head = at[2];
    for (int64_t i = 0; i < r->config.head_dim; i++)
        q[i] = fuzz_view_at(queries, b, t, head, i);
    want_row(r, s, q, m, head, &want);
    for (int64_t i = 0; i < r->config.value_dim; i++)
        fuzz_require(fabs(fuzz_view_at(out, b, t, head, i) - want.out[i]) <= want.tolerance, "attention over a cache");
    for (int64_t j = 0; weights->view.data && j < weights->view.shape[3]; j++) {
        const double w = fuzz_view_at(weights, b, t, head, j);
        fuzz_require(j < s->count || w == 0, "keys that a sequence lacks have no weight");
        fuzz_require(j >= s->count || fabs(w - want.score[j]) <= want.tolerance, "weights over a cache");
    }
}

static void attend(run *r, int64_t of) {
    const gyre_cache_config *c = &r->config;
    const sequence *s = &r->sequence[of];
    const int64_t count = fuzz_choice(&r->in, 3) ? 1 : 1 + fuzz_choice(&r->in, MOST_QUERIES), heads = c->heads * GROUP;
    const int64_t first = s->count > 0 ? s->token[s->count - 1].at - count + 1 : 0;
    const fuzz_view none = {.bytes = 0};
    attention_setup args = GYRE_INIT(attention_setup);
    gyre_error err = {0, ""};
    fuzz_view q = fuzz_view_make(&r->in, GYRE_DTYPE_F32, 1, count, heads, c->head_dim),
              out = fuzz_view_make(&r->in, GYRE_DTYPE_F32, 1, count, heads, c->value_dim);
    fuzz_view_fill(&q, &r->random, 1);
    args.tables = &r->positions.tables.views;
    args.q = gyre_const(q.view);
    args.out = out.view;
    args.causal = GYRE_CAUSAL_BY_POSITION;
    args.order = fuzz_choice(&r->in, 2) ? GYRE_ORDER_FIXED : GYRE_ORDER_FAST;
    const int leaves_out = fuzz_choice(&r->in, 4) == 1; /* the queries are then the last tokens */
    int64_t at[MOST_QUERIES];
    for (int64_t t = 0; t < count; t++) {
        const int64_t token = s->count - count + t;
        at[t] = !leaves_out ? first + t : token >= 0 ? s->token[token].at : (s->count > 0 ? s->token[0].at : 0) + token;
    }
    if (!leaves_out) args.q_pos = (gyre_positions){.data = at, .dtype = GYRE_DTYPE_I64, .stride_token = 1};
    const fuzz_scratch scratch = fuzz_scratch_make(cache_attention_scratch(r->cache, &of, &args, NULL));
    const gyre_status status =
        run_cache_attention(r->cache, &of, &args, (gyre_scratch){scratch.memory, scratch.bytes}, NULL, &err);
    fuzz_require(!status, err.text[0] ? err.text : "attention is computed");
    free(scratch.memory);
    for (int64_t t = 0; t < count; t++)
        for (int64_t h = 0; h < heads; h++)
            check_row(r, s, &q, &out, &none, (const int64_t[4]){0, t, h}, at[t]);
    fuzz_view_free(&q);
    fuzz_view_free(&out);
}

/* -- several sequences in one call -- */
/* The queries of each row end at the last token of its sequence. */
typedef struct rows {
    int64_t count, queries, sequence[MOST_ROWS], at[MOST_ROWS][MOST_QUERIES], longest;
    fuzz_view q, out, weights;
} rows;

static void make_rows(run *r, rows *w) {
    const gyre_cache_config *c = &r->config;
    *w = (rows){.count = 1 + fuzz_choice(&r->in, MOST_ROWS), .queries = 1 + fuzz_choice(&r->in, MOST_QUERIES)};
    for (int64_t b = 0; b < w->count; b++) {
        const sequence *s = &r->sequence[w->sequence[b] = fuzz_choice(&r->in, (int)c->sequences)];
        for (int64_t t = 0; t < w->queries; t++)
            w->at[b][t] = (s->count > 0 ? s->token[s->count - 1].at : 0) + t + 1 - w->queries;
        if (s->count > w->longest) w->longest = s->count;
    }
    w->q = fuzz_view_make(&r->in, GYRE_DTYPE_F32, w->count, w->queries, c->heads * GROUP, c->head_dim);
    w->out = fuzz_view_make(&r->in, GYRE_DTYPE_F32, w->count, w->queries, c->heads * GROUP, c->value_dim);
    fuzz_view_fill(&w->q, &r->random, 1);
    if (!fuzz_choice(&r->in, 2)) return;
    w->weights = fuzz_view_make(&r->in, GYRE_DTYPE_F32, w->count, w->queries, c->heads * GROUP, w->longest);
    fuzz_view_fill(&w->weights, &r->random, 1);
}

static void attend_rows(run *r, int64_t of) {
    static rows w;
    (void)of;
    make_rows(r, &w);
    attention_setup args = GYRE_INIT(attention_setup);
    gyre_error err = {0, ""};
    args.tables = &r->positions.tables.views;
    args.q = gyre_const(w.q.view);
    args.out = w.out.view;
    args.weights = w.weights.view;
    args.q_pos = (gyre_positions){.data = w.at, .dtype = GYRE_DTYPE_I64, .stride_batch = MOST_QUERIES, .stride_token = 1};
    args.causal = GYRE_CAUSAL_BY_POSITION;
    args.order = fuzz_choice(&r->in, 2) ? GYRE_ORDER_FIXED : GYRE_ORDER_FAST;
    const fuzz_scratch scratch = fuzz_scratch_make(cache_attention_scratch(r->cache, w.sequence, &args, NULL));
    const gyre_status status =
        run_cache_attention(r->cache, w.sequence, &args, (gyre_scratch){scratch.memory, scratch.bytes}, NULL, &err);
    fuzz_require(!status, err.text[0] ? err.text : "attention is computed");
    free(scratch.memory);
    for (int64_t b = 0; b < w.count; b++)
        for (int64_t t = 0; t < w.queries; t++)
            for (int64_t h = 0; h < r->config.heads * GROUP; h++)
                check_row(r, &r->sequence[w.sequence[b]], &w.q, &w.out, &w.weights, (const int64_t[4]){b, t, h}, w.at[b][t]);
    fuzz_view_free(&w.q);
    fuzz_view_free(&w.out);
    fuzz_view_free(&w.weights);
}

/* -- another encoding -- */
/* out = 1 and *other = a rotation of the same channels with another base and factor. */
static int choose_other(run *r, fuzz_positions *other) {
    static const gyre_scaling scalings[] = {GYRE_SCALING_NONE, GYRE_SCALING_LINEAR, GYRE_SCALING_YARN, GYRE_SCALING_NTK};
    *other = r->positions;
    if (other->config.kind != GYRE_KIND_ROPE) return 0;
    struct gyre_rope_config *rope = &other->config.rope;
    rope->base = 50 * (1 + fuzz_choice(&r->in, 200));
    rope->scaling = scalings[fuzz_choice(&r->in, 4)];
    rope->factor = rope->scaling == GYRE_SCALING_NONE ? 0 : 1 + fuzz_choice(&r->in, 16) / 2.0;
    rope->resonance = 0;
    if (gyre_encoding_create(&other->encoding, &other->config, NULL, NULL)) return 0;
    fuzz_require(!gyre_encoding_frequencies(other->encoding, 0, other->inv_freq, &other->factor), "frequencies");
    return 1;
}

static void set_encoding(run *r, int64_t of) {
    static fuzz_positions other;
    gyre_error err = {0, ""};
    (void)of;
    if (!choose_other(r, &other)) return;
    const gyre_status status = gyre_cache_set_encoding(r->cache, other.encoding, 0, NULL, &err);
    fuzz_require(!status, err.text[0] ? err.text : "the cache takes an encoding of the same channels");
    gyre_encoding_free(r->positions.encoding);
    r->positions = other;
    r->positions.tables.encoding = other.encoding;
    r->positions.tables.config = gyre_encoding_get_config(other.encoding);
}

/* A key at one position becomes that of the other encoding at another: the transpose takes the first rotation away, and the
 * square of its factor too many. */
static void check_rerotated(const run *r, const fuzz_positions *other, const fuzz_view *in, const fuzz_view *out, int64_t t,
                            const int64_t at[2]) {
    const struct gyre_rope_config *rope = &gyre_encoding_get_config(r->positions.encoding)->rope;
    const double square = r->positions.factor * r->positions.factor,
                 error = 1e-6 * (1 + other->factor / r->positions.factor);
    double x[FUZZ_MOST_DIM] = {0};
    for (int64_t i = 0; i < r->config.head_dim; i++)
        x[i] = fuzz_view_at(in, 0, t, 0, i);
    fuzz_positions_rotate(&r->positions, &at[0], -1, x);
    fuzz_positions_rotate(other, &at[1], 1, x);
    for (int64_t i = 0; i < r->config.head_dim; i++) {
        const int rotates = i >= rope->first_channel && i < rope->first_channel + rope->dim;
        const double want = rotates ? x[i] / square : x[i];
        fuzz_require(fabs(fuzz_view_at(out, 0, t, 0, i) - want) <= (rotates ? error : 0),
                     "a key is that of the other encoding");
    }
}

/* Keys in memory of the caller: those of one encoding at some positions become those of it or another at others. */
static void rerotate(run *r, int64_t of) {
    static fuzz_positions other;
    const int64_t dim = r->config.head_dim, from = fuzz_between(&r->in, 0, 400) - 20, to = fuzz_between(&r->in, 0, 400) - 20;
    const gyre_positions before = {.base = from}, after = {.base = to};
    (void)of;
    if (!choose_other(r, &other)) return;
    const fuzz_positions *next = fuzz_choice(&r->in, 3) ? &other : &r->positions;
    const int64_t tokens = 1 + fuzz_choice(&r->in, 40);
    fuzz_view in = fuzz_view_make(&r->in, GYRE_DTYPE_F32, 1, tokens, 1, dim),
              out = fuzz_view_make(&r->in, GYRE_DTYPE_F32, 1, tokens, 1, dim);
    fuzz_view_fill(&in, &r->random, 1);
    const gyre_cview keys = gyre_const(in.view);
    const gyre_status status =
        gyre_rerotate(GYRE_ARGS(gyre_rerotate_args, .before = r->positions.encoding, .after = next->encoding,
                                .old_positions = &before, .new_positions = &after, .in = keys, .out = out.view),
                      NULL, NULL);
    fuzz_require(!status, "keys are rotated again");
    for (int64_t t = 0; t < tokens; t++)
        check_rerotated(r, next, &in, &out, t, (const int64_t[2]){from + t, to + t});
    fuzz_view_free(&in);
    fuzz_view_free(&out);
    gyre_encoding_free(other.encoding);
}

/* -- many ranges -- */
/* Removes every other token, so that each page has holes. */
static void punch(run *r, int64_t of) {
    sequence *s = &r->sequence[of];
    gyre_error err = {0, ""};
    for (int64_t t = fuzz_choice(&r->in, 2); t < s->count; t++) {
        const gyre_status status = gyre_cache_remove(r->cache, (gyre_cache_range){of, t, 1}, &err);
        require_edited(status, &err);
        if (status) return;
        memmove(s->token + t, s->token + t + 1, (size_t)(s->count - t - 1) * sizeof(token));
        s->count--;
    }
}

/* Moves each token by a number of its own. */
static void scatter(run *r, int64_t of) {
    sequence *s = &r->sequence[of];
    gyre_error err = {0, ""};
    for (int64_t t = 0; t < s->count; t++) {
        const int64_t delta[GYRE_MAX_AXES] = {fuzz_between(&r->in, -20, 20) + (t & 1)};
        const gyre_status status = gyre_cache_shift(r->cache, (gyre_cache_range){of, t, 1}, delta, &err);
        require_edited(status, &err);
        if (status) return;
        s->token[t].at += delta[0];
    }
}

/* -- comparing -- */
/* The lists lie in regions of the pool that have room for them and none in common. */
static void check_pool(const gyre_cache *c) {
    fuzz_require(c->pool_used >= 0 && c->pool_used <= c->pool_size, "no more of the pool is used than there is");
    for (int64_t i = 0; i < c->config.sequences; i++) {
        const gyre_sequence *a = &c->sequence[i];
        fuzz_require(a->count <= a->capacity, "a region has room for its list");
        if (a->capacity == 0) continue;
        fuzz_require(a->ranges >= c->pool && a->ranges + a->capacity <= c->pool + c->pool_used, "a region of the pool");
        for (int64_t k = 0; k < i; k++) {
            const gyre_sequence *b = &c->sequence[k];
            fuzz_require(b->capacity == 0 || a->ranges + a->capacity <= b->ranges || b->ranges + b->capacity <= a->ranges,
                         "regions of their own");
        }
    }
}

static void compare(const run *r) {
    check_pool(r->cache);
    for (int64_t i = 0; i < r->config.sequences; i++) {
        int64_t at[MOST_TOKENS];
        const sequence *s = &r->sequence[i];
        fuzz_require(gyre_cache_tokens(r->cache, i) == s->count, "a sequence has its tokens");
        fuzz_require(!gyre_cache_positions(r->cache, (gyre_cache_range){i, 0, s->count}, 0, at, NULL),
                     "with their positions");
        for (int64_t t = 0; t < s->count; t++)
            fuzz_require(at[t] == s->token[t].at, "where they were put");
    }
}

static void save_and_load(run *r) {
    gyre_cache *again = NULL;
    gyre_error err = {0, ""};
    fuzz_require(!gyre_cache_save(r->cache, fuzz_path("cache"), &err), err.text);
    fuzz_require(!gyre_cache_load(&again, fuzz_path("cache"), r->positions.encoding, NULL, &err), err.text);
    gyre_cache_free(r->cache);
    r->cache = again;
    shrink_pool(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static run r;
    memset(&r, 0, sizeof r);
    if (size > 0) r.ends_with = data[--size];
    r.in = (fuzz_bytes){data, size};
    r.random.state = 1 + fuzz_byte(&r.in);
    make_cache(&r);
    for (int i = 0; i < MOST_CALLS && r.in.left > 0 && r.cache; i++) {
        static void (*const calls[])(run *, int64_t) = {append, append,        append, take_out,
                                                        shift,  fork_sequence, slide,  attend};
        static void (*const more[])(run *, int64_t) = {attend_rows, set_encoding, rerotate, punch, scatter};
        const unsigned byte = fuzz_byte(&r.in), which = byte % 33;
        if (byte >= FIRST_MORE)
            more[(byte - FIRST_MORE) % 5](&r, fuzz_choice(&r.in, (int)r.config.sequences));
        else if (which == 32)
            save_and_load(&r);
        else
            calls[which % 8](&r, fuzz_choice(&r.in, (int)r.config.sequences));
        compare(&r);
    }
    for (int64_t i = 0; r.cache && i < r.config.sequences; i++)
        attend(&r, i);
    gyre_cache_free(r.cache);
    fuzz_positions_free(&r.positions);
    return 0;
}
