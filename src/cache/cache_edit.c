/* cache_edit.c: removes, shifts, forks and slides tokens, in one cache or in those of all layers.  Keys stay where they are,
 * unless slot ranges run out. */
#include "cache/cache.h"
#include "core/positions.h"

#include <inttypes.h>
#include <string.h>

/* -- an edit of one cache, or of several as one call -- */

/* prepare checks the edit and makes room for it.  No token changes, so it can be called for all caches before the first of
 * them changes.  apply cannot fail after it. */
typedef struct edit edit;
struct edit {
    const char *name; /* of the function called */
    gyre_status (*prepare)(gyre_cache *cache, const edit *e, gyre_error *err);
    void (*apply)(gyre_cache *cache, const edit *e);
    gyre_cache_range range; /* remove, shift; of slide only the sequence */
    const int64_t *delta;   /* shift */
    int64_t from, to;       /* fork */
    int64_t sinks, window;  /* slide */
};

static gyre_status edit_one(gyre_cache *cache, const edit *e, gyre_error *err) {
    const gyre_status status = e->prepare(cache, e, err);
    if (!status) e->apply(cache, e);
    return status;
}

/* EINVAL: the sequence has another number of tokens than in the first cache, so a token's index means another token. */
static gyre_status check_same_tokens(gyre_cache *const *caches, int64_t layer, int64_t sequence, const char *name,
                                     gyre_error *err) {
    const int64_t first = gyre_caches_first(caches, layer + 1);
    const int64_t tokens = gyre_cache_tokens(caches[layer], sequence), wanted = gyre_cache_tokens(caches[first], sequence);
    if (tokens == wanted || tokens < 0) return GYRE_OK; /* prepare refuses a sequence that does not exist */
    return gyre_fail(err, GYRE_EINVAL,
                     "sequence %" PRId64 " has %" PRId64 " tokens, but %" PRId64 " in layer %" PRId64 " (%s)", sequence,
                     tokens, wanted, first, name);
}

/* sequence: the one whose tokens must be as many in all caches; -1 = none. */
static gyre_status edit_all(gyre_cache *const *caches, int64_t count, int64_t sequence, const edit *e, gyre_error *err) {
    gyre_status status = gyre_caches_check(caches, count, e->name, err);
    if (status) return status;
    for (int64_t i = 0; i < count; i++) {
        if (!caches[i]) continue;
        status = check_same_tokens(caches, i, sequence, e->name, err);
        if (!status) status = e->prepare(caches[i], e, err);
        if (status) return gyre_caches_fail_layer(status, i, err);
    }
    for (int64_t i = 0; i < count; i++)
        if (caches[i]) e->apply(caches[i], e);
    return GYRE_OK;
}

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

static gyre_status prepare_remove(gyre_cache *cache, const edit *e, gyre_error *err) {
    const int64_t first = e->range.first, count = e->range.count;
    gyre_sequence *s;
    gyre_status status = gyre_cache_find(cache, e->range.sequence, (gyre_cache_argument){"sequence", e->name}, &s, err);
    if (!status) status = gyre_cache_check_tokens(s, first, count, e->name, err);
    if (status || count == 0 || !splits_range(s, first, count)) return status;
    status = gyre_slot_ranges_reserve(cache, s, 1);
    return status ? gyre_cache_no_ranges(status, e->name, err) : GYRE_OK;
}

static void apply_remove(gyre_cache *cache, const edit *e) {
    if (e->range.count > 0) drop_tokens(cache, &cache->sequence[e->range.sequence], e->range.first, e->range.count);
}

gyre_status gyre_cache_remove(gyre_cache *cache, gyre_cache_range range, gyre_error *err) {
    return edit_one(cache, &(edit){"gyre_cache_remove", prepare_remove, apply_remove, .range = range}, err);
}

gyre_status gyre_caches_remove(gyre_cache *const *caches, int64_t count, gyre_cache_range range, gyre_error *err) {
    const edit e = {"gyre_caches_remove", prepare_remove, apply_remove, .range = range};
    return edit_all(caches, count, range.sequence, &e, err);
}

/* -- shift -- */

/* ERANGE: a token would get a position outside the encoding's. */
static gyre_status check_shift(const gyre_cache *cache, const gyre_sequence *s, const edit *e, gyre_error *err) {
    const int64_t *delta = e->delta, first = e->range.first, end = first + e->range.count;
    const gyre_encoding *encoding = cache->config.encoding;
    const int64_t low = encoding ? encoding->first_position : -GYRE_MAX_POSITION,
                  high = encoding ? encoding->last_position : GYRE_MAX_POSITION;
    for (int64_t a = 0; a < cache->axes; a++)
        if (delta[a] > 2 * GYRE_MAX_POSITION || delta[a] < -2 * GYRE_MAX_POSITION) /* no two positions are further apart */
            return gyre_fail(err, GYRE_ERANGE, "delta: %" PRId64 " is past 2^32 (%s)", delta[a], e->name);
    for (int64_t i = gyre_slot_range_find(s, first), t = first; t < end; i++) {
        const gyre_slot_range *range = &s->ranges[i];
        for (; t < end && t < range->first_token + range->count; t++) {
            const int64_t *at = gyre_cache_position(cache, range->page, range->first + t - range->first_token);
            for (int64_t a = 0; a < cache->axes; a++) {
                const int64_t position = at[a] + range->delta[a] + delta[a];
                if (position < low || position > high)
                    return gyre_fail(err, GYRE_ERANGE,
                                     "delta: token %" PRId64 " would move to position %" PRId64 ", not in %" PRId64
                                     " .. %" PRId64 " (%s)",
                                     t, position, low, high, e->name);
            }
        }
    }
    return GYRE_OK;
}

/* out = 1 if making a range begin at `token` adds a range. */
static int64_t needs_split(const gyre_sequence *s, int64_t token) {
    return token < s->tokens && s->ranges[gyre_slot_range_find(s, token)].first_token != token;
}

static gyre_status prepare_shift(gyre_cache *cache, const edit *e, gyre_error *err) {
    const int64_t first = e->range.first, end = first + e->range.count;
    gyre_sequence *s;
    gyre_status status = gyre_cache_find(cache, e->range.sequence, (gyre_cache_argument){"sequence", e->name}, &s, err);
    if (!status && !e->delta) status = gyre_fail(err, GYRE_EINVAL, "delta: is NULL (%s)", e->name);
    if (!status) status = gyre_cache_check_tokens(s, first, e->range.count, e->name, err);
    if (status || e->range.count == 0) return status;
    status = check_shift(cache, s, e, err);
    if (status) return status;
    /* Making room may join ranges that this shift has to split. */
    for (int64_t more; !status && (more = needs_split(s, first) + needs_split(s, end)) > s->capacity - s->count;)
        status = gyre_slot_ranges_reserve(cache, s, more);
    return status ? gyre_cache_no_ranges(status, e->name, err) : GYRE_OK;
}

static void apply_shift(gyre_cache *cache, const edit *e) {
    gyre_sequence *s = &cache->sequence[e->range.sequence];
    const int64_t first = e->range.first, end = first + e->range.count;
    if (first == end) return;
    const int64_t begin = gyre_slot_range_split(s, first), after = gyre_slot_range_split(s, end);
    for (int64_t i = begin; i < after; i++)
        for (int64_t a = 0; a < cache->axes; a++)
            s->ranges[i].delta[a] += e->delta[a];
    gyre_slot_ranges_merge(s);
}

gyre_status gyre_cache_shift(gyre_cache *cache, gyre_cache_range range, const int64_t delta[GYRE_MAX_AXES],
                             gyre_error *err) {
    const edit e = {"gyre_cache_shift", prepare_shift, apply_shift, .range = range, .delta = delta};
    return edit_one(cache, &e, err);
}

gyre_status gyre_caches_shift(gyre_cache *const *caches, int64_t count, gyre_cache_range range,
                              const int64_t delta[GYRE_MAX_AXES], gyre_error *err) {
    const edit e = {"gyre_caches_shift", prepare_shift, apply_shift, .range = range, .delta = delta};
    return edit_all(caches, count, range.sequence, &e, err);
}

/* -- fork -- */

static gyre_status prepare_fork(gyre_cache *cache, const edit *e, gyre_error *err) {
    gyre_sequence *source, *s;
    gyre_status status = gyre_cache_find(cache, e->from, (gyre_cache_argument){"from", e->name}, &source, err);
    if (!status) status = gyre_cache_find(cache, e->to, (gyre_cache_argument){"to", e->name}, &s, err);
    if (status || source == s) return status;
    while (source->count > s->capacity) { /* making room may change how many ranges either has */
        status = gyre_slot_ranges_reserve(cache, s, source->count - s->count);
        if (status) return gyre_cache_no_ranges(status, e->name, err);
    }
    return GYRE_OK;
}

static void apply_fork(gyre_cache *cache, const edit *e) {
    const gyre_sequence *source = &cache->sequence[e->from];
    gyre_sequence *s = &cache->sequence[e->to];
    if (source == s) return;
    if (s->tokens > 0) drop_tokens(cache, s, 0, s->tokens);
    if (source->count > 0) memcpy(s->ranges, source->ranges, (size_t)source->count * sizeof *s->ranges);
    s->count = source->count;
    s->tokens = source->tokens;
    for (int64_t i = 0; i < s->count; i++)
        gyre_page_retain(cache, s->ranges[i].page, s->ranges[i].first, s->ranges[i].count);
}

gyre_status gyre_cache_fork(gyre_cache *cache, int64_t from, int64_t to, gyre_error *err) {
    return edit_one(cache, &(edit){"gyre_cache_fork", prepare_fork, apply_fork, .from = from, .to = to}, err);
}

gyre_status gyre_caches_fork(gyre_cache *const *caches, int64_t count, int64_t from, int64_t to, gyre_error *err) {
    const edit e = {"gyre_caches_fork", prepare_fork, apply_fork, .from = from, .to = to};
    return edit_all(caches, count, -1, &e, err);
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

/* out = most ranges at any time: the repositioned ones, or before that the present ones with one split in two. */
static int64_t max_ranges(const gyre_cache *cache, const gyre_sequence *s, const edit *e) {
    const int64_t last = e->window - e->sinks; /* tokens at the end that are kept */
    int64_t runs = 0;
    for (int64_t i = 0; i < s->count; i++) {
        const gyre_slot_range sinks = clip_range(&s->ranges[i], 0, e->sinks),
                              rest = clip_range(&s->ranges[i], s->tokens - last, s->tokens);
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

/* out = the position after the last token of a sequence, on axis 0. */
static int64_t next_position(const gyre_cache *cache, int64_t sequence) {
    const gyre_sequence *s = &cache->sequence[sequence];
    if (s->count == 0) return 0;
    const gyre_slot_range *last = &s->ranges[s->count - 1];
    return gyre_cache_position(cache, last->page, last->first + last->count - 1)[0] + last->delta[0] + 1;
}

static gyre_status check_window(const edit *e, gyre_error *err) {
    if (e->window < 1) return gyre_fail(err, GYRE_EINVAL, "window: %" PRId64 " is below 1 (%s)", e->window, e->name);
    if (e->sinks < 0 || e->sinks > e->window)
        return gyre_fail(err, GYRE_EINVAL, "sinks: %" PRId64 " is not in 0 .. %" PRId64 " (%s)", e->sinks, e->window,
                         e->name);
    return GYRE_OK;
}

static gyre_status prepare_slide(gyre_cache *cache, const edit *e, gyre_error *err) {
    gyre_sequence *s;
    gyre_status status = gyre_cache_find(cache, e->range.sequence, (gyre_cache_argument){"sequence", e->name}, &s, err);
    if (!status) status = check_window(e, err);
    if (status || s->tokens <= e->window) return status;
    const gyre_encoding *encoding = cache->config.encoding;
    if (encoding && (encoding->first_position > 0 || encoding->last_position < e->window - 1))
        return gyre_fail(err, GYRE_ERANGE, "window: the encoding has no positions 0 .. %" PRId64 " (%s)", e->window - 1,
                         e->name);
    for (int64_t needed = max_ranges(cache, s, e); needed > s->capacity; needed = max_ranges(cache, s, e)) {
        status = gyre_slot_ranges_reserve(cache, s, needed - s->count);
        if (status) return gyre_cache_no_ranges(status, e->name, err);
    }
    return GYRE_OK;
}

static void apply_slide(gyre_cache *cache, const edit *e) {
    gyre_sequence *s = &cache->sequence[e->range.sequence];
    if (s->tokens <= e->window) return;
    drop_tokens(cache, s, e->sinks, s->tokens - e->window);
    reposition_all(cache, s);
}

gyre_status gyre_cache_slide(gyre_cache *cache, int64_t sequence, int64_t sinks, int64_t window, int64_t *next,
                             gyre_error *err) {
    const edit e = {"gyre_cache_slide", prepare_slide, apply_slide, {sequence, 0, 0}, .sinks = sinks, .window = window};
    const gyre_status status = edit_one(cache, &e, err);
    if (!status && next) *next = next_position(cache, sequence);
    return status;
}

gyre_status gyre_caches_slide(gyre_cache *const *caches, int64_t count, int64_t sequence, int64_t sinks, int64_t window,
                              gyre_error *err) {
    const edit e = {"gyre_caches_slide", prepare_slide, apply_slide, {sequence, 0, 0}, .sinks = sinks, .window = window};
    return edit_all(caches, count, sequence, &e, err);
}
