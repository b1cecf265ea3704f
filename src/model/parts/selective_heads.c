/* selective_heads.c: Selective RoPE.  A map of the normalized queries that share a key head gives a number for each
 * pair.  A convolution over the last tokens mixes it, a gate of the layer's input lets it through, and its sum over tokens,
 * times the frequency of the pair, is the angle. */
#include "core/convert.h"
#include "gyre/gyre_model.h"
#include "model/parts/token_angles.h"

#include <math.h>
#include <string.h>

enum { TAPS = 4 };                  /* of the convolution: the token and those before it */
static const double EPSILON = 1e-6; /* added to the square of a norm */

/* A token keeps its angles, then the numbers of the map for itself and the TAPS - 2 tokens before it. */
static int64_t kept(const gyre_trained_heads *t) {
    return TAPS * gyre_token_angles(t);
}

/* -- a call -- */
typedef struct selective {
    const gyre_trained_heads *t;
    const gyre_head_views *heads;
    int64_t angles, inputs, head_dim;      /* inputs: channels of the queries that share a key head */
    const float *map, *taps, *gate, *bias; /* [angles][inputs], [angles][TAPS], [kv_heads][model_dim], [kv_heads] */
    double *theta, *query, *scale, *x;     /* of a token: frequencies, queries of a key head, 1 / their norms, input */
    double x_scale;
} selective;

static int64_t inputs_of(const gyre_trained_heads *t, int64_t head_dim) {
    return t->heads / t->kv_heads * head_dim;
}

/* A row of gradients to queries of a key head or to x. */
static int64_t row_of(const gyre_trained_heads *t, int64_t inputs) {
    return inputs > t->model_dim ? inputs : t->model_dim;
}

/* The doubles of a call, and those of its gradient. */
static int64_t own_doubles(const gyre_trained_heads *t, int64_t head_dim) {
    return t->pairs + inputs_of(t, head_dim) + t->heads / t->kv_heads + t->model_dim;
}
static int64_t head_dim_of(const gyre_trained_heads *t) {
    return gyre_encoding_get_config(t->encoding)->head_dim;
}
static int64_t scratch(const gyre_trained_heads *t, int64_t rows, int concurrency) {
    const int64_t head_dim = head_dim_of(t), inputs = inputs_of(t, head_dim);
    (void)concurrency;
    return 2 * (own_doubles(t, head_dim) + t->pairs * inputs + TAPS * t->pairs + t->model_dim + 1 + row_of(t, inputs) +
                2 * rows * gyre_token_angles(t));
}

static gyre_status begin(const gyre_trained_heads *t, const gyre_head_views *heads, const gyre_part_work *work,
                         selective *out) {
    const int64_t head_dim = heads->in[0].shape[3], angles = gyre_token_angles(t), inputs = inputs_of(t, head_dim);
    double *room = (double *)(void *)work->scratch, factor;
    const float *taps = t->data + angles * inputs, *gate = taps + angles * TAPS;
    *out = (selective){.t = t,
                       .heads = heads,
                       .angles = angles,
                       .inputs = inputs,
                       .head_dim = head_dim,
                       .map = t->data,
                       .taps = taps,
                       .gate = gate,
                       .bias = gate + t->kv_heads * t->model_dim,
                       .theta = room,
                       .query = room + t->pairs,
                       .scale = room + t->pairs + inputs,
                       .x = room + t->pairs + inputs + t->heads / t->kv_heads};
    return gyre_encoding_frequencies(t->encoding, 0, out->theta, &factor);
}

/* -- what a token reads -- */
/* x divided by its norm; out = 1 / that. */
static double normalize(double *x, int64_t n) {
    double sum = EPSILON;
    for (int64_t c = 0; c < n; c++)
        sum += x[c] * x[c];
    const double scale = 1 / sqrt(sum);
    for (int64_t c = 0; c < n; c++)
        x[c] *= scale;
    return scale;
}

static void load_x(selective *s, int64_t b, int64_t token) {
    const gyre_view *x = &s->heads->x;
    gyre_load_row_f64(gyre_view_at(x, b, token, 0, 0), x->dtype, x->stride[3], s->t->model_dim, s->x);
    s->x_scale = normalize(s->x, s->t->model_dim);
}

static void load_queries(selective *s, int64_t b, int64_t token, int64_t h) {
    const gyre_view q = gyre_heads_of_key(s->t, &s->heads->in[0], h);
    for (int64_t g = 0; g < q.shape[2]; g++) {
        double *row = s->query + g * s->head_dim;
        gyre_load_row_f64(gyre_view_at(&q, b, token, g, 0), q.dtype, q.stride[3], s->head_dim, row);
        s->scale[g] = normalize(row, s->head_dim);
    }
}

static double gate_of(const selective *s, int64_t h) {
    const float *w = s->gate + h * s->t->model_dim;
    double sum = (double)s->bias[h];
    for (int64_t c = 0; c < s->t->model_dim; c++)
        sum += s->x[c] * (double)w[c];
    return 1 / (1 + exp(-sum));
}

/* What the token before kept; NULL = there is none. */
static const double *kept_before(const selective *s, int64_t b, int64_t token) {
    const gyre_cview *before = &s->heads->before;
    if (token > 0) return gyre_kept_of(s->heads, b, token - 1);
    return before->data ? gyre_cview_at(before, b, 0, 0, 0) : NULL;
}

/* out = the number of the map for angle n, j tokens before the one that keeps `row`. */
static double tap_input(const selective *s, const double *row, const double *before, int64_t n, int64_t j) {
    if (j < TAPS - 1) return row[(1 + j) * s->angles + n];
    return before ? before[(TAPS - 1) * s->angles + n] : 0;
}

static double convolve(const selective *s, const double *row, const double *before, int64_t n) {
    double sum = 0;
    for (int64_t j = 0; j < TAPS; j++)
        sum += (double)s->taps[n * TAPS + j] * tap_input(s, row, before, n, j);
    return sum;
}

/* -- forward -- */
static void add_token(selective *s, int64_t b, int64_t token) {
    double *row = gyre_kept_of(s->heads, b, token);
    const double *before = kept_before(s, b, token);
    load_x(s, b, token);
    for (int64_t j = 1; j < TAPS - 1; j++)
        for (int64_t n = 0; n < s->angles; n++)
            row[(1 + j) * s->angles + n] = before ? before[j * s->angles + n] : 0;
    for (int64_t h = 0; h < s->t->kv_heads; h++) {
        const double gate = gate_of(s, h);
        load_queries(s, b, token, h);
        for (int64_t i = 0; i < s->t->pairs; i++) {
            const int64_t n = h * s->t->pairs + i;
            const float *w = s->map + n * s->inputs;
            double sum = 0;
            for (int64_t c = 0; c < s->inputs; c++)
                sum += s->query[c] * (double)w[c];
            row[s->angles + n] = sum;
            row[n] = s->theta[i] * gate * convolve(s, row, before, n);
        }
    }
}

static gyre_status forward(const gyre_trained_heads *t, const gyre_positions *positions, const gyre_head_views *heads,
                           const gyre_part_work *work, gyre_error *err) {
    selective s;
    const gyre_status status = begin(t, heads, work, &s);
    (void)positions;
    for (int64_t b = 0; b < heads->x.shape[0] && !status; b++)
        for (int64_t token = 0; token < heads->x.shape[1]; token++)
            add_token(&s, b, token);
    return status ? status : gyre_token_angles_forward(t, heads, work->exec, err);
}

/* -- gradient -- */
/* Sums of a key head; row: of row_of; made: first the gradient to what a token adds, then to what its gate multiplies. */
typedef struct head_sums {
    int64_t h;
    double *map, *taps, *gate, *bias, *row, *made;
} head_sums;

static double *made_of(const selective *s, const head_sums *to, int64_t b, int64_t token) {
    return to->made + (b * s->heads->x.shape[1] + token) * s->angles + to->h * s->t->pairs;
}

/* row += scale (dn - n (n . dn)): the gradient to what was normalized to n, given that to n. */
static void add_unnormalized(const double *n, const double *dn, int64_t count, double scale, float *row, int64_t stride) {
    double along = 0;
    for (int64_t c = 0; c < count; c++)
        along += n[c] * dn[c];
    for (int64_t c = 0; c < count; c++)
        row[c * stride] += (float)(scale * (dn[c] - n[c] * along));
}

/* To the gate of a token, which reads s->x; row: a row of doubles. */
static void add_gate(const selective *s, const head_sums *to, double dgate, double *row, float *dx, int64_t stride) {
    const float *w = s->gate + to->h * s->t->model_dim;
    for (int64_t c = 0; c < s->t->model_dim; c++) {
        to->gate[c] += dgate * s->x[c];
        row[c] = dgate * (double)w[c];
    }
    *to->bias += dgate;
    add_unnormalized(s->x, row, s->t->model_dim, s->x_scale, dx, stride);
}

static void add_token_gate(selective *s, const gyre_head_views *d, const head_sums *to, int64_t b, int64_t token) {
    const double *row = gyre_kept_of(s->heads, b, token), *before = kept_before(s, b, token);
    double *made = made_of(s, to, b, token), dgate = 0;
    load_x(s, b, token);
    const double gate = gate_of(s, to->h);
    for (int64_t i = 0; i < s->t->pairs; i++) {
        const int64_t n = to->h * s->t->pairs + i;
        made[i] *= s->theta[i];
        dgate += made[i] * convolve(s, row, before, n);
        made[i] *= gate;
        for (int64_t j = 0; j < TAPS; j++)
            to->taps[i * TAPS + j] += made[i] * tap_input(s, row, before, n, j);
    }
    add_gate(s, to, dgate * gate * (1 - gate), to->row, gyre_view_at(&d->x, b, token, 0, 0), d->x.stride[3]);
}

/* To the map of a token and to the queries that it reads, from later tokens whose convolutions reach it. */
static void add_token_map(selective *s, const gyre_head_views *d, const head_sums *to, int64_t b, int64_t token) {
    const int64_t tokens = s->heads->x.shape[1];
    const gyre_view dq = gyre_heads_of_key(s->t, &d->in[0], to->h);
    load_queries(s, b, token, to->h);
    memset(to->row, 0, (size_t)s->inputs * sizeof *to->row);
    for (int64_t i = 0; i < s->t->pairs; i++) {
        const int64_t n = to->h * s->t->pairs + i;
        const float *w = s->map + n * s->inputs;
        double du = 0;
        for (int64_t j = 0; j < TAPS && token + j < tokens; j++)
            du += (double)s->taps[n * TAPS + j] * made_of(s, to, b, token + j)[i];
        for (int64_t c = 0; c < s->inputs; c++) {
            to->map[i * s->inputs + c] += du * s->query[c];
            to->row[c] += du * (double)w[c];
        }
    }
    for (int64_t g = 0; g < dq.shape[2]; g++)
        add_unnormalized(s->query + g * s->head_dim, to->row + g * s->head_dim, s->head_dim, s->scale[g],
                         gyre_view_at(&dq, b, token, g, 0), dq.stride[3]);
}

static void add(float *to, const double *sums, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        to[i] += (float)sums[i];
}

static void add_head(selective *s, const gyre_head_views *d, const head_sums *to, float *numbers) {
    const int64_t *shape = s->heads->x.shape, pairs = s->t->pairs, first = to->h * pairs;
    float *taps = numbers + s->angles * s->inputs, *gate = taps + s->angles * TAPS;
    memset(to->map, 0, (size_t)(pairs * s->inputs) * sizeof *to->map);
    memset(to->taps, 0, (size_t)(pairs * TAPS + s->t->model_dim + 1) * sizeof *to->taps); /* and those after them */
    for (int64_t b = 0; b < shape[0]; b++) {
        for (int64_t token = 0; token < shape[1]; token++)
            add_token_gate(s, d, to, b, token);
        for (int64_t token = 0; token < shape[1]; token++)
            add_token_map(s, d, to, b, token);
    }
    add(numbers + first * s->inputs, to->map, pairs * s->inputs);
    add(taps + first * TAPS, to->taps, pairs * TAPS);
    add(gate + to->h * s->t->model_dim, to->gate, s->t->model_dim);
    add(gate + s->t->kv_heads * s->t->model_dim + to->h, to->bias, 1);
}

static gyre_status gradient(const gyre_trained_heads *t, const gyre_positions *positions, const gyre_head_views *heads,
                            const gyre_head_views *d, const gyre_part_work *work, float *numbers, gyre_error *err) {
    const int64_t rows = heads->x.shape[0] * heads->x.shape[1];
    selective s;
    gyre_status status = begin(t, heads, work, &s);
    (void)positions;
    if (status) return status;
    head_sums to = {.map = s.theta + own_doubles(t, s.head_dim)};
    to.taps = to.map + t->pairs * s.inputs;
    to.gate = to.taps + t->pairs * TAPS;
    to.bias = to.gate + t->model_dim;
    to.row = to.bias + 1;
    to.made = to.row + row_of(t, s.inputs);
    status = gyre_token_angles_gradient(t, heads, d, to.made + rows * s.angles, to.made, err);
    for (; to.h < t->kv_heads && !status; to.h++)
        add_head(&s, d, &to, numbers);
    return status;
}

/* -- tensors -- */
static void shapes(const gyre_model_config *c, const gyre_encoding *encoding, int64_t (*out)[2]) {
    const int64_t angles = c->kv_heads * gyre_encoding_get_config(encoding)->rope.dim / 2;
    const int64_t of[4][2] = {
        {angles, c->heads / c->kv_heads * c->head_dim}, {angles, TAPS}, {c->kv_heads, c->model_dim}, {c->kv_heads, 1}};
    memcpy(out, of, sizeof of);
}

/* The deviations of the released code, whose rows of the map have norm 1. */
static double start_map(const gyre_part_start *at) {
    return at->normal / sqrt((double)at->shape[1]);
}
static double start_taps(const gyre_part_start *at) {
    return at->normal / sqrt(3.0 * TAPS);
}
static double start_gate(const gyre_part_start *at) {
    return at->normal / sqrt(3 * (double)at->config->model_dim);
}

const gyre_head_part gyre_head_part_selective = {
    .part = GYRE_LAYER_PART_SELECTIVE,
    .facts = &gyre_head_part_facts_selective,
    .variants = {{.name = "selective-rope", .layer_parts = GYRE_LAYER_PART_SELECTIVE}},
    .needs = GYRE_PART_NEEDS_PLAIN,
    .tensors = {{.name = "self_attn.selective.angles", .start = start_map, .has_weight_decay = 1},
                {.name = "self_attn.selective.taps", .start = start_taps, .has_weight_decay = 1},
                {.name = "self_attn.selective.gate", .start = start_gate, .has_weight_decay = 1},
                {.name = "self_attn.selective.bias", .start = start_gate}},
    .shapes = shapes,
    .reads_in = 1,
    .reads_x = 1,
    .reads_no_positions = 1,
    .kept = kept,
    .scratch = scratch,
    .forward = forward,
    .gradient = gradient};
