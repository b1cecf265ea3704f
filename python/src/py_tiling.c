/* py_tiling.c: what the calls of attention share that have arguments of their own. */
#include "py_attention.h"

#include <stdlib.h>
#include <string.h>

const char gyre_py_reals[] = "float16, bfloat16, float32 or float64";

void gyre_py_tiled_close(gyre_py_tiled *t) {
    enum { ARRAYS = 6 };
    gyre_py_array *const arrays[ARRAYS] = {&t->q, &t->k, &t->v, &t->dout, &t->out, &t->lse};
    for (int i = 0; i < ARRAYS; i++)
        gyre_py_array_close(arrays[i]);
    for (int i = 0; i < GYRE_PY_TILED_RESULTS; i++)
        gyre_py_result_drop(&t->results[i]);
    for (int i = 0; i < GYRE_PY_TILED_LISTS; i++)
        free(t->lists[i]);
    free(t->memory);
}

/* -- arguments -- */

int gyre_py_tiled_rows(const gyre_py_tiled *t, gyre_py_array *array, PyObject *object, const char *name, gyre_view *view) {
    return gyre_py_array_open(array, object, name) < 0 || gyre_py_array_is(array, GYRE_PY_REAL, gyre_py_reals) < 0 ||
                   gyre_py_array_view(array, &t->layout, view) < 0
               ? -1
               : 0;
}

int gyre_py_tiled_open(gyre_py_tiled *t, PyObject *const *qkv, PyObject *layout, gyre_cview *const views[3]) {
    static const char *const names[] = {"q", "k", "v"};
    gyre_py_array *const arrays[] = {&t->q, &t->k, &t->v};
    gyre_view view;
    if (gyre_py_array_open(&t->q, qkv[0], "q") < 0 || gyre_py_array_is(&t->q, GYRE_PY_REAL, gyre_py_reals) < 0 ||
        gyre_py_layout_read(layout, t->q.ndim == 3 ? "thd" : "bhsd", &t->layout) < 0 ||
        gyre_py_array_view(&t->q, &t->layout, &view) < 0)
        return -1;
    *views[0] = gyre_py_const(&view);
    for (int i = 1; i < 3; i++) {
        if (gyre_py_tiled_rows(t, arrays[i], qkv[i], names[i], &view) < 0) return -1;
        *views[i] = gyre_py_const(&view);
    }
    return 0;
}

int gyre_py_tiled_read_lists(gyre_py_tiled *t, PyObject *const *o, int64_t batch) {
    int64_t starts = -1;
    if (!o[0] != !o[1]) {
        const char *const name = o[0] ? "key_starts" : "query_starts";
        gyre_py_fail(GYRE_EINVAL, name, "%s: missing: a packed batch needs query_starts and key_starts", name);
        return -1;
    }
    if (gyre_py_list(o[0], "query_starts", &starts, &t->lists[0]) < 0) return -1;
    if (o[0] && starts < 2) {
        gyre_py_fail(GYRE_ESHAPE, "query_starts", "query_starts: has %lld numbers, not one more than there are sequences",
                     (long long)starts);
        return -1;
    }
    int64_t rows = o[0] ? starts - 1 : batch;
    if (gyre_py_list(o[1], "key_starts", &starts, &t->lists[1]) < 0 ||
        gyre_py_list(o[2], "key_first", &rows, &t->lists[2]) < 0 || gyre_py_list(o[3], "key_end", &rows, &t->lists[3]) < 0)
        return -1;
    t->sequences = o[0] ? rows : 0;
    return 0;
}

int gyre_py_tiled_factor(PyObject *object, const char *name, double *to) {
    if (gyre_py_number(object, name, to) < 0) return -1;
    if (!object || *to != 0) return 0;
    gyre_py_fail(GYRE_EINVAL, name, "%s: is 0, which would switch its term off; leave it out for its default", name);
    return -1;
}

/* -- results -- */

/* Shapes in the caller's order: of out, and of lse, whose number of axes is returned. */
static int result_shapes(const gyre_py_tiled *t, int64_t channels, int64_t out[GYRE_PY_MAX_DIMS],
                         int64_t lse[GYRE_PY_MAX_DIMS]) {
    const int channel = t->layout.axis[3];
    int n = 0;
    memcpy(out, t->q.shape, sizeof t->q.shape);
    out[channel] = channels;
    for (int i = 0; i < t->q.ndim; i++)
        if (i != channel) lse[n++] = t->q.shape[i];
    return n;
}

int gyre_py_tiled_make_out(gyre_py_tiled *t, int64_t channels, gyre_view *out, gyre_view *lse) {
    const gyre_py_array *q = &t->q;
    int64_t shape[GYRE_PY_MAX_DIMS] = {0}, rows[GYRE_PY_MAX_DIMS] = {0};
    const int n = result_shapes(t, channels, shape, rows);
    return gyre_py_result_new(&t->results[0], q, (gyre_dtype)q->dtype, q->ndim, shape) < 0 ||
                   gyre_py_array_view(&t->results[0].array, &t->layout, out) < 0 ||
                   gyre_py_result_new(&t->results[1], q, GYRE_DTYPE_F32, n, rows) < 0 ||
                   gyre_py_rows_view(&t->layout, &t->results[1].array, lse) < 0
               ? -1
               : 0;
}

int gyre_py_tiled_open_written(gyre_py_tiled *t, PyObject *const written[3], int64_t channels, gyre_view *out,
                               gyre_view *lse) {
    int64_t shape[GYRE_PY_MAX_DIMS] = {0}, rows[GYRE_PY_MAX_DIMS] = {0};
    const int n = result_shapes(t, channels, shape, rows);
    if (gyre_py_tiled_rows(t, &t->dout, written[0], "dout", &t->dout_view) < 0 ||
        gyre_py_tiled_rows(t, &t->out, written[1], "out", out) < 0 ||
        gyre_py_gate_sums_open(&t->lse, written[2], "lse", &t->layout, lse) < 0)
        return -1;
    return gyre_py_attention_shape_is(&t->dout, shape, t->q.ndim) < 0 ||
                   gyre_py_attention_shape_is(&t->out, shape, t->q.ndim) < 0 ||
                   gyre_py_attention_shape_is(&t->lse, rows, n) < 0
               ? -1
               : 0;
}

int gyre_py_tiled_make_rows(gyre_py_tiled *t, int i, const gyre_py_array *of, gyre_view *view) {
    if (gyre_py_result_new(&t->results[i], of, (gyre_dtype)of->dtype, of->ndim, of->shape) < 0) return -1;
    return gyre_py_array_view(&t->results[i].array, &t->layout, view);
}

int gyre_py_tiled_make_table(gyre_py_tiled *t, int i, const gyre_py_array *of) {
    const gyre_dtype dtype = of->dtype == GYRE_DTYPE_F64 ? GYRE_DTYPE_F64 : GYRE_DTYPE_F32;
    if (gyre_py_result_new(&t->results[i], of, dtype, of->ndim, of->shape) < 0) return -1;
    memset(t->results[i].array.data, 0, (size_t)gyre_py_bytes(dtype, of->ndim, of->shape));
    return 0;
}

PyObject *gyre_py_tiled_finish(gyre_py_tiled *t, int count) {
    PyObject *all = PyTuple_New(count);
    for (int i = 0; all && i < count; i++) {
        PyObject *one = t->results[i].memory ? gyre_py_result_finish(&t->results[i]) : Py_None;
        if (one == Py_None) Py_INCREF(one);
        if (!one || PyTuple_SetItem(all, i, one) < 0) Py_CLEAR(all);
    }
    return all;
}

void *gyre_py_tiled_scratch(gyre_py_tiled *t, size_t bytes) {
    t->memory = malloc(bytes + 64);
    if (!t->memory) {
        PyErr_NoMemory();
        return NULL;
    }
    return t->memory + (64 - (uintptr_t)t->memory % 64) % 64;
}
