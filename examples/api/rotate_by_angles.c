/* rotate_by_angles.c: keys rotated by angles that their tokens make, summed along the sequence, and the gradient to what the
 * tokens made. */
#include "example.h"
#include <gyre/gyre_attention.h>
#include <gyre/gyre_trained.h>

enum { TOKENS = 6, HEADS = 2, DIM = 8, PAIRS = DIM / 2 };

static double made[TOKENS][HEADS][PAIRS], angles[TOKENS][HEADS][PAIRS], dangles[TOKENS][HEADS][PAIRS];
static float keys[TOKENS][HEADS][DIM], rotated[TOKENS][HEADS][DIM], dout[TOKENS][HEADS][DIM], dkeys[TOKENS][HEADS][DIM];

static gyre_angle_rotation rotation(void) {
    gyre_angle_rotation r = GYRE_INIT(gyre_angle_rotation);
    r.angles = gyre_cdense(angles, GYRE_DTYPE_F64, 1, TOKENS, HEADS, PAIRS);
    return r;
}

static double loss(void) {
    const gyre_cview of_token = gyre_cdense(made, GYRE_DTYPE_F64, 1, TOKENS, HEADS, PAIRS);
    /* [gyre_angle_rotate] */
    const gyre_view sums = gyre_dense(angles, GYRE_DTYPE_F64, 1, TOKENS, HEADS, PAIRS); /* in double */
    check(gyre_gate_sums(GYRE_ARGS(gyre_gate_sums_args, .log_gates = of_token, .sums = sums), NULL, &err));
    gyre_angle_rotation by_angles = GYRE_INIT(gyre_angle_rotation);
    by_angles.angles = gyre_const(sums);
    gyre_rotate_args args = GYRE_INIT(gyre_rotate_args);
    args.in = gyre_cdense(keys, GYRE_DTYPE_F32, 1, TOKENS, HEADS, DIM);
    args.out = gyre_dense(rotated, GYRE_DTYPE_F32, 1, TOKENS, HEADS, DIM);
    check(gyre_angle_rotate(&by_angles, &args, NULL, &err));
    /* [end] */
    double sum = 0;
    for (int i = 0; i < TOKENS * HEADS * DIM; i++)
        sum += (double)(&rotated[0][0][0])[i] * (double)(&dout[0][0][0])[i];
    return sum;
}

static void train(void) {
    const gyre_angle_rotation by_angles = rotation();
    /* [gyre_angle_rotate_gradient] */
    const gyre_view to_angles = gyre_dense(dangles, GYRE_DTYPE_F64, 1, TOKENS, HEADS, PAIRS); /* zeros: it is added to */
    gyre_rotate_gradient_args args = GYRE_INIT(gyre_rotate_gradient_args);
    args.in = gyre_cdense(rotated, GYRE_DTYPE_F32, 1, TOKENS, HEADS, DIM); /* the result */
    args.dout = gyre_cdense(dout, GYRE_DTYPE_F32, 1, TOKENS, HEADS, DIM);
    check(gyre_angle_rotate_gradient(&by_angles, &args, &to_angles, NULL, &err));
    /* Of a sum, to what was summed; the gradient for the keys is the adjoint rotation. */
    static double dmade[TOKENS][HEADS][PAIRS];
    const gyre_cview dsums[2] = {gyre_const(to_angles)};
    const gyre_view to_made = gyre_dense(dmade, GYRE_DTYPE_F64, 1, TOKENS, HEADS, PAIRS);
    check(gyre_gate_sums_gradient(dsums, NULL, 0, &to_made, NULL, &err));
    gyre_rotate_args back = GYRE_INIT(gyre_rotate_args);
    back.direction = GYRE_DIRECTION_ADJOINT;
    back.in = args.dout;
    back.out = gyre_dense(dkeys, GYRE_DTYPE_F32, 1, TOKENS, HEADS, DIM);
    check(gyre_angle_rotate(&by_angles, &back, NULL, &err));
    /* [end] */
    const double before = loss(), slope = dmade[2][1][3];
    made[2][1][3] += 1e-3; /* all later tokens turn */
    expect(near(loss() - before, 1e-3 * slope, 1e-5));
}

int main(void) {
    for (int i = 0; i < TOKENS * HEADS * DIM; i++) {
        (&keys[0][0][0])[i] = (float)sin(i);
        (&dout[0][0][0])[i] = (float)cos(3 * i);
    }
    for (int i = 0; i < TOKENS * HEADS * PAIRS; i++)
        (&made[0][0][0])[i] = 0.3 * sin(2 * i);
    loss();
    train();
    double inner = 0;
    for (int i = 0; i < TOKENS * HEADS * DIM; i++)
        inner += (double)(&dkeys[0][0][0])[i] * (double)(&keys[0][0][0])[i];
    made[2][1][3] -= 1e-3;
    expect(near(inner, loss(), 1e-5)); /* the loss is linear in the keys */
    return 0;
}
