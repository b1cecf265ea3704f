#include "train/optimizer.h"
#include "model/layers.h"
#include <math.h>
#include <stdlib.h>

enum { PIECE = 16384 };
static const double BETA1 = 0.9, BETA2 = 0.95, EPSILON = 1e-8;

static int64_t pieces_of(const gyre_tensor *t) {
    return (t->shape[0] * (t->rank > 1 ? t->shape[1] : 1) + PIECE - 1) / PIECE;
}

gyre_status gyre_optimizer_create(gyre_optimizer *o, const gyre_model_config *config) {
    *o = (gyre_optimizer){.count = gyre_weight_count(config)};
    const int64_t tensors = gyre_tensor_count(config);
    for (int64_t i = 0; i < tensors; i++) {
        const gyre_tensor t = gyre_tensor_at(config, i);
        o->pieces_count += pieces_of(&t);
    }
    o->pieces = calloc((size_t)o->pieces_count, sizeof *o->pieces);
    o->squares = calloc((size_t)o->pieces_count, sizeof *o->squares);
    o->first = gyre_floats(o->count);
    o->second = gyre_floats(o->count);
    if (!o->pieces || !o->squares || !o->first || !o->second) return GYRE_ENOMEM;
    gyre_piece *piece = o->pieces;
    for (int64_t i = 0; i < tensors; i++) {
        const gyre_tensor t = gyre_tensor_at(config, i);
        const int64_t count = t.shape[0] * (t.rank > 1 ? t.shape[1] : 1);
        for (int64_t from = 0; from < count; from += PIECE)
            *piece++ = (gyre_piece){t.offset + from, count - from < PIECE ? count - from : PIECE, t.rank > 1};
    }
    return GYRE_OK;
}

void gyre_optimizer_free(gyre_optimizer *o) {
    free(o->pieces);
    free(o->squares);
    free(o->first);
    free(o->second);
    *o = (gyre_optimizer){0};
}

typedef struct job {
    gyre_optimizer *optimizer;
    const gyre_update *update;
    double shrink;
} job;

static void add_groups(void *arg, int64_t index) {
    const job *j = arg;
    const gyre_piece *p = &j->optimizer->pieces[index];
    float *restrict sum = j->update->gradients + p->offset;
    for (int64_t g = 1; g < j->update->groups; g++) {
        const float *more = sum + g * j->optimizer->count;
        for (int64_t i = 0; i < p->count; i++)
            sum[i] += more[i];
    }
    double squares = 0;
    for (int64_t i = 0; i < p->count; i++)
        squares += (double)sum[i] * (double)sum[i];
    j->optimizer->squares[index] = squares;
}

static void move_piece(void *arg, int64_t index) {
    const job *j = arg;
    const gyre_update *u = j->update;
    const gyre_piece *p = &j->optimizer->pieces[index];
    const float *g = u->gradients + p->offset;
    float *restrict w = u->weights + p->offset;
    float *restrict m = j->optimizer->first + p->offset, *restrict v = j->optimizer->second + p->offset;
    const float b1 = (float)BETA1, b2 = (float)BETA2, shrink = (float)j->shrink, epsilon = (float)EPSILON;
    const float rate = (float)(u->rate / (1 - pow(BETA1, (double)u->step)));
    const float unbias = (float)(1 / (1 - pow(BETA2, (double)u->step)));
    const float keep = p->decays ? (float)(1 - u->rate * u->decay) : 1;
    for (int64_t i = 0; i < p->count; i++) {
        const float gi = g[i] * shrink;
        m[i] = b1 * m[i] + (1 - b1) * gi;
        v[i] = b2 * v[i] + (1 - b2) * gi * gi;
        w[i] = w[i] * keep - rate * m[i] / (sqrtf(v[i] * unbias) + epsilon);
    }
}

void gyre_optimizer_step(gyre_optimizer *o, const gyre_update *update, const gyre_exec *exec, double *norm) {
    job j = {o, update, 1};
    double squares = 0;
    gyre_parallel(exec, add_groups, &j, o->pieces_count);
    for (int64_t i = 0; i < o->pieces_count; i++)
        squares += o->squares[i];
    *norm = sqrt(squares);
    if (!isfinite(*norm)) return;
    if (update->clip > 0 && *norm > update->clip) j.shrink = update->clip / *norm;
    gyre_parallel(exec, move_piece, &j, o->pieces_count);
}
