/* test_explain_check.c: gyre explain --check finds the layout that weights were trained with: on the bundled model, and on
 * the same model with permuted rows and an unchanged config. */
#include "run_command.h"
#include "tools/cli/cli_error.h"
#include "tools/explain/explain_check.h"

#include <math.h>

#define ROPE GYRE_TEST_DATA "/../models/rope"
/* A text that never changes, once a header of Gyre: what it proves of a model depends on it. */
#define TEXT GYRE_TEST_DATA "/texts/header.txt"

static json_t *checked(const char *line) {
    json_t *root = run_json(line), *check = json_object_get(root, "check");
    assert_non_null(check);
    json_incref(check);
    json_decref(root);
    return check;
}

static void copy_config(const char *from, const char *to) {
    char text[4096], path[512];
    snprintf(path, sizeof path, "%s/config.json", from);
    read_whole(path, text, sizeof text);
    write_file(to, text, strlen(text));
}

/* Expects the perplexities that gyre eval computes on the same windows. */
static void test_trained_as_configured(void **state) {
    (void)state;
    json_t *check = checked("explain " ROPE " --check " TEXT " --json");
    assert_string_equal(test_string(check, "verdict"), "agrees");
    assert_string_equal(test_string(check, "trained"), "half");
    assert_string_equal(test_string(check, "file"), "half");
    assert_int_equal(test_integer(check, "windows"), 8);
    assert_int_equal(test_integer(check, "context"), 256);
    assert_int_equal(test_integer(check, "half_better"), 8);
    test_close(test_number(check, "chance"), 2.0 / 256, 1e-12, "chance");
    double by_window[8], mean = 0;
    assert_int_equal(test_numbers(check, "half_by_window", by_window, 8), 8);
    for (int i = 0; i < 8; i++)
        mean += log(by_window[i]) / 8;
    test_close(test_number(check, "half"), exp(mean), 1e-9 * exp(mean), "half");
    assert_true(test_number(check, "interleaved") > 2 * test_number(check, "half"));
    json_decref(check);
    const outcome *o = run("explain " ROPE " --check " TEXT);
    assert_int_equal(o->exit, 0);
    assert_non_null(strstr(o->out, "trained with half, as the file says"));
}

static void test_trained_differently(void **state) {
    (void)state;
    assert_int_equal(run("convert " ROPE " -o @moved --layout interleaved")->exit, 0);
    assert_non_null(strstr(run("explain @moved --check " TEXT)->out, "trained with interleaved, as the file says"));
    copy_config(ROPE, "moved/config.json");
    json_t *check = checked("explain @moved --check " TEXT " --json"), *good;
    assert_string_equal(test_string(check, "verdict"), "disagrees");
    assert_string_equal(test_string(check, "trained"), "interleaved");
    assert_string_equal(test_string(check, "file"), "half");
    /* The values of the previous model, swapped. */
    good = checked("explain " ROPE " --check " TEXT " --json");
    test_close(test_number(check, "interleaved"), test_number(good, "half"), 1e-3, "interleaved");
    json_decref(check);
    json_decref(good);
    const outcome *o = run("explain @moved --check " TEXT);
    assert_non_null(strstr(o->out, "WRONG LAYOUT: the file says half, the weights were trained with interleaved"));
    assert_non_null(strstr(o->out, "--from-layout interleaved"));
    /* ... and the command that it suggests repairs the model. */
    assert_int_equal(run("convert @moved -o @mended --from-layout interleaved")->exit, 0);
    assert_non_null(strstr(run("explain @mended --check " TEXT)->out, "trained with half, as the file says"));
}

/* Halves mistaken for interleaved pairs and permuted again are in neither layout; one of two wrong readings is better. */
static void test_moved_twice(void **state) {
    (void)state;
    assert_int_equal(run("convert " ROPE " -o @twice --from-layout interleaved")->exit, 0);
    json_t *check = checked("explain @twice --check " TEXT " --json");
    assert_string_equal(test_string(check, "verdict"), "undecided");
    assert_non_null(strstr(test_string(check, "why"), "permuted twice"));
    json_decref(check);
    /* The repair: back through the other format, which is then declared as halves. */
    assert_int_equal(run("convert @twice -o @twice.gguf")->exit, 0);
    assert_int_equal(run("convert @twice.gguf -o @once --from-layout half")->exit, 0);
    assert_non_null(strstr(run("explain @once --check " TEXT)->out, "trained with half, as the file says"));
}

/* Three quarters of the draws are covered, since one token was seen once. If all were, nothing could be concluded. */
static void test_blind(void **state) {
    (void)state;
    int32_t some[] = {1, 1, 1, 2}, all[] = {0, 1, 2, 3};
    const double a = 0.75 * 0.75, b = 0.75 * 0.25;
    double nats;
    gyre_error err = {0, ""};
    assert_int_equal(explain_check_unigram_entropy(&(gyre_text){.ids = some, .count = 4}, 256, &nats, &err), GYRE_OK);
    test_close(nats, -a * log(a) / (1 - pow(1 - a, 4)) - b * log(b) / (1 - pow(1 - b, 4)), 1e-12, "Chao and Shen");
    assert_int_equal(explain_check_unigram_entropy(&(gyre_text){.ids = all, .count = 4}, 256, &nats, &err), GYRE_OK);
    test_close(nats, log(256), 1e-12, "nothing seen twice");
}

static void test_card(void **state) {
    (void)state;
    json_t *check = checked("explain " ROPE " --check " TEXT " --json");
    const json_t *card = json_object_get(check, "card");
    assert_non_null(strstr(test_string(json_object_get(card, "model"), "hash"), "fnv1a64:"));
    assert_int_equal(json_array_size(json_object_get(card, "texts")), 1);
    json_decref(check);
    assert_non_null(strstr(run("explain " ROPE " --check " TEXT)->out, "\ncard: model "));
}

static void test_gguf(void **state) {
    (void)state;
    assert_int_equal(run("convert " ROPE " -o @rope.gguf")->exit, 0);
    json_t *check = checked("explain @rope.gguf --check " TEXT " --json");
    assert_string_equal(test_string(check, "verdict"), "agrees");
    assert_string_equal(test_string(check, "trained"), "interleaved");
    json_decref(check);
}

static void test_nothing_to_check(void **state) {
    (void)state;
    json_t *check = checked("explain @alibi --check @text --json");
    assert_string_equal(test_string(check, "verdict"), "nothing");
    assert_non_null(strstr(test_string(check, "why"), "alibi"));
    json_decref(check);
    check = checked("explain @learned --check @text --json");
    assert_string_equal(test_string(check, "verdict"), "nothing");
    json_decref(check);
    /* Random weights predict nothing in either layout. */
    check = checked("explain @rope --check @text --json");
    assert_string_equal(test_string(check, "verdict"), "undecided");
    assert_true(json_is_null(json_object_get(check, "trained")));
    json_decref(check);
    assert_fails("explain @rope --check @short", CLI_FAILED, "10");
    assert_fails("explain @rope --check @missing", CLI_FAILED, "missing");
}

/* -- the rule, on figures made by hand -- */
static explain_check judged(int64_t half_wins, double gain, gyre_layout file) {
    explain_check c = {.file = file, .windows = CHECK_WINDOWS};
    for (int64_t i = 0; i < CHECK_WINDOWS; i++) {
        c.window_nats[0][i] = 2.0;
        c.window_nats[1][i] = i < half_wins ? 2.0 + gain : 2.0 - gain;
    }
    explain_check_decide(&c, log(256));
    return c;
}

static void test_rule(void **state) {
    (void)state;
    assert_int_equal(judged(8, 1, GYRE_LAYOUT_HALF).verdict, CHECK_AGREES);
    assert_int_equal(judged(8, 1, GYRE_LAYOUT_INTERLEAVED).verdict, CHECK_DISAGREES);
    assert_int_equal(judged(0, 1, GYRE_LAYOUT_HALF).verdict, CHECK_DISAGREES);
    assert_int_equal(judged(0, 1, GYRE_LAYOUT_INTERLEAVED).verdict, CHECK_AGREES);
    assert_int_equal(judged(7, 1, GYRE_LAYOUT_HALF).verdict, CHECK_UNDECIDED); /* 18 of 256 texts */
    test_close(judged(7, 1, GYRE_LAYOUT_HALF).p_value, 18.0 / 256, 1e-15, "chance of 7");
    test_close(judged(4, 1, GYRE_LAYOUT_HALF).p_value, 1, 1e-15, "chance of 4");
    assert_int_equal(judged(8, 0.009, GYRE_LAYOUT_HALF).verdict, CHECK_UNDECIDED); /* all windows, with a tiny difference */
    assert_int_equal(judged(8, 0.011, GYRE_LAYOUT_HALF).verdict, CHECK_AGREES);
    explain_check c = judged(8, 1, GYRE_LAYOUT_HALF);
    explain_check_decide(&c, 1.9); /* below 2 nats: a model that ignores order does better */
    assert_int_equal(c.verdict, CHECK_UNDECIDED);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trained_as_configured),
        cmocka_unit_test(test_trained_differently),
        cmocka_unit_test(test_moved_twice),
        cmocka_unit_test(test_blind),
        cmocka_unit_test(test_card),
        cmocka_unit_test(test_gguf),
        cmocka_unit_test(test_nothing_to_check),
        cmocka_unit_test(test_rule),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
