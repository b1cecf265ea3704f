/* eval_journal.c: cells that earlier runs of gyre eval measured.
 *
 * The key of a cell holds everything that its results depend on; files are in it by their hash. */
#include "tools/eval/eval.h"
#include <math.h>
#include <stdlib.h>

/* -- keys -- */
static json_t *cell_key(const evaluation *e, int64_t text, int64_t row, int64_t column) {
    const eval_options *o = &e->options;
    const eval_row *r = &e->rows[row];
    json_t *key =
        json_pack("{s:o, s:s, s:i, s:I, s:s, s:I, s:I, s:b, s:I, s:I, s:s, s:f, s:f}", "tokens",
                  cli_json_hash(e->journal.ids[text]), "method", r->method->label, "policy",
                  r->depends_on_length ? (int)r->policy : -1, "context", (json_int_t)o->contexts.values[column], "protocol",
                  eval_protocol_names[o->protocol], "stride", (json_int_t)o->stride, "windows", (json_int_t)o->windows,
                  "first", o->first, "by_position", (json_int_t)o->buckets, "passkey", (json_int_t)o->passkey, "cache",
                  dtype_name(o->method.cache), "beta_fast", o->method.betas.fast, "beta_slow", o->method.betas.slow);
    key = run_card_key(&e->card, key);
    /* Absent where they are 0, so that journals from before the options are found. */
    if (o->products) key = cli_json_add(key, "products", JSON(eval_products_names[o->products]), NULL);
    return o->first_position ? cli_json_add(key, "first_position", JSON(o->first_position), NULL) : key;
}

/* -- results -- */
static json_t *figures_json(const evaluation *e, const eval_cell *c) {
    if (c->out_of_range) return json_pack("{s:o}", "out_of_range", cli_json_text(c->note.text));
    return json_pack("{s:f, s:f, s:I, s:I, s:I, s:I, s:I, s:o}", "nats", c->figures.nats, "variance", c->variance, "windows",
                     (json_int_t)c->figures.windows, "scored", (json_int_t)c->figures.scored, "trials",
                     (json_int_t)c->passkey.trials, "right", (json_int_t)c->passkey.right, "passkey_windows",
                     (json_int_t)c->passkey.windows, "by_position", cli_json_numbers(c->by_position, e->options.buckets));
}

/* out = 1 if line holds all results of a cell; *c then gets them. */
static int read_figures(const evaluation *e, json_t *line, eval_cell *c) {
    const char *note = NULL;
    double nats, variance;
    json_int_t windows, scored, trials, right, passkey_windows;
    json_t *buckets;
    if (json_unpack(line, "{s:s}", "out_of_range", &note) == 0) {
        c->out_of_range = 1;
        snprintf(c->note.text, sizeof c->note.text, "%s", note);
        return 1;
    }
    for (int64_t b = 0; b < e->options.buckets; b++) {
        const json_t *loss = json_array_get(json_object_get(line, "by_position"), (size_t)b);
        if (!json_is_number(loss)) return 0; /* older runs wrote null for a loss that was not finite */
        c->by_position[b] = json_number_value(loss);
    }
    if (json_unpack(line, "{s:F, s:F, s:I, s:I, s:I, s:I, s:I, s:o}", "nats", &nats, "variance", &variance, "windows",
                    &windows, "scored", &scored, "trials", &trials, "right", &right, "passkey_windows", &passkey_windows,
                    "by_position", &buckets) ||
        !isfinite(exp(nats)) || windows < 1 || scored < 1 || trials < 0 || right < 0 || (e->options.passkey && trials < 1) ||
        (int64_t)json_array_size(buckets) != e->options.buckets)
        return 0;
    c->figures = (gyre_eval_result){nats, windows, scored};
    c->variance = variance;
    c->passkey = (gyre_passkey_result){trials, right, passkey_windows};
    return 1;
}

/* -- the journal -- */
gyre_status eval_journal_open(evaluation *e, gyre_error *err) {
    const eval_options *o = &e->options;
    e->journal.ids = cli_alloc(e->input.texts_count, sizeof *e->journal.ids);
    /* The hash of a text covers its bytes.  What the model reads also depends on the tokenizer. */
    for (int64_t t = 0; o->run.journal && t < e->input.texts_count; t++)
        e->journal.ids[t] = hash_token_ids(e->input.texts[t].ids, e->input.texts[t].count);
    return keyed_journal_open(&e->journal.lines, o->run.journal, run_options_journal_mode(&o->run, &o->common), err);
}

void eval_journal_close(eval_journal *journal) {
    keyed_journal_close(&journal->lines);
    free(journal->ids);
}

int eval_journal_find(const evaluation *e, int64_t text, int64_t row, int64_t column, eval_cell *out) {
    if (!keyed_journal_has_results(&e->journal.lines)) return 0;
    json_t *found = keyed_journal_find(&e->journal.lines, cell_key(e, text, row, column));
    double buckets[EVAL_MAX_BUCKETS];
    eval_cell unused = {.by_position = buckets};
    return found && read_figures(e, found, out ? out : &unused);
}

gyre_status eval_journal_add(evaluation *e, int64_t text, int64_t row, int64_t column, gyre_error *err) {
    if (!e->options.run.journal) return GYRE_OK;
    json_t *figures = figures_json(e, eval_cell_at(e, text, row, column));
    return keyed_journal_add(&e->journal.lines, cell_key(e, text, row, column), figures, err);
}
