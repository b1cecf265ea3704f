/* test_gguf_layers.c: which layers of a GGUF file rotate, their windows, their axes, and the positions of the others. */
#include "make_gguf_models.h"

/* -- layers that differ -- */
static void check_layers(const gyre_layer_reading *group, int64_t count, int64_t first, int64_t second) {
    assert_int_equal(group->layers_count, count);
    assert_true(group->layers[0] == first && group->layers[1] == second);
}

static void reads_gemma3_with_two_bases(void **state) {
    (void)state;
    made_gguf *made = model("gemma3", 256, 131072, 34);
    real_of(made, "gemma3", "rope.freq_base", 1e6f);
    word_of(made, "gemma3", "rope.scaling.type", "linear");
    real_of(made, "gemma3", "rope.scaling.factor", 8);
    size_of(made, "gemma3", "attention.sliding_window", 1024);
    gyre_reading *reading = read_made(made);
    const gyre_layer_reading *full = group_of(reading, "full_attention"), *near = group_of(reading, "sliding_attention");
    assert_ptr_equal(near, reading->groups[0]); /* most layers */
    check_layers(full, 5, 5, 11);
    check_layers(near, 29, 0, 1);
    check_ggml(full, &(ggml){.base = 1e6L, .s = 8, .dim = 256}, NULL);
    check_ggml(near, &(ggml){.base = 10000, .s = 1, .dim = 256}, NULL);
    assert_true(full->window == 0 && near->window == 1024);
    check_field(near, "window", "1024", GYRE_ORIGIN_FILE);
    check_field(near, "base", "10000", GYRE_ORIGIN_FAMILY);
    check_field(near, "factor", "1", GYRE_ORIGIN_FAMILY);
    check_field(full, "factor", "8", GYRE_ORIGIN_FILE);
    gyre_reading_free(reading);
}

static void scales_gemma_27b_by_model_dim(void **state) {
    (void)state;
    made_gguf *made = model("gemma2", 128, 8192, 46);
    size_of(made, "gemma2", "attention.key_length", 64);
    real_of(made, "gemma2", "attn_logit_softcapping", 50);
    gyre_reading *reading = read_made(made);
    const gyre_layer_reading *near = group_of(reading, "sliding_attention");
    check_layers(near, 23, 0, 2);
    check_field(near, "window", "4096", GYRE_ORIGIN_FAMILY);
    check_field(near, "attention_softcap", "50", GYRE_ORIGIN_FILE);
    test_close(near->scale, 1 / sqrt(128), 1e-15, "scale");
    gyre_reading_free(reading);
}

static void reads_sizes_and_patterns_of_sliding_layers(void **state) {
    (void)state;
    static const uint8_t pattern[6] = {1, 0, 1, 1, 1, 0};
    made_gguf *made = model("gemma4", 512, 131072, 6);
    size_of(made, "gemma4", "attention.sliding_window", 512);
    size_of(made, "gemma4", "attention.key_length", 512);
    size_of(made, "gemma4", "attention.key_length_swa", 256);
    size_of(made, "gemma4", "rope.dimension_count", 512);
    size_of(made, "gemma4", "rope.dimension_count_swa", 256);
    real_of(made, "gemma4", "rope.freq_base", 1e6f);
    real_of(made, "gemma4", "rope.freq_base_swa", 20000);
    made_array(made, "gemma4.attention.sliding_window_pattern", MADE_BOOL, 6);
    for (int i = 0; i < 6; i++)
        made_number(made->kvs, &made->kvs_bytes, pattern[i], 1);
    float divisors[256]; /* a quarter of the pairs rotates */
    for (int i = 0; i < 256; i++)
        divisors[i] = i < 64 ? 1 : 1e30f;
    made_tensor(made, "rope_freqs.weight", divisors, 256);
    gyre_reading *reading = read_made(made);
    const gyre_layer_reading *full = group_of(reading, "full_attention"), *near = group_of(reading, "sliding_attention");
    check_layers(full, 2, 1, 5);
    check_layers(near, 4, 0, 2);
    check_ggml(full, &(ggml){.base = 1e6L, .s = 1, .dim = 512}, divisors);
    check_ggml(near, &(ggml){.base = 20000, .s = 1, .dim = 256}, NULL);
    assert_true(full->scale == 1 && near->scale == 1 && near->config.head_dim == 256);
    gyre_reading_free(reading);
}

/* With a period of 0 every layer has the window. With a period above the number of layers too, whether that number is given
 * or not. */
static void slides_everywhere(void **state) {
    (void)state;
    static const uint32_t periods[] = {0, 65536};
    for (int i = 0; i < 2; i++) {
        made_gguf *made = model("gemma3", 128, 4096, 4);
        size_of(made, "gemma3", "attention.sliding_window", 512);
        real_of(made, "gemma3", "rope.freq_base", 1e6f);
        size_of(made, "gemma3", "attention.sliding_window_pattern", periods[i]);
        gyre_reading *reading = read_made(made);
        assert_int_equal(reading->groups_count, 1);
        assert_int_equal(reading->groups[0]->window, 512);
        check_ggml(reading->groups[0], &(ggml){.base = 10000, .s = 1, .dim = 128}, NULL);
        gyre_reading_free(reading);
    }
    made_gguf *made = made_begin(3); /* no block_count */
    made_string(made, "general.architecture", "gemma3");
    size_of(made, "gemma3", "context_length", 4096);
    size_of(made, "gemma3", "attention.key_length", 128);
    size_of(made, "gemma3", "attention.sliding_window", 512);
    size_of(made, "gemma3", "attention.sliding_window_pattern", 65536);
    gyre_reading *reading = read_made(made);
    assert_int_equal(reading->groups_count, 2);
    gyre_reading_free(reading);
    made = made_begin(3);
    made_string(made, "general.architecture", "qwen3next");
    size_of(made, "qwen3next", "context_length", 4096);
    size_of(made, "qwen3next", "attention.key_length", 128);
    size_of(made, "qwen3next", "full_attention_interval", 100);
    reading = read_made(made);
    assert_true(reading->groups[0]->config.kind == GYRE_KIND_ROPE);
    gyre_reading_free(reading);
}

static void olmo3_sliding_layers_are_unscaled(void **state) {
    (void)state;
    made_gguf *made = yarn("olmo2", 128, 500000, 8, 8192);
    real_of(made, "olmo2", "rope.scaling.attn_factor", 0.5f);
    size_of(made, "olmo2", "attention.sliding_window", 4096);
    gyre_reading *reading = read_made(made);
    double out[MOST_PAIRS];
    const gyre_layer_reading *near = group_of(reading, "sliding_attention"), *full = group_of(reading, "full_attention");
    check_ggml(near, &(ggml){.base = 500000, .s = 1, .dim = 128}, NULL);
    check_ggml(full, &(ggml){500000, 8, 1, 32, 1, 8192, 128}, NULL);
    test_close(frequencies(near, 0, out), 1, 0, "sliding");
    test_close(frequencies(full, 0, out), 1.2079441542 / 2, 1e-10, "full");
    gyre_reading_free(reading);
}

static void reads_layers_without_rotation(void **state) {
    (void)state;
    made_gguf *made = model("cohere2", 128, 8192, 8);
    size_of(made, "cohere2", "attention.sliding_window", 4096);
    gyre_reading *reading = read_made(made);
    check_layers(group_of(reading, "full_attention"), 2, 3, 7);
    assert_true(group_of(reading, "full_attention")->config.kind == GYRE_KIND_NOPE);
    assert_true(group_of(reading, "sliding_attention")->config.kind == GYRE_KIND_ROPE);
    gyre_reading_free(reading);

    reading = read_made(model("smollm3", 128, 65536, 36));
    check_layers(group_of(reading, "nope"), 9, 3, 7);
    check_layers(group_of(reading, "rope"), 27, 0, 1);
    assert_true(group_of(reading, "nope")->config.kind == GYRE_KIND_NOPE);
    gyre_reading_free(reading);

    reading = read_made(model("llama4", 128, 1 << 20, 48));
    const gyre_layer_reading *full = group_of(reading, "full_attention"), *chunked = group_of(reading, "chunked_attention");
    assert_true(full->config.kind == GYRE_KIND_NOPE && full->config.query.temperature == GYRE_TEMPERATURE_LLAMA4);
    assert_true(full->config.query.reference_length == 8192 && full->config.query.slope == 0.1);
    assert_true(chunked->window == 8192 && chunked->config.query.temperature == GYRE_TEMPERATURE_NONE);
    check_layers(chunked, 36, 0, 1);
    gyre_reading_free(reading);
}

/* Qwen3-Next has attention in every fourth layer. Other models have a key head count of 0 in layers without. */
static void lists_no_recurrent_layers(void **state) {
    (void)state;
    gyre_reading *reading = read_made(model("qwen3next", 256, 262144, 48));
    assert_int_equal(reading->groups_count, 1);
    check_layers(reading->groups[0], 12, 3, 7);
    gyre_reading_free(reading);
    made_gguf *made = model("qwen3next", 256, 262144, 48);
    size_of(made, "qwen3next", "full_attention_interval", 6);
    reading = read_made(made);
    check_layers(reading->groups[0], 8, 5, 11);
    gyre_reading_free(reading);
    made = model("lfm2", 64, 128000, 5);
    made_i32s(made, "lfm2.attention.head_count_kv", (const int32_t[]){0, 0, 8, 0, 8}, 5);
    reading = read_made(made);
    check_layers(reading->groups[0], 2, 2, 4);
    gyre_reading_free(reading);
    made = model("lfm2", 64, 128000, 2); /* attends nowhere */
    made_i32s(made, "lfm2.attention.head_count_kv", (const int32_t[]){0, 0}, 2);
    reading = read_made(made);
    assert_true(reading->groups[0]->config.kind == GYRE_KIND_NOPE);
    gyre_reading_free(reading);
}

static void reads_temperature_of_ministral3(void **state) {
    (void)state;
    made_gguf *made = yarn("mistral3", 128, 1e6f, 16, 16384);
    real_of(made, "mistral3", "attention.temperature_scale", 0.1f);
    gyre_reading *reading = read_made(made);
    const gyre_layer_reading *all = reading->groups[0];
    assert_true(all->config.query.temperature == GYRE_TEMPERATURE_MINISTRAL && all->config.query.reference_length == 16384);
    check_field(all, "temperature_slope", "0.1", GYRE_ORIGIN_FILE);
    gyre_reading_free(reading);
    made = yarn("llama", 128, 1e6f, 16, 16384);
    real_of(made, "llama", "attention.temperature_scale", 0.1f);
    reading = read_made(made);
    assert_true(reading->groups[0]->config.query.temperature == GYRE_TEMPERATURE_NONE);
    assert_non_null(find_warning(reading, "attention.temperature_scale: 0.1 is not read"));
    gyre_reading_free(reading);
}

static void ignores_windows_that_llama_cpp_ignores(void **state) {
    (void)state;
    for (int meant = 0; meant <= 1; meant++) {
        made_gguf *made = model("phi3", 96, 4096, 4);
        size_of(made, "phi3", "attention.sliding_window", 2047);
        gyre_reading *reading = meant ? read_meant(made) : read_made(made);
        assert_int_equal(reading->groups_count, 1);
        assert_string_equal(reading->groups[0]->name, "all");
        assert_int_equal(reading->groups[0]->window, meant ? 2047 : 0);
        assert_true((find_warning(reading, "2047 is not read") != NULL) == !meant);
        gyre_reading_free(reading);
    }
}

/* -- several axes -- */

static void reads_axis_sections(void **state) {
    (void)state;
    gyre_reading *reading = read_made(several("qwen2vl", (const int32_t[]){16, 24, 24, 0}, 4));
    const struct gyre_rope_config *rope = &reading->groups[0]->config.rope;
    assert_true(rope->axes == 3 && rope->axes_layout == GYRE_AXES_CHUNKED && rope->layout == GYRE_LAYOUT_HALF);
    assert_true(rope->axis_pairs[0] == 16 && rope->axis_pairs[1] == 24 && rope->axis_pairs[2] == 24);
    check_field(reading->groups[0], "axes", "chunked", GYRE_ORIGIN_FAMILY);
    check_field(reading->groups[0], "sections", "16, 24, 24", GYRE_ORIGIN_FILE);
    gyre_reading_free(reading);
    reading = read_made(several("glm4", (const int32_t[]){16, 24, 24, 0}, 4));
    assert_true(reading->groups[0]->config.rope.layout == GYRE_LAYOUT_HALF && reading->groups[0]->config.rope.axes == 3);
    gyre_reading_free(reading);
    reading = read_made(model("glm4", 128, 32768, 2));
    assert_true(reading->groups[0]->config.rope.layout == GYRE_LAYOUT_INTERLEAVED &&
                reading->groups[0]->config.rope.axes == 0);
    gyre_reading_free(reading);
}

/* Qwen3-VL: 24, 20, 20 of 64 pairs, interleaved; 61 and 62 are beyond the ends of their axes. */
static void pairs_beyond_short_axes_do_not_rotate(void **state) {
    (void)state;
    static const int32_t section[4] = {24, 20, 20, 0};
    double got[MOST_PAIRS], meant[MOST_PAIRS];
    gyre_reading *reading = read_made(several("qwen3vl", section, 4)),
                 *reference = read_meant(several("qwen3vl", section, 4));
    (void)frequencies(reading->groups[0], 0, got);
    (void)frequencies(reference->groups[0], 0, meant);
    for (int i = 0; i < 64; i++) {
        const long double want = powl(1e6L, -2.0L * i / 128);
        test_close(got[i], i == 61 || i == 62 ? 0 : want, 1e-14L * want, "llama.cpp's");
        test_close(meant[i], want, 1e-14L * want, "as trained");
    }
    assert_non_null(find_warning(reading, "2 of 64 pairs do not rotate:"));
    assert_null(find_warning(reference, "do not rotate"));
    assert_true(reading->groups[0]->config.rope.axes_layout == GYRE_AXES_INTERLEAVED);
    gyre_reading_free(reading);
    gyre_reading_free(reference);
}

/* -- what does not turn -- */
static void reads_tables(void **state) {
    (void)state;
    made_gguf *made = model("gpt2", 64, 1024, 12);
    gyre_reading *reading = read_made(made);
    assert_true(reading->groups[0]->config.kind == GYRE_KIND_LEARNED && reading->groups[0]->config.input.positions == 1024);
    assert_true(reading->groups[0]->config.input.dim == 2048);
    gyre_reading_free(reading);
    made = model("bert", 1, 512, 2);
    made_info(made, "position_embd.weight", 2, (const uint64_t[]){32, 500}, 0, 0);
    made->data_bytes = 32 * 500 * 4;
    reading = read_made(made);
    assert_true(reading->groups[0]->config.input.positions == 500);
    check_field(reading->groups[0], "positions", "500", GYRE_ORIGIN_FILE);
    gyre_reading_free(reading);
}

static void reads_slopes(void **state) {
    (void)state;
    double slopes[32];
    gyre_reading *reading = read_made(model("bloom", 64, 2048, 2));
    gyre_encoding *encoding = test_encoding(&reading->groups[0]->config);
    assert_ok(gyre_encoding_slopes(encoding, 0, slopes));
    for (int h = 0; h < 32; h++)
        test_close(slopes[h], powl(2, -8.0L * (h + 1) / 32), 1e-15, "slope");
    gyre_encoding_free(encoding);
    gyre_reading_free(reading);
    made_gguf *made = model("mpt", 64, 2048, 2);
    real_of(made, "mpt", "attention.max_alibi_bias", 16);
    reading = read_made(made);
    assert_true(reading->groups[0]->config.kind == GYRE_KIND_ALIBI && reading->groups[0]->config.score.max_bias == 16);
    gyre_reading_free(reading);
    reading = read_made(model("mpt", 64, 2048, 2));
    assert_true(reading->groups[0]->config.kind == GYRE_KIND_LEARNED);
    gyre_reading_free(reading);
    reading = read_made(model("baichuan", 128, 4096, 40));
    assert_true(reading->groups[0]->config.kind == GYRE_KIND_ALIBI);
    gyre_reading_free(reading);
    reading = read_made(model("baichuan", 128, 4096, 32));
    assert_true(reading->groups[0]->config.kind == GYRE_KIND_ROPE);
    gyre_reading_free(reading);
}

static void reads_buckets_and_nothing(void **state) {
    (void)state;
    made_gguf *made = model("t5", 64, 512, 6);
    size_of(made, "t5", "attention.relative_buckets_count", 32);
    size_of(made, "t5", "decoder_block_count", 8);
    gyre_reading *reading = read_made(made);
    const gyre_layer_reading *encoder = group_of(reading, "encoder"), *decoder = group_of(reading, "decoder");
    assert_true(encoder->config.kind == GYRE_KIND_T5 && encoder->config.score.bidirectional == 1 &&
                encoder->layers_count == 6);
    assert_true(decoder->config.score.buckets == 32 && decoder->config.score.bidirectional == 0 &&
                decoder->layers_count == 8);
    assert_true(encoder->scale == 1);
    gyre_reading_free(reading);
    reading = read_made(model("mamba", 64, 2048, 2));
    assert_true(reading->groups[0]->config.kind == GYRE_KIND_NOPE);
    gyre_reading_free(reading);
    made = model("granitehybrid", 64, 2048, 2);
    made_bool(made, "granitehybrid.rope.scaling.finetuned", 0);
    reading = read_made(made);
    assert_true(reading->groups[0]->config.kind == GYRE_KIND_NOPE);
    gyre_reading_free(reading);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_gemma3_with_two_bases),
        cmocka_unit_test(scales_gemma_27b_by_model_dim),
        cmocka_unit_test(reads_sizes_and_patterns_of_sliding_layers),
        cmocka_unit_test(slides_everywhere),
        cmocka_unit_test(olmo3_sliding_layers_are_unscaled),
        cmocka_unit_test(reads_layers_without_rotation),
        cmocka_unit_test(lists_no_recurrent_layers),
        cmocka_unit_test(reads_temperature_of_ministral3),
        cmocka_unit_test(ignores_windows_that_llama_cpp_ignores),
        cmocka_unit_test(reads_axis_sections),
        cmocka_unit_test(pairs_beyond_short_axes_do_not_rotate),
        cmocka_unit_test(reads_tables),
        cmocka_unit_test(reads_slopes),
        cmocka_unit_test(reads_buckets_and_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
