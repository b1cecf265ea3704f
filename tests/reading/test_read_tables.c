/* test_read_tables.c: config.json of models without RoPE: tables, sinusoids, slopes. test_read_distances.c has relative
 * scores. */
#include "check_reading.h"
#include "reading/family.h"

#include <math.h>
#include <stdio.h>

static gyre_encoding *encoding_of(const gyre_layer_reading *group) {
    return test_encoding(&group->config);
}

/* -- learned tables -- */
typedef struct learned_case {
    const char *text, *group;
    int64_t rows, offset, dim, trained;
} learned_case;

static void test_learned_tables(void **state) {
    (void)state;
    static const learned_case cases[] = {
        {"{\"model_type\": \"gpt2\", \"n_positions\": 1024, \"n_embd\": 1600, \"n_head\": 25}", "all", 1024, 0, 1600, 1024},
        {"{\"model_type\": \"gpt2\"}", "all", 1024, 0, 768, 1024},
        {"{\"model_type\": \"gpt_bigcode\", \"n_positions\": 8192, \"n_embd\": 6144, \"n_head\": 48}", "all", 8192, 0, 6144,
         8192},
        {"{\"model_type\": \"opt\", \"max_position_embeddings\": 2048, \"hidden_size\": 768}", "all", 2050, 2, 768, 2048},
        {"{\"model_type\": \"biogpt\"}", "all", 1026, 2, 1024, 1024},
        {"{\"model_type\": \"bart\"}", "encoder", 1026, 2, 1024, 1024},
        {"{\"model_type\": \"bart\"}", "decoder", 1026, 2, 1024, 1024},
        {"{\"model_type\": \"led\", \"max_encoder_position_embeddings\": 16384, \"max_decoder_position_embeddings\": 1024}",
         "encoder", 16384, 0, 1024, 16384},
        {"{\"model_type\": \"led\", \"max_encoder_position_embeddings\": 16384, \"max_decoder_position_embeddings\": 1024}",
         "decoder", 1024, 0, 1024, 1024},
        /* roberta-base: 514 rows; rows 0 and 1 are below and at the padding. */
        {"{\"model_type\": \"roberta\", \"max_position_embeddings\": 514, \"pad_token_id\": 1}", "all", 514, 2, 768, 512},
        {"{\"model_type\": \"roberta\", \"max_position_embeddings\": 514}", "all", 514, 2, 768, 512},
        {"{\"model_type\": \"xlm-roberta\", \"max_position_embeddings\": 8194, \"pad_token_id\": 1, \"hidden_size\": 1024, "
         "\"num_attention_heads\": 16}",
         "all", 8194, 2, 1024, 8192},
        {"{\"model_type\": \"esm\", \"max_position_embeddings\": 1026, \"pad_token_id\": 0}", "all", 1026, 1, 768, 1025},
        {"{\"model_type\": \"bert\"}", "all", 512, 0, 768, 512},
        {"{\"model_type\": \"electra\"}", "all", 512, 0, 128, 512},
        {"{\"model_type\": \"rembert\"}", "all", 512, 0, 256, 512},
        {"{\"model_type\": \"albert\", \"hidden_size\": 768, \"num_attention_heads\": 12}", "all", 512, 0, 128, 512},
        {"{\"model_type\": \"distilbert\", \"dim\": 768, \"n_heads\": 12}", "all", 512, 0, 768, 512},
        {"{\"model_type\": \"xlm\", \"emb_dim\": 1024, \"n_heads\": 8}", "all", 512, 0, 1024, 512},
        {"{\"model_type\": \"nystromformer\"}", "all", 512, 2, 768, 510},
        {"{\"model_type\": \"clip\", \"text_config\": {}}", "all", 77, 0, 512, 77},
        {"{\"model_type\": \"siglip_text_model\"}", "all", 64, 0, 768, 64},
        {"{\"model_type\": \"whisper\", \"d_model\": 1280, \"encoder_attention_heads\": 20, \"decoder_attention_heads\": "
         "20}",
         "decoder", 448, 0, 1280, 448},
        {"{\"model_type\": \"deberta\"}", "all", 512, 0, 768, 512},
        {"{\"model_type\": \"jais\", \"n_positions\": 2048}", "all", 2048, 0, 768, 2048},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gyre_reading *reading = read_text(cases[i].text);
        const gyre_layer_reading *group = group_of(reading, cases[i].group);
        const struct gyre_input_config *input = &group->config.input;
        if (group->config.kind != GYRE_KIND_LEARNED || input->positions != cases[i].rows ||
            input->offset != cases[i].offset || input->dim != cases[i].dim ||
            group->config.trained_length != cases[i].trained)
            fail_msg("%s: kind %d, %d rows from %d, %d channels, %d trained", cases[i].text, (int)group->config.kind,
                     (int)input->positions, (int)input->offset, (int)input->dim, (int)group->config.trained_length);
        assert_true(group->scale == 0.0);
        gyre_reading_free(reading);
    }
}

static void test_keys_and_lines_of_sizes(void **state) {
    (void)state;
    gyre_reading *reading = read_text("{\n  \"model_type\": \"roberta\",\n  \"pad_token_id\": 1,\n\n"
                                      "  \"max_position_embeddings\": 514\n}\n");
    const gyre_layer_reading *all = group_of(reading, "all");
    assert_int_equal(reading->groups_count, 1);
    assert_string_equal(reading->model_type, "roberta");
    assert_field(all, "encoding", "learned", GYRE_ORIGIN_FAMILY, NULL, 0);
    assert_field(all, "max_length", "514", GYRE_ORIGIN_FILE, "max_position_embeddings", 5);
    assert_field(all, "offset", "2", GYRE_ORIGIN_DERIVED, "pad_token_id", 3);
    assert_field(all, "table_rows", "514", GYRE_ORIGIN_DERIVED, NULL, 0);
    assert_field(all, "trained_length", "512", GYRE_ORIGIN_DERIVED, NULL, 0);
    assert_int_equal(reading->warnings_count, 0);
    gyre_reading_free(reading);
    reading = read_text("{\"model_type\": \"gpt2\"}");
    assert_field(group_of(reading, "all"), "max_length", "1024", GYRE_ORIGIN_FAMILY, NULL, 0);
    assert_field(group_of(reading, "all"), "encoding", "learned", GYRE_ORIGIN_FAMILY, "model_type", 1);
    gyre_reading_free(reading);
}

static void test_unread_keys(void **state) {
    (void)state;
    gyre_reading *reading = read_text("{\"model_type\": \"longformer\",\n\"position_embedding_type\": \"relative_key\",\n"
                                      "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}}");
    assert_int_equal(group_of(reading, "all")->config.kind, GYRE_KIND_LEARNED);
    assert_warns(reading, "\"relative_key\" is ignored", "position_embedding_type", 2);
    assert_warns(reading, "this model does not rotate", "rope_scaling", 3);
    assert_int_equal(reading->warnings_count, 2);
    gyre_reading_free(reading);
    reading = read_text("{\"model_type\": \"bart\",\n\"rope_parameters\": {}}"); /* once, not for each stack */
    assert_int_equal(reading->warnings_count, 1);
    gyre_reading_free(reading);
}

/* How llama.cpp's converter treats the rows of padding. */
static void test_padding_under_llama_cpp(void **state) {
    (void)state;
    gyre_reading *reading = read_as("{\"model_type\": \"roberta\", \"pad_token_id\": 1, \"max_position_embeddings\": 514}",
                                    GYRE_PROFILE_LLAMA_CPP);
    assert_int_equal(group_of(reading, "all")->config.input.offset, 2);
    gyre_reading_free(reading);
    reading = read_as("{\"model_type\": \"roberta\", \"max_position_embeddings\": 514}", GYRE_PROFILE_LLAMA_CPP);
    assert_int_equal(group_of(reading, "all")->config.input.offset, 0);
    assert_warns(reading, "counts positions from row 0", "pad_token_id", 0);
    gyre_reading_free(reading);
    reading = read_as("{\"model_type\": \"camembert\", \"pad_token_id\": 1, \"max_position_embeddings\": 514}",
                      GYRE_PROFILE_LLAMA_CPP);
    assert_int_equal(group_of(reading, "all")->config.input.offset, 0);
    assert_warns(reading, "takes this for a BERT", "model_type", 1);
    assert_non_null(field_of(group_of(reading, "all"), "offset")->note);
    gyre_reading_free(reading);
}

static void test_gpt2_may_not_scale(void **state) {
    (void)state;
    gyre_reading *reading = read_text("{\"model_type\": \"gpt2\",\n\"scale_attn_weights\": false,\n"
                                      "\"scale_attn_by_inverse_layer_idx\": true}");
    assert_true(group_of(reading, "all")->scale == 1.0);
    assert_field(group_of(reading, "all"), "score_scale", "1", GYRE_ORIGIN_FILE, "scale_attn_weights", 2);
    assert_warns(reading, "i + 1", "scale_attn_by_inverse_layer_idx", 3);
    gyre_reading_free(reading);
}

static void test_gpt_neo_alternates(void **state) {
    (void)state;
    gyre_reading *reading = read_text("{\"model_type\": \"gpt_neo\", \"attention_types\": [[[\"global\", \"local\"], 2], "
                                      "[[\"local\"], 1]], \"window_size\": 256}");
    const gyre_layer_reading *global = group_of(reading, "global"), *local = group_of(reading, "local");
    const int64_t globals[] = {0, 2}, locals[] = {1, 3, 4};
    assert_int_equal(global->layers_count, 2);
    assert_int_equal(local->layers_count, 3);
    assert_ptr_equal(reading->groups[0], local); /* has more layers */
    assert_memory_equal(global->layers, globals, sizeof globals);
    assert_memory_equal(local->layers, locals, sizeof locals);
    assert_int_equal(global->window, 0);
    assert_int_equal(local->window, 256);
    assert_true(global->scale == 1.0 && local->scale == 1.0);
    assert_int_equal(local->config.input.positions, 2048);
    gyre_reading_free(reading);
    reading = read_text("{\"model_type\": \"gpt_neo\", \"num_layers\": 5}");
    assert_int_equal(group_of(reading, "global")->layers_count, 3);
    assert_int_equal(group_of(reading, "local")->layers_count, 2);
    assert_string_equal(reading->groups[0]->name, "global");
    gyre_reading_free(reading);
    assert_refused("{\"model_type\": \"gpt_neo\",\n\"attention_types\": [[[\"globe\"], 2]]}", GYRE_PROFILE_DEFAULT,
                   GYRE_EFORMAT, "attention_types: a layer is neither \"global\" nor \"local\" (config.json, line 2)");
    assert_refused("{\"model_type\": \"gpt_neo\", \"attention_types\": [[[\"local\"], 99999]]}", GYRE_PROFILE_DEFAULT,
                   GYRE_EFORMAT, "more than 65536 layers");
    assert_refused("{\"model_type\": \"gpt_neo\", \"attention_types\": [[[], 9999999999]]}", GYRE_PROFILE_DEFAULT,
                   GYRE_EFORMAT, "not a list of [names, how often]");
}

/* -- sinusoids -- */
/* out = the sinusoid of a token at `position`. */
static void added_at(const gyre_layer_reading *group, int64_t position, double *out) {
    gyre_encoding *encoding = encoding_of(group);
    const int64_t dim = group->config.input.dim;
    const gyre_positions at = {.base = position};
    memset(out, 0, (size_t)dim * sizeof *out);
    const gyre_view view = gyre_dense(out, GYRE_DTYPE_F64, 1, 1, 1, dim);
    const gyre_cview in = gyre_const(view);
    assert_ok(gyre_add_input(encoding, GYRE_ARGS(gyre_add_input_args, .positions = &at, .in = in, .out = view), NULL, NULL));
    gyre_encoding_free(encoding);
}

typedef struct sinusoid_case {
    const char *text, *group;
    int dim, t2t, cosines_first, interleaved, offset, zero_padding;
} sinusoid_case;

static void check_sinusoid(const sinusoid_case *c) {
    double got[64];
    gyre_reading *reading = read_text(c->text);
    const gyre_layer_reading *group = group_of(reading, c->group);
    const int half = c->dim / 2, m = 37;
    assert_int_equal(group->config.kind, GYRE_KIND_SINUSOIDAL);
    added_at(group, m, got);
    for (int j = 0; j < half; j++) {
        const long double exponent = c->t2t ? (long double)j / (half - 1) : 2.0L * j / c->dim;
        const long double angle = (m + c->offset) * powl(10000.0L, -exponent);
        const int sine = c->interleaved ? 2 * j : c->cosines_first ? half + j : j;
        const int cosine = c->interleaved ? 2 * j + 1 : c->cosines_first ? j : half + j;
        test_close(got[sine], sinl(angle), 1e-12L, c->text);
        test_close(got[cosine], cosl(angle), 1e-12L, c->text);
    }
    added_at(group, -1, got);
    int zeros = 1;
    for (int j = 0; j < c->dim; j++)
        zeros &= got[j] == 0.0;
    assert_int_equal(zeros, c->zero_padding);
    gyre_reading_free(reading);
}

static void test_sinusoids(void **state) {
    (void)state;
#define SMALL "\"d_model\": 16, \"encoder_attention_heads\": 2, \"decoder_attention_heads\": 2}"
    static const sinusoid_case cases[] = {
        {"{\"model_type\": \"marian\", " SMALL, "encoder", 16, 0, 0, 0, 0, 0},
        {"{\"model_type\": \"marian\", " SMALL, "decoder", 16, 0, 0, 0, 0, 0},
        {"{\"model_type\": \"pegasus\", " SMALL, "decoder", 16, 0, 0, 0, 0, 0},
        {"{\"model_type\": \"pegasus_x\", " SMALL, "encoder", 16, 1, 0, 0, 0, 0},
        {"{\"model_type\": \"m2m_100\", \"pad_token_id\": 1, " SMALL, "encoder", 16, 1, 0, 0, 2, 1},
        {"{\"model_type\": \"nllb-moe\", \"pad_token_id\": 3, " SMALL, "decoder", 16, 1, 0, 0, 4, 1},
        {"{\"model_type\": \"xglm\", \"attention_heads\": 2, \"num_attention_heads\": 2, \"d_model\": 16}", "all", 16, 1, 0,
         0, 2, 1},
        {"{\"model_type\": \"ctrl\", \"n_embd\": 32, \"n_head\": 4}", "all", 32, 0, 0, 0, 0, 0},
        {"{\"model_type\": \"whisper\", " SMALL, "encoder", 16, 1, 0, 0, 0, 0},
        {"{\"model_type\": \"musicgen\", \"decoder\": {\"hidden_size\": 64, \"num_attention_heads\": 4}}", "decoder", 64, 1,
         1, 0, 0, 0},
        {"{\"model_type\": \"distilbert\", \"sinusoidal_pos_embds\": true, \"dim\": 24, \"n_heads\": 2}", "all", 24, 0, 0, 1,
         0, 0},
        {"{\"model_type\": \"flaubert\", \"sinusoidal_embeddings\": true, \"emb_dim\": 24, \"n_heads\": 2}", "all", 24, 0, 0,
         1, 0, 0},
    };
#undef SMALL
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_sinusoid(&cases[i]);
    gyre_reading *reading = read_text("{\"model_type\": \"whisper\"}");
    assert_field(group_of(reading, "encoder"), "max_length", "1500", GYRE_ORIGIN_FAMILY, NULL, 0);
    assert_field(group_of(reading, "encoder"), "sinusoid", "sin-cos-t2t", GYRE_ORIGIN_FAMILY, NULL, 0);
    gyre_reading_free(reading);
}

/* -- BERT -- */
static const char key_query[] = "{\n\"model_type\": \"bert\",\n\"max_position_embeddings\": 128,\n"
                                "\"position_embedding_type\": \"relative_key_query\"}";

static void test_bert_types(void **state) {
    (void)state;
    static const gyre_profile with[] = {GYRE_PROFILE_HF_4_43, GYRE_PROFILE_HF_4_51, GYRE_PROFILE_HF_4_56,
                                        GYRE_PROFILE_REFERENCE};
    for (size_t i = 0; i < sizeof with / sizeof *with; i++) {
        gyre_reading *reading = read_as(key_query, with[i]);
        const gyre_layer_reading *all = group_of(reading, "all");
        assert_int_equal(all->config.kind, GYRE_KIND_BERT);
        assert_int_equal(all->config.score.max_positions, 128);
        assert_int_equal(all->config.score.terms, GYRE_TERM_QUERY | GYRE_TERM_KEY);
        assert_int_equal(all->config.head_dim, 64);
        assert_field(all, "encoding", "bert", GYRE_ORIGIN_FILE, "position_embedding_type", 4);
        gyre_encoding *encoding = encoding_of(all);
        int64_t shape[4], row = 0;
        assert_ok(gyre_encoding_table_shape(encoding, GYRE_TABLE_QUERY, shape));
        assert_int_equal(shape[2], 255); /* 2 P - 1 */
        assert_ok(gyre_encoding_row(encoding, 5, 3, &row));
        assert_int_equal(row, 5 - 3 + 127); /* q - k + P - 1 */
        gyre_encoding_free(encoding);
        gyre_reading_free(reading);
    }
    gyre_reading *reading =
        read_as("{\"model_type\": \"bert\", \"position_embedding_type\": \"relative_key\"}", GYRE_PROFILE_HF_4_56);
    assert_int_equal(group_of(reading, "all")->config.score.terms, GYRE_TERM_QUERY);
    gyre_reading_free(reading);
}

/* transformers 5 runs such a model with an absolute table. */
static void test_bert_distances_are_lost(void **state) {
    (void)state;
    static const gyre_profile without[] = {GYRE_PROFILE_DEFAULT, GYRE_PROFILE_HF_5, GYRE_PROFILE_LLAMA_CPP};
    for (size_t i = 0; i < sizeof without / sizeof *without; i++) {
        gyre_reading *reading = read_as(key_query, without[i]);
        const gyre_layer_reading *all = group_of(reading, "all");
        assert_int_equal(all->config.kind, GYRE_KIND_LEARNED);
        assert_int_equal(all->config.input.positions, 128);
        assert_non_null(field_of(all, "encoding")->note);
        assert_warns(reading, "\"relative_key_query\" is lost", "position_embedding_type", 4);
        gyre_reading_free(reading);
    }
    assert_refused(key_query, GYRE_PROFILE_VLLM, GYRE_EUNSUPPORTED, "vLLM runs \"absolute\" alone");
    assert_refused("{\"model_type\": \"bert\",\n\"position_embedding_type\": \"absolut\"}", GYRE_PROFILE_HF_4_56,
                   GYRE_EFORMAT, "\"absolut\" is not one of");
}

static void test_jina_bert_has_slopes(void **state) {
    (void)state;
    gyre_reading *reading = read_text("{\"model_type\": \"bert\", \"position_embedding_type\": \"alibi\", "
                                      "\"max_position_embeddings\": 8192, \"num_attention_heads\": 8}");
    const gyre_layer_reading *all = group_of(reading, "all");
    double slopes[8];
    gyre_encoding *encoding = encoding_of(all);
    assert_ok(gyre_encoding_slopes(encoding, 0, slopes));
    for (int h = 0; h < 8; h++)
        test_close(slopes[h], powl(2.0L, -(h + 1)), 1e-15L, "slope");
    assert_int_equal(all->config.trained_length, 8192);
    gyre_encoding_free(encoding);
    gyre_reading_free(reading);
}

static void test_esm_may_rotate(void **state) {
    (void)state;
    gyre_reading *reading =
        read_text("{\"model_type\": \"esm\", \"position_embedding_type\": \"rotary\", \"head_dim\": 64, "
                  "\"hidden_size\": 768, \"num_attention_heads\": 12, \"max_position_embeddings\": 1026}");
    assert_int_equal(reading->groups[0]->config.kind, GYRE_KIND_ROPE);
    gyre_reading_free(reading);
}

/* -- ALiBi -- */
static void test_bloom(void **state) {
    (void)state;
    double slopes[12];
    gyre_reading *reading =
        read_text("{\"model_type\": \"bloom\", \"n_embed\": 768, \"n_head\": 12,\n\"seq_length\": 2048}");
    const gyre_layer_reading *all = group_of(reading, "all");
    assert_int_equal(all->config.kind, GYRE_KIND_ALIBI);
    assert_int_equal(all->config.score.before_scale, 0);
    assert_int_equal(all->config.trained_length, 2048);
    assert_field(all, "max_length", "2048", GYRE_ORIGIN_FILE, "seq_length", 2);
    assert_field(all, "max_bias", "8", GYRE_ORIGIN_FAMILY, NULL, 0);
    gyre_encoding *encoding = encoding_of(all);
    assert_ok(gyre_encoding_slopes(encoding, 0, slopes));
    const double last[] = {.70710678, .35355339, .1767767, .08838835}; /* the published figures for 12 heads */
    for (int h = 0; h < 8; h++)
        test_close(slopes[h], powl(2.0L, -(h + 1)), 1e-15L, "slope");
    for (int h = 0; h < 4; h++)
        test_close(slopes[8 + h], last[h], 5e-9L, "slope");
    gyre_encoding_free(encoding);
    gyre_reading_free(reading);
}

static const char mpt[] = "{\"model_type\": \"mpt\", \"d_model\": 4096, \"n_heads\": 32, \"max_seq_len\": 65536,\n"
                          "\"attn_config\": {\"alibi\": true,\n\"alibi_bias_max\": 16}}";

static void test_mpt_bias_max(void **state) {
    (void)state;
    static const gyre_profile looks[] = {GYRE_PROFILE_VLLM, GYRE_PROFILE_LLAMA_CPP, GYRE_PROFILE_REFERENCE};
    static const gyre_profile hf[] = {GYRE_PROFILE_HF_4_43, GYRE_PROFILE_HF_4_51, GYRE_PROFILE_HF_4_56, GYRE_PROFILE_HF_5};
    for (size_t i = 0; i < sizeof looks / sizeof *looks; i++) {
        gyre_reading *reading = read_as(mpt, looks[i]);
        assert_true(group_of(reading, "all")->config.score.max_bias == 16.0);
        assert_field(group_of(reading, "all"), "max_bias", "16", GYRE_ORIGIN_FILE, "attn_config.alibi_bias_max", 3);
        assert_int_equal(reading->warnings_count, 0);
        gyre_reading_free(reading);
    }
    for (size_t i = 0; i < sizeof hf / sizeof *hf; i++) {
        gyre_reading *reading = read_as(mpt, hf[i]);
        assert_true(group_of(reading, "all")->config.score.max_bias == 8.0);
        assert_non_null(field_of(group_of(reading, "all"), "max_bias")->note);
        assert_warns(reading, "16 is ignored", "attn_config.alibi_bias_max", 3);
        assert_int_equal(group_of(reading, "all")->config.trained_length, 65536);
        gyre_reading_free(reading);
    }
}

static void test_mpt_without_slopes(void **state) {
    (void)state;
    static const char learned[] = "{\"model_type\": \"mpt\", \"attn_config\": {\"alibi\": false}}";
    static const char rotates[] = "{\"model_type\": \"mpt\", \"attn_config\": {\"alibi\": false, \"rope\": true, "
                                  "\"rope_theta\": 500000, \"softmax_scale\": 0.25}}";
    gyre_reading *reading = read_as(learned, GYRE_PROFILE_REFERENCE);
    assert_int_equal(group_of(reading, "all")->config.kind, GYRE_KIND_LEARNED);
    assert_int_equal(group_of(reading, "all")->config.input.positions, 2048);
    gyre_reading_free(reading);
    reading = read_as(rotates, GYRE_PROFILE_REFERENCE);
    assert_int_equal(group_of(reading, "all")->config.kind, GYRE_KIND_ROPE);
    assert_true(group_of(reading, "all")->config.rope.base == 500000.0);
    assert_true(group_of(reading, "all")->scale == 0.25);
    gyre_reading_free(reading);
    reading = read_as(learned, GYRE_PROFILE_HF_5);
    assert_int_equal(group_of(reading, "all")->config.kind, GYRE_KIND_ALIBI);
    assert_warns(reading, "slopes in every MPT", "attn_config.alibi", 1);
    gyre_reading_free(reading);
    assert_refused(learned, GYRE_PROFILE_VLLM, GYRE_EUNSUPPORTED, "attn_config.alibi: vLLM runs MPT with ALiBi alone");
    assert_refused(rotates, GYRE_PROFILE_LLAMA_CPP, GYRE_EUNSUPPORTED, "does not rotate");
    assert_refused("{\"model_type\": \"mpt\", \"attn_config\": {\n\"alibi_bias_max\": -1}}", GYRE_PROFILE_VLLM, GYRE_EFORMAT,
                   "attn_config.alibi_bias_max: not above 0 (config.json, line 2)");
}

static void test_falcon(void **state) {
    (void)state;
    static const char slopes[] = "{\"model_type\": \"falcon\", \"hidden_size\": 2048, \"num_attention_heads\": 32,\n"
                                 "\"head_dim\": 64, \"alibi\": true}";
    double got[32];
    gyre_reading *reading = read_text(slopes);
    const gyre_layer_reading *all = group_of(reading, "all");
    assert_int_equal(all->config.kind, GYRE_KIND_ALIBI);
    assert_int_equal(all->config.score.before_scale, 1);
    assert_field(all, "encoding", "alibi", GYRE_ORIGIN_FILE, "alibi", 2);
    gyre_encoding *encoding = encoding_of(all);
    assert_ok(gyre_encoding_slopes(encoding, 0, got));
    for (int h = 0; h < 32; h++) /* divided by sqrt(64) */
        test_close(got[h], powl(2.0L, -0.25L * (h + 1)) / 8.0L, 1e-15L, "slope");
    gyre_encoding_free(encoding);
    gyre_reading_free(reading);
    /* llama.cpp's converter ignores "alibi". */
    reading = read_as(slopes, GYRE_PROFILE_LLAMA_CPP);
    assert_int_equal(reading->groups[0]->config.kind, GYRE_KIND_ROPE);
    assert_warns(reading, "rotates every Falcon", "alibi", 2);
    gyre_reading_free(reading);
    reading =
        read_text("{\"model_type\": \"falcon\", \"hidden_size\": 4544, \"num_attention_heads\": 71, \"head_dim\": 64}");
    assert_int_equal(reading->groups[0]->config.kind, GYRE_KIND_ROPE);
    gyre_reading_free(reading);
}

static void test_baichuan_and_jais(void **state) {
    (void)state;
    gyre_reading *reading = read_text("{\"model_type\": \"baichuan\", \"hidden_size\": 5120, \"num_attention_heads\": 40, "
                                      "\"num_hidden_layers\": 40, \"model_max_length\": 4096}");
    assert_int_equal(reading->groups[0]->config.kind, GYRE_KIND_ALIBI);
    assert_int_equal(reading->groups[0]->config.heads, 40);
    assert_int_equal(reading->groups[0]->config.trained_length, 4096);
    gyre_reading_free(reading);
    reading =
        read_text("{\"model_type\": \"baichuan\", \"hidden_size\": 4096, \"num_attention_heads\": 32, \"head_dim\": 128}");
    assert_int_equal(reading->groups[0]->config.kind, GYRE_KIND_ROPE);
    gyre_reading_free(reading);
    reading =
        read_text("{\"model_type\": \"jais\", \"n_embd\": 5120, \"n_head\": 40, \"position_embedding_type\": \"alibi\", "
                  "\"mup_scale_qk_dot_by_d\": true}");
    assert_int_equal(reading->groups[0]->config.kind, GYRE_KIND_ALIBI);
    assert_true(reading->groups[0]->scale == 1.0 / 128.0);
    gyre_reading_free(reading);
}

#define JAIS(scaling)                                                                                                       \
    "{\"model_type\": \"jais\", \"n_embd\": 5120, \"n_head\": 40, \"position_embedding_type\": \"alibi\",\n"                \
    "\"n_positions\": 16384, \"alibi_scaling\": " scaling "}"

/* Jais and BTLM stretch slopes by a factor, or by length / train_seq_len past that. */
static void test_jais_stretches_slopes(void **state) {
    (void)state;
    gyre_reading *reading = read_text(JAIS("{\"type\": \"linear\", \"factor\": 2.5}"));
    const gyre_config *config = &reading->groups[0]->config;
    assert_true(config->score.slope_scaling == GYRE_SLOPE_SCALING_LINEAR && config->score.slope_factor == 2.5);
    assert_field(reading->groups[0], "slope_factor", "2.5", GYRE_ORIGIN_FILE, "alibi_scaling.factor", 2);
    gyre_reading_free(reading);
    reading = read_text(JAIS("{\"type\": \"linear\", \"train_seq_len\": 2048}"));
    config = &reading->groups[0]->config;
    assert_true(config->score.slope_scaling == GYRE_SLOPE_SCALING_LINEAR && config->score.slope_factor == 0);
    assert_true(config->trained_length == 2048 && config->length_policy == GYRE_LENGTH_POLICY_PREFIX);
    gyre_reading_free(reading);
    reading = read_as(JAIS("{\"type\": \"linear\", \"factor\": 2.5}"), GYRE_PROFILE_VLLM);
    assert_int_equal(reading->groups[0]->config.score.slope_scaling, GYRE_SLOPE_SCALING_NONE);
    assert_warns(reading, "never stretches slopes", "alibi_scaling", 2);
    gyre_reading_free(reading);
}

/* -- faults -- */
static void test_faults(void **state) {
    (void)state;
    static const struct {
        const char *text, *words;
    } faults[] = {
        {"{\"model_type\": \"gpt2\",\n\"n_positions\": 0}",
         "n_positions: not a whole number of at least 1 (config.json, line 2)"},
        {"{\"model_type\": \"gpt2\", \"n_positions\": \"1024\"}", "n_positions: not a whole number"},
        {"{\"model_type\": \"gpt2\", \"n_positions\": 1e15}", "n_positions: 1000000000000000 is past"},
        {"{\"model_type\": \"gpt2\",\n\"n_embd\": 770}", "12 heads do not divide a width of 770"},
        {"{\"model_type\": \"gpt2\",\n\"n_head\": 5}", "n_head: 5 heads do not divide a width of 768 (config.json, line 2)"},
        {"{\"model_type\": \"bloom\", \"n_head\": 1000000, \"hidden_size\": 1000000}", "n_head: 1000000 is past 65536"},
        {"{\"model_type\": \"roberta\", \"pad_token_id\": 600}",
         "a table of 512 rows has none left: tokens begin at row 601"},
        {"{\"model_type\": \"roberta\", \"pad_token_id\": -1}", "pad_token_id: not a whole number of at least 0"},
        {"{\"model_type\": \"led\"}", "max_encoder_position_embeddings: missing"},
        {"{\"model_type\": \"mpt\", \"attn_config\": 3}", "attn_config: not an object"},
        {JAIS("{\"type\": \"dynamic\"}"), "alibi_scaling.type: \"dynamic\" is not linear (config.json, line 2)"},
        {JAIS("{\"type\": \"linear\"}"), "alibi_scaling.train_seq_len: missing"},
        {JAIS("{\"type\": \"linear\", \"factor\": 1}"), "alibi_scaling.factor: 1 is not above 1"},
        {"{\"model_type\": \"falcon\", \"alibi\": \"yes\"}", "alibi: neither true nor false"},
        {"{\"model_type\": \"ctrl\", \"n_embd\": 3, \"n_head\": 1}", "all layers: input.dim: 3 is odd"},
        {"{\"model_type\": \"nezha\", \"hidden_size\": 21, \"num_attention_heads\": 7}", "heads of 3 channels"},
    };
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        assert_refused(faults[i].text, GYRE_PROFILE_DEFAULT, GYRE_EFORMAT, faults[i].words);
    assert_refused("{\"model_type\": \"marian\"}", GYRE_PROFILE_VLLM, GYRE_EUNSUPPORTED, "vLLM has no class for marian");
    assert_refused("{\"model_type\": \"opt\"}", GYRE_PROFILE_LLAMA_CPP, GYRE_EUNSUPPORTED, "converter does not take opt");
}

/* With only its type, a family has the defaults of its class, if the class has any. */
static void test_class_defaults_complete_a_config(void **state) {
    (void)state;
    static const char *const need_more[] = {"led", "speech_to_text", "falcon", "RefinedWeb", "RefinedWebModel", "baichuan"};
    for (size_t i = 0; gyre_family_at(i); i++) {
        char text[100];
        const char *type = gyre_family_at(i)->model_type;
        int needs = gyre_family_at(i)->read == gyre_read_rope || strcmp(type, "gyre") == 0;
        for (size_t k = 0; k < sizeof need_more / sizeof *need_more; k++)
            needs |= strcmp(type, need_more[k]) == 0;
        if (needs) continue;
        snprintf(text, sizeof text, "{\"model_type\": \"%s\"}", type);
        gyre_reading *reading = read_as(text, GYRE_PROFILE_HF_4_56);
        for (int64_t g = 0; g < reading->groups_count; g++) {
            const gyre_config *config = &reading->groups[g]->config;
            if (config->kind != GYRE_KIND_NOPE) assert_true(config->heads > 0 && config->head_dim > 0);
            assert_non_null(field_of(reading->groups[g], "encoding"));
        }
        gyre_reading_free(reading);
    }
}

/* With only its type, every family is an error or a reading. */
static void test_every_family_alone(void **state) {
    (void)state;
    for (size_t i = 0; gyre_family_at(i); i++)
        for (int profile = GYRE_PROFILE_DEFAULT; profile <= GYRE_PROFILE_REFERENCE; profile++) {
            char text[160];
            gyre_reading *reading = NULL;
            gyre_error err = {0, ""};
            const int length = snprintf(text, sizeof text, "{\"model_type\": \"%s\", \"hidden_size\": 64, \"x\": null}",
                                        gyre_family_at(i)->model_type);
            const gyre_status status = gyre_reading_parse(
                &reading, text, (size_t)length, GYRE_ARGS(gyre_reading_options, .profile = (gyre_profile)profile), &err);
            assert_int_equal(status == GYRE_OK, reading != NULL);
            if (status != GYRE_OK) assert_non_null(strstr(err.text, "("));
            gyre_reading_free(reading);
        }
}

/* Absurd values under every key that is read: an error or a reading, never a crash. */
static void test_invalid_values(void **state) {
    (void)state;
    static const char *const keys[] = {"hidden_size",
                                       "d_model",
                                       "n_embd",
                                       "num_attention_heads",
                                       "n_head",
                                       "num_heads",
                                       "encoder_attention_heads",
                                       "decoder_attention_heads",
                                       "max_position_embeddings",
                                       "n_positions",
                                       "max_source_positions",
                                       "max_target_positions",
                                       "max_seq_len",
                                       "embedding_size",
                                       "pad_token_id",
                                       "position_embedding_type",
                                       "attention_types",
                                       "num_layers",
                                       "window_size",
                                       "decoder",
                                       "text_config",
                                       "vision_config",
                                       "attn_config",
                                       "alibi",
                                       "relative_attention_num_buckets",
                                       "relative_attention_max_distance",
                                       "d_kv",
                                       "d_head",
                                       "clamp_len",
                                       "mem_len",
                                       "attn_type",
                                       "max_relative_position",
                                       "max_relative_positions",
                                       "position_buckets",
                                       "sinusoidal_pos_embds",
                                       "use_learned_position_embeddings"};
    static const char *const values[] = {
        "0",   "-1",   "1",         "3",  "7",       "2147483647",         "1e300", "9223372036854775807",
        "0.5", "\"\"", "\"alibi\"", "[]", "[[], 2]", "[[[\"local\"], 2]]", "{}",    "true",
        "null"};
    static const gyre_profile profiles[] = {GYRE_PROFILE_HF_5, GYRE_PROFILE_VLLM, GYRE_PROFILE_LLAMA_CPP,
                                            GYRE_PROFILE_REFERENCE};
    int64_t taken = 0, refused = 0;
    for (size_t f = 0; gyre_family_at(f); f++) {
        if (gyre_family_at(f)->read == gyre_read_rope) continue;
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
            for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
                char text[400];
                gyre_reading *reading = NULL;
                gyre_error err = {0, ""};
                const int length =
                    snprintf(text, sizeof text,
                             "{\"model_type\": \"%s\", \"relative_attention\": true, \"pos_att_type\": \"p2c\", \"%s\": %s}",
                             gyre_family_at(f)->model_type, keys[k], values[v]);
                const gyre_status status = gyre_reading_parse(
                    &reading, text, (size_t)length, GYRE_ARGS(gyre_reading_options, .profile = profiles[(k + v) % 4]), &err);
                assert_int_equal(status == GYRE_OK, reading != NULL);
                if (status != GYRE_OK && status != GYRE_EFORMAT && status != GYRE_EUNSUPPORTED)
                    fail_msg("%s: %s", text, err.text);
                if (status != GYRE_OK && !strstr(err.text, ": ")) fail_msg("%s: %s", text, err.text);
                *(status == GYRE_OK ? &taken : &refused) += 1;
                gyre_reading_free(reading);
            }
    }
    assert_true(taken > 1000 && refused > 1000);
}

/* The first of two rows with one name would hide the second. */
static void test_families_are_named_once(void **state) {
    (void)state;
    for (size_t i = 0; gyre_family_at(i); i++)
        if (gyre_family_of(gyre_family_at(i)->model_type) != gyre_family_at(i))
            fail_msg("%s has two rows", gyre_family_at(i)->model_type);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_learned_tables),
        cmocka_unit_test(test_keys_and_lines_of_sizes),
        cmocka_unit_test(test_unread_keys),
        cmocka_unit_test(test_padding_under_llama_cpp),
        cmocka_unit_test(test_gpt2_may_not_scale),
        cmocka_unit_test(test_gpt_neo_alternates),
        cmocka_unit_test(test_sinusoids),
        cmocka_unit_test(test_bert_types),
        cmocka_unit_test(test_bert_distances_are_lost),
        cmocka_unit_test(test_jina_bert_has_slopes),
        cmocka_unit_test(test_esm_may_rotate),
        cmocka_unit_test(test_bloom),
        cmocka_unit_test(test_mpt_bias_max),
        cmocka_unit_test(test_mpt_without_slopes),
        cmocka_unit_test(test_falcon),
        cmocka_unit_test(test_baichuan_and_jais),
        cmocka_unit_test(test_jais_stretches_slopes),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_class_defaults_complete_a_config),
        cmocka_unit_test(test_every_family_alone),
        cmocka_unit_test(test_invalid_values),
        cmocka_unit_test(test_families_are_named_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
