/* bias.c: the score place, b(head, m, n) added to scores that lie in memory. */
#include "core/convert.h"
#include "core/encoding.h"
#include "core/view.h"

enum { KEY_CHUNK = 256 };

typedef struct biasing {
    const gyre_encoding *encoding;
    const gyre_tables *tables;
    const gyre_positions *queries, *keys;
    const gyre_view *scores;
} biasing;

/* One query of one batch row, all heads, all keys. */
static void add_row(void *arg, int64_t row) {
    const biasing *a = arg;
    const int64_t b = row / a->scores->shape[1], q = row % a->scores->shape[1], keys = a->scores->shape[3];
    int64_t query, key[KEY_CHUNK];
    double bias[KEY_CHUNK], x[KEY_CHUNK];
    gyre_positions_read(a->queries, b, q, 1, &query);
    for (int64_t first = 0; first < keys; first += KEY_CHUNK) {
        const int64_t count = keys - first < KEY_CHUNK ? keys - first : KEY_CHUNK;
        gyre_positions_read(a->keys, b, first, count, key);
        for (int64_t h = 0; h < a->scores->shape[2]; h++) {
            void *scores = gyre_view_at(a->scores, b, q, h, first);
            a->encoding->scheme->score_row(a->encoding, a->tables, h, query, key, count, bias);
            gyre_load_row_f64(scores, a->scores->dtype, a->scores->stride[3], count, x);
            for (int64_t j = 0; j < count; j++)
                x[j] += bias[j];
            gyre_store_row_f64(x, count, scores, a->scores->dtype, a->scores->stride[3]);
        }
    }
}

gyre_status gyre_bias_add(const gyre_encoding *encoding, const gyre_tables *tables, const gyre_positions *queries,
                          const gyre_positions *keys, const gyre_view *scores, const gyre_exec *exec) {
    if (!encoding || !queries || !keys || !scores) return GYRE_EINVAL;
    if (!encoding->scheme->score_row) return GYRE_EUNSUPPORTED;
    if (!gyre_is_real(scores->dtype)) return GYRE_EDTYPE;
    gyre_status status = gyre_output_check(scores);
    if (status != GYRE_OK) return status;
    if (scores->shape[2] != encoding->config.heads) return GYRE_ESHAPE;
    if (gyre_view_elements(scores->shape) == 0) return GYRE_OK;
    status = gyre_positions_check(encoding, queries, scores->shape[0], scores->shape[1]);
    if (status == GYRE_OK) status = gyre_positions_check(encoding, keys, scores->shape[0], scores->shape[3]);
    if (status != GYRE_OK) return status;
    biasing a = {encoding, tables, queries, keys, scores};
    gyre_parallel(exec, add_row, &a, scores->shape[0] * scores->shape[1]);
    return GYRE_OK;
}
