/* batch_positions.c: positions of text, and of the grids of images and videos. */
#include "positions/batch_positions.h"
#include "core/positions.h"
#include "util/error.h"
#include "util/integers.h"

#include <inttypes.h>

/* -- spans -- */

static gyre_status refuse_span(int64_t index, const char *why, gyre_error *err) {
    return gyre_fail(err, GYRE_EINVAL, "spans[%" PRId64 "]: %s (gyre_batch_config)", index, why);
}

gyre_status gyre_span_tokens(const gyre_span *span, int64_t index, int64_t *tokens, gyre_error *err) {
    const int64_t most = GYRE_MAX_POSITION, f = span->frames, r = span->rows, c = span->columns, merge = span->merge;
    if (f == 0 && r == 0 && c == 0) {
        if (span->tokens < 0 || span->tokens > most) return refuse_span(index, "tokens are not in 0 .. 2^31", err);
        *tokens = span->tokens;
        return GYRE_OK;
    }
    if (span->tokens != 0) return refuse_span(index, "has tokens of text and a grid", err);
    if (f < 1 || r < 1 || c < 1) return refuse_span(index, "frames, rows or columns below 1", err);
    if (f > most || r > most / f || c > most / f / r) return refuse_span(index, "more than 2^31 tokens", err);
    if (merge < 0 || (merge > 1 && (r % merge || c % merge)))
        return refuse_span(index, "rows and columns are no multiples of merge", err);
    if (!(span->frame_step >= 0 && span->frame_step <= (double)most))
        return refuse_span(index, "frame_step is not in 0 .. 2^31", err);
    *tokens = f * r * c;
    return GYRE_OK;
}

/* out = floor(frame step), in float: torch.arange(frames) * step, then .long(), as the models' own code does. */
static double time_of(const gyre_span *span, int64_t frame) {
    const float step = span->frame_step == 0 ? 1.0F : (float)span->frame_step;
    return (double)(int64_t)(double)((float)frame * step);
}

double gyre_span_advance(const gyre_span *span, int64_t axes, gyre_after_grid after_grid) {
    if (span->frames == 0) return (double)span->tokens;
    if (axes == 1) return (double)(span->frames * span->rows * span->columns);
    const double side = (double)gyre_max_i64(span->rows, span->columns), last = time_of(span, span->frames - 1) + 1;
    return axes == 3 && after_grid == GYRE_AFTER_GRID_LARGEST && last > side ? last : side;
}

/* -- positions -- */

int64_t gyre_next_slot(gyre_position_sink *sink) {
    while (sink->mask && !sink->mask[sink->slot])
        sink->slot++;
    return sink->slot++;
}

static void put(gyre_position_sink *sink, int64_t time, int64_t row, int64_t column) {
    const int64_t slot = gyre_next_slot(sink), of[3] = {time, row, column};
    for (int64_t a = 0; a < sink->axes && a < 3; a++)
        sink->at[a * sink->axis_stride + slot] = of[sink->axes == 2 ? (a + 1) % 3 : a];
}

int64_t gyre_put_text(gyre_position_sink *sink, int64_t first, int64_t tokens) {
    for (int64_t i = 0; i < tokens; i++)
        put(sink, first + i, first + i, first + i);
    return first + tokens;
}

int64_t gyre_put_span(gyre_position_sink *sink, int64_t first, const gyre_span *span, gyre_after_grid after_grid) {
    const int64_t rows = span->rows, columns = span->columns, merge = span->merge > 1 ? span->merge : 1;
    const int64_t patches = rows * columns, across = merge > 0 ? columns / merge : 1;
    if (span->frames == 0) return gyre_put_text(sink, first, span->tokens);
    if (sink->axes == 1) return gyre_put_text(sink, first, span->frames * patches);
    for (int64_t f = 0; f < span->frames; f++)
        for (int64_t i = 0; i < patches; i++) { /* block by block; within one, row by row */
            const int64_t block = i / (merge * merge), inside = i % (merge * merge);
            const int64_t row = block / across * merge + inside / merge, column = block % across * merge + inside % merge;
            put(sink, first + (int64_t)time_of(span, f), first + row, first + column);
        }
    return first + (int64_t)gyre_span_advance(span, sink->axes, after_grid);
}
