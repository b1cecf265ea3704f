/* explain_view.h: a reading for people. */
#ifndef GYRE_TOOLS_EXPLAIN_VIEW_H
#define GYRE_TOOLS_EXPLAIN_VIEW_H
#include "tools/explain/explain_stats.h"
#include "tools/explain/explain_text.h"

/* What is read, and by whom. */
void explain_view_head(const explain_terminal *page, const gyre_reading *reading);
/* A group: its fields, its pairs or what its scheme does instead, and the sum of it. */
void explain_view_group(const explain_terminal *page, const gyre_reading *reading, const explain_stats *stats);
/* explain_pairs.c: the pairs of a rotation, neighbours that are treated alike in one row, at most 16. */
void explain_view_pairs(const explain_terminal *page, const explain_stats *stats);
void explain_view_warnings(const explain_terminal *page, const gyre_reading *reading);

#endif
