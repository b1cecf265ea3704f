/* suggest.c: edit distance (Levenshtein), one row of the table at a time. */
#include "util/suggest.h"

#include <stddef.h>
#include <string.h>

enum { MAX_NAME_BYTES = 40 };

/* Both at most MAX_NAME_BYTES. */
static int edit_distance(const char *a, const char *b) {
    int row[MAX_NAME_BYTES + 1];
    const size_t n = strlen(a), m = strlen(b);
    for (size_t j = 0; j <= m; j++)
        row[j] = (int)j;
    for (size_t i = 1; i <= n; i++) {
        int corner = row[0];
        row[0] = (int)i;
        for (size_t j = 1; j <= m; j++) {
            const int change = corner + (a[i - 1] != b[j - 1]);
            const int shift = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            corner = row[j];
            row[j] = change < shift ? change : shift;
        }
    }
    return row[m];
}

void gyre_suggest(gyre_suggestion *best, const char *text, const char *candidate) {
    const size_t length = strlen(candidate);
    if (strlen(text) > MAX_NAME_BYTES || length > MAX_NAME_BYTES) return;
    const int edits = edit_distance(text, candidate);
    /* As many edits as letters would make any word of any other. */
    if (edits < best->edits && edits < (int)length) *best = (gyre_suggestion){candidate, edits};
}

const char *gyre_closest_name(const char *text, const char *const *names, int count) {
    gyre_suggestion best = {NULL, GYRE_SUGGEST_LIMIT};
    for (int i = 0; i < count; i++)
        gyre_suggest(&best, text, names[i]);
    return best.name;
}
