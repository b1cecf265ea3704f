/* audit_again.c: the faults of a config past the first, at which its reader stops. */
#include "tools/audit/audit.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 8, MAX_KEY = 200, LEFT = 300 };

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

/* Leaves a key out, or what is around one that is missing.  key becomes what was left out.  out = 0 if nothing was. */
static int leave_out(json_t *root, char *key) {
    const char *last = key;
    while (!has_key(root, key)) {
        char *dot = strrchr(key, '.');
        if (!dot) return 0;
        *dot = 0;
    }
    json_t *object = object_of(root, key, &last);
    return json_object_del(object, last) == 0;
}

/* out = the status of a config with the values of root, *why in its reader's words. */
static gyre_status read_values(const audit *a, const json_t *root, gyre_error *why) {
    gyre_reading *reading = NULL;
    char *text = json_dumps(root, 0);
    if (!text) return GYRE_ENOMEM;
    const gyre_status status = gyre_reading_parse(&reading, text, strlen(text), a->described, a->profile, a->length, why);
    gyre_reading_free(reading);
    free(text);
    return status;
}

static void add_fault(audit *a, const gyre_error *why, const char *key, const char *left) {
    audit_finding *f = audit_add_error(a, AUDIT_WRONG, "config", why->text);
    const size_t length = strlen(f->text);
    snprintf(f->text + length, sizeof f->text - length, "; found by reading on without %s", left);
    const int64_t line = audit_file_line(&a->config, key);
    if (line > 0) audit_set_place(f, "%s, line %" PRId64, a->described, line);
}

/* A further fault is told only of a key that the file has: one that is missing may be missing because it was left out. */
void audit_read_again(audit *a) {
    char key[MAX_KEY], left[LEFT] = "";
    size_t length = 0;
    gyre_error why = a->refused;
    json_t *root = a->reading || !a->config.text ? NULL : json_loads(a->config.text, 0, NULL);
    for (int i = 0; i < MOST && root; i++) {
        gyre_error next = {0, ""};
        if (!key_of(why.text, key) || !leave_out(root, key)) break;
        if (length + strlen(key) + 3 < sizeof left)
            length += (size_t)snprintf(left + length, sizeof left - length, "%s%s", length ? ", " : "", key);
        const gyre_status status = read_values(a, root, &next);
        if (status != GYRE_EFORMAT && status != GYRE_EUNSUPPORTED) break;
        if (key_of(next.text, key) && has_key(root, key)) add_fault(a, &next, key, left);
        why = next;
    }
    json_decref(root);
}
