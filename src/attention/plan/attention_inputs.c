/* attention_inputs.c: the structs of a call of attention, read into one. */
#include "attention/plan/attention_inputs.h"
#include "core/sized.h"

static void take_core(gyre_attention_inputs *inputs, const gyre_attention_args *args) {
    *inputs = (gyre_attention_inputs){.encoding = args->encoding,
                                      .tables = args->tables,
                                      .q = args->q,
                                      .k = args->k,
                                      .v = args->v,
                                      .q_pos = args->q_pos,
                                      .k_pos = args->k_pos,
                                      .scale = args->scale,
                                      .softcap = args->softcap,
                                      .causal = args->causal,
                                      .order = args->order,
                                      .window = args->window,
                                      .window_after = args->window_after,
                                      .sinks = args->sinks,
                                      .mask = args->mask,
                                      .sink_logits = args->sink_logits,
                                      .out = args->out,
                                      .lse = args->lse};
}

static gyre_status read_batch(gyre_attention_inputs *inputs, const gyre_attention_batch *given, gyre_error *err) {
    gyre_attention_batch batch;
    if (!given) return GYRE_OK;
    if (gyre_sized_read(&batch, sizeof batch, given, "gyre_attention_batch", err)) return GYRE_EINVAL;
    inputs->q_starts = batch.q_starts;
    inputs->k_starts = batch.k_starts;
    inputs->sequences = batch.sequences;
    inputs->k_first = batch.k_first;
    inputs->k_end = batch.k_end;
    inputs->q_end = batch.q_end;
    inputs->context_lengths = batch.context_lengths;
    inputs->slopes = batch.slopes;
    inputs->q_pos_head_stride = batch.q_pos_head_stride;
    inputs->k_pos_head_stride = batch.k_pos_head_stride;
    return GYRE_OK;
}

static gyre_status read_gates(gyre_attention_inputs *inputs, const gyre_attention_gates *given, gyre_error *err) {
    gyre_attention_gates gates;
    if (!given) return GYRE_OK;
    if (gyre_sized_read(&gates, sizeof gates, given, "gyre_attention_gates", err)) return GYRE_EINVAL;
    inputs->q_gate_sums = gates.q;
    inputs->k_gate_sums = gates.k;
    return GYRE_OK;
}

static gyre_status read_dropout(gyre_attention_inputs *inputs, const gyre_attention_dropout *given, gyre_error *err) {
    gyre_attention_dropout dropout;
    if (!given) return GYRE_OK;
    if (gyre_sized_read(&dropout, sizeof dropout, given, "gyre_attention_dropout", err)) return GYRE_EINVAL;
    inputs->dropout = dropout.rate;
    inputs->seed = dropout.seed;
    return GYRE_OK;
}

static gyre_status read_weights(gyre_attention_inputs *inputs, const gyre_attention_weights *given, gyre_error *err) {
    gyre_attention_weights weights;
    if (!given) return GYRE_OK;
    if (gyre_sized_read(&weights, sizeof weights, given, "gyre_attention_weights", err)) return GYRE_EINVAL;
    inputs->weights = weights.out;
    inputs->weights_first = weights.first;
    return GYRE_OK;
}

static gyre_status read_part(gyre_attention_inputs *inputs, const gyre_attention_part *given, gyre_error *err) {
    gyre_attention_part part;
    if (!given) return GYRE_OK;
    if (gyre_sized_read(&part, sizeof part, given, "gyre_attention_part", err)) return GYRE_EINVAL;
    inputs->state = part.state;
    inputs->q_index = part.q_index;
    inputs->k_index = part.k_index;
    return GYRE_OK;
}

gyre_status gyre_attention_inputs_read(gyre_attention_inputs *inputs, const gyre_attention_args *given, gyre_error *err) {
    gyre_attention_args args;
    gyre_status status = gyre_sized_read(&args, sizeof args, given, "gyre_attention_args", err);
    if (status) return status;
    take_core(inputs, &args);
    status = read_batch(inputs, args.batch, err);
    if (!status) status = read_gates(inputs, args.gates, err);
    if (!status) status = read_dropout(inputs, args.dropout, err);
    if (!status) status = read_weights(inputs, args.weights, err);
    return status ? status : read_part(inputs, args.part, err);
}
