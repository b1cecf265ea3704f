/* py_paged.c: attention over keys and values in pages of the caller, of which nothing is copied. */
#include "py_attention.h"

#include <stdio.h>
#include <string.h>

typedef struct paged_call {
    gyre_py_attention_call attention;
    gyre_pages pages;
    gyre_py_array k, v, numbers[4]; /* numbers: indices, key_lengths, indptr, last_page_len */
} paged_call;

static void close_paged(paged_call *c) {
    gyre_py_array_close(&c->k);
    gyre_py_array_close(&c->v);
    for (int i = 0; i < 4; i++)
        gyre_py_array_close(&c->numbers[i]);
    gyre_py_attention_close(&c->attention);
}

/* Numbers of the table, int32 and adjacent on the last of `axes` axes; NULL = none. */
static int open_numbers(gyre_py_array *array, PyObject *object, const char *name, int axes, const int32_t **out) {
    if (!object) return 0;
    if (gyre_py_array_open(array, object, name) < 0 || gyre_py_array_is(array, 1 << GYRE_DTYPE_I32, "int32") < 0) return -1;
    if (array->ndim != axes || (array->shape[axes - 1] > 1 && array->stride[axes - 1] != 1)) {
        char shape[180];
        gyre_py_shape_text(array, shape, sizeof shape);
        gyre_py_fail(GYRE_ESHAPE, name, "%s: has shape %s, not %d axes of adjacent numbers", name, shape, axes);
        return -1;
    }
    *out = array->data;
    return 0;
}

static int has_length(const gyre_py_array *array, int64_t length) {
    return !array->object || gyre_py_attention_shape_is(array, &length, 1) == 0;
}

/* The library cannot know how long the list of pages is; that indptr rises it checks before it reads the list. */
static int check_indptr(const paged_call *c) {
    const gyre_pages *pages = &c->pages;
    const int64_t listed = c->numbers[0].shape[0];
    if (pages->indptr[pages->sequences] <= listed) return 0;
    gyre_py_fail(GYRE_EINVAL, "indptr", "indptr: ends at %d, but indices has %lld pages",
                 (int)pages->indptr[pages->sequences], (long long)listed);
    return -1;
}

/* o: indices, key_lengths, indptr, last_page_len. */
static int open_table(paged_call *c, PyObject *const *o) {
    gyre_pages *pages = &c->pages;
    const int by_lengths = o[1] != NULL;
    if (by_lengths == (o[2] || o[3]) || !o[2] != !o[3]) {
        gyre_py_fail(GYRE_EINVAL, "key_lengths", "key_lengths: give either them, or indptr and last_page_len");
        return -1;
    }
    if (open_numbers(&c->numbers[0], o[0], "indices", by_lengths ? 2 : 1, &pages->indices) < 0 ||
        open_numbers(&c->numbers[1], o[1], "key_lengths", 1, &pages->lengths) < 0 ||
        open_numbers(&c->numbers[2], o[2], "indptr", 1, &pages->indptr) < 0 ||
        open_numbers(&c->numbers[3], o[3], "last_page_len", 1, &pages->last_page_len) < 0)
        return -1;
    pages->sequences = by_lengths ? c->numbers[1].shape[0] : c->numbers[3].shape[0];
    if (!by_lengths) return has_length(&c->numbers[2], pages->sequences + 1) && check_indptr(c) == 0 ? 0 : -1;
    pages->row_stride = pages->sequences > 1 ? c->numbers[0].stride[0] : c->numbers[0].shape[1];
    if (c->numbers[0].shape[0] != pages->sequences) {
        gyre_py_fail(GYRE_ESHAPE, "indices", "indices: %lld rows of pages, but key_lengths has %lld sequences",
                     (long long)c->numbers[0].shape[0], (long long)pages->sequences);
        return -1;
    }
    if (pages->row_stride < c->numbers[0].shape[1]) {
        gyre_py_fail(GYRE_EUNSUPPORTED, "indices",
                     "indices: rows of %lld pages are %lld numbers apart, reversed or shared: pass a copy",
                     (long long)c->numbers[0].shape[1], (long long)pages->row_stride);
        return -1;
    }
    const int64_t most = c->numbers[0].shape[1] * pages->k.shape[1]; /* a row may be wider than its numbers */
    for (int64_t s = 0; s < pages->sequences; s++)
        if (pages->lengths[s] > most) {
            gyre_py_fail(GYRE_EINVAL, "key_lengths", "key_lengths: %d tokens of sequence %lld, but a row of pages has %lld",
                         (int)pages->lengths[s], (long long)s, (long long)most);
            return -1;
        }
    return 0;
}

/* [pages, tokens, heads, channels] in the order of a word. */
static int open_pages(gyre_py_array *array, PyObject *object, const char *name, int heads_first, gyre_cview *out) {
    const gyre_py_layout layout = {.axis = {0, heads_first ? 2 : 1, heads_first ? 1 : 2, 3}, .ndim = 4, .text = "pages"};
    gyre_view view;
    if (gyre_py_array_open(array, object, name) < 0 ||
        gyre_py_array_is(array, GYRE_PY_SHORT_REAL, "float16, bfloat16 or float32") < 0 ||
        gyre_py_array_view(array, &layout, &view) < 0)
        return -1;
    *out = gyre_py_const(&view);
    return 0;
}

/* Tokens of the longest sequence; of a table that the library refuses, no more than there can be. */
static int64_t longest(const paged_call *c) {
    const gyre_pages *pages = &c->pages;
    const int64_t size = pages->k.shape[1], end = pages->lengths ? 0 : c->numbers[0].shape[0];
    int64_t most = 0;
    for (int64_t s = 0; s < pages->sequences; s++) {
        const int64_t count = pages->lengths ? 0 : (int64_t)pages->indptr[s + 1] - pages->indptr[s];
        const int64_t tokens = pages->lengths ? pages->lengths[s]
                               : count > 0    ? (count - 1) * size + pages->last_page_len[s]
                                              : 0;
        most = tokens > most ? tokens : most;
    }
    return pages->lengths || most < end * size ? most : end * size;
}

static gyre_status attend(paged_call *c, const gyre_exec *exec, gyre_error *err) {
    gyre_py_attention_call *a = &c->attention;
    size_t bytes = 0;
    gyre_status status = gyre_paged_attention_scratch(&a->args, &c->pages, exec, &bytes, err);
    if (!status) status = gyre_py_take_scratch(bytes, &a->scratch, err);
    for (int more = 1; more && !status; more = gyre_py_next_picture(a))
        status = gyre_paged_attention(&a->args, &c->pages, a->scratch, exec, err);
    return status;
}

const char gyre_py_paged_attention_doc[] =
    "paged_attention($module, q, key_pages, value_pages, indices, key_lengths=None, *, indptr=None, last_page_len=None, "
    "query_starts=None, page_layout=None, encoding=None, out=None, lse=False, weights=False, scores=False, order=None, "
    "causal=True" GYRE_PY_OPTIONS ")\n--\n\n"
    "gyre.attention over keys and values in pages, which are read where they are.\n"
    "\n"
    "Args:\n"
    "    q: batch row s has the queries of sequence s; with query_starts, layout \"thd\", sequence s has queries\n"
    "        query_starts[s] .. query_starts[s + 1] - 1.\n"
    "    key_pages, value_pages: arrays of float16, bfloat16 or float32, [pages, tokens, heads, channels] for\n"
    "        page_layout \"NHD\" (the default), [pages, heads, tokens, channels] for \"HND\".\n"
    "    indices: int32, the pages of each sequence in order: [sequences, pages] with key_lengths, as in vLLM; [pages] "
    "with\n"
    "        indptr and last_page_len, as in FlashInfer.\n"
    "    key_lengths: int32 [sequences], tokens of each sequence.\n"
    "    indptr: int32 [sequences + 1]: sequence s has pages indices[indptr[s]] .. indices[indptr[s + 1] - 1].\n"
    "    last_page_len: int32 [sequences]: tokens of the last of them.\n"
    "    positions: of the queries; None = the last tokens of each sequence.  Keys are at 0, 1, 2, ...\n"
    "    encoding: None = keys are rotated already, as q is.\n"
    "\n"
    "The bits are those of gyre.attention over the same keys in one array.";
PyObject *gyre_py_paged_attention(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    enum { TABLE = 3, RAGGED = 7, PAGE_LAYOUT, ENCODING, OUT, MORE, ORDER = MORE + GYRE_PY_MORE, FIRST };
    static const char *const page_layouts[] = {"NHD", "HND"};
    PyObject *a[FIRST + OPTIONS] = {NULL}, *finished = NULL;
    gyre_py_attention_inputs in = {0};
    gyre_py_attention_results results = {0};
    paged_call c = {.pages = GYRE_INIT(gyre_pages)};
    int heads_first = 0;
    (void)self;
    if (gyre_py_arguments(gyre_py_paged_attention_doc, args, count, keywords, a) < 0 ||
        gyre_py_attention_results_read(&results, a + MORE) < 0 ||
        gyre_py_word(a[PAGE_LAYOUT], "page_layout", page_layouts, 2, &heads_first) < 0 ||
        gyre_py_encoding_of(a[ENCODING], "encoding", &in.encoding) < 0)
        return NULL;
    in.q = a[0];
    in.ragged = a[RAGGED];
    in.causal = GYRE_CAUSAL_BY_POSITION;
    in.order = a[ORDER];
    in.options = a + FIRST;
    gyre_py_threads threads = gyre_py_threads_begin(0);
    if (open_pages(&c.k, a[1], "key_pages", heads_first, &c.pages.k) == 0 &&
        open_pages(&c.v, a[2], "value_pages", heads_first, &c.pages.v) == 0 && open_table(&c, a + TABLE) == 0 &&
        gyre_py_attention_open(&c.attention, &in) == 0 &&
        gyre_py_attention_results_make(&c.attention, &results, a[OUT], c.pages.v.shape[3], longest(&c)) == 0) {
        gyre_error err = {0};
        gyre_status status;
        Py_BEGIN_ALLOW_THREADS
        status = attend(&c, gyre_py_exec(&threads), &err);
        Py_END_ALLOW_THREADS
        finished = !status ? gyre_py_attention_results_finish(&results) : gyre_py_raise(status, &err);
    }
    gyre_py_threads_end(&threads);
    gyre_py_attention_results_drop(&results);
    close_paged(&c);
    return finished;
}
