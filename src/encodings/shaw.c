/* shaw.c: Shaw et al.: a trained vector for each clipped distance, added to the key and to the value. */
#include "core/encoding.h"
#include "core/relative_table.h"
#include "encodings/schemes.h"
#include "util/error.h"

static int64_t row_of_distance(const gyre_encoding *encoding, int64_t distance) {
    return distance + encoding->config.score.max_distance;
}

static gyre_status init(gyre_encoding *encoding, gyre_error *err) {
    struct gyre_score_config *score = &encoding->config.score;
    if (encoding->config.head_dim == 0)
        return gyre_fail(err, GYRE_EINVAL, "head_dim: missing; Shaw's vectors have as many channels (gyre_config)");
    if (score->max_distance == 0)
        return gyre_fail(err, GYRE_EINVAL, "score.max_distance: missing; Shaw clips distances there (gyre_config)");
    const gyre_status status = gyre_terms_check(encoding, GYRE_TERM_QUERY | GYRE_TERM_VALUE, err);
    if (status) return status;
    if (score->terms == 0) score->terms = GYRE_TERM_QUERY | GYRE_TERM_VALUE;
    gyre_vector_tables_declare(encoding, score->terms, 1, 2 * score->max_distance + 1);
    return gyre_distance_map_make(encoding, score->max_distance, row_of_distance, err);
}

/* 16: the clip of the paper's base model. */
static void suggest(gyre_config *config) {
    if (config->score.max_distance == 0) config->score.max_distance = 16;
}

const gyre_scheme gyre_scheme_shaw = {
    .kind = GYRE_KIND_SHAW, .places = GYRE_PLACE_SCORE | GYRE_PLACE_VALUE, .init = init, .suggest = suggest};
