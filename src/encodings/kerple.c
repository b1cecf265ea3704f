/* kerple.c: KERPLE: a trained decay of the score with distance d: -r1 ln(1 + r2 d) or -r1 d^r2, with r1 and r2 for each
 * head.  The paper keeps both above 0, and r2 of the power at 2 or less.  The trainer enforces these bounds
 * (table_entry). */
#include "core/convert.h"
#include "core/encoding.h"
#include "core/relative_table.h"
#include "core/view.h"
#include "encodings/schemes.h"
#include "util/error.h"

#include <math.h>
#include <stdlib.h>

static gyre_status init(gyre_encoding *encoding, gyre_error *err) {
    if (encoding->config.heads == 0)
        return gyre_fail(err, GYRE_EINVAL, "heads: missing; KERPLE has two numbers for each (gyre_config)");
    const gyre_status status = gyre_terms_check(encoding, 0, err);
    if (status) return status;
    encoding->table[GYRE_TABLE_BIAS] = (gyre_table_size){1, 2, encoding->config.heads};
    return GYRE_OK;
}

static void read_head(const gyre_tables *tables, int64_t head, double r[2]) {
    const gyre_cview *bias = &tables->bias;
    gyre_load_row_f64(gyre_cview_at(bias, 0, 0, 0, head), bias->dtype, bias->stride[2], 2, r);
}

static void bias_row(const gyre_encoding *encoding, const gyre_tables *tables, const gyre_bias_row *row, double *out) {
    double r[2];
    read_head(tables, row->head, r);
    for (int64_t j = 0; j < row->n; j++) {
        const double d = (double)llabs(row->q - row->k[j]);
        out[j] = encoding->config.score.decay == GYRE_DECAY_LOG ? -r[0] * log1p(r[1] * d) : -r[0] * pow(d, r[1]);
    }
}

static void bias_row_gradient(const gyre_encoding *encoding, const gyre_tables *tables, const gyre_bias_row *row,
                              const double *dscore, const gyre_view *gradient, int64_t column) {
    double r[2], sum[2];
    void *at = gyre_view_at(gradient, 0, 0, 0, column);
    read_head(tables, row->head, r);
    gyre_load_row_f64(at, gradient->dtype, gradient->stride[2], 2, sum);
    for (int64_t j = 0; j < row->n; j++) {
        const double d = (double)llabs(row->q - row->k[j]);
        if (encoding->config.score.decay == GYRE_DECAY_LOG) {
            sum[0] -= dscore[j] * log1p(r[1] * d);
            sum[1] -= dscore[j] * r[0] * d / (1 + r[1] * d);
        } else {
            const double power = pow(d, r[1]);
            sum[0] -= dscore[j] * power;
            if (d > 0) sum[1] -= dscore[j] * r[0] * power * log(d);
        }
    }
    gyre_store_row_f64(sum, 2, at, gradient->dtype, gradient->stride[2]);
}

/* The authors' code draws r1 of the logarithm from (0, 2) and r2 from (0, 1), and for the power the other way round, and
 * keeps all at 0.01 or more.  Here the heads are spread evenly over those ranges, so that they differ from the first step
 * on, as ALiBi's do. */
static void table_entry(const gyre_encoding *encoding, gyre_table which, int64_t row, int64_t channel,
                        gyre_table_entry *entry) {
    (void)which;
    const double heads = (double)encoding->config.heads;
    const int power = encoding->config.score.decay == GYRE_DECAY_POWER, wide = power ? row == 1 : row == 0;
    entry->initial_mean = (wide ? 2 : 1) * (heads - (double)channel - 0.5) / heads;
    entry->initial_deviation = 0;
    entry->minimum = 0.01;
    if (power && row == 1) entry->maximum = 2;
}

const gyre_scheme gyre_scheme_kerple = {.kind = GYRE_KIND_KERPLE,
                                        .places = GYRE_PLACE_SCORE,
                                        .init = init,
                                        .decays = 1,
                                        .bias_row = bias_row,
                                        .bias_row_gradient = bias_row_gradient,
                                        .table_entry = table_entry};
