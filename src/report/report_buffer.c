/* report_buffer.c: growing text, and strings escaped for where they go. */
#include "report/report_internal.h"
#include "util/plain_numbers.h"
#include "util/utf8.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void gyre_report_free(char *text) {
    free(text);
}

/* -- growing -- */
/* Makes room for `more` bytes and a final 0. */
static int reserve(gyre_report_buffer *buffer, size_t more) {
    if (buffer->failed) return 0;
    if (more < buffer->capacity - buffer->length) return 1;
    size_t capacity = buffer->capacity ? buffer->capacity : 256;
    while (capacity - buffer->length <= more && capacity <= SIZE_MAX / 2)
        capacity *= 2;
    char *text = capacity - buffer->length > more ? realloc(buffer->text, capacity) : NULL;
    if (!text) return !(buffer->failed = 1);
    buffer->text = text;
    buffer->capacity = capacity;
    return 1;
}

void gyre_report_put_bytes(gyre_report_buffer *buffer, const char *bytes, size_t count) {
    if (!reserve(buffer, count)) return;
    if (count) memcpy(buffer->text + buffer->length, bytes, count);
    buffer->length += count;
    buffer->text[buffer->length] = '\0';
}

void gyre_report_put(gyre_report_buffer *buffer, const char *text) {
    gyre_report_put_bytes(buffer, text, strlen(text));
}

void gyre_report_printf(gyre_report_buffer *buffer, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const int count = gyre_plain_vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (count < 0) buffer->failed = 1;
    if (count < 0 || !reserve(buffer, (size_t)count)) return;
    va_start(arguments, format);
    (void)gyre_plain_vsnprintf(buffer->text + buffer->length, (size_t)count + 1, format, arguments);
    va_end(arguments);
    buffer->length += (size_t)count;
}

void gyre_report_put_spaces(gyre_report_buffer *buffer, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        gyre_report_put_bytes(buffer, " ", 1);
}

void gyre_report_buffer_free(gyre_report_buffer *buffer) {
    free(buffer->text);
    *buffer = (gyre_report_buffer){NULL, 0, 0, 0};
}

gyre_status gyre_report_buffer_take(gyre_report_buffer *buffer, char **out, const char *what, gyre_error *err) {
    gyre_report_put(buffer, "");
    if (buffer->failed) {
        gyre_report_buffer_free(buffer);
        return gyre_fail(err, GYRE_ENOMEM, "%s: out of memory (report)", what);
    }
    *out = buffer->text;
    *buffer = (gyre_report_buffer){NULL, 0, 0, 0};
    return GYRE_OK;
}

/* -- characters -- */
gyre_report_char gyre_report_next_char(const char **text) {
    gyre_report_char c = {0, "", 0};
    if (!*text || !**text) return c;
    const int length = gyre_utf8_decode(*text, strnlen(*text, 4), &c.code);
    if (length <= 0 || c.code == 0xfffe || c.code == 0xffff) { /* XML forbids these two */
        *text += 1;
        return (gyre_report_char){0xFFFD, "\xEF\xBF\xBD", 3};
    }
    c.count = (size_t)length;
    memcpy(c.bytes, *text, c.count);
    *text += c.count;
    if (c.code == '\t' || gyre_utf8_is_control(c.code)) return (gyre_report_char){' ', " ", 1};
    return c;
}

/* Wide and combining characters of common scripts.  The C library's table depends on the locale. */
static int char_width(uint32_t code) {
    if ((code >= 0x300 && code <= 0x36F) || (code >= 0x200B && code <= 0x200F) || (code >= 0xFE00 && code <= 0xFE0F))
        return 0;
    return (code >= 0x1100 && code <= 0x115F) || (code >= 0x2E80 && code <= 0xA4CF) || (code >= 0xAC00 && code <= 0xD7A3) ||
                   (code >= 0xF900 && code <= 0xFAFF) || (code >= 0xFE30 && code <= 0xFE6F) ||
                   (code >= 0xFF00 && code <= 0xFF60) || (code >= 0x1F300 && code <= 0x1FAFF) ||
                   (code >= 0x20000 && code <= 0x3FFFD)
               ? 2
               : 1;
}

int64_t gyre_report_display_width(const char *text) {
    int64_t width = 0;
    for (gyre_report_char c = gyre_report_next_char(&text); c.count; c = gyre_report_next_char(&text))
        width += char_width(c.code);
    return width;
}

void gyre_report_put_sanitized(gyre_report_buffer *buffer, const char *text) {
    for (gyre_report_char c = gyre_report_next_char(&text); c.count; c = gyre_report_next_char(&text))
        gyre_report_put_bytes(buffer, c.code == '\n' ? " " : c.bytes, c.count);
}

static void put_html_character(gyre_report_buffer *buffer, const gyre_report_char *c) {
    switch (c->code) {
    case '&':
        gyre_report_put(buffer, "&amp;");
        break;
    case '<':
        gyre_report_put(buffer, "&lt;");
        break;
    case '>':
        gyre_report_put(buffer, "&gt;");
        break;
    case '"':
        gyre_report_put(buffer, "&quot;");
        break;
    case '\'':
        gyre_report_put(buffer, "&#39;");
        break;
    default:
        gyre_report_put_bytes(buffer, c->bytes, c->count);
    }
}

void gyre_report_put_html(gyre_report_buffer *buffer, const char *text) {
    for (gyre_report_char c = gyre_report_next_char(&text); c.count; c = gyre_report_next_char(&text))
        put_html_character(buffer, &c);
}

void gyre_report_put_markup(gyre_report_buffer *buffer, const char *text) {
    int code = 0;
    for (gyre_report_char c = gyre_report_next_char(&text); c.count; c = gyre_report_next_char(&text)) {
        /* An unpaired backquote is printed as it is. */
        if (c.code == '`' && (code || strchr(text, '`'))) {
            gyre_report_put(buffer, code ? "</code>" : "<code>");
            code = !code;
        } else
            put_html_character(buffer, &c);
    }
}

void gyre_report_put_gnuplot_string(gyre_report_buffer *buffer, const char *text) {
    gyre_report_put(buffer, "'");
    for (gyre_report_char c = gyre_report_next_char(&text); c.count; c = gyre_report_next_char(&text)) {
        if (c.code == '\'') gyre_report_put(buffer, "'");
        gyre_report_put_bytes(buffer, c.code == '\n' ? " " : c.bytes, c.count);
    }
    gyre_report_put(buffer, "'");
}

/* -- numbers -- */
void gyre_report_format_number(char out[64], char style, int digits, double value) {
    const gyre_locale locale = gyre_plain_numbers_begin();
    if (style == 'f' && !(fabs(value) >= 1e6))
        snprintf(out, 64, "%.*f", digits, value);
    else
        snprintf(out, 64, style == 'g' ? "%.*g" : "%.*e", digits, value);
    gyre_plain_numbers_end(locale);
    if (out[0] == '-' && !strpbrk(out, "123456789n")) memmove(out, out + 1, strlen(out)); /* -0.00 */
}

void gyre_report_put_gnuplot_number(gyre_report_buffer *buffer, double value) {
    char number[64];
    if (isfinite(value))
        gyre_report_format_number(number, 'g', 17, value);
    else
        strcpy(number, "NaN");
    gyre_report_put(buffer, number);
}
