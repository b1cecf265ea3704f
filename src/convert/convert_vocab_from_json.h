/* convert_vocab_from_json.h: a tokenizer.json while its tokens are read for a GGUF. */
#ifndef GYRE_CONVERT_VOCAB_FROM_JSON_H
#define GYRE_CONVERT_VOCAB_FROM_JSON_H
#include "convert/convert_vocab.h"
#include "convert/convert_vocab_pipeline.h"

#include <jansson.h>

typedef struct gyre_vocab_reader {
    const char *path;
    const json_t *root, *model, *settings, *config; /* settings: tokenizer_config.json; config: config.json; or NULL */
    const gyre_convert_pipeline *pipeline;
    const gyre_convert_options *options;
    gyre_convert_vocab *out;
    gyre_error *err;
} gyre_vocab_reader;

/* Fails with "tokenizer.json: WHAT: WHY (path)". */
gyre_status gyre_vocab_fail(const gyre_vocab_reader *r, gyre_status status, const char *what, const char *why);
/* gyre_convert_lose with the same words. */
gyre_status gyre_vocab_lose(const gyre_vocab_reader *r, const char *what, const char *why);
/* out = the string, or "" if the member is missing or no string. */
const char *gyre_vocab_text(const json_t *object, const char *key);
/* Sets text and kind of a token.  Errors: EFORMAT (an id that the model has no row for, no UTF-8), ENOMEM. */
gyre_status gyre_vocab_set_token(const gyre_vocab_reader *r, const char *text, const json_t *id, int kind);

/* Reads added_tokens, once the vocabulary is read. */
gyre_status gyre_vocab_read_added(const gyre_vocab_reader *r);
/* Sets begin, end, unknown and pad, and what is put around a text, once all tokens are read. */
gyre_status gyre_vocab_read_special(const gyre_vocab_reader *r);
/* Loses, or refuses, what else of decoder, post_processor and model a GGUF cannot say.  Call last. */
gyre_status gyre_vocab_check_rest(const gyre_vocab_reader *r);

#endif
