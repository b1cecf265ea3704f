/* gyre_positions.h: positions of the tokens of a batch, and the shard of each rank of a group.  Part of libgyre.
 *
 * A batch consists of documents.  Gyre computes the positions of their tokens, on every axis, and the bounds of documents:
 * all inputs of gyre_attention besides q, k and v.
 *
 *     packed        [document 0 | document 1 | document 2 | padding]          one row
 *     padded        [document 0 | padding]  [document 1 | padding]  ...       a row for each document; or padding first
 *
 * Context parallelism distributes the tokens of each row over ranks.  Four layouts, for 16 tokens and 2 ranks:
 *
 *     token                 0  1  2  3  4  5  6  7  8  9 10 11 12 13 14 15
 *     contiguous            0  0  0  0  0  0  0  0  1  1  1  1  1  1  1  1
 *     zigzag                0  0  0  0  1  1  1  1  1  1  1  1  0  0  0  0     chunks r and 2 ranks - 1 - r
 *     striped               0  1  0  1  0  1  0  1  0  1  0  1  0  1  0  1
 *     zigzag per document   0  1  1  0 |0  0  0  1  1  1  1  1  1  0  0  0     documents of 4 and 12 tokens
 *
 * Data, positions and labels must be sharded alike.  A shard therefore has the tokens of a rank with their positions in
 * the whole.  The conventions of gyre.h hold. */
#ifndef GYRE_POSITIONS_H
#define GYRE_POSITIONS_H
#include "gyre/gyre.h"

#ifdef __cplusplus
extern "C" {
#endif

/* -- a batch -- */
typedef struct gyre_batch gyre_batch;

typedef enum gyre_batch_form {
    GYRE_BATCH_PACKED,       /* one row: the documents, one after the other, then padding */
    GYRE_BATCH_PADDED_RIGHT, /* a row for each document, then padding */
    GYRE_BATCH_PADDED_LEFT,  /* a row for each document, padding first */
    GYRE_BATCH_MASKED        /* a row for each document, with its tokens marked by a mask */
} gyre_batch_form;

/* The position of text after a grid that began at position p. */
typedef enum gyre_after_grid {
    GYRE_AFTER_GRID_LARGEST, /* one past the largest position on any axis: the Qwen2-VL paper, vLLM, transformers 4 */
    GYRE_AFTER_GRID_SIDES    /* p + max(rows, columns), independent of the time: transformers 5 */
} gyre_after_grid;

/* A run of tokens of a document: text, or the grid of an image or a video, as counted by the model that rotates it (a
 * decoder: after patches are merged).  Tokens of a grid are ordered frame by frame, then row by row. */
typedef struct gyre_span {
    int64_t tokens;                /* of text; 0 = a grid */
    int64_t frames, rows, columns; /* of a grid, at least 1 each; 0 = text.  An image has one frame */
    double frame_step;             /* positions from frame to frame: frame f is at floor(f frame_step), computed in float as
                                    * PyTorch does.  0 = 1.  Qwen2-VL: 1.  Qwen2.5-VL: tokens_per_second x seconds per grid.
                                    * Qwen3-VL: each frame is a separate span, after the text of its timestamp */
    int64_t merge; /* > 1: a frame is ordered in blocks of merge x merge patches, as in encoders of Qwen2-VL and later; rows
                    * and columns are multiples of it.  0 = 1 */
} gyre_span;

typedef struct gyre_batch_config {
    size_t size; /* set by GYRE_INIT */
    gyre_batch_form form;
    int64_t documents;         /* 0 = an empty batch */
    const int64_t *lengths;    /* [documents]: new tokens of each.  NULL = from spans or the mask; needed without */
    int64_t row_tokens;        /* of a row with its padding; 0 = as few as possible.  MASKED: needed */
    const unsigned char *mask; /* MASKED: [documents][row_tokens], nonzero = a token of the document; needed */
    /* Tokens before the new ones: a prefix, or the tokens in a cache.  [documents]; NULL = none. */
    const int64_t *cached;
    /* Positions of the first new token of each document.  [documents]; NULL = cached.  After images: next_positions of the
     * batch in the cache. */
    const int64_t *first_positions;
    int64_t axes; /* 1: consecutive tokens, in grids too.  2: row and column.  3: time, row and column.  Text has the same
                   * position on all axes.  0 = 1 */
    const gyre_span *spans;     /* of all documents, one after the other; NULL = only text */
    const int64_t *span_starts; /* [documents + 1]: document d has spans span_starts[d] .. span_starts[d + 1] - 1; needed
                                 * with spans */
    gyre_after_grid after_grid;
    int64_t padding_position; /* of tokens that are padding; 0 = position 0 */
} gyre_batch_config;

/* The contents of a batch.  All memory belongs to the batch and is valid as long. */
typedef struct gyre_batch_info {
    size_t size;                           /* set by GYRE_INIT */
    int64_t rows, tokens, axes, documents; /* tokens: of a row */
    gyre_positions positions; /* of the new tokens, for q_pos, k_pos and gyre_rotate: I64 [axes][rows][tokens] */
    /* Index of each token in its document, cached tokens counted: I64 [rows][tokens], -1 for padding.  For q_index and
     * k_index of gyre_attention_part. */
    gyre_positions order;
    const int64_t *document_of; /* [rows][tokens]: -1 for padding */
    /* Packed: for gyre_attention_batch.  Padding is one more sequence, without keys.  Otherwise NULL, and as many sequences
     * as rows. */
    int64_t sequences;
    const int64_t *q_starts, *k_starts; /* [sequences + 1]; keys: cached and new */
    const int64_t *k_first, *k_end;     /* [sequences]; NULL without padding.  MASKED: the first token and one past the
                                         * last; a hole in between needs args.mask */
    gyre_positions k_positions;    /* packed: of all keys.  Cached ones count up to the first new position, which is wrong
                                    * after images: there use the positions of the cache.  Otherwise as positions */
    const int64_t *lengths;        /* [documents]: new tokens */
    const int64_t *next_positions; /* [documents]: of the token after the last */
    /* [sequences]: highest position of each, + 1: context_lengths of gyre_attention_batch for LENGTH_POLICY_PREFIX. */
    const int64_t *context_lengths;
} gyre_batch_info;

/* *out = the batch that config describes; copies its arrays.  Memory: about (axes + 3) numbers per token.
 * Errors: EINVAL (names the field), ERANGE (a position past 2^31), ENOMEM. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_batch_create(gyre_batch **out, const gyre_batch_config *config,
                                                       const gyre_alloc *alloc, gyre_error *err);
GYRE_API void gyre_batch_free(gyre_batch *batch); /* NULL is fine */
/* *out = the contents of the batch.  Errors: EINVAL (out without its size). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_batch_get(const gyre_batch *batch, gyre_batch_info *out);
/* out[r][t] = labels[r][t + 1] if both tokens are neighbours in one document, else `ignore`: the token to predict.
 * I32 or I64 views [rows, tokens, 1, 1] of one type.  Call it before sharding: in a shard the next token often belongs to
 * another rank.  out == labels with equal strides is allowed, other overlap is not (EINVAL).
 * Errors: EINVAL, ESHAPE, EDTYPE. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_batch_shift_labels(const gyre_batch *batch, const gyre_cview *labels,
                                                             int64_t ignore, const gyre_view *out, gyre_error *err);

/* -- shards -- */
typedef struct gyre_shards gyre_shards;

typedef enum gyre_shard_layout {
    GYRE_SHARD_CONTIGUOUS,         /* rank r has the r-th part.  Causal: the last rank has nearly twice the mean work */
    GYRE_SHARD_ZIGZAG,             /* 2 ranks parts; rank r has parts r and 2 ranks - 1 - r: Megatron, Llama 3 */
    GYRE_SHARD_STRIPED,            /* token t belongs to rank t % ranks: striped attention, arXiv 2311.09431 */
    GYRE_SHARD_ZIGZAG_PER_DOCUMENT /* zigzag in each document of a packed row: Transformer Engine's THD */
} gyre_shard_layout;

typedef struct gyre_shard_config {
    size_t size; /* set by GYRE_INIT */
    gyre_shard_layout layout;
    int64_t ranks;          /* 1 .. 65536; needed */
    int64_t chunk_multiple; /* parts begin at multiples of this, counted from the start of the row or document; striped:
                             * runs of this many tokens.  0 = 1.  128 is for GYRE_ORDER_FIXED, see gyre_attention_part */
    /* The counted work: as in gyre_attention_args, by order. */
    gyre_causal causal;
    int64_t window;       /* 0 = all */
    int64_t window_after; /* 0 = window */
    int64_t sinks;        /* 0 = none */
} gyre_shard_config;

/* Tokens first .. first + count - 1 of a row. */
typedef struct gyre_token_run {
    int64_t first, count;
} gyre_token_run;

/* The shard of a rank.  All memory belongs to the shards and is valid as long. */
typedef struct gyre_shard_info {
    size_t size;          /* set by GYRE_INIT */
    int64_t rows, tokens; /* tokens: of each row */
    const int64_t *index; /* [tokens]: index in the whole row, increasing.  The same in each row */
    int64_t runs;
    const gyre_token_run *run; /* [runs]: index as runs of neighbours */
    gyre_positions positions;  /* those of the whole: I64 [axes][rows][tokens] */
    gyre_positions order;      /* as in gyre_batch_info: I64 [rows][tokens] */
    /* As in gyre_batch_info, counted within the shard.  All sequences are listed, also those without a token here, so
     * sequence s is the same on every rank.  For keys of this shard with queries of another rank, pass starts as
     * k_starts. */
    int64_t sequences;
    const int64_t *starts;          /* [sequences + 1]; NULL: not packed */
    const int64_t *k_first, *k_end; /* [sequences]; NULL without padding */
    int64_t pairs;                  /* of a query here and a key that it sees on any rank: the work of one head */
} gyre_shard_info;

/* *out = the shards of the batch.  The batch must outlive them.  Memory: about 2 axes numbers per token.
 * Errors: EINVAL (ZIGZAG_PER_DOCUMENT of a batch that is not packed, ...), ENOMEM. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_shards_create(gyre_shards **out, const gyre_batch *batch,
                                                        const gyre_shard_config *config, const gyre_alloc *alloc,
                                                        gyre_error *err);
GYRE_API void gyre_shards_free(gyre_shards *shards); /* NULL is fine */
/* *out = the shard of rank `rank`.  Errors: EINVAL (no such rank, out without its size). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_shards_get(const gyre_shards *shards, int64_t rank, gyre_shard_info *out);
/* out = the maximum number of pairs of a rank / the mean: 1 is even; 1 if there are none. */
GYRE_API double gyre_shards_imbalance(const gyre_shards *shards);
/* out[r][i] = whole[r][index[i]]: the tokens of a rank.  Views [rows, tokens, any, any] of one type, any: ids, labels,
 * hidden states.  No overlap (EINVAL).  Errors: EINVAL, ESHAPE, EDTYPE. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_shards_take(const gyre_shards *shards, int64_t rank, const gyre_cview *whole,
                                                      const gyre_view *out, gyre_error *err);
/* whole[r][index[i]] = part[r][i]: the inverse.  Calls for all ranks write the whole.  Errors: as gyre_shards_take. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_shards_put(const gyre_shards *shards, int64_t rank, const gyre_cview *part,
                                                     const gyre_view *whole, gyre_error *err);

/* -- random positions of training sequences -- */
/* How n positions are drawn from 0 .. range - 1, so that a model meets positions past the length of its sequences. */
typedef enum gyre_position_draw {
    GYRE_POSITION_DRAW_NONE,       /* 0 .. n - 1 */
    GYRE_POSITION_DRAW_RANDOMIZED, /* n different ones in order, each set equally likely: Ruoss 2023, arXiv 2305.16843 */
    GYRE_POSITION_DRAW_SHAPE,      /* k .. k + n - 1, k uniform in 0 .. range - n, the K of SHAPE: Kiyono 2021, 2109.05644 */
    /* 0 .. l - 1, then l + u .. n - 1 + u: the two chunks of PoSE, Zhu 2023, 2309.10400.  As in its code, l is uniform in
     * 1 .. floor((n + 1) / 2) and u in 0 .. range - n */
    GYRE_POSITION_DRAW_POSE
} gyre_position_draw;

/* out = "none", "randomized", "shape", "pose"; NULL past the last. */
GYRE_API const char *gyre_position_draw_name(gyre_position_draw draw);
/* out[0 .. n - 1] = positions of one sequence, rising and different.  state: of the generator, advanced; the same state
 * gives the same positions on every machine.  Time: n, RANDOMIZED n log n.
 * Errors: EINVAL (NULL, an unknown draw, n outside 0 .. range, range past 2^31). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_draw_positions(gyre_position_draw draw, int64_t range, uint64_t *state, int64_t n,
                                                         int64_t *out, gyre_error *err);

#ifdef __cplusplus
}
#endif
#endif /* GYRE_POSITIONS_H */
