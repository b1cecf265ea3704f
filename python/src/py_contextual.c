/* py_contextual.c: attention with positions that queries count (CoPE), over arrays and over a cache, and its gradient. */
#include "py_attention.h"

#include "gyre/gyre_contextual.h"

enum { GRADIENTS = 5 };
typedef struct contextual_call {
    gyre_contextual_args args;
    gyre_py_tiled tiled;
    gyre_py_array embeddings, gate_keys;
    gyre_contextual_gradients to;
} contextual_call;

/* The options of all calls, then those that a cache has itself, and their order. */
#define OPTIONS   ", scale=None, gate_scale=None, position_scale=None, layout=None, key_first=None, key_end=None"
#define OF_ARRAYS ", query_starts=None, key_starts=None, gate_keys=None"
enum { SCALE, GATE_SCALE, POSITION_SCALE, LAYOUT, LISTS, GATES = LISTS + GYRE_PY_TILED_LISTS, OPTION_COUNT };

static void close_call(contextual_call *c) {
    gyre_py_array_close(&c->embeddings);
    gyre_py_array_close(&c->gate_keys);
    gyre_py_tiled_close(&c->tiled);
}

static int open_gate_keys(contextual_call *c, PyObject *object) {
    gyre_view view;
    if (!object) return 0;
    if (gyre_py_tiled_rows(&c->tiled, &c->gate_keys, object, "gate_keys", &view) < 0) return -1;
    c->args.gate_keys = gyre_py_const(&view);
    return 0;
}

/* An array [positions, channels], or [positions, heads, channels], as a view. */
static int view_embeddings(const gyre_py_array *array, gyre_view *view) {
    const gyre_py_layout layout = array->ndim == 2 ? (gyre_py_layout){.axis = {-1, 0, -1, 1}, .ndim = 2, .text = "pd"}
                                                   : (gyre_py_layout){.axis = {-1, 0, 1, 2}, .ndim = 3, .text = "phd"};
    return gyre_py_array_view(array, &layout, view);
}

static int open_embeddings(contextual_call *c, PyObject *object) {
    gyre_py_array *array = &c->embeddings;
    gyre_view view;
    if (gyre_py_array_open(array, object, "embeddings") < 0 || gyre_py_array_is(array, GYRE_PY_REAL, gyre_py_reals) < 0)
        return -1;
    if (array->ndim != 2 && array->ndim != 3) {
        gyre_py_fail(GYRE_ESHAPE, "embeddings",
                     "embeddings: has %d axes, not [positions, channels] or [positions, heads, channels]", array->ndim);
        return -1;
    }
    if (view_embeddings(array, &view) < 0) return -1;
    c->args.embeddings = gyre_py_const(&view);
    return 0;
}

/* inputs: q, k, v, embeddings; k and v NULL: a cache has them. */
static int open_call(contextual_call *c, PyObject *const *inputs, PyObject *const *o) {
    gyre_contextual_args *args = &c->args;
    gyre_py_tiled *t = &c->tiled;
    gyre_cview *const views[3] = {&args->q, &args->k, &args->v};
    *args = (gyre_contextual_args)GYRE_INIT(gyre_contextual_args);
    if (gyre_py_tiled_open(t, inputs, o[LAYOUT], views) < 0 || open_embeddings(c, inputs[3]) < 0 ||
        open_gate_keys(c, o[GATES]) < 0 || gyre_py_tiled_factor(o[SCALE], "scale", &args->scale) < 0 ||
        gyre_py_tiled_factor(o[GATE_SCALE], "gate_scale", &args->gate_scale) < 0 ||
        gyre_py_tiled_factor(o[POSITION_SCALE], "position_scale", &args->position_scale) < 0 ||
        gyre_py_tiled_read_lists(t, o + LISTS, args->q.shape[0]) < 0)
        return -1;
    args->q_starts = t->lists[2];
    args->k_starts = t->lists[3];
    args->sequences = t->sequences;
    args->k_first = t->lists[0];
    args->k_end = t->lists[1];
    return 0;
}

/* -- forward -- */

static gyre_status attend(contextual_call *c, const gyre_exec *exec, gyre_error *err) {
    gyre_scratch *scratch = &c->tiled.scratch;
    size_t bytes = 0;
    gyre_status status = gyre_contextual_scratch(&c->args, 0, exec, &bytes, err);
    if (!status) status = gyre_py_take_scratch(bytes, scratch, err);
    return status ? status : gyre_contextual_attention(&c->args, *scratch, exec, err);
}

const char gyre_py_contextual_attention_doc[] =
    "contextual_attention($module, q, k, v, embeddings, *, lse=False" OPTIONS OF_ARRAYS ")\n--\n\n"
    "gyre.contextual_attention over the tokens of sequences[b] for batch row b; None = 0, 1, 2, ...\n"
    "\n"
    "Append the tokens of the queries first: the last query stands beside the last token, or the last before key_end.\n"
    "The cache has no encoding, because queries count positions.  key_first, key_end: one number a row, counted in\n"
    "its sequence.";
PyObject *gyre_py_contextual_attention(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    contextual_call c = {0};
    PyObject *a[5 + OPTION_COUNT], *finished = NULL;
    int wants_lse = 0;
    (void)self;
    if (gyre_py_arguments(gyre_py_contextual_attention_doc, args, count, keywords, a) < 0 ||
        gyre_py_truth(a[4], "lse", &wants_lse) < 0)
        return NULL;
    gyre_py_threads threads = gyre_py_threads_begin(0);
    if (open_call(&c, a, a + 5) == 0 && gyre_py_tiled_make_out(&c.tiled, c.args.v.shape[3], &c.args.out, &c.args.lse) == 0) {
        gyre_error err = {0};
        gyre_status status;
        Py_BEGIN_ALLOW_THREADS
        status = attend(&c, gyre_py_exec(&threads), &err);
        Py_END_ALLOW_THREADS
        finished = !status ? gyre_py_tiled_finish_out(&c.tiled, wants_lse) : gyre_py_raise(status, &err);
    }
    gyre_py_threads_end(&threads);
    close_call(&c);
    return finished;
}

/* -- over a cache -- */

static gyre_status attend_cached(const gyre_cache *cache, const int64_t *sequences, void *call, const gyre_exec *exec,
                                 gyre_error *err) {
    contextual_call *c = call;
    gyre_scratch *scratch = &c->tiled.scratch;
    size_t bytes = 0;
    gyre_status status = gyre_cache_contextual_scratch(cache, sequences, &c->args, exec, &bytes, err);
    if (!status) status = gyre_py_take_scratch(bytes, scratch, err);
    return status ? status : gyre_cache_contextual_attention(cache, sequences, &c->args, *scratch, exec, err);
}

const char gyre_py_cache_contextual_attention_doc[] =
    "contextual_attention($self, q, embeddings, *, sequences=None, lse=False" OPTIONS ")\n--\n\n"
    "gyre.contextual_attention over the tokens of sequences[b] for batch row b; None = 0, 1, 2, ...\n"
    "\n"
    "Append the tokens of the queries first: the last query stands beside the last token, or the last before key_end.\n"
    "The cache has no encoding, because queries count positions.  key_first, key_end: one number a row, counted in\n"
    "its sequence.";
PyObject *gyre_py_cache_contextual_attention(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    contextual_call c = {0};
    gyre_py_cached of = {0};
    PyObject *a[4 + OPTION_COUNT] = {NULL}, *finished = NULL;
    int wants_lse = 0;
    if (gyre_py_arguments(gyre_py_cache_contextual_attention_doc, args, count, keywords, a) < 0 ||
        gyre_py_truth(a[3], "lse", &wants_lse) < 0 || gyre_py_cached_begin(&of, self) < 0)
        return NULL;
    PyObject *const inputs[4] = {a[0], NULL, NULL, a[1]};
    if (open_call(&c, inputs, a + 4) == 0 && gyre_py_cached_open(&of, &c.args.q, c.args.q.shape[0], a[2]) == 0 &&
        gyre_py_tiled_make_out(&c.tiled, of.config->value_dim, &c.args.out, &c.args.lse) == 0 &&
        gyre_py_cached_run(&of, attend_cached, &c) == 0)
        finished = gyre_py_tiled_finish_out(&c.tiled, wants_lse);
    gyre_py_cached_end(&of);
    close_call(&c);
    return finished;
}

/* -- the gradient -- */

static int make_gradients(contextual_call *c) {
    gyre_py_tiled *t = &c->tiled;
    c->to = (gyre_contextual_gradients)GYRE_INIT(gyre_contextual_gradients);
    return gyre_py_tiled_make_rows(t, 0, &t->q, &c->to.dq) < 0 || gyre_py_tiled_make_rows(t, 1, &t->k, &c->to.dk) < 0 ||
                   gyre_py_tiled_make_rows(t, 2, &t->v, &c->to.dv) < 0 ||
                   gyre_py_tiled_make_table(t, 3, &c->embeddings) < 0 ||
                   view_embeddings(&t->results[3].array, &c->to.dembeddings) < 0 ||
                   (c->gate_keys.object && gyre_py_tiled_make_rows(t, 4, &c->gate_keys, &c->to.dgate_keys) < 0)
               ? -1
               : 0;
}

static gyre_status add_gradients(contextual_call *c, const gyre_exec *exec, gyre_error *err) {
    const gyre_cview dout = gyre_py_const(&c->tiled.dout_view);
    gyre_scratch *scratch = &c->tiled.scratch;
    size_t bytes = 0;
    gyre_status status = gyre_contextual_scratch(&c->args, 1, exec, &bytes, err);
    if (!status) status = gyre_py_take_scratch(bytes, scratch, err);
    return status ? status : gyre_contextual_gradient(&c->args, &dout, &c->to, *scratch, exec, err);
}

const char gyre_py_contextual_gradient_doc[] =
    "contextual_gradient($module, dout, q, k, v, embeddings, out, lse, *" OPTIONS OF_ARRAYS ")\n--\n\n"
    "(dq, dk, dv, dembeddings, dgate_keys or None), given dout and what contextual_attention(..., lse=True) returned.\n"
    "\n"
    "dembeddings is float64 where the embeddings are, else float32; the others are of the type of what they are of.\n"
    "Raises gyre.Error.";
PyObject *gyre_py_contextual_gradient(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    contextual_call c = {0};
    PyObject *a[7 + OPTION_COUNT], *finished = NULL;
    (void)self;
    if (gyre_py_arguments(gyre_py_contextual_gradient_doc, args, count, keywords, a) < 0) return NULL;
    PyObject *const written[3] = {a[0], a[5], a[6]};
    gyre_py_threads threads = gyre_py_threads_begin(0);
    if (open_call(&c, a + 1, a + 7) == 0 &&
        gyre_py_tiled_open_written(&c.tiled, written, c.args.v.shape[3], &c.args.out, &c.args.lse) == 0 &&
        make_gradients(&c) == 0) {
        gyre_error err = {0};
        gyre_status status;
        Py_BEGIN_ALLOW_THREADS
        status = add_gradients(&c, gyre_py_exec(&threads), &err);
        Py_END_ALLOW_THREADS
        finished = !status ? gyre_py_tiled_finish(&c.tiled, GRADIENTS) : gyre_py_raise(status, &err);
    }
    gyre_py_threads_end(&threads);
    close_call(&c);
    return finished;
}
