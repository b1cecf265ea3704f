/* py_config.c: gyre_config as a dict of its fields, by their names in gyre.h. */
#include "py_encoding.h"

#include <limits.h>
#include <stddef.h>
#include <string.h>

typedef enum field_type {
    FIELD_WHOLE,   /* int64_t */
    FIELD_INT,     /* int */
    FIELD_TERMS,   /* unsigned */
    FIELD_NUMBER,  /* double */
    FIELD_WORD,    /* an enum */
    FIELD_NUMBERS, /* const double *: of `length` of the config */
    FIELD_AXES     /* int64_t[4] */
} field_type;

static const char *const kinds[] = {"nope",    "learned",        "sinusoidal", "rope",     "alibi",
                                    "t5",      "kerple",         "shaw",       "nezha",    "bert",
                                    "deberta", "transformer-xl", "fire",       "sandwich", "tapa"};
static const char *const sinusoids[] = {"interleaved", "sin-cos", "sin-cos-t2t", "cos-sin", "cos-sin-t2t"};
static const char *const layouts[] = {"half", "interleaved", "interleaved-to-half"};
static const char *const scalings[] = {"none",           "linear",       "ntk",    "dynamic",     "by-parts",
                                       "by-parts-paper", "yarn",         "llama3", "longrope",    "proportional",
                                       "ntk-mixed",      "dynamic-yarn", "riflex", "riflex-paper"};
static const char *const axes_layouts[] = {"chunked", "interleaved", "axial"};
static const char *const fars[] = {"as-near", "clamped", "leaky", "grouped", "chunked", "chunked-paper"};
static const char *const clips[] = {"none", "soft", "hard"};
static const char *const starts[] = {"paper", "released"};
static const char *const angles[] = {"exact",     "torch",        "torch-bf16", "torch-f16",
                                     "llama.cpp", "tensorrt-llm", "vllm-bf16",  "vllm-f16"};
static const char *const policies[] = {"declared", "causal", "prefix"};
static const char *const temperatures[] = {"none", "log", "llama4", "ministral"};
static const char *const slope_scalings[] = {"none", "linear", "ntk", "ntk-released"};
static const char *const decays[] = {"log", "power"};

typedef struct field {
    const char *name;
    size_t offset;
    const char *const *words;
    field_type type;
    int words_count;
} field;
#define PLAIN(member, type)                                                                                                 \
    { #member, offsetof(gyre_config, member), NULL, type, 0 }
#define AXIS(a)                                                                                                             \
    PLAIN(axis[a].own, FIELD_INT), WORD(axis[a].scaling, scalings), PLAIN(axis[a].base, FIELD_NUMBER),                      \
        PLAIN(axis[a].factor, FIELD_NUMBER), PLAIN(axis[a].trained_length, FIELD_WHOLE),                                    \
        PLAIN(axis[a].context_length, FIELD_WHOLE), PLAIN(axis[a].intrinsic_pair, FIELD_WHOLE),                             \
        PLAIN(axis[a].repeats_at, FIELD_WHOLE)
#define WORD(member, list)                                                                                                  \
    { #member, offsetof(gyre_config, member), list, FIELD_WORD, (int)(sizeof(list) / sizeof *(list)) }
static const field fields[] = {
    WORD(kind, kinds),
    PLAIN(head_dim, FIELD_WHOLE),
    PLAIN(heads, FIELD_WHOLE),
    PLAIN(trained_length, FIELD_WHOLE),
    PLAIN(input.dim, FIELD_WHOLE),
    PLAIN(input.positions, FIELD_WHOLE),
    WORD(input.layout, sinusoids),
    PLAIN(input.base, FIELD_NUMBER),
    PLAIN(input.offset, FIELD_WHOLE),
    PLAIN(input.zero_padding, FIELD_INT),
    PLAIN(input.scale, FIELD_NUMBER),
    PLAIN(input.trained_scale, FIELD_INT),
    PLAIN(input.resized_length, FIELD_WHOLE),
    PLAIN(input.hierarchy, FIELD_NUMBER),
    PLAIN(rope.dim, FIELD_WHOLE),
    PLAIN(rope.first_channel, FIELD_WHOLE),
    WORD(rope.layout, layouts),
    PLAIN(rope.clockwise, FIELD_INT),
    WORD(rope.scaling, scalings),
    PLAIN(rope.context_length, FIELD_WHOLE),
    PLAIN(rope.table_positions, FIELD_WHOLE),
    PLAIN(rope.base, FIELD_NUMBER),
    PLAIN(rope.factor, FIELD_NUMBER),
    PLAIN(rope.attention_factor, FIELD_NUMBER),
    PLAIN(rope.mscale, FIELD_NUMBER),
    PLAIN(rope.mscale_all_dim, FIELD_NUMBER),
    PLAIN(rope.beta_fast, FIELD_NUMBER),
    PLAIN(rope.beta_slow, FIELD_NUMBER),
    PLAIN(rope.low_freq, FIELD_NUMBER),
    PLAIN(rope.high_freq, FIELD_NUMBER),
    PLAIN(rope.proportion, FIELD_NUMBER),
    PLAIN(rope.mixed_exponent, FIELD_NUMBER),
    PLAIN(rope.resonance, FIELD_INT),
    PLAIN(rope.fractional_bounds, FIELD_INT),
    PLAIN(rope.short_factor, FIELD_NUMBERS),
    PLAIN(rope.long_factor, FIELD_NUMBERS),
    PLAIN(rope.xpos_base, FIELD_NUMBER),
    PLAIN(rope.xpos_center, FIELD_WHOLE),
    PLAIN(rope.axes, FIELD_WHOLE),
    WORD(rope.axes_layout, axes_layouts),
    PLAIN(rope.axis_pairs, FIELD_AXES),
    WORD(rope.far, fars),
    PLAIN(rope.far_window, FIELD_WHOLE),
    PLAIN(rope.far_factor, FIELD_NUMBER),
    PLAIN(chunk.size, FIELD_WHOLE),
    PLAIN(chunk.local, FIELD_WHOLE),
    PLAIN(chunk.original_length, FIELD_WHOLE),
    WORD(rope.angles, angles),
    WORD(rope.length_policy, policies),
    PLAIN(rope.length_block, FIELD_WHOLE),
    WORD(query.temperature, temperatures),
    PLAIN(query.reference_length, FIELD_WHOLE),
    PLAIN(query.slope, FIELD_NUMBER),
    PLAIN(score.slopes, FIELD_NUMBERS),
    PLAIN(score.slopes_after, FIELD_NUMBERS),
    PLAIN(score.max_bias, FIELD_NUMBER),
    PLAIN(score.before_scale, FIELD_INT),
    PLAIN(score.buckets, FIELD_WHOLE),
    PLAIN(score.position_buckets, FIELD_WHOLE),
    PLAIN(score.max_distance, FIELD_WHOLE),
    PLAIN(score.max_positions, FIELD_WHOLE),
    PLAIN(score.bidirectional, FIELD_INT),
    PLAIN(score.hidden_units, FIELD_WHOLE),
    PLAIN(score.sinusoid_dim, FIELD_WHOLE),
    PLAIN(score.terms, FIELD_TERMS),
    WORD(score.decay, decays),
    WORD(slope.scaling, slope_scalings),
    PLAIN(slope.factor, FIELD_NUMBER),
    AXIS(0),
    AXIS(1),
    AXIS(2),
    AXIS(3),
    PLAIN(diffusion.timed, FIELD_INT),
    PLAIN(diffusion.time, FIELD_NUMBER),
    PLAIN(diffusion.strength, FIELD_NUMBER),
    PLAIN(diffusion.exponent, FIELD_NUMBER),
    WORD(clip.mode, clips),
    PLAIN(clip.pairs, FIELD_WHOLE),
    PLAIN(longrope.start_tokens, FIELD_WHOLE),
    WORD(longrope.starts, starts),
    PLAIN(tapa.amplitudes, FIELD_WHOLE),
    PLAIN(tapa.exponent, FIELD_NUMBER),
};
enum { FIELDS = sizeof fields / sizeof *fields, LISTS = 4 };

/* Numbers of a list that belongs to a field: slopes [heads], LongRoPE's factors [rope.dim / 2]. */
static int64_t list_length(const gyre_config *config, const field *f) {
    const int64_t channels = config->rope.dim ? config->rope.dim : config->head_dim - config->rope.first_channel;
    return strncmp(f->name, "score.", 6) == 0 ? config->heads : channels / 2;
}

/* -- reading -- */

/* A dict that is being read.  lists: memory of FIELD_NUMBERS, and how many numbers each has. */
typedef struct config_reading {
    gyre_config config;
    double *lists[LISTS];
    Py_ssize_t lengths[LISTS];
    const field *list_fields[LISTS];
    int lists_count;
} config_reading;

static int read_numbers(config_reading *r, const field *f, PyObject *value, char *place) {
    PyObject *list = PySequence_List(value);
    if (!list) {
        char shown[60];
        gyre_py_show(value, shown, sizeof shown);
        gyre_py_fail(GYRE_EINVAL, f->name, "%s: is %s, not a list of numbers", f->name, shown);
        return -1;
    }
    const Py_ssize_t n = PyList_Size(list);
    double *numbers = PyMem_Malloc((size_t)(n + 1) * sizeof *numbers);
    int status = numbers ? 0 : -1;
    if (!numbers) PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < n && status == 0; i++)
        status = gyre_py_number(PyList_GetItem(list, i), f->name, &numbers[i]);
    Py_DECREF(list);
    if (status < 0) {
        PyMem_Free(numbers);
        return -1;
    }
    r->list_fields[r->lists_count] = f;
    r->lengths[r->lists_count] = n;
    r->lists[r->lists_count++] = numbers;
    memcpy(place, &numbers, sizeof numbers);
    return 0;
}

static int read_axes(const field *f, PyObject *value, int64_t *out) {
    PyObject *list = PySequence_List(value);
    const Py_ssize_t n = list ? PyList_Size(list) : -1;
    int status = n >= 0 && n <= GYRE_MAX_AXES ? 0 : -1;
    if (status < 0) {
        char shown[60];
        gyre_py_show(value, shown, sizeof shown);
        gyre_py_fail(GYRE_EINVAL, f->name, "%s: is %s, not a list of at most %d numbers", f->name, shown, GYRE_MAX_AXES);
    }
    for (Py_ssize_t i = 0; i < n && status == 0; i++)
        status = gyre_py_integer(PyList_GetItem(list, i), f->name, &out[i]);
    Py_XDECREF(list);
    return status;
}

static int read_field(config_reading *r, const field *f, PyObject *value) {
    char *place = (char *)&r->config + f->offset;
    int64_t whole = 0;
    int choice = 0;
    switch (f->type) {
    case FIELD_WHOLE:
        return gyre_py_integer(value, f->name, (int64_t *)(void *)place);
    case FIELD_INT:
        return gyre_py_truth(value, f->name, (int *)(void *)place);
    case FIELD_TERMS:
        if (gyre_py_integer(value, f->name, &whole) < 0) return -1;
        if (whole < 0 || whole > UINT_MAX) {
            gyre_py_fail(GYRE_EINVAL, f->name, "%s: is %lld, not a sum of 1 (query), 2 (key) and 4 (value)", f->name,
                         (long long)whole);
            return -1;
        }
        *(unsigned *)(void *)place = (unsigned)whole;
        return 0;
    case FIELD_NUMBER:
        return gyre_py_number(value, f->name, (double *)(void *)place);
    case FIELD_WORD:
        if (gyre_py_word(value, f->name, f->words, f->words_count, &choice) < 0) return -1;
        memcpy(place, &choice, sizeof choice);
        return 0;
    case FIELD_NUMBERS:
        return read_numbers(r, f, value, place);
    case FIELD_AXES:
        return read_axes(f, value, (int64_t *)(void *)place);
    }
    return -1;
}

static const field *find_field(PyObject *name) {
    for (int i = 0; i < FIELDS && PyUnicode_Check(name); i++)
        if (PyUnicode_CompareWithASCIIString(name, fields[i].name) == 0) return &fields[i];
    return NULL;
}

static int read_named(config_reading *r, PyObject *name, PyObject *value) {
    const field *f = find_field(name);
    if (f) return value == Py_None ? 0 : read_field(r, f, value);
    const char *text = PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
    char shown[60];
    if (!text) gyre_py_show(name, shown, sizeof shown);
    gyre_py_fail(GYRE_EINVAL, text, "%.60s: is no field of a config (gyre.fields() lists them)", text ? text : shown);
    return -1;
}

static int read_fields(config_reading *r, PyObject *dict) {
    PyObject *items = PyDict_Items(dict); /* a copy: code of the values may change the dict */
    int status = items ? 0 : -1;
    for (Py_ssize_t i = 0; status == 0 && i < PyList_Size(items); i++) {
        PyObject *const item = PyList_GetItem(items, i);
        status = read_named(r, PyTuple_GetItem(item, 0), PyTuple_GetItem(item, 1));
    }
    Py_XDECREF(items);
    if (status < 0) return -1;
    for (int i = 0; i < r->lists_count; i++) {
        const int64_t wanted = list_length(&r->config, r->list_fields[i]);
        if (r->lengths[i] == wanted) continue;
        gyre_py_fail(GYRE_EINVAL, r->list_fields[i]->name, "%s: has %zd numbers, not %lld", r->list_fields[i]->name,
                     r->lengths[i], (long long)wanted);
        return -1;
    }
    return 0;
}

int gyre_py_encoding_from_dict(PyObject *dict, gyre_encoding **encoding) {
    config_reading r = {.config = GYRE_INIT(gyre_config)};
    int status = read_fields(&r, dict);
    if (status == 0) {
        gyre_error err = {0};
        gyre_status created = gyre_config_suggest(&r.config);
        if (created == GYRE_OK) created = gyre_encoding_create(encoding, &r.config, NULL, &err);
        if (created != GYRE_OK) {
            gyre_py_raise(created, &err);
            status = -1;
        }
    }
    for (int i = 0; i < r.lists_count; i++)
        PyMem_Free(r.lists[i]);
    return status;
}

/* -- writing -- */

static PyObject *numbers_tuple(const double *numbers, int64_t n) {
    if (!numbers) Py_RETURN_NONE;
    PyObject *tuple = PyTuple_New(n);
    for (int64_t i = 0; tuple && i < n; i++) {
        PyObject *number = PyFloat_FromDouble(numbers[i]);
        if (!number || PyTuple_SetItem(tuple, i, number) < 0) Py_CLEAR(tuple);
    }
    return tuple;
}

static PyObject *field_value(const gyre_config *config, const field *f, int *is_zero) {
    const char *place = (const char *)config + f->offset;
    int64_t whole[4] = {0};
    double number = 0;
    int choice = 0;
    const double *numbers = NULL;
    switch (f->type) {
    case FIELD_WHOLE:
        memcpy(whole, place, sizeof *whole);
        *is_zero = whole[0] == 0;
        return PyLong_FromLongLong(whole[0]);
    case FIELD_NUMBER:
        memcpy(&number, place, sizeof number);
        *is_zero = number == 0;
        return PyFloat_FromDouble(number);
    case FIELD_NUMBERS:
        memcpy(&numbers, place, sizeof numbers);
        *is_zero = !numbers;
        return numbers_tuple(numbers, list_length(config, f));
    case FIELD_AXES:
        memcpy(whole, place, sizeof whole);
        *is_zero = whole[0] == 0;
        return Py_BuildValue("(LLLL)", (long long)whole[0], (long long)whole[1], (long long)whole[2], (long long)whole[3]);
    case FIELD_INT:
    case FIELD_TERMS:
    case FIELD_WORD:
        memcpy(&choice, place, sizeof choice);
    }
    *is_zero = choice == 0 && f->offset != offsetof(gyre_config, kind);
    if (f->type == FIELD_INT) return PyBool_FromLong(choice);
    if (f->type == FIELD_TERMS) return PyLong_FromLong(choice);
    return PyUnicode_FromString(choice >= 0 && choice < f->words_count ? f->words[choice] : "?");
}

PyObject *gyre_py_config_dict(const gyre_config *config, int all) {
    PyObject *dict = PyDict_New();
    for (int i = 0; dict && i < FIELDS; i++) {
        int is_zero = 0;
        PyObject *value = field_value(config, &fields[i], &is_zero);
        if (!value || ((all || !is_zero) && PyDict_SetItemString(dict, fields[i].name, value) < 0)) Py_CLEAR(dict);
        Py_XDECREF(value);
    }
    return dict;
}
