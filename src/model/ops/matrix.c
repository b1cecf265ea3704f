#include "model/ops/matrix.h"
#include "core/exec.h"
#include <cblas.h>
#include <stdatomic.h>
#include <string.h>

enum {
    LANES = 16,
    GEMV_ROWS = 16,        /* up to this many rows, kernels read the weights as stored */
    GEMV_OUT = 64,         /* outputs of a task then */
    GEMM_OUT = 192,        /* outputs of a task that calls OpenBLAS, at most */
    GEMM_FLOATS = 1 << 19, /* floats of that task's converted weights, at most */
    DEQUANTIZED_ROWS = 4,  /* quantized weight rows converted before they are multiplied */
    MAX_GEMMS = 8
};

static int64_t round_up(int64_t n) {
    return (n + LANES - 1) / LANES * LANES;
}

void gyre_matrix_row(const gyre_matrix *w, const gyre_kernels *kernels, int64_t row, float *out) {
    gyre_stored_dequantize(kernels, w->type, (const unsigned char *)w->data + row * w->row_bytes, out, w->in);
}

/* -- splitting the work -- */
/* Outputs of a task.  Depends on the matrix and on whether rows <= GEMV_ROWS, on nothing else. */
static int64_t task_outputs(const gyre_matrix *w, int64_t rows) {
    if (rows <= GEMV_ROWS) return GEMV_OUT;
    const int64_t fit = GEMM_FLOATS / w->in / LANES * LANES, max = fit < LANES ? LANES : fit > GEMM_OUT ? GEMM_OUT : fit;
    const int64_t tasks = (w->out + max - 1) / max;
    return tasks > 0 ? round_up((w->out + tasks - 1) / tasks) : max;
}

static int64_t task_count(const gyre_gemm *p) {
    if (p->w->out < 1 || p->w->in < 1) return 0;
    const int64_t outputs = task_outputs(p->w, p->rows);
    return p->rows > 0 ? (p->w->out + outputs - 1) / outputs : 0;
}

/* Types that the kernels multiply as stored. */
static int is_float_type(gyre_stored_type type) {
    return type == GYRE_STORED_F32 || type == GYRE_STORED_F16 || type == GYRE_STORED_BF16;
}

/* Floats of scratch for one thread. */
static int64_t gemv_scratch(const gyre_matrix *w) {
    return is_float_type(w->type) ? 0 : DEQUANTIZED_ROWS * round_up(w->in);
}
static int64_t thread_scratch(const gyre_matrix *w, int64_t rows) {
    const int64_t gemv = gemv_scratch(w);
    const int64_t gemm = rows > GEMV_ROWS && w->type != GYRE_STORED_F32 ? task_outputs(w, rows) * w->in : 0;
    return round_up(gemv > gemm ? gemv : gemm);
}

int64_t gyre_gemm_scratch(const gyre_matrix *w, int64_t rows, int concurrency) {
    return w->out > 0 && w->in > 0 ? thread_scratch(w, rows) * (concurrency > 1 ? concurrency : 1) : 0;
}

/* -- up to GEMV_ROWS rows -- */
static void project_dequantized(const gyre_kernels *kernels, gyre_projection job, const gyre_matrix *w, int64_t first,
                                float *rows) {
    const int64_t end = first + job.outs;
    job.w = rows;
    job.w_row_stride = round_up(w->in);
    for (; first < end; first += job.outs, job.y += job.outs) {
        job.outs = end - first < DEQUANTIZED_ROWS ? end - first : DEQUANTIZED_ROWS;
        for (int64_t i = 0; i < job.outs; i++)
            gyre_matrix_row(w, kernels, first + i, rows + i * job.w_row_stride);
        kernels->project_f32(&job);
    }
}

static void store_outputs(const gyre_gemm *p, int64_t first, int64_t n, const float *sums) {
    for (int64_t r = 0; r < p->rows; r++)
        for (int64_t i = 0; i < n; i++) {
            float *y = p->y + r * p->y_row_stride + first + i;
            /* NOLINTNEXTLINE(clang-analyzer-core.uninitialized.Assign): the kernels wrote it */
            const float sum = sums[r * GEMV_OUT + i];
            const float biased = sum + (p->bias ? p->bias[first + i] : 0);
            *y = p->accumulate ? *y + biased : biased;
        }
}

static void gemv_task(const gyre_gemm *p, const gyre_kernels *kernels, int64_t first, int64_t n, float *scratch) {
    const gyre_matrix *w = p->w;
    float sums[GEMV_ROWS * GEMV_OUT];
    const void *rows = (const unsigned char *)w->data + first * w->row_bytes;
    const int64_t w_row_stride = w->row_bytes / (w->type == GYRE_STORED_F32 ? 4 : 2);
    const gyre_projection job = {p->rows, n, w->in, p->x, p->x_row_stride, rows, w_row_stride, sums, GEMV_OUT};
    if (w->type == GYRE_STORED_F32)
        kernels->project_f32(&job);
    else if (w->type == GYRE_STORED_F16)
        kernels->project_f16(&job);
    else if (w->type == GYRE_STORED_BF16)
        kernels->project_bf16(&job);
    else
        project_dequantized(kernels, job, w, first, scratch);
    store_outputs(p, first, n, sums);
}

/* -- more rows: OpenBLAS -- */
static void gemm_task(const gyre_gemm *p, const gyre_kernels *kernels, int64_t first, int64_t n, float *scratch) {
    const gyre_matrix *w = p->w;
    const float *weights = scratch;
    int64_t row = w->in;
    if (w->type == GYRE_STORED_F32) {
        weights = (const float *)(const void *)((const unsigned char *)w->data + first * w->row_bytes);
        row = w->row_bytes / (int64_t)sizeof(float);
    } else {
        for (int64_t i = 0; i < n; i++)
            gyre_matrix_row(w, kernels, first + i, scratch + i * w->in);
    }
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)p->rows, (int)n, (int)w->in, 1, p->x, (int)p->x_row_stride,
                weights, (int)row, p->accumulate ? 1 : 0, p->y + first, (int)p->y_row_stride);
    for (int64_t r = 0; p->bias && r < p->rows; r++)
        for (int64_t i = first; i < first + n; i++)
            p->y[r * p->y_row_stride + i] += p->bias[i];
}

/* -- running -- */
typedef struct gemm_run {
    const gyre_gemm *gemms;
    const gyre_kernels *kernels;
    int count;
    int64_t end[MAX_GEMMS]; /* end[i] = tasks of gemms 0 .. i */
    float *scratch;
    int64_t floats; /* of scratch, per thread */
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
        const int64_t outputs = task_outputs(p->w, p->rows), first = (task - (i > 0 ? r->end[i - 1] : 0)) * outputs;
        const int64_t n = p->w->out - first < outputs ? p->w->out - first : outputs;
        (p->rows <= GEMV_ROWS ? gemv_task : gemm_task)(p, r->kernels, first, n, scratch);
    }
}

static void run_gemms(const gyre_gemm *gemms, int count, const gyre_kernels *kernels, float *scratch,
                      const gyre_exec *exec) {
    gemm_run r = {.gemms = gemms, .kernels = kernels, .count = count, .scratch = scratch};
    int64_t tasks = 0;
    for (int i = 0; i < count; i++) {
        const int64_t floats = gyre_gemm_scratch(gemms[i].w, gemms[i].rows, 1);
        if (floats > r.floats) r.floats = floats;
        r.end[i] = tasks += task_count(&gemms[i]);
    }
    const int64_t threads = gyre_exec_concurrency(exec);
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
