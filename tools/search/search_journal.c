/* search_journal.c: the journal of gyre search.
 *
 * A lookup asks for what the same steps from the same seed produce, so a line that no step asks for does no harm. */
#include "tools/search/search_journal.h"
#include "tools/cli/cli_error.h"
#include "tools/cli/cli_json.h"
#include "tools/common/journal.h"
#include "tools/team/team.h"
#include "util/fnv1a.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_SIZE = 17 };

struct search_journal {
    line_journal lines;
    const char *path;
    const json_t *search_identity;
    int has_header; /* 1: the file's first line was read */
};

/* -- keys -- */
static void key_of(const search_evaluation *r, char out[KEY_SIZE]) {
    uint64_t h = gyre_fnv1a(GYRE_FNV1A_OFFSET_BASIS, r->part, strlen(r->part) + 1);
    h = gyre_fnv1a(h, r->rescale->factor, (size_t)r->pairs * sizeof *r->rescale->factor);
    h = gyre_fnv1a(h, &r->rescale->attention, sizeof r->rescale->attention);
    if (r->rescale->start_tokens) h = gyre_fnv1a(h, &r->rescale->start_tokens, sizeof r->rescale->start_tokens);
    h = gyre_fnv1a(h, &r->from, sizeof r->from);
    snprintf(out, KEY_SIZE, "%016" PRIx64, gyre_fnv1a(h, &r->count, sizeof r->count));
}

/* out = the length of the list; -1 if it is not a list of finite numbers or is longer than `max`. */
static int64_t read_numbers(const json_t *list, double *out, int64_t max) {
    const size_t count = json_array_size(list);
    if (!json_is_array(list) || count > (size_t)max) return -1;
    for (size_t i = 0; i < count; i++) {
        out[i] = json_number_value(json_array_get(list, i));
        if (!json_is_number(json_array_get(list, i)) || !isfinite(out[i])) return -1;
    }
    return (int64_t)count;
}

/* -- lines -- */
/* err = the first difference between the search of the file and this one. */
static gyre_status check_identity(const search_journal *j, const json_t *line, gyre_error *err) {
    gyre_status status = GYRE_OK;
    const char *key;
    json_t *ours;
    json_object_foreach((json_t *)j->search_identity, key, ours) {
        const json_t *theirs = json_object_get(line, key);
        if (json_equal(theirs, ours)) continue;
        char *there = json_dumps(theirs, JSON_ENCODE_ANY), *here = json_dumps(ours, JSON_ENCODE_ANY);
        status = gyre_fail(err, GYRE_EINVAL, "--journal: it is of another search: %s is %.80s there and %.80s here (%s)",
                           key, there ? there : "missing", here ? here : "?", j->path);
        free(there);
        free(here);
        break;
    }
    return status;
}

static char *read_line(void *ctx, json_t *line, json_t **result, gyre_status *status, gyre_error *err) {
    search_journal *j = ctx;
    search_rescale rescale = {.attention = 0};
    search_evaluation r = {.rescale = &rescale};
    json_int_t from, start_tokens = 0;
    json_t *factors;
    if (!j->has_header) {
        j->has_header = 1;
        *status = check_identity(j, line, err);
        return NULL;
    }
    if (json_unpack(line, "{s:s, s:F, s?I, s:I, s:o, s:o}", "part", &r.part, "attention_factor", &rescale.attention,
                    "start_tokens", &start_tokens, "first_window", &from, "factors", &factors, "nats", result))
        return NULL;
    rescale.start_tokens = start_tokens;
    r.pairs = read_numbers(factors, rescale.factor, SEARCH_PAIRS);
    r.from = from;
    r.count = (int64_t)json_array_size(*result);
    if (r.pairs < 0 || r.count < 1) return NULL;
    char *key = malloc(KEY_SIZE);
    if (key)
        key_of(&r, key);
    else
        *status = gyre_fail(err, GYRE_ENOMEM, "journal: out of memory (%s)", j->path);
    return key;
}

int search_journal_find(const search_journal *j, const search_evaluation *r, double *nats) {
    char key[KEY_SIZE];
    key_of(r, key);
    const json_t *found = journal_find(&j->lines, key);
    return found && (int64_t)json_array_size(found) == r->count && read_numbers(found, nats, r->count) == r->count;
}

gyre_status search_journal_add(search_journal *j, const search_evaluation *r, const double *nats, gyre_error *err) {
    char key[KEY_SIZE];
    key_of(r, key);
    const int64_t starts = r->rescale->start_tokens;
    json_t *line =
        json_pack("{s:s, s:o, s:s, s:f, s:o*, s:o, s:I, s:o}", "part", r->part, "individual",
                  r->id < 0 ? json_null() : json_integer((json_int_t)r->id), "origin", r->origin, "attention_factor",
                  r->rescale->attention, "start_tokens", starts ? json_integer((json_int_t)starts) : NULL, "factors",
                  cli_json_numbers(r->rescale->factor, r->pairs), "first_window", (json_int_t)r->from, "nats",
                  cli_json_numbers(nats, r->count));
    return journal_add(&j->lines, key, json_object_get(line, "nats"), line, err);
}

/* -- the file -- */
static gyre_status open_lines(search_journal *j, int replace, gyre_error *err) {
    static const char *const begins[] = {"{\"gyre_search\":", "{\"part\":", NULL};
    const journal_format format = {read_line, j, JSON_REAL_PRECISION(17), replace};
    int empty;
    gyre_status status =
        j->path && team_leads() ? journal_check_file(j->path, replace ? NULL : begins, &empty, err) : GYRE_OK;
    status = team_agree(status, err);
    return status ? status : journal_open(&j->lines, j->path, &format, err);
}

gyre_status search_journal_open(search_journal **out, const char *path, const json_t *search_identity, int replace,
                                gyre_error *err) {
    search_journal *j = calloc(1, sizeof *j);
    if (!j) return gyre_fail(err, GYRE_ENOMEM, "journal: out of memory (search)");
    j->path = path;
    j->search_identity = search_identity;
    gyre_status status = open_lines(j, 0, err);
    if (status == GYRE_EINVAL && replace) { /* it is not this search's */
        journal_close(&j->lines);
        j->has_header = 0;
        status = open_lines(j, 1, err);
    }
    if (!status && path && team_leads() && !j->has_header)
        status = journal_write(&j->lines, json_deep_copy(search_identity), err);
    if (status)
        search_journal_close(j);
    else
        *out = j;
    return status;
}

gyre_status search_journal_finish(search_journal *journal, gyre_error *err) {
    return journal_finish(&journal->lines, err);
}

void search_journal_close(search_journal *journal) {
    if (!journal) return;
    journal_close(&journal->lines);
    free(journal);
}
