/* encoding.c: creation, and what can be asked of the object. */
#include "core/rotation/angles.h"
#include "core/rotation/temperature.h"
#include "core/sized.h"

#include <inttypes.h>
#include <stdlib.h>

static void *system_alloc(void *ctx, size_t bytes, size_t align) {
    (void)ctx;
    if (bytes > SIZE_MAX - align) return NULL;
    return aligned_alloc(align, (bytes + align - 1) / align * align);
}

static void system_free(void *ctx, void *memory) {
    (void)ctx;
    free(memory);
}

enum { CACHE_LINE = 64 };

void *gyre_encoding_allocate(const gyre_encoding *encoding, int64_t count, size_t size, gyre_error *err) {
    void *memory = NULL;
    if ((uint64_t)count <= SIZE_MAX / size)
        memory = encoding->alloc.alloc(encoding->alloc.ctx, (size_t)count * size, CACHE_LINE);
    if (!memory)
        gyre_fail(err, GYRE_ENOMEM, "memory: no %" PRId64 " x %zu bytes to be had (gyre_encoding_create)", count, size);
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
    release(&alloc, encoding->axis);
    release(&alloc, encoding->xpos_log2_decay);
    release(&alloc, encoding->short_factor);
    release(&alloc, encoding->long_factor);
    release(&alloc, encoding->frequency);
    release(&alloc, encoding->angles);
    release(&alloc, encoding->distance_map.row);
    release(&alloc, encoding->fixed_table);
    release(&alloc, encoding);
}

static gyre_status check_common(const gyre_config *config, gyre_error *err) {
    const struct {
        const char *name;
        int64_t value;
    } counts[] = {{"head_dim", config->head_dim},
                  {"heads", config->heads},
                  {"trained_length", config->trained_length},
                  {"input.dim", config->input.dim},
                  {"input.positions", config->input.positions},
                  {"rope.dim", config->rope.dim},
                  {"rope.context_length", config->rope.context_length},
                  {"rope.table_positions", config->rope.table_positions == GYRE_NO_TABLE ? 0 : config->rope.table_positions},
                  {"query.reference_length", config->query.reference_length},
                  {"input.offset", config->input.offset},
                  {"input.resized_length", config->input.resized_length},
                  {"rope.first_channel", config->rope.first_channel},
                  {"rope.axes", config->rope.axes},
                  {"rope.far_window", config->rope.far_window},
                  {"score.buckets", config->score.buckets},
                  {"score.max_distance", config->score.max_distance},
                  {"score.width", config->score.width},
                  {"rope.length_block", config->rope.length_block}};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        if (counts[i].value < 0)
            return gyre_fail(err, GYRE_EINVAL, "%s: %" PRId64 " is negative (gyre_config)", counts[i].name, counts[i].value);
        if (counts[i].value > INT32_MAX && i != 2 && i != 6 && i != 8) /* lengths that only enter formulas */
            return gyre_fail(err, GYRE_EINVAL, "%s: %" PRId64 " is past 2^31 - 1 (gyre_config)", counts[i].name,
                             counts[i].value);
    }
    return GYRE_OK;
}

gyre_status gyre_encoding_create(gyre_encoding **out, const gyre_config *given, const gyre_alloc *alloc, gyre_error *err) {
    const gyre_alloc system = {system_alloc, system_free, NULL};
    gyre_config own, *config = &own;
    if (!out || !given) return gyre_fail(err, GYRE_EINVAL, "arguments: out or config is NULL (gyre_encoding_create)");
    if (gyre_sized_read(&own, sizeof own, given, "gyre_config", err)) return GYRE_EINVAL;
    const gyre_scheme *scheme = gyre_scheme_find(config->kind);
    if (!scheme) return gyre_fail(err, GYRE_EINVAL, "kind: %d names no scheme (gyre_config)", (int)config->kind);
    gyre_status status = check_common(config, err);
    if (status != GYRE_OK) return status;

    const gyre_encoding blank = {.config = *config,
                                 .scheme = scheme,
                                 .kernels = gyre_kernels_select(),
                                 .alloc = alloc ? *alloc : system,
                                 .uses_malloc = !alloc,
                                 .first_position = -GYRE_MAX_POSITION,
                                 .last_position = GYRE_MAX_POSITION,
                                 .places = scheme->places,
                                 .score_terms = 1.0,
                                 .attention_factor = 1.0};
    gyre_encoding *encoding = gyre_encoding_allocate(&blank, 1, sizeof *encoding, err);
    if (!encoding) return GYRE_ENOMEM;
    *encoding = blank;
    status = gyre_temperature_check(encoding, err);
    if (status == GYRE_OK) status = scheme->init(encoding, err);
    /* The caller's arrays may go away: from here on config points to the encoding's own. */
    encoding->config.rope.short_factor = encoding->short_factor;
    encoding->config.rope.long_factor = encoding->long_factor;
    if (config->score.slopes) encoding->config.score.slopes = encoding->slopes; /* derived ones stay open */
    encoding->config.score.slopes_after = encoding->slopes_after;
    if (status != GYRE_OK) {
        gyre_encoding_free(encoding);
        return status;
    }
    *out = encoding;
    return GYRE_OK;
}

const gyre_config *gyre_encoding_get_config(const gyre_encoding *encoding) {
    return encoding ? &encoding->config : NULL;
}

unsigned gyre_encoding_places(const gyre_encoding *encoding) {
    return encoding ? encoding->places : 0;
}

static gyre_status check_rotates(const gyre_encoding *encoding, int64_t length) {
    if (!encoding || length < 0) return GYRE_EINVAL;
    return encoding->scheme->places & GYRE_PLACE_QUERY_KEY ? GYRE_OK : GYRE_EUNSUPPORTED;
}

gyre_status gyre_encoding_frequencies(const gyre_encoding *encoding, int64_t length, double *inv_freq,
                                      double *attention_factor) {
    const gyre_status status = check_rotates(encoding, length);
    if (status != GYRE_OK) return status;
    for (int64_t i = 0; inv_freq && i < encoding->config.rope.dim / 2; i++) {
        gyre_frequency frequency;
        gyre_rope_frequencies(&encoding->config, length, i, 1, &frequency);
        inv_freq[i] = frequency.high;
    }
    if (attention_factor) *attention_factor = gyre_angles_of(encoding, GYRE_DIRECTION_FORWARD, length).factor;
    return GYRE_OK;
}

gyre_status gyre_encoding_scaling_parts(const gyre_encoding *encoding, int64_t length, gyre_scaling_parts *out) {
    if (!out) return GYRE_EINVAL;
    const gyre_status status = check_rotates(encoding, length);
    if (status == GYRE_OK) *out = gyre_rope_parts(&encoding->config, length);
    return status;
}

gyre_status gyre_encoding_slopes(const gyre_encoding *encoding, double *slopes) {
    if (!encoding || !slopes) return GYRE_EINVAL;
    if (!encoding->slopes) return GYRE_EUNSUPPORTED;
    for (int64_t h = 0; h < encoding->config.heads; h++)
        slopes[h] = encoding->slopes[h] / encoding->slope_divisor;
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
