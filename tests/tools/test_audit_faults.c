/* test_audit_faults.c: gyre audit finds everything that is wrong with a file, and says so on its page. */
#include "run_audit.h"

/* -- files that are spoiled -- */
/* A copy of a folder whose config.json says `value` for `key`; NULL = without the key. */
static void write_changed(const char *from, const char *name, const char *key, const char *value) {
    char line[256], path[128];
    if (*from == '@')
        snprintf(line, sizeof line, "cp -r %s %s", in_folder(from + 1), in_folder(name));
    else
        snprintf(line, sizeof line, "cp -r %s %s", from, in_folder(name));
    assert_int_equal(system(line), 0);
    snprintf(path, sizeof path, "%s/config.json", name);
    json_t *config = json_load_file(in_folder(path), 0, NULL),
           *parsed = value ? json_loads(value, JSON_DECODE_ANY, NULL) : NULL;
    assert_non_null(config);
    if (key && value) assert_int_equal(json_object_set_new(config, key, parsed), 0);
    if (key && !value) json_object_del(config, key);
    assert_int_equal(json_dump_file(config, in_folder(path), JSON_INDENT(1)), 0);
    json_decref(config);
}

/* The bytes of a tensor's number in the safetensors file of a folder become those of a NaN of F32. */
static void spoil_number(const char *name, const char *tensor, int element) {
    static const unsigned char nan_bytes[4] = {0, 0, 0xc0, 0x7f};
    unsigned char length[8] = {0};
    char path[128], header[32768];
    snprintf(path, sizeof path, "%s/model.safetensors", name);
    FILE *file = fopen(in_folder(path), "r+b");
    assert_non_null(file);
    assert_int_equal(fread(length, 1, 8, file), 8);
    const size_t bytes = (size_t)length[0] | (size_t)length[1] << 8 | (size_t)length[2] << 16;
    assert_true(bytes < sizeof header);
    assert_int_equal(fread(header, 1, bytes, file), bytes);
    json_t *root = json_loadb(header, bytes, 0, NULL), *spec = json_object_get(root, tensor);
    assert_non_null(spec);
    assert_string_equal(json_string_value(json_object_get(spec, "dtype")), "F32");
    const json_int_t at = json_integer_value(json_array_get(json_object_get(spec, "data_offsets"), 0));
    assert_int_equal(fseek(file, (long)(8 + bytes) + (long)at + 4L * element, SEEK_SET), 0);
    assert_int_equal(fwrite(nan_bytes, 1, 4, file), 4);
    assert_int_equal(fclose(file), 0);
    json_decref(root);
}

/* out = the tensors that wrong findings of the weights stand for. */
static int tensors_wrong(const json_t *root) {
    const json_t *finding;
    size_t i;
    int tensors = 0;
    json_array_foreach(json_object_get(root, "findings"), i, finding) {
        if (strcmp(test_string(finding, "check"), "weights") == 0 && strcmp(test_string(finding, "status"), "wrong") == 0)
            tensors += (int)json_integer_value(json_object_get(finding, "count"));
    }
    return tensors;
}

static int64_t config_number(const char *folder_name, const char *key) {
    char path[128];
    snprintf(path, sizeof path, "%s/config.json", folder_name);
    json_t *config = json_load_file(in_folder(path), 0, NULL);
    const int64_t number = json_integer_value(json_object_get(config, key));
    json_decref(config);
    return number;
}

/* -- a config that is refused -- */
static void refused_configs(void **state) {
    (void)state;
    static const struct {
        const char *key, *value, *says;
    } rows[] = {{"rope_theta", "-1", "rope_theta: the base, -1, is not above 1"},
                {"rope_theta", "\"500000\"", "rope_theta: "},
                {"rope_scaling", "{\"rope_type\": \"magic\", \"factor\": 2.0}", "\"magic\" is not a type"},
                {"rope_scaling", "{\"rope_type\": \"yarn\", \"factor\": -8.0}", "rope_scaling.factor: "},
                {"rope_scaling", "{\"rope_type\": \"linear\", \"factor\": 0.5}", "rope_scaling.factor: "},
                {"max_position_embeddings", "0", "max_position_embeddings: not a whole number of at least 1"},
                {"head_dim", "31", "head_dim: 31 rotated channels"},
                {"sliding_window", "-3", "sliding_window: "}};
    char name[32], place[32];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        snprintf(name, sizeof name, "refused%d", (int)i);
        snprintf(place, sizeof place, "@refused%d", (int)i);
        write_changed(ROPE, name, rows[i].key, rows[i].value);
        json_t *root = audited(place, FOUND);
        expect_count(root, 1, "config", "wrong", rows[i].says);
        expect_count(root, 0, "config", "ok", "");
        expect_count(root, 0, "programs", "ok", "");
        assert_string_equal(test_string(root, "model_type"), "llama");
        assert_string_equal(test_string(root, "profile"), "hf-5");
        /* the weights are those of the model: all are looked at; head_dim alone is about their shapes */
        if (strcmp(rows[i].key, "head_dim") != 0) expect_count(root, 1, "weights", "ok", "all are finite");
        json_decref(root);
        const outcome *o = run(i % 2 ? "audit @refused1" : "audit @refused0");
        assert_int_equal(o->exit, FOUND);
        assert_non_null(strstr(o->out, "refused by hf-5"));
        assert_non_null(strstr(o->out, "1 wrong, 0 in doubt"));
        assert_string_equal(o->err, "");
    }
}

/* The other parts of the page go on. */
static void refused_config_and_more(void **state) {
    (void)state;
    write_changed("@learned_words", "several", "max_position_embeddings", "-2");
    write_in("several", "generation_config.json", "{\"max_length\": -5, \"eos_token_id\": 5000}");
    write_in("several", "tokenizer.json",
             "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 300}, \"merges\": []}}");
    spoil_number("several", "model.layers.0.mlp.up_proj.weight", 0);
    json_t *root = audited("@several --text @text", FOUND);
    expect_count(root, 1, "config", "wrong", "max_position_embeddings");
    expect_count(root, 1, "lengths", "wrong", "max_length is -5");
    expect_count(root, 1, "weights", "wrong", "mlp.up_proj.weight: element 0 is not a number");
    expect_count(root, 1, "tokens", "wrong", "eos_token_id is 5000");
    expect_count(root, 1, "tokens", "wrong", "the tokenizer has ids up to");
    expect_count(root, 1, "layout", "left_out", "findings about the config");
    json_decref(root);
}

/* A reader stops at its first fault; the others are found without the keys before. */
static void faults_past_the_first(void **state) {
    (void)state;
    write_changed(ROPE, "three_0", "head_dim", "31");
    write_changed("@three_0", "three_1", "rope_theta", "-1");
    write_changed("@three_1", "three", "max_position_embeddings", "0");
    json_t *root = audited("@three", FOUND);
    expect_count(root, 3, "config", "wrong", "");
    expect_count(root, 1, "config", "wrong", "head_dim: 31 rotated channels");
    expect_count(root, 1, "config", "wrong", "rope_theta: the base, -1, is not above 1");
    expect_count(root, 1, "config", "wrong", "max_position_embeddings: not a whole number of at least 1");
    expect_count(root, 2, "config", "wrong", "; found by reading on without head_dim");
    json_decref(root);
    /* a key within a dictionary, which is then missing, and one beside it */
    write_changed(ROPE, "two_0", "rope_scaling", "{\"rope_type\": \"yarn\", \"factor\": -8.0}");
    write_changed("@two_0", "two", "sliding_window", "-3");
    root = audited("@two", FOUND);
    expect_count(root, 2, "config", "wrong", "");
    expect_count(root, 1, "config", "wrong", "rope_scaling.factor: -8 is below 1");
    expect_count(root, 1, "config", "wrong", "sliding_window: ");
    json_decref(root);
    /* What is wrong only because a key was left out is not told: 112 heads do not divide the width of a bloom that states
     * none, and do divide 14336. */
    static const char bloom[] = "{\"model_type\": \"bloom\", \"hidden_size\": \"x\", \"num_attention_heads\": 112}\n";
    write_file("bloom.json", bloom, strlen(bloom));
    root = audited("@bloom.json", FOUND);
    expect_count(root, 1, "config", "wrong", "");
    expect_count(root, 1, "config", "wrong", "hidden_size: not a whole number");
    json_decref(root);
}

static void key_that_is_there_twice(void **state) {
    (void)state;
    write_llama("twice", "\"max_position_embeddings\": 64, \"rope_theta\": 5000.0");
    write_in("twice", "model.safetensors", "short");
    json_t *root = audited("@twice", FOUND);
    expect_count(root, 1, "config", "wrong", "duplicate object key");
    expect_count(root, 0, "programs", "note", "");
    expect_count(root, 1, "programs", "left_out", "takes the last value");
    expect_count(root, 1, "weights", "left_out", "the config cannot be read");
    json_decref(root);
}

/* The words of a refusal are those of config.json. */
static void parts_that_do_not_fit(void **state) {
    (void)state;
    write_model("turned", GYRE_KIND_SINUSOIDAL);
    write_changed("@turned", "adapted", "adaptive", "\"concat-residual\"");
    json_t *root = audited("@adapted", FOUND);
    expect_count(root, 1, "weights", "wrong", "adaptive, in one form, needs an encoding with biases (alibi, t5");
    expect_count(root, 0, "weights", "wrong", "ADAPTIVE");
    expect_count(root, 0, "weights", "wrong", "(model)");
    json_decref(root);
}

/* What cannot be read at all stays an error of use. */
static void unreadable_files(void **state) {
    (void)state;
    write_folder("nojson");
    write_in("nojson", "config.json", "{\"model_type\": \"llama\", ");
    assert_fails("audit @nojson", FAILED, "config.json");
    write_in("nojson", "config.json", "[1]");
    assert_fails("audit @nojson", FAILED, "not an object");
    assert_fails("audit @nothing", FAILED, "config.json");
    write_file("short.gguf", "GGUF\3\0\0\0", 8);
    assert_fails("audit @short.gguf", FAILED, "short.gguf");
    write_file("magic.gguf", "GGML\3\0\0\0", 8);
    assert_fails("audit @magic.gguf", FAILED, "neither a GGUF, which begins with GGUF, nor a JSON object");
    assert_int_equal(run("convert " ROPE " -o @right.gguf")->exit, 0);
    assert_fails("audit @right.gguf --as vllm", FAILED, "");
}

/* -- all tensors -- */
static void all_faults_of_weights(void **state) {
    (void)state;
    static const char *const spoilt[] = {"model.layers.0.self_attn.q_proj.weight", "model.layers.1.mlp.down_proj.weight",
                                         "model.layers.3.self_attn.o_proj.weight", "model.layers.2.input_layernorm.weight"};
    assert_int_equal(run("convert " ROPE " -o @floats --dtype f32")->exit, 0);
    write_changed("@floats", "spoilt", NULL, NULL);
    for (int i = 0; i < 4; i++)
        spoil_number("spoilt", spoilt[i], 0);
    json_t *root = audited("@spoilt", FOUND);
    expect_count(root, 4, "weights", "wrong", "");
    for (int i = 0; i < 4; i++)
        expect_count(root, 1, "weights", "wrong", spoilt[i]);
    expect_count(root, 0, "weights", "ok", "");
    json_decref(root);

    /* keys and values of every layer get another shape; the numbers are told beside */
    char heads[16];
    const int64_t layers = config_number("floats", "num_hidden_layers"),
                  own = config_number("floats", "num_attention_heads");
    snprintf(heads, sizeof heads, "%d", (int)own / 2);
    write_changed("@spoilt", "shapes", "num_key_value_heads", heads);
    root = audited("@shapes", FOUND);
    char range[96];
    snprintf(range, sizeof range, "model.layers.0-%d.self_attn.k_proj.weight (%d tensors): ", (int)layers - 1, (int)layers);
    expect_count(root, 2, "weights", "wrong", "where the config asks for");
    expect_count(root, 1, "weights", "wrong", range);
    expect_count(root, 4, "weights", "wrong", "is not a number");
    assert_int_equal(tensors_wrong(root), 2 * (int)layers + 4);
    json_decref(root);
    expect("@spoilt --text @text", FOUND, "layout", "left_out", "findings about the weights");
}

/* -- one fault of many tensors -- */
static void faults_of_many_layers(void **state) {
    (void)state;
    /* nine tensors of each layer that is not there */
    char more[16], range[96];
    const int64_t layers = config_number("floats", "num_hidden_layers");
    snprintf(more, sizeof more, "%d", (int)layers + 5);
    snprintf(range, sizeof range, "model.layers.%d-%d.mlp.up_proj.weight (5 tensors): no such tensor", (int)layers,
             (int)layers + 4);
    write_changed("@floats", "missing", "num_hidden_layers", more);
    json_t *root = audited("@missing", FOUND);
    expect_count(root, 9, "weights", "wrong", "no such tensor");
    expect_count(root, 1, "weights", "wrong", range);
    assert_int_equal(tensors_wrong(root), 9 * 5);
    json_decref(root);
    /* layers that are not neighbours, and other elements of them */
    write_changed("@floats", "apart", NULL, NULL);
    spoil_number("apart", "model.layers.0.mlp.up_proj.weight", 0);
    spoil_number("apart", "model.layers.1.mlp.up_proj.weight", 7);
    spoil_number("apart", "model.layers.3.mlp.up_proj.weight", 7);
    spoil_number("apart", "model.layers.1.mlp.down_proj.weight", 7);
    root = audited("@apart", FOUND);
    expect_count(root, 1, "weights", "wrong",
                 "model.layers.0-1,3.mlp.up_proj.weight (3 tensors): element 0 of the first is not a number");
    expect_count(root, 1, "weights", "wrong", "model.layers.1.mlp.down_proj.weight: element 7 is not a number");
    expect_count(root, 2, "weights", "wrong", "");
    json_decref(root);
}

/* Past 32 findings the others are counted. */
static void faults_of_many_names(void **state) {
    (void)state;
    enum { EXTRA = 40, OF_LLAMA = 2 * 9 + 2 + 1 };
    static const float numbers[EXTRA];
    char header[STORED_HEADER] = "";
    size_t length = 0;
    for (int i = 0; i < EXTRA; i++)
        length += (size_t)snprintf(header + length, sizeof header - length,
                                   "%s\"extra%d.weight\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[%d,%d]}",
                                   i ? "," : "{", i, 4 * i, 4 * i + 4);
    snprintf(header + length, sizeof header - length, "}");
    write_llama("extra", "\"intermediate_size\": 32, \"vocab_size\": 9, \"max_position_embeddings\": 64");
    stored_safetensors("extra/model.safetensors", header, numbers, sizeof numbers);
    json_t *root = audited("@extra", FOUND);
    expect_count(root, 33, "weights", "wrong", "");
    expect_count(root, 1, "weights", "wrong", " more tensors");
    assert_int_equal(tensors_wrong(root), EXTRA + OF_LLAMA);
    json_decref(root);
}

/* Notes of a config, more than there is room for, take none from what is wrong with its weights. */
static void notes_without_end(void **state) {
    (void)state;
    enum { KEYS = 9000, PER_LINE = 10, DOUBTS = 20 };
    static char text[KEYS * 24 + 512];
    size_t length = (size_t)snprintf(text, sizeof text,
                                     "{\"model_type\": \"llama\", \"hidden_size\": 16, \"num_attention_heads\": 2,\n"
                                     "\"num_hidden_layers\": 2, \"intermediate_size\": 32, \"vocab_size\": 9,\n"
                                     "\"rope_theta\": 10000.0, \"max_position_embeddings\": 64");
    for (int i = 0; i < KEYS; i++)
        length += (size_t)snprintf(text + length, sizeof text - length, ",%s\"rope_k%d\": 1", i % PER_LINE ? "" : "\n", i);
    snprintf(text + length, sizeof text - length, "}");
    write_folder("endless");
    write_in("endless", "config.json", text);
    stored_safetensors("endless/model.safetensors",
                       "{\"extra.weight\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", &(float){1}, 4);
    assert_int_equal(run("audit @endless --json -o @endless.out")->exit, FOUND);
    json_t *root = json_load_file(in_folder("endless.out"), 0, NULL);
    assert_non_null(root);
    assert_true(json_is_false(json_object_get(root, "ok")));
    expect_count(root, 1, "weights", "wrong", "extra.weight");
    expect_count(root, DOUBTS, "config", "doubt", ": its name is that of a position's key");
    expect_count(root, 1, "config", "doubt", "more keys with names of positions");
    const int shown = count_findings(root, "config", "note", "rope_k"), notes = KEYS - DOUBTS - 1;
    assert_true(shown > 1000 && shown < notes);
    assert_int_equal(json_integer_value(json_object_get(root, "not_shown")), notes - shown);
    const json_t *finding;
    size_t i;
    json_array_foreach(json_object_get(root, "findings"), i, finding) {
        char place[64];
        int number;
        if (sscanf(test_string(finding, "text"), "rope_k%d:", &number) != 1) continue;
        snprintf(place, sizeof place, "rope_k%d, line %d", number, 4 + number / PER_LINE);
        assert_string_equal(test_string(finding, "place"), place);
    }
    json_decref(root);
    assert_int_equal(run("audit @endless -o @endless.out --force")->exit, FOUND);
    assert_int_equal(run("audit @endless/config.json -o @endless.out --force")->exit, FOUND);
}

static void frequencies_of_many_layers(void **state) {
    (void)state;
    static const float half[2][4] = {{0.5f, 0.05f, 0.005f, 0.0005f}, {0.5f, 0.05f, 0.005f, 0.0005f}};
    write_llama("halves", "\"max_position_embeddings\": 128");
    stored_safetensors("halves/model.safetensors",
                       "{\"model.layers.0.self_attn.rotary_emb.inv_freq\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":"
                       "[0,16]},\"model.layers.1.self_attn.rotary_emb.inv_freq\":{\"dtype\":\"F32\",\"shape\":[4],"
                       "\"data_offsets\":[16,32]}}",
                       half, sizeof half);
    json_t *root = audited("@halves", FOUND);
    expect_count(root, 1, "frequencies", "wrong",
                 "model.layers.0-1.self_attn.rotary_emb.inv_freq (2 tensors): pair 0 rotates 0.5");
    expect_count(root, 1, "frequencies", "wrong", "");
    json_decref(root);
}

/* -- files of weights that are not whole -- */
static void shards_that_are_missing(void **state) {
    (void)state;
    static const char index[] = "{\"weight_map\": {\"a.weight\": \"one.safetensors\", \"b.weight\": \"two.safetensors\",\n"
                                " \"c.weight\": \"two.safetensors\", \"d.weight\": \"three.safetensors\"}}";
    write_llama("shards", "\"max_position_embeddings\": 128");
    write_in("shards", "model.safetensors.index.json", index);
    write_in("shards", "one.safetensors", "");
    write_in("shards", "generation_config.json", "{\"max_length\": -5}");
    json_t *root = audited("@shards", FOUND);
    expect_count(root, 1, "weights", "wrong",
                 "2 of 3 files that the index names are not in the folder, with 3 of 4 tensors: two.safetensors, "
                 "three.safetensors");
    expect_count(root, 1, "weights", "wrong", "");
    expect_count(root, 1, "lengths", "wrong", "max_length is -5");
    expect_count(root, 1, "config", "ok", "");
    json_decref(root);
    /* with all of them there the first is looked at, which is empty */
    write_in("shards", "two.safetensors", "");
    write_in("shards", "three.safetensors", "");
    expect("@shards", FOUND, "weights", "wrong", "empty");
}

/* The type of a tensor in a GGUF becomes another number. */
static void set_tensor_type(const char *file, const char *name, unsigned char type) {
    static unsigned char bytes[1 << 20];
    FILE *f = fopen(in_folder(file), "r+b");
    assert_non_null(f);
    const size_t size = fread(bytes, 1, sizeof bytes, f), length = strlen(name);
    size_t at = 0;
    while (at + length < size && memcmp(bytes + at, name, length) != 0)
        at++;
    assert_true(at + length < size);
    at += length + 4 + 8 * (size_t)bytes[at + length]; /* the rank, and the dimensions */
    assert_int_equal(fseek(f, (long)at, SEEK_SET), 0);
    assert_int_equal(fputc(type, f), type);
    assert_int_equal(fclose(f), 0);
}

/* What Gyre cannot read is not what is wrong. */
static void types_that_are_not_read(void **state) {
    (void)state;
    static const char unread[] = "blk.0.attn_q.weight: Gyre does not read blocks of type 200 yet";
    assert_int_equal(run("convert " ROPE " -o @types.gguf")->exit, 0);
    set_tensor_type("types.gguf", "blk.0.attn_q.weight", 200);
    json_t *root = audited("@types.gguf", RIGHT);
    expect_count(root, 1, "weights", "left_out", unread);
    expect_count(root, 1, "weights", "ok", "all that Gyre reads are finite");
    json_decref(root);
    assert_fails("eval @types.gguf --text @rope", FAILED, unread);
    assert_fails("convert @types.gguf -o @types_floats --dtype f32", FAILED, unread);
    set_tensor_type("types.gguf", "blk.1.attn_q.weight", 200);
    root = audited("@types.gguf", RIGHT);
    expect_count(root, 1, "weights", "left_out", "type 200 yet");
    expect_count(root, 1, "weights", "left_out", "; and 1 more");
    json_decref(root);
}

static void gguf_that_is_cut(void **state) {
    (void)state;
    struct stat info;
    assert_int_equal(run("convert " ROPE " -o @cut.gguf")->exit, 0);
    assert_int_equal(stat(in_folder("cut.gguf"), &info), 0);
    assert_int_equal(truncate(in_folder("cut.gguf"), info.st_size - 5000), 0);
    json_t *root = audited("@cut.gguf", FOUND);
    assert_string_equal(test_string(root, "model_type"), "llama");
    expect_count(root, 1, "weights", "wrong", "it is cut short");
    expect_count(root, 0, "config", "doubt", "");
    expect_count(root, 1, "lengths", "ok", "");
    expect_count(root, 1, "tables", "ok", "none of");
    json_decref(root);
    const outcome *o = run("explain @cut.gguf");
    assert_int_equal(o->exit, 0);
    assert_non_null(strstr(o->out, "of which the file has"));
    assert_fails("convert @cut.gguf -o @cut_copy", FAILED, "of which the file has");
    assert_fails("extend @cut.gguf --to 16k --method yarn --write @cut_far.gguf", FAILED, "of which the file has");
    /* where the keys themselves end there is nothing to audit */
    assert_int_equal(truncate(in_folder("cut.gguf"), 300), 0);
    assert_fails("audit @cut.gguf", FAILED, "cut.gguf");
}

/* -- limits -- */
static void limits(void **state) {
    (void)state;
    static const struct {
        const char *text, *status, *says;
    } rows[] = {{"{\"max_length\": -5}", "wrong", "max_length is -5, which is below 0"},
                {"{\"max_new_tokens\": 0}", "wrong", "max_new_tokens is 0, which is room for no token"},
                {"{\"max_length\": \"abc\"}", "wrong", "max_length is \"abc\", which is not a number"},
                {"{\"max_length\": 2.5}", "wrong", "max_length is 2.5, which is not a whole number"},
                {"{\"max_length\": true}", "wrong", "max_length is true, which is not a number"},
                {"{\"max_length\": NaN}", "wrong", "max_length is \"\", which is not a number"},
                {"{\"max_new_tokens\": 1e30}", "doubt", "max_new_tokens is 1e+30, and the model serves 4096 tokens"},
                {"{\"min_length\": -1}", "wrong", "min_length is -1, which is below 0"},
                {"{\"min_length\": 30, \"max_length\": 20}", "wrong", "min_length is 30, above max_length, which is 20"}};
    write_llama("limited", "\"max_position_embeddings\": 4096");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        write_in("limited", "generation_config.json", rows[i].text);
        expect("@limited", FOUND, "lengths", rows[i].status, rows[i].says);
    }
    write_in("limited", "generation_config.json",
             "{\"max_length\": null, \"max_new_tokens\": 20.0, \"min_length\": 0, \"length_penalty\": Infinity}");
    expect("@limited", RIGHT, "lengths", "ok", "max_new_tokens is 20, within");
    write_in("limited", "generation_config.json", "{}");
    write_in("limited", "tokenizer_config.json", "{\n\"model_max_length\": -1}");
    json_t *root = audited("@limited", FOUND);
    expect_count(root, 1, "lengths", "wrong", "model_max_length is -1");
    json_decref(root);
    assert_non_null(strstr(run("audit @limited")->out, "tokenizer_config.json, line 2"));
}

/* -- ids of special tokens -- */
static void ids(void **state) {
    (void)state;
    const int rows = (int)config_number("floats", "vocab_size");
    char text[160];
    snprintf(text, sizeof text, "[1, %d, -7]", rows);
    write_changed("@floats", "named", "eos_token_id", text);
    json_t *root = audited("@named", FOUND);
    snprintf(text, sizeof text, "eos_token_id is %d, which is past the last row: the embedding has %d rows", rows, rows);
    expect_count(root, 1, "tokens", "wrong", text);
    expect_count(root, 1, "tokens", "wrong", "eos_token_id is -7, which is below 0");
    json_decref(root);
    write_changed("@floats", "last", "bos_token_id", "1.5");
    expect("@last", FOUND, "tokens", "wrong", "bos_token_id is 1.5, which is not a whole number");
    snprintf(text, sizeof text, "%d", rows - 1);
    write_changed("@floats", "within", "eos_token_id", text);
    write_in("within", "generation_config.json", "{\"pad_token_id\": -1, \"bos_token_id\": null}");
    expect("@within", RIGHT, "tokens", "ok", "2 ids of special tokens, all within the embedding");
    snprintf(text, sizeof text, "{\"pad_token_id\": %d}", rows);
    write_in("within", "generation_config.json", text);
    expect("@within", FOUND, "tokens", "wrong", "pad_token_id is");
    /* without weights the config tells */
    write_llama("unweighted", "\"max_position_embeddings\": 64, \"vocab_size\": 100, \"eos_token_id\": 100");
    expect("@unweighted", FOUND, "tokens", "wrong", "the vocab_size of the config has 100 rows");
}

/* -- work -- */
/* A walk of the text for each element, or of the tensors for each tensor, would go on past the time that a test has. */
static void ids_without_end(void **state) {
    (void)state;
    enum { PAD = 24 << 20, IDS = 200000 };
    static char text[PAD + 4 * IDS + 64];
    size_t length = (size_t)snprintf(text, sizeof text, "{\"pad\": \"");
    memset(text + length, 'x', PAD);
    length += PAD;
    length += (size_t)snprintf(text + length, sizeof text - length, "\",\n\"eos_token_id\": [0.5");
    for (int i = 1; i < IDS; i++, length += 4)
        memcpy(text + length, ",0.5", 4);
    memcpy(text + length, "]}", 3);
    write_llama("many", "\"max_position_embeddings\": 64, \"vocab_size\": 100");
    write_in("many", "generation_config.json", text);
    assert_int_equal(run("audit @many --json -o @many.out")->exit, FOUND);
    json_t *root = json_load_file(in_folder("many.out"), 0, NULL);
    const int shown = count_findings(root, "tokens", "wrong", "eos_token_id is 0.5, which is not a whole number");
    assert_true(shown > 1000);
    assert_int_equal(json_integer_value(json_object_get(root, "not_shown")), IDS - shown);
    const json_t *finding;
    size_t i;
    json_array_foreach(json_object_get(root, "findings"), i, finding) {
        if (strstr(test_string(finding, "text"), "eos_token_id is 0.5"))
            assert_string_equal(test_string(finding, "place"), "generation_config.json, line 2");
    }
    json_decref(root);
}

static void trained_without_end(void **state) {
    (void)state;
    enum { TENSORS = 300000, ROOM = 112 };
    char *text = malloc((size_t)TENSORS * ROOM);
    assert_non_null(text);
    size_t length = 0;
    for (int i = 0; i < TENSORS; i++)
        length += (size_t)snprintf(text + length, ROOM,
                                   "%c\"l.self_attn.%07d.self_attn.frequencies.weight\":"
                                   "{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}",
                                   i ? ',' : '{', i);
    memcpy(text + length, "}", 2);
    write_llama("tensors", "\"max_position_embeddings\": 64, \"vocab_size\": 100");
    stored_safetensors("tensors/model.safetensors", text, NULL, 0);
    free(text);
    assert_int_equal(run("audit @tensors --json -o @tensors.out")->exit, FOUND);
    json_t *root = json_load_file(in_folder("tensors.out"), 0, NULL);
    const json_t *finding;
    size_t i;
    int64_t count = json_integer_value(json_object_get(root, "not_shown"));
    json_array_foreach(json_object_get(root, "findings"), i, finding) {
        if (strstr(test_string(finding, "text"), ": positions that 1 layer trained, 0 x 1 numbers each"))
            count += json_integer_value(json_object_get(finding, "count"));
    }
    assert_true(count >= TENSORS);
    json_decref(root);
}

/* -- keys -- */
static void misspelt_keys(void **state) {
    (void)state;
    static const struct {
        const char *text, *says;
    } rows[] = {{"\"rope_scalling\": {\"rope_type\": \"yarn\", \"factor\": 2.0}",
                 "rope_scalling: no program reads it; did you mean rope_scaling?"},
                {"\"rope_thetta\": 1.0", "did you mean rope_theta?"},
                {"\"max_position_embedding\": 3", "did you mean max_position_embeddings?"},
                {"\"partial_rotary_facter\": 0.5", "did you mean partial_rotary_factor?"},
                {"\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 2.0, \"beta_fst\": 16.0,\n"
                 "  \"original_max_position_embeddings\": 64}",
                 "for type yarn; did you mean beta_fast?"},
                {"\"rope_parameters\": {\"rope_type\": \"linear\", \"factor\": 2.0, \"rope_tetha\": 1e6}",
                 "rope_tetha: transformers 5 does not read it for type linear; did you mean rope_theta?"}};
    char name[32], place[32], more[512];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        snprintf(name, sizeof name, "misspelt%d", (int)i);
        snprintf(place, sizeof place, "@misspelt%d", (int)i);
        snprintf(more, sizeof more, "\"max_position_embeddings\": 128, %s", rows[i].text);
        write_llama(name, more);
        json_t *root = audited(place, FOUND);
        expect_count(root, 1, "config", "doubt", rows[i].says);
        expect_count(root, 0, "config", "ok", "every key");
        json_decref(root);
    }
    assert_non_null(strstr(run("audit @misspelt4")->out, "rope_scaling.beta_fst, line 3"));
    /* A name that is near to none: it may mean anything. */
    write_llama("foreign", "\"max_position_embeddings\": 128, \"rope_base\": 5");
    json_t *root = audited("@foreign", FOUND);
    expect_count(root, 1, "config", "doubt", "rope_base: its name is that of a position's key, and nothing reads it");
    expect_count(root, 0, "config", "note", "rope_base");
    expect_count(root, 0, "config", "ok", "every key");
    json_decref(root);
}

/* Configs of real models, in which no key is misspelt. */
static void keys_that_are_right(void **state) {
    (void)state;
    char line[512];
    int files = 0;
    DIR *dir = opendir(GYRE_TEST_DATA "/configs");
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (!strstr(entry->d_name, ".json")) continue;
        snprintf(line, sizeof line, "audit " GYRE_TEST_DATA "/configs/%s", entry->d_name);
        const outcome *o = run(line);
        if (o->exit != RIGHT && o->exit != FOUND) fail_msg("%s: %d: %s", line, o->exit, o->err);
        if (strstr(o->out, "did you mean") || strstr(o->out, "no value of the")) fail_msg("%s: %s", line, o->out);
        if (strstr(o->out, "WRONG")) fail_msg("%s: %s", line, o->out);
        files++;
    }
    closedir(dir);
    assert_true(files > 100);
}

/* -- programs and paths -- */
static void models_of_gyre_alone(void **state) {
    (void)state;
    write_model_with("polar", GYRE_KIND_ROPE, GYRE_LAYER_PART_POLAR);
    static const char *const models[] = {"@polar", "@alibi"};
    for (int i = 0; i < 2; i++) {
        json_t *root = audited(models[i], RIGHT);
        expect_count(root, 0, "programs", "ok", "");
        expect_count(root, 1, "programs", "note", "only Gyre runs");
        json_decref(root);
    }
}

static void paths(void **state) {
    (void)state;
    write_changed("@floats", "slashes", NULL, NULL);
    write_in("slashes", "tokenizer.json", "{}");
    spoil_number("slashes", "model.embed_tokens.weight", 0);
    static const char *const lines[] = {"audit @slashes", "audit @slashes/", "audit @slashes// --json"};
    for (int i = 0; i < 3; i++) {
        const outcome *o = run(lines[i]);
        assert_int_equal(o->exit, FOUND);
        assert_non_null(strstr(o->out, "slashes/tokenizer.json"));
        assert_non_null(strstr(o->out, "slashes/model.safetensors"));
        if (strstr(o->out, "//")) fail_msg("%s: %s", lines[i], o->out);
    }
}

static int write_models(void **state) {
    if (make_folder(state)) return -1;
    write_model("learned_words", GYRE_KIND_LEARNED);
    return 0;
}

int main(void) {
    static const struct CMUnitTest tests[] = {cmocka_unit_test(refused_configs),
                                              cmocka_unit_test(refused_config_and_more),
                                              cmocka_unit_test(faults_past_the_first),
                                              cmocka_unit_test(key_that_is_there_twice),
                                              cmocka_unit_test(parts_that_do_not_fit),
                                              cmocka_unit_test(unreadable_files),
                                              cmocka_unit_test(all_faults_of_weights),
                                              cmocka_unit_test(faults_of_many_layers),
                                              cmocka_unit_test(faults_of_many_names),
                                              cmocka_unit_test(notes_without_end),
                                              cmocka_unit_test(frequencies_of_many_layers),
                                              cmocka_unit_test(shards_that_are_missing),
                                              cmocka_unit_test(types_that_are_not_read),
                                              cmocka_unit_test(gguf_that_is_cut),
                                              cmocka_unit_test(limits),
                                              cmocka_unit_test(ids),
                                              cmocka_unit_test(ids_without_end),
                                              cmocka_unit_test(trained_without_end),
                                              cmocka_unit_test(misspelt_keys),
                                              cmocka_unit_test(keys_that_are_right),
                                              cmocka_unit_test(models_of_gyre_alone),
                                              cmocka_unit_test(paths)};
    return cmocka_run_group_tests(tests, write_models, remove_folder);
}
