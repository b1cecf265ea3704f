/* learned.c: a trained vector for each position, added at the input. */
#include "core/convert.h"
#include "core/view.h"
#include "encodings/schemes.h"

static gyre_status init(gyre_encoding *encoding, gyre_error *err) {
    const gyre_config *config = &encoding->config;
    if (config->input.dim == 0)
        return gyre_fail(err, GYRE_EINVAL, "input.dim: missing; a learned table needs the model's width (gyre_config)");
    if (config->input.positions == 0)
        return gyre_fail(err, GYRE_EINVAL,
                         "input.positions: missing; a learned table needs its number of rows (gyre_config)");
    encoding->table[GYRE_TABLE_INPUT] = (gyre_table_size){1, config->input.positions, config->input.dim};
    encoding->first_position = 0;
    encoding->last_position = config->input.positions - 1;
    return GYRE_OK;
}

static void input_row(const gyre_encoding *encoding, const gyre_tables *tables, int64_t position, int64_t first,
                      int64_t count, double *row) {
    const gyre_cview *table = &tables->input;
    (void)encoding;
    gyre_load_row_f64(gyre_cview_at(table, 0, 0, position, first), table->dtype, table->stride[3], count, row);
}

const gyre_scheme gyre_scheme_learned = {
    .kind = GYRE_LEARNED, .name = "learned", .places = GYRE_AT_INPUT, .init = init, .input_row = input_row};
