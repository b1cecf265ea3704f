/* search_pairs.c: gyre search --pairs: which pairs' factors matter.  On the held-out windows each pair alone is set back
 * to its trained frequency, and each pair alone is divided. */
#include "tools/search/search.h"
#include <stdlib.h>

/* nats[held-out windows] = losses under these factors. */
static gyre_status measure(search_work *w, const char *origin, const search_rescale *rescale, double *nats,
                           gyre_error *err) {
    const search_evaluation r = {"held-out", origin, rescale, w->space.pairs, -1, 0, w->windows.held_out_count};
    return search_evaluate_windows(w, &r, w->windows.held_out, nats, err);
}

static gyre_status measure_pair(search_work *w, int64_t pair, double *nats, gyre_error *err) {
    const search_report *r = w->report;
    const search_row *none = &r->rows[0], *found = &r->rows[r->rows_count - 1];
    const int64_t windows = w->windows.held_out_count;
    search_pair *out = &r->pairs[pair];
    search_rescale without = w->found.rescale, alone = {.attention = 1};
    for (int64_t i = 0; i < w->space.pairs; i++)
        alone.factor[i] = i == pair ? without.factor[i] : 1;
    out->factor = without.factor[pair];
    without.factor[pair] = 1;
    cli_progress_label(&w->progress, "pair %lld of %lld", (long long)pair + 1, (long long)w->space.pairs);
    gyre_status status = measure(w, "found, a pair as trained", &without, nats, err);
    if (!status) status = search_gain(nats, found->nats, windows, r->seed, &out->needed, err);
    if (status || w->base.rope.scaling != GYRE_SCALING_NONE) return status; /* none: its own scaling */
    out->has_alone = 1;
    status = measure(w, "a pair alone", &alone, nats, err);
    return status ? status : search_gain(none->nats, nats, windows, r->seed, &out->alone, err);
}

gyre_status search_evaluate_pairs(search_work *w, gyre_error *err) {
    search_report *r = w->report;
    const int64_t windows = w->windows.held_out_count;
    search_rotation rotation;
    double *nats = calloc((size_t)windows, sizeof *nats);
    gyre_status status = nats ? GYRE_OK : gyre_fail(err, GYRE_ENOMEM, "windows: out of memory (search)");
    r->pairs = calloc((size_t)w->space.pairs, sizeof *r->pairs);
    if (!status && !r->pairs) status = gyre_fail(err, GYRE_ENOMEM, "pairs: out of memory (search)");
    if (!status) status = search_rotation_init(&rotation, &w->base, w->trained, w->options->stretch.to, err);
    for (int64_t i = 0; i < w->space.pairs && !status; i++) {
        r->pairs[i].turns = (double)w->trained * rotation.unscaled[i] / (2 * 3.14159265358979323846);
        status = measure_pair(w, i, nats, err);
    }
    if (!status) r->pairs_count = w->space.pairs;
    free(nats);
    return status;
}

/* -- the result -- */

static int print_rows(const search_report *r, gyre_report_cell *cells, FILE *file) {
    enum { COLUMNS = 9 };
    static const gyre_report_column columns[COLUMNS] = {
        {"pair", NULL, NULL, 0, GYRE_REPORT_ALIGN_AUTO, GYRE_REPORT_EMPHASIS_NONE},
        {"turns", NULL, NULL, 3, GYRE_REPORT_ALIGN_AUTO, GYRE_REPORT_EMPHASIS_NONE},
        {"factor", NULL, NULL, 3, GYRE_REPORT_ALIGN_AUTO, GYRE_REPORT_EMPHASIS_NONE},
        {"mean", "as trained, costs", "%", 2, GYRE_REPORT_ALIGN_AUTO, GYRE_REPORT_EMPHASIS_NONE},
        {"from", "as trained, costs", "%", 2, GYRE_REPORT_ALIGN_AUTO, GYRE_REPORT_EMPHASIS_NONE},
        {"to", "as trained, costs", "%", 2, GYRE_REPORT_ALIGN_AUTO, GYRE_REPORT_EMPHASIS_NONE},
        {"mean", "alone divided, saves", "%", 2, GYRE_REPORT_ALIGN_AUTO, GYRE_REPORT_EMPHASIS_NONE},
        {"from", "alone divided, saves", "%", 2, GYRE_REPORT_ALIGN_AUTO, GYRE_REPORT_EMPHASIS_NONE},
        {"to", "alone divided, saves", "%", 2, GYRE_REPORT_ALIGN_AUTO, GYRE_REPORT_EMPHASIS_NONE}};
    gyre_report_table table = GYRE_REPORT_TABLE_INIT;
    gyre_error err = {0, ""};
    for (int64_t i = 0; i < r->pairs_count; i++) {
        const search_pair *p = &r->pairs[i];
        const double numbers[COLUMNS - 3] = {search_increase_percent(p->needed.mean), search_increase_percent(p->needed.low),
                                             search_increase_percent(p->needed.high), search_gain_percent(p->alone.mean),
                                             search_gain_percent(p->alone.low),       search_gain_percent(p->alone.high)};
        gyre_report_cell *c = &cells[i * COLUMNS];
        c[0] = gyre_report_cell_number((double)i);
        c[1] = gyre_report_cell_number(p->turns);
        c[2] = gyre_report_cell_number(p->factor);
        for (int k = 0; k < COLUMNS - 3; k++)
            c[3 + k] = k < 3 || p->has_alone ? gyre_report_cell_number(numbers[k]) : gyre_report_cell_missing();
    }
    table.columns = columns, table.columns_count = COLUMNS;
    table.cells = cells, table.rows = r->pairs_count;
    table.note =
        "turns: in the trained length; costs: if this pair of the result keeps its trained frequency; saves: if this "
        "pair alone is divided; of held-out perplexity";
    fprintf(file, "\n");
    return result_table_print(&table, file, &err) ? cli_fail_error(&err) : 0;
}

int search_print_pairs(const search_report *r, FILE *file) {
    enum { COLUMNS = 9 };
    if (r->pairs_count == 0) return 0;
    gyre_report_cell *cells = calloc((size_t)r->pairs_count, COLUMNS * sizeof *cells);
    if (!cells) return cli_fail("pairs: out of memory (search)");
    const int status = print_rows(r, cells, file);
    free(cells);
    return status;
}

static json_t *percents(double mean, double low, double high) {
    return json_pack("{s:f, s:[f, f]}", "percent", mean, "percent_interval", low, high);
}

json_t *search_json_of_pairs(const search_report *r) {
    json_t *rows = json_array();
    for (int64_t i = 0; i < r->pairs_count; i++) {
        const search_pair *p = &r->pairs[i];
        json_t *needed = percents(search_increase_percent(p->needed.mean), search_increase_percent(p->needed.low),
                                  search_increase_percent(p->needed.high));
        json_t *alone = p->has_alone ? percents(search_gain_percent(p->alone.mean), search_gain_percent(p->alone.low),
                                                search_gain_percent(p->alone.high))
                                     : json_null();
        (void)json_array_append_new(rows, json_pack("{s:I, s:f, s:f, s:o, s:o}", "pair", (json_int_t)i, "turns", p->turns,
                                                    "factor", p->factor, "as_trained_costs", needed, "alone_saves", alone));
    }
    return rows;
}
