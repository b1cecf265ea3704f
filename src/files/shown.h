/* shown.h: names out of files, in messages. */
#ifndef GYRE_READING_SHOWN_H
#define GYRE_READING_SHOWN_H
#include <stddef.h>
#include <string.h>

enum { GYRE_SHOWN = 64 /* characters of a name in a message */ };
typedef struct gyre_shown {
    char text[GYRE_SHOWN + 4];
} gyre_shown;

/* out = a name fit for a message: whatever is no plain character becomes a question mark, what is too long ends in dots. */
static inline gyre_shown gyre_show(const char *name, size_t bytes) {
    gyre_shown out;
    const size_t n = bytes < GYRE_SHOWN ? bytes : GYRE_SHOWN;
    for (size_t i = 0; i < n; i++)
        out.text[i] = name[i] < ' ' || name[i] > '~' ? '?' : name[i];
    memcpy(out.text + n, bytes > n ? "..." : "\0\0\0", 4);
    return out;
}

#endif
