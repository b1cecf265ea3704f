/* test_contextual.c: contextual position encoding against its definition in double, gradients against that definition's,
 * which is held to differences. */
#include "contextual_call.h"
#include "naive_contextual.h"
#include "random_cuts.h"
#include "random_views.h"
#include "run_each_tier.h"

#include <stdlib.h>

/* A call, its memory, and the doubles that its views hold. */
typedef enum part { Q, K, V, GATE_KEYS, EMBEDDINGS, OUT, LSE, DOUT, DQ, DK, DV, DGATE_KEYS, DEMBEDDINGS, PARTS } part;
static const char *const part_names[PARTS] = {"q",    "k",  "v",  "gate keys", "embeddings", "out",        "lse",
                                              "dout", "dq", "dk", "dv",        "dgate keys", "dembeddings"};
typedef struct problem {
    gyre_contextual_args args;
    random_batch batch;
    int gates_apart;
    random_view parts[PARTS];
} problem;

static void free_problem(problem *p) {
    for (int i = 0; i < PARTS; i++)
        free_view(&p->parts[i]);
}

/* -- problems -- */

typedef struct limits {
    int64_t queries, keys, channels, positions;
    int short_types; /* 1: f16 and bf16 too */
} limits;

static void make_problem(problem *p, const limits *l, test_random *random) {
    *p = (problem){.args = GYRE_INIT(gyre_contextual_args)};
    const int64_t key_heads = draw(random, 1, 3), heads = key_heads * draw(random, 1, 3), d = draw(random, 1, l->channels);
    const int64_t dv = draw(random, 1, l->channels), positions = draw(random, 1, l->positions);
    draw_batch(&p->batch, l->queries, l->keys, random);
    SET_BATCH(&p->args, &p->batch);
    const int64_t batch = p->batch.rows, queries = p->batch.queries, keys = p->batch.keys;
    p->gates_apart = draw(random, 0, 2) == 0;
    if (draw(random, 0, 1)) p->args.scale = 0.3;
    if (draw(random, 0, 1)) p->args.gate_scale = draw(random, 0, 1) ? 1 : -0.4;
    if (draw(random, 0, 1)) p->args.position_scale = 1 / sqrt((double)d);
    const int64_t q_shape[4] = {batch, queries, heads, d}, k_shape[4] = {batch, keys, key_heads, d},
                  v_shape[4] = {batch, keys, key_heads, dv}, e_shape[4] = {1, positions, draw(random, 0, 1) ? heads : 1, d},
                  out_shape[4] = {batch, queries, heads, dv}, lse_shape[4] = {batch, queries, heads, 1};
    const int64_t *const shapes[PARTS] = {q_shape,   k_shape, v_shape, k_shape, e_shape, out_shape, lse_shape,
                                          out_shape, q_shape, k_shape, v_shape, k_shape, e_shape};
    for (int i = 0; i < PARTS; i++) {
        const int input = i <= EMBEDDINGS || i == DOUT;
        const gyre_dtype wide = draw(random, 0, 1) ? GYRE_DTYPE_F32 : GYRE_DTYPE_F64;
        make_view(&p->parts[i], input ? draw_type(l->short_types, random) : wide, shapes[i], random);
        if (input) fill_view(&p->parts[i], i == EMBEDDINGS || i == Q ? 1.5 : 1, random);
    }
    p->args.q = gyre_const(p->parts[Q].view);
    p->args.k = gyre_const(p->parts[K].view);
    p->args.v = gyre_const(p->parts[V].view);
    p->args.embeddings = gyre_const(p->parts[EMBEDDINGS].view);
    if (p->gates_apart) p->args.gate_keys = gyre_const(p->parts[GATE_KEYS].view);
    p->args.out = p->parts[OUT].view;
    p->args.lse = p->parts[LSE].view;
}

/* -- calls -- */

static void run_gradient(const problem *p, const gyre_exec *exec) {
    gyre_contextual_gradients to = GYRE_INIT(gyre_contextual_gradients);
    const gyre_cview dout = gyre_const(p->parts[DOUT].view);
    to.dq = p->parts[DQ].view;
    to.dk = p->parts[DK].view;
    to.dv = p->parts[DV].view;
    if (p->gates_apart) to.dgate_keys = p->parts[DGATE_KEYS].view;
    to.dembeddings = p->parts[DEMBEDDINGS].view;
    run_backward(&p->args, &dout, &to, exec);
}

/* -- the definition of a whole call -- */

/* One head of one sequence, as dense rows. */
typedef struct head_rows {
    naive_contextual n;
    double *rows[PARTS];
    int64_t batch, head, query, key;
} head_rows;

/* Rows `from` .. + count - 1 of a head; back 1: added to the part, else taken from it. */
static void move_rows(problem *p, part which, const int64_t place[4], double *rows, int back) {
    const int64_t *s = p->parts[which].view.shape;
    const int64_t batch = place[0], from = place[1], count = place[2], head = place[3];
    for (int64_t t = 0; t < count; t++)
        for (int64_t c = 0; c < s[3]; c++) {
            double *whole = &p->parts[which].values[((batch * s[1] + from + t) * s[2] + head) * s[3] + c];
            if (back)
                *whole += rows[t * s[3] + c];
            else
                rows[t * s[3] + c] = *whole;
        }
}

static void place_of(const problem *p, const head_rows *h, int which, int64_t place[4]) {
    const int64_t group = p->args.q.shape[2] / p->args.k.shape[2];
    const int keys = which == K || which == V || which == GATE_KEYS || which == DK || which == DV || which == DGATE_KEYS;
    const int table = which == EMBEDDINGS || which == DEMBEDDINGS;
    place[0] = table ? 0 : h->batch;
    place[1] = table ? 0 : keys ? h->key : h->query;
    place[2] = table ? p->args.embeddings.shape[1] : keys ? h->n.keys : h->n.queries;
    place[3] = table ? (p->args.embeddings.shape[2] == 1 ? 0 : h->head) : keys ? h->head / group : h->head;
}

static void open_head(problem *p, int64_t s, int64_t head, head_rows *h) {
    const batch_place rows = place_in_batch(&p->batch, s);
    const double usual = 1 / sqrt((double)p->args.q.shape[3]);
    *h = (head_rows){.batch = rows.row, .head = head, .query = rows.query, .key = rows.key};
    h->n = (naive_contextual){.queries = rows.queries,
                              .keys = rows.keys,
                              .channels = p->args.q.shape[3],
                              .values = p->args.v.shape[3],
                              .positions = p->args.embeddings.shape[1],
                              .scale = p->args.scale != 0 ? p->args.scale : usual,
                              .gate_scale = p->args.gate_scale != 0 ? p->args.gate_scale : usual,
                              .position_scale = p->args.position_scale != 0 ? p->args.position_scale : 1};
    for (int i = 0; i < PARTS; i++) {
        int64_t place[4];
        place_of(p, h, i, place);
        h->rows[i] = calloc((size_t)(place[2] * p->parts[i].view.shape[3]) + 1, sizeof(double));
        if (i <= EMBEDDINGS || i == DOUT) move_rows(p, (part)i, place, h->rows[i], 0);
    }
    h->n.q = h->rows[Q];
    h->n.k = h->rows[K];
    h->n.v = h->rows[V];
    h->n.e = h->rows[EMBEDDINGS];
    h->n.gate_keys = p->gates_apart ? h->rows[GATE_KEYS] : h->rows[K];
}

/* Parts of the problem = those of the definition. */
static void define(problem *p) {
    for (int i = 0; i < PARTS; i++)
        if (i > EMBEDDINGS && i != DOUT) memset(p->parts[i].values, 0, count_of(&p->parts[i]) * sizeof(double));
    for (size_t i = 0; i < count_of(&p->parts[LSE]); i++)
        p->parts[LSE].values[i] = 0;
    for (int64_t s = 0; s < p->batch.sequences; s++)
        for (int64_t head = 0; head < p->args.q.shape[2]; head++) {
            head_rows h;
            open_head(p, s, head, &h);
            naive_contextual_attention(&h.n, h.rows[OUT], h.rows[LSE]);
            const naive_contextual_gradients to = {h.rows[DQ], h.rows[DK], p->gates_apart ? h.rows[DGATE_KEYS] : h.rows[DK],
                                                   h.rows[DV], h.rows[DEMBEDDINGS]};
            naive_contextual_gradient(&h.n, h.rows[DOUT], &to);
            for (int i = 0; i < PARTS; i++) {
                int64_t place[4];
                place_of(p, &h, i, place);
                if (i > EMBEDDINGS && i != DOUT) move_rows(p, (part)i, place, h.rows[i], 1);
                free(h.rows[i]);
            }
        }
}

/* Keys in turn so close to a whole position that float and double may round to either side change a gradient by a little:
 * so the norm counts, not an element. */
static void compare_problem(const limits *l, uint64_t seed, double worst[PARTS]) {
    static const part forward[] = {OUT, LSE};
    test_random random = {seed};
    problem p;
    make_problem(&p, l, &random);
    run_forward(&p.args, NULL);
    for (size_t i = 0; i < count_of(&p.parts[DEMBEDDINGS]); i++)
        put_element(&p.parts[DEMBEDDINGS], i, 0.25); /* added to */
    run_gradient(&p, NULL);
    define(&p);
    for (size_t i = 0; i < count_of(&p.parts[DEMBEDDINGS]); i++)
        p.parts[DEMBEDDINGS].values[i] += 0.25;
    for (int i = OUT; i < PARTS; i++) {
        const int is_forward = i == (int)forward[0] || i == (int)forward[1];
        if (i == DOUT || (i == DGATE_KEYS && !p.gates_apart)) continue;
        const double off = view_error(&p.parts[i]);
        if (!(off <= (is_forward ? 2e-6 : 2e-5))) fail_msg("seed %d: %s is off by %g", (int)seed, part_names[i], off);
        worst[i] = fmax(worst[i], off);
    }
    free_problem(&p);
}

static void print_worst(const double worst[PARTS]) {
    for (int i = OUT; i < PARTS; i++)
        if (i != DOUT) print_message("%s off by %.2g\n", part_names[i], worst[i]);
}

static void agrees_with_the_definition(void **state) {
    const limits small = {9, 12, 20, 9, 1};
    double worst[PARTS] = {0};
    if (!gyre_kernels_tier(*state)) skip();
    setenv("GYRE_CPU", *state, 1);
    for (int i = 0; i < random_cuts(); i++)
        compare_problem(&small, 1 + (uint64_t)i, worst);
    unsetenv("GYRE_CPU");
    print_worst(worst);
}

static void agrees_over_many_tiles(void **state) {
    const limits large = {200, 420, 24, 300, 1}, clamped = {150, 400, 8, 12, 0};
    double worst[PARTS] = {0};
    if (!gyre_kernels_tier(*state)) skip();
    setenv("GYRE_CPU", *state, 1);
    for (int i = 0; i < (random_cuts() > 20 ? 12 : 2); i++) {
        compare_problem(&large, 1000 + (uint64_t)i, worst);
        compare_problem(&clamped, 2000 + (uint64_t)i, worst);
    }
    unsetenv("GYRE_CPU");
    print_worst(worst);
}

/* -- the definition itself -- */

static double loss_of(const naive_contextual *n, const double *dout) {
    double *out = calloc((size_t)(n->queries * n->values), sizeof *out), *lse = calloc((size_t)n->queries, sizeof *lse);
    naive_contextual_attention(n, out, lse);
    const double loss = naive_dot(out, dout, n->queries * n->values);
    free(out);
    free(lse);
    return loss;
}

/* The gradient of the definition is what its loss changes by, for every number. */
static void definition_has_slopes(void **state) {
    enum { M = 5, N = 7, D = 3, E = 4, P = 4 };
    (void)state;
    double x[M * D + 2 * N * D + N * E + P * D], got[sizeof x / sizeof *x] = {0}, dout[M * E];
    test_random random = {77};
    for (size_t i = 0; i < sizeof x / sizeof *x; i++)
        x[i] = 1.5 * test_uniform(&random);
    test_fill_f64(&random, dout, M * E);
    const naive_contextual n = {
        M, N, D, E, P, x, x + M * D, x + M * D + N * D, x + M * D + 2 * N * D, x + M * D + 2 * N * D + N * E, 0.6, 1.3, 0.8};
    const naive_contextual_gradients to = {got, got + M * D, got + M * D + N * D, got + M * D + 2 * N * D,
                                           got + M * D + 2 * N * D + N * E};
    naive_contextual_gradient(&n, dout, &to);
    for (size_t i = 0; i < sizeof x / sizeof *x; i++) {
        const double kept = x[i], step = 1e-6;
        x[i] = kept + step;
        const double above = loss_of(&n, dout);
        x[i] = kept - step;
        const double below = loss_of(&n, dout);
        x[i] = kept;
        test_close(got[i], (above - below) / (2 * step), 1e-8L, "gradient of the definition");
    }
}

/* Keys of zeros have gates of 1/2, so key n of query m stands at (m - n + 1) / 2, up to the last position; with a channel of
 * q that is 1 and the rest 0, scores are entries of the embeddings and their means. */
static void halves_are_counted(void **state) {
    enum { N = 6, D = 2, P = 3 };
    (void)state;
    static const float e[P][D] = {{0.1F, 9}, {0.7F, 9}, {-0.4F, 9}};
    static const double scores[N] = {0.4, 0.7, 0.15, -0.4, -0.4, -0.4}; /* at 1/2, 1, 3/2, 2, 2, 2 */
    float q[N][D], k[N][D] = {{0}}, v[N][N] = {{0}}, out[N][N], lse[N];
    for (int m = 0; m < N; m++) {
        q[m][0] = 1;
        q[m][1] = 0;
        v[m][m] = 1; /* so out is the weights */
    }
    gyre_contextual_args args = GYRE_INIT(gyre_contextual_args);
    args.q = gyre_cdense(q, GYRE_DTYPE_F32, 1, N, 1, D);
    args.k = gyre_cdense(k, GYRE_DTYPE_F32, 1, N, 1, D);
    args.v = gyre_cdense(v, GYRE_DTYPE_F32, 1, N, 1, N);
    args.embeddings = gyre_cdense(e, GYRE_DTYPE_F32, 1, P, 1, D);
    args.out = gyre_dense(out, GYRE_DTYPE_F32, 1, N, 1, N);
    args.lse = gyre_dense(lse, GYRE_DTYPE_F32, 1, N, 1, 1);
    run_forward(&args, NULL);
    for (int m = 0; m < N; m++) {
        double sum = 0;
        for (int n = 0; n <= m; n++)
            sum += exp(scores[n]);
        test_close((double)lse[m], log(sum), 3e-7L, "lse");
        for (int n = 0; n < N; n++)
            test_close((double)out[m][n], n <= m ? exp(scores[m - n]) / sum : 0, 1e-7L, "weight");
    }
}

static void threads_have_the_same_bits(void **state) {
    (void)state;
    const limits l = {180, 200, 16, 40, 1};
    for (int i = 0; i < 4; i++) {
        test_random random = {300 + (uint64_t)i};
        problem p;
        make_problem(&p, &l, &random);
        for (int threads = 1; threads <= 4; threads++) {
            gyre_pool *pool = NULL;
            assert_ok(gyre_pool_create(&pool, threads, NULL));
            const gyre_exec exec = gyre_pool_exec(pool);
            for (size_t c = 0; c < count_of(&p.parts[DEMBEDDINGS]); c++)
                put_element(&p.parts[DEMBEDDINGS], c, 0);
            run_forward(&p.args, &exec);
            run_gradient(&p, &exec);
            gyre_pool_free(pool);
            for (int w = OUT; w < PARTS; w++)
                for (size_t c = 0; c < count_of(&p.parts[w]) && w != DOUT; c++) {
                    const double now = get_element(&p.parts[w], c);
                    if (threads == 1)
                        p.parts[w].values[c] = now;
                    else
                        assert_memory_equal(&now, &p.parts[w].values[c], sizeof now);
                }
        }
        free_problem(&p);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(halves_are_counted), cmocka_unit_test(definition_has_slopes),
                                       FOR_TIERS(agrees_with_the_definition), FOR_TIERS(agrees_over_many_tiles),
                                       cmocka_unit_test(threads_have_the_same_bits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
