/* test_rope_classes.c: scalings under single classes of transformers, and under models with code of their own. */
#include "check_rope_reading.h"

static const gyre_profile versions[] = {GYRE_PROFILE_HF_4_43, GYRE_PROFILE_HF_4_51, GYRE_PROFILE_HF_4_56, GYRE_PROFILE_HF_5};

/* A model with remote code has the same reading under every profile: s is the ratio of the lengths, the slope 0.07. */
static void test_telechat3_uses_remote_code(void **state) {
    (void)state;
    const char *file = "{'model_type':'telechat3','hidden_size':6144,'num_attention_heads':48,'num_hidden_layers':2,"
                       "'max_position_embeddings':131072,'rope_theta':1e6,'rope_scaling':{\n'type':'telechat3-yarn',"
                       "\n'factor':2.0,'original_max_position_embeddings':32768,\n'attention_factor':2.0}}";
    const gyre_profile all[] = {GYRE_PROFILE_HF_4_43, GYRE_PROFILE_HF_4_51, GYRE_PROFILE_HF_4_56, GYRE_PROFILE_HF_5,
                                GYRE_PROFILE_REFERENCE};
    for (int v = 0; v < 5; v++) {
        const naive_yarn yarn = {128, 1e6L, 32768.0L, 4.0L, 1};
        gyre_reading *r = read_rope(file, all[v], 0);
        assert_yarn(r->groups[0], &yarn, 1.0970406053); /* 0.07 ln 4 + 1 */
        assert_warns(r, "telechat3-yarn", "rope_scaling.type", 2);
        assert_warns(r, "takes the ratio of the lengths, 4, and not 2", "rope_scaling.factor", 3);
        assert_warns(r, "attention_factor", "rope_scaling.attention_factor", 4);
        gyre_reading_free(r);
        refuse("{'model_type':'telechat3','head_dim':128,'max_position_embeddings':4096,'rope_scaling':{'type':"
               "'telechat3-yarn','original_max_position_embeddings':8192}}",
               all[v], GYRE_EFORMAT, "original_max_position_embeddings: above max_position_embeddings");
        refuse("{'model_type':'telechat3','head_dim':128,'max_position_embeddings':4096,'rope_scaling':{'type':"
               "'telechat3-yarn','factor':2.0}}",
               all[v], GYRE_EFORMAT, "original_max_position_embeddings: missing");
        refuse(LLAMA("'rope_scaling':{'type':'telechat3-yarn','factor':2.0,'original_max_position_embeddings':8}"), all[v],
               GYRE_EUNSUPPORTED, "\"telechat3-yarn\" is not a type");
    }
}

/* Llama's class reads head_dim since 4.45, Mistral's did before. */
static void test_size_of_heads_in_4_43(void **state) {
    (void)state;
    const char *file =
        "{'model_type':'%s','hidden_size':1024,'num_attention_heads':8,'num_hidden_layers':2,\n'head_dim':64}";
    for (int v = 0; v < 4; v++) {
        char text[200];
        snprintf(text, sizeof text, file, "llama");
        gyre_reading *r = read_rope(text, versions[v], 0);
        assert_int_equal(r->groups[0]->config.head_dim, v == 0 ? 128 : 64);
        if (v == 0) {
            assert_field(r->groups[0], "head_dim", "128", GYRE_ORIGIN_DERIVED, NULL, 0);
            assert_warns(r, "head_dim: transformers before 4.45 does not read it", "head_dim", 2);
        } else {
            assert_int_equal(r->warnings_count, 0);
        }
        gyre_reading_free(r);
        snprintf(text, sizeof text, file, "mistral");
        r = read_rope(text, versions[v], 0);
        assert_int_equal(r->groups[0]->config.head_dim, 64);
        gyre_reading_free(r);
    }
}

/* Qwen2-VL's classes never recompute their frequencies: dynamic does not scale, and LongRoPE uses the short list. */
static void test_qwen2_vl_is_frozen(void **state) {
    (void)state;
    static const char *const types[] = {"qwen2_vl", "qwen2_5_vl", "qwen2_5_vl_text"};
    char text[500];
    for (int i = 0; i < 3; i++) {
        snprintf(text, sizeof text,
                 "{'model_type':'%s','head_dim':8,'rope_theta':1e4,'max_position_embeddings':4096,\n'rope_scaling':{"
                 "'type':'dynamic','factor':4.0}}",
                 types[i]);
        gyre_reading *r = read_rope(text, GYRE_PROFILE_HF_5, 65536);
        assert_divided(r->groups[0], 1e4, 1.0);
        assert_warns(r, "dynamic: transformers' qwen2", "rope_scaling.type", 2);
        gyre_reading_free(r);
        snprintf(text, sizeof text,
                 "{'model_type':'%s','head_dim':8,'rope_theta':1e4,'max_position_embeddings':4096,\n'rope_scaling':{"
                 "'type':'longrope','factor':1.0,'short_factor':[2,2,2,2],'long_factor':[3,3,3,3]}}",
                 types[i]);
        r = read_rope(text, GYRE_PROFILE_HF_5, 65536);
        assert_divided(r->groups[0], 1e4, 2.0);
        assert_warns(r, "so that it turns by short_factor at every length", "rope_scaling.type", 2);
        gyre_reading_free(r);
    }
    gyre_reading *r = read_rope(text, GYRE_PROFILE_REFERENCE, 65536);
    assert_divided(r->groups[0], 1e4, 3.0);
    gyre_reading_free(r);
}

/* transformers treats 0 and null as the default. vLLM computes with them and fails. */
static void test_vllm_ramp_counts_revolutions(void **state) {
    (void)state;
    static const char *const values[] = {"0", "null"};
    static const char *const keys[] = {"beta_fast", "beta_slow"};
    const naive_yarn yarn = {128, 1e4L, 4096.0L, 32.0L, 1};
    char text[400], words[200];
    for (int i = 0; i < 4; i++) {
        snprintf(text, sizeof text,
                 LLAMA("'rope_theta':1e4,'max_position_embeddings':131072,'rope_scaling':{'type':'yarn','factor':32.0,"
                       "'original_max_position_embeddings':4096,\n'%s':%s}"),
                 keys[i / 2], values[i % 2]);
        snprintf(words, sizeof words,
                 "rope_scaling.%s: %s, by which vLLM would divide; leave the key out (config.json, line 2)", keys[i / 2],
                 values[i % 2]);
        refuse(text, GYRE_PROFILE_VLLM, GYRE_EUNSUPPORTED, words);
        gyre_reading *r = read_rope(text, GYRE_PROFILE_HF_5, 0);
        assert_yarn(r->groups[0], &yarn, 1.3465735903);
        gyre_reading_free(r);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_telechat3_uses_remote_code), cmocka_unit_test(test_size_of_heads_in_4_43),
        cmocka_unit_test(test_qwen2_vl_is_frozen), cmocka_unit_test(test_vllm_ramp_counts_revolutions)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
