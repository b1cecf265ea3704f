/* chat_forms.h: the closed set of chat templates: what each writes, and how its text is recognised. */
#ifndef GYRE_TOOLS_CHAT_FORMS_H
#define GYRE_TOOLS_CHAT_FORMS_H

/* What --chat-template takes, for help texts. */
#define CHAT_FORM_NAMES                                                                                                     \
    "chatml, phi-4, llama-3, llama-3.1, llama-2, mistral-v1, mistral-v3, mistral-tekken, gemma, gemma-3, phi-3, zephyr, "   \
    "tulu or granite"

enum { CHAT_MARKS = 8 };

/* In the texts {system}, {user} and {eos} are replaced: by the messages, and by the token that ends a text.  A message is
 * followed by :trim or :rtrim ({user:trim}) where the template removes white space around it or behind it. */
typedef struct chat_form {
    const char *name;        /* "chatml" */
    const char *plain;       /* the prompt without a system message, up to where the model's turn begins */
    const char *with_system; /* the same with one; NULL = the template refuses it */
    const char *end;         /* the token that ends a turn; NULL = the one that ends a text */
    int has_default;         /* 1: a system message written in the template is used where none is given */
    const char *has[CHAT_MARKS], *lacks[CHAT_MARKS]; /* texts of the template, plainly written (chat_form_of) */
} chat_form;

/* out = the form of that name, or NULL. */
const chat_form *chat_form_named(const char *name);
/* *out = the form that writes what a template does, or NULL if it is not known.  *system = the system message that the
 * template has for a chat without one, or NULL; the caller frees it.  out = 1, or 0 without memory. */
int chat_form_of(const char *template, const chat_form **out, char **system);

#endif
