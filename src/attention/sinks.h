/* sinks.h: gyre_attention_args.sink_logits, a score that no key has, and what a row is when its last key has been seen.
 *
 * The sink takes its share of a row's weights at the end, once for the row: whoever has the largest score and the sum of a
 * whole row (a tile of queries that met all keys, or the merged parts of a row whose keys were dealt out) closes it.  The
 * log-sum-exp that comes of it has the sink in it, so weights formed from that, as the gradient's are, ask for no more:
 * exp(score - lse) for each key, and exp(sink - lse) for what goes to none. */
#ifndef GYRE_ATTENTION_SINKS_H
#define GYRE_ATTENTION_SINKS_H
#include "attention/tiles.h"

/* That of a query head; -infinity where there is none. */
float gyre_sink_logit(const gyre_attention_plan *plan, int64_t head);

typedef struct gyre_row_end {
    double share;  /* sum over keys of exp(score - top) v[key] times this is the row of out; 0: it is zeros, whatever the sum
                    * holds */
    double weighs; /* log-sum-exp of the row, the sink in it, relative to its bias as the scores are; -infinity: nothing is
                    * seen and there is no sink */
} gyre_row_end;

/* top: the largest score of a row, relative to `bias`, -infinity where none is seen; sum: of exp(score - top).  The lse of
 * the row is (float)(bias + weighs). */
gyre_row_end gyre_row_close(const gyre_attention_plan *plan, int64_t head, double top, double sum, double bias);

#endif
