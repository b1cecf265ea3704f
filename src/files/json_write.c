#include "files/json_write.h"

#include <stdlib.h>
#include <string.h>

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

typedef struct growing_text {
    char *text;
    size_t bytes, capacity;
    int failed; /* remembered here, because jansson ignores the failure of writing a key */
} growing_text;

static int append(const char *more, size_t bytes, void *data) {
    growing_text *t = data;
    if (bytes >= t->capacity - t->bytes) {
        const size_t capacity = 2 * t->capacity + bytes + 1;
        char *grown = realloc(t->text, capacity);
        if (!grown) {
            t->failed = 1;
            return -1;
        }
        t->text = grown;
        t->capacity = capacity;
    }
    memcpy(t->text + t->bytes, more, bytes);
    t->bytes += bytes;
    t->text[t->bytes] = 0;
    return 0;
}

char *gyre_json_text(const json_t *value, size_t flags) {
    growing_text t = {malloc(256), 0, 256, 0};
    if (t.text && json_dump_callback(value, append, &t, flags) == 0 && !t.failed) return t.text;
    free(t.text);
    return NULL;
}

char *gyre_json_dump(const json_t *root) {
    for (size_t digits = 6; digits <= 17; digits++) {
        char *text = gyre_json_text(root, JSON_INDENT(2) | JSON_REAL_PRECISION(digits));
        json_t *back = text ? json_loads(text, 0, NULL) : NULL;
        const int same = json_equal(root, back);
        json_decref(back);
        if (same) return text;
        free(text);
        if (!back) break; /* no memory */
    }
    return NULL;
}
