/* search_windows.h: which windows are searched on, and which held out to judge what was found. */
#ifndef GYRE_TOOLS_SEARCH_WINDOWS_H
#define GYRE_TOOLS_SEARCH_WINDOWS_H
#include "gyre/gyre_model.h"

/* Every text is cut into stretches, of which the first is searched on, the second held out, and so on: no token is in both,
 * and where a text changes as it goes, both see that. */
typedef struct search_windows {
    gyre_text text;                         /* all texts in a row; no window reaches from one into the next */
    int64_t *searched, *held_out;           /* where each begins */
    int64_t searched_count, held_out_count; /* held_out_count: at least 2 */
    int64_t context, stride;
} search_windows;

typedef struct search_window_options {
    int64_t context, stride;
    int64_t max_searched, max_held_out; /* windows */
    uint64_t seed;
} search_window_options;

/* *out = windows of context tokens, every stride of them, spread evenly over the stretches where fewer are wanted than there
 * are; those to search on in an order drawn from the seed, so that the first of them are spread too.  EINVAL: a text too
 * short.  ENOMEM. */
gyre_status search_windows_create(const gyre_text *texts, int64_t texts_count, const search_window_options *wanted,
                                  search_windows *out, gyre_error *err);
void search_windows_free(search_windows *windows); /* one that was zeroed is fine */

#endif
