/* extend_journal.h: --journal of gyre extend --text: the losses of a method at a length, once they are measured. */
#ifndef GYRE_TOOLS_EXTEND_JOURNAL_H
#define GYRE_TOOLS_EXTEND_JOURNAL_H
#include "tools/common/keyed_journal.h"
#include "tools/common/run_card.h"
#include "tools/extend/extend.h"
#include "tools/options/run_options.h"

typedef struct extend_journal {
    keyed_journal lines;
    run_card card;
    json_t *texts; /* the hash of the tokens of each; NULL = there is no journal */
    const extension *e;
} extend_journal;

typedef struct extend_cell {
    const char *label;        /* of the method */
    int64_t context, windows; /* windows: of each text, at most */
} extend_cell;

/* Reads all of the model's files for their hash, if o names a journal.  Borrows e and input.  Errors: those of
 * keyed_journal_open and gyre_model_hash. */
gyre_status extend_journal_open(extend_journal *out, const extension *e, const model_input *input, const run_options *o,
                                const cli_options *common, gyre_error *err);
void extend_journal_close(extend_journal *journal); /* also for one that is zeroed or failed to open */
/* out = 1 if the journal has the losses of a cell, which are then nats[count] (may be NULL); 0 also if memory runs out. */
int extend_journal_find(const extend_journal *journal, const extend_cell *cell, double *nats, int64_t count);
/* Errors: EIO, ENOMEM. */
gyre_status extend_journal_add(extend_journal *journal, const extend_cell *cell, const double *nats, int64_t count,
                               gyre_error *err);

#endif
