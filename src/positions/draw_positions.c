/* draw_positions.c: random positions of a training sequence. */
#include "core/positions.h"
#include "gyre/gyre_positions.h"
#include "util/error.h"
#include "util/random.h"

static const char *const names[] = {"none", "randomized", "shape", "pose"};
enum { DRAWS = sizeof names / sizeof *names };

const char *gyre_position_draw_name(gyre_position_draw draw) {
    return (unsigned)draw < DRAWS ? names[draw] : NULL;
}

/* Selection sampling (Knuth, 3.4.2, algorithm S): each position is taken with the probability that the rest needs it. */
static void select_set(int64_t range, uint64_t *state, int64_t n, int64_t *out) {
    for (int64_t position = 0, taken = 0; taken < n; position++)
        if (gyre_random_below(state, range - position) < n - taken) out[taken++] = position;
}

static void sift(int64_t *heap, int64_t at, int64_t n) {
    for (int64_t child; (child = 2 * at + 1) < n; at = child) {
        child += child + 1 < n && heap[child + 1] > heap[child];
        if (heap[at] >= heap[child]) return;
        const int64_t larger = heap[child];
        heap[child] = heap[at];
        heap[at] = larger;
    }
}

/* Heapsort, which needs no memory. */
static void sort(int64_t *list, int64_t n) {
    for (int64_t i = n / 2; i-- > 0;)
        sift(list, i, n);
    for (int64_t last = n - 1; last > 0; last--) {
        const int64_t largest = list[0];
        list[0] = list[last];
        list[last] = largest;
        sift(list, 0, last);
    }
}

/* Draws again in place of those that are there twice.  No position is treated otherwise than another, so each set is equally
 * likely. */
static void collect_set(int64_t range, uint64_t *state, int64_t n, int64_t *out) {
    for (int64_t kept = 0; kept < n;) {
        for (; kept < n; kept++)
            out[kept] = gyre_random_below(state, range);
        sort(out, n);
        kept = 1;
        for (int64_t i = 1; i < n; i++)
            if (out[i] != out[kept - 1]) out[kept++] = out[i];
    }
}

/* Token `from` and those behind it are `shift` positions further. */
static void count_up(int64_t from, int64_t shift, int64_t n, int64_t *out) {
    for (int64_t i = 0; i < n; i++)
        out[i] = i + (i >= from ? shift : 0);
}

gyre_status gyre_draw_positions(gyre_position_draw draw, int64_t range, uint64_t *state, int64_t n, int64_t *out,
                                gyre_error *err) {
    if (!state || !out) return gyre_fail(err, GYRE_EINVAL, "%s: is NULL (gyre_draw_positions)", state ? "out" : "state");
    if (!gyre_position_draw_name(draw))
        return gyre_fail(err, GYRE_EINVAL, "draw: %d is not a gyre_position_draw (gyre_draw_positions)", (int)draw);
    if (range < 0 || range > GYRE_MAX_POSITION)
        return gyre_fail(err, GYRE_EINVAL, "range: %lld is not in 0 .. 2^31 (gyre_draw_positions)", (long long)range);
    if (n < 0 || n > range)
        return gyre_fail(err, GYRE_EINVAL, "n: %lld positions of a range of %lld (gyre_draw_positions)", (long long)n,
                         (long long)range);
    const int64_t chunk = draw == GYRE_POSITION_DRAW_POSE && n > 0 ? 1 + gyre_random_below(state, (n + 1) / 2) : 0;
    if (draw == GYRE_POSITION_DRAW_RANDOMIZED && range / 4 < n)
        select_set(range, state, n, out);
    else if (draw == GYRE_POSITION_DRAW_RANDOMIZED)
        collect_set(range, state, n, out);
    else
        count_up(chunk, draw == GYRE_POSITION_DRAW_NONE ? 0 : gyre_random_below(state, range - n + 1), n, out);
    return GYRE_OK;
}
