/* multiplicative.c: Huang et al. 2020 (arXiv 2009.13658, method 3): the product of three vectors, channel by channel,
 *
 *     scale sum over c of q_c k_c A[r]_c,    r the row of the clipped distance,
 *
 * with A trained.  Attention computes the product (attention/terms/factors.h).  The name is Gyre's, and so are the clip of
 * 16, the start at 1 and a table that all heads share: the text of the paper could not be read whole. */
#include "core/encoding.h"
#include "core/relative_table.h"
#include "encodings/schemes.h"
#include "util/error.h"

static int64_t row_of_distance(const gyre_encoding *encoding, int64_t distance) {
    return distance + encoding->config.score.max_distance;
}

static gyre_status init(gyre_encoding *encoding, gyre_error *err) {
    const int64_t most = encoding->config.score.max_distance;
    if (encoding->config.head_dim == 0)
        return gyre_fail(err, GYRE_EINVAL,
                         "head_dim: missing; the vectors of distances have as many channels (gyre_config)");
    if (most == 0)
        return gyre_fail(err, GYRE_EINVAL, "score.max_distance: missing; larger distances count as this one (gyre_config)");
    const gyre_status status = gyre_terms_check(encoding, 0, err);
    if (status) return status;
    encoding->query_factors = 1;
    gyre_vector_tables_declare(encoding, GYRE_TERM_QUERY, 1, 2 * most + 1);
    return gyre_distance_map_make(encoding, most, row_of_distance, err);
}

/* As Shaw's. */
static void suggest(gyre_config *config) {
    if (config->score.max_distance == 0) config->score.max_distance = 16;
}

/* Around 1, where the score begins as q . k. */
static void table_entry(const gyre_encoding *encoding, gyre_table which, int64_t row, int64_t channel,
                        gyre_table_entry *entry) {
    (void)encoding, (void)which, (void)row, (void)channel;
    entry->initial_mean = 1;
}

const gyre_scheme gyre_scheme_multiplicative = {.kind = GYRE_KIND_MULTIPLICATIVE,
                                                .places = GYRE_PLACE_SCORE,
                                                .init = init,
                                                .suggest = suggest,
                                                .table_entry = table_entry};
