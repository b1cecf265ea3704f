/* cmd_bench.c: gyre bench: speed as a share of what the machine gives in the same run. */
#include "cli.h"
#include "gyre/gyre_train.h"
#include <cblas.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_CONTEXT = CLI_FIRST_KEY, KEY_BATCH, KEY_ROUNDS, KEY_ENCODING };
enum { SGEMM = 1024, STEPS = 4, MOST_ROUNDS = 99 };

typedef struct bench_options {
    cli_options common;
    const char *what;
    int64_t context, batch, rounds;
    gyre_kind kind;
} bench_options;

static const struct argp_option OPTIONS[] = {
    {"encoding", KEY_ENCODING, "KIND", 0, "nope, learned, sinusoidal, rope or alibi (default: rope)", 1},
    {"context", KEY_CONTEXT, "N", 0, "tokens of a sequence (default: 256)", 1},
    {"batch", KEY_BATCH, "N", 0, "sequences of a step (default: 8)", 1},
    {"rounds", KEY_ROUNDS, "N", 0, "rounds; medians are printed (default: 7)", 1},
    {0}};
static const char *const KINDS[] = {"nope", "learned", "sinusoidal", "rope", "alibi"};

static error_t parse(int key, char *arg, struct argp_state *state) {
    bench_options *o = state->input;
    switch (key) {
    case KEY_ENCODING:
        o->kind = (gyre_kind)cli_choice("--encoding", arg, KINDS, 5);
        return 0;
    case KEY_CONTEXT:
        o->context = cli_integer("--context", arg, 16, 1 << 16);
        return 0;
    case KEY_BATCH:
        o->batch = cli_integer("--batch", arg, 1, 1 << 12);
        return 0;
    case KEY_ROUNDS:
        o->rounds = cli_integer("--rounds", arg, 1, MOST_ROUNDS);
        return 0;
    case ARGP_KEY_ARG:
        if (o->what) cli_usage("%s: one benchmark at a time", arg);
        o->what = arg;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* One product for each thread at once, as the trainer runs them: what the machine gives, not what one core does. */
typedef struct sgemm_job {
    float *memory; /* [threads][3][SGEMM][SGEMM] */
} sgemm_job;

static void multiply(void *arg, int64_t index) {
    const sgemm_job *job = arg;
    const size_t size = (size_t)SGEMM * SGEMM;
    float *a = job->memory + (size_t)index * 3 * size, *b = a + size, *c = b + size;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, SGEMM, SGEMM, SGEMM, 1, a, SGEMM, b, SGEMM, 0, c, SGEMM);
}

static double sgemm_rate(const sgemm_job *job, const gyre_exec *exec) {
    const int64_t threads = exec->width ? exec->width : 1;
    const double begun = seconds();
    exec->run(exec->ctx, multiply, (void *)job, threads);
    return 2.0 * SGEMM * SGEMM * SGEMM * (double)threads / (seconds() - begun);
}

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
static double median(double *values, int64_t n) {
    qsort(values, (size_t)n, sizeof *values, ascending);
    return values[n / 2];
}

/* Rounds of both in turn, so that a slow moment of the machine meets both. */
static gyre_status measure(const bench_options *o, gyre_trainer *t, const gyre_exec *exec, double rates[2],
                           gyre_error *err) {
    const size_t floats = (size_t)(exec->width ? exec->width : 1) * 3 * SGEMM * SGEMM;
    double tokens[MOST_ROUNDS], sgemm[MOST_ROUNDS], loss;
    sgemm_job job = {malloc(floats * sizeof(float))};
    if (!job.memory) return cli_error(err, GYRE_ENOMEM, "sgemm: out of memory (gyre bench)");
    for (size_t i = 0; i < floats; i++)
        job.memory[i] = (float)(i % 17) * 0.1f;
    gyre_status status = gyre_trainer_step(t, &loss, err);
    (void)sgemm_rate(&job, exec);
    for (int64_t r = 0; r < o->rounds && !status; r++) {
        sgemm[r] = sgemm_rate(&job, exec);
        const double begun = seconds();
        for (int i = 0; i < STEPS && !status; i++)
            status = gyre_trainer_step(t, &loss, err);
        tokens[r] = (double)(STEPS * o->batch * o->context) / (seconds() - begun);
    }
    free(job.memory);
    if (status) return status;
    rates[0] = median(tokens, o->rounds);
    rates[1] = median(sgemm, o->rounds);
    return GYRE_OK;
}

static int print_train(const bench_options *o, const gyre_exec *exec, int64_t weights, double flops, const double rates[2]) {
    const double trained = rates[0] * flops * 1e-9, limit = rates[1] * 1e-9;
    if (o->common.json)
        return cli_json_write(stdout, json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:f}", "bench", "train",
                                                "encoding", KINDS[o->kind], "context", (json_int_t)o->context, "batch",
                                                (json_int_t)o->batch, "threads", (json_int_t)exec->width, "parameters",
                                                (json_int_t)weights, "tokens_per_s", rates[0], "flops_per_token", flops,
                                                "gflops", trained, "sgemm_gflops", limit, "of_sgemm", trained / limit));
    printf("train %s: %lld weights, context %lld, batch %lld, %lld threads, medians of %lld rounds\n", KINDS[o->kind],
           (long long)weights, (long long)o->context, (long long)o->batch, (long long)exec->width, (long long)o->rounds);
    printf("  %.0f tokens/s x %.3f MFLOP/token (6 x weights + 12 x layers x channels x context) = %.1f GFLOP/s\n", rates[0],
           flops * 1e-6, trained);
    printf("  sgemm %d x %d x %d, one for each thread at once: %.1f GFLOP/s\n", SGEMM, SGEMM, SGEMM, limit);
    printf("  ratio %.2f\n", trained / limit);
    return 0;
}

/* Random bytes do: speed does not depend on what is learnt. */
static gyre_text noise(int32_t *ids, int64_t count) {
    uint64_t x = 1;
    for (int64_t i = 0; i < count; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        ids[i] = (int32_t)(32 + (x >> 33) % 95);
    }
    return (gyre_text){ids, count, 0, 1};
}

static int bench_train(const bench_options *o, const gyre_exec *exec) {
    gyre_train_options run = GYRE_TRAIN_INIT;
    run.context = o->context;
    run.batch = o->batch;
    run.steps = o->rounds * STEPS + 1;
    run.model.position.kind = o->kind;
    run.model.position.trained_length = run.model.position.input.positions = o->context;
    const int64_t count = 64 * (o->context + 1);
    int32_t *ids = malloc((size_t)count * sizeof *ids);
    if (!ids) return cli_fail("text: out of memory (gyre bench)");
    const gyre_text text = noise(ids, count);
    gyre_error err = {0};
    gyre_trainer *t = NULL;
    double rates[2] = {0};
    int64_t weights = 0;
    double flops = 0;
    gyre_status status = gyre_trainer_create(&t, &run, NULL, &text, exec, &err);
    if (!status) {
        weights = gyre_model_parameters(gyre_trainer_model(t));
        flops = gyre_train_flops(gyre_model_config_of(gyre_trainer_model(t)), o->context);
        status = measure(o, t, exec, rates, &err);
    }
    gyre_trainer_free(t);
    free(ids);
    return status ? cli_fail_error(&err) : print_train(o, exec, weights, flops, rates);
}

static const char DOC[] =
    "Measure speed against the machine's own limit, in the same run."
    "\vBenchmarks: train (tokens and floating-point operations per second of the lab's trainer, against "
    "single-precision matrix products by OpenBLAS).  Nothing else should run meanwhile.\n\n"
    "Example:\n  gyre bench train --rounds 9\n";

int cmd_bench(int argc, char **argv) {
    static const struct argp ARGP = {OPTIONS, parse, "train", DOC, NULL, NULL, NULL};
    bench_options o = {.context = 256, .batch = 8, .rounds = 7, .kind = GYRE_ROPE};
    cli_parse(&ARGP, CLI_THREADS | CLI_JSON, argc, argv, &o.common);
    if (!o.what) cli_usage("benchmark: none named; known are: train");
    if (strcmp(o.what, "train") != 0) cli_usage("%s: no such benchmark; known are: train", o.what);
    gyre_pool *pool = NULL;
    gyre_exec exec;
    if (cli_pool_open(&o.common, &pool, &exec)) return CLI_FAILED;
    const int status = bench_train(&o, &exec);
    gyre_pool_free(pool);
    return status;
}
