/* test_mutations.c: a test of the tests: each of six bugs in a kernel that rotates is caught, in every type and on top of
 * every tier, by the checks that the real kernels pass (check_rotation_kernels.h). */
#include "check_rotation_kernels.h"
#include "kernels/kernels.h"
#include "run_each_tier.h"

/* The kernel that the mutants below modify, and its type. Kernels have no argument to pass them. */
static rotate_kernel *right;
static gyre_dtype type;

/* Skips the pairs after the last whole vector of 16. */
static void short_tail(const gyre_rotate_job *t) {
    const size_t size = gyre_dtype_size(type);
    const int64_t some = t->pairs % 16;
    static double saved[BUFFER];
    for (int64_t h = 0; h < t->heads; h++) {
        gyre_rotate_job one = *t;
        one.heads = 1;
        one.in = (const char *)t->in + (size_t)(h * t->in_head_stride) * size;
        one.out = (char *)t->out + (size_t)(h * t->out_head_stride) * size;
        char *out = one.out;
        memcpy(saved, out, 2 * (size_t)t->pairs * size);
        right(&one);
        for (int64_t i = t->pairs - some; i < t->pairs; i++) {
            const size_t a = (size_t)(t->to_half ? i : 2 * i) * size, b = a + (size_t)(t->to_half ? t->pairs : 1) * size;
            memcpy(out + a, (char *)saved + a, size);
            memcpy(out + b, (char *)saved + b, size);
        }
    }
}

/* Writes one element past the end of each head. */
static void overrun_by_one(const gyre_rotate_job *t) {
    const size_t size = gyre_dtype_size(type);
    right(t);
    for (int64_t h = 0; h < t->heads; h++) {
        char *end = (char *)t->out + (size_t)(h * t->out_head_stride + 2 * t->pairs) * size;
        memcpy(end, end - size, size);
    }
}

/* The other way round. */
static void sign(const gyre_rotate_job *t) {
    gyre_rotate_job other = *t;
    other.negate_sine = !t->negate_sine;
    right(&other);
}

/* Rows of another sin (and cos) than was given. */
static void turn_by(const gyre_rotate_job *t, double (*change)(double), int change_cosine) {
    static double cosine[ROTATION_PAIRS], sine[ROTATION_PAIRS];
    const gyre_dtype table = type == GYRE_DTYPE_F64 ? GYRE_DTYPE_F64 : GYRE_DTYPE_F32;
    gyre_rotate_job other = *t;
    for (size_t i = 0; i < (size_t)t->pairs; i++) {
        const double c = test_get(t->cosine, table, i);
        test_put(sine, table, i, change(test_get(t->sine, table, i)));
        test_put(cosine, table, i, change_cosine ? change(c) : c);
    }
    other.cosine = cosine;
    other.sine = sine;
    right(&other);
}

static double to_brain(double x) {
    uint16_t brain;
    test_put(&brain, GYRE_DTYPE_BF16, 0, x);
    return test_get(&brain, GYRE_DTYPE_BF16, 0);
}
static void brain_sine(const gyre_rotate_job *t) {
    turn_by(t, to_brain, 0);
}

static void stride_ignored(const gyre_rotate_job *t) {
    gyre_rotate_job other = *t;
    other.in_head_stride = other.out_head_stride = 2 * t->pairs;
    right(&other);
}

/* Cut after 21 bits, after 50 of a double. */
static double three_bits_less(double x) {
    int exponent;
    const int bits = type == GYRE_DTYPE_F64 ? 50 : 21;
    const double fraction = frexp(x, &exponent);
    return ldexp(trunc(ldexp(fraction, bits)), exponent - bits);
}
static void three_bits_lost(const gyre_rotate_job *t) {
    turn_by(t, three_bits_less, 1);
}

static const struct {
    const char *name;
    rotate_kernel *kernel;
} mutants[] = {
    {"short tail", short_tail},          {"overrun by one", overrun_by_one},      {"sign", sign},
    {"sin rounded to bf16", brain_sine}, {"head stride ignored", stride_ignored}, {"three bits lost", three_bits_lost}};

static void catches_mutants(void **state) {
    const gyre_kernels *kernels = tier_or_skip(*state);
    for (int i = 0; i < ROTATION_TYPES; i++) {
        type = rotation_types[i].dtype;
        right = rotation_of(kernels, type);
        const rotation_verdict unchanged = check_rotations(right, type);
        if (unchanged.wrong) fail_msg("rotate_%s %s: %s", rotation_types[i].name, kernels->tier, unchanged.wrong);
        for (size_t m = 0; m < sizeof mutants / sizeof *mutants; m++) {
            const rotation_verdict verdict = check_rotations(mutants[m].kernel, type);
            if (!verdict.wrong)
                fail_msg("rotate_%s %s: %s passes", rotation_types[i].name, kernels->tier, mutants[m].name);
            else
                print_message("rotate_%s %s, %s: %s\n", rotation_types[i].name, kernels->tier, mutants[m].name,
                              verdict.wrong);
        }
    }
}

/* -- what the six do not reach: the other checks catch their own -- */

/* Computes a whole vector across the end of a row: a NaN of one pair reaches the result of another. */
static void smeared(const gyre_rotate_job *t) {
    right(t);
    for (size_t i = 0; i + 1 < (size_t)(2 * t->pairs); i++)
        if (isnan(test_get(t->out, type, i)) && !isnan(test_get(t->out, type, i + 1))) {
            test_put(t->out, type, i + 1, (double)NAN);
            break;
        }
}

/* Largest numbers instead of infinities. */
static void saturated(const gyre_rotate_job *t) {
    right(t);
    for (int64_t h = 0; h < t->heads; h++)
        for (int64_t i = 0; i < 2 * t->pairs; i++) {
            const size_t at = (size_t)(h * t->out_head_stride + i);
            if (isinf(test_get(t->out, type, at))) test_put(t->out, type, at, 60000.0);
        }
}

/* Ties go up, not to even. */
static void rounds_ties_up(const gyre_rotate_job *t) {
    right(t);
    uint16_t *out = t->out;
    const float *cosine = t->cosine;
    for (int64_t i = 0; i < t->pairs; i++) {
        const size_t at = (size_t)(t->to_half ? i : 2 * i);
        const double off = (double)cosine[i] - test_get(out, type, at);
        if (off > 0 && off == test_half_ulp(type, (double)cosine[i])) out[at]++;
    }
}

/* NaNs are rounded as numbers are. */
static void rounds_nans(const gyre_rotate_job *t) {
    right(t);
    uint16_t *out = t->out;
    const float *cosine = t->cosine;
    for (int64_t i = 0; i < t->pairs; i++) {
        uint32_t bits;
        memcpy(&bits, &cosine[i], sizeof bits);
        const int cut = type == GYRE_DTYPE_F16 ? 13 : 16;
        if (isnan(cosine[i])) out[t->to_half ? i : 2 * i] = (uint16_t)((bits + (1u << (cut - 1))) >> cut);
    }
}

/* Writes to a read-only float, changing one bit. */
static void touches_cosine(const gyre_rotate_job *t) {
    right(t);
    ((unsigned char *)(uintptr_t)t->cosine)[0] ^= 1;
}

static void catches_mutants_by_other_checks(void **state) {
    const gyre_kernels *kernels = tier_or_skip(*state);
    for (int i = 0; i < ROTATION_TYPES; i++) {
        type = rotation_types[i].dtype;
        right = rotation_of(kernels, type);
        assert_null(check_nonfinite_pairs(right, type));
        assert_non_null(check_nonfinite_pairs(smeared, type));
        assert_non_null(check_nonfinite_pairs(saturated, type));
        assert_non_null(check_rotations(touches_cosine, type).wrong);
        if (gyre_dtype_size(type) != 2) continue;
        assert_null(check_all_roundings(right, type));
        assert_non_null(check_all_roundings(rounds_ties_up, type));
        assert_non_null(check_all_roundings(rounds_nans, type));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {FOR_TIERS(catches_mutants), FOR_TIERS(catches_mutants_by_other_checks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
