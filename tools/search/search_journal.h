/* search_journal.h: what windows have cost whom, in memory and in a file of a line of JSON each, so that a search that was
 * killed goes on: it goes the same way from its seed again, and what it read before is not read again. */
#ifndef GYRE_TOOLS_SEARCH_JOURNAL_H
#define GYRE_TOOLS_SEARCH_JOURNAL_H
#include "tools/common/cli.h"
#include "tools/search/search_rescale.h"

typedef struct search_journal search_journal;

/* Who read which windows: the key of a line. */
typedef struct search_evaluation {
    const char *part;              /* "search", "held-out" */
    const char *origin;            /* what the line says beside */
    const search_rescale *rescale; /* attention 0: the model as its own config says */
    int64_t pairs, id;             /* id: below 0 = none */
    int64_t from, count;           /* windows */
} search_evaluation;

/* *out = the journal at path (NULL = in memory alone); search_identity: the search that it is of, its first line.  EINVAL:
 * the file is of another search, said in what.  Errors: EIO, ENOMEM. */
gyre_status search_journal_open(search_journal **out, const char *path, const json_t *search_identity, gyre_error *err);
/* out = whether nats[0 .. count - 1] are known, and then those. */
int search_journal_find(const search_journal *journal, const search_evaluation *r, double *nats);
gyre_status search_journal_add(search_journal *journal, const search_evaluation *r, const double *nats, gyre_error *err);
/* out = windows whose nats were in the file. */
int64_t search_journal_loaded(const search_journal *journal);
void search_journal_close(search_journal *journal); /* NULL is fine */

#endif
