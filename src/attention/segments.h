/* segments.h: a call of attention as passes of one shape.
 *
 * A pass has one length in use and dense rows of one number of queries and keys.  A packed batch is a pass for each
 * sequence, a padded one for each row; where the length in use follows the query (GYRE_LENGTH_POLICY_CAUSAL), each sequence
 * is a pass for each stretch of queries of one length, and its keys are turned anew. */
#ifndef GYRE_ATTENTION_SEGMENTS_H
#define GYRE_ATTENTION_SEGMENTS_H
#include "attention/key_source.h"

typedef struct gyre_segment {
    /* Views of queries (q, out, lse, weights, mask) and positions narrowed, the length said; k and v have the shape of the
     * pass, what lies in them is the source's to say; no starts and ends left. */
    gyre_attention_args args;
    gyre_key_source source;
    int64_t sequence;               /* of the call; rows of the batch count on from it */
    int64_t query_first, key_first; /* where the pass begins in its sequence */
    int64_t query_order;            /* GYRE_CAUSAL_BY_ORDER: the key of the sequence beside which the first query stands */
    int64_t packed_key_first;       /* where the keys of the sequence begin in the views of the call */
    int accumulate_dkv;             /* an earlier pass had the same keys: gradients to them are added to */
    int is_upper_bound;             /* no pass, but what none of a call's is larger than: none of them may need more */
} gyre_segment;

typedef struct gyre_segments {
    const gyre_attention_args *args;
    gyre_key_source source;
    int64_t sequence, query; /* of the pass to come */
} gyre_segments;

/* EINVAL, ESHAPE: starts and ends that are not in order, or outside the views. */
gyre_status gyre_segments_check(const gyre_attention_args *args);
/* EDTYPE, ERANGE: positions that a pass is made by, and that must be looked at before. */
gyre_status gyre_segments_positions_check(const gyre_attention_args *args);
/* A pass that none of the call's passes is larger than; looks at no position and no start. */
void gyre_segments_upper_bound(const gyre_attention_args *args, const gyre_key_source *source, gyre_segment *out);
/* source: NULL = args' views; else args is one sequence. */
void gyre_segments_begin(gyre_segments *segments, const gyre_attention_args *args, const gyre_key_source *source);
/* 1 and the next pass, or 0 where none is left. */
int gyre_segments_next(gyre_segments *segments, gyre_segment *out);

#endif
