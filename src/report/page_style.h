/* page_style.h: how the page looks. */
#ifndef GYRE_REPORT_PAGE_STYLE_H
#define GYRE_REPORT_PAGE_STYLE_H

extern const char gyre_page_style[];

#endif
