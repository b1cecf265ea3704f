/* nezha.c: NeZha: Shaw's clipped distances with a fixed sinusoid instead of trained vectors.  Row r is the sinusoid of
 * position r: sin, cos, sin, cos, ... */
#include "core/encoding.h"
#include "core/relative_table.h"
#include "encodings/schemes.h"
#include "util/error.h"

#include <math.h>

static int64_t row_of_distance(const gyre_encoding *encoding, int64_t distance) {
    return distance + encoding->config.score.max_distance;
}

static void suggest(gyre_config *config) {
    if (config->score.max_distance == 0) config->score.max_distance = 64;
}

static gyre_status init(gyre_encoding *encoding, gyre_error *err) {
    struct gyre_score_config *score = &encoding->config.score;
    const int64_t dim = encoding->config.head_dim;
    if (dim == 0)
        return gyre_fail(err, GYRE_EINVAL, "head_dim: missing; NeZha's vectors have as many channels (gyre_config)");
    const gyre_status status = gyre_terms_check(encoding, GYRE_TERM_QUERY | GYRE_TERM_VALUE, err);
    if (status) return status;
    if (score->terms == 0) score->terms = GYRE_TERM_QUERY | GYRE_TERM_VALUE;
    suggest(&encoding->config);
    const int64_t rows = 2 * score->max_distance + 1;
    encoding->fixed_terms = score->terms;
    gyre_vector_tables_declare(encoding, score->terms, 0, 0);
    encoding->fixed_table = gyre_encoding_allocate(encoding, rows * dim, sizeof *encoding->fixed_table, err);
    if (!encoding->fixed_table) return GYRE_ENOMEM;
    for (int64_t i = 0; i < rows * dim; i++) {
        const int64_t c = i % dim;
        const int64_t row = i / dim, pair = c / 2;
        const double angle = (double)row * pow(10000, -2 * (double)pair / (double)dim);
        encoding->fixed_table[i] = c % 2 ? cos(angle) : sin(angle);
    }
    return gyre_distance_map_make(encoding, score->max_distance, row_of_distance, err);
}

const gyre_scheme gyre_scheme_nezha = {
    .kind = GYRE_KIND_NEZHA, .places = GYRE_PLACE_SCORE | GYRE_PLACE_VALUE, .init = init, .suggest = suggest};
