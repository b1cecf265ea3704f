/* test_task.c: the sequences of PosGen and of copying against their definitions, the counts of measuring them, and training
 * on them. */
#include "gyre/gyre_research.h"
#include "gyre/gyre_train.h"
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LONG = 300, START = 17, TRIED = 200 };

/* -- sequences -- */
/* As the authors' code generates them: the list grows at its end, and the semi-recursive pointer advances after every second
 * symbol. */
static void published(gyre_task task, int count, int32_t *x) {
    int pointer = 0, used = 0;
    for (int l = 4; l < count; l++) {
        const int32_t near = x[l - 1] + x[l - 2] + x[l - 3];
        if (task == GYRE_TASK_POSGEN_RECURSIVE) x[l] = (near + x[l - 4]) % 17;
        if (task == GYRE_TASK_POSGEN_COT) x[l] = (near + x[0]) % 17;
        if (task != GYRE_TASK_POSGEN_SEMI) continue;
        x[l] = (near + x[pointer]) % 17;
        if (++used % 2 == 0) pointer++;
    }
}

static void test_posgen(void **state) {
    (void)state;
    for (int task = GYRE_TASK_POSGEN_RECURSIVE; task <= GYRE_TASK_POSGEN_SEMI; task++) {
        uint64_t random = 5;
        int seen[4][17] = {{0}};
        assert_int_equal(gyre_task_vocab((gyre_task)task), 18);
        for (int s = 0; s < TRIED; s++) {
            int32_t out[LONG + 1], expected[LONG];
            float weights[LONG + 1];
            gyre_task_sequence((gyre_task)task, LONG, 0, &random, out, weights);
            assert_int_equal(out[0], START);
            memcpy(expected, out + 1, 4 * sizeof *expected);
            for (int i = 0; i < 4; i++) {
                assert_in_range(expected[i], 0, 16);
                seen[i][expected[i]]++;
            }
            published((gyre_task)task, LONG, expected);
            assert_memory_equal(out + 1, expected, sizeof expected);
            for (int i = 0; i <= LONG; i++)
                assert_true(weights[i] == (i > 4 ? 1.0f : 0.0f));
        }
        /* In 200 draws of 17 symbols, a fair generator misses a given symbol once in 180 000 times. */
        for (int i = 0; i < 4; i++)
            for (int v = 0; v < 17; v++)
                assert_true(seen[i][v] > 0);
    }
}

/* The same first four symbols under three rules, which differ from the fifth symbol on. */
static void test_the_rules_differ(void **state) {
    (void)state;
    int32_t out[3][LONG + 1];
    for (int i = 0; i < 3; i++) {
        uint64_t random = 9;
        gyre_task_sequence((gyre_task)(GYRE_TASK_POSGEN_RECURSIVE + i), LONG, 0, &random, out[i], NULL);
    }
    for (int i = 0; i < 3; i++)
        assert_memory_equal(out[i], out[0], 6 * sizeof(int32_t)); /* x_4 is the sum of x_0 .. x_3 under all rules */
    assert_int_equal(out[1][6], out[2][6]);                       /* x_5: two rules still use x_0 */
    assert_memory_not_equal(out[0], out[1], sizeof out[0]);
    assert_memory_not_equal(out[1], out[2], sizeof out[0]);
    assert_memory_not_equal(out[0], out[2], sizeof out[0]);
}

static void test_copy(void **state) {
    (void)state;
    uint64_t random = 3;
    assert_int_equal(gyre_task_vocab(GYRE_TASK_COPY), 33);
    for (int distance = 1; distance <= LONG; distance += 13) {
        int32_t out[LONG + 1];
        float weights[LONG + 1];
        gyre_task_sequence(GYRE_TASK_COPY, LONG, distance, &random, out, weights);
        for (int i = 0; i <= LONG; i++) {
            assert_true(i % distance ? out[i] >= 0 && out[i] < 32 : out[i] == 32);
            if (i >= distance) assert_int_equal(out[i], out[i - distance]);
            assert_true(weights[i] == (i > distance ? 1.0f : 0.0f));
        }
    }
    int32_t out[2][65];
    random = 3;
    gyre_task_sequence(GYRE_TASK_COPY, 64, 40, &random, out[0], NULL);
    gyre_task_sequence(GYRE_TASK_COPY, 64, 40, &random, out[1], NULL);
    assert_memory_not_equal(out[0], out[1], sizeof out[0]); /* the state went on */
}

static void test_no_task(void **state) {
    (void)state;
    uint64_t random = 3;
    int32_t out[17] = {77};
    assert_int_equal(gyre_task_vocab(GYRE_TASK_TEXT), 0);
    assert_int_equal(gyre_task_vocab((gyre_task)99), 0);
    gyre_task_sequence(GYRE_TASK_TEXT, 16, 8, &random, out, NULL);
    assert_int_equal(out[0], 77);
    assert_int_equal(random, 3);
}

/* -- training -- */
static gyre_train_options small_run(gyre_task task) {
    gyre_train_options o = GYRE_INIT(gyre_train_options);
    gyre_train_options_suggest(&o);
    o.model.vocab = gyre_task_vocab(task);
    o.model.model_dim = 16;
    o.model.layers = 1;
    o.model.heads = o.model.kv_heads = 2;
    o.model.head_dim = 8;
    o.model.mlp_dim = 16;
    o.model.position.kind = GYRE_KIND_ROPE;
    o.model.position.trained_length = o.context = 32;
    o.batch = 4;
    o.steps = 12;
    o.warmup = 2;
    o.task = task;
    return o;
}

static gyre_trainer *trainer_of(gyre_task task) {
    const gyre_train_options o = small_run(task);
    gyre_trainer *t = NULL;
    assert_ok(gyre_trainer_create(&t, &o, NULL, NULL, NULL, NULL));
    return t;
}

/* Training sequences follow from step and index, so that each is new. All distances that a test within the length needs
 * occur. */
static void test_training_sequences(void **state) {
    (void)state;
    int seen[33] = {0};
    const gyre_train_options o = small_run(GYRE_TASK_COPY);
    int32_t out[33], before[33] = {0};
    float weights[33];
    for (int i = 0; i < 400; i++) {
        gyre_train_sequence(NULL, &o, (gyre_train_place){i / 4, i % 4}, 33, out, weights);
        assert_memory_not_equal(out, before, sizeof out);
        memcpy(before, out, sizeof out);
        int distance = 1;
        while (distance < 33 && out[distance] != 32)
            distance++;
        assert_in_range(distance, GYRE_TASK_COPY_SPAN, 32 - GYRE_TASK_COPY_SPAN);
        seen[distance]++;
        for (int t = 0; t < 33; t++)
            assert_true(weights[t] == (t > distance ? 1.0f : 0.0f));
    }
    for (int d = GYRE_TASK_COPY_SPAN; d <= 32 - GYRE_TASK_COPY_SPAN; d++)
        assert_true(seen[d] > 0);
    gyre_train_sequence(NULL, &o, (gyre_train_place){3, 1}, 33, before, weights);
    gyre_train_sequence(NULL, &o, (gyre_train_place){3, 1}, 33, out, weights);
    assert_memory_equal(out, before, sizeof out);
}

static void step_on(gyre_trainer *t, int64_t until) {
    double loss;
    while (gyre_trainer_steps(t) < until)
        assert_ok(gyre_trainer_step(t, &loss, NULL));
}

/* Two trainers have learnt the same to the bit: the saved weights are equal. */
static void same_weights(const gyre_trainer *a, const gyre_trainer *b, const char *folder) {
    static char bytes[2][1 << 16];
    const gyre_trainer *const trainers[2] = {a, b};
    size_t counts[2];
    for (int i = 0; i < 2; i++) {
        char path[64], file[96];
        snprintf(path, sizeof path, "%s/end-%d", folder, i);
        snprintf(file, sizeof file, "%s/model.safetensors", path);
        assert_ok(gyre_trainer_save(trainers[i], path, NULL));
        FILE *stream = fopen(file, "rb");
        assert_non_null(stream);
        counts[i] = fread(bytes[i], 1, sizeof bytes[i], stream);
        fclose(stream);
    }
    assert_true(counts[0] > 1000 && counts[0] < sizeof bytes[0] && counts[0] == counts[1]);
    assert_memory_equal(bytes[0], bytes[1], counts[0]);
}

/* Stopped half way and resumed from its checkpoint, which contains the task: the same weights. */
static void test_goes_on(void **state) {
    (void)state;
    char folder[] = "/tmp/gyre-task-XXXXXX", command[64], path[64];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/run", folder);
    gyre_trainer *whole = trainer_of(GYRE_TASK_POSGEN_SEMI), *half = trainer_of(GYRE_TASK_POSGEN_SEMI), *rest = NULL;
    step_on(whole, 12);
    step_on(half, 6);
    assert_ok(gyre_trainer_save(half, path, NULL));
    assert_ok(gyre_trainer_open(&rest, path, NULL, NULL, NULL));
    assert_int_equal(gyre_trainer_get_options(rest)->task, GYRE_TASK_POSGEN_SEMI);
    assert_int_equal(gyre_trainer_steps(rest), 6);
    step_on(rest, 12);
    same_weights(whole, rest, folder);
    double losses[2] = {0, 0};
    gyre_trainer *again[2] = {whole, rest};
    for (int i = 0; i < 2; i++)
        assert_int_equal(gyre_trainer_step(again[i], &losses[i], NULL), GYRE_EINVAL); /* complete */
    gyre_trainer_free(whole);
    gyre_trainer_free(half);
    gyre_trainer_free(rest);
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

static void test_wrong_runs(void **state) {
    (void)state;
    gyre_trainer *t = NULL;
    gyre_error err = {0, ""};
    gyre_train_options o = small_run(GYRE_TASK_COPY);
    o.model.vocab = 32;
    assert_int_equal(gyre_trainer_create(&t, &o, NULL, NULL, NULL, &err), GYRE_EINVAL);
    assert_non_null(strstr(err.text, "vocabulary: 32"));
    o = small_run(GYRE_TASK_COPY);
    o.task = (gyre_task)9;
    assert_int_equal(gyre_trainer_create(&t, &o, NULL, NULL, NULL, &err), GYRE_EINVAL);
    assert_non_null(strstr(err.text, "task: 9"));
    o.task = GYRE_TASK_TEXT;
    o.retrieval_fraction = 0;
    assert_int_equal(gyre_trainer_create(&t, &o, NULL, NULL, NULL, &err), GYRE_EINVAL);
    assert_non_null(strstr(err.text, "text: missing"));
    assert_null(t);
}

/* -- measuring -- */
/* Against reading the same sequences token by token. */
static void test_measure(void **state) {
    (void)state;
    enum { LENGTH = 40, COUNT = 25 };
    static const gyre_task tasks[] = {GYRE_TASK_POSGEN_COT, GYRE_TASK_COPY};
    for (int k = 0; k < 2; k++) {
        gyre_trainer *t = trainer_of(tasks[k]);
        step_on(t, 12);
        const gyre_model *model = gyre_trainer_get_model(t);
        const int64_t vocab = gyre_task_vocab(tasks[k]);
        int64_t right[LENGTH], asked[LENGTH], expected[LENGTH] = {0}, total = 0;
        gyre_task_options o = GYRE_INIT(gyre_task_options);
        o.task = tasks[k];
        o.length = LENGTH;
        o.sequences = COUNT;
        o.seed = 6;
        assert_ok(gyre_task_measure(model, &o, right, asked, NULL, NULL));
        gyre_context *reader = NULL;
        uint64_t random = 6;
        float logits[64];
        assert_ok(gyre_context_create(
            &reader, model, &(gyre_context_options){.size = sizeof(gyre_context_options), .max_tokens = LENGTH}, NULL));
        for (int s = 0; s < COUNT; s++) {
            int32_t tokens[LENGTH + 1];
            gyre_task_sequence(tasks[k], LENGTH, LENGTH - GYRE_TASK_COPY_SPAN, &random, tokens, NULL);
            gyre_context_reset(reader);
            for (int i = 0; i < LENGTH; i++) {
                int best = 0;
                assert_ok(gyre_context_forward(reader, tokens + i, 1, 1, logits, NULL));
                for (int v = 1; v < vocab; v++)
                    if (logits[v] > logits[best]) best = v;
                expected[i] += best == tokens[i + 1];
            }
        }
        for (int i = 0; i < LENGTH; i++) {
            const int determined = tasks[k] == GYRE_TASK_COPY ? i >= LENGTH - GYRE_TASK_COPY_SPAN : i >= 4;
            assert_int_equal(asked[i], determined ? COUNT : 0);
            assert_int_equal(right[i], determined ? expected[i] : 0);
            total += right[i];
        }
        assert_true(total > 0);
        gyre_context_free(reader);
        gyre_trainer_free(t);
    }
}

static void test_measure_refuses(void **state) {
    (void)state;
    gyre_trainer *t = trainer_of(GYRE_TASK_POSGEN_COT);
    const gyre_model *model = gyre_trainer_get_model(t);
    int64_t right[64] = {5}, asked[64] = {5};
    static const struct {
        gyre_task task;
        int64_t length, sequences;
        const char *says;
    } bad[] = {{GYRE_TASK_TEXT, 64, 1, "task: 0"},
               {(gyre_task)-1, 64, 1, "task: -1"},
               {GYRE_TASK_POSGEN_COT, 15, 1, "length 15"},
               {GYRE_TASK_POSGEN_COT, 64, -1, "sequences -1"},
               {GYRE_TASK_POSGEN_COT, -1, 1, "length -1"},
               {GYRE_TASK_POSGEN_COT, 64, (int64_t)1 << 40, "sequences"},
               {GYRE_TASK_COPY, 64, 1, "vocabulary: the model"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        gyre_task_options o = GYRE_INIT(gyre_task_options);
        gyre_error err = {0, ""};
        o.task = bad[i].task;
        o.length = bad[i].length;
        o.sequences = bad[i].sequences;
        assert_int_equal(gyre_task_measure(model, &o, right, asked, NULL, &err), GYRE_EINVAL);
        if (!strstr(err.text, bad[i].says)) fail_msg("\"%s\" lacks \"%s\"", err.text, bad[i].says);
        assert_true(right[0] == 5 && asked[0] == 5);
    }
    gyre_task_options o = GYRE_INIT(gyre_task_options);
    o.size = 1;
    assert_int_equal(gyre_task_measure(model, &o, right, asked, NULL, NULL), GYRE_EINVAL);
    gyre_trainer_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_posgen),
        cmocka_unit_test(test_the_rules_differ),
        cmocka_unit_test(test_copy),
        cmocka_unit_test(test_no_task),
        cmocka_unit_test(test_training_sequences),
        cmocka_unit_test(test_goes_on),
        cmocka_unit_test(test_wrong_runs),
        cmocka_unit_test(test_measure),
        cmocka_unit_test(test_measure_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
