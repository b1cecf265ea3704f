/* key_marks.c: a hash set of keys by their address: jansson keeps each key of each object once, as long as it lives. */
#include "reading/key_marks.h"

#include <stdint.h>
#include <stdlib.h>

struct gyre_key_marks {
    const char **slots; /* [capacity], a power of two; NULL = free */
    size_t capacity, count;
    int failed;
};

gyre_key_marks *gyre_key_marks_new(void) {
    return calloc(1, sizeof(gyre_key_marks));
}

void gyre_key_marks_free(gyre_key_marks *marks) {
    if (!marks) return;
    free(marks->slots);
    free(marks);
}

/* out = the slot of the key, or the free one where it belongs. */
static const char **slot_of(const char **slots, size_t capacity, const char *key) {
    const uint64_t hash = (uint64_t)(uintptr_t)key * UINT64_C(0x9E3779B97F4A7C15);
    size_t at = (size_t)(hash >> 32) & (capacity - 1);
    while (slots[at] && slots[at] != key)
        at = (at + 1) & (capacity - 1);
    return &slots[at];
}

/* Keeps at least half of the slots free. */
static int grow(gyre_key_marks *marks) {
    const size_t capacity = marks->capacity ? marks->capacity * 2 : 128;
    if (marks->count * 2 < marks->capacity) return 1;
    const char **slots = calloc(capacity, sizeof *slots);
    if (!slots) return 0;
    for (size_t i = 0; i < marks->capacity; i++)
        if (marks->slots[i]) *slot_of(slots, capacity, marks->slots[i]) = marks->slots[i];
    free(marks->slots);
    marks->slots = slots;
    marks->capacity = capacity;
    return 1;
}

const json_t *gyre_key_marks_get(gyre_key_marks *marks, const json_t *object, const char *key) {
    if (!marks || !object) return json_object_get(object, key);
    void *at = json_object_iter_at((json_t *)object, key);
    if (!at) return NULL;
    if (grow(marks)) {
        const char *own = json_object_iter_key(at), **slot = slot_of(marks->slots, marks->capacity, own);
        marks->count += !*slot;
        *slot = own;
    } else {
        marks->failed = 1;
    }
    return json_object_iter_value(at);
}

int gyre_key_marks_has(const gyre_key_marks *marks, const char *key) {
    return marks->capacity > 0 && *slot_of(marks->slots, marks->capacity, key) == key;
}

int gyre_key_marks_failed(const gyre_key_marks *marks) {
    return marks->failed;
}
