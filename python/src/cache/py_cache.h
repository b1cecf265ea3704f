/* py_cache.h: the object of a cache, which a call over all layers locks too. */
#ifndef GYRE_PY_CACHE_H
#define GYRE_PY_CACHE_H
#include "py_module.h"

#include "gyre/gyre_cache.h"

/* A lock serves all calls: none may run while another changes the cache. */
typedef struct gyre_py_cache {
    PyObject_HEAD
    gyre_cache *cache;
    PyObject *encoding; /* kept as long as the cache borrows it; may be NULL */
    PyThread_type_lock lock;
    int forks;
} gyre_py_cache;

/* out = the object as a Cache; NULL if it is none.  Sets no exception. */
gyre_py_cache *gyre_py_cache_of(PyObject *object);
/* out = the axes of its positions, which set_encoding never changes.  Takes the lock: check its fork first. */
int64_t gyre_py_cache_axes(gyre_py_cache *cache);
/* A Cache that owns `cache`, which borrows `encoding` (may be NULL).  After an exception the cache is freed. */
PyObject *gyre_py_cache_make(gyre_cache *cache, PyObject *encoding);

#endif
