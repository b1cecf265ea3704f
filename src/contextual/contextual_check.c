/* contextual_check.c: all that a call must satisfy. */
#include "contextual/contextual_check.h"
#include "contextual/contextual_plan.h"
#include "core/sized.h"
#include "core/view.h"
#include "util/error.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>

enum { MAX_CHANNELS = 65536, MAX_POSITIONS = 1 << 24 };

/* A view of a call, with its name. */
typedef struct named_view {
    const char *name;
    gyre_cview view;
} named_view;

gyre_status gyre_contextual_args_read(gyre_contextual_args *args, const gyre_contextual_args *given, gyre_error *err) {
    const gyre_status status = gyre_sized_read(args, sizeof *args, given, "gyre_contextual_args", err);
    if (status) return status;
    const double usual = 1 / sqrt((double)(args->q.shape[3] > 0 ? args->q.shape[3] : 1));
    if (args->scale == 0) args->scale = usual;
    if (args->gate_scale == 0) args->gate_scale = usual;
    if (args->position_scale == 0) args->position_scale = 1;
    return GYRE_OK;
}

/* -- types, shapes and numbers -- */

static gyre_status check_type(gyre_dtype dtype, int wide_alone, const char *name, const char *where, gyre_error *err) {
    const int fits = wide_alone ? dtype == GYRE_DTYPE_F32 || dtype == GYRE_DTYPE_F64 : gyre_is_real(dtype);
    return fits ? GYRE_OK
                : gyre_fail(err, GYRE_EDTYPE, "%s: element type %s is not %s (%s)", name, gyre_dtype_text(dtype),
                            wide_alone ? "F32 or F64" : "F32, F16, BF16 or F64", where);
}

/* No tokens are fine, no heads and no positions are not. */
static gyre_status check_extents(const int64_t shape[4], int64_t most_tokens, int64_t least_tokens, const char *name,
                                 const char *where, gyre_error *err) {
    for (int i = 0; i < 4; i++) {
        const int64_t least = i == 0 ? 0 : i == 1 ? least_tokens : 1;
        const int64_t most = i == 3 ? MAX_CHANNELS : i == 1 ? most_tokens : INT32_MAX;
        if (shape[i] < least || shape[i] > most)
            return gyre_fail(err, GYRE_ESHAPE, "%s: shape[%d] = %" PRId64 " is not in %" PRId64 " .. %" PRId64 " (%s)", name,
                             i, shape[i], least, most, where);
    }
    if (gyre_view_elements(shape) < 0)
        return gyre_fail(err, GYRE_ESHAPE, "%s: more elements than can be counted (%s)", name, where);
    return GYRE_OK;
}

static gyre_status check_inputs(const gyre_contextual_args *args, const char *where, gyre_error *err) {
    const named_view inputs[] = {{"q", args->q}, {"k", args->k}, {"v", args->v}};
    for (int i = 0; i < 3; i++) {
        gyre_status status = check_type(inputs[i].view.dtype, 0, inputs[i].name, where, err);
        if (!status) status = check_extents(inputs[i].view.shape, INT32_MAX, 0, inputs[i].name, where, err);
        if (status) return status;
    }
    gyre_status status = GYRE_OK;
    if (args->gate_keys.data) status = check_type(args->gate_keys.dtype, 0, "gate_keys", where, err);
    if (args->gate_keys.data && !status)
        status = gyre_shape_check(args->gate_keys.shape, args->k.shape, "gate_keys", where, err);
    if (!status) status = check_type(args->embeddings.dtype, 0, "embeddings", where, err);
    return status ? status : check_extents(args->embeddings.shape, MAX_POSITIONS, 1, "embeddings", where, err);
}

static gyre_status check_agreement(const gyre_contextual_args *args, const char *where, gyre_error *err) {
    const int64_t *q = args->q.shape, *k = args->k.shape, *e = args->embeddings.shape;
    const int64_t keys[4] = {q[0], k[1], k[2], q[3]}, values[4] = {k[0], k[1], k[2], args->v.shape[3]};
    if (q[2] % k[2] != 0)
        return gyre_fail(err, GYRE_ESHAPE, "q: %" PRId64 " heads are not a multiple of the %" PRId64 " key heads (%s)", q[2],
                         k[2], where);
    gyre_status status = gyre_shape_check(k, keys, "k", where, err);
    if (!status) status = gyre_shape_check(args->v.shape, values, "v", where, err);
    const int64_t wanted[4] = {1, e[1], e[2] == 1 ? 1 : q[2], q[3]};
    return status ? status : gyre_shape_check(e, wanted, "embeddings", where, err);
}

static gyre_status check_scales(const gyre_contextual_args *args, const char *where, gyre_error *err) {
    const struct {
        const char *name;
        double value;
    } scales[] = {{"scale", args->scale}, {"gate_scale", args->gate_scale}, {"position_scale", args->position_scale}};
    for (int i = 0; i < 3; i++)
        if (!(fabs(scales[i].value) <= (double)FLT_MAX))
            return gyre_fail(err, GYRE_EINVAL, "%s: %g is not finite as a float (%s)", scales[i].name, scales[i].value,
                             where);
    return GYRE_OK;
}

/* -- packed batches and padding -- */

static gyre_status check_starts(const int64_t *starts, int64_t sequences, int64_t tokens, const char *name,
                                const char *where, gyre_error *err) {
    if (starts[0] != 0) return gyre_fail(err, GYRE_EINVAL, "%s[0]: %" PRId64 " is not 0 (%s)", name, starts[0], where);
    for (int64_t s = 0; s < sequences; s++)
        if (starts[s] > starts[s + 1])
            return gyre_fail(err, GYRE_EINVAL, "%s[%" PRId64 "]: %" PRId64 " is below %" PRId64 " before it (%s)", name,
                             s + 1, starts[s + 1], starts[s], where);
    if (starts[sequences] != tokens)
        return gyre_fail(err, GYRE_EINVAL, "%s[%" PRId64 "]: %" PRId64 " is not the number of tokens, %" PRId64 " (%s)",
                         name, sequences, starts[sequences], tokens, where);
    return GYRE_OK;
}

static gyre_status check_packing(const gyre_contextual_args *args, const char *where, gyre_error *err) {
    if (!args->q_starts != !args->k_starts)
        return gyre_fail(err, GYRE_EINVAL, "%s: is NULL, but %s is not (%s)", args->q_starts ? "k_starts" : "q_starts",
                         args->q_starts ? "q_starts" : "k_starts", where);
    if (!args->q_starts) return GYRE_OK;
    if (args->q.shape[0] != 1)
        return gyre_fail(err, GYRE_ESHAPE, "q: %" PRId64 " batch rows, but a packed batch has 1 (%s)", args->q.shape[0],
                         where);
    if (args->sequences < 1)
        return gyre_fail(err, GYRE_EINVAL, "sequences: %" PRId64 " is below 1, but q_starts is set (%s)", args->sequences,
                         where);
    const gyre_status status = check_starts(args->q_starts, args->sequences, args->q.shape[1], "q_starts", where, err);
    return status ? status : check_starts(args->k_starts, args->sequences, args->k.shape[1], "k_starts", where, err);
}

static gyre_status check_padding(const gyre_contextual_args *args, const char *where, gyre_error *err) {
    const int64_t sequences = args->k_first || args->k_end ? gyre_contextual_sequences(args) : 0;
    for (int64_t s = 0; s < sequences; s++) {
        const int64_t keys = args->k_starts ? args->k_starts[s + 1] - args->k_starts[s] : args->k.shape[1];
        const int64_t first = args->k_first ? args->k_first[s] : 0, end = args->k_end ? args->k_end[s] : keys;
        if (first < 0 || first > end || end > keys)
            return gyre_fail(err, GYRE_EINVAL,
                             "k_first, k_end: keys %" PRId64 " .. %" PRId64 " of sequence %" PRId64 ", which has %" PRId64
                             " keys (%s)",
                             first, end, s, keys, where);
    }
    return GYRE_OK;
}

gyre_status gyre_contextual_check_shapes(const gyre_contextual_args *args, const char *where, gyre_error *err) {
    gyre_status status = check_inputs(args, where, err);
    if (!status) status = check_agreement(args, where, err);
    if (!status) status = check_scales(args, where, err);
    return status ? status : check_packing(args, where, err);
}

/* -- memory -- */

static int inputs_of(const gyre_contextual_args *args, named_view inputs[5]) {
    inputs[0] = (named_view){"q", args->q};
    inputs[1] = (named_view){"k", args->k};
    inputs[2] = (named_view){"v", args->v};
    inputs[3] = (named_view){"embeddings", args->embeddings};
    inputs[4] = (named_view){"gate_keys", args->gate_keys};
    return args->gate_keys.data ? 5 : 4;
}

static gyre_status check_apart(const gyre_view *output, const char *name, const named_view *others, int count,
                               const char *where, gyre_error *err) {
    const gyre_cview own = gyre_const(*output);
    for (int i = 0; i < count; i++)
        if (others[i].view.data && gyre_views_overlap(&own, &others[i].view))
            return gyre_fail(err, GYRE_EINVAL, "%s: overlaps %s (%s)", name, others[i].name, where);
    return GYRE_OK;
}

static gyre_status check_result(const gyre_view *view, const int64_t shape[4], int wide_alone, const char *name,
                                const char *where, gyre_error *err) {
    gyre_status status = check_type(view->dtype, wide_alone, name, where, err);
    if (!status) status = gyre_shape_check(view->shape, shape, name, where, err);
    return status ? status : gyre_output_check(view, name, where, err);
}

static gyre_status check_results(const gyre_contextual_args *args, int gradient, const char *where, gyre_error *err) {
    const int64_t *q = args->q.shape, out[4] = {q[0], q[1], q[2], args->v.shape[3]}, lse[4] = {q[0], q[1], q[2], 1};
    gyre_status status = check_result(&args->out, out, 0, "out", where, err);
    if (status) return status;
    if (gradient && !args->lse.data) return gyre_fail(err, GYRE_EINVAL, "lse: is NULL (%s)", where);
    return args->lse.data ? check_result(&args->lse, lse, 1, "lse", where, err) : GYRE_OK;
}

gyre_status gyre_contextual_check(const gyre_contextual_args *args, int gradient, const char *where, gyre_error *err) {
    named_view read[6];
    gyre_status status = gyre_contextual_check_shapes(args, where, err);
    if (!status) status = check_padding(args, where, err);
    int count = inputs_of(args, read);
    for (int i = 0; i < count && !status; i++)
        status = gyre_cview_check(&read[i].view, read[i].name, where, err);
    if (!status) status = check_results(args, gradient, where, err);
    if (status || gradient) return status;
    status = check_apart(&args->out, "out", read, count, where, err);
    if (status || !args->lse.data) return status;
    read[count++] = (named_view){"out", gyre_const(args->out)};
    return check_apart(&args->lse, "lse", read, count, where, err);
}

gyre_status gyre_contextual_check_gradient(const gyre_contextual_args *args, const gyre_cview *dout,
                                           const gyre_contextual_gradients *gradients, const char *where, gyre_error *err) {
    named_view read[13];
    if (!dout) return gyre_fail(err, GYRE_EINVAL, "dout: is NULL (%s)", where);
    if (gradients->dgate_keys.data && !args->gate_keys.data)
        return gyre_fail(err, GYRE_EINVAL, "dgate_keys: gates are of k, whose gradient has them (%s)", where);
    gyre_status status = check_type(dout->dtype, 0, "dout", where, err);
    if (!status) status = gyre_shape_check(dout->shape, args->out.shape, "dout", where, err);
    if (!status) status = gyre_cview_check(dout, "dout", where, err);
    int count = inputs_of(args, read);
    read[count++] = (named_view){"out", gyre_const(args->out)};
    read[count++] = (named_view){"lse", gyre_const(args->lse)};
    read[count++] = (named_view){"dout", *dout};
    const struct {
        const char *name;
        const gyre_view *view;
        const int64_t *shape;
    } results[] = {{"dq", &gradients->dq, args->q.shape},
                   {"dk", &gradients->dk, args->k.shape},
                   {"dv", &gradients->dv, args->v.shape},
                   {"dgate_keys", &gradients->dgate_keys, args->k.shape},
                   {"dembeddings", &gradients->dembeddings, args->embeddings.shape}};
    for (int i = 0; i < 5 && !status; i++) {
        if (!results[i].view->data) continue;
        status = check_result(results[i].view, results[i].shape, i == 4, results[i].name, where, err);
        if (!status) status = check_apart(results[i].view, results[i].name, read, count, where, err);
        read[count++] = (named_view){results[i].name, gyre_const(*results[i].view)};
    }
    return status;
}
