/* test_failures.c: the n-th call of malloc, open, read, write, fsync, rename, mmap, pthread_create, stat or access fails, in
 * every command: it ends with status 1 and a message, or with the result of a run where nothing failed.  A result that is
 * there is whole. */
#include "run_command.h"

static const char *const kinds[] = {"memory", "open",   "read", "write",  "sync",  "rename",
                                    "map",    "thread", "stat", "access", "unlink"};
enum { ACCESS = 9, UNLINK, KINDS, SYNC = 4, RESULTS = 3, MAX_BYTES = 1 << 20 };
_Static_assert(sizeof kinds / sizeof *kinds == KINDS, "a number for each kind that is counted");
/* Failures of one kind in a command: FEW, or with GYRE_TEST_ALL as many as a job says; GYRE_FAIL_RUNS=1000000 takes every
 * call. */
enum { FEW = 2, RUNS = 12, EVERY = 1 << 20 };

/* What is left of a run that failed. */
typedef enum leaves {
    LEAVES_NOTHING, /* of its results: none, or all of one */
    LEAVES_LINES,   /* a journal: whole lines of that of the whole run */
    LEAVES_MODEL,   /* a checkpoint, or none: train --resume goes on from it */
    LEAVES_WORK     /* a folder of work: the same command goes on from it */
} leaves;

typedef struct job {
    const char *line;
    const char *results[RESULTS]; /* files that it writes */
    leaves leaves;
    long runs;       /* with GYRE_TEST_ALL; 0 = RUNS */
    int slow;        /* 1, 2: a run takes a second; without GYRE_TEST_ALL one failure of every second kind */
    int is_measured; /* 1: numbers differ from run to run, and are not compared */
} job;

static const job jobs[] = {
    {.line = "explain @llama.json --json"},
    {.line = "explain @rope"},
    {.line = "explain @llama.json --timeline --json"},
    {.line = "diff @llama.json --with vllm --json"},
    {.line = "audit @learned --json"},
    {.line = "audit @model.gguf", .runs = EVERY},
    {.line = "audit @rope --text @text", .runs = 48},
    {.line = "extend @model.gguf --to 64 --method yarn --write @result.gguf", .results = {"result.gguf"}, .runs = EVERY},
    {.line = "extend @llama.json --to 16k --methods linear,yarn"},
    {.line = "extend @llama.json --to 16k --method yarn --write @result", .results = {"result"}},
    {.line = "extend @rope --to 64 --methods none,linear,yarn --text @text --windows 5 --json"},
    {.line = "convert @rope -o @result --json", .results = {"result/config.json", "result/model.safetensors"}},
    {.line = "convert @rope -o @result.gguf", .results = {"result.gguf"}},
    {.line = "train --text @text -o @result --tokens 32 --context 16 --batch 1 --layers 1 --width 16 --json",
     .results = {"result/config.json", "result/model.safetensors", "result/training.json"},
     .leaves = LEAVES_MODEL},
    {.line = "train --text @text -o @result --tokens 32 --context 16 --batch 1 --layers 1 --width 16 --encoding fope --json",
     .results = {"result/config.json", "result/model.safetensors", "result/training.json"},
     .leaves = LEAVES_MODEL},
    {.line = "eval @rope --text @text --contexts 16 --windows 2 --json --journal @result",
     .results = {"result"},
     .leaves = LEAVES_LINES},
    {.line = "eval @rope --text @text --contexts 16 --windows 2 -o @result", .results = {"result"}},
    {.line = "eval @rope --text @text --contexts 16,32 --windows 1 --methods none,yarn --report @result.html --json",
     .results = {"result.html"},
     .runs = 120},
    {.line = "passkey @rope --lengths 320 --trials 1 --json"},
    {.line = "generate @rope --prompt abc --tokens 3 --temperature 0"},
    {.line = "generate @contextual --prompt abc --tokens 3 --temperature 0"},
    {.line = "generate @adaptive --prompt abc --tokens 3 --temperature 0"},
    {.line = "show shift"},
    {.line = "show rotation --json"},
    {.line = "shard @rope --context 1024 --ranks 2 --json"},
    {.line = "plot wavelengths @llama.json -o @result.csv", .results = {"result.csv"}},
    {.line = "plot perplexity @perplexity.json --csv", .runs = EVERY},
    {.line = "plot passkey @passkey.json --csv", .runs = EVERY},
    {.line = "search @rope --text @text --to 64 --budget 20 --windows 2 --held-out 2 --json --journal @result",
     .results = {"result"},
     .leaves = LEAVES_LINES},
    {.line = "search @rope --text @text --to 64 --budget 20 --windows 2 --held-out 2 --pairs --json"},
    {.line = "lab --text @text --preset smoke --encodings alibi --work @result --report @result.html --json",
     .leaves = LEAVES_WORK,
     .runs = 8,
     .slow = 1},
    {.line = "lab --task copy --preset smoke --encodings alibi --work @result --report @result.html --json",
     .leaves = LEAVES_WORK,
     .runs = 4,
     .slow = 2},
    {.line = "explore @llama.json -o @result.html", .results = {"result.html"}, .runs = EVERY},
    {.line = "explore"},
    {.line = "bench encodings --tokens 64 --heads 1 --head-dim 16 --schemes alibi-causal,deberta --rounds 1 --json",
     .is_measured = 1},
    {.line = "bench train --context 16 --batch 1 --rounds 1 --json", .runs = 8, .is_measured = 1},
};
enum { JOBS = sizeof jobs / sizeof *jobs };

typedef struct ended {
    int exit, signal;
    char *out;
    char err[2048];
    char *files[RESULTS];
    size_t bytes[RESULTS];
} ended;

static char *read_all(const char *name, size_t *bytes) {
    FILE *file = fopen(in_folder(name), "rb");
    if (!file) return NULL;
    char *text = malloc(MAX_BYTES);
    assert_non_null(text);
    *bytes = fread(text, 1, MAX_BYTES - 1, file);
    text[*bytes] = 0;
    fclose(file);
    return text;
}

static void free_ended(ended *e) {
    free(e->out);
    for (int i = 0; i < RESULTS; i++)
        free(e->files[i]);
}

/* Speeds and dates differ from run to run: digits after "seconds" and "per_second" are not compared.
 * out = the bytes that stay. */
static size_t drop_times(char *text, size_t bytes) {
    static const char *const keys[] = {"seconds\"", "per_second\"", "\"date\""};
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
        for (char *at = text; (at = strstr(at, keys[k]));) {
            at += strlen(keys[k]);
            const size_t value = strcspn(at, ",\n}"), rest = bytes - (size_t)(at - text) - value;
            memmove(at, at + value, rest + 1);
            bytes -= value;
        }
    return bytes;
}

/* Numbers outside of strings; one that is not known is null. */
static void blank_numbers(char *text) {
    char *to = text;
    for (const char *at = text; *at;) {
        const size_t number = strspn(at, "0123456789.+-eE"), null = strncmp(at, "null", 4) == 0 ? 4 : 0;
        const size_t quoted = *at == '"' ? 1 + strcspn(at + 1, "\"") : 0;
        if (number || null) *to++ = '#';
        if (quoted) memmove(to, at, quoted + 1), to += quoted + 1;
        if (!number && !null && !quoted) *to++ = *at;
        at += number ? number : null ? null : quoted ? quoted + 1 : 1;
    }
    *to = 0;
}

static void collect(const job *j, ended *e) {
    size_t bytes;
    e->out = read_all(".out", &bytes);
    (void)drop_times(e->out, bytes);
    if (j->is_measured) blank_numbers(e->out);
    for (int i = 0; i < RESULTS && j->results[i]; i++) {
        e->files[i] = read_all(j->results[i], &e->bytes[i]);
        if (e->files[i]) e->bytes[i] = drop_times(e->files[i], e->bytes[i]);
    }
}

/* With the results of the run before in their places. */
static ended rerun_job(const job *j, const char *fail) {
    ended e = {0};
    outcome o;
    setenv("LD_PRELOAD", GYRE_FAIL_CALLS, 1);
    setenv("GYRE_FAIL", fail, 1);
    const pid_t child = start(j->line, in_folder(".out"));
    unsetenv("LD_PRELOAD");
    unsetenv("GYRE_FAIL");
    finish(child, &o);
    e.exit = o.exit;
    e.signal = o.signal;
    snprintf(e.err, sizeof e.err, "%.2000s", o.err);
    collect(j, &e);
    return e;
}

static ended run_job(const job *j, const char *fail) {
    static const char *const left[] = {"result", "result.gguf", "result.csv", "result.html", "result.gyre-lock"};
    for (size_t i = 0; i < sizeof left / sizeof *left; i++)
        remove_tree(in_folder(left[i]));
    return rerun_job(j, fail);
}

static int failures; /* all are listed */

static int same_files(const ended *a, const ended *b, int may_lack) {
    for (int i = 0; i < RESULTS; i++) {
        if (!a->files[i] && (may_lack || !b->files[i])) continue;
        if (!a->files[i] || !b->files[i] || a->bytes[i] != b->bytes[i] || memcmp(a->files[i], b->files[i], a->bytes[i]) != 0)
            return 0;
    }
    return 1;
}

/* A journal grows line by line: what is there must be a beginning of the whole. */
static int is_beginning(const ended *a, const ended *b) {
    return a->files[0] && b->files[0] && a->bytes[0] <= b->bytes[0] && memcmp(a->files[0], b->files[0], a->bytes[0]) == 0;
}

/* What a failed training left is a checkpoint from which the same end is reached, and so is a folder of work. */
static int resumes(const job *j, const ended *whole) {
    if (j->leaves == LEAVES_MODEL && access(in_folder("result/training.json"), F_OK) != 0) return 0;
    if (run(j->leaves == LEAVES_MODEL ? "train --resume --text @text -o @result --json" : j->line)->exit) return 0;
    ended e = {0};
    collect(j, &e);
    const int same = same_files(&e, whole, 0) && (j->leaves == LEAVES_MODEL || strcmp(e.out, whole->out) == 0);
    free_ended(&e);
    return same;
}

static int leaves_what_it_may(const job *j, const ended *e, const ended *whole) {
    if (j->leaves == LEAVES_WORK) return resumes(j, whole);
    return same_files(e, whole, 1) || (j->leaves == LEAVES_LINES && is_beginning(e, whole)) ||
           (j->leaves == LEAVES_MODEL && resumes(j, whole));
}

static void check(const job *j, const char *fail, const ended *e, const ended *whole) {
    const int good = e->exit == whole->exit && strcmp(e->out, whole->out) == 0 && same_files(e, whole, 0);
    const int told = e->exit == 1 && strstr(e->err, "gyre: ");
    if (good || (told && leaves_what_it_may(j, e, whole))) return;
    failures++;
    print_error("%s: gyre %s: exit %d, signal %d, files %s: %s\n", fail, j->line, e->exit, e->signal,
                same_files(e, whole, 1) ? "whole" : "other", e->err);
}

/* A run where nothing fails.  calls[k] = its calls of kinds[k]. */
static ended run_whole(const job *j, long calls[KINDS]) {
    char text[512], name[16];
    long count;
    setenv("GYRE_FAIL_COUNT", in_folder("calls"), 1);
    ended e = run_job(j, "none:0");
    unsetenv("GYRE_FAIL_COUNT");
    if (e.exit) fail_msg("gyre %s: %s", j->line, e.err);
    read_whole(in_folder("calls"), text, sizeof text);
    for (int k = 0; k < KINDS; k++)
        calls[k] = -1;
    for (const char *line = text; sscanf(line, "%15s %ld", name, &count) == 2; line = strchr(line, '\n') + 1)
        for (int k = 0; k < KINDS; k++)
            if (strcmp(name, kinds[k]) == 0) calls[k] = count;
    for (int k = 0; k < KINDS; k++)
        if (calls[k] < 0) fail_msg("gyre %s: calls of %s are not counted", j->line, kinds[k]);
    return e;
}

/* out = how many failures of a kind are tried. */
static long usual_runs(const job *j, int kind) {
    if (test_all()) return j->runs ? j->runs : RUNS;
    return !j->slow ? FEW : (kind + j->slow) % 2;
}

/* Failures of one kind, spread evenly over its calls. */
static void check_kind(const job *j, int kind, long calls, const ended *whole) {
    const char *runs_text = getenv("GYRE_FAIL_RUNS");
    const long usual = usual_runs(j, kind);
    const long wanted = runs_text ? strtol(runs_text, NULL, 10) : usual, runs = wanted < calls ? wanted : calls;
    char fail[40];
    for (long i = 0; i < runs; i++) {
        snprintf(fail, sizeof fail, "%s:%ld", kinds[kind], 1 + (2 * i + 1) * calls / (2 * runs));
        ended e = run_job(j, fail);
        check(j, fail, &e, whole);
        free_ended(&e);
    }
}

static void every_command(void **state) {
    (void)state;
    const char *only = getenv("GYRE_FAIL_ONLY"); /* a part of the line, for a person who mends one command */
    for (int i = 0; i < JOBS; i++) {
        if (only && !strstr(jobs[i].line, only)) continue;
        long calls[KINDS];
        ended whole = run_whole(&jobs[i], calls);
        for (int k = 0; k < UNLINK; k++) /* a file that cannot be removed: what_cannot_be_removed */
            check_kind(&jobs[i], k, calls[k], &whole);
        free_ended(&whole);
    }
    assert_int_equal(failures, 0);
}

/* A name that cannot be looked at is not taken for a free one. */
static void what_is_there_stays(void **state) {
    (void)state;
    static const job first = {.line =
                                  "train --text @text -o @result --tokens 32 --context 16 --batch 1 --layers 1 --width 16",
                              .results = {"result/config.json", "result/model.safetensors"}},
                     second = {.line =
                                   "train --text @text -o @result --tokens 64 --context 16 --batch 1 --layers 1 --width 16",
                               .results = {"result/config.json", "result/model.safetensors"}};
    long calls[KINDS];
    ended of_second = run_whole(&second, calls);
    free_ended(&of_second);
    ended whole = run_job(&first, "none:0");
    if (whole.exit) fail_msg("gyre %s: %s", first.line, whole.err);
    for (long n = 1; n <= calls[ACCESS]; n++) {
        char fail[40];
        snprintf(fail, sizeof fail, "access:%ld", n);
        ended again = rerun_job(&second, fail);
        if (again.exit != 1 || !same_files(&again, &whole, 0))
            fail_msg("%s: gyre %s: exit %d, and another model: %s", fail, second.line, again.exit, again.err);
        free_ended(&again);
    }
    free_ended(&whole);
}

/* The checkpoint before the last is removed in the end.  If it cannot be, the run says so, and the next one does it. */
static void what_cannot_be_removed(void **state) {
    (void)state;
    static const job j = {.line = "train --text @text -o @result --tokens 32 --context 16 --batch 1 --layers 1 --width 16",
                          .results = {"result/config.json", "result/model.safetensors"}};
    long calls[KINDS];
    ended whole = run_whole(&j, calls);
    const int entries = count_entries(folder);
    const long last = calls[UNLINK];
    for (long n = 1; n <= last + 1; n++) {
        char fail[40];
        snprintf(fail, sizeof fail, n > last ? "unlink:1+" : "unlink:%ld", n);
        ended e = run_job(&j, fail);
        const int lock = access(in_folder("result.gyre-lock"), F_OK) == 0, rest = count_entries(folder) - lock > entries;
        if (e.exit || !same_files(&e, &whole, 0)) fail_msg("%s: exit %d: %s", fail, e.exit, e.err);
        if (rest != (n > last) || rest != (strstr(e.err, "could not be removed") != NULL))
            fail_msg("%s: %d left: %s", fail, rest, e.err);
        free_ended(&e);
    }
    ended next = rerun_job(&j, "none:0"); /* refused: the folder is there */
    assert_int_equal(next.exit, 1);
    free_ended(&next);
    assert_int_equal(
        run("train --force --text @text -o @result --tokens 32 --context 16 --batch 1 --layers 1 --width 16")->exit, 0);
    assert_int_equal(count_entries(folder), entries); /* the lock too */
    free_ended(&whole);
}

/* A line that cannot be synced ends the run before its results are printed, and is not lost: the run goes on from it. */
static void journals_are_synced(void **state) {
    static const struct {
        job j;
        const char *resume;
    } runs[] = {
        {{.line = "eval @rope --text @text --contexts 16,32 --windows 2 --json --journal @result", .results = {"result"}},
         "eval @rope --text @text --contexts 16,32 --windows 2 --json --journal @result --resume"},
        {{.line = "passkey @rope --lengths 320 --trials 1 --json --journal @result", .results = {"result"}},
         "passkey @rope --lengths 320 --trials 1 --json --journal @result --resume"},
        {{.line = "extend @rope --text @text --to 64 --windows 2 --methods yarn --json --journal @result",
          .results = {"result"}},
         "extend @rope --text @text --to 64 --windows 2 --methods yarn --json --journal @result --resume"},
        {{.line = "search @rope --text @text --to 64 --budget 20 --windows 2 --held-out 2 --json --journal @result",
          .results = {"result"}},
         "search @rope --text @text --to 64 --budget 20 --windows 2 --held-out 2 --json --journal @result"},
        {{.line = "lab --task copy --preset smoke --encodings alibi --work @result --json --report @result.html",
          .results = {"result/results.jsonl"}},
         "lab --task copy --preset smoke --encodings alibi --work @result --json --report @result.html"}};
    (void)state;
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        const job *j = &runs[i].j;
        long calls[KINDS];
        ended whole = run_whole(j, calls);
        int told = 0;
        for (long n = 1; n <= calls[SYNC]; n++) {
            char fail[40];
            snprintf(fail, sizeof fail, "sync:%ld", n);
            ended e = run_job(j, fail);
            const int of_journal = strstr(e.err, "gyre: journal: ") && strstr(e.err, "cannot be synced: ");
            told += of_journal;
            if (of_journal && (e.exit != 1 || *e.out || !is_beginning(&e, &whole)))
                fail_msg("%s: gyre %s: exit %d: %s%s", fail, j->line, e.exit, e.out, e.err);
            if (of_journal && run(runs[i].resume)->exit) fail_msg("gyre %s", runs[i].resume);
            ended again = {0};
            collect(j, &again);
            if (of_journal && !same_files(&again, &whole, 0)) fail_msg("%s: gyre %s: another journal", fail, j->line);
            free_ended(&again);
            free_ended(&e);
        }
        /* Those of the folder and of the lines. */
        if (told < 2) fail_msg("gyre %s: %d of %ld syncs are of its journal", j->line, told, calls[SYNC]);
        free_ended(&whole);
    }
}

static int make_files(void **state) {
    static const char llama[] =
        "{\"model_type\": \"llama\", \"hidden_size\": 4096, \"num_attention_heads\": 32, \"num_hidden_layers\": 4, "
        "\"max_position_embeddings\": 8192, \"rope_theta\": 500000.0, \"rope_scaling\": {\"rope_type\": \"llama3\", "
        "\"factor\": 8.0, \"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0, \"original_max_position_embeddings\": 8192}}";
    static const char page[] = "<body>before<!-- CONFIG -->after</body>\n";
    setenv("GYRE_THREADS", "2", 1);
    setenv("LC_ALL", "C", 1); /* a locale that cannot be loaded changes a dot of explain */
    if (make_folder(state)) return -1;
    write_file("llama.json", llama, sizeof llama - 1);
    write_model_with("contextual", GYRE_KIND_NOPE, GYRE_LAYER_PART_CONTEXTUAL);
    write_model_with("adaptive", GYRE_KIND_ALIBI, GYRE_LAYER_PART_ADAPTIVE);
    write_file("page.html", page, sizeof page - 1);
    setenv("GYRE_EXPLORER", in_folder("page.html"), 1);
    static const char *const lines[] = {"convert @rope -o @model.gguf",
                                        "eval @rope --text @text --contexts 16,32 --windows 2 --json -o @perplexity.json",
                                        "passkey @rope --lengths 320,400 --depths 2 --trials 1 --json -o @passkey.json"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (run(lines[i])->exit) return -1;
    unsetenv("DISPLAY");
    unsetenv("WAYLAND_DISPLAY");
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_command), cmocka_unit_test(what_is_there_stays),
                                       cmocka_unit_test(what_cannot_be_removed), cmocka_unit_test(journals_are_synced)};
    return cmocka_run_group_tests(tests, make_files, remove_folder);
}
