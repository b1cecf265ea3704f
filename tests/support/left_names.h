/* left_names.h: names of temporaries that other processes left. */
#ifndef GYRE_TESTS_LEFT_NAMES_H
#define GYRE_TESTS_LEFT_NAMES_H
#include "support.h"
#include "util/temporary.h"

enum { LEFT_NAME = 240, DEAD = 4194305 }; /* DEAD: beyond the largest process number */

/* out = the name, in one of sixteen static buffers. */
static inline const char *left_by(const char *target, long pid, int attempt) {
    static char names[16][LEFT_NAME];
    static int next;
    char name[GYRE_TEMPORARY_PATH_BYTES];
    next = (next + 1) % 16;
    assert_true(gyre_temporary_name_by(name, target, pid, attempt));
    assert_true(snprintf(names[next], LEFT_NAME, "%s", name) < LEFT_NAME);
    return names[next];
}

#endif
