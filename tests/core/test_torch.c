/* test_torch.c: the angle paths of programs, bit for bit: GYRE_ANGLE_PATH_TORCH against values computed by PyTorch
 * (tests/reference/torch_rows.py), GYRE_ANGLE_PATH_LLAMA_CPP against those of ggml (llama_cpp_rows.c),
 * GYRE_ANGLE_PATH_TENSORRT_LLM against those of NumPy (numpy_rows.py). */
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
    config.rope.context_length = (int64_t)test_number_or(c, "length", 0);
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
    const gyre_positions at = {NULL, GYRE_DTYPE_I64, position, 0, 0, 0, 0};
    const gyre_cview in = gyre_cdense(x, GYRE_DTYPE_F32, 1, 1, 1, (int64_t)(2 * pairs));
    const gyre_view out = gyre_dense(y, GYRE_DTYPE_F32, 1, 1, 1, (int64_t)(2 * pairs));
    assert_ok(gyre_rotate(e, GYRE_DIRECTION_FORWARD, GYRE_ROLE_KEY, &at, &in, &out, NULL, NULL));
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

/* The table of a 16-bit model: PyTorch's rows, rounded. */
static void tables_are_rounded(void **state) {
    (void)state;
    if (!gyre_torch_math_available()) skip();
    gyre_config config = test_rope_config(64, GYRE_LAYOUT_HALF);
    float c[MOST], s[MOST], rounded_c[MOST], rounded_s[MOST];
    for (int type = 0; type < 2; type++) {
        config.rope.angles = GYRE_ANGLE_PATH_TORCH;
        gyre_encoding *torch = test_encoding(&config);
        config.rope.angles = type ? GYRE_ANGLE_PATH_TORCH_F16 : GYRE_ANGLE_PATH_TORCH_BF16;
        gyre_encoding *rounded = test_encoding(&config);
        int changed = 0;
        for (int64_t position = 1; position < 40000; position += 4999) {
            cos_sin_at(torch, position, 32, c, s);
            cos_sin_at(rounded, position, 32, rounded_c, rounded_s);
            for (int i = 0; i < 32; i++) {
                const float want = type ? gyre_f16_to_f32(gyre_f32_to_f16(c[i])) : gyre_bf16_to_f32(gyre_f32_to_bf16(c[i]));
                assert_true(rounded_c[i] == want && fabsf(rounded_s[i] - s[i]) <= ldexpf(1, type ? -12 : -9));
                changed += rounded_c[i] != c[i];
            }
        }
        assert_true(changed > 100);
        gyre_encoding_free(torch);
        gyre_encoding_free(rounded);
    }
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
    assert_non_null(strstr(err.text, "rope.angles: llama.cpp has no such scaling"));
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
    assert_non_null(strstr(err.text, "rope.angles: TensorRT-LLM's are known without scaling"));
}

static void refused_without_torch_support(void **state) {
    (void)state;
    gyre_error err;
    gyre_encoding *e = NULL;
    gyre_config config = test_rope_config(64, GYRE_LAYOUT_HALF);
    config.rope.angles = (gyre_angle_path)6;
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
        config.clip = (struct gyre_clip_config){GYRE_CLIP_SOFT, 4};
        assert_int_equal(gyre_encoding_create(&e, &config, NULL, &err), GYRE_EUNSUPPORTED);
        if (!strstr(err.text, "has no clipped pairs (clip.mode)")) fail_msg("%s", err.text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_match_torch),
        cmocka_unit_test(refused_for_a_clip),
        cmocka_unit_test(exact_rows_differ),
        cmocka_unit_test(refused_without_torch_support),
        cmocka_unit_test(tables_are_rounded),
        cmocka_unit_test(rows_match_llama_cpp),
        cmocka_unit_test(refused_without_llama_cpp_support),
        cmocka_unit_test(rows_match_numpy),
        cmocka_unit_test(refused_without_tensorrt_llm_support),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
