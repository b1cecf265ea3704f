/* gates.c: running sums of log gates or angles, and their gradient: sums from the last token back.  One task is one head of
 * one batch row; it processes its documents in the order of tokens, one column of numbers after the other. */
#include "call/call_sequences.h"
#include "call/call_views.h"
#include "core/convert.h"
#include "core/exec.h"
#include "core/sized.h"
#include "core/view.h"
#include "util/error.h"

#include <inttypes.h>

enum { CHUNK = 64, COLUMNS = 64 /* of a head, summed together */ };

typedef struct gates_call {
    const gyre_cview *in;     /* log gates, or both gradients: [batch, token, head, column] */
    const gyre_cview *before; /* or NULL */
    const gyre_view *out;
    const int64_t *starts; /* or NULL */
    int64_t sequences;     /* of a batch row */
} gates_call;

/* -- checks -- */

static gyre_status check_starts(const gates_call *c, const int64_t shape[4], const char *where, gyre_error *err) {
    if (!c->starts) return GYRE_OK;
    if (shape[0] != 1)
        return gyre_fail(err, GYRE_ESHAPE, "starts: is set, but there are %" PRId64 " batch rows, not 1 (%s)", shape[0],
                         where);
    if (c->sequences < 1)
        return gyre_fail(err, GYRE_EINVAL, "sequences: %" PRId64 " is below 1, but starts is set (%s)", c->sequences, where);
    return gyre_call_check_starts(c->starts, c->sequences, shape[1], "starts", where, err);
}

/* -- tokens of a head -- */

static void run_heads(const gates_call *c, void (*task)(void *, int64_t), const gyre_exec *exec) {
    gyre_parallel(exec, task, (void *)c, c->out->shape[0] * c->out->shape[2]);
}

/* Tokens first .. end - 1 of sequence s of a batch row. */
typedef struct token_range {
    int64_t first, end;
} token_range;

static token_range tokens_of(const gates_call *c, int64_t s) {
    return c->starts ? (token_range){c->starts[s], c->starts[s + 1]} : (token_range){0, c->out->shape[1]};
}

/* Some tokens of a column. */
typedef struct column_part {
    int64_t batch, first, head, column, count;
} column_part;

static void load(const gyre_cview *view, const column_part *at, double *x) {
    gyre_load_row_f64(gyre_cview_at(view, at->batch, at->first, at->head, at->column), view->dtype, view->stride[1],
                      at->count, x);
}

static void store(const double *x, const gyre_view *view, const column_part *at) {
    gyre_store_row_f64(x, at->count, gyre_view_at(view, at->batch, at->first, at->head, at->column), view->dtype,
                       view->stride[1]);
}

static int64_t at_most(int64_t n, int64_t most) {
    return n < most ? n : most;
}

/* -- sums -- */

/* The tokens of a sequence, with columns from at->column on; before: its batch row there. */
static void sum_columns(const gates_call *c, const token_range *tokens, column_part *at, int64_t columns, int64_t before) {
    double x[CHUNK], sum[COLUMNS] = {0};
    const int64_t column = at->column;
    if (c->before)
        gyre_load_row_f64(gyre_cview_at(c->before, before, 0, at->head, column), GYRE_DTYPE_F64, c->before->stride[3],
                          columns, sum);
    for (at->first = tokens->first; at->first < tokens->end; at->first += at->count) {
        at->count = at_most(tokens->end - at->first, CHUNK);
        for (int64_t i = 0; i < columns; i++) {
            at->column = column + i;
            load(c->in, at, x);
            for (int64_t t = 0; t < at->count; t++)
                x[t] = sum[i] += x[t];
            store(x, c->out, at);
        }
    }
}

static void sum_head(void *arg, int64_t task) {
    const gates_call *c = arg;
    const int64_t heads = c->out->shape[2], all = c->out->shape[3];
    for (int64_t s = 0; s < c->sequences; s++)
        for (int64_t column = 0; column < all; column += COLUMNS) {
            const token_range tokens = tokens_of(c, s);
            column_part at = {.batch = task / heads, .head = task % heads, .column = column};
            sum_columns(c, &tokens, &at, at_most(all - column, COLUMNS), c->starts ? s : task / heads);
        }
}

static gyre_status check_sums(const gates_call *c, const char *where, gyre_error *err) {
    const int64_t *shape = c->in->shape, rows[4] = {c->starts ? c->sequences : shape[0], 1, shape[2], shape[3]};
    gyre_status status = gyre_call_check_input(c->in, shape, GYRE_TYPES_REALS, "log_gates", where, err);
    if (!status) status = check_starts(c, shape, where, err);
    if (!status && c->before) status = gyre_call_check_input(c->before, rows, GYRE_TYPES_F64, "before", where, err);
    if (!status) status = gyre_call_check_result(c->out, shape, GYRE_TYPES_WIDE, "sums", where, err);
    if (status) return status;
    const gyre_cview out = gyre_const(*c->out);
    const int in_place = out.dtype == c->in->dtype && gyre_same_memory(c->in, c->out);
    if (!in_place) status = gyre_apart_check(&out, "sums", c->in, "log_gates", where, err);
    return status || !c->before ? status : gyre_apart_check(&out, "sums", c->before, "before", where, err);
}

gyre_status gyre_gate_sums(const gyre_gate_sums_args *given, const gyre_exec *exec, gyre_error *err) {
    static const char where[] = "gyre_gate_sums";
    gyre_gate_sums_args a;
    if (gyre_sized_read(&a, sizeof a, given, "gyre_gate_sums_args", err)) return GYRE_EINVAL;
    const gates_call c = {&a.log_gates, a.before.data ? &a.before : NULL, &a.sums, a.starts, a.starts ? a.sequences : 1};
    const gyre_status status = check_sums(&c, where, err);
    if (!status && gyre_view_elements(a.sums.shape) > 0) run_heads(&c, sum_head, exec);
    return status;
}

/* -- their gradient -- */

static void sum_columns_back(const gates_call *c, const token_range *tokens, column_part *at, int64_t columns) {
    double x[CHUNK], y[CHUNK] = {0}, sum[COLUMNS] = {0};
    const int64_t column = at->column;
    for (int64_t end = tokens->end; end > tokens->first; end -= at->count) {
        at->count = at_most(end - tokens->first, CHUNK);
        at->first = end - at->count;
        for (int64_t i = 0; i < columns; i++) {
            at->column = column + i;
            load(&c->in[0], at, x);
            if (c->in[1].data) load(&c->in[1], at, y);
            for (int64_t t = at->count - 1; t >= 0; t--)
                x[t] = sum[i] += x[t] + y[t];
            store(x, c->out, at);
        }
    }
}

static void sum_head_back(void *arg, int64_t task) {
    const gates_call *c = arg;
    const int64_t heads = c->out->shape[2], all = c->out->shape[3];
    for (int64_t s = 0; s < c->sequences; s++)
        for (int64_t column = 0; column < all; column += COLUMNS) {
            const token_range tokens = tokens_of(c, s);
            column_part at = {.batch = task / heads, .head = task % heads, .column = column};
            sum_columns_back(c, &tokens, &at, at_most(all - column, COLUMNS));
        }
}

static gyre_status check_gradient(const gates_call *c, const char *where, gyre_error *err) {
    static const char *const names[2] = {"dsums[0]", "dsums[1]"};
    const int64_t *shape = c->out->shape;
    const gyre_cview out = gyre_const(*c->out);
    const int count = c->in[1].data ? 2 : 1;
    gyre_status status = gyre_call_check_result(c->out, shape, GYRE_TYPES_REALS, "dlog_gates", where, err);
    for (int i = 0; i < count && !status; i++)
        status = gyre_call_check_input(&c->in[i], shape, GYRE_TYPES_WIDE, names[i], where, err);
    if (!status) status = check_starts(c, shape, where, err);
    for (int i = 0; i < count && !status; i++)
        status = gyre_apart_check(&out, "dlog_gates", &c->in[i], names[i], where, err);
    return status;
}

gyre_status gyre_gate_sums_gradient(const gyre_cview dsums[2], const int64_t *starts, int64_t sequences,
                                    const gyre_view *dlog_gates, const gyre_exec *exec, gyre_error *err) {
    static const char where[] = "gyre_gate_sums_gradient";
    if (!dsums || !dlog_gates) return gyre_fail(err, GYRE_EINVAL, "%s: is NULL (%s)", dsums ? "dlog_gates" : "dsums", where);
    const gates_call c = {dsums, NULL, dlog_gates, starts, starts ? sequences : 1};
    const gyre_status status = check_gradient(&c, where, err);
    if (!status && gyre_view_elements(dlog_gates->shape) > 0) run_heads(&c, sum_head_back, exec);
    return status;
}
