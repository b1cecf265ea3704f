/* py_config.c: gyre_config as a dict of its fields, by their names in gyre.h.  "rope.axis_pairs" is one list. */
#include "gyre/gyre_fields.h"
#include "py_encoding.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { LISTS = 4, MOST_WORDS = 24 };
static const char axis_pairs[] = "rope.axis_pairs";

/* out = i of "rope.axis_pairs[i]", -1 for other fields. */
static int axis_of(const gyre_config_field *f) {
    const size_t n = sizeof axis_pairs - 1;
    return strncmp(f->name, axis_pairs, n) == 0 && f->name[n] == '[' ? f->name[n + 1] - '0' : -1;
}

/* -- reading -- */

/* A dict that is being read.  lists: memory of its lists, and how many numbers each has. */
typedef struct config_reading {
    gyre_config config;
    double *lists[LISTS];
    Py_ssize_t lengths[LISTS];
    const gyre_config_field *list_fields[LISTS];
    int lists_count;
} config_reading;

static int refuse_value(const char *name, PyObject *value, const char *wanted) {
    char shown[60];
    gyre_py_show(value, shown, sizeof shown);
    gyre_py_fail(GYRE_EINVAL, name, "%s: is %s, not %s", name, shown, wanted);
    return -1;
}

static int read_numbers(config_reading *r, const gyre_config_field *f, PyObject *value, gyre_field_value *out) {
    PyObject *list = PySequence_List(value);
    if (!list) return refuse_value(f->name, value, "a list of numbers");
    const Py_ssize_t n = PyList_Size(list);
    for (int i = 0; i < r->lists_count; i++)
        if (r->list_fields[i] == f || r->lists_count == LISTS) { /* keys that are equal as text may differ as objects */
            Py_DECREF(list);
            gyre_py_fail(GYRE_EINVAL, f->name, "%s: is given twice", f->name);
            return -1;
        }
    double *numbers = PyMem_Malloc((size_t)(n + 1) * sizeof *numbers);
    int status = numbers ? 0 : -1;
    if (!numbers) PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < n && status == 0; i++)
        status = gyre_py_number(PyList_GetItem(list, i), f->name, &numbers[i]);
    Py_DECREF(list);
    if (status < 0) {
        PyMem_Free(numbers);
        return -1;
    }
    r->list_fields[r->lists_count] = f;
    r->lengths[r->lists_count] = n;
    r->lists[r->lists_count++] = numbers;
    out->list = numbers;
    return 0;
}

static int read_axis_pairs(gyre_config *config, PyObject *value) {
    PyObject *list = PySequence_List(value);
    const Py_ssize_t n = list ? PyList_Size(list) : -1;
    int status = n >= 0 && n <= GYRE_MAX_AXES ? 0 : refuse_value(axis_pairs, value, "a list of at most 4 numbers");
    for (Py_ssize_t i = 0; i < n && status == 0; i++)
        status = gyre_py_integer(PyList_GetItem(list, i), axis_pairs, &config->rope.axis_pairs[i]);
    Py_XDECREF(list);
    return status;
}

static int read_choice(const gyre_config_field *f, PyObject *value, int64_t *out) {
    const char *words[MOST_WORDS];
    int count = 0, choice = 0;
    for (; f->names[count].text && count < MOST_WORDS; count++)
        words[count] = f->names[count].text;
    if (gyre_py_word(value, f->name, words, count, &choice) < 0) return -1;
    *out = f->names[choice].value;
    return 0;
}

static int read_value(config_reading *r, const gyre_config_field *f, PyObject *value, gyre_field_value *out) {
    int truth = 0;
    switch (f->type) {
    case GYRE_FIELD_COUNT:
    case GYRE_FIELD_LENGTH:
    case GYRE_FIELD_INTEGER:
        return gyre_py_integer(value, f->name, &out->integer);
    case GYRE_FIELD_FLAG:
        if (gyre_py_truth(value, f->name, &truth) < 0) return -1;
        out->integer = truth;
        return 0;
    case GYRE_FIELD_SET:
        if (gyre_py_integer(value, f->name, &out->integer) < 0) return -1;
        if (out->integer >= 0 && out->integer <= INT_MAX) return 0;
        gyre_py_fail(GYRE_EINVAL, f->name, "%s: is %lld, not a sum of 1 (query), 2 (key) and 4 (value)", f->name,
                     (long long)out->integer);
        return -1;
    case GYRE_FIELD_NUMBER:
        return gyre_py_number(value, f->name, &out->number);
    case GYRE_FIELD_CHOICE:
        return read_choice(f, value, &out->integer);
    case GYRE_FIELD_LIST:
        return read_numbers(r, f, value, out);
    }
    return -1;
}

static int read_named(config_reading *r, PyObject *name, PyObject *value) {
    const char *text = PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
    const gyre_config_field *f = text ? gyre_config_find_field(text) : NULL;
    gyre_field_value read = {0, 0, NULL};
    char shown[60];
    if (text && strcmp(text, axis_pairs) == 0) return value == Py_None ? 0 : read_axis_pairs(&r->config, value);
    if (f && axis_of(f) < 0) {
        if (value == Py_None) return 0;
        if (read_value(r, f, value, &read) < 0) return -1;
        gyre_config_set(&r->config, f, read);
        return 0;
    }
    PyErr_Clear();
    if (!text) gyre_py_show(name, shown, sizeof shown);
    gyre_py_fail(GYRE_EINVAL, text, "%.60s: is not a field of a config (gyre.fields() lists them)", text ? text : shown);
    return -1;
}

static int read_fields(config_reading *r, PyObject *dict) {
    PyObject *items = PyDict_Items(dict); /* a copy: code of the values may change the dict */
    int status = items ? 0 : -1;
    for (Py_ssize_t i = 0; status == 0 && i < PyList_Size(items); i++) {
        PyObject *const item = PyList_GetItem(items, i);
        status = read_named(r, PyTuple_GetItem(item, 0), PyTuple_GetItem(item, 1));
    }
    Py_XDECREF(items);
    if (status < 0) return -1;
    for (int i = 0; i < r->lists_count; i++) {
        const int64_t wanted = gyre_config_list_length(&r->config, r->list_fields[i]);
        if (r->lengths[i] == wanted) continue;
        gyre_py_fail(GYRE_EINVAL, r->list_fields[i]->name, "%s: has %zd numbers, not %lld", r->list_fields[i]->name,
                     r->lengths[i], (long long)wanted);
        return -1;
    }
    return 0;
}

int gyre_py_encoding_from_dict(PyObject *dict, gyre_encoding **encoding) {
    config_reading r = {.config = GYRE_INIT(gyre_config)};
    int status = read_fields(&r, dict);
    if (status == 0) {
        gyre_error err = {0};
        gyre_status created = gyre_config_suggest(&r.config);
        if (!created) created = gyre_encoding_create(encoding, &r.config, NULL, &err);
        if (created) {
            gyre_py_raise(created, &err);
            status = -1;
        }
    }
    for (int i = 0; i < r.lists_count; i++)
        PyMem_Free(r.lists[i]);
    return status;
}

/* -- writing -- */

static PyObject *numbers_tuple(const double *numbers, int64_t n) {
    if (!numbers) Py_RETURN_NONE;
    PyObject *tuple = PyTuple_New(n);
    for (int64_t i = 0; tuple && i < n; i++) {
        PyObject *number = PyFloat_FromDouble(numbers[i]);
        if (!number || PyTuple_SetItem(tuple, i, number) < 0) Py_CLEAR(tuple);
    }
    return tuple;
}

static PyObject *field_object(const gyre_config *config, const gyre_config_field *f) {
    const gyre_field_value value = gyre_config_get(config, f);
    const int64_t *pairs = config->rope.axis_pairs;
    switch (f->type) {
    case GYRE_FIELD_NUMBER:
        return PyFloat_FromDouble(value.number);
    case GYRE_FIELD_LIST:
        return numbers_tuple(value.list, gyre_config_list_length(config, f));
    case GYRE_FIELD_FLAG:
        return PyBool_FromLong((long)value.integer);
    case GYRE_FIELD_CHOICE:
        return PyUnicode_FromString(gyre_field_spelling(f, (int)value.integer));
    default:
        break;
    }
    if (axis_of(f) < 0) return PyLong_FromLongLong(value.integer);
    return Py_BuildValue("(LLLL)", (long long)pairs[0], (long long)pairs[1], (long long)pairs[2], (long long)pairs[3]);
}

PyObject *gyre_py_config_dict(const gyre_config *config, int all) {
    const gyre_config_field *f;
    PyObject *dict = PyDict_New();
    for (int i = 0; dict && (f = gyre_config_field_at(i)); i++) {
        const gyre_field_value value = gyre_config_get(config, f);
        const int is_zero = value.integer == 0 && value.number == 0 && !value.list && strcmp(f->name, "kind") != 0;
        if (axis_of(f) > 0 || (is_zero && !all)) continue;
        PyObject *object = field_object(config, f);
        if (!object || PyDict_SetItemString(dict, axis_of(f) == 0 ? axis_pairs : f->name, object) < 0) Py_CLEAR(dict);
        Py_XDECREF(object);
    }
    return dict;
}

/* -- the description -- */

/* out = the names of a field's values that `mask` has a bit for, as a list */
static PyObject *names_of(const gyre_config_field *f, unsigned mask) {
    PyObject *list = PyList_New(0);
    for (const gyre_field_name *n = f->names; list && n && n->text; n++) {
        PyObject *text = mask >> n->value & 1 ? PyUnicode_FromString(n->text) : NULL;
        if (text && PyList_Append(list, text) < 0) Py_CLEAR(list);
        Py_XDECREF(text);
    }
    return list;
}

/* out = the spelled values of a field that has some: {"query": 1, "key": 2, ...} */
static PyObject *numbers_of(const gyre_config_field *f) {
    PyObject *dict = PyDict_New();
    for (const gyre_field_name *n = f->names; dict && n && n->text; n++) {
        PyObject *value = PyLong_FromLong(n->value);
        if (!value || PyDict_SetItemString(dict, n->text, value) < 0) Py_CLEAR(dict);
        Py_XDECREF(value);
    }
    return dict;
}

/* when: the name of the member that decides whether the field has an effect, None = it always has; values: those of it
 * that give it one.  zero: the word of a choice that is its default.  kinds: the schemes that have the field.  minimum,
 * maximum: infinite where none is fixed.  of_axes: an axis with its own scaling reads it too.  not_zero: 0 is the
 * default alone. */
static PyObject *field_row(const gyre_config_field *f) {
    static const char *const types[] = {"count", "length", "integer", "number", "flag", "choice", "set", "list"};
    const gyre_config_field *when = gyre_config_field_switch(f);
    return Py_BuildValue("{szszszsNsNsNszsNsdsdsOsdsOsO}", "name", f->name, "type", types[f->type], "zero",
                         f->names ? gyre_field_spelling(f, 0) : NULL, "kinds",
                         names_of(gyre_config_find_field("kind"), f->kinds), "names", names_of(f, ~0U), "numbers",
                         numbers_of(f), "when", when ? when->name : NULL, "values",
                         when ? names_of(when, f->when_values) : PyList_New(0), "minimum", f->minimum, "maximum", f->maximum,
                         "above", f->above_minimum ? Py_True : Py_False, "standard", f->standard, "of_axes",
                         f->marks & GYRE_FIELD_MARK_AXES ? Py_True : Py_False, "not_zero",
                         f->marks & GYRE_FIELD_MARK_NOT_ZERO ? Py_True : Py_False);
}

PyObject *gyre_py_config_fields(PyObject *self, PyObject *nothing) {
    (void)self, (void)nothing;
    PyObject *list = PyList_New(0);
    const gyre_config_field *f;
    for (int i = 0; list && (f = gyre_config_field_at(i)); i++) {
        PyObject *row = field_row(f);
        if (!row || PyList_Append(list, row) < 0) Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}
