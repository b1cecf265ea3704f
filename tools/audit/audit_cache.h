/* audit_cache.h: gyre audit --cache: a table of angles that a program keeps, against a config. */
#ifndef GYRE_TOOLS_AUDIT_CACHE_H
#define GYRE_TOOLS_AUDIT_CACHE_H
#include "gyre/gyre_reading.h"
#include "tools/cli/cli_parse.h"

typedef struct audit_cache_request {
    const char *file, *model; /* --cache, MODEL */
    gyre_profile profile;     /* --as; DEFAULT = every profile */
    int64_t length;           /* --length; 0 = none */
} audit_cache_request;
/* Prints what each table of the file is.  out = 0 if each is that of a profile, 3 if one is not, or CLI_FAILED with the
 * error printed. */
int audit_cache(const audit_cache_request *request, const cli_options *options);

#endif
