/* test_read_distances.c: config.json of models with relative scores: T5, DeBERTa, NeZha, Transformer-XL, Inkling. */
#include "check_reading.h"

#include <math.h>
#include <stdio.h>

static gyre_encoding *encoding_of(const gyre_layer_reading *group) {
    return test_encoding(&group->config);
}

/* First distances of the buckets of 32 to 128, as published for transformers. */
static void check_first_distances(const gyre_layer_reading *group, const int *first, int count, int direction) {
    gyre_encoding *encoding = encoding_of(group);
    for (int b = 1; b < count; b++) {
        int64_t row = 0, before = 0;
        assert_ok(gyre_encoding_row(encoding, 1000, 1000 + direction * first[b], &row));
        assert_ok(gyre_encoding_row(encoding, 1000, 1000 + direction * (first[b] - 1), &before));
        assert_int_equal(row, b + (direction > 0 ? 16 : 0));
        if (b > 1) assert_int_equal(before, b - 1 + (direction > 0 ? 16 : 0));
    }
    gyre_encoding_free(encoding);
}

static void test_t5(void **state) {
    (void)state;
    static const int causal[] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                                 16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113};
    static const int both[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91};
    static const char *const types[] = {"t5", "mt5", "umt5", "longt5", "switch_transformers"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        char text[200];
        snprintf(text, sizeof text, "{\"model_type\": \"%s\",\n\"relative_attention_num_buckets\": 32, \"num_heads\": 12}",
                 types[i]);
        gyre_reading *reading = read_text(text);
        const gyre_layer_reading *encoder = group_of(reading, "encoder"), *decoder = group_of(reading, "decoder");
        assert_int_equal(reading->groups_count, 2);
        assert_int_equal(encoder->config.kind, GYRE_KIND_T5);
        assert_int_equal(encoder->config.score.bidirectional, 1);
        assert_int_equal(decoder->config.score.bidirectional, 0);
        assert_int_equal(decoder->config.heads, 12);
        assert_int_equal(decoder->config.head_dim, 64);
        assert_true(encoder->scale == 1.0 && decoder->scale == 1.0);
        assert_field(decoder, "buckets", "32", GYRE_ORIGIN_FILE, "relative_attention_num_buckets", 2);
        assert_field(decoder, "max_distance", "128", GYRE_ORIGIN_FAMILY, NULL, 0);
        check_first_distances(encoder, both, 16, -1);
        check_first_distances(encoder, both, 16, 1);
        check_first_distances(decoder, causal, 32, -1);
        gyre_reading_free(reading);
    }
}

static void test_t5_profiles_and_faults(void **state) {
    (void)state;
    static const char far[] = "{\"model_type\": \"t5\", \"relative_attention_max_distance\": 256}";
    gyre_reading *reading = read_as(far, GYRE_PROFILE_HF_5);
    assert_int_equal(group_of(reading, "decoder")->config.score.max_distance, 256);
    gyre_reading_free(reading);
    reading = read_as(far, GYRE_PROFILE_LLAMA_CPP);
    assert_int_equal(group_of(reading, "decoder")->config.score.max_distance, 128);
    assert_int_equal(group_of(reading, "encoder")->config.score.max_distance, 128);
    assert_warns(reading, "256 is ignored", "relative_attention_max_distance", 1);
    gyre_reading_free(reading);
    reading = read_text("{\"model_type\": \"t5\", \"is_encoder_decoder\": false}");
    assert_int_equal(reading->groups_count, 1);
    gyre_reading_free(reading);
    assert_refused(far, GYRE_PROFILE_VLLM, GYRE_EUNSUPPORTED, "vLLM has no class for t5");
    assert_refused("{\"model_type\": \"t5\",\n\n\"relative_attention_num_buckets\": 33}", GYRE_PROFILE_DEFAULT, GYRE_EFORMAT,
                   "relative_attention_num_buckets: 33 is not an even number from 4 up (config.json, line 3)");
    assert_refused("{\"model_type\": \"t5\", \"relative_attention_num_buckets\": -32}", GYRE_PROFILE_DEFAULT, GYRE_EFORMAT,
                   "relative_attention_num_buckets: not a whole number of at least 1");
    assert_refused("{\"model_type\": \"t5\",\n\"relative_attention_max_distance\": 0}", GYRE_PROFILE_DEFAULT, GYRE_EFORMAT,
                   "relative_attention_max_distance: not a whole number of at least 1 (config.json, line 2)");
    assert_refused("{\"model_type\": \"t5\", \"relative_attention_max_distance\": 8}", GYRE_PROFILE_DEFAULT, GYRE_EFORMAT,
                   "8 is not past the 8 distances");
    assert_refused("{\"model_type\": \"t5\", \"relative_attention_max_distance\": 5000000}", GYRE_PROFILE_DEFAULT,
                   GYRE_EFORMAT, "distances to 5000000 are past");
}

static void test_two_places(void **state) {
    (void)state;
    gyre_reading *reading = read_text("{\"model_type\": \"mpnet\", \"max_position_embeddings\": 514}");
    const gyre_layer_reading *all = group_of(reading, "all");
    assert_int_equal(all->config.kind, GYRE_KIND_T5);
    assert_int_equal(all->config.score.bidirectional, 1);
    assert_true(all->scale == 0.0);
    assert_field(all, "table_rows", "514", GYRE_ORIGIN_DERIVED, NULL, 0);
    assert_field(all, "offset", "2", GYRE_ORIGIN_FAMILY, NULL, 0);
    assert_warns(reading, "added at the input as well", NULL, 0);
    gyre_reading_free(reading);
}

static void test_deberta(void **state) {
    (void)state;
    /* As published for deberta-base and deberta-v3-base. */
    gyre_reading *reading = read_text("{\"model_type\": \"deberta\", \"relative_attention\": true,\n"
                                      "\"position_biased_input\": false, \"pos_att_type\": \"c2p|p2c\",\n"
                                      "\"max_relative_positions\": -1, \"max_position_embeddings\": 512}");
    const gyre_layer_reading *all = group_of(reading, "all");
    assert_int_equal(all->config.kind, GYRE_KIND_DEBERTA);
    assert_int_equal(all->config.score.max_distance, 512);
    assert_int_equal(all->config.score.position_buckets, 0);
    assert_int_equal(all->config.score.terms, GYRE_TERM_QUERY | GYRE_TERM_KEY);
    test_close(all->scale, 1.0L / sqrtl(64.0L * 3.0L), 1e-16L, "scale");
    assert_field(all, "terms", "query and key", GYRE_ORIGIN_FILE, "pos_att_type", 2);
    assert_int_equal(reading->warnings_count, 0);
    gyre_reading_free(reading);
    reading = read_text("{\"model_type\": \"deberta-v2\", \"relative_attention\": true, \"position_buckets\": 256, "
                        "\"hidden_size\": 768, \"num_attention_heads\": 12, \"pos_att_type\": [\"p2c\"], "
                        "\"max_relative_positions\": -1, \"position_biased_input\": true, \"conv_kernel_size\": 3}");
    all = group_of(reading, "all");
    assert_int_equal(all->config.score.position_buckets, 256);
    assert_int_equal(all->config.score.terms, GYRE_TERM_KEY);
    test_close(all->scale, 1.0L / sqrtl(128.0L), 1e-16L, "scale");
    assert_warns(reading, "added at the input as well", NULL, 0);
    assert_warns(reading, "convolution", "conv_kernel_size", 1);
    gyre_encoding *encoding = encoding_of(all);
    int64_t shape[4];
    assert_ok(gyre_encoding_table_shape(encoding, GYRE_TABLE_KEY, shape));
    assert_int_equal(shape[2], 512);
    gyre_encoding_free(encoding);
    gyre_reading_free(reading);
}

static void test_deberta_edges(void **state) {
    (void)state;
#define V2 "{\"model_type\": \"deberta-v2\", \"relative_attention\": true, \"position_biased_input\": false,\n"
    gyre_reading *reading = read_text(V2 "\"pos_att_type\": null}");
    assert_int_equal(group_of(reading, "all")->config.kind, GYRE_KIND_NOPE);
    assert_warns(reading, "relative_attention does nothing", "pos_att_type", 2);
    gyre_reading_free(reading);
    reading = read_text(V2 "\"pos_att_type\": \" C2P | p2p\"}");
    assert_int_equal(group_of(reading, "all")->config.score.terms, GYRE_TERM_QUERY);
    assert_warns(reading, "\"p2p\" is ignored", "pos_att_type", 2);
    gyre_reading_free(reading);
    assert_refused(V2 "\"pos_att_type\": [1]}", GYRE_PROFILE_DEFAULT, GYRE_EFORMAT, "pos_att_type: entry 0 is not a text");
    assert_refused(V2 "\"pos_att_type\": 3}", GYRE_PROFILE_DEFAULT, GYRE_EFORMAT, "pos_att_type: neither a text nor a list");
    assert_refused(V2 "\"pos_att_type\": [\"c2p\"], \"position_buckets\": 255}", GYRE_PROFILE_DEFAULT, GYRE_EFORMAT,
                   "position_buckets: 255 is not an even number from 4 up (config.json, line 2)");
    assert_refused(V2 "\"pos_att_type\": [\"c2p\"], \"position_buckets\": 256, \"max_relative_positions\": 100}",
                   GYRE_PROFILE_DEFAULT, GYRE_EFORMAT, "max_relative_positions: a largest distance of 100 leaves none");
    assert_refused("{\"model_type\": \"deberta\"}", GYRE_PROFILE_LLAMA_CPP, GYRE_EUNSUPPORTED,
                   "converter does not take deberta");
#undef V2
}

static void test_nezha(void **state) {
    (void)state;
    static const char text[] = "{\"model_type\": \"nezha\", \"max_relative_position\": 32}";
    gyre_reading *reading = read_text(text);
    const gyre_layer_reading *all = group_of(reading, "all");
    assert_int_equal(all->config.kind, GYRE_KIND_NEZHA);
    assert_int_equal(all->config.score.max_distance, 32);
    assert_warns(reading, "transformers 5 no longer has nezha", "model_type", 1);
    gyre_reading_free(reading);
    reading = read_as("{\"model_type\": \"nezha\"}", GYRE_PROFILE_HF_4_43);
    assert_int_equal(group_of(reading, "all")->config.score.max_distance, 64);
    assert_int_equal(reading->warnings_count, 0);
    gyre_reading_free(reading);
    assert_refused(text, GYRE_PROFILE_VLLM, GYRE_EUNSUPPORTED, "vLLM has no class for nezha");
    assert_refused(text, GYRE_PROFILE_LLAMA_CPP, GYRE_EUNSUPPORTED, "llama.cpp's converter does not take nezha");
}

static void test_transformer_xl(void **state) {
    (void)state;
    gyre_reading *reading =
        read_text("{\"model_type\": \"transfo-xl\",\n\"clamp_len\": 400, \"n_head\": 16, \"d_head\": 64}");
    const gyre_layer_reading *all = group_of(reading, "all");
    assert_int_equal(all->config.kind, GYRE_KIND_TRANSFORMER_XL);
    assert_int_equal(all->config.score.max_distance, 400);
    assert_int_equal(all->config.score.bidirectional, 0);
    assert_int_equal(all->config.head_dim, 64);
    assert_field(all, "clamp", "400", GYRE_ORIGIN_FILE, "clamp_len", 2);
    gyre_reading_free(reading);
    reading = read_text("{\"model_type\": \"transfo-xl\"}");
    assert_int_equal(group_of(reading, "all")->config.score.max_distance, 1000);
    gyre_reading_free(reading);
    reading = read_text("{\"model_type\": \"xlnet\", \"clamp_len\": -1, \"d_model\": 768, \"n_head\": 12}");
    all = group_of(reading, "all");
    assert_int_equal(all->config.score.bidirectional, 1);
    assert_int_equal(all->config.score.max_distance, 512);
    assert_field(all, "max_distance", "512", GYRE_ORIGIN_READER, NULL, 0);
    assert_field(all, "clamp", "-1", GYRE_ORIGIN_FILE, "clamp_len", 1);
    gyre_reading_free(reading);
    assert_refused("{\"model_type\": \"transfo-xl\", \"attn_type\": 1}", GYRE_PROFILE_DEFAULT, GYRE_EUNSUPPORTED,
                   "attn_type: 1");
    assert_refused("{\"model_type\": \"xlnet\", \"attn_type\": \"tri\"}", GYRE_PROFILE_DEFAULT, GYRE_EFORMAT,
                   "attn_type: \"tri\" is neither");
}

/* By the class of transformers 5.24: layers with a window have other keys and no temperature. */
static void test_inkling(void **state) {
    (void)state;
    gyre_reading *reading =
        read_text("{\"model_type\": \"inkling_mm_model\", \"text_config\": {\"model_type\": \"inkling_text\",\n"
                  "\"num_hidden_layers\": 12, \"log_scaling_n_floor\": 8192, \"log_scaling_alpha\": 0.2,\n"
                  "\"head_dim\": 64, \"d_rel\": 8, \"rel_extent\": 2048, \"swa_num_attention_heads\": 32},\n"
                  "\"vision_config\": {\"model_type\": \"inkling_vision\"}}");
    const gyre_layer_reading *full = group_of(reading, "full"), *sliding = group_of(reading, "sliding");
    assert_int_equal(full->config.kind, GYRE_KIND_INKLING);
    assert_int_equal(full->config.head_dim, 64 + 8);
    assert_int_equal(full->config.heads, 64);
    assert_int_equal(full->config.score.max_distance, 2048);
    assert_int_equal(full->config.query.temperature, GYRE_TEMPERATURE_INKLING);
    assert_int_equal(full->config.query.reference_length, 8192);
    assert_true(full->config.query.slope == 0.2 && full->scale == 1.0 / 64 && full->window == 0);
    assert_int_equal(full->layers_count, 2);
    assert_true(full->layers[0] == 5 && full->layers[1] == 11);
    assert_field(full, "relative_channels", "8", GYRE_ORIGIN_FILE, "text_config.d_rel", 3);
    assert_int_equal(sliding->config.head_dim, 128 + 8);
    assert_int_equal(sliding->config.heads, 32);
    assert_int_equal(sliding->config.score.max_distance, 512);
    assert_int_equal(sliding->config.query.temperature, GYRE_TEMPERATURE_NONE);
    assert_true(sliding->scale == 1.0 / 128 && sliding->window == 512);
    assert_warns(reading, "folds the pixels of a patch", "vision_config.model_type", 4);
    gyre_encoding_free(encoding_of(full));
    gyre_encoding_free(encoding_of(sliding));
    gyre_reading_free(reading);
    reading = read_text("{\"model_type\": \"inkling_text\", \"num_hidden_layers\": 3, \"local_layer_ids\": [1, 3, -1, 1]}");
    assert_int_equal(group_of(reading, "full")->layers_count, 2);
    assert_int_equal(group_of(reading, "sliding")->layers[0], 1);
    gyre_reading_free(reading);
    reading = read_text("{\"model_type\": \"inkling_text\", \"num_hidden_layers\": 2,\n"
                        "\"layer_types\": [\"hybrid\", \"hybrid_sliding\"], \"sliding_window\": 100}");
    assert_int_equal(group_of(reading, "sliding")->window, 100);
    assert_int_equal(group_of(reading, "full")->layers[0], 0);
    gyre_reading_free(reading);
    assert_refused("{\"model_type\": \"inkling_text\", \"num_hidden_layers\": 2, \"layer_types\": [\"hybrid\", \"full\"]}",
                   GYRE_PROFILE_DEFAULT, GYRE_EFORMAT, "layer 1 is neither hybrid nor hybrid_sliding");
}

/* The first two types of a Wav2Vec2-BERT, and what it does otherwise; the keys of the other types are in every file. */
static void test_conformers(void **state) {
    (void)state;
#define BERT                                                                                                                \
    "{\"model_type\": \"wav2vec2-bert\", \"rotary_embedding_base\": 10000, \"max_source_positions\": 5000,\n"               \
    "\"left_max_position_embeddings\": 64,\n\"right_max_position_embeddings\": 8"
    gyre_reading *reading = read_text(BERT "}");
    const gyre_layer_reading *all = group_of(reading, "all");
    assert_int_equal(all->config.kind, GYRE_KIND_SHAW);
    assert_int_equal(all->config.score.terms, GYRE_TERM_QUERY);
    assert_int_equal(all->config.head_dim, 64);
    assert_field(all, "max_distance", "64", GYRE_ORIGIN_FILE, "left_max_position_embeddings", 2);
    assert_warns(reading, "keys more than 8 tokens after the query have one vector", "right_max_position_embeddings", 3);
    assert_int_equal(reading->warnings_count, 1);
    gyre_encoding_free(test_encoding(&all->config));
    gyre_reading_free(reading);
    reading = read_text("{\"model_type\": \"wav2vec2-bert\", \"left_max_position_embeddings\": 8}");
    assert_int_equal(reading->warnings_count, 0);
    gyre_reading_free(reading);
    reading = read_text("{\"model_type\": \"wav2vec2-conformer\",\n\"max_source_positions\": 3000}");
    all = group_of(reading, "all");
    assert_int_equal(all->config.kind, GYRE_KIND_TRANSFORMER_XL);
    assert_int_equal(all->config.score.bidirectional, 1);
    assert_field(all, "max_distance", "3000", GYRE_ORIGIN_FILE, "max_source_positions", 2);
    gyre_encoding_free(test_encoding(&all->config));
    gyre_reading_free(reading);
    reading = read_text(BERT ", \"position_embeddings_type\": null}");
    assert_int_equal(group_of(reading, "all")->config.kind, GYRE_KIND_NOPE);
    assert_int_equal(reading->warnings_count, 0);
    gyre_reading_free(reading);
    assert_refused(BERT ", \"position_embeddings_type\": \"rotary\"}", GYRE_PROFILE_DEFAULT, GYRE_EUNSUPPORTED,
                   "rotates the input of a layer");
    assert_refused("{\"model_type\": \"wav2vec2-conformer\", \"position_embeddings_type\": \"relative_key\"}",
                   GYRE_PROFILE_DEFAULT, GYRE_EFORMAT, "is not one of rotary, relative (");
#undef BERT
}

/* Without a clamp the table is as long as the requested context, and no file can request one that fills the memory. */
static void test_no_clamp_follows_the_length(void **state) {
    (void)state;
    static const char text[] = "{\"model_type\": \"xlnet\"}";
    gyre_reading *reading = NULL;
    assert_ok(
        gyre_reading_parse(&reading, text, strlen(text), GYRE_ARGS(gyre_reading_options, .context_length = 3000), NULL));
    assert_int_equal(group_of(reading, "all")->config.score.max_distance, 3000);
    gyre_reading_free(reading);
    assert_ok(gyre_reading_parse(&reading, text, strlen(text), GYRE_ARGS(gyre_reading_options, .context_length = INT64_MAX),
                                 NULL));
    assert_int_equal(group_of(reading, "all")->config.score.max_distance, 1 << 22);
    gyre_reading_free(reading);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_t5),
        cmocka_unit_test(test_t5_profiles_and_faults),
        cmocka_unit_test(test_two_places),
        cmocka_unit_test(test_deberta),
        cmocka_unit_test(test_deberta_edges),
        cmocka_unit_test(test_nezha),
        cmocka_unit_test(test_transformer_xl),
        cmocka_unit_test(test_inkling),
        cmocka_unit_test(test_conformers),
        cmocka_unit_test(test_no_clamp_follows_the_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
