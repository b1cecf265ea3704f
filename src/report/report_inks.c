/* report_inks.c: the colours of figures, light and dark, and how series differ. */
#include "report/report_internal.h"

const char *const gyre_report_dashes[GYRE_REPORT_DASHES] = {"", "14,6", "4,5", "14,5,3,5", "22,5,3,5,3,5"};

enum { SHAPES = 8 };
/* gnuplot's circle, square, triangle and diamond, then the hollow ones and the falling triangle. */
static const int shapes[SHAPES] = {7, 5, 9, 13, 6, 4, 8, 11};
/* Hollow or thin shapes only: points without lines may coincide, and both must show. */
static const int open_shapes[SHAPES] = {6, 4, 8, 2, 12, 1, 10, 14};

/* Light inks, and what stands for them on a dark ground.  The hues of the series stay, lighter. */
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

gyre_report_style gyre_report_style_at(int64_t index, int points) {
    const int64_t round = index / GYRE_REPORT_COLORS, shape = (index + round) % SHAPES;
    return (gyre_report_style){gyre_report_color((int)(index % GYRE_REPORT_COLORS) + 1),
                               gyre_report_dashes[(index + round) % GYRE_REPORT_DASHES],
                               points ? open_shapes[shape] : shapes[shape]};
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
