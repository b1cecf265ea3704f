/* report_figure.c: figures on a page: a title, a legend that wraps, pictures for wide and narrow screens, the numbers. */
#include "report/report_page.h"

#include <string.h>

enum { MAX_PANELS = 64 };

/* What the page needs of a chart or of maps. */
typedef struct figure {
    const char *title, *caption;
    const gyre_report_chart *chart; /* NULL: of maps */
    const gyre_report_heatmap_grid *maps;
} figure;

/* -- pictures -- */
/* Ids belong to the whole page: those of a picture get a prefix, where defined and where used. */
static void put_picture(gyre_report_buffer *out, const char *svg, int64_t number, int64_t picture) {
    static const char *const marks[] = {" id='", " id=\"", "href='#", "href=\"#", "url(#"};
    const char *copied = svg;
    for (const char *at = svg; *at; at++) {
        if (*at != ' ' && *at != 'h' && *at != 'u') continue;
        for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
            if (strncmp(at, marks[i], strlen(marks[i])) != 0) continue;
            const char *name = at + strlen(marks[i]);
            gyre_report_put_bytes(out, copied, (size_t)(name - copied));
            gyre_report_printf(out, "f%lld-%lld-", (long long)number, (long long)picture);
            copied = name;
        }
    }
    gyre_report_put(out, copied);
}

static gyre_status draw(gyre_report_page *page, const figure *f, int64_t panel, int small, char **out) {
    if (f->chart) return gyre_report_chart_picture(&page->plotter, f->chart, panel, small, out, &page->error);
    return gyre_report_heatmap_picture(&page->plotter, f->maps, small, out, &page->error);
}

/* Adds a picture within an element of class `kind`. */
static void add_picture(gyre_report_page *page, const figure *f, int64_t panel, const char *kind, int64_t number) {
    char *svg = NULL;
    if (page->status) return;
    page->status = draw(page, f, panel, strcmp(kind, "wide") != 0, &svg);
    if (page->status) return;
    gyre_report_printf(&page->body, "<div class=\"%s\">", kind);
    put_picture(&page->body, svg, page->figures, number);
    gyre_report_put(&page->body, "</div>\n");
    gyre_report_free(svg);
}

static void add_panels(gyre_report_page *page, const figure *f, const char *const *names, int64_t panels) {
    /* Rows are whole where they can be: of three, or of two. */
    gyre_report_put(&page->body,
                    panels == 2 || panels % 3 == 1 ? "<div class=\"panels two\">\n" : "<div class=\"panels\">\n");
    for (int64_t i = 0; i < panels; i++) {
        gyre_report_put(&page->body, "<div class=\"panel\">\n");
        if (f->chart->series_count > panels) { /* else the legend says as much */
            gyre_report_put(&page->body, "<h4>");
            gyre_report_put_html(&page->body, names[i]);
            gyre_report_put(&page->body, "</h4>\n");
        }
        gyre_report_put_legend(&page->body, f->chart, i);
        add_picture(page, f, i, "picture", i + 1);
        gyre_report_put(&page->body, "</div>\n");
    }
    gyre_report_put(&page->body, "</div>\n");
}

/* -- the numbers -- */
static void add_csv(gyre_report_page *page, const figure *f) {
    char *csv = NULL;
    page->status = f->chart ? gyre_report_chart_csv(f->chart, &csv, &page->error)
                            : gyre_report_heatmap_grid_csv(f->maps, &csv, &page->error);
    if (page->status || !csv) return;
    gyre_report_printf(&page->body, "<a class=\"csv\" download=\"figure-%lld.csv\" href=\"", (long long)page->figures);
    gyre_report_put_csv_address(&page->body, csv);
    gyre_report_put(&page->body, "\">numbers as CSV</a>\n");
    gyre_report_free(csv);
}

/* -- figures -- */
static gyre_status add_figure(gyre_report_page *page, const figure *f) {
    const char *names[MAX_PANELS];
    page->figures++;
    gyre_report_printf(&page->body, "<figure id=\"figure-%lld\">\n<div class=\"head\"><h3>", (long long)page->figures);
    gyre_report_put_html(&page->body, f->title);
    gyre_report_put(&page->body, "</h3>\n");
    add_csv(page, f);
    gyre_report_put(&page->body, "</div>\n");
    if (page->status) return page->status;
    const int64_t panels = f->chart ? gyre_report_chart_panels(f->chart, names, MAX_PANELS) : 0;
    if (panels) {
        add_panels(page, f, names, panels);
    } else {
        if (f->chart) gyre_report_put_legend(&page->body, f->chart, -1);
        add_picture(page, f, -1, "wide", 1);
        add_picture(page, f, -1, "narrow", 2);
    }
    if (page->status) return page->status;
    if (f->caption) {
        gyre_report_put(&page->body, "<figcaption>");
        gyre_report_put_markup(&page->body, f->caption);
        gyre_report_put(&page->body, "</figcaption>\n");
    }
    gyre_report_put(&page->body, "</figure>\n");
    return gyre_report_page_check(page);
}

gyre_status gyre_report_page_chart(gyre_report_page *page, const gyre_report_chart *chart, const char *caption) {
    if (!page) return GYRE_EINVAL;
    if (page->status) return page->status;
    page->status = gyre_report_chart_check(chart, &page->error);
    if (!page->status && gyre_report_chart_panels(chart, NULL, MAX_PANELS + 1) > MAX_PANELS)
        page->status = gyre_fail(&page->error, GYRE_EINVAL, "chart: more than %d panels (figure)", MAX_PANELS);
    if (page->status) return page->status;
    const figure f = {chart->title, caption, chart, NULL};
    return add_figure(page, &f);
}

gyre_status gyre_report_page_heatmap_grid(gyre_report_page *page, const gyre_report_heatmap_grid *panels,
                                          const char *caption) {
    if (!page) return GYRE_EINVAL;
    if (page->status) return page->status;
    page->status = gyre_report_heatmap_check(panels, &page->error);
    if (page->status) return page->status;
    const figure f = {panels->title, caption, NULL, panels};
    return add_figure(page, &f);
}
