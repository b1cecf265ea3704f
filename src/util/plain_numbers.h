/* plain_numbers.h: numbers with a decimal point, and texts of whole characters.  A program that calls the library may have
 * set a locale with a comma. */
#ifndef GYRE_UTIL_PLAIN_NUMBERS_H
#define GYRE_UTIL_PLAIN_NUMBERS_H
#include <stdarg.h>
#include <stdio.h>

#ifdef __wasm__ /* has no other locale */
typedef int gyre_locale;
static inline gyre_locale gyre_plain_numbers_begin(void) {
    return 0;
}
static inline void gyre_plain_numbers_end(gyre_locale locale) {
    (void)locale;
}
#else
#include <locale.h>

typedef struct gyre_locale {
    locale_t plain, before; /* plain: 0 = no memory; the locale then stays */
} gyre_locale;

/* From here to gyre_plain_numbers_end, this thread prints and reads numbers as in C. */
static inline gyre_locale gyre_plain_numbers_begin(void) {
    gyre_locale locale = {newlocale(LC_ALL_MASK, "C", (locale_t)0), (locale_t)0};
    if (locale.plain) locale.before = uselocale(locale.plain);
    return locale;
}

static inline void gyre_plain_numbers_end(gyre_locale locale) {
    if (!locale.plain) return;
    (void)uselocale(locale.before);
    freelocale(locale.plain);
}
#endif

/* vsnprintf with a decimal point, which cuts no character of UTF-8 in two: neither by a precision as in "%.60s", nor at the
 * end of `out`.  What it returns follows the shorter precision.  Bytes that are not UTF-8 stay. */
int gyre_plain_vsnprintf(char *out, size_t bytes, const char *format, va_list arguments)
    __attribute__((format(printf, 3, 0)));
int gyre_plain_snprintf(char *out, size_t bytes, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
