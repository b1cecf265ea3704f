/* test_tokenizer_info.c: what a tokenizer says of itself, and texts that the caller keeps. */
#include "gyre/gyre_model.h"
#include "support.h"

#include <stddef.h>
#include <stdlib.h>

/* The struct of an older header gets what it has room for. */
static void test_info_of_other_sizes(void **state) {
    (void)state;
    gyre_tokenizer *t = NULL;
    assert_ok(gyre_tokenizer_create_bytes(&t, NULL));
    gyre_tokenizer_info older = {.size = offsetof(gyre_tokenizer_info, begin), .begin = 77, .notes = NULL}, unset = {0};
    assert_ok(gyre_tokenizer_get_info(t, &older));
    assert_int_equal(older.vocab, 256);
    assert_int_equal(older.kind, GYRE_TOKENIZER_BYTES);
    assert_int_equal(older.begin, 77);
    assert_null(older.notes);
    assert_int_equal(gyre_tokenizer_get_info(t, &unset), GYRE_EINVAL);
    assert_int_equal(gyre_tokenizer_get_info(t, NULL), GYRE_EINVAL);
    assert_int_equal(gyre_tokenizer_get_info(NULL, &older), GYRE_EINVAL);
    gyre_tokenizer_free(t);
}

/* Failures leave a text alone; a text of ids that the caller has can be written out. */
static void test_texts(void **state) {
    (void)state;
    gyre_tokenizer *t = NULL;
    gyre_text text = {.ids = NULL, .count = -3, .hash = 5, .files = 6, .bytes = 7};
    char *back = NULL;
    size_t bytes = 0;
    assert_ok(gyre_tokenizer_create_bytes(&t, NULL));
    assert_int_equal(gyre_tokenize(NULL, "ab", 2, 0, &text, NULL), GYRE_EINVAL);
    assert_int_equal(gyre_tokenize(t, "ab", 2, 0, NULL, NULL), GYRE_EINVAL);
    assert_true(text.count == -3 && text.hash == 5 && text.files == 6 && text.bytes == 7);
    assert_ok(gyre_tokenize(t, "ab", 2, 0, &text, NULL));
    assert_int_equal(text.count, 2);
    assert_int_equal(text.bytes, 2);
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (int i = 0; i < 2; i++)
        hash = (hash ^ (unsigned char)"ab"[i]) * UINT64_C(0x100000001b3);
    assert_true(text.hash == hash);
    gyre_text_free(&text);
    assert_ok(gyre_tokenize(t, "", 0, 0, &text, NULL));
    assert_int_equal(text.count, 0);
    gyre_text_free(&text);
    int32_t ids[] = {'h', 'i'};
    const gyre_text own = {.ids = ids, .count = 2};
    assert_ok(gyre_detokenize(t, &own, 0, &back, &bytes, NULL));
    assert_string_equal(back, "hi");
    free(back);
    assert_int_equal(gyre_detokenize(t, NULL, 0, &back, &bytes, NULL), GYRE_EINVAL);
    gyre_tokenizer_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_info_of_other_sizes), cmocka_unit_test(test_texts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
