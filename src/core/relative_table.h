/* relative_table.h: tables indexed by the distance from query to key.  The first three functions are for a scheme's init. */
#ifndef GYRE_CORE_RELATIVE_TABLE_H
#define GYRE_CORE_RELATIVE_TABLE_H
#include "core/scheme.h"
#include "gyre/gyre.h"

/* encoding->distance_map = row(encoding, n - m) for |n - m| <= clip_distance.  Errors: EINVAL (too many rows), ENOMEM. */
gyre_status gyre_distance_map_make(gyre_encoding *encoding, int64_t clip_distance,
                                   int64_t (*row)(const gyre_encoding *, int64_t distance), gyre_error *err);
/* EINVAL if config.score.terms asks for a table on a side that is not in `known` (GYRE_TERM_*). */
gyre_status gyre_terms_check(const gyre_encoding *encoding, unsigned known, gyre_error *err);
/* Declares the vector tables of the sides in `terms`, [heads][rows][head_dim] each; rows 0 = they are not trained. */
void gyre_vector_tables_declare(gyre_encoding *encoding, unsigned terms, int64_t heads, int64_t rows);

/* bias_row and bias_row_gradient of a scheme whose bias is bias[r][head], r the row of the distance. */
void gyre_table_bias_row(const gyre_encoding *encoding, const gyre_tables *tables, const gyre_bias_row *row, double *out);
void gyre_table_bias_row_gradient(const gyre_encoding *encoding, const gyre_tables *tables, const gyre_bias_row *row,
                                  const double *dscore, const gyre_view *gradient, int64_t column);

/* out = count ln(distance / unit) / ln(last / unit), which is `count` at distance `last`: the place of a distance among
 * `count` buckets of logarithmic size.  A value that is a whole number is exactly that; two logarithms in double would
 * miss some by a rounding, on either side. */
double gyre_log_bucket(int64_t distance, int64_t unit, int64_t last, int64_t count);

#endif
