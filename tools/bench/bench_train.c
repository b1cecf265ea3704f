/* bench_train.c: gyre bench train: the speed of the trainer as a fraction of the arithmetic peak in the same run. */
#include "gyre/gyre_research.h"
#include "gyre/gyre_train.h"
#include "tools/bench/bench_roofline.h"
#include <stdlib.h>

/* PEAK_RUNS: some twenty milliseconds.  DRAWN: positions to draw from, in contexts, as many as in a lab. */
enum { STEPS = 4, PEAK_RUNS = 64, DRAWN = 16 };

static double peak_rate(const gyre_exec *exec) {
    const double started = cli_seconds();
    for (int i = 0; i < PEAK_RUNS; i++)
        (void)bench_run_fma(NULL, exec);
    return PEAK_RUNS * bench_fma_flops(exec) / (cli_seconds() - started);
}

/* tokens, operations: per second; ratio: median over the quiet rounds of tokens over operations. */
typedef struct train_rates {
    double tokens, operations, ratio;
    bench_quiet quiet;
} train_rates;

/* Alternates rounds of both, so that a slow moment of the machine affects both. */
static gyre_status measure(const bench_options *o, gyre_trainer *t, const gyre_exec *exec, train_rates *out,
                           gyre_error *err) {
    double tokens[BENCH_MAX_ROUNDS], peak[BENCH_MAX_ROUNDS], ratios[BENCH_MAX_ROUNDS], loss;
    gyre_status status = gyre_trainer_step(t, &loss, err);
    (void)peak_rate(exec);
    bench_rounds rounds = bench_rounds_begin(bench_this_core(), o->rounds);
    while (!status && bench_rounds_next(&rounds)) {
        const int64_t r = rounds.count;
        peak[r] = peak_rate(exec);
        const double started = cli_seconds();
        for (int i = 0; i < STEPS && !status; i++)
            status = gyre_trainer_step(t, &loss, err);
        tokens[r] = (double)(STEPS * o->train.batch * o->train.context) / (cli_seconds() - started);
        ratios[r] = tokens[r] / peak[r];
        bench_rounds_end(&rounds);
    }
    if (status) return status;
    *out = (train_rates){bench_rounds_median(&rounds, tokens), bench_rounds_median(&rounds, peak),
                         bench_rounds_median(&rounds, ratios), bench_rounds_quiet(&rounds)};
    return GYRE_OK;
}

static int print_train(const bench_options *o, const gyre_exec *exec, int64_t weights, double flops,
                       const train_rates *rates) {
    const double trained = rates->tokens * flops * 1e-9, limit = rates->operations * 1e-9, of_peak = rates->ratio * flops;
    const bench_quiet *quiet = &rates->quiet;
    char text[32];
    if (o->common.json)
        return cli_json_write(cli_stdout(),
                              json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:o, s:o}", "bench",
                                        "train", "encoding", o->train.encoding.name, "context", (json_int_t)o->train.context,
                                        "batch", (json_int_t)o->train.batch, "threads", (json_int_t)exec->concurrency,
                                        "parameters", (json_int_t)weights, "tokens_per_s", rates->tokens, "flops_per_token",
                                        flops, "gflops", trained, "peak_gflops", limit, "of_peak", of_peak, "quiet_rounds",
                                        quiet->quiet < 0 ? json_null() : JSON(quiet->quiet), "nops_per_cycle",
                                        JSON(quiet->nops)));
    fprintf(cli_stdout(), "train %s: %lld weights, context %lld, batch %lld, %lld threads, medians of quiet rounds (%s)\n",
            o->train.encoding.name, (long long)weights, (long long)o->train.context, (long long)o->train.batch,
            (long long)exec->concurrency, bench_quiet_text(quiet, text));
    fprintf(cli_stdout(),
            "  %.0f tokens/s x %.3f MFLOP/token (6 x weights + 12 x layers x channels x context) = %.1f GFLOP/s\n",
            rates->tokens, flops * 1e-6, trained);
    fprintf(cli_stdout(), "  fused multiply-adds in registers, on all threads: %.1f GFLOP/s\n", limit);
    fprintf(cli_stdout(), "  of peak: %.2f\n", of_peak);
    return 0;
}

/* Random printable bytes: the speed does not depend on the text. */
static gyre_text random_text(int32_t *ids, int64_t count) {
    uint64_t x = 1;
    for (int64_t i = 0; i < count; i++)
        ids[i] = 32 + (int32_t)(95 * bench_random(&x));
    return (gyre_text){.ids = ids, .count = count, .hash = 0, .files = 1};
}

static int train(const bench_options *o, const gyre_exec *exec) {
    gyre_train_options run = GYRE_INIT(gyre_train_options);
    gyre_train_options_suggest(&run);
    run.context = o->train.context;
    run.batch = o->train.batch;
    run.steps = o->rounds * STEPS + 1;
    const method_betas betas = {32, 1};
    gyre_config *position = &run.model.position;
    position->head_dim = run.model.head_dim;
    position->heads = run.model.heads;
    position->input.dim = run.model.model_dim;
    variant_model(&o->train.encoding, &run.model);
    if (variant_config(&o->train.encoding, o->train.context, o->train.context, &betas, position))
        return cli_fail("--encoding: %s cannot be set up for %lld tokens (gyre bench)", o->train.encoding.name,
                        (long long)o->train.context);
    run.positions = variant_draw(&o->train.encoding);
    run.position_range = DRAWN * o->train.context;
    draw_fit(&run, position);
    const int64_t count = 64 * (o->train.context + 1);
    int32_t *ids = cli_alloc(count, sizeof *ids);
    const gyre_text text = random_text(ids, count);
    gyre_error err = {0};
    gyre_trainer *t = NULL;
    train_rates rates = {0};
    int64_t weights = 0;
    double flops = 0;
    gyre_status status = gyre_trainer_create(&t, &run, NULL, &text, exec, &err);
    if (!status) {
        weights = gyre_model_parameters(gyre_trainer_get_model(t));
        flops = gyre_train_flops(gyre_model_get_config(gyre_trainer_get_model(t)), o->train.context);
        status = measure(o, t, exec, &rates, &err);
    }
    gyre_trainer_free(t);
    free(ids);
    return status ? cli_fail_error(&err) : print_train(o, exec, weights, flops, &rates);
}

int bench_train(const bench_options *options) {
    gyre_pool *pool = NULL;
    gyre_exec exec;
    if (cli_pool_open(&options->common, &pool, &exec)) return CLI_FAILED;
    const int status = train(options, &exec);
    gyre_pool_free(pool);
    return status;
}
