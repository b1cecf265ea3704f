/* eval_journal.c: cells that earlier runs of gyre eval measured.
 *
 * A line is {"cell": what defines it, "figures": what came out}.  What defines a cell is everything that its figures depend
 * on: files by their hash, not by their name.  So a journal may hold several runs, and one of other files is of no harm. */
#include "eval.h"
#include "journal.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* -- what defines a cell --------------------------------------------------------------------------------------------- */
/* A text's own hash is of its bytes; what the model reads depends on the tokenizer, too. */
static uint64_t hash_of_ids(const gyre_text *text) {
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
    for (int64_t i = 0; i < text->count; i++)
        for (unsigned shift = 0; shift < 32; shift += 8)
            hash = (hash ^ ((uint32_t)text->ids[i] >> shift & 0xff)) * 0x100000001b3u;
    return hash;
}

static json_t *cell_name(const evaluation *e, int64_t text, int64_t row, int64_t column) {
    const eval_options *o = &e->options;
    const eval_row *r = &e->rows[row];
    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:s, s:i, s:I, s:s, s:I, s:I, s:b, s:I, s:I, s:f, s:f}", "gyre",
                     gyre_version(), "model", e->card.model_hash, "config", e->card.config_hash, "profile",
                     run_card_profile(&e->card), "tokens", cli_json_hash(e->journal.ids[text]), "method", r->method->label,
                     "policy", r->follows ? (int)r->policy : -1, "context", (json_int_t)o->contexts[column], "protocol",
                     eval_protocol_names[o->protocol], "stride", (json_int_t)o->stride, "windows", (json_int_t)o->windows,
                     "first", o->first, "by_position", (json_int_t)o->buckets, "passkey", (json_int_t)o->passkey,
                     "beta_fast", o->betas.fast, "beta_slow", o->betas.slow);
}

/* out = the name as a string, for free(); NULL = out of memory. */
static char *key_of(const json_t *name) {
    return json_dumps(name, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(17));
}

/* -- figures --------------------------------------------------------------------------------------------------------- */
static json_t *figures_json(const evaluation *e, const eval_cell *c) {
    if (c->out_of_range) return json_pack("{s:o}", "out_of_range", json_string_nocheck(c->note.text));
    json_t *buckets = json_array();
    for (int64_t b = 0; b < e->options.buckets; b++)
        (void)json_array_append_new(buckets, json_real(c->by_position[b]));
    return json_pack("{s:f, s:I, s:I, s:I, s:I, s:I, s:o}", "nats", c->figures.nats, "windows",
                     (json_int_t)c->figures.windows, "scored", (json_int_t)c->figures.scored, "trials",
                     (json_int_t)c->passkey.trials, "right", (json_int_t)c->passkey.right, "passkey_windows",
                     (json_int_t)c->passkey.windows, "by_position", buckets);
}

/* out = 1 where line is a whole set of figures, which c then has. */
static int read_figures(const evaluation *e, json_t *line, eval_cell *c) {
    const char *note = NULL;
    double nats;
    json_int_t windows, scored, trials, right, passkey_windows;
    json_t *buckets;
    if (json_unpack(line, "{s:s}", "out_of_range", &note) == 0) {
        c->out_of_range = 1;
        snprintf(c->note.text, sizeof c->note.text, "%s", note);
        return 1;
    }
    if (json_unpack(line, "{s:F, s:I, s:I, s:I, s:I, s:I, s:o}", "nats", &nats, "windows", &windows, "scored", &scored,
                    "trials", &trials, "right", &right, "passkey_windows", &passkey_windows, "by_position", &buckets) ||
        windows < 1 || scored < 1 || trials < 0 || right < 0 || (e->options.passkey && trials < 1) ||
        (int64_t)json_array_size(buckets) != e->options.buckets)
        return 0;
    c->figures = (gyre_eval_result){nats, windows, scored};
    c->passkey = (gyre_passkey_result){trials, right, passkey_windows};
    for (int64_t b = 0; b < e->options.buckets; b++)
        c->by_position[b] = json_number_value(json_array_get(buckets, (size_t)b));
    return 1;
}

/* -- the journal ------------------------------------------------------------------------------------------------------- */
static void keep_line(void *seen, json_t *line) {
    json_t *name = json_object_get(line, "cell"), *figures = json_object_get(line, "figures");
    char *key = name && figures ? key_of(name) : NULL;
    if (key) (void)json_object_set(seen, key, figures);
    free(key);
}

/* A file that is none, or one that is not to be gone on with, is left as it is. */
static gyre_status check_file(const eval_options *o, gyre_error *err) {
    FILE *file = fopen(o->journal, "r");
    if (!file) return GYRE_OK; /* a new one, or an error of opening it to write */
    int c = getc(file);
    while (c == '\n')
        c = getc(file);
    fclose(file);
    if (c != EOF && c != '{') return cli_error(err, GYRE_EINVAL, "journal: holds something else (%s)", o->journal);
    if (c == EOF || o->resume) return GYRE_OK;
    return cli_error(err, GYRE_EINVAL, "journal: holds figures of an earlier run; go on from them with --resume (%s)",
                     o->journal);
}

gyre_status eval_journal_open(evaluation *e, gyre_error *err) {
    const eval_options *o = &e->options;
    if (!o->journal) return GYRE_OK;
    gyre_status status = check_file(o, err);
    if (status) return status;
    if (cli_lock_take(&e->journal.lock, o->journal, NULL))
        return cli_error(err, GYRE_EIO, "journal: another run is writing it, or nobody can: %s (%s)", strerror(errno),
                         o->journal);
    e->journal.seen = json_object();
    e->journal.ids = calloc((size_t)e->input.texts_count, sizeof *e->journal.ids);
    for (int64_t t = 0; e->journal.ids && t < e->input.texts_count; t++)
        e->journal.ids[t] = hash_of_ids(&e->input.texts[t]);
    if (!e->journal.seen || !e->journal.ids) return cli_error(err, GYRE_ENOMEM, "journal: out of memory (%s)", o->journal);
    return journal_open(&e->journal.file, o->journal, keep_line, e->journal.seen, err);
}

void eval_journal_close(eval_journal *journal) {
    if (journal->file) fclose(journal->file);
    json_decref(journal->seen);
    free(journal->ids);
    cli_unlock(&journal->lock);
}

int eval_journal_find(const evaluation *e, int64_t text, int64_t row, int64_t column, eval_cell *out) {
    if (!e->journal.seen || json_object_size(e->journal.seen) == 0) return 0;
    json_t *name = cell_name(e, text, row, column);
    char *key = name ? key_of(name) : NULL;
    json_t *found = key ? json_object_get(e->journal.seen, key) : NULL;
    eval_cell passed = {.by_position = NULL};
    double buckets[EVAL_MOST_BUCKETS];
    passed.by_position = buckets;
    const int known = found && read_figures(e, found, out ? out : &passed);
    json_decref(name);
    free(key);
    return known;
}

gyre_status eval_journal_add(const evaluation *e, int64_t text, int64_t row, int64_t column, gyre_error *err) {
    FILE *file = e->journal.file;
    if (!file) return GYRE_OK;
    json_t *line = json_pack("{s:o, s:o}", "cell", cell_name(e, text, row, column), "figures",
                             figures_json(e, eval_cell_at(e, text, row, column)));
    /* What JSON has no number for, an infinite loss, is measured again: it takes no longer than the first time. */
    if (!line) return GYRE_OK;
    const int bad = json_dumpf(line, file, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(17)) ||
                    fputc('\n', file) == EOF || fflush(file);
    json_decref(line);
    return bad ? cli_error(err, GYRE_EIO, "journal: %s (%s)", strerror(errno), e->options.journal) : GYRE_OK;
}
