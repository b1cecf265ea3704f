/* bench_only.h: the option --only: the cases of a benchmark by their names, or by how the names begin. */
#ifndef GYRE_TOOLS_BENCH_ONLY_H
#define GYRE_TOOLS_BENCH_ONLY_H

/* out = 1 if a word of the comma list `only` is the name, or its beginning up to a dash: "prefill", "decode-4096". */
int bench_only_matches(const char *only, const char *name);
/* A word that matches none of the names is a usage error, which lists the names.  only NULL: no words. */
void bench_only_check(const char *only, const char *const *names, int count);

#endif
