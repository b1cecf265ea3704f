#include "attention/terms/table_packing.h"
#include "core/convert.h"
#include "core/table_view.h"
#include "core/view.h"

#include <math.h>
#include <string.h>

enum { PACK_ROWS = 16, PACK_CHANNELS = 128 };

/* Packs up to PACK_ROWS rows from r on, channels from c on: as floats times `scale`, zeros past the last row and channel. */
static void pack_block(const gyre_attention_plan *plan, gyre_packed_table *packed, const gyre_cview *view, int64_t r,
                       int64_t c, int64_t pad, float scale) {
    const int64_t left = view->shape[3] - c, width = pad - c < PACK_CHANNELS ? pad - c : PACK_CHANNELS;
    const int64_t n = plan->table.end_row - r < PACK_ROWS ? plan->table.end_row - r : PACK_ROWS;
    const int64_t given = view->shape[2] - r; /* the row after those, if there is one, is zeros */
    float block[PACK_ROWS * PACK_CHANNELS] = {0};
    int finite;
    for (int64_t i = 0; i < n; i++) {
        float *row = block + i * PACK_CHANNELS;
        if (i < given)
            gyre_load_row(gyre_cview_at(view, 0, packed->head, r + i, c), view->dtype, view->stride[3],
                          left < width ? left : width, row);
        plan->kernels->scale_row_f32(row, width, scale);
        plan->kernels->finite_row_f32(row, width, &finite);
        packed->finite &= finite;
        for (int64_t l = 0; !finite && packed->zero_nonfinite && l < width; l++)
            row[l] = isfinite(row[l]) ? row[l] : 0;
        if (packed->rows) memcpy(packed->rows + (r + i) * pad + c, row, (size_t)width * sizeof *row);
    }
    if (!packed->columns) return;
    const gyre_transpose transpose = {
        PACK_ROWS, width, block, PACK_CHANNELS, packed->columns + c * plan->table.row_pad + r, plan->table.row_pad};
    plan->kernels->transpose_f32(&transpose);
}

/* Packs the rows of one head that occur in the segment.  Products go by 16 rows and may read that many zeros past the
 * last. */
static void pack(const gyre_attention_plan *plan, gyre_packed_table *packed, const gyre_cview *view, int64_t head,
                 float scale, int64_t pad) {
    const int64_t from = packed->shared ? 0 : head, end = plan->table.end_row + PACK_ROWS;
    if (packed->head == from) return;
    packed->head = from;
    packed->finite = 1;
    for (int64_t r = plan->table.first_row; r < end && r + PACK_ROWS <= plan->table.row_pad; r += PACK_ROWS)
        for (int64_t c = 0; c < pad; c += PACK_CHANNELS)
            pack_block(plan, packed, view, r, c, pad, scale);
}

void gyre_tables_pack(const gyre_attention_plan *plan, gyre_query_buffers *q) {
    gyre_table_buffers *t = q->tables;
    const gyre_tables *tables = plan->args->tables;
    const int64_t head = gyre_head_in_call(plan, q->head);
    gyre_cview view;
    if ((plan->table.query || plan->table.factors) &&
        gyre_vector_table_view(plan->encoding, tables, GYRE_TABLE_QUERY, &view))
        pack(plan, &t->query, &view, head, 1, plan->table.query_part.pad);
    if (plan->table.key && gyre_vector_table_view(plan->encoding, tables, GYRE_TABLE_KEY, &view))
        pack(plan, &t->key, &view, head, plan->scale, plan->head_pad); /* queries are scaled already, keys are not */
    if (plan->table.value && gyre_vector_table_view(plan->encoding, tables, GYRE_TABLE_VALUE, &view))
        pack(plan, &t->value, &view, head, 1, plan->value_pad);
}
