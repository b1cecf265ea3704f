/* test_utf8.c: src/util: the characters of bytes that may be anything. */
#include "support.h"
#include "util/utf8.h"

#include <string.h>

/* -- characters -- */
static void lengths(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int bytes;
    } cases[] = {{"", 0},
                 {"a", 1},
                 {"\x7f", 1},
                 {"\xc3\xa9", 2},
                 {"\xe2\x82\xac", 3},
                 {"\xf0\x9f\x98\x80", 4},
                 {"\xc3", 0},
                 {"\xe2\x82", 0},
                 {"\xf0\x9f\x98", 0},
                 {"\xf4\x8f\xbf\xbf", 4},
                 /* invalid: a lone continuation byte, an overlong form, a surrogate, above the last code point, not UTF-8 */
                 {"\x80", -1},
                 {"\xc0\x80", -1},
                 {"\xe0\x9f\xbf", -1},
                 {"\xed\xa0\x80", -1},
                 {"\xf4\x90\x80\x80", -1},
                 {"\xf5\x80\x80\x80", -1},
                 {"\xff", -1},
                 {"\xc3z", -1},
                 {"\xe2\x82z", -1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (gyre_utf8_decode(cases[i].text, strlen(cases[i].text), NULL) != cases[i].bytes) fail_msg("case %zu", i);
}

static void code_points(void **state) {
    (void)state;
    static const struct {
        const char *text;
        uint32_t code;
    } cases[] = {{"a", 'a'},
                 {"\x7f", 0x7f},
                 {"\xc2\x9b", 0x9b},
                 {"\xe2\x82\xac", 0x20ac},
                 {"\xf0\x9f\x98\x80", 0x1f600},
                 {"\xf4\x8f\xbf\xbf", 0x10ffff}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t code = 0;
        assert_true(gyre_utf8_decode(cases[i].text, strlen(cases[i].text), &code) > 0);
        assert_int_equal(code, cases[i].code);
    }
}

static void controls(void **state) {
    (void)state;
    static const uint32_t act[] = {0, 0x1b, 0x7f, 0x80, 0x9b, 0x9f, 0x61c, 0x200e, 0x2028, 0x202e, 0x2066, 0x2069, 0xfeff};
    static const uint32_t shown[] = {'\t', '\n', ' ', '~', 0xa0, 0x200d, 0x2027, 0x202f, 0x2065, 0x206a, 0x20ac, 0x1f600};
    for (size_t i = 0; i < sizeof act / sizeof *act; i++)
        assert_true(gyre_utf8_is_control(act[i]));
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++)
        assert_false(gyre_utf8_is_control(shown[i]));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lengths),
        cmocka_unit_test(code_points),
        cmocka_unit_test(controls),
    };
    return cmocka_run_group_tests_name("utf8", tests, NULL, NULL);
}
