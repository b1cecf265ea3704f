/* passkey_prompt.h: the prompt of passkey retrieval (Mohtashami and Jaggi 2023, arXiv 2305.16300): a key hidden in filler.
 *
 * Five lines: what is asked for, filler, the needle with the key, filler, the question.  Filler is whole sentences, so many
 * that the prompt and the answer to it just fit into a length in tokens.  Needle, question and answer may be others than the
 * published ones; "{key}" in any of them stands for the key of a trial. */
#ifndef GYRE_TOOLS_PASSKEY_PROMPT_H
#define GYRE_TOOLS_PASSKEY_PROMPT_H
#include "gyre/gyre_model.h"

#define PASSKEY_NEEDLE   "The pass key is {key}. Remember it. {key} is the pass key."
#define PASSKEY_QUESTION "What is the pass key? The pass key is"
#define PASSKEY_ANSWER   "{key}"

typedef struct passkey_phrases {
    const char *needle, *question, *answer; /* borrowed */
} passkey_phrases;

/* What the prompts of one length are made with. */
typedef struct passkey_template {
    const gyre_tokenizer *tokenizer; /* borrowed */
    passkey_phrases phrases;
    int64_t length; /* tokens of prompt and answer at most */
    int64_t steps;  /* tokens that an answer may take; 0 = as many as it has bytes, and one for the space before it */
    int64_t initial_sentences; /* sentences of filler that about fit */
    uint64_t hash;             /* FNV-1a of the tokens of one such prompt: tells tokenizers and words apart */
} passkey_template;

/* One prompt.  Depth is measured in filler: `before` of `sentences` stand before the needle. */
typedef struct passkey_prompt {
    char *answer; /* what has to come */
    int32_t *ids; /* [count] */
    int64_t count, steps;
    int64_t sentences, before;
} passkey_prompt;

/* *maker = for prompts of at most `length` tokens with their answers.  Errors: EINVAL (not even a prompt without filler
 * fits), those of gyre_tokenize, ENOMEM. */
gyre_status passkey_template_init(passkey_template *template, const gyre_tokenizer *tokenizer,
                                  const passkey_phrases *phrases, int64_t length, int64_t steps, gyre_error *err);
/* *out = the prompt with the key at `depth`, 0 (right at the beginning) to 1, to within half a sentence: a pure function of
 * its arguments.  Errors: the same. */
gyre_status passkey_prompt_make(passkey_prompt *out, const passkey_template *template, double depth, int key,
                                gyre_error *err);
void passkey_prompt_free(passkey_prompt *prompt); /* one that was zeroed, or made */
/* out = the text of a prompt with so many sentences of filler, which the caller frees; NULL = out of memory. */
char *passkey_prompt_text(const passkey_phrases *phrases, int64_t sentences, int64_t before, int key);

/* The key of a trial, five digits: the same whatever other lengths, depths, trials and methods there are. */
int passkey_key(uint64_t seed, int64_t length, double depth, int64_t trial);

/* out = 1 where text, but for space before it, begins with the answer, and a number in it does not go on. */
int passkey_is_exact(const char *answer, const char *text);

#endif
