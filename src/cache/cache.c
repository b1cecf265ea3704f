/* cache.c: creates a cache, and answers what is in it. */
#include "cache/cache.h"

#include "core/huge_pages.h"
#include "core/rotation/angles.h"
#include "core/sized.h"
#include "core/system_alloc.h"
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
    if (encoding->config.length_policy != GYRE_LENGTH_POLICY_DECLARED) what = "their context length follows the query";
    if (encoding->start_frequency) what = "LongRoPE's start tokens rotate otherwise, so a shift cannot reach their rotation";
    if (rope->far != GYRE_FAR_AS_NEAR) what = "rope.far depends on the query";
    if (encoding->xpos_log2_decay) what = "xPos depends on the tile of a key";
    return what ? gyre_fail(err, GYRE_EUNSUPPORTED, "keys: cannot be stored rotated, %s (gyre_cache_config)", what)
                : GYRE_OK;
}

gyre_status gyre_cache_check_values_in_keys(const gyre_cache_config *config, const gyre_encoding *encoding, const char *name,
                                            gyre_error *err) {
    if (!config->values_in_keys || !gyre_cache_rotates(encoding)) return GYRE_OK;
    const int64_t first = encoding->config.rope.first_channel;
    if (first >= config->value_dim) return GYRE_OK;
    return gyre_fail(err, GYRE_ESHAPE,
                     "encoding: rotates channels from %" PRId64 " on, but the first %" PRId64
                     " channels of a key are its value (%s)",
                     first, config->value_dim, name);
}

static int is_cache_dtype(gyre_dtype dtype) {
    return dtype == GYRE_DTYPE_F32 || dtype == GYRE_DTYPE_F16 || dtype == GYRE_DTYPE_BF16 || dtype == GYRE_DTYPE_Q8;
}

static gyre_status check_types(const gyre_cache_config *config, gyre_error *err) {
    const struct {
        const char *name;
        gyre_dtype dtype;
    } types[] = {{"key_dtype", config->key_dtype}, {"value_dtype", config->value_dtype}};
    for (int i = 0; i < 2; i++) {
        if (!is_cache_dtype(types[i].dtype))
            return gyre_fail(err, GYRE_EDTYPE, "%s: %d is not one of F32, F16, BF16 and Q8 (gyre_cache_config)",
                             types[i].name, (int)types[i].dtype);
        if (types[i].dtype == GYRE_DTYPE_Q8 && config->head_dim % 8 != 0)
            return gyre_fail(err, GYRE_EINVAL,
                             "head_dim: %" PRId64 " is not a multiple of 8, which Q8 needs (gyre_cache_config)",
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
                  {"context_length", config->context_length, 0, INT64_MAX},
                  {"gate_heads", config->gate_heads, 0, 65536},
                  {"values_in_keys", config->values_in_keys, 0, 1}};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (fields[i].value < fields[i].least || fields[i].value > fields[i].most)
            return gyre_fail(err, GYRE_EINVAL, "%s: %" PRId64 " is not in %" PRId64 " .. %" PRId64 " (gyre_cache_config)",
                             fields[i].name, fields[i].value, fields[i].least, fields[i].most);
    if (config->keys < GYRE_CACHE_KEYS_DEFAULT || config->keys > GYRE_CACHE_KEYS_ROTATED)
        return gyre_fail(err, GYRE_EINVAL, "keys: %d is not a gyre_cache_keys (gyre_cache_config)", (int)config->keys);
    return check_types(config, err);
}

static gyre_status check_config(const gyre_cache_config *config, gyre_error *err) {
    const gyre_encoding *encoding = config->encoding;
    gyre_status status = check_numbers(config, err);
    if (status) return status;
    if (config->gate_heads % config->heads != 0)
        return gyre_fail(err, GYRE_EINVAL,
                         "gate_heads: %" PRId64 " query heads cannot share %" PRId64 " key heads evenly (gyre_cache_config)",
                         config->gate_heads, config->heads);
    if (config->values_in_keys && config->value_dim > config->head_dim)
        return gyre_fail(err, GYRE_ESHAPE,
                         "value_dim: %" PRId64 " is above head_dim, %" PRId64 ", but values are in keys (gyre_cache_config)",
                         config->value_dim, config->head_dim);
    if (gyre_cache_rotates(encoding) && encoding->config.head_dim != config->head_dim)
        return gyre_fail(err, GYRE_ESHAPE, "head_dim: %" PRId64 " is not the encoding's %" PRId64 " (gyre_cache_config)",
                         config->head_dim, encoding->config.head_dim);
    status = gyre_cache_check_values_in_keys(config, encoding, "gyre_cache_config", err);
    if (status) return status;
    return config->keys == GYRE_CACHE_KEYS_ROTATED ? gyre_cache_can_store_rotated(encoding, err) : GYRE_OK;
}

/* -- memory -- */

enum { ALIGNMENT = 64 };

/* Parts of one block, handed out front to back.  memory NULL = only count.  total_bytes: used, where a size_t overflows. */
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

/* gyre_cache | sequences | pages | free list | pool of ranges | counts | positions | gate sums | keys | values */
static void layout_cache(gyre_cache *cache, block *b) {
    const int64_t slots = cache->pages * cache->page_tokens;
    take(b, 1, sizeof *cache);
    cache->sequence = take(b, cache->config.sequences, sizeof *cache->sequence);
    cache->page = take(b, cache->pages, sizeof *cache->page);
    cache->free = take(b, cache->pages, sizeof *cache->free);
    cache->pool = take(b, cache->pool_size, sizeof *cache->pool);
    cache->refcounts = take(b, slots, sizeof *cache->refcounts);
    cache->positions = take(b, slots, (size_t)cache->axes * sizeof *cache->positions);
    if (cache->config.gate_heads > 0)
        cache->gate_sums = take(b, slots, (size_t)cache->config.gate_heads * sizeof *cache->gate_sums);
    take_rows(cache, b, &cache->k);
    if (!cache->config.values_in_keys) take_rows(cache, b, &cache->v);
}

/* out = ranges in the pool.  The most that could be useful is twice all pages for each sequence, plus some.  With many
 * sequences that would outgrow the pages, so it is limited to an eighth of their bytes, but never below `least`. */
static int64_t pool_size_of(const gyre_cache *cache) {
    const double sequences = (double)cache->config.sequences, pages = (double)cache->pages, some = 256;
    const double most = sequences * (2 * pages + some),
                 limit = pages * (double)cache->page_bytes / 8 / sizeof(gyre_slot_range);
    const double least = 4 * pages + some * sequences;
    return (int64_t)(most < limit ? most : limit > least ? limit : most < least ? most : least);
}

static size_t row_bytes(const gyre_cache_rows *rows) {
    return (size_t)rows->channels * gyre_dtype_size(rows->dtype) + (rows->dtype == GYRE_DTYPE_Q8 ? sizeof(float) : 0);
}

/* out = bytes of one slot: keys, values, position, count, gate sums. */
static size_t slot_bytes(const gyre_cache *cache) {
    const gyre_cache_config *c = &cache->config;
    const size_t values = c->values_in_keys ? 0 : row_bytes(&cache->v);
    return (size_t)c->heads * (row_bytes(&cache->k) + values) + (size_t)cache->axes * sizeof(int64_t) + sizeof(int32_t) +
           (size_t)c->gate_heads * sizeof(double);
}

/* One page more than is filled, so that one can be rewritten.  The page of a sequence that is alone is rewritten in itself:
 * no token there belongs to another sequence. */
static int64_t count_pages(const gyre_cache *cache) {
    const gyre_cache_config *c = &cache->config;
    if (cache->contiguous) return c->sequences > 1 ? c->sequences + 1 : 1;
    return (c->max_tokens - 1) / c->page_tokens + 2;
}

static void measure(gyre_cache *cache) {
    const gyre_cache_config *c = &cache->config;
    cache->contiguous = c->page_tokens == 0;
    cache->page_tokens = cache->contiguous ? c->max_tokens / c->sequences : c->page_tokens;
    cache->pages = count_pages(cache);
    cache->axes = gyre_cache_axes_of(c->encoding);
    cache->rotated = c->keys == GYRE_CACHE_KEYS_ROTATED && gyre_cache_rotates(c->encoding);
    cache->k = (gyre_cache_rows){.dtype = c->key_dtype, .channels = c->head_dim};
    cache->v = (gyre_cache_rows){.dtype = c->value_dtype, .channels = c->value_dim};
    cache->page_bytes = (size_t)cache->page_tokens * slot_bytes(cache);
    cache->pool_size = pool_size_of(cache);
}

/* blank->config = what was given, with defaults, checked; then the cache is measured. */
static gyre_status read_config(gyre_cache *blank, const gyre_cache_config *given, gyre_error *err) {
    gyre_cache_config *config = &blank->config;
    gyre_status status = gyre_sized_read(config, sizeof *config, given, "gyre_cache_config", err);
    if (status) return status;
    if (config->values_in_keys) config->value_dtype = config->key_dtype;
    if (config->value_dim == 0 && config->values_in_keys && gyre_cache_rotates(config->encoding))
        config->value_dim = config->encoding->config.rope.first_channel;
    else if (config->value_dim == 0)
        config->value_dim = config->head_dim;
    if (config->sequences == 0) config->sequences = 1;
    if (config->keys == GYRE_CACHE_KEYS_DEFAULT)
        config->keys = gyre_cache_can_store_rotated(config->encoding, NULL) ? GYRE_CACHE_KEYS_RAW : GYRE_CACHE_KEYS_ROTATED;
    status = check_config(config, err);
    if (!status) measure(blank);
    return status;
}

static gyre_status no_memory(const block *all, gyre_error *err) {
    return gyre_fail(err, GYRE_ENOMEM, "memory: %.0f bytes cannot be allocated (gyre_cache_create)", all->total_bytes);
}

gyre_status gyre_cache_create(gyre_cache **out, const gyre_cache_config *given, const gyre_alloc *alloc, gyre_error *err) {
    gyre_cache blank = {.bytes = 0};
    if (!out) return gyre_fail(err, GYRE_EINVAL, "out: is NULL (gyre_cache_create)");
    gyre_status status = read_config(&blank, given, err);
    if (!status) status = gyre_alloc_read(&blank.alloc, alloc, "gyre_cache_create", err);
    if (status) return status;
    block all = {NULL, 0, 0};
    layout_cache(&blank, &all);
    if (all.total_bytes > (double)(SIZE_MAX / 4)) return no_memory(&all, err);
    const size_t bytes = all.used;
    char *memory = blank.alloc.alloc(blank.alloc.ctx, bytes, gyre_huge_pages_alignment(bytes, ALIGNMENT));
    if (!memory) return no_memory(&all, err);
    all = (block){memory, 0, 0};
    layout_cache(&blank, &all);
    gyre_huge_pages_advise(memory, bytes);
    blank.bytes = bytes;
    blank.kernels = blank.config.encoding ? gyre_kernels_beside(blank.config.encoding->kernels) : gyre_kernels_select();
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

/* -- arguments -- */

gyre_status gyre_cache_find(const gyre_cache *cache, int64_t sequence, gyre_cache_argument at, gyre_sequence **out,
                            gyre_error *err) {
    *out = gyre_cache_sequence(cache, sequence);
    if (*out) return GYRE_OK;
    if (!cache) return gyre_fail(err, GYRE_EINVAL, "cache: is NULL (%s)", at.name);
    return gyre_fail(err, GYRE_EINVAL, "%s: %" PRId64 " is not in 0 .. %" PRId64 " (%s)", at.field, sequence,
                     cache->config.sequences - 1, at.name);
}

gyre_status gyre_cache_check_tokens(const gyre_sequence *sequence, int64_t first, int64_t count, const char *name,
                                    gyre_error *err) {
    if (first >= 0 && count >= 0 && count <= sequence->tokens && first <= sequence->tokens - count) return GYRE_OK;
    return gyre_fail(err, GYRE_EINVAL,
                     "first, count: %" PRId64 " tokens from %" PRId64 " on of a sequence that has %" PRId64 " (%s)", count,
                     first, sequence->tokens, name);
}

gyre_status gyre_cache_no_ranges(gyre_status status, const char *name, gyre_error *err) {
    return gyre_fail(err, status, "cache: no room for more slot ranges (%s)", name);
}

int64_t gyre_caches_first(gyre_cache *const *caches, int64_t count) {
    int64_t i = 0;
    while (i < count && !caches[i])
        i++;
    return i;
}

gyre_status gyre_caches_check(gyre_cache *const *caches, int64_t count, const char *name, gyre_error *err) {
    if (count < 0) return gyre_fail(err, GYRE_EINVAL, "count: %" PRId64 " is below 0 (%s)", count, name);
    if (count > 0 && !caches) return gyre_fail(err, GYRE_EINVAL, "caches: is NULL (%s)", name);
    for (int64_t i = 0; i < count; i++)
        for (int64_t j = 0; caches[i] && j < i; j++)
            if (caches[i] == caches[j])
                return gyre_fail(err, GYRE_EINVAL,
                                 "caches: layers %" PRId64 " and %" PRId64 " have the same cache; pass it once (%s)", j, i,
                                 name);
    return GYRE_OK;
}

gyre_status gyre_caches_fail_layer(gyre_status status, int64_t layer, gyre_error *err) {
    if (!err) return status;
    const gyre_error reason = *err;
    (void)gyre_fail(err, status, "layer %" PRId64 ": %s", layer, reason.text);
    err->offset = reason.offset;
    return status;
}

/* -- queries -- */

const gyre_cache_config *gyre_cache_get_config(const gyre_cache *cache) {
    return cache ? &cache->config : NULL;
}

size_t gyre_cache_token_bytes(const gyre_cache_config *config) {
    gyre_cache blank = {0};
    return config && !read_config(&blank, config, NULL) ? slot_bytes(&blank) : 0;
}

int64_t gyre_cache_tokens(const gyre_cache *cache, int64_t sequence) {
    const gyre_sequence *s = gyre_cache_sequence(cache, sequence);
    return s ? s->tokens : -1;
}

gyre_status gyre_cache_positions(const gyre_cache *cache, gyre_cache_range range, int64_t axis, int64_t *out,
                                 gyre_error *err) {
    const int64_t first = range.first, count = range.count;
    static const char name[] = "gyre_cache_positions";
    gyre_sequence *s;
    gyre_status status = gyre_cache_find(cache, range.sequence, (gyre_cache_argument){"sequence", name}, &s, err);
    if (!status && (axis < 0 || axis >= cache->axes))
        status =
            gyre_fail(err, GYRE_EINVAL, "axis: %" PRId64 " is not in 0 .. %" PRId64 " (%s)", axis, cache->axes - 1, name);
    if (!status) status = gyre_cache_check_tokens(s, first, count, name, err);
    if (status || count == 0) return status;
    if (!out) return gyre_fail(err, GYRE_EINVAL, "out: is NULL (%s)", name);
    for (int64_t i = gyre_slot_range_find(s, first), done = 0; done < count; i++) {
        const gyre_slot_range *slots = &s->ranges[i];
        for (int64_t t = first + done - slots->first_token; t < slots->count && done < count; t++)
            out[done++] = gyre_cache_position(cache, slots->page, slots->first + t)[axis] + slots->delta[axis];
    }
    return GYRE_OK;
}

gyre_status gyre_cache_get_usage(const gyre_cache *cache, gyre_cache_usage *out) {
    gyre_cache_usage usage;
    if (!cache || gyre_sized_read(&usage, sizeof usage, out, "gyre_cache_usage", NULL)) return GYRE_EINVAL;
    const int64_t unused = gyre_cache_free_pages(cache);
    usage = (gyre_cache_usage){.size = usage.size,
                               .bytes = cache->bytes,
                               .used = (size_t)(cache->pages - unused) * cache->page_bytes,
                               .pages = cache->pages,
                               .free_pages = unused,
                               .tokens = cache->tokens,
                               .shared_tokens = cache->shared};
    gyre_sized_write(out, &usage);
    return GYRE_OK;
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
    const gyre_cache_rows *values = gyre_cache_value_rows(cache);
    (void)batch;
    *out = (gyre_key_run){.k = gyre_cache_data(&cache->k, row),
                          .v = gyre_cache_data(values, row),
                          .k_scale = cache->k.scale ? cache->k.scale + row : NULL,
                          .v_scale = values->scale ? values->scale + row : NULL,
                          .count = range->first_token + range->count - first,
                          .k_row_stride = cache->k.channels,
                          .v_row_stride = values->channels,
                          .k_step = 1,
                          .v_step = 1,
                          .shift = cache->rotated && is_shifted(range) ? range->delta : NULL};
}

static void gate_sums(const gyre_key_source *source, int64_t batch, int64_t head, int64_t first, int64_t count,
                      double *out) {
    const gyre_sequence *s = source->run_ctx;
    (void)batch;
    for (int64_t done = 0, n; done < count; done += n) {
        const gyre_slot_range *range = &s->ranges[gyre_slot_range_find(s, first + done)];
        const int64_t at = first + done - range->first_token, left = count - done;
        n = range->count - at < left ? range->count - at : left;
        memcpy(out + done, gyre_cache_gate_sum(s->cache, range->page, head, range->first + at), (size_t)n * sizeof *out);
    }
}

gyre_key_source gyre_cache_source(const gyre_cache *cache, int64_t sequence) {
    return (gyre_key_source){.run_ctx = &cache->sequence[sequence],
                             .k_dtype = cache->k.dtype,
                             .v_dtype = cache->v.dtype,
                             .rotated = cache->rotated,
                             .run = run,
                             .gate_sums = cache->gate_sums ? gate_sums : NULL};
}
