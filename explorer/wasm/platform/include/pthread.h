/* pthread.h: locks of a program with one thread; wasi-libc has no threads. */
#ifndef GYRE_PLATFORM_PTHREAD_H
#define GYRE_PLATFORM_PTHREAD_H

typedef int pthread_mutex_t;
enum { PTHREAD_MUTEX_INITIALIZER = 0 };
static inline int pthread_mutex_init(pthread_mutex_t *mutex, const void *attributes) {
    (void)mutex, (void)attributes;
    return 0;
}
static inline int pthread_mutex_lock(pthread_mutex_t *mutex) {
    (void)mutex;
    return 0;
}
static inline int pthread_mutex_unlock(pthread_mutex_t *mutex) {
    (void)mutex;
    return 0;
}
static inline int pthread_mutex_destroy(pthread_mutex_t *mutex) {
    (void)mutex;
    return 0;
}
#endif
