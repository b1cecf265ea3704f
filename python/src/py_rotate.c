/* py_rotate.c: rotate, rotate_pair, rerotate and cos_sin. */
#include "gyre/gyre_fields.h"
#include "py_encoding.h"

#include "gyre/gyre_cache.h"

#include <stdlib.h>
#include <string.h>

static const char *const roles[] = {"query", "key"};
static const char *const directions[] = {"forward", "inverse", "adjoint"};

/* The arrays of one rotation. */
typedef struct rotation {
    gyre_py_array in;
    gyre_py_result out;
    gyre_view in_view, out_view;
} rotation;

static void close_rotation(rotation *r) {
    gyre_py_result_drop(&r->out);
    gyre_py_array_close(&r->in);
}

static const char *standard_layout(int ndim) {
    return ndim == 3 ? "thd" : "bhsd";
}

/* Opens x and the memory of the result.  out_name: what that is called, if it is not x. */
static int open_rotation(rotation *r, PyObject *x, PyObject *out, const char *name, const char *out_name,
                         PyObject *layout_text) {
    gyre_py_layout layout;
    r->out.memory = NULL;
    r->out.array.holds = GYRE_PY_HOLDS_NOTHING;
    r->out.array.kept = NULL;
    if (gyre_py_array_open(&r->in, x, name) < 0) return -1;
    if (gyre_py_array_is(&r->in, GYRE_PY_REAL, "float16, bfloat16, float32 or float64") < 0 ||
        gyre_py_layout_read(layout_text, standard_layout(r->in.ndim), &layout) < 0 ||
        gyre_py_array_view(&r->in, &layout, &r->in_view) < 0 ||
        (out ? gyre_py_result_given(&r->out, out, out == x ? name : out_name) : gyre_py_result_like(&r->out, &r->in)) < 0)
        return -1;
    if (out && gyre_py_array_is(&r->out.array, 1U << r->in.dtype, gyre_py_dtype_text(&r->in)) < 0) return -1;
    if (gyre_py_array_view(&r->out.array, &layout, &r->out_view) < 0) return -1;
    return out ? gyre_py_check_out(&r->in, &r->in_view, &r->out.array, &r->out_view) : 0;
}

/* In C, a rotation by an encoding without one is the identity; a caller in Python who asks for it has the wrong encoding. */
static int check_rotates(const gyre_py_encoding *e) {
    if (gyre_encoding_places(e->encoding) & GYRE_PLACE_QUERY_KEY) return 0;
    gyre_py_fail(GYRE_EUNSUPPORTED, "encoding",
                 "encoding: %s does not rotate: Encoding.places says where it acts, and gyre.attention applies it",
                 gyre_kind_name(gyre_encoding_get_config(e->encoding)->kind));
    return -1;
}

static int64_t bytes_of(const gyre_view *view) {
    const int64_t elements = gyre_py_elements(view->shape);
    return elements > INT64_MAX / 8 ? INT64_MAX : elements * (int64_t)gyre_dtype_size(view->dtype);
}

enum { ONE_THREAD_BYTES = 1 << 20 }; /* less is one thread's work in the library */

static gyre_status rotate_one(const gyre_encoding *encoding, int direction, int role, const gyre_positions *positions,
                              const rotation *r, const gyre_exec *exec, gyre_error *err) {
    const gyre_cview in = gyre_py_const(&r->in_view);
    return gyre_rotate(encoding,
                       GYRE_ARGS(gyre_rotate_args, .direction = (gyre_direction)direction, .role = (gyre_role)role,
                                 .positions = positions, .in = in, .out = r->out_view),
                       exec, err);
}

const char gyre_py_rotate_doc[] =
    "rotate($self, x, positions=None, *, layout=None, role='query', direction='forward', length=0, out=None"
    ")\n--\n\n"
    "Rotates queries or keys: out[token] = E(position of token) x[token].  Su 2021, arXiv 2104.09864.\n"
    "\n"
    "Args:\n"
    "    x: an array of numpy, torch or JAX, or with __dlpack__ or the buffer protocol, of float16, bfloat16, float32 or\n"
    "        float64, any strides.  Nothing is copied.\n"
    "    positions: None = 0, 1, 2, ...; an int p = p, p + 1, ...; int32 or int64 [tokens] or [batch, tokens]; for an\n"
    "        encoding with several axes [axes, tokens] or [axes, batch, tokens].\n"
    "    layout: what the axes of x are: b batch, s or t token, h head, d channel.  None = 'bhsd', of three axes 'thd'.\n"
    "    role: 'query' or 'key'; they differ under a temperature and under xPos.\n"
    "    direction: 'inverse' undoes a rotation, 'adjoint' is its transpose, hence the gradient.\n"
    "    length: the context length in use, in tokens, where frequencies depend on it; 0 = the encoding's own.\n"
    "    out: memory for the result, shaped and typed as x; x itself for a rotation in place.\n"
    "\n"
    "Returns an array of the caller's kind, or out.  Angles are computed in double and rounded once; float16 and\n"
    "bfloat16 are computed in float32 and rounded once.  Raises gyre.Error; also where the encoding does not rotate\n"
    "(EUNSUPPORTED), such as ALiBi.";
PyObject *gyre_py_rotate(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    const gyre_py_encoding *e = (const gyre_py_encoding *)self;
    PyObject *a[8], *finished = NULL;
    int role = 0, direction = 0;
    rotation r;
    gyre_py_array position_array = {0};
    gyre_positions positions = {0};
    if (gyre_py_arguments(gyre_py_rotate_doc, args, count, keywords, a) < 0 || check_rotates(e) < 0 ||
        gyre_py_word(a[3], "role", roles, 2, &role) < 0 || gyre_py_word(a[4], "direction", directions, 3, &direction) < 0 ||
        gyre_py_integer(a[5], "length", &positions.context_length) < 0)
        return NULL;
    if (open_rotation(&r, a[0], a[6], "x", "out", a[2]) == 0) {
        const gyre_py_positions_request wanted = {"positions", e->axes, r.in_view.shape[0], r.in_view.shape[1]};
        if (gyre_py_positions(a[1], &wanted, &positions, &position_array) == 0) {
            gyre_error err = {0};
            gyre_status status;
            gyre_py_threads threads = gyre_py_threads_begin(bytes_of(&r.in_view) < ONE_THREAD_BYTES);
            Py_BEGIN_ALLOW_THREADS
            status = rotate_one(e->encoding, direction, role, &positions, &r, gyre_py_exec(&threads), &err);
            Py_END_ALLOW_THREADS
            gyre_py_threads_end(&threads);
            finished = !status ? gyre_py_result_finish(&r.out) : gyre_py_raise(status, &err);
        }
    }
    gyre_py_array_close(&position_array);
    close_rotation(&r);
    return finished;
}

/* 1 if the magnitude of a key at its position is out of range.  That depends on the role, so it must be known before the
 * queries are written.  Writing one head into separate memory shows them; other encodings than xPos have no magnitudes. */
static gyre_status try_keys(const gyre_encoding *encoding, const gyre_positions *positions, const gyre_view *keys,
                            gyre_error *err) {
    gyre_view one = *keys;
    if (!(gyre_encoding_get_config(encoding)->rope.xpos_base > 0) || bytes_of(keys) == 0) return GYRE_OK;
    one.shape[2] = 1;
    const gyre_cview in = gyre_const(one);
    void *memory = malloc((size_t)bytes_of(&one));
    if (!memory) return GYRE_ENOMEM;
    const gyre_view out = gyre_dense(memory, one.dtype, one.shape[0], one.shape[1], 1, one.shape[3]);
    const gyre_status status = gyre_rotate(
        encoding, GYRE_ARGS(gyre_rotate_args, .role = GYRE_ROLE_KEY, .positions = positions, .in = in, .out = out), NULL,
        err);
    free(memory);
    return status;
}

static gyre_status rotate_both(const gyre_encoding *encoding, const gyre_positions *positions, const rotation *r,
                               const gyre_exec *exec, gyre_error *err) {
    gyre_status status = try_keys(encoding, positions, &r[1].in_view, err);
    if (!status) status = rotate_one(encoding, GYRE_DIRECTION_FORWARD, GYRE_ROLE_QUERY, positions, &r[0], exec, err);
    if (!status) status = rotate_one(encoding, GYRE_DIRECTION_FORWARD, GYRE_ROLE_KEY, positions, &r[1], exec, err);
    return status;
}

static PyObject *finish_pair(rotation *r) {
    PyObject *pair = PyTuple_New(2);
    for (int i = 0; pair && i < 2; i++) {
        PyObject *one = gyre_py_result_finish(&r[i].out);
        if (!one || PyTuple_SetItem(pair, i, one) < 0) Py_CLEAR(pair);
    }
    return pair;
}

static int pair_of(PyObject *out, PyObject **q, PyObject **k) {
    *q = *k = NULL;
    if (!out) return 0;
    if (!PyTuple_Check(out) || PyTuple_Size(out) != 2) {
        char shown[60];
        gyre_py_show(out, shown, sizeof shown);
        gyre_py_fail(GYRE_EINVAL, "out", "out: is %s, not a tuple of two arrays, such as out=(q, k)", shown);
        return -1;
    }
    *q = PyTuple_GetItem(out, 0);
    *k = PyTuple_GetItem(out, 1);
    return 0;
}

/* What the first call writes must not be lost when the second fails, nor be read by it: all is checked before anything is
 * written. */
static int check_pair(const rotation *r, const gyre_encoding *encoding, int writes_queries) {
    const int64_t *q = r[0].in_view.shape, *k = r[1].in_view.shape, channels = gyre_encoding_get_config(encoding)->head_dim;
    if (q[0] != k[0] || q[1] != k[1] || q[3] != k[3]) {
        char given[180], wanted[180];
        gyre_py_shape_text(&r[1].in, given, sizeof given);
        gyre_py_shape_text(&r[0].in, wanted, sizeof wanted);
        gyre_py_fail(GYRE_ESHAPE, "k", "k: has shape %s, but q has %s: they may differ in their heads alone", given, wanted);
        return -1;
    }
    if (gyre_kind_has(gyre_encoding_get_config(encoding)->kind, GYRE_TRAIT_ROTATES) && q[3] != channels) {
        gyre_py_fail(GYRE_ESHAPE, "q", "q: %lld channels a head, the encoding has %lld", (long long)q[3],
                     (long long)channels);
        return -1;
    }
    if (!writes_queries) return 0;
    const char *const name = r[0].out.array.name;
    if (gyre_py_check_apart(name, &r[0].out_view, "k", &r[1].in_view) < 0) return -1;
    return gyre_py_check_apart(name, &r[0].out_view, "the result for k", &r[1].out_view);
}

const char gyre_py_rotate_pair_doc[] =
    "rotate_pair($self, q, k, positions=None, *, layout=None, length=0, out=None"
    ")\n--\n\n"
    "Rotates the queries and the keys of the same tokens in one call.  k may have fewer heads.\n"
    "\n"
    "out: a pair of arrays; out=(q, k) is a rotation in place.  Returns (q, k).  The rest is as in rotate.";
PyObject *gyre_py_rotate_pair(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    const gyre_py_encoding *e = (const gyre_py_encoding *)self;
    PyObject *a[7], *out[2], *finished = NULL;
    rotation r[2];
    gyre_py_array position_array = {0};
    gyre_positions positions = {0};
    if (gyre_py_arguments(gyre_py_rotate_pair_doc, args, count, keywords, a) < 0 || check_rotates(e) < 0 ||
        pair_of(a[5], &out[0], &out[1]) < 0 || gyre_py_integer(a[4], "length", &positions.context_length) < 0)
        return NULL;
    const int opened = open_rotation(&r[0], a[0], out[0], "q", "out[0]", a[3]);
    const int both = opened == 0 ? open_rotation(&r[1], a[1], out[1], "k", "out[1]", a[3]) : -1;
    if (both == 0 && check_pair(r, e->encoding, out[0] != NULL) == 0) {
        const gyre_py_positions_request wanted = {"positions", e->axes, r->in_view.shape[0], r->in_view.shape[1]};
        if (gyre_py_positions(a[2], &wanted, &positions, &position_array) == 0) {
            gyre_error err = {0};
            gyre_status status;
            gyre_py_threads threads = gyre_py_threads_begin(bytes_of(&r->in_view) < ONE_THREAD_BYTES);
            Py_BEGIN_ALLOW_THREADS
            status = rotate_both(e->encoding, &positions, r, gyre_py_exec(&threads), &err);
            Py_END_ALLOW_THREADS
            gyre_py_threads_end(&threads);
            finished = !status ? finish_pair(r) : gyre_py_raise(status, &err);
        }
    }
    gyre_py_array_close(&position_array);
    close_rotation(&r[0]);
    if (opened == 0) close_rotation(&r[1]);
    return finished;
}

/* -- from one encoding to another -- */

/* Positions of keys under the old and the new encoding.  moved: memory of positions that a shift made. */
typedef struct position_pair {
    gyre_positions before, after;
    gyre_py_array before_array, after_array;
    int64_t *moved;
} position_pair;

static int64_t position_at(const gyre_positions *p, int64_t b, int64_t t, int64_t axis) {
    if (!p->data) return p->base + t;
    const int64_t at = b * p->stride_batch + t * p->stride_token + axis * p->stride_axis;
    return p->dtype == GYRE_DTYPE_I32 ? ((const int32_t *)p->data)[at] : ((const int64_t *)p->data)[at];
}

/* p->after = p->before + shift, in 64 bits whatever the type of the positions; -1 with an exception. */
static int move_positions(position_pair *p, PyObject *shift, int64_t axes, const gyre_view *keys) {
    enum { MOST = 1 << 30 }; /* positions end at 2^31: beyond, the library says so */
    int64_t by[GYRE_MAX_AXES] = {0};
    const int64_t batch = p->before.stride_batch ? keys->shape[0] : 1, tokens = keys->shape[1];
    const int64_t shape[3] = {axes, batch, tokens}, bytes = gyre_py_bytes(GYRE_DTYPE_I64, 3, shape);
    if (bytes < 0 || gyre_py_shift(shift, "shift", axes, by) < 0) return -1;
    for (int64_t axis = 0; axis < axes; axis++)
        if (by[axis] / 16 > MOST || by[axis] / 16 < -MOST) {
            gyre_py_fail(GYRE_ERANGE, "shift", "shift: %lld takes positions past 2^31", (long long)by[axis]);
            return -1;
        }
    if (!p->before_array.object && (p->before.base / 16 > MOST || p->before.base / 16 < -MOST)) return 0; /* refused */
    p->moved = PyMem_Malloc((size_t)bytes + sizeof *p->moved);
    if (!p->moved) {
        PyErr_NoMemory();
        return -1;
    }
    for (int64_t i = 0; i < axes * batch * tokens; i++) {
        const int64_t axis = i / (batch * tokens), old = position_at(&p->before, i / tokens % batch, i % tokens, axis);
        p->moved[i] = old / 16 > MOST || old / 16 < -MOST ? old : old + by[axis];
    }
    p->after.data = p->moved;
    p->after.dtype = GYRE_DTYPE_I64;
    p->after.stride_axis = batch * tokens;
    p->after.stride_batch = batch > 1 ? tokens : 0;
    p->after.stride_token = 1;
    return 0;
}

enum { K, OLD, NEW, POSITIONS, NEW_POSITIONS, SHIFT, LENGTH, NEW_LENGTH, LAYOUT, OUT, REROTATE_ARGUMENTS };

static int open_position_pair(position_pair *p, PyObject *const *a, const gyre_py_encoding *before,
                              const gyre_py_encoding *after, const gyre_view *keys) {
    const gyre_py_positions_request old_wanted = {"positions", before->axes, keys->shape[0], keys->shape[1]};
    gyre_py_positions_request new_wanted = {"new_positions", after->axes, keys->shape[0], keys->shape[1]};
    if (gyre_py_integer(a[LENGTH], "length", &p->before.context_length) < 0 ||
        gyre_py_integer(a[NEW_LENGTH], "new_length", &p->after.context_length) < 0 ||
        gyre_py_positions(a[POSITIONS], &old_wanted, &p->before, &p->before_array) < 0)
        return -1;
    if (a[NEW_POSITIONS] && a[SHIFT]) {
        gyre_py_fail(GYRE_EINVAL, "shift", "shift: given beside new_positions, which says the same");
        return -1;
    }
    if (a[NEW_POSITIONS]) return gyre_py_positions(a[NEW_POSITIONS], &new_wanted, &p->after, &p->after_array);
    if (a[SHIFT] && before->axes != after->axes) {
        gyre_py_fail(GYRE_EINVAL, "shift", "shift: old has %lld axes and new %lld: pass new_positions",
                     (long long)before->axes, (long long)after->axes);
        return -1;
    }
    if (a[SHIFT]) return move_positions(p, a[SHIFT], before->axes, keys);
    p->after.base = p->before.base;
    new_wanted.name = "positions";
    return gyre_py_positions_match(&new_wanted, &p->after, &p->before_array);
}

/* The library calls them `in`, which is x in other calls. */
static void name_keys(gyre_error *err) {
    if (strncmp(err->text, "in:", 3) != 0) return;
    err->text[0] = 'k';
    memmove(err->text + 1, err->text + 2, strlen(err->text + 2) + 1);
}

const char gyre_py_rerotate_doc[] =
    "rerotate($module, k, old, new=None, *, positions=None, new_positions=None, shift=None, length=None, new_length=None, "
    "layout=None, out=None"
    ")\n--\n\n"
    "Keys that `old` rotated become those of `new`, in place: K' = E_new(p') E_old(p)^-1 K.\n"
    "\n"
    "A changed base, factor or LongRoPE list, another context length, keys moved by an offset.  Factors of cos and\n"
    "sin are not applied twice: a shift under YaRN changes no key's length.\n"
    "\n"
    "Args:\n"
    "    k: keys, any array that may be written, any strides; layout as in Encoding.rotate.\n"
    "    old, new: encodings that rotate the same channels in the same layout; new None = old, for a shift.\n"
    "    positions: those that the keys were rotated for, p; None = 0, 1, 2, ...\n"
    "    new_positions: p'; None = p.\n"
    "    shift: p' = p + shift, one number or one for each axis.\n"
    "    length, new_length: the context lengths in use under each; None = the encodings' own.\n"
    "    out: memory for the result, for arrays that never change, such as JAX's.\n"
    "\n"
    "The difference of the angles is formed in double, and each key is rounded once.  Returns k, or out.\n"
    "Raises gyre.Error.";
PyObject *gyre_py_rerotate(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    const gyre_py_encoding *before, *after;
    PyObject *a[REROTATE_ARGUMENTS + 1], *finished = NULL;
    rotation r;
    position_pair p = {0};
    (void)self;
    if (gyre_py_arguments(gyre_py_rerotate_doc, args, count, keywords, a) < 0 ||
        gyre_py_encoding_of(a[OLD], "old", &before) < 0 || gyre_py_encoding_of(a[NEW] ? a[NEW] : a[OLD], "new", &after) < 0)
        return NULL;
    if (open_rotation(&r, a[K], a[OUT] ? a[OUT] : a[K], "k", "out", a[LAYOUT]) == 0 &&
        open_position_pair(&p, a, before, after, &r.in_view) == 0) {
        const gyre_cview in = gyre_py_const(&r.in_view);
        gyre_error err = {0};
        gyre_status status;
        gyre_py_threads threads = gyre_py_threads_begin(bytes_of(&r.in_view) < ONE_THREAD_BYTES / 8);
        Py_BEGIN_ALLOW_THREADS
        status = gyre_rerotate(GYRE_ARGS(gyre_rerotate_args, .before = before->encoding, .after = after->encoding,
                                         .old_positions = &p.before, .new_positions = &p.after, .in = in, .out = r.out_view),
                               gyre_py_exec(&threads), &err);
        Py_END_ALLOW_THREADS
        gyre_py_threads_end(&threads);
        name_keys(&err);
        finished = !status ? gyre_py_result_finish(&r.out) : gyre_py_raise(status, &err);
    }
    gyre_py_array_close(&p.before_array);
    gyre_py_array_close(&p.after_array);
    PyMem_Free(p.moved);
    close_rotation(&r);
    return finished;
}

/* -- cos and sin -- */

/* rows[token][pairs + i] or rows[token][2 i + 1] = the value of pair i, for programs that multiply every channel. */
static void duplicate(const gyre_py_array *array, int64_t rows, int64_t pairs, int interleaved) {
    const size_t size = gyre_dtype_size((gyre_dtype)array->dtype);
    for (int64_t t = 0; t < rows; t++) {
        char *row = (char *)array->data + (size_t)(t * 2 * pairs) * size;
        for (int64_t i = 0; i < pairs; i++)
            memcpy(row + (size_t)(interleaved ? 2 * i + 1 : pairs + i) * size,
                   row + (size_t)(interleaved ? 2 * i : i) * size, size);
    }
}

/* What cos_sin was asked for. */
typedef struct angle_request {
    const gyre_py_encoding *encoding;
    gyre_positions positions;
    int64_t batch, tokens, pairs;
    int ndim, pairs_only; /* ndim: of the result */
    gyre_dtype dtype;
} angle_request;

static gyre_view angle_view(const angle_request *r, const gyre_py_array *array) {
    const int interleaved =
        !r->pairs_only && gyre_encoding_get_config(r->encoding->encoding)->rope.layout == GYRE_LAYOUT_INTERLEAVED;
    const int64_t width = r->pairs_only ? r->pairs : 2 * r->pairs, dims[4] = {r->batch, r->tokens, 1, r->pairs};
    gyre_view view = {.data = array->data, .dtype = r->dtype, .stride = {r->tokens * width, width, 0, interleaved ? 2 : 1}};
    memcpy(view.shape, dims, sizeof dims);
    return view;
}

static PyObject *angle_results(const angle_request *r, const gyre_py_array *like) {
    gyre_py_result out[2] = {{0}, {0}};
    PyObject *finished = NULL;
    const int64_t width = r->pairs_only ? r->pairs : 2 * r->pairs, shape[3] = {r->batch, r->tokens, width};
    const int64_t *extents = r->ndim == 3 ? shape : shape + 1;
    if (gyre_py_result_new(&out[0], like, r->dtype, r->ndim, extents) == 0 &&
        gyre_py_result_new(&out[1], like, r->dtype, r->ndim, extents) == 0) {
        const gyre_view c = angle_view(r, &out[0].array), s = angle_view(r, &out[1].array);
        gyre_error err = {0};
        gyre_status status;
        gyre_py_threads threads = gyre_py_threads_begin(gyre_py_elements(c.shape) < ONE_THREAD_BYTES / 16);
        Py_BEGIN_ALLOW_THREADS
        status = gyre_cos_sin(r->encoding->encoding, &r->positions, &c, &s, gyre_py_exec(&threads), &err);
        for (int i = 0; !status && !r->pairs_only && i < 2; i++)
            duplicate(&out[i].array, r->batch * r->tokens, r->pairs, c.stride[3] == 2);
        Py_END_ALLOW_THREADS
        gyre_py_threads_end(&threads);
        if (!status) {
            PyObject *cosine = gyre_py_result_finish(&out[0]), *sine = gyre_py_result_finish(&out[1]);
            finished = cosine && sine ? PyTuple_Pack(2, cosine, sine) : NULL;
            Py_XDECREF(cosine);
            Py_XDECREF(sine);
        } else
            gyre_py_raise(status, &err);
    }
    gyre_py_result_drop(&out[0]);
    gyre_py_result_drop(&out[1]);
    return finished;
}

/* An int counts positions from 0, or tokens are counted from it; an array has its own number of tokens. */
static int open_angles(angle_request *r, PyObject *positions, PyObject *tokens, gyre_py_array *array) {
    if (gyre_py_positions_open(positions, "positions", &r->positions, array) < 0 ||
        gyre_py_integer(tokens, "tokens", &r->tokens) < 0)
        return -1;
    if (array->object) {
        const int several = r->encoding->axes > 1, last = array->ndim - 1;
        const int has_batch = array->ndim > 1 && (!several || array->ndim == 3);
        if (tokens) {
            gyre_py_fail(GYRE_EINVAL, "tokens", "tokens: is %lld, but positions is an array, which has its own number",
                         (long long)r->tokens);
            return -1;
        }
        r->tokens = last >= 0 ? array->shape[last] : 0;
        r->batch = has_batch ? array->shape[last - 1] : 1;
        r->ndim = has_batch ? 3 : 2;
        const gyre_py_positions_request wanted = {"positions", r->encoding->axes, r->batch, r->tokens};
        return gyre_py_positions_match(&wanted, &r->positions, array);
    }
    const char *const name = tokens ? "tokens" : "positions";
    if (!tokens) {
        r->tokens = r->positions.base;
        r->positions.base = 0;
    }
    if (r->tokens >= 0) return 0;
    gyre_py_fail(GYRE_EINVAL, name, "%s: is %lld, not a number of positions, 0 or more", name, (long long)r->tokens);
    return -1;
}

const char gyre_py_cos_sin_doc[] = "_cos_sin($self, positions, *, tokens=None, double=False, pairs=False, length=0"
                                   ")\n--\n\n"
                                   "cos and sin of positions.";
PyObject *gyre_py_cos_sin(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    angle_request r = {.encoding = (const gyre_py_encoding *)self, .batch = 1, .ndim = 2};
    PyObject *a[6], *finished = NULL;
    int wide = 0;
    gyre_py_array array = {0};
    if (gyre_py_arguments(gyre_py_cos_sin_doc, args, count, keywords, a) < 0 || gyre_py_truth(a[2], "double", &wide) < 0 ||
        gyre_py_truth(a[3], "pairs", &r.pairs_only) < 0 || gyre_py_integer(a[4], "length", &r.positions.context_length) < 0)
        return NULL;
    r.dtype = wide ? GYRE_DTYPE_F64 : GYRE_DTYPE_F32;
    r.pairs = gyre_encoding_get_config(r.encoding->encoding)->rope.dim / 2;
    if (open_angles(&r, a[0], a[1], &array) == 0) finished = angle_results(&r, array.object ? &array : NULL);
    gyre_py_array_close(&array);
    return finished;
}
