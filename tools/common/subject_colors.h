/* subject_colors.h: the one colour of each method and encoding. */
#ifndef GYRE_TOOLS_SUBJECT_COLORS_H
#define GYRE_TOOLS_SUBJECT_COLORS_H
#include "report/report.h"

/* out = the colour of the method or encoding that a label names or begins with ("rope+yarn", "ntk:4", "yarn, causal"); AUTO
 * for another label. */
gyre_report_paint subject_color(const char *label);
/* out = 1 if it names an encoding; 0: a method, or neither. */
int subject_is_encoding(const char *label);

#endif
