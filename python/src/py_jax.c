/* py_jax.c: gyre_rotate as a custom call of XLA, for jax.ffi.  XLA calls it on its own threads, without the GIL. */
#ifdef GYRE_HAVE_XLA
#include "py_encoding.h"

#include <stdlib.h>
#include <string.h>

#include "xla/ffi/api/c_api.h"

/* -- encodings by their text -- */

/* A compiled program knows an encoding by its text alone, so that it can be kept on disk and run by another process.  What
 * was met once stays: encodings are small and few. */
typedef struct known_encoding {
    struct known_encoding *next;
    const gyre_encoding *encoding;
    size_t length;
    char text[];
} known_encoding;
static struct {
    PyThread_type_lock lock;
    known_encoding *first;
} known;

static const gyre_encoding *find_known(const char *text, size_t length) {
    PyThread_acquire_lock(known.lock, WAIT_LOCK);
    const known_encoding *k = known.first;
    while (k && (k->length != length || memcmp(k->text, text, length) != 0))
        k = k->next;
    PyThread_release_lock(known.lock);
    return k ? k->encoding : NULL;
}

/* Takes the GIL; the object is kept for ever. */
static const gyre_encoding *make_known(const char *text, size_t length) {
    const gyre_encoding *encoding = NULL;
    const PyGILState_STATE state = PyGILState_Ensure();
    PyObject *module = PyImport_ImportModule("gyre._specs");
    PyObject *made = module ? PyObject_CallMethod(module, "encoding_of", "s#", text, (Py_ssize_t)length) : NULL;
    known_encoding *k = made ? malloc(sizeof *k + length) : NULL;
    if (k) {
        k->encoding = encoding = ((gyre_py_encoding *)made)->encoding;
        k->length = length;
        memcpy(k->text, text, length);
        PyThread_acquire_lock(known.lock, WAIT_LOCK);
        k->next = known.first;
        known.first = k;
        PyThread_release_lock(known.lock);
    } else
        Py_XDECREF(made);
    Py_XDECREF(module);
    PyErr_Clear();
    PyGILState_Release(state);
    return encoding;
}

/* -- reading a call -- */

static XLA_FFI_Error *fail(const XLA_FFI_CallFrame *frame, const char *text) {
    XLA_FFI_Error_Create_Args args = {
        .struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE, .message = text, .errc = XLA_FFI_Error_Code_INVALID_ARGUMENT};
    return frame->api->XLA_FFI_Error_Create(&args);
}

static const void *attribute(const XLA_FFI_CallFrame *frame, const char *name, XLA_FFI_AttrType type) {
    const XLA_FFI_Attrs *attrs = &frame->attrs;
    for (int64_t i = 0; i < attrs->size; i++)
        if (attrs->names[i]->len == strlen(name) && memcmp(attrs->names[i]->ptr, name, attrs->names[i]->len) == 0)
            return attrs->types[i] == type ? attrs->attrs[i] : NULL;
    return NULL;
}

/* n whole numbers; NULL where the attribute is another. */
static const int64_t *whole_numbers(const XLA_FFI_CallFrame *frame, const char *name, size_t n) {
    const XLA_FFI_Array *array = attribute(frame, name, XLA_FFI_AttrType_ARRAY);
    return array && array->dtype == XLA_FFI_DataType_S64 && array->size == n ? array->data : NULL;
}

static int dtype_of(XLA_FFI_DataType type, gyre_dtype *out) {
    static const struct {
        XLA_FFI_DataType theirs;
        gyre_dtype ours;
    } types[] = {{XLA_FFI_DataType_F32, GYRE_DTYPE_F32},   {XLA_FFI_DataType_F16, GYRE_DTYPE_F16},
                 {XLA_FFI_DataType_BF16, GYRE_DTYPE_BF16}, {XLA_FFI_DataType_F64, GYRE_DTYPE_F64},
                 {XLA_FFI_DataType_S32, GYRE_DTYPE_I32},   {XLA_FFI_DataType_S64, GYRE_DTYPE_I64}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].theirs == type) {
            *out = types[i].ours;
            return 0;
        }
    return -1;
}

/* *out = a dense buffer.  axes[4]: its axes of batch, tokens, heads and channels; -1 = extent 1. */
static int view_of(const XLA_FFI_Buffer *buffer, const int64_t *axes, gyre_view *out) {
    int64_t stride[GYRE_PY_MAX_DIMS], next = 1;
    if (buffer->rank > GYRE_PY_MAX_DIMS || dtype_of(buffer->dtype, &out->dtype) < 0) return -1;
    for (int64_t i = buffer->rank - 1; i >= 0; i--) {
        stride[i] = next;
        next *= buffer->dims[i];
    }
    out->data = buffer->data;
    for (int i = 0; i < 4; i++) {
        if (axes[i] >= buffer->rank) return -1;
        out->shape[i] = axes[i] < 0 ? 1 : buffer->dims[axes[i]];
        out->stride[i] = axes[i] < 0 ? 0 : stride[axes[i]];
    }
    return 0;
}

/* What a call asks for.  strides: of positions, for batch, token and axis. */
typedef struct rotation {
    const gyre_encoding *encoding;
    gyre_view in, out;
    gyre_positions positions;
    const int64_t *numbers; /* direction, role, context length */
} rotation;

static const char *read_rotation(const XLA_FFI_CallFrame *frame, rotation *r) {
    const XLA_FFI_ByteSpan *text = attribute(frame, "encoding", XLA_FFI_AttrType_STRING);
    const int64_t *axes = whole_numbers(frame, "axes", 4), *strides = whole_numbers(frame, "strides", 3);
    r->numbers = whole_numbers(frame, "numbers", 3);
    if (!text || !axes || !strides || !r->numbers || frame->args.size != 2 || frame->rets.size != 1)
        return "gyre_rotate: not called by gyre.jax";
    const XLA_FFI_Buffer *const at = frame->args.args[1];
    if (view_of(frame->args.args[0], axes, &r->in) < 0 || view_of(frame->rets.rets[0], axes, &r->out) < 0)
        return "x: not float16, bfloat16, float32 or float64";
    if (dtype_of(at->dtype, &r->positions.dtype) < 0) return "positions: not int32 or int64";
    r->positions.data = at->data;
    r->positions.stride_batch = strides[0];
    r->positions.stride_token = strides[1];
    r->positions.stride_axis = strides[2];
    r->positions.context_length = r->numbers[2];
    r->encoding = find_known(text->ptr, text->len);
    if (!r->encoding) r->encoding = make_known(text->ptr, text->len);
    return r->encoding ? NULL : "encoding: its text cannot be read";
}

enum { ONE_THREAD_BYTES = 1 << 20 };

static XLA_FFI_Error *rotate_call(XLA_FFI_CallFrame *frame) {
    rotation r = {0};
    if (frame->extension_start && frame->extension_start->type == XLA_FFI_Extension_Metadata) {
        XLA_FFI_Metadata *metadata = ((XLA_FFI_Metadata_Extension *)frame->extension_start)->metadata;
        metadata->api_version.major_version = XLA_FFI_API_MAJOR;
        metadata->api_version.minor_version = XLA_FFI_API_MINOR;
        return NULL;
    }
    const char *why = read_rotation(frame, &r);
    if (why) return fail(frame, why);
    const int64_t numbers = r.in.shape[0] * r.in.shape[1] * r.in.shape[2] * r.in.shape[3];
    const gyre_cview in = gyre_const(r.in);
    gyre_error err = {0};
    gyre_py_threads threads = gyre_py_threads_begin(numbers * (int64_t)gyre_dtype_size(r.in.dtype) < ONE_THREAD_BYTES);
    const gyre_status status =
        gyre_rotate(r.encoding,
                    GYRE_ARGS(gyre_rotate_args, .direction = (gyre_direction)r.numbers[0], .role = (gyre_role)r.numbers[1],
                              .positions = &r.positions, .in = in, .out = r.out),
                    gyre_py_exec(&threads), &err);
    gyre_py_threads_end(&threads);
    return !status ? NULL : fail(frame, err.text);
}

PyObject *gyre_py_jax_handler(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    if (!known.lock) known.lock = PyThread_allocate_lock();
    if (!known.lock) return PyErr_NoMemory();
    union {
        XLA_FFI_Error *(*function)(XLA_FFI_CallFrame *);
        void *pointer;
    } handler = {rotate_call};
    return PyCapsule_New(handler.pointer, "xla._CUSTOM_CALL_TARGET", NULL);
}

#else
typedef int gyre_py_jax_absent; /* ISO C wants a declaration */
#endif
