/* convert_check.c: what was written of the positions, read back as its usual program reads it. */
#include "convert/convert_model.h"

#include "reading/reading_build.h"
#include "util/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double TOLERANCE = 1e-6; /* a GGUF's keys and divisors are floats */

/* 1: the layers turn by the same angles, pairs as they lie in the result. */
static int rotation_matches(const gyre_conversion *c, const gyre_reading *reading, const gyre_layer_reading *group,
                            double *room) {
    const gyre_encoding *encoding = gyre_reading_encoding(reading, group);
    const gyre_config *found = &group->config;
    const gyre_config *wanted = gyre_encoding_get_config(c->encoding);
    const int64_t pairs = wanted->rope.dim / 2;
    double attention = 0, own = 0, *frequencies = room + pairs;
    if (found->kind != GYRE_KIND_ROPE || found->rope.layout != c->to || found->rope.dim != wanted->rope.dim ||
        found->rope.first_channel != wanted->rope.first_channel)
        return 0;
    int same = gyre_encoding_frequencies(c->encoding, c->length, frequencies, &own) == GYRE_OK &&
               gyre_encoding_frequencies(encoding, c->length, room, &attention) == GYRE_OK &&
               fabs(attention - own) <= TOLERANCE * own;
    for (int64_t i = 0; i < pairs && same; i++)
        same = fabs(room[i] - frequencies[i]) <= TOLERANCE * fabs(frequencies[i]);
    return same;
}

gyre_status gyre_convert_check_positions(const gyre_conversion *c, const void *bytes, size_t count, gyre_error *err) {
    gyre_reading *reading = NULL;
    if (!c->encoding) return GYRE_OK;
    gyre_status status =
        gyre_reading_parse(&reading, bytes, count, "the result, read back", GYRE_PROFILE_DEFAULT, c->length, err);
    if (status != GYRE_OK) return status;
    double *room = malloc(2 * (size_t)gyre_encoding_get_config(c->encoding)->rope.dim * sizeof *room);
    if (!room) status = gyre_fail(err, GYRE_ENOMEM, "%s: no memory", c->target);
    for (int64_t i = 0; i < reading->groups_count && status == GYRE_OK; i++)
        if (!rotation_matches(c, reading, &reading->groups[i], room))
            status = gyre_fail(err, GYRE_EUNSUPPORTED,
                               "rotation: %s has no words for it that its usual reader reads as such (%s)",
                               c->options->format == GYRE_MODEL_FORMAT_GGUF ? "a GGUF" : "config.json", c->source.path);
    free(room);
    gyre_reading_free(reading);
    return status;
}
