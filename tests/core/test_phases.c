/* test_phases.c: what makes TAPA's phases: the turns of a distance, and the kernels of cosines, against long double. */
#include "core/encoding.h"
#include "core/positions.h"
#include "core/scheme.h"
#include "kernels/kernels.h"
#include "run_each_tier.h"
#include "support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* -- kernels -- */

/* Turns of every size, halves and quarters among them, up to those that have no fraction. */
static void fill_turns(test_random *random, float *phase, float *turns, int n) {
    for (int i = 0; i < n; i++) {
        const double size = ldexp(1, (int)(test_next(random) % 50) - 20);
        phase[i] = (float)(i % 3 == 0   ? rint(4 * size) / 4
                           : i % 3 == 1 ? size * test_uniform(random)
                                        : test_uniform(random));
        turns[i] = i % 4 ? 1 : (float)(1 + test_uniform(random));
        if (i % 5 == 0) phase[i] = -phase[i];
    }
}

static void cosines_of_phases(void **state) {
    enum { N = 4096 };
    const gyre_kernels *kernels = tier_or_skip(*state), *scalar = gyre_kernels_tier("scalar");
    static const long double turn = 6.283185307179586476925286766559L;
    static float x[4][N], phase[4][N], turns[N], cosine[2][N];
    test_random random = {35};
    long double worst = 0;
    for (int round = 0; round < 40; round++) {
        fill_turns(&random, phase[0], turns, N);
        test_fill(&random, x[0], N);
        phase[0][1] = round % 2 ? -0.F : 0, x[0][1] = 0.75F;
        phase[0][2] = INFINITY, phase[0][3] = NAN;
        for (int i = 1; i < 4; i++) {
            memcpy(x[i], x[0], sizeof x[0]);
            memcpy(phase[i], phase[0], sizeof phase[0]);
        }
        kernels->phase_row_f32(&(gyre_phase_row){N, x[1], phase[1], turns, NULL});
        kernels->phase_row_f32(&(gyre_phase_row){N, x[2], phase[2], turns, cosine[0]});
        scalar->phase_row_f32(&(gyre_phase_row){N, x[3], phase[3], turns, cosine[1]});
        assert_memory_equal(phase[1], phase[0], sizeof phase[0]);
        assert_true(x[2][1] == 0.75F && cosine[0][1] == 1 && phase[2][1] == 0);
        assert_true(isnan(x[2][2]) && isnan(x[2][3]) && isnan(phase[2][2]) && isnan(cosine[0][3]));
        for (int i = 1; i < N; i += i == 1 ? 3 : 1) {
            const float t = turns[i] * phase[0][i];
            const long double exact = turn * ((long double)t - rintl((long double)t)), size = turn * (long double)turns[i];
            assert_true(x[1][i] == x[2][i] && x[2][i] == x[3][i] && phase[2][i] == phase[3][i]);
            assert_true(cosine[0][i] == cosine[1][i] && x[2][i] == x[0][i] * cosine[0][i]);
            worst = larger_fraction(worst, (long double)cosine[0][i], cosl(exact), 0x1p-22L);
            worst = larger_fraction(worst, (long double)phase[2][i], -size * (long double)x[0][i] * sinl(exact),
                                    size * (0x1p-22L + 0x1p-22L * fabsl(sinl(exact))) * fabsl((long double)x[0][i]));
        }
    }
    report_fraction("phase_row_f32", kernels, worst);
}

static void gradients_of_phases(void **state) {
    const gyre_kernels *kernels = tier_or_skip(*state);
    float dx[48], slope[48], cosine[48], was[2][48];
    test_random random = {36};
    test_fill(&random, dx, 48);
    test_fill(&random, slope, 48);
    test_fill(&random, cosine, 48);
    dx[3] = dx[20] = 0;
    slope[3] = NAN;
    cosine[20] = INFINITY;
    memcpy(was[0], dx, sizeof dx);
    memcpy(was[1], slope, sizeof slope);
    kernels->phase_gradient_row_f32(dx, slope, cosine, 48);
    for (int i = 0; i < 48; i++) {
        assert_true(dx[i] == (was[0][i] == 0 ? 0 : was[0][i] * cosine[i]));
        assert_true(slope[i] == (was[0][i] == 0 ? 0 : was[0][i] * was[1][i]));
    }
}

/* -- distances -- */

static const double exponents[] = {0, 0.01, 0.1, 0.5, 1, 1.7, 2};

/* Distances of every length in bits, at both ends of those with the same leading bits, and at random. */
static void turns_of_distances(void **state) {
    enum { N = 400 };
    (void)state;
    test_random random = {37};
    for (size_t e = 0; e < sizeof exponents / sizeof *exponents; e++) {
        gyre_config config = GYRE_INIT(gyre_config);
        config.kind = GYRE_KIND_TAPA;
        config.head_dim = 12;
        config.score.amplitudes = e % 2 ? 5 : 0;
        config.score.exponent = exponents[e];
        gyre_encoding *encoding = test_encoding(&config);
        const int64_t phases = e % 2 ? 7 : 6, q = e % 2 ? -GYRE_MAX_POSITION : GYRE_MAX_POSITION;
        const long double alpha = exponents[e] > 0 ? (long double)exponents[e] : 0.1L;
        int64_t k[N];
        double turns[N];
        for (int i = 0; i < N; i++) {
            const int bits = i / 12;
            const int64_t bit = (int64_t)1 << bits, at = i % 12;
            int64_t d = at < 4 ? bit - 2 + at : bit + (int64_t)(test_next(&random) % (uint64_t)bit);
            if (at > 8) d = (d >> (bits > 13 ? bits - 13 : 0) << (bits > 13 ? bits - 13 : 0)) - (at == 9);
            if (d < 0 || d > 2 * (int64_t)GYRE_MAX_POSITION) d = 2 * (int64_t)GYRE_MAX_POSITION - i;
            k[i] = q > 0 ? q - d : q + d;
        }
        encoding->scheme->phase_row(encoding, q, k, N, turns);
        for (int i = 0; i < N; i++) {
            const long double d = fabsl((long double)(q - k[i])), want = powl(d, alpha) / sqrtl((long double)phases);
            test_close((long double)turns[i], want, want * (0x1p-24L + 0x1p-40L), "turns");
            if (d == 0) assert_true(turns[i] == 0);
        }
        gyre_encoding_free(encoding);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {FOR_TIERS(cosines_of_phases), FOR_TIERS(gradients_of_phases),
                                       cmocka_unit_test(turns_of_distances)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
