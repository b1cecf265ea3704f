/* test_nonfinite.c: a loss or a logit that is not finite is an error of every command that reads a model, in the same words;
 * no journal keeps one or trusts one. */
#include "run_audit.h"

#include <math.h>

enum { LAYER = 1 };

/* A model of two layers; `scale` multiplies queries and keys of the second.  `query` and `key` are one weight of each, if
 * not 0. */
static void write_scaled(const char *name, float scale, float query, float key) {
    const gyre_model_config config = small_config(GYRE_KIND_ROPE, 2, TRAINED);
    gyre_model *model = create_model(&config, 1);
    float *q = model->weights + gyre_layer_tensor_offset(&model->layout, LAYER, GYRE_WEIGHT_Q),
          *k = model->weights + gyre_layer_tensor_offset(&model->layout, LAYER, GYRE_WEIGHT_K);
    for (int64_t i = 0; i < config.model_dim * config.heads * config.head_dim; i++)
        q[i] *= scale, k[i] *= scale;
    if (query != 0) q[3] = query;
    if (key != 0) k[3] = key;
    save_model(model, name, GYRE_DTYPE_BF16);
}

#define BEGINS "logits: not finite: the query projection overflows first in layer 1, at token "
#define NAMED  "(model.layers.1.self_attn.q_proj.weight)"

static void every_command(void **state) {
    static const struct {
        const char *line, *says; /* before the words of all */
    } cases[] = {
        {"eval @huge --text @text --contexts 64 --windows 2", "none at 64 tokens, window 1 of 2: " BEGINS},
        {"eval @huge --text @text --contexts 64 --windows 2 --json", "none at 64 tokens, window 1 of 2: " BEGINS},
        {"eval @huge --text @text --contexts 64 --windows 2 --by-position 4 --protocol last --json",
         "none at 64 tokens, window 1 of 2: " BEGINS},
        {"extend @huge --to 64 --text @text --windows 2", "none at 32 tokens, window 1 of 2: " BEGINS},
        {"extend @huge --to 64 --text @text --windows 2 --json", "none at 32 tokens, window 1 of 2: " BEGINS},
        {"passkey @huge --lengths 320 --depths 2 --trials 1", "none at 32 tokens, trial 1 at depth "},
        {"passkey @huge --lengths 320 --depths 2 --trials 1 --format words", "none at 320 tokens, trial 1 at depth "},
        {"search @huge --text @text --to 64 --budget 20 --windows 2 --held-out 2", " at 64 tokens, window 1 of "},
        {"generate @huge --prompt abcdefghijklmnopqrstuvwxyz_and_many_more_letters --tokens 9", "none at "},
        {"plot attention @huge --text @text --tokens 48 --csv", "none at 48 tokens: " BEGINS},
        {"explain @huge --check @text", "half at 32 tokens, window 1 of 1: " BEGINS},
        {"train --from @huge --text @text -o @trained --tokens 64 --context 32 --batch 1 --learning-rate 1e-3",
         "loss: not finite at step 0; a lower learning rate may help: " BEGINS},
    };
    (void)state;
    write_scaled("huge", 1, 3.38e38f, 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const outcome *o = run(cases[i].line);
        if (o->exit != 1 || !strstr(o->err, cases[i].says) || !strstr(o->err, BEGINS) || !strstr(o->err, NAMED))
            fail_msg("gyre %s: exit %d: %s%s", cases[i].line, o->exit, o->out, o->err);
        if (strstr(o->out, "nan") || strstr(o->out, "null") || strstr(o->out, "ecommended"))
            fail_msg("gyre %s: %s", cases[i].line, o->out);
    }
}

/* A cache of Q8 refuses what is not finite, and numbers that a rotation could make so. */
static void cache_of_q8(void **state) {
    static const char *const options[] = {"", " --json", " --methods linear:2 --by-position 4 --protocol last"};
    (void)state;
    write_scaled("keys", 1, 0, 3.38e38f);
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        char line[160], says[160];
        const char *method = strstr(options[i], "linear") ? "linear:2" : "none";
        snprintf(line, sizeof line, "eval @keys --text @text --contexts 64 --windows 2 --cache q8%s", options[i]);
        snprintf(says, sizeof says, "gyre: %s at 64 tokens, window 1 of 2: logits: not finite: the key projection", method);
        assert_fails(line, 1, says);
        assert_fails(line, 1, " overflows first in layer 1, at token ");
        assert_fails(line, 1, "(model.layers.1.self_attn.k_proj.weight)");
    }
    /* Finite: a norm of 32 channels gives at most sqrt(32).  Too large for Q8 alone. */
    write_scaled("large", 1, 0, 6e37f);
    assert_fails("eval @large --text @text --contexts 64 --windows 2 --cache q8", 1,
                 "gyre: none at 64 tokens, window 1 of 2: cache: layer 1, after 0 tokens: k: token ");
    assert_fails("passkey @large --lengths 320 --depths 2 --trials 1 --cache q8", 1, "trial 1 at depth ");
    assert_int_equal(run("eval @large --text @text --contexts 64 --windows 2")->exit, 0);
}

/* The same window and words on any number of threads. */
static void on_any_threads(void **state) {
    static char first[4096];
    (void)state;
    for (int threads = 1; threads <= 4; threads++) {
        char line[160];
        snprintf(line, sizeof line, "eval @huge --text @text --contexts 32 --windows 9 --threads %d", threads);
        const outcome *o = run(line);
        assert_int_equal(o->exit, 1);
        if (threads == 1) snprintf(first, sizeof first, "%.4000s", o->err);
        assert_string_equal(o->err, first);
    }
}

/* A model that overflows under one method alone: what was measured under the others stays. */
static void under_one_method(void **state) {
    static char journal[8192];
    int found = 0;
    (void)state;
    for (float scale = 1e18f; scale < 1e21f && !found; scale *= 1.1f) { /* yarn multiplies scores by 1.63 */
        remove_tree(in_folder("edge"));
        write_scaled("edge", scale, 0, 0);
        found = !run("eval @edge --text @text --contexts 64 --windows 2")->exit &&
                run("eval @edge --text @text --contexts 64 --windows 2 --methods yarn:16")->exit == 1;
    }
    assert_true(found);
    const outcome *o = run(
        "eval @edge --text @text --contexts 64 --windows 2 --methods none,yarn:16,linear:2 --journal @edge.jsonl --json");
    assert_int_equal(o->exit, 1);
    assert_string_equal(o->out, "");
    if (!strstr(o->err, "yarn:16 at 64 tokens, window ") ||
        !strstr(o->err, "attention overflows first in layer 1, at token "))
        fail_msg("%s", o->err);
    read_whole(in_folder("edge.jsonl"), journal, sizeof journal);
    assert_non_null(strstr(journal, "\"method\":\"none\""));
    assert_null(strstr(journal, "yarn"));
    assert_int_equal(
        run("eval @edge --text @text --contexts 64 --windows 2 --methods none,linear:2 --journal @edge.jsonl --resume")
            ->exit,
        0);
    o = run("extend @edge --to 512 --methods none,linear,yarn:16 --text @text --windows 2");
    if (o->exit != 1 || !strstr(o->err, "yarn:16 at ")) fail_msg("exit %d: %s%s", o->exit, o->out, o->err);
}

/* A journal of an older run may hold null where a loss was not finite. */
static void older_journals(void **state) {
    static char journal[8192], whole[4096];
    (void)state;
    static const char line[] =
        "eval @rope --text @text --contexts 32 --windows 4 --by-position 2 --journal @old.jsonl --resume --json-lines";
    const outcome *o = run(line);
    if (o->exit) fail_msg("%s", o->err);
    snprintf(whole, sizeof whole, "%.4000s", strstr(o->out, "\"by_position\""));
    whole[strcspn(whole, "]")] = 0;
    read_whole(in_folder("old.jsonl"), journal, sizeof journal);
    char *list = strstr(journal, "\"by_position\":["); /* that of the figures is the first with a list */
    assert_non_null(list);
    list += strlen("\"by_position\":[");
    char spoilt[8192];
    snprintf(spoilt, sizeof spoilt, "%.*snull,null%s", (int)(list - journal), journal, strchr(list, ']'));
    write_file("old.jsonl", spoilt, strlen(spoilt));
    o = run(line);
    if (o->exit || !strstr(o->out, whole)) fail_msg("expected %s: %s%s", whole, o->out, o->err);
    read_whole(in_folder("old.jsonl"), journal, sizeof journal);
    const char *second = strchr(journal, '\n');
    assert_true(second && second[1] == '{'); /* measured again */
    assert_null(strstr(second, "null"));
}

/* The same of the lab's cells. */
static void older_labs(void **state) {
    static const char line[] =
        "lab --text @text --preset smoke --encodings alibi --work @lab --force --report @lab.html --json";
    static char journal[1 << 16], first[4096], spoilt[1 << 16];
    (void)state;
    if (run(line)->exit) fail_msg("gyre %s", line);
    read_whole(in_folder("lab/cells.jsonl"), journal, sizeof journal);
    snprintf(first, sizeof first, "%.*s", (int)strcspn(journal, "\n"), journal);
    char *list = strstr(journal, "\"by_region\":[");
    assert_true(list && list < journal + strlen(first));
    list += strlen("\"by_region\":[");
    snprintf(spoilt, sizeof spoilt, "%.*snull%s", (int)(list - journal), journal, list + strcspn(list, ",]"));
    write_file("lab/cells.jsonl", spoilt, strlen(spoilt));
    if (run(line)->exit) fail_msg("gyre %s", line);
    read_whole(in_folder("lab/cells.jsonl"), journal, sizeof journal);
    assert_non_null(strstr(journal, first)); /* measured again, to the same bits */
}

static void audit(void **state) {
    (void)state;
    write_scaled("narrow", 1, 70000, 0);
    json_t *root = audited("@huge", FOUND);
    expect_count(root, 1, "weights", "doubt", "model.layers.1.self_attn.q_proj.weight: element 3 has a magnitude of 3.3");
    expect_count(root, 1, "weights", "doubt", "infinite in f16, and whose square is infinite as a float");
    json_decref(root);
    root = audited("@narrow", FOUND);
    expect_count(root, 1, "weights", "doubt", "element 3 has a magnitude of 70144, which is infinite in f16");
    expect_count(root, 0, "weights", "doubt", "square");
    json_decref(root);
    expect("@huge --text @text", FOUND, "weights", "wrong", BEGINS);
    root = audited("@rope", RIGHT);
    expect_count(root, 0, "weights", "doubt", "");
    json_decref(root);
}

/* A loss of so many nats has no perplexity. */
static void infinite_perplexity(void **state) {
    const gyre_model_config config = small_config(GYRE_KIND_ROPE, 1, TRAINED);
    gyre_model *model = create_model(&config, 1);
    (void)state;
    for (int64_t i = 0; i < config.model_dim; i++)
        model->weights[model->layout.final_norm.offset + i] *= 1e6f;
    save_model(model, "wild", GYRE_DTYPE_F32);
    const outcome *o = run("eval @wild --text @text --contexts 32 --windows 2 --json");
    if (o->exit != 1 || !strstr(o->err, "none at 32 tokens, window 1 of 2: loss: ") ||
        !strstr(o->err, " nats per token, whose perplexity is infinite"))
        fail_msg("exit %d: %s%s", o->exit, o->out, o->err);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_command),  cmocka_unit_test(cache_of_q8),
                                       cmocka_unit_test(on_any_threads), cmocka_unit_test(under_one_method),
                                       cmocka_unit_test(older_journals), cmocka_unit_test(older_labs),
                                       cmocka_unit_test(audit),          cmocka_unit_test(infinite_perplexity)};
    setenv("GYRE_THREADS", "2", 1);
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
