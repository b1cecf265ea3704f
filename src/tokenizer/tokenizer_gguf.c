/* tokenizer_gguf.c: the tokenizer inside a GGUF, as llama.cpp reads it: "gpt2", byte-level with merges, and "llama", whose
 * pieces have scores. */
#include "files/gguf.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_byte_level.h"
#include "util/error.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TYPE_UNKNOWN = 2, TYPE_CONTROL, TYPE_USER_DEFINED, TYPE_UNUSED, TYPE_BYTE, MAX_TOKENS = 1 << 24 };

typedef struct gguf_reader {
    const gyre_gguf *file;
    const char *path;
    gyre_tokenizer *t;
    int is_llama;
    gyre_error *err;
} gguf_reader;

static gyre_status refuse(const gguf_reader *r, gyre_status status, const char *key, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static gyre_status refuse(const gguf_reader *r, gyre_status status, const char *key, const char *format, ...) {
    char why[240];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    const gyre_gguf_kv *pair = gyre_gguf_find_key(r->file, key);
    const uint64_t offset = pair ? pair->offset : 0;
    (void)gyre_fail(r->err, status, "%s: %s (%.150s, offset %" PRIu64 ")", key, why, r->path, offset);
    if (r->err) r->err->offset = offset;
    return status;
}

#ifdef __clang_analyzer__ /* which does not look into functions of any number of arguments */
#define refuse(r, status, ...) ((void)refuse(r, status, __VA_ARGS__), (status))
#endif

/* -- patterns, by the name that llama.cpp's converter gives them -- */
#define CONTRACTIONS        "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
#define GPT2_PATTERN        "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define PUNCT_SPACE_PATTERN " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define LLAMA3_PATTERN      CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|" PUNCT_SPACE_PATTERN
#define QWEN2_PATTERN       CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|" PUNCT_SPACE_PATTERN
#define QWEN35_PATTERN                                                                                                      \
    CONTRACTIONS                                                                                                            \
    "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define BLOOM_PATTERN " ?[^(\\s|.,!?…。，、।۔،)]+"
#define PUNCTUATION   "[\\p{P}$+<=>^~|]+"
/* Small letters after capitals, or capitals alone. */
#define UPPER                     "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER                     "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define PUNCT_SLASH_SPACE_PATTERN " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define CASED_WORD_PATTERN(suffix)                                                                                          \
    "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" suffix "|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER "*" suffix
#define DEEPSEEK3_PATTERN                                                                                                   \
    "[!-/:-@\\[-`{-~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|"                     \
    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

/* Cased letters, without those of scripts that had none when the pattern was made. */
#define NOT_CASED_LOW                                                                                                       \
    "\\x{560}-\\x{588}\\x{10C7}-\\x{10FF}\\x{1C80}-\\x{1C8F}\\x{1FBE}\\x{2D00}-\\x{2D2D}\\x{A790}-\\x{AB6F}"
#define NOT_CASED_HIGH "\\x{10570}-\\x{105BF}\\x{10D50}-\\x{10D8F}\\x{16E40}-\\x{16EDF}\\x{1D400}-\\x{1DFFF}"
#define DEEPSEEK_WORD                                                                                                       \
    "\\s?"                                                                                                                  \
    "[^"                                                                                                                    \
    "\\P{L&}" NOT_CASED_LOW NOT_CASED_HIGH "]+"
#define DEEPSEEK_PUNCTUATION "\\s?[!-/:-~\\x{FF01}-\\x{FF0F}\\x{FF1A}-\\x{FF5E}\\x{2018}-\\x{201F}\\x{3000}-\\x{3002}]+"
#define DEEPSEEK_CJK         "[\\x{800}-\\x{9FA5}\\x{AC00}-\\x{D7FF}]+"

enum { MAX_PATTERNS = 6 };
static const struct {
    const char *names; /* between spaces */
    int ignore_merges, adds_begin;
    const char *patterns[MAX_PATTERNS];
} pre_tokenizers[] = {
    {" default ", 0, 0, {PUNCTUATION, GPT2_PATTERN, "\\p{N}+", "[0-9][0-9][0-9]"}},
    {" llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano ", 1, 1, {LLAMA3_PATTERN}},
    {" dbrx smaug-bpe chatglm-bpe glm4 ", 0, 0, {LLAMA3_PATTERN}},
    {" minicpm5 ", 1, 0, {"\\p{N}{1,3}", CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}+|" PUNCT_SPACE_PATTERN}},
    {" qwen2 deepseek-r1-qwen stablelm2 hunyuan megrez kormo f2llmv2 grok-2 solar-open ", 0, 0, {QWEN2_PATTERN}},
    {" qwen35 ", 0, 0, {QWEN35_PATTERN}},
    {" gpt-2 phi-2 mpt olmo jais jina-es jina-de jina-v2-es jina-v2-de jina-v2-code gigachat trillion exaone4 a.x-4.0 "
     "mellum "
     "modern-bert granite-docling ",
     0,
     0,
     {GPT2_PATTERN}},
    {" smollm starcoder refact command-r codeshell exaone minerva-7b mellum2 ", 0, 0, {"\\p{N}", GPT2_PATTERN}},
    {" falcon ", 0, 0, {"[\\p{P}$+<=>^~|`]+", GPT2_PATTERN, "[0-9][0-9][0-9]"}},
    {" bloom poro-chat gpt3-finnish ", 0, 0, {BLOOM_PATTERN}},
    {" viking ", 0, 0, {BLOOM_PATTERN, "\\p{N}"}},
    {" tekken ", 1, 1, {CASED_WORD_PATTERN("") "|\\p{N}|" PUNCT_SLASH_SPACE_PATTERN}},
    {" gpt-4o llama4 kanana2 minimax-m2 ",
     0,
     0,
     {CASED_WORD_PATTERN(CONTRACTIONS "?") "|\\p{N}{1,3}|" PUNCT_SLASH_SPACE_PATTERN}},
    {" deepseek-llm ", 0, 0, {"[\\r\\n]", DEEPSEEK_WORD, DEEPSEEK_PUNCTUATION, "\\s+$", DEEPSEEK_CJK, "\\p{N}+"}},
    {" deepseek-coder ", 0, 0, {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", DEEPSEEK_CJK, "\\p{N}"}},
    {" deepseek-v3 hunyuan-dense joyai-llm ",
     0,
     0,
     {"\\p{N}{1,3}", "[\\x{3040}-\\x{30FF}\\x{4E00}-\\x{9FA5}]+", DEEPSEEK3_PATTERN}},
};

static gyre_status add_pre_tokenizer(const gguf_reader *r, size_t which) {
    gyre_error why = {0};
    r->t->ignore_merges = pre_tokenizers[which].ignore_merges;
    r->t->info.adds_begin = pre_tokenizers[which].adds_begin;
    for (size_t i = 0; i < MAX_PATTERNS && pre_tokenizers[which].patterns[i]; i++) {
        const char *pattern = pre_tokenizers[which].patterns[i];
        const gyre_status status =
            gyre_pre_tokenizer_add(&r->t->steps, pattern, strlen(pattern), 0, GYRE_SPLIT_ISOLATED, 0, &why);
        if (status != GYRE_OK) return refuse(r, status, "tokenizer.ggml.pre", "%s", why.text);
    }
    return GYRE_OK;
}

static gyre_status choose_pre_tokenizer(const gguf_reader *r) {
    char name[64] = " default ";
    const gyre_gguf_kv *pre = gyre_gguf_find_key(r->file, "tokenizer.ggml.pre");
    if (pre && pre->value.type == GYRE_GGUF_STRING && pre->value.count < sizeof name - 3)
        snprintf(name, sizeof name, " %.*s ", (int)pre->value.count, (const char *)pre->value.data);
    else if (pre)
        return refuse(r, GYRE_EFORMAT, "tokenizer.ggml.pre", "not a name");
    const size_t count = sizeof pre_tokenizers / sizeof *pre_tokenizers;
    for (size_t i = 0; i < count; i++)
        if (strstr(pre_tokenizers[i].names, name)) return add_pre_tokenizer(r, i);
    for (size_t i = 1; name[i]; i++)
        if (name[i] < ' ' || name[i] > '~') name[i] = '?';
    gyre_tokenizer_add_note(r->t, "tokenizer.ggml.pre%.*s: not known, cut by GPT-2's pattern", (int)strlen(name) - 1, name);
    for (size_t i = 0; i < count; i++)
        if (strstr(pre_tokenizers[i].names, " gpt-2 ")) return add_pre_tokenizer(r, i);
    return GYRE_OK;
}

/* -- strings of an array, one after the other -- */
typedef struct string_cursor {
    const unsigned char *at;
} string_cursor;

static const char *next_string(string_cursor *w, size_t *bytes) {
    uint64_t n = 0;
    for (int i = 7; i >= 0; i--)
        n = n << 8 | w->at[i];
    const char *text = (const char *)w->at + 8;
    w->at += 8 + n;
    *bytes = (size_t)n;
    return text;
}

/* *out = the key's array of `element`, or NULL where there is none and none is needed. */
static gyre_status array_of(const gguf_reader *r, const char *key, gyre_gguf_type element, int is_needed, uint64_t count,
                            const gyre_gguf_value **out) {
    const gyre_gguf_kv *pair = gyre_gguf_find_key(r->file, key);
    *out = NULL;
    if (!pair) return is_needed ? refuse(r, GYRE_EFORMAT, key, "missing") : GYRE_OK;
    const gyre_gguf_value *v = &pair->value;
    const int is_number = element != GYRE_GGUF_STRING;
    if (v->type != GYRE_GGUF_ARRAY || (is_number ? !gyre_gguf_type_size(v->element) : v->element != element))
        return refuse(r, GYRE_EFORMAT, key, "no array of %s", is_number ? "numbers" : "strings");
    if (count && v->count != count)
        return refuse(r, GYRE_EFORMAT, key, "%" PRIu64 " elements for %" PRIu64 " tokens", v->count, count);
    *out = v;
    return GYRE_OK;
}

/* -- tokens -- */
static int decode(const gguf_reader *r, const char *text, size_t bytes, unsigned char *to, size_t *length) {
    if (r->is_llama) return gyre_metaspace_decode(text, bytes, to, length);
    if (gyre_byte_level_decode(text, bytes, to, length)) return 1;
    memcpy(to, text, bytes);
    *length = bytes;
    return 0;
}

static gyre_status put_token(const gguf_reader *r, int32_t id, const char *text, size_t bytes, int64_t type,
                             unsigned char *scratch) {
    gyre_tokenizer *t = r->t;
    gyre_piece *p = &t->vocabulary.pieces[id];
    size_t length = bytes;
    const int byte = type == TYPE_BYTE ? gyre_byte_fallback_decode(text, bytes) : -1;
    if (type == TYPE_BYTE && byte < 0)
        return refuse(r, GYRE_EFORMAT, "tokenizer.ggml.tokens", "token %" PRId32 " is of type byte, but not <0xXX>", id);
    const int is_added = type == TYPE_UNKNOWN || type == TYPE_CONTROL || type == TYPE_USER_DEFINED;
    p->kind = byte >= 0 ? GYRE_PIECE_BYTE : GYRE_PIECE_NORMAL;
    p->byte = (unsigned char)(byte >= 0 ? byte : 0);
    if (is_added && !(r->is_llama && type == TYPE_USER_DEFINED))
        memcpy(scratch, text, bytes);
    else if (decode(r, text, bytes, scratch, &length))
        p->is_text = !is_added;
    gyre_status status = gyre_vocabulary_set(&t->vocabulary, id, scratch, length, r->err);
    if (status == GYRE_OK && is_added && length > 0)
        status = gyre_tokenizer_mark_added(t, id, type != TYPE_USER_DEFINED, 0, 0, 0, r->err);
    if (status == GYRE_OK || status == GYRE_ENOMEM) return status;
    return refuse(r, status, "tokenizer.ggml.tokens", "token %" PRId32 " has %zu bytes", id, bytes);
}

static gyre_status put_tokens(const gguf_reader *r, const gyre_gguf_value *tokens) {
    const gyre_gguf_value *types;
    gyre_status status = array_of(r, "tokenizer.ggml.token_type", GYRE_GGUF_I32, 0, tokens->count, &types);
    if (status != GYRE_OK) return status;
    unsigned char *scratch = NULL;
    size_t room = 0;
    string_cursor walk = {tokens->data};
    for (int32_t id = 0; id < (int32_t)tokens->count && status == GYRE_OK; id++) {
        size_t bytes;
        int64_t type = 1;
        const char *text = next_string(&walk, &bytes);
        if (types && !gyre_gguf_integer(types, (uint64_t)id, &type))
            status = refuse(r, GYRE_EFORMAT, "tokenizer.ggml.token_type", "element %" PRId32 " is no type", id);
        if (status == GYRE_OK && bytes >= room) {
            unsigned char *grown = realloc(scratch, 2 * bytes + 64);
            if (!grown) status = gyre_fail(r->err, GYRE_ENOMEM, "tokenizer: no memory (%s)", r->path);
            scratch = grown ? grown : scratch;
            room = grown ? 2 * bytes + 64 : room;
        }
        if (status == GYRE_OK) status = put_token(r, id, text, bytes, type, scratch);
    }
    free(scratch);
    return status;
}

/* -- merges and scores -- */
static gyre_status put_merge(const gguf_reader *r, uint64_t i, const char *text, size_t bytes, unsigned char *scratch) {
    static const char key[] = "tokenizer.ggml.merges";
    const gyre_rope_dialect *v = &r->t->vocabulary;
    const char *space = bytes > 1 ? memchr(text + 1, ' ', bytes - 1) : NULL;
    size_t left, right;
    if (!space) return refuse(r, GYRE_EFORMAT, key, "element %" PRIu64 " is no pair", i);
    const size_t first = (size_t)(space - text);
    (void)decode(r, text, first, scratch, &left);
    (void)decode(r, space + 1, bytes - first - 1, scratch + left, &right);
    const int32_t a = gyre_vocabulary_find(v, scratch, left), b = gyre_vocabulary_find(v, scratch + left, right);
    const int32_t merged = gyre_vocabulary_find(v, scratch, left + right);
    if (a < 0 || b < 0 || merged < 0)
        return refuse(r, GYRE_EFORMAT, key, "element %" PRIu64 ": \"%.*s\", or what it makes, is no token", i,
                      (int)(bytes < 60 ? bytes : 60), text);
    if (gyre_tokenizer_add_merge(r->t, a, b, merged, (uint32_t)i) < 0)
        return gyre_fail(r->err, GYRE_ENOMEM, "tokenizer: no memory for merges (%s)", r->path);
    return GYRE_OK;
}

static gyre_status put_merges(const gguf_reader *r) {
    const gyre_gguf_value *merges;
    gyre_status status = array_of(r, "tokenizer.ggml.merges", GYRE_GGUF_STRING, 1, 0, &merges);
    if (status != GYRE_OK) return status;
    if (merges->count > UINT32_MAX) return refuse(r, GYRE_EFORMAT, "tokenizer.ggml.merges", "too many");
    string_cursor walk = {merges->data};
    unsigned char *scratch = NULL;
    size_t room = 0;
    for (uint64_t i = 0; i < merges->count && status == GYRE_OK; i++) {
        size_t bytes;
        const char *text = next_string(&walk, &bytes);
        if (bytes >= room) {
            unsigned char *grown = realloc(scratch, 2 * bytes + 64);
            if (!grown) status = gyre_fail(r->err, GYRE_ENOMEM, "tokenizer: no memory (%s)", r->path);
            scratch = grown ? grown : scratch;
            room = grown ? 2 * bytes + 64 : room;
        }
        if (status == GYRE_OK) status = put_merge(r, i, text, bytes, scratch);
    }
    free(scratch);
    return status;
}

typedef struct id_score {
    double score;
    int32_t id;
} id_score;

static int by_score(const void *a, const void *b) {
    const double x = ((const id_score *)a)->score, y = ((const id_score *)b)->score;
    return (x < y) - (x > y);
}

/* ranks = the order of the scores, highest first; the same for the same. */
static gyre_status put_scores(const gguf_reader *r) {
    const gyre_gguf_value *scores;
    const int64_t count = r->t->vocabulary.count;
    gyre_status status = array_of(r, "tokenizer.ggml.scores", GYRE_GGUF_F32, 1, (uint64_t)count, &scores);
    if (status != GYRE_OK) return status;
    id_score *order = malloc((size_t)count * sizeof *order);
    r->t->ranks = malloc((size_t)count * sizeof *r->t->ranks);
    if (!order || !r->t->ranks) {
        free(order);
        return gyre_fail(r->err, GYRE_ENOMEM, "tokenizer: no memory for scores (%s)", r->path);
    }
    for (int64_t i = 0; i < count && status == GYRE_OK; i++) {
        order[i].id = (int32_t)i;
        if (!gyre_gguf_number(scores, (uint64_t)i, &order[i].score) || isnan(order[i].score))
            status = refuse(r, GYRE_EFORMAT, "tokenizer.ggml.scores", "element %" PRId64 " is no number", i);
    }
    if (status == GYRE_OK) qsort(order, (size_t)count, sizeof *order, by_score);
    uint32_t rank = 0;
    for (int64_t i = 0; i < count && status == GYRE_OK; i++) {
        rank += i > 0 && order[i].score < order[i - 1].score;
        r->t->ranks[order[i].id] = rank;
    }
    r->t->by_scores = 1;
    free(order);
    return status;
}

/* -- the rest -- */
/* is_used: here; files have others out of range, which is noted. */
static gyre_status read_id(const gguf_reader *r, const char *key, int32_t otherwise, int is_used, int32_t *out) {
    const gyre_gguf_kv *pair = gyre_gguf_find_key(r->file, key);
    int64_t id = otherwise;
    if (pair && (!gyre_gguf_integer(&pair->value, 0, &id) || id < 0 || id >= r->t->vocabulary.count)) {
        if (is_used) return refuse(r, GYRE_EFORMAT, key, "no token's id");
        gyre_tokenizer_add_note(r->t, "%s: no token's id", key);
        id = -1;
    }
    *out = id < r->t->vocabulary.count ? (int32_t)id : -1;
    return GYRE_OK;
}

static int bool_or(const gguf_reader *r, const char *key, int otherwise) {
    const gyre_gguf_kv *pair = gyre_gguf_find_key(r->file, key);
    int64_t value;
    return pair && gyre_gguf_integer(&pair->value, 0, &value) ? value != 0 : otherwise;
}

static gyre_status read_special_tokens(const gguf_reader *r) {
    gyre_tokenizer_info *info = &r->t->info;
    gyre_status status = read_id(r, "tokenizer.ggml.bos_token_id", r->is_llama ? 1 : -1, 1, &info->begin);
    if (status == GYRE_OK) status = read_id(r, "tokenizer.ggml.eos_token_id", r->is_llama ? 2 : -1, 1, &info->end);
    if (status == GYRE_OK) status = read_id(r, "tokenizer.ggml.unknown_token_id", r->is_llama ? 0 : -1, 0, &info->unknown);
    if (status == GYRE_OK) status = read_id(r, "tokenizer.ggml.padding_token_id", -1, 0, &info->pad);
    if (status != GYRE_OK) return status;
    info->adds_begin = info->begin >= 0 && bool_or(r, "tokenizer.ggml.add_bos_token", r->is_llama || info->adds_begin);
    if (bool_or(r, "tokenizer.ggml.add_space_prefix", r->is_llama)) r->t->prepend_scheme = GYRE_PREPEND_ALWAYS;
    gyre_tokenizer_finish(r->t);
    return GYRE_OK;
}

static gyre_status read_all(const gguf_reader *r) {
    const gyre_gguf_value *tokens;
    gyre_status status = array_of(r, "tokenizer.ggml.tokens", GYRE_GGUF_STRING, 1, 0, &tokens);
    if (status != GYRE_OK) return status;
    if (tokens->count == 0 || tokens->count > MAX_TOKENS)
        return refuse(r, GYRE_EFORMAT, "tokenizer.ggml.tokens", "%" PRIu64 " tokens", tokens->count);
    status = gyre_vocabulary_init(&r->t->vocabulary, (int64_t)tokens->count, r->err);
    if (status == GYRE_OK) status = put_tokens(r, tokens);
    if (status == GYRE_OK) status = r->is_llama ? put_scores(r) : put_merges(r);
    if (status == GYRE_OK && !r->is_llama) status = choose_pre_tokenizer(r);
    return status == GYRE_OK ? read_special_tokens(r) : status;
}

static gyre_status read_model(gguf_reader *r, gyre_tokenizer **out) {
    static const char key[] = "tokenizer.ggml.model";
    const gyre_gguf_kv *model = gyre_gguf_find_key(r->file, key);
    if (!model || model->value.type != GYRE_GGUF_STRING) return refuse(r, GYRE_EFORMAT, key, "missing, or no name");
    r->is_llama = gyre_gguf_equals(&model->value, "llama");
    if (!r->is_llama && !gyre_gguf_equals(&model->value, "gpt2"))
        return refuse(r, GYRE_EUNSUPPORTED, key, "\"%.*s\" is neither gpt2 nor llama",
                      (int)(model->value.count < 40 ? model->value.count : 40), (const char *)model->value.data);
    gyre_status status =
        gyre_tokenizer_create(&r->t, r->path, r->is_llama ? GYRE_TOKENIZER_PIECES : GYRE_TOKENIZER_BYTE_LEVEL, r->err);
    if (status != GYRE_OK) return status;
    status = read_all(r);
    if (status == GYRE_OK)
        *out = r->t;
    else
        gyre_tokenizer_free(r->t);
    return status;
}

gyre_status gyre_tokenizer_from_gguf(gyre_tokenizer **out, const void *bytes, size_t size, const char *path,
                                     gyre_error *err) {
    gyre_gguf *file;
    gyre_error why = {0};
    gyre_status status = gyre_gguf_open_mapped(&file, bytes, size, &why);
    if (status != GYRE_OK) {
        (void)gyre_fail(err, status, "%.300s (%.150s, offset %" PRIu64 ")", why.text, path, why.offset);
        if (err) err->offset = why.offset;
        return status;
    }
    gguf_reader r = {.file = file, .path = path, .err = err};
    status = read_model(&r, out);
    gyre_gguf_free(file);
    return status;
}
