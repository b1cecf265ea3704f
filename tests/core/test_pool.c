/* test_pool.c: the built-in thread pool: every item runs once, from any caller. */
#include "support.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

typedef struct counts {
    atomic_int seen[1000], under_way, most;
    gyre_exec *exec;
    struct counts *inner;
} counts;

static void count(void *arg, int64_t i) {
    counts *c = arg;
    const int now = atomic_fetch_add(&c->under_way, 1) + 1;
    int most = atomic_load(&c->most);
    while (now > most && !atomic_compare_exchange_weak(&c->most, &most, now)) {
    }
    atomic_fetch_add(&c->seen[i], 1);
    if (c->inner) c->exec->run(c->exec->ctx, count, c->inner, 50);
    atomic_fetch_sub(&c->under_way, 1);
}

static void check_counts(counts *c, int n, int times) {
    for (int i = 0; i < 1000; i++)
        assert_int_equal(atomic_load(&c->seen[i]), i < n ? times : 0);
}

static void every_item_once(void **state) {
    (void)state;
    for (int threads = 0; threads <= 5; threads++) {
        gyre_pool *pool = NULL;
        assert_ok(gyre_pool_create(&pool, threads, NULL));
        const gyre_exec exec = gyre_pool_exec(pool);
        if (threads > 0) assert_int_equal(exec.concurrency, threads);
        assert_true(exec.concurrency >= 1);
        for (int n = 0; n <= 1000; n = n < 8 ? n + 1 : n * 5 / 2) {
            counts *c = calloc(1, sizeof *c);
            assert_non_null(c);
            for (int round = 0; round < 20; round++)
                exec.run(exec.ctx, count, c, n);
            check_counts(c, n, 20);
            assert_true(atomic_load(&c->most) <= exec.concurrency);
            free(c);
        }
        gyre_pool_free(pool);
    }
}

static void nested_calls(void **state) {
    (void)state;
    gyre_pool *pool = NULL;
    assert_ok(gyre_pool_create(&pool, 3, NULL));
    gyre_exec exec = gyre_pool_exec(pool);
    counts *outer = calloc(2, sizeof *outer);
    assert_non_null(outer);
    outer->exec = &exec;
    outer->inner = outer + 1;
    exec.run(exec.ctx, count, outer, 40);
    check_counts(outer, 40, 1);
    check_counts(outer + 1, 50, 40);
    free(outer);
    gyre_pool_free(pool);
}

enum { CALLERS = 4 };
static void *call_often(void *arg) {
    counts *c = arg;
    for (int round = 0; round < 200; round++)
        c->exec->run(c->exec->ctx, count, c, 30);
    return NULL;
}

static void concurrent_callers(void **state) {
    (void)state;
    gyre_pool *pool = NULL;
    pthread_t threads[CALLERS];
    assert_ok(gyre_pool_create(&pool, 3, NULL));
    gyre_exec exec = gyre_pool_exec(pool);
    counts *c = calloc(CALLERS, sizeof *c);
    assert_non_null(c);
    for (int i = 0; i < CALLERS; i++) {
        c[i].exec = &exec;
        assert_int_equal(pthread_create(&threads[i], NULL, call_often, &c[i]), 0);
    }
    for (int i = 0; i < CALLERS; i++) {
        pthread_join(threads[i], NULL);
        check_counts(&c[i], 30, 200);
        assert_true(atomic_load(&c[i].most) <= exec.concurrency);
    }
    free(c);
    gyre_pool_free(pool);
}

static void wrong_arguments(void **state) {
    (void)state;
    gyre_pool *pool;
    gyre_error err;
    assert_int_equal(gyre_pool_create(NULL, 1, NULL), GYRE_EINVAL);
    assert_int_equal(gyre_pool_create(NULL, 1, &err), GYRE_EINVAL);
    assert_string_equal(err.text, "out: is NULL (gyre_pool_create)");
    assert_int_equal(gyre_pool_create(&pool, 1025, &err), GYRE_EINVAL);
    assert_string_equal(err.text, "threads: 1025 is above 1024 (gyre_pool_create)");
    assert_int_equal(gyre_pool_create(&pool, -2, &err), GYRE_EINVAL);
    assert_string_equal(err.text, "threads: -2 is negative (gyre_pool_create)");
    gyre_pool_free(NULL);
    assert_null(gyre_pool_exec(NULL).run);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_item_once),
        cmocka_unit_test(nested_calls),
        cmocka_unit_test(concurrent_callers),
        cmocka_unit_test(wrong_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
