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
    if (r->refused) fprintf(file, "written   nothing; --even-if-worse writes the factors all the same\n");
    run_card_print(r->card, file);
}

/* -- the tree of results -- */
static json_t *json_of_gain(double mean, double low, double high) {
    return JSON_OBJECT("percent", JSON(mean), "percent_interval", json_pack("[f, f]", low, high));
}

json_t *search_json_of_gain(const search_interval *g) {
    return json_of_gain(search_gain_percent(g->mean), search_gain_percent(g->low), search_gain_percent(g->high));
}

json_t *search_json_of_increase(const search_interval *g) {
    return json_of_gain(search_increase_percent(g->mean), search_increase_percent(g->low), search_increase_percent(g->high));
}

static json_t *json_of_factors(const search_report *r, const search_rescale *rescale) {
    return cli_json_numbers(rescale->factor, r->problem->space.pairs);
}

json_t *search_json_of_starts(const search_space *space) {
    return space->starts_count ? cli_json_integers(space->starts, space->starts_count) : NULL;
}

static json_t *json_of_verdict(const search_report *r) {
    const search_row *simple = search_best_simple(r);
    char text[SEARCH_VERDICT];
    search_verdict(r, text);
    json_t *out = JSON_OBJECT("best", JSON(simple->gain.mean > 0 ? "found" : simple->label), "simple", JSON(simple->label));
    (void)json_object_update_new(out, search_json_of_gain(&simple->gain));
    JSON_ADD(out, "text", JSON(text));
    return out;
}

static json_t *json_of_rows(const search_report *r) {
    json_t *rows = json_array();
    for (int64_t i = 0; i < r->rows_count; i++) {
        const search_row *row = &r->rows[i];
        const int own = row->rescale.attention == 0;
        json_t *out = JSON_OBJECT("method", JSON(row->label), "perplexity", JSON(exp(row->mean)), "nats", JSON(row->mean),
                                  "searched_perplexity", JSON(exp(row->searched)), "attention_factor",
                                  JSON(own ? (double)NAN : row->rescale.attention), "factors",
                                  own ? json_null() : json_of_factors(r, &row->rescale));
        if (i + 1 < r->rows_count) {
            json_t *gain = JSON_OBJECT("nats", JSON(row->gain.mean), "nats_interval",
                                       json_pack("[f, f]", row->gain.low, row->gain.high));
            (void)json_object_update_new(gain, search_json_of_gain(&row->gain));
            JSON_ADD(out, "gain", gain);
        }
        (void)json_array_append_new(rows, out);
    }
    return rows;
}

int search_print_json(const search_report *r, FILE *file) {
    const search_windows *w = r->windows;
    const search_result *f = r->found;
    json_t *search =
        JSON_OBJECT("seed", JSON(r->seed), "budget", JSON(r->budget), "windows", JSON(w->searched_count), "windows_read",
                    JSON(f->spent), "individuals", JSON(f->candidates), "generations", JSON(f->generations), "resamples",
                    JSON(SEARCH_RESAMPLES), "start_tokens", search_json_of_starts(&r->problem->space));
    json_t *found = JSON_OBJECT("origin", JSON(f->origin), "factors", json_of_factors(r, &f->rescale), "attention_factor",
                                JSON(f->rescale.attention), "start_tokens", JSON(f->rescale.start_tokens), "searched_nats",
                                JSON(f->mean), "written", JSON(r->written));
    return cli_json_write(file, JSON_OBJECT("card", run_card_json(r->card), "trained_length", JSON(r->trained), "to",
                                            JSON(w->context), "stride", JSON(w->stride), "needles", JSON(r->needles),
                                            "tokens", JSON(w->tokens), "held_out_windows", JSON(w->held_out_count), "search",
                                            search, "found", found, "verdict", json_of_verdict(r), "results",
                                            json_of_rows(r), "pairs", r->pairs_count ? search_json_of_pairs(r) : NULL));
}

/* -- as a table -- */
result_table search_table(const search_report *r) {
    static const char lower[] = "found is lower by", of[] = "perplexity";
    static const result_field fields[] = {
        {"method", {.title = "method"}, NULL},
        {"searched_perplexity",
         {.title = "searched", .group = of, .decimals = 4, .emphasis = GYRE_REPORT_EMPHASIS_LOWEST},
         NULL},
        {"perplexity", {.title = "held out", .group = of, .decimals = 4, .emphasis = GYRE_REPORT_EMPHASIS_LOWEST}, NULL},
        {"gain.percent", {.title = "mean", .group = lower, .unit = "%", .decimals = 2}, NULL},
        {"gain.percent_interval.0", {.title = "from", .group = lower, .unit = "%", .decimals = 2}, NULL},
        {"gain.percent_interval.1", {.title = "to", .group = lower, .unit = "%", .decimals = 2}, NULL}};
    result_table t = result_table_of(json_of_rows(r), fields, sizeof fields / sizeof *fields);
    t.table.note = "lower by: on the held-out windows; from, to: 95 % of a paired bootstrap over them";
    return t;
}

int search_print_table(const search_report *r, FILE *file) {
    print_header(r, file);
    int status = result_table_show(search_table(r), file);
    if (!status && r->pairs_count) status = search_print_pairs(r, file);
    if (!status) print_end(r, file);
    return status;
}
