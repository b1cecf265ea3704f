/* cache_edit.c: removes, shifts, forks and slides tokens.  Keys stay where they are, unless slot ranges run out. */
#include "cache/cache.h"
#include "core/positions.h"

#include <inttypes.h>
#include <string.h>

/* -- remove -- */

/* Removes tokens first .. first + count - 1, at least one.  There is room for a range to be split in two. */
static void drop_tokens(gyre_cache *cache, gyre_sequence *s, int64_t first, int64_t count) {
    const int64_t end = first + count, i = gyre_slot_range_find(s, first), j = gyre_slot_range_find(s, end - 1);
    for (int64_t k = i; k <= j; k++) {
        const gyre_slot_range *part = &s->ranges[k];
        const int64_t low = first > part->first_token ? first - part->first_token : 0,
                      high = end - part->first_token < part->count ? end - part->first_token : part->count;
        gyre_page_release(cache, part->page, part->first + low, high - low);
    }
    gyre_slot_range left = s->ranges[i], right = s->ranges[j];
    left.count = first - left.first_token;
    right.first += end - right.first_token;
    right.count -= end - right.first_token;
    const int64_t parts = (left.count > 0) + (right.count > 0);
    memmove(s->ranges + i + parts, s->ranges + j + 1, (size_t)(s->count - j - 1) * sizeof left);
    if (left.count > 0) s->ranges[i] = left;
    if (right.count > 0) s->ranges[i + parts - 1] = right;
    s->count += parts - (j - i + 1);
    gyre_slot_ranges_merge(s);
}

/* 1: removing these tokens splits a range in two. */
static int64_t splits_range(const gyre_sequence *s, int64_t first, int64_t count) {
    const gyre_slot_range *range = &s->ranges[gyre_slot_range_find(s, first)];
    return first > range->first_token && first + count < range->first_token + range->count;
}

gyre_status gyre_cache_remove(gyre_cache *cache, gyre_cache_range range, gyre_error *err) {
    const int64_t first = range.first, count = range.count;
    static const char name[] = "gyre_cache_remove";
    gyre_sequence *s;
    gyre_status status = gyre_cache_find(cache, range.sequence, (gyre_cache_argument){"sequence", name}, &s, err);
    if (!status) status = gyre_cache_check_tokens(s, first, count, name, err);
    if (status || count == 0) return status;
    if (splits_range(s, first, count)) {
        status = gyre_slot_ranges_reserve(cache, s, 1);
        if (status) return gyre_cache_no_ranges(status, name, err);
    }
    drop_tokens(cache, s, first, count);
    return GYRE_OK;
}

/* -- shift -- */

typedef struct shift {
    int64_t first, end; /* tokens */
    const int64_t *delta;
} shift;

/* ERANGE: a token would get a position outside the encoding's. */
static gyre_status check_shift(const gyre_cache *cache, const gyre_sequence *s, const shift *by, gyre_error *err) {
    const int64_t *delta = by->delta;
    const gyre_encoding *encoding = cache->config.encoding;
    const int64_t low = encoding ? encoding->first_position : -GYRE_MAX_POSITION,
                  high = encoding ? encoding->last_position : GYRE_MAX_POSITION;
    for (int64_t a = 0; a < cache->axes; a++)
        if (delta[a] > 2 * GYRE_MAX_POSITION || delta[a] < -2 * GYRE_MAX_POSITION) /* no two positions are further apart */
            return gyre_fail(err, GYRE_ERANGE, "delta: %" PRId64 " is past 2^32 (gyre_cache_shift)", delta[a]);
    for (int64_t i = gyre_slot_range_find(s, by->first), t = by->first; t < by->end; i++) {
        const gyre_slot_range *range = &s->ranges[i];
        for (; t < by->end && t < range->first_token + range->count; t++) {
            const int64_t *at = gyre_cache_position(cache, range->page, range->first + t - range->first_token);
            for (int64_t a = 0; a < cache->axes; a++) {
                const int64_t position = at[a] + range->delta[a] + delta[a];
                if (position < low || position > high)
                    return gyre_fail(err, GYRE_ERANGE,
                                     "delta: token %" PRId64 " would move to position %" PRId64 ", not in %" PRId64
                                     " .. %" PRId64 " (gyre_cache_shift)",
                                     t, position, low, high);
            }
        }
    }
    return GYRE_OK;
}

/* out = 1 if making a range begin at `token` adds a range. */
static int64_t needs_split(const gyre_sequence *s, int64_t token) {
    return token < s->tokens && s->ranges[gyre_slot_range_find(s, token)].first_token != token;
}

gyre_status gyre_cache_shift(gyre_cache *cache, gyre_cache_range range, const int64_t delta[GYRE_MAX_AXES],
                             gyre_error *err) {
    const int64_t first = range.first, count = range.count;
    static const char name[] = "gyre_cache_shift";
    gyre_sequence *s;
    gyre_status status = gyre_cache_find(cache, range.sequence, (gyre_cache_argument){"sequence", name}, &s, err);
    if (!status && !delta) status = gyre_fail(err, GYRE_EINVAL, "delta: is NULL (%s)", name);
    if (!status) status = gyre_cache_check_tokens(s, first, count, name, err);
    if (status || count == 0) return status;
    const int64_t end = first + count;
    const shift by = {first, end, delta};
    status = check_shift(cache, s, &by, err);
    if (status) return status;
    /* Making room may join ranges that this shift has to split. */
    for (int64_t more; !status && (more = needs_split(s, first) + needs_split(s, end)) > s->capacity - s->count;)
        status = gyre_slot_ranges_reserve(cache, s, more);
    if (status) return gyre_cache_no_ranges(status, name, err);
    const int64_t begin = gyre_slot_range_split(s, first), after = gyre_slot_range_split(s, end);
    for (int64_t i = begin; i < after; i++)
        for (int64_t a = 0; a < cache->axes; a++)
            s->ranges[i].delta[a] += delta[a];
    gyre_slot_ranges_merge(s);
    return GYRE_OK;
}

/* -- fork -- */

gyre_status gyre_cache_fork(gyre_cache *cache, int64_t from, int64_t to, gyre_error *err) {
    static const char name[] = "gyre_cache_fork";
    gyre_sequence *source, *s;
    gyre_status status = gyre_cache_find(cache, from, (gyre_cache_argument){"from", name}, &source, err);
    if (!status) status = gyre_cache_find(cache, to, (gyre_cache_argument){"to", name}, &s, err);
    if (status || source == s) return status;
    while (source->count > s->capacity) { /* making room may change how many ranges either has */
        status = gyre_slot_ranges_reserve(cache, s, source->count - s->count);
        if (status) return gyre_cache_no_ranges(status, name, err);
    }
    if (s->tokens > 0) drop_tokens(cache, s, 0, s->tokens);
    if (source->count > 0) memcpy(s->ranges, source->ranges, (size_t)source->count * sizeof *s->ranges);
    s->count = source->count;
    s->tokens = source->tokens;
    for (int64_t i = 0; i < s->count; i++)
        gyre_page_retain(cache, s->ranges[i].page, s->ranges[i].first, s->ranges[i].count);
    return GYRE_OK;
}

/* -- slide -- */

/* 1: each axis is one more than at the slot before. */
static int is_consecutive(const int64_t *position, int64_t axes) {
    for (int64_t a = 0; a < axes; a++)
        if (position[a] != position[a - axes] + 1) return 0;
    return 1;
}

/* Slots with consecutive positions can share a range with one delta.  out = number of such runs in a range.  runs (NULL =
 * only count) = these runs, with deltas that put their tokens at positions `at`, at + 1, ... */
static int64_t reposition_runs(const gyre_cache *cache, const gyre_slot_range *range, int64_t at, gyre_slot_range *runs) {
    int64_t count = 0;
    for (int64_t i = 0; i < range->count; i++) {
        const int64_t *position = gyre_cache_position(cache, range->page, range->first + i);
        if (i == 0 || !is_consecutive(position, cache->axes)) {
            count++;
            if (!runs) continue;
            gyre_slot_range *run = &runs[count - 1];
            *run = (gyre_slot_range){.page = range->page, .first = range->first + i};
            for (int64_t a = 0; a < cache->axes; a++)
                run->delta[a] = at + i - position[a];
        }
        if (runs) runs[count - 1].count++;
    }
    return count;
}

/* out = the part of a range that has tokens first .. end - 1 of the sequence. */
static gyre_slot_range clip_range(const gyre_slot_range *range, int64_t first, int64_t end) {
    gyre_slot_range out = *range;
    const int64_t low = first > out.first_token ? first - out.first_token : 0,
                  high = end - out.first_token < out.count ? end - out.first_token : out.count;
    out.first += low;
    out.count = high > low ? high - low : 0;
    return out;
}

/* Removes `gap` tokens after the first `sinks`. */
typedef struct slide {
    int64_t sinks, gap;
} slide;

/* out = most ranges at any time: the repositioned ones, or before that the present ones with one split in two. */
static int64_t max_ranges(const gyre_cache *cache, const gyre_sequence *s, const slide *k) {
    int64_t runs = 0;
    for (int64_t i = 0; i < s->count; i++) {
        const gyre_slot_range sinks = clip_range(&s->ranges[i], 0, k->sinks),
                              rest = clip_range(&s->ranges[i], k->sinks + k->gap, s->tokens);
        runs += reposition_runs(cache, &sinks, 0, NULL) + reposition_runs(cache, &rest, 0, NULL);
    }
    return runs > s->count + 1 ? runs : s->count + 1;
}

/* Puts all tokens at positions 0, 1, ...  The list is moved to the end of its region and rewritten from the front.  Each
 * range gives at least one, and there is room for all, so what is written stays behind what is read. */
static void reposition_all(const gyre_cache *cache, gyre_sequence *s) {
    const int64_t count = s->count, lead = s->capacity - count;
    gyre_slot_range *list = s->ranges;
    int64_t written = 0;
    memmove(list + lead, list, (size_t)count * sizeof *list);
    for (int64_t i = 0; i < count; i++) {
        const gyre_slot_range range = list[lead + i];
        written += reposition_runs(cache, &range, range.first_token, list + written);
    }
    s->count = written;
    gyre_slot_ranges_merge(s);
}

static int64_t next_position(const gyre_cache *cache, const gyre_sequence *s) {
    if (s->count == 0) return 0;
    const gyre_slot_range *last = &s->ranges[s->count - 1];
    return gyre_cache_position(cache, last->page, last->first + last->count - 1)[0] + last->delta[0] + 1;
}

static gyre_status check_window(int64_t sinks, int64_t window, gyre_error *err) {
    if (window < 1) return gyre_fail(err, GYRE_EINVAL, "window: %" PRId64 " is below 1 (gyre_cache_slide)", window);
    if (sinks < 0 || sinks > window)
        return gyre_fail(err, GYRE_EINVAL, "sinks: %" PRId64 " is not in 0 .. %" PRId64 " (gyre_cache_slide)", sinks,
                         window);
    return GYRE_OK;
}

gyre_status gyre_cache_slide(gyre_cache *cache, int64_t sequence, int64_t sinks, int64_t window, int64_t *next,
                             gyre_error *err) {
    static const char name[] = "gyre_cache_slide";
    gyre_sequence *s;
    gyre_status status = gyre_cache_find(cache, sequence, (gyre_cache_argument){"sequence", name}, &s, err);
    if (!status) status = check_window(sinks, window, err);
    if (status) return status;
    if (s->tokens > window) {
        const slide k = {sinks, s->tokens - window};
        const gyre_encoding *encoding = cache->config.encoding;
        if (encoding && (encoding->first_position > 0 || encoding->last_position < window - 1))
            return gyre_fail(err, GYRE_ERANGE, "window: the encoding has no positions 0 .. %" PRId64 " (%s)", window - 1,
                             name);
        for (int64_t needed = max_ranges(cache, s, &k); needed > s->capacity; needed = max_ranges(cache, s, &k)) {
            status = gyre_slot_ranges_reserve(cache, s, needed - s->count);
            if (status) return gyre_cache_no_ranges(status, name, err);
        }
        drop_tokens(cache, s, sinks, k.gap);
        reposition_all(cache, s);
    }
    if (next) *next = next_position(cache, s);
    return GYRE_OK;
}
