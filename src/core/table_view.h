/* table_view.h: the views of a caller's tables, and their checks. */
#ifndef GYRE_CORE_TABLE_VIEW_H
#define GYRE_CORE_TABLE_VIEW_H
#include "gyre/gyre.h"

/* out = the view `which`; NULL if the struct is NULL. */
const gyre_cview *gyre_table_of(const gyre_tables *tables, gyre_table which);
const gyre_view *gyre_table_gradient_of(const gyre_table_gradients *gradients, gyre_table which);
/* 1, and *view = the vector table `which`, trained (from `tables`) or fixed (the encoding's own); 0 if there is none. */
int gyre_vector_table_view(const gyre_encoding *encoding, const gyre_tables *tables, gyre_table which, gyre_cview *view);
/* GYRE_OK if the encoding trains no table `which`, or tables has a valid one.  where: the function the user called, for err,
 * which may be NULL.  Errors: EINVAL (no memory), EDTYPE, ESHAPE. */
gyre_status gyre_table_check(const gyre_encoding *encoding, gyre_table which, const gyre_tables *tables, const char *where,
                             gyre_error *err);
/* The same check for a gradient, which will be written.  A gradient without memory is fine: the caller does not want it. */
gyre_status gyre_table_gradient_check(const gyre_encoding *encoding, gyre_table which, const gyre_table_gradients *gradients,
                                      const char *where, gyre_error *err);

#endif
