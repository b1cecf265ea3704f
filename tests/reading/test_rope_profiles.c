/* test_rope_profiles.c: one file, different numbers: where versions of transformers and the papers differ, by values. */
#include "check_rope_reading.h"

static const double g8 = 1.2079441542, g16 = 1.2772588722, g32 = 1.3465735903, g40 = 1.3688879454, g4 = 1.1386294361;

static const gyre_profile versions[] = {GYRE_PROFILE_HF_4_43, GYRE_PROFILE_HF_4_51, GYRE_PROFILE_HF_4_56, GYRE_PROFILE_HF_5};

/* -- YaRN -- */
/* Up to 4.50 the ramp uses max_position_embeddings, even if the original length is given. */
static void test_ramp_over_served_length_in_4_43(void **state) {
    (void)state;
    const char *file = LLAMA("'rope_theta':10000.0,'max_position_embeddings':131072,\n'rope_scaling':{'rope_type':'yarn',"
                             "'factor':32.0,\n'original_max_position_embeddings':4096}");
    for (int v = 0; v < 4; v++) {
        const naive_yarn yarn = {128, 1e4L, v == 0 ? 131072.0L : 4096.0L, 32.0L, 1};
        gyre_reading *r = read_rope(file, versions[v], 0);
        assert_yarn(r->groups[0], &yarn, g32);
        if (v == 0)
            assert_warns(r, "original_max_position_embeddings: transformers before 4.51 does not read it",
                         "rope_scaling.original_max_position_embeddings", 3);
        else
            assert_int_equal(r->warnings_count, 0);
        gyre_reading_free(r);
    }
}

/* The published bounds of the ramp, which check the formula above. */
static void test_bounds_of_ramps(void **state) {
    (void)state;
    const naive_yarn llama2 = {128, 1e4L, 4096.0L, 32.0L, 1}, qwen = {128, 1e6L, 32768.0L, 4.0L, 1},
                     oss = {64, 15e4L, 4096.0L, 32.0L, 0}, deepseek = {64, 1e4L, 4096.0L, 40.0L, 1},
                     ministral = {128, 1e6L, 16384.0L, 16.0L, 1};
    const struct {
        const naive_yarn *yarn;
        long double lo, hi;
    } cases[] = {{&llama2, 20.944482L, 45.026881L},
                 {&qwen, 23.595948L, 39.650881L},
                 {&oss, 8.092779116L, 17.398024502L},
                 {&deepseek, 10.472241L, 22.513441L},
                 {&ministral, 20.384961L, 36.439894L}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        test_close(turning(cases[i].yarn, 32.0L), cases[i].lo, 6e-7L, "lo");
        test_close(turning(cases[i].yarn, 1.0L), cases[i].hi, 6e-7L, "hi");
    }
}

/* 4.51 to 4.55 use the ratio of the lengths instead of the factor: here 1, so nothing is scaled. */
static void test_ratio_for_factor_in_4_51(void **state) {
    (void)state;
    const char *file = LLAMA("'rope_theta':1e6,'max_position_embeddings':32768,'rope_scaling':{'type':'yarn',\n'factor':4.0,"
                             "'original_max_position_embeddings':32768}");
    gyre_reading *r;
    for (int v = 0; v < 2; v++) {
        r = read_rope(file, v ? GYRE_PROFILE_HF_4_55 : GYRE_PROFILE_HF_4_51, 0);
        assert_divided(r->groups[0], 1e6, 1.0);
        assert_field(r->groups[0], "factor", "1", GYRE_ORIGIN_DERIVED, "rope_scaling.factor", 2);
        assert_non_null(field_of(r->groups[0], "factor")->note);
        assert_warns(r, "takes the ratio of the lengths, 1, and not 4", "rope_scaling.factor", 2);
        gyre_reading_free(r);
    }
    const gyre_profile others[] = {GYRE_PROFILE_HF_4_43, GYRE_PROFILE_HF_4_56, GYRE_PROFILE_HF_5, GYRE_PROFILE_REFERENCE};
    for (int v = 0; v < 4; v++) {
        const naive_yarn yarn = {128, 1e6L, 32768.0L, 4.0L, 1};
        r = read_rope(file, others[v], 0);
        assert_yarn(r->groups[0], &yarn, g4);
        gyre_reading_free(r);
    }
    /* Without the original length, 4.51 uses the factor too. */
    r = read_rope(LLAMA("'max_position_embeddings':4096,'rope_scaling':{'type':'yarn','factor':8.0}"), GYRE_PROFILE_HF_4_51,
                  0);
    const naive_yarn yarn = {128, 1e4L, 4096.0L, 8.0L, 1};
    assert_yarn(r->groups[0], &yarn, g8);
    gyre_reading_free(r);
}

static void test_null_factor_is_the_ratio(void **state) {
    (void)state;
    const char *file = LLAMA("'max_position_embeddings':65536,'rope_scaling':{'rope_type':'yarn','factor':null,"
                             "'original_max_position_embeddings':4096}");
    const gyre_profile know[] = {GYRE_PROFILE_HF_4_51, GYRE_PROFILE_HF_4_56, GYRE_PROFILE_HF_5, GYRE_PROFILE_REFERENCE};
    for (int v = 0; v < 4; v++) {
        const naive_yarn yarn = {128, 1e4L, 4096.0L, 16.0L, 1};
        gyre_reading *r = read_rope(file, know[v], 0);
        assert_yarn(r->groups[0], &yarn, g16);
        assert_int_equal(field_of(r->groups[0], "factor")->origin, GYRE_ORIGIN_DERIVED);
        gyre_reading_free(r);
    }
    refuse(file, GYRE_PROFILE_HF_4_43, GYRE_EFORMAT, "rope_scaling.factor: missing");
}

static void test_truncate_since_4_55(void **state) {
    (void)state;
    const char *file =
        "{'model_type':'gpt_oss','num_hidden_layers':2,'layer_types':['full_attention','full_attention'],"
        "'rope_theta':150000,'max_position_embeddings':131072,'rope_scaling':{'rope_type':'yarn','factor':32.0,"
        "'beta_fast':32.0,'beta_slow':1.0,\n'truncate':false,'original_max_position_embeddings':4096}}";
    const gyre_profile know[] = {GYRE_PROFILE_HF_4_51, GYRE_PROFILE_HF_4_55, GYRE_PROFILE_HF_4_56, GYRE_PROFILE_HF_5};
    for (int v = 0; v < 4; v++) {
        const naive_yarn yarn = {64, 15e4L, 4096.0L, 32.0L, v == 0};
        gyre_reading *r = read_rope(file, know[v], 0);
        assert_yarn(r->groups[0], &yarn, g32);
        assert_field(r->groups[0], "truncate", v == 0 ? "true" : "false", GYRE_ORIGIN_FILE, "rope_scaling.truncate", 2);
        if (v == 0) assert_warns(r, "truncate: transformers 4.51 does not read it", "rope_scaling.truncate", 2);
        gyre_reading_free(r);
    }
}

/* In an object for one type of layers, transformers 5 looks for truncate in the wrong place. */
static void test_truncate_of_nested_objects(void **state) {
    (void)state;
    const char *file =
        LLAMA("'max_position_embeddings':65536,'rope_parameters':{'full_attention':{'rope_type':'yarn',"
              "'rope_theta':150000.0,'factor':16.0,'original_max_position_embeddings':4096,\n'truncate':false}}");
    naive_yarn yarn = {128, 15e4L, 4096.0L, 16.0L, 1};
    gyre_reading *r = read_rope(file, GYRE_PROFILE_HF_5, 0);
    assert_yarn(r->groups[0], &yarn, g16);
    assert_warns(r, "truncate: transformers 5 does not read it in an object for one type of layers",
                 "rope_parameters.full_attention.truncate", 2);
    gyre_reading_free(r);
    yarn.truncate = 0;
    r = read_rope(file, GYRE_PROFILE_REFERENCE, 0);
    assert_yarn(r->groups[0], &yarn, g16);
    gyre_reading_free(r);
}

#define MSCALE(keys)                                                                                                        \
    LLAMA("'max_position_embeddings':163840,'rope_scaling':{'type':'yarn','factor':40," keys                                \
          "'original_max_position_embeddings':4096}")

static double attention_of(const char *file, gyre_profile profile, int64_t length) {
    double inv_freq[256], factor;
    gyre_reading *r = read_rope(file, profile, length);
    figures(r->groups[0], inv_freq, &factor);
    test_close((long double)strtod(field_of(r->groups[0], "attention_factor")->value, NULL), (long double)factor, 1e-15L,
               "the field says what is computed");
    gyre_reading_free(r);
    return factor;
}

static void check_attention(const char *file, gyre_profile profile, double want) {
    test_close((long double)attention_of(file, profile, 0), (long double)want, 1e-10L, file);
}

static void test_mscale_since_4_51(void **state) {
    (void)state;
    for (int v = 0; v < 4; v++) {
        check_attention(MSCALE("'mscale':1.0,'mscale_all_dim':1.0,"), versions[v], v == 0 ? g40 : 1.0);
        /* 0.1 ln 40 = 0.36888794541139363 */
        check_attention(MSCALE("'mscale':0.707,'mscale_all_dim':0.5,"), versions[v],
                        v == 0 ? g40 : 1.26080377740 / 1.18444397271);
        /* One of the two alone is ignored. */
        check_attention(MSCALE("'mscale':0.707,"), versions[v], g40);
        check_attention(MSCALE("'mscale_all_dim':0.707,"), versions[v], g40);
        check_attention(MSCALE("'mscale':0.707,'mscale_all_dim':0,"), versions[v], g40);
        check_attention(MSCALE("'attention_factor':0.8,'mscale':0.707,'mscale_all_dim':1,"), versions[v], 0.8);
    }
    /* Used alone too, as in the code that introduced the two. */
    check_attention(MSCALE("'mscale':0.707,"), GYRE_PROFILE_REFERENCE, 1.26080377740);
    check_attention(MSCALE("'mscale_all_dim':0.707,"), GYRE_PROFILE_REFERENCE, 1.36888794541 / 1.26080377740);
    gyre_reading *r = read_rope(MSCALE("\n'mscale':0.707,"), GYRE_PROFILE_HF_5, 0);
    assert_warns(r, "mscale: transformers reads mscale and mscale_all_dim only if both are set", "rope_scaling.mscale", 2);
    gyre_reading_free(r);
    r = read_rope(MSCALE("\n'mscale':0.707,"), GYRE_PROFILE_HF_4_43, 0);
    assert_warns(r, "mscale: transformers 4.43 does not read it", "rope_scaling.mscale", 2);
    gyre_reading_free(r);
}

/* -- latent attention -- */
#define LATENT(type, mscale, served)                                                                                        \
    "{'model_type':'" type "','hidden_size':2048,'num_attention_heads':16,'num_hidden_layers':3,'qk_rope_head_dim':64,"     \
    "'qk_nope_head_dim':128,'max_position_embeddings':" served ",'rope_scaling':{'type':'yarn','factor':40,"                \
    "'mscale':" mscale ",'mscale_all_dim':" mscale ",'original_max_position_embeddings':4096}}"

static void check_softmax(const char *file, gyre_profile profile, double want) {
    gyre_reading *r = read_rope(file, profile, 0);
    const gyre_layer_reading *all = group_of(r, "all");
    test_close((long double)all->softmax_multiplier, (long double)want, 1e-10L, file);
    test_close((long double)all->scale, (long double)(want / sqrt(192.0)), 1e-11L, file);
    assert_int_equal(all->config.head_dim, 192);
    assert_int_equal(all->config.rope.first_channel, 128);
    assert_int_equal(all->config.rope.dim, 64);
    double inv_freq[256], factor;
    figures(all, inv_freq, &factor);
    test_close((long double)factor, 1.0L, 1e-12L, file);
    gyre_reading_free(r);
}

static void test_softmax_of_latent_attention(void **state) {
    (void)state;
    const char *v3 = LATENT("deepseek_v3", "1.0", "163840"), *lite = LATENT("deepseek_v2", "0.707", "163840");
    /* In 4.43 from the code that came with the models. */
    for (int v = 0; v < 4; v++) {
        check_softmax(v3, versions[v], 1.8738542071);
        check_softmax(lite, versions[v], v == 0 || v == 3 ? 1.5896261651 : 1.0);
    }
    gyre_reading *r = read_rope(lite, GYRE_PROFILE_HF_4_56, 0);
    assert_warns(r, "mscale_all_dim: transformers 4.56 does not multiply the softmax", "rope_scaling.mscale_all_dim", 1);
    gyre_reading_free(r);
    const naive_yarn yarn = {64, 1e4L, 4096.0L, 40.0L, 1};
    r = read_rope(v3, GYRE_PROFILE_HF_4_43, 0);
    assert_yarn(r->groups[0], &yarn, 1.0);
    assert_warns(r, "has no class for a deepseek_v3", "rope_scaling.type", 1);
    gyre_reading_free(r);
    check_softmax(v3, GYRE_PROFILE_REFERENCE, 1.8738542071);
    check_softmax(lite, GYRE_PROFILE_REFERENCE, 1.5896261651);
    /* DeepSeek's code skips the scaling for a model whose context is not longer than the trained length. */
    const char *young = LATENT("deepseek_v3", "1.0", "4096");
    check_softmax(young, GYRE_PROFILE_REFERENCE, 1.0);
    r = read_rope(young, GYRE_PROFILE_REFERENCE, 0);
    assert_divided(r->groups[0], 1e4, 1.0);
    gyre_reading_free(r);
    check_softmax(young, GYRE_PROFILE_HF_5, 1.8738542071);
}

/* -- LongRoPE -- */
#define LISTS "'short_factor':[1.0,2.0],'long_factor':[3.0,4.0]"
#define LONG_OF(type, outer, inner)                                                                                         \
    "{'model_type':'" type "','num_attention_heads':1,'num_hidden_layers':1,'hidden_size':4,'max_position_embeddings':"     \
    "131072," outer "'rope_scaling':{'type':'longrope'," inner LISTS "}}"
#define LONG(outer, inner) LONG_OF("llama", outer, inner)

static void check_longrope(const char *file, gyre_profile profile, int64_t length, double attention, double divisor) {
    double inv_freq[2], factor;
    gyre_reading *r = read_rope(file, profile, length);
    figures(r->groups[0], inv_freq, &factor);
    test_close((long double)factor, (long double)attention, 1e-10L, file);
    assert_near(inv_freq[0], 1.0L / (long double)divisor, file);
    gyre_reading_free(r);
}

static void test_factor_of_longrope(void **state) {
    (void)state;
    /* sqrt(1 + ln 8 / ln 4096) = sqrt(1.25), ln 32 / ln 4096 = 5 / 12, ln 8 / ln 131072 = 3 / 17 */
    const double by_ratio = 1.1902380714, by_factor = 1.1180339887, over_served = 1.0846522891;
    const char *beside = LONG("'original_max_position_embeddings':4096,", "'factor':8.0,");
    const char *inside = LONG("", "'original_max_position_embeddings':4096,'factor':8.0,");
    for (int v = 0; v < 4; v++) {
        check_longrope(beside, versions[v], 4096, v < 3 ? by_ratio : by_factor, 1.0);
        check_longrope(beside, versions[v], 4097, v < 3 ? by_ratio : by_factor, v == 0 ? 1.0 : 3.0);
        /* Version 4 does not look for L in the object. */
        check_longrope(inside, versions[v], 4097, v < 3 ? over_served : by_factor, v < 3 ? 1.0 : 3.0);
    }
    check_longrope(beside, GYRE_PROFILE_HF_4_55, 4097, by_ratio, 3.0);
    /* Before 4.51 a Llama kept the list of its first call; Phi-3 looked at the length again. */
    gyre_reading *r = read_rope(beside, GYRE_PROFILE_HF_4_43, 4097);
    assert_warns(r, "short_factor is used at every length", "rope_scaling.long_factor", 1);
    gyre_reading_free(r);
    check_longrope(LONG_OF("phi", "'original_max_position_embeddings':4096,'partial_rotary_factor':1.0,", ""),
                   GYRE_PROFILE_HF_4_43, 4097, by_ratio, 1.0);
    check_longrope(LONG_OF("phi3", "'original_max_position_embeddings':4096,", ""), GYRE_PROFILE_HF_4_43, 4097, by_ratio,
                   3.0);
    check_longrope(beside, GYRE_PROFILE_REFERENCE, 4097, by_factor, 3.0);
    check_longrope(inside, GYRE_PROFILE_REFERENCE, 4097, by_factor, 3.0);
    check_longrope(LONG("'original_max_position_embeddings':4096,", ""), GYRE_PROFILE_HF_5, 0, by_ratio, 1.0);
    check_longrope(LONG("'original_max_position_embeddings':4096,", "'attention_factor':2.5,"), GYRE_PROFILE_HF_4_51, 0, 2.5,
                   1.0);
    refuse(LONG("", ""), GYRE_PROFILE_HF_4_56, GYRE_EFORMAT, "rope_scaling.factor: missing");
    r = read_rope(beside, GYRE_PROFILE_HF_4_56, 0);
    assert_warns(r, "factor: transformers 4 takes the ratio of the lengths, 32, and not 8", "rope_scaling.factor", 1);
    gyre_reading_free(r);
    r = read_rope(LONG("'original_max_position_embeddings':4096,", "'short_mscale':1.1,"), GYRE_PROFILE_HF_5, 0);
    assert_warns(r, "short_mscale: transformers 5 does not read it", "rope_scaling.short_mscale", 1);
    gyre_reading_free(r);
    check_longrope(LONG("'original_max_position_embeddings':4096,", "'short_mscale':1.1,'long_mscale':1.2,"),
                   GYRE_PROFILE_REFERENCE, 4097, 1.2, 3.0);
}

/* The only class that uses the two magnitudes, by the current length. */
static void test_magnitudes_of_phimoe(void **state) {
    (void)state;
    const char *file = "{'model_type':'phimoe','num_attention_heads':1,'num_hidden_layers':1,'hidden_size':4,"
                       "'max_position_embeddings':131072,'original_max_position_embeddings':4096,'rope_scaling':{"
                       "'type':'longrope','short_mscale':1.1,'long_mscale':1.2," LISTS "}}";
    for (int v = 0; v < 4; v++) {
        test_close((long double)attention_of(file, versions[v], 4096), 1.1L, 1e-12L, "short");
        test_close((long double)attention_of(file, versions[v], 4097), 1.2L, 1e-12L, "long");
    }
}

static void test_names_of_longrope(void **state) {
    (void)state;
    const char *phi = "{'model_type':'phi3','num_attention_heads':1,'num_hidden_layers':1,'hidden_size':4,"
                      "'max_position_embeddings':131072,'rope_scaling':{'type':'%s'," LISTS "}}";
    static const char *const names[] = {"su", "yarn", "longrope"};
    char file[1024];
    for (int v = 0; v < 4; v++)
        for (int i = 0; i < 3; i++) { /* Phi-3's class has L = 4096 by default */
            snprintf(file, sizeof file, phi, names[i]);
            check_longrope(file, versions[v], 4097, 1.1902380714, 3.0);
        }
    const char *llama = LONG("'original_max_position_embeddings':4096,", "'rope_type':'su','factor':8.0,");
    for (int v = 0; v < 4; v++)
        refuse(LONG("", "'rope_type':'su',"), versions[v], GYRE_EUNSUPPORTED, "rope_type: \"su\" is not a type that");
    check_longrope(llama, GYRE_PROFILE_REFERENCE, 4097, 1.1180339887, 3.0);
}

/* -- what is read at all -- */
static void test_rope_parameters_since_5(void **state) {
    (void)state;
    const char *file = LLAMA("'max_position_embeddings':131072,\n'rope_parameters':{'rope_type':'linear','factor':2.0,"
                             "'rope_theta':500000.0}");
    for (int v = 0; v < 3; v++) {
        gyre_reading *r = read_rope(file, versions[v], 0);
        assert_divided(r->groups[0], 1e4, 1.0);
        assert_warns(r, "rope_parameters: transformers 4 does not read it", "rope_parameters", 2);
        assert_field(r->groups[0], "base", "10000", GYRE_ORIGIN_READER, NULL, 0);
        gyre_reading_free(r);
    }
    gyre_reading *r = read_rope(file, GYRE_PROFILE_HF_5, 0);
    assert_divided(r->groups[0], 5e5, 2.0);
    assert_int_equal(r->warnings_count, 0);
    gyre_reading_free(r);
    /* The class has its own base: a million for Qwen2-VL. */
    r = read_rope("{'model_type':'qwen2_vl','hidden_size':256,'num_attention_heads':2,'num_hidden_layers':1,"
                  "'rope_parameters':{'rope_type':'default','rope_theta':500000.0}}",
                  GYRE_PROFILE_HF_4_56, 0);
    assert_divided(r->groups[0], 1e6, 1.0);
    gyre_reading_free(r);
}

static void test_old_object_wins_whole(void **state) {
    (void)state;
    gyre_reading *r = read_rope(LLAMA("'rope_scaling':{'type':'linear','factor':2.0},\n'rope_parameters':{"
                                      "'rope_type':'linear','factor':4.0,'rope_theta':500000.0}"),
                                GYRE_PROFILE_HF_5, 0);
    assert_divided(r->groups[0], 1e4, 2.0);
    assert_warns(r, "rope_parameters: transformers 5 replaces the whole object by rope_scaling", "rope_parameters", 2);
    gyre_reading_free(r);
    r = read_rope(LLAMA("'rope_scaling':{},'rope_parameters':{'rope_type':'linear','factor':4.0,'rope_theta':500000.0}"),
                  GYRE_PROFILE_HF_5, 0);
    assert_divided(r->groups[0], 5e5, 4.0);
    gyre_reading_free(r);
}

static void test_base_outside_or_inside_the_object(void **state) {
    (void)state;
    const char *file = LLAMA("\n'rope_theta':10000.0,'rope_scaling':{'rope_type':'linear','factor':2.0,\n'rope_theta':5e5}");
    gyre_reading *r = read_rope(file, GYRE_PROFILE_HF_5, 0);
    assert_divided(r->groups[0], 5e5, 2.0);
    assert_warns(r, "rope_theta: transformers 5 takes the other value, in rope_scaling.rope_theta", "rope_theta", 2);
    gyre_reading_free(r);
    r = read_rope(file, GYRE_PROFILE_HF_4_56, 0);
    assert_divided(r->groups[0], 1e4, 2.0);
    assert_warns(r, "rope_theta: transformers 4.56 does not read it", "rope_scaling.rope_theta", 3);
    gyre_reading_free(r);
}

static void test_partial_factor_outside_or_inside_the_object(void **state) {
    (void)state;
    const char *inside = "{'model_type':'stablelm','hidden_size':256,'num_attention_heads':4,'num_hidden_layers':1,"
                         "\n'rope_scaling':{'rope_type':'linear','factor':2.0,'partial_rotary_factor':0.5}}";
    const char *both = "{'model_type':'stablelm','hidden_size':256,'num_attention_heads':4,'num_hidden_layers':1,"
                       "'partial_rotary_factor':0.75,'rope_parameters':{'partial_rotary_factor':0.5}}";
    gyre_reading *r = read_rope(inside, GYRE_PROFILE_HF_4_56, 0);
    assert_int_equal(r->groups[0]->config.rope.dim, 16); /* the class's quarter */
    assert_warns(r, "partial_rotary_factor: transformers 4 reads only the one beside rope_scaling",
                 "rope_scaling.partial_rotary_factor", 2);
    gyre_reading_free(r);
    r = read_rope(inside, GYRE_PROFILE_HF_5, 0);
    assert_int_equal(r->groups[0]->config.rope.dim, 32);
    gyre_reading_free(r);
    r = read_rope(both, GYRE_PROFILE_HF_5, 0); /* the attribute has priority */
    assert_int_equal(r->groups[0]->config.rope.dim, 48);
    gyre_reading_free(r);
}

static void test_original_length_outside_or_inside_the_object(void **state) {
    (void)state;
    const char *flat = LLAMA("'max_position_embeddings':32768,'original_max_position_embeddings':8192,'rope_scaling':{"
                             "'rope_type':'llama3','factor':4.0,'low_freq_factor':1.0,'high_freq_factor':4.0,"
                             "\n'original_max_position_embeddings':4096}");
    const char *nested = LLAMA("'max_position_embeddings':32768,'original_max_position_embeddings':8192,'rope_parameters':{"
                               "'full_attention':{'rope_type':'llama3','factor':4.0,'low_freq_factor':1.0,"
                               "'high_freq_factor':4.0,'original_max_position_embeddings':4096}}");
    const char *neither = LLAMA("'max_position_embeddings':32768,'rope_scaling':{'rope_type':'llama3','factor':4.0,"
                                "'low_freq_factor':1.0,'high_freq_factor':4.0}");
    gyre_reading *r = read_rope(flat, GYRE_PROFILE_HF_5, 0);
    assert_int_equal(r->groups[0]->config.trained_length, 8192);
    assert_warns(r, "transformers 5 takes the other value, beside the object",
                 "rope_scaling.original_max_position_embeddings", 2);
    gyre_reading_free(r);
    const gyre_profile inside[] = {GYRE_PROFILE_HF_4_43, GYRE_PROFILE_HF_4_51, GYRE_PROFILE_HF_4_56, GYRE_PROFILE_REFERENCE};
    for (int v = 0; v < 4; v++) {
        r = read_rope(flat, inside[v], 0);
        assert_int_equal(r->groups[0]->config.trained_length, 4096);
        gyre_reading_free(r);
    }
    r = read_rope(nested, GYRE_PROFILE_HF_5, 0);
    assert_int_equal(r->groups[0]->config.trained_length, 4096);
    gyre_reading_free(r);
    r = read_rope(neither, GYRE_PROFILE_HF_5, 0);
    assert_int_equal(r->groups[0]->config.trained_length, 32768);
    assert_warns(r, "not below max_position_embeddings", NULL, 1);
    gyre_reading_free(r);
    refuse(neither, GYRE_PROFILE_HF_4_56, GYRE_EFORMAT, "rope_scaling.original_max_position_embeddings: missing");
}

/* -- other scalings -- */
/* 759702.2311: the base of the notes for d 128, b 1e4, L 2048, s 10, n 16384. */
static void test_initial_length_of_dynamic(void **state) {
    (void)state;
    const char *file = LLAMA("'max_position_embeddings':2048,'rope_scaling':{'rope_type':'dynamic','factor':10.0,"
                             "\n'original_max_position_embeddings':1024}");
    double inv_freq[64], factor;
    for (int v = 0; v < 4; v++) {
        gyre_reading *r = read_rope(file, versions[v], 16384);
        figures(r->groups[0], inv_freq, &factor);
        test_close((long double)pow(inv_freq[1], -64.0), 759702.2311L, 1e-3L, "base");
        assert_warns(r, "dynamic NTK does not read it", "rope_scaling.original_max_position_embeddings", 2);
        gyre_reading_free(r);
        r = read_rope(file, versions[v], 2048);
        assert_divided(r->groups[0], 1e4, 1.0);
        gyre_reading_free(r);
    }
    /* 10 * 16 - 9 = 151 times, and 151^(128 / 126) of the base */
    gyre_reading *r = read_rope(file, GYRE_PROFILE_REFERENCE, 16384);
    figures(r->groups[0], inv_freq, &factor);
    assert_near(inv_freq[1], powl(1e4L * powl(151.0L, 128.0L / 126.0L), -2.0L / 128.0L), "base");
    gyre_reading_free(r);
}

static void test_ignored_attention_factor(void **state) {
    (void)state;
    const char *file = LLAMA("'rope_scaling':{'rope_type':'linear','factor':2.0,\n'attention_factor':3.0}");
    for (int v = 0; v < 4; v++) {
        gyre_reading *r = read_rope(file, versions[v], 0);
        assert_divided(r->groups[0], 1e4, 2.0);
        assert_field(r->groups[0], "attention_factor", "1", GYRE_ORIGIN_READER, "rope_scaling.attention_factor", 2);
        assert_non_null(field_of(r->groups[0], "attention_factor")->note);
        assert_warns(r, "attention_factor: transformers", "rope_scaling.attention_factor", 2);
        gyre_reading_free(r);
    }
    check_attention(file, GYRE_PROFILE_REFERENCE, 3.0);
}

static void test_types_by_version(void **state) {
    (void)state;
    const char *proportional = LLAMA("'rope_scaling':{'rope_type':'proportional','partial_rotary_factor':0.5}");
    static const char *const own[] = {"ntk", "ntk-mixed", "by-parts", "by-parts-paper"};
    char file[512];
    for (int v = 0; v < 3; v++)
        refuse(proportional, versions[v], GYRE_EUNSUPPORTED, "\"proportional\" is not a type that transformers 4.");
    refuse(proportional, GYRE_PROFILE_HF_4_56, GYRE_EUNSUPPORTED, "transformers 5.5 was the first");
    for (int i = 0; i < 4; i++) {
        snprintf(file, sizeof file, LLAMA("'rope_scaling':{'rope_type':'%s','factor':8.0}"), own[i]);
        refuse(file, GYRE_PROFILE_HF_4_56, GYRE_EUNSUPPORTED, "it is Gyre's own");
        gyre_reading *r = read_rope(file, GYRE_PROFILE_HF_5, 0);
        assert_warns(r, "a scaling of Gyre, which transformers does not have", "rope_scaling.rope_type", 1);
        assert_string_equal(field_of(r->groups[0], "scaling")->value, own[i]);
        gyre_reading_free(r);
        r = read_rope(file, GYRE_PROFILE_REFERENCE, 0);
        assert_int_equal(r->warnings_count, 0);
        gyre_reading_free(r);
    }
}

/* jquesnelle/yarn's type, unknown to transformers. The paper's factor depends on the length, whatever the file says. */
static void test_dynamic_yarn(void **state) {
    (void)state;
    const char *file = LLAMA("'max_position_embeddings':4096,'rope_scaling':{'type':'dynamic-yarn','factor':16.0,\n"
                             "'original_max_position_embeddings':4096,'finetuned':true}");
    for (int v = 0; v < 4; v++)
        refuse(file, versions[v], GYRE_EUNSUPPORTED, "\"dynamic-yarn\" is not a type that transformers");
    for (int64_t length = 4096; length <= 65536; length *= 4) {
        const naive_yarn y = {128, 10000, 4096, (long double)length / 4096, 1};
        double inv_freq[64], attention;
        gyre_reading *r = read_rope(file, GYRE_PROFILE_REFERENCE, length);
        figures(r->groups[0], inv_freq, &attention);
        for (int i = 0; i < 64; i++)
            assert_near(inv_freq[i], yarn_at(&y, i), "dynamic-yarn");
        test_close((long double)attention, 0.1L * logl(y.factor) + 1, 1e-15L, "its attention factor");
        assert_field(r->groups[0], "scaling", "dynamic-yarn", GYRE_ORIGIN_FILE, "rope_scaling.type", 1);
        assert_field(r->groups[0], "trained_length", "4096", GYRE_ORIGIN_FILE,
                     "rope_scaling.original_max_position_embeddings", 2);
        test_close((long double)strtod(field_of(r->groups[0], "attention_factor")->value, NULL), (long double)attention,
                   1e-15L, "as told");
        assert_warns(r, "finetuned: ", "rope_scaling.finetuned", 2);
        assert_int_equal(r->warnings_count, 1);
        gyre_reading_free(r);
    }
    const char *longer = LLAMA("'max_position_embeddings':65536,'rope_scaling':{'type':'dynamic-yarn','factor':16.0,\n"
                               "'original_max_position_embeddings':4096}");
    gyre_reading *r = read_rope(longer, GYRE_PROFILE_REFERENCE, 0);
    assert_warns(r, "original_max_position_embeddings: below max_position_embeddings",
                 "rope_scaling.original_max_position_embeddings", 2);
    gyre_reading_free(r);
}

/* -- families -- */
static void test_sliding_layers_of_olmo3(void **state) {
    (void)state;
    const char *file = "{'model_type':'olmo3','hidden_size':512,'num_attention_heads':4,'num_hidden_layers':4,"
                       "'rope_theta':500000,'max_position_embeddings':65536,'sliding_window':4096,"
                       "'rope_scaling':{'rope_type':'linear','factor':8.0}}";
    for (int v = 2; v < 4; v++) {
        gyre_reading *r = read_rope(file, versions[v], 0);
        assert_divided(group_of(r, "full_attention"), 5e5, 8.0);
        assert_divided(group_of(r, "sliding_attention"), 5e5, 1.0);
        gyre_reading_free(r);
    }
    gyre_reading *r = read_rope(file, GYRE_PROFILE_REFERENCE, 0);
    assert_divided(group_of(r, "sliding_attention"), 5e5, 1.0);
    gyre_reading_free(r);
}

static void test_partial_factor_of_recurrent_gemma(void **state) {
    (void)state;
    const char *file = "{'model_type':'recurrent_gemma','hidden_size':2560,'num_attention_heads':10,'num_hidden_layers':3,"
                       "'head_dim':256,\n'partial_rotary_factor':0.5}";
    const gyre_profile profiles[] = {GYRE_PROFILE_HF_5, GYRE_PROFILE_HF_4_56};
    for (int i = 0; i < 2; i++) {
        gyre_reading *r = read_rope(file, profiles[i], 0);
        assert_int_equal(r->groups[0]->config.rope.dim, 128);
        assert_int_equal(r->groups[0]->layers_count, 1);
        assert_int_equal(r->groups[0]->layers[0], 2);
        gyre_reading_free(r);
    }
    refuse("{'model_type':'gpt_neox_japanese','hidden_size':256,'num_attention_heads':4,'rotary_pct':0.5}",
           GYRE_PROFILE_HF_5, GYRE_EUNSUPPORTED, "rotary_pct: 0.5; this class of transformers 5 fails on it");
}

/* Llama's class ignores the partial factor. Version 4, and every scaling of 5, then fail at the first token. */
static void test_partial_factor_of_whole_heads(void **state) {
    (void)state;
    const char *file = LLAMA("\n'partial_rotary_factor':0.5");
    gyre_reading *r = read_rope(file, GYRE_PROFILE_HF_5, 0);
    assert_divided(r->groups[0], 1e4, 1.0);
    assert_int_equal(r->groups[0]->config.rope.dim, 128);
    assert_warns(r, "partial_rotary_factor: transformers 5 rotates whole heads of a llama", "partial_rotary_factor", 2);
    gyre_reading_free(r);
    refuse(file, GYRE_PROFILE_HF_4_56, GYRE_EUNSUPPORTED, "partial_rotary_factor: 0.5; transformers 4.56 computes angles");
    refuse(LLAMA("'partial_rotary_factor':0.5,'rope_scaling':{'rope_type':'linear','factor':2.0}"), GYRE_PROFILE_HF_5,
           GYRE_EUNSUPPORTED, "partial_rotary_factor: 0.5");
    r = read_rope(file, GYRE_PROFILE_REFERENCE, 0);
    assert_int_equal(r->groups[0]->config.rope.dim, 64);
    gyre_reading_free(r);
}

/* b alpha^(d / (d - 2)) at every length.  Beyond the served one transformers used only the factor before 5.20. */
static void test_alpha_of_hunyuan(void **state) {
    (void)state;
    const char *file = "{'model_type':'hunyuan_v1_dense','hidden_size':512,'num_attention_heads':4,'num_hidden_layers':1,"
                       "'head_dim':128,'max_position_embeddings':32768,'rope_scaling':{'type':'dynamic','alpha':1000.0,"
                       "'factor':1.0}}";
    const double base = (double)(1e4L * powl(1000.0L, 128.0L / 126.0L));
    gyre_reading *r = read_rope(file, GYRE_PROFILE_HF_5, 0);
    assert_divided(r->groups[0], base, 1.0);
    gyre_reading_free(r);
    r = read_rope(file, GYRE_PROFILE_HF_5, 65536);
    assert_divided(r->groups[0], base, 1.0);
    assert_warns(r, "alpha: transformers before 5.20 ignored it", "rope_scaling.alpha", 1);
    gyre_reading_free(r);
    r = read_rope(file, GYRE_PROFILE_HF_4_56, 65536);
    /* s = 1: n / L = 2 times */
    assert_divided(r->groups[0], (double)(1e4L * powl(2.0L, 128.0L / 126.0L)), 1.0);
    assert_warns(r, "alpha: transformers before 5.20 ignores it past", "rope_scaling.alpha", 1);
    gyre_reading_free(r);
    r = read_rope(file, GYRE_PROFILE_REFERENCE, 65536);
    assert_divided(r->groups[0], base, 1.0);
    gyre_reading_free(r);
}

/* Qwen's first code: alpha = 2^ceil(log2(n / L) + 1) - 1: 3 up to twice the length, then 7. */
static void test_steps_of_qwen(void **state) {
    (void)state;
    const char *file = "{'model_type':'qwen','hidden_size':2048,'num_attention_heads':16,'num_hidden_layers':1,"
                       "'kv_channels':128,'seq_length':2048,'use_dynamic_ntk':true,'use_logn_attn':true,'rotary_pct':1.0,"
                       "'rotary_emb_base':10000}";
    const struct {
        int64_t length;
        long double alpha;
    } cases[] = {{0, 1.0L}, {2048, 1.0L}, {2049, 3.0L}, {4096, 3.0L}, {4097, 7.0L}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gyre_reading *r = read_rope(file, GYRE_PROFILE_HF_4_43, cases[i].length);
        assert_divided(r->groups[0], (double)(1e4L * powl(cases[i].alpha, 128.0L / 126.0L)), 1.0);
        assert_int_equal(r->groups[0]->config.query.temperature, GYRE_TEMPERATURE_LOG);
        assert_int_equal(r->groups[0]->config.query.reference_length, 2048);
        gyre_reading_free(r);
    }
}

/* With both keys the steps and log-n count from seq_length, in the class that comes with the model.  vLLM (vllm#36880) and
 * llama.cpp have neither. */
static void test_both_lengths_of_qwen(void **state) {
    (void)state;
    const char *file = "{'model_type':'qwen','hidden_size':2048,'num_attention_heads':16,'num_hidden_layers':1,"
                       "'kv_channels':128,'seq_length':8192,'max_position_embeddings':32768,'use_dynamic_ntk':true,"
                       "'use_logn_attn':true,'rotary_pct':1.0,'rotary_emb_base':10000}";
    const gyre_profile own[] = {GYRE_PROFILE_HF_4_43, GYRE_PROFILE_HF_5, GYRE_PROFILE_REFERENCE},
                       engines[] = {GYRE_PROFILE_VLLM, GYRE_PROFILE_LLAMA_CPP};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        gyre_reading *r = read_rope(file, own[i], 32768);
        assert_divided(r->groups[0], (double)(1e4L * powl(7.0L, 128.0L / 126.0L)), 1.0);
        assert_int_equal(r->groups[0]->config.query.temperature, GYRE_TEMPERATURE_LOG);
        assert_int_equal(r->groups[0]->config.query.reference_length, 8192);
        assert_int_equal(r->groups[0]->config.trained_length, 8192);
        gyre_reading_free(r);
    }
    for (size_t i = 0; i < sizeof engines / sizeof *engines; i++) {
        gyre_reading *r = read_rope(file, engines[i], 32768);
        assert_divided(r->groups[0], 1e4, 1.0);
        assert_int_equal(r->groups[0]->config.query.temperature, GYRE_TEMPERATURE_NONE);
        gyre_reading_free(r);
    }
}

/* MiniCPM's own code reads L in the object, where transformers 4 does not look. */
static void test_lengths_of_minicpm(void **state) {
    (void)state;
    const char *file = "{'model_type':'minicpm','num_attention_heads':1,'num_hidden_layers':1,'hidden_size':4,"
                       "'max_position_embeddings':131072,'rope_scaling':{'rope_type':'longrope'," LISTS
                       ",'original_max_position_embeddings':4096}}";
    for (int v = 0; v < 4; v++)
        check_longrope(file, versions[v], 4097, 1.1902380714, 3.0);
}

/* -- golden tables -- */
/* Values from transformers, five digits: d 128, b 1e4, L' 2048, s 10. */
static const double golden_yarn[64] = {
    1.0000e+00, 8.6596e-01, 7.4989e-01, 6.4938e-01, 5.6234e-01, 4.8697e-01, 4.2170e-01, 3.6517e-01, 3.1623e-01, 2.7384e-01,
    2.3714e-01, 2.0535e-01, 1.7783e-01, 1.5399e-01, 1.3335e-01, 1.1548e-01, 1.0000e-01, 8.3479e-02, 6.9590e-02, 5.7925e-02,
    4.8136e-02, 3.9931e-02, 3.3061e-02, 2.7315e-02, 2.2515e-02, 1.8512e-02, 1.5177e-02, 1.2403e-02, 1.0101e-02, 8.1924e-03,
    6.6143e-03, 5.3120e-03, 4.2400e-03, 3.3599e-03, 2.6396e-03, 2.0520e-03, 1.5746e-03, 1.1882e-03, 8.7713e-04, 6.2810e-04,
    4.3007e-04, 2.7384e-04, 2.3714e-04, 2.0535e-04, 1.7783e-04, 1.5399e-04, 1.3335e-04, 1.1548e-04, 1.0000e-04, 8.6596e-05,
    7.4989e-05, 6.4938e-05, 5.6234e-05, 4.8697e-05, 4.2170e-05, 3.6517e-05, 3.1623e-05, 2.7384e-05, 2.3714e-05, 2.0535e-05,
    1.7783e-05, 1.5399e-05, 1.3335e-05, 1.1548e-05};
static const double golden_llama3[64] = {
    1.0000e+00, 8.6596e-01, 7.4989e-01, 6.4938e-01, 5.6234e-01, 4.8697e-01, 4.2170e-01, 3.6517e-01, 3.1623e-01, 2.7384e-01,
    2.3714e-01, 2.0535e-01, 1.7783e-01, 1.5399e-01, 1.3335e-01, 1.1548e-01, 1.0000e-01, 8.6596e-02, 7.4989e-02, 6.4938e-02,
    5.6234e-02, 4.8697e-02, 4.2170e-02, 3.6517e-02, 3.1623e-02, 2.7384e-02, 2.3714e-02, 2.0535e-02, 1.7783e-02, 1.5399e-02,
    1.3335e-02, 1.0730e-02, 7.7785e-03, 5.6009e-03, 3.9991e-03, 2.8248e-03, 1.9675e-03, 1.3449e-03, 8.9549e-04, 5.7363e-04,
    3.4539e-04, 2.7384e-04, 2.3714e-04, 2.0535e-04, 1.7783e-04, 1.5399e-04, 1.3335e-04, 1.1548e-04, 1.0000e-04, 8.6596e-05,
    7.4989e-05, 6.4938e-05, 5.6234e-05, 4.8697e-05, 4.2170e-05, 3.6517e-05, 3.1623e-05, 2.7384e-05, 2.3714e-05, 2.0535e-05,
    1.7783e-05, 1.5399e-05, 1.3335e-05, 1.1548e-05};
static const double golden_dynamic[64] = {
    1.0000e+00, 8.0931e-01, 6.5498e-01, 5.3008e-01, 4.2900e-01, 3.4720e-01, 2.8099e-01, 2.2741e-01, 1.8404e-01, 1.4895e-01,
    1.2055e-01, 9.7558e-02, 7.8955e-02, 6.3899e-02, 5.1714e-02, 4.1853e-02, 3.3872e-02, 2.7413e-02, 2.2185e-02, 1.7955e-02,
    1.4531e-02, 1.1760e-02, 9.5176e-03, 7.7027e-03, 6.2339e-03, 5.0451e-03, 4.0831e-03, 3.3045e-03, 2.6744e-03, 2.1644e-03,
    1.7517e-03, 1.4176e-03, 1.1473e-03, 9.2852e-04, 7.5146e-04, 6.0817e-04, 4.9220e-04, 3.9834e-04, 3.2238e-04, 2.6091e-04,
    2.1115e-04, 1.7089e-04, 1.3830e-04, 1.1193e-04, 9.0585e-05, 7.3312e-05, 5.9332e-05, 4.8018e-05, 3.8861e-05, 3.1451e-05,
    2.5453e-05, 2.0600e-05, 1.6672e-05, 1.3492e-05, 1.0920e-05, 8.8374e-06, 7.1522e-06, 5.7883e-06, 4.6845e-06, 3.7912e-06,
    3.0683e-06, 2.4832e-06, 2.0097e-06, 1.6265e-06};
static const double golden_proportional[64] = {1.0000e+00, 8.6596e-01, 7.4989e-01, 6.4938e-01, 5.6234e-01, 4.8697e-01,
                                               4.2170e-01, 3.6517e-01, 3.1623e-01, 2.7384e-01, 2.3714e-01, 2.0535e-01,
                                               1.7783e-01, 1.5399e-01, 1.3335e-01, 1.1548e-01};

static void check_golden(const char *dict, int64_t length, const double *golden, gyre_profile profile) {
    char file[1024];
    double inv_freq[64], factor;
    snprintf(file, sizeof file, LLAMA("'rope_theta':10000.0,'max_position_embeddings':2048,'rope_scaling':%s"), dict);
    gyre_reading *r = read_rope(file, profile, length);
    figures(r->groups[0], inv_freq, &factor);
    for (int i = 0; i < 64; i++) /* half a unit of the fifth digit */
        test_close((long double)inv_freq[i], (long double)golden[i], 5.01e-5L * (long double)golden[i], dict);
    gyre_reading_free(r);
}

static void test_golden_tables(void **state) {
    (void)state;
    for (int v = 0; v < 4; v++) {
        check_golden("{'rope_type':'yarn','factor':10.0,'beta_fast':32,'beta_slow':1}", 0, golden_yarn, versions[v]);
        check_golden("{'rope_type':'dynamic','factor':10.0}", 16384, golden_dynamic, versions[v]);
        check_golden("{'rope_type':'llama3','factor':10.0,'original_max_position_embeddings':2048,'low_freq_factor':1,"
                     "'high_freq_factor':4}",
                     0, golden_llama3, versions[v]);
    }
    check_golden("{'rope_type':'proportional','partial_rotary_factor':0.25}", 0, golden_proportional, GYRE_PROFILE_HF_5);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ramp_over_served_length_in_4_43),
                                       cmocka_unit_test(test_bounds_of_ramps),
                                       cmocka_unit_test(test_ratio_for_factor_in_4_51),
                                       cmocka_unit_test(test_null_factor_is_the_ratio),
                                       cmocka_unit_test(test_truncate_since_4_55),
                                       cmocka_unit_test(test_truncate_of_nested_objects),
                                       cmocka_unit_test(test_mscale_since_4_51),
                                       cmocka_unit_test(test_softmax_of_latent_attention),
                                       cmocka_unit_test(test_factor_of_longrope),
                                       cmocka_unit_test(test_magnitudes_of_phimoe),
                                       cmocka_unit_test(test_names_of_longrope),
                                       cmocka_unit_test(test_rope_parameters_since_5),
                                       cmocka_unit_test(test_old_object_wins_whole),
                                       cmocka_unit_test(test_base_outside_or_inside_the_object),
                                       cmocka_unit_test(test_partial_factor_outside_or_inside_the_object),
                                       cmocka_unit_test(test_original_length_outside_or_inside_the_object),
                                       cmocka_unit_test(test_initial_length_of_dynamic),
                                       cmocka_unit_test(test_ignored_attention_factor),
                                       cmocka_unit_test(test_dynamic_yarn),
                                       cmocka_unit_test(test_types_by_version),
                                       cmocka_unit_test(test_sliding_layers_of_olmo3),
                                       cmocka_unit_test(test_partial_factor_of_recurrent_gemma),
                                       cmocka_unit_test(test_partial_factor_of_whole_heads),
                                       cmocka_unit_test(test_alpha_of_hunyuan),
                                       cmocka_unit_test(test_steps_of_qwen),
                                       cmocka_unit_test(test_both_lengths_of_qwen),
                                       cmocka_unit_test(test_lengths_of_minicpm),
                                       cmocka_unit_test(test_golden_tables)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
