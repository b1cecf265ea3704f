/* py_encoding.c: the Encoding type: creation, what it is, and its methods, which other files hold. */
#include "py_encoding.h"
#include "gyre/gyre_fields.h"

static PyObject *encoding_type;

static PyObject *encoding_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    if (PyTuple_Size(args) != 0 || !keywords) {
        PyErr_SetString(PyExc_TypeError, "Encoding takes the fields of a config by name: Encoding(**{'kind': 'nope'})");
        return NULL;
    }
    gyre_encoding *made = NULL;
    if (gyre_py_encoding_from_dict(keywords, &made) < 0) return NULL;
    const allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    gyre_py_encoding *self = (gyre_py_encoding *)allocate(type, 0);
    if (!self) {
        gyre_encoding_free(made);
        return NULL;
    }
    self->encoding = made;
    const gyre_config *config = gyre_encoding_get_config(made);
    self->axes = gyre_kind_has(config->kind, GYRE_TRAIT_ROTATES) && config->rope.axes > 1 ? config->rope.axes : 1;
    return (PyObject *)self;
}

/* object.__init__ would refuse the fields that __new__ has read. */
static int encoding_init(PyObject *self, PyObject *args, PyObject *keywords) {
    (void)self, (void)args, (void)keywords;
    return 0;
}

static void encoding_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    gyre_encoding_free(((gyre_py_encoding *)self)->encoding);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

int gyre_py_encoding_of(PyObject *object, const char *name, const gyre_py_encoding **out) {
    *out = NULL;
    if (!object) return 0;
    if (!PyObject_TypeCheck(object, (PyTypeObject *)encoding_type)) {
        gyre_py_fail(GYRE_EINVAL, name,
                     "%s: is not a gyre.Encoding: make one with gyre.rope(...) or Encoding.from_config(...)", name);
        return -1;
    }
    *out = (const gyre_py_encoding *)object;
    return 0;
}

static const gyre_encoding *of(PyObject *self) {
    return ((gyre_py_encoding *)self)->encoding;
}

/* -- what it is -- */

static PyObject *encoding_config(PyObject *self, PyObject *all) {
    return gyre_py_config_dict(gyre_encoding_get_config(of(self)), PyObject_IsTrue(all));
}

static PyObject *numbers_list(const double *numbers, int64_t n) {
    PyObject *list = PyList_New(n);
    for (int64_t i = 0; list && i < n; i++) {
        PyObject *number = PyFloat_FromDouble(numbers[i]);
        if (!number || PyList_SetItem(list, i, number) < 0) Py_CLEAR(list);
    }
    return list;
}

static PyObject *encoding_frequencies(PyObject *self, PyObject *length) {
    int64_t in_use = 0;
    if (gyre_py_integer(length == Py_None ? NULL : length, "length", &in_use) < 0) return NULL;
    const int64_t pairs = gyre_encoding_get_config(of(self))->rope.dim / 2;
    double factor = 1, *numbers = PyMem_Calloc((size_t)(pairs > 0 ? pairs : 1), sizeof *numbers);
    gyre_scaling_parts parts = {0};
    if (!numbers) return PyErr_NoMemory();
    gyre_status status = gyre_encoding_frequencies(of(self), in_use, numbers, &factor);
    if (!status) status = gyre_encoding_scaling_parts(of(self), in_use, &parts);
    PyObject *list = !status ? numbers_list(numbers, pairs) : NULL;
    PyMem_Free(numbers);
    if (status == GYRE_EINVAL) return gyre_py_fail(status, "length", "length: %lld is below 0", (long long)in_use);
    if (status)
        return gyre_py_fail(status, "encoding", "encoding: %s rotates nothing, so it has no frequencies",
                            gyre_kind_name(gyre_encoding_get_config(of(self))->kind));
    return list ? Py_BuildValue("(Nd(LLL))", list, factor, (long long)parts.kept, (long long)parts.blended,
                                (long long)parts.divided)
                : NULL;
}

/* Increments as Python's whole numbers, which lose none of their 64 bits. */
static PyObject *increments_list(const uint64_t *increments, const unsigned char *axes, int64_t pairs) {
    PyObject *list = PyList_New(pairs);
    for (int64_t i = 0; list && i < pairs; i++) {
        PyObject *one = Py_BuildValue("(Ki)", (unsigned long long)increments[i], (int)axes[i]);
        if (!one || PyList_SetItem(list, i, one) < 0) Py_CLEAR(list);
    }
    return list;
}

static PyObject *encoding_phases(PyObject *self, PyObject *length) {
    int64_t in_use = 0;
    if (gyre_py_integer(length == Py_None ? NULL : length, "length", &in_use) < 0) return NULL;
    const int64_t pairs = gyre_encoding_get_config(of(self))->rope.dim / 2;
    const size_t bytes = (size_t)(pairs > 0 ? pairs : 1) * (sizeof(uint64_t) + 1);
    uint64_t *increments = PyMem_Calloc(bytes, 1);
    if (!increments) return PyErr_NoMemory();
    unsigned char *axes = (unsigned char *)(increments + pairs);
    gyre_error err;
    double factor = 1;
    const gyre_status status = gyre_encoding_phases(of(self), in_use, increments, axes, &factor, &err);
    PyObject *list = status ? gyre_py_raise(status, &err) : increments_list(increments, axes, pairs);
    PyMem_Free(increments);
    return list ? Py_BuildValue("(Nd)", list, factor) : NULL;
}

static PyObject *encoding_slopes(PyObject *self, PyObject *length) {
    int64_t in_use = 0;
    if (gyre_py_integer(length == Py_None ? NULL : length, "length", &in_use) < 0) return NULL;
    const gyre_config *config = gyre_encoding_get_config(of(self));
    double *numbers = PyMem_Calloc((size_t)(config->heads > 0 ? config->heads : 1), sizeof *numbers);
    if (!numbers) return PyErr_NoMemory();
    const gyre_status status = gyre_encoding_slopes(of(self), in_use, numbers);
    PyObject *list = !status ? numbers_list(numbers, config->heads) : NULL;
    PyMem_Free(numbers);
    if (status == GYRE_EINVAL) return gyre_py_fail(status, "length", "length: %lld is below 0", (long long)in_use);
    if (status)
        return gyre_py_fail(status, "encoding", "encoding: %s has no slopes, only alibi does", gyre_kind_name(config->kind));
    return list;
}

static PyObject *encoding_places(PyObject *self, PyObject *unused) {
    (void)unused;
    return PyLong_FromUnsignedLong(gyre_encoding_places(of(self)));
}

static PyObject *encoding_table_shapes(PyObject *self, PyObject *unused) {
    (void)unused;
    PyObject *dict = PyDict_New();
    for (int i = 0; dict && i < GYRE_PY_TABLES; i++) {
        int64_t s[4] = {0};
        if (gyre_encoding_table_shape(of(self), (gyre_table)i, s) || s[3] == 0) continue;
        PyObject *shape = Py_BuildValue("(LLLL)", (long long)s[0], (long long)s[1], (long long)s[2], (long long)s[3]);
        if (!shape || PyDict_SetItemString(dict, gyre_py_table_names[i], shape) < 0) Py_CLEAR(dict);
        Py_XDECREF(shape);
    }
    return dict;
}

static PyObject *encoding_row_source(PyObject *self, PyObject *unused) {
    static const char *const names[] = {"free", "shared", "projected", "sinusoid"};
    (void)unused;
    return PyUnicode_FromString(names[gyre_encoding_row_source(of(self))]);
}

static PyObject *encoding_row(PyObject *self, PyObject *args) {
    long long m, n;
    if (!PyArg_ParseTuple(args, "LL", &m, &n)) return NULL;
    int64_t row = 0;
    const gyre_status status = gyre_encoding_row(of(self), m, n, &row);
    if (status == GYRE_EUNSUPPORTED)
        return gyre_py_fail(status, "encoding", "encoding: %s has no table whose rows a query and a key choose",
                            gyre_kind_name(gyre_encoding_get_config(of(self))->kind));
    if (status)
        return gyre_py_fail(status, "n", "n: no table row for a query at %lld and a key at %lld (%s)", m, n,
                            gyre_status_text(status));
    return PyLong_FromLongLong(row);
}

static PyMethodDef methods[] = {
    GYRE_PY_FAST("rotate", gyre_py_rotate, 0),
    GYRE_PY_FAST("rotate_pair", gyre_py_rotate_pair, 0),
    GYRE_PY_FAST("_cos_sin", gyre_py_cos_sin, 0),
    GYRE_PY_FAST("_bias", gyre_py_bias, 0),
    GYRE_PY_FAST("bias_gradient", gyre_py_bias_gradient, 0),
    GYRE_PY_FAST("add", gyre_py_add, 0),
    GYRE_PY_FAST("add_gradient", gyre_py_add_gradient, 0),
    {"_config", encoding_config, METH_O, "the config as a dict"},
    {"_frequencies", encoding_frequencies, METH_O, "(inv_freq, attention factor, parts)"},
    {"_phases", encoding_phases, METH_O, "([(increment, axis) of each pair], attention factor)"},
    {"_slopes", encoding_slopes, METH_O, "slopes"},
    {"_places", encoding_places, METH_NOARGS, "places"},
    {"_table_shapes", encoding_table_shapes, METH_NOARGS, "shapes of tables"},
    {"_row_source", encoding_row_source, METH_NOARGS, "what table rows are made of"},
    {"row", encoding_row, METH_VARARGS,
     "row($self, m, n, /)\n--\n\nThe table row for a query at position m and a key at position n.  Raises gyre.Error."},
    {NULL, NULL, 0, NULL}};

static PyType_Slot slots[] = {{Py_tp_new, (void *)encoding_new},
                              {Py_tp_init, (void *)encoding_init},
                              {Py_tp_dealloc, (void *)encoding_dealloc},
                              {Py_tp_methods, methods},
                              {Py_tp_doc, "A position encoding, from the fields of a gyre_config.  Never changes."},
                              {0, NULL}};
static PyType_Spec spec = {"gyre._gyre.Encoding", sizeof(gyre_py_encoding), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                           slots};

int gyre_py_add_encoding(PyObject *module) {
    encoding_type = PyType_FromSpec(&spec);
    if (!encoding_type) return -1;
    return PyModule_AddObjectRef(module, "Encoding", encoding_type);
}
