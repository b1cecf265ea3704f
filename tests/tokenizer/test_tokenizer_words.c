/* test_tokenizer_words.c: the words into which patterns split a text. */
#include "support.h"
#include "tokenizer/pre_tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char words[1024];

static gyre_status take(void *ctx, const unsigned char *word, size_t bytes, gyre_error *err) {
    (void)ctx;
    (void)err;
    const size_t used = strlen(words);
    snprintf(words + used, sizeof words - used, "[%.*s]", (int)bytes, (const char *)word);
    return GYRE_OK;
}

/* The number of words, their bytes, and the longest. */
static gyre_status count_words(void *ctx, const unsigned char *word, size_t bytes, gyre_error *err) {
    size_t *counts = ctx;
    (void)word;
    (void)err;
    counts[0]++;
    counts[1] += bytes;
    if (bytes > counts[2]) counts[2] = bytes;
    return GYRE_OK;
}

/* Of a text that is no piece of a longer one. */
static gyre_status pre_tokenize(const gyre_pre_tokenizer *steps, const char *text, size_t bytes, gyre_word_callback to,
                                void *ctx, gyre_error *err) {
    uint64_t work_left = gyre_pre_tokenizer_work(bytes);
    return gyre_pre_tokenize(steps, (const unsigned char *)text, bytes, &work_left, to, ctx, err);
}

static void expect_words(const char *pattern, int literal, gyre_split_behavior rule, int inverted, const char *text,
                         const char *want) {
    gyre_pre_tokenizer steps = {0};
    gyre_error err = {0};
    words[0] = '\0';
    if (gyre_pre_tokenizer_add(&steps, pattern, strlen(pattern), literal, rule, inverted, &err) != GYRE_OK)
        fail_msg("%s", err.text);
    assert_ok(pre_tokenize(&steps, text, strlen(text), take, NULL, &err));
    assert_string_equal(words, want);
    gyre_pre_tokenizer_free(&steps);
}

static void expect_refused(const char *pattern, gyre_status want, const char *says) {
    gyre_pre_tokenizer steps = {0};
    gyre_error err = {0};
    assert_int_equal(gyre_pre_tokenizer_add(&steps, pattern, strlen(pattern), 0, GYRE_SPLIT_ISOLATED, 0, &err), want);
    if (!strstr(err.text, says)) fail_msg("%s: %s", pattern, err.text);
}

#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define LLAMA3                                                                                                              \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|"  \
    "\\s+(?!\\S)|\\s+"

static void test_words(void **state) {
    (void)state;
    const char *text = "the-final--countdown"; /* the example of the tokenizers documentation */
    expect_words("-", 1, GYRE_SPLIT_ISOLATED, 0, text, "[the][-][final][-][-][countdown]");
    expect_words("-", 1, GYRE_SPLIT_CONTIGUOUS, 0, text, "[the][-][final][--][countdown]");
    expect_words("-", 1, GYRE_SPLIT_MERGED_WITH_PREVIOUS, 0, text, "[the-][final-][-][countdown]");
    expect_words("-", 1, GYRE_SPLIT_MERGED_WITH_NEXT, 0, text, "[the][-final][-][-countdown]");
    expect_words("[a-z]+", 0, GYRE_SPLIT_CONTIGUOUS, 1, text, "[the][-][final][--][countdown]");
    expect_words(GPT2, 0, GYRE_SPLIT_ISOLATED, 0, "Hi  it's 1234 café\n\n x!?",
                 "[Hi][ ][ it]['s][ 1234][ café][\n\n][ x][!?]");
    expect_words(LLAMA3, 0, GYRE_SPLIT_ISOLATED, 0, "IT'S 12345 (ok)\n\n  x", "[IT]['S][ ][123][45][ (][ok][)\n\n][ ][ x]");
    expect_words("\\p{N}{1,3}+", 0, GYRE_SPLIT_ISOLATED, 0, "a12345b", "[a][12345][b]");
    expect_words(" ?[^(\\s|[.,!?…。])]+", 0, GYRE_SPLIT_ISOLATED, 0, "ab, cd…(e", "[ab][,][ cd][…(][e]");
    /* Invalid UTF-8 is a word of its own. The patterns continue on both sides. */
    expect_words(GPT2, 0, GYRE_SPLIT_ISOLATED, 0, "ab\xFF\xC3 cd", "[ab][\xFF\xC3][ cd]");
}

/* Patterns that mean something else in Oniguruma than in PCRE2, or nothing. */
static void test_oniguruma(void **state) {
    (void)state;
    expect_words("^b|a$", 0, GYRE_SPLIT_ISOLATED, 0, "ba\nba", "[b][a][\n][b][a]"); /* of lines */
    expect_words("\\u4E00+", 0, GYRE_SPLIT_ISOLATED, 0, "a一一b", "[a][一一][b]");
    expect_words("[\\u4E00-\\u4e02]+", 0, GYRE_SPLIT_ISOLATED, 0, "a一丁b", "[a][一丁][b]");
    expect_words("a{,2}b", 0, GYRE_SPLIT_ISOLATED, 0, "aaab b", "[a][aab][ ][b]");
    expect_words("[:\\]a]+", 0, GYRE_SPLIT_ISOLATED, 0, "b:]a:b", "[b][:]a:][b]");
    expect_words("[[:alpha:]]+", 0, GYRE_SPLIT_ISOLATED, 0, "1é:a1", "[1][é][:][a][1]");
    expect_refused("\\v", GYRE_EUNSUPPORTED, "escape");
    expect_refused("\\Qa+\\E", GYRE_EUNSUPPORTED, "escape");
    expect_refused("(?m:a.b)", GYRE_EUNSUPPORTED, "option");
    expect_refused("(?i-m:a.b)", GYRE_EUNSUPPORTED, "option");
    expect_refused("(*COMMIT)a", GYRE_EUNSUPPORTED, "verb");
}

/* Sets of characters that differ between Oniguruma and PCRE2, and what else is translated.  The words are those of the
 * tokenizers library (0.23). */
static void test_sets_of_oniguruma(void **state) {
    (void)state;
    static const char *const cases[][3] = {
        {"\\w+", "क\u093F e\u0301a ก\u0E47 a_b\u203Fc ²½ ⓐ",
         "[क\u093F][ ][e\u0301a][ ][ก\u0E47][ ][a_b\u203Fc][ ][²½][ ][ⓐ]"},
        {"[\\w]+", "क\u093F ²a½ ⓐ", "[क\u093F][ ²][a][½ ][ⓐ]"},
        {"\\W+", "e\u0301-²", "[e\u0301][-][²]"},
        {"[\\W_]+", "a_-e\u0301_²", "[a][_-][e\u0301][_²]"},
        {"[^\\W_]+", "a_-e\u0301_²", "[a][_-][e\u0301][_²]"},
        {"[^\\W\\d]+", "a1²e\u0301-", "[a][1²][e\u0301][-]"},
        {"\\b", "क\u093F e\u0301a, ²½", "[क\u093F][ ][e\u0301a][, ][²½]"},
        {"\\B\u093F", "क\u093F \u093Fक", "[क][\u093F][ \u093Fक]"},
        {"\\s+", "a\u00A0\u3000\u180E b", "[a][\u00A0\u3000][\u180E][ ][b]"},
        {"\\S+", "a\u180E b", "[a\u180E][ ][b]"},
        {"[\\S\\n]+", " a\n \u180E", "[ ][a\n][ ][\u180E]"},
        {"\\h+", "xFg01é", "[x][F][g][01][é]"},
        {"\\H+", "xFg01", "[x][F][g][01]"},
        {"[[:punct:]]+", "a$+«»€b", "[a][$+«»€][b]"},
        {"\\p{Punct}+", "a$+«»€b", "[a$+][«»][€b]"},
        {"[[:^punct:]]+", "a$+«b", "[a][$+«][b]"},
        {"[[:alpha:]]+", "a\u093FⅣ1", "[a\u093FⅣ][1]"},
        {"[[:alnum:]]+", "a1²ⅣⒶ", "[a1][²][ⅣⒶ]"},
        {"[[:upper:]]+", "AaⅣⒶ", "[A][a][ⅣⒶ]"},
        {"[[:lower:]]+", "aAªʰ", "[a][A][ªʰ]"},
        {"[[:graph:]]+", "a \u2028\u00AD\u0301", "[a][ \u2028][\u00AD\u0301]"},
        {"[[:print:]]+", "a \u2028\u3000\n", "[a ][\u2028][\u3000][\n]"},
        {"[[:blank:]]+", "a\t\u180E\u3000 \n", "[a][\t][\u180E][\u3000 ][\n]"},
        {"[[:xdigit:]]+", "aＡ1g", "[a][Ａ][1][g]"},
        {"[[:word:]]+", "²a\u093F", "[²][a\u093F]"},
        {"\\p{Alnum}+", "a1²Ⅳ-", "[a1][²][Ⅳ][-]"},
        {"\\p{^Word}+", "a-\u093F²", "[a][-][\u093F²]"},
        {"\\p{Han}+", "中、中。ー", "[中][、][中][。ー]"},
        {"x{2}?y", "xxy y xy", "[xxy][ ][y][ x][y]"},
        {"a(?i)b|c", "aB C ac c", "[aB][ C ][ac][ c]"},
        {"é{1,2}+", "aééé", "[a][ééé]"},
        {"\\x61{2}+", "aaaaa", "[aaaa][a]"},
        {"[a\\-\\s-]+", "a- b-", "[a- ][b][-]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_words(cases[i][0], 0, GYRE_SPLIT_ISOLATED, 0, cases[i][1], cases[i][2]);
    expect_refused("[a-\\w]", GYRE_EUNSUPPORTED, "range");
    expect_refused("\\pL+", GYRE_EUNSUPPORTED, "escape");
    expect_refused("\\xC3\\xA9", GYRE_EUNSUPPORTED, "byte of a character");
    expect_refused("[\\303\\251]", GYRE_EUNSUPPORTED, "byte of a character");
    expect_refused("a{2}?+", GYRE_EUNSUPPORTED, "count");
    expect_refused("a{1,2}+?", GYRE_EUNSUPPORTED, "count");
    expect_refused("\\p{L", GYRE_EFORMAT, "not closed");
    expect_refused("[[:alpha:]", GYRE_EFORMAT, "not closed");
}

/* A line's begin at the end of a search window is seen. */
static void test_begin_of_line_at_the_end_of_a_window(void **state) {
    (void)state;
    static const char pattern[] = "\\n^";
    char text[600];
    for (size_t n = 500; n < 520; n++) {
        gyre_pre_tokenizer steps = {0};
        gyre_error err = {0};
        size_t counts[3] = {0};
        memset(text, 'a', sizeof text);
        text[n] = '\n';
        assert_ok(gyre_pre_tokenizer_add(&steps, pattern, strlen(pattern), 0, GYRE_SPLIT_ISOLATED, 0, &err));
        assert_ok(pre_tokenize(&steps, text, sizeof text, count_words, counts, &err));
        assert_int_equal(counts[0], 3);
        gyre_pre_tokenizer_free(&steps);
    }
}

/* Patterns that match without taking a byte.  The words are those of the tokenizers library (0.23). */
static void test_empty_matches(void **state) {
    (void)state;
    static const struct {
        const char *pattern, *text;
        const char *want[4][2]; /* [behavior][inverted] */
    } cases[] = {
        {"(?=(\\d{3})+(?!\\d))",
         "1234567",
         {{"[1][234][567]", "[1][234][567]"},
          {"[1][234][567]", "[1][234][567]"},
          {"[1][234][567]", "[1][234][567]"},
          {"[1][234][567]", "[1][234][567]"}}},
        {"\\b",
         "ab, cd",
         {{"[ab][, ][cd]", "[ab][, ][cd]"},
          {"[ab][, ][cd]", "[ab][, ][cd]"},
          {"[ab][, ][cd]", "[ab][, ][cd]"},
          {"[ab][, ][cd]", "[ab][, ][cd]"}}},
        {"a*",
         "baac",
         {{"[b][aa][c]", "[b][aa][c]"}, {"[b][aa][c]", "[b][aa][c]"}, {"[baa][c]", "[b][aac]"}, {"[b][aac]", "[baa][c]"}}},
        {"(?<=[a-z])(?=[A-Z])",
         "camelCaseX",
         {{"[camel][Case][X]", "[camel][Case][X]"},
          {"[camel][Case][X]", "[camel][Case][X]"},
          {"[camel][Case][X]", "[camel][Case][X]"},
          {"[camel][Case][X]", "[camel][Case][X]"}}},
        {"$",
         "a\nb",
         {{"[a][\nb]", "[a][\nb]"}, {"[a][\nb]", "[a][\nb]"}, {"[a][\nb]", "[a][\nb]"}, {"[a][\nb]", "[a][\nb]"}}},
        {"b|(?=a)|$",
         "aabxb",
         {{"[a][a][b][x][b]", "[a][a][b][x][b]"},
          {"[a][a][b][x][b]", "[a][a][b][x][b]"},
          {"[a][ab][xb]", "[a][a][bx][b]"},
          {"[a][a][bx][b]", "[a][ab][xb]"}}},
        {"(?!b)",
         "abbé",
         {{"[abb][é]", "[abb][é]"}, {"[abb][é]", "[abb][é]"}, {"[abb][é]", "[abb][é]"}, {"[abb][é]", "[abb][é]"}}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int rule = 0; rule < 8; rule++)
            expect_words(cases[i].pattern, 0, (gyre_split_behavior)(rule / 2), rule % 2, cases[i].text,
                         cases[i].want[rule / 2][rule % 2]);
}

/* Splits worked out by hand: letters of any script, marks, cases, three digits at a time, white space before a word. */
static void test_published_patterns(void **state) {
    (void)state;
    expect_words(LLAMA3, 0, GYRE_SPLIT_ISOLATED, 0, "Він'LL 12３4٥",
                 "[Він]['LL][ ][12３][4٥]"); /* fullwidth and Arabic digits are digits */
    expect_words(LLAMA3, 0, GYRE_SPLIT_ISOLATED, 0, "a\u00A0\u3000 b\tc",
                 "[a][\u00A0\u3000][ b][\tc]"); /* spaces of any kind */
    expect_words(LLAMA3, 0, GYRE_SPLIT_ISOLATED, 0, "x = {};\r\n\r\n\ty", "[x][ =][ {};\r\n\r\n][\ty]");
    expect_words(LLAMA3, 0, GYRE_SPLIT_ISOLATED, 0, "e\u0301a", "[e][\u0301a]");             /* a mark is no letter */
    expect_words(LLAMA3, 0, GYRE_SPLIT_ISOLATED, 0, "'\u017F don't", "['\u017F][ don]['t]"); /* a long s is an s */
    expect_words(GPT2, 0, GYRE_SPLIT_ISOLATED, 0, "IT'S it's", "[IT]['][S][ it]['s]");
}

/* Very long words: none may be split at the end of a search window. */
static void test_long_words(void **state) {
    (void)state;
    enum { ROOM = 9000 };
    gyre_pre_tokenizer steps = {0};
    gyre_error err = {0};
    static char text[ROOM + 8];
    assert_ok(gyre_pre_tokenizer_add(&steps, GPT2, strlen(GPT2), 0, GYRE_SPLIT_ISOLATED, 0, &err));
    for (size_t n = 100; n < ROOM; n = n * 5 / 4) {
        size_t counts[3] = {0};
        memset(text, ' ', n);
        for (size_t i = n / 3 + 1; i < n - n / 3; i++)
            text[i] = 'a';
        memcpy(text + n, "é1", 3); /* spaces, the letters and the last space before them, spaces, " é", "1" */
        assert_ok(pre_tokenize(&steps, text, n + 3, count_words, counts, &err));
        assert_int_equal(counts[0], 5);
        assert_int_equal(counts[1], n + 3);
        assert_int_equal(counts[2], n - n / 3 - n / 3);
    }
    gyre_pre_tokenizer_free(&steps);
}

/* Patterns that look around themselves, on texts much longer than a window.  The work that they take is that of the text.  A
 * place which needs more steps than others is charged for these alone. */
static void test_work_of_looking_around(void **state) {
    (void)state;
    static const struct {
        const char *pattern, *unit;
        size_t units, words;
    } cases[] = {
        {"foo\\b", "hello world, ", 2000, 1},        {"foo\\b", "foo bar, ", 2000, 4000},
        {"\\b", "hello world, ", 2000, 8000},        {"(?=(\\d{3})+(?!\\d))", "hello world, ", 2000, 1},
        {"(?<=a)b|a(?=b)", " ", 20000, 1},           {"(?<=a)b|a(?=b)", "ab", 10000, 20000},
        {"(?<=[a-z])x(?=[A-Z])", "x", 12000, 1},     {"x{900}(?!x)", "x", 901, 2},
        {"(?:a|b|ab)+c|(?<=d)e", "ddeaabbx", 9, 19}, {"[a-z]+:", "x", 1200, 1},
    };
    static char text[30000];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gyre_pre_tokenizer steps = {0};
        gyre_error err = {0};
        size_t counts[3] = {0}, used = 0;
        for (size_t k = 0; k < cases[i].units; k++, used += strlen(cases[i].unit))
            memcpy(text + used, cases[i].unit, strlen(cases[i].unit));
        assert_ok(
            gyre_pre_tokenizer_add(&steps, cases[i].pattern, strlen(cases[i].pattern), 0, GYRE_SPLIT_ISOLATED, 0, &err));
        if (pre_tokenize(&steps, text, used, count_words, counts, &err) != GYRE_OK)
            fail_msg("%s: %s", cases[i].pattern, err.text);
        assert_int_equal(counts[0], cases[i].words);
        assert_int_equal(counts[1], used);
        gyre_pre_tokenizer_free(&steps);
    }
}

/* Patterns whose work doubles with each letter, or that look ahead to the end of the text from every position, end with an
 * error. A thousand times the bytes must not take a million times the work. */
static void test_too_much_work(void **state) {
    (void)state;
    enum { LONG = 1 << 19 };
    /* The last three ran for minutes: items inside one step, and lazy counts, were not counted. */
    static const char *const patterns[] = {"(?:a|a|aa)+[^a]",
                                           "a*[bc]|a",
                                           "a*[bc]",
                                           "(?=(?:a*)*b)a|a",
                                           "a{1,3}(?=(?:aaa)*\\b)",
                                           "(?:a*?a*?a*?a*?[^z]*+[yz])",
                                           "a{0,}?a*?a+?a*?a*?a*?[yz]",
                                           "(?:(?=a*b)a|a)+c"};
    char *text = malloc(LONG);
    assert_non_null(text);
    memset(text, 'a', LONG);
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        gyre_pre_tokenizer steps = {0};
        gyre_error err = {0};
        size_t counts[3] = {0};
        text[LONG - 1] = i == 4 ? 'a' : 'x';
        assert_ok(gyre_pre_tokenizer_add(&steps, patterns[i], strlen(patterns[i]), 0, GYRE_SPLIT_ISOLATED, 0, &err));
        const size_t bytes = i == 0 ? 200 : i == 4 ? LONG / 16 : LONG;
        const gyre_status status = pre_tokenize(&steps, text, bytes, count_words, counts, &err);
        assert_int_equal(status, GYRE_EUNSUPPORTED);
        assert_non_null(strstr(err.text, "too much work"));
        gyre_pre_tokenizer_free(&steps);
    }
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_words),
                                       cmocka_unit_test(test_oniguruma),
                                       cmocka_unit_test(test_published_patterns),
                                       cmocka_unit_test(test_sets_of_oniguruma),
                                       cmocka_unit_test(test_begin_of_line_at_the_end_of_a_window),
                                       cmocka_unit_test(test_empty_matches),
                                       cmocka_unit_test(test_long_words),
                                       cmocka_unit_test(test_work_of_looking_around),
                                       cmocka_unit_test(test_too_much_work)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
