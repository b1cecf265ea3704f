/* cache_ranges.c: the lists of slot ranges.
 *
 * The lists of all sequences are in one pool, allocated at creation.  Each has a region.  A list that outgrows its
 * region gets a larger one at the end of the pool.  When the pool is full, the regions are moved together first.
 *
 *     pool:  | region of sequence 1 | old region | region of sequence 0 ...... | free          |
 *                                                                    pool_used ^     pool_size ^ */
#include "cache/cache.h"

#include <string.h>

int64_t gyre_slot_range_find(const gyre_sequence *sequence, int64_t token) {
    int64_t low = 0, high = sequence->count - 1;
    while (low < high) {
        const int64_t middle = low + (high - low + 1) / 2;
        if (sequence->ranges[middle].first_token <= token)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

int64_t gyre_slot_range_split(gyre_sequence *sequence, int64_t token) {
    if (token == sequence->tokens) return sequence->count;
    const int64_t i = gyre_slot_range_find(sequence, token);
    gyre_slot_range *left = &sequence->ranges[i];
    const int64_t count = token - left->first_token;
    if (count == 0) return i;
    memmove(left + 1, left, (size_t)(sequence->count - i) * sizeof *left);
    sequence->count++;
    left[0].count = count;
    left[1].first += count;
    left[1].count -= count;
    left[1].first_token = token;
    return i + 1;
}

static int ranges_adjacent(const gyre_slot_range *a, const gyre_slot_range *b) {
    return a->page == b->page && a->first + a->count == b->first && memcmp(a->delta, b->delta, sizeof a->delta) == 0;
}

void gyre_slot_ranges_merge(gyre_sequence *sequence) {
    int64_t count = 0, before = 0;
    for (int64_t i = 0; i < sequence->count; i++) {
        const gyre_slot_range next = sequence->ranges[i];
        gyre_slot_range *last = count > 0 ? &sequence->ranges[count - 1] : NULL;
        if (last && ranges_adjacent(last, &next)) {
            last->count += next.count;
        } else {
            sequence->ranges[count] = next;
            sequence->ranges[count++].first_token = before;
        }
        before += next.count;
    }
    sequence->count = count;
    sequence->tokens = before;
}

/* -- the pool -- */

/* out = the first region at or after `place`, or NULL. */
static gyre_sequence *region_after(const gyre_cache *cache, const gyre_slot_range *place) {
    gyre_sequence *first = NULL;
    for (int64_t i = 0; i < cache->config.sequences; i++) {
        gyre_sequence *s = &cache->sequence[i];
        if (s->capacity > 0 && s->ranges >= place && (!first || s->ranges < first->ranges)) first = s;
    }
    return first;
}

/* Moves all regions to the front, in their order, each shrunk to its list. */
static void pack_pool(gyre_cache *cache) {
    gyre_slot_range *to = cache->pool;
    const gyre_slot_range *place = cache->pool;
    for (gyre_sequence *s = region_after(cache, place); s; s = region_after(cache, place)) {
        place = s->ranges + s->capacity;
        memmove(to, s->ranges, (size_t)s->count * sizeof *to);
        s->ranges = to;
        s->capacity = s->count;
        to += s->count;
    }
    cache->pool_used = to - cache->pool;
}

/* In a packed pool: grows a region, moving those after it. */
static int widen_region(gyre_cache *cache, gyre_sequence *sequence, int64_t needed) {
    const int64_t rest = cache->pool_size - cache->pool_used;
    if (sequence->capacity == 0) sequence->ranges = cache->pool + cache->pool_used;
    if (needed - sequence->count > rest) return 0;
    const int64_t quarter = rest / 4, more = needed - sequence->count > quarter ? needed - sequence->count : quarter;
    gyre_slot_range *end = sequence->ranges + sequence->count;
    memmove(end + more, end, (size_t)(cache->pool + cache->pool_used - end) * sizeof *end);
    for (int64_t i = 0; i < cache->config.sequences; i++)
        if (cache->sequence[i].capacity > 0 && cache->sequence[i].ranges >= end) cache->sequence[i].ranges += more;
    sequence->capacity = sequence->count + more;
    cache->pool_used += more;
    return 1;
}

static int grow_region(gyre_cache *cache, gyre_sequence *sequence, int64_t needed) {
    if (needed <= sequence->capacity) return 1;
    const int64_t twice = 2 * sequence->capacity, wanted = needed > twice ? needed : twice;
    if (wanted <= cache->pool_size - cache->pool_used) {
        gyre_slot_range *to = cache->pool + cache->pool_used;
        if (sequence->count > 0) memcpy(to, sequence->ranges, (size_t)sequence->count * sizeof *to);
        sequence->ranges = to;
        sequence->capacity = wanted;
        cache->pool_used += wanted;
        return 1;
    }
    pack_pool(cache);
    return widen_region(cache, sequence, needed);
}

gyre_status gyre_slot_ranges_reserve(gyre_cache *cache, gyre_sequence *sequence, int64_t more) {
    if (grow_region(cache, sequence, sequence->count + more)) return GYRE_OK;
    /* Unused slots split ranges.  Without them, neighbours join. */
    if (!gyre_page_compact_all(cache)) return GYRE_ENOMEM;
    return grow_region(cache, sequence, sequence->count + more) ? GYRE_OK : GYRE_ENOMEM;
}
