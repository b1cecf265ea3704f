#include "model/overflow.h"

#include "model/weights/network_weights.h"
#include "util/error.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* -- the ordinary pass -- */
static int is_finite(const gyre_kernels *kernels, const float *x, int64_t n) {
    enum { LANES = 16 }; /* finite_row_f32 takes multiples of it */
    const int64_t whole = n / LANES * LANES;
    int finite = 1;
    if (whole) kernels->finite_row_f32(x, whole, &finite);
    for (int64_t i = whole; i < n; i++)
        finite &= isfinite(x[i]) != 0;
    return finite;
}

int gyre_decoder_is_finite(const gyre_decoder *d, int64_t rows, const float *results, int64_t count) {
    const gyre_architecture *a = &d->net->arch;
    const gyre_network_layer *last = &d->net->layer[a->layers - 1];
    const int64_t written = last->keys_of == a->layers - 1 ? gyre_network_qkv_dim(last) : last->q.count * last->q.channels;
    int finite = is_finite(d->kernels, d->buffers.x, rows * a->model_dim) && is_finite(d->kernels, results, count);
    for (int64_t row = 0; row < rows && finite && written < d->qkv_dim; row++)
        finite = is_finite(d->kernels, d->buffers.qkv + row * d->qkv_dim, written);
    return finite && (written < d->qkv_dim || is_finite(d->kernels, d->buffers.qkv, rows * d->qkv_dim));
}

/* -- the pass that looks after each step -- */
/* out = the largest magnitude of a row; infinity for one that is not finite. */
static double largest(const gyre_view *x, int64_t row) {
    double most = 0;
    for (int64_t h = 0; h < x->shape[2]; h++)
        for (int64_t c = 0; c < x->shape[3]; c++) {
            const float value = ((const float *)x->data)[row * x->stride[1] + h * x->stride[2] + c];
            if (!isfinite(value)) return INFINITY;
            most = fmax(most, fabs((double)value));
        }
    return most;
}

/* out = 1 if the result is that of the first row so far; its step is then found->what. */
static int look_at(const gyre_decoder *d, int64_t layer, const gyre_view *x, const char *what, gyre_tensor_role role) {
    gyre_overflow *found = d->overflow;
    const int64_t before = found->row - found->first;
    const int64_t end = found->what && before < x->shape[1] ? before : x->shape[1];
    for (int64_t r = 0; r < end; r++)
        if (isinf(largest(x, r))) {
            *found = (gyre_overflow){what, role, layer, found->first + r, found->first, found->refused};
            return 1;
        }
    return 0;
}

static int look_at_rows(const gyre_decoder *d, int64_t layer, const float *x, int64_t rows, int64_t width, const char *what,
                        gyre_tensor_role role) {
    const gyre_view view = gyre_dense((void *)x, GYRE_DTYPE_F32, 1, rows, 1, width);
    return look_at(d, layer, &view, what, role);
}

static gyre_view part_of_gate_up(const gyre_decoder *d, int64_t layer, int64_t rows, int part) {
    const int64_t dim = d->net->layer[layer].mlp_dim;
    gyre_view view = gyre_dense(d->buffers.gate_up + part * dim, GYRE_DTYPE_F32, 1, rows, 1, dim);
    view.stride[1] = (d->net->arch.gated ? 2 : 1) * dim;
    return view;
}

/* A fused matrix has the role of all that it makes. */
static gyre_tensor_role fused_or(const gyre_decoder *d, int64_t layer, gyre_tensor_role fused, gyre_tensor_role own) {
    char name[GYRE_TENSOR_NAME];
    const gyre_tensor_store *store = d->net->store;
    const int is_fused = store && gyre_network_tensor_name(d->net, fused, layer, ".weight", name) &&
                         gyre_network_find_tensor(store, name) >= 0;
    return is_fused ? fused : own;
}

static void look_at_projections(const gyre_decoder *d, int64_t layer, int64_t rows, int normed) {
    static const struct {
        const char *projected, *normed;
        gyre_tensor_role role, norm;
    } parts[] = {{"the query projection", "the norm of queries", GYRE_TENSOR_Q, GYRE_TENSOR_QUERY_NORM},
                 {"the key projection", "the norm of keys", GYRE_TENSOR_K, GYRE_TENSOR_KEY_NORM},
                 {"the value projection", NULL, GYRE_TENSOR_V, GYRE_TENSOR_ROLES}};
    static const char *const made[] = {"what the layer's own tensors make of queries",
                                       "what the layer's own tensors make of keys"};
    const gyre_network_layer *l = &d->net->layer[layer];
    const gyre_head_layout *heads[] = {&l->q, &l->k, &l->v};
    const int shares = l->keys_of != layer, has_part = gyre_network_trained_heads(d->net, layer).part != NULL;
    for (int i = 0; i < (shares ? 1 : normed ? 2 : 3); i++) {
        const gyre_view view = gyre_decoder_heads(d, heads[i], rows);
        if (normed && has_part) { /* by several tensors */
            (void)look_at(d, layer, &view, made[i], GYRE_TENSOR_ROLES);
            continue;
        }
        (void)look_at(d, layer, &view, normed ? parts[i].normed : parts[i].projected,
                      normed ? parts[i].norm : fused_or(d, layer, GYRE_TENSOR_QKV, parts[i].role));
    }
}

/* Sums and products of finite queries, keys and values: the tensor behind the largest of them is named. */
static void look_at_attention(const gyre_decoder *d, int64_t layer, int64_t rows) {
    const gyre_architecture *a = &d->net->arch;
    const gyre_network_layer *l = &d->net->layer[layer];
    const gyre_head_layout *heads[] = {&l->q, &l->k, &l->v};
    const int shares = l->keys_of != layer; /* then only queries are here */
    static const gyre_tensor_role roles[] = {GYRE_TENSOR_Q, GYRE_TENSOR_K, GYRE_TENSOR_V};
    double most = -1;
    if (!look_at_rows(d, layer, d->buffers.attn_out, rows, a->heads * l->v.channels, "attention", GYRE_TENSOR_ROLES)) return;
    const int64_t row = d->overflow->row - d->overflow->first;
    for (int i = 0; i < (shares ? 1 : 3); i++) {
        const gyre_view view = gyre_decoder_heads(d, heads[i], rows);
        for (int64_t r = i ? 0 : row; r <= row; r++)
            if (largest(&view, r) > most) {
                most = largest(&view, r);
                d->overflow->role = fused_or(d, layer, GYRE_TENSOR_QKV, roles[i]);
            }
    }
    /* Products of such values are within float: a table of positions or a network of the layer is behind it. */
    if (shares || most * most * (double)l->k.channels > (double)FLT_MAX) return;
    d->overflow->role = GYRE_TENSOR_ROLES;
    d->overflow->what = "attention, by what positions add to it,";
}

static void look_at_mlp(const gyre_decoder *d, int64_t layer, gyre_decoder_step step, int64_t rows) {
    const gyre_architecture *a = &d->net->arch;
    const gyre_view first = part_of_gate_up(d, layer, rows, 0), up = a->gated ? part_of_gate_up(d, layer, rows, 1) : first;
    const gyre_tensor_role gate_role = fused_or(d, layer, GYRE_TENSOR_GATE_UP, GYRE_TENSOR_GATE),
                           up_role = fused_or(d, layer, GYRE_TENSOR_GATE_UP, GYRE_TENSOR_UP);
    if (step == GYRE_STEP_GATE_UP) {
        if (a->gated) (void)look_at(d, layer, &first, "the gate projection", gate_role);
        (void)look_at(d, layer, &up, "the up projection", up_role);
    } else if (look_at_rows(d, layer, d->buffers.mlp_act, rows, d->net->layer[layer].mlp_dim, "the activation of the mlp",
                            up_role)) {
        const int64_t row = d->overflow->row - d->overflow->first;
        if (a->gated && largest(&first, row) > largest(&up, row)) d->overflow->role = gate_role;
    }
}

void gyre_overflow_look(gyre_decoder *d, int64_t layer, gyre_decoder_step step, int64_t rows, const float *logits) {
    const gyre_architecture *a = &d->net->arch;
    const gyre_decoder_buffers *b = &d->buffers;
    const gyre_tensor_role head =
        d->net->lm_head.w.data == d->net->embedding.w.data ? GYRE_TENSOR_EMBEDDING : GYRE_TENSOR_LM_HEAD;
    const struct {
        const float *x;
        const char *what;
        gyre_tensor_role role;
    } rows_of[] = {[GYRE_STEP_EMBEDDING] = {b->x, "the embedding", GYRE_TENSOR_EMBEDDING},
                   [GYRE_STEP_POSITIONS] = {b->x, "the sum of embedding and position", GYRE_TENSOR_ROLES},
                   [GYRE_STEP_ATTN_NORM] = {b->norm, "the norm before attention", GYRE_TENSOR_ATTN_NORM},
                   [GYRE_STEP_ATTN_RESIDUAL] = {b->x, "the residual after attention", GYRE_TENSOR_O},
                   [GYRE_STEP_MLP_NORM] = {b->norm, "the norm before the mlp", GYRE_TENSOR_MLP_NORM},
                   [GYRE_STEP_MLP_RESIDUAL] = {b->x, "the residual after the mlp", GYRE_TENSOR_DOWN},
                   [GYRE_STEP_EXPERTS_RESIDUAL] = {b->x, "the residual after the experts", GYRE_TENSOR_ROLES},
                   [GYRE_STEP_LAYER_END] = {b->x, "the layer's own inputs and scale", GYRE_TENSOR_INPUT_OUT},
                   [GYRE_STEP_FINAL_NORM] = {b->norm, "the final norm", GYRE_TENSOR_FINAL_NORM},
                   [GYRE_STEP_LOGITS] = {logits, "the output projection", head}};
    if (step == GYRE_STEP_PROJECTIONS || step == GYRE_STEP_HEAD_NORMS)
        look_at_projections(d, layer, rows, step == GYRE_STEP_HEAD_NORMS);
    else if (step == GYRE_STEP_ATTENTION)
        look_at_attention(d, layer, rows);
    else if (step == GYRE_STEP_GATE_UP || step == GYRE_STEP_ACTIVATION)
        look_at_mlp(d, layer, step, rows);
    else
        (void)look_at_rows(d, layer, rows_of[step].x, rows, logits ? a->vocab : a->model_dim, rows_of[step].what,
                           rows_of[step].role);
}

gyre_status gyre_overflow_refused(int64_t layer, int64_t tokens, gyre_error *err) {
    const gyre_error why = err ? *err : (gyre_error){0, ""};
    return gyre_fail(err, GYRE_EFORMAT, "cache: layer %lld, after %lld tokens: %s", (long long)layer, (long long)tokens,
                     why.text);
}

gyre_status gyre_overflow_fail(const gyre_decoder *d, const gyre_overflow *found, int64_t tokens, gyre_error *err) {
    char layer[40] = "", name[GYRE_TENSOR_NAME] = "";
    const int has_name = found->what && found->role < GYRE_TENSOR_ROLES &&
                         gyre_network_tensor_name(d->net, found->role, found->layer, ".weight", name);
    if (!found->what) return gyre_fail(err, GYRE_EFORMAT, "logits: not finite (gyre_context_forward)");
    if (found->layer >= 0) snprintf(layer, sizeof layer, " in layer %lld", (long long)found->layer);
    return gyre_fail(err, GYRE_EFORMAT, "logits: not finite: %s overflows first%s, at token %lld (%s)", found->what, layer,
                     (long long)(tokens + found->row), has_name ? name : "gyre_context_forward");
}
