/* same_encoding.c: compares what tokens get from two encodings: cos and sin, or slopes, and every other field. */
#include "tools/measuring/same_encoding.h"
#include "gyre/gyre_fields.h"
#include "tools/cli/cli_memory.h"
#include "tools/common/methods.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- two encodings -- */
static int same_value(const gyre_config *a, const gyre_config *b, const gyre_config_field *f) {
    const gyre_field_value x = gyre_config_get(a, f), y = gyre_config_get(b, f);
    const int64_t count = gyre_config_list_length(a, f);
    if (f->type != GYRE_FIELD_LIST) return x.integer == y.integer && x.number == y.number;
    if (!x.list || !y.list) return x.list == y.list;
    return count == gyre_config_list_length(b, f) && memcmp(x.list, y.list, (size_t)count * sizeof *x.list) == 0;
}

/* Fields with a mark of `apart` are not compared. */
static int same_fields(const gyre_config *a, const gyre_config *b, unsigned apart) {
    const gyre_config_field *f;
    if (a->kind != b->kind) return 0;
    for (int i = 0; (f = gyre_config_field_at(i)); i++) {
        const int acts = gyre_config_field_acts(a, f) || gyre_config_field_acts(b, f);
        if (!(f->marks & apart) && acts && !same_value(a, b, f)) return 0;
    }
    return 1;
}

enum { POSITIONS = 512 }; /* that are compared at a time */

/* out = cos and sin of `count` positions from `first` on, [2][count][pairs]. */
static gyre_status turns(const gyre_encoding *encoding, int64_t first, int64_t count, float *out) {
    const int64_t pairs = gyre_encoding_get_config(encoding)->rope.dim / 2;
    const gyre_view cosine = {out, GYRE_DTYPE_F32, {1, count, 1, pairs}, {count * pairs, pairs, pairs, 1}};
    gyre_view sine = cosine;
    sine.data = out + count * pairs;
    return gyre_cos_sin(encoding, &(gyre_positions){.base = first}, &cosine, &sine, NULL, NULL);
}

/* Frequencies hold less than angles are computed from, so the numbers that rotate are compared. */
static int same_turns(const gyre_encoding *a, const gyre_encoding *b, int64_t first, int64_t length) {
    const int64_t pairs = gyre_encoding_get_config(a)->rope.dim / 2, numbers = 2 * POSITIONS * pairs;
    float *of_a = cli_alloc(numbers, sizeof *of_a), *of_b = cli_alloc(numbers, sizeof *of_b);
    int same = gyre_encoding_get_config(b)->rope.dim / 2 == pairs;
    for (int64_t at = 0; at < length && same; at += POSITIONS) {
        const int64_t count = length - at < POSITIONS ? length - at : POSITIONS;
        same = !turns(a, first + at, count, of_a) && !turns(b, first + at, count, of_b) &&
               memcmp(of_a, of_b, (size_t)(2 * count * pairs) * sizeof *of_a) == 0;
    }
    free(of_a);
    free(of_b);
    return same;
}

/* Slopes of keys after the query, before they are divided as the others are. */
static int same_slopes_after(const gyre_config *a, const gyre_config *b) {
    const double *x = a->score.slopes_after, *y = b->score.slopes_after;
    return !x || !y ? x == y : memcmp(x, y, (size_t)a->heads * sizeof *x) == 0;
}

static int same_slopes(const gyre_encoding *a, const gyre_encoding *b, int64_t length) {
    const int64_t heads = gyre_encoding_get_config(a)->heads;
    double *of_a = cli_alloc(heads, sizeof *of_a), *of_b = cli_alloc(heads, sizeof *of_b);
    const int same = gyre_encoding_get_config(b)->heads == heads && !gyre_encoding_slopes(a, length, of_a) &&
                     !gyre_encoding_slopes(b, length, of_b) && memcmp(of_a, of_b, (size_t)heads * sizeof *of_a) == 0;
    free(of_a);
    free(of_b);
    return same;
}

/* 1: every token of a window is encoded alike, whatever was read before it, and near and far alike. */
static int is_one_table(const gyre_config *c) {
    return (c->length_policy == GYRE_LENGTH_POLICY_DECLARED || !config_depends_on_length(c)) &&
           c->rope.far == GYRE_FAR_AS_NEAR && c->rope.longrope.start_tokens == 0;
}

int encodings_are_same(const gyre_encoding *a, const gyre_encoding *b, int64_t first, int64_t length) {
    const gyre_config *x = gyre_encoding_get_config(a), *y = gyre_encoding_get_config(b);
    if (same_fields(x, y, GYRE_FIELD_MARK_MEMORY)) return 1;
    if (!same_fields(x, y, GYRE_FIELD_MARK_MEMORY | GYRE_FIELD_MARK_FREQUENCIES | GYRE_FIELD_MARK_SLOPES)) return 0;
    if (!is_one_table(x) || !is_one_table(y)) return 0;
    if (gyre_kind_has(x->kind, GYRE_TRAIT_ROTATES)) return same_turns(a, b, first, length);
    return gyre_kind_has(x->kind, GYRE_TRAIT_SLOPES) && same_slopes(a, b, first + length) && same_slopes_after(x, y);
}

/* -- rows -- */
typedef struct row_encoding {
    gyre_encoding *encoding; /* NULL: the row shares with none */
} row_encoding;

/* The rows at one length. */
static void find_at(same_rows *s, int64_t at, const same_rows_search *of, const row_encoding *made) {
    int64_t *first = s->first + at * s->rows;
    for (int64_t r = 0; r < s->rows; r++) {
        first[r] = r;
        for (int64_t k = 0; k < r && first[r] == r && made[r].encoding; k++)
            if (first[k] == k && made[k].encoding &&
                encodings_are_same(made[k].encoding, made[r].encoding, of->first_position, of->lengths[at]))
                first[r] = k;
    }
}

gyre_status same_rows_find(same_rows *out, const same_rows_search *of, gyre_error *err) {
    const int64_t rows = of->rows;
    const int trains_more = of->model && gyre_model_get_config(of->model)->layer_parts;
    row_encoding *made = cli_alloc(rows, sizeof *made);
    gyre_status status = GYRE_OK;
    *out = (same_rows){cli_alloc(rows * of->count, sizeof *out->first), rows, of->count};
    for (int64_t at = 0; at < of->count && !status; at++) {
        for (int64_t r = 0; r < rows && rows > 1 && !trains_more && !status; r++) {
            status = of->make(of->ctx, r, of->lengths[at], &made[r].encoding, err);
            if (status != GYRE_ENOMEM && status != GYRE_EIO) status = GYRE_OK;
        }
        if (!status) find_at(out, at, of, made);
        for (int64_t r = 0; r < rows; r++) {
            gyre_encoding_free(made[r].encoding);
            made[r].encoding = NULL;
        }
    }
    free(made);
    return status;
}

void same_rows_free(same_rows *same) {
    free(same->first);
    *same = (same_rows){NULL, 0, 0};
}

int64_t same_rows_of(const same_rows *same, int64_t row, int64_t at) {
    const int64_t first = same->first ? same->first[at * same->rows + row] : row;
    return first == row ? -1 : first;
}

int64_t same_rows_next(const same_rows *same, int64_t row, int64_t at, int64_t after) {
    const int64_t *first = same->first ? same->first + at * same->rows : NULL;
    for (int64_t k = after + 1; first && k < same->rows; k++)
        if (k != row && first[k] == first[row]) return k;
    return -1;
}

/* -- the sentence -- */
typedef struct sentence {
    char *text;
    size_t size;
    int parts;
} sentence;

static void add(sentence *s, const char *before, const char *word) {
    const size_t used = strlen(s->text);
    snprintf(s->text + used, s->size - used, "%s%s", before, word);
}

/* out = 1 if row r is one of the rows that share with row `root`, or that row. */
static int is_of(const same_rows *same, int64_t r, int64_t root, int64_t at) {
    return same->first[at * same->rows + r] == root;
}

/* out = how many rows share with row `root`. */
static int64_t sharing(const same_rows *same, int64_t root, int64_t at) {
    int64_t count = 0;
    for (int64_t r = 0; r < same->rows; r++)
        count += is_of(same, r, root, at);
    return count;
}

static int same_group(const same_rows *same, int64_t root, int64_t at, int64_t other) {
    for (int64_t r = 0; r < same->rows; r++)
        if (is_of(same, r, root, at) != is_of(same, r, root, other)) return 0;
    return 1;
}

/* Adds one of `count` words: "a, b and c". */
static void add_listed(sentence *s, const char *word, int64_t index, int64_t count) {
    add(s, !index ? "" : index + 1 == count ? " and " : ", ", word);
}

typedef struct description {
    const same_rows *same;
    const int64_t *lengths; /* [count] */
    int64_t count;
    const char *(*name)(const void *of, int64_t row);
    const void *of;
} description;

/* The rows that share with row `root` from lengths[at] on, unless they did at a length before. */
static void add_group(sentence *s, const description *d, int64_t root, int64_t at) {
    const int64_t rows = sharing(d->same, root, at);
    int64_t index = 0, lengths = 0;
    char length[24];
    for (int64_t k = 0; k < at; k++)
        if (same_group(d->same, root, at, k)) return;
    if (rows < 2) return;
    add(s, s->parts++ ? "; " : "", "");
    for (int64_t r = root; r < d->same->rows; r++)
        if (is_of(d->same, r, root, at)) add_listed(s, d->name(d->of, r), index++, rows);
    add(s, " at ", "");
    for (int64_t k = at; k < d->count; k++)
        lengths += same_group(d->same, root, at, k);
    index = 0;
    for (int64_t k = at; k < d->count; k++) {
        snprintf(length, sizeof length, "%lld", (long long)d->lengths[k]);
        if (same_group(d->same, root, at, k)) add_listed(s, length, index++, lengths);
    }
}

void same_rows_describe(const same_rows *same, const int64_t *lengths, int64_t count,
                        const char *(*name)(const void *of, int64_t row), const void *of, char out[SAME_ROWS_TEXT]) {
    sentence s = {out, SAME_ROWS_TEXT, 0};
    snprintf(out, SAME_ROWS_TEXT, "The same encoding to the bit, so one result: ");
    const description d = {same, lengths, count, name, of};
    for (int64_t at = 0; at < count; at++)
        for (int64_t r = 0; r < same->rows; r++)
            add_group(&s, &d, r, at);
    if (s.parts)
        add(&s, ".", "");
    else
        out[0] = 0;
}
