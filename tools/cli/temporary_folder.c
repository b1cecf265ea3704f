/* temporary_folder.c: mkdtemp with an error message. */
#define _XOPEN_SOURCE 700 // NOLINT(bugprone-reserved-identifier): for mkdtemp; POSIX defines this name
#include "tools/cli/temporary_folder.h"
#include "tools/cli/cli_error.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

gyre_status temporary_folder_create(const char *command, char *folder, size_t size, gyre_error *err) {
    const char *set = getenv("TMPDIR"), *base = set && *set ? set : "/tmp";
    const int length = snprintf(folder, size, "%s/gyre-%s-XXXXXX", base, command);
    gyre_status status = GYRE_OK;
    if (length < 0 || (size_t)length >= size)
        status = gyre_fail(err, GYRE_EIO, "TMPDIR: the path is too long (%s)", command);
    else if (!mkdtemp(folder))
        status =
            gyre_fail(err, GYRE_EIO, "%s: no temporary folder can be made there: %s (%s)", base, strerror(errno), command);
    if (status) folder[0] = 0;
    return status;
}
