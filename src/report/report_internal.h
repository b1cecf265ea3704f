/* report_internal.h: shared by the files of the report: growing text, escaping, inks, gnuplot, axes. */
#ifndef GYRE_REPORT_INTERNAL_H
#define GYRE_REPORT_INTERNAL_H
#include "report/report.h"
#include "util/error.h"

#include <sys/types.h>

/* -- growing text -- */
/* All zeros is empty.  When memory runs out, `failed` is set and later calls do nothing.  gyre_report_buffer_take
 * reports it, so callers check once. */
typedef struct gyre_report_buffer {
    char *text; /* NUL-terminated if not NULL */
    size_t length, capacity;
    int failed;
} gyre_report_buffer;

void gyre_report_put_bytes(gyre_report_buffer *buffer, const char *bytes, size_t count);
void gyre_report_put(gyre_report_buffer *buffer, const char *text);
void gyre_report_printf(gyre_report_buffer *buffer, const char *format, ...) __attribute__((format(printf, 2, 3)));
void gyre_report_put_spaces(gyre_report_buffer *buffer, int64_t count);
void gyre_report_put_sanitized(gyre_report_buffer *buffer,
                               const char *text); /* each character by gyre_report_next_char, on one line */
void gyre_report_put_html(gyre_report_buffer *buffer,
                          const char *text); /* escaped for HTML content and attributes; keeps line ends */
void gyre_report_put_markup(gyre_report_buffer *buffer, const char *text); /* as HTML, with `code` marked up */
void gyre_report_put_gnuplot_string(gyre_report_buffer *buffer,
                                    const char *text); /* as a gnuplot string in single quotes, on one line */
void gyre_report_put_gnuplot_number(gyre_report_buffer *buffer, double value); /* exact; NaN if not finite */
void gyre_report_buffer_free(gyre_report_buffer *buffer);
/* *out = the text, never NULL; the buffer is empty afterwards.  ENOMEM if the buffer failed, which frees it. */
gyre_status gyre_report_buffer_take(gyre_report_buffer *buffer, char **out, const char *what, gyre_error *err);

/* One character of printed text: well-formed, and not a control character except '\n'. */
typedef struct gyre_report_char {
    uint32_t code;
    char bytes[5];
    size_t count; /* of bytes; 0 at the end */
} gyre_report_char;
gyre_report_char gyre_report_next_char(const char **text);
/* out = columns that the text takes on a terminal. */
int64_t gyre_report_display_width(const char *text);
/* Prints value by printf's %.*f (style 'f') or another style, with a decimal point in every locale. */
void gyre_report_format_number(char out[64], char style, int digits, double value);

/* -- inks: report_inks.c -- */
/* Every colour of a figure has a light and a dark form.  Figures are drawn with the light ones, as #rrggbb. */
#define GYRE_REPORT_INK_GROUND  "#ffffff"
#define GYRE_REPORT_INK_TEXT    "#202124"
#define GYRE_REPORT_INK_LABEL   "#3c4043"
#define GYRE_REPORT_INK_QUIET   "#5f6368"
#define GYRE_REPORT_INK_FRAME   "#80868b"
#define GYRE_REPORT_INK_GRID    "#e8eaed"
#define GYRE_REPORT_INK_SHADE   "#f3ead8" /* a range behind lines */
#define GYRE_REPORT_INK_PART    "#b7d6ec" /* part of an area whose rest is ground */
#define GYRE_REPORT_INK_WARNING "#b34700" /* words that warn */
#define GYRE_REPORT_INK_OTHER   "#bdc1c6" /* cells without a value, and lines that only give context */

enum {
    GYRE_REPORT_COLORS = 8,     /* that series take by their position */
    GYRE_REPORT_FEW_POINTS = 24 /* a line with more has a symbol on some of its points only */
};
/* Appends the CSS rules that replace the light inks by dark ones.  selector: before each rule, "figure " or "". */
void gyre_report_put_dark_rules(gyre_report_buffer *out, const char *selector);

/* -- figures -- */
/* A picture.  A page has titles and legends beside it; a separate picture has its own, and its own dark rules. */
typedef struct gyre_report_canvas {
    const char *title;
    int width, height;
    int alone;
    /* Appends what is shown where the pointer rests: on point `point` of series `series` of a chart, or on column `point`
     * and row `series` of map `map`.  NULL = nothing. */
    void (*hint)(const void *ctx, int64_t map, int64_t series, int64_t point, gyre_report_buffer *out);
    const void *ctx;
    /* out = the columns and rows of map `map` that have hints.  NULL for charts. */
    void (*hint_grid)(const void *ctx, int64_t map, int64_t *columns, int64_t *rows);
} gyre_report_canvas;
/* A gnuplot that draws one picture after another.  All zeros: none runs, and the next picture starts one.  It ends with a
 * picture that fails. */
typedef struct gyre_report_plotter {
    pid_t child; /* 0 = none runs */
    int fds[4];  /* our ends of its standard files, and the end of its script that it reads */
} gyre_report_plotter;
void gyre_report_plotter_end(gyre_report_plotter *plotter);
/* *out = the <svg> element that gnuplot makes of the script, with `title` as its title.  Terminal and encoding are set
 * before the script runs, and nothing is left of an earlier script.  plotter: NULL = a gnuplot for this picture alone. */
gyre_status gyre_report_gnuplot(gyre_report_plotter *plotter, const gyre_report_canvas *canvas,
                                const gyre_report_buffer *script, char **out, gyre_error *err);
/* Appends gnuplot's SVG, edited: report_svg.c lists the edits. */
void gyre_report_put_svg(gyre_report_buffer *out, const char *svg, const gyre_report_canvas *canvas);

/* EINVAL for what cannot be drawn. */
gyre_status gyre_report_chart_check(const gyre_report_chart *chart, gyre_error *err);
gyre_status gyre_report_heatmap_check(const gyre_report_heatmap_grid *panels, gyre_error *err);
/* out = the value of cell i of n on an axis. */
double gyre_report_cell_value(const gyre_report_axis *axis, const double *values, int64_t n, int64_t i);
/* Appends an address that holds the text, to be saved as a file. */
void gyre_report_put_csv_address(gyre_report_buffer *out, const char *csv);

/* A part of a page's figure: the picture of a panel in the small size, or a whole figure in both sizes. */
enum { GYRE_REPORT_SMALL_WIDTH = 440, GYRE_REPORT_WIDE_WIDTH = 960 };
/* out = the panels of a chart on a page: 0 = all series in one picture.  names[] (or NULL) = the title of each.  More series
 * than a picture can hold have a panel each. */
int64_t gyre_report_chart_panels(const gyre_report_chart *chart, const char **names, int64_t limit);
/* out = where y is drawn: at the clip if it is above; NaN if nowhere. */
double gyre_report_clipped_y(const gyre_report_chart *c, double y);
double gyre_report_highest(const gyre_report_series *s); /* finite value; -INFINITY = none */
/* *out = the picture of a panel, or of the whole chart with panel -1, without title and legend. */
gyre_status gyre_report_chart_picture(gyre_report_plotter *plotter, const gyre_report_chart *chart, int64_t panel, int small,
                                      char **out, gyre_error *err);
gyre_status gyre_report_heatmap_picture(gyre_report_plotter *plotter, const gyre_report_heatmap_grid *panels, int small,
                                        char **out, gyre_error *err);
/* Appends the legend of a panel, or of the whole chart with panel -1, as an HTML list with a sample of each line. */
void gyre_report_put_legend(gyre_report_buffer *out, const gyre_report_chart *chart, int64_t panel);
/* out = 1 if the panel shows the series in its own colour; 0: as a grey line behind the others. */
int gyre_report_series_is_own(const gyre_report_chart *chart, int64_t series, int64_t panel);
gyre_report_style gyre_report_series_style(const gyre_report_chart *chart, int64_t series);

/* The range of the numbers on an axis. */
typedef struct gyre_report_range {
    double low, high; /* low > high: empty */
} gyre_report_range;
/* out = the right margin, in characters, that names of lines take; and the script that puts them there, moved apart
 * where they would overlap. */
int64_t gyre_report_end_room(const gyre_report_chart *chart);
void gyre_report_put_end_labels(gyre_report_buffer *script, const gyre_report_chart *chart, gyre_report_range x,
                                gyre_report_range y);
#define GYRE_REPORT_RANGE_EMPTY                                                                                             \
    { 1, 0 }
void gyre_report_range_add(gyre_report_range *data_range, double value);
/* Appends range, scale, ticks and label of axis `letter` to the script.  clip: its tick reads "≥ clip"; 0 = none. */
void gyre_report_put_axis(gyre_report_buffer *script, char letter, const gyre_report_axis *axis,
                          gyre_report_range data_range, double clip);
/* out = where the value is on the axis, 0 at its low end and 1 at its high end. */
double gyre_report_axis_fraction(const gyre_report_axis *axis, gyre_report_range data_range, double value);
/* EINVAL for an impossible range or scale. */
gyre_status gyre_report_axis_check(const gyre_report_axis *axis, const char *name, gyre_error *err);
int gyre_report_axis_can_show(const gyre_report_axis *axis, double value); /* finite, and above 0 on a logarithmic scale */

#endif
