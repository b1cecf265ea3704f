/* py_memory.c: memory for results.
 *
 * numpy and torch make their own arrays.  For everything else the memory is a Buffer, which speaks DLPack and the buffer
 * protocol, and the framework's from_dlpack takes it over without a copy. */
#include "py_memory.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* -- Buffer -- */

/* Memory that a Buffer and any number of capsules share. */
typedef struct shared_memory {
    atomic_int users;
    void *data;
} shared_memory;

typedef struct buffer_object {
    PyObject_HEAD
    shared_memory *memory;
    gyre_dtype dtype;
    int ndim;
    Py_ssize_t bytes, shape[GYRE_PY_MAX_DIMS], stride[GYRE_PY_MAX_DIMS]; /* strides in bytes */
} buffer_object;

static void release_memory(shared_memory *memory) {
    if (!memory || atomic_fetch_sub(&memory->users, 1) > 1) return;
    free(memory->data);
    free(memory);
}

static const char *const dtype_names[] = {"float32", "float16", "bfloat16", "float64", "int32", "int64"};

static PyObject *fail_memory(gyre_dtype dtype, int ndim, const int64_t *shape) {
    gyre_py_array described = {.ndim = ndim};
    char text[180];
    memcpy(described.shape, shape, (size_t)ndim * sizeof *shape);
    gyre_py_shape_text(&described, text, sizeof text);
    return gyre_py_fail(GYRE_ENOMEM, NULL, "memory: none for a result of shape %s of %s", text, dtype_names[dtype]);
}

int64_t gyre_py_bytes(gyre_dtype dtype, int ndim, const int64_t *shape) {
    int64_t bytes = (int64_t)gyre_dtype_size(dtype), most = INT64_MAX / 2;
    for (int i = 0; i < ndim; i++)
        if (shape[i] == 0) return 0;
    for (int i = 0; i < ndim; i++) {
        if (shape[i] < 0 || bytes > most / shape[i]) {
            fail_memory(dtype, ndim, shape);
            return -1;
        }
        bytes *= shape[i];
    }
    return bytes;
}

/* out = dense memory for a shape, aligned for vectors; NULL with an exception. */
static shared_memory *make_memory(gyre_dtype dtype, int ndim, const int64_t *shape) {
    const int64_t bytes = gyre_py_bytes(dtype, ndim, shape);
    if (bytes < 0) return NULL;
    shared_memory *memory = calloc(1, sizeof *memory);
    if (memory) memory->data = aligned_alloc(64, ((size_t)bytes + 127) / 64 * 64);
    if (!memory || !memory->data) {
        free(memory);
        fail_memory(dtype, ndim, shape);
        return NULL;
    }
    atomic_init(&memory->users, 1);
    return memory;
}

static void buffer_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    release_memory(((buffer_object *)self)->memory);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static int buffer_get(PyObject *self, Py_buffer *view, int flags) {
    static char formats[][2] = {"f", "e", "H", "d", "i", "q"}; /* bfloat16 has no letter and shows its bits */
    buffer_object *b = (buffer_object *)self;
    (void)flags;
    memset(view, 0, sizeof *view);
    Py_INCREF(self);
    view->obj = self;
    view->buf = b->memory->data;
    view->len = b->bytes;
    view->itemsize = (Py_ssize_t)gyre_dtype_size(b->dtype);
    view->format = formats[b->dtype];
    view->ndim = b->ndim;
    view->shape = b->shape;
    view->strides = b->stride;
    return 0;
}

/* What a capsule of a Buffer owns. */
typedef struct dl_export {
    dl_managed old;
    dl_managed_versioned versioned;
    shared_memory *memory;
    int64_t shape[GYRE_PY_MAX_DIMS], stride[GYRE_PY_MAX_DIMS];
} dl_export;

static void delete_old(dl_managed *self) {
    dl_export *e = self->context;
    release_memory(e->memory);
    free(e);
}

static void delete_versioned(dl_managed_versioned *self) {
    dl_export *e = self->context;
    release_memory(e->memory);
    free(e);
}

/* A capsule that was not consumed still owns its export. */
static void destroy_capsule(PyObject *capsule) {
    if (PyCapsule_IsValid(capsule, "dltensor")) {
        delete_old(PyCapsule_GetPointer(capsule, "dltensor"));
    } else if (PyCapsule_IsValid(capsule, "dltensor_versioned"))
        delete_versioned(PyCapsule_GetPointer(capsule, "dltensor_versioned"));
}

static const dl_type dl_types[] = {{DL_FLOAT, 32, 1}, {DL_FLOAT, 16, 1}, {DL_BFLOAT, 16, 1},
                                   {DL_FLOAT, 64, 1}, {DL_INT, 32, 1},   {DL_INT, 64, 1}};

static dl_export *make_export(buffer_object *b) {
    dl_export *e = calloc(1, sizeof *e);
    if (!e) return NULL;
    atomic_fetch_add(&b->memory->users, 1);
    e->memory = b->memory;
    for (int i = 0; i < b->ndim; i++)
        e->shape[i] = b->shape[i];
    const dl_tensor tensor = {
        .data = b->memory->data, .device = {DL_CPU, 0}, .ndim = b->ndim, .dtype = dl_types[b->dtype], .shape = e->shape};
    e->old = (dl_managed){tensor, e, delete_old};
    e->versioned = (dl_managed_versioned){{1, 0}, e, delete_versioned, 0, tensor};
    return e;
}

/* Strides are left out of the capsule: the memory is dense. */
static PyObject *buffer_dlpack(PyObject *self, PyObject *args, PyObject *keywords) {
    (void)args;
    PyObject *version = keywords ? PyDict_GetItemString(keywords, "max_version") : NULL;
    PyObject *major = version && PyTuple_Check(version) && PyTuple_Size(version) > 0 ? PyTuple_GetItem(version, 0) : NULL;
    const int versioned = major && PyLong_AsLong(major) >= 1;
    if (PyErr_Occurred()) return NULL;
    dl_export *e = make_export((buffer_object *)self);
    if (!e) return PyErr_NoMemory();
    PyObject *capsule = versioned ? PyCapsule_New(&e->versioned, "dltensor_versioned", destroy_capsule)
                                  : PyCapsule_New(&e->old, "dltensor", destroy_capsule);
    if (!capsule) delete_old(&e->old);
    return capsule;
}

static PyObject *buffer_device(PyObject *self, PyObject *unused) {
    (void)self, (void)unused;
    return Py_BuildValue("(ii)", DL_CPU, 0);
}

static PyMethodDef buffer_methods[] = {{"__dlpack__", (PyCFunction)(void (*)(void))buffer_dlpack,
                                        METH_VARARGS | METH_KEYWORDS,
                                        "__dlpack__($self, *, max_version=None)\n--\n\nA DLPack capsule."},
                                       {"__dlpack_device__", buffer_device, METH_NOARGS, "(1, 0): the processor."},
                                       {NULL, NULL, 0, NULL}};
static PyType_Slot buffer_slots[] = {{Py_tp_dealloc, (void *)buffer_dealloc},
                                     {Py_tp_methods, buffer_methods},
                                     {Py_bf_getbuffer, (void *)buffer_get},
                                     {Py_tp_doc, "Dense memory of a result, for from_dlpack and the buffer protocol."},
                                     {0, NULL}};
static PyType_Spec buffer_spec = {"gyre._gyre.Buffer", sizeof(buffer_object), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, buffer_slots};

int gyre_py_add_memory(PyObject *module) {
    gyre_py.buffer_type = PyType_FromSpec(&buffer_spec);
    if (!gyre_py.buffer_type) return -1;
    return PyModule_AddObjectRef(module, "Buffer", gyre_py.buffer_type);
}

static PyObject *make_buffer(gyre_dtype dtype, int ndim, const int64_t *shape) {
    shared_memory *memory = make_memory(dtype, ndim, shape);
    buffer_object *b = memory ? PyObject_New(buffer_object, (PyTypeObject *)gyre_py.buffer_type) : NULL;
    if (!b) {
        release_memory(memory);
        return NULL;
    }
    b->memory = memory;
    b->dtype = dtype;
    b->ndim = ndim;
    Py_ssize_t stride = (Py_ssize_t)gyre_dtype_size(dtype);
    for (int i = ndim - 1; i >= 0; i--) {
        b->shape[i] = shape[i];
        b->stride[i] = stride;
        stride *= shape[i];
    }
    b->bytes = stride;
    return (PyObject *)b;
}

static void open_buffer_object(gyre_py_result *result) {
    buffer_object *b = (buffer_object *)result->memory;
    gyre_py_array *array = &result->array;
    array->object = result->memory;
    array->name = "out";
    array->data = b->memory->data;
    array->dtype = (int)b->dtype;
    array->ndim = b->ndim;
    for (int i = 0; i < b->ndim; i++) {
        array->shape[i] = b->shape[i];
        array->stride[i] = b->stride[i] / (Py_ssize_t)gyre_dtype_size(b->dtype);
    }
}

/* -- results -- */

static int open_result(gyre_py_result *result, PyObject *memory) {
    result->memory = memory;
    if (!memory) {
        gyre_py_fail(GYRE_ENOMEM, NULL, "memory: none for a result");
        return -1;
    }
    if (gyre_py_array_open(&result->array, memory, "out") == 0) return 0;
    Py_CLEAR(result->memory);
    return -1;
}

/* torch.empty_like or another function of torch, kept. */
static PyObject *torch_function(PyObject **kept, const char *name) {
    if (*kept) return *kept;
    PyObject *torch = PyImport_Import(gyre_py.import_torch);
    if (torch) *kept = PyObject_GetAttrString(torch, name);
    Py_XDECREF(torch);
    return *kept;
}

/* Axes of `like` by falling stride: memory in this order is dense, and strided as `like` is where that is dense too. */
static void order_axes(const gyre_py_array *like, int *order) {
    for (int i = 0; i < like->ndim; i++) {
        int at = i;
        for (; at > 0 && llabs(like->stride[order[at - 1]]) < llabs(like->stride[i]); at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
}

/* A tensor over memory taken here, through torch's exchange table: half the time of torch.empty_like. */
static int torch_like(gyre_py_result *result, const gyre_py_array *like, const dl_exchange *exchange) {
    shared_memory *memory = make_memory((gyre_dtype)like->dtype, like->ndim, like->shape);
    if (!memory) return -1;
    dl_export *e = calloc(1, sizeof *e);
    if (!e) {
        release_memory(memory);
        PyErr_NoMemory();
        return -1;
    }
    int order[GYRE_PY_MAX_DIMS] = {0};
    order_axes(like, order);
    e->memory = memory;
    int64_t dense = 1;
    for (int i = like->ndim - 1; i >= 0; i--) {
        e->stride[order[i]] = dense;
        dense *= like->shape[order[i]];
        e->shape[i] = like->shape[i];
    }
    const dl_tensor tensor = {.data = memory->data,
                              .device = {DL_CPU, 0},
                              .ndim = like->ndim,
                              .dtype = dl_types[like->dtype],
                              .shape = e->shape,
                              .strides = e->stride};
    e->versioned = (dl_managed_versioned){{1, 0}, e, delete_versioned, 0, tensor};
    void *object = NULL;
    if (exchange->managed_to_object(&e->versioned, &object) != 0 || !object) {
        delete_versioned(&e->versioned);
        gyre_py_fail(GYRE_ENOMEM, NULL, "memory: torch takes none for a result");
        return -1;
    }
    result->memory = object;
    gyre_py_array *array = &result->array;
    array->object = object;
    array->name = "out";
    array->data = memory->data;
    array->dtype = like->dtype;
    array->ndim = like->ndim;
    memcpy(array->shape, e->shape, sizeof array->shape);
    memcpy(array->stride, e->stride, sizeof array->stride);
    return 0;
}

int gyre_py_result_like(gyre_py_result *result, const gyre_py_array *like) {
    static PyObject *torch_empty_like;
    const int is_capsule = PyCapsule_CheckExact(like->object);
    result->like = like->object;
    result->family = like->family;
    result->is_given = 0;
    if (like->family == GYRE_PY_NUMPY && (PyObject *)Py_TYPE(like->object) == gyre_py.ndarray)
        return open_result(result, PyObject_CallFunctionObjArgs(gyre_py.empty_like, like->object, NULL));
    if (like->family == GYRE_PY_TORCH && !is_capsule) {
        if (like->exchange && like->exchange->managed_to_object) return torch_like(result, like, like->exchange);
        PyObject *function = torch_function(&torch_empty_like, "empty_like");
        return function ? open_result(result, PyObject_CallFunctionObjArgs(function, like->object, NULL)) : -1;
    }
    return gyre_py_result_new(result, like, (gyre_dtype)like->dtype, like->ndim, like->shape);
}

static PyObject *shape_tuple(int ndim, const int64_t *shape) {
    PyObject *tuple = PyTuple_New(ndim);
    for (int i = 0; tuple && i < ndim; i++) {
        PyObject *extent = PyLong_FromLongLong(shape[i]);
        if (!extent || PyTuple_SetItem(tuple, i, extent) < 0) Py_CLEAR(tuple);
    }
    return tuple;
}

static int new_torch(gyre_py_result *result, gyre_dtype dtype, int ndim, const int64_t *shape) {
    static PyObject *empty;
    PyObject *function = torch_function(&empty, "empty"), *torch = function ? PyImport_Import(gyre_py.import_torch) : NULL;
    PyObject *type = torch ? PyObject_GetAttrString(torch, dtype_names[dtype]) : NULL;
    PyObject *args = type ? PyTuple_New(1) : NULL,
             *keywords = args ? Py_BuildValue("{sOss}", "dtype", type, "device", "cpu") : NULL;
    PyObject *extents = keywords ? shape_tuple(ndim, shape) : NULL, *memory = NULL;
    if (extents && PyTuple_SetItem(args, 0, extents) == 0) memory = PyObject_Call(function, args, keywords);
    Py_XDECREF(torch);
    Py_XDECREF(type);
    Py_XDECREF(args);
    Py_XDECREF(keywords);
    return open_result(result, memory);
}

int gyre_py_result_new(gyre_py_result *result, const gyre_py_array *like, gyre_dtype dtype, int ndim, const int64_t *shape) {
    result->like = like ? like->object : NULL;
    result->family = like ? like->family : GYRE_PY_NUMPY;
    result->is_given = 0;
    if (result->like && PyCapsule_CheckExact(result->like)) result->family = GYRE_PY_NUMPY;
    if (result->family == GYRE_PY_TORCH) return new_torch(result, dtype, ndim, shape);
    result->memory = make_buffer(dtype, ndim, shape);
    if (!result->memory) return -1;
    open_buffer_object(result);
    return 0;
}

int gyre_py_result_given(gyre_py_result *result, PyObject *out, const char *name) {
    memset(result, 0, sizeof *result);
    if (gyre_py_array_open(&result->array, out, name) < 0) return -1;
    if (gyre_py_array_writable(&result->array) < 0 || gyre_py_check_itself(&result->array) < 0) {
        gyre_py_array_close(&result->array);
        return -1;
    }
    Py_INCREF(out);
    result->memory = out;
    result->is_given = 1;
    return 0;
}

/* A Buffer as a numpy array; bfloat16 needs the type of ml_dtypes. */
static PyObject *to_numpy(PyObject *buffer) {
    PyObject *array = PyObject_CallFunctionObjArgs(gyre_py.asarray, buffer, NULL);
    if (!array || ((buffer_object *)buffer)->dtype != GYRE_DTYPE_BF16) return array;
    PyObject *module = PyImport_ImportModule("ml_dtypes"), *type = NULL, *typed = NULL;
    if (module) type = PyObject_GetAttrString(module, "bfloat16");
    if (type) typed = PyObject_CallMethod(array, "view", "O", type);
    if (!typed)
        gyre_py_fail(GYRE_EUNSUPPORTED, "ml_dtypes", "ml_dtypes: numpy has bfloat16 from this package alone: install it");
    Py_XDECREF(module);
    Py_XDECREF(type);
    Py_DECREF(array);
    return typed;
}

/* The function that makes an array of another framework from memory: from_dlpack of the array's namespace, or of the module
 * that its type is from.  NULL where there is none, or with an exception that ends programs. */
static PyObject *find_from_dlpack(PyObject *like) {
    PyObject *space = PyObject_CallMethod(like, "__array_namespace__", NULL);
    PyObject *function = space ? PyObject_GetAttr(space, gyre_py.from_dlpack) : NULL;
    Py_XDECREF(space);
    if (function || gyre_py_forget() < 0) return function;
    PyObject *name = PyObject_GetAttrString((PyObject *)Py_TYPE(like), "__module__");
    PyObject *parts = name ? PyObject_CallMethod(name, "split", "si", ".", 1) : NULL;
    PyObject *module = parts ? PyImport_Import(PyList_GetItem(parts, 0)) : NULL;
    if (module) function = PyObject_GetAttr(module, gyre_py.from_dlpack);
    Py_XDECREF(name);
    Py_XDECREF(parts);
    Py_XDECREF(module);
    return gyre_py_forget() < 0 ? NULL : function;
}

/* Tells torch that a tensor was written, as torch's own operations in place do: a gradient that needs its old numbers is
 * then refused by torch, not computed from the new ones. */
static int count_version(PyObject *tensor) {
    static PyObject *increment;
    if (!increment) {
        PyObject *module = PyImport_ImportModule("torch.autograd.graph");
        increment = module ? PyObject_GetAttrString(module, "increment_version") : NULL; /* a torch of before 2.1 lacks it */
        Py_XDECREF(module);
        if (!increment) return gyre_py_forget();
    }
    PyObject *done = PyObject_CallFunctionObjArgs(increment, tensor, NULL);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

PyObject *gyre_py_result_finish(gyre_py_result *result) {
    PyObject *object = result->memory;
    const int is_tensor = result->is_given && result->array.family == GYRE_PY_TORCH && !PyCapsule_CheckExact(object);
    gyre_py_array_close(&result->array);
    result->memory = NULL;
    if (is_tensor && count_version(object) < 0) {
        Py_DECREF(object);
        return NULL;
    }
    if (!object || (PyObject *)Py_TYPE(object) != gyre_py.buffer_type) return object;
    PyObject *finished = NULL, *function = result->family == GYRE_PY_OTHER ? find_from_dlpack(result->like) : NULL;
    if (function) {
        finished = PyObject_CallFunctionObjArgs(function, object, NULL);
        if (!finished) gyre_py_fail(GYRE_EUNSUPPORTED, "out", "out: the caller's from_dlpack does not take the result");
    } else if (!PyErr_Occurred())
        finished = to_numpy(object);
    Py_XDECREF(function);
    Py_DECREF(object);
    return finished;
}

void gyre_py_result_drop(gyre_py_result *result) {
    gyre_py_array_close(&result->array);
    Py_CLEAR(result->memory);
}
