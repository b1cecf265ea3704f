#include "tools/common/tokenizer_notes.h"

#include "tools/cli/cli_error.h"
#include <stdio.h>
#include <string.h>

int tokenizer_note_next(const char **at, char out[TOKENIZER_NOTE]) {
    static const char between[] = "; ";
    if (!**at) return 0;
    const char *end = strstr(*at, between);
    snprintf(out, TOKENIZER_NOTE, "%.*s", (int)(end ? (size_t)(end - *at) : strlen(*at)), *at);
    *at = end ? end + sizeof between - 1 : *at + strlen(*at);
    return 1;
}

void tokenizer_notes_warn(const gyre_tokenizer *tokenizer, const char *path) {
    const char *at = gyre_tokenizer_get_info(tokenizer).notes;
    char note[TOKENIZER_NOTE];
    while (tokenizer_note_next(&at, note))
        cli_warn("%s: tokenizer: %s", path, note);
}
