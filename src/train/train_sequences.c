/* train_sequences.c: the sequences of a training run.  Each depends only on the seed, the step and its index, so a
 * resumed run draws the same ones.
 *
 * Plain text at this scale teaches a model to look a few bytes back.  Half of the mixed sequences therefore contain
 * passkeys, the other half random segments that are copied later, which takes an induction head.  The loss weight of
 * random symbols is 0, and that of symbols that can be found again is 3.  Otherwise the noise of the former drowns the
 * latter for millions of tokens. */
#include "gyre/gyre_research.h"
#include "gyre/gyre_train.h"
#include "util/random.h"
#include <string.h>

enum { MIN_COPY = 6, MAX_COPY = 24, MIN_ZONE = 16, MAX_ZONES = 16, SPLIT_CHOICES = 3 };
static const float RECALL_WEIGHT = 3; /* loss weight of a symbol that can be found again; a symbol of the text has 1 */

static void text_window(const gyre_text *text, int64_t length, uint64_t *state, int32_t *out) {
    memcpy(out, text->ids + gyre_random_below(state, text->count - length + 1), (size_t)length * sizeof *out);
}

/* Any printable byte, or with `keys` one of those that passkeys are made of, so that what finds copies also finds
 * passkeys. */
static int32_t random_symbol(int keys, uint64_t *state) {
    if (!keys) return (int32_t)(33 + gyre_random_below(state, 94));
    const int64_t i = gyre_random_below(state, 10 + GYRE_PASSKEY_KEYS);
    return (int32_t)(i < 10 ? '0' + i : GYRE_PASSKEY_MARK + i - 10);
}

static void fill_weights(float *weights, int64_t from, int64_t n, float weight) {
    for (int64_t i = from; i < from + n; i++)
        weights[i] = weight;
}

/* Splits the window into equal zones.  Each has a random segment, which is copied to a random place later in the zone.
 * Many short zones teach the model to find a segment again, few long ones that it may be far away. */
static void copy_window(const gyre_text *text, int64_t length, uint64_t *state, int32_t *out, float *weights) {
    text_window(text, length, state, out);
    const int64_t max_zones = length / MIN_ZONE < MAX_ZONES ? length / MIN_ZONE : MAX_ZONES,
                  zones = 1 + gyre_random_below(state, max_zones);
    for (int64_t z = 0; z < zones; z++) {
        const int64_t from = z * length / zones, size = (z + 1) * length / zones - from;
        const int64_t max_copy = size / 2 < MAX_COPY ? size / 2 : MAX_COPY;
        const int64_t n = MIN_COPY + gyre_random_below(state, max_copy - MIN_COPY + 1);
        const int64_t first = gyre_random_below(state, size - 2 * n + 1),
                      second = first + n + gyre_random_below(state, size - 2 * n - first + 1);
        const int keys = gyre_random_uniform(state) < 0.25;
        for (int64_t i = 0; i < n; i++)
            out[from + first + i] = random_symbol(keys, state);
        memcpy(out + from + second, out + from + first, (size_t)n * sizeof *out);
        fill_weights(weights, from + first, n, 0);
        fill_weights(weights, from + second, 1, 0); /* where the copy begins is random */
        fill_weights(weights, from + second + 1, n - 1, RECALL_WEIGHT);
    }
}

/* The digits after a marker are random the first time, and can be recalled the second time. */
static void passkey_part(const gyre_text *text, int64_t length, uint64_t *state, int32_t *out, float *weights) {
    int seen[GYRE_PASSKEY_KEYS] = {0};
    gyre_passkey_window(text, GYRE_PASSKEY_KEYS, length, state, out, NULL);
    for (int64_t i = 0; i + GYRE_PASSKEY_LENGTH <= length; i++) {
        const int32_t key = out[i] - GYRE_PASSKEY_MARK;
        if (key < 0 || key >= GYRE_PASSKEY_KEYS) continue;
        weights[i] = 0; /* which marker comes, and where, is random too */
        fill_weights(weights, i + 1, GYRE_PASSKEY_LENGTH - 2, seen[key] ? RECALL_WEIGHT : 0);
        seen[key] = 1;
    }
}

/* One window as gyre_passkey reads it, or two or four smaller ones. */
static void passkey_window(const gyre_text *text, int64_t length, uint64_t *state, int32_t *out, float *weights) {
    int64_t parts = (int64_t)1 << gyre_random_below(state, SPLIT_CHOICES);
    while (length / parts < 2 * MIN_ZONE && parts > 1)
        parts /= 2;
    for (int64_t p = 0; p < parts; p++) {
        const int64_t from = p * length / parts;
        passkey_part(text, (p + 1) * length / parts - from, state, out + from, weights + from);
    }
}

/* out = the state of the generator of a sequence. */
static uint64_t state_of(uint64_t seed, gyre_train_place place) {
    uint64_t state = seed;
    state = gyre_random_next(&state) ^ (uint64_t)place.step;
    return gyre_random_next(&state) ^ (uint64_t)place.index;
}

void gyre_train_positions(const gyre_train_options *options, gyre_train_place place, int64_t length, int64_t *out) {
    static const uint64_t other = 0x706f736974696f6e; /* than the symbols' */
    uint64_t state = state_of(options->seed ^ other, place);
    const int64_t range = options->positions == GYRE_POSITION_DRAW_NONE ? length : options->position_range;
    /* Cannot fail: the options were checked. */
    const gyre_status status = gyre_draw_positions(options->positions, range, &state, length, out, NULL);
    (void)status;
}

void gyre_train_sequence(const gyre_text *text, const gyre_train_options *options, gyre_train_place place, int64_t length,
                         int32_t *out, float *weights) {
    uint64_t state = state_of(options->seed, place);
    if (options->task != GYRE_TASK_TEXT) {
        /* Covers every distance that gyre_task_measure uses within this length. */
        const int64_t nearest = GYRE_TASK_COPY_SPAN, farthest = length - 1 - GYRE_TASK_COPY_SPAN;
        const int64_t distance = farthest > nearest ? nearest + gyre_random_below(&state, farthest - nearest + 1) : nearest;
        gyre_task_sequence(options->task, length - 1, distance, &state, out, weights);
        return;
    }
    const double kind = gyre_random_uniform(&state);
    fill_weights(weights, 0, length, 1);
    if (kind < options->retrieval_fraction / 2)
        passkey_window(text, length, &state, out, weights);
    else if (kind < options->retrieval_fraction && length >= MIN_ZONE)
        copy_window(text, length, &state, out, weights);
    else
        text_window(text, length, &state, out);
}
