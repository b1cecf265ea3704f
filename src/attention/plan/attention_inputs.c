/* attention_inputs.c: the structs of a call of attention, read into one. */
#include "attention/plan/attention_inputs.h"
#include "core/sized.h"

/* The structs behind pointers of gyre_attention_args; zeros where there is none. */
typedef struct options {
    gyre_attention_batch batch;
    gyre_attention_gates gates;
    gyre_attention_dropout dropout;
    gyre_attention_weights weights;
    gyre_attention_part part;
} options;

static gyre_status read_options(options *o, const gyre_attention_args *args, gyre_error *err) {
    const struct {
        const void *given;
        void *to;
        size_t size;
        const char *name;
    } all[] = {{args->batch, &o->batch, sizeof o->batch, "gyre_attention_batch"},
               {args->gates, &o->gates, sizeof o->gates, "gyre_attention_gates"},
               {args->dropout, &o->dropout, sizeof o->dropout, "gyre_attention_dropout"},
               {args->weights, &o->weights, sizeof o->weights, "gyre_attention_weights"},
               {args->part, &o->part, sizeof o->part, "gyre_attention_part"}};
    gyre_status status = GYRE_OK;
    for (size_t i = 0; i < sizeof all / sizeof *all && !status; i++)
        if (all[i].given) status = gyre_sized_read(all[i].to, all[i].size, all[i].given, all[i].name, err);
    return status;
}

gyre_status gyre_attention_inputs_read(gyre_attention_inputs *inputs, const gyre_attention_args *given, gyre_error *err) {
    gyre_attention_args args;
    options o = {.batch = {.size = 0}};
    gyre_status status = gyre_sized_read(&args, sizeof args, given, "gyre_attention_args", err);
    if (!status) status = read_options(&o, &args, err);
    if (status) return status;
    *inputs = (gyre_attention_inputs){.encoding = args.encoding,
                                      .tables = args.tables,
                                      .q = args.q,
                                      .k = args.k,
                                      .v = args.v,
                                      .q_pos = args.q_pos,
                                      .k_pos = args.k_pos,
                                      .scale = args.scale,
                                      .softcap = args.softcap,
                                      .causal = args.causal,
                                      .order = args.order,
                                      .window = args.window,
                                      .window_after = args.window_after,
                                      .sinks = args.sinks,
                                      .mask = args.mask,
                                      .sink_logits = args.sink_logits,
                                      .out = args.out,
                                      .lse = args.lse,
                                      .q_starts = o.batch.q_starts,
                                      .k_starts = o.batch.k_starts,
                                      .sequences = o.batch.sequences,
                                      .k_first = o.batch.k_first,
                                      .k_end = o.batch.k_end,
                                      .q_end = o.batch.q_end,
                                      .context_lengths = o.batch.context_lengths,
                                      .slopes = o.batch.slopes,
                                      .q_pos_head_stride = o.batch.q_pos_head_stride,
                                      .k_pos_head_stride = o.batch.k_pos_head_stride,
                                      .q_gate_sums = o.gates.q,
                                      .k_gate_sums = o.gates.k,
                                      .dropout = o.dropout.rate,
                                      .seed = o.dropout.seed,
                                      .weights = o.weights.out,
                                      .weights_first = o.weights.first,
                                      .weights_are_scores = o.weights.scores,
                                      .state = o.part.state,
                                      .q_index = o.part.q_index,
                                      .k_index = o.part.k_index};
    return GYRE_OK;
}
