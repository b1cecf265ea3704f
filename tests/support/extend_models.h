/* extend_models.h: configs that the tests of gyre extend stretch, and the parts of its JSON. */
#ifndef GYRE_TESTS_EXTEND_MODELS_H
#define GYRE_TESTS_EXTEND_MODELS_H
#include "run_command.h"

static inline void put_config(const char *name, const char *text) {
    char path[64];
    snprintf(path, sizeof path, "%s/config.json", name);
    assert_int_equal(mkdir(in_folder(name), 0777), 0);
    write_file(path, text, strlen(text));
}

#define LLAMA "{\"model_type\": \"llama\", \"hidden_size\": 4096, \"num_attention_heads\": 32, \"num_hidden_layers\": 2, "

static inline void put_llamas(void) {
    put_config("llama2", LLAMA "\"max_position_embeddings\": 4096, \"rope_theta\": 10000.0, \"rope_scaling\": null}");
    put_config("llama31",
               LLAMA "\"max_position_embeddings\": 131072, \"rope_theta\": 500000.0, \"rope_scaling\": {\"factor\": "
                     "8.0, \"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0, "
                     "\"original_max_position_embeddings\": 8192, \"rope_type\": \"llama3\"}}");
}

static inline json_t *verdict_of(const char *line) {
    json_t *root = run_json(line), *verdict = json_incref(json_object_get(root, "verdict"));
    json_decref(root);
    assert_non_null(verdict);
    return verdict;
}

static inline const json_t *engine_of(const json_t *verdict, const char *engine) {
    return json_object_get(json_object_get(verdict, "engines"), engine);
}

#endif
