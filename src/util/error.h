/* error.h: how every function of Gyre reports a failure. */
#ifndef GYRE_UTIL_ERROR_H
#define GYRE_UTIL_ERROR_H
#include "gyre/gyre.h"

/* err->text = the formatted message, which reads "what: why (where)"; err->offset = 0.  Returns status.  err may be NULL. */
gyre_status gyre_fail(gyre_error *err, gyre_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));
#ifdef __clang_analyzer__ /* The analyzer does not read error.c.  The macro states that gyre_fail returns its status. */
#define gyre_fail(err, status, ...) ((void)gyre_fail(err, status, __VA_ARGS__), (status))
#endif
/* out = GYRE_ENOMEM for an errno of that name, else GYRE_EIO: a call on a file that found no memory. */
gyre_status gyre_status_of_errno(int code);
/* "PATH: what strerror says of `code`"; returns gyre_status_of_errno(code). */
gyre_status gyre_fail_errno(gyre_error *err, const char *path, int code);
#ifdef __clang_analyzer__
#define gyre_fail_errno(err, path, code) ((void)gyre_fail_errno(err, path, code), GYRE_EIO)
#endif

#endif
