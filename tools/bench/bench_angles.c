/* bench_angles.c: gyre bench angles: cos and sin of many positions, exact and as PyTorch computes them, compared with
 * writing the same number of bytes. */
#include "tools/bench/bench_in_place.h"
#include <stdlib.h>
#include <string.h>

enum { POSITIONS = 131072, PAIRS = 64 };

typedef struct angle_run {
    gyre_encoding *encoding;
    gyre_view cosine, sine;
    const gyre_exec *exec;
} angle_run;

static double time_angle_rows(const angle_run *r, gyre_status *status) {
    const gyre_positions positions = {.base = 0};
    const double started = cli_seconds();
    *status = gyre_cos_sin(r->encoding, &positions, &r->cosine, &r->sine, r->exec, NULL);
    return cli_seconds() - started;
}

static double time_writing(const angle_run *r, int round) {
    const size_t bytes = (size_t)POSITIONS * PAIRS * sizeof(float);
    const double started = cli_seconds();
    memset(r->cosine.data, round, bytes);
    memset(r->sine.data, round, bytes);
    return cli_seconds() - started;
}

static const bench_column columns[] = {{"path", "path", -6, 0, 0}, {"threads", "threads", 7, 0, 0},
                                       {"ns", "ms", 12, 1, 1e-6},  {"mpairs_per_s", "M pairs a second", 16, 0, 0},
                                       {"gbps", "GB/s", 8, 1, 0},  {"write_gbps", "memset GB/s", 12, 1, 0}};
enum { COLUMNS = sizeof columns / sizeof *columns };

static int print(const bench_options *o, const char *path, int64_t threads, double seconds, double writing,
                 const bench_quiet *quiet) {
    const double pairs = (double)POSITIONS * PAIRS, bytes = 2 * pairs * sizeof(float);
    return bench_print_row(o,
                           JSON_OBJECT("bench", JSON("angles"), "path", JSON(path), "positions", JSON(POSITIONS), "pairs",
                                       JSON(PAIRS), "threads", JSON(threads), "ns", JSON(1e9 * seconds), "mpairs_per_s",
                                       JSON(1e-6 * pairs / seconds), "gbps", JSON(1e-9 * bytes / seconds), "write_gbps",
                                       JSON(1e-9 * bytes / writing)),
                           quiet, columns, COLUMNS, NULL);
}

static int run_path(const bench_options *o, angle_run *r, gyre_angle_path path, int64_t threads) {
    double rows[BENCH_MAX_ROUNDS], writing[BENCH_MAX_ROUNDS];
    gyre_error err = {0, ""};
    gyre_config config = GYRE_INIT(gyre_config);
    config.kind = gyre_kind_find("rope");
    config.head_dim = 2 * PAIRS;
    config.rope.angles = path;
    gyre_status status = gyre_encoding_create(&r->encoding, &config, NULL, &err);
    if (status == GYRE_EUNSUPPORTED) { /* a build without SLEEF */
        cli_warn("%s", err.text);
        return 0;
    }
    if (!status) (void)time_angle_rows(r, &status);
    bench_rounds rounds = bench_rounds_begin(bench_this_core(), o->rounds);
    while (!status && bench_rounds_next(&rounds)) {
        rows[rounds.count] = time_angle_rows(r, &status);
        writing[rounds.count] = time_writing(r, (int)rounds.count);
        bench_rounds_end(&rounds);
    }
    const bench_quiet quiet = bench_rounds_quiet(&rounds);
    gyre_encoding_free(r->encoding);
    if (status) return cli_fail("angles: %s (gyre bench)", gyre_status_text(status));
    return print(o, path == GYRE_ANGLE_PATH_EXACT ? "exact" : "torch", threads, bench_rounds_median(&rounds, rows),
                 bench_rounds_median(&rounds, writing), &quiet);
}

static angle_run shared_views; /* static because bench_for_threads passes no argument */

static int run(const bench_options *o, const gyre_exec *exec, int64_t threads) {
    angle_run r = shared_views;
    r.exec = exec;
    const int status = run_path(o, &r, GYRE_ANGLE_PATH_EXACT, threads);
    return status ? status : run_path(o, &r, GYRE_ANGLE_PATH_TORCH, threads);
}

int bench_angles(const bench_options *o) {
    const size_t bytes = (size_t)POSITIONS * PAIRS * sizeof(float);
    float *cosine = malloc(bytes), *sine = malloc(bytes);
    int status = cosine && sine ? 0 : cli_fail("memory: out of it (gyre bench)");
    shared_views.cosine = gyre_dense(cosine, GYRE_DTYPE_F32, 1, POSITIONS, 1, PAIRS);
    shared_views.sine = gyre_dense(sine, GYRE_DTYPE_F32, 1, POSITIONS, 1, PAIRS);
    if (!status && !o->common.json) {
        fprintf(cli_stdout(), "cos and sin of %d positions x %d frequencies, in float\n\n", POSITIONS, PAIRS);
        bench_print_titles(columns, COLUMNS, NULL);
    }
    if (!status) status = bench_for_threads(o, run);
    free(cosine);
    free(sine);
    return status;
}
