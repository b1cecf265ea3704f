/* extend_cost.c: the loss of each method within the trained length and at the new length, measured as gyre eval does. */
#include "tools/cli/cli.h"
#include "tools/common/model_input.h"
#include "tools/common/window_statistics.h"
#include "tools/extend/extend_verdict.h"
#include "util/plain_numbers.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What one measurement works with. */
typedef struct measurement {
    const extension *e;
    const extend_cost_options *options;
    extend_cost *cost;
    model_input input;
    gyre_pool *pool;
    gyre_exec exec;
    cli_progress progress;
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
    return all < m->options->windows ? all : m->options->windows;
}

static gyre_status read_texts(measurement *m, const gyre_encoding *encoding, int range, int64_t row, gyre_error *err) {
    int64_t read = 0;
    gyre_eval_options eval = GYRE_INIT(gyre_eval_options);
    eval.context = m->cost->context[range];
    eval.windows = m->options->windows;
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

/* A method that this model cannot take is noted in its row. */
static gyre_status measure_cell(measurement *m, const extend_method *r, int range, int64_t row, gyre_error *err) {
    extend_loss *loss = &m->cost->losses[row];
    gyre_encoding *encoding = NULL;
    gyre_error why = {0, ""};
    cli_progress_label(&m->progress, "%s at %lld", r->label, (long long)m->cost->context[range]);
    gyre_status status = make_encoding(m, r, m->cost->context[range], &encoding, &why), failed = GYRE_OK;
    if (!status) status = read_texts(m, encoding, range, row, &why);
    if (encoding) failed = method_name_failure(status, r->label, m->cost->context[range], &why);
    gyre_encoding_free(encoding);
    for (int64_t t = 0; t < m->input.texts_count; t++)
        m->done += planned_windows(m, &m->input.texts[t], m->cost->context[range]) * m->cost->context[range];
    cli_progress_set(&m->progress, m->done);
    if (status && cli_interrupted()) { /* in the middle of its windows: no figure */
        m->cost->complete = 0;
        return GYRE_OK;
    }
    if (status == GYRE_ENOMEM || status == GYRE_EIO || failed == GYRE_EFORMAT) return gyre_fail(err, status, "%s", why.text);
    if (status) gyre_plain_snprintf(loss->note, sizeof loss->note, "%.159s", why.text);
    if (!status) loss->at[range].windows = m->cost->windows[range];
    return GYRE_OK;
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

static int64_t all_tokens(const measurement *m) {
    int64_t tokens = 0;
    for (int64_t t = 0; t < m->input.texts_count; t++)
        for (int range = 0; range < EXTEND_RANGES; range++)
            tokens += planned_windows(m, &m->input.texts[t], m->cost->context[range]) * m->cost->context[range];
    return tokens * m->cost->methods;
}

/* Row by row, so that Ctrl-C leaves whole rows; the unchanged model comes first. */
static int measure_rows(measurement *m, const extend_method *methods) {
    gyre_error err = {0, ""};
    cli_progress_begin(&m->progress, "extend", "tokens", all_tokens(m));
    cli_defer_signals_to_window();
    int status = 0;
    m->cost->complete = 1;
    for (int64_t i = 0; i < m->cost->methods && !status && m->cost->complete; i++) {
        const int64_t row = i == 0 ? m->cost->none : i <= m->cost->none ? i - 1 : i;
        for (int range = 0; range < EXTEND_RANGES && !status && m->cost->complete; range++) {
            if (measure_cell(m, &methods[row], range, row, &err)) status = cli_fail_error(&err);
            if (cli_interrupted() && (i + 1 < m->cost->methods || range == EXTEND_NEAR)) m->cost->complete = 0;
        }
    }
    cli_progress_end(&m->progress);
    if (!m->cost->complete && !status) cli_warn("stopped: a dash stands for what was not measured (extend)");
    return status;
}

static int open_measurement(measurement *m, const cli_options *common) {
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
    return cli_pool_open(common, &m->pool, &m->exec);
}

int extend_cost_measure(const extension *e, const extend_cost_options *o, const cli_options *common,
                        const extend_method *methods, int64_t count, extend_cost *out) {
    measurement *m = cli_alloc(1, sizeof *m);
    *out = (extend_cost){.methods = count};
    *m = (measurement){.e = e, .options = o, .cost = out};
    for (int64_t i = count - 1; i >= 0; i--)
        if (method_is_none(&methods[i].method)) out->none = i;
    int status = open_measurement(m, common);
    if (!status) status = measure_rows(m, methods);
    if (!status) summarize(out);
    gyre_pool_free(m->pool);
    model_input_free(&m->input);
    free(m);
    return status;
}

void extend_cost_free(extend_cost *cost) {
    free(cost->losses);
    free(cost->by_window[EXTEND_NEAR]);
    free(cost->by_window[EXTEND_FAR]);
    *cost = (extend_cost){.methods = 0};
}
