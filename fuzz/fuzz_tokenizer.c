/* fuzz_tokenizer.c: reads any bytes as a tokenizer.json, or as a GGUF file if they begin like one, for libFuzzer. A
 * tokenizer that opens must give a fixed set of texts back. */
#include "tokenizer/tokenizer.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void round_trip(const gyre_tokenizer *t, const char *text, size_t bytes, unsigned flags) {
    gyre_error err = {0};
    gyre_text tokens;
    char *back;
    size_t size;
    if (gyre_tokenize(t, text, bytes, flags, &tokens, &err)) {
        if (!err.text[0]) abort();
        return;
    }
    if (gyre_detokenize(t, &tokens, flags, &back, &size, &err)) abort();
    /* Only white space that a special token absorbs is not given back. */
    if (!(flags & GYRE_TOKENIZE_SPECIAL) && (size != bytes || memcmp(back, text, bytes) != 0)) {
        fprintf(stderr, "%zu bytes became %zu: \"%s\" \"%s\"\n", bytes, size, text, back);
        abort();
    }
    gyre_text_free(&tokens);
    free(back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const texts[] = {"",
                                        " ",
                                        "a",
                                        "  ab abab  b",
                                        "it's 12345 x\r\n\r\n  y",
                                        "<s>a<pad> b<x>\t",
                                        "\xE2\x96\x81 a\xE2\x96\x81",
                                        "\xFF\xC3 \xE2\x96 \xF0\x9F\x98\x80 caf\xC3\xA9",
                                        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!"};
    gyre_tokenizer *t = NULL;
    gyre_error err = {0};
    const gyre_status status = size > 4 && memcmp(data, "GGUF", 4) == 0
                                   ? gyre_tokenizer_from_gguf(&t, data, size, "model.gguf", &err)
                                   : gyre_tokenizer_from_json(&t, (const char *)data, size, "tokenizer.json", NULL, &err);
    if (status) {
        if (t || !err.text[0]) abort();
        return 0;
    }
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        for (unsigned flags = 0; flags < 8; flags++)
            if (!(flags & GYRE_TOKENIZE_BEGIN && flags & GYRE_TOKENIZE_SPECIAL))
                round_trip(t, texts[i], strlen(texts[i]), flags);
    round_trip(t, "a\0b", 3, 0);
    gyre_tokenizer_free(t);
    return 0;
}
