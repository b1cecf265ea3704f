/* option_args.c: what a call of attention may ask for beside queries, keys and values. */
#include "attention/option_args.h"
#include "core/view.h"

#include <float.h>

/* Keys that a row of the mask or of the weights has: those of the view, or of the longest of packed sequences. */
static int64_t max_keys(const gyre_attention_args *args) {
    int64_t most = 0;
    if (!args->k_starts) return args->k.shape[1];
    for (int64_t s = 0; s < args->sequences; s++) {
        const int64_t keys = args->k_starts[s + 1] - args->k_starts[s];
        most = keys > most ? keys : most;
    }
    return most;
}

/* A softcap below FLT_MIN would divide by 0 or by what float hardly tells. */
static int options_in_range(const gyre_attention_args *args) {
    const int capped = args->softcap == 0 || ((double)FLT_MIN <= args->softcap && args->softcap <= (double)FLT_MAX);
    return capped && args->sinks >= 0 && args->dropout >= 0 && args->dropout < 1;
}

static gyre_status check_mask(const gyre_attention_args *args) {
    const gyre_cview *mask = &args->mask;
    if (!mask->data) return GYRE_OK;
    const int64_t shape[4] = {args->q.shape[0], args->q.shape[1], args->q.shape[2], max_keys(args)};
    if (mask->dtype != GYRE_DTYPE_F32 && mask->dtype != GYRE_DTYPE_F16 && mask->dtype != GYRE_DTYPE_BF16) return GYRE_EDTYPE;
    return gyre_same_shape(mask->shape, shape) ? gyre_cview_check(mask, "mask", "gyre_attention", NULL) : GYRE_ESHAPE;
}

static gyre_status check_sinks(const gyre_attention_args *args) {
    const gyre_cview *sinks = &args->sink_logits;
    const int64_t shape[4] = {1, 1, args->q.shape[2], 1};
    if (!sinks->data) return GYRE_OK;
    if (sinks->dtype != GYRE_DTYPE_F32) return GYRE_EDTYPE;
    return gyre_same_shape(sinks->shape, shape) ? gyre_cview_check(sinks, "sink_logits", "gyre_attention", NULL)
                                                : GYRE_ESHAPE;
}

gyre_status gyre_weights_check(const gyre_attention_args *args) {
    const gyre_view *weights = &args->weights;
    if (!weights->data) return GYRE_OK;
    if (weights->dtype != GYRE_DTYPE_F32) return GYRE_EDTYPE;
    const int64_t queries = args->q.shape[1], n = weights->shape[1];
    const int64_t shape[4] = {args->q.shape[0], n, args->q.shape[2], max_keys(args)};
    if (!gyre_same_shape(weights->shape, shape)) return GYRE_ESHAPE;
    if (args->weights_first < 0 || args->weights_first > queries || n > queries - args->weights_first) return GYRE_EINVAL;
    return gyre_output_check(weights, "weights", "gyre_attention", NULL);
}

gyre_status gyre_options_check(const gyre_attention_args *args) {
    if (!options_in_range(args)) return GYRE_EINVAL;
    const gyre_status status = check_mask(args);
    return status ? status : check_sinks(args);
}
