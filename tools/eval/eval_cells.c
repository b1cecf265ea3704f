/* eval_cells.c: measures the cells of gyre eval. */
#include "tools/common/methods.h"
#include "tools/common/window_statistics.h"
#include "tools/eval/eval.h"
#include "tools/team/team.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

eval_cell *eval_cell_at(const evaluation *e, int64_t set, int64_t row, int64_t column) {
    return &e->cells[(set * e->rows_count + row) * e->options.contexts.count + column];
}

const char *eval_set_name(const evaluation *e, int64_t set) {
    return set < e->input.texts_count ? e->options.model.texts[set] : "all texts together";
}

int eval_shows_policies(const evaluation *e) {
    int shows = e->options.method.policies_count > 0;
    for (int64_t i = 0; i < e->rows_count; i++)
        shows |= e->rows[i].depends_on_length && e->rows[i].policy != GYRE_LENGTH_POLICY_DECLARED;
    return shows;
}

double eval_bits_per_byte(const eval_cell *c) {
    return c->bytes > 0 ? c->figures.nats * (double)c->figures.scored / log(2) / c->bytes : NAN;
}

int eval_interval(const eval_cell *c, double *low, double *high) {
    const double windows = (double)c->figures.windows;
    if (c->out_of_range || c->figures.windows < 3) return 0;
    const double half = student_t(windows - 1) * sqrt(c->variance / windows);
    *low = exp(c->figures.nats - half);
    *high = exp(c->figures.nats + half);
    return isfinite(*high);
}

int eval_has_bytes(const evaluation *e) {
    int known = 1;
    for (int64_t i = 0; i < e->input.texts_count; i++)
        known &= e->input.texts[i].bytes > 0;
    return known;
}

/* -- planning -- */
gyre_eval_options eval_options_at(const evaluation *e, int64_t context) {
    gyre_eval_options out = GYRE_INIT(gyre_eval_options);
    out.context = context;
    out.stride = e->options.stride;
    out.first_position = e->options.first_position;
    out.windows = e->options.windows;
    out.protocol = e->options.protocol;
    out.cache_dtype = e->options.method.cache;
    out.products = e->options.products;
    return out;
}

static int64_t stride_at(const evaluation *e, int64_t context) {
    const eval_options *o = &e->options;
    return o->protocol == GYRE_EVAL_PROTOCOL_TRUNCATE ? context : o->stride ? o->stride : context / 2;
}

/* With --first, cuts the text so that it holds exactly the first windows, which are then all read. */
static gyre_text truncate_text(const evaluation *e, int64_t text, int64_t context) {
    gyre_text part = e->input.texts[text];
    const int64_t windows = e->options.windows, stride = stride_at(e, context);
    if (e->options.first && windows <= (part.count - context - 1) / stride)
        part.count = (windows - 1) * stride + context + 1;
    return part;
}

static gyre_passkey_options passkey_options_at(const evaluation *e, int64_t context) {
    gyre_passkey_options out = GYRE_INIT(gyre_passkey_options);
    out.context = context;
    out.trials = e->options.passkey;
    out.keys = GYRE_PASSKEY_KEYS;
    out.seed = 1;
    return out;
}

int64_t eval_windows_of(const evaluation *e, int64_t text, int64_t context) {
    return (e->input.texts[text].count - 1 - context) / stride_at(e, context) + 1;
}

int eval_cell_is_known(const eval_cell *c) {
    return !c->out_of_range && c->figures.scored > 0;
}

int eval_cell_is_open(const evaluation *e, int64_t text, int64_t row, int64_t column) {
    return same_rows_of(&e->same, row, column) < 0 && !eval_journal_find(e, text, row, column, NULL);
}

/* Tokens of a text that one method reads at a context; only for the progress bar. */
static int64_t planned_tokens(const evaluation *e, int64_t text, int64_t context) {
    int64_t windows = eval_windows_of(e, text, context);
    if (e->options.windows && e->options.windows < windows) windows = e->options.windows;
    const int64_t keys = passkey_options_at(e, context).keys;
    return (windows + (e->options.passkey + keys - 1) / keys) * context;
}

const char *eval_row_name(const void *of, int64_t row) {
    return ((const evaluation *)of)->rows[row].name;
}

static gyre_status encoding_of_row(void *ctx, int64_t row, int64_t length, gyre_encoding **out, gyre_error *err) {
    const evaluation *e = ctx;
    const eval_row *r = &e->rows[row];
    return model_input_encoding_from(&e->input, r->method, (int)r->policy, e->options.first_position, length,
                                     &e->options.method.betas, out, err);
}

/* One row per method; one per policy too if the method depends on the length in use. */
gyre_status eval_rows_make(evaluation *e, gyre_error *err) {
    const eval_options *o = &e->options;
    e->rows = cli_alloc(o->method.count * LENGTH_POLICIES, sizeof *e->rows);
    const gyre_config *base = gyre_encoding_get_config(gyre_model_get_encoding(e->input.model));
    for (int64_t m = 0; m < o->method.count; m++) {
        const int depends = method_depends_on_length(&o->method.list[m], base);
        const int64_t policies = depends ? o->method.policies_count : 0;
        for (int64_t p = 0; p < policies || p == 0; p++)
            e->rows[e->rows_count++] =
                (eval_row){&o->method.list[m], policies ? o->method.policies[p] : base->length_policy, depends, ""};
    }
    for (int64_t r = 0; r < e->rows_count; r++) {
        eval_row *row = &e->rows[r];
        const int shows = eval_shows_policies(e) && row->depends_on_length;
        snprintf(row->name, sizeof row->name, "%s%s%s", row->method->label, shows ? " " : "",
                 shows ? gyre_length_policy_name(row->policy) : "");
    }
    const same_rows_search search = {.model = e->input.model,
                                     .rows = e->rows_count,
                                     .first_position = o->first_position,
                                     .lengths = o->contexts.values,
                                     .count = o->contexts.count,
                                     .make = encoding_of_row,
                                     .ctx = e};
    return same_rows_find(&e->same, &search, err);
}

void eval_cells_make(evaluation *e) {
    const eval_options *o = &e->options;
    e->sets = e->input.texts_count + (e->input.texts_count > 1);
    const int64_t cells = e->sets * e->rows_count * o->contexts.count;
    e->cells = cli_alloc(cells, sizeof *e->cells);
    e->by_position = cli_alloc(cells * o->buckets, sizeof *e->by_position);
    for (int64_t i = 0; i < cells; i++)
        e->cells[i].by_position = e->by_position + i * o->buckets;
}

void eval_cells_free(evaluation *e) {
    same_rows_free(&e->same);
    free(e->rows);
    free(e->cells);
    free(e->by_position);
}

/* -- one cell -- */
/* Describes the encoding at a length in use, whether or not it reaches it. */
static gyre_status describe(const gyre_encoding *encoding, int64_t length, eval_cell *c) {
    const gyre_config *config = gyre_encoding_get_config(encoding);
    const struct gyre_rope_config *rope = &config->rope;
    const gyre_status status = gyre_encoding_scaling_parts(encoding, length, &c->parts);
    c->rotates = status != GYRE_EUNSUPPORTED; /* a temperature alone scales queries and rotates nothing */
    if (!c->rotates) return GYRE_OK;
    c->factor = rope->factor;
    c->clip_pairs = config->rope.clip.pairs;
    c->window = rope->far == GYRE_FAR_AS_NEAR ? 0 : rope->far_window;
    c->far_factor = rope->far == GYRE_FAR_LEAKY || rope->far == GYRE_FAR_GROUPED ? rope->far_factor : 0;
    if (far_is_chunked(config)) {
        c->window = config->rope.chunk.local;
        c->far_factor = (double)config->rope.chunk.size;
    }
    return status ? status : gyre_encoding_frequencies(encoding, length, NULL, &c->attention_factor);
}

/* Under prefix, the lengths in use depend on the first prediction that is asked for.  The loss by position asks for every
 * prediction, so the perplexity is measured separately: it must be the same with and without --by-position. */
static int uses_prefix_length(const gyre_encoding *encoding) {
    const gyre_config *config = gyre_encoding_get_config(encoding);
    return config->length_policy == GYRE_LENGTH_POLICY_PREFIX;
}

static gyre_status evaluate(evaluation *e, const gyre_encoding *encoding, int64_t text, int64_t context, eval_cell *c,
                            gyre_error *err) {
    const gyre_text part = truncate_text(e, text, context);
    gyre_eval_options eval = eval_options_at(e, context);
    eval.encoding = encoding;
    eval.watcher = (gyre_watcher){team_progress_step, cli_stops, &e->progress};
    eval.team = team_get();
    eval.buckets = e->options.buckets;
    eval.by_position = eval.buckets ? c->by_position : NULL;
    eval.by_window = cli_alloc(part.count / stride_at(e, context) + 2, sizeof *eval.by_window);
    gyre_status status = gyre_evaluate(e->input.model, &part, &eval, &c->figures, &e->exec, err);
    if (!status && eval.buckets && uses_prefix_length(encoding)) {
        eval.by_position = NULL;
        status = gyre_evaluate(e->input.model, &part, &eval, &c->figures, &e->exec, err);
    }
    if (!status) c->variance = sample_variance(eval.by_window, c->figures.windows);
    free(eval.by_window);
    if (status || !e->options.passkey) return status;
    gyre_passkey_options passkey = passkey_options_at(e, context);
    passkey.encoding = encoding;
    passkey.watcher = (gyre_watcher){team_progress_step, cli_stops, &e->progress};
    passkey.team = team_get();
    return gyre_passkey(e->input.model, &e->input.texts[text], &passkey, &c->passkey, &e->exec, err);
}

gyre_status eval_cell_loss(evaluation *e, int64_t row, int64_t column, gyre_products products, double *nats,
                           gyre_error *err) {
    const int64_t context = e->options.contexts.values[column];
    const gyre_text part = truncate_text(e, 0, context);
    gyre_eval_options eval = eval_options_at(e, context);
    gyre_encoding *encoding = NULL;
    gyre_eval_result result = {0};
    gyre_status status = encoding_of_row(e, row, context, &encoding, err);
    eval.encoding = encoding;
    eval.products = products;
    eval.team = team_get();
    eval.watcher.stop = cli_stops;
    if (!status) status = gyre_evaluate(e->input.model, &part, &eval, &result, &e->exec, err);
    gyre_encoding_free(encoding);
    *nats = result.nats;
    return status;
}

/* Takes the figures of the row with the same encoding.  out = 1, or 0 if that has none. */
static int take_same(evaluation *e, int64_t text, int64_t row, int64_t column, eval_cell *c) {
    const int64_t first = same_rows_of(&e->same, row, column);
    const eval_cell *of = first < 0 ? NULL : eval_cell_at(e, text, first, column);
    if (!of || !eval_cell_is_known(of)) return 0;
    c->figures = of->figures;
    c->variance = of->variance;
    c->passkey = of->passkey;
    for (int64_t b = 0; b < e->options.buckets; b++)
        c->by_position[b] = of->by_position[b];
    return 1;
}

static gyre_status measure_under(evaluation *e, const gyre_encoding *encoding, int64_t text, int64_t row, int64_t column,
                                 gyre_error *err) {
    eval_cell *c = eval_cell_at(e, text, row, column);
    const int64_t context = e->options.contexts.values[column];
    gyre_status status = describe(encoding, e->options.first_position + context, c);
    if (status) return gyre_fail(err, status, "%s: %s (eval)", e->rows[row].method->label, gyre_status_text(status));
    if (eval_journal_find(e, text, row, column, c)) return GYRE_OK;
    if (take_same(e, text, row, column, c)) /* a run that goes on later writes it where it belongs */
        return e->stopped ? GYRE_OK : eval_journal_add(e, text, row, column, err);
    status = method_name_failure(evaluate(e, encoding, text, context, c, err), e->rows[row].method->label, context, err);
    if (status == GYRE_ERANGE) { /* a table that ends is a result, not a failure */
        c->out_of_range = 1;
        c->note = *err;
        status = GYRE_OK;
    }
    e->planned += planned_tokens(e, text, context);
    cli_progress_set(&e->progress, e->planned);
    if (status) return status;
    cli_defer_signals_to_window(); /* from here on there is something to print */
    return eval_journal_add(e, text, row, column, err);
}

static gyre_status measure(evaluation *e, int64_t text, int64_t row, int64_t column, gyre_error *err) {
    gyre_encoding *encoding = NULL;
    gyre_status status = encoding_of_row(e, row, e->options.contexts.values[column], &encoding, err);
    if (!status) status = measure_under(e, encoding, text, row, column, err);
    gyre_encoding_free(encoding);
    eval_cell *c = eval_cell_at(e, text, row, column);
    c->bytes = model_input_bytes_per_token(&e->input, text) * (double)c->figures.scored;
    if (status == GYRE_ERANGE) {
        c->out_of_range = 1;
        c->note = *err;
        return GYRE_OK;
    }
    return status;
}

/* -- all of them -- */
/* out = the variance of all windows of all texts about the mean of all. */
static double combined_variance(const evaluation *e, int64_t row, int64_t column, const eval_cell *all) {
    double squares = 0;
    for (int64_t t = 0; t < e->input.texts_count; t++) {
        const eval_cell *c = eval_cell_at(e, t, row, column);
        const double n = (double)c->figures.windows, off = c->figures.nats - all->figures.nats;
        squares += (n - 1) * c->variance + n * off * off;
    }
    return all->figures.windows > 1 ? squares / (double)(all->figures.windows - 1) : 0;
}

/* Combines the results of all texts.  Every scored prediction counts the same. */
static void combine_texts(const evaluation *e, int64_t row, int64_t column) {
    eval_cell *all = eval_cell_at(e, e->sets - 1, row, column);
    double *by_position = all->by_position, nats = 0;
    *all = *eval_cell_at(e, 0, row, column);
    all->by_position = by_position;
    all->figures = (gyre_eval_result){0};
    all->passkey = (gyre_passkey_result){0};
    all->bytes = 0;
    for (int64_t t = 0; t < e->input.texts_count; t++) {
        const eval_cell *c = eval_cell_at(e, t, row, column);
        if (c->out_of_range && !all->out_of_range) all->note = c->note;
        all->out_of_range |= c->out_of_range;
        nats += c->figures.nats * (double)c->figures.scored;
        all->figures.windows += c->figures.windows;
        all->figures.scored += c->figures.scored;
        all->bytes += c->bytes;
        all->passkey.trials += c->passkey.trials;
        all->passkey.right += c->passkey.right;
        all->passkey.windows += c->passkey.windows;
        for (int64_t b = 0; b < e->options.buckets; b++)
            by_position[b] += c->by_position[b] * (double)c->figures.windows;
    }
    if (all->out_of_range) return;
    all->figures.nats = nats / (double)all->figures.scored;
    all->variance = combined_variance(e, row, column, all);
    if (!eval_has_bytes(e)) all->bytes = 0;
    for (int64_t b = 0; b < e->options.buckets; b++)
        by_position[b] /= (double)all->figures.windows;
}

static gyre_status measure_cell(evaluation *e, int64_t set, int64_t row, int64_t column, gyre_error *err) {
    if (set == e->input.texts_count) {
        combine_texts(e, row, column);
        return GYRE_OK;
    }
    const long long context = (long long)e->options.contexts.values[column];
    if (e->input.texts_count > 1)
        cli_progress_label(&e->progress, "text %lld, %s at %lld", (long long)set + 1, e->rows[row].method->label, context);
    else
        cli_progress_label(&e->progress, "%s at %lld", e->rows[row].method->label, context);
    return measure(e, set, row, column, err);
}

/* Tokens of the cells that are not in the journal, so that the bar estimates the remaining work only. */
static int64_t tokens_left(evaluation *e) {
    int64_t all = 0;
    for (int64_t t = 0; t < e->input.texts_count; t++)
        for (int64_t r = 0; r < e->rows_count; r++)
            for (int64_t l = 0; l < e->options.contexts.count; l++)
                if (eval_cell_is_open(e, t, r, l)) all += planned_tokens(e, t, e->options.contexts.values[l]);
    return all;
}

/* out = 1 if the figures of a cell are known without reading a window. */
static int is_at_hand(const evaluation *e, int64_t text, int64_t row, int64_t column) {
    const int64_t first = same_rows_of(&e->same, row, column);
    return eval_journal_find(e, text, row, column, NULL) ||
           (first >= 0 && eval_cell_is_known(eval_cell_at(e, text, first, column)));
}

/* Ctrl-C: what is not measured yet is marked as missing, and the texts are combined without it.  out = 0, or what `measured`
 * says of a cell that needs no window. */
static int mark_missing(evaluation *e, int64_t from, eval_measured *measured) {
    const int64_t columns = e->options.contexts.count, of_text = e->rows_count * columns;
    gyre_error unused = {0, ""};
    int stopped = 0;
    e->stopped = 1;
    for (int64_t i = from; i < e->input.texts_count * of_text; i++) {
        const int64_t text = i / of_text, row = i / columns % e->rows_count, column = i % columns;
        eval_cell *c = eval_cell_at(e, text, row, column);
        if (is_at_hand(e, text, row, column) && !measure(e, text, row, column, &unused)) {
            if (measured && !stopped) stopped = measured(e, text, row, column);
            continue;
        }
        c->out_of_range = 1;
        c->figures = (gyre_eval_result){0}; /* of a cell that was being measured */
        c->bytes = c->variance = 0;
        c->passkey = (gyre_passkey_result){0};
        (void)gyre_fail(&c->note, GYRE_EIO, "not measured: the run was stopped (eval)");
    }
    for (int64_t i = e->input.texts_count * of_text; i < e->sets * of_text; i++) {
        const int64_t set = e->sets - 1, row = i / columns % e->rows_count, column = i % columns;
        combine_texts(e, row, column);
        const int shows = measured && i >= from && !stopped && eval_cell_is_known(eval_cell_at(e, set, row, column));
        if (shows) stopped = measured(e, set, row, column);
    }
    return stopped;
}

int eval_cells_measure(evaluation *e, eval_measured *measured) {
    const int64_t columns = e->options.contexts.count, cells = e->sets * e->rows_count * columns;
    gyre_error err = {0, ""};
    gyre_status status = GYRE_OK;
    int stopped = 0;
    live_table_begin(&e->live, e->options.run.watch, e->options.run.json_lines);
    cli_progress_begin(&e->progress, "eval", "tokens", tokens_left(e));
    for (int64_t i = 0; i < cells && !status && !stopped; i++) {
        const int64_t set = i / columns / e->rows_count, row = i / columns % e->rows_count, column = i % columns;
        status = measure_cell(e, set, row, column, &err);
        if (!status) eval_watch_cell(e, set, row, column);
        if (!status && measured) stopped = measured(e, set, row, column);
        cli_defer_signals_to_window(); /* from here on there is something to print */
        const int64_t missing = status ? i : i + 1;
        if (cli_interrupted() && missing < cells) {
            stopped = mark_missing(e, missing, measured);
            status = GYRE_OK;
            break;
        }
    }
    cli_progress_end(&e->progress);
    live_table_end(&e->live);
    return status ? cli_fail_error(&err) : stopped;
}
