/* extend_journal.c: cells that earlier runs of gyre extend --text measured. */
#include "tools/extend/extend_journal.h"
#include "tools/cli/cli.h"
#include "tools/cli/cli_json.h"
#include "util/error.h"
#include <math.h>

/* A method without a number takes its factor from `trained` and `to`. */
static json_t *cell_key(const extend_journal *j, const extend_cell *cell) {
    const extension *e = j->e;
    json_t *key = json_pack("{s:s, s:O, s:s, s:I, s:I, s:I, s:I, s:f, s:f}", "command", "extend", "tokens", j->texts,
                            "method", cell->label, "trained", (json_int_t)e->trained, "to", (json_int_t)e->to, "context",
                            (json_int_t)cell->context, "windows", (json_int_t)cell->windows, "beta_fast", e->betas.fast,
                            "beta_slow", e->betas.slow);
    return run_card_key(&j->card, key);
}

gyre_status extend_journal_open(extend_journal *out, const extension *e, const model_input *input, const run_options *o,
                                const cli_options *common, gyre_error *err) {
    *out = (extend_journal){.e = e};
    if (!o->journal) return GYRE_OK;
    const gyre_status status = run_card_make(&out->card, input, NULL, 0, NULL, err);
    if (status) return status;
    out->texts = json_array();
    for (int64_t t = 0; t < input->texts_count; t++)
        out->texts = cli_json_append(out->texts, cli_json_hash(hash_token_ids(input->texts[t].ids, input->texts[t].count)));
    if (!out->texts) return gyre_fail(err, GYRE_ENOMEM, "journal: out of memory (%s)", o->journal);
    return keyed_journal_open(&out->lines, o->journal, run_options_journal_mode(o, common), err);
}

void extend_journal_close(extend_journal *j) {
    keyed_journal_close(&j->lines);
    json_decref(j->texts);
    *j = (extend_journal){.e = NULL};
}

int extend_journal_find(const extend_journal *j, const extend_cell *cell, double *nats, int64_t count) {
    if (!keyed_journal_has_results(&j->lines)) return 0;
    const json_t *found = json_object_get(keyed_journal_find(&j->lines, cell_key(j, cell)), "nats");
    if (!json_is_array(found) || (int64_t)json_array_size(found) != count) return 0;
    for (int64_t i = 0; i < count; i++) {
        const json_t *loss = json_array_get(found, (size_t)i);
        if (!json_is_number(loss) || !isfinite(exp(json_number_value(loss)))) return 0;
    }
    for (int64_t i = 0; nats && i < count; i++)
        nats[i] = json_number_value(json_array_get(found, (size_t)i));
    return 1;
}

gyre_status extend_journal_add(extend_journal *j, const extend_cell *cell, const double *nats, int64_t count,
                               gyre_error *err) {
    if (!j->texts) return GYRE_OK;
    return keyed_journal_add(&j->lines, cell_key(j, cell), json_pack("{s:o}", "nats", cli_json_numbers(nats, count)), err);
}
