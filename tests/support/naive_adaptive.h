/* naive_adaptive.h: data-adaptive position encoding of one sequence by its formulas, in double and with all n x n
 * numbers. */
#ifndef GYRE_TESTS_NAIVE_ADAPTIVE_H
#define GYRE_TESTS_NAIVE_ADAPTIVE_H
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

/* What stands beside the network. */
typedef enum naive_form { NAIVE_CONCAT_RESIDUAL, NAIVE_CONCAT, NAIVE_ADD_RESIDUAL } naive_form;

/* Dense: q [queries][heads][channels], k [keys][key heads][channels], v [keys][key heads][values],
 * bias [queries][heads][keys]; w1 [width][inputs], b1 [width], w2 [heads][width], b2 [heads]. */
typedef struct naive_adaptive {
    int64_t queries, keys, heads, key_heads, channels, values, width;
    naive_form form;
    int two_sided;
    const double *q, *k, *v, *bias, *w1, *b1, *w2, *b2;
    double scale, slope;
} naive_adaptive;

/* Gradients, added to. */
typedef struct naive_adaptive_gradients {
    double *dq, *dk, *dv, *dbias, *dw1, *db1, *dw2, *db2;
} naive_adaptive_gradients;

/* A pair of query m and key j: what the network reads and makes. */
typedef struct naive_pair {
    int64_t inputs;
    double *x, *unit, *hidden, *score; /* [inputs], [width], [width], [heads] */
} naive_pair;

static inline int64_t naive_adaptive_inputs(const naive_adaptive *n) {
    return n->form == NAIVE_ADD_RESIDUAL ? n->heads : 2 * n->heads;
}

static inline int64_t naive_adaptive_seen(const naive_adaptive *n, int64_t m) {
    const int64_t seen = n->two_sided ? n->keys : n->keys - n->queries + m + 1;
    return seen > 0 ? seen : 0;
}

static inline naive_pair naive_pair_new(const naive_adaptive *n) {
    naive_pair p = {.inputs = naive_adaptive_inputs(n)};
    p.x = calloc((size_t)(p.inputs + 2 * n->width + n->heads), sizeof *p.x);
    p.unit = p.x + p.inputs;
    p.hidden = p.unit + n->width;
    p.score = p.hidden + n->width;
    return p;
}

static inline void naive_pair_run(const naive_adaptive *n, int64_t m, int64_t j, naive_pair *p) {
    const int64_t group = n->heads / n->key_heads, d = n->channels;
    for (int64_t h = 0; h < n->heads; h++) {
        const double bias = n->bias[(m * n->heads + h) * n->keys + j];
        double product = 0;
        for (int64_t c = 0; c < d; c++)
            product += n->q[(m * n->heads + h) * d + c] * n->k[(j * n->key_heads + h / group) * d + c];
        product *= n->scale;
        p->x[h] = n->form == NAIVE_ADD_RESIDUAL ? product + bias : product;
        if (n->form != NAIVE_ADD_RESIDUAL) p->x[n->heads + h] = bias;
        p->score[h] = n->form == NAIVE_CONCAT ? product : product + bias;
    }
    for (int64_t w = 0; w < n->width; w++) {
        p->unit[w] = n->b1[w];
        for (int64_t i = 0; i < p->inputs; i++)
            p->unit[w] += n->w1[w * p->inputs + i] * p->x[i];
        p->hidden[w] = p->unit[w] > 0 ? p->unit[w] : n->slope * p->unit[w];
    }
    for (int64_t h = 0; h < n->heads; h++) {
        p->score[h] += n->b2[h];
        for (int64_t w = 0; w < n->width; w++)
            p->score[h] += n->w2[h * n->width + w] * p->hidden[w];
    }
}

/* weights[heads][keys] of query m; lse[heads]. */
static inline void naive_adaptive_row(const naive_adaptive *n, int64_t m, naive_pair *p, double *weights, double *lse) {
    const int64_t seen = naive_adaptive_seen(n, m);
    for (int64_t j = 0; j < seen; j++) {
        naive_pair_run(n, m, j, p);
        for (int64_t h = 0; h < n->heads; h++)
            weights[h * n->keys + j] = p->score[h];
    }
    for (int64_t h = 0; h < n->heads; h++) {
        double *row = weights + h * n->keys, most = -INFINITY, sum = 0;
        for (int64_t j = 0; j < seen; j++)
            most = fmax(most, row[j]);
        for (int64_t j = 0; j < seen; j++)
            sum += exp(row[j] - most);
        for (int64_t j = 0; j < seen; j++)
            row[j] = exp(row[j] - most) / sum;
        lse[h] = seen > 0 ? most + log(sum) : -INFINITY;
    }
}

/* out [queries][heads][values], lse [queries][heads]. */
static inline void naive_adaptive_attention(const naive_adaptive *n, double *out, double *lse) {
    const int64_t group = n->heads / n->key_heads;
    double *weights = calloc((size_t)(n->heads * n->keys + 1), sizeof *weights);
    naive_pair p = naive_pair_new(n);
    for (int64_t m = 0; m < n->queries; m++) {
        naive_adaptive_row(n, m, &p, weights, lse + m * n->heads);
        for (int64_t h = 0; h < n->heads; h++)
            for (int64_t c = 0; c < n->values; c++) {
                double *to = &out[(m * n->heads + h) * n->values + c];
                *to = 0;
                for (int64_t j = 0; j < naive_adaptive_seen(n, m); j++)
                    *to += weights[h * n->keys + j] * n->v[(j * n->key_heads + h / group) * n->values + c];
            }
    }
    free(p.x);
    free(weights);
}

/* ds[heads] of a pair, through the network: gradients to its numbers, to products (dx[h]) and to biases. */
static inline void naive_pair_backward(const naive_adaptive *n, int64_t m, int64_t j, const naive_pair *p, const double *ds,
                                       double *dx, const naive_adaptive_gradients *to) {
    const int64_t group = n->heads / n->key_heads, d = n->channels;
    for (int64_t i = 0; i < p->inputs; i++)
        dx[i] = 0;
    for (int64_t w = 0; w < n->width; w++) {
        double dunit = 0;
        for (int64_t h = 0; h < n->heads; h++) {
            dunit += n->w2[h * n->width + w] * ds[h];
            to->dw2[h * n->width + w] += ds[h] * p->hidden[w];
        }
        if (!(p->unit[w] > 0)) dunit *= n->slope;
        to->db1[w] += dunit;
        for (int64_t i = 0; i < p->inputs; i++) {
            to->dw1[w * p->inputs + i] += dunit * p->x[i];
            dx[i] += dunit * n->w1[w * p->inputs + i];
        }
    }
    for (int64_t h = 0; h < n->heads; h++) {
        const double dproduct = ds[h] + dx[h];
        const double dbias = n->form == NAIVE_ADD_RESIDUAL ? dproduct
                             : n->form == NAIVE_CONCAT     ? dx[n->heads + h]
                                                           : ds[h] + dx[n->heads + h];
        to->db2[h] += ds[h];
        to->dbias[(m * n->heads + h) * n->keys + j] += dbias;
        for (int64_t c = 0; c < d; c++) {
            const int64_t q = (m * n->heads + h) * d + c, k = (j * n->key_heads + h / group) * d + c;
            to->dq[q] += n->scale * dproduct * n->k[k];
            to->dk[k] += n->scale * dproduct * n->q[q];
        }
    }
}

static inline void naive_adaptive_gradient(const naive_adaptive *n, const double *dout, const naive_adaptive_gradients *to) {
    const int64_t group = n->heads / n->key_heads, e = n->values;
    double *weights = calloc((size_t)(2 * n->heads * n->keys + 5 * n->heads + 1), sizeof *weights),
           *dweights = weights + n->heads * n->keys, *lse = dweights + n->heads * n->keys, *mean = lse + n->heads,
           *ds = mean + n->heads, *dx = ds + n->heads;
    naive_pair p = naive_pair_new(n);
    for (int64_t m = 0; m < n->queries; m++) {
        const int64_t seen = naive_adaptive_seen(n, m);
        naive_adaptive_row(n, m, &p, weights, lse);
        for (int64_t h = 0; h < n->heads; h++) {
            mean[h] = 0;
            for (int64_t j = 0; j < seen; j++) {
                const double weight = weights[h * n->keys + j];
                double dweight = 0;
                for (int64_t c = 0; c < e; c++) {
                    const double from = dout[(m * n->heads + h) * e + c];
                    dweight += from * n->v[(j * n->key_heads + h / group) * e + c];
                    to->dv[(j * n->key_heads + h / group) * e + c] += weight * from;
                }
                dweights[h * n->keys + j] = dweight;
                mean[h] += weight * dweight;
            }
        }
        for (int64_t j = 0; j < seen; j++) {
            naive_pair_run(n, m, j, &p);
            for (int64_t h = 0; h < n->heads; h++)
                ds[h] = weights[h * n->keys + j] * (dweights[h * n->keys + j] - mean[h]);
            naive_pair_backward(n, m, j, &p, ds, dx, to);
        }
    }
    free(p.x);
    free(weights);
}

#endif
