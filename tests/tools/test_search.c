/* test_search.c: the parts of gyre search: initial candidates against formulas, children against their order, windows
 * against their ranges, the interval against the binomial distribution, the race against a landscape with a known
 * optimum. */
#include "support.h"
#include "tools/search/search_evolve.h"
#include "tools/search/search_gain.h"
#include "tools/search/search_initial.h"
#include "tools/search/search_needles.h"
#include "tools/search/search_windows.h"
#include "util/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DIM = 32, PAIRS = DIM / 2, TRAINED = 512 };

static gyre_config rope(int64_t dim, double base) {
    gyre_config config = GYRE_INIT(gyre_config);
    config.kind = GYRE_KIND_ROPE;
    config.head_dim = dim;
    config.trained_length = TRAINED;
    config.rope.base = base;
    return config;
}

/* -- seeds -- */
/* The pair that makes this many revolutions over the trained length. */
static double pair_of(double turns, double base) {
    return DIM * log(TRAINED / (turns * 2 * acos(-1))) / (2 * log(base));
}

static double yarn_factor(int i, double stretch, double base, double fast, double slow) {
    const double low = fmax(0, floor(pair_of(fast, base))), high = fmin(DIM - 1, ceil(pair_of(slow, base)));
    const double ramp = fmin(1, fmax(0, (i - low) / (high - low)));
    return 1 / (1 - ramp + ramp / stretch);
}

static void initial_candidates_are_the_methods(void **state) {
    (void)state;
    static const double bases[] = {10000, 500};
    static const int64_t lengths[] = {1024, 2048, 16384};
    for (int b = 0; b < 2; b++)
        for (int l = 0; l < 3; l++) {
            const double s = (double)lengths[l] / TRAINED;
            const gyre_config base = rope(DIM, bases[b]);
            const search_space space = search_space_of(PAIRS, TRAINED, lengths[l], 0);
            search_initial seeds[SEARCH_MAX_INITIAL];
            int64_t count = 0;
            gyre_error err;
            assert_ok(search_initial_candidates(&space, &base, TRAINED, lengths[l], seeds, &count, &err));
            assert_true(count > SEARCH_INITIAL_OTHERS && count <= SEARCH_MAX_INITIAL);
            for (int i = 0; i < PAIRS; i++) {
                test_close(seeds[SEARCH_INITIAL_NONE].rescale.factor[i], 1, 0, "none");
                test_close(seeds[SEARCH_INITIAL_BY_PARTS].rescale.factor[i], yarn_factor(i, s, bases[b], 32, 1), 1e-12 * s,
                           "by-parts");
                test_close(seeds[SEARCH_INITIAL_LINEAR].rescale.factor[i], s, 1e-12 * s, "linear");
                test_close(seeds[SEARCH_INITIAL_NTK].rescale.factor[i], pow(s, 2.0 * i / (DIM - 2)), 1e-12 * s, "ntk");
                test_close(seeds[SEARCH_INITIAL_YARN].rescale.factor[i], yarn_factor(i, s, bases[b], 32, 1), 1e-12 * s,
                           "yarn");
            }
            test_close(seeds[SEARCH_INITIAL_NONE].rescale.attention, 1, 0, "none's attention factor");
            test_close(seeds[SEARCH_INITIAL_BY_PARTS].rescale.attention, 1, 0, "by-parts'");
            test_close(seeds[SEARCH_INITIAL_LINEAR].rescale.attention, 1, 0, "linear's attention factor");
            test_close(seeds[SEARCH_INITIAL_NTK].rescale.attention, 1, 0, "ntk's");
            test_close(seeds[SEARCH_INITIAL_YARN].rescale.attention, 0.1 * log(s) + 1, 1e-15, "yarn's");
            for (int64_t k = SEARCH_INITIAL_OTHERS; k < count; k++) {
                double fast, slow;
                assert_int_equal(sscanf(seeds[k].origin, "yarn, beta %lf and %lf", &fast, &slow), 2);
                for (int i = 0; i < PAIRS; i++)
                    test_close(seeds[k].rescale.factor[i], yarn_factor(i, s, bases[b], fast, slow), 1e-12 * s,
                               seeds[k].origin);
                for (int64_t j = 0; j < k; j++)
                    assert_false(search_equal(&space, &seeds[j].rescale, &seeds[k].rescale));
            }
        }
}

static void a_fixed_attention_factor(void **state) {
    (void)state;
    const gyre_config base = rope(DIM, 10000);
    const search_space space = search_space_of(PAIRS, TRAINED, 2048, 1.25);
    search_initial seeds[SEARCH_MAX_INITIAL];
    search_rescale child;
    int64_t count = 0;
    uint64_t random = 3;
    gyre_error err;
    assert_ok(search_initial_candidates(&space, &base, TRAINED, 2048, seeds, &count, &err));
    for (int64_t i = 0; i < count; i++)
        test_close(seeds[i].rescale.attention, 1.25, 0, "of a seed");
    for (int i = 0; i < 200; i++) {
        search_mutate(&space, &seeds[i % count].rescale, &random, &child);
        test_close(child.attention, 1.25, 0, "of a child");
    }
}

/* -- children -- */
static void assert_in_order(const search_rescale *g, int64_t pairs, double stretch) {
    for (int64_t i = 0; i < pairs; i++) {
        if (!(g->factor[i] >= 1 && g->factor[i] <= 1.25 * stretch)) fail_msg("pair %d: %.17g", (int)i, g->factor[i]);
        if (i && g->factor[i] < g->factor[i - 1])
            fail_msg("pair %d: %.17g after %.17g", (int)i, g->factor[i], g->factor[i - 1]);
    }
    for (int64_t i = pairs; i < SEARCH_PAIRS; i++)
        assert_true(g->factor[i] == 0);
    assert_true(g->attention >= 1 && g->attention <= 1 + 0.2 * log(stretch));
}

/* Many generations of children, so that the edges of the space are reached too. */
static void children_keep_the_order(void **state) {
    (void)state;
    static const int64_t pairs[] = {1, 2, 4, 16, 64, SEARCH_PAIRS};
    static const int64_t stretches[] = {2, 7, 64};
    enum { KEPT = 12 };
    uint64_t random = 11;
    int changed = 0, draws = 0;
    for (int p = 0; p < 6; p++)
        for (int s = 0; s < 3; s++) {
            const gyre_config base = rope(2 * pairs[p], 10000);
            const int64_t to = stretches[s] * TRAINED;
            const search_space space = search_space_of(pairs[p], TRAINED, to, 0);
            search_initial seeds[SEARCH_MAX_INITIAL];
            search_rescale kept[KEPT], child;
            int64_t count = 0;
            gyre_error err;
            if (pairs[p] < 2) /* NTK's formula needs two */
                count = 1, seeds[0].rescale = (search_rescale){.factor = {1.5}, .attention = 1};
            else
                assert_ok(search_initial_candidates(&space, &base, TRAINED, to, seeds, &count, &err));
            for (int i = 0; i < KEPT; i++)
                kept[i] = seeds[i % count].rescale;
            for (int i = 0; i < 600; i++, draws++) {
                const search_rescale *a = &kept[gyre_random_below(&random, KEPT)],
                                     *b = &kept[gyre_random_below(&random, KEPT)];
                if (i % 2)
                    search_mutate(&space, a, &random, &child);
                else
                    search_cross(&space, a, b, &kept[i % KEPT], &random, &child);
                assert_in_order(&child, pairs[p], (double)stretches[s]);
                assert_true(search_is_valid(&space, &child));
                changed += !search_equal(&space, a, &child);
                kept[gyre_random_below(&random, KEPT)] = child;
            }
        }
    assert_true(changed > draws / 2);
}

/* Start tokens come from the list, each of it at some time, and no search without a list draws for them. */
static void start_tokens_of_children(void **state) {
    (void)state;
    static const int64_t asked[] = {16, 1, 4, 4}, listed[] = {0, 1, 4, 16};
    enum { LISTED = 4, DRAWS = 4000 };
    const gyre_config base = rope(DIM, 10000);
    search_space space = search_space_of(PAIRS, TRAINED, 2048, 0), without = space;
    search_initial seeds[SEARCH_MAX_INITIAL];
    search_rescale kept[2], child;
    int64_t count = 0;
    int times[LISTED] = {0}, redrawn = 0;
    uint64_t random = 5, one = 9, other = 9;
    gyre_error err;
    search_space_add_starts(&space, asked, 4);
    assert_int_equal(space.starts_count, LISTED);
    assert_memory_equal(space.starts, listed, sizeof listed);
    assert_ok(search_initial_candidates(&space, &base, TRAINED, 2048, seeds, &count, &err));
    for (int64_t i = 0; i < count; i++)
        assert_int_equal(seeds[i].rescale.start_tokens, 0);
    kept[0] = kept[1] = seeds[SEARCH_INITIAL_YARN].rescale;
    for (int i = 0; i < DRAWS; i++) {
        const search_rescale *a = &kept[i % 2], *b = &kept[1 - i % 2];
        if (i % 4 < 2)
            search_mutate(&space, a, &random, &child);
        else
            search_cross(&space, a, b, b, &random, &child);
        if (i % 4 >= 2) assert_true(child.start_tokens == a->start_tokens || child.start_tokens == b->start_tokens);
        redrawn += i % 4 < 2 && child.start_tokens != a->start_tokens;
        assert_true(search_is_valid(&space, &child));
        int at = 0;
        while (at < LISTED && listed[at] != child.start_tokens)
            at++;
        assert_true(at < LISTED);
        times[at]++;
        kept[i % 2] = child;
    }
    for (int i = 0; i < LISTED; i++)
        assert_true(times[i] > DRAWS / 20);
    /* 0.3, of which one in four draws the same number */
    assert_true(redrawn > 0.18 * DRAWS / 2 && redrawn < 0.27 * DRAWS / 2);
    child.start_tokens = 2;
    assert_false(search_is_valid(&space, &child));
    child = seeds[0].rescale;
    child.start_tokens = 4;
    assert_false(search_equal(&space, &child, &seeds[0].rescale));
    assert_false(search_is_valid(&without, &child));
    search_space of_one = without;
    search_space_add_starts(&of_one, listed, 1);
    for (int i = 0; i < 200; i++) {
        search_rescale a, b;
        search_mutate(&without, &seeds[i % count].rescale, &one, &a);
        search_mutate(&of_one, &seeds[i % count].rescale, &other, &b);
        assert_true(search_equal(&space, &a, &b) && a.start_tokens == 0 && one == other);
    }
}

static void infeasible_candidates(void **state) {
    (void)state;
    const search_space space = search_space_of(3, 100, 400, 0);
    const search_rescale fits = {.factor = {1, 2, 5}, .attention = 1.1};
    search_rescale g = fits;
    assert_true(search_is_valid(&space, &g));
    g.factor[1] = 5.001;
    assert_false(search_is_valid(&space, &g)); /* falls after it */
    g = fits;
    g.factor[2] = 5.001;
    assert_false(search_is_valid(&space, &g)); /* past 1.25 * 4 */
    g = fits;
    g.factor[0] = 0.999;
    assert_false(search_is_valid(&space, &g));
    g = fits;
    g.attention = 1 + 0.2 * log(4) + 1e-9;
    assert_false(search_is_valid(&space, &g));
}

/* -- the race -- */
enum { WINDOWS = 16 };

typedef struct landscape {
    search_rescale best;
    int64_t pairs, read;
    double least;
} landscape;

/* A bowl around `best`, tilted differently for each window: only the mean counts. */
static gyre_status read_landscape(void *ctx, const search_candidate *x, int64_t from, int64_t count, double *nats,
                                  gyre_error *err) {
    (void)err;
    landscape *l = ctx;
    double far = 0;
    for (int64_t i = 0; i < l->pairs; i++)
        far += pow(log(x->rescale.factor[i] / l->best.factor[i]), 2);
    far += 4 * pow(x->rescale.attention - l->best.attention, 2);
    far += 0.1 * (x->rescale.start_tokens != l->best.start_tokens);
    for (int64_t w = 0; w < count; w++)
        nats[w] = 2 + far + 0.1 * sin((double)(from + w)) * (1 + 0.05 * x->rescale.factor[0]);
    l->read += count;
    l->least = fmin(l->least, far);
    return GYRE_OK;
}

static search_problem race_on(landscape *l, search_initial *seeds, int64_t budget, uint64_t seed) {
    const gyre_config base = rope(DIM, 10000);
    search_problem race = {
        .initial = seeds, .windows = WINDOWS, .budget = budget, .seed = seed, .measure = read_landscape, .ctx = l};
    gyre_error err;
    race.space = search_space_of(PAIRS, TRAINED, 4096, 0);
    assert_ok(search_initial_candidates(&race.space, &base, TRAINED, 4096, seeds, &race.initial_count, &err));
    *l = (landscape){.pairs = PAIRS, .least = INFINITY, .best.attention = 1.07};
    for (int i = 0; i < PAIRS; i++)
        l->best.factor[i] = i < 5 ? 1 : 1 + 0.04 * (i - 4) * (i - 4);
    return race;
}

static void race_gets_near_the_best(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 3; seed++) {
        landscape l;
        search_initial seeds[SEARCH_MAX_INITIAL];
        search_result r, again;
        gyre_error err;
        const search_problem race = race_on(&l, seeds, 200 * WINDOWS, seed);
        assert_true(search_min_budget(&race) <= race.budget);
        assert_ok(search_run(&race, &r, &err));
        assert_true(r.spent <= race.budget && r.spent == l.read && r.spent > race.budget - 4 * WINDOWS);
        assert_in_order(&r.rescale, PAIRS, 8);
        double sum = 0, best_seed = INFINITY;
        for (int w = 0; w < WINDOWS; w++)
            sum += r.nats[w];
        test_close(r.mean, sum / WINDOWS, 1e-12, "the mean over all windows");
        for (int64_t i = 0; i < race.initial_count; i++)
            if (isfinite(r.initial_mean[i])) best_seed = fmin(best_seed, r.initial_mean[i]);
        assert_true(isfinite(r.initial_mean[SEARCH_INITIAL_LINEAR]) && isfinite(r.initial_mean[SEARCH_INITIAL_NTK]) &&
                    isfinite(r.initial_mean[SEARCH_INITIAL_YARN]));
        if (!(r.mean - 2 < 0.2 * (best_seed - 2))) fail_msg("%g from the best, seeds %g", r.mean - 2, best_seed - 2);
        assert_ok(search_run(&race, &again, &err));
        assert_memory_equal(&r.rescale, &again.rescale, sizeof r.rescale);
        free(r.nats);
        free(again.nats);
    }
}

static void race_finds_the_start_tokens(void **state) {
    (void)state;
    static const int64_t asked[] = {1, 2, 4, 8, 16, 32, 64, 128};
    for (int k = 0; k < 8; k += 3) {
        landscape l;
        search_initial seeds[SEARCH_MAX_INITIAL];
        search_result r;
        gyre_error err;
        search_problem race = race_on(&l, seeds, 100 * WINDOWS, 2);
        search_space_add_starts(&race.space, asked, 8);
        l.best.start_tokens = asked[k];
        assert_ok(search_run(&race, &r, &err));
        assert_int_equal(r.rescale.start_tokens, asked[k]);
        assert_true(r.mean < 2 + 0.1);
        free(r.nats);
    }
}

/* A budget ends the race and changes nothing before its end. */
static void larger_budget_continues(void **state) {
    (void)state;
    landscape l;
    search_initial seeds[SEARCH_MAX_INITIAL];
    search_result small, large;
    gyre_error err;
    search_problem race = race_on(&l, seeds, 60 * WINDOWS, 5);
    assert_ok(search_run(&race, &small, &err));
    race.budget *= 2;
    assert_ok(search_run(&race, &large, &err));
    assert_true(large.mean <= small.mean && large.spent > small.spent && large.generations > small.generations);
    assert_memory_equal(small.initial_mean, large.initial_mean, SEARCH_INITIAL_OTHERS * sizeof *small.initial_mean);
    free(small.nats);
    free(large.nats);
}

static gyre_status fail_late(void *ctx, const search_candidate *x, int64_t from, int64_t count, double *nats,
                             gyre_error *err) {
    landscape *l = ctx;
    if (l->read > 100 * WINDOWS) return GYRE_EIO;
    return read_landscape(ctx, x, from, count, nats, err);
}

static void failing_window_ends_the_race(void **state) {
    (void)state;
    landscape l;
    search_initial seeds[SEARCH_MAX_INITIAL];
    search_result r = {.generations = -1};
    gyre_error err;
    search_problem race = race_on(&l, seeds, 200 * WINDOWS, 5);
    race.measure = fail_late;
    assert_int_equal(search_run(&race, &r, &err), GYRE_EIO);
    assert_int_equal(r.generations, -1);
}

/* -- windows -- */
static gyre_text text_of(int32_t *ids, int64_t count, int32_t first) {
    for (int64_t i = 0; i < count; i++)
        ids[i] = first + (int32_t)i;
    return (gyre_text){.ids = ids, .count = count, .hash = (uint64_t)first + 1, .files = 1};
}

/* out = 1 if the token is in a range of the set. Ids show where it was: 0 .. 1599 in the first text, with four ranges of 200
 * in each set; 2000 .. 2119 in the second, with one of 60. */
static int is_in(int32_t id, int held) {
    return id < 2000 ? id / 200 % 2 == held : (id - 2000) / 60 == held;
}

static void windows_stay_in_their_ranges(void **state) {
    (void)state;
    static int32_t a[1600], b[120];
    const gyre_text texts[2] = {text_of(a, 1600, 0), text_of(b, 120, 2000)};
    search_windows w;
    gyre_error err;
    assert_ok(search_windows_create(texts, 2, &(search_window_options){40, 20, 1000, 1000, 1}, &w, &err));
    /* 200 tokens hold (200 - 41) / 20 + 1 = 8 windows, 60 hold one. */
    assert_int_equal(w.searched_count, 33);
    assert_int_equal(w.held_out_count, 33);
    assert_int_equal(w.text.count, 1720);
    for (int held = 0; held < 2; held++)
        for (int64_t i = 0; i < 33; i++) {
            const int64_t start = held ? w.held_out[i] : w.searched[i];
            for (int t = 0; t <= 40; t++) {
                assert_int_equal(w.text.ids[start + t], w.text.ids[start] + t);
                assert_true(is_in(w.text.ids[start + t], held));
            }
            for (int64_t j = 0; j < i; j++)
                assert_true((held ? w.held_out[j] : w.searched[j]) != start);
        }
    search_windows_free(&w);
    assert_ok(search_windows_create(texts, 2, &(search_window_options){40, 20, 4, 5, 1}, &w, &err));
    assert_int_equal(w.searched_count, 4);
    assert_int_equal(w.held_out_count, 5);
    search_windows_free(&w);
}

/* Each window holds keys, of which the last digits are a copy of digits before; nothing else counts. */
static void needles_are_hidden(void **state) {
    (void)state;
    enum { CONTEXT = 100, NEEDLES = 3, TOKENS = 4000 };
    static int32_t ids[TOKENS];
    gyre_text text = {.ids = ids, .count = TOKENS, .files = 1};
    const search_window_options wanted = {CONTEXT, CONTEXT, 5, 4, 7};
    search_windows w, again;
    gyre_error err;
    for (int i = 0; i < TOKENS; i++)
        ids[i] = 'a' + i % 26;
    assert_ok(search_windows_create(&text, 1, &wanted, &w, &err));
    assert_ok(search_windows_create(&text, 1, &wanted, &again, &err));
    assert_ok(search_needles_hide(&w, NULL, NEEDLES, 1, &err));
    assert_ok(search_needles_hide(&again, NULL, NEEDLES, 1, &err));
    assert_int_equal(w.text.count, (w.searched_count + w.held_out_count) * (CONTEXT + 1));
    assert_int_equal(w.tokens, TOKENS);
    assert_memory_equal(w.text.ids, again.text.ids, (size_t)w.text.count * sizeof *ids);
    for (int64_t i = 0; i < w.searched_count + w.held_out_count; i++) {
        const int64_t start = i < w.searched_count ? w.searched[i] : w.held_out[i - w.searched_count];
        const int32_t *window = w.text.ids + start;
        int counted = 0;
        assert_int_equal(start, i * (CONTEXT + 1));
        for (int k = 0; k <= CONTEXT; k++) {
            if (!w.counted[start + k]) continue;
            counted++;
            /* the token before it and the same token stand together earlier, and neither is of the text's letters */
            int found = 0;
            for (int j = 1; j < k - 1; j++)
                found += window[j] == window[k] && window[j - 1] == window[k - 1];
            if (found < 1 || window[k] < '0' || window[k] > '9') fail_msg("window %d, token %d", (int)i, k);
        }
        assert_int_equal(counted, NEEDLES * 4);
    }
    search_windows_free(&again);
    search_windows_free(&w);
}

/* From the critical pair on every factor is the whole stretch; before it they rise evenly by ratio. */
static void critical_candidates(void **state) {
    (void)state;
    enum { CRITICAL_PAIRS = 16, STRETCH = 4 };
    search_initial initial[SEARCH_MAX_INITIAL];
    int64_t count = 0;
    gyre_config base = GYRE_INIT(gyre_config);
    base.kind = GYRE_KIND_ROPE;
    base.head_dim = base.rope.dim = 2 * CRITICAL_PAIRS;
    base.rope.base = 10000;
    const search_space space = search_space_of(CRITICAL_PAIRS, 256, 1024, 0);
    search_initial_critical(&space, &base, 256, 1024, initial, &count);
    /* 256 tokens are a turn of 2 pi at a frequency of 0.0245: pair 7 of 16 (0.0178) is the first below it */
    static const int critical[] = {7, 6, 5};
    assert_int_equal(count, 3); /* 0.9 and 0.8 of 7 are both 6 */
    for (int k = 0; k < 3; k++) {
        assert_true(search_is_valid(&space, &initial[k].rescale));
        for (int i = 0; i < CRITICAL_PAIRS; i++)
            test_close(initial[k].rescale.factor[i], i < critical[k] ? pow(STRETCH, (double)i / critical[k]) : STRETCH,
                       1e-12, initial[k].origin);
        test_close(initial[k].rescale.attention, sqrt(1 + log(4) / log(256)), 1e-12, "attention factor");
    }
}

static void windows_need_room(void **state) {
    (void)state;
    static int32_t ids[1000];
    search_windows w;
    gyre_error err;
    const int64_t enough = 2 * (100 + 1 + 50);
    gyre_text text = text_of(ids, enough, 0);
    assert_ok(search_windows_create(&text, 1, &(search_window_options){100, 50, 8, 8, 1}, &w, &err));
    assert_int_equal(w.held_out_count, 2);
    search_windows_free(&w);
    text.count = enough - 2;
    assert_int_equal(search_windows_create(&text, 1, &(search_window_options){100, 50, 8, 8, 1}, &w, &err), GYRE_EINVAL);
    assert_non_null(strstr(err.text, "--text: 300 tokens"));
    assert_non_null(strstr(err.text, "302"));
}

/* -- the interval -- */
/* out = the smallest k with P(X <= k) >= p, X the number of ones in n draws that are 1 with probability q. */
static int binomial_point(int n, double q, double p) {
    double term = pow(1 - q, n), sum = term;
    int k = 0;
    for (; sum < p; k++) {
        term *= (double)(n - k) / (k + 1) * q / (1 - q);
        sum += term;
    }
    return k;
}

/* For zeros and ones the mean of a resample is a binomial count: its quantiles are known without drawing. */
static void interval_matches_the_binomial(void **state) {
    (void)state;
    static const struct { int n, ones; } cases[] = {{20, 10}, {24, 6}, {30, 24}, {1, 1}};
    for (int c = 0; c < 4; c++) {
        double before[30], after[30];
        const int n = cases[c].n, ones = cases[c].ones;
        for (int i = 0; i < n; i++) {
            after[i] = 3 + 0.5 * i;
            before[i] = after[i] + (i < ones);
        }
        search_interval got;
        gyre_error err;
        assert_ok(search_gain(before, after, n, 7, &got, &err));
        test_close(got.mean, (double)ones / n, 1e-14, "mean");
        const int low = n == 1 ? 1 : binomial_point(n, (double)ones / n, 0.025);
        const int high = n == 1 ? 1 : binomial_point(n, (double)ones / n, 0.975);
        test_close(got.low, (double)low / n, 1e-14, "low");
        test_close(got.high, (double)high / n, 1e-14, "high");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(initial_candidates_are_the_methods),
                                       cmocka_unit_test(a_fixed_attention_factor),
                                       cmocka_unit_test(children_keep_the_order),
                                       cmocka_unit_test(start_tokens_of_children),
                                       cmocka_unit_test(infeasible_candidates),
                                       cmocka_unit_test(race_finds_the_start_tokens),
                                       cmocka_unit_test(race_gets_near_the_best),
                                       cmocka_unit_test(larger_budget_continues),
                                       cmocka_unit_test(failing_window_ends_the_race),
                                       cmocka_unit_test(windows_stay_in_their_ranges),
                                       cmocka_unit_test(needles_are_hidden),
                                       cmocka_unit_test(critical_candidates),
                                       cmocka_unit_test(windows_need_room),
                                       cmocka_unit_test(interval_matches_the_binomial)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
