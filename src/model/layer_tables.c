#include "model/layer_tables.h"
#include "core/exec.h"
#include "util/error.h"
#include "util/integers.h"

#include "model/ops/float_buffer.h"
#include "model/ops/linear.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_REFRESH_JOBS = 8 };

/* -- which tables -- */
static int table_tensor(gyre_table which) {
    return GYRE_WEIGHT_FIRST_TABLE + (int)which - GYRE_TABLE_QUERY;
}

/* 1: the table is P W^T. */
static int is_projected(const gyre_layer_tables *t, gyre_table which) {
    return t->encoding->table[which].rows > 0 && gyre_is_projected(t->model->layout.row_source) && which <= GYRE_TABLE_VALUE;
}

/* out = the tensor of a table.  A key table without its own tensor shares that of the query table. */
static int source_tensor(const gyre_layer_tables *t, gyre_table which) {
    const int shared = which == GYRE_TABLE_KEY && !t->model->layout.layer[table_tensor(which)].name;
    return table_tensor(shared ? GYRE_TABLE_QUERY : which);
}

static gyre_linear projection(const gyre_layer_tables *t, int64_t layer, gyre_table which) {
    const gyre_model *m = t->model;
    const gyre_table_size *size = &t->encoding->table[which];
    return (gyre_linear){m->weights + gyre_layer_tensor_offset(&m->layout, layer, source_tensor(t, which)), t->rows,
                         m->config.model_dim, size->heads * size->channels};
}

static const float *position_embedding(const gyre_layer_tables *t) {
    return t->sinusoid ? t->sinusoid : t->model->weights + t->model->layout.relative_embedding.offset;
}

static gyre_status fail_mismatch(const gyre_model *model, const gyre_encoding *encoding, gyre_table which, gyre_error *err) {
    static const char *const names[GYRE_TABLE_COUNT] = {"input", "query",        "key",          "value",
                                                        "bias",  "content bias", "position bias"};
    const gyre_table_size *has = &model->encoding->table[which], *wants = &encoding->table[which];
    const char *kind = gyre_kind_name(encoding->config.kind);
    if (has->rows == 0)
        return gyre_fail(err, GYRE_EINVAL,
                         "encoding: %s needs a table (%s) that the model, trained with %s, does not have (context)", kind,
                         names[which], gyre_kind_name(model->encoding->config.kind));
    return gyre_fail(
        err, GYRE_EINVAL,
        "encoding: the table of %s (%s) has %lld x %lld x %lld numbers where the model's has %lld x %lld x %lld "
        "(context)",
        kind, names[which], (long long)wants->heads, (long long)wants->rows, (long long)wants->channels,
        (long long)has->heads, (long long)has->rows, (long long)has->channels);
}

/* A sinusoid can be extended to any number of rows, so theirs may differ. */
static gyre_status check_compatible(const gyre_model *model, const gyre_encoding *encoding, gyre_error *err) {
    for (int which = 0; which < GYRE_TABLE_COUNT; which++) {
        const gyre_table_size *has = &model->encoding->table[which], *wants = &encoding->table[which];
        const int any_rows = model->layout.row_source == GYRE_ROW_SOURCE_SINUSOID &&
                             encoding->scheme == model->encoding->scheme && which >= GYRE_TABLE_QUERY &&
                             which <= GYRE_TABLE_VALUE && has->rows > 0;
        if (wants->rows == 0) continue;
        if (has->heads != wants->heads || has->channels != wants->channels || (has->rows != wants->rows && !any_rows))
            return fail_mismatch(model, encoding, (gyre_table)which, err);
    }
    return GYRE_OK;
}

/* -- views -- */
/* out = a table of a layer inside `weights`, laid out as the weights, or inside `projected`, [layers][projected_count]. */
static gyre_view table_view(const gyre_layer_tables *t, int64_t layer, gyre_table which, float *weights, float *projected) {
    const gyre_table_size *size = &t->encoding->table[which];
    if (size->rows == 0) return gyre_dense(NULL, GYRE_DTYPE_F32, 0, 0, 0, 0);
    if (!is_projected(t, which))
        return gyre_dense(weights + gyre_layer_tensor_offset(&t->model->layout, t->model->config.shared_tables ? 0 : layer,
                                                             source_tensor(t, which)),
                          GYRE_DTYPE_F32, 1, size->heads, size->rows, size->channels);
    projected += layer * t->projected_count;
    for (int before = GYRE_TABLE_QUERY; before < (int)which; before++)
        projected += is_projected(t, (gyre_table)before) ? t->rows * t->encoding->table[before].heads * size->channels : 0;
    gyre_view view = gyre_dense(projected, GYRE_DTYPE_F32, 1, size->heads, size->rows, size->channels);
    view.stride[1] = size->channels; /* a row of the product holds all heads side by side */
    view.stride[2] = size->heads * size->channels;
    return view;
}

static gyre_table_gradients table_views(const gyre_layer_tables *t, int64_t layer, float *weights, float *projected) {
    return (gyre_table_gradients){.query = table_view(t, layer, GYRE_TABLE_QUERY, weights, projected),
                                  .key = table_view(t, layer, GYRE_TABLE_KEY, weights, projected),
                                  .value = table_view(t, layer, GYRE_TABLE_VALUE, weights, projected),
                                  .bias = table_view(t, layer, GYRE_TABLE_BIAS, weights, projected),
                                  .content_bias = table_view(t, layer, GYRE_TABLE_CONTENT_BIAS, weights, projected),
                                  .position_bias = table_view(t, layer, GYRE_TABLE_POSITION_BIAS, weights, projected)};
}

gyre_table_gradients gyre_layer_table_gradients(const gyre_layer_tables *t, int64_t layer, float *gradient,
                                                float *dprojected) {
    return table_views(t, layer, gradient, dprojected);
}

/* -- products -- */
static void refresh_layer(const gyre_layer_tables *t, const gyre_linear_work *work, int64_t layer) {
    float *table = t->projected + layer * t->projected_count;
    for (int which = GYRE_TABLE_QUERY; which <= GYRE_TABLE_VALUE; which++) {
        if (!is_projected(t, (gyre_table)which)) continue;
        const gyre_linear l = projection(t, layer, (gyre_table)which);
        gyre_linear_forward(&l, work, position_embedding(t), 0, table);
        table += l.rows * l.out;
    }
}

/* Layers job, job + jobs, ... */
static void refresh_layers(void *arg, int64_t job) {
    const gyre_layer_tables *t = arg;
    const gyre_linear_work work = {gyre_kernels_beside(t->encoding->kernels), t->scratch + job * t->scratch_floats};
    for (int64_t layer = job; layer < t->model->config.layers; layer += t->jobs)
        refresh_layer(t, &work, layer);
}

void gyre_layer_tables_refresh(gyre_layer_tables *t, const gyre_exec *exec) {
    if (t->projected_count > 0) gyre_parallel(exec, refresh_layers, t, t->jobs);
}

void gyre_layer_tables_backward(const gyre_layer_tables *t, const gyre_linear_work *work, float *dprojected,
                                float *gradient) {
    const gyre_weight_layout *layout = &t->model->layout;
    if (t->projected_count == 0) return;
    float *at = dprojected;
    for (int64_t layer = 0; layer < layout->layers; layer++)
        for (int which = GYRE_TABLE_QUERY; which <= GYRE_TABLE_VALUE; which++) {
            if (!is_projected(t, (gyre_table)which)) continue;
            const gyre_linear l = projection(t, layer, (gyre_table)which);
            float *dw = gradient + gyre_layer_tensor_offset(layout, layer, source_tensor(t, (gyre_table)which));
            gyre_linear_weight_gradient(&l, work, position_embedding(t), at, dw);
            if (!t->sinusoid) gyre_linear_input_gradient(&l, work, at, 1, gradient + layout->relative_embedding.offset);
            at += l.rows * l.out;
        }
    memset(dprojected, 0, (size_t)(layout->layers * t->projected_count) * sizeof *dprojected);
}

/* -- creation -- */
/* Row r of the sinusoid belongs to the distance m - n nearest to 0 that maps to r, since distances past the clipping
 * distance share its row.  Rows that no distance maps to are left arbitrary. */
static void fill_sinusoid(const gyre_layer_tables *t) {
    const int64_t dim = t->model->config.model_dim, pairs = (dim + 1) / 2;
    const gyre_distance_map *map = &t->encoding->distance_map;
    for (int64_t d = map->clip_distance; d >= 0;
         d--) { /* nearer distances overwrite; a float holds them exactly below 2^24 */
        t->sinusoid[gyre_distance_map_row(map, d) * dim] = (float)-d;
        t->sinusoid[gyre_distance_map_row(map, -d) * dim] = (float)d;
    }
    for (int64_t r = 0; r < t->rows; r++) {
        const double distance = (double)t->sinusoid[r * dim];
        for (int64_t c = 0; c < dim; c++) {
            const double angle = distance * pow(10000, -2 * (double)(c % pairs) / (double)dim);
            t->sinusoid[r * dim + c] = (float)(c < pairs ? sin(angle) : cos(angle));
        }
    }
}

/* Each job has its own scratch, up to a megabyte, so there are few. */
static gyre_status allocate_scratch(gyre_layer_tables *t) {
    t->jobs = gyre_min_i64(t->model->config.layers, MAX_REFRESH_JOBS);
    t->scratch_floats = gyre_linear_scratch(t->rows, t->model->config.model_dim);
    if (t->scratch_floats > INT64_MAX / t->jobs) return GYRE_ENOMEM;
    t->scratch = gyre_alloc_floats(t->jobs * t->scratch_floats);
    return t->scratch ? GYRE_OK : GYRE_ENOMEM;
}

static gyre_status allocate(gyre_layer_tables *t) {
    const int64_t layers = t->model->config.layers;
    for (int which = GYRE_TABLE_QUERY; which <= GYRE_TABLE_VALUE; which++) {
        const gyre_table_size *size = &t->encoding->table[which];
        if (!is_projected(t, (gyre_table)which)) continue;
        t->rows = size->rows;
        t->projected_count += size->rows * size->heads * size->channels;
    }
    t->layer = calloc((size_t)layers, sizeof *t->layer);
    if (!t->layer) return GYRE_ENOMEM;
    if (t->projected_count == 0) return GYRE_OK;
    if (t->projected_count > INT64_MAX / (int64_t)sizeof(float) / layers) return GYRE_ENOMEM;
    t->projected = gyre_alloc_floats(layers * t->projected_count);
    if (!t->projected || allocate_scratch(t)) return GYRE_ENOMEM;
    if (t->model->layout.row_source != GYRE_ROW_SOURCE_SINUSOID) return GYRE_OK;
    t->sinusoid = gyre_alloc_floats(t->rows * t->model->config.model_dim);
    return t->sinusoid ? GYRE_OK : GYRE_ENOMEM;
}

gyre_status gyre_layer_tables_create(gyre_layer_tables *t, const gyre_model *model, const gyre_encoding *encoding,
                                     gyre_error *err) {
    *t = (gyre_layer_tables){.model = model, .encoding = encoding};
    gyre_status status = check_compatible(model, encoding, err);
    if (status) return status;
    status = allocate(t);
    if (status) {
        gyre_layer_tables_free(t);
        return gyre_fail(err, status, "tables: out of memory for those of %lld layers", (long long)model->config.layers);
    }
    if (t->sinusoid) fill_sinusoid(t);
    gyre_layer_tables_refresh(t, NULL);
    for (int64_t l = 0; l < model->config.layers; l++) {
        const gyre_table_gradients v = table_views(t, l, model->weights, t->projected);
        t->layer[l] = (gyre_tables){.input = gyre_cdense(NULL, GYRE_DTYPE_F32, 0, 0, 0, 0),
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
    free(t->sinusoid);
    free(t->projected);
    free(t->scratch);
    *t = (gyre_layer_tables){0};
}
