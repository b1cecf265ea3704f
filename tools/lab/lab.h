/* lab.h: the main job: train short, test long, with every encoding, then the RoPE model under every method.
 *
 * lab_plan.c says what is trained and measured, lab_runs.c brings the models (bundled, trained before, or trained now),
 * lab_cells.c measures, lab_tables.c and lab_report.c show. */
#ifndef GYRE_TOOLS_LAB_H
#define GYRE_TOOLS_LAB_H
#include "gyre/gyre_train.h"
#include "tools/common/cli.h"
#include "tools/common/methods.h"
#include "tools/common/variants.h"

enum { LAB_CONTEXTS = 5, LAB_METHODS = 13, LAB_TUNED = 8, LAB_SEEDS = 5, LAB_BUCKETS = 64, LAB_REGIONS = 8, LAB_TEXTS = 64 };

/* -- what is done -- */
typedef struct lab_plan {
    const char *preset;             /* "bundled", "quick", "full" or "smoke" */
    int64_t trained;                /* tokens of a training sequence */
    int64_t contexts[LAB_CONTEXTS]; /* 1, 2, 4, 8, 16 times it */
    int64_t longest;                /* the most that a model is tested on */
    int64_t seeds;
    variant encodings[MAX_VARIANTS];
    int encodings_count;
    int rope;                     /* which of them is plain RoPE, that the methods extend; -1: none is */
    gyre_train_options run, tune; /* of a base model; of a fine-tuning at the longest context */
    int64_t regions;    /* stretches of text, half the longest context each: every context is scored on the same bytes */
    int64_t trials;     /* passkeys asked for at least */
    method_betas betas; /* follow the trained length: 32 turns leave no pair alone at a short one */
    method methods[LAB_METHODS];
    int tuned_of[LAB_METHODS]; /* which fine-tuned weights a method is measured with */
    method tuned[LAB_TUNED];
} lab_plan;

/* What --preset names; where models are bundled there is no choice.  mix: share of passkey and copy sequences. */
typedef enum lab_preset { LAB_QUICK, LAB_FULL, LAB_SMOKE, LAB_BUNDLED } lab_preset;
void lab_plan_make(lab_plan *plan, lab_preset preset, double mix);
/* Which encodings: without this call, those that come bundled. */
void lab_plan_encodings(lab_plan *plan, const variant *encodings, int count);
/* out = 1 for an encoding whose model comes with gyre. */
int lab_is_bundled(const variant *encoding);
/* out = windows that score the regions at context number c; starts[] (or NULL) = where each begins in `tokens` tokens of
 * text. */
int64_t lab_plan_windows(const lab_plan *plan, int c, int64_t tokens, int64_t *starts);

/* -- what is found -- */
typedef struct lab_cell {
    int known;            /* 0: the encoding ends before this context */
    double nats, passkey; /* nats per byte; share of keys found */
    int64_t scored, trials;
} lab_cell;

typedef struct lab_row {
    char name[METHOD_LABEL];
    lab_cell cells[LAB_SEEDS][LAB_CONTEXTS];
    int rotates;
    gyre_scaling_parts parts;        /* at the longest context */
    int64_t positions;               /* context of the next; 0 = none */
    double by_position[LAB_BUCKETS]; /* nats per byte, first seed, at the longest context the row has */
} lab_row;

typedef struct lab_memo lab_memo;
typedef struct lab {
    cli_options common;
    const char *texts[LAB_TEXTS];
    int64_t text_count;
    const char *work, *report;
    const char *task; /* NULL: a text */
    lab_plan plan;
    gyre_exec exec;
    gyre_text all, train, held_out; /* train and held lie in all, or (bundled) held is the headers' own */
    lab_memo *memo;
    cli_progress progress;
    cli_lock lock; /* of the work folder */
    char command[1024];
    double seconds;
    gyre_encoding *maps[LAB_METHODS]; /* the methods at the longest context, for the pictures */
    lab_row encodings[MAX_VARIANTS], methods[LAB_METHODS], tuned[LAB_METHODS];
} lab;

/* Mean, least and greatest of a cell over the seeds; known 0 where any seed is. */
typedef struct lab_spread {
    int known;
    double perplexity, min, max, passkey, passkey_min, passkey_max;
} lab_spread;
lab_spread lab_cell_spread(const lab *l, const lab_row *row, int context);

/* -- parts -- */
/* encoding: *out = the base model of that encoding.  NULL: the fine-tuned one number `tuned`, made from `base`. */
typedef struct lab_model_spec {
    int64_t seed;
    const variant *encoding;
    int tuned;
    const gyre_model *base;
} lab_model_spec;
/* Opens it, or trains it (going on from a checkpoint).  name: of the model, for the journal. */
gyre_status lab_load_model(lab *l, const lab_model_spec *wanted, gyre_model **out, char name[METHOD_LABEL + 16],
                           gyre_error *err);
/* *out = the model `name` of the work folder: opened if it is finished, else trained as o says, from `start` (or NULL),
 * going on from a checkpoint. */
gyre_status lab_train_model(lab *l, const char *name, const gyre_train_options *o, const gyre_model *start, gyre_model **out,
                            gyre_error *err);
/* model->position = the encoding for a model of those sizes in this plan. */
gyre_status lab_position_config(const lab *l, const variant *encoding, gyre_model_config *model, gyre_error *err);
/* Makes or checks the work folder: what it holds must be of this plan and text. */
gyre_status lab_work_open(lab *l, gyre_error *err);

gyre_status lab_memo_open(lab *l, gyre_error *err); /* with the work folder's journal, if there is one */
void lab_memo_free(lab_memo *memo);
/* Fills row->cells[seed][*]: the model under the method, its rotation taken from the base model's config. */
typedef struct lab_measurement {
    const gyre_model *model;
    const char *name; /* of the weights */
    const gyre_config *position;
    const method *method;
    int64_t seed;
} lab_measurement;
gyre_status lab_measure(lab *l, const lab_measurement *subject, lab_row *row, gyre_error *err);

int lab_print(const lab *l, FILE *file);
int lab_print_json(const lab *l, FILE *file);
gyre_status lab_write_report(const lab *l, gyre_error *err);

#endif
