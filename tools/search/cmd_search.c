/* cmd_search.c: gyre search: factors for a model's pairs that predict a text best at a longer context. */
#include "tools/common/cli.h"
#include "tools/common/methods.h"
#include "tools/common/model_input.h"
#include "tools/common/report_target.h"
#include "tools/common/run_card.h"
#include "tools/search/search_initial.h"
#include "tools/search/search_journal.h"
#include "tools/search/search_print.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct search_options {
    cli_options common;
    model_options model;
    const char *journal, *write;
    int64_t to, trained, budget, windows, held_out, stride; /* trained, stride 0 = the model's, half of to */
    uint64_t seed;
    double attention; /* 0 = searched */
} search_options;

/* All that the work needs. */
typedef struct search_work {
    const search_options *options;
    model_input input;
    run_card card;
    gyre_config base; /* of the model's rotation */
    int64_t trained;
    search_windows windows;
    search_space space;
    search_initial initial[SEARCH_MAX_INITIAL];
    double ones[SEARCH_PAIRS];
    gyre_pool *pool;
    gyre_exec exec;
    search_journal *journal;
    cli_progress progress;
    int64_t planned; /* tokens, of the readings up to now */
    search_problem problem;
    search_result found;
    search_report *report;
} search_work;

/* -- options -- */
enum {
    KEY_TO = CLI_FIRST_KEY,
    KEY_BUDGET,
    KEY_WINDOWS,
    KEY_HELD_OUT,
    KEY_STRIDE,
    KEY_SEED,
    KEY_ATTENTION,
    KEY_TRAINED,
    KEY_JOURNAL,
    KEY_WRITE
};

static const int64_t token_limit = (int64_t)1 << 31; /* positions end there */

static const struct argp_option option_table[] = {
    {"to", KEY_TO, "N", 0, "The context length wanted, in tokens; 4k is 4096", 1},
    TEXT_OPTIONS(1),
    MODEL_OPTIONS(5),
    {"budget", KEY_BUDGET, "N", 0,
     "What the search may cost: as many windows as N evaluations of all of them read (default: 50)", 2},
    {"windows", KEY_WINDOWS, "N", 0, "Windows to search on, at most (default: 32)", 2},
    {"held-out", KEY_HELD_OUT, "N", 0, "Windows to judge the result on, at most, beside the budget (default: 32)", 2},
    {"stride", KEY_STRIDE, "N", 0,
     "Tokens from window to window; the last N predictions of each are scored (default: half of --to)", 2},
    {"seed", KEY_SEED, "N", 0, "Of all that is drawn (default: 1)", 3},
    {"attention-factor", KEY_ATTENTION, "X", 0,
     "What cosines and sines are multiplied by (default: searched with the factors)", 3},
    {"trained", KEY_TRAINED, "N", 0,
     "Tokens that the model was trained on, before any scaling (default: as its config says)", 3},
    {"journal", KEY_JOURNAL, "FILE", 0,
     "Write each reading to this file, a line each; a search with such a file goes on from it, with the same result as one "
     "that was never stopped. A larger --budget may follow",
     4},
    {"write", KEY_WRITE, "PATH", 0,
     "Write the model's config, changed for what was found (rope_scaling: longrope), to this file, or as config.json into "
     "this folder. Never the model's own file",
     4},
    {0}};

static const char documentation[] =
    "Finds, for each pair of a rotation, what to divide its frequency by so that the model predicts a text best at a longer "
    "context, as LongRoPE does: position interpolation, NTK and YaRN are varied and mixed, the factors never falling along "
    "the pairs. " MODEL_HELP "\v"
    "Stretches of the text are searched on and held out in turn. The perplexity of the known methods and of what was found "
    "is that of the latter.\n"
    "Example: gyre search models/rope --text README.md --to 1k --budget 100 --write found.json";

static error_t parse_option(int key, char *text, struct argp_state *state) {
    search_options *o = state->input;
    switch (key) {
    case ARGP_KEY_ARG:
        if (o->model.path) return ARGP_ERR_UNKNOWN;
        o->model.path = text;
        return 0;
    case KEY_TO:
        o->to = cli_integer("--to", text, 2, token_limit);
        return 0;
    case KEY_BUDGET:
        o->budget = cli_integer("--budget", text, 1, 1000000);
        return 0;
    case KEY_WINDOWS:
        o->windows = cli_integer("--windows", text, 1, 100000);
        return 0;
    case KEY_HELD_OUT:
        o->held_out = cli_integer("--held-out", text, 2, 100000);
        return 0;
    case KEY_STRIDE:
        o->stride = cli_integer("--stride", text, 1, token_limit);
        return 0;
    case KEY_SEED:
        o->seed = (uint64_t)cli_integer("--seed", text, 0, INT64_MAX);
        return 0;
    case KEY_ATTENTION:
        o->attention = cli_number("--attention-factor", text, 0.1, 10);
        return 0;
    case KEY_TRAINED:
        o->trained = cli_integer("--trained", text, 4, token_limit);
        return 0;
    case KEY_JOURNAL:
        o->journal = text;
        return 0;
    case KEY_WRITE:
        o->write = text;
        return 0;
    default:
        return model_option(&o->model, key, text);
    }
}

static void read_options(int argc, char **argv, search_options *o) {
    const struct argp argp = {.options = option_table, .parser = parse_option, .args_doc = "MODEL", .doc = documentation};
    *o = (search_options){.budget = 50, .windows = 32, .held_out = 32, .seed = 1};
    model_options_begin(&o->model, argc);
    cli_parse(&argp, CLI_THREADS | CLI_JSON | CLI_OUTPUT, argc, argv, &o->common);
    model_options_check(&o->model, 1);
    if (!o->to) cli_usage_error("--to: missing; name the context length wanted, such as 4k");
    if (o->stride > o->to) cli_usage_error("--stride: %lld is above --to %lld", (long long)o->stride, (long long)o->to);
    if (o->write && !*o->write) cli_usage_error("--write: the name of the file is empty");
    if (o->journal && !*o->journal) cli_usage_error("--journal: the name of the file is empty");
    if (!o->stride) o->stride = o->to / 2;
}

/* -- the model -- */
static int check_model(search_work *w) {
    const search_options *o = w->options;
    const gyre_config *base = &w->base;
    if (base->kind != GYRE_KIND_ROPE)
        return cli_fail("positions: %s do not rotate, so there are no frequencies to search for (%s)",
                        gyre_kind_name(base->kind), o->model.path);
    if (base->rope.dim / 2 > SEARCH_PAIRS)
        return cli_fail("positions: %lld pairs, more than the %d of any known model (%s)", (long long)base->rope.dim / 2,
                        SEARCH_PAIRS, o->model.path);
    if (base->rope.scaling == GYRE_SCALING_PROPORTIONAL)
        return cli_fail("positions: some pairs of this model stand still, and a search turns all (%s)", o->model.path);
    const int divides = base->rope.scaling == GYRE_SCALING_LINEAR && base->rope.factor > 1;
    w->trained = o->trained ? o->trained : base->trained_length;
    if (!o->trained && divides) w->trained = (int64_t)llround((double)base->trained_length / base->rope.factor);
    if (w->trained < 4)
        return cli_fail("trained length: the model does not say it; name it with --trained (%s)", o->model.path);
    if (o->to <= w->trained)
        return cli_fail("--to: %lld is within the trained length of %lld, which needs no stretching (%s)", (long long)o->to,
                        (long long)w->trained, o->model.path);
    return 0;
}

static int open_model(search_work *w) {
    gyre_error err = {0, ""};
    if (model_input_open(&w->input, &w->options->model, w->options->to, &err)) return cli_fail_error(&err);
    w->base = *gyre_encoding_get_config(gyre_model_get_encoding(w->input.model));
    return check_model(w);
}

/* -- the text -- */
static int read_texts(search_work *w) {
    const search_options *o = w->options;
    const search_window_options layout = {o->to, o->stride, o->windows, o->held_out, o->seed};
    gyre_error err = {0, ""};
    gyre_status status = model_input_read(&w->input, 1, &err);
    if (!status) status = search_windows_create(w->input.texts, w->input.texts_count, &layout, &w->windows, &err);
    return status ? cli_fail_error(&err) : 0;
}

static int make_card(search_work *w, int argc, char **argv) {
    gyre_error err = {0, ""};
    return run_card_make(&w->card, &w->input, "search", argc, argv, &err) ? cli_fail_error(&err) : 0;
}

/* -- reading windows -- */
static gyre_status make_encoding(const search_work *w, const search_rescale *rescale, gyre_encoding **out, gyre_error *err) {
    gyre_config config = w->base;
    config.rope.context_length = w->options->to;
    if (rescale->attention != 0) search_rescale_config(rescale, w->ones, &w->base, w->trained, w->options->to, &config);
    config.rope.table_positions = w->options->to;
    return gyre_encoding_create(out, &config, NULL, err);
}

static gyre_status evaluate(search_work *w, const search_rescale *rescale, const int64_t *starts, int64_t count,
                            double *nats, gyre_error *err) {
    gyre_encoding *encoding = NULL;
    gyre_eval_options eval = GYRE_INIT(gyre_eval_options);
    gyre_eval_result all;
    eval.context = w->options->to;
    eval.stride = w->options->stride;
    eval.windows = count;
    eval.starts = starts;
    eval.by_window = nats;
    eval.progress = cli_progress_step;
    eval.progress_ctx = &w->progress;
    gyre_status status = make_encoding(w, rescale, &encoding, err);
    if (!status) status = gyre_evaluate(w->input.model, encoding, &w->windows.text, &eval, &all, &w->exec, err);
    gyre_encoding_free(encoding);
    for (int64_t i = 0; i < count && !status; i++)
        if (!isfinite(nats[i]))
            status = gyre_fail(err, GYRE_EINVAL, "window at token %lld: its loss is no finite number (search)",
                               (long long)starts[i]);
    return status;
}

/* The same, unless the journal knows. */
static gyre_status evaluate_windows(search_work *w, const search_evaluation *r, const int64_t *starts, double *nats,
                                    gyre_error *err) {
    w->planned += r->count * w->options->to;
    gyre_status status = GYRE_OK;
    if (!search_journal_find(w->journal, r, nats)) {
        status = evaluate(w, r->rescale, starts + r->from, r->count, nats, err);
        if (!status) status = search_journal_add(w->journal, r, nats, err);
    }
    cli_progress_set(&w->progress, w->planned);
    return status;
}

static gyre_status measure(void *ctx, const search_candidate *x, int64_t from, int64_t count, double *nats,
                           gyre_error *err) {
    search_work *w = ctx;
    const search_evaluation r = {"search", x->origin, &x->rescale, w->space.pairs, x->id, from, count};
    return evaluate_windows(w, &r, w->windows.searched, nats, err);
}

static void on_generation(void *ctx, int64_t generation, int64_t spent, const search_candidate *best) {
    search_work *w = ctx;
    (void)spent;
    cli_progress_label(&w->progress, "generation %lld, perplexity %.4f", (long long)generation, exp(best->mean));
}

/* -- the held-out windows -- */
static void add_row(search_report *report, const char *label, const search_rescale *rescale, double searched) {
    search_row *row = &report->rows[report->rows_count++];
    snprintf(row->label, sizeof row->label, "%s", label);
    row->rescale = *rescale;
    row->searched = searched;
}

/* Of YaRN's betas those that did best on the windows searched on. */
static const search_initial *best_yarn(const search_work *w) {
    int64_t best = SEARCH_INITIAL_YARN;
    for (int64_t i = SEARCH_INITIAL_OTHERS; i < w->problem.initial_count; i++)
        if (w->found.initial_mean[i] < w->found.initial_mean[best]) best = i;
    return &w->initial[best];
}

static void list_rows(search_work *w) {
    const search_rescale own = {{0}, 0};
    const search_initial *best = best_yarn(w);
    search_report *report = w->report;
    add_row(report, "none", &own, (double)NAN);
    for (int i = 0; i < SEARCH_INITIAL_OTHERS; i++)
        add_row(report, w->initial[i].origin, &w->initial[i].rescale, w->found.initial_mean[i]);
    if (best != &w->initial[SEARCH_INITIAL_YARN])
        add_row(report, best->origin, &best->rescale, w->found.initial_mean[best - w->initial]);
    add_row(report, "found", &w->found.rescale, w->found.mean);
}

static gyre_status evaluate_row(search_work *w, search_row *row, gyre_error *err) {
    const int64_t count = w->windows.held_out_count;
    const search_evaluation r = {"held-out", row->label, &row->rescale, w->space.pairs, -1, 0, count};
    row->nats = calloc((size_t)count, sizeof *row->nats);
    if (!row->nats) return gyre_fail(err, GYRE_ENOMEM, "windows: out of memory (search)");
    cli_progress_label(&w->progress, "held out: %s", row->label);
    const gyre_status status = evaluate_windows(w, &r, w->windows.held_out, row->nats, err);
    for (int64_t i = 0; i < count; i++)
        row->mean += row->nats[i] / (double)count;
    return status;
}

static gyre_status evaluate_held_out(search_work *w, gyre_error *err) {
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

/* -- the config -- */
/* What a file says must be what was found, to the last digit of the factors. */
static gyre_status check_written(const search_work *w, const search_rescale *rescale, const char *path, gyre_error *err) {
    gyre_reading *reading = NULL;
    const gyre_status status = gyre_reading_open(&reading, path, GYRE_PROFILE_DEFAULT, w->options->to, err);
    if (status) return status;
    int same = 0;
    for (int64_t g = 0; g < reading->groups_count; g++) {
        const struct gyre_rope_config *rope = &reading->groups[g].config.rope;
        if (reading->groups[g].config.kind != GYRE_KIND_ROPE || rope->scaling != GYRE_SCALING_LONGROPE) continue;
        same = rope->attention_factor == rescale->attention &&
               memcmp(rope->long_factor, rescale->factor, (size_t)w->space.pairs * sizeof *rescale->factor) == 0;
        if (same) break;
    }
    gyre_reading_free(reading);
    return same ? GYRE_OK : gyre_fail(err, GYRE_EFORMAT, "--write: read back it is not what was found (%s)", path);
}

static gyre_status write_config(const search_work *w, const search_rescale *rescale, const char *path, gyre_error *err) {
    gyre_config config;
    search_rescale_config(rescale, w->ones, &w->base, w->trained, w->options->to, &config);
    cli_set_pending_copy(path);
    gyre_status status = gyre_reading_write(w->options->model.path, &config, w->options->to, path, err);
    cli_set_pending_copy(NULL);
    return status ? status : check_written(w, rescale, path, err);
}

/* Before hours of searching, too: that it can be put there. */
static int check_target(const search_options *o) {
    char path[4200];
    struct stat is;
    gyre_error err = {0, ""};
    cli_check_target("--journal", o->journal, o->model.path);
    if (!o->write) return 0;
    const int in_folder = stat(o->write, &is) == 0 && S_ISDIR(is.st_mode);
    if (snprintf(path, sizeof path, "%s%s", o->write, in_folder ? "/config.json" : "") >= (int)sizeof path)
        return cli_fail("--write: too long a name (%s)", o->write);
    cli_check_target("--write", path, o->model.path);
    return file_target_check("--write", path, &err) ? cli_fail_error(&err) : 0;
}

/* Before hours of searching: that the model has words for what will be found. */
static int try_config(const search_work *w) {
    char folder[4096], path[4200];
    gyre_error err = {0, ""};
    const char *where = getenv("TMPDIR");
    if (!w->options->write) return 0;
    if (snprintf(folder, sizeof folder, "%s/gyre-search-XXXXXX", where && *where ? where : "/tmp") >= (int)sizeof folder)
        return cli_fail("TMPDIR: the path is too long (search)");
    if (!mkdtemp(folder)) return cli_fail("%s: no temporary folder can be made there (search)", folder);
    snprintf(path, sizeof path, "%s/config.json", folder);
    const gyre_status status = write_config(w, &w->initial[SEARCH_INITIAL_YARN].rescale, path, &err);
    (void)unlink(path);
    (void)rmdir(folder);
    return status ? cli_fail_error(&err) : 0;
}

/* -- the work -- */
static json_t *identity(const search_work *w) {
    const search_options *o = w->options;
    return json_pack("{s:i, s:s, s:s, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "gyre_search", 1, "model",
                     w->card.model_hash, "config", w->card.config_hash, "text", cli_json_hash(w->windows.text.hash),
                     "trained_length", (json_int_t)w->trained, "to", (json_int_t)o->to, "stride", (json_int_t)o->stride,
                     "windows", (json_int_t)w->windows.searched_count, "held_out", (json_int_t)w->windows.held_out_count,
                     "seed", (json_int_t)o->seed, "attention_factor",
                     o->attention != 0 ? json_real(o->attention) : json_null());
}

static gyre_status search(search_work *w, gyre_error *err) {
    const search_options *o = w->options;
    json_t *search_identity = identity(w);
    gyre_status status = search_identity ? GYRE_OK : gyre_fail(err, GYRE_ENOMEM, "journal: out of memory (search)");
    if (!status) status = search_journal_open(&w->journal, o->journal, search_identity, err);
    cli_progress_begin(&w->progress, "seeds", "tokens", (w->problem.budget + 6 * w->windows.held_out_count) * o->to);
    if (!status) status = search_run(&w->problem, &w->found, err);
    if (!status) status = evaluate_held_out(w, err);
    cli_progress_end(&w->progress);
    search_journal_close(w->journal);
    json_decref(search_identity);
    return status;
}

/* The seeds, and whether the budget is enough for them. */
static int plan(search_work *w) {
    const search_options *o = w->options;
    gyre_error err = {0, ""};
    w->space = search_space_of(w->base.rope.dim / 2, w->trained, o->to, o->attention);
    for (int64_t i = 0; i < SEARCH_PAIRS; i++)
        w->ones[i] = 1;
    w->problem = (search_problem){.space = w->space,
                                  .initial = w->initial,
                                  .windows = w->windows.searched_count,
                                  .budget = o->budget * w->windows.searched_count,
                                  .seed = o->seed,
                                  .measure = measure,
                                  .on_generation = on_generation,
                                  .ctx = w};
    if (search_initial_candidates(&w->space, &w->base, w->trained, o->to, w->initial, &w->problem.initial_count, &err))
        return cli_fail_error(&err);
    if (w->problem.budget < search_min_budget(&w->problem))
        return cli_fail("--budget: %lld evaluations are too few for the %lld methods that the search begins with (search)",
                        (long long)o->budget, (long long)w->problem.initial_count);
    *w->report = (search_report){.card = &w->card,
                                 .windows = &w->windows,
                                 .problem = &w->problem,
                                 .found = &w->found,
                                 .trained = w->trained,
                                 .budget = o->budget,
                                 .seed = o->seed};
    return try_config(w);
}

static int search_and_print(search_work *w, const cli_output *output) {
    const search_options *o = w->options;
    gyre_error err = {0, ""};
    const int status = cli_pool_open(&o->common, &w->pool, &w->exec);
    if (status) return status;
    if (search(w, &err)) return cli_fail_error(&err);
    if (o->write && write_config(w, &w->found.rescale, o->write, &err)) return cli_fail_error(&err);
    w->report->written = o->write;
    return o->common.json ? search_print_json(w->report, output->file) : search_print_table(w->report, output->file);
}

static void release(search_work *w) {
    for (int64_t i = 0; i < w->report->rows_count; i++)
        free(w->report->rows[i].nats);
    free(w->found.nats);
    search_windows_free(&w->windows);
    gyre_pool_free(w->pool);
    model_input_free(&w->input);
    free(w);
}

int cmd_search(int argc, char **argv) {
    search_options options;
    read_options(argc, argv, &options);
    search_report report = {.rows_count = 0};
    search_work *w = calloc(1, sizeof *w);
    if (!w) return cli_fail("search: out of memory (search)");
    w->options = &options;
    w->report = &report;
    int status = check_target(&options);
    if (!status) status = open_model(w);
    if (!status) status = read_texts(w);
    if (!status) status = plan(w);
    if (!status) status = make_card(w, argc, argv);
    if (!status) {
        cli_output output;
        cli_check_output(options.common.output, options.model.path);
        status = cli_output_open(&output, options.common.output);
        if (!status) status = cli_output_close(&output, search_and_print(w, &output));
    }
    release(w);
    model_options_free(&options.model);
    return status;
}
