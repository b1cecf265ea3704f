/* py_tables.c: tables of a scheme from arrays, and memory for their gradients. */
#include "py_encoding.h"

#include <string.h>

const char *const gyre_py_table_names[GYRE_PY_TABLES] = {"input", "query",        "key",          "value",
                                                         "bias",  "content_bias", "position_bias"};

static gyre_cview *view_of(gyre_tables *tables, int i) {
    gyre_cview *const views[GYRE_PY_TABLES] = {&tables->input, &tables->query,        &tables->key,          &tables->value,
                                               &tables->bias,  &tables->content_bias, &tables->position_bias};
    return views[i];
}

/* Axes of extent 1 may be left out: [rows, heads] is [1, 1, rows, heads], [heads, channels] is [1, heads, 1, channels]. */
static int match_shape(const gyre_py_array *array, const int64_t shape[4], gyre_cview *out) {
    int from = 0;
    for (int i = 0; i < 4; i++) {
        const int left = array->ndim - from, rest = 4 - i;
        const int skip = shape[i] == 1 && left < rest && !(from < array->ndim && array->shape[from] == 1 && left == rest);
        out->shape[i] = shape[i];
        out->stride[i] = 0;
        if (skip) continue;
        if (from >= array->ndim || array->shape[from] != shape[i]) return -1;
        out->stride[i] = array->stride[from++];
    }
    return from == array->ndim ? 0 : -1;
}

static int open_table(gyre_py_tables *t, int which, PyObject *object, const gyre_encoding *encoding) {
    int64_t s[4] = {0};
    gyre_py_array *array = &t->arrays[which];
    if (gyre_encoding_table_shape(encoding, (gyre_table)which, s) || s[3] == 0) {
        gyre_py_fail(GYRE_EINVAL, "tables", "tables: %s has no table '%s'",
                     gyre_kind_name(gyre_encoding_get_config(encoding)->kind), gyre_py_table_names[which]);
        return -1;
    }
    if (gyre_py_array_open(array, object, gyre_py_table_names[which]) < 0 ||
        gyre_py_array_is(array, GYRE_PY_LONG_REAL, "float32 or float64") < 0)
        return -1;
    gyre_cview *view = view_of(&t->tables, which);
    view->data = array->data;
    view->dtype = (gyre_dtype)array->dtype;
    if (match_shape(array, s, view) == 0) return 0;
    gyre_py_fail(GYRE_ESHAPE, "tables",
                 "tables: '%s' is not of shape [%lld, %lld, %lld, %lld] (axes of extent 1 may be left out)",
                 gyre_py_table_names[which], (long long)s[0], (long long)s[1], (long long)s[2], (long long)s[3]);
    return -1;
}

static int table_index(PyObject *name) {
    for (int i = 0; i < GYRE_PY_TABLES && PyUnicode_Check(name); i++)
        if (PyUnicode_CompareWithASCIIString(name, gyre_py_table_names[i]) == 0) return i;
    gyre_py_fail(GYRE_EINVAL, "tables",
                 "tables: a key is none of 'input', 'query', 'key', 'value', 'bias', 'content_bias', 'position_bias'");
    return -1;
}

/* The one table of a scheme; -1 with an exception where it has none or several. */
static int only_table(const gyre_encoding *encoding) {
    int found = -1, tables = 0;
    for (int i = 0; i < GYRE_PY_TABLES; i++) {
        int64_t s[4] = {0};
        if (!gyre_encoding_table_shape(encoding, (gyre_table)i, s) && s[3] > 0) {
            found = i;
            tables++;
        }
    }
    if (tables == 1) return found;
    gyre_py_fail(GYRE_EINVAL, "tables", "tables: %s has %d tables: pass a dict of arrays by name",
                 gyre_kind_name(gyre_encoding_get_config(encoding)->kind), tables);
    return -1;
}

int gyre_py_tables_open(gyre_py_tables *t, PyObject *object, const gyre_encoding *encoding) {
    if (!object) return 0;
    if (!encoding) {
        gyre_py_fail(GYRE_EINVAL, "tables", "tables: given without an encoding");
        return -1;
    }
    if (!PyDict_Check(object)) {
        const int which = only_table(encoding);
        return which < 0 ? -1 : open_table(t, which, object, encoding);
    }
    PyObject *items = PyDict_Items(object); /* a copy: code of the arrays may change the dict */
    int status = items ? 0 : -1;
    for (Py_ssize_t i = 0; status == 0 && i < PyList_Size(items); i++) {
        PyObject *const item = PyList_GetItem(items, i);
        const int which = table_index(PyTuple_GetItem(item, 0));
        status = which < 0 ? -1 : open_table(t, which, PyTuple_GetItem(item, 1), encoding);
    }
    Py_XDECREF(items);
    return status;
}

void gyre_py_tables_close(gyre_py_tables *t) {
    for (int i = 0; i < GYRE_PY_TABLES; i++)
        gyre_py_array_close(&t->arrays[i]);
}

/* -- gradients -- */

static gyre_view *gradient_of(gyre_table_gradients *g, int i) {
    gyre_view *const views[GYRE_PY_TABLES + 1] = {&g->input, &g->query,        &g->key,           &g->value,
                                                  &g->bias,  &g->content_bias, &g->position_bias, &g->sink_logits};
    return views[i];
}

/* Zeros, shaped as the array of the caller. */
static int make_gradient(gyre_py_table_gradients *g, int i, const gyre_py_array *like, const gyre_cview *table,
                         gyre_dtype dtype) {
    gyre_py_result *result = &g->results[i];
    if (gyre_py_result_new(result, like, dtype, like->ndim, like->shape) < 0) return -1;
    gyre_view *view = gradient_of(&g->views, i);
    view->data = result->array.data;
    view->dtype = dtype;
    int64_t dense = 1;
    for (int axis = 3; axis >= 0; axis--) {
        view->shape[axis] = table->shape[axis];
        view->stride[axis] = dense;
        dense *= table->shape[axis];
    }
    memset(result->array.data, 0, (size_t)dense * gyre_dtype_size(dtype));
    return 0;
}

int gyre_py_table_gradients_make(gyre_py_table_gradients *g, const gyre_py_tables *tables, gyre_dtype dtype) {
    for (int i = 0; i < GYRE_PY_TABLES; i++) {
        const gyre_cview *view = view_of((gyre_tables *)&tables->tables, i);
        if (view->data && make_gradient(g, i, &tables->arrays[i], view, dtype) < 0) return -1;
    }
    return 0;
}

PyObject *gyre_py_table_gradients_finish(gyre_py_table_gradients *g) {
    PyObject *dict = PyDict_New();
    for (int i = 0; dict && i <= GYRE_PY_TABLES; i++) {
        if (!g->results[i].memory) continue;
        PyObject *value = gyre_py_result_finish(&g->results[i]);
        const char *name = i < GYRE_PY_TABLES ? gyre_py_table_names[i] : "sink_logits";
        if (!value || PyDict_SetItemString(dict, name, value) < 0) Py_CLEAR(dict);
        Py_XDECREF(value);
    }
    return dict;
}

void gyre_py_table_gradients_drop(gyre_py_table_gradients *g) {
    for (int i = 0; i <= GYRE_PY_TABLES; i++)
        gyre_py_result_drop(&g->results[i]);
}
