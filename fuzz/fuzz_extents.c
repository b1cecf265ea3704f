/* fuzz_extents.c: calls of every function that takes views, positions or counts, with one or some of their extents, strides,
 * types, addresses and numbers spoiled.  Each is refused with a text and writes nothing, or is computed inside its memory.
 * What is spoiled is either refused or describes no more memory than there is. */
#include "attention_setup.h"
#include "fuzz_bytes.h"
#include "fuzz_support.h"
#include "gyre/gyre_adaptive.h"
#include "gyre/gyre_cache.h"
#include "gyre/gyre_contextual.h"
#include "gyre/gyre_positions.h"
#include "gyre/gyre_ring.h"
#include "gyre/gyre_trained.h"
#include "scratch_bytes.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BATCH = 2, TOKENS = 3, HEADS = 2, DIM = 8, SLOTS = 40, SLOT_BYTES = 2048, SCRATCH = 1 << 20, MOST = 64 };

/* Something to spoil. */
typedef struct target {
    void *data;        /* a pointer; NULL for a number */
    gyre_dtype *dtype; /* of a view or of positions */
    int64_t *shape, *stride;
    int strides;     /* 4, or 3 of positions */
    int64_t *number; /* or NULL */
} target;

typedef struct call {
    fuzz_bytes in;
    gyre_error err;
    char *slot[SLOTS];
    int slots, targets;
    target target[MOST];
    const gyre_encoding *rope, *planes, *learned, *alibi, *t5, *shaw;
    void *scratch;
} call;

/* -- what is spoiled -- */

static gyre_view make(call *c, gyre_dtype dtype, int64_t batch, int64_t tokens, int64_t heads, int64_t channels) {
    char *slot = c->slot[c->slots++] = fuzz_room(SLOT_BYTES, 1);
    return gyre_dense(slot, dtype, batch, tokens, heads, channels);
}

static gyre_view floats(call *c, int64_t batch, int64_t tokens, int64_t heads, int64_t channels) {
    return make(c, GYRE_DTYPE_F32, batch, tokens, heads, channels);
}

static gyre_cview doubles(call *c, int64_t batch, int64_t tokens, int64_t heads, int64_t channels) {
    return gyre_const(make(c, GYRE_DTYPE_F64, batch, tokens, heads, channels));
}

static gyre_positions places(call *c, int64_t axes) {
    if (fuzz_choice(&c->in, 4) == 0) return (gyre_positions){.base = 5};
    return (gyre_positions){.data = c->slot[c->slots++] = fuzz_room(SLOT_BYTES, 1), /* all 0 */
                            .dtype = fuzz_choice(&c->in, 2) ? GYRE_DTYPE_I64 : GYRE_DTYPE_I32,
                            .stride_batch = TOKENS * axes,
                            .stride_token = axes,
                            .stride_axis = axes > 1};
}

#define VIEW(c, v) ((c)->target[(c)->targets++] = (target){&(v).data, &(v).dtype, (v).shape, (v).stride, 4, NULL})
#define POSITIONS(c, p)                                                                                                     \
    ((c)->target[(c)->targets++] = (target){&(p).data, &(p).dtype, NULL, &(p).stride_batch, 3, &(p).base})
#define NUMBER(c, n) ((c)->target[(c)->targets++] = (target){NULL, NULL, NULL, NULL, 0, &(n)})
#define STRIDE(c, n) ((c)->target[(c)->targets++] = (target){NULL, NULL, NULL, &(n), 1, NULL})

static const int64_t extents[] = {INT64_MIN, INT64_MIN + 1, -1, 0, (int64_t)1 << 62, INT64_MAX};
static const int64_t strides[] = {INT64_MIN, INT64_MIN + 1, -((int64_t)1 << 62), 0, (int64_t)1 << 60, INT64_MAX};

/* An input of stride 0 has as many elements as it likes, and a call on them takes as long. */
static void set_extent(const target *t, int axis, int64_t value) {
    if (value <= TOKENS * DIM || t->stride[axis] != 0) t->shape[axis] = value;
}

static void set_stride(const target *t, int axis, int64_t value) {
    if (value != 0 || !t->shape || t->shape[axis] <= TOKENS * DIM) t->stride[axis] = value;
}

static void spoil_data(call *c, const target *t) {
    char *data;
    memcpy(&data, t->data, sizeof data);
    const int choice = fuzz_choice(&c->in, 3), slot = fuzz_choice(&c->in, c->slots);
    data = choice == 0 ? NULL : choice == 1 ? c->slot[slot] : data ? data + 1 : NULL;
    memcpy(t->data, &data, sizeof data);
}

/* The same extent of every view that had the same. */
static void spoil_all(call *c, const target *t, int axis, int64_t value) {
    const int64_t was = t->shape[axis];
    for (int i = 0; i < c->targets; i++)
        if (c->target[i].shape && c->target[i].shape[axis] == was) set_extent(&c->target[i], axis, value);
}

static void spoil_one(call *c) {
    const target *t = &c->target[fuzz_choice(&c->in, c->targets)];
    const int what = fuzz_choice(&c->in, 6), axis = fuzz_choice(&c->in, 4), value = fuzz_choice(&c->in, 6);
    if (!t->data && t->stride)
        *t->stride = strides[value];
    else if (!t->data || (what == 0 && t->number))
        *t->number = extents[value];
    else if (what <= 1 && t->shape)
        set_extent(t, axis, extents[value]);
    else if (what == 2 && t->shape)
        spoil_all(c, t, axis, extents[value]);
    else if (what == 3)
        spoil_data(c, t);
    else if (what == 4)
        *t->dtype = (gyre_dtype)fuzz_choice(&c->in, 8);
    else
        set_stride(t, axis % t->strides, strides[value]);
}

static gyre_cview view_of(const target *t) {
    gyre_cview v = {.dtype = *t->dtype};
    memcpy(&v.data, t->data, sizeof v.data);
    memcpy(v.shape, t->shape, sizeof v.shape);
    memcpy(v.stride, t->stride, sizeof v.stride);
    return v;
}

/* Also asks whether what was spoiled overlaps. */
static void spoil(call *c) {
    for (int n = fuzz_choice(&c->in, 4); n > 0; n--)
        spoil_one(c);
    for (int i = 0; i + 1 < c->targets && c->target[i].shape && c->target[i + 1].shape; i++) {
        const gyre_cview a = view_of(&c->target[i]), b = view_of(&c->target[i + 1]);
        fuzz_require(gyre_views_overlap(&a, &b) == gyre_views_overlap(&b, &a), "overlap has two answers");
    }
}

/* -- places -- */

static gyre_status call_rotate(call *c) {
    const gyre_encoding *encoding = fuzz_choice(&c->in, 2) ? c->planes : c->rope;
    gyre_positions at = places(c, encoding == c->planes ? 2 : 1), old = at;
    gyre_view out = floats(c, BATCH, TOKENS, HEADS, DIM), sine = floats(c, BATCH, TOKENS, 1, DIM / 2);
    gyre_cview in = gyre_const(floats(c, BATCH, TOKENS, HEADS, DIM));
    const int which = fuzz_choice(&c->in, 4);
    if (which == 1) out = floats(c, BATCH, TOKENS, 1, DIM / 2);
    if (which == 3) in.shape[0] = out.shape[0] = 1, in.shape[1] = out.shape[1] = HEADS, in.shape[2] = out.shape[2] = DIM;
    VIEW(c, in), VIEW(c, out), VIEW(c, sine), POSITIONS(c, at), POSITIONS(c, old);
    NUMBER(c, at.context_length);
    spoil(c);
    if (which == 0)
        return gyre_rotate(encoding,
                           GYRE_ARGS(gyre_rotate_args, .role = GYRE_ROLE_KEY, .positions = &at, .in = in, .out = out), NULL,
                           &c->err);
    if (which == 1) return gyre_cos_sin(encoding, &at, &out, &sine, NULL, &c->err);
    if (which == 2)
        return gyre_rerotate(GYRE_ARGS(gyre_rerotate_args, .before = encoding, .after = encoding, .old_positions = &old,
                                       .new_positions = &at, .in = in, .out = out),
                             NULL, &c->err);
    return gyre_permute_rows(c->rope, GYRE_LAYOUT_HALF, GYRE_LAYOUT_INTERLEAVED, &in, &out, &c->err);
}

static gyre_status call_input(call *c) {
    gyre_positions at = places(c, 1);
    gyre_cview in = gyre_const(floats(c, BATCH, TOKENS, 1, DIM));
    gyre_view out = floats(c, BATCH, TOKENS, 1, DIM);
    gyre_tables tables = {.input = gyre_const(floats(c, 1, 1, 16, DIM))};
    gyre_table_gradients to = {.input = floats(c, 1, 1, 16, DIM)};
    const int gradient = fuzz_choice(&c->in, 2);
    VIEW(c, in), VIEW(c, out), VIEW(c, tables.input), VIEW(c, to.input), POSITIONS(c, at);
    spoil(c);
    return gradient
               ? gyre_add_input_gradient(c->learned, &at, &in, &to, NULL, &c->err)
               : gyre_add_input(c->learned,
                                GYRE_ARGS(gyre_add_input_args, .tables = &tables, .positions = &at, .in = in, .out = out),
                                NULL, &c->err);
}

static gyre_status call_bias(call *c) {
    gyre_positions queries = places(c, 1), keys = places(c, 1);
    gyre_view scores = floats(c, BATCH, TOKENS, HEADS, TOKENS);
    gyre_tables tables = {.bias = gyre_const(floats(c, 1, 1, 8, HEADS))};
    gyre_table_gradients to = {.bias = floats(c, 1, 1, 8, HEADS)};
    const int gradient = fuzz_choice(&c->in, 2);
    const gyre_encoding *encoding = fuzz_choice(&c->in, 2) ? c->t5 : c->alibi;
    VIEW(c, scores), VIEW(c, tables.bias), VIEW(c, to.bias), POSITIONS(c, queries), POSITIONS(c, keys);
    NUMBER(c, queries.context_length);
    spoil(c);
    const gyre_cview dscores = gyre_const(scores);
    return gradient
               ? gyre_add_bias_gradient(encoding,
                                        GYRE_ARGS(gyre_add_bias_args, .tables = &tables, .queries = &queries, .keys = &keys),
                                        &dscores, &to, NULL, &c->err)
               : gyre_add_bias(
                     encoding,
                     GYRE_ARGS(gyre_add_bias_args, .tables = &tables, .queries = &queries, .keys = &keys, .scores = scores),
                     NULL, &c->err);
}

static gyre_status call_simple(call *c) {
    gyre_view q = floats(c, BATCH, TOKENS, HEADS, DIM), out = floats(c, BATCH, TOKENS, HEADS, DIM);
    gyre_attention_dense_args a = GYRE_INIT(gyre_attention_dense_args);
    a.encoding = c->rope, a.q = a.k = a.v = q.data, a.out = out.data;
    a.batch = BATCH, a.queries = a.keys = TOKENS, a.heads = HEADS, a.head_dim = DIM;
    int64_t first = 0, length = 0;
    const int rotate = fuzz_choice(&c->in, 2);
    VIEW(c, q), NUMBER(c, first), NUMBER(c, length), NUMBER(c, a.context_length);
    NUMBER(c, a.batch), NUMBER(c, a.queries), NUMBER(c, a.keys), NUMBER(c, a.heads), NUMBER(c, a.kv_heads);
    NUMBER(c, a.head_dim), NUMBER(c, a.window), NUMBER(c, a.window_after);
    spoil(c);
    return rotate ? gyre_rotate_dense(c->rope, GYRE_ROLE_KEY, q, first, length, &c->err) : gyre_attention_dense(&a, &c->err);
}

/* -- attention -- */

/* What every call of attention takes. */
static attention_setup attention_args(call *c) {
    attention_setup a = GYRE_INIT(attention_setup);
    a.q = gyre_const(floats(c, BATCH, TOKENS, HEADS, DIM));
    a.k = gyre_const(floats(c, BATCH, TOKENS, HEADS, DIM));
    a.v = gyre_const(floats(c, BATCH, TOKENS, HEADS, DIM));
    a.q_pos = places(c, 1), a.k_pos = places(c, 1);
    a.out = floats(c, BATCH, TOKENS, HEADS, DIM);
    a.lse = make(c, GYRE_DTYPE_F64, BATCH, TOKENS, HEADS, 1);
    a.causal = (gyre_causal)fuzz_choice(&c->in, 3);
    a.order = (gyre_order)fuzz_choice(&c->in, 2);
    if (fuzz_choice(&c->in, 2)) a.mask = gyre_const(floats(c, BATCH, TOKENS, HEADS, TOKENS));
    if (fuzz_choice(&c->in, 2)) a.sink_logits = gyre_const(floats(c, 1, 1, HEADS, 1));
    if (fuzz_choice(&c->in, 4) == 0) a.q_gate_sums = doubles(c, BATCH, TOKENS, HEADS, 1);
    if (a.q_gate_sums.data) a.k_gate_sums = doubles(c, BATCH, TOKENS, HEADS, 1);
    return a;
}

#define ATTENTION_TARGETS(c, a)                                                                                             \
    (VIEW(c, (a).q), VIEW(c, (a).k), VIEW(c, (a).v), VIEW(c, (a).mask), VIEW(c, (a).sink_logits), VIEW(c, (a).out),         \
     VIEW(c, (a).lse), VIEW(c, (a).weights), VIEW(c, (a).slopes), VIEW(c, (a).q_gate_sums), VIEW(c, (a).k_gate_sums),       \
     VIEW(c, (a).dq_gate_sums), VIEW(c, (a).dk_gate_sums), VIEW(c, (a).state), POSITIONS(c, (a).q_pos),                     \
     POSITIONS(c, (a).k_pos), NUMBER(c, (a).window), NUMBER(c, (a).window_after), NUMBER(c, (a).sinks),                     \
     NUMBER(c, (a).weights_first), STRIDE(c, (a).q_pos_head_stride), STRIDE(c, (a).k_pos_head_stride))

static gyre_status call_attention(call *c) {
    static const int64_t firsts[BATCH] = {1, 0}, ends[BATCH] = {TOKENS, TOKENS - 1};
    attention_setup a = attention_args(c);
    const int gradient = fuzz_choice(&c->in, 2), scheme = fuzz_choice(&c->in, 4);
    const gyre_encoding *const of[] = {NULL, c->rope, c->alibi, c->shaw};
    gyre_tables tables = {.query = gyre_const(floats(c, 1, 1, 5, DIM)), .value = gyre_const(floats(c, 1, 1, 5, DIM))};
    gyre_table_gradients to = {.query = floats(c, 1, 1, 5, DIM), .sink_logits = floats(c, 1, 1, HEADS, 1)};
    gyre_positions q_index = places(c, 1), k_index = places(c, 1);
    gyre_view dqkv[3] = {floats(c, BATCH, TOKENS, HEADS, DIM), floats(c, BATCH, TOKENS, HEADS, DIM),
                         floats(c, BATCH, TOKENS, HEADS, DIM)};
    gyre_cview dout = gyre_const(floats(c, BATCH, TOKENS, HEADS, DIM));
    a.encoding = of[scheme];
    a.tables = &tables;
    if (fuzz_choice(&c->in, 2)) a.k_first = firsts, a.k_end = ends;
    if (fuzz_choice(&c->in, 4) == 0) a.q_index = &q_index, a.k_index = &k_index;
    if (a.q_gate_sums.data && gradient) a.dk_gate_sums = floats(c, BATCH, TOKENS, HEADS, 1);
    if (scheme == 2) a.slopes = gyre_const(floats(c, BATCH, 1, HEADS, 1));
    if (fuzz_choice(&c->in, 3) == 0)
        a.weights = floats(c, BATCH, TOKENS, HEADS, TOKENS);
    else if (fuzz_choice(&c->in, 3) == 0)
        a.state = make(c, GYRE_DTYPE_F64, BATCH, TOKENS, HEADS, DIM + 2);
    ATTENTION_TARGETS(c, a);
    VIEW(c, tables.query), VIEW(c, tables.value), VIEW(c, to.query), VIEW(c, to.sink_logits), VIEW(c, dout);
    VIEW(c, dqkv[0]), VIEW(c, dqkv[1]), VIEW(c, dqkv[2]), POSITIONS(c, q_index), POSITIONS(c, k_index);
    spoil(c);
    (void)attention_scratch(&a, gradient, NULL);
    return gradient ? run_attention_gradient(&a,
                                             GYRE_ARGS(gyre_attention_gradients, .dout = dout, .dq = dqkv[0], .dk = dqkv[1],
                                                       .dv = dqkv[2], .tables = &to),
                                             (gyre_scratch){c->scratch, SCRATCH}, NULL, &c->err)
                    : run_attention(&a, (gyre_scratch){c->scratch, SCRATCH}, NULL, &c->err);
}

static gyre_status call_merge(call *c) {
    gyre_cview states[2] = {doubles(c, BATCH, TOKENS, HEADS, DIM + 2), doubles(c, BATCH, TOKENS, HEADS, DIM + 2)};
    gyre_attention_merge_args a = GYRE_INIT(gyre_attention_merge_args);
    a.states = states, a.parts = 2;
    a.sink_logits = gyre_const(floats(c, 1, 1, HEADS, 1));
    a.out = floats(c, BATCH, TOKENS, HEADS, DIM), a.lse = floats(c, BATCH, TOKENS, HEADS, 1);
    VIEW(c, states[0]), VIEW(c, states[1]), VIEW(c, a.sink_logits), VIEW(c, a.out), VIEW(c, a.lse);
    spoil(c);
    return gyre_attention_merge(&a, NULL, &c->err);
}

static gyre_status call_gates(call *c) {
    const int64_t columns = 1 + fuzz_choice(&c->in, 2);
    gyre_cview in[2] = {doubles(c, BATCH, TOKENS, HEADS, columns), doubles(c, BATCH, TOKENS, HEADS, columns)};
    gyre_cview before = doubles(c, BATCH, 1, HEADS, columns);
    gyre_view out = make(c, GYRE_DTYPE_F64, BATCH, TOKENS, HEADS, columns);
    const int gradient = fuzz_choice(&c->in, 2);
    VIEW(c, in[0]), VIEW(c, in[1]), VIEW(c, before), VIEW(c, out);
    spoil(c);
    return gradient ? gyre_gate_sums_gradient(in, NULL, 0, &out, NULL, &c->err)
                    : gyre_gate_sums(GYRE_ARGS(gyre_gate_sums_args, .log_gates = *in, .before = before, .sums = out), NULL,
                                     &c->err);
}

static gyre_status call_contextual(call *c) {
    gyre_contextual_args a = GYRE_INIT(gyre_contextual_args);
    gyre_contextual_gradients to = GYRE_INIT(gyre_contextual_gradients);
    const int gradient = fuzz_choice(&c->in, 2);
    a.q = gyre_const(floats(c, BATCH, TOKENS, HEADS, DIM)), a.k = gyre_const(floats(c, BATCH, TOKENS, HEADS, DIM));
    a.v = gyre_const(floats(c, BATCH, TOKENS, HEADS, DIM)), a.embeddings = gyre_const(floats(c, 1, 4, HEADS, DIM));
    a.out = floats(c, BATCH, TOKENS, HEADS, DIM), a.lse = floats(c, BATCH, TOKENS, HEADS, 1);
    to.dq = floats(c, BATCH, TOKENS, HEADS, DIM), to.dk = floats(c, BATCH, TOKENS, HEADS, DIM);
    to.dembeddings = floats(c, 1, 4, HEADS, DIM);
    gyre_cview dout = gyre_const(floats(c, BATCH, TOKENS, HEADS, DIM));
    VIEW(c, a.q), VIEW(c, a.k), VIEW(c, a.v), VIEW(c, a.gate_keys), VIEW(c, a.embeddings), VIEW(c, a.out), VIEW(c, a.lse);
    VIEW(c, to.dq), VIEW(c, to.dk), VIEW(c, to.dv), VIEW(c, to.dembeddings), VIEW(c, dout);
    spoil(c);
    (void)contextual_scratch(&a, gradient, NULL);
    return gradient ? gyre_contextual_gradient(&a, &dout, &to, (gyre_scratch){c->scratch, SCRATCH}, NULL, &c->err)
                    : gyre_contextual_attention(&a, (gyre_scratch){c->scratch, SCRATCH}, NULL, &c->err);
}

static gyre_status call_adaptive(call *c) {
    gyre_adaptive_args a = GYRE_INIT(gyre_adaptive_args);
    gyre_adaptive_gradients to = GYRE_INIT(gyre_adaptive_gradients);
    gyre_positions at = places(c, 1), keys = places(c, 1);
    const int gradient = fuzz_choice(&c->in, 2);
    a.q = gyre_const(floats(c, BATCH, TOKENS, HEADS, DIM)), a.k = gyre_const(floats(c, BATCH, TOKENS, HEADS, DIM));
    a.v = gyre_const(floats(c, BATCH, TOKENS, HEADS, DIM)), a.bias = gyre_const(floats(c, BATCH, TOKENS, HEADS, TOKENS));
    a.network.hidden_weights = gyre_const(floats(c, 1, 1, 4, 2 * HEADS));
    a.network.output_weights = gyre_const(floats(c, 1, 1, HEADS, 4));
    a.network.output_bias = gyre_const(floats(c, 1, 1, 1, HEADS));
    a.out = floats(c, BATCH, TOKENS, HEADS, DIM), a.lse = floats(c, BATCH, TOKENS, HEADS, 1);
    if (fuzz_choice(&c->in, 2)) a.encoding = c->alibi, a.q_pos = &at, a.k_pos = &keys;
    to.dq = floats(c, BATCH, TOKENS, HEADS, DIM), to.dbias = floats(c, BATCH, TOKENS, HEADS, TOKENS);
    to.dhidden_weights = floats(c, 1, 1, 4, 2 * HEADS);
    gyre_cview dout = gyre_const(floats(c, BATCH, TOKENS, HEADS, DIM));
    VIEW(c, a.q), VIEW(c, a.k), VIEW(c, a.v), VIEW(c, a.bias), VIEW(c, a.out), VIEW(c, a.lse), VIEW(c, dout);
    VIEW(c, a.network.hidden_weights), VIEW(c, a.network.output_weights), VIEW(c, a.network.output_bias);
    VIEW(c, a.network.hidden_bias), VIEW(c, to.dq), VIEW(c, to.dbias), VIEW(c, to.dhidden_weights);
    POSITIONS(c, at), POSITIONS(c, keys), NUMBER(c, at.context_length);
    spoil(c);
    (void)adaptive_scratch(&a, gradient, NULL);
    return gradient ? gyre_adaptive_gradient(&a, &dout, &to, (gyre_scratch){c->scratch, SCRATCH}, NULL, &c->err)
                    : gyre_adaptive_attention(&a, (gyre_scratch){c->scratch, SCRATCH}, NULL, &c->err);
}

/* The sequences of a packed batch, one behind the other.  How many numbers a list has no call can see. */
static gyre_status call_packed(call *c) {
    int64_t q_starts[BATCH + 1] = {0, TOKENS, BATCH * TOKENS}, k_starts[BATCH + 1] = {0, TOKENS, BATCH * TOKENS};
    int64_t k_first[BATCH] = {0, 1}, k_end[BATCH] = {TOKENS, TOKENS};
    const gyre_view q = floats(c, 1, BATCH * TOKENS, HEADS, DIM), k = floats(c, 1, BATCH * TOKENS, HEADS, DIM),
                    out = floats(c, 1, BATCH * TOKENS, HEADS, DIM), lse = floats(c, 1, BATCH * TOKENS, HEADS, 1);
    attention_setup a = GYRE_INIT(attention_setup);
    gyre_contextual_args b = GYRE_INIT(gyre_contextual_args);
    gyre_adaptive_args d = GYRE_INIT(gyre_adaptive_args);
    const int which = fuzz_choice(&c->in, 3), limits = fuzz_choice(&c->in, 2);
    a.q = b.q = d.q = gyre_const(q), a.k = a.v = b.k = b.v = d.k = d.v = gyre_const(k);
    a.out = b.out = d.out = out, a.lse = b.lse = d.lse = lse;
    a.sequences = b.sequences = d.sequences = BATCH;
    a.q_starts = b.q_starts = d.q_starts = q_starts, a.k_starts = b.k_starts = d.k_starts = k_starts;
    if (limits) a.k_first = b.k_first = d.k_first = k_first, a.k_end = b.k_end = d.k_end = k_end;
    b.embeddings = gyre_const(floats(c, 1, 4, HEADS, DIM));
    d.bias = gyre_const(floats(c, 1, BATCH * TOKENS, HEADS, TOKENS));
    d.network.hidden_weights = gyre_const(floats(c, 1, 1, 4, 2 * HEADS));
    d.network.output_weights = gyre_const(floats(c, 1, 1, HEADS, 4));
    if (which == 0) VIEW(c, a.q), VIEW(c, a.k), VIEW(c, a.v), VIEW(c, a.out), VIEW(c, a.lse);
    if (which == 1) VIEW(c, b.q), VIEW(c, b.k), VIEW(c, b.v), VIEW(c, b.out), VIEW(c, b.lse), VIEW(c, b.embeddings);
    if (which == 2) VIEW(c, d.q), VIEW(c, d.k), VIEW(c, d.v), VIEW(c, d.out), VIEW(c, d.lse), VIEW(c, d.bias);
    for (int i = 0; i <= BATCH; i++)
        NUMBER(c, q_starts[i]), NUMBER(c, k_starts[i]);
    for (int i = 0; i < BATCH && limits; i++)
        NUMBER(c, k_first[i]), NUMBER(c, k_end[i]);
    spoil(c);
    if (which == 0) return run_attention(&a, (gyre_scratch){c->scratch, SCRATCH}, NULL, &c->err);
    if (which == 1) return gyre_contextual_attention(&b, (gyre_scratch){c->scratch, SCRATCH}, NULL, &c->err);
    return gyre_adaptive_attention(&d, (gyre_scratch){c->scratch, SCRATCH}, NULL, &c->err);
}

/* -- trained rotations -- */

static gyre_status call_trained(call *c) {
    const int which = fuzz_choice(&c->in, 8), polar = which == 2 || which == 3;
    const int64_t wide = polar ? 2 * DIM : DIM, pairs = polar ? DIM : DIM / 2;
    gyre_positions at = places(c, 1);
    gyre_cview in = gyre_const(floats(c, BATCH, TOKENS, HEADS, DIM)),
               dout = gyre_const(floats(c, BATCH, TOKENS, HEADS, wide));
    gyre_view out = floats(c, BATCH, TOKENS, HEADS, which == 3 ? DIM : wide);
    gyre_trained_rotation r = GYRE_INIT(gyre_trained_rotation);
    gyre_trained_gradients to = GYRE_INIT(gyre_trained_gradients);
    gyre_fourier_rotation f = GYRE_INIT(gyre_fourier_rotation);
    gyre_fourier_gradients f_to = GYRE_INIT(gyre_fourier_gradients);
    r.frequencies = doubles(c, 1, 1, HEADS, pairs), r.phases = doubles(c, 1, 1, HEADS, pairs);
    to.frequencies = floats(c, 1, 1, HEADS, pairs), to.phases = floats(c, 1, 1, HEADS, pairs);
    f.frequencies = doubles(c, 1, 1, 1, 3), f.cosines = doubles(c, 1, HEADS, 3, 2), f.sines = doubles(c, 1, HEADS, 3, 2);
    f.pairs = DIM / 2;
    f_to.frequencies = floats(c, 1, 1, 1, 3), f_to.cosines = floats(c, 1, HEADS, 3, 2);
    gyre_angle_rotation a = GYRE_INIT(gyre_angle_rotation);
    gyre_view dangles = make(c, GYRE_DTYPE_F64, BATCH, TOKENS, HEADS, DIM / 2);
    a.angles = doubles(c, BATCH, TOKENS, HEADS, DIM / 2);
    VIEW(c, in), VIEW(c, out), VIEW(c, dout), POSITIONS(c, at);
    if (which < 4) VIEW(c, r.frequencies), VIEW(c, r.phases), VIEW(c, to.frequencies), VIEW(c, to.phases);
    if (which == 4 || which == 5) VIEW(c, f.frequencies), VIEW(c, f.cosines), VIEW(c, f.sines), VIEW(c, f_to.frequencies);
    if (which == 4 || which == 5) VIEW(c, f_to.cosines), NUMBER(c, f.pairs), NUMBER(c, f.first_channel);
    if (which >= 6) VIEW(c, a.angles), VIEW(c, dangles), NUMBER(c, a.first_channel);
    NUMBER(c, r.first_channel);
    spoil(c);
    if (which == 0)
        return gyre_trained_rotate(&r, GYRE_ARGS(gyre_rotate_args, .positions = &at, .in = in, .out = out), NULL, &c->err);
    if (which == 1)
        return gyre_trained_rotate_gradient(
            &r, GYRE_ARGS(gyre_rotate_gradient_args, .positions = &at, .in = in, .dout = dout), &to, NULL, &c->err);
    if (which == 2)
        return gyre_polar_rotate(&r, GYRE_ARGS(gyre_rotate_args, .positions = &at, .in = in, .out = out), NULL, &c->err);
    if (which == 3)
        return gyre_polar_rotate_gradient(
            &r, GYRE_ARGS(gyre_rotate_gradient_args, .positions = &at, .in = in, .dout = dout, .din = out), &to, NULL,
            &c->err);
    if (which == 4)
        return gyre_fourier_rotate(&f, GYRE_ARGS(gyre_rotate_args, .positions = &at, .in = in, .out = out), NULL, &c->err);
    if (which == 6) return gyre_angle_rotate(&a, GYRE_ARGS(gyre_rotate_args, .in = in, .out = out), NULL, &c->err);
    if (which == 7)
        return gyre_angle_rotate_gradient(&a, GYRE_ARGS(gyre_rotate_gradient_args, .in = in, .dout = dout), &dangles, NULL,
                                          &c->err);
    return gyre_fourier_rotate_gradient(&f, GYRE_ARGS(gyre_rotate_gradient_args, .positions = &at, .in = in, .dout = dout),
                                        &f_to, NULL, &c->err);
}

/* -- a cache -- */

static gyre_cache *open_cache(call *c, const gyre_encoding *encoding, int gated) {
    gyre_cache_config config = GYRE_INIT(gyre_cache_config);
    gyre_cache *cache = NULL;
    config.encoding = encoding;
    config.heads = HEADS, config.head_dim = DIM, config.sequences = 3, config.max_tokens = 24, config.page_tokens = 4;
    config.gate_heads = gated ? HEADS : 0;
    gyre_cache_append_args a = GYRE_INIT(gyre_cache_append_args);
    a.positions = &(const gyre_positions){0};
    a.k = a.v = gyre_const(floats(c, 1, TOKENS, HEADS, DIM));
    if (gated) a.gates = doubles(c, 1, TOKENS, HEADS, 1);
    fuzz_require(!gyre_cache_create(&cache, &config, NULL, NULL), "no cache");
    for (int64_t s = 0; s < BATCH; s++) {
        a.sequence = s;
        fuzz_require(!gyre_cache_append(cache, &a, NULL, NULL), "a cache takes no tokens");
    }
    return cache;
}

static gyre_status call_cache_attention(call *c) {
    const int64_t sequences[BATCH] = {1, 0};
    attention_setup a = attention_args(c);
    gyre_positions q_index = places(c, 1), k_index = places(c, 1);
    gyre_cache *cache = open_cache(c, fuzz_choice(&c->in, 2) ? c->rope : c->alibi, a.q_gate_sums.data != NULL);
    if (fuzz_choice(&c->in, 4) == 0) a.q_index = &q_index, a.k_index = &k_index;
    if (fuzz_choice(&c->in, 3) == 0) a.weights = floats(c, BATCH, TOKENS, HEADS, TOKENS);
    if (fuzz_choice(&c->in, 3) == 0) a.slopes = gyre_const(floats(c, BATCH, 1, HEADS, 1));
    ATTENTION_TARGETS(c, a);
    POSITIONS(c, q_index), POSITIONS(c, k_index);
    spoil(c);
    (void)cache_attention_scratch(cache, sequences, &a, NULL);
    const gyre_status status = run_cache_attention(cache, sequences, &a, (gyre_scratch){c->scratch, SCRATCH}, NULL, &c->err);
    gyre_cache_free(cache);
    return status;
}

/* Contextual positions, or adaptive biases, over a cache. */
static gyre_status call_cache_positions(call *c) {
    const int64_t sequences[BATCH] = {1, 0};
    gyre_contextual_args a = GYRE_INIT(gyre_contextual_args);
    gyre_adaptive_args b = GYRE_INIT(gyre_adaptive_args);
    gyre_positions at = places(c, 1);
    const int adaptive = fuzz_choice(&c->in, 2);
    gyre_cache *cache = open_cache(c, adaptive && fuzz_choice(&c->in, 2) ? c->alibi : NULL, 0);
    a.q = b.q = gyre_const(floats(c, BATCH, TOKENS, HEADS, DIM)), a.embeddings = gyre_const(floats(c, 1, 4, HEADS, DIM));
    b.bias = gyre_const(floats(c, BATCH, TOKENS, HEADS, TOKENS));
    b.network.hidden_weights = gyre_const(floats(c, 1, 1, 4, 2 * HEADS));
    b.network.output_weights = gyre_const(floats(c, 1, 1, HEADS, 4));
    a.out = b.out = floats(c, BATCH, TOKENS, HEADS, DIM), a.lse = b.lse = floats(c, BATCH, TOKENS, HEADS, 1);
    if (fuzz_choice(&c->in, 2)) b.q_pos = &at;
    if (adaptive)
        VIEW(c, b.q), VIEW(c, b.bias), VIEW(c, b.network.hidden_weights), VIEW(c, b.network.output_weights), VIEW(c, b.out),
            VIEW(c, b.lse), POSITIONS(c, at), NUMBER(c, at.context_length);
    else
        VIEW(c, a.q), VIEW(c, a.embeddings), VIEW(c, a.out), VIEW(c, a.lse), VIEW(c, a.gate_keys);
    spoil(c);
    (void)cache_contextual_scratch(cache, sequences, &a, NULL), (void)cache_adaptive_scratch(cache, NULL, &b, NULL);
    const gyre_status status =
        adaptive ? gyre_cache_adaptive_attention(cache, sequences, &b, (gyre_scratch){c->scratch, SCRATCH}, NULL, &c->err)
                 : gyre_cache_contextual_attention(cache, sequences, &a, (gyre_scratch){c->scratch, SCRATCH}, NULL, &c->err);
    gyre_cache_free(cache);
    return status;
}

static gyre_status edit_cache(call *c, gyre_cache *cache, int which, int64_t n[4], int64_t *out) {
    const int64_t delta[GYRE_MAX_AXES] = {n[3]};
    int64_t next;
    if (which == 0) return gyre_cache_remove(cache, (gyre_cache_range){n[0], n[1], n[2]}, &c->err);
    if (which == 1) return gyre_cache_shift(cache, (gyre_cache_range){n[0], n[1], n[2]}, delta, &c->err);
    if (which == 2) return gyre_cache_fork(cache, n[0], n[1], &c->err);
    if (which == 3) return gyre_cache_slide(cache, n[0], n[1], n[2], &next, &c->err);
    if (which == 4) return gyre_cache_set_encoding(cache, c->rope, n[3], NULL, &c->err);
    return gyre_cache_positions(cache, (gyre_cache_range){n[0], n[1], n[2]}, 0, out, &c->err);
}

static gyre_status call_cache(call *c) {
    gyre_cache_append_args a = GYRE_INIT(gyre_cache_append_args);
    gyre_cache *cache = open_cache(c, c->rope, 1);
    const int which = fuzz_choice(&c->in, 8);
    int64_t n[4] = {0, 1, 1, 1}, out[TOKENS];
    a.k = gyre_const(floats(c, 1, TOKENS, HEADS, DIM)), a.v = gyre_const(floats(c, 1, TOKENS, HEADS, DIM));
    gyre_positions at = places(c, 1);
    a.gates = doubles(c, 1, TOKENS, HEADS, 1), a.positions = &at;
    VIEW(c, a.k), VIEW(c, a.v), VIEW(c, a.gates), POSITIONS(c, at), NUMBER(c, a.sequence);
    NUMBER(c, at.context_length), NUMBER(c, n[0]), NUMBER(c, n[1]), NUMBER(c, n[2]), NUMBER(c, n[3]);
    spoil(c);
    const gyre_status status = which < 6 ? edit_cache(c, cache, which, n, out) : gyre_cache_append(cache, &a, NULL, &c->err);
    gyre_cache_free(cache);
    return status;
}

/* -- batches and a ring of one -- */

static gyre_status no_exchange(void *ctx, int channel, const gyre_exchange *exchange) {
    (void)ctx, (void)channel, (void)exchange;
    return GYRE_EIO;
}

static gyre_status no_wait(void *ctx, int channel) {
    (void)ctx, (void)channel;
    return GYRE_EIO;
}

static gyre_status ring(call *c, const gyre_shards *shards) {
    const int which = fuzz_choice(&c->in, 3);
    attention_setup a = attention_args(c);
    gyre_transport transport = GYRE_INIT(gyre_transport);
    gyre_ring_args r = GYRE_INIT(gyre_ring_args);
    gyre_ring_merge_args m = GYRE_INIT(gyre_ring_merge_args);
    gyre_view dqkv[3] = {floats(c, BATCH, TOKENS, HEADS, DIM), floats(c, BATCH, TOKENS, HEADS, DIM),
                         floats(c, BATCH, TOKENS, HEADS, DIM)};
    gyre_cview dout = gyre_const(floats(c, BATCH, TOKENS, HEADS, DIM));
    transport.begin = no_exchange, transport.wait = no_wait, transport.ranks = 1;
    a.mask.data = NULL;
    r.shards = shards, r.transport = &transport, r.pass = (gyre_ring_pass)fuzz_choice(&c->in, 4);
    m.state = doubles(c, BATCH, TOKENS, HEADS, DIM + 2), m.transport = &transport, m.out = a.out, m.lse = a.lse;
    if (which < 2)
        ATTENTION_TARGETS(c, a), VIEW(c, dqkv[0]), VIEW(c, dqkv[1]), VIEW(c, dqkv[2]), VIEW(c, dout);
    else
        VIEW(c, m.state), VIEW(c, m.out), VIEW(c, m.lse), VIEW(c, m.sink_logits);
    spoil(c);
    attention_structs structs;
    r.attention = attention_setup_args(&a, &structs);
    (void)ring_scratch(&r, which, NULL), (void)ring_merge_scratch(&m);
    if (which == 0) return gyre_ring_attention(&r, (gyre_scratch){c->scratch, SCRATCH}, NULL, &c->err);
    if (which == 1)
        return gyre_ring_attention_gradient(
            &r, GYRE_ARGS(gyre_attention_gradients, .dout = dout, .dq = dqkv[0], .dk = dqkv[1], .dv = dqkv[2]),
            (gyre_scratch){c->scratch, SCRATCH}, NULL, &c->err);
    return gyre_ring_merge(&m, (gyre_scratch){c->scratch, SCRATCH}, NULL, &c->err);
}

static gyre_status deal(call *c, const gyre_batch *batch, const gyre_shards *shards) {
    const int which = fuzz_choice(&c->in, 3);
    const gyre_dtype dtype = which == 2 ? GYRE_DTYPE_I64 : GYRE_DTYPE_F32;
    const int64_t heads = which == 2 ? 1 : HEADS, channels = which == 2 ? 1 : DIM;
    gyre_cview from = gyre_const(make(c, dtype, BATCH, TOKENS, heads, channels));
    gyre_view to = make(c, dtype, BATCH, TOKENS, heads, channels);
    int64_t rank = 0;
    VIEW(c, from), VIEW(c, to), NUMBER(c, rank);
    spoil(c);
    if (which == 0) return gyre_shards_take(shards, rank, &from, &to, &c->err);
    return which == 1 ? gyre_shards_put(shards, rank, &from, &to, &c->err)
                      : gyre_batch_shift_labels(batch, &from, rank, &to, &c->err);
}

static gyre_status call_shards(call *c) {
    static const int64_t lengths[BATCH] = {TOKENS, TOKENS};
    gyre_batch_config config = GYRE_INIT(gyre_batch_config);
    gyre_shard_config split = GYRE_INIT(gyre_shard_config);
    gyre_batch *batch = NULL;
    gyre_shards *shards = NULL;
    config.form = GYRE_BATCH_PADDED_RIGHT, config.documents = BATCH, config.lengths = lengths;
    split.ranks = 1;
    fuzz_require(!gyre_batch_create(&batch, &config, NULL, NULL) && !gyre_shards_create(&shards, batch, &split, NULL, NULL),
                 "no batch");
    const gyre_status status = fuzz_choice(&c->in, 2) ? ring(c, shards) : deal(c, batch, shards);
    gyre_shards_free(shards);
    gyre_batch_free(batch);
    return status;
}

/* -- one input -- */

static const gyre_encoding *make_encoding(gyre_kind kind, int64_t axes) {
    gyre_config config = GYRE_INIT(gyre_config);
    gyre_encoding *out = NULL;
    config.kind = kind, config.head_dim = DIM, config.heads = HEADS, config.trained_length = 16;
    config.input.dim = DIM, config.input.positions = 16;
    config.score.buckets = 8, config.score.max_distance = 2;
    config.rope.axes = axes, config.rope.axis_pairs[0] = config.rope.axis_pairs[1] = axes > 1 ? DIM / 4 : 0;
    if (kind == GYRE_KIND_T5) config.score.max_distance = 16;
    fuzz_require(!gyre_encoding_create(&out, &config, NULL, NULL), "no encoding");
    return out;
}

/* A call that fails leaves all memory as it was. */
static void run(call *c, gyre_status (*function)(call *)) {
    const gyre_status status = function(c);
    static const char zeros[SLOT_BYTES];
    if (status) fuzz_require_error(status, &c->err);
    for (int i = 0; i < c->slots; i++) {
        if (status) fuzz_require(memcmp(c->slot[i], zeros, SLOT_BYTES) == 0, "a call that fails has written");
        free(c->slot[i]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static gyre_status (*const functions[])(call *) = {
        call_rotate, call_input,           call_bias,    call_simple,          call_attention,
        call_merge,  call_gates,           call_trained, call_contextual,      call_adaptive,
        call_cache,  call_cache_attention, call_shards,  call_cache_positions, call_packed};
    static const gyre_encoding *made[6];
    static _Alignas(64) char scratch[SCRATCH];
    if (!made[0]) {
        made[0] = make_encoding(GYRE_KIND_ROPE, 1), made[1] = make_encoding(GYRE_KIND_ROPE, 2);
        made[2] = make_encoding(GYRE_KIND_LEARNED, 1), made[3] = make_encoding(GYRE_KIND_ALIBI, 1);
        made[4] = make_encoding(GYRE_KIND_T5, 1), made[5] = make_encoding(GYRE_KIND_SHAW, 1);
    }
    call c = {.in = {data, size},
              .rope = made[0],
              .planes = made[1],
              .learned = made[2],
              .alibi = made[3],
              .t5 = made[4],
              .shaw = made[5],
              .scratch = scratch};
    run(&c, functions[fuzz_choice(&c.in, sizeof functions / sizeof *functions)]);
    return 0;
}
