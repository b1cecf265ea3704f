/* diff_draft_view.c: what a draft shares with its target, as a page and as JSON. */
#include "tools/cli/cli_json.h"
#include "tools/diff/diff_draft.h"
#include "tools/options/value_names.h"
#include <string.h>

static const char *const needs[] = {"must", "as-trained", "own"};

static void view_check(const explain_terminal *page, const diff_draft_check *c) {
    enum { MARGIN = 2, NAME = 18, STATE = 12, VALUES = MARGIN + NAME + STATE };
    const int free_choice = c->need == DIFF_NEED_OWN, good = c->agrees || free_choice;
    char text[2 * DIFF_DRAFT_TEXT + 64];
    if (strcmp(c->draft, c->target) == 0)
        snprintf(text, sizeof text, "%s", c->draft);
    else
        snprintf(text, sizeof text, "%s; target %s", c->draft, c->target);
    explain_print_spaces(page, MARGIN);
    explain_print_padded(page, EXPLAIN_STYLE_PLAIN, NAME, c->name);
    explain_print_padded(page, good ? free_choice ? EXPLAIN_STYLE_DIM : EXPLAIN_STYLE_GREEN : EXPLAIN_STYLE_YELLOW, STATE,
                         free_choice ? "its own"
                         : c->agrees ? "agrees"
                                     : "DIFFERS");
    explain_print_wrapped(page, EXPLAIN_STYLE_PLAIN, VALUES, VALUES, text);
}

static void view_operand(const explain_terminal *page, const char *role, const diff_operand *operand) {
    explain_print_padded(page, EXPLAIN_STYLE_DIM, 8, role);
    explain_print(page, EXPLAIN_STYLE_BOLD, "%s", operand->reading->path);
    explain_print(page, EXPLAIN_STYLE_PLAIN, " read as %s", gyre_profile_name(operand->reading->profile));
    fputc('\n', page->file);
}

void diff_draft_view(const explain_terminal *page, const diff_draft *draft, const diff_operand operand[2]) {
    static const char *const shares[] = {
        [DIFF_DRAFT_HEAD] =
            "A draft head: it reads the target's hidden states at the target's positions, and has its own keys",
        [DIFF_DRAFT_CACHE] = "A draft without keys: its queries read the target's cache",
        [DIFF_DRAFT_MODEL] = "An independent model: it shares tokens and positions with its target"};
    char text[2 * DIFF_DRAFT_TEXT + 128];
    view_operand(page, "draft", &operand[0]);
    view_operand(page, "target", &operand[1]);
    snprintf(text, sizeof text, "%s (%s).", shares[draft->kind], draft->known_by);
    explain_print_wrapped(page, EXPLAIN_STYLE_PLAIN, 0, 0, text);
    for (int i = 0; i < draft->count; i++) {
        const diff_draft_layers *l = &draft->layers[i];
        fputc('\n', page->file);
        explain_print(page, EXPLAIN_STYLE_BOLD, "%s", l->draft->name);
        if (l->target && strcmp(l->target->name, l->draft->name) != 0)
            explain_print(page, EXPLAIN_STYLE_PLAIN, " against %s", l->target->name);
        fputc('\n', page->file);
        for (int k = 0; k < l->count; k++)
            view_check(page, &l->checks[k]);
    }
    fputc('\n', page->file);
    explain_print_wrapped(page, draft->agrees ? EXPLAIN_STYLE_GREEN : EXPLAIN_STYLE_YELLOW, 0, 0, draft->verdict);
}

static json_t *check_json(const diff_draft_check *c) {
    return JSON_OBJECT("name", JSON(c->name), "need", JSON(needs[c->need]), "agrees", json_boolean(c->agrees), "draft",
                       cli_json_text(c->draft), "target", cli_json_text(c->target), "first_position",
                       c->first_position < 0 ? json_null() : json_integer(c->first_position), "note",
                       c->agrees ? json_null() : JSON(c->note));
}

json_t *diff_draft_json(const diff_draft *draft) {
    json_t *groups = json_array();
    for (int i = 0; i < draft->count; i++) {
        const diff_draft_layers *l = &draft->layers[i];
        json_t *checks = json_array();
        for (int k = 0; k < l->count; k++)
            checks = cli_json_append(checks, check_json(&l->checks[k]));
        groups = cli_json_append(groups, JSON_OBJECT("draft", JSON(l->draft->name), "target",
                                                     l->target ? JSON(l->target->name) : json_null(), "agrees",
                                                     json_boolean(l->agrees), "checks", checks));
    }
    return JSON_OBJECT("kind", JSON(diff_draft_kind_name(draft->kind)), "known_by", cli_json_text(draft->known_by), "agrees",
                       json_boolean(draft->agrees), "verdict", cli_json_text(draft->verdict), "groups", groups);
}
