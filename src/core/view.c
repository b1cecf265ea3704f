/* view.c: strided views. */
#include "core/view.h"
#include "kernels/quants/quant_blocks.h"
#include "util/error.h"

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
    case GYRE_DTYPE_Q8_0:
    case GYRE_DTYPE_Q4_0:
        return 0;
    }
    return 0;
}

int gyre_is_block(gyre_dtype dtype) {
    return dtype == GYRE_DTYPE_Q8_0 || dtype == GYRE_DTYPE_Q4_0;
}

int64_t gyre_dtype_bytes(gyre_dtype dtype, int64_t elements) {
    if (!gyre_is_block(dtype)) return elements * (int64_t)gyre_dtype_size(dtype);
    return elements / GYRE_Q_BLOCK * (dtype == GYRE_DTYPE_Q8_0 ? GYRE_Q8_0_BYTES : GYRE_Q4_0_BYTES);
}

/* A product that is too large reaches further than memory does, and so does what stands for it. */
static int64_t bytes_of_stride(int64_t blocks, int64_t block) {
    return -GYRE_MAX_REACH / block < blocks && blocks < GYRE_MAX_REACH / block ? blocks * block : INT64_MAX;
}

gyre_cview gyre_bytes_of_blocks(const gyre_cview *view) {
    gyre_cview out = *view;
    if (!gyre_is_block(view->dtype)) return out;
    const int64_t block = gyre_dtype_bytes(view->dtype, GYRE_Q_BLOCK);
    out.dtype = GYRE_DTYPE_Q8; /* whose elements are bytes */
    for (int i = 0; i < 3; i++)
        out.stride[i] = bytes_of_stride(view->stride[i] / GYRE_Q_BLOCK, block);
    out.shape[3] = bytes_of_stride(view->shape[3] / GYRE_Q_BLOCK, block);
    return out;
}

int gyre_is_real(gyre_dtype dtype) {
    return dtype == GYRE_DTYPE_F32 || dtype == GYRE_DTYPE_F16 || dtype == GYRE_DTYPE_BF16 || dtype == GYRE_DTYPE_F64;
}

/* Unsigned, so that a stride may wrap.  The product of the extents is then past int64, and every call refuses the view. */
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
    return gyre_dtype_bytes(dtype, elements);
}

const void *gyre_cview_at(const gyre_cview *view, int64_t b, int64_t t, int64_t h, int64_t c) {
    return (const char *)view->data + byte_offset(view->stride, view->dtype, (const int64_t[4]){b, t, h, c});
}

int64_t gyre_cview_step(const gyre_cview *view, int axis) {
    return view->shape[axis] > 1 ? view->stride[axis] : 1;
}

double gyre_cview_real(const gyre_cview *view, int64_t b, int64_t t, int64_t h) {
    const void *at = gyre_cview_at(view, b, t, h, 0);
    return view->dtype == GYRE_DTYPE_F64 ? *(const double *)at : (double)*(const float *)at;
}

void *gyre_view_at(const gyre_view *view, int64_t b, int64_t t, int64_t h, int64_t c) {
    return (char *)view->data + byte_offset(view->stride, view->dtype, (const int64_t[4]){b, t, h, c});
}

void gyre_cview_narrow(gyre_cview *view, int axis, int64_t first, int64_t count) {
    if (view->data && first != 0 && gyre_view_elements(view->shape) > 0)
        view->data = (const char *)view->data + gyre_dtype_bytes(view->dtype, first * view->stride[axis]);
    view->shape[axis] = count;
}

void gyre_view_narrow(gyre_view *view, int axis, int64_t first, int64_t count) {
    if (view->data && first != 0 && gyre_view_elements(view->shape) > 0)
        view->data = (char *)view->data + gyre_dtype_bytes(view->dtype, first * view->stride[axis]);
    view->shape[axis] = count;
}

/* a b, or -1 if that is past int64; a, b >= 0.  Every call gets here, and a division would cost as much as all its other
 * checks. */
static inline int64_t checked_product(int64_t a, int64_t b) {
#if defined(__GNUC__)
    int64_t product;
    return __builtin_mul_overflow(a, b, &product) ? -1 : product;
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

int gyre_axis_reach(int64_t extent, int64_t stride, gyre_dtype dtype, gyre_reach *sum) {
    if (extent <= 1 || stride == 0) return 1;
    if (stride == INT64_MIN) return 0;
    const int64_t elements = checked_product(stride < 0 ? -stride : stride, extent - 1);
    const int64_t size = (int64_t)gyre_dtype_size(dtype);
    const int64_t bytes =
        elements < 0 ? -1 : checked_product(elements, size > 0 ? size : 1); /* the type may be unknown yet */
    if (bytes < 0 || bytes > GYRE_MAX_REACH - sum->below - sum->above) return 0;
    *(stride < 0 ? &sum->below : &sum->above) += bytes;
    return 1;
}

int gyre_view_reach(const gyre_cview *view, gyre_reach *out) {
    const gyre_cview own = gyre_bytes_of_blocks(view);
    *out = (gyre_reach){0, 0};
    for (int i = 0; i < 4; i++)
        if (!gyre_axis_reach(own.shape[i], own.stride[i], own.dtype, out)) return 0;
    return 1;
}

int64_t gyre_view_elements(const int64_t shape[4]) {
    return elements_of(shape);
}

int gyre_same_shape(const int64_t a[4], const int64_t b[4]) {
    return a[0] == b[0] && a[1] == b[1] && a[2] == b[2] && a[3] == b[3];
}

gyre_status gyre_shape_check(const int64_t is[4], const int64_t wanted[4], const char *name, const char *where,
                             gyre_error *err) {
    if (gyre_same_shape(is, wanted)) return GYRE_OK;
    return gyre_fail(err, GYRE_ESHAPE, "%s: shape " GYRE_SHAPE_FORMAT " is not " GYRE_SHAPE_FORMAT " (%s)", name,
                     GYRE_SHAPE_ARGS(is), GYRE_SHAPE_ARGS(wanted), where);
}

int gyre_same_memory(const gyre_cview *in, const gyre_view *out) {
    if (in->data != out->data) return 0;
    for (int i = 0; i < 4; i++)
        if (in->shape[i] > 1 && in->stride[i] != out->stride[i]) return 0;
    return 1;
}

const char *gyre_dtype_text(gyre_dtype dtype) {
    static const char *const text[] = {[GYRE_DTYPE_F32] = "F32", [GYRE_DTYPE_F16] = "F16",   [GYRE_DTYPE_BF16] = "BF16",
                                       [GYRE_DTYPE_F64] = "F64", [GYRE_DTYPE_I32] = "I32",   [GYRE_DTYPE_I64] = "I64",
                                       [GYRE_DTYPE_Q8] = "Q8",   [GYRE_DTYPE_Q8_0] = "Q8_0", [GYRE_DTYPE_Q4_0] = "Q4_0"};
    return (unsigned)dtype < sizeof text / sizeof *text ? text[dtype] : "an unknown type";
}

static gyre_status refuse_shape(const int64_t shape[4], const char *name, const char *where, gyre_error *err) {
    return gyre_fail(err, GYRE_ESHAPE, "%s: " GYRE_SHAPE_FORMAT " has a negative extent or more than 2^63 elements (%s)",
                     name, GYRE_SHAPE_ARGS(shape), where);
}

static gyre_status refuse_memory(const int64_t shape[4], const char *name, const char *where, gyre_error *err) {
    return gyre_fail(err, GYRE_EINVAL, "%s: has no memory for its shape " GYRE_SHAPE_FORMAT " (%s)", name,
                     GYRE_SHAPE_ARGS(shape), where);
}

gyre_status gyre_alignment_check(const void *data, gyre_dtype dtype, const char *name, const char *where, gyre_error *err) {
    const size_t size = gyre_dtype_size(dtype), past = size > 1 ? (uintptr_t)data % size : 0;
    if (past == 0) return GYRE_OK;
    return gyre_fail(err, GYRE_EINVAL, "%s: data is %zu bytes past a multiple of %zu, the size of its %s elements (%s)",
                     name, past, size, gyre_dtype_text(dtype), where);
}

/* Each row of channels is whole blocks. */
static gyre_status check_blocks(const gyre_cview *view, const char *name, const char *where, gyre_error *err) {
    int64_t past = view->shape[3] % GYRE_Q_BLOCK;
    for (int i = 0; i < 3; i++)
        if (view->shape[i] > 1) past |= view->stride[i] % GYRE_Q_BLOCK;
    if (past == 0 && view->stride[3] == 1) return GYRE_OK;
    return gyre_fail(err, GYRE_EINVAL,
                     "%s: shape " GYRE_SHAPE_FORMAT " and strides " GYRE_SHAPE_FORMAT
                     " do not keep blocks of %d %s channels "
                     "whole (%s)",
                     name, GYRE_SHAPE_ARGS(view->shape), GYRE_SHAPE_ARGS(view->stride), GYRE_Q_BLOCK,
                     gyre_dtype_text(view->dtype), where);
}

/* Checks the memory of a view that has elements. */
static gyre_status check_addresses(const gyre_cview *view, const char *name, const char *where, gyre_error *err) {
    gyre_reach reach;
    if (!view->data) return refuse_memory(view->shape, name, where, err);
    const gyre_status status = gyre_is_block(view->dtype) ? check_blocks(view, name, where, err) : GYRE_OK;
    if (status) return status;
    if (!gyre_view_reach(view, &reach))
        return gyre_fail(err, GYRE_EINVAL,
                         "%s: its strides " GYRE_SHAPE_FORMAT " reach further than memory does, for shape " GYRE_SHAPE_FORMAT
                         " (%s)",
                         name, GYRE_SHAPE_ARGS(view->stride), GYRE_SHAPE_ARGS(view->shape), where);
    return gyre_alignment_check(view->data, view->dtype, name, where, err);
}

gyre_status gyre_cview_check(const gyre_cview *view, const char *name, const char *where, gyre_error *err) {
    const int64_t elements = elements_of(view->shape);
    if (elements < 0) return refuse_shape(view->shape, name, where, err);
    return elements > 0 ? check_addresses(view, name, where, err) : GYRE_OK;
}

gyre_status gyre_output_check(const gyre_view *view, const char *name, const char *where, gyre_error *err) {
    const gyre_cview own = gyre_const(*view);
    const gyre_status status = gyre_cview_check(&own, name, where, err);
    if (status || elements_of(view->shape) == 0) return status;
    for (int i = 0; i < 4; i++) /* written elements need an address each */
        if (view->stride[i] == 0 && view->shape[i] > 1)
            return gyre_fail(err, GYRE_EINVAL, "%s: stride[%d] is 0, so %" PRId64 " elements share one address (%s)", name,
                             i, view->shape[i], where);
    return GYRE_OK;
}

gyre_status gyre_apart_check(const gyre_cview *written, const char *name, const gyre_cview *other, const char *other_name,
                             const char *where, gyre_error *err) {
    if (!gyre_views_overlap(written, other)) return GYRE_OK;
    return gyre_fail(err, GYRE_EINVAL, "%s: overlaps %s (%s)", name, other_name, where);
}

gyre_status gyre_in_out_check(const gyre_cview *in, const gyre_view *out, const char *where, gyre_error *err) {
    if (gyre_is_real(in->dtype)) return gyre_in_out_alike_check(in, out, where, err);
    return gyre_fail(err, GYRE_EDTYPE, "in: is %s, not F32, F16, BF16 or F64 (%s)", gyre_dtype_text(in->dtype), where);
}

gyre_status gyre_in_out_alike_check(const gyre_cview *in, const gyre_view *out, const char *where, gyre_error *err) {
    if (gyre_dtype_size(in->dtype) == 0 || in->dtype != out->dtype)
        return gyre_fail(err, GYRE_EDTYPE, "out: is %s, but in is %s (%s)", gyre_dtype_text(out->dtype),
                         gyre_dtype_text(in->dtype), where);
    if (!gyre_same_shape(in->shape, out->shape))
        return gyre_fail(err, GYRE_ESHAPE, "out: " GYRE_SHAPE_FORMAT " is not the shape of in, " GYRE_SHAPE_FORMAT " (%s)",
                         GYRE_SHAPE_ARGS(out->shape), GYRE_SHAPE_ARGS(in->shape), where);
    const gyre_status status = gyre_cview_check(in, "in", where, err);
    return status ? status : gyre_output_check(out, "out", where, err);
}

gyre_status gyre_direction_check(gyre_direction direction, const char *where, gyre_error *err) {
    if ((unsigned)direction <= GYRE_DIRECTION_ADJOINT) return GYRE_OK;
    return gyre_fail(err, GYRE_EINVAL, "direction: %d is not a gyre_direction (%s)", (int)direction, where);
}

gyre_status gyre_in_out_apart_check(const gyre_cview *in, const gyre_view *out, const char *where, gyre_error *err) {
    const gyre_cview written = gyre_const(*out);
    if (gyre_same_memory(in, out) || !gyre_views_overlap(in, &written)) return GYRE_OK;
    return gyre_fail(err, GYRE_EINVAL, "out: overlaps in, and is not in itself with the same strides (%s)", where);
}

/* -- views with other memory -- */

void gyre_bound_views_add(gyre_bound_views *views, const char *name, const gyre_cview *view, int written) {
    const size_t size = gyre_is_block(view->dtype) ? 1 : gyre_dtype_size(view->dtype);
    gyre_reach reach = {0, 0};
    const int empty = gyre_view_elements(view->shape) <= 0, endless = !empty && !gyre_view_reach(view, &reach);
    views->at[views->count++] = (gyre_bound_view){.name = name,
                                                  .dtype = view->dtype,
                                                  .written = written,
                                                  .empty = empty || endless,
                                                  .endless = endless,
                                                  .alignment = size - 1,
                                                  .below = reach.below,
                                                  .above = reach.above + (int64_t)size};
}

gyre_status gyre_bound_views_reach(const gyre_bound_views *views, const char *where, gyre_error *err) {
    for (int i = 0; i < views->count; i++)
        if (views->at[i].endless)
            return gyre_fail(err, GYRE_EINVAL, "%s: its strides reach further than memory does (%s)", views->at[i].name,
                             where);
    return GYRE_OK;
}

static gyre_status refuse(const gyre_bound_view *view, const void *data, const char *where, gyre_error *err) {
    if (!data) return gyre_fail(err, GYRE_EINVAL, "%s: data is NULL (%s)", view->name, where);
    return gyre_alignment_check(data, view->dtype, view->name, where, err);
}

/* Addresses wrap, so their difference decides. */
static inline int are_apart(const gyre_bound_view *a, const void *at_a, const gyre_bound_view *b, const void *at_b) {
    const int64_t apart = (int64_t)((uintptr_t)at_b - (uintptr_t)at_a); /* from the first element of a to that of b */
    return apart - b->below >= a->above || apart + b->above <= -a->below;
}

gyre_status gyre_bound_views_check(const gyre_bound_views *views, const void *const *data, int *apart, const char *where,
                                   gyre_error *err) {
    int all_apart = 1;
    for (int i = 0; i < views->count; i++) {
        const gyre_bound_view *view = &views->at[i];
        if (view->empty) continue;
        if (!data[i] || ((uintptr_t)data[i] & view->alignment)) return refuse(view, data[i], where, err);
        for (int j = 0; view->written && j < views->count; j++)
            if (j != i && !views->at[j].empty) all_apart &= are_apart(view, data[i], &views->at[j], data[j]);
    }
    *apart = all_apart;
    return GYRE_OK;
}
