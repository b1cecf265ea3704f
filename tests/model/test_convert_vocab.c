/* test_convert_vocab.c: what a GGUF cannot say about a tokenizer is refused, and what both can say means the same. */
#include "convert/convert_vocab.h"
#include "files/gguf.h"
#include "make_convert_models.h"
#include "tokenizer/tokenizer.h"

#define SPACES                                                                                                              \
    "\"decoder\": {\"type\": \"Sequence\", \"decoders\": [{\"type\": \"Replace\", \"pattern\": {\"String\": "               \
    "\"\xE2\x96\x81\"}, "                                                                                                   \
    "\"content\": \" \"}, {\"type\": \"ByteFallback\"}, {\"type\": \"Fuse\"}]}, "                                           \
    "\"normalizer\": {\"type\": \"Replace\", \"pattern\": {\"String\": \" \"}, \"content\": \"\xE2\x96\x81\"}, "
#define LLAMA3                                                                                                              \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}{1,3}| ?[^\\\\s\\\\p{L}\\\\p{N}]+"        \
    "[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"
#define QWEN2                                                                                                               \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}| ?[^\\\\s\\\\p{L}\\\\p{N}]+"             \
    "[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"
#define SPLIT(more)                                                                                                         \
    "\"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Split\", \"pattern\": {\"Regex\": "       \
    "\"" LLAMA3 "\"}, " more "}, {\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": false}]}, "
#define STEPS(more) "\"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [" more "]}, "
#define BYTES       "{\"type\": \"ByteLevel\", \"add_prefix_space\": false}"
#define DECODER     "\"decoder\": {\"type\": \"ByteLevel\"}, "
#define MODEL(more)                                                                                                         \
    "\"model\": {\"type\": \"BPE\", " more "\"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2}, \"merges\": [\"a b\"]}"

static gyre_convert_options to_gguf(void) {
    gyre_convert_options o = GYRE_INIT(gyre_convert_options);
    o.format = GYRE_MODEL_FORMAT_GGUF;
    return o;
}

static void keep_loss(void *ctx, const char *what) {
    char *told = ctx;
    const size_t used = strlen(told);
    snprintf(told + used, sizeof(gyre_error) - used, "%s\n", what);
}

/* The conversion fails with a text that says `says`, and with somebody to tell it succeeds. */
static void check_loss(const char *from, const char *to, const char *says) {
    gyre_convert_options gguf = to_gguf();
    char told[sizeof(gyre_error)] = "";
    refused(from, to, &gguf, GYRE_EUNSUPPORTED, says);
    gguf.lost = keep_loss;
    gguf.ctx = told;
    convert(from, to, &gguf);
    assert_non_null(strstr(told, says));
}

static void test_steps_without_a_key(void **state) {
    (void)state;
    const gyre_convert_options gguf = to_gguf();
    static const struct {
        const char *json, *says;
    } wrong[] = {
        {"{" MODEL("") "}", "spaces that stay spaces"},
        {"{\"pre_tokenizer\": {\"type\": \"ByteLevel\"}, " MODEL("") "}", "ByteLevel.add_prefix_space"},
        {"{\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": false}, " MODEL("") "}",
         "pre_tokenizer"},
        {"{" STEPS("{\"type\": \"Split\", \"pattern\": {\"String\": \"a\"}, \"behavior\": \"Isolated\"}, " BYTES)
             MODEL("") "}",
         "Split.pattern"},
        {"{" SPLIT("\"behavior\": \"MergedWithNext\"") MODEL("") "}", "Split.behavior"},
        {"{" SPLIT("\"behavior\": \"Isolated\", \"invert\": true") MODEL("") "}", "Split.invert"},
        {"{" STEPS("{\"type\": \"Punctuation\"}, " BYTES) MODEL("") "}", "pre_tokenizer Punctuation"},
        {"{" STEPS("{\"type\": \"Digits\", \"individual_digits\": false}, " BYTES) MODEL("") "}", "pre_tokenizer Digits"},
        {"{" STEPS(BYTES) MODEL("\"ignore_merges\": true, ") "}", "pre_tokenizer"},
        {"{\"normalizer\": {\"type\": \"Lowercase\"}, " STEPS(BYTES) MODEL("") "}", "normalizer Lowercase"},
        {"{\"added_tokens\": [{\"id\": 3, \"content\": \"<x>\", \"special\": true, \"lstrip\": true}], " STEPS(BYTES)
             MODEL("") "}",
         "lstrip"},
        {"{" MODEL("\"byte_fallback\": true, ") "}", "spaces"},
        {"{" SPACES
         "\"pre_tokenizer\": {\"type\": \"Digits\", \"individual_digits\": true}, " MODEL("\"byte_fallback\": true, ") "}",
         "pre_tokenizer"},
        {"{" SPACES MODEL("\"byte_fallback\": true, \"ignore_merges\": true, ") "}", "ignore_merges"},
        {"{\"pre_tokenizer\": {\"type\": \"Metaspace\", \"replacement\": \"\xE2\x96\x81\", \"prepend_scheme\": \"never\"}, "
         "\"model\": {\"type\": \"BPE\", \"byte_fallback\": true, \"vocab\": {\"a\": 0, \"\xE2\x96\x81\": 1, "
         "\"a\xE2\x96\x81\""
         ": 2}, \"merges\": [\"a \xE2\x96\x81\"]}}",
         "Metaspace.split"}};
    made_model_free(make_folder_of(in_folder("st"), "llama", TIED, "", GYRE_DTYPE_F32));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        put_text(in_folder("st/tokenizer.json"), wrong[i].json);
        refused(in_folder("st"), in_folder("st.gguf"), &gguf, GYRE_EUNSUPPORTED, wrong[i].says);
    }
}

/* No reader of Gyre searches for more than 512 bytes, and tokens are held against each other in time that grows with
 * their bytes. */
static void test_long_added_tokens(void **state) {
    (void)state;
    const gyre_convert_options gguf = to_gguf();
    static const size_t lengths[] = {512, 513, 200000};
    made_model_free(make_folder_of(in_folder("la"), "llama", TIED, "", GYRE_DTYPE_F32));
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        const int length = (int)lengths[i] - 1;
        char *run = malloc(lengths[i]), *json = malloc(2 * lengths[i] + 1024);
        assert_true(run && json);
        memset(run, 'a', lengths[i] - 1);
        run[lengths[i] - 1] = '\0';
        snprintf(json, 2 * lengths[i] + 1024,
                 "{\"added_tokens\": [{\"id\": 3, \"content\": \"%sb\"}, {\"id\": 4, \"content\": \"%.*sc\", "
                 "\"normalized\": true}], " DECODER STEPS(BYTES) MODEL("") "}",
                 run, length, run);
        put_text(in_folder("la/tokenizer.json"), json);
        if (lengths[i] == 512)
            convert(in_folder("la"), in_folder("la.gguf"), &gguf);
        else
            refused(in_folder("la"), in_folder("la.gguf"), &gguf, GYRE_EUNSUPPORTED, "more than 512 bytes");
        free(run);
        free(json);
    }
}

/* Scores rank tokens, a list ranks pairs. */
static void test_merges_that_scores_cannot_say(void **state) {
    (void)state;
    const gyre_convert_options gguf = to_gguf();
    static const char *const wrong[] = {
        "[]",                                      /* "ab" is never made; by a score it would be */
        "[\"a b\", \"b c\"]",                      /* "abc" is never made */
        "[\"a b\", \"ab c\", \"b c\"]",            /* "a" and "bc" do not merge */
        "[\"a b\", \"ab c\", \"b c\", \"a bc\"]"}; /* "abc" from "ab" first, from "a" after "bc": two ranks of one token */
    char json[1024];
    made_model_free(make_folder_of(in_folder("ms"), "llama", TIED, "", GYRE_DTYPE_F32));
    for (size_t i = 0; i <= sizeof wrong / sizeof *wrong; i++) {
        const int sound = i == sizeof wrong / sizeof *wrong;
        snprintf(json, sizeof json,
                 "{" SPACES
                 "\"model\": {\"type\": \"BPE\", \"byte_fallback\": true, \"vocab\": {\"a\": 0, \"b\": 1, \"c\": 2, "
                 "\"ab\": 3, \"bc\": 4, \"abc\": 5}, \"merges\": %s}}",
                 sound ? "[\"b c\", \"ab c\", \"a bc\", \"a b\"]" : wrong[i]);
        put_text(in_folder("ms/tokenizer.json"), json);
        if (sound)
            convert(in_folder("ms"), in_folder("ms.gguf"), &gguf);
        else
            check_loss(in_folder("ms"), in_folder("ms.gguf"), "tokenizer.json: model.merges: ");
    }
}

/* Scores join whatever is a token together.  Merges of a list join tokens: tokenizers 0.23 makes no token of "a" and a
 * character that is none. */
static void test_characters_without_a_token(void **state) {
    (void)state;
    const gyre_convert_options gguf = to_gguf();
    static const struct {
        const char *vocab, *added;
        int sound;
    } cases[] = {
        {"\"a\": 0, \"b\": 1, \"ab\": 2", "", 1},
        {"\"a\": 0, \"b\": 1, \"ab\": 2, \"ac\": 3", "", 0},
        {"\"a\": 0, \"b\": 1, \"ab\": 2, \"cd\": 3", "", 0},
        {"\"a\": 0, \"b\": 1, \"ab\": 2, \"\u00E9ab\": 3", "", 0},
        {"\"a\": 0, \"b\": 1, \"ab\": 2, \"cda\": 3", "", 1}, /* nothing makes a part of it */
        {"\"a\": 0, \"b\": 1, \"ab\": 2, \"ac\": 3, \"c\": 4", "{\"id\": 4, \"content\": \"c\"}", 1},
        {"\"a\": 0, \"b\": 1, \"ab\": 2, \"ac\": 3, \"c\": 4", "{\"id\": 4, \"content\": \"c\", \"special\": true}", 0}};
    char json[1024];
    made_model_free(make_folder_of(in_folder("fc"), "llama", TIED, "", GYRE_DTYPE_F32));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(json, sizeof json,
                 "{" SPACES
                 "\"added_tokens\": [%s], \"model\": {\"type\": \"BPE\", \"byte_fallback\": true, \"vocab\": {%s}, "
                 "\"merges\": [\"a b\"]}}",
                 cases[i].added, cases[i].vocab);
        put_text(in_folder("fc/tokenizer.json"), json);
        if (cases[i].sound)
            convert(in_folder("fc"), in_folder("fc.gguf"), &gguf);
        else
            check_loss(in_folder("fc"), in_folder("fc.gguf"), "tokenizer.json: model.merges: ");
    }
}

/* Tokens up to 512 bytes keep their merges both ways, and longer ones are told of. */
static void test_long_merges(void **state) {
    (void)state;
    for (int bytes = 512; bytes <= 513; bytes++) {
        gyre_convert_vocab vocab = {0};
        gyre_error err = {0, ""};
        char text[520], *json = NULL, *config = NULL;
        memset(text, 'a', (size_t)bytes);
        assert_ok(gyre_convert_vocab_init(&vocab, 2 + 512 - 9, NULL));
        for (int64_t i = 0; i < vocab.count; i++) { /* "a", then one of 10 bytes and each longer one, then that of `bytes` */
            const size_t length = i == 0 ? 1 : i == vocab.count - 1 ? (size_t)bytes : (size_t)i + 9;
            assert_ok(gyre_convert_vocab_set_text(&vocab, i, text, length, "made", NULL));
            vocab.id_to_token[i].score = -(float)i;
        }
        const gyre_status status = gyre_convert_vocab_to_json(&vocab, 16, NULL, &json, &config, &err);
        assert_int_equal(status, bytes > 512 ? GYRE_EUNSUPPORTED : GYRE_OK);
        if (status) assert_non_null(strstr(err.text, "has more than 512 bytes"));
        json_t *root = json ? json_loads(json, 0, NULL) : NULL;
        const json_t *merges = json_object_get(json_object_get(root, "model"), "merges");
        size_t i, whole = 0;
        const json_t *pair;
        json_array_foreach(merges, i, pair) whole +=
            json_string_length(json_array_get(pair, 0)) + json_string_length(json_array_get(pair, 1)) == 512;
        if (json) assert_true(whole > 100);
        json_decref(root);
        free(json);
        free(config);
        gyre_convert_vocab_free(&vocab);
    }
}

static const gyre_gguf_value *key_of(const gyre_tensor_store *store, const char *key) {
    const gyre_gguf_kv *pair = gyre_gguf_find_key(gyre_tensor_store_gguf(store), key);
    if (!pair) fail_msg("%s: not there", key);
    return &pair->value;
}

static void test_ignored_merges(void **state) {
    (void)state;
    const gyre_convert_options gguf = to_gguf();
    made_model_free(make_folder_of(in_folder("im"), "llama", TIED, "", GYRE_DTYPE_F32));
    for (int ignores = 0; ignores < 2; ignores++) {
        gyre_tensor_store *store = NULL;
        put_text(in_folder("im/tokenizer.json"), ignores ? "{" DECODER SPLIT("\"behavior\": \"Isolated\"")
                                                               MODEL("\"ignore_merges\": true, ") "}"
                                                         : "{" DECODER SPLIT("\"behavior\": \"Isolated\"") MODEL("") "}");
        convert(in_folder("im"), in_folder("im.gguf"), &gguf);
        assert_ok(gyre_tensor_store_open(&store, in_folder("im.gguf"), NULL));
        assert_true(gyre_gguf_equals(key_of(store, "tokenizer.ggml.pre"), ignores ? "llama-bpe" : "smaug-bpe"));
        gyre_tensor_store_free(store);
        convert(in_folder("im.gguf"), in_folder("im-back"), NULL);
        json_t *root = json_of(in_folder("im-back/tokenizer.json")), *model = json_object_get(root, "model");
        assert_int_equal(json_is_true(json_object_get(model, "ignore_merges")), ignores);
        assert_int_equal(json_object_size(json_object_get(model, "vocab")), 3); /* without rows that have no token */
        json_decref(root);
    }
}

/* The pattern of qwen2 has two names.  Of one, readers of a tokenizer.json bring texts to NFC. */
static void test_normal_forms(void **state) {
    (void)state;
    const gyre_convert_options gguf = to_gguf();
    made_model_free(make_folder_of(in_folder("nf"), "llama", TIED, "", GYRE_DTYPE_F32));
    for (int nfc = 0; nfc < 2; nfc++) {
        char json[1024];
        snprintf(
            json, sizeof json,
            "{" DECODER "\"normalizer\": %s, "
            "\"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Split\", \"pattern\": {\"Regex\": "
            "\"" QWEN2 "\"}, \"behavior\": \"Isolated\"}, {\"type\": \"ByteLevel\", \"add_prefix_space\": false, "
            "\"use_regex\": false}]}, " MODEL("") "}",
            nfc ? "{\"type\": \"NFC\"}" : "null");
        put_text(in_folder("nf/tokenizer.json"), json);
        convert(in_folder("nf"), in_folder("nf.gguf"), &gguf);
        convert(in_folder("nf.gguf"), in_folder("nf-back"), NULL);
        json_t *root = json_of(in_folder("nf-back/tokenizer.json"));
        assert_int_equal(json_is_object(json_object_get(root, "normalizer")), nfc);
        json_decref(root);
    }
}

/* Ids that config.json alone has; the template comes before tokenizer_config.json. */
static void test_where_special_tokens_stand(void **state) {
    (void)state;
    gyre_tensor_store *store = NULL;
    int64_t x = -1;
    made_model_free(
        make_folder_of(in_folder("ws"), "llama", TIED, ", \"eos_token_id\": [2, 1], \"pad_token_id\": 1", GYRE_DTYPE_F32));
    put_text(
        in_folder("ws/tokenizer.json"),
        "{\"added_tokens\": [{\"id\": 3, \"content\": \"<s>\", \"special\": true}, {\"id\": 4, \"content\": \"<t>\", "
        "\"special\": true}], \"post_processor\": {\"type\": \"Sequence\", \"processors\": [{\"type\": \"ByteLevel\"}, "
        "{\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": \"<t>\"}}, {\"Sequence\": {\"id\": "
        "\"A\"}}]}]}, " DECODER STEPS(BYTES) MODEL("") "}");
    put_text(in_folder("ws/tokenizer_config.json"), "{\"bos_token\": \"<s>\", \"add_bos_token\": false}");
    check_loss(in_folder("ws"), in_folder("ws.gguf"), "another token than bos_token");
    assert_ok(gyre_tensor_store_open(&store, in_folder("ws.gguf"), NULL));
    assert_true(gyre_gguf_integer(key_of(store, "tokenizer.ggml.bos_token_id"), 0, &x) && x == 4);
    assert_true(gyre_gguf_integer(key_of(store, "tokenizer.ggml.add_bos_token"), 0, &x) && x == 1);
    assert_true(gyre_gguf_integer(key_of(store, "tokenizer.ggml.eos_token_id"), 0, &x) && x == 2);
    assert_true(gyre_gguf_integer(key_of(store, "tokenizer.ggml.padding_token_id"), 0, &x) && x == 1);
    gyre_tensor_store_free(store);
}

/* Of a chat template and of end tokens a GGUF has one. */
static void test_what_stands_beside_a_tokenizer(void **state) {
    (void)state;
    static const char one[] = "{\"chat_template\": \"one\"}",
                      list[] = "{\"chat_template\": [{\"name\": \"tools\", \"template\": \"no\"}, "
                               "{\"name\": \"default\", \"template\": \"chosen\"}]}";
    static const struct {
        const char *settings, *file, *wanted, *says;
    } cases[] = {{one, NULL, "one", NULL},
                 {one, "file", "file", NULL}, /* as transformers does */
                 {list, "file", "file", NULL},
                 {list, NULL, "chosen", "chat_template of tokenizer_config.json"},
                 {"{\"chat_template\": [{\"name\": \"tools\", \"template\": \"no\"}]}", NULL, NULL, "chat_template of"}};
    made_model_free(make_folder_of(in_folder("sb"), "llama", TIED, "", GYRE_DTYPE_F32));
    put_text(in_folder("sb/tokenizer.json"), "{" DECODER STEPS(BYTES) MODEL("") "}");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const gyre_convert_options gguf = to_gguf();
        gyre_tensor_store *store = NULL;
        put_text(in_folder("sb/tokenizer_config.json"), cases[i].settings);
        (void)remove(in_folder("sb/chat_template.jinja"));
        if (cases[i].file) put_text(in_folder("sb/chat_template.jinja"), cases[i].file);
        if (cases[i].says)
            check_loss(in_folder("sb"), in_folder("sb.gguf"), cases[i].says);
        else
            convert(in_folder("sb"), in_folder("sb.gguf"), &gguf);
        assert_ok(gyre_tensor_store_open(&store, in_folder("sb.gguf"), NULL));
        const gyre_gguf_kv *pair = gyre_gguf_find_key(gyre_tensor_store_gguf(store), "tokenizer.chat_template");
        assert_int_equal(pair != NULL, cases[i].wanted != NULL);
        if (pair) assert_true(gyre_gguf_equals(&pair->value, cases[i].wanted));
        gyre_tensor_store_free(store);
    }
    put_text(in_folder("sb/chat_template.jinja"), "\xFF");
    const gyre_convert_options gguf = to_gguf();
    refused(in_folder("sb"), in_folder("sb.gguf"), &gguf, GYRE_EFORMAT, "chat_template.jinja: no UTF-8");
    made_model_free(make_folder_of(in_folder("two-ends"), "llama", TIED, ", \"eos_token_id\": [2, 1]", GYRE_DTYPE_F32));
    put_text(in_folder("two-ends/tokenizer.json"), "{" DECODER STEPS(BYTES) MODEL("") "}");
    check_loss(in_folder("two-ends"), in_folder("sb.gguf"), "eos_token_id of config.json");
}

/* It is told, and refused by nobody: the model computes the same without it. */
static void test_generation_config(void **state) {
    (void)state;
    gyre_convert_options gguf = to_gguf();
    char told[sizeof(gyre_error)] = "";
    made_model_free(make_folder_of(in_folder("gc"), "llama", TIED, "", GYRE_DTYPE_F32));
    put_text(in_folder("gc/tokenizer.json"), "{" DECODER STEPS(BYTES) MODEL("") "}");
    put_text(in_folder("gc/generation_config.json"), "{}");
    convert(in_folder("gc"), in_folder("gc.gguf"), &gguf);
    gguf.lost = keep_loss;
    gguf.ctx = told;
    convert(in_folder("gc"), in_folder("gc.gguf"), &gguf);
    assert_non_null(strstr(told, "generation_config.json: a GGUF has no keys for it"));
}

/* -- the keys of a GGUF -- */
/* Reads a GGUF of four pieces with these scores and nothing else. */
static gyre_status read_pieces(gyre_convert_vocab *out, const double *scores, int count, gyre_error *err) {
    static const char *const words[] = {"<unk>", "<s>", "</s>", "a", "b", "c", "ab", "bc"};
    gyre_gguf_writer keys = {0};
    unsigned char *bytes;
    size_t size;
    gyre_gguf *file;
    int there;
    gyre_gguf_write_string(&keys, "tokenizer.ggml.model", "llama");
    gyre_gguf_write_array(&keys, "tokenizer.ggml.tokens", GYRE_GGUF_STRING, 8);
    for (int i = 0; i < 8; i++)
        gyre_gguf_write_array_string(&keys, words[i], strlen(words[i]));
    gyre_gguf_write_array(&keys, "tokenizer.ggml.scores", GYRE_GGUF_F32, (uint64_t)count);
    for (int i = 0; i < count; i++)
        gyre_gguf_write_array_number(&keys, GYRE_GGUF_F32, scores[i]);
    assert_ok(gyre_gguf_write_metadata(&keys, &bytes, &size, NULL));
    gyre_gguf_writer_free(&keys);
    assert_ok(gyre_gguf_open_head(&file, bytes, size, 1, NULL));
    const gyre_status status = gyre_convert_vocab_from_gguf(out, &there, file, "x.gguf", err);
    gyre_gguf_free(file);
    free(bytes);
    return status;
}

/* llama.cpp's defaults: tokens 0, 1 and 2, a begin token and a space before a text.  Without types the begin token is none
 * of the words of a text all the same. */
static void test_defaults(void **state) {
    (void)state;
    static const double scores[] = {0, 0, 0, -1, -2, -3, -4, -5};
    gyre_convert_vocab vocab = {0};
    char *json, *config;
    assert_ok(read_pieces(&vocab, scores, 8, NULL));
    assert_int_equal(vocab.unknown, 0);
    assert_int_equal(vocab.begin, 1);
    assert_int_equal(vocab.end, 2);
    assert_true(vocab.adds_begin && vocab.space_prefix);
    assert_int_equal(vocab.id_to_token[1].kind, GYRE_TOKEN_CONTROL);
    assert_ok(gyre_convert_vocab_to_json(&vocab, 16, NULL, &json, &config, NULL));
    assert_non_null(strstr(config, "\"eos_token\": \"</s>\""));
    free(json);
    free(config);
    gyre_convert_vocab_free(&vocab);
}

/* A user-defined piece of U+2581 is found where a text has spaces, by an added token that is written with them. */
static void test_user_defined_spaces(void **state) {
    (void)state;
    static const char *const words[] = {"<unk>",        "<s>", "</s>", "a", "\xE2\x96\x81", "\xE2\x96\x81\xE2\x96\x81",
                                        "a\xE2\x96\x81"};
    static const int kinds[] = {2, 3, 3, 1, 1, 4, 1};
    gyre_gguf_writer keys = {0};
    unsigned char *bytes;
    size_t size;
    gyre_gguf *file;
    gyre_tokenizer *before = NULL, *after = NULL;
    gyre_convert_vocab vocab = {0};
    char *json, *config;
    int there;
    gyre_gguf_write_string(&keys, "tokenizer.ggml.model", "llama");
    gyre_gguf_write_array(&keys, "tokenizer.ggml.tokens", GYRE_GGUF_STRING, 7);
    for (int i = 0; i < 7; i++)
        gyre_gguf_write_array_string(&keys, words[i], strlen(words[i]));
    gyre_gguf_write_array(&keys, "tokenizer.ggml.scores", GYRE_GGUF_F32, 7);
    for (int i = 0; i < 7; i++)
        gyre_gguf_write_array_number(&keys, GYRE_GGUF_F32, -i);
    gyre_gguf_write_array(&keys, "tokenizer.ggml.token_type", GYRE_GGUF_I32, 7);
    for (int i = 0; i < 7; i++)
        gyre_gguf_write_array_number(&keys, GYRE_GGUF_I32, kinds[i]);
    assert_ok(gyre_gguf_write_metadata(&keys, &bytes, &size, NULL));
    gyre_gguf_writer_free(&keys);
    assert_ok(gyre_gguf_open_head(&file, bytes, size, 1, NULL));
    assert_ok(gyre_convert_vocab_from_gguf(&vocab, &there, file, "x.gguf", NULL));
    assert_ok(gyre_convert_vocab_to_json(&vocab, 16, NULL, &json, &config, NULL));
    assert_ok(gyre_tokenizer_from_gguf(&before, bytes, size, "x.gguf", NULL));
    assert_ok(gyre_tokenizer_from_json(&after, json, strlen(json), "x.json", NULL, NULL));
    for (int i = 0; i < 2; i++) {
        static const int32_t wanted[] = {4, 3, 5, 5, 4, 3}; /* " a", two and two spaces, " a" */
        gyre_text text;
        assert_ok(gyre_tokenize(i ? after : before, "a    a", 6, 0, &text, NULL));
        assert_int_equal(text.count, 6);
        assert_memory_equal(text.ids, wanted, sizeof wanted);
        gyre_text_free(&text);
    }
    assert_non_null(strstr(json, "\"content\": \"  \""));
    assert_ok(gyre_convert_vocab_set_text(&vocab, 3, "  ", 2, "x.gguf", NULL));
    gyre_error err = {0, ""};
    free(json);
    free(config);
    assert_int_equal(gyre_convert_vocab_to_json(&vocab, 16, NULL, &json, &config, &err), GYRE_EUNSUPPORTED);
    assert_non_null(strstr(err.text, "3 and 5 have the same text"));
    gyre_convert_vocab_free(&vocab);
    gyre_tokenizer_free(before);
    gyre_tokenizer_free(after);
    gyre_gguf_free(file);
    free(bytes);
}

static void test_scores_that_merges_cannot_say(void **state) {
    (void)state;
    static const double equal[] = {0, 0, 0, -1, -2, -3, -4, -4}, bad[] = {0, 0, 0, -1, -2, (double)NAN, -4, -5};
    gyre_convert_vocab vocab = {0};
    gyre_error err = {0, ""};
    char *json, *config;
    assert_ok(read_pieces(&vocab, equal, 8, NULL));
    assert_int_equal(gyre_convert_vocab_to_json(&vocab, 16, NULL, &json, &config, &err), GYRE_EUNSUPPORTED);
    assert_non_null(strstr(err.text, "6 and 7 have the same score"));
    vocab.id_to_token[7].score = -5;
    assert_ok(gyre_convert_vocab_set_text(&vocab, 5, "<0x41>", 6, "x.gguf", NULL)); /* typed as a word */
    assert_int_equal(gyre_convert_vocab_to_json(&vocab, 16, NULL, &json, &config, &err), GYRE_EUNSUPPORTED);
    assert_non_null(strstr(err.text, "5 is \"<0x41>\""));
    gyre_convert_vocab_free(&vocab);
    assert_int_equal(read_pieces(&vocab, bad, 8, &err), GYRE_EFORMAT);
    assert_non_null(strstr(err.text, "tokenizer.ggml.scores: element 5"));
    assert_int_equal(read_pieces(&vocab, equal, 7, &err), GYRE_EFORMAT);
    assert_non_null(strstr(err.text, "tokenizer.ggml.scores: not one for each token"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps_without_a_key),
        cmocka_unit_test(test_long_added_tokens),
        cmocka_unit_test(test_merges_that_scores_cannot_say),
        cmocka_unit_test(test_characters_without_a_token),
        cmocka_unit_test(test_long_merges),
        cmocka_unit_test(test_ignored_merges),
        cmocka_unit_test(test_normal_forms),
        cmocka_unit_test(test_where_special_tokens_stand),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_what_stands_beside_a_tokenizer),
        cmocka_unit_test(test_generation_config),
        cmocka_unit_test(test_user_defined_spaces),
        cmocka_unit_test(test_scores_that_merges_cannot_say),
    };
    return cmocka_run_group_tests(tests, make_empty_folder, remove_folder);
}
