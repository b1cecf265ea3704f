/* fuzz_words.h: a small vocabulary chosen by the bytes of an input, the files of a model that has it, and what it makes of
 * a word by the definition of byte pair encoding. */
#ifndef GYRE_FUZZ_WORDS_H
#define GYRE_FUZZ_WORDS_H
#include "fuzz_bytes.h"

#include <stddef.h>
#include <stdint.h>

enum { WORDS_MOST = 400, WORDS_BYTES = 32, WORDS_MERGES = 512, WORDS_FILE_BYTES = 1 << 16 };

/* tokenizer.ggml.token_type */
typedef enum fuzz_word_kind {
    FUZZ_WORD_NONE, /* no token has the id */
    FUZZ_WORD_NORMAL,
    FUZZ_WORD_UNKNOWN,
    FUZZ_WORD_CONTROL,
    FUZZ_WORD_USER_DEFINED,
    FUZZ_WORD_UNUSED,
    FUZZ_WORD_BYTE
} fuzz_word_kind;

typedef struct fuzz_word {
    char text[WORDS_BYTES]; /* as files spell it */
    fuzz_word_kind kind;
    float score;
} fuzz_word;

typedef struct fuzz_merge {
    int left, right, merged;
} fuzz_merge;

/* What a conversion to the other container has to do. */
typedef enum fuzz_words_outcome { FUZZ_WORDS_EITHER, FUZZ_WORDS_CONVERT, FUZZ_WORDS_REFUSE } fuzz_words_outcome;

typedef struct fuzz_words {
    int gguf, byte_level;
    fuzz_word word[WORDS_MOST];
    int count;                      /* ids are below it */
    fuzz_merge merge[WORDS_MERGES]; /* in the order of the list */
    int merges;
    int begin, end, unknown, pad; /* -1 = none */
    int adds_begin, space_prefix; /* -1: the file does not say */
    int pre_tokenizer;            /* a row of fuzz_words_files.c */
    int ignores_merges, normalized, strips, prepends_first, pairs_are_lists;
    int adds_end;          /* the template, or a key of the GGUF, asks for the end token after a text */
    int decoder;           /* a row of fuzz_words_files.c */
    int config_names_them; /* begin and end stand in config.json alone */
    int other_name;        /* the pre-tokenizer has another name too, which a conversion gives it */
    fuzz_words_outcome outcome;
} fuzz_words;

/* *w = a vocabulary, all of it chosen by the bytes. */
void fuzz_words_choose(fuzz_words *w, fuzz_bytes *b);
/* ids[n] = what merges make of text, letters alone, all one word; out = n, or -1 where a letter has no token. */
int fuzz_words_merge(const fuzz_words *w, const char *text, size_t bytes, int32_t *ids);

/* -- files (fuzz_words_files.c) -- */
/* Draws the row of the pre-tokenizer, which may set the outcome. */
void fuzz_words_choose_pre_tokenizer(fuzz_words *w, fuzz_bytes *b);
/* The same of the decoder of a tokenizer.json. */
void fuzz_words_choose_decoder(fuzz_words *w, fuzz_bytes *b);
/* Writes a llama of so many tokens into the folder of fuzz_path: NAME/config.json, with more_config at its end,
 * NAME/model.safetensors, NAME/tokenizer.json of these bytes and, if settings is not NULL, NAME/tokenizer_config.json. */
void fuzz_words_write_folder(const char *name, int vocab, const char *json, size_t bytes, const char *settings,
                             const char *more_config);
/* The same as a GGUF with the keys of w. */
void fuzz_words_write_gguf(const char *name, const fuzz_words *w);
/* out = bytes of the tokenizer.json, or of the tokenizer_config.json. */
size_t fuzz_words_json(const fuzz_words *w, char out[WORDS_FILE_BYTES]);
size_t fuzz_words_settings(const fuzz_words *w, char out[WORDS_FILE_BYTES]);

#endif
