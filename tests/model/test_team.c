/* test_team.c: processes that share a measurement or a training get the bits of one.  Threads play the processes; each has a
 * model, a trainer and results of its own. */
#include "gyre/gyre_train.h"
#include "model/model.h"
#include "support.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RANKS = 5, TEXT = 4000, CONTEXT = 64, BUCKETS = 4, WINDOWS = 7, LENGTH = 24 };

/* -- a team of threads -- */
typedef struct shared {
    int64_t ranks;
    pthread_barrier_t barrier;
    void *items[MAX_RANKS];
    gyre_status status[MAX_RANKS];
    gyre_error errors[MAX_RANKS];
    int64_t own[MAX_RANKS];
} shared;

typedef struct member {
    shared *all;
    int64_t rank;
} member;

static gyre_status meet(const member *m, gyre_status status, void *items, gyre_error *err) {
    shared *all = m->all;
    all->items[m->rank] = items;
    all->status[m->rank] = status;
    if (status) all->errors[m->rank] = *err;
    pthread_barrier_wait(&all->barrier);
    for (int64_t r = 0; r < all->ranks; r++)
        if (all->status[r]) {
            *err = all->errors[r];
            return all->status[r];
        }
    return GYRE_OK;
}

static gyre_status gather(void *ctx, gyre_status status, void *items, int64_t count, size_t bytes, gyre_error *err) {
    const member *m = ctx;
    shared *all = m->all;
    status = meet(m, status, items, err);
    char *whole = malloc((size_t)count * bytes + 1);
    assert_non_null(whole);
    for (int64_t r = 0; !status && r < all->ranks; r++) {
        const int64_t first = (r * count + all->ranks - 1) / all->ranks,
                      end = ((r + 1) * count + all->ranks - 1) / all->ranks;
        memcpy(whole + (size_t)first * bytes, (char *)all->items[r] + (size_t)first * bytes, (size_t)(end - first) * bytes);
    }
    pthread_barrier_wait(&all->barrier);
    if (!status) memcpy(items, whole, (size_t)count * bytes);
    free(whole);
    return status;
}

static gyre_status sum(void *ctx, gyre_status status, float *items, int64_t own, int64_t n, gyre_error *err) {
    const member *m = ctx;
    shared *all = m->all;
    all->own[m->rank] = own;
    status = meet(m, status, items, err);
    float *whole = malloc((size_t)n * sizeof *whole);
    assert_non_null(whole);
    int begun = 0;
    for (int64_t r = 0; !status && r < all->ranks; r++)
        for (int64_t item = 0; item < all->own[r]; item++, begun = 1)
            for (int64_t i = 0; i < n; i++) {
                const float more = ((float *)all->items[r])[item * n + i];
                whole[i] = begun ? whole[i] + more : more;
            }
    pthread_barrier_wait(&all->barrier);
    if (!status) memcpy(items, whole, (size_t)n * sizeof *whole);
    free(whole);
    return status;
}

static gyre_team team_of(member *m) {
    gyre_team team = GYRE_INIT(gyre_team);
    team.rank = m->rank;
    team.ranks = m->all->ranks;
    team.ctx = m;
    team.gather = gather;
    team.sum = sum;
    return team;
}

/* -- what a process does -- */
typedef struct outcome {
    gyre_status status;
    gyre_error error;
    gyre_eval_result eval;
    double by_window[WINDOWS], by_position[BUCKETS], loss;
    gyre_passkey_result passkey;
    int64_t right[LENGTH], asked[LENGTH];
    uint64_t weights;
} outcome;

typedef struct process {
    member member;
    gyre_text text;
    int64_t fails; /* the rank that stops in the middle; -1 = none */
    outcome out;
} process;

static int stops(void *ctx) {
    const process *p = ctx;
    return p->fails == p->member.rank;
}

static gyre_model_config shape(void) {
    gyre_model_config config = gyre_model_config_default();
    config.model_dim = 32;
    config.layers = 2;
    config.heads = config.kv_heads = 2;
    config.head_dim = 16;
    config.mlp_dim = 48;
    config.position.kind = GYRE_KIND_ROPE;
    config.position.trained_length = CONTEXT;
    config.layer_parts = GYRE_LAYER_PART_FORGET_GATES;
    return config;
}

static gyre_status measure(process *p, const gyre_team *team, outcome *out) {
    const gyre_model_config config = shape();
    gyre_model *model = NULL;
    gyre_status status = gyre_model_create(&model, &config, 3, &out->error);
    gyre_eval_options eval = GYRE_INIT(gyre_eval_options);
    eval.context = CONTEXT;
    eval.windows = WINDOWS;
    eval.by_window = out->by_window;
    eval.by_position = out->by_position;
    eval.buckets = BUCKETS;
    eval.watcher.stop = stops;
    eval.watcher.ctx = p;
    eval.team = team;
    if (!status) status = gyre_evaluate(model, &p->text, &eval, &out->eval, NULL, &out->error);
    gyre_passkey_options passkey = GYRE_INIT(gyre_passkey_options);
    passkey.context = 2 * CONTEXT;
    passkey.trials = 24;
    passkey.keys = 4;
    passkey.seed = 1;
    passkey.team = team;
    if (!status) status = gyre_passkey(model, &p->text, &passkey, &out->passkey, NULL, &out->error);
    gyre_task_options task = GYRE_INIT(gyre_task_options);
    task.task = GYRE_TASK_COPY;
    task.length = LENGTH;
    task.sequences = 11;
    task.team = team;
    if (!status) status = gyre_task_measure(model, &task, out->right, out->asked, NULL, &out->error);
    gyre_model_free(model);
    return status;
}

static gyre_status train(process *p, const gyre_team *team, outcome *out) {
    gyre_train_options options = GYRE_INIT(gyre_train_options);
    gyre_trainer *trainer = NULL;
    options.context = CONTEXT;
    options.batch = 6; /* six groups */
    options.steps = 4;
    options.model = shape();
    gyre_train_options_suggest(&options);
    gyre_status status = gyre_trainer_create(&trainer, &options, NULL, &p->text, NULL, &out->error);
    if (status) return status;
    assert_ok(gyre_trainer_set_team(trainer, team, NULL));
    while (!status && gyre_trainer_steps(trainer) < options.steps)
        status = gyre_trainer_step(trainer, &out->loss, &out->error);
    if (!status) status = gyre_model_hash(gyre_trainer_get_model(trainer), &out->weights, &out->error);
    gyre_trainer_free(trainer);
    return status;
}

static void *run(void *arg) {
    process *p = arg;
    const gyre_team team = team_of(&p->member);
    const gyre_team *given = p->member.all->ranks ? &team : NULL;
    p->out.status = measure(p, given, &p->out);
    if (!p->out.status) p->out.status = train(p, given, &p->out);
    return NULL;
}

/* ranks 0: one process without a team. */
static void run_ranks(int64_t ranks, int64_t fails, process *processes) {
    static int32_t ids[TEXT];
    shared all = {.ranks = ranks};
    pthread_t threads[MAX_RANKS];
    const int64_t count = ranks ? ranks : 1;
    for (int64_t i = 0; i < TEXT; i++)
        ids[i] = (int32_t)(i * 7919 % 97 + (i % 5) * 20);
    if (ranks) assert_int_equal(pthread_barrier_init(&all.barrier, NULL, (unsigned)ranks), 0);
    for (int64_t r = 0; r < count; r++) {
        processes[r] = (process){.member = {&all, r}, .fails = fails};
        processes[r].text.ids = ids;
        processes[r].text.count = TEXT;
        assert_int_equal(pthread_create(&threads[r], NULL, run, &processes[r]), 0);
    }
    for (int64_t r = 0; r < count; r++)
        assert_int_equal(pthread_join(threads[r], NULL), 0);
    if (ranks) pthread_barrier_destroy(&all.barrier);
}

static void every_rank_gets_the_bits_of_one(void **state) {
    (void)state;
    static process one[1], many[MAX_RANKS];
    run_ranks(0, -1, one);
    if (one->out.status) fail_msg("%s", one->out.error.text);
    assert_true(one->out.passkey.windows == 6 && one->out.eval.windows == WINDOWS);
    for (int64_t ranks = 1; ranks <= MAX_RANKS; ranks++) {
        run_ranks(ranks, -1, many);
        for (int64_t r = 0; r < ranks; r++)
            if (memcmp(&many[r].out, &one->out, sizeof one->out) != 0) // NOLINT(bugprone-suspicious-memory-comparison)
                fail_msg("rank %d of %d differs from one process: %s", (int)r, (int)ranks, many[r].out.error.text);
    }
}

static void every_rank_hears_of_a_failure(void **state) {
    (void)state;
    static process many[MAX_RANKS];
    run_ranks(3, 1, many);
    for (int r = 0; r < 3; r++) {
        assert_int_equal(many[r].out.status, GYRE_EIO);
        assert_string_equal(many[r].out.error.text, "windows: stopped (eval)");
    }
}

/* A team that nobody filled in is refused, not called. */
static void empty_teams(void **state) {
    const int32_t ids[32] = {0};
    const gyre_text text = {.ids = (int32_t *)ids, .count = 32};
    gyre_team team = GYRE_INIT(gyre_team);
    gyre_eval_options options = GYRE_INIT(gyre_eval_options);
    gyre_eval_result result;
    gyre_model_config config = GYRE_INIT(gyre_model_config);
    gyre_model *model = NULL;
    gyre_error err;
    (void)state;
    config.model_dim = 16, config.heads = 2, config.layers = 1;
    config.position.kind = GYRE_KIND_NOPE;
    assert_ok(gyre_model_create(&model, &config, 1, &err));
    options.context = 16;
    options.team = &team;
    assert_int_equal(gyre_evaluate(model, &text, &options, &result, NULL, &err), GYRE_EINVAL);
    assert_string_equal(err.text, "team.gather: is NULL (gyre_team)");
    team.gather = gather, team.sum = sum;
    assert_int_equal(gyre_evaluate(model, &text, &options, &result, NULL, &err), GYRE_EINVAL);
    assert_string_equal(err.text, "team: rank 0 of 0 (gyre_team)");
    gyre_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(empty_teams), cmocka_unit_test(every_rank_gets_the_bits_of_one),
                                       cmocka_unit_test(every_rank_hears_of_a_failure)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
