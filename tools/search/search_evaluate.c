/* search_evaluate.c: the losses of candidates on windows of the text. */
#include "tools/search/search.h"
#include "tools/team/team.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* rescale->attention 0: the model as its own config says. */
static gyre_status make_encoding(const search_work *w, const search_rescale *rescale, gyre_encoding **out, gyre_error *err) {
    gyre_config config = w->base;
    config.context_length = w->options->stretch.to;
    if (rescale->attention != 0)
        search_rescale_config(rescale, w->ones, &w->base, w->trained, w->options->stretch.to, &config);
    config.rope.table_positions = w->options->stretch.to;
    return gyre_encoding_create(out, &config, NULL, err);
}

/* team: shares the windows; NULL = this process reads all. */
static gyre_status evaluate(search_work *w, const search_evaluation *r, const int64_t *starts, double *nats,
                            const gyre_team *team, gyre_error *err) {
    gyre_encoding *encoding = NULL;
    gyre_eval_options eval = GYRE_INIT(gyre_eval_options);
    gyre_eval_result all;
    eval.context = w->options->stretch.to;
    eval.stride = w->options->stride;
    eval.windows = r->count;
    eval.starts = starts + r->from;
    eval.by_window = nats;
    eval.counted = w->windows.counted;
    eval.watcher = (gyre_watcher){team_progress_step, cli_stops, &w->progress};
    eval.team = team;
    gyre_status status = make_encoding(w, r->rescale, &encoding, err);
    eval.encoding = encoding;
    if (!status) status = gyre_evaluate(w->input.model, &w->windows.text, &eval, &all, &w->exec, err);
    gyre_encoding_free(encoding);
    return method_name_failure(status, r->origin, eval.context, err);
}

/* What is measured is in the journal, and the same steps find it there. */
static gyre_status fail_stopped(const search_work *w, gyre_error *err) {
    const char *journal = w->options->run.journal;
    return gyre_fail(err, GYRE_EIO, "stopped: %s (%s)",
                     journal ? "the same command continues from here" : "nothing is kept without --journal",
                     journal ? journal : "search");
}

/* The same with the journal: windows r->from .. of starts[].  Ctrl-C ends the search here, before a measurement. */
gyre_status search_evaluate_windows(search_work *w, const search_evaluation *r, const int64_t *starts, double *nats,
                                    gyre_error *err) {
    w->planned += r->count * w->options->stretch.to;
    gyre_status status = GYRE_OK;
    if (!search_journal_find(w->journal, r, nats)) {
        if (cli_interrupted()) return fail_stopped(w, err);
        status = evaluate(w, r, starts, nats, team_get(), err);
        if (status && cli_interrupted()) return fail_stopped(w, err);
        if (!status) status = search_journal_add(w->journal, r, nats, err);
    }
    cli_progress_set(&w->progress, w->planned);
    return status;
}

gyre_status search_measure(void *ctx, const search_candidate *x, int64_t from, int64_t count, double *nats,
                           gyre_error *err) {
    search_work *w = ctx;
    const search_evaluation r = {"search", x->origin, &x->rescale, w->space.pairs, x->id, from, count};
    return search_evaluate_windows(w, &r, w->windows.searched, nats, err);
}

/* -- several processes -- */
static search_evaluation evaluation_of(const search_work *w, const search_candidate *x, int64_t to) {
    // A full round has no NULL.  NOLINTNEXTLINE(clang-analyzer-core.NullDereference)
    return (search_evaluation){"search", x->origin, &x->rescale, w->space.pairs, x->id, x->measured, to - x->measured};
}

/* Each process measures one of the candidates x[0 .. ranks - 1]; the journal gets all, in order. */
static gyre_status measure_round(search_work *w, const search_candidate *const *x, int64_t to, double *nats,
                                 gyre_error *err) {
    const gyre_team *team = team_get();
    const search_evaluation own = evaluation_of(w, x[team->rank], to);
    if (cli_interrupted()) return fail_stopped(w, err);
    gyre_status status = evaluate(w, &own, w->windows.searched, nats + team->rank * to, NULL, err);
    status = team->gather(team->ctx, status, nats, team->ranks, (size_t)to * sizeof *nats, err);
    if (status && cli_interrupted()) return fail_stopped(w, err);
    for (int64_t r = 0; r < team->ranks && !status; r++) {
        const search_evaluation line = evaluation_of(w, x[r], to);
        status = search_journal_add(w->journal, &line, nats + r * to, err);
    }
    return status;
}

/* Candidates are dealt out as long as there is one for each process.  The windows of the last ones are dealt out instead,
 * when search_measure comes to them. */
gyre_status search_prepare(void *ctx, const search_candidate *x, int64_t count, int64_t to, gyre_error *err) {
    search_work *w = ctx;
    const gyre_team *team = team_get();
    const search_candidate *round[SEARCH_MAX_INITIAL] = {NULL};
    gyre_status status = GYRE_OK;
    if (!team || team->ranks > SEARCH_MAX_INITIAL) return GYRE_OK;
    double *nats = calloc((size_t)(team->ranks * to), 2 * sizeof *nats), *known = nats ? nats + team->ranks * to : NULL;
    status = team_agree(nats ? GYRE_OK : gyre_fail(err, GYRE_ENOMEM, "windows: out of memory (search)"), err);
    for (int64_t i = 0, n = 0; i < count && !status; i++) {
        const search_evaluation r = evaluation_of(w, &x[i], to);
        if (r.count < 1 || search_journal_find(w->journal, &r, known)) continue;
        round[n++] = &x[i];
        if (n < team->ranks) continue;
        status = measure_round(w, round, to, nats, err);
        n = 0;
    }
    free(nats);
    return status;
}

/* -- the held-out windows -- */
static void add_row(search_report *report, const char *label, const search_rescale *rescale, double searched) {
    search_row *row = &report->rows[report->rows_count++];
    snprintf(row->label, sizeof row->label, "%s", label);
    row->rescale = *rescale;
    row->searched = searched;
}

/* out = YaRN with the betas that did best on the windows searched on. */
static const search_initial *best_yarn(const search_work *w) {
    int64_t best = SEARCH_INITIAL_YARN;
    for (int64_t i = SEARCH_INITIAL_OTHERS; i < w->problem.initial_count; i++)
        if (w->found.initial_mean[i] < w->found.initial_mean[best]) best = i;
    return &w->initial[best];
}

static void list_rows(search_work *w) {
    const search_rescale own = {.attention = 0};
    const search_initial *best = best_yarn(w);
    search_report *report = w->report;
    /* A scaling of the model itself may be outside the space, and then its candidate differs. */
    const int unscaled = w->base.rope.scaling == GYRE_SCALING_NONE && w->space.attention_min <= 1;
    add_row(report, "none", &own, unscaled ? w->found.initial_mean[SEARCH_INITIAL_NONE] : (double)NAN);
    for (int i = SEARCH_INITIAL_NONE + 1; i < SEARCH_INITIAL_OTHERS; i++)
        add_row(report, w->initial[i].origin, &w->initial[i].rescale, w->found.initial_mean[i]);
    report->simple_count = report->rows_count;
    if (best != &w->initial[SEARCH_INITIAL_YARN])
        add_row(report, best->origin, &best->rescale, w->found.initial_mean[best - w->initial]);
    if (w->found.rescale.start_tokens) {
        search_rescale without = w->found.rescale;
        without.start_tokens = 0;
        add_row(report, "found, no start tokens", &without, (double)NAN);
    }
    add_row(report, "found", &w->found.rescale, w->found.mean);
}

static gyre_status evaluate_row(search_work *w, search_row *row, gyre_error *err) {
    const int64_t count = w->windows.held_out_count;
    const search_evaluation r = {"held-out", row->label, &row->rescale, w->space.pairs, -1, 0, count};
    row->nats = cli_alloc(count, sizeof *row->nats);
    cli_progress_label(&w->progress, "held out: %s", row->label);
    const gyre_status status = search_evaluate_windows(w, &r, w->windows.held_out, row->nats, err);
    for (int64_t i = 0; i < count; i++)
        row->mean += row->nats[i] / (double)count;
    return status;
}

gyre_status search_evaluate_held_out(search_work *w, gyre_error *err) {
    search_report *r = w->report;
    gyre_status status = GYRE_OK;
    list_rows(w);
    for (int64_t i = 0; i < r->rows_count && !status; i++)
        status = evaluate_row(w, &r->rows[i], err);
    const search_row *found = &r->rows[r->rows_count - 1];
    for (int64_t i = 0; i + 1 < r->rows_count && !status; i++)
        status = search_gain(r->rows[i].nats, found->nats, w->windows.held_out_count, r->seed, &r->rows[i].gain, err);
    return status;
}
