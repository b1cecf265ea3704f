/* cache.c: making a cache, and what can be asked of it. */
#include "cache/cache.h"

#include "core/huge_pages.h"
#include "util/error.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* -- the config -- */

int64_t gyre_cache_axes_of(const gyre_encoding *encoding) {
    return encoding ? gyre_axes_of(encoding) : 1;
}

gyre_status gyre_cache_can_store_rotated(const gyre_encoding *encoding, gyre_error *err) {
    if (!gyre_cache_rotates(encoding)) return GYRE_OK;
    const struct gyre_rope_config *rope = &encoding->config.rope;
    const char *what = NULL;
    if (rope->length_policy != GYRE_LENGTH_POLICY_DECLARED) what = "the length in use follows the query";
    if (rope->far != GYRE_FAR_AS_NEAR) what = "far pairs turn otherwise";
    if (encoding->xpos_log2_decay) what = "xPos relates keys to their tile";
    return what ? gyre_fail(err, GYRE_EUNSUPPORTED, "keys: not to be kept rotated, %s (gyre_cache_config)", what) : GYRE_OK;
}

static int is_cache_dtype(gyre_dtype dtype) {
    return dtype == GYRE_DTYPE_F32 || dtype == GYRE_DTYPE_F16 || dtype == GYRE_DTYPE_BF16 || dtype == GYRE_DTYPE_Q8;
}

static gyre_status check_types(const gyre_cache_config *config, gyre_error *err) {
    const struct {
        const char *name;
        gyre_dtype dtype;
    } sides[] = {{"key_dtype", config->key_dtype}, {"value_dtype", config->value_dtype}};
    for (int i = 0; i < 2; i++) {
        if (!is_cache_dtype(sides[i].dtype))
            return gyre_fail(err, GYRE_EDTYPE, "%s: %d is none of F32, F16, BF16 and Q8 (gyre_cache_config)", sides[i].name,
                             (int)sides[i].dtype);
        if (sides[i].dtype == GYRE_DTYPE_Q8 && config->head_dim % 8 != 0)
            return gyre_fail(err, GYRE_EINVAL,
                             "head_dim: %" PRId64 " is no multiple of 8, which Q8 asks for (gyre_cache_config)",
                             config->head_dim);
    }
    return GYRE_OK;
}

static gyre_status check_numbers(const gyre_cache_config *config, gyre_error *err) {
    const int64_t most = INT64_C(1) << 40, many = INT64_C(1) << 20;
    const struct {
        const char *name;
        int64_t value, least, most;
    } fields[] = {{"heads", config->heads, 1, 65536},
                  {"head_dim", config->head_dim, 1, GYRE_CACHE_MAX_CHANNELS},
                  {"value_dim", config->value_dim, 1, GYRE_CACHE_MAX_CHANNELS},
                  {"sequences", config->sequences, 1, many},
                  {"max_tokens", config->max_tokens, config->sequences, most},
                  {"page_tokens", config->page_tokens, 0, most},
                  {"length", config->context_length, 0, INT64_MAX}};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (fields[i].value < fields[i].least || fields[i].value > fields[i].most)
            return gyre_fail(err, GYRE_EINVAL, "%s: %" PRId64 " is not in %" PRId64 " .. %" PRId64 " (gyre_cache_config)",
                             fields[i].name, fields[i].value, fields[i].least, fields[i].most);
    if (config->keys != GYRE_CACHE_KEYS_RAW && config->keys != GYRE_CACHE_KEYS_ROTATED)
        return gyre_fail(err, GYRE_EINVAL, "keys: %d is neither RAW nor ROTATED (gyre_cache_config)", (int)config->keys);
    return check_types(config, err);
}

static gyre_status check_config(const gyre_cache_config *config, gyre_error *err) {
    const gyre_encoding *encoding = config->encoding;
    const gyre_status status = check_numbers(config, err);
    if (status != GYRE_OK) return status;
    if (gyre_cache_rotates(encoding) && encoding->config.head_dim != config->head_dim)
        return gyre_fail(err, GYRE_ESHAPE, "head_dim: %" PRId64 " is not the encoding's %" PRId64 " (gyre_cache_config)",
                         config->head_dim, encoding->config.head_dim);
    return config->keys == GYRE_CACHE_KEYS_ROTATED ? gyre_cache_can_store_rotated(encoding, err) : GYRE_OK;
}

/* -- memory -- */

enum { ALIGNMENT = 64 };

static void *system_alloc(void *ctx, size_t bytes, size_t align) {
    (void)ctx;
    if (bytes > SIZE_MAX - align) return NULL;
    return aligned_alloc(align, (bytes + align - 1) / align * align);
}

static void system_free(void *ctx, void *memory) {
    (void)ctx;
    free(memory);
}

/* Handed out front to back; memory NULL = only count.  `whole` tells where size_t does not. */
typedef struct block {
    char *memory;
    size_t used;
    double total_bytes;
} block;

static void *take(block *b, int64_t count, size_t size) {
    void *at = b->memory ? b->memory + b->used : NULL;
    b->used += ((size_t)count * size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    b->total_bytes += (double)count * (double)size + ALIGNMENT;
    return at;
}

static void take_rows(const gyre_cache *cache, block *b, gyre_cache_rows *rows) {
    const int64_t slots = cache->pages * cache->page_tokens, size = (int64_t)gyre_dtype_size(rows->dtype);
    rows->data = take(b, slots, (size_t)(cache->config.heads * rows->channels * size));
    rows->scale = rows->dtype == GYRE_DTYPE_Q8 ? take(b, slots, (size_t)cache->config.heads * sizeof(float)) : NULL;
}

/* Everything behind the cache itself, large things last. */
static void layout_cache(gyre_cache *cache, block *b) {
    const int64_t slots = cache->pages * cache->page_tokens;
    take(b, 1, sizeof *cache);
    cache->sequence = take(b, cache->config.sequences, sizeof *cache->sequence);
    cache->page = take(b, cache->pages, sizeof *cache->page);
    cache->free = take(b, cache->pages, sizeof *cache->free);
    cache->pool = take(b, cache->pool_size, sizeof *cache->pool);
    cache->refcounts = take(b, slots, sizeof *cache->refcounts);
    cache->positions = take(b, slots, (size_t)cache->axes * sizeof *cache->positions);
    take_rows(cache, b, &cache->k);
    take_rows(cache, b, &cache->v);
}

/* Each sequence may have all pages, some of them twice over; but where sequences are many, lists of pages are not to be what
 * a cache is made of. */
static int64_t pool_size_of(const gyre_cache *cache) {
    const double sequences = (double)cache->config.sequences, pages = (double)cache->pages, some = 256;
    const double most = sequences * (2 * pages + some),
                 share = pages * (double)cache->page_bytes / 8 / sizeof(gyre_slot_range);
    const double least = 4 * pages + some * sequences;
    return (int64_t)(most < share ? most : share > least ? share : most < least ? most : least);
}

static size_t row_bytes(const gyre_cache_rows *rows) {
    return (size_t)rows->channels * gyre_dtype_size(rows->dtype) + (rows->dtype == GYRE_DTYPE_Q8 ? sizeof(float) : 0);
}

static void measure(gyre_cache *cache) {
    const gyre_cache_config *c = &cache->config;
    cache->contiguous = c->page_tokens == 0;
    cache->page_tokens = cache->contiguous ? c->max_tokens / c->sequences : c->page_tokens;
    cache->pages = (cache->contiguous ? c->sequences : (c->max_tokens - 1) / c->page_tokens + 1) + 1;
    cache->axes = gyre_cache_axes_of(c->encoding);
    cache->rotated = c->keys == GYRE_CACHE_KEYS_ROTATED && gyre_cache_rotates(c->encoding);
    cache->k = (gyre_cache_rows){.dtype = c->key_dtype, .channels = c->head_dim};
    cache->v = (gyre_cache_rows){.dtype = c->value_dtype, .channels = c->value_dim};
    cache->page_bytes = (size_t)cache->page_tokens * ((size_t)c->heads * (row_bytes(&cache->k) + row_bytes(&cache->v)) +
                                                      (size_t)cache->axes * sizeof(int64_t) + sizeof(int32_t));
    cache->pool_size = pool_size_of(cache);
}

static gyre_status no_memory(const block *all, gyre_error *err) {
    return gyre_fail(err, GYRE_ENOMEM, "memory: no %.0f bytes to be had (gyre_cache_create)", all->total_bytes);
}

gyre_status gyre_cache_create(gyre_cache **out, const gyre_cache_config *config, const gyre_alloc *alloc, gyre_error *err) {
    if (!out || !config) return gyre_fail(err, GYRE_EINVAL, "arguments: out or config is NULL (gyre_cache_create)");
    if (config->size != sizeof *config)
        return gyre_fail(err, GYRE_EINVAL,
                         "size: %zu is not %zu; start from GYRE_INIT(gyre_cache_config) (gyre_cache_config)", config->size,
                         sizeof *config);
    gyre_cache blank = {.config = *config, .alloc = {system_alloc, system_free, NULL}};
    if (alloc) blank.alloc = *alloc;
    if (blank.config.value_dim == 0) blank.config.value_dim = config->head_dim;
    if (blank.config.sequences == 0) blank.config.sequences = 1;
    const gyre_status status = check_config(&blank.config, err);
    if (status != GYRE_OK) return status;
    measure(&blank);
    block all = {NULL, 0, 0};
    layout_cache(&blank, &all);
    if (all.total_bytes > (double)(SIZE_MAX / 4)) return no_memory(&all, err);
    const size_t bytes = all.used;
    char *memory = blank.alloc.alloc(blank.alloc.ctx, bytes, ALIGNMENT);
    if (!memory) return no_memory(&all, err);
    all = (block){memory, 0, 0};
    layout_cache(&blank, &all);
    gyre_huge_pages_advise(memory, bytes);
    blank.bytes = bytes;
    blank.kernels = config->encoding ? config->encoding->kernels : gyre_kernels_select();
    gyre_cache *cache = (gyre_cache *)(void *)memory;
    *cache = blank;
    for (int64_t i = 0; i < cache->config.sequences; i++)
        cache->sequence[i] = (gyre_sequence){.cache = cache};
    *out = cache;
    return GYRE_OK;
}

void gyre_cache_free(gyre_cache *cache) {
    if (!cache) return;
    const gyre_alloc alloc = cache->alloc;
    alloc.free(alloc.ctx, cache);
}

/* -- what can be asked -- */

const gyre_cache_config *gyre_cache_get_config(const gyre_cache *cache) {
    return cache ? &cache->config : NULL;
}

int64_t gyre_cache_tokens(const gyre_cache *cache, int64_t sequence) {
    const gyre_sequence *s = gyre_cache_sequence(cache, sequence);
    return s ? s->tokens : -1;
}

gyre_status gyre_cache_positions(const gyre_cache *cache, int64_t sequence, int64_t first, int64_t count, int64_t axis,
                                 int64_t *out, gyre_error *err) {
    (void)err;
    const gyre_sequence *s = gyre_cache_sequence(cache, sequence);
    if (!s || axis < 0 || axis >= cache->axes || first < 0 || count < 0 || count > s->tokens || first > s->tokens - count)
        return GYRE_EINVAL;
    if (count == 0) return GYRE_OK;
    if (!out) return GYRE_EINVAL;
    for (int64_t i = gyre_slot_range_find(s, first), done = 0; done < count; i++) {
        const gyre_slot_range *range = &s->ranges[i];
        for (int64_t t = first + done - range->first_token; t < range->count && done < count; t++)
            out[done++] = gyre_cache_position(cache, range->page, range->first + t)[axis] + range->delta[axis];
    }
    return GYRE_OK;
}

gyre_cache_usage gyre_cache_get_usage(const gyre_cache *cache) {
    if (!cache) return (gyre_cache_usage){0};
    const int64_t unused = gyre_cache_free_pages(cache);
    return (gyre_cache_usage){.bytes = cache->bytes,
                              .used = (size_t)(cache->pages - unused) * cache->page_bytes,
                              .pages = cache->pages,
                              .free_pages = unused,
                              .tokens = cache->tokens,
                              .shared_tokens = cache->shared};
}

/* -- reading -- */

static int is_shifted(const gyre_slot_range *range) {
    for (int64_t a = 0; a < GYRE_MAX_AXES; a++)
        if (range->delta[a] != 0) return 1;
    return 0;
}

static void run(const gyre_key_source *source, int64_t batch, int64_t head, int64_t first, gyre_key_run *out) {
    const gyre_sequence *s = source->run_ctx;
    const gyre_cache *cache = s->cache;
    const gyre_slot_range *range = &s->ranges[gyre_slot_range_find(s, first)];
    const int64_t row = gyre_cache_row(cache, range->page, head, range->first + first - range->first_token);
    (void)batch;
    *out = (gyre_key_run){.k = gyre_cache_data(&cache->k, row),
                          .v = gyre_cache_data(&cache->v, row),
                          .k_scale = cache->k.scale ? cache->k.scale + row : NULL,
                          .v_scale = cache->v.scale ? cache->v.scale + row : NULL,
                          .count = range->first_token + range->count - first,
                          .k_row_stride = cache->k.channels,
                          .v_row_stride = cache->v.channels,
                          .k_step = 1,
                          .v_step = 1,
                          .shift = cache->rotated && is_shifted(range) ? range->delta : NULL};
}

gyre_key_source gyre_cache_source(const gyre_cache *cache, int64_t sequence) {
    return (gyre_key_source){.run_ctx = &cache->sequence[sequence],
                             .k_dtype = cache->k.dtype,
                             .v_dtype = cache->v.dtype,
                             .rotated = cache->rotated,
                             .run = run};
}
