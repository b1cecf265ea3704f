/* fuzz_contextual.c: legal calls of gyre_contextual_attention and its gradient, chosen by the bytes, against their
 * definitions in double (tests/support/naive_contextual.h).  Two threads and one have the same bits, arrays and a cache too,
 * and a refused call writes nothing. */
#include "fuzz_cached.h"
#include "fuzz_support.h"
#include "fuzz_views.h"
#include "gyre/gyre_contextual.h"
#include "naive_contextual.h"
#include "scratch_bytes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_KEYS = 300, MOST_CHANNELS = 40, MOST_POSITIONS = 64, MOST_SEQUENCES = 4 };
typedef enum part { Q, K, V, GATE_KEYS, EMBEDDINGS, DOUT, OUT, LSE, DQ, DK, DV, DGATE_KEYS, DEMBEDDINGS, PARTS } part;
enum { INPUTS = OUT };

typedef struct call {
    gyre_contextual_args args;
    int64_t sequences, q_starts[MOST_SEQUENCES + 1], k_starts[MOST_SEQUENCES + 1];
    int64_t k_first[MOST_SEQUENCES], k_end[MOST_SEQUENCES];
    int gates_apart;
    fuzz_view part[PARTS];
    double *want[PARTS]; /* of outputs: dense, as the views are shaped */
    double largest;      /* of gates' arguments and scores, in magnitude */
    int is_near_corner;  /* 1: a position so close to a whole number that float and double may lie on either side */
} call;

static const double START = 0.25; /* gradients to embeddings are added to it */

/* -- choosing -- */
static void choose_sequences(call *c, fuzz_bytes *in) {
    static const int64_t most[] = {9, 9, 40, 150, MOST_KEYS};
    const int64_t most_keys = most[fuzz_choice(in, 5)];
    c->sequences = 1 + fuzz_choice(in, MOST_SEQUENCES - 1);
    for (int64_t s = 0; s < c->sequences; s++) {
        const int64_t keys = fuzz_between(in, 0, most_keys / c->sequences), long_one = fuzz_choice(in, 4) == 1;
        const int64_t queries = fuzz_choice(in, 2) && keys < 60 ? keys : fuzz_between(in, 0, long_one ? 80 : 9);
        c->q_starts[s + 1] = c->q_starts[s] + queries;
        c->k_starts[s + 1] = c->k_starts[s] + keys;
    }
}

static void choose_padding(call *c, fuzz_bytes *in) {
    const int first = fuzz_choice(in, 3) == 1, end = fuzz_choice(in, 3) == 1;
    for (int64_t s = 0; s < c->sequences; s++) {
        const int64_t row = c->args.k_starts ? s : 0, keys = c->k_starts[row + 1] - c->k_starts[row];
        c->k_end[s] = end ? fuzz_between(in, 0, keys) : keys;
        c->k_first[s] = first ? fuzz_between(in, 0, c->k_end[s]) : 0;
    }
    if (first) c->args.k_first = c->k_first;
    if (end) c->args.k_end = c->k_end;
}

static gyre_dtype any_dtype(fuzz_bytes *in) {
    return fuzz_choice(in, 4) == 1 ? GYRE_DTYPE_F64 : fuzz_dtype(in);
}

static void make_part(call *c, fuzz_bytes *in, part which, gyre_dtype dtype, const int64_t shape[4]) {
    c->part[which] = fuzz_view_make(in, dtype, shape[0], shape[1], shape[2], shape[3]);
    if (which >= INPUTS) c->want[which] = fuzz_room((size_t)(shape[0] * shape[1] * shape[2] * shape[3]), sizeof(double));
}

static void make_parts(call *c, fuzz_bytes *in, test_random *random) {
    const int64_t g = 1 + fuzz_choice(in, 2), h = g * (1 + fuzz_choice(in, 3)), d = 1 + fuzz_choice(in, MOST_CHANNELS);
    const int64_t e = fuzz_choice(in, 2) ? d : 1 + fuzz_choice(in, MOST_CHANNELS), packed = c->args.q_starts != NULL;
    const int64_t b = packed ? 1 : c->sequences, q = c->q_starts[packed ? c->sequences : 1],
                  k = c->k_starts[packed ? c->sequences : 1];
    const int64_t positions = 1 + fuzz_choice(in, MOST_POSITIONS), shares = fuzz_choice(in, 2);
    const int64_t qs[4] = {b, q, h, d}, ks[4] = {b, k, g, d}, vs[4] = {b, k, g, e}, outs[4] = {b, q, h, e},
                  lses[4] = {b, q, h, 1}, es[4] = {1, positions, shares ? 1 : h, d};
    const int64_t *const shapes[PARTS] = {qs, ks, vs, ks, es, outs, outs, lses, qs, ks, vs, ks, es};
    const double amplitude = fuzz_choice(in, 4) == 1 ? fuzz_choice(in, 6) : 1;
    for (part i = Q; i < PARTS; i++) {
        const int wide = i == LSE || i == DEMBEDDINGS; /* F32 or F64 */
        make_part(c, in, i, wide ? (fuzz_choice(in, 2) ? GYRE_DTYPE_F64 : GYRE_DTYPE_F32) : any_dtype(in), shapes[i]);
        if (i < INPUTS) fuzz_view_fill(&c->part[i], random, i == Q || i == EMBEDDINGS ? amplitude : 1);
    }
    const fuzz_view *sums = &c->part[DEMBEDDINGS];
    for (size_t i = 0; i < sums->bytes / gyre_dtype_size(sums->view.dtype); i++)
        test_put(sums->view.data, sums->view.dtype, i, START);
}

static void make_call(call *c, const uint8_t *data, size_t size) {
    static const double scales[] = {0, 0, 1, -0.4, 0.3};
    fuzz_bytes in = {data, size};
    test_random random = {1 + fuzz_byte(&in)};
    gyre_contextual_args *a = &c->args;
    memset(c, 0, sizeof *c);
    *a = (gyre_contextual_args)GYRE_INIT(gyre_contextual_args);
    choose_sequences(c, &in);
    if (fuzz_choice(&in, 2)) {
        a->q_starts = c->q_starts;
        a->k_starts = c->k_starts;
        a->sequences = c->sequences;
    }
    choose_padding(c, &in);
    c->gates_apart = fuzz_choice(&in, 3) == 1;
    a->scale = scales[fuzz_choice(&in, 5)];
    a->gate_scale = scales[fuzz_choice(&in, 5)];
    a->position_scale = scales[fuzz_choice(&in, 5)];
    make_parts(c, &in, &random);
    a->q = gyre_const(c->part[Q].view);
    a->k = gyre_const(c->part[K].view);
    a->v = gyre_const(c->part[V].view);
    if (c->gates_apart) a->gate_keys = gyre_const(c->part[GATE_KEYS].view);
    a->embeddings = gyre_const(c->part[EMBEDDINGS].view);
    a->out = c->part[OUT].view;
    a->lse = c->part[LSE].view;
}

static void free_call(call *c) {
    for (int i = 0; i < PARTS; i++) {
        fuzz_view_free(&c->part[i]);
        free(c->want[i]);
    }
}

/* -- the definition -- */
/* One head of one sequence, as dense rows. */
typedef struct head_rows {
    naive_contextual n;
    double *rows[PARTS];
    int64_t batch, head, query, key;
} head_rows;

/* Where the rows of a part begin, and how many there are. */
static void place_of(const call *c, const head_rows *h, part which, int64_t *batch, int64_t *from, int64_t *count,
                     int64_t *head) {
    const int64_t group = c->args.q.shape[2] / c->args.k.shape[2];
    const int of_keys = which == K || which == V || which == GATE_KEYS || which == DK || which == DV || which == DGATE_KEYS;
    const int of_table = which == EMBEDDINGS || which == DEMBEDDINGS;
    *batch = of_table ? 0 : h->batch;
    *from = of_table ? 0 : of_keys ? h->key : h->query;
    *count = of_table ? h->n.positions : of_keys ? h->n.keys : h->n.queries;
    *head = of_table ? (c->args.embeddings.shape[2] == 1 ? 0 : h->head) : of_keys ? h->head / group : h->head;
}

static void open_rows(const call *c, head_rows *h, part which) {
    int64_t batch, from, count, head;
    const int64_t channels = c->part[which].view.shape[3];
    place_of(c, h, which, &batch, &from, &count, &head);
    h->rows[which] = fuzz_room((size_t)(count * channels), sizeof(double));
    for (int64_t i = 0; which < INPUTS && i < count * channels; i++)
        h->rows[which][i] = fuzz_view_at(&c->part[which], batch, from + i / channels, head, i % channels);
}

static void close_rows(call *c, head_rows *h, part which) {
    int64_t batch, from, count, head;
    const int64_t *s = c->part[which].view.shape;
    place_of(c, h, which, &batch, &from, &count, &head);
    for (int64_t i = 0; which >= INPUTS && i < count * s[3]; i++)
        c->want[which][((batch * s[1] + from + i / s[3]) * s[2] + head) * s[3] + i % s[3]] += h->rows[which][i];
    free(h->rows[which]);
}

static void open_head(const call *c, int64_t s, int64_t head, head_rows *h) {
    const gyre_contextual_args *a = &c->args;
    const int packed = a->q_starts != NULL;
    const double usual = 1 / sqrt((double)a->q.shape[3]);
    *h = (head_rows){.batch = packed ? 0 : s, .head = head};
    h->query = packed ? c->q_starts[s] : 0;
    h->key = (packed ? c->k_starts[s] : 0) + c->k_first[s];
    h->n = (naive_contextual){.queries = packed ? c->q_starts[s + 1] - c->q_starts[s] : a->q.shape[1],
                              .keys = c->k_end[s] - c->k_first[s],
                              .channels = a->q.shape[3],
                              .values = a->v.shape[3],
                              .positions = a->embeddings.shape[1],
                              .scale = a->scale != 0 ? a->scale : usual,
                              .gate_scale = a->gate_scale != 0 ? a->gate_scale : usual,
                              .position_scale = a->position_scale != 0 ? a->position_scale : 1};
    for (part i = Q; i < PARTS; i++)
        open_rows(c, h, i);
    h->n.q = h->rows[Q];
    h->n.k = h->rows[K];
    h->n.v = h->rows[V];
    h->n.e = h->rows[EMBEDDINGS];
    h->n.gate_keys = c->gates_apart ? h->rows[GATE_KEYS] : h->rows[K];
}

/* Notes how large the numbers are, and whether a position lies at a corner of the line through the embeddings. */
static void measure_head(call *c, const naive_contextual *n) {
    double gate[MOST_KEYS], position[MOST_KEYS], score[MOST_KEYS];
    for (int64_t m = 0; m < n->queries; m++) {
        const int64_t seen = naive_contextual_row(n, m, gate, position, score);
        double sum = 0;
        for (int64_t j = seen - 1; j >= 0; j--) {
            const double *q = n->q + m * n->channels, *k = n->gate_keys + j * n->channels;
            const double argument = fabs(n->gate_scale * naive_dot(q, k, n->channels));
            c->largest = fmax(c->largest, fmax(argument, fabs(score[j])));
            sum += gate[j];
            const double slack = 2e-7 * (double)(seen - j) * (1 + c->largest), off = fabs(sum - round(sum));
            const double last = (double)(n->positions - 1);
            if (off < slack && sum < last + slack) c->is_near_corner = 1;
        }
    }
}

static void define(call *c) {
    for (int64_t s = 0; s < c->sequences; s++)
        for (int64_t head = 0; head < c->args.q.shape[2]; head++) {
            head_rows h;
            open_head(c, s, head, &h);
            measure_head(c, &h.n);
            naive_contextual_attention(&h.n, h.rows[OUT], h.rows[LSE]);
            const naive_contextual_gradients to = {h.rows[DQ], h.rows[DK], c->gates_apart ? h.rows[DGATE_KEYS] : h.rows[DK],
                                                   h.rows[DV], h.rows[DEMBEDDINGS]};
            naive_contextual_gradient(&h.n, h.rows[DOUT], &to);
            for (part i = Q; i < PARTS; i++)
                close_rows(c, &h, i);
        }
}

/* -- checking -- */
static double largest_of(const double *x, size_t n) {
    double most = 0;
    for (size_t i = 0; i < n; i++)
        most = fmax(most, fabs(x[i]));
    return most;
}

static double largest_in(const fuzz_view *v) {
    const int64_t *s = v->view.shape;
    double most = 0;
    for (int64_t i = 0; i < s[0] * s[1] * s[2] * s[3]; i++)
        most = fmax(most, fabs(fuzz_view_at(v, i / s[3] / s[2] / s[1], i / s[3] / s[2] % s[1], i / s[3] % s[2], i % s[3])));
    return most;
}

/* The gradient of a score is the difference of two sums of products in float, which may cancel, times what made the
 * score. */
static double cancelled(const call *c) {
    const double factors = fmax(fmax(largest_in(&c->part[Q]), largest_in(&c->part[K])),
                                fmax(largest_in(&c->part[EMBEDDINGS]), largest_in(&c->part[GATE_KEYS])));
    return 2.4e-7 * (double)c->args.v.shape[3] * largest_in(&c->part[DOUT]) * largest_in(&c->part[V]) * factors;
}

/* What an element may be off, apart from its own rounding.  A position is a sum of up to MOST_KEYS gates in float, and moves
 * a score along the line between two embeddings.  A gradient reads `out` as it was stored, and positions carry that on by as
 * much as scores are large. */
static double error_of(const call *c, part which) {
    const int64_t *s = c->part[which].view.shape, keys = c->args.k.shape[1];
    const double largest = 1 + c->largest, forward = (1e-6 + 4e-8 * (double)keys * largest) * largest;
    if (which == OUT || which == LSE) return forward;
    const double most = largest_of(c->want[which], (size_t)(s[0] * s[1] * s[2] * s[3]));
    const double rows = (double)(c->args.q.shape[1] * c->args.q.shape[2] + keys), values = (double)c->args.v.shape[3];
    return (forward * (1 + most) + cancelled(c)) * (1 + rows / 16) +
           fuzz_rounding(c->part[OUT].view.dtype, 1) * values * rows * largest / 4;
}

static void check_part(const call *c, part which) {
    const fuzz_view *v = &c->part[which];
    const int64_t *s = v->view.shape;
    const double error = error_of(c, which), start = which == DEMBEDDINGS ? START : 0;
    for (int64_t i = 0; i < s[0] * s[1] * s[2] * s[3]; i++) {
        const double want = c->want[which][i] + start,
                     got = fuzz_view_at(v, i / s[3] / s[2] / s[1], i / s[3] / s[2] % s[1], i / s[3] % s[2], i % s[3]);
        if (want == got) continue; /* infinities */
        const double most = error + fuzz_rounding(v->view.dtype, want);
        if (!(fabs(got - want) <= most))
            fprintf(stderr, "part %d, element %lld: %.9g, not %.9g; may be off %.3g; scores up to %.3g\n", which,
                    (long long)i, got, want, most, c->largest);
        fuzz_require(fabs(got - want) <= most, "a number is that of the definition");
    }
}

static void forward(const gyre_contextual_args *args, const gyre_exec *exec) {
    gyre_error err = {0, ""};
    const fuzz_scratch s = fuzz_scratch_make(contextual_scratch(args, 0, exec));
    const gyre_status status = gyre_contextual_attention(args, (gyre_scratch){s.memory, s.bytes}, exec, &err);
    free(s.memory);
    fuzz_require_error(status, &err);
    fuzz_require(!status, "a legal call is done");
}

static void check_threads(const call *c, const gyre_exec *exec) {
    fuzz_bytes none = {NULL, 0};
    gyre_contextual_args args = c->args;
    const int64_t *o = args.out.shape;
    fuzz_view out = fuzz_view_make(&none, args.out.dtype, o[0], o[1], o[2], o[3]),
              lse = fuzz_view_make(&none, args.lse.dtype, o[0], o[1], o[2], 1);
    args.out = out.view;
    args.lse = lse.view;
    forward(&args, exec);
    fuzz_views_require_same(&out, &c->part[OUT], "threads change no bit of out");
    fuzz_views_require_same(&lse, &c->part[LSE], "threads change no bit of lse");
    fuzz_view_free(&out);
    fuzz_view_free(&lse);
}

static void forward_cached(const gyre_cache *cache, const gyre_contextual_args *args) {
    gyre_error err = {0, ""};
    const int64_t sequence = 0;
    const fuzz_scratch s = fuzz_scratch_make(cache_contextual_scratch(cache, &sequence, args, NULL));
    const gyre_status status =
        gyre_cache_contextual_attention(cache, &sequence, args, (gyre_scratch){s.memory, s.bytes}, NULL, &err);
    free(s.memory);
    fuzz_require_error(status, &err);
    fuzz_require(!status, err.text[0] ? err.text : "a legal call over a cache is done");
}

/* The keys of a sequence in a cache, its padding too. */
static void check_cached(const call *c, int64_t s, test_random *random) {
    const int packed = c->args.q_starts != NULL;
    const int64_t b = packed ? 0 : s, key = packed ? c->k_starts[s] : 0, query = packed ? c->q_starts[s] : 0;
    const fuzz_tokens keys = {b, key, packed ? c->k_starts[s + 1] - key : c->args.k.shape[1]},
                      queries = {b, query, packed ? c->q_starts[s + 1] - query : c->args.q.shape[1]};
    const int64_t *o = c->args.out.shape;
    int64_t *positions = fuzz_room((size_t)keys.count, sizeof *positions);
    fuzz_bytes none = {NULL, 0};
    fuzz_view out = fuzz_view_make(&none, c->args.out.dtype, 1, queries.count, o[2], o[3]),
              lse = fuzz_view_make(&none, c->args.lse.dtype, 1, queries.count, o[2], 1);
    gyre_cache *cache = fuzz_cached_make(NULL, &c->args.k, &c->args.v, &keys, positions, random);
    gyre_contextual_args args = c->args;
    args.q = fuzz_tokens_of(&c->args.q, &queries);
    args.q_starts = args.k_starts = NULL;
    args.sequences = 0;
    if (args.k_first) args.k_first += s;
    if (args.k_end) args.k_end += s;
    args.out = out.view;
    args.lse = lse.view;
    forward_cached(cache, &args);
    fuzz_cached_require_same(&out, &c->part[OUT], &queries);
    fuzz_cached_require_same(&lse, &c->part[LSE], &queries);
    gyre_cache_free(cache);
    fuzz_view_free(&out);
    fuzz_view_free(&lse);
    free(positions);
}

static void check_gradient(call *c, const gyre_exec *exec) {
    gyre_error err = {0, ""};
    gyre_contextual_gradients to = GYRE_INIT(gyre_contextual_gradients);
    const gyre_cview dout = gyre_const(c->part[DOUT].view);
    const fuzz_scratch s = fuzz_scratch_make(contextual_scratch(&c->args, 1, exec));
    to.dq = c->part[DQ].view;
    to.dk = c->part[DK].view;
    to.dv = c->part[DV].view;
    if (c->gates_apart) to.dgate_keys = c->part[DGATE_KEYS].view;
    to.dembeddings = c->part[DEMBEDDINGS].view;
    const gyre_status status = gyre_contextual_gradient(&c->args, &dout, &to, (gyre_scratch){s.memory, s.bytes}, exec, &err);
    free(s.memory);
    fuzz_require_error(status, &err);
    fuzz_require(!status, "what is computed has a gradient");
    for (part i = DQ; i < PARTS && !c->is_near_corner; i++)
        if (i != DGATE_KEYS || c->gates_apart) check_part(c, i);
}

/* The size of scratch is that of the largest call of its kind, so a little less may do. */
static void check_refusal(call *c) {
    gyre_error err = {0, ""};
    const fuzz_scratch s = fuzz_scratch_make(contextual_scratch(&c->args, 0, NULL));
    const fuzz_view *out = &c->part[OUT];
    memset(out->view.data, 0x5a, out->bytes);
    const gyre_status status = gyre_contextual_attention(&c->args, (gyre_scratch){s.memory, 64}, NULL, &err);
    fuzz_require_error(status, &err);
    fuzz_require(!status || status == GYRE_ENOMEM, "too little scratch is refused as such");
    for (size_t i = 0; i < out->bytes && status; i++)
        fuzz_require(((unsigned char *)out->view.data)[i] == 0x5a, "a refused call writes nothing");
    free(s.memory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static gyre_pool *pool;
    static call c;
    if (!pool) fuzz_require(!gyre_pool_create(&pool, 2, NULL), "two threads");
    const gyre_exec exec = gyre_pool_exec(pool);
    make_call(&c, data, size);
    check_refusal(&c);
    forward(&c.args, NULL);
    define(&c);
    check_part(&c, OUT);
    check_part(&c, LSE);
    check_threads(&c, &exec);
    test_random random = {1 + size};
    for (int64_t s = 0; s < c.sequences && !c.gates_apart; s++)
        check_cached(&c, s, &random);
    check_gradient(&c, c.sequences > 1 ? &exec : NULL);
    free_call(&c);
    return 0;
}
