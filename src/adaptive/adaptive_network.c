/* adaptive_network.c: the network, for some rows of a tile of pairs.
 *
 *     u = hidden_bias + hidden_weights x       l = leaky ReLU of u       f = output_bias + output_weights l
 *
 * and back, with ds the gradient to scores:
 *
 *     doutput_weights += ds l^T     dl = output_weights^T ds     du = dl (1 or slope)
 *     dhidden_weights += du x^T     dx = hidden_weights^T du     dA = ds + dx,  dB = dx, + ds where B is added to f */
#include "adaptive/adaptive_network.h"
#include "adaptive/adaptive_tiles.h"
#include "core/convert.h"
#include "core/view.h"

#include <math.h>
#include <string.h>

/* -- its numbers -- */

/* to[i * stride + c] = the last two axes of a view; zeros without memory. */
static void read_matrix(const gyre_cview *view, int64_t rows, int64_t columns, int64_t stride, float *to) {
    for (int64_t i = 0; i < rows; i++)
        if (view->data)
            gyre_load_row(gyre_cview_at(view, 0, 0, i, 0), view->dtype, view->stride[3], columns, to + i * stride);
        else
            for (int64_t c = 0; c < columns; c++)
                to[i * stride + c] = 0;
}

void gyre_adaptive_weights_fill(const gyre_adaptive_plan *plan, char *scratch) {
    const gyre_adaptive_network *n = &plan->args->network;
    const int64_t units = plan->width + 1;
    gyre_adaptive_weights w;
    gyre_adaptive_totals unused;
    gyre_adaptive_shared(plan, scratch, &w, &unused);
    read_matrix(&n->hidden_weights, plan->width, plan->inputs, plan->inputs, w.hidden);
    read_matrix(&n->hidden_bias, 1, plan->width, plan->width, w.hidden_bias);
    read_matrix(&n->output_weights, plan->heads, plan->width, units, w.output);
    gyre_cview bias = n->output_bias; /* a column of the matrix */
    bias.shape[2] = plan->heads;
    bias.stride[2] = bias.stride[3];
    read_matrix(&bias, plan->heads, 1, units, w.output + plan->width);
}

void gyre_adaptive_network_begin(gyre_adaptive_buffers *b) {
    for (int64_t p = 0; p < NETWORK_PAIRS; p++)
        b->hidden[b->plan->width * UNIT_STRIDE + p] = 1;
}

/* -- forward -- */

/* hidden = the leaky ReLUs of units, which the gradient keeps and forward shares the memory of. */
static void run_hidden(gyre_adaptive_buffers *b, const gyre_adaptive_block *block) {
    const gyre_adaptive_plan *plan = b->plan;
    const int64_t n = block->count * KEY_TILE;
    float *units = plan->dout ? b->units : b->hidden;
    const gyre_matmul product = {.m = plan->width,
                                 .n = n,
                                 .k = plan->inputs,
                                 .a = b->weights.hidden,
                                 .a_row_stride = plan->inputs,
                                 .a_col_stride = 1,
                                 .b = b->x + block->first * KEY_TILE,
                                 .b_row_stride = gyre_adaptive_plane(b),
                                 .c = units,
                                 .c_row_stride = UNIT_STRIDE};
    plan->kernels->matmul_f32(&product);
    for (int64_t w = 0; w < plan->width; w++)
        plan->kernels->leaky_relu_row_f32(units + w * UNIT_STRIDE, b->hidden + w * UNIT_STRIDE, n, b->weights.hidden_bias[w],
                                          (float)plan->args->slope);
}

/* scores = the terms added to f. */
static void begin_scores(gyre_adaptive_buffers *b, const gyre_adaptive_block *block) {
    const gyre_adaptive_plan *plan = b->plan;
    const int64_t plane = gyre_adaptive_plane(b), n = block->count * KEY_TILE;
    for (int64_t h = 0; h < plan->heads; h++) {
        const float *products = b->x + h * plane + block->first * KEY_TILE;
        float *scores = b->scores + h * plane + block->first * KEY_TILE;
        if (plan->args->form == GYRE_ADAPTIVE_FORM_CONCAT_RESIDUAL)
            plan->kernels->add_f32(products, scores, products + plan->heads * plane, n);
        else if (scores != products)
            memcpy(scores, products, (size_t)n * sizeof *scores);
    }
}

void gyre_adaptive_scores(gyre_adaptive_buffers *b, int64_t tile, const gyre_adaptive_block *block) {
    const gyre_adaptive_plan *plan = b->plan;
    const int64_t plane = gyre_adaptive_plane(b);
    float *scores = b->scores + block->first * KEY_TILE;
    run_hidden(b, block);
    begin_scores(b, block);
    const gyre_matmul product = {.m = plan->heads,
                                 .n = block->count * KEY_TILE,
                                 .k = plan->width + 1,
                                 .a = b->weights.output,
                                 .a_row_stride = plan->width + 1,
                                 .a_col_stride = 1,
                                 .b = b->hidden,
                                 .b_row_stride = UNIT_STRIDE,
                                 .c = scores,
                                 .c_row_stride = plane,
                                 .accumulate = 1};
    plan->kernels->matmul_f32(&product);
    for (int64_t i = 0; i < block->count; i++) {
        const int64_t seen = gyre_adaptive_seen(b, block->first + i, tile);
        for (int64_t h = 0; h < plan->heads && seen < KEY_TILE; h++)
            for (int64_t j = seen; j < KEY_TILE; j++)
                scores[h * plane + i * KEY_TILE + j] = -INFINITY;
    }
}

/* -- back -- */

/* sums[r][c] += rows[r] . columns[c], each of n numbers. */
typedef struct row_products {
    const float *rows, *columns;
    int64_t row_count, column_count, row_stride, column_stride, n;
} row_products;

static void add_products(const gyre_kernels *kernels, const row_products *p, double *sums) {
    for (int64_t r = 0; r < p->row_count; r++)
        for (int64_t c = 0; c < p->column_count; c++) {
            float sum;
            kernels->dot_row_f32(p->rows + r * p->row_stride, p->columns + c * p->column_stride, p->n, &sum);
            sums[r * p->column_count + c] += (double)sum;
        }
}

/* dunits = output_weights^T dscores, through the ReLU. */
static void hidden_backward(gyre_adaptive_buffers *b, const float *dscores, int64_t n) {
    const gyre_adaptive_plan *plan = b->plan;
    const gyre_matmul product = {.m = plan->width,
                                 .n = n,
                                 .k = plan->heads,
                                 .a = b->weights.output,
                                 .a_row_stride = 1,
                                 .a_col_stride = plan->width + 1,
                                 .b = dscores,
                                 .b_row_stride = gyre_adaptive_plane(b),
                                 .c = b->dunits,
                                 .c_row_stride = UNIT_STRIDE};
    plan->kernels->matmul_f32(&product);
    for (int64_t w = 0; w < plan->width; w++)
        plan->kernels->leaky_relu_gradient_row_f32(b->units + w * UNIT_STRIDE, b->dunits + w * UNIT_STRIDE, n,
                                                   (float)plan->args->slope);
}

/* The sums of a block; x is still what the network read.  The last hidden unit is 1, so products with it are sums. */
static void weights_backward(gyre_adaptive_buffers *b, const float *dscores, const float *x, int64_t n) {
    const gyre_adaptive_plan *plan = b->plan;
    const int64_t plane = gyre_adaptive_plane(b), width = plan->width;
    const float *ones = b->hidden + width * UNIT_STRIDE;
    const row_products output = {dscores, b->hidden, plan->heads, width + 1, plane, UNIT_STRIDE, n};
    const row_products hidden = {b->dunits, x, width, plan->inputs, UNIT_STRIDE, plane, n};
    const row_products hidden_bias = {b->dunits, ones, width, 1, UNIT_STRIDE, 0, n};
    add_products(plan->kernels, &output, b->sums.doutput);
    add_products(plan->kernels, &hidden, b->sums.dhidden);
    add_products(plan->kernels, &hidden_bias, b->sums.dhidden_bias);
}

void gyre_adaptive_scores_backward(gyre_adaptive_buffers *b, const gyre_adaptive_block *block) {
    const gyre_adaptive_plan *plan = b->plan;
    const gyre_adaptive_gradients *to = plan->gradients;
    const int64_t plane = gyre_adaptive_plane(b), n = block->count * KEY_TILE, at = block->first * KEY_TILE;
    const int64_t beside = plan->args->form == GYRE_ADAPTIVE_FORM_CONCAT_RESIDUAL ? 2 * plan->heads : plan->heads;
    const float *dscores = b->dscores + at;
    float *x = b->x + at;
    hidden_backward(b, dscores, n);
    if (to->dhidden_weights.data || to->dhidden_bias.data || to->doutput_weights.data || to->doutput_bias.data)
        weights_backward(b, dscores, x, n);
    const gyre_matmul product = {.m = plan->inputs,
                                 .n = n,
                                 .k = plan->width,
                                 .a = b->weights.hidden,
                                 .a_row_stride = 1,
                                 .a_col_stride = plan->inputs,
                                 .b = b->dunits,
                                 .b_row_stride = UNIT_STRIDE,
                                 .c = x,
                                 .c_row_stride = plane};
    plan->kernels->matmul_f32(&product);
    for (int64_t h = 0; h < beside; h++) {
        float *dx = x + h * plane;
        plan->kernels->add_f32(dx, dx, dscores + h % plan->heads * plane, n);
    }
}
