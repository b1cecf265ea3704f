/* eval_products.c: what products of numbers rounded to bf16 cost, against products of floats. */
#include "tools/eval/eval.h"
#include <math.h>

/* The first cell of the first text that has its figures, *row and *column.  out = NULL: there is none. */
static const eval_cell *first_known(const evaluation *e, int64_t *row, int64_t *column) {
    for (*row = 0; *row < e->rows_count; ++*row)
        for (*column = 0; *column < e->options.contexts.count; ++*column) {
            const eval_cell *c = eval_cell_at(e, 0, *row, *column);
            if (eval_cell_is_known(c)) return c;
        }
    return NULL;
}

int eval_products_measure(evaluation *e) {
    gyre_error err = {0, ""};
    int64_t row, column;
    double nats;
    const eval_cell *cell = first_known(e, &row, &column);
    if (e->options.products == GYRE_PRODUCTS_F32 || !cell || e->stopped) return 0;
    if (eval_cell_loss(e, row, column, GYRE_PRODUCTS_F32, &nats, &err)) return cli_stops(NULL) ? 0 : cli_fail_error(&err);
    e->products_cost = cell->figures.nats - nats;
    e->products_cell = cell;
    return 0;
}

void eval_products_describe(const evaluation *e, char out[EVAL_PRODUCTS_TEXT]) {
    const eval_options *o = &e->options;
    const int64_t at = e->products_cell ? e->products_cell - e->cells : 0;
    *out = 0;
    if (o->products == GYRE_PRODUCTS_F32) return;
    if (!e->products_cell) {
        snprintf(out, EVAL_PRODUCTS_TEXT, "%s", eval_products_names[o->products]);
        return;
    }
    snprintf(out, EVAL_PRODUCTS_TEXT, "%s, %.2g nats per token %s than f32 (%.100s at %lld)",
             eval_products_names[o->products], fabs(e->products_cost), e->products_cost < 0 ? "less" : "more",
             e->rows[at / o->contexts.count].name, (long long)o->contexts.values[at % o->contexts.count]);
}

json_t *eval_products_json(const evaluation *e) {
    return e->products_cell ? JSON(e->products_cost) : json_null();
}
