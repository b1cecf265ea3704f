/* table_view.c: the views of a caller's tables, and their checks. */
#include "core/table_view.h"
#include "core/encoding.h"
#include "core/view.h"
#include "util/error.h"

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

static const char *const table_names[GYRE_TABLE_COUNT] = {"tables.input",        "tables.query", "tables.key",
                                                          "tables.value",        "tables.bias",  "tables.content_bias",
                                                          "tables.position_bias"};
static const char *const gradient_names[GYRE_TABLE_COUNT] = {
    "gradients.input", "gradients.query",        "gradients.key",          "gradients.value",
    "gradients.bias",  "gradients.content_bias", "gradients.position_bias"};

static gyre_status check_table(const gyre_table_size *size, const gyre_cview *table, const char *name, const char *where,
                               gyre_error *err) {
    const int64_t shape[4] = {1, size->heads, size->rows, size->channels};
    if (table->dtype != GYRE_DTYPE_F32 && table->dtype != GYRE_DTYPE_F64)
        return gyre_fail(err, GYRE_EDTYPE, "%s: is %s, neither F32 nor F64 (%s)", name, gyre_dtype_text(table->dtype),
                         where);
    if (!gyre_same_shape(shape, table->shape))
        return gyre_fail(err, GYRE_ESHAPE, "%s: " GYRE_SHAPE_FORMAT ", but the encoding's is " GYRE_SHAPE_FORMAT " (%s)",
                         name, GYRE_SHAPE_ARGS(table->shape), GYRE_SHAPE_ARGS(shape), where);
    return GYRE_OK;
}

gyre_status gyre_table_check(const gyre_encoding *encoding, gyre_table which, const gyre_tables *tables, const char *where,
                             gyre_error *err) {
    if (encoding->table[which].rows == 0) return GYRE_OK;
    const gyre_cview *table = gyre_table_of(tables, which);
    if (!table || !table->data)
        return gyre_fail(err, GYRE_EINVAL, "%s: missing; the encoding trains one (%s)", table_names[which], where);
    const gyre_status status = check_table(&encoding->table[which], table, table_names[which], where, err);
    return status ? status : gyre_cview_check(table, table_names[which], where, err);
}

gyre_status gyre_table_gradient_check(const gyre_encoding *encoding, gyre_table which, const gyre_table_gradients *gradients,
                                      const char *where, gyre_error *err) {
    const gyre_view *gradient = gyre_table_gradient_of(gradients, which);
    if (!gradient || !gradient->data || encoding->table[which].rows == 0) return GYRE_OK;
    const gyre_cview table = gyre_const(*gradient);
    const gyre_status status = check_table(&encoding->table[which], &table, gradient_names[which], where, err);
    return status ? status : gyre_output_check(gradient, gradient_names[which], where, err);
}
