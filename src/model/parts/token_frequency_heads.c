/* token_frequency_heads.c: CARoPE.  A token makes a number f from 0 to 1 for each key head, and pair i adds f^i to its
 * angle: with the same f for all tokens that is RoPE of base f^(-pairs). */
#include "core/convert.h"
#include "gyre/gyre_model.h"
#include "model/parts/token_angles.h"

#include <math.h>

static void load_x(const gyre_head_views *heads, int64_t batch, int64_t token, int64_t model_dim, double *x) {
    gyre_load_row_f64(gyre_view_at(&heads->x, batch, token, 0, 0), heads->x.dtype, heads->x.stride[3], model_dim, x);
}

/* out = x . W_h, in the order of channels. */
static double product(const gyre_trained_heads *t, const double *x, int64_t h) {
    const float *w = t->data + h * t->model_dim;
    double sum = 0;
    for (int64_t c = 0; c < t->model_dim; c++)
        sum += x[c] * (double)w[c];
    return sum;
}

static double frequency_of(double product) {
    const double softplus = product > 0 ? product + log1p(exp(-product)) : log1p(exp(product));
    return 1 / (softplus + 1);
}

static int64_t kept(const gyre_trained_heads *t) {
    return gyre_token_angles(t);
}

/* A row of x; in the gradient a row of W's too, and the gradients to sums and to what tokens add. */
static int64_t scratch(const gyre_trained_heads *t, int64_t rows, int concurrency) {
    (void)concurrency;
    return 2 * (2 * t->model_dim + 2 * rows * gyre_token_angles(t));
}

static gyre_status forward(const gyre_trained_heads *t, const gyre_positions *positions, const gyre_head_views *heads,
                           const gyre_part_work *work, gyre_error *err) {
    double *x = (double *)(void *)work->scratch;
    (void)positions;
    for (int64_t b = 0; b < heads->x.shape[0]; b++)
        for (int64_t token = 0; token < heads->x.shape[1]; token++) {
            double *add = gyre_kept_of(heads, b, token);
            load_x(heads, b, token, t->model_dim, x);
            for (int64_t h = 0; h < t->kv_heads; h++) {
                const double f = frequency_of(product(t, x, h));
                double power = 1;
                for (int64_t i = 0; i < t->pairs; i++) {
                    *add++ = power;
                    power *= f;
                }
            }
        }
    return gyre_token_angles_forward(t, heads, work->exec, err);
}

/* out = the gradient to x . W_h, given that to the powers of f. */
static double product_gradient(double product, const double *dpower, int64_t pairs) {
    const double f = frequency_of(product);
    double sum = 0, power = 1; /* f^(i - 1) */
    for (int64_t i = 1; i < pairs; i++) {
        sum += dpower[i] * (double)i * power;
        power *= f;
    }
    return -f * f / (1 + exp(-product)) * sum;
}

/* To x and to W_h; dw: a row of doubles. */
static void add_head(const gyre_trained_heads *t, const gyre_head_views *heads, const gyre_head_views *d, int64_t h,
                     const double *made, double *x, double *dw) {
    const float *w = t->data + h * t->model_dim;
    const int64_t *shape = heads->x.shape;
    for (int64_t row = 0; row < shape[0] * shape[1]; row++) {
        const int64_t b = row / shape[1], token = row % shape[1];
        load_x(heads, b, token, t->model_dim, x);
        const double dproduct = product_gradient(product(t, x, h), made + (row * t->kv_heads + h) * t->pairs, t->pairs);
        float *dx = gyre_view_at(&d->x, b, token, 0, 0);
        for (int64_t c = 0; c < t->model_dim; c++) {
            dw[c] += dproduct * x[c];
            dx[c * d->x.stride[3]] += (float)(dproduct * (double)w[c]);
        }
    }
}

static gyre_status gradient(const gyre_trained_heads *t, const gyre_positions *positions, const gyre_head_views *heads,
                            const gyre_head_views *d, const gyre_part_work *work, float *numbers, gyre_error *err) {
    const int64_t rows = heads->x.shape[0] * heads->x.shape[1];
    double *x = (double *)(void *)work->scratch, *dw = x + t->model_dim, *sums = dw + t->model_dim;
    double *made = sums + rows * gyre_token_angles(t);
    (void)positions;
    const gyre_status status = gyre_token_angles_gradient(t, heads, d, sums, made, err);
    for (int64_t h = 0; h < t->kv_heads && !status; h++) {
        for (int64_t c = 0; c < t->model_dim; c++)
            dw[c] = 0;
        add_head(t, heads, d, h, made, x, dw);
        for (int64_t c = 0; c < t->model_dim; c++)
            numbers[h * t->model_dim + c] += (float)dw[c];
    }
    return status;
}

static void shapes(const gyre_model_config *c, const gyre_encoding *encoding, int64_t (*out)[2]) {
    (void)encoding;
    out[0][0] = c->kv_heads;
    out[0][1] = c->model_dim;
}

/* The tensor begins at 0: f is 1 / (1 + ln 2), a RoPE of base (1 + ln 2)^pairs. */
const gyre_head_part gyre_head_part_token_frequencies = {
    .part = GYRE_LAYER_PART_TOKEN_FREQUENCIES,
    .facts = &gyre_head_part_facts_token_frequencies,
    .variants = {{.name = "carope", .layer_parts = GYRE_LAYER_PART_TOKEN_FREQUENCIES}},
    .needs = GYRE_PART_NEEDS_PLAIN,
    .tensors = {{.name = "self_attn.token_frequencies", .has_weight_decay = 1}},
    .shapes = shapes,
    .reads_x = 1,
    .reads_no_positions = 1,
    .kept = kept,
    .scratch = scratch,
    .forward = forward,
    .gradient = gradient};
