/* quickstart.c: RoPE on the queries of four tokens, in place.  README shows the five lines. */
#include <gyre/gyre.h>
#include <stdio.h>

int main(void) {
    static float q[4][8][128] = {{{1}}}; /* 4 tokens, 8 heads, 128 channels; channel 0 pairs with channel 64 */
    gyre_error err;

    gyre_encoding *rope = NULL;
    gyre_status status = gyre_rope_create(&rope, 128, 500000, GYRE_LAYOUT_HALF, &err);
    gyre_view x = gyre_dense(q, GYRE_DTYPE_F32, 1, 4, 8, 128);
    if (!status) status = gyre_rotate_dense(rope, GYRE_ROLE_QUERY, x, 100000, 0, &err);
    gyre_encoding_free(rope);

    if (status) return fprintf(stderr, "%s\n", err.text), 1;
    printf("(1, 0) at position 100000 is (%f, %f)\n", q[0][0][0], q[0][0][64]);
    return 0;
}
