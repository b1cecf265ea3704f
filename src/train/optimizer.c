#include "train/optimizer.h"
#include "model/layers.h"
#include <math.h>
#include <stdlib.h>

enum { PIECE = 16384 };
static const double BETA1 = 0.9, BETA2 = 0.95, EPSILON = 1e-8;

static int64_t count_of(const gyre_tensor *t) {
    return t->shape[0] * t->shape[1];
}

static gyre_status cut_pieces(gyre_optimizer *o, const gyre_weight_layout *layout) {
    const int64_t tensors = gyre_tensor_count(layout);
    for (int64_t i = 0; i < tensors; i++) {
        const gyre_tensor t = gyre_tensor_at(layout, i);
        o->pieces_count += (count_of(&t) + PIECE - 1) / PIECE;
    }
    o->pieces = calloc((size_t)o->pieces_count, sizeof *o->pieces);
    o->squares = calloc((size_t)o->pieces_count, sizeof *o->squares);
    if (!o->pieces || !o->squares) return GYRE_ENOMEM;
    gyre_piece *piece = o->pieces;
    for (int64_t i = 0; i < tensors; i++) {
        const gyre_tensor t = gyre_tensor_at(layout, i);
        const int64_t count = count_of(&t);
        for (int64_t from = 0; from < count; from += PIECE)
            *piece++ = (gyre_piece){t.offset + from, count - from < PIECE ? count - from : PIECE, t.decays};
    }
    return GYRE_OK;
}

/* The bounds of a tensor into `out`, or, where that is NULL, how many there are. */
static int64_t read_bounds(const gyre_model *model, const gyre_tensor *t, gyre_bound *out) {
    const int64_t rows = t->table >= 0 ? model->encoding->table[t->table].rows : 0;
    int64_t found = 0;
    for (int64_t i = 0; rows > 0 && i < count_of(t); i++) {
        const int64_t row = i / t->shape[1];
        gyre_table_entry entry;
        if (gyre_encoding_table_entry(model->encoding, (gyre_table)t->table, row / rows, row % rows, i % t->shape[1],
                                      &entry) != GYRE_OK)
            continue;
        if (entry.least == -INFINITY && entry.most == INFINITY) continue;
        if (out) out[found] = (gyre_bound){t->offset + i, (float)entry.least, (float)entry.most};
        found++;
    }
    return found;
}

static gyre_status list_bounds(gyre_optimizer *o, const gyre_model *model) {
    for (int pass = 0; pass < 2; pass++) {
        int64_t found = 0;
        for (int64_t i = 0; i < gyre_tensor_count(&model->layout); i++) {
            const gyre_tensor t = gyre_tensor_at(&model->layout, i);
            found += read_bounds(model, &t, pass ? o->bounds + found : NULL);
        }
        if (pass || found == 0) break;
        o->bounds_count = found;
        o->bounds = calloc((size_t)found, sizeof *o->bounds);
        if (!o->bounds) return GYRE_ENOMEM;
    }
    return GYRE_OK;
}

gyre_status gyre_optimizer_create(gyre_optimizer *o, const gyre_model *model) {
    *o = (gyre_optimizer){.count = model->count};
    gyre_status status = cut_pieces(o, &model->layout);
    if (status == GYRE_OK) status = list_bounds(o, model);
    if (status != GYRE_OK) return status;
    o->first = gyre_floats(o->count);
    o->second = gyre_floats(o->count);
    return o->first && o->second ? GYRE_OK : GYRE_ENOMEM;
}

void gyre_optimizer_free(gyre_optimizer *o) {
    free(o->pieces);
    free(o->squares);
    free(o->bounds);
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
    for (int64_t i = 0; i < o->bounds_count; i++) {
        const gyre_bound *b = &o->bounds[i];
        float *w = update->weights + b->offset;
        *w = *w < b->least ? b->least : *w > b->most ? b->most : *w;
    }
}
