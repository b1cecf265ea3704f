/* fuzz_gnuplot.c: an empty picture in the place of gnuplot's: no program is started for each figure of each input. */
#include "fuzz_support.h"
#include "report/report_internal.h"

#include <string.h>

gyre_status __wrap_gyre_report_gnuplot(gyre_report_plotter *plotter, const gyre_report_canvas *canvas,
                                       const gyre_report_buffer *script, char **out, gyre_error *err);
gyre_status __wrap_gyre_report_script_draw(const gyre_report_script *script, char **out, size_t *bytes, gyre_error *err);

static const char empty[] = "<svg></svg>";

/* The linker sends the calls here (--wrap). */
gyre_status __wrap_gyre_report_gnuplot(gyre_report_plotter *plotter, const gyre_report_canvas *canvas,
                                       const gyre_report_buffer *script, char **out, gyre_error *err) {
    (void)plotter, (void)canvas, (void)err;
    fuzz_require(script->failed || memchr(script->text, 0, script->length + 1) == script->text + script->length,
                 "a script without NUL");
    *out = fuzz_room(sizeof empty, 1);
    memcpy(*out, empty, sizeof empty);
    return GYRE_OK;
}

/* Of gyre plot, which writes its scripts itself. */
gyre_status __wrap_gyre_report_script_draw(const gyre_report_script *script, char **out, size_t *bytes, gyre_error *err) {
    (void)err;
    fuzz_require(script->text && *script->text, "a script");
    *out = fuzz_room(sizeof empty, 1);
    memcpy(*out, empty, sizeof empty);
    *bytes = sizeof empty - 1;
    return GYRE_OK;
}
