/* eval_json.c: the results of gyre eval as JSON. */
#include "tools/common/model_path.h"
#include "tools/eval/eval.h"
#include <math.h>
#include <string.h>

const char *eval_protocol_description(const eval_options *o) {
    switch (o->protocol) {
    case GYRE_EVAL_PROTOCOL_TRUNCATE:
        return "every prediction";
    case GYRE_EVAL_PROTOCOL_LAST:
        return "the last 200 predictions of a window, or half of it if that is fewer";
    default:
        return "the last stride predictions of a window";
    }
}

static json_t *number_or_null(int known, double value) {
    return known ? cli_json_number(value) : json_null();
}

static json_t *integer_or_null(int known, int64_t value) {
    return known ? json_integer(value) : json_null();
}

/* What distinguishes rows of the same method. */
static void add_method(json_t *out, const evaluation *e, const eval_row *row, const eval_cell *c) {
    static const char *const clip_names[] = {"none", "soft", "hard"};
    const method *m = row->method;
    (void)json_object_set_new(out, "label", json_string(m->label));
    (void)json_object_set_new(out, "resonance", json_boolean(m->resonance));
    (void)json_object_set_new(out, "logn", json_boolean(m->logn));
    (void)json_object_set_new(out, "clip", json_string(clip_names[m->clip]));
    (void)json_object_set_new(out, "clip_pairs", integer_or_null(c->clip_pairs != 0, c->clip_pairs));
    (void)json_object_set_new(out, "window", integer_or_null(c->window != 0, c->window));
    (void)json_object_set_new(out, "far_factor", number_or_null(c->far_factor != 0, c->far_factor));
    if (eval_shows_policies(e))
        (void)json_object_set_new(out, "length_policy",
                                  row->depends_on_length ? json_string(gyre_length_policy_name(row->policy)) : json_null());
}

/* null: all texts together. */
static json_t *name_of_set(const evaluation *e, int64_t set) {
    return cli_json_text(set < e->input.texts_count ? e->options.model.texts[set] : NULL);
}

static void add_positions(json_t *out, const evaluation *e, const eval_cell *c) {
    json_t *list = json_array();
    for (int64_t b = 0; list && b < e->options.buckets; b++)
        (void)json_array_append_new(list, number_or_null(!c->out_of_range, c->by_position[b]));
    (void)json_object_set_new(out, "by_position", list);
}

static json_t *json_of_cell(const evaluation *e, int64_t set, int64_t row, int64_t column) {
    const eval_row *r = &e->rows[row];
    const eval_cell *c = eval_cell_at(e, set, row, column);
    const method *m = r->method;
    const int measured = !c->out_of_range, has_passkey = measured && e->options.passkey;
    json_t *out = json_pack(
        "{s:o, s:s, s:o, s:o, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:o}", "text", name_of_set(e, set), "method",
        m->name, "factor", number_or_null(m->factor != 0, m->factor), "factor_used", number_or_null(c->rotates, c->factor),
        "context", (json_int_t)e->options.contexts.values[column], "perplexity",
        number_or_null(measured, exp(c->figures.nats)), "bits_per_token", number_or_null(measured, c->figures.nats / log(2)),
        "bits_per_byte", number_or_null(measured, eval_bits_per_byte(c)), "attention_factor",
        number_or_null(c->rotates, c->attention_factor), "kept", integer_or_null(c->rotates, c->parts.kept), "blended",
        integer_or_null(c->rotates, c->parts.blended), "divided", integer_or_null(c->rotates, c->parts.divided), "windows",
        (json_int_t)c->figures.windows, "scored", (json_int_t)c->figures.scored, "passkey",
        number_or_null(has_passkey, has_passkey ? (double)c->passkey.right / (double)c->passkey.trials : 0));
    double low = 0, high = 0;
    const int has_interval = eval_interval(c, &low, &high);
    if (out)
        (void)json_object_set_new(out, "perplexity_interval", has_interval ? json_pack("[f, f]", low, high) : json_null());
    if (out) add_method(out, e, r, c);
    if (out && e->options.buckets) add_positions(out, e, c);
    if (out && c->out_of_range) (void)json_object_set_new(out, "error", cli_json_text(c->note.text));
    return out;
}

static const char *unit_of(const evaluation *e) {
    const gyre_tokenizer *tokenizer = e->input.tokenizer;
    return tokenizer && tokenizer_info(tokenizer).kind == GYRE_TOKENIZER_BYTES ? "byte" : "token";
}

static json_t *json_of_text(const evaluation *e, int64_t i) {
    const gyre_text *text = &e->input.texts[i];
    return json_pack("{s:s, s:[o], s:I, s:I, s:o, s:o}", "unit", unit_of(e), "paths", name_of_set(e, i), "files",
                     (json_int_t)text->files, "tokens", (json_int_t)text->count, "bytes", cli_json_nonzero(text->bytes),
                     "hash", cli_json_hash(text->hash));
}

/* Everything but the results.  A single text is also listed under "text", the key from before there could be several. */
static json_t *json_of_run(const evaluation *e) {
    const eval_options *o = &e->options;
    const gyre_config *position = &gyre_model_get_config(e->input.model)->position;
    json_t *texts = json_array();
    for (int64_t i = 0; texts && i < e->input.texts_count; i++)
        (void)json_array_append_new(texts, json_of_text(e, i));
    json_t *out = json_pack(
        "{s:o, s:s, s:I, s:I, s:{s:s, s:o, s:o, s:b, s:s}, s:s, s:o, s:o}", "model",
        cli_json_text(model_path_as_given(o->model.path)), "kind", gyre_kind_name(position->kind), "trained_length",
        (json_int_t)position->trained_length, "parameters", (json_int_t)gyre_model_parameters(e->input.model), "protocol",
        "name", eval_protocol_names[o->protocol], "stride", integer_or_null(o->stride != 0, o->stride), "windows",
        integer_or_null(o->windows != 0, o->windows), "first", o->first, "scored", eval_protocol_description(o), "cache",
        dtype_name(o->method.cache), "texts", texts, "card", run_card_json(&e->card));
    if (out && e->input.texts_count == 1) (void)json_object_set(out, "text", json_array_get(texts, 0));
    return out;
}

int eval_print_json(const evaluation *e, FILE *file) {
    json_t *out = json_of_run(e), *results = json_array();
    for (int64_t s = 0; s < e->sets; s++)
        for (int64_t r = 0; r < e->rows_count; r++)
            for (int64_t l = 0; l < e->options.contexts.count; l++)
                (void)json_array_append_new(results, json_of_cell(e, s, r, l));
    if (json_object_set_new(out, "results", results) == 0) return cli_json_write(file, out);
    json_decref(out);
    return cli_json_write(file, NULL);
}

int eval_print_cell_line(const evaluation *e, int64_t set, int64_t row, int64_t column) {
    return cli_json_line(json_pack("{s:o}", "result", json_of_cell(e, set, row, column)));
}

int eval_print_last_line(const evaluation *e) {
    return cli_json_line(json_pack("{s:o}", "run", json_of_run(e)));
}
