/* naive_contextual.h: contextual position encoding of one sequence and one query head, by its formulas, in double and with
 * all n x n numbers. */
#ifndef GYRE_TESTS_NAIVE_CONTEXTUAL_H
#define GYRE_TESTS_NAIVE_CONTEXTUAL_H
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

/* Dense rows: q [queries][channels], k and gate_keys [keys][channels], v [keys][values], e [positions][channels]. */
typedef struct naive_contextual {
    int64_t queries, keys, channels, values, positions;
    const double *q, *k, *gate_keys, *v, *e;
    double scale, gate_scale, position_scale;
} naive_contextual;

/* Gradients, added to. */
typedef struct naive_contextual_gradients {
    double *dq, *dk, *dgate_keys, *dv, *de;
} naive_contextual_gradients;

static inline double naive_dot(const double *a, const double *b, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* gate[j], position[j] and score[j] of query m; out = keys that it sees. */
static inline int64_t naive_contextual_row(const naive_contextual *n, int64_t m, double *gate, double *position,
                                           double *score) {
    const int64_t d = n->channels, seen = n->keys - n->queries + m + 1;
    const double *q = n->q + m * d;
    for (int64_t j = 0; j < seen; j++)
        gate[j] = 1 / (1 + exp(-n->gate_scale * naive_dot(q, n->gate_keys + j * d, d)));
    for (int64_t j = 0; j < seen; j++) {
        double p = 0;
        for (int64_t t = seen - 1; t >= j; t--)
            p += gate[t];
        position[j] = fmin(p, (double)(n->positions - 1));
        const int64_t low = (int64_t)floor(position[j]), high = (int64_t)ceil(position[j]);
        const double part = position[j] - (double)low;
        score[j] =
            n->scale * naive_dot(q, n->k + j * d, d) +
            n->position_scale * ((1 - part) * naive_dot(q, n->e + low * d, d) + part * naive_dot(q, n->e + high * d, d));
    }
    return seen > 0 ? seen : 0;
}

/* score -> weights; out = log-sum-exp. */
static inline double naive_softmax(double *score, int64_t n) {
    double most = -INFINITY, sum = 0;
    for (int64_t j = 0; j < n; j++)
        most = fmax(most, score[j]);
    for (int64_t j = 0; j < n; j++)
        sum += exp(score[j] - most);
    for (int64_t j = 0; j < n; j++)
        score[j] = exp(score[j] - most) / sum;
    return n > 0 ? most + log(sum) : -INFINITY;
}

/* out [queries][values], lse [queries]. */
static inline void naive_contextual_attention(const naive_contextual *n, double *out, double *lse) {
    double *gate = calloc((size_t)(3 * n->keys + 1), sizeof *gate), *position = gate + n->keys, *weight = position + n->keys;
    for (int64_t m = 0; m < n->queries; m++) {
        const int64_t seen = naive_contextual_row(n, m, gate, position, weight);
        lse[m] = naive_softmax(weight, seen);
        for (int64_t c = 0; c < n->values; c++) {
            out[m * n->values + c] = 0;
            for (int64_t j = 0; j < seen; j++)
                out[m * n->values + c] += weight[j] * n->v[j * n->values + c];
        }
    }
    free(gate);
}

static inline void naive_add(double factor, const double *x, int64_t n, double *to) {
    for (int64_t i = 0; i < n; i++)
        to[i] += factor * x[i];
}

/* Adds what the score of query m and key j passes on; out = the gradient to its position. */
static inline double naive_contextual_pair(const naive_contextual *n, int64_t m, int64_t j, double ds, double position,
                                           const naive_contextual_gradients *to) {
    const int64_t d = n->channels, low = (int64_t)floor(position), high = (int64_t)ceil(position);
    const double part = position - (double)low, *q = n->q + m * d;
    naive_add(ds * n->scale, n->k + j * d, d, to->dq + m * d);
    naive_add(ds * n->scale, q, d, to->dk + j * d);
    naive_add(ds * n->position_scale * (1 - part), n->e + low * d, d, to->dq + m * d);
    naive_add(ds * n->position_scale * part, n->e + high * d, d, to->dq + m * d);
    naive_add(ds * n->position_scale * (1 - part), q, d, to->de + low * d);
    naive_add(ds * n->position_scale * part, q, d, to->de + high * d);
    return ds * n->position_scale * (naive_dot(q, n->e + high * d, d) - naive_dot(q, n->e + low * d, d));
}

/* The chain rule, term by term: a gate is in the position of every key at or before it. */
static inline void naive_contextual_gradient(const naive_contextual *n, const double *dout,
                                             const naive_contextual_gradients *to) {
    double *gate = calloc((size_t)(5 * n->keys + 1), sizeof *gate), *position = gate + n->keys, *weight = position + n->keys,
           *ds = weight + n->keys, *dgate = ds + n->keys;
    const int64_t d = n->channels;
    for (int64_t m = 0; m < n->queries; m++) {
        const int64_t seen = naive_contextual_row(n, m, gate, position, weight);
        double mean = 0;
        naive_softmax(weight, seen);
        for (int64_t j = 0; j < seen; j++) {
            ds[j] = naive_dot(dout + m * n->values, n->v + j * n->values, n->values);
            mean += weight[j] * ds[j];
            naive_add(weight[j], dout + m * n->values, n->values, to->dv + j * n->values);
            dgate[j] = 0;
        }
        for (int64_t j = 0; j < seen; j++) {
            const double dp = naive_contextual_pair(n, m, j, weight[j] * (ds[j] - mean), position[j], to);
            for (int64_t t = j; t < seen; t++)
                dgate[t] += dp;
        }
        for (int64_t t = 0; t < seen; t++) {
            const double dx = n->gate_scale * gate[t] * (1 - gate[t]) * dgate[t];
            naive_add(dx, n->gate_keys + t * d, d, to->dq + m * d);
            naive_add(dx, n->q + m * d, d, to->dgate_keys + t * d);
        }
    }
    free(gate);
}

#endif
