/* bench_plain_loop.c: attention and rotation of one query in plain C, compiled for the processor's vectors.
 *
 * A compiler that may not reorder sums makes no vectors of a loop over one sum, so a product of query and key has 16 or 8.
 * (cmake/command.cmake lets it fuse products and sums here.) */
#include "tools/bench/small/bench_plain_loop.h"
#include <math.h>

#if defined(__GNUC__)
#define ALWAYS_INLINE static inline __attribute__((always_inline))
#else
#define ALWAYS_INLINE static inline
#endif

/* out = the sum of `lanes` numbers, which are added in pairs. */
ALWAYS_INLINE float sum_of(float *sum, int lanes) {
    for (int half = lanes / 2; half > 0; half /= 2)
        for (int l = 0; l < half; l++)
            sum[l] += sum[l + half];
    return sum[0];
}

ALWAYS_INLINE float dot(const float *restrict a, const float *restrict b, int64_t n, int lanes) {
    float sum[16] = {0};
    for (int64_t i = 0; i < n; i += lanes)
        for (int l = 0; l < lanes; l++)
            sum[l] += a[i + l] * b[i + l];
    return sum_of(sum, lanes);
}

ALWAYS_INLINE void attend(const bench_plain_attention *p) {
    const int64_t n = p->keys, row = p->heads * p->dim, dim = p->dim;
    const float scale = 1 / sqrtf((float)dim);
    for (int64_t h = 0; h < p->heads; h++) {
        const float *q = p->q + h * dim, *k = p->k + h * dim, *v = p->v + h * dim;
        float *restrict out = p->out + h * dim, *restrict weights = p->weights, most = -INFINITY, sum = 0;
        for (int64_t j = 0; j < n; j++) {
            weights[j] = scale * (dim % 16 == 0 ? dot(q, k + j * row, dim, 16) : dot(q, k + j * row, dim, 8));
            most = weights[j] > most ? weights[j] : most;
        }
        for (int64_t j = 0; j < n; j++) {
            weights[j] = expf(weights[j] - most);
            sum += weights[j];
        }
        for (int64_t c = 0; c < dim; c++)
            out[c] = 0;
        for (int64_t j = 0; j < n; j++) {
            const float weight = weights[j] * (1 / sum);
            for (int64_t c = 0; c < dim; c++)
                out[c] += weight * v[j * row + c];
        }
    }
}

ALWAYS_INLINE void rotate(float *x, int64_t heads, int64_t dim, const float *restrict cosine, const float *restrict sine) {
    const int64_t pairs = dim / 2;
    for (int64_t h = 0; h < heads; h++) {
        float *restrict a = x + h * dim, *restrict b = a + pairs;
        for (int64_t i = 0; i < pairs; i++) {
            const float u = a[i], w = b[i];
            a[i] = u * cosine[i] - w * sine[i];
            b[i] = w * cosine[i] + u * sine[i];
        }
    }
}

/* -- for each processor -- */

#if defined(__GNUC__) && defined(__x86_64__)
#define FOR(names) __attribute__((target(names)))
FOR("avx512f,avx512bw,avx512dq,avx512vl,fma") static void attend_avx512(const bench_plain_attention *p) {
    attend(p);
}
FOR("avx2,fma") static void attend_avx2(const bench_plain_attention *p) {
    attend(p);
}
FOR("avx2,fma") static void rotate_avx2(float *x, int64_t heads, int64_t dim, const float *cosine, const float *sine) {
    rotate(x, heads, dim, cosine, sine);
}
#endif

void bench_plain_attend(const bench_plain_attention *call) {
#if defined(__GNUC__) && defined(__x86_64__)
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")) {
        attend_avx512(call);
        return;
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        attend_avx2(call);
        return;
    }
#endif
    attend(call);
}

void bench_plain_rotate(float *x, int64_t heads, int64_t dim, const float *cosine, const float *sine) {
#if defined(__GNUC__) && defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        rotate_avx2(x, heads, dim, cosine, sine);
        return;
    }
#endif
    rotate(x, heads, dim, cosine, sine);
}
