/* search_print.h: what a search found, for people and for programs. */
#ifndef GYRE_TOOLS_SEARCH_PRINT_H
#define GYRE_TOOLS_SEARCH_PRINT_H
#include "tools/common/cli.h"
#include "tools/common/run_card.h"
#include "tools/search/search_evolve.h"
#include "tools/search/search_gain.h"
#include "tools/search/search_windows.h"

enum { SEARCH_ROWS = 6 };

/* One way to read the held-out windows. */
typedef struct search_row {
    char label[SEARCH_ORIGIN];
    search_rescale rescale; /* attention 0: the model as it is */
    double *nats;           /* [held windows] */
    double mean, searched;  /* nats: on those; on the windows searched on, NaN where they were not all read */
    search_interval gain;   /* of what was found, over this; zeros of itself */
} search_row;

typedef struct search_report {
    const run_card *card;
    const char *written; /* NULL = nothing */
    const search_windows *windows;
    const search_problem *problem;
    const search_result *found;
    search_row rows[SEARCH_ROWS];        /* [rows_count]; the last is what was found */
    int64_t rows_count, trained, budget; /* budget: in evaluations of all windows */
    uint64_t seed;
} search_report;

/* out = what found gains over a row in perplexity, in percent of the row's. */
double search_gain_percent(double nats);
int search_print_table(const search_report *r, FILE *file);
int search_print_json(const search_report *r, FILE *file);

#endif
