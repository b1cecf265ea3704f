/* views_and_positions.c: describing memory that is not dense, and tokens that do not begin at position 0. */
#include "example.h"

enum { TOKENS = 5, HEADS = 2, DIM = 8 };

static void rotate_fused(const gyre_encoding *rope) {
    static float qkv[TOKENS][3][HEADS][DIM];
    static float dense[TOKENS][HEADS][DIM];
    fill(&qkv[0][0][0][0], TOKENS * 3 * HEADS * DIM, 1);
    for (int t = 0; t < TOKENS; t++)
        memcpy(dense[t], qkv[t][0], sizeof dense[t]);
    check(gyre_rotate_dense(rope, GYRE_ROLE_QUERY, gyre_dense(dense, GYRE_DTYPE_F32, 1, TOKENS, HEADS, DIM), 0, 0, &err));

    /* [gyre_dense] */
    /* One projection wrote q, k and v of each token side by side: float qkv[TOKENS][3][HEADS][DIM]. */
    gyre_view q = gyre_dense(qkv, GYRE_DTYPE_F32, 1, TOKENS, HEADS, DIM);
    q.stride[1] = 3 * HEADS * DIM;                                  /* elements from one token to the next */
    check(gyre_rotate_dense(rope, GYRE_ROLE_QUERY, q, 0, 0, &err)); /* from position 0 on */
    /* [end] */
    for (int t = 0; t < TOKENS; t++)
        expect(most_apart(&dense[t][0][0], &qkv[t][0][0][0], HEADS * DIM) < 1e-6);
}

/* A result that is written one token further on would overwrite keys that are still to be read. */
static void look_before_writing(const gyre_encoding *rope) {
    static float keys[TOKENS + 1][HEADS][DIM];
    const gyre_cview in = gyre_cdense(keys[0], GYRE_DTYPE_F32, 1, TOKENS, HEADS, DIM);
    const gyre_view out = gyre_dense(keys[1], GYRE_DTYPE_F32, 1, TOKENS, HEADS, DIM);
    const gyre_positions from_zero = {0};
    /* [gyre_views_overlap] */
    const gyre_cview written = gyre_const(out);
    const gyre_rotate_args *args = GYRE_ARGS(gyre_rotate_args, .positions = &from_zero, .in = in, .out = out);
    if (gyre_views_overlap(&in, &written)) expect(gyre_rotate(rope, args, NULL, &err) == GYRE_EINVAL); /* refused */
    /* [end] */
    else
        expect(0);
}

static void rotate_constant(const gyre_encoding *rope) {
    /* [gyre_cdense] */
    static const float ones[DIM] = {1, 1, 1, 1, 1, 1, 1, 1};
    gyre_cview in = gyre_cdense(ones, GYRE_DTYPE_F32, 1, TOKENS, HEADS, DIM);
    in.stride[1] = in.stride[2] = 0; /* every head of every token reads the same channels */
    /* [end] */
    static float out[TOKENS][HEADS][DIM];
    const gyre_view to = gyre_dense(out, GYRE_DTYPE_F32, 1, TOKENS, HEADS, DIM);
    const gyre_positions from_zero = {0};
    check(gyre_rotate(rope, GYRE_ARGS(gyre_rotate_args, .role = GYRE_ROLE_KEY, .positions = &from_zero, .in = in, .out = to),
                      NULL, &err));
    expect(near(out[3][1][0], cos(3) - sin(3), 1e-6) && near(out[3][1][4], cos(3) + sin(3), 1e-6));
}

/* Two sequences, the second shorter and padded on the left. */
static void rotate_padded(const gyre_encoding *rope) {
    static float x[2][TOKENS][HEADS][DIM];
    fill(&x[0][0][0][0], TOKENS * HEADS * DIM, 2);
    memcpy(x[1][2], x[0][0], 3 * sizeof x[0][0]);

    /* [gyre_positions_from_mask] */
    const unsigned char mask[2][TOKENS] = {{1, 1, 1, 1, 1}, {0, 0, 1, 1, 1}}; /* the second row is padded on the left */
    int64_t positions[2][TOKENS];
    check(gyre_positions_from_mask(&mask[0][0], 2, TOKENS, &positions[0][0]));
    expect(positions[1][1] == -1 && positions[1][2] == 0 && positions[1][4] == 2);
    /* gyre_rotate, gyre_attention and the others take them so: */
    const gyre_positions at = {.data = positions, .dtype = GYRE_DTYPE_I64, .stride_batch = TOKENS, .stride_token = 1};
    /* [end] */

    /* [gyre_const] */
    const gyre_view view = gyre_dense(x, GYRE_DTYPE_F32, 2, TOKENS, HEADS, DIM);
    gyre_rotate_args args = GYRE_INIT(gyre_rotate_args);
    args.positions = &at;
    args.in = gyre_const(view), args.out = view; /* in place */
    check(gyre_rotate(rope, &args, NULL, &err));
    /* [end] */
    expect(most_apart(&x[1][2][0][0], &x[0][0][0][0], 3 * HEADS * DIM) < 1e-6); /* rotated as without padding */
}

int main(void) {
    gyre_encoding *rope = NULL;
    check(gyre_rope_create(&rope, DIM, 10000, GYRE_LAYOUT_HALF, &err));
    rotate_fused(rope);
    look_before_writing(rope);
    rotate_constant(rope);
    rotate_padded(rope);
    gyre_encoding_free(rope);
    return 0;
}
