/* eval_report.c: the HTML report of gyre eval: charts by context and by position, tables, what the methods do, and the run
 * card. */
#include "gyre/gyre_fields.h"
#include "tools/common/method_figures.h"
#include "tools/common/result_table.h"
#include "tools/eval/eval.h"
#include "util/plain_numbers.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MANY_ROWS = 8, MAP_COLUMNS = 256, MAX_MAPS = 8 };

typedef struct figures {
    const evaluation *e;
    gyre_report_page *page;
    gyre_report_marker trained;
    chart_lines lines;
} figures;

/* from, to: range of the x axis.  A trained length outside it is not marked. */
static void draw(figures *f, gyre_report_chart *chart, double from, double to, const char *caption) {
    chart->markers = &f->trained;
    chart->markers_count = f->trained.at > 0 && f->trained.at >= from && f->trained.at <= to;
    chart_lines_draw(&f->lines, f->page, chart, caption);
}

/* Texts have the names that other readers know them by. */
static const char *set_name(const evaluation *e, int64_t set) {
    return model_path_shown(eval_set_name(e, set));
}

/* Many rows are divided into a panel for each method, whatever its factor, with none in every panel. */
static const char *panel_of(const evaluation *e, const eval_row *r) {
    return e->rows_count <= MANY_ROWS || method_is_none(r->method) ? NULL : r->method->name;
}

/* out = 1 with a new line without points; 0 if nothing was measured. */
static int begin_line(figures *f, int64_t set, int64_t row) {
    const evaluation *e = f->e;
    const eval_row *r = &e->rows[row];
    int64_t measured = 0;
    for (int64_t c = 0; c < e->options.contexts.count; c++)
        measured += !eval_cell_at(e, set, row, c)->out_of_range;
    if (!measured) return 0;
    (void)chart_line(&f->lines, panel_of(e, r), eval_shows_policies(e) && r->depends_on_length ? "%s, %s" : "%s",
                     r->method->label, gyre_length_policy_name(r->policy));
    return 1;
}

/* -- charts -- */
/* With its interval as band; a cell of few windows has none. */
static void add_perplexity(figures *f, double context, const eval_cell *cell) {
    double low = NAN, high = NAN;
    if (!eval_interval(cell, &low, &high)) low = high = NAN;
    chart_banded_point(&f->lines, context, cell->out_of_range ? NAN : exp(cell->figures.nats), low, high);
}

static void context_chart(figures *f, int64_t set, int passkey) {
    const evaluation *e = f->e;
    char title[160];
    if (e->options.contexts.count < 2) return; /* one point makes no line */
    for (int64_t r = 0; r < e->rows_count; r++) {
        const int is_drawn = begin_line(f, set, r);
        for (int64_t c = 0; is_drawn && c < e->options.contexts.count; c++) {
            const eval_cell *cell = eval_cell_at(e, set, r, c);
            const double context = (double)e->options.contexts.values[c];
            if (passkey)
                chart_point(&f->lines, context,
                            cell->out_of_range ? NAN : 100 * (double)cell->passkey.right / (double)cell->passkey.trials);
            else
                add_perplexity(f, context, cell);
        }
    }
    gyre_report_chart chart = GYRE_REPORT_CHART_INIT;
    gyre_plain_snprintf(title, sizeof title, "%s by context%s%.100s", passkey ? "Passkeys found" : "Perplexity",
                        e->sets > 1 ? ": " : "", e->sets > 1 ? set_name(e, set) : "");
    chart.title = title;
    chart.x = (gyre_report_axis){"context (tokens)", GYRE_REPORT_SCALE_LOG2, 0, 0};
    chart.y = passkey ? (gyre_report_axis){"passkeys found (%)", GYRE_REPORT_SCALE_LINEAR, 0, 100}
                      : (gyre_report_axis){"perplexity per token", GYRE_REPORT_SCALE_LOG10, 0, 0};
    draw(f, &chart, (double)e->options.contexts.values[0], (double)e->options.contexts.values[e->options.contexts.count - 1],
         passkey ? "A key has to be remembered; perplexity rewards forgetting."
                 : "The model was trained on contexts up to the trained length, the dashed line where there is one. Bands: "
                   "95 % intervals over the windows.");
}

/* All contexts have one range of losses, so that heights compare from chart to chart. */
static gyre_report_axis loss_axis(const figures *f, int64_t set, double *clip) {
    const evaluation *e = f->e;
    const int64_t contexts = e->options.contexts.count;
    double low = INFINITY, high = -INFINITY;
    *clip = 0;
    gyre_report_series *rows = cli_alloc(e->rows_count * contexts, sizeof *rows);
    for (int64_t r = 0, n = 0; r < e->rows_count; r++)
        for (int64_t c = 0; c < contexts; c++, n++) {
            const eval_cell *cell = eval_cell_at(e, set, r, c);
            rows[n] = (gyre_report_series){.count = cell->out_of_range ? 0 : e->options.buckets, .y = cell->by_position};
            for (int64_t b = 0; b < rows[n].count; b++) {
                if (!isfinite(cell->by_position[b])) continue;
                low = fmin(low, cell->by_position[b]);
                high = fmax(high, cell->by_position[b]);
            }
        }
    *clip = gyre_report_far_above(rows, e->rows_count * contexts);
    free(rows);
    if (*clip > 0) high = *clip;
    const double room = 0.04 * (high - low);
    return (gyre_report_axis){"loss (nats per token)", GYRE_REPORT_SCALE_LINEAR, high > low ? fmax(0, low - room) : 0,
                              high > low ? high + room : 0};
}

static void position_chart(figures *f, int64_t set, int64_t column) {
    const evaluation *e = f->e;
    const int64_t buckets = e->options.buckets, context = e->options.contexts.values[column];
    char title[160];
    for (int64_t r = 0; r < e->rows_count; r++) {
        const eval_cell *cell = eval_cell_at(e, set, r, column);
        if (buckets < 2 || cell->out_of_range || !begin_line(f, set, r)) continue;
        for (int64_t b = 0; b < buckets; b++)
            chart_point(&f->lines, ((double)b + 0.5) * (double)context / (double)buckets, cell->by_position[b]);
    }
    gyre_report_chart chart = GYRE_REPORT_CHART_INIT;
    gyre_plain_snprintf(title, sizeof title, "Loss by position at %lld%s%.100s", (long long)context, e->sets > 1 ? ": " : "",
                        e->sets > 1 ? set_name(e, set) : "");
    chart.title = title;
    chart.x = (gyre_report_axis){"position in the window (tokens)", GYRE_REPORT_SCALE_LINEAR, 0, (double)context};
    chart.y = loss_axis(f, set, &chart.clip);
    draw(f, &chart, 0, (double)context, NULL);
}

/* -- the page -- */
/* The rows of a set of texts at the longest context: the model as it is, or the methods. */
typedef struct compared_rows {
    const evaluation *e;
    int64_t set;
    int as_it_is;
} compared_rows;

static double nats_of(const void *of, int64_t row) {
    const compared_rows *c = of;
    const eval_cell *cell = eval_cell_at(c->e, c->set, row, c->e->options.contexts.count - 1);
    const int is_asked = method_is_none(c->e->rows[row].method) == c->as_it_is;
    return cell->out_of_range || !is_asked ? (double)NAN : cell->figures.nats;
}

static int64_t best_row(const evaluation *e, int64_t set, int as_it_is) {
    return result_best_row(e->rows_count, nats_of, &(compared_rows){e, set, as_it_is});
}

/* Perplexities that are printed alike count as equal. */
enum { FIGURE = 24 };
static void put_perplexity(const eval_cell *cell, char out[FIGURE]) {
    snprintf(out, FIGURE, "%.4g", exp(cell->figures.nats));
}

static int no_lower(const eval_cell *a, const eval_cell *b) {
    char of_a[FIGURE], of_b[FIGURE];
    put_perplexity(a, of_a);
    put_perplexity(b, of_b);
    return a->figures.nats >= b->figures.nats || strcmp(of_a, of_b) == 0;
}

/* How the best row compares with the others. */
static const char *standing(const evaluation *e, int64_t set, int64_t best) {
    const int64_t last = e->options.contexts.count - 1;
    int others = 0, ties = 0;
    for (int64_t r = 0; r < e->rows_count; r++) {
        const eval_cell *cell = eval_cell_at(e, set, r, last);
        if (r == best || cell->out_of_range) continue;
        others++;
        ties += no_lower(eval_cell_at(e, set, best, last), cell);
    }
    return !others ? "" : ties ? ", as low as any row" : others == 1 ? ", which is lower" : ", the lowest of all rows";
}

static void put_keys(const eval_cell *cell, char *text, size_t size) {
    const size_t used = strlen(text);
    if (cell->passkey.trials)
        snprintf(text + used, size - used, " and finds %.0f %% of the keys",
                 100 * (double)cell->passkey.right / (double)cell->passkey.trials);
}

/* The model as it is, and at the shortest context for comparison. */
static void answer_as_it_is(const figures *f, const char *at, const char *model, int64_t set, int64_t none) {
    const evaluation *e = f->e;
    const int64_t last = e->options.contexts.count - 1;
    const eval_cell *cell = eval_cell_at(e, set, none, last), *first = eval_cell_at(e, set, none, 0);
    char text[1024], figure[FIGURE];
    put_perplexity(cell, figure);
    gyre_plain_snprintf(text, sizeof text, "%s `%.200s` as it is has perplexity %s", at, model, figure);
    put_keys(cell, text, sizeof text);
    const size_t used = strlen(text);
    put_perplexity(first, figure);
    if (last > 0 && !first->out_of_range)
        snprintf(text + used, sizeof text - used, ", after %s at %lld", figure, (long long)e->options.contexts.values[0]);
    snprintf(text + strlen(text), sizeof text - strlen(text), ".");
    (void)gyre_report_page_paragraph(f->page, text);
}

/* What was found, in a sentence or two, at the longest context. */
static void answer(const figures *f) {
    const evaluation *e = f->e;
    const int64_t set = e->sets - 1, last = e->options.contexts.count - 1, longest = e->options.contexts.values[last];
    const int64_t none = best_row(e, set, 1), best = best_row(e, set, 0), trained = (int64_t)f->trained.at;
    const char *model = model_path_shown(e->options.model.path);
    char text[1024], at[96], figure[FIGURE];
    snprintf(at, sizeof at, "At %lld tokens", (long long)longest);
    if (trained > 0 && longest > trained)
        snprintf(at, sizeof at, "At %lld tokens, %.3g times its trained length,", (long long)longest,
                 (double)longest / (double)trained);
    if (none >= 0) answer_as_it_is(f, at, model, set, none);
    if (best < 0) return;
    const eval_cell *cell = eval_cell_at(e, set, best, last), *as_it_is = none < 0 ? NULL : eval_cell_at(e, set, none, last);
    const char *label = e->rows[best].method->label;
    put_perplexity(cell, figure);
    if (as_it_is && no_lower(cell, as_it_is))
        snprintf(text, sizeof text, "No method is better%s: `%s` has %s%s", cell->passkey.trials ? " in perplexity" : "",
                 label, figure, e->rows_count > 2 ? ", the lowest of them," : "");
    else if (as_it_is)
        snprintf(text, sizeof text, "Under `%s` it has %s%s", label, figure, standing(e, set, best));
    else
        gyre_plain_snprintf(text, sizeof text, "%s `%.200s` under `%s` has perplexity %s%s", at, model, label, figure,
                            standing(e, set, best));
    put_keys(cell, text, sizeof text);
    const size_t used = strlen(text);
    if (text[used - 1] == ',') text[used - 1] = 0;
    snprintf(text + strlen(text), sizeof text - strlen(text), ".");
    (void)gyre_report_page_paragraph(f->page, text);
}

static void protocol(const figures *f) {
    const evaluation *e = f->e;
    const eval_options *o = &e->options;
    char text[1024], stride[48] = "half of it", windows[48] = "all that the text holds";
    if (o->protocol == GYRE_EVAL_PROTOCOL_TRUNCATE) snprintf(stride, sizeof stride, "the next window's first token");
    if (o->stride) snprintf(stride, sizeof stride, "%lld tokens", (long long)o->stride);
    if (o->windows)
        snprintf(windows, sizeof windows, o->first ? "the first %lld" : "at most %lld, spread over the text",
                 (long long)o->windows);
    (void)gyre_report_page_section(f->page, "How it was measured");
    gyre_plain_snprintf(text, sizeof text,
                        "How well `%.200s` predicts %s at each context length, under each method to extend its context.",
                        model_path_shown(o->model.path), e->input.texts_count > 1 ? "several texts" : "a text");
    (void)gyre_report_page_paragraph(f->page, text);
    snprintf(text, sizeof text,
             "Protocol %s: windows of the context's length, from one to the next %s; %s. Scored: %s. Every method reads the "
             "same windows%s.",
             eval_protocol_names[o->protocol], stride, windows, eval_protocol_description(o),
             e->sets > 1 ? "; of all texts together, every scored prediction counts alike" : "");
    if (o->first_position)
        snprintf(text + strlen(text), sizeof text - strlen(text), " Positions begin at %lld in every window.",
                 (long long)o->first_position);
    char products[EVAL_PRODUCTS_TEXT];
    eval_products_describe(e, products);
    if (*products) snprintf(text + strlen(text), sizeof text - strlen(text), " Products: %s.", products);
    (void)gyre_report_page_paragraph(f->page, text);
}

/* Explains the dashes of the tables. */
static void out_of_range_notes(const figures *f) {
    const evaluation *e = f->e;
    char text[700];
    for (int64_t s = 0; s < e->input.texts_count; s++)
        for (int64_t r = 0; r < e->rows_count; r++)
            for (int64_t c = 0; c < e->options.contexts.count; c++) {
                const eval_cell *cell = eval_cell_at(e, s, r, c);
                if (!cell->out_of_range) continue;
                snprintf(text, sizeof text, "`%s` at %lld: %s", e->rows[r].method->label,
                         (long long)e->options.contexts.values[c], cell->note.text);
                (void)gyre_report_page_paragraph(f->page, text);
            }
}

static void position_part(figures *f, int64_t set) {
    for (int64_t c = 0; c < f->e->options.contexts.count; c++)
        position_chart(f, set, c);
    (void)gyre_report_page_details_begin(f->page, "Loss by position in figures");
    for (int64_t c = 0; c < f->e->options.contexts.count; c++)
        result_table_add(eval_table_positions(f->e, set, c), f->page);
    (void)gyre_report_page_details_end(f->page);
}

/* -- what the methods do -- */
/* The length to which the methods extend the model: the longest context, or four times the trained length if all contexts
 * lie within it and the methods do nothing. */
static int64_t target_of(const evaluation *e, int64_t trained) {
    const int64_t longest = e->options.contexts.values[e->options.contexts.count - 1];
    return longest > trained ? longest : 4 * trained;
}

static gyre_status add_map(const figures *f, const method *m, int64_t target, method_figures *maps, method_map *list,
                           gyre_error *err) {
    gyre_encoding *encoding = NULL;
    method_map map;
    gyre_status status = model_input_encoding(&f->e->input, m, -1, target, &f->e->options.method.betas, &encoding, err);
    const method_map_range range = {.length = target, .columns = MAP_COLUMNS, .longest = (double)target};
    if (!status) status = method_map_of_encoding(encoding, m->label, &range, &map, err);
    if (!status) method_maps_add(list, &maps->count, &map);
    gyre_encoding_free(encoding);
    return status;
}

/* Methods that cannot extend this model are left out, as in the tables. */
static gyre_status methods_part(const figures *f, gyre_error *err) {
    static const char usual[] = "none,linear,ntk,yarn";
    const evaluation *e = f->e;
    const gyre_config *position = &gyre_model_get_config(e->input.model)->position;
    const int64_t trained = position->trained_length;
    method_map list[MAX_MAPS] = {{.pairs = 0}};
    method *compared = NULL;
    int64_t count = 0;
    if (!gyre_kind_has(position->kind, GYRE_TRAIT_ROTATES) || trained < 1) return GYRE_OK;
    /* One method alone is shown beside the usual ones. */
    gyre_status status = e->options.method.count > 1 ? GYRE_OK : methods_parse(usual, &compared, &count, err);
    const method *shown = compared ? compared : e->options.method.list;
    method_figures drawn = {.maps = list, .trained = trained, .target = target_of(e, trained), .unit = "tokens"};
    gyre_error why = {0, ""};
    for (int64_t m = 0; m < (compared ? count : e->options.method.count) && drawn.count < MAX_MAPS && !status; m++) {
        status = add_map(f, &shown[m], drawn.target, &drawn, list, &why);
        if (status == GYRE_ENOMEM || status == GYRE_EIO)
            *err = why;
        else
            status = GYRE_OK;
    }
    if (drawn.count && !status) {
        (void)gyre_report_page_section(f->page, "What the methods do");
        method_figures_add(&drawn, f->page);
    }
    for (int64_t i = 0; i < drawn.count; i++)
        method_map_free(&list[i]);
    free(compared);
    return status;
}

/* -- all of it -- */
/* One text, or all of them together, comes first as a figure: most readers want that. */
static void perplexity_part(figures *f) {
    const evaluation *e = f->e;
    const int figures_of_cell = 1 + (e->options.passkey > 0);
    for (int passkey = 0; passkey < figures_of_cell; passkey++)
        context_chart(f, e->sets - 1, passkey);
    (void)gyre_report_page_section(f->page, "Perplexity");
    result_table_add(eval_table_figures(e), f->page);
    char same[SAME_ROWS_TEXT];
    same_rows_describe(&e->same, e->options.contexts.values, e->options.contexts.count, eval_row_name, e, same);
    if (*same) (void)gyre_report_page_paragraph(f->page, same);
    out_of_range_notes(f);
    if (e->sets > 1) (void)gyre_report_page_details_begin(f->page, "Each text by itself");
    for (int64_t s = e->sets - 1; s-- > 0;)
        for (int passkey = 0; passkey < figures_of_cell; passkey++)
            context_chart(f, s, passkey);
    if (e->sets > 1) (void)gyre_report_page_details_end(f->page);
    (void)gyre_report_page_details_begin(f->page, "Intervals");
    for (int64_t s = e->sets; s-- > 0;) {
        if (e->sets > 1) (void)gyre_report_page_paragraph(f->page, set_name(e, s));
        result_table_add(eval_table_intervals(e, s), f->page);
    }
    (void)gyre_report_page_details_end(f->page);
}

static gyre_status fill(figures *f, gyre_error *err) {
    const evaluation *e = f->e;
    answer(f);
    perplexity_part(f);
    if (e->options.buckets) (void)gyre_report_page_section(f->page, "Loss by position");
    for (int64_t s = e->sets; e->options.buckets && s-- > 0;)
        position_part(f, s);
    const gyre_status status = methods_part(f, err);
    protocol(f);
    run_card_foot(&e->card, NULL, f->page);
    return status;
}

gyre_status eval_write_report(const evaluation *e, gyre_error *err) {
    const double trained = (double)gyre_model_get_config(e->input.model)->position.trained_length;
    figures f = {.e = e, .trained = {trained, "trained length", 0}};
    const gyre_status status = gyre_report_page_create(&f.page, "gyre eval: perplexity against context", err);
    return status ? status : report_page_end(f.page, fill(&f, err), e->options.run.report, err);
}
