/* eval.h: the parts of gyre eval: its options, one result cell for each text, method, policy and context, and the output. */
#ifndef GYRE_TOOLS_EVAL_H
#define GYRE_TOOLS_EVAL_H
#include "tools/cli/cli.h"
#include "tools/common/keyed_journal.h"
#include "tools/common/result_table.h"
#include "tools/common/run_card.h"
#include "tools/measuring/live_table.h"
#include "tools/measuring/same_encoding.h"
#include "tools/options/length_list.h"
#include "tools/options/method_options.h"
#include "tools/options/run_options.h"

enum { EVAL_MAX_BUCKETS = 256, EVAL_POLICY_NAME = 16 };

typedef struct eval_options {
    cli_options common; /* first */
    model_options model;
    method_options method;
    run_options run;
    length_list contexts;
    int64_t stride, windows, passkey; /* 0 = half the context, all, none */
    int first;                        /* 1: the first windows, not spread over the text */
    int64_t first_position;           /* of the first token of every window */
    int64_t buckets;                  /* of the loss by position; 0 = none */
    gyre_products products;
    int prints_positions; /* 1: the terminal shows it too, because --by-position was given */
    gyre_eval_protocol protocol;
} eval_options;

/* A method.  If its rotation depends on the length in use, also a length policy. */
typedef struct eval_row {
    const method *method;
    gyre_length_policy policy;
    int depends_on_length;                      /* 1: the policy matters */
    char name[METHOD_LABEL + EVAL_POLICY_NAME]; /* the method, and the policy if the rows show theirs */
} eval_row;

/* One method at one context, on one text or on all texts. */
typedef struct eval_cell {
    double factor, attention_factor, far_factor; /* far_factor, window: of far pairs; 0 = not used */
    int64_t window, clip_pairs;                  /* clip_pairs: 0 = none is clipped */
    gyre_scaling_parts parts;
    int rotates, out_of_range; /* out_of_range: the encoding ends before the context does */
    gyre_eval_result figures;
    double bytes;    /* of text in the scored tokens, at the mean of the whole text; 0 = not known */
    double variance; /* of the mean loss of a window, in nats^2; 0 with one window */
    gyre_passkey_result passkey;
    double *by_position; /* [buckets] nats; 0 for empty buckets */
    gyre_error note;
} eval_cell;

typedef struct eval_journal {
    keyed_journal lines;
    uint64_t *ids; /* [texts_count] a hash of the tokens of each text */
} eval_journal;

typedef struct evaluation {
    eval_options options;
    model_input input;
    run_card card;
    char methods_text[METHOD_LABELS];
    gyre_pool *pool;
    gyre_exec exec;
    eval_row *rows; /* [rows_count] */
    int64_t rows_count;
    eval_cell *cells; /* [sets][rows_count][contexts_count] */
    int64_t sets;     /* one per text; if there are several, also one for all texts together, the last */
    double *by_position;
    same_rows same; /* rows whose cells another row measures too */
    eval_journal journal;
    cli_progress progress;
    live_table live;
    double products_cost; /* with --products bf16: nats per token more than with products of floats, in the first cell that
                           * is known */
    const eval_cell *products_cell; /* that cell; NULL = not measured */
    int stopped;                    /* 1: Ctrl-C, and cells are missing */
    int64_t planned;                /* tokens of the cells up to and including the current one */
} evaluation;

extern const char *const eval_protocol_names[], *const eval_products_names[];
enum { EVAL_PRODUCTS_TEXT = 256 };

/* -- eval_options.c -- */
void eval_options_read(int argc, char **argv, eval_options *o);
void eval_options_free(eval_options *o);

/* -- eval_cells.c -- */
/* Allocates the rows, and finds those that share their cells.  Errors: those of same_rows_find. */
gyre_status eval_rows_make(evaluation *e, gyre_error *err);
/* Allocates the empty cells of the rows. */
void eval_cells_make(evaluation *e);
/* A cell has its figures.  out = 0; another result stops the work. */
typedef int eval_measured(const evaluation *e, int64_t set, int64_t row, int64_t column);
/* Measures the cells that are not in the journal.  measured: called after each cell, in order; NULL = no call.  out = 0, its
 * result, or CLI_FAILED with the error printed. */
int eval_cells_measure(evaluation *e, eval_measured *measured);
void eval_cells_free(evaluation *e);
/* out = 1 if the cell has to be measured: it is not in the journal, and no row before has the same encoding. */
int eval_cell_is_open(const evaluation *e, int64_t text, int64_t row, int64_t column);
/* out = 1 if the cell has its figures. */
int eval_cell_is_known(const eval_cell *c);
/* out = eval_row.name; of: the evaluation. */
const char *eval_row_name(const void *of, int64_t row);
eval_cell *eval_cell_at(const evaluation *e, int64_t set, int64_t row, int64_t column);
/* out = the name of a set of texts. */
const char *eval_set_name(const evaluation *e, int64_t set);
/* out = 1 if rows show their length policy: --length-policy was given, or a row does not use the usual one, declared. */
int eval_shows_policies(const evaluation *e);
/* out = bits per byte of text; NaN if the bytes are not known. */
double eval_bits_per_byte(const eval_cell *c);
/* *low, *high = 95 % interval of perplexity: Student's t over the mean losses of the windows, whose scored predictions do
 * not overlap.  out = 0 if fewer than three windows were read. */
int eval_interval(const eval_cell *c, double *low, double *high);
int eval_has_bytes(const evaluation *e); /* 1: known for every text */
gyre_eval_options eval_options_at(const evaluation *e, int64_t context);

/* out = windows of a text at a context, without --windows. */
int64_t eval_windows_of(const evaluation *e, int64_t text, int64_t context);

/* -- eval_budget.c -- */
/* Says how long the run will take here, by a short trial, if that is long; with --budget lowers the windows and leaves out
 * the longest contexts until it fits, and says so.  Called after the rows are made and before the cells are.  out = 0, or
 * CLI_FAILED with the error printed. */
int eval_budget_plan(evaluation *e);

/* -- eval_products.c -- */
/* With --products bf16, measures the first cell that is known again, with products of floats.  out = 0, or CLI_FAILED with
 * the error printed. */
int eval_products_measure(evaluation *e);
/* Writes "bf16, 0.0001 nats per token more than f32 (none at 256)"; "" for products of floats. */
void eval_products_describe(const evaluation *e, char out[EVAL_PRODUCTS_TEXT]);
/* out = the key products_cost; null = not measured. */
json_t *eval_products_json(const evaluation *e);
/* out = a cell's loss under a row's encoding. */
gyre_status eval_cell_loss(evaluation *e, int64_t row, int64_t column, gyre_products products, double *nats,
                           gyre_error *err);

/* -- eval_watch.c -- */
/* Shows a cell that is finished. */
void eval_watch_cell(evaluation *e, int64_t set, int64_t row, int64_t column);

/* -- eval_journal.c -- */
/* Opens and reads --journal, if given. */
gyre_status eval_journal_open(evaluation *e, gyre_error *err);
void eval_journal_close(eval_journal *journal);
/* out = 1 if the journal has the results of the cell; *out (may be NULL) then gets them.  If memory runs out, 0. */
int eval_journal_find(const evaluation *e, int64_t text, int64_t row, int64_t column, eval_cell *out);
/* Adds a finished cell. */
gyre_status eval_journal_add(evaluation *e, int64_t text, int64_t row, int64_t column, gyre_error *err);

/* -- eval_json.c -- */
int eval_print_json(const evaluation *e, FILE *file);
/* --json-lines: a line for each cell, and the last line for the run. */
int eval_print_cell_line(const evaluation *e, int64_t set, int64_t row, int64_t column);
int eval_print_last_line(const evaluation *e);
/* out = which predictions the protocol scores, in words. */
const char *eval_protocol_description(const eval_options *o);

/* -- eval_table.c, eval_report.c -- */
/* All results: a group of rows for each set of texts. */
result_table eval_table_figures(const evaluation *e);
/* The 95 % intervals of the perplexities: a row for each method, a column for each context. */
result_table eval_table_intervals(const evaluation *e, int64_t set);
/* Loss by position at one context: a row for each part of the window, a column for each method. */
result_table eval_table_positions(const evaluation *e, int64_t set, int64_t column);
int eval_print_tables(const evaluation *e, FILE *file);
gyre_status eval_write_report(const evaluation *e, gyre_error *err);

#endif
