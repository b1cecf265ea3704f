/* search_print.h: the result of a search as text and as JSON. */
#ifndef GYRE_TOOLS_SEARCH_PRINT_H
#define GYRE_TOOLS_SEARCH_PRINT_H
#include "tools/common/result_table.h"
#include "tools/common/run_card.h"
#include "tools/search/search_evolve.h"
#include "tools/search/search_gain.h"
#include "tools/search/search_windows.h"

enum { SEARCH_ROWS = 8, SEARCH_VERDICT = 256 };

/* One method on the held-out windows. */
typedef struct search_row {
    char label[SEARCH_ORIGIN];
    search_rescale rescale; /* attention 0: the unchanged model */
    double *nats;           /* [held-out windows] */
    double mean, searched; /* nats on the held-out windows; on the windows searched on, NaN if not measured on all of them */
    search_interval gain;  /* of the factors found over this row; 0 for their own row */
} search_row;

/* What the factor of one pair is worth on the held-out windows, in nats. */
typedef struct search_pair {
    double turns, factor;          /* turns: in the trained length */
    search_interval needed, alone; /* lost if the pair keeps its trained frequency; won if it alone is divided */
    int has_alone;                 /* 0: the model's own config scales */
} search_pair;

typedef struct search_report {
    const run_card *card;
    const char *written; /* path of --write; NULL = none */
    int refused;         /* 1: --write was given, and the factors lose to a method that needs no search */
    const search_windows *windows;
    const search_problem *problem;
    const search_result *found;
    search_row rows[SEARCH_ROWS];        /* [rows_count]; the last row is the factors found */
    int64_t simple_count;                /* the first rows are the methods that need no search */
    int64_t rows_count, trained, budget; /* budget: in evaluations of all windows */
    uint64_t seed;
    int64_t needles;    /* keys in a window; 0 = the text itself is scored */
    search_pair *pairs; /* [pairs_count], owned; NULL without --pairs */
    int64_t pairs_count;
} search_report;

/* out = the gain in nats as a reduction of perplexity, in percent. */
double search_gain_percent(double nats);
/* out = what is added to perplexity by these nats, in percent; 0 without a sign. */
double search_increase_percent(double nats);
/* out = the method that needs no search and predicts the held-out windows best. */
const search_row *search_best_simple(const search_report *r);
/* out = 1 if that method predicts them better than the factors found. */
int search_loses(const search_report *r);
/* Writes which method is the best, and by how much, with the interval. */
void search_verdict(const search_report *r, char out[SEARCH_VERDICT]);
/* The rows of the report as a table. */
result_table search_table(const search_report *r);
int search_print_table(const search_report *r, FILE *file);
int search_print_json(const search_report *r, FILE *file);
/* out = the numbers of start tokens that are searched; NULL for none. */
json_t *search_json_of_starts(const search_space *space);
/* out = {"percent", "percent_interval"} of a gain, and of a loss. */
json_t *search_json_of_gain(const search_interval *g);
json_t *search_json_of_increase(const search_interval *g);
/* --pairs (search_pairs.c). */
int search_print_pairs(const search_report *r, FILE *file);
json_t *search_json_of_pairs(const search_report *r);

#endif
