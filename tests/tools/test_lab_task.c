/* test_lab_task.c: gyre lab --task and --encodings from outside, at a tiny size: the same results with any number of
 * threads, from the journal, and after a kill. */
#include "run_command.h"
#include <string.h>

static json_t *task_json(const char *more) {
    char line[256];
    snprintf(line, sizeof line, "lab --preset smoke --json --force --report @report.html %s", more);
    const outcome *o = run(line);
    if (o->exit) fail_msg("gyre %s: exit %d (signal %d): %s", line, o->exit, o->signal, o->err);
    json_t *root = json_load_file(in_folder(".out"), 0, NULL); /* more than an outcome can store */
    assert_non_null(root);
    json_object_del(root, "seconds");
    return root;
}

static json_t *row_at(const json_t *root, const char *part, size_t i) {
    return json_array_get(json_object_get(root, part), i);
}

static const json_t *result_of(const json_t *row, size_t rule) {
    return json_array_get(json_object_get(row, "results"), rule);
}

static int64_t asked(const json_t *result, const char *where) {
    return json_integer_value(json_object_get(json_object_get(result, where), "asked"));
}

/* Fractions are relative to what was asked; points sum up to inside and outside. */
static void check_result(const json_t *result, double trained) {
    const json_t *points = json_object_get(result, "points");
    int64_t sums[2] = {0, 0};
    assert_true(json_array_size(points) > 0);
    for (size_t p = 0; p < json_array_size(points); p++) {
        const json_t *point = json_array_get(points, p);
        const int inside = json_number_value(json_object_get(point, "at")) < trained;
        const json_t *share = json_object_get(point, "accuracy");
        const int64_t n = json_integer_value(json_object_get(point, "asked"));
        sums[inside] += n;
        assert_int_equal(json_is_null(share), n == 0);
        assert_true(json_is_null(share) || (json_number_value(share) >= 0 && json_number_value(share) <= 1));
    }
    assert_int_equal(sums[1], asked(result, "inside"));
    assert_int_equal(sums[0], asked(result, "outside"));
}

static void posgen(void **state) {
    (void)state;
    json_t *root = task_json("--task posgen --work @posgen --threads 2");
    assert_int_equal(json_array_size(json_object_get(root, "encodings")), 6);
    assert_true(json_array_size(json_object_get(root, "methods")) >= 4);
    for (size_t e = 0; e < 6; e++) {
        const json_t *row = row_at(root, "encodings", e);
        const int learned = strcmp(json_string_value(json_object_get(row, "name")), "learned") == 0;
        assert_int_equal(json_array_size(json_object_get(row, "results")), 3);
        for (size_t rule = 0; rule < 3; rule++) {
            check_result(result_of(row, rule), 64);
            assert_int_equal(asked(result_of(row, rule), "inside"), 10 * 60); /* 64 less the four that are drawn */
            assert_int_equal(asked(result_of(row, rule), "outside"), learned ? 0 : 10 * 192);
        }
    }
    json_t *again = task_json("--task posgen --work @posgen");
    assert_true(json_equal(root, again)); /* from the journal */
    json_decref(again);
    again = task_json("--task posgen --work @posgen-one --threads 1");
    assert_true(json_equal(root, again));
    json_decref(again);
    json_decref(root);
}

static void copy(void **state) {
    (void)state;
    json_t *root = task_json("--task copy --encodings rope,learned --seeds 2 --work @copy");
    assert_int_equal(json_array_size(json_object_get(root, "encodings")), 2);
    assert_int_equal(json_integer_value(json_object_get(root, "seeds")), 2);
    const json_t *rope = result_of(row_at(root, "encodings", 0), 0), *learned = result_of(row_at(root, "encodings", 1), 0);
    check_result(rope, 64);
    check_result(learned, 64);
    /* Eight tokens of each of ten sequences and two seeds, at 5 distances inside and 6 outside. */
    assert_int_equal(asked(rope, "inside"), 5 * 160);
    assert_int_equal(asked(rope, "outside"), 6 * 160);
    assert_int_equal(asked(learned, "inside"), 5 * 160);
    assert_int_equal(asked(learned, "outside"), 0);
    /* A quarter of the samples of two seeds has one of them twice: the interval ends at them. */
    const json_t *inside = json_object_get(rope, "inside"), *interval = json_object_get(inside, "interval");
    assert_true(json_equal(json_array_get(interval, 0), json_object_get(inside, "least")));
    assert_true(json_equal(json_array_get(interval, 1), json_object_get(inside, "greatest")));
    assert_true(json_is_null(json_object_get(json_object_get(learned, "outside"), "interval")));
    /* Other encodings continue in the same folder. Without plain RoPE there is nothing to extend. */
    json_t *more = task_json("--task copy --encodings alibi,learned --seeds 2 --work @copy");
    assert_int_equal(json_array_size(json_object_get(more, "methods")), 0);
    assert_true(json_equal(row_at(root, "encodings", 1), row_at(more, "encodings", 1)));
    json_decref(more);
    json_decref(root);
}

static void page(void **state) {
    (void)state;
    static char text[1 << 23];
    const outcome *o = run("lab --task posgen --preset smoke --work @posgen --force --report @report.html");
    assert_int_equal(o->exit, 0);
    assert_non_null(strstr(o->out, "chain of thought"));
    assert_non_null(strstr(o->out, "yarn+resonance"));
    assert_non_null(strstr(o->out, "600 inside and 1920 outside"));
    read_whole(in_folder("report.html"), text, sizeof text);
    static const char *const holds[] = {"semi-recursive", "under every method", "By position", "<svg", "</html>"};
    for (size_t i = 0; i < sizeof holds / sizeof *holds; i++)
        if (!strstr(text, holds[i])) fail_msg("report.html lacks \"%s\"", holds[i]);
}

/* Killed several times and resumed: the final numbers are the same. */
static void killed(void **state) {
    (void)state;
    outcome o;
    for (int i = 1; i <= 6; i++) {
        const pid_t child =
            start("lab --task posgen --preset smoke --json --force --report @report.html --work @killed", in_folder("out"));
        nanosleep(&(struct timespec){.tv_nsec = i * 40000000}, NULL);
        (void)kill(child, SIGKILL);
        finish(child, &o);
    }
    json_t *root = task_json("--task posgen --work @killed"), *whole = task_json("--task posgen --work @posgen");
    assert_true(json_equal(root, whole));
    json_decref(root);
    json_decref(whole);
}

/* Ctrl-C in the middle: one line, a folder that can be resumed, no half-written report. */
static void interrupted(void **state) {
    (void)state;
    outcome o;
    struct stat is;
    const pid_t child = start("lab --task copy --report @cut.html --work @cut", in_folder("out"));
    for (int i = 0; i < 1000 && stat(in_folder("cut/lab.json"), &is) != 0; i++)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
    assert_int_equal(kill(child, SIGINT), 0);
    finish(child, &o);
    assert_int_equal(o.exit, 130);
    assert_non_null(strstr(o.err, "stopped: the same command continues"));
    assert_int_equal(stat(in_folder("cut.html"), &is), -1);
    assert_int_equal(stat(in_folder("cut/copy-nope-s1/optimizer.safetensors"), &is), 0);
}

/* The lab on a text, with a given list. */
static void encodings(void **state) {
    (void)state;
    json_t *root = task_json("--text @text --encodings alibi,nope --work @lab");
    assert_int_equal(json_array_size(json_object_get(root, "encodings")), 2);
    assert_string_equal(json_string_value(json_object_get(row_at(root, "encodings", 0), "name")), "alibi");
    assert_int_equal(json_array_size(json_object_get(root, "methods")), 0);
    assert_int_equal(json_array_size(json_object_get(root, "fine_tuned")), 0);
    json_error_t why;
    json_t *plan = json_load_file(in_folder("lab/lab.json"), 0, &why);
    const json_t *kept = json_object_get(plan, "encodings");
    assert_int_equal(json_array_size(kept), 2);
    assert_string_equal(json_string_value(json_array_get(kept, 1)), "nope");
    json_decref(plan);
    json_t *other = task_json("--text @text --encodings nope,rope --work @lab"); /* one of them is trained already */
    assert_true(json_equal(row_at(root, "encodings", 1), row_at(other, "encodings", 0)));
    assert_int_equal(json_array_size(json_object_get(other, "methods")), 15);
    json_decref(other);
    json_decref(root);
    static char text[1 << 23];
    assert_int_equal(run("lab --text @text --preset smoke --encodings alibi,nope --work @lab --report @two.html")->exit, 0);
    read_whole(in_folder("two.html"), text, sizeof text);
    assert_non_null(strstr(text, "Perplexity by encoding"));
    assert_null(strstr(text, "What the methods do"));
}

static void wrong_lists(void **state) {
    (void)state;
    assert_fails("lab --text @text --encodings ropes", 2, "\"ropes\": none of nope, learned, sinusoidal, rope, alibi");
    assert_fails("lab --text @text --encodings ropes", 2, "rope+resonance");
    assert_fails("lab --text @text --encodings ropes", 2, ", dape-fire (try gyre lab --help)"); /* whole */
    assert_fails("train --text @text -o @x --encoding zzz", 2, ", dape-fire (try gyre train --help)");
    assert_fails("lab --text @text --encodings rope,", 2, "\"\": none of");
    assert_fails("lab --text @text --encodings rope,all", 2, "\"all\": none of");
    assert_fails("lab --text @text --encodings rope,alibi,rope", 2, "rope: is given twice");
    assert_fails("lab --encodings all", 2, "name a text to train it on with --text");
    assert_fails("lab --encodings rope,xpos", 2, "no model of xpos comes with gyre");
    assert_fails("lab --task posgen --text @text", 2, "--task: contradicts --text");
    assert_fails("lab --task posgen --mix 0.5", 2, "--mix: a task has no text");
    assert_fails("lab --task sorting", 2, "one of posgen, copy");
    assert_fails("lab --task copy --seeds 0", 2, "--seeds: 0 is below 1");
    assert_fails("lab --seeds 2", 2, "nothing is trained without");
    assert_fails("lab --force --task copy --preset smoke --work @posgen", 1, "another text, preset, mix, task");
    assert_fails("lab --force --task posgen --work @posgen", 1, "another text, preset");
    assert_fails("lab --task posgen --preset smoke --work @w --report @absent/r.html", 1, "report");
    assert_fails("train --text @text -o @none --encoding kerpel", 2, "kerple-power");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(posgen),      cmocka_unit_test(copy),      cmocka_unit_test(page),       cmocka_unit_test(killed),
        cmocka_unit_test(interrupted), cmocka_unit_test(encodings), cmocka_unit_test(wrong_lists)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
