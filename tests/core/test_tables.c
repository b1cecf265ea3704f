/* test_tables.c: schemes that index tables by distance: rows and attention against reference values, and what is refused.
 * test_attention_schemes.c has the definition and the laws. */
#include "naive_attention_tables.h"

/* -- rows -- */

static void check_rows(const json_t *object, const gyre_config *config, const char *key, int64_t sign) {
    const json_t *relative = json_object_get(object, "relative"), *want = json_object_get(object, key);
    const int64_t span = config->score.position_buckets;
    gyre_encoding *e = test_encoding(config);
    assert_int_equal(json_array_size(relative), json_array_size(want));
    for (size_t i = 0; i < json_array_size(relative); i++) {
        int64_t row, expected = json_integer_value(json_array_get(want, i));
        assert_ok(gyre_encoding_row(e, 0, sign * json_integer_value(json_array_get(relative, i)), &row));
        if (config->kind == GYRE_KIND_DEBERTA) { /* the reference values are buckets; a row is one of 2 span */
            expected += span;
            expected = expected < 0 ? 0 : expected > 2 * span - 1 ? 2 * span - 1 : expected;
        }
        assert_int_equal(row, expected);
    }
    gyre_encoding_free(e);
}

static void rows_agree_with_reference(void **state) {
    (void)state;
    char path[1024];
    json_error_t why;
    snprintf(path, sizeof path, "%s/reference/buckets.json", GYRE_TEST_DATA);
    json_t *root = json_load_file(path, 0, &why), *c;
    size_t i;
    assert_non_null(root);
    assert_true(json_array_size(json_object_get(root, "t5")) == 6);
    json_array_foreach(json_object_get(root, "t5"), i, c) {
        gyre_config config =
            WITH(GYRE_KIND_T5, .buckets = test_integer(c, "num_buckets"), .max_distance = test_integer(c, "max_distance"),
                 .bidirectional = json_is_true(json_object_get(c, "bidirectional")));
        config.heads = 1;
        check_rows(c, &config, "bucket", 1);
    }
    assert_true(json_array_size(json_object_get(root, "deberta")) == 2);
    json_array_foreach(json_object_get(root, "deberta"), i, c) {
        gyre_config config = WITH(GYRE_KIND_DEBERTA, .position_buckets = test_integer(c, "bucket_size"),
                                  .max_distance = test_integer(c, "max_position"));
        config.heads = config.head_dim = 2;
        check_rows(c, &config, "bucket", -1);
    }
    assert_true(json_array_size(json_object_get(root, "clip")) == 3);
    json_array_foreach(json_object_get(root, "clip"), i, c) {
        gyre_config config = WITH(GYRE_KIND_SHAW, .max_distance = test_integer(c, "max_distance"));
        config.head_dim = 2;
        check_rows(c, &config, "row", 1);
        config.kind = GYRE_KIND_NEZHA;
        check_rows(c, &config, "row", 1);
    }
    json_decref(root);
}

/* A quotient of logarithms that is a whole number begins a bucket: ln(16 / 4) / ln(64 / 4) x 4 is 2, whatever its logarithms
 * round to.  The rows were counted in integers: the largest k with (distance / exact)^n >= (max / exact)^k. */
static void whole_quotients_begin_a_bucket(void **state) {
    (void)state;
    static const struct {
        int64_t buckets, max_distance;
        int bidirectional;
        int64_t distance, row;
    } t5[] = {{10, 160, 0, 10, 6},   {10, 160, 0, 20, 7},   {10, 160, 0, 80, 9},  {18, 128, 1, 8, 5},
              {18, 128, 1, 16, 6},   {18, 128, 1, 64, 8},   {20, 320, 0, 20, 12}, {20, 320, 0, 40, 14},
              {20, 320, 0, 160, 18}, {20, 160, 1, 10, 6},   {20, 160, 1, 80, 9},  {36, 32, 0, 24, 27},
              {38, 16, 1, 12, 14},   {38, 288, 1, 144, 17}, {40, 320, 1, 20, 12}, {40, 320, 1, 40, 14},
              {40, 320, 1, 160, 18}, {54, 64, 0, 36, 36},   {54, 125, 0, 75, 45}, {58, 448, 1, 224, 26},
              {60, 480, 1, 240, 27}};
    for (size_t i = 0; i < sizeof t5 / sizeof *t5; i++) {
        int64_t row;
        gyre_config config = WITH(GYRE_KIND_T5, .buckets = t5[i].buckets, .max_distance = t5[i].max_distance,
                                  .bidirectional = t5[i].bidirectional);
        config.heads = 1;
        gyre_encoding *e = test_encoding(&config);
        assert_ok(gyre_encoding_row(e, t5[i].distance, 0, &row));
        assert_int_equal(row, t5[i].row);
        gyre_encoding_free(e);
    }
    /* DeBERTa rounds up: ln(32 / 16) / ln(128 / 16) x 15 is 5, not a little more. */
    static const int64_t deberta[][4] = {{32, 129, 32, 21}, {32, 129, 64, 26}, {128, 513, 128, 85}, {128, 513, 256, 106}};
    for (size_t i = 0; i < sizeof deberta / sizeof *deberta; i++) {
        int64_t row;
        gyre_config config = WITH(GYRE_KIND_DEBERTA, .position_buckets = deberta[i][0], .max_distance = deberta[i][1]);
        config.heads = config.head_dim = 2;
        gyre_encoding *e = test_encoding(&config);
        assert_ok(gyre_encoding_row(e, deberta[i][2], 0, &row));
        assert_int_equal(row, deberta[i][3] + deberta[i][0]);
        gyre_encoding_free(e);
    }
}

static void bert_refuses_positions_outside(void **state) {
    (void)state;
    gyre_config config = WITH(GYRE_KIND_BERT, .max_positions = 8);
    config.head_dim = 4;
    gyre_encoding *e = test_encoding(&config);
    int64_t row = -5;
    for (int64_t m = 0; m < 8; m++)
        for (int64_t n = 0; n < 8; n++) {
            assert_ok(gyre_encoding_row(e, m, n, &row));
            assert_int_equal(row, m - n + 7);
        }
    assert_int_equal(gyre_encoding_row(e, 8, 0, &row), GYRE_ERANGE);
    assert_int_equal(gyre_encoding_row(e, 0, -1, &row), GYRE_ERANGE);
    gyre_encoding_free(e);
}

/* -- the reference figures of attention -- */

/* A flat copy of json [a][b][c] or [b][c]; with swap, as [b][a][c]. */
static size_t read_array(const json_t *array, double *out, int swap) {
    const size_t n = json_array_size(array);
    size_t at = 0;
    if (n > 0 && json_is_array(json_array_get(json_array_get(array, 0), 0))) {
        const size_t rows = json_array_size(json_array_get(array, 0));
        for (size_t i = 0; i < n * rows; i++) {
            const size_t a = swap ? i % n : i / rows, b = swap ? i / n : i % rows;
            const json_t *row = json_array_get(json_array_get(array, a), b);
            for (size_t c = 0; c < json_array_size(row); c++)
                out[at++] = json_number_value(json_array_get(row, c));
        }
        return at;
    }
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < json_array_size(json_array_get(array, i)); c++)
            out[at++] = json_number_value(json_array_get(json_array_get(array, i), c));
    return at;
}

static void rope_config(const json_t *p, gyre_config *config) {
    const json_t *yarn = json_object_get(p, "yarn");
    config->kind = GYRE_KIND_ROPE;
    config->rope.base = test_number(p, "base");
    config->rope.layout = strcmp(test_string(p, "pairing"), "half") == 0 ? GYRE_LAYOUT_HALF : GYRE_LAYOUT_INTERLEAVED;
    if (!yarn) return;
    config->rope.scaling = GYRE_SCALING_YARN;
    config->rope.factor = test_number(yarn, "factor");
    config->trained_length = test_integer(yarn, "original_max_position_embeddings");
}

/* slopes: memory for ALiBi's slopes. */
static gyre_config reference_config(const json_t *object, double *slopes) {
    const char *kind = test_string(object, "kind");
    const json_t *p = json_object_get(object, "parameters");
    gyre_config config = GYRE_INIT(gyre_config);
    config.kind = GYRE_KIND_NOPE;
    if (strncmp(kind, "rope", 4) == 0) {
        rope_config(p, &config);
    } else if (strcmp(kind, "alibi") == 0) {
        config.kind = GYRE_KIND_ALIBI;
        assert_int_equal(test_numbers(p, "slopes", slopes, 64), test_integer(object, "heads"));
        config.score.slopes = slopes;
    } else if (strcmp(kind, "t5") == 0) {
        config.kind = GYRE_KIND_T5;
        config.score.buckets = test_integer(p, "num_buckets");
        config.score.max_distance = test_integer(p, "max_distance");
        config.score.bidirectional = json_is_true(json_object_get(p, "bidirectional"));
    } else if (strncmp(kind, "shaw", 4) == 0) {
        config.kind = GYRE_KIND_SHAW;
        config.score.max_distance = test_integer(p, "max_distance");
        config.score.terms = kind[4] ? 0 : GYRE_TERM_QUERY;
    } else if (strncmp(kind, "bert-", 5) == 0) {
        config.kind = GYRE_KIND_BERT;
        config.score.max_positions = test_integer(p, "max_length");
        config.score.terms = strstr(kind, "query") ? GYRE_TERM_QUERY | GYRE_TERM_KEY : 0;
    } else if (strcmp(kind, "deberta") == 0) {
        config.kind = GYRE_KIND_DEBERTA;
        config.score.max_distance = test_integer(p, "span");
    } else {
        assert_string_equal(kind, "none");
    }
    return config;
}

static void read_part(problem *p, part which, const json_t *array, int swap) {
    if (p->size[which] == 0) return;
    assert_int_equal(read_array(array, p->x64[which], swap), p->size[which]);
    for (size_t i = 0; i < p->size[which]; i++)
        p->x[which][i] = (float)p->x64[which][i];
}

/* In the reference, a table is named after its owner: the key table is multiplied by the query. */
static void read_tables(problem *p, const json_t *parameters) {
    static const char *const names[2][4] = {{"key_table", "query_table", "value_table", "bias"}, {"table", "table", "", ""}};
    for (part i = TABLE_A; i <= BIAS; i++)
        read_part(p, i, json_object_get(parameters, names[json_object_get(parameters, "table") != NULL][i - TABLE_A]), 0);
}

static void check_case(const json_t *object, problem *p) {
    const layout *s = &p->s;
    const gyre_tables tables = problem_tables(p);
    attention_setup args = problem_args(p, &tables);
    double want[512];
    read_part(p, Q, json_object_get(object, "q"), 1);
    read_part(p, K, json_object_get(object, "k"), 1);
    read_part(p, V, json_object_get(object, "v"), 1);
    read_tables(p, json_object_get(object, "parameters"));
    assert_int_equal(read_array(json_object_get(object, "out"), want, 1), p->out_size);
    p->scale = test_number(object, "scale");
    naive(p);
    args.scale = 0; /* the default, DeBERTa's too */
    const size_t bytes = attention_scratch(&args, 0, NULL);
    void *scratch = scratch_for(bytes);
    assert_ok(run_attention(&args, (gyre_scratch){scratch, bytes}, NULL, NULL));
    free(scratch);
    for (int64_t row = 0; row < s->queries * s->heads; row++) {
        double largest = 0;
        for (int64_t c = 0; c < s->dim; c++)
            largest = fmax(largest, fabs(want[row * s->dim + c]));
        for (int64_t c = 0; c < s->dim; c++) {
            const int64_t i = row * s->dim + c;
            test_close(p->out64[i], want[i], 1e-12L * (long double)largest, "definition");
            test_close((long double)p->out[i], want[i], 1e-5L * (long double)largest, test_string(object, "kind"));
        }
    }
}

static void attention_agrees_with_reference(void **state) {
    (void)state;
    json_t *cases = test_reference("attention.json"), *c;
    size_t index;
    assert_int_equal(json_array_size(cases), 22); /* eleven kinds, causal and not */
    json_array_foreach(cases, index, c) {
        double slopes[64];
        const gyre_config config = reference_config(c, slopes);
        const int64_t heads = test_integer(c, "heads"), dim = test_integer(c, "head_dim"), keys = test_integer(c, "keys");
        const layout s = {.batch = 1,
                          .queries = test_integer(c, "queries"),
                          .keys = keys,
                          .heads = heads,
                          .key_heads = heads,
                          .dim = dim,
                          .value_dim = dim,
                          .causal = json_is_true(json_object_get(c, "causal"))};
        assert_int_equal(test_integer(c, "query_offset"), keys - s.queries);
        problem p = make_problem(&config, &s, 1);
        check_case(c, &p);
        free_problem(&p);
    }
    json_decref(cases);
}

/* -- bad input -- */

static void creation_errors(void **state) {
    (void)state;
    static const struct {
        gyre_config config;
        const char *field;
        int no_head_dim, no_heads;
    } bad[] = {
        {WITH(GYRE_KIND_T5, .buckets = 0), "score.buckets", 0, 0},
        {WITH(GYRE_KIND_T5, .buckets = 31), "score.buckets", 0, 0},
        {WITH(GYRE_KIND_T5, .buckets = 2, .bidirectional = 1), "score.buckets", 0, 0},
        {WITH(GYRE_KIND_T5, .buckets = 32, .max_distance = 16), "score.max_distance", 0, 0},
        {WITH(GYRE_KIND_T5, .buckets = 32, .max_distance = -1), "score.max_distance", 0, 0},
        {WITH(GYRE_KIND_T5, .buckets = 32, .max_distance = INT32_MAX), "score", 0, 0},
        {WITH(GYRE_KIND_T5, .buckets = 32), "heads", 0, 1},
        {WITH(GYRE_KIND_KERPLE, .decay = (gyre_decay)2), "score.decay", 0, 0},
        {WITH(GYRE_KIND_KERPLE, .decay = GYRE_DECAY_LOG), "heads", 0, 1},
        {WITH(GYRE_KIND_SHAW, .max_distance = 0), "score.max_distance", 0, 0},
        {WITH(GYRE_KIND_SHAW, .max_distance = 4, .terms = GYRE_TERM_KEY), "score.terms", 0, 0},
        {WITH(GYRE_KIND_SHAW, .max_distance = 4), "head_dim", 1, 0},
        {WITH(GYRE_KIND_NEZHA, .terms = GYRE_TERM_KEY), "score.terms", 0, 0},
        {WITH(GYRE_KIND_NEZHA, .terms = 0), "head_dim", 1, 0},
        {WITH(GYRE_KIND_BERT, .max_positions = 0), "score.max_positions", 0, 0},
        {WITH(GYRE_KIND_BERT, .max_positions = 8, .terms = GYRE_TERM_VALUE), "score.terms", 0, 0},
        {WITH(GYRE_KIND_BERT, .max_positions = 8), "head_dim", 1, 0},
        {WITH(GYRE_KIND_DEBERTA, .max_distance = 0), "score.max_distance", 0, 0},
        {WITH(GYRE_KIND_DEBERTA, .max_distance = 64, .position_buckets = 7), "score.position_buckets", 0, 0},
        {WITH(GYRE_KIND_DEBERTA, .max_distance = 17, .position_buckets = 32), "score.max_distance", 0, 0},
        {WITH(GYRE_KIND_DEBERTA, .max_distance = 64, .terms = GYRE_TERM_VALUE), "score.terms", 0, 0},
        {WITH(GYRE_KIND_DEBERTA, .max_distance = 64), "heads", 0, 1},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        gyre_config config = bad[i].config;
        gyre_encoding *e = (gyre_encoding *)&config;
        gyre_error err = {0};
        config.heads = bad[i].no_heads ? 0 : 2;
        config.head_dim = bad[i].no_head_dim ? 0 : 8;
        assert_int_equal(gyre_encoding_create(&e, &config, NULL, &err), GYRE_EINVAL);
        assert_ptr_equal(e, &config);
        if (strncmp(err.text, bad[i].field, strlen(bad[i].field)) != 0) fail_msg("case %zu: %s", i, err.text);
    }
}

static void refuses_bad_tables(void **state) {
    (void)state;
    const layout s = {1, 5, 7, 2, 1, 8, 8, 0, 0, 0, 0};
    const gyre_config config = WITH(GYRE_KIND_SHAW, .max_distance = 3);
    problem p = make_problem(&config, &s, 1);
    gyre_tables tables = problem_tables(&p);
    gyre_table_gradients gradients = problem_gradients(&p);
    attention_setup args = problem_args(&p, &tables);
    const size_t bytes = attention_scratch(&args, 1, NULL);
    void *scratch = scratch_for(bytes);
    const gyre_cview dout = gyre_cdense(p.x[DOUT], GYRE_DTYPE_F32, 1, 5, 2, 8);
    const gyre_view dqkv[3] = {gyre_dense(p.grad[Q], GYRE_DTYPE_F32, 1, 5, 2, 8),
                               gyre_dense(p.grad[K], GYRE_DTYPE_F32, 1, 7, 1, 8),
                               gyre_dense(p.grad[V], GYRE_DTYPE_F32, 1, 7, 1, 8)};
    memset(p.out, 0x5A, p.out_size * sizeof *p.out);
#define FORWARD run_attention(&args, (gyre_scratch){scratch, bytes}, NULL, NULL)
#define BACKWARD                                                                                                            \
    run_attention_gradient(&args,                                                                                           \
                           GYRE_ARGS(gyre_attention_gradients, .dout = dout, .dq = dqkv[0], .dk = dqkv[1], .dv = dqkv[2],   \
                                     .tables = &gradients),                                                                 \
                           (gyre_scratch){scratch, bytes}, NULL, NULL)
    args.tables = NULL;
    assert_int_equal(FORWARD, GYRE_EINVAL);
    args.tables = &tables;
    tables.value.shape[2]--;
    assert_int_equal(FORWARD, GYRE_ESHAPE);
    assert_int_equal(BACKWARD, GYRE_ESHAPE);
    tables.value.shape[2]++;
    tables.query.dtype = GYRE_DTYPE_F16;
    assert_int_equal(FORWARD, GYRE_EDTYPE);
    tables.query.dtype = GYRE_DTYPE_F32;
    tables.query.data = NULL;
    assert_int_equal(FORWARD, GYRE_EINVAL);
    tables.query.data = p.x[TABLE_A];
    args.v.shape[3] = args.out.shape[3] = 6; /* Shaw's value rows have 8 channels */
    assert_int_equal(FORWARD, GYRE_ESHAPE);
    args.v.shape[3] = args.out.shape[3] = 8;
    gradients.query.shape[1] = 2;
    assert_int_equal(BACKWARD, GYRE_ESHAPE);
    gradients.query.shape[1] = 1;
    gradients.value.stride[2] = 0;
    assert_int_equal(BACKWARD, GYRE_EINVAL);
    for (size_t i = 0; i < p.out_size * sizeof *p.out; i++)
        assert_int_equal(((unsigned char *)p.out)[i], 0x5A);
    for (size_t i = 0; i < p.size[TABLE_V]; i++)
        assert_true(p.table[TABLE_V][i] == 0);
    gradients = problem_gradients(&p);
    gradients.query.data = NULL; /* not wanted */
    assert_ok(FORWARD);
    assert_ok(BACKWARD);
    for (size_t i = 0; i < p.size[TABLE_A]; i++)
        assert_true(p.table[TABLE_A][i] == 0);
    assert_ok(run_attention_gradient(
        &args, GYRE_ARGS(gyre_attention_gradients, .dout = dout, .dq = dqkv[0], .dk = dqkv[1], .dv = dqkv[2]),
        (gyre_scratch){scratch, bytes}, NULL, NULL));
    free(scratch);
    free_problem(&p);
}

/* Tables larger than memory: the size is 0 bytes, not a number that overflowed. */
static void scratch_size_does_not_overflow(void **state) {
    (void)state;
    gyre_config config = WITH(GYRE_KIND_DEBERTA, .max_distance = 70000);
    config.heads = INT32_MAX;
    config.head_dim = 65536;
    attention_setup args = GYRE_INIT(attention_setup);
    args.q = gyre_cdense(NULL, GYRE_DTYPE_F32, 1, 4, INT32_MAX, 65536);
    args.k = args.v = gyre_cdense(NULL, GYRE_DTYPE_F32, 1, 4, 1, 65536);
    args.out = gyre_dense(NULL, GYRE_DTYPE_F32, 1, 4, INT32_MAX, 65536);
    gyre_encoding *e = test_encoding(&config);
    args.encoding = e;
    assert_true(attention_scratch(&args, 1, NULL) == 0);
    gyre_encoding_free(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_agree_with_reference),
        cmocka_unit_test(whole_quotients_begin_a_bucket),
        cmocka_unit_test(bert_refuses_positions_outside),
        cmocka_unit_test(attention_agrees_with_reference),
        cmocka_unit_test(creation_errors),
        cmocka_unit_test(refuses_bad_tables),
        cmocka_unit_test(scratch_size_does_not_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
