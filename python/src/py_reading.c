/* py_reading.c: gyre_reading as dicts: which positions a file describes. */
#include "py_encoding.h"
#include "py_files.h"

#include "gyre/gyre_reading.h"

#include <string.h>

int gyre_py_profile(PyObject *object, gyre_profile *out) {
    *out = GYRE_PROFILE_DEFAULT;
    if (!object || object == Py_None) return 0;
    const char *text = PyUnicode_Check(object) ? PyUnicode_AsUTF8AndSize(object, NULL) : NULL;
    PyErr_Clear(); /* a text that UTF-8 cannot hold is no name */
    *out = gyre_profile_find(text);
    if (*out != GYRE_PROFILE_DEFAULT) return 0;
    char list[400] = "";
    for (int i = 1; gyre_profile_name((gyre_profile)i); i++) {
        const char *name = gyre_profile_name((gyre_profile)i);
        strncat(list, i > 1 ? ", " : "", sizeof list - strlen(list) - 1);
        strncat(list, name, sizeof list - strlen(list) - 1);
    }
    char shown[60];
    gyre_py_show(object, shown, sizeof shown);
    gyre_py_fail(GYRE_EINVAL, "profile", "profile: is %s, not one of %s", shown, list);
    return -1;
}

static PyObject *field_dict(const gyre_reading_field *f) {
    static const char *const origins[] = {"file", "family", "reader", "derived"};
    return Py_BuildValue("{szszszszsLsz}", "name", f->name, "value", f->value, "from", origins[f->origin], "key", f->key,
                         "line", (long long)f->line, "why", f->note);
}

/* Appends a new reference to a list that may be NULL; gives up the list on failure. */
static void append(PyObject **list, PyObject *item) {
    if (*list && (!item || PyList_Append(*list, item) < 0)) Py_CLEAR(*list);
    Py_XDECREF(item);
}

static PyObject *group_dict(const gyre_layer_reading *g) {
    PyObject *fields = PyList_New(0), *layers = PyList_New(0), *config = gyre_py_config_dict(&g->config, 0);
    for (int64_t i = 0; i < g->fields_count; i++)
        append(&fields, field_dict(&g->fields[i]));
    for (int64_t i = 0; i < g->layers_count; i++)
        append(&layers, PyLong_FromLongLong(g->layers[i]));
    if (fields && layers && config)
        return Py_BuildValue("{szsNsNsNsdsdsL}", "name", g->name, "layers", layers, "fields", fields, "config", config,
                             "scale", g->scale, "softmax_multiplier", g->softmax_multiplier, "window", (long long)g->window);
    Py_XDECREF(fields);
    Py_XDECREF(layers);
    Py_XDECREF(config);
    return NULL;
}

static PyObject *reading_dict(const gyre_reading *r) {
    PyObject *groups = PyList_New(0), *warnings = PyList_New(0);
    for (int64_t i = 0; i < r->groups_count; i++)
        append(&groups, group_dict(r->groups[i]));
    for (int64_t i = 0; i < r->warnings_count; i++) {
        const gyre_reading_warning *w = &r->warnings[i];
        static const char *const kinds[] = {"other", "unread_key", "assumed"};
        append(&warnings, Py_BuildValue("{szszsLss}", "text", w->text, "key", w->key, "line", (long long)w->line, "kind",
                                        kinds[w->kind]));
    }
    if (groups && warnings)
        return Py_BuildValue("{sNszszszsLsNsN}", "path", r->path ? PyUnicode_DecodeFSDefault(r->path) : Py_NewRef(Py_None),
                             "format", r->format, "model_type", r->model_type, "profile", gyre_profile_name(r->profile),
                             "length", (long long)r->context_length, "groups", groups, "warnings", warnings);
    Py_XDECREF(groups);
    Py_XDECREF(warnings);
    return NULL;
}

const char gyre_py_read_doc[] = "read($module, *, path=None, text=None, profile=None, length=None"
                                ")\n--\n\n"
                                "Which positions a file describes.";
PyObject *gyre_py_read(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    PyObject *a[5];
    gyre_profile profile;
    int64_t length = 0;
    (void)module;
    if (gyre_py_arguments(gyre_py_read_doc, args, count, keywords, a) < 0 || gyre_py_profile(a[2], &profile) < 0 ||
        gyre_py_integer(a[3], "length", &length) < 0)
        return NULL;
    Py_ssize_t size = 0;
    PyObject *named = NULL;
    const char *text = a[1] ? PyUnicode_AsUTF8AndSize(a[1], &size) : NULL;
    if (a[1] && !text) return gyre_py_fail(GYRE_EINVAL, "source", "source: has text that UTF-8 cannot encode");
    if (!a[0]) return gyre_py_fail(GYRE_EINVAL, "path", "path: is missing");
    if (gyre_py_path(a[0], "source", &named) < 0) return NULL;
    const char *path = PyBytes_AsString(named);
    gyre_reading *reading = NULL;
    gyre_error err = {0};
    gyre_status status;
    Py_BEGIN_ALLOW_THREADS
    status = text ? gyre_reading_parse(
                        &reading, text, (size_t)size,
                        GYRE_ARGS(gyre_reading_options, .profile = profile, .context_length = length, .name = path), &err)
                  : gyre_reading_open(&reading, path,
                                      GYRE_ARGS(gyre_reading_options, .profile = profile, .context_length = length), &err);
    Py_END_ALLOW_THREADS
    Py_DECREF(named);
    if (status) return gyre_py_raise(status, &err);
    PyObject *dict = reading_dict(reading);
    gyre_reading_free(reading);
    if (!dict) gyre_py_fail(GYRE_EFORMAT, "source", "source: its file has text that is not UTF-8");
    return dict;
}
