/* lab_task.h: gyre lab --task: models trained on generated sequences within 64 tokens, asked beyond them.
 *
 * lab_task.c plans, trains and measures, lab_task_cells.c keeps what was measured, lab_task_report.c shows.  A result is a
 * row (an encoding, or the RoPE model under a method) and a rule (each of PosGen's three; copying is one), and holds points:
 * places in the sequence, or distances, that are inside or outside what was trained. */
#ifndef GYRE_TOOLS_LAB_TASK_H
#define GYRE_TOOLS_LAB_TASK_H
#include "report/report.h"
#include "tools/lab/lab.h"

enum { TASK_RULES = 3, TASK_POINTS = 32, TASK_METHODS = 12, TASK_ROWS = MAX_VARIANTS + TASK_METHODS };

typedef struct task_rule {
    gyre_task task;
    const char *name, *description; /* "cot", "chain of thought" */
} task_rule;

/* What one row got right under one rule, by point; asked 0: the encoding ends before. */
typedef struct task_result {
    int64_t right[TASK_POINTS], asked[TASK_POINTS];
} task_result;

typedef struct task_row {
    char name[METHOD_LABEL];
    int method; /* number of the method, of the RoPE model; -1: an encoding as it was trained */
    task_result results[LAB_SEEDS][TASK_RULES];
} task_row;

typedef struct task_memo task_memo;
typedef struct task_lab {
    lab *lab;
    const char *title, *axis; /* of the figures */
    gyre_report_scale scale;
    int rules, points, columns; /* columns: points have columns of their own in the table */
    task_rule rule[TASK_RULES];
    int64_t sequences;
    int64_t length[TASK_POINTS]; /* the sequences in which a point is measured */
    double at[TASK_POINTS];      /* on the figure's axis */
    int inside[TASK_POINTS];
    method methods[TASK_METHODS];
    int methods_count, rows_count;
    task_row rows[TASK_ROWS];
    task_memo *memo;
} task_lab;

/* The sizes of the models, in a plan of their own. */
void lab_task_plan(lab_plan *plan, const char *task, lab_preset preset);
/* out = the exit status. */
int lab_task_run(lab *l);

/* -- parts -- */
gyre_status task_memo_open(task_lab *t, gyre_error *err); /* with the work folder's journal */
void task_memo_free(task_memo *memo);
/* 1: known, and *out holds it. */
int task_memo_find(const task_memo *memo, const char *key, int points, task_result *out);
gyre_status task_memo_add(task_memo *memo, const char *key, int points, const task_result *result, gyre_error *err);

/* Over the points inside (1), outside (0), or a single one: mean, least and greatest share over the seeds. */
enum { TASK_OUTSIDE = -2, TASK_INSIDE = -1 };
typedef struct task_accuracy {
    int known;
    double mean, min, max;
    int64_t asked; /* of all seeds */
} task_accuracy;
task_accuracy task_accuracy_of(const task_lab *t, const task_row *row, int rule, int point);

int task_print(const task_lab *t, FILE *file);
int task_print_json(const task_lab *t, FILE *file);
gyre_status task_write_report(const task_lab *t, gyre_error *err);

#endif
