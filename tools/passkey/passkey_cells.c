/* passkey_cells.c: fills the cells of gyre passkey, from the journal or by asking the model. */
#include "tools/passkey/passkey.h"
#include "tools/team/team.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* -- memory, and checks before the work -- */
static int make_templates(passkey *p) {
    const passkey_options *o = &p->options;
    gyre_error err = {0, ""};
    p->templates = cli_alloc(o->lengths.count, sizeof *p->templates);
    for (int64_t l = 0; l < o->lengths.count; l++)
        if (passkey_template_init(&p->templates[l], p->input.tokenizer, &o->phrases, o->lengths.values[l], o->answer_tokens,
                                  &err))
            return cli_fail_error(&err);
    return 0;
}

static void link_cells(passkey *p) {
    const passkey_options *o = &p->options;
    const gyre_config *base = gyre_encoding_get_config(gyre_model_get_encoding(p->input.model));
    const int policy = method_options_policy(&o->method);
    for (int64_t m = 0; m < o->method.count; m++) {
        passkey_row *row = &p->rows[m];
        row->method = &o->method.list[m];
        row->policy = policy < 0 ? base->length_policy : (gyre_length_policy)policy;
        row->depends_on_length = method_depends_on_length(row->method, base);
        row->columns = p->columns + m * o->lengths.count;
    }
    for (int64_t c = 0; c < o->method.count * o->lengths.count; c++) {
        p->columns[c].cells = p->cells + c * o->depths_count;
        for (int64_t d = 0; d < o->depths_count; d++)
            p->columns[c].cells[d] = (passkey_cell){o->depths[d], 0, p->trials + (c * o->depths_count + d) * o->trials};
    }
}

const char *passkey_row_name(const void *of, int64_t row) {
    return ((const passkey *)of)->rows[row].method->label;
}

static gyre_status encoding_of_row(void *ctx, int64_t row, int64_t length, gyre_encoding **out, gyre_error *err) {
    const passkey *p = ctx;
    return model_input_encoding(&p->input, p->rows[row].method, (int)p->rows[row].policy, length, &p->options.method.betas,
                                out, err);
}

int passkey_cells_make(passkey *p) {
    const passkey_options *o = &p->options;
    const int64_t trained = gyre_encoding_get_config(gyre_model_get_encoding(p->input.model))->trained_length;
    int status = length_list_default(&p->options.lengths, "--lengths", trained, o->model.path);
    if (!status) status = make_templates(p);
    if (status) return status;
    const int64_t columns = o->method.count * o->lengths.count, cells = columns * o->depths_count;
    p->rows = cli_alloc(o->method.count, sizeof *p->rows);
    p->columns = cli_alloc(columns, sizeof *p->columns);
    p->cells = cli_alloc(cells, sizeof *p->cells);
    p->trials = cli_alloc(cells * o->trials, sizeof *p->trials);
    link_cells(p);
    gyre_error err = {0, ""};
    const same_rows_search search = {.model = p->input.model,
                                     .rows = o->method.count,
                                     .lengths = o->lengths.values,
                                     .count = o->lengths.count,
                                     .make = encoding_of_row,
                                     .ctx = p};
    return same_rows_find(&p->same, &search, &err) ? cli_fail_error(&err) : 0;
}

void passkey_cells_free(passkey *p) {
    same_rows_free(&p->same);
    free(p->templates);
    free(p->rows);
    free(p->columns);
    free(p->cells);
    free(p->trials);
}

/* -- measuring -- */
typedef struct reporting {
    passkey *p;
    const passkey_row *row;
    int64_t length;
} reporting;

/* By depth where that is not long. */
static result_table table_so_far(const void *of) {
    enum { FEW_ROWS = 24 };
    const passkey *p = of;
    const int64_t rows = p->options.method.count * (p->options.depths_count + 1);
    result_table t = rows > FEW_ROWS ? passkey_table_methods(p) : passkey_table_depths(p);
    int open = 0;
    for (int64_t c = 0; c < p->options.method.count * p->options.lengths.count; c++)
        for (int64_t d = 0; d < p->options.depths_count; d++)
            open |= !p->columns[c].cells[d].done && !p->columns[c].out_of_range;
    if (open) live_table_note_open(&t);
    return t;
}

static void watch(const reporting *r, const passkey_cell *cell) {
    int64_t right = 0;
    for (int64_t t = 0; t < r->p->options.trials; t++)
        right += cell->trials[t].right;
    live_table_show(&r->p->live, table_so_far, r->p, "%s at %lld, depth %.4g%%: %lld of %lld right", r->row->method->label,
                    (long long)r->p->options.lengths.values[r->length], 100 * cell->depth, (long long)right,
                    (long long)r->p->options.trials);
}

static gyre_status print_line(const reporting *r, const passkey_cell *cell, gyre_error *err) {
    watch(r, cell);
    if (!r->p->options.run.json_lines) return GYRE_OK;
    return passkey_print_cell_line(r->p, r->row, r->length, cell)
               ? gyre_fail(err, GYRE_EIO, "standard output: cannot be written (passkey)")
               : GYRE_OK;
}

static gyre_status report_cell(void *ctx, const passkey_cell *cell, gyre_error *err) {
    const reporting *r = ctx;
    cli_defer_signals_to_window(); /* from here on there is something to print */
    gyre_status status = passkey_journal_add(r->p, r->row, r->length, cell, err);
    if (!status) status = print_line(r, cell, err);
    return status || !cli_interrupted() ? status : gyre_fail(err, GYRE_EIO, "stopped (passkey)");
}

static gyre_status measure(passkey *p, const passkey_row *row, int64_t length, gyre_error *err) {
    const passkey_options *o = &p->options;
    passkey_column *column = &row->columns[length];
    gyre_encoding *encoding = NULL;
    reporting r = {p, row, length};
    gyre_status status = model_input_encoding(&p->input, row->method, (int)row->policy, o->lengths.values[length],
                                              &o->method.betas, &encoding, err);
    passkey_job job = {.model = p->input.model,
                       .encoding = encoding,
                       .template = &p->templates[length],
                       .cache = o->method.cache,
                       .unchunked_prefill = row->depends_on_length && row->policy == GYRE_LENGTH_POLICY_PREFIX,
                       .contains = o->contains,
                       .seed = o->seed,
                       .trials = o->trials,
                       .cells = column->cells,
                       .cells_count = o->depths_count,
                       .report = report_cell,
                       .progress = team_progress_step,
                       .team = team_get(),
                       .ctx = &r,
                       .progress_ctx = &p->progress};
    if (!status)
        status = method_name_failure(passkey_run(&job, &p->exec, err), row->method->label, o->lengths.values[length], err);
    gyre_encoding_free(encoding);
    if (status != GYRE_ERANGE) return status;
    column->out_of_range = 1; /* a table that ends is a result, not a failure */
    column->note = *err;
    return GYRE_OK;
}

/* Takes the trials of the row with the same encoding.  out = 1, or 0 if that has none. */
static int take_same(const passkey *p, const passkey_row *row, int64_t length, int64_t depth) {
    const int64_t first = same_rows_of(&p->same, row - p->rows, length);
    const passkey_cell *of = first < 0 ? NULL : &p->rows[first].columns[length].cells[depth];
    passkey_cell *cell = &row->columns[length].cells[depth];
    if (!of || !of->done) return 0;
    memcpy(cell->trials, of->trials, (size_t)p->options.trials * sizeof *cell->trials);
    return 1;
}

/* Takes what the journal and other rows have.  *left = how many cells are then open. */
static gyre_status take_known(passkey *p, const passkey_row *row, int64_t length, int64_t *left, gyre_error *err) {
    passkey_cell *cells = row->columns[length].cells;
    const reporting r = {p, row, length};
    *left = 0;
    for (int64_t d = 0; d < p->options.depths_count; d++) {
        gyre_status status = GYRE_OK;
        if (cells[d].done) continue;
        cells[d].done = passkey_journal_find(p, row, length, &cells[d]);
        if (!cells[d].done && take_same(p, row, length, d)) {
            cells[d].done = 1; /* a run that goes on later writes it where it belongs */
            status = cli_interrupted() ? GYRE_OK : passkey_journal_add(p, row, length, &cells[d], err);
        }
        *left += !cells[d].done;
        if (!status && cells[d].done) status = print_line(&r, &cells[d], err);
        if (status) return status;
    }
    return GYRE_OK;
}

int passkey_cell_is_open(const passkey *p, int64_t row, int64_t length, int64_t depth) {
    passkey_cell *cell = &p->rows[row].columns[length].cells[depth];
    return same_rows_of(&p->same, row, length) < 0 && !passkey_journal_find(p, &p->rows[row], length, cell);
}

/* Takes what is known first, so that all remaining trials are distributed over the threads. */
static gyre_status fill(passkey *p, const passkey_row *row, int64_t length, gyre_error *err) {
    int64_t left;
    const gyre_status status = take_known(p, row, length, &left, err);
    return status || !left ? status : measure(p, row, length, err);
}

/* out = tokens of the prompts of a row at a length that have to be read. */
static int64_t open_tokens(const passkey *p, int64_t row, int64_t length) {
    int64_t open = 0;
    for (int64_t d = 0; d < p->options.depths_count; d++)
        open += passkey_cell_is_open(p, row, length, d);
    return open * p->options.trials * p->options.lengths.values[length];
}

static gyre_status fill_all(passkey *p, gyre_error *err) {
    const passkey_options *o = &p->options;
    gyre_status status = GYRE_OK;
    int64_t done = 0;
    for (int64_t m = 0; m < o->method.count && !status; m++)
        for (int64_t l = 0; l < o->lengths.count && !status; l++) {
            const int64_t tokens = open_tokens(p, m, l);
            cli_progress_label(&p->progress, "%s at %lld", o->method.list[m].label, (long long)o->lengths.values[l]);
            status = fill(p, &p->rows[m], l, err);
            done += tokens;
            cli_progress_set(&p->progress, done);
        }
    return status;
}

/* Ctrl-C: what needs no prompt is shown all the same. */
static gyre_status fill_known(passkey *p, gyre_error *err) {
    const passkey_options *o = &p->options;
    int64_t left;
    gyre_status status = GYRE_OK;
    for (int64_t m = 0; m < o->method.count && !status; m++)
        for (int64_t l = 0; l < o->lengths.count && !status; l++)
            status = take_known(p, &p->rows[m], l, &left, err);
    return status;
}

int passkey_cells_measure(passkey *p) {
    const passkey_options *o = &p->options;
    gyre_error err = {0, ""};
    int64_t all = 0;
    for (int64_t m = 0; m < o->method.count; m++)
        for (int64_t l = 0; l < o->lengths.count; l++)
            all += open_tokens(p, m, l);
    live_table_begin(&p->live, o->run.watch, o->run.json_lines);
    cli_progress_begin(&p->progress, "passkey", "tokens", all);
    gyre_status status = fill_all(p, &err);
    cli_progress_end(&p->progress);
    live_table_end(&p->live);
    const int stopped = status && cli_interrupted();
    if (stopped) status = fill_known(p, &err);
    if (stopped && !status)
        cli_warn("stopped: a dash stands for what was not measured%s (passkey)",
                 run_options_how_to_continue(&o->run, &o->common));
    return status ? cli_fail_error(&err) : 0;
}

/* -- results -- */
double passkey_accuracy(const passkey *p, const passkey_cell *cell) {
    int64_t right = 0;
    if (!cell->done) return NAN;
    for (int64_t t = 0; t < p->options.trials; t++)
        right += cell->trials[t].right;
    return (double)right / (double)p->options.trials;
}

double passkey_column_accuracy(const passkey *p, const passkey_column *column) {
    double sum = 0;
    for (int64_t d = 0; d < p->options.depths_count; d++)
        sum += passkey_accuracy(p, &column->cells[d]);
    return sum / (double)p->options.depths_count;
}

/* The best method at a length, NaN if nothing was measured there. */
static double best_accuracy(const passkey *p, int64_t length) {
    double best = NAN;
    for (int64_t m = 0; m < p->options.method.count; m++)
        best = fmax(best, passkey_column_accuracy(p, &p->rows[m].columns[length]));
    return best;
}

int passkey_found_none(const passkey *p) {
    for (int64_t m = 0; m < p->options.method.count; m++)
        for (int64_t l = 0; l < p->options.lengths.count; l++)
            if (!(passkey_column_accuracy(p, &p->rows[m].columns[l]) <= 0)) return 0;
    return 1;
}

int passkey_verdict(const passkey *p, char out[PASSKEY_VERDICT]) {
    const double enough = 0.5;
    const length_list *lengths = &p->options.lengths;
    const int64_t trained = gyre_encoding_get_config(gyre_model_get_encoding(p->input.model))->trained_length;
    int64_t within = -1;
    for (int64_t l = 0; l < lengths->count; l++)
        if (lengths->values[l] <= trained) within = l;
    const double best = within < 0 ? NAN : best_accuracy(p, within);
    char where[96] = "", none[64];
    snprintf(none, sizeof none, "None of the %lld keys is found",
             (long long)(p->options.method.count * lengths->count * p->options.depths_count * p->options.trials));
    if (within >= 0)
        snprintf(where, sizeof where, "%lld tokens, within the trained length of %lld", (long long)lengths->values[within],
                 (long long)trained);
    out[0] = 0;
    if (passkey_found_none(p) && within >= 0)
        snprintf(out, PASSKEY_VERDICT,
                 "%s, not even at %s: the model lacks the skill, so these results cannot judge the methods.", none, where);
    else if (passkey_found_none(p) && p->knows_format)
        snprintf(out, PASSKEY_VERDICT, "%s; the model does find such keys within its trained length.", none);
    else if (passkey_found_none(p))
        snprintf(out, PASSKEY_VERDICT,
                 "%s, and no length within the trained one was measured, so these results cannot distinguish a method that "
                 "fails from a model that lacks the skill.",
                 none);
    else if (best < enough)
        snprintf(out, PASSKEY_VERDICT,
                 "The model finds %.0f%% of the keys at %s: it lacks the skill, so these results cannot judge the methods.",
                 100 * best, where);
    return *out != 0;
}

void passkey_prompt_tokens(const passkey *p, int64_t length, char out[PASSKEY_TOKENS]) {
    const passkey_options *o = &p->options;
    int64_t min = 0, max = 0;
    for (int64_t m = 0; m < o->method.count; m++)
        for (int64_t d = 0; d < o->depths_count; d++) {
            const passkey_cell *cell = &p->rows[m].columns[length].cells[d];
            for (int64_t t = 0; cell->done && t < o->trials; t++) {
                const int64_t tokens = cell->trials[t].tokens;
                if (!min || tokens < min) min = tokens;
                if (tokens > max) max = tokens;
            }
        }
    if (!max)
        snprintf(out, PASSKEY_TOKENS, "none");
    else if (min == max)
        snprintf(out, PASSKEY_TOKENS, "%lld", (long long)max);
    else
        snprintf(out, PASSKEY_TOKENS, "%lld to %lld", (long long)min, (long long)max);
}
