/* test_tokenizer_files.c: the names of pre-tokenizers in files, and malformed files. */
#include "check_tokenizer.h"

/* How many digits and which letters each pre-tokenizer puts into one word, after the table of names in llama.cpp. */
static void test_gguf_cuts(void **state) {
    (void)state;
    static const char *const merges[] = {"1 2", "12 3", "123 4", "a B"};
    static const struct {
        const char *pre;
        int digits, joins_cases, adds_begin;
    } cases[] = {{"default", 3, 1, 0},     {"llama-bpe", 3, 1, 1},    {"qwen2", 1, 1, 0},
                 {"gpt-2", 4, 1, 0},       {"smollm", 1, 1, 0},       {"mpt", 4, 1, 0},
                 {"falcon", 3, 1, 0},      {"deepseek-llm", 4, 1, 0}, {"deepseek-coder", 1, 1, 0},
                 {"deepseek-v3", 3, 1, 0}, {"tekken", 1, 0, 1},       {"gpt-4o", 3, 0, 0},
                 {"llama4", 3, 0, 0},      {"minicpm5", 3, 1, 0},     {"qwen35", 1, 1, 0},
                 {"command-r", 1, 1, 0},   {"falcon-h1", 3, 1, 1},    {"granite-docling", 4, 1, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static const char *const tokens[] = {"1", "2", "3", "4", "12", "123", "1234", "a", "B", "aB", "<s>"};
        static const int32_t types[] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 3};
        made_gguf *made = made_begin(3);
        gyre_error err = {0};
        made_string(made, "tokenizer.ggml.model", "gpt2");
        made_string(made, "tokenizer.ggml.pre", cases[i].pre);
        made_strings(made, "tokenizer.ggml.tokens", tokens, 11);
        made_strings(made, "tokenizer.ggml.merges", merges, 4);
        made_i32s(made, "tokenizer.ggml.token_type", types, 11);
        made_u32(made, "tokenizer.ggml.bos_token_id", 10);
        made_bool(made, "tokenizer.ggml.add_space_prefix", 1); /* of pieces alone: here no token is a space */
        gyre_tokenizer *t = open_made(made, GYRE_OK, &err);
        const gyre_tokenizer_info info = tokenizer_info(t);
        if (*info.notes || info.adds_begin != cases[i].adds_begin) fail_msg("%s: %s", cases[i].pre, info.notes);
        if (cases[i].digits == 4)
            EXPECT(t, "1234", 0, 6);
        else if (cases[i].digits == 3)
            EXPECT(t, "1234", 0, 5, 3);
        else
            EXPECT(t, "1234", 0, 0, 1, 2, 3);
        if (cases[i].joins_cases)
            EXPECT(t, "aB", 0, 9);
        else
            EXPECT(t, "aB", 0, 7, 8);
        gyre_tokenizer_free(t);
    }
}

/* Added tokens that are words of the vocabulary in GPT-2's alphabet.  The first is made by a merge and the second is a byte,
 * as tokenizers 0.23 encodes them; the third is neither, and is searched for as it is written. */
static void test_words_of_other_bytes(void **state) {
    (void)state;
    static const char *const tokens[] = {"\u0120", "a", "\u0120a", "\u00E9", "\u0120\u00E9"}, *const merges[] = {"\u0120 a"};
    static const int32_t types[] = {1, 1, 4, 4, 4};
    const char *json = "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},\"added_tokens\":["
                       "{\"id\":2,\"content\":\"\u0120a\"},{\"id\":3,\"content\":\"\u00E9\"},{\"id\":4,\"content\":"
                       "\"\u0120\u00E9\"}]," MODEL("\"\u0120\":0,\"a\":1,\"\u0120a\":2,\"\u00E9\":3,\"\u0120\u00E9\":4",
                                                   "\"\u0120 a\"") "}";
    for (int gguf = 0; gguf < 2; gguf++) {
        gyre_tokenizer *t = NULL;
        gyre_error err = {0};
        made_gguf *made = made_begin(3);
        made_string(made, "tokenizer.ggml.model", "gpt2");
        made_strings(made, "tokenizer.ggml.tokens", tokens, 5);
        made_strings(made, "tokenizer.ggml.merges", merges, 1);
        made_i32s(made, "tokenizer.ggml.token_type", types, 5);
        made_string(made, "tokenizer.ggml.pre", "gpt-2");
        if (gguf)
            t = open_made(made, GYRE_OK, &err);
        else if (free(made), gyre_tokenizer_from_json(&t, json, strlen(json), "made.json", NULL, &err) != GYRE_OK)
            fail_msg("%s", err.text);
        EXPECT(t, " aa", 0, 2, 1);
        EXPECT(t, "a\xE9", 0, 1, 3);
        EXPECT(t, "a\u0120\u00E9", 0, 1, 4);
        assert_non_null(strstr(tokenizer_info(t).notes, "of other bytes"));
        gyre_tokenizer_free(t);
    }
}

static void test_malformed(void **state) {
    (void)state;
    static const struct {
        const char *json;
        gyre_status status;
        const char *says;
    } cases[] = {
        {"[]", GYRE_EFORMAT, "no object"},
        {"{", GYRE_EFORMAT, "line 1"},
        {"{}", GYRE_EFORMAT, "model: not an object"},
        {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[]}}", GYRE_EUNSUPPORTED, "Unigram"},
        {"{\n\"model\":{\n\"type\":\"WordPiece\",\"vocab\":{}}}", GYRE_EUNSUPPORTED, "line 3"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":[],\"merges\":[]}}", GYRE_EFORMAT, "model.vocab"},
        {"{" MODEL("\"a\":4000000000", "") "}", GYRE_EFORMAT, "the id of \"a\""},
        {"{" MODEL("\"a\":-1", "") "}", GYRE_EFORMAT, "the id of \"a\""},
        {"{" MODEL("\"a\":0.5", "") "}", GYRE_EFORMAT, "the id of \"a\""},
        {"{" MODEL("\"a\":0,\"b\":0", "") "}", GYRE_EFORMAT, "id 0 of another"},
        {"{" MODEL("\"a\":0,\"a\":1", "") "}", GYRE_EFORMAT, "duplicate"},
        {"{" MODEL("", "") "}", GYRE_EFORMAT, "no tokens"},
        {"{" MODEL("\"a\":0", "\"a b\"") "}", GYRE_EFORMAT, "model.merges[0]: \"b\""},
        {"{" MODEL("\"a\":0,\"b\":1", "\"a b\"") "}", GYRE_EFORMAT, "model.merges[0]"},
        {"{" MODEL("\"a\":0", "\"a\"") "}", GYRE_EFORMAT, "model.merges[0]"},
        {"{" MODEL("\"a\":0", "[\"a\"]") "}", GYRE_EFORMAT, "model.merges[0]"},
        {"{" MODEL("\"a\":0", "[1,2]") "}", GYRE_EFORMAT, "model.merges[0]"},
        {"{\"added_tokens\":[{\"id\":4000000000,\"content\":\"x\"}]," MODEL("\"a\":0", "") "}", GYRE_EFORMAT,
         "added_tokens[0].id"},
        {"{\"added_tokens\":[{\"id\":1}]," MODEL("\"a\":0", "") "}", GYRE_EFORMAT, "added_tokens[0].content"},
        {"{\"added_tokens\":[{\"id\":1,\"content\":\"x\",\"single_word\":true}]," MODEL("\"a\":0", "") "}",
         GYRE_EUNSUPPORTED, "single_word"},
        {"{\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"}," MODEL("\"a\":0", "") "}", GYRE_EUNSUPPORTED,
         "BertPreTokenizer"},
        {"{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(\"},\"behavior\":\"Isolated\"}," MODEL("\"a\":0",
                                                                                                                  "") "}",
         GYRE_EFORMAT, "Split.pattern"},
        {"{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\"},{\"type\":\"Metaspace\","
         "\"replacement\":\"▁\",\"prepend_scheme\":\"always\"}]}," MODEL("\"a\":0", "") "}",
         GYRE_EUNSUPPORTED, "Metaspace.prepend_scheme"},
        {"{\"added_tokens\":{\"<s>\":1}," MODEL("\"a\":0", "") "}", GYRE_EFORMAT, "added_tokens: not an array"},
        {"{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},\"added_tokens\":[{\"id\":2,\"content\":"
         "\"\u0120a\",\"special\":true}]," MODEL("\"\u0120\":0,\"a\":1,\"\u0120a\":2", "\"\u0120 a\"") "}",
         GYRE_EUNSUPPORTED, "added_tokens[0]: a special token that merges make"},
        {"{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":5}," MODEL("\"a\":0", "") "}", GYRE_EFORMAT, "no array"},
        {"{\"pre_tokenizer\":{\"type\":\"Sequence\"}," MODEL("\"a\":0", "") "}", GYRE_EFORMAT, "no array"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gyre_tokenizer *t = NULL;
        gyre_error err = {0};
        const gyre_status status =
            gyre_tokenizer_from_json(&t, cases[i].json, strlen(cases[i].json), "made.json", NULL, &err);
        if (status != cases[i].status || !strstr(err.text, cases[i].says) || !strstr(err.text, "made.json"))
            fail_msg("%s: %d %s", cases[i].json, status, err.text);
        assert_null(t);
    }
}

/* As many steps around a text as added tokens.  A walk of the tokens for each step would go on past the time that a test
 * has. */
static void test_many_steps_around_a_text(void **state) {
    (void)state;
    enum { MANY = 200000, ROOM = 128 };
    char *text = malloc((size_t)MANY * ROOM);
    gyre_tokenizer *t = NULL;
    gyre_error err = {0};
    assert_non_null(text);
    size_t used = (size_t)snprintf(text, ROOM, "{" MODEL("\"a\":0", "") ",\"added_tokens\":[");
    for (int i = 0; i < MANY; i++)
        used += (size_t)snprintf(text + used, ROOM, "%s{\"id\":%d,\"content\":\"t%d\"}", i ? "," : "", i + 1, i + 1);
    used += (size_t)snprintf(text + used, ROOM, "],\"post_processor\":{\"type\":\"Sequence\",\"processors\":[");
    for (int i = 0; i < MANY; i++)
        used += (size_t)snprintf(text + used, ROOM, "%s{\"type\":\"RobertaProcessing\",\"cls\":[\"t%d\"],\"sep\":[\"a\"]}",
                                 i ? "," : "", i + 1);
    used += (size_t)snprintf(text + used, ROOM, "]}}");
    if (gyre_tokenizer_from_json(&t, text, used, "made.json", NULL, &err) != GYRE_OK) fail_msg("%s", err.text);
    const gyre_tokenizer_info info = tokenizer_info(t);
    assert_int_equal(info.begin, MANY);
    assert_true(info.adds_begin);
    assert_non_null(strstr(info.notes, "of the tokens before a text is added"));
    assert_null(strstr(info.notes, "that is none"));
    gyre_tokenizer_free(t);
    free(text);
}

/* Added tokens cut a text into pieces, whose work counts together: each is little enough alone. */
static void test_work_of_pieces(void **state) {
    (void)state;
    enum { PIECES = 2000, BYTES = 18 };
    static const char *json =
        "{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(?:a|a)*[bc]\"},"
        "\"behavior\":\"Isolated\"},\"added_tokens\":[{\"id\":1,\"content\":\"<X>\"}]," MODEL("\"a\":0", "") "}";
    static char text[PIECES * BYTES + 1];
    gyre_tokenizer *t = NULL;
    gyre_error err = {0};
    gyre_text tokens;
    for (int i = 0; i < PIECES; i++)
        memcpy(text + (size_t)i * BYTES, "aaaaaaaaaaaaaaa<X>", BYTES);
    if (gyre_tokenizer_from_json(&t, json, strlen(json), "made.json", NULL, &err) != GYRE_OK) fail_msg("%s", err.text);
    assert_ok(gyre_tokenize(t, text, BYTES, 0, &tokens, &err));
    assert_int_equal(tokens.count, 16);
    gyre_text_free(&tokens);
    assert_int_equal(gyre_tokenize(t, text, sizeof text - 1, 0, &tokens, &err), GYRE_EUNSUPPORTED);
    assert_non_null(strstr(err.text, "too much work"));
    gyre_tokenizer_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_gguf_cuts), cmocka_unit_test(test_words_of_other_bytes),
                                       cmocka_unit_test(test_malformed), cmocka_unit_test(test_many_steps_around_a_text),
                                       cmocka_unit_test(test_work_of_pieces)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
