/* gnuplot.c: draws figures with the program gnuplot.  It reads a script from a pipe and writes the picture to another;
 * nothing touches the disk.  One gnuplot draws all figures of a page, script by script, because its start takes longer
 * than most pictures.  report_svg.c edits its SVG. */
#include "report/report_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* A script being sent, and the output so far. */
typedef struct gnuplot_io {
    const char *script;
    size_t remaining;
    gyre_report_format format;
    int stays;                               /* 1: gnuplot waits for another script after this one */
    gyre_report_buffer output, error_output; /* standard output and standard error */
} gnuplot_io;

/* What gnuplot prints after a picture where it stays.  No text of a picture holds it, because SVG escapes "<". */
static const char END_MARK[] = "<!-- end of picture -->\n";

static gyre_status system_failed(gyre_error *err, int code) {
    return gyre_fail(err, GYRE_EIO, "gnuplot: %s (figure)", strerror(code));
}

/* -- channels -- */
/* Moves a descriptor above the three standard ones, on which the child's copies will be.  Any exec closes it. */
static int dup_above_stdio(int fd) {
    const int moved = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    const int code = errno;
    close(fd);
    errno = code;
    return moved;
}

static int open_pipe(int ends[2]) {
    int raw[2];
    if (pipe(raw)) return -1;
    ends[0] = dup_above_stdio(raw[0]);
    ends[1] = dup_above_stdio(raw[1]);
    return ends[0] < 0 || ends[1] < 0 ? -1 : 0;
}

static void close_all(int fds[], int count) {
    for (int i = 0; i < count; i++) {
        if (fds[i] >= 0) close(fds[i]);
        fds[i] = -1;
    }
}

/* ends[0 .. 2]: the child's standard files. */
static int spawn_child(pid_t *child, const int ends[3], posix_spawn_file_actions_t *actions) {
    /* -d ignores the user's settings, so that every machine draws the same.  gnuplot reads its standard input a byte at a
     * time, and a file that it opens in blocks; and it ends at an error in a file. */
    char name[] = "gnuplot", defaults[] = "-d", script[] = "/dev/stdin";
    char *argv[] = {name, defaults, script, NULL};
    int code = 0;
    for (int i = 0; i < 3 && !code; i++)
        code = posix_spawn_file_actions_adddup2(actions, ends[i], i);
    return code ? code : posix_spawnp(child, name, actions, NULL, argv, environ);
}

static gyre_status spawn(gyre_report_plotter *plotter, const int ends[3], gyre_error *err) {
    posix_spawn_file_actions_t actions;
    int code = posix_spawn_file_actions_init(&actions);
    if (code) return system_failed(err, code);
    pid_t child = 0;
    code = spawn_child(&child, ends, &actions);
    posix_spawn_file_actions_destroy(&actions);
    if (code == ENOENT) return gyre_fail(err, GYRE_EIO, "gnuplot: not found in PATH (scripts/install-deps installs it)");
    if (code) return system_failed(err, code);
    plotter->child = child;
    return GYRE_OK;
}

static gyre_status start(gyre_report_plotter *plotter, gyre_error *err) {
    int script[2] = {-1, -1}, output[2] = {-1, -1}, errors[2] = {-1, -1};
    const int opened =
        !open_pipe(script) && !open_pipe(output) && !open_pipe(errors) && fcntl(script[1], F_SETFL, O_NONBLOCK) != -1;
    const int ends[3] = {script[0], output[1], errors[1]};
    const gyre_status status = opened ? spawn(plotter, ends, err) : system_failed(err, errno);
    const int ours[4] = {script[1], output[0], errors[0], script[0]};
    memcpy(plotter->fds, ours, sizeof ours);
    close_all(output + 1, 1);
    close_all(errors + 1, 1);
    if (status) close_all(plotter->fds, 4);
    return status;
}

/* Waits for the end of gnuplot, which the end of its script brings about.  *status is its exit status; out = errno. */
static int end_child(gyre_report_plotter *plotter, int *status) {
    int code = 0;
    close_all(plotter->fds, 4);
    while (waitpid(plotter->child, status, 0) < 0 && (code = errno) == EINTR)
        code = 0;
    plotter->child = 0;
    return code;
}

void gyre_report_plotter_end(gyre_report_plotter *plotter) {
    int status = 0;
    if (plotter->child) (void)end_child(plotter, &status); /* the pictures were whole */
}

/* -- exchanging data -- */
/* Our copy of the other end stays open: if gnuplot has ended, the pipe still has a reader, so there is no SIGPIPE. */
static void send_script(gnuplot_io *c, int fd) {
    const ssize_t sent = write(fd, c->script, c->remaining);
    if (sent > 0) {
        c->script += sent;
        c->remaining -= (size_t)sent;
    } else if (sent < 0 && errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK) {
        c->remaining = 0; /* what gnuplot makes of half a script says why */
        c->stays = 0;     /* it would wait for the other half */
    }
}

/* out = 0 at the end of the stream. */
static int receive(gyre_report_buffer *buffer, int fd) {
    char chunk[16384];
    const ssize_t got = read(fd, chunk, sizeof chunk);
    if (got > 0) gyre_report_put_bytes(buffer, chunk, (size_t)got);
    return got > 0 || (got < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK));
}

/* Takes the mark off the output.  out = 1 if it was there. */
static int take_end_mark(gyre_report_buffer *output) {
    const size_t size = sizeof END_MARK - 1;
    if (output->length < size || memcmp(output->text + output->length - size, END_MARK, size) != 0) return 0;
    output->length -= size;
    output->text[output->length] = '\0';
    return 1;
}

/* An end from which nothing more is read is closed, or gnuplot would wait until somebody reads.  out = -1. */
static int close_end(gnuplot_io *c, int *fd) {
    close_all(fd, 1);
    c->stays = 0;
    return -1;
}

/* Reads while it writes.  If each side waited for the other to read, both would hang.  out = 1 at the mark, 0 where gnuplot
 * has closed its ends. */
static int exchange(gnuplot_io *c, int fds[4]) {
    struct pollfd ends[3] = {{fds[0], POLLOUT, 0}, {fds[1], POLLIN, 0}, {fds[2], POLLIN, 0}};
    while (ends[1].fd >= 0 || ends[2].fd >= 0) {
        if (!c->remaining) ends[0].fd = -1;
        if (!c->remaining && !c->stays) close_all(fds, 1);
        if (poll(ends, 3, -1) < 0 && errno != EINTR && errno != EAGAIN) break;
        if (c->remaining && ends[0].revents) send_script(c, fds[0]);
        if (ends[2].fd >= 0 && ends[2].revents && !receive(&c->error_output, fds[2])) ends[2].fd = close_end(c, fds + 2);
        if (ends[1].fd >= 0 && ends[1].revents && !receive(&c->output, fds[1])) ends[1].fd = close_end(c, fds + 1);
        if (c->output.failed) break;
        if (c->stays && take_end_mark(&c->output)) return 1;
    }
    return 0;
}

/* out = the last line that is not empty: gnuplot shows the position of an error first. */
static void last_error_line(gyre_report_buffer *error_output, char out[200]) {
    const char *text = error_output->text ? error_output->text : "";
    size_t end = strlen(text);
    while (end && strchr(" \t\n", text[end - 1]))
        end--;
    size_t begin = end;
    while (begin && text[begin - 1] != '\n')
        begin--;
    while (begin < end && strchr(" \t", text[begin]))
        begin++;
    gyre_report_buffer line = {NULL, 0, 0, 0};
    gyre_report_put_bytes(&line, text + begin, end - begin);
    gyre_report_buffer clean = {NULL, 0, 0, 0};
    gyre_report_put_sanitized(&clean, line.text);
    snprintf(out, 200, "%s", clean.text && clean.length ? clean.text : "it says nothing");
    gyre_report_buffer_free(&line);
    gyre_report_buffer_free(&clean);
}

/* The beginning of a whole picture, and a mark near its end. */
static const struct {
    const char *name, *begins;
    size_t begins_size;
    const char *ends;
} formats[] = {{"SVG", "<?xml", 5, "</svg>"}, {"PNG", "\x89PNG", 4, "IEND"}, {"PDF", "%PDF", 4, "%%EOF"}};
enum { FORMATS = sizeof formats / sizeof *formats, END_SIZE = 64 };

static int is_whole(const gyre_report_buffer *output, gyre_report_format format) {
    const size_t size = formats[format].begins_size, end = strlen(formats[format].ends);
    if (!output->text || output->length < size || memcmp(output->text, formats[format].begins, size) != 0) return 0;
    for (size_t at = output->length > END_SIZE ? output->length - END_SIZE : 0; at + end <= output->length; at++)
        if (memcmp(output->text + at, formats[format].ends, end) == 0) return 1;
    return 0;
}

static gyre_status check_result(gnuplot_io *c, int status, int code, gyre_error *err) {
    if (c->output.failed) return gyre_fail(err, GYRE_ENOMEM, "gnuplot: no memory for its output (figure)");
    char error_output[200];
    last_error_line(&c->error_output, error_output);
    /* ECHILD: the caller's process reaps all children.  Whether the picture is complete is checked in any case. */
    if (code && code != ECHILD) return system_failed(err, code);
    if (!code && WIFSIGNALED(status))
        return gyre_fail(err, GYRE_EIO, "gnuplot: killed by signal %d: %s (figure)", WTERMSIG(status), error_output);
    if (!code && WEXITSTATUS(status))
        return gyre_fail(err, GYRE_EIO, "gnuplot: exit status %d: %s (figure)", WEXITSTATUS(status), error_output);
    if (!is_whole(&c->output, c->format))
        return gyre_fail(err, GYRE_EIO, "gnuplot: did not draw a whole %s: %s (figure)", formats[c->format].name,
                         error_output);
    return GYRE_OK;
}

static gyre_status run(gyre_report_plotter *plotter, gnuplot_io *c, gyre_error *err) {
    int status = 0, code = 0;
    const gyre_status started = plotter->child ? GYRE_OK : start(plotter, err);
    if (started) return started;
    if (!exchange(c, plotter->fds)) code = end_child(plotter, &status);
    return check_result(c, status, code, err);
}

/* -- a figure -- */
static void put_terminal(gyre_report_buffer *script, gyre_report_format format, int width, int height) {
    gyre_report_put(script, "set encoding utf8\n");
    /* Sizes of fonts are pixels in SVG, and points of 1/72 inch in the others. */
    if (format == GYRE_REPORT_FORMAT_SVG)
        gyre_report_printf(
            script, "set terminal svg size %d,%d dynamic noenhanced rounded font 'sans-serif,13' background '#ffffff'\n",
            width, height);
    else if (format == GYRE_REPORT_FORMAT_PNG) /* at twice the size, for paper and screens of many pixels */
        gyre_report_printf(script,
                           "set terminal pngcairo size %d,%d noenhanced rounded font 'sans-serif,13' fontscale 1.5 "
                           "linewidth 2 pointscale 2 background '#ffffff'\n",
                           2 * width, 2 * height);
    else
        gyre_report_printf(script,
                           "set terminal pdfcairo size %.4fin,%.4fin noenhanced rounded font 'sans-serif,13' "
                           "fontscale 0.75 linewidth 0.8 background '#ffffff'\n",
                           width / 96.0, height / 96.0);
}

/* Runs gnuplot on terminal and script; c->output is the picture. */
static gyre_status run_script(gyre_report_plotter *plotter, gnuplot_io *c, const char *script, size_t length, int width,
                              int height, gyre_error *err) {
    gyre_report_buffer whole = {NULL, 0, 0, 0};
    gyre_report_put(&whole, plotter->child ? "reset session\n" : "");
    put_terminal(&whole, c->format, width, height);
    gyre_report_put_bytes(&whole, script, length);
    if (c->stays) gyre_report_printf(&whole, "set print '-'\nprint \"%.*s\"\n", (int)sizeof END_MARK - 2, END_MARK);
    if (whole.failed) {
        gyre_report_buffer_free(&whole);
        return gyre_fail(err, GYRE_ENOMEM, "figure: out of memory (report)");
    }
    c->script = whole.text;
    c->remaining = whole.length;
    const gyre_status status = run(plotter, c, err);
    gyre_report_buffer_free(&whole);
    return status;
}

static gyre_status edit_svg(const gnuplot_io *c, const gyre_report_canvas *canvas, char **out, gyre_error *err) {
    gyre_report_buffer svg = {NULL, 0, 0, 0};
    gyre_report_put_svg(&svg, c->output.text, canvas);
    return gyre_report_buffer_take(&svg, out, "figure", err);
}

gyre_status gyre_report_gnuplot(gyre_report_plotter *plotter, const gyre_report_canvas *canvas,
                                const gyre_report_buffer *script, char **out, gyre_error *err) {
    if (script->failed) return gyre_fail(err, GYRE_ENOMEM, "figure: out of memory (report)");
    gyre_report_plotter own = {0, {-1, -1, -1, -1}};
    gnuplot_io c = {.format = GYRE_REPORT_FORMAT_SVG, .stays = plotter != NULL};
    gyre_status status = run_script(plotter ? plotter : &own, &c, script->text ? script->text : "", script->length,
                                    canvas->width, canvas->height, err);
    if (!status) status = edit_svg(&c, canvas, out, err);
    gyre_report_buffer_free(&c.output);
    gyre_report_buffer_free(&c.error_output);
    return status;
}

gyre_status gyre_report_script_draw(const gyre_report_script *s, char **out, size_t *bytes, gyre_error *err) {
    if (!s || s->size != sizeof *s || !s->text || s->width < 1 || s->height < 1 || (unsigned)s->format >= FORMATS)
        return gyre_fail(err, GYRE_EINVAL, "script: no text, size or format (figure)");
    gyre_report_plotter own = {0, {-1, -1, -1, -1}};
    gnuplot_io c = {.format = s->format};
    char *picture = NULL;
    gyre_status status = run_script(&own, &c, s->text, strlen(s->text), s->width, s->height, err);
    const gyre_report_canvas canvas = {.title = s->title, .width = s->width, .height = s->height, .alone = 1};
    if (!status && s->format == GYRE_REPORT_FORMAT_SVG) {
        status = edit_svg(&c, &canvas, &picture, err);
        *bytes = status ? 0 : strlen(picture);
    } else if (!status) {
        *bytes = c.output.length;
        status = gyre_report_buffer_take(&c.output, &picture, "figure", err);
    }
    if (!status) *out = picture;
    gyre_report_buffer_free(&c.output);
    gyre_report_buffer_free(&c.error_output);
    return status;
}
