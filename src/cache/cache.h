/* cache.h: what is inside a gyre_cache.
 *
 * A page has slots for page_tokens tokens.  A slot keeps the position its key was turned for, and how many sequences have
 * it.  A sequence is a list of stretches, runs of slots of one page with one number an axis that is added to their
 * positions: whatever shifts tokens changes that number, and what forks copies the list.  A slot is written once, when a
 * token is appended, and moved where room runs out; only gyre_cache_set_encoding writes it anew. */
#ifndef GYRE_ATTENTION_CACHE_H
#define GYRE_ATTENTION_CACHE_H
#include "attention/plan/key_source.h"
#include "core/encoding.h"
#include "core/scheme.h"
#include "gyre/gyre_cache.h"
#include "kernels/kernels.h"

/* Rows are worked on in buffers on the stack. */
enum { GYRE_CACHE_MAX_CHANNELS = 1024 };

typedef struct gyre_slot_range {
    int64_t page, first, count;   /* slots */
    int64_t first_token;          /* tokens of the sequence before it */
    int64_t delta[GYRE_MAX_AXES]; /* position now = that of the slot + delta; 0 past the cache's axes */
} gyre_slot_range;

typedef struct gyre_sequence {
    const gyre_cache *cache;
    gyre_slot_range *ranges; /* [capacity], a region of the cache's pool */
    int64_t count, capacity, tokens;
} gyre_sequence;

typedef struct gyre_page {
    int64_t fill, live; /* slots up to the last that a sequence has; slots that one has */
} gyre_page;

/* Keys or values of all pages: [page][head][slot][channel], and a scale for each row of Q8. */
typedef struct gyre_cache_rows {
    char *data;
    float *scale; /* [page][head][slot]; NULL where there are none */
    gyre_dtype dtype;
    int64_t channels;
} gyre_cache_rows;

struct gyre_cache {
    gyre_cache_config config; /* defaults filled in */
    gyre_alloc alloc;
    const gyre_kernels *kernels;
    int rotated;    /* keys are kept turned, by an encoding that turns any */
    int contiguous; /* a sequence has slots of one page alone */
    int64_t axes;   /* of positions */
    int64_t page_tokens, pages;
    int64_t page_high_water, free_count; /* pages never taken begin at fresh; free[returned] were */
    int64_t tokens, shared;              /* as gyre_cache_usage has them */
    int64_t live;                        /* slots that a sequence has: tokens, shared ones counted once */
    size_t bytes, page_bytes;
    gyre_cache_rows k, v;
    int64_t *positions; /* [page][slot][axes] */
    int32_t *refcounts; /* [page][slot]; of pages in use */
    gyre_page *page;
    int64_t *free;
    gyre_sequence *sequence;
    gyre_slot_range *pool;
    int64_t pool_size, pool_used;
};

static inline int64_t gyre_cache_slot(const gyre_cache *cache, int64_t page, int64_t slot) {
    return page * cache->page_tokens + slot;
}
/* Rows in front of that of a slot and head. */
static inline int64_t gyre_cache_row(const gyre_cache *cache, int64_t page, int64_t head, int64_t slot) {
    return (page * cache->config.heads + head) * cache->page_tokens + slot;
}
static inline void *gyre_cache_data(const gyre_cache_rows *rows, int64_t row) {
    return rows->data + (size_t)(row * rows->channels) * gyre_dtype_size(rows->dtype);
}
static inline int64_t *gyre_cache_position(const gyre_cache *cache, int64_t page, int64_t slot) {
    return cache->positions + gyre_cache_slot(cache, page, slot) * cache->axes;
}
/* NULL where there is none. */
static inline gyre_sequence *gyre_cache_sequence(const gyre_cache *cache, int64_t sequence) {
    return cache && sequence >= 0 && sequence < cache->config.sequences ? &cache->sequence[sequence] : NULL;
}
static inline int64_t gyre_cache_free_pages(const gyre_cache *cache) {
    return cache->pages - cache->page_high_water + cache->free_count;
}
/* Of the encoding, 1 without. */
int64_t gyre_cache_axes_of(const gyre_encoding *encoding);
/* 1: it turns queries and keys. */
static inline int gyre_cache_rotates(const gyre_encoding *encoding) {
    return encoding && (encoding->scheme->places & GYRE_PLACE_QUERY_KEY) != 0;
}
/* GYRE_OK, or why keys cannot be kept turned by the encoding. */
gyre_status gyre_cache_can_store_rotated(const gyre_encoding *encoding, gyre_error *err);

/* 1: of a cache that keeps keys turned, its own length or one of the same frequencies.  0 = the encoding's own. */
int gyre_cache_same_length(const gyre_cache *cache, int64_t length);

/* -- stretches (cache_stretches.c) -- */
/* out = the stretch that has token `token`, which the sequence has. */
int64_t gyre_slot_range_find(const gyre_sequence *sequence, int64_t token);
/* Room for `more` stretches beside those there are; ENOMEM where none is to be had.  May move tokens within their pages. */
gyre_status gyre_slot_ranges_reserve(gyre_cache *cache, gyre_sequence *sequence, int64_t more);
/* A stretch begins at `token`, which the sequence has or which is its end; there is room for one more.  out = which. */
int64_t gyre_slot_range_split(gyre_sequence *sequence, int64_t token);
/* Joins neighbours that are one, and counts anew. */
void gyre_slot_ranges_merge(gyre_sequence *sequence);

/* -- pages (cache_pages.c) -- */
/* A free page, which there is. */
int64_t gyre_page_alloc(gyre_cache *cache);
/* One sequence more, or less, has these slots; a page that none has becomes free. */
void gyre_page_retain(gyre_cache *cache, int64_t page, int64_t first, int64_t count);
void gyre_page_release(gyre_cache *cache, int64_t page, int64_t first, int64_t count);
/* Moves what a page holds together, or that of all pages, so that slots that no sequence has are behind all others.  out =
 * something moved. */
int gyre_page_compact(gyre_cache *cache, int64_t page);
int gyre_page_compact_all(gyre_cache *cache);
/* Room for `tokens` more at the end of the sequence, in pages and in stretches, moving tokens together where that makes
 * it; or ENOMEM, the tokens as they were. */
gyre_status gyre_page_reserve(gyre_cache *cache, gyre_sequence *sequence, int64_t tokens);
/* Gives the sequence slots for `tokens` more, for which there is room, all shifted by delta. */
void gyre_page_extend(gyre_cache *cache, gyre_sequence *sequence, int64_t tokens, const int64_t delta[GYRE_MAX_AXES]);

/* -- rows (cache_append.c) -- */
/* Stores x[channels], rounded once, as row `row`. */
void gyre_cache_store(const gyre_cache *cache, const gyre_cache_rows *rows, int64_t row, const float *x);

/* -- reading -- */
/* The keys and values of one sequence, as long as nothing changes the cache; batch is 0. */
gyre_key_source gyre_cache_source(const gyre_cache *cache, int64_t sequence);

#endif
