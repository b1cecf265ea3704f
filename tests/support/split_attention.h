/* split_attention.h: attention over a batch whose tokens are dealt out to ranks, which one process plays. */
#ifndef GYRE_TESTS_SPLIT_ATTENTION_H
#define GYRE_TESTS_SPLIT_ATTENTION_H
#include "attention_memory.h"
#include "attention_setup.h"
#include "gyre/gyre_positions.h"
#include "naive_schemes.h"

#include <math.h>

enum { HEADS = 4, KEY_HEADS = 2, DIM = 16, TABLES = 6, MOST_RANKS = 7, STATE = DIM + 2, MOST_DOCUMENTS = 3 };

typedef struct split_case {
    const char *name;
    gyre_config config;
    gyre_causal causal;
    int both_ways; /* 1: no causal mask */
    int64_t window, window_after, sinks;
    double softcap, dropout;
    int sink_logits, images;
    double gates;     /* log gates around minus this; 0 = none */
    gyre_dtype dtype; /* of q, k, v and dout */
} split_case;

/* Configs of a split_case. */
#define TURNING(...)                                                                                                        \
    {                                                                                                                       \
        .kind = GYRE_KIND_ROPE, .trained_length = 32, .rope = { __VA_ARGS__ }                                               \
    }
#define FOLLOWING(policy, block, ...)                                                                                       \
    {                                                                                                                       \
        .kind = GYRE_KIND_ROPE, .trained_length = 32, .length_policy = policy, .length_block = block, .rope = {             \
            __VA_ARGS__                                                                                                     \
        }                                                                                                                   \
    }
#define CHUNKED(...)                                                                                                        \
    {                                                                                                                       \
        .kind = GYRE_KIND_ROPE, .rope = {.far = GYRE_FAR_CHUNKED, .chunk = {__VA_ARGS__} }                                  \
    }
#define SCORING(scheme, ...)                                                                                                \
    {                                                                                                                       \
        .kind = scheme, .score = { __VA_ARGS__ }                                                                            \
    }

/* Everything that belongs to tokens, of the whole or of a rank. */
typedef enum field {
    F_Q,
    F_K,
    F_V,
    F_DOUT,
    F_GATES, /* sums, of queries and keys alike */
    F_OUT,
    F_LSE,
    F_STATE,
    F_DQ,
    F_DK,
    F_DV,
    F_DQ_GATES,
    F_DK_GATES,
    FIELDS
} field;
typedef struct token_data {
    int64_t rows, tokens;
    void *at[FIELDS];
} token_data;

typedef struct whole {
    const split_case *c;
    gyre_batch *batch;
    gyre_batch_info info;
    gyre_encoding *encoding;
    gyre_tables tables;
    float *table[TABLES], sink[HEADS];
    int64_t table_at[TABLES][4];
    size_t table_size[TABLES];
    token_data data;
} whole;

/* Gradients that belong to no token: of the tables, and of the sink logits. */
typedef struct shared_gradients {
    double *table[TABLES], sink[HEADS];
} shared_gradients;

static inline gyre_view field_view(const split_case *c, const token_data *d, field which) {
    const int of_keys = which == F_K || which == F_V || which == F_DK || which == F_DV;
    const int is_number = which == F_LSE || which == F_GATES || which == F_DQ_GATES || which == F_DK_GATES;
    const gyre_dtype dtype = which <= F_DOUT                                          ? c->dtype
                             : which == F_LSE || which == F_STATE || which == F_GATES ? GYRE_DTYPE_F64
                                                                                      : GYRE_DTYPE_F32;
    return gyre_dense(d->at[which], dtype, d->rows, d->tokens, of_keys ? KEY_HEADS : HEADS,
                      is_number          ? 1
                      : which == F_STATE ? STATE
                                         : DIM);
}

static inline gyre_cview field_cview(const split_case *c, const token_data *d, field which) {
    return gyre_const(field_view(c, d, which));
}

static inline size_t field_size(const split_case *c, const token_data *d, field which) {
    const gyre_view v = field_view(c, d, which);
    return (size_t)(v.shape[0] * v.shape[1] * v.shape[2] * v.shape[3]);
}

static inline size_t field_bytes(const split_case *c, const token_data *d, field which) {
    return field_size(c, d, which) * gyre_dtype_size(field_view(c, d, which).dtype);
}

static inline token_data make_data(const split_case *c, int64_t rows, int64_t tokens) {
    token_data d = {rows, tokens, {NULL}};
    for (field f = F_Q; f < FIELDS; f++)
        d.at[f] = room(field_bytes(c, &d, f), 1);
    return d;
}

static inline void free_data(token_data *d) {
    for (int f = 0; f < FIELDS; f++)
        free(d->at[f]);
}

/* Text, an image of 2 x 3, text. */
static inline gyre_batch *split_batch(const split_case *c, gyre_batch_form form, const int64_t *lengths, int64_t documents) {
    gyre_batch_config config = GYRE_INIT(gyre_batch_config);
    gyre_span spans[3 * MOST_DOCUMENTS];
    int64_t starts[MOST_DOCUMENTS + 1] = {0};
    gyre_batch *batch;
    for (int64_t d = 0; d < documents; d++) {
        spans[3 * d] = (gyre_span){3, 0, 0, 0, 0, 0};
        spans[3 * d + 1] = (gyre_span){0, 1, 2, 3, 0, 0};
        spans[3 * d + 2] = (gyre_span){lengths[d] - 9, 0, 0, 0, 0, 0};
        starts[d + 1] = 3 * (d + 1);
    }
    config.form = form;
    config.documents = documents;
    config.lengths = lengths;
    if (c->images) config.axes = 3, config.spans = spans, config.span_starts = starts;
    assert_int_equal(gyre_batch_create(&batch, &config, NULL, NULL), GYRE_OK);
    return batch;
}

static inline void make_tables(whole *w, test_random *random) {
    gyre_cview *const of[TABLES] = {&w->tables.query, &w->tables.key,          &w->tables.value,
                                    &w->tables.bias,  &w->tables.content_bias, &w->tables.position_bias};
    const scheme_oracle *oracle = scheme_oracle_of(w->c->config.kind);
    for (int t = 0; t < TABLES; t++) {
        int64_t *s = w->table_at[t];
        assert_int_equal(gyre_encoding_table_shape(w->encoding, (gyre_table)(GYRE_TABLE_QUERY + t), s), GYRE_OK);
        w->table_size[t] = (size_t)(s[0] * s[1] * s[2] * s[3]);
        w->table[t] = room(w->table_size[t], sizeof(float));
        test_fill(random, w->table[t], w->table_size[t]);
        for (size_t i = 0; i < w->table_size[t]; i++)
            w->table[t][i] = (float)scheme_entry(oracle, (gyre_table)(GYRE_TABLE_QUERY + t), (int64_t)i / HEADS,
                                                 (double)w->table[t][i], 64);
        *of[t] = gyre_cdense(s[0] ? w->table[t] : NULL, GYRE_DTYPE_F32, s[0], s[1], s[2], s[3]);
    }
}

static inline void make_whole(whole *w, const split_case *c, gyre_batch_form form, const int64_t *lengths,
                              int64_t documents) {
    test_random random = {31};
    gyre_config config = c->config;
    memset(w, 0, sizeof *w);
    test_scheme_complete(&config, HEADS, DIM, 1024);
    w->c = c;
    w->batch = split_batch(c, form, lengths, documents);
    w->info = (gyre_batch_info)GYRE_INIT(gyre_batch_info);
    assert_int_equal(gyre_batch_get(w->batch, &w->info), GYRE_OK);
    w->encoding = test_encoding(&config);
    make_tables(w, &random);
    test_fill(&random, w->sink, HEADS);
    w->data = make_data(c, w->info.rows, w->info.tokens);
    const double queries = scheme_oracle_of(config.kind)->traits & SCHEME_STEEP ? 0.5 : 3;
    for (field f = F_Q; f <= F_DOUT; f++)
        for (size_t i = 0, n = field_size(c, &w->data, f); i < n; i++) {
            const int64_t token = (int64_t)(i / (n / (size_t)(w->info.rows * w->info.tokens)));
            const int padding = w->info.document_of[token] < 0;
            const double x = test_uniform(&random) * (f == F_Q ? queries : 1);
            test_put(w->data.at[f], c->dtype, i, f == F_DOUT && padding ? 0 : x);
        }
    double *gates = w->data.at[F_GATES];
    for (size_t i = 0, n = field_size(c, &w->data, F_GATES); i < n; i++)
        gates[i] = (i < HEADS ? 0 : gates[i - HEADS]) - c->gates * (1 + test_uniform(&random));
}

static inline void free_whole(whole *w) {
    free_data(&w->data);
    for (int t = 0; t < TABLES; t++)
        free(w->table[t]);
    gyre_encoding_free(w->encoding);
    gyre_batch_free(w->batch);
}

static inline shared_gradients make_shared(const whole *w) {
    shared_gradients g = {{NULL}, {0}};
    for (int t = 0; t < TABLES; t++)
        g.table[t] = room(w->table_size[t], sizeof(double));
    return g;
}

static inline void free_shared(shared_gradients *g) {
    for (int t = 0; t < TABLES; t++)
        free(g->table[t]);
}

static inline gyre_table_gradients shared_views(const whole *w, shared_gradients *g) {
    gyre_view v[TABLES];
    for (int t = 0; t < TABLES; t++) {
        const int64_t *s = w->table_at[t];
        v[t] = gyre_dense(s[0] ? g->table[t] : NULL, GYRE_DTYPE_F64, s[0], s[1], s[2], s[3]);
    }
    return (gyre_table_gradients){.query = v[0],
                                  .key = v[1],
                                  .value = v[2],
                                  .bias = v[3],
                                  .content_bias = v[4],
                                  .position_bias = v[5],
                                  .sink_logits = gyre_dense(g->sink, GYRE_DTYPE_F64, 1, 1, HEADS, 1)};
}

/* Options that all calls share, without memory, positions and starts. */
static inline attention_setup shared_args(const whole *w, gyre_order order) {
    const split_case *c = w->c;
    attention_setup args = GYRE_INIT(attention_setup);
    args.encoding = w->encoding;
    args.tables = &w->tables;
    const int only_causal = c->config.rope.far != GYRE_FAR_AS_NEAR || c->config.rope.xpos_base > 0;
    args.causal = c->both_ways && !only_causal ? GYRE_CAUSAL_NONE : c->causal ? c->causal : GYRE_CAUSAL_BY_POSITION;
    args.window = c->window;
    args.window_after = c->window_after;
    args.sinks = c->sinks;
    args.softcap = c->softcap;
    args.dropout = c->dropout;
    args.seed = 77;
    args.scale = 0.6;
    args.order = order;
    args.sequences = w->info.q_starts ? w->info.sequences : 0;
    return args;
}

static inline void use_sinks(const whole *w, attention_setup *args) {
    if (w->c->sink_logits) args->sink_logits = gyre_cdense(w->sink, GYRE_DTYPE_F32, 1, 1, HEADS, 1);
}

/* Queries of `q` with the keys of `k`. */
static inline void use_data(const split_case *c, const token_data *q, const token_data *k, attention_setup *args) {
    args->q = field_cview(c, q, F_Q);
    args->k = field_cview(c, k, F_K);
    args->v = field_cview(c, k, F_V);
    args->out = field_view(c, q, F_OUT);
    args->lse = field_view(c, q, F_LSE);
    if (c->gates == 0) return;
    args->q_gate_sums = field_cview(c, q, F_GATES);
    args->k_gate_sums = field_cview(c, k, F_GATES);
    args->dq_gate_sums = field_view(c, q, F_DQ_GATES);
    args->dk_gate_sums = field_view(c, k, F_DK_GATES);
}

/* The whole batch in one call, as programs on one machine make it: forward, and with g the gradient. */
static inline void run_whole(whole *w, gyre_order order, shared_gradients *g) {
    attention_setup args = shared_args(w, order);
    use_data(w->c, &w->data, &w->data, &args);
    use_sinks(w, &args);
    args.q_pos = args.k_pos = w->info.positions;
    args.q_starts = w->info.q_starts;
    args.k_starts = w->info.k_starts;
    args.k_first = w->info.k_first;
    args.k_end = w->info.k_end;
    /* Without indices, dropout counts the padding before a document. */
    if (w->c->dropout > 0 && w->info.k_first) args.q_index = args.k_index = &w->info.order;
    attend(&args, NULL);
    if (!g) return;
    const gyre_cview dout = field_cview(w->c, &w->data, F_DOUT);
    const gyre_view dqkv[3] = {field_view(w->c, &w->data, F_DQ), field_view(w->c, &w->data, F_DK),
                               field_view(w->c, &w->data, F_DV)};
    const gyre_table_gradients gradients = shared_views(w, g);
    differentiate(&args, &dout, dqkv, &gradients, NULL);
}

/* -- ranks -- */
typedef struct group {
    whole *w;
    gyre_shards *shards;
    int64_t ranks;
    gyre_shard_info info[MOST_RANKS];
    token_data data[MOST_RANKS];
} group;

static inline void make_group(group *g, whole *w, gyre_shard_layout layout, int64_t ranks, int64_t multiple) {
    gyre_shard_config config = GYRE_INIT(gyre_shard_config);
    config.layout = layout;
    config.ranks = ranks;
    config.chunk_multiple = multiple;
    *g = (group){.w = w, .ranks = ranks};
    assert_int_equal(gyre_shards_create(&g->shards, w->batch, &config, NULL, NULL), GYRE_OK);
    for (int64_t r = 0; r < ranks; r++) {
        g->info[r] = (gyre_shard_info)GYRE_INIT(gyre_shard_info);
        assert_int_equal(gyre_shards_get(g->shards, r, &g->info[r]), GYRE_OK);
        g->data[r] = make_data(w->c, w->info.rows, g->info[r].tokens);
        for (field f = F_Q; f <= F_GATES; f++) {
            const gyre_cview all = field_cview(w->c, &w->data, f);
            const gyre_view mine = field_view(w->c, &g->data[r], f);
            assert_int_equal(gyre_shards_take(g->shards, r, &all, &mine, NULL), GYRE_OK);
        }
    }
}

static inline void free_group(group *g) {
    for (int64_t r = 0; r < g->ranks; r++)
        free_data(&g->data[r]);
    gyre_shards_free(g->shards);
}

/* Puts what the ranks computed together.  *to has the extents of the whole. */
static inline void gather(const group *g, field which, token_data *to) {
    for (int64_t r = 0; r < g->ranks; r++) {
        const gyre_cview part = field_cview(g->w->c, &g->data[r], which);
        const gyre_view all = field_view(g->w->c, to, which);
        assert_int_equal(gyre_shards_put(g->shards, r, &part, &all, NULL), GYRE_OK);
    }
}

/* Queries of rank q with the keys of rank k.  index: memory for what args point to. */
static inline attention_setup part_args(const group *g, int64_t q, int64_t k, gyre_order order) {
    attention_setup args = shared_args(g->w, order);
    use_data(g->w->c, &g->data[q], &g->data[k], &args);
    args.q_pos = g->info[q].positions;
    args.k_pos = g->info[k].positions;
    args.q_index = &g->info[q].order;
    args.k_index = &g->info[k].order;
    args.q_starts = g->info[q].starts;
    args.k_starts = g->info[k].starts;
    args.k_first = g->info[k].k_first;
    args.k_end = g->info[k].k_end;
    if (g->w->c->config.length_policy == GYRE_LENGTH_POLICY_PREFIX) args.context_lengths = g->w->info.context_lengths;
    return args;
}

#endif
