/* link_end.h: where a chain of symbolic links ends. */
#ifndef GYRE_UTIL_LINK_END_H
#define GYRE_UTIL_LINK_END_H
#include "util/path.h"

/* out = the name that is made when `path` is opened for writing: that behind its links, whether or not a file is there; path
 * itself if it is no link.  Returns 0, or the errno value of looking at a link, ELOOP or ENAMETOOLONG among them. */
int gyre_link_end(const char *path, char out[PATH_MAX]);

#endif
