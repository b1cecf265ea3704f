/* test_shards.c: the shards of a batch are a partition of its tokens, which keep the positions of the whole. */
#include "gyre/gyre_positions.h"
#include "support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const gyre_shard_layout layouts[] = {GYRE_SHARD_CONTIGUOUS, GYRE_SHARD_ZIGZAG, GYRE_SHARD_STRIPED,
                                            GYRE_SHARD_ZIGZAG_PER_DOCUMENT};

static int64_t below(test_random *random, int64_t n) {
    return (int64_t)(test_next(random) % (uint64_t)n);
}

static int64_t at(const gyre_positions *p, int64_t row, int64_t token, int64_t axis) {
    return ((const int64_t *)p->data)[row * p->stride_batch + token * p->stride_token + axis * p->stride_axis];
}

static gyre_batch_info get_batch(const gyre_batch *batch) {
    gyre_batch_info info = GYRE_INIT(gyre_batch_info);
    assert_int_equal(gyre_batch_get(batch, &info), GYRE_OK);
    return info;
}

static gyre_shard_info get(const gyre_shards *shards, int64_t rank) {
    gyre_shard_info info = GYRE_INIT(gyre_shard_info);
    assert_int_equal(gyre_shards_get(shards, rank, &info), GYRE_OK);
    return info;
}

/* -- random batches -- */
enum { MOST_DOCUMENTS = 5, MOST_LENGTH = 60, MOST_RANKS = 9, HEADS = 2, CHANNELS = 3 };

typedef struct any_shards {
    gyre_batch *batch;
    gyre_shards *shards;
    gyre_batch_info whole;
    gyre_shard_config config;
    int64_t lengths[MOST_DOCUMENTS], cached[MOST_DOCUMENTS];
} any_shards;

/* Text, then an image, then text, in each document that is long enough. */
static int64_t random_spans(const any_shards *s, int64_t documents, gyre_span *spans, int64_t *starts) {
    int64_t count = starts[0] = 0;
    for (int64_t d = 0; d < documents; d++) {
        const int64_t n = s->lengths[d];
        spans[count++] = (gyre_span){n < 8 ? n : n - 6, 0, 0, 0, 0, 0};
        if (n >= 8) spans[count++] = (gyre_span){0, 1, 2, 3, 0, 0};
        starts[d + 1] = count;
    }
    return count;
}

static void make(test_random *random, any_shards *s) {
    gyre_batch_config batch = GYRE_INIT(gyre_batch_config);
    gyre_span spans[2 * MOST_DOCUMENTS];
    int64_t starts[MOST_DOCUMENTS + 1], needed = 0;
    gyre_error err = {0, ""};
    memset(s, 0, sizeof *s);
    batch.form = (gyre_batch_form)below(random, 3);
    batch.documents = 1 + below(random, MOST_DOCUMENTS);
    for (int64_t d = 0; d < batch.documents; d++) {
        const int64_t n = s->lengths[d] = below(random, MOST_LENGTH);
        s->cached[d] = below(random, 7);
        needed = batch.form == GYRE_BATCH_PACKED ? needed + n : n > needed ? n : needed;
    }
    batch.lengths = s->lengths;
    if (below(random, 3) == 0) batch.cached = s->cached;
    if (!batch.cached) memset(s->cached, 0, sizeof s->cached);
    if (below(random, 2)) batch.row_tokens = needed + below(random, 9);
    if (below(random, 2)) {
        batch.axes = 3, batch.spans = spans, batch.span_starts = starts;
        random_spans(s, batch.documents, spans, starts);
    }
    if (gyre_batch_create(&s->batch, &batch, NULL, &err)) fail_msg("%s", err.text);
    s->whole = get_batch(s->batch);
    s->config = (gyre_shard_config)GYRE_INIT(gyre_shard_config);
    s->config.layout = layouts[below(random, batch.form == GYRE_BATCH_PACKED ? 4 : 3)];
    s->config.ranks = 1 + below(random, MOST_RANKS);
    s->config.chunk_multiple = below(random, 3) ? 0 : 1 + below(random, 10);
    s->config.causal = (gyre_causal)below(random, 3);
    s->config.window = below(random, 2) ? 0 : 1 + below(random, 20);
    s->config.window_after = below(random, 2) ? 0 : 1 + below(random, 20);
    s->config.sinks = below(random, 2) ? 0 : below(random, 30);
    if (gyre_shards_create(&s->shards, s->batch, &s->config, NULL, &err)) fail_msg("%s", err.text);
}

static void discard(any_shards *s) {
    gyre_shards_free(s->shards);
    gyre_batch_free(s->batch);
}

/* -- the definition -- */

/* out = the rank of token t of n that are cut in parts: the part is the last that does not begin after t. */
static int64_t owner_of_part(const gyre_shard_config *c, int64_t t, int64_t n) {
    const int64_t multiple = c->chunk_multiple ? c->chunk_multiple : 1, zigzag = c->layout != GYRE_SHARD_CONTIGUOUS;
    const int64_t parts = zigzag ? 2 * c->ranks : c->ranks, blocks = (n + multiple - 1) / multiple;
    int64_t part = 0;
    for (int64_t p = 0; p < parts; p++)
        if (p * blocks / parts * multiple <= t) part = p;
    return part < c->ranks ? part : 2 * c->ranks - 1 - part;
}

static int64_t owner(const any_shards *s, int64_t t) {
    const gyre_shard_config *c = &s->config;
    const int64_t multiple = c->chunk_multiple ? c->chunk_multiple : 1;
    if (c->layout == GYRE_SHARD_STRIPED) return t / multiple % c->ranks;
    if (c->layout != GYRE_SHARD_ZIGZAG_PER_DOCUMENT) return owner_of_part(c, t, s->whole.tokens);
    int64_t first = 0, d = 0;
    while (d < s->whole.documents && t >= first + s->lengths[d])
        first += s->lengths[d++];
    return owner_of_part(c, t - first, d < s->whole.documents ? s->lengths[d] : s->whole.tokens - first);
}

static int sees(const gyre_shard_config *c, int64_t m, int64_t n) {
    const int64_t after = c->window_after ? c->window_after : c->window;
    if (c->causal && n > m) return 0;
    if ((c->window || (!c->causal && after)) && n < c->sinks) return 1;
    if (c->window && m - n >= c->window) return 0;
    return n <= m || !after || n - m < after;
}

static int64_t pairs_of(const any_shards *s, const gyre_shard_info *shard) {
    int64_t pairs = 0;
    for (int64_t r = 0; r < shard->rows; r++)
        for (int64_t i = 0; i < shard->tokens; i++) {
            const int64_t d = s->whole.document_of[r * s->whole.tokens + shard->index[i]];
            for (int64_t n = 0; d >= 0 && n < s->cached[d] + s->lengths[d]; n++)
                pairs += sees(&s->config, at(&shard->order, r, i, 0), n);
        }
    return pairs;
}

/* -- properties -- */

static void check_shard(const any_shards *s, int64_t rank, int *seen) {
    const gyre_shard_info shard = get(s->shards, rank);
    int64_t run = 0, in_run = 0;
    assert_int_equal(shard.rows, s->whole.rows);
    for (int64_t i = 0; i < shard.tokens; i++) {
        const int64_t t = shard.index[i];
        assert_int_equal(owner(s, t), rank);
        assert_true(i == 0 || t > shard.index[i - 1]);
        seen[t]++;
        assert_int_equal(t, shard.run[run].first + in_run);
        if (++in_run == shard.run[run].count) run++, in_run = 0;
        for (int64_t r = 0; r < shard.rows; r++) {
            assert_int_equal(at(&shard.order, r, i, 0), at(&s->whole.order, r, t, 0));
            for (int64_t a = 0; a < s->whole.axes; a++)
                assert_int_equal(at(&shard.positions, r, i, a), at(&s->whole.positions, r, t, a));
        }
    }
    assert_int_equal(run, shard.runs);
    for (int64_t q = 0; q < shard.sequences; q++)
        for (int64_t i = 0; i < shard.tokens; i++) {
            const int64_t t = shard.index[i];
            if (shard.starts)
                assert_int_equal(i >= shard.starts[q] && i < shard.starts[q + 1],
                                 t >= s->whole.q_starts[q] && t < s->whole.q_starts[q + 1]);
            else if (shard.k_end)
                assert_int_equal(i >= shard.k_first[q] && i < shard.k_end[q],
                                 t >= s->whole.k_first[q] && t < s->whole.k_end[q]);
        }
    if (shard.starts) assert_int_equal(shard.starts[shard.sequences], shard.tokens);
    assert_int_equal(shard.pairs, pairs_of(s, &shard));
}

static void check_data(const any_shards *s, test_random *random) {
    const int64_t rows = s->whole.rows, tokens = s->whole.tokens, row = HEADS * CHANNELS;
    const size_t n = (size_t)(rows * tokens * row);
    float *whole = calloc(n + 1, sizeof *whole), *back = calloc(n + 1, sizeof *back), *part = calloc(n + 1, sizeof *part);
    test_fill(random, whole, n);
    const gyre_cview from = gyre_cdense(whole, GYRE_DTYPE_F32, rows, tokens, HEADS, CHANNELS);
    const gyre_view to = gyre_dense(back, GYRE_DTYPE_F32, rows, tokens, HEADS, CHANNELS);
    for (int64_t rank = 0; rank < s->config.ranks; rank++) {
        const gyre_shard_info shard = get(s->shards, rank);
        const gyre_view mine = gyre_dense(part, GYRE_DTYPE_F32, rows, shard.tokens, HEADS, CHANNELS);
        const gyre_cview sent = gyre_const(mine);
        assert_int_equal(gyre_shards_take(s->shards, rank, &from, &mine, NULL), GYRE_OK);
        for (int64_t r = 0; r < rows; r++)
            for (int64_t i = 0; i < shard.tokens; i++)
                assert_memory_equal(part + (r * shard.tokens + i) * row, whole + (r * tokens + shard.index[i]) * row,
                                    (size_t)row * sizeof *part);
        assert_int_equal(gyre_shards_put(s->shards, rank, &sent, &to, NULL), GYRE_OK);
    }
    assert_memory_equal(back, whole, n * sizeof *whole);
    free(whole);
    free(back);
    free(part);
}

/* The label of a token is the next token of its document, whoever has that. */
static void check_labels(const any_shards *s) {
    const int64_t rows = s->whole.rows, tokens = s->whole.tokens;
    int32_t *ids = calloc((size_t)(rows * tokens) + 1, sizeof *ids),
            *mine = calloc((size_t)(rows * tokens) + 1, sizeof *mine);
    for (int32_t i = 0; i < rows * tokens; i++)
        ids[i] = i;
    const gyre_view all = gyre_dense(ids, GYRE_DTYPE_I32, rows, tokens, 1, 1);
    const gyre_cview whole = gyre_const(all);
    assert_int_equal(gyre_batch_shift_labels(s->batch, &whole, -100, &all, NULL), GYRE_OK);
    for (int64_t rank = 0; rank < s->config.ranks; rank++) {
        const gyre_shard_info shard = get(s->shards, rank);
        const gyre_view out = gyre_dense(mine, GYRE_DTYPE_I32, rows, shard.tokens, 1, 1);
        assert_int_equal(gyre_shards_take(s->shards, rank, &whole, &out, NULL), GYRE_OK);
        for (int64_t r = 0; r < rows; r++)
            for (int64_t i = 0; i < shard.tokens; i++) {
                const int64_t t = r * tokens + shard.index[i], d = s->whole.document_of[t];
                const int last = d < 0 || at(&s->whole.order, r, shard.index[i], 0) == s->cached[d] + s->lengths[d] - 1;
                assert_int_equal(mine[r * shard.tokens + i], last ? -100 : t + 1);
            }
    }
    free(ids);
    free(mine);
}

static void shards_are_a_partition(void **state) {
    test_random random = {7};
    (void)state;
    for (int i = 0; i < 3000; i++) {
        any_shards s;
        int seen[MOST_DOCUMENTS * MOST_LENGTH + 16] = {0};
        make(&random, &s);
        for (int64_t rank = 0; rank < s.config.ranks; rank++)
            check_shard(&s, rank, seen);
        for (int64_t t = 0; t < s.whole.tokens; t++)
            assert_int_equal(seen[t], 1);
        if (i % 4 == 0) check_data(&s, &random);
        if (i % 4 == 1) check_labels(&s);
        discard(&s);
    }
}

/* -- work -- */

static double imbalance(gyre_shard_layout layout, int64_t tokens, int64_t ranks) {
    gyre_batch_config batch_config = GYRE_INIT(gyre_batch_config);
    gyre_shard_config config = GYRE_INIT(gyre_shard_config);
    gyre_batch *batch;
    gyre_shards *shards;
    batch_config.documents = 1, batch_config.lengths = &tokens;
    config.layout = layout, config.ranks = ranks, config.causal = GYRE_CAUSAL_BY_ORDER;
    assert_int_equal(gyre_batch_create(&batch, &batch_config, NULL, NULL), GYRE_OK);
    assert_int_equal(gyre_shards_create(&shards, batch, &config, NULL, NULL), GYRE_OK);
    const double out = gyre_shards_imbalance(shards);
    gyre_shards_free(shards);
    gyre_batch_free(batch);
    return out;
}

/* Contiguous: the last of R ranks has (2 R - 1) / R of the mean.  Zigzag is even where the parts are. */
static void work_is_told(void **state) {
    (void)state;
    for (int64_t ranks = 1; ranks <= 64; ranks *= 2) {
        const double last = (double)(2 * ranks - 1) / (double)ranks;
        assert_true(fabs(imbalance(GYRE_SHARD_CONTIGUOUS, 16384, ranks) - last) < 0.01);
        assert_true(imbalance(GYRE_SHARD_ZIGZAG, 16384, ranks) == 1);
        assert_true(imbalance(GYRE_SHARD_STRIPED, 16384, ranks) < 1.005);
    }
    assert_true(imbalance(GYRE_SHARD_ZIGZAG, 16381, 7) < 1.001);
    assert_true(gyre_shards_imbalance(NULL) == 1);
}

/* -- what users met -- */

static void make_packed(gyre_batch **batch, gyre_shards **shards, const gyre_batch_config *config, gyre_shard_layout layout,
                        int64_t ranks) {
    gyre_shard_config shard_config = GYRE_INIT(gyre_shard_config);
    shard_config.layout = layout, shard_config.ranks = ranks, shard_config.causal = GYRE_CAUSAL_BY_ORDER;
    assert_int_equal(gyre_batch_create(batch, config, NULL, NULL), GYRE_OK);
    assert_int_equal(gyre_shards_create(shards, *batch, &shard_config, NULL, NULL), GYRE_OK);
}

static void expect_numbers(const int64_t *is, const int64_t *wanted, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        assert_int_equal(is[i], wanted[i]);
}

/* Megatron-LM #5243: later documents took the positions of the first.  Rank 0 has rows 0, 3, 4 and 7 of the packed batch. */
static void later_documents_keep_their_rows(void **state) {
    static const int64_t lengths[] = {4, 4}, first[] = {0, 100}, index[2][4] = {{0, 3, 4, 7}, {1, 2, 5, 6}};
    static const int64_t positions[2][4] = {{0, 3, 100, 103}, {1, 2, 101, 102}};
    gyre_batch_config config = GYRE_INIT(gyre_batch_config);
    gyre_batch *batch;
    gyre_shards *shards;
    (void)state;
    config.documents = 2, config.lengths = lengths, config.first_positions = first;
    make_packed(&batch, &shards, &config, GYRE_SHARD_ZIGZAG_PER_DOCUMENT, 2);
    for (int64_t rank = 0; rank < 2; rank++) {
        const gyre_shard_info shard = get(shards, rank);
        assert_int_equal(shard.tokens, 4);
        expect_numbers(shard.index, index[rank], 4);
        expect_numbers(shard.positions.data, positions[rank], 4);
    }
    gyre_shards_free(shards);
    gyre_batch_free(batch);
}

/* Megatron-LM #4977: a rank took its own number of tokens for the length of the sequence. */
static void the_length_is_that_of_the_whole(void **state) {
    static const int64_t lengths[] = {16};
    gyre_batch_config config = GYRE_INIT(gyre_batch_config);
    gyre_batch *batch;
    gyre_shards *shards;
    (void)state;
    config.documents = 1, config.lengths = lengths;
    make_packed(&batch, &shards, &config, GYRE_SHARD_CONTIGUOUS, 4);
    const gyre_shard_info shard = get(shards, 3);
    assert_int_equal(shard.tokens, 4);
    assert_int_equal(at(&shard.positions, 0, 3, 0), 15);
    assert_int_equal(get_batch(batch).context_lengths[0], 16);
    gyre_shards_free(shards);
    gyre_batch_free(batch);
}

/* Automodel #1482 and #2172: positions [axes, rows, tokens] were cut along the axes, and those of a packed batch with images
 * were counted anew. */
static void axes_are_never_dealt_out(void **state) {
    static const int64_t starts[] = {0, 2, 3};
    const gyre_span spans[] = {{2, 0, 0, 0, 0, 0}, {0, 1, 2, 3, 0, 0}, {4, 0, 0, 0, 0, 0}};
    static const int64_t wanted[3][3][4] = {/* [axis][rank] */
                                            {{0, 1, 2, 3}, {2, 2, 0, 1}, {2, 2, 2, 2}},
                                            {{0, 1, 2, 3}, {2, 2, 0, 1}, {2, 3, 3, 3}},
                                            {{0, 1, 2, 3}, {2, 3, 0, 1}, {4, 2, 3, 4}}};
    gyre_batch_config config = GYRE_INIT(gyre_batch_config);
    gyre_batch *batch;
    gyre_shards *shards;
    (void)state;
    config.documents = 2, config.axes = 3, config.spans = spans, config.span_starts = starts;
    make_packed(&batch, &shards, &config, GYRE_SHARD_ZIGZAG, 3); /* parts of 2 tokens: ranks 0 1 2 2 1 0 */
    for (int64_t rank = 0; rank < 3; rank++)
        for (int64_t a = 0; a < 3; a++)
            for (int64_t i = 0; i < 4; i++) {
                const gyre_shard_info shard = get(shards, rank);
                assert_int_equal(shard.tokens, 4);
                assert_int_equal(at(&shard.positions, 0, i, a), wanted[a][rank][i]);
            }
    gyre_shards_free(shards);
    gyre_batch_free(batch);
}

/* axolotl #3608: the ring saw one document where there were several. */
static void documents_stay_apart(void **state) {
    static const int64_t lengths[] = {6, 2, 8};
    gyre_batch_config config = GYRE_INIT(gyre_batch_config);
    gyre_batch *batch;
    gyre_shards *shards;
    int64_t pairs = 0;
    (void)state;
    config.documents = 3, config.lengths = lengths;
    make_packed(&batch, &shards, &config, GYRE_SHARD_ZIGZAG, 2);
    static const int64_t starts[2][4] = {{0, 4, 4, 8}, {0, 2, 4, 8}};
    for (int64_t rank = 0; rank < 2; rank++) {
        const gyre_shard_info shard = get(shards, rank);
        expect_numbers(shard.starts, starts[rank], 4);
        pairs += shard.pairs;
    }
    assert_int_equal(pairs, 21 + 3 + 36); /* not the 136 of one document */
    gyre_shards_free(shards);
    gyre_batch_free(batch);
}

/* -- errors -- */

static void refuse(const gyre_batch *batch, const gyre_shard_config *config, const char *text) {
    gyre_shards *shards = (gyre_shards *)1;
    gyre_error err = {0, ""};
    assert_int_equal(gyre_shards_create(&shards, batch, config, NULL, &err), GYRE_EINVAL);
    assert_ptr_equal(shards, (gyre_shards *)1);
    if (!strstr(err.text, text)) fail_msg("\"%s\" does not contain \"%s\"", err.text, text);
}

static void mistakes_are_named(void **state) {
    static const int64_t lengths[] = {5, 3};
    static float memory[64];
    gyre_batch_config batch_config = GYRE_INIT(gyre_batch_config);
    gyre_shard_config good = GYRE_INIT(gyre_shard_config), c;
    gyre_shard_info info = GYRE_INIT(gyre_shard_info);
    gyre_batch *batch;
    gyre_shards *shards;
    (void)state;
    batch_config.documents = 2, batch_config.lengths = lengths, batch_config.form = GYRE_BATCH_PADDED_RIGHT;
    assert_int_equal(gyre_batch_create(&batch, &batch_config, NULL, NULL), GYRE_OK);
    good.ranks = 2;
    c = good, c.ranks = 0;
    refuse(batch, &c, "ranks: 0 is not in 1 .. 65536");
    c = good, c.layout = GYRE_SHARD_ZIGZAG_PER_DOCUMENT;
    refuse(batch, &c, "layout: ZIGZAG_PER_DOCUMENT needs a packed batch");
    c = good, c.window = -1;
    refuse(batch, &c, "window: -1");
    refuse(NULL, &good, "batch: is NULL");
    assert_int_equal(gyre_shards_create(&shards, batch, &good, NULL, NULL), GYRE_OK);
    assert_int_equal(gyre_shards_get(shards, 2, &info), GYRE_EINVAL);
    assert_int_equal(gyre_shards_get(shards, -1, &info), GYRE_EINVAL);
    const gyre_cview whole = gyre_cdense(memory, GYRE_DTYPE_F32, 2, 5, 1, 2);
    const gyre_view part = gyre_dense(memory + 32, GYRE_DTYPE_F32, 2, 2, 1, 2),
                    less = gyre_dense(memory, GYRE_DTYPE_F32, 2, 1, 1, 2);
    const gyre_view doubles = gyre_dense(memory, GYRE_DTYPE_F64, 2, 2, 1, 2);
    assert_int_equal(gyre_shards_take(shards, 0, &whole, &part, NULL), GYRE_OK);
    assert_int_equal(gyre_shards_take(shards, 0, &whole, &less, NULL), GYRE_ESHAPE);
    assert_int_equal(gyre_shards_take(shards, 0, &whole, &doubles, NULL), GYRE_EDTYPE);
    assert_int_equal(gyre_shards_take(shards, 2, &whole, &part, NULL), GYRE_EINVAL);
    const gyre_view inside = gyre_dense(memory + 19, GYRE_DTYPE_F32, 2, 2, 1, 2), /* the last number of `whole` */
        all = gyre_dense(memory, GYRE_DTYPE_F32, 2, 5, 1, 2);
    const gyre_cview from_inside = gyre_const(inside), from_part = gyre_const(part);
    gyre_error err = {0, ""};
    assert_int_equal(gyre_shards_take(shards, 0, &whole, &inside, &err), GYRE_EINVAL);
    assert_non_null(strstr(err.text, "out: overlaps whole"));
    assert_int_equal(gyre_shards_put(shards, 0, &from_inside, &all, &err), GYRE_EINVAL);
    assert_non_null(strstr(err.text, "whole: overlaps part"));
    assert_int_equal(gyre_shards_put(shards, 0, &from_part, &all, NULL), GYRE_OK);
    gyre_shards_free(shards);
    gyre_batch_free(batch);
}

static void memory_may_run_out(void **state) {
    static const int64_t lengths[] = {3, 4};
    gyre_batch_config batch_config = GYRE_INIT(gyre_batch_config);
    gyre_shard_config config = GYRE_INIT(gyre_shard_config);
    gyre_batch *batch;
    (void)state;
    batch_config.documents = 2, batch_config.lengths = lengths, config.ranks = 2;
    assert_int_equal(gyre_batch_create(&batch, &batch_config, NULL, NULL), GYRE_OK);
    for (int i = 0; i <= 2; i++) {
        test_budget budget = {i, 0, 0};
        const gyre_alloc alloc = test_budget_alloc(&budget);
        gyre_shards *shards = NULL;
        assert_int_equal(gyre_shards_create(&shards, batch, &config, &alloc, NULL), i < 2 ? GYRE_ENOMEM : GYRE_OK);
        gyre_shards_free(shards);
        assert_int_equal(budget.live, 0);
    }
    gyre_batch_free(batch);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(shards_are_a_partition),
                                       cmocka_unit_test(work_is_told),
                                       cmocka_unit_test(later_documents_keep_their_rows),
                                       cmocka_unit_test(the_length_is_that_of_the_whole),
                                       cmocka_unit_test(axes_are_never_dealt_out),
                                       cmocka_unit_test(documents_stay_apart),
                                       cmocka_unit_test(mistakes_are_named),
                                       cmocka_unit_test(memory_may_run_out)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
