/* py_adaptive.c: attention with biases that a network adapts (DAPE), over arrays and over a cache, and its gradient. */
#include "py_attention.h"

#include "gyre/gyre_adaptive.h"

#include <stdlib.h>

/* Numbers of the network, in the order of weights[]; the first and the third are needed. */
enum { HIDDEN_WEIGHTS, HIDDEN_BIAS, OUTPUT_WEIGHTS, OUTPUT_BIAS, WEIGHTS };
static const char *const weight_names[WEIGHTS] = {"hidden_weights", "hidden_bias", "output_weights", "output_bias"};
/* Results of the gradient: q, k, v, those of the network, those to the bias of the caller. */
enum { WEIGHT_RESULTS = 3, BIAS_RESULT = WEIGHT_RESULTS + WEIGHTS };

typedef struct adaptive_call {
    gyre_adaptive_args args;
    gyre_py_tiled tiled;
    gyre_py_array weights[WEIGHTS], bias, q_positions, k_positions;
    gyre_positions q_pos, k_pos;
    int64_t *last_positions; /* over a cache, where a length is given without positions */
    gyre_py_tables tables;
    gyre_adaptive_gradients to;
    gyre_py_table_gradients table_gradients;
} adaptive_call;

/* The options of all calls, then those that a cache has itself, and their order. */
#define OPTIONS                                                                                                             \
    ", hidden_bias=None, output_bias=None, form=None, slope=None, scale=None, causal=True, tables=None, positions=None, "   \
    "length=None, bias=None, layout=None, key_first=None, key_end=None"
#define OF_ARRAYS ", query_starts=None, key_starts=None, encoding=None, key_positions=None"
enum {
    OPTION_HIDDEN_BIAS,
    OPTION_OUTPUT_BIAS,
    FORM,
    SLOPE,
    SCALE,
    CAUSAL,
    TABLES,
    POSITIONS,
    LENGTH,
    BIAS,
    LAYOUT,
    LISTS,
    ENCODING = LISTS + GYRE_PY_TILED_LISTS,
    KEY_POSITIONS,
    OPTION_COUNT
};

static void close_call(adaptive_call *c) {
    for (int i = 0; i < WEIGHTS; i++)
        gyre_py_array_close(&c->weights[i]);
    gyre_py_array_close(&c->bias);
    gyre_py_array_close(&c->q_positions);
    gyre_py_array_close(&c->k_positions);
    free(c->last_positions);
    gyre_py_tables_close(&c->tables);
    gyre_py_table_gradients_drop(&c->table_gradients);
    gyre_py_tiled_close(&c->tiled);
}

/* -- arguments -- */

/* A matrix [rows, columns], or a bias [columns]. */
static int view_weights(const gyre_py_array *array, int i, gyre_view *view) {
    const gyre_py_layout matrix = {.axis = {-1, -1, 0, 1}, .ndim = 2, .text = "hd"},
                         row = {.axis = {-1, -1, -1, 0}, .ndim = 1, .text = "d"};
    const int axes = i == HIDDEN_BIAS || i == OUTPUT_BIAS ? 1 : 2;
    if (array->ndim == axes) return gyre_py_array_view(array, axes == 1 ? &row : &matrix, view);
    gyre_py_fail(GYRE_ESHAPE, array->name, "%s: has %d axes, not %s", array->name, array->ndim,
                 i == HIDDEN_WEIGHTS   ? "[hidden units, inputs]"
                 : i == OUTPUT_WEIGHTS ? "[heads, hidden units]"
                 : i == HIDDEN_BIAS    ? "[hidden units]"
                                       : "[heads]");
    return -1;
}

static int open_network(adaptive_call *c, PyObject *const objects[WEIGHTS]) {
    gyre_adaptive_network *n = &c->args.network;
    gyre_cview *const views[WEIGHTS] = {&n->hidden_weights, &n->hidden_bias, &n->output_weights, &n->output_bias};
    for (int i = 0; i < WEIGHTS; i++) {
        gyre_view view;
        if (!objects[i]) continue;
        if (gyre_py_array_open(&c->weights[i], objects[i], weight_names[i]) < 0 ||
            gyre_py_array_is(&c->weights[i], GYRE_PY_REAL, gyre_py_reals) < 0 || view_weights(&c->weights[i], i, &view) < 0)
            return -1;
        *views[i] = gyre_py_const(&view);
    }
    return 0;
}

/* Without positions: those that the call itself has as its default. */
static int open_positions(adaptive_call *c, PyObject *const *o) {
    gyre_adaptive_args *args = &c->args;
    const gyre_py_positions_request q = {"positions", 1, args->q.shape[0], args->q.shape[1]},
                                    k = {"key_positions", 1, args->k.shape[0], args->k.shape[1]};
    int64_t length = 0;
    if (gyre_py_integer(o[LENGTH], "length", &length) < 0) return -1;
    if (!o[POSITIONS] && !o[KEY_POSITIONS] && length == 0) return 0;
    if (!o[POSITIONS] && !args->q_starts) c->q_pos.base = args->k.shape[1] - args->q.shape[1];
    if (o[KEY_POSITIONS] && !o[POSITIONS]) {
        gyre_py_fail(GYRE_EINVAL, "positions", "positions: needed beside key_positions");
        return -1;
    }
    if (gyre_py_positions(o[POSITIONS], &q, &c->q_pos, &c->q_positions) < 0) return -1;
    if (!o[KEY_POSITIONS] && c->q_positions.object && args->q.shape[1] == args->k.shape[1]) {
        if (gyre_py_positions_match(&k, &c->k_pos, &c->q_positions) < 0) return -1;
    } else if (!o[KEY_POSITIONS] && c->q_positions.object) {
        gyre_py_fail(GYRE_EINVAL, "key_positions", "key_positions: needed, as there are %lld queries and %lld keys",
                     (long long)args->q.shape[1], (long long)args->k.shape[1]);
        return -1;
    } else if (gyre_py_positions(o[KEY_POSITIONS], &k, &c->k_pos, &c->k_positions) < 0) {
        return -1;
    }
    c->q_pos.context_length = length;
    args->q_pos = &c->q_pos;
    args->k_pos = &c->k_pos;
    return 0;
}

/* A cache has the positions of the keys. */
static int open_query_positions(adaptive_call *c, PyObject *const *o) {
    gyre_adaptive_args *args = &c->args;
    const gyre_py_positions_request q = {"positions", 1, args->q.shape[0], args->q.shape[1]};
    int64_t length = 0;
    if (gyre_py_integer(o[LENGTH], "length", &length) < 0) return -1;
    if (!o[POSITIONS] && length == 0) return 0;
    if (gyre_py_positions(o[POSITIONS], &q, &c->q_pos, &c->q_positions) < 0) return -1;
    c->q_pos.context_length = length;
    args->q_pos = &c->q_pos;
    return 0;
}

static int open_biases(adaptive_call *c, PyObject *const *o) {
    gyre_adaptive_args *args = &c->args;
    const gyre_py_encoding *encoding = NULL;
    const int cached = !c->tiled.k.object;
    const gyre_py_score_request request = {"bias", gyre_py_reals, GYRE_PY_REAL, args->q.shape,
                                           args->q_starts || cached ? -1 : args->k.shape[1]};
    if (gyre_py_encoding_of(o[ENCODING], "encoding", &encoding) < 0) return -1;
    args->encoding = encoding ? encoding->encoding : NULL;
    if (gyre_py_tables_open(&c->tables, o[TABLES], args->encoding) < 0 ||
        (cached ? open_query_positions(c, o) : open_positions(c, o)) < 0)
        return -1;
    args->tables = o[TABLES] ? &c->tables.tables : NULL;
    return o[BIAS] ? gyre_py_scores_open(&c->bias, o[BIAS], &request, &args->bias) : 0;
}

static int read_words(gyre_adaptive_args *args, PyObject *const *o) {
    static const char *const forms[] = {"concat-residual", "concat", "add-residual"};
    static const char *const causals[] = {"none", "order"}; /* not "position": this attention is causal by order */
    int form = 0, causal = 1;
    if (gyre_py_word(o[FORM], "form", forms, 3, &form) < 0 || gyre_py_causal(o[CAUSAL], causals, 2, &causal) < 0) return -1;
    args->form = (gyre_adaptive_form)form;
    args->two_sided = !causal;
    return 0;
}

/* inputs: q, k, v, hidden_weights, output_weights; k and v NULL: a cache has them. */
static int open_call(adaptive_call *c, PyObject *const *inputs, PyObject *const *o) {
    gyre_adaptive_args *args = &c->args;
    gyre_py_tiled *t = &c->tiled;
    gyre_cview *const views[3] = {&args->q, &args->k, &args->v};
    PyObject *const network[WEIGHTS] = {inputs[3], o[OPTION_HIDDEN_BIAS], inputs[4], o[OPTION_OUTPUT_BIAS]};
    *args = (gyre_adaptive_args)GYRE_INIT(gyre_adaptive_args);
    if (gyre_py_tiled_open(t, inputs, o[LAYOUT], views) < 0 || open_network(c, network) < 0 || read_words(args, o) < 0 ||
        gyre_py_tiled_factor(o[SLOPE], "slope", &args->slope) < 0 ||
        gyre_py_tiled_factor(o[SCALE], "scale", &args->scale) < 0 ||
        gyre_py_tiled_read_lists(t, o + LISTS, args->q.shape[0]) < 0)
        return -1;
    args->q_starts = t->lists[2];
    args->k_starts = t->lists[3];
    args->sequences = t->sequences;
    args->k_first = t->lists[0];
    args->k_end = t->lists[1];
    return open_biases(c, o);
}

/* -- forward -- */

static gyre_status attend(adaptive_call *c, const gyre_exec *exec, gyre_error *err) {
    gyre_scratch *scratch = &c->tiled.scratch;
    size_t bytes = 0;
    gyre_status status = gyre_adaptive_scratch(&c->args, 0, exec, &bytes, err);
    if (!status) status = gyre_py_take_scratch(bytes, scratch, err);
    return status ? status : gyre_adaptive_attention(&c->args, *scratch, exec, err);
}

const char gyre_py_adaptive_attention_doc[] =
    "adaptive_attention($module, q, k, v, hidden_weights, output_weights, *, lse=False" OPTIONS OF_ARRAYS ")\n--\n\n"
    "Attention with data-adaptive biases (DAPE, Zheng 2024, arXiv 2405.14722), exact and without n x n memory.\n"
    "\n"
    "A network reads the scaled products A and the biases B of all heads of a query and a key, and gives each head a\n"
    "number that is added to its score: A + B + f([A, B]), f(x) = output_bias + output_weights leaky_relu(hidden_bias\n"
    "+ hidden_weights x).\n"
    "\n"
    "Args:\n"
    "    q, k, v: any arrays, layout as in gyre.attention.  All is computed in float32.\n"
    "    hidden_weights: [hidden units, 2 x heads], the weights of A first; [hidden units, heads] for \"add-residual\".\n"
    "    output_weights: [heads, hidden units].  hidden_bias: [hidden units]; output_bias: [heads]; None = zeros.\n"
    "    form: \"concat-residual\" (the default, as in the released code), \"concat\": A + f([A, B]), or \"add-residual\":\n"
    "        A + B + f(A + B), which without a bias is A + f(A), for queries and keys that are rotated before.\n"
    "    slope: of the leaky ReLU below 0; default 0.01.  scale: of q . k; default 1 / sqrt(channels).\n"
    "    causal: True or \"order\" = the last query stands beside the last key, and each before it sees one key fewer;\n"
    "        False or \"none\" = each sees all.\n"
    "    encoding: whose biases B are: gyre.alibi, t5, kerple, fire or sandwich.  tables: those of the scheme.\n"
    "    positions, key_positions, length: of the scheme, as in gyre.attention.  None: keys stand at 0, 1, 2, ...,\n"
    "        and the last query beside the last key, also in each sequence of a packed or padded batch.\n"
    "    bias: [batch, heads, queries, keys], fewer axes from the left or 1 to broadcast: numbers that are added to\n"
    "        B.\n"
    "    query_starts, key_starts, key_first, key_end: a packed batch and padding, as in gyre.attention.\n"
    "    lse: True returns (result, log-sum-exp in float32).\n"
    "\n"
    "Raises gyre.Error.";
PyObject *gyre_py_adaptive_attention(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    adaptive_call c = {0};
    PyObject *a[6 + OPTION_COUNT], *finished = NULL;
    int wants_lse = 0;
    (void)self;
    if (gyre_py_arguments(gyre_py_adaptive_attention_doc, args, count, keywords, a) < 0 ||
        gyre_py_truth(a[5], "lse", &wants_lse) < 0)
        return NULL;
    gyre_py_threads threads = gyre_py_threads_begin(0);
    if (open_call(&c, a, a + 6) == 0 && gyre_py_tiled_make_out(&c.tiled, c.args.v.shape[3], &c.args.out, &c.args.lse) == 0) {
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

/* Positions of the last queries before token `end` of a sequence.  Before the first token they count down from its own. */
static gyre_status read_last(const gyre_cache *cache, int64_t sequence, int64_t end, int64_t queries, int64_t *out,
                             gyre_error *err) {
    const int64_t tokens = gyre_cache_tokens(cache, sequence), before = end < queries ? queries - end : 0;
    int64_t first = 0;
    gyre_status status =
        tokens > 0 ? gyre_cache_positions(cache, (gyre_cache_range){sequence, 0, 1}, 0, &first, err) : GYRE_OK;
    for (int64_t i = 0; i < before; i++)
        out[i] = first - (before - i);
    if (!status)
        status = gyre_cache_positions(cache, (gyre_cache_range){sequence, end - queries + before, queries - before}, 0,
                                      out + before, err);
    return status;
}

/* A length without positions: the queries have the same positions as without both, those of the last tokens of their
 * sequences. */
static gyre_status place_queries(adaptive_call *c, const gyre_cache *cache, const int64_t *sequences, gyre_error *err) {
    const int64_t batch = c->args.q.shape[0], queries = c->args.q.shape[1];
    gyre_status status = GYRE_OK;
    c->last_positions = calloc((size_t)(batch * queries) + 1, sizeof *c->last_positions);
    if (!c->last_positions) return GYRE_ENOMEM;
    for (int64_t b = 0; b < batch && !status; b++) {
        const int64_t tokens = gyre_cache_tokens(cache, sequences[b]), end = c->args.k_end ? c->args.k_end[b] : tokens;
        if (end < 0 || end > tokens) { /* the call says what is wrong */
            c->args.q_pos = NULL;
            return GYRE_OK;
        }
        status = read_last(cache, sequences[b], end, queries, c->last_positions + b * queries, err);
    }
    c->q_pos.data = c->last_positions;
    c->q_pos.dtype = GYRE_DTYPE_I64;
    c->q_pos.stride_batch = queries;
    c->q_pos.stride_token = 1;
    return status;
}

typedef struct cached_call {
    adaptive_call call;
    int placed; /* the caller has positions */
} cached_call;

static gyre_status attend_cached(const gyre_cache *cache, const int64_t *sequences, void *call, const gyre_exec *exec,
                                 gyre_error *err) {
    cached_call *c = call;
    const gyre_adaptive_args *args = &c->call.args;
    gyre_scratch *scratch = &c->call.tiled.scratch;
    size_t bytes = 0;
    gyre_status status = args->q_pos && !c->placed ? place_queries(&c->call, cache, sequences, err) : GYRE_OK;
    if (!status) status = gyre_cache_adaptive_scratch(cache, sequences, args, exec, &bytes, err);
    if (!status) status = gyre_py_take_scratch(bytes, scratch, err);
    return status ? status : gyre_cache_adaptive_attention(cache, sequences, args, *scratch, exec, err);
}

const char gyre_py_cache_adaptive_attention_doc[] =
    "adaptive_attention($self, q, hidden_weights, output_weights, *, sequences=None, lse=False" OPTIONS ")\n--\n\n"
    "gyre.adaptive_attention over the tokens of sequences[b] for batch row b; None = 0, 1, 2, ...\n"
    "\n"
    "Append the tokens of the queries first.  The biases are those of the cache's encoding at the positions of its\n"
    "tokens; positions: of the queries, None = those of the last tokens of each sequence, of those before key_end.\n"
    "bias has the keys of the longest sequence.  key_first, key_end: one number a row, counted in its sequence.";
PyObject *gyre_py_cache_adaptive_attention(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    cached_call cached = {0};
    adaptive_call *c = &cached.call;
    gyre_py_cached of = {0};
    PyObject *a[5 + OPTION_COUNT] = {NULL}, *finished = NULL;
    int wants_lse = 0;
    if (gyre_py_arguments(gyre_py_cache_adaptive_attention_doc, args, count, keywords, a) < 0 ||
        gyre_py_truth(a[4], "lse", &wants_lse) < 0 || gyre_py_cached_begin(&of, self) < 0)
        return NULL;
    PyObject *const inputs[5] = {a[0], NULL, NULL, a[1], a[2]};
    PyObject **const options = a + 5;
    options[ENCODING] = of.encoding; /* the tables and the bias are its */
    cached.placed = options[POSITIONS] != NULL;
    if (open_call(c, inputs, options) == 0 && gyre_py_cached_open(&of, &c->args.q, c->args.q.shape[0], a[3]) == 0 &&
        gyre_py_tiled_make_out(&c->tiled, of.config->value_dim, &c->args.out, &c->args.lse) == 0 &&
        gyre_py_cached_run(&of, attend_cached, &cached) == 0)
        finished = gyre_py_tiled_finish_out(&c->tiled, wants_lse);
    gyre_py_cached_end(&of);
    close_call(c);
    return finished;
}

/* -- the gradient -- */

/* [batch, heads, queries, keys], whatever the caller's broadcasts. */
static int make_bias_gradient(adaptive_call *c) {
    const gyre_py_layout layout = {.axis = {0, 2, 1, 3}, .ndim = 4, .text = "bhsd"};
    const int64_t *s = c->args.bias.shape, shape[GYRE_PY_MAX_DIMS] = {s[0], s[2], s[1], s[3]};
    gyre_py_result *result = &c->tiled.results[BIAS_RESULT];
    if (!c->bias.object) return 0;
    if (gyre_py_result_new(result, &c->bias, (gyre_dtype)c->bias.dtype, 4, shape) < 0) return -1;
    return gyre_py_array_view(&result->array, &layout, &c->to.dbias);
}

static int make_gradients(adaptive_call *c) {
    gyre_py_tiled *t = &c->tiled;
    gyre_adaptive_gradients *to = &c->to;
    gyre_view *const views[WEIGHTS] = {&to->dhidden_weights, &to->dhidden_bias, &to->doutput_weights, &to->doutput_bias};
    *to = (gyre_adaptive_gradients)GYRE_INIT(gyre_adaptive_gradients);
    if (gyre_py_tiled_make_rows(t, 0, &t->q, &to->dq) < 0 || gyre_py_tiled_make_rows(t, 1, &t->k, &to->dk) < 0 ||
        gyre_py_tiled_make_rows(t, 2, &t->v, &to->dv) < 0)
        return -1;
    for (int i = 0; i < WEIGHTS; i++)
        if (c->weights[i].object && (gyre_py_tiled_make_table(t, WEIGHT_RESULTS + i, &c->weights[i]) < 0 ||
                                     view_weights(&t->results[WEIGHT_RESULTS + i].array, i, views[i]) < 0))
            return -1;
    if (gyre_py_table_gradients_make(&c->table_gradients, &c->tables, GYRE_DTYPE_F32) < 0) return -1;
    to->dtable = c->table_gradients.views.bias;
    return make_bias_gradient(c);
}

/* dict[name] = a result, if there is one. */
static int put_result(PyObject *dict, const char *name, gyre_py_result *result) {
    if (!result->memory) return 0;
    PyObject *value = gyre_py_result_finish(result);
    const int status = value ? PyDict_SetItemString(dict, name, value) : -1;
    Py_XDECREF(value);
    return status;
}

static PyObject *finish_others(adaptive_call *c) {
    PyObject *dict = PyDict_New(), *tables = dict ? gyre_py_table_gradients_finish(&c->table_gradients) : NULL;
    int status = tables ? PyDict_SetItemString(dict, "tables", tables) : -1;
    for (int i = 0; i < WEIGHTS && !status; i++)
        status = put_result(dict, weight_names[i], &c->tiled.results[WEIGHT_RESULTS + i]);
    if (!status) status = put_result(dict, "bias", &c->tiled.results[BIAS_RESULT]);
    Py_XDECREF(tables);
    if (status) Py_CLEAR(dict);
    return dict;
}

/* (dq, dk, dv, {name: gradient}) */
static PyObject *finish_gradients(adaptive_call *c) {
    PyObject *all = PyTuple_New(WEIGHT_RESULTS + 1);
    for (int i = 0; all && i <= WEIGHT_RESULTS; i++) {
        PyObject *one = i < WEIGHT_RESULTS ? gyre_py_result_finish(&c->tiled.results[i]) : finish_others(c);
        if (!one || PyTuple_SetItem(all, i, one) < 0) Py_CLEAR(all);
    }
    return all;
}

static gyre_status add_gradients(adaptive_call *c, const gyre_exec *exec, gyre_error *err) {
    const gyre_cview dout = gyre_py_const(&c->tiled.dout_view);
    gyre_scratch *scratch = &c->tiled.scratch;
    size_t bytes = 0;
    gyre_status status = gyre_adaptive_scratch(&c->args, 1, exec, &bytes, err);
    if (!status) status = gyre_py_take_scratch(bytes, scratch, err);
    return status ? status : gyre_adaptive_gradient(&c->args, &dout, &c->to, *scratch, exec, err);
}

const char gyre_py_adaptive_gradient_doc[] =
    "adaptive_gradient($module, dout, q, k, v, hidden_weights, output_weights, out, lse, *" OPTIONS OF_ARRAYS ")\n--\n\n"
    "(dq, dk, dv, others), given dout and what adaptive_attention(..., lse=True) returned.\n"
    "\n"
    "others: \"hidden_weights\", \"output_weights\", and of what was given \"hidden_bias\", \"output_bias\" and \"bias\", "
    "the\n"
    "last [batch, heads, queries, keys] whatever was broadcast; \"tables\": a dict by name.  Gradients to the network\n"
    "are float64 where it is, else float32.  Raises gyre.Error.";
PyObject *gyre_py_adaptive_gradient(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    adaptive_call c = {0};
    PyObject *a[8 + OPTION_COUNT], *finished = NULL;
    (void)self;
    if (gyre_py_arguments(gyre_py_adaptive_gradient_doc, args, count, keywords, a) < 0) return NULL;
    PyObject *const written[3] = {a[0], a[6], a[7]};
    gyre_py_threads threads = gyre_py_threads_begin(0);
    if (open_call(&c, a + 1, a + 8) == 0 &&
        gyre_py_tiled_open_written(&c.tiled, written, c.args.v.shape[3], &c.args.out, &c.args.lse) == 0 &&
        make_gradients(&c) == 0) {
        gyre_error err = {0};
        gyre_status status;
        Py_BEGIN_ALLOW_THREADS
        status = add_gradients(&c, gyre_py_exec(&threads), &err);
        Py_END_ALLOW_THREADS
        finished = !status ? finish_gradients(&c) : gyre_py_raise(status, &err);
    }
    gyre_py_threads_end(&threads);
    close_call(&c);
    return finished;
}
