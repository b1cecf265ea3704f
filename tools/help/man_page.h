/* man_page.h: man pages in roff, printed on stdout, from the table that --help prints. */
#ifndef GYRE_TOOLS_MAN_PAGE_H
#define GYRE_TOOLS_MAN_PAGE_H
#include "tools/cli/cli_parse.h"

/* -- a page, part by part -- */
/* title: "gyre eval", in file gyre-eval.1. */
void man_page_begin(const char *title, const char *summary);
void man_page_section(const char *name);
void man_page_usage(const char *title, const char *arguments);
void man_page_item(const char *name, const char *text);
/* Exit statuses, environment, an example (NULL: none) and the heading of what to see also. */
void man_page_end(const char *exit_statuses, const char *example);
void man_page_see(const char *title, int is_last);

/* -- a whole page of a subcommand -- */
void man_page_of_command(const cli_description *command, const char *summary, const char *exit_statuses);

#endif
