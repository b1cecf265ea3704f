/* report_inks.c: the colours of figures, light and dark, and how series differ. */
#include "report/report_internal.h"

static const char *const dashes[GYRE_REPORT_DASHES] = {"",        "14,6",        "4,5", "14,5,3,5", "22,5,3,5,3,5",
                                                       "8,3,8,8", "16,4,7,4,3,4"};
static const struct {
    int filled, hollow;
    const char *path;
} marks[] = {
#define GYRE_REPORT_MARK(name, filled, hollow, path) {filled, hollow, path},
#include "report/report_marks.def"
#undef GYRE_REPORT_MARK
};

/* Light inks, and their replacements on a dark ground.  The series keep their hues, lighter. */
static const struct {
    const char *light, *dark;
} inks[] = {
    {GYRE_REPORT_INK_GROUND, "#16181b"},  {GYRE_REPORT_INK_TEXT, "#e6e8ea"},  {GYRE_REPORT_INK_LABEL, "#c4c9ce"},
    {GYRE_REPORT_INK_QUIET, "#a0a6ad"},   {GYRE_REPORT_INK_FRAME, "#80868c"}, {GYRE_REPORT_INK_GRID, "#2b2f34"},
    {GYRE_REPORT_INK_OTHER, "#4d535a"},   {GYRE_REPORT_INK_SHADE, "#33302a"}, {GYRE_REPORT_INK_PART, "#2c4f70"},
    {GYRE_REPORT_INK_WARNING, "#ff9d66"},
#define GYRE_REPORT_PAINT(name, light, dark) {light, dark},
#include "report/report_palette.def"
#undef GYRE_REPORT_PAINT
};
enum { INKS = sizeof inks / sizeof *inks, PAINTS = GYRE_REPORT_PAINTS - 1, FIRST_PAINT = INKS - PAINTS };

gyre_report_look gyre_report_look_at(int64_t index) {
    const int64_t place = index + index / GYRE_REPORT_COLORS;
    return (gyre_report_look){(gyre_report_paint)(index % GYRE_REPORT_COLORS + 1),
                              (gyre_report_mark)(place % (GYRE_REPORT_MARKS - 1) + 1), 0,
                              (int)(place % GYRE_REPORT_DASHES) + 1};
}

gyre_report_style gyre_report_look_style(gyre_report_look look) {
    const int m = look.mark - 1, filled = marks[m].filled, hollow = marks[m].hollow;
    return (gyre_report_style){gyre_report_color(look.color), dashes[look.dash - 1], look.hollow ? hollow : filled,
                               !look.hollow && filled != hollow, marks[m].path};
}

static int ink_of(int paint) {
    return FIRST_PAINT + (paint > 0 ? (paint - 1) % PAINTS : 0);
}

const char *gyre_report_color(int paint) {
    return inks[ink_of(paint)].light;
}

const char *gyre_report_dark_color(int paint) {
    return inks[ink_of(paint)].dark;
}

/* gnuplot colours lines by stroke, areas and text by fill, and symbols by color, which their parts inherit. */
void gyre_report_put_dark_rules(gyre_report_buffer *out, const char *selector) {
    static const char *const properties[] = {"stroke", "fill", "color"};
    for (int i = 0; i < INKS; i++)
        for (size_t p = 0; p < sizeof properties / sizeof *properties; p++)
            gyre_report_printf(out, "%s[%s=\"%s\"]{%s:%s}", selector, properties[p], inks[i].light, properties[p],
                               inks[i].dark);
    /* Colours of maps keep their hue, and light and dark change places, so that the middle is the ground's. */
    gyre_report_printf(out, "%simage,%s.colorbox{filter:invert(.92) hue-rotate(180deg)}", selector, selector);
}
