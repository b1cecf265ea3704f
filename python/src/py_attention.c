/* py_attention.c: attention, its gradient, and the type PreparedAttention. */
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
    "        \"bhsd\". Query heads are a multiple of key heads.  All three float64: computed in double, slowly, for checks\n"
    "        of gradients.\n"
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
    "    sink_logits: float32 [heads] (or float64 with such q): a score without a key in each softmax (gpt-oss).\n"
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
    "    lse: True = return (out, lse), lse float32 (float64 with such q) without the axis of channels: the log-sum-exp\n"
    "        of each row.\n"
    "    weights, scores: True = return them too, after lse, float32 [batch, heads, queries, keys of the longest\n"
    "        sequence] in any layout: the softmax without dropout, and what it reads, after biases, softcap and mask.\n"
    "        They are computed again, key by key, and have no gradient.\n"
    "\n"
    "Returns an array of the kind and type of q.  A row that sees no key is zeros.  Sums are of floats, or of\n"
    "doubles.\n"
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

static int open_written(const gyre_py_attention_call *c, gyre_py_array *array, PyObject *object, const char *name,
                        gyre_view *view) {
    if (gyre_py_array_open(array, object, name) < 0 || gyre_py_attention_type_is(c, array) < 0) return -1;
    return gyre_py_array_view(array, &c->layout, view);
}

static int open_lse(const gyre_py_attention_call *c, gyre_py_array *array, PyObject *object, const char *name,
                    gyre_view *view) {
    if (gyre_py_array_open(array, object, name) < 0 || gyre_py_attention_wide_is(c, array) < 0) return -1;
    return gyre_py_rows_view(&c->layout, array, view);
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
    const gyre_dtype dtype = gyre_py_attention_wide(&g->forward);
    if (gyre_py_result_new(result, like, dtype, 1, like->shape) < 0) return -1;
    memset(result->array.data, 0, (size_t)gyre_py_bytes(dtype, 1, like->shape));
    g->tables.views.sink_logits = gyre_dense(result->array.data, dtype, 1, 1, like->shape[0], 1);
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
    if (open_lse(&g->forward, &g->dlse, object, "dlse", &view) < 0) return -1;
    g->to.dlse = gyre_py_const(&view);
    return 0;
}

static int open_gradient(gradient_call *g, PyObject *const *a, int wide) {
    gyre_py_attention_call *c = &g->forward;
    gyre_view dout, *const views[3] = {&g->to.dq, &g->to.dk, &g->to.dv};
    g->to = (gyre_attention_gradients)GYRE_INIT(gyre_attention_gradients);
    g->to.tables = &g->tables.views;
    if (open_written(c, &g->dout, a[0], "dout", &dout) < 0 || open_written(c, &g->out, a[4], "out", &c->args.out) < 0 ||
        open_lse(c, &g->lse, a[5], "lse", &c->args.lse) < 0 || open_dlse(g, a[6]) < 0 || check_written(g) < 0)
        return -1;
    g->to.dout = gyre_py_const(&dout);
    const gyre_py_array *const inputs[3] = {&c->q, &c->k, &c->v};
    for (int i = 0; i < 3; i++)
        if ((wide && !gyre_py_attention_is_double(c) && inputs[i]->dtype != GYRE_DTYPE_F32
                 ? gyre_py_result_new(&g->dqkv[i], inputs[i], GYRE_DTYPE_F32, inputs[i]->ndim, inputs[i]->shape)
                 : gyre_py_result_like(&g->dqkv[i], inputs[i])) < 0 ||
            gyre_py_array_view(&g->dqkv[i].array, &c->layout, views[i]) < 0)
            return -1;
    if (gyre_py_table_gradients_make(&g->tables, &c->tables, gyre_py_attention_wide(c)) < 0 || make_sink_gradient(g) < 0)
        return -1;
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
    "out, lse: what attention(..., lse=True) returned for the same arguments.  dlse: of the type and shape of lse;\n"
    "None = 0.\n"
    "float32: True = gradients of float32 for inputs of less; needed where queries of a sequence differ in their context\n"
    "length.\n"
    "\n"
    "Returns (dq, dk, dv, {table: gradient}), the dict also with \"sink_logits\", \"query_gate_sums\"\n"
    "and \"key_gate_sums\" where those were given, the latter in their type; the others float32, or float64 with such q.";
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

/* -- a call that is prepared: the type PreparedAttention -- */

/* The arrays of the call stay open as long as it runs over their memory.  A lock serves all runs. */
typedef struct prepared_object {
    PyObject_HEAD
    gyre_prepared_attention *prepared;
    gyre_py_attention_call call;
    PyObject *encoding, *result; /* result: out, or (out, lse) */
    int64_t keys;                /* of the last run */
    int follows;                 /* 1: the last query is at the position of the last key */
    PyThread_type_lock lock;
    int forks;
} prepared_object;

enum { Q, K, V, NEW_ENCODING, NEW_OUT, NEW_LSE, NEW_ORDER, NEW_OPTIONS };

static const char prepared_new_doc[] =
    "PreparedAttention(q, k, v, *, encoding=None, out=None, lse=False, order=None, causal=False" GYRE_PY_OPTIONS
        GYRE_PY_OF_ARRAYS ")\n--\n\n"
    "gyre.attention that is checked and planned once, for many small calls over the same memory: a token after the other.\n"
    "\n"
    "Arguments as in gyre.attention.  k and v have room for the most keys.  No array is copied: run() reads what they hold\n"
    "then, on the calling thread, and writes the same result again, which is the attribute `result`: out, or (out, lse).\n"
    "Raises gyre.Error.";

/* Each run writes the same result, which arrays of JAX do not allow. */
static int check_family(const gyre_py_attention_call *c) {
    if (c->q.family != GYRE_PY_OTHER) return 0;
    gyre_py_fail(GYRE_EUNSUPPORTED, "q", "q: is neither of numpy nor of torch, whose arrays may be written again");
    return -1;
}

static int open_call(prepared_object *self, PyObject *const *a) {
    gyre_py_attention_inputs in = {.q = a[Q], .k = a[K], .v = a[V], .order = a[NEW_ORDER], .options = a + NEW_OPTIONS};
    gyre_py_attention_results results = {0};
    gyre_error err = {0};
    PyObject *const wanted[GYRE_PY_MORE] = {a[NEW_LSE], NULL, NULL};
    if (gyre_py_encoding_of(a[NEW_ENCODING], "encoding", &in.encoding) < 0) return -1;
    self->encoding = in.encoding ? Py_NewRef(a[NEW_ENCODING]) : NULL;
    if (gyre_py_attention_results_read(&results, wanted) == 0 && gyre_py_attention_open(&self->call, &in) == 0 &&
        check_family(&self->call) == 0 &&
        gyre_py_attention_results_make(&self->call, &results, a[NEW_OUT], self->call.args.v.shape[3],
                                       self->call.args.k.shape[1]) == 0) {
        const gyre_status status = gyre_prepared_attention_create(&self->prepared, &self->call.args, NULL, NULL, &err);
        self->result = !status ? gyre_py_attention_results_finish(&results) : gyre_py_raise(status, &err);
    }
    gyre_py_attention_results_drop(&results);
    self->keys = self->call.args.k.shape[1];
    self->follows = !a[NEW_OPTIONS + OPTION_POSITIONS] && !self->call.batch.q_starts;
    return self->result ? 0 : -1;
}

static PyObject *prepared_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    PyObject *a[NEW_OPTIONS + OPTIONS];
    if (gyre_py_arguments_of_new(prepared_new_doc, args, keywords, a) < 0) return NULL;
    prepared_object *self = (prepared_object *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (!self) return NULL;
    self->lock = PyThread_allocate_lock();
    self->forks = gyre_py_forks();
    if (!self->lock) PyErr_NoMemory();
    if (!self->lock || open_call(self, a) < 0) {
        Py_DECREF((PyObject *)self);
        return NULL;
    }
    return (PyObject *)self;
}

/* object.__init__ would refuse the arguments that __new__ has read. */
static int prepared_init(PyObject *self, PyObject *args, PyObject *keywords) {
    (void)self, (void)args, (void)keywords;
    return 0;
}

static void prepared_dealloc(PyObject *object) {
    prepared_object *self = (prepared_object *)object;
    PyTypeObject *type = Py_TYPE(object);
    gyre_prepared_attention_free(self->prepared);
    gyre_py_attention_close(&self->call);
    Py_XDECREF(self->encoding);
    Py_XDECREF(self->result);
    if (self->lock) PyThread_free_lock(self->lock);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

/* -- a run -- */

/* Other memory for an array, which has the type, shape and strides that were planned. */
static int replace(gyre_py_array *held, gyre_py_array *array, PyObject *object, const char *name) {
    if (gyre_py_array_open(array, object, name) < 0) return -1;
    const size_t size = (size_t)held->ndim * sizeof *held->shape;
    if (array->dtype == held->dtype && array->ndim == held->ndim && memcmp(array->shape, held->shape, size) == 0 &&
        memcmp(array->stride, held->stride, size) == 0)
        return 0;
    gyre_py_fail(GYRE_ESHAPE, name, "%s: has another type, shape or strides than at creation", name);
    return -1;
}

static int check_keys(const prepared_object *self, int64_t keys) {
    const int64_t most = self->call.args.k.shape[1];
    if (keys >= 1 && keys <= most) return 0;
    gyre_py_fail(GYRE_EINVAL, "keys", "keys: %lld is not in 1 .. %lld, as many as k had at creation", (long long)keys,
                 (long long)most);
    return -1;
}

static const char prepared_run_doc[] =
    "run($self, q=None, k=None, v=None, *, keys=None, position=None, key_position=None"
    ")\n--\n\n"
    "Runs the call and returns `result`, whose memory it writes.\n"
    "\n"
    "Args:\n"
    "    q, k, v: other arrays of the same type, shape and strides, kept for later runs; None = those of the last.\n"
    "    keys: the call has the first `keys` keys of k and v; None = as many as in the last run.\n"
    "    position: of the first query; None = the last query is beside the last key, or, with positions at creation, as\n"
    "        there.  key_position: of the first key; None = 0.  Positions that were an array are read where they were.";
static PyObject *prepared_run(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    static const char *const names[3] = {"q", "k", "v"};
    prepared_object *self = (prepared_object *)object;
    gyre_py_array *const held[3] = {&self->call.q, &self->call.k, &self->call.v};
    gyre_py_array given[3] = {0};
    PyObject *a[6], *finished = NULL;
    if (gyre_py_check_fork(self->lock, &self->forks, "attention") < 0 ||
        gyre_py_arguments(prepared_run_doc, args, count, keywords, a) < 0)
        return NULL;
    gyre_attention_memory memory = GYRE_INIT(gyre_attention_memory);
    memory.k_base = self->call.args.k_pos.base;
    /* Before the lock: numbers may be objects that run this call. */
    int status = gyre_py_integer(a[3], "keys", &memory.keys);
    if (status == 0 && a[3]) status = check_keys(self, memory.keys);
    if (status == 0) status = gyre_py_integer(a[4], "position", &memory.q_base);
    if (status == 0) status = gyre_py_integer(a[5], "key_position", &memory.k_base);
    for (int i = 0; i < 3 && status == 0; i++)
        if (a[i]) status = replace(held[i], &given[i], a[i], names[i]);
    gyre_py_lock(self->lock);
    if (!a[3]) memory.keys = self->keys;
    if (!a[4] && self->follows)
        memory.q_base = memory.keys - self->call.args.q.shape[1];
    else if (!a[4])
        memory.q_base = self->call.args.q_pos.base;
    if (status == 0) {
        gyre_error err = {0};
        gyre_status failed;
        memory.q = given[0].data, memory.k = given[1].data, memory.v = given[2].data;
        Py_BEGIN_ALLOW_THREADS
        failed = gyre_prepared_attention_run(self->prepared, &memory, &err);
        Py_END_ALLOW_THREADS
        for (int i = 0; i < 3; i++) { /* the call keeps what it was given, also of a run that failed */
            const gyre_py_array before = *held[i];
            if (!given[i].object) continue;
            *held[i] = given[i];
            given[i] = before;
        }
        if (!failed) self->keys = memory.keys;
        finished = !failed ? Py_NewRef(self->result) : gyre_py_raise(failed, &err);
    }
    PyThread_release_lock(self->lock);
    for (int i = 0; i < 3; i++)
        gyre_py_array_close(&given[i]);
    return finished;
}

static PyObject *prepared_result(PyObject *object, void *unused) {
    (void)unused;
    return Py_NewRef(((prepared_object *)object)->result);
}

static PyMethodDef methods[] = {GYRE_PY_FAST("run", prepared_run, 0), {NULL, NULL, 0, NULL}};
static PyGetSetDef attributes[] = {{"result", prepared_result, NULL, "What each run writes: out, or (out, lse).", NULL},
                                   {NULL, NULL, NULL, NULL, NULL}};
static PyType_Slot slots[] = {{Py_tp_new, (void *)prepared_new},
                              {Py_tp_init, (void *)prepared_init},
                              {Py_tp_dealloc, (void *)prepared_dealloc},
                              {Py_tp_methods, methods},
                              {Py_tp_getset, attributes},
                              {Py_tp_doc, (void *)prepared_new_doc},
                              {0, NULL}};
static PyType_Spec spec = {"gyre._gyre.PreparedAttention", sizeof(prepared_object), 0, Py_TPFLAGS_DEFAULT, slots};

int gyre_py_add_prepared(PyObject *module) {
    PyObject *type = PyType_FromSpec(&spec);
    if (!type) return -1;
    const int status = PyModule_AddObjectRef(module, "PreparedAttention", type);
    Py_DECREF(type);
    return status;
}
