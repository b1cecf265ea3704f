/* test_model_bases.c: what bases of layers need of a model's config, and what a model makes of them. */
#include "gyre/gyre_model.h"
#include "naive_decoder.h"
#include "support.h"

#include <math.h>
#include <string.h>

static gyre_model_config tiny(gyre_kind kind) {
    gyre_model_config c = naive_model_config();
    c.position.kind = kind;
    return c;
}

static void refuses_bases(gyre_model_config c, const double *bases, int64_t count, const char *why) {
    gyre_model *m = NULL;
    gyre_error err = {0, ""};
    c.layer_bases = bases;
    c.layer_bases_count = count;
    assert_int_equal(gyre_model_create(&m, &c, 1, &err), GYRE_EINVAL);
    if (!strstr(err.text, why)) fail_msg("\"%s\", not \"%s\"", err.text, why);
}

static void bases_of_layers(void **state) {
    (void)state;
    static const double bases[4] = {0, 40, 40, 7}, wrong[] = {NAN, 1, -40, INFINITY}, zeros[3] = {0};
    gyre_model_config c = tiny(GYRE_KIND_ROPE), other = c;
    gyre_model *m = NULL;
    c.layer_bases = bases;
    c.layer_bases_count = 2;
    assert_ok(gyre_model_create(&m, &c, 1, NULL));
    const gyre_model_config *has = gyre_model_get_config(m);
    assert_int_equal(has->layer_bases_count, 3);
    assert_true(has->layer_bases[0] == 0 && has->layer_bases[1] == 40 && has->layer_bases[2] == 0);
    assert_true(has->position.rope.base == 40);
    gyre_model_free(m);
    refuses_bases(other, bases, 4, "a pattern of 4, and the model has 3 layers");
    refuses_bases(other, bases, 0, "a pattern of 0, and the model has 3 layers");
    refuses_bases(other, NULL, 2, "a pattern of 0, and the model has 3 layers");
    refuses_bases(other, zeros, 3, "all are 0");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        refuses_bases(other, wrong + i, 1, "of layer 0 is neither 0 nor above 1");
    other.position.rope.base = 7;
    refuses_bases(other, bases, 2, "rope.base: 7, but the first of layer_bases that rotates is 40");
    other = tiny(GYRE_KIND_ROPE);
    other.rotates_input = 1;
    refuses_bases(other, bases, 2, "need a rotation");
    other.rotates_input = 0;
    other.layer_parts = GYRE_LAYER_PART_POLAR;
    refuses_bases(other, bases, 2, "need a rotation");
    other.layer_parts = 0;
    other.position.query.temperature = GYRE_TEMPERATURE_LOG;
    refuses_bases(other, bases, 2, "need a rotation");
    refuses_bases(tiny(GYRE_KIND_ALIBI), bases, 2, "need a rotation");
    double many[13];
    for (int i = 0; i < 13; i++)
        many[i] = 10 + i;
    other = tiny(GYRE_KIND_ROPE);
    other.layers = 13;
    refuses_bases(other, many, 13, "more than 12 different ones");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(bases_of_layers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
