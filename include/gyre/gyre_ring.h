/* gyre_ring.h: attention and its gradient over a batch that is dealt out to ranks.  Part of libgyre.
 *
 * Every rank keeps its queries, and keys and values go around a ring (Liu 2023, arXiv 2310.01889): while a rank computes
 * with the keys of one rank, it sends them on and receives those of the rank before.
 *
 *     step 0     rank 0: keys 0     rank 1: keys 1     rank 2: keys 2
 *     step 1     rank 0: keys 2     rank 1: keys 0     rank 2: keys 1
 *     step 2     rank 0: keys 1     rank 1: keys 2     rank 2: keys 0
 *
 * Gradients of keys and values follow one step behind and end where they belong.  How bytes get from rank to rank is a
 * gyre_transport: gyre_mpi.h has one over MPI.  The conventions of gyre.h hold. */
#ifndef GYRE_RING_H
#define GYRE_RING_H
#include "gyre/gyre_positions.h"

#ifdef __cplusplus
extern "C" {
#endif

/* `sent` bytes go to rank `to`, and `received` bytes come from rank `from`.  The memory is left alone until the exchange is
 * done. */
typedef struct gyre_exchange {
    int64_t to, from;
    const void *send;
    void *receive;
    size_t sent, received;
} gyre_exchange;
enum { GYRE_TRANSPORT_CHANNELS = 2 };

/* How bytes get from rank to rank.  Each channel has at most one exchange at a time; channels do not wait for each other. */
typedef struct gyre_transport {
    size_t size; /* set by GYRE_INIT */
    int64_t rank, ranks;
    void *ctx;
    /* Begins an exchange, whose `to` and `from` begin theirs, and returns at once. */
    gyre_status (*begin)(void *ctx, int channel, const gyre_exchange *exchange);
    /* Returns when the exchange of the channel is done. */
    gyre_status (*wait)(void *ctx, int channel);
} gyre_transport;

/* One rank's part of the call, which every rank makes with the same batch, layout, encoding and options. */
typedef struct gyre_ring_args {
    size_t size; /* set by GYRE_INIT */
    const gyre_transport *transport;
    const gyre_shards *shards; /* with as many ranks as the transport */
    /* What gyre_attention takes, for the tokens of this rank: q, k, v, out and lse [rows, tokens of the shard, ...].  The
     * ring fills in positions, indices, starts, k_first, k_end and state.  q_pos.context_length and context_lengths are
     * kept.  No mask, no weights and no ORDER_FIXED (EUNSUPPORTED). */
    const gyre_attention_args *attention;
} gyre_ring_args;

/* out = bytes of scratch for gyre_ring_attention (gradient 0) or gyre_ring_attention_gradient (gradient 1): two blocks of
 * keys and values of the largest shard, the states of the rows (gradient 0) or three blocks of gradients in float, and what
 * one part needs; 0 = invalid arguments.  No memory is looked at but that of the shards. */
GYRE_API size_t gyre_ring_scratch(const gyre_ring_args *args, int gradient, const gyre_exec *exec);
/* out, lse = attention of this rank's queries over the keys of all ranks.  The bits are the same in every run with as many
 * ranks; docs/sharding.md says how near they are to those of one machine.  A rank checks all its parts before it sends
 * anything.  After an error of the transport its memory and the scratch may still be in use by it.
 * Errors: those of gyre_attention and of the transport. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_ring_attention(const gyre_ring_args *args, void *scratch, size_t bytes,
                                                         const gyre_exec *exec, gyre_error *err);
/* dqkv, gradients: as gyre_attention_gradient, of this rank's tokens; dqkv are F32 and overwritten.  out, and lse in F64,
 * are those that gyre_ring_attention wrote.  gradients get the part of this rank's queries: their sum over the ranks is that
 * of the whole.  Errors: those of gyre_attention_gradient and of the transport. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_ring_attention_gradient(const gyre_ring_args *args, const gyre_cview *dout,
                                                                  const gyre_view dqkv[3],
                                                                  const gyre_table_gradients *gradients, void *scratch,
                                                                  size_t bytes, const gyre_exec *exec, gyre_error *err);

#ifdef __cplusplus
}
#endif
#endif /* GYRE_RING_H */
