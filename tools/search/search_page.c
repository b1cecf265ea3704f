/* search_page.c: --report: the result of a search as an HTML page. */
#include "tools/common/result_table.h"
#include "tools/search/search.h"
#include "util/plain_numbers.h"
#include <math.h>

enum { TEXT = 1024 };

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
static void begin_line(const search_report *r, int64_t row, chart_lines *l) {
    gyre_report_series *line = chart_line(l, NULL, "%s", r->rows[row].label);
    if (row + 1 == r->rows_count) line->look = (gyre_report_look){GYRE_REPORT_PAINT_WINE, GYRE_REPORT_MARK_PLUS, 0, 1};
}

static void factor_chart(const search_report *r, gyre_report_page *page) {
    chart_lines lines = {.count = 0};
    for (int64_t i = 0; i < r->rows_count; i++) {
        if (r->rows[i].rescale.attention == 0) continue; /* the unchanged model */
        begin_line(r, i, &lines);
        for (int64_t p = 0; p < r->problem->space.pairs; p++)
            chart_point(&lines, (double)p, r->rows[i].rescale.factor[p]);
    }
    gyre_report_chart chart = GYRE_REPORT_CHART_INIT;
    chart.title = "What each method divides the frequencies by";
    chart.x = (gyre_report_axis){"pair of channels", GYRE_REPORT_SCALE_LINEAR, 0, 0};
    chart.y = (gyre_report_axis){"frequency divided by", GYRE_REPORT_SCALE_LINEAR, 0, 0};
    chart_lines_draw(&lines, page, &chart,
                     "Pair 0 is the fastest. Factors that rise late keep fast pairs, which distinguish neighbours, and "
                     "stretch those that never finished a turn in training.");
}

/* --pairs. */
static void worth_chart(const search_report *r, gyre_report_page *page) {
    chart_lines lines = {.count = 0};
    int alone = 0;
    for (int64_t i = 0; i < r->pairs_count; i++)
        alone |= r->pairs[i].has_alone;
    for (int k = 0; k < 1 + alone; k++) {
        chart_line(&lines, NULL, k ? "divided alone, saves" : "left as trained, costs")->look = (gyre_report_look){0};
        for (int64_t i = 0; i < r->pairs_count; i++) {
            const search_interval *of = k ? &r->pairs[i].alone : &r->pairs[i].needed;
            chart_banded_point(&lines, r->pairs[i].turns, of->mean, of->low, of->high);
        }
    }
    const gyre_report_marker once = {1, "one turn", 0};
    gyre_report_chart chart = GYRE_REPORT_CHART_INIT;
    chart.title = "What the factor of each pair is worth";
    chart.x = (gyre_report_axis){"turns of the pair in the trained length", GYRE_REPORT_SCALE_LOG10, 0, 0};
    chart.y = (gyre_report_axis){"nats per scored token", GYRE_REPORT_SCALE_LINEAR, 0, 0};
    chart.markers = &once;
    chart.markers_count = 1;
    chart_lines_draw(&lines, page, &chart,
                     "Held-out windows, with 95 % of a paired bootstrap. The model has seen every angle of a pair that "
                     "turns more than once, and a pair that hardly turns is the same everywhere.");
}

static void window_chart(const search_report *r, gyre_report_page *page) {
    chart_lines lines = {.count = 0};
    for (int64_t i = 0; i < r->rows_count; i++) {
        begin_line(r, i, &lines);
        for (int64_t k = 0; k < r->windows->held_out_count; k++)
            chart_point(&lines, (double)(k + 1), exp(r->rows[i].nats[k]));
    }
    gyre_report_chart chart = GYRE_REPORT_CHART_INIT;
    chart.title = "Perplexity of each held-out window";
    chart.x = (gyre_report_axis){"held-out window, in order of the text", GYRE_REPORT_SCALE_LINEAR, 0, 0};
    chart.y = (gyre_report_axis){"perplexity per token", GYRE_REPORT_SCALE_LOG10, 0, 0};
    chart.style = GYRE_REPORT_CHART_STYLE_POINTS;
    chart_lines_draw(&lines, page, &chart,
                     "Windows differ more than methods do; that is why gains are taken window by window.");
}

/* -- the page -- */
gyre_status search_write_page(const search_report *r, const char *path, gyre_error *err) {
    gyre_report_page *page = NULL;
    char date[REPORT_DATE];
    const gyre_status status = gyre_report_page_create(&page, "gyre search: factors for each pair", err);
    if (status) return status;
    answer(r, page);
    (void)gyre_report_page_section(page, "Perplexity");
    result_table_add(search_table(r), page);
    (void)gyre_report_page_section(page, "Factors");
    factor_chart(r, page);
    if (r->pairs_count > 0) worth_chart(r, page);
    (void)gyre_report_page_section(page, "Windows");
    window_chart(r, page);
    protocol(r, page);
    run_card_foot(r->card, report_date(date), page);
    return report_page_end(page, status, path, err);
}
