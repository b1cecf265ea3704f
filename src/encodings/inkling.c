/* inkling.c: Inkling's relative bias (transformers 5.24, modeling_inkling.py): a vector r that the token of the query makes,
 * times a trained vector of the distance,
 *
 *     scale t(m) q . k + t(m) r . P[m - n],    P[d] = 0 for d < 0 and d >= max_distance,    t the temperature,
 *
 * with one P for all heads.  A query has r in its last channels. */
#include "core/encoding.h"
#include "core/relative_table.h"
#include "encodings/schemes.h"
#include "util/error.h"

#include <inttypes.h>

static int64_t row_of_distance(const gyre_encoding *encoding, int64_t distance) {
    const int64_t behind = -distance, rows = encoding->config.score.max_distance;
    return behind >= 0 && behind < rows ? behind : rows;
}

static gyre_status init(gyre_encoding *encoding, gyre_error *err) {
    struct gyre_score_config *score = &encoding->config.score;
    const int64_t dim = encoding->config.head_dim, rows = score->max_distance;
    if (score->relative_channels == 0)
        score->relative_channels = dim < 2 * GYRE_RELATIVE_CHANNELS ? dim / 2 : GYRE_RELATIVE_CHANNELS;
    const int64_t own = score->relative_channels;
    if (dim == 0)
        return gyre_fail(err, GYRE_EINVAL, "head_dim: missing; the last channels of queries are vectors (gyre_config)");
    if (own >= dim || own == 0)
        return gyre_fail(err, GYRE_EINVAL,
                         "score.relative_channels: %" PRId64 " of %" PRId64 " channels leave none for a product with "
                         "keys or with distances (gyre_config)",
                         own, dim);
    if (rows == 0)
        return gyre_fail(err, GYRE_EINVAL, "score.max_distance: missing; larger distances add nothing (gyre_config)");
    const gyre_status status = gyre_terms_check(encoding, 0, err);
    if (status) return status;
    encoding->product_channels = dim - own;
    encoding->zero_row = 1;
    encoding->table[GYRE_TABLE_QUERY] = (gyre_table_size){1, rows, own};
    return gyre_distance_map_make(encoding, rows, row_of_distance, err);
}

/* 1024: Inkling's "rel_extent". */
static void suggest(gyre_config *config) {
    enum { EXTENT = 1024 };
    const int64_t length = config->trained_length;
    if (config->score.max_distance == 0) config->score.max_distance = length > 0 && length < EXTENT ? length : EXTENT;
}

const gyre_scheme gyre_scheme_inkling = {.kind = GYRE_KIND_INKLING,
                                         .places = GYRE_PLACE_SCORE,
                                         .traits = GYRE_TRAIT_QUERY_VECTORS,
                                         .init = init,
                                         .suggest = suggest};
