/* py_encoding.h: the Encoding type, and configs as dicts. */
#ifndef GYRE_PY_ENCODING_H
#define GYRE_PY_ENCODING_H
#include "py_memory.h"

typedef struct gyre_py_encoding {
    PyObject_HEAD
    gyre_encoding *encoding;
    int64_t axes; /* of its positions */
} gyre_py_encoding;

/* out = the encoding of an Encoding; NULL with an exception for another object.  None: *out NULL, 0. */
int gyre_py_encoding_of(PyObject *object, const char *name, const gyre_py_encoding **out);

/* *encoding = what {"kind": "rope", "rope.base": 1e6, ...} describes. */
int gyre_py_encoding_from_dict(PyObject *dict, gyre_encoding **encoding);
/* out = a config as such a dict, all fields; those that hold their zero are left out unless `all`. */
PyObject *gyre_py_config_dict(const gyre_config *config, int all);
/* config_fields(): the rows of config.def, of which the functions of gyre._kinds are made. */
PyObject *gyre_py_config_fields(PyObject *self, PyObject *nothing);

/* Tables of a scheme: a dict of arrays by name, or one array where the scheme has one table.  Begin with {0}. */
enum { GYRE_PY_TABLES = 7 };
typedef struct gyre_py_tables {
    gyre_tables tables;
    gyre_py_array arrays[GYRE_PY_TABLES];
} gyre_py_tables;
extern const char *const gyre_py_table_names[GYRE_PY_TABLES];
int gyre_py_tables_open(gyre_py_tables *tables, PyObject *object, const gyre_encoding *encoding);
void gyre_py_tables_close(gyre_py_tables *tables);
/* Dense memory for the gradients of all tables that a call has, F32 or F64, and a dict of them. */
typedef struct gyre_py_table_gradients {
    gyre_table_gradients views;
    gyre_py_result results[GYRE_PY_TABLES + 1]; /* the last: sink logits */
} gyre_py_table_gradients;
int gyre_py_table_gradients_make(gyre_py_table_gradients *gradients, const gyre_py_tables *tables, gyre_dtype dtype);
PyObject *gyre_py_table_gradients_finish(gyre_py_table_gradients *gradients);
void gyre_py_table_gradients_drop(gyre_py_table_gradients *gradients);

/* Methods of Encoding, by file. */
GYRE_PY_METHOD(gyre_py_rotate);
GYRE_PY_METHOD(gyre_py_rotate_pair);
GYRE_PY_METHOD(gyre_py_rerotate);
GYRE_PY_METHOD(gyre_py_cos_sin);
GYRE_PY_METHOD(gyre_py_bias);
GYRE_PY_METHOD(gyre_py_bias_gradient);
GYRE_PY_METHOD(gyre_py_add);
GYRE_PY_METHOD(gyre_py_add_gradient);
GYRE_PY_METHOD(gyre_py_attention);
GYRE_PY_METHOD(gyre_py_paged_attention);
GYRE_PY_METHOD(gyre_py_attention_gradient);
GYRE_PY_METHOD(gyre_py_gate_sums);
GYRE_PY_METHOD(gyre_py_gate_sums_gradient);
GYRE_PY_METHOD(gyre_py_trained_rotate);
GYRE_PY_METHOD(gyre_py_trained_gradient);
GYRE_PY_METHOD(gyre_py_angle_rotate);
GYRE_PY_METHOD(gyre_py_angle_gradient);
GYRE_PY_METHOD(gyre_py_polar_rotate);
GYRE_PY_METHOD(gyre_py_polar_gradient);
GYRE_PY_METHOD(gyre_py_contextual_attention);
GYRE_PY_METHOD(gyre_py_contextual_gradient);
GYRE_PY_METHOD(gyre_py_adaptive_attention);
GYRE_PY_METHOD(gyre_py_adaptive_gradient);
GYRE_PY_METHOD(gyre_py_fourier_rotate);
GYRE_PY_METHOD(gyre_py_fourier_gradient);
PyObject *gyre_py_jax_handler(PyObject *module, PyObject *unused);

#endif
