#include "tools/bench/bench_only.h"

#include "tools/cli/cli.h"
#include "util/suggest.h"
#include <stdio.h>
#include <string.h>

static int word_matches(const char *word, size_t length, const char *name) {
    return strncmp(name, word, length) == 0 && (name[length] == 0 || name[length] == '-');
}

int bench_only_matches(const char *only, const char *name) {
    for (const char *word = only;; word++) {
        const size_t length = strcspn(word, ",");
        if (word_matches(word, length, name)) return 1;
        word += length;
        if (!*word) return 0;
    }
}

static void unknown_case_error(const char *word, const char *const *names, int count) {
    char list[4096] = "";
    size_t used = 0;
    const char *near = gyre_closest_name(word, names, count);
    if (near) cli_usage_error("--only: \"%s\" is not a case; did you mean %s?", word, near);
    for (int i = 0; i < count && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", names[i]);
    cli_usage_error("--only: \"%s\" is not one of %s, nor how they begin", word, list);
}

void bench_only_check(const char *only, const char *const *names, int count) {
    for (const char *word = only; word; word = *word ? word + 1 : NULL) {
        const size_t length = strcspn(word, ",");
        int found = 0;
        for (int i = 0; i < count && !found; i++)
            found = word_matches(word, length, names[i]);
        char text[64];
        snprintf(text, sizeof text, "%.*s", (int)(length < sizeof text ? length : sizeof text - 1), word);
        if (!found) unknown_case_error(text, names, count);
        word += length;
    }
}
