/* pre_tokenizer.h: splits text into words by patterns.  Each pattern splits the words that the one before it made. */
#ifndef GYRE_TOKENIZER_PRE_TOKENIZER_H
#define GYRE_TOKENIZER_PRE_TOKENIZER_H
#include "gyre/gyre.h"

/* What becomes of matches, and of the text between them. */
typedef enum gyre_split_behavior {
    GYRE_SPLIT_ISOLATED,             /* each match and each text between is a word */
    GYRE_SPLIT_CONTIGUOUS,           /* adjacent matches are one word */
    GYRE_SPLIT_MERGED_WITH_PREVIOUS, /* a match belongs to the text before it */
    GYRE_SPLIT_MERGED_WITH_NEXT      /* a match belongs to the text after it */
} gyre_split_behavior;

enum { GYRE_MAX_PRE_TOKENIZER_STEPS = 24, GYRE_MAX_PATTERN_BYTES = 65535 };

typedef struct gyre_pre_tokenizer_step {
    void *code;    /* pcre2_code */
    void *counted; /* the same, which reports every item that it reaches */
    gyre_split_behavior behavior;
    int inverted; /* 1: matches and the text between them change roles */
} gyre_pre_tokenizer_step;
typedef struct gyre_pre_tokenizer {
    gyre_pre_tokenizer_step steps[GYRE_MAX_PRE_TOKENIZER_STEPS];
    int count;
} gyre_pre_tokenizer;

/* Adds a step.  literal: the pattern is a plain string.  Otherwise it is a regular expression in Oniguruma's syntax.
 * err->text says why it failed, and the caller adds field and path.  Errors: EFORMAT, EUNSUPPORTED, ENOMEM. */
gyre_status gyre_pre_tokenizer_add(gyre_pre_tokenizer *steps, const char *pattern, size_t bytes, int literal,
                                   gyre_split_behavior behavior, int inverted, gyre_error *err);
void gyre_pre_tokenizer_free(gyre_pre_tokenizer *steps);
/* *out = the pattern in PCRE2's syntax, NUL-terminated, which the caller frees.  What means something else to PCRE2 is
 * rewritten or refused (pre_tokenizer_regex.c).  Errors: EFORMAT, EUNSUPPORTED, ENOMEM. */
gyre_status gyre_pattern_translate(const char *pattern, size_t bytes, char **out, gyre_error *err);

/* Receives a word. */
typedef gyre_status (*gyre_word_callback)(void *ctx, const unsigned char *word, size_t bytes, gyre_error *err);
/* out = the work that patterns may take on a text of so many bytes. */
uint64_t gyre_pre_tokenizer_work(size_t bytes);
/* Passes the words to `take`, in order.  Together they are the text.  A run of bytes that is not UTF-8 is a word of its
 * own.  *work_left: what gyre_pre_tokenizer_work gave for the whole text, of which this may be a piece; the work is taken
 * from it. */
gyre_status gyre_pre_tokenize(const gyre_pre_tokenizer *steps, const unsigned char *text, size_t bytes, uint64_t *work_left,
                              gyre_word_callback take, void *ctx, gyre_error *err);

#endif
