/* test_write_beside_scaling.c: what a written config.json says beside the scaling: its length, the share of the head that
 * turns, and the temperature of queries. */
#include "check_reading_fields.h"
#include "run_command.h"

#include <math.h>
#include <string.h>

static gyre_reading *reading_of(const char *name, gyre_profile profile) {
    gyre_reading *reading = NULL;
    gyre_error err = {0, ""};
    if (gyre_reading_open(&reading, in_folder(name), GYRE_ARGS(gyre_reading_options, .profile = profile), &err))
        fail_msg("%s", err.text);
    return reading;
}

static gyre_status write_to_out(const char *text, const gyre_config *position, int64_t length, gyre_error *err) {
    write_file("in", text, strlen(text));
    return gyre_reading_write(in_folder("in"), position, length, in_folder("out"), err);
}

/* The length of dbrx, whose base is in an object of its own, stands beside that object. */
static void a_length_stands_where_it_is_read(void **state) {
    (void)state;
    gyre_config c = test_rope_config(128, GYRE_LAYOUT_HALF);
    c.trained_length = 2048;
    c.rope.base = 500000;
    assert_ok(write_to_out(
        "{\"model_type\": \"dbrx\", \"d_model\": 6144, \"n_heads\": 48, \"attn_config\": {\"rope_theta\": 500000}}", &c,
        4096, NULL));
    gyre_reading *reading = reading_of("out", GYRE_PROFILE_DEFAULT);
    assert_field(reading->groups[0], "max_length", "4096", GYRE_ORIGIN_FILE, "max_position_embeddings", 1);
    gyre_reading_free(reading);
}

/* Under another type, programs take the share of the pairs for one of the channels. */
static void the_share_goes_with_the_proportional_scaling(void **state) {
    (void)state;
    gyre_config c = test_rope_config(128, GYRE_LAYOUT_HALF);
    c.trained_length = 4096;
    assert_ok(write_to_out(
        "{\"model_type\": \"llama\", \"head_dim\": 128, \"max_position_embeddings\": 4096,\n\"rope_parameters\": "
        "{\"rope_type\": \"proportional\", \"partial_rotary_factor\": 0.25, \"rope_theta\": 10000.0}}",
        &c, 4096, NULL));
    gyre_reading *reading = reading_of("out", GYRE_PROFILE_REFERENCE);
    assert_int_equal(reading->groups[0]->config.rope.dim, 128);
    gyre_reading_free(reading);
}

/* The class's base is another in transformers 4 than in 5: a copy states the one that it was written for. */
static void a_base_of_one_version_is_stated(void **state) {
    (void)state;
    static const char *const files[] = {
        "{\"model_type\": \"qwen3_vl\", \"hidden_size\": 64, \"num_attention_heads\": 2, \"max_position_embeddings\": 4096}",
        ("{\"model_type\": \"cohere\", \"hidden_size\": 64, \"num_attention_heads\": 2, \"rope_scaling\": {\"rope_type\": "
         "\"linear\", \"factor\": 2}}"),
        "{\"model_type\": \"persimmon\", \"hidden_size\": 64, \"num_attention_heads\": 2}"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        write_file("in", files[i], strlen(files[i]));
        gyre_reading *reading = reading_of("in", GYRE_PROFILE_HF_5);
        gyre_config c = reading->groups[0]->config;
        gyre_reading_free(reading);
        c.rope.scaling = GYRE_SCALING_LINEAR;
        c.rope.factor = 4;
        assert_ok(write_to_out(files[i], &c, 32768, NULL));
        reading = reading_of("out", GYRE_PROFILE_HF_4_56);
        assert_true(reading->groups[0]->config.rope.base == c.rope.base);
        assert_true(reading->groups[0]->config.rope.factor == 4);
        gyre_reading_free(reading);
    }
}

/* The rotation of these classes, where the file has none, brings a temperature and a base, which a new rotation states. */
static void what_the_class_had_is_not_lost(void **state) {
    (void)state;
    static const struct {
        const char *text;
        double base;
        int64_t reference;
    } files[] = {{"{\"model_type\": \"mistral4\", \"hidden_size\": 64}", 1e4, 8192},
                 {"{\"model_type\": \"ministral3\", \"hidden_size\": 64}", 1e6, 16384},
                 {"{\"model_type\": \"ministral3\", \"hidden_size\": 64, \"rope_theta\": 5e6}", 1e6, 16384}};
    static const gyre_scaling scalings[] = {GYRE_SCALING_LINEAR, GYRE_SCALING_YARN, GYRE_SCALING_NTK};
    for (size_t i = 0; i < 3 * sizeof files / sizeof *files; i++) {
        write_file("in", files[i / 3].text, strlen(files[i / 3].text));
        gyre_reading *reading = reading_of("in", GYRE_PROFILE_HF_5);
        gyre_config c = reading->groups[0]->config;
        assert_true(c.rope.base == files[i / 3].base && c.query.reference_length == files[i / 3].reference);
        c.rope.scaling = scalings[i % 3];
        c.rope.factor = 2;
        const gyre_status status = write_to_out(files[i / 3].text, &c, 2 * files[i / 3].reference, NULL);
        if (i < 3 && scalings[i % 3] == GYRE_SCALING_NTK) { /* transformers' mistral4 stops at a plain rotation */
            assert_int_equal(status, GYRE_EUNSUPPORTED);
            gyre_reading_free(reading);
            continue;
        }
        assert_ok(status);
        gyre_reading *written = reading_of("out", GYRE_PROFILE_HF_5);
        const gyre_config *got = &written->groups[0]->config;
        assert_true(scalings[i % 3] == GYRE_SCALING_NTK || got->rope.base == files[i / 3].base);
        assert_int_equal(got->query.temperature, GYRE_TEMPERATURE_MINISTRAL);
        assert_true(got->query.slope == 0.1);
        assert_int_equal(got->query.reference_length, files[i / 3].reference);
        gyre_reading_free(written);
        gyre_reading_free(reading);
    }
}

static const char no_length[] = "{\"model_type\": \"ministral3\", \"head_dim\": 128, \"max_position_embeddings\": 16384,\n"
                                "\"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 1000000.0, "
                                "\"llama_4_scaling_beta\": 0.1}}";
static const char with_length[] =
    "{\"model_type\": \"ministral3\", \"head_dim\": 128, \"max_position_embeddings\": 262144,\n"
    "\"rope_parameters\": {\"rope_type\": \"yarn\", \"rope_theta\": 1000000.0, \"factor\": 16.0,\n"
    "\"original_max_position_embeddings\": 16384, \"llama_4_scaling_beta\": 0.1}}";

static gyre_config ministral(gyre_scaling scaling, double factor, int64_t trained, int64_t reference) {
    gyre_config c = test_rope_config(128, GYRE_LAYOUT_HALF);
    c.rope.base = 1e6;
    c.rope.scaling = scaling;
    c.rope.factor = factor;
    c.trained_length = trained;
    c.query.temperature = GYRE_TEMPERATURE_MINISTRAL;
    c.query.slope = 0.1;
    c.query.reference_length = reference;
    return c;
}

/* The temperature of Ministral 3 counts from original_max_position_embeddings, and without it from the length of the model,
 * which a longer one would move. */
static void a_temperature_counts_from_where_it_did(void **state) {
    (void)state;
    static const struct {
        gyre_scaling scaling;
        double factor;
    } asked[] = {{GYRE_SCALING_LINEAR, 4}, {GYRE_SCALING_NTK, 4}, {GYRE_SCALING_YARN, 4}, {GYRE_SCALING_DYNAMIC_NTK, 1}};
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        const gyre_config c = ministral(asked[i].scaling, asked[i].factor, 16384, 16384);
        assert_ok(write_to_out(no_length, &c, 65536, NULL));
        gyre_reading *reading = reading_of("out", GYRE_PROFILE_HF_5);
        assert_int_equal(reading->groups[0]->config.query.reference_length, 16384);
        gyre_reading_free(reading);
    }
}

/* One key says the length of YaRN and that of the temperature. */
static void a_temperature_that_would_move_is_refused(void **state) {
    (void)state;
    gyre_error err = {0, ""};
    gyre_config c = ministral(GYRE_SCALING_YARN, 64, 8192, 16384);
    assert_int_equal(write_to_out(with_length, &c, 524288, &err), GYRE_EUNSUPPORTED);
    assert_non_null(strstr(err.text, "would count from 8192 tokens, not 16384: original_max_position_embeddings"));
    c = ministral(GYRE_SCALING_YARN, 32, 16384, 16384);
    c.query.slope = 0.2;
    assert_int_equal(write_to_out(with_length, &c, 524288, &err), GYRE_EUNSUPPORTED);
    assert_non_null(strstr(err.text, "slope 0.1, not 0.2"));
    c = ministral(GYRE_SCALING_YARN, 64, 8192, 8192); /* whoever asks for both gets both */
    assert_ok(write_to_out(with_length, &c, 524288, &err));
    gyre_reading *reading = reading_of("out", GYRE_PROFILE_HF_5);
    assert_int_equal(reading->groups[0]->config.query.reference_length, 8192);
    gyre_reading_free(reading);
}

/* A base for each layer: one method is for one of them, and 0 stays 0. */
static void lists_of_bases_change(void **state) {
    (void)state;
#define BASES(list)                                                                                                         \
    "{\n \"model_type\": \"granite_swa\", \"hidden_size\": 4096, \"num_attention_heads\": 32, \"num_hidden_layers\": 4,\n"  \
    " \"max_position_embeddings\": 4096, \"sliding_window\": null,\n \"layer_rope_theta\": " list "\n}\n"
    gyre_error err = {0, ""};
    gyre_config ntk = test_rope_config(128, GYRE_LAYOUT_HALF);
    ntk.trained_length = 4096;
    ntk.rope.scaling = GYRE_SCALING_NTK;
    ntk.rope.factor = 4;
    if (write_to_out(BASES("[10000.0, 10000.0, 0, 10000.0]"), &ntk, 16384, &err)) fail_msg("%s", err.text);
    gyre_reading *r = reading_of("out", GYRE_PROFILE_DEFAULT);
    assert_int_equal(r->groups_count, 2);
    const double base = 10000 * pow(4, 128.0 / 126.0);
    test_close(r->groups[0]->config.rope.base, base, 1e-9 * base, "base");
    assert_int_equal(r->groups[0]->layers_count, 3);
    assert_true(r->groups[1]->config.kind == GYRE_KIND_NOPE && r->groups[1]->layers[0] == 2);
    gyre_reading_free(r);
    assert_int_equal(write_to_out(BASES("[10000.0, 500.0, 0, 10000.0]"), &ntk, 16384, &err), GYRE_EUNSUPPORTED);
    if (!strstr(err.text, "layer_rope_theta: layers have different bases")) fail_msg("%s", err.text);
#undef BASES
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_length_stands_where_it_is_read),
                                       cmocka_unit_test(the_share_goes_with_the_proportional_scaling),
                                       cmocka_unit_test(a_base_of_one_version_is_stated),
                                       cmocka_unit_test(what_the_class_had_is_not_lost),
                                       cmocka_unit_test(a_temperature_counts_from_where_it_did),
                                       cmocka_unit_test(a_temperature_that_would_move_is_refused),
                                       cmocka_unit_test(lists_of_bases_change)};
    return cmocka_run_group_tests(tests, make_empty_folder, remove_folder);
}
