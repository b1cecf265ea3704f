/* cli_output.c: the file of --output, written whole or not at all. */
/* For realpath. */
#define _XOPEN_SOURCE 700 // NOLINT(bugprone-reserved-identifier): POSIX defines this name
#include "tools/cli/cli_output.h"
#include "tools/cli/cli_error.h"
#include "tools/cli/cli_signals.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Announces the name before the file exists, so that a signal at any moment removes it.  A name that is taken is given up
 * before the next one is tried. */
static int make_temporary(cli_output *output, size_t bytes) {
    enum { ATTEMPTS = 100 };
    struct timespec now = {0, 0};
    (void)clock_gettime(CLOCK_REALTIME, &now);
    unsigned draw = (unsigned)getpid() * 2654435761u ^ (unsigned)now.tv_nsec;
    for (int i = 0; i < ATTEMPTS; i++, draw = draw * 1664525u + 1013904223u) {
        snprintf(output->temporary, bytes, "%s.%06x", output->path, draw >> 8);
        if (access(output->temporary, F_OK) == 0) continue;
        cli_set_pending_file(output->temporary);
        const int file = open(output->temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (file < 0) cli_set_pending_file(NULL);
        if (file >= 0 || errno != EEXIST) return file;
    }
    return -1;
}

static int open_temporary(cli_output *output) {
    const size_t bytes = strlen(output->path) + sizeof ".XXXXXX";
    output->temporary = malloc(bytes);
    if (!output->temporary || bytes > PATH_MAX) return errno = ENAMETOOLONG, CLI_FAILED;
    const int file = make_temporary(output, bytes);
    if (file < 0) return CLI_FAILED;
    output->file = fdopen(file, "w");
    return output->file ? 0 : CLI_FAILED;
}

static void release_output(cli_output *output) {
    cli_set_pending_file(NULL);
    free(output->path);
    free(output->temporary);
    *output = (cli_output){0};
}

int cli_output_open(cli_output *output, const char *path) {
    *output = (cli_output){.file = stdout};
    if (!path) return 0;
    struct stat known;
    const int exists = stat(path, &known) == 0;
    /* Follows a link: the rename must replace the file that it points to and not the link. */
    output->path = exists ? realpath(path, NULL) : strdup(path);
    output->file = NULL;
    if (!output->path || (exists && S_ISDIR(known.st_mode))) {
        if (output->path) errno = EISDIR;
    } else if (exists && !S_ISREG(known.st_mode)) {
        output->file = fopen(output->path, "w");
    } else {
        (void)open_temporary(output);
    }
    if (output->file) return 0;
    const int reason = errno;
    if (cli_pending_file()) (void)unlink(cli_pending_file());
    release_output(output);
    return cli_fail("%s: %s (--output)", path, strerror(reason));
}

/* out = 0 if everything was written and the file has its name. */
static int finish_file(const cli_output *output) {
    int bad = fflush(output->file) || ferror(output->file);
    if (!output->path) return bad;
    if (output->temporary) bad = bad || fsync(fileno(output->file));
    bad = fclose(output->file) || bad;
    return bad || (output->temporary && rename(output->temporary, output->path));
}

int cli_output_close(cli_output *output, int status) {
    if (status) { /* reported before */
        if (output->path) (void)fclose(output->file);
    } else {
        errno = 0;
        if (finish_file(output))
            status = cli_fail("%s: %s (writing the result)", output->path ? output->path : "standard output",
                              strerror(errno ? errno : EIO));
    }
    if (status && output->temporary) (void)unlink(output->temporary);
    release_output(output);
    return status;
}
