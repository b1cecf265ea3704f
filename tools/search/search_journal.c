/* search_journal.c: readings by the hash of who read what.  What is looked up was asked for by the same steps from the same
 * seed, so a line that fits no question does no harm. */
#include "tools/search/search_journal.h"
#include "tools/common/journal.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct entry {
    uint64_t key;
    int64_t count;
    double *nats;
} entry;

struct search_journal {
    entry *entries; /* [room], a power of two; nats NULL = free */
    size_t count, room;
    FILE *file; /* NULL: none */
    const char *path;
    const json_t *search_identity;
    int64_t loaded;
    int has_header;     /* 1: a line says what the file is of */
    gyre_status status; /* of the lines read */
    gyre_error err;
};

/* -- in memory -- */
static uint64_t hash(uint64_t h, const void *bytes, size_t n) {
    for (size_t i = 0; i < n; i++)
        h = (h ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3u;
    return h;
}

static uint64_t key_of(const search_evaluation *r) {
    uint64_t h = hash(0xcbf29ce484222325u, r->part, strlen(r->part) + 1);
    h = hash(h, r->rescale->factor, (size_t)r->pairs * sizeof *r->rescale->factor);
    h = hash(h, &r->rescale->attention, sizeof r->rescale->attention);
    h = hash(h, &r->from, sizeof r->from);
    return hash(h, &r->count, sizeof r->count);
}

/* out = the entry of that key, or the free one where it would be. */
static entry *slot(const search_journal *j, uint64_t key) {
    size_t at = (size_t)key & (j->room - 1);
    while (j->entries[at].nats && j->entries[at].key != key)
        at = (at + 1) & (j->room - 1);
    return &j->entries[at];
}

static gyre_status grow(search_journal *j, gyre_error *err) {
    if (j->room && 2 * (j->count + 1) <= j->room) return GYRE_OK;
    search_journal larger = *j;
    larger.room = j->room ? 2 * j->room : 256;
    larger.entries = calloc(larger.room, sizeof *larger.entries);
    if (!larger.entries) return gyre_fail(err, GYRE_ENOMEM, "journal: out of memory (search)");
    for (size_t i = 0; i < j->room; i++)
        if (j->entries[i].nats) *slot(&larger, j->entries[i].key) = j->entries[i];
    free(j->entries);
    *j = larger;
    return GYRE_OK;
}

static gyre_status insert(search_journal *j, const search_evaluation *r, const double *nats, gyre_error *err) {
    const gyre_status status = grow(j, err);
    if (status) return status;
    entry *e = slot(j, key_of(r));
    if (e->nats) return GYRE_OK;
    double *copy = malloc((size_t)r->count * sizeof *copy);
    if (!copy) return gyre_fail(err, GYRE_ENOMEM, "journal: out of memory (search)");
    memcpy(copy, nats, (size_t)r->count * sizeof *copy);
    *e = (entry){key_of(r), r->count, copy};
    j->count++;
    return GYRE_OK;
}

int search_journal_find(const search_journal *j, const search_evaluation *r, double *nats) {
    if (!j->room) return 0;
    const entry *e = slot(j, key_of(r));
    if (!e->nats || e->count != r->count) return 0;
    memcpy(nats, e->nats, (size_t)r->count * sizeof *nats);
    return 1;
}

/* -- lines -- */
static json_t *numbers(const double *values, int64_t count) {
    json_t *list = json_array();
    for (int64_t i = 0; i < count; i++)
        (void)json_array_append_new(list, json_real(values[i]));
    return list;
}

/* out = how many there are, or -1 where it is no list of finite numbers or too long. */
static int64_t read_numbers(const json_t *list, double *out, int64_t most) {
    const size_t count = json_array_size(list);
    if (!json_is_array(list) || count > (size_t)most) return -1;
    for (size_t i = 0; i < count; i++) {
        out[i] = json_number_value(json_array_get(list, i));
        if (!json_is_number(json_array_get(list, i)) || !isfinite(out[i])) return -1;
    }
    return (int64_t)count;
}

static void load_evaluation(search_journal *j, const json_t *line) {
    search_rescale rescale = {{0}, 0};
    search_evaluation r = {.rescale = &rescale};
    json_int_t from;
    json_t *factors, *nats;
    if (json_unpack((json_t *)line, "{s:s, s:F, s:I, s:o, s:o}", "part", &r.part, "attention_factor", &rescale.attention,
                    "first_window", &from, "factors", &factors, "nats", &nats))
        return;
    r.pairs = read_numbers(factors, rescale.factor, SEARCH_PAIRS);
    r.from = from;
    r.count = (int64_t)json_array_size(nats);
    if (r.pairs < 0 || r.count < 1) return;
    double *values = malloc((size_t)r.count * sizeof *values);
    if (!values) j->status = gyre_fail(&j->err, GYRE_ENOMEM, "journal: out of memory (%s)", j->path);
    if (values && read_numbers(nats, values, r.count) == r.count) {
        j->status = insert(j, &r, values, &j->err);
        j->loaded += r.count;
    }
    free(values);
}

/* Says the first thing in which the file's search is another. */
static void reject_other_search(search_journal *j, const json_t *line) {
    const char *key;
    json_t *want;
    json_object_foreach((json_t *)j->search_identity, key, want) {
        const json_t *got = json_object_get(line, key);
        if (json_equal(got, want)) continue;
        char *is = json_dumps(got, JSON_ENCODE_ANY), *be = json_dumps(want, JSON_ENCODE_ANY);
        j->status =
            gyre_fail(&j->err, GYRE_EINVAL, "--journal: it is of another search: %s is %.80s there and %.80s here (%s)", key,
                      is ? is : "missing", be ? be : "?", j->path);
        free(is);
        free(be);
        return;
    }
}

static void load_line(void *ctx, json_t *line) {
    search_journal *j = ctx;
    if (j->status) return;
    if (j->has_header)
        load_evaluation(j, line);
    else
        reject_other_search(j, line);
    j->has_header = 1;
}

static gyre_status write_line(search_journal *j, json_t *line, gyre_error *err) {
    const int bad = !line || json_dumpf(line, j->file, JSON_COMPACT | JSON_REAL_PRECISION(17)) != 0;
    json_decref(line);
    if (bad || fputc('\n', j->file) == EOF || fflush(j->file) != 0)
        return gyre_fail(err, GYRE_EIO, "--journal: cannot be written (%s)", j->path);
    return GYRE_OK;
}

gyre_status search_journal_add(search_journal *j, const search_evaluation *r, const double *nats, gyre_error *err) {
    const gyre_status status = insert(j, r, nats, err);
    if (status || !j->file) return status;
    return write_line(j,
                      json_pack("{s:s, s:o, s:s, s:f, s:o, s:I, s:o}", "part", r->part, "individual",
                                r->id < 0 ? json_null() : json_integer((json_int_t)r->id), "origin", r->origin,
                                "attention_factor", r->rescale->attention, "factors", numbers(r->rescale->factor, r->pairs),
                                "first_window", (json_int_t)r->from, "nats", numbers(nats, r->count)),
                      err);
}

/* A file of another kind, which lines must not be added to.  Of a header that a kill cut off the beginning is there. */
static gyre_status check_file(const char *path, gyre_error *err) {
    static const char begins[] = "{\"gyre_search\":";
    FILE *file = fopen(path, "r");
    if (!file) return GYRE_OK;
    int c, bad = 0;
    do
        c = getc(file);
    while (c == '\n');
    for (size_t i = 0; i + 1 < sizeof begins && c != EOF && !bad; i++, c = getc(file))
        bad = c != begins[i] && c != '\n';
    fclose(file);
    return bad ? gyre_fail(err, GYRE_EINVAL, "--journal: it is there and no journal of a search (%s)", path) : GYRE_OK;
}

gyre_status search_journal_open(search_journal **out, const char *path, const json_t *search_identity, gyre_error *err) {
    search_journal *j = calloc(1, sizeof *j);
    if (!j) return gyre_fail(err, GYRE_ENOMEM, "journal: out of memory (search)");
    j->path = path;
    j->search_identity = search_identity;
    gyre_status status = path ? check_file(path, err) : GYRE_OK;
    if (!status && path) status = journal_open(&j->file, path, load_line, j, err);
    if (!status && j->status) {
        status = j->status;
        if (err) *err = j->err;
    }
    if (!status && path && !j->has_header) status = write_line(j, json_deep_copy(search_identity), err);
    if (status)
        search_journal_close(j);
    else
        *out = j;
    return status;
}

int64_t search_journal_loaded(const search_journal *journal) {
    return journal->loaded;
}

void search_journal_close(search_journal *journal) {
    if (!journal) return;
    for (size_t i = 0; i < journal->room; i++)
        free(journal->entries[i].nats);
    free(journal->entries);
    if (journal->file) fclose(journal->file);
    free(journal);
}
