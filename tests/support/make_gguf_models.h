/* make_gguf_models.h: GGUF files with the metadata of models, their readings, and llama.cpp's formulas. */
#ifndef GYRE_TESTS_MAKE_GGUF_MODELS_H
#define GYRE_TESTS_MAKE_GGUF_MODELS_H
#include "check_reading_fields.h"
#include "make_gguf.h"

#include <math.h>
#include <stdio.h>

enum { MOST_PAIRS = 256 };

/* -- making and reading -- */
static inline void size_of(made_gguf *made, const char *arch, const char *suffix, uint32_t x) {
    char key[100];
    snprintf(key, sizeof key, "%s.%s", arch, suffix);
    made_u32(made, key, x);
}
static inline void real_of(made_gguf *made, const char *arch, const char *suffix, float x) {
    char key[100];
    snprintf(key, sizeof key, "%s.%s", arch, suffix);
    made_f32(made, key, x);
}
static inline void word_of(made_gguf *made, const char *arch, const char *suffix, const char *word) {
    char key[100];
    snprintf(key, sizeof key, "%s.%s", arch, suffix);
    made_string(made, key, word);
}

/* A model with 32 heads of `head` channels each. */
static inline made_gguf *model(const char *arch, uint32_t head, uint32_t context, uint32_t blocks) {
    made_gguf *made = made_begin(3);
    made_string(made, "general.architecture", arch);
    size_of(made, arch, "context_length", context);
    size_of(made, arch, "embedding_length", 32 * head);
    size_of(made, arch, "attention.head_count", 32);
    size_of(made, arch, "block_count", blocks);
    made_words(made, "tokenizer.ggml.tokens", 100);
    return made;
}

/* Reads the file, then overwrites its bytes: the reading must not refer to them. */
static inline gyre_reading *read_gguf_as(made_gguf *made, gyre_profile profile, int64_t length) {
    gyre_reading *reading = NULL;
    gyre_error err = {0, ""};
    made_finish(made);
    unsigned char *bytes = made_copy(made, made->file_bytes);
    if (gyre_reading_parse(&reading, bytes, made->file_bytes,
                           GYRE_ARGS(gyre_reading_options, .profile = profile, .context_length = length, .name = "a.gguf"),
                           &err))
        fail_msg("%s", err.text);
    memset(bytes, 0xff, made->file_bytes);
    free(bytes);
    return reading;
}
static inline gyre_reading *read_made(made_gguf *made) {
    gyre_reading *reading = read_gguf_as(made, GYRE_PROFILE_LLAMA_CPP, 0);
    free(made);
    return reading;
}
static inline gyre_reading *read_meant(made_gguf *made) {
    gyre_reading *reading = read_gguf_as(made, GYRE_PROFILE_REFERENCE, 0);
    free(made);
    return reading;
}

static inline void check_field(const gyre_layer_reading *group, const char *name, const char *value, gyre_origin origin) {
    const gyre_reading_field *field = field_of(group, name);
    assert_string_equal(field->value, value);
    if (field->origin != origin) fail_msg("%s comes from %d", name, (int)field->origin);
    assert_true((origin == GYRE_ORIGIN_FILE) == (field->key != NULL));
    assert_true((origin == GYRE_ORIGIN_FILE) == (field->offset > 0));
}
static inline double frequencies(const gyre_layer_reading *group, int64_t length, double *out) {
    double factor = 0;
    gyre_encoding *encoding = test_encoding(&group->config);
    assert_ok(gyre_encoding_frequencies(encoding, length, out, &factor));
    gyre_encoding_free(encoding);
    return factor;
}

/* -- llama.cpp's formulas -- */
typedef struct ggml {
    long double base, s, ext, fast, slow, length;
    int dim;
} ggml;

static inline long double ggml_frequency(const ggml *c, int pair, long double divisor) {
    const long double theta = powl(c->base, -2.0L * pair / c->dim) / divisor;
    if (c->ext == 0) return theta / c->s;
    long double dims[2];
    const long double turns[2] = {c->fast, c->slow}, pi = 3.141592653589793238462643383279503L;
    for (int k = 0; k < 2; k++)
        dims[k] = c->dim * logl(c->length / (turns[k] * 2 * pi)) / (2 * logl(c->base));
    const long double low = fmaxl(0, floorl(dims[0])), high = fminl(c->dim - 1, ceill(dims[1]));
    const long double y = (pair - low) / fmaxl(0.001L, high - low);
    const long double mix = (1 - fminl(1, fmaxl(0, y))) * c->ext;
    return theta / c->s * (1 - mix) + theta * mix;
}

static inline void check_ggml(const gyre_layer_reading *group, const ggml *c, const float *divisors) {
    double got[MOST_PAIRS];
    (void)frequencies(group, 0, got);
    for (int i = 0; i < c->dim / 2; i++) {
        const long double want = ggml_frequency(c, i, divisors ? (long double)divisors[i] : 1);
        test_close(got[i], want, 1e-14L * want, "frequency");
    }
}

static inline void check_reference(const gyre_layer_reading *group, const char *name, int64_t length, double bound) {
    double got[MOST_PAIRS], want[MOST_PAIRS];
    json_t *all = test_reference("rope.json");
    const json_t *found = NULL, *each;
    size_t i;
    json_array_foreach(all, i, each) if (strcmp(test_string(each, "name"), name) == 0) found = each;
    assert_non_null(found);
    const size_t pairs = test_numbers(found, "inv_freq", want, MOST_PAIRS);
    assert_int_equal((int)pairs, (int)(test_integer(found, "rotary_dim") / 2));
    test_close(frequencies(group, length, got), test_number(found, "attention_factor"), bound, "attention factor");
    for (i = 0; i < pairs; i++)
        test_close(got[i], want[i], bound * want[i], name);
    json_decref(all);
}

static inline made_gguf *yarn(const char *arch, uint32_t head, float base, float factor, uint32_t original) {
    made_gguf *made = model(arch, head, (uint32_t)factor * original, 4);
    real_of(made, arch, "rope.freq_base", base);
    word_of(made, arch, "rope.scaling.type", "yarn");
    real_of(made, arch, "rope.scaling.factor", factor);
    size_of(made, arch, "rope.scaling.original_context_length", original);
    return made;
}
static inline made_gguf *several(const char *arch, const int32_t *section, size_t count) {
    char key[100];
    made_gguf *made = model(arch, 128, 32768, 2);
    real_of(made, arch, "rope.freq_base", 1e6f);
    snprintf(key, sizeof key, "%s.rope.dimension_sections", arch);
    made_i32s(made, key, section, count);
    return made;
}

#endif
