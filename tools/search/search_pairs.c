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
    double *nats = cli_alloc(windows, sizeof *nats);
    r->pairs = cli_alloc(w->space.pairs, sizeof *r->pairs);
    gyre_status status = search_rotation_init(&rotation, &w->base, w->trained, w->options->stretch.to, err);
    for (int64_t i = 0; i < w->space.pairs && !status; i++) {
        r->pairs[i].turns = (double)w->trained * rotation.unscaled[i] / (2 * 3.14159265358979323846);
        status = measure_pair(w, i, nats, err);
    }
    if (!status) r->pairs_count = w->space.pairs;
    free(nats);
    return status;
}

/* -- the result -- */
json_t *search_json_of_pairs(const search_report *r) {
    json_t *rows = json_array();
    for (int64_t i = 0; i < r->pairs_count; i++) {
        const search_pair *p = &r->pairs[i];
        (void)json_array_append_new(rows, JSON_OBJECT("pair", JSON(i), "turns", JSON(p->turns), "factor", JSON(p->factor),
                                                      "as_trained_costs", search_json_of_increase(&p->needed), "alone_saves",
                                                      p->has_alone ? search_json_of_gain(&p->alone) : json_null()));
    }
    return rows;
}

int search_print_pairs(const search_report *r, FILE *file) {
    static const char costs[] = "as trained, costs", saves[] = "alone divided, saves";
    static const result_field fields[] = {
        {"pair", {.title = "pair"}, NULL},
        {"turns", {.title = "turns", .decimals = 3}, NULL},
        {"factor", {.title = "factor", .decimals = 3}, NULL},
        {"as_trained_costs.percent", {.title = "mean", .group = costs, .unit = "%", .decimals = 2}, NULL},
        {"as_trained_costs.percent_interval.0", {.title = "from", .group = costs, .unit = "%", .decimals = 2}, NULL},
        {"as_trained_costs.percent_interval.1", {.title = "to", .group = costs, .unit = "%", .decimals = 2}, NULL},
        {"alone_saves.percent", {.title = "mean", .group = saves, .unit = "%", .decimals = 2}, NULL},
        {"alone_saves.percent_interval.0", {.title = "from", .group = saves, .unit = "%", .decimals = 2}, NULL},
        {"alone_saves.percent_interval.1", {.title = "to", .group = saves, .unit = "%", .decimals = 2}, NULL}};
    result_table t = result_table_of(search_json_of_pairs(r), fields, sizeof fields / sizeof *fields);
    t.table.note = "turns: in the trained length; costs: if this pair of the result keeps its trained frequency; saves: if "
                   "this pair alone is divided; of held-out perplexity";
    fprintf(file, "\n");
    return result_table_show(t, file);
}
