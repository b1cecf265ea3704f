/* test_reading_write.c: writing other positions into a config.json: what changes, what does not, and how it reads back. */
#include "run_command.h"

#include <math.h>

static const char llama2[] = "{\n"
                             "  \"architectures\": [\n    \"LlamaForCausalLM\"\n  ],\n"
                             "  \"model_type\": \"llama\",\n"
                             "  \"hidden_size\": 4096,\n"
                             "  \"num_attention_heads\": 32,\n"
                             "  \"num_hidden_layers\": 32,\n"
                             "  \"max_position_embeddings\": 4096,\n"
                             "  \"rms_norm_eps\": 1e-05,\n"
                             "  \"rope_theta\": 10000.0,\n"
                             "  \"rope_scaling\": null,\n"
                             "  \"vocab_size\": 32000\n"
                             "}\n";
static const char llama31[] = "{\n"
                              "  \"model_type\": \"llama\",\n"
                              "  \"hidden_size\": 4096,\n"
                              "  \"num_attention_heads\": 32,\n"
                              "  \"num_hidden_layers\": 32,\n"
                              "  \"max_position_embeddings\": 131072,\n"
                              "  \"rope_scaling\": {\n"
                              "    \"factor\": 8.0,\n"
                              "    \"high_freq_factor\": 4.0,\n"
                              "    \"low_freq_factor\": 1.0,\n"
                              "    \"original_max_position_embeddings\": 8192,\n"
                              "    \"rope_type\": \"llama3\"\n"
                              "  },\n"
                              "  \"rope_theta\": 500000.0\n"
                              "}\n";
static const char partial[] = "{\n"
                              "    \"model_type\": \"stablelm\",\n"
                              "    \"hidden_size\": 2560,\n"
                              "    \"num_attention_heads\": 32,\n"
                              "    \"num_hidden_layers\": 32,\n"
                              "    \"max_position_embeddings\": 4096,\n"
                              "    \"partial_rotary_factor\": 0.25,\n"
                              "    \"rope_theta\": 10000\n"
                              "}";

/* -- positions -- */
/* 128 channels, base 10000, 4096 tokens: llama2's. */
static gyre_config stretched(gyre_scaling scaling, double factor) {
    gyre_config c = GYRE_INIT(gyre_config);
    c.kind = GYRE_KIND_ROPE;
    c.head_dim = 128;
    c.trained_length = 4096;
    c.rope.base = 10000;
    c.rope.scaling = scaling;
    c.rope.factor = factor;
    return c;
}

static gyre_config stretched_llama31(gyre_scaling scaling, double factor) {
    gyre_config c = stretched(scaling, factor);
    c.trained_length = 8192;
    c.rope.base = 500000;
    return c;
}

static gyre_reading *reading_of(const char *path, gyre_profile profile, int64_t length) {
    gyre_reading *reading = NULL;
    gyre_error err = {0, ""};
    if (gyre_reading_open(&reading, path, &(gyre_reading_options){sizeof(gyre_reading_options), profile, length, NULL},
                          &err))
        fail_msg("%s", err.text);
    return reading;
}

static json_t *json_of(const char *name) {
    json_error_t error;
    json_t *root = json_load_file(in_folder(name), JSON_REJECT_DUPLICATES, &error);
    if (!root) fail_msg("%s: line %d: %s", name, error.line, error.text);
    return root;
}

/* Writes `text` to "in", and the file with the new positions to "out". */
static void must_write(const char *text, const gyre_config *position, int64_t length) {
    gyre_error err = {0, ""};
    write_file("in", text, strlen(text));
    if (gyre_reading_write(in_folder("in"), position, length, in_folder("out"), &err)) fail_msg("%s", err.text);
}

static void assert_text(const char *name, const char *want) {
    static char got[1 << 15];
    read_whole(in_folder(name), got, sizeof got);
    if (strcmp(got, want) != 0) fail_msg("%s:\n%s\nexpected\n%s", name, got, want);
}

/* -- by the formulas of the papers -- */
typedef long double frequency_of(int pair, long double theta);
static const long double two_pi = 6.283185307179586476925286766559L;

/* The file named `out`, read as transformers 5 does at a length. */
static void assert_turns(int64_t length, int pairs, long double base, frequency_of *want, double attention) {
    gyre_reading *reading = reading_of(in_folder("out"), GYRE_PROFILE_HF_5, length);
    gyre_encoding *encoding = test_encoding(&reading->groups[0]->config);
    double got[256], factor;
    assert_int_equal(gyre_encoding_get_config(encoding)->rope.dim, 2 * pairs);
    assert_ok(gyre_encoding_frequencies(encoding, length, got, &factor));
    for (int i = 0; i < pairs; i++) {
        const long double omega = want(i, powl(base, -(long double)i / pairs));
        test_close(got[i], omega, 1e-12L * omega, "frequency");
    }
    test_close(factor, attention, 1e-12L * attention, "attention factor");
    gyre_encoding_free(encoding);
    gyre_reading_free(reading);
}

static long double divided_by_4(int pair, long double theta) {
    (void)pair;
    return theta / 4;
}
/* base 4^(128 / 126): pair i rotates slower by 4^(i / 63). */
static long double ntk_by_4(int pair, long double theta) {
    return theta * powl(4, -(long double)pair / 63);
}
/* Llama 2's ramp is between pairs 20 and 46. */
static long double by_parts_4(int pair, long double theta) {
    long double ramp = ((long double)pair - 20) / 26;
    ramp = ramp < 0 ? 0 : ramp > 1 ? 1 : ramp;
    return theta / 4 * ramp + theta * (1 - ramp);
}
static long double paper_parts_4(int pair, long double theta) {
    (void)pair;
    const long double turns = 4096 * theta / two_pi;
    const long double keep = turns < 1 ? 0 : turns > 32 ? 1 : (turns - 1) / 31;
    return keep * theta + (1 - keep) * theta / 4;
}
static long double mixed_4(int pair, long double theta) {
    return theta / expl(logl(4) / powl(64, 0.625L) * powl(pair + 1, 0.625L));
}
static long double resonant_4(int pair, long double theta) {
    return two_pi / roundl(two_pi / by_parts_4(pair, theta));
}
static long double llama3_by_4(int pair, long double theta) {
    (void)pair;
    const long double turns = 4096 * theta / two_pi;
    if (turns > 4) return theta;
    if (turns < 1) return theta / 4;
    const long double smooth = (turns - 1) / 3;
    return (1 - smooth) * theta / 4 + smooth * theta;
}
static long double kept(int pair, long double theta) {
    (void)pair;
    return theta;
}
static long double doubled_from_8(int pair, long double theta) {
    return pair < 8 ? theta / 1.5L : theta / 3;
}

static void every_method_reads_back(void **state) {
    (void)state;
    static const struct {
        gyre_scaling scaling;
        int resonance;
        frequency_of *want;
        double attention;
    } cases[] = {{GYRE_SCALING_NONE, 0, kept, 1},
                 {GYRE_SCALING_LINEAR, 0, divided_by_4, 1},
                 {GYRE_SCALING_NTK, 0, ntk_by_4, 1},
                 {GYRE_SCALING_BY_PARTS, 0, by_parts_4, 1},
                 {GYRE_SCALING_BY_PARTS_PAPER, 0, paper_parts_4, 1},
                 {GYRE_SCALING_YARN, 0, by_parts_4, 1.1386294361119891},
                 {GYRE_SCALING_YARN, 1, resonant_4, 1.1386294361119891},
                 {GYRE_SCALING_LLAMA3, 0, llama3_by_4, 1},
                 {GYRE_SCALING_NTK_MIXED, 0, mixed_4, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gyre_config c = stretched(cases[i].scaling, cases[i].scaling == GYRE_SCALING_NONE ? 1 : 4);
        c.rope.resonance = cases[i].resonance;
        must_write(llama2, &c, 16384);
        assert_turns(16384, 64, 10000, cases[i].want, cases[i].attention);
    }
}

/* Its frequencies follow the length, and are the trained ones below the trained length. */
static void dynamic_reads_back(void **state) {
    (void)state;
    const gyre_config c = stretched(GYRE_SCALING_DYNAMIC_NTK, 1);
    must_write(llama2, &c, 16384);
    assert_turns(16384, 64, 10000, ntk_by_4, 1);
    assert_turns(4096, 64, 10000, kept, 1);
    json_t *root = json_of("out");
    assert_int_equal(test_integer(root, "max_position_embeddings"), 4096); /* the length that transformers counts from */
    json_decref(root);
}

static void lists_read_back(void **state) {
    (void)state;
    double near[64], far[64];
    gyre_config c = stretched(GYRE_SCALING_LONGROPE, 4);
    for (int i = 0; i < 64; i++) {
        near[i] = 1;
        far[i] = i < 8 ? 1.5 : 3;
    }
    c.rope.short_factor = near;
    c.rope.long_factor = far;
    must_write(llama2, &c, 16384);
    const double attention = sqrt(1 + log(4) / log(4096));
    assert_turns(16384, 64, 10000, doubled_from_8, attention);
    assert_turns(4096, 64, 10000, kept, attention);
    json_t *root = json_of("out"), *dict = json_object_get(root, "rope_scaling");
    assert_int_equal(json_array_size(json_object_get(dict, "long_factor")), 64);
    /* transformers 4 reads it only here. */
    assert_int_equal(test_integer(root, "original_max_position_embeddings"), 4096);
    json_decref(root);
}

static void an_attention_factor_of_its_own_is_kept(void **state) {
    (void)state;
    gyre_config c = stretched(GYRE_SCALING_YARN, 4);
    c.rope.attention_factor = 1.25;
    must_write(llama2, &c, 16384);
    assert_turns(16384, 64, 10000, by_parts_4, 1.25);
    c = stretched(GYRE_SCALING_LINEAR, 4); /* which has no such key: it is written as lists */
    c.rope.attention_factor = 1.25;
    must_write(llama2, &c, 16384);
    assert_turns(16384, 64, 10000, divided_by_4, 1.25);
}

static const char native_model[] =
    "{\n  \"model_type\": \"gyre\",\n  \"hidden_size\": 512,\n  \"num_attention_heads\": 4,\n  \"num_hidden_layers\": 2,\n"
    "  \"head_dim\": 128,\n  \"max_position_embeddings\": 4096,\n  \"position_embedding_type\": \"rope\",\n"
    "  \"rope_theta\": 10000.0,\n  \"rope_scaling\": null\n}\n";

/* Gyre's own files have a name for every scaling, and need no lists. */
static void native_models_write_all_fields(void **state) {
    (void)state;
    static const struct {
        gyre_scaling scaling;
        int resonance;
        frequency_of *want;
        const char *type;
    } cases[] = {{GYRE_SCALING_NTK, 0, ntk_by_4, "ntk"},
                 {GYRE_SCALING_BY_PARTS, 0, by_parts_4, "by-parts"},
                 {GYRE_SCALING_BY_PARTS, 1, resonant_4, "by-parts"},
                 {GYRE_SCALING_BY_PARTS_PAPER, 0, paper_parts_4, "by-parts-paper"},
                 {GYRE_SCALING_NTK_MIXED, 0, mixed_4, "ntk-mixed"},
                 {GYRE_SCALING_DYNAMIC_YARN, 0, by_parts_4, "dynamic-yarn"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gyre_config c = stretched(cases[i].scaling, 4);
        c.rope.resonance = cases[i].resonance;
        must_write(native_model, &c, 16384);
        const int is_yarn = cases[i].scaling == GYRE_SCALING_DYNAMIC_YARN;
        assert_turns(16384, 64, 10000, cases[i].want, is_yarn ? 0.1 * log(4) + 1 : 1);
        if (is_yarn) assert_turns(4096, 64, 10000, kept, 1);
        json_t *root = json_of("out"), *dict = json_object_get(root, "rope_scaling");
        assert_string_equal(test_string(dict, "rope_type"), cases[i].type);
        assert_null(json_object_get(dict, "long_factor"));
        assert_int_equal(json_is_true(json_object_get(root, "rope_resonance")), cases[i].resonance);
        json_decref(root);
    }
}

/* 20 of 80 channels: d is 20 in the exponent of the base and in the ramp. */
static long double ntk_by_4_of_20(int pair, long double theta) {
    return theta * powl(4, -(long double)pair / 9);
}
static void partial_rotation_counts_its_own_channels(void **state) {
    (void)state;
    gyre_config c = stretched(GYRE_SCALING_NTK, 4);
    c.head_dim = 80;
    c.rope.dim = 20;
    must_write(partial, &c, 16384);
    assert_turns(16384, 10, 10000, ntk_by_4_of_20, 1);
    json_t *root = json_of("out");
    const long double base = 10000 * powl(4, 20.0L / 18);
    test_close(test_number(root, "rope_theta"), base, 1e-12L * base, "rope_theta");
    assert_true(test_number(root, "partial_rotary_factor") == 0.25);
    assert_null(json_object_get(root, "rope_scaling"));
    json_decref(root);
}

/* -- byte for byte -- */
static void null_is_replaced_by_a_scaling(void **state) {
    (void)state;
    const gyre_config c = stretched(GYRE_SCALING_YARN, 4);
    must_write(llama2, &c, 16384);
    assert_text("out", "{\n"
                       "  \"architectures\": [\n"
                       "    \"LlamaForCausalLM\"\n"
                       "  ],\n"
                       "  \"model_type\": \"llama\",\n"
                       "  \"hidden_size\": 4096,\n"
                       "  \"num_attention_heads\": 32,\n"
                       "  \"num_hidden_layers\": 32,\n"
                       "  \"max_position_embeddings\": 16384,\n"
                       "  \"rms_norm_eps\": 1e-05,\n"
                       "  \"rope_theta\": 10000.0,\n"
                       "  \"rope_scaling\": {\n"
                       "    \"rope_type\": \"yarn\",\n"
                       "    \"factor\": 4.0,\n"
                       "    \"original_max_position_embeddings\": 4096\n"
                       "  },\n"
                       "  \"vocab_size\": 32000\n"
                       "}\n");
    assert_text("in", llama2);
}

static void scaling_replaces_scaling(void **state) {
    (void)state;
    const gyre_config c = stretched_llama31(GYRE_SCALING_BY_PARTS, 32);
    must_write(llama31, &c, 262144);
    assert_text("out", "{\n"
                       "  \"model_type\": \"llama\",\n"
                       "  \"hidden_size\": 4096,\n"
                       "  \"num_attention_heads\": 32,\n"
                       "  \"num_hidden_layers\": 32,\n"
                       "  \"max_position_embeddings\": 262144,\n"
                       "  \"rope_scaling\": {\n"
                       "    \"factor\": 32.0,\n"
                       "    \"original_max_position_embeddings\": 8192,\n"
                       "    \"attention_factor\": 1.0,\n"
                       "    \"rope_type\": \"yarn\"\n"
                       "  },\n"
                       "  \"rope_theta\": 500000.0\n"
                       "}\n");
}

static void scaling_is_removed(void **state) {
    (void)state;
    const gyre_config c = stretched_llama31(GYRE_SCALING_NONE, 1);
    must_write(llama31, &c, 8192);
    assert_text("out", "{\n"
                       "  \"model_type\": \"llama\",\n"
                       "  \"hidden_size\": 4096,\n"
                       "  \"num_attention_heads\": 32,\n"
                       "  \"num_hidden_layers\": 32,\n"
                       "  \"max_position_embeddings\": 8192,\n"
                       "  \"rope_scaling\": null,\n"
                       "  \"rope_theta\": 500000.0\n"
                       "}\n");
}

/* Edits shown without a file of their own: the text before and after. */
static void config_shapes_are_preserved(void **state) {
    (void)state;
#define SIZES "\"model_type\": \"llama\", \"hidden_size\": 4096, \"num_attention_heads\": 32, \"num_hidden_layers\": 2"
    static const struct {
        const char *before, *after;
        gyre_scaling scaling;
    } cases[] = {
        /* One line, and `type`. */
        {"{" SIZES ", \"max_position_embeddings\": 8192, \"rope_scaling\": {\"type\": \"linear\", \"factor\": 2.0}}",
         "{" SIZES ", \"max_position_embeddings\": 16384, \"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4.0, "
         "\"original_max_position_embeddings\": 4096}}",
         GYRE_SCALING_YARN},
        /* Of version 5, flat. */
        {"{" SIZES ", \"max_position_embeddings\": 4096, \"rope_parameters\": {\"rope_theta\": 10000.0, \"rope_type\": "
         "\"default\"}}",
         "{" SIZES ", \"max_position_embeddings\": 16384, \"rope_parameters\": {\"rope_theta\": 10000.0, \"rope_type\": "
         "\"linear\", \"factor\": 4.0}}",
         GYRE_SCALING_LINEAR},
        /* A scaling that is already right keeps its spelling. */
        {"{" SIZES
         ", \"max_position_embeddings\": 16384,\t\"rope_scaling\": {\"factor\": 4, \"rope_type\": \"linear\"} }\r\n",
         "{" SIZES
         ", \"max_position_embeddings\": 16384,\t\"rope_scaling\": {\"factor\": 4, \"rope_type\": \"linear\"} }\r\n",
         GYRE_SCALING_LINEAR},
        /* Defaults that the file states, and keys of another scaling. */
        {"{" SIZES ", \"max_position_embeddings\": 8192, \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 2.0, "
         "\"original_max_position_embeddings\": 4096, \"beta_fast\": 32, \"beta_slow\": 2, \"attention_factor\": 1.5}}",
         "{" SIZES ", \"max_position_embeddings\": 16384, \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4.0, "
         "\"original_max_position_embeddings\": 4096, \"beta_fast\": 32}}",
         GYRE_SCALING_YARN},
        /* No key to insert after. */
        {"{" SIZES ", \"max_position_embeddings\": 4096}",
         "{" SIZES ", \"max_position_embeddings\": 16384, \"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 4.0}}",
         GYRE_SCALING_LINEAR},
        /* A model described by text_config. */
        {"{\"model_type\": \"llama\", \"text_config\": {" SIZES ", \"max_position_embeddings\": 4096}, \"n\": 1}",
         "{\"model_type\": \"llama\", \"text_config\": {" SIZES
         ", \"max_position_embeddings\": 16384, \"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 4.0}}, \"n\": 1}",
         GYRE_SCALING_LINEAR}};
#undef SIZES
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const gyre_config c = stretched(cases[i].scaling, 4);
        must_write(cases[i].before, &c, 16384);
        assert_text("out", cases[i].after);
    }
}

static const char nested[] = "{\n"
                             "  \"model_type\": \"gemma3_text\", \"head_dim\": 128, \"hidden_size\": 1024,\n"
                             "  \"num_attention_heads\": 8, \"num_hidden_layers\": 3, \"query_pre_attn_scalar\": 128,\n"
                             "  \"max_position_embeddings\": 4096, \"sliding_window\": 512,\n"
                             "  \"layer_types\": [\"sliding_attention\", \"sliding_attention\", \"full_attention\"],\n"
                             "  \"rope_parameters\": {\n"
                             "    \"full_attention\": {\n"
                             "      \"rope_theta\": 10000.0,\n"
                             "      \"rope_type\": \"default\"\n"
                             "    },\n"
                             "    \"sliding_attention\": {\n"
                             "      \"rope_theta\": 5000.0,\n"
                             "      \"rope_type\": \"default\"\n"
                             "    }\n"
                             "  }\n"
                             "}\n";

/* Layers without a window change. Layers with a window keep their base. */
static void nested_scalings_of_global_layers_change(void **state) {
    (void)state;
    char want[sizeof nested + 100];
    const char *type = strstr(nested, "\"default\""), *length = strstr(nested, "4096");
    snprintf(want, sizeof want, "%.*s16384%.*s\"linear\",\n      \"factor\": 4.0%s", (int)(length - nested), nested,
             (int)(type - length - 4), length + 4, type + strlen("\"default\""));
    const gyre_config c = stretched(GYRE_SCALING_LINEAR, 4);
    must_write(nested, &c, 16384);
    assert_text("out", want);
    gyre_reading *reading = reading_of(in_folder("out"), GYRE_PROFILE_HF_5, 16384);
    for (int64_t i = 0; i < reading->groups_count; i++)
        assert_int_equal(reading->groups[i]->config.rope.scaling,
                         reading->groups[i]->window ? GYRE_SCALING_NONE : GYRE_SCALING_LINEAR);
    assert_int_equal(reading->groups_count, 2);
    gyre_reading_free(reading);
}

/* -- real models -- */
/* Keys that a change of the rotation may touch. */
static int is_of_rotation(const char *key) {
    static const char *const words[] = {"rope", "rotary", "position", "seq_length", "n_ctx", "max_sequence"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(key, words[i])) return 1;
    return 0;
}

static void remove_rotation(json_t *object) {
    const char *key;
    void *next;
    json_t *value;
    json_object_foreach_safe(object, next, key, value) {
        if (is_of_rotation(key))
            json_object_del(object, key);
        else
            remove_rotation(value);
    }
}

/* Lines of one file that are in the other, in order: all but those of the rotation must be. */
static void assert_lines_stay(const char *name, const char *before, const char *after) {
    int inside = 0; /* nesting depth inside the rotation's object */
    while (*before) {
        const size_t length = strcspn(before, "\n");
        char line[400];
        snprintf(line, sizeof line, "%.*s", (int)length, before);
        const int opens = strchr(line, '{') && !strchr(line, '}'), closes = strchr(line, '}') && !strchr(line, '{');
        const int ours = inside > 0 || is_of_rotation(line);
        if (inside > 0 || (ours && opens)) inside += opens - closes;
        if (!ours) {
            const size_t kept = strcspn(line, "\r");
            const size_t shown =
                kept > 0 && line[kept - 1] == ',' ? kept - 1 : kept; /* the last key may have another comma */
            line[shown] = '\0';
            const char *found = strstr(after, line);
            if (!found) fail_msg("%s: the line \"%s\" is not there any more, or stands elsewhere", name, line);
            after = found + shown;
        }
        before += length + (before[length] == '\n');
    }
}

static int is_stretchable(const gyre_reading *reading) {
    const gyre_config *c = &reading->groups[0]->config;
    return c->kind == GYRE_KIND_ROPE && reading->groups[0]->window == 0 && c->rope.scaling != GYRE_SCALING_PROPORTIONAL &&
           c->trained_length > 0;
}

static int stretch_real(const char *name, gyre_scaling scaling) {
    static char before[1 << 16], after[1 << 16];
    char path[512];
    gyre_reading *reading = NULL;
    gyre_error err = {0, ""};
    snprintf(path, sizeof path, "%s/configs/%s", GYRE_TEST_DATA, name);
    int written = 0;
    if (gyre_reading_open(&reading, path, NULL, NULL) == GYRE_OK && is_stretchable(reading)) {
        gyre_config c = reading->groups[0]->config;
        c.rope.scaling = scaling;
        c.rope.factor = 4;
        c.rope.attention_factor = c.rope.mscale = c.rope.mscale_all_dim = 0;
        c.rope.short_factor = c.rope.long_factor = NULL;
        const gyre_status status = gyre_reading_write(path, &c, 4 * c.trained_length, in_folder("out"), &err);
        if (status != GYRE_OK && status != GYRE_EUNSUPPORTED) fail_msg("%s: %s", name, err.text);
        written = status == GYRE_OK;
    }
    gyre_reading_free(reading);
    if (!written) return 0;
    read_whole(path, before, sizeof before);
    read_whole(in_folder("out"), after, sizeof after);
    assert_lines_stay(name, before, after);
    json_t *a = json_loads(before, 0, NULL), *b = json_loads(after, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(b);
    remove_rotation(a);
    remove_rotation(b);
    if (!json_equal(a, b)) fail_msg("%s: more than its rotation changed", name);
    json_decref(a);
    json_decref(b);
    return 1;
}

static void real_configs_keep_other_keys(void **state) {
    (void)state;
    static const gyre_scaling scalings[] = {GYRE_SCALING_LINEAR, GYRE_SCALING_NTK, GYRE_SCALING_YARN,
                                            GYRE_SCALING_NTK_MIXED};
    char path[400];
    int written[4] = {0, 0, 0, 0};
    snprintf(path, sizeof path, "%s/configs", GYRE_TEST_DATA);
    DIR *dir = opendir(path);
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir));)
        for (size_t i = 0; i < 4 && strstr(entry->d_name, ".json"); i++)
            written[i] += stretch_real(entry->d_name, scalings[i]);
    closedir(dir);
    for (size_t i = 0; i < 4; i++)
        if (written[i] < 70) fail_msg("only %d configs were written (scaling %d)", written[i], scalings[i]);
}

/* -- targets and failures -- */
static void a_folder_gets_a_config(void **state) {
    (void)state;
    const gyre_config c = stretched(GYRE_SCALING_LINEAR, 4);
    write_file("in", llama2, strlen(llama2));
    assert_int_equal(mkdir(in_folder("source"), 0777), 0);
    write_file("source/config.json", llama2, strlen(llama2));
    assert_int_equal(mkdir(in_folder("target"), 0777), 0);
    assert_ok(gyre_reading_write(in_folder("source"), &c, 16384, in_folder("target"), NULL));
    assert_int_equal(count_entries(in_folder("target")), 1);
    json_t *root = json_of("target/config.json");
    assert_int_equal(test_integer(root, "max_position_embeddings"), 16384);
    json_decref(root);
}

static void links_and_modes_are_preserved(void **state) {
    (void)state;
    const gyre_config c = stretched(GYRE_SCALING_LINEAR, 4);
    struct stat info;
    write_file("in", llama2, strlen(llama2));
    write_file("real", "old", 3);
    assert_int_equal(chmod(in_folder("real"), 0640), 0);
    assert_int_equal(symlink(in_folder("real"), in_folder("link")), 0);
    assert_ok(gyre_reading_write(in_folder("in"), &c, 16384, in_folder("link"), NULL));
    assert_int_equal(lstat(in_folder("link"), &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    assert_int_equal(stat(in_folder("real"), &info), 0);
    assert_int_equal(info.st_mode & 0777, 0640);
    json_t *root = json_of("real");
    assert_int_equal(test_integer(root, "max_position_embeddings"), 16384);
    json_decref(root);
}

static void refuse(const gyre_config *c, int64_t length, const char *target, gyre_status want, const char *says) {
    gyre_error err = {0, ""};
    const int before = count_entries(folder);
    const gyre_status got = gyre_reading_write(in_folder("in"), c, length, target, &err);
    if (got != want || !strstr(err.text, says)) fail_msg("%d, expected %d \"%s\": %s", got, want, says, err.text);
    assert_int_equal(count_entries(folder), before); /* no temporary file is left behind */
    assert_text("old", "old");
    assert_text("in", llama2);
}

/* Gyre's own files say it; lists of divisors cannot. */
static void clipped_pairs_and_start_tokens(void **state) {
    (void)state;
    gyre_config c = stretched(GYRE_SCALING_LINEAR, 4), longrope = stretched(GYRE_SCALING_LONGROPE, 4);
    c.rope.clip = (struct gyre_clip_config){GYRE_CLIP_HARD, 9};
    must_write(native_model, &c, 16384);
    json_t *root = json_of("out");
    assert_true(strcmp(test_string(root, "rope_clip"), "hard") == 0 && test_integer(root, "rope_clip_pairs") == 9);
    json_decref(root);
    double ones[64];
    for (int i = 0; i < 64; i++)
        ones[i] = 1;
    longrope.rope.short_factor = longrope.rope.long_factor = ones;
    longrope.rope.longrope = (struct gyre_longrope_config){6, GYRE_LONGROPE_START_RELEASED};
    must_write(native_model, &longrope, 16384);
    root = json_of("out");
    assert_true(strcmp(test_string(root, "rope_starts"), "released") == 0 && test_integer(root, "rope_start_tokens") == 6);
    json_decref(root);
    write_file("in", llama2, strlen(llama2)), write_file("old", "old", 3);
    refuse(&c, 16384, in_folder("old"), GYRE_EUNSUPPORTED, "does not rotate, which a list cannot state");
    refuse(&longrope, 16384, in_folder("old"), GYRE_EUNSUPPORTED, "start tokens: transformers has no key for them");
}

static void failure_changes_nothing(void **state) {
    (void)state;
    gyre_config c = stretched(GYRE_SCALING_LINEAR, 4);
    write_file("in", llama2, strlen(llama2));
    write_file("old", "old", 3);
    assert_int_equal(link(in_folder("in"), in_folder("other")), 0);
    refuse(&c, 16384, in_folder("in"), GYRE_EINVAL, "own file");
    refuse(&c, 16384, in_folder("other"), GYRE_EINVAL, "own file"); /* by another name */
    refuse(&c, 16384, "/dev/null", GYRE_EINVAL, "regular");
    refuse(&c, 16384, in_folder("missing/out"), GYRE_EIO, "missing/out");
    refuse(&c, 0, in_folder("old"), GYRE_EINVAL, "length");
    c.head_dim = 64;
    refuse(&c, 16384, in_folder("old"), GYRE_EUNSUPPORTED, "channels");
    c = stretched(GYRE_SCALING_LINEAR, 0.5);
    refuse(&c, 16384, in_folder("old"), GYRE_EINVAL, "factor");
    c = stretched(GYRE_SCALING_LINEAR, 4);
    c.trained_length = 0;
    refuse(&c, 16384, in_folder("old"), GYRE_EINVAL, "trained_length");
    c = stretched(GYRE_SCALING_DYNAMIC_NTK, 2);
    c.rope.resonance = 1;
    refuse(&c, 16384, in_folder("old"), GYRE_EUNSUPPORTED, "dynamic");
    c = stretched(GYRE_SCALING_DYNAMIC_YARN, 4);
    refuse(&c, 16384, in_folder("old"), GYRE_EUNSUPPORTED, "frequencies follow the length");
    c = stretched(GYRE_SCALING_DYNAMIC_NTK, 2);
    c.length_policy = GYRE_LENGTH_POLICY_CAUSAL;
    refuse(&c, 16384, in_folder("old"), GYRE_EUNSUPPORTED, "another length policy");
    c = stretched(GYRE_SCALING_NONE, 1);
    c.rope.far = GYRE_FAR_CLAMPED;
    c.rope.far_window = 100;
    refuse(&c, 16384, in_folder("old"), GYRE_EUNSUPPORTED, "far positions");
    c = stretched(GYRE_SCALING_NONE, 1);
    c.query.temperature = GYRE_TEMPERATURE_LOG;
    refuse(&c, 16384, in_folder("old"), GYRE_EUNSUPPORTED, "temperature");
    c = stretched(GYRE_SCALING_NONE, 1);
    c.rope.layout = GYRE_LAYOUT_INTERLEAVED;
    refuse(&c, 16384, in_folder("old"), GYRE_EUNSUPPORTED, "layout");
    c = (gyre_config)GYRE_INIT(gyre_config);
    c.kind = GYRE_KIND_ALIBI;
    c.heads = 8;
    refuse(&c, 16384, in_folder("old"), GYRE_EUNSUPPORTED, "rotations");
    assert_int_equal(gyre_reading_write(in_folder("in"), NULL, 1, in_folder("old"), NULL), GYRE_EINVAL);
    assert_int_equal(gyre_reading_write(in_folder("nowhere"), &c, 1, in_folder("old"), NULL), GYRE_EUNSUPPORTED);
    assert_text("old", "old");
}

/* With another block, decoding would differ from the request, and the file has no key for it. */
static void other_length_blocks_are_refused(void **state) {
    (void)state;
    static const char native[] = "{\"model_type\": \"gyre\", \"hidden_size\": 512, \"num_attention_heads\": 4,\n"
                                 " \"num_hidden_layers\": 2, \"head_dim\": 128, \"max_position_embeddings\": 4096,\n"
                                 " \"position_embedding_type\": \"rope\", \"rope_theta\": 10000.0, \"rope_scaling\": null,\n"
                                 " \"length_policy\": \"causal\", \"length_block\": 48}\n";
    gyre_error err = {0, ""};
    gyre_config c = stretched(GYRE_SCALING_DYNAMIC_YARN, 4);
    c.length_policy = GYRE_LENGTH_POLICY_CAUSAL;
    c.length_block = 48;
    must_write(native, &c, 16384);
    write_file("old", "old", 3);
    c.length_block = 0; /* 64 */
    assert_int_equal(gyre_reading_write(in_folder("in"), &c, 16384, in_folder("old"), &err), GYRE_EUNSUPPORTED);
    assert_non_null(strstr(err.text, "another block of lengths"));
    assert_text("old", "old");
}

/* A key spelled with escapes is not found in the text. The check that reads back finds that, and nothing is written. */
static void unreadable_changes_are_refused(void **state) {
    (void)state;
    const gyre_config c = stretched(GYRE_SCALING_LINEAR, 4);
    gyre_error err = {0, ""};
    static const char text[] = "{\"model_type\": \"llama\", \"hidden_size\": 4096, \"num_attention_heads\": 32, "
                               "\"max\\u005fposition_embeddings\": 4096}";
    write_file("in", text, strlen(text));
    write_file("old", "old", 3);
    const int before = count_entries(folder);
    assert_int_not_equal(gyre_reading_write(in_folder("in"), &c, 16384, in_folder("old"), &err), GYRE_OK);
    assert_true(err.text[0] != 0);
    assert_int_equal(count_entries(folder), before); /* the file written for the check is removed */
    assert_text("old", "old");
}

/* transformers 5 does not read "truncate" in an object for one kind of layers. */
static void configs_that_read_back_differently_are_refused(void **state) {
    (void)state;
    gyre_error err = {0, ""};
    gyre_config c = stretched(GYRE_SCALING_YARN, 4);
    write_file("in", nested, strlen(nested));
    write_file("old", "old", 3);
    assert_ok(gyre_reading_write(in_folder("in"), &c, 16384, in_folder("out"), NULL));
    c.rope.fractional_bounds = 1;
    assert_int_equal(gyre_reading_write(in_folder("in"), &c, 16384, in_folder("old"), &err), GYRE_EUNSUPPORTED);
    assert_non_null(strstr(err.text, "read back"));
    assert_text("old", "old");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_method_reads_back),
                                       cmocka_unit_test(dynamic_reads_back),
                                       cmocka_unit_test(lists_read_back),
                                       cmocka_unit_test(an_attention_factor_of_its_own_is_kept),
                                       cmocka_unit_test(native_models_write_all_fields),
                                       cmocka_unit_test(clipped_pairs_and_start_tokens),
                                       cmocka_unit_test(partial_rotation_counts_its_own_channels),
                                       cmocka_unit_test(null_is_replaced_by_a_scaling),
                                       cmocka_unit_test(scaling_replaces_scaling),
                                       cmocka_unit_test(scaling_is_removed),
                                       cmocka_unit_test(config_shapes_are_preserved),
                                       cmocka_unit_test(nested_scalings_of_global_layers_change),
                                       cmocka_unit_test(real_configs_keep_other_keys),
                                       cmocka_unit_test(a_folder_gets_a_config),
                                       cmocka_unit_test(links_and_modes_are_preserved),
                                       cmocka_unit_test(failure_changes_nothing),
                                       cmocka_unit_test(other_length_blocks_are_refused),
                                       cmocka_unit_test(unreadable_changes_are_refused),
                                       cmocka_unit_test(configs_that_read_back_differently_are_refused)};
    return cmocka_run_group_tests(tests, make_empty_folder, remove_folder);
}
