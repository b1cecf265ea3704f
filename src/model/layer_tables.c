/* layer_tables.c: tables in the weights, and tables made from an embedding of positions. */
#include "model/layer_tables.h"

#include "model/layers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* -- which tables ------------------------------------------------------------------------------------------------------ */
static int part_of(gyre_table which) {
    return GYRE_POSITION_TABLES + (int)which - GYRE_TABLE_QUERY;
}

/* 1: the table is a product. */
static int is_made(const gyre_layer_tables *t, gyre_table which) {
    return t->encoding->table[which].rows > 0 && gyre_is_projected(t->model->layout.source) && which <= GYRE_TABLE_VALUE;
}

/* The tensor of a table: its own, or the one it shares. */
static int tensor_of(const gyre_layer_tables *t, gyre_table which) {
    const int shared = which == GYRE_TABLE_KEY && !t->model->layout.layer[part_of(which)].name;
    return part_of(shared ? GYRE_TABLE_QUERY : which);
}

static gyre_linear projection(const gyre_layer_tables *t, int64_t layer, gyre_table which) {
    const gyre_model *m = t->model;
    const gyre_table_size *size = &t->encoding->table[which];
    return (gyre_linear){m->weights + gyre_layer_offset(&m->layout, layer, tensor_of(t, which)), t->rows, m->config.width,
                         size->heads * size->channels};
}

static const float *embedding(const gyre_layer_tables *t) {
    return t->fixed ? t->fixed : t->model->weights + t->model->layout.positions.offset;
}

static gyre_status fail_fit(const gyre_model *model, const gyre_encoding *encoding, gyre_table which, gyre_error *err) {
    static const char *const names[GYRE_TABLES] = {"input", "query",        "key",          "value",
                                                   "bias",  "content bias", "position bias"};
    const gyre_table_size *has = &model->encoding->table[which], *wants = &encoding->table[which];
    const char *of = gyre_kind_name(encoding->config.kind);
    if (has->rows == 0)
        return gyre_fail(err, GYRE_EINVAL,
                         "encoding: %s has a table (%s) that the model, trained with %s, has not (context)", of,
                         names[which], gyre_kind_name(model->encoding->config.kind));
    return gyre_fail(
        err, GYRE_EINVAL,
        "encoding: the table of %s (%s) has %lld x %lld x %lld numbers where the model's has %lld x %lld x %lld "
        "(context)",
        of, names[which], (long long)wants->heads, (long long)wants->rows, (long long)wants->channels, (long long)has->heads,
        (long long)has->rows, (long long)has->channels);
}

/* A sinusoid can be asked for rows that no training saw. */
static gyre_status check_fit(const gyre_model *model, const gyre_encoding *encoding, gyre_error *err) {
    for (int which = 0; which < GYRE_TABLES; which++) {
        const gyre_table_size *has = &model->encoding->table[which], *wants = &encoding->table[which];
        const int any_rows = model->layout.source == GYRE_ROWS_SINUSOID && encoding->scheme == model->encoding->scheme &&
                             which >= GYRE_TABLE_QUERY && which <= GYRE_TABLE_VALUE && has->rows > 0;
        if (wants->rows == 0) continue;
        if (has->heads != wants->heads || has->channels != wants->channels || (has->rows != wants->rows && !any_rows))
            return fail_fit(model, encoding, (gyre_table)which, err);
    }
    return GYRE_OK;
}

/* -- views ------------------------------------------------------------------------------------------------------------- */
/* Table `which` of a layer, in memory laid out as the weights and as the products are. */
static gyre_view view_of(const gyre_layer_tables *t, int64_t layer, gyre_table which, float *weights, float *made) {
    const gyre_table_size *size = &t->encoding->table[which];
    if (size->rows == 0) return gyre_dense(NULL, GYRE_F32, 0, 0, 0, 0);
    if (!is_made(t, which))
        return gyre_dense(weights + gyre_layer_offset(&t->model->layout, layer, tensor_of(t, which)), GYRE_F32, 1,
                          size->heads, size->rows, size->channels);
    made += layer * t->made_count;
    for (int before = GYRE_TABLE_QUERY; before < (int)which; before++)
        made += is_made(t, (gyre_table)before) ? t->rows * t->encoding->table[before].heads * size->channels : 0;
    gyre_view view = gyre_dense(made, GYRE_F32, 1, size->heads, size->rows, size->channels);
    view.stride[1] = size->channels; /* a row of the product holds the heads side by side */
    view.stride[2] = size->heads * size->channels;
    return view;
}

static gyre_table_gradients views_of(const gyre_layer_tables *t, int64_t layer, float *weights, float *made) {
    return (gyre_table_gradients){.query = view_of(t, layer, GYRE_TABLE_QUERY, weights, made),
                                  .key = view_of(t, layer, GYRE_TABLE_KEY, weights, made),
                                  .value = view_of(t, layer, GYRE_TABLE_VALUE, weights, made),
                                  .bias = view_of(t, layer, GYRE_TABLE_BIAS, weights, made),
                                  .content_bias = view_of(t, layer, GYRE_TABLE_CONTENT_BIAS, weights, made),
                                  .position_bias = view_of(t, layer, GYRE_TABLE_POSITION_BIAS, weights, made)};
}

gyre_table_gradients gyre_layer_table_gradients(const gyre_layer_tables *t, int64_t layer, float *gradient, float *dmade) {
    return views_of(t, layer, gradient, dmade);
}

/* -- products ---------------------------------------------------------------------------------------------------------- */
static void refresh_layer(void *arg, int64_t layer) {
    const gyre_layer_tables *t = arg;
    float *made = t->made + layer * t->made_count;
    for (int which = GYRE_TABLE_QUERY; which <= GYRE_TABLE_VALUE; which++) {
        if (!is_made(t, (gyre_table)which)) continue;
        const gyre_linear l = projection(t, layer, (gyre_table)which);
        gyre_linear_forward(&l, embedding(t), 0, made);
        made += l.rows * l.out;
    }
}

void gyre_layer_tables_refresh(gyre_layer_tables *t, const gyre_exec *exec) {
    if (t->made_count > 0) gyre_parallel(exec, refresh_layer, t, t->model->config.layers);
}

void gyre_layer_tables_backward(const gyre_layer_tables *t, float *dmade, float *gradient) {
    const gyre_weight_layout *layout = &t->model->layout;
    if (t->made_count == 0) return;
    float *at = dmade;
    for (int64_t layer = 0; layer < layout->layers; layer++)
        for (int which = GYRE_TABLE_QUERY; which <= GYRE_TABLE_VALUE; which++) {
            if (!is_made(t, (gyre_table)which)) continue;
            const gyre_linear l = projection(t, layer, (gyre_table)which);
            float *dw = gradient + gyre_layer_offset(layout, layer, tensor_of(t, (gyre_table)which));
            gyre_linear_weight_gradient(&l, embedding(t), at, dw);
            if (!t->fixed) gyre_linear_input_gradient(&l, at, 1, gradient + layout->positions.offset);
            at += l.rows * l.out;
        }
    memset(dmade, 0, (size_t)(layout->layers * t->made_count) * sizeof *dmade);
}

/* -- making ------------------------------------------------------------------------------------------------------------ */
/* Row r of the sinusoid is that of the distance m - n nearest to 0 that has it: rows past a clipping distance stand for it.
 * A row that no distance has may be anything. */
static void fill_sinusoid(const gyre_layer_tables *t) {
    const int64_t width = t->model->config.width, pairs = (width + 1) / 2;
    const gyre_row_map *map = &t->encoding->map;
    for (int64_t d = map->reach; d >= 0; d--) { /* nearer ones overwrite; a whole number below 2^24 is exact */
        t->fixed[gyre_row_at(map, d) * width] = (float)-d;
        t->fixed[gyre_row_at(map, -d) * width] = (float)d;
    }
    for (int64_t r = 0; r < t->rows; r++) {
        const double distance = (double)t->fixed[r * width];
        for (int64_t c = 0; c < width; c++) {
            const double angle = distance * pow(10000, -2 * (double)(c % pairs) / (double)width);
            t->fixed[r * width + c] = (float)(c < pairs ? sin(angle) : cos(angle));
        }
    }
}

static gyre_status allocate(gyre_layer_tables *t) {
    const int64_t layers = t->model->config.layers;
    for (int which = GYRE_TABLE_QUERY; which <= GYRE_TABLE_VALUE; which++) {
        const gyre_table_size *size = &t->encoding->table[which];
        if (!is_made(t, (gyre_table)which)) continue;
        t->rows = size->rows;
        t->made_count += size->rows * size->heads * size->channels;
    }
    t->layer = calloc((size_t)layers, sizeof *t->layer);
    if (!t->layer) return GYRE_ENOMEM;
    if (t->made_count == 0) return GYRE_OK;
    if (t->made_count > INT64_MAX / (int64_t)sizeof(float) / layers) return GYRE_ENOMEM;
    t->made = gyre_floats(layers * t->made_count);
    if (!t->made) return GYRE_ENOMEM;
    if (t->model->layout.source != GYRE_ROWS_SINUSOID) return GYRE_OK;
    t->fixed = gyre_floats(t->rows * t->model->config.width);
    return t->fixed ? GYRE_OK : GYRE_ENOMEM;
}

gyre_status gyre_layer_tables_create(gyre_layer_tables *t, const gyre_model *model, const gyre_encoding *encoding,
                                     gyre_error *err) {
    *t = (gyre_layer_tables){.model = model, .encoding = encoding};
    gyre_status status = check_fit(model, encoding, err);
    if (status != GYRE_OK) return status;
    status = allocate(t);
    if (status != GYRE_OK) {
        gyre_layer_tables_free(t);
        return gyre_fail(err, status, "tables: out of memory for those of %lld layers", (long long)model->config.layers);
    }
    if (t->fixed) fill_sinusoid(t);
    gyre_layer_tables_refresh(t, NULL);
    for (int64_t l = 0; l < model->config.layers; l++) {
        const gyre_table_gradients v = views_of(t, l, model->weights, t->made);
        t->layer[l] = (gyre_tables){.input = gyre_cdense(NULL, GYRE_F32, 0, 0, 0, 0),
                                    .query = gyre_const(v.query),
                                    .key = gyre_const(v.key),
                                    .value = gyre_const(v.value),
                                    .bias = gyre_const(v.bias),
                                    .content_bias = gyre_const(v.content_bias),
                                    .position_bias = gyre_const(v.position_bias)};
    }
    return GYRE_OK;
}

void gyre_layer_tables_free(gyre_layer_tables *t) {
    free(t->layer);
    free(t->fixed);
    free(t->made);
    *t = (gyre_layer_tables){0};
}
