/* report_css.h: the style sheet of the page. */
#ifndef GYRE_REPORT_CSS_H
#define GYRE_REPORT_CSS_H

extern const char gyre_report_css[];

#endif
