/* fuzz_checkpoint.c: a folder of training in which one file holds any bytes.  A run that opens takes steps, and what it
 * saves opens again.
 *
 * The low three bits of the first byte select the file: '0' config.json, '1' model.safetensors, '2' optimizer.safetensors,
 * '3' training.json, '4' a checkpoint of llama2.c, '5' the tokenizer beside a whole one, '6' no file.  The next bits select
 * the run: '0' to '7' rotations on a text, '8' to '?' the next of `runs`, and so on. */
#include "files/file_read.h"
#include "fuzz_support.h"
#include "gyre/gyre_train.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILES = 4, CONTEXT = 16, IDS = 256, VOCAB = 40 };
static const char *const names[FILES] = {"run/config.json", "run/model.safetensors", "run/optimizer.safetensors",
                                         "run/training.json"};
/* What differs from run to run. */
static const struct {
    int64_t context; /* 0 = CONTEXT, and sequences without passkeys and copies, which need bytes and longer ones */
    int64_t parts;
    gyre_kind kind;
    gyre_task task;
} runs[] = {{.kind = GYRE_KIND_ROPE},
            {.kind = GYRE_KIND_LEARNED, .context = 160},
            {.kind = GYRE_KIND_KERPLE, .parts = GYRE_LAYER_PART_FORGET_GATES},
            {.kind = GYRE_KIND_FIRE, .task = GYRE_TASK_COPY},
            {.kind = GYRE_KIND_SHAW, .task = GYRE_TASK_POSGEN_SEMI},
            {.kind = GYRE_KIND_T5},
            {.kind = GYRE_KIND_DEBERTA},
            {.kind = GYRE_KIND_TRANSFORMER_XL},
            {.kind = GYRE_KIND_ROPE, .parts = GYRE_LAYER_PART_FOURIER},
            {.kind = GYRE_KIND_NOPE, .parts = GYRE_LAYER_PART_CONTEXTUAL}};
enum { RUNS = sizeof runs / sizeof *runs };
static char *bytes_of[RUNS][FILES];
static size_t size_of[RUNS][FILES];
static int32_t ids[IDS];
static gyre_text text;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void make_run(int run) {
    gyre_train_options options = GYRE_INIT(gyre_train_options);
    gyre_trainer *trainer = NULL;
    gyre_error err = {0, ""};
    for (int i = 0; i < IDS; i++)
        ids[i] = (i * 7 + i / 5) % 20;
    text = (gyre_text){.ids = ids, .count = IDS, .bytes = IDS, .files = 1};
    options.model.vocab = runs[run].context ? 256 : VOCAB;
    options.model.layers = 1;
    options.model.model_dim = 8;
    options.model.heads = options.model.kv_heads = 1;
    options.model.head_dim = 8;
    options.model.mlp_dim = 8;
    options.model.position.kind = runs[run].kind;
    options.model.layer_parts = runs[run].parts;
    options.context = runs[run].context ? runs[run].context : CONTEXT;
    options.task = runs[run].task;
    options.model.position.size = sizeof options.model.position;
    options.model.position.trained_length = options.model.position.input.positions = options.context;
    options.model.position.head_dim = 8;
    options.model.position.heads = 1;
    fuzz_require(gyre_config_suggest(&options.model.position) == GYRE_OK, "what papers choose");
    options.batch = 1;
    options.steps = 4;
    gyre_train_options_suggest(&options);
    if (!runs[run].context) options.retrieval_fraction = 0;
    fuzz_require(gyre_trainer_create(&trainer, &options, NULL, &text, NULL, &err) == GYRE_OK, err.text);
    fuzz_require(gyre_trainer_save(trainer, fuzz_path("run"), &err) == GYRE_OK, err.text);
    gyre_trainer_free(trainer);
    for (int i = 0; i < FILES; i++)
        fuzz_require(gyre_document_read(fuzz_path(names[i]), &bytes_of[run][i], &size_of[run][i], &err) == GYRE_OK,
                     err.text);
}

/* Measures what a task has taught, and writes the model alone. */
static void use(const gyre_trainer *trainer) {
    gyre_task_options task = GYRE_INIT(gyre_task_options);
    int64_t right[CONTEXT], asked[CONTEXT];
    gyre_error err = {0, ""};
    task.task = gyre_trainer_get_options(trainer)->task;
    task.length = CONTEXT;
    task.sequences = 2;
    if (task.task != GYRE_TASK_TEXT)
        fuzz_require_error(gyre_task_measure(gyre_trainer_get_model(trainer), NULL, &task, right, asked, NULL, &err), &err);
    fuzz_require_error(gyre_trainer_export(trainer, fuzz_path("exported"), GYRE_DTYPE_BF16, &err), &err);
}

static void train(const char *folder) {
    gyre_trainer *trainer = NULL, *again = NULL;
    gyre_error err = {0, ""};
    double loss;
    gyre_status status = gyre_trainer_open(&trainer, folder, &text, NULL, &err);
    fuzz_require_error(status, &err);
    fuzz_require((status == GYRE_OK) == (trainer != NULL), "a failure leaves no trainer");
    if (!trainer) return;
    status = gyre_trainer_step(trainer, &loss, &err);
    fuzz_require_error(status, &err);
    char saved[128];
    snprintf(saved, sizeof saved, "%s", fuzz_path("saved"));
    if (gyre_trainer_save(trainer, saved, &err) == GYRE_OK) {
        status = gyre_trainer_open(&again, saved, &text, NULL, &err);
        fuzz_require(status == GYRE_OK, err.text);
    }
    use(trainer);
    gyre_trainer_free(again);
    gyre_trainer_free(trainer);
}

static void read_model(const char *folder) {
    gyre_model *model = NULL;
    gyre_context *context = NULL;
    gyre_error err = {0, ""};
    const gyre_status status = gyre_model_open(&model, folder, &err);
    fuzz_require_error(status, &err);
    if (!model) return;
    const int64_t vocab = gyre_model_get_config(model)->vocab;
    gyre_context_options options = GYRE_INIT(gyre_context_options);
    options.max_tokens = 4;
    const int32_t some[3] = {0, (int32_t)(vocab - 1), (int32_t)(vocab / 2)};
    float *logits = vocab < 1 << 16 ? fuzz_room((size_t)vocab, sizeof *logits) : NULL;
    if (logits && gyre_context_create(&context, model, &options, &err) == GYRE_OK)
        fuzz_require_error(gyre_context_forward(context, some, 3, 1, logits, &err), &err);
    gyre_context_free(context);
    free(logits);
    gyre_model_free(model);
}

/* A checkpoint of llama2.c with 8 channels, one layer and head, 8 tokens and a length of 8, all weights 0. */
static void write_llama2c(void) {
    static const int32_t header[7] = {8, 8, 1, 1, 1, 8, 8};
    char bytes[28 + 600 * 4] = {0};
    memcpy(bytes, header, sizeof header);
    fuzz_write("llama2c/model.bin", bytes, sizeof bytes);
}

static void convert(int tokens, const uint8_t *bytes, size_t size) {
    gyre_error err = {0, ""};
    char from[128], to[128];
    snprintf(from, sizeof from, "%s", fuzz_path("llama2c"));
    snprintf(to, sizeof to, "%s", fuzz_path("converted"));
    mkdir(from, 0777);
    unlink(fuzz_path("llama2c/tok.bin"));
    if (tokens) write_llama2c();
    fuzz_write(tokens ? "llama2c/tok.bin" : "llama2c/model.bin", bytes, size);
    const gyre_status status = gyre_convert(from, to, NULL, &err);
    fuzz_require_error(status, &err);
    if (status == GYRE_OK) read_model(to);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) return 0;
    const int which = (data[0] - '0') & 7, run = (uint8_t)(data[0] - '0') / 8 % RUNS;
    if (which == 4 || which == 5) {
        convert(which == 5, data + 1, size - 1);
        return 0;
    }
    if (!bytes_of[run][0]) make_run(run);
    for (int i = 0; i < FILES; i++)
        fuzz_write(names[i], i == which ? (const void *)(data + 1) : bytes_of[run][i],
                   i == which ? size - 1 : size_of[run][i]);
    char folder[128];
    snprintf(folder, sizeof folder, "%s", fuzz_path("run"));
    train(folder);
    read_model(folder);
    return 0;
}
