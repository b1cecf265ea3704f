/* link_end.h: where a chain of symbolic links ends. */
#ifndef GYRE_UTIL_LINK_END_H
#define GYRE_UTIL_LINK_END_H
#include "util/path.h"

/* out = where the link at `path` leads, one step.  Returns 0, or the errno value of reading it: EINVAL if it is no link,
 * ENAMETOOLONG.  out: another array than path. */
int gyre_link_step(const char *path, char out[PATH_MAX]);
/* out = the name that is made when `path` is opened for writing: that behind its links, whether or not a file is there; path
 * itself if it is no link.  Returns 0, or the errno value of looking at a link, ELOOP or ENAMETOOLONG among them. */
int gyre_link_end(const char *path, char out[PATH_MAX]);

#endif
