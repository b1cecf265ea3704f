/* test_paged.c: attention over keys and values in pages of the caller, in the tables of FlashInfer and of vLLM, has the bits
 * of calls over dense keys. */
#include "attention_memory.h"
#include "gyre/gyre_attention.h"

#include <stdlib.h>
#include <string.h>

enum { SEQUENCES = 5, HEADS = 6, KV_HEADS = 2, DIM = 32, VALUE_DIM = 24, MOST = 300, PAGES = 500, QUERIES = 64 };
static const int64_t tokens_of[SEQUENCES] = {1, 300, 0, 128, 37}, queries_of[SEQUENCES] = {1, 1, 0, 20, 37};

typedef struct paged_case {
    const char *name;
    gyre_dtype kv;
    int64_t page;
    int by_heads, is_vllm, rotates; /* by_heads: pages lie [head][token] */
    gyre_causal causal;
    gyre_order order;
    int64_t window;
} paged_case;

#define F32  GYRE_DTYPE_F32
#define BF16 GYRE_DTYPE_BF16
#define AT   GYRE_CAUSAL_BY_POSITION
#define FAST GYRE_ORDER_FAST
static const paged_case cases[] = {{"pages of 16", F32, 16, 0, 0, 0, AT, FAST, 0},
                                   {"pages of one token", F32, 1, 0, 1, 1, AT, FAST, 0},
                                   {"heads first", BF16, 16, 1, 0, 0, AT, FAST, 0},
                                   {"a block table", BF16, 128, 0, 1, 1, AT, FAST, 0},
                                   {"raw keys", F32, 64, 1, 0, 1, GYRE_CAUSAL_BY_ORDER, FAST, 0},
                                   {"a window", F32, 16, 0, 1, 1, AT, FAST, 30},
                                   {"a fixed order", BF16, 16, 0, 0, 1, AT, GYRE_ORDER_FIXED, 0},
                                   {"one page", F32, 512, 0, 0, 0, AT, FAST, 0}};

/* Dense keys and values, and the same in pages. */
static float k[SEQUENCES][MOST][KV_HEADS][DIM], v[SEQUENCES][MOST][KV_HEADS][VALUE_DIM];
static float q[SEQUENCES * QUERIES][HEADS][DIM], out[SEQUENCES * QUERIES][HEADS][VALUE_DIM],
    want[SEQUENCES * QUERIES][HEADS][VALUE_DIM], lse[SEQUENCES * QUERIES][HEADS], want_lse[SEQUENCES * QUERIES][HEADS];
static float *paged_k, *paged_v;
static int32_t indices[SEQUENCES * MOST], indptr[SEQUENCES + 1], last_page_len[SEQUENCES], lengths[SEQUENCES];

static gyre_cview page_view(const paged_case *c, const void *data, int64_t dim) {
    gyre_cview view = gyre_cdense(data, c->kv, PAGES, c->page, KV_HEADS, dim);
    if (c->by_heads) view.stride[1] = dim, view.stride[2] = c->page * dim;
    return view;
}

static int64_t page_element(const gyre_cview *view, int64_t page, int64_t token, int64_t head, int64_t channel) {
    return page * view->stride[0] + token * view->stride[1] + head * view->stride[2] + channel * view->stride[3];
}

/* The row of a head of a token, from dense memory to its page. */
static void put_row(const paged_case *c, const gyre_cview *view, void *pages, int64_t page, int64_t token, int64_t head,
                    const void *dense, int64_t row) {
    const size_t size = gyre_dtype_size(c->kv), dim = (size_t)view->shape[3];
    memcpy((char *)pages + (size_t)page_element(view, page, token, head, 0) * size,
           (const char *)dense + (size_t)row * dim * size, dim * size);
}

/* Pages in an order that is not that of memory. */
static gyre_pages make_pages(const paged_case *c) {
    gyre_pages pages = GYRE_INIT(gyre_pages);
    const int64_t stride = (MOST + c->page - 1) / c->page;
    int32_t next = 0;
    pages.k = page_view(c, paged_k, DIM);
    pages.v = page_view(c, paged_v, VALUE_DIM);
    pages.indices = indices;
    pages.sequences = SEQUENCES;
    for (int64_t s = 0; s < SEQUENCES; s++) {
        const int64_t count = (tokens_of[s] + c->page - 1) / c->page, first = c->is_vllm ? s * stride : indptr[s];
        for (int64_t i = 0; i < count; i++)
            indices[first + i] = (int32_t)((7 * (next++) + 3) % PAGES);
        indptr[s + 1] = (int32_t)(indptr[s] + count);
        lengths[s] = (int32_t)tokens_of[s];
        last_page_len[s] = (int32_t)(count > 0 ? tokens_of[s] - (count - 1) * c->page : 0);
        for (int64_t t = 0; t < tokens_of[s]; t++)
            for (int64_t h = 0; h < KV_HEADS; h++) {
                const int64_t page = indices[first + t / c->page], row = (s * MOST + t) * KV_HEADS + h;
                put_row(c, &pages.k, paged_k, page, t % c->page, h, k, row);
                put_row(c, &pages.v, paged_v, page, t % c->page, h, v, row);
            }
    }
    if (c->is_vllm)
        pages.lengths = lengths, pages.row_stride = stride;
    else
        pages.indptr = indptr, pages.last_page_len = last_page_len;
    return pages;
}

static void fill_all(const paged_case *c) {
    test_random random = {21};
    test_fill(&random, &k[0][0][0][0], sizeof k / sizeof(float));
    test_fill(&random, &v[0][0][0][0], sizeof v / sizeof(float));
    test_fill(&random, &q[0][0][0], sizeof q / sizeof(float));
    for (size_t i = 0; c->kv == BF16 && i < sizeof k / sizeof(float); i++) /* in place, from the front */
        test_put(k, BF16, i, (double)(&k[0][0][0][0])[i]);
    for (size_t i = 0; c->kv == BF16 && i < sizeof v / sizeof(float); i++)
        test_put(v, BF16, i, (double)(&v[0][0][0][0])[i]);
}

static gyre_attention_args args_of(const paged_case *c, const gyre_encoding *rope, int64_t first, int64_t queries,
                                   int wanted) {
    gyre_attention_args args = GYRE_INIT(gyre_attention_args);
    args.encoding = c->rotates ? rope : NULL;
    args.q = gyre_cdense(q[first], F32, 1, queries, HEADS, DIM);
    args.out = gyre_dense(wanted ? want[first] : out[first], F32, 1, queries, HEADS, VALUE_DIM);
    args.lse = gyre_dense(wanted ? want_lse[first] : lse[first], F32, 1, queries, HEADS, 1);
    args.causal = c->causal;
    args.order = c->order;
    args.window = c->window;
    args.k_pos.base = 1000;
    return args;
}

static void attend_dense(const paged_case *c, const gyre_encoding *rope, int64_t s, int64_t first) {
    size_t bytes;
    gyre_error err;
    gyre_attention_args args = args_of(c, rope, first, queries_of[s], 1);
    const int64_t row = s * MOST * KV_HEADS;
    args.k =
        gyre_cdense((const char *)k + (size_t)(row * DIM) * gyre_dtype_size(c->kv), c->kv, 1, tokens_of[s], KV_HEADS, DIM);
    args.v = gyre_cdense((const char *)v + (size_t)(row * VALUE_DIM) * gyre_dtype_size(c->kv), c->kv, 1, tokens_of[s],
                         KV_HEADS, VALUE_DIM);
    args.q_pos.base = 1000 + tokens_of[s] - queries_of[s];
    assert_ok(gyre_attention_scratch(&args, 0, NULL, &bytes, &err));
    void *scratch = aligned_alloc(64, bytes);
    assert_non_null(scratch);
    assert_ok(gyre_attention(&args, (gyre_scratch){scratch, bytes}, NULL, &err));
    free(scratch);
}

static void attend_pages(const gyre_attention_args *args, const gyre_pages *pages, const gyre_exec *exec) {
    size_t bytes;
    gyre_error err = {0, ""};
    assert_ok(gyre_paged_attention_scratch(args, pages, exec, &bytes, &err));
    void *scratch = aligned_alloc(64, bytes);
    assert_non_null(scratch);
    if (gyre_paged_attention(args, pages, (gyre_scratch){scratch, bytes}, exec, &err)) fail_msg("%s", err.text);
    free(scratch);
}

static void check_case(const paged_case *c, const gyre_encoding *rope, const gyre_exec *exec) {
    int64_t starts[SEQUENCES + 1] = {0};
    paged_k = calloc((size_t)(PAGES * c->page) * KV_HEADS * DIM, sizeof(float));
    paged_v = calloc((size_t)(PAGES * c->page) * KV_HEADS * DIM, sizeof(float));
    assert_true(paged_k && paged_v);
    fill_all(c);
    const gyre_pages pages = make_pages(c);
    for (int64_t s = 0; s < SEQUENCES; s++) {
        starts[s + 1] = starts[s] + queries_of[s];
        if (queries_of[s] > 0) attend_dense(c, rope, s, starts[s]);
    }
    const int64_t total = starts[SEQUENCES];
    gyre_attention_batch batch = GYRE_INIT(gyre_attention_batch);
    batch.q_starts = starts, batch.sequences = SEQUENCES;
    gyre_attention_args args = args_of(c, rope, 0, total, 0);
    args.batch = &batch;
    memset(out, 0xff, sizeof out), memset(lse, 0xff, sizeof lse);
    attend_pages(&args, &pages, exec);
    if (memcmp(out, want, (size_t)(total * HEADS * VALUE_DIM) * sizeof(float)) != 0) fail_msg("%s: out", c->name);
    if (memcmp(lse, want_lse, (size_t)(total * HEADS) * sizeof(float)) != 0) fail_msg("%s: lse", c->name);
    free(paged_k), free(paged_v);
}

static void check_cases(const gyre_exec *exec) {
    gyre_encoding *rope = NULL;
    assert_ok(gyre_rope_create(&rope, DIM, 10000, GYRE_LAYOUT_HALF, NULL));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_case(&cases[i], rope, exec);
    gyre_encoding_free(rope);
}

static void pages_have_the_bits_of_dense_keys(void **state) {
    (void)state;
    check_cases(NULL);
}

static void pages_on_threads_have_the_bits_of_dense_keys(void **state) {
    (void)state;
    gyre_pool *pool = NULL;
    assert_ok(gyre_pool_create(&pool, 3, NULL));
    const gyre_exec exec = gyre_pool_exec(pool);
    check_cases(&exec);
    gyre_pool_free(pool);
}

/* Batch rows without starts, at positions that the caller gives. */
static void rows_are_sequences(void **state) {
    (void)state;
    const paged_case *c = &cases[0];
    const int64_t positions[2] = {1000, 1299};
    gyre_attention_args args;
    paged_k = calloc(PAGES * 16 * KV_HEADS * DIM, sizeof(float)),
    paged_v = calloc(PAGES * 16 * KV_HEADS * DIM, sizeof(float));
    assert_true(paged_k && paged_v);
    fill_all(c);
    gyre_pages pages = make_pages(c);
    attend_dense(c, NULL, 0, 0), attend_dense(c, NULL, 1, 1);
    args = args_of(c, NULL, 0, 1, 0);
    args.q.shape[0] = args.out.shape[0] = args.lse.shape[0] = 2;
    args.q_pos = (gyre_positions){.data = positions, .dtype = GYRE_DTYPE_I64, .stride_batch = 1};
    pages.sequences = 2;
    attend_pages(&args, &pages, NULL);
    assert_memory_equal(out, want, 2 * HEADS * VALUE_DIM * sizeof(float));
    free(paged_k), free(paged_v);
}

/* Keys rotated in their pages have the bits of gyre_rotate; those before firsts are as they were. */
static void keys_are_rotated_in_their_pages(void **state) {
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        const paged_case *c = &cases[i];
        const int64_t firsts[SEQUENCES] = {0, 290, 0, 100, 37};
        gyre_encoding *rope = NULL;
        gyre_error err;
        paged_k = calloc((size_t)(PAGES * c->page) * KV_HEADS * DIM, sizeof(float));
        paged_v = calloc((size_t)(PAGES * c->page) * KV_HEADS * DIM, sizeof(float));
        assert_true(paged_k && paged_v);
        assert_ok(gyre_rope_create(&rope, DIM, 10000, GYRE_LAYOUT_HALF, NULL));
        fill_all(c);
        const gyre_pages pages = make_pages(c);
        gyre_rotate_pages_args args = GYRE_INIT(gyre_rotate_pages_args);
        args.pages = &pages, args.firsts = firsts, args.base = 5;
        args.k = gyre_dense(paged_k, c->kv, PAGES, c->page, KV_HEADS, DIM);
        memcpy(args.k.stride, pages.k.stride, sizeof args.k.stride);
        assert_ok(gyre_rotate_pages(rope, &args, NULL, &err));
        for (int64_t s = 0; s < SEQUENCES; s++) { /* the same of dense keys */
            const gyre_positions at = {.base = 5 + firsts[s]};
            const gyre_view keys =
                gyre_dense((char *)k + (size_t)((s * MOST + firsts[s]) * KV_HEADS * DIM) * gyre_dtype_size(c->kv), c->kv, 1,
                           tokens_of[s] - firsts[s], KV_HEADS, DIM);
            assert_ok(gyre_rotate(
                rope,
                GYRE_ARGS(gyre_rotate_args, .role = GYRE_ROLE_KEY, .positions = &at, .in = gyre_const(keys), .out = keys),
                NULL, &err));
            for (int64_t t = 0; t < tokens_of[s]; t++)
                for (int64_t h = 0; h < KV_HEADS; h++) {
                    const int64_t stride = (MOST + c->page - 1) / c->page, first = c->is_vllm ? s * stride : indptr[s];
                    const size_t size = gyre_dtype_size(c->kv),
                                 at_page = (size_t)page_element(&pages.k, indices[first + t / c->page], t % c->page, h, 0);
                    assert_memory_equal((char *)paged_k + at_page * size,
                                        (char *)k + (size_t)(((s * MOST + t) * KV_HEADS + h) * DIM) * size, DIM * size);
                }
        }
        const int64_t past[SEQUENCES] = {0, 301, 0, 0, 0};
        args.firsts = past;
        assert_int_equal(gyre_rotate_pages(rope, &args, NULL, &err), GYRE_EINVAL);
        assert_string_equal(err.text, "firsts[1]: 301 is not in 0 .. 300 (gyre_rotate_pages)");
        args.firsts = firsts;
        args.base = (int64_t)1 << 31;
        assert_int_equal(gyre_rotate_pages(rope, &args, NULL, &err), GYRE_ERANGE);
        args.k.shape[3] = 16;
        assert_int_equal(gyre_rotate_pages(rope, &args, NULL, &err), GYRE_ESHAPE);
        assert_int_equal(gyre_rotate_pages(NULL, &args, NULL, &err), GYRE_EINVAL);
        args.pages = NULL;
        assert_int_equal(gyre_rotate_pages(rope, &args, NULL, &err), GYRE_EINVAL);
        gyre_encoding_free(rope);
        free(paged_k), free(paged_v);
    }
}

#define REFUSED(want_status, message, ...)                                                                                  \
    do {                                                                                                                    \
        gyre_pages pages = good;                                                                                            \
        gyre_attention_args args = good_args;                                                                               \
        gyre_error err = {0, ""};                                                                                           \
        __VA_ARGS__;                                                                                                        \
        assert_int_equal(gyre_paged_attention(&args, &pages, (gyre_scratch){scratch, sizeof scratch}, NULL, &err),          \
                         want_status);                                                                                      \
        assert_string_equal(err.text, message);                                                                             \
    } while (0)

static void what_pages_refuse(void **state) {
    (void)state;
    static _Alignas(64) char scratch[1 << 20];
    const paged_case *c = &cases[0];
    const int32_t outside[] = {0, PAGES}, falling[] = {0, 2, 1}, none[] = {0, 0}, negative[] = {-1, 1}, long_one[] = {40, 1};
    static float mask[4], weights_memory[2 * 6 * 300];
    static double sums[12];
    const int64_t starts[] = {0, 1, 2};
    gyre_attention_batch batch = GYRE_INIT(gyre_attention_batch);
    gyre_attention_dropout dropout = GYRE_INIT(gyre_attention_dropout);
    gyre_attention_gates gates = GYRE_INIT(gyre_attention_gates);
    gyre_attention_weights weights = GYRE_INIT(gyre_attention_weights);
    dropout.rate = 0.5;
    gates.q = gyre_cdense(sums, GYRE_DTYPE_F64, 2, 1, HEADS, 1);
    weights.out = gyre_dense(weights_memory, F32, 2, 1, HEADS, 300), weights.first = 1;
    paged_k = calloc(PAGES * 16 * KV_HEADS * DIM, sizeof(float)),
    paged_v = calloc(PAGES * 16 * KV_HEADS * DIM, sizeof(float));
    assert_true(paged_k && paged_v);
    gyre_pages good = make_pages(c);
    gyre_attention_args good_args = args_of(c, NULL, 0, 1, 0);
    good.sequences = 2;
    good_args.q.shape[0] = good_args.out.shape[0] = good_args.lse.shape[0] = 2;
    REFUSED(GYRE_EINVAL, "pages.indices[1]: 500 is not in 0 .. 499 (gyre_paged_attention)", pages.indices = outside);
    REFUSED(GYRE_EINVAL, "pages.indptr[2]: 1 is below 2 before it (gyre_paged_attention)", pages.indptr = falling);
    REFUSED(GYRE_EINVAL, "pages.last_page_len[0]: 0 is not in 1 .. 16 (gyre_paged_attention)", pages.last_page_len = none);
    REFUSED(GYRE_EINVAL, "pages.indptr: is NULL, and so is lengths (gyre_paged_attention)", pages.indptr = NULL);
    REFUSED(GYRE_EINVAL, "pages.indices: is NULL (gyre_paged_attention)", pages.indices = NULL);
    REFUSED(GYRE_EINVAL, "pages.lengths[0]: -1 is below 0 (gyre_paged_attention)", pages.lengths = negative);
    REFUSED(GYRE_EINVAL, "pages.lengths[0]: 40 tokens take 3 pages, but row_stride is 2 (gyre_paged_attention)",
            (pages.lengths = long_one, pages.row_stride = 2));
    REFUSED(GYRE_ESHAPE, "q: 2 batch rows, but the pages are of 3 sequences (gyre_paged_attention)", pages.sequences = 3);
    REFUSED(GYRE_ESHAPE, "pages.v: shape [500, 16, 1, 24] is not [500, 16, 2, 24] (gyre_paged_attention)",
            pages.v.shape[2] = 1);
    REFUSED(GYRE_ESHAPE, "mask: shape [0, 0, 0, 0] is not [2, 1, 6, 300] (gyre_paged_attention)", args.mask.data = mask);
    REFUSED(GYRE_EUNSUPPORTED, "dropout: 0.5 is not 0, over pages, which are for inference (gyre_paged_attention)",
            args.dropout = &dropout);
    REFUSED(GYRE_EINVAL, "k_starts: are set, but the tables of pages say which keys a sequence has (gyre_paged_attention)",
            (batch.k_starts = starts, args.batch = &batch));
    REFUSED(GYRE_EINVAL, "gates.k: is missing, but gates.q is set (gyre_paged_attention)", args.gates = &gates);
    REFUSED(GYRE_EINVAL, "weights.first: 1 queries from 1 on, but there are 1 (gyre_paged_attention)",
            args.weights = &weights);
    REFUSED(GYRE_EINVAL, "out: overlaps pages.k (gyre_paged_attention)", args.out.data = paged_k);
    REFUSED(GYRE_ESHAPE, "out: shape [2, 1, 6, 23] is not [2, 1, 6, 24] (gyre_paged_attention)", args.out.shape[3] = 23);
    REFUSED(GYRE_EDTYPE, "q: element type F64 is not F32, F16 or BF16 (gyre_paged_attention)",
            args.q.dtype = GYRE_DTYPE_F64);
    REFUSED(GYRE_EDTYPE, "pages.k: element type F64 is not F32, F16, BF16, Q8_0 or Q4_0 (gyre_paged_attention)",
            pages.k.dtype = GYRE_DTYPE_F64);
    REFUSED(GYRE_EINVAL, "size: 0 is not set; begin with GYRE_INIT(gyre_pages) (gyre_pages)", pages.size = 0);
    free(paged_k), free(paged_v);
}

/* The stride of an axis of one element is not used, so it may be any number; UBSan sees a product with it.  One query over
 * pages of one token has several such axes. */
static void strides_of_one_element(void **state) {
    (void)state;
    const paged_case *c = &cases[1];
    static float dense_k[MOST][KV_HEADS][DIM], dense_v[MOST][KV_HEADS][VALUE_DIM];
    const gyre_cview k_view = gyre_cdense(dense_k, F32, MOST, 1, KV_HEADS, DIM),
                     v_view = gyre_cdense(dense_v, F32, MOST, 1, KV_HEADS, VALUE_DIM);
    int32_t page[MOST], length = MOST;
    test_random random = {22};
    test_fill(&random, &dense_k[0][0][0], sizeof dense_k / sizeof(float));
    test_fill(&random, &dense_v[0][0][0], sizeof dense_v / sizeof(float));
    fill_all(c);
    for (int32_t i = 0; i < MOST; i++)
        page[i] = i;
    for (int i = 0; i < 4; i++) {
        const int wild = i % 2, queries = i < 2 ? 1 : 20;
        gyre_attention_args args = args_of(c, NULL, 0, queries, !wild);
        gyre_pages pages = GYRE_INIT(gyre_pages);
        gyre_error err;
        size_t bytes;
        pages.k = k_view, pages.v = v_view, pages.indices = page, pages.lengths = &length, pages.row_stride = MOST;
        pages.sequences = 1;
        for (int axis = 0; axis < 2 && wild; axis++)
            if (args.q.shape[axis] == 1)
                args.q.stride[axis] = args.out.stride[axis] = args.lse.stride[axis] = INT64_MAX - axis;
        if (wild) pages.k.stride[1] = INT64_MAX, pages.v.stride[1] = INT64_MIN;
        assert_ok(gyre_paged_attention_scratch(&args, &pages, NULL, &bytes, &err));
        void *scratch = aligned_alloc(64, bytes);
        assert_non_null(scratch);
        assert_ok(gyre_paged_attention(&args, &pages, (gyre_scratch){scratch, bytes}, NULL, &err));
        free(scratch);
        if (!wild) continue;
        assert_memory_equal(out, want, (size_t)queries * sizeof out[0]);
        assert_memory_equal(lse, want_lse, (size_t)queries * sizeof lse[0]);
    }
}

/* Inkling: queries have channels that keys lack.  Pages change no bit, also of the weights of some queries; keys, which
 * nothing rotates, stay as they are. */
static void queries_with_more_channels_than_keys(void **state) {
    (void)state;
    enum { TOKENS = 10, LONG = 4, ASKED = 5, ALL = 12, OWN = 4, KEY = ALL - OWN, GROUPS = 2, ROWS = 6, FIRST = 2 };
    static const int32_t order[3] = {2, 0, 1}, length = TOKENS;
    static float x[ASKED][2 * GROUPS][ALL], keys[3][LONG][GROUPS][KEY], values[3][LONG][GROUPS][KEY], vectors[ROWS][OWN];
    static float dense[2][TOKENS][GROUPS][KEY], outs[2][ASKED][2 * GROUPS][KEY], sums[2][ASKED][2 * GROUPS];
    static float seen[2][ASKED - FIRST][2 * GROUPS][TOKENS], kept[3][LONG][GROUPS][KEY];
    gyre_config config = {.size = sizeof config, .kind = GYRE_KIND_INKLING, .head_dim = ALL, .trained_length = 8};
    config.query.temperature = GYRE_TEMPERATURE_INKLING, config.query.slope = 0.4;
    config.score.max_distance = ROWS, config.score.relative_channels = OWN;
    gyre_encoding *inkling = test_encoding(&config);
    test_random random = {3};
    test_fill(&random, &x[0][0][0], sizeof x / sizeof(float));
    test_fill(&random, &keys[0][0][0][0], sizeof keys / sizeof(float));
    test_fill(&random, &values[0][0][0][0], sizeof values / sizeof(float));
    test_fill(&random, &vectors[0][0], sizeof vectors / sizeof(float));
    for (int t = 0; t < TOKENS; t++) {
        memcpy(dense[0][t], keys[order[t / LONG]][t % LONG], sizeof dense[0][t]);
        memcpy(dense[1][t], values[order[t / LONG]][t % LONG], sizeof dense[1][t]);
    }
    const gyre_tables tables = {.query = gyre_cdense(vectors, GYRE_DTYPE_F32, 1, 1, ROWS, OWN)};
    gyre_pages pages = GYRE_INIT(gyre_pages);
    pages.k = gyre_cdense(keys, GYRE_DTYPE_F32, 3, LONG, GROUPS, KEY);
    pages.v = gyre_cdense(values, GYRE_DTYPE_F32, 3, LONG, GROUPS, KEY);
    pages.indices = order, pages.lengths = &length, pages.row_stride = 3, pages.sequences = 1;
    for (int paged = 0; paged < 2; paged++) {
        gyre_attention_weights weights = GYRE_INIT(gyre_attention_weights);
        gyre_attention_args args = GYRE_INIT(gyre_attention_args);
        size_t bytes = 0;
        weights.out = gyre_dense(seen[paged], GYRE_DTYPE_F32, 1, ASKED - FIRST, 2 * GROUPS, TOKENS);
        weights.first = FIRST;
        args.encoding = inkling, args.tables = &tables, args.weights = &weights;
        args.q = gyre_cdense(x, GYRE_DTYPE_F32, 1, ASKED, 2 * GROUPS, ALL);
        args.k = gyre_cdense(dense[0], GYRE_DTYPE_F32, 1, TOKENS, GROUPS, KEY);
        args.v = gyre_cdense(dense[1], GYRE_DTYPE_F32, 1, TOKENS, GROUPS, KEY);
        args.out = gyre_dense(outs[paged], GYRE_DTYPE_F32, 1, ASKED, 2 * GROUPS, KEY);
        args.lse = gyre_dense(sums[paged], GYRE_DTYPE_F32, 1, ASKED, 2 * GROUPS, 1);
        args.causal = GYRE_CAUSAL_BY_POSITION;
        args.q_pos.base = paged ? 0 : TOKENS - ASKED; /* over pages 0: the last tokens */
        assert_ok(paged ? gyre_paged_attention_scratch(&args, &pages, NULL, &bytes, NULL)
                        : gyre_attention_scratch(&args, 0, NULL, &bytes, NULL));
        void *scratch = scratch_for(bytes);
        assert_ok(paged ? gyre_paged_attention(&args, &pages, (gyre_scratch){scratch, bytes}, NULL, NULL)
                        : gyre_attention(&args, (gyre_scratch){scratch, bytes}, NULL, NULL));
        free(scratch);
    }
    assert_memory_equal(outs[0], outs[1], sizeof outs[0]);
    assert_memory_equal(sums[0], sums[1], sizeof sums[0]);
    assert_memory_equal(seen[0], seen[1], sizeof seen[0]);
    for (int i = 0; i < (ASKED - FIRST) * 2 * GROUPS; i++) { /* they are those of some queries */
        float sum = 0;
        for (int t = 0; t < TOKENS; t++)
            sum += (&seen[1][0][0][0])[i * TOKENS + t];
        test_close((long double)sum, 1, 1e-6L, "weights");
    }
    gyre_rotate_pages_args rotation = GYRE_INIT(gyre_rotate_pages_args);
    rotation.pages = &pages;
    rotation.k = gyre_dense(keys, GYRE_DTYPE_F32, 3, LONG, GROUPS, KEY);
    memcpy(kept, keys, sizeof kept);
    assert_ok(gyre_rotate_pages(inkling, &rotation, NULL, NULL));
    assert_memory_equal(kept, keys, sizeof kept);
    gyre_encoding_free(inkling);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_have_the_bits_of_dense_keys),
        cmocka_unit_test(pages_on_threads_have_the_bits_of_dense_keys),
        cmocka_unit_test(rows_are_sequences),
        cmocka_unit_test(keys_are_rotated_in_their_pages),
        cmocka_unit_test(strides_of_one_element),
        cmocka_unit_test(what_pages_refuse),
        cmocka_unit_test(queries_with_more_channels_than_keys),
    };
    return cmocka_run_group_tests_name("test_paged", tests, NULL, NULL);
}
