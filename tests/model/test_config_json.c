/* test_config_json.c: config.json as transformers reads it, as Gyre writes it, and invalid ones. */
#include "check_same_config.h"
#include "model/architecture/model_config_json.h"
#include "model/model.h"
#include "naive_positions.h"
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char path[] = "the/config.json";

/* -- what transformers reads -- */
/* The reference configs contain only positions; these are the other keys of a Llama. */
static json_t *whole_llama(const json_t *config) {
    json_t *rest = json_pack("{s:s, s:i, s:i, s:i, s:f, s:b}", "model_type", "llama", "vocab_size", 256, "num_hidden_layers",
                             2, "intermediate_size", 64, "rms_norm_eps", 1e-5, "tie_word_embeddings", 1);
    json_t *whole = json_deep_copy(config);
    assert_int_equal(json_object_update(whole, rest), 0);
    json_decref(rest);
    /* A Llama in transformers 5 rotates whole heads, whatever the file says. */
    if (json_object_get(config, "partial_rotary_factor")) {
        json_object_set_new(whole, "model_type", json_string("gyre"));
        json_object_set_new(whole, "position_embedding_type", json_string("rope"));
    }
    return whole;
}

static gyre_status parse(const json_t *root, gyre_model_config *out, gyre_config_arrays *arrays, gyre_error *err) {
    char *text = json_dumps(root, JSON_REAL_PRECISION(17));
    assert_non_null(text);
    const gyre_status status = gyre_model_config_parse(text, strlen(text), path, out, arrays, err);
    free(text);
    return status;
}

static void check_reference(const json_t *entry) {
    gyre_model_config config;
    gyre_config_arrays arrays;
    gyre_error err = {0, ""};
    json_t *root = whole_llama(json_object_get(entry, "config"));
    if (parse(root, &config, &arrays, &err) != GYRE_OK) fail_msg("%s: %s", test_string(entry, "name"), err.text);
    json_decref(root);
    gyre_encoding *encoding = test_encoding(&config.position);
    gyre_config_arrays_free(&arrays);
    double wanted[256], got[256], factor;
    const size_t pairs = test_numbers(entry, "inv_freq", wanted, 256);
    const json_t *length = json_object_get(entry, "seq_len");
    const int64_t n = json_is_integer(length) ? (int64_t)json_integer_value(length) : 0;
    assert_int_equal(config.position.rope.dim, 2 * pairs);
    assert_ok(gyre_encoding_frequencies(encoding, n, got, &factor));
    for (size_t i = 0; i < pairs; i++)
        test_close((long double)got[i], (long double)wanted[i], 1e-12L * fabsl((long double)wanted[i]),
                   test_string(entry, "name"));
    test_close((long double)factor, (long double)test_number(entry, "attention_factor"), 1e-12L, test_string(entry, "name"));
    gyre_encoding_free(encoding);
}

static void test_reads_as_transformers(void **state) {
    (void)state;
    json_t *cases = test_reference("rope.json");
    size_t i;
    json_t *entry;
    assert_true(json_array_size(cases) > 20);
    json_array_foreach(cases, i, entry) check_reference(entry);
    json_decref(cases);
}

/* -- changed keys -- */
static const char base_text[] = "{'model_type':'llama','vocab_size':256,'hidden_size':32,'intermediate_size':48,"
                                "'num_hidden_layers':2,'num_attention_heads':4,'num_key_value_heads':2,'head_dim':8,"
                                "'rms_norm_eps':1e-5,'rope_theta':10000.0,'max_position_embeddings':512,"
                                "'tie_word_embeddings':true}";

/* Replaces single quotes by double quotes. */
static json_t *json_of(const char *text) {
    char quoted[2048];
    snprintf(quoted, sizeof quoted, "%s", text);
    for (char *c = quoted; *c; c++)
        if (*c == '\'') *c = '"';
    json_t *root = json_loads(quoted, 0, NULL);
    if (!root) fail_msg("the test's own JSON: %s", text);
    return root;
}

/* The base with `changes` applied; "key": "-" removes the key. */
static json_t *changed(const char *changes) {
    json_t *root = json_of(base_text), *update = json_of(changes), *value;
    const char *key;
    json_object_foreach(update, key, value) {
        if (json_is_string(value) && strcmp(json_string_value(value), "-") == 0)
            json_object_del(root, key);
        else
            json_object_set(root, key, value);
    }
    json_decref(update);
    return root;
}

static gyre_model_config read_changed(const char *changes) {
    gyre_model_config config;
    gyre_config_arrays arrays;
    gyre_error err = {0, ""};
    json_t *root = changed(changes);
    if (parse(root, &config, &arrays, &err) != GYRE_OK) fail_msg("%s: %s", changes, err.text);
    json_decref(root);
    gyre_config_arrays_free(&arrays); /* the tests below do not use them */
    return config;
}

static void test_reads_sizes(void **state) {
    (void)state;
    gyre_model_config c = read_changed("{}");
    assert_int_equal(c.vocab, 256);
    assert_int_equal(c.model_dim, 32);
    assert_int_equal(c.mlp_dim, 48);
    assert_int_equal(c.layers, 2);
    assert_int_equal(c.heads, 4);
    assert_int_equal(c.kv_heads, 2);
    assert_int_equal(c.head_dim, 8);
    assert_true(c.norm_epsilon == 1e-5);
    assert_int_equal(c.position.kind, GYRE_KIND_ROPE);
    assert_int_equal(c.position.trained_length, 512);
    assert_int_equal(c.position.input.dim, 32);
    c = read_changed("{'vocab_size':300.0,'head_dim':'-','num_key_value_heads':null,'rope_theta':'-'}");
    assert_int_equal(c.vocab, 300);
    assert_int_equal(c.head_dim, 8);
    assert_int_equal(c.kv_heads, 4);
    assert_true(c.position.rope.base == 10000.0);
}

/* The priority among several keys. */
/* What a model is made with where its config has no number: keys lack as many channels of queries. */
static void test_reads_default_channels(void **state) {
    (void)state;
    gyre_model_config config;
    gyre_config_arrays arrays;
    gyre_error err = {0, ""};
    json_t *root =
        json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:f, s:b}", "model_type", "gyre", "position_embedding_type",
                  "inkling", "vocab_size", 256, "num_hidden_layers", 2, "hidden_size", 64, "intermediate_size", 64,
                  "num_attention_heads", 4, "max_position_embeddings", 128, "rms_norm_eps", 1e-5, "tie_word_embeddings", 1);
    if (parse(root, &config, &arrays, &err) != GYRE_OK) fail_msg("%s", err.text);
    assert_int_equal(config.position.score.relative_channels, GYRE_RELATIVE_CHANNELS);
    assert_int_equal(gyre_query_dim(&config), config.head_dim + GYRE_RELATIVE_CHANNELS);
    json_decref(root);
    gyre_config_arrays_free(&arrays);
}

static void test_reads_rope_by_version_5_rules(void **state) {
    (void)state;
    gyre_model_config c = read_changed("{'rope_scaling':{'type':'linear','factor':2},"
                                       "'rope_parameters':{'rope_type':'dynamic','factor':4,'rope_theta':5e5}}");
    assert_int_equal(c.position.rope.scaling, GYRE_SCALING_LINEAR);
    assert_true(c.position.rope.factor == 2.0);
    assert_true(c.position.rope.base == 10000.0);
    c = read_changed("{'rope_scaling':{},'rope_parameters':{'rope_type':'dynamic','factor':4,'rope_theta':5e5}}");
    assert_int_equal(c.position.rope.scaling, GYRE_SCALING_DYNAMIC_NTK);
    assert_true(c.position.rope.base == 5e5);
    c = read_changed("{'rope_scaling':{'rope_type':'linear','type':'linear','factor':2}}");
    assert_int_equal(c.position.rope.scaling, GYRE_SCALING_LINEAR);
    c = read_changed("{'rope_scaling':{'rope_type':'yarn','factor':2,'original_max_position_embeddings':128}}");
    assert_int_equal(c.position.trained_length, 128);
    c = read_changed("{'rope_scaling':{'rope_type':'yarn','factor':2,'original_max_position_embeddings':128},"
                     "'original_max_position_embeddings':64}");
    assert_int_equal(c.position.trained_length, 64);
    c = read_changed("{'rope_scaling':{'rope_type':'yarn','factor':2}}");
    assert_int_equal(c.position.trained_length, 512);
    c = read_changed("{'rope_scaling':{'rope_type':'yarn','factor':null,'original_max_position_embeddings':128}}");
    assert_true(c.position.rope.factor == 4.0);
    c = read_changed("{'rope_scaling':{'rope_type':'dynamic','factor':2,'original_max_position_embeddings':128}}");
    assert_int_equal(c.position.trained_length, 512);
    c = read_changed("{'rope_scaling':{'rope_type':'linear','factor':2,'attention_factor':3}}");
    assert_true(c.position.rope.attention_factor == 0.0); /* transformers ignores it */
    c = read_changed("{'rope_scaling':{'rope_type':'yarn','factor':2,'beta_fast':0,'beta_slow':null,'truncate':false}}");
    assert_true(c.position.rope.beta_fast == 32.0 && c.position.rope.fractional_bounds == 1);
    c = read_changed("{'partial_rotary_factor':0.5,'rope_parameters':{'partial_rotary_factor':1.0}}");
    assert_int_equal(c.position.rope.dim, 8); /* the Llama class ignores it */
    c = read_changed("{'model_type':'gyre','position_embedding_type':'rope','partial_rotary_factor':0.5}");
    assert_int_equal(c.position.rope.dim, 4);
    /* One kind of layers is the same as none. */
    c = read_changed("{'rope_parameters':{'full_attention':{'rope_type':'linear','factor':2,'rope_theta':5e5}}}");
    assert_true(c.position.rope.base == 5e5 && c.position.rope.scaling == GYRE_SCALING_LINEAR);
}

#define OF(kind, keys) "{'model_type':'gyre','position_embedding_type':'" kind "'," keys "}"

static void test_refuses_changed_keys(void **state) {
    (void)state;
    static const struct {
        const char *changes;
        gyre_status status;
        const char *why;
    } cases[] = {
        {"{'model_type':'-'}", GYRE_EFORMAT, "model_type: missing"},
        {"{'model_type':3}", GYRE_EFORMAT, "model_type: not a string"},
        {"{'model_type':'qwen2'}", GYRE_EUNSUPPORTED, "model_type: \"qwen2\" is not run"},
        {"{'tie_word_embeddings':'-'}", GYRE_EUNSUPPORTED, "tie_word_embeddings: false"},
        {"{'tie_word_embeddings':false}", GYRE_EUNSUPPORTED, "tie_word_embeddings: false"},
        {"{'tie_word_embeddings':2}", GYRE_EFORMAT, "tie_word_embeddings: neither"},
        {"{'attention_bias':true}", GYRE_EUNSUPPORTED, "attention_bias: true"},
        {"{'mlp_bias':true}", GYRE_EUNSUPPORTED, "mlp_bias: true"},
        {"{'hidden_act':'gelu'}", GYRE_EUNSUPPORTED, "hidden_act: only silu"},
        {"{'quantization_config':{}}", GYRE_EUNSUPPORTED, "quantization_config"},
        {"{'vocab_size':'-'}", GYRE_EFORMAT, "vocab_size: missing"},
        {"{'hidden_size':'-'}", GYRE_EFORMAT, "hidden_size: missing"},
        {"{'intermediate_size':'-'}", GYRE_EFORMAT, "intermediate_size: missing"},
        {"{'num_hidden_layers':'-'}", GYRE_EFORMAT, "num_hidden_layers: missing"},
        {"{'num_attention_heads':'-'}", GYRE_EFORMAT, "num_attention_heads: missing"},
        {"{'rms_norm_eps':'-'}", GYRE_EFORMAT, "rms_norm_eps: missing"},
        {"{'rms_norm_eps':0}", GYRE_EFORMAT, "rms_norm_eps: not above 0"},
        {"{'vocab_size':0}", GYRE_EFORMAT, "vocab_size: not a whole number of at least 1"},
        {"{'vocab_size':-3}", GYRE_EFORMAT, "vocab_size: not a whole number of at least 1"},
        {"{'vocab_size':2.5}", GYRE_EFORMAT, "vocab_size: not a whole number of at least 1"},
        {"{'vocab_size':1e300}", GYRE_EFORMAT, "vocab_size: 1e+300 is too large"},
        {"{'vocab_size':'256'}", GYRE_EFORMAT, "vocab_size: not a whole number of at least 1"},
        {"{'vocab_size':[256]}", GYRE_EFORMAT, "vocab_size: not a whole number of at least 1"},
        {"{'hidden_size':30,'head_dim':'-'}", GYRE_EFORMAT, "head_dim: missing"},
        {"{'rope_theta':1}", GYRE_EFORMAT, "rope_theta: the base, 1, is not above 1"},
        {"{'rope_theta':0}", GYRE_EFORMAT, "rope_theta: the base, 0, is not above 1"},
        {"{'rope_theta':'x'}", GYRE_EFORMAT, "rope_theta: not a number"},
        {"{'partial_rotary_factor':0}", GYRE_EFORMAT, "partial_rotary_factor: 0 is not a share"},
        {"{'partial_rotary_factor':1.5}", GYRE_EFORMAT, "partial_rotary_factor: 1.5 is not a share"},
        {OF("rope", "'partial_rotary_factor':0.01"), GYRE_EFORMAT,
         "partial_rotary_factor: the rotated channels are not whole pairs"},
        {OF("rope", "'partial_rotary_factor':0.4"), GYRE_EFORMAT,
         "partial_rotary_factor: the rotated channels are not whole pairs"},
        {"{'rope_scaling':[]}", GYRE_EFORMAT, "rope_scaling: not an object"},
        {"{'rope_parameters':3}", GYRE_EFORMAT, "rope_parameters: not an object"},
        {"{'rope_parameters':{'full_attention':{},'sliding_attention':{}},"
         "'layer_types':['full_attention','sliding_attention'],'sliding_window':8}",
         GYRE_EUNSUPPORTED, "layer_types: positions that differ from layer to layer are not run"},
        {"{'rope_scaling':{'rope_type':'linear','type':'dynamic','factor':2}}", GYRE_EFORMAT,
         "rope_scaling.type: \"dynamic\", but rope_type says \"linear\""},
        {"{'rope_scaling':{'type':'mrope'}}", GYRE_EUNSUPPORTED, "rope_scaling.type: \"mrope\" is not a type"},
        {"{'rope_scaling':{'rope_type':7}}", GYRE_EFORMAT, "rope_scaling.rope_type: not a string"},
        {"{'rope_scaling':{'type':'linear'}}", GYRE_EFORMAT, "rope_scaling.factor: missing"},
        {"{'rope_scaling':{'type':'yarn'}}", GYRE_EFORMAT, "rope_scaling.factor: missing"},
        {"{'rope_scaling':{'type':'linear','factor':0.5}}", GYRE_EFORMAT, "rope_scaling.factor: 0.5 is below 1"},
        {"{'rope_scaling':{'type':'linear','factor':0}}", GYRE_EFORMAT, "rope_scaling.factor: 0 is below 1"},
        {"{'rope_scaling':{'type':'linear','factor':'2'}}", GYRE_EFORMAT, "rope_scaling.factor: not a number"},
        {OF("rope", "'rope_scaling':{'type':'dynamic','factor':2},'max_position_embeddings':'-'"), GYRE_EFORMAT,
         "max_position_embeddings: missing"},
        {"{'rope_scaling':{'type':'yarn','factor':2},'max_position_embeddings':0}", GYRE_EFORMAT,
         "max_position_embeddings: not a whole number of at least 1"},
        {"{'rope_scaling':{'type':'yarn','factor':2,'truncate':2}}", GYRE_EFORMAT, "rope_scaling.truncate: neither"},
        {"{'rope_scaling':{'type':'yarn','factor':2,'attention_factor':0}}", GYRE_EFORMAT,
         "rope_scaling.attention_factor: 0 is not above 0"},
        {"{'rope_scaling':{'type':'llama3','factor':2,'low_freq_factor':1}}", GYRE_EFORMAT,
         "rope_scaling.high_freq_factor: missing"},
        {"{'rope_scaling':{'type':'longrope','short_factor':[1,1,1,1]}}", GYRE_EFORMAT, "rope_scaling.long_factor: missing"},
        {"{'rope_scaling':{'type':'longrope','short_factor':[1,1,1]}}", GYRE_EFORMAT,
         "rope_scaling.short_factor: not a list of 4 numbers"},
        {"{'rope_scaling':{'type':'longrope','short_factor':[1,1,'1',1]}}", GYRE_EFORMAT,
         "rope_scaling.short_factor: entry 2 is not a number"},
        {"{'model_type':'gyre'}", GYRE_EFORMAT, "position_embedding_type: missing"},
        {"{'model_type':'gyre','position_embedding_type':'kerpel'}", GYRE_EUNSUPPORTED, "\"kerpel\" is not known"},
        {"{'model_type':'gyre','position_embedding_type':'learned'}", GYRE_EFORMAT, "position_table_rows: missing"},
        {"{'model_type':'gyre','position_embedding_type':'sinusoidal','sinusoid_layout':'x'}", GYRE_EFORMAT,
         "sinusoid_layout: \"x\" is not known"},
        {"{'model_type':'gyre','position_embedding_type':'alibi','alibi_slopes':[1]}", GYRE_EFORMAT,
         "alibi_slopes: not a list of 4 numbers"},
        {OF("alibi", "'alibi_slopes_after':[1,2,3,4,5]"), GYRE_EFORMAT, "alibi_slopes_after: not a list of 4 numbers"},
        {OF("alibi", "'alibi_before_scale':2"), GYRE_EFORMAT, "alibi_before_scale: neither true nor false"},
        {OF("alibi", "'alibi_max_bias':0"), GYRE_EFORMAT, "alibi_max_bias: 0 is not a value of this key"},
        {OF("alibi", "'query_temperature':'hot'"), GYRE_EFORMAT, "query_temperature: \"hot\" is not known"},
        {OF("alibi", "'query_temperature':2"), GYRE_EFORMAT, "query_temperature: not a string"},
        {OF("t5", "'score_buckets':-2"), GYRE_EFORMAT, "score_buckets: not a whole number of at least 1"},
        {OF("t5", "'score_buckets':'32'"), GYRE_EFORMAT, "score_buckets: not a whole number of at least 1"},
        {OF("t5", "'score_bidirectional':'yes'"), GYRE_EFORMAT, "score_bidirectional: neither true nor false"},
        {OF("shaw", "'score_terms':'query'"), GYRE_EFORMAT, "score_terms: not a list of words"},
        {OF("shaw", "'score_terms':[]"), GYRE_EFORMAT, "score_terms: not a list of words"},
        {OF("shaw", "'score_terms':['query','kee']"), GYRE_EFORMAT, "score_terms: it has an unknown word"},
        {OF("shaw", "'score_terms':[1]"), GYRE_EFORMAT, "score_terms: it has an unknown word"},
        {OF("kerple", "'score_decay':'linear'"), GYRE_EFORMAT, "score_decay: \"linear\" is not known"},
        {OF("learned", "'position_table_rows':8,'position_table_hierarchy':'x'"), GYRE_EFORMAT,
         "position_table_hierarchy: not a number"},
        {OF("learned", "'position_table_rows':8,'position_offset':0"), GYRE_EFORMAT,
         "position_offset: not a whole number of at least 1"},
        {OF("alibi", "'adaptive':true"), GYRE_EFORMAT, "adaptive: not a string"},
        {OF("alibi", "'adaptive':'concatenated'"), GYRE_EFORMAT, "adaptive: none of concat-residual, concat, add-residual"},
        {OF("rope", "'rope_layout':'quarters'"), GYRE_EFORMAT, "rope_layout: \"quarters\" is not known"},
        {OF("rope", "'rope_clockwise':'no'"), GYRE_EFORMAT, "rope_clockwise: neither true nor false"},
        {OF("rope", "'rope_xpos_center':0.5"), GYRE_EFORMAT, "rope_xpos_center: not a whole number"},
        {OF("rope", "'rope_far':'away'"), GYRE_EFORMAT, "rope_far: \"away\" is not known"},
        {OF("rope", "'rope_axes':3"), GYRE_EFORMAT, "rope_section: not a list of one number for each of rope_axes"},
        {OF("rope", "'rope_axes':2,'rope_section':[1]"), GYRE_EFORMAT, "rope_section: not a list of one number for each"},
        {OF("rope", "'rope_axes':2,'rope_section':[1,'3']"), GYRE_EFORMAT,
         "rope_section: it has an element that is not a whole"},
        {OF("rope", "'rope_axes':5,'rope_section':[1,1,1,1,1]"), GYRE_EFORMAT,
         "rope_axes: more axes than a rotation can have"},
        {OF("rope", "'rope_axes':2,'rope_section':[1,3],'rope_axes_layout':'x'"), GYRE_EFORMAT,
         "rope_axes_layout: \"x\" is not known"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gyre_model_config config = {.vocab = 77};
        gyre_config_arrays arrays = {.slopes = NULL};
        gyre_error err = {0, ""};
        json_t *root = changed(cases[i].changes);
        const gyre_status status = parse(root, &config, &arrays, &err);
        if (status != cases[i].status || !strstr(err.text, cases[i].why) || !strstr(err.text, path))
            fail_msg("%s: status %d, \"%s\"", cases[i].changes, (int)status, err.text);
        assert_int_equal(config.vocab, 77);
        assert_null(arrays.short_factor);
        json_decref(root);
    }
}

static void test_refuses_what_is_no_json(void **state) {
    (void)state;
    static const char *const texts[] = {"", " ", "{", "[]", "3", "null", "{\"a\":1,\"a\":2}", "{\"vocab_size\":NaN}", "{}x"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        gyre_model_config config;
        gyre_config_arrays arrays;
        gyre_error err = {0, ""};
        assert_int_equal(gyre_model_config_parse(texts[i], strlen(texts[i]), path, &config, &arrays, &err), GYRE_EFORMAT);
        assert_non_null(strstr(err.text, path));
    }
}

static void test_survives_flipped_bytes(void **state) {
    (void)state;
    json_t *root = changed("{'rope_scaling':{'type':'longrope','short_factor':[1,1,1,1],'long_factor':[1,2,3,4],"
                           "'factor':2,'original_max_position_embeddings':128}}");
    char *text = json_dumps(root, 0);
    const size_t size = strlen(text);
    char *flipped = malloc(size);
    test_random random = {3};
    int parsed = 0;
    assert_non_null(flipped);
    json_decref(root);
    for (int round = 0; round < 2000; round++) {
        gyre_model_config config;
        gyre_config_arrays arrays;
        memcpy(flipped, text, size);
        flipped[test_next(&random) % size] = (char)(' ' + test_next(&random) % 95);
        if (gyre_model_config_parse(flipped, size, path, &config, &arrays, NULL) != GYRE_OK) continue;
        gyre_config_arrays_free(&arrays);
        parsed++;
    }
    assert_in_range(parsed, 1, 1999);
    free(flipped);
    free(text);
}

/* -- there and back -- */
/* Writes the config of a model with these positions, checks that it reads back, and returns the JSON. */
static json_t *there_and_back(const gyre_config *position) {
    gyre_model_config config = gyre_model_config_default(), back;
    gyre_config_arrays arrays;
    gyre_model *model, *again;
    gyre_error err = {0, ""};
    char *text;
    config.model_dim = 24;
    config.heads = 6;
    config.kv_heads = 3;
    config.head_dim = 20;
    config.mlp_dim = 40;
    config.norm_epsilon = 1e-6;
    config.position = *position;
    if (gyre_model_allocate(&model, &config, &err) != GYRE_OK) fail_msg("%s", err.text);
    assert_ok(gyre_model_config_to_json(&model->config, GYRE_DTYPE_F16, &text, &err));
    if (gyre_model_config_parse(text, strlen(text), path, &back, &arrays, &err) != GYRE_OK)
        fail_msg("%s\n%s", err.text, text);
    if (gyre_model_allocate(&again, &back, &err) != GYRE_OK) fail_msg("%s\n%s", err.text, text);
    gyre_config_arrays_free(&arrays);
    assert_int_equal(again->weight_count, model->weight_count);
    assert_true(back.norm_epsilon == 1e-6);
    assert_int_equal(back.kv_heads, 3);
    assert_same(&model->config.position, &again->config.position);
    json_t *root = json_loads(text, 0, NULL);
    free(text);
    gyre_model_free(model);
    gyre_model_free(again);
    return root;
}

static gyre_config with_scaling(gyre_scaling scaling) {
    static const double shorts[10] = {1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8, 1.9};
    static const double longs[10] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10.7};
    gyre_config c = GYRE_INIT(gyre_config);
    c.kind = GYRE_KIND_ROPE;
    c.trained_length = 300;
    c.rope.scaling = scaling;
    c.rope.base = 500000.0;
    if (scaling == GYRE_SCALING_NONE) return c;
    c.rope.factor = 8.0 / 3.0;
    if (scaling == GYRE_SCALING_PROPORTIONAL) c.rope.proportion = 0.3;
    if (scaling == GYRE_SCALING_LONGROPE) {
        c.rope.short_factor = shorts;
        c.rope.long_factor = longs;
    }
    return c;
}

static void test_writes_every_scaling(void **state) {
    (void)state;
    for (int s = GYRE_SCALING_NONE; s <= GYRE_SCALING_DYNAMIC_YARN; s++)
        for (int v = 0; v < 5; v++) {
            gyre_config c = with_scaling((gyre_scaling)s);
            if (v == 1) c.rope.layout = GYRE_LAYOUT_INTERLEAVED;
            if (v == 2) c.context_length = 4096;
            if (v == 3) c.rope.attention_factor = 1.0 / 3.0;
            if (v == 4 && s != GYRE_SCALING_LONGROPE && s != GYRE_SCALING_PROPORTIONAL) c.rope.dim = 14;
            json_t *root = there_and_back(&c);
            const char *type = test_string(root, "model_type");
            const int own_factor = s == GYRE_SCALING_YARN || s == GYRE_SCALING_LONGROPE || s == GYRE_SCALING_DYNAMIC_YARN;
            const int foreign = s == GYRE_SCALING_NTK || s == GYRE_SCALING_BY_PARTS || s == GYRE_SCALING_BY_PARTS_PAPER ||
                                s > GYRE_SCALING_PROPORTIONAL;
            const int llama = !foreign && v != 1 && !(v == 3 && !own_factor) && c.rope.dim == 0;
            assert_string_equal(type, llama ? "llama" : "gyre");
            json_decref(root);
        }
}

static void test_writes_fields_of_yarn(void **state) {
    (void)state;
    gyre_config c = with_scaling(GYRE_SCALING_YARN);
    c.rope.factor = 16.0;
    c.rope.fractional_bounds = 1;
    c.rope.mscale = 0.707;
    c.rope.mscale_all_dim = 1.0;
    c.rope.beta_fast = 4.0;
    c.rope.beta_slow = 0.5;
    json_t *root = there_and_back(&c), *rope = json_object_get(root, "rope_scaling");
    assert_string_equal(test_string(rope, "rope_type"), "yarn");
    assert_int_equal(test_integer(rope, "original_max_position_embeddings"), 300);
    assert_int_equal(test_integer(root, "max_position_embeddings"), 4800);
    assert_true(test_number(rope, "factor") == 16.0);
    assert_true(test_number(rope, "mscale") == 0.707);
    assert_true(json_is_false(json_object_get(rope, "truncate")));
    json_decref(root);
    c = with_scaling(GYRE_SCALING_LLAMA3);
    c.rope.low_freq = 1.5;
    c.rope.high_freq = 3.5;
    json_decref(there_and_back(&c));
}

static void test_writes_given_frequencies(void **state) {
    (void)state;
    static const double list[10] = {3, 1.0 / 3, 0.1, 0.01, 1e-3, 1e-5, 0x1p-40, 1e-300, 0, 1024};
    gyre_config c = with_scaling(GYRE_SCALING_LINEAR);
    c.rope.frequencies = list;
    json_t *root = there_and_back(&c);
    double back[10];
    assert_int_equal(test_numbers(root, "rope_frequencies", back, 10), 10);
    assert_memory_equal(back, list, sizeof list);
    assert_string_equal(test_string(root, "model_type"), "gyre");
    json_decref(root);
}

/* Every rotated fraction of a head survives the truncation on reading. */
static void test_writes_every_share(void **state) {
    (void)state;
    for (int64_t dim = 2; dim <= 20; dim += 2) {
        gyre_config c = with_scaling(GYRE_SCALING_NONE);
        c.rope.dim = dim;
        json_decref(there_and_back(&c));
    }
}

static void test_writes_every_kind(void **state) {
    (void)state;
    static const double slopes[6] = {0.5, 0.25, 0.125, 0.0625, 0.1, 1.0 / 3.0};
    gyre_config c = GYRE_INIT(gyre_config);
    c.kind = GYRE_KIND_NOPE;
    json_t *root = there_and_back(&c);
    assert_string_equal(test_string(root, "position_embedding_type"), "nope");
    assert_null(json_object_get(root, "rope_theta"));
    json_decref(root);
    c.kind = GYRE_KIND_LEARNED;
    c.input.positions = 99;
    root = there_and_back(&c);
    assert_int_equal(test_integer(root, "position_table_rows"), 99);
    json_decref(root);
    c.input.positions = 0;
    c.trained_length = 256;
    c.kind = GYRE_KIND_SINUSOIDAL;
    c.input.base = 1234.5;
    for (int layout = GYRE_SINUSOID_INTERLEAVED; layout <= GYRE_SINUSOID_SIN_COS_T2T; layout++) {
        c.input.layout = (gyre_sinusoid)layout;
        json_decref(there_and_back(&c));
    }
    c = (gyre_config)GYRE_INIT(gyre_config);
    c.kind = GYRE_KIND_ALIBI;
    root = there_and_back(&c);
    assert_null(json_object_get(root, "alibi_slopes"));
    json_decref(root);
    c.score.slopes = slopes;
    root = there_and_back(&c);
    assert_int_equal(json_array_size(json_object_get(root, "alibi_slopes")), 6);
    json_decref(root);
    c = (gyre_config)GYRE_INIT(gyre_config);
    for (int i = 0; naive_case(i, 64, &c); i++) {
        root = there_and_back(&c);
        if (i == SCHEME_rope) assert_string_equal(test_string(root, "model_type"), "llama");
        if (c.kind != GYRE_KIND_ROPE)
            assert_string_equal(test_string(root, "position_embedding_type"), gyre_kind_name(c.kind));
        json_decref(root);
    }
}

/* The keys that transformers' Llama needs, in its spelling, with the fewest digits. */
static void test_writes_a_llama(void **state) {
    (void)state;
    static const char *const lines[] = {"\"architectures\": [\n    \"LlamaForCausalLM\"\n  ]",
                                        "\"model_type\": \"llama\"",
                                        "\"torch_dtype\": \"bfloat16\"",
                                        "\"vocab_size\": 256",
                                        "\"hidden_size\": 128",
                                        "\"intermediate_size\": 352",
                                        "\"num_hidden_layers\": 5",
                                        "\"num_attention_heads\": 4",
                                        "\"num_key_value_heads\": 4",
                                        "\"head_dim\": 32",
                                        "\"rms_norm_eps\": 1e-5",
                                        "\"rope_theta\": 10000.0",
                                        "\"rope_scaling\": null",
                                        "\"max_position_embeddings\": 256",
                                        "\"hidden_act\": \"silu\"",
                                        "\"attention_bias\": false",
                                        "\"mlp_bias\": false",
                                        "\"tie_word_embeddings\": true"};
    gyre_model_config config = gyre_model_config_default();
    gyre_model *model;
    char *text;
    config.position.kind = GYRE_KIND_ROPE;
    config.position.trained_length = 256;
    assert_ok(gyre_model_allocate(&model, &config, NULL));
    assert_ok(gyre_model_config_to_json(&model->config, GYRE_DTYPE_BF16, &text, NULL));
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (!strstr(text, lines[i])) fail_msg("no %s in\n%s", lines[i], text);
    assert_null(strstr(text, "position_embedding_type"));
    free(text);
    assert_int_equal(gyre_model_config_to_json(&model->config, GYRE_DTYPE_F64, &text, NULL), GYRE_EDTYPE);
    gyre_model_config unstated = model->config;
    unstated.position.rope.axis[0].own = 1;
    assert_int_equal(gyre_model_config_to_json(&unstated, GYRE_DTYPE_F32, &text, NULL), GYRE_EUNSUPPORTED);
    unstated.position.rope.axis[0].own = 0;
    unstated.position.rope.diffusion.timed = 1;
    assert_int_equal(gyre_model_config_to_json(&unstated, GYRE_DTYPE_F32, &text, NULL), GYRE_EUNSUPPORTED);
    gyre_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads_as_transformers),    cmocka_unit_test(test_reads_sizes),
        cmocka_unit_test(test_reads_default_channels),   cmocka_unit_test(test_reads_rope_by_version_5_rules),
        cmocka_unit_test(test_refuses_changed_keys),     cmocka_unit_test(test_refuses_what_is_no_json),
        cmocka_unit_test(test_survives_flipped_bytes),   cmocka_unit_test(test_writes_every_scaling),
        cmocka_unit_test(test_writes_fields_of_yarn),    cmocka_unit_test(test_writes_every_share),
        cmocka_unit_test(test_writes_given_frequencies), cmocka_unit_test(test_writes_every_kind),
        cmocka_unit_test(test_writes_a_llama),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
