/* keyed_journal.h: a journal whose lines are {"cell": what defines a result, "figures": what came out}.
 *
 * What defines a result is everything that it depends on, files by their hash and not by their name: so a journal may hold
 * several runs, and one of other files is of no harm. */
#ifndef GYRE_TOOLS_KEYED_JOURNAL_H
#define GYRE_TOOLS_KEYED_JOURNAL_H
#include "tools/common/cli.h"

typedef struct keyed_journal {
    const char *path; /* borrowed; NULL: none, nothing is known and nothing is kept */
    FILE *file;
    json_t *figures; /* {cell as text: figures} */
    cli_lock lock;
} keyed_journal;

/* Opens it, and reads what earlier runs left, which is an error where resume is 0.  A file that is no journal is left as it
 * is.  Errors: EINVAL, EIO, ENOMEM. */
gyre_status keyed_journal_open(keyed_journal *journal, const char *path, int resume, gyre_error *err);
void keyed_journal_close(keyed_journal *journal); /* one that was zeroed, or opened, or failed to */
/* out = the figures of a cell, as long as the journal; NULL = not known.  Takes `cell`, as below. */
json_t *keyed_journal_find(const keyed_journal *journal, json_t *cell);
/* Adds figures.  Errors: EIO, ENOMEM. */
gyre_status keyed_journal_add(keyed_journal *journal, json_t *cell, json_t *figures, gyre_error *err);

#endif
