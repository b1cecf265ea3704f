#include "convert/convert_vocab_merges.h"

#include <stdlib.h>
#include <string.h>

enum { NO_TOKEN = -1, FREE_CHARACTER = -2 };

static int by_rank(const void *a, const void *b) {
    const gyre_convert_merge *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    if (x->merged_id != y->merged_id) return x->merged_id < y->merged_id ? -1 : 1;
    if (x->left != y->left) return x->left < y->left ? -1 : 1;
    return x->right < y->right ? -1 : x->right > y->right;
}

int gyre_convert_token_merges(const gyre_convert_token *token) {
    return token->kind == GYRE_TOKEN_NORMAL || token->kind == GYRE_TOKEN_UNUSED;
}

/* out = the id of a token with this text that texts merge into.  Else FREE_CHARACTER for a single character that a text may
 * have beside others all the same: no token, or one that is found in a text only where special tokens are.  Else
 * NO_TOKEN. */
static int32_t part_of(const gyre_convert_vocab *p, const json_t *vocab, const char *text, size_t bytes) {
    char key[GYRE_MAX_MERGED_BYTES + 1];
    size_t first = 1;
    memcpy(key, text, bytes);
    key[bytes] = '\0';
    while (first < bytes && ((unsigned char)text[first] & 0xC0) == 0x80)
        first++;
    const json_t *id = json_object_get(vocab, key);
    const int64_t i = id ? (int64_t)json_integer_value(id) : NO_TOKEN;
    if (i >= 0 && gyre_convert_token_merges(&p->id_to_token[i])) return (int32_t)i;
    return first == bytes && (i < 0 || p->id_to_token[i].kind != GYRE_TOKEN_USER_DEFINED) ? FREE_CHARACTER : NO_TOKEN;
}

static int add_merge(gyre_convert_merges *m, gyre_convert_merge merge) {
    if (m->count == m->capacity) {
        const size_t capacity = 2 * m->capacity + 1024;
        gyre_convert_merge *grown = realloc(m->list, capacity * sizeof *grown);
        if (!grown) return 0;
        m->list = grown;
        m->capacity = capacity;
    }
    m->list[m->count++] = merge;
    return 1;
}

static int add_merges(gyre_convert_merges *m, const gyre_convert_vocab *p, const json_t *vocab, int32_t merged_id) {
    const char *text = p->id_to_token[merged_id].text;
    const size_t bytes = strlen(text);
    if (bytes > GYRE_MAX_MERGED_BYTES) {
        m->too_long = merged_id;
        return 1;
    }
    for (size_t cut = 1; cut < bytes; cut++) {
        if (((unsigned char)text[cut] & 0xC0) == 0x80) continue;
        const int32_t left = part_of(p, vocab, text, cut);
        const int32_t right = left == NO_TOKEN ? NO_TOKEN : part_of(p, vocab, text + cut, bytes - cut);
        if (right == NO_TOKEN) continue;
        if (left == FREE_CHARACTER || right == FREE_CHARACTER)
            m->through_character = merged_id;
        else if (!add_merge(m, (gyre_convert_merge){merged_id, left, right, p->id_to_token[merged_id].score}))
            return 0;
    }
    return 1;
}

/* Of tokens with the same text the first counts. */
int gyre_convert_merges_of_scores(const gyre_convert_vocab *p, const json_t *vocab, gyre_convert_merges *out) {
    *out = (gyre_convert_merges){NULL, 0, 0, -1, -1};
    for (int64_t i = 0; i < p->count; i++) {
        const json_t *first = json_object_get(vocab, p->id_to_token[i].text);
        if (!gyre_convert_token_merges(&p->id_to_token[i]) || (int64_t)json_integer_value(first) != i) continue;
        if (!add_merges(out, p, vocab, (int32_t)i)) return 0;
    }
    if (out->count > 0) qsort(out->list, out->count, sizeof *out->list, by_rank);
    return 1;
}

/* -- a list of merges -- */
static int by_pair(const void *a, const void *b) {
    const gyre_convert_merge *x = a, *y = b;
    if (x->left != y->left) return x->left < y->left ? -1 : 1;
    return x->right < y->right ? -1 : x->right > y->right;
}

static int same_pairs(gyre_convert_merge *list, size_t count, gyre_convert_merge *other, size_t other_count) {
    size_t distinct = 0, at = 0;
    qsort(list, count, sizeof *list, by_pair);
    qsort(other, other_count, sizeof *other, by_pair);
    for (size_t i = 0; i < count; i++)
        if (i == 0 || by_pair(&list[i - 1], &list[i]) != 0) list[distinct++] = list[i];
    while (at < distinct && at < other_count && by_pair(&list[at], &other[at]) == 0)
        at++;
    return at == distinct && at == other_count;
}

int gyre_convert_merges_are_scores(const gyre_convert_vocab *p, const json_t *vocab, const gyre_convert_merge *list,
                                   size_t count) {
    gyre_convert_merges all = {NULL, 0, 0, -1, -1};
    int same = 1;
    for (size_t i = 1; i < count; i++) /* those of one token are adjacent: one score ranks them all */
        same = same && (list[i].merged_id == list[i - 1].merged_id || list[i].score < list[i - 1].score);
    if (!same) return 0;
    gyre_convert_merge *copy = malloc((count + 1) * sizeof *copy);
    same = copy && gyre_convert_merges_of_scores(p, vocab, &all) ? 1 : -1;
    if (copy && count > 0) memcpy(copy, list, count * sizeof *copy);
    if (same > 0) same = count > 0 && all.count > 0 ? same_pairs(copy, count, all.list, all.count) : count == all.count;
    if (same > 0 && (all.through_character >= 0 || all.too_long >= 0)) same = 0;
    free(copy);
    free(all.list);
    return same;
}
