/* passkey_prompt.h: the prompt of passkey retrieval (Mohtashami and Jaggi 2023, arXiv 2305.16300): a key hidden in filler.
 *
 *     There is an important info hidden ...      the task
 *     The grass is green. The sky is blue. ...   filler before the key
 *     The pass key is 12345. ...                 the needle
 *     The grass is green. ...                    filler after the key
 *     What is the pass key? The pass key is      the question
 *
 * In a chat the model's turn begins with the words that stand before the key in the question:
 *
 *     [the user's turn]    ... What is the pass key?
 *     [the model's turn]   The pass key is
 *
 * The filler consists of whole sentences, as many as fit so that prompt and answer stay within a length in tokens.  Needle,
 * question and answer can be replaced; "{key}" in them stands for the key of a trial. */
#ifndef GYRE_TOOLS_PASSKEY_PROMPT_H
#define GYRE_TOOLS_PASSKEY_PROMPT_H
#include "gyre/gyre_model.h"
#include "tools/chat/chat_prompt.h"

#define PASSKEY_NEEDLE   "The pass key is {key}. Remember it. {key} is the pass key."
#define PASSKEY_QUESTION "What is the pass key? The pass key is"
#define PASSKEY_ANSWER   "{key}"
/* The question in a chat. */
#define PASSKEY_CHAT_QUESTION "What is the pass key?"
#define PASSKEY_CHAT_REPLY    "The pass key is"

typedef struct passkey_phrases {
    const char *needle, *question, *answer; /* borrowed */
    int marks;                              /* 1: those of passkey_marks, without the task */
    const chat *chat;                       /* how a prompt is written as a chat; NULL = as plain text */
    const char *reply;                      /* of a chat: the first words of the model's turn; NULL = none */
} passkey_phrases;

/* out = the phrases of gyre_passkey, which models of gyre train know: MARK d d d d END in the filler, MARK at the end. */
passkey_phrases passkey_marks(void);

/* Makes the prompts of one length. */
typedef struct passkey_template {
    const gyre_tokenizer *tokenizer; /* borrowed */
    passkey_phrases phrases;
    int64_t length; /* maximum tokens of prompt and answer */
    int64_t steps;  /* maximum tokens of an answer; 0 = one per byte of the answer, and one for a space before it */
    int64_t initial_sentences; /* estimated sentences of filler that fit */
    uint64_t hash;             /* FNV-1a of the tokens of one such prompt; differs for other tokenizers and phrases */
} passkey_template;

/* One prompt.  Its depth is measured in filler: `before` of `sentences` sentences come before the needle. */
typedef struct passkey_prompt {
    char *answer; /* the expected answer */
    int32_t *ids; /* [count] */
    int64_t count, steps;
    int64_t sentences, before;
} passkey_prompt;

/* *template = for prompts that have at most `length` tokens together with their answers.  Errors: EINVAL (not even a prompt
 * without filler fits), those of gyre_tokenize, ENOMEM. */
gyre_status passkey_template_init(passkey_template *template, const gyre_tokenizer *tokenizer,
                                  const passkey_phrases *phrases, int64_t length, int64_t steps, gyre_error *err);
/* *out = the prompt with the key at `depth`, 0 (at the beginning) to 1, to within half a sentence.  Depends on the arguments
 * only.  Errors: those of passkey_template_init. */
gyre_status passkey_prompt_make(passkey_prompt *out, const passkey_template *template, double depth, int key,
                                gyre_error *err);
void passkey_prompt_free(passkey_prompt *prompt); /* also for one that is zeroed */
/* out = the text of a prompt with `sentences` sentences of filler, `before` of them before the needle; the caller frees it.
 * NULL = out of memory. */
char *passkey_prompt_text(const passkey_phrases *phrases, int64_t sentences, int64_t before, int key);

/* out = the key of a trial, five digits.  It does not depend on which other lengths, depths, trials and methods are run. */
int passkey_key(uint64_t seed, int64_t length, double depth, int64_t trial);
/* out = a key of four digits made from one of five: none of its pairs of neighbouring digits occurs twice. */
int passkey_marked_key(int key);

/* out = 1 if text, after leading white space, begins with the answer.  If the answer ends in a digit, no digit may
 * follow. */
int passkey_is_exact(const char *answer, const char *text);

#endif
