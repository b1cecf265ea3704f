/* extend_print_verdict.c: the end of gyre extend's output: the costs, the recommendation, and what to write. */
#include "tools/cli/cli.h"
#include "tools/common/result_table.h"
#include "tools/extend/extend_print.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* -- what was measured -- */
static void add_perplexity(result_table *t, extend_mean m) {
    const double p = exp(m.nats);
    if (m.windows == 0 || m.half < 0)
        result_name(t, m.windows ? result_text(t, "%.4g", p) : NULL);
    else
        result_name(t, result_text(t, "%.4g (%.4g to %.4g)", p, exp(m.nats - m.half), exp(m.nats + m.half)));
}

static void add_change(result_table *t, extend_mean m) {
    if (m.windows == 0 || m.half < 0)
        result_name(t, m.windows ? result_text(t, "%+.3f", m.nats) : NULL);
    else
        result_name(t, result_text(t, "%+.3f +- %.3f", m.nats, m.half));
}

result_table extend_cost_table(const extend_method *methods, const extend_cost *cost) {
    result_table t = RESULT_TABLE_INIT;
    result_column(&t, (gyre_report_column){.title = "method"});
    for (int range = EXTEND_NEAR; range <= EXTEND_FAR; range++) {
        const char *group = result_text(&t, "%lld tokens", (long long)cost->context[range]);
        result_column(&t, (gyre_report_column){.title = "perplexity", .group = group});
        result_column(&t, (gyre_report_column){.title = "nats over none", .group = group});
    }
    for (int64_t i = 0; i < cost->methods; i++) {
        result_name(&t, methods[i].label);
        for (int range = EXTEND_NEAR; range <= EXTEND_FAR; range++) {
            add_perplexity(&t, cost->losses[i].at[range]);
            if (i == cost->none)
                result_name(&t, NULL);
            else
                add_change(&t, cost->losses[i].over_none[range]);
        }
    }
    return t;
}

typedef struct named_methods {
    const extend_method *list;
} named_methods;

static const char *row_name(const void *of, int64_t row) {
    return ((const named_methods *)of)->list[row].label;
}

static int print_cost(const explain_terminal *page, const extend_method *methods, const extend_cost *cost) {
    char text[400], same[SAME_ROWS_TEXT];
    fputc('\n', page->file);
    const int status = result_table_show(extend_cost_table(methods, cost), page->file);
    snprintf(text, sizeof text,
             "Measured with the factor that %lld tokens need, on the same windows of the text (%lld near, %lld far).%s",
             (long long)cost->context[EXTEND_FAR], (long long)cost->windows[EXTEND_NEAR],
             (long long)cost->windows[EXTEND_FAR],
             cost->windows[EXTEND_NEAR] < EXTEND_MIN_WINDOWS ? "" : " In parentheses and after +-: the 95 % interval.");
    fputc('\n', page->file);
    explain_print_wrapped(page, EXPLAIN_STYLE_PLAIN, 0, 0, text);
    same_rows_describe(&cost->same, cost->context, EXTEND_RANGES, row_name, &(named_methods){methods}, same);
    if (*same) explain_print_wrapped(page, EXPLAIN_STYLE_PLAIN, 0, 0, same);
    for (int64_t i = 0; i < cost->methods && !status; i++) {
        if (!cost->losses[i].note[0]) continue;
        snprintf(text, sizeof text, "%s: not measured: %s", methods[i].label, cost->losses[i].note);
        explain_print_wrapped(page, EXPLAIN_STYLE_PLAIN, 0, 2, text);
    }
    return status;
}

/* -- what to write -- */
enum { INDENT = 2 };

/* The state of a text within a shell's words. */
typedef struct command_place {
    int quoted, json, string; /* within '', within '{}', within a string of that JSON */
} command_place;

static void move_past(command_place *at, const char *c) {
    if (*c == '\'' && !at->string) {
        at->quoted = !at->quoted;
        at->json = at->quoted && c[1] == '{';
    } else if (*c == '"' && at->json) {
        at->string = !at->string;
    }
}

/* out = bytes up to the space that ends the line: the last one within `room`, else the first; all if there is none.  It
 * is between words, or between the values of a JSON text; between an option and its value if there is no other within
 * `room`.  *at moves there. */
static size_t command_break(const char *text, size_t room, command_place *at) {
    command_place here = *at, there = *at;
    size_t found = 0, i = 0, word = 0;
    int parts_found = 0; /* 1: an option and its value */
    for (; text[i] && (i <= room || !found); i++) {
        move_past(&here, &text[i]);
        if (text[i] != ' ' || here.string || (here.quoted && !here.json)) continue;
        const int parts = !here.quoted && text[word] == '-' && text[i + 1] != '-';
        word = i + 1;
        if (parts && found && !parts_found) continue;
        found = i;
        parts_found = parts;
        there = here;
    }
    if (!text[i] && (i <= room || !found)) return i;
    *at = there;
    return found;
}

/* Prints a command to copy.  One that is wider than the page continues in the next line: after a backslash, which quotes
 * need not. */
static void print_literal(const explain_terminal *page, const char *text) {
    const int backslash = 2;
    int indent = INDENT;
    command_place at = {0, 0, 0};
    while (*text) {
        const size_t left = strlen(text), room = (size_t)(page->width - indent);
        const size_t length = left <= room ? left : command_break(text, room - backslash, &at);
        fprintf(page->file, "%*s%.*s%s\n", indent, "", (int)length, text, text[length] && !at.quoted ? " \\" : "");
        text += length + (text[length] == ' ');
        indent = 2 * INDENT;
    }
}

static void print_indented(const explain_terminal *page, const char *text) {
    explain_print_spaces(page, INDENT);
    explain_print_wrapped(page, EXPLAIN_STYLE_DIM, INDENT, INDENT, text);
}

/* Prints "key": value, on one line if the page has the width; else an object has a line for each key, and a list is broken
 * between its elements. */
static void print_value(const explain_terminal *page, int indent, const char *key, const json_t *value, const char *end) {
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
    if (!text) exit(cli_fail("results: out of memory (extend)"));
    const int column = indent + (int)strlen("\"\": ") + cli_display_width(key);
    explain_print_spaces(page, indent);
    explain_print(page, EXPLAIN_STYLE_PLAIN, "\"%s\": ", key);
    if (json_is_object(value) && column + cli_display_width(text) + (int)strlen(end) > page->width) {
        const char *name;
        json_t *member;
        size_t left = json_object_size(value);
        fputs("{\n", page->file);
        json_object_foreach((json_t *)value, name, member) {
            print_value(page, indent + INDENT, name, member, --left ? "," : "");
        }
        fprintf(page->file, "%*s}%s\n", indent, "", end);
    } else if (json_is_array(value)) {
        const size_t size = strlen(text) + strlen(end) + 1;
        char *line = malloc(size);
        if (!line) exit(cli_fail("results: out of memory (extend)"));
        snprintf(line, size, "%s%s", text, end);
        explain_print_wrapped(page, EXPLAIN_STYLE_PLAIN, column, indent + INDENT, line);
        free(line);
    } else {
        fprintf(page->file, "%s%s\n", text, end);
    }
    free(text);
}

/* The keys as in a config.json; keys to remove last. */
static void print_keys(const explain_terminal *page, const json_t *keys) {
    const char *key;
    json_t *value;
    size_t left = 0;
    json_object_foreach((json_t *)keys, key, value) {
        left += !json_is_null(value);
    }
    json_object_foreach((json_t *)keys, key, value) {
        if (!json_is_null(value)) print_value(page, INDENT, key, value, --left ? "," : "");
    }
    json_object_foreach((json_t *)keys, key, value) {
        if (json_is_null(value)) fprintf(page->file, "%*s(and without \"%s\")\n", INDENT, "", key);
    }
}

static void print_engine_title(const explain_terminal *page, const char *name, const char *rest) {
    fputc('\n', page->file);
    int column = explain_print(page, EXPLAIN_STYLE_BOLD, "%s", name);
    column += explain_print(page, EXPLAIN_STYLE_PLAIN, "%s", *rest ? ", " : "");
    explain_print_wrapped(page, EXPLAIN_STYLE_PLAIN, column, INDENT, rest);
}

static void print_refusal(const explain_terminal *page, const extend_verdict *v, int engine, const char *label,
                          int is_none) {
    const extend_advice *a = &v->advice[engine];
    char text[600];
    const int reads = is_none && a->support != EXTEND_SUPPORT_NONE;
    snprintf(text, sizeof text, reads ? "which reads %s otherwise: %s%s%s" : "which cannot do %s: %s%s%s",
             is_none ? "the model as it is" : label, *a->why ? a->why : "it has no way to say it",
             *v->alike[engine] ? ". It reads as meant: " : "", v->alike[engine]);
    print_engine_title(page, extend_engine_names[engine], text);
}

static void print_transformers(const explain_terminal *page, const extend_advice *a, int is_none) {
    if (is_none || json_object_size(a->keys) == 0) {
        print_engine_title(page, "transformers", "config.json as it is");
        return;
    }
    print_engine_title(page, a->old_keys || !strstr(a->readers, "hf-4") ? "transformers 5" : "transformers",
                       "in config.json:");
    print_keys(page, a->keys);
    if (a->old_keys) {
        print_engine_title(page, "transformers 4", "in config.json:");
        print_keys(page, a->old_keys);
    }
    char text[EXTEND_NOTE + 200];
    snprintf(text, sizeof text, "read so by %s%s%s", a->readers, *a->note ? "; otherwise by " : "", a->note);
    print_indented(page, text);
}

static void print_engines(const explain_terminal *page, const extend_verdict *v, const char *label, int is_none) {
    for (int i = 0; i < EXTEND_ENGINES; i++) {
        const extend_advice *a = &v->advice[i];
        if (a->support != EXTEND_SUPPORT_SAME && !a->command) {
            print_refusal(page, v, i, label, is_none);
        } else if (i == EXTEND_TRANSFORMERS) {
            print_transformers(page, a, is_none);
        } else {
            print_engine_title(page, extend_engine_names[i], "");
            if (a->command) print_literal(page, a->command);
            if (*a->note) print_indented(page, a->note);
        }
    }
}

void extend_print_measure(const explain_terminal *page, const extension *e, int stopped, const char *command) {
    fputc('\n', page->file);
    explain_print_wrapped(page, EXPLAIN_STYLE_PLAIN, 0, 0,
                          stopped ? "The measurement was stopped, so the recommendation is by rules. This measures it whole:"
                          : extend_is_config_alone(e)
                              ? "What it costs near by and far off is not known without weights and a text. This "
                                "measures it, where FOLDER "
                                "has config.json and the weights:"
                              : "What it costs near by and far off is not known without a text. This measures it:");
    print_literal(page, command);
}

void extend_print_answer(const explain_terminal *page, const extend_method *methods, const extend_effect *rows,
                         const extend_verdict *v) {
    const extend_method *r = &methods[v->method];
    const int is_none = method_is_none(&r->method);
    char reason[sizeof v->reason + 64], factor[32] = "";
    if (!is_none && !r->longrope && rows[v->method].factor > 1 && !strchr(r->label, ':'))
        snprintf(factor, sizeof factor, " x %.6g", rows[v->method].factor);
    if (*v->warning) explain_print_wrapped(page, EXPLAIN_STYLE_BOLD, 0, 0, v->warning);
    explain_print(page, EXPLAIN_STYLE_BOLD, "Recommended: %s%s", is_none ? "the model as it is" : r->label, factor);
    fputc('\n', page->file);
    snprintf(reason, sizeof reason, "Reason%s: %s.", *v->measure ? ", by rules and not measured" : "", v->reason);
    explain_print_wrapped(page, EXPLAIN_STYLE_PLAIN, 0, 0, reason);
}

int extend_print_steps(const explain_terminal *page, const extension *e, const extend_method *methods,
                       const extend_verdict *v) {
    const extend_method *r = &methods[v->method];
    const int is_none = method_is_none(&r->method);
    if (e->to > 0) print_engines(page, v, r->label, is_none);
    if (*v->measure && !*v->warning && !is_none) extend_print_measure(page, e, v->cost.losses != NULL, v->measure);
    return v->cost.losses ? print_cost(page, methods, &v->cost) : 0;
}

/* -- JSON -- */
static json_t *same_json(const extend_method *methods, const extend_cost *cost, int64_t row, int range) {
    const int64_t same = same_rows_of(&cost->same, row, range);
    return same < 0 ? NULL : JSON(methods[same].label);
}

static json_t *mean_json(extend_mean m) {
    if (m.windows == 0) return json_null();
    return JSON_OBJECT("nats", JSON(m.nats), "half_interval", m.half < 0 ? json_null() : JSON(m.half), "windows",
                       JSON(m.windows));
}

static json_t *text_or_null(const char *text) {
    return cli_json_text(text && *text ? text : NULL);
}

static json_t *cost_json(const extend_method *methods, const extend_cost *cost) {
    if (!cost->losses) return json_null();
    json_t *list = json_array();
    for (int64_t i = 0; i < cost->methods; i++) {
        const extend_loss *loss = &cost->losses[i];
        (void)json_array_append_new(
            list, JSON_OBJECT("method", JSON(methods[i].label), "near", mean_json(loss->at[EXTEND_NEAR]), "far",
                              mean_json(loss->at[EXTEND_FAR]), "near_over_none", mean_json(loss->over_none[EXTEND_NEAR]),
                              "far_over_none", mean_json(loss->over_none[EXTEND_FAR]), "note", text_or_null(loss->note),
                              "near_same_as", same_json(methods, cost, i, EXTEND_NEAR), "far_same_as",
                              same_json(methods, cost, i, EXTEND_FAR)));
    }
    return JSON_OBJECT("near", JSON(cost->context[EXTEND_NEAR]), "far", JSON(cost->context[EXTEND_FAR]), "complete",
                       json_boolean(cost->complete), "methods", list);
}

static json_t *advice_json(const extend_verdict *v, int engine) {
    const extend_advice *a = &v->advice[engine];
    const int same = a->support == EXTEND_SUPPORT_SAME;
    return JSON_OBJECT("says", JSON(extend_support_names[a->support]), "why", text_or_null(a->why), "keys",
                       same && a->keys ? json_deep_copy(a->keys) : json_null(), "keys_4",
                       same && a->old_keys ? json_deep_copy(a->old_keys) : json_null(), "read_so_by",
                       text_or_null(same ? a->readers : ""), "command", text_or_null(a->command), "note",
                       text_or_null(a->note), "reads_as_meant", text_or_null(v->alike[engine]));
}

json_t *extend_verdict_json(const extend_method *methods, const extend_verdict *v) {
    json_t *engines = json_object();
    for (int i = 0; i < EXTEND_ENGINES; i++)
        JSON_ADD(engines, extend_engine_names[i], advice_json(v, i));
    return JSON_OBJECT("method", JSON(methods[v->method].label), "basis", JSON(*v->measure ? "rule" : "measured"), "reason",
                       JSON(v->reason), "measure", text_or_null(v->measure), "warning", text_or_null(v->warning), "cost",
                       cost_json(methods, &v->cost), "engines", engines);
}
