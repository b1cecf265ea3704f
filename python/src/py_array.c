/* py_array.c: opening arrays.  numpy uses the buffer protocol, torch its exchange table, and everything else __dlpack__
 * or, without that, the buffer protocol. */
#include "py_array.h"

#include <stdio.h>
#include <string.h>

void gyre_py_array_close(gyre_py_array *array) {
    switch (array->holds) {
    case GYRE_PY_HOLDS_BUFFER:
        PyBuffer_Release(&array->hold.buffer);
        break;
    case GYRE_PY_HOLDS_MANAGED:
        if (array->hold.managed->deleter) array->hold.managed->deleter(array->hold.managed);
        break;
    case GYRE_PY_HOLDS_VERSIONED:
        if (array->hold.versioned->deleter) array->hold.versioned->deleter(array->hold.versioned);
        break;
    case GYRE_PY_HOLDS_NOTHING:
        break;
    }
    array->holds = GYRE_PY_HOLDS_NOTHING;
    Py_CLEAR(array->kept);
}

const char *gyre_py_dtype_text(const gyre_py_array *array) {
    static const char *const names[] = {"float32", "float16", "bfloat16", "float64", "int32", "int64"};
    return array->dtype < 0 ? array->other_dtype : names[array->dtype];
}

int gyre_py_array_writable(const gyre_py_array *array) {
    if (!array->readonly) return 0;
    gyre_py_fail(GYRE_EINVAL, array->name, "%s: is read-only: pass memory that may be written, or out=", array->name);
    return -1;
}

int gyre_py_array_is(const gyre_py_array *array, unsigned dtypes, const char *wanted) {
    if (array->dtype >= 0 && (dtypes >> array->dtype & 1)) return 0;
    gyre_py_fail(GYRE_EDTYPE, array->name, "%s: is of type %s, not %s", array->name, gyre_py_dtype_text(array), wanted);
    return -1;
}

/* -- the buffer protocol -- */

static const struct {
    Py_ssize_t size;
    int dtype;
    char code;
} formats[] = {{4, GYRE_DTYPE_F32, 'f'}, {2, GYRE_DTYPE_F16, 'e'}, {8, GYRE_DTYPE_F64, 'd'}, {4, GYRE_DTYPE_I32, 'i'},
               {8, GYRE_DTYPE_I64, 'l'}, {8, GYRE_DTYPE_I64, 'q'}, {4, GYRE_DTYPE_I32, 'l'}};

static void read_format(gyre_py_array *array, const char *format, Py_ssize_t size) {
    const int native = format[0] == '@' || format[0] == '=' || format[0] == '<';
    const char *code = format + native;
    array->dtype = GYRE_PY_NO_DTYPE;
    for (size_t i = 0; i < sizeof formats / sizeof *formats && code[0] && !code[1]; i++)
        if (formats[i].code == code[0] && formats[i].size == size) {
            array->dtype = formats[i].dtype;
            return;
        }
    snprintf(array->other_dtype, sizeof array->other_dtype, "'%.20s'", format);
}

static int read_buffer(gyre_py_array *array, const Py_buffer *buffer) {
    if (buffer->ndim > GYRE_PY_MAX_DIMS) {
        gyre_py_fail(GYRE_ESHAPE, array->name, "%s: has %d axes, more than %d", array->name, buffer->ndim, GYRE_PY_MAX_DIMS);
        return -1;
    }
    array->data = buffer->buf;
    array->readonly = buffer->readonly;
    array->ndim = buffer->ndim;
    read_format(array, buffer->format ? buffer->format : "B", buffer->itemsize);
    if (array->dtype < 0) return 0; /* refused by gyre_py_array_is, by name */
    for (int i = 0; i < buffer->ndim; i++) {
        array->shape[i] = buffer->shape[i];
        if (buffer->strides[i] % buffer->itemsize) {
            gyre_py_fail(GYRE_EINVAL, array->name,
                         "%s: its stride of %zd bytes is not a multiple of an element: pass a copy", array->name,
                         buffer->strides[i]);
            return -1;
        }
        array->stride[i] = buffer->strides[i] / buffer->itemsize;
    }
    if ((uintptr_t)buffer->buf % (uintptr_t)buffer->itemsize == 0) return 0;
    gyre_py_fail(GYRE_EINVAL, array->name, "%s: its memory is not aligned to its elements: pass a copy", array->name);
    return -1;
}

/* 1 if object.dtype.name is "bfloat16": an array of ml_dtypes, which has no buffer.  -1 with an exception. */
static int is_bfloat16(PyObject *object) {
    PyObject *dtype = PyObject_GetAttrString(object, "dtype");
    PyObject *name = dtype ? PyObject_GetAttrString(dtype, "name") : NULL;
    const int is = name && PyUnicode_Check(name) && PyUnicode_CompareWithASCIIString(name, "bfloat16") == 0;
    Py_XDECREF(dtype);
    Py_XDECREF(name);
    return gyre_py_forget() < 0 ? -1 : is;
}

static int get_buffer(gyre_py_array *array, PyObject *object) {
    if (PyObject_GetBuffer(object, &array->hold.buffer, PyBUF_STRIDES | PyBUF_FORMAT) < 0) return -1;
    array->holds = GYRE_PY_HOLDS_BUFFER;
    return read_buffer(array, &array->hold.buffer);
}

static int fail_dtype_name(const gyre_py_array *array) {
    if (gyre_py_forget() < 0) return -1;
    PyObject *dtype = PyObject_GetAttrString(array->object, "dtype"), *text = dtype ? PyObject_Str(dtype) : NULL;
    const char *shown = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
    gyre_py_fail(GYRE_EDTYPE, array->name, "%s: is of type %.40s, not float16, bfloat16, float32 or float64", array->name,
                 shown ? shown : "unknown");
    Py_XDECREF(dtype);
    Py_XDECREF(text);
    return -1;
}

static int open_buffer(gyre_py_array *array) {
    array->family = GYRE_PY_NUMPY;
    if (get_buffer(array, array->object) == 0) return 0;
    if (array->holds) { /* read, and refused */
        gyre_py_array_close(array);
        return -1;
    }
    const int is_short = gyre_py_forget() < 0 ? -1 : is_bfloat16(array->object);
    if (is_short < 0) return -1;
    if (!is_short) return fail_dtype_name(array);
    PyObject *bits = PyObject_CallMethod(array->object, "view", "s", "uint16");
    if (!bits) return fail_dtype_name(array);
    const int status = get_buffer(array, bits);
    Py_DECREF(bits);
    if (status < 0) {
        gyre_py_array_close(array);
        return -1;
    }
    array->dtype = GYRE_DTYPE_BF16;
    for (int i = 0; i < array->ndim; i++) {
        array->shape[i] = array->hold.buffer.shape[i];
        array->stride[i] = array->hold.buffer.strides[i] / 2;
    }
    return 0;
}

/* -- torch -- */

/* The exchange table of torch.Tensor itself.  Subclasses may mean something else by their memory. */
static struct {
    PyObject *type;
    const dl_exchange *exchange;
} torch;

const dl_exchange *gyre_py_exchange_of(PyObject *type) {
    PyObject *capsule = PyObject_GetAttr(type, gyre_py.exchange);
    if (!capsule) PyErr_Clear();
    const dl_exchange *table =
        capsule && PyCapsule_CheckExact(capsule) ? PyCapsule_GetPointer(capsule, "dlpack_exchange_api") : NULL;
    if (!table) PyErr_Clear();
    Py_XDECREF(capsule);
    while (table && table->version.major != 1)
        table = table->previous;
    return table && table->tensor_from_object ? table : NULL;
}

/* 1 if the type is defined in `module` or below it; -1 with an exception. */
static int comes_from(PyObject *type, const char *module) {
    PyObject *name = PyObject_GetAttrString(type, "__module__");
    const char *text = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
    const size_t length = strlen(module);
    const int is = text && strncmp(text, module, length) == 0 && (text[length] == 0 || text[length] == '.');
    Py_XDECREF(name);
    return gyre_py_forget() < 0 ? -1 : is;
}

/* out = 1 for a torch.Tensor or an object of a subclass; -1 with an exception. */
static int is_torch(PyObject *object) {
    if (!torch.type) {
        PyObject *modules = PyImport_GetModuleDict(), *module = PyDict_GetItemString(modules, "torch");
        PyObject *type = module ? PyObject_GetAttrString(module, "Tensor") : NULL;
        if (!type) return gyre_py_forget();
        torch.exchange = gyre_py_exchange_of(type);
        torch.type = type; /* kept as long as the process */
    }
    if ((PyObject *)Py_TYPE(object) == torch.type) return 1;
    const int is = PyObject_IsInstance(object, torch.type);
    return is < 0 ? gyre_py_forget() : is;
}

/* A tensor that records gradients would lose them without a word, and one with torch's negative bit means the opposite of
 * its memory: x.conj().imag. */
static int check_tensor(const gyre_py_array *array) {
    PyObject *gradient = PyObject_GetAttr(array->object, gyre_py.requires_grad);
    PyObject *negative = PyObject_CallMethodObjArgs(array->object, gyre_py.is_neg, NULL);
    const int requires = gradient == Py_True, is_negative = negative == Py_True;
    Py_XDECREF(gradient);
    Py_XDECREF(negative);
    if (gyre_py_forget() < 0) return -1;
    if (requires)
        gyre_py_fail(GYRE_EUNSUPPORTED, array->name,
                     "%s: requires a gradient, which this call does not record: pass %s.detach(), or use gyre.torch",
                     array->name, array->name);
    else if (is_negative)
        gyre_py_fail(GYRE_EUNSUPPORTED, array->name, "%s: is a negated view of torch: pass %s.resolve_neg()", array->name,
                     array->name);
    return requires || is_negative ? -1 : 0;
}

/* 1 if an attribute is as its text says; -1 with an exception. */
static int attribute_is(PyObject *object, const char *name, const char *text) {
    PyObject *value = PyObject_GetAttrString(object, name), *shown = value ? PyObject_Str(value) : NULL;
    const int is = shown && PyUnicode_CompareWithASCIIString(shown, text) == 0;
    Py_XDECREF(value);
    Py_XDECREF(shown);
    return gyre_py_forget() < 0 ? -1 : is;
}

/* torch's own refusals do not say what would be right. */
static int check_numbers(const gyre_py_array *array) {
    const int meta = attribute_is(array->object, "is_meta", "True");
    const int dense = meta == 0 ? attribute_is(array->object, "layout", "torch.strided") : 1;
    if (meta < 0 || dense < 0) return -1;
    if (meta)
        gyre_py_fail(GYRE_EUNSUPPORTED, array->name,
                     "%s: is on the meta device, so it has no numbers: pass one of the processor", array->name);
    else if (!dense)
        gyre_py_fail(GYRE_EUNSUPPORTED, array->name, "%s: is not strided but sparse: pass %s.to_dense()", array->name,
                     array->name);
    return meta || !dense ? -1 : 0;
}

static int open_torch(gyre_py_array *array) {
    array->family = GYRE_PY_TORCH;
    if (check_tensor(array) < 0) return -1;
    if ((PyObject *)Py_TYPE(array->object) != torch.type || !torch.exchange) return gyre_py_array_open_dlpack(array);
    dl_tensor tensor;
    if (torch.exchange->tensor_from_object(array->object, &tensor) == 0 && (tensor.data || tensor.device.type != DL_CPU)) {
        array->exchange = torch.exchange;
        return gyre_py_array_from_dl(array, &tensor);
    }
    if (gyre_py_forget() < 0 || check_numbers(array) < 0) return -1;
    return gyre_py_array_open_dlpack(array); /* says why it cannot be read, or reads an empty one */
}

/* -- any array -- */

static int fail_object(const gyre_py_array *array) {
    PyObject *name = PyObject_GetAttrString((PyObject *)Py_TYPE(array->object), "__name__");
    const char *text = name ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
    gyre_py_fail(GYRE_EINVAL, array->name,
                 "%s: is a %.60s, not an array: pass one of numpy, torch or JAX, or an object with __dlpack__ or the buffer "
                 "protocol",
                 array->name, text ? text : "thing");
    Py_XDECREF(name);
    return -1;
}

/* 1 for an array of numpy.ma, which hides elements that its memory has. */
static int is_masked(PyObject *object) {
    PyObject *module = PyDict_GetItemString(PyImport_GetModuleDict(), "numpy.ma");
    PyObject *type = module ? PyObject_GetAttrString(module, "MaskedArray") : NULL;
    const int is = type ? PyObject_IsInstance(object, type) : 0;
    Py_XDECREF(type);
    return is < 0 || PyErr_Occurred() ? gyre_py_forget() : is;
}

/* An object of a subclass of numpy.ndarray. */
static int open_numpy_subclass(gyre_py_array *array) {
    const int masked = is_masked(array->object);
    if (masked > 0)
        gyre_py_fail(GYRE_EINVAL, array->name,
                     "%s: is a masked array, whose mask would be lost: pass %s.filled(0) or %s.data", array->name,
                     array->name, array->name);
    return masked ? -1 : open_buffer(array);
}

static int open_any(gyre_py_array *array, PyObject *object) {
    if ((PyObject *)Py_TYPE(object) == gyre_py.ndarray) return open_buffer(array);
    const int torch_tensor = is_torch(object);
    if (torch_tensor) return torch_tensor < 0 ? -1 : open_torch(array);
    if (PyCapsule_CheckExact(object)) return gyre_py_array_open_capsule(array, object);
    const int is_numpy = PyObject_IsInstance(object, gyre_py.ndarray);
    if (is_numpy < 0) return -1;
    if (is_numpy) return open_numpy_subclass(array);
    PyObject *method = PyObject_GetAttr((PyObject *)Py_TYPE(object), gyre_py.dlpack);
    if (!method) PyErr_Clear();
    Py_XDECREF(method);
    if (method) {
        array->family = GYRE_PY_OTHER;
        if (gyre_py_array_open_dlpack(array) < 0) return -1;
        const int of_jax = comes_from((PyObject *)Py_TYPE(object), "jaxlib");
        if (of_jax > 0) array->readonly = 1; /* JAX's arrays never change */
        return of_jax < 0 ? -1 : 0;
    }
    return PyObject_CheckBuffer(object) ? open_buffer(array) : fail_object(array);
}

/* A tensor that is fake, or whose storage was given back, has elements but no memory.  An empty array of torch has none
 * either; it gets an address, for NULL means "not given" to the library. */
static int check_memory(gyre_py_array *array) {
    static double nowhere;
    if (array->data) return 0;
    for (int i = 0; i < array->ndim; i++)
        if (array->shape[i] == 0) {
            array->data = &nowhere;
            return 0;
        }
    gyre_py_fail(GYRE_EINVAL, array->name, "%s: has no memory: it is a fake tensor, or its storage was given back",
                 array->name);
    return -1;
}

int gyre_py_array_open(gyre_py_array *array, PyObject *object, const char *name) {
    memset(array, 0, offsetof(gyre_py_array, hold));
    array->object = object;
    array->name = name;
    array->kept = Py_NewRef(object);
    if (open_any(array, object) == 0 && check_memory(array) == 0) return 0;
    gyre_py_array_close(array);
    array->object = NULL;
    return -1;
}
