#include "train/optimizer.h"
#include "core/exec.h"
#include "model/ops/float_buffer.h"
#include <math.h>
#include <stdlib.h>

enum { CHUNK = 16384 };
static const double BETA1 = 0.9, BETA2 = 0.95, EPSILON = 1e-8;

static int64_t count_of(const gyre_tensor *t) {
    return t->shape[0] * t->shape[1];
}

static gyre_status split_chunks(gyre_optimizer *o, const gyre_weight_layout *layout) {
    const int64_t tensors = gyre_tensor_count(layout);
    for (int64_t i = 0; i < tensors; i++) {
        const gyre_tensor t = gyre_tensor_at(layout, i);
        o->chunk_count += (count_of(&t) + CHUNK - 1) / CHUNK;
    }
    o->chunks = calloc((size_t)o->chunk_count, sizeof *o->chunks);
    o->squared_norms = calloc((size_t)o->chunk_count, sizeof *o->squared_norms);
    if (!o->chunks || !o->squared_norms) return GYRE_ENOMEM;
    gyre_weight_chunk *chunk = o->chunks;
    for (int64_t i = 0; i < tensors; i++) {
        const gyre_tensor t = gyre_tensor_at(layout, i);
        const int64_t count = count_of(&t);
        for (int64_t from = 0; from < count; from += CHUNK)
            *chunk++ = (gyre_weight_chunk){t.offset + from, count - from < CHUNK ? count - from : CHUNK, t.has_weight_decay};
    }
    return GYRE_OK;
}

static int64_t part_bounds(const gyre_tensor *t, gyre_weight_bound *out) {
    if (t->part->minimum == t->part->maximum) return 0;
    for (int64_t i = 0; out && i < count_of(t); i++)
        out[i] = (gyre_weight_bound){t->offset + i, t->part->minimum, t->part->maximum};
    return count_of(t);
}

/* Writes the bounds of a tensor to `out`, unless that is NULL.  Returns their number. */
static int64_t tensor_bounds(const gyre_model *model, const gyre_tensor *t, gyre_weight_bound *out) {
    const int64_t rows = t->table >= 0 ? model->encoding->table[t->table].rows : 0;
    int64_t found = 0;
    if (t->part) return part_bounds(t, out);
    for (int64_t i = 0; rows > 0 && i < count_of(t); i++) {
        const int64_t row = i / t->shape[1];
        gyre_table_entry entry;
        if (gyre_encoding_table_entry(model->encoding, (gyre_table)t->table, row / rows, row % rows, i % t->shape[1],
                                      &entry))
            continue;
        if (entry.minimum == -INFINITY && entry.maximum == INFINITY) continue;
        if (out) out[found] = (gyre_weight_bound){t->offset + i, (float)entry.minimum, (float)entry.maximum};
        found++;
    }
    return found;
}

static gyre_status list_bounds(gyre_optimizer *o, const gyre_model *model) {
    for (int pass = 0; pass < 2; pass++) {
        int64_t found = 0;
        for (int64_t i = 0; i < gyre_tensor_count(&model->layout); i++) {
            const gyre_tensor t = gyre_tensor_at(&model->layout, i);
            found += tensor_bounds(model, &t, pass ? o->bounds + found : NULL);
        }
        if (pass || found == 0) break;
        o->bounds_count = found;
        o->bounds = calloc((size_t)found, sizeof *o->bounds);
        if (!o->bounds) return GYRE_ENOMEM;
    }
    return GYRE_OK;
}

gyre_status gyre_optimizer_create(gyre_optimizer *o, const gyre_model *model) {
    *o = (gyre_optimizer){.weight_count = model->weight_count};
    gyre_status status = split_chunks(o, &model->layout);
    if (!status) status = list_bounds(o, model);
    if (status) return status;
    o->first_moment = gyre_alloc_floats(o->weight_count);
    o->second_moment = gyre_alloc_floats(o->weight_count);
    return o->first_moment && o->second_moment ? GYRE_OK : GYRE_ENOMEM;
}

void gyre_optimizer_free(gyre_optimizer *o) {
    free(o->chunks);
    free(o->squared_norms);
    free(o->bounds);
    free(o->first_moment);
    free(o->second_moment);
    *o = (gyre_optimizer){0};
}

typedef struct job {
    gyre_optimizer *optimizer;
    const gyre_adamw_args *update;
    double grad_scale;
} job;

static void sum_gradients(void *arg, int64_t index) {
    const job *j = arg;
    const gyre_weight_chunk *p = &j->optimizer->chunks[index];
    float *restrict sum = j->update->gradients + p->offset;
    for (int64_t g = 1; g < j->update->groups; g++) {
        const float *more = sum + g * j->optimizer->weight_count;
        for (int64_t i = 0; i < p->count; i++)
            sum[i] += more[i];
    }
    double squares = 0;
    for (int64_t i = 0; i < p->count; i++)
        squares += (double)sum[i] * (double)sum[i];
    j->optimizer->squared_norms[index] = squares;
}

static void update_chunk(void *arg, int64_t index) {
    const job *j = arg;
    const gyre_adamw_args *u = j->update;
    const gyre_weight_chunk *p = &j->optimizer->chunks[index];
    const float *g = u->gradients + p->offset;
    float *restrict w = u->weights + p->offset;
    float *restrict m = j->optimizer->first_moment + p->offset, *restrict v = j->optimizer->second_moment + p->offset;
    const float b1 = (float)BETA1, b2 = (float)BETA2, grad_scale = (float)j->grad_scale, epsilon = (float)EPSILON;
    const float rate = (float)(u->learning_rate / (1 - pow(BETA1, (double)u->step)));
    const float bias_correction2 = (float)(1 / (1 - pow(BETA2, (double)u->step)));
    const float decay_factor = p->has_weight_decay ? (float)(1 - u->learning_rate * u->weight_decay) : 1;
    for (int64_t i = 0; i < p->count; i++) {
        const float gi = g[i] * grad_scale;
        m[i] = b1 * m[i] + (1 - b1) * gi;
        v[i] = b2 * v[i] + (1 - b2) * gi * gi;
        w[i] = w[i] * decay_factor - rate * m[i] / (sqrtf(v[i] * bias_correction2) + epsilon);
    }
}

void gyre_optimizer_step(gyre_optimizer *o, const gyre_adamw_args *update, const gyre_exec *exec, double *norm) {
    job j = {o, update, 1};
    double squares = 0;
    gyre_parallel(exec, sum_gradients, &j, o->chunk_count);
    for (int64_t i = 0; i < o->chunk_count; i++)
        squares += o->squared_norms[i];
    *norm = sqrt(squares);
    if (!isfinite(*norm)) return;
    if (update->clip > 0 && *norm > update->clip) j.grad_scale = update->clip / *norm;
    gyre_parallel(exec, update_chunk, &j, o->chunk_count);
    for (int64_t i = 0; i < o->bounds_count; i++) {
        const gyre_weight_bound *b = &o->bounds[i];
        float *w = update->weights + b->offset;
        *w = *w < b->minimum ? b->minimum : *w > b->maximum ? b->maximum : *w;
    }
}
