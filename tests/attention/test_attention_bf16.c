/* test_attention_bf16.c: attention over keys and values of bf16 on every tier, with queries in f32: their products have the
 * accuracy of f32, on AMX too, whose kernel (matmul_bf16) adds them in another order than others. */
#include "kernels/half_precision.h"
#include "naive_attention.h"
#include "run_each_tier.h"

static const shape shapes[] = {
    {GYRE_KIND_NOPE, GYRE_LAYOUT_HALF, 1, 200, 200, 4, 2, 64, 64, 1, 0, IN_ORDER},
    {GYRE_KIND_ALIBI, GYRE_LAYOUT_HALF, 2, 70, 133, 2, 1, 40, 24, 1, 0, ROW_OFFSETS},
    {GYRE_KIND_NOPE, GYRE_LAYOUT_HALF, 1, 190, 190, 2, 2, 16, 48, 1, 50,
     IN_ORDER}, /* tiles that begin inside a step of 32 keys */
    {GYRE_KIND_ALIBI, GYRE_LAYOUT_HALF, 1, 90, 170, 2, 1, 33, 32, 0, 40, SHUFFLED},
    {GYRE_KIND_NOPE, GYRE_LAYOUT_HALF, 1, 40, 150, 1, 1, 200, 16, 0, 0, IN_ORDER}, /* two blocks of channels */
    {GYRE_KIND_ROPE, GYRE_LAYOUT_HALF, 1, 100, 100, 2, 1, 32, 32, 1, 0, IN_ORDER}, /* keys that rotate are not bf16 */
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

typedef struct bf16_problem {
    problem p;
    uint16_t *k, *v;
} bf16_problem;

/* to = x rounded, and x what it then is. */
static uint16_t *round_all(float *x, double *x64, size_t n) {
    uint16_t *to = room(n, sizeof *to);
    for (size_t i = 0; i < n; i++) {
        to[i] = gyre_bf16_round(x[i]);
        x[i] = gyre_bf16_widen(to[i]);
        x64[i] = (double)x[i];
    }
    return to;
}

static bf16_problem make_bf16(const shape *s, uint64_t seed) {
    bf16_problem b = {.p = make_problem(s, seed)};
    b.k = round_all(b.p.k, b.p.k64, b.p.k_size);
    b.v = round_all(b.p.v, b.p.v64, b.p.v_size);
    return b;
}
static void free_bf16(bf16_problem *b) {
    free(b->k);
    free(b->v);
    free_problem(&b->p);
}

static attention_setup bf16_args(const bf16_problem *b) {
    const shape *s = &b->p.s;
    attention_setup args = problem_args(&b->p);
    args.k = gyre_cdense(b->k, GYRE_DTYPE_BF16, s->batch, s->keys, s->key_heads, s->dim);
    args.v = gyre_cdense(b->v, GYRE_DTYPE_BF16, s->batch, s->keys, s->key_heads, s->value_dim);
    return args;
}

static void use_tier(void *const *state) {
    tier_or_skip(*state);
    assert_int_equal(setenv("GYRE_CPU", *state, 1), 0);
}

static void agrees_with_definition(void **state) {
    use_tier(state);
    for (int i = 0; i < SHAPES; i++) {
        bf16_problem b = make_bf16(&shapes[i], 31 + (uint64_t)i);
        const problem *p = &b.p;
        const attention_setup args = bf16_args(&b);
        double squares = 0, size = 0;
        attend(&args, NULL);
        naive(&b.p);
        for (size_t at = 0; at < p->out_size; at++) {
            squares += pow((double)p->out[at] - p->out64[at], 2);
            size += pow(p->out64[at], 2);
        }
        for (size_t row = 0; row < p->rows; row++)
            if (isinf(p->lse64[row]))
                assert_true(p->lse[row] == -INFINITY);
            else
                test_close((long double)p->lse[row], (long double)p->lse64[row], 5e-6L * (1 + fabsl(p->lse64[row])), "lse");
        if (!(sqrt(squares / size) <= 2e-6))
            fail_msg("shape %d: off by %g", i, sqrt(squares / size)); /* of performance.md */
        free_bf16(&b);
    }
    unsetenv("GYRE_CPU");
}

/* Neither a NaN in a masked key nor that of another query reaches a row. */
static void masked_nan_has_no_effect(void **state) {
    use_tier(state);
    enum { BAD = 41 };
    for (int window = 0; window <= 64; window += 64) {
        const shape s = {GYRE_KIND_NOPE, GYRE_LAYOUT_HALF, 1, 150, 150, 2, 1, 32, 32, 1, window, IN_ORDER};
        bf16_problem b = make_bf16(&s, 41);
        problem *p = &b.p;
        const attention_setup args = bf16_args(&b);
        naive(p);
        for (int c = 0; c < 32; c++) {
            b.k[BAD * 32 + c] = 0x7fc0;                        /* NaN */
            b.v[BAD * 32 + c] = c % 2 ? 0x7f80 : 0xffc0;       /* infinity, NaN */
            p->q[7 * 64 + c] = c % 3 ? p->q[7 * 64 + c] : NAN; /* head 0 of query 7 */
        }
        attend(&args, NULL);
        for (int64_t row = 0; row < 300; row++)
            for (int64_t c = 0; c < 32; c++) {
                const int64_t at = row / 2;
                const float out = p->out[row * 32 + c];
                if ((at >= BAD && (!window || at < BAD + window)) || row == 14)
                    assert_true(isnan(out));
                else
                    test_close((long double)out, (long double)p->out64[row * 32 + c], 1e-5L, "beside the NaN");
            }
        free_bf16(&b);
    }
    unsetenv("GYRE_CPU");
}

static void same_for_any_threads(void **state) {
    use_tier(state);
    for (int i = 0; i < SHAPES; i++) {
        bf16_problem b = make_bf16(&shapes[i], 51);
        const size_t bytes = b.p.out_size * sizeof *b.p.out;
        const attention_setup args = bf16_args(&b);
        float *out = room(b.p.out_size, sizeof *out);
        attend(&args, NULL);
        memcpy(out, b.p.out, bytes);
        for (int threads = 2; threads <= 7; threads += 5) {
            gyre_pool *pool;
            assert_ok(gyre_pool_create(&pool, threads, NULL));
            const gyre_exec exec = gyre_pool_exec(pool);
            memset(b.p.out, 0xFF, bytes);
            attend(&args, &exec);
            assert_memory_equal(out, b.p.out, bytes);
            gyre_pool_free(pool);
        }
        free(out);
        free_bf16(&b);
    }
    unsetenv("GYRE_CPU");
}

int main(void) {
    const struct CMUnitTest tests[] = {FOR_TIERS(agrees_with_definition), FOR_TIERS(masked_nan_has_no_effect),
                                       FOR_TIERS(same_for_any_threads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
