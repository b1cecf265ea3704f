/* test_paged_options.c: masks, gates, slopes, padding, positions, context lengths, weights and states of attention over
 * pages of the caller, with the bits of a call over the dense keys of each sequence. */
#include "attention_memory.h"
#include "gyre/gyre_attention.h"
#include "support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SEQUENCES = 3, HEADS = 4, KV_HEADS = 2, DIM = 32, MOST = 150, PAGE = 16, PAGES = 40, TOTAL = 26, ROWS = 4 };
static const int64_t tokens_of[SEQUENCES] = {37, 150, 64}, ragged_starts[SEQUENCES + 1] = {0, 1, 21, 26},
                     k_first[SEQUENCES] = {3, 0, 64}, k_end[SEQUENCES] = {30, 141, 64}, q_end[SEQUENCES] = {1, 3, 2},
                     lengths_in_use[SEQUENCES] = {0, 300, 4096};

/* What a call has besides queries, keys and values. */
enum {
    MASK = 1,
    GATES = 2,
    SLOPES = 4,
    PADDING = 8,
    QUERY_ENDS = 16,
    KEY_POSITIONS = 32,
    HEAD_POSITIONS = 64,
    CONTEXT_LENGTHS = 128,
    WEIGHTS = 256,
    STATE = 512,
    INDICES = 1024
};
typedef struct option_case {
    const char *name;
    int kind; /* 0 = none */
    gyre_causal causal;
    int options;
} option_case;
#define AT GYRE_CAUSAL_BY_POSITION
static const option_case cases[] = {{"a mask", 0, GYRE_CAUSAL_NONE, MASK},
                                    {"a mask, rotated", GYRE_KIND_ROPE, AT, MASK},
                                    {"gates", GYRE_KIND_ROPE, AT, GATES},
                                    {"alibi", GYRE_KIND_ALIBI, AT, 0},
                                    {"slopes", GYRE_KIND_ALIBI, AT, SLOPES},
                                    {"padding", GYRE_KIND_ROPE, AT, PADDING},
                                    {"last queries", GYRE_KIND_ROPE, GYRE_CAUSAL_BY_ORDER, PADDING | QUERY_ENDS},
                                    {"positions of keys", GYRE_KIND_ROPE, AT, KEY_POSITIONS},
                                    {"positions of heads", GYRE_KIND_ROPE, AT, HEAD_POSITIONS},
                                    {"context lengths", GYRE_KIND_ROPE, AT, CONTEXT_LENGTHS},
                                    {"weights", GYRE_KIND_ROPE, AT, WEIGHTS},
                                    {"weights, padding", GYRE_KIND_ALIBI, AT, WEIGHTS | PADDING},
                                    {"a state", 0, AT, STATE},
                                    {"indices", GYRE_KIND_ROPE, GYRE_CAUSAL_BY_ORDER, INDICES},
                                    {"all at once", GYRE_KIND_ALIBI, AT, MASK | GATES | SLOPES | PADDING | WEIGHTS}};

static float q[TOTAL][HEADS][DIM], k[SEQUENCES][MOST][KV_HEADS][DIM], v[SEQUENCES][MOST][KV_HEADS][DIM];
static float paged_k[PAGES][PAGE][KV_HEADS][DIM], paged_v[PAGES][PAGE][KV_HEADS][DIM];
static double q_gates[TOTAL][HEADS], k_gates[SEQUENCES][MOST][HEADS], paged_gates[PAGES][PAGE][HEADS];
static float mask[TOTAL][HEADS][MOST], slopes[SEQUENCES][HEADS];
static int64_t k_positions[SEQUENCES][KV_HEADS][MOST], q_positions[TOTAL], q_indices[TOTAL], k_indices[SEQUENCES][MOST];
static int32_t indices[SEQUENCES][MOST / PAGE + 1], lengths[SEQUENCES];

/* What a call writes. */
typedef struct results {
    float out[TOTAL][HEADS][DIM], lse[TOTAL][HEADS], weights[TOTAL][HEADS][MOST];
    double state[TOTAL][HEADS][2 + DIM];
} results;
static results of_pages, of_dense;

static int64_t first_of(int64_t s, int is_ragged) {
    return is_ragged ? ragged_starts[s] : ROWS * s;
}
static int64_t queries_of(int64_t s, int is_ragged) {
    return is_ragged ? ragged_starts[s + 1] - ragged_starts[s] : ROWS;
}

static void fill_all(int is_ragged) {
    test_random random = {41};
    test_fill(&random, &q[0][0][0], sizeof q / sizeof(float));
    test_fill(&random, &k[0][0][0][0], sizeof k / sizeof(float));
    test_fill(&random, &v[0][0][0][0], sizeof v / sizeof(float));
    test_fill(&random, &mask[0][0][0], sizeof mask / sizeof(float));
    test_fill(&random, &slopes[0][0], sizeof slopes / sizeof(float));
    for (size_t i = 0; i < sizeof mask / sizeof(float); i += 7)
        (&mask[0][0][0])[i] = -INFINITY;
    for (int64_t s = 0; s < SEQUENCES; s++)
        for (int64_t t = 0; t < tokens_of[s]; t++) {
            const int32_t page = (int32_t)((11 * (10 * s + t / PAGE) + 5) % PAGES);
            indices[s][t / PAGE] = page;
            lengths[s] = (int32_t)tokens_of[s];
            memcpy(paged_k[page][t % PAGE], k[s][t], sizeof k[s][t]);
            memcpy(paged_v[page][t % PAGE], v[s][t], sizeof v[s][t]);
            k_indices[s][t] = 5 + t;
            for (int h = 0; h < KV_HEADS; h++)
                k_positions[s][h][t] = 2 * t + 7 * h;
            for (int h = 0; h < HEADS; h++)
                paged_gates[page][t % PAGE][h] = k_gates[s][t][h] = -0.01 * (h + 1) * (double)t;
        }
    for (int64_t s = 0; s < SEQUENCES; s++)
        for (int64_t i = first_of(s, is_ragged); i < first_of(s, is_ragged) + queries_of(s, is_ragged); i++) {
            q_positions[i] = 2 * (tokens_of[s] - 10) + i;
            q_indices[i] = 5 + tokens_of[s] - 20 + i % 9;
            for (int h = 0; h < HEADS; h++)
                q_gates[i][h] = -0.01 * (h + 1) * (double)tokens_of[s];
        }
}

/* The arguments of queries first .. first + count - 1, as rows [batch][queries], over the keys of sequences from s on. */
static void take_args(const option_case *c, const gyre_encoding *encoding, int64_t first, int64_t batch, int64_t count,
                      int64_t s, int64_t keys, results *r, gyre_attention_args *args) {
    *args = (gyre_attention_args)GYRE_INIT(gyre_attention_args);
    args->encoding = encoding;
    args->causal = c->causal;
    args->q = gyre_cdense(q[first], GYRE_DTYPE_F32, batch, count, HEADS, DIM);
    args->out = gyre_dense(r->out[first], GYRE_DTYPE_F32, batch, count, HEADS, DIM);
    args->lse = gyre_dense(r->lse[first], GYRE_DTYPE_F32, batch, count, HEADS, 1);
    if (c->options & MASK) {
        args->mask = gyre_cdense(mask[first], GYRE_DTYPE_F32, batch, count, HEADS, MOST);
        args->mask.shape[3] = keys;
    }
    if (c->options & (KEY_POSITIONS | HEAD_POSITIONS)) {
        args->k_pos = (gyre_positions){
            .data = k_positions[s], .dtype = GYRE_DTYPE_I64, .stride_batch = KV_HEADS * MOST, .stride_token = 1};
        args->q_pos =
            (gyre_positions){.data = &q_positions[first], .dtype = GYRE_DTYPE_I64, .stride_batch = count, .stride_token = 1};
    }
}

static void take_options(const option_case *c, int64_t first, int64_t batch, int64_t count, int64_t s, int64_t sequences,
                         int64_t keys, results *r, gyre_attention_batch *of_batch, gyre_attention_gates *gates,
                         gyre_attention_weights *weights, gyre_attention_part *part) {
    if (c->options & GATES) gates->q = gyre_cdense(q_gates[first], GYRE_DTYPE_F64, batch, count, HEADS, 1);
    if (c->options & SLOPES) of_batch->slopes = gyre_cdense(slopes[s], GYRE_DTYPE_F32, sequences, 1, HEADS, 1);
    if (c->options & PADDING) of_batch->k_first = &k_first[s], of_batch->k_end = &k_end[s];
    if (c->options & QUERY_ENDS) of_batch->q_end = &q_end[s];
    if (c->options & CONTEXT_LENGTHS) of_batch->context_lengths = &lengths_in_use[s];
    if (c->options & HEAD_POSITIONS) of_batch->k_pos_head_stride = MOST;
    if (c->options & WEIGHTS) {
        weights->out = gyre_dense(r->weights[first], GYRE_DTYPE_F32, batch, count, HEADS, MOST);
        weights->out.shape[3] = keys;
    }
    if (c->options & STATE) part->state = gyre_dense(r->state[first], GYRE_DTYPE_F64, batch, count, HEADS, 2 + DIM);
}

static gyre_positions indices_of(const int64_t *data, int64_t stride) {
    return (gyre_positions){.data = data, .dtype = GYRE_DTYPE_I64, .stride_batch = stride, .stride_token = 1};
}

/* A sequence by itself. */
static void attend_dense(const option_case *c, const gyre_encoding *encoding, int64_t s, int is_ragged) {
    const int64_t first = first_of(s, is_ragged), count = queries_of(s, is_ragged), keys = tokens_of[s];
    gyre_attention_batch batch = GYRE_INIT(gyre_attention_batch);
    gyre_attention_gates gates = GYRE_INIT(gyre_attention_gates);
    gyre_attention_weights weights = GYRE_INIT(gyre_attention_weights);
    gyre_attention_part part = GYRE_INIT(gyre_attention_part);
    const gyre_positions q_index = indices_of(&q_indices[first], 0), k_index = indices_of(k_indices[s], 0);
    gyre_attention_args args;
    gyre_error err;
    size_t bytes;
    take_args(c, encoding, first, 1, count, s, keys, &of_dense, &args);
    take_options(c, first, 1, count, s, 1, keys, &of_dense, &batch, &gates, &weights, &part);
    if (c->options & GATES) gates.k = gyre_cdense(k_gates[s], GYRE_DTYPE_F64, 1, keys, HEADS, 1);
    if (c->options & INDICES) part.q_index = &q_index, part.k_index = &k_index;
    args.k = gyre_cdense(k[s], GYRE_DTYPE_F32, 1, keys, KV_HEADS, DIM);
    args.v = gyre_cdense(v[s], GYRE_DTYPE_F32, 1, keys, KV_HEADS, DIM);
    args.batch = &batch, args.gates = &gates, args.weights = &weights, args.part = &part;
    const int64_t end = c->options & PADDING ? k_end[s] : keys,
                  last = c->options & QUERY_ENDS ? (q_end[s] < count ? q_end[s] : count) : count;
    if (!args.q_pos.data) args.q_pos.base = end - last;
    assert_ok(gyre_attention_scratch(&args, 0, NULL, &bytes, &err));
    void *scratch = scratch_for(bytes);
    if (gyre_attention(&args, (gyre_scratch){scratch, bytes}, NULL, &err)) fail_msg("%s: %s", c->name, err.text);
    free(scratch);
}

static void attend_pages(const option_case *c, const gyre_encoding *encoding, int is_ragged) {
    const int64_t batch_rows = is_ragged ? 1 : SEQUENCES, count = is_ragged ? ragged_starts[SEQUENCES] : ROWS;
    gyre_pages pages = GYRE_INIT(gyre_pages);
    gyre_attention_batch batch = GYRE_INIT(gyre_attention_batch);
    gyre_attention_gates gates = GYRE_INIT(gyre_attention_gates);
    gyre_attention_weights weights = GYRE_INIT(gyre_attention_weights);
    gyre_attention_part part = GYRE_INIT(gyre_attention_part);
    const gyre_positions q_index = indices_of(q_indices, count), k_index = indices_of(k_indices[0], MOST);
    gyre_attention_args args;
    gyre_error err;
    size_t bytes;
    take_args(c, encoding, 0, batch_rows, count, 0, MOST, &of_pages, &args);
    take_options(c, 0, batch_rows, count, 0, SEQUENCES, MOST, &of_pages, &batch, &gates, &weights, &part);
    if (c->options & GATES) gates.k = gyre_cdense(paged_gates, GYRE_DTYPE_F64, PAGES, PAGE, HEADS, 1);
    if (c->options & INDICES) part.q_index = &q_index, part.k_index = &k_index;
    if (is_ragged) batch.q_starts = ragged_starts, batch.sequences = SEQUENCES;
    args.batch = &batch, args.gates = &gates, args.weights = &weights, args.part = &part;
    pages.k = gyre_cdense(paged_k, GYRE_DTYPE_F32, PAGES, PAGE, KV_HEADS, DIM);
    pages.v = gyre_cdense(paged_v, GYRE_DTYPE_F32, PAGES, PAGE, KV_HEADS, DIM);
    pages.indices = &indices[0][0], pages.lengths = lengths, pages.row_stride = MOST / PAGE + 1;
    pages.sequences = SEQUENCES;
    assert_ok(gyre_paged_attention_scratch(&args, &pages, NULL, &bytes, &err));
    void *scratch = scratch_for(bytes);
    if (gyre_paged_attention(&args, &pages, (gyre_scratch){scratch, bytes}, NULL, &err))
        fail_msg("%s: %s", c->name, err.text);
    free(scratch);
}

static gyre_encoding *encoding_of(const option_case *c) {
    if (c->kind == 0) return NULL;
    gyre_config config = test_rope_config(DIM, GYRE_LAYOUT_HALF);
    config.kind = (gyre_kind)c->kind;
    config.heads = c->kind == GYRE_KIND_ALIBI ? HEADS : 0;
    if (c->options & CONTEXT_LENGTHS) {
        config.rope.scaling = GYRE_SCALING_DYNAMIC_NTK;
        config.rope.factor = 4;
        config.trained_length = 64;
        config.context_length = 64;
        config.length_policy = GYRE_LENGTH_POLICY_PREFIX;
    }
    if (c->kind == GYRE_KIND_ALIBI) {
        gyre_encoding *alibi = NULL;
        assert_ok(gyre_alibi_create(&alibi, HEADS, NULL));
        return alibi;
    }
    return test_encoding(&config);
}

static void check_case(const option_case *c, int is_ragged) {
    gyre_encoding *encoding = encoding_of(c);
    const int64_t total = first_of(SEQUENCES, is_ragged);
    fill_all(is_ragged);
    memset(&of_pages, 0, sizeof of_pages), memset(&of_dense, 0, sizeof of_dense);
    for (int64_t s = 0; s < SEQUENCES; s++)
        attend_dense(c, encoding, s, is_ragged);
    attend_pages(c, encoding, is_ragged);
    const size_t rows = (size_t)(total * HEADS);
    if (memcmp(of_pages.out, of_dense.out, rows * DIM * sizeof(float)) != 0) fail_msg("%s: out, %d", c->name, is_ragged);
    if (memcmp(of_pages.lse, of_dense.lse, rows * sizeof(float)) != 0) fail_msg("%s: lse, %d", c->name, is_ragged);
    if (memcmp(of_pages.weights, of_dense.weights, rows * MOST * sizeof(float)) != 0)
        fail_msg("%s: weights, %d", c->name, is_ragged);
    if (memcmp(of_pages.state, of_dense.state, rows * (2 + DIM) * sizeof(double)) != 0)
        fail_msg("%s: state, %d", c->name, is_ragged);
    float sum = 0;
    for (size_t i = 0; i < rows * DIM; i++)
        sum += fabsf((&of_pages.out[0][0][0])[i]);
    assert_true(isfinite(sum) && sum > 1);
    gyre_encoding_free(encoding);
}

static void options_have_the_bits_of_dense_keys(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_case(&cases[i], 0);
}

static void options_of_a_ragged_batch_have_the_bits_of_dense_keys(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_case(&cases[i], 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_have_the_bits_of_dense_keys),
        cmocka_unit_test(options_of_a_ragged_batch_have_the_bits_of_dense_keys),
    };
    return cmocka_run_group_tests_name("test_paged_options", tests, NULL, NULL);
}
