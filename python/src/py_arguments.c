/* py_arguments.c: arguments of a fast call, and exceptions. */
#include "py_module.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* -- exceptions -- */

static PyObject *raise_text(gyre_status status, const char *field, const char *text) {
    PyObject *cause_type, *cause, *trace;
    PyErr_Fetch(&cause_type, &cause, &trace); /* an exception of the caller's object, told in text already */
    Py_XDECREF(cause_type);
    Py_XDECREF(cause);
    Py_XDECREF(trace);
    PyObject *error = PyObject_CallFunction(gyre_py.make_error, "isz", (int)status, text, field);
    if (!error) return NULL;
    PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    Py_DECREF(error);
    return NULL;
}

PyObject *gyre_py_fail(gyre_status status, const char *field, const char *format, ...) {
    char text[640];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return raise_text(status, field, text);
}

PyObject *gyre_py_raise(gyre_status status, const gyre_error *err) {
    const char *colon = strstr(err->text, ": ");
    const size_t length = colon ? (size_t)(colon - err->text) : 0;
    char field[64] = "";
    const int is_name = !memchr(err->text, ' ', length) && !memchr(err->text, '/', length); /* not the path of a file */
    if (length > 0 && length < sizeof field && is_name) memcpy(field, err->text, length);
    return raise_text(status, field[0] ? field : NULL, err->text[0] ? err->text : gyre_status_text(status));
}

/* -- arguments -- */

static int name_index(const gyre_py_signature *signature, PyObject *keyword) {
    for (int i = 0; signature->names[i]; i++)
        if (PyUnicode_CompareWithASCIIString(keyword, signature->names[i]) == 0) return i;
    PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument '%U'", signature->function, keyword);
    return -1;
}

static int take_keywords(const gyre_py_signature *signature, PyObject *const *values, PyObject *keywords, PyObject **out) {
    const Py_ssize_t count = PyTuple_Size(keywords);
    for (Py_ssize_t k = 0; k < count; k++) {
        const int i = name_index(signature, PyTuple_GetItem(keywords, k));
        if (i < 0) return -1;
        if (out[i]) {
            PyErr_Format(PyExc_TypeError, "%s() got multiple values for argument '%s'", signature->function,
                         signature->names[i]);
            return -1;
        }
        out[i] = values[k];
    }
    return 0;
}

int gyre_py_arguments(const gyre_py_signature *signature, PyObject *const *args, Py_ssize_t count, PyObject *keywords,
                      PyObject **out) {
    for (int i = 0; signature->names[i]; i++)
        out[i] = NULL;
    if (count > signature->positional) {
        PyErr_Format(PyExc_TypeError, "%s() takes at most %d positional arguments (%zd given)", signature->function,
                     signature->positional, count);
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++)
        out[i] = args[i];
    if (keywords && take_keywords(signature, args + count, keywords, out) < 0) return -1;
    for (int i = 0; i < signature->required; i++)
        if (!out[i]) {
            PyErr_Format(PyExc_TypeError, "%s() missing required argument '%s'", signature->function, signature->names[i]);
            return -1;
        }
    for (int i = 0; signature->names[i]; i++)
        if (out[i] == Py_None && i >= signature->required) out[i] = NULL;
    return 0;
}

static int fail_type(PyObject *object, const char *name, const char *wanted) {
    PyObject *shown = PyObject_Repr(object);
    const char *text = shown ? PyUnicode_AsUTF8AndSize(shown, NULL) : NULL;
    gyre_py_fail(GYRE_EINVAL, name, "%s: is %.80s, not %s", name, text ? text : "no such value", wanted);
    Py_XDECREF(shown);
    return -1;
}

int gyre_py_integer(PyObject *object, const char *name, int64_t *out) {
    if (!object) return 0;
    PyObject *whole = PyNumber_Index(object);
    const long long value = whole ? PyLong_AsLongLong(whole) : -1;
    Py_XDECREF(whole);
    if (value == -1 && PyErr_Occurred()) return fail_type(object, name, "a whole number of 64 bits");
    *out = value;
    return 0;
}

int gyre_py_number(PyObject *object, const char *name, double *out) {
    if (!object) return 0;
    const double value = PyFloat_AsDouble(object);
    if (value == -1 && PyErr_Occurred()) return fail_type(object, name, "a number");
    *out = value;
    return 0;
}

int gyre_py_truth(PyObject *object, const char *name, int *out) {
    if (!object) return 0;
    const int value = PyObject_IsTrue(object);
    if (value < 0) return fail_type(object, name, "True or False");
    *out = value;
    return 0;
}

int gyre_py_word(PyObject *object, const char *name, const char *const *words, int count, int *out) {
    if (!object) return 0;
    for (int i = 0; i < count && PyUnicode_Check(object); i++)
        if (PyUnicode_CompareWithASCIIString(object, words[i]) == 0) {
            *out = i;
            return 0;
        }
    char list[400] = "one of";
    for (int i = 0; i < count; i++) {
        const size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s '%s'", i ? "," : "", words[i]);
    }
    return fail_type(object, name, list);
}
