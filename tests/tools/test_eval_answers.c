/* test_eval_answers.c: what a page of gyre eval says first, and the name it gives a model. */
#include "run_command.h"

/* The first sentences of a page name a method as the best only if it is. */
static void answers(void **state) {
    (void)state;
    static char page[1 << 21];
    static const struct {
        const char *run, *says;
    } runs[] = {
        {"rope-tuned-yarn-16 --contexts 256,512 --methods none,linear,ntk",
         "<p class=\"lead\">No method is better: <code>ntk</code> has "},
        {"rope --contexts 128 --methods none,yarn", "<p class=\"lead\">No method is better: <code>yarn</code> has "},
        {"rope --contexts 128,512 --methods none,yarn", "<p class=\"lead\">Under <code>yarn</code> it has "},
        {"rope --contexts 128,512 --methods none,yarn", ", which is lower.</p>"},
        {"rope --contexts 128,512 --methods none,linear,yarn", ", the lowest of all rows.</p>"},
        {"rope --contexts 512 --methods yarn:2,yarn", ", as low as any row.</p>"},
    };
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        char line[512];
        snprintf(line, sizeof line,
                 "eval %s --text " GYRE_TEST_DATA "/../LICENSE --windows 3 --by-position 0 --force --report @answer.html",
                 runs[i].run);
        const outcome *o = run(line);
        if (o->exit) fail_msg("%s: %s", line, o->err);
        read_whole(in_folder("answer.html"), page, sizeof page);
        const char *answer = strstr(page, "<p");
        if (!strstr(page, runs[i].says)) fail_msg("%s lacks \"%s\": %.900s", line, runs[i].says, answer ? answer : page);
        if (i < 2) assert_null(strstr(page, "the lowest of all rows"));
    }
}

/* A bundled model is called what the user called it. */
static void bundled_name_is_shown(void **state) {
    (void)state;
    json_t *root = run_json("eval rope --text @text --contexts 32 --windows 3 --json");
    assert_string_equal(test_string(root, "model"), "rope");
    assert_string_equal(test_string(json_object_get(json_object_get(root, "card"), "model"), "path"), "rope");
    json_decref(root);
    const outcome *o = run("eval rope --text @text --contexts 32 --windows 3");
    assert_non_null(strstr(o->out, "model     rope: rope, "));
    assert_non_null(strstr(o->out, "card: model rope fnv1a64:"));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(answers), cmocka_unit_test(bundled_name_is_shown)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
