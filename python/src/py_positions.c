/* py_positions.c: the types Batch and Shards: positions of the tokens of a batch, and what each rank of a group holds. */
#include "py_memory.h"

#include "gyre/gyre_positions.h"

#include <stdlib.h>
#include <string.h>

/* Both never change, so calls need no lock. */
typedef struct batch_object {
    PyObject_HEAD
    gyre_batch *batch;
} batch_object;

typedef struct shards_object {
    PyObject_HEAD
    gyre_shards *shards;
    PyObject *batch; /* lives as long as the shards */
    int64_t ranks;
} shards_object;

static PyObject *batch_type;

/* -- numbers as arrays of numpy -- */

/* out = int64 numbers of a shape; None where there are none. */
static PyObject *numbers(const int64_t *from, int ndim, const int64_t *shape) {
    gyre_py_result result = {0};
    if (!from) Py_RETURN_NONE;
    if (gyre_py_result_new(&result, NULL, GYRE_DTYPE_I64, ndim, shape) < 0) return NULL;
    const int64_t bytes = gyre_py_bytes(GYRE_DTYPE_I64, ndim, shape);
    if (bytes > 0) memcpy(result.array.data, from, (size_t)bytes);
    return gyre_py_result_finish(&result);
}

static PyObject *row_numbers(const int64_t *from, int64_t count) {
    return numbers(from, 1, &count);
}

/* [rows, tokens], or [axes, rows, tokens] where there are several. */
static PyObject *position_numbers(const gyre_positions *from, int64_t axes, int64_t rows, int64_t tokens) {
    const int64_t shape[3] = {axes, rows, tokens};
    return axes > 1 ? numbers(from->data, 3, shape) : numbers(from->data, 2, shape + 1);
}

/* -- a batch: its config -- */

enum { BATCH_LISTS = 4, SPAN_COLUMNS = 5 };

/* Memory that a config points to. */
typedef struct batch_call {
    gyre_batch_config config;
    int64_t *lists[BATCH_LISTS]; /* lengths, cached, first_positions, span_starts */
    gyre_span *spans;
} batch_call;

static void close_batch_call(batch_call *c) {
    for (int i = 0; i < BATCH_LISTS; i++)
        free(c->lists[i]);
    free(c->spans);
}

static int fail_spans(void) {
    gyre_py_fail(GYRE_ESHAPE, "documents", "documents: spans are int64 [spans, 5] and float64 [spans], without gaps");
    return -1;
}

/* numbers: tokens, frames, rows, columns and merge of each span; steps: frame_step. */
static int fill_spans(const gyre_py_array *whole, const gyre_py_array *steps, gyre_span **out) {
    const int64_t spans = whole->shape[0];
    if (whole->dtype != GYRE_DTYPE_I64 || whole->ndim != 2 || whole->shape[1] != SPAN_COLUMNS ||
        whole->stride[0] != SPAN_COLUMNS || whole->stride[1] != 1 || steps->dtype != GYRE_DTYPE_F64 || steps->ndim != 1 ||
        steps->shape[0] != spans || steps->stride[0] != 1)
        return fail_spans();
    *out = calloc((size_t)spans + 1, sizeof **out);
    if (!*out) {
        PyErr_NoMemory();
        return -1;
    }
    for (int64_t i = 0; i < spans; i++) {
        const int64_t *n = (const int64_t *)whole->data + i * SPAN_COLUMNS;
        (*out)[i] = (gyre_span){n[0], n[1], n[2], n[3], ((const double *)steps->data)[i], n[4]};
    }
    return 0;
}

static int read_spans(PyObject *whole_object, PyObject *steps_object, gyre_span **out) {
    gyre_py_array whole = {0}, steps = {0};
    int status = -1;
    if (!whole_object || !steps_object) return whole_object || steps_object ? fail_spans() : 0;
    if (gyre_py_array_open(&whole, whole_object, "documents") == 0 &&
        gyre_py_array_open(&steps, steps_object, "documents") == 0)
        status = fill_spans(&whole, &steps, out);
    gyre_py_array_close(&whole);
    gyre_py_array_close(&steps);
    return status;
}

/* A mask is bytes: [documents][row_tokens]. */
static int read_mask(PyObject *object, gyre_batch_config *config) {
    if (!object) return 0;
    const int64_t tokens = config->row_tokens, documents = config->documents;
    const int64_t bytes = PyBytes_Check(object) ? (int64_t)PyBytes_Size(object) : -1;
    if (tokens < 0 || documents < 0 || (tokens > 0 && documents > INT64_MAX / tokens) || bytes != documents * tokens) {
        gyre_py_fail(GYRE_ESHAPE, "mask", "mask: is not [%lld, %lld], a truth value for each document and token",
                     (long long)documents, (long long)tokens);
        return -1;
    }
    config->mask = (const unsigned char *)PyBytes_AsString(object);
    return config->mask ? 0 : -1;
}

enum {
    BATCH_FORM,
    BATCH_DOCUMENTS,
    BATCH_LENGTHS,
    BATCH_ROW_TOKENS,
    BATCH_MASK,
    BATCH_CACHED,
    BATCH_FIRST,
    BATCH_AXES,
    BATCH_SPANS,
    BATCH_STEPS,
    BATCH_SPAN_STARTS,
    BATCH_AFTER_GRID,
    BATCH_PADDING,
    BATCH_FIELDS
};

static int read_batch(batch_call *c, PyObject *const *a) {
    static const char *const forms[] = {"packed", "padded_right", "padded_left", "masked"};
    static const char *const after[] = {"largest", "sides"};
    gyre_batch_config *config = &c->config;
    int form = 0, after_grid = 0;
    if (gyre_py_word(a[BATCH_FORM], "form", forms, 4, &form) < 0 ||
        gyre_py_integer(a[BATCH_DOCUMENTS], "documents", &config->documents) < 0 ||
        gyre_py_integer(a[BATCH_ROW_TOKENS], "row_tokens", &config->row_tokens) < 0 ||
        gyre_py_integer(a[BATCH_AXES], "axes", &config->axes) < 0 ||
        gyre_py_word(a[BATCH_AFTER_GRID], "after_grid", after, 2, &after_grid) < 0 ||
        gyre_py_integer(a[BATCH_PADDING], "padding_position", &config->padding_position) < 0 ||
        read_mask(a[BATCH_MASK], config) < 0)
        return -1;
    int64_t documents = config->documents, starts = documents < INT64_MAX ? documents + 1 : documents;
    if (gyre_py_list(a[BATCH_LENGTHS], "documents", &documents, &c->lists[0]) < 0 ||
        gyre_py_list(a[BATCH_CACHED], "cached", &documents, &c->lists[1]) < 0 ||
        gyre_py_list(a[BATCH_FIRST], "first_positions", &documents, &c->lists[2]) < 0 ||
        gyre_py_list(a[BATCH_SPAN_STARTS], "documents", &starts, &c->lists[3]) < 0 ||
        read_spans(a[BATCH_SPANS], a[BATCH_STEPS], &c->spans) < 0)
        return -1;
    config->form = (gyre_batch_form)form;
    config->after_grid = (gyre_after_grid)after_grid;
    config->lengths = c->lists[0];
    config->cached = c->lists[1];
    config->first_positions = c->lists[2];
    config->span_starts = c->lists[3];
    config->spans = c->spans;
    return 0;
}

static const char batch_create_doc[] =
    "_create($type, *, form=None, documents=None, lengths=None, row_tokens=None, mask=None, cached=None, "
    "first_positions=None, "
    "axes=None, spans=None, steps=None, span_starts=None, after_grid=None, padding_position=None"
    ")\n--\n\n"
    "A batch.";
static PyObject *batch_create(PyObject *type, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    PyObject *a[BATCH_FIELDS + 1];
    batch_call c = {.config = GYRE_INIT(gyre_batch_config)};
    batch_object *self = NULL;
    if (gyre_py_arguments(batch_create_doc, args, count, keywords, a) == 0 && read_batch(&c, a) == 0) {
        gyre_batch *batch = NULL;
        gyre_error err = {0};
        gyre_status status;
        Py_BEGIN_ALLOW_THREADS
        status = gyre_batch_create(&batch, &c.config, NULL, &err);
        Py_END_ALLOW_THREADS
        const allocfunc allocate = (allocfunc)PyType_GetSlot((PyTypeObject *)type, Py_tp_alloc);
        self = !status ? (batch_object *)allocate((PyTypeObject *)type, 0) : (batch_object *)gyre_py_raise(status, &err);
        if (self)
            self->batch = batch;
        else
            gyre_batch_free(batch);
    }
    close_batch_call(&c);
    return (PyObject *)self;
}

static void batch_dealloc(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    gyre_batch_free(((batch_object *)object)->batch);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

/* -- a batch: what it holds -- */

static gyre_batch_info batch_info(const gyre_batch *batch) {
    gyre_batch_info info = GYRE_INIT(gyre_batch_info);
    const gyre_status status = gyre_batch_get(batch, &info);
    (void)status; /* it fails without a size alone */
    return info;
}

static PyObject *batch_shape(PyObject *self, PyObject *unused) {
    (void)unused;
    const gyre_batch_info i = batch_info(((batch_object *)self)->batch);
    return Py_BuildValue("(LLLLL)", (long long)i.rows, (long long)i.tokens, (long long)i.axes, (long long)i.documents,
                         (long long)i.sequences);
}

static PyObject *batch_numbers(PyObject *self, PyObject *which) {
    static const char *const names[] = {"positions",  "order",          "document_of",    "query_starts",
                                        "key_starts", "key_first",      "key_end",        "key_positions",
                                        "lengths",    "next_positions", "context_lengths"};
    int name = 0;
    if (gyre_py_word(which, "name", names, 11, &name) < 0) return NULL;
    const gyre_batch_info i = batch_info(((batch_object *)self)->batch);
    const int64_t tokens[2] = {i.rows, i.tokens};
    const int own_keys = i.k_positions.data != i.positions.data; /* a packed batch with cached tokens */
    switch (name) {
    case 0:
        return position_numbers(&i.positions, i.axes, i.rows, i.tokens);
    case 1:
        return numbers(i.order.data, 2, tokens);
    case 2:
        return numbers(i.document_of, 2, tokens);
    case 3:
        return row_numbers(i.q_starts, i.sequences + 1);
    case 4:
        return row_numbers(i.k_starts, i.sequences + 1);
    case 5:
        return row_numbers(i.k_first, i.sequences);
    case 6:
        return row_numbers(i.k_end, i.sequences);
    case 7:
        return own_keys ? position_numbers(&i.k_positions, i.axes, 1, i.k_starts[i.sequences])
                        : position_numbers(&i.positions, i.axes, i.rows, i.tokens);
    case 8:
        return row_numbers(i.lengths, i.documents);
    case 9:
        return row_numbers(i.next_positions, i.documents);
    default:
        return row_numbers(i.context_lengths, i.sequences);
    }
}

/* -- data of tokens -- */

/* ids and labels without and with rows, hidden states, heads. */
static const char *const layouts[] = {"s", "bs", "bsd", "bhsd"};

static const unsigned data_types = GYRE_PY_REAL | GYRE_PY_WHOLE;
static const char data_names[] = "float16, bfloat16, float32, float64, int32 or int64";

static int open_data(gyre_py_array *array, PyObject *object, const char *name) {
    if (gyre_py_array_open(array, object, name) < 0) return -1;
    return gyre_py_array_is(array, data_types, data_names);
}

static int view_data(const gyre_py_array *array, PyObject *layout_text, gyre_py_layout *layout, gyre_view *out) {
    const int known = array->ndim >= 1 && array->ndim <= 4;
    if (gyre_py_layout_of_tokens(layout_text, layouts[known ? array->ndim - 1 : 3], layout) < 0) return -1;
    return gyre_py_array_view(array, layout, out);
}

static const char batch_shift_labels_doc[] = "_shift_labels($self, labels, *, ignore=-100, layout=None, out=None"
                                             ")\n--\n\n"
                                             "Labels of the next tokens.";
static PyObject *batch_shift_labels(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    PyObject *a[5], *finished = NULL;
    gyre_py_array labels = {0};
    gyre_py_result result = {0};
    gyre_py_layout layout;
    gyre_view in, out;
    int64_t ignore = -100;
    if (gyre_py_arguments(batch_shift_labels_doc, args, count, keywords, a) < 0 ||
        gyre_py_integer(a[1], "ignore", &ignore) < 0)
        return NULL;
    if (open_data(&labels, a[0], "labels") == 0 && gyre_py_array_is(&labels, GYRE_PY_WHOLE, "int32 or int64") == 0 &&
        view_data(&labels, a[2], &layout, &in) == 0 &&
        (a[3] ? gyre_py_result_given(&result, a[3], "out") : gyre_py_result_like(&result, &labels)) == 0 &&
        gyre_py_array_is(&result.array, 1U << (unsigned)labels.dtype, gyre_py_dtype_text(&labels)) == 0 &&
        gyre_py_array_view(&result.array, &layout, &out) == 0 && gyre_py_check_out(&labels, &in, &result.array, &out) == 0) {
        const gyre_cview from = gyre_py_const(&in);
        gyre_error err = {0};
        gyre_status status;
        Py_BEGIN_ALLOW_THREADS
        status = gyre_batch_shift_labels(((batch_object *)self)->batch, &from, ignore, &out, &err);
        Py_END_ALLOW_THREADS
        finished = !status ? gyre_py_result_finish(&result) : gyre_py_raise(status, &err);
    }
    gyre_py_result_drop(&result);
    gyre_py_array_close(&labels);
    return finished;
}

/* -- shards -- */

static int read_shards(gyre_shard_config *config, PyObject *const *a) {
    static const char *const words[] = {"contiguous", "zigzag", "striped", "zigzag_per_document"};
    int layout = GYRE_SHARD_ZIGZAG, causal = 1;
    if (gyre_py_integer(a[1], "ranks", &config->ranks) < 0 || gyre_py_word(a[2], "layout", words, 4, &layout) < 0 ||
        gyre_py_integer(a[3], "chunk_multiple", &config->chunk_multiple) < 0 || gyre_py_truth(a[4], "causal", &causal) < 0 ||
        gyre_py_integer(a[5], "window", &config->window) < 0 ||
        gyre_py_integer(a[6], "window_after", &config->window_after) < 0 ||
        gyre_py_integer(a[7], "sinks", &config->sinks) < 0)
        return -1;
    config->layout = (gyre_shard_layout)layout;
    config->causal = causal ? GYRE_CAUSAL_BY_ORDER : GYRE_CAUSAL_NONE;
    return 0;
}

static const char shards_create_doc[] = "_create($type, batch, ranks, *, layout=None, chunk_multiple=None, causal=None, "
                                        "window=None, window_after=None, sinks=None"
                                        ")\n--\n\n"
                                        "A batch, dealt out.";
static PyObject *shards_create(PyObject *type, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    PyObject *a[9];
    gyre_shard_config config = GYRE_INIT(gyre_shard_config);
    gyre_shards *shards = NULL;
    gyre_error err = {0};
    gyre_status status;
    if (gyre_py_arguments(shards_create_doc, args, count, keywords, a) < 0 || read_shards(&config, a) < 0) return NULL;
    if (!PyObject_TypeCheck(a[0], (PyTypeObject *)batch_type))
        return gyre_py_fail(GYRE_EINVAL, "batch", "batch: is not a gyre.Batch: make one with gyre.Batch([lengths ...])");
    Py_BEGIN_ALLOW_THREADS
    status = gyre_shards_create(&shards, ((batch_object *)a[0])->batch, &config, NULL, &err);
    Py_END_ALLOW_THREADS
    if (status) return gyre_py_raise(status, &err);
    const allocfunc allocate = (allocfunc)PyType_GetSlot((PyTypeObject *)type, Py_tp_alloc);
    shards_object *self = (shards_object *)allocate((PyTypeObject *)type, 0);
    if (!self) {
        gyre_shards_free(shards);
        return NULL;
    }
    self->shards = shards;
    self->batch = Py_NewRef(a[0]);
    self->ranks = config.ranks;
    return (PyObject *)self;
}

static void shards_dealloc(PyObject *object) {
    shards_object *self = (shards_object *)object;
    PyTypeObject *type = Py_TYPE(object);
    gyre_shards_free(self->shards);
    Py_XDECREF(self->batch);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

/* Takes a new reference; -1 where it is NULL. */
static int put_item(PyObject *dict, const char *name, PyObject *value) {
    const int status = value ? PyDict_SetItemString(dict, name, value) : -1;
    Py_XDECREF(value);
    return status;
}

static PyObject *shards_get(PyObject *object, PyObject *argument) {
    const shards_object *self = (shards_object *)object;
    gyre_shard_info i = GYRE_INIT(gyre_shard_info);
    int64_t rank = -1;
    if (gyre_py_integer(argument, "rank", &rank) < 0) return NULL;
    if (gyre_shards_get(self->shards, rank, &i))
        return gyre_py_fail(GYRE_EINVAL, "rank", "rank: %lld is not in 0 .. %lld", (long long)rank,
                            (long long)self->ranks - 1);
    const int64_t axes = batch_info(((batch_object *)self->batch)->batch).axes;
    const int64_t tokens[2] = {i.rows, i.tokens}, runs[2] = {i.runs, 2};
    PyObject *dict = PyDict_New();
    if (!dict || put_item(dict, "rank", PyLong_FromLongLong(rank)) < 0 ||
        put_item(dict, "rows", PyLong_FromLongLong(i.rows)) < 0 ||
        put_item(dict, "tokens", PyLong_FromLongLong(i.tokens)) < 0 ||
        put_item(dict, "index", row_numbers(i.index, i.tokens)) < 0 ||
        put_item(dict, "runs", numbers((const int64_t *)i.run, 2, runs)) < 0 ||
        put_item(dict, "positions", position_numbers(&i.positions, axes, i.rows, i.tokens)) < 0 ||
        put_item(dict, "order", numbers(i.order.data, 2, tokens)) < 0 ||
        put_item(dict, "starts", row_numbers(i.starts, i.sequences + 1)) < 0 ||
        put_item(dict, "key_first", row_numbers(i.k_first, i.sequences)) < 0 ||
        put_item(dict, "key_end", row_numbers(i.k_end, i.sequences)) < 0 ||
        put_item(dict, "pairs", PyLong_FromLongLong(i.pairs)) < 0)
        Py_CLEAR(dict);
    return dict;
}

static PyObject *shards_imbalance(PyObject *self, PyObject *unused) {
    (void)unused;
    return PyFloat_FromDouble(gyre_shards_imbalance(((shards_object *)self)->shards));
}

/* *tokens = of a rank. */
static int tokens_of(const shards_object *self, int64_t rank, int64_t *tokens) {
    gyre_shard_info i = GYRE_INIT(gyre_shard_info);
    if (!gyre_shards_get(self->shards, rank, &i)) {
        *tokens = i.tokens;
        return 0;
    }
    gyre_py_fail(GYRE_EINVAL, "rank", "rank: %lld is not in 0 .. %lld", (long long)rank, (long long)self->ranks - 1);
    return -1;
}

/* Memory shaped as `like`, except for its tokens; or that of the caller. */
static int make_data(gyre_py_result *result, PyObject *out, const gyre_py_array *like, const gyre_py_layout *layout,
                     int64_t tokens) {
    int64_t shape[GYRE_PY_MAX_DIMS];
    if (out)
        return gyre_py_result_given(result, out, "out") < 0
                   ? -1
                   : gyre_py_array_is(&result->array, 1U << (unsigned)like->dtype, gyre_py_dtype_text(like));
    memcpy(shape, like->shape, sizeof shape);
    shape[layout->axis[1]] = tokens;
    return gyre_py_result_new(result, like, (gyre_dtype)like->dtype, like->ndim, shape);
}

static const char shards_take_doc[] = "_take($self, rank, whole, *, layout=None, out=None"
                                      ")\n--\n\n"
                                      "Tokens of a rank.";
static PyObject *shards_take(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    const shards_object *self = (shards_object *)object;
    PyObject *a[5], *finished = NULL;
    gyre_py_array whole = {0};
    gyre_py_result result = {0};
    gyre_py_layout layout;
    gyre_view in, out;
    int64_t rank = 0, tokens = 0;
    if (gyre_py_arguments(shards_take_doc, args, count, keywords, a) < 0 || gyre_py_integer(a[0], "rank", &rank) < 0 ||
        tokens_of(self, rank, &tokens) < 0)
        return NULL;
    if (open_data(&whole, a[1], "whole") == 0 && view_data(&whole, a[2], &layout, &in) == 0 &&
        make_data(&result, a[3], &whole, &layout, tokens) == 0 && gyre_py_array_view(&result.array, &layout, &out) == 0 &&
        gyre_py_check_apart("out", &out, "whole", &in) == 0) {
        const gyre_cview from = gyre_py_const(&in);
        gyre_error err = {0};
        gyre_status status;
        Py_BEGIN_ALLOW_THREADS
        status = gyre_shards_take(self->shards, rank, &from, &out, &err);
        Py_END_ALLOW_THREADS
        finished = !status ? gyre_py_result_finish(&result) : gyre_py_raise(status, &err);
    }
    gyre_py_result_drop(&result);
    gyre_py_array_close(&whole);
    return finished;
}

/* Puts what a rank has into the whole. */
static int put_part(const shards_object *self, int64_t rank, PyObject *part_object, const gyre_py_layout *layout,
                    const gyre_view *whole) {
    gyre_py_array part = {0};
    gyre_view in;
    gyre_error err = {0};
    gyre_status status = GYRE_EINVAL;
    if (open_data(&part, part_object, "part") == 0 && gyre_py_array_view(&part, layout, &in) == 0 &&
        gyre_py_check_apart("whole", whole, "part", &in) == 0) {
        const gyre_cview from = gyre_py_const(&in);
        Py_BEGIN_ALLOW_THREADS
        status = gyre_shards_put(self->shards, rank, &from, whole, &err);
        Py_END_ALLOW_THREADS
        if (status) gyre_py_raise(status, &err);
    }
    gyre_py_array_close(&part);
    return !status ? 0 : -1;
}

static const char shards_put_doc[] = "_put($self, rank, part, whole, *, layout=None"
                                     ")\n--\n\n"
                                     "The other way.";
static PyObject *shards_put(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    const shards_object *self = (shards_object *)object;
    PyObject *a[5], *finished = NULL;
    gyre_py_result result = {0};
    gyre_py_layout layout;
    gyre_view whole;
    int64_t rank = 0;
    if (gyre_py_arguments(shards_put_doc, args, count, keywords, a) < 0 || gyre_py_integer(a[0], "rank", &rank) < 0)
        return NULL;
    if (gyre_py_result_given(&result, a[2], "whole") == 0 && gyre_py_array_is(&result.array, data_types, data_names) == 0 &&
        view_data(&result.array, a[3], &layout, &whole) == 0 && put_part(self, rank, a[1], &layout, &whole) == 0)
        finished = gyre_py_result_finish(&result);
    gyre_py_result_drop(&result);
    return finished;
}

/* *result = memory for the whole, of the kind of a part. */
static int make_whole(const shards_object *self, PyObject *part_object, PyObject *layout_text, gyre_py_layout *layout,
                      gyre_py_result *result) {
    gyre_py_array part = {0};
    gyre_view view;
    const int64_t tokens = batch_info(((batch_object *)self->batch)->batch).tokens;
    const int good = open_data(&part, part_object, "part") == 0 && view_data(&part, layout_text, layout, &view) == 0 &&
                     make_data(result, NULL, &part, layout, tokens) == 0;
    gyre_py_array_close(&part);
    return good ? 0 : -1;
}

static PyObject *shards_join(PyObject *object, PyObject *args) {
    const shards_object *self = (shards_object *)object;
    PyObject *parts, *layout_text, *finished = NULL;
    gyre_py_result result = {0};
    gyre_py_layout layout;
    gyre_view whole;
    if (!PyArg_ParseTuple(args, "OO", &parts, &layout_text)) return NULL;
    if (!PyTuple_Check(parts) || PyTuple_Size(parts) != self->ranks)
        return gyre_py_fail(GYRE_ESHAPE, "parts", "parts: are not %lld, one of each rank", (long long)self->ranks);
    if (make_whole(self, PyTuple_GetItem(parts, 0), layout_text == Py_None ? NULL : layout_text, &layout, &result) == 0 &&
        gyre_py_array_view(&result.array, &layout, &whole) == 0) {
        int status = 0;
        for (int64_t r = 0; r < self->ranks && status == 0; r++)
            status = put_part(self, r, PyTuple_GetItem(parts, r), &layout, &whole);
        if (status == 0) finished = gyre_py_result_finish(&result);
    }
    gyre_py_result_drop(&result);
    return finished;
}

/* -- random positions -- */
const char gyre_py_draw_positions_doc[] =
    "draw_positions($module, draw, tokens, range, *, rows=1, seed=0"
    ")\n--\n\n"
    "Random positions of training sequences, from 0 .. range - 1: int64 [rows, tokens], rising in each row.\n\n"
    "draw: \"randomized\", a set of them, each equally likely (arXiv 2305.16843); \"shape\", consecutive ones from\n"
    "a random start (2109.05644); \"pose\", two chunks with a random gap (2309.10400); \"none\", 0, 1, 2, ...\n"
    "The same seed gives the same positions on every machine, and more rows begin with those of fewer.";
PyObject *gyre_py_draw_positions(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    const char *words[8];
    PyObject *a[6];
    int64_t tokens = 0, range = 0, seed = 0, shape[2] = {1, 0};
    int draw = 0, draws = 0;
    gyre_py_result result = {0};
    gyre_error err = {0};
    gyre_status status = GYRE_OK;
    (void)module;
    while (draws < 8 && (words[draws] = gyre_position_draw_name((gyre_position_draw)draws)) != NULL)
        draws++;
    if (gyre_py_arguments(gyre_py_draw_positions_doc, args, count, keywords, a) < 0 ||
        gyre_py_word(a[0], "draw", words, draws, &draw) < 0 || gyre_py_integer(a[1], "tokens", &tokens) < 0 ||
        gyre_py_integer(a[2], "range", &range) < 0 || gyre_py_integer(a[3], "rows", &shape[0]) < 0 ||
        gyre_py_integer(a[4], "seed", &seed) < 0)
        return NULL;
    if (shape[0] < 0 || tokens < 0)
        return gyre_py_fail(GYRE_EINVAL, shape[0] < 0 ? "rows" : "tokens", "%s: is negative",
                            shape[0] < 0 ? "rows" : "tokens");
    shape[1] = tokens;
    if (gyre_py_result_new(&result, NULL, GYRE_DTYPE_I64, 2, shape) < 0) return NULL;
    int64_t *out = result.array.data;
    uint64_t state = (uint64_t)seed;
    Py_BEGIN_ALLOW_THREADS
    for (int64_t row = 0; row < shape[0] && !status; row++)
        status = gyre_draw_positions((gyre_position_draw)draw, range, &state, tokens, out + row * tokens, &err);
    Py_END_ALLOW_THREADS
    PyObject *finished = !status ? gyre_py_result_finish(&result) : gyre_py_raise(status, &err);
    gyre_py_result_drop(&result);
    return finished;
}

/* -- the types -- */

static PyMethodDef batch_methods[] = {GYRE_PY_FAST("_create", batch_create, METH_CLASS),
                                      {"_shape", batch_shape, METH_NOARGS, "rows, tokens, axes, documents, sequences"},
                                      {"_numbers", batch_numbers, METH_O, "int64 numbers by name"},
                                      GYRE_PY_FAST("_shift_labels", batch_shift_labels, 0),
                                      {NULL, NULL, 0, NULL}};
static PyType_Slot batch_slots[] = {{Py_tp_dealloc, (void *)batch_dealloc},
                                    {Py_tp_methods, batch_methods},
                                    {Py_tp_doc, "Positions of the tokens of documents."},
                                    {0, NULL}};
static PyType_Spec batch_spec = {"gyre._gyre.Batch", sizeof(batch_object), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION, batch_slots};

static PyMethodDef shards_methods[] = {GYRE_PY_FAST("_create", shards_create, METH_CLASS),
                                       {"_get", shards_get, METH_O, "what a rank holds"},
                                       {"_imbalance", shards_imbalance, METH_NOARGS, "most pairs of a rank / mean"},
                                       GYRE_PY_FAST("_take", shards_take, 0),
                                       GYRE_PY_FAST("_put", shards_put, 0),
                                       {"_join", shards_join, METH_VARARGS, "the whole from all parts"},
                                       {NULL, NULL, 0, NULL}};
static PyType_Slot shards_slots[] = {{Py_tp_dealloc, (void *)shards_dealloc},
                                     {Py_tp_methods, shards_methods},
                                     {Py_tp_doc, "A batch that is dealt out to ranks."},
                                     {0, NULL}};
static PyType_Spec shards_spec = {"gyre._gyre.Shards", sizeof(shards_object), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                  shards_slots};

int gyre_py_add_positions(PyObject *module) {
    batch_type = PyType_FromSpec(&batch_spec);
    if (!batch_type || PyModule_AddObjectRef(module, "Batch", batch_type) < 0) return -1;
    PyObject *shards = PyType_FromSpec(&shards_spec);
    if (!shards) return -1;
    const int status = PyModule_AddObjectRef(module, "Shards", shards);
    Py_DECREF(shards);
    return status;
}
