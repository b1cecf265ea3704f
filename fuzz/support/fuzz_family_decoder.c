/* fuzz_family_decoder.c: what a model of a family computes, in double, token by token, as its own program defines it. */
#include "fuzz_family.h"

#include "fuzz_support.h"
#include "numbers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 512 }; /* channels of a row */

typedef struct run {
    family_model *m;
    test_random random;
    int shake;
    int64_t tokens;
    double *x, *q, *k, *v, *mixed; /* [tokens][MOST] */
} run;

/* out = a copy of a tensor's values, shaken where that is asked for; NULL = the model has none.  The caller frees it. */
static double *take(run *r, family_role role, int layer, int bias) {
    const family_tensor *t = fuzz_family_find(r->m, role, layer, bias);
    if (!t) return NULL;
    double *out = fuzz_room((size_t)t->count, sizeof *out);
    for (int64_t i = 0; i < t->count; i++)
        out[i] = t->values[i] * (r->shake ? 1 + test_uniform(&r->random) * 0x1p-22 : 1);
    return out;
}

/* y = W x + b for each token. */
static void map(run *r, family_role role, int layer, int64_t out, int64_t in, const double *x, double *y) {
    double *w = take(r, role, layer, 0), *b = take(r, role, layer, 1);
    const int sideways = r->m->traits & FAMILY_SIDEWAYS && role >= FAMILY_ATTN_NORM;
    for (int64_t t = 0; t < r->tokens; t++)
        for (int64_t o = 0; o < out; o++) {
            double sum = b ? b[o] : 0;
            for (int64_t i = 0; i < in; i++)
                sum += w[sideways ? i * out + o : o * in + i] * x[t * MOST + i];
            y[t * MOST + o] = sum;
        }
    free(w);
    free(b);
}

static void normalize_row(const family_model *m, const double *gain, const double *bias, int64_t n, double *x) {
    double mean = 0, square = 0;
    for (int64_t i = 0; i < n && m->traits & FAMILY_LAYER_NORM; i++)
        mean += x[i] / (double)n;
    for (int64_t i = 0; i < n; i++)
        square += (x[i] - mean) * (x[i] - mean) / (double)n;
    for (int64_t i = 0; i < n; i++)
        x[i] = (x[i] - mean) / sqrt(square + m->epsilon) * (gain[i] + (m->traits & FAMILY_GAIN_ONE ? 1 : 0)) +
               (bias ? bias[i] : 0);
}

/* Rows of n numbers, `rows` of them side by side in each token.  Does nothing if the model has no such norm. */
static void normalize(run *r, family_role role, int layer, int64_t n, int64_t rows, double *x) {
    double *gain = take(r, role, layer, 0), *bias = take(r, role, layer, 1);
    for (int64_t t = 0; t < r->tokens && gain; t++)
        for (int64_t i = 0; i < rows; i++)
            normalize_row(r->m, gain, bias, n, x + t * MOST + i * n);
    free(gain);
    free(bias);
}

/* -- attention -- */
static void rotate(const family_model *m, int layer, double position, double *head) {
    const int64_t pairs = m->rotated / 2;
    for (int64_t i = 0; i < pairs && m->layer[layer].rotates; i++) {
        const int64_t a = m->traits & FAMILY_ADJACENT ? 2 * i : i, c = m->traits & FAMILY_ADJACENT ? a + 1 : i + pairs;
        const double plain = pow(m->layer[layer].base, -2.0 * (double)i / (double)m->rotated) / m->layer[layer].factor;
        const double angle = position * (m->layer[layer].scaled ? m->frequencies[i] : plain), x = head[a], y = head[c],
                     scale = m->layer[layer].scaled ? m->attention_factor : 1;
        head[a] = scale * (x * cos(angle) - y * sin(angle));
        head[c] = scale * (y * cos(angle) + x * sin(angle));
    }
}

/* The slopes of ALiBi's paper; where heads are no power of two, every other one of the next power follows. */
static double slope(const family_model *m, int64_t head) {
    int64_t power = 1;
    while (2 * power <= m->heads)
        power *= 2;
    if (head < power) return pow(2, -m->bias_max / (double)power * (double)(head + 1));
    return pow(2, -m->bias_max / (double)(2 * power) * (double)(2 * (head - power) + 1));
}

static void split(run *r, const double *fused) {
    const family_model *m = r->m;
    const int64_t q = m->heads * m->head_dim, kv = m->kv_heads * m->head_dim, dim = m->head_dim;
    for (int64_t t = 0; t < r->tokens; t++) {
        const double *row = fused + t * 2 * MOST;
        for (int64_t i = 0; i < q; i++)
            r->q[t * MOST + i] = m->traits & FAMILY_QKV_BY_HEAD ? row[i / dim * 3 * dim + i % dim] : row[i];
        for (int64_t i = 0; i < kv; i++) {
            const int by_head = m->traits & FAMILY_QKV_BY_HEAD;
            r->k[t * MOST + i] = by_head ? row[i / dim * 3 * dim + dim + i % dim] : row[q + i];
            r->v[t * MOST + i] = by_head ? row[i / dim * 3 * dim + 2 * dim + i % dim] : row[q + kv + i];
        }
    }
}

static void project_fused(run *r, int layer, const double *h) {
    const family_model *m = r->m;
    const int64_t out = (m->heads + 2 * m->kv_heads) * m->head_dim;
    double *fused = fuzz_room((size_t)(r->tokens * 2 * MOST), sizeof *fused);
    double *w = take(r, FAMILY_QKV, layer, 0), *b = take(r, FAMILY_QKV, layer, 1);
    for (int64_t t = 0; t < r->tokens; t++)
        for (int64_t o = 0; o < out; o++) {
            double sum = b ? b[o] : 0;
            for (int64_t i = 0; i < m->width; i++)
                sum += w[m->traits & FAMILY_SIDEWAYS ? i * out + o : o * m->width + i] * h[t * MOST + i];
            fused[t * 2 * MOST + o] = sum;
        }
    split(r, fused);
    free(w);
    free(b);
    free(fused);
}

static void clip(const family_model *m, double *x, int64_t n) {
    for (int64_t i = 0; i < n && m->clip > 0; i++)
        x[i] = fmin(fmax(x[i], -m->clip), m->clip);
}

static void prepare(run *r, int layer) {
    const family_model *m = r->m;
    const int together = (m->traits & FAMILY_NO_PRE_NORMS) != 0;
    for (int64_t t = 0; t < r->tokens; t++) {
        clip(m, r->q + t * MOST, MOST);
        clip(m, r->k + t * MOST, MOST);
        clip(m, r->v + t * MOST, MOST);
    }
    normalize(r, FAMILY_QUERY_NORM, layer, together ? m->heads * m->head_dim : m->head_dim, together ? 1 : m->heads, r->q);
    normalize(r, FAMILY_KEY_NORM, layer, together ? m->kv_heads * m->head_dim : m->head_dim, together ? 1 : m->kv_heads,
              r->k);
    for (int64_t t = 0; t < r->tokens; t++) {
        for (int64_t h = 0; h < m->heads; h++)
            rotate(m, layer, (double)t, r->q + t * MOST + h * m->head_dim);
        for (int64_t h = 0; h < m->kv_heads; h++)
            rotate(m, layer, (double)t, r->k + t * MOST + h * m->head_dim);
    }
}

static void attend(run *r, int layer, int64_t t, int64_t head) {
    const family_model *m = r->m;
    const int64_t dim = m->head_dim, at = head * dim, from = head / (m->heads / m->kv_heads) * dim;
    double score[FAMILY_POSITIONS], sum = 0, most = -INFINITY;
    for (int64_t n = 0; n <= t; n++) {
        double dot = 0;
        for (int64_t i = 0; i < dim; i++)
            dot += r->q[t * MOST + at + i] * r->k[n * MOST + from + i];
        dot *= m->attn_scale;
        if (m->attn_softcap > 0) dot = m->attn_softcap * tanh(dot / m->attn_softcap);
        if (m->traits & FAMILY_ALIBI) dot -= slope(m, head) * (double)(t - n);
        score[n] = m->layer[layer].window > 0 && t - n >= m->layer[layer].window ? -INFINITY : dot;
        most = fmax(most, score[n]);
    }
    for (int64_t n = 0; n <= t; n++)
        sum += score[n] = exp(score[n] - most);
    for (int64_t i = 0; i < dim; i++) {
        r->mixed[t * MOST + at + i] = 0;
        for (int64_t n = 0; n <= t; n++)
            r->mixed[t * MOST + at + i] += score[n] / sum * r->v[n * MOST + from + i];
    }
}

/* y = the attention block's output for h. */
static void attention(run *r, int layer, const double *h, double *y) {
    const family_model *m = r->m;
    const int64_t q = m->heads * m->head_dim, kv = m->kv_heads * m->head_dim;
    if (m->traits & FAMILY_FUSED_QKV) {
        project_fused(r, layer, h);
    } else {
        map(r, FAMILY_Q, layer, q, m->width, h, r->q);
        map(r, FAMILY_K, layer, kv, m->width, h, r->k);
        map(r, FAMILY_V, layer, kv, m->width, h, r->v);
    }
    prepare(r, layer);
    for (int64_t t = 0; t < r->tokens; t++)
        for (int64_t head = 0; head < m->heads; head++)
            attend(r, layer, t, head);
    map(r, FAMILY_O, layer, m->width, q, r->mixed, y);
    normalize(r, FAMILY_POST_ATTN_NORM, layer, m->width, 1, y);
}

/* -- mlp -- */
static double activate(family_activation activation, double x) {
    switch (activation) {
    case FAMILY_IS_GELU:
        return 0.5 * x * (1 + erf(x / sqrt(2)));
    case FAMILY_IS_GELU_TANH:
        return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
    case FAMILY_IS_RELU:
        return x > 0 ? x : 0;
    default:
        return x / (1 + exp(-x));
    }
}

static void mlp(run *r, int layer, const double *h, double *y) {
    const family_model *m = r->m;
    double *gate = fuzz_room((size_t)(r->tokens * MOST), sizeof *gate),
           *up = fuzz_room((size_t)(r->tokens * MOST), sizeof *up);
    if (m->traits & FAMILY_FUSED_UP) {
        map(r, FAMILY_GATE_UP, layer, 2 * m->mlp_dim, m->width, h, gate);
        for (int64_t t = 0; t < r->tokens; t++)
            memcpy(up + t * MOST, gate + t * MOST + m->mlp_dim, (size_t)m->mlp_dim * sizeof *up);
    } else {
        if (m->traits & FAMILY_GATED) map(r, FAMILY_GATE, layer, m->mlp_dim, m->width, h, gate);
        map(r, FAMILY_UP, layer, m->mlp_dim, m->width, h, up);
    }
    for (int64_t i = 0; i < r->tokens * MOST; i++)
        up[i] = m->traits & FAMILY_GATED ? activate(m->activation, gate[i]) * up[i] : activate(m->activation, up[i]);
    map(r, FAMILY_DOWN, layer, m->width, m->mlp_dim, up, y);
    normalize(r, FAMILY_POST_MLP_NORM, layer, m->width, 1, y);
    free(gate);
    free(up);
}

/* -- layers -- */
static void add_block(run *r, const double *y) {
    for (int64_t i = 0; i < r->tokens * MOST; i++)
        r->x[i] += r->m->residual_scale * y[i];
}

static void layer_of(run *r, int layer) {
    const family_model *m = r->m;
    const size_t bytes = (size_t)(r->tokens * MOST) * sizeof(double);
    double *h = fuzz_room(1, bytes), *second = fuzz_room(1, bytes), *y = fuzz_room(1, bytes);
    memcpy(h, r->x, bytes);
    memcpy(second, r->x, bytes);
    normalize(r, FAMILY_ATTN_NORM, layer, m->width, 1, h);
    attention(r, layer, h, y);
    if (m->traits & FAMILY_PARALLEL && !(m->traits & FAMILY_SECOND_NORM)) memcpy(second, h, bytes);
    add_block(r, y);
    if (!(m->traits & FAMILY_PARALLEL)) memcpy(second, r->x, bytes);
    normalize(r, FAMILY_MLP_NORM, layer, m->width, 1, second);
    memset(y, 0, bytes);
    mlp(r, layer, second, y);
    add_block(r, y);
    free(h);
    free(second);
    free(y);
}

static void embed(run *r, const int32_t *ids) {
    const family_model *m = r->m;
    double *table = take(r, FAMILY_EMBEDDING, -1, 0), *positions = take(r, FAMILY_TABLE, -1, 0);
    for (int64_t t = 0; t < r->tokens; t++)
        for (int64_t i = 0; i < m->width; i++)
            r->x[t * MOST + i] = table[ids[t] * m->width + i] * m->embed_scale;
    normalize(r, FAMILY_EMBED_NORM, -1, m->width, 1, r->x);
    for (int64_t t = 0; t < r->tokens && positions; t++)
        for (int64_t i = 0; i < m->width; i++)
            r->x[t * MOST + i] += positions[t * m->width + i];
    free(table);
    free(positions);
}

void fuzz_family_logits(family_model *m, const int32_t *ids, int64_t tokens, int shake, double *logits) {
    const size_t row = (size_t)(tokens * MOST);
    run r = {.m = m, .random = {77}, .shake = shake, .tokens = tokens};
    double *memory = fuzz_room(6 * row, sizeof *memory), *out = memory + 5 * row;
    r.x = memory, r.q = memory + row, r.k = memory + 2 * row, r.v = memory + 3 * row, r.mixed = memory + 4 * row;
    embed(&r, ids);
    for (int layer = 0; layer < m->layers; layer++)
        layer_of(&r, layer);
    normalize(&r, FAMILY_FINAL_NORM, -1, m->width, 1, r.x);
    map(&r, m->has_head ? FAMILY_HEAD : FAMILY_EMBEDDING, -1, m->vocab, m->width, r.x, out);
    for (int64_t t = 0; t < tokens; t++)
        for (int64_t w = 0; w < m->vocab; w++) {
            const double x = out[t * MOST + w] * m->logit_scale;
            logits[t * m->vocab + w] = m->logit_softcap > 0 ? m->logit_softcap * tanh(x / m->logit_softcap) : x;
        }
    free(memory);
}
