/* plot_results.h: the table of results that plot_results.c reads and plot_runs.c draws. */
#ifndef GYRE_TOOLS_PLOT_RESULTS_H
#define GYRE_TOOLS_PLOT_RESULTS_H
#include "tools/plot/plot.h"

enum { COLUMN_RUN, COLUMN_METHOD, COLUMN_LENGTH, COLUMN_VALUE, COLUMN_LOW, COLUMN_HIGH, COLUMN_DEPTH };
typedef enum runs_measure { RUNS_PERPLEXITY, RUNS_KEYS, RUNS_COPIES } runs_measure;
extern const plot_column plot_perplexity_columns[], plot_passkey_columns[], plot_copying_columns[];

/* Fills the table of a figure from its files.  Errors: those of a file; without one, a usage error. */
gyre_status plot_results_read(plot_work *w, runs_measure measure, gyre_error *err);

#endif
