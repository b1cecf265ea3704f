/* naive_decoder.h: the decoder in double, one token and one head at a time, straight from the formulas: the oracle of the
 * real one.  It reads the same block of weights.  The terms that an encoding adds are in naive_positions.h. */
#ifndef GYRE_TESTS_NAIVE_DECODER_H
#define GYRE_TESTS_NAIVE_DECODER_H
#include "naive_parts.h"

static inline void naive_norm(const naive *d, const double *gain, const double *x, double *y) {
    double mean = 0;
    for (int64_t i = 0; i < d->m->config.model_dim; i++)
        mean += x[i] * x[i] / (double)d->m->config.model_dim;
    for (int64_t i = 0; i < d->m->config.model_dim; i++)
        y[i] = x[i] / sqrt(mean + d->m->config.norm_epsilon) * gain[i];
}

static inline void naive_product(const double *w, int64_t out, int64_t in, const double *x, double *y) {
    for (int64_t o = 0; o < out; o++) {
        y[o] = 0;
        for (int64_t i = 0; i < in; i++)
            y[o] += w[o * in + i] * x[i];
    }
}

/* Rotates one head to `position`, with the frequencies of a context length. */
static inline void naive_rotate_at(const naive *d, int64_t length, double position, double *head) {
    const gyre_config *p = gyre_encoding_get_config(d->encoding);
    if (p->kind != GYRE_KIND_ROPE) return;
    double inv_freq[256], attention;
    if (d->lengths)
        d->lengths->frequencies(p, length, inv_freq, &attention);
    else if (gyre_encoding_frequencies(d->encoding, length, inv_freq, &attention))
        abort();
    naive_rotate_head(head, p->rope.dim / 2, p->rope.layout, inv_freq, position, attention);
}

/* The head of a layer.  Layers may have different bases, and a layer of base 0 does not rotate. */
static inline void naive_rotate(const naive *d, int64_t layer, double position, double *head) {
    const struct gyre_rope_config *r = &naive_config(d)->rope;
    const double *bases = d->m->config.layer_bases;
    double inv_freq[256];
    if (!bases) naive_rotate_at(d, d->length, position, head);
    if (!bases || bases[layer] == 0) return;
    for (int64_t i = 0; i < r->dim / 2; i++)
        inv_freq[i] = pow(bases[layer], -2.0 * (double)i / (double)r->dim);
    naive_rotate_head(head, r->dim / 2, r->layout, inv_freq, position, 1);
}

/* out = the positions by which to rotate the query further, so that the pair is rotated as at the distance that ReRoPE,
 * leaky ReRoPE, Self-Extend or Dual Chunk Attention give it. */
static inline double naive_far(const naive *d, int64_t m, int64_t n) {
    return scheme_rotation_distance(naive_config(d), m, n) - (double)(m - n);
}

/* Rotates a query and a key, unrotated so far, where each query has its own context length. */
static inline void naive_rotate_pair(const naive *d, const naive_pair *at, double *q, double *k) {
    const int64_t length = d->lengths->of(d->lengths, at->m);
    naive_rotate_at(d, length, (double)at->m + naive_far(d, at->m, at->n), q);
    naive_rotate_at(d, length, (double)at->n, k);
}

/* out = what the position of key n that the query at m counts adds to their score (Golovneva 2024): the query times the
 * embedding at the sum of all gates from the key to the query, on the line between its neighbours. */
static inline double naive_counted(const naive *d, const naive_pair *at, const double *qkv, const double *q) {
    const gyre_model_config *c = &d->m->config;
    const int64_t dim = c->head_dim, row = (c->heads + 2 * c->kv_heads) * dim, last = c->position.score.max_positions - 1;
    const double *e = d->w + gyre_layer_tensor_offset(&d->m->layout, at->layer, GYRE_WEIGHT_CONTEXTUAL);
    double position = 0;
    for (int64_t t = at->n; t <= at->m; t++) {
        const double *k = qkv + t * row + (c->heads + at->head / (c->heads / c->kv_heads)) * dim;
        position += 1 / (1 + exp(-scheme_dot(q, k, dim) / sqrt((double)dim)));
    }
    position = fmin(position, (double)last);
    const int64_t low = (int64_t)floor(position), high = low < last ? low + 1 : last;
    const double part = position - (double)low;
    return (1 - part) * scheme_dot(q, e + low * dim, dim) + part * scheme_dot(q, e + high * dim, dim);
}

/* out = the score of a pair whose biases the layer's network adapts (Zheng 2024): A + B + f([A, B]) of all heads,
 * A + f([A, B]) or A + B + f(A + B), with f a network of one hidden layer of leaky ReLUs, whose outputs have no bias. */
static inline double naive_adapted(const naive *d, const naive_scheme *scheme, const naive_pair *at, const double *qkv) {
    enum { MOST_HEADS = 16 };
    const gyre_model_config *c = &d->m->config;
    const int64_t heads = c->heads, dim = c->head_dim, row = (heads + 2 * c->kv_heads) * dim,
                  units = c->position.score.hidden_units;
    const double *hidden = d->w + gyre_layer_tensor_offset(&d->m->layout, at->layer, GYRE_WEIGHT_ADAPTIVE_HIDDEN);
    const double *hidden_bias = d->w + gyre_layer_tensor_offset(&d->m->layout, at->layer, GYRE_WEIGHT_ADAPTIVE_HIDDEN_BIAS);
    const double *output = d->w + gyre_layer_tensor_offset(&d->m->layout, at->layer, GYRE_WEIGHT_ADAPTIVE_OUTPUT);
    const int adds = naive_has(d, GYRE_LAYER_PART_ADAPTIVE_ADD);
    double a[MOST_HEADS], b[MOST_HEADS], x[2 * MOST_HEADS];
    for (int64_t h = 0; h < heads; h++) {
        const naive_pair pair = {at->layer, h, naive_position(d, at->m), naive_position(d, at->n)};
        const double *q = qkv + at->m * row + h * dim, *k = qkv + at->n * row + (heads + h / (heads / c->kv_heads)) * dim;
        const scheme_terms terms = naive_terms(scheme, &pair, q, k, NULL);
        a[h] = terms.product / sqrt((double)dim);
        b[h] = terms.bias;
        x[h] = adds ? a[h] + b[h] : a[h];
        x[heads + h] = b[h];
    }
    double score = a[at->head] + (naive_has(d, GYRE_LAYER_PART_ADAPTIVE_CONCAT) ? 0 : b[at->head]);
    for (int64_t u = 0; u < units; u++) {
        const int64_t inputs = adds ? heads : 2 * heads;
        const double z = hidden_bias[u] + scheme_dot(hidden + u * inputs, x, inputs);
        score += output[at->head * units + u] * (z > 0 ? z : 0.01 * z);
    }
    return score;
}

/* 1: the model has forget gates. */
static inline int naive_forgets(const naive *d) {
    return naive_has(d, GYRE_LAYER_PART_FORGET_GATES);
}

/* out = the logarithm of the forget gate of a head, for the normalized input y of its layer. */
static inline double naive_log_gate(const naive *d, int64_t layer, int64_t head, const double *y) {
    const int64_t dim = d->m->config.model_dim;
    const double *w = d->w + gyre_layer_tensor_offset(&d->m->layout, layer, GYRE_WEIGHT_FORGET_GATE);
    const double *b = d->w + gyre_layer_tensor_offset(&d->m->layout, layer, GYRE_WEIGHT_FORGET_GATE_BIAS);
    return -log(1 + exp(-(scheme_dot(w + head * dim, y, dim) + b[head])));
}

/* out = what the gates of the tokens after n, up to m, leave of key n, as a logarithm.  gates [tokens][heads]. */
static inline double naive_forgotten(const naive *d, const double *gates, const naive_pair *at) {
    double sum = 0;
    for (int64_t t = at->n + 1; t <= at->m && naive_forgets(d); t++)
        sum += gates[t * d->m->config.heads + at->head];
    return sum;
}

/* qkv = queries, keys and values of token m, as attention takes them but for the encoding's rotation.  y: the normalized
 * input of the layer, after that of the tokens before m. */
static inline void naive_project(const naive *d, int64_t layer, int64_t m, const double *y, double *qkv) {
    const double *w = d->w + gyre_layer_tensor_offset(&d->m->layout, layer, GYRE_WEIGHT_Q);
    const gyre_model_config *c = &d->m->config;
    const int64_t heads = naive_has(d, GYRE_LAYER_PART_IMAGINARY) ? c->heads / 2 : c->heads;
    const naive_part *part = naive_part_in(d, layer);
    naive_product(w, heads * gyre_query_dim(c) + 2 * c->kv_heads * c->head_dim, c->model_dim, y, qkv);
    if (part && part->heads) part->heads(d, layer, m, y, qkv);
}

static inline void naive_attend(const naive *d, const naive_scheme *scheme, int64_t layer, const double *qkv,
                                const double *gates, int64_t m, double *out) {
    const gyre_model_config *c = &d->m->config;
    const int64_t dim = c->head_dim, group = c->heads / c->kv_heads, own = gyre_query_dim(c);
    const int64_t keys = c->heads * own, row = keys + 2 * c->kv_heads * dim; /* of a query, then of a key and a value */
    double *s = malloc((size_t)(m + 1) * sizeof *s), *value_term = calloc((size_t)(3 * own), sizeof *value_term),
           *q = value_term + own;
    double *k = q + own;
    const naive_part *part = naive_part_in(d, layer);
    for (int64_t h = 0; h < c->heads; h++) {
        double row_max = -INFINITY, sum = 0;
        for (int64_t n = 0; n <= m; n++) {
            const naive_pair tokens = {layer, h, m, n}, pair = {layer, h, naive_position(d, m), naive_position(d, n)};
            memcpy(k, qkv + n * row + keys + h / group * dim, (size_t)dim * sizeof *k);
            memcpy(q, qkv + m * row + h * own, (size_t)own * sizeof *q);
            if (d->lengths) naive_rotate_pair(d, &pair, q, k);
            const scheme_terms terms = naive_terms(scheme, &pair, q, k, NULL);
            const double dot = part && part->dot ? part->dot(d, &pair, q, k) : terms.product;
            s[n] = dot / sqrt(terms.channels) + terms.bias + naive_forgotten(d, gates, &tokens);
            if (naive_has(d, GYRE_LAYER_PART_CONTEXTUAL)) s[n] += naive_counted(d, &tokens, qkv, q);
            if (naive_has(d, GYRE_LAYER_PART_ADAPTIVE)) s[n] = naive_adapted(d, scheme, &tokens, qkv);
            row_max = fmax(row_max, s[n]);
        }
        for (int64_t n = 0; n <= m; n++)
            sum += s[n] = exp(s[n] - row_max);
        memset(out + h * dim, 0, (size_t)dim * sizeof *out);
        memset(value_term, 0, (size_t)dim * sizeof *value_term);
        for (int64_t n = 0; n <= m; n++) {
            const naive_pair pair = {layer, h, naive_position(d, m), naive_position(d, n)};
            if (scheme_adds_values(&scheme->of)) naive_terms(scheme, &pair, q, k, value_term);
            for (int64_t i = 0; i < dim; i++)
                out[h * dim + i] += s[n] / sum * (qkv[n * row + keys + (c->kv_heads + h / group) * dim + i] + value_term[i]);
        }
    }
    free(s);
    free(value_term);
}

static inline void naive_layer(const naive *d, int64_t layer, double *x) {
    const gyre_model_config *c = &d->m->config;
    const int64_t model_dim = c->model_dim, heads = c->heads * c->head_dim;
    const int64_t row = c->heads * gyre_query_dim(c) + 2 * c->kv_heads * c->head_dim;
    const double *w[GYRE_WEIGHT_FIRST_TABLE];
    for (int t = 0; t < GYRE_WEIGHT_FIRST_TABLE; t++)
        w[t] = d->w + gyre_layer_tensor_offset(&d->m->layout, layer, t);
    double *qkv = malloc((size_t)(d->n * row) * sizeof *qkv), *mixed = malloc((size_t)heads * sizeof *mixed);
    double *gates = calloc((size_t)(d->n * c->heads), sizeof *gates);
    naive_scheme scheme = naive_scheme_make(d, layer);
    double *inputs = malloc((size_t)((d->n + 1) * model_dim + 2 * c->mlp_dim) * sizeof *inputs),
           *gate = inputs + d->n * model_dim, *back = gate + 2 * c->mlp_dim, *y;
    const naive_part *part = naive_part_in(d, layer);
    for (int64_t m = 0; m < d->n; m++) {
        const double position = (double)naive_position(d, m);
        y = inputs + m * model_dim;
        naive_norm(d, w[GYRE_WEIGHT_ATTN_NORM], x + m * model_dim, y);
        naive_project(d, layer, m, y, qkv + m * row);
        for (int64_t h = 0; h < c->heads && naive_forgets(d); h++)
            gates[m * c->heads + h] = naive_log_gate(d, layer, h, y);
        const int later = scheme.of.rotates || (part && (part->rotates || part->dot));
        for (int64_t h = 0; h < c->heads + c->kv_heads && !d->lengths && !c->rotates_input && !later; h++)
            naive_rotate(d, layer, position, qkv + m * row + h * c->head_dim);
        for (int64_t h = 0; h < model_dim / c->head_dim && c->rotates_input; h++)
            naive_rotate(d, layer, position, y + h * c->head_dim);
        if (c->rotates_input) naive_product(w[GYRE_WEIGHT_Q], row - c->kv_heads * c->head_dim, model_dim, y, qkv + m * row);
    }
    y = inputs;
    for (int64_t m = 0; m < d->n; m++, x += model_dim) {
        naive_attend(d, &scheme, layer, qkv, gates, m, mixed);
        naive_product(w[GYRE_WEIGHT_O], model_dim, heads, mixed, back);
        for (int64_t i = 0; i < model_dim; i++)
            x[i] += back[i];
        naive_norm(d, w[GYRE_WEIGHT_MLP_NORM], x, y);
        naive_product(w[GYRE_WEIGHT_GATE], 2 * c->mlp_dim, model_dim, y, gate);
        for (int64_t i = 0; i < c->mlp_dim; i++)
            gate[i] = gate[i] / (1 + exp(-gate[i])) * gate[c->mlp_dim + i];
        naive_product(w[GYRE_WEIGHT_DOWN], model_dim, c->mlp_dim, gate, back);
        for (int64_t i = 0; i < model_dim; i++)
            x[i] += back[i];
    }
    naive_scheme_free(&scheme);
    free(qkv);
    free(mixed);
    free(gates);
    free(inputs);
}

/* x = the embedding x with its position, in the form of the model. */
static inline void naive_form(const naive *d, int64_t m, double *x) {
    const int64_t dim = d->m->config.model_dim, form = d->m->config.position_form, first = dim - dim / 4;
    const double base = naive_config(d)->input.base;
    for (int64_t c = 0; c < dim && form == GYRE_POSITION_FORM_PRODUCT; c++) {
        const double angle = (double)m * pow(base, -2.0 * (double)(c / 2) / (double)dim);
        x[c] *= c % 2 ? cos(angle) : sin(angle);
    }
    for (int64_t c = 0; c < dim / 4 && form == GYRE_POSITION_FORM_CONCATENATED; c++) {
        const double angle = (double)m * pow(base, -2.0 * (double)(c / 2) / ((double)dim / 4));
        x[first + c] = c % 2 ? cos(angle) : sin(angle);
    }
    if (form == GYRE_POSITION_FORM_SUM) naive_input(d, m, x);
}

/* logits[n][vocab]. */
static inline void naive_logits(const naive *d, const int32_t *tokens, double *logits) {
    const int64_t model_dim = d->m->config.model_dim;
    double *x = malloc((size_t)(d->n * model_dim) * sizeof *x), *y = malloc((size_t)model_dim * sizeof *y);
    for (int64_t m = 0; m < d->n; m++) {
        memcpy(x + m * model_dim, d->w + tokens[m] * model_dim, (size_t)model_dim * sizeof *x);
        naive_form(d, naive_position(d, m), x + m * model_dim);
    }
    for (int64_t l = 0; l < d->m->config.layers; l++)
        naive_layer(d, l, x);
    for (int64_t m = 0; m < d->n; m++) {
        naive_norm(d, d->w + d->m->layout.final_norm.offset, x + m * model_dim, y);
        naive_product(d->w, d->m->config.vocab, model_dim, y, logits + m * d->m->config.vocab);
    }
    free(x);
    free(y);
}

/* out = the sum over tokens[1 .. n] of -weight log p. */
static inline double naive_loss(const naive *d, const int32_t *tokens, const float *weights) {
    double *logits = malloc((size_t)(d->n * d->m->config.vocab) * sizeof *logits), loss = 0;
    naive_logits(d, tokens, logits);
    for (int64_t m = 0; m < d->n; m++) {
        const double *row = logits + m * d->m->config.vocab;
        double sum = 0;
        for (int64_t i = 0; i < d->m->config.vocab; i++)
            sum += exp(row[i] - row[tokens[m + 1]]);
        loss += (double)weights[m + 1] * log(sum);
    }
    free(logits);
    return loss;
}

static inline double *naive_weights(const gyre_model *model) {
    double *w = malloc((size_t)model->weight_count * sizeof *w);
    for (int64_t i = 0; i < model->weight_count; i++)
        w[i] = (double)model->weights[i];
    return w;
}

/* The model of `config` from seed 11, with noise in [-noise, noise) on every weight. */
static inline gyre_model *naive_model(const gyre_model_config *config, double noise) {
    gyre_model *model = NULL;
    gyre_error err = {0, ""};
    test_random random = {5};
    if (gyre_model_create(&model, config, 11, &err)) fail_msg("%s", err.text);
    naive_perturb(model, noise, &random);
    return model;
}

/* *c = the first or the second config of a part. */
static inline void naive_part_config(const naive_part *part, int second, gyre_model_config *c) {
    c->position = (gyre_config){.kind = GYRE_KIND_ROPE, .trained_length = c->position.trained_length};
    c->position_form = c->shared_tables = c->rotates_input = 0;
    c->layer_parts = part->parts | (second ? GYRE_LAYER_PART_FORGET_GATES | part->option : 0);
    if (second) c->position.rope.layout = GYRE_LAYOUT_INTERLEAVED;
    if (part->change[second]) part->change[second](c);
}

/* out = 1: *c is experiment number i, of gyre_model_config's fields for experiments; 0: there are no more.  c: any sizes. */
static inline int naive_experiment(int i, gyre_model_config *c) {
    enum { GATES = GYRE_LAYER_PART_FORGET_GATES, ADAPTS = GYRE_LAYER_PART_ADAPTIVE };
    static const struct {
        gyre_kind kind;
        int64_t parts;
    } cases[] = {{GYRE_KIND_SINUSOIDAL, 0},
                 {GYRE_KIND_SINUSOIDAL, 0},
                 {GYRE_KIND_T5, 0},
                 {GYRE_KIND_SHAW, 0},
                 {GYRE_KIND_ROPE, 0},
                 {GYRE_KIND_ROPE, 0},
                 {GYRE_KIND_NOPE, GATES},
                 {GYRE_KIND_ROPE, GATES},
                 {GYRE_KIND_NOPE, GYRE_LAYER_PART_CONTEXTUAL},
                 {GYRE_KIND_NOPE, GYRE_LAYER_PART_CONTEXTUAL},
                 {GYRE_KIND_ALIBI, ADAPTS},
                 {GYRE_KIND_KERPLE, ADAPTS},
                 {GYRE_KIND_T5, ADAPTS},
                 {GYRE_KIND_FIRE, ADAPTS | GYRE_LAYER_PART_ADAPTIVE_CONCAT},
                 {GYRE_KIND_SANDWICH, ADAPTS | GYRE_LAYER_PART_ADAPTIVE_ADD},
                 {GYRE_KIND_NOPE, ADAPTS | GYRE_LAYER_PART_ADAPTIVE_ADD},
                 {GYRE_KIND_ROPE, 0},
                 {GYRE_KIND_ROPE, GATES}};
    static const double bases[] = {0, 40, 10000};
    enum { CASES = sizeof cases / sizeof *cases, BASES = CASES - 2 };
    c->layer_bases = NULL;
    c->layer_bases_count = 0;
    if (i >= CASES) {
        const int part = (i - CASES) / 2;
        if (part < NAIVE_PARTS) naive_part_config(&naive_parts[part], (i - CASES) % 2, c);
        return part < NAIVE_PARTS;
    }
    const gyre_kind kind = cases[i].kind;
    c->position = (gyre_config){.kind = kind, .trained_length = c->position.trained_length};
    c->position.score.buckets = kind == GYRE_KIND_T5 ? 8 : 0;
    c->position.score.max_distance = kind == GYRE_KIND_SHAW ? 5 : 0;
    c->position_form = i == 0 ? GYRE_POSITION_FORM_PRODUCT : i == 1 ? GYRE_POSITION_FORM_CONCATENATED : 0;
    c->shared_tables = i == 2 || i == 3 || i == 12;
    c->rotates_input = i == 4 || i == 5;
    c->layer_parts = cases[i].parts;
    if (i == 9) c->position.score.max_positions = 5;          /* fewer than there are tokens */
    if (i > 10 && i < 16) c->position.score.hidden_units = 5; /* 10: 32 */
    if (i == 14) c->position.score.sinusoid_dim = 4; /* biases small enough for units to change sides from key to key */
    if (i >= BASES) {                                /* the first of two layers stays, or each has another base */
        c->layer_bases = bases + (i - BASES);
        c->layer_bases_count = 2;
    }
    if (i == 5) { /* an attention factor, so that the gradient is not the inverse; some channels stay */
        c->position.rope.attention_factor = 1.3;
        c->position.rope.dim = c->head_dim / 2;
    }
    return 1;
}

/* Three layers of 32 channels, 4 heads of 8, 2 key heads, 48 tokens. */
enum { NAIVE_VOCAB = 48, NAIVE_HEAD_DIM = 8 };
static inline gyre_model_config naive_model_config(void) {
    gyre_model_config c = gyre_model_config_default();
    c.vocab = NAIVE_VOCAB;
    c.model_dim = 32;
    c.layers = 3;
    c.heads = 4;
    c.kv_heads = 2;
    c.head_dim = NAIVE_HEAD_DIM;
    c.mlp_dim = 40;
    return c;
}

static inline void naive_draw_tokens(int32_t *tokens, int64_t n) {
    test_random random = {9};
    for (int64_t i = 0; i < n; i++)
        tokens[i] = (int32_t)(test_next(&random) % NAIVE_VOCAB);
}

#endif
