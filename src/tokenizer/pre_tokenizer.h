/* pre_tokenizer.h: text cut into words by patterns, one after the other, each within the words of those before. */
#ifndef GYRE_MODEL_PRE_TOKENIZER_H
#define GYRE_MODEL_PRE_TOKENIZER_H
#include "gyre/gyre.h"

/* What becomes of a match and of what lies between matches. */
typedef enum gyre_split_behavior {
    GYRE_SPLIT_ISOLATED,             /* each is a word */
    GYRE_SPLIT_CONTIGUOUS,           /* matches side by side are one */
    GYRE_SPLIT_MERGED_WITH_PREVIOUS, /* a match belongs to what lies before it */
    GYRE_SPLIT_MERGED_WITH_NEXT      /* ... after it */
} gyre_split_behavior;

enum { GYRE_MAX_PRE_TOKENIZER_STEPS = 24, GYRE_MAX_PATTERN_BYTES = 65535 };

typedef struct gyre_pre_tokenizer_step {
    void *code; /* pcre2_code */
    gyre_split_behavior behavior;
    int inverted; /* 1: what lies between is taken for the matches, and the other way round */
} gyre_pre_tokenizer_step;
typedef struct gyre_pre_tokenizer {
    gyre_pre_tokenizer_step steps[GYRE_MAX_PRE_TOKENIZER_STEPS];
    int count;
} gyre_pre_tokenizer;

/* Adds a step.  literal: the pattern is a string to look for; else a regular expression as Oniguruma reads them.  err->text
 * is "why": the field and the path are the caller's to add.  EFORMAT, EUNSUPPORTED, ENOMEM. */
gyre_status gyre_pre_tokenizer_add(gyre_pre_tokenizer *steps, const char *pattern, size_t bytes, int literal,
                                   gyre_split_behavior behavior, int inverted, gyre_error *err);
void gyre_pre_tokenizer_free(gyre_pre_tokenizer *steps);
/* *out = the pattern (with a NUL) as PCRE2 reads it: a class within a class is opened up, an interval followed by a plus
 * repeats.  The caller frees it. */
gyre_status gyre_pattern_translate(const char *pattern, size_t bytes, char **out, gyre_error *err);

/* Who gets the words. */
typedef gyre_status (*gyre_word_callback)(void *ctx, const unsigned char *word, size_t bytes, gyre_error *err);
/* Hands over the words in order; together they are the text.  Bytes that are no UTF-8 are words of their own. */
gyre_status gyre_pre_tokenize(const gyre_pre_tokenizer *steps, const unsigned char *text, size_t bytes,
                              gyre_word_callback take, void *ctx, gyre_error *err);

#endif
