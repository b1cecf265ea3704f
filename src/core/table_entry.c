/* table_entry.c: initial value and bounds of each entry of a trained table. */
#include "core/encoding.h"
#include "core/scheme.h"

#include <math.h>

static const double DEVIATION = 0.05; /* small next to what the tables add to, but not 0: heads must differ to learn */

gyre_row_source gyre_encoding_row_source(const gyre_encoding *encoding) {
    return encoding ? encoding->scheme->row_source : GYRE_ROW_SOURCE_FREE;
}

gyre_status gyre_encoding_table_entry(const gyre_encoding *encoding, gyre_table which, int64_t head, int64_t row,
                                      int64_t channel, gyre_table_entry *out) {
    if (!encoding || !out || (unsigned)which >= GYRE_TABLE_COUNT) return GYRE_EINVAL;
    const gyre_table_size *table = &encoding->table[which];
    if (table->rows <= 0 || head < 0 || head >= table->heads || row < 0 || row >= table->rows || channel < 0 ||
        channel >= table->channels)
        return GYRE_EINVAL;
    gyre_table_entry entry = {0, DEVIATION, -INFINITY, INFINITY};
    /* A single number at the input is a scale: it begins as 1, without effect. */
    if (which == GYRE_TABLE_INPUT && table->rows == 1 && table->channels == 1)
        entry = (gyre_table_entry){1, 0, -INFINITY, INFINITY};
    if (encoding->scheme->table_entry) encoding->scheme->table_entry(encoding, which, row, channel, &entry);
    *out = entry;
    return GYRE_OK;
}
