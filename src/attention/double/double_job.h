/* double_job.h: the working memory of a job of a call whose queries, keys and values are doubles, and what it holds of the
 * keys of an item and of one query.  Everything is dense: speed is not the aim, so each row of scores is computed whole. */
#ifndef GYRE_ATTENTION_DOUBLE_JOB_H
#define GYRE_ATTENTION_DOUBLE_JOB_H
#include "attention/plan/attention_plan.h"

/* A row of a vector table of the query's head, and the table; data NULL: the encoding has none. */
typedef struct gyre_double_table {
    gyre_cview view;
    int64_t head;
    double *row; /* [head_dim]: room for a row */
} gyre_double_table;

/* Gradients have the name of their array and a d before it; NULL in a forward. */
typedef struct gyre_double_job {
    const gyre_attention_plan *plan;
    const gyre_table_gradients *gradients; /* NULL = none wanted */

    /* -- an item -- */
    int64_t batch, key_head;
    int64_t *positions, *order;                                   /* [keys]; order: as in gyre_key_buffers */
    double *k[GYRE_MAX_KEY_VARIANTS], *dk[GYRE_MAX_KEY_VARIANTS]; /* [keys][key_dim], rotated, without xPos's magnitudes */
    double *v, *dv;                                               /* [keys][value_dim] */
    double *angles;                                               /* [2][pairs] of one token */

    /* -- a head of it -- */
    int64_t head; /* query head, counted in the segment */
    gyre_double_table query_table, key_table, value_table;
    double *gate_sums, *dgate_sums; /* [keys] */

    /* -- a query of that -- */
    int64_t query, position;
    double scale, temperature, gate_sum, dgate_sum;       /* scale: of the call, times the temperature */
    double *q[GYRE_MAX_VARIANTS], *dq[GYRE_MAX_VARIANTS]; /* [head_dim], rotated and scaled: what products take */
    double *table_q, *dtable_q; /* what the query table is multiplied with: q[0], or a separate row */
    double *out, *dout;         /* [value_dim] */
    double *value;              /* [value_dim]: of one key */
    int64_t count;              /* keys that it sees; the arrays below have an entry for each */
    int64_t *key, *at;          /* index in the segment; position */
    double *mask, *bias, *kept; /* kept: what dropout multiplies the weight by */
    double *turns;              /* of phases */
    double *score, *dscore, *cap_slope;
    double *channels; /* [head_dim]: room for numbers of one pair, or of one head */
} gyre_double_job;

/* Sets the pointers of *job to parts of `memory`; out = bytes.  memory NULL: only count. */
size_t gyre_double_job_layout(const gyre_attention_plan *plan, char *memory, gyre_double_job *job);

/* Reads keys and values of an item, and clears their gradients. */
void gyre_double_item_begin(gyre_double_job *job, int64_t item);
/* Writes, or adds, the gradients of the keys and values of the item.  dkv: dk and dv of the segment. */
void gyre_double_item_end(gyre_double_job *job, const gyre_view *dkv);
/* Query head `head` of the segment; and its gradient for the gate sums of keys. */
void gyre_double_head_begin(gyre_double_job *job, int64_t head);
void gyre_double_head_end(const gyre_double_job *job);
/* Reads a query and finds the keys that it sees; writes, or adds, its gradients. */
void gyre_double_query_begin(gyre_double_job *job, int64_t query);
void gyre_double_query_end(gyre_double_job *job, const gyre_view *dq);

/* out = row `row` of a table, as doubles; NULL: the scheme adds nothing there. */
const double *gyre_double_table_row(const gyre_double_table *table, int64_t row);
/* The gradient of the table += x[n] in that row, from channel 0 on. */
void gyre_double_table_add(const gyre_double_job *job, gyre_table which, int64_t row, const double *x, double factor,
                           int64_t n);

#endif
