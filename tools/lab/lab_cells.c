/* lab_cells.c: measures each cell, a model under a method at one context, once.
 *
 Many cells are the same rotation under another name: yarn at 16 times the trained length is yarn:16.  The key of a cell
 therefore holds the name of the weights and the frequencies instead of the name of the method.  In a work folder, the cells
 are also a journal, so a killed run continues where it was. */
#include "gyre/gyre_fields.h"
#include "tools/cli/cli_signals.h"
#include "tools/lab/lab.h"
#include "tools/team/team.h"
#include "util/fnv1a.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* -- keys -- */
/* Hashes ten digits of every frequency, because equal rotations from two formulas may differ in the last bits. */
static uint64_t frequencies_hash(const gyre_encoding *encoding, int64_t context) {
    const int64_t pairs = gyre_encoding_get_config(encoding)->rope.dim / 2;
    double *inv_freq = malloc(((size_t)pairs + 1) * sizeof *inv_freq);
    uint64_t hash = GYRE_FNV1A_OFFSET_BASIS;
    if (!inv_freq) cli_end_without_memory();
    const gyre_status status = gyre_encoding_frequencies(encoding, context, inv_freq, &inv_freq[pairs]);
    if (status == GYRE_ENOMEM) cli_end_without_memory();
    if (status) {
        free(inv_freq);
        return 0; /* it does not rotate at this length */
    }
    for (int64_t i = 0; i <= pairs; i++) {
        char digits[32];
        const int n = snprintf(digits, sizeof digits, "%.9e", inv_freq[i]);
        hash = gyre_fnv1a(hash, digits, (size_t)n);
    }
    free(inv_freq);
    return hash;
}

/* Writes what a method changes besides frequencies; nothing for other methods, so that older journals stay valid. */
static void name_rotation(const gyre_encoding *encoding, char *out, size_t size) {
    const gyre_config *c = gyre_encoding_get_config(encoding);
    out[0] = 0;
    if (c->rope.far != GYRE_FAR_AS_NEAR || c->query.temperature != GYRE_TEMPERATURE_NONE)
        snprintf(out, size, " far %d %lld %g temperature %d %lld", (int)c->rope.far, (long long)c->rope.far_window,
                 c->rope.far_factor, (int)c->query.temperature, (long long)c->query.reference_length);
    const size_t used = strlen(out);
    if (far_is_chunked(c))
        snprintf(out + used, size - used, " chunk %lld %lld", (long long)c->rope.chunk.size, (long long)c->rope.chunk.local);
    if (gyre_kind_has(c->kind, GYRE_TRAIT_SLOPES) && c->score.slope_scaling != GYRE_SLOPE_SCALING_NONE &&
        c->score.slope_factor != 1)
        snprintf(out + used, size - used, " slopes %d %g", (int)c->score.slope_scaling, c->score.slope_factor);
}

int lab_has_positions(const lab *l, int64_t seed, int c) {
    return seed == 0 && (c == 0 || c == l->plan.contexts_count - 1);
}

void lab_cell_key(const lab *l, const lab_measurement *s, const gyre_encoding *encoding, int c, char key[LAB_KEY]) {
    const int64_t length = l->plan.contexts[c];
    char rotation[120];
    name_rotation(encoding, rotation, sizeof rotation);
    snprintf(key, LAB_KEY, "%s %016" PRIx64 " %lld %lld %lld %016" PRIx64 " %d%s", s->model->name,
             frequencies_hash(encoding, length), (long long)length, (long long)l->plan.regions, (long long)l->plan.trials,
             l->held_out.hash, lab_has_positions(l, s->model->spec.seed, c), rotation);
}

/* -- measuring -- */
typedef gyre_status (*recall_call)(const gyre_model *, const gyre_text *, const gyre_passkey_options *,
                                   gyre_passkey_result *, const gyre_exec *, gyre_error *);

/* Asks for keys or copies. */
static gyre_status measure_answers(lab *l, const gyre_model *model, const gyre_encoding *encoding, int64_t context,
                                   recall_call ask, lab_answers *out, gyre_error *err) {
    gyre_passkey_options o = GYRE_INIT(gyre_passkey_options);
    gyre_passkey_result r;
    int64_t by_window[LAB_WINDOWS];
    o.context = context;
    o.trials = l->plan.trials;
    o.seed = 1;
    o.encoding = encoding;
    o.watcher = (gyre_watcher){lab_cost_step, NULL, l};
    o.team = team_get();
    o.by_window = by_window;
    const gyre_status status = ask(model, &l->held_out, &o, &r, &l->exec, err);
    if (status) return status;
    *out = (lab_answers){.share = (double)r.right / (double)r.trials, .asked = r.trials, .windows = r.windows};
    for (int64_t w = 0; w < r.windows; w++)
        out->right[w] = (int)by_window[w];
    return GYRE_OK;
}

static gyre_status measure_text(lab *l, const gyre_model *model, const gyre_encoding *encoding, int c, lab_entry *e,
                                gyre_error *err) {
    gyre_eval_options o = GYRE_INIT(gyre_eval_options);
    gyre_eval_result r;
    int64_t starts[LAB_REGIONS << (LAB_CONTEXTS - 1)];
    double by_window[LAB_REGIONS << (LAB_CONTEXTS - 1)];
    o.context = l->plan.contexts[c];
    o.windows = lab_plan_windows(&l->plan, c, l->held_out.count, starts);
    o.starts = starts;
    o.by_window = by_window;
    o.encoding = encoding;
    o.watcher = (gyre_watcher){lab_cost_step, NULL, l};
    o.team = team_get();
    if (e->positions) {
        o.by_position = e->by_position;
        o.buckets = LAB_BUCKETS;
    }
    const gyre_status status = gyre_evaluate(model, &l->held_out, &o, &r, &l->exec, err);
    if (status) return status;
    const int64_t in_region = o.windows / l->plan.regions;
    for (int64_t w = 0; w < o.windows; w++)
        e->cell.by_region[w / in_region] += by_window[w] / (double)in_region;
    e->cell.nats = r.nats;
    e->cell.scored = r.scored;
    return GYRE_OK;
}

void lab_row_label(const lab *l, const lab_measurement *s, const char *row, char label[LAB_NAME]) {
    const lab_model_spec *spec = &s->model->spec;
    const int is_tuned = !spec->encoding && spec->tuned < LAB_TUNED,
              is_stretched = l->plan.alibi >= 0 && spec->encoding == &l->plan.encodings[l->plan.alibi] &&
                             strcmp(row, spec->encoding->name) != 0;
    snprintf(label, LAB_NAME, "%s%s", row, is_tuned ? ", fine-tuned" : is_stretched ? ", ALiBi" : "");
}

static gyre_status measure(lab *l, const lab_measurement *s, const char *row, const gyre_encoding *encoding, int c,
                           lab_entry *e, gyre_error *err) {
    const int64_t context = l->plan.contexts[c];
    const gyre_model *model = NULL;
    gyre_status status = lab_model_need(l, s->model, &model, err);
    char label[LAB_NAME];
    lab_row_label(l, s, row, label);
    cli_progress_label(&l->progress, "%s at %lld", label, (long long)context);
    l->token_cost = lab_cost_token(l, c);
    if (!status) status = measure_text(l, model, encoding, c, e, err);
    if (!status) status = measure_answers(l, model, encoding, context, gyre_passkey, &e->cell.keys, err);
    if (!status && l->plan.measures > LAB_COPIES)
        status = measure_answers(l, model, encoding, context, gyre_copying, &e->cell.copies, err);
    if (status == GYRE_ERANGE) { /* a learned table ends: a result, not a failure */
        *e = (lab_entry){.positions = 0};
        return GYRE_OK;
    }
    e->cell.known = !status;
    return method_name_failure(status, row, context, err);
}

static gyre_status find_or_measure(lab *l, const lab_measurement *s, const char *row, int context, lab_entry *e,
                                   gyre_error *err) {
    gyre_encoding *encoding = NULL;
    const int64_t length = l->plan.contexts[context];
    gyre_status status =
        method_encoding(s->method, &s->model->position, l->plan.trained, length, &l->plan.betas, &encoding, err);
    if (status) return status;
    char key[LAB_KEY];
    lab_cell_key(l, s, encoding, context, key);
    if (!lab_entry_find(l, key, e)) {
        *e = (lab_entry){.positions = lab_has_positions(l, s->model->spec.seed, context) ? length : 0};
        status = measure(l, s, row, encoding, context, e, err);
        if (!status) status = lab_entry_add(l, key, e, err);
    }
    gyre_encoding_free(encoding);
    return status;
}

gyre_status lab_measure_row(lab *l, const lab_measurement *s, lab_row *row, gyre_error *err) {
    for (int c = 0; c < l->plan.contexts_count; c++) {
        lab_entry e;
        const gyre_status status = cli_interrupted() ? gyre_fail(err, GYRE_EIO, "stopped (%s)", "gyre lab")
                                                     : find_or_measure(l, s, row->name, c, &e, err);
        if (status) return status;
        row->cells[s->model->spec.seed][c] = e.cell;
        row->cells[s->model->spec.seed][c].measured = 1;
        lab_summarise(&l->plan, row, c);
        if (e.positions && s->model->spec.seed == 0) {
            row->positions = e.positions;
            memcpy(row->by_position, e.by_position, sizeof row->by_position);
        }
    }
    row->seeds_done++;
    return GYRE_OK;
}
