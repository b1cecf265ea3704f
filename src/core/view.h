/* view.h: addresses inside strided views, and the checks every call makes on them. */
#ifndef GYRE_CORE_VIEW_H
#define GYRE_CORE_VIEW_H
#include "gyre/gyre.h"

/* Address of element [b, t, h, c]. */
const void *gyre_cview_at(const gyre_cview *view, int64_t b, int64_t t, int64_t h, int64_t c);
void *gyre_view_at(const gyre_view *view, int64_t b, int64_t t, int64_t h, int64_t c);

/* Number of elements; -1 for a negative extent or a product past int64. */
int64_t gyre_view_elements(const int64_t shape[4]);
int gyre_same_shape(const int64_t a[4], const int64_t b[4]);
/* 1 if element by element both views name the same memory. */
int gyre_same_memory(const gyre_cview *in, const gyre_view *out);
/* 1 for F32, F16, BF16 and F64. */
int gyre_is_real(gyre_dtype dtype);

/* ESHAPE for an impossible shape, EINVAL for missing memory. */
gyre_status gyre_cview_check(const gyre_cview *view);
/* The same for memory to be written: EINVAL too where a stride of 0 would have many elements share one place. */
gyre_status gyre_output_check(const gyre_view *view);
/* What gyre_rotate and gyre_add_input ask of their pair: equal real types, equal shapes, same memory or other memory. */
gyre_status gyre_in_out_check(const gyre_cview *in, const gyre_view *out);

#endif
