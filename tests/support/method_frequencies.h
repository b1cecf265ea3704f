/* method_frequencies.h: a RoPE of 16 pairs, and its frequencies under the methods of the command. */
#ifndef GYRE_TESTS_METHOD_FREQUENCIES_H
#define GYRE_TESTS_METHOD_FREQUENCIES_H
#include "tools/common/methods.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { DIM = 32, PAIRS = DIM / 2, TRAINED = 512 };
static const double base_of_model = 10000;

static inline gyre_config rope(void) {
    gyre_config config = GYRE_INIT(gyre_config);
    config.kind = GYRE_KIND_ROPE;
    config.head_dim = DIM;
    config.trained_length = TRAINED;
    config.rope.base = base_of_model;
    return config;
}

static inline double theta(double base, int pair) {
    return pow(base, -2.0 * pair / DIM);
}

/* The frequencies of a method at a context; *attention_factor may be NULL. */
static inline void frequencies(const char *text, const gyre_config *base, int64_t context, double *inv_freq,
                               double *attention_factor) {
    method m;
    gyre_error err = {0, ""};
    gyre_encoding *encoding = NULL;
    assert_int_equal(method_parse(text, &m, &err), GYRE_OK);
    assert_int_equal(method_encoding(&m, base, base->trained_length, context, NULL, &encoding, &err), GYRE_OK);
    assert_int_equal(gyre_encoding_get_config(encoding)->context_length, context);
    assert_int_equal(gyre_encoding_get_config(encoding)->rope.table_positions, context);
    assert_int_equal(gyre_encoding_frequencies(encoding, 0, inv_freq, attention_factor), GYRE_OK);
    gyre_encoding_free(encoding);
}

#endif
