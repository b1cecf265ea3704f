/* small_model.h: a model small enough for tests of files and tables. */
#ifndef GYRE_TESTS_SMALL_MODEL_H
#define GYRE_TESTS_SMALL_MODEL_H
#include "gyre/gyre_model.h"
#include "support.h"

static inline gyre_model_config small_config(gyre_kind kind) {
    gyre_model_config c = GYRE_MODEL_CONFIG_INIT;
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

static inline gyre_model *create_model(const gyre_model_config *config, uint64_t seed) {
    gyre_model *model = NULL;
    gyre_error err = {0, ""};
    if (gyre_model_create(&model, config, seed, &err) != GYRE_OK) fail_msg("%s", err.text);
    return model;
}

#endif
