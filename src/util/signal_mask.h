/* signal_mask.h: holds back the signals that end a program while two steps must both happen. */
#ifndef GYRE_UTIL_SIGNAL_MASK_H
#define GYRE_UTIL_SIGNAL_MASK_H
#if !defined(__wasi__) /* which has no signals */
#include <signal.h>

/* Blocks the calling thread's signals, except those of its faults.  *old = what pthread_sigmask(SIG_SETMASK, old, NULL)
 * restores. */
static inline void gyre_block_signals(sigset_t *old) {
    sigset_t all;
    sigfillset(&all);
    sigdelset(&all, SIGBUS);
    sigdelset(&all, SIGFPE);
    sigdelset(&all, SIGILL);
    sigdelset(&all, SIGSEGV);
    pthread_sigmask(SIG_BLOCK, &all, old);
}
#endif

#endif
