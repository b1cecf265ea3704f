/* py_gates.c: running sums of log forget gates, which attention takes, or of angles, and their gradient. */
#include "py_attention.h"

#include <stdlib.h>

static const char long_reals[] = "float32 or float64";
enum { ONE_THREAD_ELEMENTS = 1 << 14 };

/* Arrays of a call: log gates and what is summed before them, or the gradients to the sums of queries and of keys. */
typedef struct gates_call {
    gyre_py_layout layout;
    gyre_py_array in[2];
    gyre_cview views[2];
    gyre_py_result result;
    gyre_view out;
    int64_t *starts, sequences;
} gates_call;

static void close_call(gates_call *c) {
    gyre_py_array_close(&c->in[0]);
    gyre_py_array_close(&c->in[1]);
    gyre_py_result_drop(&c->result);
    free(c->starts);
}

/* *view = an array without an axis of channels, or, with as many axes as the layout, of angles for each pair. */
static int rows_view(const gates_call *c, const gyre_py_array *array, gyre_view *view) {
    return array->ndim == c->layout.ndim ? gyre_py_array_view(array, &c->layout, view)
                                         : gyre_py_rows_view(&c->layout, array, view);
}

/* *view = such an open array, of one of these types. */
static int view_rows(gates_call *c, int which, unsigned dtypes, const char *wanted) {
    gyre_view view;
    if (gyre_py_array_is(&c->in[which], dtypes, wanted) < 0 || rows_view(c, &c->in[which], &view) < 0) return -1;
    c->views[which] = gyre_py_const(&view);
    return 0;
}

/* The first array, whose axes say what the layout is where none is given: that of queries, with channels. */
static int begin_rows(gates_call *c, PyObject *object, const char *name, PyObject *layout) {
    return gyre_py_array_open(&c->in[0], object, name) < 0 ||
                   gyre_py_layout_read(layout, c->in[0].ndim == 2 ? "thd" : "bhsd", &c->layout) < 0
               ? -1
               : 0;
}

/* The gradient to the sums of keys, shaped as that to the sums of queries. */
static int open_second(gates_call *c, PyObject *object, const char *name) {
    return gyre_py_array_open(&c->in[1], object, name) < 0 || view_rows(c, 1, GYRE_PY_LONG_REAL, long_reals) < 0 ||
                   gyre_py_attention_shape_is(&c->in[1], c->in[0].shape, c->in[0].ndim) < 0
               ? -1
               : 0;
}

static int read_starts(gates_call *c, PyObject *object) {
    int64_t count = -1;
    if (!object) return 0;
    if (gyre_py_list(object, "starts", &count, &c->starts) < 0) return -1;
    c->sequences = count - 1;
    if (count >= 2) return 0;
    gyre_py_fail(GYRE_ESHAPE, "starts", "starts: has %lld numbers, not one more than there are sequences", (long long)count);
    return -1;
}

/* [batch or sequences, heads], of angles with the pairs; float64. */
static int open_initial(gates_call *c, PyObject *object) {
    static const gyre_py_layout layouts[2] = {{.axis = {0, -1, 1, -1}, .ndim = 2, .text = "bh"},
                                              {.axis = {0, -1, 1, 2}, .ndim = 3, .text = "bhd"}};
    const gyre_py_layout layout = layouts[c->in[0].ndim == c->layout.ndim];
    const int64_t *shape = c->views[0].shape, wanted[3] = {c->starts ? c->sequences : shape[0], shape[2], shape[3]};
    gyre_view view;
    if (!object) return 0;
    if (gyre_py_array_open(&c->in[1], object, "initial") < 0 ||
        gyre_py_array_is(&c->in[1], 1 << GYRE_DTYPE_F64, "float64") < 0 ||
        gyre_py_attention_shape_is(&c->in[1], wanted, layout.ndim) < 0 || gyre_py_array_view(&c->in[1], &layout, &view) < 0)
        return -1;
    c->views[1] = gyre_py_const(&view);
    return 0;
}

static int make_result(gates_call *c, gyre_dtype dtype) {
    return gyre_py_result_new(&c->result, &c->in[0], dtype, c->in[0].ndim, c->in[0].shape) < 0 ||
                   rows_view(c, &c->result.array, &c->out) < 0
               ? -1
               : 0;
}

const char gyre_py_gate_sums_doc[] =
    "gate_sums($module, log_gates, *, layout=None, starts=None, initial=None, double=True"
    ")\n--\n\n"
    "sums[t] = log_gates[0] + ... + log_gates[t] for each head, added in double in the order of tokens.\n"
    "\n"
    "attention(..., query_gate_sums=sums, key_gate_sums=sums) then has the forget gates of the Forgetting Transformer\n"
    "(Lin 2025, arXiv 2503.02130).\n"
    "\n"
    "Args:\n"
    "    log_gates: the logarithms of gates in (0, 1], [batch, heads, tokens], or [tokens, heads] of a packed batch:\n"
    "        the axes of queries but channels.  With an axis more, [batch, heads, tokens, pairs], they are the angles\n"
    "        of angle_rotate; name the layout of a packed batch then.  A padding token has 0.  They are added as they are: "
    "numbers above 0,\n"
    "        as gates in the place of their logarithms, are not refused, and NaN or an infinity is in every sum after\n"
    "        it.\n"
    "    layout: that of the queries, \"bhsd\" (None), \"bshd\", \"thd\" (None with two axes) or the like.\n"
    "    starts: a packed batch: sequence s is tokens starts[s] .. starts[s + 1] - 1, and its sums begin at 0.\n"
    "    initial: float64 [batch, heads], or [sequences, heads] of a packed batch, of angles with an axis of pairs:\n"
    "        the sums before the first token, where a sequence comes in pieces.\n"
    "    double: True = float64, which keeps differences of large sums; False = float32, for short sequences.\n"
    "\n"
    "Returns an array of the kind of log_gates, shaped alike.  Raises gyre.Error.";
PyObject *gyre_py_gate_sums(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    gates_call c = {0};
    PyObject *a[6], *finished = NULL;
    int wide = 1;
    (void)self;
    if (gyre_py_arguments(gyre_py_gate_sums_doc, args, count, keywords, a) < 0 || gyre_py_truth(a[4], "double", &wide) < 0)
        return NULL;
    if (begin_rows(&c, a[0], "log_gates", a[1]) == 0 &&
        view_rows(&c, 0, GYRE_PY_REAL, "float16, bfloat16, float32 or float64") == 0 && read_starts(&c, a[2]) == 0 &&
        open_initial(&c, a[3]) == 0 && make_result(&c, wide ? GYRE_DTYPE_F64 : GYRE_DTYPE_F32) == 0) {
        gyre_error err = {0};
        gyre_status status;
        gyre_py_threads threads = gyre_py_threads_begin(gyre_py_elements(c.out.shape) < ONE_THREAD_ELEMENTS);
        Py_BEGIN_ALLOW_THREADS
        status = gyre_gate_sums(GYRE_ARGS(gyre_gate_sums_args, .log_gates = c.views[0], .starts = c.starts,
                                          .sequences = c.sequences, .before = c.views[1], .sums = c.out),
                                gyre_py_exec(&threads), &err);
        Py_END_ALLOW_THREADS
        gyre_py_threads_end(&threads);
        finished = !status ? gyre_py_result_finish(&c.result) : gyre_py_raise(status, &err);
    }
    close_call(&c);
    return finished;
}

const char gyre_py_gate_sums_gradient_doc[] =
    "gate_sums_gradient($module, dquery_gate_sums, dkey_gate_sums=None, *, layout=None, starts=None"
    ")\n--\n\n"
    "The gradient to log_gates, given those to the sums of queries and of keys, which attention_gradient returns.\n"
    "\n"
    "At each token: both added over it and the tokens after it in its sequence, in double.  Arguments as in\n"
    "gate_sums; float32 or float64.  Returns an array shaped and typed as the first.  Raises gyre.Error.";
PyObject *gyre_py_gate_sums_gradient(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    gates_call c = {0};
    PyObject *a[5], *finished = NULL;
    (void)self;
    if (gyre_py_arguments(gyre_py_gate_sums_gradient_doc, args, count, keywords, a) < 0) return NULL;
    if (begin_rows(&c, a[0], "dquery_gate_sums", a[2]) == 0 && view_rows(&c, 0, GYRE_PY_LONG_REAL, long_reals) == 0 &&
        (!a[1] || open_second(&c, a[1], "dkey_gate_sums") == 0) && read_starts(&c, a[3]) == 0 &&
        make_result(&c, c.views[0].dtype) == 0) {
        gyre_error err = {0};
        gyre_status status;
        gyre_py_threads threads = gyre_py_threads_begin(gyre_py_elements(c.out.shape) < ONE_THREAD_ELEMENTS);
        Py_BEGIN_ALLOW_THREADS
        status = gyre_gate_sums_gradient(c.views, c.starts, c.sequences, &c.out, gyre_py_exec(&threads), &err);
        Py_END_ALLOW_THREADS
        gyre_py_threads_end(&threads);
        finished = !status ? gyre_py_result_finish(&c.result) : gyre_py_raise(status, &err);
    }
    close_call(&c);
    return finished;
}
