/* fail.h: the one way to report an error. */
#ifndef GYRE_CORE_FAIL_H
#define GYRE_CORE_FAIL_H
#include "gyre/gyre.h"

/* err->text = the formatted "what: why (where)"; returns status.  err may be NULL. */
gyre_status gyre_fail(gyre_error *err, gyre_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));
#ifdef __clang_analyzer__ /* It does not see the definition, so tell it that gyre_fail returns its status. */
#define gyre_fail(err, status, ...) ((void)gyre_fail(err, status, __VA_ARGS__), (status))
#endif

#endif
