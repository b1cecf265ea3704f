/* bert.c: BERT's relative positions: a trained vector for every possible distance, multiplied with the query (relative_key)
 * and also with the key (relative_key_query).  Distances are not clipped, so positions from max_positions on are refused. */
#include "core/encoding.h"
#include "core/relative_table.h"
#include "encodings/schemes.h"
#include "util/error.h"

static int64_t row_of_distance(const gyre_encoding *encoding, int64_t distance) {
    return encoding->config.score.max_positions - 1 - distance;
}

static gyre_status init(gyre_encoding *encoding, gyre_error *err) {
    struct gyre_score_config *score = &encoding->config.score;
    if (encoding->config.head_dim == 0)
        return gyre_fail(err, GYRE_EINVAL, "head_dim: missing; BERT's vectors have as many channels (gyre_config)");
    if (score->max_positions == 0)
        return gyre_fail(err, GYRE_EINVAL, "score.max_positions: missing; BERT has so many positions (gyre_config)");
    const gyre_status status = gyre_terms_check(encoding, GYRE_TERM_QUERY | GYRE_TERM_KEY, err);
    if (status) return status;
    if (score->terms == 0) score->terms = GYRE_TERM_QUERY;
    encoding->first_position = 0;
    encoding->last_position = score->max_positions - 1;
    gyre_vector_tables_declare(encoding, score->terms, 1, 2 * score->max_positions - 1);
    return gyre_distance_map_make(encoding, score->max_positions - 1, row_of_distance, err);
}

static void suggest(gyre_config *config) {
    if (config->score.max_positions == 0) config->score.max_positions = config->trained_length;
}

const gyre_scheme gyre_scheme_bert = {.kind = GYRE_KIND_BERT,
                                      .places = GYRE_PLACE_SCORE,
                                      .traits = GYRE_TRAIT_ENDS,
                                      .init = init,
                                      .suggest = suggest,
                                      .row_source = GYRE_ROW_SOURCE_SHARED};
