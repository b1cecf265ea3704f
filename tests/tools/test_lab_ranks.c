/* test_lab_ranks.c: whether two measures of the lab rank the rows alike, on made cells whose orders are known. */
#include "tools/lab/lab.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS = 4, SEEDS = 2, WINDOWS = 5, EACH = 8 };

/* What a row has at context 0, in every seed and window: nats, keys and copied bytes right in each window. */
typedef struct made_row {
    double nats;
    int keys, copies;
} made_row;

static lab_answers answers(int right) {
    lab_answers a = {.share = (double)right / EACH, .asked = EACH * WINDOWS, .windows = WINDOWS};
    for (int w = 0; w < WINDOWS; w++)
        a.right[w] = right;
    return a;
}

/* out = a lab of these encodings.  turn: in the second seed the nats of the first two rows are swapped. */
static lab *make(const made_row *rows, int turn) {
    lab *l = calloc(1, sizeof *l);
    assert_non_null(l);
    l->plan.seeds = SEEDS;
    l->plan.contexts_count = LAB_CONTEXTS;
    l->plan.measures = LAB_MEASURES;
    l->plan.regions = 2;
    l->plan.rope = -1;
    l->plan.encodings_count = ROWS;
    for (int i = 0; i < ROWS; i++) {
        lab_row *row = &l->encodings[i];
        for (int s = 0; s < SEEDS; s++) {
            const double nats = rows[turn && s == 1 && i < 2 ? 1 - i : i].nats;
            row->cells[s][0] = (lab_cell){.measured = 1,
                                          .known = 1,
                                          .nats = nats,
                                          .by_region = {nats - 0.25, nats + 0.25},
                                          .keys = answers(rows[i].keys),
                                          .copies = answers(rows[i].copies)};
        }
        lab_summarise(&l->plan, row, 0);
        row->seeds_done = SEEDS;
    }
    lab_rank_rows(l);
    return l;
}

static void check(const lab *l, int pair, double tau, double low, double high) {
    const lab_rank *r = &l->ranks[LAB_ENCODINGS][pair][0];
    assert_true(r->known);
    if (fabs(r->tau - tau) > 1e-12 || fabs(r->low - low) > 1e-12 || fabs(r->high - high) > 1e-12)
        fail_msg("pair %d: %g (%g to %g), expected %g (%g to %g)", pair, r->tau, r->low, r->high, tau, low, high);
}

/* Keys follow perplexity with one tie: 5 of 6 pairs of rows agree, the other is tied in keys.  Copies oppose it. */
static void orders(void **state) {
    (void)state;
    static const made_row rows[ROWS] = {{1, 8, 1}, {2, 8, 2}, {3, 4, 3}, {4, 1, 8}};
    lab *l = make(rows, 0);
    const double tied = 5 / sqrt(6 * 5.0);
    check(l, 0, tied, tied, tied);
    check(l, 1, -1, -1, -1);
    check(l, 2, -tied, -tied, -tied);
    assert_int_equal(l->ranks[LAB_ENCODINGS][0][0].rows, ROWS);
    assert_false(l->ranks[LAB_ENCODINGS][0][1].known); /* not measured */
    assert_false(l->ranks[LAB_FINE_TUNED][0][0].known);
    free(l);
}

/* As many copied bytes, spread over the windows otherwise: a tie, although the shares, which are not whole numbers of
 * eighths, add up to numbers that differ in their last bits. */
static void equal_totals_tie(void **state) {
    (void)state;
    static const made_row rows[ROWS] = {{1, 8, 8}, {2, 6, 6}, {3, 4, 4}, {4, 1, 1}};
    static const int totals[][WINDOWS] = {{0, 7, 2, 0, 0}, {0, 8, 1, 0, 0}, {1, 1, 1, 1, 1}, {0, 0, 0, 0, 0}};
    static const int others[][WINDOWS] = {{0, 8, 1, 0, 0}, {0, 7, 2, 0, 0}, {1, 1, 1, 1, 1}, {0, 0, 0, 0, 0}};
    for (int t = 0; t < 2; t++) {
        lab *l = make(rows, 0);
        for (int i = 0; i < ROWS; i++) {
            for (int s = 0; s < SEEDS; s++) {
                lab_answers *a = &l->encodings[i].cells[s][0].copies;
                *a = (lab_answers){.asked = 24 * WINDOWS, .windows = WINDOWS};
                memcpy(a->right, t ? others[i] : totals[i], sizeof totals[i]);
                for (int w = 0; w < WINDOWS; w++)
                    a->share += (double)a->right[w] / (double)a->asked;
            }
            lab_summarise(&l->plan, &l->encodings[i], 0);
        }
        lab_rank_rows(l);
        const double tau = l->ranks[LAB_ENCODINGS][1][0].tau, tied = 5 / sqrt(6 * 5.0);
        if (fabs(tau - tied) > 1e-12) fail_msg("tau %.17g, with a tie %.17g", tau, tied);
        free(l);
    }
}

/* Two rows that the seeds rank differently tie on the mean.  A sample with one seed twice, half of all, decides for one. */
static void seeds_disagree(void **state) {
    (void)state;
    static const made_row rows[ROWS] = {{1, 8, 8}, {2, 6, 6}, {3, 4, 4}, {4, 1, 1}};
    lab *l = make(rows, 1);
    check(l, 0, 5 / sqrt(5 * 6.0), 4.0 / 6, 1);
    check(l, 2, 1, 1, 1); /* keys and copies have no such rows */
    free(l);
}

/* A row of another name counts once; a measure that is the same for all ranks nothing. */
static void same_rows(void **state) {
    (void)state;
    static const made_row twice[ROWS] = {{1, 8, 3}, {2, 4, 3}, {2, 4, 3}, {4, 1, 3}},
                          few[ROWS] = {{1, 8, 1}, {2, 4, 2}, {2, 4, 2}, {1, 8, 1}};
    lab *l = make(twice, 0);
    check(l, 0, 1, 1, 1);
    assert_int_equal(l->ranks[LAB_ENCODINGS][0][0].rows, ROWS - 1);
    assert_false(l->ranks[LAB_ENCODINGS][1][0].known);
    free(l);
    l = make(few, 0);
    assert_false(l->ranks[LAB_ENCODINGS][0][0].known); /* two rows are left */
    free(l);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(orders), cmocka_unit_test(equal_totals_tie),
                                       cmocka_unit_test(seeds_disagree), cmocka_unit_test(same_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
