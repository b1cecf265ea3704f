/* copying.c: can the model still repeat a segment that it read long ago?  A marker says which key is asked for; here
 * only the bytes just read do, so the model needs an induction head. */
#include "eval/recall.h"
#include "gyre/gyre_research.h"
#include "util/random.h"
#include <string.h>

enum {
    SYMBOLS = 94, /* printable bytes, from '!' on */
    SEGMENTS = 4, /* of a window, if the caller does not say */
    MIN_BYTES_PER_SEGMENT = 2 * GYRE_COPYING_LENGTH + 4
};

void gyre_copying_window(const gyre_text *text, int64_t segments, int64_t length, uint64_t *state, int32_t *out,
                         unsigned char *asked) {
    int32_t symbols[SYMBOLS], order[GYRE_RECALL_MAX];
    segments = gyre_recall_fit(segments, length, MIN_BYTES_PER_SEGMENT);
    const int64_t start = gyre_random_below(state, text->count - length + 1), body = length - segments * GYRE_COPYING_LENGTH;
    memcpy(out, text->ids + start, (size_t)length * sizeof *out);
    if (asked) memset(asked, 0, (size_t)length);
    gyre_recall_shuffle(symbols, SYMBOLS, state); /* no symbol is in two segments, so none begins like another */
    gyre_recall_shuffle(order, segments, state);
    for (int64_t k = 0; k < segments; k++) {
        const int64_t at = gyre_recall_place(k, segments, GYRE_COPYING_LENGTH, body, state);
        for (int64_t i = 0; i < GYRE_COPYING_LENGTH; i++)
            out[at + i] = '!' + symbols[k * GYRE_COPYING_LENGTH + i];
    }
    for (int64_t k = 0; k < segments; k++) {
        int32_t *copy = out + body + k * GYRE_COPYING_LENGTH;
        for (int64_t i = 0; i < GYRE_COPYING_LENGTH; i++)
            copy[i] = '!' + symbols[order[k] * GYRE_COPYING_LENGTH + i];
        if (asked) memset(asked + (copy - out) + GYRE_COPYING_GIVEN, 1, (size_t)(GYRE_COPYING_LENGTH - GYRE_COPYING_GIVEN));
    }
}

gyre_status gyre_copying(const gyre_model *model, const gyre_text *text, const gyre_passkey_options *options,
                         gyre_passkey_result *out, const gyre_exec *exec, gyre_error *err) {
    static const gyre_recall COPYING = {
        "copying", GYRE_COPYING_LENGTH, GYRE_COPYING_GIVEN, GYRE_COPYING_LENGTH, SEGMENTS, MIN_BYTES_PER_SEGMENT,
        0,         gyre_copying_window};
    return gyre_recall_measure(&COPYING, model, text, options, out, exec, err);
}
