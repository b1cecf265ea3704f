/* extend_print.h: the results of gyre extend as text and as JSON. */
#ifndef GYRE_TOOLS_EXTEND_PRINT_H
#define GYRE_TOOLS_EXTEND_PRINT_H
#include "tools/explain/explain_terminal.h"
#include "tools/extend/extend_verdict.h"

#include <stdio.h>

extern const char *const extend_support_names[]; /* by extend_support: "no", "differs", "same", "untried" */

/* Each returns the exit status, with errors printed.  rows: [count], one for each method.  The page begins with what is
 * recommended; tables 1: it ends with those of all methods. */
int extend_print_page(const extension *e, const extend_method *methods, const extend_effect *rows, int64_t count,
                      const extend_verdict *verdict, int tables, FILE *file);
int extend_print_json(const extension *e, const extend_method *methods, const extend_effect *rows, int64_t count,
                      const extend_verdict *verdict, FILE *file);

/* -- extend_print_verdict.c -- */
/* The recommendation and its reason. */
void extend_print_answer(const explain_terminal *page, const extend_method *methods, const extend_effect *rows,
                         const extend_verdict *verdict);
/* What to write for each engine, what to run next, and the costs. */
int extend_print_steps(const explain_terminal *page, const extension *e, const extend_method *methods,
                       const extend_verdict *verdict);
/* The command to run next if nothing was measured. */
void extend_print_measure(const explain_terminal *page, const extension *e, int stopped, const char *command);
json_t *extend_verdict_json(const extend_method *methods, const extend_verdict *verdict);

/* The config that was written to `path`. */
int extend_print_written(const extension *e, const extend_method *r, const char *path, const extend_key_change *changes,
                         int count, FILE *file);
int extend_print_written_json(const extension *e, const extend_method *r, const char *path, const extend_key_change *changes,
                              int count, FILE *file);
/* The settings of a trainer. */
int extend_print_settings_json(const extension *e, const extend_method *r, gyre_profile trainer, const char *text,
                               FILE *file);

/* What a scheme without rotation does at a longer length: most have nothing to stretch. */
int extend_print_other(const extension *e, int json, FILE *file);

#endif
