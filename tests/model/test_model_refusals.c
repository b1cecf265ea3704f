/* test_model_refusals.c: configs of models made here that make no sense, each with its reason. */
#include "model/model.h"
#include "naive_decoder.h"
#include "support.h"

#include <stdio.h>

enum { TRAINED = 32 };

static gyre_model_config tiny(gyre_kind kind) {
    gyre_model_config c = naive_model_config();
    c.position.kind = kind;
    c.position.trained_length = c.position.input.positions = TRAINED;
    return c;
}

static void refuses_model(const gyre_model_config *c, const char *why) {
    gyre_model *m = NULL;
    gyre_error err = {0, ""};
    assert_int_equal(gyre_model_create(&m, c, 1, &err), GYRE_EINVAL);
    if (!strstr(err.text, why)) fail_msg("%s, not %s", err.text, why);
}

/* Each part needs a rotation of queries and keys, and is the only one that makes them. */
static void parts_refused(void) {
    for (int i = 0; i < NAIVE_PARTS; i++) {
        static const gyre_kind kinds[] = {GYRE_KIND_NOPE, GYRE_KIND_ALIBI, GYRE_KIND_ROPE};
        const naive_part *part = &naive_parts[i], *other = &naive_parts[(i + 1) % NAIVE_PARTS];
        char why[80];
        snprintf(why, sizeof why, "layer_parts: %s needs a %srotation", part->key, part->rotates ? "plain " : "");
        for (int k = 0; k < 3; k++) {
            gyre_model_config c = tiny(kinds[k]);
            c.rotates_input = k == 2;
            c.layer_parts = part->parts;
            refuses_model(&c, why);
        }
        gyre_model_config c = tiny(GYRE_KIND_ROPE);
        c.layer_parts = part->parts | other->parts;
        refuses_model(&c, "both make queries and keys");
        if (part->rotates || part->dot) continue;
        c.layer_parts = part->parts;
        c.position.rope.dim = c.head_dim / 2;
        snprintf(why, sizeof why, "layer_parts: %s needs a rotation of all channels", part->key);
        refuses_model(&c, why);
    }
}

static void experiments_refused(void **state) {
    (void)state;
    enum { FORMS = GYRE_LAYER_PART_ADAPTIVE_CONCAT | GYRE_LAYER_PART_ADAPTIVE_ADD };
#define ADAPTS "layer_parts: adaptive, in one form, needs an encoding with biases (alibi, t5"
    static const struct {
        gyre_kind kind;
        int64_t form, shared, rotates, parts;
        const char *why;
    } wrong[] = {{GYRE_KIND_SINUSOIDAL, 3, 0, 0, 0, "position_form: 3"},
                 {GYRE_KIND_ROPE, 1, 0, 0, 0, "position_form: needs a sinusoid"},
                 {GYRE_KIND_LEARNED, 1, 0, 0, 0, "position_form: needs a sinusoid"},
                 {GYRE_KIND_DEBERTA, 0, 1, 0, 0, "shared_tables: the tables of deberta"},
                 {GYRE_KIND_ALIBI, 0, 0, 1, 0, "rotates_input: needs a plain rotation"},
                 {GYRE_KIND_NOPE, 0, 0, 0, 1LL << 40, "layer_parts: 1099511627776 is not a set of gyre_layer_part"},
                 {GYRE_KIND_ROPE, 0, 0, 0, GYRE_LAYER_PART_FOURIER_STILL, "layer_parts: fourier_still needs fourier"},
                 {GYRE_KIND_ROPE, 0, 0, 0, GYRE_LAYER_PART_CONTEXTUAL, "layer_parts: contextual needs the encoding nope"},
                 {GYRE_KIND_NOPE, 0, 0, 0, GYRE_LAYER_PART_CONTEXTUAL | GYRE_LAYER_PART_FORGET_GATES, "and no other part"},
                 {GYRE_KIND_ROPE, 0, 0, 0, GYRE_LAYER_PART_ADAPTIVE, ADAPTS},
                 {GYRE_KIND_SHAW, 0, 0, 0, GYRE_LAYER_PART_ADAPTIVE, ADAPTS},
                 {GYRE_KIND_NOPE, 0, 0, 0, GYRE_LAYER_PART_ADAPTIVE, ADAPTS},
                 {GYRE_KIND_NOPE, 0, 0, 0, GYRE_LAYER_PART_ADAPTIVE | GYRE_LAYER_PART_ADAPTIVE_CONCAT, ADAPTS},
                 {GYRE_KIND_ALIBI, 0, 0, 0, GYRE_LAYER_PART_ADAPTIVE_ADD, ADAPTS},
                 {GYRE_KIND_ALIBI, 0, 0, 0, GYRE_LAYER_PART_ADAPTIVE | FORMS, ADAPTS},
                 {GYRE_KIND_ALIBI, 0, 0, 0, GYRE_LAYER_PART_ADAPTIVE | GYRE_LAYER_PART_FORGET_GATES, ADAPTS},
                 {GYRE_KIND_NOPE, 0, 0, 0, GYRE_LAYER_PART_CONTEXTUAL | GYRE_LAYER_PART_ADAPTIVE,
                  "contextual needs the encoding nope"}};
#undef ADAPTS
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        gyre_model_config c = tiny(wrong[i].kind);
        c.position.score.max_distance = 8;
        c.position_form = wrong[i].form;
        c.shared_tables = wrong[i].shared;
        c.rotates_input = wrong[i].rotates;
        c.layer_parts = wrong[i].parts;
        refuses_model(&c, wrong[i].why);
    }
    parts_refused();
    gyre_model_config six = tiny(GYRE_KIND_ROPE);
    six.layer_parts = GYRE_LAYER_PART_IMAGINARY;
    six.heads = 6; /* three for each key head, but a real head and its imaginary head read one */
    refuses_model(&six, "multiple of twice kv_heads");
    for (int i = 0; i < 2; i++) {
        gyre_model_config c = tiny(GYRE_KIND_ALIBI);
        gyre_model *m = NULL;
        gyre_error err = {0, ""};
        c.layer_parts = GYRE_LAYER_PART_ADAPTIVE;
        c.position.score.hidden_units = i ? 65537 : 0;
        c.position.query.temperature = i ? GYRE_TEMPERATURE_NONE : GYRE_TEMPERATURE_LOG;
        assert_int_equal(gyre_model_create(&m, &c, 1, &err), GYRE_EINVAL);
        assert_non_null(strstr(err.text, i ? "score.hidden_units: 65537 is past 65536" : "no temperature"));
    }
    /* Lengths without a turn, and heads without a pair to spare. */
    for (int i = 0; i < 3; i++) {
        gyre_model_config c = tiny(GYRE_KIND_ROPE);
        gyre_model *m = NULL;
        gyre_error err = {0, ""};
        c.layer_parts = GYRE_LAYER_PART_FOURIER;
        c.position.trained_length = i == 0 ? 6 : i == 1 ? 0 : TRAINED;
        c.position.rope.dim = i == 2 ? 2 : 0;
        assert_int_equal(gyre_model_create(&m, &c, 1, &err), GYRE_EINVAL);
        assert_non_null(strstr(err.text, "fourier needs 4 channels that rotate, and a whole revolution"));
    }
}

/* Every part that makes queries and keys has an oracle, so the tests of models run it. */
static void every_part_has_an_oracle(void **state) {
    (void)state;
    const gyre_head_part *part;
    int count = 0;
    for (; (part = gyre_head_part_at(count)); count++)
        if (!naive_part_of(part->part)) fail_msg("%s: has no row of naive_parts", part->facts->key);
    assert_int_equal(count, NAIVE_PARTS);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(experiments_refused), cmocka_unit_test(every_part_has_an_oracle)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
