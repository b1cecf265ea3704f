/* py_attention.c: attention and its gradient. */
#include "py_attention.h"

#include <string.h>

static gyre_status attend(gyre_py_attention_call *c, const gyre_exec *exec, gyre_error *err) {
    size_t bytes = 0;
    gyre_status status = gyre_attention_scratch(&c->args, 0, exec, &bytes, err);
    if (!status) status = gyre_py_take_scratch(bytes, &c->scratch, err);
    for (int more = 1; more && !status; more = gyre_py_next_picture(c))
        status = gyre_attention(&c->args, c->scratch, exec, err);
    return status;
}

/* out = keys of the longest sequence. */
static int64_t longest(const gyre_py_attention_call *c) {
    const int64_t *starts = c->batch.k_starts;
    int64_t most = starts ? 0 : c->args.k.shape[1];
    for (int64_t s = 0; starts && s < c->batch.sequences; s++)
        most = starts[s + 1] - starts[s] > most ? starts[s + 1] - starts[s] : most;
    return most;
}

const char gyre_py_attention_doc[] =
    "attention($module, q, k, v, *, encoding=None, out=None, lse=False, weights=False, scores=False, order=None, "
    "causal=False" GYRE_PY_OPTIONS GYRE_PY_OF_ARRAYS ")\n--\n\n"
    "softmax(scale q . k) v with positions applied to raw q, k and v, in one pass and without an n x n matrix.\n"
    "\n"
    "Args:\n"
    "    q, k, v: arrays of float16, bfloat16 or float32, any strides, [batch, heads, tokens, channels] for layout\n"
    "        \"bhsd\". Query heads are a multiple of key heads.\n"
    "    encoding: None = without positions, or they were applied before.\n"
    "    layout: \"bhsd\" (the default of four axes), \"bshd\", \"thd\" (of three) or other letters.\n"
    "    positions, key_positions: of queries and keys, as in Encoding.rotate.  None: keys stand at 0, 1, 2, ..., and\n"
    "        the last query beside the last key.\n"
    "    causal: True or \"position\" = a query sees keys at positions not above its own; \"order\" = counted in tokens.\n"
    "    window: a query sees keys less than `window` positions away; (before, after) names each side; None and 0 =\n"
    "        all, of a side too.\n"
    "    sinks: keys at positions below this are seen whatever the window (StreamingLLM, arXiv 2309.17453).\n"
    "    scale: of q . k; None = 1 / sqrt(channels).  softcap: c tanh(s / c) of a score s (Gemma 2).\n"
    "    tables: of schemes that train some: a dict of arrays by name, or the one table there is.\n"
    "    mask: [batch, heads, queries, keys], fewer axes from the left or 1 to broadcast; numbers to add, or truth\n"
    "        values, True where a key is seen.\n"
    "    sink_logits: float32 [heads]: a score without a key in each softmax (gpt-oss).\n"
    "    dropout: probability of a weight to become 0, drawn from `seed`.\n"
    "    query_starts, key_starts: a packed batch, \"thd\": sequence s is tokens starts[s] .. starts[s + 1] - 1.\n"
    "        Positions None then begin at 0 in each, of queries too.\n"
    "    key_first, key_end: padding: row b has keys key_first[b] .. key_end[b] - 1.  query_end: see q_end in "
    "gyre_attention.h.\n"
    "    order: \"fixed\" = the bits of a query do not depend on how its sequence is cut into calls.\n"
    "    length: the context length in use.\n"
    "    query_gate_sums, key_gate_sums: float32 or float64 [batch, heads, tokens], in the layout of q without\n"
    "        channels, a number for each token and query head whose difference is added to scores: running sums of\n"
    "        log forget gates (Forgetting Transformer, arXiv 2503.02130).  numpy.cumsum in float64 makes them.\n"
    "    out: memory for the result, shaped as q with the channels of v.\n"
    "    lse: True = return (out, lse), lse float32 without the axis of channels: the log-sum-exp of each row.\n"
    "    weights, scores: True = return them too, after lse, float32 [batch, heads, queries, keys of the longest\n"
    "        sequence] in any layout: the softmax without dropout, and what it reads, after biases, softcap and mask.\n"
    "        They are computed again, key by key, and have no gradient.\n"
    "\n"
    "Returns an array of the kind and type of q.  A row that sees no key is zeros.  Sums are of floats.\n"
    "\n"
    "Raises:\n"
    "    gyre.Error: it names the argument, what it is and what would be right.";
PyObject *gyre_py_attention(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    enum { ENCODING = 3, OUT, MORE, ORDER = MORE + GYRE_PY_MORE, FIRST };
    PyObject *a[FIRST + OPTIONS], *finished = NULL;
    gyre_py_attention_call c = {0};
    gyre_py_attention_results results = {0};
    gyre_py_attention_inputs in = {0};
    (void)self;
    if (gyre_py_arguments(gyre_py_attention_doc, args, count, keywords, a) < 0 ||
        gyre_py_attention_results_read(&results, a + MORE) < 0 ||
        gyre_py_encoding_of(a[ENCODING], "encoding", &in.encoding) < 0)
        return NULL;
    in.q = a[0];
    in.k = a[1];
    in.v = a[2];
    in.order = a[ORDER];
    in.options = a + FIRST;
    gyre_py_threads threads = gyre_py_threads_begin(0);
    if (gyre_py_attention_open(&c, &in) == 0 &&
        gyre_py_attention_results_make(&c, &results, a[OUT], c.args.v.shape[3], longest(&c)) == 0) {
        gyre_error err = {0};
        gyre_status status;
        Py_BEGIN_ALLOW_THREADS
        status = attend(&c, gyre_py_exec(&threads), &err);
        Py_END_ALLOW_THREADS
        finished = !status ? gyre_py_attention_results_finish(&results) : gyre_py_raise(status, &err);
    }
    gyre_py_threads_end(&threads);
    gyre_py_attention_results_drop(&results);
    gyre_py_attention_close(&c);
    return finished;
}

/* -- the gradient -- */

/* dout, and what the forward call wrote, and memory for dq, dk and dv. */
typedef struct gradient_call {
    gyre_py_attention_call forward;
    gyre_attention_gradients to; /* points to tables.views */
    gyre_py_array dout, out, lse, dlse;
    gyre_py_result dqkv[3];
    gyre_py_table_gradients tables;
    gyre_py_result gate_sums[2];
} gradient_call;

static void close_gradient(gradient_call *g) {
    gyre_py_array_close(&g->dout);
    gyre_py_array_close(&g->out);
    gyre_py_array_close(&g->lse);
    gyre_py_array_close(&g->dlse);
    for (int i = 0; i < 3; i++)
        gyre_py_result_drop(&g->dqkv[i]);
    for (int i = 0; i < 2; i++)
        gyre_py_result_drop(&g->gate_sums[i]);
    gyre_py_table_gradients_drop(&g->tables);
    gyre_py_attention_close(&g->forward);
}

static int open_written(gyre_py_array *array, PyObject *object, const char *name, const gyre_py_layout *layout,
                        gyre_view *view) {
    if (gyre_py_array_open(array, object, name) < 0) return -1;
    if (gyre_py_array_is(array, GYRE_PY_SHORT_REAL, "float16, bfloat16 or float32") < 0) return -1;
    return gyre_py_array_view(array, layout, view);
}

/* out and dout are shaped as q with the channels of v, lse without the axis of channels. */
static int check_written(const gradient_call *g) {
    const gyre_py_attention_call *c = &g->forward;
    const int channel = c->layout.axis[3];
    int64_t shape[GYRE_PY_MAX_DIMS], rows[GYRE_PY_MAX_DIMS] = {0};
    int n = 0;
    memcpy(shape, c->q.shape, sizeof shape);
    shape[channel] = c->v.shape[channel];
    for (int i = 0; i < c->q.ndim; i++)
        if (i != channel) rows[n++] = c->q.shape[i];
    if (gyre_py_attention_shape_is(&g->dout, shape, c->q.ndim) < 0) return -1;
    if (gyre_py_attention_shape_is(&g->out, shape, c->q.ndim) < 0) return -1;
    if (gyre_py_attention_shape_is(&g->lse, rows, n) < 0) return -1;
    return g->dlse.object ? gyre_py_attention_shape_is(&g->dlse, rows, n) : 0;
}

static int make_sink_gradient(gradient_call *g) {
    const gyre_py_array *like = &g->forward.sink_logits;
    if (!like->object) return 0;
    gyre_py_result *result = &g->tables.results[GYRE_PY_TABLES];
    if (gyre_py_result_new(result, like, GYRE_DTYPE_F32, 1, like->shape) < 0) return -1;
    memset(result->array.data, 0, (size_t)like->shape[0] * sizeof(float));
    g->tables.views.sink_logits = gyre_dense(result->array.data, GYRE_DTYPE_F32, 1, 1, like->shape[0], 1);
    return 0;
}

static int make_gate_gradients(gradient_call *g) {
    gyre_view *const views[2] = {&g->to.dq_gates, &g->to.dk_gates};
    for (int i = 0; i < 2; i++) {
        const gyre_py_array *like = &g->forward.gate_sums[i];
        if (!like->object) continue;
        if (gyre_py_result_new(&g->gate_sums[i], like, (gyre_dtype)like->dtype, like->ndim, like->shape) < 0 ||
            gyre_py_rows_view(&g->forward.layout, &g->gate_sums[i].array, views[i]) < 0)
            return -1;
    }
    return 0;
}

/* The gradient for lse, which may be left out. */
static int open_dlse(gradient_call *g, PyObject *object) {
    gyre_view view;
    if (!object || object == Py_None) return 0;
    if (gyre_py_array_open(&g->dlse, object, "dlse") < 0 || gyre_py_array_is(&g->dlse, 1 << GYRE_DTYPE_F32, "float32") < 0 ||
        gyre_py_rows_view(&g->forward.layout, &g->dlse, &view) < 0)
        return -1;
    g->to.dlse = gyre_py_const(&view);
    return 0;
}

static int open_gradient(gradient_call *g, PyObject *const *a, int wide) {
    gyre_py_attention_call *c = &g->forward;
    gyre_view dout, *const views[3] = {&g->to.dq, &g->to.dk, &g->to.dv};
    g->to = (gyre_attention_gradients)GYRE_INIT(gyre_attention_gradients);
    g->to.tables = &g->tables.views;
    if (open_written(&g->dout, a[0], "dout", &c->layout, &dout) < 0 ||
        open_written(&g->out, a[4], "out", &c->layout, &c->args.out) < 0 || gyre_py_array_open(&g->lse, a[5], "lse") < 0 ||
        gyre_py_array_is(&g->lse, 1 << GYRE_DTYPE_F32, "float32") < 0 ||
        gyre_py_rows_view(&c->layout, &g->lse, &c->args.lse) < 0 || open_dlse(g, a[6]) < 0 || check_written(g) < 0)
        return -1;
    g->to.dout = gyre_py_const(&dout);
    const gyre_py_array *const inputs[3] = {&c->q, &c->k, &c->v};
    for (int i = 0; i < 3; i++)
        if ((wide && inputs[i]->dtype != GYRE_DTYPE_F32
                 ? gyre_py_result_new(&g->dqkv[i], inputs[i], GYRE_DTYPE_F32, inputs[i]->ndim, inputs[i]->shape)
                 : gyre_py_result_like(&g->dqkv[i], inputs[i])) < 0 ||
            gyre_py_array_view(&g->dqkv[i].array, &c->layout, views[i]) < 0)
            return -1;
    if (gyre_py_table_gradients_make(&g->tables, &c->tables) < 0 || make_sink_gradient(g) < 0) return -1;
    return make_gate_gradients(g);
}

/* The gradients of tables, and of gate sums. */
static PyObject *finish_tables(gradient_call *g) {
    static const char *const names[2] = {"query_gate_sums", "key_gate_sums"};
    PyObject *dict = gyre_py_table_gradients_finish(&g->tables);
    for (int i = 0; dict && i < 2; i++) {
        if (!g->gate_sums[i].memory) continue;
        PyObject *value = gyre_py_result_finish(&g->gate_sums[i]);
        if (!value || PyDict_SetItemString(dict, names[i], value) < 0) Py_CLEAR(dict);
        Py_XDECREF(value);
    }
    return dict;
}

/* (dq, dk, dv, {table: gradient}) */
static PyObject *finish_gradient(gradient_call *g) {
    PyObject *all = PyTuple_New(4);
    for (int i = 0; all && i < 4; i++) {
        PyObject *one = i < 3 ? gyre_py_result_finish(&g->dqkv[i]) : finish_tables(g);
        if (!one || PyTuple_SetItem(all, i, one) < 0) Py_CLEAR(all);
    }
    return all;
}

static gyre_status add_gradient(gradient_call *g, const gyre_exec *exec, gyre_error *err) {
    gyre_py_attention_call *c = &g->forward;
    size_t bytes = 0;
    gyre_status status = gyre_attention_scratch(&c->args, 1, exec, &bytes, err);
    if (!status) status = gyre_py_take_scratch(bytes, &c->scratch, err);
    return status ? status : gyre_attention_gradient(&c->args, &g->to, c->scratch, exec, err);
}

const char gyre_py_attention_gradient_doc[] =
    "attention_gradient($module, dout, q, k, v, out, lse, *, dlse=None, encoding=None, float32=False, "
    "causal=False" GYRE_PY_OPTIONS GYRE_PY_OF_ARRAYS ")\n--\n\n"
    "Gradients of a loss to raw q, k and v and to the tables, given those to out and to lse.\n"
    "\n"
    "out, lse: what attention(..., lse=True) returned for the same arguments.  dlse: float32, shaped as lse; None = 0.\n"
    "float32: True = gradients of float32 whatever the inputs; needed where queries of a sequence differ in their context\n"
    "length.\n"
    "\n"
    "Returns (dq, dk, dv, {table: float32 gradient}), the dict also with \"sink_logits\", \"query_gate_sums\"\n"
    "and \"key_gate_sums\" where those were given, the latter in their type.";
PyObject *gyre_py_attention_gradient(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    enum { ENCODING = 7, WIDE, FIRST };
    PyObject *a[FIRST + OPTIONS], *finished = NULL;
    gyre_py_attention_inputs in = {0};
    gradient_call g = {0};
    int wide = 0;
    (void)self;
    if (gyre_py_arguments(gyre_py_attention_gradient_doc, args, count, keywords, a) < 0 ||
        gyre_py_truth(a[WIDE], "float32", &wide) < 0 || gyre_py_encoding_of(a[ENCODING], "encoding", &in.encoding) < 0)
        return NULL;
    in.q = a[1];
    in.k = a[2];
    in.v = a[3];
    in.options = a + FIRST;
    gyre_py_threads threads = gyre_py_threads_begin(0);
    if (gyre_py_attention_open(&g.forward, &in) == 0 && open_gradient(&g, a, wide) == 0) {
        gyre_error err = {0};
        gyre_status status;
        Py_BEGIN_ALLOW_THREADS
        status = add_gradient(&g, gyre_py_exec(&threads), &err);
        Py_END_ALLOW_THREADS
        finished = !status ? finish_gradient(&g) : gyre_py_raise(status, &err);
    }
    gyre_py_threads_end(&threads);
    close_gradient(&g);
    return finished;
}
