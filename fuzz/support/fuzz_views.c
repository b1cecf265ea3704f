/* fuzz_views.c: random strides over memory without slack, so that a sanitizer sees the first element past a view. */
#include "fuzz_views.h"

#include "fuzz_support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

fuzz_view fuzz_view_make(fuzz_bytes *in, gyre_dtype dtype, int64_t batch, int64_t tokens, int64_t heads, int64_t channels) {
    static const int orders[6][4] = {{0, 1, 2, 3}, {0, 2, 1, 3}, {1, 0, 2, 3}, {2, 0, 1, 3}, {0, 1, 3, 2}, {3, 2, 1, 0}};
    fuzz_view v = {gyre_dense(NULL, dtype, batch, tokens, heads, channels), 0};
    const int choice = fuzz_choice(in, 32);
    const int *order = orders[choice < 6 ? choice : 0];
    int64_t stride = choice == 6 ? 2 : 1, last = 0;
    for (int i = 3; i >= 0; i--) { /* the axis order[3] is the fastest */
        v.view.stride[order[i]] = stride;
        stride *= v.view.shape[order[i]] > 0 ? v.view.shape[order[i]] : 1;
        if (choice == 7 && i == 3) stride += 3; /* a gap after each row */
    }
    for (int i = 0; i < 4; i++)
        last += (v.view.shape[i] - 1) * v.view.stride[i];
    const int empty = batch * tokens * heads * channels == 0;
    v.bytes = empty ? 0 : (size_t)(last + 1) * gyre_dtype_size(dtype);
    v.view.data = fuzz_room(v.bytes, 1);
    return v;
}

void fuzz_view_free(fuzz_view *v) {
    free(v->view.data);
    v->view.data = NULL;
}

static size_t place(const fuzz_view *v, int64_t b, int64_t t, int64_t h, int64_t c) {
    const int64_t *stride = v->view.stride;
    return (size_t)(b * stride[0] + t * stride[1] + h * stride[2] + c * stride[3]);
}

void fuzz_view_fill(fuzz_view *v, test_random *random, double amplitude) {
    const size_t size = v->bytes ? gyre_dtype_size(v->view.dtype) : 1;
    for (size_t i = 0; i < v->bytes / size; i++)
        test_put(v->view.data, v->view.dtype, i, amplitude * test_uniform(random));
}

double fuzz_view_at(const fuzz_view *v, int64_t b, int64_t t, int64_t h, int64_t c) {
    return test_get(v->view.data, v->view.dtype, place(v, b, t, h, c));
}

void fuzz_views_require_same(const fuzz_view *a, const fuzz_view *b, const char *what) {
    const size_t size = gyre_dtype_size(a->view.dtype);
    const int64_t *shape = a->view.shape;
    for (int64_t i = 0; i < shape[0] * shape[1] * shape[2] * shape[3]; i++) {
        const int64_t c = i % shape[3], h = i / shape[3] % shape[2], t = i / shape[3] / shape[2] % shape[1];
        const int64_t n = i / shape[3] / shape[2] / shape[1];
        fuzz_require(memcmp((const char *)a->view.data + place(a, n, t, h, c) * size,
                            (const char *)b->view.data + place(b, n, t, h, c) * size, size) == 0,
                     what);
    }
}

gyre_dtype fuzz_dtype(fuzz_bytes *in) {
    static const gyre_dtype types[] = {GYRE_DTYPE_F32, GYRE_DTYPE_F32, GYRE_DTYPE_F16, GYRE_DTYPE_BF16};
    return types[fuzz_choice(in, 4)];
}

double fuzz_rounding(gyre_dtype dtype, double size) {
    const double relative = dtype == GYRE_DTYPE_BF16 ? 0x1p-8 : dtype == GYRE_DTYPE_F16 ? 0x1p-11 : 0x1p-24;
    return relative * fabs(size) + (dtype == GYRE_DTYPE_F16 ? 0x1p-25 : 0);
}
