/* passkey.h: gyre passkey in parts: what was asked for, a cell for each method, length and depth, and how cells are
 * shown. */
#ifndef GYRE_TOOLS_PASSKEY_H
#define GYRE_TOOLS_PASSKEY_H
#include "tools/common/keyed_journal.h"
#include "tools/common/methods.h"
#include "tools/common/run_card.h"
#include "tools/passkey/passkey_run.h"

enum { PASSKEY_METHODS_TEXT = 1024 };

typedef struct passkey_options {
    cli_options common; /* first */
    model_options model;
    int64_t *lengths, lengths_count;
    double *depths; /* [depths_count] 0 .. 1, rising */
    int64_t depths_count, trials;
    uint64_t seed;
    method *methods;
    int64_t methods_count;
    int policy; /* a gyre_length_policy; -1 = the model's own */
    method_betas betas;
    gyre_dtype cache;
    passkey_phrases phrases;
    int contains;          /* 1: --match contains */
    int64_t answer_tokens; /* 0 = as many as the answer needs */
    const char *journal, *report, *figure;
    int resume, json_lines;
} passkey_options;

/* A method at one length. */
typedef struct passkey_column {
    passkey_cell *cells; /* [depths_count] */
    int out_of_range;    /* 1: the encoding ends before the length does */
    gyre_error note;
} passkey_column;

typedef struct passkey_row {
    const method *method;
    gyre_length_policy policy;
    int depends_on_length;   /* 1: its rotation depends on the length in use, and so on the policy */
    passkey_column *columns; /* [lengths_count] */
} passkey_row;

typedef struct passkey {
    passkey_options options;
    model_input input;
    run_card card;
    char methods_text[PASSKEY_METHODS_TEXT];
    gyre_pool *pool;
    gyre_exec exec;
    passkey_template *templates; /* [lengths_count] */
    passkey_row *rows;           /* [methods_count] */
    passkey_column *columns;
    passkey_cell *cells;
    passkey_trial *trials;
    keyed_journal journal;
    cli_progress progress;
} passkey;

extern const char *const passkey_policy_names[];

/* -- passkey_options.c -- */
void passkey_options_read(int argc, char **argv, passkey_options *o);
void passkey_options_free(passkey_options *o);
/* out = the options of --cache; what one is called. */
gyre_dtype passkey_cache(const char *text);
const char *passkey_cache_name(gyre_dtype dtype);

/* -- passkey_cells.c -- */
/* Empty cells for what was asked for; checks that every length has room.  0, or CLI_FAILED with the error printed, as
 * below. */
int passkey_cells_make(passkey *p);
/* Measures what the journal does not know; with --json-lines each cell is printed once it is. */
int passkey_cells_measure(passkey *p);
void passkey_cells_free(passkey *p);
/* out = share of the trials that are right: of a cell; of all depths of a column.  NaN where they were not measured. */
double passkey_accuracy(const passkey *p, const passkey_cell *cell);
double passkey_column_accuracy(const passkey *p, const passkey_column *column);
/* *least, *most = tokens of the prompts of a length, over all that was measured; 0, 0 where nothing was. */
void passkey_prompt_tokens(const passkey *p, int64_t length, int64_t *least, int64_t *most);

/* -- passkey_journal.c -- */
/* out = 1 and the cell's trials where the journal has them. */
int passkey_journal_find(const passkey *p, const passkey_row *row, int64_t length, passkey_cell *cell);
gyre_status passkey_journal_add(passkey *p, const passkey_row *row, int64_t length, const passkey_cell *cell,
                                gyre_error *err);

/* -- passkey_print.c -- */
/* A table and the memory it points to. */
typedef struct passkey_table {
    gyre_report_table table;
    gyre_report_column *columns;
    gyre_report_cell *cells;
    char (*heads)[24];  /* [lengths_count] */
    char (*depths)[16]; /* [depths_count] */
} passkey_table;

/* A row for each method, a column for each length. */
gyre_status passkey_table_methods(const passkey *p, passkey_table *out, gyre_error *err);
/* A row for each depth, grouped by method. */
gyre_status passkey_table_depths(const passkey *p, passkey_table *out, gyre_error *err);
void passkey_table_free(passkey_table *table);
int passkey_print_tables(const passkey *p, FILE *file);
int passkey_print_json(const passkey *p, FILE *file);
int passkey_print_cell_line(const passkey *p, const passkey_row *row, int64_t length, const passkey_cell *cell);
int passkey_print_last_line(const passkey *p);

/* -- passkey_report.c -- */
gyre_status passkey_write_report(const passkey *p, gyre_error *err);
/* The heat maps alone, as SVG. */
gyre_status passkey_write_figure(const passkey *p, gyre_error *err);

#endif
