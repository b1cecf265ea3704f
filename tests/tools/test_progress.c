/* test_progress.c: the lines that say how far the work is where stderr is no terminal. */
#include "temp_folder.h"
#include "tools/cli/cli_progress.h"

#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

/* text[0 .. size - 1] = what the progress of some work prints on a stderr that is a file: `steps` of 10, the last one
 * `seconds` after the line before. */
static void print_progress(int64_t steps, long seconds, char *text, size_t size) {
    const char *path = in_folder("stderr");
    const int kept = dup(STDERR_FILENO), file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0666);
    assert_true(kept >= 0 && file >= 0);
    fflush(stderr);
    assert_true(dup2(file, STDERR_FILENO) >= 0);
    cli_progress progress;
    cli_progress_begin(&progress, "eval", "tokens", 10);
    progress.started.tv_sec -= seconds;
    progress.last_drawn.tv_sec -= seconds;
    cli_progress_label(&progress, "yarn at %d", 512);
    cli_progress_step(&progress, steps, 10);
    cli_progress_step(&progress, 0, 10);
    cli_progress_end(&progress);
    fflush(stderr);
    assert_true(dup2(kept, STDERR_FILENO) >= 0);
    const ssize_t count = pread(file, text, size - 1, 0);
    assert_true(count >= 0);
    text[count] = 0;
    close(kept);
    close(file);
}

/* Every command has these lines: none within ten seconds, then one, with the time that the rest takes. */
static void one_line_every_ten_seconds(void **state) {
    (void)state;
    char text[256];
    print_progress(4, 2, text, sizeof text);
    assert_string_equal(text, "");
    print_progress(4, 20, text, sizeof text);
    assert_string_equal(text, "gyre: yarn at 512: 40%, 0:30 left\n");
}

/* Work in parts: a line at the end of each, none within it, and none for a part of which everything was known. */
static void one_line_for_each_part(void **state) {
    (void)state;
    const char *path = in_folder("stderr");
    char text[256];
    const int kept = dup(STDERR_FILENO), file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0666);
    assert_true(kept >= 0 && file >= 0);
    fflush(stderr);
    assert_true(dup2(file, STDERR_FILENO) >= 0);
    cli_progress progress;
    cli_progress_begin(&progress, "lab", NULL, 10);
    cli_progress_by_part(&progress, INFINITY);
    progress.started.tv_sec -= 60;
    progress.last_drawn.tv_sec -= 60;
    static const struct {
        const char *name;
        int64_t steps[2];
    } parts[] = {{"rope", {1, 2}}, {"ntk", {0, 0}}, {"yarn", {1, 1}}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        cli_progress_label(&progress, "%s", parts[i].name);
        for (int k = 0; k < 2; k++)
            cli_progress_step(&progress, parts[i].steps[k], 10);
        cli_progress_mark(&progress);
    }
    cli_progress_end(&progress);
    fflush(stderr);
    assert_true(dup2(kept, STDERR_FILENO) >= 0);
    const ssize_t count = pread(file, text, sizeof text - 1, 0);
    assert_true(count >= 0);
    text[count] = 0;
    close(kept);
    close(file);
    assert_string_equal(text, "gyre: rope: 30%, 2:20 left\ngyre: yarn: 50%, 1:00 left\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_line_every_ten_seconds),
                                       cmocka_unit_test(one_line_for_each_part)};
    return cmocka_run_group_tests(tests, make_empty_folder, remove_folder);
}
