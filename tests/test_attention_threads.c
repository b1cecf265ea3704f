/* test_attention_threads.c: attention gives the same bits however its work is dealt out: for any number of threads, in any
 * order, and cut in calls of its own for each batch row or each key head. */
#include "naive_tables.h"

#include <pthread.h>

/* -- what is run ------------------------------------------------------------------------------------------------------- */
typedef struct scheme {
    const char *name;
    gyre_config config;
} scheme;

#define TURNING(...)                                                                                                        \
    {                                                                                                                       \
        .size = sizeof(gyre_config), .kind = GYRE_ROPE, .trained_length = 512, .rope = { __VA_ARGS__ }                      \
    }
static const double slopes[8] = {0.5, 0.25, 0.125, 0.0625, 1, 0.03125, 0.75, 0};

static const scheme schemes[] = {
    {"none", {.size = sizeof(gyre_config), .kind = GYRE_NOPE}},
    {"rope", TURNING(.layout = GYRE_INTERLEAVED)},
    {"rope without a table", TURNING(.table_positions = GYRE_NO_TABLE, .scaling = GYRE_YARN, .factor = 4)},
    {"xpos", TURNING(.xpos_base = 512)},
    {"far", TURNING(.far = GYRE_FAR_GROUPED, .window = 37, .far_factor = 4)},
    {"alibi", WITH(GYRE_ALIBI, .slopes = slopes)},
    {"t5", WITH(GYRE_T5, .buckets = 32)},
    {"fire", WITH(GYRE_FIRE, .width = 4)},
    {"shaw", WITH(GYRE_SHAW, .max_distance = 20)},
    {"bert", WITH(GYRE_BERT, .max_distance = 4096, .terms = GYRE_ON_QUERY | GYRE_ON_KEY)},
    {"deberta", WITH(GYRE_DEBERTA, .max_distance = 90)},
    {"transformer-xl", WITH(GYRE_TRANSFORMER_XL, .max_distance = 50)},
};
enum { SCHEMES = sizeof schemes / sizeof *schemes };

static const layout layouts[] = {
    /* batch, queries, keys, heads, key heads, dim, value dim, causal, window, start, shuffled */
    {3, 150, 150, 4, 2, 16, 16, 1, 0, 0, 0}, {1, 70, 300, 8, 1, 24, 24, 1, 90, 1000, 0},
    {2, 40, 70, 4, 4, 16, 16, 1, 0, 3, 1},   {2, 1, 2100, 4, 2, 16, 16, 1, 0, 0, 0},
    {1, 5, 1100, 6, 2, 16, 16, 1, 0, 7, 0},
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

/* -- who runs it ------------------------------------------------------------------------------------------------------- */
/* One thread that takes the items from the last to the first, or every third of them in three sweeps. */
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

/* As many threads as items are allowed at once, each with its own share, begun together. */
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

/* -- the same bits ----------------------------------------------------------------------------------------------------- */
static size_t rows_of(const problem *p) {
    return (size_t)(p->s.batch * p->s.queries * p->s.heads);
}

/* Nothing may be left of what the outputs held before; gradients of tables are added to. */
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

/* The problem again under every way to run it. */
static void check_execs(const problem *one, problem *other, const char *scheme_name) {
    char where[96];
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
            snprintf(where, sizeof where, "%s, %lld queries, %s of %d", scheme_name, (long long)one->s.queries, names[e],
                     widths[w]);
            forget(other);
            run_problem(other, &execs[e]);
            same_results(one, other, where);
        }
        gyre_pool_free(pool);
    }
}

static void same_for_any_threads(void **state) {
    (void)state;
    for (int i = 0; i < SCHEMES; i++)
        for (int l = 0; l < LAYOUTS; l++) {
            problem one = make_problem(&schemes[i].config, &layouts[l], 5),
                    other = make_problem(&schemes[i].config, &layouts[l], 5);
            forget(&one);
            run_problem(&one, NULL);
            check_execs(&one, &other, schemes[i].name);
            free_problem(&one);
            free_problem(&other);
        }
}

/* -- in calls of their own --------------------------------------------------------------------------------------------- */
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

/* What tables have of query heads: each its row of vectors, or its column of numbers. */
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
    if (config.score.slopes) config.score.slopes += first;
    gyre_encoding *encoding = test_encoding(&config);
    const gyre_tables tables = cut_tables(problem_tables(p), first, count);
    const gyre_table_gradients gradients = cut_gradients(problem_gradients(p), first, count);
    gyre_attention_args args = problem_args(p, &tables);
    args.encoding = encoding;
    args.q = cut_read(args.q, c, group);
    args.k = cut_read(args.k, c, 1);
    args.v = cut_read(args.v, c, 1);
    args.out = cut_tokens(args.out, c, group);
    args.lse = cut_tokens(args.lse, c, group);
    args.q_pos.data = p->q_at + c->batch * s->queries;
    args.k_pos.data = p->k_at + c->batch * s->keys;
    const gyre_cview dout =
        cut_read(gyre_cdense(p->x[DOUT], GYRE_F32, s->batch, s->queries, s->heads, s->value_dim), c, group);
    const gyre_view dqkv[3] = {
        cut_tokens(gyre_dense(p->grad[Q], GYRE_F32, s->batch, s->queries, s->heads, s->dim), c, group),
        cut_tokens(gyre_dense(p->grad[K], GYRE_F32, s->batch, s->keys, s->key_heads, s->dim), c, 1),
        cut_tokens(gyre_dense(p->grad[V], GYRE_F32, s->batch, s->keys, s->key_heads, s->value_dim), c, 1)};
    for (int gradient = 0; gradient < 2; gradient++) {
        const size_t bytes = gyre_attention_scratch(&args, gradient, exec);
        void *scratch = scratch_for(bytes);
        assert_ok(gradient ? gyre_attention_gradient(&args, &dout, dqkv, &gradients, scratch, bytes, exec)
                           : gyre_attention(&args, scratch, bytes, exec));
        free(scratch);
    }
    gyre_encoding_free(encoding);
}

/* Items are key heads of batch rows, row by row: in that order tables meet the same sums. */
static void same_in_parts(void **state) {
    (void)state;
    char where[96];
    if (RACES_ONLY) skip(); /* one thread */
    const gyre_exec exec = {by_thirds, NULL, 3};
    for (int i = 0; i < SCHEMES; i++)
        for (int l = 0; l < LAYOUTS; l++) {
            const layout *s = &layouts[l];
            problem one = make_problem(&schemes[i].config, s, 6), other = make_problem(&schemes[i].config, s, 6);
            forget(&one);
            run_problem(&one, &exec);
            for (int heads = 0; heads < 2; heads++) {
                forget(&other);
                for (int64_t b = 0; b < s->batch; b++)
                    for (int64_t h = 0; h < (heads ? s->key_heads : 1); h++)
                        run_cut(&other, &(cut){b, 1, h, heads ? 1 : s->key_heads}, h % 2 ? &exec : NULL);
                snprintf(where, sizeof where, "%s, %lld queries, a call for each %s", schemes[i].name, (long long)s->queries,
                         heads ? "key head" : "row");
                same_results(&one, &other, where);
            }
            free_problem(&one);
            free_problem(&other);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_for_any_threads),
        cmocka_unit_test(same_in_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
