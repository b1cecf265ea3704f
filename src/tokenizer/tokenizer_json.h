/* tokenizer_json.h: a tokenizer.json while it is read. */
#ifndef GYRE_TOKENIZER_JSON_H
#define GYRE_TOKENIZER_JSON_H
#include "tokenizer/tokenizer.h"

#include <jansson.h>

typedef struct gyre_tokenizer_json_reader {
    const char *path, *text;
    size_t bytes;
    const json_t *root, *model; /* model: member "model" of root */
    gyre_tokenizer *t;
    gyre_prepend_scheme prepend_scheme;
    int spaces;                                   /* 1: pieces write a space as U+2581 */
    int byte_level;                               /* 1: pieces are written in GPT-2's alphabet */
    int normalizer_prepends, normalizer_replaces; /* 1: the normalizer puts a space before a text; writes spaces as U+2581 */
    gyre_error *err;
} gyre_tokenizer_json_reader;

/* Fails with "WHY (path, line N)".  key: the member whose line and offset are reported, its keys joined by dots. */
gyre_status gyre_tokenizer_json_fail(const gyre_tokenizer_json_reader *r, gyre_status status, const char *key,
                                     const char *format, ...) __attribute__((format(printf, 4, 5)));
/* Reads normalizer, pre_tokenizer and decoder: sets prepend_scheme, spaces, byte_level and t->steps.  Needs no
 * vocabulary. */
gyre_status gyre_tokenizer_json_pipeline(gyre_tokenizer_json_reader *r);
/* Sets the begin, end, pad and unknown tokens, from post_processor and, unless folder is NULL, from the
 * tokenizer_config.json and config.json there.  Needs the vocabulary.  Errors: EIO, ENOMEM. */
gyre_status gyre_tokenizer_json_special_tokens(const gyre_tokenizer_json_reader *r, const char *folder);
/* out = the string, or "" if the member is missing or no string. */
const char *gyre_tokenizer_json_string(const json_t *object, const char *key);

#endif
