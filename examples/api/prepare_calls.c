/* prepare_calls.c: decoding in a loop of small calls, which are checked and planned once. */
#include "example.h"

enum { MOST = 64, HEADS = 4, DIM = 16 };

static float q[HEADS][DIM], k[MOST][HEADS][DIM], v[MOST][HEADS][DIM], out[HEADS][DIM], want[HEADS][DIM];

int main(void) {
    gyre_encoding *rope = NULL;
    check(gyre_rope_create(&rope, DIM, 10000, GYRE_LAYOUT_HALF, &err));
    fill(&k[0][0][0], MOST * HEADS * DIM, 1);
    fill(&v[0][0][0], MOST * HEADS * DIM, 2);

    /* [gyre_prepared_rotation_create gyre_prepared_rotation_run gyre_prepared_rotation_free] */
    const gyre_positions at = {.base = 0};
    const gyre_view token = gyre_dense(NULL, GYRE_DTYPE_F32, 1, 1, HEADS, DIM); /* memory comes with each run */
    gyre_prepared_rotation *rotation;
    check(gyre_prepared_rotation_create(&rotation, rope,
                                        GYRE_ARGS(gyre_rotate_args, .positions = &at, .in = gyre_const(token), .out = token),
                                        NULL, NULL, &err));
    for (int t = 0; t < MOST; t++)
        check(gyre_prepared_rotation_run(rotation, k[t], k[t], t, &err)); /* the key of token t, in place */
    gyre_prepared_rotation_free(rotation);
    /* [end] */

    /* [gyre_prepared_attention_create gyre_prepared_attention_run gyre_prepared_attention_free] */
    gyre_attention_args args = GYRE_INIT(gyre_attention_args); /* the keys are rotated, so is the query: no encoding */
    args.q = gyre_cdense(NULL, GYRE_DTYPE_F32, 1, 1, HEADS, DIM);
    args.k = gyre_cdense(k, GYRE_DTYPE_F32, 1, MOST, HEADS, DIM); /* as many as there may be */
    args.v = gyre_cdense(v, GYRE_DTYPE_F32, 1, MOST, HEADS, DIM);
    args.out = gyre_dense(out, GYRE_DTYPE_F32, 1, 1, HEADS, DIM);
    gyre_prepared_attention *attention;
    check(gyre_prepared_attention_create(&attention, &args, NULL, NULL, &err));
    for (int t = 0; t < MOST; t++) {
        fill(&q[0][0], HEADS * DIM, 3 + t);
        gyre_attention_memory memory = GYRE_INIT(gyre_attention_memory);
        memory.q = q;
        memory.keys = t + 1; /* the tokens so far */
        memory.q_base = t;
        check(gyre_prepared_attention_run(attention, &memory, &err));
    }
    gyre_prepared_attention_free(attention);
    /* [end] */

    args.q.data = q;
    args.out.data = want;
    size_t bytes;
    check(gyre_attention_scratch(&args, 0, NULL, &bytes, &err));
    const gyre_scratch scratch = take_scratch(bytes);
    check(gyre_attention(&args, scratch, NULL, &err));
    free(scratch.memory);
    expect(most_apart(&out[0][0], &want[0][0], HEADS * DIM) == 0);
    gyre_encoding_free(rope);
    return 0;
}
