#include "convert/convert_vocab.h"

#include "files/file_read.h"
#include "tokenizer/tokenizer_byte_level.h"
#include "util/error.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void gyre_convert_vocab_free(gyre_convert_vocab *vocab) {
    for (int64_t i = 0; i < vocab->count; i++)
        free(vocab->id_to_token[i].text);
    for (int64_t i = 0; i < vocab->merges_count; i++)
        free(vocab->merges[i]);
    free(vocab->id_to_token);
    free(vocab->merges);
    free(vocab->chat_template);
    *vocab = (gyre_convert_vocab){.count = 0};
}

gyre_status gyre_convert_vocab_init(gyre_convert_vocab *out, int64_t count, gyre_error *err) {
    gyre_convert_token *tokens = calloc((size_t)count + 1, sizeof *tokens);
    if (!tokens) return gyre_fail(err, GYRE_ENOMEM, "tokens: no memory for %" PRId64, count);
    for (int64_t i = 0; i < count; i++)
        tokens[i].kind = GYRE_TOKEN_NORMAL;
    *out = (gyre_convert_vocab){.id_to_token = tokens, .count = count, .begin = -1, .end = -1, .unknown = -1, .pad = -1};
    return GYRE_OK;
}

gyre_status gyre_convert_vocab_set_text(gyre_convert_vocab *vocab, int64_t id, const char *text, size_t bytes,
                                        const char *path, gyre_error *err) {
    json_t *valid = memchr(text, 0, bytes) ? NULL : json_stringn(text, bytes); /* jansson checks UTF-8 */
    json_decref(valid);
    if (!valid) return gyre_fail(err, GYRE_EFORMAT, "token %" PRId64 ": not UTF-8 (%s)", id, path);
    char *copy = malloc(bytes + 1);
    if (!copy) return gyre_fail(err, GYRE_ENOMEM, "tokens: no memory (%s)", path);
    memcpy(copy, text, bytes);
    copy[bytes] = '\0';
    free(vocab->id_to_token[id].text);
    vocab->id_to_token[id].text = copy;
    return GYRE_OK;
}

gyre_status gyre_convert_vocab_from_bytes(gyre_convert_vocab *out, gyre_error *err) {
    gyre_status status = gyre_convert_vocab_init(out, GYRE_BYTE_TOKENS, err);
    for (int byte = 0; byte < GYRE_BYTE_TOKENS && !status; byte++) {
        char text[2];
        const size_t length = gyre_byte_level_encode((unsigned char)byte, text);
        status = gyre_convert_vocab_set_text(out, byte, text, length, "bytes", err);
    }
    out->byte_level = 1;
    snprintf(out->tokenizer_pre, sizeof out->tokenizer_pre, "gpt-2");
    if (status) gyre_convert_vocab_free(out);
    return status;
}
