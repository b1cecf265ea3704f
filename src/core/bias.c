/* bias.c: the score place: adds b(head, m, n) to scores in memory, and its gradient. */
#include "core/convert.h"
#include "core/encoding.h"
#include "core/exec.h"
#include "core/positions.h"
#include "core/scheme.h"
#include "core/sized.h"
#include "core/table_view.h"
#include "core/view.h"
#include "util/error.h"

enum { KEY_CHUNK = 256 };

typedef struct bias_call {
    const gyre_encoding *encoding;
    const gyre_tables *tables;
    const gyre_positions *queries, *keys;
    const gyre_view *scores;
    const gyre_cview *dscores;
    const gyre_view *gradient;
} bias_call;

/* One query of one batch row: all heads, all keys. */
static void add_row(void *arg, int64_t row) {
    const bias_call *a = arg;
    const int64_t b = row / a->scores->shape[1], q = row % a->scores->shape[1], keys = a->scores->shape[3];
    int64_t query, key[KEY_CHUNK];
    double bias[KEY_CHUNK], x[KEY_CHUNK];
    gyre_positions_read(a->queries, b, q, 1, &query);
    for (int64_t first = 0; first < keys; first += KEY_CHUNK) {
        const int64_t count = keys - first < KEY_CHUNK ? keys - first : KEY_CHUNK;
        gyre_positions_read(a->keys, b, first, count, key);
        for (int64_t h = 0; h < a->scores->shape[2]; h++) {
            void *scores = gyre_view_at(a->scores, b, q, h, first);
            const gyre_bias_row keys_of_row = {h, query, key, count, NULL, a->queries->context_length};
            a->encoding->scheme->bias_row(a->encoding, a->tables, &keys_of_row, bias);
            gyre_load_row_f64(scores, a->scores->dtype, a->scores->stride[3], count, x);
            for (int64_t j = 0; j < count; j++)
                x[j] += bias[j];
            gyre_store_row_f64(x, count, scores, a->scores->dtype, a->scores->stride[3]);
        }
    }
}

/* Adds the gradient of head h to column `column` of gradient.  A head has its own column of the table, so heads can run in
 * parallel. */
static void bias_gradient_into(const bias_call *a, int64_t h, const gyre_view *gradient, int64_t column) {
    const int64_t *shape = a->dscores->shape;
    int64_t query, key[KEY_CHUNK];
    double x[KEY_CHUNK];
    for (int64_t row = 0; row < shape[0] * shape[1]; row++) {
        const int64_t b = row / shape[1], q = row % shape[1];
        gyre_positions_read(a->queries, b, q, 1, &query);
        for (int64_t first = 0; first < shape[3]; first += KEY_CHUNK) {
            const int64_t count = shape[3] - first < KEY_CHUNK ? shape[3] - first : KEY_CHUNK;
            const gyre_bias_row keys_of_row = {h, query, key, count, NULL, a->queries->context_length};
            gyre_positions_read(a->keys, b, first, count, key);
            gyre_load_row_f64(gyre_cview_at(a->dscores, b, q, h, first), a->dscores->dtype, a->dscores->stride[3], count, x);
            a->encoding->scheme->bias_row_gradient(a->encoding, a->tables, &keys_of_row, x, gradient, column);
        }
    }
}

/* Sums in double and adds to the table once: a float that counts by ones stops growing at 2^24. */
static void bias_gradient_head(void *arg, int64_t h) {
    enum { MAX_SUMMED_ROWS = 1024 };
    const bias_call *a = arg;
    const int64_t rows = a->gradient->shape[2];
    double sum[MAX_SUMMED_ROWS], before;
    if (rows > MAX_SUMMED_ROWS) {
        bias_gradient_into(a, h, a->gradient, h);
        return;
    }
    for (int64_t r = 0; r < rows; r++)
        sum[r] = 0;
    const gyre_view part = gyre_dense(sum, GYRE_DTYPE_F64, 1, 1, rows, 1);
    bias_gradient_into(a, h, &part, 0);
    for (int64_t r = 0; r < rows; r++) {
        void *at = gyre_view_at(a->gradient, 0, 0, r, h);
        gyre_load_row_f64(at, a->gradient->dtype, 1, 1, &before);
        sum[r] += before;
        gyre_store_row_f64(&sum[r], 1, at, a->gradient->dtype, 1);
    }
}

/* -- the calls -- */

/* The public function, the name of its scores, and where its error goes. */
typedef struct bias_names {
    const char *where, *scores;
    gyre_error *err;
} bias_names;

/* Checks all but positions. */
static gyre_status check(const bias_call *a, const gyre_cview *scores, const bias_names *n) {
    if (!a->encoding || !scores)
        return gyre_fail(n->err, GYRE_EINVAL, "%s: is NULL (%s)", a->encoding ? n->scores : "encoding", n->where);
    if (!a->queries || !a->keys)
        return gyre_fail(n->err, GYRE_EINVAL, "%s: is NULL (%s)", a->queries ? "keys" : "queries", n->where);
    if (!a->encoding->scheme->bias_row)
        return gyre_fail(n->err, GYRE_EUNSUPPORTED, "encoding: %s adds no bias to scores (%s)",
                         gyre_kind_name(a->encoding->scheme->kind), n->where);
    if (!gyre_is_real(scores->dtype))
        return gyre_fail(n->err, GYRE_EDTYPE, "%s: is %s, not F32, F16, BF16 or F64 (%s)", n->scores,
                         gyre_dtype_text(scores->dtype), n->where);
    const gyre_status status = gyre_cview_check(scores, n->scores, n->where, n->err);
    if (status) return status;
    if (scores->shape[2] != a->encoding->config.heads)
        return gyre_fail(n->err, GYRE_ESHAPE, "%s: %" PRId64 " heads, the encoding has %" PRId64 " (%s)", n->scores,
                         scores->shape[2], a->encoding->config.heads, n->where);
    return gyre_table_check(a->encoding, GYRE_TABLE_BIAS, a->tables, n->where, n->err);
}

static gyre_status check_positions(const bias_call *a, const gyre_cview *scores, const bias_names *n) {
    const int64_t *shape = scores->shape;
    const gyre_status status =
        gyre_positions_check(a->encoding, a->queries, shape[0], shape[1], "queries", n->where, n->err);
    gyre_positions keys = *a->keys;
    keys.context_length = a->queries->context_length; /* that of queries is that of the call */
    return status ? status : gyre_positions_check(a->encoding, &keys, shape[0], shape[3], "keys", n->where, n->err);
}

gyre_status gyre_add_bias(const gyre_encoding *encoding, const gyre_add_bias_args *given, const gyre_exec *exec,
                          gyre_error *err) {
    gyre_add_bias_args args;
    if (gyre_sized_read(&args, sizeof args, given, "gyre_add_bias_args", err)) return GYRE_EINVAL;
    const gyre_view *scores = &args.scores;
    const bias_names names = {"gyre_add_bias", "scores", err};
    const gyre_cview scores_in = gyre_const(*scores);
    bias_call a = {encoding, args.tables, args.queries, args.keys, scores, NULL, NULL};
    gyre_status status = check(&a, &scores_in, &names);
    if (!status) status = gyre_output_check(scores, names.scores, names.where, err);
    if (status || gyre_view_elements(scores->shape) == 0) return status;
    status = check_positions(&a, &scores_in, &names);
    if (status) return status;
    gyre_parallel(exec, add_row, &a, scores->shape[0] * scores->shape[1]);
    return GYRE_OK;
}

gyre_status gyre_add_bias_gradient(const gyre_encoding *encoding, const gyre_add_bias_args *given, const gyre_cview *dscores,
                                   const gyre_table_gradients *gradients, const gyre_exec *exec, gyre_error *err) {
    gyre_add_bias_args args;
    if (gyre_sized_read(&args, sizeof args, given, "gyre_add_bias_args", err)) return GYRE_EINVAL;
    const bias_names names = {"gyre_add_bias_gradient", "dscores", err};
    const gyre_view *gradient = gyre_table_gradient_of(gradients, GYRE_TABLE_BIAS);
    bias_call a = {encoding, args.tables, args.queries, args.keys, NULL, dscores, gradient};
    gyre_status status = check(&a, dscores, &names);
    if (!status) status = gyre_table_gradient_check(encoding, GYRE_TABLE_BIAS, gradients, names.where, err);
    if (status || !encoding->scheme->bias_row_gradient) return status;
    if (!gradient || !gradient->data)
        return gyre_fail(err, GYRE_EINVAL, "gradients.bias: missing; the encoding trains one (%s)", names.where);
    if (gyre_view_elements(dscores->shape) == 0) return GYRE_OK;
    status = check_positions(&a, dscores, &names);
    if (status) return status;
    gyre_parallel(exec, bias_gradient_head, &a, dscores->shape[2]);
    return GYRE_OK;
}
