/* report_internal.h: shared by the files of the report: growing text, escaping, gnuplot, axes. */
#ifndef GYRE_REPORT_INTERNAL_H
#define GYRE_REPORT_INTERNAL_H
#include "report/report.h"
#include "util/error.h"

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

/* -- figures -- */
/* *out = the <svg> element that gnuplot makes of the script, with `title` as its title.  Terminal and encoding are set
 * before the script runs. */
typedef struct gyre_report_canvas {
    const char *title;
    int width, height;
} gyre_report_canvas;
gyre_status gyre_report_gnuplot(const gyre_report_canvas *canvas, const gyre_report_buffer *script, char **out,
                                gyre_error *err);

/* The range of the numbers on an axis. */
typedef struct gyre_report_range {
    double low, high; /* low > high: empty */
} gyre_report_range;
#define GYRE_REPORT_RANGE_EMPTY                                                                                             \
    { 1, 0 }
void gyre_report_range_add(gyre_report_range *data_range, double value);
/* Appends range, scale, ticks and label of axis `letter` to the script.  clip: its tick reads "≥ clip"; 0 = none. */
void gyre_report_put_axis(gyre_report_buffer *script, char letter, const gyre_report_axis *axis,
                          gyre_report_range data_range, double clip);
/* EINVAL for an impossible range or scale. */
gyre_status gyre_report_axis_check(const gyre_report_axis *axis, const char *name, gyre_error *err);
int gyre_report_axis_can_show(const gyre_report_axis *axis, double value); /* finite, and above 0 on a logarithmic scale */

#endif
