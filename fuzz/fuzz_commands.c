/* fuzz_commands.c: files that subcommands read: results and journals for figures and for runs that continue, configs and
 * texts for what is printed, models and tokenizers that are converted.  The words of the command line are fixed; the first
 * byte of the input, a letter from a to z, then from A to Z, then a digit from 4, chooses them, and the rest is the file. */
#include "fuzz_exit.h"
#include "fuzz_support.h"
#include "gyre/gyre_model.h"
#include "model/model.h"
#include "tools/cli/cli_error.h"
#include "tools/subcommands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WORDS = 24, LETTERS = 26, SMALL_VOCAB = 24, WORDED_VOCAB = 304, LLAMA2C_VOCAB = 259, PROSE = 2000 };
typedef struct line {
    int (*command)(int argc, char **argv);
    const char *file;         /* what the input becomes; NULL: as in the line before, which has the letter of both */
    const char *words[WORDS]; /* "@name": a path in the folder */
} line;

static const line lines[] = {
    {cmd_plot, "results", {"gyre plot", "perplexity", "@results", "-o", "@written/out.csv"}},
    {cmd_plot, NULL, {"gyre plot", "perplexity", "@results", "-o", "@written/out.svg"}},
    {cmd_plot, "results", {"gyre plot", "passkey", "@results", "-o", "@written/out.json"}},
    {cmd_plot, NULL, {"gyre plot", "passkey", "@results", "-o", "@written/out.svg"}},
    {cmd_eval,
     "journal",
     {"gyre eval", "@model", "--text", "@text", "--contexts", "8", "--windows", "1", "--journal", "@journal", "--resume",
      "--json", "-o", "@written/out", "--threads", "1"}},
    {cmd_passkey,
     "journal",
     {"gyre passkey", "@model", "--lengths", "320", "--trials", "1", "--journal", "@journal", "--resume", "--json", "-o",
      "@written/out", "--threads", "1"}},
    {cmd_search,
     "journal",
     {"gyre search", "@model", "--text", "@text", "--to", "32", "--budget", "30", "--windows", "2", "--held-out", "2",
      "--journal", "@journal", "--json", "--threads", "1"}},
    {cmd_explain, "config.json", {"gyre explain", "@config.json", "--json", "-o", "@written/out"}},
    {cmd_explain, "config.json", {"gyre explain", "@config.json", "-o", "@written/out"}},
    {cmd_diff, "config.json", {"gyre diff", "@config.json", "--with", "vllm", "-o", "@written/out"}},
    {cmd_extend, "config.json", {"gyre extend", "@config.json", "--to", "16k", "-o", "@written/out"}},
    {cmd_extend, "config.json", {"gyre extend", "@config.json", "--to", "16k", "--json", "-o", "@written/out"}},
    {cmd_plot, "config.json", {"gyre plot", "wavelengths", "@config.json", "-o", "@written/out.csv"}},
    {cmd_plot, "config.json", {"gyre plot", "methods", "@config.json", "-o", "@written/out.json"}},
    {cmd_generate, "text", {"gyre generate", "@model", "--prompt-file", "@text", "--tokens", "2", "--threads", "1"}},
    {cmd_generate,
     NULL,
     {"gyre generate", "@model", "--prompt-file", "@text", "--tokens", "2", "--temperature", "0.9", "--top-k", "9",
      "--top-p", "0.9", "--stream", "2,8", "--threads", "1"}},
    {cmd_plot, "text", {"gyre plot", "attention", "@model", "--text", "@text", "--tokens", "8", "-o", "@written/out.csv"}},
    {cmd_audit, "config.json", {"gyre audit", "@config.json", "--json", "-o", "@written/out"}},
    {cmd_audit, "model/tokenizer_config.json", {"gyre audit", "@model", "-o", "@written/out", "--threads", "1"}},
    {cmd_shard, "config.json", {"gyre shard", "@config.json", "--context", "4k", "--ranks", "3", "--json"}},
    {cmd_extend,
     "config.json",
     {"gyre extend", "@config.json", "--to", "64k", "--methods",
      "none,linear,ntk,ntk-mixed,llama3,dynamic,by-parts,yarn+resonance,dynamic-yarn,longrope", "--json", "-o",
      "@written/out"}},
    {cmd_extend, "config.json", {"gyre extend", "@config.json", "--to", "256k", "-o", "@written/out"}},
    {cmd_extend,
     "config.json",
     {"gyre extend", "@config.json", "--to", "64k", "--method", "yarn", "--write", "@written/stretched.json", "-o",
      "@written/out"}},
    {cmd_extend, "model.gguf", {"gyre extend", "@model.gguf", "--to", "256k", "-o", "@written/out"}},
    {cmd_extend,
     "text",
     {"gyre extend", "@model", "--to", "64", "--methods", "linear,yarn", "--text", "@text", "--windows", "12", "-o",
      "@written/out", "--threads", "1"}},
    {cmd_diff,
     "config.json",
     {"gyre diff", "@config.json", "--as", "hf-4.43", "--with", "llama.cpp", "--accuracy", "--json", "-o", "@written/out"}},
    {cmd_diff, "config.json", {"gyre diff", "@config.json", "@model", "-o", "@written/out"}},
    {cmd_explain, "config.json", {"gyre explain", "@config.json", "--accuracy", "--as", "vllm", "-o", "@written/out"}},
    {cmd_explain, "text", {"gyre explain", "@model", "--check", "@text", "-o", "@written/out", "--threads", "1"}},
    {cmd_convert, "worded/tokenizer.json", {"gyre convert", "@worded", "-o", "@written/converted.gguf"}},
    {cmd_audit, NULL, {"gyre audit", "@worded", "--json", "-o", "@written/out", "--threads", "1"}},
    {cmd_convert, "model.gguf", {"gyre convert", "@model.gguf", "-o", "@written/converted"}},
    {cmd_convert, "llama2c/tok.bin", {"gyre convert", "@llama2c", "-o", "@written/converted", "--json"}},
    {cmd_plot, "config.json", {"gyre plot", "bias", "@config.json", "--tokens", "16", "-o", "@written/out.svg"}},
    {cmd_plot, NULL, {"gyre plot", "decay", "@config.json", "--points", "16", "-o", "@written/out.svg"}},
    {cmd_plot, NULL, {"gyre plot", "clock", "@config.json", "-o", "@written/out.svg"}},
    {cmd_plot, NULL, {"gyre plot", "helix", "@config.json", "-o", "@written/out.svg"}},
    {cmd_plot, NULL, {"gyre plot", "shift", "-o", "@written/out.svg"}},
    {cmd_plot, NULL, {"gyre plot", "digits", "--tokens", "16", "-o", "@written/out.svg"}},
    {cmd_plot, NULL, {"gyre plot", "ramp", "@config.json", "-o", "@written/out.svg"}},
    {cmd_plot, NULL, {"gyre plot", "wavelengths", "@config.json", "--factor", "4", "-o", "@written/out.svg"}},
    {cmd_plot, NULL, {"gyre plot", "methods", "@config.json", "--points", "16", "-o", "@written/out.svg"}},
    {cmd_plot, NULL, {"gyre plot", "accuracy", "@config.json", "--points", "8", "-o", "@written/out.json"}},
    {cmd_search,
     "text",
     {"gyre search",
      "@model",
      "--text",
      "@text",
      "--to",
      "32",
      "--budget",
      "60",
      "--windows",
      "2",
      "--held-out",
      "2",
      "--report",
      "@written/out.html",
      "--write",
      "@written/found.json",
      "--even-if-worse",
      "--force",
      "--threads",
      "1"}},
    {cmd_search,
     "text",
     {"gyre search", "@model", "--text", "@text", "--to", "32", "--windows", "2", "--held-out", "2", "--temperature",
      "--threads", "1"}},
    {cmd_eval,
     "text",
     {"gyre eval", "@model", "--text", "@text", "--contexts", "8,16", "--methods", "none,yarn", "--windows", "2", "--report",
      "@written/out.html", "--threads", "1"}},
    {cmd_passkey,
     "text",
     {"gyre passkey", "@model", "--lengths", "320", "--trials", "1", "--match", "contains", "--report", "@written/out.html",
      "--threads", "1"}},
    {cmd_audit, "text", {"gyre audit", "@model", "--text", "@text", "-o", "@written/out", "--threads", "1"}},
    {cmd_audit, "model/generation_config.json", {"gyre audit", "@model", "-o", "@written/out", "--threads", "1"}},
    {cmd_audit, "spoilt/config.json", {"gyre audit", "@spoilt", "--json", "-o", "@written/out", "--threads", "1"}},
    {cmd_convert, NULL, {"gyre convert", "@spoilt", "-o", "@written/converted.gguf"}},
    {cmd_audit, "spoilt/model.safetensors", {"gyre audit", "@spoilt", "-o", "@written/out", "--threads", "1"}},
    {cmd_convert, NULL, {"gyre convert", "@spoilt", "-o", "@written/converted"}},
    {cmd_audit, "sharded/model.safetensors.index.json", {"gyre audit", "@sharded", "-o", "@written/out", "--threads", "1"}},
    {cmd_explain, NULL, {"gyre explain", "@sharded", "--check", "@text", "-o", "@written/out", "--threads", "1"}},
    {cmd_audit, "biased/config.json", {"gyre audit", "@biased", "-o", "@written/out", "--threads", "1"}},
    {cmd_diff, NULL, {"gyre diff", "@biased", "@model", "--json", "-o", "@written/out"}},
    {cmd_audit, "biased/model.safetensors", {"gyre audit", "@biased", "--json", "-o", "@written/out", "--threads", "1"}},
    {cmd_plot, NULL, {"gyre plot", "bias", "@biased", "--tokens", "8", "-o", "@written/out.csv"}},
    {cmd_audit, "config.json", {"gyre audit", "@config.json", "--as", "vllm", "--length", "64k", "-o", "@written/out"}},
    {cmd_diff,
     NULL,
     {"gyre diff", "@config.json", "--as", "reference", "--with", "hf-5", "--length", "64k", "-o", "@written/out"}},
    {cmd_shard,
     NULL,
     {"gyre shard", "@config.json", "--context", "100k", "--ranks", "4", "--tensor", "2", "--layout", "striped",
      "--gradient", "--memory", "80GB", "--dtype", "f16", "-o", "@written/out"}},
    {cmd_plot, "config.json", {"gyre plot", "accuracy", "@config.json", "--points", "8", "-o", "@written/out.svg"}},
    {cmd_plot,
     NULL,
     {"gyre plot", "clock", "@config.json", "--factor", "4", "--compare", "linear,yarn", "-o", "@written/out.svg"}},
    {cmd_search,
     "text",
     {"gyre search", "@model", "--text", "@text", "--to", "32", "--budget", "30", "--windows", "2", "--held-out", "2",
      "--pairs", "--start-tokens", "0,2", "--json", "--threads", "1"}},
    {cmd_search,
     "text",
     {"gyre search", "@model", "--text", "@text", "--to", "320", "--budget", "10", "--windows", "2", "--held-out", "2",
      "--needles", "2", "--threads", "1"}},
    {cmd_plot,
     "text",
     {"gyre plot", "attention", "@model", "--text", "@text", "--tokens", "8", "--layer", "0", "--head", "0", "-o",
      "@written/out.svg"}},
    {cmd_eval,
     "ids",
     {"gyre eval", "@model", "--ids", "@ids", "--contexts", "8,16", "--windows", "2", "--by-position", "4", "--json", "-o",
      "@written/out", "--threads", "1"}},
    {cmd_explain, "hub/hub/models--a--b/refs/main", {"gyre explain", "a/b", "-o", "@written/out"}},
    {cmd_generate, "model/tokenizer.json", {"gyre generate", "@model", "--prompt-file", "@text", "--tokens", "2"}},
    {cmd_eval, NULL, {"gyre eval", "@model", "--text", "@text", "--contexts", "8", "--windows", "1", "--threads", "1"}},
    {cmd_plot, "copying", {"gyre plot", "copying", "@copying", "-o", "@written/out.svg"}},
    {cmd_audit, "learned/config.json", {"gyre audit", "@learned", "--json", "-o", "@written/out", "--threads", "1"}},
    {cmd_extend, NULL, {"gyre extend", "@learned", "--to", "64", "-o", "@written/out"}},
    {cmd_audit, "learned/model.safetensors", {"gyre audit", "@learned", "-o", "@written/out", "--threads", "1"}},
    {cmd_plot, NULL, {"gyre plot", "table", "@learned", "--tokens", "8", "-o", "@written/out.svg"}},
    {cmd_train,
     "model/config.json",
     {"gyre train", "--from", "@model", "--text", "@text", "--context", "16", "--tokens", "32", "--batch", "1", "-o",
      "@written/trained", "--force", "--threads", "1"}},
    {cmd_eval, NULL, {"gyre eval", "@model", "--text", "@text", "--contexts", "8", "--windows", "1", "--threads", "1"}},
    {cmd_train,
     "model/model.safetensors",
     {"gyre train", "--from", "@model", "--drop-rope", "--text", "@text", "--context", "16", "--tokens", "32", "--batch",
      "1", "-o", "@written/trained", "--force", "--threads", "1"}},
    {cmd_generate, NULL, {"gyre generate", "@model", "--prompt-file", "@text", "--tokens", "2", "--threads", "1"}},
    {cmd_search,
     "worded/tokenizer.json",
     {"gyre search", "@worded", "--text", "@text", "--to", "128", "--budget", "10", "--windows", "2", "--held-out", "2",
      "--needles", "1", "--threads", "1"}},
};
enum { LINES = sizeof lines / sizeof *lines };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void make_model(const char *name, gyre_kind kind, int64_t layers, int64_t vocab) {
    gyre_model_config config = gyre_model_config_default();
    gyre_model *model = NULL;
    gyre_error err = {0, ""};
    config.vocab = vocab;
    config.model_dim = config.mlp_dim = 8;
    config.layers = layers;
    config.heads = config.kv_heads = 1;
    config.head_dim = 8;
    config.position.kind = kind;
    config.position.trained_length = 16;
    config.position.input.positions = kind == GYRE_KIND_LEARNED ? 16 : 0;
    config.position.score.buckets = kind == GYRE_KIND_T5 ? 8 : 0;
    config.position.score.max_distance = kind == GYRE_KIND_T5 ? 16 : 0;
    fuzz_require(!gyre_model_create(&model, &config, 1, &err), err.text);
    fuzz_require(!gyre_model_save(model, fuzz_path(name), GYRE_DTYPE_F32, &err), err.text);
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

/* -- files of models that inputs replace -- */
typedef struct original {
    const char *name;
    char *bytes;
    size_t size;
} original;
static original originals[] = {{.name = "spoilt/config.json"},  {.name = "spoilt/model.safetensors"},
                               {.name = "model/config.json"},   {.name = "model/model.safetensors"},
                               {.name = "biased/config.json"},  {.name = "biased/model.safetensors"},
                               {.name = "learned/config.json"}, {.name = "learned/model.safetensors"}};
enum { ORIGINALS = sizeof originals / sizeof *originals };

static void read_original(original *o) {
    struct stat info;
    FILE *file = fopen(fuzz_path(o->name), "rb");
    fuzz_require(file && fstat(fileno(file), &info) == 0, "a model that was saved can be read");
    o->size = (size_t)info.st_size;
    o->bytes = fuzz_room(o->size, 1);
    fuzz_require(fread(o->bytes, 1, o->size, file) == o->size, "a model that was saved can be read");
    fclose(file);
}

/* No input leaves a file that the next one reads. */
static void put_back(const char *name) {
    fuzz_remove("journal");
    fuzz_remove(name);
    for (int i = 0; i < ORIGINALS; i++)
        if (strcmp(originals[i].name, name) == 0) fuzz_write(name, originals[i].bytes, originals[i].size);
}

static void make_folder(const char *name) {
    fuzz_require(mkdir(fuzz_path(name), 0777) == 0, "a folder can be made");
}

static void make_models(void) {
    make_model("model", GYRE_KIND_ROPE, 1, 256);
    make_model("worded", GYRE_KIND_ROPE, 1, WORDED_VOCAB);
    make_model("spoilt", GYRE_KIND_ROPE, 2, SMALL_VOCAB);
    make_model("biased", GYRE_KIND_T5, 2, SMALL_VOCAB);
    make_model("learned", GYRE_KIND_LEARNED, 1, SMALL_VOCAB);
    for (int i = 0; i < ORIGINALS; i++)
        read_original(&originals[i]);
    make_folder("sharded");
    fuzz_write("sharded/config.json", originals[0].bytes, originals[0].size);
    fuzz_write("sharded/part.safetensors", originals[1].bytes, originals[1].size);
    make_llama2c();
}

static void make_files(void) {
    static const char *const folders[] = {"temporary",
                                          "written",
                                          "hub",
                                          "hub/hub",
                                          "hub/hub/models--a--b",
                                          "hub/hub/models--a--b/refs",
                                          "hub/hub/models--a--b/snapshots",
                                          "hub/hub/models--a--b/snapshots/c"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        make_folder(folders[i]);
    make_models();
    fuzz_write("hub/hub/models--a--b/snapshots/c/config.json", originals[0].bytes, originals[0].size);
    setenv("TMPDIR", fuzz_path("temporary"), 1);
    setenv("HF_HOME", fuzz_path("hub"), 1);
}

static int count_letters(void) {
    int count = 0;
    for (int i = 0; i < LINES; i++)
        count += lines[i].file != NULL;
    return count;
}

/* The command refuses to write over a file beside a model, so that the next line would end there. */
static void remove_outputs(const line *of) {
    static const char *const outputs[] = {"-o", "--report", "--write"};
    for (int i = 1; i < WORDS && of->words[i]; i++)
        for (size_t k = 0; k < sizeof outputs / sizeof *outputs; k++)
            if (strcmp(of->words[i - 1], outputs[k]) == 0) fuzz_remove(of->words[i] + 1);
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
    fuzz_require(status != CLI_USAGE, "words of this file are no usage error");
    remove_outputs(chosen);
}

/* out = the first line of the letter. */
static int line_of(uint8_t letter) {
    const int number = letter >= 'a' ? letter - 'a' : letter >= 'A' && letter <= 'Z' ? LETTERS + letter - 'A' : letter;
    for (int i = 0, left = number % count_letters(); i < LINES; i++)
        if (lines[i].file && left-- == 0) return i;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static char prose[PROSE];
    static int made;
    if (size == 0) return 0;
    if (!made) make_files();
    for (int i = 0; i < PROSE && !made; i++)
        prose[i] = (char)(i % 7 == 6 ? ' ' : 'a' + i * i % 26);
    made = 1;
    const int first = line_of(data[0]);
    fuzz_write("text", prose, sizeof prose);
    fuzz_write(lines[first].file, data + 1, size - 1);
    int at = first;
    do
        run_line(&lines[at]);
    while (++at < LINES && !lines[at].file);
    put_back(lines[first].file);
    return 0;
}
