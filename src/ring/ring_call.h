/* ring_call.h: one call of a group, as one rank sees it: what src/ring works on.
 *
 * A block is what goes with the keys of some tokens of each row, dense, side by side: keys, values, and gate sums of keys if
 * the call has them.  As floats it holds their gradients. */
#ifndef GYRE_RING_RING_CALL_H
#define GYRE_RING_RING_CALL_H
#include "attention/attention.h"
#include "gyre/gyre_ring.h"

/* Two exchanges may be under way: of what parts are computed with, and of what they give. */
typedef enum gyre_ring_channel { GYRE_RING_INPUTS, GYRE_RING_RESULTS } gyre_ring_channel;

typedef struct gyre_ring_open_exchange {
    gyre_exchange exchange;
    int open, done;
    double begun; /* seconds */
} gyre_ring_open_exchange;

typedef struct gyre_ring_call gyre_ring_call;
struct gyre_ring_call {
    const char *name; /* of the function called, for messages */
    gyre_transport transport;
    int can_talk; /* 1: the transport is usable, so other ranks can be told of an error */
    int agreed;
    const gyre_shards *shards, *key_shards;
    gyre_attention_args args; /* with the queries, positions and indices of this rank */
    gyre_shard_info own;      /* of queries */
    gyre_positions q_index, k_index;
    int gradient;
    int gated;           /* the call has gate sums */
    gyre_ring_pass pass; /* KEYS, QUERIES or GATHER */
    int in_order;        /* 1: keys in the order of their tokens: GATHER, and KEYS with ORDER_FIXED */
    int64_t largest, largest_queries;
    size_t part_bytes;
    char *part; /* scratch of gyre_attention */

    /* transfers */
    gyre_ring_timeline timeline, *given_timeline;
    gyre_ring_open_exchange exchanges[GYRE_TRANSPORT_CHANNELS];
    double began;
    double polling; /* seconds spent in the transport while parts were computed */
    /* Called between tasks while a part is computed, and in waits; NULL = nothing to do. */
    gyre_status (*advance)(gyre_ring_call *r, gyre_error *err);
    void *advance_arg;
    gyre_status failed; /* of advance, while a part is computed */
    gyre_error failure;
};

/* -- blocks (ring_call.c) -- */
size_t gyre_ring_round_up(size_t bytes);
typedef enum gyre_ring_side_of { GYRE_RING_SIDE_KEYS, GYRE_RING_SIDE_VALUES, GYRE_RING_SIDE_GATES } gyre_ring_side_of;
/* out = sides of a block, 2 or 3. */
int gyre_ring_sides(const gyre_ring_call *r);
/* out = bytes of all sides of `tokens` tokens of each row; floats: of their gradients. */
size_t gyre_ring_block_bytes(const gyre_ring_call *r, int64_t tokens, int floats);
/* out = a side of a block, a gyre_ring_side_of. */
gyre_view gyre_ring_side(const gyre_ring_call *r, char *block, int side, int64_t tokens, int floats);
/* args->k, v and k_gate_sums = the sides of a block. */
void gyre_ring_use_block(const gyre_ring_call *r, char *block, int64_t tokens, gyre_attention_args *args);
/* dqkv[1], dqkv[2] and args->dk_gate_sums = the sides of a block of gradients. */
void gyre_ring_use_gradients(const gyre_ring_call *r, char *block, int64_t tokens, gyre_view dqkv[3],
                             gyre_attention_args *args);
/* Copies a block of gradients to where the caller wants them. */
void gyre_ring_give_gradients(const gyre_ring_call *r, char *block, int64_t tokens, const gyre_gradient_views *call);
/* Copies between views of one type and shape. */
void gyre_ring_copy(const gyre_cview *from, const gyre_view *to);
/* block = tokens first .. first + count - 1 of this rank's keys and values. */
void gyre_ring_pack_keys(const gyre_ring_call *r, int64_t first, int64_t count, char *block);
/* out = what rank `rank` has of the queries, of the keys. */
gyre_shard_info gyre_ring_queries_of(const gyre_ring_call *r, int64_t rank);
gyre_shard_info gyre_ring_keys_of(const gyre_ring_call *r, int64_t rank);
/* out = the rank `distance` ranks after this one, counted around. */
int64_t gyre_ring_peer(const gyre_ring_call *r, int64_t distance);

/* *args = this rank's queries with the keys of `owner`, which are in `block` (NULL: nowhere, for scratch). */
void gyre_ring_part(gyre_ring_call *r, int64_t owner, char *block, gyre_attention_args *args);
/* args->state = the rows of args->q in dense memory. */
void gyre_ring_use_state(gyre_attention_args *args, const gyre_ring_call *r, char *state);
size_t gyre_ring_state_bytes(const gyre_ring_call *r, int64_t queries);
/* Largest r->part_bytes so far and that of args.  EINVAL: gyre_attention refuses the shapes. */
gyre_status gyre_ring_measure(gyre_ring_call *r, const gyre_attention_args *args, const gyre_exec *exec, gyre_error *err);

/* Reads what the caller gave.  Sets r->can_talk as soon as other ranks can be told of an error. */
gyre_status gyre_ring_open(gyre_ring_call *r, const char *name, const gyre_ring_args *given, int gradient, gyre_error *err);
gyre_status gyre_ring_read_transport(gyre_ring_call *r, const gyre_transport *given, gyre_error *err);
/* Bytes that this rank sends in all to the others, for the choice of pass. */
int64_t gyre_ring_sent(gyre_ring_call *r, gyre_ring_pass pass, int64_t rank);

/* -- transfers (ring_transfers.c) -- */
gyre_status gyre_ring_begin(gyre_ring_call *r, gyre_ring_channel channel, const gyre_exchange *exchange, gyre_error *err);
gyre_status gyre_ring_wait(gyre_ring_call *r, gyre_ring_channel channel, gyre_error *err);
/* *done = the exchange of the channel has ended, or none was begun.  Never waits. */
gyre_status gyre_ring_poll(gyre_ring_call *r, gyre_ring_channel channel, int *done, gyre_error *err);
double gyre_ring_seconds(void);
/* Writes the timeline that the caller asked for, counted from r->began. */
void gyre_ring_stop_clock(gyre_ring_call *r);

/* gyre_attention, or with gradient its gradient, while exchanges move on; counts its seconds. */
gyre_status gyre_ring_compute(gyre_ring_call *r, const gyre_attention_args *args, const gyre_gradient_views *gradient,
                              const gyre_exec *exec, gyre_error *err);

/* -- agreement (ring_agreement.c) -- */
enum { GYRE_RING_MOST_FIELDS = 160 };
/* What ranks compare.  Names are static. */
typedef struct gyre_ring_fields {
    int count;
    uint64_t values[GYRE_RING_MOST_FIELDS];
    const char *names[GYRE_RING_MOST_FIELDS];
    char kinds[GYRE_RING_MOST_FIELDS]; /* 'i' an integer, 'd' the bits of a double, 'f' a fingerprint */
} gyre_ring_fields;
void gyre_ring_add_field(gyre_ring_fields *fields, const char *name, char kind, uint64_t value);
/* Adds the arguments of the call, which are read and right on this rank. */
void gyre_ring_add_call(gyre_ring_fields *fields, const gyre_ring_call *r);
/* Tells the other ranks what this one was called with, or that it failed (status, err).  out = the same error on all ranks,
 * naming rank and field, if one failed or two differ. */
gyre_status gyre_ring_agree(gyre_ring_call *r, const gyre_ring_fields *fields, gyre_status status, gyre_error *err);
/* out = a number that differs where the bytes differ, but for chance. */
uint64_t gyre_ring_fingerprint(uint64_t start, const void *bytes, size_t n);

/* -- the ways -- */
/* Bytes of scratch; measures parts. */
gyre_status gyre_ring_keys_bytes(gyre_ring_call *r, const gyre_exec *exec, size_t *bytes, gyre_error *err);
gyre_status gyre_ring_keys_check(gyre_ring_call *r, char *scratch, const gyre_gradient_views *call, gyre_error *err);
gyre_status gyre_ring_keys_run(gyre_ring_call *r, char *scratch, const gyre_gradient_views *call, const gyre_exec *exec,
                               gyre_error *err);
gyre_status gyre_ring_slabs_bytes(gyre_ring_call *r, const gyre_exec *exec, size_t *bytes, gyre_error *err);
/* out = bytes of gradients that a rank sends home in GATHER. */
size_t gyre_ring_slabs_returned(gyre_ring_call *r, int64_t rank);
gyre_status gyre_ring_slabs_check(gyre_ring_call *r, char *scratch, const gyre_gradient_views *call, gyre_error *err);
gyre_status gyre_ring_slabs_run(gyre_ring_call *r, char *scratch, const gyre_gradient_views *call, const gyre_exec *exec,
                                gyre_error *err);
gyre_status gyre_ring_queries_bytes(gyre_ring_call *r, const gyre_exec *exec, size_t *bytes, gyre_error *err);
gyre_status gyre_ring_queries_check(gyre_ring_call *r, char *scratch, const gyre_gradient_views *call, gyre_error *err);
gyre_status gyre_ring_queries_run(gyre_ring_call *r, char *scratch, const gyre_gradient_views *call, const gyre_exec *exec,
                                  gyre_error *err);

#endif
