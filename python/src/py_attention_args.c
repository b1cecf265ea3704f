/* py_attention_args.c: reads the arguments of an attention call, and what calls of other attention share. */
#include "py_attention.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void gyre_py_attention_close(gyre_py_attention_call *c) {
    enum { ARRAYS = 9 };
    gyre_py_array *const arrays[ARRAYS] = {&c->q,           &c->k,    &c->v,           &c->q_positions,
                                           &c->k_positions, &c->mask, &c->sink_logits, &c->gate_sums[0],
                                           &c->gate_sums[1]};
    for (int i = 0; i < ARRAYS; i++)
        gyre_py_array_close(arrays[i]);
    gyre_py_tables_close(&c->tables);
    for (int i = 0; i < GYRE_PY_LISTS; i++)
        free(c->lists[i]);
    free(c->from_zero);
    free(c->scratch.memory);
}

/* -- pieces -- */

int gyre_py_attention_is_double(const gyre_py_attention_call *c) {
    return c->q.dtype == GYRE_DTYPE_F64;
}

int gyre_py_attention_type_is(const gyre_py_attention_call *c, const gyre_py_array *array) {
    return gyre_py_attention_is_double(c) ? gyre_py_array_is(array, 1 << GYRE_DTYPE_F64, "float64 as q")
                                          : gyre_py_array_is(array, GYRE_PY_SHORT_REAL, "float16, bfloat16 or float32");
}

gyre_dtype gyre_py_attention_wide(const gyre_py_attention_call *c) {
    return gyre_py_attention_is_double(c) ? GYRE_DTYPE_F64 : GYRE_DTYPE_F32;
}

int gyre_py_attention_wide_is(const gyre_py_attention_call *c, const gyre_py_array *array) {
    return gyre_py_array_is(array, 1u << gyre_py_attention_wide(c),
                            gyre_py_attention_is_double(c) ? "float64 as q" : "float32");
}

static int open_operand(const gyre_py_attention_call *c, gyre_py_array *array, PyObject *object, const char *name,
                        gyre_cview *out) {
    gyre_view view;
    if (gyre_py_array_open(array, object, name) < 0 || gyre_py_attention_type_is(c, array) < 0 ||
        gyre_py_array_view(array, &c->layout, &view) < 0)
        return -1;
    *out = gyre_py_const(&view);
    return 0;
}

/* Keys of a cache or in pages are never doubles, so queries over them are not either. */
static int open_queries(gyre_py_attention_call *c, const gyre_py_attention_inputs *in) {
    gyre_view view;
    const int wide = in->k != NULL;
    if (gyre_py_array_open(&c->q, in->q, "q") < 0 ||
        gyre_py_layout_read(in->options[OPTION_LAYOUT], c->q.ndim == 3 ? "thd" : "bhsd", &c->layout) < 0 ||
        gyre_py_array_is(&c->q, wide ? GYRE_PY_REAL : GYRE_PY_SHORT_REAL,
                         wide ? gyre_py_reals : "float16, bfloat16 or float32") < 0 ||
        gyre_py_array_view(&c->q, &c->layout, &view) < 0)
        return -1;
    c->args.q = gyre_py_const(&view);
    return 0;
}

int gyre_py_attention_shape_is(const gyre_py_array *array, const int64_t *wanted, int ndim) {
    gyre_py_array right = {.ndim = ndim};
    int alike = array->ndim == ndim;
    for (int i = 0; i < ndim; i++) {
        right.shape[i] = wanted[i];
        alike = alike && array->shape[i] == wanted[i];
    }
    if (alike) return 0;
    char given[180], text[180];
    gyre_py_shape_text(array, given, sizeof given);
    gyre_py_shape_text(&right, text, sizeof text);
    gyre_py_fail(GYRE_ESHAPE, array->name, "%s: has shape %s, not %s", array->name, given, text);
    return -1;
}

static int check_not_empty(const gyre_py_array *array, const gyre_py_layout *layout) {
    static const char *const what[] = {"heads", "channels"};
    char shape[180];
    for (int i = 0; i < 2; i++) {
        const int axis = layout->axis[2 + i];
        if (axis < 0 || array->shape[axis] > 0) continue;
        gyre_py_shape_text(array, shape, sizeof shape);
        gyre_py_fail(GYRE_ESHAPE, array->name, "%s: has shape %s, so no %s, in layout '%s'", array->name, shape, what[i],
                     layout->text);
        return -1;
    }
    return 0;
}

/* What the library refuses of shapes of several axes, said in the order of the caller's axes. */
static int check_operands(const gyre_py_attention_call *c) {
    const gyre_py_array *const operands[] = {&c->q, &c->k, &c->v};
    for (int i = 0; i < 3; i++)
        if (operands[i]->object && check_not_empty(operands[i], &c->layout) < 0) return -1;
    if (!c->k.object) return 0;
    int64_t values[GYRE_PY_MAX_DIMS];
    memcpy(values, c->k.shape, sizeof values);
    values[c->layout.axis[3]] = c->v.shape[c->layout.axis[3]];
    return gyre_py_attention_shape_is(&c->v, values, c->k.ndim);
}

/* query_starts and key_starts: sequences + 1 numbers each; of a ragged batch the former alone. */
static int read_starts(gyre_py_attention_call *c, const gyre_py_attention_inputs *in) {
    PyObject *const *o = in->options, *const query_starts = in->ragged ? in->ragged : o[OPTION_QUERY_STARTS];
    int64_t starts = -1;
    if (!query_starts && !o[OPTION_KEY_STARTS]) return 0;
    if (!query_starts || (!in->ragged && !o[OPTION_KEY_STARTS])) {
        const char *const name = query_starts ? "key_starts" : "query_starts";
        gyre_py_fail(GYRE_EINVAL, name, "%s: missing: a packed batch needs query_starts and key_starts", name);
        return -1;
    }
    if (gyre_py_list(query_starts, "query_starts", &starts, &c->lists[0]) < 0) return -1;
    if (starts < 2) {
        gyre_py_fail(GYRE_ESHAPE, "query_starts", "query_starts: has %lld numbers, not one more than there are sequences",
                     (long long)starts);
        return -1;
    }
    c->batch.sequences = starts - 1;
    return gyre_py_list(o[OPTION_KEY_STARTS], "key_starts", &starts, &c->lists[1]);
}

static int read_lists(gyre_py_attention_call *c, const gyre_py_attention_inputs *in) {
    PyObject *const *o = in->options;
    gyre_attention_batch *batch = &c->batch;
    if (read_starts(c, in) < 0) return -1;
    int64_t rows = batch->sequences > 0 ? batch->sequences : c->args.q.shape[0];
    if (gyre_py_list(o[OPTION_KEY_FIRST], "key_first", &rows, &c->lists[2]) < 0 ||
        gyre_py_list(o[OPTION_KEY_END], "key_end", &rows, &c->lists[3]) < 0 ||
        gyre_py_list(o[OPTION_QUERY_END], "query_end", &rows, &c->lists[4]) < 0)
        return -1;
    batch->q_starts = c->lists[0];
    batch->k_starts = c->lists[1];
    batch->k_first = c->lists[2];
    batch->k_end = c->lists[3];
    batch->q_end = c->lists[4];
    c->args.batch = batch;
    return 0;
}

int gyre_py_causal(PyObject *object, const char *const *words, int count, int *out) {
    if (!object || !PyBool_Check(object)) return gyre_py_word(object, "causal", words, count, out);
    *out = object == Py_True;
    return 0;
}

/* A number of keys, or a pair of (before, after); None and 0 mean all, of a side too. */
static int read_window(gyre_attention_args *args, PyObject *object) {
    const int64_t all = INT64_C(1) << 40; /* more than positions can be apart */
    PyObject *pair = object && (PyTuple_Check(object) || PyList_Check(object)) ? PySequence_Tuple(object) : NULL;
    int64_t sides[2] = {0};
    int status = object && PyBool_Check(object) ? -1 : 0;
    if (object && !pair && !status) status = gyre_py_integer(object, "window", &sides[0]);
    if (pair && PyTuple_Size(pair) != 2) status = -1;
    for (int i = 0; pair && i < 2 && !status; i++) {
        PyObject *const side = PyTuple_GetItem(pair, i);
        status = PyBool_Check(side) ? -1 : gyre_py_integer(side == Py_None ? NULL : side, "window", &sides[i]);
    }
    if (pair && sides[0] != sides[1] && sides[1] == 0) sides[1] = all;
    Py_XDECREF(pair);
    args->window = sides[0];
    args->window_after = sides[1];
    if (!status || PyErr_Occurred()) return status;
    char shown[100];
    gyre_py_show(object, shown, sizeof shown);
    gyre_py_fail(GYRE_EINVAL, "window", "window: is %s, not a number of keys or (before, after)", shown);
    return -1;
}

static int read_numbers(gyre_py_attention_call *c, const gyre_py_attention_inputs *in) {
    gyre_attention_args *args = &c->args;
    PyObject *const *o = in->options;
    static const char *const causals[] = {"none", "position", "order"};
    static const char *const orders[] = {"fast", "fixed"};
    int causal = (int)in->causal, order = 0;
    int64_t seed = 0;
    if (gyre_py_causal(o[OPTION_CAUSAL], causals, 3, &causal) < 0 || read_window(args, o[OPTION_WINDOW]) < 0 ||
        gyre_py_word(in->order, "order", orders, 2, &order) < 0 ||
        gyre_py_integer(o[OPTION_SINKS], "sinks", &args->sinks) < 0 ||
        gyre_py_number(o[OPTION_SCALE], "scale", &args->scale) < 0 ||
        gyre_py_number(o[OPTION_SOFTCAP], "softcap", &args->softcap) < 0 ||
        gyre_py_number(o[OPTION_DROPOUT], "dropout", &c->dropout.rate) < 0 ||
        gyre_py_integer(o[OPTION_SEED], "seed", &seed) < 0 ||
        gyre_py_integer(o[OPTION_LENGTH], "length", &args->q_pos.context_length) < 0)
        return -1;
    if (o[OPTION_SCALE] && args->scale == 0) {
        gyre_py_fail(GYRE_EINVAL, "scale",
                     "scale: is 0, under which every key has the same weight; None = 1 / sqrt(channels)");
        return -1;
    }
    args->causal = (gyre_causal)causal;
    args->order = (gyre_order)order;
    c->dropout.seed = (uint64_t)seed;
    if (o[OPTION_DROPOUT]) args->dropout = &c->dropout;
    return 0;
}

/* Over a cache, zeros mean the last tokens of a sequence.  So positions from 0 on, which the caller asked for, are data. */
static int count_from_zero(gyre_py_attention_call *c) {
    gyre_positions *at = &c->args.q_pos;
    const int64_t queries = c->args.q.shape[1];
    if (at->data || at->base != 0) return 0;
    c->from_zero = malloc((size_t)(queries + 1) * sizeof *c->from_zero);
    if (!c->from_zero) return PyErr_NoMemory(), -1;
    for (int64_t t = 0; t < queries; t++)
        c->from_zero[t] = t;
    at->data = c->from_zero;
    at->dtype = GYRE_DTYPE_I64;
    at->stride_token = 1;
    return 0;
}

/* Without positions, the last query has the position of the last key; in a packed batch every sequence begins at 0. */
static int read_positions(gyre_py_attention_call *c, const gyre_py_attention_inputs *in, int64_t keys) {
    gyre_attention_args *args = &c->args;
    PyObject *q = in->options[OPTION_POSITIONS], *k = in->options[OPTION_KEY_POSITIONS];
    const int64_t axes = in->encoding ? in->encoding->axes : 1, batch = args->q.shape[0], queries = args->q.shape[1];
    const gyre_py_positions_request q_wanted = {"positions", axes, batch, queries};
    const gyre_py_positions_request k_wanted = {"key_positions", axes, batch, keys};
    if (!q && in->k && !c->batch.q_starts) args->q_pos.base = keys - queries;
    if (gyre_py_positions(q, &q_wanted, &args->q_pos, &c->q_positions) < 0) return -1;
    if (!in->k) return q ? count_from_zero(c) : 0;
    if (k || !c->q_positions.object) return gyre_py_positions(k, &k_wanted, &args->k_pos, &c->k_positions);
    if (queries == keys) return gyre_py_positions_match(&k_wanted, &args->k_pos, &c->q_positions);
    gyre_py_fail(GYRE_EINVAL, "key_positions", "key_positions: needed, as there are %lld queries and %lld keys",
                 (long long)queries, (long long)keys);
    return -1;
}

/* keys -1: the cache knows. */
static int check_scores(const gyre_py_array *m, const gyre_py_score_request *request) {
    const int64_t *q = request->q, keys = request->keys, all[4] = {q[0], q[2], q[1], keys};
    char shape[180];
    int good = 1;
    for (int i = 0; i < m->ndim; i++) {
        const int64_t wanted = all[4 - m->ndim + i];
        good = good && (m->shape[i] == wanted || wanted < 0 || (m->shape[i] == 1 && i < m->ndim - 1));
    }
    if (good) return 0;
    gyre_py_shape_text(m, shape, sizeof shape);
    char last[32] = "keys";
    if (keys >= 0) snprintf(last, sizeof last, "%lld", (long long)keys);
    gyre_py_fail(GYRE_ESHAPE, request->name,
                 "%s: has shape %s, not [%lld, %lld, %lld, %s] (batch, heads, queries, keys): the first two may be "
                 "left out, and each but keys may be 1",
                 request->name, shape, (long long)all[0], (long long)all[1], (long long)all[2], last);
    return -1;
}

int gyre_py_scores_open(gyre_py_array *m, PyObject *object, const gyre_py_score_request *request, gyre_cview *view) {
    if (gyre_py_array_open(m, object, request->name) < 0 || gyre_py_array_is(m, request->dtypes, request->types) < 0)
        return -1;
    if (m->ndim < 2 || m->ndim > 4) {
        gyre_py_fail(GYRE_ESHAPE, request->name,
                     "%s: has %d axes, not [batch, heads, queries, keys], or fewer from the left", request->name, m->ndim);
        return -1;
    }
    if (check_scores(m, request) < 0) return -1;
    view->data = m->data;
    view->dtype = (gyre_dtype)m->dtype;
    const int from[4] = {m->ndim - 4, m->ndim - 2, m->ndim - 3, m->ndim - 1}; /* batch, query, head, key */
    const int64_t all[4] = {request->q[0], request->q[1], request->q[2], -1};
    for (int i = 0; i < 4; i++) {
        const int64_t extent = from[i] < 0 ? 1 : m->shape[from[i]];
        const int broadcast = extent == 1 && all[i] > 0;
        view->shape[i] = broadcast ? all[i] : extent;
        view->stride[i] = broadcast ? 0 : m->stride[from[i]];
    }
    return 0;
}

/* out = numbers to add, owned by the caller: a mask of truth values, True where a query sees a key, becomes 0 and -inf. */
static PyObject *additive(PyObject *mask) {
    gyre_py_array array = {0};
    if (gyre_py_array_open(&array, mask, "mask") < 0) return NULL;
    const int truths = array.dtype < 0 && (strstr(array.other_dtype, "bool") || strchr(array.other_dtype, '?'));
    gyre_py_array_close(&array);
    return truths ? PyObject_CallFunctionObjArgs(gyre_py.additive, mask, NULL) : Py_NewRef(mask);
}

static int read_mask(gyre_py_attention_call *c, PyObject *object, int64_t keys) {
    const int wide = gyre_py_attention_is_double(c);
    const gyre_py_score_request request = {"mask", wide ? gyre_py_reals : "float16, bfloat16 or float32",
                                           wide ? GYRE_PY_REAL : GYRE_PY_SHORT_REAL, c->args.q.shape, keys};
    PyObject *numbers = object ? additive(object) : NULL;
    if (!numbers) return object ? -1 : 0;
    const int status = gyre_py_scores_open(&c->mask, numbers, &request, &c->args.mask); /* which keeps them */
    Py_DECREF(numbers);
    return status;
}

static int read_sink_logits(gyre_py_attention_call *c, PyObject *object) {
    if (!object) return 0;
    gyre_py_array *array = &c->sink_logits;
    const int wide = gyre_py_attention_is_double(c);
    if (gyre_py_array_open(array, object, "sink_logits") < 0 ||
        gyre_py_array_is(array, wide ? GYRE_PY_LONG_REAL : 1 << GYRE_DTYPE_F32, wide ? "float32 or float64" : "float32") < 0)
        return -1;
    if (array->ndim != 1) {
        gyre_py_fail(GYRE_ESHAPE, "sink_logits", "sink_logits: has %d axes, not [heads]", array->ndim);
        return -1;
    }
    if (gyre_py_attention_shape_is(array, &c->args.q.shape[2], 1) < 0) return -1;
    c->args.sink_logits = gyre_cdense(array->data, (gyre_dtype)array->dtype, 1, 1, array->shape[0], 1);
    c->args.sink_logits.stride[2] = array->stride[0];
    return 0;
}

static gyre_py_layout without_channels(const gyre_py_layout *layout) {
    gyre_py_layout rest = *layout;
    rest.ndim--;
    for (int i = 0; i < 3; i++)
        rest.axis[i] -= rest.axis[i] > rest.axis[3];
    rest.axis[3] = -1;
    return rest;
}

int gyre_py_rows_view(const gyre_py_layout *layout, const gyre_py_array *array, gyre_view *out) {
    const gyre_py_layout rest = without_channels(layout);
    return gyre_py_array_view(array, &rest, out);
}

int gyre_py_gate_sums_open(gyre_py_array *array, PyObject *object, const char *name, const gyre_py_layout *layout,
                           gyre_view *out) {
    if (gyre_py_array_open(array, object, name) < 0 ||
        gyre_py_array_is(array, 1 << GYRE_DTYPE_F32 | 1 << GYRE_DTYPE_F64, "float32 or float64") < 0)
        return -1;
    return gyre_py_rows_view(layout, array, out);
}

/* A number for each token of q, or of k, and each head of q. */
static int check_gate_sums(const gyre_py_attention_call *c, int of_keys) {
    const gyre_py_array *like = of_keys ? &c->k : &c->q;
    int64_t wanted[GYRE_PY_MAX_DIMS];
    int n = 0;
    for (int i = 0; i < c->q.ndim; i++)
        if (i != c->layout.axis[3]) wanted[n++] = i == c->layout.axis[2] ? c->q.shape[i] : like->shape[i];
    return gyre_py_attention_shape_is(&c->gate_sums[of_keys], wanted, n);
}

/* A cache has those of its keys. */
static int read_gate_sums(gyre_py_attention_call *c, PyObject *const *o, int in_cache) {
    static const char *const names[2] = {"query_gate_sums", "key_gate_sums"};
    gyre_cview *const views[2] = {&c->gates.q, &c->gates.k};
    PyObject *const sums[2] = {o[OPTION_QUERY_GATE_SUMS], o[OPTION_KEY_GATE_SUMS]};
    if (!in_cache && !sums[0] != !sums[1]) {
        const char *const name = names[sums[0] != NULL];
        gyre_py_fail(GYRE_EINVAL, name, "%s: missing: gates need query_gate_sums and key_gate_sums", name);
        return -1;
    }
    for (int i = 0; i < 2; i++) {
        gyre_view view;
        if (!sums[i]) continue;
        if (gyre_py_gate_sums_open(&c->gate_sums[i], sums[i], names[i], &c->layout, &view) < 0 ||
            ((i == 0 || c->k.object) && check_gate_sums(c, i) < 0))
            return -1;
        *views[i] = gyre_py_const(&view);
        c->args.gates = &c->gates;
    }
    return 0;
}

int gyre_py_attention_open(gyre_py_attention_call *c, const gyre_py_attention_inputs *in) {
    c->args = (gyre_attention_args)GYRE_INIT(gyre_attention_args);
    c->batch = (gyre_attention_batch)GYRE_INIT(gyre_attention_batch);
    c->gates = (gyre_attention_gates)GYRE_INIT(gyre_attention_gates);
    c->dropout = (gyre_attention_dropout)GYRE_INIT(gyre_attention_dropout);
    gyre_attention_args *args = &c->args;
    PyObject *const *o = in->options;
    args->encoding = in->encoding ? in->encoding->encoding : NULL;
    if (open_queries(c, in) < 0) return -1;
    if (in->k && (open_operand(c, &c->k, in->k, "k", &args->k) < 0 || open_operand(c, &c->v, in->v, "v", &args->v) < 0))
        return -1;
    if (check_operands(c) < 0 || read_lists(c, in) < 0 || read_numbers(c, in) < 0 ||
        read_positions(c, in, args->k.shape[1]) < 0 || read_mask(c, o[OPTION_MASK], in->k ? args->k.shape[1] : -1) < 0 ||
        read_sink_logits(c, o[OPTION_SINK_LOGITS]) < 0 || read_gate_sums(c, o, !in->k) < 0 ||
        gyre_py_tables_open(&c->tables, o[OPTION_TABLES], args->encoding) < 0)
        return -1;
    args->tables = o[OPTION_TABLES] ? &c->tables.tables : NULL;
    return 0;
}

/* -- results -- */

int gyre_py_attention_results_read(gyre_py_attention_results *r, PyObject *const *wanted) {
    static const char *const names[GYRE_PY_MORE] = {"lse", "weights", "scores"};
    for (int i = 0; i < GYRE_PY_MORE; i++)
        if (gyre_py_truth(wanted[i], names[i], &r->wants[i]) < 0) return -1;
    return 0;
}

int gyre_py_next_picture(gyre_py_attention_call *c) {
    const int which = !c->pictures[0].data;
    if (!c->pictures[which].data) return 0;
    c->picture = (gyre_attention_weights){.size = sizeof c->picture, .out = c->pictures[which], .scores = which};
    c->pictures[which].data = NULL;
    c->args.weights = &c->picture;
    return 1;
}

/* Memory [batch, heads, queries, keys], without batch and heads where the layout has none. */
static int make_picture(gyre_py_attention_call *c, gyre_py_result *to, int64_t keys, gyre_view *view) {
    const int64_t *q = c->args.q.shape, all[4] = {q[0], q[2], q[1], keys};
    const int has[4] = {c->layout.axis[0] >= 0, c->layout.axis[2] >= 0, 1, 1};
    int64_t shape[4];
    int n = 0;
    for (int i = 0; i < 4; i++)
        if (has[i]) shape[n++] = all[i];
    if (gyre_py_result_new(to, &c->q, GYRE_DTYPE_F32, n, shape) < 0) return -1;
    *view = gyre_dense(to->array.data, GYRE_DTYPE_F32, q[0], q[1], q[2], keys);
    view->stride[0] = q[2] * q[1] * keys;
    view->stride[1] = keys;
    view->stride[2] = q[1] * keys;
    return 0;
}

int gyre_py_attention_results_make(gyre_py_attention_call *c, gyre_py_attention_results *r, PyObject *out, int64_t values,
                                   int64_t keys) {
    int64_t shape[GYRE_PY_MAX_DIMS], rows[GYRE_PY_MAX_DIMS];
    int n = 0;
    memcpy(shape, c->q.shape, sizeof shape);
    shape[c->layout.axis[3]] = values;
    for (int i = 0; i < c->q.ndim; i++)
        if (i != c->layout.axis[3]) rows[n++] = c->q.shape[i];
    const int alike = values == c->q.shape[c->layout.axis[3]];
    if ((out     ? gyre_py_result_given(&r->out, out, "out")
         : alike ? gyre_py_result_like(&r->out, &c->q)
                 : gyre_py_result_new(&r->out, &c->q, (gyre_dtype)c->q.dtype, c->q.ndim, shape)) < 0 ||
        gyre_py_attention_type_is(c, &r->out.array) < 0 || gyre_py_array_view(&r->out.array, &c->layout, &c->args.out) < 0 ||
        gyre_py_attention_shape_is(&r->out.array, shape, c->q.ndim) < 0)
        return -1;
    if (r->wants[GYRE_PY_LSE] && (gyre_py_result_new(&r->more[GYRE_PY_LSE], &c->q, gyre_py_attention_wide(c), n, rows) < 0 ||
                                  gyre_py_rows_view(&c->layout, &r->more[GYRE_PY_LSE].array, &c->args.lse) < 0))
        return -1;
    for (int i = GYRE_PY_WEIGHTS; i < GYRE_PY_MORE; i++)
        if (r->wants[i] && make_picture(c, &r->more[i], keys, &c->pictures[i - GYRE_PY_WEIGHTS]) < 0) return -1;
    gyre_py_next_picture(c);
    return 0;
}

PyObject *gyre_py_attention_results_finish(gyre_py_attention_results *r) {
    int count = 1;
    for (int i = 0; i < GYRE_PY_MORE; i++)
        count += r->wants[i];
    PyObject *all = count > 1 ? PyTuple_New(count) : gyre_py_result_finish(&r->out);
    for (int i = -1, at = 0; count > 1 && all && i < GYRE_PY_MORE; i++) {
        if (i >= 0 && !r->wants[i]) continue;
        PyObject *one = gyre_py_result_finish(i < 0 ? &r->out : &r->more[i]);
        if (!one || PyTuple_SetItem(all, at++, one) < 0) Py_CLEAR(all);
    }
    return all;
}

void gyre_py_attention_results_drop(gyre_py_attention_results *r) {
    gyre_py_result_drop(&r->out);
    for (int i = 0; i < GYRE_PY_MORE; i++)
        gyre_py_result_drop(&r->more[i]);
}

gyre_status gyre_py_take_scratch(size_t bytes, gyre_scratch *out, gyre_error *err) {
    out->memory = bytes < SIZE_MAX / 2 ? aligned_alloc(64, (bytes + 127) / 64 * 64) : NULL;
    out->bytes = bytes;
    if (out->memory) return GYRE_OK;
    snprintf(err->text, sizeof err->text, "memory: none for %zu bytes of scratch", bytes);
    return GYRE_ENOMEM;
}

/* -- calls with arguments of their own: contextual and adaptive positions -- */

const char gyre_py_reals[] = "float16, bfloat16, float32 or float64";

void gyre_py_tiled_close(gyre_py_tiled *t) {
    enum { ARRAYS = 6 };
    gyre_py_array *const arrays[ARRAYS] = {&t->q, &t->k, &t->v, &t->dout, &t->out, &t->lse};
    for (int i = 0; i < ARRAYS; i++)
        gyre_py_array_close(arrays[i]);
    for (int i = 0; i < GYRE_PY_TILED_RESULTS; i++)
        gyre_py_result_drop(&t->results[i]);
    for (int i = 0; i < GYRE_PY_TILED_LISTS; i++)
        free(t->lists[i]);
    free(t->scratch.memory);
}

int gyre_py_tiled_rows(const gyre_py_tiled *t, gyre_py_array *array, PyObject *object, const char *name, gyre_view *view) {
    return gyre_py_array_open(array, object, name) < 0 || gyre_py_array_is(array, GYRE_PY_REAL, gyre_py_reals) < 0 ||
                   gyre_py_array_view(array, &t->layout, view) < 0
               ? -1
               : 0;
}

int gyre_py_tiled_open(gyre_py_tiled *t, PyObject *const *qkv, PyObject *layout, gyre_cview *const views[3]) {
    static const char *const names[] = {"q", "k", "v"};
    gyre_py_array *const arrays[] = {&t->q, &t->k, &t->v};
    gyre_view view;
    if (gyre_py_array_open(&t->q, qkv[0], "q") < 0 || gyre_py_array_is(&t->q, GYRE_PY_REAL, gyre_py_reals) < 0 ||
        gyre_py_layout_read(layout, t->q.ndim == 3 ? "thd" : "bhsd", &t->layout) < 0 ||
        gyre_py_array_view(&t->q, &t->layout, &view) < 0)
        return -1;
    *views[0] = gyre_py_const(&view);
    for (int i = 1; i < 3 && qkv[i]; i++) {
        if (gyre_py_tiled_rows(t, arrays[i], qkv[i], names[i], &view) < 0) return -1;
        *views[i] = gyre_py_const(&view);
    }
    return 0;
}

int gyre_py_tiled_read_lists(gyre_py_tiled *t, PyObject *const *o, int64_t batch) {
    int64_t starts = -1;
    if (!o[2] != !o[3]) {
        const char *const name = o[2] ? "key_starts" : "query_starts";
        gyre_py_fail(GYRE_EINVAL, name, "%s: missing: a packed batch needs query_starts and key_starts", name);
        return -1;
    }
    if (gyre_py_list(o[2], "query_starts", &starts, &t->lists[2]) < 0) return -1;
    if (o[2] && starts < 2) {
        gyre_py_fail(GYRE_ESHAPE, "query_starts", "query_starts: has %lld numbers, not one more than there are sequences",
                     (long long)starts);
        return -1;
    }
    int64_t rows = o[2] ? starts - 1 : batch;
    if (gyre_py_list(o[3], "key_starts", &starts, &t->lists[3]) < 0 ||
        gyre_py_list(o[0], "key_first", &rows, &t->lists[0]) < 0 || gyre_py_list(o[1], "key_end", &rows, &t->lists[1]) < 0)
        return -1;
    t->sequences = o[2] ? rows : 0;
    return 0;
}

int gyre_py_tiled_factor(PyObject *object, const char *name, double *to) {
    if (gyre_py_number(object, name, to) < 0) return -1;
    if (!object || *to != 0) return 0;
    gyre_py_fail(GYRE_EINVAL, name, "%s: is 0, which would switch its term off; leave it out for its default", name);
    return -1;
}

/* Shapes in the caller's order: of out, and of lse, whose number of axes is returned. */
static int result_shapes(const gyre_py_tiled *t, int64_t channels, int64_t out[GYRE_PY_MAX_DIMS],
                         int64_t lse[GYRE_PY_MAX_DIMS]) {
    const int channel = t->layout.axis[3];
    int n = 0;
    memcpy(out, t->q.shape, sizeof t->q.shape);
    out[channel] = channels;
    for (int i = 0; i < t->q.ndim; i++)
        if (i != channel) lse[n++] = t->q.shape[i];
    return n;
}

int gyre_py_tiled_make_out(gyre_py_tiled *t, int64_t channels, gyre_view *out, gyre_view *lse) {
    const gyre_py_array *q = &t->q;
    int64_t shape[GYRE_PY_MAX_DIMS] = {0}, rows[GYRE_PY_MAX_DIMS] = {0};
    const int n = result_shapes(t, channels, shape, rows);
    return gyre_py_result_new(&t->results[0], q, (gyre_dtype)q->dtype, q->ndim, shape) < 0 ||
                   gyre_py_array_view(&t->results[0].array, &t->layout, out) < 0 ||
                   gyre_py_result_new(&t->results[1], q, GYRE_DTYPE_F32, n, rows) < 0 ||
                   gyre_py_rows_view(&t->layout, &t->results[1].array, lse) < 0
               ? -1
               : 0;
}

int gyre_py_tiled_open_written(gyre_py_tiled *t, PyObject *const written[3], int64_t channels, gyre_view *out,
                               gyre_view *lse) {
    int64_t shape[GYRE_PY_MAX_DIMS] = {0}, rows[GYRE_PY_MAX_DIMS] = {0};
    const int n = result_shapes(t, channels, shape, rows);
    if (gyre_py_tiled_rows(t, &t->dout, written[0], "dout", &t->dout_view) < 0 ||
        gyre_py_tiled_rows(t, &t->out, written[1], "out", out) < 0 ||
        gyre_py_gate_sums_open(&t->lse, written[2], "lse", &t->layout, lse) < 0)
        return -1;
    return gyre_py_attention_shape_is(&t->dout, shape, t->q.ndim) < 0 ||
                   gyre_py_attention_shape_is(&t->out, shape, t->q.ndim) < 0 ||
                   gyre_py_attention_shape_is(&t->lse, rows, n) < 0
               ? -1
               : 0;
}

int gyre_py_tiled_make_rows(gyre_py_tiled *t, int i, const gyre_py_array *of, gyre_view *view) {
    if (gyre_py_result_new(&t->results[i], of, (gyre_dtype)of->dtype, of->ndim, of->shape) < 0) return -1;
    return gyre_py_array_view(&t->results[i].array, &t->layout, view);
}

int gyre_py_tiled_make_table(gyre_py_tiled *t, int i, const gyre_py_array *of) {
    const gyre_dtype dtype = of->dtype == GYRE_DTYPE_F64 ? GYRE_DTYPE_F64 : GYRE_DTYPE_F32;
    if (gyre_py_result_new(&t->results[i], of, dtype, of->ndim, of->shape) < 0) return -1;
    memset(t->results[i].array.data, 0, (size_t)gyre_py_bytes(dtype, of->ndim, of->shape));
    return 0;
}

PyObject *gyre_py_tiled_finish(gyre_py_tiled *t, int count) {
    PyObject *all = PyTuple_New(count);
    for (int i = 0; all && i < count; i++) {
        PyObject *one = t->results[i].memory ? gyre_py_result_finish(&t->results[i]) : Py_None;
        if (one == Py_None) Py_INCREF(one);
        if (!one || PyTuple_SetItem(all, i, one) < 0) Py_CLEAR(all);
    }
    return all;
}

PyObject *gyre_py_tiled_finish_out(gyre_py_tiled *t, int wants_lse) {
    return wants_lse ? gyre_py_tiled_finish(t, 2) : gyre_py_result_finish(&t->results[0]);
}
