/* test_eval_command.c: gyre eval from outside: journals, several texts, loss by position, JSON lines, run cards and
 * pages. */
#include "model/model.h"
#include "run_command.h"
#include <inttypes.h>
#include <math.h>

#define EVAL "eval @rope --text @text --contexts 32,64 --windows 4 --methods none,yarn"

static int count(const char *text, const char *what) {
    int n = 0;
    for (const char *at = strstr(text, what); at; at = strstr(at + 1, what))
        n++;
    return n;
}

static void assert_contains(const char *text, const char *what) {
    if (!strstr(text, what)) fail_msg("\"%s\" is not in: %.2000s", what, text);
}

static char *file_text(const char *name) {
    char *text = malloc(1 << 20);
    assert_non_null(text);
    read_whole(in_folder(name), text, 1 << 20);
    return text;
}

static const json_t *results_of(const json_t *root) {
    const json_t *results = json_object_get(root, "results");
    assert_true(json_is_array(results));
    return results;
}

static double number_at(const json_t *root, size_t i, const char *key) {
    const json_t *number = json_object_get(json_array_get(results_of(root), i), key);
    if (!json_is_number(number)) fail_msg("result %zu has no %s", i, key);
    return json_number_value(number);
}

/* FNV-1a of a file, computed here, as run cards write it. */
static void file_hash(const char *path, char out[32]) {
    uint64_t hash = 0xcbf29ce484222325u;
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    for (int c; (c = getc(file)) != EOF;)
        hash = (hash ^ (unsigned char)c) * 0x100000001b3u;
    fclose(file);
    snprintf(out, 32, "fnv1a64:%016" PRIx64, hash);
}

/* -- the model -- */
/* The rope model with a scaling from 32 to 128 tokens, which vLLM applies by the length that its engine starts with. */
static void write_longrope(const char *name) {
    char text[4096], path[64];
    write_model(name, GYRE_KIND_ROPE);
    snprintf(path, sizeof path, "%s/config.json", name);
    read_whole(in_folder(path), text, sizeof text);
    json_t *root = json_loads(text, 0, NULL), *lists;
    assert_non_null(root);
    lists = json_pack("{s:s, s:f, s:i, s:[i, i, i, i, i, i, i, i], s:[f, f, f, f, f, f, f, f]}", "rope_type", "longrope",
                      "factor", 4.0, "original_max_position_embeddings", 32, "short_factor", 1, 1, 1, 1, 1, 1, 1, 1,
                      "long_factor", 1.0, 1.5, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0);
    assert_int_equal(json_object_set_new(root, "rope_scaling", lists), 0);
    assert_int_equal(json_object_set_new(root, "max_position_embeddings", json_integer(128)), 0);
    char *changed = json_dumps(root, 0);
    assert_non_null(changed);
    write_file(path, changed, strlen(changed));
    free(changed);
    json_decref(root);
}

/* transformers chooses by each text, vLLM by the length of its engine: here both equal the context. */
static void positions_follow_the_context(void **state) {
    (void)state;
    write_longrope("long");
    json_t *hf = run_json("eval @long --text @text --contexts 32,128 --windows 2 --json");
    json_t *vllm = run_json("eval @long --text @text --contexts 32,128 --windows 2 --json --as vllm");
    json_t *plain = run_json("eval @rope --text @text --contexts 32,128 --windows 2 --json");
    for (size_t i = 0; i < 2; i++)
        test_close(number_at(vllm, i, "perplexity"), number_at(hf, i, "perplexity"), 1e-6, "vLLM at the context");
    assert_true(fabs(number_at(hf, 1, "perplexity") - number_at(plain, 1, "perplexity")) > 1e-5);
    json_decref(hf);
    json_decref(vllm);
    json_decref(plain);
}

static void input_files_are_not_overwritten(void **state) {
    (void)state;
    char *before = file_text("rope/config.json");
    assert_fails(EVAL " -o @rope/config.json", 2, "--output: ");
    assert_fails(EVAL " -o @rope/model.safetensors", 2, "this run reads");
    assert_fails(EVAL " --report @rope/model.safetensors", 2, "--report: ");
    assert_fails(EVAL " --journal @rope/config.json --resume", 2, "--journal: ");
    char *after = file_text("rope/config.json");
    assert_string_equal(after, before);
    free(before);
    free(after);
    assert_fails(EVAL " -o @rope/tokenizer.json", 2, "would be a file of the model"); /* for the next run */
}

/* -- journals -- */
static int lines_of(const char *text) {
    int lines = 0;
    for (const char *c = text; *c; c++)
        lines += *c == '{' && (c == text || c[-1] == '\n');
    return lines;
}

/* Keeps the first `lines` of a journal, and half of the next one. */
static void cut_journal(const char *name, const char *whole, int lines) {
    const char *end = whole + strspn(whole, "\n");
    for (int i = 0; i < lines; end++)
        i += *end == '\n' && end > whole && end[-1] == '}';
    write_file(name, whole, (size_t)(end - whole) + strcspn(end, "\n") / 2 + 1);
}

/* Rewrites a journal with another loss in its first `lines` lines. */
static void forge_journal(const char *name, int lines) {
    char *text = file_text(name), *rest = text;
    FILE *file = fopen(in_folder(name), "w");
    assert_non_null(file);
    for (char *line; (line = strtok_r(rest, "\n", &rest)); lines--) {
        json_t *json = json_loads(line, 0, NULL);
        assert_non_null(json);
        if (lines > 0) assert_int_equal(json_object_set_new(json_object_get(json, "figures"), "nats", json_real(2.5)), 0);
        assert_int_equal(json_dumpf(json, file, JSON_REAL_PRECISION(17)), 0);
        assert_int_equal(fputc('\n', file), '\n');
        json_decref(json);
    }
    assert_int_equal(fclose(file), 0);
    free(text);
}

static void resumes_from_a_journal(void **state) {
    (void)state;
    static const char *const command = EVAL " --json --journal @killed --by-position 4 --report @page.html";
    char resumed[400];
    snprintf(resumed, sizeof resumed, "%s --resume", command);
    json_decref(run_json(command));
    char *out = file_text(".out"), *page = file_text("page.html"), *journal = file_text("killed");
    assert_int_equal(lines_of(journal), 4);
    for (int kept = 0; kept < 4; kept++) {
        cut_journal("killed", journal, kept);
        assert_int_equal(remove(in_folder("page.html")), 0);
        json_decref(run_json(resumed));
        char *again = file_text(".out"), *page_again = file_text("page.html"), *added = file_text("killed");
        assert_string_equal(again, out);
        assert_string_equal(page_again, page);
        assert_int_equal(lines_of(added), 5); /* the half line begins like a journal line */
        free(again);
        free(page_again);
        free(added);
    }
    free(out);
    free(page);
    free(journal);
}

/* Journaled results are not recomputed: a changed number appears in the output. */
static void journaled_cells_are_not_measured_again(void **state) {
    (void)state;
    json_decref(run_json(EVAL " --json --journal @known"));
    forge_journal("known", 1);
    json_t *root = run_json(EVAL " --json --journal @known --resume");
    test_close(number_at(root, 0, "perplexity"), exp(2.5), 1e-12, "the first cell");
    assert_true(fabs(number_at(root, 1, "perplexity") - exp(2.5)) > 1e-6);
    json_decref(root);
}

/* Another model, text, stride or policy: other cells. */
static void journal_of_another_run_is_refused(void **state) {
    (void)state;
    static const char *const others[] = {
        "eval @alibi --text @text --contexts 32,64 --windows 4 --json",
        "eval @rope --text @texts/a --contexts 32,64 --windows 4 --methods none,yarn --json",
        EVAL " --stride 8 --json",
        EVAL " --protocol last --json",
        EVAL " --beta-fast 8 --json",
        EVAL " --by-position 2 --json",
        EVAL " --windows 4 --first --json",
        EVAL " --cache f16 --json",
        EVAL " --as hf-4.56 --json"};
    json_decref(run_json(EVAL " --json --journal @other"));
    forge_journal("other", 4);
    char *journal = file_text("other");
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char line[400];
        write_file("other", journal, strlen(journal));
        json_t *alone = run_json(others[i]);
        snprintf(line, sizeof line, "%s --journal @other --resume", others[i]);
        json_t *beside = run_json(line);
        assert_true(json_equal(results_of(alone), results_of(beside)));
        json_decref(alone);
        json_decref(beside);
    }
    free(journal);
}

static void journals_are_not_overwritten(void **state) {
    (void)state;
    json_decref(run_json(EVAL " --json --journal @mine"));
    char *before = file_text("mine");
    assert_fails(EVAL " --journal @mine", 1, "--resume continues from them, --force replaces them");
    char *after = file_text("mine");
    assert_string_equal(after, before);
    free(after);
    write_file("notes", "my notes\n", 9);
    assert_fails(EVAL " --journal @notes", 1, "journal: its content is not a journal of Gyre");
    assert_fails(EVAL " --journal @notes --resume --force", 1, "journal: its content is not a journal of Gyre");
    assert_int_equal(run(EVAL " --journal @notes --force")->exit, 0); /* nothing of before */
    after = file_text("notes");
    assert_string_equal(after, before);
    write_file("mine", "{\"cell\":{},\"figures\":{}}\n", 26);
    assert_int_equal(run(EVAL " --journal @mine --force")->exit, 0); /* results of another run go too */
    free(after);
    after = file_text("mine");
    assert_string_equal(after, before);
    free(before);
    free(after);
    assert_fails(EVAL " --journal @short --resume", 1, "journal: its content is not a journal of Gyre");
    static const char *const others[] = {"{\"key\": 1}\n", "{\"cell\": 1}\n", "{\"cell\":1,\"figures\":{}}\n[]\n",
                                         "{\n  \"name\": 1\n}\n"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        write_file("lines", others[i], strlen(others[i]));
        assert_fails(EVAL " --journal @lines --resume", 1, "journal: its content is not a journal of Gyre");
        char *lines = file_text("lines");
        assert_string_equal(lines, others[i]);
        free(lines);
    }
    /* Bytes that begin with NUL are lines of no journal, and a power cut leaves none but NUL after its lines. */
    static const char cells[] = "{\"cell\":{},\"figures\":{}}\n", wide[] = "\0M\0y\0 \0n\0o\0t\0e\0s\0\n";
    char mixed[256];
    const size_t begin = sizeof cells - 1;
    memcpy(mixed, cells, begin);
    memcpy(mixed + begin, wide, sizeof wide - 1);
    write_file("lines", wide, sizeof wide - 1);
    assert_fails(EVAL " --journal @lines --resume", 1, "journal: its content is not a journal of Gyre");
    write_file("lines", mixed, begin + sizeof wide - 1);
    assert_fails(EVAL " --journal @lines --resume", 1, "journal: its content is not a journal of Gyre");
    memset(mixed + begin, 0, 100);
    write_file("lines", mixed + begin, 100);
    assert_fails(EVAL " --journal @lines --resume", 1, "journal: its content is not a journal of Gyre");
    write_file("lines", mixed, begin + 100);
    for (int again = 0; again < 2; again++)
        json_decref(run_json(EVAL " --json --journal @lines --resume"));
    /* A line that a kill cut, and whatever it has, makes no config of a journal. */
    static const char cut[] = "\n{\"cell\":{},\"figures\":{}}\n{\"cell\":{\"model_type\":\n";
    write_file("lines", cut, sizeof cut - 1);
    json_decref(run_json(EVAL " --json --journal @lines --resume"));
    assert_fails(EVAL " --journal @missing/j", 1, "journal");
    assert_fails(EVAL " --resume", 2, "--resume: ");
    assert_int_not_equal(access(in_folder("mine.gyre-lock"), F_OK), 0);
}

/* The limit of an encoding is a result, also in a journal. */
static void context_limits_are_reported(void **state) {
    (void)state;
    static const char *const line = "eval @learned --text @text --contexts 32,64,128 --windows 2 --json --journal @ends";
    char resumed[300];
    json_t *first = run_json(line);
    snprintf(resumed, sizeof resumed, "%s --resume", line);
    json_t *second = run_json(resumed);
    assert_true(json_equal(first, second));
    assert_true(json_is_null(json_object_get(json_array_get(results_of(second), 2), "perplexity")));
    assert_true(json_is_string(json_object_get(json_array_get(results_of(second), 2), "error")));
    json_decref(first);
    json_decref(second);
}

/* -- several texts -- */
static void texts_apart_and_together(void **state) {
    (void)state;
    /* Without --windows the longer text has more windows, so weights matter. */
    json_t *root = run_json("eval @rope --text @texts/a --text @texts/b --contexts 32 --methods none,yarn --by-position 4 "
                            "--json"),
           *alone = run_json("eval @rope --text @texts/b --contexts 32 --methods none,yarn --by-position 4 --json");
    assert_int_equal(json_array_size(results_of(root)), 6);
    assert_null(json_object_get(root, "text"));
    assert_int_equal(json_array_size(json_object_get(root, "texts")), 2);
    for (size_t m = 0; m < 2; m++) {
        double nats = 0, scored = 0, share[4] = {0}, windows = 0;
        for (size_t t = 0; t < 2; t++) {
            const size_t i = 2 * t + m;
            nats += log(number_at(root, i, "perplexity")) * number_at(root, i, "scored");
            scored += number_at(root, i, "scored");
            windows += number_at(root, i, "windows");
            const json_t *by = json_object_get(json_array_get(results_of(root), i), "by_position");
            for (size_t b = 0; b < 4; b++)
                share[b] += json_number_value(json_array_get(by, b)) * number_at(root, i, "windows");
        }
        /* 1000 and 500 bytes, windows of 32 every 16 with a byte to predict after each. */
        assert_int_equal((int)number_at(root, m, "windows"), (1000 - 1 - 32) / 16 + 1);
        assert_int_equal((int)windows, (1000 - 1 - 32) / 16 + 1 + (500 - 1 - 32) / 16 + 1);
        assert_int_equal((int)number_at(root, 4 + m, "scored"), (int)scored);
        test_close(number_at(root, 4 + m, "perplexity"), exp(nats / scored), 1e-9, "together");
        test_close(number_at(root, 2 + m, "perplexity"), number_at(alone, m, "perplexity"), 1e-12, "the second alone");
        const json_t *all = json_array_get(results_of(root), 4 + m);
        assert_true(json_is_null(json_object_get(all, "text")));
        for (size_t b = 0; b < 4; b++)
            test_close(json_number_value(json_array_get(json_object_get(all, "by_position"), b)), share[b] / windows, 1e-9,
                       "share");
    }
    json_decref(root);
    json_decref(alone);
    const outcome *o = run("eval @rope --text @texts/a --text @texts/b --contexts 32");
    assert_contains(o->out, "all texts together");
    assert_fails("eval @rope --text @texts/a --text @texts/b --contexts 512", 1, "--contexts names shorter ones");
    assert_fails("eval @rope --text @texts/a --text @texts/b --contexts 512", 1, "texts/b"); /* each must contain a window */
}

static void loss_by_position(void **state) {
    (void)state;
    /* Every prediction is scored and weights are equal, so the mean of the parts is the loss. */
    json_t *root = run_json(EVAL " --protocol truncate --by-position 8 --json"),
           *without = run_json(EVAL " --protocol truncate --json");
    for (size_t i = 0; i < 4; i++) {
        const json_t *by = json_object_get(json_array_get(results_of(root), i), "by_position");
        double sum = 0;
        assert_int_equal(json_array_size(by), 8);
        for (size_t b = 0; b < 8; b++)
            sum += json_number_value(json_array_get(by, b));
        test_close(sum / 8, log(number_at(root, i, "perplexity")), 1e-9, "mean of the shares");
        test_close(number_at(root, i, "perplexity"), number_at(without, i, "perplexity"), 1e-9, "with or without");
    }
    json_decref(root);
    json_decref(without);
    const outcome *o = run(EVAL " --by-position 4");
    assert_contains(o->out, "loss by position at 64");
    assert_contains(o->out, "48-63");
    assert_fails(EVAL " --by-position 33", 2, "--by-position: ");
    assert_fails(EVAL " --by-position 257", 2, "--by-position: ");
}

/* The current length of an engine depends on the request. The result does not depend on --by-position. */
static void prefix_is_the_same_by_position(void **state) {
    (void)state;
    static const char *const line = "eval @rope --text @text --contexts 256 --stride 100 --windows 2 --json --methods "
                                    "dynamic-yarn --length-policy prefix";
    char with[300];
    snprintf(with, sizeof with, "%s --by-position 4", line);
    json_t *a = run_json(line), *b = run_json(with);
    assert_true(number_at(a, 0, "perplexity") == number_at(b, 0, "perplexity"));
    json_decref(a);
    json_decref(b);
}

/* The first four windows of 32 every 16 take 81 bytes; the last byte is only predicted. */
static void the_first_windows(void **state) {
    (void)state;
    char *text = file_text("text");
    write_file("begin", text, 81);
    free(text);
    json_t *first = run_json("eval @rope --text @text --contexts 32 --windows 4 --first --json"),
           *spread = run_json("eval @rope --text @text --contexts 32 --windows 4 --json"),
           *begin = run_json("eval @rope --text @begin --contexts 32 --json");
    assert_int_equal((int)number_at(begin, 0, "windows"), 4);
    assert_int_equal((int)number_at(first, 0, "windows"), 4);
    assert_true(number_at(first, 0, "perplexity") == number_at(begin, 0, "perplexity"));
    assert_true(number_at(first, 0, "perplexity") != number_at(spread, 0, "perplexity"));
    json_decref(first);
    json_decref(spread);
    json_decref(begin);
    json_t *few = run_json("eval @rope --text @begin --contexts 32 --windows 100 --first --json");
    assert_int_equal((int)number_at(few, 0, "windows"), 4);
    json_decref(few);
    assert_fails("eval @rope --text @text --first", 2, "--first: ");
}

/* A type of fewer bits changes the loss a little. */
static void types_of_the_cache(void **state) {
    (void)state;
    static const char *const types[] = {"f32", "f16", "bf16", "q8"};
    static const double bounds[] = {0, 1e-3, 1e-2, 1e-2};
    json_t *own = run_json(EVAL " --json");
    for (size_t i = 0; i < 4; i++) {
        char line[300];
        snprintf(line, sizeof line, EVAL " --json --cache %s", types[i]);
        json_t *root = run_json(line);
        assert_string_equal(test_string(root, "cache"), types[i]);
        const double want = number_at(own, 1, "perplexity"), got = number_at(root, 1, "perplexity");
        test_close(got, want, bounds[i] * want, types[i]);
        assert_true((got == want) == (i == 0));
        json_decref(root);
    }
    json_decref(own);
    assert_fails(EVAL " --cache f64", 2, "--cache: ");
    assert_fails(EVAL " --cache q8 --passkey 8", 2, "--cache: ");
}

/* -- lines, cards, pages -- */
static void one_json_line_per_figure(void **state) {
    (void)state;
    json_t *whole = run_json(EVAL " --json --by-position 2");
    static outcome o;
    o = *run(EVAL " --json-lines --by-position 2");
    assert_int_equal(o.exit, 0);
    size_t lines = 0;
    for (char *line = o.out, *end; *line; line = end + 1, lines++) {
        end = strchr(line, '\n');
        assert_non_null(end);
        *end = 0;
        json_t *json = json_loads(line, 0, NULL);
        assert_non_null(json);
        const json_t *result = json_array_get(results_of(whole), lines), *found = json_object_get(json, "result");
        if (result)
            assert_true(json_equal(found, result));
        else
            assert_string_equal(test_string(json_object_get(json, "run"), "kind"), "rope");
        json_decref(json);
    }
    assert_int_equal(lines, 5);
    json_decref(whole);
    assert_fails(EVAL " --json-lines --json", 2, "--json-lines: ");
    assert_fails(EVAL " --json-lines -o @x", 2, "--json-lines: ");
}

static void cards(void **state) {
    (void)state;
    char model[32], config[32], text[32], line[512];
    file_hash(in_folder("rope/model.safetensors"), model);
    file_hash(in_folder("rope/config.json"), config);
    file_hash(in_folder("text"), text);
    json_t *root = run_json(EVAL " --json --as vllm");
    const json_t *card = json_object_get(root, "card"), *of_model = json_object_get(card, "model");
    assert_string_equal(test_string(of_model, "path"), in_folder("rope"));
    assert_string_equal(test_string(of_model, "hash"), model);
    assert_string_equal(test_string(of_model, "config_hash"), config);
    assert_string_equal(test_string(card, "profile"), "vllm-2026.09");
    assert_string_equal(test_string(card, "methods"), "none, yarn");
    assert_string_equal(test_string(card, "gyre"), gyre_version());
    assert_string_equal(test_string(of_model, "family"), "llama");
    assert_string_equal(test_string(of_model, "format"), "safetensors");
    assert_string_equal(test_string(of_model, "stored"), "F32");
    const json_t *of_text = json_array_get(json_object_get(card, "texts"), 0);
    assert_string_equal(test_string(of_text, "hash"), text);
    assert_int_equal(test_integer(of_text, "tokens"), TEXT);
    assert_int_equal(test_integer(of_text, "bytes"), TEXT);
    snprintf(line, sizeof line, "gyre eval %s --text %s --contexts 32,64 --windows 4 --methods none,yarn --json --as vllm",
             in_folder("rope"), in_folder("text"));
    assert_string_equal(test_string(card, "command"), line); /* in the order of the command line */
    json_decref(root);
    const outcome *o = run(EVAL);
    const char *printed = strstr(o->out, "\ncard: ");
    assert_non_null(printed);
    assert_contains(printed, model);
    assert_contains(printed, text);
    char *flat = strstr(o->out, "\ncard: ") + 1;
    for (char *c = flat; *c; c++) { /* its lines go on below its text */
        if (*c == '\n' && c[1]) assert_memory_equal(c, "\n      ", 7);
        if (*c == '\n') *c = ' ';
    }
    assert_contains(flat, "read as hf-5");
    assert_contains(flat, "gyre 0.1.0; gyre");
}

static void pages(void **state) {
    (void)state;
    char model[32];
    file_hash(in_folder("rope/model.safetensors"), model);
    assert_int_equal(run(EVAL " --report @eval.html --text @short.txt")->exit, 1);
    assert_int_equal(
        run("eval @rope --text @text --text @texts/a --contexts 32,64 --methods none,yarn --report @eval.html")->exit, 0);
    char *page = file_text("eval.html");
    /* By context and, at two contexts, by position, for each text and all; then what the methods do. */
    assert_int_equal(count(page, "<figure "), 3 + 3 * 2 + 2);
    assert_int_equal(count(page, "<span>perplexity, 95 % interval</span>"), 3);
    assert_contains(page, "What the methods do");
    assert_contains(page, "Loss by position at 64: all texts together");
    assert_contains(page, "perplexity");
    assert_contains(page, model);
    assert_contains(page, "gyre eval ");
    assert_null(strstr(page, " src="));
    free(page);
    assert_int_equal(run(EVAL " --report @bare.html --by-position 0 --passkey 8")->exit, 0);
    page = file_text("bare.html");
    assert_int_equal(count(page, "<figure "), 2 + 2);
    assert_null(strstr(page, "Loss by position"));
    assert_contains(page, "passkeys found");
    free(page);
    assert_fails(EVAL " --report @missing/eval.html", 1, "report: ");
    assert_fails(EVAL " --report @texts", 1, "report: is a folder");
}

/* The terminal shows losses by position only when asked; the report always. */
static void positions_in_the_report(void **state) {
    (void)state;
    const outcome *o = run(EVAL " --report @where.html");
    assert_int_equal(o->exit, 0);
    assert_null(strstr(o->out, "loss by position"));
    char *page = file_text("where.html");
    assert_contains(page, "loss by position at 64");
    free(page);
    o = run(EVAL " --report @where.html --by-position 4 --force");
    assert_contains(o->out, "loss by position at 64");
}

/* The numbers that a page offers as CSV are those of --json. */
static void csv_of_the_report(void **state) {
    (void)state;
    json_t *root = run_json(EVAL " --json --report @csv.html");
    const json_t *results = json_object_get(root, "results");
    char *page = file_text("csv.html"), *line = strstr(page, "data:text/csv;charset=utf-8,");
    assert_non_null(line);
    assert_int_equal(strncmp(line + 28, "series,context%20(tokens),perplexity%20per%20token,low,high%0D%0A", 65), 0);
    for (size_t i = 0; i < json_array_size(results); i++) {
        const json_t *result = json_array_get(results, i);
        char method[32];
        double context, perplexity, low, high;
        line = strstr(line, "%0D%0A") + 6;
        assert_int_equal(sscanf(line, "%31[^,],%lf,%lf,%lf,%lf", method, &context, &perplexity, &low, &high), 5);
        assert_string_equal(method, json_string_value(json_object_get(result, "method")));
        assert_true(context == json_number_value(json_object_get(result, "context")));
        test_close(perplexity, json_number_value(json_object_get(result, "perplexity")), 1e-15 * perplexity, "perplexity");
        const json_t *interval = json_object_get(result, "perplexity_interval");
        test_close(low, json_number_value(json_array_get(interval, 0)), 1e-15 * low, "low");
        test_close(high, json_number_value(json_array_get(interval, 1)), 1e-15 * high, "high");
    }
    free(page);
    json_decref(root);
}

/* -- what a model reads -- */
static void write_model_of(const char *name, int64_t vocab) {
    gyre_model_config config = small_config(GYRE_KIND_ROPE, 1, TRAINED);
    config.vocab = vocab;
    save_model(create_model(&config, 1), name, GYRE_DTYPE_F32);
}

enum { SPACE_ID = 259, LETTER_ID = 260, WORD_ID = 286, IDS = 312 };

/* Pieces: every byte, a space, letters, and each letter with a space before it. */
static void write_tokenizer(const char *name) {
    json_t *vocab = json_object(), *merges = json_array();
    char piece[16];
    json_object_set_new(vocab, "<unk>", json_integer(0));
    json_object_set_new(vocab, "<s>", json_integer(1));
    json_object_set_new(vocab, "</s>", json_integer(2));
    for (int i = 0; i < 256; i++) {
        snprintf(piece, sizeof piece, "<0x%02X>", i);
        json_object_set_new(vocab, piece, json_integer(3 + i));
    }
    json_object_set_new(vocab, "\xe2\x96\x81", json_integer(SPACE_ID));
    for (char c = 'a'; c <= 'z'; c++) {
        snprintf(piece, sizeof piece, "\xe2\x96\x81%c", c);
        json_object_set_new(vocab, piece + 3, json_integer(LETTER_ID + c - 'a'));
        json_object_set_new(vocab, piece, json_integer(WORD_ID + c - 'a'));
        json_array_append_new(merges, json_pack("[s, s]", "\xe2\x96\x81", piece + 3));
    }
    json_t *model = json_pack("{s:s, s:n, s:s, s:n, s:n, s:b, s:b, s:o, s:o}", "type", "BPE", "dropout", "unk_token",
                              "<unk>", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", 1, "byte_fallback", 1,
                              "vocab", vocab, "merges", merges),
           *rest = json_loads(
               "{\"version\": \"1.0\", \"truncation\": null, \"padding\": null, \"added_tokens\": ["
               "{\"id\": 1, \"content\": \"<s>\", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, "
               "\"normalized\": false, \"special\": true}], \"normalizer\": {\"type\": \"Sequence\", \"normalizers\": ["
               "{\"type\": \"Prepend\", \"prepend\": \"\xe2\x96\x81\"}, {\"type\": \"Replace\", \"pattern\": "
               "{\"String\": \" \"}, \"content\": \"\xe2\x96\x81\"}]}, \"pre_tokenizer\": null, \"post_processor\": "
               "{\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": \"<s>\", \"type_id\": 0}}, "
               "{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}], \"pair\": [], \"special_tokens\": {\"<s>\": "
               "{\"id\": \"<s>\", \"ids\": [1], \"tokens\": [\"<s>\"]}}}, \"decoder\": {\"type\": \"Sequence\", "
               "\"decoders\": [{\"type\": \"Replace\", \"pattern\": {\"String\": \"\xe2\x96\x81\"}, \"content\": "
               "\" \"}, {\"type\": \"ByteFallback\"}, {\"type\": \"Fuse\"}, {\"type\": \"Strip\", \"content\": \" "
               "\", \"start\": 1, \"stop\": 0}]}}",
               0, NULL);
    assert_non_null(rest);
    assert_non_null(model);
    json_object_set_new(rest, "model", model);
    assert_int_equal(json_dump_file(rest, in_folder(name), 0), 0);
    json_decref(rest);
}

/* The ids of a text of letters and spaces, computed here. out = the count. */
static int write_ids(const char *text, const char *name) {
    int ids = 1, space = 1; /* a space stands before the text */
    FILE *file = fopen(in_folder(name), "w");
    assert_non_null(file);
    fprintf(file, "1");
    for (const char *c = text; *c || space; c++) {
        if (*c && *c != ' ') {
            fprintf(file, " %d", *c - 'a' + (space ? WORD_ID : LETTER_ID));
            ids++;
        } else if (space) {
            fprintf(file, " %d", SPACE_ID);
            ids++;
        }
        space = *c == ' ';
        if (!*c) break;
    }
    assert_int_equal(fclose(file), 0);
    return ids;
}

static void reads_through_a_tokenizer(void **state) {
    (void)state;
    write_model_of("pieces", 512);
    write_tokenizer("pieces/tokenizer.json");
    char *text = file_text("text");
    const int tokens = write_ids(text, "text.ids");
    free(text);
    json_t *root = run_json("eval @pieces --text @text --contexts 32,64 --windows 4 --methods none,yarn --json"),
           *ids = run_json("eval @pieces --ids @text.ids --contexts 32,64 --windows 4 --methods none,yarn --json"),
           *other = run_json("eval @words512 --tokenizer @pieces/tokenizer.json --text @text --contexts 32 --json");
    const json_t *of_text = json_object_get(root, "text");
    assert_int_equal(test_integer(of_text, "tokens"), tokens);
    assert_int_equal(test_integer(of_text, "bytes"), TEXT);
    assert_string_equal(test_string(of_text, "unit"), "token");
    for (size_t i = 0; i < 4; i++) {
        assert_true(number_at(root, i, "perplexity") == number_at(ids, i, "perplexity"));
        test_close(number_at(root, i, "bits_per_byte"), number_at(root, i, "bits_per_token") * (tokens - 1) / TEXT, 1e-12,
                   "bits of a byte");
    }
    assert_int_equal(test_integer(json_object_get(other, "text"), "tokens"), tokens);
    json_decref(root);
    json_decref(ids);
    json_decref(other);
    const outcome *o = run("eval @pieces --text @text --contexts 32 --windows 2");
    assert_contains(o->out, "tokens of 16384 bytes");
    assert_contains(o->out, "bits per byte");
    assert_fails("eval @rope --tokenizer @pieces --text @text", 1, "tokenizer: has ");
    assert_fails("eval @pieces --text @text --passkey 8", 1, "--passkey: ");
    assert_fails("eval @pieces --tokenizer @words --text @text", 1, "tokenizer: ");
}

/* The interval by default, from the losses of the windows, with Student's t of a table. */
static void interval_of_the_windows(void **state) {
    (void)state;
    enum { WINDOWS = 8 };
    const double t7 = 2.364624;
    gyre_model *model = NULL;
    gyre_text text;
    gyre_error err = {0, ""};
    gyre_eval_options o = GYRE_INIT(gyre_eval_options);
    gyre_eval_result r;
    double nats[WINDOWS], squares = 0;
    const char *path = in_folder("text");
    assert_ok(gyre_model_open(&model, in_folder("rope"), NULL, &err));
    assert_ok(gyre_text_open(&text, &path, 1, GYRE_TEXT_SPLIT_ALL, 1, &err));
    o.context = 64;
    o.windows = WINDOWS;
    o.by_window = nats;
    assert_ok(gyre_evaluate(model, &text, &o, &r, NULL, &err));
    for (int w = 0; w < WINDOWS; w++)
        squares += (nats[w] - r.nats) * (nats[w] - r.nats);
    const double half = t7 * sqrt(squares / (WINDOWS - 1) / WINDOWS);
    json_t *root = run_json("eval @rope --text @text --contexts 64 --windows 8 --json");
    const json_t *interval = json_object_get(json_array_get(results_of(root), 0), "perplexity_interval");
    test_close(log(json_number_value(json_array_get(interval, 0))), r.nats - half, 1e-3 * half, "low");
    test_close(log(json_number_value(json_array_get(interval, 1))), r.nats + half, 1e-3 * half, "high");
    json_decref(root);
    root = run_json("eval @rope --text @text --contexts 64 --windows 2 --json"); /* two windows say too little */
    assert_true(json_is_null(json_object_get(json_array_get(results_of(root), 0), "perplexity_interval")));
    json_decref(root);
    assert_contains(run("eval @rope --text @text --contexts 64 --windows 8")->out, "perplexity, 95 % interval");
    gyre_text_free(&text);
    gyre_model_free(model);
}

static void without_a_tokenizer(void **state) {
    (void)state;
    write_model_of("words512", 512);
    assert_fails("eval @words512 --text @text --contexts 32", 1, "name another with --tokenizer, or token ids with --ids");
    json_t *root = run_json("eval @words512 --ids @ids --contexts 2,4 --json");
    assert_true(json_is_null(json_object_get(json_array_get(results_of(root), 0), "bits_per_byte")));
    assert_true(number_at(root, 0, "bits_per_token") > 0);
    json_decref(root);
    assert_fails("eval @rope --ids @ids --tokenizer @rope", 2, "--tokenizer: ");
    assert_fails("eval @rope --text @text --as nobody", 2, "--as: ");
    root = run_json("eval @rope --text @text --contexts 32 --windows 2 --json");
    test_close(number_at(root, 0, "bits_per_byte"), number_at(root, 0, "bits_per_token"), 1e-12, "a byte is a token");
    json_decref(root);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(positions_follow_the_context),
        cmocka_unit_test(input_files_are_not_overwritten),
        cmocka_unit_test(resumes_from_a_journal),
        cmocka_unit_test(journaled_cells_are_not_measured_again),
        cmocka_unit_test(journal_of_another_run_is_refused),
        cmocka_unit_test(journals_are_not_overwritten),
        cmocka_unit_test(context_limits_are_reported),
        cmocka_unit_test(texts_apart_and_together),
        cmocka_unit_test(loss_by_position),
        cmocka_unit_test(prefix_is_the_same_by_position),
        cmocka_unit_test(the_first_windows),
        cmocka_unit_test(types_of_the_cache),
        cmocka_unit_test(one_json_line_per_figure),
        cmocka_unit_test(cards),
        cmocka_unit_test(pages),
        cmocka_unit_test(positions_in_the_report),
        cmocka_unit_test(csv_of_the_report),
        cmocka_unit_test(interval_of_the_windows),
        cmocka_unit_test(without_a_tokenizer),
        cmocka_unit_test(reads_through_a_tokenizer),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
