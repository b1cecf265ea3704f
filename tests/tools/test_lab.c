/* test_lab.c: gyre lab from outside, at a tiny size: the same tables with any number of threads, from the journal, and after
 * a kill; Ctrl-C keeps rows. */
#include "kept_files.h"
#include "tools/lab/bootstrap.h"
#include <math.h>

static json_t *lab_json(const char *more) {
    char line[640];
    snprintf(line, sizeof line, "lab --text @text --preset smoke --json --force --report @report.html %s", more);
    json_t *root = run_json(line);
    json_object_del(root, "seconds");
    return root;
}

/* What the folder @lab gives, and its report, which take a second to write again: computed once.  The caller releases its
 * copy of the former. */
static json_t *whole;
static char whole_page[1 << 23];
static json_t *whole_lab(void) {
    if (!whole) {
        whole = lab_json("--work @lab");
        read_whole(in_folder("report.html"), whole_page, sizeof whole_page);
    }
    return json_deep_copy(whole);
}

static int make_lab(void **state) {
    if (make_folder(state)) return -1;
    write_text("text", 20000);
    return 0;
}

static int remove_lab(void **state) {
    json_decref(whole);
    return remove_folder(state);
}

static void check_rows(const json_t *rows, size_t count) {
    assert_int_equal(json_array_size(rows), count);
    for (size_t i = 0; i < count; i++) {
        const json_t *cells = json_object_get(json_array_get(rows, i), "cells");
        assert_int_equal(json_array_size(cells), 5);
        for (size_t c = 0; c < 5; c++) {
            const json_t *cell = json_array_get(cells, c);
            assert_int_equal(json_integer_value(json_object_get(cell, "context")), 32 << c);
            const json_t *perplexity = json_object_get(cell, "perplexity");
            if (json_is_null(perplexity)) continue;
            assert_true(json_number_value(perplexity) > 1 && json_number_value(perplexity) < 1000);
            const double passkey = json_number_value(json_object_get(cell, "passkey"));
            const double copied = json_number_value(json_object_get(cell, "copied"));
            assert_true(passkey >= 0 && passkey <= 1 && copied >= 0 && copied <= 1);
            /* Eight segments at least, six bytes of each asked for; 32 bytes have room for one in a window, 64 for three. */
            assert_int_equal(json_integer_value(json_object_get(cell, "copied_asked")), c == 1 ? 9 * 6 : 8 * 6);
            /* Two ranges of 256 bytes, the same for every context. */
            assert_int_equal(json_integer_value(json_object_get(cell, "scored")), 512);
            assert_true(json_integer_value(json_object_get(cell, "trials")) >= 8);
        }
    }
}

static double perplexity_at(const json_t *root, const char *part, size_t row, size_t context) {
    const json_t *cells = json_object_get(json_array_get(json_object_get(root, part), row), "cells");
    return json_number_value(json_object_get(json_array_get(cells, context), "perplexity"));
}

/* A journal and a model that no lab wrote. */
static void work_folder_of_others(void **state) {
    (void)state;
    static const char line[] = "lab --text @text --preset smoke --report @report.html --work @strange";
    assert_int_equal(mkdir(in_folder("strange"), 0777), 0);
    write_file("strange/cells.jsonl", "my cells", 8);
    assert_fails(line, 1, "no lab.json of a lab");
    char cells[16];
    read_whole(in_folder("strange/cells.jsonl"), cells, sizeof cells);
    assert_string_equal(cells, "my cells");
    unlink(in_folder("strange/cells.jsonl"));
    assert_int_equal(mkdir(in_folder("strange/nope-s1"), 0777), 0);
    write_file("strange/nope-s1/tokenizer.json", "{}", 2);
    assert_fails(line, 1, "no lab.json of a lab");
    assert_int_equal(access(in_folder("strange/nope-s1/tokenizer.json"), F_OK), 0);
    assert_int_not_equal(access(in_folder("strange/lab.json"), F_OK), 0);
}

static void tables(void **state) {
    (void)state;
    json_t *root = lab_json("--work @lab --threads 2");
    check_rows(json_object_get(root, "encodings"), 5);
    check_rows(json_object_get(root, "methods"), 15);
    check_rows(json_object_get(root, "fine_tuned"), 15);
    const json_t *learned = json_array_get(json_object_get(root, "encodings"), 1);
    assert_string_equal(json_string_value(json_object_get(learned, "name")), "learned");
    const json_t *beyond = json_array_get(json_object_get(learned, "cells"), 1);
    assert_true(json_is_null(json_object_get(beyond, "perplexity"))); /* its table ends */
    /* Equivalent names: linear at 16 times is linear:16; every dynamic method is none at the trained length. */
    assert_true(perplexity_at(root, "methods", 1, 4) == perplexity_at(root, "methods", 2, 4));
    assert_true(perplexity_at(root, "methods", 0, 0) == perplexity_at(root, "methods", 7, 0));
    assert_true(perplexity_at(root, "methods", 0, 4) != perplexity_at(root, "methods", 1, 4));
    assert_true(perplexity_at(root, "methods", 0, 0) != perplexity_at(root, "fine_tuned", 0, 0)); /* other weights */
    assert_true(perplexity_at(root, "encodings", 3, 2) == perplexity_at(root, "methods", 0, 2));  /* rope is none */
    json_t *again = whole_lab(); /* nothing is trained or measured a second time */
    assert_true(json_equal(root, again));
    json_decref(again);
    again = lab_json("--work @lab-one --threads 1");
    json_object_set(again, "report", json_object_get(root, "report"));
    assert_true(json_equal(root, again));
    json_decref(again);
    json_decref(root);
}

static void report_file(void **state) {
    (void)state;
    const char *page = whole_page;
    json_decref(whole_lab());
    static const char *const holds[] = {"Train short, test long",
                                        "by-parts:16",
                                        "Passkeys found",
                                        "Wavelength of each pair",
                                        "cos(angle)",
                                        "Loss by position",
                                        "<svg",
                                        "</html>",
                                        "is fixed (dashed)",
                                        "Grey: the methods",
                                        "Copies, and loss by position",
                                        "5 position encodings trained at 32 bytes",
                                        "under 15 methods"};
    for (size_t i = 0; i < sizeof holds / sizeof *holds; i++)
        if (!strstr(page, holds[i])) fail_msg("report.html lacks \"%s\"", holds[i]);
    assert_null(strstr(page, "<script src"));
    assert_null(strstr(page, "the same 0.0 million bytes"));
    assert_non_null(strstr(page, "Every encoding saw the same "));
    const outcome *o = run("lab --text @text --preset smoke --work @lab --force --report @report.html");
    assert_int_equal(o->exit, 0);
    assert_non_null(strstr(o->out, "fine-tuned"));
    assert_non_null(strstr(o->out, "report: "));
}

/* *text = what the lab prints from the journal at a width, to be read before the next run. */
static char *print_at(int columns) {
    static char text[1 << 16];
    char line[200];
    snprintf(line, sizeof line,
             "COLUMNS=%d $G lab --text text --preset smoke --work lab --force --report report.html >printed 2>said",
             columns);
    assert_int_equal(shell(line), 0);
    read_whole(in_folder("printed"), text, sizeof text);
    return text;
}

/* cells = what a row of that name has after its name, in all blocks of the first table of methods. */
static void collect_cells(char *text, const char *name, char *cells, size_t size) {
    cells[0] = 0;
    char *table = strstr(text, "The RoPE model under every method");
    assert_non_null(table);
    int takes = 0;
    for (char *line = strtok(table, "\n"); line && strncmp(line, "name:factor", 11) != 0; line = strtok(NULL, "\n")) {
        takes = strcmp(line, "as it is") == 0 || (takes && strcmp(line, "fine-tuned") != 0);
        const size_t length = strlen(name);
        if (!takes || strncmp(line, name, length) != 0 || line[length] != ' ') continue;
        char *rest = line + length;
        for (size_t word; *(rest += strspn(rest, " ")); rest += word) {
            word = strcspn(rest, " ");
            const size_t used = strlen(cells);
            assert_true(used + word + 2 < size);
            snprintf(cells + used, size - used, "%.*s ", (int)word, rest);
        }
    }
}

/* A narrow terminal shows the tables in blocks of whole contexts: the same cells, and no line is wider. */
static void blocks(void **state) {
    (void)state;
    char wide[512], narrow[512];
    json_decref(whole_lab());
    char *text = print_at(300);
    assert_non_null(strstr(text, "\nencoding ")); /* one block: its titles stand once */
    assert_null(strstr(strstr(text, "\nencoding ") + 1, "\nencoding "));
    collect_cells(text, "yarn", wide, sizeof wide);
    text = print_at(80);
    assert_non_null(strstr(strstr(text, "\nencoding ") + 1, "\nencoding "));
    for (const char *line = text, *end; *line; line = end + 1) {
        end = line + strcspn(line, "\n");
        if (end - line > 80) fail_msg("wider than 80: %.*s", (int)(end - line), line);
        if (!*end) break;
    }
    collect_cells(text, "yarn", narrow, sizeof narrow);
    assert_string_equal(narrow, wide);
    int count = 0;
    for (const char *c = wide; *c; c++)
        count += *c == ' ';
    assert_int_equal(count, 5 * 3 + 1); /* three measures at five contexts, and the pairs */
}

/* The sentence under the methods has the numbers of --json. */
static void findings(void **state) {
    (void)state;
    json_t *root = whole_lab();
    const json_t *methods = json_object_get(root, "methods");
    const char *found = strstr(print_at(4000), "At 16 times its length the RoPE model as it is ");
    assert_non_null(found);
    char best[32];
    double none, keys, under;
    assert_int_equal(sscanf(strstr(found, "has perplexity"),
                            "has perplexity %lf and finds %lf %% of the keys; under %31s %lf", &none, &keys, best, &under),
                     4);
    test_close(none, perplexity_at(root, "methods", 0, 4), 0.006, "perplexity as it is");
    const json_t *last = json_array_get(json_object_get(json_array_get(methods, 0), "cells"), 4);
    test_close(keys, 100 * json_number_value(json_object_get(last, "passkey")), 0.6, "keys as it is");
    for (size_t m = 1; m < json_array_size(methods); m++) {
        assert_true(perplexity_at(root, "methods", m, 4) > under - 0.006);
        if (strcmp(best, json_string_value(json_object_get(json_array_get(methods, m), "name"))) == 0)
            test_close(under, perplexity_at(root, "methods", m, 4), 0.006, "perplexity under the best");
    }
    json_decref(root);
}

/* --preset quick without a text: fewer rows and columns of the bundled models, and the cells of the lab. */
static void quick_of_bundled(void **state) {
    (void)state;
    json_t *quick = run_json("lab --preset quick --encodings learned --json --report @quick.html");
    json_t *full = run_json("lab --encodings learned --json --force --report @quick.html");
    const json_t *cells = json_object_get(json_array_get(json_object_get(quick, "encodings"), 0), "cells");
    assert_string_equal(json_string_value(json_object_get(quick, "preset")), "bundled-quick");
    assert_int_equal(json_array_size(cells), 4);
    assert_true(perplexity_at(quick, "encodings", 0, 0) > 1);
    assert_true(perplexity_at(quick, "encodings", 0, 0) == perplexity_at(full, "encodings", 0, 0));
    const json_t *first = json_array_get(cells, 0);
    static char page[1 << 23];
    read_whole(in_folder("quick.html"), page, sizeof page);
    assert_non_null(strstr(page, "1 position encoding trained at 256 bytes"));
    assert_true(json_is_null(json_object_get(first, "copied")) && json_is_null(json_object_get(first, "copied_interval")));
    assert_int_equal(json_array_size(json_object_get(quick, "ranks")), 0);
    json_decref(quick);
    json_decref(full);
    outcome o;
    const pid_t child = start("lab --preset quick --force --report @quick.html", in_folder("quick"));
    if (!wait_for_text("quick", "\nnone ", child)) fail_msg("no method first");
    assert_int_equal(kill(child, SIGINT), 0);
    finish(child, &o);
    read_whole(in_folder("quick"), o.out, sizeof o.out);
    assert_int_equal(o.exit, 130);
    assert_null(strstr(o.out, "encoding  "));
    assert_non_null(strstr(o.err, "gyre lab: 9 rows to measure at 256 to 2048 bytes, about "));
    assert_fails("lab --preset small", 2, "only quick and methods measure the bundled models");
}

/* One rule colours the perplexities of all rows: the caption says it, and every cell follows it. */
static void heat(void **state) {
    (void)state;
    static char page[1 << 23];
    json_decref(whole_lab());
    memcpy(page, whole_page, sizeof page);
    const char *table = strstr(page, "The RoPE model under every method, as it is");
    assert_non_null(table);
    assert_non_null(
        strstr(table, "<small>Colour: the perplexity over the lowest of the table, none at equal, full at 16 times it."));
    char *end = strstr(table, "</table>");
    assert_non_null(end);
    *end = 0;
    double lowest = INFINITY;
    int colored = 0;
    for (int pass = 0; pass < 2; pass++)
        for (const char *row = strstr(table, "<tr><th scope=\"row\""); row; row = strstr(row + 1, "<tr><th scope=\"row\"")) {
            const char *cell = row;
            for (int c = 0; c < 5; c++) { /* the perplexity at each context comes first */
                double value, strength = 0;
                cell = strstr(cell + 1, "<td class=\"right");
                const char *text = strchr(cell, '>') + 1, *style = strstr(cell, "--heat:");
                assert_int_equal(sscanf(text, "%lf", &value), 1);
                if (style && style < text) assert_int_equal(sscanf(style, "--heat:%lf", &strength), 1);
                if (pass == 0) lowest = fmin(lowest, value);
                if (pass == 1) test_close(strength, fmin(1, fmax(0, log2(value / lowest) / 4)), 2e-3, "heat");
                colored += strength > 0;
            }
        }
    assert_true(colored > 20);
}

/* DroPE: the RoPE model goes on without its rotation, at the trained length and for as many tokens as the others have at the
 * longest. */
static void dropped_rotation(void **state) {
    (void)state;
    char text[4096];
    json_t *root = whole_lab(), *tuned = json_object_get(root, "fine_tuned");
    const json_t *drope = json_array_get(tuned, 13), *logn = json_array_get(tuned, 14);
    assert_string_equal(json_string_value(json_object_get(drope, "name")), "drope");
    assert_string_equal(json_string_value(json_object_get(logn, "name")), "drope+logn");
    assert_null(json_object_get(drope, "pairs"));
    assert_true(perplexity_at(root, "fine_tuned", 13, 0) == perplexity_at(root, "fine_tuned", 14, 0)); /* 1 to 32 tokens */
    assert_true(perplexity_at(root, "fine_tuned", 13, 4) != perplexity_at(root, "fine_tuned", 14, 4));
    assert_true(perplexity_at(root, "fine_tuned", 13, 0) !=
                perplexity_at(root, "encodings", 0, 0)); /* nope from the start */
    read_whole(in_folder("lab/rope-tuned-drope-s1/config.json"), text, sizeof text);
    assert_non_null(strstr(text, "\"position_embedding_type\": \"nope\""));
    json_t *of[2] = {json_load_file(in_folder("lab/rope-tuned-drope-s1/training.json"), 0, NULL),
                     json_load_file(in_folder("lab/rope-tuned-none-s1/training.json"), 0, NULL)};
    json_int_t tokens[2];
    for (int i = 0; i < 2; i++) {
        const json_int_t context = json_integer_value(json_object_get(of[i], "context"));
        assert_int_equal(context, i == 0 ? 32 : 512);
        tokens[i] = context * json_integer_value(json_object_get(of[i], "batch")) *
                    json_integer_value(json_object_get(of[i], "steps"));
        json_decref(of[i]);
    }
    assert_true(tokens[0] > 0 && tokens[0] == tokens[1]);
    json_decref(root);
}

/* out = the line of the journal for the cell of a model at a context: the first one. */
static json_t *journal_line(const char *model, int context) {
    static char text[1 << 20];
    char begins[64], has[16];
    read_whole(in_folder("lab-seeds/cells.jsonl"), text, sizeof text);
    snprintf(begins, sizeof begins, "{\"key\":\"%s ", model);
    snprintf(has, sizeof has, " %d 2 8 ", context);
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        const char *key = strstr(line, has);
        if (strncmp(line, begins, strlen(begins)) == 0 && key && key < strstr(line, "\",")) return json_loads(line, 0, NULL);
    }
    fail_msg("no line of %s at %d", model, context);
    return NULL;
}

static void check_interval(const json_t *interval, double low, double high) {
    assert_int_equal(json_array_size(interval), 2);
    test_close(json_number_value(json_array_get(interval, 0)), low, 1e-9, "low");
    test_close(json_number_value(json_array_get(interval, 1)), high, 1e-9, "high");
}

/* Means over three seeds, and intervals over the seeds and windows that the journal has: of perplexity two stretches of
 * text, of copies eight windows of six bytes. */
static void seeds(void **state) {
    (void)state;
    enum { SEEDS = 3, REGIONS = 2, WINDOWS = 8, RIGHT = 6 };
    char text[160];
    const char *first = test_all() ? "rope" : "alibi"; /* with rope come the models of all methods, thrice */
    snprintf(text, sizeof text, "--work @lab-seeds --encodings %s,sinusoidal --seeds 3 --report @lab-seeds/report.html",
             first);
    json_t *root = lab_json(text);
    assert_int_equal(access(in_folder("lab-seeds/report.html"), F_OK), 0); /* in a folder that was not there */
    for (int at = 0; at < 2; at++) {
        const json_t *row = json_array_get(json_object_get(root, "encodings"), (size_t)at);
        const char *name = json_string_value(json_object_get(row, "name"));
        for (size_t c = 0; c < 5; c += 4) {
            const json_t *cell = json_array_get(json_object_get(row, "cells"), c), *list = json_object_get(cell, "seeds");
            double nats[SEEDS][REGIONS], copies[SEEDS][WINDOWS], mean[2] = {0, 0}, low, high;
            assert_int_equal(json_array_size(list), SEEDS);
            for (int s = 0; s < SEEDS; s++) {
                char model[32];
                snprintf(model, sizeof model, "%s-s%d", name, s + 1);
                json_t *line = journal_line(model, 32 << c);
                double sum = 0, right = 0;
                for (size_t w = 0; w < REGIONS; w++)
                    sum += nats[s][w] = json_number_value(json_array_get(json_object_get(line, "by_region"), w));
                for (size_t w = 0; w < WINDOWS; w++)
                    right += copies[s][w] = json_number_value(json_array_get(json_object_get(line, "copied"), w)) / RIGHT;
                json_decref(line);
                const json_t *one = json_array_get(list, (size_t)s);
                test_close(json_number_value(json_object_get(one, "perplexity")), exp(sum / REGIONS), 1e-9, "of a seed");
                test_close(json_number_value(json_object_get(one, "copied")), right / WINDOWS, 1e-9, "of a seed");
                mean[0] += sum / REGIONS / SEEDS;
                mean[1] += right / WINDOWS / SEEDS;
            }
            test_close(json_number_value(json_object_get(cell, "perplexity")), exp(mean[0]), 1e-9, "mean");
            test_close(json_number_value(json_object_get(cell, "copied")), mean[1], 1e-9, "mean");
            bootstrap_interval(&nats[0][0], SEEDS, REGIONS, &low, &high);
            check_interval(json_object_get(cell, "perplexity_interval"), exp(low), exp(high));
            assert_true(low < mean[0] && mean[0] < high);
            bootstrap_interval(&copies[0][0], SEEDS, WINDOWS, &low, &high);
            check_interval(json_object_get(cell, "copied_interval"), low, high);
        }
    }
    json_decref(root);
    snprintf(text, sizeof text,
             "lab --text @text --preset smoke --work @lab-seeds --force --report @report.html --encodings %s --seeds 3",
             first);
    const outcome *o = run(text);
    assert_int_equal(o->exit, 0);
    assert_non_null(strstr(o->out, "Copied bytes right, in percent: mean over 3 seeds, and interval"));
    assert_non_null(
        strstr(o->out, "In brackets: 95 % of 2000 bootstrap samples of the seeds and, apart from them, of the "));
}

/* A method that is added has a row in the first part of the table only. */
static void added_methods(void **state) {
    (void)state;
    json_t *root = lab_json("--work @lab --add-method base:500000 --add-method rerope");
    check_rows(json_object_get(root, "methods"), 17);
    check_rows(json_object_get(root, "fine_tuned"), 15);
    assert_string_equal(json_string_value(json_object_get(json_array_get(json_object_get(root, "methods"), 15), "name")),
                        "base:500000");
    assert_true(perplexity_at(root, "methods", 15, 0) != perplexity_at(root, "methods", 0, 0));
    assert_true(perplexity_at(root, "methods", 16, 0) == perplexity_at(root, "methods", 0, 0));
    assert_true(perplexity_at(root, "methods", 10, 0) ==
                perplexity_at(root, "methods", 0, 0)); /* ntk-past:16 there is none */
    assert_true(perplexity_at(root, "methods", 10, 4) == perplexity_at(root, "methods", 6, 4)); /* and past it ntk:16 */
    /* dynamic:16 and dynamic: none at the trained length, one rotation at 16 times it, and no name of ntk. */
    for (size_t r = 8; r < 10; r++) {
        assert_true(perplexity_at(root, "methods", r, 0) == perplexity_at(root, "methods", 0, 0));
        assert_true(perplexity_at(root, "methods", r, 4) == perplexity_at(root, "methods", 8, 4));
        for (size_t c = 1; c < 5; c++)
            assert_true(perplexity_at(root, "methods", r, c) != perplexity_at(root, "methods", 7, c));
    }
    assert_true(perplexity_at(root, "methods", 8, 2) != perplexity_at(root, "methods", 9, 2));
    json_decref(root);
    assert_fails("lab --force --text @text --preset smoke --work @early --encodings rope --add-method none+start:4", 1,
                 "--add-method none+start:4: at 32 tokens: ");
    assert_int_equal(access(in_folder("early/rope-s1"), F_OK), -1); /* nothing was trained */
    assert_fails("lab --add-method yran", 2, "--add-method: method \"yran\": no such method; did you mean yarn?");
    assert_fails("lab --task copy --add-method yarn", 2, "--add-method: ");
    char many[400] = "lab";
    for (int i = 0; i < 13; i++)
        strcat(many, " --add-method ntk");
    assert_fails(many, 2, "--add-method: at most 12");
}

static void copy_to_journal(const char *name) {
    static char text[1 << 22];
    char from[64], to[64];
    snprintf(from, sizeof from, "lab/%s", name);
    snprintf(to, sizeof to, "journal/%s", name);
    read_whole(in_folder(from), text, sizeof text);
    write_file(to, text, strlen(text));
}

/* The plan and the journal stand for the models: where all cells are known, nothing is trained, and another seed needs only
 * models of its own. */
static void journal_alone(void **state) {
    (void)state;
    json_t *before = whole_lab();
    assert_int_equal(mkdir(in_folder("journal"), 0777), 0);
    copy_to_journal("lab.json");
    copy_to_journal("cells.jsonl");
    const int files = count_entries(in_folder("journal"));
    json_t *again = lab_json("--work @journal");
    assert_true(json_equal(again, before));
    assert_int_equal(access(in_folder("journal/rope-s1"), F_OK), -1);
    assert_in_range(count_entries(in_folder("journal")), files, files + 1); /* a lock */
    json_decref(lab_json("--work @journal --encodings alibi --seeds 2"));
    assert_int_equal(access(in_folder("journal/alibi-s1"), F_OK), -1);
    assert_int_equal(access(in_folder("journal/alibi-s2"), F_OK), 0);
    if (test_all()) { /* with rope come the models of all methods */
        json_decref(lab_json("--work @journal --encodings rope --seeds 2"));
        assert_int_equal(access(in_folder("journal/rope-s1"), F_OK), -1);
        assert_int_equal(access(in_folder("journal/rope-s2"), F_OK), 0);
        assert_int_equal(access(in_folder("journal/rope-tuned-yarn-16-s2"), F_OK), 0);
    }
    json_decref(again);
    json_decref(before);
}

/* out = the perplexity of the ALiBi model of the folder with slopes stretched 16 times, over the two windows of 512 bytes
 * that the lab reads of the last tenth of the text. */
static double perplexity_of_slopes(gyre_slope_scaling scaling) {
    enum { LONGEST = 512, HELD_OUT = 2000, ALL = 20000, RANGES = 2 };
    gyre_model *model = NULL;
    gyre_encoding *encoding = NULL;
    gyre_text text;
    gyre_error err;
    gyre_eval_options o = GYRE_INIT(gyre_eval_options);
    gyre_eval_result r;
    const char *path = in_folder("text");
    assert_ok(gyre_text_open(&text, &path, 1, GYRE_TEXT_SPLIT_ALL, ALL, &err));
    assert_ok(gyre_model_open(&model, in_folder("lab/alibi-s1"), NULL, &err));
    gyre_config config = *gyre_encoding_get_config(gyre_model_get_encoding(model));
    config.score.slope_scaling = scaling;
    config.score.slope_factor = 16;
    assert_ok(gyre_encoding_create(&encoding, &config, NULL, &err));
    const int64_t first = ALL - HELD_OUT, starts[RANGES] = {first, first + HELD_OUT - 1 - LONGEST};
    o.context = LONGEST;
    o.windows = RANGES;
    o.starts = starts;
    o.encoding = encoding;
    assert_ok(gyre_evaluate(model, &text, &o, &r, NULL, &err));
    gyre_encoding_free(encoding);
    gyre_model_free(model);
    gyre_text_free(&text);
    return exp(r.nats);
}

/* The ALiBi model under methods for slopes: a table of its own, by the slopes of each method. */
static void stretched_slopes(void **state) {
    (void)state;
    json_t *plain = whole_lab();
    assert_null(json_object_get(plain, "alibi_methods"));
    json_t *root = lab_json("--work @lab --add-method alibi-ntk --add-method alibi-linear:16 --add-method alibi-linear "
                            "--add-method alibi-dynamic --add-method alibi-ntk-past:16");
    const json_t *rows = json_object_get(root, "alibi_methods");
    static const char *const names[] = {"none", "ntk", "linear:16", "linear", "dynamic", "ntk-past:16"};
    enum { NONE, NTK, LINEAR_16, LINEAR, DYNAMIC, PAST, ROWS, ALIBI = 4 };
    check_rows(rows, ROWS);
    double at[ROWS][5];
    for (size_t r = 0; r < ROWS; r++) {
        assert_string_equal(json_string_value(json_object_get(json_array_get(rows, r), "name")), names[r]);
        for (size_t c = 0; c < 5; c++)
            at[r][c] = perplexity_at(root, "alibi_methods", r, c);
    }
    for (size_t c = 0; c < 5; c++) {
        assert_true(at[NONE][c] == perplexity_at(root, "encodings", ALIBI, c));
        assert_true(at[LINEAR_16][c] != at[NONE][c]);
        test_close(at[DYNAMIC][c], at[NTK][c], 1e-9, "the same slopes at every length");
        if (c > 0) assert_true(at[NTK][c] != at[NONE][c] && at[LINEAR][c] != at[NTK][c]);
    }
    assert_true(at[NTK][0] == at[NONE][0] && at[LINEAR][0] == at[NONE][0] && at[PAST][0] == at[NONE][0]);
    assert_true(at[LINEAR][4] == at[LINEAR_16][4] && at[PAST][4] == at[NTK][4]);
    const double linear = perplexity_of_slopes(GYRE_SLOPE_SCALING_LINEAR),
                 ntk = perplexity_of_slopes(GYRE_SLOPE_SCALING_NTK);
    test_close(at[LINEAR][4], linear, 1e-6 * linear, "linear slopes");
    test_close(at[NTK][4], ntk, 1e-6 * ntk, "NTK slopes");
    assert_true(json_equal(json_object_get(root, "methods"), json_object_get(plain, "methods")));
    assert_int_equal(json_array_size(json_object_get(root, "ranks")), json_array_size(json_object_get(plain, "ranks")) + 3);
    json_decref(plain);
    json_decref(root);
    static char page[1 << 23];
    const outcome *o =
        run("lab --text @text --preset smoke --work @lab --force --report @report.html --add-method alibi-ntk");
    assert_int_equal(o->exit, 0);
    const char *table = strstr(o->out, "The ALiBi model, as it is, under methods that stretch its slopes");
    assert_non_null(table);
    assert_non_null(strstr(table, "\nntk "));
    read_whole(in_folder("report.html"), page, sizeof page);
    assert_non_null(strstr(page, "Extending the ALiBi model"));
    assert_fails("lab --add-method alibi-yarn", 2, "--add-method: method yarn: the model has no rotation to scale");
    assert_fails("lab --add-method alibi-none", 2, "--add-method: method none: stretches no slopes");
    assert_fails("lab --add-method alibi-ntk+resonance", 2, "--add-method: method ntk+resonance: ");
    assert_fails("lab --add-method alibi-dynamic:4", 2, "--add-method: method dynamic:4: takes no factor for slopes");
    assert_fails("lab --add-method alibi-", 2, "--add-method: method ");
    assert_fails("lab --text @text --encodings rope --add-method alibi-ntk", 2, "--add-method: alibi is not among");
}

static json_t *encodings_named(const json_t *root, const char *name) {
    json_t *row;
    size_t i;
    json_array_foreach(json_object_get(root, "encodings"), i, row) {
        if (strcmp(test_string(row, "name"), name) == 0) return row;
    }
    fail_msg("no row of %s", name);
    return NULL;
}

/* Killed several times and resumed: the final tables are the same.  Of two encodings; with GYRE_TEST_ALL of the whole
 * lab. */
static void killed(void **state) {
    (void)state;
    static const char *const some[] = {"sinusoidal", "alibi"};
    const char *which = test_all() ? "" : " --encodings sinusoidal,alibi";
    char line[200];
    outcome o;
    for (int i = 1; i <= 6; i += test_all() ? 1 : 2) {
        snprintf(line, sizeof line,
                 "lab --text @text --preset smoke --json --force --report @report.html --work @lab-killed%s", which);
        const pid_t child = start(line, in_folder("out"));
        nanosleep(&(struct timespec){.tv_nsec = i * 60000000}, NULL);
        (void)kill(child, SIGKILL);
        finish(child, &o);
    }
    snprintf(line, sizeof line, "--work @lab-killed%s", which);
    json_t *root = lab_json(line), *unbroken = whole_lab();
    for (int i = 0; i < 2; i++)
        assert_true(json_equal(encodings_named(root, some[i]), encodings_named(unbroken, some[i])));
    if (test_all()) assert_true(json_equal(root, unbroken));
    json_decref(root);
    json_decref(unbroken);
}

/* After Ctrl-C the document holds the rows that were begun, and says that it is not all of them. */
static void json_when_stopped(void **state) {
    (void)state;
    outcome o;
    const pid_t child =
        start("lab --text @text --preset smoke --encodings all --force --report @cut.html --json --work @lab-rows-json",
              in_folder("rows.json"));
    if (!wait_for_text(".err", " left\n", child)) fail_msg("no progress before the end");
    assert_int_equal(kill(child, SIGINT), 0);
    finish(child, &o);
    assert_int_equal(o.exit, 130);
    json_t *root = json_load_file(in_folder("rows.json"), 0, NULL);
    assert_non_null(root);
    const json_t *stopped = json_object_get(root, "stopped");
    const json_int_t complete = json_integer_value(json_object_get(stopped, "rows_complete"));
    const size_t begun = json_array_size(json_object_get(root, "encodings"));
    assert_true(complete >= 1 && complete < json_integer_value(json_object_get(stopped, "rows")));
    assert_true(begun >= (size_t)complete && begun <= (size_t)complete + 1);
    assert_true(perplexity_at(root, "encodings", 0, 4) > 1);
    json_decref(root);
    root = whole_lab();
    assert_null(json_object_get(root, "stopped"));
    json_decref(root);
}

/* Each row is another model, and says so in its config: every second one, or all with GYRE_TEST_ALL. */
static void check_rows_of(const char *work, const char *const says[][2], size_t count) {
    char line[512];
    size_t used = (size_t)snprintf(line, sizeof line, "--work @%s --encodings ", work), rows = 0;
    for (size_t i = 0; i < count; i += test_all() ? 1 : 2)
        used += (size_t)snprintf(line + used, sizeof line - used, "%s%s", rows++ ? "," : "", says[i][0]);
    json_t *root = lab_json(line);
    check_rows(json_object_get(root, "encodings"), rows);
    for (size_t r = 0; r < rows; r++) {
        const char *const *of = says[test_all() ? r : 2 * r];
        char path[128], text[4096];
        snprintf(path, sizeof path, "%s/%s-s1/config.json", work, of[0]);
        read_whole(in_folder(path), text, sizeof text);
        if (!strstr(text, of[1])) fail_msg("%s lacks %s: %s", path, of[1], text);
        for (size_t other = 0; other < r; other++)
            assert_true(perplexity_at(root, "encodings", r, 0) != perplexity_at(root, "encodings", other, 0));
    }
    json_decref(root);
}

/* The rows of docs/questions.md. */
static void rows_of_questions(void **state) {
    (void)state;
    static const char *const says[][2] = {{"rope-dim-8", "\"partial_rotary_factor\": 0.5"},
                                          {"rope-before", "\"rotates_input\": true"},
                                          {"sinusoidal-product", "\"position_form\": \"product\""},
                                          {"sinusoidal-concat", "\"position_form\": \"concatenated\""},
                                          {"t5-shared", "\"shared_tables\": true"},
                                          {"shaw-shared", "\"shared_tables\": true"}};
    check_rows_of("questions", says, sizeof says / sizeof *says);
}

/* Rows whose layers train more than an encoding.  What they export opens in the other subcommands. */
static void rows_of_layer_parts(void **state) {
    (void)state;
    static const char *const says[][2] = {{"nope", "\"nope\""},
                                          {"forgetting", "\"forget_gates\": true"},
                                          {"pope", "\"polar\": true"},
                                          {"trained-frequencies", "\"trained_frequencies\": true"},
                                          {"fope", "\"fourier\": true"},
                                          {"fope-paper", "\"fourier_still\": true"},
                                          {"contextual", "\"contextual\": true"},
                                          {"dape-alibi", "\"adaptive\": \"concat-residual\""},
                                          {"dape-kerple", "\"kerple\""},
                                          {"dape-fire", "\"fire\""}};
    check_rows_of("parts", says, sizeof says / sizeof *says);
}

static void refused_rows(void **state) {
    (void)state;
    assert_fails("lab --force --text @text --preset smoke --work @wide --encodings rope-dim-32", 1, "rope-dim-32: ");
    assert_fails("lab --task posgen --preset questions", 2, "--preset questions: needs --text");
    assert_fails("lab --task posgen --preset small", 2, "--preset small: needs --text");
}

static void wrong_work(void **state) {
    (void)state;
    write_text("other", 21000);
    assert_fails("lab --force --text @other --preset smoke --work @lab", 1, "another text");
    assert_fails("lab --force --text @text --preset smoke --mix 0.5 --work @lab", 1, "another text, preset, mix");
    write_file("lab/lab.json", "{", 1);
    assert_fails("lab --force --text @text --preset smoke --work @lab", 1, "not JSON");
    assert_fails("lab --force --text @text --preset smoke --work @absent/lab", 1, "work folder");
}

/* A page of that name by another program, which nobody named. */
static void default_report(void **state) {
    (void)state;
    char page[64];
    assert_int_equal(mkdir(in_folder("pages"), 0777), 0);
    assert_int_equal(shell("cd pages && echo '<html>pytest' >report.html && $G lab --text ../short --preset smoke 2>err"),
                     2);
    read_whole(in_folder("pages/report.html"), page, sizeof page);
    assert_string_equal(page, "<html>pytest\n");
    assert_int_equal(shell("cd pages && grep -q -e '--report: report.html exists; --force replaces it' err"), 0);
    assert_int_equal(shell("cd pages && $G lab --text ../short --preset smoke --report report.html"), 2);
    /* The next check finds the text too short. */
    assert_int_equal(shell("cd pages && $G lab --text ../short --preset smoke --force 2>err"), 1);
    assert_int_equal(shell("cd pages && grep -q 'text: 10 bytes' err"), 0);
    remove_tree(in_folder("pages"));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(work_folder_of_others),
                                       cmocka_unit_test(default_report),
                                       cmocka_unit_test(tables),
                                       cmocka_unit_test(report_file),
                                       cmocka_unit_test(heat),
                                       cmocka_unit_test(blocks),
                                       cmocka_unit_test(findings),
                                       cmocka_unit_test(quick_of_bundled),

                                       cmocka_unit_test(added_methods),
                                       cmocka_unit_test(stretched_slopes),
                                       cmocka_unit_test(seeds),
                                       cmocka_unit_test(dropped_rotation),
                                       cmocka_unit_test(journal_alone),
                                       cmocka_unit_test(killed),
                                       cmocka_unit_test(json_when_stopped),
                                       cmocka_unit_test(wrong_work),
                                       cmocka_unit_test(rows_of_questions),
                                       cmocka_unit_test(rows_of_layer_parts),
                                       cmocka_unit_test(refused_rows)};
    return cmocka_run_group_tests(tests, make_lab, remove_lab);
}
