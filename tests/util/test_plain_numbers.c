/* test_plain_numbers.c: src/util: formatted text, whose characters stay whole. */
#include "support.h"
#include "util/error.h"
#include "util/plain_numbers.h"
#include "util/utf8.h"

#include <inttypes.h>
#include <string.h>

static const char word[] = "a\xc3\xa9\xe4\xbd\x8d\xf0\x9f\x98\x80z"; /* characters of 1, 2, 3, 4 and 1 bytes */

/* out = the bytes of the characters of `word` that end within `most` bytes. */
static int whole(int most) {
    static const int ends[] = {1, 3, 6, 10, 11};
    int bytes = 0;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        bytes = ends[i] <= most ? ends[i] : bytes;
    return bytes;
}

/* Every conversion that stands before and behind a text keeps its argument. */
static void precisions(void **state) {
    (void)state;
    for (int most = 0; most <= 13; most++) {
        char format[160], got[256], want[256];
        snprintf(format, sizeof format,
                 "%%%% %%d %%-6.2f %%lld %%zu %%c %%*d %%.*f %%s [%%.%ds] %%x %%Lg %%ld %%.*s [%%-14.%ds] %%" PRId64
                 " %%p %%e",
                 most, most);
        snprintf(want, sizeof want,
                 "%% %d %-6.2f %lld %zu %c %*d %.*f %s [%.*s] %x %Lg %ld %.*s [%-14.*s] %" PRId64 " %p %e", -7, 2.5,
                 1LL << 40, (size_t)9, 'q', 5, 42, 1, 0.25, "s", whole(most), word, 255u, 1.5L, -3L, 2, "xyz", whole(most),
                 word, -INT64_C(1125899906842624), (void *)want, 1e9);
        const int length =
            gyre_plain_snprintf(got, sizeof got, format, -7, 2.5, 1LL << 40, (size_t)9, 'q', 5, 42, 1, 0.25, "s", word, 255u,
                                1.5L, -3L, 2, "xyz", word, -INT64_C(1125899906842624), (void *)want, 1e9);
        assert_string_equal(got, want);
        assert_int_equal(length, strlen(want));
    }
}

static void end_of_the_room(void **state) {
    (void)state;
    for (size_t bytes = 1; bytes <= sizeof word; bytes++) {
        char got[sizeof word];
        assert_int_equal(gyre_plain_snprintf(got, bytes, "%s", word), strlen(word));
        assert_int_equal(strlen(got), whole((int)bytes - 1));
        assert_memory_equal(got, word, strlen(got));
    }
    assert_int_equal(gyre_plain_snprintf(NULL, 0, "%s", word), strlen(word));
}

/* Names of files need not be UTF-8. */
static void other_bytes(void **state) {
    (void)state;
    char got[32];
    gyre_plain_snprintf(got, sizeof got, "%.4s|%.3s|%.1s", "caf\xe9.txt", "\x80\x80\x80\x80", "\xff\xff");
    assert_string_equal(got, "caf\xe9|\x80\x80\x80|\xff");
    gyre_plain_snprintf(got, sizeof got, "%.9s|%.2s|%.0s|", "short", "ab", "none");
    assert_string_equal(got, "short|ab||");
}

/* As names from files come into messages. */
static void messages(void **state) {
    (void)state;
    for (int shift = 0; shift < 4; shift++) {
        char name[200] = "";
        gyre_error err;
        for (int i = 0; i < shift; i++)
            strcat(name, "x");
        while (strlen(name) < 120)
            strcat(name, "\xe4\xbd\x8d");
        assert_int_equal(gyre_fail(&err, GYRE_EFORMAT, "type: \"%.60s\" is not known", name), GYRE_EFORMAT);
        for (const char *at = err.text; *at;) {
            const int length = gyre_utf8_decode(at, strlen(at), NULL);
            if (length <= 0) fail_msg("a part of a character in %s", err.text);
            at += length;
        }
        assert_non_null(strstr(err.text, "\xe4\xbd\x8d\" is not known"));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(precisions),
        cmocka_unit_test(end_of_the_room),
        cmocka_unit_test(other_bytes),
        cmocka_unit_test(messages),
    };
    return cmocka_run_group_tests_name("plain_numbers", tests, NULL, NULL);
}
