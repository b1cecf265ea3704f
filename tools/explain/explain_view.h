/* explain_view.h: a reading as text. */
#ifndef GYRE_TOOLS_EXPLAIN_VIEW_H
#define GYRE_TOOLS_EXPLAIN_VIEW_H
#include "tools/explain/explain_format.h"
#include "tools/explain/explain_stats.h"
#include "tools/explain/explain_terminal.h"

/* The file, its format and the profile. */
void explain_view_head(const explain_terminal *page, const gyre_reading *reading);
/* A group: its fields, its pairs or its scheme, and summaries. */
void explain_view_group(const explain_terminal *page, const gyre_reading *reading, const explain_stats *stats);
/* explain_pairs.c: the pairs of a rotation in at most 16 rows; each row holds neighbours that are treated alike. */
void explain_view_pairs(const explain_terminal *page, const explain_stats *stats);
void explain_view_warnings(const explain_terminal *page, const gyre_reading *reading);
/* The same of unread keys and of what was assumed alone.  label: what the reading is called before each; NULL = nothing. */
void explain_view_doubts(const explain_terminal *page, const gyre_reading *reading, const char *label);

#endif
