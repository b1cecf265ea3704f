/* adaptive_check.c: all that a call must satisfy. */
#include "adaptive/adaptive_plan.h"
#include "call/call_views.h"
#include "core/encoding.h"
#include "core/positions.h"
#include "core/table_view.h"
#include "core/view.h"
#include "util/error.h"

#include <math.h>

void gyre_adaptive_set_defaults(void *call) {
    gyre_adaptive_args *args = &((gyre_adaptive_call *)call)->args;
    if (args->scale == 0) args->scale = 1 / sqrt((double)(args->q.shape[3] > 0 ? args->q.shape[3] : 1));
    if (args->slope == 0) args->slope = 0.01;
}

/* -- types, shapes and numbers -- */

static gyre_status check_weights(const gyre_cview *view, const int64_t shape[4], int needed, const char *name,
                                 const char *where, gyre_error *err) {
    if (!needed && !view->data) return GYRE_OK;
    const gyre_status status = gyre_call_check_type(view->dtype, GYRE_TYPES_REALS, name, where, err);
    return status ? status : gyre_shape_check(view->shape, shape, name, where, err);
}

static gyre_status check_network(const gyre_adaptive_args *args, const char *where, gyre_error *err) {
    const gyre_adaptive_network *n = &args->network;
    const int64_t heads = args->q.shape[2], width = n->hidden_weights.shape[2];
    if (args->form < GYRE_ADAPTIVE_FORM_CONCAT_RESIDUAL || args->form > GYRE_ADAPTIVE_FORM_ADD_RESIDUAL)
        return gyre_fail(err, GYRE_EINVAL, "form: %d names no form (%s)", (int)args->form, where);
    if (width < 1 || width > GYRE_MAX_CALL_CHANNELS)
        return gyre_fail(err, GYRE_ESHAPE, "hidden_weights: shape[2] = %" PRId64 " is not in 1 .. %d (%s)", width,
                         GYRE_MAX_CALL_CHANNELS, where);
    const int64_t inputs = args->form == GYRE_ADAPTIVE_FORM_ADD_RESIDUAL ? heads : 2 * heads;
    const int64_t hidden[4] = {1, 1, width, inputs}, units[4] = {1, 1, 1, width}, output[4] = {1, 1, heads, width},
                  outputs[4] = {1, 1, 1, heads};
    gyre_status status = check_weights(&n->hidden_weights, hidden, 1, "hidden_weights", where, err);
    if (!status) status = check_weights(&n->hidden_bias, units, 0, "hidden_bias", where, err);
    if (!status) status = check_weights(&n->output_weights, output, 1, "output_weights", where, err);
    return status ? status : check_weights(&n->output_bias, outputs, 0, "output_bias", where, err);
}

static void bias_shape(const gyre_adaptive_args *args, int64_t shape[4]) {
    for (int i = 0; i < 3; i++)
        shape[i] = args->q.shape[i];
    shape[3] = gyre_call_longest(args->k_starts, args->sequences, args->k.shape[1]);
}

static gyre_status check_encoding(const gyre_adaptive_args *args, const char *where, gyre_error *err) {
    const gyre_encoding *encoding = args->encoding;
    if (!args->q_pos != !args->k_pos)
        return gyre_fail(err, GYRE_EINVAL, "%s: is NULL, but %s is not (%s)", args->q_pos ? "k_pos" : "q_pos",
                         args->q_pos ? "q_pos" : "k_pos", where);
    if (!encoding) return GYRE_OK;
    if (!encoding->scheme->bias_row)
        return gyre_fail(err, GYRE_EUNSUPPORTED, "encoding: %s adds no bias to scores (%s)",
                         gyre_kind_name(encoding->scheme->kind), where);
    if (encoding->config.heads == args->q.shape[2]) return GYRE_OK;
    return gyre_fail(err, GYRE_ESHAPE, "q: %" PRId64 " heads, the encoding has %" PRId64 " (%s)", args->q.shape[2],
                     encoding->config.heads, where);
}

gyre_status gyre_adaptive_check_shapes(const void *call, gyre_error *err) {
    const gyre_adaptive_call *c = call;
    const gyre_adaptive_args *args = &c->args;
    const gyre_call_batch batch = GYRE_CALL_BATCH(args);
    int64_t shape[4];
    gyre_status status = gyre_call_check_qkv(&args->q, &args->k, &args->v, GYRE_TYPES_REALS, c->common.where, err);
    if (!status) status = check_network(args, c->common.where, err);
    if (!status) status = gyre_call_check_factor(args->scale, "scale", c->common.where, err);
    if (!status) status = gyre_call_check_factor(args->slope, "slope", c->common.where, err);
    if (!status) status = check_encoding(args, c->common.where, err);
    if (!status) status = gyre_call_check_packing(&batch, c->common.where, err);
    if (status || !args->bias.data) return status;
    bias_shape(args, shape);
    status = gyre_call_check_type(args->bias.dtype, GYRE_TYPES_REALS, "bias", c->common.where, err);
    return status ? status : gyre_shape_check(args->bias.shape, shape, "bias", c->common.where, err);
}

/* -- memory -- */

/* The views that a call reads. */
static gyre_named_views inputs_of(const gyre_adaptive_call *c) {
    const gyre_adaptive_args *args = &c->args;
    const gyre_adaptive_network *n = &args->network;
    const int trained = args->encoding && args->encoding->table[GYRE_TABLE_BIAS].rows > 0;
    gyre_named_views views = {
        3, {{"q", args->q}, {"hidden_weights", n->hidden_weights}, {"output_weights", n->output_weights}}};
    if (c->common.use != GYRE_CALL_CACHED) gyre_named_views_add(&views, "k", args->k);
    if (c->common.use != GYRE_CALL_CACHED) gyre_named_views_add(&views, "v", args->v);
    if (n->hidden_bias.data) gyre_named_views_add(&views, "hidden_bias", n->hidden_bias);
    if (n->output_bias.data) gyre_named_views_add(&views, "output_bias", n->output_bias);
    if (args->bias.data) gyre_named_views_add(&views, "bias", args->bias);
    if (trained && args->tables) gyre_named_views_add(&views, "tables.bias", args->tables->bias);
    return views;
}

/* Positions without data begin at base in each sequence.  A cache has positions without those of args: its rows are checked
 * with them. */
static gyre_status check_positions(const gyre_adaptive_call *c, gyre_error *err) {
    const gyre_adaptive_args *args = &c->args;
    const int64_t *q = args->q.shape, *k = args->k.shape;
    const int64_t queries = gyre_call_longest(args->q_starts, args->sequences, q[1]),
                  tokens = gyre_call_longest(args->k_starts, args->sequences, k[1]);
    const gyre_positions from_zero = {.base = 0};
    if (!args->encoding || (c->common.use == GYRE_CALL_CACHED && !args->q_pos)) return GYRE_OK;
    if (!args->q_pos) return gyre_positions_check(args->encoding, &from_zero, q[0], tokens, "k_pos", c->common.where, err);
    gyre_positions keys = *args->k_pos;
    keys.context_length = args->q_pos->context_length; /* that of queries is that of the call */
    const gyre_status status = gyre_positions_check(args->encoding, args->q_pos, q[0], args->q_pos->data ? q[1] : queries,
                                                    "q_pos", c->common.where, err);
    if (status) return status;
    return gyre_positions_check(args->encoding, &keys, k[0], keys.data ? k[1] : tokens, "k_pos", c->common.where, err);
}

static gyre_status check_wanted(const gyre_adaptive_args *args, const gyre_adaptive_gradients *to, const char *where,
                                gyre_error *err) {
    const struct {
        const char *name, *of;
        int wanted, given;
    } optional[] = {{"dhidden_bias", "hidden_bias", to->dhidden_bias.data != NULL, args->network.hidden_bias.data != NULL},
                    {"doutput_bias", "output_bias", to->doutput_bias.data != NULL, args->network.output_bias.data != NULL},
                    {"dtable", "table of the encoding", to->dtable.data != NULL,
                     args->encoding && args->encoding->table[GYRE_TABLE_BIAS].rows > 0},
                    {"dbias", "bias", to->dbias.data != NULL, args->bias.data != NULL}};
    for (int i = 0; i < 4; i++)
        if (optional[i].wanted && !optional[i].given)
            return gyre_fail(err, GYRE_EINVAL, "%s: there is no %s (%s)", optional[i].name, optional[i].of, where);
    return GYRE_OK;
}

static gyre_status check_results(const gyre_adaptive_call *c, gyre_named_views *read, gyre_error *err) {
    const gyre_adaptive_args *args = &c->args;
    const gyre_adaptive_network *n = &args->network;
    const gyre_adaptive_gradients *to = &c->gradients;
    int64_t bias[4], table[4] = {0};
    const gyre_named_result gradients[] = {
        {"dq", &to->dq, args->q.shape, GYRE_TYPES_REALS},
        {"dk", &to->dk, args->k.shape, GYRE_TYPES_REALS},
        {"dv", &to->dv, args->v.shape, GYRE_TYPES_REALS},
        {"dhidden_weights", &to->dhidden_weights, n->hidden_weights.shape, GYRE_TYPES_WIDE},
        {"dhidden_bias", &to->dhidden_bias, n->hidden_bias.shape, GYRE_TYPES_WIDE},
        {"doutput_weights", &to->doutput_weights, n->output_weights.shape, GYRE_TYPES_WIDE},
        {"doutput_bias", &to->doutput_bias, n->output_bias.shape, GYRE_TYPES_WIDE},
        {"dtable", &to->dtable, table, GYRE_TYPES_WIDE},
        {"dbias", &to->dbias, bias, GYRE_TYPES_REALS}};
    const gyre_call_results results = {
        &args->q, &args->v, &args->out, &args->lse, c->common.dout, gradients, sizeof gradients / sizeof *gradients};
    bias_shape(args, bias);
    gyre_status status = c->common.use == GYRE_CALL_GRADIENT ? check_wanted(args, to, c->common.where, err) : GYRE_OK;
    if (!status && args->encoding) status = gyre_encoding_table_shape(args->encoding, GYRE_TABLE_BIAS, table);
    return status ? status
                  : gyre_call_check_results(&results, c->common.use == GYRE_CALL_GRADIENT, read, c->common.where, err);
}

gyre_status gyre_adaptive_check(const void *call, gyre_error *err) {
    const gyre_adaptive_call *c = call;
    const gyre_encoding *encoding = c->args.encoding;
    const gyre_call_batch batch = GYRE_CALL_BATCH(&c->args);
    gyre_status status = gyre_adaptive_check_shapes(c, err);
    if (!status) status = gyre_call_check_padding(&batch, c->common.where, err);
    if (!status && encoding) status = gyre_table_check(encoding, GYRE_TABLE_BIAS, c->args.tables, c->common.where, err);
    if (status) return status;
    gyre_named_views read = inputs_of(c);
    status = gyre_call_check_inputs(&read, c->common.where, err);
    if (!status) status = check_positions(c, err);
    return status ? status : check_results(c, &read, err);
}

int gyre_adaptive_is_empty(const void *call) {
    const gyre_adaptive_call *c = call;
    return c->common.use != GYRE_CALL_GRADIENT && gyre_view_elements(c->args.out.shape) == 0;
}
