#include "tokenizer/vocabulary.h"

#include "tokenizer/hash_mix.h"
#include "util/error.h"
#include "util/fnv1a.h"

#include <stdlib.h>
#include <string.h>

enum { MIN_SLOTS = 64 };

gyre_status gyre_vocabulary_init(gyre_vocabulary *v, int64_t count, gyre_error *err) {
    size_t slots = MIN_SLOTS;
    while (slots / 2 < (size_t)count)
        slots *= 2;
    *v = (gyre_vocabulary){.count = count, .mask = slots - 1};
    v->pieces = calloc((size_t)count + 1, sizeof *v->pieces);
    v->slots = malloc(slots * sizeof *v->slots);
    if (!v->pieces || !v->slots) {
        gyre_vocabulary_free(v);
        return gyre_fail(err, GYRE_ENOMEM, "tokenizer: no memory for %lld tokens", (long long)count);
    }
    for (size_t i = 0; i < slots; i++)
        v->slots[i] = -1;
    v->seed = gyre_hash_mix((uint64_t)(uintptr_t)v->slots);
    return GYRE_OK;
}

void gyre_vocabulary_free(gyre_vocabulary *v) {
    free(v->bytes);
    free(v->pieces);
    free(v->slots);
    *v = (gyre_vocabulary){0};
}

/* out = the slot that holds these bytes, or the empty slot where they belong. */
static size_t slot_of(const gyre_vocabulary *v, const void *bytes, size_t length) {
    size_t slot = (size_t)gyre_hash_mix(gyre_fnv1a(GYRE_FNV1A_OFFSET_BASIS ^ v->seed, bytes, length)) & v->mask;
    for (;; slot = (slot + 1) & v->mask) {
        const int32_t id = v->slots[slot];
        if (id < 0) return slot;
        const gyre_piece *p = &v->pieces[id];
        if (p->length == length && memcmp(v->bytes + p->bytes_offset, bytes, length) == 0) return slot;
    }
}

gyre_status gyre_vocabulary_set(gyre_vocabulary *v, int32_t id, const void *bytes, size_t length, gyre_error *err) {
    if (length > UINT32_MAX / 2) return gyre_fail(err, GYRE_EFORMAT, "a token of %zu bytes", length);
    if (v->capacity - v->used < length || !v->bytes) {
        const size_t capacity = 2 * v->capacity + length + 4096;
        unsigned char *grown = realloc(v->bytes, capacity);
        if (!grown) return gyre_fail(err, GYRE_ENOMEM, "tokenizer: no memory for its tokens");
        v->bytes = grown;
        v->capacity = capacity;
    }
    memcpy(v->bytes + v->used, bytes, length);
    v->pieces[id].bytes_offset = v->used;
    v->pieces[id].length = (uint32_t)length;
    v->used += length;
    const size_t slot = slot_of(v, bytes, length);
    if (v->slots[slot] < 0 && (size_t)v->used_slots < v->mask / 8 * 7) {
        v->slots[slot] = id;
        v->used_slots++;
    }
    return GYRE_OK;
}

int32_t gyre_vocabulary_find(const gyre_vocabulary *v, const void *bytes, size_t length) {
    return v->slots[slot_of(v, bytes, length)];
}
