/* test_sized.c: structs of an older or a newer header, which begin with another size. */
#include "support.h"

#include <stddef.h>

static void older_header(void **state) {
    (void)state;
    gyre_encoding *e = NULL;
    gyre_config config = GYRE_INIT(gyre_config);
    config.kind = GYRE_KIND_ROPE;
    config.head_dim = 64;
    config.size = offsetof(gyre_config, query);
    config.query.temperature = (gyre_temperature)77; /* behind its end: not read */
    assert_ok(gyre_encoding_create(&e, &config, NULL, NULL));
    assert_int_equal(gyre_encoding_get_config(e)->query.temperature, GYRE_TEMPERATURE_NONE);
    gyre_encoding_free(e);
}

static void newer_header(void **state) {
    (void)state;
    gyre_encoding *e = NULL;
    struct {
        gyre_config config;
        int64_t more;
    } newer = {.config = {.size = sizeof newer, .kind = GYRE_KIND_NOPE}};
    assert_ok(gyre_encoding_create(&e, &newer.config, NULL, NULL));
    gyre_encoding_free(e);
    newer.more = 1;
    assert_int_equal(gyre_encoding_create(&e, &newer.config, NULL, NULL), GYRE_EINVAL);
    newer.config.size = 0; /* forgotten */
    assert_int_equal(gyre_encoding_create(&e, &newer.config, NULL, NULL), GYRE_EINVAL);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(older_header), cmocka_unit_test(newer_header)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
