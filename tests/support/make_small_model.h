/* make_small_model.h: small trainable models, and saving and opening them in the test's folder. */
#ifndef GYRE_TESTS_MAKE_SMALL_MODEL_H
#define GYRE_TESTS_MAKE_SMALL_MODEL_H
#include "model/model.h"
#include "temp_folder.h"

#include <math.h>

/* Two layers of 24 channels, 4 heads of 8 channels: heads * head_dim is not model_dim. */
static inline gyre_model_config small_config(gyre_kind kind) {
    gyre_model_config c = gyre_model_config_default();
    c.vocab = 50;
    c.model_dim = 24;
    c.layers = 2;
    c.heads = 4;
    c.kv_heads = 2;
    c.head_dim = 8;
    c.mlp_dim = 40;
    c.position.kind = kind;
    c.position.trained_length = 64;
    if (kind == GYRE_KIND_LEARNED) c.position.input.positions = 64;
    return c;
}

static inline gyre_model *create(const gyre_model_config *config, uint64_t seed) {
    gyre_model *model = NULL;
    gyre_error err = {0, ""};
    if (gyre_model_create(&model, config, seed, &err)) fail_msg("%s", err.text);
    return model;
}

/* name: a path relative to the folder. */
static inline void save(const gyre_model *model, const char *name, gyre_dtype dtype) {
    gyre_error err = {0, ""};
    if (gyre_model_save(model, in_folder(name), dtype, &err)) fail_msg("%s", err.text);
}

static inline gyre_model *open_model(const char *name) {
    gyre_model *model = NULL;
    gyre_error err = {0, ""};
    if (gyre_model_open_to_train(&model, in_folder(name), &err)) fail_msg("%s", err.text);
    return model;
}

/* Fails unless opening fails with this status and a message that contains `why`. */
static inline void assert_open_fails(const char *name, gyre_status wanted, const char *why) {
    gyre_model *model = NULL;
    gyre_error err = {0, ""};
    const gyre_status status = gyre_model_open_to_train(&model, in_folder(name), &err);
    if (status != wanted || !strstr(err.text, why)) fail_msg("status %d, \"%s\"; wanted \"%s\"", (int)status, err.text, why);
    assert_null(model);
}

/* The root mean square of x[0 .. n). */
static inline double deviation_of(const float *x, int64_t n) {
    double squares = 0;
    for (int64_t i = 0; i < n; i++)
        squares += (double)x[i] * (double)x[i];
    return sqrt(squares / (double)n);
}

/* out = what gyre_model_get_source writes. */
static inline gyre_model_source source_of(const gyre_model *model) {
    gyre_model_source source = GYRE_INIT(gyre_model_source);
    assert_int_equal(gyre_model_get_source(model, &source), GYRE_OK);
    return source;
}

#endif
