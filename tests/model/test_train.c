/* test_train.c: the gradient of the whole model, and runs that are equal to the last bit. */
#include "gyre/gyre_research.h"
#include "model/model.h"
#include "model/ops/float_buffer.h"
#include "naive_decoder.h"
#include "support.h"
#include "train/backprop.h"
#include "train/trainer.h"

#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LENGTH = 12, SEQUENCES = 2, VOCAB = 32 };

static gyre_model_config tiny(gyre_kind kind) {
    gyre_model_config c = gyre_model_config_default();
    c.vocab = VOCAB;
    c.model_dim = 16;
    c.layers = 2;
    c.heads = 4;
    c.kv_heads = 2;
    c.head_dim = 4;
    c.mlp_dim = 24;
    c.position.kind = kind;
    c.position.trained_length = c.position.input.positions = LENGTH;
    return c;
}

static float token_weights[SEQUENCES * (LENGTH + 1)];

/* -- gradient -- */
static double loss_at(const gyre_model *m, double *w, int64_t i, double value, const int32_t *tokens) {
    const double kept = w[i];
    double loss = 0;
    w[i] = value;
    const naive d = {m, m->encoding, w, LENGTH, 0, NULL, NULL};
    for (int s = 0; s < SEQUENCES; s++)
        loss += naive_loss(&d, tokens + s * (LENGTH + 1), token_weights + s * (LENGTH + 1));
    w[i] = kept;
    return loss;
}

/* Central differences of the double-precision model, at weights of every tensor.  The bound is a part of the largest
 * gradient, and of PER_TENSOR times the largest of the tensor. */
enum { PER_TENSOR = 30 };
static void check_gradient(gyre_model *m, const char *what) {
    test_random r = {21};
    int32_t tokens[SEQUENCES * (LENGTH + 1)];
    for (int i = 0; i < SEQUENCES * (LENGTH + 1); i++)
        tokens[i] = (int32_t)(test_next(&r) % VOCAB);
    for (int i = 0; i < SEQUENCES * (LENGTH + 1); i++)
        token_weights[i] = (float)(i % 3);
    naive_perturb(m, 0.2, &r);
    double *w = naive_weights(m), loss = 0;
    float *gradient = gyre_alloc_floats(m->weight_count);
    gyre_layer_tables tables;
    gyre_backprop b;
    const gyre_microbatch lesson = {tokens, token_weights, 1};
    assert_ok(gyre_layer_tables_create(&tables, m, m->encoding, NULL));
    assert_ok(gyre_backprop_create(&b, &tables, SEQUENCES, LENGTH, NULL));
    assert_ok(gyre_backprop_run(&b, &lesson, &loss, gradient));
    gyre_backprop_finish(&b, gradient);
    test_close(loss, loss_at(m, w, 0, w[0], tokens), 1e-5 * loss, "loss");
    double scale = 0, bound = naive_error(m->encoding) > 1e-4 ? 1e-4 : 1e-5;
    for (int64_t i = 0; i < m->weight_count; i++)
        scale = fmax(scale, fabs((double)gradient[i]));
    for (int64_t t = 0; t < gyre_tensor_count(&m->layout); t++) {
        const gyre_tensor tensor = gyre_tensor_at(&m->layout, t);
        const int64_t count = tensor.shape[0] * tensor.shape[1];
        double most = 0;
        for (int64_t i = 0; i < count; i++)
            most = fmax(most, fabs((double)gradient[tensor.offset + i]));
        const int unused = m->config.shared_tables && tensor.table >= 0 && strstr(tensor.name, "layers.1");
        if (unused && most == 0) continue;
        if (unused || !(most > 1e-4 * scale)) fail_msg("%s: %s has no gradient", what, tensor.name);
        const int samples = gyre_head_part_of_tensor(tensor.name) ? 40 : 6;
        for (int k = 0; k < samples; k++) {
            const int64_t i = tensor.offset + (int64_t)(test_next(&r) % (uint64_t)count);
            const double h = 1e-5,
                         slope = (loss_at(m, w, i, w[i] + h, tokens) - loss_at(m, w, i, w[i] - h, tokens)) / (2 * h);
            if (fabs((double)gradient[i] - slope) > bound * fmin(scale, PER_TENSOR * most))
                fail_msg("%s: %s[%lld]: %g, not %g", what, tensor.name, (long long)(i - tensor.offset), (double)gradient[i],
                         slope);
        }
    }
    gyre_backprop_free(&b);
    gyre_layer_tables_free(&tables);
    free(gradient);
    free(w);
}

static void check_model(const gyre_model_config *c) {
    gyre_model *m = NULL;
    gyre_error err;
    assert_ok(gyre_model_create(&m, c, 3, &err));
    check_gradient(m, gyre_kind_name(c->position.kind));
    gyre_model_free(m);
}

static void gradients(void **state) {
    (void)state;
    gyre_model_config c = tiny(GYRE_KIND_NOPE);
    for (int i = 0; naive_case(i, LENGTH, &c.position); i++)
        check_model(&c);
    c = tiny(GYRE_KIND_ROPE);
    c.position.rope.scaling = GYRE_SCALING_YARN;
    c.position.rope.factor = 4;
    check_model(&c);
    for (int i = 0; naive_experiment(i, &c); i++)
        check_model(&c);
    c = tiny(GYRE_KIND_ROPE);
    c.model_dim = 32; /* wider than the heads of a key head, and than all heads */
    for (int i = 0; i < NAIVE_PARTS; i++) {
        naive_part_config(&naive_parts[i], 1, &c);
        check_model(&c);
    }
}

/* -- runs -- */
static gyre_text text_of(int32_t *ids, int64_t count) {
    test_random r = {2};
    for (int64_t i = 0; i < count; i++)
        ids[i] = (int32_t)('a' + test_next(&r) % 6);
    return (gyre_text){.ids = ids, .count = count, .hash = 77, .files = 1};
}

static gyre_train_options small_run(gyre_kind kind) {
    gyre_train_options o = GYRE_INIT(gyre_train_options);
    gyre_train_options_suggest(&o);
    o.model = tiny(kind);
    o.model.position.score.max_distance = 24;
    o.model.vocab = 256;
    o.context = 64;
    o.model.position.trained_length = o.model.position.input.positions = 64;
    o.batch = 8;
    o.steps = 12;
    o.warmup = 3;
    return o;
}

static gyre_trainer *trainer_of(const gyre_train_options *o, const gyre_text *text, const gyre_exec *exec) {
    gyre_trainer *t = NULL;
    gyre_error err;
    assert_ok(gyre_trainer_create(&t, o, NULL, text, exec, &err));
    return t;
}

static void run_to(gyre_trainer *t, int64_t step, double *loss) {
    gyre_error err;
    while (gyre_trainer_steps(t) < step)
        assert_ok(gyre_trainer_step(t, loss, &err));
}

static void same_weights(const gyre_trainer *a, const gyre_trainer *b) {
    assert_int_equal(a->model->weight_count, b->model->weight_count);
    assert_memory_equal(a->model->weights, b->model->weights, (size_t)a->model->weight_count * sizeof(float));
}

static void check_threads(const gyre_train_options *o, const gyre_text *text) {
    gyre_trainer *one = trainer_of(o, text, NULL);
    double loss = 0, first = 0;
    run_to(one, 1, &first);
    run_to(one, 6, &loss);
    for (int threads = 2; threads <= 9; threads += 3) {
        gyre_pool *pool = NULL;
        gyre_error err;
        double other = 0;
        assert_ok(gyre_pool_create(&pool, threads, &err));
        const gyre_exec exec = gyre_pool_exec(pool);
        gyre_trainer *t = trainer_of(o, text, &exec);
        run_to(t, 6, &other);
        same_weights(one, t);
        assert_memory_equal(&loss, &other, sizeof loss);
        gyre_trainer_free(t);
        gyre_pool_free(pool);
    }
    run_to(one, 12, &loss);
    assert_true(loss < first); /* it learns */
    gyre_error err;
    assert_int_equal(gyre_trainer_step(one, &loss, &err), GYRE_EINVAL);
    gyre_trainer_free(one);
}

typedef struct with_part {
    gyre_kind kind;
    int64_t parts;
} with_part;
enum { OTHER_PARTS = 4, PARTS = OTHER_PARTS + NAIVE_PARTS };

/* out = the layers of run i: the parts that make queries and keys, and others. */
static with_part with_part_at(int i) {
    static const with_part others[OTHER_PARTS] = {{GYRE_KIND_NOPE, GYRE_LAYER_PART_FORGET_GATES},
                                                  {GYRE_KIND_NOPE, GYRE_LAYER_PART_CONTEXTUAL},
                                                  {GYRE_KIND_KERPLE, GYRE_LAYER_PART_ADAPTIVE},
                                                  {GYRE_KIND_FIRE, GYRE_LAYER_PART_ADAPTIVE}};
    return i < OTHER_PARTS ? others[i] : (with_part){GYRE_KIND_ROPE, naive_parts[i - OTHER_PARTS].parts};
}

static gyre_train_options run_with_part(int i) {
    const with_part part = with_part_at(i);
    gyre_train_options o = small_run(part.kind);
    o.model.layer_parts = part.parts;
    return o;
}

static void any_threads(void **state) {
    (void)state;
    int32_t ids[2000];
    const gyre_text text = text_of(ids, 2000);
    gyre_train_options o = small_run(GYRE_KIND_ROPE);
    check_threads(&o, &text);
    o = small_run(GYRE_KIND_DEBERTA); /* computed tables, gathered over the micro-batches of a group */
    o.batch = 32;
    check_threads(&o, &text);
    for (int i = 0; i < PARTS; i++) {
        o = run_with_part(i);
        check_threads(&o, &text);
    }
}

/* Each tensor changes, and the loss falls. */
static void check_learns(const gyre_train_options *o, const gyre_text *text) {
    gyre_trainer *t = trainer_of(o, text, NULL);
    float *before = malloc((size_t)t->model->weight_count * sizeof *before);
    memcpy(before, t->model->weights, (size_t)t->model->weight_count * sizeof *before);
    double loss, first;
    run_to(t, 1, &first);
    run_to(t, o->steps, &loss);
    if (!(loss < first)) fail_msg("%s: %g, then %g", gyre_kind_name(o->model.position.kind), first, loss);
    for (int64_t k = 0; k < gyre_tensor_count(&t->model->layout); k++) {
        const gyre_tensor at = gyre_tensor_at(&t->model->layout, k);
        const size_t bytes = (size_t)(at.shape[0] * at.shape[1]) * sizeof *before;
        if (memcmp(before + at.offset, t->model->weights + at.offset, bytes) == 0) fail_msg("%s: stood still", at.name);
    }
    free(before);
    gyre_trainer_free(t);
}

static void every_kind_learns(void **state) {
    (void)state;
    int32_t ids[2000];
    const gyre_text text = text_of(ids, 2000);
    gyre_train_options o = small_run(GYRE_KIND_NOPE);
    o.retrieval_fraction = 0;
    for (int i = 0; naive_case(i, 64, &o.model.position); i++)
        check_learns(&o, &text);
    for (int i = 0; i < PARTS; i++) {
        o = run_with_part(i);
        check_learns(&o, &text);
    }
}

/* Phases that begin at both ends of -2 pi .. 0 stay inside. */
static void phases_stay_within_bounds(void **state) {
    (void)state;
    int32_t ids[2000];
    const gyre_text text = text_of(ids, 2000);
    gyre_train_options o = small_run(GYRE_KIND_ROPE);
    o.model.layer_parts = GYRE_LAYER_PART_POLAR;
    gyre_trainer *t = trainer_of(&o, &text, NULL);
    double loss;
    int least = 0, most = 0;
    for (int i = 0; i < 16; i++)
        t->model->weights[gyre_layer_tensor_offset(&t->model->layout, i / 8, GYRE_WEIGHT_PART) + i % 8] =
            i % 2 ? -0.001F : -6.2831F;
    run_to(t, o.steps, &loss);
    for (int64_t l = 0; l < 2; l++)
        for (int i = 0; i < 8; i++) {
            const double phase =
                (double)t->model->weights[gyre_layer_tensor_offset(&t->model->layout, l, GYRE_WEIGHT_PART) + i];
            assert_true(phase >= -2 * acos(-1) && phase <= 0);
            least += phase < -6.28318;
            most += phase == 0;
        }
    assert_true(least > 0 && most > 0);
    gyre_trainer_free(t);
}

/* Frequencies begin as those of RoPE, in every head. */
static void frequencies_begin_as_those_of_rope(void **state) {
    (void)state;
    gyre_model_config c = tiny(GYRE_KIND_ROPE);
    gyre_model *m = NULL;
    c.layer_parts = GYRE_LAYER_PART_FREQUENCIES;
    c.position.rope.base = 100;
    assert_ok(gyre_model_create(&m, &c, 3, NULL));
    for (int64_t l = 0; l < c.layers; l++)
        for (int64_t i = 0; i < c.kv_heads * 2; i++)
            test_close((double)m->weights[gyre_layer_tensor_offset(&m->layout, l, GYRE_WEIGHT_PART) + i],
                       pow(100, -(double)(i % 2) / 2), 1e-7, "frequency");
    gyre_model_free(m);
}

/* Series begin as the released code's: term i step of pair i is 1, the others 0, and all have a normal number added, of
 * Xavier's deviation for [heads][terms][pairs] times 0.3; those of cosines and sines differ.  Embeddings begin at 0. */
static void series_begin_as_released(void **state) {
    (void)state;
    enum { HEADS = 8, DIM = 128, TERMS = 46, SERIES = 32, STEP = 2, NUMBERS = HEADS * TERMS * SERIES };
    gyre_model_config c = tiny(GYRE_KIND_ROPE);
    gyre_model *m = NULL;
    c.heads = c.kv_heads = HEADS;
    c.head_dim = DIM;
    c.layer_parts = GYRE_LAYER_PART_FOURIER;
    c.position.trained_length = 4096; /* 10000^(-2 t / 128) >= 2 pi / 4096 for t up to 45 */
    assert_ok(gyre_model_create(&m, &c, 3, NULL));
    const float *cosines = m->weights + gyre_layer_tensor_offset(&m->layout, 1, GYRE_WEIGHT_PART);
    const float *sines = m->weights + gyre_layer_tensor_offset(&m->layout, 1, GYRE_WEIGHT_PART + 1);
    assert_int_equal(sines - cosines, NUMBERS);
    double sum[2] = {0, 0}, squares[2] = {0, 0}, products = 0;
    for (int64_t h = 0; h < HEADS; h++)
        for (int64_t t = 0; t < TERMS; t++)
            for (int64_t i = 0; i < SERIES; i++) {
                const int64_t at = (h * TERMS + t) * SERIES + i;
                const double one = t == STEP * i, a = (double)cosines[at] - one, b = (double)sines[at] - one;
                sum[0] += a, sum[1] += b;
                squares[0] += a * a, squares[1] += b * b, products += a * b;
            }
    const double deviation = 0.3 * sqrt(2.0 / ((TERMS + HEADS) * SERIES));
    for (int i = 0; i < 2; i++) {
        test_close(sum[i] / NUMBERS, 0, 5 * deviation / sqrt(NUMBERS), "mean");
        test_close(sqrt(squares[i] / NUMBERS), deviation, 0.03 * deviation, "deviation");
    }
    test_close(products / NUMBERS, 0, 5 * deviation * deviation / sqrt(NUMBERS), "cosines and sines apart");
    gyre_model_free(m);
    c = tiny(GYRE_KIND_NOPE);
    c.layer_parts = GYRE_LAYER_PART_CONTEXTUAL;
    c.position.trained_length = 4096;
    assert_ok(gyre_model_create(&m, &c, 3, NULL));
    assert_int_equal(m->config.position.score.max_positions, 64);
    for (int64_t i = 0; i < 64 * c.head_dim; i++)
        assert_true(m->weights[gyre_layer_tensor_offset(&m->layout, 1, GYRE_WEIGHT_CONTEXTUAL) + i] == 0);
    gyre_model_free(m);
}

/* Numbers of the network begin with the deviation of PyTorch's linear layers, which is uniform up to 1 / sqrt(inputs): 8
 * inputs of hidden units and their biases, 512 of outputs.  Units of layers differ. */
static void networks_begin_as_linear_layers(void **state) {
    (void)state;
    enum { UNITS = 512, INPUTS = 8 };
    gyre_model_config c = tiny(GYRE_KIND_ALIBI);
    gyre_model *m = NULL;
    c.layer_parts = GYRE_LAYER_PART_ADAPTIVE;
    c.position.score.hidden_units = UNITS;
    assert_ok(gyre_model_create(&m, &c, 3, NULL));
    for (int i = 0; i < 3; i++) {
        static const int tensors[] = {GYRE_WEIGHT_ADAPTIVE_HIDDEN, GYRE_WEIGHT_ADAPTIVE_HIDDEN_BIAS,
                                      GYRE_WEIGHT_ADAPTIVE_OUTPUT};
        const float *w = m->weights + gyre_layer_tensor_offset(&m->layout, 1, tensors[i]);
        const int64_t count = i == 0 ? UNITS * INPUTS : i == 1 ? UNITS : c.heads * UNITS;
        const double deviation = 1 / sqrt(3.0 * (i == 2 ? UNITS : INPUTS));
        double sum = 0, squares = 0;
        for (int64_t k = 0; k < count; k++)
            sum += (double)w[k], squares += (double)w[k] * (double)w[k];
        test_close(sum / (double)count, 0, 5 * deviation / sqrt((double)count), "mean");
        test_close(sqrt(squares / (double)count), deviation, 4 * deviation / sqrt((double)count), "deviation");
        assert_true(w[0] != m->weights[gyre_layer_tensor_offset(&m->layout, 0, tensors[i])]);
    }
    gyre_model_free(m);
    c.position.score.hidden_units = 0;
    assert_ok(gyre_model_create(&m, &c, 3, NULL));
    assert_int_equal(m->config.position.score.hidden_units, 32);
    gyre_model_free(m);
}

/* Forget gates begin with a bias of 0: half of what was is forgotten with each token, but for what w_h . x adds. */
static void gates_begin_without_bias(void **state) {
    (void)state;
    gyre_model_config c = tiny(GYRE_KIND_NOPE);
    gyre_model *m = NULL;
    c.layer_parts = GYRE_LAYER_PART_FORGET_GATES;
    assert_ok(gyre_model_create(&m, &c, 3, NULL));
    for (int64_t l = 0; l < c.layers; l++)
        for (int64_t h = 0; h < c.heads; h++)
            assert_true(m->weights[gyre_layer_tensor_offset(&m->layout, l, GYRE_WEIGHT_FORGET_GATE_BIAS) + h] == 0 &&
                        m->weights[gyre_layer_tensor_offset(&m->layout, l, GYRE_WEIGHT_FORGET_GATE) + h * c.model_dim] != 0);
    gyre_model_free(m);
}

/* Steps large enough to leave any range: entries that the papers bound stay in their range. */
static void stays_within_bounds(void **state) {
    (void)state;
    int32_t ids[2000];
    const gyre_text text = text_of(ids, 2000);
    gyre_train_options o = small_run(GYRE_KIND_KERPLE);
    o.model.position.score.decay = GYRE_DECAY_POWER;
    o.learning_rate = 0.9;
    o.warmup = 0;
    gyre_trainer *t = trainer_of(&o, &text, NULL);
    double loss;
    int least = 0, most = 0;
    run_to(t, o.steps, &loss);
    for (int64_t l = 0; l < 2; l++) {
        const float *r =
            t->model->weights +
            gyre_layer_tensor_offset(&t->model->layout, l, GYRE_WEIGHT_FIRST_TABLE + GYRE_TABLE_BIAS - GYRE_TABLE_QUERY);
        for (int i = 0; i < 8; i++) {
            assert_true(r[i] >= 0.01f && (i < 4 || r[i] <= 2));
            least += r[i] == 0.01f;
            most += i >= 4 && r[i] == 2;
        }
    }
    assert_true(least > 0 && most > 0);
    gyre_trainer_free(t);
}

static void keep_their_size(const gyre_model_config *c) {
    const naive_part *part = naive_part_of(c->layer_parts);
    gyre_model *m = NULL;
    gyre_optimizer o;
    double norm;
    assert_ok(gyre_model_create(&m, c, 3, NULL));
    assert_ok(gyre_optimizer_create(&o, m));
    float *zero = gyre_alloc_floats(m->weight_count), *before = malloc((size_t)m->weight_count * sizeof *before);
    for (int64_t i = 0; i < c->head_dim && (c->layer_parts & GYRE_LAYER_PART_CONTEXTUAL); i++)
        m->weights[gyre_layer_tensor_offset(&m->layout, 1, GYRE_WEIGHT_CONTEXTUAL) + i] = 1; /* zeros would keep theirs */
    memcpy(before, m->weights, (size_t)m->weight_count * sizeof *before);
    const gyre_adamw_args update = {m->weights, zero, 1, 1, 0.5, 0.5, 0};
    gyre_optimizer_step(&o, &update, NULL, &norm);
    for (int64_t k = 0; k < gyre_tensor_count(&m->layout); k++) {
        const gyre_tensor t = gyre_tensor_at(&m->layout, k);
        const int keeps = strstr(t.name, "norm") || strstr(t.name, "position_bias") || strstr(t.name, "position_content") ||
                          strstr(t.name, "position_position") || strstr(t.name, ".bias") ||
                          (part && part->tensors && !part->decays && strstr(t.name, part->tensors));
        for (int64_t j = t.offset; j < t.offset + t.shape[0] * t.shape[1]; j++)
            test_close((double)m->weights[j], (keeps ? 1 : 0.75) * (double)before[j], 1e-6, t.name);
    }
    free(zero);
    free(before);
    gyre_optimizer_free(&o);
    gyre_model_free(m);
}

/* Biases, u, v, factors, phases, frequencies and series have no weight decay; matrices, vectors and P have. */
static void weight_decay_on_matrices_only(void **state) {
    (void)state;
    gyre_model_config c = tiny(GYRE_KIND_NOPE);
    c.layer_parts = GYRE_LAYER_PART_FORGET_GATES;
    for (int i = 0; naive_case(i, LENGTH, &c.position); i++)
        keep_their_size(&c);
    for (int i = 0; i < PARTS; i++) {
        c = tiny(with_part_at(i).kind);
        c.layer_parts = with_part_at(i).parts;
        keep_their_size(&c);
    }
}

static void folder_name(char *out, size_t size) {
    snprintf(out, size, "/tmp/gyre-test-XXXXXX");
    assert_non_null(mkdtemp(out));
}

static void remove_folder(const char *path) {
    static const char *const names[] = {"config.json", "model.safetensors", "optimizer.safetensors", "training.json"};
    char file[512];
    for (int i = 0; i < 4; i++) {
        snprintf(file, sizeof file, "%s/run/%s", path, names[i]);
        unlink(file);
    }
    snprintf(file, sizeof file, "%s/run", path);
    rmdir(file);
    assert_int_equal(rmdir(path), 0); /* no half-written file is left next to it */
}

/* A child trains and saves after every step until it is killed with SIGKILL. Training resumed from its last checkpoint gives
 * the same result. */
static void check_resumes(gyre_kind kind, int64_t layer_parts) {
    int32_t ids[2000];
    char folder[64], run[128];
    const gyre_text text = text_of(ids, 2000);
    gyre_train_options o = small_run(kind);
    o.model.layer_parts = layer_parts;
    gyre_error err;
    double loss = 0;
    gyre_trainer *whole = trainer_of(&o, &text, NULL);
    run_to(whole, o.steps, &loss);
    folder_name(folder, sizeof folder);
    snprintf(run, sizeof run, "%s/run", folder);
    gyre_trainer *t = trainer_of(&o, &text, NULL);
    run_to(t, 2, &loss);
    assert_ok(gyre_trainer_save(t, run, &err));
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        for (;;) { /* saves without end, so that the kill hits a save */
            if (gyre_trainer_steps(t) < 8 && gyre_trainer_step(t, &loss, &err)) _exit(1);
            if (gyre_trainer_save(t, run, &err)) _exit(1);
        }
    nanosleep(&(struct timespec){.tv_nsec = 30000000}, NULL);
    assert_int_equal(kill(child, SIGKILL), 0);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    gyre_trainer_free(t);
    assert_ok(gyre_trainer_open(&t, run, &text, NULL, &err));
    assert_true(gyre_trainer_steps(t) >= 2);
    run_to(t, o.steps, &loss);
    same_weights(whole, t);
    assert_ok(gyre_trainer_export(t, run, GYRE_DTYPE_BF16, &err)); /* also removes what the killed child left */
    gyre_trainer_free(t);
    gyre_trainer_free(whole);
    remove_folder(folder);
}

static void killed_and_resumed(void **state) {
    (void)state;
    check_resumes(GYRE_KIND_LEARNED, 0);
    check_resumes(GYRE_KIND_DEBERTA, 0);
    check_resumes(GYRE_KIND_KERPLE, 0);
    for (int i = 0; i < PARTS; i++)
        check_resumes(with_part_at(i).kind, with_part_at(i).parts);
}

static void wrong_resume(void **state) {
    (void)state;
    int32_t ids[2000];
    char folder[64], run[128];
    gyre_text text = text_of(ids, 2000);
    const gyre_train_options o = small_run(GYRE_KIND_NOPE);
    gyre_error err;
    gyre_trainer *t = trainer_of(&o, &text, NULL), *again = NULL;
    folder_name(folder, sizeof folder);
    snprintf(run, sizeof run, "%s/run", folder);
    assert_ok(gyre_trainer_save(t, run, &err));
    text.hash++;
    assert_int_equal(gyre_trainer_open(&again, run, &text, NULL, &err), GYRE_EINVAL);
    assert_non_null(strstr(err.text, "text: hash"));
    text.hash--;
    char file[160];
    snprintf(file, sizeof file, "%s/optimizer.safetensors", run);
    assert_int_equal(truncate(file, 100), 0);
    assert_int_equal(gyre_trainer_open(&again, run, &text, NULL, &err), GYRE_EFORMAT);
    snprintf(file, sizeof file, "%s/training.json", run);
    assert_int_equal(truncate(file, 20), 0);
    assert_int_equal(gyre_trainer_open(&again, run, &text, NULL, &err), GYRE_EFORMAT);
    assert_null(again);
    gyre_trainer_free(t);
    remove_folder(folder);
}

static void wrong_options(void **state) {
    (void)state;
    int32_t ids[2000];
    gyre_text text = text_of(ids, 2000);
    gyre_error err;
    gyre_trainer *t = NULL;
    gyre_train_options o = small_run(GYRE_KIND_LEARNED);
    o.learning_rate = -1;
    assert_int_equal(gyre_trainer_create(&t, &o, NULL, &text, NULL, &err), GYRE_EINVAL);
    o = small_run(GYRE_KIND_LEARNED);
    o.retrieval_fraction = 1.5;
    assert_int_equal(gyre_trainer_create(&t, &o, NULL, &text, NULL, &err), GYRE_EINVAL);
    o = small_run(GYRE_KIND_LEARNED);
    o.context = 128; /* beyond the learned table */
    assert_int_equal(gyre_trainer_create(&t, &o, NULL, &text, NULL, &err), GYRE_ERANGE);
    text.count = 64;
    o = small_run(GYRE_KIND_LEARNED);
    assert_int_equal(gyre_trainer_create(&t, &o, NULL, &text, NULL, &err), GYRE_EINVAL);
    assert_non_null(strstr(err.text, "text: 64 tokens"));
    assert_null(t);
}

/* What attention says about a step that fails reaches the caller. */
static void says_why_a_step_failed(void **state) {
    (void)state;
    int32_t ids[2000];
    const gyre_text text = text_of(ids, 2000);
    const gyre_train_options o = small_run(GYRE_KIND_ROPE);
    gyre_trainer *t = trainer_of(&o, &text, NULL);
    gyre_error err = {0, ""};
    double loss = 0;
    const size_t bytes = t->workers[0].backprop.scratch_bytes;
    t->workers[0].backprop.scratch_bytes = 1;
    assert_int_equal(gyre_trainer_step(t, &loss, &err), GYRE_ENOMEM);
    assert_true(strncmp(err.text, "step 0: scratch: 1 bytes", 24) == 0);
    assert_non_null(strstr(err.text, "(gyre_attention)"));
    t->workers[0].backprop.scratch_bytes = bytes;
    assert_ok(gyre_trainer_step(t, &loss, &err));
    gyre_trainer_free(t);
}

/* The initial model must have the same tensors. The encoding may differ where the tensors do not. */
static void wrong_start(void **state) {
    (void)state;
    int32_t ids[2000];
    const gyre_text text = text_of(ids, 2000);
    gyre_train_options o = small_run(GYRE_KIND_SHAW);
    gyre_error err;
    gyre_trainer *t = NULL;
    gyre_model *start = NULL;
    assert_ok(gyre_model_create(&start, &o.model, 5, &err));
    o.model.position.score.max_distance = 25;
    assert_int_equal(gyre_trainer_create(&t, &o, start, &text, NULL, &err), GYRE_EINVAL);
    assert_non_null(strstr(err.text, "position_query.weight is 49 x 4 where the options describe 51 x 4"));
    o = small_run(GYRE_KIND_ROPE);
    assert_int_equal(gyre_trainer_create(&t, &o, start, &text, NULL, &err), GYRE_EINVAL);
    assert_non_null(strstr(err.text, "start: has model.layers.0.self_attn.position_query.weight"));
    assert_null(t);
    gyre_model_free(start);
    o = small_run(GYRE_KIND_NOPE);
    assert_ok(gyre_model_create(&start, &o.model, 5, &err));
    o = small_run(GYRE_KIND_ROPE);
    assert_ok(gyre_trainer_create(&t, &o, start, &text, NULL, &err));
    assert_memory_equal(t->model->weights, start->weights, (size_t)start->weight_count * sizeof *start->weights);
    gyre_trainer_free(t);
    gyre_model_free(start);
}

/* A loss that is not finite is an error and leaves the weights as they were. */
static void diverging(void **state) {
    (void)state;
    int32_t ids[2000];
    const gyre_text text = text_of(ids, 2000);
    gyre_train_options o = small_run(GYRE_KIND_ROPE);
    gyre_error err;
    double loss;
    gyre_trainer *t = trainer_of(&o, &text, NULL);
    t->model->weights[gyre_layer_tensor_offset(&t->model->layout, 0, GYRE_WEIGHT_DOWN)] = INFINITY;
    float *before = malloc((size_t)t->model->weight_count * sizeof *before);
    memcpy(before, t->model->weights, (size_t)t->model->weight_count * sizeof *before);
    assert_int_equal(gyre_trainer_step(t, &loss, &err), GYRE_EFORMAT);
    assert_non_null(strstr(err.text, "loss: not finite at step 0; a lower learning rate may help: logits: not finite: the "
                                     "residual after the mlp overflows first in layer 0, at token 0 "
                                     "(model.layers.0.mlp.down_proj.weight)"));
    assert_int_equal(gyre_trainer_steps(t), 0);
    assert_memory_equal(before, t->model->weights, (size_t)t->model->weight_count * sizeof *before);
    free(before);
    gyre_trainer_free(t);
}

/* -- sequences -- */
static void sequences(void **state) {
    (void)state;
    int32_t ids[4000], out[257], again[257];
    float weights[257];
    const gyre_text text = text_of(ids, 4000);
    gyre_train_options o = small_run(GYRE_KIND_NOPE);
    int passkeys = 0, copies = 0, plain = 0;
    for (int64_t i = 0; i < 400; i++) {
        gyre_train_sequence(&text, &o, (gyre_train_place){5, i}, 257, out, weights);
        gyre_train_sequence(&text, &o, (gyre_train_place){5, i}, 257, again, weights);
        assert_memory_equal(out, again, sizeof out);
        int ends = 0, other = 0, counted = 0;
        for (int j = 0; j < 257; j++) {
            assert_in_range(out[j], 0, 255);
            ends += out[j] == GYRE_PASSKEY_MARK + GYRE_PASSKEY_KEYS;
            other += out[j] < 'a' || out[j] > 'f';
            counted += weights[j] > 1;
            assert_true(weights[j] == 0 || weights[j] == 1 || weights[j] == 3);
        }
        passkeys += ends > 0;
        copies += !ends && other > 0;
        plain += !other;
        assert_int_equal(counted > 0, other > 0);
        if (ends)
            assert_true(counted == 4 * GYRE_PASSKEY_KEYS ||
                        counted == 8 * GYRE_PASSKEY_KEYS); /* one window, or small ones */
    }
    /* 0.35, 0.35, 0.3 of 400: six standard deviations are 57. */
    assert_in_range(passkeys, 140 - 57, 140 + 57);
    assert_in_range(copies, 140 - 57, 140 + 57);
    assert_in_range(plain, 120 - 57, 120 + 57);
    o.retrieval_fraction = 0;
    for (int64_t i = 0; i < 50; i++) {
        gyre_train_sequence(&text, &o, (gyre_train_place){5, i}, 257, out, weights);
        for (int j = 0; j < 257; j++)
            assert_in_range(out[j], 'a', 'f');
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(gradients),
                                       cmocka_unit_test(any_threads),
                                       cmocka_unit_test(every_kind_learns),
                                       cmocka_unit_test(gates_begin_without_bias),
                                       cmocka_unit_test(series_begin_as_released),
                                       cmocka_unit_test(networks_begin_as_linear_layers),
                                       cmocka_unit_test(phases_stay_within_bounds),
                                       cmocka_unit_test(frequencies_begin_as_those_of_rope),
                                       cmocka_unit_test(stays_within_bounds),
                                       cmocka_unit_test(weight_decay_on_matrices_only),
                                       cmocka_unit_test(says_why_a_step_failed),
                                       cmocka_unit_test(wrong_start),
                                       cmocka_unit_test(killed_and_resumed),
                                       cmocka_unit_test(wrong_resume),
                                       cmocka_unit_test(wrong_options),
                                       cmocka_unit_test(diverging),
                                       cmocka_unit_test(sequences)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
