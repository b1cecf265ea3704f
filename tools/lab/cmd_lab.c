/* cmd_lab.c: gyre lab: train short, test long. */
#include "tools/cli/cli.h"
#include "tools/cli/cli_guard.h"
#include "tools/cli/plain_stream.h"
#include "tools/cli/write_target.h"
#include "tools/lab/lab.h"
#include "tools/lab/lab_task.h"
#include "tools/subcommands.h"
#include "tools/team/team.h"
#include "util/absent_path.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { HELD_OUT_DIVISOR = 10 }; /* the last tenth of a text is held out */

typedef struct lab_options {
    lab lab;    /* first; begins with the common options */
    int preset; /* 1 + a lab_preset; 0 = not given */
    double mix;
    int64_t seeds; /* 0 = the preset's */
    const char *encodings;
    double base;      /* 0 = not given */
    int64_t rope_dim; /* 0 = not given */
    const char *added[LAB_ADDED_METHODS];
    int added_count;
    char work[64]; /* the work folder that is not given */
} lab_options;

static void read_task(const char *option, const char *text, void *at) {
    static const char *const tasks[] = {"posgen", "copy"};
    *(const char **)at = tasks[cli_choice(option, text, tasks, 2)];
}

static void read_added(const char *option, const char *text, void *at) {
    lab_options *o = at;
    if (o->added_count == LAB_ADDED_METHODS) cli_usage_error("%s: at most %d may be added", option, LAB_ADDED_METHODS);
    o->added[o->added_count++] = text;
}

enum { OF_TRAINING = 1 }; /* cli_option.of */
#define CLI_STRUCT lab_options
static const cli_option rows[] = {
    {"text", "PATH",
     "train on this text and test on its last tenth; a file, or a folder with all files under it; may be repeated", 1,
     CLI_OTHER(training_texts, lab.texts, training_texts_read), .file = CLI_FILE_READ},
    {"task", "posgen|copy",
     "use generated sequences instead of a text and ask only for tokens that are determined. posgen: sums modulo 17 of near "
     "and far tokens, no position harder than another. copy: a span seen some tokens before; a little harder from further "
     "away for a model that goes by content, because more of its 32 symbols match by chance",
     1, CLI_OTHER(const char *, lab.task, read_task), .excludes = "text", .why = "contradicts --text"},
    {"encodings", "LIST",
     "with --text or --task: the encodings to train, by name, or all; a wrong name lists them (default: nope, learned, "
     "sinusoidal, rope, alibi; with --task also rope+resonance)",
     1, CLI_TEXT(encodings)},
    {"preset", "quick|full|smoke|questions|small|methods",
     "without --text and --task: quick measures fewer rows of the bundled models, without copies, in half a minute; "
     "methods measures the bundled RoPE model under linear, NTK, dynamic NTK, NTK-mixed and YaRN, in less than a minute. "
     "With "
     "--text or --task: quick takes less than ten minutes on two cores for the default encodings and one seed; small, with "
     "--text, takes less than half of that for smaller models; full trains three seeds for as long as needed; smoke checks "
     "in seconds that everything works; questions, with --text, trains the rows of docs/questions.md (default with --text "
     "or "
     "--task: quick)",
     1, CLI_CHOICE(int, preset, 1)},
    {"seeds", "N",
     "with --text or --task: number of models per encoding, 1 to 5, for means with intervals (default: 1; full: 3)", 1,
     CLI_INTEGER(seeds, 1, LAB_SEEDS), .of = OF_TRAINING},
    {"work", "DIR",
     "with --text or --task: folder for models and results; a stopped run continues from it (default: gyre-lab-PRESET, "
     "gyre-lab-TASK-PRESET)",
     1, CLI_TEXT(lab.work), .file = CLI_FILE_FOLDER, .of = OF_TRAINING},
    {"mix", "SHARE", "with --text: fraction of sequences with passkeys or copies (default: 0.8, questions 0; 0: plain text)",
     1, CLI_NUMBER(mix, 0, 1), .of = OF_TRAINING, .excludes = "task", .why = "a task has no text to mix with"},
    {"base", "X", "with --text or --task: base of the rotations (default: 10000)", 1, CLI_NUMBER(base, 1.001, 1e18),
     .of = OF_TRAINING},
    {"rope-dim", "N", "with --text or --task: channels of a head that rotate, an even number (default: all)", 1,
     CLI_INTEGER(rope_dim, 2, 1 << 14), .of = OF_TRAINING},
    {"add-method", "NAME",
     "without --task: also measure the RoPE model, as it is, under this method, such as base:500000 (another base, ABF) or "
     "rerope; one of " METHOD_NAMES ". alibi-linear, alibi-ntk, alibi-ntk-past:4, alibi-dynamic and alibi-dynamic-linear "
     "stretch the slopes of the ALiBi model, in a table of their own; may be repeated, up to twelve times",
     1, CLI_OTHER_OF_ALL(read_added), .excludes = "task", .why = "a task has its own methods"},
    ROW_REPORT(lab.run.report, "the HTML report (default: report.html)", 1),
    {0}};

/* -- options after parsing: the guard asks for the files of all -- */
static void finish_encodings(lab_options *o) {
    variant encodings[MAX_VARIANTS];
    int count = 0;
    gyre_error err = {0};
    lab *l = &o->lab;
    const gyre_status status = variants_parse(o->encodings, encodings, &count, &err);
    if (status) variants_refuse("--encodings", status, &err);
    for (int i = 0; i < count && !l->texts.count && !l->task; i++)
        if (!lab_is_bundled(&encodings[i]))
            cli_usage_error(
                "--encodings: no model of %s comes with gyre; name a text to train it on with --text, or a --task",
                encodings[i].name);
    lab_plan_encodings(&l->plan, encodings, count);
}

static void finish_options(void *options) {
    lab_options *o = options;
    lab *l = &o->lab;
    const int trains = l->texts.count || l->task;
    const int alone = o->preset - 1 == LAB_METHODS_ALONE;
    if (!trains && ((o->preset && o->preset - 1 != LAB_QUICK && !alone) || cli_given_of(&l->common, OF_TRAINING)))
        cli_usage_error("--preset, --work, --mix, --seeds, --base, --rope-dim: nothing is trained without --text or --task, "
                        "and of the presets only quick and methods measure the bundled models");
    if (trains && alone) cli_usage_error("--preset methods: measures a bundled model, and takes no --text and no --task");
    if (l->task && (o->preset - 1 == LAB_QUESTIONS || o->preset - 1 == LAB_SMALL))
        cli_usage_error("--preset %s: needs --text", o->preset - 1 == LAB_SMALL ? "small" : "questions");
    const lab_preset preset = alone       ? LAB_METHODS_ALONE
                              : !trains   ? o->preset ? LAB_BUNDLED_QUICK : LAB_BUNDLED
                              : o->preset ? (lab_preset)(o->preset - 1)
                                          : LAB_QUICK;
    if (!l->run.report) l->run.report = "report.html";
    if (l->task)
        lab_task_plan(&l->plan, l->task, preset);
    else
        lab_plan_make(&l->plan, preset, o->mix);
    for (int i = 0; i < o->added_count; i++) {
        gyre_error err = {0, ""};
        if (lab_plan_add_method(&l->plan, o->added[i], &err)) cli_usage_error("--add-method: %s", err.text);
    }
    if (o->seeds) l->plan.seeds = o->seeds;
    l->plan.base = o->base;
    l->plan.rope_dim = o->rope_dim;
    if (o->rope_dim % 2 || o->rope_dim > l->plan.run.model.head_dim)
        cli_usage_error("--rope-dim: %lld is not an even number of a head's %lld channels", (long long)o->rope_dim,
                        (long long)l->plan.run.model.head_dim);
    if (o->encodings) finish_encodings(o);
    if (l->plan.stretched_count && l->plan.alibi < 0)
        cli_usage_error("--add-method: alibi is not among the encodings, so no model has slopes to stretch");
    snprintf(o->work, sizeof o->work, "gyre-lab-%s%s%s", l->task ? l->task : "", l->task ? "-" : "", l->plan.preset);
    if (trains && !l->work) l->work = o->work;
    cli_guard_write("report", l->run.report, CLI_GUARD_FILE);
    if (trains)
        cli_guard_write("work", l->work, CLI_GUARD_FOLDER);
    else
        lab_note_bundled();
}

static const char DOC[] =
    "Train short, test long: every position encoding at the same short length, then the RoPE model "
    "under every way to extend "
    "its context."
    "\vPrints tables (perplexity; passkeys: the share of keys hidden in the text that the model finds; "
    "copies: the share of repeated bytes that it continues) and "
    "writes a report with figures.  Without --text, models that come with gyre are measured on those "
    "of the system's headers "
    "that were left out of training.\n\n"
    "Example:\n"
    "  gyre lab --preset quick\n"
    "  gyre lab --preset methods\n"
    "  gyre lab\n"
    "  gyre lab --text book.txt --preset quick --report book.html\n"
    "  gyre lab --text book.txt --encodings all\n"
    "  gyre lab --task posgen\n"
    "  gyre lab --task copy --encodings rope,alibi,t5 --seeds 3\n";

/* -- the text -- */
static gyre_status open_texts(lab *l, gyre_error *err) {
    const int64_t longest = 2 * l->plan.region_bytes;
    if (!l->texts.count) {
        const gyre_status status = header_corpus_open(&l->all, GYRE_TEXT_SPLIT_HELD_OUT, longest + 1, err);
        l->held_out = l->all;
        return status;
    }
    const gyre_status status =
        gyre_text_open(&l->all, l->texts.paths, l->texts.count, GYRE_TEXT_SPLIT_ALL, HELD_OUT_DIVISOR * (longest + 1), err);
    if (status) return status;
    l->train = l->held_out = l->all;
    l->held_out.count = l->all.count / HELD_OUT_DIVISOR;
    l->train.count -= l->held_out.count;
    l->held_out.ids += l->train.count;
    return GYRE_OK;
}

/* -- the work -- */
/* Not snprintf: GCC 12 takes names of the plan, which is part of the lab, for the row's own (a false -Wrestrict). */
static void name_row(lab_row *row, const char *name) {
    const size_t length = strnlen(name, sizeof row->name - 1);
    memmove(row->name, name, length);
    row->name[length] = 0;
}

/* Rows are listed before they are measured: the columns of the tables must fit their names. */
static void name_rows(lab *l) {
    for (int i = 0; i < l->plan.encodings_count; i++)
        name_row(&l->encodings[i], l->plan.encodings[i].name);
    for (int m = 0; m < l->plan.methods_count; m++)
        name_row(&l->methods[m], l->plan.methods[m].label);
    for (int r = 0; r < l->plan.tuned_methods; r++)
        name_row(&l->tuned[r], l->plan.methods[l->plan.tuned_method[r]].label);
    for (int m = 0; m < l->plan.stretched_count; m++)
        name_row(&l->stretched[m], l->plan.stretched[m].label);
    for (int d = 0; d < LAB_DROPPED; d++)
        name_row(&l->tuned[l->plan.tuned_methods + d], l->plan.dropped[d].label);
}

/* Measures a row, and prints it if all seeds are known. */
static gyre_status measure_row(lab *l, const lab_measurement *subject, lab_row *row, gyre_error *err) {
    const gyre_status status = lab_measure_row(l, subject, row, err);
    if (status) return status;
    char label[LAB_NAME];
    lab_row_label(l, subject, row->name, label);
    cli_progress_label(&l->progress, "%s", label);
    cli_progress_mark(&l->progress);
    return l->common.json || !lab_print_rows(l, cli_stdout()) ? GYRE_OK : GYRE_EIO; /* its error is printed */
}

/* rope: that model, begun.  alibi = that one.  Methods are measured on them; the caller ends both. */
static gyre_status measure_encodings(lab *l, int64_t seed, lab_model *rope, lab_model *alibi, gyre_error *err) {
    gyre_status status = GYRE_OK;
    for (int i = 0; i < l->plan.encodings_count && !status; i++) {
        lab_model of_others, *model = i == l->plan.rope ? rope : i == l->plan.alibi ? alibi : &of_others;
        if (model != rope)
            status = lab_model_begin(l, &(lab_model_spec){.seed = seed, .encoding = &l->plan.encodings[i]}, model, err);
        const lab_measurement subject = {model, &l->plan.methods[0]};
        if (!status) status = measure_row(l, &subject, &l->encodings[i], err);
        if (model == &of_others || (model == alibi && l->plan.stretched_count == 0)) lab_model_end(model);
    }
    return status;
}

/* DroPE: the RoPE model without its rotation, recalibrated. */
static gyre_status measure_dropped(lab *l, lab_model *base, gyre_error *err) {
    lab_model model;
    gyre_status status =
        lab_model_begin(l, &(lab_model_spec){.seed = base->spec.seed, .tuned = LAB_TUNED, .base = base}, &model, err);
    for (int d = 0; d < LAB_DROPPED && !status; d++) {
        const lab_measurement subject = {&model, &l->plan.dropped[d]};
        status = measure_row(l, &subject, &l->tuned[l->plan.tuned_methods + d], err);
    }
    lab_model_end(&model);
    return status;
}

/* The methods on fine-tuned model number t. */
static gyre_status measure_tuned(lab *l, int t, lab_model *base, gyre_error *err) {
    lab_model model;
    gyre_status status =
        lab_model_begin(l, &(lab_model_spec){.seed = base->spec.seed, .tuned = t, .base = base}, &model, err);
    for (int r = 0; r < l->plan.tuned_methods && !status; r++) {
        if (l->plan.tuned_of[r] != t) continue;
        const lab_measurement subject = {&model, &l->plan.methods[l->plan.tuned_method[r]]};
        status = measure_row(l, &subject, &l->tuned[r], err);
    }
    lab_model_end(&model);
    return status;
}

static gyre_status measure_slopes(lab *l, lab_model *alibi, gyre_error *err) {
    gyre_status status = GYRE_OK;
    for (int m = 0; m < l->plan.stretched_count && !status; m++) {
        const lab_measurement subject = {alibi, &l->plan.stretched[m]};
        status = measure_row(l, &subject, &l->stretched[m], err);
    }
    return status;
}

static gyre_status measure_methods(lab *l, lab_model *base, gyre_error *err) {
    gyre_status status = GYRE_OK;
    for (int m = 0; m < l->plan.methods_count && !status; m++) {
        const lab_measurement subject = {base, &l->plan.methods[m]};
        status = measure_row(l, &subject, &l->methods[m], err);
    }
    for (int t = 0; t < LAB_TUNED && !status; t++)
        status = measure_tuned(l, t, base, err);
    return status || l->plan.tuned_rows == l->plan.tuned_methods ? status : measure_dropped(l, base, err);
}

/* Makes the encodings of the methods at the longest context, for the table of pairs and the figures. */
static gyre_status describe_methods(lab *l, const gyre_config *position, gyre_error *err) {
    const int64_t longest = l->plan.longest;
    for (int m = 0; m < l->plan.methods_count; m++) {
        gyre_status status =
            method_encoding(&l->plan.methods[m], position, l->plan.trained, longest, &l->plan.betas, &l->maps[m], err);
        if (!status) status = gyre_encoding_scaling_parts(l->maps[m], longest, &l->methods[m].parts);
        if (status) return status;
        l->methods[m].rotates = 1;
    }
    for (int r = 0; r < l->plan.tuned_methods; r++) {
        l->tuned[r].rotates = 1;
        l->tuned[r].parts = l->methods[l->plan.tuned_method[r]].parts;
    }
    return GYRE_OK;
}

static gyre_status work(lab *l, gyre_error *err) {
    gyre_status status = GYRE_OK;
    for (int64_t seed = 0; seed < l->plan.seeds && !status; seed++) {
        lab_model rope = {.opened = NULL}, alibi = {.opened = NULL};
        const int has_methods = l->plan.rope >= 0, methods_first = has_methods && l->plan.methods_first;
        if (has_methods)
            status = lab_model_begin(l, &(lab_model_spec){seed, &l->plan.encodings[l->plan.rope], 0, NULL}, &rope, err);
        if (!status && has_methods && seed == 0) status = describe_methods(l, &rope.position, err);
        if (!status && methods_first) status = measure_methods(l, &rope, err);
        if (!status) status = measure_encodings(l, seed, &rope, &alibi, err);
        if (!status && has_methods && !methods_first) status = measure_methods(l, &rope, err);
        if (!status && l->plan.alibi >= 0) status = measure_slopes(l, &alibi, err);
        lab_model_end(&rope);
        lab_model_end(&alibi);
    }
    return status;
}

/* Prints and writes what was measured.  out = the exit status. */
static int show(lab *l) {
    gyre_error err = {0};
    if (l->plan.details) lab_rank_rows(l);
    if (l->common.json ? lab_print_json(l, cli_stdout()) : lab_print_rows(l, cli_stdout()) || lab_print_end(l, cli_stdout()))
        return CLI_FAILED;
    if (team_leads() && lab_write_report(l, &err)) return cli_fail_error(&err);
    if (!l->common.json) fprintf(cli_stdout(), "report: %s\n", plain_line(l->run.report));
    return 0;
}

static int fail_stopped(const lab *l) {
    return cli_fail("stopped: %d of %d rows are complete, the others are missing here and in the report%s (%s)",
                    lab_rows_done(l), lab_rows_count(l),
                    l->work ? "; the same command with --force continues from here" : "", l->work ? l->work : "gyre lab");
}

static int run(lab *l) {
    gyre_error err = {0};
    const double started = cli_seconds();
    gyre_status status = team_leads() ? lab_check_report(l, &err) : GYRE_OK;
    if (!status) status = open_texts(l, &err);
    cli_defer_signals(); /* from here on, what is measured is kept */
    if (!status) status = team_same("text", l->all.hash + (uint64_t)l->all.count, &err);
    if (!status && l->work) status = lab_work_open(l, &err);
    if (!status) status = lab_memo_open(l, "cells.jsonl", &err);
    if (!status) status = lab_check_added(l, &err);
    if (!status) {
        const int64_t cost = lab_cost_all(l);
        name_rows(l);
        status = lab_say_duration(l, cost, &err);
        cli_progress_begin(&l->progress, "gyre lab", NULL, cost);
        cli_progress_by_part(&l->progress, l->work ? 60 : INFINITY);
        if (!status) status = work(l, &err);
        cli_progress_end(&l->progress);
    }
    if (!status) status = journal_finish(&l->memo, &err);
    l->seconds = cli_seconds() - started;
    l->stopped = status && cli_interrupted();
    int exit_status = CLI_FAILED;
    if (!status || (l->stopped && lab_has_rows(l)))
        exit_status = show(l);
    else if (err.text[0])
        exit_status = cli_fail_error(&err);
    if (!exit_status && l->stopped) exit_status = fail_stopped(l);
    for (int m = 0; m < l->plan.methods_count; m++)
        gyre_encoding_free(l->maps[m]);
    journal_close(&l->memo);
    gyre_text_free(&l->all);
    return exit_status;
}

int cmd_lab(int argc, char **argv) {
    static const cli_command command = {rows, CLI_THREADS | CLI_JSON, "", DOC, NULL, 0, finish_options};
    lab_options *o = cli_alloc(1, sizeof *o);
    lab *l = &o->lab;
    o->mix = -1;
    cli_command_line(argc, argv, l->command, sizeof l->command);
    l->lock.file = -1;
    cli_parse(&command, argc, argv, o);
    gyre_pool *pool = NULL;
    int status = cli_pool_open(&l->common, &pool, &l->exec);
    if (!status) {
        if (l->task) cli_defer_signals();
        status = l->task ? lab_task_run(l) : run(l);
        cli_lock_release(&l->lock);
        gyre_pool_free(pool);
    }
    free(o);
    return status;
}
