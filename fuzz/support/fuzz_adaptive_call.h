/* fuzz_adaptive_call.h: random but legal calls of gyre_adaptive_attention and its gradient. */
#ifndef GYRE_FUZZ_ADAPTIVE_CALL_H
#define GYRE_FUZZ_ADAPTIVE_CALL_H
#include "fuzz_network.h"
#include "fuzz_positions.h"

enum { MOST_SEQUENCES = 4 };
/* W1 to B2: hidden weights and bias, output weights and bias. */
typedef enum part { Q, K, V, W1, B1, W2, B2, BIAS, DOUT, OUT, LSE, DQ, DK, DV, DW1, DB1, DW2, DB2, DBIAS, PARTS } part;
enum { INPUTS = OUT };

typedef struct call {
    gyre_adaptive_args args;
    gyre_adaptive_gradients to;
    int64_t sequences, q_starts[MOST_SEQUENCES + 1], k_starts[MOST_SEQUENCES + 1];
    int64_t k_first[MOST_SEQUENCES], k_end[MOST_SEQUENCES];
    int64_t batch, queries, keys, heads, key_heads, dim, channels; /* of the views */
    fuzz_positions positions;
    gyre_positions at[2];        /* of queries and keys */
    int32_t *places[2];          /* their numbers, [batch][token]; NULL = counted */
    int has_biases[2], has_bias; /* of the network's layers; of the caller */
    fuzz_network network;
    fuzz_view part[PARTS], twin[PARTS], twin_table; /* twin: results on two threads, with other strides */
    fuzz_number *want[PARTS];                       /* of results: dense, as the views are shaped */
    double *row[INPUTS];                            /* of Q, K, V and DOUT: the same */
    double scale;
} call;

/* What sums are added to. */
extern const double fuzz_adaptive_start;

/* A sequence without its padding: its row of the views, and where its tokens begin there. */
typedef struct sequence {
    int64_t batch, query, queries, key, keys, padding;
} sequence;

void fuzz_adaptive_make(call *c, const uint8_t *data, size_t size);
void fuzz_adaptive_free(call *c);
/* Makes `views`, part or twin, what the call writes to. */
void fuzz_adaptive_set_results(call *c, const fuzz_view *views);
/* out = 0 where the call has no such part. */
int fuzz_adaptive_has(const call *c, part which);
/* out = 1 for results that are added to. */
int fuzz_adaptive_is_sum(part which);

sequence fuzz_adaptive_sequence(const call *c, int64_t s);
/* out = the position of a query (side 0) or key of a sequence. */
int64_t fuzz_adaptive_position(const call *c, const sequence *at, int side, int64_t t);
/* out = how many keys query i of a sequence sees. */
int64_t fuzz_adaptive_seen(const call *c, const sequence *at, int64_t i);

#endif
