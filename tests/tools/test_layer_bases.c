/* test_layer_bases.c: models whose layers rotate by bases of their own, or not at all, from outside: trained, killed and
 * resumed, described, read by the subcommands that run a model, and refused where a base would be lost. */
#include "run_command.h"

#include <math.h>

#define TINY "--width 32 --layers 4 --heads 2 --hidden 32 --context 32 --batch 4 --threads 2 --text @text "

static int train_all(void **state) {
    if (make_folder(state)) return -1;
    const int failed = run("train " TINY "--layer-bases 1e4,1e4,1e4,0 --tokens 3k -o @still")->exit ||
                       run("train " TINY "--layer-bases 100,0 --tokens 3k -o @turns")->exit ||
                       run("train " TINY "--layer-bases 100,500,500,0 --tokens 3k -o @several")->exit ||
                       run("train " TINY "--encoding rope+nope --tokens 3k -o @named")->exit;
    return failed ? -1 : 0;
}

/* The key of Muse and Granite, with a base for each layer. */
static void the_config_lists_them(void **state) {
    (void)state;
    static const struct {
        const char *model;
        double bases[4];
    } cases[] = {{"still", {1e4, 1e4, 1e4, 0}},
                 {"turns", {100, 0, 100, 0}},
                 {"several", {100, 500, 500, 0}},
                 {"named", {1e4, 1e4, 1e4, 0}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static char text[1 << 14];
        char path[64];
        snprintf(path, sizeof path, "%s/config.json", cases[i].model);
        read_whole(in_folder(path), text, sizeof text);
        json_t *config = json_loads(text, 0, NULL);
        assert_string_equal(test_string(config, "model_type"), "gyre");
        const json_t *list = json_object_get(config, "layer_rope_theta");
        assert_int_equal(json_array_size(list), 4);
        for (size_t l = 0; l < 4; l++)
            assert_true(json_number_value(json_array_get(list, l)) == cases[i].bases[l]);
        json_decref(config);
    }
}

/* One base for all layers is a Llama. */
static void equal_bases_are_one(void **state) {
    (void)state;
    assert_int_equal(run("train " TINY "--layer-bases 500,500 --tokens 128 -o @equal")->exit, 0);
    assert_int_equal(run("train " TINY "--base 500 --tokens 128 -o @plain")->exit, 0);
    static char a[1 << 16], b[1 << 16];
    read_whole(in_folder("equal/config.json"), a, sizeof a);
    read_whole(in_folder("plain/config.json"), b, sizeof b);
    assert_string_equal(a, b);
    assert_non_null(strstr(a, "\"llama\""));
}

static void explain_groups_layers(void **state) {
    (void)state;
    const outcome *o = run("explain @several");
    assert_int_equal(o->exit, 0);
    assert_non_null(strstr(o->out, "full_attention \xc2\xb7 rope \xc2\xb7 layers 0 (of 4)"));
    assert_non_null(strstr(o->out, "full_attention_base_500 \xc2\xb7 rope \xc2\xb7 layers 1-2 (of 4)"));
    assert_non_null(strstr(o->out, "nope \xc2\xb7 nope \xc2\xb7 layers 3 (of 4)"));
    assert_non_null(strstr(o->out, "500      layer_rope_theta, line"));
    assert_int_equal(run("audit @still")->exit, 0);
    assert_int_equal(run("diff @still @named")->exit, 0);
    assert_int_equal(run("diff @still @turns")->exit, 3);
}

static double perplexity_of(const char *line, int row) {
    json_t *root = run_json(line);
    const double perplexity = test_number(json_array_get(json_object_get(root, "results"), (size_t)row), "perplexity");
    json_decref(root);
    return perplexity;
}

static void they_run_and_are_trained_on(void **state) {
    (void)state;
    static const char *const models[] = {"still", "turns", "several"};
    for (int i = 0; i < 3; i++) {
        char line[256];
        snprintf(line, sizeof line, "eval @%s --text @text --contexts 48 --windows 4 --methods none,yarn:2 --json",
                 models[i]);
        const double before = perplexity_of(line, 0);
        assert_true(before > 1 && before < 256 && perplexity_of(line, 1) != before);
        snprintf(line, sizeof line, "generate @%s --prompt abcdef --stream 1,16 --tokens 40 --json", models[i]);
        json_decref(run_json(line));
        snprintf(
            line, sizeof line,
            "train --from @%s --context 64 --batch 2 --tokens 100 --learning-rate 1e-8 --warmup 0 --text @text -o @again-%s",
            models[i], models[i]);
        assert_int_equal(run(line)->exit, 0);
        snprintf(line, sizeof line, "eval @again-%s --text @text --contexts 48 --windows 4 --json", models[i]);
        test_close(perplexity_of(line, 0), before, 1e-4 * before, models[i]);
    }
    assert_int_equal(run("train --from @several --drop-rope --context 32 --tokens 128 --text @text -o @dropped")->exit, 0);
    assert_int_equal(run("train --from @still --method yarn:2 --context 64 --tokens 128 --text @text -o @tuned")->exit, 0);
    assert_non_null(strstr(run("explain @tuned")->out, "yarn"));
}

static void they_are_converted_and_extended(void **state) {
    (void)state;
    assert_int_equal(run("convert @several --dtype bf16 -o @half")->exit, 0);
    assert_int_equal(run("diff @half @several")->exit, 0);
    assert_fails("convert @still --to gguf -o @none.gguf", 1, "layers with different positions");
    assert_int_equal(run("extend @still --to 128 --method yarn --write @far.json")->exit, 0);
    assert_int_equal(run("explain @far.json")->exit, 0);
    assert_non_null(strstr(run("extend @still --to 128")->out, "layer_rope_theta: no other program reads it in a gyre"));
    assert_fails("extend @several --to 128 --method yarn --write @none.json", 1, "layers have different bases");
}

static void what_cannot_be_is_refused(void **state) {
    (void)state;
    assert_fails("train " TINY "--layer-bases 1,2,3,4,5 -o @none", 2, "5 bases for 4 layers");
    assert_fails("train " TINY "--layer-bases 100,x -o @none", 2, "\"x\" is not a number");
    assert_fails("train " TINY "--layer-bases 100,, -o @none", 2, "is not a number");
    assert_fails("train " TINY "--layer-bases 100 --base 100 -o @none", 2, "gives the bases of all layers");
    assert_fails("train " TINY "--layer-bases 100 --encoding alibi -o @none", 2, "alibi does not rotate");
    assert_fails("train " TINY "--layer-bases 0,0 -o @none", 1, "no layer rotates");
    assert_fails("train " TINY "--layer-bases 0.5 -o @none", 1, "neither 0 nor above 1");
    assert_fails("train " TINY "--layer-bases 50,0 --encoding harope -o @none", 1,
                 "without a temperature and trained parts");
    assert_fails("train --from @several --method yarn:2 --context 64 --text @text -o @none", 1, "layers have several");
    assert_fails("train --from @still --layer-bases 100 --text @text -o @none", 2, "are that model's");
    assert_int_not_equal(access(in_folder("none"), F_OK), 0);
}

/* Half the steps, stopped, and the rest: the bytes of a run that was not. */
static void killed_and_resumed(void **state) {
    (void)state;
    static char whole[1 << 18], resumed[1 << 18];
    outcome o;
    assert_int_equal(run("train " TINY "--layer-bases 0,100,500 --tokens 32k -o @whole")->exit, 0);
    const pid_t child =
        start("train " TINY "--layer-bases 0,100,500 --tokens 32k --save-every 1 -o @part", in_folder("out"));
    for (int n = 0; n < 20000 && access(in_folder("part/optimizer.safetensors"), F_OK) != 0; n++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    kill(child, SIGKILL);
    finish(child, &o);
    if (o.signal == SIGKILL) assert_int_equal(run("train --resume --threads 1 --text @text -o @part")->exit, 0);
    read_whole(in_folder("whole/model.safetensors"), whole, sizeof whole);
    read_whole(in_folder("part/model.safetensors"), resumed, sizeof resumed);
    assert_memory_equal(whole, resumed, sizeof whole);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_config_lists_them),
                                       cmocka_unit_test(equal_bases_are_one),
                                       cmocka_unit_test(explain_groups_layers),
                                       cmocka_unit_test(they_run_and_are_trained_on),
                                       cmocka_unit_test(they_are_converted_and_extended),
                                       cmocka_unit_test(what_cannot_be_is_refused),
                                       cmocka_unit_test(killed_and_resumed)};
    return cmocka_run_group_tests(tests, train_all, remove_folder);
}
