/* shards.h: the struct behind gyre_shards. */
#ifndef GYRE_POSITIONS_SHARDS_H
#define GYRE_POSITIONS_SHARDS_H
#include "positions/batch.h"

struct gyre_shards {
    gyre_alloc alloc;
    const gyre_batch *batch;
    int64_t ranks;
    /* Parts of one block of memory.  What belongs to rank r begins at first_token[r] tokens, first_run[r] runs. */
    int64_t *first_token, *first_run;  /* [ranks + 1] */
    int64_t *pairs;                    /* [ranks] */
    int64_t *index;                    /* [tokens of a row] */
    gyre_token_run *run;               /* [runs of all ranks] */
    int64_t *order;                    /* [rows * tokens] */
    int64_t *positions;                /* [axes * rows * tokens] */
    int64_t *starts, *k_first, *k_end; /* [ranks][sequences + 1], [ranks][sequences] */
    uint64_t fingerprint;              /* of the config, the documents and the positions */
};

/* out = a hash of the bytes; `start` continues from earlier bytes. */
uint64_t gyre_shards_fingerprint(uint64_t start, const void *bytes, size_t n);

#endif
