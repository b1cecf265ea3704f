/* test_device.c: gyre_device.h and gyre_encoding_phases: angles at any position, rotations and biases, against formulas and
 * against gyre_rotate and gyre_add_bias. */
#include "device_angles.h"

#include <string.h>

enum { DIM = 96, PAIRS = DIM / 2, HEAD = 112, FIRST = 8 };
#define PER_POSITION 2.1e-19 /* of an angle */

static const int64_t places[] = {0,       1,         2,          61,         4095,       131071,    999999,
                                 8388607, 123456789, 2000000011, 2147483640, 2147483647, 2147483648};
enum { PLACES = sizeof places / sizeof *places };

/* -- angles at a position -- */

static void angles_up_to_2_31(void **state) {
    (void)state;
    static const double bases[] = {10000, 500000, 1e7, 2};
    double worst = 0;
    for (int b = 0; b < 8; b++) {
        gyre_config config = test_rope_config(DIM, GYRE_LAYOUT_HALF);
        uint64_t increments[PAIRS];
        config.rope.base = bases[b / 2];
        config.rope.clockwise = b % 2;
        gyre_encoding *e = test_encoding(&config);
        assert_ok(gyre_encoding_phases(e, 0, increments, NULL, NULL, NULL));
        test_random random = {b};
        for (int n = 0; n < PLACES + 4000; n++) {
            const int64_t far = n < PLACES ? places[n] : (int64_t)(test_next(&random) >> 33), m = n % 2 ? -far : far;
            for (int i = 0; i < PAIRS; i++) {
                const long double angle = (long double)m * powl((long double)bases[b / 2], -(long double)i / PAIRS);
                const gyre_device_angle at = gyre_device_cos_sin(gyre_device_phase(increments[i], m), 1);
                const double bound = DEVICE_BOUND + (double)far * PER_POSITION;
                const long double s = b % 2 ? -sinl(angle) : sinl(angle);
                worst = fmax(worst, (double)fabsl((long double)at.cosine - cosl(angle)) / bound);
                worst = fmax(worst, (double)fabsl((long double)at.sine - s) / bound);
            }
        }
        gyre_encoding_free(e);
    }
    print_message("angles up to 2^31: %.2f of the bound\n", worst);
    assert_true(worst <= 1);
}

/* Increments alone: the phase of a fast pair is exact to 2^-64 turns per position. */
static void increments_of_powers(void **state) {
    (void)state;
    static const long double turn = 6.283185307179586476925286766559L;
    gyre_config config = test_rope_config(DIM, GYRE_LAYOUT_HALF);
    uint64_t increments[PAIRS], back[PAIRS];
    unsigned char axes[PAIRS];
    double factor = 0;
    config.rope.base = 500000;
    gyre_encoding *e = test_encoding(&config);
    memset(axes, 9, sizeof axes);
    assert_ok(gyre_encoding_phases(e, 0, increments, axes, &factor, NULL));
    assert_true(factor == 1);
    gyre_encoding_free(e);
    config.rope.clockwise = 1;
    e = test_encoding(&config);
    assert_ok(gyre_encoding_phases(e, 0, back, NULL, NULL, NULL));
    gyre_encoding_free(e);
    for (int i = 0; i < PAIRS; i++) {
        test_close(ldexpl((long double)increments[i], -64), powl(500000, -(long double)i / PAIRS) / turn, 0x1p-64L, "turns");
        assert_int_equal(increments[i] + back[i], 0);
        assert_int_equal(axes[i], 0);
    }
}

/* -- encodings: against gyre_cos_sin in double -- */

static gyre_config scaled(gyre_scaling scaling) {
    static double factors[2][PAIRS];
    gyre_config config = test_rope_config(DIM, GYRE_LAYOUT_HALF);
    for (int i = 0; i < PAIRS; i++)
        factors[0][i] = 1 + i / 40.0, factors[1][i] = 0.4 + i;
    config.trained_length = 4096;
    config.rope.scaling = scaling;
    config.rope.factor = scaling == GYRE_SCALING_NONE ? 0 : 8;
    if (scaling == GYRE_SCALING_LONGROPE) config.rope.short_factor = factors[0], config.rope.long_factor = factors[1];
    if (scaling == GYRE_SCALING_PROPORTIONAL) config.rope.proportion = 0.5;
    return config;
}

static void check_against_cos_sin(const gyre_config *config, int64_t length) {
    gyre_encoding *e = test_encoding(config);
    uint64_t increments[PAIRS];
    unsigned char axes[PAIRS];
    double factor, c[PAIRS], s[PAIRS];
    assert_ok(gyre_encoding_phases(e, length, increments, axes, &factor, NULL));
    const gyre_view cosine = gyre_dense(c, GYRE_DTYPE_F64, 1, 1, 1, PAIRS),
                    sine = gyre_dense(s, GYRE_DTYPE_F64, 1, 1, 1, PAIRS);
    for (int n = 0; n < PLACES; n++) {
        const int64_t at[3] = {places[n], places[(n + 3) % PLACES], places[(n + 5) % PLACES]};
        const gyre_positions positions = {at, GYRE_DTYPE_I64, 0, length, 0, 1, 1, 0};
        assert_ok(gyre_cos_sin(e, &positions, &cosine, &sine, NULL, NULL));
        for (int i = 0; i < PAIRS; i++) {
            const gyre_device_angle got = gyre_device_cos_sin(gyre_device_phase(increments[i], at[axes[i]]), (float)factor);
            const double bound = (2.5e-7 + 0x1p31 * (PER_POSITION + 1e-19)) * factor;
            test_close((long double)got.cosine, (long double)c[i], (long double)bound, "cosine");
            test_close((long double)got.sine, (long double)s[i], (long double)bound, "sine");
        }
    }
    gyre_encoding_free(e);
}

static void every_scaling_and_length(void **state) {
    (void)state;
    static const gyre_scaling scalings[] = {
        GYRE_SCALING_NONE,      GYRE_SCALING_LINEAR,       GYRE_SCALING_NTK,          GYRE_SCALING_DYNAMIC_NTK,
        GYRE_SCALING_BY_PARTS,  GYRE_SCALING_YARN,         GYRE_SCALING_LLAMA3,       GYRE_SCALING_LONGROPE,
        GYRE_SCALING_NTK_MIXED, GYRE_SCALING_PROPORTIONAL, GYRE_SCALING_DYNAMIC_YARN, GYRE_SCALING_BY_PARTS_PAPER};
    for (size_t i = 0; i < sizeof scalings / sizeof *scalings; i++) {
        gyre_config config = scaled(scalings[i]);
        check_against_cos_sin(&config, 1000);
        check_against_cos_sin(&config, 50000);
        config.rope.clockwise = 1;
        config.context_length = 9000;
        check_against_cos_sin(&config, 0);
    }
}

static void every_layout_of_axes(void **state) {
    (void)state;
    static const gyre_axes layouts[] = {GYRE_AXES_CHUNKED, GYRE_AXES_INTERLEAVED, GYRE_AXES_AXIAL};
    for (int l = 0; l < 3; l++) {
        gyre_config config = test_rope_config(DIM, GYRE_LAYOUT_HALF);
        config.rope.axes = 3;
        config.rope.axes_layout = layouts[l];
        config.rope.axis_pairs[0] = 24, config.rope.axis_pairs[1] = 12, config.rope.axis_pairs[2] = 12;
        check_against_cos_sin(&config, 0);
    }
}

/* -- rotation: a kernel as a device would have it, against gyre_rotate -- */

typedef struct device_call {
    gyre_layout layout;
    int back;     /* 1: the adjoint or the inverse */
    float factor; /* of cos and sin */
    int64_t position;
    const uint64_t *increments;
} device_call;

static void rotate_head(const device_call *call, const float in[HEAD], float out[HEAD]) {
    const int to_half = call->layout == GYRE_LAYOUT_INTERLEAVED_TO_HALF;
    const int first = to_half ? GYRE_DEVICE_INTERLEAVED : (int)call->layout, second = to_half ? GYRE_DEVICE_HALF : first;
    const int read = call->back ? second : first, write = call->back ? first : second;
    memcpy(out, in, HEAD * sizeof *in);
    for (int i = 0; i < PAIRS; i++) {
        const gyre_device_angle at =
            gyre_device_cos_sin(gyre_device_phase(call->increments[i], call->position), call->factor);
        const gyre_device_pair pair = gyre_device_pair_of(in[FIRST + gyre_device_channel(read, PAIRS, i, 0)],
                                                          in[FIRST + gyre_device_channel(read, PAIRS, i, 1)]);
        const gyre_device_pair turned = call->back ? gyre_device_rotate_back(pair, at) : gyre_device_rotate(pair, at);
        out[FIRST + gyre_device_channel(write, PAIRS, i, 0)] = turned.x;
        out[FIRST + gyre_device_channel(write, PAIRS, i, 1)] = turned.y;
    }
}

static void check_rotation(gyre_layout layout, gyre_direction direction, int clockwise) {
    gyre_config config = test_rope_config(HEAD, layout);
    uint64_t increments[PAIRS];
    double factor;
    config.rope.dim = DIM;
    config.rope.first_channel = FIRST;
    config.rope.clockwise = clockwise;
    config.rope.attention_factor = 1.25;
    gyre_encoding *e = test_encoding(&config);
    assert_ok(gyre_encoding_phases(e, 0, increments, NULL, &factor, NULL));
    assert_true(factor == 1.25);
    test_random random = {(uint64_t)layout};
    for (int n = 0; n < PLACES; n++) {
        float in[HEAD], out[HEAD];
        double whole[HEAD];
        test_fill(&random, in, HEAD);
        for (int d = 0; d < HEAD; d++)
            whole[d] = (double)in[d];
        const gyre_positions positions = {NULL, GYRE_DTYPE_F32, places[n], 0, 0, 0, 0, 0};
        const gyre_view view = gyre_dense(whole, GYRE_DTYPE_F64, 1, 1, 1, HEAD);
        assert_ok(gyre_rotate(e,
                              GYRE_ARGS(gyre_rotate_args, .direction = direction, .positions = &positions,
                                        .in = gyre_const(view), .out = view),
                              NULL, NULL));
        const int back = direction != GYRE_DIRECTION_FORWARD;
        const device_call call = {layout, back, direction == GYRE_DIRECTION_INVERSE ? 0.8F : 1.25F, places[n], increments};
        rotate_head(&call, in, out);
        for (int d = 0; d < HEAD; d++)
            test_close((long double)out[d], (long double)whole[d], 1e-6L, "rotated channel");
    }
    gyre_encoding_free(e);
}

static void every_layout_and_direction(void **state) {
    (void)state;
    static const gyre_direction directions[] = {GYRE_DIRECTION_FORWARD, GYRE_DIRECTION_INVERSE, GYRE_DIRECTION_ADJOINT};
    static const gyre_layout layouts[] = {GYRE_LAYOUT_HALF, GYRE_LAYOUT_INTERLEAVED, GYRE_LAYOUT_INTERLEAVED_TO_HALF};
    assert_int_equal(GYRE_DEVICE_HALF, GYRE_LAYOUT_HALF);
    assert_int_equal(GYRE_DEVICE_INTERLEAVED, GYRE_LAYOUT_INTERLEAVED);
    for (int l = 0; l < 3; l++)
        for (int d = 0; d < 3; d++)
            for (int clockwise = 0; clockwise < 2; clockwise++)
                check_rotation(layouts[l], directions[d], clockwise);
}

/* -- biases: against gyre_add_bias -- */

enum { HEADS = 6, NUMBERS = 32 };
static const int64_t pairs_of_positions[][2] = {{0, 0},   {1, 0},   {0, 1},   {70, 3},  {5, 900},         {2147483647, 0},
                                                {-5, 12}, {128, 0}, {0, 128}, {127, 0}, {1000000, 999990}};
enum { SCORES = sizeof pairs_of_positions / sizeof *pairs_of_positions };

/* out[h] = the bias of the core. */
static void core_bias(const gyre_encoding *e, const gyre_tables *tables, const int64_t at[2], double out[HEADS]) {
    const gyre_positions q = {NULL, GYRE_DTYPE_F32, at[0], 0, 0, 0, 0, 0}, k = {NULL, GYRE_DTYPE_F32, at[1], 0, 0, 0, 0, 0};
    memset(out, 0, HEADS * sizeof *out);
    const gyre_view scores = gyre_dense(out, GYRE_DTYPE_F64, 1, 1, HEADS, 1);
    assert_ok(gyre_add_bias(e, GYRE_ARGS(gyre_add_bias_args, .tables = tables, .queries = &q, .keys = &k, .scores = scores),
                            NULL, NULL));
}

static gyre_encoding *biased(gyre_kind kind, gyre_decay decay, int bidirectional) {
    gyre_config config = GYRE_INIT(gyre_config);
    config.kind = kind;
    config.heads = HEADS;
    if (kind == GYRE_KIND_KERPLE) config.score.decay = decay;
    if (kind == GYRE_KIND_T5) config.score.buckets = NUMBERS, config.score.bidirectional = bidirectional;
    return test_encoding(&config);
}

static void bias_of_alibi(void **state) {
    (void)state;
    double slopes[HEADS], want[HEADS];
    gyre_encoding *e = biased(GYRE_KIND_ALIBI, 0, 0);
    assert_ok(gyre_encoding_slopes(e, 0, slopes));
    for (int n = 0; n < SCORES; n++) {
        core_bias(e, NULL, pairs_of_positions[n], want);
        for (int h = 0; h < HEADS; h++)
            test_close((long double)gyre_device_alibi((float)slopes[h], pairs_of_positions[n][0], pairs_of_positions[n][1]),
                       (long double)want[h], 0x3p-24L * fabsl((long double)want[h]), "ALiBi");
    }
    gyre_encoding_free(e);
}

static void bias_of_kerple(void **state) {
    (void)state;
    float table[2][HEADS];
    double want[HEADS];
    for (int h = 0; h < HEADS; h++)
        table[0][h] = 0.1F + (float)h, table[1][h] = 0.05F + 0.15F * (float)h;
    gyre_tables tables = {.bias = gyre_cdense(table, GYRE_DTYPE_F32, 1, 1, 2, HEADS)};
    for (int power = 0; power < 2; power++) {
        gyre_encoding *e = biased(GYRE_KIND_KERPLE, power ? GYRE_DECAY_POWER : GYRE_DECAY_LOG, 0);
        for (int n = 0; n < SCORES; n++) {
            const int64_t q = pairs_of_positions[n][0], k = pairs_of_positions[n][1];
            core_bias(e, &tables, pairs_of_positions[n], want);
            for (int h = 0; h < HEADS; h++)
                test_close((long double)(power ? gyre_device_kerple_power(table[0][h], table[1][h], q, k)
                                               : gyre_device_kerple_log(table[0][h], table[1][h], q, k)),
                           (long double)want[h], 0x6p-24L * fabsl((long double)want[h]), "KERPLE");
        }
        gyre_encoding_free(e);
    }
}

/* The table by distance holds numbers of the trained table, so the biases are equal. */
static void bias_of_t5(void **state) {
    (void)state;
    enum { MOST = 128 };
    float trained[NUMBERS][HEADS], by_distance[2 * MOST + 1][HEADS];
    double want[HEADS];
    test_random random = {5};
    test_fill(&random, trained[0], (size_t)NUMBERS * HEADS);
    gyre_tables tables = {.bias = gyre_cdense(trained, GYRE_DTYPE_F32, 1, 1, NUMBERS, HEADS)};
    for (int bidirectional = 0; bidirectional < 2; bidirectional++) {
        gyre_encoding *e = biased(GYRE_KIND_T5, 0, bidirectional);
        for (int64_t d = -MOST; d <= MOST; d++) {
            int64_t row;
            assert_ok(gyre_encoding_row(e, MOST, MOST + d, &row));
            memcpy(by_distance[d + MOST], trained[row], sizeof trained[row]);
        }
        assert_int_equal(gyre_encoding_get_config(e)->score.max_distance, MOST);
        for (int n = 0; n < SCORES; n++) {
            const int i = gyre_device_distance_index(pairs_of_positions[n][0], pairs_of_positions[n][1], MOST);
            core_bias(e, &tables, pairs_of_positions[n], want);
            for (int h = 0; h < HEADS; h++)
                assert_true((double)by_distance[i][h] == want[h]);
        }
        gyre_encoding_free(e);
    }
}

/* -- refusals -- */

static void assert_refused(const gyre_encoding *e, int64_t length, gyre_status status, const char *text) {
    uint64_t increments[PAIRS] = {77};
    double factor = 5;
    gyre_error err = {0, ""};
    assert_int_equal(gyre_encoding_phases(e, length, increments, NULL, &factor, &err), status);
    assert_string_equal(err.text, text);
    assert_true(increments[0] == 77 && factor == 5);
}

static void refusals(void **state) {
    (void)state;
    gyre_error err;
    gyre_config config = scaled(GYRE_SCALING_DYNAMIC_NTK);
    gyre_encoding *e = test_encoding(&config);
    assert_int_equal(gyre_encoding_phases(e, 1, NULL, NULL, NULL, &err), GYRE_EINVAL);
    assert_string_equal(err.text, "increments: is NULL (gyre_encoding_phases)");
    assert_refused(NULL, 0, GYRE_EINVAL, "encoding: is NULL (gyre_encoding_phases)");
    assert_refused(e, -1, GYRE_EINVAL, "context_length: -1 is below 0 (gyre_encoding_phases)");
    assert_refused(e, 0, GYRE_EINVAL,
                   "context_length: 0, but the scaling follows the length in use past position 4095 (gyre_encoding_phases)");
    gyre_encoding_free(e);
    config = scaled(GYRE_SCALING_LONGROPE);
    config.rope.longrope.start_tokens = 4;
    config.context_length = 9000;
    e = test_encoding(&config);
    assert_refused(e, 0, GYRE_EUNSUPPORTED,
                   "rope.longrope.start_tokens: the first tokens rotate by other frequencies (gyre_encoding_phases)");
    uint64_t increments[PAIRS];
    assert_ok(gyre_encoding_phases(e, 4000, increments, NULL, NULL, NULL)); /* there the first tokens are as the others */
    gyre_encoding_free(e);
    config = scaled(GYRE_SCALING_NONE);
    config.rope.angles = GYRE_ANGLE_PATH_LLAMA_CPP;
    e = test_encoding(&config);
    assert_refused(
        e, 0, GYRE_EUNSUPPORTED,
        "rope.angles: angles as another program computes them are no multiples of a phase (gyre_encoding_phases)");
    gyre_encoding_free(e);
    e = biased(GYRE_KIND_ALIBI, 0, 0);
    assert_refused(e, 0, GYRE_EUNSUPPORTED, "encoding: alibi rotates nothing (gyre_encoding_phases)");
    gyre_encoding_free(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {DEVICE_ANGLE_TESTS,
                                       cmocka_unit_test(angles_up_to_2_31),
                                       cmocka_unit_test(increments_of_powers),
                                       cmocka_unit_test(every_scaling_and_length),
                                       cmocka_unit_test(every_layout_of_axes),
                                       cmocka_unit_test(every_layout_and_direction),
                                       cmocka_unit_test(bias_of_alibi),
                                       cmocka_unit_test(bias_of_kerple),
                                       cmocka_unit_test(bias_of_t5),
                                       cmocka_unit_test(refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
