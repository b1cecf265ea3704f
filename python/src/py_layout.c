/* py_layout.c: axes of arrays as axes of views, and positions. */
#include "py_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fail_layout(PyObject *object) {
    char shown[40];
    gyre_py_show(object, shown, sizeof shown);
    gyre_py_fail(
        GYRE_EINVAL, "layout",
        "layout: is %s, not letters of axes such as 'bhsd', 'bshd' or 'thd': b batch, s or t token, h head, d channel",
        shown);
    return -1;
}

int gyre_py_layout_of_tokens(PyObject *object, const char *standard, gyre_py_layout *out) {
    const char *text = standard;
    if (object && (!PyUnicode_Check(object) || !(text = PyUnicode_AsUTF8AndSize(object, NULL)))) return fail_layout(object);
    out->axis[0] = out->axis[1] = out->axis[2] = out->axis[3] = -1;
    out->ndim = 0;
    for (const char *letter = text; *letter; letter++) {
        const int axis = *letter == 'b'                     ? 0
                         : *letter == 's' || *letter == 't' ? 1
                         : *letter == 'h'                   ? 2
                         : *letter == 'd'                   ? 3
                                                            : -1;
        if (axis < 0 || out->axis[axis] >= 0) return fail_layout(object);
        out->axis[axis] = out->ndim++;
    }
    if (out->axis[1] < 0) return fail_layout(object);
    memcpy(out->text, text, (size_t)out->ndim);
    out->text[out->ndim] = 0;
    return 0;
}

int gyre_py_layout_read(PyObject *object, const char *standard, gyre_py_layout *out) {
    if (gyre_py_layout_of_tokens(object, standard, out) < 0) return -1;
    return out->axis[3] < 0 ? fail_layout(object) : 0;
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

int64_t gyre_py_elements(const int64_t shape[4]) {
    int64_t elements = 1;
    for (int i = 0; i < 4; i++)
        if (shape[i] == 0) return 0;
    for (int i = 0; i < 4; i++)
        elements = elements > INT64_MAX / shape[i] ? INT64_MAX : elements * shape[i];
    return elements;
}

void gyre_py_shape_text(const gyre_py_array *array, char *out, size_t size) {
    snprintf(out, size, "[");
    for (int i = 0; i < array->ndim; i++) {
        const size_t used = strlen(out);
        snprintf(out + used, size - used, "%s%lld", i ? ", " : "", (long long)array->shape[i]);
    }
    const size_t used = strlen(out);
    snprintf(out + used, size - used, "]");
}

static int is_same_memory(const gyre_view *a, const gyre_view *b) {
    if (a->data != b->data) return 0;
    for (int i = 0; i < 4; i++)
        if (a->shape[i] > 1 && a->stride[i] != b->stride[i]) return 0;
    return 1;
}

/* out = axes of more than one element, by rising distance of their elements; their number. */
static int sort_axes(const gyre_py_array *array, int *axes) {
    int count = 0;
    for (int i = 0; i < array->ndim; i++) {
        int at = count;
        if (array->shape[i] == 1) continue;
        for (; at > 0 && llabs(array->stride[axes[at - 1]]) > llabs(array->stride[i]); at--)
            axes[at] = axes[at - 1];
        axes[at] = i;
        count++;
    }
    return count;
}

enum { MOST_COUNTED = 1 << 20 };

/* 1 if two elements of an array that spans `span` elements of memory share an address.  Each address is looked at. */
static int counted_twice(const gyre_py_array *array, const int *axes, int count, int64_t span) {
    char *seen = calloc((size_t)span, 1);
    int64_t at[GYRE_PY_MAX_DIMS] = {0}, place = 0;
    int twice = !seen, axis = 0;
    while (!twice && axis < count) {
        twice = seen[place]++ != 0;
        for (axis = 0; axis < count; axis++) { /* the next element */
            const int64_t stride = llabs(array->stride[axes[axis]]);
            place += stride;
            if (++at[axis] < array->shape[axes[axis]]) break;
            place -= stride * at[axis];
            at[axis] = 0;
        }
    }
    free(seen);
    return twice;
}

int gyre_py_check_itself(const gyre_py_array *array) {
    int axes[GYRE_PY_MAX_DIMS], apart = 1;
    int64_t span = 1;
    for (int i = 0; i < array->ndim; i++)
        if (array->shape[i] == 0) return 0;
    const int count = sort_axes(array, axes);
    for (int i = 0; i < count; i++) {
        const int64_t extent = array->shape[axes[i]], stride = llabs(array->stride[axes[i]]);
        if (stride == 0) {
            gyre_py_fail(GYRE_EINVAL, array->name, "%s: the stride of axis %d is 0, so its %lld elements share one address",
                         array->name, axes[i], (long long)extent);
            return -1;
        }
        apart = apart && stride >= span; /* beyond all elements of the axes before */
        span = stride > (INT64_MAX - span) / extent ? INT64_MAX : span + stride * (extent - 1);
    }
    if (apart || (span <= MOST_COUNTED && !counted_twice(array, axes, count, span))) return 0;
    gyre_py_fail(GYRE_EINVAL, array->name, "%s: its elements share addresses with each other: pass memory with one for each",
                 array->name);
    return -1;
}

int gyre_py_check_apart(const char *out_name, const gyre_view *out, const char *name, const gyre_view *view) {
    const gyre_cview a = gyre_const(*out), b = gyre_const(*view);
    if (!gyre_views_overlap(&a, &b)) return 0;
    gyre_py_fail(GYRE_EINVAL, out_name, "%s: shares memory with %s, which would be overwritten: pass separate memory",
                 out_name, name);
    return -1;
}

int gyre_py_check_out(const gyre_py_array *in, const gyre_view *in_view, const gyre_py_array *out,
                      const gyre_view *out_view) {
    if (memcmp(in_view->shape, out_view->shape, sizeof in_view->shape) != 0) {
        char given[180], wanted[180];
        gyre_py_shape_text(out, given, sizeof given);
        gyre_py_shape_text(in, wanted, sizeof wanted);
        gyre_py_fail(GYRE_ESHAPE, out->name, "%s: has shape %s, but %s has %s", out->name, given, in->name, wanted);
        return -1;
    }
    if (gyre_py_elements(out_view->shape) == 0) return 0;
    const gyre_cview a = gyre_const(*in_view), b = gyre_const(*out_view);
    if (is_same_memory(in_view, out_view) || !gyre_views_overlap(&a, &b)) return 0;
    gyre_py_fail(GYRE_EINVAL, out->name,
                 "%s: shares a part of its memory with %s: pass %s itself for a result in place, or separate memory",
                 out->name, in->name, in->name);
    return -1;
}

int gyre_py_shift(PyObject *object, const char *name, int64_t axes, int64_t out[GYRE_MAX_AXES]) {
    PyObject *one = PyIndex_Check(object) && !PyBool_Check(object) ? PyNumber_Index(object) : NULL;
    if (one) {
        const int status = gyre_py_integer(one, name, &out[0]);
        Py_DECREF(one);
        for (int i = 1; status == 0 && i < GYRE_MAX_AXES; i++)
            out[i] = out[0];
        return status;
    }
    if (gyre_py_forget() < 0) return -1;
    PyObject *list = PySequence_List(object);
    if (!list || axes == 0 || PyList_Size(list) != axes) {
        char shown[100];
        gyre_py_show(object, shown, sizeof shown);
        if (axes == 0)
            gyre_py_fail(GYRE_EINVAL, name, "%s: is %s, not a whole number: layers have different numbers of axes", name,
                         shown);
        else
            gyre_py_fail(GYRE_EINVAL, name, "%s: is %s, not a whole number or a list of %lld, one for each axis", name,
                         shown, (long long)axes);
        Py_XDECREF(list);
        return -1;
    }
    int status = 0;
    for (Py_ssize_t i = 0; status == 0 && i < axes; i++)
        status = gyre_py_integer(PyList_GetItem(list, i), name, &out[i]);
    Py_DECREF(list);
    return status;
}

/* -- lists -- */

int gyre_py_list(PyObject *object, const char *name, int64_t *count, int64_t **list) {
    gyre_py_array array;
    if (!object) return 0;
    if (gyre_py_array_open(&array, object, name) < 0) return -1;
    int status = gyre_py_array_is(&array, GYRE_PY_WHOLE, "int32 or int64");
    const int fits = array.ndim == 1 && (*count < 0 || array.shape[0] == *count);
    if (status == 0 && !fits) {
        char shape[180];
        gyre_py_shape_text(&array, shape, sizeof shape);
        gyre_py_fail(GYRE_ESHAPE, name, "%s: has shape %s, not [%lld]: a number for each row or sequence", name, shape,
                     (long long)(*count < 0 ? 2 : *count));
        status = -1;
    }
    const int64_t bytes = status == 0 ? gyre_py_bytes(GYRE_DTYPE_I64, 1, array.shape) : -1;
    if (bytes >= 0 && !(*list = malloc((size_t)bytes + sizeof **list))) PyErr_NoMemory();
    status = bytes >= 0 && *list ? 0 : -1;
    for (int64_t i = 0; status == 0 && i < array.shape[0]; i++) {
        const int64_t at = i * array.stride[0];
        (*list)[i] = array.dtype == GYRE_DTYPE_I32 ? ((const int32_t *)array.data)[at] : ((const int64_t *)array.data)[at];
    }
    if (status == 0) *count = array.shape[0];
    gyre_py_array_close(&array);
    return status;
}

/* -- positions -- */

static int fail_positions(const gyre_py_positions_request *r, const gyre_py_array *array) {
    char shape[180];
    gyre_py_shape_text(array, shape, sizeof shape);
    if (r->axes > 1)
        gyre_py_fail(GYRE_ESHAPE, r->name,
                     "%s: has shape %s, not [tokens], [axes, tokens] or [axes, batch, tokens] with %lld axes, batch %lld, "
                     "%lld tokens",
                     r->name, shape, (long long)r->axes, (long long)r->batch, (long long)r->tokens);
    else
        gyre_py_fail(GYRE_ESHAPE, r->name,
                     "%s: has shape %s, not [tokens] or [batch, tokens] with batch %lld and %lld tokens", r->name, shape,
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
    out->one_position = array->stride[token] == 0 && r->tokens > 1; /* the caller broadcast one */
    return 0;
}

int gyre_py_positions_open(PyObject *object, const char *name, gyre_positions *out, gyre_py_array *array) {
    if (!object) return 0;
    if (PyBool_Check(object)) {
        gyre_py_fail(GYRE_EINVAL, name, "%s: is %s, not a whole number or an array of them", name,
                     object == Py_True ? "True" : "False");
        return -1;
    }
    if (PyLong_Check(object)) return gyre_py_integer(object, name, &out->base);
    if (gyre_py_array_open(array, object, name) < 0) return -1;
    const int is_truth = array->dtype < 0 && strncmp(array->other_dtype, "bool", 4) == 0;
    if (array->ndim == 0 && !is_truth && PyIndex_Check(object)) { /* a number of numpy or torch */
        gyre_py_array_close(array);
        array->object = NULL;
        return gyre_py_integer(object, name, &out->base);
    }
    if (gyre_py_array_is(array, GYRE_PY_WHOLE, "int32 or int64") == 0) return 0;
    gyre_py_array_close(array);
    return -1;
}

int gyre_py_positions_match(const gyre_py_positions_request *r, gyre_positions *out, const gyre_py_array *array) {
    if (!array->object) return 0;
    if (match_axes(r, array, out) < 0) return fail_positions(r, array);
    out->data = array->data;
    out->dtype = (gyre_dtype)array->dtype;
    return 0;
}

int gyre_py_positions(PyObject *object, const gyre_py_positions_request *r, gyre_positions *out, gyre_py_array *array) {
    if (gyre_py_positions_open(object, r->name, out, array) < 0) return -1;
    return gyre_py_positions_match(r, out, array);
}
