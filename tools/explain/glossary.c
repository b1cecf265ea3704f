/* glossary.c: finds the entry of docs/glossary.md for a key. */
#include "tools/explain/glossary.h"
#include <stdio.h>
#include <string.h>

#define ENTRY(key, entry) {key, entry},
static const char *const entries[][2] = {
#include "tools/explain/glossary.def"
};
#undef ENTRY

const char *glossary_place(const char *key, char out[GLOSSARY_PLACE]) {
    const char *dot = key ? strrchr(key, '.') : NULL, *last = dot ? dot + 1 : key;
    for (size_t i = 0; last && i < sizeof entries / sizeof *entries; i++)
        if (strcmp(entries[i][0], last) == 0) {
            snprintf(out, GLOSSARY_PLACE, "docs/glossary.md#%s", entries[i][1]);
            return out;
        }
    return NULL;
}
