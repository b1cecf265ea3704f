/* plain_numbers.c: formatted text, cut between characters. */
#include "util/plain_numbers.h"

#include "util/utf8.h"

#include <stddef.h>
#include <string.h>

/* One conversion of a format, such as "%-8.60s". */
typedef struct conversion {
    const char *end;       /* behind it */
    const char *precision; /* its digits; NULL = none, or an argument */
    int arguments;         /* widths and precisions that are arguments: '*' */
    int size;              /* l: 1, ll and j: 2, z and t: 3, L: 4, else 0 */
    char type;
} conversion;

/* from: behind the '%'. */
static conversion read_conversion(const char *from) {
    conversion c = {.end = from};
    for (; *c.end && strchr("-+ #0123456789.*hlzjtL", *c.end); c.end++) {
        if (*c.end == '.') c.precision = c.end + 1;
        c.arguments += *c.end == '*';
        c.size = *c.end == 'l' ? c.size + 1 : *c.end == 'j' ? 2 : strchr("zt", *c.end) ? 3 : *c.end == 'L' ? 4 : c.size;
    }
    if (c.precision && (*c.precision < '0' || *c.precision > '9')) c.precision = NULL;
    c.type = *c.end;
    c.end += c.type != 0;
    return c;
}

/* The argument of a conversion other than %s. */
static void skip_argument(const conversion *c, va_list *arguments) {
    const int is_double = strchr("fFeEgGaA", c->type) != NULL, size = is_double || c->type == 'p' ? -1 : c->size;
    /* No chain of else: clang-tidy takes arguments of different types for equal branches. */
    if (is_double && c->size == 4) (void)va_arg(*arguments, long double);
    if (is_double && c->size != 4) (void)va_arg(*arguments, double);
    if (c->type == 'p') (void)va_arg(*arguments, void *);
    if (size == 3) (void)va_arg(*arguments, size_t);
    if (size == 2) (void)va_arg(*arguments, long long);
    if (size == 1) (void)va_arg(*arguments, long);
    if (size == 0 || size > 3) (void)va_arg(*arguments, int);
}

/* out = the bytes of the longest beginning of at most `most` bytes that ends between two characters. */
static size_t whole_bytes(const char *text, size_t most) {
    const size_t bytes = strnlen(text, most);
    if (bytes < most || text[bytes] == 0) return bytes;
    for (size_t back = 1; back <= 3 && back <= bytes; back++) /* a beginning that the bytes behind the cut complete */
        if (gyre_utf8_decode(text + bytes - back, back, NULL) == 0)
            return gyre_utf8_decode(text + bytes - back, strnlen(text + bytes - back, 4), NULL) > 0 ? bytes - back : bytes;
    return bytes;
}

/* The format with smaller precisions where "%.60s" would end within a character: "%.058s". */
static void cut_between_characters(char *format, va_list *arguments) {
    for (char *at = strchr(format, '%'); at; at = strchr(at, '%')) {
        const conversion c = read_conversion(at + 1);
        at += c.end - at;
        if (c.type == '%' || c.type == 0) continue;
        for (int i = 0; i < c.arguments; i++)
            (void)va_arg(*arguments, int);
        if (c.type != 's') {
            skip_argument(&c, arguments);
            continue;
        }
        const char *text = va_arg(*arguments, const char *);
        size_t most = 0;
        char *last = format + ((c.precision ? c.precision : format) - format);
        for (; c.precision && *last >= '0' && *last <= '9'; last++)
            most = 10 * most + (size_t)(*last - '0');
        for (size_t bytes = most && text ? whole_bytes(text, most) : most; bytes < most && last-- > c.precision; bytes /= 10)
            *last = (char)('0' + bytes % 10);
    }
}

/* out = 1 if the format may cut a text. */
static int has_precision_of_text(const char *format) {
    for (const char *at = strchr(format, '%'); at; at = strchr(at, '%')) {
        const conversion c = read_conversion(at + 1);
        if (c.type == 's' && c.precision) return 1;
        at = c.end;
    }
    return 0;
}

int gyre_plain_vsnprintf(char *out, size_t bytes, const char *format, va_list arguments) {
    char own[1024];
    const size_t length = strlen(format);
    if (length < sizeof own && has_precision_of_text(format)) {
        va_list copy;
        memcpy(own, format, length + 1);
        va_copy(copy, arguments);
        cut_between_characters(own, &copy);
        va_end(copy);
        format = own;
    }
    const gyre_locale locale = gyre_plain_numbers_begin();
    const int wanted = vsnprintf(out, bytes, format, arguments);
    gyre_plain_numbers_end(locale);
    for (size_t back = 1; wanted >= 0 && (size_t)wanted >= bytes && back <= 3 && back < bytes; back++)
        if (gyre_utf8_decode(out + bytes - 1 - back, back, NULL) == 0) out[bytes - 1 - back] = 0;
    return wanted;
}

int gyre_plain_snprintf(char *out, size_t bytes, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const int wanted = gyre_plain_vsnprintf(out, bytes, format, arguments);
    va_end(arguments);
    return wanted;
}
