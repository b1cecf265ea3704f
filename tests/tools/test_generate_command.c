/* test_generate_command.c: gyre generate: its output, when it stops, and how bytes become characters. */
#include "run_command.h"
#include "tools/chat/chat_forms.h"
#include "tools/common/utf8_text.h"
#include <math.h>

/* Byte by byte, as a model generates: a character is shown with its last byte, invalid bytes at once. */
static void test_incomplete_characters_are_held_back(void **state) {
    (void)state;
    static const char text[] = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z\x80\xe2z";
    static const size_t whole[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11, 12, 12, 14};
    for (size_t n = 0; n < sizeof text; n++)
        assert_int_equal(utf8_complete_prefix(text, n), whole[n]);
}

static void test_plain_text(void **state) {
    (void)state;
    char out[16];
    utf8_sanitize(out, sizeof out, "a\xc3\xa9\xe2z\0b", 7);
    assert_string_equal(out, "a\xc3\xa9\xef\xbf\xbdz\xef\xbf\xbd"
                             "b");
    utf8_sanitize(out, 4, "ab\xc3\xa9", 4); /* no half characters */
    assert_string_equal(out, "ab");
    utf8_sanitize(out, 1, "ab", 2);
    assert_string_equal(out, "");
    utf8_sanitize(out, sizeof out, "x\xe2\x82", 3); /* no more bytes come */
    assert_string_equal(out, "x\xef\xbf\xbd\xef\xbf\xbd");
}

/* -- what is written -- */
static const char bundled[] = GYRE_TEST_DATA "/../models/rope";

/* out = the most likely tokens after a prompt, computed by a context that is read differently. */
static void greedy(const char *path, const char *prompt, int n, int32_t *out) {
    gyre_model *model = NULL;
    gyre_context *context = NULL;
    gyre_error err = {0, ""};
    float logits[256];
    if (gyre_model_open(&model, path, NULL, &err)) fail_msg("%s", err.text);
    const int64_t bytes = (int64_t)strlen(prompt);
    assert_ok(gyre_context_create(
        &context, model, &(gyre_context_options){.size = sizeof(gyre_context_options), .max_tokens = bytes + n}, &err));
    for (int64_t i = 0; i < bytes; i++) {
        const int32_t token = (unsigned char)prompt[i];
        assert_ok(gyre_context_forward(context, &token, 1, 1, logits, &err));
    }
    for (int i = 0; i < n; i++) {
        out[i] = 0;
        for (int32_t t = 1; t < 256; t++)
            if (logits[t] > logits[out[i]]) out[i] = t;
        assert_ok(gyre_context_forward(context, &out[i], 1, 1, logits, &err));
    }
    gyre_context_free(context);
    gyre_model_free(model);
}

static json_t *generate(const char *options) {
    char line[640];
    snprintf(line, sizeof line, "generate %s --json %s", bundled, options);
    return run_json(line);
}

static void ids_of(const json_t *root, int32_t *ids, size_t n) {
    const json_t *list = json_object_get(root, "ids");
    assert_int_equal(json_array_size(list), n);
    for (size_t i = 0; i < n; i++)
        ids[i] = (int32_t)json_integer_value(json_array_get(list, i));
}

static void test_greedy(void **state) {
    (void)state;
    int32_t want[60], got[60];
    greedy(bundled, "#include", 60, want);
    for (int threads = 1; threads <= 3; threads++) {
        char options[128];
        snprintf(options, sizeof options, "--prompt #include --tokens 60 --threads %d", threads);
        json_t *root = generate(options);
        ids_of(root, got, 60);
        assert_memory_equal(got, want, sizeof want);
        assert_string_equal(test_string(root, "stopped"), "tokens");
        assert_string_equal(test_string(root, "prompt"), "#include");
        assert_int_equal(json_array_size(json_object_get(root, "prompt_ids")), 8);
        assert_int_equal(strlen(test_string(root, "text")), 60);
        for (int i = 0; i < 60; i++)
            assert_int_equal(test_string(root, "text")[i], want[i]);
        assert_non_null(test_string(json_object_get(root, "card"), "command"));
        json_decref(root);
    }
}

/* The character for a byte in GPT-2's alphabet. */
static void sign_of(int byte, char out[8]) {
    int code = byte, others = 0;
    const int shows = (byte > 32 && byte < 127) || (byte > 160 && byte != 173);
    for (int b = 0; b < byte; b++)
        others += !((b > 32 && b < 127) || (b > 160 && b != 173));
    if (!shows) code = 256 + others;
    if (code < 128)
        snprintf(out, 8, "%c", code);
    else
        snprintf(out, 8, "%c%c", 0xc0 | code >> 6, 0x80 | (code & 0x3f));
}

/* A folder with the bundled model and a tokenizer whose ids are bytes, one of which ends the text. */
static void write_ended(const char *name, int end) {
    char sign[8], path[512];
    json_t *vocabulary = json_object();
    for (int b = 0; b < 256; b++) {
        sign_of(b, sign);
        assert_int_equal(json_object_set_new(vocabulary, sign, json_integer(b)), 0);
    }
    json_t *root = json_pack("{s:s, s:n, s:n, s:[], s:n, s:{s:s, s:b, s:b, s:b}, s:{s:s}, s:{s:s, s:o, s:[]}}", "version",
                             "1.0", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "type",
                             "ByteLevel", "add_prefix_space", 0, "trim_offsets", 1, "use_regex", 1, "decoder", "type",
                             "ByteLevel", "model", "type", "BPE", "vocab", vocabulary, "merges");
    assert_non_null(root);
    assert_int_equal(mkdir(in_folder(name), 0777), 0);
    snprintf(path, sizeof path, "%s/tokenizer.json", in_folder(name));
    assert_int_equal(json_dump_file(root, path, 0), 0);
    json_decref(root);
    sign_of(end, sign);
    root = json_pack("{s:s}", "eos_token", sign);
    snprintf(path, sizeof path, "%s/tokenizer_config.json", in_folder(name));
    assert_int_equal(json_dump_file(root, path, 0), 0);
    json_decref(root);
    static const char *const files[] = {"config.json", "model.safetensors"};
    for (int i = 0; i < 2; i++) {
        char from[512];
        snprintf(from, sizeof from, "%s/%s", bundled, files[i]);
        snprintf(path, sizeof path, "%s/%s", in_folder(name), files[i]);
        assert_int_equal(symlink(from, path), 0);
    }
}

/* Generation stops at the token that ends a text and does not print it; with --ignore-end it continues. */
static void test_end(void **state) {
    (void)state;
    int32_t want[40], got[40];
    size_t first = 0;
    greedy(bundled, "#include", 40, want);
    while (want[first] != want[9])
        first++;
    assert_true(first > 0);
    write_ended("ended", want[9]);
    json_t *root = run_json("generate @ended --prompt #include --tokens 40 --json");
    ids_of(root, got, first);
    assert_memory_equal(got, want, first * sizeof *got);
    assert_string_equal(test_string(root, "stopped"), "end");
    assert_int_equal(strlen(test_string(root, "text")), first);
    json_decref(root);
    root = run_json("generate @ended --prompt #include --tokens 40 --json --ignore-end");
    ids_of(root, got, 40);
    assert_memory_equal(got, want, sizeof want);
    assert_string_equal(test_string(root, "stopped"), "tokens");
    json_decref(root);
}

/* -- chats -- */
/* What stands in Jinja is written as the model expects it; the ids of this tokenizer are bytes. */
static void test_chat(void **state) {
    (void)state;
    static const char mistral[] =
        "{% for message in messages %}{{ '[INST] ' + message['content'] + ' [/INST]' }}{% endfor %}",
                      wanted[] = "[INST] Hi! [/INST]";
    char path[512];
    int32_t ids[3], plain[3];
    write_ended("chat", 0);
    snprintf(path, sizeof path, "%s/tokenizer_config.json", in_folder("chat"));
    json_t *root = json_pack("{s:s}", "chat_template", mistral);
    assert_int_equal(json_dump_file(root, path, 0), 0);
    json_decref(root);
    root = run_json("generate @chat --chat --prompt Hi! --tokens 3 --json");
    assert_string_equal(test_string(root, "chat_template"), "mistral-v1");
    assert_string_equal(test_string(root, "prompt"), "Hi!");
    const json_t *prompt = json_object_get(root, "prompt_ids");
    assert_int_equal(json_array_size(prompt), sizeof wanted - 1);
    for (size_t i = 0; i < sizeof wanted - 1; i++)
        assert_int_equal(json_integer_value(json_array_get(prompt, i)), wanted[i]);
    ids_of(root, ids, 3);
    greedy(bundled, wanted, 3, plain);
    assert_memory_equal(ids, plain, sizeof ids);
    json_decref(root);
    assert_fails("generate @chat --chat --system S --prompt Hi", 1, "template mistral-v1: takes no system message");
    assert_fails("generate @chat --chat-template chatml --prompt Hi", 1, "has no token <|im_end|>, which ends a turn");
    assert_fails("generate @chat --chat-template jinja --prompt Hi", 2, "\"jinja\" is not one of chatml, phi-4");
    assert_fails("generate @chat --system S --prompt Hi", 2, "--system: goes with --chat");
    root = json_pack("{s:s}", "chat_template", "{{ messages }}");
    assert_int_equal(json_dump_file(root, path, 0), 0);
    json_decref(root);
    assert_fails("generate @chat --chat --prompt Hi", 1, "not among those that Gyre knows, and Gyre runs no Jinja; name");
    assert_fails("generate @rope --chat --prompt Hi", 1, "chat template: the model's files have none; name");
}

/* The same template in the spellings of Jinja, and the system message that one has for a chat without. */
static void test_templates_are_recognised(void **state) {
    (void)state;
    static const struct {
        const char *template, *name, *system;
    } cases[] = {
        {"{{'<|user|>\n' + message['content'] + '<|end|>\n'}}{{'<|system|>\n' + message['content'] + '<|end|>\n'}}", "phi-3",
         NULL},
        {"{{\"<|user|>\\n\" + message.content + \"<|end|>\" + \"\\n\"}}{{'<|system|>\n' + message.content + '<|end|>\n'}}",
         "phi-3", NULL},
        {"{{'<|user|>\n' + message['content'] + '<|end|>\n'}}", NULL, NULL},
        {"'<|im_start|>system\\nBe kind.<|im_end|>\\n'", "chatml", "Be kind."},
        {"'<|im_start|>system\\n' + x + '<|im_end|>\\n'", "chatml", NULL},
        {"'<|im_start|>system\\nToday is ' + date + '<|im_end|>\\n'", NULL, NULL},
        {"'<|im_start|>assistant\\n<think>\\n'", NULL, NULL},
        {"", NULL, NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const chat_form *form;
        char *system;
        assert_int_equal(chat_form_of(cases[i].template, &form, &system), 1);
        if (!!form != !!cases[i].name) fail_msg("case %zu: %s", i, form ? form->name : "not recognised");
        if (form) assert_string_equal(form->name, cases[i].name);
        assert_int_equal(!!system, !!cases[i].system);
        if (system) assert_string_equal(system, cases[i].system);
        free(system);
    }
    char names[] = CHAT_FORM_NAMES;
    int count = 0;
    for (char *name = strtok(names, ", "); name; name = strtok(NULL, ", "), count++)
        if (strcmp(name, "or") != 0) assert_string_equal(chat_form_named(name)->name, name);
    assert_int_equal(count, 15);
}

/* Standard output has the text and nothing else; the speed goes to standard error. */
static void test_text(void **state) {
    (void)state;
    int32_t want[20];
    char line[256];
    greedy(bundled, "#include", 20, want);
    snprintf(line, sizeof line, "generate %s --prompt #include --tokens 20", bundled);
    const outcome *o = run(line);
    assert_int_equal(o->exit, 0);
    assert_int_equal(strlen(o->out), 21);
    for (int i = 0; i < 20; i++)
        assert_int_equal(o->out[i], want[i]);
    assert_int_equal(o->out[20], '\n');
    assert_non_null(strstr(o->err, "prompt: 8 tokens, "));
    assert_non_null(strstr(o->err, "written: 20 tokens, "));
    char plain[64];
    snprintf(plain, sizeof plain, "#include%.40s", o->out);
    snprintf(line, sizeof line, "generate %s --prompt #include --tokens 20 --echo", bundled);
    assert_string_equal(run(line)->out, plain);
    write_file("prompt", "#include", 8);
    snprintf(line, sizeof line, "generate %s --prompt-file @prompt --tokens 20 --echo -o @written", bundled);
    assert_int_equal(run(line)->exit, 0);
    char text[64];
    read_whole(in_folder("written"), text, sizeof text);
    assert_string_equal(text, plain);
}

static void test_seeds(void **state) {
    (void)state;
    int32_t a[80], b[80], c[80];
    static const char *const lines[] = {
        "--prompt #include --tokens 80 --temperature 1 --top-p 0.9 --top-k 50 --seed 5",
        "--prompt #include --tokens 80 --temperature 1 --top-p 0.9 --top-k 50 --seed 5 --threads 1",
        "--prompt #include --tokens 80 --temperature 1 --top-p 0.9 --top-k 50 --seed 6"};
    int32_t *const ids[] = {a, b, c};
    for (int i = 0; i < 3; i++) {
        json_t *root = generate(lines[i]);
        ids_of(root, ids[i], 80);
        json_decref(root);
    }
    assert_memory_equal(a, b, sizeof a);
    assert_memory_not_equal(a, c, sizeof a);
    greedy(bundled, "#include", 80, c);
    json_t *root = generate("--prompt #include --tokens 80 --temperature 3 --top-k 1");
    ids_of(root, a, 80);
    assert_memory_equal(a, c, sizeof a);
    json_decref(root);
}

static void test_context_ends(void **state) {
    (void)state;
    int32_t ids[12];
    json_t *root = generate("--prompt #include --tokens 80 --context 20");
    ids_of(root, ids, 12);
    assert_string_equal(test_string(root, "stopped"), "context");
    assert_int_equal(test_integer(root, "context"), 20);
    json_decref(root);
    /* Up to the end of a table. */
    root = run_json("generate @learned --prompt abcd --tokens 60 --json");
    assert_string_equal(test_string(root, "stopped"), "tokens");
    json_decref(root);
    assert_fails("generate @learned --prompt abcd --tokens 62 --json", 1, "the encoding (learned) ends before it");
}

/* Beyond a window generation continues for any number of tokens. Inside it, the text is the same. */
static void test_stream(void **state) {
    (void)state;
    int32_t plain[30], stream[300];
    greedy(bundled, "#include", 30, plain);
    json_t *root = generate("--prompt #include --tokens 300 --stream 4,40");
    ids_of(root, stream, 300);
    assert_memory_equal(stream, plain, sizeof plain);
    assert_string_equal(test_string(root, "stopped"), "tokens");
    json_decref(root);
}

static void test_methods(void **state) {
    (void)state;
    static const char *const ways[] = {"--method linear:4",
                                       "--method yarn",
                                       "--method dynamic",
                                       "--method dynamic --length-policy causal",
                                       "--method dynamic --length-policy prefix",
                                       "--cache q8",
                                       "--cache bf16",
                                       "--cache f16",
                                       "--method self-extend:4+logn"};
    char options[256];
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        snprintf(options, sizeof options, "--prompt #include --tokens 300 %s", ways[i]);
        json_t *root = generate(options);
        assert_int_equal(json_array_size(json_object_get(root, "ids")), 300);
        json_decref(root);
    }
    json_t *root = generate("--prompt #include --tokens 9 --method dynamic --length-policy causal");
    assert_string_equal(test_string(root, "length_policy"), "causal");
    assert_string_equal(test_string(root, "method"), "dynamic");
    json_decref(root);
}

/* Ctrl-C ends generation and keeps the text so far. */
static void test_interrupt(void **state) {
    (void)state;
    static outcome o;
    char line[256];
    snprintf(line, sizeof line, "generate %s --prompt #include --tokens 0 --stream 4,64 --json --threads 1", bundled);
    const pid_t child = start(line, in_folder(".out"));
    const struct timespec moment = {0, 300000000};
    nanosleep(&moment, NULL);
    kill(child, SIGINT);
    finish(child, &o);
    /* On a very slow machine the signal comes before the text begins: the command ends by the signal. */
    if (o.signal == SIGINT) return;
    assert_int_equal(o.exit, 130);
    json_t *root = json_load_file(in_folder(".out"), 0, NULL);
    assert_non_null(root);
    assert_string_equal(test_string(root, "stopped"), "interrupted");
    assert_int_equal(strlen(test_string(root, "text")), json_array_size(json_object_get(root, "ids")));
    json_decref(root);
}

static void test_errors(void **state) {
    (void)state;
    assert_fails("generate", 2, "MODEL: missing");
    assert_fails("generate @rope", 1, "prompt: empty");
    assert_fails("generate @nowhere --prompt a", 1, "nowhere");
    assert_fails("generate @rope --prompt a --prompt-file @text", 2, "give one of them");
    assert_fails("generate @rope --prompt-file @nowhere", 1, "nowhere");
    write_file("vast", "a", 1);
    assert_int_equal(truncate(in_folder("vast"), (off_t)5 << 30), 0); /* sparse */
    assert_fails("generate @rope --prompt-file @vast", 1, "prompt: more than 2^31 - 2 bytes");
    assert_fails("generate @rope --prompt a --method yarm", 2, "method \"yarm\"");
    assert_fails("generate @alibi --prompt a --method yarn", 1, "no rotation to scale");
    assert_fails("generate @rope --prompt a --tokens 0", 2, "takes --stream");
    assert_fails("generate @rope --prompt a --stream 4", 2, "is not two numbers");
    assert_fails("generate @rope --prompt a --stream 4,5", 2, "does not hold 4 sinks");
    assert_fails("generate @rope --prompt a --stream 4,9 --context 9", 2, "has no end");
    assert_fails("generate @learned --prompt a --stream 4,9", 1, "adds positions at the input");
    assert_fails("generate @rope --prompt abcdef --context 5", 1, "are more than --context 5");
    assert_fails("generate @rope --prompt a --cache f64", 2, "one of f32, f16, bf16, q8");
    assert_fails("generate @rope --prompt a --temperature -1", 2, "not a number");
    assert_fails("generate @rope --prompt a --top-p 1.5", 2, "above 1");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_incomplete_characters_are_held_back),
                                       cmocka_unit_test(test_plain_text),
                                       cmocka_unit_test(test_greedy),
                                       cmocka_unit_test(test_end),
                                       cmocka_unit_test(test_chat),
                                       cmocka_unit_test(test_templates_are_recognised),
                                       cmocka_unit_test(test_text),
                                       cmocka_unit_test(test_seeds),
                                       cmocka_unit_test(test_context_ends),
                                       cmocka_unit_test(test_stream),
                                       cmocka_unit_test(test_methods),
                                       cmocka_unit_test(test_interrupt),
                                       cmocka_unit_test(test_errors)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
