/* audit_files.c: the JSON files of a model, and the line of a key. */
#include "tools/audit/audit.h"
#include "util/error.h"
#include "util/plain_numbers.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_FILE_BYTES = 64 << 20 };

/* *text = a copy of a regular file, *size long and ended by a NUL; NULL with *refused = 1 if it is not a regular file or
 * too large. */
static gyre_status read_bytes(const char *path, const char *name, char **text, size_t *size, int *refused, gyre_error *err) {
    struct stat info;
    *text = NULL;
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return gyre_fail(err, GYRE_EIO, "%s: %s (%s)", name, strerror(errno), path);
    gyre_status status = GYRE_OK;
    if (fstat(fd, &info)) {
        status = gyre_fail(err, GYRE_EIO, "%s: %s (%s)", name, strerror(errno), path);
    } else if (!S_ISREG(info.st_mode) || info.st_size > MAX_FILE_BYTES) {
        *refused = 1;
    } else if (!(*text = calloc((size_t)info.st_size + 1, 1))) {
        status = gyre_fail(err, GYRE_ENOMEM, "%s: out of memory (%s)", name, path);
    } else {
        ssize_t got = 1;
        for (*size = 0; *size < (size_t)info.st_size && got > 0; *size += got > 0 ? (size_t)got : 0)
            got = read(fd, *text + *size, (size_t)info.st_size - *size);
        if (got < 0) status = gyre_fail(err, GYRE_EIO, "%s: %s (%s)", name, strerror(errno), path);
    }
    close(fd);
    return status;
}

/* Python writes NaN and Infinity, which no JSON has: they become a text and a large number of as many bytes. */
static void replace_words(char *text) {
    static const struct { const char *word, *instead; } words[] = {{"NaN", "\"\" "}, {"Infinity", "1e300   "}};
    for (char *at = text; *at; at++) {
        if (*at == '"') {
            for (at++; *at && *at != '"'; at++)
                if (*at == '\\' && at[1]) at++;
            if (!*at) return;
            continue;
        }
        for (size_t i = 0; i < sizeof words / sizeof *words; i++)
            if (strncmp(at, words[i].word, strlen(words[i].word)) == 0)
                memcpy(at, words[i].instead, strlen(words[i].instead));
    }
}

/* out = what a value is that is no object: "an array". */
static const char *type_of(const json_t *value) {
    return json_is_array(value)    ? "an array"
           : json_is_string(value) ? "a string"
           : json_is_number(value) ? "a number"
           : json_is_null(value)   ? "null"
                                   : "true or false";
}

static int is_blank(const char *text) {
    return text[strspn(text, " \t\r\n")] == 0;
}

/* The reason why a text is not a JSON object. */
static void set_fault(audit_file *out, const json_t *root, const json_error_t *error) {
    if (root)
        snprintf(out->fault, sizeof out->fault, "%s is not a JSON object: it is %s", out->name, type_of(root));
    else if (is_blank(out->text))
        snprintf(out->fault, sizeof out->fault, "%s is not a JSON object: it is empty", out->name);
    else
        snprintf(out->fault, sizeof out->fault, "%s is not a JSON object: %s", out->name, error->text);
    if (!root && error->line > 0) out->fault_line = error->line;
}

gyre_status audit_file_open(audit_file *out, const char *path, const char *name, gyre_error *err) {
    json_error_t error = {.line = 1};
    int refused = 0;
    size_t size = 0;
    *out = (audit_file){.name = name};
    const gyre_status status = read_bytes(path, name, &out->text, &size, &refused, err);
    if (refused) snprintf(out->fault, sizeof out->fault, "%s is larger than 64 MiB or not a file", name);
    if (status || !out->text) return status;
    replace_words(out->text);
    json_t *root = json_loadb(out->text, size, JSON_DECODE_INT_AS_REAL | JSON_DECODE_ANY, &error);
    if (json_is_object(root)) {
        out->root = root;
        return GYRE_OK;
    }
    set_fault(out, root, &error);
    json_decref(root);
    return GYRE_OK;
}

gyre_status audit_file_find(audit *a, audit_file *out, const char *name, const char *check, gyre_error *err) {
    char path[PATH_MAX];
    *out = (audit_file){.name = name};
    int there = 0;
    gyre_status status = audit_find_file(a, name, &there, err);
    if (status || !there || snprintf(path, sizeof path, "%s%s", a->folder, name) >= (int)sizeof path) return status;
    status = audit_file_open(out, path, name, err);
    if (status || out->root) return status;
    audit_finding *f = audit_add(a, AUDIT_WRONG, check, "%s", out->fault);
    if (out->fault_line) audit_set_place(f, "%s, line %d", name, out->fault_line);
    return GYRE_OK;
}

void audit_file_close(audit_file *file) {
    json_decref(file->root);
    free(file->text);
    *file = (audit_file){.name = file->name};
}

/* out = the first place from `from` on where "key" is followed by a colon. */
static const char *find_key(const char *from, const char *key, size_t length) {
    for (const char *at = strchr(from, '"'); at; at = strchr(at + 1, '"')) {
        if (strncmp(at + 1, key, length) != 0 || at[1 + length] != '"') continue;
        const char *after = at + 2 + length;
        after += strspn(after, " \t\r\n");
        if (*after == ':') return at;
    }
    return NULL;
}

int64_t audit_file_line(const audit_file *file, const char *key) {
    const char *at = file->text;
    int64_t line = 1;
    while (at) {
        const size_t length = strcspn(key, ".");
        at = find_key(at, key, length);
        if (!key[length]) break;
        key += length + 1;
    }
    for (const char *c = file->text; at && c < at; c++)
        line += *c == '\n';
    return at ? line : 0;
}

int64_t audit_file_next_line(const char **at, int64_t *line, const char *key) {
    const char *found = *at ? find_key(*at, key, strlen(key)) : NULL;
    for (const char *c = *at; found && c < found; c++)
        *line += *c == '\n';
    *at = found ? found + 1 : NULL;
    return found ? *line : 0;
}

void audit_value_text(const json_t *value, char out[AUDIT_VALUE]) {
    const double number = json_number_value(value);
    if (json_is_number(value)) {
        snprintf(out, AUDIT_VALUE, "%.16g", number);
        return;
    }
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_ENSURE_ASCII);
    gyre_plain_snprintf(out, AUDIT_VALUE, "%.60s%s", text ? text : "?", text && strlen(text) > 60 ? "..." : "");
    free(text);
}
