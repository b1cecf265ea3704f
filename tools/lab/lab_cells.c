/* lab_cells.c: one number pair for one model, method and context, measured once.
 *
 * Many cells are the same rotation under another name (yarn at 16 times the length is yarn:16): the memo knows a cell by the
 * weights' name and the frequencies themselves.  In a work folder it is also a journal, so a killed run measures on from
 * where it was. */
#include "tools/common/journal.h"
#include "tools/lab/lab.h"
#include <inttypes.h>
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
    lab_cell cell;
    int64_t positions;
    double by_position[LAB_BUCKETS];
} entry;

struct lab_memo {
    entry *entries;
    size_t count, room;
    FILE *journal; /* NULL: none */
};

static entry *add(lab_memo *memo) {
    if (memo->count == memo->room) {
        const size_t room = memo->room ? 2 * memo->room : 64;
        entry *more = realloc(memo->entries, room * sizeof *more);
        if (!more) return NULL;
        memo->entries = more;
        memo->room = room;
    }
    return memset(&memo->entries[memo->count++], 0, sizeof(entry));
}

static const entry *find(const lab_memo *memo, const char *key) {
    for (size_t i = 0; i < memo->count; i++)
        if (strcmp(memo->entries[i].key, key) == 0) return &memo->entries[i];
    return NULL;
}

/* -- the journal: a line of JSON a cell -- */
static int read_entry(const json_t *line, entry *e) {
    const char *key;
    int known;
    json_int_t scored, trials, positions;
    json_t *buckets;
    if (json_unpack((json_t *)line, "{s:s, s:b, s:F, s:F, s:I, s:I, s:I, s:o}", "key", &key, "known", &known, "nats",
                    &e->cell.nats, "passkey", &e->cell.passkey, "scored", &scored, "trials", &trials, "positions",
                    &positions, "by_position", &buckets) ||
        strlen(key) >= sizeof e->key || !(e->cell.nats >= 0) || !(e->cell.passkey >= 0 && e->cell.passkey <= 1))
        return 0;
    memcpy(e->key, key, strlen(key) + 1);
    e->cell.known = known;
    e->cell.scored = scored;
    e->cell.trials = trials;
    e->positions = positions;
    for (size_t i = 0; i < LAB_BUCKETS && i < json_array_size(buckets); i++)
        e->by_position[i] = json_number_value(json_array_get(buckets, i));
    return 1;
}

static void write_entry(FILE *journal, const entry *e) {
    json_t *buckets = json_array();
    for (int i = 0; e->positions && i < LAB_BUCKETS; i++)
        json_array_append_new(buckets, json_real(e->by_position[i]));
    json_t *line = json_pack("{s:s, s:b, s:f, s:f, s:I, s:I, s:I, s:o}", "key", e->key, "known", e->cell.known, "nats",
                             e->cell.nats, "passkey", e->cell.passkey, "scored", (json_int_t)e->cell.scored, "trials",
                             (json_int_t)e->cell.trials, "positions", (json_int_t)e->positions, "by_position", buckets);
    if (!line) return;
    json_dumpf(line, journal, JSON_COMPACT | JSON_REAL_PRECISION(17));
    fputc('\n', journal);
    fflush(journal);
    json_decref(line);
}

static void load_line(void *memo, json_t *json) {
    entry e = {0};
    entry *to = read_entry(json, &e) ? add(memo) : NULL;
    if (to) *to = e;
}

gyre_status lab_memo_open(lab *l, gyre_error *err) {
    l->memo = calloc(1, sizeof *l->memo);
    if (!l->memo) return gyre_fail(err, GYRE_ENOMEM, "journal: out of memory (%s)", "gyre lab");
    if (!l->work) return GYRE_OK;
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/cells.jsonl", l->work);
    return journal_open(&l->memo->journal, path, load_line, l->memo, err);
}

void lab_memo_free(lab_memo *memo) {
    if (!memo) return;
    if (memo->journal) fclose(memo->journal);
    free(memo->entries);
    free(memo);
}

/* -- measuring -- */
/* Ten digits of every frequency: equal rotations reached by two formulas may differ in the last bits. */
static uint64_t frequencies_hash(const gyre_encoding *encoding, int64_t context) {
    const int64_t pairs = gyre_encoding_get_config(encoding)->rope.dim / 2;
    double *inv_freq = malloc(((size_t)pairs + 1) * sizeof *inv_freq);
    uint64_t hash = 0xcbf29ce484222325u;
    if (!inv_freq || gyre_encoding_frequencies(encoding, context, inv_freq, &inv_freq[pairs])) {
        free(inv_freq);
        return 0;
    }
    for (int64_t i = 0; i <= pairs; i++) {
        char digits[32];
        const int n = snprintf(digits, sizeof digits, "%.9e", inv_freq[i]);
        for (int c = 0; c < n; c++)
            hash = (hash ^ (unsigned char)digits[c]) * 0x100000001b3u;
    }
    free(inv_freq);
    return hash;
}

/* The rest of what a method changes; nothing where it changes frequencies alone, as journals have known them so far. */
static void name_rotation(const gyre_encoding *encoding, char *out, size_t size) {
    const gyre_config *c = gyre_encoding_get_config(encoding);
    out[0] = 0;
    if (c->rope.far != GYRE_FAR_AS_NEAR || c->query.temperature != GYRE_TEMPERATURE_NONE)
        snprintf(out, size, " far %d %lld %g temperature %d %lld", (int)c->rope.far, (long long)c->rope.far_window,
                 c->rope.far_factor, (int)c->query.temperature, (long long)c->query.reference_length);
}

static gyre_status measure_passkey(lab *l, const lab_measurement *s, const gyre_encoding *encoding, int64_t context,
                                   entry *e, gyre_error *err) {
    gyre_passkey_options o = GYRE_INIT(gyre_passkey_options);
    gyre_passkey_result r;
    o.context = context;
    o.trials = l->plan.trials;
    o.keys = GYRE_PASSKEY_KEYS;
    o.seed = 1;
    o.progress = cli_progress_step;
    o.progress_ctx = &l->progress;
    const gyre_status status = gyre_passkey(s->model, encoding, &l->held_out, &o, &r, &l->exec, err);
    if (status) return status;
    e->cell.passkey = (double)r.right / (double)r.trials;
    e->cell.trials = r.trials;
    return GYRE_OK;
}

static gyre_status measure(lab *l, const lab_measurement *s, const gyre_encoding *encoding, int c, entry *e,
                           gyre_error *err) {
    gyre_eval_options o = GYRE_INIT(gyre_eval_options);
    gyre_eval_result r;
    int64_t starts[LAB_REGIONS << (LAB_CONTEXTS - 1)];
    const int64_t context = l->plan.contexts[c];
    o.context = context;
    o.windows = lab_plan_windows(&l->plan, c, l->held_out.count, starts);
    o.starts = starts;
    o.progress = cli_progress_step;
    o.progress_ctx = &l->progress;
    if (e->positions) {
        o.by_position = e->by_position;
        o.buckets = LAB_BUCKETS;
    }
    gyre_status status = gyre_evaluate(s->model, encoding, &l->held_out, &o, &r, &l->exec, err);
    if (!status) status = measure_passkey(l, s, encoding, context, e, err);
    if (status == GYRE_ERANGE) { /* a learned table ends: a finding, not a failure */
        e->positions = 0;
        return GYRE_OK;
    }
    if (status) return status;
    e->cell.known = 1;
    e->cell.nats = r.nats;
    e->cell.scored = r.scored;
    return GYRE_OK;
}

static gyre_status cell(lab *l, const lab_measurement *s, int context, int positions, const entry **out, gyre_error *err) {
    gyre_encoding *encoding = NULL;
    const int64_t length = l->plan.contexts[context];
    entry e = {.positions = positions ? length : 0};
    gyre_status status = method_encoding(s->method, s->position, l->plan.trained, length, &l->plan.betas, &encoding, err);
    if (status) return status;
    char rotation[80];
    name_rotation(encoding, rotation, sizeof rotation);
    snprintf(e.key, sizeof e.key, "%s %016" PRIx64 " %lld %lld %lld %016" PRIx64 " %d%s", s->name,
             frequencies_hash(encoding, length), (long long)length, (long long)l->plan.regions, (long long)l->plan.trials,
             l->held_out.hash, positions, rotation);
    *out = find(l->memo, e.key);
    if (!*out) {
        status = measure(l, s, encoding, context, &e, err);
        entry *to = status ? NULL : add(l->memo);
        if (to) {
            *to = e;
            if (l->memo->journal) write_entry(l->memo->journal, to);
        } else if (!status)
            status = gyre_fail(err, GYRE_ENOMEM, "cells: out of memory (%s)", "gyre lab");
        *out = to;
    }
    gyre_encoding_free(encoding);
    return status;
}

gyre_status lab_measure(lab *l, const lab_measurement *s, lab_row *row, gyre_error *err) {
    for (int c = 0; c < LAB_CONTEXTS; c++) {
        const entry *e = NULL;
        /* Loss by position is wanted at the longest context, and at the trained one in case the encoding ends there. */
        const int positions = s->seed == 0 && (c == 0 || c == LAB_CONTEXTS - 1);
        cli_progress_label(&l->progress, "%s at %lld", row->name, (long long)l->plan.contexts[c]);
        const gyre_status status =
            cli_interrupted() ? gyre_fail(err, GYRE_EIO, "stopped (%s)", "gyre lab") : cell(l, s, c, positions, &e, err);
        if (status) return status;
        row->cells[s->seed][c] = e->cell;
        if (e->positions && s->seed == 0) {
            row->positions = e->positions;
            memcpy(row->by_position, e->by_position, sizeof row->by_position);
        }
    }
    return GYRE_OK;
}

lab_spread lab_cell_spread(const lab *l, const lab_row *row, int context) {
    lab_spread s = {.known = 1, .min = INFINITY, .max = 0, .passkey_min = INFINITY, .passkey_max = 0};
    double nats = 0;
    for (int64_t i = 0; i < l->plan.seeds; i++) {
        const lab_cell *one = &row->cells[i][context];
        const double perplexity = exp(one->nats);
        s.known = s.known && one->known;
        nats += one->nats / (double)l->plan.seeds;
        s.passkey += one->passkey / (double)l->plan.seeds;
        s.min = fmin(s.min, perplexity);
        s.max = fmax(s.max, perplexity);
        s.passkey_min = fmin(s.passkey_min, one->passkey);
        s.passkey_max = fmax(s.passkey_max, one->passkey);
    }
    s.perplexity = exp(nats);
    return s;
}
