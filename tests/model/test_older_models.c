/* test_older_models.c: a program built with frozen copies of older gyre_reading.h, gyre_model.h and gyre_train.h
 * (tests/frozen) runs with the library of today.  Whatever lies behind an older struct does not change what a call does. */
#include "gyre/gyre_model.h" /* those of tests/frozen: cmake/tests.cmake puts them first */
#include "gyre/gyre_reading.h"
#include "gyre/gyre_train.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#ifndef GYRE_FROZEN_HEADER
#error "this program must see the frozen headers"
#endif

enum { COUNT = 3000, VOCAB = 256, READ = 40 };

/* Each call is made twice: with zeros behind the struct, and with memory that the library must take for absent. */
static const int tails[2] = {0, 0xff};
static gyre_error err;

static void *with_tail(const void *given, size_t size, int tail) {
    enum { TAIL = 256 };
    unsigned char *memory = malloc(size + TAIL);
    assert_non_null(memory);
    memcpy(memory, given, size);
    memset(memory + size, tail, TAIL);
    return memory;
}
#define WITH_TAIL(object, tail) with_tail(&(object), sizeof(object), tail)

static void fine(gyre_status status) {
    if (status) fail_msg("%s", err.text);
}

static int32_t ids[COUNT];
static const gyre_text text = {ids, COUNT, 1, 1, COUNT};

static int fill_text(void **state) {
    uint64_t random = 7;
    (void)state;
    for (int i = 0; i < COUNT; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        ids[i] = (int32_t)('a' + (random >> 33) % 26);
    }
    return 0;
}

static gyre_model_config small_config(void) {
    gyre_model_config config = GYRE_INIT(gyre_model_config);
    config.model_dim = 32, config.layers = 2, config.heads = 2, config.head_dim = 16, config.mlp_dim = 32;
    config.position.kind = GYRE_KIND_ROPE;
    config.position.trained_length = 64;
    return config;
}

static gyre_model *model_of(int tail) {
    gyre_model *model = NULL;
    const gyre_model_config config = small_config();
    gyre_model_config *given = WITH_TAIL(config, tail);
    fine(gyre_model_create(&model, given, 3, &err));
    free(given);
    return model;
}

static void model_and_context(void **state) {
    static float logits[2][READ * VOCAB];
    (void)state;
    for (int i = 0; i < 2; i++) {
        gyre_model *model = model_of(tails[i]);
        assert_int_equal(gyre_model_get_config(model)->mlp_dim, 32);
        gyre_context_options options = GYRE_INIT(gyre_context_options);
        gyre_context *context = NULL;
        options.max_tokens = READ;
        gyre_context_options *given = WITH_TAIL(options, tails[i]);
        fine(gyre_context_create(&context, model, given, &err));
        fine(gyre_context_forward(context, ids, READ, READ, logits[i], &err));
        assert_int_equal(gyre_context_tokens(context), READ);
        gyre_context_free(context);
        gyre_model_free(model);
        free(given);
    }
    assert_true(isfinite(logits[0][0]) && logits[0][0] != logits[0][1]);
    assert_memory_equal(logits[0], logits[1], sizeof logits[0]);
}

static void evaluation_and_passkeys(void **state) {
    gyre_eval_result eval[2];
    gyre_passkey_result passkey[2];
    (void)state;
    gyre_model *model = model_of(0);
    for (int i = 0; i < 2; i++) {
        gyre_eval_options options = GYRE_INIT(gyre_eval_options);
        options.context = 128, options.windows = 3;
        gyre_eval_options *given = WITH_TAIL(options, tails[i]);
        fine(gyre_evaluate(model, NULL, &text, given, &eval[i], NULL, &err));
        free(given);
        gyre_passkey_options keys = GYRE_INIT(gyre_passkey_options);
        keys.context = 128, keys.trials = 9, keys.keys = 3, keys.seed = 5;
        gyre_passkey_options *asked = WITH_TAIL(keys, tails[i]);
        fine(gyre_passkey(model, NULL, &text, asked, &passkey[i], NULL, &err));
        free(asked);
    }
    assert_int_equal(eval[0].windows, 3);
    assert_int_equal(eval[0].scored, 3 * 64);
    assert_true(eval[0].nats > 1 && eval[0].nats < 20);
    assert_true(eval[0].nats == eval[1].nats);
    assert_int_equal(passkey[0].trials, 9);
    assert_int_equal(passkey[0].windows, 3);
    assert_int_equal(passkey[0].right, passkey[1].right);
    gyre_model_free(model);
}

static void sampling(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        gyre_sampling options = GYRE_INIT(gyre_sampling);
        options.temperature = 1, options.top_k = 1; /* a poisoned count or share would draw another token */
        gyre_sampling *given = WITH_TAIL(options, tails[i]);
        float logits[4] = {0, 3, 1, 2};
        uint64_t random = 11;
        assert_int_equal(gyre_sample(logits, 4, given, &random), 1);
        free(given);
    }
}

static void training(void **state) {
    double loss[2];
    (void)state;
    for (int i = 0; i < 2; i++) {
        gyre_train_options options = GYRE_INIT(gyre_train_options);
        gyre_trainer *trainer = NULL;
        options.context = 32, options.batch = 2, options.steps = 3;
        options.model = small_config();
        gyre_train_options *given = WITH_TAIL(options, tails[i]);
        gyre_train_options_suggest(given);
        assert_int_equal(given->warmup, 100);
        given->warmup = 1;
        for (size_t b = 0; b < 256; b++) /* what suggest fills in ends with the struct */
            assert_int_equal(((unsigned char *)given)[sizeof *given + b], tails[i]);
        fine(gyre_trainer_create(&trainer, given, NULL, &text, NULL, &err));
        while (gyre_trainer_steps(trainer) < 3)
            fine(gyre_trainer_step(trainer, &loss[i], &err));
        assert_int_equal(gyre_trainer_get_options(trainer)->context, 32);
        gyre_trainer_free(trainer);
        free(given);
    }
    assert_true(loss[0] > 1 && loss[0] == loss[1]);
}

static void tasks(void **state) {
    int64_t right[2][32], asked[2][32];
    (void)state;
    gyre_model *model = model_of(0);
    for (int i = 0; i < 2; i++) {
        gyre_task_options options = GYRE_INIT(gyre_task_options);
        options.task = GYRE_TASK_POSGEN_COT, options.length = 32, options.sequences = 4, options.seed = 2;
        gyre_task_options *given = WITH_TAIL(options, tails[i]);
        fine(gyre_task_measure(model, NULL, given, right[i], asked[i], NULL, &err));
        free(given);
    }
    assert_int_equal(asked[0][31], 4);
    assert_memory_equal(right[0], right[1], sizeof right[0]);
    assert_memory_equal(asked[0], asked[1], sizeof asked[0]);
    gyre_model_free(model);
}

/* Options that name no change are refused or make a copy; a poisoned tail must not turn into options. */
static void conversion(void **state) {
    gyre_status status[2];
    char says[2][sizeof err.text];
    (void)state;
    for (int i = 0; i < 2; i++) {
        gyre_convert_options options = GYRE_INIT(gyre_convert_options);
        gyre_convert_options *given = WITH_TAIL(options, tails[i]);
        status[i] = gyre_convert("/nonexistent/model", "/nonexistent/copy", given, &err);
        memcpy(says[i], err.text, sizeof err.text);
        free(given);
    }
    assert_int_equal(status[0], GYRE_EIO);
    assert_int_equal(status[1], GYRE_EIO);
    assert_string_equal(says[0], says[1]);
}

/* The library owns a reading: its fields stay where they were, and what grows is at the end. */
static void readings(void **state) {
    static const char config[] = "{\"model_type\": \"llama\", \"hidden_size\": 64, \"num_attention_heads\": 4,"
                                 "\"num_hidden_layers\": 2, \"max_position_embeddings\": 2048, \"rope_theta\": 5000.0}";
    gyre_reading *reading = NULL;
    (void)state;
    fine(gyre_reading_parse(&reading, config, sizeof config - 1, "old", GYRE_PROFILE_HF_5, 0, &err));
    assert_string_equal(reading->path, "old");
    assert_string_equal(reading->model_type, "llama");
    assert_int_equal(reading->profile, GYRE_PROFILE_HF_5);
    assert_int_equal(reading->groups_count, 1);
    assert_int_equal(reading->warnings_count, 0);
    const gyre_layer_reading *group = reading->groups[0];
    assert_true(group->scale == 0.0 && group->softmax_multiplier == 1.0);
    assert_true(group->fields_count > 0);
    assert_int_equal(group->config.kind, GYRE_KIND_ROPE);
    assert_int_equal(group->config.head_dim, 16);
    assert_int_equal(group->config.trained_length, 2048);
    assert_true(group->config.rope.base == 5000);
    gyre_encoding *encoding = NULL;
    fine(gyre_encoding_create(&encoding, &group->config, NULL, &err));
    gyre_encoding_free(encoding);
    gyre_reading_free(reading);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(model_and_context),
        cmocka_unit_test(evaluation_and_passkeys),
        cmocka_unit_test(sampling),
        cmocka_unit_test(training),
        cmocka_unit_test(tasks),
        cmocka_unit_test(conversion),
        cmocka_unit_test(readings),
    };
    return cmocka_run_group_tests(tests, fill_text, NULL);
}
