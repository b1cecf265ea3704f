/* py_array.h: memory of numpy, torch, JAX and others, as views.  Nothing is copied. */
#ifndef GYRE_PY_ARRAY_H
#define GYRE_PY_ARRAY_H
#include "py_dlpack.h"
#include "py_module.h"

enum { GYRE_PY_MAX_DIMS = 8, GYRE_PY_NO_DTYPE = -1 };
typedef enum gyre_py_family {
    GYRE_PY_NUMPY, /* numpy, and objects with the buffer protocol alone: they get numpy arrays back */
    GYRE_PY_TORCH,
    GYRE_PY_OTHER /* JAX and anything else with __dlpack__ */
} gyre_py_family;

/* An array that is open: its memory stays where it is until gyre_py_array_close.  Begin with {0}. */
typedef struct gyre_py_array {
    PyObject *object; /* whose memory it is; NULL = none */
    PyObject *kept;   /* the object, owned while the array is open: its owner may drop it while the call computes */
    const char *name; /* of the argument */
    gyre_py_family family;
    const dl_exchange *exchange; /* through which it was read; NULL = otherwise */
    void *data;
    int dtype; /* a gyre_dtype, or GYRE_PY_NO_DTYPE, which other_dtype names */
    char other_dtype[24];
    int ndim, readonly;
    int64_t shape[GYRE_PY_MAX_DIMS], stride[GYRE_PY_MAX_DIMS]; /* elements */
    enum { GYRE_PY_HOLDS_NOTHING, GYRE_PY_HOLDS_BUFFER, GYRE_PY_HOLDS_MANAGED, GYRE_PY_HOLDS_VERSIONED } holds;
    union {
        Py_buffer buffer;
        dl_managed *managed;
        dl_managed_versioned *versioned;
    } hold;
} gyre_py_array;

/* Opens an array.  Returns 0, or -1 with a gyre.Error that names the argument, what it is and what would be right. */
int gyre_py_array_open(gyre_py_array *array, PyObject *object, const char *name);
void gyre_py_array_close(gyre_py_array *array); /* of an array that is not open: nothing */
/* out = "float32", ...: the type of its elements. */
const char *gyre_py_dtype_text(const gyre_py_array *array);
/* -1 with an exception unless the array may be written. */
int gyre_py_array_writable(const gyre_py_array *array);
/* -1 with an exception unless its dtype is among those of the set, a bit for each gyre_dtype. */
int gyre_py_array_is(const gyre_py_array *array, unsigned dtypes, const char *wanted);
enum {
    GYRE_PY_REAL = 1 << GYRE_DTYPE_F32 | 1 << GYRE_DTYPE_F16 | 1 << GYRE_DTYPE_BF16 | 1 << GYRE_DTYPE_F64,
    GYRE_PY_SHORT_REAL = 1 << GYRE_DTYPE_F32 | 1 << GYRE_DTYPE_F16 | 1 << GYRE_DTYPE_BF16,
    GYRE_PY_LONG_REAL = 1 << GYRE_DTYPE_F32 | 1 << GYRE_DTYPE_F64,
    GYRE_PY_WHOLE = 1 << GYRE_DTYPE_I32 | 1 << GYRE_DTYPE_I64
};
/* The part of gyre_py_array_open for objects with __dlpack__, and for capsules. */
int gyre_py_array_open_dlpack(gyre_py_array *array);
int gyre_py_array_open_capsule(gyre_py_array *array, PyObject *capsule);
/* Fills in what a DLTensor says. */
int gyre_py_array_from_dl(gyre_py_array *array, const dl_tensor *tensor);
/* The exchange table of a type; NULL where it has none. */
const dl_exchange *gyre_py_exchange_of(PyObject *type);

/* Which axis of an array is which of a view's [batch, token, head, channel]; -1 = the view's extent is 1. */
typedef struct gyre_py_layout {
    int axis[4];
    int ndim;
    char text[8];
} gyre_py_layout;
/* *out = what letters such as "bhsd" or "thd" say; object NULL = standard. */
int gyre_py_layout_read(PyObject *object, const char *standard, gyre_py_layout *out);
/* The same for arrays that need no channels: ids, labels. */
int gyre_py_layout_of_tokens(PyObject *object, const char *standard, gyre_py_layout *out);
/* *out = the array as a view.  -1 with an exception if it has another number of axes. */
int gyre_py_array_view(const gyre_py_array *array, const gyre_py_layout *layout, gyre_view *out);
gyre_cview gyre_py_const(const gyre_view *view);

/* out = elements of a view's shape, at most INT64_MAX. */
int64_t gyre_py_elements(const int64_t shape[4]);
/* Writes "[2, 3]": the extents of the array in the order of its axes. */
void gyre_py_shape_text(const gyre_py_array *array, char *out, size_t size);

/* -1 with an exception unless each element of an array, which is to be written, has its own address. */
int gyre_py_check_itself(const gyre_py_array *array);
/* What must hold before memory of the caller is written: out is shaped as in, and it shares memory with in only where it is
 * in itself.  -1 with an exception that shows extents in the order of the caller. */
int gyre_py_check_out(const gyre_py_array *in, const gyre_view *in_view, const gyre_py_array *out,
                      const gyre_view *out_view);
/* -1 with an exception if two views share memory. */
int gyre_py_check_apart(const char *out_name, const gyre_view *out, const char *name, const gyre_view *view);
/* out[axis] = one number for all axes, or a list of one for each; axes 0 = unlike ones, for which no list is right. */
int gyre_py_shift(PyObject *object, const char *name, int64_t axes, int64_t out[GYRE_MAX_AXES]);

/* *list = the whole numbers of an array of one axis, owned by the caller; *count of them, which 0 or more says beforehand.
 * object NULL = nothing. */
int gyre_py_list(PyObject *object, const char *name, int64_t *count, int64_t **list);

/* Positions: an int, or an array [tokens], [batch, tokens], with several axes [axes, tokens] or [axes, batch, tokens].
 * open reads them once: out->base = an int, or array->object is set.  match says which axis is which; without an array, or
 * without positions (object NULL), nothing. */
typedef struct gyre_py_positions_request {
    const char *name;
    int64_t axes, batch, tokens;
} gyre_py_positions_request;
int gyre_py_positions_open(PyObject *object, const char *name, gyre_positions *out, gyre_py_array *array);
int gyre_py_positions_match(const gyre_py_positions_request *request, gyre_positions *out, const gyre_py_array *array);
/* Both. */
int gyre_py_positions(PyObject *object, const gyre_py_positions_request *request, gyre_positions *out, gyre_py_array *array);

#endif
