/* ring_call.h: one call of a group, as one rank sees it: what src/ring works on.
 *
 * A block has what belongs to the keys of some tokens of each row, dense, side by side: keys, values, and gate sums of
 * keys if the call has them.  As floats it holds their gradients. */
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

/* How a call is cut: key heads of a group, queries of a chunk, keys of a piece of each shard (ring_split.c). */
typedef struct gyre_ring_split {
    int64_t heads, queries, keys;
} gyre_ring_split;

/* Tokens first .. first + count - 1 of each row of a shard. */
typedef struct gyre_ring_range {
    int64_t first, count;
} gyre_ring_range;

/* Lists of a number for each sequence, and one more, that a part points to. */
enum { GYRE_RING_Q_STARTS, GYRE_RING_K_STARTS, GYRE_RING_K_FIRST, GYRE_RING_K_END, GYRE_RING_NUMBERS };

typedef struct gyre_ring_call gyre_ring_call;
struct gyre_ring_call {
    const char *name; /* of the function called, for messages */
    gyre_transport transport;
    int can_talk; /* 1: the transport is usable, so an error can be sent to other ranks */
    int agreed;
    const gyre_shards *shards, *key_shards;
    gyre_attention_inputs whole; /* with the queries and keys of this rank */
    gyre_attention_inputs args;  /* of the sweep: some heads, some queries.  Positions and starts are those of a part */
    gyre_shard_info own;         /* of queries */
    gyre_positions q_index, k_index;
    size_t most_scratch; /* bytes */
    gyre_ring_split split;
    int64_t groups, chunks, pieces; /* how many there are; chunks 1 in the gradient */
    int64_t chunk, head_first;      /* of the sweep; head_first: of queries */
    int rising;                     /* 1: orders rise within each sequence, and not every query sees every key */
    int64_t *numbers[GYRE_RING_NUMBERS];
    int gradient;
    int gated;           /* the call has gate sums */
    gyre_ring_pass pass; /* KEYS, QUERIES or GATHER */
    int in_order;        /* 1: keys in the order of their tokens: GATHER, and KEYS with ORDER_FIXED */
    int by_heads;        /* 1: GATHER with ORDER_FIXED, the gradient: each rank computes some heads */
    int64_t largest, largest_queries;
    size_t part_bytes;
    const gyre_exec *exec;
    char *part; /* scratch of gyre_attention */

    /* transfers */
    gyre_ring_timeline timeline, *given_timeline;
    gyre_ring_open_exchange exchanges[GYRE_TRANSPORT_CHANNELS];
    double began;
    double polling; /* seconds spent in the transport while parts were computed */
    /* Called between tiles while a part is computed, and in waits; NULL = nothing to do. */
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
void gyre_ring_use_block(const gyre_ring_call *r, char *block, int64_t tokens, gyre_attention_inputs *args);
/* dqkv[1], dqkv[2] and args->dk_gate_sums = the sides of a block of gradients. */
void gyre_ring_use_gradients(const gyre_ring_call *r, char *block, int64_t tokens, gyre_view dqkv[3],
                             gyre_attention_inputs *args);
/* Copies a block of gradients to where the caller wants them. */
void gyre_ring_give_gradients(const gyre_ring_call *r, char *block, int64_t tokens, const gyre_gradient_views *call);
/* to += from, as floats.  to: F32, or F64 that holds floats. */
void gyre_ring_add_row(const float *from, int64_t n, int64_t stride, gyre_dtype dtype, void *to);
/* Zeros a view, unless it has no memory. */
void gyre_ring_clear(const gyre_view *view);
/* Copies between views of one type and shape. */
void gyre_ring_copy(const gyre_cview *from, const gyre_view *to);
/* block = tokens first .. first + count - 1 of this rank's keys and values. */
void gyre_ring_pack_keys(const gyre_ring_call *r, int64_t first, int64_t count, char *block);
/* out = what rank `rank` has of the queries, of the keys. */
gyre_shard_info gyre_ring_queries_of(const gyre_ring_call *r, int64_t rank);
gyre_shard_info gyre_ring_keys_of(const gyre_ring_call *r, int64_t rank);
/* out = the rank `distance` ranks after this one, counted around. */
int64_t gyre_ring_peer(const gyre_ring_call *r, int64_t distance);

/* *args = the queries of the sweep with some keys of `owner`, which are in `block`. */
void gyre_ring_part(gyre_ring_call *r, int64_t owner, const gyre_ring_range *range, char *block,
                    gyre_attention_inputs *args);
/* args->state = the rows of args->q in dense memory. */
void gyre_ring_use_state(gyre_attention_inputs *args, const gyre_ring_call *r, char *state);
size_t gyre_ring_query_bytes(const gyre_ring_call *r, int64_t tokens);
size_t gyre_ring_state_bytes(const gyre_ring_call *r, int64_t queries);

/* Reads what the caller gave.  Sets r->can_talk as soon as an error can be sent to other ranks. */
gyre_status gyre_ring_open(gyre_ring_call *r, const char *name, const gyre_ring_args *given, int gradient, gyre_error *err);
gyre_status gyre_ring_read_transport(gyre_ring_call *r, const gyre_transport *given, gyre_error *err);

/* -- sweeps (ring_split.c) -- */
typedef struct gyre_ring_way gyre_ring_way;
/* Dout, dq, dk and dv of the heads of a sweep. */
typedef struct gyre_ring_views {
    gyre_cview dout;
    gyre_view dqkv[3];
} gyre_ring_views;
/* r->split, r->part_bytes, *bytes = cut so that scratch is bounded, and what that takes.
 * EINVAL: gyre_attention refuses the shapes. */
gyre_status gyre_ring_choose_split(gyre_ring_call *r, const gyre_ring_way *way, const gyre_exec *exec, size_t *bytes,
                                   gyre_error *err);
/* r->part_bytes = scratch of the largest part, which has so many keys. */
gyre_status gyre_ring_measure(gyre_ring_call *r, int64_t keys, int with_state, const gyre_exec *exec, gyre_error *err);
int64_t gyre_ring_sweeps(const gyre_ring_call *r);
/* r->args = the views of the sweep. */
void gyre_ring_enter(gyre_ring_call *r, int64_t sweep);
/* out = queries of the sweep that a rank has. */
gyre_ring_range gyre_ring_chunk(const gyre_ring_call *r, int64_t rank);
/* out = keys of a piece that a rank has. */
gyre_ring_range gyre_ring_piece(const gyre_ring_call *r, int64_t rank, int64_t piece);
/* Positions, indices and starts of args = those of some queries of a shard.  args point into r. */
void gyre_ring_take_queries(gyre_ring_call *r, const gyre_shard_info *shard, const gyre_ring_range *range,
                            gyre_attention_inputs *args);
/* Narrows a part to some queries of the sweep.  dout, dq: NULL in forward. */
void gyre_ring_narrow_queries(gyre_ring_call *r, const gyre_ring_range *range, gyre_attention_inputs *args, gyre_cview *dout,
                              gyre_view *dq);
/* Narrows views of all heads to `key_heads` key heads from that of r->head_first on, and their query heads. */
void gyre_ring_narrow_heads(const gyre_ring_call *r, int64_t key_heads, gyre_attention_inputs *args);
void gyre_ring_narrow_positions(gyre_positions *positions, int64_t first);
void gyre_ring_narrow_views(const gyre_ring_call *r, const gyre_gradient_views *call, gyre_ring_views *out);
/* *parts[i] = bytes[i] bytes of scratch, for each of `count`; then r's numbers and part have theirs.  scratch NULL: only
 * counts.  out = all bytes. */
size_t gyre_ring_lay_out(gyre_ring_call *r, char *scratch, const size_t *bytes, char **const *parts, size_t count);

/* -- what is seen (ring_seen.c) -- */
/* Some tokens: the numbers that decide their visibility, and the starts of their sequences or NULL. */
typedef struct gyre_ring_side_info {
    const gyre_positions *orders;
    const int64_t *starts;
    gyre_ring_range range;
} gyre_ring_side_info;
/* out = a range that has all keys that the queries of a rank see in the sweep; count 0: none.  Alike on all ranks. */
gyre_ring_range gyre_ring_seen(const gyre_ring_call *r, int64_t rank, const gyre_ring_side_info *keys);
/* The same of a piece of the keys of `owner`. */
gyre_ring_range gyre_ring_seen_piece(const gyre_ring_call *r, int64_t rank, int64_t owner, int64_t piece);
/* out = r->rising. */
int gyre_ring_orders_rise(const gyre_ring_call *r);

/* -- transfers (ring_transfers.c) -- */
gyre_status gyre_ring_begin(gyre_ring_call *r, gyre_ring_channel channel, const gyre_exchange *exchange, gyre_error *err);
gyre_status gyre_ring_wait(gyre_ring_call *r, gyre_ring_channel channel, gyre_error *err);
/* *done = the exchange of the channel has ended, or none was begun.  Never waits. */
gyre_status gyre_ring_poll(gyre_ring_call *r, gyre_ring_channel channel, int *done, gyre_error *err);
double gyre_ring_seconds(void);
/* Writes the timeline that the caller asked for, counted from r->began. */
void gyre_ring_stop_clock(gyre_ring_call *r);

/* Checks a part.  Errors: those of gyre_attention. */
gyre_status gyre_ring_check_part(const gyre_ring_call *r, const gyre_attention_inputs *args,
                                 const gyre_gradient_views *gradient, gyre_error *err);
/* gyre_attention, or with gradient its gradient, while exchanges move on; counts its seconds. */
gyre_status gyre_ring_compute(gyre_ring_call *r, const gyre_attention_inputs *args, const gyre_gradient_views *gradient,
                              const gyre_exec *exec, gyre_error *err);

/* -- agreement (ring_agreement.c) -- */
enum { GYRE_RING_MOST_FIELDS = 224 };
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
/* out = a hash of the bytes. */
uint64_t gyre_ring_fingerprint(uint64_t start, const void *bytes, size_t n);

/* -- the ways -- */
struct gyre_ring_way {
    int64_t (*keys)(const gyre_ring_call *r);   /* keys of a piece, at most */
    int (*with_state)(const gyre_ring_call *r); /* 1: parts have states */
    /* out = bytes of scratch of a call that is cut like r, with r->part_bytes.  scratch: NULL, or r uses it from now on.
     * *part_keys = keys of a part, at most. */
    size_t (*memory)(gyre_ring_call *r, char *scratch, int64_t *part_keys);
    /* Checks the parts, so that a call that would fail later fails before anything is sent. */
    gyre_status (*check)(gyre_ring_call *r, char *scratch, const gyre_gradient_views *call, gyre_error *err);
    gyre_status (*run)(gyre_ring_call *r, char *scratch, const gyre_gradient_views *call, const gyre_exec *exec,
                       gyre_error *err);
    int64_t (*sent)(gyre_ring_call *r); /* bytes that this rank sends */
};
extern const gyre_ring_way gyre_ring_way_keys, gyre_ring_way_slabs, gyre_ring_way_queries, gyre_ring_way_heads;

#endif
