/* layer_tables.h: the position tables of every layer, as views that attention takes.
 *
 * Most tables are weights.  Some schemes project a table from an embedding of positions: table = P W^T, where P
 * [rows][model_dim] is that embedding and W [heads head_dim][model_dim] is a weight of the layer.  The product is
 * computed once after each change of the weights, not once per sequence.  Its gradient is summed in the shape of the
 * table, and passed on through the product once. */
#ifndef GYRE_MODEL_LAYER_TABLES_H
#define GYRE_MODEL_LAYER_TABLES_H
#include "model/model.h"
#include "model/ops/linear.h"

typedef struct gyre_layer_tables {
    const gyre_model *model;
    const gyre_encoding *encoding;
    gyre_tables *layer;      /* [layers] */
    int64_t rows;            /* of P */
    int64_t projected_count; /* floats of the projected tables of one layer; 0 = nothing is projected */
    float *sinusoid;         /* [rows][model_dim] P, if it is fixed; NULL = P is a weight */
    float *projected;        /* [layers][projected_count] */
    float *scratch;          /* [jobs][scratch_floats] of the products */
    int64_t scratch_floats;
    int64_t jobs; /* of a refresh, each for every jobs-th layer */
} gyre_layer_tables;

/* encoding: the model's own, or one whose tables have the same shapes (a fixed P may have another number of rows).  Any
 * other is EINVAL.  Borrows the model and the encoding.  Computes all products. */
gyre_status gyre_layer_tables_create(gyre_layer_tables *t, const gyre_model *model, const gyre_encoding *encoding,
                                     gyre_error *err);
void gyre_layer_tables_free(gyre_layer_tables *t);
/* Computes the products again, after the weights have changed. */
void gyre_layer_tables_refresh(gyre_layer_tables *t, const gyre_exec *exec);

/* out = where the gradients to the tables of a layer go: into `gradient`, laid out as the weights, and for projected
 * tables into `dprojected`, [layers][projected_count]. */
gyre_table_gradients gyre_layer_table_gradients(const gyre_layer_tables *t, int64_t layer, float *gradient,
                                                float *dprojected);
/* gradient += gradients to W and P, from those to the projected tables.  Sets dprojected to zero. */
void gyre_layer_tables_backward(const gyre_layer_tables *t, const gyre_linear_work *work, float *dprojected,
                                float *gradient);

#endif
