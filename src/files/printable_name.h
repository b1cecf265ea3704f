/* printable_name.h: makes names from files safe to print. */
#ifndef GYRE_FILES_PRINTABLE_NAME_H
#define GYRE_FILES_PRINTABLE_NAME_H
#include <stddef.h>
#include <string.h>

enum { GYRE_PRINTABLE_NAME_LENGTH = 64 /* characters of a name in a message */ };
typedef struct gyre_printable_name {
    char text[GYRE_PRINTABLE_NAME_LENGTH + 4];
} gyre_printable_name;

/* out = the name with every character that is not printable ASCII replaced by '?', cut to 64 characters with "..." after
 * them. */
static inline gyre_printable_name gyre_make_printable(const char *name, size_t bytes) {
    gyre_printable_name out;
    const size_t n = bytes < GYRE_PRINTABLE_NAME_LENGTH ? bytes : GYRE_PRINTABLE_NAME_LENGTH;
    for (size_t i = 0; i < n; i++)
        out.text[i] = name[i] < ' ' || name[i] > '~' ? '?' : name[i];
    memcpy(out.text + n, bytes > n ? "..." : "\0\0\0", 4);
    return out;
}

#endif
