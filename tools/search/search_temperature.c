/* search_temperature.c: gyre search --temperature: YaRN divides scores by a temperature t, and its authors fitted
 * sqrt(1/t) = 0.1 ln s + 1 on Llama models.  This fits the same number, the attention factor, on the model at hand. */
#include "tools/cli/plain_stream.h"
#include "tools/common/model_path.h"
#include "tools/search/search.h"
#include "util/random.h"
#include <math.h>
#include <stdlib.h>

/* Attention factors LEAST, LEAST + STEP, ...  With the square on scores they go from 0.49 to 2.9 times. */
enum { POINTS = 21, HELD = 3, FIT_RESAMPLES = 2000 };
static const double LEAST = 0.7, STEP = 0.05;

typedef struct temperature_fit {
    double factor, formula; /* s; 0.1 ln s + 1 */
    double *nats;           /* [POINTS][windows searched on] */
    double mean[POINTS];    /* over them */
    double best, low, high; /* attention factor of the lowest curve; 95 % of a bootstrap over windows */
    int at_end;             /* 1: the curve is still falling at one end of the range */
    double held[HELD];      /* mean nats on the held-out windows: at 1, at the formula, at the best */
    search_interval gain;   /* of the best over the formula, on the held-out windows */
    search_rescale rescale; /* of YaRN */
} temperature_fit;

static double factor_at(int point) {
    return LEAST + STEP * point;
}

/* out = the attention factor where the curve is lowest: the vertex of the parabola through the lowest point and its
 * neighbours.  At an end of the range: the end. */
static double lowest(const double mean[POINTS]) {
    int at = 0;
    for (int p = 1; p < POINTS; p++)
        if (mean[p] < mean[at]) at = p;
    if (at == 0 || at == POINTS - 1) return factor_at(at);
    const double left = mean[at - 1] - mean[at], right = mean[at + 1] - mean[at];
    return left + right > 0 ? factor_at(at) + STEP * (left - right) / (2 * (left + right)) : factor_at(at);
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Repeats the fit on windows drawn with replacement.  All factors take the same windows. */
static void find_interval(const search_work *w, temperature_fit *f) {
    const int64_t windows = w->windows.searched_count;
    double best[FIT_RESAMPLES];
    uint64_t random = w->options->seed;
    for (int r = 0; r < FIT_RESAMPLES; r++) {
        double mean[POINTS] = {0};
        for (int64_t i = 0; i < windows; i++) {
            const int64_t drawn = gyre_random_below(&random, windows);
            for (int p = 0; p < POINTS; p++)
                mean[p] += f->nats[p * windows + drawn];
        }
        best[r] = lowest(mean);
    }
    qsort(best, FIT_RESAMPLES, sizeof *best, by_value);
    f->low = best[FIT_RESAMPLES / 40];
    f->high = best[FIT_RESAMPLES - 1 - FIT_RESAMPLES / 40];
}

/* nats[count] = losses under YaRN's frequencies with this attention factor. */
static gyre_status measure_factor(search_work *w, const temperature_fit *f, const char *part, double attention, double *nats,
                                  gyre_error *err) {
    const int held_out = part[0] == 'h';
    search_rescale rescale = f->rescale;
    rescale.attention = attention;
    const search_evaluation r = {
        part, "yarn", &rescale, w->space.pairs, -1, 0, held_out ? w->windows.held_out_count : w->windows.searched_count};
    cli_progress_label(&w->progress, "attention factor %.3f", attention);
    return search_evaluate_windows(w, &r, held_out ? w->windows.held_out : w->windows.searched, nats, err);
}

static gyre_status measure_curve(search_work *w, temperature_fit *f, gyre_error *err) {
    const int64_t windows = w->windows.searched_count;
    gyre_status status = GYRE_OK;
    for (int p = 0; p < POINTS && !status; p++) {
        double *nats = f->nats + p * windows;
        status = measure_factor(w, f, "search", factor_at(p), nats, err);
        for (int64_t i = 0; i < windows; i++)
            f->mean[p] += nats[i] / (double)windows;
    }
    f->best = lowest(f->mean);
    f->at_end = f->best == factor_at(0) || f->best == factor_at(POINTS - 1);
    if (!status) find_interval(w, f);
    return status;
}

static gyre_status judge(search_work *w, temperature_fit *f, gyre_error *err) {
    const int64_t windows = w->windows.held_out_count;
    const double factors[HELD] = {1, f->formula, f->best};
    double *nats = cli_alloc(HELD * windows, sizeof *nats);
    gyre_status status = GYRE_OK;
    for (int i = 0; i < HELD && !status; i++) {
        status = measure_factor(w, f, "held-out", factors[i], nats + i * windows, err);
        for (int64_t j = 0; j < windows && !status; j++)
            f->held[i] += nats[i * windows + j] / (double)windows;
    }
    if (!status) status = search_gain(nats + windows, nats + 2 * windows, windows, w->options->seed, &f->gain, err);
    free(nats);
    return status;
}

static gyre_status take_yarn(search_work *w, temperature_fit *f, gyre_error *err) {
    const int64_t to = w->options->stretch.to;
    search_rotation rotation;
    method yarn;
    w->space = search_space_of(w->base.rope.dim / 2, w->trained, to, 0);
    for (int64_t i = 0; i < SEARCH_PAIRS; i++)
        w->ones[i] = 1;
    f->factor = (double)to / (double)w->trained;
    f->formula = 0.1 * log(f->factor) + 1;
    gyre_status status = method_parse("yarn", &yarn, err);
    if (!status) status = search_rotation_init(&rotation, &w->base, w->trained, to, err);
    return status ? status : search_rescale_from_method(&w->space, &rotation, &yarn, NULL, &f->rescale, err);
}

static gyre_status fit(search_work *w, temperature_fit *f, gyre_error *err) {
    const search_windows *s = &w->windows;
    json_t *header = search_identity(w);
    gyre_status status = header ? GYRE_OK : gyre_fail(err, GYRE_ENOMEM, "journal: out of memory (search)");
    f->nats = cli_alloc(POINTS * s->searched_count, sizeof *f->nats);
    if (!status) status = take_yarn(w, f, err);
    if (!status) status = search_journal_open(&w->journal, w->options->run.journal, header, w->options->common.force, err);
    cli_defer_signals(); /* from here on, a stopped fit leaves a journal */
    cli_progress_begin(&w->progress, "temperature", "tokens",
                       (POINTS * s->searched_count + HELD * s->held_out_count) * s->context);
    if (!status) status = measure_curve(w, f, err);
    if (!status) status = judge(w, f, err);
    if (!status) status = search_journal_finish(w->journal, err);
    cli_progress_end(&w->progress);
    search_journal_close(w->journal);
    json_decref(header);
    return status;
}

/* -- the result -- */

static json_t *json_of_curve(const temperature_fit *f) {
    json_t *curve = json_array();
    for (int p = 0; p < POINTS; p++)
        (void)json_array_append_new(
            curve, JSON_OBJECT("attention_factor", JSON(factor_at(p)), "perplexity", JSON(exp(f->mean[p]))));
    return curve;
}

static const char *temperature_of(result_table *t, const json_t *factor) {
    return result_text(t, "%.3f", 1 / (json_number_value(factor) * json_number_value(factor)));
}

static int print_text(const search_work *w, const temperature_fit *f, FILE *file) {
    static const result_field fields[] = {
        {"attention_factor", {.title = "sqrt(1/t)", .decimals = 3}, NULL},
        {"attention_factor", {.title = "t", .decimals = 3, .align = GYRE_REPORT_ALIGN_RIGHT}, temperature_of},
        {"perplexity", {.title = "perplexity", .decimals = 4, .emphasis = GYRE_REPORT_EMPHASIS_LOWEST}, NULL}};
    cli_page_printf(file, "model     %s, trained on %lld tokens, read at %lld: s = %.4g\n",
                    plain_line(model_path_as_given(w->options->model.path)), (long long)w->trained,
                    (long long)w->windows.context, f->factor);
    cli_page_printf(file, "windows   of %lld tokens, the last %lld predictions scored; %lld to fit, %lld held out\n\n",
                    (long long)w->windows.context, (long long)w->windows.stride, (long long)w->windows.searched_count,
                    (long long)w->windows.held_out_count);
    const int status = result_table_show(result_table_of(json_of_curve(f), fields, sizeof fields / sizeof *fields), file);
    if (status) return status;
    cli_page_printf(file, "\nfitted    sqrt(1/t) = %.3f (%.3f to %.3f), t = %.3f%s\n", f->best, f->low, f->high,
                    1 / (f->best * f->best), f->at_end ? "; the end of the range, the lowest point may lie past it" : "");
    cli_page_printf(file, "YaRN      sqrt(1/t) = 0.1 ln s + 1 = %.3f, t = %.3f; %s the interval\n", f->formula,
                    1 / (f->formula * f->formula), f->low <= f->formula && f->formula <= f->high ? "in" : "outside");
    cli_page_printf(
        file,
        "held out  perplexity %.4f at 1, %.4f at YaRN's, %.4f at the fitted; the fitted changes YaRN's by %+.2f %% "
        "(%+.2f to %+.2f)\n",
        exp(f->held[0]), exp(f->held[1]), exp(f->held[2]), 100 * expm1(-f->gain.mean), 100 * expm1(-f->gain.high),
        100 * expm1(-f->gain.low));
    run_card_print(&w->card, file);
    return 0;
}

static int print_json(const search_work *w, const temperature_fit *f, FILE *file) {
    json_t *held =
        JSON_OBJECT("at_1", JSON(exp(f->held[0])), "at_formula", JSON(exp(f->held[1])), "at_fitted", JSON(exp(f->held[2])));
    (void)json_object_update_new(held, search_json_of_gain(&f->gain));
    return cli_json_write(file,
                          JSON_OBJECT("card", run_card_json(&w->card), "trained_length", JSON(w->trained), "to",
                                      JSON(w->windows.context), "stride", JSON(w->windows.stride), "windows",
                                      JSON(w->windows.searched_count), "held_out_windows", JSON(w->windows.held_out_count),
                                      "factor", JSON(f->factor), "formula", JSON(f->formula), "attention_factor",
                                      JSON(f->best), "attention_factor_interval", json_pack("[f, f]", f->low, f->high),
                                      "temperature", JSON(1 / (f->best * f->best)), "at_end", json_boolean(f->at_end),
                                      "curve", json_of_curve(f), "held_out", held));
}

int search_temperature(search_work *w, FILE *file) {
    temperature_fit f = {.nats = NULL};
    gyre_error err = {0, ""};
    int status = cli_pool_open(&w->options->common, &w->pool, &w->exec);
    if (!status && fit(w, &f, &err)) status = cli_fail_error(&err);
    if (!status) status = w->options->common.json ? print_json(w, &f, file) : print_text(w, &f, file);
    free(f.nats);
    return status;
}
