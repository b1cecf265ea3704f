/* test_command.c: the built command from outside: what it prints, how it fails, what it leaves behind. */
#include "run_command.h"
#include <math.h>

static json_t *result_at(const json_t *root, size_t i) {
    json_t *result = json_array_get(json_object_get(root, "results"), i);
    assert_non_null(result);
    return result;
}

/* -- the command itself -- */
static void test_subcommands(void **state) {
    (void)state;
    assert_fails("evla", 2, "evla: no such subcommand; did you mean eval?");
    assert_fails("rotate-everything", 2, "rotate-everything: no such subcommand (");
    assert_fails("--evaluate", 2, "--evaluate: no such option");
    assert_fails("help evl", 2, "did you mean eval?");
    assert_string_equal(run("--version")->err, "");
    assert_non_null(strstr(run("--version")->out, "gyre "));
    assert_int_equal(run("--version")->exit, 0);
    static const char *const versions[] = {"-V", "version"};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(run(versions[i])->exit, 0);
        assert_non_null(strstr(run(versions[i])->out, gyre_version()));
    }
    static const char *const helps[] = {"", "--help", "-h", "help"};
    for (size_t i = 0; i < sizeof helps / sizeof *helps; i++) {
        const outcome *o = run(helps[i]);
        assert_int_equal(o->exit, 0);
        assert_string_equal(o->err, "");
        assert_non_null(strstr(o->out, "eval"));
        assert_non_null(strstr(o->out, "lab"));
        assert_non_null(strstr(o->out, "143 by SIGTERM"));
        assert_non_null(strstr(o->out, "Example:\n  gyre eval "));
    }
}

static void test_help_of_eval(void **state) {
    (void)state;
    static const char *const options[] = {
        "--text",    "--ids",       "--contexts", "--methods",      "--protocol", "--stride",
        "--windows", "--beta-fast", "--passkey",  "--beta-slow",    "--threads",  "--json",
        "--output",  "--help",      "Example: ",  "by-parts-paper", "gyre eval",  "--length-policy"};
    static const char *const ways[] = {"eval --help", "help eval",   "eval @rope -h",
                                       "-h eval",     "--help eval", "eval --nonsense=3 --help"};
    for (size_t w = 0; w < 5; w++) {
        const outcome *o = run(ways[w]);
        assert_int_equal(o->exit, 0);
        assert_string_equal(o->err, "");
        for (size_t i = 0; i < sizeof options / sizeof *options; i++)
            if (!strstr(o->out, options[i])) fail_msg("%s lacks %s", ways[w], options[i]);
    }
    assert_int_equal(run(ways[5])->exit, 2);
}

static void test_wrong_options(void **state) {
    (void)state;
    assert_fails("eval", 2, "MODEL: missing");
    assert_fails("eval @rope", 2, "--text: missing");
    assert_fails("eval @rope @alibi --text @text", 2, "one argument too many");
    assert_fails("eval @rope --txt @text", 2, "did you mean --text?");
    assert_fails("eval @rope --colour=red", 2, "--colour: no such option");
    assert_fails("eval @rope --text", 2, "--text: its value PATH is missing");
    assert_fails("eval @rope --text @text --json=3", 2, "--json: takes no value");
    assert_fails("eval @rope --t @text", 2, "--t: begins both");
    assert_fails("eval -x @rope --text @text", 2, "-x: no such option");
    assert_fails("eval @rope --text @text --ids @ids", 2, "give one of them");
    assert_fails("eval @rope --ids @ids --passkey 8", 2, "--passkey: ");
    assert_fails("eval @rope --text @text --protocol slide", 2, "one of sliding, truncate, last");
    assert_fails("eval @rope --text @text --threads -1", 2, "--threads: ");
    assert_fails("eval @rope --text @text --threads 100000", 2, "above 1024");
    assert_fails("eval @rope --text @text --windows x", 2, "--windows: ");
    assert_fails("eval @rope --text @text --stride 0", 2, "--stride: 0 is below 1");
    assert_fails("eval @rope --text @text --contexts 32 --stride 33", 2, "above the shortest context");
    assert_fails("eval @rope --text @text --stride 64", 1, "above the shortest context");
    assert_fails("eval @rope --text @text --stride 8 --protocol truncate", 2, "--stride: ");
    assert_fails("eval @rope --text @text --beta-fast 1 --beta-slow 2", 2, "below --beta-slow");
    assert_fails("eval @rope --text @text --beta-fast nan", 2, "not a number");
}

static void test_wrong_contexts(void **state) {
    (void)state;
    static const char *const bad[] = {",",
                                      "32,",
                                      ",32",
                                      "0",
                                      "1",
                                      "-32",
                                      "32,32",
                                      "64,32",
                                      "32;64",
                                      "32x",
                                      "1.5k",
                                      "k",
                                      "99999999999999999999",
                                      "9007199254740993k",
                                      "0x20",
                                      "32,,64"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char line[128];
        snprintf(line, sizeof line, "eval @rope --text @text --contexts %s", bad[i]);
        assert_fails(line, 2, "--contexts: ");
    }
    assert_fails("eval @rope --text @text --contexts=", 2, "--contexts: ");
    assert_fails("eval @rope --text @text --contexts 32,1024k", 1, "text");
}

static void test_wrong_methods(void **state) {
    (void)state;
    assert_fails("eval @rope --text @text --methods wavelets", 2,
                 "none, linear, ntk, ntk-past, base, ntk-mixed, llama3, dynamic, by-parts, by-parts-paper, yarn, "
                 "dynamic-yarn, dynamic-linear, rerope, leaky, self-extend, dca, dca-paper, clipped, clipped-hard");
    assert_fails("eval @rope --text @text --methods none,", 2, "method \"\"");
    assert_fails("eval @rope --text @text --methods ntk:0.5", 2, "below 1");
    assert_fails("eval @rope --text @text --methods ntk:inf", 2, "method ntk:inf: ");
    assert_fails("eval @rope --text @text --methods none,ntk:4x", 2, "method ntk:4x: ");
    assert_fails("eval @rope --text @text --methods none:2", 2, "takes no factor");
    assert_fails("eval @rope --text @text --methods yarn+resonanse", 2, "one of +resonance, +logn");
    assert_fails("eval @alibi --text @text --methods rerope", 1,
                 "method rerope: the model has no rotation to scale (alibi)");
    assert_fails("eval @alibi --text @text --methods none,yarn", 1,
                 "method yarn: the model has no rotation to scale (alibi)");
    assert_fails("eval @rope --text @text --methods none,dynamic-linear", 1,
                 "method dynamic-linear: the model has no slopes to stretch (rope)");
}

/* Rows of one name differ in what the command was asked for, and name the far turn that was used. */
static void test_json_tells_methods_apart(void **state) {
    (void)state;
    static const struct {
        const char *method, *label;
        int resonance, logn;
        const char *clip;
        int pairs;
    } rows[] = {{"yarn", "yarn:4", 0, 0, "none", 0},           {"yarn", "yarn:4+resonance", 1, 0, "none", 0},
                {"yarn", "yarn:4+logn", 0, 1, "none", 0},      {"yarn", "yarn:4+logn+resonance", 1, 1, "none", 0},
                {"yarn", "yarn:4+clipped:3", 0, 0, "soft", 3}, {"clipped-hard", "clipped-hard:2", 0, 0, "hard", 2}};
    json_t *root = run_json("eval @rope --text @text --contexts 32 --windows 2 --json --methods "
                            "yarn:4,yarn:4+resonance,yarn:4+logn,yarn:4+logn+resonance,yarn:4+clipped:3,clipped-hard:2");
    for (size_t i = 0; i < 6; i++) {
        const json_t *row = result_at(root, i);
        assert_string_equal(test_string(row, "method"), rows[i].method);
        assert_string_equal(test_string(row, "label"), rows[i].label);
        assert_true(json_is_boolean(json_object_get(row, "resonance")) && json_is_boolean(json_object_get(row, "logn")));
        assert_int_equal(json_is_true(json_object_get(row, "resonance")), rows[i].resonance);
        assert_int_equal(json_is_true(json_object_get(row, "logn")), rows[i].logn);
        assert_string_equal(test_string(row, "clip"), rows[i].clip);
        assert_int_equal(json_integer_value(json_object_get(row, "clip_pairs")), rows[i].pairs);
        assert_true(json_is_null(json_object_get(row, "window")) && json_is_null(json_object_get(row, "far_factor")));
    }
    json_decref(root);
    /* Trained on 32: half of that is near; at 64 distance 63 has to become 31, 16 + 47 / f and 63 / G + 16 - 16 / G. */
    static const double windows[] = {16, 9, 16, 16, 16}, factors[] = {0, 0, 47.0 / 15, 3, 4};
    root = run_json("eval @rope --text @text --contexts 32,64 --windows 2 --json --methods "
                    "rerope,rerope:9,leaky,leaky:3,self-extend");
    for (size_t i = 0; i < 5; i++) {
        const json_t *within = result_at(root, 2 * i), *past = result_at(root, 2 * i + 1);
        assert_int_equal(json_is_null(json_object_get(within, "window")), i != 1 && i != 3);
        test_close(test_number(past, "window"), windows[i], 0, "window");
        if (factors[i] == 0)
            assert_true(json_is_null(json_object_get(past, "far_factor")));
        else
            test_close(test_number(past, "far_factor"), factors[i], 1e-12, "far factor");
    }
    json_decref(root);
}

/* Within the trained length nothing is far and nothing is sharpened; past it all differ. */
static void test_methods_for_far_pairs(void **state) {
    (void)state;
    enum { METHODS = 6 };
    json_t *root = run_json(
        "eval @rope --text @text --contexts 32,128 --methods none,rerope,leaky,self-extend,none+logn,rerope+logn --json");
    double perplexity[METHODS][2];
    for (size_t i = 0; i < 2 * (size_t)METHODS; i++)
        perplexity[i / 2][i % 2] = json_number_value(json_object_get(result_at(root, i), "perplexity"));
    for (int m = 1; m < METHODS; m++) {
        assert_true(perplexity[m][0] == perplexity[0][0]);
        for (int other = 0; other < m; other++)
            assert_true(perplexity[m][1] > 1 && perplexity[m][1] != perplexity[other][1]);
    }
    json_decref(root);
    /* A temperature needs no rotation. */
    root = run_json("eval @alibi --text @text --contexts 128 --methods none,none+logn --json");
    const double plain = json_number_value(json_object_get(result_at(root, 0), "perplexity"));
    const double sharp = json_number_value(json_object_get(result_at(root, 1), "perplexity"));
    assert_true(plain > 1 && sharp > 1 && plain != sharp);
    json_decref(root);
}

static void test_wrong_input(void **state) {
    (void)state;
    assert_fails("eval @missing --text @text", 1, "missing");
    assert_fails("eval @text --text @text", 1, "text");
    assert_fails("eval @nothing --text @text", 1, "nothing");
    assert_fails("eval @rope --text @missing", 1, "missing");
    assert_fails("eval @rope --text @empty", 1, "empty");
    assert_fails("eval @rope --text @nothing", 1, "nothing");
    assert_fails("eval @rope --text @short", 1, "short");
    assert_fails("eval @rope --text @text --text @missing", 1, "missing");
    assert_fails("eval @rope --ids @missing", 1, "missing");
    assert_fails("eval @rope --ids @words --contexts 2", 1, "words");
    assert_fails("eval @rope --ids @high --contexts 2", 1, "byte 4");
    assert_fails("eval @rope --ids @empty --contexts 2", 1, "empty");
}

/* A name with a line break does not break the message in two. */
static void test_one_line_for_any_name(void **state) {
    (void)state;
    assert_fails("eval @two\nlines --text @text", 1, "two?lines");
    assert_fails("eval @rope --text @two\nlines", 1, "two?lines");
}

static void test_broken_models(void **state) {
    (void)state;
    char weights[1 << 16], config[1 << 12];
    write_model("broken", GYRE_KIND_ROPE);
    FILE *file = fopen(in_folder("broken/model.safetensors"), "r");
    assert_non_null(file);
    const size_t bytes = fread(weights, 1, sizeof weights, file);
    fclose(file);
    assert_true(bytes > 1000 && bytes < sizeof weights);
    write_file("broken/model.safetensors", weights, bytes / 2);
    assert_fails("eval @broken --text @text", 1, "model.safetensors");
    write_file("broken/model.safetensors", weights, 4);
    assert_fails("eval @broken --text @text", 1, "model.safetensors");
    memset(weights + bytes - 4, 0xFF, 4); /* not a number */
    write_file("broken/model.safetensors", weights, bytes);
    assert_fails("eval @broken --text @text", 1, "model.safetensors");
    assert_int_equal(unlink(in_folder("broken/model.safetensors")), 0);
    assert_fails("eval @broken --text @text", 1, "model.safetensors");
    read_whole(in_folder("broken/config.json"), config, sizeof config);
    write_file("broken/config.json", config, strlen(config) / 2);
    assert_fails("eval @broken --text @text", 1, "config.json");
}

/* -- figures -- */
static void assert_keys(const json_t *object, const char *const *keys, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!json_object_get(object, keys[i])) fail_msg("no \"%s\"", keys[i]);
}

static void test_json(void **state) {
    (void)state;
    static const char *const of_all[] = {"model", "kind", "trained_length", "protocol", "text", "results"};
    static const char *const of_protocol[] = {"name", "stride", "windows", "scored"};
    static const char *const of_result[] = {"method",         "factor",           "context", "perplexity",
                                            "bits_per_token", "attention_factor", "kept",    "blended",
                                            "divided",        "windows",          "scored",  "passkey"};
    json_t *root = run_json("eval @rope --text @text --contexts 32,64 --methods none,ntk:4,yarn --windows 8 --json");
    assert_keys(root, of_all, 6);
    assert_string_equal(test_string(root, "kind"), "rope");
    assert_int_equal(test_integer(root, "trained_length"), TRAINED);
    const json_t *protocol = json_object_get(root, "protocol"), *text = json_object_get(root, "text");
    assert_keys(protocol, of_protocol, 4);
    assert_string_equal(test_string(protocol, "name"), "sliding");
    assert_true(json_is_null(json_object_get(protocol, "stride")));
    assert_int_equal(test_integer(protocol, "windows"), 8);
    assert_int_equal(test_integer(text, "tokens"), TEXT);
    assert_int_equal(json_array_size(json_object_get(root, "results")), 6);
    for (size_t i = 0; i < 6; i++) {
        const json_t *result = result_at(root, i);
        const int64_t context = test_integer(result, "context");
        assert_keys(result, of_result, 12);
        assert_int_equal(context, i % 2 ? 64 : 32);
        assert_int_equal(test_integer(result, "windows"), 8);
        assert_int_equal(test_integer(result, "scored"), 8 * context / 2);
        assert_int_equal(test_integer(result, "kept") + test_integer(result, "blended") + test_integer(result, "divided"),
                         8);
        assert_true(json_is_null(json_object_get(result, "passkey")));
        /* Small random weights know nothing: close to one in 256. */
        const double perplexity = test_number(result, "perplexity");
        assert_true(perplexity > 200 && perplexity < 320);
        test_close(test_number(result, "bits_per_token"), log2(perplexity), 1e-9, "bits per token");
    }
    assert_true(json_is_null(json_object_get(result_at(root, 4), "factor")));
    test_close(test_number(result_at(root, 2), "factor"), 4, 0, "factor");
    test_close(test_number(result_at(root, 5), "attention_factor"), 0.1 * log(2) + 1, 1e-12, "attention factor");
    json_decref(root);
}

static double perplexity_of(const char *methods, size_t index) {
    char line[256];
    snprintf(line, sizeof line, "eval @rope --text @text --contexts 32,64 --windows 4 --json --methods %s", methods);
    json_t *root = run_json(line);
    const double out = test_number(result_at(root, index), "perplexity");
    json_decref(root);
    return out;
}

/* Without a factor nothing changes up to the trained length; with one it does. */
static void test_methods_act(void **state) {
    (void)state;
    static const char *const methods[] = {"linear", "ntk", "dynamic", "by-parts", "by-parts-paper", "yarn"};
    const double inside = perplexity_of("none", 0), past = perplexity_of("none", 1);
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        char fixed[32];
        snprintf(fixed, sizeof fixed, "%s:4", methods[i]);
        assert_true(perplexity_of(methods[i], 0) == inside);
        assert_true(perplexity_of(methods[i], 1) != past);
        if (strcmp(methods[i], "dynamic") != 0) assert_true(perplexity_of(fixed, 0) != inside);
    }
}

/* out[policy] = perplexity of dynamic-yarn at 256 under declared, causal, prefix. */
static void perplexities_under(const char *policies, size_t count, double *out) {
    char line[256];
    snprintf(line, sizeof line,
             "eval @rope --text @text --contexts 256 --stride 100 --windows 2 --json --methods none,dynamic-yarn "
             "--length-policy %s",
             policies);
    json_t *root = run_json(line);
    assert_int_equal(json_array_size(json_object_get(root, "results")), 1 + count);
    assert_true(json_is_null(json_object_get(result_at(root, 0), "length_policy"))); /* nothing follows the length */
    for (size_t i = 0; i < count; i++)
        out[i] = test_number(result_at(root, 1 + i), "perplexity");
    json_decref(root);
}

/* A row for each policy where the rotation follows the length; declared is what there is without the option. */
static void test_length_policies(void **state) {
    (void)state;
    double all[3], some[2];
    perplexities_under("all", 3, all);
    assert_true(all[0] != all[1] && all[1] != all[2]);
    perplexities_under("prefix,declared", 2, some);
    assert_true(some[0] == all[2] && some[1] == all[0]);
    perplexities_under("causal,all", 3, all);
    assert_true(all[1] == some[1] && all[2] == some[0]);
    json_t *root = run_json("eval @rope --text @text --contexts 256 --stride 100 --windows 2 --json --methods dynamic-yarn");
    assert_true(test_number(result_at(root, 0), "perplexity") == some[1]);
    assert_null(json_object_get(result_at(root, 0), "length_policy"));
    json_decref(root);
    root = run_json(
        "eval @rope --text @text --contexts 256 --stride 100 --windows 2 --json --methods yarn"); /* the same rotation */
    assert_true(fabs(test_number(result_at(root, 0), "perplexity") - some[1]) <= 1e-5 * some[1]);
    json_decref(root);
    const outcome *o =
        run("eval @rope --text @text --contexts 256 --stride 100 --windows 2 --methods none,dynamic --length-policy all");
    static const char *const words[] = {"length", "any", "declared", "causal", "prefix"};
    assert_int_equal(o->exit, 0);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strstr(o->out, words[i])) fail_msg("no %s: %s", words[i], o->out);
    assert_null(strstr(run("eval @rope --text @text --contexts 32 --windows 2 --methods none,dynamic")->out, "declared"));
    assert_fails("eval @rope --text @text --length-policy future", 2, "one of declared, causal, prefix, all");
    assert_fails("eval @rope --text @text --length-policy causal,", 2, "--length-policy: \"\" is not one of");
}

/* What a run of those options prints, but for the command, which its card has. */
static char *figures_with(const char *options) {
    char line[256];
    snprintf(line, sizeof line, "eval @rope --text @text --contexts 32,64 --methods none,yarn --passkey 8 --json%s",
             options);
    json_t *root = run_json(line);
    assert_int_equal(json_object_del(json_object_get(root, "card"), "command"), 0);
    char *text = json_dumps(root, JSON_INDENT(2));
    assert_non_null(text);
    json_decref(root);
    return text;
}

static void test_threads_change_nothing(void **state) {
    (void)state;
    char *one = figures_with(" --threads 1"), *three = figures_with(" --threads 3");
    assert_string_equal(three, one);
    setenv("GYRE_THREADS", "2", 1);
    char *two = figures_with("");
    unsetenv("GYRE_THREADS");
    assert_string_equal(two, one);
    free(one);
    free(two);
    free(three);
}

static void test_protocols(void **state) {
    (void)state;
    /* 16384 bytes: windows of 64 every 16 that leave one byte to predict after the last. */
    static const struct {
        const char *options;
        int64_t windows, scored;
    } cases[] = {{"--protocol sliding --stride 16", (TEXT - 1 - 64) / 16 + 1, 16},
                 {"--protocol truncate", (TEXT - 1 - 64) / 64 + 1, 64},
                 {"--protocol last --stride 16", (TEXT - 1 - 64) / 16 + 1, 32},
                 {"--windows 3", 3, 32}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[256];
        snprintf(line, sizeof line, "eval @alibi --text @text --contexts 64 --json %s", cases[i].options);
        json_t *root = run_json(line);
        const json_t *result = result_at(root, 0);
        assert_int_equal(test_integer(result, "windows"), cases[i].windows);
        assert_int_equal(test_integer(result, "scored"), cases[i].windows * cases[i].scored);
        assert_true(json_is_null(json_object_get(result, "kept")));
        json_decref(root);
    }
}

static void test_table_that_ends(void **state) {
    (void)state;
    const outcome *o = run("eval @learned --text @text --contexts 32,64,128 --windows 2");
    assert_int_equal(o->exit, 0);
    assert_non_null(strstr(o->err, "gyre: "));
    assert_non_null(strstr(o->out, "none"));
    json_t *root = run_json("eval @learned --text @text --contexts 32,64,128 --windows 2 --passkey 2 --json");
    assert_true(json_is_real(json_object_get(result_at(root, 1), "perplexity")));
    assert_true(json_is_null(json_object_get(result_at(root, 2), "perplexity")));
    assert_true(json_is_null(json_object_get(result_at(root, 2), "passkey")));
    assert_true(json_is_string(json_object_get(result_at(root, 2), "error")));
    json_decref(root);
}

static void test_texts(void **state) {
    (void)state;
    json_t *folder_read = run_json("eval @rope --text @texts --contexts 32 --windows 2 --json");
    json_t *file_read = run_json("eval @rope --text @texts/a --contexts 32 --windows 2 --json");
    const json_t *a = json_object_get(folder_read, "text"), *b = json_object_get(file_read, "text");
    assert_int_equal(test_integer(a, "files"), 2);
    assert_int_equal(test_integer(a, "tokens"), 1500);
    assert_int_equal(test_integer(b, "files"), 1);
    assert_int_equal(test_integer(b, "tokens"), 1000);
    json_decref(folder_read);
    json_decref(file_read);
    json_t *ids = run_json("eval @rope --ids @ids --contexts 2,4 --json");
    assert_int_equal(test_integer(json_object_get(ids, "text"), "tokens"), 6);
    json_decref(ids);
}

static void test_tables(void **state) {
    (void)state;
    const outcome *o = run("eval @rope --text @text --contexts 32,64 --methods none,ntk:4 --windows 2 --passkey 2");
    static const char *const parts[] = {"rope", "16384", "fnv1a64:", "sliding", "none", "ntk:4", "32", "64", "kept"};
    assert_int_equal(o->exit, 0);
    assert_string_equal(o->err, ""); /* no bar: not a terminal */
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strstr(o->out, parts[i])) fail_msg("no \"%s\" in:\n%s", parts[i], o->out);
    assert_null(strchr(o->out, '\033'));
}

/* -- files -- */
static void test_output_file(void **state) {
    (void)state;
    assert_int_equal(mkdir(in_folder("results"), 0777), 0);
    const outcome *o = run("eval @rope --text @text --contexts 32 --windows 2 --json -o @results/a.json");
    assert_int_equal(o->exit, 0);
    assert_string_equal(o->out, "");
    json_t *root = json_load_file(in_folder("results/a.json"), 0, NULL);
    assert_non_null(root);
    json_decref(root);
    assert_int_equal(count_entries(in_folder("results")), 1);
    assert_fails("eval @rope --text @text -o @results", 1, "results: ");
    assert_fails("eval @rope --text @text -o @missing/a.json", 1, "missing/a.json: ");
    assert_fails("eval @alibi --text @text --contexts 32 --methods yarn -o @results/b.json", 1, "alibi");
    assert_int_equal(count_entries(in_folder("results")), 1); /* nothing half-written */
    assert_int_equal(run("eval @rope --text @text --contexts 32 --windows 2 -o /dev/null")->exit, 0);
}

static void test_full_disk(void **state) {
    (void)state;
    outcome o;
    if (access("/dev/full", W_OK)) skip();
    assert_fails("eval @rope --text @text --contexts 32 --windows 2 -o /dev/full", 1, "No space left on device");
    static const char *const lines[] = {"eval @rope --text @text --contexts 32 --windows 2 --json",
                                        "eval @rope --text @text --contexts 32 --windows 2", "help", "eval --help",
                                        "--version"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        finish(start(lines[i], "/dev/full"), &o);
        assert_int_equal(o.exit, 1);
        assert_non_null(strstr(o.err, "No space left on device"));
        assert_ptr_equal(strchr(o.err, '\n'), o.err + strlen(o.err) - 1); /* said once */
    }
}

/* Ctrl-C in the middle: the command is gone, and so is the file it had begun. */
static void test_interrupt(void **state) {
    (void)state;
    outcome o;
    assert_int_equal(mkdir(in_folder("interrupted"), 0777), 0);
    write_text("long", 8 << 20);
    const pid_t child = start("eval @rope --text @long --contexts 32,64,128,256,512 -o @interrupted/a", in_folder(".out"));
    const struct timespec pause = {0, 1000000};
    for (; count_entries(in_folder("interrupted")) == 0; nanosleep(&pause, NULL))
        if (waitpid(child, NULL, WNOHANG) == child) fail_msg("ended before it opened its file");
    assert_int_equal(kill(child, SIGINT), 0);
    finish(child, &o);
    assert_int_equal(o.signal, SIGINT);
    assert_int_equal(count_entries(in_folder("interrupted")), 0);
}

/* The words for a length of context mean the same everywhere, whichever of them a command's help shows. */
static void test_words_for_lengths(void **state) {
    (void)state;
    static const char *const words[] = {"--contexts", "--context", "--lengths", "--length", "--to"};
    char line[256];
    for (int i = 0; i < 5; i++) {
        snprintf(line, sizeof line, "eval @rope --text @text %s 32,64 --windows 2 --json", words[i]);
        json_t *root = run_json(line);
        assert_int_equal(json_array_size(json_object_get(root, "results")), 2);
        json_decref(root);
        snprintf(line, sizeof line, "passkey @rope %s 320 --depths 1 --trials 1 --json", words[i]);
        json_decref(run_json(line));
        snprintf(line, sizeof line, "explain @rope %s 777 --json", words[i]);
        json_decref(run_json(line));
        snprintf(line, sizeof line, "extend @rope %s 64 --json", words[i]);
        json_decref(run_json(line));
        snprintf(line, sizeof line, "generate @rope --prompt a --tokens 2 %s 64 --json", words[i]);
        json_decref(run_json(line));
        snprintf(line, sizeof line, "eval @rope --text @text %s", words[i]);
        snprintf(line + 128, sizeof line - 128, "%s: its value LIST is missing", words[i]);
        assert_fails(line, 2, line + 128);
    }
    assert_non_null(strstr(run("eval --help")->out, "--contexts"));
    assert_null(strstr(run("eval --help")->out, "--lengths"));
    assert_fails("convert @rope --to 64 -o @converted", 2, "--to"); /* a format */
}

static void copy_program(const char *to) {
    static char bytes[1 << 16];
    FILE *in = fopen(GYRE_COMMAND, "rb"), *out = fopen(to, "wb");
    assert_true(in && out);
    for (size_t n; (n = fread(bytes, 1, sizeof bytes, in)) > 0;)
        assert_int_equal(fwrite(bytes, 1, n, out), n);
    fclose(in);
    assert_int_equal(fclose(out), 0);
    assert_int_equal(chmod(to, 0755), 0);
}

/* The examples name models/rope.  They work from any folder, and an installed command has its own models, beside it. */
static void test_bundled_models(void **state) {
    (void)state;
    static const char *const folders[] = {"prefix", "prefix/bin", "prefix/share", "prefix/share/gyre",
                                          "prefix/share/gyre/models"};
    static const char *const names[] = {"rope", "models/rope", "models/rope/"};
    char line[512], here[512];
    assert_non_null(getcwd(here, sizeof here));
    for (int i = 0; i < 5; i++)
        assert_int_equal(mkdir(in_folder(folders[i]), 0777), 0);
    write_model("prefix/share/gyre/models/rope", GYRE_KIND_ROPE);
    copy_program(in_folder("prefix/bin/gyre"));
    assert_int_equal(chdir(in_folder("nothing")), 0);
    for (int i = 0; i < 3; i++) {
        snprintf(line, sizeof line, "explain %s --json", names[i]);
        json_t *root = run_json(line);
        assert_non_null(strstr(test_string(root, "path"), "models/rope"));
        json_decref(root);
        snprintf(line, sizeof line, "%s eval %s --text %s --contexts %d > %s", in_folder("prefix/bin/gyre"), names[i],
                 in_folder("text"), TRAINED, in_folder("installed.txt"));
        assert_int_equal(system(line), 0);
        snprintf(line, sizeof line, "%s explain %s > %s", in_folder("prefix/bin/gyre"), names[i],
                 in_folder("installed.txt"));
        assert_int_equal(system(line), 0);
        read_whole(in_folder("installed.txt"), line, sizeof line);
        assert_non_null(strstr(line, "prefix/bin/../share/gyre/models/rope/config.json"));
    }
    /* It does not look into its sources. */
    snprintf(line, sizeof line, "%s explain models/alibi > %s 2>&1", in_folder("prefix/bin/gyre"),
             in_folder("installed.txt"));
    assert_int_not_equal(system(line), 0);
    assert_int_equal(chdir(here), 0);
    assert_fails("explain models/nothing-of-that-name", 1, "models/nothing-of-that-name");
}

/* Once something is measured, Ctrl-C keeps it: the table is written, and the exit status is a shell's for Ctrl-C. */
static void test_interrupt_keeps_results(void **state) {
    (void)state;
    outcome o;
    static char table[1 << 14];
    static const char *const lines[] = {
        "eval @rope --text @long --contexts 32,512,1k,2k,4k --methods none,yarn --journal @eval.log -o @eval.txt",
        "passkey @rope --lengths 300,8k,16k --depths 1 --trials 8 --journal @passkey.log -o @passkey.txt"};
    static const char *const names[] = {"eval", "passkey"};
    write_text("long", 1 << 20);
    for (int i = 0; i < 2; i++) {
        char log[32], text[32];
        snprintf(log, sizeof log, "%s.log", names[i]);
        snprintf(text, sizeof text, "%s.txt", names[i]);
        const pid_t child = start(lines[i], in_folder(".out"));
        if (!wait_for_text(log, "\n", child)) fail_msg("%s measured nothing", names[i]);
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
        assert_int_equal(kill(child, SIGINT), 0);
        finish(child, &o);
        if (o.exit != 130) fail_msg("%s: exit %d, signal %d: %s", names[i], o.exit, o.signal, o.err);
        assert_non_null(strstr(o.err, "stopped: a dash stands for what was not measured; the same command with --resume"));
        read_whole(in_folder(text), table, sizeof table);
        assert_non_null(strstr(table, "none"));
        assert_non_null(strstr(table, "  -"));
    }
}

/* Ctrl-C in the middle of a figure drops it: what is left of its windows may take hours. */
static void test_interrupt_ends_a_figure(void **state) {
    (void)state;
    outcome o;
    static char log[1 << 14], table[1 << 14];
    int results = 0;
    write_text("long", 1 << 20);
    const pid_t child =
        start("eval @rope --text @long --contexts 32,8k --journal @figure.log -o @figure.txt", in_folder(".out"));
    if (!wait_for_text("figure.log", "\"nats\"", child)) fail_msg("measured nothing");
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    assert_int_equal(kill(child, SIGINT), 0);
    finish(child, &o);
    if (o.exit != 130) fail_msg("exit %d, signal %d: %s", o.exit, o.signal, o.err);
    assert_non_null(strstr(o.err, "gyre: stopping after this window; Ctrl-C again stops at once\n"));
    assert_non_null(strstr(o.err, "stopped: a dash stands for what was not measured"));
    read_whole(in_folder("figure.log"), log, sizeof log);
    for (const char *at = log; (at = strstr(at, "\"nats\"")); at++)
        results++;
    assert_int_equal(results, 1);
    read_whole(in_folder("figure.txt"), table, sizeof table);
    assert_non_null(strstr(table, "  -"));
}

/* A method that was never measured has no numbers of pairs. */
static void test_interrupt_leaves_dashes(void **state) {
    (void)state;
    outcome o;
    static char table[1 << 14];
    const pid_t child =
        start("eval @rope --text @long --contexts 32,8k --methods none,yarn:2 --journal @dash.log -o @dash.txt",
              in_folder(".out"));
    if (!wait_for_text("dash.log", "\"nats\"", child)) fail_msg("measured nothing");
    assert_int_equal(kill(child, SIGINT), 0);
    finish(child, &o);
    assert_int_equal(o.exit, 130);
    read_whole(in_folder("dash.txt"), table, sizeof table);
    const char *yarn = strstr(table, "\nyarn:2");
    assert_non_null(yarn);
    for (const char *c = yarn + 7; *c && *c != '\n'; c++)
        if (*c >= '0' && *c <= '9') fail_msg("%.120s", yarn + 1);
}

/* Two methods need a number, and the help shows how. */
static void test_help_of_methods(void **state) {
    (void)state;
    static const char *const lines[] = {"eval --help", "passkey --help", "generate --help", "train --help", "extend --help"};
    for (int i = 0; i < 5; i++) {
        const outcome *o = run(lines[i]);
        if (!strstr(o->out, "ntk-past:4") || !strstr(o->out, "base:500000")) fail_msg("%s: %s", lines[i], o->out);
    }
}

/* Several processes would each do the whole work and write one file.  With MPI, tests/mpi/shared_commands starts them. */
static void test_processes_of_mpirun_are_refused(void **state) {
    (void)state;
#ifndef GYRE_HAVE_MPI
    static const char *const sizes[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"};
    for (int i = 0; i < 3; i++) {
        setenv(sizes[i], "3", 1);
        assert_fails("eval @rope --text @text --journal @shared", 1, "built without MPI");
        assert_fails("show shift", 1, "3 processes: the work of one");
        assert_int_not_equal(access(in_folder("shared"), F_OK), 0);
        setenv("PMI_RANK", "1", 1); /* only rank 0 speaks */
        const outcome *o = run("eval @rope --text @text --journal @shared");
        assert_true(o->exit == 0 && !o->out[0] && !o->err[0]);
        unsetenv("PMI_RANK");
        setenv(sizes[i], "1", 1);
        assert_int_equal(run("show shift")->exit, 0);
        unsetenv(sizes[i]);
    }
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_subcommands),
        cmocka_unit_test(test_processes_of_mpirun_are_refused),
        cmocka_unit_test(test_interrupt_keeps_results),
        cmocka_unit_test(test_interrupt_ends_a_figure),
        cmocka_unit_test(test_interrupt_leaves_dashes),
        cmocka_unit_test(test_help_of_methods),
        cmocka_unit_test(test_bundled_models),
        cmocka_unit_test(test_words_for_lengths),
        cmocka_unit_test(test_length_policies),
        cmocka_unit_test(test_help_of_eval),
        cmocka_unit_test(test_wrong_options),
        cmocka_unit_test(test_wrong_contexts),
        cmocka_unit_test(test_wrong_methods),
        cmocka_unit_test(test_methods_for_far_pairs),
        cmocka_unit_test(test_json_tells_methods_apart),
        cmocka_unit_test(test_wrong_input),
        cmocka_unit_test(test_one_line_for_any_name),
        cmocka_unit_test(test_broken_models),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_methods_act),
        cmocka_unit_test(test_threads_change_nothing),
        cmocka_unit_test(test_protocols),
        cmocka_unit_test(test_table_that_ends),
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_tables),
        cmocka_unit_test(test_output_file),
        cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_interrupt),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
