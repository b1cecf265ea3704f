/* fuzz_commands.c: files that subcommands read: results and journals for figures and for runs that continue, configs and
 * texts for what is printed, models and tokenizers that are converted.  The words of the command line are fixed; the first
 * byte of the input, a letter from a to z and then from A, chooses them, and the rest is the file. */
#include "fuzz_exit.h"
#include "fuzz_support.h"
#include "gyre/gyre_model.h"
#include "model/model.h"
#include "tools/subcommands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WORDS = 24, LETTERS = 26, WORDED_VOCAB = 304, LLAMA2C_VOCAB = 259 };
typedef struct line {
    int (*command)(int argc, char **argv);
    const char *file;         /* what the input becomes; NULL: as in the line before, which has the letter of both */
    const char *words[WORDS]; /* "@name": a path in the folder */
} line;

static const line lines[] = {
    {cmd_plot, "results", {"gyre plot", "perplexity", "@results", "-o", "@out.csv"}},
    {cmd_plot, NULL, {"gyre plot", "perplexity", "@results", "-o", "@out.svg"}},
    {cmd_plot, "results", {"gyre plot", "passkey", "@results", "-o", "@out.json"}},
    {cmd_plot, NULL, {"gyre plot", "passkey", "@results", "-o", "@out.svg"}},
    {cmd_eval,
     "journal",
     {"gyre eval", "@model", "--text", "@text", "--contexts", "8", "--windows", "1", "--journal", "@journal", "--resume",
      "--json", "-o", "@out", "--threads", "1"}},
    {cmd_passkey,
     "journal",
     {"gyre passkey", "@model", "--lengths", "320", "--trials", "1", "--journal", "@journal", "--resume", "--json", "-o",
      "@out", "--threads", "1"}},
    {cmd_search,
     "journal",
     {"gyre search", "@model", "--text", "@text", "--to", "32", "--budget", "30", "--windows", "2", "--held-out", "2",
      "--journal", "@journal", "--json", "--threads", "1"}},
    {cmd_explain, "config.json", {"gyre explain", "@config.json", "--json", "-o", "@out"}},
    {cmd_explain, "config.json", {"gyre explain", "@config.json", "-o", "@out"}},
    {cmd_diff, "config.json", {"gyre diff", "@config.json", "--with", "vllm", "-o", "@out"}},
    {cmd_extend, "config.json", {"gyre extend", "@config.json", "--to", "16k", "-o", "@out"}},
    {cmd_extend, "config.json", {"gyre extend", "@config.json", "--to", "16k", "--json", "-o", "@out"}},
    {cmd_plot, "config.json", {"gyre plot", "wavelengths", "@config.json", "-o", "@out.csv"}},
    {cmd_plot, "config.json", {"gyre plot", "methods", "@config.json", "-o", "@out.json"}},
    {cmd_generate, "text", {"gyre generate", "@model", "--prompt-file", "@text", "--tokens", "2", "--threads", "1"}},
    {cmd_generate,
     NULL,
     {"gyre generate", "@model", "--prompt-file", "@text", "--tokens", "2", "--temperature", "0.9", "--top-k", "9",
      "--top-p", "0.9", "--stream", "2,8", "--threads", "1"}},
    {cmd_plot, "text", {"gyre plot", "attention", "@model", "--text", "@text", "--tokens", "8", "-o", "@out.csv"}},
    {cmd_audit, "config.json", {"gyre audit", "@config.json", "--json", "-o", "@out"}},
    {cmd_audit, "model/tokenizer_config.json", {"gyre audit", "@model", "-o", "@out", "--threads", "1"}},
    {cmd_shard, "config.json", {"gyre shard", "@config.json", "--context", "4k", "--ranks", "3", "--json"}},
    {cmd_extend,
     "config.json",
     {"gyre extend", "@config.json", "--to", "64k", "--methods",
      "none,linear,ntk,ntk-mixed,llama3,dynamic,by-parts,yarn+resonance,dynamic-yarn,longrope", "--json", "-o", "@out"}},
    {cmd_extend, "config.json", {"gyre extend", "@config.json", "--to", "256k", "-o", "@out"}},
    {cmd_extend,
     "config.json",
     {"gyre extend", "@config.json", "--to", "64k", "--method", "yarn", "--write", "@stretched.json", "-o", "@out"}},
    {cmd_extend, "model.gguf", {"gyre extend", "@model.gguf", "--to", "256k", "-o", "@out"}},
    {cmd_extend,
     "text",
     {"gyre extend", "@model", "--to", "64", "--methods", "linear,yarn", "--text", "@text", "--windows", "12", "-o", "@out",
      "--threads", "1"}},
    {cmd_diff,
     "config.json",
     {"gyre diff", "@config.json", "--as", "hf-4.43", "--with", "llama.cpp", "--accuracy", "--json", "-o", "@out"}},
    {cmd_diff, "config.json", {"gyre diff", "@config.json", "@model", "-o", "@out"}},
    {cmd_explain, "config.json", {"gyre explain", "@config.json", "--accuracy", "--as", "vllm", "-o", "@out"}},
    {cmd_explain, "text", {"gyre explain", "@model", "--check", "@text", "-o", "@out", "--threads", "1"}},
    {cmd_convert, "worded/tokenizer.json", {"gyre convert", "@worded", "-o", "@converted.gguf"}},
    {cmd_audit, NULL, {"gyre audit", "@worded", "--json", "-o", "@out", "--threads", "1"}},
    {cmd_convert, "model.gguf", {"gyre convert", "@model.gguf", "-o", "@converted"}},
    {cmd_convert, "llama2c/tok.bin", {"gyre convert", "@llama2c", "-o", "@converted", "--json"}},
    {cmd_plot, "config.json", {"gyre plot", "bias", "@config.json", "--tokens", "16", "-o", "@out.svg"}},
    {cmd_plot, NULL, {"gyre plot", "decay", "@config.json", "--points", "16", "-o", "@out.svg"}},
    {cmd_plot, NULL, {"gyre plot", "clock", "@config.json", "-o", "@out.svg"}},
    {cmd_plot, NULL, {"gyre plot", "helix", "@config.json", "-o", "@out.svg"}},
    {cmd_plot, NULL, {"gyre plot", "shift", "-o", "@out.svg"}},
    {cmd_plot, NULL, {"gyre plot", "ramp", "@config.json", "-o", "@out.svg"}},
    {cmd_plot, NULL, {"gyre plot", "wavelengths", "@config.json", "--to", "64k", "-o", "@out.svg"}},
    {cmd_plot, NULL, {"gyre plot", "methods", "@config.json", "--points", "16", "-o", "@out.svg"}},
    {cmd_plot, NULL, {"gyre plot", "accuracy", "@config.json", "--points", "8", "-o", "@out.json"}},
    {cmd_search,
     "text",
     {"gyre search", "@model", "--text", "@text", "--to", "32", "--budget", "60", "--windows", "2", "--held-out", "2",
      "--report", "@out.html", "--write", "@found.json", "--force", "--threads", "1"}},
    {cmd_search,
     "text",
     {"gyre search", "@model", "--text", "@text", "--to", "32", "--windows", "2", "--held-out", "2", "--temperature",
      "--threads", "1"}},
    {cmd_eval,
     "text",
     {"gyre eval", "@model", "--text", "@text", "--contexts", "8,16", "--methods", "none,yarn", "--windows", "2", "--report",
      "@out.html", "--threads", "1"}},
    {cmd_passkey,
     "text",
     {"gyre passkey", "@model", "--lengths", "320", "--trials", "1", "--match", "contains", "--report", "@out.html",
      "--threads", "1"}},
    {cmd_audit, "text", {"gyre audit", "@model", "--text", "@text", "-o", "@out", "--threads", "1"}},
    {cmd_audit, "model/generation_config.json", {"gyre audit", "@model", "-o", "@out", "--threads", "1"}},
};
enum { LINES = sizeof lines / sizeof *lines };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void make_model(const char *name, int64_t vocab) {
    gyre_model_config config = gyre_model_config_default();
    gyre_model *model = NULL;
    gyre_error err = {0, ""};
    config.vocab = vocab;
    config.model_dim = config.mlp_dim = 8;
    config.layers = config.heads = config.kv_heads = 1;
    config.head_dim = 8;
    config.position.kind = GYRE_KIND_ROPE;
    config.position.trained_length = 16;
    fuzz_require(gyre_model_create(&model, &config, 1, &err) == GYRE_OK, err.text);
    fuzz_require(gyre_model_save(model, fuzz_path(name), GYRE_DTYPE_F32, &err) == GYRE_OK, err.text);
    gyre_model_free(model);
}

/* A checkpoint of llama2.c: its seven sizes, then its weights, all zero. */
static void make_llama2c(void) {
    enum { SIZE = 8, MATRICES = 8, NORMS = 3 }; /* the angles take as much as a matrix */
    static const struct {
        int32_t sizes[7];
        float weights[(LLAMA2C_VOCAB + MATRICES * SIZE + NORMS) * SIZE];
    } file = {.sizes = {SIZE, SIZE, 1, 1, 1, LLAMA2C_VOCAB, SIZE}};
    fuzz_require(mkdir(fuzz_path("llama2c"), 0777) == 0, "a folder can be made");
    fuzz_write("llama2c/model.bin", &file, sizeof file);
}

static void make_files(void) {
    make_model("model", 256);
    make_model("worded", WORDED_VOCAB);
    make_llama2c();
    fuzz_require(mkdir(fuzz_path("temporary"), 0777) == 0, "a folder can be made");
    setenv("TMPDIR", fuzz_path("temporary"), 1);
    setenv("HF_HOME", fuzz_path("nowhere"), 1);
}

static int count_letters(void) {
    int count = 0;
    for (int i = 0; i < LINES; i++)
        count += lines[i].file != NULL;
    return count;
}

static void run_line(const line *chosen) {
    char paths[WORDS][160];
    const char *words[WORDS] = {NULL};
    for (int i = 0; i < WORDS && chosen->words[i]; i++) {
        snprintf(paths[i], sizeof paths[i], "%s",
                 chosen->words[i][0] == '@' ? fuzz_path(chosen->words[i] + 1) : chosen->words[i]);
        words[i] = paths[i];
    }
    const int status = fuzz_command(chosen->command, words);
    fuzz_require(status >= 0 && status <= 4, "an exit status that the manual names");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static char prose[2000];
    static int made;
    if (size == 0) return 0;
    if (!made) make_files();
    for (size_t i = 0; i < sizeof prose && !made; i++)
        prose[i] = (char)(i % 7 == 6 ? ' ' : 'a' + i * i % 26);
    made = 1;
    const int letter = data[0] >= 'a' ? data[0] - 'a' : data[0] >= 'A' && data[0] <= 'Z' ? LETTERS + data[0] - 'A' : data[0];
    int at = 0;
    for (int i = 0, left = letter % count_letters(); i < LINES && left >= 0; i++)
        if (lines[i].file && left-- == 0) at = i;
    fuzz_write("text", prose, sizeof prose);
    fuzz_write(lines[at].file, data + 1, size - 1);
    do
        run_line(&lines[at]);
    while (++at < LINES && !lines[at].file);
    static const char *const left[] = {"journal", "stretched.json", "found.json"};
    for (size_t i = 0; i < sizeof left / sizeof *left; i++)
        unlink(fuzz_path(left[i]));
    return 0;
}
