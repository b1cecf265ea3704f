/* convert_pre_tokenizer.h: the pre-tokenizers of byte-level tokenizers, which a GGUF gives by name and a tokenizer.json
 * by pattern. */
#ifndef GYRE_CONVERT_PRE_TOKENIZER_H
#define GYRE_CONVERT_PRE_TOKENIZER_H

/* out = the pattern of a Split; "" if the pattern of ByteLevel is enough; NULL if the name is not known.  *digits = 1 if
 * each digit is a word of its own. */
const char *gyre_pre_tokenizer_pattern(const char *name, int *digits);
/* out = the name, or NULL. */
const char *gyre_pre_tokenizer_name(const char *pattern, int digits);

#endif
