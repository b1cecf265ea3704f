/* pre_tokenizer_patterns.h: patterns by the name that a GGUF has in tokenizer.ggml.pre. */
#ifndef GYRE_TOKENIZER_PRE_TOKENIZER_PATTERNS_H
#define GYRE_TOKENIZER_PRE_TOKENIZER_PATTERNS_H

/* GPT-2's pattern, which ByteLevel of tokenizer.json applies too. */
#define GYRE_GPT2_PATTERN "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

enum { GYRE_MAX_PATTERNS = 6 };
typedef struct gyre_pre_tokenizer_patterns {
    const char *names; /* " name name ": each between spaces */
    int ignore_merges, adds_begin;
    const char *patterns[GYRE_MAX_PATTERNS]; /* applied one after the other; NULL after the last */
} gyre_pre_tokenizer_patterns;

/* out = the patterns, or NULL if llama.cpp has no such name. */
const gyre_pre_tokenizer_patterns *gyre_pre_tokenizer_patterns_named(const char *name);

#endif
