/* gyre_ring.h: attention and its gradient over a batch that is dealt out to ranks.  Part of libgyre.
 *
 * Every rank keeps its queries, and keys and values go around (ring attention, Liu 2023, arXiv 2310.01889): while a rank
 * computes with the keys of one rank, it receives those of the next and sends its own to another.
 *
 *     step 0     rank 0: keys 0     rank 1: keys 1     rank 2: keys 2
 *     step 1     rank 0: keys 2     rank 1: keys 0     rank 2: keys 1
 *     step 2     rank 0: keys 1     rank 1: keys 2     rank 2: keys 0
 *
 * Keys that no query of a rank sees do not go there.
 *
 * Gradients of keys and values follow one step behind and end where they belong.  Two other ways are a choice of the caller:
 * queries go around, or every rank gets all keys (gyre_ring_pass).  How bytes get from rank to rank is a gyre_transport:
 * gyre_mpi.h has one over MPI.  docs/sharding.md has pictures and figures.  The conventions of gyre.h hold. */
#ifndef GYRE_RING_H
#define GYRE_RING_H
#include "gyre/gyre_positions.h"

#ifdef __cplusplus
extern "C" {
#endif

/* -- how bytes get from rank to rank -- */

/* `sent` bytes go to rank `to`, and `received` bytes come from rank `from`; either may be 0.  Where 0 bytes go there is no
 * message, and the other rank need not begin anything.  The memory is left alone until the exchange is done. */
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
    /* Begins an exchange and returns at once.  `to` and `from` begin theirs, if bytes go there or come from there. */
    gyre_status (*begin)(void *ctx, int channel, const gyre_exchange *exchange);
    /* Returns when the exchange of the channel is done. */
    gyre_status (*wait)(void *ctx, int channel);
    /* Moves the exchange of the channel on without waiting.  *done = 1: its wait would return at once.  Called often while
     * parts are computed.  NULL = the transport moves them by itself. */
    gyre_status (*progress)(void *ctx, int channel, int *done);
    void *ctx;      /* of the three; NULL = none */
    double timeout; /* seconds after which a wait fails; 0 = it never does */
} gyre_transport;

/* Where the time of a call went, on one rank. */
typedef struct gyre_ring_timeline {
    size_t size;            /* set by GYRE_INIT */
    double seconds;         /* of the whole call */
    double computing;       /* in attention over parts, without `moving` */
    double moving;          /* in begin and progress of the transport */
    double waiting;         /* in wait of the transport, without `agreeing` */
    double agreeing;        /* comparing arguments with the other ranks */
    double in_flight;       /* of all exchanges, from begin until each was seen to be done, without `agreeing` */
    double hidden;          /* share of in_flight in which the rank did not wait: 1 - waiting / in_flight; 1 without any */
    int64_t exchanges;      /* without those of `agreeing` */
    int64_t sent, received; /* bytes of them */
} gyre_ring_timeline;

/* -- attention -- */

/* What moves.  The results of all ways are within the same bounds. */
typedef enum gyre_ring_pass {
    GYRE_RING_KEYS,    /* keys and values go around, a block at a time */
    GYRE_RING_QUERIES, /* queries go around and their partial rows come home, where they are added in the order of ranks: for
                        * few queries over many keys.  No gradient, no ORDER_FIXED and no gate sums (EUNSUPPORTED) */
    GYRE_RING_GATHER,  /* every rank gets all keys and values and makes one call, for the gradient one for each of up to
                        * four parts of the keys: the same bytes as KEYS, all memory */
    GYRE_RING_FEWEST   /* GATHER where all keys and values take at most gather_bytes.  Otherwise KEYS or QUERIES, whichever
                        * sends fewer bytes over all ranks; KEYS for the gradient, ORDER_FIXED and gate sums */
} gyre_ring_pass;

/* One rank's part of the call, which every rank makes with the same batch, layout, encoding and options.  Each call begins
 * by comparing them: if they differ, or a rank cannot go on, all ranks return one error with the field and the rank. */
typedef struct gyre_ring_args {
    size_t size; /* set by GYRE_INIT */
    const gyre_transport *transport;
    const gyre_shards *shards; /* with as many ranks as the transport */
    /* What gyre_attention takes, for the tokens of this rank: q, k, v, out and lse [rows, tokens of the shard, ...].  The
     * ring fills in positions, indices, starts, k_first, k_end and state.  q_pos.context_length and context_lengths are
     * kept.  Gate sums of keys go around with them; data is not NULL on any rank, even on one without tokens.  No mask, no
     * weights, no positions of single heads, and no MASKED batch with padding between the tokens of a row (EUNSUPPORTED).
     * ORDER_FIXED: out and lse have the bits of one call with ORDER_FIXED on one machine, for any number of ranks and any
     * layout.  Keys then come to all ranks in the order of their tokens.  ALiBi and KERPLE: as state in gyre_attention_part,
     * or GATHER.  The gradient has the bits of one rank with GATHER, but for tables that heads share: each rank then
     * computes whole key heads over all tokens.  With KEYS it sums over queries that are on several ranks, and its bits
     * depend on their number. */
    const gyre_attention_args *attention;
    gyre_ring_pass pass;
    size_t gather_bytes; /* of FEWEST; 0 = no GATHER */
    /* Keys that are dealt out apart from the queries: those of a cache and the new ones, as shards of a batch of the same
     * documents with all their tokens.  k and v are then [rows, tokens of this shard, ...].  NULL = as the queries. */
    const gyre_shards *key_shards;
    int agreed; /* 1: an earlier call of the group had equal arguments; nothing is compared.  Alike on all ranks */
    gyre_ring_timeline *timeline; /* written by the call, also if it fails; NULL = not wanted */
    /* Bytes of scratch that the call is cut to stay below; 0 = 64 MiB.  A quarter is left for threads after the first.  KEYS
     * and QUERIES take some heads at a time, then keys piece by piece, then in forward some queries at a time, for each of
     * which the keys come again.  GATHER has all keys whatever this is.  Alike on all ranks. */
    size_t scratch_bytes;
} gyre_ring_args;

/* *bytes = scratch for gyre_ring_attention (gradient 0) or gyre_ring_attention_gradient (gradient 1), not 0.  KEYS: three
 * blocks of keys and values of a piece, the states of the rows (gradient 0) or three blocks of gradients in float, and what
 * one part needs; cut as scratch_bytes says.  GATHER: all keys and values, and for the gradient theirs in float.  No memory
 * is looked at but that of the shards.
 * Errors: those of the call in shapes and numbers. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_ring_scratch(const gyre_ring_args *args, int gradient, const gyre_exec *exec,
                                                       size_t *bytes, gyre_error *err);

/* What a rank would do. */
typedef struct gyre_ring_plan {
    size_t size;         /* set by GYRE_INIT */
    gyre_ring_pass pass; /* KEYS, QUERIES or GATHER */
    size_t scratch;      /* bytes; as gyre_ring_scratch */
    int64_t sent;        /* bytes that this rank sends, without those that compare arguments */
} gyre_ring_plan;
/* *out = what this rank would do in the call.  Asks no other rank.  Errors: those of the call. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_ring_get_plan(const gyre_ring_args *args, int gradient, const gyre_exec *exec,
                                                        gyre_ring_plan *out, gyre_error *err);
/* out, lse = attention of this rank's queries over the keys of all ranks.  The bits are the same in every run with as many
 * ranks; docs/sharding.md says how near they are to those of one machine.  A rank checks all its parts before it sends any
 * of them.  After an error of the transport its memory and the scratch may still be in use by it.
 * Errors: those of gyre_attention and of the transport. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_ring_attention(const gyre_ring_args *args, gyre_scratch scratch,
                                                         const gyre_exec *exec, gyre_error *err);
/* gradients: as gyre_attention_gradient, of this rank's tokens; dq, dk and dv are F32 and overwritten; accumulate is
 * ignored.  out, and lse in F64, are those that gyre_ring_attention wrote.  Tables get the part of this rank's queries:
 * their sum over the ranks is that of the whole.  Errors: those of gyre_attention_gradient and of the transport. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_ring_attention_gradient(const gyre_ring_args *args,
                                                                  const gyre_attention_gradients *gradients,
                                                                  gyre_scratch scratch, const gyre_exec *exec,
                                                                  gyre_error *err);

/* -- decoding over a cache that is dealt out -- */

/* Every rank has the queries and some of the keys: a gyre_cache of its own, or memory.  It attends to these with `state`
 * and no out, and the ranks exchange their states. */
typedef struct gyre_ring_merge_args {
    size_t size; /* set by GYRE_INIT */
    const gyre_transport *transport;
    gyre_cview state;             /* that this rank's call wrote, begun with zeros; equal shapes on all ranks */
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
