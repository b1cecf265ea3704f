/* tokenizer_json_decoder.h: the decoder of a tokenizer.json against how Gyre and readers of a GGUF write ids as text. */
#ifndef GYRE_TOKENIZER_JSON_DECODER_H
#define GYRE_TOKENIZER_JSON_DECODER_H
#include <jansson.h>

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

#endif
