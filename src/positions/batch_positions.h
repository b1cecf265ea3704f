/* batch_positions.h: positions of the tokens of one document. */
#ifndef GYRE_POSITIONS_BATCH_POSITIONS_H
#define GYRE_POSITIONS_BATCH_POSITIONS_H
#include "gyre/gyre_positions.h"

/* *tokens = tokens of a span; EINVAL with a message for a span that is neither text nor a grid.  index: of the span. */
gyre_status gyre_span_tokens(const gyre_span *span, int64_t index, int64_t *tokens, gyre_error *err);
/* out = what a position counts up by over a whole span. */
double gyre_span_advance(const gyre_span *span, int64_t axes, gyre_after_grid after_grid);

/* Where positions go: token i of the document to at[a * axis_stride + the i-th slot], slots rising.  mask: NULL = all slots
 * follow each other, otherwise those that it marks. */
typedef struct gyre_position_sink {
    int64_t *at;
    int64_t axes, axis_stride, slot; /* slot: the next */
    const unsigned char *mask;
} gyre_position_sink;
/* out = the slot of the next token. */
int64_t gyre_next_slot(gyre_position_sink *sink);
/* Writes the positions of a text of `tokens` tokens from `first` on; out = the position after it. */
int64_t gyre_put_text(gyre_position_sink *sink, int64_t first, int64_t tokens);
/* The same for a span, which gyre_span_tokens accepts. */
int64_t gyre_put_span(gyre_position_sink *sink, int64_t first, const gyre_span *span, gyre_after_grid after_grid);

#endif
