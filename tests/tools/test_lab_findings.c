/* test_lab_findings.c: the sentences that open the lab's report, from made rows. */
#include "tools/lab/lab_findings.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { LAST = LAB_CONTEXTS - 1 };

static void make_row(lab_row *row, const char *name, double trained, double longest, double keys) {
    snprintf(row->name, sizeof row->name, "%s", name);
    row->spread[0] = row->spread[LAST] = (lab_spread){.measured = 1, .known = 1};
    row->spread[0].of[LAB_PERPLEXITY].mean = trained;
    row->spread[LAST].of[LAB_PERPLEXITY].mean = longest;
    row->spread[LAST].of[LAB_KEYS].mean = keys;
}

static lab *make(void) {
    lab *l = calloc(1, sizeof *l);
    assert_non_null(l);
    l->plan.contexts_count = LAB_CONTEXTS;
    l->plan.measures = LAB_MEASURES;
    l->plan.details = 1;
    l->plan.trained = 256;
    l->plan.longest = 4096;
    l->plan.rope = 1;
    l->plan.encodings_count = 3;
    l->plan.methods_count = 3;
    l->plan.tuned_rows = 2;
    make_row(&l->encodings[0], "learned", 4, 1, 1);
    l->encodings[0].spread[LAST].known = 0; /* it ends before */
    make_row(&l->encodings[1], "rope", 3, 39, 0);
    make_row(&l->encodings[2], "alibi", 3.75, 3.625, 0.125);
    make_row(&l->methods[0], "none", 3, 39, 0);
    make_row(&l->methods[1], "yarn:16", 3.5, 4.95, 0.25);
    make_row(&l->methods[2], "yarn", 3, 4.95, 0.25);
    make_row(&l->tuned[0], "none", 3, 2.5, 1); /* not a method */
    make_row(&l->tuned[1], "yarn", 3, 3, 0.92);
    l->ranks[LAB_METHODS_AS_THEY_ARE][0][LAST] = (lab_rank){.known = 1, .rows = 3, .tau = 0.5, .low = 0.25, .high = 0.75};
    return l;
}

static void all_sentences(void **state) {
    (void)state;
    char out[LAB_FINDINGS][LAB_FINDING];
    lab *l = make();
    assert_int_equal(lab_findings(l, out), 3);
    assert_string_equal(out[0],
                        "At 16 times its length the RoPE model as it is has perplexity 39.00 and finds 0 % of the keys; "
                        "under `yarn` 4.95 and 25 %; fine-tuned with `yarn` 3.00 and 92 %.");
    assert_string_equal(out[1],
                        "Of the encodings trained at 256 bytes and left as they are, `alibi` has the lowest perplexity at "
                        "4096: 3.62, after 3.75 at the trained length; it finds 12 % of the keys there.");
    assert_string_equal(out[2], "Perplexity and keys rank the methods without fine-tuning only partly alike at 4096 bytes "
                                "(Kendall's tau 0.50, 0.25 to 0.75); most keys, 25 %, are found under `yarn`.");
    l->ranks[LAB_METHODS_AS_THEY_ARE][0][LAST].low = -0.25;
    assert_int_equal(lab_findings(l, out), 3);
    assert_non_null(strstr(out[2], "without fine-tuning differently at"));
    l->ranks[LAB_METHODS_AS_THEY_ARE][0][LAST].low = 0.75;
    assert_int_equal(lab_findings(l, out), 3);
    assert_non_null(strstr(out[2], "without fine-tuning alike at"));
    free(l);
}

static void no_keys(void **state) {
    (void)state;
    char out[LAB_FINDINGS][LAB_FINDING];
    lab *l = make();
    for (int i = 0; i < 3; i++)
        l->methods[i].spread[LAST].of[LAB_KEYS].mean = 0;
    assert_int_equal(lab_findings(l, out), 3);
    assert_string_equal(out[2], "Whatever the perplexity, no method finds a single key at 4096 bytes without fine-tuning.");
    free(l);
}

/* The quick run ranks no rows: its third sentence compares the best rows of the two measures, with the model as it is. */
static void quick(void **state) {
    (void)state;
    char out[LAB_FINDINGS][LAB_FINDING];
    lab *l = make();
    l->plan.details = 0;
    l->ranks[LAB_METHODS_AS_THEY_ARE][0][LAST].known = 0;
    assert_int_equal(lab_findings(l, out), 3);
    assert_string_equal(out[2], "Most keys at 4096 bytes without fine-tuning, 25 %, are found under `yarn`, which has the "
                                "lowest perplexity too.");
    l->methods[1].spread[LAST].of[LAB_KEYS].mean = 0.5;
    assert_int_equal(lab_findings(l, out), 3);
    assert_string_equal(out[2], "Most keys at 4096 bytes without fine-tuning, 50 %, are found under `yarn:16`, but `yarn` "
                                "has the lowest perplexity.");
    l->methods[0].spread[LAST].of[LAB_PERPLEXITY].mean = 2;
    assert_int_equal(lab_findings(l, out), 3);
    assert_non_null(strstr(out[2], "but `none` has the lowest perplexity."));
    l->methods[0].spread[LAST].of[LAB_KEYS].mean = 0.75;
    assert_int_equal(lab_findings(l, out), 3);
    assert_non_null(strstr(out[2], "75 %, are found under `none`, which has the lowest perplexity too."));
    free(l);
}

/* A run without methods, and one that was stopped: only what is measured is said. */
static void parts_of_a_run(void **state) {
    (void)state;
    char out[LAB_FINDINGS][LAB_FINDING];
    lab *l = make();
    l->tuned[0].spread[LAST].measured = l->tuned[1].spread[LAST].measured = 0;
    assert_int_equal(lab_findings(l, out), 3);
    assert_non_null(strstr(out[0], "under `yarn` 4.95 and 25 %."));
    for (int i = 0; i < 3; i++)
        l->methods[i].spread[LAST].measured = 0;
    l->ranks[LAB_ENCODINGS][0][LAST].known = 0;
    assert_int_equal(lab_findings(l, out), 1);
    assert_non_null(strstr(out[0], "Of the encodings"));
    for (int i = 0; i < 3; i++)
        l->encodings[i].spread[LAST].measured = 0;
    assert_int_equal(lab_findings(l, out), 0);
    free(l);
}

/* A stopped run is shown as soon as it has a cell, of whichever part is measured first. */
static void stopped_run_has_rows(void **state) {
    (void)state;
    lab *l = make();
    assert_false(lab_has_rows(l));
    l->methods[0].cells[0][0].measured = 1;
    assert_true(lab_has_rows(l));
    l->methods[0].cells[0][0].measured = 0;
    l->encodings[0].cells[0][0].measured = 1;
    assert_true(lab_has_rows(l));
    l->plan.encodings_count = 0;
    assert_false(lab_has_rows(l));
    free(l);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_sentences), cmocka_unit_test(no_keys), cmocka_unit_test(quick),
                                       cmocka_unit_test(parts_of_a_run), cmocka_unit_test(stopped_run_has_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
