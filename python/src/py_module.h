/* py_module.h: what the files of the extension share: errors, arguments, threads. */
#ifndef GYRE_PY_MODULE_H
#define GYRE_PY_MODULE_H
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "gyre/gyre_reading.h"

/* Objects of other modules that calls need again and again.  Set when the module is imported, except for those of
 * frameworks, which are set when the first array of theirs is met. */
typedef struct gyre_py_shared {
    PyObject *make_error;   /* gyre._errors.make(status, text, field) */
    PyObject *path_text;    /* gyre._errors.path_text(path, name) */
    PyObject *additive;     /* gyre._masks.additive(mask) */
    PyObject *ndarray;      /* numpy.ndarray */
    PyObject *empty_like;   /* numpy.empty_like */
    PyObject *asarray;      /* numpy.asarray */
    PyObject *import_torch; /* names of attributes and modules, interned */
    PyObject *requires_grad, *is_neg, *dlpack, *dlpack_device, *exchange, *from_dlpack;
    PyObject *buffer_type;  /* the type of py_memory.c */
    PyObject *max_version;  /* {"max_version": (1, 0)} */
    PyObject *no_arguments; /* () */
} gyre_py_shared;
extern gyre_py_shared gyre_py;

/* Raises gyre.Error, and returns NULL.  field: the argument at fault.  text: "ARGUMENT: why", as the library writes it.  An
 * exception that is pending becomes its __cause__; one that ends programs (KeyboardInterrupt, SystemExit) stays instead. */
PyObject *gyre_py_fail(gyre_status status, const char *field, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Raises what the library said.  field is the text before the first colon. */
PyObject *gyre_py_raise(gyre_status status, const gyre_error *err);

/* Clears a pending exception.  Returns 0, or -1 where it is one that ends programs, which stays pending. */
int gyre_py_forget(void);
/* Writes repr(object), cut to fit and never within a character. */
void gyre_py_show(PyObject *object, char *out, size_t size);

/* A function that takes arguments by name, and its docstring, which begins with its signature as CPython keeps it:
 *
 *     "rotate($self, x, positions=None, *, layout=None)\n--\n\nRotates queries or keys."
 *
 * That is the only list of its arguments: calls are read by it, help() and inspect.signature show it, and
 * scripts/python-stubs writes _gyre.pyi from it. */
#define GYRE_PY_METHOD(name)                                                                                                \
    extern const char name##_doc[];                                                                                         \
    PyObject *name(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
#define GYRE_PY_FAST(name, function, flags)                                                                                 \
    { name, (PyCFunction)(void (*)(void))(function), METH_FASTCALL | METH_KEYWORDS | (flags), function##_doc }
/* out[i] = argument i of the signature of `doc`, or NULL where it is missing, or None and not required; borrowed.  Those up
 * to the star may be given by place, and those without a default must be given.  Returns 0, or -1 with an exception. */
int gyre_py_arguments(const char *doc, PyObject *const *args, Py_ssize_t count, PyObject *keywords, PyObject **out);
/* The same for arguments that are whole numbers; those without a value keep theirs. */
int gyre_py_whole_arguments(const char *doc, PyObject *const *args, Py_ssize_t count, PyObject *keywords, int64_t *out);
/* gyre_py_arguments for tp_new, which gets a tuple and a dict. */
int gyre_py_arguments_of_new(const char *doc, PyObject *args, PyObject *keywords, PyObject **out);
/* *out = a whole number, a number, a truth value; NULL leaves it.  Returns 0, or -1 with an exception that names it. */
int gyre_py_integer(PyObject *object, const char *name, int64_t *out);
int gyre_py_number(PyObject *object, const char *name, double *out);
int gyre_py_truth(PyObject *object, const char *name, int *out);
/* *out = the index of a word among words[count]; NULL leaves it. */
int gyre_py_word(PyObject *object, const char *name, const char *const *words, int count, int *out);
/* *out = the type of a cache's keys or values, from its name; NULL leaves it. */
int gyre_py_cache_dtype(PyObject *object, const char *name, gyre_dtype *out);
/* out = a new tuple of the items of an object.  NULL with a gyre.Error where it has none, not `wanted`; an exception that
 * its own code raises between them stays. */
PyObject *gyre_py_tuple(PyObject *object, const char *name, const char *wanted);
/* *bytes = the name of a file, owned by the caller; PyBytes_AsString of it ends with a NUL and has no other. */
int gyre_py_path(PyObject *object, const char *name, PyObject **bytes);

/* Takes a lock; other threads of Python run while it waits. */
void gyre_py_lock(PyThread_type_lock lock);
/* -1 with an exception if a thread of the parent process held the lock of `name` when this process was forked: what the
 * lock guards is then half changed, and no thread releases the lock.  *forks belongs to the lock: how often this process
 * had been forked when that was last looked at.  Begin with gyre_py_forks(). */
int gyre_py_check_fork(PyThread_type_lock lock, int *forks, const char *name);
int gyre_py_forks(void);

/* A gyre_exec over the module's threads, for one call.  small 1: the call is too short for more than one thread. */
typedef struct gyre_py_threads {
    gyre_exec exec;
    struct gyre_py_pool *pool;
} gyre_py_threads;
gyre_py_threads gyre_py_threads_begin(int small);
void gyre_py_threads_end(gyre_py_threads *call);
const gyre_exec *gyre_py_exec(const gyre_py_threads *call); /* NULL = the calling thread alone */
PyObject *gyre_py_set_threads(PyObject *module, PyObject *count);
PyObject *gyre_py_get_threads(PyObject *module, PyObject *unused);
PyObject *gyre_py_after_fork(PyObject *module, PyObject *unused);
int gyre_py_threads_init(void);

/* Adds the types and functions of a file to the module.  Returns 0, or -1 with an exception. */
int gyre_py_add_memory(PyObject *module);
int gyre_py_add_encoding(PyObject *module);
int gyre_py_add_cache(PyObject *module);
int gyre_py_add_caches(PyObject *module);
int gyre_py_add_prepared(PyObject *module);
int gyre_py_add_model(PyObject *module);
int gyre_py_add_positions(PyObject *module);

/* -- functions about files of models: py_reading.c -- */

/* *out = the profile of that name; None = DEFAULT. */
int gyre_py_profile(PyObject *object, gyre_profile *out);
/* read(path, text, profile, length): a reading as a dict. */
GYRE_PY_METHOD(gyre_py_read);
/* draw_positions(draw, tokens, range, rows, seed): random positions of training sequences. */
GYRE_PY_METHOD(gyre_py_draw_positions);
/* audit_angles(table, path, text, profile, length): what a table of angles is, as a dict. */
GYRE_PY_METHOD(gyre_py_audit_angles);

#endif
