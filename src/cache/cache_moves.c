/* cache_moves.c: tokens dropped, shifted, shared and slid.  No key is touched, but where stretches run out. */
#include "cache/cache.h"

#include <string.h>

static int within(const gyre_sequence *s, int64_t first, int64_t count) {
    return first >= 0 && count >= 0 && count <= s->tokens && first <= s->tokens - count;
}

/* -- drop ------------------------------------------------------------------------------------------------------------- */

/* Tokens first .. first + count - 1, at least one, are no more; there is room where that parts a stretch in two. */
static void drop(gyre_cache *cache, gyre_sequence *s, int64_t first, int64_t count) {
    const int64_t end = first + count, i = gyre_stretch_find(s, first), j = gyre_stretch_find(s, end - 1);
    for (int64_t k = i; k <= j; k++) {
        const gyre_stretch *part = &s->stretches[k];
        const int64_t low = first > part->before ? first - part->before : 0,
                      high = end - part->before < part->count ? end - part->before : part->count;
        gyre_page_release(cache, part->page, part->first + low, high - low);
    }
    gyre_stretch left = s->stretches[i], right = s->stretches[j];
    left.count = first - left.before;
    right.first += end - right.before;
    right.count -= end - right.before;
    const int64_t kept = (left.count > 0) + (right.count > 0);
    memmove(s->stretches + i + kept, s->stretches + j + 1, (size_t)(s->count - j - 1) * sizeof left);
    if (left.count > 0) s->stretches[i] = left;
    if (right.count > 0) s->stretches[i + kept - 1] = right;
    s->count += kept - (j - i + 1);
    gyre_stretch_tidy(s);
}

/* 1: dropping them leaves one stretch more. */
static int64_t parts(const gyre_sequence *s, int64_t first, int64_t count) {
    const gyre_stretch *stretch = &s->stretches[gyre_stretch_find(s, first)];
    return first > stretch->before && first + count < stretch->before + stretch->count;
}

gyre_status gyre_cache_drop(gyre_cache *cache, int64_t sequence, int64_t first, int64_t count) {
    gyre_sequence *s = gyre_cache_sequence(cache, sequence);
    if (!s || !within(s, first, count)) return GYRE_EINVAL;
    if (count == 0) return GYRE_OK;
    if (parts(s, first, count)) {
        const gyre_status status = gyre_stretch_reserve(cache, s, 1);
        if (status != GYRE_OK) return status;
    }
    drop(cache, s, first, count);
    return GYRE_OK;
}

/* -- shift ------------------------------------------------------------------------------------------------------------ */

/* ERANGE where a position of the stretches that have tokens first .. end - 1 would be one that the encoding has not. */
static gyre_status check_shift(const gyre_cache *cache, const gyre_sequence *s, int64_t first, int64_t end,
                               const int64_t *delta) {
    const gyre_encoding *encoding = cache->config.encoding;
    const int64_t low = encoding ? encoding->first_position : -GYRE_MAX_POSITION,
                  high = encoding ? encoding->last_position : GYRE_MAX_POSITION;
    for (int64_t a = 0; a < cache->axes; a++)
        if (delta[a] > 4 * GYRE_MAX_POSITION || delta[a] < -4 * GYRE_MAX_POSITION) return GYRE_ERANGE;
    for (int64_t i = gyre_stretch_find(s, first), t = first; t < end; i++) {
        const gyre_stretch *stretch = &s->stretches[i];
        for (; t < end && t < stretch->before + stretch->count; t++) {
            const int64_t *at = gyre_cache_position(cache, stretch->page, stretch->first + t - stretch->before);
            for (int64_t a = 0; a < cache->axes; a++) {
                const int64_t position = at[a] + stretch->delta[a] + delta[a];
                if (position < low || position > high) return GYRE_ERANGE;
            }
        }
    }
    return GYRE_OK;
}

/* Stretches more where one is to begin at `token`. */
static int64_t splits(const gyre_sequence *s, int64_t token) {
    return token < s->tokens && s->stretches[gyre_stretch_find(s, token)].before != token;
}

gyre_status gyre_cache_shift(gyre_cache *cache, int64_t sequence, int64_t first, int64_t count,
                             const int64_t delta[GYRE_MAX_AXES]) {
    gyre_sequence *s = gyre_cache_sequence(cache, sequence);
    if (!s || !delta || !within(s, first, count)) return GYRE_EINVAL;
    if (count == 0) return GYRE_OK;
    const int64_t end = first + count;
    gyre_status status = check_shift(cache, s, first, end, delta);
    /* Making room may join stretches that this shift has to part. */
    for (int64_t more; status == GYRE_OK && (more = splits(s, first) + splits(s, end)) > s->capacity - s->count;)
        status = gyre_stretch_reserve(cache, s, more);
    if (status != GYRE_OK) return status;
    const int64_t begin = gyre_stretch_split(s, first), after = gyre_stretch_split(s, end);
    for (int64_t i = begin; i < after; i++)
        for (int64_t a = 0; a < cache->axes; a++)
            s->stretches[i].delta[a] += delta[a];
    gyre_stretch_tidy(s);
    return GYRE_OK;
}

/* -- fork ------------------------------------------------------------------------------------------------------------- */

gyre_status gyre_cache_fork(gyre_cache *cache, int64_t from, int64_t to) {
    gyre_sequence *source = gyre_cache_sequence(cache, from), *s = gyre_cache_sequence(cache, to);
    if (!source || !s) return GYRE_EINVAL;
    if (source == s) return GYRE_OK;
    while (source->count > s->capacity) { /* making room may change how many stretches either has */
        const gyre_status status = gyre_stretch_reserve(cache, s, source->count - s->count);
        if (status != GYRE_OK) return status;
    }
    if (s->tokens > 0) drop(cache, s, 0, s->tokens);
    if (source->count > 0) memcpy(s->stretches, source->stretches, (size_t)source->count * sizeof *s->stretches);
    s->count = source->count;
    s->tokens = source->tokens;
    for (int64_t i = 0; i < s->count; i++)
        gyre_page_hold(cache, s->stretches[i].page, s->stretches[i].first, s->stretches[i].count);
    return GYRE_OK;
}

/* -- slide ------------------------------------------------------------------------------------------------------------ */

/* Each axis is one further than at the slot before. */
static int follows(const int64_t *position, int64_t axes) {
    for (int64_t a = 0; a < axes; a++)
        if (position[a] != position[a - axes] + 1) return 0;
    return 1;
}

/* Slots of a page whose positions rise by one from each to the next are moved alike: out = how many runs of such the stretch
 * has, and, where `runs` is not NULL, those, their tokens at positions `at`, at + 1, ... */
static int64_t place_runs(const gyre_cache *cache, const gyre_stretch *stretch, int64_t at, gyre_stretch *runs) {
    int64_t count = 0;
    for (int64_t i = 0; i < stretch->count; i++) {
        const int64_t *position = gyre_cache_position(cache, stretch->page, stretch->first + i);
        if (i == 0 || !follows(position, cache->axes)) {
            count++;
            if (!runs) continue;
            gyre_stretch *run = &runs[count - 1];
            *run = (gyre_stretch){.page = stretch->page, .first = stretch->first + i};
            for (int64_t a = 0; a < cache->axes; a++)
                run->delta[a] = at + i - position[a];
        }
        if (runs) runs[count - 1].count++;
    }
    return count;
}

/* What of a stretch is among tokens first .. end - 1 of the sequence. */
static gyre_stretch part_of(const gyre_stretch *stretch, int64_t first, int64_t end) {
    gyre_stretch out = *stretch;
    const int64_t low = first > out.before ? first - out.before : 0,
                  high = end - out.before < out.count ? end - out.before : out.count;
    out.first += low;
    out.count = high > low ? high - low : 0;
    return out;
}

/* All tokens but the `gap` after the first `sinks` stay. */
typedef struct slide {
    int64_t sinks, gap;
} slide;

/* Stretches that are needed at once: those that stay, placed, or before that, one parted in two. */
static int64_t most_runs(const gyre_cache *cache, const gyre_sequence *s, const slide *k) {
    int64_t runs = 0;
    for (int64_t i = 0; i < s->count; i++) {
        const gyre_stretch sinks = part_of(&s->stretches[i], 0, k->sinks),
                           rest = part_of(&s->stretches[i], k->sinks + k->gap, s->tokens);
        runs += place_runs(cache, &sinks, 0, NULL) + place_runs(cache, &rest, 0, NULL);
    }
    return runs > s->count + 1 ? runs : s->count + 1;
}

/* The list is moved to the end of its region and written from the front: as each stretch to come gives at least one, what
 * is written stays behind what is read. */
static void place_all(const gyre_cache *cache, gyre_sequence *s) {
    const int64_t count = s->count, lead = s->capacity - count;
    gyre_stretch *list = s->stretches;
    int64_t placed = 0;
    memmove(list + lead, list, (size_t)count * sizeof *list);
    for (int64_t i = 0; i < count; i++) {
        const gyre_stretch stretch = list[lead + i];
        placed += place_runs(cache, &stretch, stretch.before, list + placed);
    }
    s->count = placed;
    gyre_stretch_tidy(s);
}

static int64_t next_position(const gyre_cache *cache, const gyre_sequence *s) {
    if (s->count == 0) return 0;
    const gyre_stretch *last = &s->stretches[s->count - 1];
    return gyre_cache_position(cache, last->page, last->first + last->count - 1)[0] + last->delta[0] + 1;
}

gyre_status gyre_cache_slide(gyre_cache *cache, int64_t sequence, int64_t sinks, int64_t window, int64_t *next) {
    gyre_sequence *s = gyre_cache_sequence(cache, sequence);
    if (!s || window < 1 || sinks < 0 || sinks > window) return GYRE_EINVAL;
    if (s->tokens > window) {
        const slide k = {sinks, s->tokens - window};
        const gyre_encoding *encoding = cache->config.encoding;
        if (encoding && (encoding->first_position > 0 || encoding->last_position < window - 1)) return GYRE_ERANGE;
        for (int64_t needed = most_runs(cache, s, &k); needed > s->capacity; needed = most_runs(cache, s, &k)) {
            const gyre_status status = gyre_stretch_reserve(cache, s, needed - s->count);
            if (status != GYRE_OK) return status;
        }
        drop(cache, s, sinks, k.gap);
        place_all(cache, s);
    }
    if (next) *next = next_position(cache, s);
    return GYRE_OK;
}
