/* audit.c: the list of findings, and what several checks ask for. */
#include "tools/audit/audit.h"
#include "gyre/gyre_fields.h"
#include "tools/diff/diff_compare.h"
#include "util/error.h"
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

audit_finding *audit_add(audit *a, audit_status status, const char *check, const char *format, ...) {
    const int full = audit_is_full(a, status);
    audit_finding *f = full ? &a->spare : &a->findings[a->count++];
    (full ? a->dropped : a->kept)[status]++;
    *f = (audit_finding){.status = status, .check = check, .count = 1};
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(f->text, sizeof f->text, format, arguments);
    va_end(arguments);
    return f;
}

void audit_set_place(audit_finding *finding, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(finding->place, sizeof finding->place, format, arguments);
    va_end(arguments);
}

void audit_set_remedy(audit_finding *finding, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(finding->remedy, sizeof finding->remedy, format, arguments);
    va_end(arguments);
}

/* out = " (...)" at the end of a text; NULL = there is none. */
static char *last_bracket(char *text) {
    char *last = NULL;
    for (char *at = strstr(text, " ("); at; at = strstr(at + 1, " ("))
        last = at;
    const size_t length = last ? strlen(last) : 0;
    return length >= 3 && last[length - 1] == ')' ? last : NULL;
}

audit_finding *audit_add_error(audit *a, audit_status status, const char *check, const char *text) {
    audit_finding *f = audit_add(a, status, check, "%s", text);
    char *place = last_bracket(f->text);
    if (place && strncmp(place + 2, a->path, strlen(a->path)) == 0) {
        audit_set_place(f, "%.*s", (int)strlen(place) - 3, place + 2);
        *place = 0;
    }
    /* Structs of the library, which users who read files do not have. */
    place = last_bracket(f->text);
    if (place && (strcmp(place, " (model)") == 0 || strcmp(place, " (gyre_config)") == 0)) *place = 0;
    return f;
}

gyre_status audit_no_memory(const audit *a, gyre_error *err) {
    return gyre_fail(err, GYRE_ENOMEM, "MODEL: out of memory (%s)", a->path);
}

int audit_is_failure(gyre_status status) {
    return status == GYRE_ENOMEM || status == GYRE_EIO;
}

int audit_has_key_twice(const audit *a) {
    return !a->reading && !a->is_gguf && strstr(a->refused.text, "duplicate object key") != NULL;
}

void audit_recount(audit *a) {
    memset(a->kept, 0, sizeof a->kept);
    for (int i = 0; i < a->count; i++)
        a->kept[a->findings[i].status]++;
}

int audit_is_full(const audit *a, audit_status status) {
    return a->kept[status] >= AUDIT_ROOM;
}

int audit_count(const audit *a, audit_status status) {
    return a->kept[status] + a->dropped[status];
}

gyre_status audit_find_path(const char *path, struct stat *info, int *there, gyre_error *err) {
    *there = stat(path, info) == 0;
    return *there || errno == ENOENT ? GYRE_OK : gyre_fail(err, GYRE_EIO, "%s: %s (audit)", path, strerror(errno));
}

gyre_status audit_find_file(const audit *a, const char *name, int *there, gyre_error *err) {
    char path[PATH_MAX];
    struct stat info;
    *there = 0;
    if (!*a->folder || snprintf(path, sizeof path, "%s%s", a->folder, name) >= (int)sizeof path) return GYRE_OK;
    return audit_find_path(path, &info, there, err);
}

const json_t *audit_decoder(const audit *a) {
    static const char *const keys[] = {"text_config", "llm_config", "language_config", "thinker_config", "decoder", NULL};
    const json_t *object = a->config.root;
    for (int i = 0; keys[i]; i++) {
        const json_t *inside = json_object_get(object, keys[i]);
        if (!json_is_object(inside)) continue;
        const json_t *text = json_object_get(inside, "text_config");
        return json_is_object(text) ? text : inside;
    }
    return object;
}

int64_t audit_context(const audit *a) {
    if (!a->reading) {
        const double length = json_number_value(json_object_get(audit_decoder(a), "max_position_embeddings"));
        return length >= 1 && length < 9e15 ? (int64_t)length : 0;
    }
    const gyre_layer_reading *group = a->reading->groups[0];
    const gyre_reading_field *stated = explain_find_field(group, "max_length");
    const gyre_config *config = &group->config;
    double context = stated ? strtod(stated->value, NULL) : 0;
    const double reached = gyre_kind_has(config->kind, GYRE_TRAIT_ROTATES) && config->rope.factor > 1
                               ? config->rope.factor * (double)config->trained_length
                               : 0;
    if (reached > context) context = reached;
    return context > 0 && context < 9e15 ? (int64_t)context : 0;
}
