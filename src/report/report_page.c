/* report_page.c: one HTML file that needs no network. */
#include "report/report_page.h"
#include "report/report_css.h"
#include "util/atomic_file.h"

#include <stdlib.h>
#include <string.h>

/* -- creating and freeing -- */
gyre_status gyre_report_page_create(gyre_report_page **out, const char *title, gyre_error *err) {
    if (!out || !title) return gyre_fail(err, GYRE_EINVAL, "page: out and a title are needed (report)");
    gyre_report_page *page = calloc(1, sizeof *page);
    if (page) gyre_report_put_html(&page->title, title);
    if (!page || page->title.failed) {
        gyre_report_page_free(page);
        return gyre_fail(err, GYRE_ENOMEM, "page: out of memory (report)");
    }
    *out = page;
    return GYRE_OK;
}

void gyre_report_page_free(gyre_report_page *page) {
    if (!page) return;
    gyre_report_plotter_end(&page->plotter);
    gyre_report_buffer_free(&page->title);
    gyre_report_buffer_free(&page->contents);
    gyre_report_buffer_free(&page->body);
    gyre_report_buffer_free(&page->footer);
    free(page);
}

static gyre_status fail(gyre_report_page *page, gyre_status status, const char *text) {
    page->status = status;
    return gyre_fail(&page->error, status, "%s", text);
}

gyre_status gyre_report_page_check(gyre_report_page *page) {
    if (page->body.failed || page->contents.failed || page->footer.failed)
        return fail(page, GYRE_ENOMEM, "page: out of memory (report)");
    return GYRE_OK;
}

/* -- text -- */
/* Appends `before`, the text, `after`. */
static gyre_status put_element(gyre_report_page *page, const char *before, const char *text, const char *after) {
    gyre_report_put(&page->body, before);
    gyre_report_put_markup(&page->body, text);
    gyre_report_put(&page->body, after);
    return gyre_report_page_check(page);
}

gyre_status gyre_report_page_paragraph(gyre_report_page *page, const char *text) {
    if (!page) return GYRE_EINVAL;
    if (page->status) return page->status;
    return put_element(page, page->sections || page->in_details ? "<p>" : "<p class=\"lead\">", text, "</p>\n");
}

gyre_status gyre_report_page_section(gyre_report_page *page, const char *heading) {
    if (!page) return GYRE_EINVAL;
    if (page->status) return page->status;
    if (page->in_details) return fail(page, GYRE_EINVAL, "page: a section inside details (report)");
    page->sections++;
    gyre_report_printf(&page->contents, "<li><a href=\"#section-%lld\">", (long long)page->sections);
    gyre_report_put_markup(&page->contents, heading);
    gyre_report_put(&page->contents, "</a></li>\n");
    gyre_report_printf(&page->body, "%s<section id=\"section-%lld\">\n", page->in_section ? "</section>\n" : "",
                       (long long)page->sections);
    page->in_section = 1;
    return put_element(page, "<h2>", heading, "</h2>\n");
}

static void put_key_values(gyre_report_buffer *out, const gyre_report_key_value *facts, int64_t count) {
    gyre_report_put(out, "<dl>\n");
    for (int64_t i = 0; i < count; i++) {
        gyre_report_put(out, "<div><dt>");
        gyre_report_put_html(out, facts[i].name);
        gyre_report_put(out, "</dt><dd>");
        gyre_report_put_markup(out, facts[i].value);
        gyre_report_put(out, "</dd></div>\n");
    }
    gyre_report_put(out, "</dl>\n");
}

gyre_status gyre_report_page_key_values(gyre_report_page *page, const gyre_report_key_value *facts, int64_t count) {
    if (!page) return GYRE_EINVAL;
    if (page->status) return page->status;
    if (count < 0 || (count && !facts)) return fail(page, GYRE_EINVAL, "page: no facts to show (report)");
    gyre_report_put(&page->body, "<div class=\"facts\">");
    put_key_values(&page->body, facts, count);
    gyre_report_put(&page->body, "</div>\n");
    return gyre_report_page_check(page);
}

gyre_status gyre_report_page_footer(gyre_report_page *page, const gyre_report_key_value *facts, int64_t count) {
    if (!page) return GYRE_EINVAL;
    if (page->status) return page->status;
    if (count < 0 || (count && !facts)) return fail(page, GYRE_EINVAL, "page: no facts for its foot (report)");
    gyre_report_buffer_free(&page->footer);
    put_key_values(&page->footer, facts, count);
    return gyre_report_page_check(page);
}

gyre_status gyre_report_page_code(gyre_report_page *page, const char *text) {
    if (!page) return GYRE_EINVAL;
    if (page->status) return page->status;
    gyre_report_put(&page->body, "<pre><code>");
    gyre_report_put_html(&page->body, text);
    gyre_report_put(&page->body, "</code></pre>\n");
    return gyre_report_page_check(page);
}

gyre_status gyre_report_page_details_begin(gyre_report_page *page, const char *summary) {
    if (!page) return GYRE_EINVAL;
    if (page->status) return page->status;
    if (page->in_details) return fail(page, GYRE_EINVAL, "page: details inside details (report)");
    page->in_details = 1;
    return put_element(page, "<details>\n<summary>", summary, "</summary>\n");
}

gyre_status gyre_report_page_details_end(gyre_report_page *page) {
    if (!page) return GYRE_EINVAL;
    if (page->status) return page->status;
    if (!page->in_details) return fail(page, GYRE_EINVAL, "page: the end of details that did not begin (report)");
    page->in_details = 0;
    gyre_report_put(&page->body, "</details>\n");
    return gyre_report_page_check(page);
}

/* -- tables -- */
gyre_status gyre_report_page_table(gyre_report_page *page, const gyre_report_table *table) {
    if (!page) return GYRE_EINVAL;
    if (page->status) return page->status;
    char *html = NULL;
    page->status = gyre_report_table_html(table, &html, &page->error);
    if (page->status) return page->status;
    /* A wide table scrolls by itself, also by keyboard, without moving the page. */
    gyre_report_put(&page->body, "<div class=\"scroll\" tabindex=\"0\">\n");
    gyre_report_put(&page->body, html);
    gyre_report_put(&page->body, "</div>\n");
    gyre_report_free(html);
    return gyre_report_page_check(page);
}

/* -- the file -- */
static void put_page(gyre_report_buffer *out, const gyre_report_page *page) {
    gyre_report_put(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                         "<meta name=\"generator\" content=\"gyre\">\n"
                         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                         "<meta name=\"color-scheme\" content=\"light dark\">\n<title>");
    gyre_report_put(out, page->title.text ? page->title.text : "");
    gyre_report_put(out, "</title>\n<style>\n");
    for (int i = 0; gyre_report_css[i]; i++)
        gyre_report_put(out, gyre_report_css[i]);
    gyre_report_put(out, "@media screen and (prefers-color-scheme:dark){");
    gyre_report_put_dark_rules(out, "figure ");
    gyre_report_put(out, "}\n</style>\n</head>\n<body>\n<header>\n<h1>");
    gyre_report_put(out, page->title.text ? page->title.text : "");
    gyre_report_put(out, "</h1>\n");
    if (page->sections > 1) {
        gyre_report_put(out, "<nav aria-label=\"Contents\">\n<ol>\n");
        gyre_report_put(out, page->contents.text);
        gyre_report_put(out, "</ol>\n</nav>\n");
    }
    gyre_report_put(out, "</header>\n<main>\n");
    if (page->body.text) gyre_report_put(out, page->body.text);
    gyre_report_put(out, page->in_details ? "</details>\n" : "");
    gyre_report_put(out, page->in_section ? "</section>\n" : "");
    gyre_report_put(out, "</main>\n");
    if (page->footer.text) {
        gyre_report_put(out, "<footer>\n");
        gyre_report_put(out, page->footer.text);
        gyre_report_put(out, "</footer>\n");
    }
    gyre_report_put(out, "</body>\n</html>\n");
}

gyre_status gyre_report_page_html(const gyre_report_page *page, char **out, gyre_error *err) {
    if (!page || !out) return gyre_fail(err, GYRE_EINVAL, "page: page and out are needed (report)");
    if (page->status) return gyre_fail(err, page->status, "%s", page->error.text);
    gyre_report_buffer html = {NULL, 0, 0, 0};
    put_page(&html, page);
    return gyre_report_buffer_take(&html, out, "page", err);
}

gyre_status gyre_report_page_write(const gyre_report_page *page, const char *path, gyre_error *err) {
    if (!path) return gyre_fail(err, GYRE_EINVAL, "page: no path to write to (report)");
    char *html = NULL;
    gyre_status status = gyre_report_page_html(page, &html, err);
    if (status || !html) return status;
    const int code = gyre_atomic_write(path, html, strlen(html));
    gyre_report_free(html);
    return code ? gyre_fail(err, gyre_status_of_errno(code), "report: %s (%.400s)", strerror(code), path) : GYRE_OK;
}
