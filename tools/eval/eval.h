/* eval.h: gyre eval in parts: what was asked for, a cell for each text, method, policy and context, and how cells are
 * shown. */
#ifndef GYRE_TOOLS_EVAL_H
#define GYRE_TOOLS_EVAL_H
#include "tools/common/keyed_journal.h"
#include "tools/common/methods.h"
#include "tools/common/model_input.h"
#include "tools/common/run_card.h"

enum { EVAL_POLICIES = 3, EVAL_MAX_BUCKETS = 256, EVAL_METHODS_TEXT = 1024 };

typedef struct eval_options {
    cli_options common; /* first */
    model_options model;
    int64_t *contexts, contexts_count;
    method *methods;
    int64_t methods_count;
    gyre_length_policy policies[EVAL_POLICIES]; /* [policies_count], in the order asked for; none = the model's own */
    int64_t policies_count;
    int64_t stride, windows, passkey; /* 0 = half the context, all, none */
    int first;                        /* 1: the first windows, not spread over the text */
    int64_t buckets;                  /* of the loss by position; 0 = none */
    gyre_eval_protocol protocol;
    gyre_dtype cache;
    method_betas betas;
    const char *journal, *report; /* NULL = none */
    int resume, json_lines;       /* --resume, --json-lines */
} eval_options;

/* A method, under one of the ways to say what the length in use is where its rotation depends on that. */
typedef struct eval_row {
    const method *method;
    gyre_length_policy policy;
    int depends_on_length; /* 1: it does */
} eval_row;

/* One method at one context on one text, or on all of them. */
typedef struct eval_cell {
    double factor, attention_factor, far_factor; /* far_factor, window: of far pairs; 0 = none differ, or no such number */
    int64_t window;
    gyre_scaling_parts parts;
    int rotates, out_of_range; /* out_of_range: the encoding ends before the context does */
    gyre_eval_result figures;
    double bytes; /* that the scored tokens stand for, as many to a token as in the whole text; 0 = not known */
    gyre_passkey_result passkey;
    double *by_position; /* [buckets] nats; empty ones 0 */
    gyre_error note;
} eval_cell;

typedef struct eval_journal {
    keyed_journal lines;
    uint64_t *ids; /* a hash of each text's tokens */
} eval_journal;

typedef struct evaluation {
    eval_options options;
    model_input input;
    run_card card;
    char methods_text[EVAL_METHODS_TEXT];
    gyre_pool *pool;
    gyre_exec exec;
    eval_row *rows; /* [rows_count] */
    int64_t rows_count;
    eval_cell *cells; /* [sets][rows_count][contexts_count] */
    int64_t sets;     /* texts, and where there are several, last, all of them together */
    double *by_position;
    eval_journal journal;
    cli_progress progress;
    int64_t planned; /* tokens to read up to and with the cell under work */
} evaluation;

extern const char *const eval_protocol_names[], *const eval_policy_names[];

/* -- eval_options.c -- */
void eval_options_read(int argc, char **argv, eval_options *o);
/* out = what keys and values are kept as: "f32". */
const char *eval_cache_name(const eval_options *o);
void eval_options_free(eval_options *o);

/* -- eval_cells.c -- */
/* Rows and empty cells for what was asked for.  0, or CLI_FAILED with the error printed, as below. */
int eval_cells_make(evaluation *e);
/* Measures what the journal does not know.  measured: called after each cell, in order; out of it not 0 ends the work. */
int eval_cells_measure(evaluation *e, int (*measured)(const evaluation *e, int64_t set, int64_t row, int64_t column));
void eval_cells_free(evaluation *e);
eval_cell *eval_cell_at(const evaluation *e, int64_t set, int64_t row, int64_t column);
/* out = how a set of texts is called. */
const char *eval_set_name(const evaluation *e, int64_t set);
/* out = 1: rows tell their length policies: asked for, or none that a reader would expect. */
int eval_shows_policies(const evaluation *e);
/* out = bits a byte of text costs; NaN where the bytes are not known. */
double eval_bits_per_byte(const eval_cell *c);
int eval_has_bytes(const evaluation *e);
gyre_eval_options eval_options_at(const evaluation *e, int64_t context);

/* -- eval_journal.c -- */
/* Opens --journal, if there is one, and reads what it holds. */
gyre_status eval_journal_open(evaluation *e, gyre_error *err);
void eval_journal_close(eval_journal *journal);
/* out = 1 and the cell's figures where the journal has them.  Errors of memory count as not having them. */
int eval_journal_find(const evaluation *e, int64_t text, int64_t row, int64_t column, eval_cell *out);
/* Adds a finished cell. */
gyre_status eval_journal_add(evaluation *e, int64_t text, int64_t row, int64_t column, gyre_error *err);

/* -- eval_json.c -- */
int eval_print_json(const evaluation *e, FILE *file);
/* A line for a cell; the last one, for the run. */
int eval_print_cell_line(const evaluation *e, int64_t set, int64_t row, int64_t column);
int eval_print_last_line(const evaluation *e);
/* out = what a protocol scores, as words. */
const char *eval_protocol_description(const eval_options *o);

/* -- eval_table.c, eval_report.c -- */
/* A table and the memory it points to. */
typedef struct eval_table {
    gyre_report_table table;
    gyre_report_column *columns;
    gyre_report_cell *cells;
    char (*heads)[48];
    char group[64], caption[256];
} eval_table;

/* Every figure: a group of rows for each set of texts.  Errors: ENOMEM. */
gyre_status eval_table_figures(const evaluation *e, eval_table *out, gyre_error *err);
/* Loss by position at one context: a row for each share of it, a column for each method. */
gyre_status eval_table_positions(const evaluation *e, int64_t set, int64_t column, eval_table *out, gyre_error *err);
void eval_table_free(eval_table *table);
int eval_print_tables(const evaluation *e, FILE *file);
gyre_status eval_write_report(const evaluation *e, gyre_error *err);

#endif
