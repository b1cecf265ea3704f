/* test_angles.c: tables of angles of every form, made by the formulas of the programs, against readings; wrong tables; and
 * the reader of .npy. */
#include "check_reading.h"
#include "core/convert.h"
#include "files/tensors/npy.h"
#include "gyre/gyre_angles.h"
#include "temp_folder.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { DIM = 64, PAIRS = DIM / 2, ROWS = 4096, PROFILES = 11 };

static const char plain[] = "{\"model_type\": \"llama\", \"hidden_size\": 256, \"num_attention_heads\": 4,"
                            " \"num_hidden_layers\": 2, \"max_position_embeddings\": 4096, \"rope_theta\": 10000.0}";
static const char yarn[] = "{\"model_type\": \"llama\", \"hidden_size\": 256, \"num_attention_heads\": 4,"
                           " \"num_hidden_layers\": 2, \"max_position_embeddings\": 4096, \"rope_theta\": 10000.0,"
                           " \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4.0,"
                           " \"original_max_position_embeddings\": 1024}}";

/* -- the formulas of the programs -- */
typedef struct rotation {
    double frequencies[PAIRS], factor;
} rotation;

/* base^(-2 i / dim) in float, as transformers and vLLM compute it. */
static rotation plain_rotation(double base) {
    rotation r = {.factor = 1};
    for (int i = 0; i < PAIRS; i++)
        r.frequencies[i] = (double)(1.0f / powf((float)base, (float)(2 * i) / (float)DIM));
    return r;
}

/* The released code of YaRN (arXiv 2309.00071), as transformers has it: a ramp over pairs between the two that make 32 and 1
 * turns in the original length. */
static rotation yarn_rotation(double base, double factor, double original) {
    rotation r = {.factor = 0.1 * log(factor) + 1};
    double edges[2];
    for (int k = 0; k < 2; k++)
        edges[k] = DIM * log(original / ((k ? 1 : 32) * 2 * acos(-1))) / (2 * log(base));
    const double low = fmax(floor(edges[0]), 0), high = fmin(ceil(edges[1]), DIM - 1);
    for (int i = 0; i < PAIRS; i++) {
        const double ramp = fmin(1, fmax(0, (i - low) / (high - low))), f = pow(base, -2.0 * i / DIM);
        r.frequencies[i] = (double)(float)(f / factor * ramp + f * (1 - ramp));
    }
    return r;
}

typedef enum how { IN_F64, IN_F32, BF16_FREQUENCIES, BF16_ANGLES, F16_ANGLES } how;

static double bf16(double x) {
    return (double)gyre_bf16_to_f32(gyre_f32_to_bf16((float)x));
}
static double f16(double x) {
    return (double)gyre_f16_to_f32(gyre_f32_to_f16((float)x));
}

static double angle_of(double f, int64_t m, how way) {
    switch (way) {
    case IN_F64:
        return f * (double)m;
    case IN_F32:
        return (double)((float)m * (float)f);
    case BF16_FREQUENCIES:
        return (double)((float)m * (float)bf16(f));
    case BF16_ANGLES:
        return bf16(bf16((double)m) * bf16(f));
    default:
        return f16(f16((double)m) * f16(f));
    }
}

/* -- tables -- */
typedef struct table {
    float *numbers;
    int64_t rows, columns;
} table;

static double number_of(const rotation *r, int64_t m, int64_t pair, int sine, how way) {
    const double angle = angle_of(r->frequencies[pair], m, way);
    const float value =
        way == IN_F64 ? (float)(sine ? sin(angle) : cos(angle)) : (sine ? sinf((float)angle) : cosf((float)angle));
    return (double)(value * (float)r->factor);
}

/* The number of a column of a row in each form. */
static double column_of(const rotation *r, gyre_angle_form form, gyre_angle_columns columns, int64_t m, int64_t c, how way) {
    int64_t width = columns == GYRE_ANGLE_COLUMNS_ONCE ? PAIRS : 2 * PAIRS;
    if (form == GYRE_ANGLE_FORM_PAIRS) return number_of(r, m, c / 2, c % 2 == 1, way);
    int sine = form == GYRE_ANGLE_FORM_SIN || form == GYRE_ANGLE_FORM_SIN_COS;
    if (c >= width) c -= width, sine = !sine;
    return number_of(r, m, columns == GYRE_ANGLE_COLUMNS_INTERLEAVED ? c / 2 : c % PAIRS, sine, way);
}

static table make_table(const rotation *r, gyre_angle_form form, gyre_angle_columns columns, how way, gyre_dtype rounded) {
    const int both = form != GYRE_ANGLE_FORM_COS && form != GYRE_ANGLE_FORM_SIN;
    table t = {.rows = ROWS, .columns = PAIRS * (both ? 2 : 1) * (columns == GYRE_ANGLE_COLUMNS_ONCE ? 1 : 2)};
    t.numbers = malloc((size_t)(t.rows * t.columns) * sizeof *t.numbers);
    assert_non_null(t.numbers);
    for (int64_t m = 0; m < t.rows; m++)
        for (int64_t c = 0; c < t.columns; c++) {
            const double x = column_of(r, form, columns, m, c, way);
            t.numbers[m * t.columns + c] = (float)(rounded == GYRE_DTYPE_BF16  ? bf16(x)
                                                   : rounded == GYRE_DTYPE_F16 ? f16(x)
                                                                               : x);
        }
    return t;
}

/* -- readings and audits -- */
typedef struct readings {
    gyre_reading *list[PROFILES];
    int64_t count;
} readings;

/* Of every profile of a program that runs models and takes the text. */
static readings read_all(const char *text, int64_t length) {
    readings r = {.count = 0};
    for (int p = 1; gyre_profile_name((gyre_profile)p); p++) {
        gyre_error err;
        if (gyre_profile_is_trainer((gyre_profile)p)) continue;
        assert_true(r.count < PROFILES);
        if (!gyre_reading_parse(&r.list[r.count], text, strlen(text),
                                GYRE_ARGS(gyre_reading_options, .profile = (gyre_profile)p, .context_length = length), &err))
            r.count++;
    }
    assert_true(r.count > 5);
    return r;
}

static void free_all(readings *r) {
    for (int64_t i = 0; i < r->count; i++)
        gyre_reading_free(r->list[i]);
}

static gyre_angle_audit *audit_view(const gyre_cview *view, const readings *r) {
    gyre_angle_audit *audit = NULL;
    gyre_error err = {0, ""};
    if (gyre_angles_audit(&audit, view, (const gyre_reading *const *)r->list, r->count, &err)) fail_msg("%s", err.text);
    return audit;
}

static gyre_cview view_of(const table *t) {
    return (gyre_cview){t->numbers, GYRE_DTYPE_F32, {1, 1, t->rows, t->columns}, {0, 0, t->columns, 1}};
}

static gyre_angle_audit *audit_table(const table *t, const readings *r) {
    const gyre_cview view = view_of(t);
    return audit_view(&view, r);
}

static int agrees(const gyre_angle_audit *a, gyre_profile profile) {
    for (int64_t i = 0; i < a->count; i++)
        if (a->matches[i].reading->profile == profile && a->matches[i].first_position < 0) return 1;
    return 0;
}

static const gyre_angle_match *match_of(const gyre_angle_audit *a, gyre_profile profile) {
    for (int64_t i = 0; i < a->count; i++)
        if (a->matches[i].reading->profile == profile) return &a->matches[i];
    fail_msg("no match of profile %d", (int)profile);
    return NULL;
}

static void test_forms(void **state) {
    (void)state;
    static const struct {
        gyre_angle_form form;
        gyre_angle_columns columns;
    } forms[] = {{GYRE_ANGLE_FORM_COS_SIN, GYRE_ANGLE_COLUMNS_ONCE},
                 {GYRE_ANGLE_FORM_SIN_COS, GYRE_ANGLE_COLUMNS_ONCE},
                 {GYRE_ANGLE_FORM_PAIRS, GYRE_ANGLE_COLUMNS_ONCE},
                 {GYRE_ANGLE_FORM_COS, GYRE_ANGLE_COLUMNS_ONCE},
                 {GYRE_ANGLE_FORM_SIN, GYRE_ANGLE_COLUMNS_ONCE},
                 {GYRE_ANGLE_FORM_COS, GYRE_ANGLE_COLUMNS_HALVES},
                 {GYRE_ANGLE_FORM_SIN, GYRE_ANGLE_COLUMNS_HALVES},
                 {GYRE_ANGLE_FORM_COS, GYRE_ANGLE_COLUMNS_INTERLEAVED},
                 {GYRE_ANGLE_FORM_SIN, GYRE_ANGLE_COLUMNS_INTERLEAVED},
                 {GYRE_ANGLE_FORM_COS_SIN, GYRE_ANGLE_COLUMNS_HALVES},
                 {GYRE_ANGLE_FORM_COS_SIN, GYRE_ANGLE_COLUMNS_INTERLEAVED},
                 {GYRE_ANGLE_FORM_SIN_COS, GYRE_ANGLE_COLUMNS_HALVES}};
    static const gyre_dtype types[] = {GYRE_DTYPE_F32, GYRE_DTYPE_BF16, GYRE_DTYPE_F16};
    readings r = read_all(plain, 0);
    const rotation wanted = plain_rotation(10000);
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        for (int k = 0; k < 3; k++) {
            table t = make_table(&wanted, forms[i].form, forms[i].columns, IN_F32, types[k]);
            gyre_angle_audit *a = audit_table(&t, &r);
            if (a->form != forms[i].form) fail_msg("form %d type %d: %s", (int)i, k, gyre_angle_form_name(a->form));
            assert_int_equal(a->columns, forms[i].columns);
            assert_int_equal(a->rounded, types[k]);
            assert_int_equal(a->pairs, PAIRS);
            assert_int_equal(a->positions, ROWS);
            assert_true(fabs(a->factor - 1) < 0.005);
            if (!(fabs(a->base / 10000 - 1) < 0.05)) fail_msg("form %d type %d: base %g", (int)i, k, a->base);
            for (int64_t m = 0; m < a->count; m++)
                if (a->matches[m].first_position >= 0) fail_msg("form %d type %d: %s", (int)i, k, a->verdict);
            assert_true(a->matches[0].precision <= GYRE_ANGLE_PRECISION_F32);
            gyre_angle_audit_free(a);
            free(t.numbers);
        }
    free_all(&r);
}

/* -- precision -- */
/* out = the first position with an angle 0.01 rad off. */
static int64_t naive_inexact(const rotation *r, how way) {
    for (int64_t m = 0; m < ROWS; m++)
        for (int i = 0; i < PAIRS; i++)
            if (fabs(angle_of(r->frequencies[i], m, way) - r->frequencies[i] * (double)m) > 0.01) return m;
    return -1;
}

static void expect_precision(how way, gyre_dtype rounded, gyre_angle_precision wanted, const char *says) {
    readings r = read_all(plain, 0);
    const rotation made = plain_rotation(10000);
    table t = make_table(&made, GYRE_ANGLE_FORM_COS_SIN, GYRE_ANGLE_COLUMNS_ONCE, way, rounded);
    gyre_angle_audit *a = audit_table(&t, &r);
    assert_true(agrees(a, GYRE_PROFILE_HF_5));
    if (a->matches[0].precision != wanted) fail_msg("%s, wanted %s", a->verdict, gyre_angle_precision_name(wanted));
    if (!strstr(a->verdict, says)) fail_msg("\"%s\" lacks \"%s\"", a->verdict, says);
    const int64_t inexact = way == IN_F32 ? -1 : naive_inexact(&made, way);
    assert_int_equal(a->matches[0].inexact_from, inexact);
    assert_int_equal(inexact > 0, way != IN_F32);
    gyre_angle_audit_free(a);
    free(t.numbers);
    free_all(&r);
}

static void test_precisions(void **state) {
    (void)state;
    expect_precision(IN_F32, GYRE_DTYPE_F32, GYRE_ANGLE_PRECISION_F32, "computed in f32.");
    expect_precision(IN_F32, GYRE_DTYPE_BF16, GYRE_ANGLE_PRECISION_F32, "computed in f32 and rounded to bf16 at the end");
    expect_precision(IN_F32, GYRE_DTYPE_F16, GYRE_ANGLE_PRECISION_F32, "computed in f32 and rounded to f16 at the end");
    expect_precision(BF16_FREQUENCIES, GYRE_DTYPE_F32, GYRE_ANGLE_PRECISION_BF16_FREQUENCIES,
                     "from frequencies rounded to bf16, with angles in f32");
    expect_precision(BF16_FREQUENCIES, GYRE_DTYPE_BF16, GYRE_ANGLE_PRECISION_BF16_FREQUENCIES,
                     "from frequencies rounded to bf16, with angles in f32");
    expect_precision(BF16_ANGLES, GYRE_DTYPE_BF16, GYRE_ANGLE_PRECISION_BF16_ANGLES,
                     "with positions and angles computed in bf16");
    expect_precision(F16_ANGLES, GYRE_DTYPE_F16, GYRE_ANGLE_PRECISION_F16_ANGLES,
                     "with positions and angles computed in f16");
}

/* Views of F16, BF16 and F64 memory, of columns first, and with extents of 1 are the same table. */
static void test_views(void **state) {
    (void)state;
    readings r = read_all(plain, 0);
    const rotation made = plain_rotation(10000);
    table t = make_table(&made, GYRE_ANGLE_FORM_COS_SIN, GYRE_ANGLE_COLUMNS_ONCE, IN_F32, GYRE_DTYPE_BF16);
    const size_t count = (size_t)(t.rows * t.columns);
    uint16_t *shorts = malloc(count * sizeof *shorts);
    double *doubles = malloc(count * sizeof *doubles), *turned = malloc(count * sizeof *turned);
    assert_true(shorts && doubles && turned);
    for (size_t i = 0; i < count; i++) {
        shorts[i] = gyre_f32_to_bf16(t.numbers[i]);
        doubles[i] = (double)t.numbers[i];
        turned[i % (size_t)t.columns * (size_t)t.rows + i / (size_t)t.columns] = (double)t.numbers[i];
    }
    const gyre_cview views[] = {
        {shorts, GYRE_DTYPE_BF16, {t.rows, t.columns, 1, 1}, {t.columns, 1, 1, 1}},
        {doubles, GYRE_DTYPE_F64, {1, t.rows, 1, t.columns}, {0, t.columns, 0, 1}},
        {turned, GYRE_DTYPE_F64, {t.rows, 1, 1, t.columns}, {1, 0, 0, t.rows}},
        {doubles, GYRE_DTYPE_F64, {t.rows, 2, PAIRS, 1}, {t.columns, PAIRS, 1, 1}}, /* [positions, 2, pairs] */
        {doubles, GYRE_DTYPE_F64, {2, t.rows, PAIRS, 1}, {PAIRS, t.columns, 1, 1}}, /* [2, positions, pairs] */
        {doubles, GYRE_DTYPE_F64, {t.rows, PAIRS, 2, 1}, {t.columns, 1, PAIRS, 1}}, /* [positions, pairs, 2] */
        {doubles + (t.rows - 1) * t.columns, GYRE_DTYPE_F64, {t.rows, t.columns, 1, 1}, {-t.columns, 1, 1, 1}}};
    for (size_t i = 0; i < sizeof views / sizeof *views; i++) {
        gyre_angle_audit *a = audit_view(&views[i], &r);
        const int backwards = i == 6;
        assert_int_equal(a->form, i == 5 ? GYRE_ANGLE_FORM_PAIRS : GYRE_ANGLE_FORM_COS_SIN);
        assert_int_equal(a->rounded, GYRE_DTYPE_BF16);
        assert_int_equal(agrees(a, GYRE_PROFILE_HF_5), !backwards);
        if (backwards) assert_int_equal(match_of(a, GYRE_PROFILE_HF_5)->first_position, 0);
        gyre_angle_audit_free(a);
    }
    free(turned);
    free(doubles);
    free(shorts);
    free(t.numbers);
    free_all(&r);
}

/* -- which profile -- */
/* YaRN as transformers 5 and as 4.43 read it: the ramp of the latter spans max_position_embeddings. */
static void test_profiles(void **state) {
    (void)state;
    static const gyre_dtype types[] = {GYRE_DTYPE_F32, GYRE_DTYPE_BF16, GYRE_DTYPE_F16};
    readings r = read_all(yarn, 0);
    for (int k = 0; k < 6; k++) {
        const int old = k >= 3;
        const rotation made = yarn_rotation(10000, 4, old ? 4096 : 1024);
        table t = make_table(&made, GYRE_ANGLE_FORM_COS_SIN, GYRE_ANGLE_COLUMNS_ONCE, IN_F32, types[k % 3]);
        gyre_angle_audit *a = audit_table(&t, &r);
        if (agrees(a, GYRE_PROFILE_HF_5) == old || agrees(a, GYRE_PROFILE_HF_4_43) != old)
            fail_msg("case %d: %s", k, a->verdict);
        assert_int_equal(agrees(a, GYRE_PROFILE_VLLM_2026_09), !old);
        assert_true(fabs(a->factor - made.factor) < 0.002);
        assert_true(a->base == 0); /* blended frequencies are of no base */
        const gyre_angle_match *other = match_of(a, old ? GYRE_PROFILE_HF_5 : GYRE_PROFILE_HF_4_43);
        assert_true(other->first_position > 0 && other->first_position < 64 && other->first_pair > 0);
        assert_non_null(strstr(a->verdict, old ? "Not of hf-5" : "Not of hf-4.43"));
        gyre_angle_audit_free(a);
        free(t.numbers);
    }
    free_all(&r);
}

/* Dynamic NTK: the table of an engine that allocates 4096 rows of a model of 1024, at the length of the table. */
static void test_length(void **state) {
    (void)state;
    static const char dynamic[] = "{\"model_type\": \"llama\", \"hidden_size\": 256, \"num_attention_heads\": 4,"
                                  " \"num_hidden_layers\": 2, \"max_position_embeddings\": 1024, \"rope_theta\": 10000.0,"
                                  " \"rope_scaling\": {\"rope_type\": \"dynamic\", \"factor\": 2.0}}";
    readings r = read_all(dynamic, 0);
    const rotation made = plain_rotation(10000 * pow(2.0 * ROWS / 1024 - 1, (double)DIM / (DIM - 2)));
    table t = make_table(&made, GYRE_ANGLE_FORM_COS_SIN, GYRE_ANGLE_COLUMNS_ONCE, IN_F32, GYRE_DTYPE_F32);
    gyre_angle_audit *a = audit_table(&t, &r);
    if (!agrees(a, GYRE_PROFILE_HF_5)) fail_msg("%s", a->verdict);
    assert_int_equal(a->matches[0].length, ROWS);
    gyre_angle_audit_free(a);
    free(t.numbers);
    free_all(&r);
}

/* -- faults -- */
static void test_wrong_base(void **state) {
    (void)state;
    readings r = read_all(plain, 0);
    const rotation made = plain_rotation(500000);
    for (int k = 0; k < 2; k++) {
        table t = make_table(&made, GYRE_ANGLE_FORM_COS_SIN, GYRE_ANGLE_COLUMNS_ONCE, IN_F32,
                             k ? GYRE_DTYPE_BF16 : GYRE_DTYPE_F32);
        gyre_angle_audit *a = audit_table(&t, &r);
        const gyre_angle_match *m = match_of(a, GYRE_PROFILE_HF_5);
        assert_int_equal(m->first_position, 1); /* position 0 does not rotate */
        assert_int_equal(m->first_pair, 1);     /* and pair 0 has no base */
        assert_int_equal(m->positions_off, ROWS - 1);
        assert_true(m->largest_error > 1);
        assert_true(fabs(a->base / 500000 - 1) < (k ? 0.05 : 1e-3));
        if (!strstr(a->verdict, "the config says 10000")) fail_msg("%s", a->verdict);
        gyre_angle_audit_free(a);
        free(t.numbers);
    }
    free_all(&r);
}

static void test_wrong_factor(void **state) {
    (void)state;
    readings r = read_all(yarn, 0);
    rotation made = yarn_rotation(10000, 4, 1024);
    made.factor = 1;
    table t = make_table(&made, GYRE_ANGLE_FORM_COS, GYRE_ANGLE_COLUMNS_HALVES, IN_F32, GYRE_DTYPE_F32);
    gyre_angle_audit *a = audit_table(&t, &r);
    const gyre_angle_match *m = match_of(a, GYRE_PROFILE_HF_5);
    assert_int_equal(m->first_position, 0);
    assert_int_equal(m->first_pair, 0);
    if (!strstr(a->verdict, "have the factor 1, those of the config 1.13863")) fail_msg("%s", a->verdict);
    gyre_angle_audit_free(a);
    free(t.numbers);
    free_all(&r);
}

/* A table that is right up to a position; one with a single wrong number; one with a NaN. */
static void test_off_from(void **state) {
    (void)state;
    readings r = read_all(plain, 0);
    const rotation made = plain_rotation(10000), other = plain_rotation(10100);
    table t = make_table(&made, GYRE_ANGLE_FORM_COS_SIN, GYRE_ANGLE_COLUMNS_ONCE, IN_F32, GYRE_DTYPE_F32);
    table wrong = make_table(&other, GYRE_ANGLE_FORM_COS_SIN, GYRE_ANGLE_COLUMNS_ONCE, IN_F32, GYRE_DTYPE_F32);
    float *kept = malloc((size_t)(t.rows * t.columns) * sizeof *kept);
    assert_non_null(kept);
    memcpy(kept, t.numbers, (size_t)(t.rows * t.columns) * sizeof *kept);
    memcpy(t.numbers + 1777 * t.columns, wrong.numbers + 1777 * t.columns,
           (size_t)((t.rows - 1777) * t.columns) * sizeof *kept);
    gyre_angle_audit *a = audit_table(&t, &r);
    const gyre_angle_match *m = match_of(a, GYRE_PROFILE_HF_5);
    assert_int_equal(m->first_position, 1777);
    assert_int_equal(m->first_pair, 1);
    assert_int_equal(m->positions_off, ROWS - 1777);
    assert_int_equal(a->restarts, 0);
    assert_non_null(strstr(a->verdict, "off at position 1777 in pair 1."));
    gyre_angle_audit_free(a);
    for (int k = 0; k < 2; k++) {
        memcpy(t.numbers, kept, (size_t)(t.rows * t.columns) * sizeof *kept);
        t.numbers[3000 * t.columns + PAIRS + 7] = k ? NAN : t.numbers[3000 * t.columns + PAIRS + 7] + 0x1p-9f;
        a = audit_table(&t, &r);
        m = match_of(a, GYRE_PROFILE_HF_5);
        assert_int_equal(m->first_position, 3000);
        assert_int_equal(m->first_pair, 7);
        assert_int_equal(m->positions_off, 1);
        assert_non_null(strstr(a->verdict, "1 of 4096 positions are off."));
        assert_true(k ? isinf(m->largest_error) : m->largest_error < 0.003);
        gyre_angle_audit_free(a);
    }
    free(kept);
    free(wrong.numbers);
    free(t.numbers);
    free_all(&r);
}

/* Two tables one after the other, and a table that begins at position 1. */
static void test_restart_and_shift(void **state) {
    (void)state;
    readings r = read_all(plain, 0);
    const rotation made = plain_rotation(10000), other = plain_rotation(20000);
    table t = make_table(&made, GYRE_ANGLE_FORM_COS_SIN, GYRE_ANGLE_COLUMNS_ONCE, IN_F32, GYRE_DTYPE_BF16);
    table second = make_table(&other, GYRE_ANGLE_FORM_COS_SIN, GYRE_ANGLE_COLUMNS_ONCE, IN_F32, GYRE_DTYPE_BF16);
    gyre_cview shifted = view_of(&t);
    shifted.data = t.numbers + t.columns;
    shifted.shape[2]--;
    gyre_angle_audit *a = audit_view(&shifted, &r);
    assert_int_equal(a->form, GYRE_ANGLE_FORM_COS_SIN);
    assert_int_equal(match_of(a, GYRE_PROFILE_HF_5)->first_position, 0);
    gyre_angle_audit_free(a);
    memcpy(t.numbers + 1024 * t.columns, second.numbers, (size_t)((t.rows - 1024) * t.columns) * sizeof(float));
    a = audit_table(&t, &r);
    assert_int_equal(match_of(a, GYRE_PROFILE_HF_5)->first_position, 1024);
    assert_int_equal(a->restarts, 1);
    assert_non_null(strstr(a->verdict, "begins again at 0"));
    gyre_angle_audit_free(a);
    free(second.numbers);
    free(t.numbers);
    free_all(&r);
}

/* -- frequencies -- */
static void test_frequencies(void **state) {
    (void)state;
    readings r = read_all(plain, 0);
    const rotation made = plain_rotation(10000), wrong = plain_rotation(10001);
    float numbers[2 * PAIRS];
    for (int k = 0; k < 5; k++) { /* f32, bf16, f16, twice, another base */
        const int twice = k == 3;
        for (int i = 0; i < PAIRS; i++) {
            const double f = k == 4 ? wrong.frequencies[i] : made.frequencies[i];
            numbers[i] = (float)(k == 1 ? bf16(f) : k == 2 ? f16(f) : f);
            numbers[PAIRS + i] = numbers[i];
        }
        const gyre_cview view = {numbers, GYRE_DTYPE_F32, {twice ? 2 * PAIRS : PAIRS, 1, 1, 1}, {1, 1, 1, 1}};
        gyre_angle_audit *a = audit_view(&view, &r);
        assert_int_equal(a->form, GYRE_ANGLE_FORM_FREQUENCIES);
        assert_int_equal(a->columns, twice ? GYRE_ANGLE_COLUMNS_HALVES : GYRE_ANGLE_COLUMNS_ONCE);
        assert_int_equal(a->positions, 0);
        assert_int_equal(a->rounded, k == 1 ? GYRE_DTYPE_BF16 : k == 2 ? GYRE_DTYPE_F16 : GYRE_DTYPE_F32);
        if (agrees(a, GYRE_PROFILE_HF_5) != (k < 4)) fail_msg("case %d: %s", k, a->verdict);
        if (k == 1 || k == 2) {
            const gyre_angle_match *m = match_of(a, GYRE_PROFILE_HF_5);
            double gap = 0;
            for (int i = 0; i < PAIRS; i++)
                gap = fmax(gap, fabs(pow(10000, -2.0 * i / DIM) - (double)numbers[i]));
            assert_non_null(strstr(a->verdict, k == 1 ? "rounded to bf16" : "rounded to f16"));
            assert_true((double)m->inexact_from * gap > 0.01 && (double)(m->inexact_from - 1) * gap <= 0.01);
        }
        if (k == 4) {
            const gyre_angle_match *m = match_of(a, GYRE_PROFILE_HF_5);
            double gap = 0;
            for (int i = 0; i < PAIRS; i++)
                gap = fmax(gap, fabs(pow(10000, -2.0 * i / DIM) - (double)numbers[i]));
            assert_true(fabs((double)m->first_position * gap - 0.01) < 0.01 * 0.01);
            assert_true(fabs(a->base - 10001) < 0.2);
        }
        gyre_angle_audit_free(a);
    }
    free_all(&r);
}

/* -- refusals -- */
static void test_refusals(void **state) {
    (void)state;
    readings r = read_all(plain, 0);
    float numbers[64] = {0};
    gyre_angle_audit *a = NULL;
    gyre_error err = {0, ""};
    const gyre_reading *const *list = (const gyre_reading *const *)r.list;
    gyre_cview view = {numbers, GYRE_DTYPE_F32, {3, 4, 5, 1}, {20, 5, 1, 1}};
    assert_int_equal(gyre_angles_audit(&a, &view, list, r.count, &err), GYRE_ESHAPE);
    assert_non_null(strstr(err.text, "[3, 4, 5, 1]"));
    view.shape[0] = 0;
    assert_int_equal(gyre_angles_audit(&a, &view, list, r.count, &err), GYRE_ESHAPE);
    view = (gyre_cview){numbers, GYRE_DTYPE_I32, {4, 8, 1, 1}, {8, 1, 1, 1}};
    assert_int_equal(gyre_angles_audit(&a, &view, list, r.count, &err), GYRE_EDTYPE);
    view = (gyre_cview){NULL, GYRE_DTYPE_F32, {4, 8, 1, 1}, {8, 1, 1, 1}};
    assert_int_equal(gyre_angles_audit(&a, &view, list, r.count, &err), GYRE_EINVAL);
    assert_int_equal(gyre_angles_audit(&a, NULL, list, r.count, &err), GYRE_EINVAL);
    assert_null(a);
    view = (gyre_cview){numbers, GYRE_DTYPE_F32, {8, 8, 1, 1}, {8, 1, 1, 1}}; /* zeros are no table, and no crash */
    a = audit_view(&view, &r);
    assert_false(agrees(a, GYRE_PROFILE_HF_5));
    assert_int_equal(match_of(a, GYRE_PROFILE_HF_5)->first_pair, -1);
    gyre_angle_audit_free(a);
    view = (gyre_cview){numbers, GYRE_DTYPE_F32, {8, 8, 1, 1}, {8, 1, 1, 1}};
    a = NULL;
    assert_int_equal(gyre_angles_audit(&a, &view, NULL, 0, &err), GYRE_OK);
    assert_int_equal(a->count, 0);
    gyre_angle_audit_free(a);
    free_all(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),        cmocka_unit_test(test_precisions), cmocka_unit_test(test_views),
        cmocka_unit_test(test_profiles),     cmocka_unit_test(test_length),     cmocka_unit_test(test_wrong_base),
        cmocka_unit_test(test_wrong_factor), cmocka_unit_test(test_off_from),   cmocka_unit_test(test_restart_and_shift),
        cmocka_unit_test(test_frequencies),  cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests(tests, make_empty_folder, remove_folder);
}
