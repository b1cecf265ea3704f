/* py_contextual.c: attention with positions that queries count (CoPE), and its gradient. */
#include "py_attention.h"

#include "gyre/gyre_contextual.h"

#include <stdlib.h>
#include <string.h>

/* Arrays of a call, in the order of arrays[]. */
typedef enum part { Q, K, V, EMBEDDINGS, GATE_KEYS, DOUT, OUT, LSE, PARTS } part;
enum { LISTS = 4, GRADIENTS = 5 };
typedef struct contextual_call {
    gyre_contextual_args args;
    gyre_py_layout layout;
    gyre_py_array arrays[PARTS];
    int64_t *lists[LISTS]; /* query_starts, key_starts, key_first, key_end */
    gyre_py_result results[GRADIENTS];
    gyre_contextual_gradients to;
    gyre_view dout;
    char *memory; /* of scratch, which begins at the next multiple of 64 */
    size_t bytes;
} contextual_call;

/* Names of the options that both calls have, and their order. */
#define OPTION_NAMES                                                                                                        \
    "gate_keys", "scale", "gate_scale", "position_scale", "layout", "query_starts", "key_starts", "key_first", "key_end"
enum { GATES, SCALE, GATE_SCALE, POSITION_SCALE, LAYOUT, STARTS, FIRSTS = STARTS + 2, OPTION_COUNT = STARTS + LISTS };
static const char reals[] = "float16, bfloat16, float32 or float64";

static void close_call(contextual_call *c) {
    for (int i = 0; i < PARTS; i++)
        gyre_py_array_close(&c->arrays[i]);
    for (int i = 0; i < GRADIENTS; i++)
        gyre_py_result_drop(&c->results[i]);
    for (int i = 0; i < LISTS; i++)
        free(c->lists[i]);
    free(c->memory);
}

static int open_rows(contextual_call *c, part which, PyObject *object, const char *name, gyre_view *view) {
    gyre_py_array *array = &c->arrays[which];
    return gyre_py_array_open(array, object, name) < 0 || gyre_py_array_is(array, GYRE_PY_REAL, reals) < 0 ||
                   gyre_py_array_view(array, &c->layout, view) < 0
               ? -1
               : 0;
}

static int open_input(contextual_call *c, part which, PyObject *object, const char *name, gyre_cview *to) {
    gyre_view view;
    if (open_rows(c, which, object, name, &view) < 0) return -1;
    *to = gyre_py_const(&view);
    return 0;
}

/* An array [positions, channels], or [positions, heads, channels], as a view. */
static int view_embeddings(const gyre_py_array *array, gyre_view *view) {
    const gyre_py_layout layout = array->ndim == 2 ? (gyre_py_layout){.axis = {-1, 0, -1, 1}, .ndim = 2, .text = "pd"}
                                                   : (gyre_py_layout){.axis = {-1, 0, 1, 2}, .ndim = 3, .text = "phd"};
    return gyre_py_array_view(array, &layout, view);
}

static int open_embeddings(contextual_call *c, PyObject *object) {
    gyre_py_array *array = &c->arrays[EMBEDDINGS];
    gyre_view view;
    if (gyre_py_array_open(array, object, "embeddings") < 0 || gyre_py_array_is(array, GYRE_PY_REAL, reals) < 0) return -1;
    if (array->ndim != 2 && array->ndim != 3) {
        gyre_py_fail(GYRE_ESHAPE, "embeddings",
                     "embeddings: has %d axes, not [positions, channels] or [positions, heads, channels]", array->ndim);
        return -1;
    }
    if (view_embeddings(array, &view) < 0) return -1;
    c->args.embeddings = gyre_py_const(&view);
    return 0;
}

static int read_lists(contextual_call *c, PyObject *const *o) {
    int64_t starts = -1;
    if (!o[STARTS] != !o[STARTS + 1]) {
        const char *const name = o[STARTS] ? "key_starts" : "query_starts";
        gyre_py_fail(GYRE_EINVAL, name, "%s: missing: a packed batch needs query_starts and key_starts", name);
        return -1;
    }
    if (gyre_py_list(o[STARTS], "query_starts", &starts, &c->lists[0]) < 0) return -1;
    if (o[STARTS] && starts < 2) {
        gyre_py_fail(GYRE_ESHAPE, "query_starts", "query_starts: has %lld numbers, not one more than there are sequences",
                     (long long)starts);
        return -1;
    }
    int64_t rows = o[STARTS] ? starts - 1 : c->args.q.shape[0];
    if (gyre_py_list(o[STARTS + 1], "key_starts", &starts, &c->lists[1]) < 0 ||
        gyre_py_list(o[FIRSTS], "key_first", &rows, &c->lists[2]) < 0 ||
        gyre_py_list(o[FIRSTS + 1], "key_end", &rows, &c->lists[3]) < 0)
        return -1;
    c->args.q_starts = c->lists[0];
    c->args.k_starts = c->lists[1];
    c->args.sequences = o[STARTS] ? rows : 0;
    c->args.k_first = c->lists[2];
    c->args.k_end = c->lists[3];
    return 0;
}

static int read_scale(PyObject *object, const char *name, double *to) {
    if (gyre_py_number(object, name, to) < 0) return -1;
    if (!object || *to != 0) return 0;
    gyre_py_fail(GYRE_EINVAL, name, "%s: is 0, which would switch its term off; leave it out for its default", name);
    return -1;
}

/* inputs: q, k, v, embeddings. */
static int open_call(contextual_call *c, PyObject *const *inputs, PyObject *const *o) {
    gyre_contextual_args *args = &c->args;
    gyre_view q;
    *args = (gyre_contextual_args)GYRE_INIT(gyre_contextual_args);
    if (gyre_py_array_open(&c->arrays[Q], inputs[0], "q") < 0 || gyre_py_array_is(&c->arrays[Q], GYRE_PY_REAL, reals) < 0 ||
        gyre_py_layout_read(o[LAYOUT], c->arrays[Q].ndim == 3 ? "thd" : "bhsd", &c->layout) < 0 ||
        gyre_py_array_view(&c->arrays[Q], &c->layout, &q) < 0)
        return -1;
    args->q = gyre_py_const(&q);
    return open_input(c, K, inputs[1], "k", &args->k) < 0 || open_input(c, V, inputs[2], "v", &args->v) < 0 ||
                   open_embeddings(c, inputs[3]) < 0 ||
                   (o[GATES] && open_input(c, GATE_KEYS, o[GATES], "gate_keys", &args->gate_keys) < 0) ||
                   read_scale(o[SCALE], "scale", &args->scale) < 0 ||
                   read_scale(o[GATE_SCALE], "gate_scale", &args->gate_scale) < 0 ||
                   read_scale(o[POSITION_SCALE], "position_scale", &args->position_scale) < 0 || read_lists(c, o) < 0
               ? -1
               : 0;
}

/* 0 bytes means that the shapes make no sense, which the call itself then says. */
static void *take_scratch(contextual_call *c, int gradient, const gyre_exec *exec) {
    c->bytes = gyre_contextual_scratch(&c->args, gradient, exec);
    c->memory = malloc(c->bytes + 64);
    if (!c->memory) {
        PyErr_NoMemory();
        return NULL;
    }
    return c->memory + (64 - (uintptr_t)c->memory % 64) % 64;
}

/* Shapes in the caller's order: of out, and of lse. */
static int result_shapes(const contextual_call *c, int64_t out[GYRE_PY_MAX_DIMS], int64_t lse[GYRE_PY_MAX_DIMS]) {
    const gyre_py_array *q = &c->arrays[Q];
    const int channel = c->layout.axis[3];
    int n = 0;
    memcpy(out, q->shape, sizeof q->shape);
    out[channel] = c->args.v.shape[3];
    for (int i = 0; i < q->ndim; i++)
        if (i != channel) lse[n++] = q->shape[i];
    return n;
}

/* -- forward -- */

static int make_results(contextual_call *c) {
    const gyre_py_array *q = &c->arrays[Q];
    int64_t out[GYRE_PY_MAX_DIMS] = {0}, lse[GYRE_PY_MAX_DIMS] = {0};
    const int rows = result_shapes(c, out, lse);
    return gyre_py_result_new(&c->results[0], q, (gyre_dtype)q->dtype, q->ndim, out) < 0 ||
                   gyre_py_array_view(&c->results[0].array, &c->layout, &c->args.out) < 0 ||
                   gyre_py_result_new(&c->results[1], q, GYRE_DTYPE_F32, rows, lse) < 0 ||
                   gyre_py_rows_view(&c->layout, &c->results[1].array, &c->args.lse) < 0
               ? -1
               : 0;
}

/* A tuple of results; None where there is none. */
static PyObject *finish_results(contextual_call *c, int count) {
    PyObject *all = PyTuple_New(count);
    for (int i = 0; all && i < count; i++) {
        PyObject *one = c->results[i].memory ? gyre_py_result_finish(&c->results[i]) : Py_None;
        if (one == Py_None) Py_INCREF(one);
        if (!one || PyTuple_SetItem(all, i, one) < 0) Py_CLEAR(all);
    }
    return all;
}

PyObject *gyre_py_contextual_attention(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    static const char *const names[] = {"q", "k", "v", "embeddings", OPTION_NAMES, "lse", NULL};
    static const gyre_py_signature signature = {"contextual_attention", 4, 4, names};
    contextual_call c = {0};
    PyObject *a[4 + OPTION_COUNT + 2], *finished = NULL;
    int wants_lse = 0;
    void *scratch;
    (void)self;
    if (gyre_py_arguments(&signature, args, count, keywords, a) < 0 ||
        gyre_py_truth(a[4 + OPTION_COUNT], "lse", &wants_lse) < 0)
        return NULL;
    gyre_py_threads threads = gyre_py_threads_begin(0);
    if (open_call(&c, a, a + 4) == 0 && make_results(&c) == 0 &&
        (scratch = take_scratch(&c, 0, gyre_py_exec(&threads))) != NULL) {
        gyre_error err = {0};
        gyre_status status;
        Py_BEGIN_ALLOW_THREADS
        status = gyre_contextual_attention(&c.args, scratch, c.bytes, gyre_py_exec(&threads), &err);
        Py_END_ALLOW_THREADS
        finished = status != GYRE_OK ? gyre_py_raise(status, &err)
                   : wants_lse       ? finish_results(&c, 2)
                                     : gyre_py_result_finish(&c.results[0]);
    }
    gyre_py_threads_end(&threads);
    close_call(&c);
    return finished;
}

/* -- the gradient -- */

static int open_written(contextual_call *c, PyObject *dout, PyObject *out, PyObject *lse) {
    int64_t shape[GYRE_PY_MAX_DIMS] = {0}, rows[GYRE_PY_MAX_DIMS] = {0};
    const int n = result_shapes(c, shape, rows);
    gyre_py_array *lse_array = &c->arrays[LSE];
    if (open_rows(c, DOUT, dout, "dout", &c->dout) < 0 || open_rows(c, OUT, out, "out", &c->args.out) < 0 ||
        gyre_py_gate_sums_open(lse_array, lse, "lse", &c->layout, &c->args.lse) < 0)
        return -1;
    return gyre_py_attention_shape_is(&c->arrays[DOUT], shape, c->arrays[Q].ndim) < 0 ||
                   gyre_py_attention_shape_is(&c->arrays[OUT], shape, c->arrays[Q].ndim) < 0 ||
                   gyre_py_attention_shape_is(lse_array, rows, n) < 0
               ? -1
               : 0;
}

static int make_gradients(contextual_call *c) {
    static const part like[GRADIENTS] = {Q, K, V, EMBEDDINGS, GATE_KEYS};
    gyre_view *const views[GRADIENTS] = {&c->to.dq, &c->to.dk, &c->to.dv, &c->to.dembeddings, &c->to.dgate_keys};
    c->to = (gyre_contextual_gradients)GYRE_INIT(gyre_contextual_gradients);
    for (int i = 0; i < GRADIENTS; i++) {
        const gyre_py_array *array = &c->arrays[like[i]];
        const int is_table = like[i] == EMBEDDINGS, wide = array->dtype == GYRE_DTYPE_F64;
        if (!array->object) continue;
        const gyre_dtype dtype = is_table ? (wide ? GYRE_DTYPE_F64 : GYRE_DTYPE_F32) : (gyre_dtype)array->dtype;
        if (gyre_py_result_new(&c->results[i], array, dtype, array->ndim, array->shape) < 0) return -1;
        const gyre_py_array *memory = &c->results[i].array;
        if ((is_table ? view_embeddings(memory, views[i]) : gyre_py_array_view(memory, &c->layout, views[i])) < 0) return -1;
        if (is_table) memset(memory->data, 0, (size_t)gyre_py_bytes(dtype, array->ndim, array->shape));
    }
    return 0;
}

PyObject *gyre_py_contextual_gradient(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    static const char *const names[] = {"dout", "q", "k", "v", "embeddings", "out", "lse", OPTION_NAMES, NULL};
    static const gyre_py_signature signature = {"contextual_gradient", 7, 7, names};
    contextual_call c = {0};
    PyObject *a[7 + OPTION_COUNT + 1], *finished = NULL;
    void *scratch;
    (void)self;
    if (gyre_py_arguments(&signature, args, count, keywords, a) < 0) return NULL;
    gyre_py_threads threads = gyre_py_threads_begin(0);
    if (open_call(&c, a + 1, a + 7) == 0 && open_written(&c, a[0], a[5], a[6]) == 0 && make_gradients(&c) == 0 &&
        (scratch = take_scratch(&c, 1, gyre_py_exec(&threads))) != NULL) {
        const gyre_cview dout = gyre_py_const(&c.dout);
        gyre_error err = {0};
        gyre_status status;
        Py_BEGIN_ALLOW_THREADS
        status = gyre_contextual_gradient(&c.args, &dout, &c.to, scratch, c.bytes, gyre_py_exec(&threads), &err);
        Py_END_ALLOW_THREADS
        finished = status == GYRE_OK ? finish_results(&c, GRADIENTS) : gyre_py_raise(status, &err);
    }
    gyre_py_threads_end(&threads);
    close_call(&c);
    return finished;
}
