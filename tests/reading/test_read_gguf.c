/* test_read_gguf.c: the rotation of the layers of a GGUF file, as llama.cpp and as the papers read it. Expected values: the
 * reference file, llama.cpp's formulas in long double, and numbers published by its users and authors. */
#include "make_gguf_models.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* -- no scaling, linear -- */
static void applies_defaults_of_llama_cpp(void **state) {
    (void)state;
    gyre_reading *reading = read_made(model("llama", 128, 4096, 3));
    const gyre_layer_reading *all = reading->groups[0];
    assert_string_equal(reading->format, "GGUF");
    assert_string_equal(reading->model_type, "llama");
    assert_int_equal(reading->groups_count, 1);
    assert_string_equal(all->name, "all");
    assert_int_equal(all->layers_count, 3);
    assert_true(all->config.kind == GYRE_KIND_ROPE && all->config.rope.layout == GYRE_LAYOUT_INTERLEAVED);
    assert_true(all->config.rope.scaling == GYRE_SCALING_NONE && all->config.trained_length == 4096);
    assert_true(all->scale == 0 && all->softmax_multiplier == 1 && all->window == 0);
    check_reference(all, "llama-2-7b", 0, 1e-12);
    check_field(all, "encoding", "rope", GYRE_ORIGIN_FAMILY);
    check_field(all, "layout", "interleaved", GYRE_ORIGIN_FAMILY);
    check_field(all, "head_dim", "128", GYRE_ORIGIN_DERIVED);
    check_field(all, "rotary_dim", "128", GYRE_ORIGIN_READER);
    check_field(all, "base", "10000", GYRE_ORIGIN_READER);
    check_field(all, "scaling", "default", GYRE_ORIGIN_READER);
    check_field(all, "factor", "1", GYRE_ORIGIN_READER);
    check_field(all, "trained_length", "4096", GYRE_ORIGIN_FILE);
    check_field(all, "original_length", "4096", GYRE_ORIGIN_DERIVED);
    check_field(all, "attention_factor", "1", GYRE_ORIGIN_READER);
    assert_int_equal(reading->warnings_count, 0);
    gyre_reading_free(reading);
}

static void missing_scaling_type_is_linear(void **state) {
    (void)state;
    made_gguf *made = model("llama", 128, 16384, 1);
    real_of(made, "llama", "rope.scaling.factor", 4);
    gyre_reading *reading = read_made(made);
    const gyre_layer_reading *all = reading->groups[0];
    assert_true(all->config.rope.scaling == GYRE_SCALING_LINEAR && all->config.rope.factor == 4);
    check_reference(all, "linear x4", 0, 1e-12);
    check_field(all, "scaling", "linear", GYRE_ORIGIN_READER);
    check_field(all, "factor", "4", GYRE_ORIGIN_FILE);
    assert_string_equal(field_of(all, "factor")->key, "llama.rope.scaling.factor");
    gyre_reading_free(reading);

    made = model("llama", 128, 16384, 1);
    real_of(made, "llama", "rope.scale_linear", 4); /* the older name */
    reading = read_made(made);
    check_reference(reading->groups[0], "linear x4", 0, 1e-12);
    gyre_reading_free(reading);
}

static void factor_0_is_1_and_missing_is_none(void **state) {
    (void)state;
    made_gguf *made = model("qwen2", 64, 4096, 1);
    real_of(made, "qwen2", "rope.scaling.factor", 0);
    gyre_reading *reading = read_made(made);
    assert_true(reading->groups[0]->config.rope.scaling == GYRE_SCALING_NONE);
    assert_true(reading->groups[0]->config.rope.layout == GYRE_LAYOUT_HALF);
    gyre_reading_free(reading);

    made = model("qwen2", 64, 4096, 1);
    word_of(made, "qwen2", "rope.scaling.type", "none");
    real_of(made, "qwen2", "rope.scaling.factor", 8);
    reading = read_made(made);
    assert_true(reading->groups[0]->config.rope.scaling == GYRE_SCALING_NONE);
    assert_non_null(find_warning(reading, "8 is ignored"));
    gyre_reading_free(reading);
}

/* A factor below 1 is no position interpolation, but llama.cpp divides by it all the same. */
static void factors_below_1_divide(void **state) {
    (void)state;
    const ggml c = {.base = 10000, .s = 0.5, .dim = 64};
    made_gguf *made = model("qwen2", 64, 4096, 1);
    real_of(made, "qwen2", "rope.scaling.factor", 0.5f);
    gyre_reading *reading = read_made(made);
    check_ggml(reading->groups[0], &c, NULL);
    assert_non_null(find_warning(reading, "below 1"));
    gyre_reading_free(reading);
}

/* -- YaRN -- */

static void computes_yarn(void **state) {
    (void)state;
    gyre_reading *reading = read_made(yarn("llama", 128, 10000, 16, 4096));
    const gyre_layer_reading *all = reading->groups[0];
    assert_true(all->config.rope.scaling == GYRE_SCALING_YARN && all->config.trained_length == 4096);
    check_reference(all, "yarn llama-2 x16", 0, 1e-12);
    check_field(all, "scaling", "yarn", GYRE_ORIGIN_FILE);
    check_field(all, "original_length", "4096", GYRE_ORIGIN_FILE);
    check_field(all, "trained_length", "4096", GYRE_ORIGIN_FILE); /* the original length of the scaling */
    check_field(all, "max_length", "65536", GYRE_ORIGIN_FILE);
    check_field(all, "beta_fast", "32", GYRE_ORIGIN_READER);
    check_field(all, "truncate", "true", GYRE_ORIGIN_READER);
    assert_non_null(
        find_warning(reading, "every context shift multiplies all cached keys by the attention factor, 1.27726"));
    gyre_reading_free(reading);
    reading = read_meant(yarn("qwen2", 128, 1e6f, 4, 32768));
    check_reference(reading->groups[0], "yarn qwen2.5 x4", 0, 1e-12);
    assert_null(find_warning(reading, "shift"));
    gyre_reading_free(reading);
}

static double attention_of(made_gguf *made, double *multiplier) {
    double out[MOST_PAIRS];
    gyre_reading *reading = read_made(made);
    const double factor = frequencies(reading->groups[0], 0, out);
    if (multiplier) *multiplier = reading->groups[0]->softmax_multiplier;
    gyre_reading_free(reading);
    return factor;
}

static void multiplies_the_attention_factor(void **state) {
    (void)state;
    const double g16 = 1.2772588722;
    made_gguf *made = yarn("llama", 128, 10000, 16, 4096);
    real_of(made, "llama", "rope.scaling.attn_factor", 0.5f);
    test_close(attention_of(made, NULL), g16 / 2, 1e-10, "attn_factor of YaRN");
    made = model("llama", 128, 4096, 1);
    real_of(made, "llama", "rope.scaling.attn_factor", 1.25f); /* without YaRN it applies alone */
    test_close(attention_of(made, NULL), 1.25, 0, "attn_factor alone");
    /* Devstral Small 2: factor 48, multiplier 1: g(s, 1) / g(s, 1). */
    made = yarn("mistral3", 128, 1e8f, 48, 8192);
    real_of(made, "mistral3", "rope.scaling.yarn_log_multiplier", 1);
    test_close(attention_of(made, NULL), 1, 1e-15, "a ratio of 1");
    made = yarn("mistral3", 128, 1e8f, 16, 8192);
    real_of(made, "mistral3", "rope.scaling.yarn_log_multiplier", 0.5f);
    test_close(attention_of(made, NULL), g16 / (1 + (g16 - 1) / 2), 1e-10, "g(s, 1) / g(s, 1/2)");
    /* No reader uses it for a llama. */
    made = yarn("llama", 128, 10000, 16, 4096);
    real_of(made, "llama", "rope.scaling.yarn_log_multiplier", 0.5f);
    test_close(attention_of(made, NULL), g16, 1e-10, "no multiplier");
}

static made_gguf *deepseek(float tenth_of_mscale) {
    made_gguf *made = yarn("deepseek2", 128, 10000, 40, 4096);
    size_of(made, "deepseek2", "attention.key_length", 576);
    size_of(made, "deepseek2", "attention.key_length_mla", 192);
    size_of(made, "deepseek2", "rope.dimension_count", 64);
    real_of(made, "deepseek2", "rope.scaling.yarn_log_multiplier", tenth_of_mscale);
    return made;
}

/* DeepSeek's files contain a tenth of mscale_all_dim. Its square multiplies the scores; the rotation has no factor. */
static void scales_latent_attention(void **state) {
    (void)state;
    double multiplier = 0;
    test_close(attention_of(deepseek(0.0707f), &multiplier), 1, 1e-15, "V2-Lite's rotation");
    test_close(multiplier, 1.5896261651, 2e-7, "V2-Lite's scores");
    test_close(attention_of(deepseek(0.1f), &multiplier), 1, 1e-15, "V3's rotation");
    test_close(multiplier, 1.8738542071, 2e-7, "V3's scores");
    gyre_reading *reading = read_made(deepseek(0.1f));
    const gyre_layer_reading *all = reading->groups[0];
    assert_true(all->config.head_dim == 192 && all->config.rope.dim == 64 && all->config.rope.first_channel == 128);
    assert_true(all->config.rope.layout == GYRE_LAYOUT_INTERLEAVED);
    test_close(all->scale, all->softmax_multiplier / sqrt(192), 1e-15, "scale");
    check_reference(all, "yarn deepseek mscale", 0, 1e-12);
    assert_null(find_warning(reading, "shift"));
    gyre_reading_free(reading);
}

static made_gguf *overridden(const char *arch) {
    made_gguf *made = yarn(arch, 64, 10000, 8, 4096);
    real_of(made, arch, "rope.scaling.yarn_beta_fast", 2);
    real_of(made, arch, "rope.scaling.yarn_ext_factor", 0.5f);
    return made;
}

/* The converter writes them for every model. Two architectures read some of them. */
static void reads_overrides_where_llama_cpp_does(void **state) {
    (void)state;
    const ggml plain = {10000, 8, 1, 32, 1, 4096, 64}, fast = {10000, 8, 1, 2, 1, 4096, 64},
               half = {10000, 8, 0.5, 2, 1, 4096, 64};
    gyre_reading *reading = read_made(overridden("llama"));
    check_ggml(reading->groups[0], &plain, NULL);
    assert_non_null(find_warning(reading, "yarn_beta_fast: 2 is not read: llama.cpp has 32 for a llama"));
    assert_non_null(find_warning(reading, "yarn_ext_factor: 0.5 is not read"));
    gyre_reading_free(reading);
    reading = read_made(overridden("mistral3"));
    check_ggml(reading->groups[0], &fast, NULL);
    check_field(reading->groups[0], "beta_fast", "2", GYRE_ORIGIN_FILE);
    assert_null(find_warning(reading, "yarn_beta_fast"));
    assert_non_null(find_warning(reading, "yarn_ext_factor"));
    gyre_reading_free(reading);
    reading = read_made(overridden("grok"));
    check_ggml(reading->groups[0], &half, NULL);
    assert_true(reading->groups[0]->config.rope.scaling == GYRE_SCALING_LONGROPE);
    check_field(reading->groups[0], "scaling", "yarn", GYRE_ORIGIN_FILE);
    check_field(reading->groups[0], "yarn_ext_factor", "0.5", GYRE_ORIGIN_FILE);
    assert_null(find_warning(reading, "is not read"));
    gyre_reading_free(reading);
    reading = read_meant(overridden("llama"));
    check_ggml(reading->groups[0], &half, NULL);
    gyre_reading_free(reading);
}

/* In a context too short for 32 revolutions of any pair, the ramp begins with the first pair. */
static void ramp_starts_at_the_first_pair(void **state) {
    (void)state;
    made_gguf *made = yarn("grok", 64, 10000, 8, 64);
    real_of(made, "grok", "rope.scaling.yarn_ext_factor", 0.5f);
    real_of(made, "grok", "rope.scaling.yarn_beta_fast", 32);
    gyre_reading *reading = read_made(made);
    check_ggml(reading->groups[0], &(ggml){10000, 8, 0.5, 32, 1, 64, 64}, NULL);
    gyre_reading_free(reading);
}

/* Betas in the wrong order: a step, where the ramp of transformers is inverted. */
static void inverted_ramp_is_a_step(void **state) {
    (void)state;
    const ggml c = {10000, 8, 1, 1, 32, 4096, 64};
    made_gguf *made = yarn("mistral3", 64, 10000, 8, 4096);
    real_of(made, "mistral3", "rope.scaling.yarn_beta_fast", 1);
    real_of(made, "mistral3", "rope.scaling.yarn_beta_slow", 32);
    gyre_reading *reading = read_made(made);
    check_ggml(reading->groups[0], &c, NULL);
    gyre_reading_free(reading);
}

/* gpt-oss: with its ramp rounded, pair 17 rotates 1.76 times too fast, 16 1.27, 15 1.15, 14 1.09, 13 1.05. */
static void ramp_bounds_are_always_rounded(void **state) {
    (void)state;
    double got[MOST_PAIRS], meant[MOST_PAIRS];
    static const double published[] = {1.05, 1.09, 1.15, 1.27, 1.76};
    gyre_reading *reading = read_made(yarn("gpt-oss", 64, 150000, 32, 4096));
    gyre_reading *reference = read_meant(yarn("gpt-oss", 64, 150000, 32, 4096));
    (void)frequencies(reading->groups[0], 0, got);
    (void)frequencies(reference->groups[0], 0, meant);
    check_reference(reference->groups[0], "yarn no truncate", 0, 1e-12);
    for (int i = 13; i <= 17; i++)
        test_close(got[i] / meant[i], published[i - 13], 0.005, "too fast by");
    assert_non_null(find_warning(reading, "without rounded ends"));
    assert_null(find_warning(reference, "without rounded ends"));
    gyre_reading_free(reading);
    gyre_reading_free(reference);
}

/* -- small tensors -- */
/* Llama 3.1's scaling as its converter stores it. */
static void divides_by_rope_freqs(void **state) {
    (void)state;
    float divisors[64];
    for (int i = 0; i < 64; i++) {
        const double theta = pow(500000, -2.0 * i / 128), wavelength = 2 * 3.14159265358979323846 / theta;
        const double smooth = (8192 / wavelength - 1) / (4 - 1);
        divisors[i] = wavelength < 8192.0 / 4 ? 1 : wavelength > 8192 ? 8 : (float)(1 / ((1 - smooth) / 8 + smooth));
    }
    made_gguf *made = model("llama", 128, 131072, 2);
    real_of(made, "llama", "rope.freq_base", 500000);
    made_tensor(made, "rope_freqs.weight", divisors, 64);
    gyre_reading *reading = read_made(made);
    const gyre_layer_reading *all = reading->groups[0];
    check_ggml(all, &(ggml){.base = 500000, .s = 1, .dim = 128}, divisors);
    check_reference(all, "llama-3.1", 0, 1e-7); /* floats */
    assert_true(all->config.trained_length == 131072);
    check_field(all, "scaling", "rope_freqs", GYRE_ORIGIN_FILE);
    assert_string_equal(field_of(all, "scaling")->key, "rope_freqs.weight");
    gyre_reading_free(reading);
}

static void divides_by_rope_freqs_and_a_factor(void **state) {
    (void)state;
    static const float divisors[4] = {1, 2, 3.5f, 8};
    for (int ext = 0; ext <= 1; ext++) {
        const ggml c = {10000, 8, ext, 32, 1, 4096, 8};
        made_gguf *made = yarn("qwen2", 8, 10000, 8, 4096);
        if (!ext) { /* the same without its type: linear */
            free(made);
            made = model("qwen2", 8, 4096, 1);
            real_of(made, "qwen2", "rope.scaling.factor", 8);
        }
        made_tensor(made, "rope_freqs.weight", divisors, 4);
        gyre_reading *reading = read_made(made);
        check_ggml(reading->groups[0], &c, divisors);
        gyre_reading_free(reading);
    }
}

static made_gguf *phi3(int attn_factor) {
    float before[48], after[48];
    for (int i = 0; i < 48; i++) {
        before[i] = (float)(1 + 0.02 * i);
        after[i] = (float)(1 + 1.3 * i);
    }
    made_gguf *made = model("phi3", 96, 131072, 2);
    size_of(made, "phi3", "rope.scaling.original_context_length", 4096);
    if (attn_factor) real_of(made, "phi3", "rope.scaling.attn_factor", 1.1902380714f);
    made_tensor(made, "rope_factors_long.weight", after, 48);
    made_tensor(made, "rope_factors_short.weight", before, 48);
    return made;
}

static void check_phi3(int64_t allocated, const char *same_as) {
    made_gguf *made = phi3(1);
    gyre_reading *reading = read_gguf_as(made, GYRE_PROFILE_LLAMA_CPP, allocated);
    for (int64_t n = 1; n < 20000; n += 5000) /* at every current length */
        check_reference(reading->groups[0], same_as, n, 1e-7);
    assert_non_null(find_warning(reading, strstr(same_as, "4097") ? "the long one" : "the short one"));
    assert_true(reading->groups[0]->config.trained_length == 4096);
    assert_true(reading->groups[0]->config.context_length == allocated && reading->context_length == allocated);
    check_field(reading->groups[0], "scaling", "longrope", GYRE_ORIGIN_FILE);
    gyre_reading_free(reading);
    free(made);
}

static void longrope_list_by_allocated_context(void **state) {
    (void)state;
    check_phi3(4096, "longrope at 4096");
    check_phi3(4000, "longrope at 4096");
    check_phi3(4097, "longrope at 4097");
    check_phi3(0, "longrope at 4097"); /* the whole context of the model */
}

static void longrope_list_by_length_under_reference(void **state) {
    (void)state;
    for (int given = 0; given <= 1; given++) { /* the factor of the paper is what the file gives */
        gyre_reading *reading = read_meant(phi3(given));
        check_reference(reading->groups[0], "longrope at 4096", 4096, 1e-7);
        check_reference(reading->groups[0], "longrope at 4097", 4097, 1e-7);
        gyre_reading_free(reading);
    }
    made_gguf *made = phi3(0); /* llama.cpp has no formula for it */
    gyre_reading *reading = read_gguf_as(made, GYRE_PROFILE_LLAMA_CPP, 0);
    check_field(reading->groups[0], "attention_factor", "1", GYRE_ORIGIN_READER);
    gyre_reading_free(reading);
    free(made);
}

/* -- refusals -- */
static void check_refused(made_gguf *made, gyre_profile profile, gyre_status status, const char *text) {
    gyre_reading *reading = NULL;
    gyre_error err = {0, ""};
    made_finish(made);
    assert_int_equal(gyre_reading_parse(&reading, made->file, made->file_bytes,
                                        GYRE_ARGS(gyre_reading_options, .profile = profile, .name = "a.gguf"), &err),
                     status);
    assert_null(reading);
    if (!strstr(err.text, text)) fail_msg("'%s' does not say '%s'", err.text, text);
    free(made);
}

static made_gguf *with_real(const char *suffix, float x) {
    made_gguf *made = model("llama", 128, 4096, 2);
    real_of(made, "llama", suffix, x);
    return made;
}
static made_gguf *with_size(const char *suffix, uint32_t x) {
    made_gguf *made = model("llama", 128, 4096, 2);
    size_of(made, "llama", suffix, x);
    return made;
}
static made_gguf *with_word(const char *suffix, const char *word) {
    made_gguf *made = model("llama", 128, 4096, 2);
    word_of(made, "llama", suffix, word);
    return made;
}
static made_gguf *with_divisors(const char *arch, float last, uint64_t count) {
    float divisors[64];
    made_gguf *made = model(arch, 128, 4096, 2);
    for (int i = 0; i < 64; i++)
        divisors[i] = 1;
    divisors[count - 1] = last;
    made_tensor(made, "rope_freqs.weight", divisors, count);
    return made;
}

static made_gguf *with_two(const char *arch, const char *suffix, int32_t a, int32_t b) {
    const int32_t both[2] = {a, b};
    char key[100];
    made_gguf *made = model(arch, 128, 4096, 2);
    snprintf(key, sizeof key, "%s.%s", arch, suffix);
    made_i32s(made, key, both, 2);
    return made;
}

/* Only the number of heads differs between layers in existing files. For other sizes the largest would be a wrong answer. */
static void refuses_unexpected_arrays(void **state) {
    (void)state;
    const gyre_profile p = GYRE_PROFILE_LLAMA_CPP;
    check_refused(with_two("llama", "attention.key_length", 64, 128), p, GYRE_EUNSUPPORTED,
                  "llama.attention.key_length: 64 and 128: no program reads different numbers for layers");
    check_refused(with_two("llama", "rope.dimension_count", 128, 64), p, GYRE_EUNSUPPORTED,
                  "rope.dimension_count: 128 and 64");
    check_refused(with_two("llama", "attention.key_length", 0, 0), p, GYRE_EFORMAT, "key_length: 0 is not from 1 to 2^53");
    made_gguf *made = model("llama", 128, 4096, 2);
    made_array(made, "llama.attention.key_length", MADE_U8, 65537);
    for (int i = 0; i < 65537; i++)
        made_number(made->kvs, &made->kvs_bytes, 128, 1);
    check_refused(made, p, GYRE_EFORMAT, "key_length: an array of 65537 elements for fewer layers");
    check_refused(with_word("attention.key_length", ""), p, GYRE_EFORMAT, "key_length: not a whole number");
    made = with_two("llama", "attention.key_length", 128, 128);
    gyre_reading *reading = read_made(made);
    assert_int_equal(reading->groups[0]->config.head_dim, 128);
    gyre_reading_free(reading);
}

/* In a config, an attention factor of 0 means that none is given. */
static void refuses_attention_factor_0(void **state) {
    (void)state;
    const gyre_profile p = GYRE_PROFILE_LLAMA_CPP;
    check_refused(with_real("rope.scaling.attn_factor", 0), p, GYRE_EFORMAT,
                  "llama.rope.scaling.attn_factor: makes an attention factor of 0 (a.gguf, byte ");
    check_refused(with_real("rope.scaling.attn_factor", -1), p, GYRE_EFORMAT,
                  "attn_factor: makes an attention factor of -1");
    made_gguf *made = yarn("llama", 128, 10000, 4, 1024);
    real_of(made, "llama", "rope.scaling.attn_factor", 0);
    check_refused(made, p, GYRE_EFORMAT, "attn_factor: makes an attention factor of 0");
    made = with_divisors("llama", 2, 64);
    real_of(made, "llama", "rope.scaling.attn_factor", 0);
    check_refused(made, GYRE_PROFILE_REFERENCE, GYRE_EFORMAT, "attn_factor: makes an attention factor of 0");
    made = yarn("mistral3", 128, 10000, 4, 1024); /* g(4, m) below 0 */
    real_of(made, "mistral3", "rope.scaling.yarn_log_multiplier", -10);
    check_refused(made, p, GYRE_EFORMAT, "mistral3.rope.scaling.yarn_log_multiplier: makes an attention factor of -");
    made = yarn("deepseek2", 128, 10000, 4, 1024);
    real_of(made, "deepseek2", "rope.scaling.yarn_log_multiplier", 1e30f);
    check_refused(made, p, GYRE_EFORMAT, "yarn_log_multiplier: multiplies scores by");
}

/* A few hundred bytes must not request gigabytes of memory or hours of work. */
static void refuses_impossible_sizes(void **state) {
    (void)state;
    made_gguf *made = made_begin(3);
    made_string(made, "general.architecture", "bloom");
    size_of(made, "bloom", "context_length", 2048);
    size_of(made, "bloom", "attention.head_count", 1000000000);
    check_refused(made, GYRE_PROFILE_LLAMA_CPP, GYRE_EFORMAT,
                  "bloom.attention.head_count: more than 65536 heads (a.gguf, byte ");
    static const char far[] = "{\"model_type\": \"nezha\", \"num_attention_heads\": 12, \"hidden_size\": 768, "
                              "\"max_position_embeddings\": 512, \"max_relative_position\": 4000000}";
    gyre_reading *reading = NULL;
    gyre_error err = {0, ""};
    assert_int_equal(gyre_reading_parse(&reading, far, sizeof far - 1,
                                        GYRE_ARGS(gyre_reading_options, .profile = GYRE_PROFILE_REFERENCE), &err),
                     GYRE_EFORMAT);
    if (!strstr(err.text, "would take more than 64 MiB")) fail_msg("%s", err.text);
}

static void errors_name_key_and_offset(void **state) {
    (void)state;
    const gyre_profile p = GYRE_PROFILE_LLAMA_CPP;
    check_refused(with_real("rope.freq_base", 1), p, GYRE_EFORMAT, "llama.rope.freq_base: 1 is not above 1 (a.gguf, byte ");
    check_refused(with_real("rope.freq_base", NAN), p, GYRE_EFORMAT, "llama.rope.freq_base: not a finite number");
    check_refused(with_word("rope.freq_base", "x"), p, GYRE_EFORMAT, "llama.rope.freq_base: not a finite number");
    check_refused(with_real("rope.scaling.factor", -2), p, GYRE_EFORMAT, "llama.rope.scaling.factor: -2 is below 0");
    check_refused(with_word("rope.scaling.type", "dynamic"), p, GYRE_EUNSUPPORTED, "\"dynamic\" is not one of none, linear");
    check_refused(with_size("rope.scaling.type", 2), p, GYRE_EFORMAT, "rope.scaling.type: a uint32, no word");
    check_refused(with_size("rope.dimension_count", 130), p, GYRE_EFORMAT, "130 channels are not pairs of a head of 128");
    check_refused(with_size("rope.dimension_count", 63), p, GYRE_EFORMAT, "63 channels");
    check_refused(with_size("rope.dimension_count", 64), p, GYRE_EUNSUPPORTED, "llama.cpp refuses that of a llama");
    check_refused(with_size("attention.key_length", 0), p, GYRE_EFORMAT, "0 is not from 1 to 2^53");
    check_refused(with_size("attention.key_length", 1u << 30), p, GYRE_EFORMAT, "more than 1048576 channels");
    check_refused(with_real("rope.scaling.original_context_length", 0.5f), p, GYRE_EFORMAT, "not a whole number");
    check_refused(with_divisors("llama", 0, 64), p, GYRE_EFORMAT,
                  "rope_freqs.weight: element 63, 0, is not a divisor (a.gguf, byte ");
    check_refused(with_divisors("llama", INFINITY, 64), p, GYRE_EFORMAT, "element 63, inf, is not a divisor");
    check_refused(with_divisors("llama", 1, 63), p, GYRE_EFORMAT, "rope_freqs.weight: not 64 floats");
    check_refused(several("qwen2vl", (const int32_t[]){16, 24, 23}, 3), p, GYRE_EUNSUPPORTED,
                  "63 pairs in all, but 64 rotate");
    check_refused(several("qwen2vl", (const int32_t[]){-1, 24, 24}, 3), p, GYRE_EFORMAT,
                  "section 0 is not a number of pairs");
    check_refused(model("qwen3vl", 128, 4096, 2), p, GYRE_EFORMAT, "rope.dimension_sections: missing");
    check_refused(several("qwen3vl", (const int32_t[]){16, 24, 24}, 3), p, GYRE_EUNSUPPORTED,
                  "rope.dimension_sections: section 1: it takes every third of 64 pairs, which is fewer than 24");
    made_gguf *cold = model("mistral3", 128, 4096, 2);
    real_of(cold, "mistral3", "attention.temperature_scale", -1);
    check_refused(cold, p, GYRE_EFORMAT, "mistral3.attention.temperature_scale: -1 is below 0 (a.gguf, byte ");
    made_gguf *words = model("gemma3", 128, 4096, 2);
    size_of(words, "gemma3", "attention.sliding_window", 512);
    made_words(words, "gemma3.attention.sliding_window_pattern", 2);
    check_refused(words, p, GYRE_EFORMAT, "sliding_window_pattern: element 0 is not a whole number");
    check_refused(model("t5", 64, 4096, 2), p, GYRE_EFORMAT, "t5.attention.relative_buckets_count: missing");
    check_refused(model("llama", 128, 4096, 1u << 20), p, GYRE_EFORMAT, "llama.block_count: more than 65536 layers");
    check_refused(model("llama", 128, 4096, 2), GYRE_PROFILE_VLLM, GYRE_EUNSUPPORTED,
                  "vllm-2026.09 does not read it; llama.cpp and reference do");
    check_refused(made_begin(3), p, GYRE_EFORMAT, "general.architecture: missing");
    made_gguf *made = made_begin(3);
    made_string(made, "general.architecture", "llama");
    check_refused(made, p, GYRE_EFORMAT, "llama.context_length: missing");
    made = made_begin(3);
    made_string(made, "general.architecture", "a b");
    check_refused(made, p, GYRE_EFORMAT, "general.architecture: character 1");
}

static void reads_unknown_architectures_with_rope(void **state) {
    (void)state;
    check_refused(model("novel", 128, 4096, 2), GYRE_PROFILE_DEFAULT, GYRE_EUNSUPPORTED,
                  "\"novel\" is not known, and there is no key novel.rope.*");
    made_gguf *made = model("novel", 128, 4096, 2);
    real_of(made, "novel", "rope.freq_base", 500000);
    gyre_reading *reading = read_made(made);
    assert_true(reading->groups[0]->config.rope.layout == GYRE_LAYOUT_INTERLEAVED);
    assert_non_null(find_warning(reading, "\"novel\" is not known"));
    check_ggml(reading->groups[0], &(ggml){.base = 500000, .s = 1, .dim = 128}, NULL);
    gyre_reading_free(reading);
}

static void reads_or_refuses_at_every_length(void **state) {
    (void)state;
    made_gguf *made = phi3(1);
    made_finish(made);
    for (size_t size = 0; size <= made->file_bytes; size++) {
        unsigned char *bytes = made_copy(made, size);
        gyre_reading *reading = NULL;
        gyre_error err = {0, ""};
        const gyre_status status = gyre_reading_parse(
            &reading, bytes, size, GYRE_ARGS(gyre_reading_options, .profile = GYRE_PROFILE_LLAMA_CPP), &err);
        assert_int_equal(status, size == made->file_bytes ? GYRE_OK : GYRE_EFORMAT);
        gyre_reading_free(reading);
        free(bytes);
    }
    free(made);
}

/* -- a file of 10 GB -- */
static void put_large(FILE *file, const made_gguf *made, uint64_t bytes) {
    assert_int_equal(fwrite(made->file, 1, made->file_bytes, file), made->file_bytes);
    assert_int_equal(fflush(file), 0);
    assert_int_equal(ftruncate(fileno(file), (off_t)bytes), 0);
}

/* In a process of its own, whose high-water mark does not include earlier tests. */
static void read_in_little_memory(const char *path) {
    struct rusage before, after;
    struct timespec start, end;
    gyre_reading *reading = NULL;
    gyre_error err = {0, ""};
    getrusage(RUSAGE_SELF, &before);
    clock_gettime(CLOCK_MONOTONIC, &start);
    const gyre_status status = gyre_reading_open(&reading, path, NULL, &err);
    clock_gettime(CLOCK_MONOTONIC, &end);
    getrusage(RUSAGE_SELF, &after);
    const long grown = after.ru_maxrss - before.ru_maxrss;
    printf("read in %.3f ms, %ld KiB more %s\n",
           1e3 * (double)(end.tv_sec - start.tv_sec) + 1e-6 * (double)(end.tv_nsec - start.tv_nsec), grown, err.text);
    fflush(stdout);
    gyre_reading_free(reading);
    _exit(status == GYRE_OK && grown < 20 * 1024 ? 0 : 1);
}

static void needs_little_memory_for_a_file_of_10_gb(void **state) {
    (void)state;
    char path[] = "/tmp/gyre-gguf-XXXXXX";
    const uint64_t each = (uint64_t)1 << 30;
    const int descriptor = mkstemp(path);
    assert_true(descriptor >= 0);
    FILE *file = fdopen(descriptor, "wb");
    made_gguf *made = yarn("llama", 128, 10000, 16, 4096);
    made_words(made, "tokenizer.ggml.merges", 150000);
    for (uint64_t i = 0; i < 10; i++) {
        char name[20];
        snprintf(name, sizeof name, "blk.%d.weight", (int)i);
        made_info(made, name, 2, (const uint64_t[]){1 << 14, 1 << 14}, 0, i * each);
    }
    made_finish(made);
    put_large(file, made, made->data_at + 10 * each);
    int ended = -1;
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) read_in_little_memory(path);
    assert_true(child > 0 && waitpid(child, &ended, 0) == child);
    assert_int_equal(ended, 0);
    gyre_reading *reading = NULL;
    gyre_error err = {0, ""};
    assert_ok(gyre_reading_open(&reading, path, NULL, &err));
    check_reference(reading->groups[0], "yarn llama-2 x16", 0, 1e-12);
    assert_true(reading->profile == GYRE_PROFILE_LLAMA_CPP);
    const int64_t warnings = reading->warnings_count;
    gyre_reading_free(reading);
    assert_int_equal(ftruncate(fileno(file), (off_t)(made->data_at + 10 * each - 1)), 0);
    /* Cut within a tensor it has the same keys, and a warning. */
    assert_ok(gyre_reading_open(&reading, path, NULL, &err));
    check_reference(reading->groups[0], "yarn llama-2 x16", 0, 1e-12);
    assert_int_equal(reading->warnings_count, warnings + 1);
    assert_non_null(strstr(reading->warnings[warnings].text, "blk.9.weight: 1073741824 bytes at 9663676416 of the data"));
    gyre_reading_free(reading);
    assert_int_equal(ftruncate(fileno(file), (off_t)made->data_at / 2), 0);
    assert_int_equal(gyre_reading_open(&reading, path, NULL, &err), GYRE_EFORMAT);
    fclose(file);
    unlink(path);
    free(made);
}

/* Metadata takes little memory too: 64 MB of empty strings, in a sparse file. */
static void needs_little_memory_for_large_vocabularies(void **state) {
    (void)state;
    enum { WORDS = 8 << 20 };
    char path[] = "/tmp/gyre-words-XXXXXX";
    FILE *file = fdopen(mkstemp(path), "wb");
    assert_non_null(file);
    made_gguf *made = model("llama", 128, 4096, 2);
    made_array(made, "tokenizer.ggml.merges", MADE_STRING, WORDS);
    made_finish(made);
    put_large(file, made, 24 + made->kvs_bytes + (uint64_t)8 * WORDS);
    int ended = -1;
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) read_in_little_memory(path);
    assert_true(child > 0 && waitpid(child, &ended, 0) == child);
    assert_int_equal(ended, 0);
    fclose(file);
    unlink(path);
    free(made);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(applies_defaults_of_llama_cpp),
        cmocka_unit_test(missing_scaling_type_is_linear),
        cmocka_unit_test(factor_0_is_1_and_missing_is_none),
        cmocka_unit_test(factors_below_1_divide),
        cmocka_unit_test(computes_yarn),
        cmocka_unit_test(multiplies_the_attention_factor),
        cmocka_unit_test(scales_latent_attention),
        cmocka_unit_test(reads_overrides_where_llama_cpp_does),
        cmocka_unit_test(ramp_starts_at_the_first_pair),
        cmocka_unit_test(inverted_ramp_is_a_step),
        cmocka_unit_test(ramp_bounds_are_always_rounded),
        cmocka_unit_test(divides_by_rope_freqs),
        cmocka_unit_test(divides_by_rope_freqs_and_a_factor),
        cmocka_unit_test(longrope_list_by_allocated_context),
        cmocka_unit_test(longrope_list_by_length_under_reference),
        cmocka_unit_test(refuses_unexpected_arrays),
        cmocka_unit_test(refuses_attention_factor_0),
        cmocka_unit_test(refuses_impossible_sizes),
        cmocka_unit_test(errors_name_key_and_offset),
        cmocka_unit_test(reads_unknown_architectures_with_rope),
        cmocka_unit_test(reads_or_refuses_at_every_length),
        cmocka_unit_test(needs_little_memory_for_a_file_of_10_gb),
        cmocka_unit_test(needs_little_memory_for_large_vocabularies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
