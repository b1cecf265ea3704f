/* fuzz_batch.c: batches of text, images and videos in every form, and the shards of them, by gyre_positions.h token by
 * token: positions on each axis, order, starts, keys of a row, labels, work, and data dealt out and put back. */
#include "fuzz_bytes.h"
#include "fuzz_support.h"
#include "gyre/gyre_positions.h"
#include "numbers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_DOCUMENTS = 4, MOST_SPANS = 3, MOST_TOKENS = 400, MOST_AXES = 3, MOST_ROW = 2000 };

/* A document by definition. */
typedef struct document {
    int64_t tokens, cached, first, next, highest; /* highest: position on axis 0; -1 = no token */
    int64_t at[MOST_TOKENS][MOST_AXES];
} document;

typedef struct call {
    fuzz_bytes in;
    test_random random;
    gyre_batch_config config;
    int64_t axes, lengths[MOST_DOCUMENTS], cached[MOST_DOCUMENTS], first[MOST_DOCUMENTS], starts[MOST_DOCUMENTS + 1];
    gyre_span spans[MOST_DOCUMENTS * MOST_SPANS];
    unsigned char mask[MOST_DOCUMENTS * MOST_ROW];
    document documents[MOST_DOCUMENTS];
    gyre_batch *batch;
    gyre_batch_info info;
} call;

/* -- choosing -- */
static gyre_span choose_span(call *c) {
    static const double steps[] = {0, 1, 0.5, 2.3, 25, 0.1};
    if (fuzz_choice(&c->in, 2)) return (gyre_span){.tokens = fuzz_choice(&c->in, 12)};
    const int64_t merge = fuzz_choice(&c->in, 4), unit = merge > 1 ? merge : 1;
    return (gyre_span){.frames = 1 + fuzz_choice(&c->in, 3),
                       .rows = unit * (1 + fuzz_choice(&c->in, 3)),
                       .columns = unit * (1 + fuzz_choice(&c->in, 3)),
                       .frame_step = steps[fuzz_choice(&c->in, 6)],
                       .merge = merge};
}

static int64_t tokens_of(const gyre_span *s) {
    return s->frames > 0 ? s->frames * s->rows * s->columns : s->tokens;
}

static void choose_documents(call *c) {
    gyre_batch_config *b = &c->config;
    const int has_spans = fuzz_choice(&c->in, 4) != 0, has_cached = fuzz_choice(&c->in, 3) == 1;
    const int has_first = fuzz_choice(&c->in, 3) == 1;
    int64_t spans = 0;
    for (int64_t d = 0; d < b->documents; d++) {
        document *to = &c->documents[d];
        c->starts[d] = spans;
        for (int n = has_spans ? fuzz_choice(&c->in, MOST_SPANS + 1) : 0; n > 0; n--) {
            const gyre_span span = choose_span(c);
            if (to->tokens + tokens_of(&span) > MOST_TOKENS) break;
            to->tokens += tokens_of(&span);
            c->spans[spans++] = span;
        }
        if (!has_spans) to->tokens = fuzz_choice(&c->in, 20);
        to->cached = c->cached[d] = has_cached ? fuzz_choice(&c->in, 30) : 0;
        to->first = c->first[d] = has_first ? fuzz_choice(&c->in, 250) : to->cached;
        c->lengths[d] = to->tokens;
    }
    c->starts[b->documents] = spans;
    if (has_spans) b->spans = c->spans, b->span_starts = c->starts;
    if (has_cached) b->cached = c->cached;
    if (has_first) b->first_positions = c->first;
    if (!has_spans && b->form != GYRE_BATCH_MASKED) b->lengths = c->lengths;
}

static void choose_row(call *c) {
    gyre_batch_config *b = &c->config;
    int64_t sum = 0, longest = 0;
    for (int64_t d = 0; d < b->documents; d++) {
        sum += c->documents[d].tokens;
        longest = c->documents[d].tokens > longest ? c->documents[d].tokens : longest;
    }
    const int64_t needed = b->form == GYRE_BATCH_PACKED ? sum : longest;
    b->row_tokens = fuzz_choice(&c->in, 2) || b->form == GYRE_BATCH_MASKED ? needed + fuzz_choice(&c->in, 9) : 0;
    if (b->form != GYRE_BATCH_MASKED) return;
    for (int64_t d = 0; d < b->documents; d++) { /* so many marks, at random places */
        int64_t left = c->documents[d].tokens;
        for (int64_t t = 0; t < b->row_tokens; t++) {
            const int64_t rest = b->row_tokens - t;
            const int is_token = (int64_t)(test_next(&c->random) % (uint64_t)rest) < left;
            c->mask[d * b->row_tokens + t] = (unsigned char)(is_token * (1 + t % 200));
            left -= is_token;
        }
    }
    b->mask = c->mask;
}

static void choose(call *c) {
    gyre_batch_config *b = &c->config;
    *b = (gyre_batch_config)GYRE_INIT(gyre_batch_config);
    b->form = (gyre_batch_form)fuzz_choice(&c->in, 4);
    b->documents = fuzz_choice(&c->in, MOST_DOCUMENTS + 1);
    b->axes = fuzz_choice(&c->in, MOST_AXES + 1);
    c->axes = b->axes > 0 ? b->axes : 1;
    b->after_grid = (gyre_after_grid)fuzz_choice(&c->in, 2);
    b->padding_position = fuzz_choice(&c->in, 3) - 1;
    choose_documents(c);
    choose_row(c);
}

/* -- the definition -- */
static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static void put(document *d, int64_t *count, int64_t time, int64_t row, int64_t column, int64_t axes) {
    int64_t *at = d->at[(*count)++];
    if (axes == 2) at[0] = row, at[1] = column;
    if (axes != 2) at[0] = time, at[1] = row, at[2] = column;
    d->highest = larger(d->highest, at[0]);
}

/* Frame by frame, row by row; in blocks of merge x merge where they are merged. */
static void put_grid(document *d, int64_t *count, const gyre_span *s, int64_t axes, gyre_after_grid after) {
    const int64_t merge = s->merge > 1 ? s->merge : 1, first = d->next;
    const float step = s->frame_step == 0 ? 1 : (float)s->frame_step;
    int64_t time = 0;
    for (int64_t f = 0; f < s->frames; f++) {
        time = (int64_t)floorf((float)f * step);
        for (int64_t y = 0; y < s->rows; y += merge)
            for (int64_t x = 0; x < s->columns; x += merge)
                for (int64_t i = 0; i < merge * merge; i++)
                    put(d, count, first + time, first + y + i / merge, first + x + i % merge, axes);
    }
    d->next = first + larger(s->rows, s->columns);
    if (axes == 3 && after == GYRE_AFTER_GRID_LARGEST) d->next = larger(d->next, first + time + 1);
}

static void define(call *c, int64_t index) {
    document *d = &c->documents[index];
    int64_t count = 0;
    d->next = d->first;
    d->highest = -1;
    const int64_t spans = c->config.spans ? c->starts[index + 1] - c->starts[index] : 1;
    for (int64_t n = 0; n < spans; n++) {
        const gyre_span *s = c->config.spans ? &c->spans[c->starts[index] + n] : &(gyre_span){.tokens = d->tokens};
        if (s->frames > 0 && c->axes > 1) {
            put_grid(d, &count, s, c->axes, c->config.after_grid);
            continue;
        }
        for (int64_t t = 0; t < tokens_of(s); t++, d->next++)
            put(d, &count, d->next, d->next, d->next, c->axes);
    }
    fuzz_require(count == d->tokens, "the definition has all tokens");
}

/* out = the document of a slot, *token its token; -1 for padding. */
static int64_t document_at(const call *c, int64_t row, int64_t slot, int64_t *token) {
    const gyre_batch_config *b = &c->config;
    if (b->form == GYRE_BATCH_PACKED) {
        for (int64_t d = 0; d < b->documents; slot -= c->documents[d++].tokens)
            if (slot < c->documents[d].tokens) return *token = slot, d;
        return -1;
    }
    *token = b->form == GYRE_BATCH_PADDED_LEFT ? slot - (c->info.tokens - c->documents[row].tokens) : slot;
    if (b->form == GYRE_BATCH_MASKED) {
        *token = 0;
        for (int64_t t = 0; t < slot; t++)
            *token += c->mask[row * b->row_tokens + t] != 0;
        return c->mask[row * b->row_tokens + slot] ? row : -1;
    }
    return *token >= 0 && *token < c->documents[row].tokens ? row : -1;
}

/* -- the batch -- */
static int64_t number_at(const gyre_positions *p, int64_t row, int64_t token, int64_t axis) {
    return ((const int64_t *)p->data)[row * p->stride_batch + token * p->stride_token + axis * p->stride_axis];
}

static void check_tokens(const call *c) {
    const gyre_batch_info *i = &c->info;
    for (int64_t n = 0; n < i->rows * i->tokens; n++) {
        int64_t token = 0;
        const int64_t row = n / i->tokens, slot = n % i->tokens, d = document_at(c, row, slot, &token);
        fuzz_require(i->document_of[n] == d, "a token belongs to its document");
        const int64_t order = d < 0 ? -1 : c->documents[d].cached + token;
        fuzz_require(number_at(&i->order, row, slot, 0) == order, "a token has its place in the document");
        for (int64_t a = 0; a < c->axes; a++) {
            const int64_t want = d < 0 ? c->config.padding_position : c->documents[d].at[token][a];
            fuzz_require(number_at(&i->positions, row, slot, a) == want, "a token has its position");
        }
    }
}

static void check_documents(const call *c) {
    const gyre_batch_info *i = &c->info;
    const int packed = c->config.form == GYRE_BATCH_PACKED;
    int64_t queries = 0, keys = 0;
    for (int64_t d = 0; d < i->documents; d++) {
        const document *of = &c->documents[d];
        fuzz_require(i->lengths[d] == of->tokens && i->next_positions[d] == of->next, "a document ends where it ends");
        if (of->tokens > 0) fuzz_require(i->context_lengths[d] >= of->highest + 1, "the length in use covers the document");
        if (of->tokens > 0 && of->highest + 1 >= of->first)
            fuzz_require(i->context_lengths[d] == of->highest + 1, "the length in use is the highest position + 1");
        if (!packed) continue;
        fuzz_require(i->q_starts[d] == queries && i->k_starts[d] == keys, "documents follow each other");
        for (int64_t k = 0; k < of->cached + of->tokens; k++) {
            const int64_t *at = k < of->cached ? NULL : of->at[k - of->cached];
            for (int64_t a = 0; a < c->axes; a++)
                fuzz_require(number_at(&i->k_positions, 0, keys + k, a) == (at ? at[a] : of->first - of->cached + k),
                             "a key has its position");
        }
        queries += of->tokens;
        keys += of->cached + of->tokens;
    }
    if (packed && i->documents > 0)
        fuzz_require(i->q_starts[i->documents] == queries && i->k_starts[i->documents] == keys, "and end");
    fuzz_require(i->sequences == (packed ? i->documents + (i->tokens > queries) : i->rows), "sequences");
}

/* Keys of a row that are no padding. */
static void check_keys(const call *c) {
    const gyre_batch_info *i = &c->info;
    int64_t padding = 0;
    for (int64_t n = 0; n < i->rows * i->tokens; n++)
        padding += i->document_of[n] < 0;
    fuzz_require((i->k_first != NULL) == (padding > 0) && (i->k_end != NULL) == (padding > 0), "padding has ends");
    if (!i->k_first || !i->k_end) return;
    for (int64_t s = 0; s < i->sequences; s++) {
        int64_t first = 0, end = 0;
        for (int64_t t = 0; c->config.form != GYRE_BATCH_PACKED && t < i->tokens; t++) {
            if (i->document_of[s * i->tokens + t] < 0) continue;
            if (end == 0) first = t;
            end = t + 1;
        }
        if (c->config.form == GYRE_BATCH_PACKED && s < i->documents) end = c->documents[s].cached + c->documents[s].tokens;
        fuzz_require(i->k_end[s] - i->k_first[s] == end - first, "a sequence has its keys");
        fuzz_require(end == 0 || i->k_first[s] == first, "and begins with the first");
    }
}

static void check_labels(const call *c) {
    const gyre_batch_info *i = &c->info;
    const int64_t count = i->rows * i->tokens;
    int64_t *labels = fuzz_room((size_t)count, sizeof *labels), *out = fuzz_room((size_t)count, sizeof *out);
    for (int64_t n = 0; n < count; n++)
        labels[n] = 1000 + n;
    const gyre_cview in = gyre_cdense(labels, GYRE_DTYPE_I64, i->rows, i->tokens, 1, 1);
    const gyre_view to = gyre_dense(out, GYRE_DTYPE_I64, i->rows, i->tokens, 1, 1);
    fuzz_require(!gyre_batch_shift_labels(c->batch, &in, -100, &to, NULL), "labels are shifted");
    for (int64_t n = 0; n < count; n++) {
        const int follows =
            n % i->tokens + 1 < i->tokens && i->document_of[n] >= 0 && i->document_of[n] == i->document_of[n + 1];
        fuzz_require(out[n] == (follows ? 1001 + n : -100), "the label of a token is the next one");
    }
    free(labels);
    free(out);
}

/* -- shards -- */
static int sees(const gyre_shard_config *s, int64_t m, int64_t n) {
    const int64_t after = s->window_after > 0 ? s->window_after : s->window;
    if (s->causal && n > m) return 0;
    if ((s->window == 0 || m - n < s->window) && (after == 0 || n - m < after)) return 1;
    return n < s->sinks;
}

/* Pairs of a slot and the keys of its document, cached ones too, wherever they are. */
static int64_t work_of(const call *c, const gyre_shard_config *s, int64_t n) {
    const int64_t d = c->info.document_of[n];
    if (d < 0) return 0;
    const int64_t m = number_at(&c->info.order, n / c->info.tokens, n % c->info.tokens, 0);
    int64_t sum = 0;
    for (int64_t k = 0; k < c->documents[d].cached + c->documents[d].tokens; k++)
        sum += sees(s, m, k);
    return sum;
}

static void check_rank(const call *c, const gyre_shards *shards, const gyre_shard_config *s, int64_t rank, int *taken,
                       int64_t *pairs) {
    gyre_shard_info i = GYRE_INIT(gyre_shard_info);
    fuzz_require(!gyre_shards_get(shards, rank, &i), "a rank has a shard");
    const int64_t multiple = s->chunk_multiple > 0 ? s->chunk_multiple : 1;
    int64_t sum = 0, at = 0;
    fuzz_require(i.rows == c->info.rows && i.sequences == c->info.sequences, "of all rows and sequences");
    for (int64_t r = 0; r < i.runs; r++)
        for (int64_t t = 0; t < i.run[r].count; t++, at++)
            fuzz_require(at < i.tokens && i.index[at] == i.run[r].first + t, "runs are the indices");
    fuzz_require(at == i.tokens, "all of them");
    for (int64_t t = 0; t < i.tokens; t++) {
        const int64_t slot = i.index[t];
        fuzz_require(slot >= 0 && slot < c->info.tokens && (t == 0 || slot > i.index[t - 1]) && !taken[slot], "once each");
        taken[slot] = 1;
        if (s->layout == GYRE_SHARD_STRIPED) fuzz_require(slot / multiple % s->ranks == rank, "in stripes");
        for (int64_t row = 0; row < i.rows; row++) {
            sum += work_of(c, s, row * c->info.tokens + slot);
            fuzz_require(number_at(&i.order, row, t, 0) == number_at(&c->info.order, row, slot, 0), "in its place");
            for (int64_t a = 0; a < c->axes; a++)
                fuzz_require(number_at(&i.positions, row, t, a) == number_at(&c->info.positions, row, slot, a),
                             "at its position");
        }
    }
    fuzz_require(s->layout != GYRE_SHARD_CONTIGUOUS || i.runs <= 1, "a part is in one piece");
    fuzz_require(s->layout != GYRE_SHARD_ZIGZAG || i.runs <= 2, "two parts are in two");
    fuzz_require(i.pairs == sum, "the work of a rank is its pairs");
    *pairs = sum;
}

/* Taken from the whole by every rank and put back. */
static void check_data(const call *c, const gyre_shards *shards, int64_t ranks) {
    const int64_t count = c->info.rows * c->info.tokens * 2;
    float *whole = fuzz_room((size_t)count, sizeof *whole), *back = fuzz_room((size_t)count, sizeof *back),
          *part = fuzz_room((size_t)count, sizeof *part);
    for (int64_t n = 0; n < count; n++)
        whole[n] = (float)(n + 1);
    const gyre_cview from = gyre_cdense(whole, GYRE_DTYPE_F32, c->info.rows, c->info.tokens, 1, 2);
    const gyre_view to = gyre_dense(back, GYRE_DTYPE_F32, c->info.rows, c->info.tokens, 1, 2);
    for (int64_t r = 0; r < ranks; r++) {
        gyre_shard_info i = GYRE_INIT(gyre_shard_info);
        fuzz_require(!gyre_shards_get(shards, r, &i), "a shard");
        const gyre_view some = gyre_dense(part, GYRE_DTYPE_F32, i.rows, i.tokens, 1, 2);
        const gyre_cview read = gyre_const(some);
        fuzz_require(!gyre_shards_take(shards, r, &from, &some, NULL), "tokens are taken");
        for (int64_t n = 0; n < i.rows * i.tokens; n++)
            fuzz_require(part[2 * n] == whole[2 * (n / i.tokens * c->info.tokens + i.index[n % i.tokens])], "of the rank");
        fuzz_require(!gyre_shards_put(shards, r, &read, &to, NULL), "and put back");
    }
    fuzz_require(count == 0 || memcmp(whole, back, (size_t)count * sizeof *whole) == 0, "to where they were");
    free(whole);
    free(back);
    free(part);
}

static void check_shards(call *c) {
    gyre_shard_config s = GYRE_INIT(gyre_shard_config);
    gyre_error err = {0, ""};
    gyre_shards *shards = NULL;
    s.layout = (gyre_shard_layout)fuzz_choice(&c->in, 4);
    s.ranks = 1 + fuzz_choice(&c->in, 6);
    s.chunk_multiple = fuzz_choice(&c->in, 5);
    s.causal = (gyre_causal)fuzz_choice(&c->in, 3);
    s.window = fuzz_choice(&c->in, 3) == 1 ? 1 + fuzz_choice(&c->in, 20) : 0;
    s.window_after = fuzz_choice(&c->in, 4) == 1 ? 1 + fuzz_choice(&c->in, 10) : 0;
    s.sinks = fuzz_choice(&c->in, 3) == 1 ? fuzz_choice(&c->in, 6) : 0;
    const gyre_status status = gyre_shards_create(&shards, c->batch, &s, NULL, &err);
    fuzz_require_error(status, &err);
    const int one_row = s.layout != GYRE_SHARD_ZIGZAG_PER_DOCUMENT || c->config.form == GYRE_BATCH_PACKED;
    fuzz_require(status == (one_row ? GYRE_OK : GYRE_EINVAL), "a batch is dealt out, by documents where it is packed");
    if (status) return;
    int *taken = fuzz_room((size_t)c->info.tokens, sizeof *taken);
    double most = 0, sum = 0;
    for (int64_t r = 0; r < s.ranks; r++) {
        int64_t pairs = 0;
        check_rank(c, shards, &s, r, taken, &pairs);
        most = fmax(most, (double)pairs);
        sum += (double)pairs;
    }
    for (int64_t t = 0; t < c->info.tokens; t++)
        fuzz_require(taken[t], "each token has a rank");
    const double want = sum > 0 ? most * (double)s.ranks / sum : 1;
    fuzz_require(fabs(gyre_shards_imbalance(shards) - want) <= 1e-12 * want, "imbalance is the most over the mean");
    check_data(c, shards, s.ranks);
    free(taken);
    gyre_shards_free(shards);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static call c;
    gyre_error err = {0, ""};
    memset(&c, 0, sizeof c);
    c.in = (fuzz_bytes){data, size};
    c.random.state = 1 + fuzz_byte(&c.in);
    choose(&c);
    const gyre_status status = gyre_batch_create(&c.batch, &c.config, NULL, &err);
    fuzz_require_error(status, &err);
    fuzz_require(!status, err.text[0] ? err.text : "a legal batch is made");
    c.info = (gyre_batch_info)GYRE_INIT(gyre_batch_info);
    fuzz_require(!gyre_batch_get(c.batch, &c.info), "and told");
    for (int64_t d = 0; d < c.config.documents; d++)
        define(&c, d);
    check_tokens(&c);
    check_documents(&c);
    check_keys(&c);
    check_labels(&c);
    check_shards(&c);
    gyre_batch_free(c.batch);
    return 0;
}
