/* extend_print.c: the results of gyre extend: one row for each method. */
#include "tools/extend/extend_print.h"
#include "gyre/gyre_fields.h"
#include "tools/cli/cli.h"
#include "tools/cli/cli_page.h"
#include "tools/cli/plain_stream.h"
#include "tools/common/result_table.h"
#include "tools/explain/explain_stats.h"
#include "tools/explain/explain_view.h"
#include "tools/extend/extend_bases.h"

#include <string.h>

const char *const extend_support_names[] = {[EXTEND_SUPPORT_NONE] = "no",
                                            [EXTEND_SUPPORT_DIFFERENT] = "differs",
                                            [EXTEND_SUPPORT_SAME] = "same",
                                            [EXTEND_SUPPORT_UNKNOWN] = "untried"};

/* out = the name of the scaling that the layers already have; NULL = none. */
static const char *current_scaling(const extension *e) {
    const struct gyre_rope_config *rope = &e->group->config.rope;
    for (int64_t i = 0; i < e->group->fields_count; i++)
        if (strcmp(e->group->fields[i].name, "scaling") == 0)
            return rope->scaling == GYRE_SCALING_NONE || (rope->scaling == GYRE_SCALING_PROPORTIONAL && !(rope->factor > 1))
                       ? NULL
                       : e->group->fields[i].value;
    return NULL;
}

static int has_part(const extension *e, const char *name) {
    for (int64_t i = 0; i < e->group->fields_count; i++)
        if (strcmp(e->group->fields[i].name, name) == 0) return 1;
    return 0;
}

/* What layers of a model without an encoding do all the same; NULL = nothing. */
static const char *part_note(const extension *e) {
    if (has_part(e, "forget_gates"))
        return "its forget gates lower the scores of far tokens at any length: there is nothing to stretch";
    if (has_part(e, "contextual"))
        return "its queries count positions themselves, up to that of the last embedding, at any length: there is nothing "
               "to stretch";
    return NULL;
}

/* The command that measures slopes that are stretched, in memory alone; docs/answers.md has what it does. */
static void suggest_eval(const extension *e, char out[EXTEND_MEASURE]) {
    char command[] = "gyre eval", model[900], text[] = "--text", file[] = "TEXT", contexts[] = "--contexts", lengths[64];
    char methods[] = "--methods", names[] = "none,ntk,linear", passkey[] = "--passkey", trials[] = "20";
    char *words[] = {command, model, text, file, contexts, lengths, methods, names, passkey, trials};
    extend_model_with_weights(e, model);
    if (e->trained > 0 && e->trained < e->to)
        snprintf(lengths, sizeof lengths, "%lld,%lld", (long long)e->trained, (long long)e->to);
    else
        snprintf(lengths, sizeof lengths, "%lld", (long long)e->to);
    cli_command_line(sizeof words / sizeof *words, words, out, EXTEND_MEASURE);
}

/* Asks for what a scheme has, so that a new one is described by what it is made of. */
static const char *scheme_note(const extension *e) {
    const char *of_part = part_note(e);
    const gyre_config *c = &e->group->config;
    if (gyre_kind_has(c->kind, GYRE_TRAIT_SLOPES))
        return "it runs at any length, and what is far weighs less; its slopes can be stretched without training: ntk keeps "
               "the perplexity and finds a few more keys far off, linear does harm";
    if (gyre_config_has(c, "score.buckets") || gyre_config_has(c, "score.position_buckets"))
        return "distances past its last bucket share that bucket at any length: there is nothing to stretch";
    if (gyre_config_has(c, "score.max_distance"))
        return "distances past its last one are clipped to it at any length: there is nothing to stretch";
    if (gyre_kind_places(c->kind) & GYRE_PLACE_INPUT)
        return "the sinusoid continues at any length, but the model was not trained there, and no config stretches it";
    if (gyre_config_has(c, "score.amplitudes"))
        return "its phase is computed at any length, and its paper stretches nothing but trains a little at the new one";
    if (gyre_kind_places(c->kind) == 0) return of_part ? of_part : "it has no positions: there is nothing to stretch";
    return "its bias is computed at any length: there is nothing to stretch";
}

static int print_other_json(const extension *e, const char *kind, const char *why, const char *measure, FILE *file) {
    char note[EXTEND_MEASURE + 512];
    snprintf(note, sizeof note, "%s%s%s", why, *measure ? "; to measure it: " : "", measure);
    return cli_json_write(file, JSON_OBJECT("path", JSON(e->reading->path), "model_type", JSON(e->reading->model_type),
                                            "layers", JSON(e->group->name), "kind", JSON(kind), "length", JSON(e->to),
                                            "note", JSON(note), "methods", json_array()));
}

int extend_print_other(const extension *e, int json, FILE *file) {
    const explain_terminal page = explain_terminal_open(file);
    const char *kind = gyre_kind_name(e->group->config.kind), *why = scheme_note(e);
    char text[4800], measure[EXTEND_MEASURE] = "";
    if (gyre_kind_has(e->group->config.kind, GYRE_TRAIT_SLOPES)) suggest_eval(e, measure);
    if (json) return print_other_json(e, kind, why, measure, file);
    snprintf(text, sizeof text, "%s: %s: %s.", e->reading->path, kind, why);
    explain_print_wrapped(&page, EXPLAIN_STYLE_PLAIN, 0, 0, text);
    if (*measure) extend_print_measure(&page, e, 0, measure);
    return 0;
}

/* -- the tables -- */
static const char changes_legend[] = "short contexts, up to the trained length: the first position that stands elsewhere "
                                     "than in training (by over 0.01 rad), "
                                     "and what the scores of channels that turn are multiplied by.";
static const char *const legend[] = {"pairs: how the method treats them at the new length.",
                                     "turns lost: over the trained length, of all pairs and of one.",
                                     "unseen: pairs that meet angles they never met in training.",
                                     "slowest: tokens that the slowest pair takes for a turn.",
                                     "coherence: what all layers leave of that pair's product at the new length.",
                                     changes_legend};

static const char need_legend[] =
    "config: what the model's own would say of the method.  hf, vllm, llama.cpp: what transformers 5, vLLM and llama.cpp "
    "make of it at the new length: the same rotation, one that differs, or no (refused, or it cannot be said).";

/* One line, or several if the page is narrow: the label, then the text beside it. */
static void print_labelled(const explain_terminal *page, const char *label, const char *text) {
    enum { LABEL = 10 };
    explain_print_padded(page, EXPLAIN_STYLE_PLAIN, LABEL, label);
    explain_print_wrapped(page, EXPLAIN_STYLE_PLAIN, LABEL, LABEL, text);
}

/* out = 1 if the scaling that the model has stays under the method. */
static int is_scaling_kept(const extension *e, const extend_method *r) {
    return r->method.keeps_model_scaling || (r->longrope && e->group->config.rope.scaling == GYRE_SCALING_LONGROPE);
}

static void print_header(const explain_terminal *page, const extension *e, const extend_method *r) {
    const gyre_config *c = &e->group->config;
    const char *scaling = current_scaling(e);
    const int64_t dim = c->rope.dim ? c->rope.dim : c->head_dim - c->rope.first_channel;
    char text[4800];
    fputc('\n', page->file);
    snprintf(text, sizeof text, "%s: %s, %s layers, as %s reads it", e->reading->path, e->reading->model_type,
             e->group->name, gyre_profile_name(e->reading->profile));
    print_labelled(page, "model", text);
    snprintf(text, sizeof text, "%lld of %lld channels, base %.12g, trained on %lld tokens%s%s%s", (long long)dim,
             (long long)c->head_dim, c->rope.base, (long long)e->trained, scaling ? "; its scaling, " : "",
             scaling ? scaling : "",
             !scaling                ? ""
             : is_scaling_kept(e, r) ? ", stays"
                                     : ", gives way to the new one");
    print_labelled(page, "rotation", text);
    if (e->trained != c->trained_length && e->trained == extend_trained_length(c)) {
        snprintf(text, sizeof text, "(the %lld that its config says, over the scaling's factor; --trained says otherwise)",
                 (long long)c->trained_length);
        print_labelled(page, "", text);
    }
    snprintf(text, sizeof text, "%lld tokens, %.4g times the trained length", (long long)e->to,
             (double)e->to / (double)e->trained);
    print_labelled(page, "length", text);
    if (e->group->window > 0 && e->group->window < e->to) {
        snprintf(text, sizeof text, "all that rotate see %lld tokens: %s", (long long)e->group->window,
                 e->group->window <= e->trained ? "no distance grows with the length" : "no distance grows past it");
        print_labelled(page, "window", text);
    }
}

/* out = the name of a column: that of the program without a date. */
static const char *reader_name(int reader) {
    const char *alias = gyre_profile_alias(extend_readers[reader]);
    return alias ? alias : gyre_profile_name(extend_readers[reader]);
}

static json_t *support_json(const extend_effect *f) {
    json_t *out = json_object();
    for (int i = 0; i < EXTEND_READERS; i++)
        JSON_ADD(
            out, reader_name(i),
            JSON_OBJECT("says", JSON(extend_support_names[f->support[i]]), "why", f->why[i][0] ? JSON(f->why[i]) : NULL));
    return out;
}

static json_t *rows_json(const extend_method *methods, const extend_effect *rows, int64_t count) {
    json_t *list = json_array();
    for (int64_t i = 0; i < count; i++) {
        const extend_effect *f = &rows[i];
        json_t *pairs =
            JSON_OBJECT("kept", JSON(f->parts.kept), "blended", JSON(f->parts.blended), "divided", JSON(f->parts.divided));
        json_array_append_new(
            list, JSON_OBJECT("method", JSON(methods[i].label), "config", JSON(f->config), "factor", JSON(f->factor),
                              "attention_factor", JSON(f->attention_factor), "pairs", pairs, "turns_lost",
                              JSON(f->revolutions_lost), "most_turns_lost", JSON(f->max_revolutions_lost),
                              "unfinished_pairs", JSON(f->incomplete), "unseen_pairs", JSON(f->unseen), "slowest_turn",
                              f->max_wavelength > 0 ? JSON(f->max_wavelength) : json_null(), "coherence", JSON(f->coherence),
                              "changed_from", f->changed_from < 0 ? json_null() : JSON(f->changed_from), "scores",
                              JSON(f->near_factor * f->near_factor), "readers", support_json(f)));
    }
    return list;
}

static const char *slowest_turn(result_table *t, const json_t *tokens) {
    char amount[16];
    return json_is_null(tokens) ? "still" : result_text(t, "%s", cli_format_count(json_number_value(tokens), amount));
}
static const char *coherence(result_table *t, const json_t *share) {
    return result_text(t, "%.0f%%", 100 * json_number_value(share));
}
static const char *changed_from(result_table *t, const json_t *position) {
    return json_is_null(position) ? "never" : result_text(t, "%lld", (long long)json_integer_value(position));
}
static const char *scores(result_table *t, const json_t *factor) {
    return result_text(t, "x %.3g", json_number_value(factor));
}

/* What each method does. */
static int print_effects(const explain_terminal *page, const extension *e, const extend_method *methods,
                         const extend_effect *rows, int64_t count) {
    char bases[500];
    static const result_field fields[] = {{"method", {.title = "method"}, NULL},
                                          {"pairs.kept", {.title = "kept", .group = "pairs"}, NULL},
                                          {"pairs.blended", {.title = "blended", .group = "pairs"}, NULL},
                                          {"pairs.divided", {.title = "divided", .group = "pairs"}, NULL},
                                          {"turns_lost", {.title = "all", .group = "turns lost", .decimals = 1}, NULL},
                                          {"most_turns_lost", {.title = "most", .group = "turns lost", .decimals = 1}, NULL},
                                          {"unseen_pairs", {.title = "unseen"}, NULL},
                                          {"slowest_turn", {.title = "slowest"}, slowest_turn},
                                          {"coherence", {.title = "coherence"}, coherence},
                                          {"changed_from", {.title = "from", .group = "short contexts"}, changed_from},
                                          {"scores", {.title = "scores", .group = "short contexts"}, scores}};
    result_table t = result_table_of(rows_json(methods, rows, count), fields, sizeof fields / sizeof *fields);
    const int status = result_table_show(t, page->file);
    fputc('\n', page->file);
    for (size_t i = 0; i < sizeof legend / sizeof *legend && !status; i++)
        explain_print_wrapped(page, EXPLAIN_STYLE_PLAIN, 0, 2, legend[i]);
    if (!status) explain_print_wrapped(page, EXPLAIN_STYLE_PLAIN, 0, 2, extend_bases_text(e, bases, sizeof bases));
    return status;
}

/* What each method needs in the config, which takes as many lines as the page makes of it. */
static void print_needs(const explain_terminal *page, const extend_method *methods, const extend_effect *rows,
                        int64_t count) {
    static const char *const titles[EXTEND_READERS] = {"hf", "vllm", "llama.cpp"};
    enum { READER = 11, GAP = 2 };
    int widest = (int)strlen("method");
    for (int64_t i = 0; i < count; i++)
        if (cli_display_width(methods[i].label) > widest) widest = cli_display_width(methods[i].label);
    const int config = widest + GAP + EXTEND_READERS * READER;
    fputc('\n', page->file);
    for (int64_t i = -1; i < count; i++) {
        const explain_style style = i < 0 ? EXPLAIN_STYLE_BOLD : EXPLAIN_STYLE_PLAIN;
        explain_print_padded(page, style, widest + GAP, i < 0 ? "method" : methods[i].label);
        for (int k = 0; k < EXTEND_READERS; k++)
            explain_print_padded(page, style, READER, i < 0 ? titles[k] : extend_support_names[rows[i].support[k]]);
        explain_print_wrapped(page, style, config, config, i < 0 ? "config" : rows[i].config);
    }
    fputc('\n', page->file);
    explain_print_wrapped(page, EXPLAIN_STYLE_PLAIN, 0, 2, need_legend);
}

/* Prints why programs do not rotate as the method does, once per reason. */
static void print_remarks(const explain_terminal *page, const extend_method *methods, const extend_effect *rows,
                          int64_t count) {
    int some = 0;
    for (int64_t i = 0; i < count; i++)
        for (int k = 0; k < EXTEND_READERS; k++) {
            const char *why = rows[i].why[k];
            char text[512];
            int listed = !*why, last = k;
            for (int j = 0; j < k; j++)
                listed |= strcmp(rows[i].why[j], why) == 0;
            if (listed) continue;
            for (int j = k; j < EXTEND_READERS; j++)
                if (strcmp(rows[i].why[j], why) == 0) last = j;
            int used = snprintf(text, sizeof text, "%s, ", methods[i].label);
            for (int j = k; j <= last; j++)
                if (strcmp(rows[i].why[j], why) == 0)
                    used += snprintf(text + used, sizeof text - (size_t)used, "%s%s",
                                     j == k      ? ""
                                     : j == last ? " and "
                                                 : ", ",
                                     reader_name(j));
            snprintf(text + used, sizeof text - (size_t)used, ": %s", why);
            if (!some++) fputc('\n', page->file);
            explain_print_wrapped(page, EXPLAIN_STYLE_PLAIN, 0, 2, text);
        }
}

static int print_tables(const explain_terminal *page, const extension *e, const extend_method *methods,
                        const extend_effect *rows, int64_t count) {
    fputc('\n', page->file);
    const int status = print_effects(page, e, methods, rows, count);
    if (status) return status;
    print_needs(page, methods, rows, count);
    print_remarks(page, methods, rows, count);
    if (strcmp(e->reading->format, "GGUF") != 0) return 0;
    fputc('\n', page->file);
    explain_print_wrapped(page, EXPLAIN_STYLE_PLAIN, 0, 0,
                          "The settings of transformers and vLLM go into a config.json, so a GGUF is judged for llama.cpp "
                          "alone.  untried: the file is large; --write reads back what it wrote, and keeps nothing that "
                          "rotates otherwise.");
    return 0;
}

int extend_print_page(const extension *e, const extend_method *methods, const extend_effect *rows, int64_t count,
                      const extend_verdict *verdict, int tables, FILE *file) {
    const explain_terminal page = explain_terminal_open(file);
    char lost[700], more[128] = "--all adds the figures of this rotation, and which programs read it so.";
    extend_print_answer(&page, methods, rows, verdict);
    print_header(&page, e, &methods[verdict->method]);
    const int status = extend_print_steps(&page, e, methods, verdict);
    if (status) return status;
    explain_view_doubts(&page, e->reading, NULL);
    if (extend_lost_scaling(e, lost, sizeof lost)) {
        fprintf(file, "\n");
        explain_print_wrapped(&page, EXPLAIN_STYLE_BOLD, 0, 0, lost);
    }
    if (tables) return print_tables(&page, e, methods, rows, count);
    if (count > 1)
        snprintf(more, sizeof more,
                 "--all adds what each of %lld methods does to the rotation, and which programs read it so.",
                 (long long)count);
    fputc('\n', file);
    explain_print_wrapped(&page, EXPLAIN_STYLE_PLAIN, 0, 0, more);
    return 0;
}

/* -- JSON -- */
static json_t *model_json(const extension *e) {
    const gyre_config *c = &e->group->config;
    return JSON_OBJECT("path", JSON(e->reading->path), "model_type", JSON(e->reading->model_type), "profile",
                       JSON(gyre_profile_name(e->reading->profile)), "layers", JSON(e->group->name), "head_dim",
                       JSON(c->head_dim), "rotary_dim",
                       JSON(c->rope.dim ? c->rope.dim : c->head_dim - c->rope.first_channel), "base", JSON(c->rope.base),
                       "trained_length", JSON(e->trained), "scaling", JSON(current_scaling(e)));
}

int extend_print_json(const extension *e, const extend_method *methods, const extend_effect *rows, int64_t count,
                      const extend_verdict *verdict, FILE *file) {
    return cli_json_write(file, cli_json_add(model_json(e), "length", JSON(e->to), "bases", extend_bases_json(e), "methods",
                                             rows_json(methods, rows, count), "verdict",
                                             extend_verdict_json(methods, verdict), "lost_scaling", extend_lost_json(e),
                                             "warnings", explain_warnings_json(e->reading), NULL));
}

/* -- what was written -- */
int extend_print_written(const extension *e, const extend_method *r, const char *path, const extend_key_change *changes,
                         int count, FILE *file) {
    size_t widest = 0;
    cli_page page;
    FILE *lines = cli_page_begin(&page, file);
    fprintf(lines, "wrote %s: %s under %s, %lld tokens\n", plain_line(path), plain_line(e->reading->model_type), r->label,
            (long long)e->to);
    for (int i = 0; i < count; i++)
        if (strlen(changes[i].key) > widest) widest = strlen(changes[i].key);
    for (int i = 0; i < count; i++)
        fprintf(lines, "  %-*s  %s -> %s\n", (int)widest, plain_line(changes[i].key),
                changes[i].before[0] ? plain_line(changes[i].before) : "(none)",
                changes[i].after[0] ? plain_line(changes[i].after) : "(none)");
    if (!r->method.keeps_model_scaling && !r->longrope && r->method.scaling == GYRE_SCALING_DYNAMIC_NTK)
        fprintf(lines, "dynamic counts from max_position_embeddings, which therefore states the trained length, not %lld\n",
                (long long)e->to);
    cli_page_end(&page);
    return 0;
}

int extend_print_settings_json(const extension *e, const extend_method *r, gyre_profile trainer, const char *text,
                               FILE *file) {
    return cli_json_write(file, cli_json_add(model_json(e), "length", JSON(e->to), "method", JSON(r->label), "trainer",
                                             JSON(gyre_profile_name(trainer)), "settings", JSON(text), NULL));
}

int extend_print_written_json(const extension *e, const extend_method *r, const char *path, const extend_key_change *changes,
                              int count, FILE *file) {
    json_t *list = json_array();
    for (int i = 0; i < count; i++)
        json_array_append_new(list, JSON_OBJECT("key", JSON(changes[i].key), "before", JSON(changes[i].before), "after",
                                                JSON(changes[i].after)));
    return cli_json_write(file, cli_json_add(model_json(e), "length", JSON(e->to), "method", JSON(r->label), "written",
                                             JSON(path), "changes", list, NULL));
}
