/* t5.c: T5: a trained number for each head and bucket of distances.  Short distances have a bucket each; then buckets grow
 * logarithmically, and the last one has no end. */
#include "core/encoding.h"
#include "core/relative_table.h"
#include "encodings/schemes.h"
#include "util/error.h"

#include <inttypes.h>

static int64_t row_of_distance(const gyre_encoding *encoding, int64_t distance) {
    const struct gyre_score_config *score = &encoding->config.score;
    /* Buckets of one direction; the first half of them holds one distance each. */
    const int64_t count = score->bidirectional ? score->buckets / 2 : score->buckets, exact = count / 2;
    const int64_t offset = score->bidirectional && distance > 0 ? count : 0;
    const int64_t n = score->bidirectional ? (distance < 0 ? -distance : distance) : (distance < 0 ? -distance : 0);
    if (n < exact) return offset + n;
    const int64_t bucket = exact + (int64_t)gyre_log_bucket(n, exact, score->max_distance, count - exact);
    return offset + (bucket < count ? bucket : count - 1);
}

static gyre_status init(gyre_encoding *encoding, gyre_error *err) {
    struct gyre_score_config *score = &encoding->config.score;
    const int64_t minimum = score->bidirectional ? 4 : 2;
    if (encoding->config.heads == 0)
        return gyre_fail(err, GYRE_EINVAL, "heads: missing; T5 has a number for each (gyre_config)");
    if (score->buckets < minimum || score->buckets % 2 != 0)
        return gyre_fail(err, GYRE_EINVAL,
                         "score.buckets: %" PRId64 " is not an even number from %" PRId64 " up (gyre_config)",
                         score->buckets, minimum);
    if (score->max_distance == 0) score->max_distance = 128;
    const int64_t exact = score->buckets / (score->bidirectional ? 4 : 2);
    if (score->max_distance <= exact)
        return gyre_fail(err, GYRE_EINVAL,
                         "score.max_distance: %" PRId64 " is not past the %" PRId64
                         " distances with a bucket of their own (gyre_config)",
                         score->max_distance, exact);
    const gyre_status status = gyre_terms_check(encoding, 0, err);
    if (status) return status;
    encoding->table[GYRE_TABLE_BIAS] = (gyre_table_size){1, score->buckets, encoding->config.heads};
    return gyre_distance_map_make(encoding, score->max_distance, row_of_distance, err);
}

static void suggest(gyre_config *config) {
    if (config->score.buckets == 0) config->score.buckets = 32;
    if (config->score.max_distance == 0) config->score.max_distance = 128;
}

const gyre_scheme gyre_scheme_t5 = {.kind = GYRE_KIND_T5,
                                    .places = GYRE_PLACE_SCORE,
                                    .init = init,
                                    .suggest = suggest,
                                    .bias_row = gyre_table_bias_row,
                                    .bias_row_gradient = gyre_table_bias_row_gradient};
