/* experts.c:
 *
 *     router -> logits -> chosen experts and weights of each row
 *     copies of rows, those of an expert together -> gate, up -> activation -> down
 *     y = weighted sums of the copies of a row, in the order of the experts, + the shared expert */
#include "model/parts/experts.h"

#include "core/exec.h"
#include "model/ops/float_buffer.h"

#include <math.h>
#include <string.h>

enum { BATCH = 8, ACTIVATION_ROWS = 32 }; /* products, rows of a task */

/* The parts of scratch.  A copy is a row for one of its experts; a row has `active` copies. */
typedef struct work {
    double *scores;             /* [2 experts] of one row */
    float *logits;              /* [rows][experts] */
    float *weights;             /* [rows][active] */
    int32_t *chosen;            /* [rows][active] */
    int64_t *place;             /* [rows][active] the copy of that row for that expert */
    int64_t *first;             /* [experts + 1] the first copy of an expert */
    float *copies;              /* [rows active][model_dim] inputs of experts, then their outputs */
    float *gate_up, *activated; /* [copies][2 expert_dim], [copies][expert_dim]; or of the shared expert, [rows][...] */
} work;

enum { PARTS = 9 };

static int64_t max_i64(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* Points the parts into `memory`, or counts only if that is NULL.  out = floats needed. */
static int64_t assign(const gyre_mixture *m, int64_t model_dim, int64_t rows, float *memory, work *w) {
    const gyre_routing *r = &m->routing;
    const int64_t copies = rows * r->active, hidden = max_i64(copies * m->expert_dim, rows * m->shared_dim);
    float *parts[PARTS];
    const int64_t sizes[PARTS] = {4 * r->experts,     rows * r->experts,  copies,     copies, 2 * copies,
                                  2 * r->experts + 2, copies * model_dim, 2 * hidden, hidden};
    int64_t sum = 0;
    for (int i = 0; i < PARTS; i++) {
        parts[i] = memory ? memory + sum : NULL;
        sum += gyre_round_up_floats(sizes[i]);
    }
    /* Memory of malloc without a type: parts of 64 bytes each hold one type of numbers. */
    *w = (work){(void *)parts[0], parts[1], parts[2], (void *)parts[3], (void *)parts[4],
                (void *)parts[5], parts[6], parts[7], parts[8]};
    return sum;
}

int64_t gyre_experts_scratch(const gyre_mixture *m, int64_t model_dim, int64_t rows) {
    work w;
    return m->routing.experts > 0 ? assign(m, model_dim, rows, NULL, &w) : 0;
}

int64_t gyre_experts_gemm_scratch(const gyre_mixture *m, const gyre_experts *e, int64_t rows, int concurrency) {
    enum { SHARED = 5 };
    const gyre_affine *const shared[SHARED] = {&e->router, &e->shared.gate, &e->shared.up, &e->shared.down,
                                               &e->shared_switch};
    int64_t max = 0;
    for (int i = 0; i < SHARED; i++)
        max = max_i64(max, gyre_gemm_scratch(&shared[i]->w, rows, concurrency));
    for (int64_t i = 0; e->expert && i < m->routing.experts; i++) {
        const gyre_affine *const maps[] = {&e->expert[i].gate, &e->expert[i].up, &e->expert[i].down};
        for (int j = 0; j < 3; j++)
            max = max_i64(max, gyre_gemm_scratch(&maps[j]->w, rows, concurrency));
    }
    return max;
}

/* -- choosing -- */
static void run_one(const gyre_experts_call *c, const gyre_affine *map, const float *x, float *y, int accumulate) {
    const gyre_gemm gemm = {&map->w, map->bias, x, y, c->rows, map->w.in, map->w.out, accumulate};
    gyre_gemm_run(&gemm, c->kernels, c->gemm_scratch, c->exec);
}

static void route(const gyre_experts_call *c, const work *w) {
    const gyre_routing *r = &c->mixture->routing;
    run_one(c, &c->experts->router, c->routed ? c->routed : c->x, w->logits, 0);
    memset(w->first, 0, (size_t)(r->experts + 1) * sizeof *w->first);
    for (int64_t row = 0; row < c->rows; row++) {
        int32_t *chosen = w->chosen + row * r->active;
        gyre_route(r, w->logits + row * r->experts, c->experts->choice_bias, w->scores, chosen,
                   w->weights + row * r->active);
        for (int64_t n = 0; n < r->active; n++) {
            w->place[row * r->active + n] = w->first[chosen[n] + 1]++;
            if (c->experts->scales) w->weights[row * r->active + n] *= c->experts->scales[chosen[n]];
        }
    }
    for (int64_t i = 0; i < r->experts; i++)
        w->first[i + 1] += w->first[i];
    for (int64_t i = 0; i < c->rows * r->active; i++)
        w->place[i] += w->first[w->chosen[i]];
}

static void copy_rows(const gyre_experts_call *c, const work *w) {
    const int64_t active = c->mixture->routing.active, dim = c->model_dim;
    for (int64_t i = 0; i < c->rows * active; i++) {
        const float *x = c->x + i / active * dim, weight = c->mixture->weighs_input ? w->weights[i] : 1;
        float *copy = w->copies + w->place[i] * dim;
        for (int64_t n = 0; n < dim; n++)
            copy[n] = x[n] * weight;
    }
}

/* -- experts -- */
typedef struct batch {
    const gyre_experts_call *call;
    gyre_gemm gemm[BATCH];
    int count;
} batch;

static void flush(batch *b) {
    gyre_gemm_run_many(b->gemm, b->count, b->call->kernels, b->call->gemm_scratch, b->call->exec);
    b->count = 0;
}

static void add(batch *b, const gyre_gemm *gemm) {
    if (b->count == BATCH) flush(b);
    b->gemm[b->count++] = *gemm;
}

static void run_gates_and_ups(const gyre_experts_call *c, const work *w) {
    const int64_t dim = c->mixture->expert_dim;
    batch b = {.call = c};
    for (int64_t i = 0; i < c->mixture->routing.experts; i++) {
        const gyre_expert *e = &c->experts->expert[i];
        const int64_t first = w->first[i], rows = w->first[i + 1] - first;
        const float *x = w->copies + first * c->model_dim;
        float *y = w->gate_up + first * 2 * dim;
        if (!rows) continue;
        add(&b, &(gyre_gemm){&e->gate.w, e->gate.bias, x, y, rows, c->model_dim, 2 * dim, 0});
        add(&b, &(gyre_gemm){&e->up.w, e->up.bias, x, y + dim, rows, c->model_dim, 2 * dim, 0});
    }
    flush(&b);
}

static void run_downs(const gyre_experts_call *c, const work *w) {
    const int64_t dim = c->mixture->expert_dim;
    batch b = {.call = c};
    for (int64_t i = 0; i < c->mixture->routing.experts; i++) {
        const gyre_affine *down = &c->experts->expert[i].down;
        const int64_t first = w->first[i], rows = w->first[i + 1] - first;
        if (rows)
            add(&b, &(gyre_gemm){&down->w, down->bias, w->activated + first * dim, w->copies + first * c->model_dim, rows,
                                 dim, c->model_dim, 0});
    }
    flush(&b);
}

typedef struct activation_job {
    const gyre_experts_call *call;
    const work *w;
    int64_t rows, dim;
} activation_job;

static void activate_rows(void *arg, int64_t i) {
    const activation_job *job = arg;
    const int64_t first = i * ACTIVATION_ROWS, left = job->rows - first;
    gyre_activate(job->call->kernels, job->call->activation, 1, left < ACTIVATION_ROWS ? left : ACTIVATION_ROWS, job->dim,
                  job->w->gate_up + first * 2 * job->dim, job->w->activated + first * job->dim);
}

static void activate(const gyre_experts_call *c, const work *w, int64_t rows, int64_t dim) {
    activation_job job = {c, w, rows, dim};
    gyre_parallel(c->exec, activate_rows, &job, (rows + ACTIVATION_ROWS - 1) / ACTIVATION_ROWS);
}

static void sum_outputs(const gyre_experts_call *c, const work *w) {
    const int64_t active = c->mixture->routing.active, dim = c->model_dim;
    memset(c->y, 0, (size_t)(c->rows * dim) * sizeof *c->y);
    for (int64_t i = 0; i < c->rows * active; i++) {
        const float *out = w->copies + w->place[i] * dim, weight = c->mixture->weighs_input ? 1 : w->weights[i];
        float *y = c->y + i / active * dim;
        for (int64_t n = 0; n < dim; n++)
            y[n] += weight * out[n];
    }
}

static void add_shared(const gyre_experts_call *c, const work *w) {
    const gyre_experts *e = c->experts;
    const int64_t dim = c->mixture->shared_dim;
    const gyre_gemm inputs[2] = {
        {&e->shared.gate.w, e->shared.gate.bias, c->x, w->gate_up, c->rows, c->model_dim, 2 * dim, 0},
        {&e->shared.up.w, e->shared.up.bias, c->x, w->gate_up + dim, c->rows, c->model_dim, 2 * dim, 0}};
    gyre_gemm_run_many(inputs, 2, c->kernels, c->gemm_scratch, c->exec);
    activate(c, w, c->rows, dim);
    if (!e->shared_switch.w.out) {
        run_one(c, &e->shared.down, w->activated, c->y, 1);
        return;
    }
    run_one(c, &e->shared.down, w->activated, w->copies, 0);
    run_one(c, &e->shared_switch, c->x, w->logits, 0);
    for (int64_t row = 0; row < c->rows; row++) {
        const float weight = (float)(1 / (1 + exp(-(double)w->logits[row])));
        for (int64_t n = 0; n < c->model_dim; n++)
            c->y[row * c->model_dim + n] += weight * w->copies[row * c->model_dim + n];
    }
}

void gyre_experts_run(const gyre_experts_call *c) {
    work w;
    (void)assign(c->mixture, c->model_dim, c->rows, c->scratch, &w);
    route(c, &w);
    copy_rows(c, &w);
    run_gates_and_ups(c, &w);
    activate(c, &w, c->rows * c->mixture->routing.active, c->mixture->expert_dim);
    run_downs(c, &w);
    sum_outputs(c, &w);
    if (c->experts->shared.down.w.out) add_shared(c, &w);
}
