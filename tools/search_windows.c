/* search_windows.c: two sets of windows out of halves of texts. */
#include "search_windows.h"
#include "cli.h"
#include "search_genes.h"
#include <stdlib.h>
#include <string.h>

typedef struct layout {
    const gyre_text *texts;
    int64_t texts_count, context, stride;
} layout;

static int64_t half_begins(const gyre_text *text, int second) {
    return second ? text->count / 2 : 0;
}

static int64_t half_ends(const gyre_text *text, int second) {
    return second ? text->count : text->count / 2;
}

/* Windows in a half; each predicts the token after it too. */
static int64_t windows_in(const layout *l, int64_t t, int second) {
    const int64_t tokens = half_ends(&l->texts[t], second) - half_begins(&l->texts[t], second);
    return tokens > l->context ? (tokens - 1 - l->context) / l->stride + 1 : 0;
}

static int64_t windows_of(const layout *l, int second) {
    int64_t count = 0;
    for (int64_t t = 0; t < l->texts_count; t++)
        count += windows_in(l, t, second);
    return count;
}

/* Where window `index` of the halves begins in the row of all texts. */
static int64_t start_of(const layout *l, int second, int64_t index) {
    int64_t before = 0;
    for (int64_t t = 0; t < l->texts_count; t++) {
        const int64_t here = windows_in(l, t, second);
        if (index < here) return before + half_begins(&l->texts[t], second) + index * l->stride;
        index -= here;
        before += l->texts[t].count;
    }
    return 0;
}

static int64_t *spread(const layout *l, int second, int64_t most, int64_t *count) {
    const int64_t available = windows_of(l, second);
    *count = available < most ? available : most;
    int64_t *starts = calloc((size_t)*count + 1, sizeof *starts);
    for (int64_t i = 0; starts && i < *count; i++)
        starts[i] = start_of(l, second, i * available / *count);
    return starts;
}

static void shuffle(int64_t *values, int64_t count, uint64_t seed) {
    for (int64_t i = count - 1; i > 0; i--) {
        const int64_t j = search_below(&seed, i + 1), value = values[i];
        values[i] = values[j];
        values[j] = value;
    }
}

static gyre_status join_texts(const layout *l, gyre_text *out, gyre_error *err) {
    gyre_text all = {.hash = l->texts[0].hash};
    for (int64_t t = 0; t < l->texts_count; t++) {
        all.count += l->texts[t].count;
        all.files += l->texts[t].files;
        if (t) all.hash = all.hash * 0x100000001b3u ^ l->texts[t].hash;
    }
    all.ids = malloc((size_t)all.count * sizeof *all.ids);
    if (!all.ids) return cli_error(err, GYRE_ENOMEM, "text: out of memory for %lld tokens (search)", (long long)all.count);
    for (int64_t t = 0, at = 0; t < l->texts_count; at += l->texts[t++].count)
        memcpy(all.ids + at, l->texts[t].ids, (size_t)l->texts[t].count * sizeof *all.ids);
    *out = all;
    return GYRE_OK;
}

static gyre_status check(const layout *l, gyre_error *err) {
    int64_t longest = 0;
    for (int64_t t = 0; t < l->texts_count; t++)
        if (l->texts[t].count > longest) longest = l->texts[t].count;
    if (windows_of(l, 0) >= 1 && windows_of(l, 1) >= 2) return GYRE_OK;
    return cli_error(err, GYRE_EINVAL,
                     "--text: %lld tokens; windows of %lld to search on in one half and two held out in the other need %lld "
                     "(search)",
                     (long long)longest, (long long)l->context, (long long)(2 * (l->context + 1 + l->stride)));
}

gyre_status search_windows_lay(const gyre_text *texts, int64_t texts_count, int64_t context, int64_t stride,
                               int64_t most_searched, int64_t most_held, uint64_t seed, search_windows *out,
                               gyre_error *err) {
    const layout l = {texts, texts_count, context, stride};
    search_windows w = {.context = context, .stride = stride};
    gyre_status status = check(&l, err);
    if (status == GYRE_OK) status = join_texts(&l, &w.text, err);
    if (status != GYRE_OK) return status;
    w.searched = spread(&l, 0, most_searched, &w.searched_count);
    w.held = spread(&l, 1, most_held, &w.held_count);
    if (!w.searched || !w.held) {
        search_windows_free(&w);
        return cli_error(err, GYRE_ENOMEM, "windows: out of memory (search)");
    }
    shuffle(w.searched, w.searched_count, seed);
    *out = w;
    return GYRE_OK;
}

void search_windows_free(search_windows *windows) {
    gyre_text_free(&windows->text);
    free(windows->searched);
    free(windows->held);
    *windows = (search_windows){.context = 0};
}
