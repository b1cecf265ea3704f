/* train_frequencies.c: image patches rotated by frequencies that are trained, and the gradient to them. */
#include "example.h"
#include <gyre/gyre_trained.h>

enum { SIDE = 3, TOKENS = SIDE * SIDE, HEADS = 2, DIM = 8, PAIRS = DIM / 2 };

static double patches[TOKENS][HEADS][DIM], rotated[TOKENS][HEADS][DIM], dout[TOKENS][HEADS][DIM];
static double frequencies[2][HEADS][PAIRS], dfrequencies[2][HEADS][PAIRS];
static int64_t at[TOKENS][2]; /* x and y of each patch */

static double loss(void) {
    /* [gyre_trained_rotate] */
    gyre_trained_rotation mixed = GYRE_INIT(gyre_trained_rotation);
    mixed.layout = GYRE_LAYOUT_INTERLEAVED;
    mixed.frequencies = gyre_cdense(frequencies, GYRE_DTYPE_F64, 1, 2, HEADS, PAIRS); /* axis, head, pair */
    const gyre_positions positions = {
        .data = at, .dtype = GYRE_DTYPE_I64, .stride_token = 2, .stride_axis = 1}; /* angle = x fx + y fy */
    gyre_rotate_args args = GYRE_INIT(gyre_rotate_args);
    args.positions = &positions;
    args.in = gyre_cdense(patches, GYRE_DTYPE_F64, 1, TOKENS, HEADS, DIM);
    args.out = gyre_dense(rotated, GYRE_DTYPE_F64, 1, TOKENS, HEADS, DIM);
    check(gyre_trained_rotate(&mixed, &args, NULL, &err));
    /* [end] */
    double sum = 0;
    for (int i = 0; i < TOKENS * HEADS * DIM; i++)
        sum += (&rotated[0][0][0])[i] * (&dout[0][0][0])[i];
    return sum;
}

static void train(void) {
    gyre_trained_rotation mixed = GYRE_INIT(gyre_trained_rotation);
    mixed.layout = GYRE_LAYOUT_INTERLEAVED;
    mixed.frequencies = gyre_cdense(frequencies, GYRE_DTYPE_F64, 1, 2, HEADS, PAIRS);
    const gyre_positions positions = {.data = at, .dtype = GYRE_DTYPE_I64, .stride_token = 2, .stride_axis = 1};
    /* [gyre_trained_rotate_gradient] */
    gyre_trained_gradients gradients = GYRE_INIT(gyre_trained_gradients);
    gradients.frequencies = gyre_dense(dfrequencies, GYRE_DTYPE_F64, 1, 2, HEADS, PAIRS); /* zeros: it is added to */
    gyre_rotate_gradient_args args = GYRE_INIT(gyre_rotate_gradient_args);
    args.positions = &positions;
    args.in = gyre_cdense(rotated, GYRE_DTYPE_F64, 1, TOKENS, HEADS, DIM); /* the result */
    args.dout = gyre_cdense(dout, GYRE_DTYPE_F64, 1, TOKENS, HEADS, DIM);
    check(gyre_trained_rotate_gradient(&mixed, &args, &gradients, NULL, &err));
    /* [end] */
}

/* PoPE: the score of the first head of a query and a key, from twice the channels. */
static double polar_score(const double *q, const double *k, const double *bias, int64_t m, int64_t n) {
    double theta[DIM], wide[2][2 * DIM], sum = 0;
    for (int i = 0; i < DIM; i++)
        theta[i] = pow(10000, -i / (double)DIM);
    /* [gyre_polar_rotate] */
    gyre_trained_rotation polar = GYRE_INIT(gyre_trained_rotation);
    polar.frequencies = gyre_cdense(theta, GYRE_DTYPE_F64, 1, 1, 1, DIM);
    const gyre_positions at_m = {.base = m}, at_n = {.base = n};
    gyre_rotate_args query = GYRE_INIT(gyre_rotate_args), key = GYRE_INIT(gyre_rotate_args);
    query.positions = &at_m, key.positions = &at_n;
    query.in = gyre_cdense(q, GYRE_DTYPE_F64, 1, 1, 1, DIM), key.in = gyre_cdense(k, GYRE_DTYPE_F64, 1, 1, 1, DIM);
    query.out = gyre_dense(wide[0], GYRE_DTYPE_F64, 1, 1, 1, 2 * DIM);
    key.out = gyre_dense(wide[1], GYRE_DTYPE_F64, 1, 1, 1, 2 * DIM);
    check(gyre_polar_rotate(&polar, &query, NULL, &err));
    polar.phases = gyre_cdense(bias, GYRE_DTYPE_F64, 1, 1, 1, DIM); /* of keys alone */
    check(gyre_polar_rotate(&polar, &key, NULL, &err));
    /* [end] */
    for (int i = 0; i < 2 * DIM; i++)
        sum += wide[0][i] * wide[1][i];
    return sum;
}

/* dbias += the gradient of w . (the wide key) to the biases. */
static void polar_gradient(const double *k, const double *bias, const double *w, double *dk, double *dbias) {
    double theta[DIM];
    for (int i = 0; i < DIM; i++)
        theta[i] = pow(10000, -i / (double)DIM);
    gyre_trained_rotation polar = GYRE_INIT(gyre_trained_rotation);
    polar.frequencies = gyre_cdense(theta, GYRE_DTYPE_F64, 1, 1, 1, DIM);
    polar.phases = gyre_cdense(bias, GYRE_DTYPE_F64, 1, 1, 1, DIM);
    const gyre_positions at_0 = {.base = 0};
    /* [gyre_polar_rotate_gradient] */
    gyre_trained_gradients gradients = GYRE_INIT(gyre_trained_gradients);
    gradients.phases = gyre_dense(dbias, GYRE_DTYPE_F64, 1, 1, 1, DIM);
    gyre_rotate_gradient_args args = GYRE_INIT(gyre_rotate_gradient_args);
    args.positions = &at_0;
    args.in = gyre_cdense(k, GYRE_DTYPE_F64, 1, 1, 1, DIM);
    args.dout = gyre_cdense(w, GYRE_DTYPE_F64, 1, 1, 1, 2 * DIM);
    args.din = gyre_dense(dk, GYRE_DTYPE_F64, 1, 1, 1, DIM);
    check(gyre_polar_rotate_gradient(&polar, &args, &gradients, NULL, &err));
    /* [end] */
}

static void polar(void) {
    const double *q = patches[0][0], *k = patches[1][0], bias[DIM] = {-0.5, -1, -1.5};
    double want = 0, w[2 * DIM] = {0}, dk[DIM], dbias[DIM] = {0};
    for (int i = 0; i < DIM; i++)
        want += log1p(exp(q[i])) * log1p(exp(k[i])) * cos(3 * pow(10000, -i / (double)DIM) + bias[i]);
    expect(near(polar_score(q, k, bias, 7, 10), want, 1e-12));
    w[0] = 1; /* of the real part of channel 0, at position 0: softplus(k[0]) cos(bias[0]) */
    polar_gradient(k, bias, w, dk, dbias);
    expect(near(dk[0], cos(bias[0]) / (1 + exp(-k[0])), 1e-14));
    expect(near(dbias[0], -log1p(exp(k[0])) * sin(bias[0]), 1e-14));
}

/* FoPE of one head: 2 frequencies that make a turn in training, a series of them for each of 2 pairs, and 2 pairs that stand
 * still. */
static double fourier_loss(const double *theta, const double *c, const double *s) {
    /* [gyre_fourier_rotate] */
    gyre_fourier_rotation fope = GYRE_INIT(gyre_fourier_rotation);
    fope.pairs = DIM / 2;                                              /* those with a series and the rest */
    fope.frequencies = gyre_cdense(theta, GYRE_DTYPE_F64, 1, 1, 1, 2); /* radians per position */
    fope.cosines = gyre_cdense(c, GYRE_DTYPE_F64, 1, 1, 2, 2);         /* head, term, pair */
    fope.sines = gyre_cdense(s, GYRE_DTYPE_F64, 1, 1, 2, 2);
    const gyre_positions from_5 = {.base = 5};
    const gyre_cview in = gyre_cdense(patches, GYRE_DTYPE_F64, 1, TOKENS, HEADS, DIM);
    const gyre_view out = gyre_dense(rotated, GYRE_DTYPE_F64, 1, TOKENS, HEADS, DIM);
    check(gyre_fourier_rotate(&fope, GYRE_ARGS(gyre_rotate_args, .positions = &from_5, .in = in, .out = out), NULL, &err));
    /* [end] */
    double sum = 0;
    for (int i = 0; i < TOKENS * HEADS * DIM; i++)
        sum += (&rotated[0][0][0])[i] * (&dout[0][0][0])[i];
    return sum;
}

static void fourier(void) {
    const double theta[2] = {1, 0.1};
    double c[2][2] = {{1, 0.2}, {-0.3, 1}}, s[2][2] = {{1, 0.1}, {0.4, 1}}, dc[2][2] = {{0}};
    const double before = fourier_loss(theta, c[0], s[0]);
    gyre_fourier_rotation fope = GYRE_INIT(gyre_fourier_rotation);
    fope.pairs = DIM / 2;
    fope.frequencies = gyre_cdense(theta, GYRE_DTYPE_F64, 1, 1, 1, 2);
    fope.cosines = gyre_cdense(c, GYRE_DTYPE_F64, 1, 1, 2, 2);
    fope.sines = gyre_cdense(s, GYRE_DTYPE_F64, 1, 1, 2, 2);
    const gyre_positions from_5 = {.base = 5};
    /* [gyre_fourier_rotate_gradient] */
    gyre_fourier_gradients gradients = GYRE_INIT(gyre_fourier_gradients);
    gradients.cosines = gyre_dense(dc, GYRE_DTYPE_F64, 1, 1, 2, 2); /* zeros: it is added to */
    gyre_rotate_gradient_args args = GYRE_INIT(gyre_rotate_gradient_args);
    args.positions = &from_5;
    args.in = gyre_cdense(patches, GYRE_DTYPE_F64, 1, TOKENS, HEADS, DIM);
    args.dout = gyre_cdense(dout, GYRE_DTYPE_F64, 1, TOKENS, HEADS, DIM);
    check(gyre_fourier_rotate_gradient(&fope, &args, &gradients, NULL, &err));
    /* [end] */
    c[1][0] += 1e-7;
    expect(near(fourier_loss(theta, c[0], s[0]) - before, 1e-7 * dc[1][0], 1e-11));
}

int main(void) {
    for (int i = 0; i < TOKENS * HEADS * DIM; i++) {
        (&patches[0][0][0])[i] = sin(i);
        (&dout[0][0][0])[i] = cos(3 * i);
    }
    for (int i = 0; i < 2 * HEADS * PAIRS; i++)
        (&frequencies[0][0][0])[i] = 0.1 * i;
    for (int t = 0; t < TOKENS; t++) {
        at[t][0] = t % SIDE;
        at[t][1] = t / SIDE;
    }
    const double before = loss();
    train();
    frequencies[1][0][2] += 1e-7; /* a step along one frequency changes the loss as the gradient says */
    expect(near(loss() - before, 1e-7 * dfrequencies[1][0][2], 1e-11));
    polar();
    fourier();
    return 0;
}
