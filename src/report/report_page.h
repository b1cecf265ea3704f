/* report_page.h: a page under construction, for the files that add to it. */
#ifndef GYRE_REPORT_PAGE_H
#define GYRE_REPORT_PAGE_H
#include "report/report_internal.h"

struct gyre_report_page {
    gyre_report_buffer title, contents, body, footer;
    int64_t sections, figures;
    gyre_report_plotter plotter;
    int in_section, in_details;
    gyre_status status; /* the first that is not OK, with its text */
    gyre_error error;
};

/* Called after every addition: memory may have run out.  out = the page's first error. */
gyre_status gyre_report_page_check(gyre_report_page *page);

#endif
