/* search_page.c: --report: the result of a search as an HTML page. */
#include "tools/common/result_table.h"
#include "tools/common/variants.h"
#include "tools/search/search.h"
#include "util/plain_numbers.h"
#include <math.h>
#include <stdlib.h>

enum { TEXT = 1024 };

/* The figures' numbers, kept while the page is written. */
typedef struct search_figures {
    gyre_report_series factors[SEARCH_ROWS], windows[SEARCH_ROWS];
    double pair[SEARCH_PAIRS], *window;                                         /* [held-out windows] from 1 */
    double turns[SEARCH_PAIRS], costs[3][SEARCH_PAIRS], saves[3][SEARCH_PAIRS]; /* mean, low, high, in nats */
    double *perplexity;                                                         /* [rows][held-out windows] */
} search_figures;

static void answer(const search_report *r, gyre_report_page *page) {
    const search_windows *w = r->windows;
    char text[TEXT], verdict[SEARCH_VERDICT];
    gyre_plain_snprintf(
        text, sizeof text,
        "For each pair of `%.300s`, a factor to divide its frequency by, so that the model, trained on %lld tokens, "
        "predicts a text best at %lld.",
        model_path_shown(r->card->input->options->path), (long long)r->trained, (long long)w->context);
    (void)gyre_report_page_paragraph(page, text); /* the page keeps the first error */
    search_verdict(r, verdict);
    char starts[32];
    snprintf(starts, sizeof starts, "%lld", (long long)r->found->rescale.start_tokens);
    (void)gyre_report_page_paragraph(page, verdict);
    const gyre_report_key_value facts[] = {{"found from", r->found->origin}, {"start tokens", starts}};
    (void)gyre_report_page_key_values(page, facts, r->problem->space.starts_count ? 2 : 1);
}

static void protocol(const search_report *r, gyre_report_page *page) {
    const search_windows *w = r->windows;
    char text[TEXT];
    (void)gyre_report_page_section(page, "How it was measured");
    snprintf(text, sizeof text,
             "%lld windows of %lld tokens were searched on and %lld held out, which alternate in the text; the last %lld "
             "predictions of each are scored. The search read %lld windows in %lld generation%s from seed %llu.",
             (long long)w->searched_count, (long long)w->context, (long long)w->held_out_count, (long long)w->stride,
             (long long)r->found->spent, (long long)r->found->generations, r->found->generations == 1 ? "" : "s",
             (unsigned long long)r->seed);
    (void)gyre_report_page_paragraph(page, text);
}

/* -- figures -- */
/* The factors found have the colour that no usual method has. */
static gyre_report_series line_of(const search_report *r, int64_t row, int64_t count, const double *x, const double *y) {
    const int found = row + 1 == r->rows_count;
    return (gyre_report_series){.name = r->rows[row].label,
                                .count = count,
                                .x = x,
                                .y = y,
                                .look = found ? (gyre_report_look){GYRE_REPORT_PAINT_WINE, GYRE_REPORT_MARK_PLUS, 0, 1}
                                              : subject_look(r->rows[row].label)};
}

static void factor_chart(const search_report *r, search_figures *f, gyre_report_page *page) {
    const int64_t pairs = r->problem->space.pairs;
    int64_t lines = 0;
    for (int64_t p = 0; p < pairs; p++)
        f->pair[p] = (double)p;
    for (int64_t i = 0; i < r->rows_count; i++) /* not of the unchanged model */
        if (r->rows[i].rescale.attention != 0)
            f->factors[lines++] = line_of(r, i, pairs, f->pair, r->rows[i].rescale.factor);
    gyre_report_chart chart = GYRE_REPORT_CHART_INIT;
    chart.title = "What each method divides the frequencies by";
    chart.x = (gyre_report_axis){"pair of channels", GYRE_REPORT_SCALE_LINEAR, 0, 0};
    chart.y = (gyre_report_axis){"frequency divided by", GYRE_REPORT_SCALE_LINEAR, 0, 0};
    chart.series = f->factors;
    chart.series_count = lines;
    if (lines)
        (void)gyre_report_page_chart(page, &chart,
                                     "Pair 0 is the fastest. Factors that rise late keep fast pairs, which distinguish "
                                     "neighbours, and stretch those that never finished a turn in training.");
}

/* --pairs. */
static void worth_chart(const search_report *r, search_figures *f, gyre_report_page *page) {
    int alone = 0;
    for (int64_t i = 0; i < r->pairs_count; i++) {
        const search_pair *p = &r->pairs[i];
        const search_interval of[2] = {p->needed, p->alone};
        alone |= p->has_alone;
        f->turns[i] = p->turns;
        for (int k = 0; k < 2; k++) {
            double(*to)[SEARCH_PAIRS] = k ? f->saves : f->costs;
            to[0][i] = of[k].mean, to[1][i] = of[k].low, to[2][i] = of[k].high;
        }
    }
    const gyre_report_series series[] = {{.name = "left as trained, costs",
                                          .count = r->pairs_count,
                                          .x = f->turns,
                                          .y = f->costs[0],
                                          .low = f->costs[1],
                                          .high = f->costs[2]},
                                         {.name = "divided alone, saves",
                                          .count = r->pairs_count,
                                          .x = f->turns,
                                          .y = f->saves[0],
                                          .low = f->saves[1],
                                          .high = f->saves[2]}};
    const gyre_report_marker once = {1, "one turn", 0};
    gyre_report_chart chart = GYRE_REPORT_CHART_INIT;
    chart.title = "What the factor of each pair is worth";
    chart.x = (gyre_report_axis){"turns of the pair in the trained length", GYRE_REPORT_SCALE_LOG10, 0, 0};
    chart.y = (gyre_report_axis){"nats per scored token", GYRE_REPORT_SCALE_LINEAR, 0, 0};
    chart.series = series;
    chart.series_count = 1 + alone;
    chart.markers = &once;
    chart.markers_count = 1;
    (void)gyre_report_page_chart(
        page, &chart,
        "Held-out windows, with 95 % of a paired bootstrap. The model has seen every angle of a pair "
        "that turns more than once, and a pair that hardly turns is the same everywhere.");
}

static void window_chart(const search_report *r, search_figures *f, gyre_report_page *page) {
    const int64_t count = r->windows->held_out_count;
    for (int64_t k = 0; k < count; k++)
        f->window[k] = (double)(k + 1);
    for (int64_t i = 0; i < r->rows_count; i++) {
        for (int64_t k = 0; k < count; k++)
            f->perplexity[i * count + k] = exp(r->rows[i].nats[k]);
        f->windows[i] = line_of(r, i, count, f->window, f->perplexity + i * count);
    }
    gyre_report_chart chart = GYRE_REPORT_CHART_INIT;
    chart.title = "Perplexity of each held-out window";
    chart.x = (gyre_report_axis){"held-out window, in order of the text", GYRE_REPORT_SCALE_LINEAR, 0, 0};
    chart.y = (gyre_report_axis){"perplexity per token", GYRE_REPORT_SCALE_LOG10, 0, 0};
    chart.style = GYRE_REPORT_CHART_STYLE_POINTS;
    chart.series = f->windows;
    chart.series_count = r->rows_count;
    (void)gyre_report_page_chart(page, &chart,
                                 "Windows differ more than methods do; that is why gains are taken window by window.");
}

static gyre_status figures(const search_report *r, gyre_report_page *page, gyre_error *err) {
    const size_t count = (size_t)r->windows->held_out_count;
    search_figures *f = calloc(1, sizeof *f);
    if (f) f->window = calloc(count, sizeof *f->window);
    if (f) f->perplexity = calloc(count * SEARCH_ROWS, sizeof *f->perplexity);
    const int complete = f && f->window && f->perplexity;
    if (complete) {
        (void)gyre_report_page_section(page, "Factors");
        factor_chart(r, f, page);
        if (r->pairs_count > 0) worth_chart(r, f, page);
        (void)gyre_report_page_section(page, "Windows");
        window_chart(r, f, page);
    }
    if (f) {
        free(f->window);
        free(f->perplexity);
    }
    free(f);
    return complete ? GYRE_OK : gyre_fail(err, GYRE_ENOMEM, "report: out of memory (search)");
}

/* -- the page -- */
gyre_status search_write_page(const search_report *r, const char *path, gyre_error *err) {
    gyre_report_page *page = NULL;
    gyre_report_key_value facts[RUN_CARD_MAX_KEY_VALUES + 1];
    char room[RUN_CARD_LINE], date[REPORT_DATE];
    search_table table;
    gyre_status status = gyre_report_page_create(&page, "gyre search: factors for each pair", err);
    if (status) return status;
    answer(r, page);
    (void)gyre_report_page_section(page, "Perplexity");
    search_table_make(r, &table);
    (void)gyre_report_page_table(page, &table.table);
    status = figures(r, page, err);
    protocol(r, page);
    int64_t count = run_card_key_values(r->card, facts, room);
    facts[count++] = (gyre_report_key_value){"date", report_date(date)};
    (void)gyre_report_page_footer(page, facts, count);
    if (!status) status = cli_signals_before_pipe(path, err);
    if (!status) status = gyre_report_page_write(page, path, err);
    gyre_report_page_free(page);
    return status;
}
