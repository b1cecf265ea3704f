/* py_layout.c: axes of arrays as axes of views, and positions. */
#include "py_array.h"

#include <stdio.h>
#include <string.h>

static int fail_layout(const char *text) {
    gyre_py_fail(GYRE_EINVAL, "layout",
                 "layout: is '%.20s', not letters of axes such as 'bhsd', 'bshd' or 'thd': b batch, s or t token, h head, "
                 "d channel",
                 text);
    return -1;
}

int gyre_py_layout_read(PyObject *object, const char *standard, gyre_py_layout *out) {
    const char *text = standard;
    if (object && !PyUnicode_Check(object)) return fail_layout("no text");
    if (object && !(text = PyUnicode_AsUTF8AndSize(object, NULL))) return -1;
    out->axis[0] = out->axis[1] = out->axis[2] = out->axis[3] = -1;
    out->ndim = 0;
    for (const char *letter = text; *letter; letter++) {
        const int axis = *letter == 'b'                     ? 0
                         : *letter == 's' || *letter == 't' ? 1
                         : *letter == 'h'                   ? 2
                         : *letter == 'd'                   ? 3
                                                            : -1;
        if (axis < 0 || out->axis[axis] >= 0) return fail_layout(text);
        out->axis[axis] = out->ndim++;
    }
    if (out->axis[1] < 0 || out->axis[3] < 0) return fail_layout(text);
    memcpy(out->text, text, (size_t)out->ndim);
    out->text[out->ndim] = 0;
    return 0;
}

int gyre_py_array_view(const gyre_py_array *array, const gyre_py_layout *layout, gyre_view *out) {
    if (array->ndim != layout->ndim) {
        gyre_py_fail(GYRE_ESHAPE, array->name, "%s: has %d axes, but layout '%s' has %d: pass layout=", array->name,
                     array->ndim, layout->text, layout->ndim);
        return -1;
    }
    out->data = array->data;
    out->dtype = (gyre_dtype)array->dtype;
    for (int i = 0; i < 4; i++) {
        out->shape[i] = layout->axis[i] < 0 ? 1 : array->shape[layout->axis[i]];
        out->stride[i] = layout->axis[i] < 0 ? 0 : array->stride[layout->axis[i]];
    }
    return 0;
}

gyre_cview gyre_py_const(const gyre_view *view) {
    return gyre_const(*view);
}

/* -- positions -- */

static int fail_positions(const gyre_py_positions_request *r, const gyre_py_array *array) {
    char shape[96] = "[";
    for (int i = 0; i < array->ndim; i++) {
        const size_t used = strlen(shape);
        snprintf(shape + used, sizeof shape - used, "%s%lld", i ? ", " : "", (long long)array->shape[i]);
    }
    if (r->axes > 1)
        gyre_py_fail(GYRE_ESHAPE, r->name,
                     "%s: has shape %s], not [tokens], [axes, tokens] or [axes, batch, tokens] with %lld axes, batch %lld, "
                     "%lld tokens",
                     r->name, shape, (long long)r->axes, (long long)r->batch, (long long)r->tokens);
    else
        gyre_py_fail(GYRE_ESHAPE, r->name,
                     "%s: has shape %s], not [tokens] or [batch, tokens] with batch %lld and %lld tokens", r->name, shape,
                     (long long)r->batch, (long long)r->tokens);
    return -1;
}

/* Which axis of the array counts what; -1 = none. */
static int match_axes(const gyre_py_positions_request *r, const gyre_py_array *array, gyre_positions *out) {
    const int token = array->ndim - 1;
    const int axis = r->axes > 1 && array->ndim >= 2 ? 0 : -1;
    const int batch = array->ndim - 1 - (axis >= 0) > 0 ? array->ndim - 2 : -1;
    if (array->ndim < 1 || array->ndim > 2 + (r->axes > 1) || array->shape[token] != r->tokens) return -1;
    if (axis >= 0 && array->shape[axis] != r->axes) return -1;
    if (batch >= 0 && array->shape[batch] != r->batch && array->shape[batch] != 1) return -1;
    out->stride_token = array->stride[token];
    out->stride_axis = axis >= 0 ? array->stride[axis] : 0;
    out->stride_batch = batch >= 0 && array->shape[batch] > 1 ? array->stride[batch] : 0;
    return 0;
}

int gyre_py_positions(PyObject *object, const gyre_py_positions_request *r, gyre_positions *out, gyre_py_array *array) {
    if (!object) return 0;
    if (PyLong_Check(object)) return gyre_py_integer(object, r->name, &out->base);
    if (gyre_py_array_open(array, object, r->name) < 0) return -1;
    if (array->ndim == 0 && PyIndex_Check(object)) { /* a number of numpy or torch */
        gyre_py_array_close(array);
        return gyre_py_integer(object, r->name, &out->base);
    }
    if (gyre_py_array_is(array, GYRE_PY_WHOLE, "int32 or int64") == 0) {
        if (match_axes(r, array, out) == 0) {
            out->data = array->data;
            out->dtype = (gyre_dtype)array->dtype;
            return 0;
        }
        fail_positions(r, array);
    }
    gyre_py_array_close(array);
    return -1;
}
