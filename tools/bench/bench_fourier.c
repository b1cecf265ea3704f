/* bench_fourier.c: Fourier series of queries and keys (FoPE), for gyre bench encodings. */
#include "gyre/gyre_trained.h"
#include "tools/bench/bench.h"
#include <math.h>
#include <stdlib.h>

struct bench_fourier {
    gyre_fourier_rotation rotation;
    double *frequencies;
    float *coefficients, *gradients; /* [2][heads][terms][pairs with a series]: cosines, sines */
    float *turned;                   /* [2][tokens][heads][head_dim] */
    int64_t tokens, numbers;
};

static float *alloc_numbers(int64_t count, uint64_t seed) {
    float *out = malloc((size_t)count * sizeof *out);
    for (int64_t i = 0; out && i < count; i++)
        out[i] = seed ? 2 * (float)bench_random(&seed) - 1 : 0;
    return out;
}

/* out = terms: the pairs of RoPE that make a revolution. */
static int64_t count_terms(const bench_shape *s) {
    int64_t terms = 0;
    while (terms < s->head_dim / 2 &&
           pow(10000, -2.0 * (double)terms / (double)s->head_dim) >= 2 * acos(-1) / (double)s->tokens)
        terms++;
    return terms;
}

int bench_fourier_fits(const bench_shape *s) {
    return s->head_dim >= 4 && count_terms(s) > 0;
}

bench_fourier *bench_fourier_create(const bench_shape *s) {
    const int64_t terms = count_terms(s), most = s->head_dim / 4, series = terms < most ? terms : most;
    bench_fourier *out = cli_alloc(1, sizeof *out);
    out->tokens = s->tokens;
    out->numbers = s->heads * terms * series;
    out->frequencies = malloc((size_t)terms * sizeof *out->frequencies);
    out->coefficients = alloc_numbers(2 * out->numbers, 11);
    out->gradients = alloc_numbers(2 * out->numbers, 0);
    out->turned = alloc_numbers(2 * s->tokens * s->heads * s->head_dim, 0);
    if (!out->frequencies || !out->coefficients || !out->gradients || !out->turned) {
        bench_fourier_free(out);
        return NULL;
    }
    for (int64_t t = 0; t < terms; t++)
        out->frequencies[t] = pow(10000, -2.0 * (double)t / (double)s->head_dim);
    out->rotation = (gyre_fourier_rotation)GYRE_INIT(gyre_fourier_rotation);
    out->rotation.pairs = s->head_dim / 2;
    out->rotation.rest = GYRE_FOURIER_REST_RELEASED;
    out->rotation.frequencies = gyre_cdense(out->frequencies, GYRE_DTYPE_F64, 1, 1, 1, terms);
    out->rotation.cosines = gyre_cdense(out->coefficients, GYRE_DTYPE_F32, 1, s->heads, terms, series);
    out->rotation.sines = gyre_cdense(out->coefficients + out->numbers, GYRE_DTYPE_F32, 1, s->heads, terms, series);
    return out;
}

void bench_fourier_free(bench_fourier *series) {
    if (!series) return;
    free(series->frequencies);
    free(series->coefficients);
    free(series->gradients);
    free(series->turned);
    free(series);
}

void bench_fourier_turned(const bench_fourier *series, const gyre_attention_args *args, gyre_view qk[2]) {
    const int64_t *shape = args->q.shape; /* keys have as many heads */
    for (int i = 0; i < 2; i++)
        qk[i] = gyre_dense(series->turned + i * series->tokens * shape[2] * shape[3], GYRE_DTYPE_F32, 1, shape[1], shape[2],
                           shape[3]);
}

gyre_status bench_fourier_run(const bench_fourier *series, const gyre_attention_args *args, const gyre_exec *exec) {
    const gyre_positions from_zero = {.data = NULL};
    const gyre_cview in[2] = {args->q, args->k};
    gyre_view out[2];
    gyre_status status = GYRE_OK;
    bench_fourier_turned(series, args, out);
    for (int i = 0; i < 2 && !status; i++)
        status = gyre_fourier_rotate(
            &series->rotation, GYRE_ARGS(gyre_rotate_args, .positions = &from_zero, .in = in[i], .out = out[i]), exec, NULL);
    return status;
}

gyre_status bench_fourier_gradient(const bench_fourier *series, const gyre_attention_args *args, const gyre_view dqk[2],
                                   const gyre_exec *exec) {
    const gyre_positions from_zero = {.data = NULL};
    const gyre_cview in[2] = {args->q, args->k};
    const int64_t *shape = series->rotation.cosines.shape;
    gyre_fourier_gradients to = GYRE_INIT(gyre_fourier_gradients);
    to.cosines = gyre_dense(series->gradients, GYRE_DTYPE_F32, 1, shape[1], shape[2], shape[3]);
    to.sines = gyre_dense(series->gradients + series->numbers, GYRE_DTYPE_F32, 1, shape[1], shape[2], shape[3]);
    gyre_status status = GYRE_OK;
    for (int i = 0; i < 2 && !status; i++) {
        const gyre_cview d = gyre_const(dqk[i]);
        status = gyre_fourier_rotate_gradient(
            &series->rotation, GYRE_ARGS(gyre_rotate_gradient_args, .positions = &from_zero, .in = in[i], .dout = d), &to,
            exec, NULL);
        if (!status)
            status = gyre_fourier_rotate(&series->rotation,
                                         GYRE_ARGS(gyre_rotate_args, .direction = GYRE_DIRECTION_ADJOINT,
                                                   .positions = &from_zero, .in = d, .out = dqk[i]),
                                         exec, NULL);
    }
    return status;
}
