/* test_lab_progress.c: what gyre lab says on stderr about the rows to come, and those that are measured. */
#include "kept_files.h"

static int make_text(void **state) {
    if (make_folder(state)) return -1;
    write_text("text", 20000);
    return 0;
}

/* What is still to be done is said before it begins, and how long that takes here. */
static void duration(void **state) {
    (void)state;
    const outcome *o = run("lab --text @text --preset smoke --work @timed --encodings nope --report @report.html");
    assert_int_equal(o->exit, 0);
    const char *said = strstr(o->err, "gyre lab: 1 row to measure at 32 to 512 bytes, about ");
    assert_non_null(said);
    double number = 0;
    assert_int_equal(sscanf(strstr(said, "about "), "about %lf ", &number), 1);
    assert_true(number >= 1);
    o = run("lab --text @text --preset smoke --work @timed --encodings nope --report @report.html");
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

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(duration), cmocka_unit_test(progress_lines)};
    return cmocka_run_group_tests(tests, make_text, remove_folder);
}
