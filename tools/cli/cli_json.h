/* cli_json.h: building and printing JSON with jansson. */
#ifndef GYRE_TOOLS_CLI_JSON_H
#define GYRE_TOOLS_CLI_JSON_H
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

/* Called once, before any JSON is read or made: from then on an allocation of jansson's that fails ends the command. */
void cli_json_watch_memory(void);

/* out = the JSON in a file, with "" for NaN and Infinity, which Python writes; NULL if it is none or cannot be read. */
json_t *cli_json_load(const char *path);
/* out = status, or CLI_FAILED with the error printed if cli_json_load could not read a file and status is not CLI_FAILED. */
int cli_json_check(int status);
/* Writes root and a newline, and releases root.  NULL root: reports that memory ran out.  out = 0 or CLI_FAILED. */
int cli_json_write(FILE *file, json_t *root);
/* Writes root on one line of standard output and flushes, for results that come one by one.  Releases root. */
int cli_json_line(json_t *root);

/* Makers return NULL if memory runs out.  jansson refuses NULL as a value, so one check after many calls is enough. */
json_t *cli_json_number(double value);                         /* null if JSON has no number for it */
json_t *cli_json_nonzero(int64_t value);                       /* null for 0 */
json_t *cli_json_text(const char *text);                       /* bytes that are not UTF-8 become '?'; null for NULL */
json_t *cli_json_hash(uint64_t hash);                          /* "fnv1a64:0123456789abcdef" */
json_t *cli_json_numbers(const double *values, int64_t count); /* NULL too if one is not finite */
json_t *cli_json_integers(const int64_t *values, int64_t count);

/* out = an object of keys and values, which it takes over; a value that is NULL leaves its key out. */
#define JSON_OBJECT(...) cli_json_add(json_object(), __VA_ARGS__, (const char *)NULL)
/* Adds keys and values to an object. */
#define JSON_ADD(object, ...) (void)cli_json_add(object, __VA_ARGS__, (const char *)NULL)
/* out = value as JSON: a number, null if it is not finite; an integer; a text, null for NULL. */
#define JSON(value)                                                                                                         \
    _Generic((value),                                                                                                       \
        double: cli_json_number,                                                                                            \
        int: json_integer,                                                                                                  \
        long: json_integer,                                                                                                 \
        long long: json_integer,                                                                                            \
        unsigned long: json_integer,                                                                                        \
        char *: cli_json_text,                                                                                              \
        const char *: cli_json_text)(value)
json_t *cli_json_add(json_t *object, ...) __attribute__((sentinel));

/* object[key] = value, releasing value.  out = 1 if memory ran out. */
int cli_json_set(json_t *object, const char *key, json_t *value);
/* Appends value, releasing it.  out = list; NULL, with list released, if list or value is NULL or memory ran out. */
json_t *cli_json_append(json_t *list, json_t *value);
/* out = json; NULL, with json released, if failed. */
json_t *cli_json_checked(json_t *json, int failed);

#endif
