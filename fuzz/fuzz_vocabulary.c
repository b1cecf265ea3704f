/* fuzz_vocabulary.c: the bytes choose a vocabulary, as a tokenizer.json or in a GGUF, of a small model that gyre_convert
 * takes to the other container, back, and there again.
 *
 * What was converted cuts every text into the same tokens and gives the same text back, and knows the same special tokens;
 * a word of letters alone becomes what byte pair encoding makes of it by its definition.  The second conversion to a
 * container gives the tokens of the first.  A failure is one line and leaves nothing behind.  Of damaged files it is asked
 * only that what opens converts to what opens, or fails.
 *
 * An input that begins with '{' is the tokenizer.json itself, which the same is asked of where a GGUF loses nothing of it,
 * unless it speaks of "first".  Otherwise the bytes choose, in the order of the calls of
 * fuzz_words_choose; then damage: 0 none, else how many bytes of the file change; what is left is a text. */
#define _GNU_SOURCE /* memmem */
#include "files/file_read.h"
#include "files/gguf.h"
#include "fuzz_model_laws.h"
#include "fuzz_support.h"
#include "fuzz_words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RAW_VOCAB = 300, MOST_TEXT = 64 };
static const char *const kept_names = "words words.gguf one one.gguf two two.gguf three three.gguf";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* -- two tokenizers are the same -- */
typedef struct cut {
    gyre_status status;
    gyre_text tokens;
    char *text;
    size_t bytes;
} cut;

static gyre_tokenizer_info info_of(const gyre_tokenizer *t) {
    gyre_tokenizer_info info = GYRE_INIT(gyre_tokenizer_info);
    fuzz_require(!gyre_tokenizer_get_info(t, &info), "a tokenizer says what it is");
    return info;
}

static cut cut_text(const gyre_tokenizer *t, const char *text, size_t bytes, unsigned flags) {
    cut c = {0};
    gyre_error err = {0, ""};
    c.status = gyre_tokenize(t, text, bytes, flags, &c.tokens, &err);
    fuzz_one_line(c.status, &err);
    if (!c.status) fuzz_require(!gyre_detokenize(t, &c.tokens, flags, &c.text, &c.bytes, &err), err.text);
    return c;
}

static void print_cut(const char *who, const cut *c) {
    fprintf(stderr, "%s:", who);
    for (int64_t i = 0; i < c->tokens.count; i++)
        fprintf(stderr, " %d", (int)c->tokens.ids[i]);
    fprintf(stderr, " \"%.*s\" (%d)\n", (int)c->bytes, c->text ? c->text : "", (int)c->status);
}

static void compare_cuts(const gyre_tokenizer *a, const gyre_tokenizer *b, const char *text, size_t bytes, unsigned flags) {
    cut one = cut_text(a, text, bytes, flags), other = cut_text(b, text, bytes, flags);
    const int same =
        one.status == other.status && one.tokens.count == other.tokens.count && one.bytes == other.bytes &&
        (one.status || (memcmp(one.tokens.ids, other.tokens.ids, (size_t)one.tokens.count * sizeof(int32_t)) == 0 &&
                        memcmp(one.text, other.text, one.bytes) == 0));
    if (!same) {
        fprintf(stderr, "\"%.*s\", flags %u\n", (int)bytes, text, flags);
        print_cut("source", &one);
        print_cut("result", &other);
    }
    fuzz_require(same, "the same text is the same tokens after a conversion");
    gyre_text_free(&one.tokens);
    free(one.text);
    gyre_text_free(&other.tokens);
    free(other.text);
}

/* Special tokens that the source names; a GGUF of pieces names some by default. */
static void compare_infos(const gyre_tokenizer *a, const gyre_tokenizer *b) {
    const gyre_tokenizer_info x = info_of(a), y = info_of(b);
    fuzz_require(x.kind == y.kind && x.adds_begin == y.adds_begin,
                 "the kind of a tokenizer, and whether texts have a begin");
    fuzz_require(x.begin < 0 || x.begin == y.begin, "the begin token");
    fuzz_require(x.end < 0 || x.end == y.end, "the end token");
    fuzz_require(x.unknown < 0 || x.kind != GYRE_TOKENIZER_PIECES || x.unknown == y.unknown, "the unknown token");
    fuzz_require(x.pad < 0 || x.pad == y.pad, "the token of padding");
}

static void compare(const gyre_tokenizer *a, const gyre_tokenizer *b, const char *text, size_t bytes) {
    static const char *const texts[] = {"",
                                        " ",
                                        "abcde",
                                        "  ab abab  b ba  ",
                                        "it's 12345 x\r\n\r\n  y IT'S",
                                        "<s>a<|end|> b<tool>\t<x>1<unk></s>",
                                        "\xE2\x96\x81 a\xE2\x96\x81",
                                        "\xFF\xC3 caf\xC3\xA9>e<|end|>",
                                        "aaaaaaaaaabbbbbbbbbbcabcabcabcdeedcba!?"};
    compare_infos(a, b);
    for (unsigned flags = 0; flags < 8; flags++) {
        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
            compare_cuts(a, b, texts[i], strlen(texts[i]), flags);
        compare_cuts(a, b, text, bytes, flags);
    }
}

/* A word of letters alone: ids by the definition. */
static void compare_word(const gyre_tokenizer *t, const fuzz_words *w, const char *text, size_t bytes) {
    char word[MOST_TEXT + 1] = "";
    int32_t ids[MOST_TEXT];
    size_t n = 0;
    for (size_t i = 0; i < bytes && n < MOST_TEXT; i++)
        word[n++] = (char)('a' + (unsigned char)text[i] % 5);
    const int count = fuzz_words_merge(w, word, n, ids);
    if (count < 0 || n == 0 || w->ignores_merges || w->outcome == FUZZ_WORDS_REFUSE) return; /* it may be several words */
    cut c = cut_text(t, word, n, GYRE_TOKENIZE_INSIDE);
    const int same = !c.status && c.tokens.count == count && memcmp(c.tokens.ids, ids, (size_t)count * sizeof *ids) == 0;
    if (!same) print_cut(word, &c);
    fuzz_require(same, "a word is what byte pair encoding makes of it");
    gyre_text_free(&c.tokens);
    free(c.text);
}

/* -- files -- */
static int same_keys(const char *one, const char *other) {
    gyre_mapping map[2];
    gyre_gguf *file[2];
    gyre_error err = {0, ""};
    const char *const path[] = {one, other};
    int same = 1;
    for (int i = 0; i < 2; i++) {
        fuzz_require(!gyre_mapping_open(&map[i], fuzz_path(path[i]), &err), err.text);
        fuzz_require(!gyre_gguf_open_head(&file[i], map[i].bytes, map[i].size, 1, &err), err.text);
    }
    for (int64_t i = 0; i < file[0]->kv_count; i++) {
        const gyre_gguf_kv *a = &file[0]->kvs[i], *b = &file[1]->kvs[i];
        if (a->key_bytes < 10 || memcmp(a->key, "tokenizer.", 10) != 0) continue;
        same = same && i < file[1]->kv_count && a->key_bytes == b->key_bytes && memcmp(a->key, b->key, a->key_bytes) == 0;
        const size_t bytes = i + 1 < file[0]->kv_count && i + 1 < file[1]->kv_count
                                 ? (size_t)((const unsigned char *)file[0]->kvs[i + 1].key - (const unsigned char *)a->key)
                                 : 0;
        if (same && bytes) same = memcmp(a->key, b->key, bytes) == 0;
        if (!same) fprintf(stderr, "%.*s\n", (int)a->key_bytes, a->key);
        if (!same) break;
    }
    for (int i = 0; i < 2; i++) {
        gyre_gguf_free(file[i]);
        gyre_mapping_close(&map[i]);
    }
    return same;
}

static int same_file(const char *one, const char *other, const char *name) {
    char path[64], *bytes[2];
    size_t size[2];
    gyre_error err = {0, ""};
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", i ? other : one, name);
        fuzz_require(!gyre_document_read(fuzz_path(path), &bytes[i], &size[i], &err), err.text);
    }
    const int same = size[0] == size[1] && memcmp(bytes[0], bytes[1], size[0]) == 0;
    for (size_t i = 0; i < size[0] && i < size[1] && !same; i++)
        if (bytes[0][i] != bytes[1][i]) {
            fprintf(stderr, "%s, byte %zu: %.80s\n%.80s\n", name, i, bytes[0] + i, bytes[1] + i);
            break;
        }
    free(bytes[0]);
    free(bytes[1]);
    return same;
}

/* -- conversions -- */
/* Converts fuzz_path(from) to `to`, a GGUF or a folder, which is there if and only if the call succeeded. */
static gyre_status convert(const char *from, const char *to, int gguf, gyre_error *err) {
    gyre_convert_options o = GYRE_INIT(gyre_convert_options);
    char source[128], target[128];
    o.format = gguf ? GYRE_MODEL_FORMAT_GGUF : GYRE_MODEL_FORMAT_SAFETENSORS;
    snprintf(source, sizeof source, "%s", fuzz_path(from));
    snprintf(target, sizeof target, "%s", fuzz_path(to));
    fuzz_model_remove(to);
    const gyre_status status = gyre_convert(source, target, &o, err);
    fuzz_one_line(status, err);
    FILE *there = fopen(target, "rb");
    fuzz_require((!status) == (there != NULL), "a result is there, or the conversion failed");
    if (there) fclose(there);
    fuzz_holds_only(kept_names);
    return status;
}

static gyre_tokenizer *open_tokens(const char *name) {
    gyre_tokenizer *t = NULL;
    gyre_error err = {0, ""};
    const gyre_status status = gyre_tokenizer_open(&t, fuzz_path(name), &err);
    fuzz_one_line(status, &err);
    fuzz_require((!status) == (t != NULL), "a failure leaves no tokenizer");
    return t;
}

/* A GGUF of pieces that names none of these means the tokens 0, 1 and 2. */
static int names_all(const gyre_tokenizer *t) {
    const gyre_tokenizer_info info = info_of(t);
    return info.kind == GYRE_TOKENIZER_BYTE_LEVEL || (info.begin >= 0 && info.end >= 0 && info.unknown >= 0);
}

/* Texts are cut at added tokens before any merge: one with such a part never happens, and a conversion drops it. */
static int merges_added_tokens(const fuzz_words *w) {
    for (int i = 0; i < w->merges; i++) {
        const int ids[] = {w->merge[i].left, w->merge[i].right, w->merge[i].merged};
        for (int j = 0; j < 3; j++)
            if (w->word[ids[j]].kind == FUZZ_WORD_CONTROL || w->word[ids[j]].kind == FUZZ_WORD_USER_DEFINED) return 1;
    }
    return 0;
}

typedef struct trip {
    const char *source, *text;
    size_t bytes;
    int gguf;        /* 1: the source is one */
    int raw;         /* 1: the source is a tokenizer.json of an input */
    int first_alone; /* 1: only the first part of a text gets a space; a GGUF gives one to each after an added token */
    fuzz_words_outcome outcome;
    const fuzz_words *words; /* NULL = not known */
} trip;

static void go(const trip *p) {
    const char *const to[] = {p->gguf ? "one" : "one.gguf", p->gguf ? "two.gguf" : "two", p->gguf ? "three" : "three.gguf"};
    const char *from = p->source;
    gyre_tokenizer *source = open_tokens(from);
    gyre_error err = {0, ""};
    if (p->words) fuzz_require(source != NULL, "a sound tokenizer opens");
    for (int i = 0; i < 3; i++) {
        const gyre_status status = convert(from, to[i], i % 2 ? p->gguf : !p->gguf, &err);
        const fuzz_words_outcome want = i == 0 ? p->outcome : p->words ? FUZZ_WORDS_CONVERT : FUZZ_WORDS_EITHER;
        if (want == FUZZ_WORDS_CONVERT) fuzz_require(!status, err.text);
        if (want == FUZZ_WORDS_REFUSE) fuzz_require(status == GYRE_EUNSUPPORTED, "what the target cannot say is refused");
        if (status) break;
        gyre_tokenizer *result = open_tokens(to[i]);
        if (source) {
            fuzz_require(result != NULL, "a tokenizer that was converted opens");
            if ((p->words || (p->raw && i == 0)) && !p->first_alone) compare(source, result, p->text, p->bytes);
            if (p->words) compare_word(result, p->words, p->text, p->bytes);
            if (i == 2 && p->gguf && p->words && !p->words->other_name)
                fuzz_require(same_file("one", "three", "tokenizer.json") &&
                                 same_file("one", "three", "tokenizer_config.json"),
                             "the second conversion gives the files of the first");
            if (i == 2 && !p->gguf && p->words && names_all(source) && !merges_added_tokens(p->words))
                fuzz_require(same_keys("one.gguf", "three.gguf"), "the same keys, the second time too");
        }
        gyre_tokenizer_free(result);
        from = to[i];
    }
    if (source && p->words) compare_word(source, p->words, p->text, p->bytes);
    gyre_tokenizer_free(source);
}

/* -- an input -- */
static void damage(fuzz_bytes *b, char *bytes, size_t size, int changes) {
    for (; changes > 0 && size > 0; changes--) {
        const size_t at = (size_t)fuzz_between(b, 0, (int64_t)size - 1);
        bytes[at] = (char)fuzz_byte(b);
    }
}

static void run_folder(const fuzz_words *w, trip *p, int changes, fuzz_bytes *b) {
    static char json[WORDS_FILE_BYTES], settings[WORDS_FILE_BYTES];
    char more[128] = "";
    const size_t bytes = fuzz_words_json(w, json);
    const size_t others = fuzz_words_settings(w, settings);
    if (w->config_names_them && w->begin >= 0) snprintf(more, sizeof more, ", \"bos_token_id\": %d", w->begin);
    if (w->config_names_them && w->end >= 0)
        snprintf(more + strlen(more), sizeof more - strlen(more), ", \"eos_token_id\": [%d]", w->end);
    damage(b, changes & 1 ? json : settings, changes & 1 ? bytes : others, changes);
    settings[others] = '\0';
    fuzz_words_write_folder("words", w->count + 2, json, bytes, settings, more);
    for (int i = 0; i < w->count && !w->byte_level && w->pre_tokenizer == 3; i++)
        p->first_alone |= w->word[i].kind == FUZZ_WORD_CONTROL || w->word[i].kind == FUZZ_WORD_USER_DEFINED;
}

static void run_gguf(const fuzz_words *w, int changes, fuzz_bytes *b) {
    char *bytes;
    size_t size;
    gyre_error err = {0, ""};
    fuzz_words_write_gguf("words.gguf", w);
    if (!changes) return;
    fuzz_require(!gyre_document_read(fuzz_path("words.gguf"), &bytes, &size, &err), err.text);
    damage(b, bytes + 24, size < 16384 ? size - 24 : 16384, changes);
    fuzz_write("words.gguf", bytes, size);
    free(bytes);
}

static void run_chosen(fuzz_bytes *b) {
    static fuzz_words w;
    fuzz_words_choose(&w, b);
    const int fault = fuzz_choice(b, 16);
    const int changes = fault < 12 ? 0 : fault - 11;
    trip p = {.source = w.gguf ? "words.gguf" : "words", .gguf = w.gguf, .outcome = changes ? FUZZ_WORDS_EITHER : w.outcome};
    fuzz_model_remove(p.source);
    if (w.gguf)
        run_gguf(&w, changes, b);
    else
        run_folder(&w, &p, changes, b);
    p.words = changes ? NULL : &w;
    p.text = (const char *)b->at;
    p.bytes = b->left < MOST_TEXT ? b->left : MOST_TEXT;
    go(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_bytes b = {data, size};
    if (size == 0) return 0;
    if (data[0] != '{') {
        run_chosen(&b);
        return 0;
    }
    const trip p = {.source = "words",
                    .text = "",
                    .raw = 1,
                    .first_alone = memmem(data, size, "first", 5) != NULL,
                    .outcome = FUZZ_WORDS_EITHER};
    fuzz_model_remove("words");
    fuzz_words_write_folder("words", RAW_VOCAB, (const char *)data, size, NULL, "");
    go(&p);
    return 0;
}
