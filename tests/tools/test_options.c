/* test_options.c: tables of options: what a row needs, excludes and refuses, and which value counts. */
#include "run_command.h"

/* What a row of an option needs, excludes or does not take. */
static void options_that_need_or_exclude_others(void **state) {
    (void)state;
    static const struct {
        const char *line, *says;
    } wrong[] = {
        {"eval @rope --text @text --resume", "--resume: needs the --journal"},
        {"eval @rope --text @text --json-lines --json", "--json-lines: contradicts --json"},
        {"eval @rope --ids @ids --passkey 8", "--passkey: hides keys among bytes"},
        {"eval @rope --text @text --journal=", "--journal: the name of the file is empty"},
        {"eval @rope --text @text --output=", "--output: the name of the file is empty"},
        {"generate @rope --stream 4,64 --context 64", "--context: has no end under --stream"},
        {"generate @rope --prompt a --prompt-file @text", "--prompt-file: takes the place of --prompt"},
        {"extend @rope --to 64 --method yarn", "--method: nothing is written without --write"},
        {"extend @rope --to 64 --all --method yarn", "--method: nothing is written without --write"},
        {"extend @rope --to 64 --all --method yarn --write x.json", "--all: adds tables"},
        {"extend @rope --to 64 --all --write-for megatron", "--all: adds tables"},
        {"extend @rope --to 64 --methods ntk --method yarn --write x.json", "--methods: picks rows of the table"},
        {"search @rope --text @text --to 64 --even-if-worse", "--even-if-worse: nothing is written without --write"},
        {"search @rope --text @text --to 64 --stride 8 --needles 2", "--stride: with --needles only answers are scored"},
        {"search @rope --text @text --to 64 --temperature --pairs", "--pairs: shows factors"},
        {"search @rope --text @text --to 64 --temperature --start-tokens 1", "--start-tokens: belong to factors"},
        {"search @rope --text @text --to 64 --temperature --attention-factor 1.1", "is what --temperature searches for"},
        {"train -o x --text @text --headers", "--headers: contradicts --text"},
        {"train -o x --text @text --resume --force", "--resume: continues what --force would replace"},
        {"train -o x --text @text --from @rope --base 5", "--from: the encoding and the sizes are that model's"},
        {"train -o x --text @text --resume --beta-fast 5", "--resume: model and run come from the checkpoint"},
        {"train -o x --text @text more", "more: gyre train takes no such argument"},
        {"lab --text @text --task copy", "--task: contradicts --text"},
        {"lab --task copy --mix 0.5", "--mix: a task has no text to mix with"},
        {"lab --task copy --add-method ntk", "--add-method: a task has its own methods"},
        {"lab --rope-dim 8", "nothing is trained without --text or --task"},
        {"plot clock --csv --json", "--csv: prints the numbers in place of --json"},
        {"plot clock --to 64 --factor 2", "--factor: --to says the length"},
        {"plot shift --layer 1", "--layer: shift does not take it"},
        {"bench rotate --vocab 64", "--vocab: not an option of gyre bench rotate"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_fails(wrong[i].line, 2, wrong[i].says);
}

/* A row of each type, at both ends of its range and past them. */
static void values_outside_their_range(void **state) {
    (void)state;
    static const struct {
        const char *line, *says;
    } wrong[] = {{"show shift --dim 1", "--dim: 1 is below 2"},
                 {"show shift --dim 5k", "--dim: 5120 is above 4096"},
                 {"show shift --dim 7", "--dim: 7 is odd"},
                 {"show shift --dim seven", "--dim: \"seven\" is not a whole number such as 4096, 4k or 1M"},
                 {"show shift --base 1", "--base: 1 is below 1.001"},
                 {"show shift --base 1e19", "--base: 1e+19 is above 1e+18"},
                 {"show shift --base ten", "--base: \"ten\" is not a number"},
                 {"generate @rope --seed -1", "--seed: \"-1\" is not a whole number"},
                 {"generate @rope --seed 9223372036854775808", "--seed: \"9223372036854775808\" is not a whole number"},
                 {"generate @rope --order first", "--order: \"first\" is not one of fast, fixed"},
                 {"shard @rope --context 64 --ranks 2 --flops many", "--flops: \"many\" is not a number such as 400T"},
                 {"audit @rope --buffers", "--buffers: only the Python package's gyre audits"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_fails(wrong[i].line, 2, wrong[i].says);
    assert_int_equal(run("show shift --dim 2")->exit, 0);
    assert_int_equal(run("show shift --dim 4k --base 1e18")->exit, 0);
    assert_int_equal(run("generate @rope --prompt a --tokens 1 --seed 9223372036854775807")->exit, 0);
}

static void the_last_value_counts(void **state) {
    (void)state;
    json_t *plan =
        run_json("shard @rope --context 64 --ranks 2 --layout striped --ranks=4 --layout zigzag --dry-run --json");
    assert_int_equal(json_integer_value(json_object_get(plan, "ranks")), 4);
    assert_string_equal(json_string_value(json_object_get(plan, "layout")), "zigzag");
    json_decref(plan);
}

/* Options are read, files are not: none of these is there. */
static void options_alone_are_read(void **state) {
    (void)state;
    static const char *const right[] = {"eval nowhere --text nowhere.txt --contexts 1k --methods yarn:4 -o @parsed --force",
                                        "train --text nowhere -o @parsed", "plot clock nowhere.json", "show shift"};
    char line[200];
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        snprintf(line, sizeof line, "help --parse %s", right[i]);
        const outcome *o = run(line);
        assert_int_equal(o->exit, 0);
        assert_string_equal(o->out, "");
        assert_string_equal(o->err, "");
    }
    assert_int_equal(access(in_folder("parsed"), F_OK), -1);
    assert_fails("help --parse", 2, "needs a subcommand");
    assert_fails("help --parse evl", 2, "did you mean eval?");
    assert_fails("help --parse eval --contxts 1k", 2, "did you mean --contexts?");
    assert_fails("help --parse eval rope --methods yearn", 2, "yearn");
    assert_fails("help --parse show shift repeats", 2, "one question at a time");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_that_need_or_exclude_others),
        cmocka_unit_test(values_outside_their_range),
        cmocka_unit_test(the_last_value_counts),
        cmocka_unit_test(options_alone_are_read),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
