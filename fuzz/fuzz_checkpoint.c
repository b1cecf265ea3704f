/* fuzz_checkpoint.c: a folder of training in which one file holds any bytes.  A run that opens takes steps, as a run that is
 * saved and opened in between does on two threads, and what it saves opens again.
 *
 * The low three bits of the first byte select the file: '0' config.json, '1' model.safetensors, '2' optimizer.safetensors,
 * '3' training.json, '4' a checkpoint of llama2.c, '5' the tokenizer beside a whole one, '6' no file.  With '7' none either:
 * the next byte chooses a run whose model another run starts from, and the ones after it a sequence.  The next bits select
 * the run: '0' to '7' rotations on a text, '8' to '?' the next of `runs`, and so on. */
#include "files/file_read.h"
#include "files/tensors/tensor_store.h"
#include "fuzz_bytes.h"
#include "fuzz_support.h"
#include "gyre/gyre_research.h"
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
    gyre_scaling scaling;
    int64_t form, shared, rotates, vectors; /* of gyre_model_config; vectors: heads, 0 = 1 */
} runs[] = {{.kind = GYRE_KIND_ROPE},
            {.kind = GYRE_KIND_LEARNED, .context = 160},
            {.kind = GYRE_KIND_KERPLE, .parts = GYRE_LAYER_PART_FORGET_GATES},
            {.kind = GYRE_KIND_FIRE, .task = GYRE_TASK_COPY},
            {.kind = GYRE_KIND_SHAW, .task = GYRE_TASK_POSGEN_SEMI},
            {.kind = GYRE_KIND_T5},
            {.kind = GYRE_KIND_DEBERTA},
            {.kind = GYRE_KIND_TRANSFORMER_XL},
            {.kind = GYRE_KIND_ROPE, .parts = GYRE_LAYER_PART_FOURIER},
            {.kind = GYRE_KIND_NOPE, .parts = GYRE_LAYER_PART_CONTEXTUAL},
            {.kind = GYRE_KIND_ALIBI, .parts = GYRE_LAYER_PART_ADAPTIVE, .vectors = 2},
            {.kind = GYRE_KIND_KERPLE, .parts = GYRE_LAYER_PART_ADAPTIVE | GYRE_LAYER_PART_ADAPTIVE_CONCAT, .vectors = 2},
            {.kind = GYRE_KIND_FIRE, .parts = GYRE_LAYER_PART_ADAPTIVE | GYRE_LAYER_PART_ADAPTIVE_ADD},
            {.kind = GYRE_KIND_T5, .parts = GYRE_LAYER_PART_ADAPTIVE, .shared = 1, .vectors = 2},
            {.kind = GYRE_KIND_ROPE, .parts = GYRE_LAYER_PART_POLAR},
            {.kind = GYRE_KIND_ROPE, .parts = GYRE_LAYER_PART_FREQUENCIES, .vectors = 2},
            {.kind = GYRE_KIND_ROPE, .parts = GYRE_LAYER_PART_HEAD_MATRICES, .vectors = 2},
            {.kind = GYRE_KIND_ROPE, .rotates = 1, .scaling = GYRE_SCALING_YARN},
            {.kind = GYRE_KIND_SINUSOIDAL, .form = GYRE_POSITION_FORM_PRODUCT},
            {.kind = GYRE_KIND_SINUSOIDAL, .form = GYRE_POSITION_FORM_CONCATENATED},
            {.kind = GYRE_KIND_ROPE, .scaling = GYRE_SCALING_LLAMA3},
            {.kind = GYRE_KIND_ROPE, .scaling = GYRE_SCALING_LONGROPE},
            {.kind = GYRE_KIND_SANDWICH, .parts = GYRE_LAYER_PART_ADAPTIVE},
            {.kind = GYRE_KIND_TAPA},
            {.kind = GYRE_KIND_BERT},
            {.kind = GYRE_KIND_NEZHA}};
enum { RUNS = sizeof runs / sizeof *runs };
static char *bytes_of[RUNS][FILES];
static size_t size_of[RUNS][FILES];
static int32_t ids[IDS];
static gyre_text text;
static gyre_pool *pool;
static const double factors[] = {1, 1.25, 1.5, 2, 2.5, 3, 3.5, 4}; /* of LongRoPE, more than a head has pairs */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* *options = those of a run, without what papers choose of its recipe. */
static void describe_run(int run, gyre_train_options *options) {
    gyre_model_config *c = &options->model;
    *options = (gyre_train_options)GYRE_INIT(gyre_train_options);
    c->vocab = runs[run].context ? 256 : VOCAB;
    c->layers = 1;
    c->model_dim = 8;
    c->heads = c->kv_heads = runs[run].vectors ? runs[run].vectors : 1;
    c->head_dim = 8;
    c->mlp_dim = 8;
    c->layer_parts = runs[run].parts;
    c->position_form = runs[run].form;
    c->shared_tables = runs[run].shared;
    c->rotates_input = runs[run].rotates;
    options->context = runs[run].context ? runs[run].context : CONTEXT;
    options->task = runs[run].task;
    options->batch = 2;
    options->steps = 4;
    c->position.size = sizeof c->position;
    c->position.kind = runs[run].kind;
    c->position.trained_length = c->position.input.positions = options->context;
    c->position.head_dim = runs[run].parts & GYRE_LAYER_PART_POLAR ? 16 : 8;
    c->position.heads = c->heads;
    fuzz_require(!gyre_config_suggest(&c->position), "what papers choose");
    c->position.rope.scaling = runs[run].scaling;
    if (runs[run].scaling != GYRE_SCALING_NONE) c->position.rope.factor = 4;
    if (runs[run].scaling == GYRE_SCALING_LLAMA3) c->position.rope.low_freq = 1, c->position.rope.high_freq = 4;
    if (runs[run].scaling == GYRE_SCALING_LONGROPE) c->position.rope.short_factor = c->position.rope.long_factor = factors;
}

/* *trainer = a run at step 0, which begins with the weights of a model or with random ones. */
static gyre_status create_run(gyre_trainer **trainer, int run, const gyre_model *start, gyre_error *err) {
    gyre_train_options options;
    describe_run(run, &options);
    gyre_train_options_suggest(&options);
    if (!runs[run].context) options.retrieval_fraction = 0;
    return gyre_trainer_create(trainer, &options, start, &text, NULL, err);
}

static void make_run(int run) {
    gyre_trainer *trainer = NULL;
    gyre_error err = {0, ""};
    for (int i = 0; i < IDS; i++)
        ids[i] = (i * 7 + i / 5) % 20;
    text = (gyre_text){.ids = ids, .count = IDS, .bytes = IDS, .files = 1};
    fuzz_require(!create_run(&trainer, run, NULL, &err), err.text);
    fuzz_require(!gyre_trainer_save(trainer, fuzz_path("run"), &err), err.text);
    gyre_trainer_free(trainer);
    for (int i = 0; i < FILES; i++)
        fuzz_require(!gyre_document_read(fuzz_path(names[i]), &bytes_of[run][i], &size_of[run][i], &err), err.text);
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
        fuzz_require_error(gyre_task_measure(gyre_trainer_get_model(trainer), &task, right, asked, NULL, &err), &err);
    fuzz_require_error(gyre_trainer_export(trainer, fuzz_path("exported"), GYRE_DTYPE_BF16, &err), &err);
}

static int same_file(const char *one, const char *other) {
    char *bytes[2];
    size_t size[2];
    gyre_error err = {0, ""};
    fuzz_require(!gyre_document_read(fuzz_path(one), &bytes[0], &size[0], &err), err.text);
    fuzz_require(!gyre_document_read(fuzz_path(other), &bytes[1], &size[1], &err), err.text);
    const int same = size[0] == size[1] && memcmp(bytes[0], bytes[1], size[0]) == 0;
    free(bytes[0]);
    free(bytes[1]);
    return same;
}

/* The phases of keys in -2 pi .. 0. */
static void check_phases(const char *folder) {
    gyre_tensor_store *store = NULL;
    gyre_file_tensor phases;
    gyre_error err = {0, ""};
    fuzz_require(!gyre_tensor_store_open(&store, folder, &err), err.text);
    if (gyre_tensor_store_find(store, "model.layers.0.self_attn.key_phases.weight", &phases))
        for (int64_t i = 0; i < phases.count; i++) {
            float x;
            memcpy(&x, phases.data + 4 * i, sizeof x);
            fuzz_require(x <= 0 && x >= -6.2831855F, "phases stay in their bounds");
        }
    gyre_tensor_store_free(store);
}

/* A run that goes on, and one that is opened again and goes on with two threads, do the same to the last bit. */
static void go_on(gyre_trainer *trainer, gyre_trainer *again) {
    double one = 0, other = 0;
    gyre_error err = {0, ""};
    const gyre_status status = gyre_trainer_step(trainer, &one, &err);
    fuzz_require(gyre_trainer_step(again, &other, &err) == status, "both runs go on, or none does");
    if (status) return;
    fuzz_require(memcmp(&one, &other, sizeof one) == 0, "a run that was stopped has the losses of one that was not");
    fuzz_require(gyre_trainer_steps(trainer) == gyre_trainer_steps(again), "steps");
    fuzz_require(!gyre_trainer_save(trainer, fuzz_path("one"), &err), err.text);
    fuzz_require(!gyre_trainer_save(again, fuzz_path("other"), &err), err.text);
    fuzz_require(same_file("one/model.safetensors", "other/model.safetensors") &&
                     same_file("one/optimizer.safetensors", "other/optimizer.safetensors") &&
                     same_file("one/config.json", "other/config.json"),
                 "and its weights, on any number of threads");
    check_phases(fuzz_path("one"));
}

static void train(const char *folder) {
    gyre_trainer *trainer = NULL, *again = NULL;
    gyre_error err = {0, ""};
    double loss;
    gyre_status status = gyre_trainer_open(&trainer, folder, &text, NULL, &err);
    fuzz_require_error(status, &err);
    fuzz_require((!status) == (trainer != NULL), "a failure leaves no trainer");
    if (!trainer) return;
    if (!pool) fuzz_require(!gyre_pool_create(&pool, 2, NULL), "a pool");
    const gyre_exec exec = gyre_pool_exec(pool);
    status = gyre_trainer_step(trainer, &loss, &err);
    fuzz_require_error(status, &err);
    char saved[128];
    snprintf(saved, sizeof saved, "%s", fuzz_path("saved"));
    if (!gyre_trainer_save(trainer, saved, &err)) {
        status = gyre_trainer_open(&again, saved, &text, &exec, &err);
        fuzz_require(!status, err.text);
        go_on(trainer, again);
    }
    use(trainer);
    gyre_trainer_free(again);
    gyre_trainer_free(trainer);
}

/* -- starts and sequences -- */
/* out = 1 if two folders hold tensors of the same names and shapes. */
static int same_tensors(const char *one, const char *other) {
    gyre_tensor_store *a = NULL, *b = NULL;
    gyre_error err = {0, ""};
    fuzz_require(!gyre_tensor_store_open(&a, one, &err), err.text);
    fuzz_require(!gyre_tensor_store_open(&b, other, &err), err.text);
    int same = gyre_tensor_store_count(a) == gyre_tensor_store_count(b);
    for (int64_t i = 0; i < gyre_tensor_store_count(a) && same; i++) {
        const gyre_file_tensor x = gyre_tensor_store_at(a, i), y = gyre_tensor_store_at(b, i);
        same = strcmp(x.name, y.name) == 0 && memcmp(x.shape, y.shape, sizeof x.shape) == 0;
    }
    gyre_tensor_store_free(a);
    gyre_tensor_store_free(b);
    return same;
}

static void write_run(int run, const char *name) {
    if (!bytes_of[run][0]) make_run(run);
    mkdir(fuzz_path(name), 0777);
    for (int i = 0; i < FILES; i++) {
        char path[64];
        snprintf(path, sizeof path, "%s%s", name, names[i] + strlen("run"));
        fuzz_write(path, bytes_of[run][i], size_of[run][i]);
    }
}

/* A run begins with the model of another if and only if their tensors have the same names and shapes. */
static void start(int run, int from) {
    gyre_model *model = NULL, *mapped = NULL;
    gyre_trainer *trainer = NULL;
    gyre_error err = {0, ""};
    char source[128], own[128];
    write_run(from, "source");
    write_run(run, "own");
    snprintf(source, sizeof source, "%s", fuzz_path("source"));
    snprintf(own, sizeof own, "%s", fuzz_path("own"));
    fuzz_require(!gyre_model_open_to_train(&model, source, &err), err.text);
    fuzz_require(!gyre_model_open(&mapped, source, NULL, &err), err.text);
    fuzz_require(create_run(&trainer, run, mapped, &err) == GYRE_EUNSUPPORTED, "a model that is read trains nothing");
    const gyre_status status = create_run(&trainer, run, model, &err);
    fuzz_require_error(status, &err);
    fuzz_require(status == (same_tensors(source, own) ? GYRE_OK : GYRE_EINVAL), "a start has the tensors of the run");
    if (trainer) {
        fuzz_require(!gyre_trainer_save(trainer, own, &err), err.text);
        fuzz_require(same_file("own/model.safetensors", "source/model.safetensors"), "and gives its weights");
    }
    gyre_trainer_free(trainer);
    gyre_model_free(mapped);
    gyre_model_free(model);
}

/* What weighs 3 stood before. */
static void draw(int run, fuzz_bytes *b) {
    gyre_train_options options;
    describe_run(run, &options);
    gyre_train_options_suggest(&options);
    options.seed = fuzz_byte(b);
    options.retrieval_fraction = fuzz_choice(b, 5) / 4.0;
    const int64_t length = fuzz_between(b, runs[run].task ? 2 * GYRE_TASK_COPY_SPAN + 1 : 1, 200), step = fuzz_byte(b),
                  index = fuzz_byte(b);
    int32_t *out = malloc((size_t)length * sizeof *out), *twice = malloc((size_t)length * sizeof *twice);
    float *weights = malloc((size_t)length * sizeof *weights);
    fuzz_require(out && twice && weights, "memory for the target itself");
    gyre_train_sequence(&text, &options, (gyre_train_place){step, index}, length, out, weights);
    gyre_train_sequence(&text, &options, (gyre_train_place){step, index}, length, twice, weights);
    fuzz_require(memcmp(out, twice, (size_t)length * sizeof *out) == 0, "the same sequence again");
    for (int64_t i = 0; i < length; i++) {
        int64_t before = 0;
        while (before < i && out[before] != out[i])
            before++;
        fuzz_require(out[i] >= 0 && out[i] < 256, "ids are bytes, or symbols of a task");
        fuzz_require(weights[i] == 0 || weights[i] == 1 || (weights[i] == 3 && before < i), "a weight of 0, 1, or 3");
    }
    free(out);
    free(twice);
    free(weights);
}

static void read_model(const char *folder) {
    gyre_model *model = NULL;
    gyre_context *context = NULL;
    gyre_error err = {0, ""};
    const gyre_status status = gyre_model_open(&model, folder, NULL, &err);
    fuzz_require_error(status, &err);
    if (!model) return;
    const int64_t vocab = gyre_model_get_config(model)->vocab;
    gyre_context_options options = GYRE_INIT(gyre_context_options);
    options.max_tokens = 4;
    const int32_t some[3] = {0, (int32_t)(vocab - 1), (int32_t)(vocab / 2)};
    float *logits = vocab < 1 << 16 ? fuzz_room((size_t)vocab, sizeof *logits) : NULL;
    if (logits && !gyre_context_create(&context, model, &options, &err))
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
    if (!status) read_model(to);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) return 0;
    const int which = (data[0] - '0') & 7, run = (uint8_t)(data[0] - '0') / 8 % RUNS;
    if (which == 4 || which == 5) {
        convert(which == 5, data + 1, size - 1);
        return 0;
    }
    if (!bytes_of[run][0]) make_run(run);
    if (which == 7) {
        fuzz_bytes rest = {data + 1, size - 1};
        start(run, fuzz_choice(&rest, RUNS));
        draw(run, &rest);
        return 0;
    }
    for (int i = 0; i < FILES; i++)
        fuzz_write(names[i], i == which ? (const void *)(data + 1) : bytes_of[run][i],
                   i == which ? size - 1 : size_of[run][i]);
    char folder[128];
    snprintf(folder, sizeof folder, "%s", fuzz_path("run"));
    train(folder);
    read_model(folder);
    return 0;
}
