/* search_print.c: perplexity of each method on the held-out windows, and the gain over it with its interval. */
#include "tools/search/search_print.h"
#include "report/report.h"
#include "tools/cli/cli.h"
#include "tools/cli/plain_stream.h"
#include "tools/common/model_path.h"
#include "tools/common/result_table.h"
#include <math.h>
#include <string.h>

double search_gain_percent(double nats) {
    return 100 * (1 - exp(-nats));
}

const search_row *search_best_simple(const search_report *r) {
    const search_row *best = &r->rows[0];
    for (int64_t i = 1; i < r->simple_count; i++)
        if (r->rows[i].mean < best->mean) best = &r->rows[i];
    return best;
}

int search_loses(const search_report *r) {
    return search_best_simple(r)->gain.mean < 0;
}

double search_increase_percent(double nats) {
    return 100 * expm1(nats) + 0.0;
}

void search_verdict(const search_report *r, char out[SEARCH_VERDICT]) {
    const search_row *simple = search_best_simple(r);
    const search_interval *g = &simple->gain;
    const int found = g->mean > 0;
    char percent[96];
    if (found)
        snprintf(percent, sizeof percent, "%.2f %% (%.2f to %.2f)", search_gain_percent(g->mean),
                 search_gain_percent(g->low), search_gain_percent(g->high));
    else
        snprintf(percent, sizeof percent, "%.2f %% (%.2f to %.2f)", search_increase_percent(-g->mean),
                 search_increase_percent(-g->high), search_increase_percent(-g->low));
    if (g->mean != 0 && g->low <= 0 && g->high >= 0)
        snprintf(out, SEARCH_VERDICT, "this text cannot distinguish found from %s, which needs no search: found is %s by %s",
                 simple->label, found ? "lower" : "higher", percent);
    else if (found)
        snprintf(out, SEARCH_VERDICT, "found is the best: lower than %s, the best that needs no search, by %s",
                 simple->label, percent);
    else if (g->mean < 0)
        snprintf(out, SEARCH_VERDICT, "%s is the best and needs no search: found is higher by %s", simple->label, percent);
    else
        snprintf(out, SEARCH_VERDICT, "%s is the best and needs no search: found is no lower", simple->label);
}

/* -- text -- */
static void print_header(const search_report *r, FILE *file) {
    const search_windows *w = r->windows;
    const model_input *in = r->card->input;
    char weights[16];
    cli_page_printf(file, "model     %s: %s weights, trained on %lld tokens, stretched to %lld\n",
                    plain_line(model_path_as_given(in->options->path)),
                    cli_format_count((double)gyre_model_parameters(in->model), weights), (long long)r->trained,
                    (long long)w->context);
    cli_page_printf(file, "text      %lld tokens in %lld file%s, fnv1a64:%016llx\n", (long long)w->tokens,
                    (long long)w->text.files, w->text.files == 1 ? "" : "s", (unsigned long long)w->text.hash);
    if (r->needles)
        cli_page_printf(file,
                        "windows   of %lld tokens with %lld key%s, only answers scored; %lld searched on, %lld held out\n",
                        (long long)w->context, (long long)r->needles, r->needles == 1 ? "" : "s",
                        (long long)w->searched_count, (long long)w->held_out_count);
    else
        cli_page_printf(
            file, "windows   of %lld tokens, the last %lld predictions scored; %lld searched on, %lld held out\n",
            (long long)w->context, (long long)w->stride, (long long)w->searched_count, (long long)w->held_out_count);
    cli_page_printf(
        file, "search    %lld individuals, %lld generation%s; %lld windows read, as many as %.1f evaluations; seed %llu\n\n",
        (long long)r->found->candidates, (long long)r->found->generations, r->found->generations == 1 ? "" : "s",
        (long long)r->found->spent, (double)r->found->spent / (double)w->searched_count, (unsigned long long)r->seed);
}

static void print_end(const search_report *r, FILE *file) {
    char verdict[SEARCH_VERDICT];
    cli_page page;
    FILE *lines = cli_page_begin(&page, file);
    search_verdict(r, verdict);
    fprintf(lines, "\nverdict   %s\n", verdict);
    fprintf(lines, "found     %s; attention factor %.6g; ", r->found->origin, r->found->rescale.attention);
    if (r->problem->space.starts_count) fprintf(lines, "start tokens %lld; ", (long long)r->found->rescale.start_tokens);
    fprintf(lines, "factors");
    for (int64_t i = 0; i < r->problem->space.pairs; i++)
        fprintf(lines, "%s%.6g", i ? ", " : " ", r->found->rescale.factor[i]);
    fputc('\n', lines);
    cli_page_end(&page);
    if (r->written) fprintf(file, "written   %s\n", plain_line(r->written));
    if (r->refused) fprintf(file, "written   nothing; --force writes the factors all the same\n");
    run_card_print(r->card, file);
}

void search_table_make(const search_report *r, search_table *out) {
    static const gyre_report_column columns[SEARCH_COLUMNS] = {
        {"method", NULL, NULL, 0, GYRE_REPORT_ALIGN_AUTO, GYRE_REPORT_EMPHASIS_NONE},
        {"searched", "perplexity", NULL, 4, GYRE_REPORT_ALIGN_AUTO, GYRE_REPORT_EMPHASIS_LOWEST},
        {"held out", "perplexity", NULL, 4, GYRE_REPORT_ALIGN_AUTO, GYRE_REPORT_EMPHASIS_LOWEST},
        {"mean", "found is lower by", "%", 2, GYRE_REPORT_ALIGN_AUTO, GYRE_REPORT_EMPHASIS_NONE},
        {"from", "found is lower by", "%", 2, GYRE_REPORT_ALIGN_AUTO, GYRE_REPORT_EMPHASIS_NONE},
        {"to", "found is lower by", "%", 2, GYRE_REPORT_ALIGN_AUTO, GYRE_REPORT_EMPHASIS_NONE}};
    *out = (search_table){.table = GYRE_REPORT_TABLE_INIT};
    for (int64_t i = 0; i < r->rows_count; i++) {
        const search_row *row = &r->rows[i];
        const int itself = i + 1 == r->rows_count;
        gyre_report_cell *c = &out->cells[i * SEARCH_COLUMNS];
        c[0] = gyre_report_cell_text(row->label);
        c[1] = gyre_report_cell_number(exp(row->searched));
        c[2] = gyre_report_cell_number(exp(row->mean));
        c[3] = itself ? gyre_report_cell_missing() : gyre_report_cell_number(search_gain_percent(row->gain.mean));
        c[4] = itself ? gyre_report_cell_missing() : gyre_report_cell_number(search_gain_percent(row->gain.low));
        c[5] = itself ? gyre_report_cell_missing() : gyre_report_cell_number(search_gain_percent(row->gain.high));
    }
    out->table.columns = columns;
    out->table.columns_count = SEARCH_COLUMNS;
    out->table.cells = out->cells;
    out->table.rows = r->rows_count;
    out->table.note = "lower by: on the held-out windows; from, to: 95 % of a paired bootstrap over them";
}

int search_print_table(const search_report *r, FILE *file) {
    search_table t;
    gyre_error err = {0, ""};
    search_table_make(r, &t);
    print_header(r, file);
    if (result_table_print(&t.table, file, &err)) return cli_fail_error(&err);
    if (search_print_pairs(r, file)) return CLI_FAILED;
    print_end(r, file);
    return 0;
}

/* -- JSON -- */
static json_t *json_of_factors(const search_report *r, const search_rescale *rescale) {
    return cli_json_numbers(rescale->factor, r->problem->space.pairs);
}

json_t *search_json_of_starts(const search_space *space) {
    json_t *list = space->starts_count ? json_array() : NULL;
    for (int64_t i = 0; i < space->starts_count; i++)
        json_array_append_new(list, json_integer((json_int_t)space->starts[i]));
    return list;
}

static json_t *json_of_verdict(const search_report *r) {
    const search_row *simple = search_best_simple(r);
    char text[SEARCH_VERDICT];
    search_verdict(r, text);
    return json_pack("{s:s, s:s, s:f, s:[f, f], s:s}", "best", simple->gain.mean > 0 ? "found" : simple->label, "simple",
                     simple->label, "percent", search_gain_percent(simple->gain.mean), "percent_interval",
                     search_gain_percent(simple->gain.low), search_gain_percent(simple->gain.high), "text", text);
}

static json_t *json_of_row(const search_report *r, const search_row *row, int itself) {
    const int own = row->rescale.attention == 0;
    json_t *out = json_pack("{s:s, s:f, s:f, s:o, s:o, s:o}", "method", row->label, "perplexity", exp(row->mean), "nats",
                            row->mean, "searched_perplexity", cli_json_number(exp(row->searched)), "attention_factor",
                            own ? json_null() : json_real(row->rescale.attention), "factors",
                            own ? json_null() : json_of_factors(r, &row->rescale));
    if (out && !itself)
        (void)json_object_set_new(out, "gain",
                                  json_pack("{s:f, s:[f, f], s:f, s:[f, f]}", "nats", row->gain.mean, "nats_interval",
                                            row->gain.low, row->gain.high, "percent", search_gain_percent(row->gain.mean),
                                            "percent_interval", search_gain_percent(row->gain.low),
                                            search_gain_percent(row->gain.high)));
    return out;
}

int search_print_json(const search_report *r, FILE *file) {
    const search_windows *w = r->windows;
    json_t *rows = json_array();
    for (int64_t i = 0; i < r->rows_count; i++)
        (void)json_array_append_new(rows, json_of_row(r, &r->rows[i], i + 1 == r->rows_count));
    json_t *search =
        json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o*}", "seed", (json_int_t)r->seed, "budget", (json_int_t)r->budget,
                  "windows", (json_int_t)w->searched_count, "windows_read", (json_int_t)r->found->spent, "individuals",
                  (json_int_t)r->found->candidates, "generations", (json_int_t)r->found->generations, "resamples",
                  (json_int_t)SEARCH_RESAMPLES, "start_tokens", search_json_of_starts(&r->problem->space));
    json_t *found = json_pack("{s:s, s:o, s:f, s:I, s:f, s:o}", "origin", r->found->origin, "factors",
                              json_of_factors(r, &r->found->rescale), "attention_factor", r->found->rescale.attention,
                              "start_tokens", (json_int_t)r->found->rescale.start_tokens, "searched_nats", r->found->mean,
                              "written", cli_json_text(r->written));
    return cli_json_write(
        file, json_pack("{s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o*}", "card", run_card_json(r->card),
                        "trained_length", (json_int_t)r->trained, "to", (json_int_t)w->context, "stride",
                        (json_int_t)w->stride, "needles", (json_int_t)r->needles, "tokens", (json_int_t)w->tokens,
                        "held_out_windows", (json_int_t)w->held_out_count, "search", search, "found", found, "verdict",
                        json_of_verdict(r), "results", rows, "pairs", r->pairs_count ? search_json_of_pairs(r) : NULL));
}
