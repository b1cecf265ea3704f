/* test_guard_models.c: models are kept whatever their files are called, wherever they lie, and where files cannot be looked
 * at. */
#include "kept_files.h"

static void assert_runs(const char *line) {
    for (int again = 0; again < 2; again++) {
        const outcome *o = run(line);
        if (o->exit) fail_msg("gyre %s: exit %d, run %d: %s", line, o->exit, again, o->err);
    }
}

/* -- a config of another name -- */
static void config_beside_a_model(void **state) {
    (void)state;
    static const char *const files[] = {"m/model.safetensors", "m/tokenizer.json", "m/processor_config.json",
                                        "m/config.json"};
    char line[256];
    assert_int_equal(shell("cp -r rope m && cp m/config.json m/alt.json && echo '{}' >m/tokenizer.json && "
                           "echo '{}' >m/processor_config.json"),
                     0);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(line, sizeof line, "extend @m/alt.json --to 1k --method yarn --write @%s", files[i]);
        assert_kept(line, files[i], "name another");
        snprintf(line, sizeof line, "explain @m/alt.json -o @%s", files[i]);
        assert_kept(line, files[i], "name another");
    }
    assert_runs("extend @m/alt.json --to 1k --method yarn --write @m/far.json");
    /* No config.json beside it. */
    assert_int_equal(
        shell("mkdir loose && cp m/model.safetensors m/tokenizer.json loose && cp m/config.json loose/llama.json"), 0);
    assert_kept("explain @loose/llama.json -o @loose/model.safetensors", "loose/model.safetensors", "name another");
    assert_kept("explain @loose/llama.json -o @loose/tokenizer.json", "loose/tokenizer.json", "name another");
    assert_runs("explain @loose/llama.json -o @loose/notes");
    remove_tree(in_folder("loose"));
    remove_tree(in_folder("m"));
}

/* -- a model that the run does not read -- */
static void models_elsewhere(void **state) {
    (void)state;
    assert_int_equal(shell("cp -r alibi other && cp rope/config.json my.json && $G convert rope -o w.gguf && "
                           "cp w.gguf w-00001-of-00003.gguf && cp w.gguf sha256-aa && cp alibi/config.json plain"),
                     0);
    assert_kept("extend @rope --to 1k --method yarn --write @other/model.safetensors", "other/model.safetensors",
                "name another");
    assert_kept("explain @rope -o @other/model.safetensors", "other/model.safetensors", "name another");
    assert_kept("explain @rope -o @other/config.json", "other/config.json", "name another");
    assert_kept("explain @rope -o @plain", "plain", "name another");
    assert_kept("explain @rope --json -o @sha256-aa", "sha256-aa", "name another");
    assert_kept("extend @w.gguf --to 1k --method yarn --write @w-00001-of-00003.gguf", "w-00001-of-00003.gguf",
                "name another");
    assert_kept("convert @w.gguf -o @w-00001-of-00003.gguf", "w-00001-of-00003.gguf", "name another");
    /* What the user names to be replaced by its like. */
    assert_runs("extend @my.json --to 1k --method yarn --write @other/config.json");
    assert_runs("extend @w.gguf --to 1k --method yarn --write @far.gguf");
    assert_runs("convert @w.gguf -o @half.gguf --dtype bf16");
    assert_runs("explain @rope --json -o @found.json");
    remove_tree(in_folder("other"));
}

/* -- links -- */
static void links_of_other_names(void **state) {
    (void)state;
    assert_int_equal(shell("mkdir gg && cp -r rope l && $G convert rope -o gg/a.gguf && cp gg/a.gguf gg/c.gguf && "
                           "echo text >l/chat_template.jinja && ln -s l/config.json x.json && ln -s gg/a.gguf b.bin"),
                     0);
    assert_kept("explain @x.json -o @l/model.safetensors", "l/model.safetensors", "name another");
    assert_kept("explain @x.json -o @l/chat_template.jinja", "l/chat_template.jinja", "name another");
    assert_kept("explain @b.bin -o @gg/c.gguf", "gg/c.gguf", "name another");
    assert_runs("explain @x.json -o @beside");
    assert_int_equal(
        shell("h=hub/models--o--n && mkdir -p $h/refs $h/blobs $h/snapshots/c && cp rope/config.json $h/blobs/b1 && "
              "ln -s ../../blobs/b1 $h/snapshots/c/config.json && echo c >$h/refs/main && echo b >$h/blobs/b2 && "
              "ln -s $h/snapshots/c/config.json my-config.json"),
        0);
    assert_kept("explain @my-config.json -o @hub/models--o--n/blobs/b2", "hub/models--o--n/blobs/b2", "name another");
    assert_kept("explain @my-config.json -o @hub/models--o--n/refs/main", "hub/models--o--n/refs/main", "name another");
    assert_kept("extend @my-config.json --to 1k --method yarn --write @hub/models--o--n/blobs/b2",
                "hub/models--o--n/blobs/b2", "name another");
    remove_tree(in_folder("hub"));
    remove_tree(in_folder("gg"));
    remove_tree(in_folder("l"));
}

/* A folder of links: what is behind them is read. */
static void folders_of_links(void **state) {
    (void)state;
    assert_int_equal(shell("cp -r rope b && mkdir ll && ln -s ../b/config.json ../b/model.safetensors ll && "
                           "h=hub/models--o--n && mkdir -p $h/refs $h/blobs && cp rope/config.json $h/blobs/b1 && "
                           "cp rope/model.safetensors $h/blobs/b2 && echo c >$h/refs/main && mkdir l2 && "
                           "ln -s ../$h/blobs/b1 l2/config.json && ln -s ../$h/blobs/b2 l2/model.safetensors"),
                     0);
    assert_kept("convert @ll -o @b --dtype f16", "b/model.safetensors", "name another");
    assert_kept("train --from @ll --text @text --context 32 --batch 1 --tokens 64 -o @b --replace", "b/model.safetensors",
                "name another");
    assert_kept("explain @l2 -o @hub/models--o--n/refs/main", "hub/models--o--n/refs/main", "name another");
    assert_runs("explain @ll -o @beside2");
    remove_tree(in_folder("hub"));
    remove_tree(in_folder("b"));
}

/* A config in place of a GGUF, or the other way round, and configs that another reader than Gyre's refuses. */
static void other_formats(void **state) {
    (void)state;
    assert_int_equal(
        shell("mkdir o && $G convert rope -o o/m.gguf && cp rope/config.json o/c.json && "
              "sed '1s/{/{\"x\": Infinity,/' rope/config.json >o/d.json && cp o/m.gguf o/p-00001-of-00002.gguf && "
              "ln -s p-00001-of-00002.gguf o/l.gguf && echo '{\"max_position_embeddings\": 4}' >o/e.json"),
        0);
    assert_kept("extend @rope --to 2k --method yarn --write @o/m.gguf", "o/m.gguf", "name another");
    assert_kept("extend @o/m.gguf --to 2k --method yarn --write @o/c.json", "o/c.json", "name another");
    assert_kept("convert @rope -o @o/l.gguf", "o/p-00001-of-00002.gguf", "name another");
    assert_kept("explain @rope -o @o/d.json", "o/d.json", "name another");
    assert_kept("explain @rope -o @o/e.json", "o/e.json", "name another");
    assert_runs("eval @rope --text @text --contexts 16 --windows 1 --report /dev/null -o /dev/null");
    assert_runs("explain @rope/config.json -o @rope/report.md");
    assert_fails("convert @rope --to gguf -o @rope/tokenizer.json", 2, "would be a file of");
    remove_tree(in_folder("o"));
}

/* One key more in the head of w.gguf: the first of three parts, whatever it is called. */
static void write_part(const char *name) {
    static const char entry[] = "\13\0\0\0\0\0\0\0split.count\2\0\0\0\3";
    enum { ENTRY = sizeof entry, BEFORE = 24 }; /* the number's high byte is the string's NUL */
    static char part[1 << 20];
    const size_t count = read_bytes("w.gguf", kept);
    assert_true(count + ENTRY < sizeof part);
    memcpy(part, kept, BEFORE);
    part[16]++; /* the number of keys */
    memcpy(part + BEFORE, entry, ENTRY);
    memcpy(part + BEFORE + ENTRY, kept + BEFORE, count - BEFORE);
    write_file(name, part, count + ENTRY);
}

static void parts_of_other_names(void **state) {
    (void)state;
    assert_int_equal(shell("$G convert rope -o w.gguf && mkdir parts && cp w.gguf parts/whole"), 0);
    write_part("parts/first");
    assert_kept("extend @w.gguf --to 1k --method yarn --write @parts/first", "parts/first",
                "is not a GGUF of a whole model");
    assert_kept("convert @rope --to gguf -o @parts/first", "parts/first", "is not a GGUF of a whole model");
    assert_runs("convert @rope --to gguf -o @parts/whole");
    remove_tree(in_folder("parts"));
}

/* -- what --to and --write make of a name -- */
static void formats_and_folders(void **state) {
    (void)state;
    assert_int_equal(shell("cp -r rope s && mkdir into && $G convert rope -o s.gguf"), 0);
    assert_fails("convert @s --to gguf -o @s/m", 2, "would be a file of");
    assert_int_equal(access(in_folder("s/m"), F_OK), -1);
    assert_runs("convert @s --to safetensors -o @s2.gguf --replace"); /* a folder */
    assert_fails("extend @s --to 1k --method yarn --write @into -o @into/config.json", 2, "is the file of --write too");
    assert_fails("extend @s.gguf --to 1k --method yarn --write @into -o @into/s.gguf", 2, "is the file of --write too");
    assert_int_equal(run("extend @s/config.json --to 1k --method yarn --write @s/far")->exit, 0);
    assert_int_equal(access(in_folder("s/far/config.json"), F_OK), 0);
    /* A config that --write may replace, in a folder of its own, though not unnamed. */
    assert_fails("extend @s --to 1k --method yarn --write @s/far", 1, "the folder has a config.json; name that file");
    assert_runs("extend @s --to 1k --method yarn --write @s/far/config.json");
    assert_int_equal(shell("cp s/model.safetensors s/far"), 0);
    assert_kept("extend @s --to 1k --method yarn --write @s/far/config.json", "s/far/config.json", "name another");
    assert_fails("search @s --text @texts --to 64 --write @texts/new", 2, "would be a part of");
    remove_tree(in_folder("s2.gguf"));
    remove_tree(in_folder("into"));
    remove_tree(in_folder("s"));
}

static void files_of_other_models(void **state) {
    (void)state;
    static const char *const files[] = {"vocab.txt", "chat_template.jinja", "pytorch_model.bin", "adapter_config.json"};
    char line[256], name[64];
    assert_int_equal(shell("cp -r alibi t && echo '{}' >t/tokenizer.json && cp rope/config.json my.json"), 0);
    assert_kept("explain @rope -o @t/tokenizer.json", "t/tokenizer.json", "is a model's file");
    assert_kept("extend @my.json --to 1k --method yarn --write @t/tokenizer.json", "t/tokenizer.json", "is not a config");
    assert_int_equal(shell("ln -s t/tokenizer.json soft.json && ln -s t/merges.txt soft2"), 0);
    assert_kept("explain @rope -o @soft.json", "t/tokenizer.json", "is a model's file");
    assert_kept("extend @my.json --to 1k --method yarn --write @soft.json", "t/tokenizer.json", "is not a config");
    assert_fails("explain @rope -o @soft2", 2, "would be a file of the model beside it");
    assert_fails("explain @rope -o @t/generation_config.json", 2, "would be a file of the model beside it");
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(name, sizeof name, "t/%s", files[i]);
        write_file(name, "{}", 2);
        snprintf(line, sizeof line, "explain @rope -o @%s", name);
        assert_kept(line, name, "is a model's file");
    }
    assert_int_equal(shell("h=hub/models--o--n && mkdir -p $h/refs $h/snapshots/c && echo c >$h/refs/main && "
                           "echo t >$h/snapshots/c/notes"),
                     0);
    assert_kept("explain @rope -o @hub/models--o--n/refs/main", "hub/models--o--n/refs/main", "in the cache of a model");
    assert_fails("explain @rope -o @hub/models--o--n/snapshots/c/new", 2, "in the cache of a model");
    assert_int_equal(shell("mkdir o3"), 0);
    assert_runs("explain @rope --json -o @o3/config.json"); /* no model's, though named like one */
    remove_tree(in_folder("hub"));
    remove_tree(in_folder("o3"));
    assert_runs("explain @t/config.json -o @t/notes.json"); /* text under a name of JSON */
    write_file("t/notes.json", "{\"a\": 1}", 8);
    assert_kept("explain @t/config.json -o @t/notes.json", "t/notes.json", "is a file of the model");
    remove_tree(in_folder("t"));
}

/* The format of --write is that of the model, not of its tokenizer. */
static void tokenizers_of_another_format(void **state) {
    (void)state;
    static const char search[] = "search @tok --tokenizer @tok.gguf --text @text --to 64 --budget 20 --windows 2 "
                                 "--held-out 2 --force --threads 1 --write @";
    char line[512];
    assert_int_equal(shell("cp -r rope tok && $G convert rope -o tok.gguf && cp tok.gguf big.gguf && mkdir empty.d"), 0);
    snprintf(line, sizeof line, "%sbig.gguf", search);
    assert_kept(line, "big.gguf", "is not a config");
    snprintf(line, sizeof line, "%sempty.d --report @empty.d/config.json", search);
    assert_fails(line, 2, "is the file of --write too");
}

/* Other programs' files: what --write replaces is a config or a GGUF of a model, and convert's folder a model's. */
static void files_of_no_model(void **state) {
    (void)state;
    assert_int_equal(shell("mkdir app tk && echo '{\"port\": 80}' >app/config.json && echo text >app/diary.json && "
                           "echo text >app/notes.gguf && echo '{}' >tk/tokenizer.json && echo '{}' >tk/training.json && "
                           "$G convert rope -o far2.gguf"),
                     0);
    assert_kept("extend @rope --to 1k --method yarn --write @app/config.json", "app/config.json", "is not a config");
    assert_kept("extend @rope --to 1k --method yarn --write @app/diary.json", "app/diary.json", "is not a config");
    assert_kept("extend @far2.gguf --to 1k --method yarn --write @app/notes.gguf", "app/notes.gguf", "is not a GGUF");
    assert_fails("convert @rope -o @tk", 1, "holds files, but no model");
    assert_int_equal(shell("mkdir weights && echo mine >weights/model.safetensors"), 0);
    assert_fails("convert @rope -o @weights", 1, "holds files, but no model");
    assert_int_equal(shell("grep -q mine weights/model.safetensors && $G convert rope -o private && chmod 700 private && "
                           "$G convert rope -o private --replace && test `stat -c %a private` = 700"),
                     0); /* a private folder stays private */
    assert_int_equal(shell("mkdir docker && echo '{\"auths\": {}}' >docker/config.json"), 0);
    assert_kept("convert @rope -o @docker", "docker/config.json", "is not a model's config");
    assert_kept("train --replace --text @text -o @docker", "docker/config.json", "is not a model's config");
    assert_int_equal(shell("$G convert rope -o standing && cd standing && mkdir -p inner && "
                           "! $G convert ../alibi -o . 2>e && grep -q 'working folder' e && cd inner && "
                           "! $G convert ../../alibi -o .. 2>>e && ls ../config.json && rm -r ../inner ../e"),
                     0);
    assert_int_equal(read_bytes("tk/training.json", now), 3);
    assert_int_equal(shell("mkdir b2 e2 && cp rope/config.json b2 && cp rope/model.safetensors e2/w.safetensors && "
                           "ln -s ../e2/w.safetensors b2/model.safetensors && mkdir a2 && cp rope/config.json a2 && "
                           "ln -s ../b2/model.safetensors a2/model.safetensors && ln -s ../app a2/results"),
                     0);
    assert_fails("convert @a2 -o @b2 --dtype f16", 2, "which this run reads"); /* a link of a2 leads through it */
    assert_runs("explain @a2 -o @app/found"); /* a link to a folder is no file of the model */
    remove_tree(in_folder("a2"));
    remove_tree(in_folder("app"));
}

/* Files that programs without a config.json read, and configs without a key of Transformers. */
static void models_without_a_config(void **state) {
    (void)state;
    static const char *const files[] = {"lc/stories15M.bin", "lc/tokenizer.model", "lc/tokenizer.json", "lc/w.pth",
                                        "lc/w.onnx"};
    char line[256];
    assert_int_equal(shell("mkdir lc old && ln -s lc/w.pth soft.txt"), 0);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        write_file(files[i], "x", 1);
        snprintf(line, sizeof line, "explain @rope -o @%s", files[i]);
        assert_kept(line, files[i], "is a model's file");
    }
    assert_kept("explain @rope -o @soft.txt", "lc/w.pth", "is a model's file");
    static const char config[] = "{\"hidden_size\":64,\"num_attention_heads\":4,\"num_hidden_layers\":2,"
                                 "\"rope_theta\":10000,\"vocab_size\":256}";
    write_file("old/config.json", config, sizeof config - 1);
    assert_kept("explain @rope -o @old/config.json", "old/config.json", "is a model's file");
    assert_runs("extend @rope --to 1k --method yarn --write @old/config.json");
    remove_tree(in_folder("lc"));
    remove_tree(in_folder("old"));
}

/* JSON of other programs with a key that configs have. */
static void json_of_other_programs(void **state) {
    (void)state;
    static const char *const texts[] = {"{\"model_type\": \"xgboost\", \"max_depth\": 6}", "{\"text_config\": \"x\"}"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        write_file("foreign.json", texts[i], strlen(texts[i]));
        assert_kept("extend @rope --to 1k --method yarn --write @foreign.json", "foreign.json", "is not a config");
    }
    static const char pod[] = "{\n  \"kind\": \"Pod\",\n  \"spec\": {}\n}";
    write_file("rope/pod.json", pod, sizeof pod - 1);
    assert_kept("explain @rope/config.json --json -o @rope/pod.json", "rope/pod.json", "is a file of the model");
    unlink(in_folder("rope/pod.json"));
    assert_runs("plot wavelengths @rope/config.json --json -o @rope/waves.json");
    unlink(in_folder("rope/waves.json"));
}

/* A key behind much else, in a config that jansson does not read: also across two blocks of the search. */
static void keys_far_behind(void **state) {
    (void)state;
    static char text[80000];
    static const char begin[] = "{\"x\": Infinity, \"pad\": \"", end[] = "\", \"model_type\": \"llama\"}";
    for (size_t at = (1 << 16) - 20; at < (1 << 16) + 2; at += 7) {
        memset(text, 'a', at);
        memcpy(text, begin, sizeof begin - 1);
        memcpy(text + at, end, sizeof end - 1);
        write_file("far.cfg", text, at + sizeof end - 1);
        assert_kept("explain @rope -o @far.cfg", "far.cfg", "is a model's file");
    }
}

/* -- results beside the model that is named by its folder -- */
static void results_in_the_named_folder(void **state) {
    (void)state;
    static const char *const lines[] = {"explain @own -o @own/out.html",
                                        "explain @own --json -o @own/explain.json",
                                        "eval @own --text @text --contexts 16 --windows 1 -o @own/ppl.txt",
                                        "eval @own --text @text --contexts 16 --windows 1 --report @own/report.html",
                                        "plot wavelengths @own -o @own/waves.svg",
                                        "plot wavelengths @own -o @own/tokens.csv",
                                        "audit @own -o @own/audit.txt",
                                        "diff @own @own -o @own/diff.txt",
                                        "generate @own --prompt abc --tokens 2 -o @own/sample.txt",
                                        "convert @own -o @own/model.gguf",
                                        "extend @own --to 1k --method yarn --write @own/far.json",
                                        "explain @own -o @own/sub/out.txt",
                                        "explain @own/config.json -o @own/OUT.HTML",
                                        "explain @own -o @own/out.yaml",
                                        "explain @own -o @own/out.yml",
                                        "explain @own -o @own/out.htm"};
    static const char *const files[] = {"own/modeling.py", "own/sub/x.bin", "own/README.md", "own/mergekit_config.yml",
                                        "own/foreign.json"};
    char line[256];
    assert_int_equal(shell("cp -r rope own && mkdir own/sub"), 0);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        assert_runs(lines[i]);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        write_file(files[i], "{\"a\": 1}", 8);
        snprintf(line, sizeof line, "explain @own -o @%s", files[i]);
        assert_kept(line, files[i], "is a file of");
    }
    assert_kept("explain @own -o @own/far.json", "own/far.json", "is a file of");
    assert_kept("explain @own -o @own/model.gguf", "own/model.gguf", "is a file of");
    assert_kept("extend @own --to 1k --method yarn --write @own", "own/config.json", "is a file of");
    assert_fails("explain @own/config.json -o @own/tokens.txt", 2, "choose another name, such as result.txt");
    assert_fails("explain @own -o @own/Labels.TXT", 2, "choose another name");
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
    static const char *const lines[] = {
        "train --from @t.gyre-999999-0.tmp --text @text --context 16 --tokens 64 --batch 1 -o @t",
        "convert @t.gyre-999998-0.old -o @t/ --dtype bf16",
        "convert @c.gguf.gyre-999998-0.tmp -o @c.gguf",
        "eval @rope --text @o.txt.gyre-9-0.tmp --contexts 16 --windows 1 -o @o.txt",
        "explain @t.gyre-999999-0.tmp/config.json -o @t",
        "explain @out.json.gyre-123-0.tmp -o @out.json"};
    assert_int_equal(shell("cp -r rope t.gyre-999999-0.tmp && cp -r rope t.gyre-999998-0.old && "
                           "$G convert rope -o u.gguf && cp u.gguf c.gguf.gyre-999998-0.tmp && "
                           "cp text o.txt.gyre-9-0.tmp && cp rope/config.json out.json.gyre-123-0.tmp"),
                     0);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        assert_fails(lines[i], 2, "temporary");
    assert_int_equal(shell("for f in t.gyre-999999-0.tmp t.gyre-999998-0.old c.gguf.gyre-999998-0.tmp o.txt.gyre-9-0.tmp "
                           "out.json.gyre-123-0.tmp; do test -e $f || exit 1; done"),
                     0);
    remove_tree(in_folder("t.gyre-999999-0.tmp"));
    remove_tree(in_folder("t.gyre-999998-0.old"));
}

/* -- what the first run allows, the second does too -- */
static void second_runs(void **state) {
    (void)state;
    assert_fails("explain @rope/config.json -o @rope/notes", 2, "would be a file of");
    assert_int_equal(access(in_folder("rope/notes"), F_OK), -1);
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
        snprintf(line, sizeof line, "setpriv --reuid=65534 --clear-groups $G explain n/config.json -o %s >/dev/null", name);
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
    assert_int_not_equal(shell("ulimit -n 10; $G eval rope --text deep --contexts 16 --windows 1 -o hard.txt"), 0);
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
    } cases[] = {{"$G explain f -o f/model.safetensors", "f/model.safetensors"},
                 {"$G explain f -o soft", "f/config.json"},
                 {"$G explain f/config.json -o f/chat_template.jinja", "f/chat_template.jinja"},
                 {"$G explain f.gguf -o g.gguf", "g.gguf"},
                 {"$G eval f --text texts --contexts 16 --windows 1 --threads 1 -o texts/a", "texts/a"},
                 {"$G eval f --text text --contexts 16 --windows 1 --threads 1 -o hard2", "text"}};
    static const char *const kinds[] = {"stat", "list", "open", "memory"};
    enum { MOST = 40 };
    char line[1024];
    assert_int_equal(shell("cp -r rope f && echo t >f/chat_template.jinja && ln -s f/config.json soft && "
                           "$G convert rope -o f.gguf && cp f.gguf g.gguf && ln text hard2"),
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
        cmocka_unit_test(models_elsewhere),
        cmocka_unit_test(links_of_other_names),
        cmocka_unit_test(folders_of_links),
        cmocka_unit_test(other_formats),
        cmocka_unit_test(parts_of_other_names),
        cmocka_unit_test(formats_and_folders),
        cmocka_unit_test(files_of_other_models),
        cmocka_unit_test(tokenizers_of_another_format),
        cmocka_unit_test(files_of_no_model),
        cmocka_unit_test(models_without_a_config),
        cmocka_unit_test(json_of_other_programs),
        cmocka_unit_test(keys_far_behind),
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
