/* py_config.c: gyre_config as a dict of its fields, by their names in gyre.h. */
#include "py_encoding.h"

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

static const char *const kinds[] = {"nope", "learned", "sinusoidal", "rope",    "alibi",          "t5",   "kerple",
                                    "shaw", "nezha",   "bert",       "deberta", "transformer-xl", "fire", "sandwich"};
static const char *const sinusoids[] = {"interleaved", "sin-cos", "sin-cos-t2t", "cos-sin", "cos-sin-t2t"};
static const char *const layouts[] = {"half", "interleaved", "interleaved-to-half"};
static const char *const scalings[] = {"none", "linear", "ntk",      "dynamic",      "by-parts",  "by-parts-paper",
                                       "yarn", "llama3", "longrope", "proportional", "ntk-mixed", "dynamic-yarn"};
static const char *const axes_layouts[] = {"chunked", "interleaved", "axial"};
static const char *const fars[] = {"as-near", "clamped", "leaky", "grouped"};
static const char *const angles[] = {"exact", "torch"};
static const char *const policies[] = {"declared", "causal", "prefix"};
static const char *const temperatures[] = {"none", "log", "llama4", "ministral"};
static const char *const decays[] = {"log", "power"};

typedef struct field {
    const char *name;
    size_t offset;
    const char *const *words;
    field_type type;
    int words_count;
} field;
#define OF(member)         offsetof(gyre_config, member)
#define WORD(member, list) OF(member), list, FIELD_WORD, (int)(sizeof(list) / sizeof *(list))
static const field fields[] = {
    {"kind", WORD(kind, kinds)},
    {"head_dim", OF(head_dim), NULL, FIELD_WHOLE, 0},
    {"heads", OF(heads), NULL, FIELD_WHOLE, 0},
    {"trained_length", OF(trained_length), NULL, FIELD_WHOLE, 0},
    {"input.dim", OF(input.dim), NULL, FIELD_WHOLE, 0},
    {"input.positions", OF(input.positions), NULL, FIELD_WHOLE, 0},
    {"input.layout", WORD(input.layout, sinusoids)},
    {"input.base", OF(input.base), NULL, FIELD_NUMBER, 0},
    {"input.offset", OF(input.offset), NULL, FIELD_WHOLE, 0},
    {"input.zero_padding", OF(input.zero_padding), NULL, FIELD_INT, 0},
    {"input.scale", OF(input.scale), NULL, FIELD_NUMBER, 0},
    {"input.trained_scale", OF(input.trained_scale), NULL, FIELD_INT, 0},
    {"input.resized_length", OF(input.resized_length), NULL, FIELD_WHOLE, 0},
    {"input.hierarchy", OF(input.hierarchy), NULL, FIELD_NUMBER, 0},
    {"rope.dim", OF(rope.dim), NULL, FIELD_WHOLE, 0},
    {"rope.first_channel", OF(rope.first_channel), NULL, FIELD_WHOLE, 0},
    {"rope.layout", WORD(rope.layout, layouts)},
    {"rope.clockwise", OF(rope.clockwise), NULL, FIELD_INT, 0},
    {"rope.scaling", WORD(rope.scaling, scalings)},
    {"rope.context_length", OF(rope.context_length), NULL, FIELD_WHOLE, 0},
    {"rope.table_positions", OF(rope.table_positions), NULL, FIELD_WHOLE, 0},
    {"rope.base", OF(rope.base), NULL, FIELD_NUMBER, 0},
    {"rope.factor", OF(rope.factor), NULL, FIELD_NUMBER, 0},
    {"rope.attention_factor", OF(rope.attention_factor), NULL, FIELD_NUMBER, 0},
    {"rope.mscale", OF(rope.mscale), NULL, FIELD_NUMBER, 0},
    {"rope.mscale_all_dim", OF(rope.mscale_all_dim), NULL, FIELD_NUMBER, 0},
    {"rope.beta_fast", OF(rope.beta_fast), NULL, FIELD_NUMBER, 0},
    {"rope.beta_slow", OF(rope.beta_slow), NULL, FIELD_NUMBER, 0},
    {"rope.low_freq", OF(rope.low_freq), NULL, FIELD_NUMBER, 0},
    {"rope.high_freq", OF(rope.high_freq), NULL, FIELD_NUMBER, 0},
    {"rope.proportion", OF(rope.proportion), NULL, FIELD_NUMBER, 0},
    {"rope.mixed_exponent", OF(rope.mixed_exponent), NULL, FIELD_NUMBER, 0},
    {"rope.resonance", OF(rope.resonance), NULL, FIELD_INT, 0},
    {"rope.fractional_bounds", OF(rope.fractional_bounds), NULL, FIELD_INT, 0},
    {"rope.short_factor", OF(rope.short_factor), NULL, FIELD_NUMBERS, 0},
    {"rope.long_factor", OF(rope.long_factor), NULL, FIELD_NUMBERS, 0},
    {"rope.xpos_base", OF(rope.xpos_base), NULL, FIELD_NUMBER, 0},
    {"rope.xpos_center", OF(rope.xpos_center), NULL, FIELD_WHOLE, 0},
    {"rope.axes", OF(rope.axes), NULL, FIELD_WHOLE, 0},
    {"rope.axes_layout", WORD(rope.axes_layout, axes_layouts)},
    {"rope.axis_pairs", OF(rope.axis_pairs), NULL, FIELD_AXES, 0},
    {"rope.far", WORD(rope.far, fars)},
    {"rope.far_window", OF(rope.far_window), NULL, FIELD_WHOLE, 0},
    {"rope.far_factor", OF(rope.far_factor), NULL, FIELD_NUMBER, 0},
    {"rope.angles", WORD(rope.angles, angles)},
    {"rope.length_policy", WORD(rope.length_policy, policies)},
    {"rope.length_block", OF(rope.length_block), NULL, FIELD_WHOLE, 0},
    {"query.temperature", WORD(query.temperature, temperatures)},
    {"query.reference_length", OF(query.reference_length), NULL, FIELD_WHOLE, 0},
    {"query.slope", OF(query.slope), NULL, FIELD_NUMBER, 0},
    {"score.slopes", OF(score.slopes), NULL, FIELD_NUMBERS, 0},
    {"score.slopes_after", OF(score.slopes_after), NULL, FIELD_NUMBERS, 0},
    {"score.max_bias", OF(score.max_bias), NULL, FIELD_NUMBER, 0},
    {"score.before_scale", OF(score.before_scale), NULL, FIELD_INT, 0},
    {"score.buckets", OF(score.buckets), NULL, FIELD_WHOLE, 0},
    {"score.position_buckets", OF(score.position_buckets), NULL, FIELD_WHOLE, 0},
    {"score.max_distance", OF(score.max_distance), NULL, FIELD_WHOLE, 0},
    {"score.max_positions", OF(score.max_positions), NULL, FIELD_WHOLE, 0},
    {"score.bidirectional", OF(score.bidirectional), NULL, FIELD_INT, 0},
    {"score.hidden_units", OF(score.hidden_units), NULL, FIELD_WHOLE, 0},
    {"score.sinusoid_dim", OF(score.sinusoid_dim), NULL, FIELD_WHOLE, 0},
    {"score.terms", OF(score.terms), NULL, FIELD_TERMS, 0},
    {"score.decay", WORD(score.decay, decays)},
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
        gyre_py_fail(GYRE_EINVAL, f->name, "%s: is not a list of numbers", f->name);
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
    if (status < 0) gyre_py_fail(GYRE_EINVAL, f->name, "%s: is not a list of at most %d numbers", f->name, GYRE_MAX_AXES);
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

static int read_fields(config_reading *r, PyObject *dict) {
    PyObject *name, *value;
    Py_ssize_t at = 0;
    while (PyDict_Next(dict, &at, &name, &value)) {
        const field *f = find_field(name);
        if (!f) {
            const char *text = PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, NULL) : "a name that is no text";
            gyre_py_fail(GYRE_EINVAL, text, "%s: is no field of a config (gyre.fields() lists them)", text ? text : "name");
            return -1;
        }
        if (value != Py_None && read_field(r, f, value) < 0) return -1;
    }
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
