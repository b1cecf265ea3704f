/* extend_print.h: what gyre extend found, for people and for machines. */
#ifndef GYRE_TOOLS_EXTEND_PRINT_H
#define GYRE_TOOLS_EXTEND_PRINT_H
#include "tools/extend/extend.h"

#include <stdio.h>

/* Each ends with the exit status, errors printed.  rows: [count], one for each recipe. */
int extend_print_table(const extension *e, const extend_method *methods, const extend_effect *rows, int64_t count,
                       FILE *file);
int extend_print_json(const extension *e, const extend_method *methods, const extend_effect *rows, int64_t count,
                      FILE *file);

/* What was written to `path`. */
int extend_print_written(const extension *e, const extend_method *r, const char *path, const extend_key_change *changes,
                         int count, FILE *file);
int extend_print_written_json(const extension *e, const extend_method *r, const char *path, const extend_key_change *changes,
                              int count, FILE *file);

/* A scheme that has nothing to stretch: what it does instead. */
int extend_print_other(const extension *e, int json, FILE *file);

#endif
