/* audit_tokens.c: the tokenizer against the vocabulary of the model. */
#include "tools/audit/audit.h"
#include "util/checkpoint_files.h"
#include <inttypes.h>
#include <string.h>

static void judge(audit *a, const gyre_tokenizer_info *info, int64_t vocab) {
    if (vocab == 0)
        audit_add(a, AUDIT_LEFT_OUT, "tokens", "%" PRId64 " tokens; the embedding that they index is not read", info->vocab);
    else if (info->vocab > vocab)
        audit_set_remedy(audit_add(a, AUDIT_WRONG, "tokens",
                                   "the tokenizer has ids up to %" PRId64 ", and the embedding %" PRId64
                                   " rows: the last ids read past it",
                                   info->vocab - 1, vocab),
                         "resize the embedding, or take the tokenizer that the weights were trained with");
    else
        audit_add(a, AUDIT_OK, "tokens", "%" PRId64 " tokens of the tokenizer, %" PRId64 " rows of the embedding",
                  info->vocab, vocab);
}

/* What the file asks for and Gyre does otherwise: no fault of the model, whose other readers follow it. */
static void list_notes(audit *a, const gyre_tokenizer_info *info) {
    const char *at = info->notes;
    char note[TOKENIZER_NOTE];
    while (tokenizer_note_next(&at, note)) {
        audit_finding *f = audit_add(a, AUDIT_NOTE, "tokens", "Gyre reads texts otherwise: %s", note);
        if (!a->is_gguf && !strstr(note, GYRE_TOKENIZER_CONFIG_FILE)) audit_set_place(f, GYRE_TOKENIZER_FILE);
    }
}

gyre_status audit_tokens(audit *a, gyre_error *err) {
    gyre_tokenizer *tokenizer = NULL;
    gyre_error why = {0, ""};
    int there = 0;
    gyre_status status = audit_find_file(a, "tokenizer.json", &there, err);
    if (status) return status;
    if (!a->is_gguf && !there) {
        audit_add(a, AUDIT_LEFT_OUT, "tokens", "no tokenizer.json beside the config");
        return GYRE_OK;
    }
    status = gyre_tokenizer_open(&tokenizer, a->path, &why);
    if (audit_is_failure(status)) {
        *err = why;
        return status;
    }
    if (status) {
        audit_add(a, status == GYRE_EUNSUPPORTED ? AUDIT_LEFT_OUT : AUDIT_WRONG, "tokens", "%s", why.text);
        return GYRE_OK;
    }
    const gyre_tokenizer_info info = tokenizer_info(tokenizer);
    judge(a, &info, a->vocab);
    list_notes(a, &info);
    gyre_tokenizer_free(tokenizer);
    return GYRE_OK;
}
