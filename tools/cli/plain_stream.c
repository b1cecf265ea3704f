/* plain_stream.c: a filter before a file descriptor. */
#define _GNU_SOURCE /* fopencookie; NOLINT(bugprone-reserved-identifier): glibc names this macro */
#include "tools/cli/plain_stream.h"
#include "util/file_write.h"
#include "util/utf8.h"
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The longest text of one character: "\u202e"; of a code of colour: "\033[32m". */
enum { LONGEST = 8, MAX_STREAMS = 4 };

/* -- one character -- */
/* out = the length of a code of colour at the start of the text, 0 for none. */
static size_t color_code(const char *text, size_t bytes) {
    static const char *const codes[] = {"\033[0m", "\033[1m", "\033[2m", "\033[31m", "\033[32m", "\033[33m", "\033[36m"};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (bytes >= strlen(codes[i]) && memcmp(text, codes[i], strlen(codes[i])) == 0) return strlen(codes[i]);
    return 0;
}

/* Writes the first character of the text as it is shown.  *read = the bytes that it takes, 0 if the text may continue.
 * out = the bytes written. */
static size_t show_character(const char *text, size_t bytes, int colors, char out[LONGEST], size_t *read) {
    uint32_t code = 0;
    const int length = gyre_utf8_decode(text, bytes, &code);
    const size_t color = colors && *text == '\033' ? color_code(text, bytes) : 0;
    *read = color ? color : (size_t)(length < 0 ? 1 : length);
    if (color || (length > 0 && !gyre_utf8_is_control(code))) {
        memcpy(out, text, *read);
        return *read;
    }
    if (length <= 0) return (size_t)snprintf(out, LONGEST, "%s", "\xef\xbf\xbd");
    return (size_t)snprintf(out, LONGEST, "\\u%04x", (unsigned)(code & 0xffff));
}

void plain_text(char *out, size_t size, const char *text) {
    char shown[LONGEST];
    size_t used = 0, read;
    for (size_t bytes = strlen(text); bytes; text += read, bytes -= read) {
        const size_t count = show_character(text, bytes, 0, shown, &read);
        if (!read) read = bytes; /* cut within a character */
        if (used + count >= size) break;
        memcpy(out + used, shown, count);
        used += count;
    }
    out[used] = 0;
}

const char *plain_line(const char *text) {
    static _Thread_local char lines[PLAIN_LINES][4400];
    static _Thread_local int next;
    char shown[LONGEST], *out = lines[next++ % PLAIN_LINES];
    size_t used = 0, read;
    for (size_t bytes = strlen(text); bytes; text += read, bytes -= read) {
        size_t count = show_character(text, bytes, 0, shown, &read);
        if (*text == '\t' || *text == '\n') count = (size_t)snprintf(shown, LONGEST, "\\u%04x", (unsigned)*text);
        if (!read) read = bytes;
        if (used + count >= sizeof lines[0]) break;
        memcpy(out + used, shown, count);
        used += count;
    }
    out[used] = 0;
    return out;
}

/* -- the stream -- */
typedef struct plain_stream {
    FILE *stream;
    int fd, error, lines;
    int colors;         /* 1: a terminal, where the command itself prints codes of colour */
    char rest[LONGEST]; /* a character or a code that the next write may complete */
    size_t rest_bytes;
} plain_stream;

static plain_stream *streams[MAX_STREAMS];

static plain_stream **find(const FILE *stream) {
    for (int i = 0; i < MAX_STREAMS; i++)
        if (streams[i] ? streams[i]->stream == stream : !stream) return &streams[i];
    return NULL;
}

/* out = 1 if what follows may make a character or a code of colour of these bytes. */
static int may_go_on(const char *text, size_t bytes, int colors) {
    if (!colors || *text != '\033') return gyre_utf8_decode(text, bytes, NULL) == 0;
    if (bytes > 4) return 0;
    for (size_t i = 1; i < bytes; i++)
        if (i == 1 ? text[i] != '[' : text[i] < '0' || text[i] > '9') return 0;
    return 1;
}

/* Writes the bytes; at_end: an incomplete character too. */
static int put(plain_stream *s, const char *text, size_t bytes, int at_end) {
    char buffer[4096];
    size_t used = 0, read;
    for (; bytes && !s->error; text += read, bytes -= read) {
        if (!at_end && bytes < LONGEST && may_go_on(text, bytes, s->colors)) {
            memcpy(s->rest, text, bytes);
            s->rest_bytes = bytes;
            break;
        }
        used += show_character(text, bytes, s->colors, buffer + used, &read);
        if (!read) read = bytes;
        if (used + LONGEST <= sizeof buffer) continue;
        s->error = gyre_write_all(s->fd, buffer, used);
        used = 0;
    }
    if (used && !s->error) s->error = gyre_write_all(s->fd, buffer, used);
    return s->error;
}

/* One character at a time until what was left over is complete. */
static ssize_t write_stream(void *cookie, const char *text, size_t bytes) {
    plain_stream *s = cookie;
    size_t taken = 0;
    for (size_t i = 0; i < bytes; i++)
        s->lines += text[i] == '\n';
    while (s->rest_bytes && taken < bytes && !s->error) {
        char joined[LONGEST + 1];
        const size_t count = s->rest_bytes;
        memcpy(joined, s->rest, count);
        joined[count] = text[taken++];
        s->rest_bytes = 0;
        (void)put(s, joined, count + 1, 0);
    }
    (void)put(s, text + taken, bytes - taken, 0);
    if (!s->error) return (ssize_t)bytes;
    errno = s->error;
    return 0;
}

static int close_stream(void *cookie) {
    plain_stream *s = cookie;
    return put(s, s->rest, s->rest_bytes, 1) ? EOF : 0;
}

FILE *plain_stream_open(int fd) {
    plain_stream **place = find(NULL), *s = place ? calloc(1, sizeof *s) : NULL;
    if (!s) {
        errno = place ? ENOMEM : EMFILE;
        return NULL;
    }
    s->fd = fd;
    s->colors = isatty(fd);
#if defined(__APPLE__) || defined(__FreeBSD__)
    s->stream = funopen(s, NULL, (int (*)(void *, const char *, int))write_stream, NULL, close_stream);
#else
    s->stream = fopencookie(s, "w", (cookie_io_functions_t){.write = write_stream, .close = close_stream});
#endif
    if (!s->stream) {
        free(s);
        return NULL;
    }
    if (s->colors) (void)setvbuf(s->stream, NULL, _IOLBF, 0); /* as stdout */
    *place = s;
    return s->stream;
}

void plain_stream_drop_colors(FILE *stream) {
    plain_stream **place = find(stream);
    if (place && stream) (*place)->colors = 0;
}

int plain_stream_close(FILE *stream) {
    plain_stream **place = find(stream), *s = *place;
    errno = 0;
    const int failed = fflush(stream) || ferror(stream), flushed = errno;
    const int closed = fclose(stream);
    const int error = s->error ? s->error : failed ? (flushed ? flushed : EIO) : closed ? EIO : 0;
    *place = NULL;
    free(s);
    return error;
}

int plain_stream_lines(FILE *stream) {
    plain_stream **place = find(stream);
    (void)fflush(stream);
    return place && stream ? (*place)->lines : 0;
}

int plain_stream_descriptor(FILE *stream) {
    plain_stream **place = find(stream);
    return place && stream ? (*place)->fd : fileno(stream);
}
