/* test_guard_models.c: models are kept whatever their files are called, wherever they lie, and where files cannot be looked
 * at; other programs' files too. */
#include "kept_files.h"
#include "left_names.h"

static void assert_runs(const char *line) {
    char forced[512];
    snprintf(forced, sizeof forced, "%s --force", line);
    for (int again = 0; again < 2; again++) {
        const outcome *o = run(again ? forced : line);
        if (o->exit) fail_msg("gyre %s: exit %d, run %d: %s", line, o->exit, again, o->err);
    }
}

typedef struct kept_case {
    const char *line, *name;
} kept_case;
#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Each is a file that the run reads: kept with --force too. */
static void assert_all_read(const kept_case *cases, size_t count) {
    for (size_t i = 0; i < count; i++)
        assert_never_written(cases[i].line, cases[i].name, "which this run reads");
}

/* Each is a file that the run does not read: replaced with --force alone. */
static void assert_all_ask(const kept_case *cases, size_t count) {
    for (size_t i = 0; i < count; i++)
        assert_asks(cases[i].line, cases[i].name);
}

/* -- a config of another name -- */
static void config_beside_a_model(void **state) {
    (void)state;
    static const char *const files[] = {"m/model.safetensors", "m/tokenizer.json", "m/processor_config.json",
                                        "m/config.json"};
    static const kept_case loose[] = {{"explain @loose/llama.json -o @loose/model.safetensors", "loose/model.safetensors"},
                                      {"explain @loose/llama.json -o @loose/tokenizer.json", "loose/tokenizer.json"}};
    char line[256];
    assert_int_equal(shell("cp -r rope m && cp m/config.json m/alt.json && echo '{}' >m/tokenizer.json && "
                           "echo '{}' >m/processor_config.json"),
                     0);
    for (size_t i = 0; i < COUNT(files); i++) {
        snprintf(line, sizeof line, "extend @m/alt.json --to 1k --method yarn --write @%s", files[i]);
        assert_never_written(line, files[i], "which this run reads");
        snprintf(line, sizeof line, "explain @m/alt.json -o @%s", files[i]);
        assert_never_written(line, files[i], "which this run reads");
    }
    assert_runs("extend @m/alt.json --to 1k --method yarn --write @m/far.json");
    /* No config.json beside it. */
    assert_int_equal(
        shell("mkdir loose && cp m/model.safetensors m/tokenizer.json loose && cp m/config.json loose/llama.json"), 0);
    assert_all_read(loose, COUNT(loose));
    assert_runs("explain @loose/llama.json -o @loose/notes");
    remove_tree(in_folder("loose"));
    remove_tree(in_folder("m"));
}

/* -- files that the run does not read -- */
/* Other models, under any name, and other programs' files: whatever is in a file, it is kept without --force. */
static void files_of_others(void **state) {
    (void)state;
    static const kept_case cases[] = {
        {"extend @rope --to 1k --method yarn --write @other/model.safetensors", "other/model.safetensors"},
        {"explain @rope -o @other/model.safetensors", "other/model.safetensors"},
        {"explain @rope -o @other/config.json", "other/config.json"},
        {"explain @rope -o @other/tokenizer.json", "other/tokenizer.json"},
        {"explain @rope -o @other/vocab.txt", "other/vocab.txt"},
        {"explain @rope -o @soft.json", "other/tokenizer.json"},
        {"explain @rope -o @other/stories15M.bin", "other/stories15M.bin"},
        {"extend @my.json --to 1k --method yarn --write @other/tokenizer.json", "other/tokenizer.json"},
        {"extend @my.json --to 1k --method yarn --write @other/config.json", "other/config.json"},
        {"explain @rope -o @plain", "plain"},
        {"explain @rope --json -o @sha256-aa", "sha256-aa"},
        {"extend @w.gguf --to 1k --method yarn --write @w-00001-of-00003.gguf", "w-00001-of-00003.gguf"},
        {"convert @w.gguf --dtype bf16 -o @w-00001-of-00003.gguf", "w-00001-of-00003.gguf"},
        {"convert @rope --dtype bf16 -o @soft.gguf", "w-00001-of-00003.gguf"},
        {"extend @rope --to 2k --method yarn --write @sha256-aa", "sha256-aa"},
        {"extend @w.gguf --to 2k --method yarn --write @app/far.cfg", "app/far.cfg"},
        {"extend @rope --to 1k --method yarn --write @app/config.json", "app/config.json"},
        {"extend @rope --to 1k --method yarn --write @app/diary.json", "app/diary.json"},
        {"explain @rope -o @app/far.cfg", "app/far.cfg"},
        {"explain @rope -o @app/keys.json", "app/keys.json"},
        {"explain @rope/config.json --json -o @app/pod.json", "app/pod.json"},
        {"plot wavelengths @rope/config.json --json -o @app/pod.json", "app/pod.json"},
        {"explain @rope -o @hub/models--o--n/refs/main", "hub/models--o--n/refs/main"}};
    assert_int_equal(shell("cp -r alibi other && cp rope/config.json my.json && $G convert rope -o w.gguf && "
                           "cp w.gguf w-00001-of-00003.gguf && cp w.gguf sha256-aa && cp alibi/config.json plain && "
                           "echo '{}' >other/tokenizer.json && echo a >other/vocab.txt && echo b >other/stories15M.bin && "
                           "ln -s other/tokenizer.json soft.json && ln -s w-00001-of-00003.gguf soft.gguf && mkdir app && "
                           "echo '{\"port\": 80}' >app/config.json && echo text >app/diary.json && "
                           "sed '1s/{/{\"x\": Infinity,/' rope/config.json >app/far.cfg && "
                           "echo '{\"max_position_embeddings\": 4}' >app/keys.json && "
                           "echo '{\"kind\": \"Pod\"}' >app/pod.json && "
                           "h=hub/models--o--n && mkdir -p $h/refs && echo c >$h/refs/main"),
                     0);
    assert_all_ask(cases, COUNT(cases));
    assert_runs("convert @w.gguf -o @half.gguf --dtype bf16");
    assert_runs("explain @rope --json -o @found.json");
    /* A file that is no GGUF is not replaced by one, as by gyre_convert. */
    assert_int_equal(shell("echo text >app/notes.gguf && ! $G convert rope -o app/notes.gguf --force && "
                           "grep -q text app/notes.gguf"),
                     0);
    /* No new file of a model's name beside a config.json. */
    assert_int_equal(unlink(in_folder("other/vocab.txt")), 0);
    assert_int_equal(symlink("other/merges.txt", in_folder("soft2")), 0);
    assert_fails("explain @rope -o @soft2", 2, "would be a file of the model beside it");
    assert_fails("explain @rope -o @other/generation_config.json", 2, "would be a file of the model beside it");
    assert_fails("explain @rope -o @other/vocab.txt --force", 2, "would be a file of the model beside it");
    assert_runs("eval @rope --text @text --contexts 16 --windows 1 --report /dev/null -o /dev/null");
    remove_tree(in_folder("hub"));
    remove_tree(in_folder("other"));
    remove_tree(in_folder("app"));
}

/* -- links -- */
static void links_of_other_names(void **state) {
    (void)state;
    static const kept_case read[] = {{"explain @x.json -o @l/model.safetensors", "l/model.safetensors"},
                                     {"explain @x.json -o @l/chat_template.jinja", "l/chat_template.jinja"},
                                     {"explain @b.bin -o @gg/a-00002-of-00002.gguf", "gg/a-00002-of-00002.gguf"},
                                     {"explain @my-config.json -o @snapshot/model.safetensors", "blobs/b2"}};
    static const kept_case other[] = {
        {"explain @b.bin -o @gg/c.gguf", "gg/c.gguf"},
        {"explain @my-config.json -o @blobs/b3", "blobs/b3"},
        {"extend @my-config.json --to 1k --method yarn --write @blobs/b3", "blobs/b3"},
    };
    assert_int_equal(
        shell("mkdir gg blobs snapshot && cp -r rope l && $G convert rope -o gg/a-00001-of-00002.gguf && "
              "cp gg/a-00001-of-00002.gguf gg/c.gguf && cp gg/c.gguf gg/a-00002-of-00002.gguf && "
              "echo text >l/chat_template.jinja && ln -s l/config.json x.json && ln -s gg/a-00001-of-00002.gguf b.bin && "
              "cp rope/config.json blobs/b1 && cp rope/model.safetensors blobs/b2 && echo b >blobs/b3 && "
              "ln -s ../blobs/b1 snapshot/config.json && ln -s ../blobs/b2 snapshot/model.safetensors && "
              "ln -s snapshot/config.json my-config.json"),
        0);
    assert_all_read(read, 3);
    assert_all_ask(other, COUNT(other));
    assert_asks(read[3].line, read[3].name); /* the link leads to the blob, not to the snapshot */
    assert_never_written("explain @snapshot/config.json -o @blobs/b2", "blobs/b2", "which this run reads");
    assert_never_written("explain @snapshot -o @blobs/b2", "blobs/b2", "which this run reads");
    assert_runs("explain @x.json -o @beside");
    remove_tree(in_folder("blobs"));
    remove_tree(in_folder("snapshot"));
    remove_tree(in_folder("gg"));
    remove_tree(in_folder("l"));
}

/* A folder of links: what is behind them is read. */
static void folders_of_links(void **state) {
    (void)state;
    assert_int_equal(shell("cp -r rope b && mkdir ll && ln -s ../b/config.json ../b/model.safetensors ll && "
                           "mkdir b2 e2 a2 app && cp rope/config.json b2 && cp rope/model.safetensors e2/w.safetensors && "
                           "ln -s ../e2/w.safetensors b2/model.safetensors && cp rope/config.json a2 && "
                           "ln -s ../b2/model.safetensors a2/model.safetensors && ln -s ../app a2/results"),
                     0);
    assert_never_written("convert @ll -o @b --dtype f16", "b/model.safetensors", "which this run reads");
    assert_never_written("train --from @ll --text @text --context 32 --batch 1 --tokens 64 -o @b", "b/model.safetensors",
                         "which this run reads");
    assert_fails("convert @a2 -o @b2 --dtype f16 --force", 2, "which this run reads"); /* a link of a2 leads through it */
    assert_runs("explain @ll -o @beside2");
    assert_runs("explain @a2 -o @app/found"); /* a link to a folder is no file of the model */
    remove_tree(in_folder("a2"));
    remove_tree(in_folder("app"));
    remove_tree(in_folder("b"));
}

/* -- what --to and --write make of a name -- */
static void formats_and_folders(void **state) {
    (void)state;
    assert_int_equal(shell("cp -r rope s && mkdir into && $G convert rope -o s.gguf"), 0);
    assert_runs("convert @s --to safetensors -o @s2.gguf"); /* a folder */
    assert_fails("extend @s --to 1k --method yarn --write @into -o @into/config.json", 2, "is the file of --write too");
    assert_fails("extend @s.gguf --to 1k --method yarn --write @into -o @into/s.gguf", 2, "is the file of --write too");
    assert_int_equal(run("extend @s/config.json --to 1k --method yarn --write @s/far")->exit, 0);
    assert_int_equal(access(in_folder("s/far/config.json"), F_OK), 0);
    assert_asks("extend @s --to 2k --method yarn --write @s/far", "s/far/config.json");
    assert_asks("extend @s --to 2k --method yarn --write @s/far/config.json", "s/far/config.json");
    assert_fails("search @s --text @texts --to 64 --write @texts/new", 2, "would be a part of");
    remove_tree(in_folder("s2.gguf"));
    remove_tree(in_folder("into"));
    remove_tree(in_folder("s"));
}

/* The format of --write is that of the model, not of its tokenizer. */
static void tokenizers_of_another_format(void **state) {
    (void)state;
    static const char search[] = "search @tok --tokenizer @tok.gguf --text @text --to 64 --budget 20 --windows 2 "
                                 "--held-out 2 --even-if-worse --threads 1 --write @";
    char line[512];
    assert_int_equal(shell("cp -r rope tok && $G convert rope -o tok.gguf && cp tok.gguf big.gguf && mkdir empty.d"), 0);
    snprintf(line, sizeof line, "%sbig.gguf", search);
    assert_kept(line, "big.gguf", "exists; --force replaces it");
    snprintf(line, sizeof line, "%sempty.d --report @empty.d/config.json", search);
    assert_fails(line, 2, "is the file of --write too");
}

/* -- folders -- */
/* A folder with anything in it is kept without --force, and one with files that no checkpoint has, or no model, with it. */
static void folders_of_others(void **state) {
    (void)state;
    assert_int_equal(shell("mkdir tk weights docker diary && echo '{}' >tk/tokenizer.json && echo '{}' >tk/training.json && "
                           "echo mine >weights/model.safetensors && echo '{\"auths\": {}}' >docker/config.json && "
                           "cp rope/* diary && echo mine >diary/diary.txt"),
                     0);
    static const char *const folders[] = {"tk", "weights", "docker", "diary"};
    static const char *const lines[] = {"convert @rope -o @%s", "train --text @text --context 16 --tokens 64 -o @%s"};
    static const char *const says[] = {"holds files, but no model", "holds files, but no model", NULL, "holds other files"};
    char line[256], forced[512];
    for (size_t i = 0; i < COUNT(folders) * COUNT(lines); i++) {
        snprintf(line, sizeof line, lines[i % 2], folders[i / 2]);
        snprintf(forced, sizeof forced, "%s --force", line);
        assert_fails(line, 1, "exists and is not empty;");
        if (says[i / 2]) assert_fails(forced, 1, says[i / 2]);
    }
    assert_int_equal(shell("grep -q mine weights/model.safetensors && grep -q mine diary/diary.txt && "
                           "cmp diary/config.json rope/config.json && grep -q auths docker/config.json && "
                           "$G convert rope -o private && chmod 700 private && "
                           "$G convert rope -o private --force && test `stat -c %a private` = 700"),
                     0); /* a private folder stays private */
    assert_int_equal(read_bytes("tk/training.json", now), 3);
    assert_int_equal(shell("$G convert rope -o standing && cd standing && mkdir -p inner && "
                           "! $G convert ../alibi -o . --force 2>e && grep -q 'working folder' e && cd inner && "
                           "! $G convert ../../alibi -o .. --force 2>>e && ls ../config.json && rm -r ../inner ../e"),
                     0);
}

/* -- results beside the model that is named by its folder -- */
static void results_in_the_named_folder(void **state) {
    (void)state;
    static const kept_case results[] = {
        {"explain @own -o @own/out.html", "own/out.html"},
        {"explain @own --json -o @own/explain.json", "own/explain.json"},
        {"eval @own --text @text --contexts 16 --windows 1 -o @own/ppl.txt", "own/ppl.txt"},
        {"eval @own --text @text --contexts 16 --windows 1 --report @own/report.html", "own/report.html"},
        {"plot wavelengths @own -o @own/waves.svg", "own/waves.svg"},
        {"plot wavelengths @own -o @own/tokens.csv", "own/tokens.csv"},
        {"audit @own -o @own/audit.txt", "own/audit.txt"},
        {"diff @own @own -o @own/diff.txt", "own/diff.txt"},
        {"generate @own --prompt abc --tokens 2 -o @own/sample.txt", "own/sample.txt"},
        {"extend @own --to 1k --method yarn --write @own/far.json", "own/far.json"},
        {"explain @own -o @own/sub/out.txt", "own/sub/out.txt"},
        {"explain @own/config.json -o @own/OUT.HTML", "own/OUT.HTML"},
        {"explain @own -o @own/README.md", "own/README.md"},
        {"explain @own -o @own/modeling.py", "own/modeling.py"}};
    assert_int_equal(shell("cp -r rope own && mkdir own/sub"), 0);
    for (size_t i = 0; i < COUNT(results); i++) {
        assert_int_equal(run(results[i].line)->exit, 0);
        write_file(results[i].name, "{\"a\": 1}", 8);
        assert_asks(results[i].line, results[i].name);
    }
    assert_runs("convert @own -o @own/model.gguf");
    assert_asks("explain @own -o @own/model.gguf", "own/model.gguf");
    assert_never_written("extend @own --to 1k --method yarn --write @own", "own/config.json", "which this run reads");
    assert_int_equal(shell("cmp own/config.json rope/config.json && cmp own/model.safetensors rope/model.safetensors"), 0);
    remove_tree(in_folder("own"));
}

/* A dash is no file's name, as a user of other commands would find too late. */
static void dashes(void **state) {
    (void)state;
    assert_fails("explain @rope -o -", 2, "--output: - is not the name of a file");
    assert_fails("eval @rope --text @text --contexts 16 --windows 1 --report -", 2, "--report: - is not the name");
    assert_fails("eval @rope --text @text --contexts 16 --windows 1 --journal -", 2, "--journal: - is not the name");
    assert_fails("extend @rope --to 1k --method yarn --write -", 2, "--write: - is not the name");
}

/* -- what a killed run left, read by the next -- */
static void temporaries_that_are_read(void **state) {
    (void)state;
    static const struct {
        const char *of, *from, *line;
    } cases[] = {{"t", "rope", "train --from @%s --text @text --context 16 --tokens 64 --batch 1 -o @t --force"},
                 {"t", "rope", "convert @%s -o @t/ --dtype bf16"},
                 {"t", "rope", "explain @%s/config.json -o @t"},
                 {"c.gguf", "u.gguf", "convert @%s -o @c.gguf"},
                 {"o.txt", "text", "eval @rope --text @%s --contexts 16 --windows 1 -o @o.txt"},
                 {"out.json", "rope/config.json", "explain @%s -o @out.json"}};
    char line[512], copy[512];
    assert_int_equal(shell("$G convert rope -o u.gguf"), 0);
    for (size_t i = 0; i < COUNT(cases); i++) {
        const char *name = left_by(cases[i].of, DEAD, 0);
        snprintf(copy, sizeof copy, "rm -rf %s && cp -r %s %s", name, cases[i].from, name);
        assert_int_equal(shell(copy), 0);
        snprintf(line, sizeof line, cases[i].line, name);
        assert_fails(line, 2, "has the name of a temporary");
        assert_int_equal(access(in_folder(name), F_OK), 0);
        remove_tree(in_folder(name));
    }
    /* A name of the same form is not one, and what it names stays. */
    assert_int_equal(shell("cp rope/config.json out.json.gyre-123-0.tmp"), 0);
    assert_int_equal(run("explain @out.json.gyre-123-0.tmp -o @out.json")->exit, 0);
    assert_int_equal(shell("cmp rope/config.json out.json.gyre-123-0.tmp"), 0);
}

/* -- what the first run allows, the second does too -- */
static void second_runs(void **state) {
    (void)state;
    const char *line = "eval @rope/model.safetensors --text @text --contexts 16 --windows 1 --journal @rope/j";
    char resumed[256];
    snprintf(resumed, sizeof resumed, "%s --resume", line);
    const outcome *o = run(line);
    if (o->exit == 0)
        assert_int_equal(run(resumed)->exit, 0); /* weights alone may be no model, but the guard lets them pass */
    else
        assert_null(strstr(o->err, "--journal"));
}

/* -- folders and files that cannot be looked at -- */
static void folder_that_cannot_be_listed(void **state) {
    (void)state;
    if (geteuid() != 0) skip(); /* needs another user, who may search a folder and not list it */
    assert_int_equal(
        shell("mkdir -p n && cp -r rope/* n && echo '{}' >n/tokenizer_config.json && echo t >n/chat_template.jinja && "
              "chmod 755 . && chmod 0333 n && chmod 666 n/*"),
        0);
    static const char *const files[] = {"tokenizer_config.json", "chat_template.jinja", "model.safetensors"};
    char line[512], name[64];
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(name, sizeof name, "n/%s", files[i]);
        const size_t before = read_bytes(name, kept);
        snprintf(line, sizeof line, "setpriv --reuid=65534 --clear-groups $G explain n/config.json -o %s --force >/dev/null",
                 name);
        if (shell("command -v setpriv >/dev/null") != 0) skip();
        assert_int_not_equal(shell(line), 0);
        assert_int_equal(read_bytes(name, now), before);
        assert_memory_equal(now, kept, before);
    }
    assert_int_equal(shell("chmod 755 n"), 0);
    remove_tree(in_folder("n"));
}

static void texts_too_deep_to_walk(void **state) {
    (void)state;
    assert_int_equal(shell("d=deep; mkdir deep; for i in 1 2 3 4 5 6 7 8 9 10 11 12; do d=$d/d; mkdir $d; done; "
                           "cp text $d/t && ln $d/t hard.txt"),
                     0);
    const size_t before = read_bytes("hard.txt", kept);
    assert_int_not_equal(shell("ulimit -n 10; $G eval rope --text deep --contexts 16 --windows 1 -o hard.txt --force"), 0);
    assert_int_equal(read_bytes("hard.txt", now), before);
    assert_memory_equal(now, kept, before);
    remove_tree(in_folder("deep"));
}

#ifdef GYRE_FAIL_CALLS
/* A file that cannot be looked at may be one that is read. */
static void failures_of_looking(void **state) {
    (void)state;
    static const struct {
        const char *line, *kept;
    } cases[] = {{"$G explain f -o f/model.safetensors --force", "f/model.safetensors"},
                 {"$G explain f -o soft --force", "f/config.json"},
                 {"$G explain f/config.json -o f/chat_template.jinja --force", "f/chat_template.jinja"},
                 {"$G explain f.gguf -o g.gguf", "g.gguf"},
                 {"$G explain f-00001-of-00002.gguf -o f-00002-of-00002.gguf --force", "f-00002-of-00002.gguf"},
                 {"$G eval f --text texts --contexts 16 --windows 1 --threads 1 -o texts/a --force", "texts/a"},
                 {"$G eval f --text text --contexts 16 --windows 1 --threads 1 -o hard2 --force", "text"}};
    static const char *const kinds[] = {"stat", "list", "open", "memory"};
    enum { MOST = 40 };
    char line[1024];
    assert_int_equal(shell("cp -r rope f && echo t >f/chat_template.jinja && ln -s f/config.json soft && "
                           "$G convert rope -o f.gguf && cp f.gguf g.gguf && cp f.gguf f-00001-of-00002.gguf && cp f.gguf "
                           "f-00002-of-00002.gguf && ln text hard2"),
                     0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const size_t before = read_bytes(cases[i].kept, kept);
        for (int k = 0; k < 4 * MOST; k++) {
            snprintf(line, sizeof line, "LD_PRELOAD=%s GYRE_FAIL=%s:%d %s >/dev/null", GYRE_FAIL_CALLS, kinds[k / MOST],
                     k % MOST + 1, cases[i].line);
            const int status = shell(line);
            if (status != 1 && status != 2) fail_msg("%s: exit %d", line, status);
            if (read_bytes(cases[i].kept, now) != before || memcmp(now, kept, before) != 0)
                fail_msg("%s: %s was changed", line, cases[i].kept);
        }
    }
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(config_beside_a_model),
        cmocka_unit_test(files_of_others),
        cmocka_unit_test(links_of_other_names),
        cmocka_unit_test(folders_of_links),
        cmocka_unit_test(formats_and_folders),
        cmocka_unit_test(tokenizers_of_another_format),
        cmocka_unit_test(folders_of_others),
        cmocka_unit_test(results_in_the_named_folder),
        cmocka_unit_test(dashes),
        cmocka_unit_test(temporaries_that_are_read),
        cmocka_unit_test(second_runs),
        cmocka_unit_test(folder_that_cannot_be_listed),
        cmocka_unit_test(texts_too_deep_to_walk),
#ifdef GYRE_FAIL_CALLS
        cmocka_unit_test(failures_of_looking),
#endif
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
