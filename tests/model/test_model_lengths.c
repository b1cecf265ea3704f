/* test_model_lengths.c: models whose frequencies depend on the context, with gyre eval: each context as in a model opened
 * for it. */
#include "make_synthetic_model.h"
#include "run_command.h"

#include <math.h>

enum { TOKENS_COUNT = 3000, VOCAB = 61, WINDOWS_READ = 3 };

static int32_t ids[TOKENS_COUNT];

static void write_ids(const char *name) {
    test_random random = {3};
    FILE *file = fopen(in_folder(name), "w");
    assert_non_null(file);
    for (int i = 0; i < TOKENS_COUNT; i++) {
        ids[i] = (int32_t)((test_next(&random) >> 33) % VOCAB);
        assert_true(fprintf(file, "%d\n", (int)ids[i]) > 0);
    }
    assert_int_equal(fclose(file), 0);
}

/* Perplexity of the model as an engine started for this context would compute it. */
static double opened_for(const char *name, gyre_profile profile, int64_t context) {
    gyre_model *model = NULL;
    gyre_error err = {0, ""};
    gyre_eval_options options = GYRE_INIT(gyre_eval_options);
    gyre_eval_result result;
    const gyre_text text = {.ids = ids, .count = TOKENS_COUNT};
    options.context = context;
    options.windows = WINDOWS_READ;
    if (gyre_model_open(&model, in_folder(name),
                        GYRE_ARGS(gyre_reading_options, .profile = profile, .context_length = context), &err))
        fail_msg("%s", err.text);
    if (gyre_evaluate(model, &text, &options, &result, NULL, &err)) fail_msg("%s", err.text);
    gyre_model_free(model);
    return exp(result.nats);
}

static void check(const char *name, const char *as, gyre_profile profile) {
    static const int64_t contexts[] = {64, 512}; /* within the original 256 tokens, and beyond */
    char line[200];
    snprintf(line, sizeof line, "eval @%s%s --ids @ids --contexts 64,512 --windows 3 --methods none --json", name, as);
    json_t *root = run_json(line);
    const json_t *results = json_object_get(root, "results");
    assert_int_equal(json_array_size(results), 2);
    for (size_t i = 0; i < 2; i++)
        test_close(test_number(json_array_get(results, i), "perplexity"), opened_for(name, profile, contexts[i]), 1e-9,
                   line);
    json_decref(root);
}

static void longrope_by_context(void **state) {
    (void)state;
    json_t *fixture = synthetic_fixture("phi3_short");
    assert_int_equal(mkdir(in_folder("phi3"), 0777), 0);
    synthetic_write_folder(fixture, in_folder("phi3"));
    synthetic_write_gguf(fixture, in_folder("phi3.gguf"));
    json_decref(fixture);
    write_ids("ids");
    check("phi3", "", GYRE_PROFILE_HF_5);
    check("phi3", " --as vllm", GYRE_PROFILE_VLLM);
    check("phi3", " --as llama.cpp", GYRE_PROFILE_LLAMA_CPP);
    check("phi3.gguf", "", GYRE_PROFILE_LLAMA_CPP);
    /* The lists differ enough that a mix-up would be seen. */
    assert_true(fabs(opened_for("phi3", GYRE_PROFILE_HF_5, 64) - opened_for("phi3.gguf", GYRE_PROFILE_LLAMA_CPP, 64)) <
                1e-3);
}

/* Dynamic NTK: the base grows with the context beyond the 16 trained tokens. */
static void dynamic_by_context(void **state) {
    (void)state;
    json_t *fixture = synthetic_fixture("llama_dynamic");
    assert_int_equal(mkdir(in_folder("dynamic"), 0777), 0);
    synthetic_write_folder(fixture, in_folder("dynamic"));
    json_decref(fixture);
    write_ids("ids");
    check("dynamic", "", GYRE_PROFILE_HF_5);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(longrope_by_context), cmocka_unit_test(dynamic_by_context)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
