/* shaw.c: a trained vector for each distance, clipped, beside the key and beside the value. */
#include "encodings/schemes.h"

static int64_t row(const gyre_encoding *encoding, int64_t distance) {
    return distance + encoding->config.score.max_distance;
}

static gyre_status init(gyre_encoding *encoding, gyre_error *err) {
    struct gyre_score_config *score = &encoding->config.score;
    if (encoding->config.head_dim == 0)
        return gyre_fail(err, GYRE_EINVAL, "head_dim: missing; Shaw's vectors have as many channels (gyre_config)");
    if (score->max_distance == 0)
        return gyre_fail(err, GYRE_EINVAL, "score.max_distance: missing; Shaw clips distances there (gyre_config)");
    const gyre_status status = gyre_terms_check(encoding, GYRE_ON_QUERY | GYRE_ON_VALUE, err);
    if (status != GYRE_OK) return status;
    if (score->terms == 0) score->terms = GYRE_ON_QUERY | GYRE_ON_VALUE;
    gyre_vector_tables(encoding, score->terms, 1, 2 * score->max_distance + 1);
    return gyre_row_map_make(encoding, score->max_distance, row, err);
}

/* Where the paper's base model clips. */
static void suggest(gyre_config *config) {
    if (config->score.max_distance == 0) config->score.max_distance = 16;
}

const gyre_scheme gyre_scheme_shaw = {
    .kind = GYRE_SHAW, .name = "shaw", .places = GYRE_AT_SCORE | GYRE_AT_VALUE, .init = init, .suggest = suggest};
