/* layer_tables.h: the tables of every layer as attention takes them.
 *
 * Most lie in the weights as they are.  Where the papers make a table from an embedding of positions, it is the product P
 * W^T, formed once whenever the weights have changed, not once a sequence; its gradient is gathered in the table's own shape
 * and goes through the product once. */
#ifndef GYRE_MODEL_LAYER_TABLES_H
#define GYRE_MODEL_LAYER_TABLES_H
#include "model/model.h"

typedef struct gyre_layer_tables {
    const gyre_model *model;
    const gyre_encoding *encoding;
    gyre_tables *layer;      /* [layers] */
    int64_t rows;            /* of P */
    int64_t projected_count; /* floats of the products of one layer; 0 = nothing is projected */
    float *sinusoid;         /* [rows][width]: P where nobody trains it */
    float *projected;        /* [layers][projected_count] */
} gyre_layer_tables;

/* encoding: the model's own or one whose tables are the model's in number and shape (a fixed P may have other rows); any
 * other is EINVAL.  All products are formed.  The model and the encoding are borrowed. */
gyre_status gyre_layer_tables_create(gyre_layer_tables *t, const gyre_model *model, const gyre_encoding *encoding,
                                     gyre_error *err);
void gyre_layer_tables_free(gyre_layer_tables *t);
/* Forms the products again, after the weights have changed. */
void gyre_layer_tables_refresh(gyre_layer_tables *t, const gyre_exec *exec);

/* Where gradients to the tables of a layer go: `gradient` is laid out as the weights, `dmade` is
 * [layers][projected_count]. */
gyre_table_gradients gyre_layer_table_gradients(const gyre_layer_tables *t, int64_t layer, float *gradient,
                                                float *dprojected);
/* gradient += those of W and P, from those of the products; dmade is left zero. */
void gyre_layer_tables_backward(const gyre_layer_tables *t, float *dprojected, float *gradient);

#endif
