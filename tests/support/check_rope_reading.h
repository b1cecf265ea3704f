/* check_rope_reading.h: reads a config.json written with single quotes, and the formulas of transformers, written
 * independently of the library. */
#ifndef GYRE_TESTS_CHECK_ROPE_READING_H
#define GYRE_TESTS_CHECK_ROPE_READING_H
#include "check_reading.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Replaces single quotes by double quotes. Line feeds stay line feeds. */
static inline const char *quoted(const char *text) {
    static char out[16384];
    snprintf(out, sizeof out, "%s", text);
    for (char *c = out; *c; c++)
        if (*c == '\'') *c = '"';
    return out;
}

static inline gyre_reading *read_rope(const char *text, gyre_profile profile, int64_t length) {
    gyre_reading *reading = NULL;
    gyre_error err = {0, ""};
    const char *json = quoted(text);
    if (gyre_reading_parse(
            &reading, json, strlen(json),
            GYRE_ARGS(gyre_reading_options, .profile = profile, .context_length = length, .name = "config.json"), &err))
        fail_msg("%s: %s\n%s", gyre_profile_name(profile), err.text, text);
    return reading;
}

/* A Llama with heads of 128 channels and these additional keys. */
#define LLAMA(keys)                                                                                                         \
    "{'model_type':'llama','hidden_size':4096,'num_attention_heads':32,'num_hidden_layers':2,'head_dim':128," keys "}"

/* -- what a group comes to -- */
static inline void figures(const gyre_layer_reading *group, double *inv_freq, double *attention_factor) {
    gyre_encoding *encoding = test_encoding(&group->config);
    assert_ok(gyre_encoding_frequencies(encoding, 0, inv_freq, attention_factor));
    gyre_encoding_free(encoding);
}

/* theta_i = b^(-2i/d) */
static inline long double plain(int64_t d, long double base, int64_t i) {
    return powl(base, -2.0L * (long double)i / (long double)d);
}

/* YaRN's frequency as the authors' code computes it, with the ramp between pairs lo and hi. */
typedef struct naive_yarn {
    int64_t dim;
    long double base, length, factor;
    int truncate;
} naive_yarn;
static inline long double turning(const naive_yarn *y, long double turns) {
    const long double pi = 3.141592653589793238462643383279502884L;
    return (long double)y->dim * logl(y->length / (2.0L * pi * turns)) / (2.0L * logl(y->base));
}
static inline long double yarn_at(const naive_yarn *y, int64_t i) {
    long double lo = turning(y, 32.0L), hi = turning(y, 1.0L);
    if (y->truncate) {
        lo = floorl(lo);
        hi = ceill(hi);
    }
    if (lo < 0.0L) lo = 0.0L;
    if (hi > (long double)(y->dim - 1)) hi = (long double)(y->dim - 1);
    if (lo == hi) hi += 0.001L;
    long double r = ((long double)i - lo) / (hi - lo);
    r = r < 0.0L ? 0.0L : r > 1.0L ? 1.0L : r;
    const long double theta = plain(y->dim, y->base, i);
    return theta / y->factor * r + theta * (1.0L - r);
}

static inline void assert_near(double got, long double want, const char *what) {
    test_close((long double)got, want, 1e-12L * fabsl(want), what);
}

static inline void assert_yarn(const gyre_layer_reading *group, const naive_yarn *y, double attention) {
    double inv_freq[256], factor;
    assert_int_equal(group->config.rope.dim, y->dim);
    figures(group, inv_freq, &factor);
    for (int64_t i = 0; i < y->dim / 2; i++)
        assert_near(inv_freq[i], yarn_at(y, i), "YaRN");
    test_close((long double)factor, (long double)attention, 1e-10L, "attention factor");
}

/* Fails unless every frequency is RoPE's divided by `by`. */
static inline void assert_divided(const gyre_layer_reading *group, double base, double by) {
    double inv_freq[256], factor;
    figures(group, inv_freq, &factor);
    for (int64_t i = 0; i < group->config.rope.dim / 2; i++)
        assert_near(inv_freq[i], plain(group->config.rope.dim, (long double)base, i) / (long double)by, "frequency");
    test_close((long double)factor, 1.0L, 1e-12L, "attention factor");
}

static inline void refuse(const char *text, gyre_profile profile, gyre_status status, const char *words) {
    assert_refused(quoted(text), profile, status, words);
}

#endif
