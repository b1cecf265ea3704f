/* bench_core.h: how disturbed the core is on which this thread runs. */
#ifndef GYRE_TOOLS_BENCH_CORE_H
#define GYRE_TOOLS_BENCH_CORE_H

/* Where samples come from.  Tests have a source that they script. */
typedef struct bench_core {
    /* out = nops a cycle; NAN = this processor has no loop for it.  NULL: the same. */
    double (*nops_per_cycle)(void *arg);
    /* out = seconds in which this thread was ready and waited for a processor, since it began; 0 where the system does not
     * count them. */
    double (*waited)(void *arg);
    double (*seconds)(void *arg); /* a clock */
    void *arg;
    /* usual: nops a cycle of this core when it is quiet: what the processor is known for, or the most that two samples in a
     * row had; last: the last sample.  Both begin with 0. */
    double usual, last;
} bench_core;

/* out = the core of the calling thread.  The first call takes samples for some milliseconds. */
bench_core *bench_this_core(void);
/* out = a sample of nops a cycle; NAN = not measured.  Raises core->usual. */
double bench_core_sample(bench_core *core);

#endif
