/* cache.h: what is inside a gyre_cache.
 *
 * A page has slots for page_tokens tokens.  A slot keeps the position its key was stored at, and a count of the sequences
 * that have it.  A sequence is a list of slot ranges.  A range is a run of slots of one page with a delta for each axis,
 * which is added to the positions of its slots.  Shifting tokens changes deltas, forking copies the list.  A slot is written
 * once, when a token is appended, and copied when tokens move to make room.  Only gyre_cache_set_encoding rewrites it.
 *
 *     sequence 0:   [page 0, slots 0 .. 3, delta 0]  [page 2, slots 0 .. 1, delta -4]
 *     sequence 1:   [page 0, slots 0 .. 1, delta 0]  [page 1, slots 0 .. 3, delta 0]      a fork: shares two slots
 *
 *     page 0:  | 2 | 2 | 1 | 1 |      page 1:  | 1 | 1 | 1 | 1 |      page 2:  | 1 | 1 |   |   |      sequences per slot */
#ifndef GYRE_CACHE_CACHE_H
#define GYRE_CACHE_CACHE_H
#include "call/key_source.h"
#include "core/encoding.h"
#include "core/scheme.h"
#include "gyre/gyre_cache.h"
#include "kernels/kernels.h"

/* Channels of a key or value, at most: rows are converted in buffers on the stack. */
enum { GYRE_CACHE_MAX_CHANNELS = 1024 };

typedef struct gyre_slot_range {
    int64_t page, first, count;   /* slots */
    int64_t first_token;          /* index in the sequence of its first token */
    int64_t delta[GYRE_MAX_AXES]; /* position = that of the slot + delta; 0 past the cache's axes */
} gyre_slot_range;

typedef struct gyre_sequence {
    const gyre_cache *cache;
    gyre_slot_range *ranges; /* [capacity], a region of gyre_cache.pool */
    int64_t count, capacity, tokens;
    int in_list; /* 1 while a call has met it in its list of sequences */
} gyre_sequence;

typedef struct gyre_page {
    int64_t fill, live; /* slots up to the last one in use; slots in use */
} gyre_page;

/* Keys or values of all pages: [page][head][slot][channel], and for Q8 a scale for each row. */
typedef struct gyre_cache_rows {
    char *data;
    float *scale; /* [page][head][slot]; NULL for other types */
    gyre_dtype dtype;
    int64_t channels;
} gyre_cache_rows;

struct gyre_cache {
    gyre_cache_config config; /* defaults filled in */
    gyre_alloc alloc;
    const gyre_kernels *kernels;
    int rotated;    /* keys are stored rotated, by an encoding that rotates */
    int contiguous; /* a sequence has slots of one page only */
    int64_t axes;   /* of positions */
    int64_t page_tokens, pages;
    int64_t page_high_water, free_count; /* pages from page_high_water on were never used; free[free_count] were released */
    int64_t tokens, shared;              /* as in gyre_cache_usage */
    int64_t live;                        /* slots in use: tokens, shared ones counted once */
    size_t bytes, page_bytes;
    gyre_cache_rows k, v; /* v.data is NULL with config.values_in_keys */
    int64_t *positions;   /* [page][slot][axes] */
    double *gate_sums;    /* [page][gate head][slot]; NULL = none */
    int32_t *refcounts;   /* [page][slot]: sequences that have the slot; only of pages in use */
    gyre_page *page;
    int64_t *free;
    gyre_sequence *sequence;
    gyre_slot_range *pool;
    int64_t pool_size, pool_used;
};

static inline int64_t gyre_cache_slot(const gyre_cache *cache, int64_t page, int64_t slot) {
    return page * cache->page_tokens + slot;
}
/* out = index of the row of a slot and head. */
static inline int64_t gyre_cache_row(const gyre_cache *cache, int64_t page, int64_t head, int64_t slot) {
    return (page * cache->config.heads + head) * cache->page_tokens + slot;
}
static inline void *gyre_cache_data(const gyre_cache_rows *rows, int64_t row) {
    return rows->data + (size_t)(row * rows->channels) * gyre_dtype_size(rows->dtype);
}
static inline int64_t *gyre_cache_position(const gyre_cache *cache, int64_t page, int64_t slot) {
    return cache->positions + gyre_cache_slot(cache, page, slot) * cache->axes;
}
static inline double *gyre_cache_gate_sum(const gyre_cache *cache, int64_t page, int64_t head, int64_t slot) {
    return cache->gate_sums + (page * cache->config.gate_heads + head) * cache->page_tokens + slot;
}
/* out = the rows whose first value_dim channels are the values. */
static inline const gyre_cache_rows *gyre_cache_value_rows(const gyre_cache *cache) {
    return cache->config.values_in_keys ? &cache->k : &cache->v;
}
/* out = NULL if there is no such sequence. */
static inline gyre_sequence *gyre_cache_sequence(const gyre_cache *cache, int64_t sequence) {
    return cache && sequence >= 0 && sequence < cache->config.sequences ? &cache->sequence[sequence] : NULL;
}
static inline int64_t gyre_cache_free_pages(const gyre_cache *cache) {
    return cache->pages - cache->page_high_water + cache->free_count;
}
/* out = axes of positions; 1 without an encoding. */
int64_t gyre_cache_axes_of(const gyre_encoding *encoding);
/* 1: it rotates queries and keys. */
static inline int gyre_cache_rotates(const gyre_encoding *encoding) {
    return encoding && (encoding->scheme->places & GYRE_PLACE_QUERY_KEY) != 0;
}
/* ESHAPE: the encoding rotates channels of keys that are values. */
gyre_status gyre_cache_check_values_in_keys(const gyre_cache_config *config, const gyre_encoding *encoding, const char *name,
                                            gyre_error *err);
/* EUNSUPPORTED: keys cannot be stored rotated by the encoding. */
gyre_status gyre_cache_can_store_rotated(const gyre_encoding *encoding, gyre_error *err);

/* 1: the length gives the frequencies that stored keys are rotated by.  length 0 = the encoding's own. */
int gyre_cache_same_length(const gyre_cache *cache, int64_t length);

/* -- arguments -- */
/* *out = a sequence, or EINVAL and the reason: cache NULL, no such sequence.  field, name: of the argument and the function
 * called, for the message. */
typedef struct gyre_cache_argument {
    const char *field, *name;
} gyre_cache_argument;
gyre_status gyre_cache_find(const gyre_cache *cache, int64_t sequence, gyre_cache_argument at, gyre_sequence **out,
                            gyre_error *err);
/* EINVAL: tokens first .. first + count - 1 are not in the sequence. */
gyre_status gyre_cache_check_tokens(const gyre_sequence *sequence, int64_t first, int64_t count, const char *name,
                                    gyre_error *err);
/* out = status, an ENOMEM with the reason. */
gyre_status gyre_cache_no_ranges(gyre_status status, const char *name, gyre_error *err);

/* -- the caches of all layers -- */
/* out = index of the first that is not NULL; count = none. */
int64_t gyre_caches_first(gyre_cache *const *caches, int64_t count);
/* EINVAL: count below 0, caches NULL, a cache that is there twice. */
gyre_status gyre_caches_check(gyre_cache *const *caches, int64_t count, const char *name, gyre_error *err);
/* out = status, whose reason then begins with "layer N: ". */
gyre_status gyre_caches_fail_layer(gyre_status status, int64_t layer, gyre_error *err);

/* -- slot ranges (cache_ranges.c) -- */
/* out = index of the range with token `token`, which the sequence has. */
int64_t gyre_slot_range_find(const gyre_sequence *sequence, int64_t token);
/* Makes room for `more` ranges.  ENOMEM: the pool is full.  May move tokens within their pages. */
gyre_status gyre_slot_ranges_reserve(gyre_cache *cache, gyre_sequence *sequence, int64_t more);
/* Makes a range begin at `token`, which may be the end of the sequence; there is room for one more.  out = its index. */
int64_t gyre_slot_range_split(gyre_sequence *sequence, int64_t token);
/* Joins adjacent ranges, and recounts tokens. */
void gyre_slot_ranges_merge(gyre_sequence *sequence);

/* -- pages (cache_pages.c) -- */
/* out = a free page.  There is one. */
int64_t gyre_page_alloc(gyre_cache *cache);
/* Adds or removes one reference to each slot.  A page without references becomes free. */
void gyre_page_retain(gyre_cache *cache, int64_t page, int64_t first, int64_t count);
void gyre_page_release(gyre_cache *cache, int64_t page, int64_t first, int64_t count);
/* Moves the used slots of a page, or of all pages, to its front.  out = 1 if something moved. */
int gyre_page_compact(gyre_cache *cache, int64_t page);
int gyre_page_compact_all(gyre_cache *cache);
/* Makes room for `tokens` more at the end of the sequence, in pages and in ranges.  Moves tokens together if needed.
 * ENOMEM: there is no room, and no token has changed. */
gyre_status gyre_page_reserve(gyre_cache *cache, gyre_sequence *sequence, int64_t tokens);
/* Gives the sequence slots for `tokens` more, with that delta.  There is room. */
void gyre_page_extend(gyre_cache *cache, gyre_sequence *sequence, int64_t tokens, const int64_t delta[GYRE_MAX_AXES]);

/* -- rows (cache_append.c) -- */
/* Stores x[channels] as row `row`, rounded once. */
void gyre_cache_store(const gyre_cache *cache, const gyre_cache_rows *rows, int64_t row, const float *x);

/* -- reading -- */
/* out = the keys and values of one sequence, valid until the cache changes.  `batch` is ignored. */
gyre_key_source gyre_cache_source(const gyre_cache *cache, int64_t sequence);

#endif
