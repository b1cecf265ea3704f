/* py_trained.c: rotations with trained frequencies, by angles of the caller, PoPE, FoPE, and their gradients. */
#include "py_encoding.h"

#include "gyre/gyre_trained.h"

#include <string.h>

static const char *const pair_layouts[] = {"half", "interleaved"};
static const char *const directions[] = {"forward", "inverse", "adjoint"};
enum { ONE_THREAD_ELEMENTS = 1 << 14 };

/* Arrays of a call, in the order of arrays[]. */
typedef enum part { X, DOUT, FREQUENCIES, PHASES, POSITIONS, TERMS, COSINES, SINES, ANGLES, PARTS } part;
typedef struct trained_call {
    gyre_trained_rotation rotation;
    gyre_positions positions;
    gyre_py_array arrays[PARTS];
    gyre_py_layout layout;
    gyre_view x, dout;
    gyre_fourier_rotation series;
    gyre_angle_rotation by_angles;
    gyre_py_result results[3]; /* of frequencies or the whole, of phases or cosines, of x or sines */
} trained_call;

static void close_call(trained_call *c) {
    for (int i = 0; i < PARTS; i++)
        gyre_py_array_close(&c->arrays[i]);
    for (int i = 0; i < 3; i++)
        gyre_py_result_drop(&c->results[i]);
}

/* The axes of numbers of the caller. */
static const struct {
    gyre_py_layout layout;
    const char *axes;
} number_axes[PARTS] = {[FREQUENCIES] = {{.axis = {-1, 0, 1, 2}, .ndim = 3, .text = "ahp"}, "[axes, heads or 1, pairs]"},
                        [PHASES] = {{.axis = {-1, -1, 0, 1}, .ndim = 2, .text = "hp"}, "[heads or 1, pairs]"},
                        [TERMS] = {{.axis = {-1, -1, -1, 0}, .ndim = 1, .text = "t"}, "[terms]"},
                        [COSINES] = {{.axis = {-1, 0, 1, 2}, .ndim = 3, .text = "htp"}, "[heads or 1, terms, pairs]"},
                        [SINES] = {{.axis = {-1, 0, 1, 2}, .ndim = 3, .text = "htp"}, "[heads or 1, terms, pairs]"}};

static int open_numbers(trained_call *c, part which, PyObject *object, const char *name, gyre_cview *view) {
    gyre_py_array *array = &c->arrays[which];
    const gyre_py_layout layout = number_axes[which].layout;
    gyre_view found;
    if (gyre_py_array_open(array, object, name) < 0 || gyre_py_array_is(array, GYRE_PY_LONG_REAL, "float32 or float64") < 0)
        return -1;
    if (array->ndim != layout.ndim) {
        gyre_py_fail(GYRE_ESHAPE, name, "%s: has %d axes, not %s", name, array->ndim, number_axes[which].axes);
        return -1;
    }
    if (gyre_py_array_view(array, &layout, &found) < 0) return -1;
    *view = gyre_py_const(&found);
    return 0;
}

static int open_rows(trained_call *c, part which, PyObject *object, const char *name, gyre_view *view) {
    return gyre_py_array_open(&c->arrays[which], object, name) < 0 ||
                   gyre_py_array_is(&c->arrays[which], GYRE_PY_REAL, "float16, bfloat16, float32 or float64") < 0 ||
                   gyre_py_array_view(&c->arrays[which], &c->layout, view) < 0
               ? -1
               : 0;
}

/* The first array, whose axes say what the layout is where none is given. */
static int begin_rows(trained_call *c, PyObject *x, PyObject *layout, const char *name) {
    gyre_py_array *array = &c->arrays[X];
    return gyre_py_array_open(array, x, name) < 0 ||
                   gyre_py_array_is(array, GYRE_PY_REAL, "float16, bfloat16, float32 or float64") < 0 ||
                   gyre_py_layout_read(layout, array->ndim == 3 ? "thd" : "bhsd", &c->layout) < 0 ||
                   gyre_py_array_view(array, &c->layout, &c->x) < 0
               ? -1
               : 0;
}

/* The arguments that both calls have: frequencies, positions, phases, pairs, first_channel, layout. */
static int open_rotation(trained_call *c, PyObject *const *a, int64_t batch, int64_t tokens) {
    int layout = 0;
    c->rotation = (gyre_trained_rotation)GYRE_INIT(gyre_trained_rotation);
    if (open_numbers(c, FREQUENCIES, a[0], "frequencies", &c->rotation.frequencies) < 0 ||
        (a[2] && open_numbers(c, PHASES, a[2], "phases", &c->rotation.phases) < 0) ||
        gyre_py_word(a[3], "pairs", pair_layouts, 2, &layout) < 0 ||
        gyre_py_integer(a[4], "first_channel", &c->rotation.first_channel) < 0)
        return -1;
    c->rotation.layout = layout ? GYRE_LAYOUT_INTERLEAVED : GYRE_LAYOUT_HALF;
    const gyre_py_positions_request wanted = {"positions", c->rotation.frequencies.shape[1], batch, tokens};
    return gyre_py_positions(a[1], &wanted, &c->positions, &c->arrays[POSITIONS]);
}

const char gyre_py_trained_rotate_doc[] =
    "trained_rotate($module, x, frequencies, positions=0, *, phases=None, pairs='half', first_channel=0, layout=None, "
    "direction='forward'"
    ")\n--\n\n"
    "x with pair i of head h rotated by phases[h][i] + sum over axes a of position[a] frequencies[a][h][i].\n"
    "\n"
    "With two axes and frequencies for each head it is RoPE-Mixed (Heo 2024, arXiv 2403.13298).  The rotated queries\n"
    "and keys go to gyre.attention without an encoding.\n"
    "\n"
    "Args:\n"
    "    x: queries or keys, any array; layout as in Encoding.rotate.\n"
    "    frequencies: float32 or float64 [axes, heads or 1, pairs], radians per position.\n"
    "    positions: those of Encoding.rotate: with several axes [axes, tokens] or [axes, batch, tokens].\n"
    "    phases: float32 or float64 [heads or 1, pairs], radians.\n"
    "    pairs: \"half\" or \"interleaved\"; first_channel: where they begin.  Other channels pass through.\n"
    "    direction: \"forward\", or \"inverse\" and \"adjoint\", which are the same: the gradient to x is the adjoint of\n"
    "        that to the result.\n"
    "\n"
    "Raises gyre.Error.";
PyObject *gyre_py_trained_rotate(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    trained_call c = {0};
    PyObject *a[9], *finished = NULL;
    int direction = 0;
    (void)self;
    if (gyre_py_arguments(gyre_py_trained_rotate_doc, args, count, keywords, a) < 0 ||
        gyre_py_word(a[7], "direction", directions, 3, &direction) < 0)
        return NULL;
    if (begin_rows(&c, a[0], a[6], "x") == 0 && open_rotation(&c, a + 1, c.x.shape[0], c.x.shape[1]) == 0 &&
        gyre_py_result_like(&c.results[0], &c.arrays[X]) == 0 &&
        gyre_py_array_view(&c.results[0].array, &c.layout, &c.dout) == 0) {
        const gyre_cview in = gyre_py_const(&c.x);
        gyre_error err = {0};
        gyre_status status;
        gyre_py_threads threads = gyre_py_threads_begin(gyre_py_elements(c.x.shape) < ONE_THREAD_ELEMENTS);
        Py_BEGIN_ALLOW_THREADS
        status = gyre_trained_rotate(&c.rotation,
                                     GYRE_ARGS(gyre_rotate_args, .direction = (gyre_direction)direction,
                                               .positions = &c.positions, .in = in, .out = c.dout),
                                     gyre_py_exec(&threads), &err);
        Py_END_ALLOW_THREADS
        gyre_py_threads_end(&threads);
        finished = !status ? gyre_py_result_finish(&c.results[0]) : gyre_py_raise(status, &err);
    }
    close_call(&c);
    return finished;
}

/* *view = zeros shaped as numbers of the caller, as a view of those. */
static int make_gradient(trained_call *c, int which, part of, const gyre_cview *like, gyre_view *view) {
    const gyre_py_array *array = &c->arrays[of];
    if (gyre_py_result_new(&c->results[which], &c->arrays[X], (gyre_dtype)array->dtype, array->ndim, array->shape) < 0)
        return -1;
    *view = gyre_dense(c->results[which].array.data, like->dtype, 1, like->shape[1], like->shape[2], like->shape[3]);
    memset(view->data, 0, (size_t)gyre_py_elements(view->shape) * gyre_dtype_size(view->dtype));
    return 0;
}

static PyObject *finish_gradients(trained_call *c, int has_phases) {
    PyObject *frequencies = gyre_py_result_finish(&c->results[0]);
    PyObject *phases = has_phases ? gyre_py_result_finish(&c->results[1]) : Py_None;
    if (!has_phases) Py_INCREF(phases);
    PyObject *pair = frequencies && phases ? PyTuple_Pack(2, frequencies, phases) : NULL;
    Py_XDECREF(frequencies);
    Py_XDECREF(phases);
    return pair;
}

const char gyre_py_trained_gradient_doc[] =
    "trained_gradient($module, rotated, dout, frequencies, positions=0, *, phases=None, pairs='half', first_channel=0, "
    "layout=None"
    ")\n--\n\n"
    "(gradient to frequencies, gradient to phases or None), given what trained_rotate returned and its gradient.\n"
    "\n"
    "Both are shaped and typed as what they are of.  Raises gyre.Error.";
PyObject *gyre_py_trained_gradient(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    trained_call c = {0};
    gyre_trained_gradients to = GYRE_INIT(gyre_trained_gradients);
    PyObject *a[9], *finished = NULL;
    (void)self;
    if (gyre_py_arguments(gyre_py_trained_gradient_doc, args, count, keywords, a) < 0) return NULL;
    if (begin_rows(&c, a[0], a[7], "rotated") == 0 && open_rows(&c, DOUT, a[1], "dout", &c.dout) == 0 &&
        open_rotation(&c, a + 2, c.x.shape[0], c.x.shape[1]) == 0 &&
        make_gradient(&c, 0, FREQUENCIES, &c.rotation.frequencies, &to.frequencies) == 0 &&
        (!a[4] || make_gradient(&c, 1, PHASES, &c.rotation.phases, &to.phases) == 0)) {
        const gyre_cview rotated = gyre_py_const(&c.x), dout = gyre_py_const(&c.dout);
        gyre_error err = {0};
        gyre_status status;
        gyre_py_threads threads = gyre_py_threads_begin(gyre_py_elements(c.x.shape) < ONE_THREAD_ELEMENTS);
        Py_BEGIN_ALLOW_THREADS
        status = gyre_trained_rotate_gradient(
            &c.rotation, GYRE_ARGS(gyre_rotate_gradient_args, .positions = &c.positions, .in = rotated, .dout = dout), &to,
            gyre_py_exec(&threads), &err);
        Py_END_ALLOW_THREADS
        gyre_py_threads_end(&threads);
        finished = !status ? finish_gradients(&c, a[4] != NULL) : gyre_py_raise(status, &err);
    }
    close_call(&c);
    return finished;
}

/* -- angles of the caller -- */

/* The arguments that both calls have: angles, pairs, first_channel. */
static int open_angles(trained_call *c, PyObject *const *a) {
    gyre_py_array *array = &c->arrays[ANGLES];
    gyre_view found;
    int layout = 0;
    c->by_angles = (gyre_angle_rotation)GYRE_INIT(gyre_angle_rotation);
    if (gyre_py_array_open(array, a[0], "angles") < 0 ||
        gyre_py_array_is(array, GYRE_PY_LONG_REAL, "float32 or float64") < 0 ||
        gyre_py_array_view(array, &c->layout, &found) < 0 || gyre_py_word(a[1], "pairs", pair_layouts, 2, &layout) < 0 ||
        gyre_py_integer(a[2], "first_channel", &c->by_angles.first_channel) < 0)
        return -1;
    c->by_angles.layout = layout ? GYRE_LAYOUT_INTERLEAVED : GYRE_LAYOUT_HALF;
    c->by_angles.angles = gyre_py_const(&found);
    return 0;
}

const char gyre_py_angle_rotate_doc[] =
    "angle_rotate($module, x, angles, *, pairs='half', first_channel=0, layout=None, direction='forward'"
    ")\n--\n\n"
    "x with pair i of head h of token t rotated by angles[t, h, i]: angles that a network makes of the tokens.\n"
    "\n"
    "Angles that add up along the sequence, as in Selective RoPE (Movahedi 2025, arXiv 2511.17388), are those of\n"
    "gate_sums.  The rotated queries and keys go to gyre.attention without an encoding.\n"
    "\n"
    "Args:\n"
    "    x: queries or keys, any array; layout as in Encoding.rotate.\n"
    "    angles: float32 or float64 with the axes of x, [batch, heads or 1, tokens, pairs], radians; 1 = all heads\n"
    "        share them.  Sums of many are float64: a float32 near 10000 is off by up to 5e-4.\n"
    "    pairs: \"half\" or \"interleaved\"; first_channel: where they begin.  Other channels pass through.\n"
    "    direction: \"forward\", or \"inverse\" and \"adjoint\", which are the same: the gradient to x is the adjoint of\n"
    "        that to the result.\n"
    "\n"
    "Raises gyre.Error.";
PyObject *gyre_py_angle_rotate(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    trained_call c = {0};
    PyObject *a[6], *finished = NULL;
    int direction = 0;
    (void)self;
    if (gyre_py_arguments(gyre_py_angle_rotate_doc, args, count, keywords, a) < 0 ||
        gyre_py_word(a[5], "direction", directions, 3, &direction) < 0)
        return NULL;
    if (begin_rows(&c, a[0], a[4], "x") == 0 && open_angles(&c, a + 1) == 0 &&
        gyre_py_result_like(&c.results[0], &c.arrays[X]) == 0 &&
        gyre_py_array_view(&c.results[0].array, &c.layout, &c.dout) == 0) {
        const gyre_cview in = gyre_py_const(&c.x);
        gyre_error err = {0};
        gyre_status status;
        gyre_py_threads threads = gyre_py_threads_begin(gyre_py_elements(c.x.shape) < ONE_THREAD_ELEMENTS);
        Py_BEGIN_ALLOW_THREADS
        status = gyre_angle_rotate(
            &c.by_angles, GYRE_ARGS(gyre_rotate_args, .direction = (gyre_direction)direction, .in = in, .out = c.dout),
            gyre_py_exec(&threads), &err);
        Py_END_ALLOW_THREADS
        gyre_py_threads_end(&threads);
        finished = !status ? gyre_py_result_finish(&c.results[0]) : gyre_py_raise(status, &err);
    }
    close_call(&c);
    return finished;
}

/* *view = zeros shaped as the angles. */
static int make_angles(trained_call *c, gyre_view *view) {
    const gyre_py_array *like = &c->arrays[ANGLES];
    if (gyre_py_result_new(&c->results[0], &c->arrays[X], (gyre_dtype)like->dtype, like->ndim, like->shape) < 0 ||
        gyre_py_array_view(&c->results[0].array, &c->layout, view) < 0)
        return -1;
    memset(c->results[0].array.data, 0, (size_t)gyre_py_elements(view->shape) * gyre_dtype_size(view->dtype));
    return 0;
}

const char gyre_py_angle_gradient_doc[] =
    "angle_gradient($module, rotated, dout, angles, *, pairs='half', first_channel=0, layout=None"
    ")\n--\n\n"
    "The gradient to angles, given what angle_rotate returned and its gradient; shaped and typed as the angles.\n"
    "\n"
    "For angles that are sums along the sequence, gate_sums_gradient makes of it that to what was summed.  Raises\n"
    "gyre.Error.";
PyObject *gyre_py_angle_gradient(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    trained_call c = {0};
    PyObject *a[6], *finished = NULL;
    gyre_view to;
    (void)self;
    if (gyre_py_arguments(gyre_py_angle_gradient_doc, args, count, keywords, a) < 0) return NULL;
    if (begin_rows(&c, a[0], a[5], "rotated") == 0 && open_rows(&c, DOUT, a[1], "dout", &c.dout) == 0 &&
        open_angles(&c, a + 2) == 0 && make_angles(&c, &to) == 0) {
        const gyre_cview rotated = gyre_py_const(&c.x), dout = gyre_py_const(&c.dout);
        gyre_error err = {0};
        gyre_status status;
        gyre_py_threads threads = gyre_py_threads_begin(gyre_py_elements(c.x.shape) < ONE_THREAD_ELEMENTS);
        Py_BEGIN_ALLOW_THREADS
        status = gyre_angle_rotate_gradient(&c.by_angles, GYRE_ARGS(gyre_rotate_gradient_args, .in = rotated, .dout = dout),
                                            &to, gyre_py_exec(&threads), &err);
        Py_END_ALLOW_THREADS
        gyre_py_threads_end(&threads);
        finished = !status ? gyre_py_result_finish(&c.results[0]) : gyre_py_raise(status, &err);
    }
    close_call(&c);
    return finished;
}

/* -- PoPE -- */

/* A result shaped as x with twice the channels, or half of them, and a view of it. */
static int make_rows(trained_call *c, int which, int64_t channels, gyre_view *view) {
    const gyre_py_array *x = &c->arrays[X];
    int64_t shape[GYRE_PY_MAX_DIMS];
    memcpy(shape, x->shape, sizeof shape);
    shape[c->layout.axis[3]] = channels;
    return gyre_py_result_new(&c->results[which], x, (gyre_dtype)x->dtype, x->ndim, shape) < 0 ||
                   gyre_py_array_view(&c->results[which].array, &c->layout, view) < 0
               ? -1
               : 0;
}

const char gyre_py_polar_rotate_doc[] =
    "polar_rotate($module, x, frequencies, positions=0, *, phases=None, pairs='half', layout=None"
    ")\n--\n\n"
    "PoPE (Gopalakrishnan 2025, arXiv 2509.10534): each channel becomes a complex number, so the result has twice as\n"
    "many.\n"
    "\n"
    "Its magnitude is softplus(x), its angle phases + sum over axes of position times frequency.  Rotate queries\n"
    "without phases and keys with them, and pass both to gyre.attention without an encoding and with scale=channels\n"
    "** -0.5.\n"
    "\n"
    "Args:\n"
    "    x: queries or keys, any array; layout as in Encoding.rotate.\n"
    "    frequencies: float32 or float64 [axes, heads or 1, channels]; PoPE's are gyre.rope(2 *\n"
    "        channels).frequencies().\n"
    "    positions: those of Encoding.rotate.\n"
    "    phases: float32 or float64 [heads or 1, channels], clamped to -2 pi .. 0.\n"
    "    pairs: \"half\" = real parts, then imaginary ones; \"interleaved\" = beside each other.  Scores do not depend on\n"
    "        it.\n"
    "\n"
    "Raises gyre.Error.";
PyObject *gyre_py_polar_rotate(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    trained_call c = {0};
    PyObject *a[7], *finished = NULL, *numbers[5];
    (void)self;
    if (gyre_py_arguments(gyre_py_polar_rotate_doc, args, count, keywords, a) < 0) return NULL;
    for (int i = 0; i < 5; i++)
        numbers[i] = i < 4 ? a[1 + i] : NULL;
    if (begin_rows(&c, a[0], a[5], "x") == 0 && open_rotation(&c, numbers, c.x.shape[0], c.x.shape[1]) == 0 &&
        make_rows(&c, 0, c.x.shape[3] > INT64_MAX / 2 ? INT64_MAX : 2 * c.x.shape[3], &c.dout) == 0) {
        const gyre_cview in = gyre_py_const(&c.x);
        gyre_error err = {0};
        gyre_status status;
        gyre_py_threads threads = gyre_py_threads_begin(gyre_py_elements(c.x.shape) < ONE_THREAD_ELEMENTS);
        Py_BEGIN_ALLOW_THREADS
        status =
            gyre_polar_rotate(&c.rotation, GYRE_ARGS(gyre_rotate_args, .positions = &c.positions, .in = in, .out = c.dout),
                              gyre_py_exec(&threads), &err);
        Py_END_ALLOW_THREADS
        gyre_py_threads_end(&threads);
        finished = !status ? gyre_py_result_finish(&c.results[0]) : gyre_py_raise(status, &err);
    }
    close_call(&c);
    return finished;
}

/* (dx, dfrequencies, dphases or None) */
static PyObject *finish_polar(trained_call *c, int has_phases) {
    PyObject *dx = gyre_py_result_finish(&c->results[2]);
    PyObject *pair = dx ? finish_gradients(c, has_phases) : NULL;
    PyObject *all = pair ? PyTuple_Pack(3, dx, PyTuple_GetItem(pair, 0), PyTuple_GetItem(pair, 1)) : NULL;
    Py_XDECREF(dx);
    Py_XDECREF(pair);
    return all;
}

const char gyre_py_polar_gradient_doc[] =
    "polar_gradient($module, x, dout, frequencies, positions=0, *, phases=None, pairs='half', layout=None"
    ")\n--\n\n"
    "(gradient to x, to frequencies, to phases or None), given x and the gradient to the result of polar_rotate.\n"
    "\n"
    "Raises gyre.Error.";
PyObject *gyre_py_polar_gradient(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    trained_call c = {0};
    gyre_trained_gradients to = GYRE_INIT(gyre_trained_gradients);
    gyre_view din;
    PyObject *a[8], *finished = NULL, *numbers[5];
    (void)self;
    if (gyre_py_arguments(gyre_py_polar_gradient_doc, args, count, keywords, a) < 0) return NULL;
    for (int i = 0; i < 5; i++)
        numbers[i] = i < 4 ? a[2 + i] : NULL;
    if (begin_rows(&c, a[0], a[6], "x") == 0 && open_rows(&c, DOUT, a[1], "dout", &c.dout) == 0 &&
        open_rotation(&c, numbers, c.x.shape[0], c.x.shape[1]) == 0 && make_rows(&c, 2, c.x.shape[3], &din) == 0 &&
        make_gradient(&c, 0, FREQUENCIES, &c.rotation.frequencies, &to.frequencies) == 0 &&
        (!a[4] || make_gradient(&c, 1, PHASES, &c.rotation.phases, &to.phases) == 0)) {
        const gyre_cview in = gyre_py_const(&c.x), dout = gyre_py_const(&c.dout);
        gyre_error err = {0};
        gyre_status status;
        gyre_py_threads threads = gyre_py_threads_begin(gyre_py_elements(c.x.shape) < ONE_THREAD_ELEMENTS);
        Py_BEGIN_ALLOW_THREADS
        status = gyre_polar_rotate_gradient(
            &c.rotation, GYRE_ARGS(gyre_rotate_gradient_args, .positions = &c.positions, .in = in, .dout = dout, .din = din),
            &to, gyre_py_exec(&threads), &err);
        Py_END_ALLOW_THREADS
        gyre_py_threads_end(&threads);
        finished = !status ? finish_polar(&c, a[4] != NULL) : gyre_py_raise(status, &err);
    }
    close_call(&c);
    return finished;
}

/* -- FoPE -- */

/* The arguments that both calls have: frequencies, cosines, sines, positions, pairs, all_pairs, rest, first_channel. */
static int open_series(trained_call *c, PyObject *const *a) {
    static const char *const rests[] = {"still", "released"};
    int layout = 0, rest = 0;
    c->series = (gyre_fourier_rotation)GYRE_INIT(gyre_fourier_rotation);
    if (open_numbers(c, TERMS, a[0], "frequencies", &c->series.frequencies) < 0 ||
        open_numbers(c, COSINES, a[1], "cosines", &c->series.cosines) < 0 ||
        open_numbers(c, SINES, a[2], "sines", &c->series.sines) < 0 ||
        gyre_py_word(a[4], "pairs", pair_layouts, 2, &layout) < 0 ||
        (a[5] && gyre_py_integer(a[5], "all_pairs", &c->series.pairs) < 0) ||
        gyre_py_word(a[6], "rest", rests, 2, &rest) < 0 ||
        gyre_py_integer(a[7], "first_channel", &c->series.first_channel) < 0)
        return -1;
    if (c->series.pairs != 0 && c->series.pairs < c->series.cosines.shape[3]) {
        gyre_py_fail(GYRE_EINVAL, "all_pairs", "all_pairs: %lld are fewer than the %lld with a series",
                     (long long)c->series.pairs, (long long)c->series.cosines.shape[3]);
        return -1;
    }
    c->series.layout = layout ? GYRE_LAYOUT_INTERLEAVED : GYRE_LAYOUT_HALF;
    c->series.rest = rest ? GYRE_FOURIER_REST_RELEASED : GYRE_FOURIER_REST_STILL;
    const gyre_py_positions_request wanted = {"positions", 1, c->x.shape[0], c->x.shape[1]};
    return gyre_py_positions(a[3], &wanted, &c->positions, &c->arrays[POSITIONS]);
}

const char gyre_py_fourier_rotate_doc[] =
    "fourier_rotate($module, x, frequencies, cosines, sines, positions=0, *, pairs='half', all_pairs=None, rest='still', "
    "first_channel=0, layout=None, direction='forward'"
    ")\n--\n\n"
    "FoPE (Hua 2024, arXiv 2412.17739): pair i of head h at position m is multiplied by the complex number C + i S.\n"
    "\n"
    "C is the sum over terms t of cosines[h][t][i] cos(m frequencies[t]), S that of sines[h][t][i] sin(m\n"
    "frequencies[t]).  FoPE's frequencies are those of gyre.rope(head_dim).frequencies() that are 2 pi / L or more,\n"
    "with L the trained length.\n"
    "\n"
    "Args:\n"
    "    x: queries or keys, any array; layout as in Encoding.rotate.\n"
    "    frequencies: float32 or float64 [terms], radians per position.\n"
    "    cosines, sines: float32 or float64 [heads or 1, terms, pairs with a series]; they may be one array.\n"
    "    positions: those of Encoding.rotate, on one axis.\n"
    "    pairs: \"half\" or \"interleaved\"; first_channel: where they begin.  Other channels pass through.\n"
    "    all_pairs: pairs with a series and the rest behind them (None = no rest), channels // 2 for a whole head.\n"
    "    rest: \"still\" = the rest passes through, as frequency 0 does, or \"released\" = as the released code pads it:\n"
    "        both cos and sin are 1 there, so (x, y) becomes (x - y, x + y).\n"
    "    direction: \"forward\", \"inverse\" = divided by C + i S, \"adjoint\" = times C - i S: the gradient to x is the\n"
    "        adjoint of that to the result.\n"
    "\n"
    "Raises gyre.Error.";
PyObject *gyre_py_fourier_rotate(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    trained_call c = {0};
    PyObject *a[12], *finished = NULL;
    int direction = 0;
    (void)self;
    if (gyre_py_arguments(gyre_py_fourier_rotate_doc, args, count, keywords, a) < 0 ||
        gyre_py_word(a[10], "direction", directions, 3, &direction) < 0)
        return NULL;
    if (begin_rows(&c, a[0], a[9], "x") == 0 && open_series(&c, a + 1) == 0 &&
        gyre_py_result_like(&c.results[0], &c.arrays[X]) == 0 &&
        gyre_py_array_view(&c.results[0].array, &c.layout, &c.dout) == 0) {
        const gyre_cview in = gyre_py_const(&c.x);
        gyre_error err = {0};
        gyre_status status;
        gyre_py_threads threads = gyre_py_threads_begin(gyre_py_elements(c.x.shape) < ONE_THREAD_ELEMENTS);
        Py_BEGIN_ALLOW_THREADS
        status = gyre_fourier_rotate(&c.series,
                                     GYRE_ARGS(gyre_rotate_args, .direction = (gyre_direction)direction,
                                               .positions = &c.positions, .in = in, .out = c.dout),
                                     gyre_py_exec(&threads), &err);
        Py_END_ALLOW_THREADS
        gyre_py_threads_end(&threads);
        finished = !status ? gyre_py_result_finish(&c.results[0]) : gyre_py_raise(status, &err);
    }
    close_call(&c);
    return finished;
}

static PyObject *finish_series(trained_call *c) {
    PyObject *parts[3], *all = NULL;
    for (int i = 0; i < 3; i++)
        parts[i] = gyre_py_result_finish(&c->results[i]);
    if (parts[0] && parts[1] && parts[2]) all = PyTuple_Pack(3, parts[0], parts[1], parts[2]);
    for (int i = 0; i < 3; i++)
        Py_XDECREF(parts[i]);
    return all;
}

const char gyre_py_fourier_gradient_doc[] =
    "fourier_gradient($module, x, dout, frequencies, cosines, sines, positions=0, *, pairs='half', all_pairs=None, "
    "rest='still', first_channel=0, layout=None"
    ")\n--\n\n"
    "(gradient to frequencies, to cosines, to sines), given x and the gradient to the result of fourier_rotate.\n"
    "\n"
    "Each is shaped and typed as what it is of.  Raises gyre.Error.";
PyObject *gyre_py_fourier_gradient(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    trained_call c = {0};
    gyre_fourier_gradients to = GYRE_INIT(gyre_fourier_gradients);
    PyObject *a[12], *finished = NULL;
    (void)self;
    if (gyre_py_arguments(gyre_py_fourier_gradient_doc, args, count, keywords, a) < 0) return NULL;
    if (begin_rows(&c, a[0], a[10], "x") == 0 && open_rows(&c, DOUT, a[1], "dout", &c.dout) == 0 &&
        open_series(&c, a + 2) == 0 && make_gradient(&c, 0, TERMS, &c.series.frequencies, &to.frequencies) == 0 &&
        make_gradient(&c, 1, COSINES, &c.series.cosines, &to.cosines) == 0 &&
        make_gradient(&c, 2, SINES, &c.series.sines, &to.sines) == 0) {
        const gyre_cview in = gyre_py_const(&c.x), dout = gyre_py_const(&c.dout);
        gyre_error err = {0};
        gyre_status status;
        gyre_py_threads threads = gyre_py_threads_begin(gyre_py_elements(c.x.shape) < ONE_THREAD_ELEMENTS);
        Py_BEGIN_ALLOW_THREADS
        status = gyre_fourier_rotate_gradient(
            &c.series, GYRE_ARGS(gyre_rotate_gradient_args, .positions = &c.positions, .in = in, .dout = dout), &to,
            gyre_py_exec(&threads), &err);
        Py_END_ALLOW_THREADS
        gyre_py_threads_end(&threads);
        finished = !status ? finish_series(&c) : gyre_py_raise(status, &err);
    }
    close_call(&c);
    return finished;
}
