/* cmd_search.c: gyre search: factors for a model's pairs that predict a text best at a longer context. */
#include "gyre/gyre_fields.h"
#include "tools/search/search.h"
#include "tools/subcommands.h"
#include "tools/team/team.h"
#include <math.h>
#include <stdlib.h>

/* -- the model -- */
static int check_model(search_work *w) {
    const search_options *o = w->options;
    const gyre_config *base = &w->base;
    if (!gyre_kind_has(base->kind, GYRE_TRAIT_ROTATES))
        return cli_fail("positions: %s does not rotate, so there are no frequencies to search for (%s)",
                        gyre_kind_name(base->kind), o->model.path);
    if (base->rope.dim / 2 > SEARCH_PAIRS)
        return cli_fail("positions: %lld pairs, more than the %d of any known model (%s)", (long long)base->rope.dim / 2,
                        SEARCH_PAIRS, o->model.path);
    if (base->rope.scaling == GYRE_SCALING_PROPORTIONAL)
        return cli_fail("positions: some pairs of this model do not rotate, but a search rotates all (%s)", o->model.path);
    const int divides = base->rope.scaling == GYRE_SCALING_LINEAR && base->rope.factor > 1;
    w->trained = o->stretch.trained ? o->stretch.trained : base->trained_length;
    /* A linear scaling states the length that it reaches. */
    if (!o->stretch.trained && divides) w->trained = (int64_t)llround((double)base->trained_length / base->rope.factor);
    return stretch_check_length(&o->stretch, w->trained, o->model.path);
}

static int open_model(search_work *w) {
    gyre_error err = {0, ""};
    if (model_input_open(&w->input, &w->options->model, w->options->stretch.to, &err)) return cli_fail_error(&err);
    w->base = *gyre_encoding_get_config(gyre_model_get_encoding(w->input.model));
    return check_model(w);
}

static int read_texts(search_work *w) {
    const search_options *o = w->options;
    const search_window_options layout = {o->stretch.to, o->stride, o->windows, o->held_out, o->seed};
    gyre_error err = {0, ""};
    gyre_status status = model_input_read(&w->input, 1, &err);
    if (!status) status = search_windows_create(w->input.texts, w->input.texts_count, &layout, &w->windows, &err);
    if (!status && o->needles) status = search_needles_hide(&w->windows, w->input.tokenizer, o->needles, o->seed, &err);
    return status ? cli_fail_error(&err) : 0;
}

/* -- the search -- */
static void on_generation(void *ctx, int64_t generation, int64_t spent, const search_candidate *best) {
    search_work *w = ctx;
    (void)spent;
    cli_progress_label(&w->progress, "generation %lld, perplexity %.4f", (long long)generation, exp(best->mean));
}

/* Some rotations take no start tokens: those that move positions. */
static gyre_status check_starts(const search_work *w, gyre_error *err) {
    if (w->space.starts_count == 0) return GYRE_OK;
    search_rescale most = w->initial[SEARCH_INITIAL_LINEAR].rescale;
    gyre_config config;
    gyre_encoding *encoding = NULL;
    most.start_tokens = w->space.starts[w->space.starts_count - 1];
    search_rescale_config(&most, w->ones, &w->base, w->trained, w->options->stretch.to, &config);
    config.rope.table_positions = GYRE_NO_TABLE;
    const gyre_status status = gyre_encoding_create(&encoding, &config, NULL, err);
    gyre_encoding_free(encoding);
    return status;
}

/* Sets up the initial candidates and checks that the budget is enough for them. */
static int plan(search_work *w) {
    const search_options *o = w->options;
    const int64_t to = o->stretch.to;
    gyre_error err = {0, ""};
    w->space = search_space_of(w->base.rope.dim / 2, w->trained, to, o->attention);
    if (o->starts_count) search_space_add_starts(&w->space, o->starts, o->starts_count);
    for (int64_t i = 0; i < SEARCH_PAIRS; i++)
        w->ones[i] = 1;
    w->problem = (search_problem){.space = w->space,
                                  .initial = w->initial,
                                  .windows = w->windows.searched_count,
                                  .budget = o->budget * w->windows.searched_count,
                                  .seed = o->seed,
                                  .measure = search_measure,
                                  .prepare = search_prepare,
                                  .on_generation = on_generation,
                                  .ctx = w};
    if (search_initial_candidates(&w->space, &w->base, w->trained, to, w->initial, &w->problem.initial_count, &err))
        return cli_fail_error(&err);
    if (check_starts(w, &err)) return cli_fail_error(&err);
    if (o->needles) search_initial_critical(&w->space, &w->base, w->trained, to, w->initial, &w->problem.initial_count);
    if (w->problem.budget < search_min_budget(&w->problem))
        return cli_fail(
            "--budget: %lld evaluations are too few for the %lld methods that the search begins with; %lld is the "
            "smallest budget (search)",
            (long long)o->budget, (long long)w->problem.initial_count,
            (long long)(search_min_budget(&w->problem) / w->problem.windows));
    *w->report = (search_report){.card = &w->card,
                                 .windows = &w->windows,
                                 .problem = &w->problem,
                                 .found = &w->found,
                                 .trained = w->trained,
                                 .budget = o->budget,
                                 .seed = o->seed,
                                 .needles = o->needles};
    return team_leads() ? search_try_config(w) : 0;
}

json_t *search_identity(const search_work *w) {
    const search_options *o = w->options;
    return json_pack(
        "{s:i, s:s, s:s, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o*, s:o*}", "gyre_search", 1, "model", w->card.model_hash,
        "config", w->card.config_hash, "text", cli_json_hash(w->windows.text.hash), "trained_length", (json_int_t)w->trained,
        "to", (json_int_t)o->stretch.to, "stride", (json_int_t)o->stride, "windows", (json_int_t)w->windows.searched_count,
        "held_out", (json_int_t)w->windows.held_out_count, "seed", (json_int_t)o->seed, "attention_factor",
        o->attention != 0 ? json_real(o->attention) : json_null(), "needles",
        o->needles ? json_integer((json_int_t)o->needles) : NULL, "start_tokens", search_json_of_starts(&w->space));
}

static gyre_status search(search_work *w, gyre_error *err) {
    const search_options *o = w->options;
    json_t *header = search_identity(w);
    gyre_status status = header ? GYRE_OK : gyre_fail(err, GYRE_ENOMEM, "journal: out of memory (search)");
    if (!status) status = search_journal_open(&w->journal, o->run.journal, header, o->common.force, err);
    cli_defer_signals(); /* from here on, a stopped search leaves a journal */
    cli_progress_begin(
        &w->progress, "seeds", "tokens",
        (w->problem.budget + (SEARCH_ROWS + (o->pairs ? 2 * w->space.pairs : 0)) * w->windows.held_out_count) *
            o->stretch.to);
    if (!status) status = search_run(&w->problem, &w->found, err);
    if (!status) status = search_evaluate_held_out(w, err);
    if (!status && o->pairs) status = search_evaluate_pairs(w, err);
    if (!status) status = search_journal_finish(w->journal, err);
    cli_progress_end(&w->progress);
    search_journal_close(w->journal);
    json_decref(header);
    return status;
}

static int search_and_print(search_work *w, const cli_output *output) {
    const search_options *o = w->options;
    const char *write = o->stretch.write;
    gyre_error err = {0, ""};
    const int status = cli_pool_open(&o->common, &w->pool, &w->exec);
    if (status) return status;
    if (search(w, &err)) return cli_fail_error(&err);
    w->report->refused = write && !o->even_if_worse && search_loses(w->report);
    if (write && !w->report->refused && team_leads()) {
        if (search_write_result(w, &w->found.rescale, &err)) return cli_fail_error(&err);
        w->report->written = w->target.path;
    }
    if (o->run.report && team_leads() && search_write_page(w->report, o->run.report, &err)) return cli_fail_error(&err);
    return o->common.json ? search_print_json(w->report, output->file) : search_print_table(w->report, output->file);
}

/* -- the subcommand -- */
static void release(search_work *w) {
    for (int64_t i = 0; i < w->report->rows_count; i++)
        free(w->report->rows[i].nats);
    free(w->report->pairs);
    free(w->found.nats);
    search_windows_free(&w->windows);
    gyre_pool_free(w->pool);
    model_input_free(&w->input);
    free(w);
}

static int run(search_work *w, int argc, char **argv) {
    const search_options *o = w->options;
    gyre_error err = {0, ""};
    int status = team_leads() ? search_check_target(o) : 0;
    if (!status && run_options_check_targets(&o->run, &err)) status = cli_fail_error(&err);
    if (!status) status = open_model(w);
    if (!status) status = read_texts(w);
    if (!status && !o->temperature) status = plan(w);
    if (!status && run_card_make(&w->card, &w->input, "search", argc, argv, &err)) status = cli_fail_error(&err);
    if (status) return status;
    cli_output output;
    status = cli_output_open(&output, o->common.output);
    if (!status)
        status =
            cli_output_close(&output, o->temperature ? search_temperature(w, output.file) : search_and_print(w, &output));
    if (!status && w->report->refused)
        status = cli_fail("--write: nothing written, %s needs no search and is better on the held-out text; "
                          "--even-if-worse writes the factors (%s)",
                          search_best_simple(w->report)->label, o->stretch.write);
    return status;
}

int cmd_search(int argc, char **argv) {
    search_options options;
    search_options_read(argc, argv, &options);
    search_report report = {.rows_count = 0};
    search_work *w = cli_alloc(1, sizeof *w);
    w->options = &options;
    w->report = &report;
    const int status = run(w, argc, argv);
    release(w);
    model_options_free(&options.model);
    return status;
}
