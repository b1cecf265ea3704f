/* rows.h: rows between the caller's strided views and dense floats. */
#ifndef GYRE_ATTENTION_ROWS_H
#define GYRE_ATTENTION_ROWS_H
#include "attention/plan/buffers.h"

/* to[i * pad + c] = view[batch, first + i, head, c] as float; 0 for channels from the view's last to pad. */
void gyre_rows_read(const gyre_attention_plan *plan, const gyre_cview *view, const gyre_row_range *rows, float *to,
                    int64_t pad);
/* Moves the channels of `count` rows of head_pad floats, as they were read, to their parts (gyre_channel_part), and back. */
void gyre_rows_spread(const gyre_attention_plan *plan, float *x, int64_t count);
void gyre_rows_gather(const gyre_attention_plan *plan, float *x, int64_t count);
/* view[batch, first + i, head, c] = from[i * pad + c], rounded once. */
void gyre_rows_write(const gyre_attention_plan *plan, const gyre_view *view, const gyre_row_range *rows, const float *from,
                     int64_t pad);
/* row[j] *= by[j]. */
static inline void gyre_row_multiply(float *restrict row, const float *restrict by, int64_t n) {
    for (int64_t j = 0; j < n; j++)
        row[j] *= by[j];
}

#endif
