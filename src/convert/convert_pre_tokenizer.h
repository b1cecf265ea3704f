/* convert_pre_tokenizer.h: the pre-tokenizers of byte-level tokenizers, which a GGUF gives by name and a tokenizer.json
 * by pattern. */
#ifndef GYRE_CONVERT_PRE_TOKENIZER_H
#define GYRE_CONVERT_PRE_TOKENIZER_H

typedef struct gyre_named_pre_tokenizer {
    const char *name, *pattern; /* of a Split; "" if the pattern of ByteLevel is enough */
    int digits;                 /* 1 if each digit is a separate word */
    int ignore_merges;          /* 1: a word that is a token becomes that token */
    int adds_begin;             /* what a GGUF without add_bos_token means */
    int nfc;                    /* 1: of models whose texts are brought to NFC */
} gyre_named_pre_tokenizer;

/* out = what llama.cpp does under that name; NULL if the name is not known, or a tokenizer.json cannot state it. */
const gyre_named_pre_tokenizer *gyre_pre_tokenizer_named(const char *name);
/* out = the name, one with the same nfc if there is such, or NULL. */
const char *gyre_pre_tokenizer_name(const char *pattern, int digits, int ignore_merges, int nfc);

#endif
