/* test_gates.c: a number for each token and head whose difference is added to scores: forward and gradient against the
 * definition in double, with every option and kind of position; ALiBi as a case of it; parts, pieces and padding; and
 * running sums of log gates. */
#include "attention_setup.h"
#include "naive_attention_options.h"
#include "run_each_tier.h"

enum { BITS = 16 };
static const layout layouts[] = {
    /* batch, queries, keys, heads, key heads, dim, value dim, causal, window, start, shuffled */
    {2, 5, 9, 4, 2, 8, 8, 1, 0, 0, 0},      {1, 9, 9, 2, 1, 8, 8, 1, 4, 0, 0},    {2, 6, 20, 4, 4, 8, 8, 1, 5, -4, 1},
    {1, 8, 24, 2, 1, 8, 8, 2, 6, 0, 0},     {1, 12, 30, 2, 1, 8, 8, 0, 5, 0, 1},  {1, 70, 290, 2, 1, 8, 8, 1, 40, 0, 0},
    {1, 140, 150, 2, 2, 8, 8, 2, 33, 0, 0}, {1, 70, 150, 2, 1, 8, 8, 0, 0, 0, 0}, {1, 1, 1300, 4, 2, 16, 16, 1, 0, 0, 0},
    {1, 3, 400, 2, 1, 24, 24, 2, 0, 0, 0},
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

/* Running sums of log gates around -strength, from `start` on, as keys have them; queries are the last of the tokens. */
static void make_gates(trial *t, double strength, double start, uint64_t seed) {
    const layout *s = &t->p.s;
    test_random random = {seed + 5};
    t->gate_sums[0] = room((size_t)(s->batch * s->queries * s->heads), sizeof(double));
    t->gate_sums[1] = room((size_t)(s->batch * s->keys * s->heads), sizeof(double));
    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t h = 0; h < s->heads; h++) {
            double sum = start;
            for (int64_t n = 0; n < s->keys; n++) {
                sum -= strength * (1 + test_uniform(&random));
                t->gate_sums[1][(b * s->keys + n) * s->heads + h] = sum;
                const int64_t i = n - (s->keys - s->queries);
                if (i >= 0) t->gate_sums[0][(b * s->queries + i) * s->heads + h] = sum;
            }
        }
}

static gyre_cview gate_view(const trial *t, int keys) {
    const layout *s = &t->p.s;
    return gyre_cdense(t->gate_sums[keys], GYRE_DTYPE_F64, s->batch, keys ? s->keys : s->queries, s->heads, 1);
}

static attention_setup gated_args(trial *t, const gyre_tables *tables) {
    attention_setup args = trial_args(t, tables);
    args.q_gate_sums = gate_view(t, 0);
    args.k_gate_sums = gate_view(t, 1);
    return args;
}

static trial make_gated(int scheme, const layout *s, int bits, double strength, double start, uint64_t seed) {
    options o = options_from_bits(bits, seed, s);
    trial t = scheme_trial(scheme, s, &o, 3 + seed);
    /* Sums that fall the other way make large scores, of which a float keeps less. */
    make_gates(&t, (s->shuffled || !s->causal) && strength > 0.02 ? 0.02 : strength, start, seed);
    return t;
}

static void run_gated(trial *t) {
    const gyre_tables tables = problem_tables(&t->p);
    const attention_setup args = gated_args(t, &tables);
    attend(&args, NULL);
}

/* -- forward -- */

static void forward_follows_definition(void **state) {
    const char *tier = *state;
    static const double strengths[] = {0.02, 0.7, 9};
    uint64_t index = 0;
    tier_or_skip(tier);
    assert_int_equal(setenv("GYRE_CPU", tier, 1), 0);
    for (int scheme = 0; scheme < SCHEMES; scheme++)
        for (size_t i = 0; i < LAYOUTS; i++)
            for (int n = 0; n < 3; n++, index++) {
                if (!test_scheme_attends(scheme, (gyre_causal)layouts[i].causal)) continue;
                trial t = make_gated(scheme, &layouts[i], (int)(index * 7 % BITS), strengths[index % 3], 0, index);
                run_gated(&t);
                check_trial(&t);
                free_trial(&t);
            }
    unsetenv("GYRE_CPU");
}

/* Only differences count, however far from the start of a stream; F64 keeps them. */
static void far_from_the_start(void **state) {
    (void)state;
    const layout s = {1, 130, 300, 4, 2, 16, 16, 1, 0, 0, 0};
    trial near = make_gated(0, &s, 0, 0.5, 0, 1), far = make_gated(0, &s, 0, 0.5, -0x1p33, 1);
    run_gated(&near);
    run_gated(&far);
    for (size_t e = 0; e < near.p.out_size; e++)
        test_close((long double)far.p.out[e], (long double)near.p.out[e], 3e-6L, "out");
    free_trial(&near);
    free_trial(&far);
}

/* c = -slope x position is ALiBi for keys before the query. */
static void alibi_is_a_case(void **state) {
    const char *tier = *state;
    tier_or_skip(tier);
    assert_int_equal(setenv("GYRE_CPU", tier, 1), 0);
    for (int64_t queries = 1; queries <= 161; queries += 80) {
        const layout s = {2, queries, 161, 4, 2, 16, 16, 1, queries > 1 ? 0 : 33, 4000, 0};
        const gyre_config alibi = WITH(GYRE_KIND_ALIBI, .slopes = test_slopes);
        const options none = {0};
        trial of_slopes = make_trial(&alibi, &s, &none, 8), of_gates = scheme_trial(SCHEME_none, &s, &none, 8);
        for (part i = Q; i <= V; i++)
            memcpy(of_gates.p.x[i], of_slopes.p.x[i], of_slopes.p.size[i] * sizeof(float));
        make_gates(&of_gates, 1, 0, 0);
        for (int keys = 0; keys < 2; keys++)
            for (int64_t i = 0, n = s.batch * (keys ? s.keys : s.queries); i < n * s.heads; i++)
                of_gates.gate_sums[keys][i] =
                    -test_slopes[i % s.heads] * (double)(keys ? of_gates.p.k_at : of_gates.p.q_at)[i / s.heads];
        run_trial(&of_slopes, NULL);
        run_gated(&of_gates);
        for (size_t e = 0; e < of_slopes.p.out_size; e++)
            test_close((long double)of_gates.p.out[e], (long double)of_slopes.p.out[e], 2e-6L, "out");
        free_trial(&of_slopes);
        free_trial(&of_gates);
    }
    unsetenv("GYRE_CPU");
}

/* Memory that was never written may stand beside keys that a mask or the padding hides. */
static void hidden_keys_do_not_leak(void **state) {
    (void)state;
    for (int64_t queries = 1; queries <= 41; queries += 40) {
        const layout s = {1, queries, 200, 2, 1, 16, 16, 1, 0, 0, 0};
        trial clean = make_gated(0, &s, 0, 0.3, 0, 2), dirty = make_gated(0, &s, 0, 0.3, 0, 2);
        const int64_t first = 3, end = 200 - 40;
        float *mask = room((size_t)s.keys, sizeof *mask);
        mask[3] = mask[20] = mask[131] = -INFINITY; /* 3 and 131: the first of a tile */
        for (int64_t h = 0; h < 2; h++) {
            for (int64_t n = 0; n < first; n++)
                dirty.gate_sums[1][n * 2 + h] = NAN;
            for (int64_t n = end; n < s.keys; n++)
                dirty.gate_sums[1][n * 2 + h] = n % 2 ? INFINITY : NAN;
            dirty.gate_sums[1][20 * 2 + h] = -INFINITY;
            dirty.gate_sums[1][3 * 2 + h] = dirty.gate_sums[1][131 * 2 + h] = NAN;
        }
        trial *both[2] = {&clean, &dirty};
        for (int i = 0; i < 2; i++) {
            attention_setup args = gated_args(both[i], NULL);
            args.mask = gyre_cdense(mask, GYRE_DTYPE_F32, 1, queries, 2, s.keys);
            args.mask.stride[1] = args.mask.stride[2] = 0;
            args.k_first = &first;
            args.k_end = &end;
            attend(&args, NULL);
        }
        for (size_t e = 0; e < clean.p.out_size; e++)
            test_close((long double)dirty.p.out[e], (long double)clean.p.out[e], 1e-6L, "out");
        free(mask);
        free_trial(&clean);
        free_trial(&dirty);
    }
}

/* -- the gradient -- */

static double trial_loss(trial *t, int64_t batch, int64_t head) {
    const layout *s = &t->p.s;
    double sum = 0;
    for (int64_t i = 0; i < s->queries; i++) {
        const int64_t at = ((batch * s->queries + i) * s->heads + head) * s->value_dim;
        trial_row(t, batch, i, head);
        sum += scheme_dot(t->p.x64[DOUT] + at, t->p.out64 + at, s->value_dim);
    }
    return sum;
}

/* Of a number that rows of one batch row depend on: of one head, or of the heads of a key head. */
static double slope_at(trial *t, double *x, int64_t batch, int64_t head, int64_t heads) {
    const double original = *x, step = difference_step(&t->p);
    double sum = 0;
    for (int sign = 1; sign >= -1; sign -= 2) {
        *x = original + sign * step;
        for (int64_t h = head; h < head + heads; h++)
            sum += sign * trial_loss(t, batch, h);
    }
    *x = original;
    return sum / (2 * step);
}

/* To the sums of queries and of keys. */
typedef struct gate_gradients {
    double *sums[2];
} gate_gradients;

static gyre_view gradient_of(const trial *t, const gate_gradients *g, int keys) {
    const layout *s = &t->p.s;
    return gyre_dense(g->sums[keys], GYRE_DTYPE_F64, s->batch, keys ? s->keys : s->queries, s->heads, 1);
}

static gate_gradients make_gradients(const layout *s) {
    return (gate_gradients){{room((size_t)(s->batch * s->queries * s->heads), sizeof(double)),
                             room((size_t)(s->batch * s->keys * s->heads), sizeof(double))}};
}

static void free_gradients(gate_gradients *g) {
    free(g->sums[0]);
    free(g->sums[1]);
}

static void differentiate_gated(trial *t, attention_setup *args, const gate_gradients *g, const gyre_exec *exec) {
    const problem *p = &t->p;
    const layout *s = &p->s;
    const gyre_table_gradients gradients = problem_gradients(p);
    const gyre_cview dout = gyre_cdense(p->x[DOUT], GYRE_DTYPE_F32, s->batch, s->queries, s->heads, s->value_dim);
    const gyre_view dqkv[3] = {gyre_dense(p->grad[Q], GYRE_DTYPE_F32, s->batch, s->queries, s->heads, s->dim),
                               gyre_dense(p->grad[K], GYRE_DTYPE_F32, s->batch, s->keys, s->key_heads, s->dim),
                               gyre_dense(p->grad[V], GYRE_DTYPE_F32, s->batch, s->keys, s->key_heads, s->value_dim)};
    args->dq_gate_sums = gradient_of(t, g, 0);
    args->dk_gate_sums = gradient_of(t, g, 1);
    differentiate(args, &dout, dqkv, &gradients, exec);
}

static void check_gradients(trial *t, const gate_gradients *g, size_t samples) {
    problem *p = &t->p;
    const layout *s = &p->s;
    for (int keys = 0; keys < 2; keys++) {
        const int64_t tokens = keys ? s->keys : s->queries, count = s->batch * tokens * s->heads;
        const int64_t step = count <= (int64_t)samples ? 1 : count / (int64_t)samples | 1;
        for (int64_t e = count / 2 % step; e < count; e += step) {
            const double want = slope_at(t, &t->gate_sums[keys][e], e / s->heads / tokens, e % s->heads, 1);
            test_close(g->sums[keys][e], want, 3e-5 * (1 + fabs(want)), keys ? "dk_gates" : "dq_gates");
        }
    }
    for (part i = Q; i <= V; i++) {
        const int64_t dim = i == V ? s->value_dim : s->dim, heads = i == Q ? s->heads : s->key_heads;
        const int64_t tokens = i == Q ? s->queries : s->keys, group = s->heads / heads;
        const size_t step = p->size[i] <= samples ? 1 : p->size[i] / samples | 1;
        for (size_t e = p->size[i] / 2 % step; e < p->size[i]; e += step) {
            const int64_t row = (int64_t)e / dim;
            const double want = slope_at(t, &p->x64[i][e], row / heads / tokens, row % heads * group, group);
            test_close((double)p->grad[i][e], want, 3e-5 * (1 + fabs(want)), part_names[i]);
        }
    }
}

static void gradient_follows_definition(void **state) {
    const char *tier = *state;
    uint64_t index = 0;
    tier_or_skip(tier);
    assert_int_equal(setenv("GYRE_CPU", tier, 1), 0);
    for (int scheme = 0; scheme < SCHEMES; scheme++)
        for (size_t i = 0; i < 8; i++, index++) {
            if (!test_scheme_attends(scheme, (gyre_causal)layouts[i].causal) || !test_scheme_tried(scheme, (int64_t)i, 4))
                continue;
            trial t = make_gated(scheme, &layouts[i], (int)(index * 5 % BITS), index % 2 ? 0.1 : 0.6, 0, index);
            gate_gradients g = make_gradients(&layouts[i]);
            const gyre_tables tables = problem_tables(&t.p);
            attention_setup args = gated_args(&t, &tables);
            attend(&args, NULL);
            differentiate_gated(&t, &args, &g, NULL);
            check_gradients(&t, &g, i < 5 ? 9 : 2);
            free_gradients(&g);
            free_trial(&t);
        }
    unsetenv("GYRE_CPU");
}

/* Gradients are added with `accumulate`, and the bits do not depend on threads. */
static void adds_for_any_threads(void **state) {
    (void)state;
    const layout s = {2, 130, 140, 6, 3, 16, 16, 1, 50, 0, 0};
    trial t = make_gated(1, &s, 1 + 8, 0.3, 0, 4);
    const size_t sizes[2] = {(size_t)(s.batch * s.queries * s.heads), (size_t)(s.batch * s.keys * s.heads)};
    double *lse = room(sizes[0], sizeof *lse);
    gate_gradients once = make_gradients(&s), twice = make_gradients(&s);
    gyre_pool *pool;
    assert_ok(gyre_pool_create(&pool, 3, NULL));
    const gyre_exec exec = gyre_pool_exec(pool);
    attention_setup args = gated_args(&t, NULL);
    args.lse = gyre_dense(lse, GYRE_DTYPE_F64, s.batch, s.queries, s.heads, 1);
    attend(&args, NULL);
    differentiate_gated(&t, &args, &once, NULL);
    differentiate_gated(&t, &args, &twice, &exec);
    for (int i = 0; i < 2; i++)
        assert_memory_equal(once.sums[i], twice.sums[i], sizes[i] * sizeof(double));
    args.accumulate = 1;
    differentiate_gated(&t, &args, &twice, &exec);
    for (int i = 0; i < 2; i++)
        for (size_t e = 0; e < sizes[i]; e++)
            assert_true(twice.sums[i][e] == once.sums[i][e] + once.sums[i][e]);
    gyre_pool_free(pool);
    free(lse);
    free_gradients(&once);
    free_gradients(&twice);
    free_trial(&t);
}

/* -- sequences in one call -- */

/* Two documents, alone and packed, in every type of sums: the same bits forward and backward. */
static void packed_is_as_alone(void **state) {
    (void)state;
    const layout s = {1, 170, 170, 2, 1, 16, 16, 1, 0, 0, 0};
    const int64_t starts[4] = {0, 57, 57, 170};
    trial t = make_gated(1, &s, 0, 0.4, 0, 6);
    gate_gradients packed = make_gradients(&s), alone = make_gradients(&s);
    problem *p = &t.p;
    float *out = room(p->out_size, sizeof *out);
    const gyre_positions bare = {.data = NULL};
    attention_setup args = gated_args(&t, NULL);
    args.q_pos = args.k_pos = bare;
    args.q_starts = args.k_starts = starts;
    args.sequences = 3;
    attend(&args, NULL);
    differentiate_gated(&t, &args, &packed, NULL);
    memcpy(out, p->out, p->out_size * sizeof *out);
    for (int i = 0; i < 3; i++) {
        const int64_t first = starts[i], count = starts[i + 1] - first;
        attention_setup one = gated_args(&t, NULL);
        if (count == 0) continue;
        one.q_pos = one.k_pos = bare;
        gyre_cview *inputs[] = {&one.q, &one.k, &one.v, &one.q_gate_sums, &one.k_gate_sums};
        for (int n = 0; n < 5; n++) {
            inputs[n]->data =
                (const char *)inputs[n]->data + first * inputs[n]->stride[1] * (int64_t)gyre_dtype_size(inputs[n]->dtype);
            inputs[n]->shape[1] = count;
        }
        one.out.data = (float *)one.out.data + first * one.out.stride[1];
        one.lse.data = (float *)one.lse.data + first * one.lse.stride[1];
        one.out.shape[1] = one.lse.shape[1] = count;
        attend(&one, NULL);
        const gyre_cview dout = {p->x[DOUT] + first * 32, GYRE_DTYPE_F32, {1, count, 2, 16}, {0, 32, 16, 1}};
        const gyre_view dqkv[3] = {gyre_dense(p->grad[Q] + first * 32, GYRE_DTYPE_F32, 1, count, 2, 16),
                                   gyre_dense(p->grad[K] + first * 16, GYRE_DTYPE_F32, 1, count, 1, 16),
                                   gyre_dense(p->grad[V] + first * 16, GYRE_DTYPE_F32, 1, count, 1, 16)};
        one.dq_gate_sums = gyre_dense(alone.sums[0] + first * 2, GYRE_DTYPE_F64, 1, count, 2, 1);
        one.dk_gate_sums = gyre_dense(alone.sums[1] + first * 2, GYRE_DTYPE_F64, 1, count, 2, 1);
        differentiate(&one, &dout, dqkv, NULL, NULL);
    }
    assert_memory_equal(out, p->out, p->out_size * sizeof *out);
    for (int i = 0; i < 2; i++)
        assert_memory_equal(packed.sums[i], alone.sums[i], 340 * sizeof(double));
    free(out);
    free_gradients(&packed);
    free_gradients(&alone);
    free_trial(&t);
}

/* Keys outside k_first .. k_end get a gradient of 0. */
static void padding_has_no_gradient(void **state) {
    (void)state;
    const layout s = {1, 40, 60, 2, 1, 16, 16, 1, 0, 0, 0};
    const int64_t first = 4, end = 57;
    trial t = make_gated(0, &s, 0, 0.4, 0, 7);
    gate_gradients g = make_gradients(&s);
    for (int64_t e = 0; e < 120; e++)
        g.sums[1][e] = 5;
    attention_setup args = gated_args(&t, NULL);
    args.k_first = &first;
    args.k_end = &end;
    attend(&args, NULL);
    differentiate_gated(&t, &args, &g, NULL);
    double whole = 0;
    for (int64_t e = 0; e < 120; e++) {
        if (e / 2 < first || e / 2 >= end) assert_true(g.sums[1][e] == 0);
        whole += fabs(g.sums[1][e]);
    }
    assert_true(whole > 0);
    free_gradients(&g);
    free_trial(&t);
}

/* Heads with positions of their own are calls of their own: here all have the same, and so the bits of one call. */
static void heads_with_their_positions(void **state) {
    (void)state;
    const layout s = {2, 40, 60, 4, 2, 16, 16, 1, 0, 0, 0};
    trial t = make_gated(1, &s, 0, 0.4, 0, 11);
    const size_t sizes[2] = {(size_t)(s.batch * s.queries * s.heads), (size_t)(s.batch * s.keys * s.heads)};
    gate_gradients shared = make_gradients(&s), own = make_gradients(&s);
    int64_t *at = room(2 * 4 * 40, sizeof *at);
    for (int64_t h = 0; h < 4; h++)
        for (int64_t i = 0; i < 80; i++)
            at[(i / 40 * 4 + h) * 40 + i % 40] = t.p.q_at[i];
    attention_setup args = gated_args(&t, NULL);
    attend(&args, NULL);
    differentiate_gated(&t, &args, &shared, NULL);
    for (int i = 0; i < 2; i++)
        for (size_t e = 0; e < sizes[i]; e++)
            own.sums[i][e] = 7; /* overwritten */
    args.q_pos = (gyre_positions){at, GYRE_DTYPE_I64, 0, 0, 160, 1, 0, 0};
    args.q_pos_head_stride = 40;
    attend(&args, NULL);
    differentiate_gated(&t, &args, &own, NULL);
    for (int i = 0; i < 2; i++)
        assert_memory_equal(own.sums[i], shared.sums[i], sizes[i] * sizeof(double));
    define(&t);
    for (size_t e = 0; e < t.p.out_size; e++)
        test_close((long double)t.p.out[e], t.p.out64[e], 3e-6L, "out");
    free(at);
    free_gradients(&shared);
    free_gradients(&own);
    free_trial(&t);
}

/* -- parts -- */

/* Keys of a row in three calls, the first of which has only far keys, with sums that a float could not tell apart: fast
 * within rounding of the whole, fixed with its bits. */
static void parts_add_up(void **state) {
    (void)state;
    const layout s = {1, 40, 600, 2, 1, 16, 16, 1, 0, 0, 0};
    static const int64_t cuts[4] = {0, 256, 512, 600};
    for (int fixed = 0; fixed < 2; fixed++) {
        trial t = make_gated(0, &s, 0, 40, -1e9, 11);
        double *rows = room((size_t)(40 * 2 * 18), sizeof *rows), *lse = room(80, sizeof *lse);
        float *out = room(t.p.out_size, sizeof *out);
        attention_setup args = gated_args(&t, NULL);
        args.order = fixed ? GYRE_ORDER_FIXED : GYRE_ORDER_FAST;
        attend(&args, NULL);
        memcpy(out, t.p.out, t.p.out_size * sizeof *out);
        define(&t);
        for (int i = 0; i < 3; i++) {
            attention_setup piece = args;
            piece.state = gyre_dense(rows, GYRE_DTYPE_F64, 1, 40, 2, 18);
            gyre_cview *keys[] = {&piece.k, &piece.v, &piece.k_gate_sums};
            for (int n = 0; n < 3; n++) {
                keys[n]->data =
                    (const char *)keys[n]->data + cuts[i] * keys[n]->stride[1] * (int64_t)gyre_dtype_size(keys[n]->dtype);
                keys[n]->shape[1] = cuts[i + 1] - cuts[i];
            }
            piece.k_pos.data = t.p.k_at + cuts[i];
            piece.lse = gyre_dense(lse, GYRE_DTYPE_F64, 1, 40, 2, 1);
            if (i < 2) piece.out.data = piece.lse.data = NULL;
            attend(&piece, NULL);
        }
        if (fixed) assert_memory_equal(out, t.p.out, t.p.out_size * sizeof *out);
        for (size_t e = 0; e < t.p.out_size; e++)
            test_close((long double)t.p.out[e], t.p.out64[e], 5e-6L, "out");
        for (int64_t r = 0; r < 80; r++)
            test_close(lse[r], t.lse64[r], 1e-5L, "lse");
        free(rows);
        free(lse);
        free(out);
        free_trial(&t);
    }
}

/* Only keys far behind the query are in the call: their weights are still told apart. */
static void far_keys_alone(void **state) {
    (void)state;
    for (int64_t queries = 1; queries <= 33; queries += 32) {
        const layout s = {1, queries, 300, 2, 1, 16, 16, 1, 0, 0, 0};
        trial t = make_gated(0, &s, 0, 0.4, 0, 11);
        for (int64_t i = 0; i < queries * 2; i++)
            t.gate_sums[0][i] -= 3e5;
        for (int64_t i = 0; i < queries; i++)
            t.p.q_at[i] += 1000;
        run_gated(&t);
        define(&t);
        for (size_t e = 0; e < t.p.out_size; e++)
            test_close((long double)t.p.out[e], t.p.out64[e], 3e-6L, "out");
        free_trial(&t);
    }
}

/* -- running sums -- */

enum { TOKENS = 150, HEADS = 3 };

static void fill_log_gates(double *log_gates, size_t n, uint64_t seed) {
    test_random random = {seed};
    for (size_t i = 0; i < n; i++)
        log_gates[i] = log(0.5 + 0.4999 * test_uniform(&random));
}

static void sums_restart_in_each_document(void **state) {
    (void)state;
    static const int64_t starts[5] = {0, 64, 64, 70, TOKENS};
    double log_gates[TOKENS * HEADS], sums[TOKENS * HEADS], back[TOKENS * HEADS];
    fill_log_gates(log_gates, TOKENS * HEADS, 1);
    const gyre_cview in = gyre_cdense(log_gates, GYRE_DTYPE_F64, 1, TOKENS, HEADS, 1);
    const gyre_view out = gyre_dense(sums, GYRE_DTYPE_F64, 1, TOKENS, HEADS, 1);
    assert_ok(gyre_gate_sums(GYRE_ARGS(gyre_gate_sums_args, .log_gates = in, .starts = starts, .sequences = 4, .sums = out),
                             NULL, NULL));
    for (int s = 0; s < 4; s++)
        for (int h = 0; h < HEADS; h++) {
            long double sum = 0;
            for (int64_t t = starts[s]; t < starts[s + 1]; t++) {
                sum += (long double)log_gates[t * HEADS + h];
                test_close(sums[t * HEADS + h], sum, 1e-13L, "sum");
            }
        }
    const gyre_cview dsums[2] = {gyre_cdense(log_gates, GYRE_DTYPE_F64, 1, TOKENS, HEADS, 1), {.data = NULL}};
    const gyre_view dlog = gyre_dense(back, GYRE_DTYPE_F64, 1, TOKENS, HEADS, 1);
    assert_ok(gyre_gate_sums_gradient(dsums, starts, 4, &dlog, NULL, NULL));
    for (int s = 0; s < 4; s++)
        for (int h = 0; h < HEADS; h++) {
            long double sum = 0;
            for (int64_t t = starts[s + 1] - 1; t >= starts[s]; t--) {
                sum += (long double)log_gates[t * HEADS + h];
                test_close(back[t * HEADS + h], sum, 1e-13L, "gradient");
            }
        }
}

/* <d, S g> = <S' d, g>: the gradient is the transpose of the sums. */
static void gradient_is_transposed(void **state) {
    (void)state;
    double x[2 * TOKENS * HEADS], y[2 * TOKENS * HEADS], z[2 * TOKENS * HEADS], sums[2 * TOKENS * HEADS];
    const size_t n = 2 * TOKENS * HEADS;
    double back[2 * TOKENS * HEADS], left = 0, right = 0;
    fill_log_gates(x, n, 2);
    fill_log_gates(y, n, 3);
    fill_log_gates(z, n, 4);
    const gyre_cview in = gyre_cdense(x, GYRE_DTYPE_F64, 2, TOKENS, HEADS, 1);
    const gyre_view out = gyre_dense(sums, GYRE_DTYPE_F64, 2, TOKENS, HEADS, 1);
    const gyre_cview dsums[2] = {gyre_cdense(y, GYRE_DTYPE_F64, 2, TOKENS, HEADS, 1),
                                 gyre_cdense(z, GYRE_DTYPE_F64, 2, TOKENS, HEADS, 1)};
    const gyre_view dlog = gyre_dense(back, GYRE_DTYPE_F64, 2, TOKENS, HEADS, 1);
    assert_ok(gyre_gate_sums(GYRE_ARGS(gyre_gate_sums_args, .log_gates = in, .sums = out), NULL, NULL));
    assert_ok(gyre_gate_sums_gradient(dsums, NULL, 0, &dlog, NULL, NULL));
    for (size_t i = 0; i < n; i++) {
        left += (y[i] + z[i]) * sums[i];
        right += back[i] * x[i];
    }
    test_close(left, right, 1e-11L * fabsl((long double)left), "products");
}

/* A sequence that comes in pieces has the bits of one call, in place too, for any threads. */
static void pieces_have_the_same_bits(void **state) {
    (void)state;
    double log_gates[TOKENS * HEADS], whole[TOKENS * HEADS], pieces[TOKENS * HEADS];
    fill_log_gates(log_gates, TOKENS * HEADS, 5);
    memcpy(pieces, log_gates, sizeof pieces);
    const gyre_cview in = gyre_cdense(log_gates, GYRE_DTYPE_F64, 1, TOKENS, HEADS, 1);
    const gyre_view out = gyre_dense(whole, GYRE_DTYPE_F64, 1, TOKENS, HEADS, 1);
    gyre_pool *pool;
    assert_ok(gyre_pool_create(&pool, 2, NULL));
    const gyre_exec exec = gyre_pool_exec(pool);
    assert_ok(gyre_gate_sums(GYRE_ARGS(gyre_gate_sums_args, .log_gates = in, .sums = out), NULL, NULL));
    test_random random = {6};
    for (int64_t first = 0, n; first < TOKENS; first += n) {
        n = 1 + (int64_t)(test_next(&random) % 70);
        n = n < TOKENS - first ? n : TOKENS - first;
        const gyre_cview from = gyre_cdense(pieces + first * HEADS, GYRE_DTYPE_F64, 1, n, HEADS, 1);
        const gyre_view to = gyre_dense(pieces + first * HEADS, GYRE_DTYPE_F64, 1, n, HEADS, 1);
        double last[HEADS];
        if (first > 0) memcpy(last, pieces + (first - 1) * HEADS, sizeof last);
        const gyre_cview before = gyre_cdense(first > 0 ? last : NULL, GYRE_DTYPE_F64, 1, 1, HEADS, 1);
        assert_ok(
            gyre_gate_sums(GYRE_ARGS(gyre_gate_sums_args, .log_gates = from, .before = before, .sums = to), &exec, NULL));
    }
    assert_memory_equal(pieces, whole, sizeof whole);
    gyre_pool_free(pool);
}

/* -- refusals -- */

static void refused(attention_setup *args, gyre_status wanted, const char *text) {
    gyre_error err = {0, ""};
    const size_t bytes = 1 << 20;
    void *scratch = scratch_for(bytes);
    assert_int_equal(run_attention(args, (gyre_scratch){scratch, bytes}, NULL, &err), wanted);
    assert_string_equal(err.text, text);
    free(scratch);
}

static void says_what_is_wrong(void **state) {
    (void)state;
    const layout s = {1, 3, 5, 2, 1, 8, 8, 1, 0, 0, 0};
    trial t = make_gated(0, &s, 0, 0.4, 0, 7);
    attention_setup args = gated_args(&t, NULL);
    args.k_gate_sums.data = NULL;
    refused(&args, GYRE_EINVAL, "gates.k: is missing, but gates.q is set (gyre_attention)");
    args = gated_args(&t, NULL);
    args.q_gate_sums.data = NULL;
    refused(&args, GYRE_EINVAL, "gates.q: is missing, but gates.k is set (gyre_attention)");
    args = gated_args(&t, NULL);
    args.q_gate_sums.dtype = GYRE_DTYPE_F16;
    refused(&args, GYRE_EDTYPE, "gates.q: element type F16 is not F32 or F64 (gyre_attention)");
    args = gated_args(&t, NULL);
    args.k_gate_sums.shape[2] = 1;
    refused(&args, GYRE_ESHAPE, "gates.k: shape [1, 5, 1, 1] is not [1, 5, 2, 1] (gyre_attention)");
    args = gated_args(&t, NULL);
    args.q_gate_sums.data = args.out.data;
    args.q_gate_sums.dtype = GYRE_DTYPE_F32;
    refused(&args, GYRE_EINVAL, "out: overlaps gates.q (gyre_attention)");
    free_trial(&t);
}

static void sums_say_what_is_wrong(void **state) {
    (void)state;
    gyre_error err = {0, ""};
    double x[12] = {0}, y[12];
    const int64_t short_of[2] = {0, 3}, falling[3] = {0, 5, 4};
    const gyre_cview in = gyre_cdense(x, GYRE_DTYPE_F64, 1, 4, 3, 1);
    gyre_view out = gyre_dense(y, GYRE_DTYPE_F64, 1, 4, 3, 1);
    gyre_cview no_memory = in;
    no_memory.data = NULL;
    assert_int_equal(gyre_gate_sums(GYRE_ARGS(gyre_gate_sums_args, .log_gates = no_memory, .sums = out), NULL, &err),
                     GYRE_EINVAL);
    assert_string_equal(err.text, "log_gates: has no memory for its shape [1, 4, 3, 1] (gyre_gate_sums)");
    assert_int_equal(gyre_gate_sums(NULL, NULL, &err), GYRE_EINVAL);
    assert_string_equal(err.text, "gyre_gate_sums_args: is NULL (gyre_gate_sums_args)");
    assert_int_equal(
        gyre_gate_sums(GYRE_ARGS(gyre_gate_sums_args, .log_gates = in, .starts = short_of, .sequences = 1, .sums = out),
                       NULL, &err),
        GYRE_EINVAL);
    assert_string_equal(err.text, "starts[1]: 3 is not the number of tokens, 4 (gyre_gate_sums)");
    assert_int_equal(
        gyre_gate_sums(GYRE_ARGS(gyre_gate_sums_args, .log_gates = in, .starts = falling, .sequences = 2, .sums = out), NULL,
                       &err),
        GYRE_EINVAL);
    assert_string_equal(err.text, "starts[2]: 4 is below 5 before it (gyre_gate_sums)");
    out.dtype = GYRE_DTYPE_BF16;
    assert_int_equal(gyre_gate_sums(GYRE_ARGS(gyre_gate_sums_args, .log_gates = in, .sums = out), NULL, &err), GYRE_EDTYPE);
    assert_string_equal(err.text, "sums: element type BF16 is not F32 or F64 (gyre_gate_sums)");
    out = gyre_dense(x + 1, GYRE_DTYPE_F64, 1, 3, 3, 1);
    assert_int_equal(gyre_gate_sums(GYRE_ARGS(gyre_gate_sums_args, .log_gates = in, .sums = out), NULL, &err), GYRE_ESHAPE);
    assert_string_equal(err.text, "sums: shape [1, 3, 3, 1] is not [1, 4, 3, 1] (gyre_gate_sums)");
    const gyre_cview dsums[2] = {in, {.data = NULL}};
    out = gyre_dense(x, GYRE_DTYPE_F64, 1, 4, 3, 1);
    assert_int_equal(gyre_gate_sums_gradient(dsums, NULL, 0, &out, NULL, &err), GYRE_EINVAL);
    assert_string_equal(err.text, "dlog_gates: overlaps dsums[0] (gyre_gate_sums_gradient)");
    assert_int_equal(gyre_gate_sums_gradient(NULL, NULL, 0, &out, NULL, &err), GYRE_EINVAL);
    assert_string_equal(err.text, "dsums: is NULL (gyre_gate_sums_gradient)");
}

/* Shapes come before overlap, whose search would meet numbers that it cannot multiply. */
static void sums_check_shapes_before_overlap(void **state) {
    (void)state;
    static const int64_t extents[] = {INT64_MIN, -1, (int64_t)1 << 62, INT64_MAX};
    double x[12] = {0}, y[12] = {0};
    const gyre_cview in = gyre_cdense(x, GYRE_DTYPE_F64, 1, 4, 3, 1), dsums[2] = {in, {.data = NULL}};
    for (int i = 0; i < 4; i++) {
        gyre_error err = {0, ""};
        gyre_view out = gyre_dense(x, GYRE_DTYPE_F64, 1, 4, 3, 1); /* overlaps, too */
        out.shape[3] = extents[i];
        assert_int_equal(gyre_gate_sums_gradient(dsums, NULL, 0, &out, NULL, &err), GYRE_ESHAPE);
        assert_non_null(strstr(err.text, "dlog_gates: [1, 4, 3, "));
        out = gyre_dense(x, GYRE_DTYPE_F64, 1, 4, 3, 1);
        out.shape[1] = extents[i];
        assert_int_equal(gyre_gate_sums_gradient(dsums, NULL, 0, &out, NULL, &err), GYRE_ESHAPE);
        assert_non_null(strstr(err.text, "dlog_gates: [1, "));
    }
    gyre_error err = {0, ""};
    gyre_view out = gyre_dense(y, GYRE_DTYPE_F64, 1, 4, 3, 1);
    out.stride[0] = INT64_MIN; /* of one element: any number */
    assert_int_equal(gyre_gate_sums(GYRE_ARGS(gyre_gate_sums_args, .log_gates = in, .sums = out), NULL, &err), GYRE_OK);
    out.stride[1] = INT64_MIN;
    assert_int_equal(gyre_gate_sums(GYRE_ARGS(gyre_gate_sums_args, .log_gates = in, .sums = out), NULL, &err), GYRE_EINVAL);
    assert_string_equal(err.text, "sums: its strides [-9223372036854775808, -9223372036854775808, 1, 1] reach further than "
                                  "memory does, for shape [1, 4, 3, 1] (gyre_gate_sums)");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        FOR_TIERS(forward_follows_definition),
        FOR_TIERS(gradient_follows_definition),
        FOR_TIERS(alibi_is_a_case),
        cmocka_unit_test(far_from_the_start),
        cmocka_unit_test(hidden_keys_do_not_leak),
        cmocka_unit_test(adds_for_any_threads),
        cmocka_unit_test(packed_is_as_alone),
        cmocka_unit_test(padding_has_no_gradient),
        cmocka_unit_test(heads_with_their_positions),
        cmocka_unit_test(parts_add_up),
        cmocka_unit_test(far_keys_alone),
        cmocka_unit_test(sums_restart_in_each_document),
        cmocka_unit_test(gradient_is_transposed),
        cmocka_unit_test(pieces_have_the_same_bits),
        cmocka_unit_test(says_what_is_wrong),
        cmocka_unit_test(sums_say_what_is_wrong),
        cmocka_unit_test(sums_check_shapes_before_overlap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
