/* result_table.c: memory of tables. */
#include "tools/common/result_table.h"
#include "tools/cli/cli_error.h"
#include "tools/cli/cli_output.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

gyre_status result_table_create(result_table *out, int64_t columns, int64_t rows, int64_t texts, gyre_error *err) {
    *out = (result_table){.table = GYRE_REPORT_TABLE_INIT};
    out->columns = calloc((size_t)columns, sizeof *out->columns);
    out->cells = calloc((size_t)(columns * rows), sizeof *out->cells);
    out->texts = calloc((size_t)texts, sizeof *out->texts);
    out->table.columns = out->columns;
    out->table.columns_count = columns;
    out->table.cells = out->cells;
    out->table.rows = rows;
    if (out->columns && out->cells && out->texts) return GYRE_OK;
    result_table_free(out);
    return gyre_fail(err, GYRE_ENOMEM, "table: out of memory (%lld rows)", (long long)rows);
}

gyre_status result_table_printed(gyre_status status, FILE *file, gyre_error *err) {
    const int code = errno;
    const char *name = cli_output_name(file);
    if (status != GYRE_EIO || !code || !name) return status;
    return gyre_fail(err, GYRE_EIO, "%.380s: %s (writing the result)", name, strerror(code));
}

int64_t result_best_row(int64_t rows, double (*cost)(const void *of, int64_t row), const void *of) {
    int64_t best = -1;
    double least = NAN;
    for (int64_t r = 0; r < rows; r++) {
        const double its = cost(of, r);
        if (isnan(its) || its >= least) continue;
        best = r;
        least = its;
    }
    return best;
}

void result_table_free(result_table *t) {
    free(t->columns);
    free(t->cells);
    free(t->texts);
    *t = (result_table){.table = GYRE_REPORT_TABLE_INIT};
}

const char *report_date(char out[REPORT_DATE]) {
    const time_t now = time(NULL);
    struct tm utc;
    out[0] = 0;
    if (gmtime_r(&now, &utc)) (void)strftime(out, REPORT_DATE, "%Y-%m-%d %H:%M UTC", &utc);
    return out;
}
