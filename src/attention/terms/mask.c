/* mask.c: the additive mask, read in place: any float type, any stride, 0 too. */
#include "attention/terms/mask.h"
#include "core/convert.h"
#include "core/view.h"

#include <math.h>

/* out = `count` entries of the row of a query: in place, or converted into `buffer`. */
static const float *read_row(const gyre_cview *mask, int64_t batch, int64_t query, int64_t head, int64_t first,
                             int64_t count, float *buffer) {
    const void *from = gyre_cview_at(mask, batch, query, head, first);
    if (mask->dtype == GYRE_DTYPE_F32 && mask->stride[3] == 1) return from;
    gyre_load_row(from, mask->dtype, mask->stride[3], count, buffer);
    return buffer;
}

int gyre_mask_excludes(const gyre_attention_plan *plan, const gyre_query_token *query, int64_t key) {
    float one;
    if (!plan->args->mask.data) return 0;
    return *read_row(&plan->args->mask, query->batch, query->query, query->head, key, 1, &one) == -INFINITY;
}

int gyre_mask_excludes_all(const gyre_attention_plan *plan, const gyre_query_buffers *q, int64_t first, int64_t count) {
    enum { CHUNK = 16 };
    const gyre_cview *mask = &plan->args->mask;
    const int64_t rows = mask->stride[1] == 0 ? 1 : q->count, keys = mask->stride[3] == 0 ? 1 : count;
    float buffer[CHUNK];
    if (!mask->data) return 0;
    /* By chunks: in most tiles the first chunk has a key that the mask leaves visible. */
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < keys; j += CHUNK) {
            const int64_t n = keys - j < CHUNK ? keys - j : CHUNK;
            const float *row = read_row(mask, q->batch, q->first + i, q->head, first + j, n, buffer);
            int excluded = 1;
            for (int64_t l = 0; l < n; l++)
                excluded &= row[l] == -INFINITY;
            if (!excluded) return 0;
        }
    return 1;
}

void gyre_mask_add(const gyre_attention_plan *plan, gyre_query_buffers *q, const gyre_tile_pair *tile_pair) {
    const int64_t first = tile_pair->tile * KEY_TILE + tile_pair->first;
    float buffer[KEY_TILE];
    for (int64_t i = 0; i < q->count; i++) {
        const float *from = read_row(&plan->args->mask, q->batch, q->first + i, q->head, first, tile_pair->count, buffer);
        float *row = q->scores + i * KEY_TILE;
        for (int64_t j = 0; j < tile_pair->count; j++)
            row[j] = from[j] == -INFINITY ? -INFINITY : row[j] + from[j];
    }
}
