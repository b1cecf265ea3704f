/* adaptive_check.c: all that a call must satisfy. */
#include "adaptive/adaptive_check.h"
#include "adaptive/adaptive_plan.h"
#include "core/encoding.h"
#include "core/positions.h"
#include "core/sized.h"
#include "core/table_view.h"
#include "core/view.h"
#include "tiling/call_views.h"
#include "util/error.h"

#include <math.h>

enum { MOST_READ = 10, MOST_WRITTEN = 9 };

gyre_status gyre_adaptive_args_read(gyre_adaptive_args *args, const gyre_adaptive_args *given, gyre_error *err) {
    const gyre_status status = gyre_sized_read(args, sizeof *args, given, "gyre_adaptive_args", err);
    if (status) return status;
    if (args->scale == 0) args->scale = 1 / sqrt((double)(args->q.shape[3] > 0 ? args->q.shape[3] : 1));
    if (args->slope == 0) args->slope = 0.01;
    return GYRE_OK;
}

/* -- types, shapes and numbers -- */

static gyre_status check_weights(const gyre_cview *view, const int64_t shape[4], int needed, const char *name,
                                 const char *where, gyre_error *err) {
    if (!needed && !view->data) return GYRE_OK;
    const gyre_status status = gyre_call_check_type(view->dtype, 0, name, where, err);
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

static int64_t longest_sequence(const gyre_adaptive_args *args) {
    int64_t most = args->k_starts ? 0 : args->k.shape[1];
    for (int64_t s = 0; args->k_starts && s < args->sequences; s++) {
        const int64_t keys = args->k_starts[s + 1] - args->k_starts[s];
        most = keys > most ? keys : most;
    }
    return most;
}

static void bias_shape(const gyre_adaptive_args *args, int64_t shape[4]) {
    for (int i = 0; i < 3; i++)
        shape[i] = args->q.shape[i];
    shape[3] = longest_sequence(args);
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

gyre_status gyre_adaptive_check_shapes(const gyre_adaptive_args *args, const char *where, gyre_error *err) {
    const gyre_call_batch batch = gyre_adaptive_batch(args);
    int64_t shape[4];
    gyre_status status = gyre_call_check_qkv(&args->q, &args->k, &args->v, where, err);
    if (!status) status = check_network(args, where, err);
    if (!status) status = gyre_call_check_factor(args->scale, "scale", where, err);
    if (!status) status = gyre_call_check_factor(args->slope, "slope", where, err);
    if (!status) status = check_encoding(args, where, err);
    if (!status) status = gyre_call_check_packing(&batch, where, err);
    if (status || !args->bias.data) return status;
    bias_shape(args, shape);
    status = gyre_call_check_type(args->bias.dtype, 0, "bias", where, err);
    return status ? status : gyre_shape_check(args->bias.shape, shape, "bias", where, err);
}

/* -- memory -- */

static int inputs_of(const gyre_adaptive_args *args, int cached, gyre_named_view inputs[MOST_READ]) {
    const gyre_adaptive_network *n = &args->network;
    const gyre_named_view always[] = {{"q", args->q},
                                      {"hidden_weights", n->hidden_weights},
                                      {"output_weights", n->output_weights},
                                      {"k", args->k},
                                      {"v", args->v}};
    const gyre_named_view others[] = {
        {"hidden_bias", n->hidden_bias}, {"output_bias", n->output_bias}, {"bias", args->bias}};
    const int trained = args->encoding && args->encoding->table[GYRE_TABLE_BIAS].rows > 0;
    int count = 0;
    for (int i = 0; i < (cached ? 3 : 5); i++)
        inputs[count++] = always[i];
    for (int i = 0; i < 3; i++)
        if (others[i].view.data) inputs[count++] = others[i];
    if (trained && args->tables) inputs[count++] = (gyre_named_view){"tables.bias", args->tables->bias};
    return count;
}

/* out = tokens of the longest sequence of a packed batch, or of a row. */
static int64_t longest(const int64_t *starts, const gyre_adaptive_args *args, int64_t tokens) {
    int64_t most = starts ? 0 : tokens;
    for (int64_t s = 0; starts && s < args->sequences; s++)
        if (starts[s + 1] - starts[s] > most) most = starts[s + 1] - starts[s];
    return most;
}

/* Positions without data begin at base in each sequence.  A cache has positions without those of args: its rows are checked
 * with them. */
static gyre_status check_positions(const gyre_adaptive_args *args, int cached, const char *where, gyre_error *err) {
    const int64_t *q = args->q.shape, *k = args->k.shape;
    const gyre_positions from_zero = {.base = 0};
    if (!args->encoding || (cached && !args->q_pos)) return GYRE_OK;
    if (!args->q_pos)
        return gyre_positions_check(args->encoding, &from_zero, q[0], longest(args->k_starts, args, k[1]), "k_pos", where,
                                    err);
    gyre_positions keys = *args->k_pos;
    keys.context_length = args->q_pos->context_length; /* that of queries is that of the call */
    const int64_t queries = args->q_pos->data ? q[1] : longest(args->q_starts, args, q[1]),
                  tokens = keys.data ? k[1] : longest(args->k_starts, args, k[1]);
    const gyre_status status = gyre_positions_check(args->encoding, args->q_pos, q[0], queries, "q_pos", where, err);
    return status ? status : gyre_positions_check(args->encoding, &keys, k[0], tokens, "k_pos", where, err);
}

gyre_status gyre_adaptive_check(const gyre_adaptive_args *args, gyre_adaptive_use use, const char *where, gyre_error *err) {
    const gyre_call_batch batch = gyre_adaptive_batch(args);
    const int gradient = use == GYRE_ADAPTIVE_GRADIENT;
    gyre_named_view read[MOST_READ];
    gyre_status status = gyre_adaptive_check_shapes(args, where, err);
    if (!status) status = gyre_call_check_padding(&batch, where, err);
    if (!status && args->encoding) status = gyre_table_check(args->encoding, GYRE_TABLE_BIAS, args->tables, where, err);
    if (status) return status;
    const int count = inputs_of(args, use == GYRE_ADAPTIVE_CACHED, read);
    for (int i = 0; i < count && !status; i++)
        status = gyre_cview_check(&read[i].view, read[i].name, where, err);
    if (!status) status = check_positions(args, use == GYRE_ADAPTIVE_CACHED, where, err);
    if (!status) status = gyre_call_check_out(&args->out, &args->lse, &args->q, &args->v, gradient, where, err);
    if (status || gradient) return status;
    return gyre_call_check_out_apart(&args->out, &args->lse, read, count, where, err);
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

gyre_status gyre_adaptive_check_gradient(const gyre_adaptive_args *args, const gyre_cview *dout,
                                         const gyre_adaptive_gradients *to, const char *where, gyre_error *err) {
    gyre_named_view read[MOST_READ + 3 + MOST_WRITTEN];
    int64_t bias[4], table[4] = {0};
    gyre_status status = gyre_call_check_dout(dout, &args->out, where, err);
    if (!status) status = check_wanted(args, to, where, err);
    if (!status && args->encoding) status = gyre_encoding_table_shape(args->encoding, GYRE_TABLE_BIAS, table);
    if (status) return status;
    bias_shape(args, bias);
    int count = inputs_of(args, 0, read);
    read[count++] = (gyre_named_view){"out", gyre_const(args->out)};
    read[count++] = (gyre_named_view){"lse", gyre_const(args->lse)};
    read[count++] = (gyre_named_view){"dout", *dout};
    const gyre_named_result results[] = {{"dq", &to->dq, args->q.shape, 0},
                                         {"dk", &to->dk, args->k.shape, 0},
                                         {"dv", &to->dv, args->v.shape, 0},
                                         {"dhidden_weights", &to->dhidden_weights, args->network.hidden_weights.shape, 1},
                                         {"dhidden_bias", &to->dhidden_bias, args->network.hidden_bias.shape, 1},
                                         {"doutput_weights", &to->doutput_weights, args->network.output_weights.shape, 1},
                                         {"doutput_bias", &to->doutput_bias, args->network.output_bias.shape, 1},
                                         {"dtable", &to->dtable, table, 1},
                                         {"dbias", &to->dbias, bias, 0}};
    return gyre_call_check_results(results, MOST_WRITTEN, read, count, where, err);
}
