/* test_sized.c: structs of an older or a newer header, which begin with another size. */
#include "gyre/gyre_cache.h"
#include "gyre/gyre_trained.h"
#include "support.h"

#include <stddef.h>
#include <string.h>

static void older_header(void **state) {
    (void)state;
    gyre_encoding *e = NULL;
    gyre_config config = GYRE_INIT(gyre_config);
    config.kind = GYRE_KIND_ROPE;
    config.head_dim = 64;
    config.size = offsetof(gyre_config, query);
    config.query.temperature = (gyre_temperature)77; /* behind its end: not read */
    assert_ok(gyre_encoding_create(&e, &config, NULL, NULL));
    assert_int_equal(gyre_encoding_get_config(e)->query.temperature, GYRE_TEMPERATURE_NONE);
    gyre_encoding_free(e);
}

static void newer_header(void **state) {
    (void)state;
    gyre_encoding *e = NULL;
    struct {
        gyre_config config;
        int64_t more;
    } newer = {.config = {.size = sizeof newer, .kind = GYRE_KIND_NOPE}};
    assert_ok(gyre_encoding_create(&e, &newer.config, NULL, NULL));
    gyre_encoding_free(e);
    newer.more = 1;
    assert_int_equal(gyre_encoding_create(&e, &newer.config, NULL, NULL), GYRE_EINVAL);
    newer.config.size = 0; /* forgotten */
    assert_int_equal(gyre_encoding_create(&e, &newer.config, NULL, NULL), GYRE_EINVAL);
}

/* -- the structs of calls -- */

enum { TOKENS = 4, HEADS = 2, DIM = 8, ALL = TOKENS * HEADS * DIM };

static float a[ALL], b[ALL], c[ALL], lse[TOKENS * HEADS];
static _Alignas(64) char memory[1 << 20];
static const gyre_scratch scratch = {memory, sizeof memory};
static gyre_encoding *rope;
static const gyre_positions from_0 = {0};

static gyre_view view(float *data) {
    return gyre_dense(data, GYRE_DTYPE_F32, 1, TOKENS, HEADS, DIM);
}

/* `call`, of `given` and `err`, takes the struct with unset bytes of a newer one behind it, and no other size. */
#define TAKES(type, value, call)                                                                                            \
    do {                                                                                                                    \
        struct {                                                                                                            \
            type own;                                                                                                       \
            unsigned char newer[16];                                                                                        \
        } larger = {.own = value};                                                                                          \
        type *const given = &larger.own;                                                                                    \
        gyre_error err = {0, ""};                                                                                           \
        given->size = sizeof *given;                                                                                        \
        if (call) fail_msg(#type ": %s", err.text);                                                                         \
        given->size = sizeof larger;                                                                                        \
        if (call) fail_msg("a larger " #type ": %s", err.text);                                                             \
        larger.newer[9] = 1;                                                                                                \
        assert_int_equal(call, GYRE_EINVAL);                                                                                \
        if (!strstr(err.text, "the caller's header is newer") || !strstr(err.text, "(" #type ")"))                          \
            fail_msg("%s", err.text);                                                                                       \
        static const size_t unset[] = {0, 7, 65536, SIZE_MAX};                                                              \
        for (int u = 0; u < 4; u++) {                                                                                       \
            given->size = unset[u];                                                                                         \
            assert_int_equal(call, GYRE_EINVAL);                                                                            \
            if (!strstr(err.text, "begin with GYRE_INIT(" #type ")")) fail_msg("%s", err.text);                             \
        }                                                                                                                   \
    } while (0)

/* An older struct ends before `field`, whose value, which would be refused or change the result, is not read. */
#define ENDS_BEFORE(type, value, field, unread, call)                                                                       \
    do {                                                                                                                    \
        type older = value, *const given = &older;                                                                          \
        gyre_error err = {0, ""};                                                                                           \
        given->field = unread;                                                                                              \
        given->size = offsetof(type, field);                                                                                \
        if (call) fail_msg("an older " #type ": %s", err.text);                                                             \
    } while (0)

static int set_up(void **state) {
    (void)state;
    test_random random = {1};
    test_fill(&random, a, ALL);
    assert_ok(gyre_rope_create(&rope, DIM, 0, GYRE_LAYOUT_HALF, NULL));
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    gyre_encoding_free(rope);
    return 0;
}

static void structs_of_places(void **state) {
    (void)state;
    const gyre_rotate_args rotate = {.positions = &from_0, .in = gyre_const(view(a)), .out = view(b)};
    TAKES(gyre_rotate_args, rotate, gyre_rotate(rope, given, NULL, &err));
    gyre_config config = GYRE_INIT(gyre_config);
    config.kind = GYRE_KIND_SINUSOIDAL;
    config.input.dim = HEADS * DIM;
    gyre_encoding *sinusoid = test_encoding(&config), *alibi = NULL;
    const gyre_add_input_args input = {.positions = &from_0,
                                       .in = gyre_cdense(a, GYRE_DTYPE_F32, 1, TOKENS, 1, HEADS * DIM),
                                       .out = gyre_dense(b, GYRE_DTYPE_F32, 1, TOKENS, 1, HEADS * DIM)};
    TAKES(gyre_add_input_args, input, gyre_add_input(sinusoid, given, NULL, &err));
    assert_ok(gyre_alibi_create(&alibi, HEADS, NULL));
    const gyre_view scores = gyre_dense(b, GYRE_DTYPE_F32, 1, TOKENS, HEADS, TOKENS);
    const gyre_cview dscores = gyre_const(scores);
    const gyre_add_bias_args bias = {.queries = &from_0, .keys = &from_0, .scores = scores};
    const gyre_table_gradients none = {0};
    TAKES(gyre_add_bias_args, bias, gyre_add_bias(alibi, given, NULL, &err));
    TAKES(gyre_add_bias_args, bias, gyre_add_bias_gradient(alibi, given, &dscores, &none, NULL, &err));
    ENDS_BEFORE(gyre_add_bias_args, bias, scores, view((float *)8),
                gyre_add_bias_gradient(alibi, given, &dscores, &none, NULL, &err));
    gyre_encoding_free(sinusoid);
    gyre_encoding_free(alibi);
}

static gyre_attention_args plain_args(void) {
    gyre_attention_args args = GYRE_INIT(gyre_attention_args);
    args.q = args.k = args.v = gyre_const(view(a));
    args.out = view(b);
    args.lse = gyre_dense(lse, GYRE_DTYPE_F32, 1, TOKENS, HEADS, 1);
    return args;
}

static void structs_of_attention(void **state) {
    (void)state;
    gyre_attention_args args = plain_args();
    TAKES(gyre_attention_args, args, gyre_attention(given, scratch, NULL, &err));
    const gyre_attention_dense_args dense = {.encoding = rope,
                                             .q = a,
                                             .k = a,
                                             .v = a,
                                             .out = b,
                                             .batch = 1,
                                             .queries = TOKENS,
                                             .keys = TOKENS,
                                             .heads = HEADS,
                                             .head_dim = DIM};
    TAKES(gyre_attention_dense_args, dense, gyre_attention_dense(given, &err));
    ENDS_BEFORE(gyre_attention_dense_args, dense, context_length, -5, gyre_attention_dense(given, &err));
    const gyre_attention_gradients gradients = {.dout = gyre_const(view(b)),
                                                .dq = view(c),
                                                .dk = gyre_dense(memory + 4096, GYRE_DTYPE_F32, 1, TOKENS, HEADS, DIM),
                                                .dv = gyre_dense(memory + 8192, GYRE_DTYPE_F32, 1, TOKENS, HEADS, DIM)};
    const gyre_scratch rest = {memory + 65536, sizeof memory - 65536};
    TAKES(gyre_attention_gradients, gradients, gyre_attention_gradient(&args, given, rest, NULL, &err));
    ENDS_BEFORE(gyre_attention_gradients, gradients, accumulate, 1,
                gyre_attention_gradient(&args, given, rest, NULL, &err)); /* for which lse would have to be F64 */
    ENDS_BEFORE(gyre_attention_gradients, gradients, dlse, gyre_const(view((float *)8)),
                gyre_attention_gradient(&args, given, rest, NULL, &err));
    static double rows[TOKENS * HEADS * (DIM + 2)];
    const gyre_cview states[1] = {gyre_cdense(rows, GYRE_DTYPE_F64, 1, TOKENS, HEADS, DIM + 2)};
    const gyre_attention_merge_args merge = {.states = states, .parts = 1, .out = view(b)};
    TAKES(gyre_attention_merge_args, merge, gyre_attention_merge(given, NULL, &err));
    ENDS_BEFORE(gyre_attention_merge_args, merge, lse, view((float *)8), gyre_attention_merge(given, NULL, &err));
    double sums[TOKENS * HEADS];
    const gyre_gate_sums_args gates = {.log_gates = gyre_cdense(a, GYRE_DTYPE_F32, 1, TOKENS, HEADS, 1),
                                       .sums = gyre_dense(sums, GYRE_DTYPE_F64, 1, TOKENS, HEADS, 1)};
    TAKES(gyre_gate_sums_args, gates, gyre_gate_sums(given, NULL, &err));
}

/* Those that gyre_attention_args points to, in each call that reads them. */
static void extensions_of_attention(void **state) {
    (void)state;
    gyre_attention_args args = plain_args();
    size_t bytes = 0;
    double sums[TOKENS * HEADS] = {0};
    static double rows[TOKENS * HEADS * (DIM + 2)];
    const gyre_attention_batch batch = {.size = 0};
    const gyre_attention_gates gates = {.q = gyre_cdense(sums, GYRE_DTYPE_F64, 1, TOKENS, HEADS, 1),
                                        .k = gyre_cdense(sums, GYRE_DTYPE_F64, 1, TOKENS, HEADS, 1)};
    const gyre_attention_dropout dropout = {.rate = 0.25, .seed = 3};
    const gyre_attention_weights weights = {.out = gyre_dense(c, GYRE_DTYPE_F32, 1, 1, HEADS, TOKENS)};
    const gyre_attention_part part = {.state = gyre_dense(rows, GYRE_DTYPE_F64, 1, TOKENS, HEADS, DIM + 2)};
#define EXTENDS(type, field, value)                                                                                         \
    TAKES(type, value, (args.field = given, gyre_attention(&args, scratch, NULL, &err)));                                   \
    TAKES(type, value, (args.field = given, gyre_attention_scratch(&args, 0, NULL, &bytes, &err)));                         \
    TAKES(type, value, (args.field = given, gyre_attention_scratch(&args, 1, NULL, &bytes, &err)));                         \
    args.field = NULL
    EXTENDS(gyre_attention_batch, batch, batch);
    EXTENDS(gyre_attention_gates, gates, gates);
    EXTENDS(gyre_attention_dropout, dropout, dropout);
    EXTENDS(gyre_attention_weights, weights, weights);
    EXTENDS(gyre_attention_part, part, part);
#undef EXTENDS
    ENDS_BEFORE(gyre_attention_batch, batch, k_pos_head_stride, 3,
                (args.batch = given, gyre_attention(&args, scratch, NULL, &err)));
    args.batch = NULL;
    ENDS_BEFORE(gyre_attention_weights, weights, first, 99,
                (args.weights = given, gyre_attention(&args, scratch, NULL, &err)));
    args.weights = NULL;
    ENDS_BEFORE(gyre_attention_part, part, k_index, &from_0,
                (args.part = given, gyre_attention(&args, scratch, NULL, &err)));
    args.part = NULL;
    args.dropout = &(const gyre_attention_dropout){.size = sizeof dropout, .rate = 0.25};
    assert_ok(gyre_attention(&args, scratch, NULL, NULL));
    memcpy(c, b, sizeof b);
    ENDS_BEFORE(gyre_attention_dropout, dropout, seed, 77,
                (args.dropout = given, gyre_attention(&args, scratch, NULL, &err)));
    assert_memory_equal(b, c, sizeof b); /* the seed 0 */
}

static void structs_of_caches(void **state) {
    (void)state;
    gyre_cache *cache = NULL;
    const gyre_cache_config config = {.encoding = rope, .heads = HEADS, .head_dim = DIM, .max_tokens = 64};
    TAKES(gyre_cache_config, config, (gyre_cache_free(cache), cache = NULL, gyre_cache_create(&cache, given, NULL, &err)));
    gyre_cache_free(cache);
    cache = NULL;
    ENDS_BEFORE(gyre_cache_config, config, values_in_keys, 7, gyre_cache_create(&cache, given, NULL, &err));
    const gyre_cache_append_args tokens = {.k = gyre_const(view(a)), .v = gyre_const(view(a)), .positions = &from_0};
    TAKES(gyre_cache_append_args, tokens, gyre_cache_append(cache, given, NULL, &err));
    ENDS_BEFORE(gyre_cache_append_args, tokens, gates, gyre_const(view(a)), gyre_cache_append(cache, given, NULL, &err));
    assert_int_equal(gyre_cache_tokens(cache, 0), 3 * TOKENS);
    const gyre_rerotate_args rerotate = {.before = rope,
                                         .after = rope,
                                         .old_positions = &from_0,
                                         .new_positions = &from_0,
                                         .in = gyre_const(view(a)),
                                         .out = view(b)};
    TAKES(gyre_rerotate_args, rerotate, gyre_rerotate(given, NULL, &err));
    gyre_cache_free(cache);
}

/* What a call writes: an older struct gets the fields that it has, and nothing behind them is touched. */
static void structs_that_are_written(void **state) {
    (void)state;
    gyre_cache *cache = NULL;
    gyre_cache_config config = GYRE_INIT(gyre_cache_config);
    config.heads = HEADS, config.head_dim = DIM, config.max_tokens = 64, config.page_tokens = 16;
    assert_ok(gyre_cache_create(&cache, &config, NULL, NULL));
    struct {
        gyre_cache_usage usage;
        unsigned char newer[16];
    } larger = {.usage = GYRE_INIT(gyre_cache_usage)};
    assert_ok(gyre_cache_get_usage(cache, &larger.usage));
    assert_int_equal(larger.usage.size, sizeof larger.usage);
    assert_int_equal(larger.usage.free_pages, larger.usage.pages);
    gyre_cache_usage older = {.size = offsetof(gyre_cache_usage, free_pages), .free_pages = -3, .tokens = -4};
    assert_ok(gyre_cache_get_usage(cache, &older));
    assert_int_equal(older.size, offsetof(gyre_cache_usage, free_pages));
    assert_int_equal(older.pages, larger.usage.pages);
    assert_int_equal(older.free_pages, -3);
    assert_int_equal(older.tokens, -4);
    larger.usage.size = sizeof larger;
    assert_ok(gyre_cache_get_usage(cache, &larger.usage));
    assert_int_equal(larger.usage.size, sizeof larger);
    gyre_cache_usage unset = {.size = 0};
    assert_int_equal(gyre_cache_get_usage(cache, &unset), GYRE_EINVAL);
    assert_int_equal(gyre_cache_get_usage(NULL, &larger.usage), GYRE_EINVAL);
    assert_int_equal(gyre_cache_get_usage(cache, NULL), GYRE_EINVAL);
    gyre_cache_free(cache);
}

static void structs_of_trained_rotations(void **state) {
    (void)state;
    double frequencies[DIM / 2] = {1, 0.5, 0.25, 0.125}, df[DIM / 2] = {0};
    const gyre_trained_rotation rotation = {.frequencies = gyre_cdense(frequencies, GYRE_DTYPE_F64, 1, 1, 1, DIM / 2)};
    gyre_trained_rotation own = rotation;
    own.size = sizeof own;
    gyre_rotate_args args = GYRE_INIT(gyre_rotate_args);
    args.positions = &from_0, args.in = gyre_const(view(a)), args.out = view(b);
    TAKES(gyre_trained_rotation, rotation, gyre_trained_rotate(given, &args, NULL, &err));
    ENDS_BEFORE(gyre_trained_rotation, rotation, phases, gyre_const(view(a)), gyre_trained_rotate(given, &args, NULL, &err));
    TAKES(gyre_rotate_args, args, gyre_trained_rotate(&own, given, NULL, &err));
    const gyre_rotate_gradient_args of = {.positions = &from_0, .in = gyre_const(view(a)), .dout = gyre_const(view(b))};
    const gyre_trained_gradients to = {.frequencies = gyre_dense(df, GYRE_DTYPE_F64, 1, 1, 1, DIM / 2)};
    gyre_trained_gradients own_to = to;
    own_to.size = sizeof own_to;
    TAKES(gyre_rotate_gradient_args, of, gyre_trained_rotate_gradient(&own, given, &own_to, NULL, &err));
    gyre_rotate_gradient_args own_of = of;
    own_of.size = sizeof own_of;
    TAKES(gyre_trained_gradients, to, gyre_trained_rotate_gradient(&own, &own_of, given, NULL, &err));
}

/* GYRE_ARGS sets the size, and all fields that it does not name are zeros. */
static void arguments_in_place(void **state) {
    (void)state;
    const gyre_rotate_args *args = GYRE_ARGS(gyre_rotate_args, .role = GYRE_ROLE_KEY, .positions = &from_0);
    gyre_rotate_args zeros;
    memset(&zeros, 0, sizeof zeros);
    assert_int_equal(args->size, sizeof zeros);
    assert_int_equal(args->role, GYRE_ROLE_KEY);
    assert_ptr_equal(args->positions, &from_0);
    assert_int_equal(args->direction, GYRE_DIRECTION_FORWARD);
    assert_memory_equal(&args->in, &zeros.in, sizeof zeros.in);
    assert_memory_equal(&args->out, &zeros.out, sizeof zeros.out);
    assert_ok(gyre_rotate(rope, GYRE_ARGS(gyre_rotate_args, .positions = &from_0, .in = gyre_const(view(a)), .out = view(b)),
                          NULL, NULL));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(older_header),
        cmocka_unit_test(newer_header),
        cmocka_unit_test(structs_of_places),
        cmocka_unit_test(structs_of_attention),
        cmocka_unit_test(extensions_of_attention),
        cmocka_unit_test(structs_of_caches),
        cmocka_unit_test(structs_that_are_written),
        cmocka_unit_test(structs_of_trained_rotations),
        cmocka_unit_test(arguments_in_place),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
