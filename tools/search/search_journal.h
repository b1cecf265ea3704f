/* search_journal.h: the losses that a search measured, in memory and in a journal, so that a search that was killed
 * continues: it repeats the same steps from the same seed, and what it measured before is not measured again. */
#ifndef GYRE_TOOLS_SEARCH_JOURNAL_H
#define GYRE_TOOLS_SEARCH_JOURNAL_H
#include "tools/search/search_rescale.h"
#include <jansson.h>

typedef struct search_journal search_journal;

/* Some windows measured under some factors: the key of a line. */
typedef struct search_evaluation {
    const char *part;              /* "search" or "held-out" */
    const char *origin;            /* written to the line, not part of the key */
    const search_rescale *rescale; /* attention 0: the model as its own config says */
    int64_t pairs, id;             /* id: of the candidate; below 0 = none */
    int64_t from, count;           /* windows from .. from + count - 1 */
} search_evaluation;

/* *out = the journal at path (NULL = in memory only).  search_identity: the first line of the file, which defines the
 * search.
 * Errors: EINVAL (the file is of another search; err says how it differs), EIO, ENOMEM. */
gyre_status search_journal_open(search_journal **out, const char *path, const json_t *search_identity, int replace,
                                gyre_error *err);
/* out = 1 if the evaluation is known; nats[0 .. count - 1] then get its losses. */
int search_journal_find(const search_journal *journal, const search_evaluation *r, double *nats);
gyre_status search_journal_add(search_journal *journal, const search_evaluation *r, const double *nats, gyre_error *err);
gyre_status search_journal_finish(search_journal *journal, gyre_error *err); /* journal_finish */
void search_journal_close(search_journal *journal);                          /* NULL is allowed */

#endif
