#include "model/matrix.h"
#include "core/encoding.h"
#include <cblas.h>
#include <stdatomic.h>
#include <string.h>

/* FEW_ROWS: at most so many are multiplied as the weights lie.  FEW_OUT, MANY_OUT: outputs of a task, MANY_FLOATS: of its
 * widened weights at most.  WIDENED: quantized rows that are widened before they are multiplied. */
enum { LANES = 16, FEW_ROWS = 16, FEW_OUT = 64, MANY_OUT = 192, MANY_FLOATS = 1 << 19, WIDENED = 4, MOST_PRODUCTS = 8 };

static int64_t round_up(int64_t n) {
    return (n + LANES - 1) / LANES * LANES;
}

void gyre_matrix_row(const gyre_matrix *w, const gyre_kernels *kernels, int64_t row, float *out) {
    gyre_stored_widen(kernels, w->type, (const unsigned char *)w->data + row * w->row_bytes, out, w->in);
}

/* -- how the work is cut ----------------------------------------------------------------------------------------------- */
/* Outputs of a task: by the matrix alone, and by whether rows are few. */
static int64_t task_outputs(const gyre_matrix *w, int64_t rows) {
    if (rows <= FEW_ROWS) return FEW_OUT;
    const int64_t fit = MANY_FLOATS / w->in / LANES * LANES, most = fit < LANES ? LANES : fit > MANY_OUT ? MANY_OUT : fit;
    const int64_t tasks = (w->out + most - 1) / most;
    return tasks > 0 ? round_up((w->out + tasks - 1) / tasks) : most;
}

static int64_t task_count(const gyre_product *p) {
    if (p->w->out < 1 || p->w->in < 1) return 0;
    const int64_t outputs = task_outputs(p->w, p->rows);
    return p->rows > 0 ? (p->w->out + outputs - 1) / outputs : 0;
}

/* Types whose rows kernels multiply as they lie. */
static int is_plain(gyre_stored_type type) {
    return type == GYRE_STORED_F32 || type == GYRE_STORED_F16 || type == GYRE_STORED_BF16;
}

/* Floats of scratch of one thread. */
static int64_t few_floats(const gyre_matrix *w) {
    return is_plain(w->type) ? 0 : WIDENED * round_up(w->in);
}
static int64_t thread_floats(const gyre_matrix *w, int64_t rows) {
    const int64_t few = few_floats(w);
    const int64_t many = rows > FEW_ROWS && w->type != GYRE_STORED_F32 ? task_outputs(w, rows) * w->in : 0;
    return round_up(few > many ? few : many);
}

int64_t gyre_product_scratch(const gyre_matrix *w, int64_t rows, int width) {
    return w->out > 0 && w->in > 0 ? thread_floats(w, rows) * (width > 1 ? width : 1) : 0;
}

/* -- few rows ---------------------------------------------------------------------------------------------------------- */
static void project_widened(const gyre_kernels *kernels, gyre_projection job, const gyre_matrix *w, int64_t first,
                            float *rows) {
    const int64_t end = first + job.outs;
    job.w = rows;
    job.w_row = round_up(w->in);
    for (; first < end; first += job.outs, job.y += job.outs) {
        job.outs = end - first < WIDENED ? end - first : WIDENED;
        for (int64_t i = 0; i < job.outs; i++)
            gyre_matrix_row(w, kernels, first + i, rows + i * job.w_row);
        kernels->project_f32(&job);
    }
}

static void put(const gyre_product *p, int64_t first, int64_t n, const float *sums) {
    for (int64_t r = 0; r < p->rows; r++)
        for (int64_t i = 0; i < n; i++) {
            float *y = p->y + r * p->y_row + first + i;
            const float sum = sums[r * FEW_OUT + i]; /* NOLINT(clang-analyzer-core.uninitialized.Assign): kernels wrote it */
            const float biased = sum + (p->bias ? p->bias[first + i] : 0);
            *y = p->add ? *y + biased : biased;
        }
}

static void few_task(const gyre_product *p, const gyre_kernels *kernels, int64_t first, int64_t n, float *scratch) {
    const gyre_matrix *w = p->w;
    float sums[FEW_ROWS * FEW_OUT];
    const void *rows = (const unsigned char *)w->data + first * w->row_bytes;
    const int64_t w_row = w->row_bytes / (w->type == GYRE_STORED_F32 ? 4 : 2);
    const gyre_projection job = {p->rows, n, w->in, p->x, p->x_row, rows, w_row, sums, FEW_OUT};
    if (w->type == GYRE_STORED_F32)
        kernels->project_f32(&job);
    else if (w->type == GYRE_STORED_F16)
        kernels->project_f16(&job);
    else if (w->type == GYRE_STORED_BF16)
        kernels->project_bf16(&job);
    else
        project_widened(kernels, job, w, first, scratch);
    put(p, first, n, sums);
}

/* -- many rows --------------------------------------------------------------------------------------------------------- */
static void many_task(const gyre_product *p, const gyre_kernels *kernels, int64_t first, int64_t n, float *scratch) {
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
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)p->rows, (int)n, (int)w->in, 1, p->x, (int)p->x_row, weights,
                (int)row, p->add ? 1 : 0, p->y + first, (int)p->y_row);
    for (int64_t r = 0; p->bias && r < p->rows; r++)
        for (int64_t i = first; i < first + n; i++)
            p->y[r * p->y_row + i] += p->bias[i];
}

/* -- a call ------------------------------------------------------------------------------------------------------------ */
typedef struct product_run {
    const gyre_product *products;
    const gyre_kernels *kernels;
    int count;
    int64_t end[MOST_PRODUCTS]; /* tasks up to and with each */
    float *scratch;
    int64_t floats; /* of a thread */
    atomic_int_fast64_t next;
} product_run;

static void work(void *arg, int64_t thread) {
    product_run *r = arg;
    float *scratch = r->scratch + thread * r->floats;
    int i = 0;
    for (int64_t task; (task = atomic_fetch_add_explicit(&r->next, 1, memory_order_relaxed)) < r->end[r->count - 1];) {
        while (task >= r->end[i])
            i++;
        const gyre_product *p = &r->products[i];
        const int64_t outputs = task_outputs(p->w, p->rows), first = (task - (i > 0 ? r->end[i - 1] : 0)) * outputs;
        const int64_t n = p->w->out - first < outputs ? p->w->out - first : outputs;
        (p->rows <= FEW_ROWS ? few_task : many_task)(p, r->kernels, first, n, scratch);
    }
}

static void run_some(const gyre_product *products, int count, const gyre_kernels *kernels, float *scratch,
                     const gyre_exec *exec) {
    product_run r = {.products = products, .kernels = kernels, .count = count, .scratch = scratch};
    int64_t tasks = 0;
    for (int i = 0; i < count; i++) {
        const int64_t floats = gyre_product_scratch(products[i].w, products[i].rows, 1);
        if (floats > r.floats) r.floats = floats;
        r.end[i] = tasks += task_count(&products[i]);
    }
    const int64_t width = gyre_exec_width(exec);
    atomic_init(&r.next, 0);
    gyre_parallel(exec, work, &r, width < tasks ? width : tasks);
}

void gyre_products_run(const gyre_product *products, int count, const gyre_kernels *kernels, float *scratch,
                       const gyre_exec *exec) {
    for (int i = 0, n; i < count; i += n) {
        n = count - i < MOST_PRODUCTS ? count - i : MOST_PRODUCTS;
        run_some(products + i, n, kernels, scratch, exec);
    }
}
void gyre_product_run(const gyre_product *product, const gyre_kernels *kernels, float *scratch, const gyre_exec *exec) {
    gyre_products_run(product, 1, kernels, scratch, exec);
}
