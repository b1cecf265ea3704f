/* products.c: Gyre's matrix products beside those of OpenBLAS and oneDNN, on one thread.
 *
 * OpenBLAS chooses its kernels when it is loaded.  So there is a worker process for each of its core types, and the workers
 * take turns, round by round:
 *
 *     products ----- shape, product, round -----> worker OPENBLAS_CORETYPE=Haswell, ...
 *              <---- peak, Gyre, OpenBLAS, oneDNN
 *
 * Rates are relative to the peak of fused multiply-adds in the same round, in processor time of the thread, so that other
 * work on the machine counts as little as possible. */
#include "model/ops/linear.h"
#include "tools/bench/bench_only.h"
#include "tools/bench/bench_roofline.h"
#include <argp.h>
#include <cblas.h>
#include <dnnl.h>
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef enum product_kind { NT, NN, TN, KINDS } product_kind; /* y = x w^T; dx = dy w; dw += dy^T x */
static const char *const kind_names[] = {"nt", "nn", "tn"};

typedef struct product_shape {
    int rows, out, in;
} product_shape;
static const product_shape shapes[] = {
    {64, 768, 768},  {64, 2048, 768},  {64, 768, 2048},  {64, 4096, 4096},  {64, 1024, 1024},
    {128, 768, 768}, {128, 2048, 768}, {128, 768, 2048}, {128, 4096, 4096}, {128, 1024, 1024},
    {512, 768, 768}, {512, 2048, 768}, {512, 768, 2048}, {512, 4096, 4096}, {512, 1024, 1024},
};
enum { SHAPES = sizeof shapes / sizeof *shapes, PEAK_RUNS = 8, MAX_WORKERS = 8, MAX_ROUNDS = 99 };
#define MIN_SECONDS 0.004 /* of runs timed together */
#define MOST_ERROR  1e-4  /* difference of two libraries, relative to the root mean square of the results */

/* What a worker is asked and what it answers. */
typedef struct request {
    int shape, kind, all; /* all 0: no other library than OpenBLAS */
} request;
enum { PEAK, GYRE, OPENBLAS, ONEDNN, RATES };
typedef struct reply {
    double rate[RATES]; /* operations per second; 0 = not measured */
    double error;       /* the largest difference to OpenBLAS, relative to the root mean square; -1 = out of memory */
    char core[32];      /* the kernels that OpenBLAS has chosen */
} reply;

/* -- a worker -- */
typedef struct product {
    product_shape shape;
    product_kind kind;
    const gyre_kernels *kernels;
    float *memory;
    float *w, *x, *y, *result, *other, *scratch; /* result, other: of Gyre and OpenBLAS, of another library */
    int64_t results;
} product;

static void run_gyre(product *p, float *result) {
    const gyre_linear map = {p->w, p->shape.rows, p->shape.in, p->shape.out};
    const gyre_linear_work work = {p->kernels, p->scratch};
    if (p->kind == NT)
        gyre_linear_forward(&map, &work, p->x, 0, result);
    else if (p->kind == NN)
        gyre_linear_input_gradient(&map, &work, p->y, 0, result);
    else
        gyre_linear_weight_gradient(&map, &work, p->x, p->y, result);
}

static void run_openblas(product *p, float *result) {
    const int rows = p->shape.rows, out = p->shape.out, in = p->shape.in;
    if (p->kind == NT)
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows, out, in, 1, p->x, in, p->w, in, 0, result, out);
    else if (p->kind == NN)
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows, in, out, 1, p->y, out, p->w, in, 0, result, in);
    else
        cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, out, in, rows, 1, p->y, out, p->x, in, 1, result, in);
}

static void run_onednn(product *p, float *result) {
    const int rows = p->shape.rows, out = p->shape.out, in = p->shape.in;
    if (p->kind == NT)
        dnnl_sgemm('N', 'T', rows, out, in, 1, p->x, in, p->w, in, 0, result, out);
    else if (p->kind == NN)
        dnnl_sgemm('N', 'N', rows, in, out, 1, p->y, out, p->w, in, 0, result, in);
    else
        dnnl_sgemm('T', 'N', out, in, rows, 1, p->y, out, p->x, in, 1, result, in);
}

static double thread_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* out = operations per second.  The first run is not timed: it loads what fits into the caches. */
static double rate_of(product *p, void (*run)(product *, float *)) {
    const double flops = 2.0 * p->shape.rows * p->shape.out * p->shape.in;
    run(p, p->other);
    int times = 0;
    double seconds;
    const double started = thread_seconds();
    do {
        run(p, p->other);
        times++;
        seconds = thread_seconds() - started;
    } while (seconds < MIN_SECONDS);
    return flops * times / seconds;
}

static double peak_rate(const gyre_exec *exec) {
    const double started = thread_seconds();
    for (int i = 0; i < PEAK_RUNS; i++)
        (void)bench_run_fma(NULL, exec);
    return PEAK_RUNS * bench_fma_flops(exec) / (thread_seconds() - started);
}

/* out = the largest difference between run and OpenBLAS, relative to the root mean square. */
static double error_of(product *p, void (*run)(product *, float *)) {
    double most = 0, squares = 0;
    memset(p->result, 0, (size_t)p->results * sizeof(float));
    memset(p->other, 0, (size_t)p->results * sizeof(float));
    run_openblas(p, p->result);
    run(p, p->other);
    for (int64_t i = 0; i < p->results; i++) {
        const double difference = fabs((double)p->other[i] - p->result[i]);
        most = isnan(difference) ? INFINITY : fmax(most, difference);
        squares += (double)p->result[i] * p->result[i];
    }
    return most / sqrt(squares / (double)p->results);
}

static int64_t whole_lines(int64_t floats) {
    return (floats + 15) / 16 * 16;
}

/* out = 0, or -1 if memory ran out. */
static int product_open(product *p, const request *asked) {
    const product_shape s = shapes[asked->shape];
    const int64_t w = whole_lines((int64_t)s.out * s.in), x = whole_lines((int64_t)s.rows * s.in),
                  y = whole_lines((int64_t)s.rows * s.out), scratch = whole_lines(gyre_linear_scratch(s.rows, s.in));
    *p = (product){.shape = s, .kind = (product_kind)asked->kind, .kernels = gyre_kernels_select()};
    p->results = asked->kind == NT ? (int64_t)s.rows * s.out : asked->kind == NN ? (int64_t)s.rows * s.in : w;
    const int64_t result = whole_lines(p->results);
    p->memory = bench_alloc_huge((size_t)(w + x + y + 2 * result + scratch) * sizeof(float));
    if (!p->memory) return -1;
    uint64_t seed = 1;
    for (int64_t i = 0; i < w + x + y; i++)
        p->memory[i] = (float)bench_random(&seed) - 0.5f;
    p->w = p->memory, p->x = p->w + w, p->y = p->x + x, p->result = p->y + y, p->other = p->result + result;
    p->scratch = p->other + result;
    return 0;
}

static reply measure(product *p, int all, const gyre_exec *exec) {
    reply r = {.error = 0};
    snprintf(r.core, sizeof r.core, "%s", openblas_get_corename());
    if (all) r.error = fmax(error_of(p, run_gyre), error_of(p, run_onednn));
    memset(p->other, 0, (size_t)p->results * sizeof(float));
    const double before = peak_rate(exec);
    if (all) r.rate[GYRE] = rate_of(p, run_gyre);
    r.rate[OPENBLAS] = rate_of(p, run_openblas);
    if (all) r.rate[ONEDNN] = rate_of(p, run_onednn);
    r.rate[PEAK] = (before + peak_rate(exec)) / 2;
    return r;
}

static int read_all(int file, void *to, size_t bytes) {
    size_t done = 0;
    while (done < bytes) {
        const ssize_t n = read(file, (char *)to + done, bytes - done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return -1;
        done += (size_t)n;
    }
    return 0;
}
static int write_all(int file, const void *from, size_t bytes) {
    return write(file, from, bytes) == (ssize_t)bytes ? 0 : -1; /* a message fits a pipe */
}

/* Answers requests on standard input until that is closed. */
static int worker(void) {
    gyre_pool *pool;
    gyre_error err = {0, ""};
    product p = {.memory = NULL};
    request asked, last = {-1, -1, 0};
    int status = 0;
    if (gyre_pool_create(&pool, 1, &err)) return 1;
    const gyre_exec exec = gyre_pool_exec(pool);
    openblas_set_num_threads(1);
    while (!status && !read_all(STDIN_FILENO, &asked, sizeof asked)) {
        reply r = {.error = -1};
        if (asked.shape != last.shape || asked.kind != last.kind) {
            free(p.memory);
            p.memory = NULL;
            last = product_open(&p, &asked) ? (request){-1, -1, 0} : asked;
        }
        if (p.memory) r = measure(&p, asked.all, &exec);
        status = write_all(STDOUT_FILENO, &r, sizeof r);
    }
    free(p.memory);
    gyre_pool_free(pool);
    return status ? 1 : 0;
}

/* -- the workers' side of the program -- */
typedef struct worker_process {
    const char *core; /* OPENBLAS_CORETYPE, "" = OpenBLAS's own choice */
    char chosen[32];  /* what OpenBLAS calls it */
    pid_t pid;
    int to, from;
} worker_process;

static int fail(const char *what, const char *why) {
    fprintf(stderr, "products: %s: %s\n", what, why);
    return -1;
}

/* Core types that this processor runs.  OpenBLAS does not check, and ends with an illegal instruction. */
static int supports(const char *core) {
#if defined(__x86_64__)
    if (!*core) return 1;
    if (strcmp(core, "SkylakeX") == 0) return __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw");
    if (strcmp(core, "Cooperlake") == 0) return __builtin_cpu_supports("avx512bf16") != 0;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
    return !*core;
#endif
}

static void become_worker(const char *core, int in, int out) {
    char name[] = "products", option[] = "--worker";
    char *const arguments[] = {name, option, NULL};
    if (*core)
        setenv("OPENBLAS_CORETYPE", core, 1);
    else
        unsetenv("OPENBLAS_CORETYPE");
    setenv("OMP_NUM_THREADS", "1", 1);
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
    if (dup2(in, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0) execv("/proc/self/exe", arguments);
    _exit(127);
}

/* workers: those started before, whose pipes a new one must not keep open. */
static int start_worker(worker_process *w, const worker_process *workers, int count, const char *core) {
    int to[2], from[2];
    *w = (worker_process){.core = core};
    if (pipe(to)) return fail("pipe", strerror(errno));
    if (pipe(from)) {
        close(to[0]), close(to[1]);
        return fail("pipe", strerror(errno));
    }
    w->pid = fork();
    if (w->pid == 0) {
        for (int i = 0; i < count; i++)
            close(workers[i].to), close(workers[i].from);
        close(to[1]), close(from[0]);
        become_worker(core, to[0], from[1]);
    }
    close(to[0]), close(from[1]);
    w->to = to[1], w->from = from[0];
    if (w->pid > 0) return 0;
    close(w->to), close(w->from);
    return fail("fork", strerror(errno));
}

static void stop_workers(worker_process *workers, int count) {
    for (int i = 0; i < count; i++) {
        close(workers[i].to), close(workers[i].from);
        waitpid(workers[i].pid, NULL, 0);
    }
}

static int start_workers(worker_process workers[MAX_WORKERS], int *count) {
    static const char *const cores[] = {"", "Haswell", "Zen", "SkylakeX", "Cooperlake"};
    *count = 0;
    for (size_t i = 0; i < sizeof cores / sizeof *cores; i++) {
        if (!supports(cores[i])) continue;
        if (start_worker(&workers[*count], workers, *count, cores[i])) return -1;
        ++*count;
    }
    return 0;
}

static int ask(worker_process *w, const request *asked, reply *r) {
    if (write_all(w->to, asked, sizeof *asked) || read_all(w->from, r, sizeof *r))
        return fail(*w->core ? w->core : "worker", "ended unexpectedly");
    if (r->error < 0) return fail("worker", "out of memory");
    if (asked->all && !(r->error <= MOST_ERROR)) {
        char text[64];
        snprintf(text, sizeof text, "results differ by %.1e of their root mean square", r->error);
        return fail(kind_names[asked->kind], text);
    }
    memcpy(w->chosen, r->core, sizeof w->chosen);
    return 0;
}

/* -- results -- */
typedef struct comparison {
    double peak;              /* GFLOP/s */
    double gyre, onednn;      /* of the peak, medians over the rounds */
    double openblas, of_best; /* of the best core type; Gyre relative to the better of the two, median over the rounds */
    double by_core[MAX_WORKERS];
    int best_core;
    double error;
} comparison;

static double median_ratio(const double *a, const double *b, int rounds) {
    double ratios[MAX_ROUNDS];
    for (int r = 0; r < rounds; r++)
        ratios[r] = b ? a[r] / b[r] : a[r];
    return bench_median(ratios, rounds);
}

/* Gyre and oneDNN are measured in the first worker. */
static int compare(worker_process *workers, int count, int shape, int kind, int rounds, comparison *c) {
    double gyre[MAX_ROUNDS], onednn[MAX_ROUNDS], openblas[MAX_WORKERS][MAX_ROUNDS], peak[MAX_ROUNDS];
    *c = (comparison){.best_core = 0};
    for (int r = 0; r < rounds; r++)
        for (int i = 0; i < count; i++) {
            reply answer;
            if (ask(&workers[i], &(request){shape, kind, i == 0}, &answer)) return -1;
            openblas[i][r] = answer.rate[OPENBLAS] / answer.rate[PEAK];
            if (i > 0) continue;
            gyre[r] = answer.rate[GYRE] / answer.rate[PEAK];
            onednn[r] = answer.rate[ONEDNN] / answer.rate[PEAK];
            peak[r] = 1e-9 * answer.rate[PEAK];
            c->error = fmax(c->error, answer.error);
        }
    for (int i = 0; i < count; i++) {
        c->by_core[i] = median_ratio(openblas[i], NULL, rounds);
        if (c->by_core[i] > c->by_core[c->best_core]) c->best_core = i;
    }
    c->openblas = c->by_core[c->best_core];
    c->of_best = fmin(median_ratio(gyre, openblas[c->best_core], rounds), median_ratio(gyre, onednn, rounds));
    c->gyre = median_ratio(gyre, NULL, rounds);
    c->onednn = median_ratio(onednn, NULL, rounds);
    c->peak = median_ratio(peak, NULL, rounds);
    return 0;
}

static int print(const worker_process *workers, int count, int shape, int kind, const comparison *c, int json) {
    const product_shape s = shapes[shape];
    const char *core = *workers[c->best_core].core ? workers[c->best_core].core : workers[c->best_core].chosen;
    if (!json) {
        printf("%-2s %4d %5d %5d  %6.1f  %5.2f  %5.2f %-11s %5.2f  %5.2f  ", kind_names[kind], s.rows, s.out, s.in, c->peak,
               c->gyre, c->openblas, core, c->onednn, c->of_best);
        for (int i = 0; i < count; i++)
            printf(" %5.2f", c->by_core[i]);
        printf("  %.0e\n", c->error);
        return fflush(stdout) ? fail("standard output", strerror(errno)) : 0;
    }
    json_t *cores = json_object();
    for (int i = 0; i < count && cores; i++)
        (void)json_object_set_new(cores, *workers[i].core ? workers[i].core : "default", json_real(c->by_core[i]));
    return cli_json_line(json_pack("{s:s, s:i, s:i, s:i, s:f, s:f, s:f, s:s, s:f, s:f, s:o, s:f}", "product",
                                   kind_names[kind], "rows", s.rows, "out", s.out, "in", s.in, "peak_gflops", c->peak,
                                   "gyre", c->gyre, "openblas", c->openblas, "core", core, "onednn", c->onednn, "of_best",
                                   c->of_best, "by_core", cores, "error", c->error));
}

static void print_head(const worker_process *workers, int count, int rounds) {
    printf("One thread, medians of %d rounds, shares of the peak of fused multiply-adds.  OpenBLAS: of its best core type;\n"
           "of best: Gyre relative to the better of OpenBLAS and oneDNN; error: relative to the root mean square.\n\n",
           rounds);
    printf("   %4s %5s %5s  %6s  %5s  %-17s %6s %7s  ", "rows", "out", "in", "peak", "Gyre", "OpenBLAS", "oneDNN",
           "of best");
    for (int i = 0; i < count; i++)
        printf(" %5.5s", *workers[i].core ? workers[i].core : "own");
    printf("  error\n");
}

/* -- the program -- */
typedef struct options {
    const char *only; /* NULL = all */
    int rounds, json, worker;
} options;
enum { KEY_ROUNDS = 256, KEY_ONLY, KEY_JSON, KEY_WORKER };

static error_t parse(int key, char *arg, struct argp_state *state) {
    options *o = state->input;
    char *end;
    switch (key) {
    case KEY_ROUNDS:
        o->rounds = (int)strtol(arg, &end, 10);
        if (*end || end == arg || o->rounds < 1 || o->rounds > MAX_ROUNDS)
            argp_error(state, "--rounds: %s is not a number from 1 to %d", arg, MAX_ROUNDS);
        return 0;
    case KEY_ONLY:
        o->only = arg;
        return 0;
    case KEY_JSON:
        o->json = 1;
        return 0;
    case KEY_WORKER:
        o->worker = 1;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static int is_chosen(const options *o, int shape, int kind) {
    char name[48];
    const product_shape p = shapes[shape];
    snprintf(name, sizeof name, "%s-%d-%dx%d", kind_names[kind], p.rows, p.out, p.in);
    return !o->only || bench_only_matches(o->only, name);
}

static int compare_all(const options *o) {
    worker_process workers[MAX_WORKERS];
    int count, rows = 0, failed = start_workers(workers, &count);
    for (int kind = 0; kind < KINDS && !failed; kind++)
        for (int shape = 0; shape < SHAPES && !failed; shape++) {
            comparison c;
            if (!is_chosen(o, shape, kind)) continue;
            failed = compare(workers, count, shape, kind, o->rounds, &c);
            if (!failed && !o->json && rows == 0) print_head(workers, count, o->rounds);
            rows++;
            if (!failed) failed = print(workers, count, shape, kind, &c, o->json);
        }
    stop_workers(workers, count);
    if (!failed && rows == 0) failed = fail(o->only, "no such case");
    return failed;
}

int main(int argc, char **argv) {
    static const struct argp_option OPTIONS[] = {
        {"rounds", KEY_ROUNDS, "N", 0, "number of rounds (default: 9)", 0},
        {"only", KEY_ONLY, "LIST", 0, "cases, or beginnings of their names: nt-512,tn-64-768x768 (default: all)", 0},
        {"json", KEY_JSON, NULL, 0, "one line of JSON for each row", 0},
        {"worker", KEY_WORKER, NULL, OPTION_HIDDEN, NULL, 0},
        {0},
    };
    static const struct argp ARGP = {
        OPTIONS, parse, NULL, "Compares Gyre's matrix products with those of OpenBLAS and oneDNN on one thread.",
        NULL,    NULL,  NULL};
    options o = {.rounds = 9};
    signal(SIGPIPE, SIG_IGN); /* a worker that ended is reported */
    argp_parse(&ARGP, argc, argv, 0, NULL, &o);
    return (o.worker ? worker() : compare_all(&o)) ? EXIT_FAILURE : EXIT_SUCCESS;
}
