/* encoding_create.c: from a config to an encoding of a scheme. */
#include "core/config/config_check.h"
#include "core/encoding.h"
#include "core/positions.h"
#include "core/rotation/temperature.h"
#include "core/sized.h"
#include "core/system_alloc.h"
#include "encodings/schemes.h"
#include "gyre/gyre_fields.h"
#include "kernels/places/place_kernels.h"
#include "util/error.h"

/* out = the shortest length that some scaling counts from; 0 = none. */
static int64_t counted_from(const gyre_config *config) {
    int64_t least = config->trained_length;
    const int64_t chunks = gyre_config_has(config, "rope.chunk.original_length") ? config->rope.chunk.original_length : 0;
    if (chunks > 0 && (least == 0 || chunks < least)) least = chunks;
    for (int64_t a = 0; a < config->rope.axes; a++) {
        const int64_t own = config->rope.axis[a].own ? config->rope.axis[a].trained_length : 0;
        if (own > 0 && (least == 0 || own < least)) least = own;
    }
    return least;
}

/* A scaling that follows the length in use would have no effect, without notice, if no length is known. */
static void find_last_scaled(gyre_encoding *encoding) {
    const int64_t length = counted_from(&encoding->config);
    if (encoding->config.context_length == 0 && length > 0 &&
        !gyre_encoding_same_at(encoding, length, GYRE_MAX_POSITION + 1))
        encoding->last_scaled = length - 1;
}

gyre_status gyre_encoding_make(gyre_encoding **out, const gyre_scheme *scheme, const gyre_config *given,
                               const gyre_alloc *alloc, gyre_error *err) {
    gyre_config own, *config = &own;
    if (!out) return gyre_fail(err, GYRE_EINVAL, "arguments: out or config is NULL (gyre_encoding_create)");
    if (gyre_sized_read(&own, sizeof own, given, "gyre_config", err)) return GYRE_EINVAL;
    gyre_alloc memory;
    gyre_status status = gyre_alloc_read(&memory, alloc, "gyre_encoding_create", err);
    if (!status) status = gyre_config_check(config, err);
    if (status) return status;
    gyre_config_fill_standards(config);

    const gyre_encoding blank = {.config = *config,
                                 .scheme = scheme,
                                 .kernels = gyre_place_kernels_select(),
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
    if (!status) status = scheme->init(encoding, err);
    /* The caller may free its arrays: config now points to the encoding's own copies. */
    encoding->config.rope.short_factor = encoding->short_factor;
    encoding->config.rope.long_factor = encoding->long_factor;
    encoding->config.rope.frequencies = encoding->given_frequencies;
    if (config->score.slopes) encoding->config.score.slopes = encoding->slopes; /* NULL stays NULL: slopes are derived */
    encoding->config.score.slopes_after = encoding->slopes_after;
    if (status) {
        gyre_encoding_free(encoding);
        return status;
    }
    find_last_scaled(encoding);
    *out = encoding;
    return GYRE_OK;
}
