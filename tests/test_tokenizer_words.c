/* test_tokenizer_words.c: which words patterns cut a text into. */
#include "model/tokenizer_words.h"
#include "support.h"

#include <stdio.h>
#include <string.h>

static char words[1024];

static gyre_status take(void *ctx, const unsigned char *word, size_t bytes, gyre_error *err) {
    (void)ctx;
    (void)err;
    const size_t used = strlen(words);
    snprintf(words + used, sizeof words - used, "[%.*s]", (int)bytes, (const char *)word);
    return GYRE_OK;
}

static void expect_words(const char *pattern, int literal, gyre_word_rule rule, int inverted, const char *text,
                         const char *want) {
    gyre_word_steps steps = {0};
    gyre_error err = {0};
    words[0] = '\0';
    if (gyre_word_steps_add(&steps, pattern, strlen(pattern), literal, rule, inverted, &err) != GYRE_OK)
        fail_msg("%s", err.text);
    assert_ok(gyre_words_of(&steps, (const unsigned char *)text, strlen(text), take, NULL, &err));
    assert_string_equal(words, want);
    gyre_word_steps_free(&steps);
}

#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define LLAMA3                                                                                                              \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|"  \
    "\\s+(?!\\S)|\\s+"

static void test_words(void **state) {
    (void)state;
    const char *text = "the-final--countdown"; /* the example of the tokenizers documentation */
    expect_words("-", 1, GYRE_WORD_ISOLATED, 0, text, "[the][-][final][-][-][countdown]");
    expect_words("-", 1, GYRE_WORD_CONTIGUOUS, 0, text, "[the][-][final][--][countdown]");
    expect_words("-", 1, GYRE_WORD_WITH_PREVIOUS, 0, text, "[the-][final-][-][countdown]");
    expect_words("-", 1, GYRE_WORD_WITH_NEXT, 0, text, "[the][-final][-][-countdown]");
    expect_words("[a-z]+", 0, GYRE_WORD_CONTIGUOUS, 1, text, "[the][-][final][--][countdown]");
    expect_words(GPT2, 0, GYRE_WORD_ISOLATED, 0, "Hi  it's 1234 café\n\n x!?",
                 "[Hi][ ][ it]['s][ 1234][ café][\n\n][ x][!?]");
    expect_words(LLAMA3, 0, GYRE_WORD_ISOLATED, 0, "IT'S 12345 (ok)\n\n  x", "[IT]['S][ ][123][45][ (][ok][)\n\n][ ][ x]");
    expect_words("\\p{N}{1,3}+", 0, GYRE_WORD_ISOLATED, 0, "a12345b", "[a][12345][b]");
    expect_words(" ?[^(\\s|[.,!?…。])]+", 0, GYRE_WORD_ISOLATED, 0, "ab, cd…(e", "[ab][,][ cd][…(][e]");
    /* No UTF-8: a word of its own, on both sides of which the patterns go on. */
    expect_words(GPT2, 0, GYRE_WORD_ISOLATED, 0, "ab\xFF\xC3 cd", "[ab][\xFF\xC3][ cd]");
}

/* A pattern that doubles its work with each letter ends with an error. */
static void test_catastrophic_pattern(void **state) {
    (void)state;
    gyre_word_steps steps = {0};
    gyre_error err = {0};
    const char *pattern = "(?:a|a|aa)+[^a]";
    char text[200];
    memset(text, 'a', sizeof text);
    assert_ok(gyre_word_steps_add(&steps, pattern, strlen(pattern), 0, GYRE_WORD_ISOLATED, 0, &err));
    assert_int_equal(gyre_words_of(&steps, (const unsigned char *)text, sizeof text, take, NULL, &err), GYRE_EUNSUPPORTED);
    assert_non_null(strstr(err.text, "too much work"));
    gyre_word_steps_free(&steps);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_words), cmocka_unit_test(test_catastrophic_pattern)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
