/* chat_prompt.h: a question to an instruct model, as tokens.
 *
 *     template of the model's files -> a form (chat_forms.h) -> text with the question -> tokens
 *
 * The text of a message is never read as a token of the template: "<|im_end|>" in a question is ten characters. */
#ifndef GYRE_TOOLS_CHAT_PROMPT_H
#define GYRE_TOOLS_CHAT_PROMPT_H
#include "gyre/gyre_model.h"
#include "tools/chat/chat_forms.h"
#include "tools/cli/cli_parse.h"

#define ROW_CHAT_TEMPLATE(member, group)                                                                                    \
    {                                                                                                                       \
        "chat-template", "NAME", "The chat template, instead of the one in the model's files: " CHAT_FORM_NAMES, group,     \
            CLI_OTHER(const chat_form *, member, chat_read_template)                                                        \
    }

/* A form and the tokenizer of the model that is asked. */
typedef struct chat {
    const chat_form *form;
    const gyre_tokenizer *tokenizer; /* borrowed */
    char *system;                    /* for questions without a system message; NULL = none */
    char *begin, *eos;               /* written as the template does; begin: "" where it writes none */
    int32_t end;                     /* the token that ends a turn; -1 = only the one that ends a text */
    int adds_begin;                  /* 1: the model's texts begin with a token that the template does not write */
} chat;

typedef struct chat_question {
    const char *system; /* NULL = the template's own, if it has one */
    const char *user;
    const char *reply; /* the first words of the model's turn; NULL = none */
    int special;       /* 1: names of added tokens in the messages are read as those tokens */
} chat_question;

/* Of the row above. */
void chat_read_template(const char *option, const char *text, void *at);
/* Chooses the form: `named`, or if it is NULL that of the model's files.  Errors: EUNSUPPORTED (there is no template, or it
 * is not known; says what to do), EINVAL (the tokenizer lacks the token that ends a turn), ENOMEM. */
gyre_status chat_open(chat *out, const gyre_tokenizer *tokenizer, const chat_form *named, gyre_error *err);
void chat_close(chat *c); /* also for one that is zeroed */
/* *out = the tokens of the prompt; the caller frees them.  Errors: EUNSUPPORTED (the template takes no system message),
 * those of gyre_tokenize. */
gyre_status chat_tokenize(const chat *c, const chat_question *question, gyre_text *out, gyre_error *err);

#endif
