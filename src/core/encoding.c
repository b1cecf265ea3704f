/* encoding.c: memory and queries of a gyre_encoding.  (Creation is in src/encodings/encoding_create.c.) */
#include "core/encoding.h"
#include "util/error.h"

#include <inttypes.h>
#include <math.h>

enum { CACHE_LINE = 64 };

void *gyre_encoding_allocate(const gyre_encoding *encoding, int64_t count, size_t size, gyre_error *err) {
    void *memory = NULL;
    if ((uint64_t)count <= SIZE_MAX / size)
        memory = encoding->alloc.alloc(encoding->alloc.ctx, (size_t)count * size, CACHE_LINE);
    if (!memory)
        gyre_fail(err, GYRE_ENOMEM, "memory: no %" PRId64 " x %zu bytes available (gyre_encoding_create)", count, size);
    return memory;
}

static void release(const gyre_alloc *alloc, void *memory) {
    if (memory) alloc->free(alloc->ctx, memory);
}

void gyre_encoding_free(gyre_encoding *encoding) {
    if (!encoding) return;
    const gyre_alloc alloc = encoding->alloc;
    release(&alloc, encoding->slopes);
    release(&alloc, encoding->slopes_after);
    release(&alloc, encoding->slope_exponents);
    release(&alloc, encoding->axis);
    release(&alloc, encoding->xpos_log2_decay);
    release(&alloc, encoding->short_factor);
    release(&alloc, encoding->long_factor);
    release(&alloc, encoding->given_frequencies);
    release(&alloc, encoding->frequency);
    release(&alloc, encoding->start_frequency);
    release(&alloc, encoding->angles);
    release(&alloc, encoding->distance_map.row);
    release(&alloc, encoding->fixed_table);
    release(&alloc, encoding);
}

const gyre_config *gyre_encoding_get_config(const gyre_encoding *encoding) {
    return encoding ? &encoding->config : NULL;
}

unsigned gyre_encoding_places(const gyre_encoding *encoding) {
    return encoding ? encoding->places : 0;
}

int gyre_encoding_same_at(const gyre_encoding *encoding, int64_t length, int64_t other) {
    return !encoding->scheme->same_at || encoding->scheme->same_at(&encoding->config, length, other);
}

double gyre_slope_divisor(const gyre_encoding *encoding, int64_t head, int64_t length) {
    if (!encoding->slope_exponents) return encoding->slope_divisor;
    const gyre_config *config = &encoding->config;
    const double factor =
        config->score.slope_factor > 0 ? config->score.slope_factor : (double)gyre_extension_ratio(config, length);
    return encoding->slope_divisor * pow(factor, encoding->slope_exponents[head]);
}

gyre_status gyre_encoding_slopes(const gyre_encoding *encoding, int64_t context_length, double *slopes) {
    if (!encoding || !slopes || context_length < 0) return GYRE_EINVAL;
    if (!encoding->slopes) return GYRE_EUNSUPPORTED;
    for (int64_t h = 0; h < encoding->config.heads; h++)
        slopes[h] = encoding->slopes[h] / gyre_slope_divisor(encoding, h, context_length);
    return GYRE_OK;
}

gyre_status gyre_encoding_table_shape(const gyre_encoding *encoding, gyre_table which, int64_t shape[4]) {
    if (!encoding || !shape || (unsigned)which >= GYRE_TABLE_COUNT) return GYRE_EINVAL;
    const gyre_table_size *table = &encoding->table[which];
    shape[0] = table->rows > 0;
    shape[1] = table->heads;
    shape[2] = table->rows;
    shape[3] = table->channels;
    return GYRE_OK;
}
