#include "model/ops/matrix.h"
#include "core/exec.h"
#include "model/ops/float_buffer.h"
#include <stdatomic.h>
#include <string.h>

enum {
    GEMV_ROWS = 4,        /* up to this many rows, kernels read the weights as stored */
    GEMV_OUT = 64,        /* outputs of a task then */
    MIN_OUT = 24,         /* outputs of a task of more rows, at least */
    TASKS_PER_THREAD = 3, /* so that threads end together */
    DEQUANTIZED_ROWS = 4, /* quantized weight rows converted before they are multiplied */
    MAX_GEMMS = 8,
    CACHE_LINE_BYTES = 64
};

void gyre_matrix_row(const gyre_matrix *w, const gyre_kernels *kernels, int64_t row, float *out) {
    gyre_stored_dequantize(kernels, w->type, (const unsigned char *)w->data + row * w->row_bytes, out, w->in);
}

/* -- splitting the work -- */
/* Outputs of a task, in whole tiles: no sum depends on it. */
static int64_t task_outputs(const gyre_gemm *p, const gyre_kernels *kernels, int64_t threads) {
    if (p->rows <= GEMV_ROWS) return GEMV_OUT;
    const int64_t tasks = threads > 1 ? TASKS_PER_THREAD * threads : 1;
    const int64_t least = gyre_round_up_i64(MIN_OUT, gyre_product_tiling_of(kernels, p->w->type)->outs);
    return gyre_min_i64(gyre_round_up_i64((p->w->out + tasks - 1) / tasks, least), GYRE_PRODUCT_OUTS);
}

static int64_t task_count(const gyre_gemm *p, const gyre_kernels *kernels, int64_t threads) {
    if (p->w->out < 1 || p->w->in < 1 || p->rows < 1) return 0;
    const int64_t outputs = task_outputs(p, kernels, threads);
    return (p->w->out + outputs - 1) / outputs;
}

/* Types that the kernels multiply as stored. */
static int is_multiplied_as_stored(gyre_stored_type type) {
    switch (type) {
#define GYRE_STORED_PLAIN(NAME, ...) case GYRE_STORED_##NAME:
#define GYRE_STORED_BLOCK(NAME, ...) case GYRE_STORED_##NAME:
#include "kernels/quants/stored_types.def"
        return 1;
    default:
        return 0;
    }
}

/* out = the kernel for one of them. */
static void (*projection_of(const gyre_kernels *kernels, gyre_stored_type type))(const gyre_projection *) {
    switch (type) {
    case GYRE_STORED_F32:
        return kernels->project_f32;
    case GYRE_STORED_F16:
        return kernels->project_f16;
    case GYRE_STORED_BF16:
        return kernels->project_bf16;
#define GYRE_STORED_BLOCK(NAME, name, ...)                                                                                  \
    case GYRE_STORED_##NAME:                                                                                                \
        return kernels->project_##name;
#include "kernels/quants/stored_types.def"
    default:
        return NULL;
    }
}

/* Floats of scratch for one thread. */
static int64_t thread_scratch(const gyre_matrix *w, int64_t rows) {
    const int64_t gemv = is_multiplied_as_stored(w->type) ? 0 : DEQUANTIZED_ROWS * GYRE_PRODUCT_BLOCK;
    const int64_t gemm = rows > GEMV_ROWS ? gyre_product_scratch(w->type, rows, w->in) : 0;
    return gyre_round_up_floats(gemv > gemm ? gemv : gemm);
}

int64_t gyre_gemm_scratch(const gyre_matrix *w, int64_t rows, int concurrency) {
    return w->out > 0 && w->in > 0 ? thread_scratch(w, rows) * (concurrency > 1 ? concurrency : 1) : 0;
}

/* -- up to GEMV_ROWS rows -- */
/* Hardware prefetches a single stream best, and the blocks of several rows are several streams. */
static void prefetch_block(const unsigned char *from, int64_t bytes) {
#ifdef __GNUC__
    for (int64_t i = 0; i < bytes + CACHE_LINE_BYTES; i += CACHE_LINE_BYTES)
        __builtin_prefetch(from + i);
#else
    (void)from, (void)bytes;
#endif
}

/* A block of channels of a few rows at a time, which stay in the first-level cache. */
static void project_dequantized(const gyre_kernels *kernels, const gyre_projection *all, const gyre_matrix *w, int64_t first,
                                float *rows) {
    gyre_projection job = *all;
    job.w = rows;
    job.w_row_stride = GYRE_PRODUCT_BLOCK;
    for (int64_t at = 0; at < all->outs; at += DEQUANTIZED_ROWS) {
        const unsigned char *stored = (const unsigned char *)w->data + (first + at) * w->row_bytes;
        job.outs = gyre_min_i64(DEQUANTIZED_ROWS, all->outs - at);
        job.y = all->y + at;
        for (int64_t c = 0; c < w->in; c += GYRE_PRODUCT_BLOCK) {
            job.in = gyre_min_i64(GYRE_PRODUCT_BLOCK, w->in - c);
            job.x = all->x + c;
            const int64_t from = gyre_stored_row_bytes(w->type, c), bytes = gyre_stored_row_bytes(w->type, job.in);
            for (int64_t i = 0; i < job.outs; i++) {
                const unsigned char *block = stored + i * w->row_bytes + from;
                if (c + job.in < w->in)
                    prefetch_block(block + bytes, bytes);
                else if (at + DEQUANTIZED_ROWS + i < all->outs)
                    prefetch_block(block - from + DEQUANTIZED_ROWS * w->row_bytes, bytes);
                gyre_stored_dequantize(kernels, w->type, block, rows + i * GYRE_PRODUCT_BLOCK, job.in);
            }
            kernels->project_cached_f32(&job, c > 0);
        }
    }
}

static void store_outputs(const gyre_gemm *p, int64_t first, int64_t n, const float *sums) {
    for (int64_t r = 0; r < p->rows; r++)
        for (int64_t i = 0; i < n; i++) {
            float *y = p->y + r * p->y_row_stride + first + i;
            /* NOLINTNEXTLINE(clang-analyzer-core.uninitialized.Assign): the kernels wrote it */
            const float sum = sums[r * GEMV_OUT + i];
            const float biased = p->bias ? sum + p->bias[first + i] : sum; /* 0 added to -0 would be another zero */
            *y = p->accumulate ? *y + biased : biased;
        }
}

static void gemv_task(const gyre_gemm *p, const gyre_kernels *kernels, int64_t first, int64_t n, float *scratch) {
    const gyre_matrix *w = p->w;
    float sums[GEMV_ROWS * GEMV_OUT];
    const void *rows = (const unsigned char *)w->data + first * w->row_bytes;
    const int64_t element = gyre_stored_block_size(w->type) > 1 ? 1 : gyre_stored_row_bytes(w->type, 1);
    const gyre_projection job = {p->rows, n, w->in, p->x, p->x_row_stride, rows, w->row_bytes / element, sums, GEMV_OUT};
    if (is_multiplied_as_stored(w->type))
        projection_of(kernels, w->type)(&job);
    else
        project_dequantized(kernels, &job, w, first, scratch);
    store_outputs(p, first, n, sums);
}

/* -- running -- */
typedef struct gemm_run {
    const gyre_gemm *gemms;
    const gyre_kernels *kernels;
    int count;
    int64_t end[MAX_GEMMS]; /* end[i] = tasks of gemms 0 .. i */
    float *scratch;
    int64_t floats, threads; /* floats: of scratch, per thread */
    atomic_int_fast64_t next;
} gemm_run;

static void run_tasks(void *arg, int64_t thread) {
    gemm_run *r = arg;
    float *scratch = r->scratch + thread * r->floats;
    int i = 0;
    for (int64_t task; (task = atomic_fetch_add_explicit(&r->next, 1, memory_order_relaxed)) < r->end[r->count - 1];) {
        while (task >= r->end[i])
            i++;
        const gyre_gemm *p = &r->gemms[i];
        const int64_t outputs = task_outputs(p, r->kernels, r->threads),
                      first = (task - (i > 0 ? r->end[i - 1] : 0)) * outputs;
        const int64_t n = p->w->out - first < outputs ? p->w->out - first : outputs;
        (p->rows <= GEMV_ROWS ? gemv_task : gyre_product_run)(p, r->kernels, first, n, scratch);
    }
}

static void run_gemms(const gyre_gemm *gemms, int count, const gyre_kernels *kernels, float *scratch,
                      const gyre_exec *exec) {
    const int64_t threads = gyre_exec_concurrency(exec);
    gemm_run r = {.gemms = gemms, .kernels = kernels, .count = count, .scratch = scratch, .threads = threads};
    int64_t tasks = 0;
    for (int i = 0; i < count; i++) {
        const int64_t floats = gyre_gemm_scratch(gemms[i].w, gemms[i].rows, 1);
        if (floats > r.floats) r.floats = floats;
        r.end[i] = tasks += task_count(&gemms[i], kernels, threads);
    }
    atomic_init(&r.next, 0);
    gyre_parallel(exec, run_tasks, &r, threads < tasks ? threads : tasks);
}

void gyre_gemm_run_many(const gyre_gemm *gemms, int count, const gyre_kernels *kernels, float *scratch,
                        const gyre_exec *exec) {
    for (int i = 0, n; i < count; i += n) {
        n = count - i < MAX_GEMMS ? count - i : MAX_GEMMS;
        run_gemms(gemms + i, n, kernels, scratch, exec);
    }
}

void gyre_gemm_run(const gyre_gemm *gemm, const gyre_kernels *kernels, float *scratch, const gyre_exec *exec) {
    gyre_gemm_run_many(gemm, 1, kernels, scratch, exec);
}
