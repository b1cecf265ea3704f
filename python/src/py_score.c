/* py_score.c: bias on scores and positions at the input, with their gradients. */
#include "py_encoding.h"

#include <string.h>

/* -- scores -- */

/* A call about scores: positions of queries and keys, and tables. */
typedef struct score_call {
    const gyre_py_encoding *encoding;
    gyre_positions queries, keys;
    gyre_py_array query_array, key_array;
    gyre_py_tables tables;
    int64_t batch, query_count, key_count;
    int has_batch;
} score_call;

static void close_scores(score_call *c) {
    gyre_py_array_close(&c->query_array);
    gyre_py_array_close(&c->key_array);
    gyre_py_tables_close(&c->tables);
}

/* Positions of one side: a number of tokens, or an array. */
static int open_side(PyObject *object, const char *name, gyre_positions *positions, gyre_py_array *array, int64_t *count) {
    if (gyre_py_positions_open(object, name, positions, array) < 0) return -1;
    if (array->object) {
        *count = array->ndim > 0 ? array->shape[array->ndim - 1] : 0;
        if (array->ndim == 1 || array->ndim == 2) return 0;
        gyre_py_fail(GYRE_ESHAPE, name, "%s: has %d axes, not [tokens] or [batch, tokens]", name, array->ndim);
        return -1;
    }
    *count = positions->base;
    positions->base = 0;
    if (*count >= 0) return 0;
    gyre_py_fail(GYRE_EINVAL, name, "%s: is %lld, not a number of tokens, 0 or more, nor an array of positions", name,
                 (long long)*count);
    return -1;
}

static void take_batch(score_call *c, const gyre_py_array *array) {
    if (!array->object || array->ndim != 2) return;
    c->has_batch = 1;
    if (array->shape[0] > c->batch) c->batch = array->shape[0];
}

/* A number of queries means those at the last positions of the keys, as in decoding. */
static int place_last(score_call *c) {
    if (!c->key_array.object) {
        c->queries.base = c->key_count - c->query_count;
        return 0;
    }
    if (c->query_count > c->key_count) {
        gyre_py_fail(GYRE_EINVAL, "queries",
                     "queries: is %lld, but there are positions of %lld keys: pass those of the queries",
                     (long long)c->query_count, (long long)c->key_count);
        return -1;
    }
    const int64_t length = c->queries.context_length;
    c->queries = c->keys;
    c->queries.context_length = length;
    c->queries.data = (const char *)c->keys.data +
                      (c->key_count - c->query_count) * c->keys.stride_token * (int64_t)gyre_dtype_size(c->keys.dtype);
    return 0;
}

static int open_scores(score_call *c, PyObject *queries, PyObject *keys, PyObject *tables, PyObject *length) {
    c->batch = 1;
    if (gyre_py_integer(length, "length", &c->queries.context_length) < 0 ||
        open_side(queries, "queries", &c->queries, &c->query_array, &c->query_count) < 0)
        return -1;
    c->key_count = c->query_count;
    if (keys && open_side(keys, "keys", &c->keys, &c->key_array, &c->key_count) < 0) return -1;
    take_batch(c, &c->query_array);
    take_batch(c, &c->key_array);
    const gyre_py_positions_request q = {"queries", 1, c->batch, c->query_count}, k = {"keys", 1, c->batch, c->key_count};
    if (gyre_py_positions_match(&q, &c->queries, &c->query_array) < 0 ||
        gyre_py_positions_match(&k, &c->keys, keys ? &c->key_array : &c->query_array) < 0)
        return -1;
    if (!c->query_array.object && keys && place_last(c) < 0) return -1;
    return gyre_py_tables_open(&c->tables, tables, c->encoding->encoding);
}

/* An array [batch, heads, query, key] or [heads, query, key] as a view [batch, query, heads, key]. */
static int score_view(const gyre_py_array *array, gyre_view *out) {
    const gyre_py_layout layout = {.axis = {array->ndim == 4 ? 0 : -1, array->ndim - 2, array->ndim - 3, array->ndim - 1},
                                   .ndim = array->ndim,
                                   .text = "bhqk"};
    if (array->ndim == 3 || array->ndim == 4) return gyre_py_array_view(array, &layout, out);
    gyre_py_fail(GYRE_ESHAPE, array->name, "%s: has %d axes, not [batch, heads, queries, keys] or [heads, queries, keys]",
                 array->name, array->ndim);
    return -1;
}

/* Scores of the caller have the queries and the keys of the call. */
static int check_scores(const score_call *c, const gyre_py_array *array, const gyre_view *view) {
    char shape[180];
    if (view->shape[1] == c->query_count && view->shape[3] == c->key_count) return 0;
    gyre_py_shape_text(array, shape, sizeof shape);
    gyre_py_fail(GYRE_ESHAPE, array->name, "%s: has shape %s, which does not end with %lld queries and %lld keys",
                 array->name, shape, (long long)c->query_count, (long long)c->key_count);
    return -1;
}

static PyObject *add_bias(score_call *c, gyre_py_result *result, int is_new) {
    gyre_view view;
    if (score_view(&result->array, &view) < 0 || check_scores(c, &result->array, &view) < 0) return NULL;
    gyre_error err = {0};
    gyre_status status;
    const int64_t elements = gyre_py_elements(view.shape); /* of new memory: within what a size_t counts in bytes */
    gyre_py_threads threads = gyre_py_threads_begin(elements < 1 << 18);
    Py_BEGIN_ALLOW_THREADS
    if (is_new) memset(result->array.data, 0, (size_t)elements * gyre_dtype_size(view.dtype));
    status = gyre_add_bias(
        c->encoding->encoding,
        GYRE_ARGS(gyre_add_bias_args, .tables = &c->tables.tables, .queries = &c->queries, .keys = &c->keys, .scores = view),
        gyre_py_exec(&threads), &err);
    Py_END_ALLOW_THREADS
    gyre_py_threads_end(&threads);
    return !status ? gyre_py_result_finish(result) : gyre_py_raise(status, &err);
}

/* out = the array whose kind a result has: positions, or a table where these are numbers of tokens.  NULL = none. */
static const gyre_py_array *kind_of(const score_call *c) {
    if (c->query_array.object) return &c->query_array;
    if (c->key_array.object) return &c->key_array;
    for (int i = 0; i < GYRE_PY_TABLES; i++)
        if (c->tables.arrays[i].object) return &c->tables.arrays[i];
    return NULL;
}

const char gyre_py_bias_doc[] = "_bias($self, queries, keys=None, *, tables=None, double=False, length=0, scores=None"
                                ")\n--\n\n"
                                "The bias of scores.";
PyObject *gyre_py_bias(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    score_call c = {.encoding = (const gyre_py_encoding *)self};
    PyObject *a[7], *finished = NULL;
    gyre_py_result result = {0};
    int wide = 0;
    if (gyre_py_arguments(gyre_py_bias_doc, args, count, keywords, a) < 0 || gyre_py_truth(a[3], "double", &wide) < 0)
        return NULL;
    if (open_scores(&c, a[0], a[1], a[2], a[4]) == 0) {
        const int64_t heads = gyre_encoding_get_config(c.encoding->encoding)->heads;
        const int64_t shape[4] = {c.batch, heads > 0 ? heads : 1, c.query_count, c.key_count};
        if (a[5] ? gyre_py_result_given(&result, a[5], "scores") == 0 &&
                       gyre_py_array_is(&result.array, GYRE_PY_REAL, "float16, bfloat16, float32 or float64") == 0
                 : gyre_py_result_new(&result, kind_of(&c), wide ? GYRE_DTYPE_F64 : GYRE_DTYPE_F32, 3 + c.has_batch,
                                      shape + !c.has_batch) == 0)
            finished = add_bias(&c, &result, !a[5]);
    }
    gyre_py_result_drop(&result);
    close_scores(&c);
    return finished;
}

const char gyre_py_bias_gradient_doc[] =
    "bias_gradient($self, dscores, queries, keys=None, *, tables=None, length=None"
    ")\n--\n\n"
    "The gradient of a loss to the bias table, {\"bias\": float32}, given that to the scores.";
PyObject *gyre_py_bias_gradient(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    score_call c = {.encoding = (const gyre_py_encoding *)self};
    PyObject *a[6], *finished = NULL;
    gyre_py_table_gradients gradients = {0};
    gyre_py_array dscores = {0};
    gyre_view view;
    if (gyre_py_arguments(gyre_py_bias_gradient_doc, args, count, keywords, a) < 0) return NULL;
    if (open_scores(&c, a[1], a[2], a[3], a[4]) == 0 && gyre_py_array_open(&dscores, a[0], "dscores") == 0 &&
        gyre_py_array_is(&dscores, GYRE_PY_REAL, "float16, bfloat16, float32 or float64") == 0 &&
        score_view(&dscores, &view) == 0 && gyre_py_table_gradients_make(&gradients, &c.tables, GYRE_DTYPE_F32) == 0) {
        const gyre_cview in = gyre_py_const(&view);
        gyre_error err = {0};
        gyre_status status;
        gyre_py_threads threads = gyre_py_threads_begin(0);
        Py_BEGIN_ALLOW_THREADS
        status = gyre_add_bias_gradient(
            c.encoding->encoding,
            GYRE_ARGS(gyre_add_bias_args, .tables = &c.tables.tables, .queries = &c.queries, .keys = &c.keys), &in,
            &gradients.views, gyre_py_exec(&threads), &err);
        Py_END_ALLOW_THREADS
        gyre_py_threads_end(&threads);
        finished = !status ? gyre_py_table_gradients_finish(&gradients) : gyre_py_raise(status, &err);
    }
    gyre_py_table_gradients_drop(&gradients);
    gyre_py_array_close(&dscores);
    close_scores(&c);
    return finished;
}

/* -- the input -- */

/* The channels of a model are one head. */
static int open_input(gyre_py_array *array, PyObject *x, const char *name, PyObject *layout_text, gyre_view *view) {
    gyre_py_layout layout;
    if (gyre_py_array_open(array, x, name) < 0) return -1;
    if (gyre_py_array_is(array, GYRE_PY_REAL, "float16, bfloat16, float32 or float64") < 0) return -1;
    if (gyre_py_layout_read(layout_text, array->ndim == 2 ? "sd" : "bsd", &layout) < 0) return -1;
    return gyre_py_array_view(array, &layout, view);
}

/* x, its positions and the tables. */
typedef struct input_call {
    gyre_py_array x, position_array;
    gyre_py_tables tables;
    gyre_positions positions;
    gyre_view view;
} input_call;

static int open_input_call(input_call *c, const gyre_py_encoding *e, PyObject *const *a, const char *name) {
    if (open_input(&c->x, a[0], name, a[3], &c->view) < 0) return -1;
    const int64_t channels = gyre_encoding_get_config(e->encoding)->input.dim;
    if ((gyre_encoding_places(e->encoding) & GYRE_PLACE_INPUT) && c->view.shape[3] != channels) {
        gyre_py_fail(GYRE_ESHAPE, name, "%s: %lld channels, the encoding has %lld", name, (long long)c->view.shape[3],
                     (long long)channels);
        return -1;
    }
    const gyre_py_positions_request wanted = {"positions", 1, c->view.shape[0], c->view.shape[1]};
    if (gyre_py_positions(a[1], &wanted, &c->positions, &c->position_array) < 0) return -1;
    return gyre_py_tables_open(&c->tables, a[2], e->encoding);
}

static void close_input_call(input_call *c) {
    gyre_py_array_close(&c->x);
    gyre_py_array_close(&c->position_array);
    gyre_py_tables_close(&c->tables);
}

const char gyre_py_add_doc[] =
    "add($self, x, positions=None, *, tables=None, layout=None, out=None"
    ")\n--\n\n"
    "Adds positions at the input of a model: out[token] = x[token] + p(position of token).\n"
    "\n"
    "x: [batch, tokens, channels] or [tokens, channels].  tables: the learned table, [rows, channels] of float32 or\n"
    "float64.  out: memory for the result; x itself for an addition in place.  Raises gyre.Error where the encoding\n"
    "adds nothing at the input.  Vaswani 2017, arXiv 1706.03762; Gehring 2017, arXiv 1705.03122.";
PyObject *gyre_py_add(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    const gyre_py_encoding *e = (const gyre_py_encoding *)self;
    input_call c = {0};
    PyObject *a[6], *finished = NULL;
    gyre_py_result result = {0};
    gyre_view out;
    gyre_py_layout layout;
    if (gyre_py_arguments(gyre_py_add_doc, args, count, keywords, a) < 0) return NULL;
    if (open_input_call(&c, e, a, "x") == 0 &&
        (a[4] ? gyre_py_result_given(&result, a[4], a[4] == a[0] ? "x" : "out") : gyre_py_result_like(&result, &c.x)) == 0 &&
        gyre_py_array_is(&result.array, 1U << c.x.dtype, gyre_py_dtype_text(&c.x)) == 0 &&
        gyre_py_layout_read(a[3], c.x.ndim == 2 ? "sd" : "bsd", &layout) == 0 &&
        gyre_py_array_view(&result.array, &layout, &out) == 0 &&
        (!a[4] || gyre_py_check_out(&c.x, &c.view, &result.array, &out) == 0)) {
        const gyre_cview in = gyre_py_const(&c.view);
        gyre_error err = {0};
        gyre_status status;
        gyre_py_threads threads = gyre_py_threads_begin(gyre_py_elements(in.shape) < 1 << 18);
        Py_BEGIN_ALLOW_THREADS
        status = gyre_add_input(
            e->encoding,
            GYRE_ARGS(gyre_add_input_args, .tables = &c.tables.tables, .positions = &c.positions, .in = in, .out = out),
            gyre_py_exec(&threads), &err);
        Py_END_ALLOW_THREADS
        gyre_py_threads_end(&threads);
        finished = !status ? gyre_py_result_finish(&result) : gyre_py_raise(status, &err);
    }
    gyre_py_result_drop(&result);
    close_input_call(&c);
    return finished;
}

const char gyre_py_add_gradient_doc[] =
    "add_gradient($self, dout, positions=None, *, tables=None, layout=None"
    ")\n--\n\n"
    "The gradient of a loss to the input table, given dout, shaped as x of add.  Returns {'input': float32}.\n"
    "The gradient to x is dout itself.";
PyObject *gyre_py_add_gradient(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    const gyre_py_encoding *e = (const gyre_py_encoding *)self;
    input_call c = {0};
    PyObject *a[5], *finished = NULL;
    gyre_py_table_gradients gradients = {0};
    if (gyre_py_arguments(gyre_py_add_gradient_doc, args, count, keywords, a) < 0) return NULL;
    if (open_input_call(&c, e, a, "dout") == 0 && gyre_py_table_gradients_make(&gradients, &c.tables, GYRE_DTYPE_F32) == 0) {
        const gyre_cview in = gyre_py_const(&c.view);
        gyre_error err = {0};
        gyre_status status;
        gyre_py_threads threads = gyre_py_threads_begin(0);
        Py_BEGIN_ALLOW_THREADS
        status = gyre_add_input_gradient(e->encoding, &c.positions, &in, &gradients.views, gyre_py_exec(&threads), &err);
        Py_END_ALLOW_THREADS
        gyre_py_threads_end(&threads);
        finished = !status ? gyre_py_table_gradients_finish(&gradients) : gyre_py_raise(status, &err);
    }
    gyre_py_table_gradients_drop(&gradients);
    close_input_call(&c);
    return finished;
}
