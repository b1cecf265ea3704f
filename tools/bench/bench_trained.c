/* bench_trained.c: queries and keys rotated by trained frequencies, or in polar coordinates (PoPE), for gyre bench
 * encodings. */
#include "gyre/gyre_trained.h"
#include "tools/bench/bench.h"
#include <math.h>
#include <stdlib.h>

struct bench_trained {
    gyre_trained_rotation rotation[2]; /* of queries, of keys */
    int is_polar;
    double *numbers;           /* [2][rotation_numbers]: frequencies and phases, then gradients to them */
    float *turned, *gradients; /* [2][tokens][heads][channels]; gradients: to those, NULL unless polar and measured */
    int64_t tokens, heads, channels, frequencies, phases;
};

/* Frequencies of RoPE, a little apart for each head of a trained rotation. */
static void fill(bench_trained *t, int64_t pairs) {
    uint64_t seed = 12;
    for (int64_t i = 0; i < t->frequencies; i++) {
        const int64_t head = i / pairs;
        t->numbers[i] = pow(10000, -(double)(i % pairs) / (double)pairs) * (1 + 0.1 * (double)head);
    }
    for (int64_t i = 0; i < t->phases; i++)
        t->numbers[t->frequencies + i] = -6.28 * bench_random(&seed);
}

static void describe(bench_trained *t, int64_t pairs) {
    for (int i = 0; i < 2; i++) {
        t->rotation[i] = (gyre_trained_rotation)GYRE_INIT(gyre_trained_rotation);
        t->rotation[i].frequencies = gyre_cdense(t->numbers, GYRE_DTYPE_F64, 1, 1, t->frequencies / pairs, pairs);
    }
    if (t->is_polar) t->rotation[1].phases = gyre_cdense(t->numbers + t->frequencies, GYRE_DTYPE_F64, 1, 1, t->heads, pairs);
}

bench_trained *bench_trained_create(const bench_shape *s, int is_polar) {
    const int64_t pairs = is_polar ? s->head_dim : s->head_dim / 2;
    bench_trained *t = cli_alloc(1, sizeof *t);
    t->is_polar = is_polar;
    t->tokens = s->tokens;
    t->heads = s->heads;
    t->channels = is_polar ? 2 * s->head_dim : s->head_dim;
    t->frequencies = is_polar ? pairs : s->heads * pairs; /* PoPE's are those of all heads */
    t->phases = is_polar ? s->heads * pairs : 0;
    const size_t turned = (size_t)(2 * s->tokens * s->heads * t->channels);
    t->numbers = calloc((size_t)(2 * (t->frequencies + t->phases)), sizeof *t->numbers);
    t->turned = calloc(turned, sizeof *t->turned);
    if (is_polar && s->gradient) t->gradients = calloc(turned, sizeof *t->gradients);
    if (!t->numbers || !t->turned || (is_polar && s->gradient && !t->gradients)) {
        bench_trained_free(t);
        return NULL;
    }
    fill(t, pairs);
    describe(t, pairs);
    return t;
}

void bench_trained_free(bench_trained *t) {
    if (!t) return;
    free(t->numbers);
    free(t->turned);
    free(t->gradients);
    free(t);
}

static gyre_view part(const bench_trained *t, float *all, int i, int64_t tokens) {
    return gyre_dense(all + i * t->tokens * t->heads * t->channels, GYRE_DTYPE_F32, 1, tokens, t->heads, t->channels);
}

void bench_trained_turned(const bench_trained *t, gyre_attention_args *args) {
    const int64_t tokens = args->q.shape[1];
    if (t->is_polar) args->scale = 1 / sqrt((double)args->q.shape[3]);
    args->q = gyre_const(part(t, t->turned, 0, tokens));
    args->k = gyre_const(part(t, t->turned, 1, tokens));
}

gyre_status bench_trained_run(const bench_trained *t, const gyre_attention_args *args, const gyre_exec *exec) {
    const gyre_positions from_zero = {.data = NULL};
    const gyre_cview in[2] = {args->q, args->k};
    gyre_status status = GYRE_OK;
    for (int i = 0; i < 2 && !status; i++) {
        const gyre_view out = part(t, t->turned, i, in[i].shape[1]);
        status = t->is_polar
                     ? gyre_polar_rotate(&t->rotation[i],
                                         GYRE_ARGS(gyre_rotate_args, .positions = &from_zero, .in = in[i], .out = out), exec,
                                         NULL)
                     : gyre_trained_rotate(&t->rotation[i],
                                           GYRE_ARGS(gyre_rotate_args, .positions = &from_zero, .in = in[i], .out = out),
                                           exec, NULL);
    }
    return status;
}

gyre_view bench_trained_gradient_view(const bench_trained *t, const gyre_view *dqk, int i) {
    return t->is_polar ? part(t, t->gradients, i, dqk->shape[1]) : *dqk;
}

static gyre_trained_gradients sums_of(const bench_trained *t, int i) {
    const int64_t *f = t->rotation[i].frequencies.shape, *p = t->rotation[i].phases.shape;
    gyre_trained_gradients to = GYRE_INIT(gyre_trained_gradients);
    double *sums = t->numbers + t->frequencies + t->phases;
    if (!t->is_polar) to.frequencies = gyre_dense(sums, GYRE_DTYPE_F64, f[0], f[1], f[2], f[3]);
    if (t->rotation[i].phases.data) to.phases = gyre_dense(sums + t->frequencies, GYRE_DTYPE_F64, p[0], p[1], p[2], p[3]);
    return to;
}

gyre_status bench_trained_gradient(const bench_trained *t, const gyre_attention_args *args, const gyre_view dqk[2],
                                   const gyre_exec *exec) {
    const gyre_positions from_zero = {.data = NULL};
    const gyre_cview in[2] = {args->q, args->k};
    gyre_status status = GYRE_OK;
    for (int i = 0; i < 2 && !status; i++) {
        const gyre_view of_turned = bench_trained_gradient_view(t, &dqk[i], i);
        const gyre_cview d = gyre_const(of_turned), turned = gyre_const(part(t, t->turned, i, d.shape[1]));
        const gyre_trained_gradients to = sums_of(t, i);
        if (t->is_polar) {
            status = gyre_polar_rotate_gradient(
                &t->rotation[i],
                GYRE_ARGS(gyre_rotate_gradient_args, .positions = &from_zero, .in = in[i], .dout = d, .din = dqk[i]), &to,
                exec, NULL);
            continue;
        }
        status = gyre_trained_rotate_gradient(
            &t->rotation[i], GYRE_ARGS(gyre_rotate_gradient_args, .positions = &from_zero, .in = turned, .dout = d), &to,
            exec, NULL);
        if (!status)
            status = gyre_trained_rotate(&t->rotation[i],
                                         GYRE_ARGS(gyre_rotate_args, .direction = GYRE_DIRECTION_ADJOINT,
                                                   .positions = &from_zero, .in = d, .out = dqk[i]),
                                         exec, NULL);
    }
    return status;
}
