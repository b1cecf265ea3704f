/* journal.c: the lines of a journal, read back and added to. */
#include "tools/common/journal.h"
#include <stdlib.h>

static gyre_status read_lines(const char *path, void (*on_line)(void *ctx, json_t *line), void *ctx, gyre_error *err) {
    FILE *file = fopen(path, "r");
    if (!file) return GYRE_OK; /* a new run */
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, file) > 0) {
        json_t *json = json_loads(line, 0, NULL);
        if (json) on_line(ctx, json);
        json_decref(json);
    }
    const int bad = ferror(file);
    free(line);
    fclose(file);
    return bad ? gyre_fail(err, GYRE_EIO, "journal: cannot be read (%s)", path) : GYRE_OK;
}

gyre_status journal_open(FILE **out, const char *path, void (*on_line)(void *ctx, json_t *line), void *ctx,
                         gyre_error *err) {
    const gyre_status status = read_lines(path, on_line, ctx, err);
    if (status) return status;
    FILE *file = fopen(path, "a");
    if (!file) return gyre_fail(err, GYRE_EIO, "journal: cannot be written (%s)", path);
    fputc('\n', file); /* ends a line that a kill cut off */
    *out = file;
    return GYRE_OK;
}
