/* test_ring.c: attention over a ring of ranks, each a thread, is the attention of one machine. */
#include "attention_setup.h"
#include "gyre/gyre_ring.h"
#include "ring_threads.h"
#include "scratch_bytes.h"

static const split_case cases[] = {
    RING_CASES,
    {.name = "alibi, both ways", .config = SCORING(GYRE_KIND_ALIBI, 0), .both_ways = 1},
    {.name = "gates", .config = {.kind = GYRE_KIND_NOPE}, .gates = 0.2, .sink_logits = 1},
};
/* Every scheme, in fewer layouts. */
static const split_case others[] = {
    {.name = "none, two-sided window", .config = {.kind = GYRE_KIND_NOPE}, .both_ways = 1, .window = 7, .window_after = 12},
    {.name = "alibi, softcap, window, sinks", .config = SCORING(GYRE_KIND_ALIBI, 0), .softcap = 5, .window = 12, .sinks = 3},
#include "split_schemes.def"
};
enum { CASES = sizeof cases / sizeof *cases, OTHERS = sizeof others / sizeof *others };
static const int64_t lengths[] = {37, 10, 50};
static const ring_options plain = {.pass = GYRE_RING_KEYS};

static void check_ring(whole *w, gyre_shard_layout layout, int64_t ranks, const shared_gradients *wanted) {
    group g;
    make_group(&g, w, layout, ranks, 0);
    shared_gradients sum = make_shared(w);
    run_group(&g, &plain, &sum);
    check_group(&g, 0, &sum, wanted);
    free_shared(&sum);
    free_group(&g);
}

static void a_ring_is_one_machine(void **state) {
    static const int64_t groups[] = {1, 2, 3, 4, 7};
    static const gyre_batch_form forms[] = {GYRE_BATCH_PACKED, GYRE_BATCH_PADDED_LEFT};
    (void)state;
    for (int c = 0; c < CASES + OTHERS; c++)
        for (int f = 0; f < 2; f++) {
            const int layouts = forms[f] == GYRE_BATCH_PACKED ? 4 : 3;
            whole w;
            make_whole(&w, c < CASES ? &cases[c] : &others[c - CASES], forms[f], lengths, 3);
            shared_gradients wanted = make_shared(&w);
            run_whole(&w, GYRE_ORDER_FAST, &wanted);
            for (int r = 0; r < 5; r++)
                for (int l = 0; l < layouts; l++)
                    if (c < CASES || l == (c + r) % layouts) check_ring(&w, (gyre_shard_layout)l, groups[r], &wanted);
            free_shared(&wanted);
            free_whole(&w);
        }
}

/* TransformerEngine #1046: no ALiBi under context parallelism, because the kernel could not be told where a rank's tokens
 * stand in the whole.  Queries of zeros leave the bias alone: weights are exp(slope x position), and the values are
 * positions. */
static void alibi_knows_where_the_tokens_of_a_rank_stand(void **state) {
    static const split_case alibi = {.name = "alibi", .config = SCORING(GYRE_KIND_ALIBI, 0)};
    static const ring_options forward = {.pass = GYRE_RING_KEYS, .forward = 1};
    static const int64_t length[] = {24};
    (void)state;
    whole w;
    group g;
    make_whole(&w, &alibi, GYRE_BATCH_PACKED, length, 1);
    memset(w.data.at[F_Q], 0, field_bytes(&alibi, &w.data, F_Q));
    for (int64_t t = 0; t < length[0]; t++)
        for (int64_t i = 0; i < KEY_HEADS * DIM; i++)
            test_put(w.data.at[F_V], GYRE_DTYPE_F32, (size_t)(t * KEY_HEADS * DIM + i), (double)t);
    for (int l = 0; l < 3; l++) {
        make_group(&g, &w, (gyre_shard_layout)l, 3, 0);
        run_group(&g, &forward, NULL);
        for (int64_t r = 0; r < 3; r++)
            for (int64_t i = 0; i < g.info[r].tokens; i++)
                for (int h = 0; h < HEADS; h++) {
                    double sum = 0, weighted = 0;
                    for (int64_t k = 0; k <= g.info[r].index[i]; k++) {
                        const double weight = exp(ldexp(1, -2 * (h + 1)) * (double)(k - g.info[r].index[i]));
                        sum += weight;
                        weighted += weight * (double)k;
                    }
                    const double is = test_get(g.data[r].at[F_OUT], GYRE_DTYPE_F32, (size_t)((i * HEADS + h) * DIM));
                    test_close(is, weighted / sum, 1e-5, "mean position");
                }
        free_group(&g);
    }
    free_whole(&w);
}

static void bits_repeat(void **state) {
    whole w;
    group one, two;
    (void)state;
    make_whole(&w, &cases[1], GYRE_BATCH_PACKED, lengths, 3);
    make_group(&one, &w, GYRE_SHARD_ZIGZAG, 4, 0);
    make_group(&two, &w, GYRE_SHARD_ZIGZAG, 4, 0);
    shared_gradients first = make_shared(&w), second = make_shared(&w);
    for (int i = 0; i < 20; i++) { /* threads arrive in another order each time */
        run_group(&one, &plain, &first);
        run_group(&two, &plain, &second);
        for (int64_t r = 0; r < 4; r++)
            for (field f = F_OUT; f < FIELDS; f++)
                assert_memory_equal(one.data[r].at[f], two.data[r].at[f], field_bytes(w.c, &one.data[r], f));
    }
    assert_memory_equal(first.sink, second.sink, sizeof first.sink);
    free_shared(&first);
    free_shared(&second);
    free_group(&one);
    free_group(&two);
    free_whole(&w);
}

/* A message may be large, and MPI moves it only while it is called.  With one thread too. */
static void exchanges_move_while_tiles_are_computed(void **state) {
    static const int64_t length[] = {2000};
    static const gyre_ring_pass passes[] = {GYRE_RING_KEYS, GYRE_RING_GATHER};
    int64_t forward, both;
    whole w;
    group g;
    (void)state;
    make_whole(&w, &cases[0], GYRE_BATCH_PACKED, length, 1);
    make_group(&g, &w, GYRE_SHARD_ZIGZAG, 2, 0);
    for (int p = 0; p < 2; p++) {
        run_group(&g, &(ring_options){.pass = passes[p], .forward = 1, .polls = &forward}, NULL);
        run_group(&g, &(ring_options){.pass = passes[p], .polls = &both}, NULL);
        /* GATHER computes once all keys are there, and sends gradients of keys while it does. */
        assert_true(forward >= (p == 0 ? 8 : 0));
        assert_true(both - forward >= 8);
    }
    free_group(&g);
    free_whole(&w);
}

/* -- errors -- */

static void mistakes_are_named(void **state) {
    whole w;
    group g;
    gyre_error err = {0, ""};
    network net;
    endpoint at = {&net, 0};
    (void)state;
    open_network(&net);
    make_whole(&w, &cases[0], GYRE_BATCH_PACKED, lengths, 3);
    make_group(&g, &w, GYRE_SHARD_ZIGZAG, 2, 0);
    attention_setup args = rank_args(&g, 0);
    gyre_transport transport = network_transport(&at, 2);
    attention_structs structs;
    gyre_ring_args ring = GYRE_INIT(gyre_ring_args);
    ring.transport = &transport, ring.shards = g.shards, ring.attention = attention_setup_args(&args, &structs);
    ring.agreed = 1; /* nobody else is there */
    const size_t bytes = ring_scratch(&ring, 0, NULL);
    void *scratch = scratch_for(bytes);
#define SAYS(want, fragment)                                                                                                \
    do {                                                                                                                    \
        ring.attention = attention_setup_args(&args, &structs);                                                             \
        assert_int_equal(gyre_ring_attention(&ring, (gyre_scratch){scratch, bytes}, NULL, &err), want);                     \
        if (!strstr(err.text, fragment)) fail_msg("\"%s\" does not contain \"%s\"", err.text, fragment);                    \
    } while (0)
    args.order = GYRE_ORDER_FIXED;
    ring.pass = GYRE_RING_QUERIES;
    SAYS(GYRE_EUNSUPPORTED, "pass: QUERIES has no ORDER_FIXED");
    args.order = GYRE_ORDER_FAST;
    args.q_gate_sums = args.k_gate_sums = field_cview(w.c, &g.data[0], F_GATES);
    SAYS(GYRE_EUNSUPPORTED, "pass: QUERIES has no gate sums");
    ring.pass = (gyre_ring_pass)4;
    SAYS(GYRE_EINVAL, "pass: 4 is not a gyre_ring_pass");
    ring.pass = GYRE_RING_KEYS;
    args = rank_args(&g, 0);
    args.q_gate_sums = field_cview(w.c, &g.data[0], F_GATES);
    SAYS(GYRE_EINVAL, "gates.k: is missing");
    args = rank_args(&g, 0);
    args.mask = gyre_cdense(w.sink, GYRE_DTYPE_F32, 1, 1, 1, 1);
    SAYS(GYRE_EUNSUPPORTED, "mask: not supported while keys are on several ranks");
    args = rank_args(&g, 1);
    args.q = g.info[0].tokens == g.info[1].tokens ? gyre_cdense(args.q.data, args.q.dtype, 1, 3, HEADS, DIM) : args.q;
    SAYS(GYRE_ESHAPE, "but the shard of rank 0 has");
    args = rank_args(&g, 0);
    args.softcap = -1;
    SAYS(GYRE_EINVAL, "softcap: -1 is neither 0 nor in");
    args.softcap = 0;
    args.out.data = NULL;
    SAYS(GYRE_EINVAL, "");
    args = rank_args(&g, 0);
    for (int pass = GYRE_RING_KEYS; pass <= GYRE_RING_FEWEST;
         pass++) { /* scratch is measured by shapes, so these come first */
        ring.pass = (gyre_ring_pass)pass;
        args.k.shape[2] = args.v.shape[2] = 0;
        ring.attention = attention_setup_args(&args, &structs);
        assert_int_equal(ring_scratch(&ring, 1, NULL), 0);
        SAYS(GYRE_ESHAPE, "k: shape[2] = 0 is not in 1 .. ");
        args = rank_args(&g, 0);
        args.v.shape[3] = args.out.shape[3] = INT64_MAX;
        ring.attention = attention_setup_args(&args, &structs);
        assert_int_equal(ring_scratch(&ring, 1, NULL), 0);
        SAYS(GYRE_ESHAPE, "v: shape[3] = 9223372036854775807 is not in 1 .. ");
        args = rank_args(&g, 0);
    }
    ring.pass = GYRE_RING_KEYS;
    ring.attention = attention_setup_args(&args, &structs);
    const gyre_attention_gradients of_lse = {.size = sizeof of_lse,
                                             .dout = field_cview(w.c, &g.data[0], F_DOUT),
                                             .dq = field_view(w.c, &g.data[0], F_DQ),
                                             .dk = field_view(w.c, &g.data[0], F_DK),
                                             .dv = field_view(w.c, &g.data[0], F_DV),
                                             .dlse = gyre_const(args.lse)};
    const size_t more = ring_scratch(&ring, 1, NULL);
    void *memory = scratch_for(more);
    assert_int_equal(gyre_ring_attention_gradient(&ring, &of_lse, (gyre_scratch){memory, more}, NULL, &err),
                     GYRE_EUNSUPPORTED);
    assert_non_null(strstr(err.text, "dlse: is set, but a ring takes the gradient for out alone"));
    free(memory);
    transport.ranks = 3;
    SAYS(GYRE_EINVAL, "shards: not of the 3 ranks of the transport");
    transport.ranks = 2;
    ring.shards = NULL;
    SAYS(GYRE_EINVAL, "shards: is NULL");
    ring.shards = g.shards;
    assert_int_equal(gyre_ring_attention(&ring, (gyre_scratch){scratch, bytes - 64}, NULL, &err), GYRE_ENOMEM);
    net.fail_at = 1;
    SAYS(GYRE_EIO, "transport: rank 0 sends"); /* the first exchange of all */
    ring.agreed = 0;
    net.fail_at = 1;
    net.timeout = 0.05;
    SAYS(GYRE_EIO, "transport: rank 0 waited 0.0 s for rank 1 to begin");
    free(scratch);
    free_group(&g);
    free_whole(&w);
    close_network(&net);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ring_is_one_machine), cmocka_unit_test(alibi_knows_where_the_tokens_of_a_rank_stand),
        cmocka_unit_test(bits_repeat), cmocka_unit_test(exchanges_move_while_tiles_are_computed),
        cmocka_unit_test(mistakes_are_named)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
