/* paged_attention.c: attention over keys and values in pages of the caller, one sequence after the other: each is a call of
 * attention whose source of keys follows the table of pages. */
#include "attention/attention.h"
#include "call/call_sequences.h"
#include "call/call_views.h"
#include "core/encoding.h"
#include "core/positions.h"
#include "core/scheme.h"
#include "core/sized.h"
#include "core/view.h"
#include "util/error.h"
#include "util/integers.h"

#include <inttypes.h>

typedef struct paged_call {
    const char *where;
    gyre_pages pages;
    gyre_attention_inputs args;  /* as the caller gave them */
    int64_t rows, queries, keys; /* sequences; queries and keys of one of them, at most */
    /* One sequence. */
    const int32_t *table;
    int64_t tokens;
    gyre_key_source source;
    gyre_attention_inputs row;
    gyre_attention_request request;
    gyre_attention_run run;
} paged_call;

/* -- the table -- */

static int64_t page_tokens(const gyre_pages *pages) {
    return pages->k.shape[1];
}

/* *first = the first page of a sequence in `indices`; out = its pages. */
static int64_t pages_of(const gyre_pages *pages, int64_t s, int64_t *first) {
    const int64_t size = page_tokens(pages);
    *first = pages->lengths ? s * pages->row_stride : pages->indptr[s];
    return pages->lengths ? (pages->lengths[s] + size - 1) / size : pages->indptr[s + 1] - *first;
}

static int64_t tokens_of(const gyre_pages *pages, int64_t s) {
    int64_t first;
    if (pages->lengths) return pages->lengths[s];
    const int64_t count = pages_of(pages, s, &first);
    return count > 0 ? (count - 1) * page_tokens(pages) + pages->last_page_len[s] : 0;
}

/* Tokens from `first` on, to the end of their page. */
static void run_of_pages(const gyre_key_source *source, int64_t batch, int64_t head, int64_t first, gyre_key_run *run) {
    const paged_call *c = source->run_ctx;
    const gyre_cview *k = &c->pages.k, *v = &c->pages.v;
    const int64_t size = k->shape[1], page = c->table[first / size], at = first % size, left = c->tokens - first;
    (void)batch;
    *run = (gyre_key_run){.k = gyre_cview_at(k, page, at, head, 0),
                          .v = gyre_cview_at(v, page, at, head, 0),
                          .count = size - at < left ? size - at : left,
                          .k_row_stride = k->stride[1],
                          .v_row_stride = v->stride[1],
                          .k_step = k->shape[3] > 1 ? k->stride[3] : 1,
                          .v_step = v->shape[3] > 1 ? v->stride[3] : 1};
}

static int heads_adjacent(const gyre_cview *view) {
    return view->stride[3] == 1 && view->stride[2] == view->shape[3] && view->stride[1] >= view->shape[2] * view->shape[3];
}

/* -- checks -- */

static gyre_status check_counts(const paged_call *c, int64_t s, gyre_error *err) {
    const gyre_pages *pages = &c->pages;
    int64_t first;
    if (pages->lengths && pages->lengths[s] < 0)
        return gyre_fail(err, GYRE_EINVAL, "pages.lengths[%" PRId64 "]: %d is below 0 (%s)", s, (int)pages->lengths[s],
                         c->where);
    if (!pages->lengths && pages->indptr[s + 1] < pages->indptr[s])
        return gyre_fail(err, GYRE_EINVAL, "pages.indptr[%" PRId64 "]: %d is below %d before it (%s)", s + 1,
                         (int)pages->indptr[s + 1], (int)pages->indptr[s], c->where);
    const int64_t count = pages_of(pages, s, &first);
    if (pages->lengths && count > pages->row_stride)
        return gyre_fail(err, GYRE_EINVAL,
                         "pages.lengths[%" PRId64 "]: %d tokens take %" PRId64 " pages, but row_stride is %" PRId64 " (%s)",
                         s, (int)pages->lengths[s], count, pages->row_stride, c->where);
    if (!pages->lengths && count > 0 && (pages->last_page_len[s] < 1 || pages->last_page_len[s] > page_tokens(pages)))
        return gyre_fail(err, GYRE_EINVAL, "pages.last_page_len[%" PRId64 "]: %d is not in 1 .. %" PRId64 " (%s)", s,
                         (int)pages->last_page_len[s], page_tokens(pages), c->where);
    for (int64_t i = first; i < first + count; i++)
        if (pages->indices[i] < 0 || pages->indices[i] >= pages->k.shape[0])
            return gyre_fail(err, GYRE_EINVAL, "pages.indices[%" PRId64 "]: %d is not in 0 .. %" PRId64 " (%s)", i,
                             (int)pages->indices[i], pages->k.shape[0] - 1, c->where);
    return GYRE_OK;
}

static gyre_status check_views(const paged_call *c, gyre_error *err) {
    const gyre_cview *k = &c->pages.k, *v = &c->pages.v;
    const int64_t values[4] = {k->shape[0], k->shape[1], k->shape[2], v->shape[3]};
    gyre_status status = gyre_call_check_type(k->dtype, GYRE_TYPES_FLOATS, "pages.k", c->where, err);
    if (!status) status = gyre_call_check_extents(k->shape, INT32_MAX, 1, "pages.k", c->where, err);
    if (!status) status = gyre_call_check_input(v, values, GYRE_TYPES_FLOATS, "pages.v", c->where, err);
    if (!status) status = gyre_call_check_extents(v->shape, INT32_MAX, 1, "pages.v", c->where, err);
    return status ? status : gyre_cview_check(k, "pages.k", c->where, err);
}

static gyre_status check_table(const paged_call *c, gyre_error *err) {
    const gyre_pages *pages = &c->pages;
    gyre_status status = GYRE_OK;
    if (pages->sequences < 0)
        return gyre_fail(err, GYRE_EINVAL, "pages.sequences: %" PRId64 " is below 0 (%s)", pages->sequences, c->where);
    if (pages->sequences == 0) return GYRE_OK;
    if (!pages->lengths && (!pages->indptr || !pages->last_page_len))
        return gyre_fail(err, GYRE_EINVAL, "pages.%s: is NULL, and so is lengths (%s)",
                         pages->indptr ? "last_page_len" : "indptr", c->where);
    if (!pages->indices) return gyre_fail(err, GYRE_EINVAL, "pages.indices: is NULL (%s)", c->where);
    if (!pages->lengths && pages->indptr[0] < 0)
        return gyre_fail(err, GYRE_EINVAL, "pages.indptr[0]: %d is below 0 (%s)", (int)pages->indptr[0], c->where);
    for (int64_t s = 0; s < pages->sequences && !status; s++)
        status = check_counts(c, s, err);
    return status;
}

static gyre_status check_options(const paged_call *c, gyre_error *err) {
    const gyre_attention_inputs *args = &c->args;
    const struct {
        const char *name;
        int is_set;
    } options[] = {{"mask", args->mask.data != NULL},
                   {"k_starts", args->k_starts != NULL},
                   {"k_first, k_end", args->k_first || args->k_end},
                   {"q_end", args->q_end != NULL},
                   {"context_lengths", args->context_lengths != NULL},
                   {"slopes", args->slopes.data != NULL},
                   {"head strides of positions", args->q_pos_head_stride != 0 || args->k_pos_head_stride != 0},
                   {"gates", args->q_gate_sums.data || args->k_gate_sums.data},
                   {"dropout", args->dropout != 0},
                   {"weights", args->weights.data != NULL},
                   {"part", args->state.data || args->q_index || args->k_index},
                   {"k_pos.data", args->k_pos.data != NULL}};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (options[i].is_set)
            return gyre_fail(err, GYRE_EUNSUPPORTED, "%s: over pages of the caller (%s)", options[i].name, c->where);
    return GYRE_OK;
}

/* Rows of q, out and lse: the sequences, or q_starts. */
static gyre_status check_rows(paged_call *c, gyre_error *err) {
    const gyre_attention_inputs *args = &c->args;
    const int64_t *q = args->q.shape, out[4] = {q[0], q[1], q[2], c->pages.v.shape[3]}, lse[4] = {q[0], q[1], q[2], 1};
    c->rows = c->pages.sequences;
    gyre_status status = GYRE_OK;
    if (args->q_starts && q[0] != 1)
        return gyre_fail(err, GYRE_ESHAPE, "q: %" PRId64 " batch rows, but with q_starts it has 1 (%s)", q[0], c->where);
    if (args->q_starts && args->sequences != c->rows)
        return gyre_fail(err, GYRE_ESHAPE, "sequences: %" PRId64 ", but the pages are of %" PRId64 " (%s)", args->sequences,
                         c->rows, c->where);
    if (!args->q_starts && q[0] != c->rows)
        return gyre_fail(err, GYRE_ESHAPE, "q: %" PRId64 " batch rows, but the pages are of %" PRId64 " sequences (%s)",
                         q[0], c->rows, c->where);
    if (args->q_starts && c->rows > 0)
        status = gyre_call_check_starts(args->q_starts, c->rows, q[1], "q_starts", c->where, err);
    if (!status) status = gyre_shape_check(args->out.shape, out, "out", c->where, err);
    if (!status && args->lse.data) status = gyre_shape_check(args->lse.shape, lse, "lse", c->where, err);
    return status;
}

/* -- one sequence -- */

static int64_t first_query(const paged_call *c, int64_t s) {
    return c->args.q_starts ? c->args.q_starts[s] : 0;
}
static int64_t queries_of(const paged_call *c, int64_t s) {
    return c->args.q_starts ? c->args.q_starts[s + 1] - c->args.q_starts[s] : c->args.q.shape[1];
}

static void take_queries(const paged_call *c, int64_t s, gyre_cview *view) {
    gyre_cview_narrow(view, c->args.q_starts ? 1 : 0, c->args.q_starts ? first_query(c, s) : s,
                      c->args.q_starts ? queries_of(c, s) : 1);
}
static void take_results(const paged_call *c, int64_t s, gyre_view *view) {
    gyre_view_narrow(view, c->args.q_starts ? 1 : 0, c->args.q_starts ? first_query(c, s) : s,
                     c->args.q_starts ? queries_of(c, s) : 1);
}

/* Without data and base the queries are the last tokens. */
static gyre_positions query_positions(const paged_call *c, int64_t s) {
    gyre_positions out = c->args.q_pos;
    if (!out.data && out.base == 0) out.base = gyre_wrapping_add_i64(c->args.k_pos.base, c->tokens - queries_of(c, s));
    const int64_t step = c->args.q_starts ? first_query(c, s) * out.stride_token : s * out.stride_batch;
    if (out.data) out.data = (const char *)out.data + step * (int64_t)gyre_dtype_size(out.dtype);
    return out;
}

/* Keys and values by their shape alone: the source has their memory. */
static void take_keys(paged_call *c, int64_t tokens) {
    const gyre_cview *k = &c->pages.k, *v = &c->pages.v;
    c->tokens = tokens;
    c->row.k = gyre_cdense(NULL, GYRE_DTYPE_F32, 1, tokens, k->shape[2], k->shape[3]);
    c->row.v = gyre_cdense(NULL, GYRE_DTYPE_F32, 1, tokens, v->shape[2], v->shape[3]);
}

static void take_row(paged_call *c, int64_t s) {
    int64_t first;
    (void)pages_of(&c->pages, s, &first);
    c->table = c->pages.indices + first;
    c->row = c->args;
    c->row.q_starts = NULL;
    c->row.sequences = 0;
    take_keys(c, tokens_of(&c->pages, s));
    take_queries(c, s, &c->row.q);
    take_results(c, s, &c->row.out);
    take_results(c, s, &c->row.lse);
    c->row.q_pos = query_positions(c, s);
}

/* -- the calls -- */

static gyre_status begin(paged_call *c, const char *where, const gyre_attention_args *given, const gyre_pages *pages,
                         gyre_error *err) {
    c->where = where;
    gyre_status status = gyre_attention_args_read(&c->args, given, err);
    if (!status) status = gyre_sized_read(&c->pages, sizeof c->pages, pages, "gyre_pages", err);
    if (!status) status = check_options(c, err);
    if (!status) status = check_views(c, err);
    if (!status) status = check_table(c, err);
    if (!status) status = check_rows(c, err);
    if (status) return status;
    const int together = heads_adjacent(&c->pages.k) && heads_adjacent(&c->pages.v);
    c->source = (gyre_key_source){.run_ctx = c,
                                  .k_dtype = c->pages.k.dtype,
                                  .v_dtype = c->pages.v.dtype,
                                  .run = run_of_pages,
                                  .heads_together = together ? c->pages.k.shape[2] : 1};
    c->request = (gyre_attention_request){where, &c->row, &c->source, NULL, 0, 0, NULL};
    c->run.common = (gyre_call){.where = where};
    c->run.request = &c->request;
    c->queries = c->args.q_starts ? gyre_call_longest(c->args.q_starts, c->rows, 0) : c->args.q.shape[1];
    c->keys = 0;
    for (int64_t s = 0; s < c->rows; s++)
        if (tokens_of(&c->pages, s) > c->keys) c->keys = tokens_of(&c->pages, s);
    return GYRE_OK;
}

/* *bytes = scratch of a sequence with the most queries and the most keys. */
static gyre_status plan_largest(paged_call *c, const gyre_exec *exec, size_t *bytes, gyre_error *err) {
    c->row = c->args;
    c->row.q_starts = NULL;
    c->row.sequences = 0;
    c->row.q.shape[0] = c->row.out.shape[0] = c->row.lse.shape[0] = 1;
    c->row.q.shape[1] = c->row.out.shape[1] = c->row.lse.shape[1] = c->queries;
    take_keys(c, c->keys);
    return gyre_attention_request_bytes(&c->request, exec, bytes, err);
}

gyre_status gyre_paged_attention_scratch(const gyre_attention_args *args, const gyre_pages *pages, const gyre_exec *exec,
                                         size_t *bytes, gyre_error *err) {
    paged_call c;
    const gyre_status status = begin(&c, "gyre_paged_attention_scratch", args, pages, err);
    return status ? status : plan_largest(&c, exec, bytes, err);
}

static gyre_status check_apart(const paged_call *c, gyre_error *err) {
    const gyre_cview out = gyre_const(c->args.out), lse = gyre_const(c->args.lse);
    gyre_named_views read = {.count = 0}, written = {.count = 0};
    gyre_named_views_add(&read, "q", c->args.q);
    gyre_named_views_add(&read, "pages.k", c->pages.k);
    gyre_named_views_add(&read, "pages.v", c->pages.v);
    gyre_named_views_add(&read, "sink_logits", c->args.sink_logits);
    gyre_named_views_add(&written, "out", out);
    gyre_named_views_add(&written, "lse", lse);
    return gyre_call_check_apart(&written, &read, c->where, err);
}

static gyre_status check_all(paged_call *c, gyre_error *err) {
    const int64_t axes = c->args.encoding ? gyre_axes_of(c->args.encoding) : 1;
    const gyre_positions_extent extent = {c->args.q.shape[0], c->args.q.shape[1], axes, 1, 0};
    gyre_status status = gyre_cview_check(&c->args.q, "q", c->where, err);
    if (!status) status = gyre_output_check(&c->args.out, "out", c->where, err);
    if (!status && c->args.lse.data) status = gyre_output_check(&c->args.lse, "lse", c->where, err);
    if (!status) status = gyre_positions_memory_check(&c->args.q_pos, &extent, "q_pos", c->where, err);
    for (int64_t s = 0; s < c->rows && !status; s++) {
        take_row(c, s);
        status = gyre_attention_check(&c->request, err);
    }
    return status ? status : check_apart(c, err);
}

gyre_status gyre_paged_attention(const gyre_attention_args *args, const gyre_pages *pages, gyre_scratch scratch,
                                 const gyre_exec *exec, gyre_error *err) {
    paged_call c;
    size_t bytes = 0;
    gyre_status status = begin(&c, "gyre_paged_attention", args, pages, err);
    if (!status) status = check_all(&c, err);
    if (status || gyre_view_elements(c.args.out.shape) == 0) return status;
    status = plan_largest(&c, exec, &bytes, err);
    if (!status) status = gyre_scratch_check(c.where, scratch, bytes, err);
    for (int64_t s = 0; s < c.rows && !status; s++) {
        if (queries_of(&c, s) == 0) continue;
        take_row(&c, s);
        status = gyre_call_plan(&gyre_attention_steps, &c.run, exec, &bytes, err); /* that of the largest did not fail */
        if (!status) gyre_attention_steps.run(&c.run, scratch.memory, exec);
    }
    return status;
}

/* -- rotation -- */

static gyre_status rotate_rows(const paged_call *c, const gyre_encoding *encoding, const gyre_rotate_pages_args *args,
                               int64_t s, const gyre_exec *exec, gyre_error *err) {
    const int64_t tokens = tokens_of(&c->pages, s), size = page_tokens(&c->pages);
    int64_t first;
    (void)pages_of(&c->pages, s, &first);
    for (int64_t t = args->firsts ? args->firsts[s] : 0, count; t < tokens; t += count) {
        const gyre_positions at = {.base = args->base + t, .context_length = args->context_length};
        gyre_view keys = args->k;
        count = size - t % size < tokens - t ? size - t % size : tokens - t;
        gyre_view_narrow(&keys, 0, c->pages.indices[first + t / size], 1);
        gyre_view_narrow(&keys, 1, t % size, count);
        const gyre_status status = gyre_rotate(
            encoding,
            GYRE_ARGS(gyre_rotate_args, .role = GYRE_ROLE_KEY, .positions = &at, .in = gyre_const(keys), .out = keys), exec,
            err);
        if (status) return status;
    }
    return GYRE_OK;
}

/* All that gyre_rotate could refuse, before anything is written. */
static gyre_status check_rotation(const paged_call *c, const gyre_encoding *encoding, const gyre_rotate_pages_args *args,
                                  gyre_error *err) {
    const gyre_cview keys = gyre_const(args->k);
    gyre_status status = gyre_in_out_check(&keys, &args->k, c->where, err);
    if (!status && args->k.shape[1] < 1 && c->pages.sequences > 0)
        status = gyre_fail(err, GYRE_ESHAPE, "k: %" PRId64 " tokens of a page (%s)", args->k.shape[1], c->where);
    if (!status) status = check_table(c, err);
    if (!status && (encoding->scheme->places & GYRE_PLACE_QUERY_KEY) && args->k.shape[3] != encoding->config.head_dim)
        status = gyre_fail(err, GYRE_ESHAPE, "k: %" PRId64 " channels a head, the encoding has %" PRId64 " (%s)",
                           args->k.shape[3], encoding->config.head_dim, c->where);
    if (!status && encoding->xpos_log2_decay)
        status = gyre_fail(err, GYRE_EUNSUPPORTED, "encoding: xPos, over pages (%s)", c->where);
    for (int64_t s = 0; s < c->pages.sequences && !status; s++) {
        const int64_t tokens = tokens_of(&c->pages, s), first = args->firsts ? args->firsts[s] : 0;
        if (first < 0 || first > tokens)
            return gyre_fail(err, GYRE_EINVAL, "firsts[%" PRId64 "]: %" PRId64 " is not in 0 .. %" PRId64 " (%s)", s, first,
                             tokens, c->where);
        const gyre_positions at = {.base = gyre_wrapping_add_i64(args->base, first), .context_length = args->context_length};
        status = gyre_positions_check(encoding, &at, 1, tokens - first, "base", c->where, err);
    }
    return status;
}

gyre_status gyre_rotate_pages(const gyre_encoding *encoding, const gyre_rotate_pages_args *given, const gyre_exec *exec,
                              gyre_error *err) {
    paged_call c = {.where = "gyre_rotate_pages"};
    gyre_rotate_pages_args args;
    gyre_status status = gyre_sized_read(&args, sizeof args, given, "gyre_rotate_pages_args", err);
    if (status) return status;
    if (!encoding) return gyre_fail(err, GYRE_EINVAL, "encoding: is NULL (%s)", c.where);
    status = gyre_sized_read(&c.pages, sizeof c.pages, args.pages, "gyre_pages", err);
    if (status) return status;
    c.pages.k = gyre_const(args.k);
    status = check_rotation(&c, encoding, &args, err);
    for (int64_t s = 0; s < c.pages.sequences && !status; s++)
        status = rotate_rows(&c, encoding, &args, s, exec, err);
    return status;
}
