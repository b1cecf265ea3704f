/* search_needles.c: keys hidden in the windows of a search. */
#include "tools/search/search_needles.h"
#include "gyre/gyre_research.h"
#include "tools/cli/cli_error.h"
#include "tools/common/model_input.h"
#include "tools/search/search_rescale.h"
#include "util/random.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIGITS = 5, SENTENCE = 96 };
static const char *const names[SEARCH_MAX_NEEDLES] = {"red", "green", "blue", "yellow", "white", "black", "brown", "grey"};

typedef struct hiding {
    const search_windows *windows;
    const gyre_tokenizer *tokenizer;
    int64_t needles, length; /* length: tokens of a window, with the one after it */
    uint64_t random;
} hiding;

/* -- the keys of gyre_passkey -- */
/* Fills a window from that place of the text.  Only the digits asked for count. */
static gyre_status hide_marks(hiding *h, int64_t start, int32_t *ids, unsigned char *counted, gyre_error *err) {
    const gyre_text here = {.ids = h->windows->text.ids + start, .count = h->length};
    int64_t scored = 0;
    gyre_passkey_window(&here, h->needles, h->length, &h->random, ids, counted);
    for (int64_t i = 0; i < h->length; i++)
        scored += counted[i];
    return scored ? GYRE_OK
                  : gyre_fail(err, GYRE_EINVAL, "--needles: a window of %lld tokens has no room for a key (search)",
                              (long long)h->windows->context);
}

/* -- sentences -- */
static gyre_status cut(const hiding *h, const char *text, gyre_text *out, gyre_error *err) {
    return gyre_tokenize(h->tokenizer, text, strlen(text), GYRE_TOKENIZE_INSIDE, out, err);
}

/* The window's tokens in between stay what they are; the sentences take the place of some of them. */
static void put(const gyre_text *s, int32_t *ids, int64_t at) {
    memcpy(ids + at, s->ids, (size_t)s->count * sizeof *ids);
}

/* Sentence k is placed anywhere in part k of the text before the question. */
static gyre_status hide_one(hiding *h, int64_t k, const char *digits, int64_t room, int32_t *ids, gyre_error *err) {
    char text[SENTENCE];
    gyre_text s = {.ids = NULL};
    snprintf(text, sizeof text, "\nThe %s pass key is %s. Remember it.\n", names[k], digits);
    gyre_status status = cut(h, text, &s, err);
    const int64_t from = k * room / h->needles, slack = (k + 1) * room / h->needles - from - s.count;
    if (!status && slack < 0)
        status = gyre_fail(err, GYRE_EINVAL, "--needles: a window of %lld tokens has no room for %lld sentences (search)",
                           (long long)h->windows->context, (long long)h->needles);
    if (!status) put(&s, ids, from + gyre_random_below(&h->random, slack + 1));
    free(s.ids);
    return status;
}

/* *room = tokens before the question, which ends the window.  Only the answer counts. */
static gyre_status ask(const hiding *h, int64_t k, const char *digits, int32_t *ids, unsigned char *counted, int64_t *room,
                       gyre_error *err) {
    char text[SENTENCE];
    gyre_text question = {.ids = NULL}, answer = {.ids = NULL};
    snprintf(text, sizeof text, "\nWhat is the %s pass key? The %s pass key is", names[k], names[k]);
    gyre_status status = cut(h, text, &question, err);
    snprintf(text, sizeof text, " %s", digits);
    if (!status) status = cut(h, text, &answer, err);
    *room = h->length - question.count - answer.count;
    if (!status && *room < 0)
        status = gyre_fail(err, GYRE_EINVAL, "--needles: a window of %lld tokens has no room for a question (search)",
                           (long long)h->windows->context);
    if (!status) {
        put(&question, ids, *room);
        put(&answer, ids, *room + question.count);
        memset(counted + *room + question.count, 1, (size_t)answer.count);
    }
    free(question.ids);
    free(answer.ids);
    return status;
}

static gyre_status hide_sentences(hiding *h, int64_t start, int32_t *ids, unsigned char *counted, gyre_error *err) {
    char digits[SEARCH_MAX_NEEDLES][DIGITS + 1] = {{0}};
    const int64_t asked = gyre_random_below(&h->random, h->needles);
    int64_t room = 0;
    memcpy(ids, h->windows->text.ids + start, (size_t)h->length * sizeof *ids);
    for (int64_t k = 0; k < h->needles; k++)
        for (int i = 0; i < DIGITS; i++)
            digits[k][i] = (char)('0' + gyre_random_below(&h->random, 10));
    gyre_status status = ask(h, asked, digits[asked], ids, counted, &room, err);
    for (int64_t k = 0; k < h->needles && !status; k++)
        status = hide_one(h, k, digits[k], room, ids, err);
    return status;
}

/* -- all windows -- */
static gyre_status hide(hiding *h, int64_t *starts, int64_t count, int64_t first, int32_t *ids, unsigned char *counted,
                        gyre_error *err) {
    const int sentences = h->tokenizer && tokenizer_info(h->tokenizer).kind != GYRE_TOKENIZER_BYTES;
    gyre_status status = GYRE_OK;
    for (int64_t i = 0; i < count && !status; i++) {
        const int64_t at = (first + i) * h->length;
        status = (sentences ? hide_sentences : hide_marks)(h, starts[i], ids + at, counted + at, err);
        starts[i] = at;
    }
    return status;
}

gyre_status search_needles_hide(search_windows *windows, const gyre_tokenizer *tokenizer, int64_t needles, uint64_t seed,
                                gyre_error *err) {
    hiding h = {windows, tokenizer, needles, windows->context + 1, seed};
    const int64_t tokens = (windows->searched_count + windows->held_out_count) * h.length;
    int32_t *ids = malloc((size_t)tokens * sizeof *ids);
    unsigned char *counted = calloc((size_t)tokens, 1);
    gyre_status status = ids && counted ? GYRE_OK : gyre_fail(err, GYRE_ENOMEM, "--needles: out of memory (search)");
    if (!status) status = hide(&h, windows->searched, windows->searched_count, 0, ids, counted, err);
    if (!status) status = hide(&h, windows->held_out, windows->held_out_count, windows->searched_count, ids, counted, err);
    if (status) {
        free(ids);
        free(counted);
        return status;
    }
    free(windows->text.ids);
    windows->text.ids = ids;
    windows->text.count = tokens;
    windows->counted = counted;
    return GYRE_OK;
}
