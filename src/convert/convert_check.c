/* convert_check.c: reads the result back: positions as the usual reader of the format does, tokenizer and shapes as Gyre. */
#include "convert/conversion.h"

#include "model/weights/network_weights.h"
#include "reading/reading_build.h"
#include "util/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double TOLERANCE = 1e-6; /* relative; a GGUF stores keys and divisors as floats */

/* out = what else of a position the result does not say; NULL = nothing. */
static const char *lost_field(const gyre_config *found, const gyre_config *wanted) {
    const struct gyre_rope_config *a = &found->rope, *b = &wanted->rope;
    if (found->rope.longrope.start_tokens != wanted->rope.longrope.start_tokens ||
        found->rope.longrope.starts != wanted->rope.longrope.starts)
        return "start tokens of LongRoPE";
    if (a->far != b->far || a->far_window != b->far_window || a->far_factor != b->far_factor ||
        found->rope.chunk.size != wanted->rope.chunk.size || found->rope.chunk.local != wanted->rope.chunk.local ||
        found->rope.chunk.original_length != wanted->rope.chunk.original_length)
        return "far positions";
    if (a->xpos_base != b->xpos_base) return "xPos";
    if (found->query.temperature != wanted->query.temperature || found->query.slope != wanted->query.slope ||
        (wanted->query.temperature && found->query.reference_length != wanted->query.reference_length))
        return "temperature of queries";
    if (a->clockwise != b->clockwise || a->axes != b->axes) return "rotation";
    if (found->length_policy != wanted->length_policy) return "length policy";
    return NULL;
}

/* Returns 1 if the group rotates by the same angles as the conversion's encoding, with pairs as in the result.
 * scratch: [2 pairs]. */
static int rotation_matches(const gyre_conversion *c, const gyre_reading *reading, const gyre_layer_reading *group,
                            double *scratch) {
    const gyre_encoding *encoding = gyre_reading_encoding(reading, group);
    const gyre_config *found = &group->config;
    const gyre_config *wanted = gyre_encoding_get_config(c->encoding);
    const int64_t pairs = wanted->rope.dim / 2;
    double attention = 0, wanted_attention = 0, *frequencies = scratch + pairs;
    if (!gyre_kind_has(found->kind, GYRE_TRAIT_ROTATES) || found->rope.layout != c->to ||
        found->rope.dim != wanted->rope.dim || found->rope.first_channel != wanted->rope.first_channel)
        return 0;
    int same = !gyre_encoding_frequencies(c->encoding, c->length, frequencies, &wanted_attention) &&
               !gyre_encoding_frequencies(encoding, c->length, scratch, &attention) &&
               fabs(attention - wanted_attention) <= TOLERANCE * wanted_attention;
    for (int64_t i = 0; i < pairs && same; i++)
        same = fabs(scratch[i] - frequencies[i]) <= TOLERANCE * fabs(frequencies[i]);
    return same;
}

/* out = what differs between a group, read back, and the conversion's encoding; NULL = nothing. */
static const char *difference(const gyre_conversion *c, const gyre_reading *reading, const gyre_layer_reading *group,
                              double *scratch) {
    const gyre_config *wanted = gyre_encoding_get_config(c->encoding);
    if (!rotation_matches(c, reading, group, scratch))
        return wanted->rope.clip.mode != GYRE_CLIP_NONE ? "clipped rotation" : "rotation";
    return lost_field(gyre_encoding_get_config(gyre_reading_encoding(reading, group)), wanted);
}

gyre_status gyre_convert_check_positions(const gyre_conversion *c, const void *bytes, size_t count, gyre_error *err) {
    gyre_reading *reading = NULL;
    if (!c->encoding) return GYRE_OK;
    gyre_status status = gyre_reading_parse(
        &reading, bytes, count,
        GYRE_ARGS(gyre_reading_options, .context_length = c->length, .name = "the result, read back"), err);
    if (status) return status;
    double *scratch = malloc(2 * (size_t)gyre_encoding_get_config(c->encoding)->rope.dim * sizeof *scratch);
    if (!scratch) status = gyre_fail(err, GYRE_ENOMEM, "%s: no memory", c->target);
    for (int64_t i = 0; i < reading->groups_count && !status; i++) {
        const char *what = difference(c, reading, reading->groups[i], scratch);
        if (what)
            status = gyre_fail(err, GYRE_EUNSUPPORTED, "%s: %s cannot state it so that its usual reader reads it (%s)", what,
                               c->options->format == GYRE_MODEL_FORMAT_GGUF ? "a GGUF" : "config.json", c->source.path);
    }
    free(scratch);
    gyre_reading_free(reading);
    return status;
}

gyre_status gyre_convert_check_opens(const gyre_conversion *c, const char *path, gyre_error *err) {
    gyre_tokenizer *tokenizer = NULL;
    gyre_error why = {0, ""};
    gyre_status status = c->has_tokens ? gyre_tokenizer_open(&tokenizer, path, &why) : GYRE_OK;
    gyre_tokenizer_free(tokenizer);
    if (!status && (c->names || c->source.kind == GYRE_SOURCE_LLAMA2C)) status = gyre_weight_shapes_check(path, &why);
    if (!status) return GYRE_OK;
    if (status == GYRE_ENOMEM || status == GYRE_EIO) return gyre_fail(err, status, "%s", why.text);
    return gyre_fail(err, GYRE_EUNSUPPORTED, "the result, read back: %.2000s (converting %.300s)", why.text, c->source.path);
}
