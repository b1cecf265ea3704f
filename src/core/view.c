/* view.c: strided views. */
#include "core/view.h"

size_t gyre_dtype_size(gyre_dtype dtype) {
    switch (dtype) {
    case GYRE_DTYPE_Q8:
        return 1;
    case GYRE_DTYPE_F16:
    case GYRE_DTYPE_BF16:
        return 2;
    case GYRE_DTYPE_F32:
    case GYRE_DTYPE_I32:
        return 4;
    case GYRE_DTYPE_F64:
    case GYRE_DTYPE_I64:
        return 8;
    }
    return 0;
}

int gyre_is_real(gyre_dtype dtype) {
    return dtype == GYRE_DTYPE_F32 || dtype == GYRE_DTYPE_F16 || dtype == GYRE_DTYPE_BF16 || dtype == GYRE_DTYPE_F64;
}

/* Unsigned: where extents are so large that a stride wraps, their product is past int64, and every call refuses that. */
static void dense_strides(const int64_t shape[4], int64_t stride[4]) {
    uint64_t step = 1;
    for (int i = 3; i >= 0; i--) {
        stride[i] = (int64_t)step;
        step *= (uint64_t)shape[i];
    }
}

gyre_view gyre_dense(void *data, gyre_dtype dtype, int64_t batch, int64_t tokens, int64_t heads, int64_t channels) {
    gyre_view view = {data, dtype, {batch, tokens, heads, channels}, {0}};
    dense_strides(view.shape, view.stride);
    return view;
}

gyre_cview gyre_cdense(const void *data, gyre_dtype dtype, int64_t batch, int64_t tokens, int64_t heads, int64_t channels) {
    gyre_cview view = {data, dtype, {batch, tokens, heads, channels}, {0}};
    dense_strides(view.shape, view.stride);
    return view;
}

gyre_cview gyre_const(gyre_view view) {
    gyre_cview out = {view.data, view.dtype, {0}, {0}};
    for (int i = 0; i < 4; i++) {
        out.shape[i] = view.shape[i];
        out.stride[i] = view.stride[i];
    }
    return out;
}

static int64_t byte_offset(const int64_t stride[4], gyre_dtype dtype, const int64_t index[4]) {
    int64_t elements = 0;
    for (int i = 0; i < 4; i++)
        elements += index[i] * stride[i];
    return elements * (int64_t)gyre_dtype_size(dtype);
}

const void *gyre_cview_at(const gyre_cview *view, int64_t b, int64_t t, int64_t h, int64_t c) {
    return (const char *)view->data + byte_offset(view->stride, view->dtype, (const int64_t[4]){b, t, h, c});
}

void *gyre_view_at(const gyre_view *view, int64_t b, int64_t t, int64_t h, int64_t c) {
    return (char *)view->data + byte_offset(view->stride, view->dtype, (const int64_t[4]){b, t, h, c});
}

/* a b, or -1 where that is past int64; both at least 0.  On the way of every call: a division would cost as much as the rest
 * of its checks. */
static inline int64_t checked_product(int64_t a, int64_t b) {
#if defined(__GNUC__)
    int64_t all;
    return __builtin_mul_overflow(a, b, &all) ? -1 : all;
#else
    return b > 0 && a > INT64_MAX / b ? -1 : a * b;
#endif
}

static inline int64_t elements_of(const int64_t shape[4]) {
    if ((shape[0] | shape[1] | shape[2] | shape[3]) < 0) return -1;
    if (shape[0] == 0 || shape[1] == 0 || shape[2] == 0 || shape[3] == 0) return 0;
    const int64_t rows = checked_product(shape[0], shape[1]), channels = checked_product(shape[2], shape[3]);
    return rows < 0 || channels < 0 ? -1 : checked_product(rows, channels);
}

int64_t gyre_view_elements(const int64_t shape[4]) {
    return elements_of(shape);
}

/* Many elements in one place. */
static inline int overlaps_itself(const gyre_view *view) {
    for (int i = 0; i < 4; i++)
        if (view->stride[i] == 0 && view->shape[i] > 1) return 1;
    return 0;
}

int gyre_same_shape(const int64_t a[4], const int64_t b[4]) {
    return a[0] == b[0] && a[1] == b[1] && a[2] == b[2] && a[3] == b[3];
}

int gyre_same_memory(const gyre_cview *in, const gyre_view *out) {
    if (in->data != out->data) return 0;
    for (int i = 0; i < 4; i++)
        if (in->shape[i] > 1 && in->stride[i] != out->stride[i]) return 0;
    return 1;
}

gyre_status gyre_cview_check(const gyre_cview *view) {
    const int64_t elements = elements_of(view->shape);
    if (elements < 0) return GYRE_ESHAPE;
    return elements > 0 && !view->data ? GYRE_EINVAL : GYRE_OK;
}

gyre_status gyre_output_check(const gyre_view *view) {
    const int64_t elements = elements_of(view->shape);
    if (elements < 0) return GYRE_ESHAPE;
    if (elements == 0) return GYRE_OK;
    return !view->data || overlaps_itself(view) ? GYRE_EINVAL : GYRE_OK;
}

gyre_status gyre_in_out_check(const gyre_cview *in, const gyre_view *out) {
    if (!gyre_is_real(in->dtype) || in->dtype != out->dtype) return GYRE_EDTYPE;
    if (!gyre_same_shape(in->shape, out->shape)) return GYRE_ESHAPE;
    const int64_t elements = elements_of(in->shape);
    if (elements < 0) return GYRE_ESHAPE;
    if (elements == 0) return GYRE_OK;
    if (!in->data || !out->data || overlaps_itself(out)) return GYRE_EINVAL;
    return in->data == out->data && !gyre_same_memory(in, out) ? GYRE_EINVAL : GYRE_OK;
}
