/* gyre_report.h: results for people: tables, figures, and a page that holds both.
 *
 * What is shown is described by plain structs that borrow the caller's memory for the length of one call.  A call that hands
 * out text hands out one malloc'ed string, given back with gyre_report_free.  Only a gyre_report_page lives on: it copies
 * what it is given.
 *
 * Strings are UTF-8 and shown as they are: nothing in them is markup to the table, the figure or the page.  What is not
 * well-formed UTF-8 shows as U+FFFD, control characters as spaces.  NULL shows nothing.
 *
 * Figures are drawn by the program gnuplot, looked up in PATH and run without a shell; every call that draws can fail with
 * EIO where gnuplot is missing or fails, its own words in the error.  No call prints, except to the FILE it is given. */
#ifndef GYRE_REPORT_REPORT_H
#define GYRE_REPORT_REPORT_H
#include "gyre/gyre.h"

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Frees a string that a call below handed out; NULL is fine. */
GYRE_API void gyre_report_free(char *text);

/* -- tables -- */
/* MISSING shows a dash.  HEADING: a text that spans its row and begins a group of rows; the row's other cells are
 * ignored. */
typedef enum gyre_report_cell_kind {
    GYRE_REPORT_CELL_MISSING,
    GYRE_REPORT_CELL_NUMBER,
    GYRE_REPORT_CELL_TEXT,
    GYRE_REPORT_CELL_HEADING
} gyre_report_cell_kind;
typedef struct gyre_report_cell {
    gyre_report_cell_kind kind;
    const char *text; /* TEXT and HEADING */
    double value;     /* NUMBER; NaN shows as MISSING */
    double heat;      /* 0 .. 1: strength of the cell's colour in HTML; 0 = none */
} gyre_report_cell;

/* out = a cell without heat.  The text is borrowed. */
GYRE_API gyre_report_cell gyre_report_cell_number(double value);
GYRE_API gyre_report_cell gyre_report_cell_text(const char *text);
GYRE_API gyre_report_cell gyre_report_cell_heading(const char *text);
GYRE_API gyre_report_cell gyre_report_cell_missing(void);

typedef enum gyre_report_align {
    GYRE_REPORT_ALIGN_AUTO,
    GYRE_REPORT_ALIGN_LEFT,
    GYRE_REPORT_ALIGN_RIGHT,
    GYRE_REPORT_ALIGN_CENTER
} gyre_report_align;
typedef enum gyre_report_emphasis {
    GYRE_REPORT_EMPHASIS_NONE,
    GYRE_REPORT_EMPHASIS_LOWEST,
    GYRE_REPORT_EMPHASIS_HIGHEST
} gyre_report_emphasis;
typedef struct gyre_report_column {
    const char *title;
    const char *group;       /* a heading over neighbouring columns that name the same group; NULL = none */
    const char *unit;        /* written behind each number, "%"; NULL = none */
    int decimals;            /* digits after the point, 0 .. 17; from 1e6 on numbers turn to 1.23e+06 */
    gyre_report_align align; /* AUTO: the first column left, the others right */
    gyre_report_emphasis
        emphasis; /* which numbers to emphasise, among each group of rows; all that read the same as the best */
} gyre_report_column;

typedef struct gyre_report_table {
    size_t size;         /* set by GYRE_REPORT_TABLE_INIT */
    const char *caption; /* above; NULL = none */
    const char *note;    /* below; NULL = none */
    const gyre_report_column *columns;
    int64_t columns_count;
    const gyre_report_cell *cells; /* row by row: cells[row * columns_count + column] */
    int64_t rows;
} gyre_report_table;
#define GYRE_REPORT_TABLE_INIT                                                                                              \
    { sizeof(gyre_report_table), NULL, NULL, NULL, 0, NULL, 0 }

/* Prints the table to a FILE in aligned columns.  terminal: 1 = with ANSI bold (headings, best numbers) and dim.
 * Errors: EINVAL (no columns, a decimals or an enum out of range), ENOMEM, EIO. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_report_table_print(const gyre_report_table *table, FILE *file, int terminal,
                                                             gyre_error *err);
/* *out = the table as an HTML <table>, for gyre_report_free.  Errors: EINVAL, ENOMEM. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_report_table_html(const gyre_report_table *table, char **out, gyre_error *err);

/* -- figures -- */
typedef enum gyre_report_scale {
    GYRE_REPORT_SCALE_LINEAR,
    GYRE_REPORT_SCALE_LOG2,
    GYRE_REPORT_SCALE_LOG10
} gyre_report_scale;
/* LOG2 puts its ticks at powers of two and writes 2048 as 2k; on LOG2 and LOG10 values <= 0 are left out. */
typedef struct gyre_report_axis {
    const char *label; /* with its unit: "context (tokens)" */
    gyre_report_scale scale;
    double low, high; /* the range; equal = that of the data */
} gyre_report_axis;

/* A line through (x[i], y[i]).  NaN breaks it; an infinite y is drawn at the chart's clip, or breaks it where there is none.
 * low, high: a band around it, such as the spread over seeds; NULL = none. */
typedef struct gyre_report_series {
    const char *name;
    int64_t count;
    const double *x, *y;
    const double *low, *high;
    int color; /* 1 .. 8, of Okabe and Ito's palette, so that related series share it; 0 = by its place in the list */
    int dash;  /* 1 (solid) .. 5; 0 = chosen */
} gyre_report_series;

/* A thin dashed line across the chart: at x, or at y where horizontal is 1. */
typedef struct gyre_report_marker {
    double at;
    const char *label;
    int horizontal;
} gyre_report_marker;

typedef enum gyre_report_chart_style {
    GYRE_REPORT_CHART_STYLE_LINES,
    GYRE_REPORT_CHART_STYLE_POINTS
} gyre_report_chart_style;
typedef struct gyre_report_chart {
    size_t size; /* set by GYRE_REPORT_CHART_INIT */
    const char *title;
    gyre_report_axis x, y;
    gyre_report_chart_style style; /* LINES: with a point on each value where a series has few */
    double clip;                   /* greater y is drawn at this height, its tick written "≥ clip"; 0 = no clip */
    const gyre_report_series *series;
    int64_t series_count;
    const gyre_report_marker *markers;
    int64_t markers_count;
} gyre_report_chart;
/* clang-format off */
#define GYRE_REPORT_CHART_INIT                                                                        \
    { sizeof(gyre_report_chart), NULL,                                                                \
      {NULL, GYRE_REPORT_SCALE_LINEAR, 0, 0}, {NULL, GYRE_REPORT_SCALE_LINEAR, 0, 0},                        \
      GYRE_REPORT_CHART_STYLE_LINES, 0, NULL, 0, NULL, 0 }
/* clang-format on */

/* *out = the chart as SVG: one <svg> element with a viewBox and no fixed size, for gyre_report_free.  Series are told apart
 * by colour and by dash or shape of their points; the legend stands to the right.
 * Errors: EINVAL (no series, nothing finite to draw, an empty or impossible range), ENOMEM, EIO. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_report_chart_svg(const gyre_report_chart *chart, char **out, gyre_error *err);

/* A heat map of at least 2 x 2 cells: z[row * width + column].  What is not finite shows as grey. */
typedef struct gyre_report_heatmap {
    const char *name;
    int64_t width, height;
    const double *z;
} gyre_report_heatmap;

/* DIVERGING: blue, white, red, for values on both sides of the middle.  SEQUENTIAL: light to dark. */
typedef enum gyre_report_palette { GYRE_REPORT_PALETTE_DIVERGING, GYRE_REPORT_PALETTE_SEQUENTIAL } gyre_report_palette;
typedef struct gyre_report_heatmap_grid {
    size_t size; /* set by GYRE_REPORT_HEATMAP_GRID_INIT */
    const char *title;
    gyre_report_axis x; /* LINEAR; low, high: what the first and the last column stand for; equal = 0 .. width - 1 */
    gyre_report_axis y; /* LINEAR; low, high: the first row (at the bottom) and the last; equal = 0 .. height - 1 */
    gyre_report_axis z; /* LINEAR; of the colours, which all maps share; low, high equal = the range of the data */
    gyre_report_palette palette;
    const gyre_report_heatmap *maps;
    int64_t maps_count;
    int64_t columns; /* maps side by side, then a new row of them; 0 = up to 3 */
} gyre_report_heatmap_grid;
/* clang-format off */
#define GYRE_REPORT_HEATMAP_GRID_INIT                                                                       \
    { sizeof(gyre_report_heatmap_grid), NULL,                                                               \
      {NULL, GYRE_REPORT_SCALE_LINEAR, 0, 0}, {NULL, GYRE_REPORT_SCALE_LINEAR, 0, 0},                        \
      {NULL, GYRE_REPORT_SCALE_LINEAR, 0, 0}, GYRE_REPORT_PALETTE_DIVERGING, NULL, 0, 0 }
/* clang-format on */

/* *out = the maps in a grid with one colour scale, as SVG like gyre_report_chart_svg.
 * Errors: EINVAL (no maps, one below 2 x 2 cells, nothing finite, a scale that is not LINEAR), ENOMEM, EIO. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_report_heatmap_grid_svg(const gyre_report_heatmap_grid *panels, char **out,
                                                                  gyre_error *err);

/* -- the page -- */
/* One HTML file that needs no network: light and dark, fit for paper and small screens.
 *
 * A page grows in the order of the calls.  It keeps the first error of any of them and takes nothing more after it;
 * gyre_report_page_html and gyre_report_page_write return that error with its text, so a caller may check there alone. */
typedef struct gyre_report_page gyre_report_page;
typedef struct gyre_report_key_value {
    const char *name, *value;
} gyre_report_key_value;

/* *out = an empty page, its language English.  Errors: EINVAL (no title), ENOMEM. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_report_page_create(gyre_report_page **out, const char *title, gyre_error *err);
GYRE_API void gyre_report_page_free(gyre_report_page *page); /* NULL is fine */

/* A paragraph; text between two `backquotes` is set as code.  The paragraphs before the first section stand out as the
 * introduction. */
GYRE_API gyre_status gyre_report_page_paragraph(gyre_report_page *page, const char *text);
/* A heading, listed at the top of the page with the others. */
GYRE_API gyre_status gyre_report_page_section(gyre_report_page *page, const char *heading);
/* Names and values side by side: the few things to know at a glance. */
GYRE_API gyre_status gyre_report_page_key_values(gyre_report_page *page, const gyre_report_key_value *facts, int64_t count);
/* Lines in a fixed-width font, line ends kept. */
GYRE_API gyre_status gyre_report_page_code(gyre_report_page *page, const char *text);
GYRE_API gyre_status gyre_report_page_table(gyre_report_page *page, const gyre_report_table *table);
/* A figure, drawn now, and its caption (as a paragraph); NULL = none. */
GYRE_API gyre_status gyre_report_page_chart(gyre_report_page *page, const gyre_report_chart *chart, const char *caption);
GYRE_API gyre_status gyre_report_page_heatmap_grid(gyre_report_page *page, const gyre_report_heatmap_grid *panels,
                                                   const char *caption);
/* What follows is folded away behind the summary, until gyre_report_page_details_end.  They do not nest: EINVAL. */
GYRE_API gyre_status gyre_report_page_details_begin(gyre_report_page *page, const char *summary);
GYRE_API gyre_status gyre_report_page_details_end(gyre_report_page *page);
/* The foot of the page: where it came from (command, version, date, hash of the text).  Replaces an earlier one. */
GYRE_API gyre_status gyre_report_page_footer(gyre_report_page *page, const gyre_report_key_value *facts, int64_t count);

/* *out = the page as it stands, for gyre_report_free.  Errors: the page's first; ENOMEM. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_report_page_html(const gyre_report_page *page, char **out, gyre_error *err);
/* Writes the page to a file: whole, or not at all.  A file is written beside the target under another name, synced and
 * renamed over it; a target that exists and is no regular file (/dev/stdout) is written to as it is.
 * Errors: the page's first; ENOMEM; EIO (a folder, no permission, no room). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_report_page_write(const gyre_report_page *page, const char *path, gyre_error *err);

#ifdef __cplusplus
}
#endif
#endif /* GYRE_REPORT_REPORT_H */
