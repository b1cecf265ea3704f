/* test_train_command.c: gyre train, gyre bench train and gyre lab from outside, and what a kill leaves. */
#include "run_command.h"

#include <sys/stat.h>
#include <unistd.h>

#define TINY "--width 16 --layers 1 --heads 2 --hidden 16 --context 32 --batch 4 "

static void same_files(const char *a, const char *b) {
    static char one[1 << 18], two[1 << 18];
    FILE *first = fopen(in_folder(a), "r"), *second = fopen(in_folder(b), "r");
    assert_non_null(first);
    assert_non_null(second);
    const size_t n = fread(one, 1, sizeof one, first);
    assert_true(n > 0 && n < sizeof one);
    assert_int_equal(fread(two, 1, sizeof two, second), n);
    assert_memory_equal(one, two, n);
    fclose(first);
    fclose(second);
}

static void wait_for(const char *name) {
    for (int i = 0; i < 20000 && access(in_folder(name), F_OK) != 0; i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    assert_int_equal(access(in_folder(name), F_OK), 0);
}

static int exit_of(const char *line) {
    return run(line)->exit;
}

static void killed_and_resumed(void **state) {
    (void)state;
    outcome o;
    assert_int_equal(exit_of("train " TINY "--tokens 256k --text @text -o @whole --threads 2"), 0);
    const pid_t child =
        start("train " TINY "--tokens 256k --text @text -o @killed --threads 1 --save-every 1", in_folder("out"));
    wait_for("killed/optimizer.safetensors");
    assert_fails("train --resume --text @text -o @killed", 1, "another run");
    assert_int_equal(kill(child, SIGKILL), 0);
    finish(child, &o);
    assert_int_equal(o.signal, SIGKILL);
    assert_int_equal(access(in_folder("killed/optimizer.safetensors"), F_OK), 0); /* not finished */
    assert_int_equal(exit_of("train --resume --text @text -o @killed --threads 2"), 0);
    same_files("whole/model.safetensors", "killed/model.safetensors");
    same_files("whole/config.json", "killed/config.json");
    assert_int_not_equal(access(in_folder("killed/optimizer.safetensors"), F_OK), 0);
    assert_int_not_equal(access(in_folder("killed.gyre-lock"), F_OK), 0);
    assert_fails("train --resume --text @text -o @killed", 1, "complete");
    static char training[4096];
    read_whole(in_folder("killed/training.json"), training, sizeof training);
    assert_non_null(strstr(training, "--save-every 1")); /* of the first command, not of the resume */
}

/* A model that reads tokens goes on reading them: the loss is that of its tokens, and what was trained has the tokenizer. */
static void tokenizer_is_kept(void **state) {
    (void)state;
    gyre_model_config config = gyre_model_config_default();
    gyre_model *model = NULL;
    gyre_error err = {0, ""};
    char tokenizer[8192] = "{\"version\": \"1.0\", \"added_tokens\": [], \"normalizer\": null, \"post_processor\": null, "
                           "\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": "
                           "true}, \"decoder\": {\"type\": \"ByteLevel\"}, \"model\": {\"type\": \"BPE\", \"vocab\": {";
    /* Every byte as the byte-level alphabet writes it; then a pair that random letters and spaces hold often. */
    for (int i = 0, other = 0; i < 256; i++) {
        const int plain = (i > 32 && i < 127) || (i > 160 && i != 173);
        const int code = plain ? i : 256 + other++;
        sprintf(tokenizer + strlen(tokenizer), "%s\"\\u%04x\": %d", i ? ", " : "", code, i);
    }
    strcat(tokenizer, ", \"\\u0120a\": 256}, \"merges\": [\"\\u0120 a\"]}}");
    config.vocab = 300;
    config.model_dim = config.mlp_dim = 16;
    config.layers = 1;
    config.heads = config.kv_heads = 2;
    config.head_dim = 8;
    config.position.kind = GYRE_KIND_ROPE;
    config.position.trained_length = 32;
    if (gyre_model_create(&model, &config, 1, &err) || gyre_model_save(model, in_folder("worded"), GYRE_DTYPE_F32, &err))
        fail_msg("%s", err.text);
    gyre_model_free(model);
    assert_fails("train --from @worded --text @text --tokens 1k --context 32 -o @retuned", 1, "tokenizer: ");
    write_file("worded/tokenizer.json", tokenizer, strlen(tokenizer));
    json_t *root = run_json("train --from @worded --text @text --tokens 1k --context 32 -o @retuned --json");
    json_decref(root);
    same_files("worded/tokenizer.json", "retuned/tokenizer.json");
    root = run_json("eval @retuned --text @text --contexts 32 --json");
    json_decref(root);
    /* The text as token ids: the merge is used, so it is shorter than its bytes. */
    const char *path = in_folder("text");
    gyre_tokenizer *opened = NULL;
    gyre_text text;
    assert_ok(gyre_tokenizer_open(&opened, in_folder("retuned"), &err));
    assert_ok(gyre_text_tokenize(&text, opened, &path, 1, 1, &err));
    assert_true(text.count < TEXT);
    static char training[4096], size[64];
    read_whole(in_folder("retuned/training.json"), training, sizeof training);
    snprintf(size, sizeof size, "\"bytes\": %lld", (long long)text.count);
    if (!strstr(training, size)) fail_msg("%s lacks %s", training, size);
    gyre_text_free(&text);
    gyre_tokenizer_free(opened);
    assert_fails("train --from @worded --text @text --mix 0.5 -o @mixed", 1, "this model reads tokens");
    assert_int_equal(mkfifo(in_folder("worded/tokenizer_config.json"), 0600), 0);
    alarm(60); /* nobody writes into the pipe */
    assert_fails("train --from @worded --text @text --tokens 1k --context 32 -o @piped", 1, "worded/tokenizer_config.json");
    alarm(0);
    assert_int_equal(unlink(in_folder("worded/tokenizer_config.json")), 0);
    write_file("worded/tokenizer_config.json", "{}", 2);
    assert_int_equal(truncate(in_folder("worded/tokenizer_config.json"), (64L << 20) + 1), 0);
    assert_fails("train --from @worded --text @text --tokens 1k --context 32 -o @large", 1,
                 "tokenizer: longer than 64 MiB (");
    assert_int_not_equal(access(in_folder("large/tokenizer_config.json"), F_OK), 0);
    assert_int_equal(unlink(in_folder("worded/tokenizer_config.json")), 0);
    assert_fails("train --from @worded --headers -o @mixed", 1, "--headers: for models that read bytes");
    assert_fails("train --from @worded --text @text --split train -o @mixed", 1, "--split: for models that read bytes");
}

/* Waits until the folder was replaced so many times. */
static void wait_for_saves(const char *name, int saves) {
    struct stat is, last;
    assert_int_equal(stat(in_folder(name), &last), 0);
    for (int i = 0; saves > 0 && i < 100000; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
        if (stat(in_folder(name), &is) != 0 || is.st_ino == last.st_ino) continue;
        last = is;
        saves--;
    }
    assert_int_equal(saves, 0);
}

/* What lies beside the weights is there after every save: the tokenizer, without which --resume would read bytes, and what
 * somebody put there meanwhile. */
static void saves_keep_the_rest(void **state) {
    (void)state;
    outcome o;
    assert_int_equal(exit_of("train --from @worded --text @text --tokens 256k --context 32 --batch 4 -o @steady"), 0);
    const pid_t child = start(
        "train --from @worded --text @text --tokens 256k --context 32 --batch 4 --save-every 1 -o @cut", in_folder("out"));
    wait_for("cut/tokenizer.json");
    wait_for_saves("cut", 2);
    write_file("cut/figure.html", "mine", 4);
    (void)mkdir(in_folder("cut/figures"), 0777);
    write_file("cut/figures/a", "mine", 4);
    wait_for_saves("cut", 3);
    assert_int_equal(kill(child, SIGTERM), 0);
    finish(child, &o);
    assert_non_null(strstr(o.err, "--resume continues"));
    same_files("worded/tokenizer.json", "cut/tokenizer.json");
    assert_int_equal(exit_of("train --resume --text @text -o @cut"), 0);
    same_files("steady/model.safetensors", "cut/model.safetensors");
    same_files("worded/tokenizer.json", "cut/tokenizer.json");
    same_files("cut/figure.html", "cut/figures/a");
    /* A run on other tokens does not get the tokenizer. */
    assert_int_equal(unlink(in_folder("cut/figure.html")) | unlink(in_folder("cut/figures/a")), 0);
    assert_int_equal(rmdir(in_folder("cut/figures")), 0);
    assert_int_equal(exit_of("train " TINY "--tokens 1k --text @text -o @cut --force"), 0);
    assert_int_equal(access(in_folder("cut/tokenizer.json"), F_OK), -1);
}

/* Parents of the folder are made, and an empty one is as good as none. */
static void new_folders(void **state) {
    (void)state;
    assert_int_equal(exit_of("train " TINY "--tokens 1k --text @text -o @runs/of/a/"), 0);
    assert_int_equal(mkdir(in_folder("hollow"), 0777), 0);
    assert_int_equal(exit_of("train " TINY "--tokens 1k --text @text -o @hollow"), 0);
    assert_fails("train " TINY "--tokens 1k --text @text -o @hollow", 1, "exists and is not empty");
    assert_fails("train " TINY "--tokens 1k --text @text -o @text/a", 1, "Not a directory");
}

static void base_and_rotated_channels(void **state) {
    (void)state;
    static char config[4096];
    json_decref(run_json("train " TINY "--tokens 1k --base 500000 --rope-dim 4 --text @text -o @based --json"));
    gyre_model *model = NULL;
    gyre_error err = {0, ""};
    assert_ok(gyre_model_open(&model, in_folder("based"), NULL, &err));
    const gyre_config *position = gyre_encoding_get_config(gyre_model_get_encoding(model));
    assert_true(position->rope.base == 500000);
    assert_int_equal(position->rope.dim, 4);
    gyre_model_free(model);
    assert_fails("train " TINY "--rope-dim 3 --text @text -o @no", 2, "--rope-dim: 3 is not an even number");
    assert_fails("train " TINY "--rope-dim 10 --text @text -o @no", 2, "--rope-dim: 10 is not an even number");
    assert_fails("train " TINY "--encoding alibi --base 100 --text @text -o @no", 2, "--base: alibi does not rotate");
    assert_fails("train --from @based --base 100 --text @text -o @no", 2, "--from: ");
    assert_fails("lab --base 100", 2, "--base");
    assert_fails("lab --text @text --preset smoke --rope-dim 5", 2, "--rope-dim: 5 is not an even number");
    assert_int_equal(
        exit_of("lab --text @text --preset smoke --encodings nope,rope --base 700 --rope-dim 8 --work @based-lab "
                "--report @based.html --json"),
        0);
    char path[300];
    snprintf(path, sizeof path, "%s/lab.json", in_folder("based-lab"));
    read_whole(path, config, sizeof config);
    assert_non_null(strstr(config, "\"base\": 700"));
    assert_non_null(strstr(config, "\"rope_dim\": 8"));
    assert_int_equal(gyre_model_open(&model, in_folder("based-lab/rope-s1"), NULL, &err), GYRE_OK);
    assert_true(gyre_encoding_get_config(gyre_model_get_encoding(model))->rope.base == 700);
    assert_int_equal(gyre_encoding_get_config(gyre_model_get_encoding(model))->rope.dim, 8);
    gyre_model_free(model);
}

/* Positions past the context, in training alone: killed, resumed and read from 0. */
static void drawn_positions(void **state) {
    (void)state;
    outcome o;
#define DRAWN TINY "--tokens 64k --text @text --encoding learned --positions pose:100 "
    assert_int_equal(exit_of("train " DRAWN "-o @drawn --threads 2"), 0);
    const pid_t child = start("train " DRAWN "-o @ended --threads 1 --save-every 1", in_folder("out"));
    wait_for("ended/optimizer.safetensors");
    assert_int_equal(kill(child, SIGKILL), 0);
    finish(child, &o);
    if (o.signal == SIGKILL) assert_int_equal(exit_of("train --resume --text @text -o @ended --threads 2"), 0);
    same_files("drawn/model.safetensors", "ended/model.safetensors");
    assert_non_null(strstr(run("explain @drawn")->out, "100")); /* rows of its table */
    json_decref(run_json("eval @drawn --text @text --contexts 32,64 --windows 2 --json"));
    static char training[4096];
    read_whole(in_folder("ended/training.json"), training, sizeof training);
    assert_non_null(strstr(training, "\"draw\": \"pose\""));
#define WRONG "train " TINY "--text @text -o @none "
    assert_fails(WRONG "--positions randomized", 2, "randomized of how many positions?");
    assert_fails(WRONG "--positions randomized:31", 2, "a range of 31 is less than the context of 32");
    assert_fails(WRONG "--positions random:100", 2, "\"random:100\" is none of randomized:N, shape:N, pose:N");
    assert_fails(WRONG "--positions none:100", 2, "is none of");
    assert_fails(WRONG "--positions pose:1.5", 2, "is not a whole number");
    assert_fails(WRONG "--positions pose:100 --encoding nope", 1, "positions: pose, but nope reads none");
    assert_fails(WRONG "--positions pose:100 --encoding contextual", 1, "reads none");
    assert_fails(WRONG "--encoding rope+pose", 2, "give --positions pose:N");
    assert_fails("train --resume --text @text -o @drawn --positions pose:100", 2, "come from the checkpoint");
    assert_int_not_equal(access(in_folder("none"), F_OK), 0);
#undef DRAWN
#undef WRONG
}

static void interrupted(void **state) {
    (void)state;
    outcome o;
    const pid_t child = start("train " TINY "--tokens 100000000 --text @text -o @stopped --save-every 1", in_folder("out"));
    wait_for("stopped/optimizer.safetensors");
    assert_int_equal(kill(child, SIGINT), 0);
    finish(child, &o);
    assert_int_equal(o.exit, 130);
    assert_non_null(strstr(o.err, "--resume continues"));
    assert_int_equal(access(in_folder("stopped/optimizer.safetensors"), F_OK), 0);
}

static void every_encoding_trains(void **state) {
    (void)state;
    static const char *const kinds[] = {"nope", "learned", "sinusoidal", "rope", "alibi"};
    char line[256];
    for (int i = 0; i < 5; i++) {
        snprintf(line, sizeof line, "train " TINY "--tokens 2k --dtype bf16 --encoding %s --text @text -o @k-%s --json",
                 kinds[i], kinds[i]);
        json_t *root = run_json(line);
        assert_string_equal(json_string_value(json_object_get(root, "encoding")), kinds[i]);
        assert_int_equal(json_integer_value(json_object_get(root, "steps")), 16);
        json_decref(root);
        snprintf(line, sizeof line, "eval @k-%s --text @text --contexts 32 --json", kinds[i]);
        root = run_json(line);
        assert_int_equal(json_array_size(json_object_get(root, "results")), 1);
        json_decref(root);
    }
}

static void fine_tunes(void **state) {
    (void)state;
    assert_int_equal(exit_of("train " TINY "--tokens 2k --text @text -o @base"), 0);
    assert_int_equal(
        exit_of("train --from @base --method yarn:4 --context 128 --batch 2 --tokens 2k --text @text -o @tuned"), 0);
    json_t *root = run_json("eval @tuned --text @text --contexts 128 --json");
    json_decref(root);
    assert_fails("train --method ntk:2 --text @text -o @none", 2, "--from");
    assert_fails("train --from @missing --text @text -o @none", 1, "missing");
}

/* A model whose rotation was dropped is trained, saved and read like one of the same weights that never had it. */
static void drops_rotation(void **state) {
    (void)state;
    static char dropped[1 << 20], never[1 << 20];
    static const char *const files[] = {"config.json", "model.safetensors"};
    char path[64];
    write_model("plain", GYRE_KIND_NOPE); /* the weights of @rope */
    assert_int_equal(exit_of("train --from @rope --drop-rope --context 32 --batch 2 --tokens 2k --text @text -o @dropped"),
                     0);
    assert_int_equal(exit_of("train --from @plain --context 32 --batch 2 --tokens 2k --text @text -o @never"), 0);
    assert_int_equal(exit_of("train --from @rope --context 32 --batch 2 --tokens 2k --text @text -o @kept"), 0);
    for (int f = 0; f < 2; f++) {
        snprintf(path, sizeof path, "dropped/%s", files[f]);
        read_whole(in_folder(path), dropped, sizeof dropped);
        snprintf(path, sizeof path, "never/%s", files[f]);
        read_whole(in_folder(path), never, sizeof never);
        assert_memory_equal(dropped, never, sizeof dropped);
        snprintf(path, sizeof path, "kept/%s", files[f]);
        read_whole(in_folder(path), never, sizeof never);
        assert_memory_not_equal(dropped, never, sizeof dropped);
    }
    json_t *root = run_json("eval @dropped --text @text --contexts 32,256 --json");
    json_decref(root);
    assert_fails("eval @dropped --text @text --contexts 32 --methods yarn:2", 1,
                 "the model has no rotation to scale (nope)");
    assert_fails("train --from @dropped --drop-rope --text @text -o @none", 1,
                 "rotation: the model has none to drop (nope)");
    assert_fails("train --from @alibi --drop-rope --text @text -o @none", 1, "rotation: the model has none to drop (alibi)");
    assert_fails("train --drop-rope --text @text -o @none", 2, "--drop-rope: needs a model that rotates");
    assert_fails("train --from @rope --drop-rope --method yarn --text @text -o @none", 2, "--drop-rope: leaves no rotation");
}

static void wrong_training(void **state) {
    (void)state;
    assert_fails("train --text @text", 2, "-o");
    assert_fails("train -o @none", 2, "--text");
    assert_fails("train --text @absent -o @none", 1, "absent");
    assert_fails("train --text @empty -o @none", 1, "empty");
    assert_fails("train --text @short -o @none", 1, "short");
    assert_fails("train --text @nothing -o @none", 1, "nothing");
    assert_fails("train --text @text -o @none --encoding what", 2, "what");
    assert_fails("train --text @text -o @none --heads 3", 2, "heads");
    assert_fails("train --text @text -o @none --context 0", 2, "context");
    assert_fails("train --text @text -o @none --resume --width 8", 2, "--resume");
    assert_fails("train --text @text --headers -o @none", 2, "--headers");
    assert_fails("train --from @base --width 8 --text @text -o @none", 2, "--from");
    assert_fails("train --text @text -o @none --resume", 1, "none");
    assert_fails("train --text @text -o @texts", 1, "texts");
    assert_fails("train " TINY "--tokens 1k --text @text -o @texts --force", 1, "texts"); /* it holds other files */
    assert_int_equal(access(in_folder("texts/a"), F_OK), 0);
    assert_int_not_equal(access(in_folder("none"), F_OK), 0);
}

static void wrong_lab(void **state) {
    (void)state;
    assert_fails("lab --preset full", 2, "--text");
    assert_fails("lab --force --text @absent", 1, "absent");
    assert_fails("lab --force --text @text --work @w", 1, "text");
    assert_fails("lab --text @text --report @nothing --work @w", 1, "nothing");
    assert_fails("lab --text @text --report @absent/report.html --work @w", 1, "report");
    assert_fails("lab --preset slow --text @text", 2, "slow");
    assert_fails("bench", 2, "benchmark");
    assert_fails("bench nothing", 2, "nothing");
}

static void bench_counts(void **state) {
    (void)state;
    json_t *root = run_json("bench train --context 32 --batch 2 --rounds 1 --threads 1 --json");
    const double rate = json_number_value(json_object_get(root, "tokens_per_s"));
    const double flops = json_number_value(json_object_get(root, "flops_per_token"));
    const double weights = json_number_value(json_object_get(root, "parameters"));
    assert_true(rate > 0);
    test_close(flops, 6 * weights + 12.0 * 5 * 128 * 32, 1, "operations of a token");
    test_close(json_number_value(json_object_get(root, "gflops")), rate * flops * 1e-9, 1e-6 * rate * flops * 1e-9,
               "product");
    json_decref(root);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(killed_and_resumed),
                                       cmocka_unit_test(tokenizer_is_kept),
                                       cmocka_unit_test(saves_keep_the_rest),
                                       cmocka_unit_test(new_folders),
                                       cmocka_unit_test(base_and_rotated_channels),
                                       cmocka_unit_test(drawn_positions),
                                       cmocka_unit_test(interrupted),
                                       cmocka_unit_test(every_encoding_trains),
                                       cmocka_unit_test(fine_tunes),
                                       cmocka_unit_test(drops_rotation),
                                       cmocka_unit_test(wrong_training),
                                       cmocka_unit_test(wrong_lab),
                                       cmocka_unit_test(bench_counts)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
