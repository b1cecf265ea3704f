/* audit_view.c: the findings as a page, the worst first, and as JSON. */
#include "tools/audit/audit.h"
#include "tools/cli/cli_json.h"
#include "tools/explain/explain_format.h"

static const char *const words[AUDIT_STATUSES] = {"ok", "left out", "note", "doubt", "WRONG"};
static const char *const names[AUDIT_STATUSES] = {"ok", "left_out", "note", "doubt", "wrong"};
static const explain_style styles[AUDIT_STATUSES] = {EXPLAIN_STYLE_GREEN, EXPLAIN_STYLE_DIM, EXPLAIN_STYLE_CYAN,
                                                     EXPLAIN_STYLE_YELLOW, EXPLAIN_STYLE_RED};
enum { STATUS_WIDTH = 10, CHECK_WIDTH = 13, INDENT = STATUS_WIDTH + CHECK_WIDTH };

static void view_finding(const explain_terminal *page, const audit_finding *f) {
    explain_print_padded(page, styles[f->status], STATUS_WIDTH, words[f->status]);
    explain_print_padded(page, EXPLAIN_STYLE_PLAIN, CHECK_WIDTH, f->check);
    explain_print_wrapped(page, EXPLAIN_STYLE_PLAIN, INDENT, INDENT, f->text);
    if (*f->place) {
        explain_print_spaces(page, INDENT);
        explain_print_wrapped(page, EXPLAIN_STYLE_DIM, INDENT, INDENT, f->place);
    }
    if (*f->remedy) {
        explain_print_spaces(page, INDENT);
        const int mark = explain_print(page, EXPLAIN_STYLE_YELLOW, "%s ", page->utf8 ? "\xe2\x86\x92" : "->");
        explain_print_wrapped(page, EXPLAIN_STYLE_PLAIN, INDENT + mark, INDENT + mark, f->remedy);
    }
}

static const char *format_of(const audit *a) {
    return a->is_gguf ? "GGUF" : "config.json";
}

static int count_dropped(const audit *a) {
    int count = 0;
    for (int s = 0; s < AUDIT_STATUSES; s++)
        count += a->dropped[s];
    return count;
}

void audit_view(const explain_terminal *page, const audit *a) {
    explain_print(page, EXPLAIN_STYLE_BOLD, "%s", a->described);
    fputc('\n', page->file);
    explain_print(page, EXPLAIN_STYLE_PLAIN, "%s, %s%s %s (%s)", *a->model_type ? a->model_type : "no model_type",
                  format_of(a), a->reading ? " read as" : ", refused by", gyre_profile_name(a->profile),
                  explain_profile_name(a->profile));
    fputs("\n\n", page->file);
    for (int s = AUDIT_STATUSES - 1; s >= 0; s--)
        for (int i = 0; i < a->count; i++)
            if ((int)a->findings[i].status == s) view_finding(page, &a->findings[i]);
    const int wrong = audit_count(a, AUDIT_WRONG), doubts = audit_count(a, AUDIT_DOUBT);
    fputc('\n', page->file);
    if (count_dropped(a)) {
        explain_print(page, EXPLAIN_STYLE_PLAIN, "%d findings more are counted, and not shown", count_dropped(a));
        fputc('\n', page->file);
    }
    if (wrong || doubts)
        explain_print(page, wrong ? EXPLAIN_STYLE_RED : EXPLAIN_STYLE_YELLOW, "%d wrong, %d in doubt", wrong, doubts);
    else
        explain_print(page, EXPLAIN_STYLE_GREEN, "nothing wrong was found");
    explain_print(page, EXPLAIN_STYLE_PLAIN, "; %d right, %d left out", audit_count(a, AUDIT_OK),
                  audit_count(a, AUDIT_LEFT_OUT));
    fputc('\n', page->file);
}

static json_t *finding_json(const audit_finding *f) {
    json_t *object = json_object();
    int bad = cli_json_set(object, "status", json_string(names[f->status]));
    bad |= cli_json_set(object, "check", json_string(f->check));
    bad |= cli_json_set(object, "text", cli_json_text(f->text));
    bad |= cli_json_set(object, "place", *f->place ? cli_json_text(f->place) : json_null());
    bad |= cli_json_set(object, "count", json_integer(f->count));
    bad |= cli_json_set(object, "remedy", *f->remedy ? cli_json_text(f->remedy) : json_null());
    return cli_json_checked(object, bad);
}

int audit_write_json(const audit *a, FILE *file) {
    json_t *root = json_object(), *findings = json_array();
    for (int i = 0; i < a->count; i++)
        findings = cli_json_append(findings, finding_json(&a->findings[i]));
    int bad = cli_json_set(root, "path", cli_json_text(a->described));
    bad |= cli_json_set(root, "format", json_string(format_of(a)));
    bad |= cli_json_set(root, "model_type", cli_json_text(a->model_type));
    bad |= cli_json_set(root, "profile", json_string(gyre_profile_name(a->profile)));
    bad |= cli_json_set(root, "ok", json_boolean(!audit_count(a, AUDIT_WRONG) && !audit_count(a, AUDIT_DOUBT)));
    bad |= cli_json_set(root, "wrong", json_integer(audit_count(a, AUDIT_WRONG)));
    bad |= cli_json_set(root, "doubt", json_integer(audit_count(a, AUDIT_DOUBT)));
    bad |= cli_json_set(root, "not_shown", json_integer(count_dropped(a)));
    bad |= cli_json_set(root, "findings", findings);
    return cli_json_write(file, cli_json_checked(root, bad));
}
