/* extend_cost.c: the loss of each method within the trained length and at the new length, measured as gyre eval does. */
#include "tools/cli/cli.h"
#include "tools/common/model_input.h"
#include "tools/common/window_statistics.h"
#include "tools/extend/extend_journal.h"
#include "tools/extend/extend_verdict.h"
#include "tools/measuring/live_table.h"
#include "tools/measuring/run_budget.h"
#include "util/plain_numbers.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What one measurement works with. */
typedef struct measurement {
    const extension *e;
    const extend_cost_options *options;
    const cli_options *common;
    extend_journal journal;
    const extend_method *methods;
    extend_cost *cost;
    int64_t windows; /* of each text, at most; fewer than the options say if --budget holds no more */
    model_input input;
    gyre_pool *pool;
    gyre_exec exec;
    cli_progress progress;
    live_table live;
    run_cost seconds;
    int64_t done; /* tokens of the cells before the current one */
} measurement;

static double *losses_at(const extend_cost *cost, int range, int64_t row) {
    return cost->by_window[range] + row * cost->max_windows;
}

/* -- one cell -- */
/* *out = the model's positions under the method, with the factor that the new length needs, for windows of `context`
 * tokens. */
static gyre_status make_encoding(const measurement *m, const extend_method *r, int64_t context, gyre_encoding **out,
                                 gyre_error *err) {
    gyre_reading *reading = NULL;
    gyre_layer_reading layers = *m->e->group;
    extension at = *m->e;
    gyre_config base = GYRE_INIT(gyre_config), config;
    gyre_status status = gyre_model_position_for_length(m->input.model, context, &base, &reading, err);
    if (status) return status;
    layers.config = base;
    at.group = &layers;
    status = extend_method_config(r, &at, &config, err);
    config.context_length = config.rope.table_positions = context;
    if (!status) status = gyre_encoding_create(out, &config, NULL, err);
    gyre_reading_free(reading);
    return status;
}

static int64_t planned_windows(const measurement *m, const gyre_text *text, int64_t context) {
    const int64_t all = (text->count - 1 - context) / (context / 2 > 0 ? context / 2 : 1) + 1;
    return all < m->windows ? all : m->windows;
}

static gyre_status read_texts(measurement *m, const gyre_encoding *encoding, int range, int64_t row, gyre_error *err) {
    int64_t read = 0;
    gyre_eval_options eval = GYRE_INIT(gyre_eval_options);
    eval.context = m->cost->context[range];
    eval.windows = m->windows;
    eval.encoding = encoding;
    eval.watcher = (gyre_watcher){cli_progress_step, cli_stops, &m->progress};
    for (int64_t t = 0; t < m->input.texts_count; t++) {
        gyre_eval_result result;
        eval.by_window = losses_at(m->cost, range, row) + read;
        const gyre_status status = gyre_evaluate(m->input.model, &m->input.texts[t], &eval, &result, &m->exec, err);
        if (status) return status;
        read += result.windows;
    }
    m->cost->windows[range] = read;
    return GYRE_OK;
}

static int64_t cell_windows(const measurement *m, int range) {
    int64_t windows = 0;
    for (int64_t t = 0; t < m->input.texts_count; t++)
        windows += planned_windows(m, &m->input.texts[t], m->cost->context[range]);
    return windows;
}

static int64_t cell_tokens(const measurement *m, int range) {
    return cell_windows(m, range) * m->cost->context[range];
}

/* -- the journal -- */
static extend_cell cell_of(const measurement *m, int range, int64_t row) {
    return (extend_cell){m->methods[row].label, m->cost->context[range], m->windows};
}

static int is_known(const measurement *m, int range, int64_t row) {
    const extend_cell cell = cell_of(m, range, row);
    return extend_journal_find(&m->journal, &cell, NULL, cell_windows(m, range));
}

static gyre_status keep_cell(measurement *m, int range, int64_t row, gyre_error *err) {
    const extend_cell cell = cell_of(m, range, row);
    return extend_journal_add(&m->journal, &cell, losses_at(m->cost, range, row), m->cost->losses[row].at[range].windows,
                              err);
}

/* Takes all cells that the journal has, so that the others can share them. */
static void take_known(measurement *m) {
    for (int64_t row = 0; row < m->cost->methods; row++)
        for (int range = 0; range < EXTEND_RANGES; range++) {
            const extend_cell cell = cell_of(m, range, row);
            const int64_t windows = cell_windows(m, range);
            if (!extend_journal_find(&m->journal, &cell, losses_at(m->cost, range, row), windows)) continue;
            m->cost->losses[row].at[range].windows = m->cost->windows[range] = windows;
        }
}

/* out = 1 if the cell has to be measured: the journal has neither it nor one with the same encoding, and no row before has
 * that. */
static int is_open(const measurement *m, int range, int64_t row) {
    if (same_rows_of(&m->cost->same, row, range) >= 0) return 0;
    for (int64_t k = -1; (k = same_rows_next(&m->cost->same, row, range, k)) >= 0;)
        if (is_known(m, range, k)) return 0;
    return !is_known(m, range, row);
}

/* Takes the losses of a row with the same encoding.  out = 1, or 0 if none is measured. */
static int take_same(extend_cost *cost, int range, int64_t row) {
    for (int64_t k = -1; (k = same_rows_next(&cost->same, row, range, k)) >= 0;) {
        if (!cost->losses[k].at[range].windows) continue;
        memcpy(losses_at(cost, range, row), losses_at(cost, range, k),
               (size_t)cost->losses[k].at[range].windows * sizeof(double));
        cost->losses[row].at[range].windows = cost->losses[k].at[range].windows;
        return 1;
    }
    return 0;
}

/* A method that this model cannot take is noted in its row. */
static gyre_status measure_cell(measurement *m, int range, int64_t row, gyre_error *err) {
    const extend_method *r = &m->methods[row];
    extend_loss *loss = &m->cost->losses[row];
    if (loss->at[range].windows) return GYRE_OK;
    if (take_same(m->cost, range, row)) return keep_cell(m, range, row, err);
    gyre_encoding *encoding = NULL;
    gyre_error why = {0, ""};
    cli_progress_label(&m->progress, "%s at %lld", r->label, (long long)m->cost->context[range]);
    gyre_status status = make_encoding(m, r, m->cost->context[range], &encoding, &why), failed = GYRE_OK;
    if (!status) status = read_texts(m, encoding, range, row, &why);
    if (encoding) failed = method_name_failure(status, r->label, m->cost->context[range], &why);
    gyre_encoding_free(encoding);
    m->done += cell_tokens(m, range);
    cli_progress_set(&m->progress, m->done);
    if (status && cli_interrupted()) { /* in the middle of its windows: no figure */
        m->cost->complete = 0;
        return GYRE_OK;
    }
    if (status == GYRE_ENOMEM || status == GYRE_EIO || failed == GYRE_EFORMAT) return gyre_fail(err, status, "%s", why.text);
    if (status) gyre_plain_snprintf(loss->note, sizeof loss->note, "%.159s", why.text);
    if (status) return GYRE_OK;
    loss->at[range].windows = m->cost->windows[range];
    return keep_cell(m, range, row, err);
}

/* -- all of them -- */
static extend_mean mean_of(const double *values, int64_t count) {
    extend_mean out = {0, -1, count};
    for (int64_t i = 0; i < count; i++)
        out.nats += values[i] / (double)count;
    if (count >= EXTEND_MIN_WINDOWS)
        out.half = student_t((double)count - 1) * sqrt(sample_variance(values, count) / (double)count);
    return out;
}

extend_mean extend_cost_difference(const extend_cost *cost, int range, int64_t a, int64_t b) {
    const int64_t count = cost->losses[a].at[range].windows;
    if (count <= 0 || cost->losses[b].at[range].windows != count) return (extend_mean){0, -1, 0};
    double *values = calloc((size_t)count, sizeof *values);
    if (!values) cli_end_without_memory();
    for (int64_t i = 0; i < count; i++)
        values[i] = losses_at(cost, range, a)[i] - losses_at(cost, range, b)[i];
    const extend_mean out = mean_of(values, count);
    free(values);
    return out;
}

static void summarize(extend_cost *cost) {
    for (int64_t row = 0; row < cost->methods; row++)
        for (int range = 0; range < EXTEND_RANGES; range++) {
            extend_loss *loss = &cost->losses[row];
            if (loss->at[range].windows == 0) continue;
            loss->at[range] = mean_of(losses_at(cost, range, row), loss->at[range].windows);
            loss->over_none[range] = extend_cost_difference(cost, range, row, cost->none);
        }
}

/* -- showing -- */
static result_table table_so_far(const void *of) {
    const measurement *m = of;
    summarize(m->cost);
    result_table t = extend_cost_table(m->methods, m->cost);
    int open = 0;
    for (int64_t i = 0; i < m->cost->methods; i++)
        for (int range = 0; range < EXTEND_RANGES; range++)
            open |= !m->cost->losses[i].at[range].windows && !*m->cost->losses[i].note;
    if (open) live_table_note_open(&t);
    return t;
}

static void watch(measurement *m, int range, int64_t row) {
    const extend_loss *loss = &m->cost->losses[row];
    char figure[160];
    summarize(m->cost);
    const extend_mean at = loss->at[range];
    if (!at.windows)
        snprintf(figure, sizeof figure, "not measured: %.130s", loss->note);
    else if (at.half < 0)
        snprintf(figure, sizeof figure, "perplexity %.4g", exp(at.nats));
    else
        snprintf(figure, sizeof figure, "perplexity %.4g (%.4g to %.4g)", exp(at.nats), exp(at.nats - at.half),
                 exp(at.nats + at.half));
    live_table_show(&m->live, table_so_far, m, "%s at %lld: %s", m->methods[row].label, (long long)m->cost->context[range],
                    figure);
}

/* -- planning -- */
static gyre_status encoding_of_row(void *ctx, int64_t row, int64_t length, gyre_encoding **out, gyre_error *err) {
    const measurement *m = ctx;
    return make_encoding(m, &m->methods[row], length, out, err);
}

static int find_same(measurement *m) {
    gyre_error err = {0, ""};
    extend_cost *cost = m->cost;
    const same_rows_search search = {.model = m->input.model,
                                     .rows = cost->methods,
                                     .lengths = cost->context,
                                     .count = EXTEND_RANGES,
                                     .make = encoding_of_row,
                                     .ctx = m};
    return same_rows_find(&cost->same, &search, &err) ? cli_fail_error(&err) : 0;
}

/* out = how many rows have a cell near or far that is to be measured. */
static int64_t open_rows(const measurement *m, int range) {
    int64_t rows = 0;
    for (int64_t i = 0; i < m->cost->methods; i++)
        rows += is_open(m, range, i);
    return rows;
}

static int64_t all_tokens(const measurement *m) {
    int64_t tokens = 0;
    for (int range = 0; range < EXTEND_RANGES; range++)
        tokens += open_rows(m, range) * cell_tokens(m, range);
    return tokens;
}

static gyre_status read_window(void *ctx, int64_t tokens, gyre_error *err) {
    const measurement *m = ctx;
    gyre_eval_options eval = GYRE_INIT(gyre_eval_options);
    gyre_eval_result result;
    eval.context = tokens;
    eval.windows = 1;
    return gyre_evaluate(m->input.model, &m->input.texts[0], &eval, &result, &m->exec, err);
}

/* out = what all rows cost with at most so many windows of each text. */
static double run_sum(measurement *m, const run_cost *cost, int64_t units) {
    double sum = 0;
    const int64_t windows = m->windows;
    m->windows = units;
    for (int range = 0; range < EXTEND_RANGES; range++) {
        const int64_t context = m->cost->context[range];
        sum += (double)(open_rows(m, range) * cell_windows(m, range)) * run_cost_seconds(cost, 0, context);
    }
    m->windows = windows;
    return sum;
}

static double run_seconds(void *ctx, int64_t units, int64_t lengths) {
    measurement *m = ctx;
    return lengths ? run_sum(m, &m->seconds, units) : 0;
}

/* Says how long the run will take, if that is long; --budget lowers the windows.  out = 0, or CLI_FAILED with the error
 * printed. */
static int plan_windows(measurement *m) {
    gyre_error err = {0, ""};
    const double budget = m->options->run.budget;
    int64_t most = 0;
    const run_cost each = run_products(m->input.model);
    const double products = run_sum(m, &each, m->windows);
    if (!(products > 0) || (!(budget > 0) && !run_is_long(products))) return 0;
    if (run_cost_try(&m->seconds, m->input.model, m->cost->context[EXTEND_FAR], read_window, m, &err))
        return cli_fail_error(&err);
    for (int64_t t = 0; t < m->input.texts_count; t++) {
        const int64_t windows = planned_windows(m, &m->input.texts[t], m->cost->context[EXTEND_NEAR]);
        if (windows > most) most = windows;
    }
    run_plan plan = {.command = "extend",
                     .option = "--windows",
                     .unit = "window",
                     .before_all = "of",
                     .after_all = "",
                     .lengths = &m->cost->context[EXTEND_FAR],
                     .count = 1,
                     .all = most,
                     .trial = m->seconds.trial,
                     .seconds = run_seconds,
                     .ctx = m};
    if (!(budget > 0)) {
        run_plan_say(&plan);
        return 0;
    }
    const int status = run_plan_fit(&plan, budget);
    if (!status && plan.units < most) m->windows = plan.units;
    return status;
}

/* Row by row, so that Ctrl-C leaves whole rows; the unchanged model comes first. */
static int measure_rows(measurement *m) {
    gyre_error err = {0, ""};
    take_known(m);
    live_table_begin(&m->live, m->options->run.watch, 0);
    cli_progress_begin(&m->progress, "extend", "tokens", all_tokens(m));
    cli_defer_signals_to_window();
    int status = 0;
    m->cost->complete = 1;
    for (int64_t i = 0; i < m->cost->methods && !status && m->cost->complete; i++) {
        const int64_t row = i == 0 ? m->cost->none : i <= m->cost->none ? i - 1 : i;
        for (int range = 0; range < EXTEND_RANGES && !status && m->cost->complete; range++) {
            if (measure_cell(m, range, row, &err)) status = cli_fail_error(&err);
            if (!status) watch(m, range, row);
            if (cli_interrupted() && (i + 1 < m->cost->methods || range == EXTEND_NEAR)) m->cost->complete = 0;
        }
    }
    for (int64_t row = 0; row < m->cost->methods && !m->cost->complete; row++) /* what needs no window */
        for (int range = 0; range < EXTEND_RANGES; range++)
            if (!m->cost->losses[row].at[range].windows) (void)take_same(m->cost, range, row);
    cli_progress_end(&m->progress);
    live_table_end(&m->live);
    if (!status && journal_finish(&m->journal.lines.lines, &err)) status = cli_fail_error(&err);
    if (!m->cost->complete && !status)
        cli_warn("stopped: a dash stands for what was not measured%s (extend)",
                 run_options_how_to_continue(&m->options->run, m->common));
    return status;
}

static int open_measurement(measurement *m) {
    gyre_error err = {0, ""};
    const extend_cost_options *o = m->options;
    extend_cost *cost = m->cost;
    cost->context[EXTEND_NEAR] = o->near ? o->near : m->e->trained < m->e->to ? m->e->trained : m->e->to;
    cost->context[EXTEND_FAR] = m->e->to;
    if (model_input_open(&m->input, &o->model, 0, &err)) return cli_fail_error(&err);
    if (model_input_read(&m->input, m->e->to + 1, &err)) return cli_fail_error(&err);
    cost->max_windows = o->windows * m->input.texts_count;
    cost->vocab = gyre_model_get_config(m->input.model)->vocab;
    cost->losses = cli_alloc(cost->methods, sizeof *cost->losses);
    for (int range = 0; range < EXTEND_RANGES; range++)
        cost->by_window[range] = cli_alloc(cost->methods * cost->max_windows, sizeof *cost->by_window[range]);
    if (extend_journal_open(&m->journal, m->e, &m->input, &o->run, m->common, &err)) return cli_fail_error(&err);
    return cli_pool_open(m->common, &m->pool, &m->exec);
}

int extend_cost_measure(const extension *e, const extend_cost_options *o, const cli_options *common,
                        const extend_method *methods, int64_t count, extend_cost *out) {
    measurement *m = cli_alloc(1, sizeof *m);
    *out = (extend_cost){.methods = count};
    *m = (measurement){.e = e, .options = o, .common = common, .methods = methods, .cost = out, .windows = o->windows};
    for (int64_t i = count - 1; i >= 0; i--)
        if (method_is_none(&methods[i].method)) out->none = i;
    int status = open_measurement(m);
    if (!status) status = find_same(m);
    if (!status) status = plan_windows(m);
    if (!status) status = measure_rows(m);
    if (!status) summarize(out);
    extend_journal_close(&m->journal);
    gyre_pool_free(m->pool);
    model_input_free(&m->input);
    free(m);
    return status;
}

void extend_cost_free(extend_cost *cost) {
    free(cost->losses);
    free(cost->by_window[EXTEND_NEAR]);
    free(cost->by_window[EXTEND_FAR]);
    same_rows_free(&cost->same);
    *cost = (extend_cost){.methods = 0};
}
