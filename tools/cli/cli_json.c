/* cli_json.c: JSON results. */
#include "tools/cli/cli_json.h"
#include "tools/cli/cli_error.h"
#include "tools/cli/cli_output.h"
#include "tools/cli/cli_signals.h"
#include "util/json_load.h"
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* -- memory -- */
/* jansson 2.14 continues after some allocations that failed: characters of a string are lost, a text seems to be
 * malformed, and json_delete frees what never was allocated.  So none fails: the command ends first. */
static void *allocate(size_t bytes) {
    void *memory = malloc(bytes);
    if (!memory) cli_end_without_memory();
    return memory;
}

void cli_json_watch_memory(void) {
    json_set_alloc_funcs(allocate, free);
}

/* -- reading -- */
static const char *unread; /* why a file was not read */
static int reported;

int cli_json_check(int status) {
    if (!unread || status == CLI_FAILED || reported) return status;
    reported = 1;
    return cli_fail("JSON: %s (reading a file again)", unread);
}

static char *read_text(FILE *file, size_t *bytes) {
    char *text = NULL;
    FILE *copy = open_memstream(&text, bytes);
    if (!copy) cli_end_without_memory();
    for (int c; (c = getc(file)) != EOF;)
        (void)putc(c, copy);
    const int lost = ferror(copy);
    if (fclose(copy) || lost) cli_end_without_memory();
    return text;
}

json_t *cli_json_load(const char *path) {
    json_error_t why;
    size_t bytes = 0;
    FILE *file = fopen(path, "rb");
    char *text = file ? read_text(file, &bytes) : NULL;
    const int code = file && !ferror(file) ? 0 : errno ? errno : EIO;
    json_t *root = text && !code ? gyre_json_load(text, bytes, &why) : NULL;
    if (!root) unread = code ? strerror(code) : "not JSON";
    if (file) (void)fclose(file);
    free(text);
    return root;
}

/* -- writing -- */
int cli_json_write(FILE *file, json_t *root) {
    int bad = 1;
    if (root) bad = json_dumpf(root, file, JSON_INDENT(2)) || fputc('\n', file) == EOF;
    if (!root) return cli_fail("JSON: out of memory (result)");
    json_decref(root);
    const char *name = cli_output_name(file);
    return bad ? cli_fail("%s: %s (writing the result)", name ? name : "JSON", strerror(errno)) : 0;
}

int cli_json_line(json_t *root) {
    if (!root) return cli_fail("JSON: out of memory (result)");
    const int bad = json_dumpf(root, cli_stdout(), JSON_COMPACT) || fputc('\n', cli_stdout()) == EOF || fflush(cli_stdout());
    json_decref(root);
    return bad ? cli_fail("standard output: %s (writing the result)", strerror(errno)) : 0;
}

json_t *cli_json_number(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

json_t *cli_json_hash(uint64_t hash) {
    return json_sprintf("fnv1a64:%016llx", (unsigned long long)hash);
}

json_t *cli_json_nonzero(int64_t value) {
    return value ? json_integer(value) : json_null();
}

json_t *cli_json_text(const char *text) {
    if (!text) return json_null();
    json_t *string = json_string(text);
    if (string) return string;
    char *plain = strdup(text);
    for (char *c = plain; c && *c; c++)
        if ((unsigned char)*c >= 0x80) *c = '?';
    string = plain ? json_string(plain) : NULL;
    free(plain);
    return string;
}

json_t *cli_json_add(json_t *object, ...) {
    va_list pairs;
    va_start(pairs, object);
    for (const char *key; (key = va_arg(pairs, const char *));) {
        json_t *value = va_arg(pairs, json_t *);
        if (value) (void)json_object_set_new(object, key, value);
    }
    va_end(pairs);
    return object;
}

int cli_json_set(json_t *object, const char *key, json_t *value) {
    return json_object_set_new(object, key, value) != 0;
}

json_t *cli_json_checked(json_t *json, int failed) {
    if (!failed) return json;
    json_decref(json);
    return NULL;
}

json_t *cli_json_append(json_t *list, json_t *value) {
    if (list) return cli_json_checked(list, json_array_append_new(list, value) != 0);
    json_decref(value);
    return NULL;
}

json_t *cli_json_numbers(const double *values, int64_t count) {
    json_t *list = json_array();
    for (int64_t i = 0; i < count; i++)
        list = cli_json_append(list, json_real(values[i]));
    return list;
}

json_t *cli_json_integers(const int64_t *values, int64_t count) {
    json_t *list = json_array();
    for (int64_t i = 0; i < count; i++)
        list = cli_json_append(list, json_integer((json_int_t)values[i]));
    return list;
}
