/* test_bench_rounds.c: which rounds of a benchmark count, with a core and a clock that the test scripts. */
#include "run_command.h"
#include "tools/bench/bench.h"
#include "tools/bench/bench_roofline.h"

#include <math.h>

/* -- a scripted core -- */
enum { MOST_SAMPLES = 32 };
typedef struct script {
    double nops[MOST_SAMPLES];   /* one for each sample; then the last one again */
    double waited[MOST_SAMPLES]; /* in all, one for each call; then the last one again */
    int samples, calls;
    double now; /* moves by a second with each look at the clock */
} script;

static double scripted_nops(void *arg) {
    script *s = arg;
    const double nops = s->nops[s->samples];
    if (s->samples + 1 < MOST_SAMPLES && s->nops[s->samples + 1] > 0) s->samples++;
    return nops;
}
static double scripted_waiting(void *arg) {
    script *s = arg;
    const double waited = s->waited[s->calls];
    if (s->calls + 1 < MOST_SAMPLES) s->calls++;
    return waited;
}
static double scripted_clock(void *arg) {
    return ((script *)arg)->now += 1;
}

static bench_core core_of(script *s, double usual) {
    return (bench_core){scripted_nops, scripted_waiting, scripted_clock, s, usual, 0};
}

/* Runs `count` rounds with a sample before and after each. */
static bench_rounds run_rounds(bench_core *core, int64_t count) {
    bench_rounds rounds = bench_rounds_begin(core, count);
    while (bench_rounds_next(&rounds))
        bench_rounds_end(&rounds);
    assert_int_equal(rounds.count, count);
    return rounds;
}

/* -- which rounds are quiet -- */
/* Before and after each round: quiet; disturbed after; disturbed before; at the bound of 0.85; below it. */
static void few_nops_disturb(void **state) {
    (void)state;
    script s = {.nops = {6, 6, 6, 3, 3, 6, 5.1, 6, 6, 5.09}};
    bench_core core = core_of(&s, 6);
    const bench_rounds rounds = run_rounds(&core, 5);
    const int quiet[] = {1, 0, 0, 1, 0};
    for (int i = 0; i < 5; i++)
        assert_int_equal(bench_rounds_is_quiet(&rounds, i), quiet[i]);
    const bench_quiet got = bench_rounds_quiet(&rounds);
    assert_int_equal(got.rounds, 5);
    assert_int_equal(got.quiet, 2);
    assert_true(got.nops == 5.09); /* of 6, 3, 3, 5.1, 5.09 */
}

/* A sample within a round counts as those around it do. */
static void a_long_round_is_sampled_within(void **state) {
    (void)state;
    script s = {.nops = {6, 2, 6, 6, 6, 6}};
    bench_core core = core_of(&s, 6);
    bench_rounds rounds = bench_rounds_begin(&core, 2);
    while (bench_rounds_next(&rounds)) {
        bench_rounds_sample(&rounds);
        bench_rounds_end(&rounds);
    }
    assert_false(bench_rounds_is_quiet(&rounds, 0));
    assert_true(bench_rounds_is_quiet(&rounds, 1));
}

/* Rounds take a second of the scripted clock; the thread waits 0, 0.02 and 0.03 of it. */
static void waiting_disturbs(void **state) {
    (void)state;
    script s = {.nops = {6}, .waited = {1, 1, 1, 1.0199, 1.0199, 1.0499}};
    bench_core core = core_of(&s, 6);
    const bench_rounds rounds = run_rounds(&core, 3);
    assert_true(bench_rounds_is_quiet(&rounds, 0));
    assert_true(bench_rounds_is_quiet(&rounds, 1));
    assert_false(bench_rounds_is_quiet(&rounds, 2));
}

/* What a quiet core reaches is learnt: a round that seemed quiet is not, once the core had twice as many nops twice. */
static void a_quieter_core_is_seen_later(void **state) {
    (void)state;
    script s = {.nops = {3, 3, 9, 3, 6, 6}};
    bench_core core = core_of(&s, 0);
    const bench_rounds rounds = run_rounds(&core, 3);
    assert_true(core.usual == 6); /* not 9, which one sample had alone */
    assert_false(bench_rounds_is_quiet(&rounds, 0));
    assert_false(bench_rounds_is_quiet(&rounds, 1));
    assert_true(bench_rounds_is_quiet(&rounds, 2));
}

/* -- medians -- */
static void only_quiet_rounds_count(void **state) {
    (void)state;
    script s = {.nops = {6, 6, 2, 2, 6, 6, 6, 6, 2, 2}};
    bench_core core = core_of(&s, 6);
    const bench_rounds rounds = run_rounds(&core, 5);
    const double values[] = {10, 1, 30, 20, 2};
    assert_true(bench_rounds_median(&rounds, values) == 20); /* of 10, 30 and 20 */
    assert_true(bench_rounds_least(&rounds, values) == 10);
    assert_true(values[0] == 10 && values[4] == 2);
    const bench_series a = {.amount = 40, .seconds = {10, 1, 30, 20, 2}}, b = {.seconds = {5, 1, 3, 20, 2}};
    assert_true(bench_series_seconds(&a, &rounds) == 20);
    assert_true(bench_series_rate(&a, &rounds) == 2);
    assert_true(bench_series_ratio(&a, &b, &rounds) == 2); /* of 2, 10 and 1 */
}

/* The upper of two middle values. */
static void an_even_number_of_values(void **state) {
    (void)state;
    script s = {.nops = {6}};
    bench_core core = core_of(&s, 6);
    const bench_rounds rounds = run_rounds(&core, 4);
    assert_true(bench_rounds_median(&rounds, (const double[]){4, 1, 3, 2}) == 3);
}

static void without_a_quiet_round_all_count(void **state) {
    (void)state;
    script s = {.nops = {2}};
    bench_core core = core_of(&s, 6);
    const bench_rounds rounds = run_rounds(&core, 3);
    const bench_quiet quiet = bench_rounds_quiet(&rounds);
    char text[32], note[80];
    assert_int_equal(quiet.quiet, 0);
    assert_true(bench_rounds_median(&rounds, (const double[]){3, 1, 2}) == 2);
    assert_string_equal(bench_quiet_text(&quiet, text), "0/3");
    json_t *row = json_pack("{s:f, s:o}", "of_peak", 0.5, "goal", bench_goal("of_peak", 0.8));
    assert_string_equal(bench_goal_note(row, &quiet, note), "of_peak >= 0.80, not judged: no quiet round");
    json_decref(row);
}

/* A goal that quiet rounds reach or miss. */
static void goals_of_quiet_rounds(void **state) {
    (void)state;
    const bench_quiet quiet = {7, 1, 5.5};
    char note[80];
    json_t *row = json_pack("{s:f, s:f, s:o}", "of_peak", 0.7, "ratio", 1.0, "goal", bench_goal("of_peak", 0.8));
    assert_string_equal(bench_goal_note(row, &quiet, note), "of_peak >= 0.80, missed");
    json_object_set_new(row, "goal", bench_goal("ratio", 1.05));
    assert_string_equal(bench_goal_note(row, &quiet, note), "ratio <= 1.05");
    json_decref(row);
}

/* -- a processor that has no loop of nops -- */
static void what_cannot_be_measured(void **state) {
    (void)state;
    script s = {.nops = {1}, .waited = {0, 0, 0, 1}};
    bench_core core = core_of(&s, 0);
    core.nops_per_cycle = NULL;
    const bench_rounds rounds = run_rounds(&core, 2);
    const bench_quiet quiet = bench_rounds_quiet(&rounds);
    char text[32];
    assert_true(isnan(quiet.nops));
    assert_int_equal(quiet.quiet, -1);
    assert_string_equal(bench_quiet_text(&quiet, text), "-");
    assert_true(bench_rounds_median(&rounds, (const double[]){5, 1}) == 5); /* the second waited */
    assert_string_equal(bench_goal_verdict(&quiet, 0), ", missed");
}

static void this_core(void **state) {
    (void)state;
    bench_core *core = bench_this_core();
    assert_ptr_equal(core, bench_this_core());
    assert_true(core->waited(core->arg) >= 0);
#if defined(__x86_64__) || defined(__aarch64__)
    assert_true(bench_core_sample(core) > 0.1);
#else
    assert_true(isnan(bench_core_sample(core)));
#endif
}

/* -- what a row says -- */
static void rows_have_their_rounds(void **state) {
    (void)state;
    const outcome *o = run("bench rotate --rounds 2 --threads 1 --json");
    if (o->exit) fail_msg("%s", o->err);
    json_error_t error;
    json_t *row = json_loads(o->out, JSON_DISABLE_EOF_CHECK, &error);
    assert_non_null(row);
#if defined(__x86_64__) || defined(__aarch64__)
    const json_int_t quiet = test_integer(row, "quiet_rounds");
    assert_true(quiet >= 0 && quiet <= 2);
    assert_true(test_number(row, "nops_per_cycle") > 0);
#else
    assert_true(json_is_null(json_object_get(row, "quiet_rounds")));
#endif
    assert_string_equal(test_string(json_object_get(row, "goal"), "of"), "of_limit");
    json_decref(row);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_nops_disturb),        cmocka_unit_test(a_long_round_is_sampled_within),
        cmocka_unit_test(waiting_disturbs),        cmocka_unit_test(a_quieter_core_is_seen_later),
        cmocka_unit_test(only_quiet_rounds_count), cmocka_unit_test(an_even_number_of_values),
        cmocka_unit_test(goals_of_quiet_rounds),   cmocka_unit_test(without_a_quiet_round_all_count),
        cmocka_unit_test(what_cannot_be_measured), cmocka_unit_test(this_core),
        cmocka_unit_test(rows_have_their_rounds)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
