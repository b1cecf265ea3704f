/* naive_parts.h: what each part of layers that makes queries and keys computes, in double, and the list of them that the
 * tests of models run.  A new part is an oracle here and a row. */
#ifndef GYRE_TESTS_NAIVE_PARTS_H
#define GYRE_TESTS_NAIVE_PARTS_H
#include "naive_head.h"
#include "naive_positions.h"

#include <complex.h>

/* A part, or one with its option. */
typedef struct naive_part {
    int64_t parts;       /* of layer_parts */
    const char *key;     /* its key in config.json */
    const char *tensors; /* what the names of its tensors contain; NULL = it trains none */
    int count;           /* of its tensors in a layer */
    int decays;          /* 1: they have weight decay */
    /* qkv: queries, keys and values of token m from the projections, [heads][head_dim] each, becomes what attention takes.
     * y: what the projections read, [model_dim], after that of the tokens before m. */
    void (*heads)(const naive *d, int64_t layer, int64_t m, const double *y, double *qkv);
    int rotates; /* 1: `heads` rotates to position m; 0: the encoding does */
    /* out = q . k as rotated; NULL = of rotated queries and keys. */
    double (*dot)(const naive *d, const naive_pair *at, const double *q, const double *k);
    /* Two configs that are tried, and what the second has in its layers besides: always gates, and interleaved pairs. */
    void (*change[2])(gyre_model_config *c);
    int64_t option;
    int64_t (*first)(int64_t layers); /* the first layer that has it; NULL = layer 0 */
} naive_part;

static inline int naive_has(const naive *d, gyre_layer_part part) {
    return (d->m->config.layer_parts & part) != 0;
}

/* out = the numbers of tensor i of the part of a layer. */
static inline const double *naive_part_weights(const naive *d, int64_t layer, int i) {
    return d->w + gyre_layer_tensor_offset(&d->m->layout, layer, GYRE_WEIGHT_PART + i);
}

/* Turns head h of q (h < heads) or k by the trained frequencies of its key head. */
static inline void naive_turn(const naive *d, int64_t layer, int64_t h, double position, double *head) {
    const gyre_model_config *c = &d->m->config;
    const int64_t pairs = c->position.rope.dim / 2, of = h < c->heads ? h / (c->heads / c->kv_heads) : h - c->heads;
    const double *w = naive_part_weights(d, layer, 0);
    naive_rotate_head(head, pairs, c->position.rope.layout, w + of * pairs, position, 1);
}

/* Multiplies the pairs of head h of q (h < heads) or k by the Fourier series of its key head (Hua 2024).  The terms are
 * base^(-2 t / dim) of 2 pi / L and above, and the pairs with a series at most dim / 4.  The others stay, or as in the
 * released code become (x - y, x + y). */
static inline void naive_series(const naive *d, int64_t layer, int64_t h, double position, double *head) {
    const gyre_model_config *c = &d->m->config;
    const struct gyre_rope_config *r = &c->position.rope;
    const int64_t pairs = r->dim / 2, of = h < c->heads ? h / (c->heads / c->kv_heads) : h - c->heads;
    const double slowest = 2 * acos(-1) / (double)c->position.trained_length;
    const double *cosines = naive_part_weights(d, layer, 0), *sines = naive_part_weights(d, layer, 1);
    int64_t terms = 0;
    while (terms < pairs && pow(r->base, -2.0 * (double)terms / (double)r->dim) >= slowest)
        terms++;
    const int64_t series = terms < r->dim / 4 ? terms : r->dim / 4;
    for (int64_t i = 0; i < pairs; i++) {
        double re = i < series ? 0 : 1, im = i < series || naive_has(d, GYRE_LAYER_PART_FOURIER_STILL) ? 0 : 1;
        for (int64_t t = 0; i < series && t < terms; t++) {
            const double angle = position * pow(r->base, -2.0 * (double)t / (double)r->dim);
            re += cosines[(of * terms + t) * series + i] * cos(angle);
            im += sines[(of * terms + t) * series + i] * sin(angle);
        }
        const int interleaved = r->layout == GYRE_LAYOUT_INTERLEAVED;
        double *x = head + (interleaved ? 2 * i : i), *y = interleaved ? x + 1 : x + pairs;
        const double was = *x;
        *x = re * *x - im * *y;
        *y = im * was + re * *y;
    }
}

/* out = q . k in polar coordinates (Gopalakrishnan 2025), with the frequencies of the encoding. */
static inline double naive_polar(const naive *d, const naive_pair *at, const double *q, const double *k) {
    const gyre_model_config *c = &d->m->config;
    const double *phases = naive_part_weights(d, at->layer, 0) + at->head / (c->heads / c->kv_heads) * c->head_dim;
    double sum = 0, inv_freq[256], factor;
    if (gyre_encoding_frequencies(d->encoding, d->length, inv_freq, &factor)) abort();
    for (int64_t i = 0; i < c->head_dim; i++) {
        const double phase = fmin(fmax(phases[i], -2 * acos(-1)), 0);
        sum +=
            factor * factor * log(1 + exp(q[i])) * log(1 + exp(k[i])) * cos((double)(at->n - at->m) * inv_freq[i] + phase);
    }
    return sum;
}

/* qkv[heads][dim], then keys and values, from the queries of half of the heads (Liu 2025): head 2 h is query h, and head
 * 2 h + 1 the number that each pair of it is as a complex one, times -1j. */
static inline void naive_imaginary_heads(const naive *d, int64_t layer, int64_t m, const double *y, double *qkv) {
    (void)layer, (void)m, (void)y;
    const gyre_model_config *c = &d->m->config;
    const int64_t dim = c->head_dim, half = c->heads / 2 * dim;
    memmove(qkv + 2 * half, qkv + half, (size_t)(2 * c->kv_heads * dim) * sizeof *qkv);
    for (int64_t h = c->heads / 2 - 1; h >= 0; h--) {
        double *real = qkv + 2 * h * dim, *imaginary = real + dim;
        memmove(real, qkv + h * dim, (size_t)dim * sizeof *qkv);
        for (int64_t i = 0; i < dim / 2; i++) {
            const int interleaved = c->position.rope.layout == GYRE_LAYOUT_INTERLEAVED;
            const int64_t low = interleaved ? 2 * i : i, high = interleaved ? 2 * i + 1 : i + dim / 2;
            const double complex out = -I * (real[low] + I * real[high]);
            imaginary[low] = creal(out);
            imaginary[high] = cimag(out);
        }
    }
}

/* x = exp((a - a^T) / 2) x, or of minus that, by its series. */
static inline void naive_exponential(const double *a, int64_t dim, double sign, double *x) {
    double term[16], sum[16], next[16];
    memcpy(term, x, (size_t)dim * sizeof *x);
    memcpy(sum, x, (size_t)dim * sizeof *x);
    for (int k = 1; k < 40; k++) {
        for (int64_t i = 0; i < dim; i++) {
            next[i] = 0;
            for (int64_t j = 0; j < dim; j++)
                next[i] += sign * (a[i * dim + j] - a[j * dim + i]) / 2 * term[j] / k;
        }
        for (int64_t i = 0; i < dim; i++)
            sum[i] += term[i] = next[i];
    }
    memcpy(x, sum, (size_t)dim * sizeof *x);
}

/* Head h of q (h < heads) or k before its rotation (Li 2025): U S V^T q and U S^-1 V^T k, by the numbers of the key head. */
static inline void naive_matrix(const naive *d, int64_t layer, int64_t h, double *head) {
    const gyre_model_config *c = &d->m->config;
    const int64_t dim = c->head_dim, of = h < c->heads ? h / (c->heads / c->kv_heads) : h - c->heads;
    const double *w[3];
    for (int i = 0; i < 3; i++)
        w[i] = naive_part_weights(d, layer, i);
    naive_exponential(w[1] + of * dim * dim, dim, -1, head);
    for (int64_t i = 0; i < dim; i++) {
        const double scale = log(1 + exp(w[2][of * dim + i])) + 1e-6;
        head[i] = h < c->heads ? head[i] * scale : head[i] / scale;
    }
    naive_exponential(w[0] + of * dim * dim, dim, 1, head);
}

/* Turns key head `of`, and the query heads that share it, by these angles of its pairs. */
static inline void naive_turn_group(const naive *d, int64_t of, const double *angle, double *qkv) {
    const gyre_model_config *c = &d->m->config;
    const int64_t group = c->heads / c->kv_heads, pairs = c->position.rope.dim / 2;
    for (int64_t h = of * group; h < (of + 1) * group; h++)
        naive_rotate_head(qkv + h * c->head_dim, pairs, c->position.rope.layout, angle, 1, 1);
    naive_rotate_head(qkv + (c->heads + of) * c->head_dim, pairs, c->position.rope.layout, angle, 1, 1);
}

/* Pair i turns by the sum over tokens of f^i, f = 1 / (softplus(w . y) + 1) (Veisi 2025). */
static inline void naive_token_frequencies(const naive *d, int64_t layer, int64_t m, const double *y, double *qkv) {
    const gyre_model_config *c = &d->m->config;
    for (int64_t of = 0; of < c->kv_heads; of++) {
        double angle[64] = {0};
        for (int64_t t = 0; t <= m; t++) {
            const double *w = naive_part_weights(d, layer, 0) + of * c->model_dim, *at = y - (m - t) * c->model_dim;
            const double f = 1 / (log(1 + exp(scheme_dot(w, at, c->model_dim))) + 1);
            for (int64_t i = 0; i < c->position.rope.dim / 2; i++)
                angle[i] += pow(f, (double)i);
        }
        naive_turn_group(d, of, angle, qkv);
    }
}

/* out = 1 / the norm of x, as rounded by the released code's epsilon. */
static inline double naive_over_norm(const double *x, int64_t n) {
    return 1 / sqrt(scheme_dot(x, x, n) + 1e-6);
}

/* out = what a convolution reads of the token of y, for pair i of key head `of`: a row of the map times its queries. */
static inline double naive_selected(const naive *d, int64_t layer, int64_t of, int64_t i, const double *y) {
    const gyre_model_config *c = &d->m->config;
    const int64_t group = c->heads / c->kv_heads, dim = c->head_dim, pairs = c->position.rope.dim / 2;
    const double *queries = d->w + gyre_layer_tensor_offset(&d->m->layout, layer, GYRE_WEIGHT_Q);
    const double *map = naive_part_weights(d, layer, 0) + (of * pairs + i) * group * dim;
    double sum = 0;
    for (int64_t h = 0; h < group; h++) {
        double q[64];
        for (int64_t k = 0; k < dim; k++)
            q[k] = scheme_dot(queries + ((of * group + h) * dim + k) * c->model_dim, y, c->model_dim);
        sum += naive_over_norm(q, dim) * scheme_dot(map + h * dim, q, dim);
    }
    return sum;
}

/* Pair i turns by base^(-2 i / dim) times a sum over tokens: of the gate times the convolution of the four last numbers of
 * the map (Movahedi 2025, figure 9, for softmax attention). */
static inline void naive_selective(const naive *d, int64_t layer, int64_t m, const double *y, double *qkv) {
    const gyre_model_config *c = &d->m->config;
    const struct gyre_rope_config *r = &c->position.rope;
    const double *taps = naive_part_weights(d, layer, 1), *gates = naive_part_weights(d, layer, 2),
                 *biases = naive_part_weights(d, layer, 3);
    for (int64_t of = 0; of < c->kv_heads; of++) {
        double angle[64] = {0};
        for (int64_t t = 0; t <= m; t++) {
            const double *x = y - (m - t) * c->model_dim;
            const double z = scheme_dot(gates + of * c->model_dim, x, c->model_dim) * naive_over_norm(x, c->model_dim);
            const double gate = 1 / (1 + exp(-z - biases[of]));
            for (int64_t i = 0; i < r->dim / 2; i++)
                for (int64_t j = 0; j < 4 && j <= t; j++)
                    angle[i] += pow(r->base, -2.0 * (double)i / (double)r->dim) * gate *
                                taps[(of * (r->dim / 2) + i) * 4 + j] *
                                naive_selected(d, layer, of, i, x - j * c->model_dim);
        }
        naive_turn_group(d, of, angle, qkv);
    }
}

/* All heads of queries and keys by a function of one. */
#define NAIVE_EACH_HEAD(name, call)                                                                                         \
    static inline void name(const naive *d, int64_t layer, int64_t m, const double *y, double *qkv) {                       \
        const gyre_model_config *c = &d->m->config;                                                                         \
        (void)m, (void)y;                                                                                                   \
        for (int64_t h = 0; h < c->heads + c->kv_heads; h++, qkv += c->head_dim)                                            \
            call;                                                                                                           \
    }
NAIVE_EACH_HEAD(naive_trained_heads, naive_turn(d, layer, h, (double)naive_position(d, m), qkv))
NAIVE_EACH_HEAD(naive_series_heads, naive_series(d, layer, h, (double)naive_position(d, m), qkv))
NAIVE_EACH_HEAD(naive_matrix_heads, naive_matrix(d, layer, h, qkv))
#undef NAIVE_EACH_HEAD

/* Rotates all heads to real positions (Li 2025): a gated network of the layer's input, whose hidden units all heads share,
 * and a row of the last map for each key head. */
static inline void naive_repositioned_heads(const naive *d, int64_t layer, int64_t m, const double *y, double *qkv) {
    const gyre_model_config *c = &d->m->config;
    const struct gyre_rope_config *r = &c->position.rope;
    const int64_t units = c->model_dim / 8;
    (void)m;
    for (int64_t h = 0; h < c->heads + c->kv_heads; h++, qkv += c->head_dim) {
        const int64_t of = h < c->heads ? h / (c->heads / c->kv_heads) : h - c->heads;
        double z = 0, inv_freq[64];
        for (int64_t j = 0; j < units; j++) {
            const double gate = scheme_dot(naive_part_weights(d, layer, 0) + j * c->model_dim, y, c->model_dim);
            const double content = scheme_dot(naive_part_weights(d, layer, 1) + j * c->model_dim, y, c->model_dim);
            z += naive_part_weights(d, layer, 2)[of * units + j] * gate / (1 + exp(-gate)) * content;
        }
        for (int64_t i = 0; i < r->dim / 2; i++)
            inv_freq[i] = pow(r->base, -2.0 * (double)i / (double)r->dim);
        naive_rotate_head(qkv, r->dim / 2, r->layout, inv_freq, z, 1);
    }
}

/* -- the list -- */
/* 5 of 16 layers count positions. */
static inline int64_t naive_after_five(int64_t layers) {
    const int64_t first = (int64_t)ceil(5.0 / 16 * (double)layers);
    return first < layers ? first : layers - 1;
}
/* A scaling with an attention factor. */
static inline void naive_polar_yarn(gyre_model_config *c) {
    c->position.rope.scaling = GYRE_SCALING_YARN;
    c->position.rope.factor = 3;
    c->position.rope.base = 50;
}
static inline void naive_half_rotated(gyre_model_config *c) {
    c->position.rope.dim = c->head_dim / 2;
}
/* At least four pairs. */
static inline void naive_wide_heads(gyre_model_config *c) {
    if (c->head_dim < 8) c->head_dim = 8;
}
/* More terms than series. */
static inline void naive_many_terms(gyre_model_config *c) {
    c->position.rope.base = 3;
}

/* A table, one row a part. */
/* clang-format off */
static const naive_part naive_parts[] = {
    {GYRE_LAYER_PART_POLAR, "polar", "key_phases", 1, .dot = naive_polar, .change = {NULL, naive_polar_yarn}},
    {GYRE_LAYER_PART_FREQUENCIES, "trained_frequencies", "self_attn.frequencies", 1, .heads = naive_trained_heads, .rotates = 1, .change = {NULL, naive_half_rotated}},
    {GYRE_LAYER_PART_FOURIER, "fourier", "fourier_", 2, .heads = naive_series_heads, .rotates = 1, .change = {naive_many_terms, NULL}, .option = GYRE_LAYER_PART_FOURIER_STILL},
    {GYRE_LAYER_PART_IMAGINARY, "imaginary", .heads = naive_imaginary_heads},
    {GYRE_LAYER_PART_HEAD_MATRICES, "head_matrices", "head_matrices", 3, .heads = naive_matrix_heads},
    {GYRE_LAYER_PART_REPOSITIONED, "repositioned", "_map.", 3, .decays = 1, .heads = naive_repositioned_heads, .rotates = 1, .change = {NULL, naive_half_rotated}, .first = naive_after_five},
    {GYRE_LAYER_PART_TOKEN_FREQUENCIES, "token_frequencies", "token_frequencies", 1, .decays = 1, .heads = naive_token_frequencies, .rotates = 1, .change = {naive_wide_heads, NULL}},
    {GYRE_LAYER_PART_SELECTIVE, "selective_rotation", "self_attn.selective.", 4, .decays = 1, .heads = naive_selective, .rotates = 1, .change = {NULL, naive_half_rotated}},
};
/* clang-format on */
enum { NAIVE_PARTS = sizeof naive_parts / sizeof *naive_parts };

/* out = the row of the part among layer_parts; NULL = there is none. */
static inline const naive_part *naive_part_of(int64_t layer_parts) {
    for (int i = 0; i < NAIVE_PARTS; i++)
        if (layer_parts & naive_parts[i].parts) return &naive_parts[i];
    return NULL;
}

/* out = the row of the part of a layer; NULL = the layer has none. */
static inline const naive_part *naive_part_in(const naive *d, int64_t layer) {
    const naive_part *part = naive_part_of(d->m->config.layer_parts);
    return part && (!part->first || layer >= part->first(d->m->config.layers)) ? part : NULL;
}

#endif
