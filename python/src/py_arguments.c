/* py_arguments.c: arguments of a fast call, and exceptions. */
#include "py_module.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* -- exceptions -- */

int gyre_py_forget(void) {
    if (!PyErr_Occurred()) return 0;
    if (!PyErr_ExceptionMatches(PyExc_Exception)) return -1;
    PyErr_Clear();
    return 0;
}

/* *cause = the pending exception, which is cleared; NULL = none.  -1 where it is one that ends programs. */
static int take_cause(PyObject **cause) {
    PyObject *type, *trace;
    *cause = NULL;
    if (!PyErr_Occurred()) return 0;
    if (!PyErr_ExceptionMatches(PyExc_Exception)) return -1;
    PyErr_Fetch(&type, cause, &trace);
    PyErr_NormalizeException(&type, cause, &trace);
    if (trace) PyException_SetTraceback(*cause, trace);
    Py_XDECREF(type);
    Py_XDECREF(trace);
    return 0;
}

/* A text may hold names of files, and may be cut within a character: what is no UTF-8 becomes U+FFFD. */
static PyObject *raise_text(gyre_status status, const char *field, const char *text) {
    PyObject *cause;
    if (take_cause(&cause) < 0) return NULL;
    PyObject *told = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
    PyObject *named = field ? PyUnicode_DecodeUTF8(field, (Py_ssize_t)strlen(field), "replace") : Py_NewRef(Py_None);
    PyObject *error = told && named ? PyObject_CallFunction(gyre_py.make_error, "iOO", (int)status, told, named) : NULL;
    Py_XDECREF(told);
    Py_XDECREF(named);
    if (!error) {
        Py_XDECREF(cause);
        return NULL;
    }
    if (cause) PyException_SetCause(error, cause); /* takes the reference */
    PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    Py_DECREF(error);
    return NULL;
}

/* Cuts a UTF-8 text before the character that does not fit, and writes it on one line. */
static void cut(const char *text, char *out, size_t size) {
    size_t n = strlen(text);
    if (n >= size) {
        n = size - 4;
        while (n > 0 && ((unsigned char)text[n] & 0xC0) == 0x80)
            n--;
    }
    for (size_t i = 0; i < n; i++)
        out[i] = (char)(text[i] == '\n' ? ' ' : text[i]);
    memcpy(out + n, text[n] ? "..." : "", text[n] ? 4 : 1);
}

void gyre_py_show(PyObject *object, char *out, size_t size) {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *text = PyObject_Repr(object);
    PyObject *bytes = text ? PyUnicode_AsEncodedString(text, "utf-8", "backslashreplace") : NULL;
    const char *shown = bytes ? PyBytes_AsString(bytes) : NULL;
    cut(shown ? shown : "a value that cannot be shown", out, size);
    Py_XDECREF(text);
    Py_XDECREF(bytes);
    if (gyre_py_forget() == 0) {
        PyErr_Restore(type, value, trace);
        return;
    }
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
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

enum { MOST_PARAMETERS = 40, MOST_SHOWN = 64 };

/* A signature, read: its parameters, of which the first `positional` may be given by place. */
typedef struct parameters {
    struct {
        const char *name;
        int length, has_default;
    } all[MOST_PARAMETERS];
    int count, positional;
} parameters;

/* Reads the signature that `doc` begins with: "rotate($self, x, positions=None, *, layout=None)".  By hand, because this is
 * much of the time of a short call.  A class has no $self. */
static void read_signature(const char *doc, parameters *out) {
    const char *at = strchr(doc, '(') + 1;
    out->count = 0;
    out->positional = -1;
    for (int first = 1; *at != ')' && out->count < MOST_PARAMETERS; first = 0) {
        const char *const name = at;
        while (*at != '=' && *at != ',' && *at != ')')
            at++;
        if (*name == '*') {
            out->positional = out->count;
        } else if (!first || *name != '$') {
            out->all[out->count].name = name;
            out->all[out->count].length = (int)(at - name);
            out->all[out->count++].has_default = *at == '=';
        }
        while (*at != ',' && *at != ')')
            at++;
        if (*at == ',') at += 2;
    }
    if (out->positional < 0) out->positional = out->count;
}

/* out = a tuple of the names of the parameters. */
static PyObject *names_of(const parameters *p) {
    PyObject *names = PyTuple_New(p->count);
    for (int i = 0; names && i < p->count; i++) {
        PyObject *name = PyUnicode_FromStringAndSize(p->all[i].name, p->all[i].length);
        if (!name || PyTuple_SetItem(names, i, name) < 0) Py_CLEAR(names);
    }
    return names;
}

/* Writes what gyre._guesses says of a name that no parameter has: "; did you mean causal?", or nothing. */
static void write_hint(const parameters *p, const char *name, char *out, size_t size) {
    PyObject *module = PyImport_ImportModule("gyre._guesses"), *names = module ? names_of(p) : NULL;
    PyObject *found = names ? PyObject_CallMethod(module, "hint", "sO", name, names) : NULL;
    const char *text = found ? PyUnicode_AsUTF8AndSize(found, NULL) : NULL;
    snprintf(out, size, "%s", text ? text : "");
    if (!text) PyErr_Clear();
    Py_XDECREF(found);
    Py_XDECREF(names);
    Py_XDECREF(module);
}

static int unexpected(const char *doc, const parameters *p, const char *name) {
    char text[320], hint[160];
    write_hint(p, name, hint, sizeof hint);
    snprintf(text, sizeof text, "%.*s() got an unexpected keyword argument '%.*s'%s", (int)strcspn(doc, "("), doc,
             MOST_SHOWN, name, hint);
    PyErr_SetString(PyExc_TypeError, text);
    return -1;
}

static int type_error(const char *doc, const char *what, const char *name, int length) {
    char text[160];
    snprintf(text, sizeof text, "%.*s() %s '%.*s'", (int)strcspn(doc, "("), doc, what, length, name);
    PyErr_SetString(PyExc_TypeError, text);
    return -1;
}

static int take_keywords(const char *doc, const parameters *p, PyObject *const *values, PyObject *keywords, PyObject **out) {
    const Py_ssize_t count = PyTuple_Size(keywords);
    for (Py_ssize_t k = 0; k < count; k++) {
        Py_ssize_t length = 0;
        const char *name = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(keywords, k), &length);
        int i = 0;
        if (!name) return -1;
        while (i < p->count && (p->all[i].length != length || memcmp(p->all[i].name, name, (size_t)length) != 0))
            i++;
        if (i == p->count) return unexpected(doc, p, name);
        if (out[i]) return type_error(doc, "got multiple values for argument", name, MOST_SHOWN);
        out[i] = values[k];
    }
    return 0;
}

static int take_arguments(const char *doc, const parameters *p, PyObject *const *args, Py_ssize_t count, PyObject *keywords,
                          PyObject **out) {
    if (count > p->positional) {
        char what[64], given[24];
        snprintf(what, sizeof what, "takes at most %d positional arguments, not", p->positional);
        snprintf(given, sizeof given, "%zd", count);
        return type_error(doc, what, given, MOST_SHOWN);
    }
    for (int i = 0; i < p->count; i++)
        out[i] = i < count ? args[i] : NULL;
    if (keywords && take_keywords(doc, p, args + count, keywords, out) < 0) return -1;
    for (int i = 0; i < p->count; i++) {
        if (!p->all[i].has_default && !out[i])
            return type_error(doc, "missing required argument", p->all[i].name, p->all[i].length);
        if (p->all[i].has_default && out[i] == Py_None) out[i] = NULL;
    }
    return 0;
}

int gyre_py_arguments(const char *doc, PyObject *const *args, Py_ssize_t count, PyObject *keywords, PyObject **out) {
    parameters p;
    read_signature(doc, &p);
    return take_arguments(doc, &p, args, count, keywords, out);
}

int gyre_py_whole_arguments(const char *doc, PyObject *const *args, Py_ssize_t count, PyObject *keywords, int64_t *out) {
    parameters p;
    PyObject *given[MOST_PARAMETERS];
    read_signature(doc, &p);
    if (take_arguments(doc, &p, args, count, keywords, given) < 0) return -1;
    for (int i = 0; i < p.count; i++) {
        char name[32];
        snprintf(name, sizeof name, "%.*s", p.all[i].length, p.all[i].name);
        if (gyre_py_integer(given[i], name, &out[i]) < 0) return -1;
    }
    return 0;
}

int gyre_py_arguments_of_new(const char *doc, PyObject *args, PyObject *keywords, PyObject **out) {
    PyObject *values[MOST_PARAMETERS] = {NULL};
    const Py_ssize_t given = PyTuple_Size(args), named = keywords ? PyDict_Size(keywords) : 0;
    PyObject *names = keywords ? PyDict_Keys(keywords) : PyList_New(0), *tuple = names ? PyList_AsTuple(names) : NULL;
    int status = tuple ? 0 : -1;
    if (!status && given + named > MOST_PARAMETERS) {
        PyErr_SetString(PyExc_TypeError, "too many arguments");
        status = -1;
    }
    for (Py_ssize_t i = 0; !status && i < given + named; i++)
        values[i] = i < given ? PyTuple_GetItem(args, i) : PyDict_GetItem(keywords, PyTuple_GetItem(tuple, i - given));
    if (!status) status = gyre_py_arguments(doc, values, given, tuple, out);
    Py_XDECREF(names);
    Py_XDECREF(tuple);
    return status;
}

static int fail_type(PyObject *object, const char *name, const char *wanted) {
    char shown[100];
    gyre_py_show(object, shown, sizeof shown);
    gyre_py_fail(GYRE_EINVAL, name, "%s: is %s, not %s", name, shown, wanted);
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

int gyre_py_cache_dtype(PyObject *object, const char *name, gyre_dtype *out) {
    static const char *const words[] = {"float32", "float16", "bfloat16", "q8"};
    static const gyre_dtype dtypes[] = {GYRE_DTYPE_F32, GYRE_DTYPE_F16, GYRE_DTYPE_BF16, GYRE_DTYPE_Q8};
    int choice = -1;
    if (gyre_py_word(object, name, words, 4, &choice) < 0) return -1;
    if (choice >= 0) *out = dtypes[choice];
    return 0;
}

PyObject *gyre_py_tuple(PyObject *object, const char *name, const char *wanted) {
    PyObject *items = PyObject_GetIter(object), *tuple = items ? PySequence_Tuple(items) : NULL;
    if (!items && PyErr_ExceptionMatches(PyExc_TypeError)) fail_type(object, name, wanted);
    Py_XDECREF(items);
    return tuple;
}

int gyre_py_path(PyObject *object, const char *name, PyObject **bytes) {
    *bytes = NULL;
    PyObject *text = PyObject_CallFunction(gyre_py.path_text, "Os", object, name);
    const int converted = text && PyUnicode_FSConverter(text, bytes);
    Py_XDECREF(text);
    return converted ? 0 : -1;
}
