/* tokenizer_json_parts.h: the decoder and the post_processor of a tokenizer.json, and the chat template beside it, also for
 * src/convert. */
#ifndef GYRE_TOKENIZER_JSON_PARTS_H
#define GYRE_TOKENIZER_JSON_PARTS_H
#include "gyre/gyre.h"

#include <jansson.h>
#include <stdint.h>

/* -- decoder, against how Gyre and readers of a GGUF write ids as text (tokenizer_json_decoder.c) -- */
/* What the rest of the file makes of a text, which decoding has to undo. */
typedef struct gyre_json_decoder_task {
    int byte_level;   /* 1: pieces are in GPT-2's alphabet */
    int spaces;       /* 1: pieces write a space as U+2581 */
    int space_prefix; /* 1: a text gets a space before it */
    int bytes;        /* 1: pieces like <0x0A> are bytes */
} gyre_json_decoder_task;

enum { GYRE_JSON_DECODER_WHY = 80 };

/* Returns 1 if the decoder undoes the task and nothing else; else 0, with why[] = the step that is there or missing. */
int gyre_tokenizer_json_decoder_fits(const json_t *decoder, gyre_json_decoder_task task, char why[GYRE_JSON_DECODER_WHY]);

/* -- post_processor: the tokens around a text (tokenizer_json_template.c) -- */
typedef struct gyre_json_template {
    int there;          /* 1: some step is a template; then other files do not determine the tokens around a text */
    int before, after;  /* tokens around a text */
    int64_t begin, end; /* the first and the last of them; -1 = none, or no token of the file */
    int pair_differs;   /* 1: two texts get a token that one alone does not */
    char odd[80];       /* what else it does, such as a token within the text; "" = nothing */
} gyre_json_template;

/* *out = that of a parsed tokenizer.json.  Errors: ENOMEM. */
gyre_status gyre_tokenizer_json_template(const json_t *root, gyre_json_template *out, gyre_error *err);

/* -- chat template (tokenizer_json_special.c) -- */
/* *out = the chat template of a folder, which the caller frees, or NULL: its chat_template.jinja, else the one of settings,
 * its parsed tokenizer_config.json, which may be NULL.  *several = 1 if that has templates with names, of which *out is the
 * one named default, if any.  Errors: EFORMAT (no UTF-8), those of gyre_document_read, ENOMEM. */
gyre_status gyre_tokenizer_json_chat_template(const char *folder, const json_t *settings, char **out, int *several,
                                              gyre_error *err);

#endif
