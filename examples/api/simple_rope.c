/* simple_rope.c: RoPE on dense buffers, and what a failing call returns. */
#include "example.h"

static void rotate(void) {
    static float q[4][8][128] = {{{1}}}; /* tokens, heads, channels */

    /* [gyre_rope_create gyre_rotate_dense gyre_encoding_free] */
    gyre_encoding *rope = NULL;
    check(gyre_rope_create(&rope, 128, 500000, GYRE_LAYOUT_HALF, &err));
    const gyre_view x = gyre_dense(q, GYRE_DTYPE_F32, 1, 4, 8, 128);     /* batch, tokens, heads, channels */
    check(gyre_rotate_dense(rope, GYRE_ROLE_QUERY, x, 100000, 0, &err)); /* at positions 100000, 100001, ... */

    /* Channels 0 and 64 are the fastest pair, which rotates by one radian per position.  It was (1, 0). */
    expect(near(q[0][0][0], cos(100000), 1e-6) && near(q[0][0][64], sin(100000), 1e-6));
    gyre_encoding_free(rope);
    /* [end] */
}

static void stretch(void) {
    float k[128] = {1};
    gyre_encoding *rope = NULL;
    check(gyre_rope_create(&rope, 128, 10000, GYRE_LAYOUT_HALF, &err));

    /* [gyre_rope_create_scaled] */
    gyre_encoding *linear = NULL;
    check(gyre_rope_create_scaled(&linear, rope, GYRE_SCALING_LINEAR, 4, 0, &err));
    gyre_encoding_free(rope); /* not needed afterwards */
    check(gyre_rotate_dense(linear, GYRE_ROLE_KEY, gyre_dense(k, GYRE_DTYPE_F32, 1, 1, 1, 128), 4, 0, &err));

    /* Four times the context: position 4 has the angles that position 1 was trained with. */
    expect(near(k[0], cos(1), 1e-6) && near(k[64], sin(1), 1e-6));
    gyre_encoding_free(linear);

    /* Dynamic NTK follows the length in use: it has to be known, and what it is decides the frequencies. */
    gyre_encoding *dynamic = NULL;
    float x[128] = {1};
    const gyre_view token = gyre_dense(x, GYRE_DTYPE_F32, 1, 1, 1, 128);
    check(gyre_rope_create(&rope, 128, 10000, GYRE_LAYOUT_HALF, &err));
    check(gyre_rope_create_scaled(&dynamic, rope, GYRE_SCALING_DYNAMIC_NTK, 1, 1024, &err));
    expect(gyre_rotate_dense(dynamic, GYRE_ROLE_KEY, token, 2000, 0, &err) == GYRE_EINVAL);
    check(gyre_rotate_dense(dynamic, GYRE_ROLE_KEY, token, 2000, 2048, &err));
    /* [end] */
    gyre_encoding_free(dynamic);
    gyre_encoding_free(rope);
}

static void fail(void) {
    /* [gyre_status_text] */
    gyre_encoding *rope = NULL;
    gyre_error why;
    const gyre_status status = gyre_rope_create(&rope, 127, 10000, GYRE_LAYOUT_HALF, &why);
    if (status) printf("%s: %s\n", gyre_status_text(status), why.text);
    expect(status == GYRE_EINVAL && rope == NULL); /* a failing call leaves its outputs alone */
    /* [end] */
}

static void know_the_library(void) {
    /* [gyre_version] */
    char header[32];
    snprintf(header, sizeof header, "%d.%d.%d", GYRE_VERSION_MAJOR, GYRE_VERSION_MINOR, GYRE_VERSION_PATCH);
    if (strcmp(gyre_version(), header) != 0) printf("compiled for %s, linked with %s\n", header, gyre_version());
    /* [end] */
    expect(strcmp(gyre_version(), header) == 0);

    /* [gyre_cpu_check] */
    gyre_error why;
    if (gyre_cpu_check(&why)) printf("the best instructions are used: %s\n", why.text); /* GYRE_CPU=AVX2 is none */
    /* [end] */
    expect(!gyre_cpu_check(NULL));

    /* [gyre_dtype_size] */
    const size_t bytes = 4096 * 8 * 128 * gyre_dtype_size(GYRE_DTYPE_BF16); /* 4096 tokens of 8 heads */
    expect(bytes == 8u << 20);
    /* [end] */
}

int main(void) {
    rotate();
    stretch();
    fail();
    know_the_library();
    return 0;
}
