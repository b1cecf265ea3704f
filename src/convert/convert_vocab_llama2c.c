/* convert_vocab_llama2c.c: the tokens of a tokenizer of llama2.c (tok512.bin). */
#include "convert/convert_vocab.h"
#include "files/file_read.h"
#include "tokenizer/tokenizer_byte_level.h"
#include "util/error.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { LLAMA2C_FIRST_BYTE = 3 /* the id of <0x00> */, BYTES = 256 };

/* The bytes of a file that are left.  Every read is checked. */
typedef struct cursor {
    const unsigned char *at, *end;
} cursor;

static int read_u32(cursor *c, uint32_t *out) {
    if (c->end - c->at < 4) return 0;
    *out = (uint32_t)c->at[0] | (uint32_t)c->at[1] << 8 | (uint32_t)c->at[2] << 16 | (uint32_t)c->at[3] << 24;
    c->at += 4;
    return 1;
}

/* Undoes what llama2.c's exporter does: it writes U+2581 as a space, and puts line ends around the names of special
 * tokens. */
static gyre_status set_llama2c(gyre_convert_vocab *out, int64_t id, const unsigned char *bytes, size_t count,
                               const char *path, gyre_error *err) {
    char *text = malloc(3 * count + 1);
    size_t length = 0;
    if (!text) return gyre_fail(err, GYRE_ENOMEM, "tokens: no memory (%s)", path);
    for (size_t i = 0; i < count; i++) {
        const int is_space = bytes[i] == ' ';
        memcpy(text + length, is_space ? GYRE_SPACE_SYMBOL : (const char *)bytes + i, is_space ? 3 : 1);
        length += is_space ? 3 : 1;
    }
    const int is_special = id < LLAMA2C_FIRST_BYTE;
    const int framed = is_special && length > 2 && text[0] == '\n' && text[length - 1] == '\n';
    const gyre_status status = gyre_convert_vocab_set_text(out, id, text + framed, length - (framed ? 2 : 0), path, err);
    free(text);
    out->id_to_token[id].kind = id == 0                           ? GYRE_TOKEN_UNKNOWN
                                : is_special                      ? GYRE_TOKEN_CONTROL
                                : id < LLAMA2C_FIRST_BYTE + BYTES ? GYRE_TOKEN_BYTE
                                                                  : GYRE_TOKEN_NORMAL;
    return status;
}

static gyre_status read_llama2c(gyre_convert_vocab *out, cursor c, const char *path, gyre_error *err) {
    const unsigned char *const begin = c.at;
    uint32_t longest, score, length;
    gyre_status status = GYRE_OK;
    int whole = read_u32(&c, &longest);
    for (int64_t id = 0; id < out->count && whole && !status; id++) {
        whole = read_u32(&c, &score) && read_u32(&c, &length) && length <= (size_t)(c.end - c.at);
        if (!whole) break;
        memcpy(&out->id_to_token[id].score, &score, sizeof score);
        status = set_llama2c(out, id, c.at, length, path, err);
        c.at += length;
    }
    if (!status && (!whole || c.at != c.end))
        status = gyre_fail(err, GYRE_EFORMAT, "tokens: not %" PRId64 " of them, as the model has (%s, byte %lld)",
                           out->count, path, (long long)(c.at - begin));
    return status;
}

gyre_status gyre_convert_vocab_from_llama2c(gyre_convert_vocab *out, const char *path, int64_t vocab, gyre_error *err) {
    gyre_mapping map = {0};
    gyre_status status = gyre_mapping_open(&map, path, err);
    if (status) return status;
    if ((uint64_t)vocab > map.size / 8 || vocab < LLAMA2C_FIRST_BYTE + BYTES)
        status = gyre_fail(err, GYRE_EFORMAT, "tokens: not %" PRId64 " of them, as the model has (%s)", vocab, path);
    if (!status) status = gyre_convert_vocab_init(out, vocab, err);
    if (!status) {
        status = read_llama2c(out, (cursor){map.bytes, map.bytes + map.size}, path, err);
        out->begin = 1;
        out->end = 2;
        out->unknown = 0;
        out->adds_begin = out->space_prefix = 1;
        if (!status) status = gyre_mapping_check(&map, path, err);
        if (status) gyre_convert_vocab_free(out);
    }
    gyre_mapping_close(&map);
    return status;
}
