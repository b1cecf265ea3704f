/* report.h: presents results to people: tables, figures, and a page that holds both.
 *
 * Plain structs describe what is shown.  They borrow the caller's memory for one call.  A function that returns text
 * returns one malloc'ed string, which gyre_report_free frees.  Only gyre_report_page persists, and it copies what it is
 * given.
 *
 * Strings are UTF-8 and shown literally: nothing in them is markup to the table, the figure or the page.  Malformed
 * UTF-8 is shown as U+FFFD, a control character as a space, NULL as nothing.
 *
 * The program gnuplot draws the figures.  It is looked up in PATH and run without a shell.  If it is missing or fails, a
 * function that draws returns EIO with gnuplot's own message.  Nothing prints, except to the FILE it is given. */
#ifndef GYRE_REPORT_H
#define GYRE_REPORT_H
#include "gyre/gyre.h"

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Frees a string returned by a function below; NULL does nothing. */
GYRE_API void gyre_report_free(char *text);

/* -- tables -- */
/* MISSING is shown as a dash.  HEADING is a text across its row that begins a group of rows; other cells of the row are
 * ignored. */
typedef enum gyre_report_cell_kind {
    GYRE_REPORT_CELL_MISSING,
    GYRE_REPORT_CELL_NUMBER,
    GYRE_REPORT_CELL_TEXT,
    GYRE_REPORT_CELL_HEADING
} gyre_report_cell_kind;
typedef struct gyre_report_cell {
    gyre_report_cell_kind kind;
    const char *text; /* of TEXT and HEADING */
    double value;     /* of NUMBER; NaN is shown as MISSING */
    double heat;      /* 0 .. 1: strength of the cell's colour in HTML; 0 = none */
} gyre_report_cell;

/* out = a cell without heat.  It borrows the text. */
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
    const char *group;             /* heading over neighbouring columns of one group; NULL = none */
    const char *unit;              /* printed after each number, "%"; NULL = none */
    int decimals;                  /* digits after the point, 0 .. 17; from 1e6 on as 1.23e+06 */
    gyre_report_align align;       /* AUTO: the first column left, the others right */
    gyre_report_emphasis emphasis; /* numbers to emphasise in each group of rows: all that print like the
                                      best; none if a highest is 0 */
} gyre_report_column;

typedef struct gyre_report_table {
    size_t size;         /* set by GYRE_REPORT_TABLE_INIT */
    const char *caption; /* above the table; NULL = none */
    const char *note;    /* below the table; NULL = none */
    const char *colors;  /* under the caption in HTML: the one rule for the heat of all cells; NULL = none */
    const gyre_report_column *columns;
    int64_t columns_count;
    const gyre_report_cell *cells; /* row by row: cells[row * columns_count + column] */
    int64_t rows;
} gyre_report_table;
#define GYRE_REPORT_TABLE_INIT                                                                                              \
    { sizeof(gyre_report_table), NULL, NULL, NULL, NULL, 0, NULL, 0 }

/* Prints the table in aligned columns.  terminal: 1 = with ANSI bold (headings, best numbers) and dim.  Errors: EINVAL
 * (no columns, decimals or an enum out of range), ENOMEM, EIO (errno is that of the write; 0 = not known). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_report_table_print(const gyre_report_table *table, FILE *file, int terminal,
                                                             gyre_error *err);
/* The same in parts, for a table whose rows become known one by one.  print_head prints caption and column titles, and
 * fills in width[columns_count], the columns of the screen that each column takes: enough for the rows that the table has
 * at that time, which may hold samples.  print_rows prints the rows first .. end - 1, print_note the note.  A number is
 * bold if it is the best of the rows that the table has, so a caller that does not know them all asks for no emphasis.
 * Errors: as above; EINVAL (rows that the table does not have). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_report_table_print_head(const gyre_report_table *table, int64_t *width, FILE *file,
                                                                  int terminal, gyre_error *err);
/* width[columns_count] as print_head fills it in, and *row_width = the columns of the screen that a row takes. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_report_table_measure(const gyre_report_table *table, int64_t *width,
                                                               int64_t *row_width, gyre_error *err);
GYRE_API GYRE_MUST_CHECK gyre_status gyre_report_table_print_rows(const gyre_report_table *table, int64_t first, int64_t end,
                                                                  const int64_t *width, FILE *file, int terminal,
                                                                  gyre_error *err);
GYRE_API GYRE_MUST_CHECK gyre_status gyre_report_table_print_note(const gyre_report_table *table, FILE *file, int terminal,
                                                                  gyre_error *err);
/* *out = the table as an HTML <table>; gyre_report_free frees it.  Errors: EINVAL, ENOMEM. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_report_table_html(const gyre_report_table *table, char **out, gyre_error *err);

/* -- figures -- */
typedef enum gyre_report_scale {
    GYRE_REPORT_SCALE_LINEAR,
    GYRE_REPORT_SCALE_LOG2,
    GYRE_REPORT_SCALE_LOG10
} gyre_report_scale;
/* LOG2 has ticks at powers of two and prints 2048 as 2k.  LOG2 and LOG10 leave out values <= 0. */
typedef struct gyre_report_axis {
    const char *label; /* with its unit: "context (tokens)" */
    gyre_report_scale scale;
    double low, high; /* the range; low == high: that of the data */
} gyre_report_axis;

/* The colours that a series can have, GYRE_REPORT_PAINT_BLUE and so on. */
typedef enum gyre_report_paint {
    GYRE_REPORT_PAINT_AUTO,
#define GYRE_REPORT_PAINT(name, light, dark) GYRE_REPORT_PAINT_##name,
#include "report/report_palette.def"
#undef GYRE_REPORT_PAINT
    GYRE_REPORT_PAINTS /* one past the last */
} gyre_report_paint;

/* The symbols on the points of a series, GYRE_REPORT_MARK_CIRCLE and so on. */
typedef enum gyre_report_mark {
    GYRE_REPORT_MARK_AUTO,
#define GYRE_REPORT_MARK(name, filled, hollow, path) GYRE_REPORT_MARK_##name,
#include "report/report_marks.def"
#undef GYRE_REPORT_MARK
    GYRE_REPORT_MARKS /* one past the last */
} gyre_report_mark;

enum { GYRE_REPORT_DASHES = 7 };
/* How a series looks.  What is zero, but for `hollow`, follows from the series' position in the list. */
typedef struct gyre_report_look {
    gyre_report_paint color;
    gyre_report_mark mark;
    int hollow; /* 1: the symbol is an outline.  In a chart of points all are */
    int dash;   /* 1 (solid) .. GYRE_REPORT_DASHES */
} gyre_report_look;

/* A line through the points (x[i], y[i]).  NaN interrupts it.  An infinite y is drawn at the chart's clip; without a
 * clip it interrupts the line.  low, high: a band around the line, such as the spread over seeds; NULL = none. */
typedef struct gyre_report_series {
    const char *name;
    int64_t count;
    const double *x, *y;
    const double *low, *high;
    gyre_report_look look;
    /* On a page, a small picture for each panel shows its series in front of the others in grey.  NULL = no panels, or in
     * every panel if other series have one. */
    const char *panel;
} gyre_report_series;

/* A thin dashed line across the chart at x, or at y if horizontal is 1. */
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
    gyre_report_chart_style style; /* LINES also marks each value if a series has few */
    double clip;                   /* greater y is drawn at this height, its tick reads "≥ clip"; 0 = no clip */
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

/* out = a clip for a chart in which some lines rise so far above the others, to more than twice their middle height, that
 * they would press them together: somewhat above the highest of the others; 0 = no line does. */
GYRE_API double gyre_report_far_above(const gyre_report_series *series, int64_t count);

/* *out = the chart as one <svg> element with a viewBox and without a fixed size, in dark colours where the reader prefers
 * them; gyre_report_free frees it.  Series differ by colour, and by dash or by the shape of their points; the legend is on
 * the right, and panels are not divided.  All lines are equally wide.  A value is shown where the pointer rests.  Errors:
 * EINVAL (no series, nothing finite to draw, an empty or impossible range), ENOMEM, EIO. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_report_chart_svg(const gyre_report_chart *chart, char **out, gyre_error *err);
/* *out = the numbers of the chart as CSV (RFC 4180), exact: a line for each point, with the columns series, x, y, and low
 * and high if a series has them.  A number that is not finite is empty.  Errors: EINVAL, ENOMEM. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_report_chart_csv(const gyre_report_chart *chart, char **out, gyre_error *err);

/* A heat map of at least 2 x 2 cells: z[row * width + column].  Values that are not finite are grey. */
typedef struct gyre_report_heatmap {
    const char *name;
    int64_t width, height;
    const double *z;
} gyre_report_heatmap;

/* DIVERGING: blue, white, red, for values on both sides of a middle.  SEQUENTIAL: light to dark. */
typedef enum gyre_report_palette {
    GYRE_REPORT_PALETTE_DIVERGING,
    GYRE_REPORT_PALETTE_SEQUENTIAL,
    GYRE_REPORT_PALETTE_COSINE /* of an angle: light where nothing turned, dark at half a turn, grey between */
} gyre_report_palette;
typedef struct gyre_report_heatmap_grid {
    size_t size; /* set by GYRE_REPORT_HEATMAP_GRID_INIT */
    const char *title;
    gyre_report_axis x; /* LINEAR; low, high: values of the first and last column; equal = 0 .. width - 1 */
    gyre_report_axis y; /* LINEAR; low, high: values of the first (bottom) and last row; equal = 0 .. height - 1 */
    /* The value of each column and row, for values that are not evenly spaced: the ticks are these, one in the middle of a
     * cell, printed as %g with the unit; x and y are then labels alone.  All maps have the same size.  NULL = evenly
     * spaced. */
    const double *x_values, *y_values;
    const char *x_unit, *y_unit; /* of these ticks, such as "%"; NULL = none */
    double x_marker;             /* a dashed line across every map at this x, on an axis without x_values; 0 = none */
    gyre_report_axis z;          /* LINEAR; of the colours, shared by all maps; low == high: range of the data */
    gyre_report_palette palette;
    const gyre_report_heatmap *maps;
    int64_t maps_count;
    int64_t columns; /* maps per row; 0 = up to 3 */
} gyre_report_heatmap_grid;
/* clang-format off */
#define GYRE_REPORT_HEATMAP_GRID_INIT                                                                       \
    { sizeof(gyre_report_heatmap_grid), NULL,                                                               \
      {NULL, GYRE_REPORT_SCALE_LINEAR, 0, 0}, {NULL, GYRE_REPORT_SCALE_LINEAR, 0, 0},                        \
      NULL, NULL, NULL, NULL, 0,                                                                            \
      {NULL, GYRE_REPORT_SCALE_LINEAR, 0, 0}, GYRE_REPORT_PALETTE_DIVERGING, NULL, 0, 0 }
/* clang-format on */

/* *out = the maps in a grid with one colour scale, as SVG as of gyre_report_chart_svg.  A map of many cells shows every few
 * of its values where the pointer rests.  Errors: EINVAL (no maps, a map below 2 x 2 cells, nothing finite, a scale that is
 * not LINEAR, values for maps of several sizes), ENOMEM, EIO. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_report_heatmap_grid_svg(const gyre_report_heatmap_grid *panels, char **out,
                                                                  gyre_error *err);
/* *out = the numbers of the maps as CSV, exact, or to six digits for a map of more than 4096 cells: a line for each row of a
 * map, from the bottom, with the columns map, y and a column for each x, whose title is its value.  Errors: EINVAL,
 * ENOMEM. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_report_heatmap_grid_csv(const gyre_report_heatmap_grid *panels, char **out,
                                                                  gyre_error *err);

/* -- figures of another kind -- */
typedef enum gyre_report_format {
    GYRE_REPORT_FORMAT_SVG,
    GYRE_REPORT_FORMAT_PNG,
    GYRE_REPORT_FORMAT_PDF
} gyre_report_format;
/* A whole figure as a script of gnuplot, without the terminal, which follows from the format. */
typedef struct gyre_report_script {
    size_t size; /* set by GYRE_REPORT_SCRIPT_INIT */
    const char *title;
    const char *text;
    int width, height; /* pixels of 1/96 inch.  PNG has twice as many each way */
    gyre_report_format format;
} gyre_report_script;
#define GYRE_REPORT_SCRIPT_INIT                                                                                             \
    { sizeof(gyre_report_script), NULL, NULL, 0, 0, GYRE_REPORT_FORMAT_SVG }
/* out[0 .. *bytes - 1] = the picture that gnuplot draws, on a white ground; gyre_report_free frees it.  An SVG is one <svg>
 * element with a viewBox.  Errors: EINVAL (no text, width, height or format), ENOMEM, EIO (gnuplot is missing, lacks the
 * format, or refuses the script). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_report_script_draw(const gyre_report_script *script, char **out, size_t *bytes,
                                                             gyre_error *err);
/* out = the look of the series at a position in the list. */
GYRE_API gyre_report_look gyre_report_look_at(int64_t index);
/* What draws a look.  color, dash and path are static. */
typedef struct gyre_report_style {
    const char *color; /* on a light ground, #rrggbb */
    const char *dash;  /* "" = solid, else the lengths: "14,6" */
    int shape;         /* gnuplot's number of the symbol */
    int filled;        /* 1: its path is filled, and not only stroked */
    const char *path;  /* of the symbol in SVG, from -1 to 1 */
} gyre_report_style;
/* out = the style of a look that has no zeros but `hollow`. */
GYRE_API gyre_report_style gyre_report_look_style(gyre_report_look look);
/* out = a colour of the charts as #rrggbb, on a light or a dark ground; static.  A number past the last begins again. */
GYRE_API const char *gyre_report_color(int paint);
GYRE_API const char *gyre_report_dark_color(int paint);

/* -- angles -- */
/* out = the colour of an angle, 0xRRGGBB: lightness is the cosine, orange to blue the sine, so it is read in grey too.
 * resultant: the length of the mean of e^(i angle) over what a cell shows; towards 0 the colour is grey. */
GYRE_API int gyre_report_angle_color(double angle, double resultant);
/* out = the colour of an angle that is so many trained arcs past the arc that training showed: from yellow just past it to
 * red a whole arc past.  Its strength: 0 within the arc, 1 a whole arc past. */
GYRE_API int gyre_report_excess_color(double excess);
GYRE_API double gyre_report_excess_strength(double excess);

/* -- the page -- */
/* One HTML file that needs no network, with light and dark colours, suited to paper and small screens.
 *
 * The page grows in the order of the calls.  After the first error it ignores further calls.  gyre_report_page_html and
 * gyre_report_page_write return that error, so it is enough to check there. */
typedef struct gyre_report_page gyre_report_page;
typedef struct gyre_report_key_value {
    const char *name, *value;
} gyre_report_key_value;

/* *out = an empty page in English.  Errors: EINVAL (no title), ENOMEM. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_report_page_create(gyre_report_page **out, const char *title, gyre_error *err);
GYRE_API void gyre_report_page_free(gyre_report_page *page); /* NULL does nothing */

/* Adds a paragraph.  Text between `backquotes` is set as code.  Paragraphs before the first section are set off as the
 * introduction. */
GYRE_API gyre_status gyre_report_page_paragraph(gyre_report_page *page, const char *text);
/* Adds a heading, which is also listed at the top of the page. */
GYRE_API gyre_status gyre_report_page_section(gyre_report_page *page, const char *heading);
/* Adds names and values side by side: the few things to know at a glance. */
GYRE_API gyre_status gyre_report_page_key_values(gyre_report_page *page, const gyre_report_key_value *facts, int64_t count);
/* Adds lines in a fixed-width font; line ends are kept. */
GYRE_API gyre_status gyre_report_page_code(gyre_report_page *page, const char *text);
GYRE_API gyre_status gyre_report_page_table(gyre_report_page *page, const gyre_report_table *table);
/* Draws a figure and adds it with its title, a legend that wraps, its numbers as a CSV file to save, and its caption, a
 * paragraph.  NULL = no caption.  It is drawn for wide and for narrow screens, in light and in dark colours.  A chart whose
 * series have panels, or with more than 8 series, is a small picture for each panel; EINVAL for more than 64. */
GYRE_API gyre_status gyre_report_page_chart(gyre_report_page *page, const gyre_report_chart *chart, const char *caption);
GYRE_API gyre_status gyre_report_page_heatmap_grid(gyre_report_page *page, const gyre_report_heatmap_grid *panels,
                                                   const char *caption);
/* Folds what follows away behind the summary, until gyre_report_page_details_end.  EINVAL if nested. */
GYRE_API gyre_status gyre_report_page_details_begin(gyre_report_page *page, const char *summary);
GYRE_API gyre_status gyre_report_page_details_end(gyre_report_page *page);
/* Sets the foot of the page: command, version, date, hash of the text.  Replaces an earlier one. */
GYRE_API gyre_status gyre_report_page_footer(gyre_report_page *page, const gyre_report_key_value *facts, int64_t count);

/* *out = the page so far; gyre_report_free frees it.  Errors: the page's first; ENOMEM. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_report_page_html(const gyre_report_page *page, char **out, gyre_error *err);
/* Writes the page to a file, atomically.  A target that exists and is not a regular file (/dev/stdout) is written
 * directly.  Errors: the page's first; ENOMEM; EIO (a folder, no permission, no space). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_report_page_write(const gyre_report_page *page, const char *path, gyre_error *err);

#ifdef __cplusplus
}
#endif
#endif /* GYRE_REPORT_H */
