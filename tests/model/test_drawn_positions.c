/* test_drawn_positions.c: training at random positions: what is drawn, the gradient at such positions under every scheme,
 * and runs that are equal to the last bit. */
#include "gyre/gyre_research.h"
#include "model/model.h"
#include "model/ops/float_buffer.h"
#include "naive_decoder.h"
#include "support.h"
#include "temp_folder.h"
#include "train/backprop.h"
#include "train/trainer.h"

#include <string.h>

enum { LENGTH = 12, SEQUENCES = 2, RANGE = 40, VOCAB = 32, DRAWS = 4 };

/* -- what is drawn -- */
static void draw(gyre_position_draw how, int64_t range, uint64_t *state, int64_t n, int64_t *out) {
    gyre_error err = {0, ""};
    if (gyre_draw_positions(how, range, state, n, out, &err)) fail_msg("%s", err.text);
    for (int64_t i = 0; i < n; i++)
        if (out[i] < (i ? out[i - 1] + 1 : 0) || out[i] >= range) fail_msg("%d: %lld", (int)how, (long long)out[i]);
}

static void all_rise_within_the_range(void **state) {
    (void)state;
    static const int64_t sizes[][2] = {{0, 0}, {0, 5}, {1, 1}, {1, 9}, {7, 7}, {7, 8}, {7, 4000}, {100, 130}};
    int64_t out[100];
    for (int how = 0; how < DRAWS; how++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            uint64_t random = 3;
            for (int k = 0; k < 50; k++)
                draw((gyre_position_draw)how, sizes[i][1], &random, sizes[i][0], out);
        }
    uint64_t a = 9, b = 9;
    int64_t again[100];
    draw(GYRE_POSITION_DRAW_RANDOMIZED, (int64_t)1 << 20, &a, 100, out);
    draw(GYRE_POSITION_DRAW_RANDOMIZED, (int64_t)1 << 20, &b, 100, again);
    assert_memory_equal(out, again, sizeof out);
    draw(GYRE_POSITION_DRAW_RANDOMIZED, (int64_t)1 << 20, &b, 100, again);
    assert_memory_not_equal(out, again, sizeof out);
}

/* The deviation of a count of `trials` events of probability p, times 5: a bound that a right count passes with all but
 * 6e-7, and here with a fixed seed. */
static void check_count(int64_t count, double p, int64_t trials, const char *what) {
    const double mean = p * (double)trials;
    test_close((double)count, mean, 5 * sqrt(mean * (1 - p)), what);
}

/* Each position, and each set, is equally likely. */
static void sets_are_uniform(void **state) {
    (void)state;
    enum { N = 6, OF = 15, TRIALS = 30000, SMALL_N = 3, SMALL = 6, SETS = 20 };
    int64_t out[N], seen[OF] = {0}, together = 0, sets[1 << SMALL] = {0};
    uint64_t random = 11;
    for (int k = 0; k < TRIALS; k++) {
        draw(GYRE_POSITION_DRAW_RANDOMIZED, OF, &random, N, out);
        for (int i = 0; i < N; i++)
            seen[out[i]]++;
        for (int i = 0; i < N; i++)
            for (int j = 0; j < i; j++)
                together += out[i] == OF - 1 && out[j] == 0;
    }
    for (int i = 0; i < OF; i++)
        check_count(seen[i], (double)N / OF, TRIALS, "inclusion");
    check_count(together, (double)N * (N - 1) / (OF * (OF - 1)), TRIALS, "a pair");
    for (int k = 0; k < TRIALS; k++) {
        draw(GYRE_POSITION_DRAW_RANDOMIZED, SMALL, &random, SMALL_N, out);
        sets[1 << out[0] | 1 << out[1] | 1 << out[2]]++;
    }
    int found = 0;
    for (int i = 0; i < 1 << SMALL; i++) {
        if (sets[i]) check_count(sets[i], 1.0 / SETS, TRIALS, "a set");
        found += sets[i] > 0;
    }
    assert_int_equal(found, SETS);
}

/* The same where the range is much longer, and positions are drawn until they differ. */
static void sets_of_long_ranges_are_uniform(void **state) {
    (void)state;
    enum { N = 3, OF = 13, SETS = OF * (OF - 1) * (OF - 2) / 6, TRIALS = 60000, MANY = 1000 };
    static int64_t sets[OF][OF][OF], out[MANY];
    uint64_t random = 13;
    int found = 0;
    for (int k = 0; k < TRIALS; k++) {
        draw(GYRE_POSITION_DRAW_RANDOMIZED, OF, &random, N, out);
        sets[out[0]][out[1]][out[2]]++;
    }
    for (int i = 0; i < OF * OF * OF; i++) {
        const int64_t count = (&sets[0][0][0])[i];
        if (count) check_count(count, 1.0 / SETS, TRIALS, "a set");
        found += count > 0;
    }
    assert_int_equal(found, SETS);
    double sum = 0;
    for (int k = 0; k < 20; k++) {
        draw(GYRE_POSITION_DRAW_RANDOMIZED, (int64_t)1 << 31, &random, MANY, out);
        for (int i = 0; i < MANY; i++)
            sum += (double)out[i] / 0x1p31 / (20 * MANY);
    }
    test_close(sum, 0.5, 5 / sqrt(12.0 * 20 * MANY), "mean");
}

/* SHAPE's shift, and PoSE's gap and first chunk. */
static void shifts_and_gaps_are_uniform(void **state) {
    (void)state;
    enum { N = 7, OF = 16, SHIFTS = OF - N + 1, CHUNKS = (N + 1) / 2, TRIALS = 20000 };
    int64_t out[N], shifts[SHIFTS] = {0}, gaps[SHIFTS] = {0}, chunks[CHUNKS + 1] = {0};
    uint64_t random = 12;
    for (int k = 0; k < TRIALS; k++) {
        draw(GYRE_POSITION_DRAW_SHAPE, OF, &random, N, out);
        shifts[out[0]]++;
        assert_int_equal(out[N - 1] - out[0], N - 1);
        draw(GYRE_POSITION_DRAW_POSE, OF, &random, N, out);
        int chunk = 1;
        while (chunk < N && out[chunk] == chunk)
            chunk++;
        gaps[out[N - 1] - (N - 1)]++;
        assert_int_equal(out[0], 0);
        if (chunk == N) continue; /* without a gap */
        chunks[chunk]++;
        assert_int_equal(out[N - 1] - out[chunk], N - 1 - chunk);
    }
    for (int i = 0; i < SHIFTS; i++) {
        check_count(shifts[i], 1.0 / SHIFTS, TRIALS, "shift");
        check_count(gaps[i], 1.0 / SHIFTS, TRIALS, "gap");
    }
    for (int i = 1; i <= CHUNKS; i++)
        check_count(chunks[i], 1.0 / CHUNKS, TRIALS - gaps[0], "chunk");
}

static void draws_are_refused(void **state) {
    (void)state;
    static const struct {
        int how;
        int64_t range, n;
        const char *why;
    } wrong[] = {{4, 9, 3, "draw: 4 is not a gyre_position_draw"},
                 {-1, 9, 3, "draw: -1 is not"},
                 {1, 9, 10, "n: 10 positions of a range of 9"},
                 {1, 9, -1, "n: -1 positions"},
                 {1, ((int64_t)1 << 31) + 1, 3, "range: 2147483649 is not in 0 .. 2^31"},
                 {2, -1, 0, "range: -1 is not"}};
    int64_t out[16] = {77};
    uint64_t random = 5;
    gyre_error err;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(
            gyre_draw_positions((gyre_position_draw)wrong[i].how, wrong[i].range, &random, wrong[i].n, out, &err),
            GYRE_EINVAL);
        if (!strstr(err.text, wrong[i].why)) fail_msg("\"%s\", not \"%s\"", err.text, wrong[i].why);
    }
    assert_int_equal(gyre_draw_positions(GYRE_POSITION_DRAW_POSE, 9, NULL, 3, out, &err), GYRE_EINVAL);
    assert_non_null(strstr(err.text, "state: is NULL"));
    assert_int_equal(gyre_draw_positions(GYRE_POSITION_DRAW_POSE, 9, &random, 3, NULL, &err), GYRE_EINVAL);
    assert_true(out[0] == 77 && random == 5);
    assert_string_equal(gyre_position_draw_name(GYRE_POSITION_DRAW_POSE), "pose");
    assert_null(gyre_position_draw_name((gyre_position_draw)DRAWS));
}

/* -- the gradient -- */
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
    c.position.trained_length = c.position.input.positions = RANGE;
    return c;
}

typedef struct lesson {
    int32_t tokens[SEQUENCES * (LENGTH + 1)];
    float weights[SEQUENCES * (LENGTH + 1)];
    int64_t positions[SEQUENCES * LENGTH];
} lesson;

static double loss_at(const gyre_model *m, double *w, int64_t i, double value, const lesson *l) {
    const double kept = w[i];
    double loss = 0;
    w[i] = value;
    for (int s = 0; s < SEQUENCES; s++) {
        const naive d = {m, m->encoding, w, LENGTH, 0, NULL, l->positions + s * LENGTH};
        loss += naive_loss(&d, l->tokens + s * (LENGTH + 1), l->weights + s * (LENGTH + 1));
    }
    w[i] = kept;
    return loss;
}

static lesson make_lesson(void) {
    lesson l;
    test_random r = {21};
    uint64_t random = 8;
    for (int i = 0; i < SEQUENCES * (LENGTH + 1); i++) {
        l.tokens[i] = (int32_t)(test_next(&r) % VOCAB);
        l.weights[i] = (float)(i % 3);
    }
    for (int s = 0; s < SEQUENCES; s++)
        draw(GYRE_POSITION_DRAW_RANDOMIZED, RANGE, &random, LENGTH, l.positions + s * LENGTH);
    return l;
}

/* Against the model in double at the same positions: its loss, and central differences at weights of every tensor. */
static void check_gradient(const gyre_model_config *c, const char *what) {
    gyre_model *m = NULL;
    gyre_error err = {0, ""};
    if (gyre_model_create(&m, c, 3, &err)) fail_msg("%s: %s", what, err.text);
    test_random r = {22};
    const lesson l = make_lesson();
    naive_perturb(m, 0.2, &r);
    double *w = naive_weights(m), loss = 0, scale = 0;
    float *gradient = gyre_alloc_floats(m->weight_count);
    gyre_layer_tables tables;
    gyre_backprop b;
    assert_ok(gyre_layer_tables_create(&tables, m, m->encoding, NULL));
    assert_ok(gyre_backprop_create(&b, &tables, SEQUENCES, LENGTH, l.positions));
    if (gyre_backprop_run(&b, &(gyre_microbatch){l.tokens, l.weights, 1}, &loss, gradient))
        fail_msg("%s: %s", what, b.error.text);
    gyre_backprop_finish(&b, gradient);
    test_close(loss, loss_at(m, w, 0, w[0], &l), 1e-5 * loss, what);
    for (int64_t i = 0; i < m->weight_count; i++)
        scale = fmax(scale, fabs((double)gradient[i]));
    const double bound = naive_error(m->encoding) > 1e-4 ? 1e-4 : 1e-5;
    for (int64_t t = 0; t < gyre_tensor_count(&m->layout); t++) {
        const gyre_tensor tensor = gyre_tensor_at(&m->layout, t);
        for (int k = 0; k < 3; k++) {
            const int64_t i = tensor.offset + (int64_t)(test_next(&r) % (uint64_t)(tensor.shape[0] * tensor.shape[1]));
            const double h = 1e-5, slope = (loss_at(m, w, i, w[i] + h, &l) - loss_at(m, w, i, w[i] - h, &l)) / (2 * h);
            if (fabs((double)gradient[i] - slope) > bound * scale)
                fail_msg("%s: %s: %g, not %g", what, tensor.name, (double)gradient[i], slope);
        }
    }
    gyre_backprop_free(&b);
    gyre_layer_tables_free(&tables);
    free(gradient);
    free(w);
    gyre_model_free(m);
}

static void gradients(void **state) {
    (void)state;
    gyre_model_config c = tiny(GYRE_KIND_NOPE);
    for (int i = 0; naive_case(i, RANGE, &c.position); i++)
        check_gradient(&c, test_schemes[i].name);
    c = tiny(GYRE_KIND_ROPE);
    for (int i = 0; naive_experiment(i, &c); i++)
        check_gradient(&c, "experiment");
}

/* -- runs -- */
static gyre_train_options small_run(gyre_kind kind, gyre_position_draw how) {
    gyre_train_options o = GYRE_INIT(gyre_train_options);
    gyre_train_options_suggest(&o);
    o.model = tiny(kind);
    o.model.vocab = 256;
    o.context = 32;
    o.positions = how;
    o.position_range = 100;
    o.model.position.trained_length = 32;
    o.model.position.input.positions = 100;
    o.model.position.score.max_distance = 24;
    o.batch = 8;
    o.steps = 12;
    o.warmup = 3;
    return o;
}

static gyre_text text_of(int32_t *ids, int64_t count) {
    test_random r = {2};
    for (int64_t i = 0; i < count; i++)
        ids[i] = (int32_t)('a' + test_next(&r) % 6);
    return (gyre_text){.ids = ids, .count = count, .hash = 77, .files = 1};
}

static gyre_trainer *trainer_of(const gyre_train_options *o, const gyre_text *text, const gyre_exec *exec) {
    gyre_trainer *t = NULL;
    gyre_error err = {0, ""};
    if (gyre_trainer_create(&t, o, NULL, text, exec, &err)) fail_msg("%s", err.text);
    return t;
}

static double run_to(gyre_trainer *t, int64_t step) {
    double loss = 0;
    while (gyre_trainer_steps(t) < step)
        assert_ok(gyre_trainer_step(t, &loss, NULL));
    return loss;
}

static void same_weights(const gyre_trainer *a, const gyre_trainer *b) {
    assert_memory_equal(a->model->weights, b->model->weights, (size_t)a->model->weight_count * sizeof(float));
}

/* For any number of threads, and after a stop, the bits of one run. */
static void check_runs(const gyre_train_options *o, const gyre_text *text) {
    gyre_trainer *one = trainer_of(o, text, NULL), *resumed = NULL;
    gyre_pool *pool = NULL;
    assert_ok(gyre_pool_create(&pool, 3, NULL));
    const gyre_exec exec = gyre_pool_exec(pool);
    gyre_trainer *three = trainer_of(o, text, &exec);
    const double first = run_to(one, 1);
    run_to(one, 5);
    run_to(three, 5);
    same_weights(one, three);
    assert_ok(gyre_trainer_save(three, in_folder("run"), NULL));
    assert_ok(gyre_trainer_open(&resumed, in_folder("run"), text, NULL, NULL));
    assert_int_equal(gyre_trainer_get_options(resumed)->positions, o->positions);
    assert_int_equal(gyre_trainer_get_options(resumed)->position_range, o->position_range);
    const double loss = run_to(one, o->steps);
    run_to(resumed, o->steps);
    same_weights(one, resumed);
    assert_true(loss < first); /* it learns */
    gyre_trainer_free(one);
    gyre_trainer_free(three);
    gyre_trainer_free(resumed);
    gyre_pool_free(pool);
}

static void runs_are_equal(void **state) {
    (void)state;
    static const gyre_kind kinds[] = {GYRE_KIND_ROPE, GYRE_KIND_ALIBI, GYRE_KIND_LEARNED, GYRE_KIND_DEBERTA};
    int32_t ids[2000];
    const gyre_text text = text_of(ids, 2000);
    for (int how = 1; how < DRAWS; how++)
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
            const gyre_train_options o = small_run(kinds[i], (gyre_position_draw)how);
            check_runs(&o, &text);
        }
}

/* A shift does not reach a relative scheme: the weights of ordinary positions, but for rounding.  A set does. */
static void what_a_shift_reaches(void **state) {
    (void)state;
    int32_t ids[2000];
    const gyre_text text = text_of(ids, 2000);
    gyre_train_options o = small_run(GYRE_KIND_ALIBI, GYRE_POSITION_DRAW_NONE);
    gyre_trainer *plain = trainer_of(&o, &text, NULL);
    o.positions = GYRE_POSITION_DRAW_SHAPE;
    gyre_trainer *shifted = trainer_of(&o, &text, NULL);
    o.positions = GYRE_POSITION_DRAW_RANDOMIZED;
    gyre_trainer *sets = trainer_of(&o, &text, NULL);
    run_to(plain, 3);
    run_to(shifted, 3);
    run_to(sets, 3);
    double near = 0, far = 0;
    for (int64_t i = 0; i < plain->model->weight_count; i++) {
        near = fmax(near, fabs((double)(plain->model->weights[i] - shifted->model->weights[i])));
        far = fmax(far, fabs((double)(plain->model->weights[i] - sets->model->weights[i])));
    }
    assert_true(near < 1e-5 && far > 1e-4);
    gyre_trainer_free(plain);
    gyre_trainer_free(shifted);
    gyre_trainer_free(sets);
}

/* The symbols of a sequence are those without drawn positions, and sequences differ in theirs. */
static void symbols_stay(void **state) {
    (void)state;
    int32_t ids[2000], a[33], b[33];
    float weights[33];
    int64_t first[32], second[32];
    const gyre_text text = text_of(ids, 2000);
    gyre_train_options o = small_run(GYRE_KIND_ROPE, GYRE_POSITION_DRAW_NONE);
    const gyre_train_place place = {4, 1}, other = {4, 2};
    gyre_train_sequence(&text, &o, place, 33, a, weights);
    o.positions = GYRE_POSITION_DRAW_RANDOMIZED;
    gyre_train_sequence(&text, &o, place, 33, b, weights);
    assert_memory_equal(a, b, sizeof a);
    gyre_train_positions(&o, place, 32, first);
    gyre_train_positions(&o, other, 32, second);
    assert_memory_not_equal(first, second, sizeof first);
    gyre_train_positions(&o, place, 32, second);
    assert_memory_equal(first, second, sizeof first);
}

static void refuses(const gyre_train_options *o, gyre_status status, const char *why) {
    int32_t ids[2000];
    const gyre_text text = text_of(ids, 2000);
    gyre_trainer *t = NULL;
    gyre_error err = {0, ""};
    assert_int_equal(gyre_trainer_create(&t, o, NULL, &text, NULL, &err), status);
    if (!strstr(err.text, why)) fail_msg("\"%s\", not \"%s\"", err.text, why);
}

static void runs_are_refused(void **state) {
    (void)state;
    gyre_train_options o = small_run(GYRE_KIND_ROPE, (gyre_position_draw)DRAWS);
    refuses(&o, GYRE_EINVAL, "positions: 4 is not one of gyre_position_draw");
    o.positions = GYRE_POSITION_DRAW_POSE;
    o.position_range = 31;
    refuses(&o, GYRE_EINVAL, "positions: pose of a range of 31, which is not in 32, the context");
    o.position_range = ((int64_t)1 << 31) + 1;
    refuses(&o, GYRE_EINVAL, "which is not in 32");
    o = small_run(GYRE_KIND_NOPE, GYRE_POSITION_DRAW_RANDOMIZED);
    refuses(&o, GYRE_EINVAL, "positions: randomized, but nope reads none");
    o = small_run(GYRE_KIND_ROPE, GYRE_POSITION_DRAW_SHAPE);
    o.model.layer_parts = GYRE_LAYER_PART_TOKEN_FREQUENCIES;
    refuses(&o, GYRE_EINVAL, "positions: shape, but layers of carope read none");
    o.model.layer_parts = GYRE_LAYER_PART_REPOSITIONED;
    o.model.layers = 1; /* of more, the first ones read positions */
    refuses(&o, GYRE_EINVAL, "positions: shape, but layers of repo read none");
    o = small_run(GYRE_KIND_LEARNED, GYRE_POSITION_DRAW_RANDOMIZED);
    o.model.position.input.positions = 99;
    refuses(&o, GYRE_ERANGE, "position_range");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_rise_within_the_range),
                                       cmocka_unit_test(sets_are_uniform),
                                       cmocka_unit_test(sets_of_long_ranges_are_uniform),
                                       cmocka_unit_test(shifts_and_gaps_are_uniform),
                                       cmocka_unit_test(draws_are_refused),
                                       cmocka_unit_test(gradients),
                                       cmocka_unit_test(runs_are_equal),
                                       cmocka_unit_test(what_a_shift_reaches),
                                       cmocka_unit_test(symbols_stay),
                                       cmocka_unit_test(runs_are_refused)};
    return cmocka_run_group_tests(tests, make_empty_folder, remove_folder);
}
