/* encoding_create.c: from a config to an encoding. */
#include "core/encoding.h"
#include "core/positions.h"
#include "core/rotation/temperature.h"
#include "core/sized.h"
#include "core/system_alloc.h"
#include "encodings/schemes.h"
#include "kernels/kernels.h"
#include "util/error.h"

#include <inttypes.h>

static gyre_status check_common(const gyre_config *config, gyre_error *err) {
    const struct {
        const char *name;
        int64_t value;
        int is_length; /* 1: only enters formulas, so it may be larger than 2^31 */
    } counts[] = {
        {"head_dim", config->head_dim, 0},
        {"heads", config->heads, 0},
        {"trained_length", config->trained_length, 1},
        {"input.dim", config->input.dim, 0},
        {"input.positions", config->input.positions, 0},
        {"rope.dim", config->rope.dim, 0},
        {"rope.context_length", config->rope.context_length, 1},
        {"rope.table_positions", config->rope.table_positions == GYRE_NO_TABLE ? 0 : config->rope.table_positions, 0},
        {"query.reference_length", config->query.reference_length, 1},
        {"input.offset", config->input.offset, 0},
        {"input.resized_length", config->input.resized_length, 0},
        {"rope.first_channel", config->rope.first_channel, 0},
        {"rope.axes", config->rope.axes, 0},
        {"rope.far_window", config->rope.far_window, 0},
        {"chunk.size", config->chunk.size, 0},
        {"chunk.local", config->chunk.local, 0},
        {"chunk.original_length", config->chunk.original_length, 1},
        {"score.buckets", config->score.buckets, 0},
        {"score.max_distance", config->score.max_distance, 0},
        {"score.max_positions", config->score.max_positions, 0},
        {"score.position_buckets", config->score.position_buckets, 0},
        {"score.hidden_units", config->score.hidden_units, 0},
        {"score.sinusoid_dim", config->score.sinusoid_dim, 0},
        {"rope.length_block", config->rope.length_block, 0},
        {"clip.pairs", config->clip.pairs, 0},
        {"longrope.start_tokens", config->longrope.start_tokens, 0},
        {"tapa.amplitudes", config->tapa.amplitudes, 0}};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        if (counts[i].value < 0)
            return gyre_fail(err, GYRE_EINVAL, "%s: %" PRId64 " is negative (gyre_config)", counts[i].name, counts[i].value);
        if (counts[i].value > INT32_MAX && !counts[i].is_length)
            return gyre_fail(err, GYRE_EINVAL, "%s: %" PRId64 " is past 2^31 - 1 (gyre_config)", counts[i].name,
                             counts[i].value);
    }
    return GYRE_OK;
}

gyre_status gyre_encoding_create(gyre_encoding **out, const gyre_config *given, const gyre_alloc *alloc, gyre_error *err) {
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
                                 .alloc = alloc ? *alloc : gyre_system_alloc,
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
    /* The caller may free its arrays: config now points to the encoding's own copies. */
    encoding->config.rope.short_factor = encoding->short_factor;
    encoding->config.rope.long_factor = encoding->long_factor;
    if (config->score.slopes) encoding->config.score.slopes = encoding->slopes; /* NULL stays NULL: slopes are derived */
    encoding->config.score.slopes_after = encoding->slopes_after;
    if (status != GYRE_OK) {
        gyre_encoding_free(encoding);
        return status;
    }
    *out = encoding;
    return GYRE_OK;
}
