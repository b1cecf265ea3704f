/* decoder_gates.c: forget gates while reading: running sums of log gates, which go into the caches beside the keys.
 *
 * The sums of a pass go on from those of the last token.  After tokens were dropped that is an earlier token, so the
 * sums of every token are kept. */
#include "model/decoder.h"
#include "model/ops/log_gates.h"
#include "util/error.h"

#include <stdlib.h>
#include <string.h>

gyre_status gyre_decoder_gates_create(gyre_decoder *d, int64_t max_tokens, gyre_error *err) {
    const gyre_architecture *a = &d->net->arch;
    if (!gyre_decoder_forgets(d)) return GYRE_OK;
    d->gates.max_tokens = max_tokens;
    d->gates.last = calloc((size_t)(a->layers * a->heads), sizeof *d->gates.last);
    d->gates.kept = malloc((size_t)(a->layers * max_tokens * a->heads) * sizeof *d->gates.kept);
    if (d->gates.last && d->gates.kept) return GYRE_OK;
    return gyre_fail(err, GYRE_ENOMEM, "gates: out of memory for those of %lld tokens (gyre_context_create)",
                     (long long)max_tokens);
}

void gyre_decoder_gates_free(gyre_decoder *d) {
    free(d->gates.last);
    free(d->gates.kept);
}

int64_t gyre_decoder_gates_bytes(const gyre_decoder *d) {
    const gyre_architecture *a = &d->net->arch;
    return gyre_decoder_forgets(d) ? a->layers * (d->gates.max_tokens + 1) * a->heads * (int64_t)sizeof(double) : 0;
}

/* out = the sums of a layer at token t of the cache. */
static double *kept_at(const gyre_decoder *d, int64_t layer, int64_t t) {
    return d->gates.kept + (layer * d->gates.max_tokens + t) * d->net->arch.heads;
}

void gyre_decoder_gates_truncate(gyre_decoder *d, int64_t tokens) {
    const int64_t heads = d->net->arch.heads;
    if (!gyre_decoder_forgets(d)) return;
    for (int64_t layer = 0; layer < d->net->arch.layers; layer++) {
        double *last = d->gates.last + layer * heads;
        if (tokens > 0)
            memcpy(last, kept_at(d, layer, tokens - 1), (size_t)heads * sizeof *last);
        else
            memset(last, 0, (size_t)heads * sizeof *last);
    }
}

gyre_view gyre_decoder_gate_sums(const gyre_decoder *d, int64_t rows) {
    return gyre_dense(d->buffers.gate_sums, GYRE_DTYPE_F64, 1, rows, d->net->arch.heads, 1);
}

gyre_status gyre_decoder_sum_gates(gyre_decoder *d, int64_t layer, int64_t rows, gyre_error *err) {
    const int64_t heads = d->net->arch.heads;
    const gyre_affine *map = &d->net->layer[layer].forget_gate;
    const gyre_gemm gemm = {&map->w, map->bias, d->buffers.norm, d->buffers.gates, rows, map->w.in, heads, 0};
    double *last = d->gates.last + layer * heads;
    const gyre_view sums = gyre_decoder_gate_sums(d, rows);
    const gyre_cview log_gates = gyre_const(sums), before = gyre_cdense(last, GYRE_DTYPE_F64, 1, 1, heads, 1);
    gyre_gemm_run(&gemm, d->kernels, d->buffers.gemm_scratch, d->exec);
    gyre_log_gates(d->buffers.gates, rows * heads, d->buffers.gate_sums);
    const gyre_status status = gyre_gate_sums(
        GYRE_ARGS(gyre_gate_sums_args, .log_gates = log_gates, .sequences = 1, .before = before, .sums = sums), d->exec,
        err);
    if (status) return status;
    memcpy(kept_at(d, layer, d->cached), d->buffers.gate_sums, (size_t)(rows * heads) * sizeof *last);
    memcpy(last, d->buffers.gate_sums + (rows - 1) * heads, (size_t)heads * sizeof *last);
    return GYRE_OK;
}
