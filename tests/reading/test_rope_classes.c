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

/* The numbers are those of transformers 5.23 and 4.55 (ci/run judges): a class's own object is taken whole or not at all. */
static void test_keys_beside_objects(void **state) {
    (void)state;
    static const struct {
        const char *model_type, *keys;
        gyre_profile profile;
        double base;
    } cases[] = {{"ministral3", "", GYRE_PROFILE_HF_5, 1e6},
                 {"ministral3", ",'rope_theta':20000", GYRE_PROFILE_HF_5, 1e6},
                 {"ministral3", ",'rope_parameters':{'rope_type':'default'}", GYRE_PROFILE_HF_5, 1e4},
                 {"ministral3", ",'rope_theta':20000,'rope_parameters':{'rope_type':'default'}", GYRE_PROFILE_HF_5, 2e4},
                 {"apertus", ",'rope_theta':20000", GYRE_PROFILE_HF_5, 12e6},
                 {"apertus", ",'rope_theta':20000", GYRE_PROFILE_HF_4_56, 2e4},
                 {"gpt_oss", ",'rope_theta':20000", GYRE_PROFILE_HF_5, 2e4},
                 {"gpt_neox", ",'rope_theta':20000", GYRE_PROFILE_HF_5, 1e4},
                 {"gpt_neox", ",'rope_theta':20000,'rotary_emb_base':30000", GYRE_PROFILE_HF_4_56, 3e4}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char file[300];
        snprintf(file, sizeof file,
                 "{'model_type':'%s','hidden_size':512,'num_attention_heads':8,'num_hidden_layers':2%s,\n"
                 "'max_position_embeddings':8192}",
                 cases[i].model_type, cases[i].keys);
        gyre_reading *r = read_rope(file, cases[i].profile, 0);
        if (r->groups[0]->config.rope.base != cases[i].base)
            fail_msg("%s: a base of %g, not %g", file, r->groups[0]->config.rope.base, cases[i].base);
        gyre_reading_free(r);
    }
    const char *two = "{'model_type':'ministral3','max_position_embeddings':65536,'original_max_position_embeddings':4096,\n"
                      "'rope_parameters':{'rope_type':'yarn','factor':4.0,'original_max_position_embeddings':16384,"
                      "'llama_4_scaling_beta':0.1}}";
    gyre_reading *moved = read_rope(two, GYRE_PROFILE_HF_5, 0);
    assert_int_equal(moved->groups[0]->config.trained_length, 4096);
    assert_int_equal(moved->groups[0]->config.query.reference_length, 4096);
    gyre_reading_free(moved);
    const char *bare = "{'model_type':'gpt_oss','hidden_size':512,'num_attention_heads':8,'num_hidden_layers':2,\n"
                       "'max_position_embeddings':16384}";
    gyre_reading *old = read_rope(bare, GYRE_PROFILE_HF_4_55, 0), *new = read_rope(bare, GYRE_PROFILE_HF_4_56, 0);
    assert_int_equal(old->groups[0]->config.trained_length, 16384);
    assert_int_equal(new->groups[0]->config.trained_length, 4096);
    gyre_reading_free(old);
    gyre_reading_free(new);
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

/* Qwen2-VL's classes compute their frequencies again for a longer sequence, as the others do.  5.0 to 5.16 did not. */
static void test_qwen2_vl_follows_the_length(void **state) {
    (void)state;
    static const char *const types[] = {"qwen2_vl", "qwen2_5_vl", "qwen2_5_vl_text"};
    const double grown = (double)(1e4L * powl(4.0L * 16.0L - 3.0L, 8.0L / 6.0L));
    char text[500];
    for (int i = 0; i < 3; i++) {
        snprintf(text, sizeof text,
                 "{'model_type':'%s','head_dim':8,'rope_theta':1e4,'max_position_embeddings':4096,\n'rope_scaling':{"
                 "'type':'dynamic','factor':4.0}}",
                 types[i]);
        gyre_reading *r = read_rope(text, GYRE_PROFILE_HF_5, 65536);
        assert_divided(r->groups[0], grown, 1.0);
        assert_warns(r, "dynamic: transformers 5.0 to 5.16 did not recompute", "rope_scaling.type", 2);
        gyre_reading_free(r);
        snprintf(text, sizeof text,
                 "{'model_type':'%s','head_dim':8,'rope_theta':1e4,'max_position_embeddings':4096,\n'rope_scaling':{"
                 "'type':'longrope','factor':1.0,'short_factor':[2,2,2,2],'long_factor':[3,3,3,3]}}",
                 types[i]);
        r = read_rope(text, GYRE_PROFILE_HF_5, 65536);
        assert_divided(r->groups[0], 1e4, 3.0);
        gyre_reading_free(r);
        r = read_rope(text, GYRE_PROFILE_HF_4_56, 65536);
        assert_divided(r->groups[0], 1e4, 3.0);
        assert_int_equal(r->warnings_count, 0);
        gyre_reading_free(r);
    }
}

/* Bases of classes, for files without one: as their classes in 4.57 and 5.23 have them. */
static void test_bases_of_classes(void **state) {
    (void)state;
    static const struct {
        const char *type;
        double in_4, in_5;
    } rows[] = {{"cohere", 1e4, 5e5},   {"falcon_h1", 1e5, 1e4},    {"persimmon", 25000.0, 1e4}, {"fuyu", 25000.0, 1e4},
                {"qwen3_vl", 5e6, 5e5}, {"qwen3_vl_moe", 5e6, 5e5}, {"olmo3", 1e4, 5e5}};
    char text[300];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int v = 0; v < 2; v++) {
            snprintf(text, sizeof text, "{'model_type':'%s','hidden_size':512,'num_attention_heads':4}", rows[i].type);
            gyre_reading *r = read_rope(text, v ? GYRE_PROFILE_HF_5 : GYRE_PROFILE_HF_4_56, 0);
            assert_true(r->groups[0]->config.rope.base == (v ? rows[i].in_5 : rows[i].in_4));
            gyre_reading_free(r);
        }
}

/* transformers 5.23: a rope_theta beside the dict goes to the full layers alone, and only rope_type names a scaling. */
static void test_olmo3_in_the_old_form(void **state) {
    (void)state;
    const char *file = "{'model_type':'olmo3','hidden_size':512,'num_attention_heads':4,'num_hidden_layers':4,"
                       "\n'rope_theta':1e4,'max_position_embeddings':65536,'sliding_window':4096,"
                       "\n'rope_scaling':{'%s':'linear','factor':8.0}}";
    char text[400];
    for (int old = 0; old < 2; old++) {
        snprintf(text, sizeof text, file, old ? "type" : "rope_type");
        gyre_reading *r = read_rope(text, GYRE_PROFILE_HF_5, 0);
        assert_divided(group_of(r, "full_attention"), 1e4, old ? 1.0 : 8.0);
        assert_divided(group_of(r, "sliding_attention"), 5e5, 1.0);
        assert_warns(r, "rope_theta: transformers 5 uses it only for the full_attention layers", "rope_theta", 2);
        if (old) assert_warns(r, "type: transformers 5 reads only rope_type", "rope_scaling.type", 3);
        gyre_reading_free(r);
    }
}

/* ModernBERT scales both kinds of layers.  Nemotron's class scaled none before 5. */
static void test_which_layers_scale(void **state) {
    (void)state;
    const gyre_profile both[] = {GYRE_PROFILE_HF_4_56, GYRE_PROFILE_HF_5};
    for (int v = 0; v < 2; v++) {
        gyre_reading *r = read_rope("{'model_type':'modernbert','hidden_size':512,'num_attention_heads':8,"
                                    "'num_hidden_layers':6,'max_position_embeddings':8192,"
                                    "'rope_scaling':{'rope_type':'linear','factor':4.0}}",
                                    both[v], 0);
        assert_divided(group_of(r, "full_attention"), 160000.0, 4.0);
        assert_divided(group_of(r, "sliding_attention"), 1e4, 4.0);
        gyre_reading_free(r);
        r = read_rope("{'model_type':'nemotron','hidden_size':512,'num_attention_heads':8,'num_hidden_layers':6,"
                      "'max_position_embeddings':8192,\n'rope_scaling':{'rope_type':'linear','factor':4.0}}",
                      both[v], 0);
        assert_divided(r->groups[0], 1e4, v ? 4.0 : 1.0);
        if (v == 0) assert_warns(r, "linear: transformers 4 has no scalings for a nemotron", "rope_scaling.rope_type", 2);
        gyre_reading_free(r);
    }
}

/* The code of these classes has a constant base and no scaling. */
static void test_classes_without_scaling(void **state) {
    (void)state;
    static const struct {
        const char *type;
        gyre_profile profile;
        double base, factor;
        const char *warning;
    } rows[] = {{"gptj", GYRE_PROFILE_HF_5, 1e4, 1.0, "linear: transformers has no scalings for a gptj"},
                {"codegen", GYRE_PROFILE_HF_4_51, 1e4, 1.0, "linear: transformers has no scalings for a codegen"},
                {"roformer", GYRE_PROFILE_HF_4_43, 1e4, 1.0, "linear: transformers has no scalings for a roformer"},
                {"chatglm", GYRE_PROFILE_VLLM, 1e4, 1.0, "linear: vLLM has no scalings for a chatglm"},
                {"gptj", GYRE_PROFILE_VLLM, 5e4, 4.0, NULL}};
    char text[400];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        snprintf(
            text, sizeof text,
            "{'model_type':'%s','hidden_size':512,'n_embd':512,'num_attention_heads':8,'n_head':8,'num_hidden_layers':2,"
            "'rotary_dim':64,'rope_theta':5e4,\n'rope_scaling':{'rope_type':'linear','factor':4.0}}",
            rows[i].type);
        gyre_reading *r = read_rope(text, rows[i].profile, 0);
        assert_divided(r->groups[0], rows[i].base, rows[i].factor);
        if (rows[i].warning) assert_warns(r, rows[i].warning, "rope_scaling.rope_type", 2);
        gyre_reading_free(r);
    }
}

/* transformers 5.23 saves the wider heads of Gemma 4's full layers by the layers' indices. */
static void test_heads_by_layer(void **state) {
    (void)state;
    const char *file = "{'model_type':'gemma4_text','head_dim':64,'num_hidden_layers':6,"
                       "\n'per_layer_config':{'5':{'head_dim':128}%s}}";
    char text[300];
    snprintf(text, sizeof text, file, "");
    gyre_reading *r = read_rope(text, GYRE_PROFILE_HF_5, 0);
    assert_int_equal(group_of(r, "full_attention")->config.head_dim, 128);
    assert_int_equal(group_of(r, "sliding_attention")->config.head_dim, 64);
    assert_field(group_of(r, "full_attention"), "head_dim", "128", GYRE_ORIGIN_FILE, "per_layer_config.5.head_dim", 2);
    gyre_reading_free(r);
    /* Layers of one type with heads of two sizes are two groups. */
    snprintf(text, sizeof text, file, ",'1':{'head_dim':32}");
    r = read_rope(text, GYRE_PROFILE_HF_5, 0);
    assert_int_equal(r->groups_count, 3);
    assert_int_equal(group_of(r, "sliding_attention")->config.head_dim, 64);
    assert_int_equal(group_of(r, "sliding_attention_2")->config.head_dim, 32);
    assert_int_equal(group_of(r, "sliding_attention_2")->layers[0], 1);
    gyre_reading_free(r);
    /* In a deep model transformers saves the indices with zeros before them. */
    r = read_rope("{'model_type':'gemma4_text','head_dim':64,'num_hidden_layers':12,"
                  "\n'per_layer_config':{'05':{'head_dim':128},'11':{'head_dim':128}}}",
                  GYRE_PROFILE_HF_5, 0);
    assert_int_equal(group_of(r, "full_attention")->config.head_dim, 128);
    assert_field(group_of(r, "full_attention"), "head_dim", "128", GYRE_ORIGIN_FILE, "per_layer_config.05.head_dim", 2);
    gyre_reading_free(r);
    r = read_rope("{'model_type':'gemma4_text','head_dim':64,'num_hidden_layers':6}", GYRE_PROFILE_HF_5, 0);
    assert_int_equal(group_of(r, "full_attention")->config.head_dim, 512);
    gyre_reading_free(r);
}

/* ModernBERT's decoder in 4.57 makes both of its modules from one base. */
static void test_modernbert_decoder_in_4(void **state) {
    (void)state;
    static const char *const keys[] = {"'local_rope_theta':5e3", "'global_rope_theta':8e4", "'rope_theta':1e4"};
    const double bases[] = {160000.0, 8e4, 160000.0};
    char text[300];
    for (int i = 0; i < 3; i++) {
        snprintf(text, sizeof text,
                 "{'model_type':'modernbert-decoder','hidden_size':512,'num_attention_heads':8,'num_hidden_layers':6,%s}",
                 keys[i]);
        gyre_reading *r = read_rope(text, GYRE_PROFILE_HF_4_56, 0);
        assert_divided(group_of(r, "sliding_attention"), bases[i], 1.0);
        assert_divided(group_of(r, "full_attention"), bases[i], 1.0);
        gyre_reading_free(r);
    }
}

/* 5.23 looks for the original length before it knows that su means longrope, and stops. */
static void test_su_without_a_length(void **state) {
    (void)state;
    gyre_reading *r = read_rope("{'model_type':'phi3','head_dim':8,'rope_theta':1e4,'max_position_embeddings':4096,"
                                "'original_max_position_embeddings':2048,\n'rope_scaling':{"
                                "'type':'su','short_factor':[2,2,2,2],'long_factor':[3,3,3,3]}}",
                                GYRE_PROFILE_HF_5, 0);
    assert_warns(r, "type: transformers 5 fails on \"su\"", "rope_scaling.type", 2);
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

/* Classes of transformers 5 that rotate whole heads although their weights were trained with a share, which other programs
 * rotate. */
static void test_partial_factor_that_classes_of_5_ignore(void **state) {
    (void)state;
    static const char *const families[] = {"eurobert", "jina_embeddings_v3", "minimax", "nomic_bert", "phimoe"};
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        char file[300];
        snprintf(file, sizeof file,
                 "{'model_type':'%s','hidden_size':512,'num_attention_heads':4,'num_hidden_layers':1,'head_dim':128,"
                 "\n'partial_rotary_factor':0.5}",
                 families[i]);
        gyre_reading *r = read_rope(file, GYRE_PROFILE_HF_5, 0);
        assert_int_equal(r->groups[0]->config.rope.dim, 128);
        assert_warns(r, "partial_rotary_factor: transformers 5 rotates whole heads of a ", "partial_rotary_factor", 2);
        gyre_reading_free(r);
        r = read_rope(file, GYRE_PROFILE_REFERENCE, 0);
        assert_int_equal(r->groups[0]->config.rope.dim, 64);
        gyre_reading_free(r);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_telechat3_uses_remote_code),
                                       cmocka_unit_test(test_keys_beside_objects),
                                       cmocka_unit_test(test_size_of_heads_in_4_43),
                                       cmocka_unit_test(test_qwen2_vl_follows_the_length),
                                       cmocka_unit_test(test_bases_of_classes),
                                       cmocka_unit_test(test_olmo3_in_the_old_form),
                                       cmocka_unit_test(test_su_without_a_length),
                                       cmocka_unit_test(test_which_layers_scale),
                                       cmocka_unit_test(test_classes_without_scaling),
                                       cmocka_unit_test(test_heads_by_layer),
                                       cmocka_unit_test(test_modernbert_decoder_in_4),
                                       cmocka_unit_test(test_vllm_ramp_counts_revolutions),
                                       cmocka_unit_test(test_partial_factor_that_classes_of_5_ignore)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
