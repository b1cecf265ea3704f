/* gyre_cache.h: keys and values of tokens read before, for decoding.  Part of libgyre.
 *
 * A cache holds the keys and values of one layer for several sequences, in pages of a fixed number of tokens.  gyre_caches_*
 * edit, save and load the caches of all layers as one call.
 *
 *     sequence 0   [page 4: tokens 0-63] [page 1: 64-127] [page 7: 128-150]
 *     sequence 1   [page 4, shared     ] [page 2: 64-80 ]                      a fork that continued separately
 *
 * A sequence is a list of ranges of slots in pages.  Sequences that share a prefix share its pages until one of them
 * writes there.  A token keeps the position at which it was appended; a shift changes only an offset of its range.  So a
 * shift touches no key, and a thousand shifts lose no more precision than one.
 *
 * No two calls may change a cache at the same time.  Read-only calls (gyre_cache_attention, _tokens, _positions,
 * _get_usage, _save) may run on several threads.  The conventions of gyre.h hold. */
#ifndef GYRE_CACHE_H
#define GYRE_CACHE_H
#include "gyre/gyre.h"

#ifdef __cplusplus
extern "C" {
#endif

/* -- creation -- */
typedef struct gyre_cache gyre_cache;
typedef enum gyre_cache_keys {
    GYRE_CACHE_KEYS_DEFAULT, /* ROTATED if the encoding allows it, which is faster; else RAW */
    GYRE_CACHE_KEYS_RAW,     /* rotated each time they are read */
    GYRE_CACHE_KEYS_ROTATED  /* rotated once, before they are rounded to the cache's type */
} gyre_cache_keys;
typedef struct gyre_cache_config {
    size_t size;                       /* set by GYRE_INIT */
    const gyre_encoding *encoding;     /* borrowed, must outlive the cache; NULL = positions are applied before */
    gyre_cache_keys keys;              /* ROTATED needs LENGTH_POLICY_DECLARED, no xPos, no far distances and no
                                        * rope.longrope.start_tokens (EUNSUPPORTED).  gyre_cache_get_config returns the
                                        * choice of DEFAULT */
    gyre_dtype key_dtype, value_dtype; /* F32, F16, BF16 or Q8 */
    int64_t heads, head_dim;           /* key heads; head_dim at most 1024, a multiple of 8 with Q8; both needed */
    int64_t value_dim;                 /* at most 1024; 0 = head_dim; with values_in_keys 0 = the channels before those that
                                        * the encoding rotates */
    int64_t sequences;                 /* 0 .. sequences - 1; 0 = 1 */
    int64_t max_tokens;                /* of all sequences together; shared ones count once; needed */
    int64_t page_tokens;               /* 0 = one page per sequence of max_tokens / sequences tokens: contiguous */
    int64_t context_length;            /* ROTATED: the context length in use; 0 = the encoding's own.  RAW: attention uses
                                        * that of each call; files identify the encoding at this one */
    /* Query heads whose gate sums are stored with each key (gyre_attention_gates), as doubles; a multiple of heads, at
     * most 65536.  0 = none */
    int64_t gate_heads;
    /* 1 = the value of a token is the first value_dim channels of its key, which are stored once: the latents of multi-head
     * latent attention (DeepSeek-V2, arXiv 2405.04434), where a key is [latent, rotated slice].  gyre_cache_append then
     * takes no v, and value_dtype is ignored (gyre_cache_get_config: key_dtype).  The encoding may rotate channels from
     * value_dim on */
    int values_in_keys;
} gyre_cache_config;

/* *out = an empty cache.  All memory is allocated here: the pages, and one more than max_tokens needs, so that a shared
 * page can be copied; a single contiguous sequence shares none.  With malloc, untouched pages cost nothing.  On Linux,
 * huge pages of 2 MiB are requested, and 4 MiB and more are aligned to one.
 * Errors: EINVAL, EDTYPE (another type), ESHAPE (head_dim is not that of the encoding; values_in_keys: it rotates channels
 * below value_dim), EUNSUPPORTED, ENOMEM. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_cache_create(gyre_cache **out, const gyre_cache_config *config,
                                                       const gyre_alloc *alloc, gyre_error *err);
GYRE_API void gyre_cache_free(gyre_cache *cache); /* NULL is fine */
/* out = its config, defaults filled in, encoding and context_length as gyre_cache_set_encoding left them. */
GYRE_API const gyre_cache_config *gyre_cache_get_config(const gyre_cache *cache);
/* out = bytes of one token in a cache of this config: keys, values, the scales of Q8, gate sums, its position and a count
 * of the sequences that have it; 0 = an invalid config.  gyre_cache_usage.bytes also includes lists of pages and
 * ranges. */
GYRE_API size_t gyre_cache_token_bytes(const gyre_cache_config *config);

/* -- reading and attending -- */
typedef struct gyre_cache_append_args {
    size_t size;      /* set by GYRE_INIT */
    int64_t sequence; /* 0 = the first */
    gyre_cview k;     /* raw: [1, tokens, heads, head_dim], F32, F16 or BF16, any strides */
    gyre_cview v;     /* [1, tokens, heads, value_dim]; needed; with values_in_keys data NULL (else EINVAL) */
    const gyre_positions *positions;
    gyre_cview gates; /* F32 or F64 [1, tokens, gate_heads, 1], finite: the gate sums of the sequence from its first token on
                       * (gyre_gate_sums with `before`); needed with gate_heads, and EINVAL without */
} gyre_cache_append_args;
/* Appends tokens.  All or nothing.  After shifted tokens a key is rotated for its position minus their shift, and the
 * shift is added on reading: equal up to rounding, and the sequence needs fewer ranges.
 * positions->context_length: ROTATED 0, or a length with the frequencies of config.context_length; RAW ignored.
 * Removing tokens does not change the gate sums of later tokens, and neither does a shift.
 * Errors: EINVAL (also numbers that Q8 cannot hold: NaN, infinity, above a quarter of the largest float), ESHAPE, EDTYPE,
 * ERANGE, ENOMEM (no page is free, even after compaction). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_cache_append(gyre_cache *cache, const gyre_cache_append_args *args,
                                                       const gyre_exec *exec, gyre_error *err);

/* The same for many sequences at once. */
typedef struct gyre_cache_append_batch_args {
    size_t size;              /* set by GYRE_INIT */
    const int64_t *sequences; /* [count], each once; needed */
    /* [count + 1]: tokens starts[i] .. starts[i + 1] - 1 of k, v and gates are those of sequences[i]; from 0 to all tokens,
     * not decreasing.  NULL = one token each */
    const int64_t *starts;
    int64_t count;                   /* 0 = nothing to append */
    gyre_cview k, v;                 /* as in gyre_cache_append_args, with the tokens of all sequences */
    const gyre_positions *positions; /* of all these tokens; without data, those of each sequence begin at base.  NULL = each
                                      * sequence goes on after the position (axis 0) of its last token, or begins at 0 */
    gyre_cview gates;                /* as in gyre_cache_append_args */
} gyre_cache_append_batch_args;
/* gyre_cache_append for each sequence in order, as one call: all or nothing, and the tokens are dealt out to threads
 * whichever their sequence.  Errors: those of gyre_cache_append; EINVAL (a sequence that is in the list twice, starts). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_cache_append_batch(gyre_cache *cache, const gyre_cache_append_batch_args *args,
                                                             const gyre_exec *exec, gyre_error *err);

/* The same in slices: gyre_cache_append_reserve, once, then gyre_cache_append_slice with the same args for each slice.
 * Between them the new tokens have positions and no keys, so no other call may use their sequences.
 * Errors: those of gyre_cache_append_batch, all of the first; the second: EINVAL (slice, a sequence with fewer tokens). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_cache_append_reserve(gyre_cache *cache, const gyre_cache_append_batch_args *args,
                                                               gyre_error *err);
GYRE_API GYRE_MUST_CHECK gyre_status gyre_cache_append_slice(gyre_cache *cache, const gyre_cache_append_batch_args *args,
                                                             gyre_slice slice, gyre_error *err);

/* gyre_attention over the keys, values and positions of sequences[b] for batch row b.  args->k, v, k_pos and gates->k are
 * ignored; args->encoding is NULL or the cache's (else EINVAL).  Append the tokens of the queries first, so that they are
 * among the keys.  q_pos.data NULL and base 0: the queries are the last tokens of their sequences, or the last before
 * k_end; with q_end, query q_end - 1 is the last one before k_end.  They are at the positions of these tokens; queries past
 * the number of tokens count down from the first.
 * A cache with gate_heads needs gates with as many heads.  mask and weights have the keys of the longest of these
 * sequences; for a shorter one, entries past its end are not read, and weights there are 0.  Up to 8 queries a row read
 * each key and value once for all heads that share them, split over the keys, so that all threads help one sequence.
 * ORDER_FIXED does not split them: at most as many threads help as there are key heads.
 * A ragged batch, any mix of prompts and single tokens: batch->q_starts [batch->sequences + 1], and q, out, lse, mask, gates
 * and state of one batch row with the queries of all sequences.  Queries q_starts[b] .. q_starts[b + 1] - 1 see
 * sequences[b]; without data, q_pos begins at base in each; k_starts is NULL.  The bits are those of a call for each.
 * Sequences with little work, as queries times keys, are dealt out to threads; the others have all threads one after the
 * other.
 * Errors: as gyre_attention; EINVAL (k_starts, dropout, ROTATED keys under another context length than theirs); EUNSUPPORTED
 * (positions of each head: a cached token has one position; q_starts with weights or part indices). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_cache_attention(const gyre_cache *cache, const int64_t *sequences,
                                                          const gyre_attention_args *args, gyre_scratch scratch,
                                                          const gyre_exec *exec, gyre_error *err);
/* *bytes = scratch for gyre_cache_attention, not 0.  sequences NULL = any sequences, up to max_tokens long, so that
 * scratch can be allocated before there are tokens.  The size for some queries, rows and tokens suffices for every call
 * with fewer.  Errors: those of the call in shapes and numbers. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_cache_attention_scratch(const gyre_cache *cache, const int64_t *sequences,
                                                                  const gyre_attention_args *args, const gyre_exec *exec,
                                                                  size_t *bytes, gyre_error *err);

/* Tokens first .. first + count - 1 of a sequence. */
typedef struct gyre_cache_range {
    int64_t sequence; /* 0 = the first */
    int64_t first;    /* 0 = from its first token on */
    int64_t count;    /* 0 = none of them */
} gyre_cache_range;
/* out = tokens of a sequence; -1 if there is no such sequence. */
GYRE_API int64_t gyre_cache_tokens(const gyre_cache *cache, int64_t sequence);
/* out[i] = current position on `axis` of token i of the range.  Errors: EINVAL (outside the sequence). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_cache_positions(const gyre_cache *cache, gyre_cache_range range, int64_t axis,
                                                          int64_t *out, gyre_error *err);
/* -- editing -- */
/* Removes the tokens of a range.  Later tokens keep their positions.
 * Errors: EINVAL; ENOMEM (too many pieces: each hole inside a page makes one). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_cache_remove(gyre_cache *cache, gyre_cache_range range, gyre_error *err);
/* Adds delta[axis] to the positions of the tokens of a range.  Keys rotate by it; factors are not applied again.
 * Errors: EINVAL; ERANGE (a delta past 2^32, a position past 2^31 or past the end of the encoding); ENOMEM (too many
 * ranges). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_cache_shift(gyre_cache *cache, gyre_cache_range range,
                                                      const int64_t delta[GYRE_MAX_AXES], gyre_error *err);
/* Replaces sequence `to` by a copy of `from`.  They share pages until one of them writes.
 * Errors: EINVAL; ENOMEM (too many ranges; `to` is unchanged). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_cache_fork(gyre_cache *cache, int64_t from, int64_t to, gyre_error *err);
/* StreamingLLM (Xiao 2023, arXiv 2309.17453): keeps the first `sinks` tokens and the last window - sinks, at positions
 * 0 .. window - 1 on all axes.  A sequence of at most `window` tokens is unchanged.  *next (may be NULL) = the position
 * after the last token, on axis 0.
 * Errors: EINVAL; ERANGE (the encoding has no position window - 1); ENOMEM (too many ranges). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_cache_slide(gyre_cache *cache, int64_t sequence, int64_t sinks, int64_t window,
                                                      int64_t *next, gyre_error *err);

/* gyre_cache_remove in the caches of all layers of a model, as one call, all or nothing.  caches[i] is that of layer i; NULL
 * = a layer without one.  All are checked, and room is made in all, before a token of one changes.  Layers may differ in
 * shape, types, pages and encoding, but the sequence must have the same number of tokens in all.
 * Errors: those of gyre_cache_remove, with the layer; EINVAL (another number of tokens, a cache that is there twice, count
 * below 0). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_caches_remove(gyre_cache *const *caches, int64_t count, gyre_cache_range range,
                                                        gyre_error *err);
/* gyre_cache_shift in the caches of all layers, with the rules of gyre_caches_remove. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_caches_shift(gyre_cache *const *caches, int64_t count, gyre_cache_range range,
                                                       const int64_t delta[GYRE_MAX_AXES], gyre_error *err);
/* gyre_cache_fork in the caches of all layers, with the rules of gyre_caches_remove, but layers may have different numbers
 * of tokens. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_caches_fork(gyre_cache *const *caches, int64_t count, int64_t from, int64_t to,
                                                      gyre_error *err);
/* gyre_cache_slide in the caches of all layers, with the rules of gyre_caches_remove.  If the sequence had more than
 * `window` tokens, the position after the last token is `window`. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_caches_slide(gyre_cache *const *caches, int64_t count, int64_t sequence,
                                                       int64_t sinks, int64_t window, gyre_error *err);

/* Switches the cache to another encoding at context_length (0 = its own) without reading the text again: a LongRoPE model
 * past its switch, a changed base or factor.  Raw keys are unchanged.  Rotated keys rotate by the difference, factors
 * included, and are rounded once more; an overflow is infinite, and in Q8 its whole row NaN.  With ROTATED keys both
 * encodings must rotate the same channels in the same layout.  The old one must still exist.
 * Errors: EINVAL (another layout), ESHAPE (other channels; values_in_keys: channels below value_dim), EUNSUPPORTED (another
 * number of axes; ROTATED keys cannot be kept under it), ERANGE (it has no position for some token). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_cache_set_encoding(gyre_cache *cache, const gyre_encoding *encoding,
                                                             int64_t context_length, const gyre_exec *exec, gyre_error *err);

typedef struct gyre_cache_usage {
    size_t size;  /* set by GYRE_INIT */
    size_t bytes; /* allocated at creation, bookkeeping included */
    size_t used;  /* of them, in pages that hold tokens */
    int64_t pages, free_pages;
    int64_t tokens, shared_tokens; /* of all sequences; of these, those in more than one sequence, each counted once */
} gyre_cache_usage;
/* *out = current memory use.  Errors: EINVAL (out without its size). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_cache_get_usage(const gyre_cache *cache, gyre_cache_usage *out);

/* -- files -- */
/* Writes all sequences and a checksum to a file, atomically.  The mode of a replaced file is kept.  A symbolic link is
 * followed.  Errors: EINVAL, EIO. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_cache_save(const gyre_cache *cache, const char *path, gyre_error *err);
/* *out = the saved cache.  encoding: that of the saved cache.  The file identifies it by its kind, its axes, and the
 * channels, layout, direction, frequencies and attention factor of its rotation.  Settings that affect no stored key are
 * not in the file, and are taken from `encoding`, as after gyre_cache_set_encoding: with RAW keys far positions, chunks
 * and start tokens, with all keys temperatures and the numbers of biases.
 * Errors: EINVAL (another encoding), EIO, EFORMAT (with the offset), EUNSUPPORTED (ROTATED keys cannot be kept under it),
 * ENOMEM. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_cache_load(gyre_cache **out, const char *path, const gyre_encoding *encoding,
                                                     const gyre_alloc *alloc, gyre_error *err);

/* Writes the caches of all layers to one file, atomically: caches[i] is that of layer i, NULL = a layer without one.
 * Errors: those of gyre_cache_save; EINVAL (a cache that is there twice, count below 0). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_caches_save(gyre_cache *const *caches, int64_t count, const char *path,
                                                      gyre_error *err);
/* out[count] = the saved caches, NULL where the file has none.  encodings: [count], as in gyre_cache_load; an entry may be
 * NULL, and NULL = all are.  After an error all of out are NULL, and nothing is left allocated.
 * Errors: those of gyre_cache_load, with the layer; EINVAL (count is not that of the file). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_caches_load(gyre_cache **out, int64_t count, const char *path,
                                                      const gyre_encoding *const *encodings, const gyre_alloc *alloc,
                                                      gyre_error *err);

/* -- keys in memory of your own -- */
typedef struct gyre_rerotate_args {
    size_t size; /* set by GYRE_INIT */
    const gyre_encoding *before, *after;
    const gyre_positions *old_positions, *new_positions;
    gyre_cview in;
    gyre_view out;
} gyre_rerotate_args;
/* out[b][t][h][:] = E'(p') E(p)^-1 in[b][t][h][:]: keys that `before` rotated for old_positions p become those of `after`
 * for new_positions p': another base, factor or LongRoPE list, another length, keys moved by an offset.  Common factors
 * cancel, so none is applied twice.  gyre_cache_shift and gyre_cache_set_encoding do this for a gyre_cache.
 * Views as in gyre_rotate.  The difference of the angles is computed in double and each key is rounded once.
 * Errors: ESHAPE (also encodings that rotate other channels), EDTYPE, EINVAL (also another layout), ERANGE, EUNSUPPORTED
 * (an encoding that does not rotate; xPos). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_rerotate(const gyre_rerotate_args *args, const gyre_exec *exec, gyre_error *err);

#ifdef __cplusplus
}
#endif
#endif /* GYRE_CACHE_H */
