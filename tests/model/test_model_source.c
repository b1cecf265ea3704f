/* test_model_source.c: gyre_model_get_source into structs of other versions. */
#include "make_small_model.h"
#include "support.h"

#include <stddef.h>

static void sizes(void **state) {
    (void)state;
    const gyre_model_config config = small_config(GYRE_KIND_ROPE);
    gyre_model *model = NULL;
    assert_ok(gyre_model_create(&model, &config, 1, NULL));
    gyre_model_source source = GYRE_INIT(gyre_model_source), unset = {0};
    assert_ok(gyre_model_get_source(model, &source));
    assert_string_equal(source.format, "memory");
    assert_int_equal(gyre_model_get_source(model, &unset), GYRE_EINVAL);
    assert_int_equal(gyre_model_get_source(NULL, &source), GYRE_EINVAL);
    gyre_model_source older = {.size = offsetof(gyre_model_source, bytes), .bytes = -1, .stored = NULL};
    assert_ok(gyre_model_get_source(model, &older));
    assert_string_equal(older.format, source.format);
    assert_int_equal(older.bytes, -1);
    assert_null(older.stored);
    gyre_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(sizes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
