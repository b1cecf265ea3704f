/* segments.h: a call of attention cut into segments.
 *
 * A segment has one context length, and one number of queries and of keys for all its batch rows:
 *
 *     packed batch (q_starts)                  one segment for each sequence
 *     padding (k_first, k_end, q_end),         one for each batch row
 *     context_lengths
 *     context length of each query             one for each run of queries with one length; the keys of the sequence are
 *     (GYRE_LENGTH_POLICY_CAUSAL)              rotated again for each
 *     positions of each head                   one for each query head; for each key head where queries share theirs
 *     otherwise                                the call is one segment */
#ifndef GYRE_ATTENTION_SEGMENTS_H
#define GYRE_ATTENTION_SEGMENTS_H
#include "attention/plan/segment.h"

typedef struct gyre_segments {
    const gyre_attention_inputs *args;
    gyre_key_source source;
    int split, dynamic;            /* gyre_split_by_sequence and gyre_length_is_dynamic of the call */
    int64_t sequence, head, query; /* of the next segment; head: of queries, counted in the views */
    int64_t head_first;            /* of the views, in the call */
} gyre_segments;

/* 1: frequencies depend on a context length that the call leaves open, so that it may differ between queries. */
int gyre_length_is_dynamic(const gyre_attention_inputs *args);
/* 1: the call has a segment for each sequence or more.  0: the call is one segment. */
int gyre_split_by_sequence(const gyre_attention_inputs *args);
int64_t gyre_sequence_count(const gyre_attention_inputs *args);
/* out = query heads of a segment. */
int64_t gyre_segment_heads(const gyre_attention_inputs *args);

/* args: checked by attention_check.h.  source: NULL = the views of args, otherwise args is one sequence.  head_first: query
 * head of the call with which the views begin. */
void gyre_segments_begin(gyre_segments *segments, const gyre_attention_inputs *args, const gyre_key_source *source,
                         int64_t head_first);
/* 1: *out = the next segment.  0: there is none. */
int gyre_segments_next(gyre_segments *segments, gyre_segment *out);
/* *out = a segment that none of the call's is larger than; returns 0 if the call is that segment.  Reads no position and no
 * start. */
int gyre_segments_largest(const gyre_attention_inputs *args, const gyre_key_source *source, gyre_segment *out);
/* Narrows the weights of row b to queries first .. first + count - 1 and `keys` keys from `key` on; none: without data. */
void gyre_weights_narrow(gyre_attention_inputs *args, int64_t b, int64_t first, int64_t count, int64_t key, int64_t keys);

#endif
