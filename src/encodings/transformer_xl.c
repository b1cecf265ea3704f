/* transformer_xl.c: Transformer-XL: (q + u) . k + (q + v) . r, where r depends on the distance alone.  The caller projects
 * the sinusoid of each distance to r, one table per head; u and v are trained vectors, one per head. */
#include "core/encoding.h"
#include "core/relative_table.h"
#include "encodings/schemes.h"
#include "util/error.h"

static int64_t row_of_distance(const gyre_encoding *encoding, int64_t distance) {
    const struct gyre_score_config *score = &encoding->config.score;
    const int64_t limit = score->max_distance, behind = -distance, clipped = behind > limit ? limit : behind;
    if (!score->bidirectional) return clipped < 0 ? 0 : clipped; /* keys after the query share row 0 */
    return (clipped < -limit ? -limit : clipped) + limit;
}

static gyre_status init(gyre_encoding *encoding, gyre_error *err) {
    const gyre_config *config = &encoding->config;
    struct gyre_score_config *score = &encoding->config.score;
    if (config->head_dim == 0 || config->heads == 0)
        return gyre_fail(err, GYRE_EINVAL, "%s: missing; Transformer-XL has vectors for each head (gyre_config)",
                         config->heads ? "head_dim" : "heads");
    if (score->max_distance == 0)
        return gyre_fail(err, GYRE_EINVAL,
                         "score.max_distance: missing; Transformer-XL clamps distances there (gyre_config)");
    const gyre_status status = gyre_terms_check(encoding, GYRE_TERM_QUERY, err);
    if (status) return status;
    score->terms = GYRE_TERM_QUERY;
    gyre_vector_tables_declare(encoding, score->terms, config->heads,
                               (score->bidirectional ? 2 : 1) * score->max_distance + 1);
    encoding->table[GYRE_TABLE_CONTENT_BIAS] = (gyre_table_size){config->heads, 1, config->head_dim};
    encoding->table[GYRE_TABLE_POSITION_BIAS] = encoding->table[GYRE_TABLE_CONTENT_BIAS];
    return gyre_distance_map_make(encoding, score->max_distance, row_of_distance, err);
}

static void suggest(gyre_config *config) {
    const int64_t farthest = config->trained_length - 1;
    if (config->score.max_distance == 0) config->score.max_distance = farthest > 1 ? farthest : 1;
}

const gyre_scheme gyre_scheme_transformer_xl = {.kind = GYRE_KIND_TRANSFORMER_XL,
                                                .places = GYRE_PLACE_SCORE,
                                                .init = init,
                                                .suggest = suggest,
                                                .row_source = GYRE_ROW_SOURCE_SINUSOID};
