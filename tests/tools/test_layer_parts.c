/* test_layer_parts.c: models whose layers train a part beside their encoding, from outside: trained, killed and resumed,
 * read by every subcommand that runs a model, and refused where something would be left out. */
#include "gyre/gyre_research.h"
#include "run_command.h"

#include <math.h>

#define TINY "--width 32 --layers 2 --heads 2 --hidden 32 --context 32 --batch 4 --threads 2 --text @text "

static const char *const parts[] = {"forgetting", "pope",       "trained-frequencies", "fope",
                                    "fope-paper", "contextual", "dape-kerple"};
enum { PARTS = sizeof parts / sizeof *parts };

/* out = encoding i: those above, then the others of parts that make queries and keys; NULL: there are no more. */
static const char *part_at(int i) {
    gyre_layer_part_variant variant;
    int is_above = 0;
    if (i < PARTS) return parts[i];
    for (int v = 0; gyre_layer_part_variant_at(v, &variant); v++) {
        for (int p = is_above = 0; p < PARTS; p++)
            is_above |= strcmp(parts[p], variant.name) == 0;
        if (!is_above && i-- == PARTS) return variant.name;
    }
    return NULL;
}

static int train_all(void **state) {
    if (make_folder(state)) return -1;
    for (int i = 0; part_at(i); i++) {
        char line[256];
        snprintf(line, sizeof line, "train " TINY "--encoding %s --tokens 3k -o @%s", part_at(i), part_at(i));
        if (run(line)->exit) return -1;
    }
    return 0;
}

static double perplexity_of(const char *line) {
    json_t *root = run_json(line);
    const json_t *result = json_array_get(json_object_get(root, "results"), 0);
    const double perplexity = test_number(result, "perplexity");
    json_decref(root);
    return perplexity;
}

/* logits = those of the last `wanted` tokens. */
static void read_last(const gyre_model *model, const int32_t *tokens, int64_t n, int64_t wanted, float *logits) {
    gyre_context_options o = GYRE_INIT(gyre_context_options);
    gyre_context *context = NULL;
    gyre_error err;
    o.max_tokens = n;
    o.order = GYRE_ORDER_FIXED;
    assert_ok(gyre_context_create(&context, model, &o, &err));
    assert_ok(gyre_context_forward(context, tokens, n, wanted, logits, &err));
    gyre_context_free(context);
}

/* Of the last layer only the wanted rows are computed: queries, gates and angles go with them. */
static void last_rows(void **state) {
    (void)state;
    enum { TOKENS = 40, WANTED = 5, VOCAB = 256 };
    static float all[TOKENS * VOCAB], last[WANTED * VOCAB];
    int32_t tokens[TOKENS];
    for (int t = 0; t < TOKENS; t++)
        tokens[t] = 'a' + t * 7 % 26;
    for (int i = 0; part_at(i); i++) {
        gyre_model *model = NULL;
        gyre_error err;
        assert_ok(gyre_model_open(&model, in_folder(part_at(i)), NULL, &err));
        read_last(model, tokens, TOKENS, TOKENS, all);
        read_last(model, tokens, TOKENS, WANTED, last);
        if (memcmp(last, all + (TOKENS - WANTED) * VOCAB, sizeof last) != 0) fail_msg("%s: other logits", part_at(i));
        gyre_model_free(model);
    }
}

static void subcommands_read_them(void **state) {
    (void)state;
    for (int i = 0; part_at(i); i++) {
        char line[256];
        double perplexity[2];
        for (int threads = 1; threads <= 2; threads++) {
            snprintf(line, sizeof line, "eval @%s --text @text --contexts 48 --windows 4 --threads %d --json", part_at(i),
                     threads);
            perplexity[threads - 1] = perplexity_of(line);
        }
        assert_true(perplexity[0] > 1 && perplexity[0] < 256);
        assert_memory_equal(&perplexity[0], &perplexity[1], sizeof *perplexity);
        snprintf(line, sizeof line, "passkey @%s --lengths 320 --depths 1 --trials 1 --json", part_at(i));
        json_decref(run_json(line));
        snprintf(line, sizeof line, "generate @%s --prompt abc --tokens 5 --json", part_at(i));
        json_decref(run_json(line));
        snprintf(line, sizeof line, "audit @%s --json", part_at(i));
        json_decref(run_json(line));
    }
}

/* A model that is trained on is the model: a step at a rate of next to nothing leaves what it says. */
static void they_are_trained_on(void **state) {
    (void)state;
    for (int i = 0; part_at(i); i++) {
        char line[256];
        snprintf(
            line, sizeof line,
            "train --from @%s --context 64 --batch 2 --tokens 100 --learning-rate 1e-8 --warmup 0 --text @text -o @again-%s",
            part_at(i), part_at(i));
        assert_int_equal(run(line)->exit, 0);
        snprintf(line, sizeof line, "eval @%s --text @text --contexts 48 --windows 4 --json", part_at(i));
        const double before = perplexity_of(line);
        snprintf(line, sizeof line, "eval @again-%s --text @text --contexts 48 --windows 4 --json", part_at(i));
        test_close(perplexity_of(line), before, 1e-4 * before, part_at(i));
    }
}

static void configs_say_them(void **state) {
    (void)state;
    static const char *const says[PARTS] = {"forget_gates", "polar",   "trained_frequencies", "fourier", "fourier_still",
                                            "contextual",   "adaptive"};
    for (int i = 0; i < PARTS; i++) {
        char line[256];
        snprintf(line, sizeof line, "explain @%s", parts[i]);
        const outcome *o = run(line);
        assert_int_equal(o->exit, 0);
        if (!strstr(o->out, says[i])) fail_msg("%s: no %s in %s", parts[i], says[i], o->out);
    }
    assert_non_null(strstr(run("explain @contextual")->out, "max_positions"));
    assert_non_null(strstr(run("explain @dape-kerple")->out, "hidden_units"));
    assert_non_null(strstr(run("explain @dape-kerple")->out, "a network of each layer adapts the biases"));
    const char *options[] = {"", " --accuracy"};
    for (int i = 0; i < 2; i++) {
        char line[64];
        snprintf(line, sizeof line, "explain @trained-frequencies --json%s", options[i]);
        assert_non_null(strstr(run(line)->out, "the initial ones"));
        snprintf(line, sizeof line, "explain @fope --json%s", options[i]);
        assert_non_null(strstr(run(line)->out, "replaces its rotation"));
        snprintf(line, sizeof line, "explain @pope --json%s", options[i]);
        assert_non_null(strstr(run(line)->out, "only Gyre runs"));
    }
}

static void nothing_that_turns_has_no_accuracy(void **state) {
    (void)state;
    assert_non_null(strstr(run("explain @contextual --accuracy")->out, "--accuracy: nothing rotates here"));
    assert_null(strstr(run("explain @pope --accuracy")->out, "--accuracy: nothing rotates here"));
}

static void trained_turns_have_no_figures(void **state) {
    (void)state;
    static const char *const trained[] = {"trained-frequencies", "fope", "fope-paper"};
    for (int i = 0; i < 3; i++) {
        char line[64];
        snprintf(line, sizeof line, "explain @%s --accuracy", trained[i]);
        assert_non_null(strstr(run(line)->out, "not computed: the frequencies are in the weights"));
    }
    assert_non_null(strstr(run("explain @pope --accuracy")->out, "not computed: it has no such layers"));
}

/* 1: two names of one part, whose models have other numbers of heads. */
static int one_part(const char *a, const char *b) {
    gyre_layer_part_variant variant;
    int64_t found[2] = {0, 0};
    for (int i = 0; gyre_layer_part_variant_at(i, &variant); i++) {
        if (strcmp(variant.name, a) == 0) found[0] = variant.layer_parts;
        if (strcmp(variant.name, b) == 0) found[1] = variant.layer_parts;
    }
    return found[0] != 0 && found[0] == found[1];
}

/* Two models of one encoding differ if the layers of one train something beside it. */
static void diff_counts_them(void **state) {
    (void)state;
    for (int i = 0; part_at(i); i++)
        for (int j = 0; part_at(j); j++) {
            char line[128];
            snprintf(line, sizeof line, "diff @%s @%s --json", part_at(i), part_at(j));
            if (run(line)->exit != (i == j || one_part(part_at(i), part_at(j)) ? 0 : 3))
                fail_msg("%s ends with %d", line, run(line)->exit);
        }
    assert_non_null(strstr(run("explain @contextual")->out, "each query counts keys by content"));
}

/* The form of adapted biases and the sizes of parts, beside equal encodings. */
static void diff_counts_forms_and_sizes(void **state) {
    (void)state;
    static const struct {
        const char *a, *b, *row;
    } cases[] = {{"\"alibi\", \"adaptive\": \"concat\"", "\"alibi\", \"adaptive\": \"add-residual\"", "adaptive"},
                 {"\"alibi\", \"adaptive\": \"concat\"", "\"alibi\"", "adaptive"},
                 {"\"alibi\", \"adaptive\": \"concat\", \"score_hidden_units\": 8",
                  "\"alibi\", \"adaptive\": \"concat\", \"score_hidden_units\": 16", "hidden_units"},
                 {"\"nope\", \"contextual\": true, \"score_max_positions\": 8",
                  "\"nope\", \"contextual\": true, \"score_max_positions\": 16", "max_positions"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *names[2] = {"a.json", "b.json"}, *keys[2] = {cases[i].a, cases[i].b};
        for (int k = 0; k < 2; k++) {
            char text[512];
            const int bytes = snprintf(text, sizeof text,
                                       "{\"model_type\": \"gyre\", \"hidden_size\": 32, \"num_attention_heads\": 2, "
                                       "\"num_hidden_layers\": 2, \"max_position_embeddings\": 64, "
                                       "\"position_embedding_type\": %s}",
                                       keys[k]);
            write_file(names[k], text, (size_t)bytes);
        }
        const outcome *o = run("diff @a.json @b.json");
        if (o->exit != 3 || !strstr(o->out, cases[i].row)) fail_msg("%zu: %d, %s", i, o->exit, o->out);
        assert_int_equal(run("diff @a.json @a.json")->exit, 0);
    }
}

/* Layers with an attention of their own read from a cache of any type, and through a window. */
static void caches_and_windows(void **state) {
    (void)state;
    static const char *const names[] = {"contextual", "dape-kerple"};
    for (int i = 0; i < 2; i++) {
        double perplexity[2];
        for (int q8 = 0; q8 < 2; q8++) {
            char line[128];
            snprintf(line, sizeof line, "eval @%s --text @text --contexts 64 --windows 2 --cache %s --json", names[i],
                     q8 ? "q8" : "f32");
            perplexity[q8] = perplexity_of(line);
        }
        assert_true(perplexity[0] != perplexity[1]);
        assert_true(fabs(perplexity[1] / perplexity[0] - 1) < 0.02);
        char line[128];
        snprintf(line, sizeof line, "generate @%s --prompt abcdef --stream 1,16 --tokens 40 --json", names[i]);
        json_decref(run_json(line));
    }
}

/* The tensors that hold positions, of every layer, and no page that says there are none. */
static void audit_names_what_is_trained(void **state) {
    (void)state;
    static const char *const holds[PARTS] = {"self_attn.fgate_proj.weight: positions that 2 layers trained, 2 x 32 numbers",
                                             "self_attn.key_phases.weight: positions that 2 layers trained, 2 x 16 numbers",
                                             "self_attn.frequencies.weight: positions that 2 layers trained, 2 x 8 numbers",
                                             "self_attn.fourier_cosines.weight: positions that 2 layers",
                                             "self_attn.fourier_sines.weight: positions that 2 layers",
                                             "self_attn.contextual.weight: positions that 2 layers",
                                             "self_attn.adaptive.hidden.weight: positions that 2 layers trained, 32 x 4"};
    static const char *const says[PARTS] = {"(forget_gates: true)",
                                            "(polar: true)",
                                            "(trained_frequencies: true)",
                                            "(fourier: true)",
                                            "(fourier: true)",
                                            "(contextual: true, score_max_positions: ",
                                            "(adaptive: \"concat-residual\", score_hidden_units: 32)"};
    for (int i = 0; part_at(i); i++) {
        char line[64];
        snprintf(line, sizeof line, "audit @%s --json", part_at(i));
        json_t *root = run_json(line), *finding;
        size_t k;
        int found = 0, none = 0;
        json_array_foreach(json_object_get(root, "findings"), k, finding) {
            const char *text = test_string(finding, "text");
            found += i < PARTS && strstr(text, holds[i]) && strstr(text, says[i]) &&
                     strstr(text, "the weights alone hold their values");
            none += (i < PARTS && strstr(text, "tensors holds positions")) || strstr(text, "no config says") ||
                    strstr(text, "config.json says nothing");
        }
        if (found != (i < PARTS) || none) fail_msg("%s: %d, %d", part_at(i), found, none);
        json_decref(root);
    }
}

/* Methods turn polar coordinates too, but no other program has such layers, whatever their config says. */
static void no_other_program_runs_polar_layers(void **state) {
    (void)state;
    json_t *root = run_json("extend @pope --to 128 --json");
    const json_t *advice = json_object_get(root, "verdict"), *engines = json_object_get(advice, "engines"), *engine;
    const char *name;
    assert_string_equal(test_string(advice, "method"), "yarn");
    assert_int_equal(json_object_size(engines), 3);
    json_object_foreach((json_t *)engines, name, engine) {
        assert_string_equal(test_string(engine, "says"), "no");
        assert_non_null(strstr(test_string(engine, "why"), "polar: no other program"));
        assert_true(json_is_null(json_object_get(engine, "command")) && json_is_null(json_object_get(engine, "keys")));
    }
    json_decref(root);
    assert_null(strstr(run("extend @pope --to 32")->out, "llama-server"));
    assert_int_equal(run("extend @pope --to 128 --method yarn --write @far.json")->exit, 0);
    json_decref(run_json("explain @far.json --json"));
}

/* There is nothing to stretch, but that is not because there would be no positions. */
static void extend_says_what_parts_do(void **state) {
    (void)state;
    assert_non_null(strstr(run("extend @forgetting --to 128")->out, "nope: its forget gates lower the scores"));
    assert_non_null(strstr(run("extend @contextual --to 128")->out, "nope: its queries count positions themselves"));
}

/* Methods, windows, pictures and files that would leave out what the layers trained. */
static void what_would_be_lost_is_refused(void **state) {
    (void)state;
#define EVAL " --text @text --contexts 64 --windows 2 --methods "
    assert_fails("eval @fope" EVAL "yarn:2", 1, "the model trained what rotates (fourier)");
    assert_fails("eval @fope-paper" EVAL "none+resonance", 1, "the model trained what rotates (fourier)");
    assert_fails("eval @fope" EVAL "clipped", 1, "the model trained what rotates (fourier)");
    assert_fails("eval @trained-frequencies" EVAL "clipped", 1, "the model trained what rotates (trained_frequencies)");
    assert_fails("eval @trained-frequencies" EVAL "none,clipped-hard:8", 1,
                 "the model trained what rotates (trained_frequencies)");
    assert_fails("generate @trained-frequencies --prompt abc --method clipped-hard:8", 1,
                 "the model trained what rotates (trained_frequencies)");
    assert_fails("train --from @trained-frequencies --method clipped-hard:8 --context 64 --text @text -o @none", 1,
                 "trained_frequencies needs a plain rotation");
    assert_fails("eval @contextual" EVAL "yarn:2", 1, "no rotation to scale (nope)");
    assert_fails("eval @contextual" EVAL "none+logn", 1, "count positions");
    assert_fails("search @fope --text @text --to 128 --budget 20 --windows 2 --held-out 2", 1,
                 "the model trained what rotates (fourier)");
    assert_fails("search @contextual --text @text --to 128 --budget 20 --windows 2 --held-out 2", 1, "nope");
    assert_fails("generate @fope --prompt abc --stream 1,16", 1, "rotated before they are cached");
    assert_fails("plot attention @contextual --text @text --csv", 1, "weights: the queries of the model count positions");
    assert_fails("plot attention @dape-kerple --text @text --csv", 1, "weights: the layers of the model adapt biases");
    assert_fails("eval @dape-kerple" EVAL "none+logn", 1, "adapt biases, and this one does not fit");
    assert_fails("convert @dape-kerple --to gguf -o @none.gguf", 1, "adaptive: layers of a llama have none");
    assert_fails("shard @dape-kerple --context 4k --ranks 4", 1, "adaptive: a network reads the scores of all heads");
    assert_fails("train --from @fope --drop-rope --text @text -o @none", 1, "fourier needs a plain rotation");
    assert_fails("train --from @fope --method yarn:2 --context 64 --text @text -o @none", 1,
                 "fourier needs a plain rotation");
    assert_fails("train --from @contextual --drop-rope --text @text -o @none", 1, "none to drop");
    assert_fails("extend @fope --to 64 --method linear --write @none", 1, "fourier: what the model trained");
    assert_fails("extend @trained-frequencies --to 64 --method linear --write @none", 1,
                 "trained_frequencies: what the model");
    assert_fails("extend @fope --to 64", 1, "fourier: what the model trained");
    assert_fails("extend @trained-frequencies --to 16", 1, "trained_frequencies: what the model trained");
    assert_fails("convert @fope --to gguf -o @none.gguf", 1, "fourier: layers of a llama have none");
    assert_fails("shard @contextual --context 4k --ranks 4", 1, "contextual: queries count positions over all keys");
    assert_int_not_equal(access(in_folder("none"), F_OK), 0);
    assert_int_not_equal(access(in_folder("none.gguf"), F_OK), 0);
}

/* Half the steps, stopped, and the rest: the bytes of a run that was not. */
static void killed_and_resumed(void **state) {
    (void)state;
    static char whole[1 << 18], resumed[1 << 18];
    for (int i = 0; part_at(i); i++) {
        char line[256], path[64];
        outcome o;
        snprintf(line, sizeof line, "train " TINY "--encoding %s --tokens 64k -o @whole-%s", part_at(i), part_at(i));
        assert_int_equal(run(line)->exit, 0);
        snprintf(line, sizeof line, "train " TINY "--encoding %s --tokens 64k --save-every 1 -o @half-%s", part_at(i),
                 part_at(i));
        const pid_t child = start(line, in_folder("out"));
        snprintf(path, sizeof path, "half-%s/optimizer.safetensors", part_at(i));
        for (int n = 0; n < 20000 && access(in_folder(path), F_OK) != 0; n++)
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        kill(child, SIGKILL);
        finish(child, &o);
        if (o.signal == SIGKILL) {
            snprintf(line, sizeof line, "train --resume --threads 1 --text @text -o @half-%s", part_at(i));
            assert_int_equal(run(line)->exit, 0);
        }
        snprintf(path, sizeof path, "whole-%s/model.safetensors", part_at(i));
        read_whole(in_folder(path), whole, sizeof whole);
        snprintf(path, sizeof path, "half-%s/model.safetensors", part_at(i));
        read_whole(in_folder(path), resumed, sizeof resumed);
        assert_memory_equal(whole, resumed, sizeof whole);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(last_rows),
                                       cmocka_unit_test(subcommands_read_them),
                                       cmocka_unit_test(they_are_trained_on),
                                       cmocka_unit_test(configs_say_them),
                                       cmocka_unit_test(no_other_program_runs_polar_layers),
                                       cmocka_unit_test(caches_and_windows),
                                       cmocka_unit_test(audit_names_what_is_trained),
                                       cmocka_unit_test(diff_counts_them),
                                       cmocka_unit_test(diff_counts_forms_and_sizes),
                                       cmocka_unit_test(nothing_that_turns_has_no_accuracy),
                                       cmocka_unit_test(trained_turns_have_no_figures),
                                       cmocka_unit_test(extend_says_what_parts_do),
                                       cmocka_unit_test(what_would_be_lost_is_refused),
                                       cmocka_unit_test(killed_and_resumed)};
    return cmocka_run_group_tests(tests, train_all, remove_folder);
}
