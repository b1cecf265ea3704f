/* convert_vocab_pipeline.h: normalizer and pre_tokenizer of a tokenizer.json, as far as a GGUF can say them. */
#ifndef GYRE_CONVERT_VOCAB_PIPELINE_H
#define GYRE_CONVERT_VOCAB_PIPELINE_H
#include <jansson.h>

typedef struct gyre_convert_pipeline {
    int byte_level;          /* 1: tokens are in the alphabet of GPT-2 */
    int spaces;              /* 1: spaces become U+2581 */
    int space_prefix;        /* 1: a text gets a space before it */
    int normalizer_prepends; /* 1: it is the normalizer that does so */
    int normalizer_replaces; /* 1: it is the normalizer that makes spaces U+2581 */
    int nfc;
    int cuts_before_spaces; /* 1: tokens have a space at their beginning at most */
    int digits;             /* 1: each digit is a separate word */
    int gpt2_pattern;       /* 1: words by the pattern of ByteLevel */
    int splits;
    const char *pattern; /* of the Split; "" = none */
    char refused[96];    /* the step that a GGUF cannot state; "" = none */
} gyre_convert_pipeline;

/* out = that of a parsed tokenizer.json; pattern lives as long as root. */
gyre_convert_pipeline gyre_convert_pipeline_of(const json_t *root);

#endif
