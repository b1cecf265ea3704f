/* cache_save.c: a cache, or those of all layers, written to a file that has its name only when it is whole. */
#include "cache/cache_file.h"
#include "core/rotation/angles.h"
#include "core/rotation/frequency.h"
#include "util/atomic_file.h"
#include "util/error.h"
#include "util/file_write.h"

#include <string.h>

enum { BUFFER = 16384 };

/* -- sizes and fields -- */

void gyre_cache_header_encoding(gyre_cache_header *header, const gyre_encoding *encoding) {
    header->kind = encoding ? (int64_t)encoding->config.kind : -1;
    if (!encoding || !gyre_cache_rotates(encoding)) return;
    header->dim = encoding->config.rope.dim;
    header->first = encoding->config.rope.first_channel;
    header->layout = encoding->config.rope.layout;
    header->clockwise = encoding->config.rope.clockwise != 0;
}

double gyre_cache_header_bytes(const gyre_cache_header *h) {
    const double frequencies = h->dim > 0 ? 8.0 + 4.0 * (double)h->dim : 0;
    const double later = 8.0 * (gyre_cache_header_version(h) - GYRE_CACHE_VERSION); /* one more field each */
    return GYRE_CACHE_MAGIC_BYTES + 4 + 8.0 * GYRE_CACHE_HEADER_FIELDS + later + frequencies + 4 +
           8.0 * (double)h->sequences + 8.0 * (3 + GYRE_MAX_AXES) * (double)h->ranges + 16.0 * (double)h->pages;
}

static double row_bytes(const gyre_cache_rows *rows) {
    return (double)rows->channels * (double)gyre_dtype_size(rows->dtype) + (rows->scale ? sizeof(float) : 0);
}

double gyre_cache_slot_bytes(const gyre_cache *cache) {
    const double values = cache->config.values_in_keys ? 0 : row_bytes(&cache->v);
    return 8.0 * (double)(cache->axes + cache->config.gate_heads) +
           (double)cache->config.heads * (row_bytes(&cache->k) + values);
}

/* -- bytes on their way -- */

/* Once something fails nothing more is written, and code is why. */
typedef struct writer {
    int fd, code;
    size_t used;
    gyre_checksum checksum;
    char buffer[BUFFER];
} writer;

static void flush(writer *w) {
    if (!w->code) w->code = gyre_write_all(w->fd, w->buffer, w->used);
    w->used = 0;
}

/* `count` numbers of `size` bytes. */
static void put(writer *w, const void *numbers, size_t size, size_t count) {
    const char *from = numbers;
    for (size_t left = size * count, n; left > 0; left -= n, from += n) {
        if (w->used == BUFFER) flush(w);
        n = BUFFER - w->used < left ? BUFFER - w->used : left;
        n -= n % size;
        if (n == 0) { /* no whole number fits */
            flush(w);
            continue;
        }
        memcpy(w->buffer + w->used, from, n);
        gyre_little_endian(w->buffer + w->used, size, n / size);
        gyre_checksum_add(&w->checksum, w->buffer + w->used, n);
        w->used += n;
    }
}

static void put_checksum(writer *w) {
    const uint32_t sum = gyre_checksum_of(&w->checksum);
    put(w, &sum, sizeof sum, 1);
}

/* -- what is written -- */

static gyre_cache_header header_of(const gyre_cache *cache) {
    const gyre_cache_config *c = &cache->config;
    gyre_cache_header h = {.keys = c->keys,
                           .key_dtype = c->key_dtype,
                           .value_dtype = c->value_dtype,
                           .heads = c->heads,
                           .head_dim = c->head_dim,
                           .value_dim = c->value_dim,
                           .sequences = c->sequences,
                           .max_tokens = c->max_tokens,
                           .page_tokens = c->page_tokens,
                           .length = c->context_length,
                           .axes = cache->axes,
                           .gate_heads = c->gate_heads,
                           .values_in_keys = c->values_in_keys,
                           .pages = cache->pages - gyre_cache_free_pages(cache)};
    int64_t slots = 0;
    gyre_cache_header_encoding(&h, c->encoding);
    for (int64_t i = 0; i < c->sequences; i++)
        h.ranges += cache->sequence[i].count;
    for (int64_t i = 0; i < cache->page_high_water; i++)
        slots += cache->page[i].fill;
    h.bytes = (int64_t)(gyre_cache_header_bytes(&h) + (double)slots * gyre_cache_slot_bytes(cache) + 4);
    return h;
}

static void put_header(writer *w, const gyre_cache *cache) {
    const gyre_cache_header h = header_of(cache);
    const gyre_encoding *encoding = cache->config.encoding;
    const uint32_t version = gyre_cache_header_version(&h);
    put(w, "GYRECACH", 1, GYRE_CACHE_MAGIC_BYTES);
    put(w, &version, sizeof version, 1);
    put(w, &h, sizeof(int64_t), GYRE_CACHE_HEADER_FIELDS);
    if (version >= GYRE_CACHE_GATED_VERSION) put(w, &h.gate_heads, sizeof h.gate_heads, 1);
    if (version >= GYRE_CACHE_LATENT_VERSION) put(w, &h.values_in_keys, sizeof h.values_in_keys, 1);
    if (h.dim > 0) put(w, &encoding->attention_factor, sizeof(double), 1);
    for (int64_t i = 0; i < h.dim / 2; i++) {
        gyre_frequency frequency;
        gyre_rope_frequencies(&encoding->config, cache->config.context_length, i, 1, &frequency);
        put(w, &frequency.high, sizeof(double), 1);
    }
    put_checksum(w);
}

static void put_lists(writer *w, const gyre_cache *cache) {
    for (int64_t i = 0; i < cache->config.sequences; i++)
        put(w, &cache->sequence[i].count, sizeof(int64_t), 1);
    for (int64_t i = 0; i < cache->config.sequences; i++)
        for (int64_t j = 0; j < cache->sequence[i].count; j++) {
            const gyre_slot_range *s = &cache->sequence[i].ranges[j];
            const int64_t numbers[3] = {s->page, s->first, s->count};
            put(w, numbers, sizeof *numbers, 3);
            put(w, s->delta, sizeof *s->delta, GYRE_MAX_AXES);
        }
    for (int64_t i = 0; i < cache->page_high_water; i++)
        if (cache->page[i].live > 0) put(w, (int64_t[2]){i, cache->page[i].fill}, sizeof(int64_t), 2);
}

static void put_rows(writer *w, const gyre_cache *cache, const gyre_cache_rows *rows, int64_t page) {
    const size_t fill = (size_t)cache->page[page].fill;
    for (int64_t h = 0; h < cache->config.heads; h++) {
        const int64_t row = gyre_cache_row(cache, page, h, 0);
        put(w, gyre_cache_data(rows, row), gyre_dtype_size(rows->dtype), fill * (size_t)rows->channels);
        if (rows->scale) put(w, rows->scale + row, sizeof(float), fill);
    }
}

static void put_pages(writer *w, const gyre_cache *cache) {
    for (int64_t i = 0; i < cache->page_high_water; i++) {
        if (cache->page[i].live == 0) continue;
        put(w, gyre_cache_position(cache, i, 0), sizeof(int64_t), (size_t)(cache->page[i].fill * cache->axes));
        for (int64_t h = 0; h < cache->config.gate_heads; h++)
            put(w, gyre_cache_gate_sum(cache, i, h, 0), sizeof(double), (size_t)cache->page[i].fill);
        put_rows(w, cache, &cache->k, i);
        if (!cache->config.values_in_keys) put_rows(w, cache, &cache->v, i);
    }
}

static void put_cache(writer *w, const gyre_cache *cache) {
    gyre_checksum_begin(&w->checksum);
    put_header(w, cache);
    put_lists(w, cache);
    put_pages(w, cache);
    put_checksum(w);
}

static void put_caches(writer *w, gyre_cache *const *caches, int64_t count) {
    const uint32_t version = GYRE_CACHES_VERSION;
    gyre_checksum_begin(&w->checksum);
    put(w, GYRE_CACHES_MAGIC, 1, GYRE_CACHE_MAGIC_BYTES);
    put(w, &version, sizeof version, 1);
    put(w, &count, sizeof count, 1);
    put_checksum(w);
    for (int64_t i = 0; i < count; i++) {
        const int64_t bytes = caches[i] ? header_of(caches[i]).bytes : 0;
        put(w, &bytes, sizeof bytes, 1);
        if (caches[i]) put_cache(w, caches[i]);
    }
}

/* What a file gets: one cache, or those of all layers. */
typedef struct contents {
    const gyre_cache *cache; /* NULL = caches */
    gyre_cache *const *caches;
    int64_t count;
} contents;

/* out = 0 or errno. */
static int write_contents(const contents *c, int fd) {
    writer w = {.fd = fd};
    if (c->cache)
        put_cache(&w, c->cache);
    else
        put_caches(&w, c->caches, c->count);
    flush(&w);
    return w.code;
}

static gyre_status save(const contents *c, const char *path, gyre_error *err) {
    gyre_atomic_file file;
    if (strlen(path) >= PATH_MAX) return gyre_fail(err, GYRE_EINVAL, "path: too long (%.100s...)", path);
    const gyre_status whole = gyre_atomic_check_whole(path, err);
    if (whole) return whole;
    int code = gyre_atomic_open(&file, path);
    if (!code) {
        code = write_contents(c, file.fd);
        if (code)
            gyre_atomic_discard(&file);
        else
            code = gyre_atomic_commit(&file);
    }
    return code ? gyre_fail(err, gyre_status_of_errno(code), "writing: %s (%.380s)", strerror(code), path) : GYRE_OK;
}

gyre_status gyre_cache_save(const gyre_cache *cache, const char *path, gyre_error *err) {
    if (!cache || !path || !*path)
        return gyre_fail(err, GYRE_EINVAL, "arguments: cache or path is missing (gyre_cache_save)");
    return save(&(contents){.cache = cache}, path, err);
}

gyre_status gyre_caches_save(gyre_cache *const *caches, int64_t count, const char *path, gyre_error *err) {
    static const char name[] = "gyre_caches_save";
    const gyre_status status = gyre_caches_check(caches, count, name, err);
    if (status) return status;
    if (!path || !*path) return gyre_fail(err, GYRE_EINVAL, "path: is missing (%s)", name);
    return save(&(contents){.caches = caches, .count = count}, path, err);
}
