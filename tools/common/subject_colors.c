/* subject_colors.c: looks up subject_colors.def. */
#include "tools/common/subject_colors.h"
#include <string.h>

typedef struct subject {
    const char *name;
    gyre_report_paint color;
    int is_encoding;
} subject;
static const subject subjects[] = {
#define METHOD_COLOR(name, paint) {name, GYRE_REPORT_PAINT_##paint, 0},
#define ENCODING_COLOR(name, paint) {name, GYRE_REPORT_PAINT_##paint, 1},
#include "tools/common/subject_colors.def"
#undef METHOD_COLOR
#undef ENCODING_COLOR
};

static const subject *find_name(const char *label, size_t length) {
    for (size_t i = 0; i < sizeof subjects / sizeof *subjects; i++)
        if (strlen(subjects[i].name) == length && strncmp(subjects[i].name, label, length) == 0) return &subjects[i];
    return NULL;
}

static const subject *find(const char *label) {
    const subject *whole = find_name(label, strcspn(label, ":,"));
    return whole ? whole : find_name(label, strcspn(label, ":+,"));
}

gyre_report_paint subject_color(const char *label) {
    const subject *found = find(label);
    return found ? found->color : GYRE_REPORT_PAINT_AUTO;
}

int subject_is_encoding(const char *label) {
    const subject *found = find(label);
    return found && found->is_encoding;
}
