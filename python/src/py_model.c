/* py_model.c: models that run, the sequences they read, and their tokenizers. */
#include "py_memory.h"

#include "gyre/gyre_model.h"

#include <stdlib.h>
#include <string.h>

static PyObject *model_type;

static PyObject *allocate_object(PyObject *type) {
    const allocfunc allocate = (allocfunc)PyType_GetSlot((PyTypeObject *)type, Py_tp_alloc);
    return allocate((PyTypeObject *)type, 0);
}

static void free_object(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* -- a model -- */

typedef struct model_object {
    PyObject_HEAD
    gyre_model *model;
} model_object;

static void model_dealloc(PyObject *self) {
    gyre_model_free(((model_object *)self)->model);
    free_object(self);
}

static PyObject *model_open(PyObject *type, PyObject *args) {
    PyObject *named, *profile_name, *in_use, *path;
    int64_t length = 0;
    gyre_profile profile;
    if (!PyArg_ParseTuple(args, "OOO", &named, &profile_name, &in_use) || gyre_py_profile(profile_name, &profile) < 0 ||
        gyre_py_integer(in_use, "length", &length) < 0 || gyre_py_path(named, "path", &path) < 0)
        return NULL;
    gyre_model *model = NULL;
    gyre_error err = {0};
    gyre_status status;
    Py_BEGIN_ALLOW_THREADS
    status = gyre_model_open(&model, PyBytes_AsString(path),
                             GYRE_ARGS(gyre_reading_options, .profile = profile, .context_length = length), &err);
    Py_END_ALLOW_THREADS
    Py_DECREF(path);
    if (status) return gyre_py_raise(status, &err);
    model_object *self = (model_object *)allocate_object(type);
    if (self)
        self->model = model;
    else
        gyre_model_free(model);
    return (PyObject *)self;
}

static PyObject *model_check(PyObject *type, PyObject *named) {
    PyObject *path;
    gyre_error err = {0};
    gyre_status status;
    (void)type;
    if (gyre_py_path(named, "path", &path) < 0) return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = gyre_model_check(PyBytes_AsString(path), &err);
    Py_END_ALLOW_THREADS
    Py_DECREF(path);
    if (status) return gyre_py_raise(status, &err);
    Py_RETURN_NONE;
}

static PyObject *model_about(PyObject *self, PyObject *unused) {
    const gyre_model *model = ((model_object *)self)->model;
    const gyre_model_config *c = gyre_model_get_config(model);
    gyre_model_source source = GYRE_INIT(gyre_model_source);
    (void)unused;
    if (gyre_model_get_source(model, &source)) return gyre_py_fail(GYRE_EINVAL, "model", "model: has no source");
    return Py_BuildValue("{szszszsLsLsLsLsLsL}", "family", source.family, "format", source.format, "stored", source.stored,
                         "parameters", (long long)gyre_model_parameters(model), "vocab", (long long)c->vocab, "layers",
                         (long long)c->layers, "heads", (long long)c->heads, "kv_heads", (long long)c->kv_heads, "head_dim",
                         (long long)c->head_dim);
}

static PyMethodDef model_methods[] = {{"_open", model_open, METH_VARARGS | METH_CLASS, "a model in a folder or a GGUF"},
                                      {"_check", model_check, METH_O | METH_CLASS, "raises for one that is not run"},
                                      {"about", model_about, METH_NOARGS, "what it is"},
                                      {NULL, NULL, 0, NULL}};
static PyType_Slot model_slots[] = {{Py_tp_dealloc, (void *)model_dealloc},
                                    {Py_tp_methods, model_methods},
                                    {Py_tp_doc, "A model, mapped and run in the type it is stored in."},
                                    {0, NULL}};
static PyType_Spec model_spec = {"gyre._gyre.Model", sizeof(model_object), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, model_slots};

/* -- a sequence -- */

typedef struct context_object {
    PyObject_HEAD
    gyre_context *context;
    PyObject *model; /* kept as long as the context borrows it */
    gyre_py_threads threads;
    int64_t vocab, model_dim;
    PyThread_type_lock lock;
    int forks;
} context_object;

static void context_dealloc(PyObject *object) {
    context_object *self = (context_object *)object;
    gyre_context_free(self->context);
    gyre_py_threads_end(&self->threads);
    Py_XDECREF(self->model);
    if (self->lock) PyThread_free_lock(self->lock);
    free_object(object);
}

static PyObject *context_create(PyObject *type, PyObject *args) {
    static const char *const kinds[] = {"f32", "bf16"}; /* as gyre_products */
    PyObject *model, *most, *dtype, *kind;
    int64_t max_tokens = 0;
    gyre_dtype stored = GYRE_DTYPE_F32;
    int fixed = 1, products = GYRE_PRODUCTS_F32;
    if (!PyArg_ParseTuple(args, "O!OOpO", (PyTypeObject *)model_type, &model, &most, &dtype, &fixed, &kind) ||
        gyre_py_integer(most, "max_tokens", &max_tokens) < 0 || gyre_py_cache_dtype(dtype, "cache", &stored) < 0 ||
        gyre_py_word(kind, "products", kinds, 2, &products) < 0)
        return NULL;
    context_object *self = (context_object *)allocate_object(type);
    if (!self) return NULL;
    self->lock = PyThread_allocate_lock();
    self->forks = gyre_py_forks();
    self->model = Py_NewRef(model);
    self->threads = gyre_py_threads_begin(0);
    self->vocab = gyre_model_get_config(((model_object *)model)->model)->vocab;
    self->model_dim = gyre_model_get_config(((model_object *)model)->model)->model_dim;
    gyre_context_options options = GYRE_INIT(gyre_context_options);
    options.max_tokens = max_tokens;
    options.cache_dtype = stored;
    options.exec = gyre_py_exec(&self->threads);
    options.order = fixed ? GYRE_ORDER_FIXED : GYRE_ORDER_FAST;
    options.products = (gyre_products)products;
    gyre_error err = {0};
    const gyre_status status =
        self->lock ? gyre_context_create(&self->context, ((model_object *)model)->model, &options, &err) : GYRE_ENOMEM;
    if (!status) return (PyObject *)self;
    gyre_py_raise(status, &err);
    Py_DECREF((PyObject *)self);
    return NULL;
}

/* *ids = the tokens of a list or an array; the caller frees them. */
static int32_t *read_ids(PyObject *object, int64_t *count) {
    PyObject *list = PySequence_List(object);
    *count = list ? PyList_Size(list) : -1;
    int32_t *ids = *count >= 0 ? calloc((size_t)*count + 1, sizeof *ids) : NULL;
    int status = ids ? 0 : -1;
    for (int64_t i = 0; status == 0 && i < *count; i++) {
        int64_t id = 0;
        status = gyre_py_integer(PyList_GetItem(list, i), "ids", &id);
        if (status == 0 && (id < 0 || id > INT32_MAX)) {
            gyre_py_fail(GYRE_EINVAL, "ids", "ids: has %lld, which is not a token: ids are 0 .. 2^31 - 1", (long long)id);
            status = -1;
        }
        ids[i] = (int32_t)id;
    }
    Py_XDECREF(list);
    if (status == 0) return ids;
    free(ids);
    if (*count < 0) {
        char shown[60];
        gyre_py_show(object, shown, sizeof shown);
        gyre_py_fail(GYRE_EINVAL, "ids", "ids: is %s, not a list or an array of whole numbers", shown);
    } else if (!PyErr_Occurred())
        PyErr_NoMemory();
    return NULL;
}

static int check_fork(context_object *self) {
    return gyre_py_check_fork(self->lock, &self->forks, "context");
}

typedef gyre_status reading(gyre_context *, const int32_t *, int64_t, int64_t, float *, gyre_error *);

static gyre_status forward(context_object *self, reading *read, const int32_t *ids, int64_t count, int64_t rows, float *out,
                           gyre_error *err) {
    PyThread_acquire_lock(self->lock, WAIT_LOCK);
    const gyre_status status = read(self->context, ids, count, rows, out, err);
    PyThread_release_lock(self->lock);
    return status;
}

/* (ids, rows, whether vectors are wanted instead of logits) */
static PyObject *context_read(PyObject *object, PyObject *args) {
    context_object *self = (context_object *)object;
    PyObject *given, *last, *finished = NULL;
    int64_t count, rows = INT64_MAX;
    int vectors = 0;
    if (check_fork(self) < 0 || !PyArg_ParseTuple(args, "OOp", &given, &last, &vectors) ||
        gyre_py_integer(last == Py_None ? NULL : last, "rows", &rows) < 0)
        return NULL;
    if (rows < 0) return gyre_py_fail(GYRE_EINVAL, "rows", "rows: is %lld, not 0 or more; None = all", (long long)rows);
    int32_t *ids = read_ids(given, &count);
    if (!ids) return NULL;
    const int64_t shape[2] = {rows > count ? count : rows, vectors ? self->model_dim : self->vocab};
    gyre_py_result result = {0};
    if (gyre_py_result_new(&result, NULL, GYRE_DTYPE_F32, 2, shape) == 0) {
        gyre_error err = {0};
        gyre_status status;
        Py_BEGIN_ALLOW_THREADS
        status = forward(self, vectors ? gyre_context_embed : gyre_context_forward, ids, count, shape[0], result.array.data,
                         &err);
        Py_END_ALLOW_THREADS
        finished = !status ? gyre_py_result_finish(&result) : gyre_py_raise(status, &err);
    }
    gyre_py_result_drop(&result);
    free(ids);
    return finished;
}

/* The token after some tokens, and the state of the generator behind it.  *logits: numbers of the vocabulary. */
static PyObject *sample_next(context_object *self, const int32_t *ids, int64_t count, const gyre_sampling *sampling,
                             unsigned long long state) {
    uint64_t after = state;
    int32_t token = -1;
    gyre_error err = {0};
    gyre_status status;
    float *logits = malloc((size_t)self->vocab * sizeof *logits);
    if (!logits) return PyErr_NoMemory();
    Py_BEGIN_ALLOW_THREADS
    status = forward(self, gyre_context_forward, ids, count, 1, logits, &err);
    if (!status) token = gyre_sample(logits, self->vocab, sampling, &after);
    Py_END_ALLOW_THREADS
    free(logits);
    if (status) return gyre_py_raise(status, &err);
    if (token < 0) return gyre_py_fail(GYRE_EINVAL, "temperature", "temperature: with top_p and top_k, chooses no token");
    return Py_BuildValue("(iK)", (int)token, (unsigned long long)after);
}

/* (ids, temperature, top_p, top_k, state) -> (token, state) */
static PyObject *context_next(PyObject *object, PyObject *args) {
    context_object *self = (context_object *)object;
    PyObject *given;
    gyre_sampling sampling = GYRE_INIT(gyre_sampling);
    long long top_k;
    unsigned long long state;
    int64_t count;
    if (check_fork(self) < 0 ||
        !PyArg_ParseTuple(args, "OddLK", &given, &sampling.temperature, &sampling.top_p, &top_k, &state))
        return NULL;
    sampling.top_k = top_k;
    int32_t *ids = read_ids(given, &count);
    if (!ids) return NULL;
    PyObject *next = sample_next(self, ids, count, &sampling, state);
    free(ids);
    return next;
}

static PyObject *context_tokens(PyObject *object, PyObject *unused) {
    context_object *self = (context_object *)object;
    (void)unused;
    if (check_fork(self) < 0) return NULL;
    gyre_py_lock(self->lock);
    const int64_t tokens = gyre_context_tokens(self->context);
    PyThread_release_lock(self->lock);
    return PyLong_FromLongLong(tokens);
}

static PyObject *context_truncate(PyObject *object, PyObject *tokens) {
    context_object *self = (context_object *)object;
    int64_t wanted = 0;
    if (check_fork(self) < 0 || gyre_py_integer(tokens, "tokens", &wanted) < 0) return NULL;
    gyre_py_lock(self->lock); /* a thread may be reading */
    const int64_t read = gyre_context_tokens(self->context);
    const gyre_status status = gyre_context_truncate(self->context, wanted);
    PyThread_release_lock(self->lock);
    if (!status) Py_RETURN_NONE;
    return gyre_py_fail(GYRE_EINVAL, "tokens", "tokens: is %lld, not 0 .. %lld, the number of tokens that were read",
                        (long long)wanted, (long long)read);
}

static PyMethodDef context_methods[] = {
    {"_create", context_create, METH_VARARGS | METH_CLASS, "an empty sequence"},
    {"_read", context_read, METH_VARARGS, "reads tokens"},
    {"_next", context_next, METH_VARARGS, "reads tokens and samples the next"},
    {"_tokens", context_tokens, METH_NOARGS, "tokens read so far"},
    {"truncate", context_truncate, METH_O, "truncate($self, tokens, /)\n--\n\nForgets all but the first `tokens`."},
    {NULL, NULL, 0, NULL}};
static PyType_Slot context_slots[] = {{Py_tp_dealloc, (void *)context_dealloc},
                                      {Py_tp_methods, context_methods},
                                      {Py_tp_doc, "One sequence that a model reads, with its keys and values."},
                                      {0, NULL}};
static PyType_Spec context_spec = {"gyre._gyre.Context", sizeof(context_object), 0,
                                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                   context_slots};

/* -- a tokenizer -- */

typedef struct tokenizer_object {
    PyObject_HEAD
    gyre_tokenizer *tokenizer;
} tokenizer_object;

static void tokenizer_dealloc(PyObject *self) {
    gyre_tokenizer_free(((tokenizer_object *)self)->tokenizer);
    free_object(self);
}

static PyObject *tokenizer_open(PyObject *type, PyObject *named) {
    PyObject *path;
    gyre_error err = {0};
    if (gyre_py_path(named, "path", &path) < 0) return NULL;
    gyre_tokenizer *made = NULL;
    const gyre_status status = gyre_tokenizer_open(&made, PyBytes_AsString(path), &err);
    Py_DECREF(path);
    if (status) return gyre_py_raise(status, &err);
    tokenizer_object *self = (tokenizer_object *)allocate_object(type);
    if (self)
        self->tokenizer = made;
    else
        gyre_tokenizer_free(made);
    return (PyObject *)self;
}

static PyObject *tokenizer_encode(PyObject *self, PyObject *args) {
    const char *text;
    Py_ssize_t bytes;
    unsigned flags;
    if (!PyArg_ParseTuple(args, "s#I", &text, &bytes, &flags))
        return gyre_py_fail(GYRE_EINVAL, "text", "text: is not a str that UTF-8 can write, nor bytes");
    gyre_text tokens = {0};
    gyre_error err = {0};
    const gyre_status status =
        gyre_tokenize(((tokenizer_object *)self)->tokenizer, text, (size_t)bytes, flags, &tokens, &err);
    if (status) return gyre_py_raise(status, &err);
    PyObject *list = PyList_New(tokens.count);
    for (int64_t i = 0; list && i < tokens.count; i++) {
        PyObject *id = PyLong_FromLong(tokens.ids[i]);
        if (!id || PyList_SetItem(list, i, id) < 0) Py_CLEAR(list);
    }
    gyre_text_free(&tokens);
    return list;
}

static PyObject *tokenizer_decode(PyObject *self, PyObject *args) {
    PyObject *given;
    unsigned flags;
    gyre_text tokens = {0};
    if (!PyArg_ParseTuple(args, "OI", &given, &flags)) return NULL;
    tokens.ids = read_ids(given, &tokens.count);
    if (!tokens.ids) return NULL;
    char *text = NULL;
    size_t bytes = 0;
    gyre_error err = {0};
    const gyre_status status = gyre_detokenize(((tokenizer_object *)self)->tokenizer, &tokens, flags, &text, &bytes, &err);
    free(tokens.ids);
    if (status) return gyre_py_raise(status, &err);
    PyObject *object = PyBytes_FromStringAndSize(text, (Py_ssize_t)bytes);
    free(text);
    return object;
}

static PyObject *tokenizer_special(PyObject *self, PyObject *unused) {
    (void)unused;
    gyre_tokenizer_info info = GYRE_INIT(gyre_tokenizer_info);
    if (gyre_tokenizer_get_info(((tokenizer_object *)self)->tokenizer, &info)) return PyTuple_New(0);
    return Py_BuildValue("(ii)", (int)info.begin, (int)info.end);
}

static PyObject *tokenizer_notes(PyObject *self, PyObject *unused) {
    (void)unused;
    gyre_tokenizer_info info = GYRE_INIT(gyre_tokenizer_info);
    if (gyre_tokenizer_get_info(((tokenizer_object *)self)->tokenizer, &info)) info.notes = "";
    return PyUnicode_FromString(info.notes);
}

static PyMethodDef tokenizer_methods[] = {{"_open", tokenizer_open, METH_O | METH_CLASS, "the tokenizer of a model"},
                                          {"_encode", tokenizer_encode, METH_VARARGS, "ids of a text"},
                                          {"_decode", tokenizer_decode, METH_VARARGS, "bytes of ids"},
                                          {"_special", tokenizer_special, METH_NOARGS, "(begin, end), -1 = none"},
                                          {"_notes", tokenizer_notes, METH_NOARGS, "what Gyre does otherwise"},
                                          {NULL, NULL, 0, NULL}};
static PyType_Slot tokenizer_slots[] = {{Py_tp_dealloc, (void *)tokenizer_dealloc},
                                        {Py_tp_methods, tokenizer_methods},
                                        {Py_tp_doc, "Text to ids and back."},
                                        {0, NULL}};
static PyType_Spec tokenizer_spec = {"gyre._gyre.Tokenizer", sizeof(tokenizer_object), 0,
                                     Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                     tokenizer_slots};

static int add_type(PyObject *module, const char *name, PyType_Spec *spec, PyObject **kept) {
    PyObject *type = PyType_FromSpec(spec);
    const int status = type ? PyModule_AddObjectRef(module, name, type) : -1;
    if (kept) *kept = type;
    if (!kept) Py_XDECREF(type);
    return status;
}

int gyre_py_add_model(PyObject *module) {
    if (add_type(module, "Model", &model_spec, &model_type) < 0) return -1;
    return add_type(module, "Context", &context_spec, NULL) < 0 ? -1 : add_type(module, "Tokenizer", &tokenizer_spec, NULL);
}
