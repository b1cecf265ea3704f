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

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(positions_from_elsewhere)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
