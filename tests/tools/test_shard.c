/* test_shard.c: gyre shard: its pairs are those of gyre_shards, and its times those that papers and programs report. */
#include "gyre/gyre_positions.h"
#include "run_command.h"
#include "tools/shard/shard.h"
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

/* -- published numbers -- */
/* Llama 3 405B, which Meta read 1 M tokens with (arXiv 2411.01783). */
static const char llama_405b[] = "{\"model_type\": \"llama\", \"hidden_size\": 16384, \"num_hidden_layers\": 126, "
                                 "\"num_attention_heads\": 128, \"num_key_value_heads\": 8, \"intermediate_size\": 53248, "
                                 "\"vocab_size\": 128256}";
/* One layer of attention alone, as zhuzilin/ring-flash-attention times it: 5 heads of 128 channels. */
static const char attention[] = "{\"model_type\": \"llama\", \"hidden_size\": 640, \"num_hidden_layers\": 1, "
                                "\"num_attention_heads\": 5, \"intermediate_size\": 1, \"vocab_size\": 1}";

static double number_of(const json_t *root, const char *object, const char *key) {
    const json_t *of = object ? json_object_get(root, object) : root, *value = json_object_get(of, key);
    if (!json_is_number(value)) fail_msg("no number %s", key);
    return json_number_value(value);
}

/* 16 nodes of 8 H100, 400 Gbit/s each, at 502 TFLOP/s a device: 77 seconds, 93 % of 16 times one node. */
static void a_million_tokens_take_the_seconds_that_meta_reports(void **state) {
    (void)state;
    write_file("405b.json", llama_405b, strlen(llama_405b));
    json_t *plan =
        run_json("shard @405b.json --context 1000000 --ranks 16 --tensor 8 --bandwidth 400Gbit --flops 502T --json");
    test_close(number_of(plan, "model", "weights"), 405e9, 0.005 * 405e9, "weights");
    test_close(number_of(plan, "seconds", "hidden"), 77, 1.5, "seconds");
    /* A plan leaves out what programs lose besides: it is above the 93 %, and tells that messages are not what is lost. */
    const double least = number_of(plan, NULL, "efficiency_not_hidden"), most = number_of(plan, NULL, "efficiency_hidden");
    assert_true(least > 0.93 && most <= 1 + 1e-9 && most - least < 0.05);
    json_decref(plan);
}

/* 8 H800 of 200 GB/s each way, 8192 tokens each: ring 52 % of the speed of one, zigzag 85 %, forward. */
static void layouts_reach_what_ring_flash_attention_reports(void **state) {
    (void)state;
    write_file("attention.json", attention, strlen(attention));
#define EIGHT "shard @attention.json --context 64k --ranks 8 --bandwidth 200GB --flops 400T --json --layout "
    json_t *ring = run_json(EIGHT "contiguous"), *zigzag = run_json(EIGHT "zigzag"), *striped = run_json(EIGHT "striped");
    test_close(number_of(ring, NULL, "efficiency_hidden"), 0.53, 0.02, "ring");
    assert_true(number_of(zigzag, NULL, "efficiency_not_hidden") < 0.85 &&
                number_of(zigzag, NULL, "efficiency_hidden") > 0.9);
    assert_true(number_of(striped, NULL, "efficiency_not_hidden") < 0.74 &&
                number_of(striped, NULL, "efficiency_hidden") > 0.83);
    json_decref(ring);
    json_decref(zigzag);
    json_decref(striped);
}

/* Table 2 of the paper on ring attention: blocks that hide their messages, on A100 with NVLink and with InfiniBand, and on
 * TPUs, in units of 1024 tokens. */
static void blocks_hide_messages_from_the_size_that_the_paper_tells(void **state) {
    (void)state;
    static const struct {
        double flops, bandwidth, block;
    } machines[] = {
        {312e12, 300e9, 1.0}, {312e12, 12.5e9, 24.5}, {123e12, 112e9, 1.1}, {275e12, 268e9, 1.0}, {196e12, 186e9, 1.1}};
    const shard_model model = {.layers = 32,
                               .heads = 32,
                               .kv_heads = 32,
                               .head_dim = 128,
                               .value_dim = 128,
                               .active_weights = 7e9,
                               .weights = 7e9,
                               .kinds = {{.layers = 32}},
                               .kinds_count = 1};
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
        const shard_options o = {.context = 1 << 20,
                                 .ranks = 8,
                                 .tensor = 1,
                                 .layout = GYRE_SHARD_ZIGZAG,
                                 .dtype = GYRE_DTYPE_BF16,
                                 .bandwidth = machines[i].bandwidth,
                                 .flops = machines[i].flops};
        shard_plan plan;
        shard_plan_make(&model, &o, &plan);
        test_close(plan.hiding_block / 1000, machines[i].block, 0.05 + 0.02 * machines[i].block, "block");
    }
}

/* DeepSeek-V3: 671e9 weights, 37e9 of them for a token (arXiv 2412.19437); bytes of keys and values a token, all layers, in
 * bf16: 70272, where Qwen2.5 72B has 327680 and Llama 3.1 405B 516096 (arXiv 2505.09343, table 1). */
static void a_latent_takes_the_bytes_that_deepseek_reports(void **state) {
    static const char v3[] =
        "{\"model_type\": \"deepseek_v3\", \"hidden_size\": 7168, \"num_hidden_layers\": 61, \"num_attention_heads\": 128, "
        "\"num_key_value_heads\": 128, \"q_lora_rank\": 1536, \"kv_lora_rank\": 512, \"qk_nope_head_dim\": 128, "
        "\"qk_rope_head_dim\": 64, \"v_head_dim\": 128, \"intermediate_size\": 18432, \"moe_intermediate_size\": 2048, "
        "\"n_routed_experts\": 256, \"n_shared_experts\": 1, \"num_experts_per_tok\": 8, \"first_k_dense_replace\": 3, "
        "\"moe_layer_freq\": 1, \"vocab_size\": 129280}";
    static const char qwen[] =
        "{\"model_type\": \"qwen2\", \"hidden_size\": 8192, \"num_hidden_layers\": 80, \"num_attention_heads\": 64, "
        "\"num_key_value_heads\": 8, \"intermediate_size\": 29568, \"vocab_size\": 152064}";
    (void)state;
    write_file("v3.json", v3, strlen(v3));
    write_file("qwen.json", qwen, strlen(qwen));
    write_file("405b.json", llama_405b, strlen(llama_405b));
    json_t *plan = run_json("shard @v3.json --context 1M --ranks 64 --tensor 8 --json");
    test_close(number_of(plan, "model", "weights"), 671e9, 1e9, "weights");
    test_close(number_of(plan, "model", "active_weights"), 37e9, 0.6e9, "active weights");
    const double tokens = number_of(plan, NULL, "tokens");
    assert_true(number_of(plan, "bytes", "keys_and_values") == tokens * 70272); /* on every device: heads share a latent */
    assert_true(number_of(plan, "bytes", "sent") == 63 * tokens * 70272);
    json_decref(plan);
    plan = run_json("shard @qwen.json --context 1M --ranks 64 --json");
    assert_true(number_of(plan, "bytes", "keys_and_values") == number_of(plan, NULL, "tokens") * 327680);
    json_decref(plan);
    plan = run_json("shard @405b.json --context 1M --ranks 64 --json");
    assert_true(number_of(plan, "bytes", "keys_and_values") == number_of(plan, NULL, "tokens") * 516096);
    json_decref(plan);
}

/* -- the library's own count -- */

typedef struct dealt {
    gyre_batch *batch;
    gyre_shards *shards;
    int64_t tokens;
} dealt;

static dealt deal(const shard_options *o, int64_t window) {
    gyre_batch_config batch_config = GYRE_INIT(gyre_batch_config);
    gyre_shard_config config = GYRE_INIT(gyre_shard_config);
    dealt d = {NULL, NULL, o->context};
    gyre_error err = {0};
    batch_config.documents = 1;
    batch_config.lengths = &d.tokens;
    config.layout = o->layout;
    config.ranks = o->ranks;
    config.window = window;
    config.causal = GYRE_CAUSAL_BY_POSITION;
    if (gyre_batch_create(&d.batch, &batch_config, NULL, &err) ||
        gyre_shards_create(&d.shards, d.batch, &config, NULL, &err))
        fail_msg("%s", err.text);
    return d;
}

/* out = tokens that a rank does not have and one of its queries sees. */
static int64_t reached(const gyre_shard_info *info, int64_t window) {
    enum { MOST = 2048 };
    char own[MOST] = {0}, seen[MOST] = {0};
    int64_t out = 0;
    for (int64_t i = 0; i < info->tokens; i++) {
        own[info->index[i]] = 1;
        for (int64_t k = info->index[i]; k >= 0 && (window == 0 || k > info->index[i] - window); k--)
            seen[k] = 1;
    }
    for (int t = 0; t < MOST; t++)
        out += seen[t] && !own[t];
    return out;
}

static void pairs_and_keys_are_those_of_the_shards(void **state) {
    (void)state;
    static const gyre_shard_layout layouts[] = {GYRE_SHARD_CONTIGUOUS, GYRE_SHARD_ZIGZAG, GYRE_SHARD_STRIPED};
    static const int64_t ranks[] = {1, 2, 3, 7, 16}, windows[] = {0, 1, 3, 17, 100, 450, 1001, 5000};
    for (int i = 0; i < 15 * 8; i++) {
        const int64_t window = windows[i / 15];
        const shard_model model = {.layers = 1,
                                   .heads = 1,
                                   .kv_heads = 1,
                                   .head_dim = 1,
                                   .value_dim = 1,
                                   .kinds = {{1, window, 0}},
                                   .kinds_count = 1};
        const shard_options o = {
            .context = 1001, .ranks = ranks[i % 5], .tensor = 1, .layout = layouts[i / 5 % 3], .bandwidth = 1, .flops = 1};
        dealt d = deal(&o, window);
        shard_plan plan;
        int64_t most = 0, fetched = 0;
        for (int64_t r = 0; r < o.ranks; r++) {
            gyre_shard_info info = GYRE_INIT(gyre_shard_info);
            assert_int_equal(gyre_shards_get(d.shards, r, &info), GYRE_OK);
            if (info.pairs > most) most = info.pairs;
            if (reached(&info, window) > fetched) fetched = reached(&info, window);
        }
        shard_plan_make(&model, &o, &plan);
        if (plan.kinds[0].pairs != (double)most)
            fail_msg("layout %d, %d ranks, window %d: %g pairs, not %lld", (int)o.layout, (int)o.ranks, (int)window,
                     plan.kinds[0].pairs, (long long)most);
        if (window > 0 && plan.kinds[0].fetched != (double)fetched)
            fail_msg("layout %d, %d ranks, window %d: %g keys, not %lld", (int)o.layout, (int)o.ranks, (int)window,
                     plan.kinds[0].fetched, (long long)fetched);
        assert_true(fabs(shard_imbalance(&o, &plan.kinds[0]) - gyre_shards_imbalance(d.shards)) < 1e-12);
        gyre_shards_free(d.shards);
        gyre_batch_free(d.batch);
    }
}

/* The same of chunks, which shards do not count: by the definition. */
static void chunks_are_counted_by_hand(void **state) {
    enum { TOKENS = 1001 };
    static const gyre_shard_layout layouts[] = {GYRE_SHARD_CONTIGUOUS, GYRE_SHARD_ZIGZAG, GYRE_SHARD_STRIPED};
    static const int64_t ranks[] = {1, 2, 3, 7, 12, 16}, chunks[] = {1, 3, 4, 17, 100, 450, 1001, 5000};
    (void)state;
    for (int i = 0; i < 18 * 8; i++) {
        const int64_t chunk = chunks[i / 18];
        const shard_model model = {.layers = 1,
                                   .heads = 1,
                                   .kv_heads = 1,
                                   .head_dim = 1,
                                   .value_dim = 1,
                                   .kinds = {{1, chunk, 1}},
                                   .kinds_count = 1};
        const shard_options o = {
            .context = TOKENS, .ranks = ranks[i % 6], .tensor = 1, .layout = layouts[i / 6 % 3], .bandwidth = 1, .flops = 1};
        dealt d = deal(&o, 0);
        shard_plan plan;
        int64_t most = 0, fetched = 0;
        for (int64_t r = 0; r < o.ranks; r++) {
            gyre_shard_info info = GYRE_INIT(gyre_shard_info);
            char own[TOKENS] = {0}, seen[TOKENS] = {0};
            int64_t pairs = 0, others = 0;
            assert_int_equal(gyre_shards_get(d.shards, r, &info), GYRE_OK);
            for (int64_t t = 0; t < info.tokens; t++) {
                own[info.index[t]] = 1;
                for (int64_t k = info.index[t] / chunk * chunk; k <= info.index[t]; k++)
                    pairs++, seen[k] = 1;
            }
            for (int t = 0; t < TOKENS; t++)
                others += seen[t] && !own[t];
            if (pairs > most) most = pairs;
            if (others > fetched) fetched = others;
        }
        shard_plan_make(&model, &o, &plan);
        if (plan.kinds[0].pairs != (double)most || plan.kinds[0].fetched != (double)fetched)
            fail_msg("layout %d, %d ranks, chunks of %d: %g pairs and %g keys, not %lld and %lld", (int)o.layout,
                     (int)o.ranks, (int)chunk, plan.kinds[0].pairs, plan.kinds[0].fetched, (long long)most,
                     (long long)fetched);
        gyre_shards_free(d.shards);
        gyre_batch_free(d.batch);
    }
}

/* 2^31 tokens among 65536 ranks.  A walk of the chunks for each rank would go on past the time that a test has. */
static void chunks_without_end(void **state) {
    (void)state;
    /* Chunks of 3: a rank has each place in a chunk in turn, 10922 times, and the last two of them once more. */
    static const struct {
        int64_t chunk;
        double pairs, fetched;
    } rows[] = {{1, 32768, 0}, {3, 10922 * 6 + 5, 10922 * 3 + 3}, {65536, 32768.0 * 65536, 32768.0 * 65535}};
    const shard_options o = {
        .context = (int64_t)1 << 31, .ranks = 65536, .tensor = 1, .layout = GYRE_SHARD_STRIPED, .bandwidth = 1, .flops = 1};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const shard_model model = {.layers = 1,
                                   .heads = 1,
                                   .kv_heads = 1,
                                   .head_dim = 1,
                                   .value_dim = 1,
                                   .kinds = {{1, rows[i].chunk, 1}},
                                   .kinds_count = 1};
        shard_plan plan;
        shard_plan_make(&model, &o, &plan);
        if (plan.kinds[0].pairs != rows[i].pairs || plan.kinds[0].fetched != rows[i].fetched)
            fail_msg("chunks of %d: %.17g pairs and %.17g keys", (int)rows[i].chunk, plan.kinds[0].pairs,
                     plan.kinds[0].fetched);
    }
}

/* Llama 4 Scout: 36 layers of chunks of 8192 and 12 that see all keys; 109e9 weights with its image encoder, 17e9 of them
 * for a token, as Meta says.  Gemma 3 27B: 52 of 62 layers with a window of 1024; sizes that its config leaves out. */
static void published_configs_have_kinds_of_layers(void **state) {
    const double of_token = 2 * 8 * 128 * 2;
    (void)state;
    json_t *plan = run_json("shard " GYRE_TEST_DATA "/configs/llama-4-scout.json --context 10M --ranks 64 --json");
    const json_t *kinds = json_object_get(plan, "layers"), *full = json_array_get(kinds, 0),
                 *chunks = json_array_get(kinds, 1);
    test_close(number_of(plan, "model", "weights"), 107.8e9, 0.3e9, "weights of Llama 4 Scout");
    test_close(number_of(plan, "model", "active_weights"), 16.5e9, 0.7e9, "weights of a token");
    assert_int_equal(json_array_size(kinds), 2);
    assert_true(json_is_false(json_object_get(full, "chunked")) && number_of(full, NULL, "layers") == 12);
    assert_true(json_is_true(json_object_get(chunks, "chunked")) && number_of(chunks, NULL, "layers") == 36);
    assert_true(number_of(chunks, NULL, "window") == 8192);
    assert_true(number_of(chunks, NULL, "keys_and_values") == 36 * 8192 * of_token);
    json_decref(plan);
    plan = run_json("shard " GYRE_TEST_DATA "/configs/gemma-3-27b.json --context 128k --ranks 8 --json");
    kinds = json_object_get(plan, "layers");
    test_close(number_of(plan, "model", "weights"), 27e9, 0.5e9, "weights of Gemma 3 27B");
    assert_true(number_of(json_array_get(kinds, 0), NULL, "layers") == 10);
    assert_true(number_of(json_array_get(kinds, 1), NULL, "layers") == 52);
    assert_true(number_of(json_array_get(kinds, 1), NULL, "keys_and_values") == 52.0 * 1024 * 2 * 16 * 128 * 2);
    json_decref(plan);
}

/* gpt-oss 20B: 24 layers of 8 heads of 64 channels, every other one with a window of 128 keys. */
static void windows_hold_and_fetch_what_they_reach(void **state) {
    json_t *config = json_load_file(GYRE_TEST_DATA "/configs/gpt-oss-20b.json", 0, NULL);
    (void)state;
    assert_non_null(config);
    json_object_set_new(config, "intermediate_size", json_integer(2880)); /* which positions do not need */
    char *text = json_dumps(config, 0);
    write_file("oss.json", text, strlen(text));
    free(text);
    json_decref(config);
    json_t *plan = run_json("shard @oss.json --context 10M --ranks 1024 --json");
    const json_t *kinds = json_object_get(plan, "layers"), *full = json_array_get(kinds, 0),
                 *slides = json_array_get(kinds, 1);
    const double tokens = number_of(plan, NULL, "tokens"), of_token = 2 * 8 * 64 * 2;
    test_close(number_of(plan, "model", "weights"), 20.9e9, 0.2e9, "weights");
    assert_int_equal(json_array_size(kinds), 2);
    assert_true(number_of(slides, NULL, "window") == 128 && number_of(slides, NULL, "layers") == 12);
    assert_true(number_of(full, NULL, "keys_and_values") == 12 * tokens * of_token);
    assert_true(number_of(slides, NULL, "keys_and_values") == 12 * 128 * of_token);
    assert_true(number_of(slides, NULL, "fetched") == 2 * 127); /* before each of two parts */
    assert_true(number_of(slides, NULL, "sent") == 12 * 2 * 127 * of_token && number_of(slides, NULL, "messages") == 24);
    assert_true(number_of(full, NULL, "sent") == 12 * 1023 * tokens * of_token);
    assert_true(number_of(plan, "bytes", "sent") == number_of(full, NULL, "sent") + number_of(slides, NULL, "sent"));
    json_decref(plan);
}

static void bytes_are_counted_by_hand(void **state) {
    (void)state;
    /* 5 layers, 4 heads of 32 channels: 2 x 128 x 2 bytes a token and layer. */
    json_t *plan = run_json("shard models/rope --context 4k --ranks 4 --json --dry-run");
    assert_true(number_of(plan, "bytes", "keys_and_values") == 5 * 512 * 1024);
    assert_true(number_of(plan, "bytes", "message") == 512 * 1024);
    assert_true(number_of(plan, NULL, "messages") == 5 * 3);
    assert_true(number_of(plan, "bytes", "sent") == 5 * 3 * 512 * 1024);
    assert_true(number_of(plan, "model", "weights") == number_of(plan, "bytes", "weights") / 2);
    json_decref(plan);
    /* The gradient sends keys and values again, and four times as many bytes of theirs in float. */
    plan = run_json("shard models/rope --context 4k --ranks 4 --gradient --json");
    assert_true(number_of(plan, "bytes", "sent") == 5 * 512 * 1024 * (2 * 3 + 2 * 4));
    json_decref(plan);
    plan = run_json("shard models/rope --context 4k --ranks 1 --json");
    assert_true(number_of(plan, "bytes", "sent") == 0 && fabs(number_of(plan, NULL, "efficiency_hidden") - 1) < 1e-12);
    json_decref(plan);
}

static void wrong_plans_are_refused(void **state) {
    (void)state;
    assert_fails("shard models/rope --ranks 4", 2, "--context: missing");
    assert_fails("shard models/rope --context 4k", 2, "--ranks: missing");
    assert_fails("shard --context 4k --ranks 4", 2, "MODEL: missing");
    assert_fails("shard models/rope --context 7 --ranks 4", 2, "fewer than the 8 parts");
    assert_fails("shard models/rope --context 4k --ranks 4 --bandwidth fast", 2, "--bandwidth: \"fast\"");
    assert_fails("shard models/rope --context 4k --ranks 4 --flops 4TB", 2, "--flops: \"4TB\"");
    assert_fails("shard models/rope --context 4k --ranks 4 --tensor 3", 1, "--tensor: 3 do not divide 4 heads");
    assert_fails("shard @nowhere --context 4k --ranks 4", 1, "not found");
    assert_fails("shard @text --context 4k --ranks 4", 1, "not JSON");
}

/* A config is a stranger's file: no number in it overflows, and no file that is none is waited for or read whole. */
static void hostile_configs_are_refused(void **state) {
    static const char vast[] =
        "{\"hidden_size\": 4611686018427387904, \"num_hidden_layers\": 1, \"num_attention_heads\": 1}";
    static const char wide[] = "{\"hidden_size\": 2147483647, \"num_hidden_layers\": 1, \"num_attention_heads\": 1}";
    (void)state;
    write_file("vast.json", vast, sizeof vast - 1);
    assert_fails("shard @vast.json --context 4k --ranks 4", 1, "hidden_size: missing, or no size");
    write_file("wide.json", wide, sizeof wide - 1);
    assert_fails("shard @wide.json --context 4k --ranks 4", 1, "intermediate_size: missing, or no size");
    static const char twice[] = "{\"hidden_size\": 64,\n \"hidden_size\": 128, \"num_hidden_layers\": 1}";
    write_file("twice.json", twice, sizeof twice - 1);
    assert_fails("shard @twice.json --context 4k --ranks 4", 1, "duplicate object key near '\"hidden_size\"'");
    assert_int_equal(mkfifo(in_folder("pipe.json"), 0666), 0);
    assert_fails("shard @pipe.json --context 4k --ranks 4", 1, "not a regular file");
    assert_int_equal(truncate(in_folder("wide.json"), (off_t)65 << 20), 0);
    assert_fails("shard @wide.json --context 4k --ranks 4", 1, "longer than 64 MiB");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_million_tokens_take_the_seconds_that_meta_reports),
        cmocka_unit_test(layouts_reach_what_ring_flash_attention_reports),
        cmocka_unit_test(blocks_hide_messages_from_the_size_that_the_paper_tells),
        cmocka_unit_test(a_latent_takes_the_bytes_that_deepseek_reports),
        cmocka_unit_test(pairs_and_keys_are_those_of_the_shards),
        cmocka_unit_test(chunks_are_counted_by_hand),
        cmocka_unit_test(chunks_without_end),
        cmocka_unit_test(published_configs_have_kinds_of_layers),
        cmocka_unit_test(windows_hold_and_fetch_what_they_reach),
        cmocka_unit_test(bytes_are_counted_by_hand),
        cmocka_unit_test(wrong_plans_are_refused),
        cmocka_unit_test(hostile_configs_are_refused),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
