/* test_guard.c: no command replaces a file without --force, and none writes over what it reads. */
#include "kept_files.h"

static void files_of_the_model(void **state) {
    (void)state;
    static const char *const commands[] = {"extend @rope --to 1k --method yarn --write",
                                           "extend @rope --to 1k -o",
                                           "extend @rope/config.json --to 1k -o",
                                           "explain @rope -o",
                                           "explain @rope/config.json -o",
                                           "diff @rope @alibi -o",
                                           "audit @rope -o",
                                           "diff @alibi @rope -o",
                                           "eval @rope --text @text --context 16 -o",
                                           "eval @rope --text @text --context 16 --report",
                                           "eval @rope --text @text --context 16 --journal",
                                           "extend @rope --text @text --to 64 --journal",
                                           "passkey @rope --lengths 16 --figure",
                                           "search @rope --text @text --to 64 --write",
                                           "generate @rope --prompt a -o"};
    static const char *const files[] = {"rope/config.json", "rope/model.safetensors"};
    char line[256];
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        for (size_t k = 0; k < 2; k++) {
            snprintf(line, sizeof line, "%s @%s", commands[i], files[k]);
            assert_never_written(line, files[k], "this run");
        }
}

/* The same file by another name: a link, a hard link, a spelling with dots; and a file of the folder that is not read. */
static void other_names(void **state) {
    (void)state;
    write_file("rope/modeling.py", "pass", 4);
    assert_int_equal(symlink("rope/model.safetensors", in_folder("link")), 0);
    assert_int_equal(link(in_folder("rope/model.safetensors"), in_folder("hard")), 0);
    assert_never_written("explain @rope -o @link", "rope/model.safetensors", "this run");
    assert_never_written("explain @rope -o @hard", "rope/model.safetensors", "this run");
    assert_never_written("explain @rope -o @texts/../rope/model.safetensors", "rope/model.safetensors", "this run");
    assert_asks("explain @rope -o @rope/modeling.py", "rope/modeling.py");
    assert_never_written("extend @rope --to 1k --method yarn --write @rope", "rope/config.json", "this run");
    assert_int_equal(symlink("rope", in_folder("folder-link")), 0);
    assert_never_written("explain @folder-link -o @rope/model.safetensors", "rope/model.safetensors", "this run");
    assert_int_equal(unlink(in_folder("hard")), 0);
    assert_int_equal(unlink(in_folder("rope/modeling.py")), 0);
}

static void texts_and_tokenizers(void **state) {
    (void)state;
    write_file("tokens.json", "{}", 2);
    assert_never_written("eval @rope --text @text --context 16 -o @text", "text", "--output");
    assert_never_written("eval @rope --text @text --context 16 --report @text", "text", "--report");
    assert_never_written("eval @rope --text @texts --context 16 -o @texts/a", "texts/a", "--output");
    assert_never_written("eval @rope --ids @ids --context 16 -o @ids", "ids", "--output");
    assert_never_written("eval @rope --text @text --tokenizer @tokens.json --context 16 -o @tokens.json", "tokens.json",
                         "--output");
    assert_never_written("lab --text @text --report @text", "text", "--report");
    assert_never_written("generate @rope --prompt-file @text -o @text", "text", "--output");
    assert_never_written("explain @rope --check @text -o @text", "text", "--output");
}

/* A config.json among texts makes no model of them. */
static void texts_with_a_config(void **state) {
    (void)state;
    assert_int_equal(shell("mkdir site && cp text site/page.txt && cp rope/config.json site"), 0);
    assert_never_written("eval @rope --text @site --context 16 -o @site/page.txt", "site/page.txt", "this run");
    assert_fails("eval @rope --text @site --context 16 -o @site/new.txt", 2, "would be a part of");
    assert_fails("eval @rope --text @site --context 16 --journal @site/journal", 2, "would be a part of");
    assert_fails("train --text @site --tokens 64 --context 16 --batch 1 -o @site/new", 2, "would be a part of");
    assert_int_equal(shell("$G eval rope --text site --contexts 16 --windows 1 >>site/page.txt 2>err"), 2);
    remove_tree(in_folder("site"));
}

/* Other names of a result, at any depth below a folder of texts. */
static void links_below_texts(void **state) {
    (void)state;
    write_text("elsewhere", 400);
    write_text("behind", 400);
    assert_int_equal(mkdir(in_folder("texts/one"), 0777), 0);
    assert_int_equal(mkdir(in_folder("texts/one/two"), 0777), 0);
    assert_int_equal(link(in_folder("elsewhere"), in_folder("texts/one/two/hard")), 0);
    assert_int_equal(symlink("../../../behind", in_folder("texts/one/two/soft")), 0);
    assert_int_equal(symlink("..", in_folder("texts/one/two/up")), 0); /* no endless walk */
    assert_int_equal(symlink("texts", in_folder("texts-link")), 0);
    assert_never_written("eval @rope --text @texts --context 16 -o @elsewhere", "elsewhere", "this run");
    assert_never_written("eval @rope --text @texts --context 16 -o @behind", "behind", "this run");
    assert_never_written("eval @rope --text @texts-link --context 16 --report @elsewhere", "elsewhere", "this run");
    assert_int_equal(run("eval @rope --text @texts --context 16 -o @other")->exit, 0);
    remove_tree(in_folder("texts/one"));
}

/* A new file that the next run would read: a model's by its name, or one among texts. */
static void new_files(void **state) {
    (void)state;
    static const struct {
        const char *line, *name, *says;
    } cases[] = {
        {"explain @rope/config.json -o @rope/tokenizer.json", "rope/tokenizer.json", "would be a file of"},
        {"explain @rope -o @texts/../rope/vocab.txt", "rope/vocab.txt", "would be a file of"},
        {"extend @rope --to 1k --method yarn --write @rope/tokenizer.json", "rope/tokenizer.json", "would be a file of"},
        {"eval @rope --text @text --context 16 --journal @rope/vocab.json", "rope/vocab.json", "would be a file of"},
        {"convert @rope --to gguf -o @rope/vocab.txt", "rope/vocab.txt", "would be a file of"},
        {"eval @rope --text @texts --context 16 -o @texts/result", "texts/result", "would be a part of"},
        {"eval @rope --text @texts --context 16 --journal @texts/journal", "texts/journal", "would be a part of"}};
    char forced[256];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(forced, sizeof forced, "%s --force", cases[i].line);
        assert_fails(cases[i].line, 2, cases[i].says);
        assert_fails(forced, 2, cases[i].says);
        assert_int_equal(access(in_folder(cases[i].name), F_OK), -1);
    }
}

static void what_would_be_read_next_time(void **state) {
    (void)state;
    /* A link that leads to no file yet is written where it leads. */
    assert_int_equal(symlink("rope/vocab.json", in_folder("to-vocab")), 0);
    assert_int_equal(symlink("to-vocab", in_folder("to-link")), 0);
    assert_fails("eval @rope --text @text --context 16 --journal @to-vocab", 2, "would be a file of");
    assert_fails("eval @rope --text @text --context 16 --journal @to-link", 2, "would be a file of");
    assert_int_equal(unlink(in_folder("to-link")) | unlink(in_folder("to-vocab")), 0);
    /* A checkpoint among texts is one of them for the next run. */
    const char *train = "train --text @texts --tokens 64 --context 16 --batch 1 --layers 1 --width 16 -o ";
    char line[256];
    static const char *const below[] = {"@texts/new", "@texts/new/", "@texts/one/new"};
    for (size_t k = 0; k < sizeof below / sizeof *below; k++) {
        snprintf(line, sizeof line, "%s%s", train, below[k]);
        assert_fails(line, 2, "would be a part of");
    }
    assert_fails("lab --text @texts --preset smoke --report @r.html --work @texts/new", 2, "would be a part of");
}

/* Two results in one file. */
static void one_file_twice(void **state) {
    (void)state;
    assert_fails("eval @rope --text @text --context 16 -o @both --report @both", 2, "too");
    assert_fails("eval @rope --text @text --context 16 --journal @both --report @texts/../both -o @both", 2, "too");
    assert_fails("eval @rope --text @text --context 16 -o @both --report @./both", 2, "too");
    assert_int_equal(access(in_folder("both"), F_OK), -1);
    /* Of an option that is given often, the last value counts, and is looked at. */
    assert_never_written("explain @rope -o @1 -o @2 -o @3 -o @4 -o @5 -o @6 -o @7 -o @8 -o @rope/config.json",
                         "rope/config.json", "this run");
}

/* Models that are named in a list, and the model of gyre explore. */
static void other_models(void **state) {
    (void)state;
    assert_never_written("plot wavelengths --compare @rope,@alibi -o @rope/config.json", "rope/config.json", "this run");
    assert_never_written("plot wavelengths @rope -o @rope/config.json", "rope/config.json", "this run");
    assert_never_written("explore @rope -o @rope/config.json", "rope/config.json", "this run");
    assert_never_written("train --from @rope --text @text -o @rope", "rope/model.safetensors", "this run");
}

/* What no option names: the models and headers of a lab without a text.  The files are new ones, so that a failing test
 * spoils no other. */
static void what_lab_reads_itself(void **state) {
    (void)state;
    static const char *const headers = "/usr/include/linux/gyre-guard";
    alarm(60);
    assert_fails("lab --report " GYRE_BUNDLED_MODELS "/rope/gyre-guard", 2, "would be a part of");
    assert_int_equal(unlink(GYRE_BUNDLED_MODELS "/rope/gyre-guard"), -1);
    if (access("/usr/include/linux", F_OK) == 0) {
        assert_fails("lab --report /usr/include/linux/gyre-guard", 2, "would be a part of");
        assert_int_equal(unlink(headers), -1);
        assert_fails("train --headers --tokens 64 -o /usr/include/linux/gyre-guard", 2, "would be a part of");
        assert_int_equal(access(headers, F_OK), -1);
    }
    alarm(0);
}

/* The work folder of gyre lab is read and written: a text of it would change. */
static void texts_in_the_work_folder(void **state) {
    (void)state;
    alarm(60);
    assert_int_equal(mkdir(in_folder("work"), 0777) | mkdir(in_folder("work/alibi-s1"), 0777), 0);
    write_text("work/cells.jsonl", 4000);
    write_text("work/alibi-s1/training.json", 4000);
    write_text("work/book", 4000);
    assert_int_equal(link(in_folder("work/cells.jsonl"), in_folder("cells")), 0);
    assert_never_written("lab --text @work/cells.jsonl --work @work --report @r.html", "work/cells.jsonl", "--work");
    assert_never_written("lab --text @cells --work @work --report @r.html", "work/cells.jsonl", "--work");
    assert_never_written("lab --text @work --work @work --report @r.html", "work/cells.jsonl", "--work");
    assert_never_written("lab --text @work/alibi-s1/training.json --work @work --report @r.html",
                         "work/alibi-s1/training.json", "--work");
    assert_never_written("lab --text @text --text @work/alibi-s1 --work @work --report @r.html", "work/cells.jsonl",
                         "--work");
    assert_never_written("lab --text @text --work @work --report @work/cells.jsonl", "work/cells.jsonl",
                         "of the work folder");
    assert_never_written("lab --text @text --work @work --report @work/alibi-s1/training.json",
                         "work/alibi-s1/training.json", "of the work folder");
    assert_fails("lab --text @text --work @work --report @work/results.jsonl", 2, "of the work folder");
    assert_fails("lab --text @short --work @work --report @work/report.html", 1, "text: 10 bytes"); /* a place for it */
    alarm(0);
    remove_tree(in_folder("work"));
}

/* Fails unless the file begins and ends so, and is longer. */
static void assert_around(const char *name, const char *begin, const char *end) {
    const size_t count = read_bytes(name, now), first = strlen(begin), last = strlen(end);
    assert_true(count > first + last + 20);
    assert_memory_equal(now, begin, first);
    assert_memory_equal(now + count - last, end, last);
}

/* A result that goes to a descriptor goes through it: nothing that others write to its file is lost. */
static void descriptors(void **state) {
    (void)state;
    assert_int_equal(shell("echo OLD >log; $G explain rope -o /dev/stdout >>log; echo END >>log"), 0);
    assert_around("log", "OLD\n", "END\n");
    assert_int_equal(shell("echo OLD >log; $G explain rope -o /dev/fd/3 3>>log; echo END >>log"), 0);
    assert_around("log", "OLD\n", "END\n");
    assert_int_equal(shell("{ echo OLD; $G explain rope -o /proc/self/fd/1; echo END; } >log"), 0);
    assert_around("log", "OLD\n", "END\n");
    assert_int_equal(shell("ln -sf /dev/stdout way; { echo OLD; $G explain rope -o way; echo END; } >log"), 0);
    assert_around("log", "OLD\n", "END\n");
    /* Still refused: a file of the model behind it, one that is only read, and what must be whole. */
    const size_t before = read_bytes("rope/config.json", kept);
    assert_int_equal(shell("$G explain rope -o /dev/fd/3 3>>rope/config.json"), 2);
    assert_int_equal(read_bytes("rope/config.json", now), before);
    assert_memory_equal(now, kept, before);
    assert_int_equal(shell("$G explain rope -o /dev/fd/3 3<log"), 1);
    assert_around("log", "OLD\n", "END\n");
    assert_int_equal(shell("$G extend rope --to 1k --method yarn --write /dev/fd/3 3>>log"), 1);
    assert_int_equal(shell(": >empty.log; ln -sf /dev/fd/3 w.gguf; $G convert rope -o w.gguf 3>>empty.log"), 1);
    assert_around("log", "OLD\n", "END\n");
}

/* -- what a shell appends to -- */
/* Fails unless the line of the shell is refused with this message in the file "err", and the other file stays. */
static void assert_untouched(const char *line, const char *name, const char *says) {
    const size_t before = read_bytes(name, kept);
    unlink(in_folder("err"));
    const int status = shell(line);
    if (status != 2) fail_msg("%s: exit %d", line, status);
    const size_t after = read_bytes(name, now);
    if (before != after || memcmp(kept, now, before) != 0) fail_msg("%s: %s was changed", line, name);
    if (!says) return;
    now[read_bytes("err", now)] = '\0';
    if (!strstr(now, says)) fail_msg("%s: %s", line, now);
}

static void streams_to_inputs(void **state) {
    (void)state;
    const size_t config = read_bytes("rope/config.json", kept);
    write_file("c.json", kept, config);
    assert_untouched("$G explain c.json >>c.json 2>err", "c.json", "standard output: it is c.json, which this run reads");
    assert_untouched("$G explain rope --json >>rope/config.json 2>err", "rope/config.json", "is a file of rope");
    assert_untouched("$G explain rope/config.json >>rope/model.safetensors 2>err", "rope/model.safetensors",
                     "which this run");
    assert_untouched("$G eval rope --text text --contexts 16 --windows 1 >>text 2>err", "text",
                     "standard output: it is text");
    assert_untouched("$G eval rope --text texts --contexts 16 --windows 1 >>texts/a 2>err", "texts/a", "a file of texts");
    assert_int_equal(shell("a=gg/a-00001-of-00002.gguf; mkdir gg && $G convert rope -o $a && "
                           "cp $a gg/a-00002-of-00002.gguf && echo >gg/a-00002-of-00003.gguf"),
                     0);
    assert_untouched("$G explain gg/a-00001-of-00002.gguf >>gg/a-00002-of-00002.gguf 2>err", "gg/a-00002-of-00002.gguf",
                     "is a file of gg/a-00001-of-00002.gguf");
    assert_int_equal(shell("$G explain gg/a-00001-of-00002.gguf >>gg/a-00002-of-00003.gguf"), 0); /* of another model */
    remove_tree(in_folder("gg"));
    /* The message cannot go there. */
    assert_untouched("$G explain c.json 2>>c.json", "c.json", NULL);
    assert_untouched("$G explain c.json >>c.json 2>&1", "c.json", NULL);
    assert_untouched("$G explain c.json 2>>c.json | cat >err; false || exit 2", "c.json", "standard error: it is c.json");
    /* A file of the run's own. */
    write_file("j.lines", "{\"cell\":{},\"figures\":{}}\n", 26);
    assert_untouched("$G eval rope --text text --contexts 16 --windows 1 --journal j.lines --resume --json-lines >>j.lines "
                     "2>err",
                     "j.lines", "is the file of --journal j.lines too");
    /* One log of both streams, and a result in it. */
    assert_int_equal(shell("echo OLD >log; $G explain rope >>log 2>&1; echo END >>log"), 0);
    assert_int_equal(shell("$G explain rope -o /dev/stdout >>log 2>&1"), 0);
    assert_int_equal(shell("$G explain rope >rope/log; rm rope/log"), 0);
    unlink(in_folder("c.json"));
}

/* A model's file that is named itself stands for its folder: what readers of models open there is never written. */
static void neighbours_of_a_named_file(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int is_read;
    } files[] = {{"pytorch_model.bin", 1}, {"chat_template.jinja", 1},    {"vocab.txt", 1}, {"model.onnx", 1},
                 {"tokenizer.model", 1},   {"processor_config.json", 1},  {"README.md", 0}, {"sub.gguf", 0},
                 {"LICENSE", 0},           {"model-00001.safetensors", 1}};
    void (*const check[])(const char *line, const char *name, const char *says) = {assert_kept, assert_never_written};
    char line[256], name[64];
    write_file("rope/tokenizer.json", "{}", 2);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const char *says = files[i].is_read ? "which this run reads" : "exists; --force replaces it";
        snprintf(name, sizeof name, "rope/%s", files[i].name);
        write_file(name, "{}", 2);
        snprintf(line, sizeof line, "explain @rope/config.json -o @%s", name);
        check[files[i].is_read](line, name, says);
        if (!files[i].is_read) assert_asks(line, name);
        snprintf(line, sizeof line, "eval @alibi --tokenizer @rope/tokenizer.json --text @text --context 16 --report @%s",
                 name);
        check[files[i].is_read](line, name, says);
        unlink(in_folder("soft"));
        assert_int_equal(symlink(name, in_folder("soft")), 0);
        check[files[i].is_read]("explain @rope/config.json -o @soft", name, says);
        unlink(in_folder(name));
    }
    unlink(in_folder("rope/tokenizer.json"));
    static const char *const lines[] = {"explain @rope/config.json -o @rope/r.txt",
                                        "explain @rope/config.json --json -o @rope/r.json",
                                        "extend @rope/config.json --to 1k --method yarn --write @rope/far.json"};
    static const char *const results[] = {"rope/r.txt", "rope/r.json", "rope/far.json"};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(run(lines[i])->exit, 0);
        write_file(results[i], "old", 3);
        assert_asks(lines[i], results[i]);
        unlink(in_folder(results[i]));
    }
}

/* Beside a GGUF lie other models, and, of a split one, its other parts. */
static void neighbours_of_a_gguf(void **state) {
    (void)state;
    static const char *const lines[] = {"explain @gg/a%s.gguf -o", "extend @gg/a%s.gguf --to 1k --method yarn --write",
                                        "convert @gg/a%s.gguf -o"};
    char line[256], whole[256];
    assert_int_equal(shell("mkdir gg && $G convert rope -o gg/a.gguf && cp gg/a.gguf gg/a-00001-of-00003.gguf && "
                           "cp gg/a.gguf gg/a-00002-of-00003.gguf && echo more >>gg/a-00002-of-00003.gguf"),
                     0);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        snprintf(whole, sizeof whole, "%s @gg/a-00002-of-00003.gguf", lines[i]);
        snprintf(line, sizeof line, whole, "");
        assert_asks(line, "gg/a-00002-of-00003.gguf");
        snprintf(line, sizeof line, whole, "-00001-of-00003");
        assert_never_written(line, "gg/a-00002-of-00003.gguf", "which this run reads");
    }
    assert_fails("eval @gg/a.gguf --text @text --context 16 --journal @gg/a-00002-of-00003.gguf", 1, "not a journal");
    assert_int_equal(run("extend @gg/a.gguf --to 1k --method yarn --write @gg/far.gguf")->exit, 0);
    assert_int_equal(run("extend @gg/a.gguf --to 1k --method yarn --write @gg/far.gguf --force")->exit, 0);
    assert_asks("explain @gg/a.gguf -o @gg/far.gguf", "gg/far.gguf");
    assert_never_written("explain @gg/a.gguf -o @gg/a.gguf", "gg/a.gguf", "is read by this run");
    remove_tree(in_folder("gg"));
}

/* A file of a user that has the name of a folder's lock stays, whether it is a result, or read by the run. */
static void locks_of_folders(void **state) {
    (void)state;
    assert_int_equal(run("lab --text @text --preset smoke --encodings nope --work @./j --report @j.gyre-lock")->exit, 0);
    assert_true(read_bytes("j.gyre-lock", now) > 1000); /* the report */
    assert_fails("lab --text @text --preset smoke --encodings nope --work @j --report @r.html", 1, "is not a lock");
    assert_true(read_bytes("j.gyre-lock", now) > 1000);
    write_text("j.gyre-lock", 400);
    assert_fails("train --text @j.gyre-lock --tokens 64 --context 16 -o @j --force", 1, "is not a lock");
    assert_int_equal(read_bytes("j.gyre-lock", now), 400);
    unlink(in_folder("j.gyre-lock"));
    remove_tree(in_folder("j"));
    assert_int_equal(shell("$G eval rope --text text --context 16 --journal /dev/fd/3 3>>log 2>err"), 1);
    assert_int_equal(shell("grep -q 'journal: is an open descriptor' err"), 0);
    assert_int_equal(shell("$G search rope --text text --to 64 --journal /dev/fd/3 3>>log 2>err"), 1);
    assert_int_equal(shell("grep -q 'journal: is an open descriptor' err"), 0);
}

/* As a shell's > does it: the link stays, and the file is made where it leads. */
static void links_to_nothing_yet(void **state) {
    (void)state;
    struct stat is;
    unlink(in_folder("way"));
    assert_int_equal(mkdir(in_folder("results"), 0777), 0);
    assert_int_equal(symlink("results/new", in_folder("to-new")) | symlink("to-new", in_folder("way")), 0);
    assert_int_equal(run("explain @rope -o @way")->exit, 0);
    assert_true(lstat(in_folder("way"), &is) == 0 && S_ISLNK(is.st_mode));
    assert_true(lstat(in_folder("results/new"), &is) == 0 && S_ISREG(is.st_mode) && is.st_size > 0);
    unlink(in_folder("results/new"));
    assert_fails("eval @rope --text @text --context 16 -o @way --report @results/new", 2, "too");
    remove_tree(in_folder("results"));
    assert_fails("explain @rope -o @way", 1, "No such file");
    assert_true(lstat(in_folder("to-new"), &is) == 0 && S_ISLNK(is.st_mode));
    unlink(in_folder("way"));
    assert_int_equal(symlink("way", in_folder("way")), 0);
    assert_fails("explain @rope -o @way", 1, "symbolic links");
    unlink(in_folder("way"));
}

/* References and blobs of a model that is named in a Hugging Face cache are read as its snapshot is. */
static void references_of_a_cache(void **state) {
    (void)state;
    assert_int_equal(shell("mkdir -p hub/models--o--n/refs hub/models--o--n/blobs hub/models--o--n/snapshots/c && "
                           "cp rope/* hub/models--o--n/snapshots/c && echo c >hub/models--o--n/refs/main && "
                           "echo blob >hub/models--o--n/blobs/b"),
                     0);
    setenv("HF_HUB_CACHE", in_folder("hub"), 1);
    assert_int_equal(run("explain o/n -o @elsewhere.txt")->exit, 0);
    assert_never_written("explain o/n -o @hub/models--o--n/refs/main", "hub/models--o--n/refs/main", "this run");
    assert_never_written("explain o/n -o @hub/models--o--n/blobs/b", "hub/models--o--n/blobs/b", "this run");
    assert_never_written("explain o/n -o @hub/models--o--n/snapshots/c/config.json",
                         "hub/models--o--n/snapshots/c/config.json", "this run");
    unsetenv("HF_HUB_CACHE"); /* by its path too */
    static const char *const paths[] = {"@hub/models--o--n/snapshots/c", "@hub/models--o--n/snapshots/c/config.json"};
    static const char *const others[] = {"refs/main", "blobs/b"};
    for (size_t i = 0; i < 4; i++) {
        char line[256], name[64];
        snprintf(name, sizeof name, "hub/models--o--n/%s", others[i % 2]);
        snprintf(line, sizeof line, "explain %s -o @%s", paths[i / 2], name);
        assert_asks(line, name); /* they are not read then */
    }
    remove_tree(in_folder("hub"));
}

/* Files that stand where a run would put its own beside a result. */
static void neighbours(void **state) {
    (void)state;
    static const char *const names[] = {"j.lock",          "j.gyre-lock",         "k.gyre-lock",
                                        "out.2024-01.tmp", "out.gyre-1234-0.tmp", "out.gyre-1234-0-0123abcd.tmp"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        write_file(names[i], "mine", 4);
    assert_fails("lab --text @text --preset smoke --encodings nope --report @r.html --work @j", 1, "is not a lock");
    assert_int_equal(run("eval @rope --text @text --context 16 --windows 1 --journal @k")->exit, 0); /* which has none */
    assert_int_equal(run("explain @rope -o @out")->exit, 0);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_int_equal(read_bytes(names[i], kept), 4);
        assert_memory_equal(kept, "mine", 4);
        unlink(in_folder(names[i]));
    }
}

static void pipes(void **state) {
    (void)state;
    static const char *const lines[] = {"eval @trap --text @text --context 16", "generate @trap --prompt a",
                                        "plot table @trap", "explore @trap -o @page"};
    assert_int_equal(mkdir(in_folder("trap"), 0700), 0);
    assert_int_equal(mkfifo(in_folder("trap/config.json"), 0600), 0);
    alarm(60);
    setenv("GYRE_EXPLORER", in_folder("text"), 1);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        assert_fails(lines[i], 1, "not a regular file");
    assert_int_equal(mkfifo(in_folder("fifo"), 0600), 0);
    assert_fails("eval @rope --text @text --context 16 --journal @fifo", 1, "not a regular file");
    alarm(0);
}

/* A config in the folder of --write: that of another model, or an earlier result. */
static void folder_with_a_config(void **state) {
    (void)state;
    static const char *const lines[] = {
        "extend @my.json --to 1k --method yarn --write @twin", "extend @rope --to 1k --method yarn --write @twin/",
        "search @rope --text @text --to 64 --budget 20 --windows 2 --held-out 2 --even-if-worse --write @twin",
        "extend @my.json --to 1k --method yarn --write @twin/config.json"};
    assert_int_equal(mkdir(in_folder("twin"), 0777), 0);
    const size_t count = read_bytes("rope/config.json", kept);
    write_file("my.json", kept, count);
    write_file("twin/config.json", kept, count);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        assert_asks(lines[i], "twin/config.json");
    write_file("twin/config.json", "mine", 4);
    assert_asks(lines[0], "twin/config.json");
    remove_tree(in_folder("twin"));
}

/* An earlier result with --force, a file beside the model's folder, a checkpoint and a journal in it; devices. */
static void what_is_allowed(void **state) {
    (void)state;
    write_file("old", "an earlier result", 17);
    assert_asks("explain @rope -o @old", "old");
    char message[256]; /* one line, with the name and what to do */
    snprintf(message, sizeof message, "gyre: --output: %s exists; --force replaces it (", in_folder("old"));
    assert_fails("explain @rope -o @old", 2, message);
    write_file("old", "", 0);
    assert_fails("explain @rope -o @old", 2, "exists; --force replaces it"); /* empty files exist too */
    assert_int_equal(run("explain @rope -o @old --force")->exit, 0);
    assert_int_equal(run("explain @rope -o /dev/null")->exit, 0);
    assert_int_equal(run("explain @rope -o @rope/new")->exit, 0);
    assert_int_equal(unlink(in_folder("rope/new")), 0);
    assert_int_equal(run("explain @rope -o @beside.txt")->exit, 0);
    assert_int_equal(run("convert @rope -o @rope/nested")->exit, 0); /* a checkpoint in a checkpoint */
    remove_tree(in_folder("rope/nested"));
    assert_int_equal(run("eval @rope --text @text --context 16 --journal @rope/journal")->exit, 0);
    assert_int_equal(run("eval @rope --text @text --context 16 --journal @rope/journal --resume")->exit, 0);
    assert_asks("extend @rope --to 1k --method yarn --write @old", "old");
}

/* out = how many names in the folder begin so. */
static int count_names(const char *begin) {
    int count = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *entry; (entry = readdir(dir));)
        count += strncmp(entry->d_name, begin, strlen(begin)) == 0;
    closedir(dir);
    return count;
}

static void wait_for_name(const char *begin) {
    for (int i = 0; i < 10000 && count_names(begin) == 0; i++)
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    assert_int_equal(count_names(begin), 1);
}

/* Weights that somebody cuts while they are mapped: one error, and no half-written result. */
static void file_cut_while_read(void **state) {
    (void)state;
    static outcome o;
    write_model("cut", GYRE_KIND_ALIBI);
    const pid_t child = start("generate @cut --prompt abc --tokens 200000 -o @result", in_folder(".out"));
    wait_for_name("result."); /* the temporary: the model is open */
    nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    assert_int_equal(truncate(in_folder("cut/model.safetensors"), 0), 0);
    finish(child, &o);
    /* By SIGBUS within a read of tokens, by the check after it between two. */
    const int says = strstr(o.err, "became shorter") || strstr(o.err, "changed while it was read");
    if (o.exit != 1 || !says) fail_msg("exit %d, signal %d: %s", o.exit, o.signal, o.err);
    assert_int_equal(count_names("result"), 0);
}

/* What a killed run left is gone after the next one. */
static void killed_run(void **state) {
    (void)state;
    static outcome o;
    const pid_t child = start("generate @alibi --prompt abc --tokens 200000 -o @killed", in_folder(".out"));
    wait_for_name("killed.");
    assert_int_equal(kill(child, SIGKILL), 0);
    finish(child, &o);
    assert_int_equal(count_names("killed."), 1);
    assert_int_equal(run("explain @rope -o @killed")->exit, 0);
    assert_int_equal(count_names("killed"), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(files_of_the_model),
                                       cmocka_unit_test(other_names),
                                       cmocka_unit_test(texts_and_tokenizers),
                                       cmocka_unit_test(texts_with_a_config),
                                       cmocka_unit_test(links_below_texts),
                                       cmocka_unit_test(new_files),
                                       cmocka_unit_test(what_would_be_read_next_time),
                                       cmocka_unit_test(one_file_twice),
                                       cmocka_unit_test(other_models),
                                       cmocka_unit_test(what_lab_reads_itself),
                                       cmocka_unit_test(texts_in_the_work_folder),
                                       cmocka_unit_test(descriptors),
                                       cmocka_unit_test(streams_to_inputs),
                                       cmocka_unit_test(neighbours_of_a_named_file),
                                       cmocka_unit_test(neighbours_of_a_gguf),
                                       cmocka_unit_test(locks_of_folders),
                                       cmocka_unit_test(links_to_nothing_yet),
                                       cmocka_unit_test(references_of_a_cache),
                                       cmocka_unit_test(neighbours),
                                       cmocka_unit_test(pipes),
                                       cmocka_unit_test(folder_with_a_config),
                                       cmocka_unit_test(what_is_allowed),
                                       cmocka_unit_test(file_cut_while_read),
                                       cmocka_unit_test(killed_run)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
