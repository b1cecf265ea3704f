/* report_css.h: how the page looks. */
#ifndef GYRE_REPORT_CSS_H
#define GYRE_REPORT_CSS_H

extern const char gyre_report_css[];

#endif
