/* explain_check_view.c: the result of gyre explain --check as text and as JSON. */
#include "tools/cli/cli_json.h"
#include "tools/explain/explain_check.h"
#include "tools/explain/explain_format.h"
#include "tools/options/value_names.h"
#include <math.h>
#include <string.h>

static const char *perplexity(double nats, char out[EXPLAIN_TEXT_SIZE]) {
    const double value = exp(nats);
    snprintf(out, EXPLAIN_TEXT_SIZE, value < 100 ? "%.3f" : value < 1e6 ? "%.1f" : "%.3g", value);
    return out;
}

static const char *trained_name(const explain_check *c) {
    const int half = (c->verdict == CHECK_AGREES) == (c->file == GYRE_LAYOUT_HALF);
    return gyre_layout_name(half ? GYRE_LAYOUT_HALF : GYRE_LAYOUT_INTERLEAVED);
}

static void print_line(const explain_terminal *page, explain_style style, const char *mark, const char *text) {
    const int column = *mark ? explain_print(page, style, "%s", mark) : 0;
    explain_print_wrapped(page, *mark ? EXPLAIN_STYLE_PLAIN : style, column, column, text);
}

void explain_check_view(const explain_terminal *page, const explain_check *c, const char *model) {
    char text[1200], half[EXPLAIN_TEXT_SIZE], inter[EXPLAIN_TEXT_SIZE];
    const char *file = gyre_layout_name(c->file);
    fputc('\n', page->file);
    if (c->verdict == CHECK_NOT_APPLICABLE) {
        snprintf(text, sizeof text, "check: nothing to check, for %s", c->why);
        print_line(page, EXPLAIN_STYLE_PLAIN, "", text);
        return;
    }
    snprintf(text, sizeof text, "check: perplexity over %lld windows of %lld tokens: half %s, interleaved %s",
             (long long)c->windows, (long long)c->context, perplexity(c->nats[0], half), perplexity(c->nats[1], inter));
    print_line(page, EXPLAIN_STYLE_PLAIN, "", text);
    if (c->verdict == CHECK_UNDECIDED) {
        snprintf(text, sizeof text, "undecided: %s", c->why);
        print_line(page, EXPLAIN_STYLE_YELLOW, "? ", text);
    } else if (c->verdict == CHECK_AGREES) {
        snprintf(text, sizeof text, "trained with %s, as the file says", trained_name(c));
        print_line(page, EXPLAIN_STYLE_GREEN, "", text);
    } else {
        snprintf(text, sizeof text, "WRONG LAYOUT: the file says %s, the weights were trained with %s.  Convert them with\n",
                 file, trained_name(c));
        text[strlen(text) - 1] = '\0';
        print_line(page, EXPLAIN_STYLE_RED, "! ", text);
        explain_print_spaces(page, 2);
        explain_print(page, EXPLAIN_STYLE_BOLD, "gyre convert %.400s -o FIXED%s --from-layout %s", model,
                      is_gguf_path(model) ? ".gguf" : "", trained_name(c));
        fputc('\n', page->file);
    }
    fputc('\n', page->file);
    explain_print_wrapped(page, EXPLAIN_STYLE_PLAIN, 0, RUN_CARD_INDENT, c->card_text);
}

static json_t *perplexities(const double *nats, int64_t count) {
    json_t *list = json_array();
    for (int64_t i = 0; i < count; i++)
        list = cli_json_append(list, cli_json_number(exp(nats[i])));
    return list;
}

json_t *explain_check_json(const explain_check *c, const char *text) {
    static const char *const verdicts[] = {"nothing", "undecided", "agrees", "disagrees"};
    const int decided = c->verdict == CHECK_AGREES || c->verdict == CHECK_DISAGREES;
    json_t *root = json_object();
    int bad = cli_json_set(root, "verdict", json_string(verdicts[c->verdict]));
    bad |= cli_json_set(root, "trained", decided ? json_string(trained_name(c)) : json_null());
    bad |= cli_json_set(root, "why", *c->why ? json_string(c->why) : json_null());
    bad |= cli_json_set(root, "text", cli_json_text(text));
    if (c->verdict != CHECK_NOT_APPLICABLE) {
        bad |= cli_json_set(root, "file", json_string(gyre_layout_name(c->file)));
        bad |= cli_json_set(root, "half", cli_json_number(exp(c->nats[0])));
        bad |= cli_json_set(root, "interleaved", cli_json_number(exp(c->nats[1])));
        bad |= cli_json_set(root, "windows", json_integer(c->windows));
        bad |= cli_json_set(root, "context", json_integer(c->context));
        bad |= cli_json_set(root, "half_better", json_integer(c->half_wins));
        bad |= cli_json_set(root, "chance", cli_json_number(c->p_value));
        bad |= json_object_set(root, "card", c->card) != 0;
        bad |= cli_json_set(root, "half_by_window", perplexities(c->window_nats[0], c->windows));
        bad |= cli_json_set(root, "interleaved_by_window", perplexities(c->window_nats[1], c->windows));
    }
    return cli_json_checked(root, bad);
}
