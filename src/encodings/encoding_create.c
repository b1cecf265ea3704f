/* encoding_create.c: from a config to an encoding. */
#include "core/config/config_check.h"
#include "core/encoding.h"
#include "core/positions.h"
#include "core/rotation/temperature.h"
#include "core/sized.h"
#include "core/system_alloc.h"
#include "encodings/schemes.h"
#include "kernels/kernels.h"
#include "util/error.h"

/* A scaling that follows the length in use is none at all where no length is known, and nothing would say so. */
static void find_last_scaled(gyre_encoding *encoding, const gyre_config *given) {
    const int64_t trained = encoding->config.trained_length;
    if (given->context_length == 0 && trained > 0 && !gyre_encoding_same_at(encoding, trained, GYRE_MAX_POSITION + 1))
        encoding->last_scaled = trained - 1;
}

gyre_status gyre_encoding_create(gyre_encoding **out, const gyre_config *given, const gyre_alloc *alloc, gyre_error *err) {
    gyre_config own, *config = &own;
    if (!out || !given) return gyre_fail(err, GYRE_EINVAL, "arguments: out or config is NULL (gyre_encoding_create)");
    if (gyre_sized_read(&own, sizeof own, given, "gyre_config", err)) return GYRE_EINVAL;
    const gyre_scheme *scheme = gyre_scheme_find(config->kind);
    if (!config->kind)
        return gyre_fail(err, GYRE_EINVAL, "kind: not set; GYRE_KIND_NOPE is an encoding without positions (gyre_config)");
    if (!scheme) return gyre_fail(err, GYRE_EINVAL, "kind: %d names no scheme (gyre_config)", (int)config->kind);
    gyre_alloc memory;
    gyre_status status = gyre_alloc_read(&memory, alloc, "gyre_encoding_create", err);
    if (status == GYRE_OK) status = gyre_config_check(config, err);
    if (status != GYRE_OK) return status;
    gyre_config_fill_standards(config);

    const gyre_encoding blank = {.config = *config,
                                 .scheme = scheme,
                                 .kernels = gyre_kernels_select(),
                                 .alloc = memory,
                                 .uses_malloc = !alloc,
                                 .first_position = -GYRE_MAX_POSITION,
                                 .last_position = GYRE_MAX_POSITION,
                                 .last_scaled = GYRE_MAX_POSITION,
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
    find_last_scaled(encoding, config);
    *out = encoding;
    return GYRE_OK;
}
