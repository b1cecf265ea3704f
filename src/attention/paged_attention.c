/* paged_attention.c: attention over keys and values in pages of the caller, one sequence after the other: each is a call of
 * attention whose source of keys follows the table of pages. */
#include "attention/attention.h"
#include "attention/forward/attention_weights.h"
#include "attention/segments.h"
#include "attention/sequence_options.h"
#include "call/call_sequences.h"
#include "call/call_views.h"
#include "core/convert.h"
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
    gyre_sequence_indices indices; /* what those of row point to */
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
                          .k_row_stride = gyre_cview_step(k, 1),
                          .v_row_stride = gyre_cview_step(v, 1),
                          .k_step = gyre_cview_step(k, 3),
                          .v_step = gyre_cview_step(v, 3)};
}

static void gate_sums_of_pages(const gyre_key_source *source, int64_t batch, int64_t head, int64_t first, int64_t count,
                               double *out) {
    const paged_call *c = source->run_ctx;
    const gyre_cview *sums = &c->args.k_gate_sums;
    const int64_t size = page_tokens(&c->pages);
    (void)batch;
    for (int64_t i = 0; i < count; i++)
        gyre_load_row_f64(gyre_cview_at(sums, c->table[(first + i) / size], (first + i) % size, head, 0), sums->dtype, 1, 1,
                          &out[i]);
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
    return GYRE_OK;
}

static gyre_status check_indices(const paged_call *c, int64_t s, gyre_error *err) {
    const gyre_pages *pages = &c->pages;
    int64_t first;
    const int64_t count = pages_of(pages, s, &first);
    for (int64_t i = first; i < first + count; i++)
        if (pages->indices[i] < 0 || pages->indices[i] >= pages->k.shape[0])
            return gyre_fail(err, GYRE_EINVAL, "pages.indices[%" PRId64 "]: %d is not in 0 .. %" PRId64 " (%s)", i,
                             (int)pages->indices[i], pages->k.shape[0] - 1, c->where);
    return GYRE_OK;
}

static gyre_status check_views(const paged_call *c, gyre_error *err) {
    const gyre_cview *k = &c->pages.k, *v = &c->pages.v;
    const int64_t values[4] = {k->shape[0], k->shape[1], k->shape[2], v->shape[3]};
    gyre_status status = gyre_call_check_blocks(k, GYRE_TYPES_KEYS, "pages.k", c->where, err);
    if (!status) status = gyre_call_check_extents(k->shape, INT32_MAX, 1, "pages.k", c->where, err);
    if (!status) status = gyre_call_check_blocks(v, GYRE_TYPES_KEYS, "pages.v", c->where, err);
    if (!status) status = gyre_call_check_input(v, values, GYRE_TYPES_KEYS, "pages.v", c->where, err);
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
    for (int64_t s = 0; s < pages->sequences && !status; s++) /* after all counts: a wrong one leads past the indices */
        status = check_indices(c, s, err);
    return status;
}

static gyre_status check_options(const paged_call *c, gyre_error *err) {
    const gyre_attention_inputs *args = &c->args;
    if (args->dropout != 0) /* its draw depends on the index of the sequence, which a call for each does not know */
        return gyre_fail(err, GYRE_EUNSUPPORTED, "dropout: %g is not 0, over pages, which are for inference (%s)",
                         args->dropout, c->where);
    if (args->k_starts)
        return gyre_fail(err, GYRE_EINVAL, "k_starts: are set, but the tables of pages say which keys a sequence has (%s)",
                         c->where);
    return GYRE_OK;
}

/* Gate sums of keys are in pages too, beside the keys. */
static gyre_status check_gates(const paged_call *c, gyre_error *err) {
    const gyre_cview *k = &c->pages.k, *sums = &c->args.k_gate_sums;
    const int64_t shape[4] = {k->shape[0], k->shape[1], c->args.q.shape[2], 1};
    if (!sums->data != !c->args.q_gate_sums.data)
        return gyre_fail(err, GYRE_EINVAL, "%s: is missing, but %s is set (%s)", sums->data ? "gates.q" : "gates.k",
                         sums->data ? "gates.k" : "gates.q", c->where);
    return sums->data ? gyre_call_check_input(sums, shape, GYRE_TYPES_WIDE, "gates.k", c->where, err) : GYRE_OK;
}

/* What has a row for each query: batch rows are the sequences, or q_starts cut the one there is. */
static gyre_status check_query_rows(const paged_call *c, gyre_error *err) {
    const gyre_attention_inputs *args = &c->args;
    const int64_t *q = args->q.shape, values = c->pages.v.shape[3], queries = args->weights.shape[1];
    const struct {
        const char *name;
        int is_set;
        const int64_t *shape, wanted[4];
    } rows[] = {{"out", args->out.data || !args->state.data, args->out.shape, {q[0], q[1], q[2], values}},
                {"lse", args->lse.data != NULL, args->lse.shape, {q[0], q[1], q[2], 1}},
                {"state", args->state.data != NULL, args->state.shape, {q[0], q[1], q[2], 2 + values}},
                {"mask", args->mask.data != NULL, args->mask.shape, {q[0], q[1], q[2], c->keys}},
                {"weights", args->weights.data != NULL, args->weights.shape, {q[0], queries, q[2], c->keys}},
                {"gates.q", args->q_gate_sums.data != NULL, args->q_gate_sums.shape, {q[0], q[1], q[2], 1}},
                {"slopes", args->slopes.data != NULL, args->slopes.shape, {c->rows, 1, q[2], 1}}};
    gyre_status status = GYRE_OK;
    for (size_t i = 0; i < sizeof rows / sizeof *rows && !status; i++)
        if (rows[i].is_set) status = gyre_shape_check(rows[i].shape, rows[i].wanted, rows[i].name, c->where, err);
    if (status || !args->weights.data) return status;
    if (queries < 0 || args->weights_first < 0 || queries > q[1] - args->weights_first)
        return gyre_fail(err, GYRE_EINVAL,
                         "weights.first: %" PRId64 " queries from %" PRId64 " on, but there are %" PRId64 " (%s)", queries,
                         args->weights_first, q[1], c->where);
    return gyre_call_check_type(args->weights.dtype, GYRE_TYPES_F32, "weights", c->where, err);
}

/* Here, because the call for one sequence would name it as the first. */
static gyre_status check_padding(const paged_call *c, gyre_error *err) {
    const gyre_attention_inputs *args = &c->args;
    for (int64_t s = 0; s < c->rows && (args->k_first || args->k_end); s++) {
        const int64_t keys = tokens_of(&c->pages, s), first = args->k_first ? args->k_first[s] : 0,
                      end = args->k_end ? args->k_end[s] : keys;
        if (first < 0 || first > end || end > keys)
            return gyre_fail(err, GYRE_EINVAL,
                             "k_first, k_end: keys %" PRId64 " .. %" PRId64 " of sequence %" PRId64 ", which has %" PRId64
                             " keys (%s)",
                             first, end, s, keys, c->where);
    }
    return GYRE_OK;
}

static gyre_status check_rows(paged_call *c, gyre_error *err) {
    const gyre_attention_inputs *args = &c->args;
    const int64_t *q = args->q.shape;
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
    if (!status) status = check_padding(c, err);
    return status ? status : check_query_rows(c, err);
}

/* -- one sequence -- */

static int64_t queries_of(const paged_call *c, int64_t s) {
    return gyre_call_queries(&c->args.q, c->args.q_starts, s);
}

/* Without data and base the queries are the last tokens, or the last before k_end. */
static gyre_positions query_positions(const paged_call *c, int64_t s) {
    const gyre_attention_inputs *args = &c->args;
    const int64_t queries = queries_of(c, s), end = args->k_end ? args->k_end[s] : c->tokens,
                  q_end = args->q_end && args->causal == GYRE_CAUSAL_BY_ORDER
                              ? gyre_max_i64(0, gyre_min_i64(args->q_end[s], queries))
                              : queries;
    gyre_positions out = gyre_call_query_positions(&args->q_pos, args->q_starts, s);
    if (!out.data && out.base == 0 && !args->k_pos.data)
        out.base = gyre_wrapping_add_i64(args->k_pos.base, gyre_wrapping_add_i64(end, -q_end));
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
    const gyre_attention_inputs *args = &c->args;
    gyre_attention_inputs *row = &c->row;
    int64_t first;
    (void)pages_of(&c->pages, s, &first);
    c->table = c->pages.indices + first;
    *row = *args;
    take_keys(c, tokens_of(&c->pages, s));
    gyre_call_take_queries(&row->q, args->q_starts, s);
    gyre_call_take_results(&row->out, args->q_starts, s);
    gyre_call_take_results(&row->lse, args->q_starts, s);
    row->q_pos = query_positions(c, s);
    row->k_pos = gyre_positions_of_row(&args->k_pos, s);
    gyre_weights_narrow(row, args->q_starts ? 0 : s, args->q_starts ? args->q_starts[s] : 0, queries_of(c, s), 0, c->tokens);
    if (row->k_first) row->k_first += s;
    if (row->k_end) row->k_end += s;
    gyre_sequence_options_take(row, s, c->tokens, &c->indices);
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
    if (status) return status;
    c->rows = c->pages.sequences;
    c->keys = 0;
    for (int64_t s = 0; s < c->rows; s++)
        if (tokens_of(&c->pages, s) > c->keys) c->keys = tokens_of(&c->pages, s);
    if (c->args.state.data && !c->args.out.data) c->args.out.shape[3] = c->pages.v.shape[3];
    status = check_rows(c, err);
    if (!status) status = check_gates(c, err);
    if (status) return status;
    const int together = heads_adjacent(&c->pages.k) && heads_adjacent(&c->pages.v);
    c->source = (gyre_key_source){.run_ctx = c,
                                  .k_dtype = c->pages.k.dtype,
                                  .v_dtype = c->pages.v.dtype,
                                  .run = run_of_pages,
                                  .gate_sums = c->args.k_gate_sums.data ? gate_sums_of_pages : NULL,
                                  .heads_together = together ? c->pages.k.shape[2] : 1};
    c->request = (gyre_attention_request){where, &c->row, &c->source, NULL, 0, 0, NULL};
    c->run.common = (gyre_call){.where = where};
    c->run.request = &c->request;
    c->queries = c->args.q_starts ? gyre_call_longest(c->args.q_starts, c->rows, 0) : c->args.q.shape[1];
    return GYRE_OK;
}

/* *bytes = scratch of a sequence with the most queries and the most keys. */
static gyre_status plan_largest(paged_call *c, const gyre_exec *exec, size_t *bytes, gyre_error *err) {
    gyre_attention_inputs *row = &c->row;
    gyre_cview *const read[] = {&row->q, &row->mask, &row->q_gate_sums};
    gyre_view *const written[] = {&row->out, &row->lse, &row->state};
    *row = c->args;
    row->q_starts = NULL;
    row->sequences = 0;
    for (int i = 0; i < 3; i++) {
        read[i]->shape[0] = written[i]->shape[0] = 1;
        read[i]->shape[1] = written[i]->shape[1] = c->queries;
    }
    row->weights.shape[0] = row->slopes.shape[0] = 1;
    row->weights.shape[1] = gyre_min_i64(row->weights.shape[1], c->queries);
    row->weights_first = 0;
    row->k_gate_sums.data = NULL;
    take_keys(c, c->keys);
    if (c->rows == 0) row->k_first = row->k_end = row->q_end = row->context_lengths = NULL; /* of no sequence */
    return gyre_attention_request_bytes(&c->request, exec, bytes, err);
}

gyre_status gyre_paged_attention_scratch(const gyre_attention_args *args, const gyre_pages *pages, const gyre_exec *exec,
                                         size_t *bytes, gyre_error *err) {
    paged_call c;
    const gyre_status status = begin(&c, "gyre_paged_attention_scratch", args, pages, err);
    return status ? status : plan_largest(&c, exec, bytes, err);
}

/* Outputs share no memory with each other, with inputs, or with pages. */
static gyre_status check_apart(const paged_call *c, gyre_error *err) {
    const gyre_cview out = gyre_const(c->args.out), lse = gyre_const(c->args.lse), state = gyre_const(c->args.state),
                     weights = gyre_const(c->args.weights);
    gyre_attention_request batch = c->request;
    gyre_named_views read = {.count = 0}, written = {.count = 0};
    batch.args = &c->args;
    gyre_status status = gyre_attention_check_overlap(&batch, err);
    gyre_named_views_add(&read, "pages.k", c->pages.k);
    gyre_named_views_add(&read, "pages.v", c->pages.v);
    gyre_named_views_add(&read, "gates.k", c->args.k_gate_sums);
    gyre_named_views_add(&written, "out", out);
    gyre_named_views_add(&written, "lse", lse);
    gyre_named_views_add(&written, "state", state);
    gyre_named_views_add(&written, "weights", weights);
    return status ? status : gyre_call_check_apart(&written, &read, c->where, err);
}

/* The memory that rows are cut from. */
static gyre_status check_memory(const paged_call *c, gyre_error *err) {
    const gyre_attention_inputs *args = &c->args;
    const int64_t axes = args->encoding ? gyre_axes_of(args->encoding) : 1, *q = args->q.shape,
                  key_heads = c->pages.k.shape[2];
    const gyre_named_views read = {
        4, {{"q", args->q}, {"mask", args->mask}, {"slopes", args->slopes}, {"gates.q", args->q_gate_sums}}};
    const struct {
        const char *name;
        const gyre_view *view;
    } written[] = {{"out", &args->out}, {"lse", &args->lse}, {"state", &args->state}, {"weights", &args->weights}};
    const struct {
        const char *name;
        const gyre_positions *positions;
        gyre_positions_extent extent;
    } all[] = {{"q_pos", &args->q_pos, {q[0], q[1], axes, q[2], args->q_pos_head_stride}},
               {"k_pos", &args->k_pos, {c->rows, c->keys, axes, key_heads, args->k_pos_head_stride}},
               {"q_index", args->q_index, {q[0], q[1], 1, 1, 0}},
               {"k_index", args->k_index, {c->rows, c->keys, 1, 1, 0}}};
    gyre_status status = GYRE_OK;
    for (int i = 0; i < read.count && !status; i++)
        if (i == 0 || read.at[i].view.data) status = gyre_cview_check(&read.at[i].view, read.at[i].name, c->where, err);
    for (int i = 0; i < 4 && !status; i++)
        if (written[i].view->data || (i == 0 && !args->state.data))
            status = gyre_output_check(written[i].view, written[i].name, c->where, err);
    for (int i = 0; i < 4 && !status; i++)
        if (all[i].positions)
            status = gyre_positions_memory_check(all[i].positions, &all[i].extent, all[i].name, c->where, err);
    return status;
}

static gyre_status check_all(paged_call *c, gyre_error *err) {
    gyre_status status = check_memory(c, err);
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
    if (!status && c.args.weights.data) gyre_weights_clear(&c.args, exec);
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
