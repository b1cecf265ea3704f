/* call_sequences.c: which queries and keys of a call belong together. */
#include "call/call_sequences.h"
#include "core/positions.h"
#include "core/view.h"
#include "util/error.h"

#include <inttypes.h>

int64_t gyre_call_sequences(const gyre_call_batch *batch) {
    return batch->q_starts ? batch->sequences : batch->q->shape[0];
}

gyre_call_sequence gyre_call_sequence_at(const gyre_call_batch *batch, int64_t s) {
    gyre_call_sequence out = {.batch = s, .queries = batch->q->shape[1], .k_count = batch->k->shape[1]};
    if (batch->q_starts)
        out = (gyre_call_sequence){.query = batch->q_starts[s],
                                   .queries = batch->q_starts[s + 1] - batch->q_starts[s],
                                   .k_start = batch->k_starts[s],
                                   .k_count = batch->k_starts[s + 1] - batch->k_starts[s]};
    const int64_t first = batch->k_first ? batch->k_first[s] : 0, end = batch->k_end ? batch->k_end[s] : out.k_count;
    out.key = out.k_start + first;
    out.keys = end - first;
    return out;
}

int64_t gyre_call_longest(const int64_t *starts, int64_t sequences, int64_t tokens) {
    int64_t most = starts ? 0 : tokens;
    for (int64_t s = 0; starts && s < sequences; s++)
        if (starts[s + 1] - starts[s] > most) most = starts[s + 1] - starts[s];
    return most;
}

int64_t gyre_call_queries(const gyre_cview *q, const int64_t *q_starts, int64_t s) {
    return q_starts ? q_starts[s + 1] - q_starts[s] : q->shape[1];
}

void gyre_call_take_queries(gyre_cview *view, const int64_t *q_starts, int64_t s) {
    if (q_starts)
        gyre_cview_narrow(view, 1, q_starts[s], q_starts[s + 1] - q_starts[s]);
    else
        gyre_cview_narrow(view, 0, s, 1);
}

void gyre_call_take_results(gyre_view *view, const int64_t *q_starts, int64_t s) {
    if (q_starts)
        gyre_view_narrow(view, 1, q_starts[s], q_starts[s + 1] - q_starts[s]);
    else
        gyre_view_narrow(view, 0, s, 1);
}

gyre_positions gyre_call_query_positions(const gyre_positions *positions, const int64_t *q_starts, int64_t s) {
    if (!q_starts) return gyre_positions_of_row(positions, s);
    gyre_positions out = *positions;
    if (out.data) out.data = (const char *)out.data + q_starts[s] * out.stride_token * (int64_t)gyre_dtype_size(out.dtype);
    return out;
}

gyre_status gyre_call_check_starts(const int64_t *starts, int64_t sequences, int64_t tokens, const char *name,
                                   const char *where, gyre_error *err) {
    if (starts[0] != 0) return gyre_fail(err, GYRE_EINVAL, "%s[0]: %" PRId64 " is not 0 (%s)", name, starts[0], where);
    for (int64_t s = 0; s < sequences; s++)
        if (starts[s] > starts[s + 1])
            return gyre_fail(err, GYRE_EINVAL, "%s[%" PRId64 "]: %" PRId64 " is below %" PRId64 " before it (%s)", name,
                             s + 1, starts[s + 1], starts[s], where);
    if (starts[sequences] != tokens)
        return gyre_fail(err, GYRE_EINVAL, "%s[%" PRId64 "]: %" PRId64 " is not the number of tokens, %" PRId64 " (%s)",
                         name, sequences, starts[sequences], tokens, where);
    return GYRE_OK;
}

gyre_status gyre_call_check_packing(const gyre_call_batch *batch, const char *where, gyre_error *err) {
    if (!batch->q_starts != !batch->k_starts)
        return gyre_fail(err, GYRE_EINVAL, "%s: is NULL, but %s is not (%s)", batch->q_starts ? "k_starts" : "q_starts",
                         batch->q_starts ? "q_starts" : "k_starts", where);
    if (!batch->q_starts) return GYRE_OK;
    if (batch->q->shape[0] != 1)
        return gyre_fail(err, GYRE_ESHAPE, "q: %" PRId64 " batch rows, but a packed batch has 1 (%s)", batch->q->shape[0],
                         where);
    if (batch->sequences < 1)
        return gyre_fail(err, GYRE_EINVAL, "sequences: %" PRId64 " is below 1, but q_starts is set (%s)", batch->sequences,
                         where);
    const gyre_status status =
        gyre_call_check_starts(batch->q_starts, batch->sequences, batch->q->shape[1], "q_starts", where, err);
    if (status) return status;
    return gyre_call_check_starts(batch->k_starts, batch->sequences, batch->k->shape[1], "k_starts", where, err);
}

gyre_status gyre_call_check_padding(const gyre_call_batch *batch, const char *where, gyre_error *err) {
    const int64_t sequences = batch->k_first || batch->k_end ? gyre_call_sequences(batch) : 0;
    gyre_call_batch whole = *batch;
    whole.k_first = whole.k_end = NULL;
    for (int64_t s = 0; s < sequences; s++) {
        const int64_t keys = gyre_call_sequence_at(&whole, s).keys;
        const int64_t first = batch->k_first ? batch->k_first[s] : 0, end = batch->k_end ? batch->k_end[s] : keys;
        if (first < 0 || first > end || end > keys)
            return gyre_fail(err, GYRE_EINVAL,
                             "k_first, k_end: keys %" PRId64 " .. %" PRId64 " of sequence %" PRId64 ", which has %" PRId64
                             " keys (%s)",
                             first, end, s, keys, where);
    }
    return GYRE_OK;
}
