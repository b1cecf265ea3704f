/* attention_slice.c: a part of a call of attention on the calling thread, for programs that run each operation on all of
 * their threads.  A slice has key heads of all batch rows, or, where there are more slices than key heads, of some rows. */
#include "attention/attention.h"
#include "core/exec.h"
#include "core/positions.h"
#include "core/view.h"
#include "util/error.h"

#include <inttypes.h>

static const char name[] = "gyre_attention_slice";

/* Batch rows and key heads of a part. */
typedef struct part_range {
    int64_t row, rows, head, heads;
} part_range;

/* The part of a call, with what its arguments point to. */
typedef struct part_call {
    gyre_attention_inputs args;
    gyre_positions q_index, k_index;
} part_call;

static void take_heads(gyre_attention_inputs *args, int64_t head, int64_t heads) {
    const int64_t group = args->q.shape[2] / args->k.shape[2], first = head * group, count = heads * group;
    gyre_cview *const read[] = {&args->q, &args->mask, &args->q_gate_sums, &args->k_gate_sums};
    gyre_view *const written[] = {&args->out, &args->lse, &args->state, &args->weights};
    for (int i = 0; i < 4; i++) {
        gyre_cview_narrow(read[i], 2, first, count);
        gyre_view_narrow(written[i], 2, first, count);
    }
    gyre_cview_narrow(&args->k, 2, head, heads);
    gyre_cview_narrow(&args->v, 2, head, heads);
    if (args->q_pos_head_stride != 0 && args->q_pos.data)
        args->q_pos.data =
            (const char *)args->q_pos.data + first * args->q_pos_head_stride * (int64_t)gyre_dtype_size(args->q_pos.dtype);
    if (args->k_pos_head_stride != 0 && args->k_pos.data)
        args->k_pos.data =
            (const char *)args->k_pos.data + head * args->k_pos_head_stride * (int64_t)gyre_dtype_size(args->k_pos.dtype);
}

/* Batch rows of a call that is not packed. */
static void take_rows(part_call *p, int64_t row, int64_t rows) {
    gyre_attention_inputs *args = &p->args;
    gyre_cview *const read[] = {&args->q,           &args->k,           &args->v,     &args->mask,
                                &args->q_gate_sums, &args->k_gate_sums, &args->slopes};
    gyre_view *const written[] = {&args->out, &args->lse, &args->state, &args->weights};
    for (int i = 0; i < 7; i++)
        gyre_cview_narrow(read[i], 0, row, rows);
    for (int i = 0; i < 4; i++)
        gyre_view_narrow(written[i], 0, row, rows);
    if (args->k_first) args->k_first += row;
    if (args->k_end) args->k_end += row;
    if (args->q_end) args->q_end += row;
    if (args->context_lengths) args->context_lengths += row;
    args->q_pos = gyre_positions_of_row(&args->q_pos, row);
    args->k_pos = gyre_positions_of_row(&args->k_pos, row);
    if (!args->q_index) return;
    p->q_index = gyre_positions_of_row(args->q_index, row);
    p->k_index = gyre_positions_of_row(args->k_index, row);
    args->q_index = &p->q_index;
    args->k_index = &p->k_index;
}

/* out = the part of a call that a slice has; rows or heads 0: none. */
static part_range part_of(const gyre_attention_inputs *args, gyre_slice slice) {
    const int64_t rows = args->q.shape[0], heads = args->k.shape[2], i = slice.index, n = slice.count;
    if (n <= heads || args->q_starts || rows < 2)
        return (part_range){0, rows, heads * i / n, heads * (i + 1) / n - heads * i / n};
    const int64_t sets = n / heads, each = i / sets, set = i % sets; /* `sets` slices for each head, by rows */
    if (each >= heads) return (part_range){0, 0, 0, 0};
    return (part_range){rows * set / sets, rows * (set + 1) / sets - rows * set / sets, each, 1};
}

gyre_status gyre_attention_slice(const gyre_attention_args *given, gyre_slice slice, gyre_scratch scratch, gyre_error *err) {
    part_call p;
    gyre_status status = gyre_slice_check(slice, name, err);
    if (!status) status = gyre_attention_args_read(&p.args, given, err);
    if (status) return status;
    if (p.args.dropout != 0)
        return gyre_fail(err, GYRE_EUNSUPPORTED, "dropout: %g, of a slice of a call (%s)", p.args.dropout, name);
    const gyre_attention_request whole = {name, &p.args, NULL, NULL, 0, 0, NULL};
    status = gyre_attention_check(&whole, err); /* so that all slices fail, or none */
    if (status || gyre_attention_is_empty(&whole)) return status;
    const part_range part = part_of(&p.args, slice);
    const int64_t query_heads = p.args.q.shape[2], group = query_heads / p.args.k.shape[2];
    if (part.rows == 0 || part.heads == 0) return GYRE_OK;
    if (part.rows != p.args.q.shape[0]) take_rows(&p, part.row, part.rows);
    take_heads(&p.args, part.head, part.heads);
    const gyre_attention_request request = {name, &p.args, NULL, NULL, part.head * group, query_heads, NULL};
    return gyre_attention_perform(&request, scratch, NULL, err);
}
