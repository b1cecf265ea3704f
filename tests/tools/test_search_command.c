/* test_search_command.c: gyre search from outside: its result, its files and resuming, and its refusals. */
#include "run_command.h"
#include "tools/cli/cli.h"
#include "tools/common/methods.h"
#include "tools/search/search_print.h"

#include <math.h>

enum { TO = 64, PAIRS = 8, HELD = 6, STRIDE = TO / 2 };
#define SEARCH "search @rope --text @text --to 64 --windows 4 --held-out 6 --budget 60"

static json_t *result_called(json_t *root, const char *name) {
    json_t *results = json_object_get(root, "results");
    for (size_t i = 0; i < json_array_size(results); i++)
        if (strcmp(test_string(json_array_get(results, i), "method"), name) == 0) return json_array_get(results, i);
    fail_msg("no row %s", name);
    return NULL;
}

static void copy_file(const char *from, const char *to, size_t most) {
    static char bytes[1 << 20];
    FILE *in = fopen(in_folder(from), "r"), *out = fopen(in_folder(to), "w");
    assert_non_null(in);
    assert_non_null(out);
    const size_t count = fread(bytes, 1, most < sizeof bytes ? most : sizeof bytes, in);
    assert_int_equal(fwrite(bytes, 1, count, out), count);
    fclose(in);
    assert_int_equal(fclose(out), 0);
}

static size_t size_of(const char *name) {
    struct stat info;
    assert_int_equal(stat(in_folder(name), &info), 0);
    return (size_t)info.st_size;
}

/* -- what it finds -- */
static double perplexity(const gyre_model *model, const gyre_encoding *encoding, const gyre_text *text,
                         const int64_t *starts) {
    gyre_eval_options o = GYRE_INIT(gyre_eval_options);
    gyre_eval_result r;
    gyre_error err;
    o.context = TO;
    o.stride = STRIDE;
    o.windows = HELD;
    o.starts = starts;
    o.encoding = encoding;
    assert_ok(gyre_evaluate(model, text, &o, &r, NULL, &err));
    return exp(r.nats);
}

static double perplexity_of_method(const gyre_model *model, const char *name, const gyre_text *text, const int64_t *starts) {
    method m;
    gyre_error err;
    gyre_encoding *encoding = NULL;
    const gyre_config *base = gyre_encoding_get_config(gyre_model_get_encoding(model));
    assert_ok(method_parse(name, &m, &err));
    assert_ok(method_encoding(&m, base, TRAINED, TO, NULL, &encoding, &err));
    const double out = perplexity(model, encoding, text, starts);
    gyre_encoding_free(encoding);
    return out;
}

/* The frequencies of a config file at the context, first group. */
static double perplexity_of_config(const gyre_model *model, const char *path, const double *factors, const gyre_text *text,
                                   const int64_t *starts) {
    gyre_reading *reading = NULL;
    gyre_encoding *encoding = NULL;
    gyre_error err;
    assert_ok(gyre_reading_open(&reading, path, GYRE_ARGS(gyre_reading_options, .context_length = TO), &err));
    const gyre_config *c = &reading->groups[0]->config;
    assert_int_equal(c->rope.scaling, GYRE_SCALING_LONGROPE);
    assert_int_equal(c->trained_length, TRAINED);
    assert_memory_equal(c->rope.long_factor, factors, PAIRS * sizeof *factors);
    for (int i = 0; i < PAIRS; i++)
        assert_true(c->rope.short_factor[i] == 1);
    assert_ok(gyre_encoding_create(&encoding, c, NULL, &err));
    const double out = perplexity(model, encoding, text, starts);
    gyre_encoding_free(encoding);
    gyre_reading_free(reading);
    return out;
}

/* Where the held-out windows begin: spread over the second, fourth, ... of eight ranges. */
static void held_out(int64_t starts[HELD]) {
    enum { STRETCH = TEXT / 8, IN_EACH = (STRETCH - 1 - TO) / STRIDE + 1 };
    for (int i = 0; i < HELD; i++) {
        const int window = i * 4 * IN_EACH / HELD;
        starts[i] = (2 * (window / IN_EACH) + 1) * STRETCH + window % IN_EACH * STRIDE;
    }
}

/* Every number against gyre_evaluate on those windows; the result through the written config. */
static void figures_and_config(void **state) {
    (void)state;
    double factors[PAIRS];
    int64_t starts[HELD];
    json_t *root = run_json(SEARCH " --write @found.json --even-if-worse --json");
    json_t *found = json_object_get(root, "found"), *last = result_called(root, "found");
    held_out(starts);
    gyre_model *model = NULL;
    gyre_text text;
    gyre_error err;
    const char *path = in_folder("text");
    assert_ok(gyre_model_open(&model, in_folder("rope"), NULL, &err));
    assert_ok(gyre_text_open(&text, &path, 1, GYRE_TEXT_SPLIT_ALL, 1, &err));
    static const char *const methods[] = {"none", "linear", "ntk", "by-parts", "yarn"};
    const char *simple = "";
    double least = INFINITY;
    for (int i = 0; i < 5; i++) {
        json_t *row = result_called(root, methods[i]);
        const double want = perplexity_of_method(model, methods[i], &text, starts), is = test_number(row, "perplexity");
        test_close(is, want, 1e-6 * want, methods[i]);
        json_t *gain = json_object_get(row, "gain");
        const double percent = 100 * (1 - test_number(last, "perplexity") / is);
        test_close(test_number(gain, "percent"), percent, 1e-9 * fabs(percent) + 1e-9, "gain");
        const json_t *interval = json_object_get(gain, "percent_interval");
        assert_true(json_number_value(json_array_get(interval, 0)) <= percent);
        assert_true(json_number_value(json_array_get(interval, 1)) >= percent);
        assert_true(test_number(last, "searched_perplexity") <= test_number(row, "searched_perplexity"));
        if (is < least) simple = methods[i];
        least = fmin(least, is);
    }
    const json_t *verdict = json_object_get(root, "verdict");
    assert_string_equal(test_string(verdict, "simple"), simple);
    assert_string_equal(test_string(verdict, "best"), test_number(last, "perplexity") < least ? "found" : simple);
    assert_int_equal(test_numbers(found, "factors", factors, PAIRS), PAIRS);
    for (int i = 0; i < PAIRS; i++)
        assert_true(factors[i] >= (i ? factors[i - 1] : 1) && factors[i] <= 1.25 * TO / TRAINED);
    const double want = perplexity_of_config(model, in_folder("found.json"), factors, &text, starts);
    test_close(test_number(last, "perplexity"), want, 1e-12 * want, "the written config");
    const json_t *card = json_object_get(root, "card");
    assert_non_null(strstr(test_string(card, "command"), "gyre search "));
    assert_string_equal(test_string(card, "methods"), "search");
    gyre_text_free(&text);
    gyre_model_free(model);
    json_decref(root);
}

/* The config of the result with other factors. */
static double perplexity_of_factors(const gyre_model *model, const double *factors, double attention, int64_t start_tokens,
                                    const gyre_text *text, const int64_t *starts) {
    double ones[PAIRS];
    gyre_encoding *encoding = NULL;
    gyre_error err;
    gyre_config c = *gyre_encoding_get_config(gyre_model_get_encoding(model));
    for (int i = 0; i < PAIRS; i++)
        ones[i] = 1;
    c.trained_length = TRAINED;
    c.rope.scaling = GYRE_SCALING_LONGROPE;
    c.context_length = TO;
    c.rope.short_factor = ones, c.rope.long_factor = factors;
    c.rope.attention_factor = attention;
    c.rope.longrope = (struct gyre_longrope_config){start_tokens, GYRE_LONGROPE_START_PAPER};
    assert_ok(gyre_encoding_create(&encoding, &c, NULL, &err));
    const double out = perplexity(model, encoding, text, starts);
    gyre_encoding_free(encoding);
    return out;
}

static double perplexity_of_window(const gyre_model *model, const double *factors, double attention, int64_t start_tokens,
                                   const gyre_text *text, int64_t start) {
    int64_t same[HELD];
    for (int i = 0; i < HELD; i++)
        same[i] = start;
    return perplexity_of_factors(model, factors, attention, start_tokens, text, same);
}

static void check_change(const json_t *row, const char *name, double percent) {
    const json_t *of = json_object_get(row, name), *interval = json_object_get(of, "percent_interval");
    test_close(test_number(of, "percent"), percent, 1e-6 * fabs(percent) + 1e-6, name);
    assert_true(json_number_value(json_array_get(interval, 0)) <= percent + 1e-6);
    assert_true(json_number_value(json_array_get(interval, 1)) >= percent - 1e-6);
}

/* Each pair against gyre_evaluate with that factor alone changed. */
static void pairs_alone(void **state) {
    (void)state;
    double factors[PAIRS], turns = INFINITY;
    int64_t starts[HELD];
    int moved = 0;
    gyre_model *model = NULL;
    gyre_text text;
    gyre_error err;
    const char *path = in_folder("text");
    held_out(starts);
    json_t *root = run_json(SEARCH " --pairs --json");
    json_t *found = json_object_get(root, "found"), *pairs = json_object_get(root, "pairs");
    assert_ok(gyre_model_open(&model, in_folder("rope"), NULL, &err));
    assert_ok(gyre_text_open(&text, &path, 1, GYRE_TEXT_SPLIT_ALL, 1, &err));
    const double attention = test_number(found, "attention_factor");
    const double all = test_number(result_called(root, "found"), "perplexity");
    const double none = test_number(result_called(root, "none"), "perplexity");
    assert_int_equal(test_numbers(found, "factors", factors, PAIRS), PAIRS);
    assert_int_equal(json_array_size(pairs), PAIRS);
    for (int i = 0; i < PAIRS; i++) {
        const json_t *row = json_array_get(pairs, (size_t)i);
        const double own = factors[i];
        double alone[PAIRS];
        for (int j = 0; j < PAIRS; j++)
            alone[j] = i == j ? own : 1;
        assert_true(test_number(row, "factor") == own && test_number(row, "turns") < turns);
        turns = test_number(row, "turns");
        factors[i] = 1;
        check_change(row, "as_trained_costs",
                     100 * (perplexity_of_factors(model, factors, attention, 0, &text, starts) / all - 1));
        factors[i] = own;
        check_change(row, "alone_saves", 100 * (1 - perplexity_of_factors(model, alone, 1, 0, &text, starts) / none));
        moved += own > 1;
    }
    assert_true(moved > 0);
    const gyre_encoding *encoding = gyre_model_get_encoding(model);
    double frequencies[PAIRS];
    assert_ok(gyre_encoding_frequencies(encoding, TRAINED, frequencies, NULL));
    test_close(turns, TRAINED * frequencies[PAIRS - 1] / (2 * acos(-1)), 1e-9, "turns");
    gyre_text_free(&text);
    gyre_model_free(model);
    json_decref(root);
    assert_fails(SEARCH " --pairs --temperature", CLI_USAGE, "--pairs: shows factors");
}

/* A search on one window fits that window.  What it finds loses on held-out text to a method that needs no search, and is
 * written only on request. */
static void losing_factors_are_not_written(void **state) {
    (void)state;
    int losses = 0;
    for (int seed = 1; seed <= 3; seed++) {
        char line[512], written[64];
        snprintf(
            line, sizeof line,
            "search %s/../models/rope --text @text --to 272 --windows 1 --held-out 6 --budget 40 --seed %d --json --write "
            "@lost%d.json",
            GYRE_TEST_DATA, seed, seed);
        snprintf(written, sizeof written, "lost%d.json", seed);
        const outcome *o = run(line);
        json_t *root = json_loads(o->out, 0, NULL);
        assert_non_null(root); /* the result is printed in any case */
        const json_t *verdict = json_object_get(root, "verdict");
        const int loses = test_number(verdict, "percent") < 0;
        losses += loses;
        assert_int_equal(o->exit, loses ? 1 : 0);
        assert_int_equal(access(in_folder(written), F_OK) == 0, !loses);
        if (loses) {
            assert_string_equal(test_string(verdict, "best"), test_string(verdict, "simple"));
            assert_non_null(strstr(o->err, "needs no search and is better on the held-out text"));
            strcat(line, " --even-if-worse");
            o = run(line);
            assert_int_equal(o->exit, 0);
            assert_int_equal(access(in_folder(written), F_OK), 0);
        }
        json_decref(root);
    }
    assert_true(losses > 0);
    assert_fails(SEARCH " --even-if-worse", CLI_USAGE, "--even-if-worse: nothing is written without --write");
}

static void text_output(void **state) {
    (void)state;
    const outcome *o = run(SEARCH " --attention-factor 1.25");
    assert_int_equal(o->exit, 0);
    assert_non_null(strstr(o->out, "attention factor 1.25; factors "));
    assert_non_null(strstr(o->out, "card: model "));
    assert_non_null(strstr(o->out, "\nntk "));
    assert_non_null(strstr(o->out, "\nverdict   "));
}

/* -- going on -- */
static int lines_of(const char *name) {
    FILE *file = fopen(in_folder(name), "r");
    char *line = NULL;
    size_t room = 0;
    int count = 0;
    assert_non_null(file);
    while (getline(&line, &room, file) > 0) {
        json_t *json = json_loads(line, 0, NULL);
        count += json != NULL;
        json_decref(json);
    }
    free(line);
    fclose(file);
    return count;
}

static void assert_same_file(const char *a, const char *b) {
    static char first[1 << 16], second[1 << 16];
    read_whole(in_folder(a), first, sizeof first);
    read_whole(in_folder(b), second, sizeof second);
    assert_string_equal(first, second);
}

/* The journal truncated anywhere, also inside a line, as after a kill: the same result to the byte, and no line twice. */
static void interrupted_search_gives_the_same_result(void **state) {
    (void)state;
    static const double cuts[] = {0.003, 0.2, 0.5, 0.93, 1};
#define JOURNALED SEARCH " --json --journal @journal --write @cut.json --even-if-worse --force"
    outcome *o = run(JOURNALED " -o @whole.txt");
    if (o->exit) fail_msg("%s", o->err);
    copy_file("cut.json", "whole.json", 1 << 20);
    copy_file("journal", "whole.journal", 1 << 20);
    const size_t whole = size_of("journal");
    const int lines = lines_of("journal");
    for (int i = 0; i < 5; i++) {
        copy_file("whole.journal", "journal", (size_t)(cuts[i] * (double)whole));
        copy_file("empty", "cut.json", 0);
        /* The command line is a part of the result. */
        copy_file("whole.txt", "first.txt", 1 << 20);
        o = run(JOURNALED " -o @whole.txt");
        if (o->exit) fail_msg("%s", o->err);
        assert_same_file("first.txt", "whole.txt");
        assert_same_file("whole.json", "cut.json");
        assert_int_equal(lines_of("journal"), lines);
    }
}

/* Ctrl-C ends the search after the measurement that it is in; the same command then gives the result of one that was never
 * stopped. */
static void ctrl_c_keeps_the_journal(void **state) {
    (void)state;
#define LONG_SEARCH "search @rope --text @text --to 1k --stride 512 --windows 2 --held-out 2 --budget 30 --threads 1 --json"
    outcome o;
    pid_t child =
        start(LONG_SEARCH " --journal @stopped -o @stopped.txt --write @stopped.json --even-if-worse", in_folder(".out"));
    if (!wait_for_text("stopped", "\"nats\":", child)) fail_msg("nothing measured");
    assert_int_equal(kill(child, SIGINT), 0);
    finish(child, &o);
    if (o.exit != 130) fail_msg("exit %d, signal %d: %s", o.exit, o.signal, o.err);
    assert_non_null(strstr(o.err, "gyre: stopped: the same command continues from here ("));
    assert_int_equal(access(in_folder("stopped.txt"), F_OK), -1);
    assert_int_equal(access(in_folder("stopped.json"), F_OK), -1);
    const int lines = lines_of("stopped");
    json_t *rest = run_json(LONG_SEARCH " --journal @stopped"), *whole = run_json(LONG_SEARCH " --journal @never-stopped");
    assert_true(json_equal(json_object_get(rest, "results"), json_object_get(whole, "results")));
    assert_true(json_equal(json_object_get(rest, "found"), json_object_get(whole, "found")));
    assert_true(lines > 1 && lines < lines_of("stopped"));
    assert_int_equal(lines_of("stopped"), lines_of("never-stopped"));
    json_decref(rest);
    json_decref(whole);
}

/* Without a journal there is nothing to go on from, and the message says so. */
static void ctrl_c_without_a_journal(void **state) {
    (void)state;
    outcome o;
    const pid_t child = start(LONG_SEARCH " --budget 100000", in_folder(".out")); /* does not end by itself */
    nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
    assert_int_equal(kill(child, SIGTERM), 0);
    finish(child, &o);
    if (o.signal == SIGTERM) return; /* before the search began */
    if (o.exit != 143) fail_msg("exit %d, signal %d: %s", o.exit, o.signal, o.err);
    assert_non_null(strstr(o.err, "gyre: stopped: nothing is kept without --journal (search)"));
}

/* A larger budget continues where a smaller one ended. */
static void larger_budget_continues(void **state) {
    (void)state;
    json_t *small = run_json(SEARCH " --json --journal @budget");
    const int lines = lines_of("budget");
    json_t *large = run_json(SEARCH " --json --journal @budget --budget 80"),
           *fresh = run_json(SEARCH " --json --budget 80");
    assert_true(lines_of("budget") > lines);
    assert_true(json_equal(json_object_get(large, "results"), json_object_get(fresh, "results")));
    assert_true(test_number(json_object_get(large, "found"), "searched_nats") <=
                test_number(json_object_get(small, "found"), "searched_nats"));
    json_decref(small);
    json_decref(large);
    json_decref(fresh);
}

static void threads_and_seeds(void **state) {
    (void)state;
    json_t *one = run_json(SEARCH " --json --threads 1"), *three = run_json(SEARCH " --json --threads 3");
    json_t *other = run_json(SEARCH " --json --seed 2");
    static const char *const parts[] = {"results", "found", "search"};
    for (int i = 0; i < 3; i++)
        assert_true(json_equal(json_object_get(one, parts[i]), json_object_get(three, parts[i])));
    assert_false(json_equal(json_object_get(one, "found"), json_object_get(other, "found")));
    json_decref(one);
    json_decref(three);
    json_decref(other);
}

static void journal_of_another_search_is_refused(void **state) {
    (void)state;
    json_t *root = run_json(SEARCH " --json --journal @other");
    json_decref(root);
    assert_fails(SEARCH " --journal @other --seed 2", 1, "another search: seed is 1 there and 2 here");
    assert_fails("search @rope --text @text --to 96 --windows 4 --held-out 6 --budget 60 --journal @other", 1,
                 "another search: to is 64 there and 96 here");
    const size_t before = size_of("short");
    assert_fails(SEARCH " --journal @short", 1, "journal: its content is not a journal of Gyre");
    assert_int_equal(size_of("short"), before);
    copy_file("other", "kept", 1 << 20);
    json_decref(run_json(SEARCH " --json --journal @other --force")); /* its own is continued */
    assert_same_file("other", "kept");
    json_decref(run_json(SEARCH " --json --journal @fresh --seed 2"));
    json_decref(run_json(SEARCH " --json --journal @other --seed 2 --force")); /* another's is replaced */
    assert_same_file("other", "fresh");
    copy_file("short", "notes", 1 << 20);
    json_decref(run_json(SEARCH " --json --journal @notes --seed 2 --force"));
    assert_same_file("notes", "fresh");
    assert_fails(SEARCH " --journal @rope/config.json", CLI_USAGE, "this run reads");
    assert_fails(SEARCH " --journal @nowhere/journal", 1, "journal: No such file or directory");
}

/* Keys change what is measured, and the same seed hides the same ones. */
static void needles(void **state) {
    (void)state;
    json_t *text = run_json(SEARCH " --json"), *keys = run_json(SEARCH " --needles 2 --json --journal @keys"),
           *again = run_json(SEARCH " --needles 2 --json --threads 3 --journal @keys");
    assert_int_equal(test_integer(text, "needles"), 0);
    assert_int_equal(test_integer(keys, "needles"), 2);
    assert_int_equal(test_integer(keys, "tokens"), test_integer(text, "tokens"));
    const double of_text = test_number(result_called(text, "none"), "nats"),
                 of_keys = test_number(result_called(keys, "none"), "nats");
    assert_true(fabs(of_text - of_keys) > 1e-3);
    assert_true(json_equal(json_object_get(keys, "results"), json_object_get(again, "results")));
    json_decref(text);
    json_decref(keys);
    json_decref(again);
    assert_non_null(strstr(run(SEARCH " --needles 1")->out, "of 64 tokens with 1 key, only answers scored"));
    assert_fails(SEARCH " --journal @keys", 1, "another search: ");
    assert_fails(SEARCH " --needles 9", 2, "--needles: 9");
    assert_fails(SEARCH " --needles 2 --stride 8", 2, "--stride: with --needles only answers are scored");
}

/* -- what it refuses -- */
/* The two factors whose perplexity is known from methods, and the lowest point of the curve that it prints. */
static void fits_temperature(void **state) {
    (void)state;
    int64_t starts[HELD];
    json_t *root = run_json("search @rope --text @text --to 64 --windows 4 --held-out 6 --temperature --json");
    const json_t *held = json_object_get(root, "held_out"), *curve = json_object_get(root, "curve");
    gyre_model *model = NULL;
    gyre_text text;
    gyre_error err;
    const char *path = in_folder("text");
    held_out(starts);
    assert_ok(gyre_model_open(&model, in_folder("rope"), NULL, &err));
    assert_ok(gyre_text_open(&text, &path, 1, GYRE_TEXT_SPLIT_ALL, 1, &err));
    test_close(test_number(held, "at_1"), perplexity_of_method(model, "by-parts", &text, starts), 1e-4, "at 1");
    test_close(test_number(held, "at_formula"), perplexity_of_method(model, "yarn", &text, starts), 1e-4, "at YaRN's");
    test_close(test_number(root, "formula"), 0.1 * log(2) + 1, 1e-15, "0.1 ln s + 1");
    const double best = test_number(root, "attention_factor");
    double least = INFINITY, at = 0;
    for (size_t i = 0; i < json_array_size(curve); i++) {
        const double here = test_number(json_array_get(curve, i), "perplexity");
        if (here < least) at = test_number(json_array_get(curve, i), "attention_factor");
        least = fmin(least, here);
    }
    assert_true(fabs(best - at) <= 0.025 + 1e-12); /* half a step */
    test_close(test_number(root, "temperature"), 1 / (best * best), 1e-12, "t");
    const json_t *interval = json_object_get(root, "attention_factor_interval");
    assert_true(json_number_value(json_array_get(interval, 0)) <= best + 0.05);
    assert_true(json_number_value(json_array_get(interval, 1)) >= best - 0.05);
    assert_int_equal(json_boolean_value(json_object_get(root, "at_end")), at < 0.72 || at > 1.68);
    gyre_text_free(&text);
    gyre_model_free(model);
    json_decref(root);
    assert_fails("search @rope --text @text --to 64 --temperature --write @t.json", CLI_USAGE, "--temperature");
    assert_fails("search @rope --text @text --to 64 --temperature --attention-factor 1.1", CLI_USAGE, "--temperature");
}

/* The page holds the table and both figures, with their numbers. */
static void report_page(void **state) {
    (void)state;
    static char page[1 << 20];
    const outcome *o = run(SEARCH " --report @report.html");
    assert_int_equal(o->exit, 0);
    read_whole(in_folder("report.html"), page, sizeof page);
    static const char *const parts[] = {"gyre search: factors for each pair",
                                        "found is lower by",
                                        "by-parts",
                                        "What each method divides the frequencies by",
                                        "Perplexity of each held-out window",
                                        "download=\"figure-1.csv\"",
                                        "download=\"figure-2.csv\""};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strstr(page, parts[i])) fail_msg("the report lacks %s", parts[i]);
    unlink(in_folder("report.html"));
    assert_null(strstr(page, "What the factor of each pair is worth"));
    assert_int_equal(run(SEARCH " --pairs --report @report.html")->exit, 0);
    read_whole(in_folder("report.html"), page, sizeof page);
    assert_non_null(strstr(page, "What the factor of each pair is worth"));
    assert_non_null(strstr(page, "left as trained, costs"));
    unlink(in_folder("report.html"));
    assert_fails(SEARCH " --report @nowhere/report.html", 1, "nowhere");
    assert_fails(SEARCH " --report @rope/config.json", CLI_USAGE, "name another file");
    assert_fails("search @rope --text @text --to 64 --temperature --report @report.html", CLI_USAGE, "--report");
}

/* Every line of the journal with start tokens holds what gyre_evaluate gives with them; the result has a row without. */
static void start_tokens(void **state) {
    (void)state;
    enum { SEARCHED = 4, STRETCH = TEXT / 8, IN_EACH = (STRETCH - 1 - TO) / STRIDE + 1 };
    static char lines[1 << 22];
    int64_t starts[SEARCHED], held[HELD];
    json_t *root = run_json(SEARCH " --start-tokens 16,40 --budget 80 --journal @starts --json");
    const json_t *found = json_object_get(root, "found");
    const int64_t n = test_integer(found, "start_tokens");
    assert_true(n == 0 || n == 16 || n == 40);
    assert_int_equal(json_array_size(json_object_get(json_object_get(root, "search"), "start_tokens")), 3);
    gyre_model *model = NULL;
    gyre_text text;
    gyre_error err;
    const char *path = in_folder("text");
    assert_ok(gyre_model_open(&model, in_folder("rope"), NULL, &err));
    assert_ok(gyre_text_open(&text, &path, 1, GYRE_TEXT_SPLIT_ALL, 1, &err));
    for (int i = 0; i < SEARCHED; i++) {
        const int window = i * 4 * IN_EACH / SEARCHED;
        starts[i] = (int64_t)2 * (window / IN_EACH) * STRETCH + window % IN_EACH * STRIDE;
    }
    int checked = 0;
    read_whole(in_folder("starts"), lines, sizeof lines);
    for (char *at = strtok(lines, "\n"); at && checked < 12; at = strtok(NULL, "\n")) {
        json_t *line = json_loads(at, 0, NULL), *nats = json_object_get(line, "nats");
        double factors[PAIRS];
        if (json_object_get(line, "part") && json_object_get(line, "start_tokens") &&
            strcmp(test_string(line, "part"), "search") == 0) {
            const int64_t tokens = test_integer(line, "start_tokens");
            const double is = json_number_value(json_array_get(nats, 0)), factor = test_number(line, "attention_factor");
            assert_int_equal(test_numbers(line, "factors", factors, PAIRS), PAIRS);
            double gap = INFINITY, of_none = INFINITY; /* the windows are read in an order of their own */
            for (int i = 0; i < SEARCHED; i++) {
                const double with = log(perplexity_of_window(model, factors, factor, tokens, &text, starts[i]));
                const double without = log(perplexity_of_window(model, factors, factor, 0, &text, starts[i]));
                gap = fmin(gap, fabs(is - with));
                of_none = fmin(of_none, fabs(is - without));
            }
            test_close(gap, 0, 1e-9, "a window under start tokens");
            checked += of_none > 1e-6;
        }
        json_decref(line);
    }
    assert_int_equal(checked, 12);
    double factors[PAIRS];
    held_out(held);
    assert_int_equal(test_numbers(found, "factors", factors, PAIRS), PAIRS);
    const double factor = test_number(found, "attention_factor");
    const double want = perplexity_of_factors(model, factors, factor, n, &text, held);
    test_close(test_number(result_called(root, "found"), "perplexity"), want, 1e-9 * want, "found");
    if (n) {
        const double bare = perplexity_of_factors(model, factors, factor, 0, &text, held);
        test_close(test_number(result_called(root, "found, no start tokens"), "perplexity"), bare, 1e-9 * bare, "without");
    }
    json_t *again = run_json(SEARCH " --start-tokens 40,16 --budget 80 --journal @starts --json --threads 3");
    assert_true(json_equal(json_object_get(root, "results"), json_object_get(again, "results")));
    json_decref(again);
    json_decref(root);
    gyre_text_free(&text);
    gyre_model_free(model);
    const outcome *o = run(SEARCH " --start-tokens 16 --report @report.html");
    assert_non_null(strstr(o->out, "; start tokens "));
    assert_fails(SEARCH " --start-tokens 16 --write @starts.json", 1, "start tokens: transformers has no key for them");
    assert_fails(SEARCH " --start-tokens paper", CLI_USAGE, "--start-tokens: 64 is not below --to 64");
    assert_fails(SEARCH " --start-tokens 64", CLI_USAGE, "--start-tokens: 64 is not below --to 64");
    assert_fails(SEARCH " --start-tokens x", CLI_USAGE, "--start-tokens: \"x\"");
    assert_fails(SEARCH
                 " --start-tokens 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32",
                 CLI_USAGE, "--start-tokens: 32 numbers, more than 31");
    assert_fails("search @rope --text @text --to 64 --temperature --start-tokens 4", CLI_USAGE, "--start-tokens: belong to");
    assert_fails(SEARCH " --start-tokens 16 --journal @starts", 1, "another search: start_tokens is [0, 16, 40] there");
}

/* A config of Gyre's own says them: rope_start_tokens. */
static void start_tokens_in_a_config(void **state) {
    (void)state;
    char line[256];
    assert_int_equal(
        run("train --text @text --tokens 2048 --batch 1 --context 32 --layers 1 --width 32 --heads 2 --hidden 32 "
            "--encoding rope+clipped -o @native")
            ->exit,
        0);
    int64_t n = 0;
    for (int seed = 1; seed <= 8 && n == 0; seed++) {
        snprintf(line, sizeof line,
                 "search @native --text @text --to 64 --windows 4 --held-out 6 --budget 80 --start-tokens 16,40 --seed %d "
                 "--write @starts.json --even-if-worse --json",
                 seed);
        json_t *root = run_json(line);
        const json_t *found = json_object_get(root, "found");
        n = test_integer(found, "start_tokens");
        gyre_reading *reading = NULL;
        gyre_error err;
        double factors[PAIRS];
        assert_ok(gyre_reading_open(&reading, in_folder("starts.json"),
                                    GYRE_ARGS(gyre_reading_options, .context_length = TO), &err));
        const gyre_config *c = &reading->groups[0]->config;
        assert_int_equal(c->rope.scaling, GYRE_SCALING_LONGROPE);
        assert_int_equal(c->rope.longrope.start_tokens, n);
        assert_int_equal(c->rope.longrope.starts, GYRE_LONGROPE_START_PAPER);
        assert_int_equal(test_numbers(found, "factors", factors, PAIRS), c->rope.dim / 2);
        assert_memory_equal(c->rope.long_factor, factors, (size_t)(c->rope.dim / 2) * sizeof *factors);
        gyre_reading_free(reading);
        json_decref(root);
    }
    assert_true(n == 16 || n == 40);
    static char text[1 << 16];
    read_whole(in_folder("starts.json"), text, sizeof text);
    assert_null(strstr(text, "rope_clip")); /* the model's own, which the result has not */
    copy_file("starts.json", "native/config.json", sizeof text);
    json_decref(run_json(
        "search @native --text @text --to 64 --windows 4 --held-out 6 --budget 40 --write @plain.json --even-if-worse "
        "--json"));
    read_whole(in_folder("plain.json"), text, sizeof text);
    assert_null(strstr(text, "rope_start")); /* and now its start tokens */
}

static void refusals(void **state) {
    (void)state;
    assert_fails("search", 2, "MODEL: missing");
    assert_fails("search @rope --text @text", 2, "--to: missing");
    assert_fails("search @rope --to 64", 2, "--text: missing");
    assert_fails("search @rope --text @text --to 64 --stride 65", 2, "--stride: 65 is above --to 64");
    assert_fails("search @rope --text @text --to 32", 1, "--to: 32 is within the trained length of 32");
    assert_fails("search @rope --text @text --to 48 --trained 48", 1, "--to: 48 is within the trained length of 48");
    assert_fails("search @alibi --text @text --to 64", 1, "positions: alibi does not rotate");
    assert_fails("search @learned --text @text --to 64", 1, "positions: learned does not rotate");
    assert_fails("search @rope --text @short --to 64", 1, "--text: 10 tokens");
    assert_fails("search @rope --text @text --to 8k", 1, "--text: 16384 tokens; windows of 8192");
    assert_fails("search @rope --text @text --to 64 --budget 3", 1, "--budget: 3 evaluations are too few");
    assert_fails("search @rope --text @text --to 64 --budget 3", 1, "; 7 is the smallest budget");
    assert_fails("search @rope --ids @high --to 64", 1, "256");
    assert_fails("search @nothing --text @text --to 64", 1, "config.json");
    assert_fails(SEARCH " --write @nowhere/found.json", 1, "nowhere");
    assert_fails(SEARCH " --write @rope/config.json", CLI_USAGE, "this run reads");
    assert_fails(SEARCH " --write @rope", CLI_USAGE, "this run reads");
}

/* A verdict names the best only where the interval leaves no doubt. */
static void verdict_of_the_interval(void **state) {
    (void)state;
    static const struct {
        search_interval gain;
        const char *begins, *holds;
    } cases[] = {{{0.02, 0.01, 0.03}, "found is the best: lower than none, ", "by 1.98 % (1.00 to 2.96)"},
                 {{0.02, -0.01, 0.03}, "this text cannot distinguish found from none, ", "found is lower by 1.98 %"},
                 {{-0.02, -0.03, 0.01}, "this text cannot distinguish found from none, ", "found is higher by 2.02 %"},
                 {{-0.02, -0.03, -0.01}, "none is the best and needs no search: ", "found is higher by 2.02 %"},
                 {{0, 0, 0}, "none is the best and needs no search: ", "found is no lower"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char verdict[SEARCH_VERDICT];
        search_report r = {.rows = {{.gain = cases[i].gain}}, .rows_count = 1, .simple_count = 1};
        snprintf(r.rows[0].label, sizeof r.rows[0].label, "none");
        search_verdict(&r, verdict);
        if (strstr(verdict, cases[i].begins) != verdict || !strstr(verdict, cases[i].holds)) fail_msg("%s", verdict);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(figures_and_config),
                                       cmocka_unit_test(pairs_alone),
                                       cmocka_unit_test(losing_factors_are_not_written),
                                       cmocka_unit_test(text_output),
                                       cmocka_unit_test(interrupted_search_gives_the_same_result),
                                       cmocka_unit_test(ctrl_c_keeps_the_journal),
                                       cmocka_unit_test(ctrl_c_without_a_journal),
                                       cmocka_unit_test(larger_budget_continues),
                                       cmocka_unit_test(threads_and_seeds),
                                       cmocka_unit_test(journal_of_another_search_is_refused),
                                       cmocka_unit_test(needles),
                                       cmocka_unit_test(fits_temperature),
                                       cmocka_unit_test(report_page),
                                       cmocka_unit_test(start_tokens),
                                       cmocka_unit_test(start_tokens_in_a_config),
                                       cmocka_unit_test(refusals),
                                       cmocka_unit_test(verdict_of_the_interval)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
