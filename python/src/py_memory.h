/* py_memory.h: memory for results, of the caller's kind. */
#ifndef GYRE_PY_MEMORY_H
#define GYRE_PY_MEMORY_H
#include "py_array.h"

/* A result under construction: memory to write, and the object that the caller gets for it. */
typedef struct gyre_py_result {
    PyObject *memory; /* owned */
    gyre_py_array array;
    PyObject *like; /* borrowed: an array of the kind that the result becomes */
    gyre_py_family family;
    int is_given; /* 1: memory of the caller */
} gyre_py_result;

/* out = bytes of dense memory; -1 with an exception where they are more than memory can have. */
int64_t gyre_py_bytes(gyre_dtype dtype, int ndim, const int64_t *shape);
/* Memory shaped and typed as `like`, and strided as it where its framework does that. */
int gyre_py_result_like(gyre_py_result *result, const gyre_py_array *like);
/* Dense memory with its shape and type. */
int gyre_py_result_new(gyre_py_result *result, const gyre_py_array *like, gyre_dtype dtype, int ndim, const int64_t *shape);
/* The memory that the caller gave as `name`, of dtypes in the set. */
int gyre_py_result_given(gyre_py_result *result, PyObject *out, const char *name);
/* out = the finished object, a new reference; the memory is closed. */
PyObject *gyre_py_result_finish(gyre_py_result *result);
/* Gives up a result, after an error; of an empty one: nothing. */
void gyre_py_result_drop(gyre_py_result *result);

#endif
