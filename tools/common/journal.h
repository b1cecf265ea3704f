/* journal.h: results of a long run, one JSON object per line of a file, so that a run that was killed can continue.
 *
 * A result is found again by its key, a text that holds everything the result depends on.  The format says how a line holds
 * key and result:
 *
 *     eval, passkey, extend   {"cell": what defines the result, "figures": the result}      keyed_journal.h
 *     search          first line: the search itself; then one line per reading     search_journal.h
 *     lab             {"key": text, ...: the result}                               lab_cells.c, lab_task_cells.c */
#ifndef GYRE_TOOLS_JOURNAL_H
#define GYRE_TOOLS_JOURNAL_H
#include "gyre/gyre.h"
#include <jansson.h>
#include <stdio.h>

typedef struct journal_format {
    /* out = the key of a line, which the journal frees; *result = the part of the line that is remembered, borrowed.
     * NULL: the line holds no result and is ignored, or *err says why the file cannot be used (status is not GYRE_OK). */
    char *(*read_line)(void *ctx, json_t *line, json_t **result, gyre_status *status, gyre_error *err);
    void *ctx;
    size_t flags; /* of json_dumpf, besides JSON_COMPACT */
    int replace;  /* 1: what the file holds is dropped, once it is locked */
} journal_format;

typedef struct line_journal {
    const char *path; /* borrowed; NULL = in memory only */
    FILE *file;       /* NULL = in memory only */
    double synced;    /* cli_seconds() of the last sync; 0 = none yet */
    int unsynced;     /* 1: lines were written since */
    journal_format format;
    json_t *results; /* {key: result} */
} line_journal;

/* EINVAL for a descriptor (/dev/stdout), for what is no regular file, and for a file with a line that is not this journal's:
 * it begins with none of `begins` (up to a NULL), nor is it as much of one as a kill left.  begins NULL: for any content.
 * *empty = 1: there is no line, or no file.  Errors: EINVAL, EIO, ENOMEM. */
gyre_status journal_check_file(const char *path, const char *const *begins, int *empty, gyre_error *err);
/* Reads the lines of the file at `path`, if it exists, and opens it for more.  Lines that are not JSON are ignored: a kill
 * may have cut one off, and its result is then measured again.  path NULL: in memory only.  Errors: EIO, ENOMEM, those of
 * read_line. */
gyre_status journal_open(line_journal *j, const char *path, const journal_format *format, gyre_error *err);
/* journal_write syncs to disk at most once a second, so that cheap cells stay cheap; this syncs the rest.  Every rank of
 * a team calls it, before results are printed.  Errors: EIO. */
gyre_status journal_finish(line_journal *j, gyre_error *err);
void journal_close(line_journal *j); /* also for one that is zeroed or failed to open */
/* out = the result of that key, valid as long as the journal; NULL = not known. */
json_t *journal_find(const line_journal *j, const char *key);
/* Remembers `result` and writes `line`, if there is a file.  Releases line; takes its own reference to result, which may be
 * a part of line.  Errors: EIO, ENOMEM (line or result is NULL). */
gyre_status journal_add(line_journal *j, const char *key, json_t *result, json_t *line, gyre_error *err);
/* Writes a line that holds no result.  Releases it. */
gyre_status journal_write(line_journal *j, json_t *line, gyre_error *err);

#endif
