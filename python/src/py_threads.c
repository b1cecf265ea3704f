/* py_threads.c: one pool of threads for all calls of the module.
 *
 * A call borrows the pool.  set_threads puts another in its place; the old one ends with its last borrower.  A child of
 * fork() has none of its parent's threads, so it forgets the pool and makes its own. */
#include "py_module.h"

#include <stdlib.h>

typedef struct gyre_py_pool {
    gyre_pool *pool;
    int users, retired;
} shared_pool;

static struct {
    PyThread_type_lock lock;
    shared_pool *current;
    int wanted; /* threads; 0 = one per processor */
    int forks;  /* between the first process and this one */
} threads;

void gyre_py_lock(PyThread_type_lock lock) {
    if (PyThread_acquire_lock(lock, NOWAIT_LOCK)) return;
    Py_BEGIN_ALLOW_THREADS
    PyThread_acquire_lock(lock, WAIT_LOCK);
    Py_END_ALLOW_THREADS
}

int gyre_py_forks(void) {
    return threads.forks;
}

int gyre_py_check_fork(PyThread_type_lock lock, int *forks, const char *name) {
    if (*forks == threads.forks) return 0;
    if (PyThread_acquire_lock(lock, NOWAIT_LOCK)) {
        PyThread_release_lock(lock);
        *forks = threads.forks;
        return 0;
    }
    gyre_py_fail(GYRE_EINVAL, name, "%s: a thread of the parent process used it when this process was forked: make another",
                 name);
    return -1;
}

int gyre_py_threads_init(void) {
    const char *text = getenv("GYRE_THREADS");
    char *end = NULL;
    const long wanted = text ? strtol(text, &end, 10) : 0;
    if (text && *text && (end == text || *end || wanted < 0 || wanted > 1024)) {
        gyre_py_fail(GYRE_EINVAL, "GYRE_THREADS", "GYRE_THREADS: '%.40s' is not a number of threads, 0 .. 1024", text);
        return -1;
    }
    threads.wanted = (int)wanted;
    threads.lock = PyThread_allocate_lock();
    if (!threads.lock) PyErr_NoMemory();
    return threads.lock ? 0 : -1;
}

static shared_pool *make_pool(void) {
    shared_pool *made = calloc(1, sizeof *made);
    if (made && !gyre_pool_create(&made->pool, threads.wanted, NULL)) return made;
    free(made);
    return NULL;
}

/* Without memory for a pool, the calling thread does all the work. */
gyre_py_threads gyre_py_threads_begin(int small) {
    gyre_py_threads call = {{NULL, NULL, 1}, NULL};
    if (small) return call;
    PyThread_acquire_lock(threads.lock, WAIT_LOCK);
    if (!threads.current) threads.current = make_pool();
    call.pool = threads.current;
    if (call.pool) {
        call.pool->users++;
        call.exec = gyre_pool_exec(call.pool->pool);
    }
    PyThread_release_lock(threads.lock);
    return call;
}

static void free_pool(shared_pool *pool) {
    gyre_pool_free(pool->pool);
    free(pool);
}

void gyre_py_threads_end(gyre_py_threads *call) {
    if (!call->pool) return;
    PyThread_acquire_lock(threads.lock, WAIT_LOCK);
    const int last = --call->pool->users == 0 && call->pool->retired;
    PyThread_release_lock(threads.lock);
    if (last) free_pool(call->pool);
    call->pool = NULL;
}

const gyre_exec *gyre_py_exec(const gyre_py_threads *call) {
    return call->pool ? &call->exec : NULL;
}

PyObject *gyre_py_set_threads(PyObject *module, PyObject *count) {
    (void)module;
    int64_t wanted = 0;
    if (gyre_py_integer(count, "threads", &wanted) < 0) return NULL;
    if (wanted < 0 || wanted > 1024)
        return gyre_py_fail(GYRE_EINVAL, "threads", "threads: %lld is outside 0 (one per processor) .. 1024",
                            (long long)wanted);
    PyThread_acquire_lock(threads.lock, WAIT_LOCK);
    shared_pool *old = threads.current;
    threads.wanted = (int)wanted;
    threads.current = NULL;
    if (old) old->retired = 1;
    const int idle = old && old->users == 0;
    PyThread_release_lock(threads.lock);
    if (idle) free_pool(old);
    Py_RETURN_NONE;
}

PyObject *gyre_py_get_threads(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    gyre_py_threads call = gyre_py_threads_begin(0);
    const int64_t count = call.pool ? call.exec.concurrency : 1;
    gyre_py_threads_end(&call);
    return PyLong_FromLongLong(count);
}

PyObject *gyre_py_after_fork(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    PyThread_type_lock lock = PyThread_allocate_lock(); /* the old one may have been held by another thread */
    if (!lock) return PyErr_NoMemory();
    threads.lock = lock;
    threads.current = NULL;
    threads.forks++;
    Py_RETURN_NONE;
}
