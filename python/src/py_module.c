/* py_module.c: the module gyre._gyre. */
#include "py_encoding.h"

#include <string.h>

gyre_py_shared gyre_py;

/* *kept = an attribute of a module. */
static int take(PyObject **kept, const char *module_name, const char *name) {
    PyObject *module = PyImport_ImportModule(module_name);
    *kept = module ? PyObject_GetAttrString(module, name) : NULL;
    Py_XDECREF(module);
    return *kept ? 0 : -1;
}

static int take_name(PyObject **kept, const char *name) {
    *kept = PyUnicode_InternFromString(name);
    return *kept ? 0 : -1;
}

static int take_shared(void) {
    gyre_py.max_version = Py_BuildValue("{s(ii)}", "max_version", 1, 0);
    gyre_py.no_arguments = PyTuple_New(0);
    if (!gyre_py.max_version || !gyre_py.no_arguments) return -1;
    if (take(&gyre_py.make_error, "gyre._errors", "make") < 0 || take(&gyre_py.path_text, "gyre._errors", "path_text") < 0 ||
        take(&gyre_py.additive, "gyre._masks", "additive") < 0 || take(&gyre_py.ndarray, "numpy", "ndarray") < 0 ||
        take(&gyre_py.empty_like, "numpy", "empty_like") < 0 || take(&gyre_py.asarray, "numpy", "asarray") < 0)
        return -1;
    if (take_name(&gyre_py.import_torch, "torch") < 0 || take_name(&gyre_py.requires_grad, "requires_grad") < 0 ||
        take_name(&gyre_py.is_neg, "is_neg") < 0 || take_name(&gyre_py.dlpack, "__dlpack__") < 0 ||
        take_name(&gyre_py.dlpack_device, "__dlpack_device__") < 0 ||
        take_name(&gyre_py.exchange, "__dlpack_c_exchange_api__") < 0 || take_name(&gyre_py.from_dlpack, "from_dlpack") < 0)
        return -1;
    return 0;
}

static PyObject *version(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    return PyUnicode_FromString(gyre_version());
}

static PyObject *check_array(PyObject *module, PyObject *args) {
    PyObject *object;
    const char *name;
    gyre_py_array array;
    (void)module;
    if (!PyArg_ParseTuple(args, "Os", &object, &name) || gyre_py_array_open(&array, object, name) < 0) return NULL;
    gyre_py_array_close(&array);
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"version", version, METH_NOARGS, "The version of the library."},
    {"set_threads", gyre_py_set_threads, METH_O,
     "set_threads(threads)\n--\n\nThreads that later calls compute with; 0 = one per processor.  Results do not depend on "
     "it.\nThe default is GYRE_THREADS in the environment, else 0."},
    {"get_threads", gyre_py_get_threads, METH_NOARGS, "get_threads()\n--\n\nThreads that calls compute with."},
    {"config_fields", gyre_py_config_fields, METH_NOARGS, "The rows of config.def: what each field of a config is."},
    {"after_fork", gyre_py_after_fork, METH_NOARGS, "Forgets the threads of the parent process."},
    {"check_array", check_array, METH_VARARGS, "Refuses what cannot be read, by the name of the argument."},
    GYRE_PY_FAST("attention", gyre_py_attention, 0),
    GYRE_PY_FAST("attention_gradient", gyre_py_attention_gradient, 0),
    GYRE_PY_FAST("paged_attention", gyre_py_paged_attention, 0),
    GYRE_PY_FAST("gate_sums", gyre_py_gate_sums, 0),
    GYRE_PY_FAST("gate_sums_gradient", gyre_py_gate_sums_gradient, 0),
#ifdef GYRE_HAVE_XLA
    {"jax_handler", gyre_py_jax_handler, METH_NOARGS, "gyre_rotate as a custom call of XLA, in a capsule."},
#endif
    GYRE_PY_FAST("contextual_attention", gyre_py_contextual_attention, 0),
    GYRE_PY_FAST("contextual_gradient", gyre_py_contextual_gradient, 0),
    GYRE_PY_FAST("adaptive_attention", gyre_py_adaptive_attention, 0),
    GYRE_PY_FAST("adaptive_gradient", gyre_py_adaptive_gradient, 0),
    GYRE_PY_FAST("trained_rotate", gyre_py_trained_rotate, 0),
    GYRE_PY_FAST("trained_gradient", gyre_py_trained_gradient, 0),
    GYRE_PY_FAST("angle_rotate", gyre_py_angle_rotate, 0),
    GYRE_PY_FAST("angle_gradient", gyre_py_angle_gradient, 0),
    GYRE_PY_FAST("polar_rotate", gyre_py_polar_rotate, 0),
    GYRE_PY_FAST("polar_gradient", gyre_py_polar_gradient, 0),
    GYRE_PY_FAST("fourier_rotate", gyre_py_fourier_rotate, 0),
    GYRE_PY_FAST("fourier_gradient", gyre_py_fourier_gradient, 0),
    GYRE_PY_FAST("rerotate", gyre_py_rerotate, 0),
    GYRE_PY_FAST("draw_positions", gyre_py_draw_positions, 0),
    GYRE_PY_FAST("read", gyre_py_read, 0),
    GYRE_PY_FAST("audit_angles", gyre_py_audit_angles, 0),
    {NULL, NULL, 0, NULL}};

static int module_exec(PyObject *module) {
    gyre_error err = {0};
    if (take_shared() < 0 || gyre_py_threads_init() < 0) return -1;
    const gyre_status status = gyre_cpu_check(&err);
    if (status) return gyre_py_raise(status, &err), -1;
    if (gyre_py_add_memory(module) < 0 || gyre_py_add_encoding(module) < 0 || gyre_py_add_cache(module) < 0 ||
        gyre_py_add_caches(module) < 0 || gyre_py_add_prepared(module) < 0 || gyre_py_add_model(module) < 0 ||
        gyre_py_add_positions(module) < 0)
        return -1;
    return 0;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, (void *)module_exec},
#ifdef Py_mod_gil
                                   {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
                                   {0, NULL}};
static PyModuleDef definition = {.m_base = PyModuleDef_HEAD_INIT,
                                 .m_name = "gyre._gyre",
                                 .m_doc = "The C interface of Gyre.",
                                 .m_methods = functions,
                                 .m_slots = slots};

PyMODINIT_FUNC PyInit__gyre(void);
PyMODINIT_FUNC PyInit__gyre(void) {
    return PyModuleDef_Init(&definition);
}
