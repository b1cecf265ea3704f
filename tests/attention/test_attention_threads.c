/* test_attention_threads.c: attention gives the same bits however its work is scheduled: with any number of threads, in any
 * order, and split into calls for each batch row or each key head. */
#include "attention_setup.h"
#include "gyre/gyre_cache.h"
#include "naive_attention_tables.h"

#include <pthread.h>

/* -- what is run -- */
static const layout layouts[] = {
    /* batch, queries, keys, heads, key heads, dim, value dim, causal, window, start, shuffled */
    {3, 150, 150, 4, 2, 16, 16, 1, 0, 0, 0}, {1, 70, 300, 8, 1, 24, 24, 1, 90, 1000, 0},
    {2, 40, 70, 4, 4, 16, 16, 1, 0, 3, 1},   {2, 1, 2100, 4, 2, 16, 16, 1, 0, 0, 0},
    {1, 5, 1100, 6, 2, 16, 16, 1, 0, 7, 0},
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

/* -- who runs it -- */
/* One thread that takes the items from the last to the first, or every third item in three sweeps. */
static void last_to_first(void *ctx, void (*fn)(void *arg, int64_t i), void *arg, int64_t n) {
    (void)ctx;
    while (n-- > 0)
        fn(arg, n);
}
static void by_thirds(void *ctx, void (*fn)(void *arg, int64_t i), void *arg, int64_t n) {
    (void)ctx;
    for (int64_t first = 2; first >= 0; first--)
        for (int64_t i = first; i < n; i += 3)
            fn(arg, i);
}

/* As many threads as items are allowed, each with its own items, started together. */
enum { MOST_THREADS = 16 };
typedef struct together {
    int64_t width;
    pthread_barrier_t begin;
    void (*fn)(void *arg, int64_t i);
    void *arg;
    int64_t n;
} together;
typedef struct share {
    together *all;
    int64_t first;
} share;

static void *run_share(void *arg) {
    const share *s = arg;
    pthread_barrier_wait(&s->all->begin);
    for (int64_t i = s->first; i < s->all->n; i += s->all->width)
        s->all->fn(s->all->arg, i);
    return NULL;
}
static void at_once(void *ctx, void (*fn)(void *arg, int64_t i), void *arg, int64_t n) {
    together *all = ctx;
    pthread_t threads[MOST_THREADS];
    share shares[MOST_THREADS];
    all->fn = fn;
    all->arg = arg;
    all->n = n;
    assert_int_equal(pthread_barrier_init(&all->begin, NULL, (unsigned)all->width), 0);
    for (int64_t t = 0; t < all->width; t++) {
        shares[t] = (share){all, t};
        assert_int_equal(pthread_create(&threads[t], NULL, run_share, &shares[t]), 0);
    }
    for (int64_t t = 0; t < all->width; t++)
        pthread_join(threads[t], NULL);
    pthread_barrier_destroy(&all->begin);
}

/* -- the same bits -- */
static size_t rows_of(const problem *p) {
    return (size_t)(p->s.batch * p->s.queries * p->s.heads);
}

/* The outputs' old contents may not matter. Gradients of tables are accumulated. */
static void forget(problem *p) {
    memset(p->out, 0xFF, p->out_size * sizeof *p->out);
    memset(p->lse, 0xFF, rows_of(p) * sizeof *p->lse);
    for (part i = Q; i <= LAST; i++) {
        memset(p->grad[i], 0xFF, p->size[i] * sizeof *p->grad[i]);
        memset(p->table[i], 0, p->size[i] * sizeof *p->table[i]);
    }
}

static void same_memory(const void *a, const void *b, size_t bytes, const char *what, const char *where) {
    if (memcmp(a, b, bytes) != 0) fail_msg("%s: %s is not the same", where, what);
}

static void same_results(const problem *one, const problem *other, const char *where) {
    same_memory(one->out, other->out, one->out_size * sizeof *one->out, "out", where);
    same_memory(one->lse, other->lse, rows_of(one) * sizeof *one->lse, "lse", where);
    for (part i = Q; i <= V; i++)
        same_memory(one->grad[i], other->grad[i], one->size[i] * sizeof *one->grad[i], part_names[i], where);
    for (part i = TABLE_A; i <= LAST; i++)
        same_memory(one->table[i], other->table[i], one->size[i] * sizeof *one->table[i], part_names[i], where);
}

#if defined(__has_feature)
#define HAS_FEATURE(name) __has_feature(name)
#else
#define HAS_FEATURE(name) 0
#endif
#if defined(__SANITIZE_THREAD__) || HAS_FEATURE(thread_sanitizer) /* takes 30 times as long; who runs alone cannot race */
enum { FIRST_EXEC = 2, RACES_ONLY = 1 };
static const int widths[] = {3};
#else
enum { FIRST_EXEC = 0, RACES_ONLY = 0 };
static const int widths[] = {1, 2, 3, 5, MOST_THREADS};
#endif
enum { WIDTHS = sizeof widths / sizeof *widths };

/* Calls again(arg, exec, where) with every such exec. */
static void with_execs(void (*again)(void *arg, const gyre_exec *exec, const char *where), void *arg, const char *name) {
    char where[128];
    for (int w = 0; w < WIDTHS; w++) {
        gyre_pool *pool;
        together all = {.width = widths[w]};
        assert_ok(gyre_pool_create(&pool, widths[w], NULL));
        const gyre_exec execs[] = {{last_to_first, NULL, widths[w]},
                                   {by_thirds, NULL, widths[w]},
                                   {at_once, &all, widths[w]},
                                   gyre_pool_exec(pool)};
        static const char *const names[] = {"last to first", "by thirds", "at once", "the pool"};
        for (int e = FIRST_EXEC; e < 4; e++) {
            snprintf(where, sizeof where, "%s, %s of %d", name, names[e], widths[w]);
            again(arg, &execs[e], where);
        }
        gyre_pool_free(pool);
    }
}

typedef struct two_problems {
    problem one, other;
} two_problems;

static void run_other(void *arg, const gyre_exec *exec, const char *where) {
    two_problems *p = arg;
    forget(&p->other);
    run_problem(&p->other, exec);
    same_results(&p->one, &p->other, where);
}

static int is_tried(int scheme, int at) {
    return test_scheme_attends(scheme, GYRE_CAUSAL_BY_POSITION) && test_scheme_tried(scheme, at, LAYOUTS);
}

static void same_for_any_threads(void **state) {
    (void)state;
    char name[64];
    for (int i = 0; i < SCHEMES; i++)
        for (int l = 0; l < LAYOUTS; l++) {
            if (!is_tried(i, l)) continue;
            two_problems p = {scheme_problem(i, &layouts[l], 5), scheme_problem(i, &layouts[l], 5)};
            forget(&p.one);
            run_problem(&p.one, NULL);
            snprintf(name, sizeof name, "%s, %lld queries", test_schemes[i].name, (long long)layouts[l].queries);
            with_execs(run_other, &p, name);
            free_problem(&p.one);
            free_problem(&p.other);
        }
}

/* -- in calls of their own -- */
/* Some batch rows and some key heads of a problem. */
typedef struct cut {
    int64_t batch, rows, head, heads;
} cut;

static gyre_view narrow(gyre_view v, int axis, int64_t first, int64_t count) {
    v.data = v.data ? (char *)v.data + first * v.stride[axis] * (int64_t)gyre_dtype_size(v.dtype) : NULL;
    v.shape[axis] = count;
    return v;
}
static gyre_cview narrow_read(gyre_cview v, int axis, int64_t first, int64_t count) {
    v.data = v.data ? (const char *)v.data + first * v.stride[axis] * (int64_t)gyre_dtype_size(v.dtype) : NULL;
    v.shape[axis] = count;
    return v;
}
static gyre_view cut_tokens(gyre_view v, const cut *c, int64_t group) {
    return narrow(narrow(v, 0, c->batch, c->rows), 2, c->head * group, c->heads * group);
}
static gyre_cview cut_read(gyre_cview v, const cut *c, int64_t group) {
    return narrow_read(narrow_read(v, 0, c->batch, c->rows), 2, c->head * group, c->heads * group);
}

/* The part of a table that belongs to some query heads: a row of vectors or a column of numbers per head. */
static int head_axis(const int64_t shape[4], int is_bias) {
    return is_bias ? 3 : shape[1] > 1 ? 1 : -1;
}
static gyre_tables cut_tables(gyre_tables t, int64_t first, int64_t count) {
    gyre_cview *const all[] = {&t.query, &t.key, &t.value, &t.bias, &t.content_bias, &t.position_bias};
    for (int i = 0; i < 6; i++) {
        const int axis = head_axis(all[i]->shape, all[i] == &t.bias);
        if (axis >= 0) *all[i] = narrow_read(*all[i], axis, first, count);
    }
    return t;
}
static gyre_table_gradients cut_gradients(gyre_table_gradients t, int64_t first, int64_t count) {
    gyre_view *const all[] = {&t.query, &t.key, &t.value, &t.bias, &t.content_bias, &t.position_bias};
    for (int i = 0; i < 6; i++) {
        const int axis = head_axis(all[i]->shape, all[i] == &t.bias);
        if (axis >= 0) *all[i] = narrow(*all[i], axis, first, count);
    }
    return t;
}

static void run_cut(const problem *p, const cut *c, const gyre_exec *exec) {
    const layout *s = &p->s;
    const int64_t group = s->heads / s->key_heads, first = c->head * group, count = c->heads * group;
    gyre_config config = p->config;
    config.heads = count;
    if (config.score.slopes) config.score.slopes += first, config.score.slopes_after += first;
    gyre_encoding *encoding = test_encoding(&config);
    const gyre_tables tables = cut_tables(problem_tables(p), first, count);
    const gyre_table_gradients gradients = cut_gradients(problem_gradients(p), first, count);
    attention_setup args = problem_args(p, &tables);
    args.encoding = encoding;
    args.q = cut_read(args.q, c, group);
    args.k = cut_read(args.k, c, 1);
    args.v = cut_read(args.v, c, 1);
    args.out = cut_tokens(args.out, c, group);
    args.lse = cut_tokens(args.lse, c, group);
    args.q_pos.data = p->q_at + c->batch * s->queries;
    args.k_pos.data = p->k_at + c->batch * s->keys;
    const gyre_cview dout =
        cut_read(gyre_cdense(p->x[DOUT], GYRE_DTYPE_F32, s->batch, s->queries, s->heads, s->value_dim), c, group);
    const gyre_view dqkv[3] = {
        cut_tokens(gyre_dense(p->grad[Q], GYRE_DTYPE_F32, s->batch, s->queries, s->heads, s->dim), c, group),
        cut_tokens(gyre_dense(p->grad[K], GYRE_DTYPE_F32, s->batch, s->keys, s->key_heads, s->dim), c, 1),
        cut_tokens(gyre_dense(p->grad[V], GYRE_DTYPE_F32, s->batch, s->keys, s->key_heads, s->value_dim), c, 1)};
    attend(&args, exec);
    differentiate(&args, &dout, dqkv, &gradients, exec);
    gyre_encoding_free(encoding);
}

/* Items are key heads of batch rows, row by row. In this order tables get the same sums. */
static void same_in_parts(void **state) {
    (void)state;
    char where[96];
    if (RACES_ONLY) skip(); /* one thread */
    const gyre_exec exec = {by_thirds, NULL, 3};
    for (int i = 0; i < SCHEMES; i++)
        for (int l = 0; l < LAYOUTS; l++) {
            const layout *s = &layouts[l];
            const test_scheme *of = &test_schemes[i];
            if (!is_tried(i, l) || (of->oracle->traits & SCHEME_BY_HEAD && !of->config.score.slopes)) continue;
            problem one = scheme_problem(i, s, 6), other = scheme_problem(i, s, 6);
            forget(&one);
            run_problem(&one, &exec);
            for (int heads = 0; heads < 2; heads++) {
                forget(&other);
                for (int64_t b = 0; b < s->batch; b++)
                    for (int64_t h = 0; h < (heads ? s->key_heads : 1); h++)
                        run_cut(&other, &(cut){b, 1, h, heads ? 1 : s->key_heads}, h % 2 ? &exec : NULL);
                snprintf(where, sizeof where, "%s, %lld queries, a call for each %s", test_schemes[i].name,
                         (long long)s->queries, heads ? "key head" : "row");
                same_results(&one, &other, where);
            }
            free_problem(&one);
            free_problem(&other);
        }
}

/* -- what a call may ask for besides -- */
typedef enum way { SOFTCAP, SINKS, SINK_LOGITS, MASK, DROPOUT, PADDED, PACKED, BY_LENGTH, HALVES, STRANGE, WAYS } way;
static const char *const way_names[] = {"softcap", "sinks",  "sink logits",     "mask",        "dropout",
                                        "padded",  "packed", "length by query", "keys of f16", "an infinite value"};
static const gyre_config turning = {
    .size = sizeof(gyre_config), .kind = GYRE_KIND_ROPE, .trained_length = 512, .rope = {.layout = GYRE_LAYOUT_HALF}};
static const gyre_config by_length = {.size = sizeof(gyre_config),
                                      .kind = GYRE_KIND_ROPE,
                                      .trained_length = 40,
                                      .rope = {.scaling = GYRE_SCALING_DYNAMIC_NTK, .factor = 2},
                                      .length_policy = GYRE_LENGTH_POLICY_CAUSAL,
                                      .length_block = 48};

enum { PACKED_SEQUENCES = 4 };
typedef struct wayward {
    way way;
    problem p;
    float logits[8], *mask;
    uint16_t *halves[2];                                                    /* k and v */
    int64_t q_starts[PACKED_SEQUENCES + 1], k_starts[PACKED_SEQUENCES + 1]; /* uneven, one empty */
    int64_t first[3], end[3];
} wayward;

static wayward make_wayward(way w, const layout *s) {
    test_random random = {8};
    wayward x = {.way = w, .p = make_problem(w == BY_LENGTH ? &by_length : &turning, s, 8)};
    test_fill(&random, x.logits, 8);
    const size_t pairs = (size_t)(s->batch * s->queries * s->heads * s->keys);
    x.mask = room(pairs, sizeof *x.mask);
    for (size_t i = 0; i < pairs; i++)
        x.mask[i] = i % 7 == 3 ? -INFINITY : (float)test_uniform(&random);
    for (int i = 0; i < 2; i++) {
        x.halves[i] = room(x.p.size[K + i], sizeof(uint16_t));
        for (size_t e = 0; e < x.p.size[K + i]; e++)
            test_put(x.halves[i], GYRE_DTYPE_F16, e, (double)x.p.x[K + i][e]);
    }
    for (int i = 0; i <= PACKED_SEQUENCES; i++) {
        static const int64_t quarter[] = {0, 1, 1, 3, 4};
        x.q_starts[i] = s->queries * quarter[i] / 4;
        x.k_starts[i] = s->keys * quarter[i] / 4;
    }
    /* in the last tile, which only the last queries reach: they take another path, and others in the same task must not */
    if (w == STRANGE) x.p.x[V][(s->keys - 2) * s->key_heads * s->value_dim] = INFINITY;
    for (int b = 0; b < 3; b++)
        x.first[b] = 11 * b, x.end[b] = s->keys - 5 * b;
    return x;
}
static void free_wayward(wayward *x) {
    free(x->mask);
    free(x->halves[0]);
    free(x->halves[1]);
    free_problem(&x->p);
}

static attention_setup wayward_args(const wayward *x) {
    const layout *s = &x->p.s;
    attention_setup args = problem_args(&x->p, NULL);
    if (x->way == SOFTCAP) args.softcap = 2;
    if (x->way == SINKS) args.window = 50, args.sinks = 4;
    if (x->way == SINK_LOGITS) args.sink_logits = gyre_cdense(x->logits, GYRE_DTYPE_F32, 1, 1, s->heads, 1);
    if (x->way == MASK) args.mask = gyre_cdense(x->mask, GYRE_DTYPE_F32, s->batch, s->queries, s->heads, s->keys);
    if (x->way == DROPOUT) args.dropout = 0.3, args.seed = 12345;
    if (x->way == PADDED) args.k_first = x->first, args.k_end = x->end;
    if (x->way == HALVES) {
        args.k = gyre_cdense(x->halves[0], GYRE_DTYPE_F16, s->batch, s->keys, s->key_heads, s->dim);
        args.v = gyre_cdense(x->halves[1], GYRE_DTYPE_F16, s->batch, s->keys, s->key_heads, s->value_dim);
    }
    if (x->way != PACKED) return args;
    args.q_starts = x->q_starts;
    args.k_starts = x->k_starts;
    args.sequences = PACKED_SEQUENCES;
    args.q_pos = args.k_pos = (gyre_positions){NULL, GYRE_DTYPE_I64, 3, 0, 0, 0, 0, 0};
    return args;
}

static void run_args(const attention_setup *args, const gyre_view dqkv[3], const gyre_cview *dout, const gyre_exec *exec) {
    for (int gradient = 0; gradient < 2; gradient++) {
        const size_t bytes = attention_scratch(args, gradient, exec);
        void *scratch = scratch_for(bytes);
        assert_ok(gradient ? run_attention_gradient(args,
                                                    GYRE_ARGS(gyre_attention_gradients, .dout = *dout, .dq = dqkv[0],
                                                              .dk = dqkv[1], .dv = dqkv[2]),
                                                    (gyre_scratch){scratch, bytes}, exec, NULL)
                           : run_attention(args, (gyre_scratch){scratch, bytes}, exec, NULL));
        free(scratch);
    }
}

typedef struct problem_views {
    gyre_view dqkv[3];
    gyre_cview dout;
} problem_views;
static problem_views views_of(const problem *p) {
    const layout *s = &p->s;
    return (problem_views){{gyre_dense(p->grad[Q], GYRE_DTYPE_F32, s->batch, s->queries, s->heads, s->dim),
                            gyre_dense(p->grad[K], GYRE_DTYPE_F32, s->batch, s->keys, s->key_heads, s->dim),
                            gyre_dense(p->grad[V], GYRE_DTYPE_F32, s->batch, s->keys, s->key_heads, s->value_dim)},
                           gyre_cdense(p->x[DOUT], GYRE_DTYPE_F32, s->batch, s->queries, s->heads, s->value_dim)};
}

typedef struct two_wayward {
    wayward one, other;
} two_wayward;

static void run_wayward(const wayward *x, const gyre_exec *exec) {
    const attention_setup args = wayward_args(x);
    const problem_views v = views_of(&x->p);
    run_args(&args, v.dqkv, &v.dout, exec);
}
static void run_other_wayward(void *arg, const gyre_exec *exec, const char *where) {
    two_wayward *x = arg;
    forget(&x->other.p);
    run_wayward(&x->other, exec);
    same_results(&x->one.p, &x->other.p, where);
}

static const layout way_layouts[] = {{2, 150, 150, 4, 2, 16, 16, 1, 0, 0, 0},
                                     {1, 300, 300, 4, 1, 16, 16, 1, 0, 0, 0},
                                     {2, 4, 1400, 4, 2, 16, 16, 1, 0, 0, 0}};
enum { WAY_LAYOUTS = sizeof way_layouts / sizeof *way_layouts };

static void same_with_any_outputs(void **state) {
    (void)state;
    char name[64];
    for (way w = SOFTCAP; w < WAYS; w++)
        for (int l = 0; l < WAY_LAYOUTS; l++) {
            layout s = way_layouts[l];
            if (w == PACKED) s.batch = 1;
            two_wayward x = {make_wayward(w, &s), make_wayward(w, &s)};
            forget(&x.one.p);
            run_wayward(&x.one, NULL);
            snprintf(name, sizeof name, "%s, %lld queries", way_names[w], (long long)s.queries);
            with_execs(run_other_wayward, &x, name);
            free_wayward(&x.one);
            free_wayward(&x.other);
        }
}

/* A sequence of a packed batch as a call of its own. */
static void run_sequence(const wayward *x, int sequence, const gyre_exec *exec) {
    const problem_views all = views_of(&x->p);
    attention_setup args = wayward_args(x);
    const int64_t q = x->q_starts[sequence], k = x->k_starts[sequence];
    const int64_t queries = x->q_starts[sequence + 1] - q, keys = x->k_starts[sequence + 1] - k;
    if (queries == 0) return;
    args.q_starts = args.k_starts = NULL;
    args.sequences = 0;
    args.q = narrow_read(args.q, 1, q, queries);
    args.k = narrow_read(args.k, 1, k, keys);
    args.v = narrow_read(args.v, 1, k, keys);
    args.out = narrow(args.out, 1, q, queries);
    args.lse = narrow(args.lse, 1, q, queries);
    const gyre_view dqkv[3] = {narrow(all.dqkv[0], 1, q, queries), narrow(all.dqkv[1], 1, k, keys),
                               narrow(all.dqkv[2], 1, k, keys)};
    const gyre_cview dout = narrow_read(all.dout, 1, q, queries);
    run_args(&args, dqkv, &dout, exec);
}

static void packed_sequences_match_separate_calls(void **state) {
    (void)state;
    const gyre_exec exec = {by_thirds, NULL, 3};
    if (RACES_ONLY) skip();
    for (int l = 0; l < WAY_LAYOUTS; l++) {
        layout s = way_layouts[l];
        s.batch = 1;
        wayward one = make_wayward(PACKED, &s), other = make_wayward(PACKED, &s);
        forget(&one.p);
        forget(&other.p);
        run_wayward(&one, &exec);
        for (int i = 0; i < PACKED_SEQUENCES; i++)
            run_sequence(&other, i, i % 2 ? &exec : NULL);
        same_results(&one.p, &other.p, "packed or not");
        free_wayward(&one);
        free_wayward(&other);
    }
}

/* -- caches -- */
enum { CACHE_SEQUENCES = 3, CACHE_QUERIES = 2, CACHE_HEADS = 4, CACHE_KEY_HEADS = 2, CACHE_DIM = 16 };
enum { CACHE_ROWS = CACHE_SEQUENCES * CACHE_QUERIES * CACHE_HEADS };
static const int64_t cache_tokens[CACHE_SEQUENCES] = {2100, 30, 1100};

typedef struct cache_run {
    gyre_cache *cache;
    float q[CACHE_ROWS * CACHE_DIM], out[2][CACHE_ROWS * CACHE_DIM], lse[2][CACHE_ROWS];
    int64_t at[CACHE_SEQUENCES * CACHE_QUERIES];
} cache_run;

static gyre_cache *fill_cache(const gyre_encoding *encoding, gyre_cache_keys keys, gyre_dtype dtype) {
    gyre_cache_config config = GYRE_INIT(gyre_cache_config);
    gyre_cache *cache;
    gyre_error err;
    test_random random = {31};
    config.encoding = encoding;
    config.keys = keys;
    config.key_dtype = config.value_dtype = dtype;
    config.heads = CACHE_KEY_HEADS;
    config.head_dim = CACHE_DIM;
    config.sequences = CACHE_SEQUENCES;
    config.max_tokens = 2100 + 30 + 1100 + 3 * 96;
    config.page_tokens = 96;
    if (gyre_cache_create(&cache, &config, NULL, &err)) fail_msg("%s", err.text);
    for (int64_t s = 0; s < CACHE_SEQUENCES; s++) {
        const size_t count = (size_t)(cache_tokens[s] * CACHE_KEY_HEADS * CACHE_DIM);
        float *x = room(2 * count, sizeof *x);
        test_fill(&random, x, 2 * count);
        const gyre_cview k = gyre_cdense(x, GYRE_DTYPE_F32, 1, cache_tokens[s], CACHE_KEY_HEADS, CACHE_DIM);
        const gyre_cview v = gyre_cdense(x + count, GYRE_DTYPE_F32, 1, cache_tokens[s], CACHE_KEY_HEADS, CACHE_DIM);
        const gyre_positions positions = {NULL, GYRE_DTYPE_I64, 0, 0, 0, 0, 0, 0};
        assert_ok(gyre_cache_append(
            cache, GYRE_ARGS(gyre_cache_append_args, .sequence = s, .k = k, .v = v, .positions = &positions), NULL, NULL));
        free(x);
    }
    return cache;
}

/* Sequences first .. first + count - 1, into out[which]. */
static void attend_cache(cache_run *r, int64_t first, int64_t count, int which, const gyre_exec *exec) {
    static const int64_t sequences[CACHE_SEQUENCES] = {0, 1, 2};
    const int64_t row = first * CACHE_QUERIES * CACHE_HEADS;
    attention_setup args = GYRE_INIT(attention_setup);
    args.q = gyre_cdense(r->q + row * CACHE_DIM, GYRE_DTYPE_F32, count, CACHE_QUERIES, CACHE_HEADS, CACHE_DIM);
    args.out = gyre_dense(r->out[which] + row * CACHE_DIM, GYRE_DTYPE_F32, count, CACHE_QUERIES, CACHE_HEADS, CACHE_DIM);
    args.lse = gyre_dense(r->lse[which] + row, GYRE_DTYPE_F32, count, CACHE_QUERIES, CACHE_HEADS, 1);
    args.q_pos = (gyre_positions){r->at + first * CACHE_QUERIES, GYRE_DTYPE_I64, 0, 0, CACHE_QUERIES, 1, 0, 0};
    args.causal = GYRE_CAUSAL_BY_POSITION;
    const size_t bytes = cache_attention_scratch(r->cache, sequences + first, &args, exec);
    void *scratch = scratch_for(bytes);
    assert_ok(run_cache_attention(r->cache, sequences + first, &args, (gyre_scratch){scratch, bytes}, exec, NULL));
    free(scratch);
}

static void forget_second(cache_run *r) {
    memset(r->out[1], 0xFF, sizeof r->out[1]);
    memset(r->lse[1], 0xFF, sizeof r->lse[1]);
}
static void same_rows(const cache_run *r, const char *where) {
    same_memory(r->out[0], r->out[1], sizeof r->out[0], "out", where);
    same_memory(r->lse[0], r->lse[1], sizeof r->lse[0], "lse", where);
}
static void run_cache_again(void *arg, const gyre_exec *exec, const char *where) {
    forget_second(arg);
    attend_cache(arg, 0, CACHE_SEQUENCES, 1, exec);
    same_rows(arg, where);
}

static void same_from_caches(void **state) {
    (void)state;
    static const gyre_dtype types[] = {GYRE_DTYPE_F32, GYRE_DTYPE_BF16, GYRE_DTYPE_Q8};
    static const char *const names[] = {"raw", "rotated"};
    gyre_encoding *encoding = test_encoding(&(gyre_config){.size = sizeof(gyre_config),
                                                           .kind = GYRE_KIND_ROPE,
                                                           .head_dim = CACHE_DIM,
                                                           .heads = CACHE_HEADS,
                                                           .trained_length = 512});
    for (gyre_cache_keys keys = GYRE_CACHE_KEYS_RAW; keys <= GYRE_CACHE_KEYS_ROTATED; keys++)
        for (int t = 0; t < 3; t++) {
            cache_run r = {.cache = fill_cache(encoding, keys, types[t])};
            test_random random = {32};
            test_fill(&random, r.q, CACHE_ROWS * CACHE_DIM);
            for (int64_t i = 0; i < CACHE_SEQUENCES * CACHE_QUERIES; i++)
                r.at[i] = cache_tokens[i / CACHE_QUERIES] - CACHE_QUERIES + i % CACHE_QUERIES;
            attend_cache(&r, 0, CACHE_SEQUENCES, 0, NULL);
            with_execs(run_cache_again, &r, names[keys]);
            forget_second(&r);
            for (int64_t s = 0; s < CACHE_SEQUENCES; s++)
                attend_cache(&r, s, 1, 1, NULL);
            same_rows(&r, "a call for each sequence of a cache");
            gyre_cache_free(r.cache);
        }
    gyre_encoding_free(encoding);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_for_any_threads),  cmocka_unit_test(same_in_parts),
        cmocka_unit_test(same_with_any_outputs), cmocka_unit_test(packed_sequences_match_separate_calls),
        cmocka_unit_test(same_from_caches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
