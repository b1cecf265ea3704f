/* bench_model.c: gyre bench model: a llama of a hundred million parameters read from files: prefill against the arithmetic
 * peak, decoding against reading the same number of bytes, evaluation against the forward pass alone. */
#include "gyre/gyre_model.h"
#include "tools/bench/bench_roofline.h"
#include "tools/bench/bench_shapes.h"
#include "tools/cli/temporary_folder.h"
#include "tools/common/model_input.h"
#include "tools/options/value_names.h"
#include "util/checkpoint_files.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PREFILL = 512, PROMPT = 128, WINDOW = 512, MOST_THREADS = 1024 };
#define PREFILL_GOAL 0.70 /* of the arithmetic peak */
#define DECODE_GOAL  0.80 /* of reading memory */
#define EVAL_GOAL    0.85 /* of the forward pass alone */

static const gyre_dtype TYPES[] = {GYRE_DTYPE_F32, GYRE_DTYPE_BF16};
enum { TYPE_COUNT = sizeof TYPES / sizeof *TYPES };

/* -- shapes -- */
const bench_model_shape bench_shapes[BENCH_SHAPES] = {
    {"100m", 32000, 12, 768, 12, 4, 64, 2048, 10000},
    {"smollm2", 49152, 30, 576, 9, 3, 64, 1536, 100000},
    {"smollm2-360m", 49152, 32, 960, 15, 5, 64, 2560, 100000},
};

/* The shape of --shape, with the layers and the vocabulary that are asked for. */
static bench_model_shape chosen_shape(const bench_options *o) {
    const char *name = o->model.shape ? o->model.shape : bench_shapes[0].name;
    bench_model_shape shape = {.name = NULL};
    for (int i = 0; i < BENCH_SHAPES; i++)
        if (strcmp(bench_shapes[i].name, name) == 0) shape = bench_shapes[i];
    if (!shape.name) cli_usage_error("--shape: %s is none of " BENCH_SHAPE_NAMES, name);
    if (o->model.layers) shape.layers = o->model.layers;
    if (o->model.vocab) shape.vocab = o->model.vocab;
    return shape;
}

gyre_model_config bench_shape_config(const bench_model_shape *shape) {
    gyre_model_config config = GYRE_INIT(gyre_model_config);
    config.vocab = shape->vocab;
    config.layers = shape->layers;
    config.model_dim = shape->model_dim;
    config.heads = shape->heads;
    config.kv_heads = shape->kv_heads;
    config.head_dim = shape->head_dim;
    config.mlp_dim = shape->mlp_dim;
    config.position.kind = gyre_kind_find("rope");
    config.position.rope.dim = shape->head_dim;
    config.position.rope.base = shape->base;
    return config;
}

/* -- the models -- */
typedef struct model_files {
    temporary_folder folder;
    char path_by_type[TYPE_COUNT][2064];
} model_files;

static gyre_status make_folder(model_files *files, gyre_error *err) {
    const gyre_status status = temporary_folder_create(&files->folder, "bench", err);
    for (int t = 0; t < TYPE_COUNT; t++)
        snprintf(files->path_by_type[t], sizeof files->path_by_type[t], "%s/%s", files->folder.path, dtype_name(TYPES[t]));
    return status;
}

static gyre_status write_models(const bench_options *o, const model_files *files, gyre_error *err) {
    const bench_model_shape shape = chosen_shape(o);
    const gyre_model_config config = bench_shape_config(&shape);
    gyre_model *model;
    gyre_status status = gyre_model_create(&model, &config, 1, err);
    if (status) return status;
    for (int t = 0; t < TYPE_COUNT && !status && !cli_interrupted(); t++)
        status = gyre_model_save(model, files->path_by_type[t], TYPES[t], err);
    gyre_model_free(model);
    return status;
}

static void close_models(gyre_model *models[TYPE_COUNT]) {
    for (int t = 0; t < TYPE_COUNT; t++)
        gyre_model_free(models[t]);
}

/* Removes the files as soon as they are mapped, so that nothing stays behind however the program ends. */
static gyre_status open_models(const bench_options *o, gyre_model *models[TYPE_COUNT], gyre_error *err) {
    model_files files;
    gyre_status status = make_folder(&files, err);
    if (!status) status = write_models(o, &files, err);
    for (int t = 0; t < TYPE_COUNT && !status && !cli_interrupted(); t++)
        status = gyre_model_open(&models[t], files.path_by_type[t], NULL, err);
    temporary_folder_remove(&files.folder);
    return status;
}

/* -- what is measured -- */
typedef struct window {
    gyre_context *reader;
    gyre_status status; /* of the last read */
} window;

/* One model and one number of threads. */
typedef struct model_bench {
    const gyre_model *model;
    gyre_context *prefill, *decode;
    window *windows; /* [threads] */
    float *logits;   /* [threads][WINDOW][vocab] */
    int32_t *ids;    /* [threads * WINDOW + 1] */
    int64_t threads, vocab;
    gyre_products products;
    double logit_error; /* of rounded products: root mean square of the last logits of the prefill, of that of the logits */
} model_bench;

static gyre_status run_prefill(void *arg, const gyre_exec *exec) {
    model_bench *s = arg;
    (void)exec;
    gyre_context_reset(s->prefill);
    return gyre_context_forward(s->prefill, s->ids, PREFILL, 1, s->logits, NULL);
}

static gyre_status run_decode(void *arg, const gyre_exec *exec) {
    model_bench *s = arg;
    (void)exec;
    const gyre_status status = gyre_context_truncate(s->decode, PROMPT);
    return status ? status : gyre_context_forward(s->decode, s->ids + PROMPT, 1, 1, s->logits, NULL);
}

static gyre_status run_evaluation(void *arg, const gyre_exec *exec) {
    model_bench *s = arg;
    const gyre_text text = {.ids = s->ids, .count = s->threads * WINDOW + 1};
    gyre_eval_options options = GYRE_INIT(gyre_eval_options);
    gyre_eval_result result;
    options.context = WINDOW;
    options.protocol = GYRE_EVAL_PROTOCOL_TRUNCATE;
    options.products = s->products;
    return gyre_evaluate(s->model, &text, &options, &result, exec, NULL);
}

static void read_window(void *arg, int64_t i) {
    model_bench *s = arg;
    window *w = &s->windows[i];
    gyre_context_reset(w->reader);
    w->status = gyre_context_forward(w->reader, s->ids + i * WINDOW, WINDOW, WINDOW,
                                     s->logits + (size_t)(i * WINDOW * s->vocab), NULL);
}

/* Reads the windows of that evaluation without evaluating them. */
static gyre_status run_windows(void *arg, const gyre_exec *exec) {
    model_bench *s = arg;
    exec->run(exec->ctx, read_window, s, s->threads);
    for (int64_t i = 0; i < s->threads; i++)
        if (s->windows[i].status) return s->windows[i].status;
    return GYRE_OK;
}

static gyre_status open_context(gyre_context **out, const gyre_model *model, int64_t tokens, gyre_products products,
                                const gyre_exec *exec, gyre_error *err) {
    gyre_context_options options = GYRE_INIT(gyre_context_options);
    options.max_tokens = tokens;
    options.products = products;
    options.exec = exec;
    return gyre_context_create(out, model, &options, err);
}

/* Compares the prefill with that of products of floats. */
static gyre_status measure_logit_error(model_bench *s, const gyre_exec *exec, gyre_error *err) {
    float *rounded = s->logits, *exact = s->logits + s->vocab;
    gyre_context *floats = NULL;
    double error = 0, size = 0;
    gyre_status status = open_context(&floats, s->model, PREFILL, GYRE_PRODUCTS_F32, exec, err);
    if (!status) status = gyre_context_forward(floats, s->ids, PREFILL, 1, exact, err);
    if (!status) status = gyre_context_forward(s->prefill, s->ids, PREFILL, 1, rounded, err);
    gyre_context_free(floats);
    for (int64_t i = 0; i < s->vocab && !status; i++) {
        error += ((double)rounded[i] - (double)exact[i]) * ((double)rounded[i] - (double)exact[i]);
        size += (double)exact[i] * (double)exact[i];
    }
    s->logit_error = sqrt(error / size);
    return status;
}

static void model_bench_close(model_bench *s) {
    gyre_context_free(s->prefill);
    gyre_context_free(s->decode);
    for (int64_t i = 0; s->windows && i < s->threads; i++)
        gyre_context_free(s->windows[i].reader);
    free(s->windows);
    free(s->logits);
    free(s->ids);
}

/* On failure nothing is allocated. */
static gyre_status model_bench_open(model_bench *s, const gyre_model *model, gyre_products products, const gyre_exec *exec,
                                    gyre_error *err) {
    const int64_t threads = exec->concurrency > 0 ? exec->concurrency : 1, vocab = gyre_model_get_config(model)->vocab;
    const int64_t tokens = threads * WINDOW + 1;
    *s = (model_bench){.model = model, .threads = threads, .vocab = vocab, .products = products, .logit_error = NAN};
    s->windows = calloc((size_t)threads, sizeof *s->windows);
    s->ids = malloc((size_t)tokens * sizeof *s->ids);
    s->logits = bench_alloc_huge((size_t)(threads * WINDOW * vocab) * sizeof *s->logits);
    gyre_status status = s->windows && s->ids && s->logits
                             ? GYRE_OK
                             : gyre_fail(err, GYRE_ENOMEM, "logits: out of memory (gyre bench model)");
    for (int64_t i = 0; i < tokens && !status; i++)
        s->ids[i] = (int32_t)(i * 7919 % vocab);
    if (!status) status = open_context(&s->prefill, model, PREFILL, products, exec, err);
    if (!status) status = open_context(&s->decode, model, PROMPT + 1, products, exec, err);
    if (!status) status = gyre_context_forward(s->decode, s->ids, PROMPT, 1, s->logits, err);
    for (int64_t i = 0; i < threads && !status; i++)
        status = open_context(&s->windows[i].reader, model, WINDOW, products, NULL, err);
    if (!status && products != GYRE_PRODUCTS_F32) status = measure_logit_error(s, exec, err);
    if (status) model_bench_close(s);
    return status;
}

/* -- measuring -- */
/* out = floating-point operations of a prefill: every matrix but the output head for each token, the head for the last
 * token, and attention over the visible pairs. */
static double prefill_flops(const gyre_model_config *c, int64_t tokens) {
    const int64_t attention = (c->heads + c->kv_heads) * c->head_dim * 2;
    const double layer = (double)c->model_dim * (double)(attention + 3 * c->mlp_dim);
    const double pairs = (double)tokens * (double)(tokens + 1) / 2;
    return 2 * ((double)c->layers * layer * (double)tokens + (double)c->model_dim * (double)c->vocab) +
           4 * pairs * (double)(c->heads * c->head_dim * c->layers);
}

enum { RUN_PREFILL, RUN_DECODE, RUN_EVALUATION, RUN_WINDOWS, RUN_PEAK, RUN_READ, RUNS };

typedef struct model_row {
    const char *name, *type, *unit, *fraction_name; /* "prefill", "f32", "GFLOP/s", "of_peak" */
    int64_t threads, tokens;                        /* tokens: of a run */
    double ns, rate, limit, of_limit, goal;         /* of_limit: median over quiet rounds; goal: its minimum, 0 = none */
    double logit_error;                             /* NAN = not measured */
    bench_quiet quiet;
} model_row;

static const bench_column columns[] = {{"case", "case", -9, 0, 0},
                                       {"dtype", "type", -5, 0, 0},
                                       {"threads", "threads", 7, 0, 0},
                                       {"ns", "ms", 10, 2, 1e-6},
                                       {"tokens_per_s", "tokens/s", 10, 1, 0},
                                       {"rate", "rate", 9, 1, 0},
                                       {"limit", "limit", 9, 1, 0},
                                       {"unit", "in", -8, 0, 0},
                                       {"share", "share", -10, 0, 0},
                                       {"value", "", 5, 2, 0},
                                       {"logit_error", "error", 8, BENCH_EXPONENT, 0}};
enum { COLUMNS = sizeof columns / sizeof *columns };

static int print_row(const bench_options *o, const model_row *r) {
    char goal[80] = "";
    if (r->goal > 0) snprintf(goal, sizeof goal, "%.2f%s", r->goal, bench_goal_verdict(&r->quiet, r->of_limit >= r->goal));
    return bench_print_row(o,
                           JSON_OBJECT("bench", JSON("model"), "case", JSON(r->name), "dtype", JSON(r->type), "threads",
                                       JSON(r->threads), "rounds", JSON(r->quiet.rounds), "tokens", JSON(r->tokens), "ns",
                                       JSON(r->ns), "tokens_per_s", JSON((double)r->tokens / r->ns * 1e9), "unit",
                                       JSON(r->unit), "rate", JSON(r->rate), "limit", JSON(r->limit), "share",
                                       JSON(r->fraction_name), "value", JSON(r->of_limit), "products",
                                       JSON(o->model.products == GYRE_PRODUCTS_BF16 ? "bf16" : "f32"), "logit_error",
                                       JSON(r->logit_error), "goal", r->goal > 0 ? JSON(r->goal) : json_null()),
                           &r->quiet, columns, COLUMNS, goal);
}

/* Compares a run with its limit: the median over quiet rounds of the ratio of their rates. */
static int report(const bench_options *o, model_row row, const bench_series *run, const bench_series *limit,
                  const bench_rounds *rounds) {
    const bench_model_shape shape = chosen_shape(o);
    const int whole = shape.layers == bench_shapes[0].layers && shape.vocab == bench_shapes[0].vocab;
    row.quiet = bench_rounds_quiet(rounds);
    row.ns = 1e9 * bench_series_seconds(run, rounds);
    row.rate = 1e-9 * bench_series_rate(run, rounds);
    row.limit = 1e-9 * bench_series_rate(limit, rounds);
    row.of_limit = bench_series_ratio(limit, run, rounds) * run->amount / limit->amount;
    if (!whole) row.goal = 0;
    return print_row(o, &row);
}

static int report_all(const bench_options *o, const char *type, const bench_series s[RUNS], const model_bench *b,
                      const bench_rounds *rounds) {
    const int64_t threads = b->threads;
    const double error = b->logit_error;
    const model_row prefill = {"prefill",           type, "GFLOP/s", "of_peak", threads, PREFILL, .goal = PREFILL_GOAL,
                               .logit_error = error};
    const model_row decode = {"decode", type, "GB/s", "of_read", threads, 1, .goal = DECODE_GOAL, .logit_error = NAN};
    const model_row eval = {
        "eval", type, "tokens/s", "of_forward", threads, threads * WINDOW, .goal = EVAL_GOAL, .logit_error = NAN};
    int failed = report(o, prefill, &s[RUN_PREFILL], &s[RUN_PEAK], rounds);
    if (!failed) failed = report(o, decode, &s[RUN_DECODE], &s[RUN_READ], rounds);
    return failed ? failed : report(o, eval, &s[RUN_EVALUATION], &s[RUN_WINDOWS], rounds);
}

/* Shared by all measurements with the same number of threads. */
typedef struct model_limits {
    const gyre_exec *exec;
    float *memory; /* as many bytes as the weights of the larger model */
    cli_progress *progress;
} model_limits;

enum { PART = 1 << 20 }; /* of the progress: one type on one number of threads */

static int measure(const bench_options *o, const gyre_model *model, const char *type, model_limits *limits) {
    gyre_error err = {0, ""};
    model_bench s;
    static bench_series all[RUNS];
    bench_series *in_turn[RUNS];
    bench_memory_read reading = {limits->memory, model_source(model).weight_bytes};
    const gyre_exec *exec = limits->exec;
    const bench_part part = {limits->progress, PART};
    bench_rounds rounds = bench_rounds_begin(bench_this_core(), o->rounds);
    cli_progress_label(limits->progress, "%s", type);
    if (model_bench_open(&s, model, o->model.products, exec, &err)) return cli_fail_error(&err);
    const double flops = prefill_flops(gyre_model_get_config(model), PREFILL), tokens = (double)(s.threads * WINDOW);
    all[RUN_PREFILL] = (bench_series){.run = run_prefill, .arg = &s, .exec = exec, .amount = flops};
    all[RUN_DECODE] = (bench_series){.run = run_decode, .arg = &s, .exec = exec, .amount = (double)reading.bytes};
    all[RUN_EVALUATION] = (bench_series){.run = run_evaluation, .arg = &s, .exec = exec, .amount = 1e9 * tokens};
    all[RUN_WINDOWS] = (bench_series){.run = run_windows, .arg = &s, .exec = exec, .amount = 1e9 * tokens};
    all[RUN_PEAK] = (bench_series){.run = bench_run_fma, .exec = exec, .amount = bench_fma_flops(exec)};
    all[RUN_READ] =
        (bench_series){.run = bench_run_memory_read, .arg = &reading, .exec = exec, .amount = (double)reading.bytes};
    for (int i = 0; i < RUNS; i++)
        in_turn[i] = &all[i];
    const gyre_status status = bench_run_interleaved(in_turn, RUNS, 0, &rounds, &part);
    cli_progress_mark(limits->progress);
    cli_progress_erase();
    const int failed = status && cli_interrupted() ? CLI_FAILED
                       : status                    ? cli_fail("%s: %s (gyre bench model)", type, gyre_status_text(status))
                                                   : report_all(o, type, all, &s, &rounds);
    model_bench_close(&s);
    return failed;
}

static int measure_all(const bench_options *o, gyre_model *const models[TYPE_COUNT], const gyre_exec *exec,
                       cli_progress *progress) {
    model_limits limits = {.exec = exec, .progress = progress};
    int64_t bytes = 0;
    for (int t = 0; t < TYPE_COUNT; t++) {
        const int64_t weights = model_source(models[t]).weight_bytes;
        bytes = weights > bytes ? weights : bytes;
    }
    limits.memory = bench_alloc_huge((size_t)bytes);
    int failed = 0;
    if (limits.memory)
        memset(limits.memory, 0, (size_t)bytes);
    else
        failed = cli_fail("weights: out of memory (gyre bench model)");
    for (int t = 0; t < TYPE_COUNT && !failed; t++) {
        if (o->model.products == GYRE_PRODUCTS_BF16 && TYPES[t] != GYRE_DTYPE_BF16) continue;
        failed = cli_interrupted() ? CLI_FAILED : measure(o, models[t], dtype_name(TYPES[t]), &limits);
    }
    free(limits.memory);
    return failed;
}

/* -- the benchmark -- */
static void print_head(const gyre_model *model) {
    const gyre_model_config *c = gyre_model_get_config(model);
    cli_page_printf(
        cli_stdout(),
        "A llama of %.1fM parameters: %lld layer%s, width %lld, %lld heads on %lld of %lld, hidden %lld, a vocabulary of "
        "%lld, tied.\n",
        1e-6 * (double)gyre_model_parameters(model), (long long)c->layers, c->layers == 1 ? "" : "s",
        (long long)c->model_dim, (long long)c->heads, (long long)c->kv_heads, (long long)c->head_dim, (long long)c->mlp_dim,
        (long long)c->vocab);
    cli_page_printf(
        cli_stdout(),
        "prefill: %d tokens, of fused multiply-adds in registers; decode: one token after %d, of reading as many "
        "bytes as the weights have; eval: windows of %d, of reading them and no more. error: of the last logits under "
        "--products bf16, root mean square over that of the logits. Ratios: medians of the quiet rounds'.\n\n",
        PREFILL, PROMPT, WINDOW);
    bench_print_titles(columns, COLUMNS, "goal");
}

int bench_model(const bench_options *o) {
    if (o->model.shape) {
        const bench_model_shape shape = chosen_shape(o);
        return bench_shape_measure(o, &shape);
    }
    if (o->encodings.tokens) cli_usage_error("--tokens: gyre bench model needs --shape with it");
    gyre_model *models[TYPE_COUNT] = {NULL};
    gyre_error err = {0, ""};
    cli_progress progress;
    bench_execs execs = {.count = 0};
    cli_defer_signals_to_window();
    int failed = open_models(o, models, &err) ? cli_fail_error(&err) : cli_interrupted() ? CLI_FAILED : 0;
    if (!failed && !o->common.json) print_head(models[0]);
    if (!failed && bench_execs_open(&execs, o->common.threads, &err)) failed = cli_fail_error(&err);
    cli_progress_begin(&progress, "model", NULL, execs.count * TYPE_COUNT * (int64_t)PART);
    for (int i = 0; i < execs.count && !failed; i++)
        failed = measure_all(o, models, &execs.of[i], &progress);
    cli_progress_end(&progress);
    bench_execs_close(&execs);
    close_models(models);
    return failed;
}
