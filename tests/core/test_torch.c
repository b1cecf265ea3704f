/* test_torch.c: the angle paths of programs, bit for bit: GYRE_ANGLE_PATH_TORCH against values computed by PyTorch
 * (tests/reference/torch_rows.py), GYRE_ANGLE_PATH_VLLM_BF16 and _F16 against tables by PyTorch (vllm_rows.py),
 * GYRE_ANGLE_PATH_LLAMA_CPP against those of ggml (llama_cpp_rows.c), GYRE_ANGLE_PATH_TENSORRT_LLM against those of NumPy
 * (numpy_rows.py). */
#include "support.h"

#include "core/convert.h"
#include "core/rotation/torch_math.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 64 };

typedef struct named_scaling {
    const char *name;
    gyre_scaling scaling;
} named_scaling;
static const named_scaling scalings[] = {{"default", GYRE_SCALING_NONE},        {"linear", GYRE_SCALING_LINEAR},
                                         {"dynamic", GYRE_SCALING_DYNAMIC_NTK}, {"yarn", GYRE_SCALING_YARN},
                                         {"llama3", GYRE_SCALING_LLAMA3},       {"longrope", GYRE_SCALING_LONGROPE}};

/* Eight hexadecimal digits per float. */
static size_t floats_of(const char *hexes, float out[MOST]) {
    const size_t n = strlen(hexes) / 8;
    assert_true(n > 0 && n <= MOST);
    for (size_t i = 0; i < n; i++) {
        unsigned bits;
        assert_int_equal(sscanf(hexes + 8 * i, "%8x", &bits), 1);
        memcpy(&out[i], &bits, sizeof bits);
    }
    return n;
}

static gyre_config config_of(const json_t *c, double list[MOST]) {
    gyre_config config = GYRE_INIT(gyre_config);
    config.kind = GYRE_KIND_ROPE;
    config.head_dim = test_integer(c, "dim");
    config.trained_length = (int64_t)test_number_or(c, "trained", 0);
    config.rope.angles = GYRE_ANGLE_PATH_TORCH;
    config.rope.base = test_number(c, "base");
    config.rope.factor = test_number_or(c, "factor", 0);
    config.context_length = (int64_t)test_number_or(c, "length", (double)config.trained_length);
    config.rope.low_freq = test_number_or(c, "low", 0);
    config.rope.high_freq = test_number_or(c, "high", 0);
    config.rope.fractional_bounds = json_is_false(json_object_get(c, "truncate"));
    for (size_t i = 0; i < sizeof scalings / sizeof *scalings; i++)
        if (strcmp(scalings[i].name, test_string(c, "scaling")) == 0) config.rope.scaling = scalings[i].scaling;
    if (config.rope.scaling == GYRE_SCALING_LONGROPE) {
        test_numbers(c, "list", list, MOST);
        config.rope.short_factor = config.rope.long_factor = list;
    }
    return config;
}

/* (1, 0) rotated is (cos, sin) bit for bit: 1 c - 0 s. */
static void cos_sin_at(const gyre_encoding *e, int64_t position, size_t pairs, float c[MOST], float s[MOST]) {
    float x[2 * MOST] = {0}, y[2 * MOST];
    for (size_t i = 0; i < pairs; i++)
        x[i] = 1;
    const gyre_positions at = {NULL, GYRE_DTYPE_I64, position, 0, 0, 0, 0, 0};
    const gyre_cview in = gyre_cdense(x, GYRE_DTYPE_F32, 1, 1, 1, (int64_t)(2 * pairs));
    const gyre_view out = gyre_dense(y, GYRE_DTYPE_F32, 1, 1, 1, (int64_t)(2 * pairs));
    assert_ok(gyre_rotate(e, GYRE_ARGS(gyre_rotate_args, .role = GYRE_ROLE_KEY, .positions = &at, .in = in, .out = out),
                          NULL, NULL));
    memcpy(c, y, pairs * sizeof *c);
    memcpy(s, y + pairs, pairs * sizeof *s);
}

static void check_case(const json_t *c, int table) {
    double list[MOST], got[MOST];
    float want[MOST], cosine[MOST], sine[MOST];
    gyre_config config = config_of(c, list);
    config.rope.table_positions = table ? 200000 : GYRE_NO_TABLE;
    gyre_encoding *e = test_encoding(&config);
    const size_t pairs = floats_of(test_string(c, "inv_freq"), want);
    assert_ok(gyre_encoding_frequencies(e, 0, got, NULL));
    for (size_t i = 0; i < pairs; i++)
        if (got[i] != (double)want[i])
            fail_msg("%s, pair %zu: %a, PyTorch %a", test_string(c, "scaling"), i, got[i], want[i]);
    const json_t *rows = json_object_get(c, "rows"), *row;
    size_t r;
    json_array_foreach((json_t *)rows, r, row) {
        cos_sin_at(e, test_integer(row, "position"), pairs, cosine, sine);
        floats_of(test_string(row, "cos"), want);
        for (size_t i = 0; i < pairs; i++)
            if (memcmp(&cosine[i], &want[i], sizeof *want) != 0)
                fail_msg("%s, row %zu, cos %zu: %a, PyTorch %a", test_string(c, "scaling"), r, i, cosine[i], want[i]);
        floats_of(test_string(row, "sin"), want);
        for (size_t i = 0; i < pairs; i++)
            if (sine[i] != want[i])
                fail_msg("%s, row %zu, sin %zu: %a, PyTorch %a", test_string(c, "scaling"), r, i, sine[i], want[i]);
    }
    gyre_encoding_free(e);
}

/* PyTorch processed eight floats at a time, with FMA. */
static int comparable(void) {
#if defined(__x86_64__)
    return gyre_torch_math_available() && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
    return 0;
#endif
}

static void rows_match_torch(void **state) {
    (void)state;
    if (!comparable()) skip();
    json_t *cases = test_reference("torch_rows.json"), *c;
    size_t i;
    json_array_foreach(cases, i, c) {
        check_case(c, 0);
        check_case(c, 1);
    }
    assert_int_equal(i, 9);
    json_decref(cases);
}

/* The error of this path: a third of a revolution at ten million. */
static void exact_rows_differ(void **state) {
    (void)state;
    if (!gyre_torch_math_available()) skip();
    float c[MOST], s[MOST], exact_c[MOST], exact_s[MOST];
    gyre_config config = test_rope_config(64, GYRE_LAYOUT_HALF);
    gyre_encoding *exact = test_encoding(&config);
    config.rope.angles = GYRE_ANGLE_PATH_TORCH;
    gyre_encoding *torch = test_encoding(&config);
    cos_sin_at(torch, 10000000, 32, c, s);
    cos_sin_at(exact, 10000000, 32, exact_c, exact_s);
    float most = 0;
    for (int i = 0; i < 32; i++)
        most = fmaxf(most, fmaxf(fabsf(c[i] - exact_c[i]), fabsf(s[i] - exact_s[i])));
    assert_true(most > 0.1f);
    gyre_encoding_free(exact);
    gyre_encoding_free(torch);
}

/* -- vLLM -- */
/* FNV-1a over 16-bit values, as in vllm_rows.py. */
static void add_to_checksum(uint64_t *sum, uint16_t value) {
    *sum = (*sum ^ value) * UINT64_C(0x100000001B3);
}

/* The bits of a number that has a 16-bit type's precision; a bf16 that is not one has low bits, which no row has. */
static uint16_t word_of(float value, int is_f16) {
    uint32_t bits;
    if (is_f16) return gyre_f32_to_f16(value);
    memcpy(&bits, &value, sizeof bits);
    assert_int_equal(bits & 0xffff, 0);
    return (uint16_t)(bits >> 16);
}

/* out = entries of c, position by position, that are not PyTorch's: in all rows of the file, and 1 if the checksum of the
 * whole table is another. */
static int other_words(const json_t *c, gyre_angle_path path, int is_f16) {
    double list[MOST];
    float cosine[MOST], sine[MOST];
    gyre_config config = config_of(c, list);
    config.context_length = 0;
    config.rope.angles = path;
    gyre_encoding *e = test_encoding(&config);
    const json_t *rows = json_object_get(c, "rows");
    const int pairs = (int)config.head_dim / 2;
    const int64_t length = test_integer(c, "length");
    uint64_t sum = UINT64_C(0xCBF29CE484222325);
    int other = 0;
    size_t next = 0;
    char text[32];
    for (int64_t m = 0; m < length; m++) {
        cos_sin_at(e, m, (size_t)pairs, cosine, sine);
        const json_t *row = json_array_get(rows, next);
        const char *hexes = row && test_integer(row, "position") == m ? test_string(row, "cos_sin") : NULL;
        next += hexes != NULL;
        for (int i = 0; i < 2 * pairs; i++) {
            const uint16_t word = word_of(i < pairs ? cosine[i] : sine[i - pairs], is_f16);
            unsigned want = word;
            if (hexes) assert_int_equal(sscanf(hexes + 4 * i, "%4x", &want), 1);
            other += word != want;
            add_to_checksum(&sum, word);
        }
    }
    assert_int_equal(next, json_array_size(rows));
    snprintf(text, sizeof text, "%016llx", (unsigned long long)sum);
    gyre_encoding_free(e);
    return other + (strcmp(text, test_string(c, "checksum")) != 0);
}

/* vLLM's formulas, run by PyTorch: all entries of tables of 8192 positions.  transformers' order of operations has the same
 * bits, but not where the positions are divided: LINEAR by a factor that is no power of two. */
static void tables_match_vllm(void **state) {
    (void)state;
    if (!comparable()) skip();
    json_t *cases = test_reference("vllm_rows.json"), *c;
    size_t i;
    json_array_foreach(cases, i, c) {
        const int is_f16 = strcmp(test_string(c, "type"), "f16") == 0;
        const double s = test_number_or(c, "factor", 1);
        const int differs = strcmp(test_string(c, "scaling"), "linear") == 0 && s != floor(s / 2) * 2;
        const int other = other_words(c, is_f16 ? GYRE_ANGLE_PATH_VLLM_F16 : GYRE_ANGLE_PATH_VLLM_BF16, is_f16);
        if (other) fail_msg("case %zu, %s: %d entries are not PyTorch's", i, test_string(c, "scaling"), other);
        const int as_transformers = other_words(c, is_f16 ? GYRE_ANGLE_PATH_TORCH_F16 : GYRE_ANGLE_PATH_TORCH_BF16, is_f16);
        if ((as_transformers > 0) != differs)
            fail_msg("case %zu, %s: %d entries differ in transformers' order", i, test_string(c, "scaling"),
                     as_transformers);
    }
    assert_int_equal(i, 14);
    json_decref(cases);
}

/* A frequency is what a position turns by, whichever of the two is divided. */
static void divided_positions_have_scaled_frequencies(void **state) {
    (void)state;
    if (!gyre_torch_math_available()) skip();
    double exact[MOST], got[MOST];
    gyre_config config = test_rope_config(64, GYRE_LAYOUT_HALF);
    config.rope.scaling = GYRE_SCALING_LINEAR;
    config.rope.factor = 2.5;
    for (int program = 0; program < 2; program++) {
        config.rope.angles = program ? GYRE_ANGLE_PATH_VLLM_BF16 : GYRE_ANGLE_PATH_EXACT;
        gyre_encoding *e = test_encoding(&config);
        assert_ok(gyre_encoding_frequencies(e, 0, program ? got : exact, NULL));
        gyre_encoding_free(e);
    }
    for (int i = 0; i < 32; i++)
        assert_true(fabs(got[i] / exact[i] - 1) < 1e-6 && got[i] * 2.5 == (double)(float)(got[i] * 2.5));
}

/* -- llama.cpp -- */
/* The program was compiled for AVX-512 and FMA; cosf and sinf of other C libraries may differ in the last bit. */
static int close_enough(float got, float want) {
#if defined(__x86_64__) && defined(__GLIBC__)
    return got == want;
#else
    return fabsf(got - want) <= 0x1p-23f * fmaxf(1, fabsf(want));
#endif
}

static void check_llama_cpp_case(const json_t *c, int table) {
    double list[MOST];
    float want[MOST], cosine[MOST], sine[MOST];
    gyre_config config = config_of(c, list);
    config.rope.angles = GYRE_ANGLE_PATH_LLAMA_CPP;
    config.rope.table_positions = table ? 140000 : GYRE_NO_TABLE;
    const double factor = test_number(c, "attention"), s = config.rope.factor;
    if (config.rope.scaling == GYRE_SCALING_LONGROPE) config.rope.attention_factor = factor, config.rope.factor = 0;
    if (config.rope.scaling == GYRE_SCALING_YARN) config.rope.attention_factor = factor * (1 + 0.1 * log(s));
    if (config.rope.scaling == GYRE_SCALING_NONE) config.rope.factor = 0;
    gyre_encoding *e = test_encoding(&config);
    const json_t *rows = json_object_get(c, "rows"), *row;
    size_t r;
    json_array_foreach((json_t *)rows, r, row) {
        const size_t pairs = floats_of(test_string(row, "cos"), want);
        cos_sin_at(e, test_integer(row, "position"), pairs, cosine, sine);
        for (size_t i = 0; i < pairs; i++)
            if (!close_enough(cosine[i], want[i]))
                fail_msg("%s, row %zu, cos %zu: %a, ggml %a", test_string(c, "scaling"), r, i, cosine[i], want[i]);
        floats_of(test_string(row, "sin"), want);
        for (size_t i = 0; i < pairs; i++)
            if (!close_enough(sine[i], want[i]))
                fail_msg("%s, row %zu, sin %zu: %a, ggml %a", test_string(c, "scaling"), r, i, sine[i], want[i]);
    }
    assert_int_equal(r, 9);
    gyre_encoding_free(e);
}

static void rows_match_llama_cpp(void **state) {
    (void)state;
    json_t *cases = test_reference("llama_cpp_rows.json"), *c;
    size_t i;
    json_array_foreach(cases, i, c) {
        check_llama_cpp_case(c, 0);
        check_llama_cpp_case(c, 1);
    }
    assert_int_equal(i, 7);
    json_decref(cases);
}

static void refused_without_llama_cpp_support(void **state) {
    (void)state;
    gyre_error err;
    gyre_encoding *e = NULL;
    gyre_config config = test_rope_config(64, GYRE_LAYOUT_HALF);
    config.trained_length = 4096;
    config.rope.angles = GYRE_ANGLE_PATH_LLAMA_CPP;
    config.rope.scaling = GYRE_SCALING_DYNAMIC_NTK;
    config.rope.factor = 2;
    assert_int_equal(gyre_encoding_create(&e, &config, NULL, &err), GYRE_EUNSUPPORTED);
    assert_non_null(strstr(err.text, "rope.angles: llama.cpp has no dynamic NTK"));
    config.rope.scaling = GYRE_SCALING_YARN;
    config.rope.fractional_bounds = 1;
    assert_int_equal(gyre_encoding_create(&e, &config, NULL, &err), GYRE_EUNSUPPORTED);
    assert_non_null(strstr(err.text, "rope.angles: llama.cpp has no ramp with fractional ends"));
    config = test_rope_config(64, GYRE_LAYOUT_HALF);
    config.rope.angles = GYRE_ANGLE_PATH_LLAMA_CPP;
    config.rope.axes = 2;
    config.rope.axis_pairs[0] = config.rope.axis_pairs[1] = 16;
    assert_int_equal(gyre_encoding_create(&e, &config, NULL, &err), GYRE_EUNSUPPORTED);
    assert_non_null(strstr(err.text, "rope.angles: Gyre has no path for llama.cpp with several axes"));
}

/* -- TensorRT-LLM -- */
/* Past 71476 and 117436 rad NumPy calls the C library, whose last bit may differ elsewhere. */
static void check_numpy_row(const gyre_encoding *e, const json_t *c, const json_t *row) {
    float want[MOST], cosine[MOST], sine[MOST];
    const size_t pairs = floats_of(test_string(row, "cos"), want);
    const int64_t position = test_integer(row, "position");
    cos_sin_at(e, position, pairs, cosine, sine);
    for (size_t i = 0; i < pairs; i++)
        if (position <= 70000 ? cosine[i] != want[i] : !close_enough(cosine[i], want[i]))
            fail_msg("%s, position %lld, cos %zu: %a, NumPy %a", test_string(c, "scaling"), (long long)position, i,
                     cosine[i], want[i]);
    floats_of(test_string(row, "sin"), want);
    for (size_t i = 0; i < pairs; i++)
        if (position <= 100000 ? sine[i] != want[i] : !close_enough(sine[i], want[i]))
            fail_msg("%s, position %lld, sin %zu: %a, NumPy %a", test_string(c, "scaling"), (long long)position, i, sine[i],
                     want[i]);
}

static void rows_match_numpy(void **state) {
    (void)state;
    json_t *cases = test_reference("numpy_rows.json"), *c, *row;
    size_t i, r;
    json_array_foreach(cases, i, c) {
        double list[MOST], is[MOST];
        float want[MOST];
        gyre_config config = config_of(c, list);
        config.rope.angles = GYRE_ANGLE_PATH_TENSORRT_LLM;
        for (int table = 0; table < 2; table++) {
            config.rope.table_positions = table ? 140000 : GYRE_NO_TABLE;
            gyre_encoding *e = test_encoding(&config);
            const size_t pairs = floats_of(test_string(c, "inv_freq"), want);
            assert_int_equal(gyre_encoding_frequencies(e, 0, is, NULL), GYRE_OK);
            for (size_t p = 0; p < pairs; p++)
                assert_true(is[p] == (double)want[p]);
            json_array_foreach(json_object_get(c, "rows"), r, row) check_numpy_row(e, c, row);
            assert_int_equal(r, 10);
            gyre_encoding_free(e);
        }
    }
    assert_int_equal(i, 12);
    json_decref(cases);
}

static void refused_without_tensorrt_llm_support(void **state) {
    (void)state;
    gyre_error err;
    gyre_encoding *e = NULL;
    gyre_config config = test_rope_config(64, GYRE_LAYOUT_HALF);
    config.trained_length = 4096;
    config.rope.angles = GYRE_ANGLE_PATH_TENSORRT_LLM;
    config.rope.scaling = GYRE_SCALING_YARN;
    config.rope.factor = 2;
    assert_int_equal(gyre_encoding_create(&e, &config, NULL, &err), GYRE_EUNSUPPORTED);
    assert_non_null(strstr(err.text, "rope.angles: Gyre has no path for TensorRT-LLM with YaRN"));
}

static void refused_without_torch_support(void **state) {
    (void)state;
    gyre_error err;
    gyre_encoding *e = NULL;
    gyre_config config = test_rope_config(64, GYRE_LAYOUT_HALF);
    config.rope.angles = (gyre_angle_path)8;
    assert_int_equal(gyre_encoding_create(&e, &config, NULL, &err), GYRE_EINVAL);
    config.rope.angles = GYRE_ANGLE_PATH_TORCH;
    config.rope.scaling = GYRE_SCALING_NTK_MIXED;
    config.rope.factor = 4;
    assert_int_equal(gyre_encoding_create(&e, &config, NULL, &err), GYRE_EUNSUPPORTED);
    assert_non_null(strstr(err.text, "rope.angles"));
    assert_null(e);
}

/* No program has clipped pairs, and each of the refusals says that they are why. */
static void refused_for_a_clip(void **state) {
    (void)state;
    static const gyre_angle_path paths[] = {GYRE_ANGLE_PATH_TORCH, GYRE_ANGLE_PATH_LLAMA_CPP, GYRE_ANGLE_PATH_TENSORRT_LLM};
    for (int i = gyre_torch_math_available() ? 0 : 1; i < 3; i++) {
        gyre_error err;
        gyre_encoding *e = NULL;
        gyre_config config = test_rope_config(64, GYRE_LAYOUT_HALF);
        config.rope.angles = paths[i];
        config.rope.clip = (struct gyre_clip_config){GYRE_CLIP_SOFT, 4};
        assert_int_equal(gyre_encoding_create(&e, &config, NULL, &err), GYRE_EUNSUPPORTED);
        if (!strstr(err.text, "has no clipped pairs (rope.clip.mode)")) fail_msg("%s", err.text);
    }
}

/* The pairs of a wide head are computed in chunks, whose angles go on from pair to pair. */
static void wide_heads_as_llama_cpp(void **state) {
    enum { WIDE = 2050, PAIRS = WIDE / 2, ROWS = 3 };
    static float c[ROWS * PAIRS], s[ROWS * PAIRS];
    (void)state;
    gyre_config config = test_rope_config(WIDE, GYRE_LAYOUT_HALF);
    config.rope.base = 10000;
    config.rope.angles = GYRE_ANGLE_PATH_LLAMA_CPP;
    gyre_encoding *e = test_encoding(&config);
    const gyre_view cosine = gyre_dense(c, GYRE_DTYPE_F32, 1, ROWS, 1, PAIRS),
                    sine = gyre_dense(s, GYRE_DTYPE_F32, 1, ROWS, 1, PAIRS);
    const gyre_positions at = {.base = 1234};
    assert_ok(gyre_cos_sin(e, &at, &cosine, &sine, NULL, NULL));
    const float step = powf(10000, -2.0f / WIDE);
    for (int row = 0; row < ROWS; row++) {
        float theta = (float)(1234 + row);
        for (int i = 0; i < PAIRS; i++, theta *= step)
            if (c[row * PAIRS + i] != cosf(theta) || s[row * PAIRS + i] != sinf(theta))
                fail_msg("row %d, pair %d: %.9g, %.9g", row, i, (double)c[row * PAIRS + i], (double)s[row * PAIRS + i]);
    }
    gyre_encoding_free(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wide_heads_as_llama_cpp),
        cmocka_unit_test(rows_match_torch),
        cmocka_unit_test(refused_for_a_clip),
        cmocka_unit_test(exact_rows_differ),
        cmocka_unit_test(refused_without_torch_support),
        cmocka_unit_test(tables_match_vllm),
        cmocka_unit_test(divided_positions_have_scaled_frequencies),
        cmocka_unit_test(rows_match_llama_cpp),
        cmocka_unit_test(refused_without_llama_cpp_support),
        cmocka_unit_test(rows_match_numpy),
        cmocka_unit_test(refused_without_tensorrt_llm_support),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
