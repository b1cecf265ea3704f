/* test_model_path.c: names of the hub, looked up in a made-up Hugging Face cache, by every command. */
#include "run_command.h"
#include "tools/common/model_path.h"

static const char *const variables[] = {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"};

static void clear_variables(void) {
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        unsetenv(variables[i]);
}

static void make_folders(const char *path) {
    char whole[512];
    snprintf(whole, sizeof whole, "%s/%s", folder, path);
    for (char *slash = whole + strlen(folder) + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
        *slash = 0;
        (void)mkdir(whole, 0777);
    }
    (void)mkdir(whole, 0777);
}

/* One snapshot as the hub's client leaves it: links to blobs. */
static void make_snapshot(const char *cache, const char *repo, const char *commit) {
    static const char *const files[] = {"config.json", "model.safetensors"};
    char path[256], link[256], target[128];
    snprintf(path, sizeof path, "%s/models--%s/blobs", cache, repo);
    make_folders(path);
    snprintf(path, sizeof path, "%s/models--%s/snapshots/%s", cache, repo, commit);
    make_folders(path);
    for (int i = 0; i < 2; i++) {
        static char bytes[1 << 20];
        char from[64];
        snprintf(from, sizeof from, "rope/%s", files[i]);
        FILE *file = fopen(in_folder(from), "rb");
        assert_non_null(file);
        const size_t count = fread(bytes, 1, sizeof bytes, file);
        fclose(file);
        snprintf(path, sizeof path, "%s/models--%s/blobs/%s-%d", cache, repo, commit, i);
        write_file(path, bytes, count);
        snprintf(target, sizeof target, "../../blobs/%s-%d", commit, i);
        snprintf(link, sizeof link, "%s/models--%s/snapshots/%s/%s", cache, repo, commit, files[i]);
        assert_int_equal(symlink(target, in_folder(link)), 0);
    }
}

static void make_reference(const char *cache, const char *repo, const char *revision, const char *commit) {
    char path[256];
    snprintf(path, sizeof path, "%s/models--%s/refs/%s", cache, repo, revision);
    *strrchr(path, '/') = 0;
    make_folders(path);
    path[strlen(path)] = '/';
    write_file(path, commit, strlen(commit));
}

static int make_cache(void **state) {
    clear_variables();
    if (make_folder(state)) return -1;
    setenv("HF_HOME", folder, 1);
    make_snapshot("hub", "Org--Tiny-1.5", "aaaa");
    make_snapshot("hub", "Org--Tiny-1.5", "bbbb");
    make_reference("hub", "Org--Tiny-1.5", "main", "aaaa");
    make_reference("hub", "Org--Tiny-1.5", "v2", "bbbb\n");
    make_reference("hub", "Org--Tiny-1.5", "refs/pr/1", "bbbb");
    return 0;
}

/* Fails unless `name` is read from hub/ `at`. */
static void assert_found(const char *name, const char *at) {
    char line[256], want[512];
    snprintf(line, sizeof line, "explain %s --json", name);
    snprintf(want, sizeof want, "%s/%s/config.json", folder, at);
    json_t *root = run_json(line);
    assert_string_equal(test_string(root, "path"), want);
    json_decref(root);
}

static void revisions(void **state) {
    (void)state;
    assert_found("Org/Tiny-1.5", "hub/models--Org--Tiny-1.5/snapshots/aaaa");
    assert_found("Org/Tiny-1.5@@main", "hub/models--Org--Tiny-1.5/snapshots/aaaa");
    assert_found("Org/Tiny-1.5@@v2", "hub/models--Org--Tiny-1.5/snapshots/bbbb");
    assert_found("Org/Tiny-1.5@@refs/pr/1", "hub/models--Org--Tiny-1.5/snapshots/bbbb");
    assert_found("Org/Tiny-1.5@@bbbb", "hub/models--Org--Tiny-1.5/snapshots/bbbb");
    assert_fails("explain Org/Tiny-1.5@@v3", 1,
                 "no such revision in the Hugging Face cache; nothing is downloaded here, `hf download "
                 "Org/Tiny-1.5 --revision v3` does it");
    assert_fails("explain Org/Tiny-1.5@@../snapshots/aaaa", 1, "Org/Tiny-1.5@");
    /* The page says which folder it is about. */
    const outcome *o = run("explain Org/Tiny-1.5@@v2");
    assert_int_equal(o->exit, 0);
    assert_non_null(strstr(o->out, "hub/models--Org--Tiny-1.5/snapshots/bbbb/config.json\n"));
}

/* Every command takes the name where it takes a path. */
static void every_command(void **state) {
    (void)state;
    static const char *const lines[] = {
        "eval Org/Tiny-1.5 --text @text --contexts 32 --windows 2 --json",
        "diff Org/Tiny-1.5 --with vllm --json",
        "extend Org/Tiny-1.5 --to 64 --json",
        "generate Org/Tiny-1.5 --prompt ab --tokens 2 --json",
        "passkey Org/Tiny-1.5 --lengths 300 --trials 2 --depths 1 --json",
        "search Org/Tiny-1.5 --text @text --to 64 --windows 2 --held-out 2 --budget 8 --json",
        "convert Org/Tiny-1.5 -o @converted --json",
        ("train --from Org/Tiny-1.5 --text @text --output @tuned --tokens 64 --batch 1 "
         "--context 32")};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        const outcome *o = run(lines[i]);
        if (o->exit) fail_msg("gyre %s: exit %d: %s", lines[i], o->exit, o->err);
    }
    static const char *const missing[] = {"eval Org/None --text @text",
                                          "diff @rope Org/None",
                                          "extend Org/None --to 64",
                                          "generate Org/None --prompt ab",
                                          "train --from Org/None --text @text",
                                          "eval @rope --text @text --tokenizer Org/None"};
    for (size_t i = 0; i < sizeof missing / sizeof *missing; i++)
        assert_fails(missing[i], 1, "nothing is downloaded here, `hf download Org/None` does it");
}

static void where_the_cache_is(void **state) {
    (void)state;
    static const char *const caches[] = {"one", "two", "three/hub", "four/huggingface/hub"};
    static const char *const values[] = {"one", "two", "three", "four"};
    char home[512], keep[512];
    const char *old = getenv("HOME");
    snprintf(keep, sizeof keep, "%s", old ? old : "");
    clear_variables();
    setenv("HOME", in_folder("home"), 1);
    make_snapshot("home/.cache/huggingface/hub", "Org--Where", "home");
    assert_found("Org/Where", "home/.cache/huggingface/hub/models--Org--Where/snapshots/home");
    for (int i = 3; i >= 0; i--) { /* the first of the variables wins */
        char at[128];
        make_snapshot(caches[i], "Org--Where", values[i]);
        setenv(variables[i], in_folder(values[i]), 1);
        snprintf(at, sizeof at, "%s/models--Org--Where/snapshots/%s", caches[i], values[i]);
        assert_found("Org/Where", at);
    }
    clear_variables();
    setenv("HF_HOME", "~/.cache/huggingface", 1);
    assert_found("Org/Where", "home/.cache/huggingface/hub/models--Org--Where/snapshots/home");
    clear_variables();
    unsetenv("HOME");
    assert_fails("explain Org/Where", 1, "neither HF_HOME nor HOME is set");
    snprintf(home, sizeof home, "%s", keep);
    setenv("HOME", home, 1);
    setenv("HF_HOME", folder, 1);
    assert_fails("explain Org/Where", 1, "hub/models--Org--Where"); /* where it was looked for */
}

static void no_reference(void **state) {
    (void)state;
    make_snapshot("hub", "Org--Loose", "old");
    assert_found("Org/Loose", "hub/models--Org--Loose/snapshots/old");
    make_snapshot("hub", "Org--Loose", "new");
    const struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    assert_int_equal(utimensat(AT_FDCWD, in_folder("hub/models--Org--Loose/snapshots/old"), times, 0), 0);
    assert_found("Org/Loose", "hub/models--Org--Loose/snapshots/new");
    assert_non_null(strstr(run("explain Org/Loose")->err, "2 snapshots and no refs/main; the newest is read"));
    make_reference("hub", "Org--Loose", "main", "old");
    assert_found("Org/Loose", "hub/models--Org--Loose/snapshots/old");
    make_reference("hub", "Org--Loose", "main", "gone"); /* a download that was not finished */
    assert_fails("explain Org/Loose", 1, "refs/main names the snapshot gone, which is missing; nothing is downloaded");
    assert_fails("explain Org/Loose", 1, "`hf download Org/Loose` does it");
    /* A word that leads elsewhere is said; no other snapshot stands in for it. */
    static const char *const elsewhere[] = {"..", "../../blobs", "old/../new", ".hidden"};
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++) {
        char why[128];
        make_reference("hub", "Org--Loose", "main", elsewhere[i]);
        snprintf(why, sizeof why, "refs/main holds \"%s\", which names no snapshot", elsewhere[i]);
        assert_fails("explain Org/Loose", 1, why);
    }
    /* A pipe without a writer is no reference, and nobody waits for one. */
    assert_int_equal(unlink(in_folder("hub/models--Org--Loose/refs/main")), 0);
    assert_int_equal(mkfifo(in_folder("hub/models--Org--Loose/refs/main"), 0666), 0);
    assert_found("Org/Loose", "hub/models--Org--Loose/snapshots/new");
}

/* A blob that was removed leaves a link to nothing. */
static void missing_files(void **state) {
    (void)state;
    make_snapshot("hub", "Org--Part", "cccc");
    assert_int_equal(unlink(in_folder("hub/models--Org--Part/blobs/cccc-1")), 0);
    assert_found("Org/Part", "hub/models--Org--Part/snapshots/cccc");
    assert_fails("eval Org/Part --text @text", 1, "the cache may lack files of it, which `hf download` completes");
    assert_int_equal(unlink(in_folder("hub/models--Org--Part/blobs/cccc-0")), 0);
    assert_fails("explain Org/Part", 1, "without config.json; nothing is downloaded here, `hf download Org/Part` completes");
}

static void make_gguf(const char *snapshot, const char *name) {
    char line[128], path[256];
    snprintf(line, sizeof line, "convert @rope -o @%s", name);
    snprintf(path, sizeof path, "%s/%s", snapshot, name);
    assert_int_equal(run(line)->exit, 0);
    assert_int_equal(rename(in_folder(name), in_folder(path)), 0);
}

/* A repository of GGUF files has no config.json.*/
static void gguf_alone(void **state) {
    (void)state;
    static const char snapshot[] = "hub/models--Org--Files-GGUF/snapshots/dddd";
    make_folders(snapshot);
    make_gguf(snapshot, "a.gguf");
    json_t *root = run_json("explain Org/Files-GGUF --json");
    assert_string_equal(test_string(root, "format"), "GGUF");
    json_decref(root);
    make_gguf(snapshot, "b.gguf");
    assert_fails("explain Org/Files-GGUF", 1, "2 GGUF files; name one, such as");
}

/* A path that is there is never looked up; a name without organisation is found, and a wrong path stays one. */
static void local_paths_win(void **state) {
    (void)state;
    char here[512];
    assert_non_null(getcwd(here, sizeof here));
    make_folders("work/Org");
    assert_int_equal(chdir(in_folder("work")), 0);
    assert_int_equal(symlink(in_folder("alibi"), "Org/Tiny-1.5"), 0);
    json_t *root = run_json("explain Org/Tiny-1.5 --json");
    assert_string_equal(test_string(root, "path"), "Org/Tiny-1.5/config.json");
    json_decref(root);
    assert_fails("explain Org/Elsewhere", 1, "Org/Elsewhere: no such file or folder; nothing is downloaded");
    assert_int_equal(chdir(here), 0);
    make_snapshot("hub", "plain", "eeee");
    assert_found("plain", "hub/models--plain/snapshots/eeee");
    assert_fails("explain missing/config.json", 1, "No such file");
}

/* Pages and figures name a model without the folders of this machine. */
static void shown_names(void **state) {
    (void)state;
    static const char *const names[][2] = {{"/home/me/models/rope", "rope"},
                                           {"/home/me/models/rope/", "rope/"},
                                           {"models/rope", "models/rope"},
                                           {"Org/Name", "Org/Name"},
                                           {"/home/me/rope/config.json", "rope/config.json"},
                                           {"/config.json", "config.json"},
                                           {"../a/b.gguf", "../a/b.gguf"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_string_equal(model_path_shown(names[i][0]), names[i][1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(revisions),          cmocka_unit_test(every_command),
                                       cmocka_unit_test(where_the_cache_is), cmocka_unit_test(no_reference),
                                       cmocka_unit_test(missing_files),      cmocka_unit_test(gguf_alone),
                                       cmocka_unit_test(local_paths_win),    cmocka_unit_test(shown_names)};
    return cmocka_run_group_tests(tests, make_cache, remove_folder);
}
