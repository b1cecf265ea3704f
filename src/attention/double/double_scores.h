/* double_scores.h: the scores of one query, and their gradient. */
#ifndef GYRE_ATTENTION_DOUBLE_SCORES_H
#define GYRE_ATTENTION_DOUBLE_SCORES_H
#include "attention/double/double_job.h"

/* job->score = what the softmax reads, for the keys that the query sees; in a gradient also cap_slope. */
void gyre_double_scores(gyre_double_job *job);
/* job->dscore is the gradient of the scores: adds to dq, dk and the gradients of tables and gate sums. */
void gyre_double_scores_backward(gyre_double_job *job);

/* job->value = the value of visible key j, with what the scheme adds to it. */
void gyre_double_value(gyre_double_job *job, int64_t j);
/* Adds factor x[value_dim] to the gradient of that value. */
void gyre_double_value_backward(gyre_double_job *job, int64_t j, double factor, const double *x);

#endif
