/* bench_rounds.c: quiet rounds, and medians over them. */
#include "tools/bench/rounds/bench_rounds.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define QUIET_NOPS  0.85 /* least nops a cycle of a quiet round, of the usual ones.  A busy partner leaves about a half. */
#define QUIET_WAITS 0.02 /* most of a quiet round that the thread waits for a processor */

bench_rounds bench_rounds_begin(bench_core *core, int64_t limit) {
    return (bench_rounds){.core = core, .limit = limit < BENCH_MAX_ROUNDS ? limit : BENCH_MAX_ROUNDS};
}

int bench_rounds_next(bench_rounds *r) {
    if (r->count >= r->limit) return 0;
    r->nops[r->count] = bench_core_sample(r->core);
    r->waited_before = r->core->waited(r->core->arg);
    r->started = r->core->seconds(r->core->arg);
    return 1;
}

void bench_rounds_sample(bench_rounds *r) {
    r->nops[r->count] = fmin(r->nops[r->count], bench_core_sample(r->core));
}

void bench_rounds_end(bench_rounds *r) {
    const double took = r->core->seconds(r->core->arg) - r->started;
    const double waited = r->core->waited(r->core->arg) - r->waited_before;
    r->waited[r->count] = took > 0 ? waited / took : 0;
    bench_rounds_sample(r);
    r->count++;
}

int bench_rounds_is_quiet(const bench_rounds *r, int64_t round) {
    const int has_partner = r->nops[round] < QUIET_NOPS * r->core->usual; /* no, where nops are not measured */
    return !has_partner && r->waited[round] <= QUIET_WAITS;
}

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts values.  n: at least 1. */
static double median(double *values, int64_t n) {
    qsort(values, (size_t)n, sizeof *values, ascending);
    return values[n / 2];
}

/* out = how many values there are, of quiet rounds or of all. */
static int64_t choose(const bench_rounds *r, const double *values, double out[BENCH_MAX_ROUNDS]) {
    int64_t n = 0;
    for (int64_t i = 0; i < r->count; i++)
        if (bench_rounds_is_quiet(r, i)) out[n++] = values[i];
    if (n) return n;
    memcpy(out, values, (size_t)r->count * sizeof *values);
    return r->count;
}

bench_quiet bench_rounds_quiet(const bench_rounds *r) {
    double nops[BENCH_MAX_ROUNDS];
    bench_quiet out = {.rounds = r->count, .nops = NAN};
    for (int64_t i = 0; i < r->count; i++)
        out.quiet += bench_rounds_is_quiet(r, i);
    memcpy(nops, r->nops, (size_t)r->count * sizeof *nops);
    if (r->count) out.nops = median(nops, r->count);
    if (isnan(out.nops)) out.quiet = -1;
    return out;
}

double bench_rounds_median(const bench_rounds *r, const double *values) {
    double chosen[BENCH_MAX_ROUNDS];
    const int64_t n = choose(r, values, chosen);
    return n ? median(chosen, n) : NAN;
}

double bench_rounds_least(const bench_rounds *r, const double *values) {
    double chosen[BENCH_MAX_ROUNDS], least = INFINITY;
    const int64_t n = choose(r, values, chosen);
    for (int64_t i = 0; i < n; i++)
        least = fmin(least, chosen[i]);
    return n ? least : NAN;
}
