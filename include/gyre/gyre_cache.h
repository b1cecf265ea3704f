/* gyre_cache.h: keys and values of tokens read before, for decoding.  Part of libgyre. */
#ifndef GYRE_CACHE_H
#define GYRE_CACHE_H
#include "gyre/gyre.h"

#ifdef __cplusplus
extern "C" {
#endif

/* -- keys and values of tokens read before -- */
/* A cache holds the keys and values of one layer for several sequences, in pages of a fixed number of tokens.  A sequence is
 * a list of stretches of pages; sequences that share a prefix share its pages until one of them writes there.  A token keeps
 * the position it was appended at; what moves is a number on its stretch, so a shift of any kind touches no key, and a
 * thousand lose no more than one does.  No two calls may change a cache at once; reading (gyre_cache_attention, _tokens,
 * _positions, _usage, _save) may happen on several threads. */
typedef struct gyre_cache gyre_cache;
typedef enum gyre_cache_keys {
    GYRE_CACHE_KEYS_RAW,    /* turned each time they are read */
    GYRE_CACHE_KEYS_ROTATED /* turned once, before they are rounded to the cache's type */
} gyre_cache_keys;
typedef struct gyre_cache_config {
    size_t size;                   /* set by GYRE_CACHE_INIT; any other is EINVAL */
    const gyre_encoding *encoding; /* the caller's, must outlive the cache; NULL = positions are applied before */
    gyre_cache_keys keys; /* ROTATED asks for GYRE_LENGTH_POLICY_DECLARED, no xPos and no far turns (EUNSUPPORTED) */
    gyre_dtype key_dtype, value_dtype; /* F32, F16, BF16 or Q8 */
    int64_t heads, head_dim;           /* key heads; head_dim at most 1024, a multiple of 8 where a type is Q8 */
    int64_t value_dim;                 /* at most 1024; 0 = head_dim */
    int64_t sequences;                 /* 0 .. sequences - 1; 0 = 1 */
    int64_t max_tokens;                /* of all sequences together, shared ones counted once */
    int64_t page_tokens;               /* 0 = one page for each sequence, max_tokens / sequences each: contiguous */
    int64_t context_length;            /* ROTATED: the length in use; 0 = the encoding's own.  RAW: attention does not use
                                        * it, each call says its own; files tell encodings apart by it */
} gyre_cache_config;

/* *out = an empty cache, or a status and err (may be NULL) naming the field and its value.  All memory is taken here: pages,
 * and one more than max_tokens asks for, so that a page may be written anew (with malloc, untouched pages cost nothing; on
 * Linux huge pages are asked for, which are taken 2 MiB at a time).  Errors: EINVAL, EDTYPE (a type that is none of the
 * four), ESHAPE (head_dim is not that of an encoding that turns), EUNSUPPORTED, ENOMEM. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_cache_create(gyre_cache **out, const gyre_cache_config *config,
                                                       const gyre_alloc *alloc, gyre_error *err);
GYRE_API void gyre_cache_free(gyre_cache *cache); /* NULL is fine */
/* out = the config it was made from, defaults filled in, encoding and length as gyre_cache_set_encoding left them. */
GYRE_API const gyre_cache_config *gyre_cache_get_config(const gyre_cache *cache);
/* out = tokens of a sequence; -1 where there is no such sequence. */
GYRE_API int64_t gyre_cache_tokens(const gyre_cache *cache, int64_t sequence);
/* out[i] = position (of axis `axis`) of token first + i now, i < count.  EINVAL outside the sequence. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_cache_positions(const gyre_cache *cache, int64_t sequence, int64_t first,
                                                          int64_t count, int64_t axis, int64_t *out, gyre_error *err);
/* Appends tokens: k [1, tokens, heads, head_dim] and v [1, tokens, heads, value_dim] raw, F32, F16 or BF16 of any strides,
 * and their positions, where they stand now.  Behind tokens that were shifted, a key is turned for its position less that
 * shift, which is then added as it is for them: the same but for rounding, and the sequence does not fall into more
 * stretches.  positions.context_length: with ROTATED 0, or one of the same frequencies as config.context_length (EINVAL);
 * with RAW not used. All or nothing.  Errors: EINVAL (also numbers that Q8 cannot keep: NaN, infinity, beyond a quarter of
 * the largest float), ESHAPE, EDTYPE, ERANGE, ENOMEM (no page is free, even after tokens were moved together). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_cache_append(gyre_cache *cache, int64_t sequence, const gyre_cview *k,
                                                       const gyre_cview *v, const gyre_positions *positions,
                                                       const gyre_exec *exec, gyre_error *err);
/* Tokens first .. first + count - 1 are no more; those after them come next to those before, at the positions they have.
 * Errors: EINVAL; ENOMEM where stretches run out (drop single tokens from a page of many and append, and each hole makes
 * one). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_cache_remove(gyre_cache *cache, int64_t sequence, int64_t first, int64_t count,
                                                       gyre_error *err);
/* Positions of tokens first .. first + count - 1 grow by delta[axis].  A pure rotation: factors are not applied again.
 * Errors: EINVAL; ERANGE where one would be past 2^31 or where the encoding ends; ENOMEM where stretches run out. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_cache_shift(gyre_cache *cache, int64_t sequence, int64_t first, int64_t count,
                                                      const int64_t delta[GYRE_MAX_AXES], gyre_error *err);
/* Sequence `to`, whatever it held, becomes what `from` is, sharing its pages until one of the two writes.  Errors: EINVAL;
 * ENOMEM where stretches run out, and `to` is as it was. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_cache_fork(gyre_cache *cache, int64_t from, int64_t to, gyre_error *err);
/* StreamingLLM (Xiao 2023, arXiv 2309.17453): keeps the first `sinks` tokens and the last window - sinks, at positions 0 ..
 * window - 1 within the cache, on all axes; a sequence of no more than `window` tokens stays as it is.  *next (may be NULL)
 * = the position of the token to come, one past that of the last on axis 0.  Errors: EINVAL, ERANGE (the encoding has no
 * position window - 1), ENOMEM where stretches run out. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_cache_slide(gyre_cache *cache, int64_t sequence, int64_t sinks, int64_t window,
                                                      int64_t *next, gyre_error *err);
/* Moves the cache to another encoding (a LongRoPE model past its switch, a changed base or factor), used at context `length`
 * (0 = its own), without reading the text again: raw keys as they are, rotated ones by the difference of the two rotations,
 * factors included, rounded once more to the cache's type.  The encodings must rotate the same channels in the same layout,
 * and the old one must still be there.  Errors: EINVAL (another layout), ESHAPE (other channels), EUNSUPPORTED (another
 * number of axes; an encoding that ROTATED keys cannot be kept by), ERANGE (a token stands where the new one has no
 * position). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_cache_set_encoding(gyre_cache *cache, const gyre_encoding *encoding,
                                                             int64_t length, const gyre_exec *exec, gyre_error *err);
typedef struct gyre_cache_usage {
    size_t bytes; /* taken at creation */
    size_t used;  /* of those, of pages that hold tokens */
    int64_t pages, free_pages;
    int64_t tokens, shared_tokens; /* of all sequences; of those, tokens that another sequence has too, each once */
} gyre_cache_usage;
GYRE_API gyre_cache_usage gyre_cache_get_usage(const gyre_cache *cache);
/* Writes all sequences to a file, with a checksum, under a temporary name that becomes `path` when all is on disk.  The mode
 * of a file that is replaced stays; where `path` is a link, the link is what is replaced.  Errors: EINVAL, EIO. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_cache_save(const gyre_cache *cache, const char *path, gyre_error *err);
/* *out = the cache that was saved.  encoding: that of the saved cache, which the file knows by its frequencies (EINVAL where
 * it is another).  Errors: EINVAL, EIO, EFORMAT (with the offset), EUNSUPPORTED (ROTATED keys, and an encoding that they
 * cannot be kept by), ENOMEM. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_cache_load(gyre_cache **out, const char *path, const gyre_encoding *encoding,
                                                     const gyre_alloc *alloc, gyre_error *err);

/* gyre_attention with the keys, values and positions of sequences[b] for batch row b; args.k, v and k_pos are not looked at,
 * args.encoding is the cache's.  Keys in mask and weights are as many as the longest of these sequences has; of those that a
 * shorter one has not, the mask's are not read and weights are 0.  A query normally is among the tokens appended last:
 * append before attending.  Up to 8 queries a row go by a way that reads each key and value once for all heads that share
 * them, split over the keys so that all threads help one sequence.  Errors as gyre_attention; EINVAL for packed batches
 * (q_starts, k_starts) and dropout, and where ROTATED keys are asked for under another length than theirs.
 * Scratch: sequences NULL = for any, up to max_tokens long, so that it can be taken before there are tokens. */
GYRE_API size_t gyre_cache_attention_scratch(const gyre_cache *cache, const int64_t *sequences,
                                             const gyre_attention_args *args, const gyre_exec *exec);
GYRE_API GYRE_MUST_CHECK gyre_status gyre_cache_attention(const gyre_cache *cache, const int64_t *sequences,
                                                          const gyre_attention_args *args, void *scratch, size_t bytes,
                                                          const gyre_exec *exec, gyre_error *err);

#ifdef __cplusplus
}
#endif
#endif /* GYRE_CACHE_H */
