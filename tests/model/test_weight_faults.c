/* test_weight_faults.c: every fault of a checkpoint's tensors is listed, and a model opens if and only if there is none. */
#include "gyre/gyre_model.h"
#include "gyre/gyre_research.h"
#include "make_tensor_store.h"
#include "model/model.h"

#include <math.h>

enum { DIM = 8, LAYERS = 2, VOCAB = 16, MLP = 12, MOST = 8 };

static void write_config(const char *text) {
    write_file("config.json", text, strlen(text));
}

/* A tensor whose numbers are 1, but the second is `value`. */
typedef struct tensor {
    const char *name;
    int rows, columns; /* columns 0: a vector */
    float value;
} tensor;

static void write_weights(const tensor *tensors, int count) {
    static char header[STORED_HEADER];
    static float data[8192];
    int at = 0;
    size_t end = (size_t)snprintf(header, sizeof header, "{");
    for (int i = 0; i < count; i++) {
        const tensor *t = &tensors[i];
        const int numbers = t->rows * (t->columns ? t->columns : 1);
        char shape[32];
        snprintf(shape, sizeof shape, t->columns ? "%d,%d" : "%d", t->rows, t->columns);
        for (int k = 0; k < numbers; k++)
            data[at + k] = k == 1 ? t->value : 1;
        end += (size_t)snprintf(header + end, sizeof header - end,
                                "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[%s],\"data_offsets\":[%d,%d]}", i ? "," : "",
                                t->name, shape, 4 * at, 4 * (at + numbers));
        at += numbers;
    }
    snprintf(header + end, sizeof header - end, "}");
    stored_safetensors("model.safetensors", header, data, (size_t)at * 4);
}

#define CONFIG                                                                                                              \
    "{\"model_type\": \"llama\", \"hidden_size\": 8, \"intermediate_size\": 12, \"num_attention_heads\": 2,\n"              \
    " \"num_hidden_layers\": 1, \"vocab_size\": 16, \"max_position_embeddings\": 32, \"rms_norm_eps\": 1e-5,\n"             \
    " \"tie_word_embeddings\": true, \"rope_theta\": 10000.0%s}"
enum { TENSORS = 11 };
static const tensor right[TENSORS] = {{"model.embed_tokens.weight", VOCAB, DIM, 1},
                                      {"model.layers.0.input_layernorm.weight", DIM, 0, 1},
                                      {"model.layers.0.mlp.down_proj.weight", DIM, MLP, 1},
                                      {"model.layers.0.mlp.gate_proj.weight", MLP, DIM, 1},
                                      {"model.layers.0.mlp.up_proj.weight", MLP, DIM, 1},
                                      {"model.layers.0.post_attention_layernorm.weight", DIM, 0, 1},
                                      {"model.layers.0.self_attn.k_proj.weight", DIM, DIM, 1},
                                      {"model.layers.0.self_attn.o_proj.weight", DIM, DIM, 1},
                                      {"model.layers.0.self_attn.q_proj.weight", DIM, DIM, 1},
                                      {"model.layers.0.self_attn.v_proj.weight", DIM, DIM, 1},
                                      {"model.norm.weight", DIM, 0, 1}};

static void write_llama(const tensor *tensors, const char *more) {
    char text[1024];
    snprintf(text, sizeof text, CONFIG, more);
    write_config(text);
    write_weights(tensors, TENSORS);
}

/* Lists the faults of the folder, and checks that a model opens exactly where there is none. */
static gyre_weight_faults *listed(int64_t most) {
    gyre_weight_faults *faults = NULL;
    gyre_model *model = NULL;
    gyre_error err = {0, ""};
    if (gyre_weight_faults_open(&faults, folder, GYRE_ARGS(gyre_reading_options, .profile = GYRE_PROFILE_HF_5), most, &err))
        fail_msg("%s", err.text);
    const int opens =
        gyre_model_open(&model, folder, GYRE_ARGS(gyre_reading_options, .profile = GYRE_PROFILE_HF_5), &err) == GYRE_OK;
    gyre_model_free(model);
    if (opens != (faults->in_all == 0 && faults->unchecked == GYRE_OK))
        fail_msg("opens: %d, faults: %d, unchecked: %s", opens, (int)faults->in_all, faults->why);
    return faults;
}

static void expect_text(const gyre_weight_faults *faults, int64_t i, const char *name, const char *says) {
    assert_true(i < faults->count);
    if (!strstr(faults->texts[i], name) || !strstr(faults->texts[i], says))
        fail_msg("fault %d: \"%s\", where %s and \"%s\" were expected", (int)i, faults->texts[i], name, says);
}

static void none(void **state) {
    (void)state;
    write_llama(right, "");
    gyre_weight_faults *faults = listed(MOST);
    assert_int_equal(faults->count, 0);
    assert_int_equal(faults->unchecked, GYRE_OK);
    assert_string_equal(faults->why, "");
    assert_int_equal(faults->vocab, VOCAB);
    assert_int_equal(faults->parameters, VOCAB * DIM + 3 * DIM + 4 * DIM * DIM + 3 * DIM * MLP);
    gyre_weight_faults_free(faults);
    gyre_weight_faults_free(NULL);
}

static void several(void **state) {
    (void)state;
    tensor broken[TENSORS];
    memcpy(broken, right, sizeof right);
    broken[1].value = NAN;
    broken[4].value = INFINITY;
    broken[3].rows--;
    broken[6].columns++;
    broken[10].name = "model.norm.other";
    write_llama(broken, "");
    gyre_weight_faults *faults = listed(MOST);
    assert_int_equal(faults->count, 6);
    assert_int_equal(faults->in_all, 6);
    expect_text(faults, 0, "input_layernorm", "not a number");
    expect_text(faults, 1, "up_proj", "infinite");
    expect_text(faults, 2, "k_proj", "8 x 9");
    expect_text(faults, 3, "gate_proj", "11 x 8");
    expect_text(faults, 4, "model.norm.weight", "no such tensor");
    expect_text(faults, 5, "model.norm.other", "no tensor of the llama");
    gyre_weight_faults_free(faults);
    faults = listed(2);
    assert_int_equal(faults->count, 2);
    assert_int_equal(faults->in_all, 6);
    gyre_weight_faults_free(faults);
}

/* Positions that make no sense: numbers and shapes are looked at all the same. */
static void refused_config(void **state) {
    (void)state;
    tensor broken[TENSORS];
    memcpy(broken, right, sizeof right);
    broken[2].columns++;
    broken[2].value = NAN;
    write_llama(broken, ", \"rope_scaling\": {\"rope_type\": \"magic\"}");
    gyre_weight_faults *faults = listed(MOST);
    assert_int_not_equal(faults->unchecked, GYRE_OK);
    assert_non_null(strstr(faults->why, "magic"));
    assert_int_equal(faults->count, 2);
    expect_text(faults, 0, "down_proj", "not a number");
    expect_text(faults, 1, "down_proj", "8 x 13");
    gyre_weight_faults_free(faults);
    /* a family that Gyre does not run: numbers alone */
    write_config("{\"model_type\": \"another\"}");
    faults = listed(MOST);
    assert_int_equal(faults->unchecked, GYRE_EUNSUPPORTED);
    assert_int_equal(faults->count, 1);
    assert_int_equal(faults->parameters, 0);
    gyre_weight_faults_free(faults);
}

/* A model of Gyre's own with a table of positions. */
static void own_model(void **state) {
    (void)state;
    gyre_model_config config = gyre_model_config_default();
    gyre_model *model = NULL;
    gyre_error err = {0, ""};
    config.model_dim = DIM, config.layers = LAYERS, config.heads = config.kv_heads = 2, config.head_dim = 4;
    config.mlp_dim = MLP;
    config.position.kind = GYRE_KIND_LEARNED;
    config.position.input.positions = 32;
    if (gyre_model_create(&model, &config, 1, &err) || gyre_model_save(model, in_folder("own"), GYRE_DTYPE_F32, &err))
        fail_msg("%s", err.text);
    gyre_weight_faults *faults = NULL;
    assert_int_equal(gyre_weight_faults_open(&faults, in_folder("own"),
                                             GYRE_ARGS(gyre_reading_options, .profile = GYRE_PROFILE_HF_5), 1, &err),
                     GYRE_OK);
    assert_int_equal(faults->in_all, 0);
    assert_int_equal(faults->parameters, gyre_model_parameters(model));
    gyre_weight_faults_free(faults);
    gyre_model_free(model);

    char text[4096];
    FILE *file = fopen(in_folder("own/config.json"), "rb");
    assert_non_null(file);
    const size_t bytes = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[bytes] = 0;
    char *rows = strstr(text, "\"position_table_rows\": 32");
    assert_non_null(rows);
    rows[strlen("\"position_table_rows\": 3")] = '3';
    write_file("own/config.json", text, bytes);
    assert_int_equal(gyre_weight_faults_open(&faults, in_folder("own"),
                                             GYRE_ARGS(gyre_reading_options, .profile = GYRE_PROFILE_HF_5), 4, &err),
                     GYRE_OK);
    assert_int_equal(faults->in_all, 1);
    expect_text(faults, 0, "position", "where the config asks for 33 x 8");
    gyre_weight_faults_free(faults);
}

static void wrong_use(void **state) {
    (void)state;
    gyre_weight_faults *faults = NULL;
    gyre_error err = {0, ""};
    assert_int_equal(
        gyre_weight_faults_open(NULL, folder, GYRE_ARGS(gyre_reading_options, .profile = GYRE_PROFILE_HF_5), 1, &err),
        GYRE_EINVAL);
    assert_int_equal(
        gyre_weight_faults_open(&faults, NULL, GYRE_ARGS(gyre_reading_options, .profile = GYRE_PROFILE_HF_5), 1, &err),
        GYRE_EINVAL);
    assert_int_equal(
        gyre_weight_faults_open(&faults, folder, GYRE_ARGS(gyre_reading_options, .profile = GYRE_PROFILE_HF_5), 0, NULL),
        GYRE_EINVAL);
    assert_int_equal(gyre_weight_faults_open(&faults, in_folder("absent"),
                                             GYRE_ARGS(gyre_reading_options, .profile = GYRE_PROFILE_HF_5), 1, &err),
                     GYRE_EIO);
    write_llama(right, "");
    write_file("model.safetensors", "short", 5);
    assert_int_equal(
        gyre_weight_faults_open(&faults, folder, GYRE_ARGS(gyre_reading_options, .profile = GYRE_PROFILE_HF_5), 1, &err),
        GYRE_EFORMAT);
    write_config("[]");
    assert_int_equal(
        gyre_weight_faults_open(&faults, folder, GYRE_ARGS(gyre_reading_options, .profile = GYRE_PROFILE_HF_5), 1, &err),
        GYRE_EFORMAT);
    assert_null(faults);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(none), cmocka_unit_test(several), cmocka_unit_test(refused_config),
                                       cmocka_unit_test(own_model), cmocka_unit_test(wrong_use)};
    return cmocka_run_group_tests(tests, make_empty_folder, remove_folder);
}
