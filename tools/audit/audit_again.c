/* audit_again.c: the faults of a config past the first, at which its reader stops. */
#include "tools/audit/audit.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 8, MAX_KEY = 200 };

typedef struct left_out {
    char keys[MOST][MAX_KEY];
    int count;
} left_out;

/* "rope_scaling.factor: -8 is below 1" -> "rope_scaling.factor".  out = 0 where the words do not begin with a key. */
static int key_of(const char *text, char out[MAX_KEY]) {
    const size_t length = strcspn(text, ": ");
    if (length < 1 || length >= MAX_KEY || text[length] != ':') return 0;
    memcpy(out, text, length);
    out[length] = 0;
    return 1;
}

/* *last = the last part of a key such as "text_config.rope_theta"; out = the object that has it, or would; NULL = none. */
static json_t *object_of(json_t *root, const char *key, const char **last) {
    char part[MAX_KEY];
    json_t *object = root;
    const char *dot;
    for (*last = key; (dot = strchr(*last, '.')); *last = dot + 1) {
        snprintf(part, sizeof part, "%.*s", (int)(dot - *last), *last);
        object = json_object_get(object, part);
    }
    return json_is_object(object) ? object : NULL;
}

static int has_key(json_t *root, const char *key) {
    const char *last = key;
    json_t *object = object_of(root, key, &last);
    return object && json_object_get(object, last);
}

/* Leaves a number out.  Without a key of another kind, a type or an object, the rest means something else; nor is a number
 * left out where one of these belongs ("model_type: not a string").  out = 0 if nothing was. */
static int remove_number(json_t *root, const char *key, const char *why) {
    const char *last = key;
    json_t *object = object_of(root, key, &last);
    if (!object || !json_is_number(json_object_get(object, last))) return 0;
    if (strstr(why, ": not a string") || strstr(why, ": not an object") || strstr(why, ": not a list")) return 0;
    return json_object_del(object, last) == 0;
}

/* out = the status of a config with the values of root, *why in its reader's words. */
static gyre_status read_values(const audit *a, const json_t *root, gyre_error *why) {
    gyre_reading *reading = NULL;
    char *text = json_dumps(root, 0);
    if (!text) return GYRE_ENOMEM;
    const gyre_status status = gyre_reading_parse(
        &reading, text, strlen(text),
        GYRE_ARGS(gyre_reading_options, .profile = a->profile, .context_length = a->length, .name = a->described), why);
    gyre_reading_free(reading);
    free(text);
    return status;
}

/* out = the status of a config in which a key that was left out is a number. */
static gyre_status read_with(const audit *a, const json_t *root, const char *left, double number, gyre_error *why) {
    const char *last = left;
    json_t *copy = json_deep_copy(root), *object = copy ? object_of(copy, left, &last) : NULL;
    json_t *value = number >= 1 ? json_integer((json_int_t)number) : json_real(number);
    const int is_set = object && !json_object_set(object, last, value); /* the object is there: numbers alone are left out */
    const gyre_status status = is_set ? read_values(a, copy, why) : GYRE_ENOMEM;
    json_decref(value);
    json_decref(copy);
    return status;
}

/* *out = 1 if the reader, with `left` set to some number, comes to the key and says something else of it, or nothing. */
static gyre_status find_dependence(const audit *a, const json_t *root, const char *left, const char *key, const char *text,
                                   int *out) {
    static const double numbers[] = {0.5, 1, 2, 48, 1024, 131072, 1e9};
    char other[MAX_KEY];
    *out = 0;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers && !*out; i++) {
        gyre_error why = {0, ""};
        const gyre_status status = read_with(a, root, left, numbers[i], &why);
        if (status == GYRE_ENOMEM) return status;
        *out = !status || (key_of(why.text, other) && strcmp(other, key) == 0 && strcmp(why.text, text) != 0);
    }
    return GYRE_OK;
}

static void add_fault(audit *a, const left_out *left, const char *key, const gyre_error *why) {
    audit_finding *f = audit_add_error(a, AUDIT_WRONG, "config", why->text);
    size_t length = strlen(f->text);
    for (int i = 0; i < left->count && length < sizeof f->text; i++)
        length += (size_t)snprintf(f->text + length, sizeof f->text - length, "%s%s",
                                   i ? " and " : "; found by reading on without ", left->keys[i]);
    const int64_t line = audit_file_line(&a->config, key);
    if (line > 0) audit_set_place(f, "%s, line %" PRId64, a->described, line);
}

/* A further fault is reported only for a key that the file has, and only if it does not depend on the keys that were
 * left out. */
static gyre_status judge(audit *a, const left_out *left, json_t *root, const gyre_error *why) {
    char key[MAX_KEY];
    int depends = 0;
    gyre_status status = GYRE_OK;
    if (!key_of(why->text, key) || !has_key(root, key)) return GYRE_OK;
    for (int i = 0; i < left->count && !status && !depends; i++)
        status = find_dependence(a, root, left->keys[i], key, why->text, &depends);
    if (!status && !depends) add_fault(a, left, key, why);
    return status;
}

static gyre_status read_on(audit *a, json_t *root) {
    left_out left = {.count = 0};
    gyre_error why = a->refused;
    gyre_status status = GYRE_OK;
    while (!status && left.count < MOST) {
        gyre_error next = {0, ""};
        char *key = left.keys[left.count];
        if (!key_of(why.text, key) || !remove_number(root, key, why.text)) break;
        left.count++;
        const gyre_status refused = read_values(a, root, &next);
        if (refused == GYRE_ENOMEM) return refused;
        if (refused != GYRE_EFORMAT && refused != GYRE_EUNSUPPORTED) break;
        status = judge(a, &left, root, &next);
        why = next;
    }
    return status;
}

gyre_status audit_read_again(audit *a, gyre_error *err) {
    json_error_t error;
    if (a->reading || !a->config.text) return GYRE_OK;
    json_t *root = json_loads(a->config.text, 0, &error);
    gyre_status status = root ? read_on(a, root) : GYRE_OK; /* a real that overflows, which the first reading took as text */
    if (!root && json_error_code(&error) == json_error_out_of_memory) status = GYRE_ENOMEM;
    json_decref(root);
    return status ? audit_no_memory(a, err) : GYRE_OK;
}
