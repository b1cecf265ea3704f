/* cache_stretches.c: the list of stretches that a sequence is.
 *
 * The lists of all sequences lie in one pool that is taken at creation.  A list that outgrows its region gets a larger one
 * at the end of the pool; where that is full, all regions are moved together first. */
#include "cache/cache.h"

#include <string.h>

int64_t gyre_stretch_find(const gyre_sequence *sequence, int64_t token) {
    int64_t low = 0, high = sequence->count - 1;
    while (low < high) {
        const int64_t middle = low + (high - low + 1) / 2;
        if (sequence->stretches[middle].before <= token)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

int64_t gyre_stretch_split(gyre_sequence *sequence, int64_t token) {
    if (token == sequence->tokens) return sequence->count;
    const int64_t i = gyre_stretch_find(sequence, token);
    gyre_stretch *left = &sequence->stretches[i];
    const int64_t kept = token - left->before;
    if (kept == 0) return i;
    memmove(left + 1, left, (size_t)(sequence->count - i) * sizeof *left);
    sequence->count++;
    left[0].count = kept;
    left[1].first += kept;
    left[1].count -= kept;
    left[1].before = token;
    return i + 1;
}

static int one_stretch(const gyre_stretch *a, const gyre_stretch *b) {
    return a->page == b->page && a->first + a->count == b->first && memcmp(a->delta, b->delta, sizeof a->delta) == 0;
}

void gyre_stretch_tidy(gyre_sequence *sequence) {
    int64_t count = 0, before = 0;
    for (int64_t i = 0; i < sequence->count; i++) {
        const gyre_stretch next = sequence->stretches[i];
        gyre_stretch *last = count > 0 ? &sequence->stretches[count - 1] : NULL;
        if (last && one_stretch(last, &next)) {
            last->count += next.count;
        } else {
            sequence->stretches[count] = next;
            sequence->stretches[count++].before = before;
        }
        before += next.count;
    }
    sequence->count = count;
    sequence->tokens = before;
}

/* -- the pool --------------------------------------------------------------------------------------------------------- */

/* The region that begins first after `place`, or NULL. */
static gyre_sequence *region_after(const gyre_cache *cache, const gyre_stretch *place) {
    gyre_sequence *first = NULL;
    for (int64_t i = 0; i < cache->config.sequences; i++) {
        gyre_sequence *s = &cache->sequence[i];
        if (s->capacity > 0 && s->stretches >= place && (!first || s->stretches < first->stretches)) first = s;
    }
    return first;
}

/* Regions in their order, none larger than its list. */
static void pack_pool(gyre_cache *cache) {
    gyre_stretch *to = cache->pool;
    const gyre_stretch *place = cache->pool;
    for (gyre_sequence *s = region_after(cache, place); s; s = region_after(cache, place)) {
        place = s->stretches + s->capacity;
        memmove(to, s->stretches, (size_t)s->count * sizeof *to);
        s->stretches = to;
        s->capacity = s->count;
        to += s->count;
    }
    cache->pool_used = to - cache->pool;
}

/* In a packed pool: what lies behind the region gives way. */
static int widen_region(gyre_cache *cache, gyre_sequence *sequence, int64_t needed) {
    const int64_t rest = cache->pool_size - cache->pool_used;
    if (sequence->capacity == 0) sequence->stretches = cache->pool + cache->pool_used;
    if (needed - sequence->count > rest) return 0;
    const int64_t share = rest / 4, more = needed - sequence->count > share ? needed - sequence->count : share;
    gyre_stretch *end = sequence->stretches + sequence->count;
    memmove(end + more, end, (size_t)(cache->pool + cache->pool_used - end) * sizeof *end);
    for (int64_t i = 0; i < cache->config.sequences; i++)
        if (cache->sequence[i].capacity > 0 && cache->sequence[i].stretches >= end) cache->sequence[i].stretches += more;
    sequence->capacity = sequence->count + more;
    cache->pool_used += more;
    return 1;
}

static int grow(gyre_cache *cache, gyre_sequence *sequence, int64_t needed) {
    if (needed <= sequence->capacity) return 1;
    const int64_t twice = 2 * sequence->capacity, wanted = needed > twice ? needed : twice;
    if (wanted <= cache->pool_size - cache->pool_used) {
        gyre_stretch *to = cache->pool + cache->pool_used;
        if (sequence->count > 0) memcpy(to, sequence->stretches, (size_t)sequence->count * sizeof *to);
        sequence->stretches = to;
        sequence->capacity = wanted;
        cache->pool_used += wanted;
        return 1;
    }
    pack_pool(cache);
    return widen_region(cache, sequence, needed);
}

gyre_status gyre_stretch_reserve(gyre_cache *cache, gyre_sequence *sequence, int64_t more) {
    if (grow(cache, sequence, sequence->count + more)) return GYRE_OK;
    /* Holes part stretches: without them neighbours become one. */
    if (!gyre_page_squeeze_all(cache)) return GYRE_ENOMEM;
    return grow(cache, sequence, sequence->count + more) ? GYRE_OK : GYRE_ENOMEM;
}
