/* eval_json.c: the results of gyre eval as JSON. */
#include "tools/common/model_path.h"
#include "tools/eval/eval.h"
#include <math.h>

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
    return JSON(known ? value : (double)NAN);
}

static json_t *integer_or_null(int known, int64_t value) {
    return known ? JSON(value) : json_null();
}

/* null: all texts together. */
static json_t *name_of_set(const evaluation *e, int64_t set) {
    return cli_json_text(set < e->input.texts_count ? e->options.model.texts[set] : NULL);
}

static json_t *json_of_positions(const evaluation *e, const eval_cell *c) {
    json_t *list = e->options.buckets ? json_array() : NULL;
    for (int64_t b = 0; b < e->options.buckets; b++)
        (void)json_array_append_new(list, number_or_null(!c->out_of_range, c->by_position[b]));
    return list;
}

static json_t *json_of_cell(const evaluation *e, int64_t set, int64_t row, int64_t column) {
    static const char *const clip_names[] = {"none", "soft", "hard"};
    const eval_row *r = &e->rows[row];
    const eval_cell *c = eval_cell_at(e, set, row, column);
    const method *m = r->method;
    const gyre_scaling_parts *p = &c->parts;
    const int measured = !c->out_of_range, has_passkey = measured && e->options.passkey;
    double low = 0, high = 0;
    const int64_t same = same_rows_of(&e->same, row, column);
    const int has_interval = eval_interval(c, &low, &high);
    return JSON_OBJECT(
        "text", name_of_set(e, set), "method", JSON(m->name), "factor", number_or_null(m->factor != 0, m->factor),
        "factor_used", number_or_null(c->rotates, c->factor), "context", JSON(e->options.contexts.values[column]),
        "perplexity", number_or_null(measured, exp(c->figures.nats)), "bits_per_token",
        number_or_null(measured, c->figures.nats / log(2)), "bits_per_byte", number_or_null(measured, eval_bits_per_byte(c)),
        "attention_factor", number_or_null(c->rotates, c->attention_factor), "kept", integer_or_null(c->rotates, p->kept),
        "blended", integer_or_null(c->rotates, p->blended), "divided", integer_or_null(c->rotates, p->divided), "windows",
        JSON(c->figures.windows), "scored", JSON(c->figures.scored), "passkey",
        number_or_null(has_passkey, has_passkey ? (double)c->passkey.right / (double)c->passkey.trials : 0),
        "perplexity_interval", has_interval ? json_pack("[f, f]", low, high) : json_null(), "label", JSON(m->label),
        "resonance", json_boolean(m->resonance), "logn", json_boolean(m->logn), "clip", JSON(clip_names[m->clip]),
        "clip_pairs", cli_json_nonzero(c->clip_pairs), "window", cli_json_nonzero(c->window), "far_factor",
        number_or_null(c->far_factor != 0, c->far_factor), "length_policy",
        eval_shows_policies(e) ? cli_json_text(r->depends_on_length ? gyre_length_policy_name(r->policy) : NULL) : NULL,
        "by_position", json_of_positions(e, c), "same_as", same < 0 ? NULL : JSON(eval_row_name(e, same)), "error",
        c->out_of_range ? cli_json_text(c->note.text) : NULL);
}

static json_t *json_of_text(const evaluation *e, int64_t i) {
    const gyre_text *text = &e->input.texts[i];
    const gyre_tokenizer *tokenizer = e->input.tokenizer;
    const int bytes = tokenizer && tokenizer_info(tokenizer).kind == GYRE_TOKENIZER_BYTES;
    return JSON_OBJECT("unit", JSON(bytes ? "byte" : "token"), "paths", json_pack("[o]", name_of_set(e, i)), "files",
                       JSON(text->files), "tokens", JSON(text->count), "bytes", cli_json_nonzero(text->bytes), "hash",
                       cli_json_hash(text->hash));
}

/* Everything but the results.  A single text is also listed under "text", the key from before there could be several. */
static json_t *json_of_run(const evaluation *e) {
    const eval_options *o = &e->options;
    const gyre_config *position = &gyre_model_get_config(e->input.model)->position;
    json_t *texts = json_array();
    for (int64_t i = 0; i < e->input.texts_count; i++)
        (void)json_array_append_new(texts, json_of_text(e, i));
    json_t *protocol = JSON_OBJECT("name", JSON(eval_protocol_names[o->protocol]), "stride", cli_json_nonzero(o->stride),
                                   "windows", cli_json_nonzero(o->windows), "first", json_boolean(o->first),
                                   "first_position", JSON(o->first_position), "scored", JSON(eval_protocol_description(o)));
    return JSON_OBJECT("model", JSON(model_path_as_given(o->model.path)), "kind", JSON(gyre_kind_name(position->kind)),
                       "trained_length", JSON(position->trained_length), "parameters",
                       JSON(gyre_model_parameters(e->input.model)), "protocol", protocol, "cache",
                       JSON(dtype_name(o->method.cache)), "products", JSON(eval_products_names[o->products]),
                       "products_cost", eval_products_json(e), "texts", texts, "card", run_card_json(&e->card), "text",
                       e->input.texts_count == 1 ? json_incref(json_array_get(texts, 0)) : NULL);
}

int eval_print_json(const evaluation *e, FILE *file) {
    json_t *results = json_array();
    for (int64_t s = 0; s < e->sets; s++)
        for (int64_t r = 0; r < e->rows_count; r++)
            for (int64_t l = 0; l < e->options.contexts.count; l++)
                (void)json_array_append_new(results, json_of_cell(e, s, r, l));
    return cli_json_write(file, cli_json_add(json_of_run(e), "results", results, NULL));
}

int eval_print_cell_line(const evaluation *e, int64_t set, int64_t row, int64_t column) {
    return cli_json_line(JSON_OBJECT("result", json_of_cell(e, set, row, column)));
}

int eval_print_last_line(const evaluation *e) {
    return cli_json_line(JSON_OBJECT("run", json_of_run(e)));
}
