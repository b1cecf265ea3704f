/* fuzz_retrieval.c: the bytes choose a tiny model, a text, and a measurement of passkeys or copies.
 *
 * Windows are what the header draws, and the result is what reading them and taking the likeliest gives; counts add up, and
 * two threads count as one. */
#include "fuzz_bytes.h"
#include "fuzz_support.h"
#include "gyre/gyre_research.h"
#include "model/model.h"

#include <stdlib.h>
#include <string.h>

enum { KINDS = 5, SMALL = 3, SURE = 4, VOCAB = 260, MOST_TEXT = 400, MOST_CONTEXT = 160, SYMBOLS = 256 };
static gyre_model *models[KINDS];
static gyre_pool *pool;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Always sure of '3': its layer adds nothing, and all tokens look alike but for the first channel, where '3' has most. */
static void make_sure(gyre_model *model) {
    const int64_t count = model->layout.weight_count, width = model->config.model_dim;
    float *table = model->weights + model->layout.embedding.offset;
    for (int64_t i = model->layout.layers_offset; i < model->layout.final_norm.offset; i++)
        model->weights[i] = 0;
    fuzz_require(model->layout.embedding.offset + VOCAB * width <= count, "an embedding");
    for (int64_t w = 0; w < VOCAB; w++)
        table[w * width] = w == '3' ? 4 : 2;
}

/* SMALL has no bytes. */
static gyre_model *model_of(int which) {
    static const gyre_kind kinds[KINDS] = {GYRE_KIND_ROPE, GYRE_KIND_ALIBI, GYRE_KIND_LEARNED, GYRE_KIND_ROPE,
                                           GYRE_KIND_NOPE};
    gyre_model_config c = GYRE_INIT(gyre_model_config);
    gyre_error err = {0, ""};
    if (models[which]) return models[which];
    c.vocab = which == SMALL ? 200 : VOCAB;
    c.model_dim = 8;
    c.layers = c.heads = 1;
    c.mlp_dim = 8;
    c.position.kind = kinds[which];
    c.position.size = sizeof c.position;
    c.position.trained_length = 64;
    c.position.input.positions = 128; /* less than the longest context */
    fuzz_require(!gyre_model_create(&models[which], &c, 3, &err), err.text);
    if (which == SURE) make_sure(models[which]);
    return models[which];
}

/* -- windows -- */
typedef struct window {
    int32_t *ids;
    unsigned char *asked;
    int64_t length, items;
} window;

static int64_t items_that_fit(int copies, int64_t wanted, int64_t length) {
    const int64_t room = length / (copies ? 2 * GYRE_COPYING_LENGTH + 4 : 2 * GYRE_PASSKEY_LENGTH + 4);
    return wanted < room ? wanted : room;
}

/* What is asked for at the end stands once before it, and the text around it is the text's. */
static void check_window(const window *w, int copies, const gyre_text *text) {
    const int64_t bytes = copies ? GYRE_COPYING_LENGTH : GYRE_PASSKEY_LENGTH, body = w->length - w->items * bytes;
    unsigned char *covered = fuzz_room((size_t)w->length, 1);
    for (int64_t k = 0; k < w->items; k++) {
        const int32_t *answer = w->ids + body + k * bytes;
        int64_t found = 0;
        for (int64_t i = 0; i + bytes <= body; i++)
            if (memcmp(w->ids + i, answer, (size_t)bytes * sizeof *answer) == 0) {
                found++;
                memset(covered + i, 1, (size_t)bytes);
            }
        fuzz_require(found >= 1 && (copies || found == 1), "what is asked for stands before");
        for (int64_t i = 0; i < bytes; i++) {
            const int is_asked = copies ? i >= GYRE_COPYING_GIVEN : i > 0 && i < GYRE_PASSKEY_LENGTH - 1;
            fuzz_require(w->asked[body + k * bytes + i] == is_asked, "bytes that are asked for");
        }
        if (copies) continue;
        fuzz_require(answer[0] >= GYRE_PASSKEY_MARK && answer[0] < GYRE_PASSKEY_MARK + GYRE_PASSKEY_KEYS, "a marker");
        fuzz_require(answer[5] == GYRE_PASSKEY_MARK + GYRE_PASSKEY_KEYS, "the byte at the end");
        for (int i = 1; i < 5; i++)
            fuzz_require(answer[i] >= '0' && answer[i] <= '9', "digits");
    }
    for (int64_t i = 0; i < body; i++)
        fuzz_require(w->asked[i] == 0, "nothing of the text is asked for");
    int64_t places = 0; /* of the text from which the rest may come */
    for (int64_t start = 0; start + w->length <= text->count; start++) {
        int64_t i = 0;
        while (i < body && (covered[i] || w->ids[i] == text->ids[start + i] ||
                            (!copies && text->ids[start + i] >= GYRE_PASSKEY_MARK && w->ids[i] == '?')))
            i++;
        places += i == body;
    }
    fuzz_require(places > 0, "the rest is the text's");
    free(covered);
}

static void draw(const gyre_text *text, int copies, int64_t wanted, window *w, uint64_t *state) {
    uint64_t again = *state;
    int32_t *second = fuzz_room((size_t)w->length, sizeof *second);
    w->items = items_that_fit(copies, wanted, w->length);
    if (copies) {
        gyre_copying_window(text, wanted, w->length, state, w->ids, w->asked);
        gyre_copying_window(text, wanted, w->length, &again, second, NULL);
    } else {
        gyre_passkey_window(text, wanted, w->length, state, w->ids, w->asked);
        gyre_passkey_window(text, wanted, w->length, &again, second, NULL);
    }
    fuzz_require(*state == again && memcmp(second, w->ids, (size_t)w->length * sizeof *second) == 0,
                 "the same state draws the same window");
    check_window(w, copies, text);
    free(second);
}

/* -- measurements -- */
/* out = right answers of a window; -1: it cannot be read. */
static int64_t count_right(const gyre_model *model, const window *w, int copies) {
    static float logits[MOST_CONTEXT * VOCAB];
    gyre_context_options options = GYRE_INIT(gyre_context_options);
    gyre_context *context = NULL;
    gyre_error err = {0, ""};
    options.max_tokens = w->length;
    options.order = GYRE_ORDER_FIXED;
    fuzz_require(!gyre_context_create(&context, model, &options, &err), err.text);
    const gyre_status status = gyre_context_forward(context, w->ids, w->length, w->length, logits, &err);
    gyre_context_free(context);
    if (status) return -1;
    int64_t right = 0, whole = 0;
    for (int64_t i = 1; i < w->length; i++) {
        const float *row = logits + (i - 1) * VOCAB;
        int likeliest = 0;
        for (int k = 1; k < VOCAB; k++)
            if (row[k] > row[likeliest]) likeliest = k;
        if (!w->asked[i]) whole = 0;
        if (w->asked[i] && likeliest == w->ids[i]) whole++, right += copies;
        if (!copies && whole == 4) right++;
    }
    return right;
}

static int stop_at_once(void *ctx) {
    ++*(int *)ctx;
    return 1;
}

static gyre_status measure(int copies, const gyre_model *model, const gyre_text *text, const gyre_passkey_options *o,
                           gyre_passkey_result *out, const gyre_exec *exec, gyre_error *err) {
    return copies ? gyre_copying(model, text, o, out, exec, err) : gyre_passkey(model, text, o, out, exec, err);
}

static void check_result(int copies, const gyre_model *model, const gyre_text *text, const gyre_passkey_options *o,
                         const gyre_passkey_result *got) {
    window w = {.length = o->context};
    uint64_t state = o->seed;
    const int64_t keys = o->keys ? o->keys : copies ? 4 : 8, trials = o->trials ? o->trials : 104;
    const int64_t fit = items_that_fit(copies, keys, o->context),
                  each = copies ? GYRE_COPYING_LENGTH - GYRE_COPYING_GIVEN : 1;
    int64_t right = 0;
    fuzz_require(got->windows == (trials + fit - 1) / fit, "as many windows as the trials need");
    fuzz_require(got->trials == got->windows * fit * each, "trials of all windows");
    w.ids = fuzz_room((size_t)w.length, sizeof *w.ids);
    w.asked = fuzz_room((size_t)w.length, 1);
    for (int64_t i = 0; i < got->windows; i++) {
        draw(text, copies, keys, &w, &state);
        const int64_t of_window = count_right(model, &w, copies);
        fuzz_require(of_window == o->by_window[i], "right answers of a window");
        right += of_window;
    }
    fuzz_require(got->right == right, "right answers of all windows");
    free(w.ids);
    free(w.asked);
}

static void run(int copies, const gyre_model *model, const gyre_text *text, gyre_passkey_options *o, int legal) {
    gyre_passkey_result one = {-1, -1, -1}, two = {-1, -1, -1};
    gyre_error err = {0, ""};
    int stopped = 0;
    if (!pool) fuzz_require(!gyre_pool_create(&pool, 2, NULL), "a pool");
    const gyre_exec exec = gyre_pool_exec(pool);
    const gyre_status status = measure(copies, model, text, o, &one, NULL, &err);
    fuzz_require_error(status, &err);
    fuzz_require(legal || status, "what is out of range is refused");
    if (status) {
        fuzz_require(one.trials == -1 && one.right == -1 && one.windows == -1, "a failure writes no result");
        return;
    }
    check_result(copies, model, text, o, &one);
    fuzz_require(!measure(copies, model, text, o, &two, &exec, &err), err.text);
    fuzz_require(one.right == two.right && one.trials == two.trials && one.windows == two.windows,
                 "two threads count as one");
    o->watcher.stop = stop_at_once;
    o->watcher.ctx = &stopped;
    two = (gyre_passkey_result){-1, -1, -1};
    fuzz_require(measure(copies, model, text, o, &two, NULL, &err) == GYRE_EIO && stopped > 0 && two.right == -1,
                 "a measurement that is stopped has no result");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_bytes b = {data, size};
    int32_t ids[MOST_TEXT];
    int64_t by_window[128];
    gyre_passkey_options o = GYRE_INIT(gyre_passkey_options);
    const int copies = fuzz_choice(&b, 2), which = fuzz_choice(&b, KINDS);
    gyre_text text = {.ids = ids, .count = fuzz_between(&b, 1, MOST_TEXT), .files = 1};
    const unsigned step = fuzz_byte(&b), kind = fuzz_byte(&b);
    for (int64_t i = 0; i < text.count; i++)
        ids[i] = (int32_t)((kind & 1 ? i * step + i / 7 : i % (step + 1)) % SYMBOLS);
    o.context = fuzz_between(&b, 0, MOST_CONTEXT);
    o.keys = fuzz_choice(&b, 11);
    o.trials = fuzz_choice(&b, 13);
    o.seed = fuzz_byte(&b) * 0x9E3779B97F4A7C15u;
    o.by_window = by_window;
    if (fuzz_choice(&b, 16) == 1) o.keys = -o.keys;
    if (fuzz_choice(&b, 16) == 1) o.trials = -o.trials;
    if (fuzz_choice(&b, 16) == 1 && o.trials >= 0) o.trials = INT64_MAX - o.trials;
    if (fuzz_choice(&b, 16) == 1) o.trials = (int64_t)1 << (45 + fuzz_choice(&b, 18));
    const int64_t least = copies ? 2 * GYRE_COPYING_LENGTH + 4 : 2 * GYRE_PASSKEY_LENGTH + 4;
    const int legal = which != SMALL && o.keys >= 0 && o.keys <= 8 && o.trials >= 0 && o.trials <= 104 &&
                      o.context >= least && o.context <= text.count;
    run(copies, model_of(which), &text, &o, legal);
    return 0;
}
