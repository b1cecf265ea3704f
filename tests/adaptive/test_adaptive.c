/* test_adaptive.c: data-adaptive position encoding against its definition in double, gradients against that definition's,
 * which is held to differences. */
#include "adaptive_call.h"
#include "naive_adaptive.h"
#include "naive_schemes.h"
#include "random_cuts.h"
#include "random_views.h"
#include "run_each_tier.h"
#include "util/fnv1a.h"

/* A call, and its memory. */
typedef enum part {
    Q,
    K,
    V,
    HIDDEN_WEIGHTS,
    HIDDEN_BIAS,
    OUTPUT_WEIGHTS,
    OUTPUT_BIAS,
    TABLE,
    BIAS,
    DOUT,
    OUT,
    LSE,
    DQ,
    DK,
    DV,
    DHIDDEN_WEIGHTS,
    DHIDDEN_BIAS,
    DOUTPUT_WEIGHTS,
    DOUTPUT_BIAS,
    DTABLE,
    DBIAS,
    PARTS
} part;
static const char *const part_names[PARTS] = {"q",
                                              "k",
                                              "v",
                                              "hidden weights",
                                              "hidden bias",
                                              "output weights",
                                              "output bias",
                                              "table",
                                              "bias",
                                              "dout",
                                              "out",
                                              "lse",
                                              "dq",
                                              "dk",
                                              "dv",
                                              "dhidden weights",
                                              "dhidden bias",
                                              "doutput weights",
                                              "doutput bias",
                                              "dtable",
                                              "dbias"};

typedef struct problem {
    gyre_adaptive_args args;
    gyre_adaptive_gradients to;
    random_batch batch;
    random_view parts[PARTS];
    gyre_encoding *encoding;
    gyre_tables tables;
    int scheme; /* SCHEME_none: no scheme */
    scheme_context of;
    int64_t table_rows;
    gyre_positions q_pos, k_pos;
    int64_t *q_positions, *k_positions; /* [batch][token]; NULL = counted */
    int has_bias, has_biases[2];        /* a bias of the caller; those of the network's layers */
    double most_bias;                   /* the largest |bias| of a pair, the scheme's and the caller's together */
} problem;

static void free_problem(problem *p) {
    for (int i = 0; i < PARTS; i++)
        free_view(&p->parts[i]);
    gyre_encoding_free(p->encoding);
    free(p->q_positions);
    free(p->k_positions);
}

/* -- problems -- */

typedef struct limits {
    int64_t queries, keys, channels, width;
    int short_types; /* 1: f16 and bf16 too */
} limits;

/* Positions with gaps, which rise with the token.  out = [batch][tokens]. */
static int64_t *make_positions(gyre_positions *positions, int64_t batch, int64_t tokens, test_random *random) {
    int64_t *out = calloc((size_t)(batch * tokens) + 1, sizeof *out);
    for (int64_t i = 0; i < batch * tokens; i++)
        out[i] = (i % tokens ? out[i - 1] : draw(random, 0, 5)) + draw(random, 1, 3);
    *positions = (gyre_positions){.data = out, .dtype = GYRE_DTYPE_I64, .stride_batch = tokens, .stride_token = 1};
    return out;
}

/* Of the candidates, the one whose name and draw have the largest hash: a new scheme takes problems from the others and
 * leaves the rest as they are. */
static uint64_t weight_of(const char *name, uint64_t drawn) {
    test_random random = {gyre_fnv1a(drawn, name, strlen(name))};
    return test_next(&random);
}

static void choose_scheme(problem *p, int64_t heads, test_random *random) {
    int64_t shape[4];
    const uint64_t drawn = test_next(random);
    uint64_t most = weight_of("none", drawn);
    p->scheme = SCHEME_none;
    for (int i = 0, scheme; (scheme = test_scheme_with(SCHEME_NUMBERS, i)) < SCHEMES; i++) {
        const uint64_t weight = weight_of(test_schemes[scheme].name, drawn);
        if (weight > most) most = weight, p->scheme = scheme;
    }
    p->has_bias = draw(random, 0, 2) == 0;
    if (p->scheme == SCHEME_none) return;
    const gyre_config config = test_scheme_config(p->scheme, heads, 16, 64);
    p->encoding = test_encoding(&config);
    assert_ok(gyre_encoding_table_shape(p->encoding, GYRE_TABLE_BIAS, shape));
    p->table_rows = shape[2];
    p->of = scheme_context_of(p->encoding);
    p->args.encoding = p->encoding;
    p->args.tables = &p->tables;
    if (draw(random, 0, 2) != 0) return;
    p->q_positions = make_positions(&p->q_pos, p->batch.rows, p->batch.queries, random);
    p->k_positions = make_positions(&p->k_pos, p->batch.rows, p->batch.keys, random);
    p->args.q_pos = &p->q_pos;
    p->args.k_pos = &p->k_pos;
}

static int64_t longest(const random_batch *b) {
    int64_t most = b->packed ? 0 : b->keys;
    for (int64_t s = 0; s < b->sequences && b->packed; s++)
        most = b->k_starts[s + 1] - b->k_starts[s] > most ? b->k_starts[s + 1] - b->k_starts[s] : most;
    return most;
}

static void fill_table(problem *p, test_random *random) {
    random_view *t = &p->parts[TABLE];
    fill_view(t, 1, random);
    for (size_t i = 0; i < count_of(t); i++) {
        const int64_t row = (int64_t)i / t->view.shape[3];
        put_element(t, i, scheme_entry(test_schemes[p->scheme].oracle, GYRE_TABLE_BIAS, row, t->values[i], 60));
        t->values[i] = get_element(t, i);
    }
    if (p->encoding) scheme_context_table(&p->of, p->encoding, GYRE_TABLE_BIAS, t->values);
}

static int is_input(int which) {
    return which <= DOUT;
}

static int is_wanted(const problem *p, int which) {
    const int trained = p->table_rows > 0;
    return which == TABLE || which == DTABLE               ? trained
           : which == BIAS || which == DBIAS               ? p->has_bias
           : which == HIDDEN_BIAS || which == DHIDDEN_BIAS ? p->has_biases[0]
           : which == OUTPUT_BIAS || which == DOUTPUT_BIAS ? p->has_biases[1]
                                                           : 1;
}

static int is_added_to(int which) {
    return which >= DHIDDEN_WEIGHTS && which <= DTABLE;
}

static void describe_call(problem *p) {
    gyre_adaptive_args *args = &p->args;
    gyre_cview *const inputs[] = {&args->q,
                                  &args->k,
                                  &args->v,
                                  &args->network.hidden_weights,
                                  &args->network.hidden_bias,
                                  &args->network.output_weights,
                                  &args->network.output_bias,
                                  &p->tables.bias,
                                  &args->bias};
    gyre_view *const results[] = {&args->out,          &args->lse,
                                  &p->to.dq,           &p->to.dk,
                                  &p->to.dv,           &p->to.dhidden_weights,
                                  &p->to.dhidden_bias, &p->to.doutput_weights,
                                  &p->to.doutput_bias, &p->to.dtable,
                                  &p->to.dbias};
    for (int i = Q; i <= BIAS; i++)
        if (is_wanted(p, i)) *inputs[i] = gyre_const(p->parts[i].view);
    for (int i = OUT; i < PARTS; i++)
        if (is_wanted(p, i)) *results[i - OUT] = p->parts[i].view;
}

static void make_problem(problem *p, const limits *l, test_random *random) {
    *p = (problem){.args = GYRE_INIT(gyre_adaptive_args), .to = GYRE_INIT(gyre_adaptive_gradients)};
    const int64_t key_heads = draw(random, 1, 3), heads = key_heads * draw(random, 1, 3), d = draw(random, 1, l->channels);
    const int64_t dv = draw(random, 1, l->channels), width = draw(random, 1, l->width);
    draw_batch(&p->batch, l->queries, l->keys, random);
    SET_BATCH(&p->args, &p->batch);
    const int64_t batch = p->batch.rows, queries = p->batch.queries, keys = p->batch.keys;
    choose_scheme(p, heads, random);
    p->args.form = (gyre_adaptive_form)draw(random, 0, 2);
    p->args.two_sided = draw(random, 0, 2) == 0;
    for (int i = 0; i < 2; i++)
        p->has_biases[i] = draw(random, 0, 2) != 0;
    if (draw(random, 0, 1)) p->args.scale = 0.3;
    if (draw(random, 0, 1)) p->args.slope = draw(random, 0, 1) ? 0.2 : -0.3;
    const int64_t inputs = p->args.form == GYRE_ADAPTIVE_FORM_ADD_RESIDUAL ? heads : 2 * heads;
    const int64_t q_shape[4] = {batch, queries, heads, d}, k_shape[4] = {batch, keys, key_heads, d},
                  v_shape[4] = {batch, keys, key_heads, dv}, w1[4] = {1, 1, width, inputs}, b1[4] = {1, 1, 1, width},
                  w2[4] = {1, 1, heads, width}, b2[4] = {1, 1, 1, heads}, table[4] = {1, 1, p->table_rows, heads},
                  bias[4] = {batch, queries, heads, longest(&p->batch)}, out[4] = {batch, queries, heads, dv},
                  lse[4] = {batch, queries, heads, 1};
    const int64_t *const shapes[PARTS] = {q_shape, k_shape, v_shape, w1,      b1, w2, b2, table, bias,  out, out,
                                          lse,     q_shape, k_shape, v_shape, w1, b1, w2, b2,    table, bias};
    for (int i = 0; i < PARTS; i++) {
        const gyre_dtype wide = draw(random, 0, 1) ? GYRE_DTYPE_F32 : GYRE_DTYPE_F64;
        make_view(&p->parts[i], is_input(i) && i != TABLE ? draw_type(l->short_types, random) : wide, shapes[i], random);
        if (i == TABLE)
            fill_table(p, random);
        else if (is_input(i))
            fill_view(&p->parts[i], i == Q ? 1.5 : i == HIDDEN_WEIGHTS || i == OUTPUT_WEIGHTS ? 0.5 : 1, random);
    }
    describe_call(p);
}

/* -- the definition of a whole call -- */

/* One sequence, dense. */
typedef struct sequence_numbers {
    naive_adaptive n;
    batch_place place;
    int64_t index;
    double *rows[PARTS]; /* of sequences: Q, K, V, BIAS, DOUT, OUT, LSE, DQ, DK, DV, DBIAS */
} sequence_numbers;

static void positions_of(const problem *p, const sequence_numbers *s, int64_t i, int64_t j, int64_t *m, int64_t *n) {
    *m = s->place.keys - s->place.queries + i;
    *n = j;
    if (!p->q_positions) return;
    *m = p->q_positions[s->place.row * p->batch.queries + s->place.query + i];
    *n = p->k_positions[s->place.row * p->batch.keys + s->place.key + j];
}

/* The bias of a scheme, with entry `moved` of the head's column changed by `by`. */
static double scheme_bias(problem *p, int64_t head, int64_t m, int64_t n, int64_t moved, double by) {
    if (p->scheme == SCHEME_none) return 0;
    const double none[16] = {0};
    double *entry = moved < 0 ? NULL : &p->parts[TABLE].values[moved * p->args.q.shape[2] + head];
    const double kept = entry ? *entry : 0;
    if (entry) *entry = kept + by;
    const double bias = scheme_terms_of(&p->of, &(scheme_pair){head, m, n, none, none}, NULL).bias;
    if (entry) *entry = kept;
    return bias;
}

/* Numbers of a sequence between values of a part and dense rows [token][width]; back 1: added to the values. */
static void move_tokens(problem *p, part which, int64_t row, int64_t from, int64_t tokens, double *rows, int back) {
    const int64_t *shape = p->parts[which].view.shape, width = shape[2] * shape[3];
    double *values = p->parts[which].values + (row * shape[1] + from) * width;
    for (int64_t i = 0; i < tokens * width; i++)
        if (back)
            values[i] += rows[i];
        else
            rows[i] = values[i];
}

/* The place in values of the caller's bias of query i, head h and key j of a sequence. */
static int64_t bias_index(const problem *p, const sequence_numbers *s, int64_t i, int64_t h, int64_t j) {
    const int64_t *shape = p->parts[BIAS].view.shape;
    return ((s->place.row * shape[1] + s->place.query + i) * shape[2] + h) * shape[3] + s->place.padding + j;
}

static void open_sequence(problem *p, int64_t index, sequence_numbers *s) {
    const int64_t heads = p->args.q.shape[2], key_heads = p->args.k.shape[2], d = p->args.q.shape[3], e = p->args.v.shape[3];
    *s = (sequence_numbers){.place = place_in_batch(&p->batch, index), .index = index};
    const batch_place *at = &s->place;
    for (int i = 0; i < PARTS; i++) {
        const int64_t most = heads * (d > e ? d : e) + heads * at->keys;
        s->rows[i] = calloc((size_t)((at->queries + at->keys) * most) + 1, sizeof(double));
    }
    move_tokens(p, Q, at->row, at->query, at->queries, s->rows[Q], 0);
    move_tokens(p, DOUT, at->row, at->query, at->queries, s->rows[DOUT], 0);
    move_tokens(p, K, at->row, at->key, at->keys, s->rows[K], 0);
    move_tokens(p, V, at->row, at->key, at->keys, s->rows[V], 0);
    for (int64_t i = 0; i < at->queries * heads * at->keys; i++) {
        const int64_t j = i % at->keys, h = i / at->keys % heads, row = i / at->keys / heads;
        int64_t m, n;
        positions_of(p, s, row, j, &m, &n);
        s->rows[BIAS][i] = scheme_bias(p, h, m, n, -1, 0);
        if (p->has_bias) s->rows[BIAS][i] += p->parts[BIAS].values[bias_index(p, s, row, h, j)];
        p->most_bias = fmax(p->most_bias, fabs(s->rows[BIAS][i]));
    }
    for (int i = HIDDEN_BIAS; i <= OUTPUT_BIAS; i += OUTPUT_BIAS - HIDDEN_BIAS)
        for (size_t c = 0; c < count_of(&p->parts[i]) && !is_wanted(p, i); c++)
            p->parts[i].values[c] = 0;
    s->n = (naive_adaptive){.queries = at->queries,
                            .keys = at->keys,
                            .heads = heads,
                            .key_heads = key_heads,
                            .channels = d,
                            .values = e,
                            .width = p->parts[HIDDEN_WEIGHTS].view.shape[2],
                            .form = (naive_form)p->args.form,
                            .two_sided = p->args.two_sided,
                            .q = s->rows[Q],
                            .k = s->rows[K],
                            .v = s->rows[V],
                            .bias = s->rows[BIAS],
                            .w1 = p->parts[HIDDEN_WEIGHTS].values,
                            .b1 = p->parts[HIDDEN_BIAS].values,
                            .w2 = p->parts[OUTPUT_WEIGHTS].values,
                            .b2 = p->parts[OUTPUT_BIAS].values,
                            .scale = p->args.scale != 0 ? p->args.scale : 1 / sqrt((double)d),
                            .slope = p->args.slope != 0 ? p->args.slope : 0.01};
}

/* dtable += dbias times what the bias changes by with each entry. */
static void define_table(problem *p, const sequence_numbers *s) {
    const double step = p->of.oracle && p->of.oracle->traits & SCHEME_KINKS ? 1e-9 : 1e-6;
    const int64_t heads = s->n.heads, keys = s->n.keys;
    for (int64_t i = 0; i < s->n.queries * heads * keys && is_wanted(p, TABLE); i++) {
        const double dbias = s->rows[DBIAS][i];
        const int64_t h = i / keys % heads;
        int64_t m, n;
        if (dbias == 0) continue;
        positions_of(p, s, i / keys / heads, i % keys, &m, &n);
        for (int64_t r = 0; r < p->table_rows; r++)
            p->parts[DTABLE].values[r * heads + h] +=
                dbias * (scheme_bias(p, h, m, n, r, step) - scheme_bias(p, h, m, n, r, -step)) / (2 * step);
    }
}

/* Results of the problem = those of the definition. */
static void define(problem *p) {
    for (int i = OUT; i < PARTS; i++)
        for (size_t c = 0; c < count_of(&p->parts[i]); c++)
            p->parts[i].values[c] = is_added_to(i) ? 0.25 : 0;
    for (int64_t index = 0; index < p->batch.sequences; index++) {
        sequence_numbers s;
        open_sequence(p, index, &s);
        naive_adaptive_attention(&s.n, s.rows[OUT], s.rows[LSE]);
        const naive_adaptive_gradients to = {s.rows[DQ],
                                             s.rows[DK],
                                             s.rows[DV],
                                             s.rows[DBIAS],
                                             p->parts[DHIDDEN_WEIGHTS].values,
                                             p->parts[DHIDDEN_BIAS].values,
                                             p->parts[DOUTPUT_WEIGHTS].values,
                                             p->parts[DOUTPUT_BIAS].values};
        naive_adaptive_gradient(&s.n, s.rows[DOUT], &to);
        static const part of_queries[] = {OUT, LSE, DQ}, of_keys[] = {DK, DV};
        for (int i = 0; i < 3; i++)
            move_tokens(p, of_queries[i], s.place.row, s.place.query, s.place.queries, s.rows[of_queries[i]], 1);
        for (int i = 0; i < 2; i++)
            move_tokens(p, of_keys[i], s.place.row, s.place.key, s.place.keys, s.rows[of_keys[i]], 1);
        for (int64_t i = 0; i < s.n.queries * s.n.heads * s.n.keys && p->has_bias; i++)
            p->parts[DBIAS].values[bias_index(p, &s, i / s.n.keys / s.n.heads, i / s.n.keys % s.n.heads, i % s.n.keys)] =
                s.rows[DBIAS][i];
        define_table(p, &s);
        for (int i = 0; i < PARTS; i++)
            free(s.rows[i]);
    }
}

/* -- against it -- */

static void begin_sums(const problem *p, double value) {
    for (int i = DHIDDEN_WEIGHTS; i <= DTABLE; i++)
        for (size_t c = 0; c < count_of(&p->parts[i]); c++)
            put_element(&p->parts[i], c, value);
}

static void run_gradient(const problem *p, const gyre_exec *exec) {
    const gyre_cview dout = gyre_const(p->parts[DOUT].view);
    run_backward(&p->args, &dout, &p->to, exec);
}

/* out = the most queries of a sequence. */
static int64_t compare_problem(const limits *l, uint64_t seed, double worst[PARTS]) {
    test_random random = {seed};
    problem p;
    int64_t most = 0;
    make_problem(&p, l, &random);
    for (int64_t s = 0; s < p.batch.sequences; s++)
        most = place_in_batch(&p.batch, s).queries > most ? place_in_batch(&p.batch, s).queries : most;
    run_forward(&p.args, NULL);
    begin_sums(&p, 0.25); /* added to */
    run_gradient(&p, NULL);
    define(&p);
    for (int i = OUT; i < PARTS; i++) {
        if (!is_wanted(&p, i)) continue;
        const double off = view_error(&p.parts[i]);
        /* A float is rounded by a share of its size, and an error of a score is that of a weight. */
        if (!(off <= (i <= LSE ? 3e-6 : 3e-5) * fmax(1, p.most_bias / 64)))
            fail_msg("seed %d, %s: %s is off by %g", (int)seed, test_schemes[p.scheme].name, part_names[i], off);
        worst[i] = fmax(worst[i], off);
    }
    free_problem(&p);
    return most;
}

static void print_worst(const double worst[PARTS]) {
    for (int i = OUT; i < PARTS; i++)
        print_message("%s off by %.2g\n", part_names[i], worst[i]);
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
    const limits large = {300, 420, 24, 40, 1};
    double worst[PARTS] = {0};
    if (!gyre_kernels_tier(*state)) skip();
    setenv("GYRE_CPU", *state, 1);
    for (int i = 0; i < (random_cuts() > 20 ? 10 : 2); i++)
        compare_problem(&large, 1000 + (uint64_t)i, worst);
    unsetenv("GYRE_CPU");
    print_worst(worst);
}

/* Sequences whose gradient is summed from several tasks. */
static void agrees_over_several_tasks(void **state) {
    const limits long_ones = {600, 600, 4, 3, 0};
    double worst[PARTS] = {0};
    int64_t most = 0;
    (void)state;
    for (uint64_t seed = 2000; most <= 512; seed++) {
        const int64_t queries = compare_problem(&long_ones, seed, worst);
        most = queries > most ? queries : most;
    }
    print_worst(worst);
}

/* -- the definition itself -- */

static double loss_of(const naive_adaptive *n, const double *dout) {
    const int64_t rows = n->queries * n->heads;
    double *out = calloc((size_t)(rows * n->values), sizeof *out), *lse = calloc((size_t)rows, sizeof *lse), loss = 0;
    naive_adaptive_attention(n, out, lse);
    for (int64_t i = 0; i < rows * n->values; i++)
        loss += out[i] * dout[i];
    free(out);
    free(lse);
    return loss;
}

/* The gradient of the definition is what its loss changes by, for every number and in every form. */
static void definition_has_slopes(void **state) {
    enum { M = 4, N = 6, H = 4, KH = 2, D = 3, E = 2, W = 5 };
    enum { SIZES = 8 };
    static const int sizes[SIZES] = {M * H * D, N * KH * D, N * KH * E, M * H * N, W * 2 * H, W, H * W, H};
    (void)state;
    for (int form = 0; form < 3; form++) {
        double x[M * H * D + N * KH * (D + E) + M * H * N + W * 3 * H + W + H], got[sizeof x / sizeof *x] = {0};
        double dout[M * H * E], *own[SIZES], *grad[SIZES];
        test_random random = {77 + (uint64_t)form};
        for (int i = 0, at = 0; i < SIZES; at += sizes[i++])
            own[i] = x + at, grad[i] = got + at;
        test_fill_f64(&random, x, sizeof x / sizeof *x);
        test_fill_f64(&random, dout, M * H * E);
        naive_adaptive n = {.queries = M, .keys = N, .heads = H, .key_heads = KH, .channels = D, .values = E, .width = W};
        n.form = (naive_form)form;
        n.two_sided = form == 1;
        n.q = own[0], n.k = own[1], n.v = own[2], n.bias = own[3];
        n.w1 = own[4], n.b1 = own[5], n.w2 = own[6], n.b2 = own[7];
        n.scale = 0.6;
        n.slope = 0.1;
        const naive_adaptive_gradients to = {grad[0], grad[1], grad[2], grad[3], grad[4], grad[5], grad[6], grad[7]};
        naive_adaptive_gradient(&n, dout, &to);
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
}

/* A network that gives head 0 the product of head 1, and head 1 a tenth of -0.01 times its bias: by hand. */
static void heads_see_each_other(void **state) {
    enum { N = 3 };
    (void)state;
    static const float w1[2][4] = {{0, 1, 0, 0}, {0, 0, 0, 1}}, w2[2][2] = {{1, 0}, {0, 0.1F}};
    static const double bias[N] = {-0.5, -0.25, -2}; /* of head 1 and key n; those of head 0 are 0 */
    float q[N][2][1], k[N][2][1], v[N][2][N] = {{{0}}}, b[2][N] = {{0}}, out[N][2][N], lse[N][2];
    for (int n = 0; n < N; n++) {
        b[1][n] = (float)bias[n];
        for (int h = 0; h < 2; h++) {
            q[n][h][0] = 1;
            k[n][h][0] = (float)(1 + n + 4 * h); /* products 1, 2, 3 and 5, 6, 7 */
            v[n][h][n] = 1;                      /* so out is the weights */
        }
    }
    gyre_adaptive_args args = GYRE_INIT(gyre_adaptive_args);
    args.q = gyre_cdense(q, GYRE_DTYPE_F32, 1, N, 2, 1);
    args.k = gyre_cdense(k, GYRE_DTYPE_F32, 1, N, 2, 1);
    args.v = gyre_cdense(v, GYRE_DTYPE_F32, 1, N, 2, N);
    args.network.hidden_weights = gyre_cdense(w1, GYRE_DTYPE_F32, 1, 1, 2, 4);
    args.network.output_weights = gyre_cdense(w2, GYRE_DTYPE_F32, 1, 1, 2, 2);
    args.bias = gyre_cdense(b, GYRE_DTYPE_F32, 1, 1, 2, N);
    args.bias.shape[1] = N; /* all queries share them */
    args.bias.stride[1] = 0;
    args.out = gyre_dense(out, GYRE_DTYPE_F32, 1, N, 2, N);
    args.lse = gyre_dense(lse, GYRE_DTYPE_F32, 1, N, 2, 1);
    run_forward(&args, NULL);
    for (int m = 0; m < N; m++)
        for (int h = 0; h < 2; h++) {
            double score[N], sum = 0;
            for (int n = 0; n <= m; n++) {
                score[n] = h == 0 ? (1 + n) + (5 + n) : (5 + n) + bias[n] + 0.1 * 0.01 * bias[n];
                sum += exp(score[n]);
            }
            test_close((double)lse[m][h], log(sum), 2e-6L, "lse");
            for (int n = 0; n < N; n++)
                test_close((double)out[m][h][n], n <= m ? exp(score[n]) / sum : 0, 3e-7L, "weight");
        }
}

static void threads_have_the_same_bits(void **state) {
    (void)state;
    const limits l = {600, 620, 16, 12, 1};
    for (int i = 0; i < 4; i++) {
        test_random random = {300 + (uint64_t)i};
        problem p;
        make_problem(&p, &l, &random);
        for (int threads = 1; threads <= 4; threads++) {
            gyre_pool *pool = NULL;
            assert_ok(gyre_pool_create(&pool, threads, NULL));
            const gyre_exec exec = gyre_pool_exec(pool);
            begin_sums(&p, 0);
            run_forward(&p.args, &exec);
            run_gradient(&p, &exec);
            gyre_pool_free(pool);
            for (int w = OUT; w < PARTS; w++)
                for (size_t c = 0; c < count_of(&p.parts[w]); c++) {
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
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads_see_each_other),      cmocka_unit_test(definition_has_slopes),
        FOR_TIERS(agrees_with_the_definition),       FOR_TIERS(agrees_over_many_tiles),
        cmocka_unit_test(agrees_over_several_tasks), cmocka_unit_test(threads_have_the_same_bits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
