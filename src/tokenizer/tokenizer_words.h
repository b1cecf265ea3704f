/* tokenizer_words.h: text cut into words by patterns, one after the other, each within the words of those before. */
#ifndef GYRE_MODEL_TOKENIZER_WORDS_H
#define GYRE_MODEL_TOKENIZER_WORDS_H
#include "gyre/gyre.h"

/* What becomes of a match and of what lies between matches. */
typedef enum gyre_word_rule {
    GYRE_WORD_ISOLATED,      /* each is a word */
    GYRE_WORD_CONTIGUOUS,    /* matches side by side are one */
    GYRE_WORD_WITH_PREVIOUS, /* a match belongs to what lies before it */
    GYRE_WORD_WITH_NEXT      /* ... after it */
} gyre_word_rule;

enum { GYRE_WORD_STEPS = 24, GYRE_PATTERN_LONGEST = 65535 };

typedef struct gyre_word_step {
    void *code; /* pcre2_code */
    gyre_word_rule rule;
    int inverted; /* 1: what lies between is taken for the matches, and the other way round */
} gyre_word_step;
typedef struct gyre_word_steps {
    gyre_word_step steps[GYRE_WORD_STEPS];
    int count;
} gyre_word_steps;

/* Adds a step.  literal: the pattern is a string to look for; else a regular expression as Oniguruma reads them.  err->text
 * is "why": the field and the path are the caller's to add.  EFORMAT, EUNSUPPORTED, ENOMEM. */
gyre_status gyre_word_steps_add(gyre_word_steps *steps, const char *pattern, size_t bytes, int literal, gyre_word_rule rule,
                                int inverted, gyre_error *err);
void gyre_word_steps_free(gyre_word_steps *steps);
/* *out = the pattern (with a NUL) as PCRE2 reads it: a class within a class is opened up, an interval followed by a plus
 * repeats.  The caller frees it. */
gyre_status gyre_pattern_translate(const char *pattern, size_t bytes, char **out, gyre_error *err);

/* Who gets the words. */
typedef gyre_status (*gyre_word_taker)(void *ctx, const unsigned char *word, size_t bytes, gyre_error *err);
/* Hands over the words in order; together they are the text.  Bytes that are no UTF-8 are words of their own. */
gyre_status gyre_words_of(const gyre_word_steps *steps, const unsigned char *text, size_t bytes, gyre_word_taker take,
                          void *ctx, gyre_error *err);

#endif
