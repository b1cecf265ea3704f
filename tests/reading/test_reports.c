/* test_reports.c: models of 2026 that public reports say some program read wrongly, with the numbers that are right, and the
 * doubts of keys and of what was assumed. */
#include "check_reading_fields.h"
#include "gyre/gyre_model.h"
#include "make_gguf_models.h"
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static gyre_status open_as(gyre_reading **out, const char *file, gyre_profile profile, int64_t length, gyre_error *err) {
    char path[1024];
    assert_true((size_t)snprintf(path, sizeof path, "%s/configs/%s.json", GYRE_TEST_DATA, file) < sizeof path);
    return gyre_reading_open(out, path, GYRE_ARGS(gyre_reading_options, .profile = profile, .context_length = length), err);
}

static gyre_reading *parse_as(const char *text, gyre_profile profile) {
    gyre_reading *reading = NULL;
    gyre_error err = {0, ""};
    if (gyre_reading_parse(&reading, text, strlen(text), GYRE_ARGS(gyre_reading_options, .profile = profile), &err))
        fail_msg("%s: %s", text, err.text);
    return reading;
}

static void close_to(double got, double want, const char *what) {
    if (!(fabs(got - want) <= 6e-9 * fabs(want) + 1e-15 * (want == 0))) fail_msg("%s is %.12g, not %.12g", what, got, want);
}

/* -- frequencies -- */
enum { MAX_GIVEN = 6 };
typedef struct report {
    const char *file;
    gyre_profile profile;
    int64_t length; /* in use; 0 = none */
    gyre_layout layout;
    int64_t head_dim, dim, axes;
    const char *max_length; /* NULL = not stated */
    double attention, softmax;
    struct {
        int64_t pair;
        double frequency;
    } given[MAX_GIVEN]; /* ended by a frequency of 0 */
} report;
static const report reports[] = {
    {"kimi-k3-dspark-yarn",
     GYRE_PROFILE_HF_5,
     0,
     GYRE_LAYOUT_INTERLEAVED_TO_HALF,
     192,
     64,
     0,
     "1048576",
     1,
     1.81326043,
     {{0, 1}, {31, 4.16725448e-06}}},
    {"kimi-k3-dspark-yarn",
     GYRE_PROFILE_REFERENCE,
     0,
     GYRE_LAYOUT_INTERLEAVED_TO_HALF,
     192,
     64,
     0,
     "1048576",
     1,
     1.81326043,
     {{31, 4.16725448e-06}}},
    {"../files/deepseek-yarn-type-on-v3",
     GYRE_PROFILE_VLLM,
     0,
     GYRE_LAYOUT_INTERLEAVED_TO_HALF,
     192,
     64,
     0,
     "1048576",
     1,
     1.81326043,
     {{31, 4.16725448e-06}}},
    {"../files/deepseek-yarn-type-on-v3",
     GYRE_PROFILE_REFERENCE,
     0,
     GYRE_LAYOUT_INTERLEAVED_TO_HALF,
     192,
     64,
     0,
     "1048576",
     1,
     1.81326043,
     {{31, 4.16725448e-06}}},
    {"nomic-embed-v1.5-original-keys",
     GYRE_PROFILE_HF_5,
     2048,
     GYRE_LAYOUT_HALF,
     64,
     64,
     0,
     "8192",
     1,
     1,
     {{1, 0.805842188}, {31, 0.00124093776}}},
    {"nomic-embed-v1.5-original-keys",
     GYRE_PROFILE_HF_5,
     512,
     GYRE_LAYOUT_HALF,
     64,
     64,
     0,
     "8192",
     1,
     1,
     {{1, 0.805842188}, {31, 0.00124093776}}},
    {"nomic-embed-v1.5-original-keys",
     GYRE_PROFILE_REFERENCE,
     8192,
     GYRE_LAYOUT_HALF,
     64,
     64,
     0,
     "8192",
     1,
     1,
     {{1, 0.75681333}, {31, 0.000177276823}}},
    {"nomic-embed-v1.5-original-keys",
     GYRE_PROFILE_VLLM,
     8192,
     GYRE_LAYOUT_HALF,
     64,
     64,
     0,
     "8192",
     1,
     1,
     {{1, 0.805842188}, {31, 0.00124093776}}},
    {"protein-llama-v5-only", GYRE_PROFILE_HF_5, 0, GYRE_LAYOUT_HALF, 64, 64, 0, "8192", 1, 1, {{31, 3.76732269e-07}}},
    {"protein-llama-v5-only", GYRE_PROFILE_HF_4_56, 0, GYRE_LAYOUT_HALF, 64, 64, 0, "8192", 1, 1, {{31, 0.000133352143}}},
    {"qwen3.8-flash-next",
     GYRE_PROFILE_HF_5,
     0,
     GYRE_LAYOUT_HALF,
     256,
     64,
     3,
     "262144",
     1,
     1,
     {{1, 0.60429639}, {31, 1.6548171e-07}}},
    {"qwen3.8-flash-next",
     GYRE_PROFILE_LLAMA_CPP,
     0,
     GYRE_LAYOUT_HALF,
     256,
     64,
     3,
     "262144",
     1,
     1,
     {{1, 0.60429639}, {31, 1.6548171e-07}}},
    {"qwen3.8-flash-next", GYRE_PROFILE_VLLM, 0, GYRE_LAYOUT_HALF, 256, 64, 3, "262144", 1, 1, {{31, 1.6548171e-07}}},
    {"qwen3.8-flash-next-yarn",
     GYRE_PROFILE_HF_5,
     0,
     GYRE_LAYOUT_HALF,
     256,
     64,
     3,
     "1048576",
     1.13862944,
     1,
     {{0, 1}, {14, 0.000865964323}, {18, 7.2173874e-05}, {31, 4.13704275e-08}}},
    {"wan2.1-transformer",
     GYRE_PROFILE_HF_5,
     0,
     GYRE_LAYOUT_INTERLEAVED,
     64,
     64,
     3,
     "1024",
     1,
     1,
     {{0, 1}, {1, 0.464158883}, {12, 1}, {13, 0.398107171}, {22, 1}, {23, 0.398107171}}},
    {"longlora-32k-missing-scaling", GYRE_PROFILE_HF_5, 0, GYRE_LAYOUT_HALF, 128, 128, 0, NULL, 1, 1, {{0, 1}}},
    {"qwen3-8b", GYRE_PROFILE_HF_5, 0, GYRE_LAYOUT_HALF, 128, 128, 0, "40960", 1, 1, {{0, 1}}},
};

static void check_report(const report *r) {
    gyre_reading *reading = NULL;
    gyre_error err = {0, ""};
    double frequencies[128], attention;
    if (open_as(&reading, r->file, r->profile, r->length, &err)) fail_msg("%s: %s", r->file, err.text);
    const gyre_layer_reading *group = reading->groups[0];
    gyre_encoding *encoding = NULL;
    assert_ok(gyre_encoding_create(&encoding, &group->config, NULL, &err));
    const struct gyre_rope_config *rope = &group->config.rope;
    assert_int_equal(rope->layout, r->layout);
    assert_int_equal(group->config.head_dim, r->head_dim);
    assert_int_equal(gyre_encoding_get_config(encoding)->rope.dim, r->dim);
    assert_int_equal(rope->axes, r->axes);
    if (r->max_length) assert_string_equal(field_of(group, "max_length")->value, r->max_length);
    assert_ok(gyre_encoding_frequencies(encoding, r->length, frequencies, &attention));
    close_to(attention, r->attention, r->file);
    close_to(group->softmax_multiplier, r->softmax, r->file);
    for (int i = 0; i < MAX_GIVEN && r->given[i].frequency != 0; i++)
        close_to(frequencies[r->given[i].pair], r->given[i].frequency, r->file);
    gyre_encoding_free(encoding);
    gyre_reading_free(reading);
}

static void frequencies_of_reports(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof reports / sizeof *reports; i++)
        check_report(&reports[i]);
}

/* transformers has no function of the name. */
static void refuses_a_name_of_vllm(void **state) {
    (void)state;
    gyre_reading *reading = NULL;
    gyre_error err = {0, ""};
    assert_int_equal(open_as(&reading, "../files/deepseek-yarn-type-on-v3", GYRE_PROFILE_HF_5, 0, &err), GYRE_EUNSUPPORTED);
    assert_non_null(strstr(err.text, "\"deepseek_yarn\" is vLLM's name of yarn"));
    assert_non_null(strstr(err.text, "line 24"));
}

/* -- axes -- */
static void axes_of_reports(void **state) {
    (void)state;
    static const gyre_profile profiles[] = {GYRE_PROFILE_HF_5, GYRE_PROFILE_LLAMA_CPP, GYRE_PROFILE_VLLM};
    for (int i = 0; i < 3; i++) {
        gyre_reading *reading = NULL;
        gyre_error err = {0, ""};
        assert_ok(open_as(&reading, "qwen3.8-flash-next", profiles[i], 0, &err));
        const gyre_layer_reading *full = group_of(reading, "full_attention");
        assert_int_equal(full->config.rope.axes_layout, GYRE_AXES_INTERLEAVED);
        assert_int_equal(full->config.rope.axis_pairs[0], 11);
        assert_int_equal(full->config.rope.axis_pairs[2], 10);
        assert_int_equal(full->layers_count, 10);
        assert_int_equal(full->layers[9], 39);
        gyre_reading_free(reading);
    }
}

/* A class's own sections, and those of a type that nobody knows. */
static void axes_of_classes(void **state) {
    (void)state;
    static const char sizes[] = "'hidden_size':2048,'num_attention_heads':16,'max_position_embeddings':4096";
    static const struct {
        const char *text;
        gyre_profile profile;
        gyre_axes layout;
        int64_t first, axes;
        const char *doubt;
    } rows[] = {
        {"'model_type':'cosmos3_edge_text','head_dim':128,'rope_parameters':{'rope_type':'default','rope_theta':1e8}",
         GYRE_PROFILE_HF_5, GYRE_AXES_INTERLEAVED, 24, 3, NULL},
        {"'model_type':'hy_v4_vl_text','qk_rope_head_dim':64,'qk_nope_head_dim':192,'rope_parameters':{'rope_theta':1e6}",
         GYRE_PROFILE_HF_5, GYRE_AXES_INTERLEAVED, 12, 3, NULL},
        {"'model_type':'qwen2_vl_text','rope_parameters':{'rope_type':'default'}", GYRE_PROFILE_HF_5, GYRE_AXES_CHUNKED, 16,
         3, NULL},
        /* Sections of the class for heads of another size. */
        {"'model_type':'qwen3_vl_text','head_dim':64", GYRE_PROFILE_HF_5, GYRE_AXES_INTERLEAVED, 11, 3, NULL},
        {"'model_type':'qwen3_5_text','head_dim':64", GYRE_PROFILE_HF_5, GYRE_AXES_INTERLEAVED, 3, 3, NULL},
        {"'model_type':'qwen2_vl_text','head_dim':64", GYRE_PROFILE_HF_5, GYRE_AXES_CHUNKED, 0, 0, NULL},
        {"'model_type':'novel_vl','rope_parameters':{'rope_type':'default','mrope_section':[24,20,20],"
         "'mrope_interleaved':true}",
         GYRE_PROFILE_HF_5, GYRE_AXES_INTERLEAVED, 24, 3, "mrope_section: its axes are assumed to be interleaved"},
        {"'model_type':'novel_vl','rope_parameters':{'rope_type':'mrope','mrope_section':[24,20,20]}",
         GYRE_PROFILE_LLAMA_CPP, GYRE_AXES_CHUNKED, 24, 3, "mrope_section: its axes are assumed to be in blocks"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[1024];
        snprintf(text, sizeof text, "{%s,%s}", rows[i].text, sizes);
        for (char *c = text; *c; c++)
            if (*c == '\'') *c = '"';
        gyre_reading *reading = parse_as(text, rows[i].profile);
        const struct gyre_rope_config *rope = &reading->groups[0]->config.rope;
        assert_int_equal(rope->axes, rows[i].axes);
        assert_int_equal(rope->axes_layout, rows[i].layout);
        assert_int_equal(rope->axis_pairs[0], rows[i].first);
        if (rows[i].doubt) assert_int_equal(find_warning(reading, rows[i].doubt)->kind, GYRE_WARNING_ASSUMED);
        gyre_reading_free(reading);
    }
}

/* -- keys that nothing reads -- */
static gyre_reading *llama_with(const char *more) {
    char text[2048];
    snprintf(text, sizeof text,
             "{\"model_type\": \"llama\", \"hidden_size\": 64, \"num_attention_heads\": 4,\n\"max_position_embeddings\": 64,"
             " \"num_hidden_layers\": 4,\n%s}",
             more);
    return parse_as(text, GYRE_PROFILE_DEFAULT);
}

static void unread_keys(void **state) {
    (void)state;
    static const char *const keys[] = {
        "rotary_scaling_factor",  "max_trained_positions", "indexer_rope_interleave", "nope_every", "use_yarn", "swa_window",
        "partial_rotary_factors", "chunked_span",          "alibi_slope_max"};
    char more[200];
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        snprintf(more, sizeof more, "\"%s\": 3", keys[i]);
        gyre_reading *reading = llama_with(more);
        const gyre_reading_warning *warning = find_warning(reading, "nothing reads it");
        assert_non_null(warning);
        assert_string_equal(warning->key, keys[i]);
        assert_int_equal(warning->line, 3);
        assert_int_equal(warning->kind, GYRE_WARNING_UNREAD_KEY);
        gyre_reading_free(reading);
    }
}

/* Values that ask for nothing, names without a word of positions, keys of other things, and numbers that say the same. */
static void keys_without_doubt(void **state) {
    (void)state;
    static const char *const mores[] = {"\"use_yarn\": false",
                                        "\"rotary_scaling_factor\": null",
                                        "\"nope_every\": 0",
                                        "\"xpos_list\": [0, 0, null]",
                                        "\"properties\": 3",
                                        "\"europe\": \"yes\"",
                                        "\"routed_scaling_factor\": 2.5",
                                        "\"rope_theta_of_all\": 10000.0",
                                        "\"partial_factor\": 1.0",
                                        "\"vision_config\": {\"rope_theta\": 5}",
                                        "\"quantization_config\": {\"window_size\": 5}"};
    for (size_t i = 0; i < sizeof mores / sizeof *mores; i++) {
        gyre_reading *reading = llama_with(mores[i]);
        for (int64_t w = 0; w < reading->warnings_count; w++)
            if (reading->warnings[w].kind == GYRE_WARNING_UNREAD_KEY)
                fail_msg("%s: %s", mores[i], reading->warnings[w].text);
        gyre_reading_free(reading);
    }
}

/* A stranger's file with many such keys has twenty doubts and one for the rest. */
static void doubts_have_an_end(void **state) {
    (void)state;
    enum { KEYS = 20000 };
    static char text[KEYS * 24 + 256];
    size_t used = (size_t)snprintf(text, sizeof text,
                                   "{\"model_type\": \"llama\", \"hidden_size\": 64, "
                                   "\"num_attention_heads\": 4, \"max_position_embeddings\": 64");
    for (int i = 0; i < KEYS; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, ",\n\"rope_k%d\": 7", i);
    snprintf(text + used, sizeof text - used, "}");
    gyre_reading *reading = parse_as(text, GYRE_PROFILE_DEFAULT);
    assert_int_equal(reading->warnings_count, 21);
    assert_string_equal(reading->warnings[20].text, "19980 more keys with names of positions that nothing reads");
    assert_int_equal(reading->warnings[20].line, 22);
    gyre_reading_free(reading);
}

/* In the decoder's object, and in that of its rotation. */
static void unread_keys_within(void **state) {
    (void)state;
    gyre_reading *reading = parse_as("{\"model_type\": \"llava\", \"text_config\": {\"model_type\": \"llama\",\n"
                                     "\"hidden_size\": 64, \"num_attention_heads\": 4, \"max_position_embeddings\": 64,\n"
                                     "\"layer_rope_theta\": [1, 2],\n"
                                     "\"rope_parameters\": {\"rope_type\": \"default\",\n\"yarn_span\": 2}}}",
                                     GYRE_PROFILE_HF_5);
    const gyre_reading_warning *list = find_warning(reading, "layer_rope_theta: "),
                               *span = find_warning(reading, "yarn_span: ");
    assert_string_equal(list->key, "text_config.layer_rope_theta");
    assert_int_equal(list->line, 3);
    assert_string_equal(span->key, "text_config.rope_parameters.yarn_span");
    assert_int_equal(span->kind, GYRE_WARNING_UNREAD_KEY);
    assert_int_equal(span->line, 5);
    gyre_reading_free(reading);
}

/* -- layouts -- */
static void layouts_of_architectures(void **state) {
    (void)state;
    static const struct {
        const char *architecture;
        gyre_layout layout;
    } rows[] = {{"hy_v3", GYRE_LAYOUT_HALF},
                {"minimax-m3", GYRE_LAYOUT_HALF},
                {"step35", GYRE_LAYOUT_HALF},
                {"mellum", GYRE_LAYOUT_HALF},
                {"talkie", GYRE_LAYOUT_HALF},
                {"gemma4-assistant", GYRE_LAYOUT_HALF},
                {"deepseek4", GYRE_LAYOUT_INTERLEAVED},
                {"eagle3", GYRE_LAYOUT_INTERLEAVED},
                {"muse-glimmer", GYRE_LAYOUT_INTERLEAVED},
                {"muse_glimmer", GYRE_LAYOUT_INTERLEAVED},
                {"granite-switch", GYRE_LAYOUT_INTERLEAVED},
                {"nanbeige", GYRE_LAYOUT_INTERLEAVED},
                {"hy_v4", GYRE_LAYOUT_INTERLEAVED},
                {"dots3note", GYRE_LAYOUT_INTERLEAVED}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        made_gguf *made = model(rows[i].architecture, 128, 4096, 4);
        gyre_reading *reading = read_made(made);
        if (reading->groups[0]->config.rope.layout != rows[i].layout) fail_msg("%s", rows[i].architecture);
        gyre_reading_free(reading);
    }
}

/* Layers without a window rotate half of the stated channels. */
static void step35_rotates_half_where_full(void **state) {
    (void)state;
    made_gguf *made = model("step35", 128, 262144, 45);
    size_of(made, "step35", "rope.dimension_count", 128);
    real_of(made, "step35", "rope.freq_base", 5000000);
    gyre_reading *reading = read_made(made);
    assert_int_equal(reading->groups[0]->config.rope.layout, GYRE_LAYOUT_HALF);
    assert_int_equal(reading->groups[0]->config.rope.dim, 64);
    assert_int_equal(reading->groups[0]->config.head_dim, 128);
    gyre_reading_free(reading);
}

static void assumed_layouts(void **state) {
    (void)state;
    gyre_reading *reading = parse_as("{\"model_type\": \"novel\", \"hidden_size\": 64, \"num_attention_heads\": 4,\n"
                                     "\"rope_theta\": 10000.0, \"max_position_embeddings\": 64}",
                                     GYRE_PROFILE_DEFAULT);
    const gyre_reading_warning *warning = find_warning(reading, "\"novel\" is not known");
    assert_int_equal(warning->kind, GYRE_WARNING_ASSUMED);
    assert_non_null(strstr(warning->text, "layout of pairs, half, is assumed"));
    gyre_reading_free(reading);
    made_gguf *made = model("novel", 128, 4096, 2);
    real_of(made, "novel", "rope.freq_base", 500000);
    reading = read_made(made);
    warning = find_warning(reading, "\"novel\" is not known");
    assert_int_equal(warning->kind, GYRE_WARNING_ASSUMED);
    assert_non_null(strstr(warning->text, "layout interleaved"));
    gyre_reading_free(reading);
}

/* -- other programs' files -- */
static void transformers_of_diffusers(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int64_t axes, pairs[4];
        double base;
    } rows[] = {
        {"{\"_class_name\": \"FluxTransformer2DModel\", \"attention_head_dim\": 128}", 3, {8, 28, 28, 0}, 10000},
        {"{\"_class_name\": \"Flux2Transformer2DModel\", \"axes_dims_rope\": [32, 32, 32, 32]}", 4, {16, 16, 16, 16}, 2000},
        {"{\"_class_name\": \"QwenImageTransformer2DModel\", \"axes_dims_rope\": [16, 56, 56]}", 3, {8, 28, 28, 0}, 10000},
        {"{\"_class_name\": \"HunyuanVideoTransformer3DModel\", \"rope_theta\": 512}", 3, {8, 28, 28, 0}, 512},
        {"{\"_class_name\": \"WanTransformer3DModel\", \"attention_head_dim\": 128}", 3, {22, 21, 21, 0}, 10000},
        {"{\"_class_name\": \"CogVideoXTransformer3DModel\", \"use_rotary_positional_embeddings\": true}",
         3,
         {8, 12, 12, 0},
         10000},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        gyre_reading *reading = parse_as(rows[i].text, GYRE_PROFILE_DEFAULT);
        const struct gyre_rope_config *rope = &reading->groups[0]->config.rope;
        assert_int_equal(rope->axes, rows[i].axes);
        assert_int_equal(rope->axes_layout, GYRE_AXES_AXIAL);
        assert_int_equal(rope->layout, GYRE_LAYOUT_INTERLEAVED);
        for (int a = 0; a < 4; a++)
            assert_int_equal(rope->axis_pairs[a], rows[i].pairs[a]);
        assert_true(rope->base == rows[i].base);
        gyre_reading_free(reading);
    }
}

/* moonshine_streaming of transformers 5.24: 0.8 of the decoder's head rotates, in neighbours; the rest is named. */
static void streaming_moonshine(void **state) {
    (void)state;
    gyre_reading *reading =
        parse_as("{\"model_type\": \"moonshine_streaming\", \"hidden_size\": 320, \"num_hidden_layers\": 6,\n"
                 "\"num_attention_heads\": 8, \"max_position_embeddings\": 4096,\n"
                 "\"encoder_config\": {\"sliding_windows\": [[16, 4], [16, 0]]}}",
                 GYRE_PROFILE_DEFAULT);
    const struct gyre_rope_config *rope = &reading->groups[0]->config.rope;
    assert_int_equal(rope->dim, 32);
    assert_int_equal(rope->layout, GYRE_LAYOUT_INTERLEAVED);
    const gyre_reading_warning *warning = find_warning(reading, "a learned table of max_position_embeddings rows");
    assert_non_null(warning);
    assert_string_equal(warning->key, "encoder_config");
    assert_int_equal(warning->line, 3);
    gyre_reading_free(reading);
}

static void refused_in_exact_words(void **state) {
    (void)state;
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"{\"_class_name\": \"LTXVideoTransformer3DModel\"}", "rise from pi / 2"},
        {"{\"_class_name\": \"Unheard\"}", "\"Unheard\" of diffusers is not known"},
        {"{\"_class_name\": \"CogVideoXTransformer3DModel\"}", "a table of sinusoids"},
        {"{\"_class_name\": \"FluxTransformer2DModel\", \"axes_dims_rope\": [15, 1]}", "entry 0 is not an even number"},
        {"{\"_class_name\": \"WanTransformer3DModel\", \"attention_head_dim\": 5}", "do not divide into pairs"},
        {"{\"model_type\": \"inkling\"}", "a learned bias by distance"},
        {"{\"model_type\": \"inkling2_text\", \"rope_theta\": 1e4}", "a learned bias by distance"},
        {"{\"model_type\": \"dinov3_vit\", \"rope_theta\": 100.0}", "patch centres between -1 and 1 rotate pairs"},
        {"{\"model_type\": \"sam2_vision_model\"}", "tables of rows and columns"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        gyre_reading *reading = NULL;
        gyre_error err = {0, ""};
        const gyre_status status = gyre_reading_parse(&reading, rows[i].text, strlen(rows[i].text), NULL, &err);
        if (!status || !strstr(err.text, rows[i].says)) fail_msg("%s: %s", rows[i].text, err.text);
    }
}

/* Rows take the even entries of the list of frequencies, columns the odd ones. */
static void pixtral_tower_alone(void **state) {
    (void)state;
    gyre_error err = {0, ""};
    double frequencies[32], attention;
    gyre_encoding *encoding = NULL;
    gyre_reading *reading = parse_as("{\"model_type\": \"pixtral\", \"hidden_size\": 1024, \"num_attention_heads\": 16,\n"
                                     "\"head_dim\": 64, \"rope_theta\": 10000.0}",
                                     GYRE_PROFILE_DEFAULT);
    assert_ok(gyre_encoding_create(&encoding, &group_of(reading, "vision")->config, NULL, &err));
    assert_ok(gyre_encoding_frequencies(encoding, 0, frequencies, &attention));
    for (int i = 0; i < 16; i++) {
        close_to(frequencies[i], pow(10000.0, -4.0 * i / 64.0), "a row's frequency");
        close_to(frequencies[16 + i], pow(10000.0, -(4.0 * i + 2.0) / 64.0), "a column's frequency");
    }
    gyre_encoding_free(encoding);
    gyre_reading_free(reading);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frequencies_of_reports),
        cmocka_unit_test(refuses_a_name_of_vllm),
        cmocka_unit_test(axes_of_reports),
        cmocka_unit_test(axes_of_classes),
        cmocka_unit_test(unread_keys),
        cmocka_unit_test(keys_without_doubt),
        cmocka_unit_test(doubts_have_an_end),
        cmocka_unit_test(unread_keys_within),
        cmocka_unit_test(layouts_of_architectures),
        cmocka_unit_test(step35_rotates_half_where_full),
        cmocka_unit_test(assumed_layouts),
        cmocka_unit_test(transformers_of_diffusers),
        cmocka_unit_test(streaming_moonshine),
        cmocka_unit_test(refused_in_exact_words),
        cmocka_unit_test(pixtral_tower_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
