/* search.h: the parts of gyre search: its options, and everything that the work needs. */
#ifndef GYRE_TOOLS_SEARCH_H
#define GYRE_TOOLS_SEARCH_H
#include "tools/cli/cli.h"
#include "tools/common/model_input.h"
#include "tools/common/result_table.h"
#include "tools/common/run_card.h"
#include "tools/options/run_options.h"
#include "tools/options/stretch_options.h"
#include "tools/search/search_initial.h"
#include "tools/search/search_journal.h"
#include "tools/search/search_needles.h"
#include "tools/search/search_print.h"

typedef struct search_options {
    cli_options common; /* first */
    model_options model;
    run_options run; /* only the journal and the report */
    stretch_options stretch;
    int64_t budget, windows, held_out, stride;
    int64_t needles; /* keys hidden in each window; 0 = none, and the text itself counts */
    uint64_t seed;
    double attention;                                /* 0 = searched */
    int64_t starts[SEARCH_STARTS - 1], starts_count; /* of start tokens; 0 of them = not searched */
    int even_if_worse;                               /* 1: written even if a method that needs no search is better */
    int pairs;                                       /* 1: after the search, each pair alone */
    int temperature;                                 /* 1: fits the temperature of YaRN instead of searching for factors */
} search_options;

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
    int64_t planned; /* tokens of the evaluations so far */
    search_problem problem;
    search_result found;
    search_report *report;
    stretch_target target; /* of --write */
} search_work;

/* -- search_options.c -- */
void search_options_read(int argc, char **argv, search_options *o);

/* -- search_evaluate.c -- */
/* Measures windows of the text under one candidate, unless the journal has them.  The `measure` of search_problem; ctx: a
 * search_work. */
gyre_status search_measure(void *ctx, const search_candidate *x, int64_t from, int64_t count, double *nats, gyre_error *err);
/* The same for windows r->from .. of starts[], under r->rescale. */
gyre_status search_evaluate_windows(search_work *w, const search_evaluation *r, const int64_t *starts, double *nats,
                                    gyre_error *err);
/* The `prepare` of search_problem: several processes measure candidates at the same time.  search_measure then finds them in
 * the journal. */
gyre_status search_prepare(void *ctx, const search_candidate *x, int64_t count, int64_t to, gyre_error *err);
/* Fills the rows of the report: the unchanged model, the known methods and the candidate found, on the held-out windows. */
gyre_status search_evaluate_held_out(search_work *w, gyre_error *err);

/* -- search_pairs.c -- */
/* Fills report->pairs.  The rows of the report are measured. */
gyre_status search_evaluate_pairs(search_work *w, gyre_error *err);

/* -- search_page.c -- */
/* Writes --report: the verdict, the table, the factors by pair and the windows one by one, as HTML.  Errors: EIO, ENOMEM. */
gyre_status search_write_page(const search_report *r, const char *path, gyre_error *err);

/* -- search_temperature.c -- */
/* --temperature: measures YaRN under a range of attention factors, and prints the one that predicts the text best.  The
 * model and its texts are open, and so is the card.  out = the exit status. */
int search_temperature(search_work *w, FILE *file);
/* out = the header of a journal of these measurements. */
json_t *search_identity(const search_work *w);

/* -- search_config.c -- */
/* Checks, before hours of searching, that --write names a file that can be written.  out = 0, or CLI_FAILED with the error
 * printed. */
int search_check_target(const search_options *o);
/* Checks, before hours of searching, that the model's config can express the kind of result: writes one to a temporary
 * folder.  out = 0, or CLI_FAILED with the error printed. */
int search_try_config(const search_work *w);
/* Writes the result to where --write says; w->target.path names the file.  Errors: those of search_write_config, EIO. */
gyre_status search_write_result(search_work *w, const search_rescale *rescale, gyre_error *err);
/* Writes the model's config with these factors to `path`, and reads it back.  Errors: EFORMAT (it reads differently), those
 * of gyre_reading_write. */
gyre_status search_write_config(const search_work *w, const search_rescale *rescale, const char *path, gyre_error *err);

#endif
