/* py_reading.c: gyre_reading as dicts: which positions a file describes, and which table of angles an array is. */
#include "py_array.h"
#include "py_encoding.h"

#include "gyre/gyre_angles.h"

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

/* -- tables of angles -- */
enum { PROFILES = 32 };

/* A config as every profile reads it, and the table. */
typedef struct call {
    const char *path, *text; /* text NULL: the file at path */
    Py_ssize_t size;
    gyre_profile profile; /* DEFAULT = each */
    int64_t length;
    gyre_reading *readings[PROFILES];
    int64_t count;
    gyre_profile refused[PROFILES];
    gyre_error reasons[PROFILES];
    int refused_count;
    gyre_angle_audit *audit;
} call;

static gyre_status read_one(call *c, gyre_profile profile, gyre_error *err) {
    gyre_reading **out = &c->readings[c->count];
    return c->text
               ? gyre_reading_parse(
                     out, c->text, (size_t)c->size,
                     GYRE_ARGS(gyre_reading_options, .profile = profile, .context_length = c->length, .name = c->path), err)
               : gyre_reading_open(out, c->path,
                                   GYRE_ARGS(gyre_reading_options, .profile = profile, .context_length = c->length), err);
}

/* A refusal is no failure unless all profiles refuse. */
static gyre_status read_all(call *c, gyre_error *err) {
    gyre_status first = GYRE_OK;
    for (int p = 1; gyre_profile_name((gyre_profile)p) && p < PROFILES; p++) {
        const int is_meant =
            c->profile == GYRE_PROFILE_DEFAULT ? !gyre_profile_is_trainer((gyre_profile)p) : c->profile == (gyre_profile)p;
        if (!is_meant) continue;
        const gyre_status status = read_one(c, (gyre_profile)p, err);
        if (!status) {
            c->count++;
            continue;
        }
        if (status != GYRE_EFORMAT && status != GYRE_EUNSUPPORTED) return status;
        if (!first) first = status;
        c->refused[c->refused_count] = (gyre_profile)p;
        c->reasons[c->refused_count++] = *err;
    }
    if (c->count) return GYRE_OK;
    *err = c->reasons[0];
    return first;
}

static void close_call(call *c) {
    gyre_angle_audit_free(c->audit);
    for (int64_t i = 0; i < c->count; i++)
        gyre_reading_free(c->readings[i]);
}

/* None below 0 and past 2^31. */
static PyObject *place(int64_t position) {
    if (position < 0 || position == INT64_MAX) return Py_NewRef(Py_None);
    return PyLong_FromLongLong(position);
}

static PyObject *match_dict(const gyre_angle_match *m) {
    return Py_BuildValue("{szszsNszsNsdsNsNsLsdsN}", "profile", gyre_profile_name(m->reading->profile), "group",
                         m->group->name, "same", PyBool_FromLong(m->first_position < 0), "precision",
                         gyre_angle_precision_name(m->precision), "length", place(m->length ? m->length : -1), "factor",
                         m->factor, "first_position", place(m->first_position), "first_pair", place(m->first_pair),
                         "positions_off", (long long)m->positions_off, "largest_error", m->largest_error, "inexact_from",
                         place(m->inexact_from));
}

static const char *type_name(gyre_dtype dtype) {
    return dtype == GYRE_DTYPE_BF16 ? "bf16" : dtype == GYRE_DTYPE_F16 ? "f16" : dtype == GYRE_DTYPE_F32 ? "f32" : "f64";
}

static PyObject *audit_dict(const call *c) {
    const gyre_angle_audit *a = c->audit;
    PyObject *matches = PyList_New(0), *frequencies = PyList_New(0), *refused = PyList_New(0);
    for (int64_t i = 0; i < a->count; i++)
        append(&matches, match_dict(&a->matches[i]));
    for (int64_t i = 0; i < a->pairs; i++)
        append(&frequencies, PyFloat_FromDouble(a->frequencies[i]));
    for (int i = 0; i < c->refused_count; i++)
        append(&refused, Py_BuildValue("{szsz}", "profile", gyre_profile_name(c->refused[i]), "text", c->reasons[i].text));
    const int ok = a->count > 0 && a->matches[0].first_position < 0 && a->matches[0].inexact_from < 0;
    PyObject *base = a->base > 0 ? PyFloat_FromDouble(a->base) : Py_NewRef(Py_None);
    if (matches && frequencies && refused && base)
        return Py_BuildValue("{sNszszszszsNsLsdsNsNsNsNsN}", "ok", PyBool_FromLong(ok), "verdict", a->verdict, "form",
                             gyre_angle_form_name(a->form), "columns", gyre_angle_columns_name(a->columns), "rounded",
                             type_name(a->rounded), "positions", place(a->positions ? a->positions : -1), "pairs",
                             (long long)a->pairs, "factor", a->factor, "base", base, "restarts",
                             PyBool_FromLong(a->restarts), "frequencies", frequencies, "matches", matches, "refused",
                             refused);
    Py_XDECREF(matches);
    Py_XDECREF(frequencies);
    Py_XDECREF(refused);
    Py_XDECREF(base);
    return NULL;
}

/* *out = the array as a view whose last extents are the array's. */
static int view_of(const gyre_py_array *array, gyre_cview *out) {
    if (gyre_py_array_is(array, GYRE_PY_REAL, "float16, bfloat16, float32 or float64") < 0) return -1;
    if (array->ndim > 4) {
        gyre_py_fail(GYRE_ESHAPE, "table", "table: has %d axes, more than four", array->ndim);
        return -1;
    }
    *out = (gyre_cview){array->data, (gyre_dtype)array->dtype, {1, 1, 1, 1}, {0, 0, 0, 0}};
    for (int i = 0; i < array->ndim; i++)
        out->shape[4 - array->ndim + i] = array->shape[i], out->stride[4 - array->ndim + i] = array->stride[i];
    return 0;
}

const char gyre_py_audit_angles_doc[] = "audit_angles($module, table, *, path=None, text=None, profile=None, length=None"
                                        ")\n--\n\n"
                                        "What a table of angles is, against a config.";
PyObject *gyre_py_audit_angles(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    PyObject *a[5], *named = NULL, *result = NULL;
    gyre_py_array array = {0};
    gyre_cview view;
    call c = {.text = NULL};
    gyre_error err = {0, ""};
    (void)module;
    if (gyre_py_arguments(gyre_py_audit_angles_doc, args, count, keywords, a) < 0 || gyre_py_profile(a[3], &c.profile) < 0 ||
        gyre_py_integer(a[4], "length", &c.length) < 0)
        return NULL;
    if (!a[1]) return gyre_py_fail(GYRE_EINVAL, "path", "path: is missing");
    c.text = a[2] ? PyUnicode_AsUTF8AndSize(a[2], &c.size) : NULL;
    if (a[2] && !c.text) return gyre_py_fail(GYRE_EINVAL, "source", "source: has text that UTF-8 cannot encode");
    if (gyre_py_path(a[1], "source", &named) < 0) return NULL;
    c.path = PyBytes_AsString(named);
    if (gyre_py_array_open(&array, a[0], "table") == 0 && view_of(&array, &view) == 0) {
        gyre_status status;
        Py_BEGIN_ALLOW_THREADS
        status = read_all(&c, &err);
        if (!status) status = gyre_angles_audit(&c.audit, &view, (const gyre_reading *const *)c.readings, c.count, &err);
        Py_END_ALLOW_THREADS
        result = status ? gyre_py_raise(status, &err) : audit_dict(&c);
    }
    gyre_py_array_close(&array);
    close_call(&c);
    Py_DECREF(named);
    return result;
}
