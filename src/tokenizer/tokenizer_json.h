/* tokenizer_json.h: a tokenizer.json while it is read. */
#ifndef GYRE_MODEL_TOKENIZER_JSON_H
#define GYRE_MODEL_TOKENIZER_JSON_H
#include "tokenizer/tokenizer.h"

#include <jansson.h>

typedef struct gyre_tokenizer_json_reader {
    const char *path, *text;
    size_t bytes;
    const json_t *root, *model;
    gyre_tokenizer *t;
    gyre_prepend_scheme prepend_scheme;
    int spaces;     /* 1: pieces write a space as U+2581 */
    int byte_level; /* 1: pieces are written in GPT-2's alphabet */
    gyre_error *err;
} gyre_tokenizer_json_reader;

/* Fails with "FIELD: WHY (path, line N)"; key: the member that line and offset are of, keys joined by dots. */
gyre_status gyre_tokenizer_json_fail(const gyre_tokenizer_json_reader *r, gyre_status status, const char *key,
                                     const char *format, ...) __attribute__((format(printf, 4, 5)));
/* Sets prefix, spaces, byte_level and the steps of t, which need no vocabulary. */
gyre_status gyre_tokenizer_json_pipeline(gyre_tokenizer_json_reader *r);
/* out = the string, or "" where it is none. */
const char *gyre_tokenizer_json_string(const json_t *object, const char *key);

#endif
