/* chat_prompt.c: fills a form in and tokenizes it. */
#include "tools/chat/chat_prompt.h"
#include "tools/cli/cli_error.h"
#include "tools/common/model_input.h"
#include <stdlib.h>
#include <string.h>

static const char WHITE[] = " \t\n\r\v\f";

void chat_read_template(const char *option, const char *text, void *at) {
    const chat_form *form = chat_form_named(text);
    if (!form) cli_usage_error("%s: \"%s\" is not one of " CHAT_FORM_NAMES, option, text);
    *(const chat_form **)at = form;
}

/* -- opening -- */
/* *out = how a token is written; "" for -1. */
static gyre_status token_text(const gyre_tokenizer *tokenizer, int32_t id, char **out, gyre_error *err) {
    const gyre_text one = {.ids = &id, .count = id >= 0};
    size_t bytes;
    return gyre_detokenize(tokenizer, &one, GYRE_TOKENIZE_SPECIAL | GYRE_TOKENIZE_INSIDE, out, &bytes, err);
}

/* *out = the id of a token that is written so; -1 = there is none. */
static gyre_status token_named(const gyre_tokenizer *tokenizer, const char *name, int32_t *out, gyre_error *err) {
    gyre_text found = {.ids = NULL};
    const gyre_status status =
        gyre_tokenize(tokenizer, name, strlen(name), GYRE_TOKENIZE_SPECIAL | GYRE_TOKENIZE_INSIDE, &found, err);
    *out = !status && found.count == 1 ? found.ids[0] : -1;
    gyre_text_free(&found);
    return status;
}

static gyre_status choose(chat *c, const gyre_tokenizer_info *info, const chat_form *named, gyre_error *err) {
    const char *hint = "name the one that it was trained with by --chat-template (" CHAT_FORM_NAMES ")";
    c->form = named;
    if (named) return GYRE_OK;
    if (!*info->chat_template)
        return gyre_fail(err, GYRE_EUNSUPPORTED, "chat template: the model's files have none; %s", hint);
    if (!chat_form_of(info->chat_template, &c->form, &c->system))
        return gyre_fail(err, GYRE_ENOMEM, "chat template: out of memory (chat)");
    if (c->form) return GYRE_OK;
    return gyre_fail(
        err, GYRE_EUNSUPPORTED,
        "chat template: the one in the model's files is not among those that Gyre knows, and Gyre runs no Jinja; "
        "%s",
        hint);
}

/* A named form may be another than the file's, which then says nothing about the begin token. */
static gyre_status read_tokens(chat *c, const gyre_tokenizer_info *info, const chat_form *named, gyre_error *err) {
    const int writes = !named && info->begin >= 0 && strstr(info->chat_template, "bos_token") != NULL;
    c->adds_begin = info->adds_begin && !writes;
    c->end = -1;
    gyre_status status = token_text(c->tokenizer, writes ? info->begin : -1, &c->begin, err);
    if (!status) status = token_text(c->tokenizer, info->end, &c->eos, err);
    if (status || !c->form->end) return status;
    status = token_named(c->tokenizer, c->form->end, &c->end, err);
    if (status || c->end >= 0) return status;
    return gyre_fail(err, GYRE_EINVAL, "chat template %s: the model's tokenizer has no token %s, which ends a turn (chat)",
                     c->form->name, c->form->end);
}

gyre_status chat_open(chat *out, const gyre_tokenizer *tokenizer, const chat_form *named, gyre_error *err) {
    const gyre_tokenizer_info info = tokenizer_info(tokenizer);
    chat c = {.tokenizer = tokenizer, .end = -1};
    gyre_status status = choose(&c, &info, named, err);
    if (!status) status = read_tokens(&c, &info, named, err);
    if (status)
        chat_close(&c);
    else
        *out = c;
    return status;
}

void chat_close(chat *c) {
    free(c->system);
    free(c->begin);
    free(c->eos);
    *c = (chat){.end = -1};
}

/* -- a prompt -- */
/* Text that is tokenized at once: the template's, and messages in which no token's name occurs. */
typedef struct writer {
    const chat *chat;
    const chat_question *question;
    char *text;
    size_t bytes, capacity;
    int is_begun; /* 1: some of the prompt is tokenized */
    gyre_text *out;
} writer;

static gyre_status put(writer *w, const char *text, size_t bytes, gyre_error *err) {
    if (w->bytes + bytes > w->capacity) {
        const size_t capacity = 2 * (w->bytes + bytes);
        char *more = realloc(w->text, capacity);
        if (!more) return gyre_fail(err, GYRE_ENOMEM, "prompt: out of memory (chat)");
        w->text = more;
        w->capacity = capacity;
    }
    if (bytes) memcpy(w->text + w->bytes, text, bytes);
    w->bytes += bytes;
    return GYRE_OK;
}

static gyre_status append_ids(gyre_text *to, const gyre_text *more, gyre_error *err) {
    if (!more->count) return GYRE_OK;
    int32_t *ids = realloc(to->ids, (size_t)(to->count + more->count) * sizeof *ids);
    if (!ids) return gyre_fail(err, GYRE_ENOMEM, "prompt: out of memory (chat)");
    memcpy(ids + to->count, more->ids, (size_t)more->count * sizeof *ids);
    to->ids = ids;
    to->count += more->count;
    return GYRE_OK;
}

/* Tokenizes what was written since the last call.  flags: GYRE_TOKENIZE_SPECIAL for the template's words. */
static gyre_status flush(writer *w, unsigned flags, gyre_error *err) {
    gyre_text part = {.ids = NULL};
    if (w->is_begun)
        flags |= GYRE_TOKENIZE_INSIDE;
    else if (w->chat->adds_begin)
        flags |= GYRE_TOKENIZE_BEGIN;
    if (!w->bytes && w->is_begun) return GYRE_OK;
    gyre_status status = gyre_tokenize(w->chat->tokenizer, w->text ? w->text : "", w->bytes, flags, &part, err);
    if (!status) status = append_ids(w->out, &part, err);
    gyre_text_free(&part);
    w->is_begun = 1;
    w->bytes = 0;
    return status;
}

/* *out = 1 if the name of a token occurs in a message. */
static gyre_status names_token(const writer *w, const char *text, size_t bytes, int *out, gyre_error *err) {
    gyre_text plain = {.ids = NULL}, special = {.ids = NULL};
    gyre_status status = gyre_tokenize(w->chat->tokenizer, text, bytes, GYRE_TOKENIZE_INSIDE, &plain, err);
    if (!status)
        status = gyre_tokenize(w->chat->tokenizer, text, bytes, GYRE_TOKENIZE_INSIDE | GYRE_TOKENIZE_SPECIAL, &special, err);
    *out = !status && (plain.count != special.count ||
                       (plain.count && memcmp(plain.ids, special.ids, (size_t)plain.count * sizeof *plain.ids) != 0));
    gyre_text_free(&plain);
    gyre_text_free(&special);
    return status;
}

static gyre_status put_message(writer *w, const char *text, int trims_left, int trims_right, gyre_error *err) {
    int names = 0;
    if (trims_left) text += strspn(text, WHITE);
    size_t bytes = strlen(text);
    while (trims_right && bytes && strchr(WHITE, text[bytes - 1]))
        bytes--;
    gyre_status status = w->question->special || !bytes ? GYRE_OK : names_token(w, text, bytes, &names, err);
    if (!status && names) status = flush(w, GYRE_TOKENIZE_SPECIAL, err);
    if (!status) status = put(w, text, bytes, err);
    return !status && names ? flush(w, 0, err) : status;
}

/* What stands in braces. */
static gyre_status put_field(writer *w, const char *name, size_t bytes, const char *system, gyre_error *err) {
    if (strncmp(name, "eos", bytes) == 0) return put(w, w->chat->eos, strlen(w->chat->eos), err);
    const char *end = memchr(name, ':', bytes);
    const int left = end && strncmp(end, ":trim", 5) == 0, right = end != NULL;
    return put_message(w, *name == 's' ? system : w->question->user, left, right, err);
}

static gyre_status put_form(writer *w, const char *form, const char *system, gyre_error *err) {
    gyre_status status = GYRE_OK;
    while (*form && !status) {
        const size_t text = strcspn(form, "{");
        status = put(w, form, text, err);
        form += text;
        if (status || !*form) break;
        const size_t name = strcspn(form, "}");
        status = put_field(w, form + 1, name - 1, system, err);
        form += name + 1;
    }
    return status;
}

gyre_status chat_tokenize(const chat *c, const chat_question *question, gyre_text *out, gyre_error *err) {
    gyre_text ids = {.ids = NULL};
    writer w = {.chat = c, .question = question, .out = &ids};
    const char *system = question->system ? question->system : c->system;
    if (system && !c->form->with_system)
        return gyre_fail(err, GYRE_EUNSUPPORTED, "chat template %s: takes no system message (chat)", c->form->name);
    gyre_status status = put(&w, c->begin, strlen(c->begin), err);
    if (!status) status = put_form(&w, system ? c->form->with_system : c->form->plain, system ? system : "", err);
    if (!status && question->reply) status = put(&w, question->reply, strlen(question->reply), err);
    if (!status) status = flush(&w, GYRE_TOKENIZE_SPECIAL, err);
    free(w.text);
    if (status)
        gyre_text_free(&ids);
    else
        *out = ids;
    return status;
}
