/* view_overlap.h: whether two strided views share memory. */
#ifndef GYRE_ATTENTION_VIEW_OVERLAP_H
#define GYRE_ATTENTION_VIEW_OVERLAP_H
#include "gyre/gyre.h"

/* out = 1 if an element of a and an element of b share a byte, else 0.  Views may interleave without sharing one: out may
 * lie between the rows of a fused q, k and v.  0 also where the search gives up, after some thousand steps: views whose
 * strides have nothing in common and that interleave.  Both shapes are checked (gyre_cview_check). */
int gyre_views_overlap(const gyre_cview *a, const gyre_cview *b);

#endif
