/* view.h: addresses inside strided views, and the checks that calls make on views. */
#ifndef GYRE_CORE_VIEW_H
#define GYRE_CORE_VIEW_H
#include "gyre/gyre.h"

#include <inttypes.h>

/* Address of element [b, t, h, c]. */
const void *gyre_cview_at(const gyre_cview *view, int64_t b, int64_t t, int64_t h, int64_t c);
void *gyre_view_at(const gyre_view *view, int64_t b, int64_t t, int64_t h, int64_t c);

/* *view = elements first .. first + count - 1 of that axis.  A view without memory stays without. */
void gyre_cview_narrow(gyre_cview *view, int axis, int64_t first, int64_t count);
void gyre_view_narrow(gyre_view *view, int axis, int64_t first, int64_t count);

/* Number of elements; -1 for a negative extent or a product past int64. */
int64_t gyre_view_elements(const int64_t shape[4]);
int gyre_same_shape(const int64_t a[4], const int64_t b[4]);
/* 1 if both views place every element at the same address. */
int gyre_same_memory(const gyre_cview *in, const gyre_view *out);
/* 1 for F32, F16, BF16 and F64. */
int gyre_is_real(gyre_dtype dtype);

/* out = "F32", "F16", ... */
const char *gyre_dtype_text(gyre_dtype dtype);
/* A shape in an error message: gyre_fail(err, status, "in: " GYRE_SHAPE_FORMAT "...", GYRE_SHAPE_ARGS(shape)). */
#define GYRE_SHAPE_FORMAT      "[%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 "]"
#define GYRE_SHAPE_ARGS(shape) (shape)[0], (shape)[1], (shape)[2], (shape)[3]

/* The checks below fill in err, which may be NULL, with "NAME: why (WHERE)": name is the argument, where the function that
 * the user called. */

/* ESHAPE unless both shapes are the same. */
gyre_status gyre_shape_check(const int64_t is[4], const int64_t wanted[4], const char *name, const char *where,
                             gyre_error *err);
/* ESHAPE for an impossible shape, EINVAL for missing memory. */
gyre_status gyre_cview_check(const gyre_cview *view, const char *name, const char *where, gyre_error *err);
/* The same for memory that will be written; also EINVAL if a stride of 0 makes several elements share one address. */
gyre_status gyre_output_check(const gyre_view *view, const char *name, const char *where, gyre_error *err);
/* `in` and `out` of gyre_rotate and gyre_add_input: one real type, one shape, the same memory with the same strides or
 * memory that shares no byte.  Errors: EDTYPE, ESHAPE, EINVAL. */
gyre_status gyre_in_out_check(const gyre_cview *in, const gyre_view *out, const char *where, gyre_error *err);

#endif
