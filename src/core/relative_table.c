/* relative_table.c: tables indexed by the distance from query to key. */
#include "core/relative_table.h"
#include "core/convert.h"
#include "core/encoding.h"
#include "core/view.h"
#include "util/error.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>

gyre_status gyre_distance_map_make(gyre_encoding *encoding, int64_t clip_distance,
                                   int64_t (*row)(const gyre_encoding *, int64_t), gyre_error *err) {
    enum { MAX_CLIP_DISTANCE = INT32_MAX / 4 }; /* row numbers have 32 bits, and DeBERTa has 2 rows per bucket */
    if (clip_distance > MAX_CLIP_DISTANCE || encoding->config.score.position_buckets > MAX_CLIP_DISTANCE)
        return gyre_fail(err, GYRE_EINVAL, "score: a table for distances to %" PRId64 " has too many rows (gyre_config)",
                         clip_distance);
    encoding->distance_map.clip_distance = clip_distance;
    encoding->distance_map.row =
        gyre_encoding_allocate(encoding, 2 * clip_distance + 1, sizeof *encoding->distance_map.row, err);
    if (!encoding->distance_map.row) return GYRE_ENOMEM;
    for (int64_t distance = -clip_distance; distance <= clip_distance; distance++)
        encoding->distance_map.row[distance + clip_distance] = (int32_t)row(encoding, distance);
    return GYRE_OK;
}

double gyre_log_bucket(int64_t distance, int64_t unit, int64_t last, int64_t count) {
    const double near = 1e-11; /* far above the rounding of the quotient, far below the distance of all other quotients */
    const double bucket = log((double)distance / (double)unit) / log((double)last / (double)unit) * (double)count;
    const double whole = nearbyint(bucket);
    return fabs(bucket - whole) <= near * fmax(whole, 1) ? whole : bucket;
}

gyre_status gyre_terms_check(const gyre_encoding *encoding, unsigned known, gyre_error *err) {
    const unsigned terms = encoding->config.score.terms;
    if ((terms & ~known) == 0) return GYRE_OK;
    return gyre_fail(err, GYRE_EINVAL, "score.terms: %#x; %s has tables on %s%s%s (gyre_config)", terms,
                     gyre_kind_name(encoding->scheme->kind), known ? "the query" : "no side",
                     known & GYRE_TERM_KEY ? " and the key" : "", known & GYRE_TERM_VALUE ? " and the value" : "");
}

void gyre_vector_tables_declare(gyre_encoding *encoding, unsigned terms, int64_t heads, int64_t rows) {
    const gyre_table_size size = rows > 0 ? (gyre_table_size){heads, rows, encoding->config.head_dim} : (gyre_table_size){0};
    if (terms & GYRE_TERM_QUERY) encoding->table[GYRE_TABLE_QUERY] = size;
    if (terms & GYRE_TERM_KEY) encoding->table[GYRE_TABLE_KEY] = size;
    if (terms & GYRE_TERM_VALUE) encoding->table[GYRE_TABLE_VALUE] = size;
    if (!(terms & GYRE_TERM_VALUE)) encoding->places &= ~(unsigned)GYRE_PLACE_VALUE;
    if (!(terms & (GYRE_TERM_QUERY | GYRE_TERM_KEY))) encoding->places &= ~(unsigned)GYRE_PLACE_SCORE;
}

gyre_status gyre_encoding_row(const gyre_encoding *encoding, int64_t m, int64_t n, int64_t *row) {
    if (!encoding || !row) return GYRE_EINVAL;
    if (!encoding->distance_map.row) return GYRE_EUNSUPPORTED;
    const int64_t first = encoding->first_position, last = encoding->last_position;
    if (m < first || m > last || n < first || n > last) return GYRE_ERANGE;
    *row = gyre_distance_map_row(&encoding->distance_map, n - m);
    return GYRE_OK;
}

void gyre_table_bias_row(const gyre_encoding *encoding, const gyre_tables *tables, const gyre_bias_row *row, double *out) {
    const gyre_cview *bias = &tables->bias;
    for (int64_t j = 0; j < row->n; j++) {
        const int64_t r = gyre_distance_map_row(&encoding->distance_map, row->k[j] - row->q);
        gyre_load_row_f64(gyre_cview_at(bias, 0, 0, r, row->head), bias->dtype, 1, 1, &out[j]);
    }
}

void gyre_table_bias_row_gradient(const gyre_encoding *encoding, const gyre_tables *tables, const gyre_bias_row *row,
                                  const double *dscore, const gyre_view *gradient, int64_t column) {
    (void)tables;
    for (int64_t j = 0; j < row->n; j++) {
        void *at = gyre_view_at(gradient, 0, 0, gyre_distance_map_row(&encoding->distance_map, row->k[j] - row->q), column);
        double sum;
        gyre_load_row_f64(at, gradient->dtype, 1, 1, &sum);
        sum += dscore[j];
        gyre_store_row_f64(&sum, 1, at, gradient->dtype, 1);
    }
}
