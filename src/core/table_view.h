/* table_view.h: the views of a caller's tables, and their checks. */
#ifndef GYRE_CORE_TABLE_VIEW_H
#define GYRE_CORE_TABLE_VIEW_H
#include "gyre/gyre.h"

/* out = the view `which`; NULL if the struct is NULL. */
const gyre_cview *gyre_table_of(const gyre_tables *tables, gyre_table which);
const gyre_view *gyre_table_gradient_of(const gyre_table_gradients *gradients, gyre_table which);
/* 1, and *view = the vector table `which`, trained (from `tables`) or fixed (the encoding's own); 0 if there is none. */
int gyre_vector_table_view(const gyre_encoding *encoding, const gyre_tables *tables, gyre_table which, gyre_cview *view);
/* GYRE_OK if the encoding has no table `which`, or `table` is a valid one; else EINVAL (no memory), EDTYPE, ESHAPE. */
gyre_status gyre_table_check(const gyre_encoding *encoding, gyre_table which, const gyre_cview *table);
/* The same check for a gradient.  A gradient without memory is fine: the caller does not want it. */
gyre_status gyre_table_gradient_check(const gyre_encoding *encoding, gyre_table which, const gyre_view *gradient);

#endif
