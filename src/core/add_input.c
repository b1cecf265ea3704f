/* add_input.c: the input place: adds p(position) to each token.
 *
 * Arithmetic is in double with one rounding, except where p is a float already (a cached sinusoid, or an unscaled row of a
 * float table): then it is added in float, by the kernels where the channels are contiguous. */
#include "core/convert.h"
#include "core/encoding.h"
#include "core/exec.h"
#include "core/positions.h"
#include "core/scheme.h"
#include "core/sized.h"
#include "core/table_view.h"
#include "core/view.h"
#include "kernels/places/place_kernels.h"
#include "util/error.h"

#include <inttypes.h>
#include <math.h>

enum {
    CHANNEL_CHUNK = 256,
    TOKEN_CHUNK = 64,
    GRADIENT_CHANNELS = 64,
    SUM_BLOCKS = 64,
    TOKENS_PER_ITEM = 4, /* tokens of one call of the parallel loop */
    MAX_KERNEL_CHANNELS = 8192
};
static const double MIN_PARALLEL_BYTES = 1 << 20; /* below, waking another thread takes longer than the work */

/* Checks the arguments that both calls have; `view` is named `name`. */
static gyre_status check_call(const gyre_encoding *encoding, const gyre_positions *positions, const gyre_cview *view,
                              const char *name, const char *where, gyre_error *err) {
    if (!encoding || !positions || !view)
        return gyre_fail(err, GYRE_EINVAL, "%s: is NULL (%s)",
                         !encoding    ? "encoding"
                         : !positions ? "positions"
                                      : name,
                         where);
    if (!(encoding->scheme->places & GYRE_PLACE_INPUT))
        return gyre_fail(err, GYRE_EUNSUPPORTED, "encoding: %s adds nothing at the input (%s)",
                         gyre_kind_name(encoding->scheme->kind), where);
    if (!gyre_is_real(view->dtype))
        return gyre_fail(err, GYRE_EDTYPE, "%s: is %s, not F32, F16, BF16 or F64 (%s)", name, gyre_dtype_text(view->dtype),
                         where);
    return GYRE_OK;
}

static gyre_status check_shape(const gyre_encoding *encoding, const int64_t shape[4], const char *name, const char *where,
                               gyre_error *err) {
    if (shape[2] == 1 && shape[3] == encoding->config.input.dim) return GYRE_OK;
    return gyre_fail(err, GYRE_ESHAPE, "%s: " GYRE_SHAPE_FORMAT " is not [batch, tokens, 1, input.dim = %" PRId64 "] (%s)",
                     name, GYRE_SHAPE_ARGS(shape), encoding->config.input.dim, where);
}

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* -- forward -- */
typedef struct add_call {
    const gyre_encoding *encoding;
    const gyre_cview *table; /* NULL = none */
    const gyre_positions *positions;
    const gyre_cview *in;
    const gyre_view *out;
    double factor;  /* multiplies the scheme's row */
    int in_float;   /* p is added in float: cached rows, and unscaled rows of a float table.  Never for F64 */
    int contiguous; /* in_float, and all channels are contiguous: the kernels do it */
} add_call;

/* input.scale, times the trained scale where there is one. */
static double factor_of(const gyre_encoding *encoding, const gyre_cview *table) {
    double trained = 1.0;
    if (table && encoding->scheme->input_row) gyre_load_row_f64(table->data, table->dtype, 1, 1, &trained);
    return encoding->config.input.scale * trained;
}

static void load_table_row(const add_call *a, int64_t row, int64_t first, int64_t count, double *out) {
    gyre_load_row_f64(gyre_cview_at(a->table, 0, 0, row, first), a->table->dtype, a->table->stride[3], count, out);
}

/* The first row is not added to 0, which would lose the sign of a -0. */
static void sum_weighted_rows(const add_call *a, int64_t position, int64_t first, int64_t count, double *p) {
    const gyre_weighted_rows weighted = a->encoding->scheme->input_weighted_rows(a->encoding, position);
    double row[CHANNEL_CHUNK];
    load_table_row(a, weighted.row[0], first, count, p);
    for (int64_t c = 0; c < count; c++)
        p[c] *= weighted.weight[0];
    for (int i = 1; i < weighted.count; i++) {
        load_table_row(a, weighted.row[i], first, count, row);
        for (int64_t c = 0; c < count; c++)
            p[c] += weighted.weight[i] * row[c];
    }
}

/* p[c] = factor p(position)[first + c], c < count <= CHANNEL_CHUNK. */
static void make_row(const add_call *a, int64_t position, int64_t first, int64_t count, double *p) {
    if (a->encoding->scheme->input_row)
        a->encoding->scheme->input_row(a->encoding, position, first, count, p);
    else
        sum_weighted_rows(a, position, first, count, p);
    for (int64_t c = 0; c < count; c++)
        if (a->in_float && a->encoding->scheme->input_row) /* rounds as input_row_f32 does */
            p[c] = (double)((float)a->factor * (float)p[c]);
        else
            p[c] *= a->factor;
}

/* 1 if p(position) is a float, so that adding it in float loses nothing. */
static int row_is_float(const add_call *a, int64_t position) {
    if (!a->in_float || a->encoding->scheme->input_row_f32) return a->in_float;
    const gyre_weighted_rows weighted = a->encoding->scheme->input_weighted_rows(a->encoding, position);
    return weighted.count == 1 && weighted.weight[0] == 1;
}

/* out = p(position) in float: a pointer into the table, or into `buffer`. */
static const float *float_row(const add_call *a, int64_t position, float *buffer) {
    const gyre_scheme *scheme = a->encoding->scheme;
    const int64_t dim = a->in->shape[3];
    double p[CHANNEL_CHUNK];
    if (!scheme->input_row_f32)
        return gyre_cview_at(a->table, 0, 0, scheme->input_weighted_rows(a->encoding, position).row[0], 0);
    if (scheme->input_row_f32(a->encoding, position, (float)a->factor, buffer)) return buffer;
    for (int64_t first = 0, count; first < dim; first += count) {
        count = smaller(dim - first, CHANNEL_CHUNK);
        make_row(a, position, first, count, p);
        for (int64_t c = 0; c < count; c++)
            buffer[first + c] = (float)p[c];
    }
    return buffer;
}

/* Contiguous channels: one kernel call.  out = 1, or 0 if p is not a float and add_generic must do the token. */
static int add_contiguous(const add_call *a, int64_t b, int64_t t, int64_t position) {
    float buffer[MAX_KERNEL_CHANNELS];
    if (!row_is_float(a, position)) return 0;
    const gyre_place_kernels *kernels = a->encoding->kernels;
    const float *row = float_row(a, position, buffer);
    const void *in = gyre_cview_at(a->in, b, t, 0, 0);
    void *out = gyre_view_at(a->out, b, t, 0, 0);
    (a->in->dtype == GYRE_DTYPE_F32   ? kernels->add_f32
     : a->in->dtype == GYRE_DTYPE_F16 ? kernels->add_f16
                                      : kernels->add_bf16)(in, out, row, a->in->shape[3]);
    return 1;
}

static int can_add_in_float(const add_call *a) {
    if (a->in->dtype == GYRE_DTYPE_F64) return 0;
    if (a->encoding->scheme->input_row_f32) return a->in->shape[3] <= MAX_KERNEL_CHANNELS;
    return a->table && !a->encoding->scheme->input_row && a->factor == 1 && a->table->dtype == GYRE_DTYPE_F32;
}

/* Strided channels get the same bits as contiguous ones: the sum of two floats, rounded to double and then to float, equals
 * the sum in float. */
static void round_to_float(double *x, int64_t n) {
    for (int64_t c = 0; c < n; c++)
        x[c] = (double)(float)x[c];
}

/* Token t of batch rows batch .. end - 1.  Rows in sequence that share a position share p. */
static void add_generic(const add_call *a, int64_t t, int64_t batch, int64_t end) {
    const int64_t dim = a->in->shape[3];
    double x[CHANNEL_CHUNK], p[CHANNEL_CHUNK];
    for (int64_t first = 0; first < dim; first += CHANNEL_CHUNK) {
        const int64_t count = smaller(dim - first, CHANNEL_CHUNK);
        int64_t position = 0;
        for (int64_t b = batch; b < end; b++) {
            const int64_t previous = position;
            gyre_positions_read(a->positions, b, t, 1, &position);
            if (b == batch || position != previous) make_row(a, position, first, count, p);
            gyre_load_row_f64(gyre_cview_at(a->in, b, t, 0, first), a->in->dtype, a->in->stride[3], count, x);
            for (int64_t c = 0; c < count; c++)
                x[c] += p[c];
            if (row_is_float(a, position)) round_to_float(x, count);
            gyre_store_row_f64(x, count, gyre_view_at(a->out, b, t, 0, first), a->out->dtype, a->out->stride[3]);
        }
    }
}

static void add_tokens(void *arg, int64_t block) {
    const add_call *a = arg;
    const int64_t end = smaller(a->in->shape[1], (block + 1) * TOKENS_PER_ITEM);
    for (int64_t t = block * TOKENS_PER_ITEM; t < end; t++) {
        int64_t position, b = 0;
        for (; a->contiguous && b < a->in->shape[0]; b++) {
            gyre_positions_read(a->positions, b, t, 1, &position);
            if (!add_contiguous(a, b, t, position)) add_generic(a, t, b, b + 1);
        }
        if (!a->contiguous) add_generic(a, t, 0, a->in->shape[0]);
    }
}

gyre_status gyre_add_input(const gyre_encoding *encoding, const gyre_add_input_args *given, const gyre_exec *exec,
                           gyre_error *err) {
    static const char where[] = "gyre_add_input";
    gyre_add_input_args args;
    if (gyre_sized_read(&args, sizeof args, given, "gyre_add_input_args", err)) return GYRE_EINVAL;
    const gyre_tables *tables = args.tables;
    const gyre_positions *positions = args.positions;
    const gyre_cview *in = &args.in;
    const gyre_view *out = &args.out;
    gyre_status status = check_call(encoding, positions, in, "in", where, err);
    if (!status) status = gyre_in_out_check(in, out, where, err);
    if (!status) status = check_shape(encoding, in->shape, "in", where, err);
    if (!status) status = gyre_table_check(encoding, GYRE_TABLE_INPUT, tables, where, err);
    if (status || gyre_view_elements(in->shape) == 0) return status;
    status = gyre_positions_check(encoding, positions, in->shape[0], in->shape[1], "positions", where, err);
    if (!status) status = gyre_in_out_apart_check(in, out, where, err);
    if (status) return status;
    const gyre_cview *table = encoding->table[GYRE_TABLE_INPUT].rows > 0 ? &tables->input : NULL;
    add_call a = {encoding, table, positions, in, out, factor_of(encoding, table), 0, 0};
    a.in_float = can_add_in_float(&a);
    a.contiguous = a.in_float && (encoding->scheme->input_row_f32 || table->stride[3] == 1) && in->stride[3] == 1 &&
                   out->stride[3] == 1;
    const double bytes = (double)gyre_view_elements(in->shape) * (double)gyre_dtype_size(in->dtype);
    gyre_parallel(a.contiguous && bytes < MIN_PARALLEL_BYTES ? NULL : exec, add_tokens, &a,
                  (in->shape[1] + TOKENS_PER_ITEM - 1) / TOKENS_PER_ITEM);
    return GYRE_OK;
}

/* -- gradient -- */
typedef struct add_gradient_call {
    const gyre_encoding *encoding;
    const gyre_positions *positions;
    const gyre_cview *dout;
    const gyre_view *gradient;
    double *sums; /* [SUM_BLOCKS]: partial sums of the gradient to a trained scale */
} add_gradient_call;

/* Adds one token to the gradient of each table row that p(position) is made of. */
static void accumulate_row(const add_gradient_call *a, int64_t b, int64_t t, int64_t position, int64_t first,
                           int64_t count) {
    double x[GRADIENT_CHANNELS], sum[GRADIENT_CHANNELS];
    const gyre_weighted_rows weighted = a->encoding->scheme->input_weighted_rows(a->encoding, position);
    gyre_load_row_f64(gyre_cview_at(a->dout, b, t, 0, first), a->dout->dtype, a->dout->stride[3], count, x);
    for (int i = 0; i < weighted.count; i++) {
        const double weight = weighted.weight[i] * a->encoding->config.input.scale;
        void *row = gyre_view_at(a->gradient, 0, 0, weighted.row[i], first);
        gyre_load_row_f64(row, a->gradient->dtype, a->gradient->stride[3], count, sum);
        for (int64_t c = 0; c < count; c++)
            sum[c] += weight * x[c];
        gyre_store_row_f64(sum, count, row, a->gradient->dtype, a->gradient->stride[3]);
    }
}

/* Work is split by channel, never by token: two tokens may share a row, and the order of their sum must not change. */
static void accumulate_channels(void *arg, int64_t block) {
    const add_gradient_call *a = arg;
    const int64_t tokens = a->dout->shape[1], first = block * GRADIENT_CHANNELS;
    const int64_t count = smaller(a->dout->shape[3] - first, GRADIENT_CHANNELS);
    int64_t positions[TOKEN_CHUNK];
    for (int64_t b = 0; b < a->dout->shape[0]; b++)
        for (int64_t t = 0; t < tokens; t++) {
            if (t % TOKEN_CHUNK == 0) gyre_positions_read(a->positions, b, t, smaller(tokens - t, TOKEN_CHUNK), positions);
            accumulate_row(a, b, t, positions[t % TOKEN_CHUNK], first, count);
        }
}

/* Sum over batch rows of dout . p for token t. */
static double token_sum(const add_gradient_call *a, int64_t t) {
    const int64_t dim = a->dout->shape[3];
    double x[CHANNEL_CHUNK], p[CHANNEL_CHUNK], sum = 0.0;
    for (int64_t first = 0; first < dim; first += CHANNEL_CHUNK) {
        const int64_t count = smaller(dim - first, CHANNEL_CHUNK);
        int64_t position = 0;
        for (int64_t b = 0; b < a->dout->shape[0]; b++) {
            const int64_t previous = position;
            gyre_positions_read(a->positions, b, t, 1, &position);
            if (b == 0 || position != previous) a->encoding->scheme->input_row(a->encoding, position, first, count, p);
            gyre_load_row_f64(gyre_cview_at(a->dout, b, t, 0, first), a->dout->dtype, a->dout->stride[3], count, x);
            for (int64_t c = 0; c < count; c++)
                sum += x[c] * p[c];
        }
    }
    return sum;
}

/* All tokens go into one number.  Block i of SUM_BLOCKS sums a fixed range of tokens; the blocks are then added in order, so
 * the result does not depend on the number of threads. */
static void sum_tokens(void *arg, int64_t block) {
    const add_gradient_call *a = arg;
    const int64_t tokens = a->dout->shape[1], each = tokens / SUM_BLOCKS, remainder = tokens % SUM_BLOCKS;
    const int64_t first = block * each + smaller(block, remainder), end = first + each + (block < remainder);
    double sum = 0.0;
    for (int64_t t = first; t < end; t++)
        sum += token_sum(a, t);
    a->sums[block] = sum;
}

static void accumulate_scale(add_gradient_call *a, const gyre_exec *exec) {
    double sums[SUM_BLOCKS], total = 0.0, gradient;
    a->sums = sums;
    gyre_parallel(exec, sum_tokens, a, SUM_BLOCKS);
    for (int i = 0; i < SUM_BLOCKS; i++)
        total += sums[i];
    gyre_load_row_f64(a->gradient->data, a->gradient->dtype, 1, 1, &gradient);
    gradient += a->encoding->config.input.scale * total;
    gyre_store_row_f64(&gradient, 1, a->gradient->data, a->gradient->dtype, 1);
}

gyre_status gyre_add_input_gradient(const gyre_encoding *encoding, const gyre_positions *positions, const gyre_cview *dout,
                                    const gyre_table_gradients *gradients, const gyre_exec *exec, gyre_error *err) {
    static const char where[] = "gyre_add_input_gradient";
    gyre_status status = check_call(encoding, positions, dout, "dout", where, err);
    if (!status) status = gyre_cview_check(dout, "dout", where, err);
    if (!status) status = check_shape(encoding, dout->shape, "dout", where, err);
    if (status || encoding->table[GYRE_TABLE_INPUT].rows == 0) return status;
    if (!gradients || !gradients->input.data)
        return gyre_fail(err, GYRE_EINVAL, "gradients.input: missing; the encoding trains one (%s)", where);
    status = gyre_table_gradient_check(encoding, GYRE_TABLE_INPUT, gradients, where, err);
    if (status || gyre_view_elements(dout->shape) == 0) return status;
    status = gyre_positions_check(encoding, positions, dout->shape[0], dout->shape[1], "positions", where, err);
    if (status) return status;
    add_gradient_call a = {encoding, positions, dout, &gradients->input, NULL};
    if (encoding->scheme->input_row)
        accumulate_scale(&a, exec);
    else
        gyre_parallel(exec, accumulate_channels, &a, (dout->shape[3] + GRADIENT_CHANNELS - 1) / GRADIENT_CHANNELS);
    return GYRE_OK;
}
