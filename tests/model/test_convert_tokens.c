/* test_convert_tokens.c: llama2.c checkpoints, and tokenizers converted between containers. */
#include "make_convert_models.h"
#include "model/model.h"

enum { SEQ = 24, HEADER_BYTES = 28, PIECES = 259 + 7 };

static void put32(unsigned char *to, int32_t x) {
    for (int i = 0; i < 4; i++)
        to[i] = (unsigned char)((uint32_t)x >> (8 * i));
}

/* -- a checkpoint of llama2.c -- */
/* Number n of the file, so that each number shows where it came from. */
static float value_at(int64_t n) {
    return (float)(n % 8191) / 16384.0f;
}

/* out = the numbers of the file. Part k of the layout begins at where[k]. */
enum { EMBED, ATT_NORM, WQ, WK, WV, WO, FFN_NORM, W1, W2, W3, NORM, FREQS, PARTS };
static int64_t part_counts(int64_t counts[PARTS], int vocab) {
    const int64_t list[PARTS] = {(int64_t)vocab * WIDTH,
                                 LAYERS * WIDTH,
                                 LAYERS * HEADS * HEAD * WIDTH,
                                 LAYERS * KV_HEADS * HEAD * WIDTH,
                                 LAYERS * KV_HEADS * HEAD * WIDTH,
                                 LAYERS * WIDTH * HEADS * HEAD,
                                 LAYERS * WIDTH,
                                 LAYERS * HIDDEN * WIDTH,
                                 LAYERS * WIDTH * HIDDEN,
                                 LAYERS * HIDDEN * WIDTH,
                                 WIDTH,
                                 SEQ * HEAD};
    int64_t all = 0;
    for (int i = 0; i < PARTS; i++) {
        counts[i] = list[i];
        all += list[i];
    }
    return all;
}
static int64_t begin_of(int part, int vocab) {
    int64_t counts[PARTS], begin = 0;
    (void)part_counts(counts, vocab);
    for (int i = 0; i < part; i++)
        begin += counts[i];
    return begin;
}

/* vocab < 0: with a separate output matrix. */
static unsigned char *checkpoint(int vocab, size_t *bytes) {
    int64_t counts[PARTS];
    const int size = vocab < 0 ? -vocab : vocab;
    const int64_t numbers = part_counts(counts, size) + (vocab < 0 ? (int64_t)size * WIDTH : 0);
    const int32_t header[7] = {WIDTH, HIDDEN, LAYERS, HEADS, KV_HEADS, vocab, SEQ};
    unsigned char *out = malloc(HEADER_BYTES + 4 * (size_t)numbers);
    assert_non_null(out);
    for (int i = 0; i < 7; i++)
        put32(out + 4 * i, header[i]);
    for (int64_t i = 0; i < numbers; i++) {
        const float x = value_at(i);
        int32_t bits;
        memcpy(&bits, &x, sizeof bits);
        put32(out + HEADER_BYTES + 4 * i, bits);
    }
    *bytes = HEADER_BYTES + 4 * (size_t)numbers;
    return out;
}

/* Tokens: the three special ones, 256 bytes, then these, by falling score. */
static const char *const words[7] = {" ", "a", "b", "ab", " a", " ab", "<"};

static size_t put_piece(unsigned char *to, float score, const char *text) {
    const size_t length = strlen(text);
    int32_t bits;
    memcpy(&bits, &score, sizeof bits);
    put32(to, bits);
    put32(to + 4, (int32_t)length);
    memcpy(to + 8, text, length);
    return 8 + length;
}
static size_t pieces(unsigned char *out) {
    static const char *const special[3] = {"<unk>", "\n<s>\n", "\n</s>\n"};
    size_t at = 4;
    put32(out, 7);
    for (int i = 0; i < 3; i++)
        at += put_piece(out + at, 0, special[i]);
    for (int i = 0; i < 256; i++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", i);
        at += put_piece(out + at, 0, name);
    }
    for (int i = 0; i < 7; i++)
        at += put_piece(out + at, -(float)(i == 4 ? 3 : i == 3 ? 4 : i), words[i]); /* " a" before "ab" */
    return at;
}

static void make_checkpoint(const char *target, int vocab, int with_tokens) {
    unsigned char tokens[8192];
    char path[600];
    size_t bytes;
    unsigned char *weights = checkpoint(vocab, &bytes);
    assert_int_equal(mkdir(target, 0777), 0);
    snprintf(path, sizeof path, "%s/model.bin", target);
    write_path(path, weights, bytes);
    snprintf(path, sizeof path, "%s/tok266.bin", target);
    if (with_tokens) write_path(path, tokens, pieces(tokens));
    free(weights);
}

static void assert_part(const gyre_tensor_store *store, const char *name, int part, int64_t skip, int64_t rows,
                        int64_t columns, int moved) {
    const gyre_file_tensor t = stored(store, name);
    assert_int_equal(t.count, rows * columns);
    float *got = numbers_of(store, name);
    for (int64_t r = 0; r < rows; r++) {
        const int64_t now = moved ? r / HEAD * HEAD + half_row(r % HEAD) : r;
        for (int64_t c = 0; c < columns; c++)
            if (got[now * columns + c] != value_at(begin_of(part, PIECES) + skip + r * columns + c))
                fail_msg("%s: row %d, column %d", name, (int)now, (int)c);
    }
    free(got);
}

static void test_checkpoint(void **state) {
    (void)state;
    gyre_tensor_store *store = NULL;
    make_checkpoint(in_folder("ckpt"), PIECES, 1);
    convert(in_folder("ckpt"), in_folder("ckpt-to"), NULL);
    assert_ok(gyre_tensor_store_open(&store, in_folder("ckpt-to"), NULL));
    assert_part(store, "model.embed_tokens.weight", EMBED, 0, PIECES, WIDTH, 0);
    assert_part(store, "model.layers.1.self_attn.q_proj.weight", WQ, HEADS * HEAD * WIDTH, HEADS * HEAD, WIDTH, 1);
    assert_part(store, "model.layers.1.self_attn.k_proj.weight", WK, KV_HEADS * HEAD * WIDTH, KV_HEADS * HEAD, WIDTH, 1);
    assert_part(store, "model.layers.0.self_attn.v_proj.weight", WV, 0, KV_HEADS * HEAD, WIDTH, 0);
    assert_part(store, "model.layers.1.self_attn.o_proj.weight", WO, WIDTH * HEADS * HEAD, WIDTH, HEADS * HEAD, 0);
    assert_part(store, "model.layers.1.post_attention_layernorm.weight", FFN_NORM, WIDTH, 1, WIDTH, 0);
    assert_part(store, "model.layers.1.mlp.gate_proj.weight", W1, HIDDEN * WIDTH, HIDDEN, WIDTH, 0);
    assert_part(store, "model.layers.1.mlp.down_proj.weight", W2, WIDTH * HIDDEN, WIDTH, HIDDEN, 0);
    assert_part(store, "model.layers.1.mlp.up_proj.weight", W3, HIDDEN * WIDTH, HIDDEN, WIDTH, 0);
    assert_part(store, "model.norm.weight", NORM, 0, 1, WIDTH, 0);
    assert_int_equal(gyre_tensor_store_count(store), 2 + 9 * LAYERS);
    gyre_tensor_store_free(store);
    json_t *config = json_of(in_folder("ckpt-to/config.json"));
    assert_string_equal(test_string(config, "model_type"), "llama");
    assert_int_equal(test_integer(config, "num_key_value_heads"), KV_HEADS);
    assert_int_equal(test_integer(config, "max_position_embeddings"), SEQ);
    assert_int_equal(test_integer(config, "eos_token_id"), 2);
    assert_true(json_is_true(json_object_get(config, "tie_word_embeddings")));
    json_decref(config);
}

static void test_converted_output(void **state) {
    (void)state;
    gyre_tensor_store *store = NULL;
    gyre_convert_options layout = GYRE_INIT(gyre_convert_options), gguf = GYRE_INIT(gyre_convert_options);
    layout.layout = &(const gyre_layout){GYRE_LAYOUT_INTERLEAVED};
    gguf.format = GYRE_MODEL_FORMAT_GGUF;
    make_checkpoint(in_folder("own"), -PIECES, 0);
    convert(in_folder("own"), in_folder("own-to"), NULL);
    assert_ok(gyre_tensor_store_open(&store, in_folder("own-to"), NULL));
    assert_part(store, "lm_head.weight", PARTS, 0, PIECES, WIDTH, 0); /* the last number of the file, after the tables */
    gyre_tensor_store_free(store);
    assert_int_equal(access(in_folder("own-to/tokenizer.json"), F_OK), -1);
    refused(in_folder("own"), in_folder("own-interleaved"), &layout, GYRE_EUNSUPPORTED,
            "no program reads interleaved pairs");
    convert(in_folder("own"), in_folder("own.gguf"), &gguf);
    assert_ok(gyre_tensor_store_open(&store, in_folder("own.gguf"), NULL)); /* interleaved in both */
    assert_part(store, "blk.1.attn_k.weight", WK, KV_HEADS * HEAD * WIDTH, KV_HEADS * HEAD, WIDTH, 0);
    assert_part(store, "output.weight", PARTS, 0, PIECES, WIDTH, 0);
    gyre_tensor_store_free(store);
}

/* Any other size is a different kind of file. */
static void test_invalid_checkpoints(void **state) {
    (void)state;
    size_t bytes;
    unsigned char *good = checkpoint(PIECES, &bytes), *bad = malloc(bytes + 4);
    assert_non_null(bad);
    memcpy(bad, good, bytes);
    memset(bad + bytes, 0, 4);
    assert_int_equal(mkdir(in_folder("no"), 0777), 0);
    write_path(in_folder("no/model.bin"), bad, bytes - 4);
    refused(in_folder("no"), in_folder("no-to"), NULL, GYRE_EIO, "no");
    write_path(in_folder("no/model.bin"), bad, bytes + 4);
    refused(in_folder("no"), in_folder("no-to"), NULL, GYRE_EIO, "no");
    for (int field = 0; field < 7; field++) {
        static const int32_t values[] = {0, -1, 1, 3, INT32_MAX, INT32_MIN};
        for (int v = 0; v < 6; v++) {
            memcpy(bad, good, bytes);
            put32(bad + 4 * field, values[v]);
            write_path(in_folder("no/model.bin"), bad, bytes);
            refused(in_folder("no"), in_folder("no-to"), NULL, GYRE_EIO, "no");
        }
    }
    write_path(in_folder("no/model.bin"), good, bytes);
    write_path(in_folder("no/other.bin"), good, bytes);
    refused(in_folder("no"), in_folder("no-to"), NULL, GYRE_EINVAL, "a second checkpoint");
    free(good);
    free(bad);
}

static void test_broken_tokens(void **state) {
    (void)state;
    unsigned char tokens[8192];
    const size_t bytes = pieces(tokens);
    make_checkpoint(in_folder("bt"), PIECES, 1);
    for (size_t cut = 0; cut < bytes; cut += cut < 40 || cut > bytes - 40 ? 1 : 97) {
        write_path(in_folder("bt/tok266.bin"), tokens, cut);
        refused(in_folder("bt"), in_folder("bt-to"), NULL, GYRE_EFORMAT, "tok266.bin");
    }
    put32(tokens + 8, -1); /* a length past the end */
    write_path(in_folder("bt/tok266.bin"), tokens, bytes);
    refused(in_folder("bt"), in_folder("bt-to"), NULL, GYRE_EFORMAT, "tok266.bin");
    (void)pieces(tokens);
    tokens[bytes - 1] = 0xFF;
    write_path(in_folder("bt/tok266.bin"), tokens, bytes);
    refused(in_folder("bt"), in_folder("bt-to"), NULL, GYRE_EFORMAT, "token 265: not UTF-8");
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        if (strstr(entry->d_name, "bt-to")) fail_msg("%s was left", entry->d_name);
    closedir(dir);
}

/* -- tokenizers -- */
static void test_pieces(void **state) {
    (void)state;
    make_checkpoint(in_folder("tp"), PIECES, 1);
    convert(in_folder("tp"), in_folder("tp-to"), NULL);
    json_t *root = json_of(in_folder("tp-to/tokenizer.json")), *model = json_object_get(root, "model");
    const json_t *vocab = json_object_get(model, "vocab"), *merges = json_object_get(model, "merges");
    assert_int_equal(json_object_size(vocab), PIECES);
    assert_int_equal(test_integer(vocab, "<s>"), 1);
    assert_int_equal(test_integer(vocab, "<0x41>"), 3 + 0x41);
    assert_int_equal(test_integer(vocab, "\xE2\x96\x81"
                                         "ab"),
                     259 + 5);
    assert_true(json_is_true(json_object_get(model, "byte_fallback")));
    /* By falling score: " a", "ab", " ab" of " " and "ab", then of " a" and "b" (left ids rise). */
    static const char *const wanted[4][2] = {{"\xE2\x96\x81", "a"},
                                             {"a", "b"},
                                             {"\xE2\x96\x81", "ab"},
                                             {"\xE2\x96\x81"
                                              "a",
                                              "b"}};
    assert_int_equal(json_array_size(merges), 4);
    for (size_t i = 0; i < 4; i++)
        for (size_t side = 0; side < 2; side++)
            assert_string_equal(json_string_value(json_array_get(json_array_get(merges, i), side)), wanted[i][side]);
    json_decref(root);
    root = json_of(in_folder("tp-to/tokenizer_config.json"));
    assert_string_equal(test_string(root, "bos_token"), "<s>");
    json_decref(root);
    /* To GGUF and back: the same two files. */
    gyre_convert_options gguf = GYRE_INIT(gyre_convert_options);
    gguf.format = GYRE_MODEL_FORMAT_GGUF;
    convert(in_folder("tp-to"), in_folder("tp.gguf"), &gguf);
    convert(in_folder("tp.gguf"), in_folder("tp-back"), NULL);
    assert_same_file(in_folder("tp-to/tokenizer.json"), in_folder("tp-back/tokenizer.json"));
    assert_same_file(in_folder("tp-to/tokenizer_config.json"), in_folder("tp-back/tokenizer_config.json"));
    assert_same_file(in_folder("tp-to/model.safetensors"), in_folder("tp-back/model.safetensors"));
    assert_same_file(in_folder("tp-to/config.json"), in_folder("tp-back/config.json"));
}

/* Byte-level: words by a pattern, merges in the listed order. */
static const char byte_level[] =
    "{\"version\": \"1.0\", \"added_tokens\": [{\"id\": 4, \"content\": \"<|end|>\", \"special\": true},"
    " {\"id\": 5, \"content\": \"<tool>\", \"special\": false}],"
    " \"decoder\": {\"type\": \"ByteLevel\"}, \"normalizer\": {\"type\": \"NFC\"}, \"pre_tokenizer\": {\"type\": "
    "\"Sequence\", \"pretokenizers\": [{\"type\": "
    "\"Split\","
    " \"pattern\": {\"Regex\": \"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}|"
    " ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+\"}, \"behavior\": \"Isolated\","
    " \"invert\": false}, {\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": false}]},"
    " \"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1, \"\xC4\xA0\": 2, \"ab\": 3},"
    " \"merges\": [[\"a\", \"b\"]]}}";

static void test_byte_level(void **state) {
    (void)state;
    gyre_convert_options gguf = GYRE_INIT(gyre_convert_options);
    gyre_tensor_store *store = NULL;
    int64_t x = 0;
    gguf.format = GYRE_MODEL_FORMAT_GGUF;
    made_model_free(make_folder_of(in_folder("bl"), "qwen2", BIASES | TIED, "", GYRE_DTYPE_F32));
    put_text(in_folder("bl/tokenizer.json"), byte_level);
    put_text(in_folder("bl/tokenizer_config.json"),
             "{\"eos_token\": {\"content\": \"<|end|>\"}, \"chat_template\": \"{{x}}\"}");
    convert(in_folder("bl"), in_folder("bl.gguf"), &gguf);
    assert_ok(gyre_tensor_store_open(&store, in_folder("bl.gguf"), NULL));
    const gyre_gguf *file = gyre_tensor_store_gguf(store);
    assert_true(gyre_gguf_equals(&gyre_gguf_find_key(file, "tokenizer.ggml.model")->value, "gpt2"));
    assert_true(gyre_gguf_equals(&gyre_gguf_find_key(file, "tokenizer.ggml.pre")->value, "qwen2"));
    assert_int_equal(gyre_gguf_find_key(file, "tokenizer.ggml.tokens")->value.count,
                     VOCAB); /* rows without a token are kept */
    assert_true(gyre_gguf_integer(&gyre_gguf_find_key(file, "tokenizer.ggml.eos_token_id")->value, 0, &x) && x == 4);
    static const int64_t kinds[] = {1, 1, 1, 1, 3, 4, 5};
    for (uint64_t i = 0; i < 7; i++)
        assert_true(gyre_gguf_integer(&gyre_gguf_find_key(file, "tokenizer.ggml.token_type")->value, i, &x) &&
                    x == kinds[i]);
    gyre_tensor_store_free(store);
    convert(in_folder("bl.gguf"), in_folder("bl-back"), NULL);
    json_t *before = json_of(in_folder("bl/tokenizer.json")), *after = json_of(in_folder("bl-back/tokenizer.json"));
    const json_t *model = json_object_get(after, "model");
    assert_string_equal(json_string_value(json_array_get(json_object_get(model, "merges"), 0)), "a b");
    assert_int_equal(test_integer(json_object_get(model, "vocab"), "\xC4\xA0"), 2);
    const json_t *one = json_array_get(json_object_get(json_object_get(before, "pre_tokenizer"), "pretokenizers"), 0),
                 *two = json_array_get(json_object_get(json_object_get(after, "pre_tokenizer"), "pretokenizers"), 0);
    assert_true(json_equal((json_t *)one, (json_t *)two));
    assert_true(json_equal(json_object_get(before, "normalizer"), json_object_get(after, "normalizer")));
    json_decref(before);
    json_decref(after);
    json_t *settings = json_of(in_folder("bl-back/tokenizer_config.json"));
    assert_string_equal(test_string(settings, "chat_template"), "{{x}}");
    assert_string_equal(test_string(settings, "eos_token"), "<|end|>");
    json_decref(settings);
}

/* Models trained by Gyre have bytes as tokens. GGUF can express that only as the gpt2 kind without merges. */
static void test_bytes(void **state) {
    (void)state;
    gyre_model_config config = gyre_model_config_default();
    gyre_convert_options gguf = GYRE_INIT(gyre_convert_options);
    gyre_model *model = NULL;
    gyre_tensor_store *store = NULL;
    config.model_dim = config.mlp_dim = 32;
    config.layers = 1;
    config.heads = config.kv_heads = 2;
    config.head_dim = 16;
    config.position.kind = GYRE_KIND_ROPE;
    config.position.trained_length = 32;
    gguf.format = GYRE_MODEL_FORMAT_GGUF;
    assert_ok(gyre_model_create(&model, &config, 1, NULL));
    assert_ok(gyre_model_save(model, in_folder("bytes"), GYRE_DTYPE_F32, NULL));
    gyre_model_free(model);
    convert(in_folder("bytes"), in_folder("bytes.gguf"), &gguf);
    assert_ok(gyre_tensor_store_open(&store, in_folder("bytes.gguf"), NULL));
    const gyre_gguf_value *tokens = &gyre_gguf_find_key(gyre_tensor_store_gguf(store), "tokenizer.ggml.tokens")->value;
    assert_int_equal(tokens->count, 256);
    assert_int_equal(gyre_gguf_find_key(gyre_tensor_store_gguf(store), "tokenizer.ggml.merges")->value.count, 0);
    /* GPT-2's spelling of NUL, line feed, space, "a", DEL, and the bytes of U+00A0, U+00AD and U+00FF. */
    static const struct {
        int byte;
        const char *text;
    } known[] = {{0, "\xC4\x80"},   {10, "\xC4\x8A"},  {32, "\xC4\xA0"},  {97, "a"},
                 {127, "\xC4\xA1"}, {160, "\xC5\x82"}, {173, "\xC5\x83"}, {255, "\xC3\xBF"}};
    const unsigned char *word = tokens->data;
    for (int byte = 0, k = 0; byte < 256 && k < 8; byte++) {
        const size_t bytes = word[0]; /* eight bytes, little endian: no file is that long */
        if (known[k].byte == byte) {
            assert_int_equal(bytes, strlen(known[k].text));
            assert_memory_equal(word + 8, known[k].text, bytes);
            k++;
        }
        word += 8 + bytes;
    }
    gyre_tensor_store_free(store);
}

static void test_wrong_tokenizers(void **state) {
    (void)state;
    gyre_convert_options gguf = GYRE_INIT(gyre_convert_options);
    gguf.format = GYRE_MODEL_FORMAT_GGUF;
    static const struct {
        const char *json, *says;
        gyre_status status;
    } wrong[] = {
        {"{", "tokenizer.json", GYRE_EFORMAT},
        {"[]", "model.type", GYRE_EUNSUPPORTED},
        {"{\"model\": {\"type\": \"Unigram\"}}", "only BPE", GYRE_EUNSUPPORTED},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": 3}}", "model.vocab", GYRE_EFORMAT},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 48}}}", "id 48", GYRE_EFORMAT},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": -1}}}", "id -1", GYRE_EFORMAT},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": \"x\"}}}", "id -1", GYRE_EFORMAT},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [\"ab\"]}}", "model.merges", GYRE_EFORMAT},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [[\"a\"]]}}", "model.merges", GYRE_EFORMAT},
        {"{\"model\": {\"type\": \"BPE\", \"byte_fallback\": true, \"vocab\": {\"a\": 0}, \"merges\": [\"a a\"]}}",
         "not a token", GYRE_EFORMAT},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}}, \"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": "
         "{\"Regex\": \"x+\"}}}",
         "pre_tokenizer", GYRE_EUNSUPPORTED}};
    made_model_free(make_folder_of(in_folder("wt"), "llama", TIED, "", GYRE_DTYPE_F32));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        put_text(in_folder("wt/tokenizer.json"), wrong[i].json);
        refused(in_folder("wt"), in_folder("wt.gguf"), &gguf, wrong[i].status, wrong[i].says);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_checkpoint),
        cmocka_unit_test(test_converted_output),
        cmocka_unit_test(test_invalid_checkpoints),
        cmocka_unit_test(test_broken_tokens),
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_byte_level),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_wrong_tokenizers),
    };
    return cmocka_run_group_tests(tests, make_empty_folder, remove_folder);
}
