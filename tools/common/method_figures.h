/* method_figures.h: draws maps of methods on a page of a report. */
#ifndef GYRE_TOOLS_METHOD_FIGURES_H
#define GYRE_TOOLS_METHOD_FIGURES_H
#include "report/report.h"
#include "tools/common/method_map.h"

/* The words of the figures, and the lengths that they mark. */
typedef struct method_figures {
    const method_map *maps; /* [count] of the same size */
    int64_t count;
    int64_t trained, target; /* target: the length that the methods extend to */
    const char *unit;        /* of positions: "tokens" */
} method_figures;

/* Adds a heat map of cos(angle) for each map, and a chart of the wavelengths of their pairs.  The page keeps the first
 * error. */
void method_figures_add(const method_figures *f, gyre_report_page *page);

#endif
