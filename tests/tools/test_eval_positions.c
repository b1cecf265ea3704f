/* test_eval_positions.c: gyre eval --first-position: the loss of a model whose windows begin elsewhere. */
#include "model/model.h"
#include "run_command.h"
#include <math.h>

static double perplexity_from(const char *model, const char *first) {
    char line[200];
    snprintf(line, sizeof line, "eval @%s --text @text --contexts 32 --windows 4 --json%s", model, first);
    json_t *root = run_json(line);
    const double found =
        json_number_value(json_object_get(json_array_get(json_object_get(root, "results"), 0), "perplexity"));
    json_decref(root);
    return found;
}

/* A score that sees only distances does not change when all positions move; one that sees a code of each position does.  A
 * journal keeps the two apart. */
static void positions_from_elsewhere(void **state) {
    (void)state;
    static const char *const kept[] = {"rope", "alibi", "nope"};
    write_model("nope", GYRE_KIND_NOPE);
    write_model("waves", GYRE_KIND_SINUSOIDAL);
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        test_close(perplexity_from(kept[i], " --first-position 100000"), perplexity_from(kept[i], ""), 1e-4, kept[i]);
    const double here = perplexity_from("waves", ""), there = perplexity_from("waves", " --first-position 100000");
    if (fabs(there / here - 1) < 1e-3) fail_msg("sinusoidal: %g at 100000 and %g at 0", there, here);
    json_t *past = run_json("eval @learned --text @text --contexts 32 --windows 2 --json --first-position 100000");
    assert_true(json_is_null(json_object_get(json_array_get(json_object_get(past, "results"), 0), "perplexity")));
    json_decref(past);
    assert_true(perplexity_from("waves", " --journal @moved") == here);
    assert_true(perplexity_from("waves", " --journal @moved --resume --first-position 100000") == there);
    assert_true(perplexity_from("waves", " --journal @moved --resume") == here);
    assert_non_null(
        strstr(run("eval @rope --text @text --contexts 32 --windows 4 --first-position 7")->out, "positions from 7"));
    assert_fails("eval @rope --text @text --first-position 4 --passkey 8", 2, "--first-position: ");
}

/* A length in use is the last position + 1 under every policy.  causal rounds up to 64 tokens, so that all of a window of 64
 * have the length that is declared; the length of the first 32 under prefix is shorter by 32. */
static void lengths_count_from_zero(void **state) {
    (void)state;
    static const int64_t firsts[] = {0, 4096};
    double declared[2];
    for (int i = 0; i < 2; i++) {
        char line[200];
        snprintf(
            line, sizeof line,
            "eval @rope --text @text --contexts 64 --windows 4 --methods dynamic --length-policy declared,causal,prefix "
            "--first-position %d --json",
            (int)firsts[i]);
        json_t *root = run_json(line), *results = json_object_get(root, "results");
        double found[3];
        for (size_t r = 0; r < 3; r++)
            found[r] = json_number_value(json_object_get(json_array_get(results, r), "perplexity"));
        test_close(found[1], found[0], 1e-6, "causal");
        if (i) test_close(found[2], found[0], 1e-3, "prefix");
        declared[i] = found[0];
        json_decref(root);
    }
    assert_true(fabs(declared[1] / declared[0] - 1) > 1e-4);
    assert_fails("eval @rope --text @text --contexts 64 --first-position 2147483647", 1,
                 "--first-position: 2147483647 and a context of 64 go past 2^31");
    assert_int_equal(run("eval @rope --text @text --contexts 64 --windows 1 --first-position 2147483584")->exit, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(lengths_count_from_zero),
                                       cmocka_unit_test(positions_from_elsewhere)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
