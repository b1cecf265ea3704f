/* py_files.h: functions about files of models. */
#ifndef GYRE_PY_FILES_H
#define GYRE_PY_FILES_H
#include "py_module.h"

#include "gyre/gyre_reading.h"

/* *out = the profile of that name; None = DEFAULT. */
int gyre_py_profile(PyObject *object, gyre_profile *out);
/* read(path, text, profile, length): a reading as a dict. */
GYRE_PY_METHOD(gyre_py_read);
/* audit_angles(table, path, text, profile, length): what a table of angles is, as a dict. */
GYRE_PY_METHOD(gyre_py_audit_angles);

#endif
