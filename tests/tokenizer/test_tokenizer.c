/* test_tokenizer.c: text to ids and back, against naive merging and cases worked out by hand. */
#include "check_tokenizer.h"
#include "make_gguf.h"
#include "support.h"
#include "tokenizer/tokenizer.h"

#include "gyre/gyre_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECES = 330, LONGEST = 64, ROOM = 1 << 16, STRINGS = 3000 };

static uint32_t drawn = 12345;
static uint32_t draw(uint32_t below) {
    drawn = drawn * 1664525u + 1013904223u;
    return (drawn >> 8) % below;
}

static gyre_tokenizer *open_json(const char *text) {
    gyre_error err = {0};
    gyre_tokenizer *t = NULL;
    if (gyre_tokenizer_from_json(&t, text, strlen(text), "made.json", NULL, &err) != GYRE_OK) fail_msg("%s", err.text);
    return t;
}

/* out = a text of these ids, which a call only reads. */
static gyre_text text_of(const int32_t *ids, int64_t count) {
    return (gyre_text){.ids = (int32_t *)(uintptr_t)ids, .count = count};
}

static void expect_text(const gyre_tokenizer *t, const int32_t *ids, int64_t count, unsigned flags, const char *want) {
    const gyre_text tokens = text_of(ids, count);
    char *text;
    size_t bytes;
    assert_ok(gyre_detokenize(t, &tokens, flags, &text, &bytes, NULL));
    assert_string_equal(text, want);
    assert_int_equal(bytes, strlen(want));
    free(text);
}

static void expect_round_trip(const gyre_tokenizer *t, const char *text, size_t bytes, unsigned flags) {
    gyre_text tokens;
    char *back;
    size_t size;
    assert_ok(gyre_tokenize(t, text, bytes, flags, &tokens, NULL));
    assert_ok(gyre_detokenize(t, &tokens, flags, &back, &size, NULL));
    assert_int_equal(size, bytes);
    if (bytes > 0) assert_memory_equal(back, text, bytes);
    assert_int_equal(back[size], 0);
    gyre_text_free(&tokens);
    free(back);
}

/* Text that people and files contain, and text that they do not. */
static size_t random_text(char *to, size_t most) {
    static const char *const parts[] = {"a",
                                        "b",
                                        "ab",
                                        " ",
                                        "  ",
                                        "\r\n",
                                        "\n",
                                        "c1",
                                        "<s>",
                                        "<x>",
                                        "\t",
                                        "é",
                                        "\xE2\x96\x81",
                                        "\xFF",
                                        "\xC3",
                                        "\xE2\x96",
                                        "<0x41>",
                                        "日",
                                        "\xF0\x9F\x98\x80",
                                        "'s",
                                        "12345",
                                        "<pad>",
                                        ".",
                                        "ABC",
                                        "aaaa",
                                        "\xED\xA0\x80"};
    size_t used = 0;
    for (uint32_t n = draw(12); n > 0; n--) {
        const char *part = parts[draw(sizeof parts / sizeof *parts)];
        const size_t bytes = draw(20) == 0 ? 1 : strlen(part);
        if (used + bytes > most) break;
        if (bytes == 1 && draw(4) == 0)
            to[used] = (char)draw(256);
        else
            memcpy(to + used, part, bytes);
        used += bytes;
    }
    return used;
}

static void expect_round_trips(const gyre_tokenizer *t) {
    static const unsigned flags[] = {0, GYRE_TOKENIZE_SPECIAL, GYRE_TOKENIZE_INSIDE,
                                     GYRE_TOKENIZE_INSIDE | GYRE_TOKENIZE_SPECIAL};
    char text[256];
    for (int i = 0; i < STRINGS; i++)
        expect_round_trip(t, text, random_text(text, sizeof text), flags[i % 4]);
    for (int i = 0; i < 256; i++) {
        text[0] = (char)i;
        expect_round_trip(t, text, 1, 0);
    }
    expect_round_trip(t, "", 0, 0);
}

/* -- byte-level, against the slow way -- */
typedef struct naive {
    char piece[PIECES][LONGEST]; /* bytes, by id */
    size_t length[PIECES];
    int left[PIECES], right[PIECES]; /* of merge i: piece 256 + i */
    int count;
} naive;

/* GPT-2's table, as encoder.py builds it: printable bytes, then the rest from 256 on. */
static unsigned character_of(int byte) {
    unsigned next = 256;
    for (int b = 0; b < 256; b++) {
        const int printable = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || (b >= 0xAE && b <= 0xFF);
        if (b == byte) return printable ? (unsigned)b : next;
        next += !printable;
    }
    return 0;
}

static size_t written(char *to, const char *bytes, size_t length) {
    size_t used = 0;
    for (size_t i = 0; i < length; i++) {
        const unsigned c = character_of((unsigned char)bytes[i]);
        if (c == '"' || c == '\\') to[used++] = '\\';
        if (c < 0x80) {
            to[used++] = (char)c;
        } else {
            to[used++] = (char)(0xC0 | c >> 6);
            to[used++] = (char)(0x80 | (c & 0x3F));
        }
    }
    to[used] = '\0';
    return used;
}

static int known(const naive *n, const char *bytes, size_t length) {
    for (int i = 0; i < n->count; i++)
        if (n->length[i] == length && memcmp(n->piece[i], bytes, length) == 0) return i;
    return -1;
}

static void make_naive(naive *n) {
    static const char letters[] = "ab c1\xC3\xA9";
    n->count = 256;
    for (int i = 0; i < 256; i++) {
        n->piece[i][0] = (char)i;
        n->length[i] = 1;
    }
    while (n->count < PIECES) {
        char joint[2 * LONGEST];
        int side[2];
        for (int k = 0; k < 2; k++)
            side[k] = n->count > 256 && draw(2) ? 256 + (int)draw((uint32_t)n->count - 256)
                                                : (unsigned char)letters[draw(sizeof letters - 1)];
        const size_t length = n->length[side[0]] + n->length[side[1]];
        if (length > 12) continue;
        memcpy(joint, n->piece[side[0]], n->length[side[0]]);
        memcpy(joint + n->length[side[0]], n->piece[side[1]], n->length[side[1]]);
        if (known(n, joint, length) >= 0) continue;
        memcpy(n->piece[n->count], joint, length);
        n->length[n->count] = length;
        n->left[n->count] = side[0];
        n->right[n->count++] = side[1];
    }
}

/* Searches all neighbours for the merge of the lowest rank, applies its first occurrence, and starts over. */
static int merge_naively(const naive *n, const char *text, size_t bytes, int32_t *ids) {
    int count = (int)bytes;
    for (size_t i = 0; i < bytes; i++)
        ids[i] = (unsigned char)text[i];
    for (;;) {
        int best = PIECES, at = -1;
        for (int i = 0; i + 1 < count; i++)
            for (int m = 256; m < best; m++)
                if (n->left[m] == ids[i] && n->right[m] == ids[i + 1]) {
                    best = m;
                    at = i;
                }
        if (at < 0) return count;
        ids[at] = best;
        memmove(ids + at + 1, ids + at + 2, (size_t)(count - at - 2) * sizeof *ids);
        count--;
    }
}

static char *naive_json(const naive *n, const char *steps, int as_pairs) {
    char *json = malloc(ROOM), piece[4 * LONGEST], other[4 * LONGEST];
    assert_non_null(json);
    int at = snprintf(json, ROOM,
                      "{\"added_tokens\":[{\"id\":400,\"content\":\"<s>\",\"special\":true},"
                      "{\"id\":401,\"content\":\"<x>\",\"special\":false}],\"pre_tokenizer\":%s,"
                      "\"model\":{\"type\":\"BPE\",\"vocab\":{",
                      steps);
    for (int i = 0; i < n->count; i++) {
        written(piece, n->piece[i], n->length[i]);
        at += snprintf(json + at, (size_t)(ROOM - at), "%s\"%s\":%d", i ? "," : "", piece, i);
    }
    at += snprintf(json + at, (size_t)(ROOM - at), "},\"merges\":[");
    for (int i = 256; i < n->count; i++) {
        written(piece, n->piece[n->left[i]], n->length[n->left[i]]);
        written(other, n->piece[n->right[i]], n->length[n->right[i]]);
        at += snprintf(json + at, (size_t)(ROOM - at), as_pairs ? "%s[\"%s\",\"%s\"]" : "%s\"%s %s\"", i > 256 ? "," : "",
                       piece, other);
    }
    at += snprintf(json + at, (size_t)(ROOM - at), "]}}");
    assert_true(at < ROOM);
    return json;
}

#define BYTE_LEVEL(regex) "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":" regex "}"

static void test_merges_match_the_naive_algorithm(void **state) {
    (void)state;
    static naive n;
    make_naive(&n);
    for (int as_pairs = 0; as_pairs < 2; as_pairs++) {
        char *json = naive_json(&n, BYTE_LEVEL("false"), as_pairs), text[64];
        gyre_tokenizer *t = open_json(json);
        assert_int_equal(tokenizer_info(t).vocab, 402);
        assert_int_equal(tokenizer_info(t).kind, GYRE_TOKENIZER_BYTE_LEVEL);
        for (int i = 0; i < STRINGS; i++) {
            static const char letters[] = "aaabbb  c1\xC3\xA9";
            int32_t want[64];
            gyre_text got;
            const size_t bytes = draw(60);
            for (size_t k = 0; k < bytes; k++)
                text[k] = letters[draw(sizeof letters - 1)];
            const int wanted = merge_naively(&n, text, bytes, want);
            assert_ok(gyre_tokenize(t, text, bytes, 0, &got, NULL));
            assert_int_equal(got.count, wanted);
            if (wanted > 0) assert_memory_equal(got.ids, want, (size_t)wanted * sizeof *want);
            gyre_text_free(&got);
        }
        expect_round_trips(t);
        gyre_tokenizer_free(t);
        free(json);
    }
}

static void test_added_tokens(void **state) {
    (void)state;
    static naive n;
    make_naive(&n);
    n.count = 256; /* no merges */
    char *json = naive_json(&n, BYTE_LEVEL("true"), 0);
    gyre_tokenizer *t = open_json(json);
    EXPECT(t, "a<s>b", GYRE_TOKENIZE_SPECIAL, 'a', 400, 'b');
    EXPECT(t, "a<s>b", 0, 'a', '<', 's', '>', 'b');
    EXPECT(t, "a<x>b", 0, 'a', 401, 'b');
    EXPECT(t, "<<x>x>", 0, '<', 401, 'x', '>');
    expect_text(t, (const int32_t[]){'a', 400, 401}, 3, 0, "a<x>");
    expect_text(t, (const int32_t[]){'a', 400, 300}, 3, GYRE_TOKENIZE_SPECIAL, "a<s>"); /* 300: no token has it */
    char *text;
    size_t bytes;
    gyre_error err;
    const gyre_text past_the_end = text_of((const int32_t[]){402}, 1);
    assert_int_equal(gyre_detokenize(t, &past_the_end, 0, &text, &bytes, &err), GYRE_EINVAL);
    assert_non_null(strstr(err.text, "402"));
    expect_round_trips(t);
    gyre_tokenizer_free(t);
    free(json);
}

/* 1: Unicode's White_Space, as PropList.txt of Unicode 16 lists it. */
static int is_white_space(uint32_t c) {
    return (c >= 0x9 && c <= 0xD) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) ||
           c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

/* Makes the token <s> strip white space on both sides. */
static void strip_around(char *json) {
    static const char strips[] = "\"lstrip\":true,\"rstrip\":true,";
    char *content = strstr(json, "\"content\":\"<s>\"");
    memmove(content + strlen(strips), content, strlen(content) + 1);
    memcpy(content, strips, strlen(strips));
}

/* Every character but those of four bytes, of which none is white space, on both sides of a token that strips them. */
static void test_white_space_beside_special_tokens(void **state) {
    (void)state;
    static naive n;
    make_naive(&n);
    n.count = 256; /* no merges */
    char *json = naive_json(&n, BYTE_LEVEL("true"), 0);
    strip_around(json);
    gyre_tokenizer *t = open_json(json);
    free(json);
    for (uint32_t c = 1; c < 0x10000; c++) {
        char text[16];
        unsigned char s[4];
        int length = 1;
        s[0] = (unsigned char)c;
        if (c >= 0x800) {
            s[0] = (unsigned char)(0xE0 | c >> 12);
            s[1] = (unsigned char)(0x80 | (c >> 6 & 0x3F));
            s[2] = (unsigned char)(0x80 | (c & 0x3F));
            length = 3;
        } else if (c >= 0x80) {
            s[0] = (unsigned char)(0xC0 | c >> 6);
            s[1] = (unsigned char)(0x80 | (c & 0x3F));
            length = 2;
        }
        int32_t want[9] = {'a', s[0], s[1], s[2]};
        snprintf(text, sizeof text, "a%.*s<s>%.*sb", length, (char *)s, length, (char *)s);
        const int kept = is_white_space(c) ? 0 : length;
        want[1 + kept] = 400;
        for (int i = 0; i < kept; i++)
            want[2 + kept + i] = s[i];
        want[2 + 2 * kept] = 'b';
        expect_ids(t, text, GYRE_TOKENIZE_SPECIAL, want, 3 + 2 * kept);
    }
    EXPECT(t, "a \u00A0\u3000\t<s>\u2003\xC2\x85 \u180E", GYRE_TOKENIZE_SPECIAL, 'a', 400, 0xE1, 0xA0, 0x8E);
    EXPECT(t, "\x80<s>\xE2\x80<s>\x80\x80", GYRE_TOKENIZE_SPECIAL, 0x80, 400, 0xE2, 0x80, 400, 0x80, 0x80);
    gyre_tokenizer_free(t);

    /* A token that begins in that white space is found all the same. */
    json = naive_json(&n, BYTE_LEVEL("true"), 0);
    strip_around(json);
    char *content = strstr(json, "<x>");
    memcpy(content, " b ", 3);
    t = open_json(json);
    free(json);
    EXPECT(t, "<s>\t b  c", GYRE_TOKENIZE_SPECIAL, 400, 401, ' ', 'c');
    EXPECT(t, "<s> b <s> d", GYRE_TOKENIZE_SPECIAL, 400, 401, 400, 'd');
    gyre_tokenizer_free(t);
}

/* A megabyte of one letter is one word. Pairs of equal rank overlap everywhere. */
static void test_long_words(void **state) {
    (void)state;
    enum { LONG = 1 << 20 };
    gyre_tokenizer *t = open_json("{\"pre_tokenizer\":" BYTE_LEVEL(
        "true") ",\"model\":{\"type\":\"BPE\",\"vocab\":"
                "{\"a\":0,\"aa\":1,\"aaaa\":2,\"aaa\":3},\"merges\":[\"a a\",\"aa aa\",\"aa a\"]}}");
    char *text = malloc(LONG + 1);
    assert_non_null(text);
    memset(text, 'a', LONG + 1);
    gyre_text tokens;
    assert_ok(gyre_tokenize(t, text, LONG, 0, &tokens, NULL));
    assert_int_equal(tokens.count, LONG / 4);
    for (int64_t i = 0; i < tokens.count; i++)
        assert_int_equal(tokens.ids[i], 2);
    gyre_text_free(&tokens);
    free(text);
    EXPECT(t, "aaaaaaa", 0, 2, 3);
    gyre_tokenizer_free(t);
}

/* -- sentencepiece's -- */
#define SPECIALS                                                                                                            \
    "\"added_tokens\":[{\"id\":0,\"content\":\"<unk>\",\"special\":true},{\"id\":1,\"content\":\"<s>\",\"special\":true,"   \
    "\"rstrip\":false},{\"id\":270,\"content\":\"<pad>\",\"special\":false,\"normalized\":true}],"
static const char legacy[] =
    "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\"▁\"},"
    "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"▁\"}]},";
static const char first[] = "\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"▁\",\"prepend_scheme\":\"first\","
                            "\"split\":true},";
static const char never[] = "\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"▁\"},"
                            "\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\" \"},\"behavior\":"
                            "\"MergedWithPrevious\",\"invert\":false},";

/* Ids: 0 <unk>, 1 <s>, 2 .. 257 bytes, then ▁ a b ab ▁a ▁ab ▁▁. */
static gyre_tokenizer *open_pieces(const char *steps) {
    char *json = malloc(ROOM);
    assert_non_null(json);
    int at = snprintf(json, ROOM,
                      "{" SPECIALS "%s\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":"
                      "{\"id\":\"<s>\",\"type_id\":0}},{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}]},\"model\":{\"type\":"
                      "\"BPE\",\"unk_token\":\"<unk>\",\"byte_fallback\":true,\"vocab\":{\"<unk>\":0,\"<s>\":1",
                      steps);
    for (int i = 0; i < 256; i++)
        at += snprintf(json + at, (size_t)(ROOM - at), ",\"<0x%02X>\":%d", (unsigned)i, i + 2);
    snprintf(json + at, (size_t)(ROOM - at),
             ",\"▁\":258,\"a\":259,\"b\":260,\"ab\":261,\"▁a\":262,\"▁ab\":263,\"▁▁\":264},\"merges\":[\"▁ ▁\",\"a b\","
             "\"▁ a\",\"▁ ab\"]}}");
    gyre_tokenizer *t = open_json(json);
    free(json);
    return t;
}

static void test_pieces(void **state) {
    (void)state;
    gyre_tokenizer *t = open_pieces(legacy);
    const gyre_tokenizer_info info = tokenizer_info(t);
    assert_int_equal(info.kind, GYRE_TOKENIZER_PIECES);
    assert_int_equal(info.begin, 1);
    assert_int_equal(info.adds_begin, 1);
    assert_int_equal(info.unknown, 0);
    EXPECT(t, "ab", GYRE_TOKENIZE_BEGIN, 1, 263);
    EXPECT(t, "ab", GYRE_TOKENIZE_INSIDE, 261);
    EXPECT(t, " ab a", 0, 264, 261, 262);
    EXPECT(t, "é", 0, 258, 0xC3 + 2, 0xA9 + 2);
    EXPECT(t, "a▁", 0, 262, 0xE2 + 2, 0x96 + 2, 0x81 + 2);
    EXPECT(t, "a<s>ab", GYRE_TOKENIZE_SPECIAL, 262, 1, 263);
    EXPECT(t, "a<pad>ab", 0, 262, 270, 263);
    expect_text(t, (const int32_t[]){1, 263, 262}, 3, 0, "ab a");
    expect_text(t, (const int32_t[]){263, 262}, 2, GYRE_TOKENIZE_INSIDE, " ab a");
    expect_round_trips(t);
    gyre_tokenizer_free(t);

    t = open_pieces(first);
    EXPECT(t, "ab<s>ab", GYRE_TOKENIZE_SPECIAL, 263, 1, 261);
    EXPECT(t, "a  b", 0, 262, 258, 258, 260); /* words begin at each mark, so these two are not merged */
    assert_non_null(strstr(tokenizer_info(t).notes, "Metaspace"));
    expect_round_trips(t);
    gyre_tokenizer_free(t);

    t = open_pieces(never);
    EXPECT(t, "ab a", 0, 261, 262);
    EXPECT(t, "  ab", 0, 264, 261);
    expect_round_trips(t);
    gyre_tokenizer_free(t);
}

/* -- GGUF -- */
/* 3 + 256 tokens, then these. d has no token of its own, it occurs only in "db". */
static const char *const spm[] = {"▁", "a", "b", "c", "ab", "bc", "▁a", "abc", "aa", "▁▁", "aaa", "cb", "db"};
static const float spm_scores[] = {-9, -9, -9, -9, -3, -2, -4, -5, -1, -6, -1, -7, 0};
enum { SPM = sizeof spm / sizeof *spm };

static gyre_tokenizer *open_spm(gyre_error *err, gyre_status want, int wrong_type) {
    made_gguf *made = made_begin(3);
    const char *tokens[259 + SPM] = {"<unk>", "<s>", "</s>"};
    char bytes[256][8];
    int32_t types[259 + SPM] = {2, 3, 3};
    for (unsigned i = 0; i < 256; i++) {
        snprintf(bytes[i], sizeof bytes[i], "<0x%02X>", i);
        tokens[3 + i] = bytes[i];
        types[3 + i] = 6;
    }
    for (int i = 0; i < SPM; i++) {
        tokens[259 + i] = spm[i];
        types[259 + i] = i == wrong_type ? 6 : 1;
    }
    made_string(made, "tokenizer.ggml.model", "llama");
    made_strings(made, "tokenizer.ggml.tokens", tokens, 259 + SPM);
    made_array(made, "tokenizer.ggml.scores", MADE_F32, 259 + SPM);
    for (int i = 0; i < 259 + SPM; i++)
        made_number(made->kvs, &made->kvs_bytes, made_f32_bits(i < 259 ? 0 : spm_scores[i - 259]), 4);
    made_i32s(made, "tokenizer.ggml.token_type", types, 259 + SPM);
    return open_made(made, want, err);
}

/* The algorithm of sentencepiece, naively: merge the pair whose joint piece has the highest score, the first of several. */
static int merge_by_score(const char *text, size_t bytes, int32_t *ids) {
    char part[64][8];
    int count = 0;
    for (size_t i = 0; i < bytes; i++)
        snprintf(part[count++], 8, "%s", text[i] == ' ' ? "▁" : (char[]){text[i], '\0'});
    for (;;) {
        int at = -1;
        float best = -100;
        for (int i = 0; i + 1 < count; i++)
            for (int k = 0; k < SPM; k++)
                if (strlen(part[i]) + strlen(part[i + 1]) == strlen(spm[k]) &&
                    strncmp(part[i], spm[k], strlen(part[i])) == 0 && strcmp(part[i + 1], spm[k] + strlen(part[i])) == 0 &&
                    spm_scores[k] > best) {
                    best = spm_scores[k];
                    at = i;
                }
        if (at < 0) break;
        memmove(part[at] + strlen(part[at]), part[at + 1], strlen(part[at + 1]) + 1);
        memmove(part[at + 1], part[at + 2], (size_t)(count - at - 2) * sizeof *part);
        count--;
    }
    for (int i = 0; i < count; i++) {
        ids[i] = 3 + (unsigned char)part[i][0];
        for (int k = 0; k < SPM; k++)
            if (strcmp(part[i], spm[k]) == 0) ids[i] = 259 + k;
    }
    return count;
}

static void test_gguf_llama(void **state) {
    (void)state;
    gyre_error err = {0};
    gyre_tokenizer *t = open_spm(&err, GYRE_OK, -1);
    const gyre_tokenizer_info info = tokenizer_info(t);
    assert_int_equal(info.begin, 1);
    assert_int_equal(info.end, 2);
    assert_int_equal(info.adds_begin, 1);
    for (int i = 0; i < STRINGS; i++) {
        char text[32];
        int32_t want[64];
        gyre_text got;
        const size_t bytes = draw(30);
        for (size_t k = 0; k < bytes; k++)
            text[k] = "aaabbc d"[draw(8)];
        const int wanted = merge_by_score(text, bytes, want);
        assert_ok(gyre_tokenize(t, text, bytes, GYRE_TOKENIZE_INSIDE, &got, NULL));
        assert_int_equal(got.count, wanted);
        if (wanted > 0) assert_memory_equal(got.ids, want, (size_t)wanted * sizeof *want);
        gyre_text_free(&got);
    }
    expect_round_trips(t);
    gyre_tokenizer_free(t);
    assert_null(open_spm(&err, GYRE_EFORMAT, 0));
    assert_non_null(strstr(err.text, "tokenizer.ggml.tokens"));
    assert_true(err.offset > 0);
}

static void test_gguf_gpt2(void **state) {
    (void)state;
    const char *tokens[260], *const merges[] = {"a b", "Ġ ab"};
    char bytes[256][4];
    gyre_error err = {0};
    for (int i = 0; i < 256; i++) {
        const char byte = (char)i;
        written(bytes[i], &byte, 1);
        tokens[i] = bytes[i][0] == '\\' ? bytes[i] + 1 : bytes[i];
    }
    tokens[256] = "ab";
    tokens[257] = "Ġab";
    tokens[258] = "<x>";
    tokens[259] = "<s>";
    for (int with_pre = 0; with_pre < 2; with_pre++) {
        made_gguf *made = made_begin(3);
        int32_t types[260];
        for (int i = 0; i < 260; i++)
            types[i] = i == 259 ? 3 : i == 258 ? 4 : 1;
        made_string(made, "tokenizer.ggml.model", "gpt2");
        made_string(made, "tokenizer.ggml.pre", with_pre ? "llama-bpe" : "of-tomorrow");
        made_strings(made, "tokenizer.ggml.tokens", tokens, 260);
        made_strings(made, "tokenizer.ggml.merges", merges, 2);
        made_i32s(made, "tokenizer.ggml.token_type", types, 260);
        made_u32(made, "tokenizer.ggml.bos_token_id", 259);
        made_u32(made, "tokenizer.ggml.padding_token_id", UINT32_MAX);
        gyre_tokenizer *t = open_made(made, GYRE_OK, &err);
        const gyre_tokenizer_info info = tokenizer_info(t);
        assert_int_equal(info.adds_begin, with_pre);
        assert_int_equal(info.end, -1);
        assert_int_equal(info.pad, -1);
        assert_non_null(strstr(info.notes, "padding_token_id"));
        assert_int_equal(strstr(info.notes, "of-tomorrow") != NULL, !with_pre);
        EXPECT(t, "ab ab<x>", 0, 256, 257, 258);
        EXPECT(t, "ab<s>", GYRE_TOKENIZE_SPECIAL, 256, 259);
        expect_round_trips(t);
        gyre_tokenizer_free(t);
    }
}

/* -- what is odd -- */
/* Files whose text did not come back, or whose ids were ambiguous, before this was fixed. */
static void test_tokens_of_two_kinds(void **state) {
    (void)state;
    gyre_tokenizer *t = NULL;
    gyre_error err = {0};
    /* One id for two added tokens. */
    const char *twice =
        "{\"added_tokens\":[{\"id\":1,\"content\":\"<s>\",\"special\":true},{\"id\":1,\"content\":\"<x>\"}]," MODEL(
            "\"a\":0", "") "}";
    assert_int_equal(gyre_tokenizer_from_json(&t, twice, strlen(twice), "made.json", NULL, &err), GYRE_EFORMAT);
    assert_non_null(strstr(err.text, "added_tokens[1].id"));
    assert_null(t);

    /* A merge gives a special token. It has no text, so nothing is merged into it. */
    t = open_json("{\"added_tokens\":[{\"id\":2,\"content\":\"ab\",\"special\":true}]," MODEL("\"a\":0,\"b\":1,\"ab\":2",
                                                                                              "\"a b\"") "}");
    EXPECT(t, "ab", 0, 0, 1);
    EXPECT(t, "ab", GYRE_TOKENIZE_SPECIAL, 2);
    expect_round_trip(t, "abab", 4, 0);
    gyre_tokenizer_free(t);

    /* A begin token that is an ordinary piece: it would be confused with an "a" of the text. */
#define BEGINS                                                                                                              \
    "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"a\"}},{\"Sequence\":{}}]}" \
    ","
    t = open_json("{" BEGINS MODEL("\"a\":0,\"b\":1", "") "}");
    assert_int_equal(tokenizer_info(t).adds_begin, 0);
    assert_non_null(strstr(tokenizer_info(t).notes, "begin token"));
    EXPECT(t, "ab", GYRE_TOKENIZE_BEGIN, 0, 1);
    expect_round_trip(t, "aab", 3, GYRE_TOKENIZE_BEGIN);
    gyre_tokenizer_free(t);

    /* A token that is matched in text literally but not marked special: it becomes special. */
    t = open_json("{\"added_tokens\":[{\"id\":0,\"content\":\"a\",\"special\":false}]," BEGINS MODEL(
        "\"a\":0,\"b\":1,\"c\":2", "") "}");
    assert_int_equal(tokenizer_info(t).adds_begin, 1);
    EXPECT(t, "b", GYRE_TOKENIZE_BEGIN, 0, 1);
    expect_round_trip(t, "b", 1, GYRE_TOKENIZE_BEGIN);
    gyre_tokenizer_free(t);
#undef BEGINS

    /* After a begin token added by the tokenizer, the space before the first word was added too. After one inside the text
     * it was not. */
    t = open_pieces(legacy);
    expect_round_trip(t, " ab", 3, GYRE_TOKENIZE_BEGIN);
    expect_round_trip(t, " ab", 3, GYRE_TOKENIZE_BEGIN | GYRE_TOKENIZE_INSIDE);
    EXPECT(t, " ab", GYRE_TOKENIZE_BEGIN | GYRE_TOKENIZE_INSIDE, 1, 263);
    gyre_tokenizer_free(t);
}

static void test_warnings(void **state) {
    (void)state;
    gyre_tokenizer *t = open_json("{\"normalizer\":{\"type\":\"NFC\"}," MODEL("\"a\":0", "") "}");
    assert_non_null(strstr(tokenizer_info(t).notes, "normalizer NFC"));
    gyre_text tokens;
    gyre_error err;
    assert_int_equal(gyre_tokenize(t, "ab", 2, 0, &tokens, &err), GYRE_EINVAL);
    assert_non_null(strstr(err.text, "0x62"));
    gyre_tokenizer_free(t);
}

/* -- folders -- */
static void put_file(const char *folder, const char *name, const char *text) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void drop_file(const char *folder, const char *name) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(unlink(path), 0);
}

static void test_folder(void **state) {
    (void)state;
    char folder[] = "/tmp/gyre-tokenizer-XXXXXX", path[300];
    gyre_tokenizer *t;
    gyre_error err;
    assert_non_null(mkdtemp(folder));
    assert_int_equal(gyre_tokenizer_open(&t, folder, &err), GYRE_EIO);
    put_file(folder, "config.json", "{\"vocab_size\":256,\"eos_token_id\":[2,1]}");
    assert_ok(gyre_tokenizer_open(&t, folder, &err));
    assert_int_equal(tokenizer_info(t).kind, GYRE_TOKENIZER_BYTES);
    expect_round_trips(t);
    gyre_tokenizer_free(t);
    put_file(folder, "tokenizer.json",
             "{\"added_tokens\":[{\"id\":1,\"content\":\"<s>\",\"special\":true}]," MODEL("\"a\":0,\"b\":2", "") "}");
    put_file(folder, "tokenizer_config.json", "{\"add_bos_token\":true,\"bos_token\":{\"content\":\"<s>\"}}");
    snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    for (int i = 0; i < 2; i++) {
        assert_ok(gyre_tokenizer_open(&t, i ? path : folder, &err));
        const gyre_tokenizer_info info = tokenizer_info(t);
        assert_int_equal(info.begin, 1);
        assert_int_equal(info.end, 2);
        EXPECT(t, "ab", GYRE_TOKENIZE_BEGIN, 1, 0, 2);
        gyre_tokenizer_free(t);
    }
    /* Only the first file begins with the begin token. */
    assert_ok(gyre_tokenizer_open(&t, folder, &err));
    put_file(folder, "text", "abba");
    snprintf(path, sizeof path, "%s/text", folder);
    const char *const paths[] = {path, path};
    gyre_text text = {0};
    assert_ok(gyre_text_tokenize(&text, t, paths, 2, 9, &err));
    assert_int_equal(text.count, 9);
    assert_int_equal(text.bytes, 8);
    assert_int_equal(text.files, 2);
    assert_int_equal(text.ids[0], 1);
    assert_int_equal(text.ids[5], 0);
    gyre_text_free(&text);
    assert_int_equal(gyre_text_tokenize(&text, t, paths, 2, 10, &err), GYRE_EINVAL);
    assert_non_null(strstr(err.text, "9 tokens"));
    gyre_tokenizer_free(t);
    drop_file(folder, "text");
    drop_file(folder, "config.json");
    drop_file(folder, "tokenizer.json");
    drop_file(folder, "tokenizer_config.json");
    assert_int_equal(rmdir(folder), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_merges_match_the_naive_algorithm),
        cmocka_unit_test(test_added_tokens),
        cmocka_unit_test(test_white_space_beside_special_tokens),
        cmocka_unit_test(test_long_words),
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_gguf_llama),
        cmocka_unit_test(test_gguf_gpt2),
        cmocka_unit_test(test_tokens_of_two_kinds),
        cmocka_unit_test(test_warnings),
        cmocka_unit_test(test_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
