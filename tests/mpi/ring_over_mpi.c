/* ring_over_mpi.c: attention and its gradient over ranks of MPI.  Run by mpirun; every rank knows the whole and compares its
 * own part with it. */
#include "attention_setup.h"
#include "gyre/gyre_mpi.h"
#include "scratch_bytes.h"
#include "split_attention.h"

#include <mpi.h>

static const split_case cases[] = {
    {.name = "rope", .config = {.kind = GYRE_KIND_ROPE}, .sink_logits = 1, .dropout = 0.1},
    {.name = "alibi", .config = {.kind = GYRE_KIND_ALIBI}},
    {.name = "shaw", .config = {.kind = GYRE_KIND_SHAW, .score = {.max_distance = 20}}},
    {.name = "m-rope by order",
     .config = {.kind = GYRE_KIND_ROPE, .rope = {.axes = 3, .axis_pairs = {4, 2, 2}}},
     .images = 1,
     .causal = GYRE_CAUSAL_BY_ORDER,
     .window = 60},
    {.name = "gates", .config = {.kind = GYRE_KIND_NOPE}, .gates = 0.4, .sink_logits = 1},
};
static const int64_t lengths[] = {300, 20, 411};
static gyre_mpi *mpi;

/* What this rank computed, against the same tokens of the whole. */
static void expect_same(group *g, int64_t rank, field which) {
    const gyre_cview all = field_cview(g->w->c, &g->w->data, which);
    const size_t n = field_size(g->w->c, &g->data[rank], which);
    const gyre_dtype dtype = all.dtype;
    token_data wanted = make_data(g->w->c, g->data[rank].rows, g->data[rank].tokens);
    const gyre_view to = field_view(g->w->c, &wanted, which);
    assert_int_equal(gyre_shards_take(g->shards, rank, &all, &to, NULL), GYRE_OK);
    for (size_t i = 0; i < n; i++) {
        const double is = test_get(g->data[rank].at[which], dtype, i), want = test_get(wanted.at[which], dtype, i);
        if (!(fabs(is - want) <= 1e-5 * (1 + fabs(want))))
            fail_msg("%s, rank %d: field %d is %.9g, not %.9g", g->w->c->name, (int)rank, (int)which, is, want);
    }
    free_data(&wanted);
}

static void expect_ok(gyre_status status, const gyre_error *err) {
    if (status) fail_msg("%s: %s", gyre_status_text(status), err->text);
}

static void run_forward(const gyre_ring_args *ring) {
    gyre_error err;
    const size_t bytes = ring_scratch(ring, 0, NULL);
    void *scratch = scratch_for(bytes);
    expect_ok(gyre_ring_attention(ring, (gyre_scratch){scratch, bytes}, NULL, &err), &err);
    free(scratch);
}

static void check_layout(whole *w, gyre_shard_layout layout, gyre_ring_pass pass) {
    const gyre_transport transport = gyre_mpi_transport(mpi);
    const int64_t rank = transport.rank;
    gyre_error err;
    group g;
    make_group(&g, w, layout, transport.ranks, 0);
    attention_setup args = shared_args(w, GYRE_ORDER_FAST);
    use_data(w->c, &g.data[rank], &g.data[rank], &args);
    use_sinks(w, &args);
    if (w->c->gates > 0 && pass == GYRE_RING_QUERIES) pass = GYRE_RING_KEYS; /* queries do not go around with gates */
    attention_structs structs;
    gyre_ring_args ring = GYRE_INIT(gyre_ring_args);
    ring.transport = &transport, ring.shards = g.shards, ring.pass = pass;
    ring.attention = attention_setup_args(&args, &structs);
    run_forward(&ring);
    const gyre_attention_gradients plain = {.size = sizeof plain,
                                            .dout = field_cview(w->c, &g.data[rank], F_DOUT),
                                            .dq = field_view(w->c, &g.data[rank], F_DQ),
                                            .dk = field_view(w->c, &g.data[rank], F_DK),
                                            .dv = field_view(w->c, &g.data[rank], F_DV)};
    const gyre_attention_gradients gradients = attention_setup_gradients(&args, &plain);
    if (pass == GYRE_RING_QUERIES) ring.pass = GYRE_RING_KEYS;
    const size_t more = ring_scratch(&ring, 1, NULL);
    void *scratch = scratch_for(more);
    expect_ok(gyre_ring_attention_gradient(&ring, &gradients, (gyre_scratch){scratch, more}, NULL, &err), &err);
    static const field of[] = {F_OUT, F_LSE, F_DQ, F_DK, F_DV, F_DQ_GATES, F_DK_GATES};
    const size_t count = sizeof of / sizeof *of - (w->c->gates > 0 ? 0 : 2);
    for (size_t i = 0; i < count; i++)
        expect_same(&g, rank, of[i]);
    free(scratch);
    free_group(&g);
}

/* ORDER_FIXED: the bits of one rank. */
static void check_fixed(whole *w, gyre_shard_layout layout, gyre_ring_pass pass) {
    const gyre_transport transport = gyre_mpi_transport(mpi);
    const int64_t rank = transport.rank;
    group g;
    make_group(&g, w, layout, transport.ranks, 0);
    attention_setup args = shared_args(w, GYRE_ORDER_FIXED);
    use_data(w->c, &g.data[rank], &g.data[rank], &args);
    use_sinks(w, &args);
    attention_structs structs;
    gyre_ring_args ring = GYRE_INIT(gyre_ring_args);
    ring.transport = &transport, ring.shards = g.shards, ring.pass = pass;
    ring.attention = attention_setup_args(&args, &structs);
    run_forward(&ring);
    for (field f = F_OUT; f <= F_LSE; f++) {
        token_data wanted = make_data(w->c, g.data[rank].rows, g.data[rank].tokens);
        const gyre_cview all = field_cview(w->c, &w->data, f);
        const gyre_view to = field_view(w->c, &wanted, f);
        assert_int_equal(gyre_shards_take(g.shards, rank, &all, &to, NULL), GYRE_OK);
        assert_memory_equal(g.data[rank].at[f], wanted.at[f], field_bytes(w->c, &wanted, f));
        free_data(&wanted);
    }
    free_group(&g);
}

static void a_ring_is_one_machine(void **state) {
    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        whole w;
        make_whole(&w, &cases[c], GYRE_BATCH_PACKED, lengths, 3);
        shared_gradients g = make_shared(&w);
        run_whole(&w, GYRE_ORDER_FAST, &g);
        for (int l = 0; l < 4; l++)
            check_layout(&w, (gyre_shard_layout)l, (gyre_ring_pass)(l < 3 ? l : 0));
        check_layout(&w, GYRE_SHARD_ZIGZAG, GYRE_RING_KEYS);
        free_shared(&g);
        free_whole(&w);
    }
}

static void fixed_order_has_the_bits_of_one_rank(void **state) {
    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        whole w;
        make_whole(&w, &cases[c], GYRE_BATCH_PACKED, lengths, 3);
        run_whole(&w, GYRE_ORDER_FIXED, NULL);
        check_fixed(&w, (gyre_shard_layout)(c % 4), GYRE_RING_KEYS);
        check_fixed(&w, (gyre_shard_layout)((c + 1) % 4), GYRE_RING_GATHER);
        free_whole(&w);
    }
}

/* Every rank says what differs, and the group goes on with the next call. */
static void ranks_say_what_differs(void **state) {
    const gyre_transport transport = gyre_mpi_transport(mpi);
    const int64_t rank = transport.rank;
    gyre_error err = {0, ""};
    whole w;
    group g;
    (void)state;
    make_whole(&w, &cases[0], GYRE_BATCH_PACKED, lengths, 3);
    make_group(&g, &w, GYRE_SHARD_ZIGZAG, transport.ranks, 0);
    attention_setup args = shared_args(&w, GYRE_ORDER_FAST);
    use_data(w.c, &g.data[rank], &g.data[rank], &args);
    attention_structs structs;
    gyre_ring_args ring = GYRE_INIT(gyre_ring_args);
    if (rank == 1) args.window = 40;
    ring.transport = &transport, ring.shards = g.shards, ring.attention = attention_setup_args(&args, &structs);
    const size_t bytes = ring_scratch(&ring, 0, NULL);
    void *scratch = scratch_for(bytes);
    const gyre_status status = gyre_ring_attention(&ring, (gyre_scratch){scratch, bytes}, NULL, &err);
    assert_int_equal(status, transport.ranks > 1 ? GYRE_EINVAL : GYRE_OK);
    if (transport.ranks > 1) assert_non_null(strstr(err.text, "window: 40 on rank 1, but 0 on rank 0"));
    args.window = 0;
    ring.attention = attention_setup_args(&args, &structs);
    expect_ok(gyre_ring_attention(&ring, (gyre_scratch){scratch, bytes}, NULL, &err), &err);
    free(scratch);
    free_group(&g);
    free_whole(&w);
}

/* A rank that never answers is an error, not a wait for ever. */
static void silence_is_an_error(void **state) {
    gyre_mpi *own;
    gyre_mpi_config config = GYRE_INIT(gyre_mpi_config);
    char sent = 1, received = 0;
    (void)state;
    config.timeout = 0.2;
    assert_int_equal(gyre_mpi_create(&own, &config, NULL), GYRE_OK);
    const gyre_transport t = gyre_mpi_transport(own);
    if (t.rank == 0 && t.ranks > 1) {
        const gyre_exchange exchange = {1, 1, &sent, &received, 0, 1};
        assert_int_equal(t.begin(t.ctx, 0, &exchange), GYRE_OK);
        assert_int_equal(t.wait(t.ctx, 0), GYRE_EIO);
        assert_int_equal(t.begin(t.ctx, 0, &exchange), GYRE_EIO); /* their messages no longer match */
    }
    MPI_Barrier(MPI_COMM_WORLD);
    gyre_mpi_free(own);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_ring_is_one_machine),
                                       cmocka_unit_test(fixed_order_has_the_bits_of_one_rank),
                                       cmocka_unit_test(ranks_say_what_differs), cmocka_unit_test(silence_is_an_error)};
    gyre_mpi_config config = GYRE_INIT(gyre_mpi_config);
    int provided;
    if (gyre_mpi_create(&mpi, &config, NULL) != GYRE_EINVAL) return 1; /* MPI is not ready */
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    if (gyre_mpi_create(&mpi, &config, NULL) != GYRE_OK) return 1;
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    gyre_mpi_free(mpi);
    gyre_mpi_free(NULL);
    if (failed) MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Finalize();
    return 0;
}
