/* decoder_gates.c: forget gates while reading: running sums of log gates, which go into the caches beside the keys.  The
 * sums of a pass go on from those of the last token. */
#include "model/decoder.h"
#include "model/ops/log_gates.h"

gyre_view gyre_decoder_gate_sums(const gyre_decoder *d, int64_t rows) {
    return gyre_dense(d->buffers.gate_sums, GYRE_DTYPE_F64, 1, rows, d->net->arch.heads, 1);
}

gyre_status gyre_decoder_sum_gates(gyre_decoder *d, int64_t layer, int64_t rows, gyre_error *err) {
    const int64_t heads = d->net->arch.heads;
    const gyre_affine *map = &d->net->layer[layer].forget_gate;
    const gyre_gemm gemm = {&map->w, map->bias, d->buffers.norm, d->buffers.gates, rows, map->w.in, heads, 0};
    const double *last = gyre_kept_last(&d->gates, layer);
    const gyre_view sums = gyre_decoder_gate_sums(d, rows);
    const gyre_cview log_gates = gyre_const(sums), before = gyre_cdense(last, GYRE_DTYPE_F64, 1, 1, heads, 1);
    gyre_gemm_run(&gemm, d->kernels, d->buffers.gemm_scratch, d->exec);
    gyre_log_gates(d->buffers.gates, rows * heads, d->buffers.gate_sums);
    const gyre_status status = gyre_gate_sums(
        GYRE_ARGS(gyre_gate_sums_args, .log_gates = log_gates, .sequences = 1, .before = before, .sums = sums), d->exec,
        err);
    if (!status) gyre_kept_store(&d->gates, layer, d->cached, rows, d->buffers.gate_sums);
    return status;
}
