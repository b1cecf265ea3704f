/* fuzz_words.c: tokens, merges and scores of a vocabulary, and byte pair encoding by its definition. */
#define _GNU_SOURCE /* memmem */
#include "fuzz_words.h"

#include "fuzz_support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char space_symbol[] = "\xE2\x96\x81";

/* -- tokens -- */
static int find(const fuzz_words *w, const char *text) {
    for (int i = 0; i < w->count; i++)
        if (w->word[i].kind != FUZZ_WORD_NONE && strcmp(w->word[i].text, text) == 0) return i;
    return -1;
}

static int add(fuzz_words *w, const char *text, fuzz_word_kind kind) {
    fuzz_require(w->count < WORDS_MOST && strlen(text) < WORDS_BYTES, "room for the words of the target itself");
    fuzz_word *word = &w->word[w->count];
    snprintf(word->text, sizeof word->text, "%s", text);
    word->kind = kind;
    word->score = 0;
    return w->count++;
}

/* GPT-2's alphabet: printable bytes are themselves, the others U+0100 and up in their order. */
static void add_byte(fuzz_words *w, int byte) {
    char text[3] = "";
    int code = byte, others = 0;
    for (int i = 0; i <= byte; i++) {
        const int prints = (i >= 0x21 && i <= 0x7E) || (i >= 0xA1 && i <= 0xAC) || i >= 0xAE;
        code = prints ? i : 0x100 + others;
        others += !prints;
    }
    text[0] = (char)(code < 0x80 ? code : 0xC0 | code >> 6);
    if (code >= 0x80) text[1] = (char)(0x80 | (code & 0x3F));
    (void)add(w, text, FUZZ_WORD_NORMAL);
}

static void add_alphabet(fuzz_words *w, fuzz_bytes *b) {
    static const char *const letters[] = {"a", "b", "c", "d", "e", "1", "2", "\xC3\xA9", "\n"};
    char text[8];
    const int all = fuzz_choice(b, 4) == 1;
    if (w->byte_level) {
        for (int byte = 0; byte < 256; byte++)
            if (all || strchr("abcde12 \n", byte)) add_byte(w, byte);
        return;
    }
    w->unknown = add(w, "<unk>", FUZZ_WORD_UNKNOWN);
    w->begin = add(w, "<s>", FUZZ_WORD_CONTROL);
    w->end = add(w, "</s>", FUZZ_WORD_CONTROL);
    for (int byte = 0; byte < 256 && !all; byte++) {
        snprintf(text, sizeof text, "<0x%02X>", byte);
        (void)add(w, text, FUZZ_WORD_BYTE);
    }
    (void)add(w, space_symbol, FUZZ_WORD_NORMAL);
    for (size_t i = 0; i < sizeof letters / sizeof *letters; i++)
        (void)add(w, letters[i], FUZZ_WORD_NORMAL);
}

/* -- merges -- */
/* out = the id of a normal token drawn from those that are letters, spaces and what was merged of them. */
static int draw(const fuzz_words *w, fuzz_bytes *b) {
    const int from = (int)fuzz_byte(b);
    for (int i = 0; i < w->count; i++) {
        const int id = (from + i) % w->count;
        const char first = w->word[id].text[0];
        if (w->word[id].kind == FUZZ_WORD_NORMAL && (w->word[id].text[1] || strchr("abcde12", first))) return id;
    }
    return 0;
}

static void list_merge(fuzz_words *w, int left, int right, int merged) {
    for (int i = 0; i < w->merges; i++)
        if (w->merge[i].left == left && w->merge[i].right == right) return;
    if (w->merges < WORDS_MERGES) w->merge[w->merges++] = (fuzz_merge){left, right, merged};
}

static void add_merges(fuzz_words *w, fuzz_bytes *b) {
    for (int i = fuzz_choice(b, 24); i > 0; i--) {
        char text[2 * WORDS_BYTES];
        const int left = draw(w, b), right = draw(w, b);
        snprintf(text, sizeof text, "%s%s", w->word[left].text, w->word[right].text);
        if (strlen(text) >= WORDS_BYTES) continue;
        int merged = find(w, text);
        if (merged < 0) merged = add(w, text, FUZZ_WORD_NORMAL);
        if (w->word[merged].kind == FUZZ_WORD_NORMAL) list_merge(w, left, right, merged);
    }
}

/* Lists every pair of tokens that is a token, those of the highest score first. */
static void list_all_merges(fuzz_words *w) {
    w->merges = 0;
    for (int rank = 0; rank < w->count; rank++)
        for (int id = 0; id < w->count; id++) {
            const char *text = w->word[id].text;
            if (w->word[id].kind != FUZZ_WORD_NORMAL || w->word[id].score != -(float)rank) continue;
            for (size_t cut = 1; cut < strlen(text); cut++) {
                char head[WORDS_BYTES];
                snprintf(head, sizeof head, "%.*s", (int)cut, text);
                const int left = find(w, head), right = find(w, text + cut);
                if (left < 0 || right < 0) continue;
                if (w->word[left].kind == FUZZ_WORD_NORMAL && w->word[right].kind == FUZZ_WORD_NORMAL)
                    list_merge(w, left, right, id);
            }
        }
}

/* Scores fall in the order of ids, or in another; where two are equal a tokenizer.json can hardly say so. */
static void score(fuzz_words *w, fuzz_bytes *b) {
    const int how = fuzz_choice(b, 6), step = fuzz_choice(b, 2) ? 7 : 11;
    for (int i = 0; i < w->count; i++) {
        const int turned = w->count % step ? i * step % w->count : i;
        if (w->word[i].kind == FUZZ_WORD_NORMAL) w->word[i].score = -(float)(how < 3 ? i : how < 5 ? turned : i / 2);
    }
    if (how == 5) w->outcome = FUZZ_WORDS_EITHER;
    if (w->gguf || fuzz_choice(b, 4) != 1)
        list_all_merges(w);
    else
        w->outcome = FUZZ_WORDS_EITHER; /* other merges than scores can state, perhaps */
}

/* -- added tokens -- */
static void add_special(fuzz_words *w, fuzz_bytes *b) {
    static const char *const texts[] = {"<|end|>", "<tool>", "<x>", "ab", "<|end", "1", "<0x41>", "e<", "\xC3\xA9>"};
    for (int i = fuzz_choice(b, 5); i > 0; i--) {
        const char *text = texts[fuzz_choice(b, 9)];
        const fuzz_word_kind kind = fuzz_choice(b, 3) ? FUZZ_WORD_CONTROL : FUZZ_WORD_USER_DEFINED;
        for (int hole = fuzz_choice(b, 8) == 1 ? 3 : 0; hole > 0 && w->count < WORDS_MOST - 4; hole--)
            (void)add(w, "", FUZZ_WORD_NONE);
        const int there = find(w, text);
        if (there < 0) {
            (void)add(w, text, kind);
        } else if (w->word[there].kind == FUZZ_WORD_NORMAL) {
            w->word[there].kind = kind;
            w->word[there].score = 0;
            w->outcome = FUZZ_WORDS_EITHER; /* a merge may need it */
        }
    }
}

/* out = the id of some added token, -1 = none. */
static int draw_special(const fuzz_words *w, fuzz_bytes *b) {
    const int from = (int)fuzz_byte(b);
    if (from % 4 == 0) return -1;
    for (int i = 0; i < w->count; i++) {
        const int id = (from + i) % w->count;
        if (w->word[id].kind == FUZZ_WORD_CONTROL) return id;
    }
    return -1;
}

static void choose_flags(fuzz_words *w, fuzz_bytes *b) {
    const int flags = (int)fuzz_byte(b), more = (int)fuzz_byte(b);
    if (w->byte_level || flags & 1) {
        w->begin = draw_special(w, b);
        w->end = draw_special(w, b);
        w->pad = draw_special(w, b);
    }
    w->adds_begin = flags >> 1 & 1;
    if (flags & 4) w->adds_begin = -1;
    w->space_prefix = !w->byte_level && flags & 8 ? 1 : 0;
    if (flags & 16 && w->gguf) w->space_prefix = -1;
    if ((flags & 0xE0) == 0x20 && w->gguf && w->byte_level) w->space_prefix = 1;
    w->prepends_first = (flags & 0xE0) == 0x40;
    w->normalized = (more & 7) == 1;
    w->strips = (more >> 3 & 7) == 1;
    w->pairs_are_lists = more >> 6 & 1;
    w->config_names_them = more >> 7;
    if (!w->gguf && w->strips) w->outcome = FUZZ_WORDS_EITHER;
    if (w->gguf && w->byte_level && w->space_prefix > 0) w->outcome = FUZZ_WORDS_EITHER;
}

void fuzz_words_choose(fuzz_words *w, fuzz_bytes *b) {
    const int first = (int)fuzz_byte(b);
    *w = (fuzz_words){.gguf = first & 1, .byte_level = first >> 1 & 1, .begin = -1, .end = -1, .unknown = -1, .pad = -1};
    w->outcome = FUZZ_WORDS_CONVERT;
    add_alphabet(w, b);
    add_merges(w, b);
    add_special(w, b);
    if (!w->byte_level) score(w, b);
    choose_flags(w, b);
    fuzz_words_choose_pre_tokenizer(w, b);
    w->adds_end = fuzz_choice(b, 4) == 1;
    fuzz_words_choose_decoder(w, b);
}

/* -- byte pair encoding -- */
/* out = how good the merge of two tokens is, lowest best; -1 = they do not merge. */
static int rank_of(const fuzz_words *w, int left, int right, int *merged) {
    char text[2 * WORDS_BYTES];
    if (w->word[left].kind != FUZZ_WORD_NORMAL || w->word[right].kind != FUZZ_WORD_NORMAL) return -1;
    if (w->gguf && !w->byte_level) {
        snprintf(text, sizeof text, "%s%s", w->word[left].text, w->word[right].text);
        *merged = find(w, text);
        return *merged < 0 || w->word[*merged].kind != FUZZ_WORD_NORMAL ? -1 : (int)-w->word[*merged].score;
    }
    for (int i = 0; i < w->merges; i++) {
        *merged = w->merge[i].merged;
        if (w->merge[i].left == left && w->merge[i].right == right && w->word[*merged].kind == FUZZ_WORD_NORMAL) return i;
    }
    return -1;
}

static int merge_best(const fuzz_words *w, int32_t *ids, int *n) {
    int best = -1, at = 0, made = 0;
    for (int i = 0; i + 1 < *n; i++) {
        int merged = 0;
        const int rank = rank_of(w, ids[i], ids[i + 1], &merged);
        if (rank < 0 || (best >= 0 && rank >= best)) continue;
        best = rank;
        at = i;
        made = merged;
    }
    if (best < 0) return 0;
    ids[at] = made;
    memmove(ids + at + 1, ids + at + 2, (size_t)(*n - at - 2) * sizeof *ids);
    --*n;
    return 1;
}

int fuzz_words_merge(const fuzz_words *w, const char *text, size_t bytes, int32_t *ids) {
    int n = 0;
    for (int i = 0; i < w->count; i++) /* added tokens are found before words are merged */
        if (w->word[i].kind == FUZZ_WORD_USER_DEFINED && memmem(text, bytes, w->word[i].text, strlen(w->word[i].text)))
            return -1;
    for (size_t i = 0; i < bytes; i++) {
        const char letter[2] = {text[i], 0};
        const int id = find(w, letter);
        if (id < 0 || w->word[id].kind != FUZZ_WORD_NORMAL) return -1;
        ids[n++] = id;
    }
    while (merge_best(w, ids, &n)) {
    }
    return n;
}
