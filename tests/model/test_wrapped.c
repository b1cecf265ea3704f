/* test_wrapped.c: language models beside an encoder of images: the names their files may have, what is left aside, and
 * what is refused.  The logits are judged by transformers (tests/python/test_families.py). */
#include "gyre/gyre_model.h"
#include "gyre/gyre_research.h"
#include "make_synthetic_model.h"
#include "temp_folder.h"

#include <string.h>

static const char *const tower[] = {"vision_tower.patch.weight", "multi_modal_projector.linear_1.weight"};

/* out = a fixture of a llama within a llava; its tensors have `prefix` in place of "model.", and `head` before lm_head. */
static json_t *wrapped(const char *prefix, const char *head) {
    json_t *fixture = synthetic_fixture("llama_biases"), *tensors = json_object(), *config = json_object(), *tensor;
    const char *name;
    char other[200];
    json_object_foreach(json_object_get(fixture, "tensors"), name, tensor) {
        if (strncmp(name, "model.", 6) == 0)
            snprintf(other, sizeof other, "%s%s", prefix, name + 6);
        else
            snprintf(other, sizeof other, "%s%s", head, name);
        json_object_set(tensors, other, tensor);
    }
    for (size_t i = 0; i < sizeof tower / sizeof *tower; i++)
        json_object_set_new(tensors, tower[i], json_pack("[[ii]ff]", 3, 2, 0.0, 1.0));
    json_object_set_new(config, "model_type", json_string("llava"));
    json_object_set(config, "text_config", json_object_get(fixture, "config"));
    json_object_set_new(config, "vision_config", json_pack("{ss}", "model_type", "clip_vision_model"));
    json_object_set_new(fixture, "tensors", tensors);
    json_object_set_new(fixture, "config", config);
    return fixture;
}

static void opens(json_t *fixture, const char *first_aside, int64_t aside) {
    gyre_weight_faults *faults = NULL;
    gyre_model *model = NULL;
    gyre_error err = {0, ""};
    synthetic_write_folder(fixture, folder);
    if (gyre_model_check(folder, &err) || gyre_model_open(&model, folder, NULL, &err)) fail_msg("%s", err.text);
    gyre_model_source source = GYRE_INIT(gyre_model_source);
    assert_ok(gyre_model_get_source(model, &source));
    assert_string_equal(source.family, json_string_value(json_object_get(json_object_get(fixture, "config"), "model_type")));
    gyre_model_free(model);
    assert_ok(gyre_weight_faults_open(&faults, folder, NULL, 9, &err));
    assert_int_equal(faults->in_all, 0);
    assert_int_equal(faults->unchecked, GYRE_OK);
    assert_int_equal(faults->aside, aside);
    assert_string_equal(faults->aside_first, first_aside);
    gyre_weight_faults_free(faults);
    json_decref(fixture);
}

static void refuses(json_t *fixture, gyre_status status, const char *says) {
    gyre_model *model = NULL;
    gyre_error err = {0, ""};
    synthetic_write_folder(fixture, folder);
    assert_int_equal(gyre_model_open(&model, folder, NULL, &err), status);
    if (!strstr(err.text, says)) fail_msg("\"%s\" does not say \"%s\"", err.text, says);
    json_decref(fixture);
}

static void test_names_of_files(void **state) {
    static const char *const forms[][2] = {{"language_model.model.", "language_model."},
                                           {"model.language_model.", ""},
                                           {"language_model.model.", ""},
                                           {"model.text_model.", ""},
                                           {"model.", ""}};
    (void)state;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        opens(wrapped(forms[i][0], forms[i][1]), tower[1], 2);
}

/* Nothing of the language model is left aside. */
static void test_tensors_of_the_language_model_count(void **state) {
    (void)state;
    json_t *fixture = wrapped("model.language_model.", ""), *tensors = json_object_get(fixture, "tensors");
    json_object_set_new(tensors, "model.language_model.layers.0.other.weight", json_pack("[[i]ff]", 3, 0.0, 1.0));
    refuses(fixture, GYRE_EFORMAT, "model.language_model.layers.0.other.weight: no tensor of the llava");
    fixture = wrapped("model.language_model.", "");
    json_object_del(json_object_get(fixture, "tensors"), "model.language_model.norm.weight");
    refuses(fixture, GYRE_EFORMAT, "model.language_model.norm.weight: no such tensor");
    fixture = wrapped("model.language_model.", "");
    json_object_set_new(json_object_get(fixture, "tensors"), "lm_head.bias", json_pack("[[i]ff]", 61, 0.0, 1.0));
    refuses(fixture, GYRE_EFORMAT, "lm_head.bias: no tensor of the llava");
}

static void test_texts_that_are_not_run(void **state) {
    (void)state;
    json_t *fixture = wrapped("model.language_model.", "");
    json_object_set_new(json_object_get(json_object_get(fixture, "config"), "text_config"), "model_type",
                        json_string("mamba"));
    refuses(fixture, GYRE_EUNSUPPORTED, "text_config.model_type: \"mamba\" within llava is not run");
    fixture = wrapped("model.language_model.", "");
    json_object_set_new(json_object_get(json_object_get(fixture, "config"), "text_config"), "model_type",
                        json_string("gpt2"));
    refuses(fixture, GYRE_EUNSUPPORTED, "\"gpt2\" within llava is not run");
    fixture = wrapped("model.language_model.", "");
    json_object_del(json_object_get(fixture, "config"), "text_config");
    refuses(fixture, GYRE_EFORMAT, "text_config: missing");
    fixture = wrapped("model.language_model.", "");
    json_t *text = json_object_get(json_object_get(fixture, "config"), "text_config");
    json_object_set_new(text, "model_type", json_string("granite"));
    json_object_set_new(text, "logits_scaling", json_real(2));
    refuses(fixture, GYRE_EUNSUPPORTED, "scaled or capped logits");
    fixture = wrapped("model.language_model.", "");
    json_object_set_new(json_object_get(fixture, "config"), "quantization_config", json_pack("{ss}", "quant_method", "fp8"));
    refuses(fixture, GYRE_EUNSUPPORTED, "quantization_config");
}

/* Qwen2-VL as it was published has the keys of its text in the config itself. */
static void test_keys_of_the_text_in_the_config(void **state) {
    (void)state;
    json_t *fixture = synthetic_fixture("qwen2"), *config = json_object_get(fixture, "config");
    json_object_set_new(config, "model_type", json_string("qwen2_vl"));
    json_object_set_new(config, "rope_scaling", json_pack("{sss[iii]}", "type", "mrope", "mrope_section", 1, 1, 1));
    json_object_set_new(json_object_get(fixture, "tensors"), "visual.merger.weight", json_pack("[[ii]ff]", 3, 2, 0.0, 1.0));
    opens(fixture, "visual.merger.weight", 1);
}

/* No rows are left as they were where others were asked for. */
static void test_layout(void **state) {
    const gyre_layout beside = GYRE_LAYOUT_INTERLEAVED;
    gyre_convert_options options = GYRE_INIT(gyre_convert_options);
    json_t *fixture = wrapped("model.language_model.", "");
    gyre_error err = {0, ""};
    (void)state;
    json_object_del(json_object_get(fixture, "config"), "vision_config"); /* which may have pairs of another kind */
    synthetic_write_folder(fixture, folder);
    options.source_layout = &beside;
    assert_int_equal(gyre_convert(folder, in_folder("converted"), &options, &err), GYRE_EUNSUPPORTED);
    if (!strstr(err.text, "layout: rows of the language model within a llava are not reordered")) fail_msg("%s", err.text);
    json_decref(fixture);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_names_of_files),
                                       cmocka_unit_test(test_tensors_of_the_language_model_count),
                                       cmocka_unit_test(test_texts_that_are_not_run),
                                       cmocka_unit_test(test_keys_of_the_text_in_the_config), cmocka_unit_test(test_layout)};
    return cmocka_run_group_tests(tests, make_empty_folder, remove_folder);
}
