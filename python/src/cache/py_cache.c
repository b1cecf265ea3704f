/* py_cache.c: the Cache type. */
#include "cache/py_cache.h"
#include "gyre/gyre_fields.h"
#include "py_attention.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef gyre_py_cache cache_object;

static PyObject *cache_type;

static void lock_cache(cache_object *self) {
    gyre_py_lock(self->lock);
}

static int check_fork(cache_object *self) {
    return gyre_py_check_fork(self->lock, &self->forks, "cache");
}

/* The encoding while a call opens its arrays, whose code may set another one; the caller owns it. */
static PyObject *take_encoding(cache_object *self) {
    lock_cache(self);
    PyObject *encoding = self->encoding;
    Py_XINCREF(encoding);
    PyThread_release_lock(self->lock);
    return encoding;
}

/* Under the lock: is the encoding still the one that arguments were read for? */
static gyre_status check_encoding(const cache_object *self, const PyObject *encoding, gyre_error *err) {
    if (self->encoding == encoding) return GYRE_OK;
    snprintf(err->text, sizeof err->text, "encoding: was changed by another thread during the call");
    return GYRE_EINVAL;
}

/* -- creation -- */

static PyObject *make_object(PyTypeObject *type, gyre_cache *cache, PyObject *encoding) {
    const allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    cache_object *self = (cache_object *)allocate(type, 0);
    PyThread_type_lock lock = self ? PyThread_allocate_lock() : NULL;
    if (!lock) {
        gyre_cache_free(cache);
        Py_XDECREF((PyObject *)self);
        return PyErr_NoMemory();
    }
    Py_XINCREF(encoding);
    self->cache = cache;
    self->encoding = encoding;
    self->lock = lock;
    self->forks = gyre_py_forks();
    return (PyObject *)self;
}

enum {
    ENCODING,
    HEADS,
    MAX_TOKENS,
    HEAD_DIM,
    VALUE_DIM,
    KEYS,
    DTYPE,
    VALUE_DTYPE,
    SEQUENCES,
    PAGE_TOKENS,
    LENGTH,
    GATE_HEADS,
    VALUES_IN_KEYS,
    CACHE_ARGUMENTS
};

static const char *const kept[] = {"default", "raw", "rotated"}; /* as gyre_cache_keys */

static int read_config(PyObject **a, gyre_cache_config *config) {
    const gyre_py_encoding *encoding;
    int keys = 0;
    if (gyre_py_encoding_of(a[ENCODING], "encoding", &encoding) < 0 ||
        gyre_py_integer(a[HEADS], "heads", &config->heads) < 0 ||
        gyre_py_integer(a[HEAD_DIM], "head_dim", &config->head_dim) < 0 ||
        gyre_py_integer(a[MAX_TOKENS], "max_tokens", &config->max_tokens) < 0 ||
        gyre_py_word(a[KEYS], "keys", kept, 3, &keys) < 0 || gyre_py_cache_dtype(a[DTYPE], "dtype", &config->key_dtype) < 0)
        return -1;
    config->value_dtype = config->key_dtype;
    if (gyre_py_cache_dtype(a[VALUE_DTYPE], "value_dtype", &config->value_dtype) < 0 ||
        gyre_py_integer(a[VALUE_DIM], "value_dim", &config->value_dim) < 0 ||
        gyre_py_integer(a[SEQUENCES], "sequences", &config->sequences) < 0 ||
        gyre_py_integer(a[PAGE_TOKENS], "page_tokens", &config->page_tokens) < 0 ||
        gyre_py_integer(a[LENGTH], "length", &config->context_length) < 0 ||
        gyre_py_integer(a[GATE_HEADS], "gate_heads", &config->gate_heads) < 0 ||
        gyre_py_truth(a[VALUES_IN_KEYS], "values_in_keys", &config->values_in_keys) < 0)
        return -1;
    if (config->values_in_keys && a[VALUE_DTYPE]) {
        gyre_py_fail(GYRE_EINVAL, "value_dtype", "value_dtype: values are in keys and have their type, dtype");
        return -1;
    }
    config->encoding = encoding ? encoding->encoding : NULL;
    config->keys = (gyre_cache_keys)keys;
    if (config->head_dim == 0 && encoding) config->head_dim = gyre_encoding_get_config(encoding->encoding)->head_dim;
    return 0;
}

static const char cache_new_doc[] =
    "Cache(encoding=None, *, heads, max_tokens, head_dim=None, value_dim=None, keys='default', dtype='float32', "
    "value_dtype=None, sequences=1, page_tokens=0, length=None, gate_heads=0, values_in_keys=False"
    ")\n--\n\n"
    "Keys and values of earlier tokens of one layer, for several sequences, in pages.\n"
    "\n"
    "A sequence that is forked shares its pages until one of the two writes.  Moving tokens changes a number, not\n"
    "keys.  One call at a time uses a cache; others wait.  All its memory is taken when it is made.\n"
    "\n"
    "Args:\n"
    "    encoding: None = positions are applied before.\n"
    "    heads, head_dim: of keys; head_dim None = the encoding's.  value_dim: channels of values, None = head_dim.\n"
    "    max_tokens: of all sequences together; shared ones count once.\n"
    "    keys: \"rotated\" = rotated once, which is faster; \"raw\" = rotated each time they are read; \"default\" = "
    "rotated\n"
    "        where the encoding allows it.  The attribute `keys` says which.\n"
    "    dtype, value_dtype: \"float32\", \"float16\", \"bfloat16\" or \"q8\"; value_dtype None = dtype.\n"
    "    page_tokens: tokens of a page; 0 = one page for each sequence.\n"
    "    length: the context length in use of rotated keys; None = the encoding's.\n"
    "    gate_heads: query heads whose gate sums each key keeps, a multiple of heads; append then takes gate_sums.\n"
    "    values_in_keys: True = the value of a token is the first value_dim channels of its key (None = those before\n"
    "        the rotated ones): the latents of multi-head latent attention.  append then takes no v.";

static PyObject *cache_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    PyObject *a[CACHE_ARGUMENTS];
    gyre_cache_config config = GYRE_INIT(gyre_cache_config);
    gyre_cache *cache = NULL;
    gyre_error err = {0};
    if (gyre_py_arguments_of_new(cache_new_doc, args, keywords, a) < 0 || read_config(a, &config) < 0) return NULL;
    const gyre_status status = gyre_cache_create(&cache, &config, NULL, &err);
    return !status ? make_object(type, cache, a[ENCODING]) : gyre_py_raise(status, &err);
}

/* object.__init__ would refuse the arguments that __new__ has read. */
static int cache_init(PyObject *self, PyObject *args, PyObject *keywords) {
    (void)self, (void)args, (void)keywords;
    return 0;
}

static const char cache_load_doc[] =
    "load($type, path, encoding=None"
    ")\n--\n\n"
    "The cache that save wrote; encoding: that of the saved one, which the file knows by its frequencies.";
static PyObject *cache_load(PyObject *type, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    PyObject *a[2], *path;
    const gyre_py_encoding *encoding;
    if (gyre_py_arguments(cache_load_doc, args, count, keywords, a) < 0 ||
        gyre_py_encoding_of(a[1], "encoding", &encoding) < 0 || gyre_py_path(a[0], "path", &path) < 0)
        return NULL;
    gyre_cache *cache = NULL;
    gyre_error err = {0};
    gyre_status status;
    Py_BEGIN_ALLOW_THREADS
    status = gyre_cache_load(&cache, PyBytes_AsString(path), encoding ? encoding->encoding : NULL, NULL, &err);
    Py_END_ALLOW_THREADS
    Py_DECREF(path);
    return !status ? make_object((PyTypeObject *)type, cache, a[1]) : gyre_py_raise(status, &err);
}

static void cache_dealloc(PyObject *object) {
    cache_object *self = (cache_object *)object;
    PyTypeObject *type = Py_TYPE(object);
    gyre_cache_free(self->cache);
    Py_XDECREF(self->encoding);
    if (self->lock) PyThread_free_lock(self->lock);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

/* -- appending -- */

/* *next = the position after the last token of a sequence. */
static gyre_status next_position(const gyre_cache *cache, int64_t sequence, int64_t *next, gyre_error *err) {
    const int64_t tokens = gyre_cache_tokens(cache, sequence);
    *next = 0;
    if (tokens <= 0) return GYRE_OK;
    const gyre_status status = gyre_cache_positions(cache, (gyre_cache_range){sequence, tokens - 1, 1}, 0, next, err);
    *next += 1;
    return status;
}

static int open_rows(gyre_py_array *array, PyObject *object, const char *name, PyObject *layout_text, gyre_view *view) {
    gyre_py_layout layout;
    if (gyre_py_array_open(array, object, name) < 0) return -1;
    if (gyre_py_array_is(array, GYRE_PY_SHORT_REAL, "float16, bfloat16 or float32") < 0) return -1;
    if (gyre_py_layout_read(layout_text, array->ndim == 3 ? "thd" : "bhsd", &layout) < 0) return -1;
    return gyre_py_array_view(array, &layout, view);
}

/* sequences[b] of batch row b: those of the caller, or 0, 1, 2, ... */
static int64_t *read_sequences(PyObject *object, int64_t batch) {
    int64_t *out = calloc((size_t)(batch > 0 ? batch : 1), sizeof *out);
    PyObject *list = object ? PySequence_List(object) : NULL;
    if (object && !list && gyre_py_forget() < 0) {
        free(out);
        return NULL;
    }
    int good = out && (!object || (list && PyList_Size(list) == batch));
    for (int64_t b = 0; good && b < batch; b++) {
        out[b] = b;
        if (object) good = gyre_py_integer(PyList_GetItem(list, b), "sequences", &out[b]) == 0;
    }
    Py_XDECREF(list);
    if (good) return out;
    if (!PyErr_Occurred() && !out)
        PyErr_NoMemory();
    else if (!PyErr_Occurred())
        gyre_py_fail(GYRE_ESHAPE, "sequences", "sequences: is not a list with a sequence for each of %lld batch rows",
                     (long long)batch);
    free(out);
    return NULL;
}

/* keys, values and positions of append. */
typedef struct append_call {
    gyre_py_array k, v, position_array, gate_sums;
    gyre_view k_view, v_view, gate_view;
    gyre_positions positions;
    int64_t sequence;
    int64_t *sequences, *starts; /* of several sequences; NULL = that one; starts NULL = one token each */
    int64_t count;
    int has_v, goes_on; /* goes_on: positions follow the last token of each sequence */
} append_call;

static void close_append(append_call *c) {
    gyre_py_array_close(&c->k);
    gyre_py_array_close(&c->v);
    gyre_py_array_close(&c->position_array);
    gyre_py_array_close(&c->gate_sums);
    free(c->sequences);
    free(c->starts);
}

/* One token for each of several sequences may be a batch row each: then the rows are the tokens. */
static void rows_as_tokens(const append_call *c, gyre_view *view) {
    if (!c->sequences || c->starts || view->shape[0] != c->count || view->shape[1] != 1) return;
    view->shape[0] = 1;
    view->shape[1] = c->count;
    view->stride[1] = view->stride[0];
}

static int open_sequences(append_call *c, PyObject *const *a) {
    const Py_ssize_t count = a[7] ? PySequence_Size(a[7]) : 0;
    if (a[7] && a[3]) return gyre_py_fail(GYRE_EINVAL, "sequence", "sequence: is given beside sequences"), -1;
    if (!a[7] && a[8])
        return gyre_py_fail(GYRE_EINVAL, "starts", "starts: needs sequences: it has the first token of each"), -1;
    if (count < 0)
        return gyre_py_forget() < 0 ? -1
                                    : (gyre_py_fail(GYRE_EINVAL, "sequences", "sequences: is not a list of numbers"), -1);
    if (!a[7]) return gyre_py_integer(a[3], "sequence", &c->sequence);
    int64_t wanted = (c->count = count) + 1;
    if (!(c->sequences = read_sequences(a[7], c->count))) return -1;
    return gyre_py_list(a[8], "starts", &wanted, &c->starts);
}

/* Rows of one sequence, with the heads and channels of the cache. */
static int check_rows(const gyre_py_array *array, const gyre_view *view, const gyre_cache_config *config, int64_t channels) {
    if (view->shape[0] == 1 && view->shape[2] == config->heads && view->shape[3] == channels) return 0;
    char shape[180];
    gyre_py_shape_text(array, shape, sizeof shape);
    gyre_py_fail(GYRE_ESHAPE, array->name,
                 "%s: has shape %s, so batch %lld, %lld heads and %lld channels, not batch 1, %lld heads and %lld channels",
                 array->name, shape, (long long)view->shape[0], (long long)view->shape[2], (long long)view->shape[3],
                 (long long)config->heads, (long long)channels);
    return -1;
}

/* v: values of the tokens of k; NULL where keys hold them. */
static int open_values(append_call *c, const gyre_cache_config *config, PyObject *v, PyObject *layout) {
    c->has_v = v != NULL;
    if (c->has_v == config->values_in_keys) {
        gyre_py_fail(GYRE_EINVAL, "v", v ? "v: is given, but the cache takes values from keys" : "v: is missing");
        return -1;
    }
    if (!v) return 0;
    if (open_rows(&c->v, v, "v", layout, &c->v_view) < 0) return -1;
    rows_as_tokens(c, &c->v_view);
    if (check_rows(&c->v, &c->v_view, config, config->value_dim) < 0) return -1;
    if (c->v_view.shape[1] == c->k_view.shape[1]) return 0;
    gyre_py_fail(GYRE_ESHAPE, "v", "v: has %lld tokens, but k has %lld", (long long)c->v_view.shape[1],
                 (long long)c->k_view.shape[1]);
    return -1;
}

static int open_append(append_call *c, const gyre_py_encoding *encoding, const gyre_cache_config *config,
                       PyObject *const *a) {
    if (open_sequences(c, a) < 0 || gyre_py_integer(a[5], "length", &c->positions.context_length) < 0 ||
        open_rows(&c->k, a[0], "k", a[4], &c->k_view) < 0)
        return -1;
    rows_as_tokens(c, &c->k_view);
    if (check_rows(&c->k, &c->k_view, config, config->head_dim) < 0 || open_values(c, config, a[1], a[4]) < 0) return -1;
    c->goes_on = !a[2];
    if (c->sequences && c->goes_on && c->positions.context_length != 0)
        return gyre_py_fail(GYRE_EINVAL, "positions", "positions: missing: with a length, several sequences need them"), -1;
    if (a[6]) {
        gyre_py_layout layout;
        if (gyre_py_layout_read(a[4], c->k.ndim == 3 ? "thd" : "bhsd", &layout) < 0 ||
            gyre_py_gate_sums_open(&c->gate_sums, a[6], "gate_sums", &layout, &c->gate_view) < 0)
            return -1;
        rows_as_tokens(c, &c->gate_view);
    }
    const int64_t axes = encoding ? encoding->axes : 1;
    const gyre_py_positions_request wanted = {"positions", axes, c->k_view.shape[0], c->k_view.shape[1]};
    return gyre_py_positions(a[2], &wanted, &c->positions, &c->position_array);
}

static gyre_status append_to_many(cache_object *self, const append_call *c, const gyre_exec *exec, gyre_error *err) {
    gyre_cache_append_batch_args args = GYRE_INIT(gyre_cache_append_batch_args);
    args.sequences = c->sequences;
    args.starts = c->starts;
    args.count = c->count;
    args.k = gyre_py_const(&c->k_view);
    if (c->has_v) args.v = gyre_py_const(&c->v_view);
    if (c->gate_sums.object) args.gates = gyre_py_const(&c->gate_view);
    if (!c->goes_on) args.positions = &c->positions;
    return gyre_cache_append_batch(self->cache, &args, exec, err);
}

static gyre_status append_rows(cache_object *self, append_call *c, const gyre_exec *exec, gyre_error *err) {
    gyre_status status = GYRE_OK;
    if (c->sequences) return append_to_many(self, c, exec, err);
    if (c->goes_on) status = next_position(self->cache, c->sequence, &c->positions.base, err);
    if (status) return status;
    gyre_cache_append_args args = GYRE_INIT(gyre_cache_append_args);
    args.sequence = c->sequence;
    args.k = gyre_py_const(&c->k_view);
    if (c->has_v) args.v = gyre_py_const(&c->v_view);
    if (c->gate_sums.object) args.gates = gyre_py_const(&c->gate_view);
    args.positions = &c->positions;
    return gyre_cache_append(self->cache, &args, exec, err);
}

static const char cache_append_doc[] =
    "append($self, k, v=None, positions=None, *, sequence=None, layout=None, length=0, gate_sums=None, sequences=None, "
    "starts=None"
    ")\n--\n\n"
    "Appends tokens: raw keys and values, [tokens, heads, channels] ('thd') or 'bhsd' with batch 1, of float16,\n"
    "bfloat16 or float32, any strides.  v None where values are in keys.  positions None = after the last token.\n"
    "sequence: None = 0.  sequences: those of a call for several, each once: tokens starts[i] .. starts[i + 1] - 1 are "
    "those\n"
    "of sequences[i]; starts None = one token each, which may be batch rows.\n"
    "gate_sums, for a cache with gate_heads: [tokens, gate_heads], or [1, gate_heads, tokens] with 'bhsd', float32 or\n"
    "float64: those of gyre.gate_sums from the first token of the sequence on.  All or nothing.  Raises gyre.Error.";
static PyObject *cache_append(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    cache_object *self = (cache_object *)object;
    PyObject *a[9], *finished = NULL;
    append_call c = {0};
    if (check_fork(self) < 0 || gyre_py_arguments(cache_append_doc, args, count, keywords, a) < 0) return NULL;
    PyObject *encoding = take_encoding(self);
    if (open_append(&c, (const gyre_py_encoding *)encoding, gyre_cache_get_config(self->cache), a) == 0) {
        gyre_error err = {0};
        gyre_py_threads threads = gyre_py_threads_begin(gyre_py_elements(c.k_view.shape) < 1 << 18);
        lock_cache(self);
        gyre_status status = check_encoding(self, encoding, &err);
        Py_BEGIN_ALLOW_THREADS
        if (!status) status = append_rows(self, &c, gyre_py_exec(&threads), &err);
        Py_END_ALLOW_THREADS
        PyThread_release_lock(self->lock);
        gyre_py_threads_end(&threads);
        finished = !status ? Py_NewRef(Py_None) : gyre_py_raise(status, &err);
    }
    close_append(&c);
    Py_XDECREF(encoding);
    return finished;
}

/* -- calls over its sequences -- */

int gyre_py_cached_begin(gyre_py_cached *c, PyObject *cache) {
    cache_object *self = (cache_object *)cache;
    if (check_fork(self) < 0) return -1;
    c->cache = cache;
    c->config = gyre_cache_get_config(self->cache);
    c->encoding = take_encoding(self);
    return 0;
}

void gyre_py_cached_end(gyre_py_cached *c) {
    free(c->sequences);
    Py_XDECREF(c->encoding);
}

/* The keys are the cache's, so queries of another width are at fault. */
int gyre_py_cached_open(gyre_py_cached *c, const gyre_cview *q, int64_t rows, PyObject *sequences) {
    const gyre_encoding *encoding = c->config->encoding;
    const gyre_config *config = encoding ? gyre_encoding_get_config(encoding) : NULL;
    const int more = config && gyre_kind_has(config->kind, GYRE_TRAIT_QUERY_VECTORS); /* than keys */
    if (q->shape[3] != c->config->head_dim && !(more && q->shape[3] == config->head_dim)) {
        gyre_py_fail(GYRE_ESHAPE, "q", "q: %lld channels, but the cache has %lld", (long long)q->shape[3],
                     (long long)c->config->head_dim);
        return -1;
    }
    c->sequences = read_sequences(sequences, rows);
    return c->sequences ? 0 : -1;
}

int gyre_py_cached_run(gyre_py_cached *c, gyre_py_attend *attend, void *call) {
    cache_object *self = (cache_object *)c->cache;
    gyre_error err = {0};
    gyre_py_threads threads = gyre_py_threads_begin(0);
    lock_cache(self);
    gyre_status status = check_encoding(self, c->encoding, &err);
    Py_BEGIN_ALLOW_THREADS
    if (!status) status = attend(self->cache, c->sequences, call, gyre_py_exec(&threads), &err);
    Py_END_ALLOW_THREADS
    PyThread_release_lock(self->lock);
    gyre_py_threads_end(&threads);
    if (status) gyre_py_raise(status, &err);
    return !status ? 0 : -1;
}

static gyre_status attend(const gyre_cache *cache, const int64_t *sequences, void *call, const gyre_exec *exec,
                          gyre_error *err) {
    gyre_py_attention_call *c = call;
    size_t bytes = 0;
    gyre_status status = gyre_cache_attention_scratch(cache, sequences, &c->args, exec, &bytes, err);
    if (!status) status = gyre_py_take_scratch(bytes, &c->scratch, err);
    for (int more = 1; more && !status; more = gyre_py_next_picture(c))
        status = gyre_cache_attention(cache, sequences, &c->args, c->scratch, exec, err);
    return status;
}

/* out = tokens of the longest of the sequences of a call. */
static int64_t longest(const gyre_py_cached *of, int64_t count) {
    int64_t most = 0;
    for (int64_t b = 0; b < count; b++) {
        const int64_t tokens = gyre_cache_tokens(((cache_object *)of->cache)->cache, of->sequences[b]);
        most = tokens > most ? tokens : most;
    }
    return most;
}

static int64_t rows_of(const gyre_py_attention_call *c) {
    return c->batch.q_starts ? c->batch.sequences : c->args.q.shape[0];
}

static const char cache_attention_doc[] =
    "attention($self, q, sequences=None, *, query_starts=None, out=None, lse=False, weights=False, scores=False, "
    "order=None, causal=True" GYRE_PY_OPTIONS ")\n--\n\n"
    "gyre.attention over the tokens of sequences[b] for batch row b; None = 0, 1, 2, ...\n"
    "\n"
    "query_starts: a ragged batch, layout \"thd\": queries query_starts[i] .. query_starts[i + 1] - 1 see the tokens of\n"
    "sequences[i].\n"
    "Append the tokens of the queries first.  positions None = the last tokens of each sequence, or the last\n"
    "before key_end, at the positions that these have.";
static PyObject *cache_attention(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    enum { RAGGED = 2, OUT, MORE, ORDER = MORE + GYRE_PY_MORE, FIRST };
    PyObject *a[FIRST + OPTIONS] = {NULL}, *finished = NULL;
    gyre_py_attention_call c = {0};
    gyre_py_cached of = {0};
    gyre_py_attention_results results = {0};
    if (gyre_py_arguments(cache_attention_doc, args, count, keywords, a) < 0 ||
        gyre_py_attention_results_read(&results, a + MORE) < 0 || gyre_py_cached_begin(&of, object) < 0)
        return NULL;
    const gyre_py_attention_inputs in = {.q = a[0],
                                         .ragged = a[RAGGED],
                                         .order = a[ORDER],
                                         .encoding = (const gyre_py_encoding *)of.encoding,
                                         .options = a + FIRST,
                                         .causal = GYRE_CAUSAL_BY_POSITION};
    if (gyre_py_attention_open(&c, &in) == 0 && gyre_py_cached_open(&of, &c.args.q, rows_of(&c), a[1]) == 0 &&
        gyre_py_attention_results_make(&c, &results, a[OUT], of.config->value_dim, longest(&of, rows_of(&c))) == 0 &&
        gyre_py_cached_run(&of, attend, &c) == 0)
        finished = gyre_py_attention_results_finish(&results);
    gyre_py_attention_results_drop(&results);
    gyre_py_attention_close(&c);
    gyre_py_cached_end(&of);
    return finished;
}

/* -- editing -- */

static PyObject *done(gyre_status status, const gyre_error *err) {
    if (status) return gyre_py_raise(status, err);
    Py_RETURN_NONE;
}

static const char cache_remove_doc[] = "remove($self, first, count, *, sequence=0"
                                       ")\n--\n\n"
                                       "Removes tokens first .. first + count - 1.  Later tokens keep their positions.";
static PyObject *cache_remove(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    cache_object *self = (cache_object *)object;
    int64_t a[3] = {0};
    gyre_error err = {0};
    if (check_fork(self) < 0 || gyre_py_whole_arguments(cache_remove_doc, args, count, keywords, a) < 0) return NULL;
    lock_cache(self);
    const gyre_status status = gyre_cache_remove(self->cache, (gyre_cache_range){a[2], a[0], a[1]}, &err);
    PyThread_release_lock(self->lock);
    return done(status, &err);
}

static const char cache_shift_doc[] =
    "shift($self, first, count, delta, *, sequence=0"
    ")\n--\n\n"
    "Adds delta, one number or one for each axis, to the positions of tokens.  Factors are not applied again.";
static PyObject *cache_shift(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    cache_object *self = (cache_object *)object;
    PyObject *a[4];
    gyre_cache_range range = {0};
    int64_t delta[GYRE_MAX_AXES] = {0};
    gyre_error err = {0};
    if (check_fork(self) < 0 || gyre_py_arguments(cache_shift_doc, args, count, keywords, a) < 0 ||
        gyre_py_integer(a[0], "first", &range.first) < 0 || gyre_py_integer(a[1], "count", &range.count) < 0 ||
        gyre_py_shift(a[2], "delta", gyre_py_cache_axes(self), delta) < 0 ||
        gyre_py_integer(a[3], "sequence", &range.sequence) < 0)
        return NULL;
    lock_cache(self);
    const gyre_status shifted = gyre_cache_shift(self->cache, range, delta, &err);
    PyThread_release_lock(self->lock);
    return done(shifted, &err);
}

static const char cache_fork_doc[] = "fork($self, source, target"
                                     ")\n--\n\n"
                                     "Makes sequence `target` a copy of `source`, whatever it was.";
static PyObject *cache_fork(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    cache_object *self = (cache_object *)object;
    int64_t a[2] = {0};
    gyre_error err = {0};
    if (check_fork(self) < 0 || gyre_py_whole_arguments(cache_fork_doc, args, count, keywords, a) < 0) return NULL;
    lock_cache(self);
    const gyre_status status = gyre_cache_fork(self->cache, a[0], a[1], &err);
    PyThread_release_lock(self->lock);
    return done(status, &err);
}

static const char cache_slide_doc[] =
    "slide($self, sinks, window, *, sequence=0"
    ")\n--\n\n"
    "Keeps the first `sinks` tokens and the last window - sinks (StreamingLLM); returns the next position.";
static PyObject *cache_slide(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    cache_object *self = (cache_object *)object;
    int64_t a[3] = {0}, next = 0;
    gyre_error err = {0};
    if (check_fork(self) < 0 || gyre_py_whole_arguments(cache_slide_doc, args, count, keywords, a) < 0) return NULL;
    lock_cache(self);
    const gyre_status status = gyre_cache_slide(self->cache, a[2], a[0], a[1], &next, &err);
    PyThread_release_lock(self->lock);
    return !status ? PyLong_FromLongLong(next) : gyre_py_raise(status, &err);
}

static const char cache_set_encoding_doc[] = "set_encoding($self, encoding, length=None"
                                             ")\n--\n\n"
                                             "Moves the cache to another encoding without reading the text again.";
static PyObject *cache_set_encoding(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    cache_object *self = (cache_object *)object;
    PyObject *a[2];
    int64_t length = 0;
    const gyre_py_encoding *encoding;
    gyre_error err = {0};
    if (check_fork(self) < 0 || gyre_py_arguments(cache_set_encoding_doc, args, count, keywords, a) < 0 ||
        gyre_py_encoding_of(a[0], "encoding", &encoding) < 0 || gyre_py_integer(a[1], "length", &length) < 0)
        return NULL;
    gyre_py_threads threads = gyre_py_threads_begin(0);
    gyre_status status;
    PyObject *old = NULL;
    lock_cache(self);
    Py_BEGIN_ALLOW_THREADS
    status = gyre_cache_set_encoding(self->cache, encoding->encoding, length, gyre_py_exec(&threads), &err);
    Py_END_ALLOW_THREADS
    if (!status) {
        old = self->encoding;
        self->encoding = Py_NewRef(a[0]);
    }
    PyThread_release_lock(self->lock);
    gyre_py_threads_end(&threads);
    Py_XDECREF(old);
    return done(status, &err);
}

/* -- looking -- */

static const char cache_positions_doc[] = "positions($self, sequence=0, axis=0"
                                          ")\n--\n\n"
                                          "Current positions of the tokens of a sequence, int64 [tokens].";
static PyObject *cache_positions(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    cache_object *self = (cache_object *)object;
    int64_t a[2] = {0};
    gyre_py_result result = {0};
    gyre_error err = {0};
    if (check_fork(self) < 0 || gyre_py_whole_arguments(cache_positions_doc, args, count, keywords, a) < 0) return NULL;
    const int64_t sequence = a[0], axis = a[1];
    lock_cache(self);
    const int64_t tokens = gyre_cache_tokens(self->cache, sequence), shape[1] = {tokens > 0 ? tokens : 0};
    gyre_status status = tokens < 0 ? GYRE_EINVAL : GYRE_OK;
    const int made = !status ? gyre_py_result_new(&result, NULL, GYRE_DTYPE_I64, 1, shape) : 0;
    if (!status && made == 0)
        status = gyre_cache_positions(self->cache, (gyre_cache_range){sequence, 0, tokens}, axis, result.array.data, &err);
    PyThread_release_lock(self->lock);
    PyObject *finished = NULL;
    if (tokens < 0)
        gyre_py_fail(GYRE_EINVAL, "sequence", "sequence: there is no sequence %lld", (long long)sequence);
    else if (status)
        gyre_py_raise(status, &err);
    else if (made == 0)
        finished = gyre_py_result_finish(&result);
    gyre_py_result_drop(&result);
    return finished;
}

static const char cache_tokens_doc[] = "tokens($self, sequence=0"
                                       ")\n--\n\n"
                                       "Tokens of a sequence.";
static PyObject *cache_tokens(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    cache_object *self = (cache_object *)object;
    int64_t sequence = 0;
    if (check_fork(self) < 0 || gyre_py_whole_arguments(cache_tokens_doc, args, count, keywords, &sequence) < 0) return NULL;
    lock_cache(self);
    const int64_t tokens = gyre_cache_tokens(self->cache, sequence);
    PyThread_release_lock(self->lock);
    if (tokens < 0) return gyre_py_fail(GYRE_EINVAL, "sequence", "sequence: there is no sequence %lld", (long long)sequence);
    return PyLong_FromLongLong(tokens);
}

static PyObject *cache_usage(PyObject *object, PyObject *unused) {
    cache_object *self = (cache_object *)object;
    (void)unused;
    if (check_fork(self) < 0) return NULL;
    lock_cache(self);
    gyre_cache_usage u = GYRE_INIT(gyre_cache_usage);
    gyre_error err = {.text = "cache: says nothing of its use"};
    const gyre_status status = gyre_cache_get_usage(self->cache, &u);
    const size_t token_bytes = gyre_cache_token_bytes(gyre_cache_get_config(self->cache));
    PyThread_release_lock(self->lock);
    if (status) return gyre_py_raise(status, &err);
    return Py_BuildValue("{snsnsLsLsLsLsn}", "bytes", (Py_ssize_t)u.bytes, "used", (Py_ssize_t)u.used, "pages",
                         (long long)u.pages, "free_pages", (long long)u.free_pages, "tokens", (long long)u.tokens,
                         "shared_tokens", (long long)u.shared_tokens, "token_bytes", (Py_ssize_t)token_bytes);
}

static const char cache_save_doc[] = "save($self, path"
                                     ")\n--\n\n"
                                     "Writes all sequences and a checksum to a file, which appears whole or not at all.";
static PyObject *cache_save(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    cache_object *self = (cache_object *)object;
    PyObject *path, *bytes;
    gyre_error err = {0};
    gyre_status status;
    if (check_fork(self) < 0 || gyre_py_arguments(cache_save_doc, args, count, keywords, &path) < 0 ||
        gyre_py_path(path, "path", &bytes) < 0)
        return NULL;
    lock_cache(self);
    Py_BEGIN_ALLOW_THREADS
    status = gyre_cache_save(self->cache, PyBytes_AsString(bytes), &err);
    Py_END_ALLOW_THREADS
    PyThread_release_lock(self->lock);
    Py_DECREF(bytes);
    return done(status, &err);
}

static PyMethodDef methods[] = {
    GYRE_PY_FAST("load", cache_load, METH_CLASS),
    GYRE_PY_FAST("save", cache_save, 0),
    GYRE_PY_FAST("append", cache_append, 0),
    GYRE_PY_FAST("attention", cache_attention, 0),
    GYRE_PY_FAST("contextual_attention", gyre_py_cache_contextual_attention, 0),
    GYRE_PY_FAST("adaptive_attention", gyre_py_cache_adaptive_attention, 0),
    GYRE_PY_FAST("tokens", cache_tokens, 0),
    GYRE_PY_FAST("positions", cache_positions, 0),
    GYRE_PY_FAST("remove", cache_remove, 0),
    GYRE_PY_FAST("shift", cache_shift, 0),
    GYRE_PY_FAST("fork", cache_fork, 0),
    GYRE_PY_FAST("slide", cache_slide, 0),
    GYRE_PY_FAST("set_encoding", cache_set_encoding, 0),
    {"usage", cache_usage, METH_NOARGS,
     "usage($self)\n--\n\nWhat is in use: bytes, used (bytes), pages, free_pages, tokens, shared_tokens;\n"
     "and token_bytes, what a token takes."},
    {NULL, NULL, 0, NULL}};
static PyObject *cache_keys(PyObject *object, void *unused) {
    (void)unused;
    return PyUnicode_FromString(kept[gyre_cache_get_config(((cache_object *)object)->cache)->keys]);
}

static PyGetSetDef attributes[] = {{"keys", cache_keys, NULL, "\"raw\" or \"rotated\": how keys are kept.", NULL},
                                   {NULL, NULL, NULL, NULL, NULL}};
static PyType_Slot slots[] = {{Py_tp_new, (void *)cache_new},
                              {Py_tp_init, (void *)cache_init},
                              {Py_tp_dealloc, (void *)cache_dealloc},
                              {Py_tp_methods, methods},
                              {Py_tp_getset, attributes},
                              {Py_tp_doc, (void *)cache_new_doc},
                              {0, NULL}};
static PyType_Spec spec = {"gyre._gyre.Cache", sizeof(cache_object), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};

gyre_py_cache *gyre_py_cache_of(PyObject *object) {
    return PyObject_TypeCheck(object, (PyTypeObject *)cache_type) ? (gyre_py_cache *)object : NULL;
}

PyObject *gyre_py_cache_make(gyre_cache *cache, PyObject *encoding) {
    return make_object((PyTypeObject *)cache_type, cache, encoding);
}

int gyre_py_add_cache(PyObject *module) {
    cache_type = PyType_FromSpec(&spec);
    return cache_type ? PyModule_AddObjectRef(module, "Cache", cache_type) : -1;
}
