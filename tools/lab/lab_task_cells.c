/* lab_task_cells.c: what was measured in a task, kept in the work folder: a killed run measures on from where it was. */
#include "tools/common/journal.h"
#include "tools/lab/lab_task.h"
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#ifndef PATH_MAX
#define PATH_MAX 4096
#endif
enum { KEY = 200 };

typedef struct entry {
    char key[KEY];
    int points;
    task_result result;
} entry;

struct task_memo {
    entry *entries;
    size_t count, room;
    FILE *journal;
};

static entry *add(task_memo *memo) {
    if (memo->count == memo->room) {
        const size_t room = memo->room ? 2 * memo->room : 64;
        entry *more = realloc(memo->entries, room * sizeof *more);
        if (!more) return NULL;
        memo->entries = more;
        memo->room = room;
    }
    return memset(&memo->entries[memo->count++], 0, sizeof(entry));
}

/* -- the journal: a line of JSON a result -- */
static int read_entry(json_t *line, entry *e) {
    const char *key;
    json_t *right, *asked;
    if (json_unpack(line, "{s:s, s:o, s:o}", "key", &key, "right", &right, "asked", &asked) || strlen(key) >= KEY) return 0;
    const size_t points = json_array_size(right);
    if (points < 1 || points > TASK_POINTS || json_array_size(asked) != points) return 0;
    memcpy(e->key, key, strlen(key) + 1);
    e->points = (int)points;
    for (size_t p = 0; p < points; p++) {
        e->result.right[p] = json_integer_value(json_array_get(right, p));
        e->result.asked[p] = json_integer_value(json_array_get(asked, p));
        if (e->result.right[p] < 0 || e->result.right[p] > e->result.asked[p]) return 0;
    }
    return 1;
}

static json_t *integers_json(const int64_t *values, int count) {
    json_t *array = json_array();
    for (int i = 0; i < count; i++)
        json_array_append_new(array, json_integer((json_int_t)values[i]));
    return array;
}

static int write_entry(FILE *journal, const entry *e) {
    json_t *line = json_pack("{s:s, s:o, s:o}", "key", e->key, "right", integers_json(e->result.right, e->points), "asked",
                             integers_json(e->result.asked, e->points));
    const int bad = !line || json_dumpf(line, journal, JSON_COMPACT) != 0;
    json_decref(line);
    return fputc('\n', journal) == EOF || fflush(journal) != 0 || bad;
}

static void load_line(void *memo, json_t *json) {
    entry e = {.points = 0};
    entry *to = read_entry(json, &e) ? add(memo) : NULL;
    if (to) *to = e;
}

gyre_status task_memo_open(task_lab *t, gyre_error *err) {
    char path[PATH_MAX];
    t->memo = calloc(1, sizeof *t->memo);
    if (!t->memo) return gyre_fail(err, GYRE_ENOMEM, "journal: out of memory (%s)", "gyre lab");
    snprintf(path, sizeof path, "%s/results.jsonl", t->lab->work);
    return journal_open(&t->memo->journal, path, load_line, t->memo, err);
}

void task_memo_free(task_memo *memo) {
    if (!memo) return;
    if (memo->journal) fclose(memo->journal);
    free(memo->entries);
    free(memo);
}

int task_memo_find(const task_memo *memo, const char *key, int points, task_result *out) {
    for (size_t i = 0; i < memo->count; i++) {
        const entry *e = &memo->entries[i];
        if (e->points != points || strcmp(e->key, key) != 0) continue;
        *out = e->result;
        return 1;
    }
    return 0;
}

gyre_status task_memo_add(task_memo *memo, const char *key, int points, const task_result *result, gyre_error *err) {
    entry *e = add(memo);
    if (!e) return gyre_fail(err, GYRE_ENOMEM, "results: out of memory (%s)", "gyre lab");
    snprintf(e->key, sizeof e->key, "%s", key);
    e->points = points;
    e->result = *result;
    return write_entry(memo->journal, e) ? gyre_fail(err, GYRE_EIO, "journal: cannot be written (%s)", "results.jsonl")
                                         : GYRE_OK;
}

/* -- shares -- */
static int counts(const task_lab *t, int p, int point) {
    return point >= 0 ? p == point : t->inside[p] == (point == TASK_INSIDE);
}

task_accuracy task_accuracy_of(const task_lab *t, const task_row *row, int rule, int point) {
    task_accuracy s = {.known = 1, .min = INFINITY, .max = 0};
    for (int64_t seed = 0; seed < t->lab->plan.seeds; seed++) {
        const task_result *r = &row->results[seed][rule];
        int64_t right = 0, asked = 0;
        for (int p = 0; p < t->points; p++) {
            if (!counts(t, p, point)) continue;
            right += r->right[p];
            asked += r->asked[p];
        }
        const double share = asked ? (double)right / (double)asked : 0;
        s.known = s.known && asked > 0;
        s.asked += asked;
        s.mean += share / (double)t->lab->plan.seeds;
        s.min = fmin(s.min, share);
        s.max = fmax(s.max, share);
    }
    return s;
}
