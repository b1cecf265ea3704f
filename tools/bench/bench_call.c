/* bench_call.c: the memory and the arguments of one call of gyre bench encodings. */
#include "gyre/gyre_adaptive.h"
#include "gyre/gyre_contextual.h"
#include "tools/bench/bench.h"
#include <stdlib.h>

/* out = `count` random floats between min and max; NULL = out of memory. */
static float *alloc_random(int64_t count, uint64_t seed, float min, float max) {
    float *out = malloc((size_t)(count > 0 ? count : 1) * sizeof *out);
    for (int64_t i = 0; out && i < count; i++)
        out[i] = min + (max - min) * (float)bench_random(&seed);
    return out;
}

/* -- inputs -- */
gyre_status bench_data_create(bench_data *out, const bench_shape *shape, gyre_error *err) {
    const int64_t count = shape->tokens * shape->heads * shape->head_dim;
    float **const all[] = {&out->q, &out->k, &out->v, &out->x, &out->dout, &out->dq, &out->dk, &out->dv};
    const int wanted = shape->gradient ? 8 : 4;
    *out = (bench_data){.shape = *shape};
    for (int i = 0; i < wanted; i++) {
        *all[i] = alloc_random(count, (uint64_t)i + 1, -1, 1);
        if (*all[i]) continue;
        bench_data_free(out);
        return gyre_fail(err, GYRE_ENOMEM, "%lld tokens: out of memory (gyre bench)", (long long)shape->tokens);
    }
    return GYRE_OK;
}

void bench_data_free(bench_data *data) {
    float *const all[] = {data->q, data->k, data->v, data->x, data->dout, data->dq, data->dk, data->dv};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

/* -- tables -- */
static gyre_status make_table(bench_call *call, int which, int gradient, const int64_t shape[4]) {
    gyre_cview *const tables[BENCH_TABLES] = {&call->tables.input,        &call->tables.query, &call->tables.key,
                                              &call->tables.value,        &call->tables.bias,  &call->tables.content_bias,
                                              &call->tables.position_bias};
    gyre_view *const sums[BENCH_TABLES] = {
        &call->gradients.input, &call->gradients.query,        &call->gradients.key,          &call->gradients.value,
        &call->gradients.bias,  &call->gradients.content_bias, &call->gradients.position_bias};
    const int64_t count = shape[0] * shape[1] * shape[2] * shape[3];
    /* Rates and thresholds in a bias table must be above 0. */
    const float min = which == GYRE_TABLE_BIAS ? 0.01f : -0.1f;
    call->table[which] = alloc_random(count, 100 + (uint64_t)which, min, 0.1f);
    if (!call->table[which]) return GYRE_ENOMEM;
    *tables[which] = gyre_cdense(call->table[which], GYRE_DTYPE_F32, shape[0], shape[1], shape[2], shape[3]);
    if (!gradient) return GYRE_OK;
    call->dtable[which] = alloc_random(count, 0, 0, 0);
    if (!call->dtable[which]) return GYRE_ENOMEM;
    *sums[which] = gyre_dense(call->dtable[which], GYRE_DTYPE_F32, shape[0], shape[1], shape[2], shape[3]);
    return GYRE_OK;
}

static gyre_status make_tables(bench_call *call, int gradient) {
    int64_t shape[4];
    for (int which = 0; which < BENCH_TABLES; which++) {
        gyre_status status = gyre_encoding_table_shape(call->encoding, (gyre_table)which, shape);
        if (!status && shape[0] > 0) status = make_table(call, which, gradient, shape);
        if (status) return status;
    }
    if (gyre_encoding_row_source(call->encoding) == GYRE_ROW_SOURCE_SHARED && call->tables.query.data &&
        call->tables.key.data) {
        call->tables.key = call->tables.query;
        call->gradients.key = call->gradients.query;
    }
    return GYRE_OK;
}

/* -- the call -- */
static gyre_status make_encoding(gyre_encoding **out, const bench_scheme *scheme, const bench_shape *shape,
                                 gyre_error *err) {
    gyre_error why = {0, ""};
    gyre_config config = GYRE_INIT(gyre_config);
    config.kind = gyre_kind_find(scheme->scheme);
    config.head_dim = shape->head_dim;
    config.heads = shape->heads;
    config.trained_length = shape->tokens;
    config.input.dim = shape->heads * shape->head_dim;
    if (scheme->configure) scheme->configure(&config, shape->tokens);
    gyre_status status = gyre_config_suggest(&config);
    if (status) return gyre_fail(err, status, "%s: %s (gyre bench)", scheme->name, gyre_status_text(status));
    status = gyre_encoding_create(out, &config, NULL, &why);
    return status ? gyre_fail(err, status, "%s: %s", scheme->name, why.text) : GYRE_OK;
}

static int is_trained(const bench_scheme *scheme) {
    return scheme->extra == BENCH_POLAR || scheme->extra == BENCH_FREQUENCIES;
}

gyre_status bench_scheme_check(const bench_scheme *scheme, const bench_shape *shape, gyre_error *err) {
    gyre_encoding *encoding = NULL;
    if (scheme->extra == BENCH_FOURIER && !bench_fourier_fits(shape))
        return gyre_fail(err, GYRE_EINVAL, "%s: needs heads of 4 channels, and 7 tokens for a revolution (gyre bench)",
                         scheme->name);
    if (scheme->extra == BENCH_FREQUENCIES && shape->head_dim % 2 != 0)
        return gyre_fail(err, GYRE_EINVAL, "%s: needs heads of an even number of channels (gyre bench)", scheme->name);
    const gyre_status status = make_encoding(&encoding, scheme, shape, err);
    gyre_encoding_free(encoding);
    return status;
}

static void describe_call(bench_call *call, int causal, const bench_data *data) {
    const bench_shape *s = &data->shape;
    gyre_attention_args *args = &call->args;
    *args = (gyre_attention_args)GYRE_INIT(gyre_attention_args);
    args->encoding = call->encoding;
    args->tables = &call->tables;
    args->q = gyre_cdense(data->q, GYRE_DTYPE_F32, 1, s->tokens, s->heads, s->head_dim);
    args->k = gyre_cdense(data->k, GYRE_DTYPE_F32, 1, s->tokens, s->heads, s->head_dim);
    args->v = gyre_cdense(data->v, GYRE_DTYPE_F32, 1, s->tokens, s->heads, s->head_dim);
    args->causal = causal;
    args->out = gyre_dense(call->out, GYRE_DTYPE_F32, 1, s->tokens, s->heads, s->head_dim);
    if (call->encoding && (gyre_encoding_places(call->encoding) & GYRE_PLACE_INPUT))
        call->x = gyre_dense(data->x, GYRE_DTYPE_F32, 1, s->tokens, 1, s->heads * s->head_dim);
    call->gradient = s->gradient;
    if (!s->gradient) return;
    args->lse = gyre_dense(call->lse, GYRE_DTYPE_F32, 1, s->tokens, s->heads, 1);
    call->dout = gyre_cdense(data->dout, GYRE_DTYPE_F32, 1, s->tokens, s->heads, s->head_dim);
    float *const written[3] = {data->dq, data->dk, data->dv};
    for (int i = 0; i < 3; i++)
        call->dqkv[i] = gyre_dense(written[i], GYRE_DTYPE_F32, 1, s->tokens, s->heads, s->head_dim);
}

/* Log gates of -0.05 on average: a head forgets half in 14 tokens. */
static gyre_status make_gates(bench_call *call, const bench_shape *s) {
    const int64_t count = s->heads * s->tokens;
    uint64_t seed = 9;
    call->gate_sums = malloc((size_t)count * sizeof(double));
    call->dgate_sums = malloc((size_t)(2 * count) * sizeof(double));
    if (!call->gate_sums || !call->dgate_sums) return GYRE_ENOMEM;
    for (int64_t i = 0; i < count; i++)
        call->gate_sums[i] = (i % s->tokens ? call->gate_sums[i - 1] : 0) - 0.1 * bench_random(&seed);
    return GYRE_OK;
}

static gyre_view view_gates(double *sums, const bench_shape *s) {
    gyre_view view = gyre_dense(sums, GYRE_DTYPE_F64, 1, s->tokens, s->heads, 1);
    view.stride[1] = 1;
    view.stride[2] = s->tokens;
    return view;
}

static void describe_gates(bench_call *call, const bench_shape *s) {
    if (!call->gate_sums) return;
    call->gates = (gyre_attention_gates)GYRE_INIT(gyre_attention_gates);
    call->gates.q = call->gates.k = gyre_const(view_gates(call->gate_sums, s));
    call->dq_gates = view_gates(call->dgate_sums, s);
    call->dk_gates = view_gates(call->dgate_sums + s->heads * s->tokens, s);
}

/* Embeddings as large as queries. */
static gyre_status make_embeddings(bench_call *call, const bench_shape *s) {
    call->embeddings = alloc_random(BENCH_POSITIONS * s->head_dim, 10, -1, 1);
    call->dembeddings = alloc_random(BENCH_POSITIONS * s->head_dim, 0, 0, 0);
    return call->embeddings && call->dembeddings ? GYRE_OK : GYRE_ENOMEM;
}

/* The same call with contextual positions. */
static gyre_contextual_args contextual_args(const bench_call *call) {
    const gyre_attention_args *args = &call->args;
    gyre_contextual_args out = GYRE_INIT(gyre_contextual_args);
    out.q = args->q;
    out.k = args->k;
    out.v = args->v;
    out.embeddings = gyre_cdense(call->embeddings, GYRE_DTYPE_F32, 1, BENCH_POSITIONS, 1, args->q.shape[3]);
    out.out = args->out;
    out.lse = args->lse;
    return out;
}

static gyre_status run_contextual(const bench_call *call, int gradient, void *scratch, size_t bytes, const gyre_exec *exec) {
    const gyre_contextual_args args = contextual_args(call);
    if (!gradient) return gyre_contextual_attention(&args, (gyre_scratch){scratch, bytes}, exec, NULL);
    gyre_contextual_gradients to = GYRE_INIT(gyre_contextual_gradients);
    to.dq = call->dqkv[0];
    to.dk = call->dqkv[1];
    to.dv = call->dqkv[2];
    to.dembeddings = gyre_dense(call->dembeddings, GYRE_DTYPE_F32, 1, BENCH_POSITIONS, 1, args.q.shape[3]);
    return gyre_contextual_gradient(&args, &call->dout, &to, (gyre_scratch){scratch, bytes}, exec, NULL);
}

/* -- a network that adapts the bias -- */

/* shape = that of hidden weights, hidden bias, output weights, output bias. */
static void network_shape(int part, int64_t heads, int64_t shape[4]) {
    shape[0] = shape[1] = 1;
    shape[2] = part == 0 ? BENCH_NETWORK_WIDTH : part == 2 ? heads : 1;
    shape[3] = part == 0 ? 2 * heads : part == 3 ? heads : BENCH_NETWORK_WIDTH;
}

static gyre_status make_network(bench_call *call, const bench_shape *s) {
    for (int i = 0; i < BENCH_NETWORK_PARTS; i++) {
        int64_t shape[4];
        network_shape(i, s->heads, shape);
        call->network[i] = alloc_random(shape[2] * shape[3], 11 + (uint64_t)i, -0.2f, 0.2f);
        call->dnetwork[i] = alloc_random(shape[2] * shape[3], 0, 0, 0);
        if (!call->network[i] || !call->dnetwork[i]) return GYRE_ENOMEM;
    }
    return GYRE_OK;
}

/* The same call with the bias of its encoding adapted. */
static gyre_adaptive_args adaptive_args(const bench_call *call) {
    const gyre_attention_args *args = &call->args;
    gyre_adaptive_args out = GYRE_INIT(gyre_adaptive_args);
    gyre_cview *const parts[BENCH_NETWORK_PARTS] = {&out.network.hidden_weights, &out.network.hidden_bias,
                                                    &out.network.output_weights, &out.network.output_bias};
    out.q = args->q;
    out.k = args->k;
    out.v = args->v;
    out.encoding = args->encoding;
    out.tables = args->tables;
    out.out = args->out;
    out.lse = args->lse;
    for (int i = 0; i < BENCH_NETWORK_PARTS; i++) {
        int64_t shape[4];
        network_shape(i, args->q.shape[2], shape);
        *parts[i] = gyre_cdense(call->network[i], GYRE_DTYPE_F32, 1, 1, shape[2], shape[3]);
    }
    return out;
}

static gyre_status run_adaptive(const bench_call *call, int gradient, void *scratch, size_t bytes, const gyre_exec *exec) {
    const gyre_adaptive_args args = adaptive_args(call);
    if (!gradient) return gyre_adaptive_attention(&args, (gyre_scratch){scratch, bytes}, exec, NULL);
    gyre_adaptive_gradients to = GYRE_INIT(gyre_adaptive_gradients);
    gyre_view *const parts[BENCH_NETWORK_PARTS] = {&to.dhidden_weights, &to.dhidden_bias, &to.doutput_weights,
                                                   &to.doutput_bias};
    to.dq = call->dqkv[0];
    to.dk = call->dqkv[1];
    to.dv = call->dqkv[2];
    to.dtable = call->gradients.bias;
    for (int i = 0; i < BENCH_NETWORK_PARTS; i++) {
        int64_t shape[4];
        network_shape(i, args.q.shape[2], shape);
        *parts[i] = gyre_dense(call->dnetwork[i], GYRE_DTYPE_F32, 1, 1, shape[2], shape[3]);
    }
    return gyre_adaptive_gradient(&args, &call->dout, &to, (gyre_scratch){scratch, bytes}, exec, NULL);
}

/* -- which of them a call is -- */

/* out = the arguments of the call, with the queries and keys that attention takes. */
static gyre_attention_args turned_args(const bench_call *call) {
    gyre_attention_args args = call->args;
    gyre_view qk[2];
    args.gates = call->gate_sums ? &call->gates : NULL; /* set here: a call is copied */
    if (call->turns) bench_trained_turned(call->turns, &args);
    if (!call->series) return args;
    bench_fourier_turned(call->series, &call->args, qk);
    args.q = gyre_const(qk[0]);
    args.k = gyre_const(qk[1]);
    return args;
}

static size_t scratch_of(const bench_call *call, int gradient, const gyre_exec *exec) {
    size_t bytes = 0;
    if (call->network[0]) {
        const gyre_adaptive_args adaptive = adaptive_args(call);
        return gyre_adaptive_scratch(&adaptive, gradient, exec, &bytes, NULL) ? 0 : bytes;
    }
    if (!call->embeddings) {
        const gyre_attention_args turned = turned_args(call);
        return gyre_attention_scratch(&turned, gradient, exec, &bytes, NULL) ? 0 : bytes;
    }
    const gyre_contextual_args args = contextual_args(call);
    return gyre_contextual_scratch(&args, gradient, exec, &bytes, NULL) ? 0 : bytes;
}

static gyre_status run_forward(const bench_call *call, void *scratch, size_t bytes, const gyre_exec *exec) {
    if (call->network[0]) return run_adaptive(call, 0, scratch, bytes, exec);
    if (call->embeddings) return run_contextual(call, 0, scratch, bytes, exec);
    const gyre_status status = call->series  ? bench_fourier_run(call->series, &call->args, exec)
                               : call->turns ? bench_trained_run(call->turns, &call->args, exec)
                                             : GYRE_OK;
    const gyre_attention_args args = turned_args(call);
    return status ? status : gyre_attention(&args, (gyre_scratch){scratch, bytes}, exec, NULL);
}

/* The forward call has rotated the queries and keys. */
static gyre_status run_gradient(const bench_call *call, void *scratch, size_t bytes, const gyre_exec *exec) {
    if (call->network[0]) return run_adaptive(call, 1, scratch, bytes, exec);
    if (call->embeddings) return run_contextual(call, 1, scratch, bytes, exec);
    const gyre_attention_args args = turned_args(call);
    gyre_view dqkv[3] = {call->dqkv[0], call->dqkv[1], call->dqkv[2]};
    for (int i = 0; i < 2 && call->turns; i++)
        dqkv[i] = bench_trained_gradient_view(call->turns, &call->dqkv[i], i);
    gyre_status status = gyre_attention_gradient(&args,
                                                 GYRE_ARGS(gyre_attention_gradients, .dout = call->dout, .dq = dqkv[0],
                                                           .dk = dqkv[1], .dv = dqkv[2], .tables = &call->gradients,
                                                           .dq_gates = call->dq_gates, .dk_gates = call->dk_gates),
                                                 (gyre_scratch){scratch, bytes}, exec, NULL);
    if (!status && call->series) status = bench_fourier_gradient(call->series, &call->args, call->dqkv, exec);
    if (!status && call->turns) status = bench_trained_gradient(call->turns, &call->args, call->dqkv, exec);
    return status;
}

gyre_status bench_call_create(bench_call *out, const bench_scheme *scheme, int causal, const bench_data *data,
                              gyre_error *err) {
    const bench_shape *s = &data->shape;
    gyre_status status = GYRE_OK;
    *out = (bench_call){.name = scheme ? scheme->name : "no positions"};
    if (scheme) status = make_encoding(&out->encoding, scheme, s, err);
    if (status) return status;
    if (scheme) status = make_tables(out, s->gradient);
    if (!status && scheme && scheme->extra == BENCH_GATES) status = make_gates(out, s);
    if (!status && scheme && scheme->extra == BENCH_CONTEXTUAL) status = make_embeddings(out, s);
    if (!status && scheme && scheme->extra == BENCH_FOURIER && !(out->series = bench_fourier_create(s)))
        status = GYRE_ENOMEM;
    if (!status && scheme && is_trained(scheme) && !(out->turns = bench_trained_create(s, scheme->extra == BENCH_POLAR)))
        status = GYRE_ENOMEM;
    if (!status && scheme && scheme->extra == BENCH_ADAPTIVE) status = make_network(out, s);
    out->out = alloc_random(s->tokens * s->heads * s->head_dim, 0, 0, 0);
    out->lse = alloc_random(s->tokens * s->heads, 0, 0, 0);
    if (!out->out || !out->lse) status = GYRE_ENOMEM;
    if (status) {
        bench_call_free(out);
        return gyre_fail(err, status, "%s: %s (gyre bench)", out->name, gyre_status_text(status));
    }
    describe_call(out, causal, data);
    describe_gates(out, s);
    return GYRE_OK;
}

void bench_call_free(bench_call *call) {
    gyre_encoding_free(call->encoding);
    for (int i = 0; i < BENCH_TABLES; i++) {
        free(call->table[i]);
        free(call->dtable[i]);
    }
    free(call->gate_sums);
    free(call->dgate_sums);
    for (int i = 0; i < BENCH_NETWORK_PARTS; i++) {
        free(call->network[i]);
        free(call->dnetwork[i]);
    }
    free(call->embeddings);
    free(call->dembeddings);
    bench_fourier_free(call->series);
    bench_trained_free(call->turns);
    free(call->out);
    free(call->lse);
}

bench_call bench_call_shortened(const bench_call *call, int64_t tokens) {
    bench_call s = *call;
    s.args.tables = &call->tables;
    s.args.q.shape[1] = s.args.k.shape[1] = s.args.v.shape[1] = s.args.out.shape[1] = tokens;
    s.gates.q.shape[1] = s.gates.k.shape[1] = tokens;
    s.dq_gates.shape[1] = s.dk_gates.shape[1] = tokens;
    s.args.lse.shape[1] = s.dout.shape[1] = s.x.shape[1] = tokens;
    for (int i = 0; i < 3; i++)
        s.dqkv[i].shape[1] = tokens;
    return s;
}

size_t bench_call_scratch(const bench_call *call, const gyre_exec *exec) {
    return scratch_of(call, call->gradient, exec);
}

static gyre_status run_input(const bench_call *call, const gyre_exec *exec) {
    const gyre_positions from_zero = {.data = NULL};
    const gyre_cview x = gyre_const(call->x);
    if (!call->x.data) return GYRE_OK;
    if (call->gradient) return gyre_add_input_gradient(call->encoding, &from_zero, &x, &call->gradients, exec, NULL);
    return gyre_add_input(
        call->encoding,
        GYRE_ARGS(gyre_add_input_args, .tables = &call->tables, .positions = &from_zero, .in = x, .out = call->x), exec,
        NULL);
}

gyre_status bench_call_run(const bench_call *call, void *scratch, size_t bytes, const gyre_exec *exec) {
    const gyre_status status = run_input(call, exec);
    if (status) return status;
    if (!call->gradient) return run_forward(call, scratch, bytes, exec);
    return run_gradient(call, scratch, bytes, exec);
}

gyre_status bench_call_forward(const bench_call *call, const gyre_exec *exec, gyre_error *err) {
    if (!call->gradient) return GYRE_OK;
    const size_t bytes = scratch_of(call, 0, exec);
    void *scratch = NULL;
    gyre_status status = GYRE_EINVAL; /* bytes 0: the arguments are wrong */
    if (bytes && posix_memalign(&scratch, 64, bytes))
        status = GYRE_ENOMEM;
    else if (bytes)
        status = run_forward(call, scratch, bytes, exec);
    free(scratch);
    return status ? gyre_fail(err, status, "%s: %s (gyre bench)", call->name, gyre_status_text(status)) : GYRE_OK;
}
