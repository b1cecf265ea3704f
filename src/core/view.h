/* view.h: addresses inside strided views, and the checks that calls make on views. */
#ifndef GYRE_CORE_VIEW_H
#define GYRE_CORE_VIEW_H
#include "gyre/gyre.h"

#include <inttypes.h>

/* Address of element [b, t, h, c]. */
const void *gyre_cview_at(const gyre_cview *view, int64_t b, int64_t t, int64_t h, int64_t c);
void *gyre_view_at(const gyre_view *view, int64_t b, int64_t t, int64_t h, int64_t c);

/* out = the stride of an axis; 1 if it has one element, whose stride may be any number: code that looks ahead multiplies
 * it. */
int64_t gyre_cview_step(const gyre_cview *view, int axis);

/* out = element [b, t, h, 0] of a view of F32 or F64. */
double gyre_cview_real(const gyre_cview *view, int64_t b, int64_t t, int64_t h);

/* *view = elements first .. first + count - 1 of that axis.  A view without memory stays without, and one
 * without elements where it is: its strides may be any numbers. */
void gyre_cview_narrow(gyre_cview *view, int axis, int64_t first, int64_t count);
void gyre_view_narrow(gyre_view *view, int axis, int64_t first, int64_t count);

/* Bytes from the address of a view to its lowest and to its highest element. */
typedef struct gyre_reach {
    int64_t below, above;
} gyre_reach;
/* More than any memory has, and so little that differences of such addresses and their sums stay within int64. */
#define GYRE_MAX_REACH ((int64_t)1 << 60)
/* *sum += what an axis reaches; 0 if that is past GYRE_MAX_REACH. */
int gyre_axis_reach(int64_t extent, int64_t stride, gyre_dtype dtype, gyre_reach *sum);
/* *out = what a view of extents from 0 on reaches; 0 if that is past GYRE_MAX_REACH. */
int gyre_view_reach(const gyre_cview *view, gyre_reach *out);

/* 1 for the types whose elements are in blocks: Q8_0 and Q4_0. */
int gyre_is_block(gyre_dtype dtype);
/* out = bytes of so many adjacent elements, or of a stride; of blocks, a multiple of their elements. */
int64_t gyre_dtype_bytes(gyre_dtype dtype, int64_t elements);
/* out = a view of blocks as one of bytes, for what looks at addresses alone; any other view as it is. */
gyre_cview gyre_bytes_of_blocks(const gyre_cview *view);

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
/* EINVAL unless data is a multiple of the size of an element. */
gyre_status gyre_alignment_check(const void *data, gyre_dtype dtype, const char *name, const char *where, gyre_error *err);
/* ESHAPE for an impossible shape; EINVAL for memory that is missing or misaligned, and for strides past any memory. */
gyre_status gyre_cview_check(const gyre_cview *view, const char *name, const char *where, gyre_error *err);
/* The same for memory that will be written; also EINVAL if a stride of 0 makes several elements share one address. */
gyre_status gyre_output_check(const gyre_view *view, const char *name, const char *where, gyre_error *err);
/* `in` and `out` of gyre_rotate and gyre_add_input: one real type, one shape, memory.  Errors: EDTYPE, ESHAPE, EINVAL. */
gyre_status gyre_in_out_check(const gyre_cview *in, const gyre_view *out, const char *where, gyre_error *err);
/* The same for one type of any kind. */
gyre_status gyre_in_out_alike_check(const gyre_cview *in, const gyre_view *out, const char *where, gyre_error *err);
/* EINVAL for a number that is no direction. */
gyre_status gyre_direction_check(gyre_direction direction, const char *where, gyre_error *err);

/* The last checks of a call, of views that passed those above. */

/* EINVAL if memory that will be written shares a byte with other memory. */
gyre_status gyre_apart_check(const gyre_cview *written, const char *name, const gyre_cview *other, const char *other_name,
                             const char *where, gyre_error *err);
/* EINVAL unless both are the same memory with the same strides, or memory that shares no byte. */
gyre_status gyre_in_out_apart_check(const gyre_cview *in, const gyre_view *out, const char *where, gyre_error *err);

/* -- views of a call that is prepared: shapes and strides were checked, and memory changes from run to run -- */

/* The bytes before the first element and past the last, counted from the first.  empty: the view has no element. */
typedef struct gyre_bound_view {
    const char *name;
    gyre_dtype dtype;
    int written, empty, endless; /* endless: its strides reach past any memory */
    uintptr_t alignment;         /* a power of two less 1 */
    int64_t below, above;
} gyre_bound_view;
enum { GYRE_MOST_BOUND_VIEWS = 16 };
typedef struct gyre_bound_views {
    int count;
    gyre_bound_view at[GYRE_MOST_BOUND_VIEWS];
} gyre_bound_views;

/* Adds a checked view; written: 1 = the call writes it. */
void gyre_bound_views_add(gyre_bound_views *views, const char *name, const gyre_cview *view, int written);
/* EINVAL for strides that reach past any memory. */
gyre_status gyre_bound_views_reach(const gyre_bound_views *views, const char *where, gyre_error *err);
/* *apart = 1: no view that is written shares a byte with another of them, as data[i] is the memory of view i; 0: it is not
 * known.  Errors: EINVAL (memory that is missing or misaligned). */
gyre_status gyre_bound_views_check(const gyre_bound_views *views, const void *const *data, int *apart, const char *where,
                                   gyre_error *err);

#endif
