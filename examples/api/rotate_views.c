/* rotate_views.c: rotation of strided views, its inverse, its angles, and weights reordered for another layout. */
#include "example.h"

#include <gyre/gyre_cache.h>

enum { TOKENS = 4, HEADS = 2, DIM = 8 };

static void there_and_back(const gyre_encoding *rope) {
    static float x[TOKENS][HEADS][DIM], rotated[TOKENS][HEADS][DIM], back[TOKENS][HEADS][DIM];
    fill(&x[0][0][0], TOKENS * HEADS * DIM, 1);

    /* [gyre_rotate] */
    const gyre_positions at = {.base = 1000}; /* 1000, 1001, ... */
    gyre_rotate_args args = GYRE_INIT(gyre_rotate_args);
    args.role = GYRE_ROLE_QUERY;
    args.positions = &at;
    args.in = gyre_cdense(x, GYRE_DTYPE_F32, 1, TOKENS, HEADS, DIM);
    args.out = gyre_dense(rotated, GYRE_DTYPE_F32, 1, TOKENS, HEADS, DIM);
    check(gyre_rotate(rope, &args, NULL, &err));

    args.direction = GYRE_DIRECTION_INVERSE;
    args.in = gyre_const(args.out);
    args.out = gyre_dense(back, GYRE_DTYPE_F32, 1, TOKENS, HEADS, DIM);
    check(gyre_rotate(rope, &args, NULL, &err));
    expect(most_apart(&back[0][0][0], &x[0][0][0], TOKENS * HEADS * DIM) < 1e-6);
    /* [end] */
    const double a = 1002; /* token 2; the first pair is channels 0 and 4 of a head */
    expect(near(rotated[2][1][0], x[2][1][0] * cos(a) - x[2][1][4] * sin(a), 1e-6));
    expect(near(rotated[2][1][4], x[2][1][0] * sin(a) + x[2][1][4] * cos(a), 1e-6));
}

static void move(const gyre_encoding *rope) {
    static float k[TOKENS][HEADS][DIM], there[TOKENS][HEADS][DIM];
    fill(&k[0][0][0], TOKENS * HEADS * DIM, 2);
    memcpy(there, k, sizeof k);
    const gyre_view keys = gyre_dense(k, GYRE_DTYPE_F32, 1, TOKENS, HEADS, DIM);
    const gyre_view wanted = gyre_dense(there, GYRE_DTYPE_F32, 1, TOKENS, HEADS, DIM);
    check(gyre_rotate_dense(rope, GYRE_ROLE_KEY, keys, 100, 0, &err));

    /* [gyre_rerotate] */
    gyre_encoding *yarn = NULL; /* keys of positions 100, 101, ... under rope become those of 40, 41, ... under YaRN */
    check(gyre_rope_create_scaled(&yarn, rope, GYRE_SCALING_YARN, 4, 64, &err));
    const gyre_positions old_at = {.base = 100}, new_at = {.base = 40};
    gyre_rerotate_args args = GYRE_INIT(gyre_rerotate_args);
    args.before = rope, args.after = yarn;
    args.old_positions = &old_at, args.new_positions = &new_at;
    args.in = gyre_const(keys), args.out = keys;
    check(gyre_rerotate(&args, NULL, &err));
    /* [end] */
    check(gyre_rotate_dense(yarn, GYRE_ROLE_KEY, wanted, 40, 0, &err));
    expect(most_apart(&k[0][0][0], &there[0][0][0], TOKENS * HEADS * DIM) < 1e-6);
    gyre_encoding_free(yarn);
}

static void angles(const gyre_encoding *rope) {
    /* [gyre_cos_sin] */
    float cosine[TOKENS][DIM / 2], sine[TOKENS][DIM / 2]; /* one angle per pair */
    const gyre_view c = gyre_dense(cosine, GYRE_DTYPE_F32, 1, TOKENS, 1, DIM / 2);
    const gyre_view s = gyre_dense(sine, GYRE_DTYPE_F32, 1, TOKENS, 1, DIM / 2);
    const gyre_positions at = {.base = 7};
    check(gyre_cos_sin(rope, &at, &c, &s, NULL, &err));
    expect(near(cosine[2][0], cos(9), 1e-7) && near(sine[2][1], sin(9 * pow(10000, -2.0 / DIM)), 1e-7));
    /* [end] */
}

static void reorder(const gyre_encoding *rope) {
    /* [gyre_permute_rows] */
    /* A bias of two heads: weights are [heads x head_dim, inputs], and a bias has one input. */
    const float half[2][DIM] = {{0, 1, 2, 3, 4, 5, 6, 7}, {10, 11, 12, 13, 14, 15, 16, 17}}; /* pairs (0, 4), (1, 5), ... */
    float interleaved[2][DIM];
    const gyre_cview in = gyre_cdense(half, GYRE_DTYPE_F32, 1, 2, DIM, 1);
    const gyre_view out = gyre_dense(interleaved, GYRE_DTYPE_F32, 1, 2, DIM, 1);
    check(gyre_permute_rows(rope, GYRE_LAYOUT_HALF, GYRE_LAYOUT_INTERLEAVED, &in, &out, &err));
    expect(interleaved[0][0] == 0 && interleaved[0][1] == 4); /* the first pair, now side by side */
    expect(interleaved[1][6] == 13 && interleaved[1][7] == 17);
    /* [end] */
}

int main(void) {
    gyre_encoding *rope = NULL;
    check(gyre_rope_create(&rope, DIM, 10000, GYRE_LAYOUT_HALF, &err));
    there_and_back(rope);
    move(rope);
    angles(rope);
    reorder(rope);
    gyre_encoding_free(rope);
    return 0;
}
