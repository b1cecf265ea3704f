/* gguf_keys.c: typed values by key.  Errors name the key and its byte. */
#include "reading/gguf/gguf_source.h"
#include "util/plain_numbers.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_KEY_BYTES = 200, MAX_TEXT_BYTES = 300, MAX_LAYERS = 1 << 16 };

static const char *prefixed_key(const gyre_gguf_source *s, const char *suffix, char out[MAX_KEY_BYTES]) {
    snprintf(out, MAX_KEY_BYTES, "%s.%s", s->name, suffix);
    return out;
}

const gyre_gguf_kv *gyre_gguf_find_arch_key(const gyre_gguf_source *s, const char *suffix) {
    char key[MAX_KEY_BYTES];
    const gyre_gguf_kv *pair = gyre_gguf_find_key(s->file, prefixed_key(s, suffix, key));
    if (pair && s->was_read) s->was_read[pair - s->file->kvs] = 1;
    return pair;
}

gyre_place gyre_gguf_place(const gyre_gguf_source *s, const char *suffix) {
    char key[MAX_KEY_BYTES];
    const gyre_gguf_kv *pair = gyre_gguf_find_key(s->file, prefixed_key(s, suffix, key));
    return (gyre_place){gyre_build_format(s->build, "%s", key), 0, pair ? pair->offset : 0};
}

void gyre_gguf_fail(const gyre_gguf_source *s, gyre_status status, const char *suffix, const char *format, ...) {
    char text[MAX_TEXT_BYTES];
    const gyre_place place = gyre_gguf_place(s, suffix);
    va_list arguments;
    va_start(arguments, format);
    (void)gyre_plain_vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    gyre_build_fail(s->build, status, &place, "%s: %s", place.key, text);
}

void gyre_gguf_warn(const gyre_gguf_source *s, const char *suffix, const char *format, ...) {
    char text[2 * MAX_TEXT_BYTES];
    const gyre_place place = gyre_gguf_place(s, suffix);
    va_list arguments;
    va_start(arguments, format);
    (void)gyre_plain_vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    gyre_build_warn(s->build, &place, "%s: %s", place.key, text);
}

/* Only head counts may differ from layer to layer.  No reader uses any other array of sizes. */
static void check_array(const gyre_gguf_source *s, const char *suffix, const gyre_gguf_value *array) {
    int64_t first, x;
    if (array->count == 0) gyre_gguf_fail(s, GYRE_EFORMAT, suffix, "an empty array");
    if (array->count > MAX_LAYERS)
        gyre_gguf_fail(s, GYRE_EFORMAT, suffix, "an array of %" PRIu64 " elements for fewer layers", array->count);
    if (gyre_build_status(s->build) || strcmp(suffix, "attention.head_count") == 0) return;
    for (uint64_t i = 1; i < array->count && gyre_gguf_integer(array, 0, &first); i++)
        if (gyre_gguf_integer(array, i, &x) && x != first) {
            gyre_gguf_fail(s, GYRE_EUNSUPPORTED, suffix,
                           "%" PRId64 " and %" PRId64 ": no program reads different numbers for layers", first, x);
            return;
        }
}

int64_t gyre_gguf_read_size(const gyre_gguf_source *s, const char *suffix, int64_t minimum, int64_t fallback) {
    const gyre_gguf_kv *pair = gyre_gguf_find_arch_key(s, suffix);
    int64_t largest = minimum, x;
    if (!pair && fallback < 0) gyre_gguf_fail(s, GYRE_EFORMAT, suffix, "missing");
    if (!pair) return fallback < 0 ? minimum : fallback;
    if (pair->value.type == GYRE_GGUF_ARRAY) check_array(s, suffix, &pair->value);
    if (pair->value.type == GYRE_GGUF_STRING) gyre_gguf_fail(s, GYRE_EFORMAT, suffix, "not a whole number");
    for (uint64_t i = 0; i < pair->value.count && !gyre_build_status(s->build); i++) {
        if (!gyre_gguf_integer(&pair->value, i, &x)) {
            gyre_gguf_fail(s, GYRE_EFORMAT, suffix, "not a whole number");
            return minimum;
        }
        if (x > largest) largest = x;
        if (x < minimum || x > (int64_t)1 << 53)
            gyre_gguf_fail(s, GYRE_EFORMAT, suffix, "%" PRId64 " is not from %" PRId64 " to 2^53", x, minimum);
    }
    return largest;
}

double gyre_gguf_read_real(const gyre_gguf_source *s, const char *suffix, double fallback) {
    const gyre_gguf_kv *pair = gyre_gguf_find_arch_key(s, suffix);
    double x;
    if (!pair) return fallback;
    if (pair->value.type == GYRE_GGUF_ARRAY || !gyre_gguf_number(&pair->value, 0, &x) || !isfinite(x)) {
        gyre_gguf_fail(s, GYRE_EFORMAT, suffix, "not a finite number");
        return fallback;
    }
    return x;
}

int gyre_gguf_read_flag(const gyre_gguf_source *s, const char *suffix, int fallback) {
    const gyre_gguf_kv *pair = gyre_gguf_find_arch_key(s, suffix);
    int64_t x = fallback;
    if (!pair) return fallback;
    if (pair->value.type == GYRE_GGUF_ARRAY || !gyre_gguf_integer(&pair->value, 0, &x) || x < 0 || x > 1)
        gyre_gguf_fail(s, GYRE_EFORMAT, suffix, "neither true nor false");
    return x == 1;
}

/* Prints a float in the digits that distinguish it from other floats: 0.1, where the double is 0.10000000149011612. */
static void print_float(double x, char out[40]) {
    int digits = 1;
    const gyre_locale locale = gyre_plain_numbers_begin();
    do
        snprintf(out, 40, "%.*g", digits, x);
    while (strtof(out, NULL) != (float)x && ++digits <= 9);
    gyre_plain_numbers_end(locale);
    if (x == floor(x) && fabs(x) < 1e15) snprintf(out, 40, "%.0f", x);
}

void gyre_gguf_note_number(const gyre_gguf_source *s, gyre_layer_group *group, const char *field, const char *suffix,
                           gyre_origin origin, double value, const char *why) {
    const gyre_gguf_kv *pair = suffix ? gyre_gguf_find_arch_key(s, suffix) : NULL;
    char text[40];
    if (!pair) {
        gyre_build_set_number(s->build, group, field, origin, NULL, why, value);
        return;
    }
    const gyre_place place = gyre_gguf_place(s, suffix);
    if (pair->value.type == GYRE_GGUF_F32 && (double)(float)value == value) {
        print_float(value, text);
        gyre_build_set_field(s->build, group, field, GYRE_ORIGIN_FILE, &place, why, "%s", text);
    } else {
        gyre_build_set_number(s->build, group, field, GYRE_ORIGIN_FILE, &place, why, value);
    }
}
