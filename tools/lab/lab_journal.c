/* lab_journal.c: measured cells as lines of the journal cells.jsonl.
 *
 * Fields may be added to a line, never taken away: a run may go on for weeks and be continued by a later build.  A line that
 * lacks a field is measured again. */
#include "tools/lab/lab.h"
#include "util/plain_numbers.h"
#include <math.h>
#include <string.h>

static char *read_line(void *ctx, json_t *line, json_t **result, gyre_status *status, gyre_error *err) {
    (void)ctx, (void)status, (void)err;
    const char *key = json_string_value(json_object_get(line, "key"));
    *result = line;
    return key ? strdup(key) : NULL;
}

gyre_status lab_memo_open(lab *l, const char *name, gyre_error *err) {
    const journal_format format = {.read_line = read_line, .flags = JSON_REAL_PRECISION(17)};
    if (l->work) gyre_plain_snprintf(l->memo_path, sizeof l->memo_path, "%.4000s/%s", l->work, name);
    return journal_open(&l->memo, l->work ? l->memo_path : NULL, &format, err);
}

gyre_status lab_memo_add(lab *l, const char *key, json_t *line, gyre_error *err) {
    return line ? journal_add(&l->memo, key, line, line, err) : GYRE_OK;
}

/* -- cells -- */
/* counts: how many of `asked / windows` answers are right, by window. */
static int read_answers(const json_t *counts, json_int_t asked, lab_answers *out) {
    int64_t right = 0;
    *out = (lab_answers){.asked = asked, .windows = (int64_t)json_array_size(counts)};
    if (out->windows < 1 || out->windows > LAB_WINDOWS || asked < out->windows || asked % out->windows) return 0;
    for (int64_t w = 0; w < out->windows; w++) {
        const json_int_t n = json_integer_value(json_array_get(counts, (size_t)w));
        if (n < 0 || n > asked / out->windows) return 0;
        out->right[w] = (int)n;
        right += n;
    }
    out->share = (double)right / (double)asked;
    return 1;
}

/* A null means a number that was not finite. */
static int read_numbers(const json_t *array, double *out, size_t count) {
    int numbers = json_array_size(array) == count;
    for (size_t i = 0; i < count; i++) {
        numbers &= json_is_number(json_array_get(array, i));
        out[i] = json_number_value(json_array_get(array, i));
    }
    return numbers;
}

/* What is known of a cell whose encoding does not end before. */
static int read_known(const lab *l, json_t *line, lab_cell *cell) {
    json_t *regions, *keys, *copies;
    json_int_t scored, asked, bytes;
    if (json_unpack(line, "{s:F, s:I, s:o, s:I, s:o, s:I, s:o}", "nats", &cell->nats, "scored", &scored, "by_region",
                    &regions, "trials", &asked, "keys", &keys, "copied_asked", &bytes, "copied", &copies) ||
        !(cell->nats >= 0) || !isfinite(exp(cell->nats)))
        return 0;
    cell->scored = scored;
    return read_numbers(regions, cell->by_region, (size_t)l->plan.regions) && read_answers(keys, asked, &cell->keys) &&
           (l->plan.measures <= LAB_COPIES || read_answers(copies, bytes, &cell->copies));
}

int lab_entry_find(const lab *l, const char *key, lab_entry *out) {
    json_t *line = journal_find(&l->memo, key);
    json_int_t positions;
    json_t *buckets;
    lab_entry e = {.positions = 0};
    if (!line ||
        json_unpack(line, "{s:b, s:I, s:o}", "known", &e.cell.known, "positions", &positions, "by_position", &buckets) ||
        (e.cell.known && !read_known(l, line, &e.cell)) || (positions && !read_numbers(buckets, e.by_position, LAB_BUCKETS)))
        return 0;
    e.positions = positions;
    *out = e;
    return 1;
}

static json_t *answers_json(const lab_answers *a) {
    int64_t right[LAB_WINDOWS];
    for (int64_t w = 0; w < a->windows; w++)
        right[w] = a->right[w];
    return cli_json_integers(right, a->windows);
}

gyre_status lab_entry_add(lab *l, const char *key, const lab_entry *e, gyre_error *err) {
    const lab_cell *c = &e->cell;
    return lab_memo_add(l, key,
                        json_pack("{s:s, s:b, s:f, s:f, s:I, s:I, s:I, s:o, s:o, s:o, s:I, s:o}", "key", key, "known",
                                  c->known, "nats", c->nats, "passkey", c->keys.share, "scored", (json_int_t)c->scored,
                                  "trials", (json_int_t)c->keys.asked, "positions", (json_int_t)e->positions, "by_position",
                                  cli_json_numbers(e->by_position, e->positions ? LAB_BUCKETS : 0), "by_region",
                                  cli_json_numbers(c->by_region, c->known ? l->plan.regions : 0), "keys",
                                  answers_json(&c->keys), "copied_asked", (json_int_t)c->copies.asked, "copied",
                                  answers_json(&c->copies)),
                        err);
}
