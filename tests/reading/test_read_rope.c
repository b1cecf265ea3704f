/* test_read_rope.c: the rotation of a config.json: groups of equal layers, the origin of each value, refusals. */
#include "check_rope_reading.h"

/* -- fields -- */
static void test_fields_of_llama(void **state) {
    (void)state;
    gyre_reading *r = read_rope("{\n'model_type':'llama',\n'hidden_size':4096,\n'num_attention_heads':32,\n"
                                "'num_hidden_layers':2,\n'rope_theta':500000.0,\n'max_position_embeddings':131072,\n"
                                "'rope_scaling':{\n'rope_type':'llama3',\n'factor':8,\n'low_freq_factor':1.0,\n"
                                "'high_freq_factor':4.0,\n'original_max_position_embeddings':8192}}",
                                GYRE_PROFILE_HF_5, 0);
    const gyre_layer_reading *all = group_of(r, "all");
    assert_int_equal(all->layers_count, 2);
    assert_int_equal(all->layers[1], 1);
    assert_field(all, "encoding", "rope", GYRE_ORIGIN_FAMILY, NULL, 0);
    assert_field(all, "layout", "half", GYRE_ORIGIN_FAMILY, NULL, 0);
    assert_field(all, "head_dim", "128", GYRE_ORIGIN_DERIVED, NULL, 0);
    assert_field(all, "rotary_dim", "128", GYRE_ORIGIN_DERIVED, NULL, 0);
    assert_field(all, "base", "500000", GYRE_ORIGIN_FILE, "rope_theta", 6);
    assert_field(all, "max_length", "131072", GYRE_ORIGIN_FILE, "max_position_embeddings", 7);
    assert_field(all, "scaling", "llama3", GYRE_ORIGIN_FILE, "rope_scaling.rope_type", 9);
    assert_field(all, "factor", "8", GYRE_ORIGIN_FILE, "rope_scaling.factor", 10);
    assert_field(all, "low_freq_factor", "1", GYRE_ORIGIN_FILE, "rope_scaling.low_freq_factor", 11);
    assert_field(all, "high_freq_factor", "4", GYRE_ORIGIN_FILE, "rope_scaling.high_freq_factor", 12);
    assert_field(all, "trained_length", "8192", GYRE_ORIGIN_FILE, "rope_scaling.original_max_position_embeddings", 13);
    assert_null(find_field(all, "beta_fast"));
    assert_null(find_field(all, "attention_factor"));
    assert_int_equal(r->warnings_count, 0);
    gyre_reading_free(r);
}

static void test_defaults_are_marked_as_defaults(void **state) {
    (void)state;
    gyre_reading *r = read_rope("{'model_type':'qwen3','hidden_size':1024,'num_attention_heads':4,'num_hidden_layers':2,"
                                "'rope_scaling':{'rope_type':'yarn','factor':2.0}}",
                                GYRE_PROFILE_HF_5, 0);
    const gyre_layer_reading *all = group_of(r, "all");
    assert_field(all, "head_dim", "128", GYRE_ORIGIN_FAMILY, NULL, 0);
    assert_field(all, "base", "10000", GYRE_ORIGIN_READER, NULL, 0);
    assert_field(all, "max_length", "32768", GYRE_ORIGIN_FAMILY, NULL, 0);
    assert_field(all, "beta_fast", "32", GYRE_ORIGIN_READER, NULL, 0);
    assert_field(all, "beta_slow", "1", GYRE_ORIGIN_READER, NULL, 0);
    assert_field(all, "truncate", "true", GYRE_ORIGIN_READER, NULL, 0);
    assert_int_equal(field_of(all, "attention_factor")->origin, GYRE_ORIGIN_DERIVED);
    gyre_reading_free(r);
    r = read_rope(
        "{'model_type':'qwen3','hidden_size':1024,'num_attention_heads':4,'num_hidden_layers':2,\n'head_dim':null}",
        GYRE_PROFILE_HF_5, 0);
    assert_field(group_of(r, "all"), "head_dim", "256", GYRE_ORIGIN_DERIVED, NULL, 0);
    assert_warns(r, "head_dim: null", "head_dim", 2);
    gyre_reading_free(r);
    r = read_rope(LLAMA("'rope_scaling':{'rope_type':'yarn','factor':2.0,'beta_fast':0,'beta_slow':null}"),
                  GYRE_PROFILE_HF_5, 0);
    assert_field(group_of(r, "all"), "beta_fast", "32", GYRE_ORIGIN_FILE, "rope_scaling.beta_fast", 1);
    assert_non_null(field_of(group_of(r, "all"), "beta_fast")->note);
    assert_field(group_of(r, "all"), "beta_slow", "1", GYRE_ORIGIN_READER, NULL, 0);
    gyre_reading_free(r);
}

/* Classes that scale when the file has no scaling. */
static void test_objects_of_classes(void **state) {
    (void)state;
    const char *oss = "{'model_type':'gpt_oss','hidden_size':2880,'num_attention_heads':64,'num_hidden_layers':4%s}";
    const naive_yarn yarn = {64, 15e4L, 4096.0L, 32.0L, 0};
    char file[256];
    snprintf(file, sizeof file, oss, "");
    gyre_reading *r = read_rope(file, GYRE_PROFILE_HF_5, 0);
    assert_yarn(group_of(r, "sliding_attention"), &yarn, 1.3465735903);
    assert_field(group_of(r, "full_attention"), "factor", "32", GYRE_ORIGIN_FAMILY, NULL, 0);
    assert_field(group_of(r, "full_attention"), "truncate", "false", GYRE_ORIGIN_FAMILY, NULL, 0);
    assert_field(group_of(r, "full_attention"), "trained_length", "4096", GYRE_ORIGIN_FAMILY, NULL, 0);
    assert_field(group_of(r, "full_attention"), "scaling", "yarn", GYRE_ORIGIN_FAMILY, NULL, 0);
    gyre_reading_free(r);
    /* Version 4 treats null as a value, version 5 as missing. */
    snprintf(file, sizeof file, oss, ",'rope_scaling':null");
    r = read_rope(file, GYRE_PROFILE_HF_4_56, 0);
    assert_divided(group_of(r, "full_attention"), 15e4, 1.0);
    gyre_reading_free(r);
    r = read_rope(file, GYRE_PROFILE_HF_5, 0);
    assert_yarn(group_of(r, "full_attention"), &yarn, 1.3465735903);
    gyre_reading_free(r);
    r = read_rope("{'model_type':'gemma4_text','num_hidden_layers':6}", GYRE_PROFILE_HF_5, 0);
    assert_divided(group_of(r, "sliding_attention"), 1e4, 1.0);
    assert_int_equal(group_of(r, "full_attention")->config.rope.scaling, GYRE_SCALING_PROPORTIONAL);
    assert_true(group_of(r, "full_attention")->config.rope.proportion == 0.25);
    assert_int_equal(r->warnings_count, 0);
    gyre_reading_free(r);
}

/* -- layouts and heads -- */
static void check_head(const char *file, gyre_layout layout, int64_t head, int64_t first, int64_t dim, double base) {
    gyre_reading *r = read_rope(file, GYRE_PROFILE_HF_5, 0);
    const gyre_layer_reading *all = group_of(r, "all");
    assert_int_equal(all->config.rope.layout, layout);
    assert_int_equal(all->config.head_dim, head);
    assert_int_equal(all->config.rope.first_channel, first);
    assert_int_equal(all->config.rope.dim, dim);
    assert_true(all->config.rope.base == base);
    gyre_reading_free(r);
}

#define WIDTHS "'hidden_size':1024,'num_attention_heads':8"
#define SIZES  WIDTHS ",'num_hidden_layers':2"
static void test_heads_of_families(void **state) {
    (void)state;
    check_head("{'model_type':'gpt_neox','rotary_pct':0.25,'rotary_emb_base':10000," SIZES "}", GYRE_LAYOUT_HALF, 128, 0, 32,
               1e4);
    check_head("{'model_type':'gpt_neox'," SIZES "}", GYRE_LAYOUT_HALF, 128, 0, 32, 1e4);
    check_head("{'model_type':'gpt_neox','rotary_pct':1.0,'rotary_emb_base':25000," SIZES "}", GYRE_LAYOUT_HALF, 128, 0, 128,
               25e3);
    check_head("{'model_type':'phi','partial_rotary_factor':0.4,'hidden_size':2560,'num_attention_heads':32}",
               GYRE_LAYOUT_HALF, 80, 0, 32, 1e4);
    check_head("{'model_type':'gptj','n_embd':4096,'n_head':16,'n_layer':2,'rotary_dim':64}", GYRE_LAYOUT_INTERLEAVED, 256,
               0, 64, 1e4);
    check_head("{'model_type':'gptj','n_embd':4096,'n_head':16,'n_layer':2}", GYRE_LAYOUT_INTERLEAVED, 256, 0, 64, 1e4);
    check_head("{'model_type':'gptj','n_embd':4096,'n_head':16,'rotary_dim':null}", GYRE_LAYOUT_INTERLEAVED, 256, 0, 256,
               1e4);
    check_head("{'model_type':'codegen','n_embd':1024,'n_head':16,'rotary_dim':32}", GYRE_LAYOUT_INTERLEAVED, 64, 0, 32,
               1e4);
    check_head("{'model_type':'cohere'," SIZES "}", GYRE_LAYOUT_INTERLEAVED, 128, 0, 128, 5e5);
    check_head("{'model_type':'glm4'," SIZES "}", GYRE_LAYOUT_INTERLEAVED, 128, 0, 64, 1e4);
    check_head("{'model_type':'chatglm','kv_channels':128,'rope_ratio':500,'seq_length':131072,'num_layers':2,"
               "'hidden_size':4096,'num_attention_heads':32}",
               GYRE_LAYOUT_INTERLEAVED, 128, 0, 64, 5e6);
    check_head("{'model_type':'deepseek_v3','qk_rope_head_dim':64,'qk_nope_head_dim':128," SIZES "}",
               GYRE_LAYOUT_INTERLEAVED_TO_HALF, 192, 128, 64, 1e4);
    check_head("{'model_type':'deepseek_v3','qk_rope_head_dim':64,'qk_nope_head_dim':128,'rope_interleave':false," SIZES "}",
               GYRE_LAYOUT_HALF, 192, 128, 64, 1e4);
    check_head("{'model_type':'minicpm3','qk_rope_head_dim':32,'qk_nope_head_dim':64," SIZES "}", GYRE_LAYOUT_HALF, 96, 64,
               32, 1e4);
    check_head("{'model_type':'dbrx','d_model':6144,'n_heads':48,'n_layers':2,'attn_config':{'rope_theta':500000}}",
               GYRE_LAYOUT_HALF, 128, 0, 128, 5e5);
    check_head("{'model_type':'gemma','head_dim':256,'hidden_size':3072,'num_attention_heads':16}", GYRE_LAYOUT_HALF, 256, 0,
               256, 1e4);
    gyre_reading *r = read_rope("{'model_type':'nanochat'," SIZES "}", GYRE_PROFILE_HF_5, 0);
    assert_int_equal(group_of(r, "all")->config.rope.clockwise, 1);
    assert_field(group_of(r, "all"), "clockwise", "true", GYRE_ORIGIN_FAMILY, NULL, 0);
    gyre_reading_free(r);
}

/* -- layers -- */
static void assert_layers(const gyre_reading *r, const char *name, int64_t count, int64_t first, int64_t window) {
    const gyre_layer_reading *group = group_of(r, name);
    if (group->layers_count != count) fail_msg("%s: %d layers", name, (int)group->layers_count);
    assert_int_equal(group->layers[0], first);
    assert_int_equal(group->window, window);
}

static void test_layers_by_rule(void **state) {
    (void)state;
    static const struct {
        const char *file, *name;
        int64_t count, first, window;
        const char *other;
        int64_t other_count;
    } cases[] = {
        {"'gemma2','num_hidden_layers':26,'sliding_window':4096", "sliding_attention", 13, 0, 4096, "full_attention", 13},
        {"'gemma3_text','num_hidden_layers':26,'sliding_window':512", "sliding_attention", 22, 0, 512, "full_attention", 4},
        {"'gemma3_text','num_hidden_layers':8,'sliding_window_pattern':4", "sliding_attention", 6, 0, 4096, "full_attention",
         2},
        {"'gemma3n_text','num_hidden_layers':30", "sliding_attention", 24, 0, 512, "full_attention", 6},
        {"'gpt_oss','num_hidden_layers':24,'sliding_window':128", "sliding_attention", 12, 0, 128, "full_attention", 12},
        {"'olmo3','num_hidden_layers':32", "sliding_attention", 24, 0, 4096, "full_attention", 8},
        {"'cohere2','num_hidden_layers':32,'sliding_window':4096", "sliding_attention", 24, 0, 4096, "nope", 8},
        {"'exaone4','num_hidden_layers':64,'sliding_window':4096,'sliding_window_pattern':'LLLG'", "sliding_attention", 48,
         0, 4096, "nope", 16},
        {"'exaone4','num_hidden_layers':30,'sliding_window':null", "all", 30, 0, 0, NULL, 0},
        {"'llama4_text','num_hidden_layers':48", "chunked_attention", 36, 0, 8192, "nope", 12},
        {"'smollm3','num_hidden_layers':36", "full_attention", 27, 0, 0, "nope", 9},
        {"'smollm3','num_hidden_layers':4,'no_rope_layers':[0,1,1,1]", "full_attention", 3, 1, 0, "nope", 1},
        {"'smollm3','num_hidden_layers':4,'no_rope_layer_interval':2", "full_attention", 2, 0, 0, "nope", 2},
        {"'qwen3_next','num_hidden_layers':48", "full_attention", 12, 3, 0, "linear_attention", 36},
        {"'modernbert','num_hidden_layers':22,'local_attention':128", "sliding_attention", 14, 1, 65, "full_attention", 8},
        {"'modernbert','num_hidden_layers':22", "sliding_attention", 14, 1, 65, "full_attention", 8},
        {"'modernbert-decoder','num_hidden_layers':22", "sliding_attention", 14, 1, 64, "full_attention", 8},
        {"'modernbert-decoder','num_hidden_layers':22,'local_attention':96", "sliding_attention", 14, 1, 48,
         "full_attention", 8},
        {"'mistral','num_hidden_layers':32,'sliding_window':4096", "all", 32, 0, 4096, NULL, 0},
        {"'mistral','num_hidden_layers':32,'sliding_window':null", "all", 32, 0, 0, NULL, 0},
        {"'qwen2','num_hidden_layers':28,'sliding_window':4096,'use_sliding_window':false", "all", 28, 0, 0, NULL, 0},
        {"'qwen2','num_hidden_layers':28,'sliding_window':4096,'use_sliding_window':true,'max_window_layers':21",
         "full_attention", 21, 0, 0, "sliding_attention", 7},
        {"'mimo_v2_flash','num_hidden_layers':4,'hybrid_layer_pattern':[0,1,1,1],'sliding_window':128", "sliding_attention",
         3, 1, 128, "full_attention", 1},
        {"'lfm2','num_hidden_layers':3,'layer_types':['conv','full_attention','conv']", "conv", 2, 0, 0, "full_attention",
         1},
        {"'granitemoehybrid','num_hidden_layers':3,'layer_types':['mamba','attention','mamba']", "mamba", 2, 0, 0, "nope",
         1},
        {"'gemma4_text','num_hidden_layers':3,'layer_types':['sliding_attention','sliding_attention','sliding_attention']",
         "sliding_attention", 2, 0, 512, "full_attention", 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char file[512];
        snprintf(file, sizeof file, "{'model_type':%s,'hidden_size':1024,'num_attention_heads':8}", cases[i].file);
        gyre_reading *r = read_rope(file, GYRE_PROFILE_HF_5, 0);
        assert_layers(r, cases[i].name, cases[i].count, cases[i].first, cases[i].window);
        const gyre_layer_reading *group = group_of(r, cases[i].name);
        for (int64_t f = 0; f < group->fields_count; f++) /* a chunk does not slide, and says so; a window slides */
            if (strcmp(group->fields[f].name, "window") == 0) {
                const int noted = group->fields[f].note && strstr(group->fields[f].note, "not a sliding window");
                assert_int_equal(noted, strcmp(cases[i].name, "chunked_attention") == 0);
            }
        if (cases[i].other) assert_int_equal(group_of(r, cases[i].other)->layers_count, cases[i].other_count);
        assert_int_equal(r->groups_count, cases[i].other ? 2 : 1);
        gyre_reading_free(r);
    }
}

/* Two bases, with the old keys and the new. */
static void test_two_bases(void **state) {
    (void)state;
    const char *old =
        "{'model_type':'gemma3_text'," WIDTHS ",'num_hidden_layers':12,'rope_theta':3e6,'rope_local_base_freq':2e4,"
        "'rope_scaling':{'rope_type':'linear','factor':8.0}}";
    const char *new = "{'model_type':'gemma3_text'," WIDTHS ",'num_hidden_layers':12,'rope_parameters':{'full_attention':{"
                      "'rope_type':'linear','factor':8.0,'rope_theta':3e6},'sliding_attention':{'rope_theta':2e4}}}";
    const gyre_profile profiles[] = {GYRE_PROFILE_HF_5, GYRE_PROFILE_REFERENCE, GYRE_PROFILE_HF_4_56};
    for (int p = 0; p < 3; p++) {
        gyre_reading *r = read_rope(old, profiles[p], 0);
        assert_divided(group_of(r, "full_attention"), 3e6, 8.0);
        assert_divided(group_of(r, "sliding_attention"), 2e4, 1.0);
        gyre_reading_free(r);
        r = read_rope(new, profiles[p], 0);
        assert_divided(group_of(r, "full_attention"), p == 2 ? 1e6 : 3e6, p == 2 ? 1.0 : 8.0);
        assert_divided(group_of(r, "sliding_attention"), p == 2 ? 1e4 : 2e4, 1.0);
        gyre_reading_free(r);
    }
    gyre_reading *r = read_rope("{'model_type':'modernbert'," WIDTHS ",'num_hidden_layers':4}", GYRE_PROFILE_HF_5, 0);
    assert_divided(group_of(r, "full_attention"), 160000, 1.0);
    assert_divided(group_of(r, "sliding_attention"), 1e4, 1.0);
    gyre_reading_free(r);
    r = read_rope("{'model_type':'mimo_v2_flash'," WIDTHS
                  ",'num_hidden_layers':2,'hybrid_layer_pattern':[0,1],'rope_theta':4e6,"
                  "'swa_rope_theta':3e4,'sliding_window':128,'swa_head_dim':64,'partial_rotary_factor':0.5}",
                  GYRE_PROFILE_HF_5, 0);
    assert_divided(group_of(r, "full_attention"), 4e6, 1.0);
    assert_divided(group_of(r, "sliding_attention"), 3e4, 1.0);
    assert_int_equal(group_of(r, "sliding_attention")->config.rope.dim, 32);
    gyre_reading_free(r);
}

static void test_layers_without_positions(void **state) {
    (void)state;
    gyre_reading *r = read_rope("{'model_type':'llama'," SIZES ",'layer_types':['full_attention','sliding_attention'],"
                                "'sliding_window':64,'rope_parameters':{'full_attention':null,'sliding_attention':{"
                                "'rope_type':'linear','factor':2.0,'rope_theta':20000.0}}}",
                                GYRE_PROFILE_HF_5, 0);
    assert_int_equal(group_of(r, "nope")->config.kind, GYRE_KIND_NOPE);
    assert_int_equal(group_of(r, "nope")->layers[0], 0);
    assert_divided(group_of(r, "sliding_attention"), 2e4, 2.0);
    assert_int_equal(group_of(r, "sliding_attention")->window, 64);
    gyre_reading_free(r);
    /* A missing entry is an error in transformers too. */
    refuse("{'model_type':'llama'," SIZES ",'layer_types':['full_attention','sliding_attention'],\n"
           "'rope_parameters':{'sliding_attention':{'rope_type':'default'}}}",
           GYRE_PROFILE_HF_5, GYRE_EFORMAT, "rope_parameters: nothing for \"full_attention\" layers (config.json, line 2)");
}

/* -- around the rotation -- */
static void test_axes(void **state) {
    (void)state;
    const char *chunked = "{'model_type':'qwen2_5_vl_text'," SIZES ",'rope_parameters':{'mrope_section':[16,24,24]}}";
    const char *turn = "{'model_type':'qwen3_5_text','hidden_size':2048,'num_attention_heads':8,'num_hidden_layers':4,"
                       "'rope_parameters':{'mrope_section':[11,11,10],'mrope_interleaved':true,'rope_theta':1e7,"
                       "'partial_rotary_factor':0.25}}";
    gyre_reading *r = read_rope(chunked, GYRE_PROFILE_HF_5, 0);
    assert_int_equal(r->groups[0]->config.rope.axes, 3);
    assert_int_equal(r->groups[0]->config.rope.axes_layout, GYRE_AXES_CHUNKED);
    gyre_reading_free(r);
    r = read_rope(turn, GYRE_PROFILE_HF_5, 0);
    assert_int_equal(group_of(r, "full_attention")->config.rope.axes_layout, GYRE_AXES_INTERLEAVED);
    assert_field(group_of(r, "full_attention"), "axes_layout", "interleaved", GYRE_ORIGIN_FAMILY, NULL, 0);
    assert_int_equal(r->warnings_count, 0);
    gyre_reading_free(r);
    r = read_rope("{'model_type':'ernie4_5_vl_moe_text'," SIZES ",\n'rope_parameters':{'mrope_section':[22,22,20]}}",
                  GYRE_PROFILE_HF_5, 0);
    assert_in_range(r->groups[0]->config.rope.axes, 0, 1);
    assert_warns(r, "mrope_section: the distribution of this family's pairs", "rope_parameters.mrope_section", 2);
    gyre_reading_free(r);
    r = read_rope(LLAMA("\n'rope_scaling':{'type':'linear','factor':2.0,'mrope_section':[16,24,24]}"), GYRE_PROFILE_HF_5, 0);
    assert_warns(r, "mrope_section: transformers 5 does not read it", "rope_scaling.mrope_section", 2);
    gyre_reading_free(r);
    refuse("{'model_type':'qwen2_vl'," SIZES ",\n'rope_scaling':{'type':'mrope','mrope_section':[16,24,20]}}",
           GYRE_PROFILE_HF_5, GYRE_EFORMAT,
           "rope_scaling.mrope_section: 60 pairs in all, but 64 rotate (config.json, line 2)");
    refuse("{'model_type':'qwen2_vl'," SIZES ",'rope_scaling':{'type':'mrope','mrope_section':[16,'24',20]}}",
           GYRE_PROFILE_HF_5, GYRE_EFORMAT, "mrope_section: entry 1 is not a number of pairs");
    refuse(LLAMA("'rope_scaling':{'type':'mrope','mrope_section':[16,24,24]}"), GYRE_PROFILE_HF_5, GYRE_EUNSUPPORTED,
           "rope_scaling.type: \"mrope\" is not a type that transformers 5 knows");
}

static void test_scale_of_scores(void **state) {
    (void)state;
    const struct {
        const char *file;
        double scale;
    } cases[] = {{"'gemma2','query_pre_attn_scalar':144", 1.0 / 12.0},
                 {"'gemma2'", 1.0 / 16.0},
                 {"'gemma3n_text'", 1.0},
                 {"'granite','attention_multiplier':0.015625", 1.0 / 64.0},
                 {"'llama'", 0.0},
                 {"'granite'", 1.0},
                 {"'deepseek_v3','qk_rope_head_dim':64,'qk_nope_head_dim':192", 1.0 / 16.0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char file[512];
        snprintf(file, sizeof file, "{'model_type':%s,'hidden_size':1024,'num_attention_heads':8,'num_hidden_layers':1}",
                 cases[i].file);
        gyre_reading *r = read_rope(file, GYRE_PROFILE_HF_5, 0);
        test_close((long double)r->groups[0]->scale, (long double)cases[i].scale, 1e-15L, file);
        assert_true(r->groups[0]->softmax_multiplier == 1.0);
        gyre_reading_free(r);
    }
}

static void test_temperature(void **state) {
    (void)state;
    const char *llama4 = "{'model_type':'llama4_text'," WIDTHS ",'num_hidden_layers':4%s}";
    const char *const tunings[] = {"", ",'attn_temperature_tuning':4", ",'attn_temperature_tuning':true",
                                   ",'attn_temperature_tuning':false"};
    char file[512];
    for (int i = 0; i < 4; i++) {
        snprintf(file, sizeof file, llama4, tunings[i]);
        gyre_reading *r = read_rope(file, GYRE_PROFILE_HF_5, 0);
        const gyre_config *nope = &group_of(r, "nope")->config;
        assert_int_equal(nope->query.temperature, i == 3 ? GYRE_TEMPERATURE_NONE : GYRE_TEMPERATURE_LLAMA4);
        if (i < 3) assert_true(nope->query.reference_length == 8192 && nope->query.slope == 0.1);
        assert_int_equal(group_of(r, "chunked_attention")->config.query.temperature, GYRE_TEMPERATURE_NONE);
        gyre_reading_free(r);
    }
    const char *ministral = "{'model_type':'ministral3'," SIZES ",'rope_parameters':{'rope_type':'yarn','factor':16.0,"
                            "'rope_theta':1e6,'original_max_position_embeddings':16384,\n'llama_4_scaling_beta':0.2}}";
    gyre_reading *r = read_rope(ministral, GYRE_PROFILE_HF_5, 0);
    const gyre_layer_reading *all = group_of(r, "all");
    assert_int_equal(all->config.query.temperature, GYRE_TEMPERATURE_MINISTRAL);
    assert_int_equal(all->config.query.reference_length, 16384);
    assert_field(all, "temperature_slope", "0.2", GYRE_ORIGIN_FILE, "rope_parameters.llama_4_scaling_beta", 2);
    assert_int_equal(r->warnings_count, 0);
    gyre_reading_free(r);
    r = read_rope(LLAMA("'rope_parameters':{'rope_type':'default',\n'llama_4_scaling_beta':0.2}"), GYRE_PROFILE_HF_5, 0);
    assert_warns(r, "llama_4_scaling_beta: transformers 5 does not read it", "rope_parameters.llama_4_scaling_beta", 2);
    gyre_reading_free(r);
}

/* -- what makes no sense -- */
#define YARN(keys) LLAMA("'max_position_embeddings':8192,\n'rope_scaling':{'rope_type':'yarn','factor':2.0,\n" keys "}")
static void test_refuses(void **state) {
    (void)state;
    static const struct {
        const char *file;
        gyre_status status;
        const char *words;
    } cases[] = {
        {LLAMA("\n'rope_theta':1.0"), GYRE_EFORMAT, "rope_theta: the base, 1, is not above 1 (config.json, line 2)"},
        {LLAMA("'rope_theta':-5"), GYRE_EFORMAT, "rope_theta: the base, -5, is not above 1"},
        {LLAMA("'rope_theta':'10000'"), GYRE_EFORMAT, "rope_theta: not a number"},
        {LLAMA("\n'rope_scaling':3"), GYRE_EFORMAT, "rope_scaling: not an object (config.json, line 2)"},
        {LLAMA("'rope_scaling':{'rope_type':'linear',\n'factor':0.5}"), GYRE_EFORMAT,
         "rope_scaling.factor: 0.5 is below 1 (config.json, line 2)"},
        {LLAMA("'rope_scaling':{'rope_type':'linear'}"), GYRE_EFORMAT, "rope_scaling.factor: missing (config.json, line 1)"},
        {LLAMA("'rope_scaling':{'rope_type':'linear','factor':true}"), GYRE_EFORMAT, "rope_scaling.factor: not a number"},
        {LLAMA("'rope_scaling':{\n'rope_type':'cubic'}"), GYRE_EUNSUPPORTED,
         "rope_scaling.rope_type: \"cubic\" is not a type"},
        {LLAMA("'rope_scaling':{'rope_type':'linear','factor':2.0,\n'type':'yarn'}"), GYRE_EFORMAT,
         "rope_scaling.type: \"yarn\", but rope_type says \"linear\" (config.json, line 2)"},
        {LLAMA("'rope_scaling':{'rope_type':'longrope','type':'yarn'}"), GYRE_EFORMAT,
         "rope_scaling.type: \"yarn\", but rope_type says \"longrope\""},
        {YARN("'beta_fast':1,'beta_slow':32"), GYRE_EFORMAT,
         "rope_scaling.beta_fast: 1 is below beta_slow, 32: the ramp would be reversed (config.json, line 3)"},
        {YARN("'beta_fast':-1"), GYRE_EFORMAT, "rope_scaling.beta_fast: -1 is below 0"},
        {YARN("'original_max_position_embeddings':0"), GYRE_EFORMAT,
         "rope_scaling.original_max_position_embeddings: not a whole number of at least 1 (config.json, line 3)"},
        {YARN("'attention_factor':-1.0"), GYRE_EFORMAT, "rope_scaling.attention_factor: -1 is not above 0"},
        {YARN("'mscale':-1.0"), GYRE_EFORMAT, "rope_scaling.mscale: -1 is below 0"},
        {YARN("'truncate':'no'"), GYRE_EFORMAT, "rope_scaling.truncate: neither true nor false"},
        {LLAMA("'rope_scaling':{'rope_type':'llama3','factor':8.0,'low_freq_factor':4.0,\n'high_freq_factor':1.0,"
               "'original_max_position_embeddings':1024}"),
         GYRE_EFORMAT, "rope_scaling.high_freq_factor: 1 is below low_freq_factor, 4 (config.json, line 2)"},
        {LLAMA("'rope_scaling':{'rope_type':'llama3','factor':8.0,'low_freq_factor':null,'high_freq_factor':1.0,"
               "'original_max_position_embeddings':1024}"),
         GYRE_EFORMAT, "rope_scaling.low_freq_factor: missing"},
        {LLAMA("'rope_scaling':{'rope_type':'longrope','factor':2.0,'original_max_position_embeddings':1024,\n"
               "'short_factor':[1,2],'long_factor':[1,2]}"),
         GYRE_EFORMAT, "rope_scaling.short_factor: not a list of 64 numbers (config.json, line 2)"},
        {"{'model_type':'phi3','hidden_size':2,'num_attention_heads':1,'rope_scaling':{'type':'longrope','short_factor':[1."
         "0],"
         "\n'long_factor':[-1.0]}}",
         GYRE_EFORMAT, "rope_scaling.long_factor: entry 0, -1, is not a number of at least 2^-10 (config.json, line 2)"},
        {"{'model_type':'phi','hidden_size':256,'num_attention_heads':4,\n'partial_rotary_factor':0.3}", GYRE_EFORMAT,
         "partial_rotary_factor: 19 rotated channels of 64 are not whole pairs (config.json, line 2)"},
        {"{'model_type':'phi','hidden_size':256,'num_attention_heads':4,'partial_rotary_factor':0.0}", GYRE_EFORMAT,
         "partial_rotary_factor: 0 is not a share above 0 and up to 1"},
        {"{'model_type':'phi','hidden_size':256,'num_attention_heads':4,'partial_rotary_factor':1.01}", GYRE_EFORMAT,
         "partial_rotary_factor: 1.01 is not a share"},
        {"{'model_type':'llama','hidden_size':252,'num_attention_heads':4,\n'head_dim':63}", GYRE_EFORMAT, "head_dim: 63"},
        {"{'model_type':'llama','head_dim':500000000}", GYRE_EFORMAT, "head_dim: 500000000 channels"},
        {"{'model_type':'llama','hidden_size':250,'num_attention_heads':4}", GYRE_EFORMAT,
         "num_attention_heads: 4 heads do not divide hidden_size, 250"},
        {"{'model_type':'llama','num_attention_heads':4}", GYRE_EFORMAT, "hidden_size: missing"},
        {"{'model_type':'llama','head_dim':64,\n'num_hidden_layers':65537}", GYRE_EFORMAT,
         "num_hidden_layers: 65537 layers; the most is 65536 (config.json, line 2)"},
        {"{'model_type':'llama','head_dim':64,'num_hidden_layers':2,\n'layer_types':['full_attention']}", GYRE_EFORMAT,
         "layer_types: 1 entries for 2 layers (config.json, line 2)"},
        {"{'model_type':'llama','head_dim':64,'layer_types':[3]}", GYRE_EFORMAT, "layer_types: entry 0 is not a string"},
        {"{'model_type':'llama','head_dim':64,'layer_types':'full'}", GYRE_EFORMAT, "layer_types: not a list"},
        {LLAMA("'rope_parameters':{'upper':{'rope_type':'default'}}"), GYRE_EFORMAT,
         "rope_parameters.upper: an object, but \"upper\" is not a type of layers"},
        {"{'model_type':'gptj','n_embd':64,'n_head':1,'rotary_dim':65}", GYRE_EFORMAT,
         "rotary_dim: more than a head has, 64"},
        {"{'model_type':'llama','head_dim':2,'rope_scaling':{\n'type':'dynamic','factor':2.0}}", GYRE_EFORMAT,
         "rope_scaling.type: \"dynamic\" with a single pair: the exponent divides by 0 (config.json, line 2)"},
        {"{'model_type':'deepseek_v3','qk_rope_head_dim':63}", GYRE_EFORMAT, "qk_rope_head_dim: 63 is odd"},
        {"{'model_type':'mistral',\n'hidden_size':252,'num_attention_heads':4}", GYRE_EFORMAT,
         "hidden_size: 63 rotated channels of 63 are not whole pairs (config.json, line 2)"},
        {"{'model_type':'a_new_one','rope_theta':5.0}", GYRE_EFORMAT, "hidden_size: missing, and head_dim too:"},
        {"{'model_type':'smollm3','head_dim':64,'num_hidden_layers':2,\n'no_rope_layers':[1,'x']}", GYRE_EFORMAT,
         "no_rope_layers: entry 1 is neither 0 nor 1 (config.json, line 2)"},
        {"{'model_type':'mimo_v2_flash','head_dim':64,'num_hidden_layers':2,\n'hybrid_layer_pattern':[2,0]}", GYRE_EFORMAT,
         "hybrid_layer_pattern: entry 0 is neither 0 nor 1 (config.json, line 2)"},
        {"{'model_type':'phi3','head_dim':64,'rope_scaling':{\n'type':'linear','factor':2.0}}", GYRE_EUNSUPPORTED,
         "rope_scaling.type: \"linear\"; transformers' phi3 class takes only default and longrope (config.json, line "
         "2)"},
        {"{'model_type':'ernie4_5_vl_moe','head_dim':64,'rope_scaling':{\n'type':'linear','factor':2.0}}", GYRE_EUNSUPPORTED,
         "transformers' ernie4_5_vl_moe class takes only default (config.json, line 2)"},
        {"{'model_type':'mistral',\n'head_dim':63}", GYRE_EFORMAT,
         "head_dim: 63 rotated channels of 63 are not whole pairs (config.json, line 2)"},
        {LLAMA("'rope_scaling':{'type':'dynamic',\n'factor':1e17}"), GYRE_EFORMAT,
         "rope_scaling.factor: 1e+17 is above 2^32 (config.json, line 2)"},
        {"{'model_type':'llama','head_dim':64,\n'text_config':'llama'}", GYRE_EFORMAT,
         "text_config: not an object (config.json, line 2)"},
        {"{'model_type':'llama','head_dim':64,\n'max_position_embeddings':123456789012345678901234567890}", GYRE_EFORMAT,
         "max_position_embeddings: 1.23457e+29 is too large (config.json, line 2)"},
        {"{'model_type':'llama','head_dim':64,\n'rope_theta':-Infinity}", GYRE_EFORMAT,
         "rope_theta: not a number (config.json, line 2)"},
        {"{'model_type':'llama','head_dim':64,\n'rope_scaling':NaN}", GYRE_EFORMAT,
         "rope_scaling: not an object (config.json, line 2)"},
        {"{'model_type':'llama','head_dim':64,\n'layer_types':NaN}", GYRE_EFORMAT,
         "layer_types: not a list (config.json, line 2)"},
        {"\xEF\xBB\xBF{'model_type':'llama','head_dim':64}", GYRE_EFORMAT,
         "config.json: begins with the byte order mark of UTF-8; save it as UTF-8 without one (config.json)"},
        {"\xFF\xFE{", GYRE_EFORMAT, "config.json: begins with the byte order mark of UTF-16"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        refuse(cases[i].file, GYRE_PROFILE_HF_5, cases[i].status, cases[i].words);
        gyre_error err = {0, ""};
        gyre_reading *r = NULL;
        const char *text = quoted(cases[i].file);
        assert_int_not_equal(
            gyre_reading_parse(&r, text, strlen(text), GYRE_ARGS(gyre_reading_options, .profile = GYRE_PROFILE_HF_5), &err),
            GYRE_OK);
        /* The offset is that of the wrong key, or of the object without it. */
        if (err.offset > 0) assert_int_equal(text[err.offset], '"');
    }
    refuse(LLAMA("'rope_scaling':{'factor':2.0}"), GYRE_PROFILE_HF_4_56, GYRE_EFORMAT, "rope_scaling.rope_type: missing");
    refuse("{'model_type':'llama','head_dim':64,\nNaN:2}", GYRE_PROFILE_HF_5, GYRE_EFORMAT, "(config.json, line 2)");
    refuse("{'model_type':'proportion'}", GYRE_PROFILE_HF_5, GYRE_EUNSUPPORTED, "\"proportion\" is not known");
}

/* As in LLaVA 1.5, whose text_config contains only the differences from a LlamaConfig. */
static void test_sizes_of_classes(void **state) {
    (void)state;
    gyre_reading *r = read_rope("{'model_type':'llava','text_config':{'model_type':'llama','max_position_embeddings':4096}}",
                                GYRE_PROFILE_HF_5, 0);
    assert_field(group_of(r, "all"), "head_dim", "128", GYRE_ORIGIN_FAMILY, NULL, 0);
    assert_divided(group_of(r, "all"), 1e4, 1.0);
    gyre_reading_free(r);
    r = read_rope("{'model_type':'phi3'}", GYRE_PROFILE_HF_5, 0);
    assert_int_equal(group_of(r, "all")->config.rope.dim, 96);
    gyre_reading_free(r);
}

/* Extensions that Python's json accepts, under keys that are not used. Later locations must stay right. */
static void test_numbers_of_python(void **state) {
    (void)state;
    gyre_reading *r =
        read_rope("{'model_type':'falcon_h1','head_dim':64,'time_step_limit':[0.0,Infinity],'a':[NaN,-Infinity],"
                  "'NaN':'Infinity \\'NaN',\n'big':[-1000000000000000019884624838656,1e5],"
                  "'fraction':1.0000000000000000000001,\n'rope_theta':123456.00000000000000000000}",
                  GYRE_PROFILE_HF_5, 0);
    assert_field(r->groups[0], "base", "123456", GYRE_ORIGIN_FILE, "rope_theta", 3);
    gyre_reading_free(r);
}

/* Two names of the same thing do not contradict each other. */
static void test_takes_both_names(void **state) {
    (void)state;
    gyre_reading *r = read_rope("{'model_type':'qwen2_vl'," SIZES ",'rope_scaling':{'type':'mrope','rope_type':'default',"
                                "'mrope_section':[16,24,24]}}",
                                GYRE_PROFILE_HF_4_56, 0);
    assert_int_equal(r->groups[0]->config.rope.scaling, GYRE_SCALING_NONE);
    gyre_reading_free(r);
    static const char *const others[] = {"su", "yarn"};
    for (int i = 0; i < 2; i++) {
        char file[512];
        snprintf(file, sizeof file,
                 "{'model_type':'phi3','hidden_size':2,'num_attention_heads':1,'rope_scaling':{'type':'%s',"
                 "'rope_type':'longrope','short_factor':[1.0],'long_factor':[2.0]}}",
                 others[i]);
        r = read_rope(file, GYRE_PROFILE_HF_5, 0);
        assert_int_equal(r->groups[0]->config.rope.scaling, GYRE_SCALING_LONGROPE);
        gyre_reading_free(r);
    }
}

static void test_warns(void **state) {
    (void)state;
    static const struct {
        const char *file;
        gyre_profile profile;
        const char *words, *key;
        int64_t line;
    } cases[] = {
        {YARN("'finetuned':true"), GYRE_PROFILE_HF_5, "finetuned: transformers 5 does not read it for type yarn",
         "rope_scaling.finetuned", 3},
        {LLAMA("'rope_scaling':{'rope_type':'default',\n'factor':2.0}"), GYRE_PROFILE_HF_5,
         "factor: transformers 5 does not read it", "rope_scaling.factor", 2},
        {YARN("'original_max_position_embeddings':1024"), GYRE_PROFILE_HF_5,
         "factor: 2, but the ratio of the lengths is 8; the factor is taken", "rope_scaling.factor", 2},
        {YARN("'attention_factor':1"), GYRE_PROFILE_HF_5, "attention_factor: transformers warns about a whole number",
         "rope_scaling.attention_factor", 3},
        {LLAMA("'rope_scaling':{'rope_type':'linear',\n'factor':8}"), GYRE_PROFILE_HF_4_51,
         "factor: transformers 4 warns about a whole number,", "rope_scaling.factor", 2},
        {YARN("'original_max_position_embeddings':4096.0"), GYRE_PROFILE_HF_5, "a number with a decimal point;",
         "rope_scaling.original_max_position_embeddings", 3},
        {LLAMA("'max_position_embeddings':8192,'rope_scaling':{'rope_type':'yarn','factor':2.0}"), GYRE_PROFILE_HF_4_56,
         "original_max_position_embeddings: missing; max_position_embeddings is taken", "rope_scaling.rope_type", 1},
        {LLAMA("'max_position_embeddings':8192,'rope_scaling':{'rope_type':'yarn','factor':2.0}"), GYRE_PROFILE_HF_5,
         "original_max_position_embeddings: missing; max_position_embeddings is taken", "rope_scaling.rope_type", 1},
        {LLAMA("'max_position_embeddings':1024,'rope_scaling':{'rope_type':'llama3','factor':8.0,'low_freq_factor':1.0,"
               "'high_freq_factor':4.0,\n'original_max_position_embeddings':1024}"),
         GYRE_PROFILE_HF_5, "original_max_position_embeddings: not below max_position_embeddings",
         "rope_scaling.original_max_position_embeddings", 2},
        {"{'model_type':'gpt_neox','head_dim':64,'rope_theta':10000,\n'rotary_emb_base':20000}", GYRE_PROFILE_HF_5,
         "rope_theta: the class of a gpt_neox reads only rotary_emb_base", "rope_theta", 1},
        {"{'model_type':'gpt_neox','head_dim':64,'partial_rotary_factor':0.5,\n'rotary_pct':0.25}", GYRE_PROFILE_HF_5,
         "partial_rotary_factor: the class of a gpt_neox reads only rotary_pct", "partial_rotary_factor", 1},
        {"{'model_type':'stablelm','head_dim':64,'partial_rotary_factor':0.5,'rope_parameters':{\n"
         "'partial_rotary_factor':0.25}}",
         GYRE_PROFILE_HF_5, "partial_rotary_factor: partial_rotary_factor has precedence over it",
         "rope_parameters.partial_rotary_factor", 2},
        {"{'model_type':'roformer','head_dim':64,\n'rotary_value':true}", GYRE_PROFILE_HF_5,
         "rotary_value: values are rotated too", "rotary_value", 2},
        {LLAMA("\n'dual_chunk_attention_config':{'chunk_size':262144}"), GYRE_PROFILE_HF_5,
         "transformers 5 has no dual chunk", "dual_chunk_attention_config", 2},
        {LLAMA("'rope_scaling':{\n'rope_type':'proportional'}"), GYRE_PROFILE_HF_5, "partial_rotary_factor: missing",
         "rope_scaling.rope_type", 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gyre_reading *r = read_rope(cases[i].file, cases[i].profile, 0);
        assert_warns(r, cases[i].words, cases[i].key, cases[i].line);
        gyre_reading_free(r);
    }
    /* The first twenty one by one, the rest in one. */
    char file[2048] =
        "{'model_type':'llama','hidden_size':128,'num_attention_heads':1,'rope_scaling':{'rope_type':'default'";
    for (int i = 0; i < 25; i++)
        snprintf(file + strlen(file), sizeof file - strlen(file), ",'key%d':%d", i, i);
    strcat(file, "}}");
    gyre_reading *r = read_rope(file, GYRE_PROFILE_HF_5, 0);
    assert_int_equal(r->warnings_count, 21);
    assert_warns(r, "5 more keys that transformers 5 does not read", "rope_scaling.rope_type", 1);
    gyre_reading_free(r);
}

/* A band of zero width, as in Llama 4: wavelengths above L are divided, the others unchanged. */
static void test_llama3_without_a_band(void **state) {
    (void)state;
    double inv_freq[64], factor;
    gyre_reading *r = read_rope(LLAMA("'rope_theta':500000.0,'max_position_embeddings':10485760,'rope_scaling':{"
                                      "'rope_type':'llama3','factor':16.0,'low_freq_factor':1.0,'high_freq_factor':1.0,"
                                      "'original_max_position_embeddings':8192}"),
                                GYRE_PROFILE_HF_5, 0);
    figures(r->groups[0], inv_freq, &factor);
    for (int64_t i = 0; i < 64; i++) {
        const long double theta = plain(128, 5e5L, i), turns = 8192.0L * theta / 6.283185307179586476925286766559L;
        assert_near(inv_freq[i], turns >= 1.0L ? theta : theta / 16.0L, "without a band");
    }
    gyre_reading_free(r);
}

/* The flags of the authors' class of Llama: the soft one goes before the hard one. */
static void test_clipped(void **state) {
    (void)state;
    static const struct {
        const char *keys, *clip;
        gyre_clip mode;
    } cases[] = {{"\n'use_cope':true", "soft", GYRE_CLIP_SOFT},
                 {"\n'use_cope':true,'use_hardclip':true", "soft", GYRE_CLIP_SOFT},
                 {"'use_cope':false,\n'use_hardclip':true", "hard", GYRE_CLIP_HARD},
                 {"'use_cope':false,'use_hardclip':false", NULL, GYRE_CLIP_NONE}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char file[512];
        snprintf(file, sizeof file, "{'model_type':'llama','hidden_size':4096,'num_attention_heads':32,'rope_theta':8e6,%s}",
                 cases[i].keys);
        gyre_reading *r = read_rope(file, GYRE_PROFILE_REFERENCE, 0);
        assert_int_equal(r->groups[0]->config.rope.clip.mode, cases[i].mode);
        assert_int_equal(r->groups[0]->config.rope.clip.pairs, cases[i].clip ? 20 : 0);
        assert_int_equal(r->warnings_count, 0);
        if (cases[i].clip) {
            const char *key = cases[i].mode == GYRE_CLIP_SOFT ? "use_cope" : "use_hardclip";
            double inv_freq[64], factor;
            assert_field(r->groups[0], "clip", cases[i].clip, GYRE_ORIGIN_FILE, key, 2);
            figures(r->groups[0], inv_freq, &factor);
            assert_true(inv_freq[63] == 0 && inv_freq[43] > 0);
        } else
            assert_null(find_field(r->groups[0], "clip"));
        gyre_reading_free(r);
        r = read_rope(file, GYRE_PROFILE_HF_5, 0);
        assert_int_equal(r->groups[0]->config.rope.clip.mode, GYRE_CLIP_NONE);
        assert_int_equal(r->warnings_count, cases[i].clip != NULL);
        if (cases[i].clip) assert_non_null(find_warning(r, "transformers 5 has no clipped RoPE"));
        gyre_reading_free(r);
    }
}

/* The object of the authors' class of Llama.  The rotation itself is a llama's. */
static void test_imaginary(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++) {
        char file[512];
        snprintf(file, sizeof file,
                 "{'model_type':'llama','hidden_size':1024,'num_attention_heads':8,'rope_config':{'imag':%s,"
                 "\n'imag_mode':'imag2'%s}}",
                 i ? "true" : "false", i == 2 ? ",\n'factor':8" : "");
        gyre_reading *r = read_rope(file, GYRE_PROFILE_REFERENCE, 0);
        if (i)
            assert_field(r->groups[0], "imaginary", "imag2", GYRE_ORIGIN_FILE, "rope_config.imag_mode", 2);
        else
            assert_null(find_field(r->groups[0], "imaginary"));
        assert_int_equal(r->groups[0]->config.rope.scaling, GYRE_SCALING_NONE);
        assert_int_equal(find_warning(r, "rope_config.factor: the scaling") != NULL, i == 2);
        gyre_reading_free(r);
        r = read_rope(file, GYRE_PROFILE_HF_5, 0);
        assert_int_equal(find_warning(r, "transformers 5 has no imaginary heads (RoPE++)") != NULL, i > 0);
        gyre_reading_free(r);
    }
}

/* LongRoPE's start tokens, by the name of the released code's argument. */
static void test_start_tokens(void **state) {
    (void)state;
    char file[1024];
    snprintf(file, sizeof file,
             "{'model_type':'llama','head_dim':4,'max_position_embeddings':4096,'rope_scaling':{"
             "'type':'longrope','factor':4.0,'original_max_position_embeddings':1024,"
             "'short_factor':[1,1],'long_factor':[1,4],\n'start_token_idx':8}}");
    gyre_reading *r = read_rope(file, GYRE_PROFILE_REFERENCE, 0);
    assert_int_equal(r->groups[0]->config.rope.longrope.start_tokens, 8);
    assert_int_equal(r->groups[0]->config.rope.longrope.starts, GYRE_LONGROPE_START_RELEASED);
    assert_field(r->groups[0], "start_tokens", "8", GYRE_ORIGIN_FILE, "rope_scaling.start_token_idx", 2);
    assert_int_equal(r->warnings_count, 0);
    gyre_reading_free(r);
    r = read_rope(file, GYRE_PROFILE_HF_5, 0);
    assert_int_equal(r->groups[0]->config.rope.longrope.start_tokens, 0);
    assert_non_null(find_warning(r, "start_token_idx"));
    gyre_reading_free(r);
}

static void test_length_in_use(void **state) {
    (void)state;
    gyre_reading *r = read_rope(LLAMA("'max_position_embeddings':2048,'rope_scaling':{'type':'dynamic','factor':2.0}"),
                                GYRE_PROFILE_HF_5, 4096);
    assert_int_equal(r->groups[0]->config.context_length, 4096);
    assert_int_equal(r->context_length, 4096);
    gyre_reading_free(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_fields_of_llama),
                                       cmocka_unit_test(test_defaults_are_marked_as_defaults),
                                       cmocka_unit_test(test_objects_of_classes),
                                       cmocka_unit_test(test_heads_of_families),
                                       cmocka_unit_test(test_layers_by_rule),
                                       cmocka_unit_test(test_two_bases),
                                       cmocka_unit_test(test_layers_without_positions),
                                       cmocka_unit_test(test_axes),
                                       cmocka_unit_test(test_scale_of_scores),
                                       cmocka_unit_test(test_temperature),
                                       cmocka_unit_test(test_refuses),
                                       cmocka_unit_test(test_numbers_of_python),
                                       cmocka_unit_test(test_sizes_of_classes),
                                       cmocka_unit_test(test_takes_both_names),
                                       cmocka_unit_test(test_warns),
                                       cmocka_unit_test(test_llama3_without_a_band),
                                       cmocka_unit_test(test_clipped),
                                       cmocka_unit_test(test_imaginary),
                                       cmocka_unit_test(test_start_tokens),
                                       cmocka_unit_test(test_length_in_use)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
