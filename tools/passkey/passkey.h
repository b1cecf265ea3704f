/* passkey.h: the parts of gyre passkey: its options, one result cell for each method, length and depth, and the output. */
#ifndef GYRE_TOOLS_PASSKEY_H
#define GYRE_TOOLS_PASSKEY_H
#include "tools/cli/cli.h"
#include "tools/common/keyed_journal.h"
#include "tools/common/result_table.h"
#include "tools/common/run_card.h"
#include "tools/measuring/live_table.h"
#include "tools/measuring/same_encoding.h"
#include "tools/options/length_list.h"
#include "tools/options/method_options.h"
#include "tools/options/run_options.h"
#include "tools/passkey/passkey_run.h"

enum { PASSKEY_VERDICT = 256, PASSKEY_CHOICE = 160 };
typedef enum passkey_format {
    PASSKEY_FORMAT_AUTO,
    PASSKEY_FORMAT_WORDS,
    PASSKEY_FORMAT_MARKS,
    PASSKEY_FORMAT_CHAT
} passkey_format;

typedef struct passkey_options {
    cli_options common; /* first */
    model_options model;
    method_options method;
    run_options run;
    length_list lengths;
    double *depths; /* [depths_count] 0 .. 1, rising */
    int64_t depths_count, trials;
    uint64_t seed;
    passkey_format format;
    const chat_form *chat_form; /* --chat-template; NULL = that of the model's files */
    passkey_phrases phrases;    /* of the format once it is chosen */
    int given, asks;            /* 1: some of the phrases are the user's; the question is */
    int contains;               /* 1: --match contains */
    int64_t answer_tokens;      /* 0 = as many as the answer needs */
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
    int depends_on_length;   /* 1: its rotation depends on the length in use, so the policy matters */
    passkey_column *columns; /* [lengths] */
} passkey_row;

typedef struct passkey {
    passkey_options options;
    model_input input;
    chat chat; /* of PASSKEY_FORMAT_CHAT */
    run_card card;
    int knows_format;                                         /* 1: a trial within the trained length found its keys */
    char methods_text[METHOD_LABELS], choice[PASSKEY_CHOICE]; /* choice: why the format is what it is */
    gyre_pool *pool;
    gyre_exec exec;
    passkey_template *templates; /* [lengths] */
    passkey_row *rows;           /* [methods] */
    passkey_column *columns;
    passkey_cell *cells;
    passkey_trial *trials;
    same_rows same; /* rows whose cells another row measures too */
    keyed_journal journal;
    cli_progress progress;
    live_table live;
} passkey;

/* -- passkey_options.c -- */
void passkey_options_read(int argc, char **argv, passkey_options *o);
void passkey_options_free(passkey_options *o);

/* -- passkey_format.c -- */
/* Chooses the format that no option names: a model of bytes is asked for a few marked keys, and one whose files have a chat
 * template that Gyre knows is asked in a chat.  Errors: those of passkey_run and chat_open. */
gyre_status passkey_choose_format(passkey *p, gyre_error *err);
/* out = "words", "marks", "chat". */
const char *passkey_format_name(const passkey *p);

/* -- passkey_cells.c -- */
/* Allocates empty cells and checks that the prompt fits into every length.  out = 0, or CLI_FAILED with the error
 * printed. */
int passkey_cells_make(passkey *p);
/* out = 1 if the cell has to be measured: it is not in the journal, and no row before has the same encoding. */
int passkey_cell_is_open(const passkey *p, int64_t row, int64_t length, int64_t depth);
/* out = the label of a row; of: the passkey. */
const char *passkey_row_name(const void *of, int64_t row);
/* Measures the cells that are not in the journal.  With --json-lines, prints each cell when it is done.  out = as above. */
int passkey_cells_measure(passkey *p);
void passkey_cells_free(passkey *p);
/* out = fraction of trials that are right, in a cell or over all depths of a column; NaN if not measured. */
double passkey_accuracy(const passkey *p, const passkey_cell *cell);
double passkey_column_accuracy(const passkey *p, const passkey_column *column);
/* out = 1 if all was measured and no key was found. */
int passkey_found_none(const passkey *p);
/* out = 1 and a sentence that says why the results do not judge the methods: no key was found, or the best of them finds
 * less than half at the longest length within the trained one.  0 and "" otherwise. */
int passkey_verdict(const passkey *p, char out[PASSKEY_VERDICT]);
enum { PASSKEY_TOKENS = 48 };
/* out = tokens of the prompts of one length, over everything measured: "245", "245 to 260", or "none" if nothing was. */
void passkey_prompt_tokens(const passkey *p, int64_t length, char out[PASSKEY_TOKENS]);

/* -- passkey_budget.c -- */
/* Says how long the run will take here, by a short trial, if that is long; with --budget lowers the trials and leaves out
 * the longest lengths until it fits, and says so.  Called once the journal is open.  out = 0, or CLI_FAILED with the error
 * printed. */
int passkey_budget_plan(passkey *p);

/* -- passkey_journal.c -- */
/* out = 1 if the journal has the cell; cell->trials then gets its trials. */
int passkey_journal_find(const passkey *p, const passkey_row *row, int64_t length, passkey_cell *cell);
gyre_status passkey_journal_add(passkey *p, const passkey_row *row, int64_t length, const passkey_cell *cell,
                                gyre_error *err);

/* -- passkey_print.c -- */
/* A row for each method, a column for each length. */
result_table passkey_table_methods(const passkey *p);
/* A row for each depth, grouped by method. */
result_table passkey_table_depths(const passkey *p);
int passkey_print_tables(const passkey *p, FILE *file);
int passkey_print_json(const passkey *p, FILE *file);
int passkey_print_cell_line(const passkey *p, const passkey_row *row, int64_t length, const passkey_cell *cell);
int passkey_print_last_line(const passkey *p);

/* -- passkey_report.c -- */
gyre_status passkey_write_report(const passkey *p, gyre_error *err);
/* Only the heat maps, as SVG. */
gyre_status passkey_write_figure(const passkey *p, gyre_error *err);

#endif
