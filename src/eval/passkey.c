/* passkey.c: passkey retrieval: can the model still find a key that it read long ago?  Perplexity alone does not show
 * it. */
#include "eval/recall.h"
#include "gyre/gyre_research.h"
#include "util/random.h"
#include <string.h>

enum {
    END_MARK = GYRE_PASSKEY_MARK + GYRE_PASSKEY_KEYS,
    DIGITS = 4,
    MIN_BYTES_PER_KEY = 2 * GYRE_PASSKEY_LENGTH + 4 /* bytes of a window per key: hidden, asked for, and some text */
};
_Static_assert((int)GYRE_PASSKEY_KEYS == (int)GYRE_RECALL_MAX, "as many keys as a window may have");

/* No pair of adjacent digits occurs twice in a window, so that any two symbols of an answer determine the next one. */
static void draw_keys(int64_t keys, uint64_t *state, int32_t digits[][DIGITS]) {
    unsigned char used[100] = {0};
    for (int64_t k = 0; k < keys; k++) {
        int fresh;
        do {
            for (int i = 0; i < DIGITS; i++)
                digits[k][i] = (int32_t)gyre_random_below(state, 10);
            const int32_t *d = digits[k];
            const int a = d[0] * 10 + d[1], b = d[1] * 10 + d[2], c = d[2] * 10 + d[3];
            fresh = !used[a] && !used[b] && !used[c] && a != b && b != c && a != c;
            if (fresh) used[a] = used[b] = used[c] = 1;
        } while (!fresh);
    }
}

static void write_key(int32_t *out, int32_t mark, const int32_t *digits) {
    out[0] = mark;
    for (int i = 0; i < DIGITS; i++)
        out[1 + i] = '0' + digits[i];
    out[1 + DIGITS] = END_MARK;
}

void gyre_passkey_window(const gyre_text *text, int64_t keys, int64_t length, uint64_t *state, int32_t *out,
                         unsigned char *asked) {
    int32_t digits[GYRE_PASSKEY_KEYS][DIGITS], marks[GYRE_PASSKEY_KEYS], order[GYRE_PASSKEY_KEYS];
    keys = gyre_recall_fit(keys, length, MIN_BYTES_PER_KEY);
    const int64_t start = gyre_random_below(state, text->count - length + 1), body = length - keys * GYRE_PASSKEY_LENGTH;
    for (int64_t i = 0; i < length; i++)
        out[i] = text->ids[start + i] >= GYRE_PASSKEY_MARK ? '?' : text->ids[start + i];
    if (asked) memset(asked, 0, (size_t)length);
    draw_keys(keys, state, digits);
    gyre_recall_shuffle(marks, GYRE_PASSKEY_KEYS, state);
    gyre_recall_shuffle(order, keys, state);
    for (int64_t k = 0; k < keys; k++)
        write_key(out + gyre_recall_place(k, keys, GYRE_PASSKEY_LENGTH, body, state), GYRE_PASSKEY_MARK + marks[k],
                  digits[k]);
    for (int64_t k = 0; k < keys; k++) {
        const int64_t at = body + k * GYRE_PASSKEY_LENGTH;
        write_key(out + at, GYRE_PASSKEY_MARK + marks[order[k]], digits[order[k]]);
        if (asked) memset(asked + at + 1, 1, DIGITS);
    }
}

gyre_status gyre_passkey(const gyre_model *model, const gyre_text *text, const gyre_passkey_options *options,
                         gyre_passkey_result *out, const gyre_exec *exec, gyre_error *err) {
    static const gyre_recall PASSKEY = {"passkey",         GYRE_PASSKEY_LENGTH, 1, 1 + DIGITS,
                                        GYRE_PASSKEY_KEYS, MIN_BYTES_PER_KEY,   1, gyre_passkey_window};
    return gyre_recall_measure(&PASSKEY, model, text, options, out, exec, err);
}
