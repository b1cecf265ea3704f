/* test_attention_messages.c: what a wrong call of attention says: the field, what it is, what was expected, and where. */
#include "attention_setup.h"
#include "gyre/gyre_cache.h"
#include "support.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 2, QUERIES = 5, KEYS = 7, HEADS = 4, KEY_HEADS = 2, DIM = 8, FLOATS = 4096 };

static float x[FLOATS], y[FLOATS], z[FLOATS];
static double w[FLOATS];
static const int64_t starts[3] = {0, 3, 5}, key_starts[3] = {0, 3, 7};

/* -- a good call, and what makes it wrong -- */

typedef struct call {
    attention_setup args;
    gyre_tables tables;
    gyre_cview dout;
    gyre_view dqkv[3];
    gyre_table_gradients gradients;
    int no_gradients; /* 1: NULL in place of their struct */
    int misaligned;
    size_t fewer_bytes;
} call;

static const float wrong_slopes[BATCH * HEADS] = {1, 2, 3, 4, 5, NAN, 7, 8};
static const int64_t head_positions[HEADS * QUERIES];
/* Past the end in key head 1 alone. */
static const int64_t far_positions[2 * KEYS] = {[2 * KEYS - 1] = (int64_t)1 << 32};

static gyre_encoding *alibi, *rope, *xpos, *far, *t5, *shaw, *learned_length;

static gyre_encoding *encoding_of(gyre_kind kind, void (*change)(gyre_config *)) {
    gyre_config config = GYRE_INIT(gyre_config);
    config.kind = kind;
    config.head_dim = DIM;
    config.heads = HEADS;
    config.trained_length = 64;
    if (change) change(&config);
    return test_encoding(&config);
}
static void set_xpos(gyre_config *c) {
    c->rope.xpos_base = 512;
}
static void set_far(gyre_config *c) {
    c->rope.far = GYRE_FAR_CLAMPED;
    c->rope.far_window = 4;
}
static void set_buckets(gyre_config *c) {
    c->score.buckets = 8;
}
static void set_distance(gyre_config *c) {
    c->score.max_distance = 4;
}
static void set_causal_length(gyre_config *c) {
    c->rope.scaling = GYRE_SCALING_DYNAMIC_NTK;
    c->rope.factor = 2;
    c->context_length = 64;
    c->length_policy = GYRE_LENGTH_POLICY_CAUSAL;
    c->length_block = 2;
}

static int make_encodings(void **state) {
    (void)state;
    alibi = encoding_of(GYRE_KIND_ALIBI, NULL);
    rope = encoding_of(GYRE_KIND_ROPE, NULL);
    xpos = encoding_of(GYRE_KIND_ROPE, set_xpos);
    far = encoding_of(GYRE_KIND_ROPE, set_far);
    t5 = encoding_of(GYRE_KIND_T5, set_buckets);
    shaw = encoding_of(GYRE_KIND_SHAW, set_distance);
    learned_length = encoding_of(GYRE_KIND_ROPE, set_causal_length);
    return 0;
}
static int free_encodings(void **state) {
    (void)state;
    gyre_encoding *const all[] = {alibi, rope, xpos, far, t5, shaw, learned_length};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        gyre_encoding_free(all[i]);
    return 0;
}

static call good_call(void) {
    call c = {.args = GYRE_INIT(attention_setup)};
    c.args.encoding = rope;
    c.args.q = gyre_cdense(x, GYRE_DTYPE_F32, BATCH, QUERIES, HEADS, DIM);
    c.args.k = c.args.v = gyre_cdense(x, GYRE_DTYPE_F32, BATCH, KEYS, KEY_HEADS, DIM);
    c.args.out = gyre_dense(y, GYRE_DTYPE_F32, BATCH, QUERIES, HEADS, DIM);
    c.args.lse = gyre_dense(y + 1024, GYRE_DTYPE_F32, BATCH, QUERIES, HEADS, 1);
    c.args.causal = GYRE_CAUSAL_BY_POSITION;
    c.dout = gyre_cdense(x, GYRE_DTYPE_F32, BATCH, QUERIES, HEADS, DIM);
    c.dqkv[0] = gyre_dense(z, GYRE_DTYPE_F32, BATCH, QUERIES, HEADS, DIM);
    c.dqkv[1] = gyre_dense(z + 1024, GYRE_DTYPE_F32, BATCH, KEYS, KEY_HEADS, DIM);
    c.dqkv[2] = gyre_dense(z + 2048, GYRE_DTYPE_F32, BATCH, KEYS, KEY_HEADS, DIM);
    return c;
}

static void use_packing(call *c) {
    c->args.q.shape[0] = c->args.k.shape[0] = c->args.v.shape[0] = c->args.out.shape[0] = c->args.lse.shape[0] = 1;
    c->args.q_starts = starts;
    c->args.k_starts = key_starts;
    c->args.sequences = 2;
}

static gyre_status run(call *c, int gradient, gyre_error *err) {
    static _Alignas(64) char scratch[1 << 22];
    const size_t bytes = c->fewer_bytes ? c->fewer_bytes : sizeof scratch - 64;
    if (!c->args.tables) c->args.tables = &c->tables;
    if (!gradient) return run_attention(&c->args, (gyre_scratch){scratch + c->misaligned, bytes}, NULL, err);
    const gyre_attention_gradients gradients = {.size = sizeof gradients,
                                                .dout = c->dout,
                                                .dq = c->dqkv[0],
                                                .dk = c->dqkv[1],
                                                .dv = c->dqkv[2],
                                                .tables = &c->gradients};
    const gyre_scratch room = {scratch + c->misaligned, bytes};
    attention_structs structs;
    if (c->no_gradients) return gyre_attention_gradient(attention_setup_args(&c->args, &structs), NULL, room, NULL, err);
    return run_attention_gradient(&c->args, &gradients, room, NULL, err);
}

/* The message has the fragment and the function; without err the status is the same; nothing was written. */
static void says(call *c, int gradient, gyre_status want, const char *fragment) {
    gyre_error err = {0, ""};
    memset(y, 0x5A, sizeof y);
    memset(z, 0x5A, sizeof z);
    const gyre_status status = run(c, gradient, &err);
    if (status != want || !strstr(err.text, fragment) || !strstr(err.text, "(gyre_attention"))
        fail_msg("status %d, wanted %d and \"%s\": %s", (int)status, (int)want, fragment, err.text);
    if (gradient && !strstr(err.text, "(gyre_attention_args)") && !strstr(err.text, "(gyre_attention_gradient"))
        fail_msg("not of the gradient: %s", err.text);
    assert_int_equal(run(c, gradient, NULL), want);
    for (size_t i = 0; i < sizeof y; i++)
        assert_true(((unsigned char *)y)[i] == 0x5A && ((unsigned char *)z)[i] == 0x5A);
}

#define SAYS(want, fragment, ...)                                                                                           \
    do {                                                                                                                    \
        call c = good_call();                                                                                               \
        attention_setup *const a = &c.args;                                                                                 \
        (void)a;                                                                                                            \
        __VA_ARGS__;                                                                                                        \
        says(&c, gradient, want, fragment);                                                                                 \
    } while (0)

/* -- both calls -- */

static void numbers_and_types(int gradient) {
    SAYS(GYRE_EINVAL, "size: 0 is not set", a->size = 0);
    SAYS(GYRE_EINVAL, "window: -1 is below 0", a->window = -1);
    SAYS(GYRE_EINVAL, "slopes: the encoding has no slopes to replace",
         a->slopes = gyre_cdense(x, GYRE_DTYPE_F32, BATCH, 1, HEADS, 1));
    SAYS(GYRE_EDTYPE, "slopes: element type F64 is not F32", a->encoding = alibi,
         a->slopes = gyre_cdense(x, GYRE_DTYPE_F64, BATCH, 1, HEADS, 1));
    SAYS(GYRE_ESHAPE, "slopes: shape [1, 1, 4, 1] is not [2, 1, 4, 1]", a->encoding = alibi,
         a->slopes = gyre_cdense(x, GYRE_DTYPE_F32, 1, 1, HEADS, 1));
    SAYS(GYRE_EINVAL, "slopes: nan of head 1 in row 1 is not within 2^64 of 0", a->encoding = alibi,
         a->slopes = gyre_cdense(wrong_slopes, GYRE_DTYPE_F32, BATCH, 1, HEADS, 1));
    SAYS(GYRE_EINVAL, "q_pos_head_stride: 5, but q_pos has no data", a->q_pos_head_stride = QUERIES);
    SAYS(GYRE_EINVAL, "k_pos_head_stride: -7, but k_pos has no data", a->k_pos_head_stride = -KEYS);
    SAYS(GYRE_ERANGE, "k_pos: 4294967296 of token 6",
         a->k_pos = (gyre_positions){far_positions, GYRE_DTYPE_I64, 0, 0, 0, 1, 0, 0}, a->k_pos_head_stride = KEYS);
    SAYS(GYRE_EINVAL, "window_after: -1 is below 0", a->window_after = -1);
    SAYS(GYRE_EINVAL, "q_pos.context_length: -3 is below 0", a->q_pos.context_length = -3);
    SAYS(GYRE_EINVAL, "sinks: -2 is below 0", a->sinks = -2);
    SAYS(GYRE_EINVAL, "sequences: -1 is below 0", a->sequences = -1);
    SAYS(GYRE_EINVAL, "causal: 7 is not a gyre_causal", a->causal = (gyre_causal)7);
    SAYS(GYRE_EINVAL, "order: 2 is not a gyre_order", a->order = (gyre_order)2);
    SAYS(GYRE_EINVAL, "scale: inf", a->scale = INFINITY);
    SAYS(GYRE_EINVAL, "softcap: -1 is neither 0 nor in", a->softcap = -1);
    SAYS(GYRE_EINVAL, "dropout: 1 is not in [0, 1)", a->dropout = 1);
    SAYS(GYRE_EDTYPE, "q: element type I32 is not F32, F16 or BF16", a->q.dtype = GYRE_DTYPE_I32);
    SAYS(GYRE_EDTYPE, "k: element type F32 is not F64", a->q.dtype = GYRE_DTYPE_F64);
    SAYS(GYRE_EDTYPE, "v: element type F32 is not F64", a->q.dtype = a->k.dtype = GYRE_DTYPE_F64);
    SAYS(GYRE_EDTYPE, "out: element type F32 is not F64", a->q.dtype = a->k.dtype = a->v.dtype = GYRE_DTYPE_F64);
    SAYS(GYRE_EDTYPE, "lse: element type F32 is not F64",
         a->q.dtype = a->k.dtype = a->v.dtype = a->out.dtype = GYRE_DTYPE_F64);
    SAYS(GYRE_EDTYPE, "k: element type Q8 is not", a->k.dtype = GYRE_DTYPE_Q8);
    SAYS(GYRE_EDTYPE, "v: element type I32 is not", a->v.dtype = GYRE_DTYPE_I32);
    SAYS(GYRE_EDTYPE, "out: element type I64 is not", a->out.dtype = GYRE_DTYPE_I64);
    SAYS(GYRE_EDTYPE, "lse: element type F16 is not F32 or F64", a->lse.dtype = GYRE_DTYPE_F16);
    SAYS(GYRE_EINVAL, "k_index: is NULL, but q_index is not", a->q_index = &a->q_pos);
    SAYS(GYRE_EINVAL, "q_index: is NULL, but k_index is not", a->k_index = &a->q_pos);
    SAYS(GYRE_ERANGE, "k_index: 4294967296 of token 6",
         (a->q_index = &a->q_pos, a->k_index = &(gyre_positions){far_positions + KEYS, GYRE_DTYPE_I64, 0, 0, 0, 1, 0, 0}));
    SAYS(GYRE_EINVAL, "context_lengths[1]: -1 is below 0", a->context_lengths = (const int64_t[]){0, -1});
}

static void shapes(int gradient) {
    SAYS(GYRE_ESHAPE, "k: 1 batch rows, but q has 2", a->k.shape[0] = 1);
    SAYS(GYRE_ESHAPE, "k: 6 channels, but q has 8", a->k.shape[3] = 6);
    SAYS(GYRE_ESHAPE, "q: 4 heads are not a multiple of the 3 key heads", a->k.shape[2] = 3);
    SAYS(GYRE_ESHAPE, "q: shape[2] = 0 is not in 1 ..", a->q.shape[2] = 0);
    SAYS(GYRE_ESHAPE, "k: shape[1] = -1 is not in 0 ..", a->k.shape[1] = -1);
    SAYS(GYRE_ESHAPE, "v: shape [2, 6, 2, 8] is not [2, 7, 2, 8]", a->v.shape[1] = 6);
    SAYS(GYRE_ESHAPE, "out: shape [2, 5, 4, 4] is not [2, 5, 4, 8]", a->out.shape[3] = 4);
    SAYS(GYRE_ESHAPE, "lse: shape [2, 5, 4, 2] is not [2, 5, 4, 1]", a->lse.shape[3] = 2);
    SAYS(GYRE_ESHAPE, "q: 6 channels, but the encoding has head_dim 8", a->q.shape[3] = a->k.shape[3] = 6);
    SAYS(GYRE_ESHAPE, "q: 2 heads, but the encoding has 4",
         (a->encoding = t5, a->q.shape[2] = a->out.shape[2] = a->lse.shape[2] = c.dout.shape[2] = 2));
    SAYS(GYRE_ESHAPE, "v: 4 channels, but the encoding has head_dim 8",
         (a->encoding = shaw, a->v.shape[3] = a->out.shape[3] = c.dout.shape[3] = 4));
    SAYS(GYRE_EUNSUPPORTED, "causal: xPos needs GYRE_CAUSAL_BY_POSITION", (a->encoding = xpos, a->causal = 0));
    SAYS(GYRE_EUNSUPPORTED, "causal: rope.far needs GYRE_CAUSAL_BY_POSITION", (a->encoding = far, a->causal = 2));
    SAYS(GYRE_EINVAL, "q: has no memory", a->q.data = NULL);
    SAYS(GYRE_EINVAL, "k: has no memory", a->k.data = NULL);
    SAYS(GYRE_EINVAL, "v: has no memory", a->v.data = NULL);
    SAYS(GYRE_EINVAL, "out: has no memory", a->out.data = NULL);
    SAYS(GYRE_EINVAL, "out: stride[", a->out.stride[1] = 0);
    SAYS(GYRE_EINVAL, "lse: stride[", a->lse.stride[2] = 0);
}

static void packing_and_padding(int gradient) {
    static const int64_t late[3] = {1, 3, 5}, falling[3] = {0, 6, 5}, one_less[3] = {0, 3, 4}, high[2] = {8, 0},
                         low[2] = {-1, 0}, past[2] = {3, 3};
    SAYS(GYRE_EINVAL, "k_starts: is NULL, but q_starts is not", a->q_starts = starts);
    SAYS(GYRE_EINVAL, "q_starts: is NULL, but k_starts is not", a->k_starts = starts);
    SAYS(GYRE_ESHAPE, "q: 2 batch rows, but a packed batch has 1", (a->q_starts = starts, a->k_starts = key_starts));
    SAYS(GYRE_EINVAL, "sequences: 0 is below 1, but q_starts is set", (use_packing(&c), a->sequences = 0));
    SAYS(GYRE_EINVAL, "q_starts[0]: 1 is not 0", (use_packing(&c), a->q_starts = late));
    SAYS(GYRE_EINVAL, "q_starts[2]: 5 is below 6 before it", (use_packing(&c), a->q_starts = falling));
    SAYS(GYRE_EINVAL, "q_starts[2]: 4 is not the number of tokens, 5", (use_packing(&c), a->q_starts = one_less));
    SAYS(GYRE_EINVAL, "k_starts[2]: 5 is not the number of tokens, 7", (use_packing(&c), a->k_starts = starts));
    SAYS(GYRE_EINVAL, "k_first, k_end: keys 0 .. 8 of sequence 0, which has 7 keys", a->k_end = high);
    SAYS(GYRE_EINVAL, "k_first, k_end: keys -1 .. 7 of sequence 0, which has 7 keys", a->k_first = low);
    SAYS(GYRE_EINVAL, "q_end[0]: 8 is not in 0 .. 5 queries", (a->causal = GYRE_CAUSAL_BY_ORDER, a->q_end = high));
    SAYS(GYRE_EINVAL, "q_end[0]: -1 is not in 0 .. 5 queries", (a->causal = GYRE_CAUSAL_BY_ORDER, a->q_end = low));
    SAYS(GYRE_EINVAL, "q_end[1]: 3 is not in 0 .. 2 queries",
         (use_packing(&c), a->causal = GYRE_CAUSAL_BY_ORDER, a->q_end = past));
}

/* Outputs lie apart from inputs and from each other: the first byte, one in the middle, between the rows of another view. */
static void forward_overlaps(void **state) {
    (void)state;
    const int gradient = 0;
    float *const inside = y + 100;
    SAYS(GYRE_EINVAL, "lse: overlaps q", a->q.data = y + 1024);
    SAYS(GYRE_EINVAL, "out: overlaps q", a->q.data = y);
    SAYS(GYRE_EINVAL, "out: overlaps k", a->k.data = inside);
    SAYS(GYRE_EINVAL, "out: overlaps v", a->v.data = inside);
    SAYS(GYRE_EINVAL, "out: overlaps lse", a->lse.data = y + BATCH * QUERIES * HEADS * DIM - 1);
    SAYS(GYRE_EINVAL, "out: overlaps mask",
         (a->mask = gyre_cdense(y, GYRE_DTYPE_F32, BATCH, QUERIES, HEADS, KEYS), a->mask.stride[0] = a->mask.stride[1] = 0));
    SAYS(GYRE_EINVAL, "lse: overlaps sink_logits", a->sink_logits = gyre_cdense(y + 1024, GYRE_DTYPE_F32, 1, 1, HEADS, 1));
    SAYS(GYRE_EINVAL, "out: overlaps q", (a->q.data = y + DIM, a->q.stride[1] *= 2, a->q.stride[0] *= 2));
}

/* In the gradient out and lse are inputs. */
static void gradient_overlaps(void **state) {
    (void)state;
    const int gradient = 1;
    SAYS(GYRE_EINVAL, "dq: overlaps dk", c.dqkv[1].data = (float *)c.dqkv[0].data + 4);
    SAYS(GYRE_EINVAL, "dv: overlaps out", c.dqkv[2].data = y);
    SAYS(GYRE_EINVAL, "dq: overlaps lse", c.dqkv[0].data = y + 1024);
    SAYS(GYRE_EINVAL, "dq: overlaps dout", c.dout.data = z);
    SAYS(GYRE_EINVAL, "dk: overlaps k", a->k.data = z + 1024);
    SAYS(GYRE_EINVAL, "dv: overlaps v", a->v.data = z + 2048);
}

static void options_and_positions(int gradient) {
    static int64_t at[KEYS] = {0, 1, 2, 3, 4, 5, (int64_t)1 << 33}, apart[KEYS] = {0, 1, 2, 3, 4, 5, 1 << 20};
    static int64_t wide[QUERIES] = {0, 1, 2, 3, 1 << 20};
    SAYS(GYRE_EDTYPE, "mask: element type F64", a->mask = gyre_cdense(x, GYRE_DTYPE_F64, BATCH, QUERIES, HEADS, KEYS));
    SAYS(GYRE_ESHAPE, "mask: shape [2, 5, 4, 6] is not [2, 5, 4, 7]",
         a->mask = gyre_cdense(x, GYRE_DTYPE_F32, BATCH, QUERIES, HEADS, 6));
    SAYS(GYRE_EDTYPE, "sink_logits: element type F16 is not F32",
         a->sink_logits = gyre_cdense(x, GYRE_DTYPE_F16, 1, 1, HEADS, 1));
    SAYS(GYRE_ESHAPE, "sink_logits: shape [1, 1, 3, 1] is not [1, 1, 4, 1]",
         a->sink_logits = gyre_cdense(x, GYRE_DTYPE_F32, 1, 1, 3, 1));
    SAYS(GYRE_EINVAL, "tables.bias: missing", a->encoding = t5);
    SAYS(GYRE_EDTYPE, "tables.bias: is F16, neither F32 nor F64",
         (a->encoding = t5, c.tables.bias = gyre_cdense(x, GYRE_DTYPE_F16, 1, 1, 8, HEADS)));
    SAYS(GYRE_ESHAPE, "tables.bias: [1, 1, 9, 4], but the encoding's is [1, 1, 8, 4]",
         (a->encoding = t5, c.tables.bias = gyre_cdense(x, GYRE_DTYPE_F32, 1, 1, 9, HEADS)));
    SAYS(GYRE_EDTYPE, "k_pos.dtype", a->k_pos = (gyre_positions){.data = x, .stride_token = 1});
    SAYS(GYRE_EINVAL, "k_pos.stride_token: is 0 over 7 tokens",
         a->k_pos = (gyre_positions){.data = apart, .dtype = GYRE_DTYPE_I64});
    SAYS(GYRE_EINVAL, "q_pos.stride_token: is 0 over 5 tokens",
         a->q_pos = (gyre_positions){.data = apart, .dtype = GYRE_DTYPE_I64});
    SAYS(GYRE_EINVAL, "q_index.stride_token: is 0 over 5 tokens",
         a->q_index = a->k_index = &(gyre_positions){.data = apart, .dtype = GYRE_DTYPE_I64});
    SAYS(GYRE_ERANGE, "k_pos: 8589934592",
         a->k_pos = (gyre_positions){.data = at, .dtype = GYRE_DTYPE_I64, .stride_token = 1});
    SAYS(GYRE_ERANGE, "q_pos: 2147483649", a->q_pos.base = INT32_MAX);
    SAYS(GYRE_ERANGE, "k_pos: positions 0 and 1048576 of one tile of 128 tokens are too far apart for xPos",
         (a->encoding = xpos, a->k_pos = (gyre_positions){.data = apart, .dtype = GYRE_DTYPE_I64, .stride_token = 1}));
    if (gradient) /* ORDER_FIXED is forward's */
        SAYS(GYRE_ERANGE, "q_pos: positions 0 and 1048576 of one tile",
             (a->encoding = xpos, a->order = GYRE_ORDER_FIXED,
              a->q_pos = (gyre_positions){.data = wide, .dtype = GYRE_DTYPE_I64, .stride_token = 1}));
    SAYS(GYRE_ENOMEM, "scratch: 64 bytes, but the call needs", c.fewer_bytes = 64);
    SAYS(GYRE_EINVAL, "is not aligned to 64 bytes", c.misaligned = 8);
}

static void both_say_why(void **state) {
    (void)state;
    for (int gradient = 0; gradient < 2; gradient++) {
        numbers_and_types(gradient);
        shapes(gradient);
        packing_and_padding(gradient);
        options_and_positions(gradient);
    }
}

/* -- one of them -- */

static void forward_says_why(void **state) {
    (void)state;
    const int gradient = 0;
    gyre_error err = {0, ""};
    SAYS(GYRE_EDTYPE, "state: element type F32 is not F64",
         a->state = gyre_dense(w, GYRE_DTYPE_F32, BATCH, QUERIES, HEADS, DIM + 2));
    SAYS(GYRE_ESHAPE, "state: shape [2, 5, 4, 8] is not [2, 5, 4, 10]",
         a->state = gyre_dense(w, GYRE_DTYPE_F64, BATCH, QUERIES, HEADS, DIM));
    SAYS(GYRE_EINVAL, "state: the last stride is 2, not 1",
         (a->state = gyre_dense(w, GYRE_DTYPE_F64, BATCH, QUERIES, HEADS, 2 * (DIM + 2)), a->state.shape[3] = DIM + 2,
          a->state.stride[3] = 2));
    SAYS(GYRE_EUNSUPPORTED, "state: a call in F64 has all keys of its rows",
         (a->q.dtype = a->k.dtype = a->v.dtype = a->out.dtype = a->lse.dtype = GYRE_DTYPE_F64,
          a->state = gyre_dense(w, GYRE_DTYPE_F64, BATCH, QUERIES, HEADS, DIM + 2)));
    SAYS(GYRE_EINVAL, "weights: are unknown while state has keys of other calls",
         (a->state = gyre_dense(w, GYRE_DTYPE_F64, BATCH, QUERIES, HEADS, DIM + 2),
          a->weights = gyre_dense(z, GYRE_DTYPE_F32, BATCH, QUERIES, HEADS, KEYS)));
    SAYS(GYRE_EINVAL, "state: overlaps q",
         (a->state = gyre_dense(w, GYRE_DTYPE_F64, BATCH, QUERIES, HEADS, DIM + 2), a->q.data = w));
    SAYS(GYRE_EINVAL, "lse: overlaps weights",
         a->weights = gyre_dense(y + 1000, GYRE_DTYPE_F32, BATCH, QUERIES, HEADS, KEYS));
    SAYS(GYRE_EDTYPE, "weights: element type F16 is not F32",
         a->weights = gyre_dense(z, GYRE_DTYPE_F16, BATCH, QUERIES, HEADS, KEYS));
    SAYS(GYRE_ESHAPE, "weights: shape [2, 5, 4, 6] is not [2, 5, 4, 7]",
         a->weights = gyre_dense(z, GYRE_DTYPE_F32, BATCH, QUERIES, HEADS, 6));
    SAYS(GYRE_EINVAL, "weights.first: 3 queries from 3 on, but there are 5",
         (a->weights = gyre_dense(z, GYRE_DTYPE_F32, BATCH, 3, HEADS, KEYS), a->weights_first = 3));
    assert_int_equal(run_attention(NULL, (gyre_scratch){NULL, 0}, NULL, &err), GYRE_EINVAL);
    assert_string_equal(err.text, "gyre_attention_args: is NULL (gyre_attention_args)");
}

static void gradient_says_why(void **state) {
    (void)state;
    const int gradient = 1;
    SAYS(GYRE_EINVAL, "gyre_attention_gradients: is NULL", c.no_gradients = 1);
    SAYS(GYRE_EDTYPE, "lse: element type F32 is not F64, which accumulate needs", a->accumulate = 1);
    SAYS(GYRE_EDTYPE, "dk: element type F16 is not F32, but it is added to",
         (a->accumulate = 1, a->k.dtype = c.dqkv[1].dtype = GYRE_DTYPE_F16));
    SAYS(GYRE_EINVAL, "lse: data is NULL, but the gradient needs it", a->lse.data = NULL);
    SAYS(GYRE_EDTYPE, "dout: element type F64", c.dout.dtype = GYRE_DTYPE_F64);
    SAYS(GYRE_ESHAPE, "dout: shape [2, 4, 4, 8] is not [2, 5, 4, 8]", c.dout.shape[1] = 4);
    SAYS(GYRE_EINVAL, "dout: has no memory", c.dout.data = NULL);
    SAYS(GYRE_EDTYPE, "dk: element type BF16 is not F32 or the type of its input", c.dqkv[1].dtype = GYRE_DTYPE_BF16);
    SAYS(GYRE_ESHAPE, "dv: shape [2, 7, 2, 4] is not [2, 7, 2, 8]", c.dqkv[2].shape[3] = 4);
    SAYS(GYRE_EINVAL, "dq: stride[", c.dqkv[0].stride[3] = 0);
    SAYS(GYRE_ESHAPE, "gradients.bias: [1, 1, 9, 4], but the encoding's is [1, 1, 8, 4]",
         (a->encoding = t5, c.tables.bias = gyre_cdense(x, GYRE_DTYPE_F32, 1, 1, 8, HEADS),
          c.gradients.bias = gyre_dense(z, GYRE_DTYPE_F32, 1, 1, 9, HEADS)));
    SAYS(GYRE_EDTYPE, "gradients.sink_logits: element type F16 is not F32 or F64",
         (a->sink_logits = gyre_cdense(x, GYRE_DTYPE_F32, 1, 1, HEADS, 1),
          c.gradients.sink_logits = gyre_dense(z, GYRE_DTYPE_F16, 1, 1, HEADS, 1)));
    SAYS(GYRE_EDTYPE, "dv: element type F16 is not F32, but query heads of a key head have different positions",
         a->v.dtype = c.dqkv[2].dtype = GYRE_DTYPE_F16, a->q_pos_head_stride = QUERIES,
         a->q_pos = (gyre_positions){head_positions, GYRE_DTYPE_I64, 0, 0, 0, 1, 0, 0});
    SAYS(GYRE_EDTYPE, "dk: element type F16 is not F32, but context lengths differ",
         (a->encoding = learned_length, a->q_pos.base = 80, a->k.dtype = c.dqkv[1].dtype = GYRE_DTYPE_F16));
}

/* -- structs of other versions -- */

static void args_of_another_version(void **state) {
    (void)state;
    static _Alignas(64) char scratch[1 << 22];
    const gyre_scratch room = {scratch, sizeof scratch};
    const call c = good_call();
    attention_structs structs;
    struct {
        gyre_attention_args args;
        char newer[64];
    } larger = {.args = *attention_setup_args(&c.args, &structs)};
    gyre_error err = {0, ""};
    size_t bytes = 0;
    larger.args.size = sizeof larger;
    assert_ok(gyre_attention_scratch(&larger.args, 0, NULL, &bytes, NULL));
    assert_true(bytes > 0);
    assert_ok(gyre_attention(&larger.args, room, NULL, NULL));
    larger.newer[40] = 1;
    assert_int_equal(gyre_attention_scratch(&larger.args, 0, NULL, &bytes, &err), GYRE_EINVAL);
    assert_non_null(strstr(err.text, "the caller's header is newer"));
    assert_int_equal(gyre_attention(&larger.args, room, NULL, &err), GYRE_EINVAL);
    assert_non_null(strstr(err.text, "the caller's header is newer"));
    /* An older struct ends before weights: what follows it in memory is not read. */
    larger.args.weights = (const gyre_attention_weights *)-1;
    larger.args.part = (const gyre_attention_part *)-1;
    larger.args.size = offsetof(gyre_attention_args, weights);
    assert_ok(gyre_attention(&larger.args, room, NULL, NULL));
}

/* -- caches -- */

static gyre_cache *make_cache(const gyre_encoding *encoding, gyre_cache_keys keys, gyre_dtype dtype) {
    gyre_cache_config config = GYRE_INIT(gyre_cache_config);
    gyre_cache *cache;
    config.encoding = encoding;
    config.keys = keys;
    config.key_dtype = config.value_dtype = dtype;
    config.heads = KEY_HEADS;
    config.head_dim = DIM;
    config.sequences = 2;
    config.max_tokens = 20;
    assert_ok(gyre_cache_create(&cache, &config, NULL, NULL));
    return cache;
}

static void expect(gyre_status status, gyre_status want, const gyre_error *err, const char *fragment, const char *name) {
    if (status != want || !strstr(err->text, fragment) || !strstr(err->text, name))
        fail_msg("status %d, wanted %d and \"%s\" of %s: %s", (int)status, (int)want, fragment, name, err->text);
}

typedef struct appended {
    int64_t sequence;
    gyre_cview k, v;
    gyre_positions positions;
} appended;

static void append_says(gyre_cache *cache, const appended *a, gyre_status want, const char *fragment) {
    gyre_error err = {0, ""};
    expect(gyre_cache_append(
               cache,
               GYRE_ARGS(gyre_cache_append_args, .sequence = a->sequence, .k = a->k, .v = a->v, .positions = &a->positions),
               NULL, &err),
           want, &err, fragment, "(gyre_cache_append)");
    assert_int_equal(gyre_cache_append(cache,
                                       GYRE_ARGS(gyre_cache_append_args, .sequence = a->sequence, .k = a->k, .v = a->v,
                                                 .positions = &a->positions),
                                       NULL, NULL),
                     want);
}

static void append_says_why(void **state) {
    (void)state;
    gyre_cache *cache = make_cache(rope, GYRE_CACHE_KEYS_ROTATED, GYRE_DTYPE_Q8);
    const appended good = {
        0, gyre_cdense(x, GYRE_DTYPE_F32, 1, 3, KEY_HEADS, DIM), gyre_cdense(x, GYRE_DTYPE_F32, 1, 3, KEY_HEADS, DIM), {0}};
    gyre_error err = {0, ""};
    appended a;
#define APPEND_SAYS(want, fragment, ...) (a = good, __VA_ARGS__, append_says(cache, &a, want, fragment))
    APPEND_SAYS(GYRE_EINVAL, "sequence: 2 is not in 0 .. 1", a.sequence = 2);
    APPEND_SAYS(GYRE_EDTYPE, "k: element type", a.k.dtype = GYRE_DTYPE_F64);
    APPEND_SAYS(GYRE_ESHAPE, "k: shape [1, 3, 3, 8] is not [1, 3, 2, 8]", a.k.shape[2] = 3);
    APPEND_SAYS(GYRE_ESHAPE, "v: shape [1, 2, 2, 8] is not [1, 3, 2, 8]", a.v.shape[1] = 2);
    APPEND_SAYS(GYRE_EINVAL, "v: has no memory", a.v.data = NULL);
    APPEND_SAYS(GYRE_EDTYPE, "positions.dtype: F32", (a.positions.data = x, a.positions.stride_token = 1));
    APPEND_SAYS(GYRE_EINVAL, "positions.stride_token: is 0 over 3 tokens",
                (a.positions.data = far_positions, a.positions.dtype = GYRE_DTYPE_I64));
    APPEND_SAYS(GYRE_ERANGE, "positions: 9223372036854775807", a.positions.base = INT64_MAX);
    APPEND_SAYS(GYRE_EINVAL, "positions.context_length: -1 is negative", a.positions.context_length = -1);
    APPEND_SAYS(GYRE_ENOMEM, "no room for 11 more tokens in a sequence of 0", a.k.shape[1] = a.v.shape[1] = 11);
    x[DIM * KEY_HEADS + DIM + 1] = INFINITY;
    APPEND_SAYS(GYRE_EINVAL, "k: token 1, head 1 has a NaN or a magnitude above", (void)0);
    x[DIM * KEY_HEADS + DIM + 1] = 0;
#undef APPEND_SAYS
    expect(gyre_cache_append(NULL, GYRE_ARGS(gyre_cache_append_args, .k = good.k, .v = good.v, .positions = &good.positions),
                             NULL, &err),
           GYRE_EINVAL, &err, "cache: is NULL", "(gyre_cache_append)");
    expect(
        gyre_cache_append(cache, GYRE_ARGS(gyre_cache_append_args, .k = good.k, .positions = &good.positions), NULL, &err),
        GYRE_EINVAL, &err, "v: has no memory, and the cache has no values_in_keys", "(gyre_cache_append)");
    assert_int_equal(gyre_cache_tokens(cache, 0), 0);
    gyre_cache_free(cache);
}

static gyre_cache_range range(int64_t sequence, int64_t first, int64_t count) {
    return (gyre_cache_range){sequence, first, count};
}

static void edits_say_why(void **state) {
    (void)state;
    static const int64_t far_away[GYRE_MAX_AXES] = {(int64_t)1 << 40}, past_the_end[GYRE_MAX_AXES] = {(int64_t)1 << 31};
    gyre_cache *cache = make_cache(rope, GYRE_CACHE_KEYS_ROTATED, GYRE_DTYPE_F32);
    const gyre_cview kv = gyre_cdense(x, GYRE_DTYPE_F32, 1, 6, KEY_HEADS, DIM);
    const gyre_positions at = {0};
    gyre_error err = {0, ""};
    int64_t out[8];
    assert_ok(gyre_cache_append(cache, GYRE_ARGS(gyre_cache_append_args, .k = kv, .v = kv, .positions = &at), NULL, NULL));
#define EDIT_SAYS(want, fragment, name, ...) expect(name(cache, __VA_ARGS__, &err), want, &err, fragment, "(" #name ")")
    EDIT_SAYS(GYRE_EINVAL, "sequence: -1 is not in 0 .. 1", gyre_cache_remove, range(-1, 0, 1));
    EDIT_SAYS(GYRE_EINVAL, "first, count: 3 tokens from 4 on of a sequence that has 6", gyre_cache_remove, range(0, 4, 3));
    EDIT_SAYS(GYRE_EINVAL, "first, count: 1 tokens from -1 on", gyre_cache_shift, range(0, -1, 1), far_away);
    EDIT_SAYS(GYRE_EINVAL, "delta: is NULL", gyre_cache_shift, range(0, 0, 1), NULL);
    EDIT_SAYS(GYRE_ERANGE, "delta: 1099511627776 is past 2^32", gyre_cache_shift, range(0, 0, 1), far_away);
    EDIT_SAYS(GYRE_ERANGE, "delta: token 1 would move to position 2147483649", gyre_cache_shift, range(0, 0, 6),
              past_the_end);
    EDIT_SAYS(GYRE_EINVAL, "from: 5 is not in 0 .. 1", gyre_cache_fork, 5, 0);
    EDIT_SAYS(GYRE_EINVAL, "to: 2 is not in 0 .. 1", gyre_cache_fork, 0, 2);
    EDIT_SAYS(GYRE_EINVAL, "window: 0 is below 1", gyre_cache_slide, 0, 0, 0, NULL);
    EDIT_SAYS(GYRE_EINVAL, "sinks: 5 is not in 0 .. 4", gyre_cache_slide, 0, 5, 4, NULL);
    EDIT_SAYS(GYRE_EINVAL, "axis: 1 is not in 0 .. 0", gyre_cache_positions, range(0, 0, 1), 1, out);
    EDIT_SAYS(GYRE_EINVAL, "first, count: 7 tokens from 0 on", gyre_cache_positions, range(0, 0, 7), 0, out);
    EDIT_SAYS(GYRE_EINVAL, "out: is NULL", gyre_cache_positions, range(0, 0, 6), 0, NULL);
    EDIT_SAYS(GYRE_EINVAL, "encoding: is NULL", gyre_cache_set_encoding, NULL, 0, NULL);
    EDIT_SAYS(GYRE_EINVAL, "length: -4 is below 0", gyre_cache_set_encoding, rope, -4, NULL);
    EDIT_SAYS(GYRE_ESHAPE, "encoding: it rotates nothing, but the stored keys are rotated", gyre_cache_set_encoding, t5, 0,
              NULL);
    gyre_config config = test_rope_config(DIM, GYRE_LAYOUT_INTERLEAVED);
    gyre_encoding *interleaved = test_encoding(&config);
    config.rope.layout = gyre_encoding_get_config(rope)->rope.layout;
    config.rope.dim = 4;
    gyre_encoding *narrow = test_encoding(&config);
    EDIT_SAYS(GYRE_EINVAL, "encoding: rope.layout 1, but keys are stored rotated in 0", gyre_cache_set_encoding, interleaved,
              0, NULL);
    EDIT_SAYS(GYRE_ESHAPE, "encoding: rotates 4 channels from 0 on", gyre_cache_set_encoding, narrow, 0, NULL);
#undef EDIT_SAYS
    expect(gyre_cache_set_encoding(cache, xpos, 0, NULL, &err), GYRE_EUNSUPPORTED, &err, "xPos", "");
    gyre_encoding_free(narrow);
    gyre_encoding_free(interleaved);
    gyre_cache_free(cache);
}

static void cache_says(const gyre_cache *cache, const int64_t *sequences, call *c, gyre_status want, const char *fragment) {
    static _Alignas(64) char scratch[1 << 22];
    gyre_error err = {0, ""};
    const size_t bytes = c->fewer_bytes ? c->fewer_bytes : sizeof scratch - 64;
    memset(y, 0x5A, sizeof y);
    expect(run_cache_attention(cache, sequences, &c->args, (gyre_scratch){scratch + c->misaligned, bytes}, NULL, &err), want,
           &err, fragment, "(gyre_cache_attention)");
    for (size_t i = 0; i < sizeof y; i++)
        assert_int_equal(((unsigned char *)y)[i], 0x5A);
}

static void cache_attention_says_why(void **state) {
    (void)state;
    static const int64_t both[2] = {0, 1}, wrong[2] = {0, 9}, after[2] = {7, 0};
    gyre_cache *cache = make_cache(rope, GYRE_CACHE_KEYS_ROTATED, GYRE_DTYPE_F32);
    const gyre_cview kv = gyre_cdense(x, GYRE_DTYPE_F32, 1, 6, KEY_HEADS, DIM);
    const gyre_positions at = {0};
    assert_ok(gyre_cache_append(cache, GYRE_ARGS(gyre_cache_append_args, .k = kv, .v = kv, .positions = &at), NULL, NULL));
#define CACHE_SAYS(want, fragment, sequences, ...)                                                                          \
    do {                                                                                                                    \
        call c = good_call();                                                                                               \
        attention_setup *const a = &c.args;                                                                                 \
        __VA_ARGS__;                                                                                                        \
        (void)a;                                                                                                            \
        cache_says(cache, sequences, &c, want, fragment);                                                                   \
    } while (0)
    CACHE_SAYS(GYRE_EINVAL, "sequences: is NULL", NULL, (void)0);
    CACHE_SAYS(GYRE_EINVAL, "sequences[1]: 9 is not in 0 .. 1", wrong, (void)0);
    CACHE_SAYS(GYRE_EDTYPE, "q: element type F64 is not F32, F16 or BF16", both, a->q.dtype = GYRE_DTYPE_F64);
    CACHE_SAYS(GYRE_EINVAL, "q_starts, k_starts: a cache takes no packed batch", both, a->k_starts = starts);
    CACHE_SAYS(GYRE_ESHAPE, "q: 2 batch rows, but with q_starts it has 1", both, a->q_starts = starts);
    CACHE_SAYS(GYRE_EINVAL, "dropout: 0.5 is not 0", both, a->dropout = 0.5);
    CACHE_SAYS(GYRE_EUNSUPPORTED, "q_pos_head_stride: a cache keeps one position for each token", both,
               a->q_pos_head_stride = 1);
    CACHE_SAYS(GYRE_EUNSUPPORTED, "k_pos_head_stride: a cache keeps one position for each token", both,
               a->k_pos_head_stride = 1);
    CACHE_SAYS(GYRE_ESHAPE, "slopes: 1 batch rows, but q has 2", both,
               a->slopes = gyre_cdense(x, GYRE_DTYPE_F32, 1, 1, HEADS, 1));
    CACHE_SAYS(GYRE_ESHAPE, "out: 1 batch rows, but q has 2", both, a->out.shape[0] = 1);
    CACHE_SAYS(GYRE_ESHAPE, "lse: 3 batch rows, but q has 2", both, a->lse.shape[0] = 3);
    CACHE_SAYS(GYRE_EINVAL, "out: stride[", both, a->out.stride[0] = 0);
    CACHE_SAYS(GYRE_ESHAPE, "mask: 5 keys, but the longest sequence has 6", both,
               a->mask = gyre_cdense(x, GYRE_DTYPE_F32, BATCH, QUERIES, HEADS, 5));
    CACHE_SAYS(GYRE_ESHAPE, "weights: 7 keys, but the longest sequence has 6", both,
               a->weights = gyre_dense(z, GYRE_DTYPE_F32, BATCH, QUERIES, HEADS, 7));
    CACHE_SAYS(GYRE_ESHAPE, "q: 3 heads are not a multiple of the 2 key heads", both,
               a->q.shape[2] = a->out.shape[2] = a->lse.shape[2] = 3);
    CACHE_SAYS(GYRE_EINVAL, "window: -1 is below 0", both, a->window = -1);
    CACHE_SAYS(GYRE_EINVAL, "out: overlaps q", both, a->q.data = y);
    CACHE_SAYS(GYRE_EINVAL, "out: overlaps q", both, a->q.data = y + QUERIES * HEADS * DIM); /* of the row after */
    CACHE_SAYS(GYRE_EINVAL, "k_first, k_end: keys 7 .. 6 of row 0, whose sequence has 6 tokens", both, a->k_first = after);
    CACHE_SAYS(GYRE_ERANGE, "q_pos: 2147483649", both, a->q_pos.base = INT32_MAX);
    CACHE_SAYS(GYRE_ENOMEM, "scratch: 1 bytes, but the call needs", both, c.fewer_bytes = 1);
    CACHE_SAYS(GYRE_ENOMEM, "scratch: 128 bytes, but the call needs", both, c.fewer_bytes = 128);
    CACHE_SAYS(GYRE_EINVAL, "is not aligned to 64 bytes", both, c.misaligned = 4);
#undef CACHE_SAYS
    gyre_error err = {0, ""};
    const attention_setup none = good_call().args;
    expect(run_cache_attention(NULL, both, &none, (gyre_scratch){x, 64}, NULL, &err), GYRE_EINVAL, &err, "cache: is NULL",
           "(gyre_cache_attention)");
    gyre_cache_free(cache);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_say_why),     cmocka_unit_test(forward_says_why),  cmocka_unit_test(gradient_says_why),
        cmocka_unit_test(forward_overlaps), cmocka_unit_test(gradient_overlaps), cmocka_unit_test(args_of_another_version),
        cmocka_unit_test(append_says_why),  cmocka_unit_test(edits_say_why),     cmocka_unit_test(cache_attention_says_why),
    };
    return cmocka_run_group_tests(tests, make_encodings, free_encodings);
}
