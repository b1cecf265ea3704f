/* path.h: PATH_MAX, which POSIX allows limits.h to leave out. */
#ifndef GYRE_UTIL_PATH_H
#define GYRE_UTIL_PATH_H
#include <limits.h>

#ifndef PATH_MAX
#define PATH_MAX 4096
#endif

#endif
