/* encoding_create.c: from a config to an encoding. */
#include "core/encoding.h"
#include "core/positions.h"
#include "core/rotation/temperature.h"
#include "core/sized.h"
#include "encodings/schemes.h"
#include "kernels/kernels.h"
#include "util/error.h"

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
                  {"score.max_positions", config->score.max_positions},
                  {"score.position_buckets", config->score.position_buckets},
                  {"score.hidden_units", config->score.hidden_units},
                  {"score.sinusoid_dim", config->score.sinusoid_dim},
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
