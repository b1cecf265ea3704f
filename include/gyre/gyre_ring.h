/* gyre_ring.h: attention and its gradient over a batch sharded over ranks.  Part of libgyre.
 *
 * Every rank keeps its queries, and keys and values move around the ring (ring attention, Liu 2023, arXiv 2310.01889):
 * while a rank computes with one block of keys, it receives the next and sends its current block on.
 *
 *     step 0     rank 0: keys 0     rank 1: keys 1     rank 2: keys 2
 *     step 1     rank 0: keys 2     rank 1: keys 0     rank 2: keys 1
 *     step 2     rank 0: keys 1     rank 1: keys 2     rank 2: keys 0
 *
 * Keys that no query of a rank sees are not sent there.
 *
 * Gradients of keys and values follow one step behind and end at their owner.  The caller may choose two other ways:
 * queries go around, or every rank gets all keys (gyre_ring_pass).  A gyre_transport moves the bytes: gyre_mpi.h has one
 * over MPI.  docs/sharding.md has pictures and figures.  The conventions of gyre.h hold. */
#ifndef GYRE_RING_H
#define GYRE_RING_H
#include "gyre/gyre_positions.h"

#ifdef __cplusplus
extern "C" {
#endif

/* -- transport -- */

/* `sent` bytes go to rank `to`, and `received` bytes arrive from rank `from`; either may be 0.  For 0 bytes there is no
 * message, and the other rank need not begin an exchange.  The ring does not touch the memory until the exchange is
 * done. */
typedef struct gyre_exchange {
    int64_t to, from;
    const void *send;
    void *receive;
    size_t sent, received;
} gyre_exchange;
enum { GYRE_TRANSPORT_CHANNELS = 2 };

/* Each channel has at most one exchange at a time; channels do not wait for each other.  All calls come from the thread that
 * called the ring. */
typedef struct gyre_transport {
    size_t size;   /* set by GYRE_INIT */
    int64_t rank;  /* 0 = the first */
    int64_t ranks; /* needed */
    /* Begins an exchange and returns at once.  `to` and `from` begin theirs, if bytes are sent to or received from
     * them. */
    gyre_status (*begin)(void *ctx, int channel, const gyre_exchange *exchange);
    /* Returns when the exchange of the channel is done. */
    gyre_status (*wait)(void *ctx, int channel);
    /* Advances the exchange of the channel without waiting.  *done = 1: its wait would return at once.  Called often while
     * parts are computed.  NULL = exchanges advance without it. */
    gyre_status (*progress)(void *ctx, int channel, int *done);
    void *ctx;      /* of the three; NULL = none */
    double timeout; /* seconds after which a wait fails; 0 = never */
} gyre_transport;

/* The time of a call on one rank. */
typedef struct gyre_ring_timeline {
    size_t size;            /* set by GYRE_INIT */
    double seconds;         /* of the whole call */
    double computing;       /* in attention over parts, without `moving` */
    double moving;          /* in begin and progress of the transport */
    double waiting;         /* in wait of the transport, without `agreeing` */
    double agreeing;        /* comparing arguments with the other ranks */
    double in_flight;       /* of all exchanges, from begin until each was observed to be done, without `agreeing` */
    double hidden;          /* share of in_flight in which the rank did not wait: 1 - waiting / in_flight; 1 without any */
    int64_t exchanges;      /* without those of `agreeing` */
    int64_t sent, received; /* bytes of them */
} gyre_ring_timeline;

/* -- attention -- */

/* The data that moves.  The results of all ways are within the same bounds. */
typedef enum gyre_ring_pass {
    GYRE_RING_KEYS,    /* keys and values go around, a block at a time */
    GYRE_RING_QUERIES, /* queries go around and their partial rows return, to be added in the order of ranks: for few
                        * queries over many keys.  No gradient, no ORDER_FIXED and no gate sums (EUNSUPPORTED) */
    GYRE_RING_GATHER,  /* every rank gets all keys and values and makes one call, for the gradient one for each of up to
                        * four parts of the keys: the same bytes as KEYS, all keys in memory */
    GYRE_RING_FEWEST   /* GATHER if all keys and values take at most gather_bytes.  Otherwise KEYS or QUERIES, whichever
                        * sends fewer bytes over all ranks; KEYS for the gradient, ORDER_FIXED and gate sums */
} gyre_ring_pass;

/* One rank's arguments of the call, which every rank makes with the same batch, layout, encoding and options.  Each call
 * first compares them: if they differ, or a rank cannot continue, all ranks return one error with the field and the
 * rank. */
typedef struct gyre_ring_args {
    size_t size; /* set by GYRE_INIT */
    const gyre_transport *transport;
    const gyre_shards *shards; /* with as many ranks as the transport */
    /* The arguments of gyre_attention for the tokens of this rank: q, k, v, out and lse [rows, tokens of the shard, ...].
     * The ring fills in positions, indices, starts, k_first, k_end and state.  q_pos.context_length and context_lengths
     * are kept.  Gate sums of keys move with the keys; their data is not NULL on any rank, even on one without tokens.  No
     * mask, no weights, no positions per head, and no MASKED batch with padding between the tokens of a row
     * (EUNSUPPORTED).  ORDER_FIXED: out and lse have the bits of one call with ORDER_FIXED on one machine, for any number
     * of ranks and any layout.  Keys then reach all ranks in the order of their tokens.  ALiBi and KERPLE: as for state in
     * gyre_attention_part, or GATHER.  The gradient has the bits of one rank with GATHER, except for tables that heads
     * share: each rank then computes whole key heads over all tokens.  With KEYS it sums over queries on several ranks,
     * and its bits depend on the number of ranks. */
    const gyre_attention_args *attention;
    gyre_ring_pass pass;
    size_t gather_bytes; /* of FEWEST; 0 = no GATHER */
    /* Keys that are sharded differently from the queries: those of a cache and the new ones, as shards of a batch of the
     * same documents with all their tokens.  k and v are then [rows, tokens of this shard, ...].  NULL = as the
     * queries. */
    const gyre_shards *key_shards;
    int agreed; /* 1: an earlier call of the group had equal arguments; nothing is compared.  The same on all ranks */
    gyre_ring_timeline *timeline; /* written by the call, also if it fails; NULL = not wanted */
    /* The call is split to stay below this many bytes of scratch; 0 = 64 MiB.  A quarter is for threads after the first.
     * KEYS and QUERIES split by heads, then by keys, then forward by queries, with the keys sent again for each chunk.
     * GATHER always has all keys.  The same on all ranks. */
    size_t scratch_bytes;
} gyre_ring_args;

/* *bytes = scratch for gyre_ring_attention (gradient 0) or gyre_ring_attention_gradient (gradient 1), not 0.  KEYS: three
 * blocks of keys and values of a piece, the states of the rows (gradient 0) or three blocks of gradients in float, and the
 * scratch of one part; split by scratch_bytes.  GATHER: all keys and values, and for the gradient theirs in float.  Only
 * the memory of the shards is read.
 * Errors: those of the call in shapes and numbers. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_ring_scratch(const gyre_ring_args *args, int gradient, const gyre_exec *exec,
                                                       size_t *bytes, gyre_error *err);

/* The plan of a call for one rank. */
typedef struct gyre_ring_plan {
    size_t size;         /* set by GYRE_INIT */
    gyre_ring_pass pass; /* KEYS, QUERIES or GATHER */
    size_t scratch;      /* bytes; as gyre_ring_scratch */
    int64_t sent;        /* bytes that this rank sends, without the comparison of arguments */
} gyre_ring_plan;
/* *out = the plan of the call for this rank.  Does not communicate.  Errors: those of the call. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_ring_get_plan(const gyre_ring_args *args, int gradient, const gyre_exec *exec,
                                                        gyre_ring_plan *out, gyre_error *err);
/* out, lse = attention of this rank's queries over the keys of all ranks.  The bits are the same in every run with the
 * same number of ranks; docs/sharding.md has the difference from one machine.  A rank checks all its parts before it sends
 * any of them.  After an error of the transport, the memory of the call and the scratch may still be in use by it.
 * Errors: those of gyre_attention and of the transport. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_ring_attention(const gyre_ring_args *args, gyre_scratch scratch,
                                                         const gyre_exec *exec, gyre_error *err);
/* gradients: as gyre_attention_gradient, of this rank's tokens; dq, dk and dv are F32 and overwritten; accumulate is
 * ignored.  out, and lse in F64, are those that gyre_ring_attention wrote.  Tables get the part of this rank's queries:
 * their sum over the ranks is that of the whole.  Errors: those of gyre_attention_gradient and of the transport;
 * EUNSUPPORTED (dlse). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_ring_attention_gradient(const gyre_ring_args *args,
                                                                  const gyre_attention_gradients *gradients,
                                                                  gyre_scratch scratch, const gyre_exec *exec,
                                                                  gyre_error *err);

/* -- decoding over a sharded cache -- */

/* Every rank has the queries and some of the keys, in a gyre_cache or in arrays.  It attends to these with `state` and no
 * out, and the ranks exchange their states. */
typedef struct gyre_ring_merge_args {
    size_t size; /* set by GYRE_INIT */
    const gyre_transport *transport;
    gyre_cview state;             /* the state of this rank's call, zeros before it; equal shapes on all ranks */
    gyre_cview sink_logits;       /* as in gyre_attention_merge_args; data NULL = none */
    gyre_view out, lse;           /* as in gyre_attention_merge_args; data NULL = not wanted */
    int agreed;                   /* as in gyre_ring_args; 0 = arguments are compared */
    gyre_ring_timeline *timeline; /* as in gyre_ring_args; NULL = not wanted */
} gyre_ring_merge_args;
/* *bytes = scratch for gyre_ring_merge: a state of each rank; not 0.  Errors: those of the call in shapes. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_ring_merge_scratch(const gyre_ring_merge_args *args, size_t *bytes,
                                                             gyre_error *err);
/* out, lse = rows over the keys of all ranks, added in the order of ranks: the same bits on every rank.
 * Errors: those of gyre_attention_merge and of the transport. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_ring_merge(const gyre_ring_merge_args *args, gyre_scratch scratch,
                                                     const gyre_exec *exec, gyre_error *err);

#ifdef __cplusplus
}
#endif
#endif /* GYRE_RING_H */
