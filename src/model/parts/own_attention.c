/* own_attention.c: the calls behind each part, in a table. */
#include "model/parts/own_attention.h"
#include "gyre/gyre_adaptive.h"
#include "gyre/gyre_contextual.h"
#include "gyre/gyre_fields.h"

const gyre_encoding *gyre_own_attention_encoding(const gyre_encoding *encoding) {
    return gyre_encoding_places(encoding) == 0 ? NULL : encoding;
}

/* -- positions that queries count -- */

static gyre_contextual_args contextual_args(const gyre_own_call *call) {
    gyre_contextual_args args = GYRE_INIT(gyre_contextual_args);
    args.q = call->q;
    args.k = call->k;
    args.v = call->v;
    args.embeddings = gyre_cdense(call->layer.data, GYRE_DTYPE_F32, 1, call->layer.rows, 1, call->q.shape[3]);
    args.out = call->out;
    args.lse = call->lse;
    return args;
}

static size_t contextual_scratch(const gyre_own_call *call, int gradient, const gyre_exec *exec) {
    const gyre_contextual_args args = contextual_args(call);
    size_t bytes = 0;
    const gyre_status status = call->cache ? gyre_cache_contextual_scratch(call->cache, NULL, &args, exec, &bytes, NULL)
                                           : gyre_contextual_scratch(&args, gradient, exec, &bytes, NULL);
    return status ? 0 : bytes;
}

static gyre_status contextual_run(const gyre_own_call *call, void *scratch, size_t bytes, const gyre_exec *exec,
                                  gyre_error *err) {
    const gyre_contextual_args args = contextual_args(call);
    const int64_t sequence = 0;
    if (call->cache)
        return gyre_cache_contextual_attention(call->cache, &sequence, &args, (gyre_scratch){scratch, bytes}, exec, err);
    return gyre_contextual_attention(&args, (gyre_scratch){scratch, bytes}, exec, err);
}

static gyre_status contextual_gradient(const gyre_own_call *call, const gyre_cview *dout, const gyre_own_gradients *to,
                                       void *scratch, size_t bytes, gyre_error *err) {
    const gyre_contextual_args args = contextual_args(call);
    gyre_contextual_gradients gradients = GYRE_INIT(gyre_contextual_gradients);
    gradients.dq = to->dq;
    gradients.dk = to->dk;
    gradients.dv = to->dv;
    gradients.dembeddings = gyre_dense(to->data, GYRE_DTYPE_F32, 1, call->layer.rows, 1, call->q.shape[3]);
    return gyre_contextual_gradient(&args, dout, &gradients, (gyre_scratch){scratch, bytes}, NULL, err);
}

static int contextual_fits(int64_t parts, const gyre_config *position) {
    (void)parts;
    return gyre_kind_places(position->kind) == 0;
}

/* -- biases that a network adapts -- */

static int64_t inputs_of(const gyre_own_call *call) {
    return gyre_adaptive_inputs_of(call->layer.parts, call->q.shape[2]);
}

/* call lives as long as the arguments. */
static gyre_adaptive_args adaptive_args(const gyre_own_call *call) {
    const int64_t units = call->layer.rows, inputs = inputs_of(call);
    const float *data = call->layer.data;
    const int64_t parts = call->layer.parts;
    gyre_adaptive_args args = GYRE_INIT(gyre_adaptive_args);
    args.q = call->q;
    args.k = call->k;
    args.v = call->v;
    args.network.hidden_weights = gyre_cdense(data, GYRE_DTYPE_F32, 1, 1, units, inputs);
    args.network.hidden_bias = gyre_cdense(data + units * inputs, GYRE_DTYPE_F32, 1, 1, 1, units);
    args.network.output_weights = gyre_cdense(data + units * (inputs + 1), GYRE_DTYPE_F32, 1, 1, call->q.shape[2], units);
    args.form = parts & GYRE_LAYER_PART_ADAPTIVE_ADD      ? GYRE_ADAPTIVE_FORM_ADD_RESIDUAL
                : parts & GYRE_LAYER_PART_ADAPTIVE_CONCAT ? GYRE_ADAPTIVE_FORM_CONCAT
                                                          : GYRE_ADAPTIVE_FORM_CONCAT_RESIDUAL;
    args.encoding = gyre_own_attention_encoding(call->encoding);
    args.tables = call->tables;
    args.q_pos = &call->q_pos;
    args.k_pos = &call->k_pos;
    args.out = call->out;
    args.lse = call->lse;
    return args;
}

static size_t adaptive_scratch(const gyre_own_call *call, int gradient, const gyre_exec *exec) {
    const gyre_adaptive_args args = adaptive_args(call);
    size_t bytes = 0;
    const gyre_status status = call->cache ? gyre_cache_adaptive_scratch(call->cache, NULL, &args, exec, &bytes, NULL)
                                           : gyre_adaptive_scratch(&args, gradient, exec, &bytes, NULL);
    return status ? 0 : bytes;
}

static gyre_status adaptive_run(const gyre_own_call *call, void *scratch, size_t bytes, const gyre_exec *exec,
                                gyre_error *err) {
    const gyre_adaptive_args args = adaptive_args(call);
    const int64_t sequence = 0;
    if (call->cache)
        return gyre_cache_adaptive_attention(call->cache, &sequence, &args, (gyre_scratch){scratch, bytes}, exec, err);
    return gyre_adaptive_attention(&args, (gyre_scratch){scratch, bytes}, exec, err);
}

static gyre_status adaptive_gradient(const gyre_own_call *call, const gyre_cview *dout, const gyre_own_gradients *to,
                                     void *scratch, size_t bytes, gyre_error *err) {
    const gyre_adaptive_args args = adaptive_args(call);
    const int64_t units = call->layer.rows, inputs = inputs_of(call);
    gyre_adaptive_gradients gradients = GYRE_INIT(gyre_adaptive_gradients);
    gradients.dq = to->dq;
    gradients.dk = to->dk;
    gradients.dv = to->dv;
    gradients.dhidden_weights = gyre_dense(to->data, GYRE_DTYPE_F32, 1, 1, units, inputs);
    gradients.dhidden_bias = gyre_dense(to->data + units * inputs, GYRE_DTYPE_F32, 1, 1, 1, units);
    gradients.doutput_weights = gyre_dense(to->data + units * (inputs + 1), GYRE_DTYPE_F32, 1, 1, call->q.shape[2], units);
    gradients.dtable = to->dtable;
    return gyre_adaptive_gradient(&args, dout, &gradients, (gyre_scratch){scratch, bytes}, NULL, err);
}

/* Without biases the network of two inputs for each head would read zeros, whose weights no gradient reaches. */
static int adaptive_fits(int64_t parts, const gyre_config *position) {
    const int64_t forms = GYRE_LAYER_PART_ADAPTIVE_CONCAT | GYRE_LAYER_PART_ADAPTIVE_ADD;
    if ((parts & forms) == forms) return 0;
    return gyre_kind_has(position->kind, GYRE_TRAIT_BIAS) ||
           (gyre_kind_places(position->kind) == 0 && (parts & GYRE_LAYER_PART_ADAPTIVE_ADD));
}

/* -- one of them -- */

static const struct own_kind {
    int64_t part, parts; /* and those that go with it */
    int (*fits)(int64_t parts, const gyre_config *position);
    const char *needs, *says;
    size_t (*scratch)(const gyre_own_call *call, int gradient, const gyre_exec *exec);
    gyre_status (*run)(const gyre_own_call *call, void *scratch, size_t bytes, const gyre_exec *exec, gyre_error *err);
    gyre_status (*gradient)(const gyre_own_call *call, const gyre_cview *dout, const gyre_own_gradients *to, void *scratch,
                            size_t bytes, gyre_error *err);
} kinds[] = {{.part = GYRE_LAYER_PART_CONTEXTUAL,
              .parts = GYRE_LAYER_PART_CONTEXTUAL,
              .fits = contextual_fits,
              .needs = "contextual needs the encoding nope, no temperature and no other part",
              .says = "the queries of the model count positions",
              .scratch = contextual_scratch,
              .run = contextual_run,
              .gradient = contextual_gradient},
             {.part = GYRE_LAYER_PART_ADAPTIVE,
              .parts = GYRE_LAYER_PARTS_ADAPTIVE,
              .fits = adaptive_fits,
              .needs = "adaptive, in one form, needs an encoding with biases (alibi, t5, kerple, ...), or nope "
                       "with add-residual; no temperature and no other part",
              .says = "the layers of the model adapt biases",
              .scratch = adaptive_scratch,
              .run = adaptive_run,
              .gradient = adaptive_gradient}};

static const struct own_kind *kind_of(int64_t parts) {
    return &kinds[parts & GYRE_LAYER_PART_CONTEXTUAL ? 0 : 1];
}

const char *gyre_own_attention_needs(int64_t parts, const gyre_encoding *encoding) {
    const gyre_config *position = gyre_encoding_get_config(encoding);
    if (!(parts & (GYRE_LAYER_PART_CONTEXTUAL | GYRE_LAYER_PARTS_ADAPTIVE))) return NULL;
    const struct own_kind *kind = kind_of(parts);
    const int alone = (parts & kind->part) && !(parts & ~kind->parts);
    return alone && position->query.temperature == GYRE_TEMPERATURE_NONE && kind->fits(parts, position) ? NULL : kind->needs;
}

const char *gyre_own_attention_says(int64_t parts) {
    return kind_of(parts)->says;
}

size_t gyre_own_attention_scratch(const gyre_own_call *call, int gradient, const gyre_exec *exec) {
    return kind_of(call->layer.parts)->scratch(call, gradient, exec);
}

gyre_status gyre_own_attention_run(const gyre_own_call *call, void *scratch, size_t bytes, const gyre_exec *exec,
                                   gyre_error *err) {
    return kind_of(call->layer.parts)->run(call, scratch, bytes, exec, err);
}

gyre_status gyre_own_attention_gradient(const gyre_own_call *call, const gyre_cview *dout, const gyre_own_gradients *to,
                                        void *scratch, size_t bytes, gyre_error *err) {
    return kind_of(call->layer.parts)->gradient(call, dout, to, scratch, bytes, err);
}
