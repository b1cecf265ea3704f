/* test_lab_progress.c: what gyre lab says on stderr about the rows to come, and those that are measured; and of a figure. */
#include "kept_files.h"

static int make_text(void **state) {
    if (make_folder(state)) return -1;
    write_text("text", 20000);
    return 0;
}

/* What is still to be done is said before it begins, and how long that takes here. */
static void duration(void **state) {
    (void)state;
    const outcome *o = run("lab --text @text --preset smoke --work @timed --encodings nope --force --report @report.html");
    assert_int_equal(o->exit, 0);
    const char *said = strstr(o->err, "gyre lab: 1 row to measure at 32 to 512 bytes, about ");
    assert_non_null(said);
    double number = 0;
    assert_int_equal(sscanf(strstr(said, "about "), "about %lf ", &number), 1);
    assert_true(number >= 1);
    o = run("lab --text @text --preset smoke --work @timed --encodings nope --force --report @report.html");
    assert_int_equal(o->exit, 0);
    assert_null(strstr(o->err, "about "));
}

/* stderr gets a line for each row that is announced.  Rows of two tables with the same name have different labels. */
static void progress_lines(void **state) {
    (void)state;
    const outcome *o = run("lab --text @text --preset smoke --encodings rope,alibi --add-method alibi-ntk --work @lines "
                           "--report @lines.html");
    assert_int_equal(o->exit, 0);
    int announced = 0, lines = 0;
    const char *said = strstr(o->err, "gyre lab: ");
    assert_non_null(said);
    assert_int_equal(sscanf(said, "gyre lab: %d rows to measure at 32 to 512 bytes, about ", &announced), 1);
    for (const char *line = said; (line = strstr(line, "\ngyre: ")); line++) {
        const char *end = strchr(line + 1, '\n');
        const char *step = strstr(line, ": step "),
                   *cell = strstr(line, " at "); /* of a minute of work, on a slow machine */
        lines += !(step && step < end) && !(cell && cell < end);
    }
    assert_int_equal(lines, announced);
    assert_non_null(strstr(o->err, "\ngyre: yarn: "));
    assert_non_null(strstr(o->err, "\ngyre: yarn:16, fine-tuned: "));
    assert_non_null(strstr(o->err, "\ngyre: ntk, ALiBi: "));
    assert_non_null(strstr(o->err, "\ngyre: drope: "));
}

/* The caption of a figure says what holds for its lines: here none and ntk, in one picture. */
static void caption_of_two_lines(void **state) {
    (void)state;
    static char page[1 << 23];
    read_whole(in_folder("lines.html"), page, sizeof page);
    char *figure = strstr(page, "Perplexity by method, the ALiBi model");
    assert_non_null(figure);
    const char *panel = strstr(figure, "steep slopes less than gentle ones"); /* slopes are no pairs */
    figure = strstr(figure, "<figcaption");
    assert_non_null(figure);
    assert_true(panel && panel < figure);
    *strstr(figure, "</figure>") = 0;
    assert_non_null(strstr(figure, "Each method follows the context."));
    assert_null(strstr(figure, "static"));
    assert_null(strstr(figure, "Grey"));
    assert_null(strstr(figure, "dynamic"));
}

/* A row is printed while the lab goes on, and Ctrl-C keeps it.  What says how far the work is does not mix with the rows. */
static void rows_at_once(void **state) {
    (void)state;
    static char page[1 << 23];
    outcome o;
    const pid_t child = start("lab --text @text --preset smoke --encodings all --force --report @cut.html --work @lab-rows",
                              in_folder("rows"));
    if (!wait_for_text("rows", "\nnope ", child)) fail_msg("no row before the end");
    assert_int_equal(kill(child, SIGINT), 0);
    finish(child, &o);
    read_whole(in_folder("rows"), o.out, sizeof o.out);
    assert_int_equal(o.exit, 130);
    assert_non_null(strstr(o.out, "encoding  ")); /* the head comes first */
    assert_true(strstr(o.out, "encoding  ") < strstr(o.out, "\nnope "));
    assert_null(strstr(o.out, "fine-tuned"));
    assert_non_null(strstr(o.out, "report: "));
    assert_non_null(strstr(o.err, " rows are complete, the others are missing here and in the report"));
    assert_non_null(strstr(o.err, "the same command with --force continues from here"));
    assert_non_null(strstr(o.err, " left\n"));
    assert_null(strstr(o.out, " left\n"));
    read_whole(in_folder("cut.html"), page, sizeof page);
    assert_non_null(strstr(page, "The run was stopped: "));
    assert_non_null(strstr(page, "nope"));
}

/* --preset methods: one model, at every context of the lab, and nothing is trained. */
static void methods_of_bundled(void **state) {
    (void)state;
    outcome o;
    const pid_t child = start("lab --preset methods --force --report @methods.html", in_folder("methods"));
    if (!wait_for_text("methods", "\nnone ", child)) fail_msg("no method first");
    assert_int_equal(kill(child, SIGINT), 0);
    finish(child, &o);
    read_whole(in_folder("methods"), o.out, sizeof o.out);
    assert_int_equal(o.exit, 130);
    assert_non_null(strstr(o.err, "gyre lab: 9 rows to measure at 256 to 4096 bytes, about ")); /* ntk:16 is ntk's last */
    assert_null(strstr(o.out, "encoding  "));
    assert_non_null(strstr(o.out, "4096"));
    assert_fails("lab --preset methods --text @text", 2, "--preset methods: measures a bundled model");
    assert_fails("lab --preset methods --task copy", 2, "--preset methods: measures a bundled model");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(duration), cmocka_unit_test(progress_lines),
                                       cmocka_unit_test(caption_of_two_lines), cmocka_unit_test(methods_of_bundled),
                                       cmocka_unit_test(rows_at_once)};
    return cmocka_run_group_tests(tests, make_text, remove_folder);
}
