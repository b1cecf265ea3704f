/* json_write.h: a JSON object written key by key, and as text. */
#ifndef GYRE_FILES_JSON_WRITE_H
#define GYRE_FILES_JSON_WRITE_H
#include <jansson.h>
#include <stdint.h>

/* Failures (no memory) are counted in `failed`, so that callers check once, at the end. */
typedef struct gyre_json_writer {
    json_t *object;
    int failed;
} gyre_json_writer;

/* Sets a key.  Takes over the reference to `value`. */
void gyre_json_put(gyre_json_writer *w, const char *key, json_t *value);
void gyre_json_put_integer(gyre_json_writer *w, const char *key, int64_t value);
void gyre_json_put_number(gyre_json_writer *w, const char *key, double value);
void gyre_json_put_string(gyre_json_writer *w, const char *key, const char *value);

/* out = json_dumps(value, flags), which the caller frees; NULL without memory.  (json_dumps drops what did not fit when its
 * own buffer cannot grow.) */
char *gyre_json_text(const json_t *value, size_t flags);
/* out = the object as text, which the caller frees; NULL without memory.  Numbers have the fewest digits that read back
 * as the same numbers: 1e-5, not 1.0000000000000001e-5. */
char *gyre_json_dump(const json_t *root);

#endif
