#include "files/json_write.h"

#include <stdlib.h>

void gyre_json_put(gyre_json_writer *w, const char *key, json_t *value) {
    w->failed |= json_object_set_new(w->object, key, value) != 0;
}

void gyre_json_put_integer(gyre_json_writer *w, const char *key, int64_t value) {
    gyre_json_put(w, key, json_integer(value));
}

void gyre_json_put_number(gyre_json_writer *w, const char *key, double value) {
    gyre_json_put(w, key, json_real(value));
}

void gyre_json_put_string(gyre_json_writer *w, const char *key, const char *value) {
    gyre_json_put(w, key, json_string(value));
}

char *gyre_json_dump(const json_t *root) {
    for (size_t digits = 6; digits <= 17; digits++) {
        char *text = json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(digits));
        json_t *back = text ? json_loads(text, 0, NULL) : NULL;
        const int same = json_equal(root, back);
        json_decref(back);
        if (same) return text;
        free(text);
        if (!back) break; /* no memory */
    }
    return NULL;
}
