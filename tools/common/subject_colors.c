/* subject_colors.c: looks up subject_colors.def. */
#include "tools/common/subject_colors.h"
#include <string.h>

static const struct {
    const char *name;
    gyre_report_paint color;
} subjects[] = {
#define SUBJECT_COLOR(name, paint) {name, GYRE_REPORT_PAINT_##paint},
#include "tools/common/subject_colors.def"
#undef SUBJECT_COLOR
};

static gyre_report_paint color_of(const char *label, size_t length) {
    for (size_t i = 0; i < sizeof subjects / sizeof *subjects; i++)
        if (strlen(subjects[i].name) == length && strncmp(subjects[i].name, label, length) == 0) return subjects[i].color;
    return GYRE_REPORT_PAINT_AUTO;
}

gyre_report_paint subject_color(const char *label) {
    const gyre_report_paint whole = color_of(label, strcspn(label, ":,"));
    return whole ? whole : color_of(label, strcspn(label, ":+,"));
}
