/* test_ring_views.c: what callers hand to a ring: numbers of heads that groups do not divide, tensors that lie head by head,
 * ranks without tokens; and what is refused before any rank waits. */
#include "attention_memory.h"
#include "attention_setup.h"
#include "gyre/gyre_ring.h"
#include "scratch_bytes.h"
#include "thread_network.h"

#include <math.h>

enum { CHANNELS = 16 };

typedef struct view_case {
    const char *name;
    int64_t rows, tokens, key_heads, share, ranks; /* share: query heads of a key head */
    gyre_ring_pass pass;
    gyre_order order;
    int by_head; /* 1: [rows][heads][tokens][channels] in memory */
    size_t scratch;
} view_case;

/* q, k, v, out of some tokens. */
typedef struct tensors {
    float *memory[4];
    gyre_view view[4];
} tensors;

static tensors make_tensors(const view_case *c, int64_t tokens) {
    tensors out;
    for (int i = 0; i < 4; i++) {
        const int64_t heads = i == 1 || i == 2 ? c->key_heads : c->key_heads * c->share;
        out.memory[i] = calloc((size_t)(c->rows * tokens * heads * CHANNELS) + 16, sizeof(float));
        assert_non_null(out.memory[i]);
        out.view[i] = gyre_dense(out.memory[i], GYRE_DTYPE_F32, c->rows, tokens, heads, CHANNELS);
        if (!c->by_head) continue;
        out.view[i].stride[1] = CHANNELS;
        out.view[i].stride[2] = tokens * CHANNELS;
    }
    return out;
}

static void free_tensors(tensors *t) {
    for (int i = 0; i < 4; i++)
        free(t->memory[i]);
}

static float *element(const gyre_view *v, int64_t b, int64_t t, int64_t h, int64_t c) {
    return (float *)v->data + b * v->stride[0] + t * v->stride[1] + h * v->stride[2] + c * v->stride[3];
}

static void use_tensors(const tensors *t, attention_setup *args) {
    args->q = gyre_const(t->view[0]);
    args->k = gyre_const(t->view[1]);
    args->v = gyre_const(t->view[2]);
    args->out = t->view[3];
}

typedef struct rank_work {
    endpoint at;
    const view_case *c;
    const gyre_shards *shards;
    attention_setup args;
    gyre_status status;
    gyre_error err;
    pthread_t thread;
} rank_work;

static void *run_rank(void *arg) {
    rank_work *w = arg;
    const gyre_transport transport = network_transport(&w->at, w->c->ranks);
    gyre_ring_args ring = GYRE_INIT(gyre_ring_args);
    attention_structs structs;
    ring.transport = &transport, ring.shards = w->shards, ring.attention = attention_setup_args(&w->args, &structs);
    ring.pass = w->c->pass, ring.scratch_bytes = w->c->scratch;
    const size_t bytes = ring_scratch(&ring, 0, NULL);
    char *scratch = aligned_alloc(64, (bytes + 127) / 64 * 64);
    memset(scratch, 0x5A, bytes + 64);
    w->status = gyre_ring_attention(&ring, (gyre_scratch){scratch, bytes}, NULL, &w->err);
    for (int i = 0; i < 64; i++)
        if (scratch[bytes + (size_t)i] != 0x5A) w->status = GYRE_EFORMAT;
    free(scratch);
    return NULL;
}

static void fill(tensors *t) {
    uint64_t state = 11;
    for (int i = 0; i < 3; i++)
        for (int64_t n = 0; n < t->view[i].shape[0] * t->view[i].shape[1] * t->view[i].shape[2] * CHANNELS; n++) {
            state = state * 6364136223846793005U + 1442695040888963407U;
            t->memory[i][n] = (float)((double)(state >> 40) / (1 << 23) - 1);
        }
}

/* Every rank of the ring against one machine. */
static void check_case(const view_case *c) {
    const gyre_config config = {.size = sizeof config, .kind = GYRE_KIND_ROPE, .head_dim = CHANNELS};
    gyre_encoding *rope = test_encoding(&config);
    int64_t lengths[8];
    gyre_batch_config batch_config = GYRE_INIT(gyre_batch_config);
    gyre_shard_config dealt = GYRE_INIT(gyre_shard_config);
    gyre_batch *batch;
    gyre_shards *shards;
    network net;
    rank_work works[MOST_THREADS];
    tensors parts[MOST_THREADS];
    for (int64_t i = 0; i < c->rows; i++)
        lengths[i] = c->tokens;
    batch_config.documents = c->rows, batch_config.lengths = lengths;
    batch_config.form = c->rows > 1 ? GYRE_BATCH_PADDED_RIGHT : GYRE_BATCH_PACKED;
    dealt.ranks = c->ranks, dealt.layout = GYRE_SHARD_CONTIGUOUS;
    assert_int_equal(gyre_batch_create(&batch, &batch_config, NULL, NULL), GYRE_OK);
    assert_int_equal(gyre_shards_create(&shards, batch, &dealt, NULL, NULL), GYRE_OK);

    tensors all = make_tensors(c, c->tokens);
    fill(&all);
    attention_setup args = GYRE_INIT(attention_setup);
    args.encoding = rope, args.causal = GYRE_CAUSAL_BY_POSITION, args.order = c->order;
    use_tensors(&all, &args);
    attend(&args, NULL);

    open_network(&net);
    net.timeout = 20;
    for (int64_t r = 0; r < c->ranks; r++) {
        gyre_shard_info info = GYRE_INIT(gyre_shard_info);
        assert_int_equal(gyre_shards_get(shards, r, &info), GYRE_OK);
        parts[r] = make_tensors(c, info.tokens);
        for (int i = 0; i < 3; i++) {
            const gyre_cview whole = gyre_const(all.view[i]);
            assert_int_equal(gyre_shards_take(shards, r, &whole, &parts[r].view[i], NULL), GYRE_OK);
        }
        works[r] = (rank_work){.at = {&net, r}, .c = c, .shards = shards, .args = args};
        use_tensors(&parts[r], &works[r].args);
        assert_int_equal(pthread_create(&works[r].thread, NULL, run_rank, &works[r]), 0);
    }
    for (int64_t r = 0; r < c->ranks; r++) {
        gyre_shard_info info = GYRE_INIT(gyre_shard_info);
        pthread_join(works[r].thread, NULL);
        if (works[r].status) fail_msg("%s, rank %lld: %s", c->name, (long long)r, works[r].err.text);
        assert_int_equal(gyre_shards_get(shards, r, &info), GYRE_OK);
        for (int64_t b = 0; b < c->rows; b++)
            for (int64_t t = 0; t < info.tokens; t++)
                for (int64_t h = 0; h < c->key_heads * c->share; h++)
                    for (int64_t i = 0; i < CHANNELS; i++) {
                        const float is = *element(&parts[r].view[3], b, t, h, i);
                        const float want = *element(&all.view[3], b, info.index[t], h, i);
                        if (c->order == GYRE_ORDER_FIXED ? is != want : !(fabsf(is - want) <= 1e-5f))
                            fail_msg("%s, rank %lld, row %lld, token %lld, head %lld: %a, not %a", c->name, (long long)r,
                                     (long long)b, (long long)t, (long long)h, (double)is, (double)want);
                    }
        free_tensors(&parts[r]);
    }
    close_network(&net);
    free_tensors(&all);
    gyre_shards_free(shards);
    gyre_batch_free(batch);
    gyre_encoding_free(rope);
}

/* Groups of 2 + 1, 3 + 2 heads, and of one. */
static void heads_need_not_divide(void **state) {
    static const int64_t heads[] = {3, 5, 7};
    static const size_t scratch[] = {1 << 15, 1 << 18, 3 << 17, 1 << 19, 3 << 18, 1 << 20, 1 << 21, 0};
    (void)state;
    for (int h = 0; h < 3; h++)
        for (int s = 0; s < 8; s++)
            for (int order = 0; order < 2; order++) {
                const view_case c = {.name = "heads in groups",
                                     .rows = 1,
                                     .tokens = 700,
                                     .key_heads = heads[h],
                                     .share = 1 + h % 2,
                                     .ranks = 2 + h % 2,
                                     .order = order ? GYRE_ORDER_FIXED : GYRE_ORDER_FAST,
                                     .scratch = scratch[s]};
                check_case(&c);
            }
}

/* The layout of most frameworks. */
static void tensors_may_lie_by_head(void **state) {
    static const int64_t tokens[] = {5, 40, 300};
    (void)state;
    for (int t = 0; t < 3; t++)
        for (int pass = GYRE_RING_KEYS; pass <= GYRE_RING_FEWEST; pass++)
            for (int order = 0; order < (pass == GYRE_RING_QUERIES ? 1 : 2); order++)
                for (int64_t ranks = 1; ranks <= 3; ranks++) {
                    const view_case c = {.name = "by head",
                                         .rows = 1 + t % 2,
                                         .tokens = tokens[t],
                                         .key_heads = 4,
                                         .share = 2,
                                         .ranks = ranks,
                                         .pass = (gyre_ring_pass)pass,
                                         .order = order ? GYRE_ORDER_FIXED : GYRE_ORDER_FAST,
                                         .by_head = 1};
                    check_case(&c);
                }
}

static void a_rank_may_have_no_tokens(void **state) {
    (void)state;
    for (int64_t rows = 1; rows <= 3; rows++)
        for (int pass = GYRE_RING_KEYS; pass <= GYRE_RING_FEWEST; pass++)
            for (int64_t tokens = 1; tokens <= 2; tokens++) {
                const view_case c = {.name = "few tokens",
                                     .rows = rows,
                                     .tokens = tokens,
                                     .key_heads = 2,
                                     .share = 1,
                                     .ranks = 5,
                                     .pass = (gyre_ring_pass)pass};
                check_case(&c);
            }
}

/* -- what is refused -- */

static void refuses(gyre_batch *batch, const attention_setup *args, const char *fragment) {
    gyre_shard_config dealt = GYRE_INIT(gyre_shard_config);
    gyre_shards *shards;
    gyre_error err = {0, ""};
    network net;
    endpoint at = {&net, 0};
    dealt.ranks = 1;
    open_network(&net);
    assert_int_equal(gyre_shards_create(&shards, batch, &dealt, NULL, NULL), GYRE_OK);
    const gyre_transport transport = network_transport(&at, 1);
    gyre_ring_args ring = GYRE_INIT(gyre_ring_args);
    attention_structs structs;
    ring.transport = &transport, ring.shards = shards, ring.attention = attention_setup_args(args, &structs);
    static _Alignas(64) char scratch[1 << 20];
    assert_int_equal(ring_scratch(&ring, 0, NULL), 0);
    assert_int_equal(gyre_ring_attention(&ring, (gyre_scratch){scratch, sizeof scratch}, NULL, &err), GYRE_EUNSUPPORTED);
    if (!strstr(err.text, fragment)) fail_msg("\"%s\" does not contain \"%s\"", err.text, fragment);
    gyre_shards_free(shards);
    close_network(&net);
}

static void what_no_part_would_do_is_refused(void **state) {
    static const unsigned char mask[] = {0, 1, 1, 0, 1, 1, 0, 0}, full[] = {0, 1, 1, 1, 1, 1, 0, 0};
    static float q[8 * 2 * CHANNELS], out[8 * 2 * CHANNELS];
    gyre_batch_config config = GYRE_INIT(gyre_batch_config);
    gyre_batch *batch;
    (void)state;
    attention_setup args = GYRE_INIT(attention_setup);
    args.q = args.k = args.v = gyre_cdense(q, GYRE_DTYPE_F32, 1, 8, 2, CHANNELS);
    args.out = gyre_dense(out, GYRE_DTYPE_F32, 1, 8, 2, CHANNELS);
    config.documents = 1, config.form = GYRE_BATCH_MASKED, config.row_tokens = 8, config.mask = mask;
    assert_int_equal(gyre_batch_create(&batch, &config, NULL, NULL), GYRE_OK);
    refuses(batch, &args, "key_shards: a row has padding between its tokens");
    gyre_batch_free(batch);
    config.mask = full;
    assert_int_equal(gyre_batch_create(&batch, &config, NULL, NULL), GYRE_OK);
    args.q_pos_head_stride = 8;
    refuses(batch, &args, "q_pos_head_stride: positions come from the shards");
    args.q_pos_head_stride = 0, args.k_pos_head_stride = 8;
    refuses(batch, &args, "k_pos_head_stride: positions come from the shards");
    gyre_batch_free(batch);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(heads_need_not_divide), cmocka_unit_test(tensors_may_lie_by_head),
                                       cmocka_unit_test(a_rank_may_have_no_tokens),
                                       cmocka_unit_test(what_no_part_would_do_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
