/* keyed_journal.h: a journal whose lines are {"cell": what defines a result, "figures": the result}.
 *
 * The cell holds everything that the result depends on, and files by their hash instead of their name.  So one journal may
 * hold several runs, and results for other files do no harm. */
#ifndef GYRE_TOOLS_KEYED_JOURNAL_H
#define GYRE_TOOLS_KEYED_JOURNAL_H
#include "tools/common/journal.h"

typedef struct keyed_journal {
    line_journal lines; /* lines.file NULL: there is no journal, and nothing is remembered */
} keyed_journal;

typedef enum journal_mode {
    JOURNAL_NEW,    /* it is an error if the file already holds results */
    JOURNAL_RESUME, /* they are continued */
    JOURNAL_REPLACE /* they are dropped, and so is what is not a journal */
} journal_mode;

/* Locks, reads and opens the journal.  path: borrowed; NULL = no journal.  Errors: EINVAL, EIO, ENOMEM. */
gyre_status keyed_journal_open(keyed_journal *journal, const char *path, journal_mode mode, gyre_error *err);
void keyed_journal_close(keyed_journal *journal); /* also for one that is zeroed or failed to open */
/* out = 1 if the journal holds any result. */
int keyed_journal_has_results(const keyed_journal *journal);
/* out = the figures of a cell, valid as long as the journal; NULL = not known.  Releases `cell`. */
json_t *keyed_journal_find(const keyed_journal *journal, json_t *cell);
/* Adds the figures of a cell.  Releases both.  Errors: EIO, ENOMEM (also if one of them is NULL). */
gyre_status keyed_journal_add(keyed_journal *journal, json_t *cell, json_t *figures, gyre_error *err);

#endif
