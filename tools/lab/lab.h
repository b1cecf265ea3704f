/* lab.h: gyre lab: train short, test long, with every encoding, then the RoPE model under every method, and the ALiBi model
 * under methods that stretch its slopes where they are asked for.
 *
 *     lab_plan.c     what is trained and measured
 *     lab_runs.c     the models: bundled, trained before, or trained now
 *     lab_models.c   which of them a run needs
 *     lab_cells.c    the measurements
 *     lab_journal.c  the measurements on disk
 *     lab_statistics.c    means and intervals over seeds and windows
 *     lab_ranks.c    whether the measures rank the rows alike
 *     lab_cost.c     how much work that is, for the estimate of the remaining time
 *     lab_trial.c    how long it will take here
 *     lab_rows.c     prints each row as soon as it is known
 *     lab_findings.c what was found, in three sentences
 *     lab_tables.c, lab_report.c    the output */
#ifndef GYRE_TOOLS_LAB_H
#define GYRE_TOOLS_LAB_H
#include "gyre/gyre_train.h"
#include "tools/cli/cli.h"
#include "tools/common/journal.h"
#include "tools/common/methods.h"
#include "tools/common/result_table.h"
#include "tools/common/variants.h"
#include "tools/options/run_options.h"
#include "tools/options/training_text.h"

enum {
    LAB_CONTEXTS = 5,
    LAB_TUNED_METHODS = 15, /* at most; measured as they are and with fine-tuned weights */
    LAB_ADDED_METHODS = 12, /* at most; as they are only */
    LAB_METHODS = LAB_TUNED_METHODS + LAB_ADDED_METHODS,
    LAB_STRETCHED = 1 + LAB_ADDED_METHODS, /* of slopes: none, and those that are added */
    LAB_TUNED = 8,                         /* weights */
    LAB_DROPPED = 2,                       /* rows of the model whose rotation is dropped */
    LAB_TUNED_ROWS = LAB_TUNED_METHODS + LAB_DROPPED,
    LAB_SEEDS = 5,
    LAB_BUCKETS = 64,
    LAB_REGIONS = 8,
    LAB_WINDOWS = 100, /* of keys or copies in a cell, at most */
    LAB_PATH = 4096,
    LAB_COLUMNS = 1 + 3 * LAB_CONTEXTS + 3, /* of a table: measures, and pairs */
    LAB_KEY = 320,
    LAB_NAME = METHOD_LABEL + 16
};

typedef enum lab_measure { LAB_PERPLEXITY, LAB_KEYS, LAB_COPIES, LAB_MEASURES } lab_measure;

/* -- the plan -- */
typedef struct lab_plan {
    const char *preset;             /* "bundled", "bundled-quick", or one of --preset */
    int64_t trained;                /* tokens of a training sequence */
    int64_t contexts[LAB_CONTEXTS]; /* 1, 2, 4, 8, 16 times it; in bundled-quick without the last */
    int contexts_count;
    int64_t longest;             /* the last of them, and the largest length that a model is tested at */
    int measures;                /* LAB_MEASURES; in bundled-quick without copies, the last */
    int methods_first;           /* 1: they are measured and shown before the other encodings */
    int details;                 /* 1: with the pairs of each method, and whether the measures rank the rows alike */
    const char *methods_caption; /* of their table */
    int64_t seeds;
    variant encodings[MAX_VARIANTS];
    int encodings_count;
    int rope;                       /* index of plain RoPE, which the methods extend; -1 = none */
    gyre_train_options run, tune;   /* run: of a base model; tune: of a fine-tuning at the longest context */
    gyre_train_options recalibrate; /* at the trained length, as many steps and tokens as tune */
    int tuned_rows;                 /* tuned_methods; for models that are trained, and the dropped ones */
    method dropped[LAB_DROPPED];    /* what the model without rotation is measured under; labels name the rows */
    int64_t regions;                /* stretches of text; every context is scored on the same bytes */
    int64_t region_bytes;           /* scored in each: half of 16 times the trained length */
    int64_t trials;                 /* minimum number of passkeys asked for, and of copied segments; at most LAB_WINDOWS */
    method_betas betas;             /* scaled with the trained length: at a short length, no pair makes 32 revolutions */
    double base;                    /* of the rotations; 0 = 10000 */
    int64_t rope_dim;               /* channels of a head that rotate; 0 = all */
    method methods[LAB_METHODS];
    int methods_count, own_methods; /* with those that were added, and without */
    /* Fine-tuned row r is method tuned_method[r], with fine-tuned weights tuned_of[r], an index into tuned. */
    int tuned_methods, tuned_method[LAB_TUNED_METHODS], tuned_of[LAB_TUNED_METHODS];
    method tuned[LAB_TUNED];
    int alibi;           /* index of ALiBi, whose slopes are stretched; -1 = none */
    int stretched_count; /* 0 = no method for slopes was added */
    method stretched[LAB_STRETCHED];
} lab_plan;

/* Rows of a table in lab_plan.c: the values of --preset, and the plans of the bundled models, without one and with quick;
 * methods measures one of them. */
typedef enum lab_preset {
    LAB_QUICK,
    LAB_FULL,
    LAB_SMOKE,
    LAB_QUESTIONS,
    LAB_SMALL,
    LAB_METHODS_ALONE,
    LAB_BUNDLED,
    LAB_BUNDLED_QUICK
} lab_preset;
/* mix: fraction of training sequences with passkeys or copies; < 0 = the preset's. */
void lab_plan_make(lab_plan *plan, lab_preset preset, double mix);
/* Sets the encodings; without this call, those of the bundled models. */
void lab_plan_encodings(lab_plan *plan, const variant *encodings, int count);
/* Adds a method to measure: `yarn`, or `alibi-ntk` for the ALiBi model.  Errors: those of method_parse and method_config;
 * EINVAL (too many). */
gyre_status lab_plan_add_method(lab_plan *plan, const char *text, gyre_error *err);
/* out = 1 if a model of this encoding comes with gyre. */
int lab_is_bundled(const variant *encoding);
/* out = the number of windows that score the regions at context number c.  starts[] (or NULL) = the first token of each, in
 * a text of `tokens` tokens. */
int64_t lab_plan_windows(const lab_plan *plan, int c, int64_t tokens, int64_t *starts);

/* -- the results -- */
/* Answers of a cell about earlier parts, by window: the same windows for every row and seed. */
typedef struct lab_answers {
    double share;           /* right ones */
    int64_t asked, windows; /* asked / windows in each */
    int right[LAB_WINDOWS];
} lab_answers;

typedef struct lab_cell {
    int measured; /* 0: the run was stopped before */
    int known;    /* 0: the encoding ends before this context */
    double nats;  /* per byte */
    double by_region[LAB_REGIONS];
    int64_t scored;
    lab_answers keys, copies; /* keys found; bytes of copies */
} lab_cell;

/* A measure over the seeds.  low .. high: 95 % of a bootstrap (lab_statistics.c). */
typedef struct lab_figure {
    double mean, low, high, least, greatest;
} lab_figure;
/* A cell over the seeds that are measured.  known 0: it is 0 for any of them, and there are no figures. */
typedef struct lab_spread {
    int measured, known;
    lab_figure of[LAB_MEASURES]; /* perplexity; shares */
} lab_spread;

typedef struct lab_row {
    char name[METHOD_LABEL];
    lab_cell cells[LAB_SEEDS][LAB_CONTEXTS];
    lab_spread spread[LAB_CONTEXTS];
    int64_t seeds_done; /* whose cells are all measured */
    int rotates;
    gyre_scaling_parts parts;        /* at the longest context */
    int64_t positions;               /* context of by_position; 0 = none */
    double by_position[LAB_BUCKETS]; /* nats per byte of the first seed at the longest context of the row */
} lab_row;

/* How alike two measures rank the rows of a part of the tables at a context: Kendall's tau-b, 1 = in the same order, -1 = in
 * the opposite one, low perplexity and high shares being good. */
typedef enum lab_part { LAB_ENCODINGS, LAB_METHODS_AS_THEY_ARE, LAB_FINE_TUNED, LAB_SLOPES, LAB_PARTS } lab_part;
enum { LAB_PAIRS = 3 }; /* perplexity and keys; perplexity and copies; keys and copies */
typedef struct lab_rank {
    int known; /* 0: fewer than three rows, or a measure is the same for all */
    int64_t rows;
    double tau, low, high;
} lab_rank;

/* What has been printed of the tables.  Row `next` of a table comes next, of its first block. */
typedef struct lab_printed {
    int tables; /* that are printed whole */
    int64_t next, width[LAB_COLUMNS];
    int has_head;
    table_block first; /* block; the others follow when all rows are known */
} lab_printed;

typedef struct lab {
    cli_options common;
    training_texts texts;
    run_options run;  /* only the report */
    const char *work; /* the work folder; NULL = none, the models are bundled */
    const char *task; /* NULL: a text */
    lab_plan plan;
    gyre_exec exec;
    gyre_text all, train, held_out; /* train and held_out are parts of `all`; for bundled models held_out is all of it */
    line_journal memo;              /* cells measured so far */
    char memo_path[LAB_PATH];
    cli_progress progress; /* counts costs */
    int64_t token_cost;    /* of the cell that is measured */
    int64_t rows_wanted;   /* of all seeds, with cells that are not known when the work begins */
    lab_printed printed;
    int stopped;   /* by Ctrl-C: some cells are not measured */
    cli_lock lock; /* of the work folder */
    char command[1024];
    double seconds;
    gyre_encoding *maps[LAB_METHODS]; /* the methods at the longest context, for the figures */
    lab_row encodings[MAX_VARIANTS], methods[LAB_METHODS], tuned[LAB_TUNED_ROWS], stretched[LAB_STRETCHED];
    lab_rank ranks[LAB_PARTS][LAB_PAIRS][LAB_CONTEXTS];
} lab;

/* Fills in row->spread[context] from the cells of the seeds that are measured: the first ones. */
void lab_summarise(const lab_plan *plan, lab_row *row, int context);
/* values[seed][window] of a measure, a perplexity in nats; out = the number of windows. */
int64_t lab_values(const lab_plan *plan, const lab_row *row, int context, lab_measure measure, int64_t seeds,
                   double values[LAB_SEEDS * LAB_WINDOWS]);
/* out = the rows of a part, *count of them. */
const lab_row *lab_part_rows(const lab *l, lab_part part, int *count);
/* Fills in l->ranks from the rows that are complete. */
void lab_rank_rows(lab *l);
/* out = the two measures of a pair. */
lab_measure lab_pair_first(int pair);
lab_measure lab_pair_second(int pair);
/* out = the rows of the encodings, the methods, the fine-tuned models and the slopes; and how many have all cells. */
int lab_rows_count(const lab *l);
int lab_rows_done(const lab *l);
/* out = 1 if any cell of the row is measured; of any row. */
int lab_row_begun(const lab_row *row);
int lab_has_rows(const lab *l);

/* -- the work -- */
/* Names a model: the base model of `encoding`; if that is NULL, fine-tuned model number `tuned`, made from `base`; number
 * LAB_TUNED is the one whose rotation is dropped. */
typedef struct lab_model lab_model;
typedef struct lab_model_spec {
    int64_t seed;
    const variant *encoding;
    int tuned;
    lab_model *base;
} lab_model_spec;

/* A model whose cells are wanted.  It is opened or trained when the first of them has to be measured: where the journal has
 * them all, a work folder needs no models. */
struct lab_model {
    lab_model_spec spec;
    char name[LAB_NAME];  /* in the journal */
    gyre_config position; /* of the base model; where the rotation is dropped, without it */
    gyre_model *opened;   /* NULL: not needed so far */
};
/* Notes what a run without a text reads: the bundled models and the headers (tools/cli/cli_guard.h). */
void lab_note_bundled(void);
/* The base model, if any, outlives *out.  Errors: those of opening a bundled model. */
gyre_status lab_model_begin(lab *l, const lab_model_spec *spec, lab_model *out, gyre_error *err);
/* *out = the model, opened; m owns it.  Trains it, and its base before, where it is missing. */
gyre_status lab_model_need(lab *l, lab_model *m, const gyre_model **out, gyre_error *err);
void lab_model_end(lab_model *m);
/* Whether the methods that were added make encodings at all contexts, before anything is trained.  Errors: those of
 * method_encoding. */
gyre_status lab_check_added(lab *l, gyre_error *err);

/* Opens the model, or trains it, from a checkpoint if there is one.  base: what a fine-tuned model is made from. */
gyre_status lab_load_model(lab *l, const lab_model_spec *wanted, const char *name, const gyre_model *base, gyre_model **out,
                           gyre_error *err);
/* Writes the name of a model: "rope" or "rope-tuned-yarn-16"; in a work folder followed by the seed. */
void lab_model_name(const lab *l, const lab_model_spec *wanted, char name[LAB_NAME]);
/* *out = the model `name` of the work folder.  If it is not finished, trains it with the options o from the weights of
 * `start` (or NULL), or from its checkpoint. */
gyre_status lab_train_model(lab *l, const char *name, const gyre_train_options *o, const gyre_model *start, gyre_model **out,
                            gyre_error *err);
/* Sets model->position to the encoding for a model of these sizes in this plan. */
gyre_status lab_position_config(const lab *l, const variant *encoding, gyre_model_config *model, gyre_error *err);
/* Errors: EIO, EINVAL: the report cannot be written, or drawn. */
gyre_status lab_check_report(const lab *l, gyre_error *err);
/* Creates the work folder, or checks that it belongs to this plan and text.  Errors: EINVAL (it does not), EIO, EFORMAT. */
gyre_status lab_work_open(lab *l, gyre_error *err);

/* Opens l->memo: the file `name` in the work folder, or in memory only without a work folder.  Its lines are {"key", ...},
 * and a result is the whole line. */
gyre_status lab_memo_open(lab *l, const char *name, gyre_error *err);
/* Remembers `line` under key and writes it.  line: {"key": key, ...}, released; NULL (a value that JSON cannot hold) is not
 * remembered. */
gyre_status lab_memo_add(lab *l, const char *key, json_t *line, gyre_error *err);

/* A cell as the journal holds it. */
typedef struct lab_entry {
    lab_cell cell;     /* all but `measured` */
    int64_t positions; /* context of by_position; 0 = not measured */
    double by_position[LAB_BUCKETS];
} lab_entry;
/* out = 1 if the cell of that key is known; *out then gets it. */
int lab_entry_find(const lab *l, const char *key, lab_entry *out);
gyre_status lab_entry_add(lab *l, const char *key, const lab_entry *e, gyre_error *err);

/* A model under a method. */
typedef struct lab_measurement {
    lab_model *model;
    const method *method;
} lab_measurement;
/* Writes the name of a row of that measurement for the progress: rows of several tables have the same name. */
void lab_row_label(const lab *l, const lab_measurement *s, const char *row, char label[LAB_NAME]);
/* Fills in row->cells[seed][*] and row->spread. */
gyre_status lab_measure_row(lab *l, const lab_measurement *subject, lab_row *row, gyre_error *err);
/* out = 1 if the loss by position is measured at context number c: at the longest, and at the trained one in case the
 * encoding ends there. */
int lab_has_positions(const lab *l, int64_t seed, int c);
/* Writes what the cell of this encoding at context number c depends on.  Cells of equal keys are measured once. */
void lab_cell_key(const lab *l, const lab_measurement *subject, const gyre_encoding *encoding, int c, char key[LAB_KEY]);

/* -- the cost of it -- */
/* Costs are in multiply-adds of a layer, per channel.  out = that of all models and cells that are not known yet;
 * sets l->rows_wanted. */
int64_t lab_cost_all(lab *l);
/* out = that of a token in a window of context number c; of a cell; of a token in training. */
int64_t lab_cost_token(const lab *l, int c);
int64_t lab_cost_cell(const lab *l, int c);
int64_t lab_cost_trained(const lab *l, const gyre_train_options *o);
/* The progress callback of a cell: ctx is the lab.  Adds `tokens` times l->token_cost. */
void lab_cost_step(void *ctx, int64_t tokens, int64_t all);
/* Says on stderr what is measured and how long `cost` will take here, by a trial of less than a second.  Errors: those of
 * the models. */
gyre_status lab_say_duration(lab *l, int64_t cost, gyre_error *err);

/* -- the output -- */
/* Prints the rows that are complete and not printed yet; of a stopped run, every row that was begun. */
int lab_print_rows(lab *l, FILE *file);
/* Prints what follows the rows. */
int lab_print_end(const lab *l, FILE *file);
int lab_print_json(const lab *l, FILE *file);
gyre_status lab_write_report(const lab *l, gyre_error *err);

#endif
