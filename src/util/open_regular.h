/* open_regular.h: opens a file of a folder, where a pipe would be waited for. */
#ifndef GYRE_UTIL_OPEN_REGULAR_H
#define GYRE_UTIL_OPEN_REGULAR_H
#include <stdio.h>

/* out = a stream that reads the regular file at `path`, byte for byte; NULL and errno on failure: EISDIR for a folder,
 * EINVAL for a pipe, a socket or a device, which are not waited for. */
FILE *gyre_open_regular(const char *path);

#endif
