/* test_config_fields.c: every field of a config through config.json, one by one. */
#include "check_same_config.h"
#include "model/architecture/model_config_json.h"
#include "model/model.h"

#include <stdio.h>
#include <stdlib.h>

static const char path[] = "the/config.json";

/* Writes a config as it is, for an encoding of any kind, and reads it again. */
static json_t *print_and_parse(const gyre_config *position, const gyre_config *plain) {
    gyre_model_config config = gyre_model_config_default(), back;
    gyre_config_arrays arrays;
    gyre_error err = {0, ""};
    char *text;
    config.position = *position;
    assert_ok(gyre_model_config_to_json(&config, GYRE_DTYPE_F32, &text, &err));
    if (gyre_model_config_parse(text, strlen(text), path, &back, &arrays, &err) != GYRE_OK)
        fail_msg("%s\n%s", err.text, text);
    assert_reads(&config.position, &back.position, plain);
    gyre_config_arrays_free(&arrays);
    json_t *root = json_loads(text, 0, NULL);
    free(text);
    return root;
}

static const double some_slopes[4] = {0.5, 0.25, 0.1, 1.0 / 3.0};

/* A config of the default model with all defaults filled in; arrays left out. */
static gyre_config complete(gyre_kind kind) {
    const gyre_model_config sizes = gyre_model_config_default();
    gyre_config c = GYRE_INIT(gyre_config);
    c.kind = kind;
    c.head_dim = sizes.head_dim;
    c.heads = sizes.heads;
    c.input.dim = sizes.model_dim;
    c.trained_length = 300;
    gyre_encoding *encoding = test_encoding(&c);
    c = *gyre_encoding_get_config(encoding);
    c.score.slopes = c.score.slopes_after = NULL;
    gyre_encoding_free(encoding);
    return c;
}
/* out = a value that is no default: of a choice the n-th, of a set n as bits.  0 when there is no n-th. */
static int sample(const gyre_config_field *f, int n, gyre_field_value *out) {
    static const double numbers[64] = {3, 0.1, 1e-9}; /* more than a list of the default model has */
    int choices = 0;
    *out = (gyre_field_value){0, 0, NULL};
    switch (f->type) {
    case GYRE_FIELD_FLAG:
        out->integer = 1;
        return n == 1;
    case GYRE_FIELD_NUMBER:
        out->number = f->minimum >= 1 ? 6.5 : 0.375;
        return n == 1;
    case GYRE_FIELD_CHOICE:
        while (f->names[choices].text)
            choices++;
        out->integer = n < choices ? f->names[n].value : 0;
        return n < choices;
    case GYRE_FIELD_SET:
        out->integer = n;
        return n < 8;
    case GYRE_FIELD_INTEGER:
        out->integer = -7;
        return n == 1;
    case GYRE_FIELD_LIST:
        out->list = numbers;
        return n == 1;
    default:
        out->integer = 3;
        return n == 1;
    }
}

/* A config with this value alone, whether or not an encoding accepts it. */
static void check_value(gyre_kind kind, const gyre_config_field *f, gyre_field_value value) {
    /* Files of every kind say them; most kinds need more than this config has. */
    gyre_config none = complete(kind == GYRE_KIND_ROPE || kind == GYRE_KIND_ALIBI ? kind : GYRE_KIND_NOPE), c = none;
    gyre_config_set(&c, f, value);
    if (strcmp(f->name, "rope.axes") == 0) c.rope.axis_pairs[0] = 8, c.rope.axis_pairs[1] = c.rope.axis_pairs[2] = 4;
    json_t *root = print_and_parse(&c, &none), *plain = print_and_parse(&none, &none);
    if (!json_object_get(root, f->key)) fail_msg("no %s", f->key);
    if (json_object_get(plain, f->key)) fail_msg("%s where nothing is to be said", f->key);
    assert_string_equal(test_string(root, "model_type"), "gyre");
    json_decref(root);
    json_decref(plain);
}

/* Every field with a key, with every name of its values, for a kind that has it. */
static void test_writes_every_field(void **state) {
    (void)state;
    const gyre_config_field *f;
    gyre_field_value value;
    int written = 0;
    for (int i = 0; (f = gyre_config_field_at(i)); i++)
        for (int kind = GYRE_KIND_NOPE; f->key && gyre_kind_name((gyre_kind)kind); kind++)
            for (int n = 1; (f->kinds >> kind & 1) && sample(f, n, &value); n++) {
                if (f->kinds == ~0u && kind != GYRE_KIND_NOPE && kind != GYRE_KIND_ROPE) continue;
                if (f->kinds != ~0u && (f->kinds & ((1u << kind) - 1))) continue; /* the first kind that has it */
                check_value((gyre_kind)kind, f, value);
                written++;
            }
    assert_true(written > 60);
}

/* Where several keys stand for one field, or transformers' keys do. */
static void test_writes_lists_and_scalings(void **state) {
    (void)state;
    const gyre_config plain = complete(GYRE_KIND_ROPE), flat = complete(GYRE_KIND_ALIBI);
    gyre_config c = plain, slopes = flat;
    c.rope.scaling = GYRE_SCALING_NTK_MIXED;
    c.rope.factor = 4;
    c.rope.mixed_exponent = 0.375;
    c.rope.axes = 3;
    c.rope.axis_pairs[0] = 8;
    c.rope.axis_pairs[1] = c.rope.axis_pairs[2] = 4;
    json_t *root = print_and_parse(&c, &plain);
    assert_string_equal(test_string(json_object_get(root, "rope_scaling"), "rope_type"), "ntk-mixed");
    assert_int_equal(json_array_size(json_object_get(root, "rope_section")), 3);
    json_decref(root);
    slopes.score.slopes = slopes.score.slopes_after = some_slopes;
    root = print_and_parse(&slopes, &flat);
    assert_int_equal(json_array_size(json_object_get(root, "alibi_slopes")), 4);
    assert_int_equal(json_array_size(json_object_get(root, "alibi_slopes_after")), 4);
    json_decref(root);
}

/* Files of older models have a flag for interleaved pairs. */
static void test_reads_the_older_flag(void **state) {
    (void)state;
    static const char text[] = "{\"model_type\":\"gyre\",\"position_embedding_type\":\"rope\",\"rope_interleaved\":true,"
                               "\"vocab_size\":256,\"hidden_size\":32,\"intermediate_size\":48,\"num_hidden_layers\":2,"
                               "\"num_attention_heads\":4,\"rms_norm_eps\":1e-5,\"tie_word_embeddings\":true}";
    gyre_model_config config;
    gyre_config_arrays arrays;
    assert_ok(gyre_model_config_parse(text, strlen(text), path, &config, &arrays, NULL));
    assert_int_equal(config.position.rope.layout, GYRE_LAYOUT_INTERLEAVED);
    gyre_config_arrays_free(&arrays);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_writes_every_field),
        cmocka_unit_test(test_writes_lists_and_scalings),
        cmocka_unit_test(test_reads_the_older_flag),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
