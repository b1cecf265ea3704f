/* py_caches.c: the type Caches: the caches of all layers of a model, edited, saved and loaded by one call. */
#include "cache/py_cache.h"
#include "gyre/gyre_fields.h"
#include "py_array.h"
#include "py_encoding.h"

#include <stdlib.h>

/* The caches never change, so all is made once. */
typedef struct caches_object {
    PyObject_HEAD
    PyObject *layers;       /* a tuple of Cache and None */
    gyre_cache **caches;    /* [count] of the layers; NULL = a layer without one */
    gyre_py_cache **locked; /* [locks] each cache, in the order of addresses, in which all calls lock them */
    int64_t count, locks;
    int64_t axes; /* of each layer; 0 = they differ */
} caches_object;

/* -- locks -- */
static int check_forks(caches_object *self) {
    for (int64_t i = 0; i < self->locks; i++)
        if (gyre_py_check_fork(self->locked[i]->lock, &self->locked[i]->forks, "cache") < 0) return -1;
    return 0;
}

static void lock_caches(caches_object *self) {
    for (int64_t i = 0; i < self->locks; i++)
        gyre_py_lock(self->locked[i]->lock);
}

static void unlock_caches(caches_object *self) {
    for (int64_t i = self->locks; i-- > 0;)
        PyThread_release_lock(self->locked[i]->lock);
}

static PyObject *done(caches_object *self, gyre_status status, const gyre_error *err) {
    unlock_caches(self);
    if (status) return gyre_py_raise(status, err);
    Py_RETURN_NONE;
}

/* -- creation -- */
static void caches_dealloc(PyObject *object) {
    caches_object *self = (caches_object *)object;
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    free(self->caches);
    free(self->locked);
    Py_XDECREF(self->layers);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

/* The attributes of a layer, an object of a subclass of Cache, may lead back to the caches.  There is no tp_clear: like a
 * tuple, caches never change, and the attributes of that object are cleared.  A cycle through an attribute of an Encoding is
 * not found, since Cache does not show its encoding to the collector. */
static int caches_traverse(PyObject *object, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(((caches_object *)object)->layers);
    return 0;
}

static int by_address(const void *a, const void *b) {
    const uintptr_t x = (uintptr_t) * (void *const *)a, y = (uintptr_t) * (void *const *)b;
    return (x > y) - (x < y);
}

int64_t gyre_py_cache_axes(gyre_py_cache *cache) {
    gyre_py_lock(cache->lock);
    const int64_t axes = cache->encoding ? ((const gyre_py_encoding *)cache->encoding)->axes : 1;
    PyThread_release_lock(cache->lock);
    return axes;
}

static int read_layers(caches_object *self) {
    for (int64_t i = 0; i < self->count; i++) {
        PyObject *layer = PyTuple_GetItem(self->layers, i);
        gyre_py_cache *cache = layer == Py_None ? NULL : gyre_py_cache_of(layer);
        if (layer != Py_None && !cache)
            return gyre_py_fail(GYRE_EINVAL, "layers", "layers: layer %lld is not a gyre.Cache or None", (long long)i), -1;
        if (!cache) continue;
        if (gyre_py_check_fork(cache->lock, &cache->forks, "cache") < 0) return -1;
        const int64_t axes = gyre_py_cache_axes(cache);
        self->axes = self->locks == 0 || self->axes == axes ? axes : 0;
        self->caches[i] = cache->cache;
        self->locked[self->locks++] = cache;
    }
    qsort(self->locked, (size_t)self->locks, sizeof(void *), by_address);
    for (int64_t i = 1; i < self->locks; i++)
        if (self->locked[i] == self->locked[i - 1])
            return gyre_py_fail(GYRE_EINVAL, "layers", "layers: two layers have the same cache; each needs its own"), -1;
    return 0;
}

/* layers: a tuple, which the object takes over. */
static PyObject *make_caches(PyTypeObject *type, PyObject *layers) {
    const allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    caches_object *self = (caches_object *)allocate(type, 0);
    if (!self) {
        Py_DECREF(layers);
        return NULL;
    }
    self->layers = layers;
    self->count = PyTuple_Size(layers);
    self->axes = 1;
    self->caches = calloc((size_t)self->count + 1, sizeof(void *));
    self->locked = calloc((size_t)self->count + 1, sizeof(void *));
    if (self->caches && self->locked && read_layers(self) == 0) return (PyObject *)self;
    if (!PyErr_Occurred()) PyErr_NoMemory();
    Py_DECREF((PyObject *)self);
    return NULL;
}

static const char caches_new_doc[] =
    "Caches(layers"
    ")\n--\n\n"
    "The caches of all layers of a model: each call edits all of them or none.\n"
    "\n"
    "Layers may differ in shape, types, pages and encoding, but a sequence that is edited must have the same number of\n"
    "tokens in all; fork does not need that.  Nothing is copied: tokens are appended to the caches themselves.  An error\n"
    "names the layer, and no layer has changed.\n"
    "\n"
    "Args:\n"
    "    layers: a Cache for each layer, or None for a layer without one.";

static PyObject *caches_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    PyObject *a[1];
    if (gyre_py_arguments_of_new(caches_new_doc, args, keywords, a) < 0) return NULL;
    PyObject *layers = gyre_py_tuple(a[0], "layers", "a list with a gyre.Cache, or None, for each layer");
    return layers ? make_caches(type, layers) : NULL;
}

/* object.__init__ would refuse the arguments that __new__ has read. */
static int caches_init(PyObject *self, PyObject *args, PyObject *keywords) {
    (void)self, (void)args, (void)keywords;
    return 0;
}

/* -- editing -- */
static const char caches_remove_doc[] = "remove($self, first, count, *, sequence=0"
                                        ")\n--\n\n"
                                        "Cache.remove in every layer.";
static PyObject *caches_remove(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    caches_object *self = (caches_object *)object;
    int64_t a[3] = {0};
    gyre_error err = {0};
    if (check_forks(self) < 0 || gyre_py_whole_arguments(caches_remove_doc, args, count, keywords, a) < 0) return NULL;
    lock_caches(self);
    return done(self, gyre_caches_remove(self->caches, self->count, (gyre_cache_range){a[2], a[0], a[1]}, &err), &err);
}

static const char caches_shift_doc[] = "shift($self, first, count, delta, *, sequence=0"
                                       ")\n--\n\n"
                                       "Cache.shift in every layer.";
static PyObject *caches_shift(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    caches_object *self = (caches_object *)object;
    PyObject *a[4];
    gyre_cache_range range = {0};
    int64_t delta[GYRE_MAX_AXES] = {0};
    gyre_error err = {0};
    if (check_forks(self) < 0 || gyre_py_arguments(caches_shift_doc, args, count, keywords, a) < 0 ||
        gyre_py_integer(a[0], "first", &range.first) < 0 || gyre_py_integer(a[1], "count", &range.count) < 0 ||
        gyre_py_shift(a[2], "delta", self->axes, delta) < 0 || gyre_py_integer(a[3], "sequence", &range.sequence) < 0)
        return NULL;
    lock_caches(self);
    return done(self, gyre_caches_shift(self->caches, self->count, range, delta, &err), &err);
}

static const char caches_fork_doc[] = "fork($self, source, target"
                                      ")\n--\n\n"
                                      "Cache.fork in every layer.";
static PyObject *caches_fork(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    caches_object *self = (caches_object *)object;
    int64_t a[2] = {0};
    gyre_error err = {0};
    if (check_forks(self) < 0 || gyre_py_whole_arguments(caches_fork_doc, args, count, keywords, a) < 0) return NULL;
    lock_caches(self);
    return done(self, gyre_caches_fork(self->caches, self->count, a[0], a[1], &err), &err);
}

static const char caches_slide_doc[] =
    "slide($self, sinks, window, *, sequence=0"
    ")\n--\n\n"
    "Cache.slide in every layer.  The next position is `window` where the sequence had more tokens.";
static PyObject *caches_slide(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    caches_object *self = (caches_object *)object;
    int64_t a[3] = {0};
    gyre_error err = {0};
    if (check_forks(self) < 0 || gyre_py_whole_arguments(caches_slide_doc, args, count, keywords, a) < 0) return NULL;
    lock_caches(self);
    return done(self, gyre_caches_slide(self->caches, self->count, a[2], a[0], a[1], &err), &err);
}

/* -- files -- */
static const char caches_save_doc[] = "save($self, path"
                                      ")\n--\n\n"
                                      "Writes the caches of all layers to one file, which appears whole or not at all.";
static PyObject *caches_save(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    caches_object *self = (caches_object *)object;
    PyObject *path, *bytes;
    gyre_error err = {0};
    gyre_status status;
    if (check_forks(self) < 0 || gyre_py_arguments(caches_save_doc, args, count, keywords, &path) < 0 ||
        gyre_py_path(path, "path", &bytes) < 0)
        return NULL;
    lock_caches(self);
    Py_BEGIN_ALLOW_THREADS
    status = gyre_caches_save(self->caches, self->count, PyBytes_AsString(bytes), &err);
    Py_END_ALLOW_THREADS
    Py_DECREF(bytes);
    return done(self, status, &err);
}

/* Loads the file; out = a tuple of caches and None. */
static PyObject *load_layers(const char *path, PyObject *encodings) {
    const int64_t count = PyTuple_Size(encodings);
    gyre_cache **caches = calloc((size_t)count + 1, sizeof(void *));
    const gyre_encoding **borrowed = calloc((size_t)count + 1, sizeof(void *));
    gyre_status status = caches && borrowed ? GYRE_OK : GYRE_ENOMEM;
    gyre_error err = {0, "layers: no memory for a list of them"};
    int good = 1;
    for (int64_t i = 0; good && !status && i < count; i++) {
        PyObject *item = PyTuple_GetItem(encodings, i);
        const gyre_py_encoding *encoding;
        good = gyre_py_encoding_of(item == Py_None ? NULL : item, "encodings", &encoding) == 0;
        if (good && encoding) borrowed[i] = encoding->encoding;
    }
    if (good && !status) {
        Py_BEGIN_ALLOW_THREADS
        status = gyre_caches_load(caches, count, path, borrowed, NULL, &err);
        Py_END_ALLOW_THREADS
    }
    PyObject *layers = good && !status ? PyTuple_New(count) : NULL;
    for (int64_t i = 0; good && !status && i < count; i++) {
        PyObject *item = PyTuple_GetItem(encodings, i), *layer = NULL;
        if (!layers)
            gyre_cache_free(caches[i]);
        else
            layer = caches[i] ? gyre_py_cache_make(caches[i], item == Py_None ? NULL : item) : Py_NewRef(Py_None);
        if (layers && (!layer || PyTuple_SetItem(layers, i, layer) < 0)) Py_CLEAR(layers);
    }
    if (status) gyre_py_raise(status, &err);
    free(borrowed);
    free(caches);
    return layers;
}

static const char caches_load_doc[] =
    "load($type, path, encodings"
    ")\n--\n\n"
    "The caches that save wrote; encodings: of each layer that of the saved cache, or None, as in Cache.load.";
static PyObject *caches_load(PyObject *type, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    PyObject *a[2], *path, *layers = NULL;
    if (gyre_py_arguments(caches_load_doc, args, count, keywords, a) < 0 || gyre_py_path(a[0], "path", &path) < 0)
        return NULL;
    PyObject *encodings = gyre_py_tuple(a[1], "encodings", "a list with a gyre.Encoding, or None, for each layer");
    if (encodings) layers = load_layers(PyBytes_AsString(path), encodings);
    Py_XDECREF(encodings);
    Py_DECREF(path);
    return layers ? make_caches((PyTypeObject *)type, layers) : NULL;
}

/* -- the type -- */
static PyObject *caches_layers(PyObject *object, void *unused) {
    (void)unused;
    return Py_NewRef(((caches_object *)object)->layers);
}

static PyMethodDef methods[] = {GYRE_PY_FAST("load", caches_load, METH_CLASS),
                                GYRE_PY_FAST("save", caches_save, 0),
                                GYRE_PY_FAST("remove", caches_remove, 0),
                                GYRE_PY_FAST("shift", caches_shift, 0),
                                GYRE_PY_FAST("fork", caches_fork, 0),
                                GYRE_PY_FAST("slide", caches_slide, 0),
                                {NULL, NULL, 0, NULL}};
static PyGetSetDef attributes[] = {{"layers", caches_layers, NULL, "The cache of each layer, or None.", NULL},
                                   {NULL, NULL, NULL, NULL, NULL}};
static PyType_Slot slots[] = {{Py_tp_new, (void *)caches_new},
                              {Py_tp_init, (void *)caches_init},
                              {Py_tp_dealloc, (void *)caches_dealloc},
                              {Py_tp_traverse, (void *)caches_traverse},
                              {Py_tp_methods, methods},
                              {Py_tp_getset, attributes},
                              {Py_tp_doc, (void *)caches_new_doc},
                              {0, NULL}};
static PyType_Spec spec = {"gyre._gyre.Caches", sizeof(caches_object), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, slots};

int gyre_py_add_caches(PyObject *module) {
    PyObject *type = PyType_FromSpec(&spec);
    const int status = type ? PyModule_AddObjectRef(module, "Caches", type) : -1;
    Py_XDECREF(type);
    return status;
}
