/* fuzz_attention_call.h: random but legal calls of gyre_attention and its gradient. */
#ifndef GYRE_FUZZ_ATTENTION_CALL_H
#define GYRE_FUZZ_ATTENTION_CALL_H
#include "attention_setup.h"
#include "fuzz_pair_rotation.h"
#include "fuzz_positions.h"

enum { MOST_KEYS = 300, MOST_CHANNELS = 128, MOST_ROWS = 2 };
/* Reads of q, k and v; writes of out, lse; gradients dout, dq, dk, dv. */
typedef enum part { Q, K, V, DOUT, OUT, LSE, DQ, DK, DV, MASK, WEIGHTS, PARTS } part;

typedef struct call {
    int64_t batch, queries, keys, heads, key_heads, dim, channels;
    fuzz_positions positions;
    int turning; /* 1: RoPE by fuzz_pair_rotation.h */
    fuzz_pair_rotation turns;
    fuzz_view part[PARTS];
    int64_t *at[2];            /* positions [batch][token][head][axis] of queries and keys */
    int64_t position_heads[2]; /* 1 = all heads share them */
    int64_t k_first[MOST_ROWS], k_end[MOST_ROWS], lengths[MOST_ROWS];
    attention_setup args;
    float sink[FUZZ_MOST_HEADS];
    double scale, largest; /* largest: of the scores, in magnitude */
    double dsink[FUZZ_MOST_HEADS], found_dsink[FUZZ_MOST_HEADS], dsink_error;
    double *row[OUT];       /* Q to DOUT: [batch][token][head][channel], queries and keys rotated, unless `turning`; keys are
                             * 0 in channels that only queries have */
    double *most[OUT];      /* [batch][token][head]: the largest of a row, in magnitude */
    double *weight, *score; /* [batch][query][head][key]: the definition's softmax, and the scores under it */
    double *out, *lse;      /* [batch][query][head](channels) */
    double *score_off;      /* [batch][query][head]: what a score of the row may be off */
    int is_vague;           /* 1: some score may be off so much that nothing can be said of weights */
} call;

/* turning: 1 = rotations of fuzz_pair_rotation.h in place of all schemes.  out = 0 if the config was refused. */
int fuzz_attention_make(call *c, const uint8_t *data, size_t size, int turning);
void fuzz_attention_free(call *c);

/* out = the position on each axis of a query (side 0) or key of a head, counted as that side's heads are. */
const int64_t *fuzz_attention_place(const call *c, int side, int64_t b, int64_t t, int64_t h);
/* out = the key head of a query head. */
int64_t fuzz_attention_group(const call *c, int64_t h);
/* out = 1 if the query sees the key. */
int fuzz_attention_visible(const call *c, int64_t b, int64_t i, int64_t h, int64_t j);
/* out = the context length in use; 0 = the encoding's own. */
int64_t fuzz_attention_length(const call *c, int64_t b, int64_t i, int64_t h);

/* In the fixed order the rows of a call, as sequences of a packed batch, have the same bits of out and lse
 * (fuzz_attention_packed.c).  forward: gyre_attention with scratch of its own. */
typedef gyre_status fuzz_forward(const attention_setup *args, const gyre_exec *exec, gyre_error *err);
void fuzz_attention_check_packed(const call *c, fuzz_forward *forward);

/* Makes a call and judges it. */
void fuzz_attention_judge(const uint8_t *data, size_t size, int turning);

#endif
