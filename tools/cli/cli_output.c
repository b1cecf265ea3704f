/* cli_output.c: the file of --output. */
#include "tools/cli/cli_output.h"
#include "tools/cli/cli_error.h"
#include "util/atomic_file.h"
#include <errno.h>
#include <string.h>
#include <unistd.h>

/* The open files, the one opened last on top.  Static, because the signal handler removes their temporaries. */
enum { MAX_OUTPUTS = 2 };
static gyre_atomic_file files[MAX_OUTPUTS];
static int files_open;

void cli_output_remove_in_handler(void) {
    for (int i = 0; i < MAX_OUTPUTS; i++)
        if (files[i].has_temporary) (void)unlink(files[i].temporary);
}

int cli_output_open(cli_output *output, const char *path) {
    *output = (cli_output){stdout, NULL};
    if (!path) return 0;
    gyre_atomic_file *file = &files[files_open];
    int code = files_open < MAX_OUTPUTS ? gyre_atomic_open(file, path) : EMFILE;
    if (!code && !gyre_atomic_stream(file)) {
        code = errno;
        gyre_atomic_discard(file);
    }
    if (code) return cli_fail("%s: %s (--output)", path, strerror(code));
    files_open++;
    *output = (cli_output){file->stream, path};
    return 0;
}

static int flush_stdout(void) {
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout)) return 0;
    return errno ? errno : EIO;
}

int cli_output_close(cli_output *output, int status) {
    const char *path = output->path;
    gyre_atomic_file *file = path ? &files[--files_open] : NULL;
    *output = (cli_output){NULL, NULL};
    if (status) { /* the command has reported it */
        if (file) gyre_atomic_discard(file);
        return status;
    }
    const int code = file ? gyre_atomic_commit(file) : flush_stdout();
    return code ? cli_fail("%s: %s (writing the result)", path ? path : "standard output", strerror(code)) : 0;
}
