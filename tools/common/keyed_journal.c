/* keyed_journal.c: see keyed_journal.h. */
#include "tools/common/keyed_journal.h"
#include "tools/common/journal.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static char *key_of(const json_t *cell) {
    return json_dumps(cell, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(17));
}

static void load_line(void *seen, json_t *line) {
    json_t *cell = json_object_get(line, "cell"), *figures = json_object_get(line, "figures");
    char *key = cell && figures ? key_of(cell) : NULL;
    if (key) (void)json_object_set(seen, key, figures);
    free(key);
}

static gyre_status check_file(const char *path, int resume, gyre_error *err) {
    FILE *file = fopen(path, "r");
    if (!file) return GYRE_OK; /* a new one, or an error of opening it to write */
    int c = getc(file);
    while (c == '\n')
        c = getc(file);
    fclose(file);
    if (c != EOF && c != '{') return gyre_fail(err, GYRE_EINVAL, "journal: holds something else (%s)", path);
    if (c == EOF || resume) return GYRE_OK;
    return gyre_fail(err, GYRE_EINVAL, "journal: holds figures of an earlier run; go on from them with --resume (%s)", path);
}

gyre_status keyed_journal_open(keyed_journal *journal, const char *path, int resume, gyre_error *err) {
    *journal = (keyed_journal){.lock = {.file = -1}};
    if (!path) return GYRE_OK;
    gyre_status status = check_file(path, resume, err);
    if (status) return status;
    if (cli_lock_acquire(&journal->lock, path, NULL))
        return gyre_fail(err, GYRE_EIO, "journal: another run is writing it, or nobody can: %s (%s)", strerror(errno), path);
    journal->path = path;
    journal->figures = json_object();
    if (!journal->figures) return gyre_fail(err, GYRE_ENOMEM, "journal: out of memory (%s)", path);
    return journal_open(&journal->file, path, load_line, journal->figures, err);
}

void keyed_journal_close(keyed_journal *journal) {
    if (!journal->path) return;
    if (journal->file) fclose(journal->file);
    json_decref(journal->figures);
    cli_lock_release(&journal->lock);
    *journal = (keyed_journal){.lock = {.file = -1}};
}

json_t *keyed_journal_find(const keyed_journal *journal, json_t *cell) {
    char *key = journal->figures && cell ? key_of(cell) : NULL;
    json_t *figures = key ? json_object_get(journal->figures, key) : NULL;
    free(key);
    json_decref(cell);
    return figures;
}

gyre_status keyed_journal_add(keyed_journal *journal, json_t *cell, json_t *figures, gyre_error *err) {
    if (!journal->file) {
        json_decref(cell);
        json_decref(figures);
        return GYRE_OK;
    }
    json_t *line = cell && figures ? json_pack("{s:o, s:o}", "cell", cell, "figures", figures) : NULL;
    if (!line) return gyre_fail(err, GYRE_ENOMEM, "journal: out of memory (%s)", journal->path);
    const int bad = json_dumpf(line, journal->file, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(17)) ||
                    fputc('\n', journal->file) == EOF || fflush(journal->file);
    json_decref(line);
    return bad ? gyre_fail(err, GYRE_EIO, "journal: %s (%s)", strerror(errno), journal->path) : GYRE_OK;
}
