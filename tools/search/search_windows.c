/* search_windows.c: two sets of windows from alternating blocks of the texts. */
#include "tools/search/search_windows.h"
#include "tools/cli/cli_error.h"
#include "tools/search/search_rescale.h"
#include "util/fnv1a.h"
#include "util/random.h"
#include <stdlib.h>
#include <string.h>

typedef struct window_plan {
    const gyre_text *texts;
    int64_t texts_count, context, stride;
} window_plan;

enum { SETS = 2, MAX_BLOCKS = 4, MIN_CONTEXTS = 4 };

/* out = blocks of each set in a text.  No window crosses the end of a block, so a block should hold several. */
static int64_t blocks_per_set(const window_plan *l, int64_t t) {
    const int64_t fit = l->texts[t].count / (SETS * MIN_CONTEXTS * l->context);
    return fit < 1 ? 1 : fit > MAX_BLOCKS ? MAX_BLOCKS : fit;
}

typedef struct text_block {
    int64_t begin, end;
} text_block;

static text_block text_block_at(const window_plan *l, int64_t t, int held_out, int64_t index) {
    const int64_t count = l->texts[t].count, all = SETS * blocks_per_set(l, t), which = SETS * index + held_out;
    return (text_block){count * which / all, count * (which + 1) / all};
}

/* A window also needs the token after it, for its last prediction. */
static int64_t windows_in(const window_plan *l, text_block s) {
    const int64_t tokens = s.end - s.begin;
    return tokens > l->context ? (tokens - 1 - l->context) / l->stride + 1 : 0;
}

/* out = the number of windows of a set.  *start = where window number `wanted` begins in the joined texts, if it exists. */
static int64_t find_window(const window_plan *l, int held_out, int64_t wanted, int64_t *start) {
    int64_t windows = 0, before = 0;
    for (int64_t t = 0; t < l->texts_count; before += l->texts[t++].count)
        for (int64_t i = 0; i < blocks_per_set(l, t); i++) {
            const text_block s = text_block_at(l, t, held_out, i);
            const int64_t here = windows_in(l, s);
            if (wanted >= windows && wanted < windows + here) *start = before + s.begin + (wanted - windows) * l->stride;
            windows += here;
        }
    return windows;
}

static int64_t windows_of(const window_plan *l, int held_out) {
    int64_t none;
    return find_window(l, held_out, -1, &none);
}

static int64_t *select_windows(const window_plan *l, int held_out, int64_t max, int64_t *count) {
    const int64_t available = windows_of(l, held_out);
    *count = available < max ? available : max;
    int64_t *starts = calloc((size_t)*count + 1, sizeof *starts);
    for (int64_t i = 0; starts && i < *count; i++)
        (void)find_window(l, held_out, i * available / *count, &starts[i]);
    return starts;
}

static void shuffle(int64_t *values, int64_t count, uint64_t seed) {
    for (int64_t i = count - 1; i > 0; i--) {
        const int64_t j = gyre_random_below(&seed, i + 1), value = values[i];
        values[i] = values[j];
        values[j] = value;
    }
}

static gyre_status join_texts(const window_plan *l, gyre_text *out, gyre_error *err) {
    gyre_text all = {.hash = l->texts[0].hash};
    for (int64_t t = 0; t < l->texts_count; t++) {
        all.count += l->texts[t].count;
        all.files += l->texts[t].files;
        if (t) all.hash = all.hash * GYRE_FNV1A_PRIME ^ l->texts[t].hash;
    }
    all.ids = malloc((size_t)all.count * sizeof *all.ids);
    if (!all.ids) return gyre_fail(err, GYRE_ENOMEM, "text: out of memory for %lld tokens (search)", (long long)all.count);
    for (int64_t t = 0, at = 0; t < l->texts_count; at += l->texts[t++].count)
        memcpy(all.ids + at, l->texts[t].ids, (size_t)l->texts[t].count * sizeof *all.ids);
    *out = all;
    return GYRE_OK;
}

static gyre_status check(const window_plan *l, gyre_error *err) {
    int64_t longest = 0;
    for (int64_t t = 0; t < l->texts_count; t++)
        if (l->texts[t].count > longest) longest = l->texts[t].count;
    if (windows_of(l, 0) >= 1 && windows_of(l, 1) >= 2) return GYRE_OK;
    return gyre_fail(err, GYRE_EINVAL,
                     "--text: %lld tokens; windows of %lld, one to search on in a half and two held out in the other, need "
                     "%lld (search)",
                     (long long)longest, (long long)l->context, (long long)(2 * (l->context + 1 + l->stride)));
}

gyre_status search_windows_create(const gyre_text *texts, int64_t texts_count, const search_window_options *wanted,
                                  search_windows *out, gyre_error *err) {
    const window_plan l = {texts, texts_count, wanted->context, wanted->stride};
    search_windows w = {.context = wanted->context, .stride = wanted->stride};
    gyre_status status = check(&l, err);
    if (!status) status = join_texts(&l, &w.text, err);
    if (status) return status;
    w.searched = select_windows(&l, 0, wanted->max_searched, &w.searched_count);
    w.held_out = select_windows(&l, 1, wanted->max_held_out, &w.held_out_count);
    if (!w.searched || !w.held_out) {
        search_windows_free(&w);
        return gyre_fail(err, GYRE_ENOMEM, "windows: out of memory (search)");
    }
    shuffle(w.searched, w.searched_count, wanted->seed);
    w.tokens = w.text.count;
    *out = w;
    return GYRE_OK;
}

void search_windows_free(search_windows *windows) {
    gyre_text_free(&windows->text);
    free(windows->searched);
    free(windows->held_out);
    free(windows->counted);
    *windows = (search_windows){.context = 0};
}
