/* search_windows.h: which windows are searched on, and which held out to judge what was found. */
#ifndef GYRE_TOOLS_SEARCH_WINDOWS_H
#define GYRE_TOOLS_SEARCH_WINDOWS_H
#include "gyre/gyre_model.h"

/* Every text is cut into stretches, of which the first is searched on, the second held out, and so on: no token is in both,
 * and where a text changes as it goes, both see that. */
typedef struct search_windows {
    gyre_text text;                     /* all texts in a row; no window reaches from one into the next */
    int64_t *searched, *held;           /* where each begins */
    int64_t searched_count, held_count; /* held_count: at least 2 */
    int64_t context, stride;
} search_windows;

/* *out = at most most_searched and most_held windows of context tokens, every stride of them, spread evenly over the
 * stretches; those to search on in an order drawn from the seed, so that the first of them are spread too.  EINVAL: a text
 * too short. ENOMEM. */
gyre_status search_windows_lay(const gyre_text *texts, int64_t texts_count, int64_t context, int64_t stride,
                               int64_t most_searched, int64_t most_held, uint64_t seed, search_windows *out,
                               gyre_error *err);
void search_windows_free(search_windows *windows); /* one that was zeroed is fine */

#endif
