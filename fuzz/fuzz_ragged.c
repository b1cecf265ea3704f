/* fuzz_ragged.c: ragged batches over pages of the caller and over a cache.  The bytes choose shapes, types, a table of pages
 * and starts, and may spoil any number of them.  A legal call has the bits of a call for each sequence over dense keys; one
 * that is not is refused with a text, and writes nothing.  Tables and pages are as large as the call may read. */
#include "fuzz_bytes.h"
#include "fuzz_support.h"
#include "gyre/gyre_attention.h"
#include "gyre/gyre_cache.h"
#include "numbers.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_SEQUENCES = 4, MOST_PAGE = 20, MOST_TABLE = 6, MOST_QUERIES = 12, SPOILED = 0x5a };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct ragged {
    fuzz_bytes in;
    test_random random;
    gyre_encoding *rope;
    int64_t sequences, page, pages, key_heads, heads, dim, tokens[MOST_SEQUENCES];
    gyre_dtype type;
    int is_vllm, is_legal;
    gyre_order order;
    char *memory[2]; /* pages of keys and of values */
    int32_t *indices, *indptr, *last, *lengths;
    int64_t row_stride, *starts;
    size_t row; /* bytes of a head of a token */
    float *q, *out;
} ragged;

static int is_block(gyre_dtype type) {
    return type == GYRE_DTYPE_Q8_0 || type == GYRE_DTYPE_Q4_0;
}

static size_t row_bytes(const ragged *r) {
    if (!is_block(r->type)) return (size_t)r->dim * gyre_dtype_size(r->type);
    return (size_t)r->dim / 32 * (r->type == GYRE_DTYPE_Q8_0 ? 34 : 18);
}

static int64_t total(const ragged *r) {
    return r->starts[r->sequences];
}

/* -- what the bytes choose -- */

static void take_shape(ragged *r) {
    static const gyre_dtype types[] = {GYRE_DTYPE_F32, GYRE_DTYPE_F16, GYRE_DTYPE_BF16, GYRE_DTYPE_Q8_0, GYRE_DTYPE_Q4_0};
    r->random = (test_random){1 + fuzz_byte(&r->in)};
    r->type = types[fuzz_choice(&r->in, 5)];
    r->dim = is_block(r->type) ? 32 * (1 + fuzz_choice(&r->in, 3)) : 2 * (1 + fuzz_choice(&r->in, 40));
    r->key_heads = 1 + fuzz_choice(&r->in, 2);
    r->heads = r->key_heads * (1 + fuzz_choice(&r->in, 3));
    r->page = 1 + fuzz_choice(&r->in, MOST_PAGE);
    r->sequences = fuzz_choice(&r->in, MOST_SEQUENCES + 1);
    r->order = fuzz_choice(&r->in, 3) == 1 ? GYRE_ORDER_FIXED : GYRE_ORDER_FAST;
    if (fuzz_choice(&r->in, 2))
        fuzz_require(!gyre_rope_create(&r->rope, r->dim, 100, (gyre_layout)fuzz_choice(&r->in, 2), NULL), "a rotation");
    r->row = row_bytes(r);
    r->is_legal = 1;
}

/* Starts of queries; their last is the number of queries of the views, whatever is spoiled later. */
static void take_starts(ragged *r) {
    r->starts = fuzz_room((size_t)r->sequences + 1, sizeof *r->starts);
    for (int64_t s = 0; s < r->sequences; s++)
        r->starts[s + 1] = r->starts[s] + fuzz_choice(&r->in, MOST_QUERIES);
}

/* Pages in any order, shared by sequences too. */
static void take_table(ragged *r) {
    int64_t used = 0;
    r->is_vllm = fuzz_choice(&r->in, 2);
    r->pages = 1 + fuzz_choice(&r->in, 9);
    r->row_stride = MOST_TABLE + fuzz_choice(&r->in, 3);
    r->indptr = fuzz_room((size_t)r->sequences + 1, sizeof *r->indptr);
    r->last = fuzz_room((size_t)r->sequences, sizeof *r->last);
    r->lengths = fuzz_room((size_t)r->sequences, sizeof *r->lengths);
    for (int64_t s = 0; s < r->sequences; s++) {
        r->tokens[s] = fuzz_between(&r->in, 0, MOST_TABLE * r->page);
        const int64_t count = (r->tokens[s] + r->page - 1) / r->page;
        r->lengths[s] = (int32_t)r->tokens[s];
        r->last[s] = (int32_t)(count > 0 ? r->tokens[s] - (count - 1) * r->page : 0);
        r->indptr[s + 1] = r->indptr[s] + (int32_t)count;
    }
    used = r->is_vllm ? r->sequences * r->row_stride : r->indptr[r->sequences];
    r->indices = fuzz_room((size_t)used, sizeof *r->indices);
    for (int64_t i = 0; i < used; i++)
        r->indices[i] = fuzz_choice(&r->in, (int)r->pages);
}

static void fill_pages(ragged *r) {
    const int64_t rows = r->pages * r->page * r->key_heads;
    for (int side = 0; side < 2; side++) {
        r->memory[side] = fuzz_room((size_t)rows, r->row);
        for (int64_t i = 0; i < rows * r->dim && !is_block(r->type); i++)
            test_put(r->memory[side], r->type, (size_t)i, test_uniform(&r->random));
        for (int64_t block = 0; is_block(r->type) && block < rows * r->dim / 32; block++) {
            const size_t bytes = r->row / ((size_t)r->dim / 32);
            char *at = r->memory[side] + (size_t)block * bytes;
            uint16_t scale;
            test_put(&scale, GYRE_DTYPE_F16, 0, test_uniform(&r->random) / 100);
            for (size_t i = 2; i < bytes; i++)
                at[i] = (char)(test_next(&r->random) >> 40);
            memcpy(at, &scale, sizeof scale);
        }
    }
    const size_t queries = (size_t)(total(r) * r->heads * r->dim);
    r->q = fuzz_room(queries, sizeof *r->q);
    r->out = fuzz_room(queries, sizeof *r->out);
    test_fill(&r->random, r->q, queries);
    memset(r->out, SPOILED, queries * sizeof *r->out);
}

/* One number of the table becomes another.  It stays legal where the rules of the header hold still. */
static int table_holds(const ragged *r) {
    for (int64_t s = 0; s < r->sequences; s++) {
        const int64_t count =
            r->is_vllm ? ((int64_t)r->lengths[s] + r->page - 1) / r->page : (int64_t)r->indptr[s + 1] - r->indptr[s];
        const int64_t first = r->is_vllm ? s * r->row_stride : r->indptr[s];
        if (count < 0 || first < 0 || (r->is_vllm && (r->lengths[s] < 0 || count > r->row_stride))) return 0;
        if (!r->is_vllm && count > 0 && (r->last[s] < 1 || r->last[s] > r->page)) return 0;
        for (int64_t i = first; i < first + count; i++)
            if (r->indices[i] < 0 || r->indices[i] >= r->pages) return 0;
    }
    return 1;
}

static int starts_hold(const ragged *r, int64_t queries) {
    if (r->starts[0] != 0 || r->starts[r->sequences] != queries) return 0;
    for (int64_t s = 0; s < r->sequences; s++)
        if (r->starts[s] > r->starts[s + 1]) return 0;
    return 1;
}

static int32_t odd_number(ragged *r) {
    static const int32_t numbers[] = {-1, INT32_MIN, INT32_MAX, 0, 1, 7, 100};
    return numbers[fuzz_choice(&r->in, 7)];
}

static void count_tokens(ragged *r) {
    for (int64_t s = 0; s < r->sequences; s++) {
        const int64_t count = (int64_t)r->indptr[s + 1] - r->indptr[s];
        r->tokens[s] = r->is_vllm ? r->lengths[s] : count > 0 ? (count - 1) * r->page + r->last[s] : 0;
    }
}

/* Starts of pages stay inside the table: the library cannot know how long that is. */
static void spoil(ragged *r, int64_t queries) {
    const int way = fuzz_choice(&r->in, 8);
    const int64_t at = r->sequences > 0 ? fuzz_choice(&r->in, (int)r->sequences) : 0;
    if (r->sequences == 0 || way < 3) return;
    if (way == 3 && (r->is_vllm || r->indptr[r->sequences] > 0))
        r->indices[r->is_vllm ? at * r->row_stride : 0] = odd_number(r);
    if (way == 4 && r->is_vllm) r->lengths[at] = odd_number(r);
    if (way == 4 && !r->is_vllm) r->last[at] = odd_number(r);
    if (way == 5 && !r->is_vllm && at > 0) { /* one sequence falls, or takes over pages of another */
        r->indptr[at] = (int32_t)fuzz_choice(&r->in, 1 + r->indptr[r->sequences]);
        for (int64_t s = 0; s < r->sequences; s++)
            if (r->indptr[s + 1] > r->indptr[s] && r->last[s] == 0) r->last[s] = 1;
    }
    if (way == 6) r->starts[at] += odd_number(r);
    if (way == 7) r->starts[r->sequences] += odd_number(r);
    r->is_legal = table_holds(r) && starts_hold(r, queries);
    if (r->is_legal) count_tokens(r);
}

/* -- the calls -- */

static gyre_attention_args args_of(const ragged *r, int64_t first, int64_t queries, float *out) {
    gyre_attention_args args = GYRE_INIT(gyre_attention_args);
    args.encoding = r->rope;
    args.q = gyre_cdense(r->q + first * r->heads * r->dim, GYRE_DTYPE_F32, 1, queries, r->heads, r->dim);
    args.out = gyre_dense(out + first * r->heads * r->dim, GYRE_DTYPE_F32, 1, queries, r->heads, r->dim);
    args.causal = GYRE_CAUSAL_BY_POSITION;
    args.order = r->order;
    return args;
}

static gyre_status attend_pages(const ragged *r, int64_t queries, gyre_error *err) {
    gyre_pages pages = GYRE_INIT(gyre_pages);
    gyre_attention_batch batch = GYRE_INIT(gyre_attention_batch);
    gyre_attention_args args = args_of(r, 0, queries, r->out);
    size_t bytes = 0;
    batch.q_starts = r->starts, batch.sequences = r->sequences;
    args.batch = &batch;
    pages.k = gyre_cdense(r->memory[0], r->type, r->pages, r->page, r->key_heads, r->dim);
    pages.v = gyre_cdense(r->memory[1], r->type, r->pages, r->page, r->key_heads, r->dim);
    pages.indices = r->indices, pages.sequences = r->sequences, pages.row_stride = r->row_stride;
    pages.indptr = r->indptr, pages.last_page_len = r->last;
    if (r->is_vllm) pages.lengths = r->lengths;
    gyre_status status = gyre_paged_attention_scratch(&args, &pages, NULL, &bytes, err);
    if (status) return status;
    const fuzz_scratch scratch = fuzz_scratch_make(bytes);
    status = gyre_paged_attention(&args, &pages, (gyre_scratch){scratch.memory, scratch.bytes}, NULL, err);
    free(scratch.memory);
    return status;
}

/* *dense = the rows of one side of a sequence, one token after the other. */
static char *gather(const ragged *r, int side, int64_t s) {
    const size_t token = (size_t)r->key_heads * r->row;
    const int32_t *table = r->indices + (r->is_vllm ? s * r->row_stride : r->indptr[s]);
    char *dense = fuzz_room((size_t)r->tokens[s], token);
    for (int64_t t = 0; t < r->tokens[s]; t++)
        memcpy(dense + (size_t)t * token, r->memory[side] + (size_t)(table[t / r->page] * r->page + t % r->page) * token,
               token);
    return dense;
}

static void attend_dense(const ragged *r, int64_t s, const char *const dense[2], float *out) {
    const int64_t queries = r->starts[s + 1] - r->starts[s];
    gyre_attention_args args = args_of(r, r->starts[s], queries, out);
    size_t bytes = 0;
    args.k = gyre_cdense(dense[0], r->type, 1, r->tokens[s], r->key_heads, r->dim);
    args.v = gyre_cdense(dense[1], r->type, 1, r->tokens[s], r->key_heads, r->dim);
    args.q_pos.base = r->tokens[s] - queries;
    fuzz_require(!gyre_attention_scratch(&args, 0, NULL, &bytes, NULL), "scratch of a legal call");
    const fuzz_scratch scratch = fuzz_scratch_make(bytes);
    fuzz_require(!gyre_attention(&args, (gyre_scratch){scratch.memory, scratch.bytes}, NULL, NULL), "a legal call");
    free(scratch.memory);
}

static void require_unwritten(const ragged *r, int64_t queries) {
    const unsigned char *out = (const unsigned char *)r->out;
    for (size_t i = 0; i < (size_t)(queries * r->heads * r->dim) * sizeof(float); i++)
        fuzz_require(out[i] == SPOILED, "a refused call writes nothing");
}

static void judge_pages(ragged *r) {
    gyre_error err = {0, ""};
    const int64_t queries = total(r);
    spoil(r, queries);
    const gyre_status status = attend_pages(r, queries, &err);
    fuzz_require_error(status, &err);
    fuzz_require((!status) == r->is_legal, err.text[0] ? err.text : "a call that breaks a rule is refused");
    if (status) {
        require_unwritten(r, queries);
        return;
    }
    float *want = fuzz_room((size_t)(queries * r->heads * r->dim), sizeof *want);
    for (int64_t s = 0; s < r->sequences; s++) {
        char *const dense[2] = {gather(r, 0, s), gather(r, 1, s)};
        if (r->starts[s + 1] > r->starts[s]) attend_dense(r, s, (const char *const *)dense, want);
        free(dense[0]), free(dense[1]);
    }
    fuzz_require(memcmp(want, r->out, (size_t)(queries * r->heads * r->dim) * sizeof *want) == 0,
                 "pages have the bits of dense keys");
    free(want);
}

/* -- over a cache -- */

static gyre_cache *make_cache(const ragged *r, gyre_error *err) {
    gyre_cache_config config = GYRE_INIT(gyre_cache_config);
    gyre_cache *cache = NULL;
    config.encoding = r->rope;
    config.keys = GYRE_CACHE_KEYS_RAW;
    config.key_dtype = config.value_dtype = r->type;
    config.heads = r->key_heads, config.head_dim = r->dim;
    config.sequences = MOST_SEQUENCES;
    config.max_tokens = MOST_SEQUENCES * MOST_TABLE * MOST_PAGE + MOST_SEQUENCES * MOST_PAGE, config.page_tokens = r->page;
    fuzz_require(!gyre_cache_create(&cache, &config, NULL, err), err->text);
    return cache;
}

/* Tokens of all sequences in one call; the pages are a batch of rows here. */
static gyre_status append(const ragged *r, gyre_cache *cache, const int64_t *sequences, const int64_t *starts,
                          gyre_error *err) {
    gyre_cache_append_batch_args args = GYRE_INIT(gyre_cache_append_batch_args);
    const int64_t tokens = r->pages * r->page;
    args.sequences = sequences, args.starts = starts, args.count = r->sequences;
    args.k = gyre_cdense(r->memory[0], r->type, 1, tokens, r->key_heads, r->dim);
    args.v = gyre_cdense(r->memory[1], r->type, 1, tokens, r->key_heads, r->dim);
    return gyre_cache_append_batch(cache, &args, NULL, err);
}

static gyre_status attend_cache(const ragged *r, const gyre_cache *cache, const int64_t *sequences, gyre_error *err) {
    gyre_attention_batch batch = GYRE_INIT(gyre_attention_batch);
    gyre_attention_args args = args_of(r, 0, r->starts[r->sequences], r->out);
    size_t bytes = 0;
    args.encoding = NULL;
    batch.q_starts = r->starts, batch.sequences = r->sequences;
    args.batch = &batch;
    gyre_status status = gyre_cache_attention_scratch(cache, sequences, &args, NULL, &bytes, err);
    if (status) return status;
    const fuzz_scratch scratch = fuzz_scratch_make(bytes);
    status = gyre_cache_attention(cache, sequences, &args, (gyre_scratch){scratch.memory, scratch.bytes}, NULL, err);
    free(scratch.memory);
    return status;
}

static void judge_cache(ragged *r) {
    int64_t sequences[MOST_SEQUENCES], starts[MOST_SEQUENCES + 1] = {0};
    const int64_t tokens = r->pages * r->page, most = MOST_TABLE * MOST_PAGE;
    gyre_error err = {0, ""};
    int is_legal = !is_block(r->type) && r->sequences > 0;
    if (!is_legal || tokens > most) return;
    for (int64_t s = 0; s < r->sequences; s++) {
        sequences[s] = (int64_t)fuzz_choice(&r->in, MOST_SEQUENCES + 1) - (fuzz_choice(&r->in, 8) == 7);
        starts[s + 1] = s + 1 < r->sequences ? fuzz_between(&r->in, 0, tokens + 1) : tokens;
        is_legal &= sequences[s] >= 0 && sequences[s] < MOST_SEQUENCES && starts[s] <= starts[s + 1];
        for (int64_t t = 0; t < s; t++)
            is_legal &= sequences[t] != sequences[s];
    }
    gyre_cache *cache = make_cache(r, &err);
    gyre_status status = append(r, cache, sequences, starts, &err);
    fuzz_require_error(status, &err);
    fuzz_require((!status) == is_legal, err.text[0] ? err.text : "what breaks a rule is not appended");
    for (int64_t s = 0; s < MOST_SEQUENCES && status; s++)
        fuzz_require(gyre_cache_tokens(cache, s) == 0, "a refused call appends nothing");
    const size_t queries = (size_t)(total(r) * r->heads * r->dim);
    if (!status) {
        float *want = fuzz_room(queries, sizeof *want);
        for (int64_t s = 0; s < r->sequences; s++) {
            const size_t first = (size_t)(starts[s] * r->key_heads) * r->row;
            const char *const dense[2] = {r->memory[0] + first, r->memory[1] + first};
            r->tokens[s] = starts[s + 1] - starts[s];
            fuzz_require(gyre_cache_tokens(cache, sequences[s]) == r->tokens[s], "each sequence has its tokens");
            if (r->starts[s + 1] > r->starts[s]) attend_dense(r, s, dense, want);
        }
        status = attend_cache(r, cache, sequences, &err);
        fuzz_require(!status, err.text);
        /* In the fast order a cache may cut the sum over keys where its pages end. */
        fuzz_require(r->order == GYRE_ORDER_FAST || memcmp(want, r->out, queries * sizeof *want) == 0,
                     "a cache has the bits of dense keys");
        free(want);
    }
    gyre_cache_free(cache);
}

static void free_all(ragged *r) {
    void *const all[] = {r->memory[0], r->memory[1], r->indices, r->indptr, r->last, r->lengths, r->starts, r->q, r->out};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    gyre_encoding_free(r->rope);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ragged r = {.in = {data, size}};
    const int over_cache = fuzz_choice(&r.in, 3) == 2;
    take_shape(&r);
    take_starts(&r);
    take_table(&r);
    fill_pages(&r);
    if (over_cache)
        judge_cache(&r);
    else
        judge_pages(&r);
    free_all(&r);
    return 0;
}
