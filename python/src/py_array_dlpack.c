/* py_array_dlpack.c: arrays that come as DLPack capsules, old and versioned. */
#include "py_array.h"

#include <stdio.h>
#include <string.h>

static int dtype_of(dl_type type) {
    if (type.lanes != 1) return GYRE_PY_NO_DTYPE;
    if (type.code == DL_FLOAT && type.bits == 32) return GYRE_DTYPE_F32;
    if (type.code == DL_FLOAT && type.bits == 16) return GYRE_DTYPE_F16;
    if (type.code == DL_FLOAT && type.bits == 64) return GYRE_DTYPE_F64;
    if (type.code == DL_BFLOAT && type.bits == 16) return GYRE_DTYPE_BF16;
    if (type.code == DL_INT && type.bits == 32) return GYRE_DTYPE_I32;
    if (type.code == DL_INT && type.bits == 64) return GYRE_DTYPE_I64;
    return GYRE_PY_NO_DTYPE;
}

static void read_type(gyre_py_array *array, dl_type type) {
    static const char *const codes[] = {"int", "uint", "float", "opaque", "bfloat", "complex", "bool"};
    array->dtype = dtype_of(type);
    if (array->dtype >= 0) return;
    enum { FLOAT8 = 7, FLOAT4 = 17 }; /* short floats of several forms */
    const char *code = type.code < sizeof codes / sizeof *codes     ? codes[type.code]
                       : type.code >= FLOAT8 && type.code <= FLOAT4 ? "float"
                                                                    : "type";
    snprintf(array->other_dtype, sizeof array->other_dtype, type.lanes == 1 ? "%s%d" : "%s%dx%d", code, type.bits,
             type.lanes);
}

/* Names the device as the array itself does, else by number. */
static int fail_device(const gyre_py_array *array, int64_t type, int64_t id) {
    PyObject *device = PyObject_GetAttrString(array->object, "device"), *text = device ? PyObject_Str(device) : NULL;
    gyre_py_forget(); /* what ends programs stays, and gyre_py_fail keeps it */
    const char *shown = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
    char number[64];
    snprintf(number, sizeof number, "DLPack device (%lld, %lld)", (long long)type, (long long)id);
    gyre_py_fail(GYRE_EUNSUPPORTED, array->name,
                 "%s: is on %.60s, but Gyre computes on the processor: pass a copy in its memory", array->name,
                 shown ? shown : number);
    Py_XDECREF(device);
    Py_XDECREF(text);
    return -1;
}

static int on_processor(int64_t type) {
    return type == DL_CPU || type == DL_CUDA_HOST || type == DL_ROCM_HOST;
}

int gyre_py_array_from_dl(gyre_py_array *array, const dl_tensor *tensor) {
    if (!on_processor(tensor->device.type)) return fail_device(array, tensor->device.type, tensor->device.id);
    if (tensor->ndim < 0 || tensor->ndim > GYRE_PY_MAX_DIMS) {
        gyre_py_fail(GYRE_ESHAPE, array->name, "%s: has %d axes, more than %d", array->name, (int)tensor->ndim,
                     GYRE_PY_MAX_DIMS);
        return -1;
    }
    array->ndim = tensor->ndim;
    int64_t dense = 1;
    for (int i = tensor->ndim - 1; i >= 0; i--) {
        array->shape[i] = tensor->shape[i];
        array->stride[i] = tensor->strides ? tensor->strides[i] : dense;
        dense *= tensor->shape[i];
    }
    read_type(array, tensor->dtype);
    array->data = tensor->data ? (char *)tensor->data + tensor->byte_offset : NULL;
    const uintptr_t size = array->dtype >= 0 ? gyre_dtype_size((gyre_dtype)array->dtype) : 1;
    if ((uintptr_t)array->data % size == 0) return 0;
    gyre_py_fail(GYRE_EINVAL, array->name, "%s: its memory is not aligned to its elements: pass a copy", array->name);
    return -1;
}

static int fail_capsule(const gyre_py_array *array, const char *why) {
    PyErr_Clear();
    gyre_py_fail(GYRE_EINVAL, array->name, "%s: %s", array->name, why);
    return -1;
}

/* A capsule is taken by giving it another name; from then on its deleter is called here. */
static int take_versioned(gyre_py_array *array, PyObject *capsule) {
    dl_managed_versioned *managed = PyCapsule_GetPointer(capsule, "dltensor_versioned");
    if (!managed) return -1;
    if (managed->version.major != 1) return fail_capsule(array, "its DLPack capsule is of a version other than 1");
    if (PyCapsule_SetName(capsule, "used_dltensor_versioned") < 0) return -1;
    array->holds = GYRE_PY_HOLDS_VERSIONED;
    array->hold.versioned = managed;
    array->readonly = (managed->flags & DL_READ_ONLY) != 0;
    return gyre_py_array_from_dl(array, &managed->tensor);
}

static int take_old(gyre_py_array *array, PyObject *capsule) {
    dl_managed *managed = PyCapsule_GetPointer(capsule, "dltensor");
    if (!managed || PyCapsule_SetName(capsule, "used_dltensor") < 0) return -1;
    array->holds = GYRE_PY_HOLDS_MANAGED;
    array->hold.managed = managed;
    return gyre_py_array_from_dl(array, &managed->tensor);
}

int gyre_py_array_open_capsule(gyre_py_array *array, PyObject *capsule) {
    int status = -1;
    if (PyCapsule_IsValid(capsule, "dltensor_versioned"))
        status = take_versioned(array, capsule);
    else if (PyCapsule_IsValid(capsule, "dltensor"))
        status = take_old(array, capsule);
    else if (PyCapsule_IsValid(capsule, "used_dltensor") || PyCapsule_IsValid(capsule, "used_dltensor_versioned"))
        return fail_capsule(array, "its DLPack capsule was consumed: ask the array for another with __dlpack__()");
    else
        return fail_capsule(array, "is a capsule, but not of DLPack");
    if (status < 0) gyre_py_array_close(array);
    return status;
}

/* Says what the array's own method raised, which stays as the cause. */
static int fail_export(const gyre_py_array *array) {
    PyObject *type, *value, *trace;
    if (!PyErr_ExceptionMatches(PyExc_Exception)) return -1;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    PyObject *text = PyObject_Str(value);
    const char *shown = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
    if (gyre_py_forget() == 0)
        PyErr_Restore(type, value, trace);
    else {
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(trace);
    }
    gyre_py_fail(GYRE_EINVAL, array->name, "%s: its memory cannot be read: %.300s", array->name,
                 shown && shown[0] ? shown : "__dlpack__ failed");
    Py_XDECREF(text);
    return -1;
}

static int check_device(gyre_py_array *array) {
    PyObject *method = PyObject_GetAttr(array->object, gyre_py.dlpack_device);
    PyObject *device = method ? PyObject_CallObject(method, NULL) : NULL;
    Py_XDECREF(method);
    int64_t number[2] = {DL_CPU, 0};
    for (int i = 0; device && PyTuple_Check(device) && PyTuple_Size(device) == 2 && i < 2; i++) {
        PyObject *whole = PyNumber_Index(PyTuple_GetItem(device, i)); /* an enum of some frameworks */
        number[i] = whole ? PyLong_AsLongLong(whole) : number[i];
        Py_XDECREF(whole);
    }
    Py_XDECREF(device);
    if (PyErr_Occurred()) { /* an array without __dlpack_device__ says where it is in its capsule */
        if (!PyErr_ExceptionMatches(PyExc_AttributeError)) return fail_export(array);
        PyErr_Clear();
    }
    return on_processor(number[0]) ? 0 : fail_device(array, number[0], number[1]);
}

/* Asks for a versioned capsule; exporters of before DLPack 1.0 know no max_version. */
static PyObject *ask_capsule(PyObject *object) {
    PyObject *method = PyObject_GetAttr(object, gyre_py.dlpack);
    PyObject *capsule = method ? PyObject_Call(method, gyre_py.no_arguments, gyre_py.max_version) : NULL;
    if (method && !capsule && PyErr_ExceptionMatches(PyExc_TypeError)) {
        PyErr_Clear();
        capsule = PyObject_CallObject(method, NULL);
    }
    Py_XDECREF(method);
    return capsule;
}

int gyre_py_array_open_dlpack(gyre_py_array *array) {
    if (check_device(array) < 0) return -1;
    PyObject *capsule = ask_capsule(array->object);
    if (!capsule) return fail_export(array);
    const int status = PyCapsule_CheckExact(capsule) ? gyre_py_array_open_capsule(array, capsule)
                                                     : fail_capsule(array, "its __dlpack__ returned no capsule");
    Py_DECREF(capsule);
    return status;
}
