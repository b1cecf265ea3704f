/* py_attention.h: arguments of an attention call, from Python's to gyre_attention_args, and what calls of other attention
 * share. */
#ifndef GYRE_PY_ATTENTION_H
#define GYRE_PY_ATTENTION_H
#include "py_encoding.h"

#include "gyre/gyre_cache.h"

/* The options of attention, its gradient and a cache's attention, then those that a cache has itself, as signatures have
 * them; and their order. */
#define GYRE_PY_OPTIONS                                                                                                     \
    ", layout=None, positions=None, window=None, sinks=None, scale=None, softcap=None, tables=None, mask=None, "            \
    "sink_logits=None, key_first=None, key_end=None, length=None, query_gate_sums=None"
#define GYRE_PY_OF_ARRAYS                                                                                                   \
    ", key_gate_sums=None, key_positions=None, query_starts=None, key_starts=None, query_end=None, dropout=None, seed=None"
enum {
    OPTION_CAUSAL, /* comes before the others, because its default differs */
    OPTION_LAYOUT,
    OPTION_POSITIONS,
    OPTION_WINDOW,
    OPTION_SINKS,
    OPTION_SCALE,
    OPTION_SOFTCAP,
    OPTION_TABLES,
    OPTION_MASK,
    OPTION_SINK_LOGITS,
    OPTION_KEY_FIRST,
    OPTION_KEY_END,
    OPTION_LENGTH,
    OPTION_QUERY_GATE_SUMS,
    OPTION_KEY_GATE_SUMS,
    OPTION_KEY_POSITIONS,
    OPTION_QUERY_STARTS,
    OPTION_KEY_STARTS,
    OPTION_QUERY_END,
    OPTION_DROPOUT,
    OPTION_SEED,
    OPTIONS
};

enum { GYRE_PY_LISTS = 5 };
/* A call, open.  Begin with {0}. */
typedef struct gyre_py_attention_call {
    gyre_attention_args args; /* points to the next three */
    gyre_attention_batch batch;
    gyre_attention_gates gates;
    gyre_attention_dropout dropout;
    gyre_attention_weights picture; /* weights or scores, as gyre_py_next_picture left it */
    gyre_view pictures[2];          /* weights, scores; data NULL = not wanted, or done */
    gyre_py_layout layout;
    gyre_py_array q, k, v, q_positions, k_positions, mask, sink_logits, gate_sums[2]; /* gate_sums: of queries, keys */
    gyre_py_tables tables;
    int64_t *lists[GYRE_PY_LISTS]; /* query_starts, key_starts, key_first, key_end, query_end */
    int64_t *from_zero;            /* positions 0, 1, 2, ... of queries over a cache, whose default is another */
    gyre_scratch scratch;
} gyre_py_attention_call;

/* Opens q, and k and v unless they are NULL (a cache has them), and reads the options. */
typedef struct gyre_py_attention_inputs {
    PyObject *q, *k, *v, *order; /* order: NULL = "fast" */
    PyObject *ragged;            /* query_starts of sequences whose keys are not arrays; NULL = a batch row for each */
    const gyre_py_encoding *encoding;
    PyObject *const *options;
    gyre_causal causal; /* without that option */
} gyre_py_attention_inputs;
int gyre_py_attention_open(gyre_py_attention_call *call, const gyre_py_attention_inputs *inputs);
void gyre_py_attention_close(gyre_py_attention_call *call);
/* out = 1 if q is float64; then all that has its shape is, and lse, and the call computes in double. */
int gyre_py_attention_is_double(const gyre_py_attention_call *call);
/* -1 with an exception unless the array is of a type that goes with q. */
int gyre_py_attention_type_is(const gyre_py_attention_call *call, const gyre_py_array *array);
/* The type of lse, and of gradients of tables; -1 with an exception unless the array is of it. */
gyre_dtype gyre_py_attention_wide(const gyre_py_attention_call *call);
int gyre_py_attention_wide_is(const gyre_py_attention_call *call, const gyre_py_array *array);

/* -1 with an exception that shows extents in the caller's order, unless an array has this shape. */
int gyre_py_attention_shape_is(const gyre_py_array *array, const int64_t *wanted, int ndim);

/* Memory for out and, if wanted, lse, weights and scores; sets them in the args.  values: channels of v.  keys: of the
 * longest sequence.  out NULL = new memory. */
enum { GYRE_PY_LSE, GYRE_PY_WEIGHTS, GYRE_PY_SCORES, GYRE_PY_MORE };
typedef struct gyre_py_attention_results {
    gyre_py_result out, more[GYRE_PY_MORE];
    int wants[GYRE_PY_MORE];
} gyre_py_attention_results;
/* Reads the truth values of those that are not out, in the order of the list above. */
int gyre_py_attention_results_read(gyre_py_attention_results *results, PyObject *const *wanted);
int gyre_py_attention_results_make(gyre_py_attention_call *call, gyre_py_attention_results *results, PyObject *out,
                                   int64_t values, int64_t keys);
/* A call writes weights or scores.  out = 1 if args have the next of them, for which it is to be made again. */
int gyre_py_next_picture(gyre_py_attention_call *call);
/* out, or a tuple of out and what else was wanted. */
PyObject *gyre_py_attention_results_finish(gyre_py_attention_results *results);
void gyre_py_attention_results_drop(gyre_py_attention_results *results);
/* *out = scratch memory, which free() gives back, with or without the GIL.  GYRE_ENOMEM, and err says so. */
gyre_status gyre_py_take_scratch(size_t bytes, gyre_scratch *out, gyre_error *err);

/* Opens numbers that are added to scores: the last axes of [batch, heads, queries, keys], 1 in place of those before keys
 * where all share it.  q: the shape of the view of queries.  keys -1: not known here. */
typedef struct gyre_py_score_request {
    const char *name, *types;
    unsigned dtypes;
    const int64_t *q;
    int64_t keys;
} gyre_py_score_request;
int gyre_py_scores_open(gyre_py_array *m, PyObject *object, const gyre_py_score_request *request, gyre_cview *view);

/* *out = the index of a word; True is words[1], False words[0]; NULL leaves it. */
int gyre_py_causal(PyObject *object, const char *const *words, int count, int *out);

/* Memory described by the letters of a layout without channels: log-sum-exp, gate sums. */
int gyre_py_rows_view(const gyre_py_layout *layout, const gyre_py_array *array, gyre_view *out);
/* Opens such numbers, float32 or float64. */
int gyre_py_gate_sums_open(gyre_py_array *array, PyObject *object, const char *name, const gyre_py_layout *layout,
                           gyre_view *out);

/* -- calls with arguments of their own: contextual and adaptive positions -- */

enum { GYRE_PY_TILED_LISTS = 4, GYRE_PY_TILED_RESULTS = 10 };
extern const char gyre_py_reals[]; /* the types that they take */

/* Arrays of a call.  Begin with {0}. */
typedef struct gyre_py_tiled {
    gyre_py_layout layout;
    gyre_py_array q, k, v, dout, out, lse;
    int64_t *lists[GYRE_PY_TILED_LISTS]; /* key_first, key_end, query_starts, key_starts */
    int64_t sequences;                   /* 0: no packed batch */
    gyre_py_result results[GYRE_PY_TILED_RESULTS];
    gyre_view dout_view;
    gyre_scratch scratch;
} gyre_py_tiled;
void gyre_py_tiled_close(gyre_py_tiled *t);

/* Each returns 0, or -1 with an exception. */

/* An array in the layout of the call. */
int gyre_py_tiled_rows(const gyre_py_tiled *t, gyre_py_array *array, PyObject *object, const char *name, gyre_view *view);
/* qkv[3], of which k and v are NULL where a cache has them, and their layout; views[3]. */
int gyre_py_tiled_open(gyre_py_tiled *t, PyObject *const *qkv, PyObject *layout, gyre_cview *const views[3]);
/* o: the four lists, in their order.  batch: rows of q. */
int gyre_py_tiled_read_lists(gyre_py_tiled *t, PyObject *const *o, int64_t batch);
/* A factor that may be left out but is not 0. */
int gyre_py_tiled_factor(PyObject *object, const char *name, double *to);

/* results[0] and [1]: memory for out, with so many channels, and lse. */
int gyre_py_tiled_make_out(gyre_py_tiled *t, int64_t channels, gyre_view *out, gyre_view *lse);
/* dout, and what the forward call wrote. */
int gyre_py_tiled_open_written(gyre_py_tiled *t, PyObject *const written[3], int64_t channels, gyre_view *out,
                               gyre_view *lse);
/* results[i]: memory for the gradient to rows, of their type and shape. */
int gyre_py_tiled_make_rows(gyre_py_tiled *t, int i, const gyre_py_array *of, gyre_view *view);
/* results[i]: zeros for the gradient to a table, F64 where the table is, else F32. */
int gyre_py_tiled_make_table(gyre_py_tiled *t, int i, const gyre_py_array *of);
/* out = a tuple of results[0 .. count - 1]; None where there is none. */
PyObject *gyre_py_tiled_finish(gyre_py_tiled *t, int count);
/* out = what gyre_py_tiled_make_out made: out, or (out, lse). */
PyObject *gyre_py_tiled_finish_out(gyre_py_tiled *t, int wants_lse);

/* -- calls over the sequences of a cache: py_cache.c -- */

/* Begin with {0}; end it where begin returned 0. */
typedef struct gyre_py_cached {
    PyObject *cache;
    const gyre_cache_config *config;
    PyObject *encoding; /* the cache's, for which arguments are read; NULL = none; owned: another may be set meanwhile */
    int64_t *sequences; /* of the batch rows */
} gyre_py_cached;
/* Computes without the GIL, while no other call uses the cache. */
typedef gyre_status gyre_py_attend(const gyre_cache *cache, const int64_t *sequences, void *call, const gyre_exec *exec,
                                   gyre_error *err);
int gyre_py_cached_begin(gyre_py_cached *c, PyObject *cache);
/* sequences: one for each of `rows`; NULL = 0, 1, 2, ...  The channels of q must be those of the cache. */
int gyre_py_cached_open(gyre_py_cached *c, const gyre_cview *q, int64_t rows, PyObject *sequences);
int gyre_py_cached_run(gyre_py_cached *c, gyre_py_attend *attend, void *call);
void gyre_py_cached_end(gyre_py_cached *c);

/* Methods of Cache, by file. */
GYRE_PY_METHOD(gyre_py_cache_contextual_attention);
GYRE_PY_METHOD(gyre_py_cache_adaptive_attention);

#endif
