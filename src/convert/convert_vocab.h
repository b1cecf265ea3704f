/* convert_vocab.h: a model's tokens in memory, between the formats of tokenizers. */
#ifndef GYRE_CONVERT_VOCAB_H
#define GYRE_CONVERT_VOCAB_H
#include "files/gguf_writer.h"
#include "gyre/gyre_model.h"

/* tokenizer.ggml.token_type of a GGUF. */
enum {
    GYRE_TOKEN_NORMAL = 1,
    GYRE_TOKEN_UNKNOWN,
    GYRE_TOKEN_CONTROL,
    GYRE_TOKEN_USER_DEFINED,
    GYRE_TOKEN_UNUSED,
    GYRE_TOKEN_BYTE
};

typedef struct gyre_convert_token {
    char *text; /* UTF-8; a space is U+2581, or of byte-level tokens every byte is a character of GPT-2's alphabet */
    float score;
    int kind;
} gyre_convert_token;

typedef struct gyre_convert_vocab {
    int byte_level;                  /* 1: GPT-2's kind, with merges; 0: sentencepiece's, with scores */
    gyre_convert_token *id_to_token; /* [count] */
    int64_t count;
    char **merges; /* [merges_count] "a b" */
    int64_t merges_count;
    char tokenizer_pre[48];           /* name of the pre-tokenizer, as in tokenizer.ggml.pre; "" unless byte_level */
    int32_t begin, end, unknown, pad; /* -1 = none */
    int adds_begin, adds_end, space_prefix;
    char *chat_template; /* or NULL */
} gyre_convert_vocab;

/* *out = `count` normal tokens without text. */
gyre_status gyre_convert_vocab_init(gyre_convert_vocab *out, int64_t count, gyre_error *err);
void gyre_convert_vocab_free(gyre_convert_vocab *vocab);
/* Sets the text of a token to a copy of text[0 .. bytes - 1].  Errors: EFORMAT (not UTF-8, or a NUL in it), ENOMEM. */
gyre_status gyre_convert_vocab_set_text(gyre_convert_vocab *vocab, int64_t id, const char *text, size_t bytes,
                                        const char *path, gyre_error *err);

/* Readers.  *there = 0, with *out empty, if the source has no tokenizer.  vocab: tokens that the model has.  options:
 * where losses are reported; NULL = nowhere. */
gyre_status gyre_convert_vocab_from_gguf(gyre_convert_vocab *out, int *there, const gyre_gguf *file, const char *path,
                                         gyre_error *err);
gyre_status gyre_convert_vocab_from_json(gyre_convert_vocab *out, int *there, const char *folder, int64_t vocab,
                                         const gyre_convert_options *options, gyre_error *err);
gyre_status gyre_convert_vocab_from_llama2c(gyre_convert_vocab *out, const char *path, int64_t vocab, gyre_error *err);
/* The tokens of a model made here, whose ids are bytes: byte-level, without merges. */
enum { GYRE_BYTE_TOKENS = 256 };
gyre_status gyre_convert_vocab_from_bytes(gyre_convert_vocab *out, gyre_error *err);

/* Writers. */
void gyre_convert_vocab_to_gguf(const gyre_convert_vocab *p, gyre_gguf_writer *keys);
/* *out = tokenizer.json, *config = tokenizer_config.json, both freed by the caller.  length: tokens that the model
 * serves. */
gyre_status gyre_convert_vocab_to_json(const gyre_convert_vocab *vocab, int64_t length, const gyre_convert_options *options,
                                       char **out, char **config, gyre_error *err);

#endif
