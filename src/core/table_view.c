/* table_view.c: the views of a caller's tables, and their checks. */
#include "core/table_view.h"
#include "core/encoding.h"
#include "core/view.h"

#include <stddef.h>

const gyre_cview *gyre_table_of(const gyre_tables *tables, gyre_table which) {
    if (!tables) return NULL;
    const gyre_cview *views[GYRE_TABLE_COUNT] = {&tables->input,        &tables->query, &tables->key,
                                                 &tables->value,        &tables->bias,  &tables->content_bias,
                                                 &tables->position_bias};
    return views[which];
}

const gyre_view *gyre_table_gradient_of(const gyre_table_gradients *gradients, gyre_table which) {
    if (!gradients) return NULL;
    const gyre_view *views[GYRE_TABLE_COUNT] = {&gradients->input,        &gradients->query, &gradients->key,
                                                &gradients->value,        &gradients->bias,  &gradients->content_bias,
                                                &gradients->position_bias};
    return views[which];
}

int gyre_vector_table_view(const gyre_encoding *encoding, const gyre_tables *tables, gyre_table which, gyre_cview *view) {
    const unsigned side = which == GYRE_TABLE_QUERY   ? GYRE_TERM_QUERY
                          : which == GYRE_TABLE_KEY   ? GYRE_TERM_KEY
                          : which == GYRE_TABLE_VALUE ? GYRE_TERM_VALUE
                                                      : 0;
    if (encoding->fixed_terms & side)
        *view = gyre_cdense(encoding->fixed_table, GYRE_DTYPE_F64, 1, 1, 2 * encoding->distance_map.clip_distance + 1,
                            encoding->config.head_dim);
    else if (encoding->table[which].rows > 0 && tables)
        *view = *gyre_table_of(tables, which);
    else
        return 0;
    return 1;
}

gyre_status gyre_table_check(const gyre_encoding *encoding, gyre_table which, const gyre_cview *table) {
    int64_t shape[4];
    const gyre_status status = gyre_encoding_table_shape(encoding, which, shape);
    if (status != GYRE_OK || shape[0] == 0) return status;
    if (!table || !table->data) return GYRE_EINVAL;
    if (table->dtype != GYRE_DTYPE_F32 && table->dtype != GYRE_DTYPE_F64) return GYRE_EDTYPE;
    return gyre_same_shape(shape, table->shape) ? GYRE_OK : GYRE_ESHAPE;
}

gyre_status gyre_table_gradient_check(const gyre_encoding *encoding, gyre_table which, const gyre_view *gradient) {
    if (!gradient || !gradient->data || encoding->table[which].rows == 0) return GYRE_OK;
    const gyre_cview table = gyre_const(*gradient);
    const gyre_status status = gyre_table_check(encoding, which, &table);
    return status ? status : gyre_output_check(gradient);
}
