/* test_read_config.c: where a config.json describes the decoder, and how model_type is read. */
#include "check_rope_reading.h"

#include "reading/family.h"

static void test_text_config(void **state) {
    (void)state;
    gyre_reading *r = read_rope("{'model_type':'gemma3','rope_theta':5.0,\n'text_config':{\n'model_type':'gemma3_text',"
                                "'hidden_size':2560,'num_attention_heads':8,'num_hidden_layers':6,'head_dim':256,\n"
                                "'rope_theta':2000000.0}}",
                                GYRE_PROFILE_HF_5, 0);
    assert_string_equal(r->model_type, "gemma3");
    assert_field(group_of(r, "full_attention"), "base", "2000000", GYRE_ORIGIN_FILE, "text_config.rope_theta", 4);
    assert_warns(r, "rope_theta: not read; the decoder is described in text_config", "rope_theta", 1);
    const gyre_reading_field *base = field_of(group_of(r, "full_attention"), "base");
    const char *file = quoted("{'model_type':'gemma3','rope_theta':5.0,\n'text_config':{\n'model_type':'gemma3_text',"
                              "'hidden_size':2560,'num_attention_heads':8,'num_hidden_layers':6,'head_dim':256,\n"
                              "'rope_theta':2000000.0}}");
    assert_memory_equal(file + base->offset, "\"rope_theta\":2000000.0", 22);
    gyre_reading_free(r);
}

/* The inner type may be missing, unknown while the outer one is known, or the only one. */
static void test_type_of_text_config(void **state) {
    (void)state;
    gyre_reading *r = read_rope("{'model_type':'llama4','text_config':{'hidden_size':512,'num_attention_heads':4,"
                                "'num_hidden_layers':4}}",
                                GYRE_PROFILE_HF_5, 0);
    assert_int_equal(group_of(r, "chunked_attention")->config.rope.layout, GYRE_LAYOUT_INTERLEAVED);
    gyre_reading_free(r);
    r = read_rope("{'model_type':'a_new_tower','text_config':{'model_type':'qwen3','hidden_size':512,"
                  "'num_attention_heads':4,'num_hidden_layers':4}}",
                  GYRE_PROFILE_HF_5, 0);
    assert_string_equal(r->model_type, "a_new_tower");
    assert_field(group_of(r, "all"), "head_dim", "128", GYRE_ORIGIN_FAMILY, NULL, 0);
    assert_int_equal(r->warnings_count, 0);
    gyre_reading_free(r);
    r = read_rope("{'text_config':{'model_type':'qwen2','hidden_size':512,'num_attention_heads':4,'num_hidden_layers':4}}",
                  GYRE_PROFILE_HF_5, 0);
    assert_string_equal(r->model_type, "qwen2");
    gyre_reading_free(r);
}

static void test_other_names_of_text_config(void **state) {
    (void)state;
    static const char *const names[] = {"llm_config", "language_config", "text_config"};
    char file[512];
    for (int i = 0; i < 3; i++) {
        snprintf(file, sizeof file,
                 "{'model_type':'some_chat','%s':{'model_type':'internlm2','hidden_size':512,'num_attention_heads':4,"
                 "'num_hidden_layers':4,'rope_theta':1000000}}",
                 names[i]);
        gyre_reading *r = read_rope(file, GYRE_PROFILE_HF_5, 0);
        assert_divided(group_of(r, "all"), 1e6, 1.0);
        gyre_reading_free(r);
    }
    gyre_reading *r =
        read_rope("{'model_type':'qwen2_5_omni','thinker_config':{'model_type':'qwen2_5_omni_thinker',"
                  "\n'text_config':{'model_type':'qwen2_5_omni_text','hidden_size':512,'num_attention_heads':4,"
                  "'num_hidden_layers':4,'rope_theta':2000000}}}",
                  GYRE_PROFILE_HF_5, 0);
    assert_field(group_of(r, "all"), "base", "2000000", GYRE_ORIGIN_FILE, "thinker_config.text_config.rope_theta", 2);
    gyre_reading_free(r);
}

/* transformers 4 wrote Qwen2-VL flat, with the tower next to it. */
static void test_flat_composite(void **state) {
    (void)state;
    gyre_reading *r =
        read_rope("{'model_type':'qwen2_vl','hidden_size':3584,'num_attention_heads':28,'num_hidden_layers':28,"
                  "'max_position_embeddings':32768,'rope_theta':1000000.0,'use_sliding_window':false,"
                  "'rope_scaling':{'type':'mrope','mrope_section':[16,24,24]},"
                  "'vision_config':{'depth':32,'embed_dim':1280,'num_heads':16,'model_type':'qwen2_vl'}}",
                  GYRE_PROFILE_HF_4_56, 0);
    const gyre_layer_reading *all = group_of(r, "all");
    assert_int_equal(all->config.rope.axes, 3);
    assert_int_equal(all->config.rope.axes_layout, GYRE_AXES_CHUNKED);
    assert_int_equal(all->config.rope.axis_pairs[0], 16);
    assert_int_equal(all->config.rope.axis_pairs[2], 24);
    assert_field(all, "sections", "16 24 24", GYRE_ORIGIN_FILE, "rope_scaling.mrope_section", 1);
    assert_field(all, "scaling", "default", GYRE_ORIGIN_FILE, "rope_scaling.type", 1);
    (void)group_of(r, "vision");
    assert_ptr_equal(all, r->groups[0]);
    gyre_reading_free(r);
}

static void test_unknown_type(void **state) {
    (void)state;
    gyre_reading *r = read_rope("{'hidden_size':512,'num_attention_heads':4,'num_hidden_layers':4,\n'model_type':'lama',"
                                "'rope_theta':500000,'partial_rotary_factor':0.5}",
                                GYRE_PROFILE_HF_5, 0);
    assert_divided(group_of(r, "all"), 5e5, 1.0);
    assert_int_equal(r->groups[0]->config.rope.dim, 64);
    assert_warns(r, "model_type: \"lama\" is not known (did you mean \"llama\"?); read as a llama, because of rope_theta",
                 "model_type", 2);
    gyre_reading_free(r);
    r = read_rope("{'hidden_size':512,'num_attention_heads':4,\n'rope_scaling':{'type':'linear','factor':2.0}}",
                  GYRE_PROFILE_HF_5, 0);
    assert_divided(group_of(r, "all"), 1e4, 2.0);
    assert_warns(r, "model_type: missing; read as a llama, because of rope_scaling", "rope_scaling", 2);
    assert_string_equal(r->model_type, "");
    gyre_reading_free(r);
    refuse("{'model_type':'mystery','hidden_size':512}", GYRE_PROFILE_HF_5, GYRE_EUNSUPPORTED,
           "model_type: \"mystery\" is not known, and the config has no rope_theta");
    refuse("{'model_type':'mistrall','hidden_size':512}", GYRE_PROFILE_HF_5, GYRE_EUNSUPPORTED,
           "(did you mean \"mistral\"?)");
    refuse("{'hidden_size':512}", GYRE_PROFILE_HF_5, GYRE_EFORMAT, "model_type: missing, and the config has no rope_theta");
    refuse("{'model_type':7}", GYRE_PROFILE_HF_5, GYRE_EFORMAT, "model_type: not a string (config.json, line 1)");
}

/* At least the documented families. */
static void test_knows_families(void **state) {
    (void)state;
    static const char *const names[] = {
        "llama",     "mistral",     "mixtral",     "ministral3",  "qwen2",         "qwen2_moe",     "qwen3",
        "qwen3_moe", "qwen3_next",  "qwen2_vl",    "gemma",       "qwen2_5_vl",    "qwen3_vl",      "gemma2",
        "gemma3",    "gemma3n",     "gemma4",      "phi",         "phi3",          "phi4",          "gpt_neox",
        "gptj",      "codegen",     "falcon",      "cohere",      "cohere2",       "glm",           "glm4",
        "chatglm",   "deepseek_v2", "llama4",      "deepseek_v3", "smollm3",       "gpt_oss",       "olmo2",
        "olmo3",     "stablelm",    "starcoder2",  "minicpm",     "minicpm3",      "internlm2",     "roformer",
        "gpt2",      "opt",         "bloom",       "mpt",         "bert",          "nezha",         "deberta",
        "t5",        "xlnet",       "transfo-xl",  "deberta-v2",  "roberta",       "bart",          "marian",
        "m2m_100",   "whisper",     "gemma3_text", "llama4_text", "qwen3_vl_text", "qwen2_vl_text", "gemma3n_text",
        "gyre"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!gyre_family_of(names[i])) fail_msg("%s", names[i]);
    /* One row each. */
    const gyre_family *family;
    for (size_t i = 0; (family = gyre_family_at(i)) != NULL; i++)
        assert_ptr_equal(gyre_family_of(family->model_type), family);
}

/* Every family with RoPE reads a minimal file under every profile of transformers, with its defaults. */
static void test_reads_every_family(void **state) {
    (void)state;
    const gyre_profile profiles[] = {GYRE_PROFILE_HF_5, GYRE_PROFILE_HF_4_56, GYRE_PROFILE_HF_4_51, GYRE_PROFILE_HF_4_43,
                                     GYRE_PROFILE_REFERENCE};
    const gyre_family *family;
    int read = 0;
    for (size_t i = 0; (family = gyre_family_at(i)) != NULL; i++) {
        if (family->read != gyre_read_rope) continue;
        char file[512];
        /* Moonshine's nine tenths give heads of 36 channels. */
        const int width = strcmp(family->model_type, "moonshine") == 0 ? 288 : 1024;
        snprintf(file, sizeof file,
                 "{'model_type':'%s','hidden_size':%d,'num_attention_heads':8,'num_hidden_layers':12,"
                 "'max_position_embeddings':4096}",
                 family->model_type, width);
        for (int p = 0; p < 5; p++) {
            gyre_reading *r = read_rope(file, profiles[p], 0);
            int64_t layers = 0;
            for (int64_t g = 0; g < r->groups_count; g++)
                layers += r->groups[g]->layers_count;
            assert_int_equal(layers, 12);
            gyre_reading_free(r);
        }
        read++;
    }
    assert_in_range(read, 100, 1000);
}

static void test_no_positions_at_all(void **state) {
    (void)state;
    gyre_reading *r = read_rope("{'model_type':'jamba','hidden_size':512,\n'rope_theta':10000}", GYRE_PROFILE_HF_5, 0);
    assert_int_equal(r->groups[0]->config.kind, GYRE_KIND_NOPE);
    assert_warns(r, "rope_theta: a jamba has no positions", "rope_theta", 2);
    gyre_reading_free(r);
}

/* A file that Gyre wrote. */
static void test_native(void **state) {
    (void)state;
    const char *file = "{'model_type':'gyre','hidden_size':64,'num_attention_heads':4,'num_hidden_layers':3,'head_dim':16,"
                       "'max_position_embeddings':2048,\n'position_embedding_type':'rope','rope_theta':500000.0,"
                       "'rope_scaling':{'rope_type':'ntk',\n'factor':8.0,'attention_factor':1.5},"
                       "\n'rope_layout':'interleaved','query_temperature':'log'}";
    const gyre_profile profiles[] = {GYRE_PROFILE_HF_5, GYRE_PROFILE_HF_4_43, GYRE_PROFILE_REFERENCE, GYRE_PROFILE_VLLM};
    for (int p = 0; p < 4; p++) {
        double inv_freq[8], factor;
        gyre_reading *r = read_rope(file, profiles[p], 0);
        const gyre_layer_reading *all = group_of(r, "all");
        figures(all, inv_freq, &factor);
        assert_near(inv_freq[1], powl(5e5L * powl(8.0L, 16.0L / 14.0L), -2.0L / 16.0L), "ntk");
        assert_true(factor == 1.5);
        assert_int_equal(all->layers_count, 3);
        assert_int_equal(all->config.rope.layout, GYRE_LAYOUT_INTERLEAVED);
        assert_int_equal(all->config.query.temperature, GYRE_TEMPERATURE_LOG);
        assert_field(all, "encoding", "rope", GYRE_ORIGIN_FILE, "position_embedding_type", 2);
        assert_field(all, "factor", "8", GYRE_ORIGIN_FILE, "rope_scaling.factor", 3);
        assert_field(all, "layout", "interleaved", GYRE_ORIGIN_FILE, "rope_layout", 4);
        gyre_reading_free(r);
    }
    gyre_reading *asked = read_rope(file, GYRE_PROFILE_HF_5, 9000);
    assert_int_equal(asked->groups[0]->config.context_length, 9000);
    gyre_reading_free(asked);
    refuse("{'model_type':'gyre','hidden_size':64,\n'position_embedding_type':'kerpel'}", GYRE_PROFILE_HF_5,
           GYRE_EUNSUPPORTED, "position_embedding_type: \"kerpel\" is not known (config.json, line 2)");
    refuse("{'model_type':'gyre','hidden_size':64,'head_dim':8,'position_embedding_type':'rope','rope_scaling':{"
           "'rope_type':'llama3','factor':2.0,'low_freq_factor':1}}",
           GYRE_PROFILE_HF_5, GYRE_EFORMAT, "max_position_embeddings: missing");
}

/* layer_rope_theta of a gyre: a group for each base, and for the layers that do not rotate. */
static void test_native_bases(void **state) {
    (void)state;
#define GYRE_FILE                                                                                                           \
    "{'model_type':'gyre','hidden_size':64,'num_attention_heads':4,'num_hidden_layers':4,'max_position_embeddings':128,"    \
    "'position_embedding_type':'%s','rope_theta':30.0,\n'layer_rope_theta':%s}"
    static const struct {
        const char *kind, *list;
        gyre_status status;
        const char *why;
    } wrong[] = {{"rope", "[5,5,5]", GYRE_EFORMAT, "layer_rope_theta: not a list of 4 numbers (config.json, line 2)"},
                 {"rope", "[5,5,5,1]", GYRE_EFORMAT, "layer_rope_theta: 1 is not above 1"},
                 {"rope", "[5,5,5,-5]", GYRE_EFORMAT, "layer_rope_theta: -5 is not above 1"},
                 {"rope", "[0,0,0,0]", GYRE_EFORMAT, "layer_rope_theta: all are 0, and no layer rotates"},
                 {"alibi", "[5,5,5,5]", GYRE_EFORMAT, "layer_rope_theta: alibi does not rotate"}};
    char file[512];
    snprintf(file, sizeof file, GYRE_FILE, "rope", "[0,700,30,700]");
    gyre_reading *r = read_rope(file, GYRE_PROFILE_HF_5, 0);
    assert_int_equal(r->groups_count, 3);
    const gyre_layer_reading *still = group_of(r, "nope"), *first = group_of(r, "full_attention"),
                             *other = group_of(r, "full_attention_base_30");
    assert_int_equal(still->config.kind, GYRE_KIND_NOPE);
    assert_true(still->layers_count == 1 && still->layers[0] == 0);
    assert_true(first->config.rope.base == 700 && first->layers_count == 2 && first->layers[1] == 3);
    assert_true(other->config.rope.base == 30 && other->layers_count == 1 && other->layers[0] == 2);
    assert_field(first, "base", "700", GYRE_ORIGIN_FILE, "layer_rope_theta", 2);
    gyre_reading_free(r);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        snprintf(file, sizeof file, GYRE_FILE, wrong[i].kind, wrong[i].list);
        refuse(file, GYRE_PROFILE_HF_5, wrong[i].status, wrong[i].why);
    }
#undef GYRE_FILE
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_text_config),
                                       cmocka_unit_test(test_type_of_text_config),
                                       cmocka_unit_test(test_other_names_of_text_config),
                                       cmocka_unit_test(test_flat_composite),
                                       cmocka_unit_test(test_unknown_type),
                                       cmocka_unit_test(test_knows_families),
                                       cmocka_unit_test(test_reads_every_family),
                                       cmocka_unit_test(test_no_positions_at_all),
                                       cmocka_unit_test(test_native),
                                       cmocka_unit_test(test_native_bases)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
