/* fuzz_attention_call.c: shapes, positions, options and memory of a call. */
#include "fuzz_attention_call.h"
#include "attention_setup.h"

#include "fuzz_support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* -- choosing -- */
static void choose_shape(call *c, fuzz_bytes *in) {
    static const int64_t most_keys[] = {9, 9, 40, 140, MOST_KEYS};
    c->batch = 1 + fuzz_choice(in, 2);
    c->keys = fuzz_between(in, 0, most_keys[fuzz_choice(in, 5)]);
    c->queries = fuzz_choice(in, 3) == 1 ? fuzz_between(in, 0, 90) : fuzz_between(in, 0, 10);
    c->key_heads = 1 + fuzz_choice(in, 2);
    c->heads = c->key_heads * (1 + fuzz_choice(in, 3));
    c->dim = 1 + fuzz_between(in, 0, FUZZ_MOST_DIM - 1);
    c->channels = fuzz_choice(in, 3) == 1 ? 1 + fuzz_between(in, 0, MOST_CHANNELS - 1) : c->dim;
}

/* A rotation of each query with each key takes the definition long, so there are fewer of them.  Now and then there are more
 * queries than have angles of their own in scratch. */
static void bound_shape(call *c, fuzz_bytes *in) {
    enum { MOST_LANES = 60000, LONG = 8192 };
    if (fuzz_choice(in, 32) == 31) {
        c->batch = c->heads = c->key_heads = 1;
        c->queries = LONG + fuzz_choice(in, 90);
        c->keys = 1 + c->keys % 4;
        c->dim = c->channels = 2;
        return;
    }
    if (c->dim > 24 && c->keys > 9) c->dim = 2 + c->dim % 23;
    if (c->batch * c->queries * c->heads * c->keys * c->dim <= MOST_LANES) return;
    c->heads = c->key_heads = 1;
    const int64_t each = c->batch * c->queries * c->dim;
    if (each * c->keys > MOST_LANES) c->keys = MOST_LANES / each;
}

/* out = 0 if the config was refused. */
static int choose_encoding(call *c, fuzz_bytes *in, test_random *random) {
    const fuzz_limits limits = {c->dim, c->heads, FUZZ_SCHEMES_ALL, c->keys + 10,
                                c->turning ? fuzz_pair_rotation_choose : NULL};
    fuzz_positions_make(&c->positions, in, &limits, random);
    if (!c->positions.encoding) return 0;
    c->turns = (fuzz_pair_rotation){.config = &c->positions.config, .length = -1};
    if (c->queries > 90 && c->positions.config.length_policy == GYRE_LENGTH_POLICY_CAUSAL) c->queries = 90;
    if (gyre_encoding_places(c->positions.encoding) & GYRE_PLACE_VALUE) c->channels = c->dim; /* of its rows */
    c->args.encoding = c->positions.encoding;
    c->args.tables = &c->positions.tables.views;
    c->scale = fuzz_positions_scale(&c->positions);
    return 1;
}

const int64_t *fuzz_attention_place(const call *c, int side, int64_t b, int64_t t, int64_t h) {
    const int64_t heads = c->position_heads[side], tokens = side ? c->keys : c->queries;
    return c->at[side] + ((b * tokens + t) * heads + (heads > 1 ? h : 0)) * c->positions.axes;
}

int64_t fuzz_attention_group(const call *c, int64_t h) {
    return h / (c->heads / c->key_heads);
}

static int is_bert(const call *c) {
    return c->positions.config.kind == GYRE_KIND_BERT; /* its positions begin at 0 */
}

/* Returns 1 if positions follow each other, the same in each row. */
static int choose_positions(call *c, fuzz_bytes *in, test_random *random) {
    const int64_t axes = c->positions.axes, count[2] = {c->queries, c->keys};
    const int where = fuzz_choice(in, 4);
    int64_t start = where == 1 && !is_bert(c) ? fuzz_between(in, -70000, 1 << 20) : 0;
    if (where == 2 && c->turning) start = fuzz_between(in, -200, 0);
    const int random_places = fuzz_choice(in, 4) == 1;
    const int bare = !random_places && fuzz_choice(in, 2) && !(is_bert(c) && c->queries > c->keys);
    gyre_positions *out[2] = {&c->args.q_pos, &c->args.k_pos};
    for (int side = 0; side < 2; side++) {
        const int64_t first = start + (side == 0 ? c->keys - c->queries : 0), n = c->batch * count[side] * axes;
        c->at[side] = fuzz_room((size_t)n, sizeof(int64_t));
        c->position_heads[side] = 1;
        for (int64_t i = 0; i < n; i++) {
            const int64_t t = i / axes % (count[side] ? count[side] : 1);
            c->at[side][i] = random_places ? start + (int64_t)(test_next(random) % (uint64_t)(c->keys + 9)) : first + t;
            if (is_bert(c) && c->at[side][i] < 0) c->at[side][i] = 0;
        }
        *out[side] = bare ? (gyre_positions){.base = first}
                          : (gyre_positions){c->at[side], GYRE_DTYPE_I64, 0, 0, count[side] * axes, axes, 1, 0};
    }
    return !random_places && !is_bert(c);
}

/* Gives each head of a side its own positions, near those that it had. */
static void spread_over_heads(call *c, int side, test_random *random) {
    const int64_t heads = side ? c->key_heads : c->heads, axes = c->positions.axes;
    const int64_t tokens = side ? c->keys : c->queries, n = c->batch * tokens * heads * axes;
    int64_t *before = c->at[side], *at = fuzz_room((size_t)n, sizeof *at);
    if (is_bert(c) || heads == 1) {
        free(at);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        at[i] = before[i / axes / heads * axes + i % axes] + (int64_t)(test_next(random) % 7);
    free(before);
    c->at[side] = at;
    c->position_heads[side] = heads;
    *(side ? &c->args.k_pos : &c->args.q_pos) =
        (gyre_positions){at, GYRE_DTYPE_I64, 0, 0, tokens * heads * axes, heads * axes, 1, 0};
    *(side ? &c->args.k_pos_head_stride : &c->args.q_pos_head_stride) = axes;
}

/* The same positions, told in another way. */
static void tell_otherwise(call *c, fuzz_bytes *in) {
    gyre_positions *of[2] = {&c->args.q_pos, &c->args.k_pos};
    for (int side = 0; side < 2; side++) {
        const int how = fuzz_choice(in, 3), tokens = (int)(side ? c->keys : c->queries);
        const int64_t length = of[side]->context_length;
        if (!of[side]->data || tokens == 0) continue;
        if (how == 1) *of[side] = (gyre_positions){.base = c->at[side][0], .context_length = length};
        if (how == 2) of[side]->stride_batch = 0;
    }
}

static void choose_options(call *c, fuzz_bytes *in, test_random *random) {
    attention_setup *a = &c->args;
    /* Past the end of the input every choice is 0, which has to be the usual one. */
    a->causal = (gyre_causal)fuzz_choice(in, 3);
    if (c->turning && (c->positions.config.rope.far || c->positions.config.rope.xpos_base > 0))
        a->causal = GYRE_CAUSAL_BY_POSITION; /* they have no other */
    a->window = fuzz_choice(in, 3) == 1 ? 1 + fuzz_between(in, 0, 150) : 0;
    a->window_after = fuzz_choice(in, 4) == 1 ? 1 + fuzz_between(in, 0, 20) : 0;
    a->sinks = fuzz_choice(in, 4) == 1 ? fuzz_between(in, 0, 9) : 0;
    a->softcap = fuzz_choice(in, 4) == 1 ? 1 + fuzz_choice(in, 30) : 0;
    a->scale = fuzz_choice(in, 4) == 1 ? fuzz_choice(in, 8) / 4.0 : 0;
    a->order = fuzz_choice(in, 2) ? GYRE_ORDER_FIXED : GYRE_ORDER_FAST;
    if (a->scale != 0) c->scale = a->scale;
    a->dropout = fuzz_choice(in, 5) == 1 ? fuzz_choice(in, 10) / 10.0 : 0;
    a->seed = a->dropout > 0 ? test_next(random) : 0;
    if (fuzz_choice(in, 4) == 1) {
        test_fill(random, c->sink, FUZZ_MOST_HEADS);
        a->sink_logits = gyre_cdense(c->sink, GYRE_DTYPE_F32, 1, 1, c->heads, 1);
    }
    if (fuzz_choice(in, 4) != 1) return;
    fuzz_view *mask = &c->part[MASK];
    *mask = fuzz_view_make(in, fuzz_dtype(in), c->batch, c->queries, c->heads, c->keys);
    fuzz_view_fill(mask, random, 2);
    for (size_t i = 0; mask->bytes && i < mask->bytes / gyre_dtype_size(mask->view.dtype); i++)
        if (test_next(random) % 4 == 0) test_put(mask->view.data, mask->view.dtype, i, -INFINITY);
    a->mask = gyre_const(mask->view);
}

static void make_views(call *c, fuzz_bytes *in, test_random *random) {
    const int64_t b = c->batch, q = c->queries, k = c->keys, h = c->heads, g = c->key_heads, d = c->dim, e = c->channels;
    const int64_t of_keys = d - fuzz_tables_relative_channels(&c->positions.tables);
    const double amplitude = fuzz_choice(in, 4) == 1 ? fuzz_choice(in, 6) : 1;
    c->part[Q] = fuzz_view_make(in, fuzz_dtype(in), b, q, h, d);
    c->part[K] = fuzz_view_make(in, fuzz_dtype(in), b, k, g, of_keys);
    c->part[V] = fuzz_view_make(in, fuzz_dtype(in), b, k, g, e);
    c->part[OUT] = fuzz_view_make(in, fuzz_dtype(in), b, q, h, e);
    c->part[LSE] = fuzz_view_make(in, fuzz_choice(in, 2) ? GYRE_DTYPE_F64 : GYRE_DTYPE_F32, b, q, h, 1);
    c->part[DOUT] = fuzz_view_make(in, fuzz_dtype(in), b, q, h, e);
    c->part[DQ] = fuzz_view_make(in, GYRE_DTYPE_F32, b, q, h, d);
    c->part[DK] = fuzz_view_make(in, GYRE_DTYPE_F32, b, k, g, of_keys);
    c->part[DV] = fuzz_view_make(in, GYRE_DTYPE_F32, b, k, g, e);
    for (part i = Q; i <= DOUT; i++)
        fuzz_view_fill(&c->part[i], random, i == V || i == DOUT ? 1 : amplitude);
    c->args.q = gyre_const(c->part[Q].view);
    c->args.k = gyre_const(c->part[K].view);
    c->args.v = gyre_const(c->part[V].view);
    c->args.out = c->part[OUT].view;
    c->args.lse = c->part[LSE].view;
}

/* What came to the target later is chosen last, so that older inputs choose what they chose. */
static void choose_rows(call *c, fuzz_bytes *in, test_random *random, int in_order) {
    attention_setup *a = &c->args;
    if (c->turning && fuzz_choice(in, 4) == 1) a->q_pos.context_length = 1 + fuzz_between(in, 0, 700);
    if (fuzz_choice(in, 3) == 1) {
        a->weights_first = fuzz_between(in, 0, c->queries);
        const int64_t count = fuzz_between(in, 0, c->queries - a->weights_first);
        c->part[WEIGHTS] = fuzz_view_make(in, GYRE_DTYPE_F32, c->batch, count, c->heads, c->keys);
        a->weights = c->part[WEIGHTS].view;
    }
    const int padded = fuzz_choice(in, 4) == 1, lengths = fuzz_choice(in, 4) == 1;
    for (int64_t b = 0; b < c->batch; b++) {
        c->k_first[b] = padded ? fuzz_between(in, 0, c->keys) : 0;
        c->k_end[b] = padded ? fuzz_between(in, c->k_first[b], c->keys) : c->keys;
        c->lengths[b] = lengths && fuzz_choice(in, 3) ? 1 + fuzz_between(in, 0, 700) : 0;
    }
    if (padded) a->k_first = c->k_first, a->k_end = c->k_end;
    if (lengths) a->context_lengths = c->lengths;
    if (in_order) tell_otherwise(c, in);
    for (int side = 0; side < 2; side++)
        if (fuzz_choice(in, 5) == 1) spread_over_heads(c, side, random);
}

int fuzz_attention_make(call *c, const uint8_t *data, size_t size, int turning) {
    fuzz_bytes in = {data, size};
    test_random random = {1 + fuzz_byte(&in)};
    memset(c, 0, sizeof *c);
    c->turning = turning;
    c->args = (attention_setup)GYRE_INIT(attention_setup);
    choose_shape(c, &in);
    if (turning) bound_shape(c, &in);
    if (!choose_encoding(c, &in, &random)) return 0;
    const int in_order = choose_positions(c, &in, &random);
    choose_options(c, &in, &random);
    make_views(c, &in, &random);
    choose_rows(c, &in, &random, in_order);
    const size_t rows = (size_t)(c->batch * c->queries * c->heads);
    c->weight = fuzz_room(rows * (size_t)c->keys, sizeof *c->weight);
    c->score = fuzz_room(rows * (size_t)c->keys, sizeof *c->score);
    c->out = fuzz_room(rows * (size_t)c->channels, sizeof *c->out);
    c->lse = fuzz_room(rows, sizeof *c->lse);
    c->score_off = fuzz_room(rows, sizeof *c->score_off);
    return 1;
}

void fuzz_attention_free(call *c) {
    void *all[] = {c->weight, c->score, c->out, c->lse, c->score_off, c->at[0], c->at[1]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    for (int i = 0; i < OUT; i++) {
        free(c->row[i]);
        free(c->most[i]);
    }
    for (int i = 0; i < PARTS; i++)
        fuzz_view_free(&c->part[i]);
    fuzz_positions_free(&c->positions);
}

/* -- what a pair is -- */
int fuzz_attention_visible(const call *c, int64_t b, int64_t i, int64_t h, int64_t j) {
    const attention_setup *a = &c->args;
    const int by_order = a->causal == GYRE_CAUSAL_BY_ORDER;
    const int64_t m = by_order ? i + c->keys - c->queries : *fuzz_attention_place(c, 0, b, i, h);
    const int64_t n = by_order ? j : *fuzz_attention_place(c, 1, b, j, fuzz_attention_group(c, h));
    if (j < c->k_first[b] || j >= c->k_end[b] || (a->causal && n > m)) return 0;
    const int64_t after = a->window_after ? a->window_after : a->window;
    if ((a->window == 0 || m - n < a->window) && (after == 0 || n - m < after)) return 1;
    return a->sinks > 0 && n - (by_order ? c->k_first[b] : 0) < a->sinks;
}

int64_t fuzz_attention_length(const call *c, int64_t b, int64_t i, int64_t h) {
    const gyre_config *config = &c->positions.config;
    const int64_t given = c->args.context_lengths ? c->lengths[b] : c->args.q_pos.context_length;
    const int64_t block = config->length_block > 0 ? config->length_block : 64;
    if (given > 0 || config->length_policy == GYRE_LENGTH_POLICY_DECLARED) return given;
    int64_t most = 0, first = i, end = i + 1;
    if (config->length_policy == GYRE_LENGTH_POLICY_PREFIX) first = 0, end = c->queries;
    for (; first < end; first++) {
        const int64_t m = *fuzz_attention_place(c, 0, b, first, h);
        most = m > most ? m : most;
    }
    return config->length_policy == GYRE_LENGTH_POLICY_PREFIX ? most + 1 : (most / block + 1) * block;
}
