/* test_prepared.c: calls of attention and of rotation that are kept between runs: the bits of plain calls, for every number
 * of keys, any memory and any threads, and what runs refuse. */
#include "gyre/gyre_attention.h"
#include "support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { KEYS = 300, HEADS = 8, MOST_DIM = 272, MOST_BATCH = 2 };

/* -- attention -- */

typedef struct prepared_case {
    const char *name;
    int scheme; /* 0 = none, else a gyre_kind */
    gyre_layout layout;
    gyre_dtype q, kv, out;
    int64_t batch, queries, heads, kv_heads, dim, value_dim;
    gyre_causal causal;
    int64_t window;
    int sinks, lse; /* lse: 0 = none, 1 = F32, 2 = F64 */
    int64_t q_step; /* between channels */
} prepared_case;

#define F32  GYRE_DTYPE_F32
#define F16  GYRE_DTYPE_F16
#define BF16 GYRE_DTYPE_BF16
#define HALF GYRE_LAYOUT_HALF
#define PAIR GYRE_LAYOUT_INTERLEAVED
static const prepared_case cases[] = {
    {"one head for each key head", 0, HALF, F32, F32, F32, 1, 1, 8, 8, 64, 64, 0, 0, 0, 1, 1},
    {"eight channels", 0, HALF, F32, F32, F32, 1, 1, 8, 4, 8, 8, 0, 0, 0, 2, 1},
    {"channels that fill no vector", 0, HALF, F32, F32, F32, 2, 1, 6, 3, 20, 13, 0, 0, 0, 1, 1},
    {"a group of six", 0, HALF, F32, F32, F32, 1, 1, 6, 1, 128, 128, 0, 0, 0, 0, 1},
    {"256 channels", 0, HALF, F32, F32, F32, 1, 1, 4, 4, 256, 256, 0, 0, 0, 1, 1},
    {"more channels than the kernel takes", 0, HALF, F32, F32, F32, 1, 1, 2, 2, 272, 272, 0, 0, 0, 1, 1},
    {"f16", 0, HALF, F16, F16, F16, 1, 1, 8, 8, 40, 24, 0, 0, 0, 1, 1},
    {"bf16", 0, HALF, BF16, BF16, BF16, 1, 1, 8, 2, 80, 80, 0, 0, 0, 2, 1},
    {"floats over bf16", 0, HALF, F32, BF16, F32, 2, 1, 8, 2, 72, 72, 0, 0, 0, 1, 1},
    {"queries apart", 0, HALF, F32, F16, F32, 1, 1, 4, 4, 32, 32, 0, 0, 0, 1, 2},
    {"rope", GYRE_KIND_ROPE, HALF, F32, F32, F32, 1, 1, 8, 8, 64, 64, GYRE_CAUSAL_BY_POSITION, 0, 0, 1, 1},
    {"rope in f16", GYRE_KIND_ROPE, HALF, F16, F16, F32, 2, 1, 8, 4, 32, 32, GYRE_CAUSAL_BY_POSITION, 0, 0, 1, 1},
    {"rope in pairs", GYRE_KIND_ROPE, PAIR, F32, F32, F32, 1, 1, 4, 2, 48, 48, GYRE_CAUSAL_BY_ORDER, 0, 0, 1, 1},
    {"rope of odd halves", GYRE_KIND_ROPE, HALF, F32, F32, F32, 1, 1, 4, 4, 24, 24, GYRE_CAUSAL_BY_POSITION, 0, 0, 1, 1},
    {"a window", GYRE_KIND_ROPE, HALF, F32, F32, F32, 1, 1, 4, 4, 32, 32, GYRE_CAUSAL_BY_POSITION, 40, 0, 1, 1},
    {"a window by order", GYRE_KIND_ROPE, HALF, F32, F32, F32, 1, 1, 4, 4, 32, 32, GYRE_CAUSAL_BY_ORDER, 40, 0, 1, 1},
    {"sink logits", 0, HALF, F32, F32, F32, 1, 1, 8, 2, 32, 32, 0, 0, 1, 1, 1},
    {"alibi", GYRE_KIND_ALIBI, HALF, F32, F32, F32, 1, 1, 8, 8, 32, 32, GYRE_CAUSAL_BY_POSITION, 0, 0, 1, 1},
    {"five queries", GYRE_KIND_ROPE, HALF, F32, F32, F32, 1, 5, 8, 2, 32, 32, GYRE_CAUSAL_BY_ORDER, 0, 0, 1, 1},
    {"forty queries", GYRE_KIND_ROPE, HALF, BF16, BF16, F32, 1, 40, 4, 2, 32, 32, GYRE_CAUSAL_BY_POSITION, 0, 0, 2, 1}};

/* Memory of a call; each tensor has room for all of them. */
enum { MOST = MOST_BATCH * KEYS * HEADS * MOST_DIM * 2 };
typedef struct memory {
    float *q, *k, *v, *out, *want;
    double lse[MOST_BATCH * 64 * HEADS], want_lse[MOST_BATCH * 64 * HEADS];
    float sinks[HEADS];
} memory;

/* Bits of any 16-bit or 32-bit type that are numbers of moderate size in it. */
static void fill(test_random *random, gyre_dtype type, float *to, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        const float x = (float)test_uniform(random);
        uint32_t bits;
        memcpy(&bits, &x, sizeof bits);
        if (type == F32)
            to[i] = x;
        else if (type == BF16)
            ((uint16_t *)(void *)to)[i] = (uint16_t)(bits >> 16);
        else /* sign, an exponent of 2^-4 .. 2^0, a fraction */
            ((uint16_t *)(void *)to)[i] = (uint16_t)((bits >> 16 & 0x8000) | (11 + (bits & 3)) << 10 | (bits >> 2 & 0x3ff));
    }
}

static memory make_memory(const prepared_case *c, uint64_t seed) {
    memory m = {.q = malloc(MOST * sizeof(float)),
                .k = malloc(MOST * sizeof(float)),
                .v = malloc(MOST * sizeof(float)),
                .out = calloc(MOST, sizeof(float)),
                .want = calloc(MOST, sizeof(float))};
    test_random random = {seed};
    assert_true(m.q && m.k && m.v && m.out && m.want);
    fill(&random, c->q, m.q, c->batch * c->queries * c->heads * c->dim * c->q_step);
    fill(&random, c->kv, m.k, c->batch * KEYS * c->kv_heads * c->dim);
    fill(&random, c->kv, m.v, c->batch * KEYS * c->kv_heads * c->value_dim);
    random.state = 99; /* in each memory the same, because runs keep their address */
    fill(&random, F32, m.sinks, HEADS);
    return m;
}

static void free_memory(memory *m) {
    free(m->q), free(m->k), free(m->v), free(m->out), free(m->want);
}

static gyre_encoding *encoding_of(const prepared_case *c) {
    gyre_encoding *encoding = NULL;
    gyre_error err;
    if (c->scheme == GYRE_KIND_ROPE) assert_ok(gyre_rope_create(&encoding, c->dim, 10000, c->layout, &err));
    if (c->scheme == GYRE_KIND_ALIBI) assert_ok(gyre_alibi_create(&encoding, c->heads, &err));
    return encoding;
}

/* Keys have the strides of a longest call, so that a run of fewer is its beginning. */
static gyre_attention_args args_of(const prepared_case *c, const gyre_encoding *encoding, memory *m, int64_t keys) {
    gyre_attention_args args = GYRE_INIT(gyre_attention_args);
    args.encoding = encoding;
    args.q = gyre_cdense(m->q, c->q, c->batch, c->queries, c->heads, c->dim);
    for (int i = 0; i < 4; i++)
        args.q.stride[i] *= c->q_step;
    args.k = gyre_cdense(m->k, c->kv, c->batch, KEYS, c->kv_heads, c->dim);
    args.v = gyre_cdense(m->v, c->kv, c->batch, KEYS, c->kv_heads, c->value_dim);
    args.k.shape[1] = args.v.shape[1] = keys;
    args.out = gyre_dense(m->want, c->out, c->batch, c->queries, c->heads, c->value_dim);
    if (c->lse) args.lse = gyre_dense(m->want_lse, c->lse == 2 ? GYRE_DTYPE_F64 : F32, c->batch, c->queries, c->heads, 1);
    args.causal = c->causal;
    args.window = c->window;
    if (c->sinks) args.sink_logits = gyre_cdense(m->sinks, F32, 1, 1, HEADS, 1);
    args.q_pos.base = keys - c->queries;
    return args;
}

static void run_plain(const gyre_attention_args *args, const gyre_exec *exec) {
    size_t bytes;
    gyre_error err;
    assert_ok(gyre_attention_scratch(args, 0, exec, &bytes, &err));
    void *scratch = aligned_alloc(64, bytes);
    assert_non_null(scratch);
    assert_ok(gyre_attention(args, (gyre_scratch){scratch, bytes}, exec, &err));
    free(scratch);
}

static void check_case(const prepared_case *c, const gyre_exec *exec) {
    static const int64_t keys_of_runs[] = {1, 2, 3, 15, 16, 17, 127, 128, 129, 40, 299, 300, 5, 1};
    gyre_encoding *encoding = encoding_of(c);
    gyre_prepared_attention *prepared = NULL;
    gyre_error err = {0, ""};
    memory first = make_memory(c, 1), other = make_memory(c, 2);
    gyre_attention_args args = args_of(c, encoding, &first, KEYS);
    args.q.data = args.k.data = args.v.data = args.out.data = NULL; /* shapes alone, but for lse */
    assert_ok(gyre_prepared_attention_create(&prepared, &args, exec, NULL, &err));
    for (size_t i = 0; i < sizeof keys_of_runs / sizeof *keys_of_runs; i++) {
        memory *m = i % 2 ? &other : &first;
        const int64_t keys = keys_of_runs[i] < c->queries ? c->queries : keys_of_runs[i];
        const gyre_attention_args plain = args_of(c, encoding, m, keys);
        const size_t out = (size_t)(c->batch * c->queries * c->heads * c->value_dim) * gyre_dtype_size(c->out),
                     lse = (size_t)(c->batch * c->queries * c->heads) * (c->lse == 2 ? 8 : 4);
        run_plain(&plain, exec);
        memset(m->out, 0xff, out);
        memset(m->lse, 0xff, sizeof m->lse);
        assert_ok(
            gyre_prepared_attention_run(prepared,
                                        GYRE_ARGS(gyre_attention_memory, .q = m->q, .k = m->k, .v = m->v, .out = m->out,
                                                  .lse = c->lse ? m->lse : NULL, .keys = keys, .q_base = keys - c->queries),
                                        &err));
        if (memcmp(m->out, m->want, out) != 0) fail_msg("%s, %d keys: out differs", c->name, (int)keys);
        if (c->lse && memcmp(m->lse, m->want_lse, lse) != 0) fail_msg("%s, %d keys: lse differs", c->name, (int)keys);
    }
    gyre_prepared_attention_free(prepared);
    gyre_encoding_free(encoding);
    free_memory(&first), free_memory(&other);
}

static void runs_have_the_bits_of_plain_calls(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_case(&cases[i], NULL);
}

static void runs_have_the_bits_of_plain_calls_with_threads(void **state) {
    (void)state;
    gyre_pool *pool = NULL;
    assert_ok(gyre_pool_create(&pool, 3, NULL));
    const gyre_exec exec = gyre_pool_exec(pool);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_case(&cases[i], &exec);
    gyre_pool_free(pool);
}

/* Threads change no bit: nor does the way that one thread takes where several would not. */
static void threads_change_no_bit(void **state) {
    (void)state;
    gyre_pool *pool = NULL;
    assert_ok(gyre_pool_create(&pool, 3, NULL));
    const gyre_exec exec = gyre_pool_exec(pool);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const prepared_case *c = &cases[i];
        gyre_encoding *encoding = encoding_of(c);
        memory m = make_memory(c, 3);
        gyre_attention_args args = args_of(c, encoding, &m, KEYS);
        run_plain(&args, NULL);
        args.out.data = m.out;
        if (c->lse) args.lse.data = m.lse;
        run_plain(&args, &exec);
        const size_t out = (size_t)(c->batch * c->queries * c->heads * c->value_dim) * gyre_dtype_size(c->out);
        if (memcmp(m.out, m.want, out) != 0) fail_msg("%s: out differs with threads", c->name);
        gyre_encoding_free(encoding);
        free_memory(&m);
    }
    gyre_pool_free(pool);
}

/* An infinite value must not leak into rows that give it weight 0, and a NaN must reach its rows. */
static void infinite_values_go_the_way_of_plain_calls(void **state) {
    (void)state;
    const prepared_case *c = &cases[0];
    gyre_prepared_attention *prepared = NULL;
    memory m = make_memory(c, 4);
    for (int i = 0; i < 64; i++)
        m.k[7 * 8 * 64 + i] = -1e4F * m.q[i]; /* key 7 of head 0 has weight 0 */
    m.v[7 * 8 * 64 + 3] = (float)INFINITY;
    m.v[9 * 8 * 64 + 64 + 5] = (float)NAN; /* of head 1 */
    const gyre_attention_args args = args_of(c, NULL, &m, 20);
    run_plain(&args, NULL);
    assert_ok(gyre_prepared_attention_create(&prepared, &args, NULL, NULL, NULL));
    for (int run = 0; run < 2; run++) {
        memset(m.out, 0xff, 8 * 64 * 4);
        assert_ok(gyre_prepared_attention_run(prepared, GYRE_ARGS(gyre_attention_memory, .out = m.out, .q_base = 19), NULL));
        assert_memory_equal(m.out, m.want, 8 * 64 * 4);
        for (int i = 0; i < 64; i++)
            assert_true(isfinite(m.out[i]));
        assert_true(isnan(m.out[64 + 5]) && isfinite(m.out[64 + 4]));
    }
    gyre_prepared_attention_free(prepared);
    free_memory(&m);
}

/* Keys that had the positions of as many queries, and so their angles, get others in a later run.  Past 32768 and below 0
 * angles come from no table. */
static void bases_change_between_runs(void **state) {
    (void)state;
    static const int64_t bases[][2] = {{0, 0},    {100, 90},      {1000000, 1000000}, {1000003, 1000000}, {-40, -40},
                                       {-4, -40}, {40000, 40000}, {40000, 39990},     {40000, 40000},     {70000, 70000}};
    const prepared_case *c = &cases[19];
    gyre_prepared_attention *prepared = NULL;
    gyre_encoding *encoding = encoding_of(c);
    memory m = make_memory(c, 8);
    gyre_attention_args args = args_of(c, encoding, &m, c->queries);
    args.lse.data = NULL;
    args.causal = 0;
    assert_ok(gyre_prepared_attention_create(&prepared, &args, NULL, NULL, NULL));
    for (size_t i = 0; i < sizeof bases / sizeof *bases; i++) {
        args.q_pos.base = bases[i][0], args.k_pos.base = bases[i][1];
        run_plain(&args, NULL);
        assert_ok(gyre_prepared_attention_run(
            prepared, GYRE_ARGS(gyre_attention_memory, .out = m.out, .q_base = bases[i][0], .k_base = bases[i][1]), NULL));
        assert_memory_equal(m.out, m.want, (size_t)(c->queries * c->heads * c->value_dim) * 4);
    }
    gyre_prepared_attention_free(prepared);
    gyre_encoding_free(encoding);
    free_memory(&m);
}

/* A call with a mask is checked in each run, and the mask has the keys of the run. */
static void a_mask_is_read_in_each_run(void **state) {
    (void)state;
    const prepared_case *c = &cases[0];
    static float mask[KEYS];
    gyre_prepared_attention *prepared = NULL;
    memory m = make_memory(c, 5);
    gyre_attention_args args = args_of(c, NULL, &m, KEYS);
    args.mask = gyre_cdense(mask, F32, 1, 1, HEADS, KEYS);
    args.mask.stride[2] = 0;
    assert_ok(gyre_prepared_attention_create(&prepared, &args, NULL, NULL, NULL));
    for (int64_t keys = 10; keys < 14; keys++) {
        mask[keys - 5] = (float)-INFINITY;
        args.k.shape[1] = args.v.shape[1] = args.mask.shape[3] = keys;
        run_plain(&args, NULL);
        assert_ok(gyre_prepared_attention_run(
            prepared, GYRE_ARGS(gyre_attention_memory, .out = m.out, .keys = keys, .q_base = keys - 1), NULL));
        assert_memory_equal(m.out, m.want, HEADS * 64 * 4);
    }
    gyre_prepared_attention_free(prepared);
    free_memory(&m);
}

static void assert_refused(gyre_prepared_attention *prepared, const gyre_attention_memory *given, gyre_status status,
                           const char *text) {
    gyre_error err = {0, ""};
    assert_int_equal(gyre_prepared_attention_run(prepared, given, &err), status);
    assert_string_equal(err.text, text);
}

static void runs_refuse_what_plain_calls_refuse(void **state) {
    (void)state;
    const prepared_case *c = &cases[10];
    gyre_prepared_attention *prepared = NULL;
    gyre_encoding *encoding = encoding_of(c);
    memory m = make_memory(c, 6);
    gyre_attention_args args = args_of(c, encoding, &m, 4);
    args.out.data = NULL;
    args.lse.data = NULL;
    assert_ok(gyre_prepared_attention_create(&prepared, &args, NULL, NULL, NULL));
    for (int run = 0; run < 2; run++) { /* before the checks of a first run, and after */
        assert_refused(NULL, GYRE_ARGS(gyre_attention_memory, .out = m.out), GYRE_EINVAL,
                       "prepared: is NULL (gyre_prepared_attention_run)");
        assert_refused(prepared, GYRE_ARGS(gyre_attention_memory, .out = m.out, .keys = 5), GYRE_EINVAL,
                       "keys: 5 is not in 0 .. 4 (gyre_prepared_attention_run)");
        assert_refused(prepared, GYRE_ARGS(gyre_attention_memory, .out = m.out, .lse = m.lse), GYRE_EINVAL,
                       "lse: was NULL at creation (gyre_prepared_attention_run)");
        assert_refused(prepared, GYRE_ARGS(gyre_attention_memory, .out = m.k), GYRE_EINVAL,
                       "out: overlaps k (gyre_prepared_attention_run)");
        assert_refused(prepared, GYRE_ARGS(gyre_attention_memory, .out = m.out, .q_base = (int64_t)1 << 40), GYRE_ERANGE,
                       "q_pos: 1099511627776 of token 0 is past 2^31 (gyre_prepared_attention_run)");
        assert_int_equal(gyre_prepared_attention_run(
                             prepared, GYRE_ARGS(gyre_attention_memory, .out = (char *)m.out + 2, .q_base = 3), NULL),
                         GYRE_EINVAL);
        assert_int_equal(gyre_prepared_attention_run(prepared, NULL, NULL), GYRE_EINVAL);
        assert_int_equal(m.out[0] != 0, run); /* a refused run writes nothing */
        assert_ok(gyre_prepared_attention_run(prepared, GYRE_ARGS(gyre_attention_memory, .out = m.out, .q_base = 3), NULL));
    }
    gyre_prepared_attention_free(prepared);
    gyre_encoding_free(encoding);
    free_memory(&m);
}

static void out_is_needed_by_a_run(void **state) {
    (void)state;
    gyre_prepared_attention *prepared = NULL;
    memory m = make_memory(&cases[0], 6);
    gyre_attention_args args = args_of(&cases[0], NULL, &m, 4);
    args.out.data = NULL;
    assert_ok(gyre_prepared_attention_create(&prepared, &args, NULL, NULL, NULL));
    assert_refused(prepared, GYRE_ARGS(gyre_attention_memory, .q = m.q), GYRE_EINVAL,
                   "out: has no memory for its shape [1, 1, 8, 64] (gyre_prepared_attention_run)");
    gyre_prepared_attention_free(prepared);
    free_memory(&m);
}

static void creation_allocates_once_and_runs_never(void **state) {
    (void)state;
    memory m = make_memory(&cases[0], 7);
    gyre_attention_args args = args_of(&cases[0], NULL, &m, 4);
    gyre_prepared_attention *prepared = NULL, *const none = NULL;
    gyre_error err = {0, ""};
    test_budget budget = {.left = 0};
    gyre_alloc alloc = test_budget_alloc(&budget);
    assert_int_equal(gyre_prepared_attention_create(&prepared, &args, NULL, &alloc, &err), GYRE_ENOMEM);
    assert_ptr_equal(prepared, none);
    budget.left = 1;
    assert_ok(gyre_prepared_attention_create(&prepared, &args, NULL, &alloc, &err));
    assert_ok(gyre_prepared_attention_run(prepared, GYRE_ARGS(gyre_attention_memory, .out = m.out, .q_base = 3), &err));
    assert_int_equal(budget.live, 1);
    gyre_prepared_attention_free(prepared);
    gyre_prepared_attention_free(NULL);
    assert_int_equal(budget.live, 0);
    assert_int_equal(gyre_prepared_attention_create(NULL, &args, NULL, NULL, &err), GYRE_EINVAL);
    prepared = NULL;
    args.k.stride[1] = (int64_t)1 << 60;
    assert_int_equal(gyre_prepared_attention_create(&prepared, &args, NULL, NULL, &err), GYRE_EINVAL);
    assert_string_equal(err.text, "k: its strides reach further than memory does (gyre_prepared_attention_create)");
    args.out.shape[3] = 5;
    assert_int_equal(gyre_prepared_attention_create(&prepared, &args, NULL, NULL, &err), GYRE_ESHAPE);
    assert_ptr_equal(prepared, none);
    free_memory(&m);
}

/* -- rotation -- */

static void check_rotation(const gyre_encoding *encoding, gyre_dtype type, int64_t tokens, int in_place,
                           gyre_direction direction) {
    enum { DIM = 48, MOST_TOKENS = 70 };
    static double x[MOST_TOKENS * HEADS * DIM], y[MOST_TOKENS * HEADS * DIM], want[MOST_TOKENS * HEADS * DIM];
    gyre_prepared_rotation *prepared = NULL;
    gyre_positions at = {.base = 0};
    test_random random = {8};
    const size_t bytes = (size_t)(tokens * HEADS * DIM) * gyre_dtype_size(type);
    gyre_rotate_args args = GYRE_INIT(gyre_rotate_args);
    args.direction = direction;
    args.positions = &at;
    args.in = gyre_cdense(NULL, type, 1, tokens, HEADS, DIM);
    args.out = gyre_dense(NULL, type, 1, tokens, HEADS, DIM);
    assert_ok(gyre_prepared_rotation_create(&prepared, encoding, &args, NULL, NULL, NULL));
    for (int64_t base = 0; base < 5000; base = 3 * base + 1) {
        for (int64_t i = 0; i < tokens * HEADS * DIM; i++)
            if (type == GYRE_DTYPE_F64) x[i] = test_uniform(&random);
        if (type != GYRE_DTYPE_F64) fill(&random, type, (float *)(void *)x, tokens * HEADS * DIM);
        at.base = base; /* of the plain call; the prepared one has its own copy */
        args.in.data = x;
        args.out.data = want;
        assert_ok(gyre_rotate(encoding, &args, NULL, NULL));
        memset(y, 0xff, bytes);
        if (in_place) memcpy(y, x, bytes);
        assert_ok(gyre_prepared_rotation_run(prepared, in_place ? (void *)y : x, y, base, NULL));
        assert_memory_equal(y, want, bytes);
    }
    gyre_prepared_rotation_free(prepared);
}

static void rotations_have_the_bits_of_plain_calls(void **state) {
    (void)state;
    for (int layout = 0; layout < 3; layout++)
        for (int type = 0; type < TEST_DTYPES; type++) {
            gyre_config config = test_rope_config(48, (gyre_layout)layout);
            gyre_encoding *encoding = test_encoding(&config);
            for (int i = 0; i < 2; i++)
                for (int64_t tokens = 1; tokens <= 70; tokens += 69)
                    for (int direction = 0; direction < 3; direction++)
                        check_rotation(encoding, test_dtypes[type], tokens, i, (gyre_direction)direction);
            gyre_encoding_free(encoding);
        }
}

static void rotations_refuse_what_plain_calls_refuse(void **state) {
    (void)state;
    static float x[HEADS * 64 + 1];
    const gyre_positions at = {.base = 0};
    gyre_encoding *rope = NULL;
    gyre_prepared_rotation *prepared = NULL;
    gyre_error err = {0, ""};
    gyre_rotate_args args = GYRE_INIT(gyre_rotate_args);
    args.positions = &at;
    args.in = gyre_cdense(NULL, F32, 1, 1, HEADS, 64);
    args.out = gyre_dense(NULL, F32, 1, 1, HEADS, 64);
    assert_ok(gyre_rope_create(&rope, 64, 10000, HALF, NULL));
    assert_ok(gyre_prepared_rotation_create(&prepared, rope, &args, NULL, NULL, NULL));
    assert_int_equal(gyre_prepared_rotation_run(NULL, x, x, 0, &err), GYRE_EINVAL);
    assert_string_equal(err.text, "prepared: is NULL (gyre_prepared_rotation_run)");
    assert_int_equal(gyre_prepared_rotation_run(prepared, NULL, x, 0, &err), GYRE_EINVAL);
    assert_string_equal(err.text, "in: data is NULL (gyre_prepared_rotation_run)");
    assert_int_equal(gyre_prepared_rotation_run(prepared, x, (char *)x + 1, 0, &err), GYRE_EINVAL);
    assert_int_equal(gyre_prepared_rotation_run(prepared, x, x + 1, 0, &err), GYRE_EINVAL);
    assert_string_equal(err.text,
                        "out: overlaps in, and is not in itself with the same strides (gyre_prepared_rotation_run)");
    assert_int_equal(gyre_prepared_rotation_run(prepared, x, x, (int64_t)1 << 40, &err), GYRE_ERANGE);
    gyre_prepared_rotation_free(prepared);
    gyre_prepared_rotation_free(NULL);
    test_budget budget = {.left = 0};
    const gyre_alloc alloc = test_budget_alloc(&budget);
    assert_int_equal(gyre_prepared_rotation_create(&prepared, rope, &args, NULL, &alloc, &err), GYRE_ENOMEM);
    assert_int_equal(gyre_prepared_rotation_create(NULL, rope, &args, NULL, NULL, &err), GYRE_EINVAL);
    assert_int_equal(gyre_prepared_rotation_create(&prepared, NULL, &args, NULL, NULL, &err), GYRE_EINVAL);
    args.in.shape[3] = args.out.shape[3] = 32;
    assert_int_equal(gyre_prepared_rotation_create(&prepared, rope, &args, NULL, NULL, &err), GYRE_ESHAPE);
    args.out.stride[2] = 0;
    assert_int_equal(gyre_prepared_rotation_create(&prepared, rope, &args, NULL, NULL, &err), GYRE_EINVAL);
    gyre_encoding_free(rope);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_have_the_bits_of_plain_calls),
        cmocka_unit_test(runs_have_the_bits_of_plain_calls_with_threads),
        cmocka_unit_test(threads_change_no_bit),
        cmocka_unit_test(infinite_values_go_the_way_of_plain_calls),
        cmocka_unit_test(bases_change_between_runs),
        cmocka_unit_test(a_mask_is_read_in_each_run),
        cmocka_unit_test(runs_refuse_what_plain_calls_refuse),
        cmocka_unit_test(out_is_needed_by_a_run),
        cmocka_unit_test(creation_allocates_once_and_runs_never),
        cmocka_unit_test(rotations_have_the_bits_of_plain_calls),
        cmocka_unit_test(rotations_refuse_what_plain_calls_refuse),
    };
    return cmocka_run_group_tests_name("test_prepared", tests, NULL, NULL);
}
