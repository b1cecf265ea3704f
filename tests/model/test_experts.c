/* test_experts.c: tokens whose router has numbers that are not finite, configs that leave out counts of experts, and
 * experts in blocks of MXFP4 that do not fit. */
#include "guarded_memory.h"

#include "gyre/gyre_model.h"
#include "gyre/gyre_research.h"
#include "make_synthetic_model.h"
#include "model/ops/float_buffer.h"
#include "model/parts/experts.h"
#include "temp_folder.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { EXPERTS = 8, ACTIVE = 4, GROUPS = 4, ROWS = 4, DIM = 64 };

/* -- routing -- */
/* As torch.topk, which takes NaN for the largest, and no index twice. */
static void test_nan_logits_are_chosen(void **state) {
    (void)state;
    for (int finite = 0; finite < 1 << EXPERTS; finite++)
        for (int kept = 2; kept <= GROUPS; kept++) {
            const gyre_routing routing = {GYRE_ROUTER_SIGMOID, EXPERTS, ACTIVE, GROUPS, kept, 1, 1};
            float logits[EXPERTS], weights[ACTIVE];
            int32_t chosen[ACTIVE];
            double scratch[2 * EXPERTS];
            int nan = 0;
            for (int i = 0; i < EXPERTS; i++)
                logits[i] = finite >> i & 1 ? 1 - 0.25F * (float)i : NAN;
            gyre_route(&routing, logits, NULL, scratch, chosen, weights);
            for (int n = 0; n < ACTIVE; n++) {
                assert_in_range(chosen[n], 0, EXPERTS - 1);
                if (n > 0 && chosen[n] <= chosen[n - 1])
                    fail_msg("%x: expert %d after %d", finite, chosen[n], chosen[n - 1]);
                nan += isnan(weights[n]) != 0;
            }
            assert_int_equal(nan, finite == (1 << EXPERTS) - 1 ? 0 : ACTIVE); /* they are divided by their sum */
        }
}

/* DeepSeek V3's class adds 1e-20 to the sum of scores, which are 0 here. */
static void test_scores_of_zero(void **state) {
    const gyre_routing routing = {GYRE_ROUTER_SIGMOID, EXPERTS, ACTIVE, 1, 1, 1, 1};
    float logits[EXPERTS], weights[ACTIVE];
    int32_t chosen[ACTIVE];
    double scratch[2 * EXPERTS];
    (void)state;
    for (int i = 0; i < EXPERTS; i++)
        logits[i] = -800;
    gyre_route(&routing, logits, NULL, scratch, chosen, weights);
    for (int n = 0; n < ACTIVE; n++)
        assert_true(chosen[n] == n && weights[n] == 0);
    logits[0] = -46.0517F; /* about 1e-20 */
    gyre_route(&routing, logits, NULL, scratch, chosen, weights);
    assert_true(fabsf(weights[0] - 0.5F) < 1e-3F);
}

/* -- experts -- */
static gyre_affine map_of(const float *weights, int64_t out, int64_t in) {
    return (gyre_affine){{GYRE_STORED_F32, weights, out, in, in * (int64_t)sizeof *weights}, NULL};
}

/* All but the last expert have a logit that is NaN.  Each buffer ends at a page without access. */
static void test_nan_logits_keep_within_scratch(void **state) {
    static float weights[DIM * DIM], router[EXPERTS * DIM], x[ROWS * DIM], y[ROWS * DIM];
    gyre_mixture mixture = {.routing = {GYRE_ROUTER_SIGMOID, EXPERTS, EXPERTS, 1, 1, 0, 1}, .expert_dim = DIM};
    gyre_expert all[EXPERTS];
    (void)state;
    for (int i = 0; i < DIM * DIM; i++)
        weights[i] = 0.01F;
    for (int i = 0; i < (EXPERTS - 1) * DIM; i++)
        router[i] = NAN;
    for (int i = 0; i < ROWS * DIM; i++)
        x[i] = 1;
    for (int i = 0; i < EXPERTS; i++)
        all[i] = (gyre_expert){map_of(weights, DIM, DIM), map_of(weights, DIM, DIM), map_of(weights, DIM, DIM)};
    const gyre_experts experts = {.router = map_of(router, EXPERTS, DIM), .expert = all};
    const size_t bytes = (size_t)gyre_experts_scratch(&mixture, DIM, ROWS) * sizeof(float);
    const size_t gemm_bytes = (size_t)gyre_experts_gemm_scratch(&mixture, &experts, ROWS, 1) * sizeof(float);
    float *scratch = guarded(bytes), *gemm_scratch = guarded(gemm_bytes);
    const gyre_experts_call call = {.mixture = &mixture,
                                    .experts = &experts,
                                    .activation = GYRE_ACTIVATION_SILU,
                                    .kernels = gyre_kernels_select(),
                                    .rows = ROWS,
                                    .model_dim = DIM,
                                    .x = x,
                                    .y = y,
                                    .scratch = scratch,
                                    .gemm_scratch = gemm_scratch};
    gyre_experts_run(&call);
    for (int i = 0; i < ROWS * DIM; i++)
        assert_true(isnan(y[i]));
    unguard(scratch, bytes);
    unguard(gemm_scratch, gemm_bytes);
}

/* -- configs -- */
/* The class default of the key that the file leaves out does not fit the other. */
static void test_default_count_past_experts(void **state) {
    gyre_error err = {0, ""};
    (void)state;
    json_t *fixture = synthetic_fixture("mixtral"), *config = json_object_get(fixture, "config");
    assert_int_equal(json_object_set_new(config, "num_local_experts", json_integer(1)), 0);
    assert_int_equal(json_object_del(config, "num_experts_per_tok"), 0);
    synthetic_write_folder(fixture, folder);
    assert_int_equal(gyre_model_check(folder, &err), GYRE_EFORMAT);
    if (!strstr(err.text, "num_experts_per_tok: 2 of 1 experts")) fail_msg("%s", err.text);
    json_decref(fixture);
}

/* -- experts in blocks of MXFP4 -- */
/* Writes the fixture with a tensor of another shape and center, or without it, and expects the same words from opening the
 * model and from the list of faults. */
static void refuses_packed(const char *tensor, const char *described, const char *says) {
    json_t *fixture = synthetic_fixture("gpt_oss_mxfp4"), *tensors = json_object_get(fixture, "tensors");
    gyre_weight_faults *faults = NULL;
    gyre_model *model = NULL;
    gyre_error err = {0, ""};
    assert_non_null(json_object_get(tensors, tensor));
    if (described)
        json_object_set_new(tensors, tensor, json_loads(described, 0, NULL));
    else
        json_object_del(tensors, tensor);
    synthetic_write_folder(fixture, folder);
    assert_int_equal(gyre_model_open(&model, folder, NULL, &err), GYRE_EFORMAT);
    if (!strstr(err.text, tensor) || !strstr(err.text, says)) fail_msg("%s", err.text);
    assert_ok(gyre_weight_faults_open(&faults, folder, NULL, 9, &err));
    assert_int_equal(faults->count, 1);
    assert_string_equal(faults->texts[0], err.text);
    gyre_weight_faults_free(faults);
    json_decref(fixture);
}

static void test_packed_experts_that_do_not_fit(void **state) {
    (void)state;
    const char *const blocks = "model.layers.0.mlp.experts.down_proj_blocks";
    const char *const scales = "model.layers.1.mlp.experts.gate_up_proj_scales";
    refuses_packed(scales, NULL, "no such tensor");
    refuses_packed(scales, "[[5, 192, 2], 250.0, 5.0]", "with which numbers are not finite");
    refuses_packed(scales, "[[5, 192, 3], 123.0, 2.0]", "U8 of 5 x 192 x 2 x 1 in 3");
    refuses_packed(blocks, "[[5, 64, 3, 15], 128.0, 128.0]", "U8 of 5 x 64 x 3 x 16 in 4");
    refuses_packed(blocks, "[[5, 64, 3], 128.0, 128.0]", "in 3 dimensions");
}

/* Their parameters are those of the same model in floats. */
static void test_packed_experts_are_counted(void **state) {
    gyre_weight_faults *faults = NULL;
    gyre_error err = {0, ""};
    (void)state;
    json_t *fixture = synthetic_fixture("gpt_oss_mxfp4"), *tensor;
    const char *name;
    int64_t parameters = 0;
    json_object_foreach(json_object_get(fixture, "tensors"), name, tensor) {
        int64_t count;
        free(synthetic_tensor(fixture, name, &count));
        parameters += strstr(name, "_blocks") ? 2 * count : strstr(name, "_scales") ? 0 : count;
    }
    synthetic_write_folder(fixture, folder);
    assert_ok(gyre_weight_faults_open(&faults, folder, NULL, 9, &err));
    assert_int_equal(faults->in_all, 0);
    assert_int_equal(faults->parameters, parameters);
    gyre_weight_faults_free(faults);
    json_decref(fixture);
}

/* -- GGUFs -- */
static void refuses_gguf(const char *name, const char *key, int64_t value, gyre_status status, const char *says) {
    json_t *fixture = synthetic_fixture(name);
    gyre_model *model = NULL;
    gyre_error err = {0, ""}, checked = {0, ""};
    json_object_set_new(json_object_get(json_object_get(fixture, "gguf"), "keys"), key, json_integer(value));
    synthetic_write_gguf(fixture, in_folder("model.gguf"));
    assert_int_equal(gyre_model_open(&model, in_folder("model.gguf"), NULL, &err), status);
    if (!strstr(err.text, says) || !strstr(err.text, "model.gguf")) fail_msg("%s: %s", key, err.text);
    if (strstr(err.text, key)) {
        assert_int_equal(gyre_model_check(in_folder("model.gguf"), &checked), status);
        assert_string_equal(checked.text, err.text);
    }
    json_decref(fixture);
}

static void test_experts_of_ggufs_that_do_not_fit(void **state) {
    (void)state;
    refuses_gguf("gemma", "gemma.expert_count", 8, GYRE_EUNSUPPORTED, "gemma.expert_count: experts of this architecture");
    refuses_gguf("qwen3_moe", "qwen3moe.expert_used_count", 7, GYRE_EFORMAT, "7 of 6 experts");
    refuses_gguf("qwen3_moe", "qwen3moe.expert_gating_func", 4, GYRE_EUNSUPPORTED, "4 is not computed");
    refuses_gguf("qwen3_moe", "qwen3moe.expert_group_count", 2, GYRE_EUNSUPPORTED, "a softmax are not run");
    refuses_gguf("deepseek_v3_fine", "deepseek2.expert_group_used_count", 1, GYRE_EFORMAT,
                 "3 of 8 experts in 1 of 4 groups");
    refuses_gguf("qwen3_moe", "qwen3moe.expert_count", 5, GYRE_EFORMAT, "ffn_gate_inp.weight: 6 x 24");
    refuses_gguf("qwen3_moe", "qwen3moe.expert_feed_forward_length", 19, GYRE_EFORMAT, "ffn_gate_exps.weight: 20 x 24");
    refuses_gguf("qwen3_moe", "qwen3moe.leading_dense_block_count", 1, GYRE_EFORMAT,
                 "blk.0.ffn_gate.weight: no such tensor");
    refuses_gguf("qwen2_moe", "qwen2moe.expert_shared_feed_forward_length", 27, GYRE_EFORMAT,
                 "ffn_gate_shexp.weight: 28 x 24");
    refuses_gguf("deepseek_v3_fine", "deepseek2.expert_gating_func", 1, GYRE_EUNSUPPORTED,
                 "deepseek2.expert_group_count: groups of");
    refuses_gguf("deepseek_v3_fine", "deepseek2.attention.kv_lora_rank", 11, GYRE_EFORMAT, "attn_kv_a_mqa.weight: 18 x 24");
    refuses_gguf("deepseek_v3_fine", "deepseek2.attention.value_length_mla", 7, GYRE_EFORMAT, "attn_v_b.weight: 4 x 8 x 12");
    refuses_gguf("deepseek_v3_fine", "deepseek2.rope.dimension_count", 18, GYRE_EFORMAT, "18 channels of heads of 16");
    refuses_gguf("qwen3_moe", "qwen3moe.nextn_predict_layers", 2, GYRE_EFORMAT, "all layers are of multi-token prediction");
}

static void test_experts_are_not_converted(void **state) {
    (void)state;
    json_t *fixture = synthetic_fixture("mixtral");
    gyre_error err = {0, ""};
    synthetic_write_gguf(fixture, in_folder("model.gguf"));
    json_decref(fixture);
    assert_int_equal(gyre_convert(in_folder("model.gguf"), in_folder("converted"), NULL, &err), GYRE_EUNSUPPORTED);
    if (!strstr(err.text, "expert_count: experts are not converted")) fail_msg("%s", err.text);
    assert_int_equal(remove(in_folder("model.gguf")), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_nan_logits_are_chosen),
                                       cmocka_unit_test(test_scores_of_zero),
                                       cmocka_unit_test(test_nan_logits_keep_within_scratch),
                                       cmocka_unit_test(test_default_count_past_experts),
                                       cmocka_unit_test(test_packed_experts_that_do_not_fit),
                                       cmocka_unit_test(test_packed_experts_are_counted),
                                       cmocka_unit_test(test_experts_of_ggufs_that_do_not_fit),
                                       cmocka_unit_test(test_experts_are_not_converted)};
    return cmocka_run_group_tests(tests, make_empty_folder, remove_folder);
}
