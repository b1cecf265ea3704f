/* cache_pages.c: allocates slots, and moves tokens together when room runs out. */
#include "cache/cache.h"

#include <string.h>

static int32_t *refcounts_of(const gyre_cache *cache, int64_t page, int64_t slot) {
    return cache->refcounts + gyre_cache_slot(cache, page, slot);
}

int64_t gyre_page_alloc(gyre_cache *cache) {
    const int64_t page = cache->free_count > 0 ? cache->free[--cache->free_count] : cache->page_high_water++;
    memset(refcounts_of(cache, page, 0), 0, (size_t)cache->page_tokens * sizeof(int32_t));
    cache->page[page] = (gyre_page){0, 0};
    return page;
}

static void free_page(gyre_cache *cache, int64_t page) {
    cache->page[page] = (gyre_page){0, 0};
    cache->free[cache->free_count++] = page;
}

void gyre_page_retain(gyre_cache *cache, int64_t page, int64_t first, int64_t count) {
    int32_t *refcounts = refcounts_of(cache, page, first);
    for (int64_t i = 0; i < count; i++) {
        refcounts[i]++;
        cache->live += refcounts[i] == 1;
        cache->page[page].live += refcounts[i] == 1;
        cache->shared += refcounts[i] == 2;
    }
    if (cache->page[page].fill < first + count) cache->page[page].fill = first + count;
    cache->tokens += count;
}

void gyre_page_release(gyre_cache *cache, int64_t page, int64_t first, int64_t count) {
    int32_t *refcounts = refcounts_of(cache, page, first);
    gyre_page *p = &cache->page[page];
    for (int64_t i = 0; i < count; i++) {
        refcounts[i]--;
        cache->live -= refcounts[i] == 0;
        p->live -= refcounts[i] == 0;
        cache->shared -= refcounts[i] == 1;
    }
    cache->tokens -= count;
    refcounts = refcounts_of(cache, page, 0);
    while (p->fill > 0 && refcounts[p->fill - 1] == 0)
        p->fill--;
    if (p->live == 0) free_page(cache, page);
}

/* -- moving tokens -- */

typedef struct slot_address {
    int64_t page, slot;
} slot_address;

static void copy_rows(const gyre_cache *cache, const gyre_cache_rows *rows, slot_address from, slot_address to,
                      int64_t count) {
    const size_t bytes = (size_t)(count * rows->channels) * gyre_dtype_size(rows->dtype);
    for (int64_t h = 0; h < cache->config.heads; h++) {
        const int64_t old = gyre_cache_row(cache, from.page, h, from.slot), new = gyre_cache_row(cache, to.page, h, to.slot);
        memmove(gyre_cache_data(rows, new), gyre_cache_data(rows, old), bytes);
        if (rows->scale) memmove(rows->scale + new, rows->scale + old, (size_t)count * sizeof(float));
    }
}

/* Copies keys, values, positions and gate sums, not reference counts. */
static void copy_slots(gyre_cache *cache, slot_address from, slot_address to, int64_t count) {
    copy_rows(cache, &cache->k, from, to, count);
    if (!cache->config.values_in_keys) copy_rows(cache, &cache->v, from, to, count);
    memmove(gyre_cache_position(cache, to.page, to.slot), gyre_cache_position(cache, from.page, from.slot),
            (size_t)(count * cache->axes) * sizeof(int64_t));
    for (int64_t h = 0; h < cache->config.gate_heads; h++)
        memmove(gyre_cache_gate_sum(cache, to.page, h, to.slot), gyre_cache_gate_sum(cache, from.page, h, from.slot),
                (size_t)count * sizeof(double));
}

/* out = used slots before this one. */
static int64_t rank_of(const gyre_cache *cache, int64_t page, int64_t slot) {
    const int32_t *refcounts = refcounts_of(cache, page, 0);
    int64_t rank = 0;
    for (int64_t i = 0; i < slot; i++)
        rank += refcounts[i] > 0;
    return rank;
}

/* Points all ranges of page `from` to where its used slots will go: adjacent, from slot `base` of page `to` on. */
static void redirect_ranges(gyre_cache *cache, int64_t from, int64_t to, int64_t base) {
    for (int64_t s = 0; s < cache->config.sequences; s++)
        for (int64_t i = 0; i < cache->sequence[s].count; i++) {
            gyre_slot_range *range = &cache->sequence[s].ranges[i];
            if (range->page != from) continue;
            range->first = base + rank_of(cache, from, range->first);
            range->page = to;
        }
}

/* Moves the used slots of page `from` to page `to`, from slot `base` on, which are free.  from == to: base is 0. */
static void move_page(gyre_cache *cache, int64_t from, int64_t to, int64_t base) {
    const int64_t fill = cache->page[from].fill, live = cache->page[from].live;
    int32_t *old = refcounts_of(cache, from, 0), *new = refcounts_of(cache, to, base);
    redirect_ranges(cache, from, to, base);
    for (int64_t slot = 0, n, at = 0; slot < fill; slot += n) {
        for (n = 0; slot + n < fill && old[slot + n] > 0; n++) {
        }
        if (n > 0) {
            copy_slots(cache, (slot_address){from, slot}, (slot_address){to, base + at}, n);
            memmove(new + at, old + slot, (size_t)n * sizeof *new);
            at += n;
        } else {
            n = 1;
        }
    }
    if (from == to) {
        memset(new + live, 0, (size_t)(fill - live) * sizeof *new);
        cache->page[to].fill = live;
    } else {
        cache->page[to].fill = base + live;
        cache->page[to].live += live;
        free_page(cache, from);
    }
}

static int has_holes(const gyre_page *page) {
    return page->live < page->fill;
}

int gyre_page_compact(gyre_cache *cache, int64_t page) {
    if (!has_holes(&cache->page[page])) return 0;
    move_page(cache, page, page, 0);
    return 1;
}

static void merge_all_ranges(gyre_cache *cache) {
    for (int64_t s = 0; s < cache->config.sequences; s++)
        gyre_slot_ranges_merge(&cache->sequence[s]);
}

int gyre_page_compact_all(gyre_cache *cache) {
    int moved = 0;
    for (int64_t page = 0; page < cache->page_high_water; page++)
        moved |= gyre_page_compact(cache, page);
    if (moved) merge_all_ranges(cache);
    return moved;
}

/* -- room -- */

static const gyre_slot_range *last_of(const gyre_sequence *sequence) {
    return sequence->count > 0 ? &sequence->ranges[sequence->count - 1] : NULL;
}

/* out = free slots right after the last token of the sequence.  If several sequences end there, the first append gets
 * them. */
static int64_t tail_room(const gyre_cache *cache, const gyre_sequence *sequence) {
    const gyre_slot_range *last = last_of(sequence);
    const int open = last && last->first + last->count == cache->page[last->page].fill;
    return open ? cache->page_tokens - cache->page[last->page].fill : 0;
}

/* *from = the page with the fewest tokens, *to = the fullest other page with slots for them, but not `excluded`.  0: there
 * are none. */
static int find_mergeable_pages(const gyre_cache *cache, int64_t excluded, int64_t *from, int64_t *to) {
    *from = *to = -1;
    for (int64_t i = 0; i < cache->page_high_water; i++)
        if (cache->page[i].live > 0 && (*from < 0 || cache->page[i].live < cache->page[*from].live)) *from = i;
    if (*from < 0) return 0;
    const int64_t most = cache->page_tokens - cache->page[*from].live;
    for (int64_t i = 0; i < cache->page_high_water; i++) {
        const int64_t live = cache->page[i].live;
        if (i == *from || i == excluded || live == 0 || live > most) continue;
        if (*to < 0 || live > cache->page[*to].live) *to = i;
    }
    return *to >= 0;
}

/* Makes some room for the sequence.  0: the cache is full. */
static int compact_once(gyre_cache *cache, gyre_sequence *sequence) {
    const gyre_slot_range *last = last_of(sequence);
    int64_t from, to;
    if (last && last->first + last->count == cache->page[last->page].fill && gyre_page_compact(cache, last->page)) {
        merge_all_ranges(cache);
        return 1;
    }
    if (!find_mergeable_pages(cache, last ? last->page : -1, &from, &to) && !find_mergeable_pages(cache, -1, &from, &to))
        return 0;
    if (cache->page_tokens - cache->page[to].fill < cache->page[from].live) gyre_page_compact(cache, to);
    move_page(cache, from, to, cache->page[to].fill);
    merge_all_ranges(cache);
    return 1;
}

/* Contiguous caches: gives the sequence its own page, when it shares slots or when others have the slots after it. */
static void copy_on_write(gyre_cache *cache, gyre_sequence *sequence) {
    const int64_t page = gyre_page_alloc(cache);
    for (int64_t i = 0; i < sequence->count; i++) {
        gyre_slot_range *s = &sequence->ranges[i];
        copy_slots(cache, (slot_address){s->page, s->first}, (slot_address){page, s->first_token}, s->count);
        gyre_page_retain(cache, page, s->first_token, s->count);
        gyre_page_release(cache, s->page, s->first, s->count);
        s->page = page;
        s->first = s->first_token;
    }
    gyre_slot_ranges_merge(sequence);
}

/* Each sequence has at most one page, so of the sequences + 1 pages one is free for copy_on_write.  A sequence that is alone
 * shares no token: compacting its page gives it all of the room. */
static gyre_status reserve_contiguous(gyre_cache *cache, gyre_sequence *sequence, int64_t tokens) {
    if (tokens > cache->page_tokens - sequence->tokens) return GYRE_ENOMEM;
    const gyre_status status = gyre_slot_ranges_reserve(cache, sequence, 1);
    if (status || sequence->count == 0 || tail_room(cache, sequence) >= tokens) return status;
    if (gyre_page_compact(cache, last_of(sequence)->page)) merge_all_ranges(cache);
    if (tail_room(cache, sequence) < tokens) copy_on_write(cache, sequence);
    return GYRE_OK;
}

gyre_status gyre_page_reserve(gyre_cache *cache, gyre_sequence *sequence, int64_t tokens) {
    if (cache->contiguous) return reserve_contiguous(cache, sequence, tokens);
    if (tokens > cache->config.max_tokens - cache->live) return GYRE_ENOMEM;
    for (;;) {
        const int64_t tail = tail_room(cache, sequence), size = cache->page_tokens;
        const int64_t pages = tokens > tail ? (tokens - tail + size - 1) / size : 0;
        if (pages <= gyre_cache_free_pages(cache)) return gyre_slot_ranges_reserve(cache, sequence, pages + 1);
        if (!compact_once(cache, sequence)) return GYRE_ENOMEM;
    }
}

void gyre_page_extend(gyre_cache *cache, gyre_sequence *sequence, int64_t tokens, const int64_t delta[GYRE_MAX_AXES]) {
    for (int64_t n; tokens > 0; tokens -= n) {
        gyre_slot_range *last = sequence->count > 0 ? &sequence->ranges[sequence->count - 1] : NULL;
        const int follows = tail_room(cache, sequence) > 0;
        const int64_t page = follows ? last->page : gyre_page_alloc(cache), first = cache->page[page].fill;
        n = cache->page_tokens - first < tokens ? cache->page_tokens - first : tokens;
        gyre_page_retain(cache, page, first, n);
        if (follows && memcmp(last->delta, delta, sizeof last->delta) == 0) {
            last->count += n;
        } else {
            gyre_slot_range next = {page, first, n, sequence->tokens, {0}};
            memcpy(next.delta, delta, sizeof next.delta);
            sequence->ranges[sequence->count++] = next;
        }
        sequence->tokens += n;
    }
}
