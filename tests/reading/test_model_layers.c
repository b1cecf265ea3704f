/* test_model_layers.c: which layers of a model rotate, and rotations beside those of the attention: the models of reports,
 * and unknown model types with the same keys. */
#include "check_reading.h"

#include <math.h>
#include <stdio.h>

/* -- models of reports -- */
static gyre_reading *open_config(const char *file, gyre_profile profile) {
    char path[1024];
    gyre_reading *reading = NULL;
    gyre_error err = {0, ""};
    assert_true((size_t)snprintf(path, sizeof path, "%s/configs/%s.json", GYRE_TEST_DATA, file) < sizeof path);
    if (gyre_reading_open(&reading, path, GYRE_ARGS(gyre_reading_options, .profile = profile), &err))
        fail_msg("%s as %s: %s", file, gyre_profile_name(profile), err.text);
    return reading;
}

/* Layers as the reports list them: all of `layers`, or `first`, `first` + `step`, ... */
static const struct {
    const char *file, *group;
    int64_t count, first, step, layers[20];
} layers[] = {
    {"afmoe-nope-full", "nope", 8, 3, 4, {0}},
    {"k-exaone-236b", "nope", 12, 3, 4, {0}},
    {"deepseek-v3.2-indexer", "indexer", 61, 0, 1, {0}},
    {"glm-5.1-indexer", "indexer", 78, 0, 1, {0}},
    {"glm-5.1-indexer", "mtp", 1, 78, 1, {0}},
    {"gemma4-saved-by-transformers-5", "full_attention", 5, 5, 6, {0}},
    {"gemma4-shared-keys", "full_attention", 5, 5, 6, {0}},
    {"glm5-next-nope", "nope", 11, 3, 4, {0}},
    {"kimi-linear-48b", "nope", 7, 0, 0, {3, 7, 11, 15, 19, 23, 26}},
    {"kimi-linear-transformers", "nope", 6, 4, 4, {0}},
    {"llama-3.2-11b-vision", "cross_attention", 8, 3, 5, {0}},
    {"llama-3.2-11b-vision", "full_attention", 32, 0, 0, {0,  1,  2,  4,  5,  6,  7,  9,  10, 11,
                                                          12, 14, 15, 16, 17, 19, 20, 21, 22, 24}},
    {"minimax-text-01", "full_attention", 10, 7, 8, {0}},
    {"mistral-large-4", "nope", 18, 3, 4, {0}},
    {"mistral-large-4", "indexer", 54, 0, 0, {0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, 16, 17, 18, 20, 21, 22, 24, 25}},
    {"muse-glimmer", "nope", 13, 3, 4, {0}},
    {"recurrentgemma-2b", "sliding_attention", 8, 2, 3, {0}},
    {"recurrentgemma-2b", "linear_attention", 18, 0, 0, {0, 1, 3, 4, 6, 7, 9, 10, 12, 13, 15, 16, 18, 19, 21, 22, 24, 25}},
    {"step-3.5-flash", "full_attention", 12, 0, 4, {0}},
    {"step-3.5-flash", "sliding_attention", 33, 0, 0, {1,  2,  3,  5,  6,  7,  9,  10, 11, 13,
                                                       14, 15, 17, 18, 19, 21, 22, 23, 25, 26}},
    {"step-3.5-flash", "mtp", 3, 45, 1, {0}},
};

static void test_layers_of_reports(void **state) {
    (void)state;
    const gyre_profile profiles[] = {GYRE_PROFILE_HF_5, GYRE_PROFILE_VLLM, GYRE_PROFILE_LLAMA_CPP, GYRE_PROFILE_REFERENCE};
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
        for (int p = 0; p < 4; p++) {
            gyre_reading *r = open_config(layers[i].file, profiles[p]);
            const gyre_layer_reading *group = group_of(r, layers[i].group);
            if (group->layers_count != layers[i].count)
                fail_msg("%s, %s: %lld layers", layers[i].file, layers[i].group, (long long)group->layers_count);
            for (int64_t k = 0; k < group->layers_count && k < (layers[i].step ? INT64_MAX : 20); k++) {
                const int64_t want = layers[i].step ? layers[i].first + k * layers[i].step : layers[i].layers[k];
                if (group->layers[k] != want)
                    fail_msg("%s, %s: layer %lld", layers[i].file, layers[i].group, (long long)group->layers[k]);
            }
            gyre_reading_free(r);
        }
}

/* The numbers of the reports, to the digits that they give.  profile DEFAULT: every one. */
static const struct {
    const char *file, *group;
    gyre_profile profile;
    int pair;
    double frequency;
} frequencies[] = {
    {"k-exaone-236b", "sliding_attention", GYRE_PROFILE_HF_5, 1, 0.805842188},
    {"k-exaone-236b", "sliding_attention", GYRE_PROFILE_VLLM, 63, 1.24093776e-06},
    {"deepseek-v3.2-indexer", "all", GYRE_PROFILE_HF_5, 15, 0.00833450895},
    {"deepseek-v3.2-indexer", "all", GYRE_PROFILE_VLLM, 31, 3.33380358e-06},
    {"deepseek-v3.2-indexer", "indexer", GYRE_PROFILE_HF_5, 15, 0.00833450895},
    {"deepseek-v3.2-indexer", "indexer", GYRE_PROFILE_VLLM, 31, 3.33380358e-06},
    {"glm-5.1-indexer", "all", GYRE_PROFILE_HF_5, 1, 0.649381632},
    {"glm-5.1-indexer", "indexer", GYRE_PROFILE_VLLM, 31, 1.53992653e-06},
    {"gemma4-saved-by-transformers-5", "full_attention", GYRE_PROFILE_HF_5, 1, 0.947463527},
    {"gemma4-saved-by-transformers-5", "full_attention", GYRE_PROFILE_VLLM, 63, 0.0333762469},
    {"gemma4-saved-by-transformers-5", "full_attention", GYRE_PROFILE_HF_5, 64, 0},
    {"gemma4-saved-by-transformers-5", "full_attention", GYRE_PROFILE_REFERENCE, 255, 0},
    {"gemma4-saved-by-transformers-5", "sliding_attention", GYRE_PROFILE_LLAMA_CPP, 127, 1.0746078e-4},
    {"gemma4-shared-keys", "full_attention", GYRE_PROFILE_HF_5, 1, 0.947463527},
    {"glm-4v-text-no-partial", "all", GYRE_PROFILE_HF_5, 63, 1.1547820e-4},
    {"glm-4v-text-no-partial", "all", GYRE_PROFILE_VLLM, 31, 1.3335214e-4},
    {"ling-flash-2.0", "all", GYRE_PROFILE_HF_5, 1, 0.659831088},
    {"ling-flash-2.0", "all", GYRE_PROFILE_HF_5, 31, 2.52589897e-06},
    {"llama-3.2-11b-vision", "full_attention", GYRE_PROFILE_HF_5, 29, 0.00216657076},
    {"llama-3.2-11b-vision", "full_attention", GYRE_PROFILE_VLLM, 40, 3.4281022e-05},
    {"llama-3.2-11b-vision", "full_attention", GYRE_PROFILE_HF_5, 63, 3.06892599e-07},
    {"minimax-text-01", "full_attention", GYRE_PROFILE_HF_5, 1, 0.77736503},
    {"minimax-text-01", "full_attention", GYRE_PROFILE_HF_5, 63, 1.2863970e-7},
    {"minimax-text-01", "full_attention", GYRE_PROFILE_VLLM, 1, 0.60429639},
    {"minimax-text-01", "full_attention", GYRE_PROFILE_REFERENCE, 31, 1.6548171e-7},
    {"mistral-large-4", "indexed_attention", GYRE_PROFILE_HF_5, 31, 6.511335e-8},
    {"mistral-large-4", "indexer", GYRE_PROFILE_HF_5, 31, 6.511335e-8},
    {"moonshine-tiny", "all", GYRE_PROFILE_HF_5, 15, 1.7782794e-4},
    {"recurrentgemma-2b", "sliding_attention", GYRE_PROFILE_HF_5, 1, 0.86596432},
    {"recurrentgemma-2b", "sliding_attention", GYRE_PROFILE_HF_4_56, 63, 1.1547820e-4},
    {"step-3.5-flash", "full_attention", GYRE_PROFILE_HF_5, 1, 0.6175288},
    {"step-3.5-flash", "full_attention", GYRE_PROFILE_VLLM, 31, 1.6193578e-7},
    {"step-3.5-flash", "full_attention", GYRE_PROFILE_LLAMA_CPP, 31, 1.6193578e-7},
    {"step-3.5-flash", "sliding_attention", GYRE_PROFILE_HF_5, 63, 1.1547820e-4},
};

static void test_frequencies_of_reports(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof frequencies / sizeof *frequencies; i++) {
        double inv_freq[256], attention;
        gyre_encoding *encoding = NULL;
        gyre_reading *r = open_config(frequencies[i].file, frequencies[i].profile);
        assert_ok(gyre_encoding_create(&encoding, &group_of(r, frequencies[i].group)->config, NULL, NULL));
        assert_in_range(gyre_encoding_get_config(encoding)->rope.dim / 2, frequencies[i].pair + 1, 256);
        assert_ok(gyre_encoding_frequencies(encoding, 0, inv_freq, &attention));
        if (fabs(inv_freq[frequencies[i].pair] - frequencies[i].frequency) > 5e-7 * frequencies[i].frequency)
            fail_msg("%s, %s, pair %d: %.10g", frequencies[i].file, frequencies[i].group, frequencies[i].pair,
                     inv_freq[frequencies[i].pair]);
        gyre_encoding_free(encoding);
        gyre_reading_free(r);
    }
}

/* Where a rotation begins in a head, and what multiplies the scores. */
static void test_scales_of_reports(void **state) {
    (void)state;
    static const struct {
        const char *file, *group;
        int64_t first;
        double scale, softmax; /* 0 = any */
    } rows[] = {{"deepseek-v3.2-indexer", "all", 128, 0.135233779, 1.87385421},
                {"deepseek-v3.2-indexer", "indexer", 0, 0, 1},
                {"glm-5.1-indexer", "all", 192, 0.0625, 1},
                {"glm-5.1-indexer", "indexer", 0, 0, 1},
                {"mistral-large-4", "indexed_attention", 64, 0.08838834764, 1},
                {"mistral-large-4", "indexer", 0, 0, 1},
                {"kimi-linear-transformers", "nope", 0, 0.07216878365, 1},
                {"muse-glimmer", "sliding_attention", 0, 0.3420629054, 1},
                {"muse-glimmer", "nope", 0, 0.3420629054, 1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        gyre_reading *r = open_config(rows[i].file, GYRE_PROFILE_HF_5);
        const gyre_layer_reading *group = group_of(r, rows[i].group);
        assert_int_equal(group->config.rope.first_channel, rows[i].first);
        if (fabs(group->scale - rows[i].scale) > 1e-8 || fabs(group->softmax_multiplier - rows[i].softmax) > 1e-8)
            fail_msg("%s, %s: scale %.10g, softmax %.10g", rows[i].file, rows[i].group, group->scale,
                     group->softmax_multiplier);
        gyre_reading_free(r);
    }
}

static void test_lengths_without_rotation(void **state) {
    (void)state;
    static const char *const files[] = {"glm5-next-nope", "kimi-linear-48b", "kimi-linear-transformers"};
    for (int i = 0; i < 3; i++) {
        gyre_reading *r = open_config(files[i], GYRE_PROFILE_HF_5);
        assert_string_equal(field_of(group_of(r, "nope"), "max_length")->value, "1048576");
        gyre_reading_free(r);
    }
}

/* A group that does not rotate names the key that says so. */
static void test_keys_of_reports(void **state) {
    (void)state;
    static const struct {
        const char *file, *group, *key; /* NULL = the class */
    } rows[] = {{"muse-glimmer", "nope", "layer_rope_theta"},
                {"mistral-large-4", "nope", "no_rope_layers"},
                {"llama-3.2-11b-vision", "cross_attention", "text_config.cross_attention_layers"},
                {"kimi-linear-48b", "nope", "mla_use_nope"},
                {"kimi-linear-transformers", "nope", NULL},
                {"afmoe-nope-full", "nope", NULL}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        gyre_reading *r = open_config(rows[i].file, GYRE_PROFILE_HF_5);
        const gyre_reading_field *field = field_of(group_of(r, rows[i].group), "encoding");
        assert_int_equal(field->origin, rows[i].key ? GYRE_ORIGIN_FILE : GYRE_ORIGIN_FAMILY);
        if (rows[i].key) assert_string_equal(field->key, rows[i].key);
        gyre_reading_free(r);
    }
}

static void test_doubts_of_reports(void **state) {
    (void)state;
    gyre_reading *r = open_config("minimax-text-01", GYRE_PROFILE_HF_5);
    assert_non_null(find_warning(r, "rotary_dim: transformers does not read it for a minimax"));
    gyre_reading_free(r);
    r = open_config("minimax-text-01", GYRE_PROFILE_VLLM);
    assert_null(find_warning(r, "rotary_dim"));
    gyre_reading_free(r);
    r = open_config("gemma4-shared-keys", GYRE_PROFILE_HF_5);
    assert_non_null(find_warning(r, "rope_theta: not read beside the objects for each type of layers"));
    gyre_reading_free(r);
    r = open_config("step-3.5-flash", GYRE_PROFILE_HF_5);
    assert_null(find_warning(r, "entries for"));
    gyre_reading_free(r);
    r = open_config("qwen3-draft-window", GYRE_PROFILE_HF_5);
    assert_non_null(find_warning(r, "sliding_window: not read without use_sliding_window"));
    gyre_reading_free(r);
    r = open_config("qwen3-draft-window-on", GYRE_PROFILE_HF_5);
    assert_non_null(find_warning(r, "max_window_layers: 28, and there are 5 layers"));
    gyre_reading_free(r);
}

/* -- unknown model types with the same keys -- */
#define SIZES "'hidden_size':1024,'num_attention_heads':8,'num_hidden_layers':8,'max_position_embeddings':4096,"
static const struct {
    const char *keys, *group;
    int64_t count, layers[8];
    const char *doubt;
} unknown[] = {
    {"'rope_theta':1e6,'no_rope_layers':[1,1,0,1,1,1,0,1]", "nope", 2, {2, 6}, "no_rope_layers: read as in other models"},
    {"'rope_theta':1e6,'no_rope_layers':[1,1,0,1,1,1,0,1,0,0]", "nope", 2, {2, 6}, "10 entries for 8 layers"},
    {"'rope_theta':1e6,'no_rope_layers':[2,5]", "nope", 2, {2, 5}, "indices of layers that do not rotate"},
    {"'rope_theta':1e6,'no_rope_layer_interval':3", "nope", 2, {2, 5}, "no_rope_layer_interval: read as in other"},
    {"'rope_theta':1e6,'nope_layer_interval':4", "nope", 2, {3, 7}, "nope_layer_interval: read as in other"},
    {"'layer_rope_theta':[1e4,1e4,1e4,0,5e5,1e4,1e4,0]", "nope", 2, {3, 7}, "layer_rope_theta: read as in other"},
    {"'layer_rope_theta':[1e4,1e4,1e4,0,5e5,1e4,1e4,0]", "full_attention_base_500000", 1, {4}, "layer_rope_theta"},
    {"'rope_theta':[1e4,2e4,1e4,2e4,1e4,2e4,1e4,2e4]", "full_attention_base_20000", 4, {1, 3, 5, 7}, "rope_theta: read"},
    {"'rope_theta':1e6,'cross_attention_layers':[1,4,99]", "cross_attention", 2, {1, 4}, "cross_attention_layers: read"},
    {"'rope_theta':1e6,'qk_rope_head_dim':64,'mla_use_nope':true", "all", 8, {0, 1, 2, 3, 4, 5, 6, 7}, "mla_use_nope: read"},
    {"'rope_theta':1e6,'qk_rope_head_dim':0,'qk_nope_head_dim':64", "all", 8, {0, 1, 2, 3, 4, 5, 6, 7}, "is not known"},
    {"'rope_theta':1e6,'full_attention_interval':4",
     "linear_attention",
     6,
     {0, 1, 2, 4, 5, 6},
     "full_attention_interval: read"},
    {"'rope_theta':1e6,'linear_attn_config':{'full_attn_layers':[4,8],'kda_layers':[1,2,3,5,6,7]}",
     "full_attention",
     2,
     {3, 7},
     "linear_attn_config: read"},
    {"'rope_theta':1e6,'block_types':['recurrent','attention']", "attention", 4, {1, 3, 5, 7}, "block_types: read"},
    {"'rope_theta':1e6,'attn_layer_indices':[2,6]", "full_attention", 2, {2, 6}, "attn_layer_indices: read"},
    {"'rope_theta':1e6,'attn_type_list':[0,0,0,1,0,0,0,1]", "full_attention", 2, {3, 7}, "attn_type_list: read"},
    {"'rope_theta':1e6,'layers_block_type':['mamba','mamba','attention','mamba','mamba','mamba','attention','mamba']",
     "attention",
     2,
     {2, 6},
     "is not known"},
    {"'rope_theta':1e6,'layer_types':['rope_attention','nope_attention','rope_attention','nope_attention','rope_attention',"
     "'nope_attention','rope_attention','nope_attention']",
     "nope",
     4,
     {1, 3, 5, 7},
     "is not known"},
};

static void test_unknown_types(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        char text[600];
        snprintf(text, sizeof text, "{'model_type':'unheard_of'," SIZES "%s}", unknown[i].keys);
        for (char *c = text; *c; c++)
            if (*c == '\'') *c = '"';
        gyre_reading *r = read_text(text);
        const gyre_layer_reading *group = group_of(r, unknown[i].group);
        const int rotates =
            strncmp(unknown[i].group, "full_attention", 14) == 0 || strcmp(unknown[i].group, "attention") == 0;
        assert_int_equal(group->config.kind, rotates ? GYRE_KIND_ROPE : GYRE_KIND_NOPE);
        if (group->layers_count != unknown[i].count) fail_msg("%s: %lld layers", text, (long long)group->layers_count);
        for (int64_t k = 0; k < group->layers_count; k++)
            assert_int_equal(group->layers[k], unknown[i].layers[k]);
        if (!find_warning(r, unknown[i].doubt)) fail_msg("%s: no doubt \"%s\"", text, unknown[i].doubt);
        gyre_reading_free(r);
    }
}

static gyre_reading *read_quoted(const char *keys, gyre_profile profile) {
    char text[900];
    snprintf(text, sizeof text, "{%s}", keys);
    for (char *c = text; *c; c++)
        if (*c == '\'') *c = '"';
    return read_as(text, profile);
}

/* A known class that does not have a key does not read it. */
static void test_known_classes_ignore_them(void **state) {
    (void)state;
    gyre_reading *r = read_quoted("'model_type':'llama'," SIZES "'rope_theta':1e6,'no_rope_layers':[1,1,0,1,1,1,0,1],"
                                  "'cross_attention_layers':[3],'full_attention_interval':4",
                                  GYRE_PROFILE_HF_5);
    assert_int_equal(r->groups_count, 1);
    assert_int_equal(r->groups[0]->layers_count, 8);
    gyre_reading_free(r);
}

/* -- heads, shares and indexers -- */
/* EXAONE's pattern in letters.  A list where a known class has a number is refused. */
static void test_letters(void **state) {
    (void)state;
    gyre_reading *r = read_quoted("'model_type':'exaone_moe'," SIZES "'sliding_window':64,'sliding_window_pattern':'LGLL'",
                                  GYRE_PROFILE_HF_5);
    assert_int_equal(group_of(r, "nope")->layers_count, 2);
    assert_int_equal(group_of(r, "nope")->layers[1], 5);
    gyre_reading_free(r);
    assert_refused("{\"model_type\":\"llama\",\"head_dim\":64,\"rope_theta\":[1e4,1e4]}", GYRE_PROFILE_HF_5, GYRE_EFORMAT,
                   "rope_theta: not a number");
}

static void test_latent_heads(void **state) {
    (void)state;
    static const struct {
        const char *keys;
        int64_t head, dim, first;
    } rows[] = {
        {"'model_type':'glm_moe_dsa'," SIZES "'head_dim':64,'qk_nope_head_dim':192,'qk_rope_head_dim':64", 256, 64, 192},
        {"'model_type':'sarvam_mla'," SIZES "'head_dim':576,'q_head_dim':192,'qk_rope_head_dim':64", 192, 64, 128},
        {"'model_type':'unheard_of'," SIZES "'head_dim':72,'qk_nope_head_dim':128,'qk_rope_head_dim':64", 192, 64, 128},
        {"'model_type':'unheard_of'," SIZES "'q_head_dim':96,'qk_rope_head_dim':32", 96, 32, 64},
        {"'model_type':'bailing_hybrid'," SIZES "'head_dim':128,'qk_nope_head_dim':128,'qk_rope_head_dim':64", 192, 64,
         128}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        gyre_reading *r = read_quoted(rows[i].keys, GYRE_PROFILE_HF_5);
        assert_int_equal(r->groups[0]->config.head_dim, rows[i].head);
        assert_int_equal(r->groups[0]->config.rope.dim, rows[i].dim);
        assert_int_equal(r->groups[0]->config.rope.first_channel, rows[i].first);
        gyre_reading_free(r);
    }
}

static void test_shares_by_layer(void **state) {
    (void)state;
    gyre_reading *r = read_quoted("'model_type':'unheard_of','head_dim':64,'num_hidden_layers':4,'rope_theta':1e6,"
                                  "'partial_rotary_factors':[0.5,1.0,0.5,1.0]",
                                  GYRE_PROFILE_HF_5);
    assert_int_equal(group_of(r, "full_attention")->config.rope.dim, 32);
    assert_int_equal(group_of(r, "full_attention_2")->config.rope.dim, 64);
    assert_int_equal(group_of(r, "full_attention_2")->layers[1], 3);
    gyre_reading_free(r);
    r = read_quoted("'model_type':'minimax_m3_vl_text'," SIZES "'rotary_dim':64", GYRE_PROFILE_HF_5);
    assert_int_equal(r->groups[0]->config.rope.dim, 128);
    gyre_reading_free(r);
    r = read_quoted("'model_type':'minimax_m3_vl_text'," SIZES "'rotary_dim':64", GYRE_PROFILE_VLLM);
    assert_int_equal(r->groups[0]->config.rope.dim, 64);
    gyre_reading_free(r);
}

/* The values are those that ci/run census traced. */
static void test_types_of_the_census(void **state) {
    (void)state;
    gyre_reading *r = read_quoted("'model_type':'minimax_m2'," SIZES "'head_dim':128", GYRE_PROFILE_HF_5);
    assert_int_equal(r->groups[0]->config.rope.dim, 128);
    gyre_reading_free(r);
    r = read_quoted("'model_type':'minimax_m2'," SIZES "'head_dim':128", GYRE_PROFILE_VLLM);
    assert_int_equal(r->groups[0]->config.rope.dim, 64);
    gyre_reading_free(r);
    r = read_quoted("'model_type':'bamba'," SIZES "'attn_layer_indices':[3]", GYRE_PROFILE_HF_5);
    assert_int_equal(r->groups[0]->config.kind, GYRE_KIND_ROPE);
    assert_int_equal(r->groups[0]->layers[0], 3);
    gyre_reading_free(r);
    r = read_quoted("'model_type':'bamba'," SIZES "'attn_layer_indices':null", GYRE_PROFILE_HF_5);
    assert_int_equal(r->groups_count, 1);
    assert_int_equal(r->groups[0]->config.kind, GYRE_KIND_NOPE);
    gyre_reading_free(r);
    r = read_quoted("'model_type':'lasr_ctc','encoder_config':{'model_type':'lasr_encoder'," SIZES
                    "'rope_parameters':{'rope_type':'default','rope_theta':2e4}}",
                    GYRE_PROFILE_HF_5);
    assert_true(r->groups[0]->config.rope.base == 2e4);
    gyre_reading_free(r);
    r = read_quoted("'model_type':'blt','decoder_config':{'model_type':'blt_local_decoder'," SIZES
                    "'rope_theta':5e5},\n'global_config':{'model_type':'blt_global_transformer'}",
                    GYRE_PROFILE_HF_5);
    assert_int_equal(r->groups[0]->config.rope.layout, GYRE_LAYOUT_INTERLEAVED);
    assert_warns(r, "global_config: rotates too", "global_config", 2);
    gyre_reading_free(r);
    r = read_quoted("'model_type':'cohere_compass_text'," SIZES "'rope_theta':1e4", GYRE_PROFILE_HF_5);
    assert_int_equal(r->groups[0]->config.rope.axis_pairs[0], 24);
    gyre_reading_free(r);
    static const char *const alternate[] = {"ernie4_5_vl_moe_text", "neomme"};
    for (int i = 0; i < 2; i++) {
        char keys[200];
        snprintf(keys, sizeof keys, "'model_type':'%s'," SIZES "'rope_theta':1e4", alternate[i]);
        r = read_quoted(keys, GYRE_PROFILE_HF_5);
        assert_int_equal(r->groups[0]->config.rope.axes, 0);
        assert_non_null(find_warning(r, "axes is described only for text"));
        gyre_reading_free(r);
    }
}

static void test_windows_by_layer(void **state) {
    (void)state;
    gyre_reading *r = read_quoted("'model_type':'neomme'," SIZES
                                  "'sliding_window':256,'layer_types':['sliding_attention','sliding_attention',"
                                  "'sliding_attention','full_attention','sliding_attention','sliding_attention',"
                                  "'sliding_attention','full_attention'],'per_layer_config':{'1':{'sliding_window':1024},"
                                  "'3':{'sliding_window':null},'5':{'sliding_window':1024}}",
                                  GYRE_PROFILE_HF_5);
    assert_int_equal(group_of(r, "sliding_attention")->window, 256);
    assert_int_equal(group_of(r, "sliding_attention")->layers_count, 4);
    assert_int_equal(group_of(r, "sliding_attention_2")->window, 1024);
    assert_int_equal(group_of(r, "sliding_attention_2")->layers_count, 2);
    assert_int_equal(group_of(r, "full_attention")->window, 0);
    gyre_reading_free(r);
}

/* The class of transformers decides its layout, and a key that of other programs. */
static void test_layouts_of_indexers(void **state) {
    (void)state;
    static const struct {
        const char *model_type, *key;
        gyre_profile profile;
        gyre_layout layout;
        int64_t first;
    } rows[] = {{"deepseek_v32", "", GYRE_PROFILE_HF_5, GYRE_LAYOUT_HALF, 0},
                {"deepseek_v32", ",'indexer_rope_interleave':true", GYRE_PROFILE_HF_5, GYRE_LAYOUT_HALF, 0},
                {"deepseek_v32", ",'indexer_rope_interleave':true", GYRE_PROFILE_VLLM, GYRE_LAYOUT_INTERLEAVED_TO_HALF, 0},
                {"glm_moe_dsa", "", GYRE_PROFILE_HF_5, GYRE_LAYOUT_INTERLEAVED_TO_HALF, 0},
                {"glm_moe_dsa", ",'indexer_rope_interleave':false", GYRE_PROFILE_REFERENCE, GYRE_LAYOUT_HALF, 0},
                {"hy_v4", "", GYRE_PROFILE_HF_5, GYRE_LAYOUT_HALF, 64},
                {"unheard_of", "", GYRE_PROFILE_HF_5, GYRE_LAYOUT_HALF, 0},
                {"unheard_of", ",'indexer_rope_interleave':true", GYRE_PROFILE_HF_5, GYRE_LAYOUT_INTERLEAVED_TO_HALF, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char keys[500];
        snprintf(keys, sizeof keys,
                 "'model_type':'%s'," SIZES "'rope_theta':1e4,'qk_rope_head_dim':64,'qk_nope_head_dim':128,"
                 "'index_head_dim':128,'indexer_types':['full','full','shared','full','shared','shared','full','full']%s",
                 rows[i].model_type, rows[i].key);
        gyre_reading *r = read_quoted(keys, rows[i].profile);
        const gyre_layer_reading *group = group_of(r, "indexer");
        assert_int_equal(group->config.rope.layout, rows[i].layout);
        assert_int_equal(group->config.rope.first_channel, rows[i].first);
        assert_int_equal(group->config.head_dim, 128);
        assert_int_equal(group->layers_count, 5);
        assert_int_equal(group->layers[2], 3);
        assert_ptr_not_equal(r->groups[0], group);
        gyre_reading_free(r);
    }
}

/* -- layers that are not there -- */
static void test_mtp_layers(void **state) {
    (void)state;
    gyre_reading *r = read_quoted("'model_type':'mellum'," SIZES "'num_mtp_layers':2,'mtp_layer_types':['sliding_attention',"
                                  "'sliding_attention'],'sliding_window':512",
                                  GYRE_PROFILE_HF_5);
    assert_int_equal(group_of(r, "full_attention")->layers_count, 8);
    assert_true(group_of(r, "full_attention")->config.rope.base == 5e5);
    assert_int_equal(group_of(r, "mtp")->layers[1], 9);
    assert_true(group_of(r, "mtp")->config.rope.base == 1e4);
    assert_int_equal(group_of(r, "mtp")->window, 512);
    gyre_reading_free(r);
}

/* Where no list has their types, they rotate as the full layers do. */
static void test_unlisted_mtp_layers(void **state) {
    (void)state;
    gyre_reading *r =
        read_quoted("'model_type':'qwen3_next'," SIZES "'rope_theta':1e7,'mtp_num_hidden_layers':2", GYRE_PROFILE_HF_5);
    assert_int_equal(group_of(r, "mtp")->config.rope.dim, group_of(r, "full_attention")->config.rope.dim);
    assert_int_equal(group_of(r, "mtp")->layers_count, 2);
    assert_int_equal(group_of(r, "mtp")->layers[0], 8);
    assert_string_equal(field_of(group_of(r, "mtp"), "mtp_layers")->value, "2");
    gyre_reading_free(r);
    /* Not a layer for each number that a file may state. */
    r = read_quoted("'model_type':'deepseek_v3'," SIZES "'num_nextn_predict_layers':9007199254740991", GYRE_PROFILE_HF_5);
    assert_int_equal(r->groups_count, 1);
    gyre_reading_free(r);
}

/* Groups that no layer has, and keys beside the objects, are dropped.  A class without types of layers reads only the keys
 * for all layers. */
static void test_nested_dicts(void **state) {
    (void)state;
    gyre_reading *r = read_quoted("'model_type':'unheard_of'," SIZES "'layer_types':['linear_attention','full_attention',"
                                  "'linear_attention','full_attention','linear_attention','full_attention',"
                                  "'linear_attention','full_attention'],'rope_parameters':{'full_attention':"
                                  "{'rope_theta':5e5},'sliding_attention':{'rope_theta':1e4},'rope_theta':7e7}",
                                  GYRE_PROFILE_HF_5);
    assert_true(group_of(r, "full_attention")->config.rope.base == 5e5);
    assert_null(find_group(r, "sliding_attention"));
    assert_non_null(find_warning(r, "rope_theta: not read beside the objects"));
    gyre_reading_free(r);
    r = read_quoted("'model_type':'llama'," SIZES "'rope_parameters':{'rope_theta':5e5,'full_attention':{'rope_theta':1e6}}",
                    GYRE_PROFILE_HF_5);
    assert_true(r->groups[0]->config.rope.base == 5e5);
    assert_non_null(find_warning(r, "full_attention: not read; the class of a llama has no types of layers"));
    gyre_reading_free(r);
}

static void test_refuses(void **state) {
    (void)state;
    static const struct {
        const char *keys, *words;
    } cases[] = {{"'layer_rope_theta':[1e4,'a',1e4,1e4,1e4,1e4,1e4,1e4]", "layer_rope_theta: entry 1 is not a number"},
                 {"'layer_rope_theta':[1e4,1e4]", "layer_rope_theta: 2 entries for 8 layers"},
                 {"'layer_rope_theta':[-1,1e4,1e4,1e4,1e4,1e4,1e4,1e4]", "layer_rope_theta: the base, -1, is not above 1"},
                 {"'rope_theta':1e4,'no_rope_layers':[1,'x']", "no_rope_layers: entry 1 is not a layer"},
                 {"'rope_theta':1e4,'cross_attention_layers':[-1]", "cross_attention_layers: entry 0 is not a layer"},
                 {"'rope_theta':1e4,'cross_attention_layers':3", "cross_attention_layers: not a list"},
                 {"'rope_theta':1e4,'linear_attn_config':{'full_attn_layers':[0]}",
                  "linear_attn_config.full_attn_layers: entry 0 is not a layer, from 1"},
                 {"'rope_theta':1e4,'block_types':[7]", "block_types: entry 0 is not a string"},
                 {"'rope_theta':1e4,'partial_rotary_factors':[2,2,2,2,2,2,2,2]", "partial_rotary_factors: 2 is not a share"},
                 {"'rope_theta':1e4,'per_layer_config':{'0':{'head_dim':-3}}", "per_layer_config.0.head_dim: not a whole"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[500];
        snprintf(text, sizeof text, "{'model_type':'unheard_of'," SIZES "%s}", cases[i].keys);
        for (char *c = text; *c; c++)
            if (*c == '\'') *c = '"';
        assert_refused(text, GYRE_PROFILE_HF_5, GYRE_EFORMAT, cases[i].words);
    }
}

/* Many layers, each with a list of all, take time that grows as their number. */
static void test_many_layers(void **state) {
    (void)state;
    enum { MANY = 20000 };
    char *text = malloc((size_t)MANY * 24 + 400), *end = text;
    assert_non_null(text);
    end += sprintf(end, "{\"model_type\":\"unheard_of\",\"head_dim\":64,\"num_hidden_layers\":%d,\"rope_theta\":1e4,", MANY);
    end += sprintf(end, "\"cross_attention_layers\":[0");
    for (int i = 1; i < MANY; i++)
        end += sprintf(end, ",%d", i % 2 ? 2 * MANY : i);
    end += sprintf(end, "],\"no_rope_layers\":[1");
    for (int i = 1; i < MANY; i++)
        end += sprintf(end, ",%d", i % 3 != 0);
    sprintf(end, "]}");
    gyre_reading *r = read_text(text);
    int64_t count = 0;
    for (int64_t i = 0; i < r->groups_count; i++)
        count += r->groups[i]->layers_count;
    assert_int_equal(count, MANY);
    assert_int_equal(group_of(r, "cross_attention")->layers_count, MANY / 2);
    gyre_reading_free(r);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layers_of_reports), cmocka_unit_test(test_frequencies_of_reports),
        cmocka_unit_test(test_scales_of_reports), cmocka_unit_test(test_lengths_without_rotation),
        cmocka_unit_test(test_keys_of_reports),   cmocka_unit_test(test_doubts_of_reports),
        cmocka_unit_test(test_unknown_types),     cmocka_unit_test(test_known_classes_ignore_them),
        cmocka_unit_test(test_letters),           cmocka_unit_test(test_latent_heads),
        cmocka_unit_test(test_shares_by_layer),   cmocka_unit_test(test_types_of_the_census),
        cmocka_unit_test(test_windows_by_layer),  cmocka_unit_test(test_layouts_of_indexers),
        cmocka_unit_test(test_mtp_layers),        cmocka_unit_test(test_unlisted_mtp_layers),
        cmocka_unit_test(test_nested_dicts),      cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_many_layers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
