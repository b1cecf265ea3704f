/* passkey_format.c: chooses how gyre passkey hides a key. */
#include "tools/passkey/passkey.h"
#include <stdlib.h>
#include <string.h>

const char *passkey_format_name(const passkey *p) {
    return p->options.phrases.chat ? "chat" : p->options.phrases.marks ? "marks" : "words";
}

/* *right = marked keys that the model as it is finds of TRIALS, in prompts of *length tokens.  -1: no prompt fits. */
enum { TRIALS = 8, TRIAL_LENGTH = 128 };
static gyre_status try_marks(const passkey *p, int64_t *length, int64_t *right, gyre_error *err) {
    const passkey_phrases marks = passkey_marks();
    const int64_t trained = gyre_encoding_get_config(gyre_model_get_encoding(p->input.model))->trained_length;
    passkey_template template = {.phrases = marks};
    passkey_trial trials[TRIALS];
    passkey_cell cell = {.depth = 0.5, .trials = trials};
    passkey_job job = {.model = p->input.model,
                       .template = &template,
                       .seed = p->options.seed,
                       .trials = TRIALS,
                       .cells = &cell,
                       .cells_count = 1};
    *length = trained > 0 && trained < TRIAL_LENGTH ? trained : TRIAL_LENGTH;
    *right = -1;
    gyre_status status = passkey_template_init(&template, p->input.tokenizer, &marks, *length, 0, err);
    if (status == GYRE_EINVAL) return GYRE_OK;
    if (!status) status = method_name_failure(passkey_run(&job, NULL, err), "none", *length, err);
    *right = 0;
    for (int t = 0; t < TRIALS && !status; t++)
        *right += trials[t].right;
    return status;
}

/* For a model of bytes. */
static gyre_status choose_by_trial(passkey *p, gyre_error *err) {
    int64_t length = 0, right = 0;
    const gyre_status status = try_marks(p, &length, &right, err);
    if (right < 0)
        snprintf(p->choice, sizeof p->choice, "for %lld tokens have no room for a marked key", (long long)length);
    else
        snprintf(p->choice, sizeof p->choice, "for the model finds %lld of %d marked keys in a trial at %lld tokens",
                 (long long)right, TRIALS, (long long)length);
    p->knows_format = 2 * right >= TRIALS;
    if (p->knows_format) p->options.format = PASSKEY_FORMAT_MARKS;
    return status;
}

/* For a model of other tokens, which is an instruct model if its files have a chat template. */
static void choose_by_template(passkey *p) {
    const gyre_tokenizer_info info = tokenizer_info(p->input.tokenizer);
    const char *why = "for the model's files have a chat template";
    const int is_chat = *info.chat_template && !chat_open(&p->chat, p->input.tokenizer, NULL, NULL);
    if (is_chat)
        p->options.format = PASSKEY_FORMAT_CHAT;
    else if (*info.chat_template)
        why = "for the chat template of the model's files is not one that Gyre knows; --chat-template names one";
    else
        why = "for the model's tokens are not bytes, and its files have no chat template";
    snprintf(p->choice, sizeof p->choice, "%s", why);
}

/* The words before the key belong to the model's turn. */
static gyre_status begin_chat(passkey *p, gyre_error *err) {
    passkey_options *o = &p->options;
    const gyre_status status = p->chat.form ? GYRE_OK : chat_open(&p->chat, p->input.tokenizer, o->chat_form, err);
    if (status) return status;
    o->phrases.chat = &p->chat;
    if (o->asks) return GYRE_OK;
    o->phrases.question = PASSKEY_CHAT_QUESTION;
    o->phrases.reply = PASSKEY_CHAT_REPLY;
    return GYRE_OK;
}

gyre_status passkey_choose_format(passkey *p, gyre_error *err) {
    passkey_options *o = &p->options;
    gyre_status status = GYRE_OK;
    if (o->format != PASSKEY_FORMAT_AUTO)
        snprintf(p->choice, sizeof p->choice, o->chat_form ? "as --chat-template says" : "as --format says");
    else if (o->given)
        snprintf(p->choice, sizeof p->choice, "as the phrases are given");
    else if (tokenizer_info(p->input.tokenizer).kind == GYRE_TOKENIZER_BYTES)
        status = choose_by_trial(p, err);
    else
        choose_by_template(p);
    if (o->format == PASSKEY_FORMAT_MARKS) o->phrases = passkey_marks();
    return status || o->format != PASSKEY_FORMAT_CHAT ? status : begin_chat(p, err);
}
