/* bench_products.c: gyre bench products: the matrix products of models: many rows, forward and gradients, against the
 * arithmetic peak; one row, from every type of stored weights, against reading them. */
#include "model/ops/float_buffer.h"
#include "model/ops/linear.h"
#include "model/ops/matrix.h"
#include "tools/bench/bench_only.h"
#include "tools/bench/bench_roofline.h"
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* -- cases -- */
typedef enum product_kind {
    KIND_NT, /* y = x w^T */
    KIND_NN, /* dx = dy w */
    KIND_TN, /* dw += dy^T x */
    KIND_ROW /* y = x w^T of one row */
} product_kind;
static const char *const kind_names[] = {"nt", "nn", "tn", "row"};

typedef struct product_case {
    char name[48];
    product_kind kind;
    int64_t rows, out, in;
    gyre_stored_type type; /* of the weights */
} product_case;

enum { MAX_CASES = 64, ROW_IN = 4096, ROW_BYTES = 128 << 20 };
#define PEAK_GOAL    0.85 /* of the arithmetic peak */
#define SPEEDUP_GOAL 1.8  /* of two threads */

typedef struct case_list {
    product_case cases[MAX_CASES];
    int count;
} case_list;

/* Types with kernels. */
static const gyre_stored_type row_types[] = {
#define GYRE_STORED_PLAIN(NAME, ...) GYRE_STORED_##NAME,
#define GYRE_STORED_BLOCK            GYRE_STORED_PLAIN
#include "kernels/quants/stored_types.def"
};
enum { ROW_TYPES = sizeof row_types / sizeof *row_types };

static case_list list_all_cases(void) {
    static const int64_t rows[] = {64, 128, 512};
    static const int64_t shapes[][2] = {{768, 768}, {2048, 768}, {768, 2048}, {4096, 4096}, {1024, 1024}};
    case_list list = {.count = 0};
    for (int kind = KIND_NT; kind < KIND_ROW; kind++)
        for (int r = 0; r < 3; r++)
            for (int s = 0; s < 5; s++) {
                product_case *c = &list.cases[list.count++];
                *c = (product_case){"", (product_kind)kind, rows[r], shapes[s][0], shapes[s][1], GYRE_STORED_F32};
                snprintf(c->name, sizeof c->name, "%s-%lld-%lldx%lld", kind_names[kind], (long long)c->rows,
                         (long long)c->out, (long long)c->in);
            }
    for (int i = 0; i < ROW_TYPES; i++) {
        product_case *c = &list.cases[list.count++];
        const int64_t out = ROW_BYTES / gyre_stored_row_bytes(row_types[i], ROW_IN);
        *c = (product_case){"", KIND_ROW, 1, out, ROW_IN, row_types[i]};
        snprintf(c->name, sizeof c->name, "row-%s", gyre_stored_type_name(c->type));
        for (char *letter = c->name; *letter; letter++)
            *letter = (char)tolower((unsigned char)*letter);
    }
    return list;
}

static case_list choose_cases(const bench_options *o) {
    const case_list all = list_all_cases();
    case_list chosen = {.count = 0};
    const char *names[MAX_CASES];
    for (int i = 0; i < all.count; i++)
        names[i] = all.cases[i].name;
    bench_only_check(o->only, names, all.count);
    for (int i = 0; i < all.count; i++)
        if (!o->only || bench_only_matches(o->only, all.cases[i].name)) chosen.cases[chosen.count++] = all.cases[i];
    return chosen;
}

/* -- a product, ready to run -- */
typedef struct product {
    product_kind kind;
    const gyre_kernels *kernels;
    gyre_matrix matrix;
    gyre_linear linear;
    float *memory; /* all of the following */
    float *w, *x, *y, *gradient, *scratch;
} product;

/* Numbers of about 1 / 64, so that sums stay small.  Scales of blocks are f16, the rest of a block may be anything. */
static void fill_weights(gyre_stored_type type, void *weights, int64_t bytes) {
    uint64_t seed = 1;
    unsigned char *at = weights;
    if (type == GYRE_STORED_F32) {
        for (int64_t i = 0; i < bytes / 4; i++)
            ((float *)weights)[i] = (float)(bench_random(&seed) - 0.5) / 32;
        return;
    }
    for (int64_t i = 0; i < bytes; i++)
        at[i] = (unsigned char)(256 * bench_random(&seed));
    if (type == GYRE_STORED_F16 || type == GYRE_STORED_BF16)
        for (int64_t i = 1; i < bytes; i += 2)
            at[i] = (unsigned char)((at[i] & 0x80) | (type == GYRE_STORED_F16 ? 0x20 : 0x3c)); /* sign, exponent */
    if (type < GYRE_STORED_Q8_0) return;
    const int64_t block = gyre_stored_row_bytes(type, gyre_stored_block_size(type));
    const unsigned char scale[] = {0, 0x04}; /* 2^-14 */
    int64_t places[2];
    const int scales = gyre_stored_scales(type, places);
    for (int64_t i = 0; i + block <= bytes; i += block) {
        for (int s = 0; s < scales; s++)
            memcpy(at + i + places[s], scale, 2);
        if (scales == 0) at[i] = 113; /* MXFP4: 2^-14 */
    }
}

/* threads: the most that will run it.  On failure nothing is allocated.  Errors: ENOMEM. */
static gyre_status product_open(product *p, const product_case *c, int threads, gyre_error *err) {
    const int64_t row_bytes = gyre_stored_row_bytes(c->type, c->in), bytes = c->out * row_bytes;
    const int64_t w = gyre_round_up_floats((bytes + 3) / 4), x = gyre_round_up_floats(c->rows * c->in),
                  y = gyre_round_up_floats(c->rows * c->out);
    const int64_t gradient = c->kind == KIND_NN ? x : c->kind == KIND_TN ? w : 0;
    *p = (product){.kind = c->kind,
                   .kernels = gyre_kernels_select(),
                   .matrix = {.type = c->type, .out = c->out, .in = c->in, .row_bytes = row_bytes},
                   .linear = {.rows = c->rows, .in = c->in, .out = c->out}};
    const int64_t scratch = gradient ? gyre_linear_scratch(c->rows, c->in) : gyre_gemm_scratch(&p->matrix, c->rows, threads);
    const size_t floats = (size_t)(w + x + y + gradient + gyre_round_up_floats(scratch));
    p->memory = bench_alloc_huge(floats * sizeof(float));
    if (!p->memory) return gyre_fail(err, GYRE_ENOMEM, "%s: out of memory (gyre bench products)", c->name);
    memset(p->memory, 0, floats * sizeof(float));
    p->w = p->memory, p->x = p->w + w, p->y = p->x + x, p->gradient = p->y + y, p->scratch = p->gradient + gradient;
    p->matrix.data = p->linear.w = p->w;
    fill_weights(c->type, p->w, bytes);
    fill_weights(GYRE_STORED_F32, p->x, (x + y) * (int64_t)sizeof(float));
    return GYRE_OK;
}

static gyre_status product_run(void *arg, const gyre_exec *exec) {
    const product *p = arg;
    const gyre_linear_work work = {p->kernels, p->scratch};
    const gyre_gemm gemm = {.w = &p->matrix,
                            .x = p->x,
                            .y = p->y,
                            .rows = p->linear.rows,
                            .x_row_stride = p->linear.in,
                            .y_row_stride = p->linear.out};
    if (p->kind == KIND_NN)
        gyre_linear_input_gradient(&p->linear, &work, p->y, 0, p->gradient);
    else if (p->kind == KIND_TN)
        gyre_linear_weight_gradient(&p->linear, &work, p->x, p->y, p->gradient);
    else
        gyre_gemm_run(&gemm, p->kernels, p->scratch, exec);
    return GYRE_OK;
}

static double flops_of(const product_case *c) {
    return 2.0 * (double)c->rows * (double)c->out * (double)c->in;
}
static double bytes_of(const product_case *c) {
    return (double)(c->out * gyre_stored_row_bytes(c->type, c->in));
}

/* -- measuring -- */
/* The numbers of threads.  Gradients run on one thread, because the trainer splits the work itself. */
typedef struct product_execs {
    bench_execs all, one;
} product_execs;

typedef struct product_result {
    int64_t threads;
    bench_quiet quiet;
    /* NAN = not applicable.  Ratios are medians over the quiet rounds. */
    double ns, gflops, peak_gflops, of_peak, gbps, read_gbps, of_read, of_saved, speedup;
} product_result;

/* The series of one number of threads.  The f32 run follows the call and the limit alike, and a row and its limit are timed
 * over as many runs, so that both find the same part of the weights in the third-level cache. */
typedef struct series_set {
    bench_series call, f32, limit, again; /* f32.run NULL: not measured; again: as f32 */
} series_set;

static product_result summarise(const product_case *c, const series_set *set, const series_set *alone,
                                const bench_rounds *rounds) {
    const double ns = 1e9 * bench_series_seconds(&set->call, rounds), bytes = bytes_of(c);
    const double limit = 1e-9 * bench_series_rate(&set->limit, rounds);
    const double share = bench_series_ratio(&set->limit, &set->call, rounds) * set->call.amount / set->limit.amount;
    const int row = c->kind == KIND_ROW;
    return (product_result){
        .threads = set->call.exec->concurrency,
        .quiet = bench_rounds_quiet(rounds),
        .ns = ns,
        .gflops = flops_of(c) / ns,
        .peak_gflops = row ? NAN : limit,
        .of_peak = row ? NAN : share,
        .gbps = row ? bytes / ns : NAN,
        .read_gbps = row ? limit : NAN,
        .of_read = row ? share : NAN,
        .of_saved = set->f32.run ? bench_series_ratio(&set->f32, &set->call, rounds) * bytes / set->f32.amount : NAN,
        .speedup = set != alone ? bench_series_ratio(&alone->call, &set->call, rounds) : NAN};
}

/* About how many microseconds the case takes on a processor of 100 GFLOP/s and 10 GB/s; what counts is how cases compare. */
static int64_t case_cost(const product_case *c, int64_t rounds) {
    const double run = c->kind == KIND_ROW ? 6 * bytes_of(c) / 10e3 : fmax(flops_of(c) / 100e3, 10e3) + 10e3;
    return (int64_t)((double)(rounds + 1) * run * (c->kind == KIND_NT || c->kind == KIND_ROW ? 2 : 1)) + 1;
}

/* out = the sets in use. */
static int set_up_series(series_set sets[BENCH_MAX_EXECS], const product_case *c, product *p, product *f32,
                         bench_memory_read *reading, const product_execs *execs) {
    const int serial = c->kind == KIND_NN || c->kind == KIND_TN, count = serial ? 1 : execs->all.count;
    const int row = c->kind == KIND_ROW;
    const double f32_bytes = (double)f32->matrix.out * (double)f32->matrix.row_bytes;
    for (int i = 0; i < count; i++) {
        const gyre_exec *exec = serial ? &execs->one.of[0] : &execs->all.of[i];
        sets[i].call = (bench_series){product_run, p, exec, row ? bytes_of(c) : flops_of(c), 0, {0}};
        sets[i].f32 = sets[i].again = (bench_series){f32->memory ? product_run : NULL, f32, exec, f32_bytes, 0, {0}};
        sets[i].limit = row ? (bench_series){bench_run_memory_read, reading, exec, (double)reading->bytes, 0, {0}}
                            : (bench_series){bench_run_fma, NULL, exec, bench_fma_flops(exec), 0, {0}};
    }
    return count;
}

/* out = the results, one for each number of threads; -1 with *err set. */
static int measure(const product_case *c, const product_case *as_f32, int64_t limit, const product_execs *execs,
                   cli_progress *progress, product_result results[BENCH_MAX_EXECS], gyre_error *err) {
    product p, f32 = {.memory = NULL};
    series_set sets[BENCH_MAX_EXECS];
    bench_series *all[4 * BENCH_MAX_EXECS];
    const bench_part part = {progress, case_cost(c, limit)};
    bench_rounds rounds = bench_rounds_begin(bench_this_core(), limit);
    const int threads = execs->all.of[execs->all.count - 1].concurrency;
    int count = 0;
    if (product_open(&p, c, threads, err)) return -1;
    gyre_status status =
        c->kind == KIND_ROW && c->type != GYRE_STORED_F32 ? product_open(&f32, as_f32, threads, err) : GYRE_OK;
    bench_memory_read reading = {p.w, (int64_t)bytes_of(c)};
    const int used = set_up_series(sets, c, &p, &f32, &reading, execs);
    for (int i = 0; i < used; i++) {
        all[count++] = &sets[i].call;
        if (f32.memory) all[count++] = &sets[i].f32;
        all[count++] = &sets[i].limit;
        if (f32.memory) all[count++] = &sets[i].again;
    }
    if (!status) status = bench_run_interleaved(all, count, c->kind == KIND_ROW, &rounds, &part);
    for (int i = 0; i < used && !status; i++)
        results[i] = summarise(c, &sets[i], &sets[0], &rounds);
    free(p.memory);
    free(f32.memory);
    return status ? -1 : used;
}

/* -- results -- */
/* out = the goal of one row of x, of reading the weights; 0 = none. */
static double read_goal(gyre_stored_type type) {
    switch (type) {
    case GYRE_STORED_F32:
        return 0.95;
    case GYRE_STORED_F16:
    case GYRE_STORED_BF16:
        return 0.85;
    case GYRE_STORED_Q8_0:
        return 0.80;
    case GYRE_STORED_Q4_K:
        return 0.35;
    default:
        return 0;
    }
}

static json_t *goal_of(const product_case *c, const product_result *r) {
    const double read = read_goal(c->type);
    if (c->kind == KIND_ROW) return bench_goal(read > 0 ? "of_read" : NULL, read);
    if (r->threads == 1) return bench_goal("of_peak", PEAK_GOAL);
    return bench_goal(r->threads == 2 && !isnan(r->speedup) ? "speedup" : NULL, SPEEDUP_GOAL);
}

static const bench_column columns[] = {
    {"name", "case", -20, 0, 0},     {"threads", "threads", 7, 0, 0},   {"ns", "ms", 10, 3, 1e-6},
    {"gflops", "GFLOP/s", 8, 1, 0},  {"of_peak", "of peak", 8, 2, 0},   {"gbps", "GB/s", 7, 1, 0},
    {"of_read", "of read", 7, 2, 0}, {"of_saved", "of saved", 8, 2, 0}, {"speedup", "speedup", 7, 2, 0}};
enum { COLUMNS = sizeof columns / sizeof *columns };

static int print_row(const bench_options *o, const product_case *c, const product_result *r) {
    char note[80];
    json_t *row =
        JSON_OBJECT("bench", JSON("products"), "name", JSON(c->name), "case", JSON(kind_names[c->kind]), "dtype",
                    JSON(c->kind == KIND_ROW ? c->name + strlen("row-") : "f32"), "rows", JSON(c->rows), "out", JSON(c->out),
                    "in", JSON(c->in), "threads", JSON(r->threads), "rounds", JSON(r->quiet.rounds), "ns", JSON(r->ns),
                    "gflops", JSON(r->gflops), "peak_gflops", JSON(r->peak_gflops), "of_peak", JSON(r->of_peak), "gbps",
                    JSON(r->gbps), "read_gbps", JSON(r->read_gbps), "of_read", JSON(r->of_read), "of_saved",
                    JSON(r->of_saved), "speedup", JSON(r->speedup), "goal", goal_of(c, r));
    return bench_print_row(o, row, &r->quiet, columns, COLUMNS, bench_goal_note(row, &r->quiet, note));
}

static void print_head(void) {
    cli_page_printf(
        cli_stdout(),
        "nt: rows of x times weights [out x in]; nn, tn: its gradients for x and for the weights; row: one row of x times "
        "128 MiB of weights. of peak: of fused multiply-adds in registers; of read: rate of the weights over that of "
        "reading them in a loop; of saved: speed relative to f32 over the bytes saved. Ratios: medians of the quiet "
        "rounds'.\n\n");
    bench_print_titles(columns, COLUMNS, "goal");
}

/* -- the benchmark -- */
static int run_cases(const bench_options *o, int64_t rounds, const case_list *list, const product_execs *execs) {
    gyre_error err = {0, ""};
    product_result results[BENCH_MAX_EXECS];
    cli_progress progress;
    const case_list all = list_all_cases();
    const product_case *as_f32 = all.cases;
    int64_t cost = 0, done = 0;
    int failed = 0;
    while (as_f32->kind != KIND_ROW)
        as_f32++;
    for (int i = 0; i < list->count; i++)
        cost += case_cost(&list->cases[i], rounds);
    cli_progress_begin(&progress, "products", NULL, cost);
    for (int i = 0; i < list->count && !failed; i++) {
        const product_case *c = &list->cases[i];
        cli_progress_label(&progress, "%s", c->name);
        const int count = measure(c, as_f32, rounds, execs, &progress, results, &err);
        if (count < 0) {
            failed = cli_fail_error(&err);
            break;
        }
        cli_progress_set(&progress, done += case_cost(c, rounds));
        cli_progress_mark(&progress);
        cli_progress_erase();
        if (!o->common.json && i == 0) print_head();
        for (int r = 0; r < count && !failed; r++)
            failed = print_row(o, c, &results[r]);
    }
    cli_progress_end(&progress);
    return failed;
}

int bench_products(const bench_options *o) {
    const int64_t rounds = o->quick && o->rounds > BENCH_QUICK_ROUNDS ? BENCH_QUICK_ROUNDS : o->rounds;
    const case_list list = choose_cases(o);
    gyre_error err = {0, ""};
    product_execs execs;
    if (bench_execs_open(&execs.one, 1, &err)) return cli_fail_error(&err);
    int failed = bench_execs_open(&execs.all, o->common.threads, &err) ? cli_fail_error(&err) : 0;
    if (!failed) failed = run_cases(o, rounds, &list, &execs);
    bench_execs_close(&execs.all);
    bench_execs_close(&execs.one);
    return failed;
}
