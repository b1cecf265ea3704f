/* batch.c: the sequences that training draws.  Each depends on the seed, the step and its index alone, so a resumed run
 * draws the same ones.
 *
 * Plain text at this scale teaches a model to look a few bytes back.  Half of the mixed sequences hide passkeys, half hold
 * random segments copied later: what an induction head is for. */
#include "gyre/gyre_train.h"
#include "model/random.h"
#include <string.h>

enum { COPY_LEAST = 6, COPY_MOST = 60, COPIES = 4 };

static int64_t below(uint64_t *state, int64_t n) {
    return (int64_t)(gyre_random_uniform(state) * (double)n);
}

static void plain_window(const gyre_text *text, int64_t length, uint64_t *state, int32_t *out) {
    memcpy(out, text->ids + below(state, text->count - length + 1), (size_t)length * sizeof *out);
}

/* In each of a few equal zones: a random printable segment, and the same again anywhere later in the zone. */
static void copy_window(const gyre_text *text, int64_t length, uint64_t *state, int32_t *out) {
    plain_window(text, length, state, out);
    const int64_t copies = 1 + below(state, COPIES);
    for (int64_t z = 0; z < copies; z++) {
        const int64_t from = z * length / copies, size = (z + 1) * length / copies - from;
        const int64_t most = size / 2 < COPY_MOST ? size / 2 : COPY_MOST;
        const int64_t n = COPY_LEAST + below(state, most - COPY_LEAST + 1);
        const int64_t first = below(state, size - 2 * n + 1);
        const int64_t second = first + n + below(state, size - 2 * n - first + 1);
        for (int64_t i = 0; i < n; i++)
            out[from + first + i] = (int32_t)(33 + below(state, 94));
        memcpy(out + from + second, out + from + first, (size_t)n * sizeof *out);
    }
}

void gyre_train_sequence(const gyre_text *text, const gyre_train_options *options, int64_t step, int64_t index,
                         int64_t length, int32_t *out) {
    uint64_t state = options->seed;
    state = gyre_random_next(&state) ^ (uint64_t)step;
    state = gyre_random_next(&state) ^ (uint64_t)index;
    const double kind = gyre_random_uniform(&state);
    if (kind < options->mix / 2)
        gyre_passkey_window(text, 1 + below(&state, GYRE_PASSKEY_KEYS), length, &state, out, NULL);
    else if (kind < options->mix && length >= 2 * COPIES * COPY_LEAST)
        copy_window(text, length, &state, out);
    else
        plain_window(text, length, &state, out);
}
