/* keyed_journal.c: a journal with cells as keys. */
#include "tools/common/keyed_journal.h"
#include "tools/cli/cli_error.h"
#include "tools/team/team.h"
#include <stdlib.h>
#include <string.h>

enum { DUMP_FLAGS = JSON_SORT_KEYS | JSON_REAL_PRECISION(17) };

static char *key_of(const json_t *cell) {
    return json_dumps(cell, JSON_COMPACT | DUMP_FLAGS);
}

/* ctx: the path.  A line of another program's JSON would be lost among those that the run adds. */
static char *read_line(void *ctx, json_t *line, json_t **result, gyre_status *status, gyre_error *err) {
    const json_t *cell = json_object_get(line, "cell");
    *result = json_object_get(line, "figures");
    if (!json_is_object(cell) || !*result) {
        *status = gyre_fail(err, GYRE_EINVAL, "journal: its content is not a journal of Gyre (%s)", (const char *)ctx);
        return NULL;
    }
    char *key = key_of(cell);
    if (!key) *status = gyre_fail(err, GYRE_ENOMEM, "journal: out of memory (%s)", (const char *)ctx);
    return key;
}

static gyre_status check_file(const char *path, journal_mode mode, gyre_error *err) {
    static const char *const begins[] = {"{\"cell\":", NULL};
    int empty;
    const gyre_status status = journal_check_file(path, mode == JOURNAL_REPLACE ? NULL : begins, &empty, err);
    if (status || empty || mode != JOURNAL_NEW) return status;
    return gyre_fail(err, GYRE_EINVAL,
                     "journal: has results of an earlier run; --resume continues from them, --force replaces them (%s)",
                     path);
}

gyre_status keyed_journal_open(keyed_journal *j, const char *path, journal_mode mode, gyre_error *err) {
    const journal_format format = {
        .read_line = read_line, .ctx = (void *)path, .flags = DUMP_FLAGS, .replace = mode == JOURNAL_REPLACE};
    *j = (keyed_journal){0};
    if (!path) return GYRE_OK;
    gyre_status status = team_agree(team_leads() ? check_file(path, mode, err) : GYRE_OK, err);
    if (!status) status = journal_open(&j->lines, path, &format, err);
    if (status) journal_close(&j->lines);
    return status;
}

void keyed_journal_close(keyed_journal *j) {
    if (!j->lines.path) return;
    journal_close(&j->lines);
    *j = (keyed_journal){0};
}

int keyed_journal_has_results(const keyed_journal *j) {
    return json_object_size(j->lines.results) > 0;
}

json_t *keyed_journal_find(const keyed_journal *j, json_t *cell) {
    char *key = j->lines.results && cell ? key_of(cell) : NULL;
    json_t *figures = key ? journal_find(&j->lines, key) : NULL;
    free(key);
    json_decref(cell);
    return figures;
}

gyre_status keyed_journal_add(keyed_journal *j, json_t *cell, json_t *figures, gyre_error *err) {
    if (!j->lines.file) {
        json_decref(cell);
        json_decref(figures);
        return GYRE_OK;
    }
    char *key = cell ? key_of(cell) : NULL;
    json_t *line = json_pack("{s:o, s:o}", "cell", cell, "figures", figures);
    const gyre_status status = journal_add(&j->lines, key, json_object_get(line, "figures"), line, err);
    free(key);
    return status;
}
