/* cli_spelling.c: "did you mean ...?". */
#include "tools/cli/cli_values.h"
#include <string.h>

enum { MAX_NAME_LENGTH = 32 };

/* out = the number of one-letter insertions, deletions and changes that turn a into b. */
static int edit_distance(const char *a, const char *b) {
    int row[MAX_NAME_LENGTH + 1];
    const int n = (int)strlen(b);
    for (int j = 0; j <= n; j++)
        row[j] = j;
    for (int i = 1; *a; a++, i++) {
        int corner = row[0];
        row[0] = i;
        for (int j = 1; j <= n; j++) {
            const int change = corner + (*a != b[j - 1]);
            const int shift = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            corner = row[j];
            row[j] = change < shift ? change : shift;
        }
    }
    return row[n];
}

const char *cli_closest_name(const char *text, const char *const *names, int count) {
    const char *best = NULL;
    int least = 3; /* three or more slips: another word */
    if (strlen(text) > MAX_NAME_LENGTH) return NULL;
    for (int i = 0; i < count; i++) {
        if (strlen(names[i]) > MAX_NAME_LENGTH) continue;
        const int distance = edit_distance(text, names[i]);
        if (distance < least && distance < (int)strlen(names[i])) {
            least = distance;
            best = names[i];
        }
    }
    return best;
}
