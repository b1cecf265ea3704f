/* test_contextual.c: contextual position encoding against its definition in double, gradients against that definition's,
 * which is held to differences. */
#include "contextual_call.h"
#include "naive_contextual.h"
#include "random_cuts.h"
#include "run_each_tier.h"

#include <stdlib.h>

enum { MAX_SEQUENCES = 5 };

/* A call, its memory, and the doubles that its views hold. */
typedef enum part { Q, K, V, GATE_KEYS, EMBEDDINGS, OUT, LSE, DOUT, DQ, DK, DV, DGATE_KEYS, DEMBEDDINGS, PARTS } part;
static const char *const part_names[PARTS] = {"q",    "k",  "v",  "gate keys", "embeddings", "out",        "lse",
                                              "dout", "dq", "dk", "dv",        "dgate keys", "dembeddings"};
typedef struct problem {
    gyre_contextual_args args;
    int64_t sequences, q_starts[MAX_SEQUENCES + 1], k_starts[MAX_SEQUENCES + 1];
    int64_t k_first[MAX_SEQUENCES], k_end[MAX_SEQUENCES];
    int gates_apart;
    gyre_view views[PARTS];
    void *memory[PARTS];
    double *values[PARTS]; /* dense [batch][token][head][channel] */
} problem;

static int64_t draw(test_random *random, int64_t least, int64_t most) {
    return least + (int64_t)(test_next(random) % (uint64_t)(most - least + 1));
}

static size_t count_of(const gyre_view *view) {
    return (size_t)(view->shape[0] * view->shape[1] * view->shape[2] * view->shape[3]);
}

static void *at(const gyre_view *view, size_t i) {
    const int64_t *s = view->shape, c = (int64_t)i % s[3], h = (int64_t)i / s[3] % s[2], t = (int64_t)i / s[3] / s[2] % s[1],
                  b = (int64_t)i / s[3] / s[2] / s[1];
    const int64_t offset = b * view->stride[0] + t * view->stride[1] + h * view->stride[2] + c * view->stride[3];
    return (char *)view->data + offset * (int64_t)gyre_dtype_size(view->dtype);
}

/* A view of new memory in a random order of axes, with room between rows, channels now and then backwards. */
static void make_view(problem *p, part which, gyre_dtype dtype, const int64_t shape[4], test_random *random) {
    gyre_view *view = &p->views[which];
    *view = gyre_dense(NULL, dtype, shape[0], shape[1], shape[2], shape[3]);
    const int order = (int)draw(random, 0, 2), room = (int)draw(random, 0, 3), back = draw(random, 0, 3) == 0;
    const int64_t row = shape[3] + room;
    view->stride[3] = back ? -1 : 1;
    view->stride[2] = order ? row * shape[1] : row;
    view->stride[1] = order ? row : row * shape[2];
    view->stride[0] = row * shape[1] * shape[2];
    const size_t elements = (size_t)(view->stride[0] * shape[0]) + 1;
    p->memory[which] = calloc(elements, gyre_dtype_size(dtype));
    p->values[which] = calloc(count_of(view) + 1, sizeof(double));
    view->data = (char *)p->memory[which] + (back && shape[3] > 0 ? (size_t)(shape[3] - 1) * gyre_dtype_size(dtype) : 0);
}

static void put_values(problem *p, part which) {
    const gyre_view *view = &p->views[which];
    for (size_t i = 0; i < count_of(view); i++) {
        test_put(at(view, i), view->dtype, 0, p->values[which][i]);
        p->values[which][i] = test_get(at(view, i), view->dtype, 0);
    }
}

static void fill(problem *p, part which, double size, test_random *random) {
    for (size_t i = 0; i < count_of(&p->views[which]); i++)
        p->values[which][i] = size * test_uniform(random);
    put_values(p, which);
}

static void free_problem(problem *p) {
    for (int i = 0; i < PARTS; i++) {
        free(p->memory[i]);
        free(p->values[i]);
    }
}

/* -- problems -- */

typedef struct limits {
    int64_t queries, keys, channels, positions;
    int short_types; /* 1: f16 and bf16 too */
} limits;

static void cut_sequences(problem *p, const limits *l, test_random *random) {
    p->sequences = draw(random, 1, 3);
    for (int64_t s = 0; s < p->sequences; s++) {
        const int64_t keys = draw(random, 0, l->keys), queries = draw(random, 0, 4) == 0 ? draw(random, 0, l->queries)
                                                                 : keys < l->queries     ? keys
                                                                                         : draw(random, 1, l->queries);
        p->q_starts[s + 1] = p->q_starts[s] + queries;
        p->k_starts[s + 1] = p->k_starts[s] + keys;
    }
}

static void draw_padding(problem *p, int64_t all, test_random *random) {
    for (int64_t s = 0; s < p->sequences; s++) {
        const int64_t keys = p->args.k_starts ? p->k_starts[s + 1] - p->k_starts[s] : all;
        p->k_first[s] = draw(random, 0, keys);
        p->k_end[s] = draw(random, p->k_first[s], keys);
    }
    if (draw(random, 0, 1)) p->args.k_first = p->k_first;
    if (draw(random, 0, 1)) p->args.k_end = p->k_end;
    for (int64_t s = 0; s < p->sequences && !p->args.k_first; s++)
        p->k_first[s] = 0;
}

static gyre_dtype draw_type(const limits *l, test_random *random) {
    static const gyre_dtype types[] = {GYRE_DTYPE_F32, GYRE_DTYPE_F64, GYRE_DTYPE_F16, GYRE_DTYPE_BF16};
    return types[draw(random, 0, l->short_types ? 3 : 1)];
}

static void make_problem(problem *p, const limits *l, test_random *random) {
    *p = (problem){.args = GYRE_INIT(gyre_contextual_args)};
    const int64_t key_heads = draw(random, 1, 3), heads = key_heads * draw(random, 1, 3), d = draw(random, 1, l->channels);
    const int64_t dv = draw(random, 1, l->channels), positions = draw(random, 1, l->positions);
    int64_t batch = 1, queries = 0, keys = 0;
    cut_sequences(p, l, random);
    if (draw(random, 0, 1)) {
        p->args.q_starts = p->q_starts;
        p->args.k_starts = p->k_starts;
        p->args.sequences = p->sequences;
        queries = p->q_starts[p->sequences];
        keys = p->k_starts[p->sequences];
    } else {
        batch = p->sequences;
        queries = p->q_starts[1];
        keys = p->k_starts[1];
    }
    if (draw(random, 0, 2) == 0) draw_padding(p, keys, random);
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
        make_view(p, (part)i, input ? draw_type(l, random) : wide, shapes[i], random);
        if (input) fill(p, (part)i, i == EMBEDDINGS || i == Q ? 1.5 : 1, random);
    }
    p->args.q = gyre_const(p->views[Q]);
    p->args.k = gyre_const(p->views[K]);
    p->args.v = gyre_const(p->views[V]);
    p->args.embeddings = gyre_const(p->views[EMBEDDINGS]);
    if (p->gates_apart) p->args.gate_keys = gyre_const(p->views[GATE_KEYS]);
    p->args.out = p->views[OUT];
    p->args.lse = p->views[LSE];
}

/* -- calls -- */

static void run_gradient(const problem *p, const gyre_exec *exec) {
    gyre_contextual_gradients to = GYRE_INIT(gyre_contextual_gradients);
    const gyre_cview dout = gyre_const(p->views[DOUT]);
    to.dq = p->views[DQ];
    to.dk = p->views[DK];
    to.dv = p->views[DV];
    if (p->gates_apart) to.dgate_keys = p->views[DGATE_KEYS];
    to.dembeddings = p->views[DEMBEDDINGS];
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
    const int64_t *s = p->views[which].shape;
    const int64_t batch = place[0], from = place[1], count = place[2], head = place[3];
    for (int64_t t = 0; t < count; t++)
        for (int64_t c = 0; c < s[3]; c++) {
            double *whole = &p->values[which][((batch * s[1] + from + t) * s[2] + head) * s[3] + c];
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
    const int64_t all = p->args.k_starts ? p->k_starts[s + 1] - p->k_starts[s] : p->args.k.shape[1];
    const int64_t first = p->args.k_first ? p->k_first[s] : 0, end = p->args.k_end ? p->k_end[s] : all;
    const double usual = 1 / sqrt((double)p->args.q.shape[3]);
    *h = (head_rows){.batch = p->args.q_starts ? 0 : s, .head = head};
    h->query = p->args.q_starts ? p->q_starts[s] : 0;
    h->key = (p->args.q_starts ? p->k_starts[s] : 0) + first;
    h->n = (naive_contextual){.queries = p->args.q_starts ? p->q_starts[s + 1] - p->q_starts[s] : p->args.q.shape[1],
                              .keys = end - first,
                              .channels = p->args.q.shape[3],
                              .values = p->args.v.shape[3],
                              .positions = p->args.embeddings.shape[1],
                              .scale = p->args.scale != 0 ? p->args.scale : usual,
                              .gate_scale = p->args.gate_scale != 0 ? p->args.gate_scale : usual,
                              .position_scale = p->args.position_scale != 0 ? p->args.position_scale : 1};
    for (int i = 0; i < PARTS; i++) {
        int64_t place[4];
        place_of(p, h, i, place);
        h->rows[i] = calloc((size_t)(place[2] * p->views[i].shape[3]) + 1, sizeof(double));
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
        if (i > EMBEDDINGS && i != DOUT) memset(p->values[i], 0, count_of(&p->views[i]) * sizeof(double));
    for (size_t i = 0; i < count_of(&p->views[LSE]); i++)
        p->values[LSE][i] = 0;
    for (int64_t s = 0; s < p->sequences; s++)
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

/* out = norm of what a part is off, relative to its norm (at least 1). */
static double error_of(problem *p, part which) {
    const gyre_view *view = &p->views[which];
    double off = 0, norm = 0;
    for (size_t i = 0; i < count_of(view); i++) {
        const double want = p->values[which][i], got = test_get(at(view, i), view->dtype, 0);
        if (want == got) continue; /* infinities */
        off += (got - want) * (got - want);
        norm += want * want;
    }
    return sqrt(off) / fmax(sqrt(norm), 1);
}

/* Keys in turn so close to a whole position that float and double may round to either side change a gradient by a little:
 * so the norm counts, not an element. */
static void compare_problem(const limits *l, uint64_t seed, double worst[PARTS]) {
    static const part forward[] = {OUT, LSE};
    test_random random = {seed};
    problem p;
    make_problem(&p, l, &random);
    run_forward(&p.args, NULL);
    for (size_t i = 0; i < count_of(&p.views[DEMBEDDINGS]); i++)
        test_put(at(&p.views[DEMBEDDINGS], i), p.views[DEMBEDDINGS].dtype, 0, 0.25); /* added to */
    run_gradient(&p, NULL);
    define(&p);
    for (size_t i = 0; i < count_of(&p.views[DEMBEDDINGS]); i++)
        p.values[DEMBEDDINGS][i] += 0.25;
    for (int i = OUT; i < PARTS; i++) {
        const int is_forward = i == (int)forward[0] || i == (int)forward[1];
        if (i == DOUT || (i == DGATE_KEYS && !p.gates_apart)) continue;
        const double off = error_of(&p, (part)i);
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
            for (size_t c = 0; c < count_of(&p.views[DEMBEDDINGS]); c++)
                test_put(at(&p.views[DEMBEDDINGS], c), p.views[DEMBEDDINGS].dtype, 0, 0);
            run_forward(&p.args, &exec);
            run_gradient(&p, &exec);
            gyre_pool_free(pool);
            for (int w = OUT; w < PARTS; w++)
                for (size_t c = 0; c < count_of(&p.views[w]) && w != DOUT; c++) {
                    const double now = test_get(at(&p.views[w], c), p.views[w].dtype, 0);
                    if (threads == 1)
                        p.values[w][c] = now;
                    else
                        assert_memory_equal(&now, &p.values[w][c], sizeof now);
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
