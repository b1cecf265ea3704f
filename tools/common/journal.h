/* journal.h: results of a long run, a line of JSON each, so that a killed run goes on from them. */
#ifndef GYRE_TOOLS_JOURNAL_H
#define GYRE_TOOLS_JOURNAL_H
#include "tools/common/cli.h"

/* *out = path, open for more lines, after keep was called with each line that is JSON, in order.  A line cut off by a kill
 * is none and is passed over: what it held is measured again.  Errors: EIO. */
gyre_status journal_open(FILE **out, const char *path, void (*on_line)(void *ctx, json_t *line), void *ctx, gyre_error *err);

#endif
