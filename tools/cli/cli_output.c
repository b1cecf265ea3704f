/* cli_output.c: the file of --output. */
#include "tools/cli/cli_output.h"
#include "tools/cli/cli_error.h"
#include "tools/cli/cli_json.h"
#include "tools/cli/plain_stream.h"
#include "util/atomic_file.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The open files, the one opened last on top.  Static, because the signal handler removes their temporaries. */
enum { MAX_OUTPUTS = 2 };
static gyre_atomic_file files[MAX_OUTPUTS];
static const cli_output *outputs[MAX_OUTPUTS];
static int files_open;

void cli_output_remove_in_handler(void) {
    for (int i = 0; i < MAX_OUTPUTS; i++)
        if (files[i].has_temporary) (void)unlink(files[i].temporary);
}

/* -- standard output -- */
static FILE *standard;

FILE *cli_stdout(void) {
    if (!standard) standard = plain_stream_open(STDOUT_FILENO);
    if (!standard) exit(cli_fail("standard output: %s (gyre)", strerror(errno)));
    return standard;
}

static int flush(FILE *stream) {
    errno = 0;
    if (fflush(stream) == 0 && !ferror(stream)) return 0;
    return errno ? errno : EIO;
}

int cli_stdout_close(int status) {
    const int flushed = flush(stdout), closed = standard ? plain_stream_close(standard) : 0;
    const int code = closed ? closed : flushed;
    standard = NULL;
    return code && !status ? cli_fail("standard output: %s (writing the result)", strerror(code)) : status;
}

/* -- results -- */
void cli_output_forget(void) {
    while (files_open > 0)
        gyre_atomic_discard(&files[--files_open]);
}

const char *cli_output_name(const FILE *stream) {
    for (int i = 0; i < files_open; i++)
        if (outputs[i]->file == stream) return outputs[i]->path;
    return stream == stdout || (stream && stream == standard) ? "standard output" : NULL;
}

static int open_output(cli_output *output, const char *path, int raw) {
    *output = (cli_output){NULL, NULL, 0};
    if (cli_is_silent()) path = NULL; /* another process writes it */
    gyre_atomic_file *file = path ? &files[files_open] : NULL;
    int code = !path ? 0 : files_open < MAX_OUTPUTS ? gyre_atomic_open(file, path) : EMFILE;
    if (code) return cli_fail("%s: %s (--output)", path, strerror(code));
    const int fd = file ? file->fd : STDOUT_FILENO;
    output->path = path;
    output->raw = raw && !isatty(fd);
    if (output->raw)
        output->file = file ? gyre_atomic_stream(file) : stdout;
    else
        output->file = file ? plain_stream_open(fd) : cli_stdout();
    if (output->file) {
        if (raw && !output->raw) plain_stream_drop_colors(output->file);
        if (file) outputs[files_open++] = output;
        return 0;
    }
    code = errno;
    if (file) gyre_atomic_discard(file);
    return cli_fail("%s: %s (--output)", path ? path : "standard output", strerror(code));
}

int cli_output_open(cli_output *output, const char *path) {
    return open_output(output, path, 0);
}

int cli_output_open_raw(cli_output *output, const char *path) {
    return open_output(output, path, 1);
}

int cli_output_close(cli_output *output, int status) {
    status = cli_json_check(status);
    const char *path = output->path;
    gyre_atomic_file *file = path ? &files[--files_open] : NULL;
    int code = !file ? flush(output->file) : output->raw ? 0 : plain_stream_close(output->file);
    *output = (cli_output){NULL, NULL, 0};
    if (file && (status || code)) gyre_atomic_discard(file);
    if (status) return status; /* the command has reported it */
    if (!code && file) code = gyre_atomic_commit(file);
    return code ? cli_fail("%s: %s (writing the result)", path ? path : "standard output", strerror(code)) : 0;
}
