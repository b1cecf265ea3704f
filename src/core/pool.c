/* pool.c: a thread pool whose threads sleep between calls.
 *
 * One call at a time owns the threads.  A call that finds them busy, whether it comes from another thread or from inside a
 * running call, does its work on its own thread.  No call waits for another, so nested calls cannot deadlock. */
#include "core/exec.h"
#include "util/error.h"
#include "util/signal_mask.h"

#if GYRE_HAS_THREADS
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Far more than any target machine has.  Keeps a wrong number from starting threads until the system fails. */
enum { MAX_THREADS = 1024 };

struct gyre_pool {
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    /* Protected by the lock. */
    int busy, stop;
    int wanted; /* threads that may still join the call */
    int active; /* threads inside the call */
    /* The current call.  Written before wanted is set, read by threads after they see it. */
    void (*fn)(void *arg, int64_t i);
    void *arg;
    int64_t n;
    atomic_int_fast64_t next;

    int count; /* threads, without the caller's */
    pthread_t threads[];
};

static void run_pool_items(gyre_pool *pool) {
    for (int64_t i; (i = atomic_fetch_add_explicit(&pool->next, 1, memory_order_relaxed)) < pool->n;)
        pool->fn(pool->arg, i);
}

static void *thread_main(void *arg) {
    gyre_pool *pool = arg;
    pthread_mutex_lock(&pool->lock);
    for (;;) {
        while (!pool->stop && pool->wanted == 0)
            pthread_cond_wait(&pool->work, &pool->lock);
        if (pool->stop) break;
        pool->wanted--;
        pool->active++;
        pthread_mutex_unlock(&pool->lock);
        run_pool_items(pool);
        pthread_mutex_lock(&pool->lock);
        if (--pool->active == 0) pthread_cond_signal(&pool->done);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

/* 1 if this call now owns the threads. */
static int claim_threads(gyre_pool *pool, void (*fn)(void *arg, int64_t i), void *arg, int64_t n) {
    pthread_mutex_lock(&pool->lock);
    const int claimed = !pool->busy;
    if (claimed) {
        pool->busy = 1;
        pool->fn = fn;
        pool->arg = arg;
        pool->n = n;
        atomic_store_explicit(&pool->next, 0, memory_order_relaxed);
        pool->wanted = n - 1 < pool->count ? (int)(n - 1) : pool->count;
        pthread_cond_broadcast(&pool->work);
    }
    pthread_mutex_unlock(&pool->lock);
    return claimed;
}

static void run(void *ctx, void (*fn)(void *arg, int64_t i), void *arg, int64_t n) {
    gyre_pool *pool = ctx;
    if (n <= 1 || pool->count == 0 || !claim_threads(pool, fn, arg, n)) {
        for (int64_t i = 0; i < n; i++)
            fn(arg, i);
        return;
    }
    run_pool_items(pool);
    pthread_mutex_lock(&pool->lock);
    pool->wanted = 0; /* no items are left for threads that have not woken yet */
    while (pool->active > 0)
        pthread_cond_wait(&pool->done, &pool->lock);
    pool->busy = 0;
    pthread_mutex_unlock(&pool->lock);
}

static int processors(void) {
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online < 1 ? 1 : online > MAX_THREADS ? MAX_THREADS : (int)online;
}

/* Signals go to the caller's threads, which chose how to handle them.  out = 0, or an errno value. */
static int start_threads(gyre_pool *pool, int count) {
    int failed = 0;
    sigset_t old;
    gyre_block_signals(&old);
    while (!failed && pool->count < count) {
        failed = pthread_create(&pool->threads[pool->count], NULL, thread_main, pool);
        if (!failed) pool->count++;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return failed;
}

gyre_status gyre_pool_create(gyre_pool **out, int threads, gyre_error *err) {
    if (!out) return gyre_fail(err, GYRE_EINVAL, "out: is NULL (gyre_pool_create)");
    if (threads < 0) return gyre_fail(err, GYRE_EINVAL, "threads: %d is negative (gyre_pool_create)", threads);
    if (threads > MAX_THREADS)
        return gyre_fail(err, GYRE_EINVAL, "threads: %d is above %d (gyre_pool_create)", threads, (int)MAX_THREADS);
    const int concurrency = threads > 0 ? threads : processors();
    gyre_pool *pool = calloc(1, sizeof *pool + (size_t)(concurrency - 1) * sizeof *pool->threads);
    if (!pool) return gyre_fail(err, GYRE_ENOMEM, "memory: none for %d threads (gyre_pool_create)", concurrency);
    int failed = pthread_mutex_init(&pool->lock, NULL);
    if (failed) {
        free(pool);
        return gyre_fail(err, GYRE_EIO, "mutex: %s (gyre_pool_create)", strerror(failed));
    }
    pthread_cond_init(&pool->work, NULL); /* without attributes this cannot fail on any known system */
    pthread_cond_init(&pool->done, NULL);
    failed = start_threads(pool, concurrency - 1);
    if (failed) {
        gyre_fail(err, GYRE_EIO, "thread %d of %d: %s (gyre_pool_create)", pool->count + 2, concurrency, strerror(failed));
        gyre_pool_free(pool);
        return GYRE_EIO;
    }
    *out = pool;
    return GYRE_OK;
}

void gyre_pool_free(gyre_pool *pool) {
    if (!pool) return;
    pthread_mutex_lock(&pool->lock);
    pool->stop = 1;
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->lock);
    for (int i = 0; i < pool->count; i++)
        pthread_join(pool->threads[i], NULL);
    pthread_cond_destroy(&pool->done);
    pthread_cond_destroy(&pool->work);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

gyre_exec gyre_pool_exec(gyre_pool *pool) {
    gyre_exec exec = {NULL, NULL, 1};
    if (!pool) return exec;
    exec.run = run;
    exec.ctx = pool;
    exec.concurrency = pool->count + 1;
    return exec;
}
#endif
