/* passkey_journal.c: cells that earlier runs of gyre passkey measured. */
#include "tools/passkey/passkey.h"
#include <string.h>

/* Everything that the trials depend on.  The tokenizer acts only through the tokens, so the tokens of one prompt
 * represent it. */
static json_t *cell_key(const passkey *p, const passkey_row *row, int64_t length, const passkey_cell *cell) {
    const passkey_options *o = &p->options;
    json_t *name = json_pack("{s:s, s:o, s:s, s:s, s:I, s:f, s:I, s:I, s:s, s:f, s:f}", "command", "passkey", "tokens",
                             cli_json_hash(p->templates[length].hash), "method", row->method->label, "policy",
                             row->depends_on_length ? gyre_length_policy_name(row->policy) : "any", "length",
                             (json_int_t)o->lengths.values[length], "depth", cell->depth, "trials", (json_int_t)o->trials,
                             "seed", (json_int_t)o->seed, "cache", dtype_name(o->method.cache), "beta_fast",
                             o->method.betas.fast, "beta_slow", o->method.betas.slow);
    name = run_card_key(&p->card, name);
    if (!name) return NULL;
    (void)json_object_set_new(name, "answer", cli_json_text(o->phrases.answer));
    (void)json_object_set_new(name, "match", json_string(o->contains ? "contains" : "exact"));
    if (o->phrases.marks || o->phrases.chat) (void)json_object_set_new(name, "format", json_string(passkey_format_name(p)));
    (void)json_object_set_new(name, "answer_tokens", json_integer(o->answer_tokens));
    return name;
}

static json_t *figures_json(const passkey *p, const passkey_cell *cell) {
    json_t *trials = json_array();
    for (int64_t t = 0; trials && t < p->options.trials; t++) {
        const passkey_trial *r = &cell->trials[t];
        (void)json_array_append_new(trials, json_pack("{s:i, s:b, s:I, s:f, s:s, s:s}", "key", r->key, "right", r->right,
                                                      "tokens", (json_int_t)r->tokens, "depth", r->depth, "answer",
                                                      r->answer, "said", r->output));
    }
    return trials;
}

static int read_trial(json_t *line, passkey_trial *out) {
    const char *answer, *said;
    json_int_t tokens;
    passkey_trial r = {0};
    if (json_unpack(line, "{s:i, s:b, s:I, s:F, s:s, s:s}", "key", &r.key, "right", &r.right, "tokens", &tokens, "depth",
                    &r.depth, "answer", &answer, "said", &said) ||
        strlen(answer) >= sizeof r.answer || strlen(said) >= sizeof r.output || tokens < 1)
        return 0;
    r.tokens = tokens;
    memcpy(r.answer, answer, strlen(answer) + 1);
    memcpy(r.output, said, strlen(said) + 1);
    *out = r;
    return 1;
}

int passkey_journal_find(const passkey *p, const passkey_row *row, int64_t length, passkey_cell *cell) {
    if (!keyed_journal_has_results(&p->journal)) return 0;
    json_t *trials = keyed_journal_find(&p->journal, cell_key(p, row, length, cell));
    if (!trials || (int64_t)json_array_size(trials) != p->options.trials) return 0;
    for (int64_t t = 0; t < p->options.trials; t++)
        if (!read_trial(json_array_get(trials, (size_t)t), &cell->trials[t])) return 0;
    return 1;
}

gyre_status passkey_journal_add(passkey *p, const passkey_row *row, int64_t length, const passkey_cell *cell,
                                gyre_error *err) {
    if (!p->options.run.journal) return GYRE_OK;
    return keyed_journal_add(&p->journal, cell_key(p, row, length, cell), figures_json(p, cell), err);
}
