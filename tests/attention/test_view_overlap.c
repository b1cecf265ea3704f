/* test_view_overlap.c: whether two strided views share a byte, against a map of all bytes; and attention that writes between
 * the rows of its inputs. */
#include "attention_memory.h"
#include "attention_setup.h"
#include "support.h"

#include <stdlib.h>
#include <string.h>

enum { BYTES = 4096 };
static char memory[BYTES];

static int64_t below(test_random *random, int64_t n) {
    return (int64_t)(test_next(random) % (uint64_t)n);
}

/* A view of a few elements that lies in the memory. */
static gyre_cview random_view(test_random *random) {
    static const gyre_dtype types[] = {GYRE_DTYPE_F32, GYRE_DTYPE_F16, GYRE_DTYPE_F64};
    static const int64_t steps[] = {0, 1, 1, 2, 3, 4, 6, 8, 12, 16, 24, 30};
    for (;;) {
        gyre_cview view = {.dtype = types[below(random, 3)]};
        const int64_t size = (int64_t)gyre_dtype_size(view.dtype), first = below(random, BYTES / 2);
        int64_t low = first, high = first + size;
        for (int i = 0; i < 4; i++) {
            view.shape[i] = 1 + below(random, 4);
            view.stride[i] = steps[below(random, 12)] * (below(random, 4) == 0 ? -1 : 1);
            const int64_t reach = (view.shape[i] - 1) * view.stride[i] * size;
            low += reach < 0 ? reach : 0;
            high += reach > 0 ? reach : 0;
        }
        view.data = memory + first;
        if (low >= 0 && high <= BYTES) return view;
    }
}

static void mark(const gyre_cview *view, unsigned char *map) {
    const int64_t size = (int64_t)gyre_dtype_size(view->dtype), *n = view->shape, *s = view->stride;
    for (int64_t b = 0; b < n[0]; b++)
        for (int64_t t = 0; t < n[1]; t++)
            for (int64_t h = 0; h < n[2]; h++)
                for (int64_t c = 0; c < n[3]; c++)
                    memset(map + ((const char *)view->data - memory) + (b * s[0] + t * s[1] + h * s[2] + c * s[3]) * size, 1,
                           (size_t)size);
}

static void agrees_with_a_map_of_bytes(void **state) {
    (void)state;
    static unsigned char maps[2][BYTES];
    test_random random = {5};
    int counts[2] = {0, 0};
    for (int trial = 0; trial < 20000; trial++) {
        const gyre_cview a = random_view(&random), b = random_view(&random);
        int shared = 0;
        memset(maps, 0, sizeof maps);
        mark(&a, maps[0]);
        mark(&b, maps[1]);
        for (int i = 0; i < BYTES; i++)
            shared |= maps[0][i] & maps[1][i];
        assert_int_equal(gyre_views_overlap(&a, &b), shared);
        assert_int_equal(gyre_views_overlap(&b, &a), shared);
        counts[shared]++;
    }
    assert_true(counts[0] > 2000 && counts[1] > 2000);
}

static void empty_views_share_nothing(void **state) {
    (void)state;
    const gyre_cview some = gyre_cdense(memory, GYRE_DTYPE_F32, 1, 2, 2, 4);
    const gyre_cview none = gyre_cdense(memory, GYRE_DTYPE_F32, 1, 0, 2, 4), absent = gyre_cdense(NULL, 0, 1, 2, 2, 4);
    assert_int_equal(gyre_views_overlap(&some, &none), 0);
    assert_int_equal(gyre_views_overlap(&absent, &some), 0);
    assert_int_equal(gyre_views_overlap(&some, &some), 1);
}

/* Views that no memory can be share nothing, and the stride of one element means nothing, whatever it is. */
static void any_numbers_are_answered(void **state) {
    (void)state;
    static const int64_t numbers[] = {INT64_MIN, INT64_MIN + 1, -((int64_t)1 << 62), (int64_t)1 << 60, INT64_MAX};
    const gyre_cview some = gyre_cdense(memory, GYRE_DTYPE_F32, 1, 2, 2, 4);
    for (int i = 0; i < 5; i++)
        for (int axis = 0; axis < 4; axis++) {
            gyre_cview spoiled = some;
            spoiled.stride[axis] = numbers[i];
            assert_int_equal(gyre_views_overlap(&some, &spoiled), axis == 0);
            assert_int_equal(gyre_views_overlap(&spoiled, &some), axis == 0);
            assert_int_equal(gyre_views_overlap(&spoiled, &spoiled), axis == 0);
            spoiled = some;
            spoiled.dtype = (gyre_dtype)(7 + i);
            assert_int_equal(gyre_views_overlap(&some, &spoiled), 0);
            assert_int_equal(gyre_views_overlap(&spoiled, &some), 0);
            spoiled = some;
            spoiled.shape[axis] = numbers[i];
            if (numbers[i] == (int64_t)1 << 60) continue;
            assert_int_equal(gyre_views_overlap(&some, &spoiled), 0);
            assert_int_equal(gyre_views_overlap(&spoiled, &spoiled), 0);
        }
}

/* [token][q k v out][head][channel] in one block, thousands of tokens: decided at once, and the result is that of separate
 * memory. */
static void out_may_lie_between_the_rows_of_its_inputs(void **state) {
    (void)state;
    enum { TOKENS = 3000, HEADS = 2, DIM = 4, PART = HEADS * DIM, ROW = 4 * PART };
    float *block = malloc(sizeof(float) * TOKENS * ROW), *apart = malloc(sizeof(float) * TOKENS * PART);
    test_random random = {8};
    assert_non_null(block);
    assert_non_null(apart);
    test_fill(&random, block, TOKENS * ROW);
    attention_setup args = GYRE_INIT(attention_setup);
    gyre_cview *const inputs[] = {&args.q, &args.k, &args.v};
    for (int i = 0; i < 3; i++) {
        *inputs[i] = gyre_cdense(block + i * PART, GYRE_DTYPE_F32, 1, TOKENS, HEADS, DIM);
        inputs[i]->stride[1] = ROW;
    }
    args.window = 7;
    args.out = gyre_dense(apart, GYRE_DTYPE_F32, 1, TOKENS, HEADS, DIM);
    attend(&args, NULL);
    args.out = gyre_dense(block + 3 * PART, GYRE_DTYPE_F32, 1, TOKENS, HEADS, DIM);
    args.out.stride[1] = ROW;
    attend(&args, NULL);
    for (int t = 0; t < TOKENS; t++)
        assert_memory_equal(block + t * ROW + 3 * PART, apart + t * PART, PART * sizeof(float));
    free(block);
    free(apart);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_a_map_of_bytes),
        cmocka_unit_test(empty_views_share_nothing),
        cmocka_unit_test(any_numbers_are_answered),
        cmocka_unit_test(out_may_lie_between_the_rows_of_its_inputs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
