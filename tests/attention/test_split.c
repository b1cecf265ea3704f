/* test_split.c: attention whose keys are split over ranks is the attention of one machine: every scheme, every layout,
 * forward and gradient.  The ranks are played by one process, which passes keys and values around a ring. */
#include "attention_setup.h"
#include "gyre/gyre_cache.h"
#include "random_cuts.h"
#include "split_attention.h"

static const split_case cases[] = {
    {.name = "none", .config = {.kind = GYRE_KIND_NOPE}},
    {.name = "none, by order, window, sinks",
     .config = {.kind = GYRE_KIND_NOPE},
     .causal = GYRE_CAUSAL_BY_ORDER,
     .window = 9,
     .sinks = 3},
    {.name = "none, two-sided window", .config = {.kind = GYRE_KIND_NOPE}, .both_ways = 1, .window = 7, .window_after = 12},
    {.name = "none, softcap, sink logits", .config = {.kind = GYRE_KIND_NOPE}, .softcap = 3, .sink_logits = 1},
    {.name = "none, dropout", .config = {.kind = GYRE_KIND_NOPE}, .dropout = 0.3},
    {.name = "rope", .config = TURNING(0)},
    {.name = "rope, f16, dropout", .config = TURNING(0), .dtype = GYRE_DTYPE_F16, .dropout = 0.1},
    {.name = "rope, bf16, sink logits", .config = TURNING(0), .dtype = GYRE_DTYPE_BF16, .sink_logits = 1},
    {.name = "rope, window and sinks", .config = TURNING(0), .window = 11, .sinks = 2},
    {.name = "rope, length of the query",
     .config = FOLLOWING(GYRE_LENGTH_POLICY_CAUSAL, 16, .scaling = GYRE_SCALING_DYNAMIC_NTK, .factor = 2)},
    {.name = "rope, length of the prefix",
     .config = FOLLOWING(GYRE_LENGTH_POLICY_PREFIX, 0, .scaling = GYRE_SCALING_DYNAMIC_NTK, .factor = 2)},
    {.name = "m-rope, by order, images, dropout",
     .causal = GYRE_CAUSAL_BY_ORDER,
     .images = 1,
     .dropout = 0.2,
     .config = TURNING(.axes = 3, .axis_pairs = {4, 2, 2})},
    {.name = "m-rope, by order, window, sinks",
     .causal = GYRE_CAUSAL_BY_ORDER,
     .images = 1,
     .window = 9,
     .sinks = 4,
     .config = TURNING(.axes = 3, .axis_pairs = {4, 2, 2}, .axes_layout = GYRE_AXES_INTERLEAVED)},
    {.name = "alibi, both ways, sink logits", .config = SCORING(GYRE_KIND_ALIBI, 0), .both_ways = 1, .sink_logits = 1},
    {.name = "alibi, softcap, window, sinks", .config = SCORING(GYRE_KIND_ALIBI, 0), .softcap = 5, .window = 12, .sinks = 3},
    {.name = "gates", .config = {.kind = GYRE_KIND_NOPE}, .gates = 0.3},
    {.name = "gates, by order, softcap, sink logits, dropout",
     .config = {.kind = GYRE_KIND_NOPE},
     .causal = GYRE_CAUSAL_BY_ORDER,
     .gates = 5,
     .softcap = 3,
     .sink_logits = 1,
     .dropout = 0.1},
    {.name = "gates, alibi, window, sinks", .config = SCORING(GYRE_KIND_ALIBI, 0), .gates = 0.1, .window = 12, .sinks = 3},
#include "split_schemes.def"
};
enum { CASES = sizeof cases / sizeof *cases, LAYOUTS = 4, FORMS = 3 };

static const gyre_shard_layout layouts[LAYOUTS] = {GYRE_SHARD_CONTIGUOUS, GYRE_SHARD_ZIGZAG, GYRE_SHARD_STRIPED,
                                                   GYRE_SHARD_ZIGZAG_PER_DOCUMENT};
static const gyre_batch_form forms[FORMS] = {GYRE_BATCH_PACKED, GYRE_BATCH_PADDED_RIGHT, GYRE_BATCH_PADDED_LEFT};
static const char *const layout_names[LAYOUTS] = {"contiguous", "zigzag", "striped", "zigzag per document"};
/* One document that a rank has no token of, where ranks are many. */
static const int64_t lengths[] = {37, 10, 50};

/* -- the ring -- */

/* Rank r begins with its own keys and goes on with those of the rank before, and so on, as they arrive. */
static int64_t owner_at(const group *g, int64_t rank, int64_t step) {
    return (rank - step + g->ranks) % g->ranks;
}

static void ring_forward(group *g, const gyre_exec *exec) {
    for (int64_t r = 0; r < g->ranks; r++) {
        memset(g->data[r].at[F_STATE], 0, field_bytes(g->w->c, &g->data[r], F_STATE));
        for (int64_t step = 0; step < g->ranks; step++) {
            attention_setup args = part_args(g, r, owner_at(g, r, step), GYRE_ORDER_FAST);
            args.state = field_view(g->w->c, &g->data[r], F_STATE);
            if (step < g->ranks - 1)
                args.out = (gyre_view){0}, args.lse.data = NULL;
            else
                use_sinks(g->w, &args);
            attend(&args, exec);
        }
    }
}

static void ring_backward(group *g, shared_gradients *sum, const gyre_exec *exec) {
    for (int64_t r = 0; r < g->ranks; r++)
        for (field f = F_DQ; f <= F_DK_GATES; f++)
            memset(g->data[r].at[f], 0, field_bytes(g->w->c, &g->data[r], f));
    for (int64_t r = 0; r < g->ranks; r++)
        for (int64_t step = 0; step < g->ranks; step++) {
            const int64_t owner = owner_at(g, r, step);
            attention_setup args = part_args(g, r, owner, GYRE_ORDER_FAST);
            args.accumulate = 1;
            if (step == 0) use_sinks(g->w, &args);
            const gyre_cview dout = field_cview(g->w->c, &g->data[r], F_DOUT);
            const gyre_view dqkv[3] = {field_view(g->w->c, &g->data[r], F_DQ), field_view(g->w->c, &g->data[owner], F_DK),
                                       field_view(g->w->c, &g->data[owner], F_DV)};
            const gyre_table_gradients gradients = shared_views(g->w, sum);
            differentiate(&args, &dout, dqkv, &gradients, exec);
        }
}

/* Every rank's keys by themselves, then one sum in the order of ranks: as decoding over a cache that is dealt out. */
static void merge_forward(group *g) {
    for (int64_t r = 0; r < g->ranks; r++) {
        const split_case *c = g->w->c;
        double *states[MOST_RANKS];
        gyre_cview views[MOST_RANKS];
        for (int64_t owner = 0; owner < g->ranks; owner++) {
            attention_setup args = part_args(g, r, owner, GYRE_ORDER_FAST);
            states[owner] = room(field_size(c, &g->data[r], F_STATE), sizeof(double));
            args.state = field_view(c, &g->data[r], F_STATE);
            args.state.data = states[owner];
            args.out = (gyre_view){0}, args.lse.data = NULL;
            attend(&args, NULL);
            views[owner] = gyre_const(args.state);
        }
        attention_setup args = GYRE_INIT(attention_setup);
        gyre_attention_merge_args merge = GYRE_INIT(gyre_attention_merge_args);
        use_sinks(g->w, &args);
        merge.states = views;
        merge.parts = g->ranks;
        merge.sink_logits = args.sink_logits;
        merge.out = field_view(c, &g->data[r], F_OUT);
        merge.lse = field_view(c, &g->data[r], F_LSE);
        assert_int_equal(gyre_attention_merge(&merge, NULL, NULL), GYRE_OK);
        for (int64_t owner = 0; owner < g->ranks; owner++)
            free(states[owner]);
    }
}

/* -- comparison -- */
typedef struct worst {
    double out, lse, gradient, table;
} worst;

/* out = root mean square of the differences / that of the numbers, over tokens that are no padding. */
static double apart(const whole *w, const token_data *a, field which) {
    const size_t n = field_size(w->c, a, which), row = n / (size_t)(a->rows * a->tokens);
    const gyre_dtype dtype = field_view(w->c, a, which).dtype;
    double error = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        const double is = test_get(a->at[which], dtype, i), wanted = test_get(w->data.at[which], dtype, i);
        if (w->info.document_of[i / row] < 0 && which < F_DQ) continue;
        if (is == wanted) continue; /* infinities too */
        error += (is - wanted) * (is - wanted);
        if (!isfinite(is) || !isfinite(wanted)) return INFINITY;
    }
    for (size_t i = 0; i < n; i++) {
        const double wanted = test_get(w->data.at[which], dtype, i);
        size += isfinite(wanted) ? wanted * wanted : 0;
    }
    return error == 0 ? 0 : sqrt(error / size);
}

static double tables_apart(const whole *w, const shared_gradients *a, const shared_gradients *b) {
    double most = 0;
    for (int t = 0; t <= TABLES; t++) {
        const size_t n = t < TABLES ? w->table_size[t] : HEADS;
        const double *x = t < TABLES ? a->table[t] : a->sink, *y = t < TABLES ? b->table[t] : b->sink;
        double error = 0, size = 0;
        for (size_t i = 0; i < n; i++) {
            error += (x[i] - y[i]) * (x[i] - y[i]), size += y[i] * y[i];
            test_close((long double)x[i], (long double)y[i], 2e-5L * (1 + fabsl((long double)y[i])), w->c->name);
        }
        most = fmax(most, error == 0 ? 0 : sqrt(error / size));
    }
    return most;
}

/* The bounds of one machine against the definition: test_attention_error.c and check_problem of naive_attention_tables.h. */
static void expect_near(const group *g, const char *what, double error, double bound) {
    if (!(error <= bound))
        fail_msg("%s, %lld ranks, %s, %s: %.2e is above %.1e", g->w->c->name, (long long)g->ranks,
                 g->w->info.q_starts ? "packed" : "padded", what, error, bound);
}

static void check_forward(const group *g, worst *most) {
    token_data all = make_data(g->w->c, g->w->info.rows, g->w->info.tokens);
    gather(g, F_OUT, &all);
    gather(g, F_LSE, &all);
    const double out = apart(g->w, &all, F_OUT), lse = apart(g->w, &all, F_LSE);
    most->out = fmax(most->out, out), most->lse = fmax(most->lse, lse);
    expect_near(g, "out", out, 2e-6);
    expect_near(g, "lse", lse, 1e-6);
    free_data(&all);
}

static void check_backward(const group *g, worst *most) {
    token_data all = make_data(g->w->c, g->w->info.rows, g->w->info.tokens);
    static const char *const names[] = {"dq", "dk", "dv"};
    for (field f = F_DQ; f <= F_DV; f++) {
        gather(g, f, &all);
        const double error = apart(g->w, &all, f);
        most->gradient = fmax(most->gradient, error);
        expect_near(g, names[f - F_DQ], error, 2e-6);
    }
    for (field f = F_DQ_GATES; f <= F_DK_GATES && g->w->c->gates > 0; f++) {
        gather(g, f, &all); /* those of queries are near 0: a row shifts as a whole */
        const float *is = all.at[f], *wanted = g->w->data.at[f];
        for (size_t i = 0; i < field_size(g->w->c, &all, f); i++)
            test_close((long double)is[i], (long double)wanted[i], 3e-6L * (1 + fabsl((long double)wanted[i])), "gates");
    }
    free_data(&all);
}

/* -- all of it -- */

static void check_group(whole *w, const shared_gradients *wanted, int layout, int64_t ranks, worst *most) {
    group g;
    make_group(&g, w, layouts[layout], ranks, 0);
    shared_gradients sum = make_shared(w);
    merge_forward(&g);
    check_forward(&g, most);
    ring_forward(&g, NULL);
    check_forward(&g, most);
    ring_backward(&g, &sum, NULL);
    check_backward(&g, most);
    const double tables = tables_apart(w, &sum, wanted);
    most->table = fmax(most->table, tables);
    expect_near(&g, "tables", tables, 1e-5);
    free_shared(&sum);
    free_group(&g);
}

static void every_split_is_the_whole(void **state) {
    static const int64_t groups[] = {1, 2, 3, 4, 7};
    const int count = random_cuts() < 200 ? 3 : 5; /* a sanitizer takes long */
    worst most = {0, 0, 0, 0};
    (void)state;
    for (int c = 0; c < CASES; c++)
        for (int f = 0; f < FORMS; f++) {
            whole w;
            make_whole(&w, &cases[c], forms[f], lengths, 3);
            shared_gradients wanted = make_shared(&w);
            run_whole(&w, GYRE_ORDER_FAST, &wanted);
            for (int l = 0; l < (f == 0 ? LAYOUTS : LAYOUTS - 1); l++)
                for (int r = 0; r < count; r++)
                    check_group(&w, &wanted, l, groups[r], &most);
            free_shared(&wanted);
            free_whole(&w);
        }
    print_message("furthest from one machine: out %.1e, lse %.1e, dq dk dv %.1e, tables %.1e\n", most.out, most.lse,
                  most.gradient, most.table);
}

/* Any number of threads, any run: the same bits. */
static void bits_repeat(void **state) {
    gyre_pool *pool;
    (void)state;
    assert_int_equal(gyre_pool_create(&pool, 3, NULL), GYRE_OK);
    const gyre_exec exec = gyre_pool_exec(pool);
    for (int c = 0; c < CASES; c++)
        for (int l = 0; l < LAYOUTS; l++) {
            whole w;
            group one, two;
            make_whole(&w, &cases[c], GYRE_BATCH_PACKED, lengths, 3);
            make_group(&one, &w, layouts[l], 3, 0);
            make_group(&two, &w, layouts[l], 3, 0);
            shared_gradients first = make_shared(&w), second = make_shared(&w);
            ring_forward(&one, NULL);
            ring_forward(&two, &exec);
            ring_backward(&one, &first, NULL);
            ring_backward(&two, &second, &exec);
            for (int64_t r = 0; r < 3; r++)
                for (field f = F_OUT; f < FIELDS; f++)
                    if (memcmp(one.data[r].at[f], two.data[r].at[f], field_bytes(w.c, &one.data[r], f)) != 0)
                        fail_msg("%s, %s: field %d of rank %lld", w.c->name, layout_names[l], (int)f, (long long)r);
            for (int t = 0; t < TABLES; t++)
                assert_memory_equal(first.table[t], second.table[t], w.table_size[t] * sizeof(double));
            free_shared(&first);
            free_shared(&second);
            free_group(&one);
            free_group(&two);
            free_whole(&w);
        }
    gyre_pool_free(pool);
}

/* -- the fixed order -- */

/* A run of tokens and the rank that has them. */
typedef struct owned_run {
    gyre_token_run run;
    int64_t rank, at; /* at: first token of it among the rank's */
} owned_run;
enum { MOST_RUNS = 64 };

/* All runs in the order of their tokens.  out = their number. */
static int64_t sort_runs(const group *g, owned_run *out) {
    int64_t count = 0;
    for (int64_t r = 0; r < g->ranks; r++)
        for (int64_t i = 0, at = 0; i < g->info[r].runs; at += g->info[r].run[i++].count) {
            int64_t to = count++;
            assert_true(count <= MOST_RUNS);
            for (; to > 0 && out[to - 1].run.first > g->info[r].run[i].first; to--)
                out[to] = out[to - 1];
            out[to] = (owned_run){g->info[r].run[i], r, at};
        }
    return count;
}

/* Queries of rank r with the keys of one run. */
static void attend_run(group *g, int64_t r, const owned_run *keys, int last) {
    int64_t starts[MOST_DOCUMENTS + 1];
    attention_setup args = part_args(g, r, keys->rank, GYRE_ORDER_FIXED);
    gyre_positions index = *args.k_index;
    const gyre_view from = field_view(g->w->c, &g->data[keys->rank], F_K);
    const size_t skip = (size_t)(keys->at * from.stride[1]) * gyre_dtype_size(from.dtype);
    args.k.data = (const char *)args.k.data + skip;
    args.v.data = (const char *)args.v.data + skip;
    args.k.shape[1] = args.v.shape[1] = keys->run.count;
    if (args.k_gate_sums.data) args.k_gate_sums.data = (const double *)args.k_gate_sums.data + keys->at * HEADS;
    args.k_gate_sums.shape[1] = keys->run.count;
    args.k_pos.data = (const int64_t *)args.k_pos.data + keys->at;
    index.data = (const int64_t *)index.data + keys->at;
    args.k_index = &index;
    for (int64_t s = 0; s <= args.sequences; s++) {
        const int64_t begin = args.k_starts[s] - keys->at;
        starts[s] = begin < 0 ? 0 : begin > keys->run.count ? keys->run.count : begin;
    }
    args.k_starts = starts;
    args.state = field_view(g->w->c, &g->data[r], F_STATE);
    if (last)
        use_sinks(g->w, &args);
    else
        args.out = (gyre_view){0}, args.lse.data = NULL;
    attend(&args, NULL);
}

static void check_fixed(whole *w, gyre_shard_layout layout, int64_t ranks) {
    group g;
    owned_run runs[MOST_RUNS];
    token_data all = make_data(w->c, w->info.rows, w->info.tokens);
    make_group(&g, w, layout, ranks, 128);
    const int64_t count = sort_runs(&g, runs);
    for (int64_t r = 0; r < ranks; r++)
        for (int64_t i = 0; i < count; i++)
            attend_run(&g, r, &runs[i], i == count - 1);
    gather(&g, F_OUT, &all);
    gather(&g, F_LSE, &all);
    if (memcmp(all.at[F_OUT], w->data.at[F_OUT], field_bytes(w->c, &all, F_OUT)) != 0 ||
        memcmp(all.at[F_LSE], w->data.at[F_LSE], field_bytes(w->c, &all, F_LSE)) != 0)
        fail_msg("%s, %lld ranks, layout %d: other bits than one call", w->c->name, (long long)ranks, (int)layout);
    free_data(&all);
    free_group(&g);
}

/* Parts of 128 keys, one after the other in the order of their tokens: the bits of one call with all keys. */
static void fixed_order_has_the_bits_of_one_call(void **state) {
    static const int64_t one[] = {590}, two[] = {130, 450}, groups[] = {1, 2, 3, 4, 7};
    (void)state;
    for (int c = 0; c < CASES; c++) {
        for (int r = 0; r < (random_cuts() < 200 ? 2 : 5); r++) {
            whole w;
            make_whole(&w, &cases[c], GYRE_BATCH_PACKED, one, 1);
            run_whole(&w, GYRE_ORDER_FIXED, NULL);
            for (int l = 0; l < 3; l++)
                check_fixed(&w, layouts[l], groups[r]);
            free_whole(&w);
            make_whole(&w, &cases[c], GYRE_BATCH_PACKED, two, 2);
            run_whole(&w, GYRE_ORDER_FIXED, NULL);
            check_fixed(&w, GYRE_SHARD_ZIGZAG_PER_DOCUMENT, groups[r]);
            free_whole(&w);
        }
    }
}

/* -- a cache that is dealt out -- */

static gyre_cache *make_cache(const whole *w, int64_t tokens, gyre_cache_keys keys, int64_t page_tokens) {
    gyre_cache_config config = GYRE_INIT(gyre_cache_config);
    gyre_cache *cache;
    config.encoding = w->encoding;
    config.keys = keys;
    config.heads = KEY_HEADS;
    config.head_dim = DIM;
    config.max_tokens = tokens + 64;
    config.page_tokens = page_tokens;
    config.gate_heads = w->c->gates > 0 ? HEADS : 0;
    assert_int_equal(gyre_cache_create(&cache, &config, NULL, NULL), GYRE_OK);
    return cache;
}

static void attend_cache(const gyre_cache *cache, const attention_setup *args) {
    const int64_t sequence = 0;
    const size_t bytes = cache_attention_scratch(cache, &sequence, args, NULL);
    void *scratch = scratch_for(bytes);
    assert_int_equal(run_cache_attention(cache, &sequence, args, (gyre_scratch){scratch, bytes}, NULL, NULL), GYRE_OK);
    free(scratch);
}

/* The last `queries` tokens of the whole. */
static attention_setup last_queries(const whole *w, int64_t queries, token_data *out) {
    attention_setup args = shared_args(w, GYRE_ORDER_FAST);
    const int64_t first = w->info.tokens - queries;
    args.sequences = 0;
    args.q = field_cview(w->c, &w->data, F_Q);
    args.q.data = (const float *)args.q.data + first * args.q.stride[1];
    args.q.shape[1] = queries;
    args.q_pos.base = first;
    args.out = field_view(w->c, out, F_OUT);
    args.lse = field_view(w->c, out, F_LSE);
    if (w->c->gates == 0) return args;
    args.q_gate_sums =
        gyre_cdense((const double *)w->data.at[F_GATES] + first * HEADS, GYRE_DTYPE_F64, 1, queries, HEADS, 1);
    return args;
}

/* Appends all tokens. */
static void append(gyre_cache *cache, const split_case *c, const token_data *tokens, const gyre_positions *positions) {
    gyre_cache_append_args args = GYRE_INIT(gyre_cache_append_args);
    args.k = field_cview(c, tokens, F_K);
    args.v = field_cview(c, tokens, F_V);
    args.positions = positions;
    if (c->gates > 0) args.gates = field_cview(c, tokens, F_GATES);
    assert_int_equal(gyre_cache_append(cache, &args, NULL, NULL), GYRE_OK);
}

/* Decoding: each rank attends to the tokens that its cache holds, and the partial rows are merged. */
static void check_caches(const split_case *c, gyre_shard_layout layout, int64_t ranks, gyre_cache_keys keys,
                         int64_t queries) {
    static const int64_t length[] = {300};
    whole w;
    group g;
    make_whole(&w, c, GYRE_BATCH_PACKED, length, 1);
    make_group(&g, &w, layout, ranks, 0);
    token_data one = make_data(c, 1, queries), merged = make_data(c, 1, queries), parts[MOST_RANKS];
    gyre_cview states[MOST_RANKS];
    gyre_cache *all = make_cache(&w, length[0], keys, 16);
    attention_setup args = last_queries(&w, queries, &one);
    append(all, c, &w.data, &w.info.positions);
    use_sinks(&w, &args);
    attend_cache(all, &args);
    for (int64_t r = 0; r < ranks; r++) {
        gyre_cache *own = make_cache(&w, length[0], keys, 32);
        append(own, c, &g.data[r], &g.info[r].positions);
        parts[r] = make_data(c, 1, queries);
        attention_setup part = last_queries(&w, queries, &parts[r]);
        part.state = field_view(c, &parts[r], F_STATE);
        part.out = (gyre_view){0}, part.lse.data = NULL;
        attend_cache(own, &part);
        states[r] = gyre_const(part.state);
        gyre_cache_free(own);
    }
    gyre_attention_merge_args merge = GYRE_INIT(gyre_attention_merge_args);
    merge.states = states, merge.parts = ranks;
    merge.sink_logits = args.sink_logits;
    merge.out = field_view(c, &merged, F_OUT), merge.lse = field_view(c, &merged, F_LSE);
    assert_int_equal(gyre_attention_merge(&merge, NULL, NULL), GYRE_OK);
    for (size_t i = 0; i < field_size(c, &one, F_OUT); i++)
        test_close((long double)((float *)merged.at[F_OUT])[i], (long double)((float *)one.at[F_OUT])[i], 3e-6L, c->name);
    for (size_t i = 0; i < field_size(c, &one, F_LSE); i++)
        test_close((long double)((double *)merged.at[F_LSE])[i], (long double)((double *)one.at[F_LSE])[i], 3e-6L, c->name);
    for (int64_t r = 0; r < ranks; r++)
        free_data(&parts[r]);
    free_data(&one);
    free_data(&merged);
    gyre_cache_free(all);
    free_group(&g);
    free_whole(&w);
}

static void caches_may_be_dealt_out(void **state) {
    (void)state;
    for (int c = 0; c < CASES; c++) {
        const split_case *of = &cases[c];
        if (of->dropout > 0 || of->images || of->dtype != GYRE_DTYPE_F32 || of->causal) continue;
        for (int l = 0; l < 3; l++)
            for (int64_t queries = 1; queries <= 20; queries += 19)
                check_caches(of, layouts[l], 1 + (c + l) % 4, GYRE_CACHE_KEYS_RAW, queries);
        if (strcmp(of->name, "rope") == 0) check_caches(of, GYRE_SHARD_STRIPED, 4, GYRE_CACHE_KEYS_ROTATED, 1);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_split_is_the_whole), cmocka_unit_test(bits_repeat),
                                       cmocka_unit_test(caches_may_be_dealt_out),
                                       cmocka_unit_test(fixed_order_has_the_bits_of_one_call)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
