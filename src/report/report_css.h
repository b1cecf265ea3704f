/* report_css.h: the style sheet of the page, in parts; the last is NULL. */
#ifndef GYRE_REPORT_CSS_H
#define GYRE_REPORT_CSS_H

extern const char *const gyre_report_css[];

#endif
