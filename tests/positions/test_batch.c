/* test_batch.c: positions of packed, padded and multimodal batches, against transformers and against their definition. */
#include "gyre/gyre_positions.h"
#include "support.h"

#include <string.h>

static gyre_batch *make_batch(const gyre_batch_config *config) {
    gyre_batch *batch = NULL;
    gyre_error err = {0, ""};
    if (gyre_batch_create(&batch, config, NULL, &err)) fail_msg("%s", err.text);
    return batch;
}

static gyre_batch_info get(const gyre_batch *batch) {
    gyre_batch_info info = GYRE_INIT(gyre_batch_info);
    assert_int_equal(gyre_batch_get(batch, &info), GYRE_OK);
    return info;
}

static int64_t at(const gyre_positions *p, int64_t row, int64_t token, int64_t axis) {
    assert_int_equal(p->dtype, GYRE_DTYPE_I64);
    return ((const int64_t *)p->data)[row * p->stride_batch + token * p->stride_token + axis * p->stride_axis];
}

static int64_t below(test_random *random, int64_t n) {
    return (int64_t)(test_next(random) % (uint64_t)n);
}

/* -- against transformers -- */
enum { MOST_ROWS = 4, MOST_TOKENS = 4096, MOST_SPANS = 64 };

typedef struct reference_case {
    gyre_span spans[MOST_SPANS];
    int64_t span_starts[MOST_ROWS + 1];
    unsigned char mask[MOST_TOKENS];
    gyre_batch_config config;
} reference_case;

static gyre_span read_span(const json_t *from) {
    gyre_span span = {0, 0, 0, 0, 0, 0};
    if (json_array_size(from) == 1) {
        span.tokens = json_integer_value(json_array_get(from, 0));
        return span;
    }
    span.frames = json_integer_value(json_array_get(from, 0));
    span.rows = json_integer_value(json_array_get(from, 1));
    span.columns = json_integer_value(json_array_get(from, 2));
    span.frame_step = json_number_value(json_array_get(from, 3));
    return span;
}

static void read_case(const json_t *c, reference_case *out) {
    const json_t *rows = json_object_get(c, "spans"), *mask = json_object_get(c, "mask");
    const char *form = test_string(c, "form");
    const size_t width = json_string_length(json_array_get(mask, 0));
    int64_t spans = 0;
    memset(out, 0, sizeof *out);
    out->config = (gyre_batch_config)GYRE_INIT(gyre_batch_config);
    for (size_t r = 0; r < json_array_size(rows); r++) {
        const json_t *row = json_array_get(rows, r);
        for (size_t i = 0; i < json_array_size(row); i++)
            out->spans[spans++] = read_span(json_array_get(row, i));
        out->span_starts[r + 1] = spans;
        const char *marks = json_string_value(json_array_get(mask, r));
        for (size_t t = 0; t < width; t++)
            out->mask[r * width + t] = marks[t] == '1';
    }
    out->config.documents = (int64_t)json_array_size(rows);
    out->config.row_tokens = (int64_t)width;
    out->config.axes = 3;
    out->config.spans = out->spans;
    out->config.span_starts = out->span_starts;
    out->config.padding_position = test_integer(c, "padding");
    out->config.after_grid = strcmp(test_string(c, "after"), "sides") == 0 ? GYRE_AFTER_GRID_SIDES : GYRE_AFTER_GRID_LARGEST;
    out->config.form = strcmp(form, "left") == 0 ? GYRE_BATCH_PADDED_LEFT : GYRE_BATCH_PADDED_RIGHT;
    if (strcmp(form, "masked") == 0) out->config.form = GYRE_BATCH_MASKED, out->config.mask = out->mask;
}

static void check_case(const json_t *c) {
    reference_case of;
    read_case(c, &of);
    gyre_batch *batch = make_batch(&of.config);
    const gyre_batch_info info = get(batch);
    const json_t *want = json_object_get(c, "positions"), *next = json_object_get(c, "next");
    assert_int_equal(info.rows, of.config.documents);
    assert_int_equal(info.tokens, of.config.row_tokens);
    for (int64_t a = 0; a < 3; a++)
        for (int64_t r = 0; r < info.rows; r++)
            for (int64_t t = 0; t < info.tokens; t++) {
                const json_t *row = json_array_get(json_array_get(want, (size_t)a), (size_t)r);
                assert_int_equal(at(&info.positions, r, t, a), json_integer_value(json_array_get(row, (size_t)t)));
            }
    for (int64_t r = 0; r < info.rows; r++) {
        assert_int_equal(info.next_positions[r], json_integer_value(json_array_get(next, (size_t)r)));
        for (int64_t t = 0, place = 0; t < info.tokens; t++) {
            const int real = of.mask[r * info.tokens + t];
            assert_int_equal(info.document_of[r * info.tokens + t], real ? r : -1);
            assert_int_equal(at(&info.order, r, t, 0), real ? place++ : -1);
            if (info.k_first && real) assert_true(info.k_first[r] <= t && t < info.k_end[r]);
        }
    }
    gyre_batch_free(batch);
}

static void equals_transformers(void **state) {
    static const char *const files[] = {"mrope_5.json", "mrope_4.json"};
    (void)state;
    for (size_t f = 0; f < 2; f++) {
        json_t *cases = test_reference(files[f]);
        assert_true(json_array_size(cases) >= 12);
        for (size_t i = 0; i < json_array_size(cases); i++)
            check_case(json_array_get(cases, i));
        json_decref(cases);
    }
}

/* -- grids -- */

/* Encoders order the patches of a frame by the blocks that are merged. */
static void merged_patches_come_in_blocks(void **state) {
    static const int64_t rows[] = {0, 0, 1, 1, 0, 0, 1, 1, 2, 2, 3, 3, 2, 2, 3, 3};
    static const int64_t columns[] = {0, 1, 0, 1, 2, 3, 2, 3, 0, 1, 0, 1, 2, 3, 2, 3};
    static const int64_t starts[] = {0, 1, 2};
    const gyre_span spans[] = {{0, 1, 4, 4, 0, 2}, {0, 2, 4, 4, 0, 2}};
    gyre_batch_config config = GYRE_INIT(gyre_batch_config);
    (void)state;
    config.documents = 2, config.axes = 2;
    config.spans = spans, config.span_starts = starts;
    gyre_batch *batch = make_batch(&config);
    const gyre_batch_info info = get(batch);
    assert_int_equal(info.tokens, 48);
    for (int64_t t = 0; t < 48; t++) {
        assert_int_equal(at(&info.positions, 0, t, 0), rows[t % 16]);
        assert_int_equal(at(&info.positions, 0, t, 1), columns[t % 16]);
    }
    gyre_batch_free(batch);
}

/* On one axis a grid is text. */
static void one_axis_counts_up(void **state) {
    static const int64_t starts[] = {0, 3};
    const gyre_span spans[] = {{3, 0, 0, 0, 0, 0}, {0, 2, 2, 3, 5, 0}, {2, 0, 0, 0, 0, 0}};
    gyre_batch_config config = GYRE_INIT(gyre_batch_config);
    (void)state;
    config.documents = 1;
    config.spans = spans, config.span_starts = starts;
    gyre_batch *batch = make_batch(&config);
    const gyre_batch_info info = get(batch);
    assert_int_equal(info.tokens, 17);
    for (int64_t t = 0; t < 17; t++)
        assert_int_equal(at(&info.positions, 0, t, 0), t);
    gyre_batch_free(batch);
}

/* -- any batch, against its definition -- */
enum { MOST_DOCUMENTS = 6, MOST_LENGTH = 12, ROW = 40 };

typedef struct any_batch {
    gyre_batch_config config;
    int64_t lengths[MOST_DOCUMENTS], cached[MOST_DOCUMENTS], first[MOST_DOCUMENTS];
    unsigned char mask[MOST_DOCUMENTS * ROW];
} any_batch;

static void random_batch(test_random *random, any_batch *b) {
    int64_t sum = 0, longest = 0;
    memset(b, 0, sizeof *b);
    b->config = (gyre_batch_config)GYRE_INIT(gyre_batch_config);
    b->config.form = (gyre_batch_form)below(random, 4);
    b->config.documents = below(random, MOST_DOCUMENTS + 1);
    b->config.padding_position = below(random, 3) - 1;
    b->config.axes = below(random, 4);
    for (int64_t d = 0; d < b->config.documents; d++) {
        b->lengths[d] = below(random, MOST_LENGTH);
        b->cached[d] = below(random, 5);
        b->first[d] = below(random, 1000) - 100;
        sum += b->lengths[d];
        longest = b->lengths[d] > longest ? b->lengths[d] : longest;
    }
    b->config.lengths = b->lengths;
    if (below(random, 2)) b->config.cached = b->cached;
    if (below(random, 2)) b->config.first_positions = b->first;
    if (b->config.form == GYRE_BATCH_MASKED) {
        b->config.row_tokens = longest + below(random, 5);
        b->config.mask = b->mask;
        for (int64_t d = 0; d < b->config.documents; d++)
            for (int64_t left = b->lengths[d]; left > 0;) {
                unsigned char *m = &b->mask[d * b->config.row_tokens + below(random, b->config.row_tokens)];
                left -= !*m;
                *m = 1;
            }
    } else if (below(random, 2)) {
        b->config.row_tokens = (b->config.form == GYRE_BATCH_PACKED ? sum : longest) + below(random, 4);
    }
}

/* out = the document of a token, and *place in it without cached tokens; -1: padding. */
static int64_t owner(const any_batch *b, const gyre_batch_info *info, int64_t row, int64_t t, int64_t *place) {
    const gyre_batch_form form = b->config.form;
    *place = t;
    if (form == GYRE_BATCH_PACKED) {
        for (int64_t d = 0; d < b->config.documents; *place -= b->lengths[d++])
            if (*place < b->lengths[d]) return d;
        return -1;
    }
    if (form == GYRE_BATCH_MASKED) {
        *place = 0;
        for (int64_t i = 0; i < t; i++)
            *place += b->mask[row * info->tokens + i];
        return b->mask[row * info->tokens + t] ? row : -1;
    }
    if (form == GYRE_BATCH_PADDED_LEFT) *place -= info->tokens - b->lengths[row];
    return *place >= 0 && *place < b->lengths[row] ? row : -1;
}

static int64_t cached_of(const any_batch *b, int64_t d) {
    return b->config.cached ? b->cached[d] : 0;
}

static int64_t first_of(const any_batch *b, int64_t d) {
    return b->config.first_positions ? b->first[d] : cached_of(b, d);
}

static void check_starts(const any_batch *b, const gyre_batch_info *info) {
    if (b->config.form != GYRE_BATCH_PACKED) {
        assert_null(info->q_starts);
        return;
    }
    for (int64_t d = 0; d < b->config.documents; d++) {
        assert_int_equal(info->q_starts[d + 1] - info->q_starts[d], b->lengths[d]);
        assert_int_equal(info->k_starts[d + 1] - info->k_starts[d], cached_of(b, d) + b->lengths[d]);
        for (int64_t i = 0; i < cached_of(b, d) + b->lengths[d]; i++)
            assert_int_equal(at(&info->k_positions, 0, info->k_starts[d] + i, info->axes - 1),
                             first_of(b, d) - cached_of(b, d) + i);
    }
    assert_int_equal(info->q_starts[info->sequences], info->tokens);
    assert_true(info->sequences == b->config.documents + (info->k_end != NULL));
    if (info->k_end) assert_int_equal(info->k_end[info->sequences - 1], 0);
}

static void check_any(const any_batch *b) {
    gyre_batch *batch = make_batch(&b->config);
    const gyre_batch_info info = get(batch);
    for (int64_t r = 0; r < info.rows; r++)
        for (int64_t t = 0; t < info.tokens; t++) {
            int64_t place;
            const int64_t d = owner(b, &info, r, t, &place);
            assert_int_equal(info.document_of[r * info.tokens + t], d);
            assert_int_equal(at(&info.order, r, t, 0), d < 0 ? -1 : cached_of(b, d) + place);
            for (int64_t a = 0; a < info.axes; a++)
                assert_int_equal(at(&info.positions, r, t, a), d < 0 ? b->config.padding_position : first_of(b, d) + place);
            if (d < 0 && info.k_end && b->config.form != GYRE_BATCH_PACKED && b->config.form != GYRE_BATCH_MASKED)
                assert_true(t < info.k_first[r] || t >= info.k_end[r]);
        }
    for (int64_t d = 0; d < b->config.documents; d++)
        assert_int_equal(info.next_positions[d], first_of(b, d) + b->lengths[d]);
    check_starts(b, &info);
    gyre_batch_free(batch);
}

static void any_batch_is_as_defined(void **state) {
    test_random random = {19};
    (void)state;
    for (int i = 0; i < 3000; i++) {
        any_batch b;
        random_batch(&random, &b);
        check_any(&b);
    }
}

/* -- labels -- */

static void labels_stop_at_documents(void **state) {
    static const int64_t lengths[] = {3, 1, 2};
    const int64_t labels[8] = {10, 11, 12, 20, 30, 31, 99, 99}, want[8] = {11, 12, -100, -100, 31, -100, -100, -100};
    int64_t out[8];
    gyre_batch_config config = GYRE_INIT(gyre_batch_config);
    (void)state;
    config.documents = 3, config.lengths = lengths, config.row_tokens = 8;
    gyre_batch *batch = make_batch(&config);
    const gyre_cview in = gyre_cdense(labels, GYRE_DTYPE_I64, 1, 8, 1, 1);
    const gyre_view to = gyre_dense(out, GYRE_DTYPE_I64, 1, 8, 1, 1);
    assert_int_equal(gyre_batch_shift_labels(batch, &in, -100, &to, NULL), GYRE_OK);
    assert_memory_equal(out, want, sizeof out);
    memcpy(out, labels, sizeof out);
    const gyre_cview same = gyre_const(to);
    assert_int_equal(gyre_batch_shift_labels(batch, &same, -100, &to, NULL), GYRE_OK); /* in place */
    assert_memory_equal(out, want, sizeof out);
    int64_t longer[9] = {0};
    const gyre_cview early = gyre_cdense(longer, GYRE_DTYPE_I64, 1, 8, 1, 1);
    const gyre_view late = gyre_dense(longer + 1, GYRE_DTYPE_I64, 1, 8, 1, 1);
    assert_int_equal(gyre_batch_shift_labels(batch, &early, -100, &late, NULL), GYRE_EINVAL); /* other overlap */
    const gyre_cview floats = gyre_cdense(labels, GYRE_DTYPE_F64, 1, 8, 1, 1),
                     less = gyre_cdense(labels, GYRE_DTYPE_I64, 1, 7, 1, 1);
    assert_int_equal(gyre_batch_shift_labels(batch, &floats, -100, &to, NULL), GYRE_EDTYPE);
    assert_int_equal(gyre_batch_shift_labels(batch, &less, -100, &to, NULL), GYRE_ESHAPE);
    assert_int_equal(gyre_batch_shift_labels(NULL, &in, -100, &to, NULL), GYRE_EINVAL);
    gyre_batch_free(batch);
}

/* -- what users met -- */

/* LlamaFactory #10783: tokens were padded to a multiple of 8 and positions were not. */
static void positions_are_padded_as_tokens_are(void **state) {
    static const int64_t starts[] = {0, 2, 3};
    const gyre_span spans[] = {{600, 0, 0, 0, 0, 0}, {0, 1, 20, 20, 0, 0}, {234, 0, 0, 0, 0, 0}};
    gyre_batch_config config = GYRE_INIT(gyre_batch_config);
    (void)state;
    config.documents = 2, config.axes = 3, config.row_tokens = 1240;
    config.spans = spans, config.span_starts = starts;
    gyre_batch *batch = make_batch(&config);
    const gyre_batch_info info = get(batch);
    assert_int_equal(info.tokens, 1240);
    for (int64_t a = 0; a < 3; a++)
        for (int64_t t = 1234; t < 1240; t++)
            assert_int_equal(at(&info.positions, 0, t, a), 0);
    assert_int_equal(at(&info.positions, 0, 999, 1), 619);
    assert_int_equal(at(&info.positions, 0, 1000, 1), 0); /* the second document begins again */
    assert_int_equal(info.sequences, 3);
    gyre_batch_free(batch);
}

/* A reply goes on where the images of the prompt end, not at the number of tokens. */
static void decoding_goes_on_after_images(void **state) {
    static const int64_t starts[] = {0, 2}, one = 1;
    const gyre_span spans[] = {{4, 0, 0, 0, 0, 0}, {0, 1, 3, 5, 0, 0}};
    gyre_batch_config config = GYRE_INIT(gyre_batch_config);
    (void)state;
    config.documents = 1, config.axes = 3;
    config.spans = spans, config.span_starts = starts;
    gyre_batch *prompt = make_batch(&config);
    const gyre_batch_info before = get(prompt);
    assert_int_equal(before.next_positions[0], 9);
    gyre_batch_config next = GYRE_INIT(gyre_batch_config);
    const int64_t cached = before.tokens;
    next.documents = 1, next.axes = 3, next.lengths = &one, next.cached = &cached;
    next.first_positions = before.next_positions;
    gyre_batch *reply = make_batch(&next);
    const gyre_batch_info info = get(reply);
    assert_int_equal(at(&info.positions, 0, 0, 0), 9);
    assert_int_equal(at(&info.order, 0, 0, 0), 19);
    assert_int_equal(info.k_starts[1], 20);
    assert_int_equal(info.context_lengths[0], 10);
    gyre_batch_free(reply);
    gyre_batch_free(prompt);
}

/* -- errors -- */

static void refuse(const gyre_batch_config *config, gyre_status wanted, const char *text) {
    gyre_batch *batch = (gyre_batch *)1;
    gyre_error err = {0, ""};
    assert_int_equal(gyre_batch_create(&batch, config, NULL, &err), wanted);
    assert_ptr_equal(batch, (gyre_batch *)1);
    if (!strstr(err.text, text)) fail_msg("\"%s\" does not contain \"%s\"", err.text, text);
}

static void mistakes_are_named(void **state) {
    static const int64_t lengths[] = {3, -1}, long_one[] = {(int64_t)1 << 31}, many[] = {(int64_t)1 << 40},
                         starts[] = {0, 1};
    static const unsigned char mask[] = {1, 0, 1, 1};
    static const int64_t two = 2;
    gyre_batch_config good = GYRE_INIT(gyre_batch_config), c;
    (void)state;
    good.documents = 1, good.lengths = lengths;
    c = good, c.documents = 2;
    refuse(&c, GYRE_EINVAL, "lengths[1]: -1 is not in 0 .. 2^31");
    c = good, c.documents = -1;
    refuse(&c, GYRE_EINVAL, "documents: -1 is not in 0 .. ");
    c = good, c.form = (gyre_batch_form)9;
    refuse(&c, GYRE_EINVAL, "form: 9");
    c = good, c.axes = 4;
    refuse(&c, GYRE_EINVAL, "axes: 4 is not in 0 .. 3");
    c = good, c.row_tokens = 2;
    refuse(&c, GYRE_EINVAL, "row_tokens: 2 are fewer than the 3 needed");
    c = good, c.lengths = NULL;
    refuse(&c, GYRE_EINVAL, "lengths: is NULL");
    c = good, c.mask = mask;
    refuse(&c, GYRE_EINVAL, "mask: is set, but the form is not MASKED");
    c = good, c.form = GYRE_BATCH_MASKED;
    refuse(&c, GYRE_EINVAL, "mask: is NULL");
    c = good, c.form = GYRE_BATCH_MASKED, c.mask = mask, c.row_tokens = 3;
    refuse(&c, GYRE_EINVAL, "mask: 2 tokens of document 0, but lengths has 3");
    c = good, c.span_starts = starts;
    refuse(&c, GYRE_EINVAL, "spans: and span_starts go together");
    c = good, c.cached = many;
    refuse(&c, GYRE_EINVAL, "cached[0]");
    c = good, c.lengths = long_one, c.first_positions = &two;
    refuse(&c, GYRE_ERANGE, "document 0 reach past 2^31");
    c = good, c.padding_position = many[0];
    refuse(&c, GYRE_ERANGE, "padding_position");
    c = good, c.size = 0;
    refuse(&c, GYRE_EINVAL, "size: 0 is not set");
    static const gyre_span bad[] = {{2, 1, 1, 1, 0, 0},
                                    {0, 1, 0, 1, 0, 0},
                                    {0, 1, 3, 4, 0, 2},
                                    {0, 1, 1, 1, -1, 0},
                                    {0, 1 << 20, 1 << 10, 1 << 10, 0, 0},
                                    {-1, 0, 0, 0, 0, 0},
                                    {0, 3, 1, 1, 2e9, 0}};
    static const char *const why[] = {"text and a grid", "below 1",        "no multiples of merge", "frame_step",
                                      "more than 2^31",  "tokens are not", "past position 2^31"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        c = good, c.lengths = NULL, c.spans = &bad[i], c.span_starts = starts, c.axes = 3;
        refuse(&c, i == 6 ? GYRE_ERANGE : GYRE_EINVAL, why[i]);
    }
}

static void memory_may_run_out(void **state) {
    static const int64_t lengths[] = {3, 4};
    gyre_batch_config config = GYRE_INIT(gyre_batch_config);
    test_budget budget = {0, 0, 0};
    const gyre_alloc alloc = test_budget_alloc(&budget);
    gyre_batch *batch = NULL;
    (void)state;
    config.documents = 2, config.lengths = lengths;
    assert_int_equal(gyre_batch_create(&batch, &config, &alloc, NULL), GYRE_ENOMEM);
    budget.left = 1;
    assert_int_equal(gyre_batch_create(&batch, &config, &alloc, NULL), GYRE_OK);
    gyre_batch_free(batch);
    gyre_batch_free(NULL);
    assert_int_equal(budget.live, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(equals_transformers),
                                       cmocka_unit_test(merged_patches_come_in_blocks),
                                       cmocka_unit_test(one_axis_counts_up),
                                       cmocka_unit_test(any_batch_is_as_defined),
                                       cmocka_unit_test(labels_stop_at_documents),
                                       cmocka_unit_test(positions_are_padded_as_tokens_are),
                                       cmocka_unit_test(decoding_goes_on_after_images),
                                       cmocka_unit_test(mistakes_are_named),
                                       cmocka_unit_test(memory_may_run_out)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
