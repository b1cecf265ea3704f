/* test_extend_journal.c: gyre extend --text continues from its journal after a kill. */
#include "extend_models.h"
#include <math.h>

#define EXTEND "extend @rope --text @text --windows 4 --methods linear,yarn,ntk:1"
#define TO_128 EXTEND " --to 128 --json"

static char *file_text(const char *name) {
    char *text = malloc(1 << 20);
    assert_non_null(text);
    read_whole(in_folder(name), text, 1 << 20);
    return text;
}

/* out = the end of a text's first lines. */
static size_t end_of_lines(const char *text, int lines) {
    const char *end = text;
    for (; lines; lines--)
        end += strcspn(end, "\n") + 1;
    return (size_t)(end - text);
}

static int lines_of(const char *text) {
    int lines = 0;
    for (const char *c = text; *c; c++)
        lines += *c == '\n';
    return lines;
}

/* Four methods, none among them, near and far. */
static void continues_after_a_kill(void **state) {
    (void)state;
    json_decref(run_json(TO_128));
    char *alone = file_text(".out");
    json_decref(run_json(TO_128 " --journal @killed"));
    char *whole = file_text(".out"), *journal = file_text("killed");
    assert_string_equal(whole, alone);
    assert_int_equal(lines_of(journal), 8);
    for (int kept = 0; kept < 8; kept++) {
        const size_t end = end_of_lines(journal, kept);
        write_file("killed", journal, end + strcspn(journal + end, "\n") / 2); /* half of the line that was being written */
        json_decref(run_json(TO_128 " --journal @killed --resume"));
        char *again = file_text(".out"), *continued = file_text("killed");
        assert_string_equal(again, whole);
        assert_memory_equal(continued, journal, end);
        free(again);
        free(continued);
    }
    free(alone);
    free(whole);
    free(journal);
}

/* SIGKILL while it measures: what is in the journal is whole, and the same command ends as if it had not been killed. */
static void continues_after_sigkill(void **state) {
    (void)state;
    static outcome o;
    static const char command[] =
        "extend @rope --to 2k --text @long --windows 24 --methods linear,yarn --json --journal @real";
    char resume[sizeof command + 16];
    write_text("long", 1 << 18);
    const pid_t child = start(command, in_folder(".killed"));
    struct stat info = {.st_size = 0};
    for (int i = 0; i < 2000 && (stat(in_folder("real"), &info) || !info.st_size); i++)
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    assert_int_equal(kill(child, SIGKILL), 0);
    finish(child, &o);
    snprintf(resume, sizeof resume, "%s --resume", command);
    json_decref(run_json(resume));
    char *resumed = file_text(".out");
    assert_int_equal(remove(in_folder("real")), 0);
    json_decref(run_json(command));
    char *whole = file_text(".out");
    assert_string_equal(resumed, whole);
    free(resumed);
    free(whole);
}

/* Writes another loss into each cell. */
static void forge(const char *name) {
    char *text = file_text(name), *rest = text;
    FILE *file = fopen(in_folder(name), "w");
    assert_non_null(file);
    for (char *line; (line = strtok_r(rest, "\n", &rest));) {
        size_t i;
        json_t *json = json_loads(line, 0, NULL), *nats = json_object_get(json_object_get(json, "figures"), "nats"), *loss;
        assert_int_equal(json_array_size(nats), 4);
        json_array_foreach(nats, i, loss) assert_int_equal(json_real_set(loss, 2.5 + 0.01 * (double)i), 0);
        assert_int_equal(json_dumpf(json, file, JSON_REAL_PRECISION(17)), 0);
        assert_int_equal(fputc('\n', file), '\n');
        json_decref(json);
    }
    assert_int_equal(fclose(file), 0);
    free(text);
}

/* A changed number shows in the page: the cell was not measured again. */
static void known_cells_are_not_measured_again(void **state) {
    (void)state;
    size_t i;
    json_t *row;
    json_decref(run_json(TO_128 " --journal @known"));
    forge("known");
    json_t *v = verdict_of(TO_128 " --journal @known --resume --budget 1s");
    const json_t *methods = json_object_get(json_object_get(v, "cost"), "methods");
    assert_int_equal(json_array_size(methods), 4);
    json_array_foreach(methods, i, row) {
        test_close(test_number(json_object_get(row, "near"), "nats"), 2.515, 1e-12, "near");
        test_close(test_number(json_object_get(row, "far"), "nats"), 2.515, 1e-12, "far");
    }
    json_decref(v);
    /* linear:4 is not in the journal, and has the encoding of a later row that is. */
    v = verdict_of(
        "extend @rope --text @text --windows 4 --methods linear:4,linear --to 128 --json --journal @known --resume");
    methods = json_object_get(json_object_get(v, "cost"), "methods");
    test_close(test_number(json_object_get(json_array_get(methods, 1), "far"), "nats"), 2.515, 1e-12, "shared");
    json_decref(v);
}

/* Cells of another length, text, model or option are others. */
static void other_runs_measure_again(void **state) {
    (void)state;
    static const char *const others[] = {EXTEND " --to 256 --json",
                                         EXTEND " --to 128 --trained 16 --json",
                                         EXTEND " --to 128 --beta-fast 8 --json",
                                         EXTEND " --to 128 --as hf-4.56 --json",
                                         EXTEND " --to 128 --text @texts/a --json",
                                         "extend @rope --text @text --windows 3 --methods yarn --to 128 --json",
                                         "extend @other --text @text --windows 4 --methods yarn --to 128 --json"};
    assert_int_equal(run("convert @rope -o @other --dtype f16")->exit, 0);
    json_decref(run_json(TO_128 " --journal @of-one"));
    forge("of-one");
    char *journal = file_text("of-one");
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char line[400];
        json_decref(run_json(others[i]));
        char *alone = file_text(".out");
        write_file("of-one", journal, strlen(journal));
        snprintf(line, sizeof line, "%s --journal @of-one --resume", others[i]);
        json_decref(run_json(line));
        char *beside = file_text(".out");
        assert_string_equal(beside, alone);
        free(alone);
        free(beside);
    }
    free(journal);
}

static void wrong_use(void **state) {
    (void)state;
    assert_fails("extend @rope --to 64 --journal @none", 2, "--journal: nothing is measured without --text");
    assert_fails("extend @rope --to 64 --text @text --resume", 2, "needs the --journal to go on from");
    json_decref(run_json(TO_128 " --journal @mine"));
    char *before = file_text("mine");
    assert_fails(TO_128 " --journal @mine", 1, "--resume continues from them, --force replaces them");
    char *after = file_text("mine");
    assert_string_equal(after, before);
    free(before);
    free(after);
    assert_fails(TO_128 " --journal @text --force", 2, "--journal: ");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(continues_after_a_kill), cmocka_unit_test(continues_after_sigkill),
                                       cmocka_unit_test(known_cells_are_not_measured_again),
                                       cmocka_unit_test(other_runs_measure_again), cmocka_unit_test(wrong_use)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
