/* deberta.c: DeBERTa: content to position (a table on the query) and position to content (a table on the key), both at the
 * row of m - n, as in the released checkpoints.  The tables are projections of one embedding, made by the caller, so each
 * head has its own.  v1 clamps distances.  v2 and v3 put distances above position_buckets / 2 into buckets of logarithmic
 * size. */
#include "core/encoding.h"
#include "core/relative_table.h"
#include "encodings/schemes.h"
#include "util/error.h"

#include <inttypes.h>
#include <math.h>

static int64_t bucket_of(const struct gyre_score_config *score, int64_t distance) {
    const int64_t middle = score->position_buckets / 2, magnitude = distance < 0 ? -distance : distance;
    if (score->position_buckets == 0 || magnitude <= middle) return distance;
    const int64_t bucket = (int64_t)ceil(gyre_log_bucket(magnitude, middle, score->max_distance - 1, middle - 1)) + middle;
    return distance < 0 ? -bucket : bucket;
}

static int64_t row_of_distance(const gyre_encoding *encoding, int64_t distance) {
    const struct gyre_score_config *score = &encoding->config.score;
    const int64_t span = score->position_buckets > 0 ? score->position_buckets : score->max_distance;
    const int64_t row = bucket_of(score, -distance) + span;
    return row < 0 ? 0 : row > 2 * span - 1 ? 2 * span - 1 : row;
}

static gyre_status init(gyre_encoding *encoding, gyre_error *err) {
    const gyre_config *config = &encoding->config;
    struct gyre_score_config *score = &encoding->config.score;
    const unsigned both = GYRE_TERM_QUERY | GYRE_TERM_KEY;
    if (config->head_dim == 0 || config->heads == 0)
        return gyre_fail(err, GYRE_EINVAL, "%s: missing; DeBERTa has a table of such vectors for each head (gyre_config)",
                         config->heads ? "head_dim" : "heads");
    if (score->max_distance == 0)
        return gyre_fail(err, GYRE_EINVAL, "score.max_distance: missing; DeBERTa clamps distances there (gyre_config)");
    if (score->position_buckets % 2 != 0 || score->position_buckets == 2)
        return gyre_fail(err, GYRE_EINVAL,
                         "score.position_buckets: %" PRId64 " is not 0 or an even number from 4 up (gyre_config)",
                         score->position_buckets);
    if (score->position_buckets > 0 && score->max_distance <= score->position_buckets / 2 + 1)
        return gyre_fail(err, GYRE_EINVAL,
                         "score.max_distance: %" PRId64 " leaves no distance for the log buckets (gyre_config)",
                         score->max_distance);
    const gyre_status status = gyre_terms_check(encoding, both, err);
    if (status) return status;
    if (score->terms == 0) score->terms = both;
    encoding->score_terms = score->terms == both ? 3 : 2;
    gyre_vector_tables_declare(encoding, score->terms, config->heads,
                               2 * (score->position_buckets > 0 ? score->position_buckets : score->max_distance));
    return gyre_distance_map_make(encoding, score->max_distance, row_of_distance, err);
}

/* As v3: 256 buckets up to distance 512.  Shorter models get half as many buckets as tokens, or none (v1) below 8 tokens.  A
 * config with max_distance and no buckets is v1 and stays so. */
static void suggest(gyre_config *config) {
    enum { TOKENS = 512 };
    struct gyre_score_config *score = &config->score;
    const int64_t length = config->trained_length;
    if (score->max_distance > 0) return;
    score->max_distance = length > 0 && length < TOKENS ? length : TOKENS;
    if (score->position_buckets == 0 && score->max_distance >= 8) score->position_buckets = score->max_distance / 4 * 2;
}

const gyre_scheme gyre_scheme_deberta = {.kind = GYRE_KIND_DEBERTA,
                                         .places = GYRE_PLACE_SCORE,
                                         .init = init,
                                         .suggest = suggest,
                                         .row_source = GYRE_ROW_SOURCE_PROJECTED};
