/* cache_load.c: reads a cache, or those of all layers, from a file.  Every number is checked before it is used. */
#include "cache/cache_file.h"
#include "core/positions.h"
#include "core/rotation/frequency.h"
#include "util/error.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BUFFER = 16384 };

/* After a failure everything reads as zeros, and err has the reason. */
typedef struct reader {
    const char *name; /* of the function called */
    int fd;
    gyre_status status;
    gyre_error *err;
    uint64_t begin;        /* of the cache that is read, in the file */
    uint64_t offset, size; /* of the next byte, after `begin`; of the cache */
    size_t at, filled;
    gyre_checksum checksum;
    char buffer[BUFFER];
} reader;

static gyre_status malformed(reader *r, uint64_t offset, const char *what) {
    if (r->status) return r->status;
    r->status = gyre_fail(r->err, GYRE_EFORMAT, "cache: %s at byte %" PRIu64, what, r->begin + offset);
    if (r->err) r->err->offset = r->begin + offset;
    return r->status;
}

static void fill(reader *r) {
    ssize_t got;
    do
        got = read(r->fd, r->buffer, BUFFER);
    while (got < 0 && errno == EINTR);
    r->at = 0;
    r->filled = got > 0 ? (size_t)got : 0;
    if (got < 0) r->status = gyre_fail(r->err, gyre_status_of_errno(errno), "reading: %s (%s)", strerror(errno), r->name);
    if (got == 0) malformed(r, r->offset, "the file ends");
}

/* `count` numbers of `size` bytes. */
static void get(reader *r, void *numbers, size_t size, size_t count) {
    char *to = numbers;
    for (size_t left = size * count, n; left > 0; left -= n, to += n) {
        if (!r->status && r->at == r->filled) fill(r);
        if (r->status) {
            memset(to, 0, left);
            return;
        }
        n = r->filled - r->at < left ? r->filled - r->at : left;
        memcpy(to, r->buffer + r->at, n);
        gyre_checksum_add(&r->checksum, to, n);
        r->at += n;
        r->offset += n;
    }
    gyre_little_endian(numbers, size, count);
}

static void get_checksum(reader *r) {
    const uint32_t sum = gyre_checksum_of(&r->checksum);
    const uint64_t offset = r->offset;
    uint32_t stored;
    get(r, &stored, sizeof stored, 1);
    if (stored != sum) malformed(r, offset, "the checksum differs");
}

/* -- the header -- */

/* Fields that later versions added.  They are not the defaults, or the version would be older. */
static void get_later_fields(reader *r, gyre_cache_header *h, uint32_t version) {
    if (version >= GYRE_CACHE_GATED_VERSION) {
        const int least = version == GYRE_CACHE_GATED_VERSION;
        get(r, &h->gate_heads, sizeof h->gate_heads, 1);
        if (h->gate_heads < least) malformed(r, r->offset - sizeof h->gate_heads, "an impossible number of gate heads");
    }
    if (version >= GYRE_CACHE_LATENT_VERSION) {
        get(r, &h->values_in_keys, sizeof h->values_in_keys, 1);
        if (h->values_in_keys != 1)
            malformed(r, r->offset - sizeof h->values_in_keys, "values neither in keys nor beside them");
    }
}

static void get_header(reader *r, gyre_cache_header *h, double *factor, double *frequencies) {
    char magic[GYRE_CACHE_MAGIC_BYTES];
    uint32_t version;
    get(r, magic, 1, sizeof magic);
    if (memcmp(magic, "GYRECACH", sizeof magic) != 0) malformed(r, 0, "the magic is not GYRECACH");
    get(r, &version, sizeof version, 1);
    if (version < GYRE_CACHE_VERSION || version > GYRE_CACHE_LATENT_VERSION)
        malformed(r, sizeof magic, "an unknown version");
    get(r, h, sizeof(int64_t), GYRE_CACHE_HEADER_FIELDS);
    get_later_fields(r, h, version);
    if (h->dim < 0 || h->dim % 2 != 0 || h->dim > GYRE_CACHE_MAX_CHANNELS)
        malformed(r, r->offset, "an impossible number of rotated channels");
    if (r->status) return;
    if (h->dim > 0) get(r, factor, sizeof *factor, 1);
    get(r, frequencies, sizeof *frequencies, (size_t)h->dim / 2);
    get_checksum(r);
    if (h->bytes < 0 || (uint64_t)h->bytes != r->size)
        malformed(r, r->size, "the file has another size than its header says,");
}

static gyre_status encoding_mismatch(const reader *r, const char *what, double stored, double is) {
    return gyre_fail(r->err, GYRE_EINVAL, "encoding: %s: %.17g in the file, %.17g in the encoding (%s)", what, stored, is,
                     r->name);
}

static gyre_status check_encoding(reader *r, const gyre_cache_header *h, double factor, const double *frequencies,
                                  const gyre_encoding *encoding) {
    gyre_cache_header is = {0};
    gyre_cache_header_encoding(&is, encoding);
    if (h->length < 0) return malformed(r, 0, "a length below 0");
    const struct {
        const char *name;
        int64_t stored, is;
    } numbers[] = {{"kind (-1 is none)", h->kind, is.kind},
                   {"axes", h->axes, gyre_cache_axes_of(encoding)},
                   {"rope.dim", h->dim, is.dim},
                   {"rope.first_channel", h->first, is.first},
                   {"rope.layout", h->layout, is.layout},
                   {"rope.clockwise", h->clockwise, is.clockwise}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i].stored != numbers[i].is)
            return encoding_mismatch(r, numbers[i].name, (double)numbers[i].stored, (double)numbers[i].is);
    if (h->dim == 0) return GYRE_OK;
    /* long double may differ between machines. */
    const double most = 1e-12;
    if (!(fabs(factor - encoding->attention_factor) <= most * encoding->attention_factor))
        return encoding_mismatch(r, "attention factor", factor, encoding->attention_factor);
    for (int64_t i = 0; i < h->dim / 2; i++) {
        gyre_frequency f;
        gyre_rope_frequencies(&encoding->config, h->length, i, 1, &f);
        if (!(fabs(frequencies[i] - f.high) <= most * fabs(f.high)))
            return encoding_mismatch(r, "frequency of a pair", frequencies[i], f.high);
    }
    return GYRE_OK;
}

/* A config that gyre_cache_create refuses means a malformed file, except for lack of memory and for an encoding that rotated
 * keys cannot be stored with. */
static gyre_status create(reader *r, const gyre_cache_header *h, const gyre_encoding *encoding, const gyre_alloc *alloc,
                          gyre_cache **out) {
    gyre_cache_config config = GYRE_INIT(gyre_cache_config);
    const int64_t small[] = {h->keys, h->key_dtype, h->value_dtype};
    for (int i = 0; i < 3; i++)
        if (small[i] < 0 || small[i] > GYRE_DTYPE_Q8) return malformed(r, 0, "an unknown type");
    if (h->sequences < 1 || h->value_dim < 1) return malformed(r, 0, "an impossible config");
    if (h->ranges < 0 || h->pages < 0 || !(gyre_cache_header_bytes(h) <= (double)r->size))
        return malformed(r, 0, "lists that are longer than the file");
    config.encoding = encoding;
    config.keys = (gyre_cache_keys)h->keys;
    config.key_dtype = (gyre_dtype)h->key_dtype;
    config.value_dtype = (gyre_dtype)h->value_dtype;
    config.heads = h->heads;
    config.head_dim = h->head_dim;
    config.value_dim = h->value_dim;
    config.sequences = h->sequences;
    config.max_tokens = h->max_tokens;
    config.page_tokens = h->page_tokens;
    config.context_length = h->length;
    config.gate_heads = h->gate_heads;
    config.values_in_keys = (int)h->values_in_keys;
    const gyre_status status = gyre_cache_create(out, &config, alloc, r->err);
    return !status || status == GYRE_ENOMEM || status == GYRE_EUNSUPPORTED ? status
                                                                           : malformed(r, 0, "an impossible config");
}

/* -- the lists -- */

static void get_counts(reader *r, gyre_cache *cache, const gyre_cache_header *h) {
    if (h->ranges > cache->pool_size || h->pages > cache->pages) malformed(r, r->offset, "lists too long for the cache");
    for (int64_t i = 0, left = h->ranges; i < h->sequences && !r->status; i++) {
        gyre_sequence *s = &cache->sequence[i];
        int64_t count;
        get(r, &count, sizeof count, 1);
        if (count < 0 || count > left || (i == h->sequences - 1 && count < left)) {
            malformed(r, r->offset - sizeof count, "an impossible number of ranges");
            return;
        }
        left -= count;
        s->ranges = cache->pool + cache->pool_used;
        s->count = s->capacity = count;
        cache->pool_used += count;
    }
}

/* 1: the range is possible, however full its page is. */
static int range_fits(const gyre_cache *cache, const gyre_slot_range *s, const gyre_slot_range *last) {
    if (s->page < 0 || s->page >= cache->pages || s->first < 0 || s->first >= cache->page_tokens) return 0;
    if (s->count < 1 || s->count > cache->page_tokens - s->first) return 0;
    for (int64_t a = 0; a < GYRE_MAX_AXES; a++)
        if (s->delta[a] < -2 * GYRE_MAX_POSITION || s->delta[a] > 2 * GYRE_MAX_POSITION || (a >= cache->axes && s->delta[a]))
            return 0;
    return !cache->contiguous || !last || (last->page == s->page && last->first + last->count <= s->first);
}

static void get_ranges(reader *r, gyre_cache *cache) {
    for (int64_t i = 0; i < cache->config.sequences; i++) {
        gyre_sequence *s = &cache->sequence[i];
        for (int64_t j = 0; j < s->count; j++) {
            gyre_slot_range *range = &s->ranges[j];
            const uint64_t offset = r->offset;
            int64_t numbers[3];
            get(r, numbers, sizeof *numbers, 3);
            *range =
                (gyre_slot_range){.page = numbers[0], .first = numbers[1], .count = numbers[2], .first_token = s->tokens};
            get(r, range->delta, sizeof *range->delta, GYRE_MAX_AXES);
            if (r->status) return;
            if (!range_fits(cache, range, j > 0 ? range - 1 : NULL)) {
                malformed(r, offset, "a range outside its page");
                return;
            }
            s->tokens += range->count;
        }
    }
}

/* Pages that are not listed are free. */
static void get_fills(reader *r, gyre_cache *cache, const gyre_cache_header *h) {
    double slots = 0;
    for (int64_t i = 0; i < h->pages; i++) {
        const uint64_t offset = r->offset;
        int64_t at[2];
        get(r, at, sizeof *at, 2);
        if (r->status) return;
        if (at[0] < cache->page_high_water || at[0] >= cache->pages || at[1] < 1 || at[1] > cache->page_tokens) {
            malformed(r, offset, "an impossible page");
            return;
        }
        for (; cache->page_high_water < at[0]; cache->page_high_water++)
            cache->page[cache->page_high_water] = (gyre_page){0, 0},
            cache->free[cache->free_count++] = cache->page_high_water;
        cache->page_high_water = at[0] + 1;
        cache->page[at[0]] = (gyre_page){at[1], 0};
        memset(cache->refcounts + gyre_cache_slot(cache, at[0], 0), 0,
               (size_t)cache->page_tokens * sizeof *cache->refcounts);
        slots += (double)at[1];
    }
    if ((double)r->offset + slots * gyre_cache_slot_bytes(cache) + 4 != (double)r->size)
        malformed(r, r->offset, "a file size that does not match its pages");
}

/* Counts references.  Each range must lie in the filled part of its page, and the last slot of each page must be used. */
static void retain_all(reader *r, gyre_cache *cache) {
    for (int64_t i = 0; i < cache->config.sequences && !r->status; i++)
        for (int64_t j = 0; j < cache->sequence[i].count; j++) {
            const gyre_slot_range *s = &cache->sequence[i].ranges[j];
            if (s->page >= cache->page_high_water || s->first + s->count > cache->page[s->page].fill) {
                malformed(r, r->offset, "a range past the end of its page");
                return;
            }
            gyre_page_retain(cache, s->page, s->first, s->count);
            /* A list with one page twice could have more tokens than scratch is counted for. */
            if (cache->live > cache->config.max_tokens || s->first_token + s->count > cache->config.max_tokens)
                malformed(r, r->offset, "more tokens than the cache may have");
        }
    for (int64_t i = 0; i < cache->page_high_water && !r->status; i++)
        if (cache->page[i].fill > 0 && cache->refcounts[gyre_cache_slot(cache, i, cache->page[i].fill - 1)] == 0)
            malformed(r, r->offset, "a page whose last slot is unused");
}

/* -- the pages -- */

static void get_rows(reader *r, const gyre_cache *cache, const gyre_cache_rows *rows, int64_t page) {
    const size_t count = (size_t)cache->page[page].fill;
    for (int64_t h = 0; h < cache->config.heads && !r->status; h++) {
        const int64_t row = gyre_cache_row(cache, page, h, 0);
        get(r, gyre_cache_data(rows, row), gyre_dtype_size(rows->dtype), count * (size_t)rows->channels);
        if (rows->scale) get(r, rows->scale + row, sizeof(float), count);
    }
}

/* Of unused slots too: gyre_cache_set_encoding rotates them with the rest. */
static void get_slot_positions(reader *r, const gyre_cache *cache, int64_t page) {
    const int64_t count = cache->page[page].fill * cache->axes;
    const uint64_t offset = r->offset;
    int64_t *at = gyre_cache_position(cache, page, 0);
    get(r, at, sizeof *at, (size_t)count);
    for (int64_t i = 0; i < count; i++)
        if (at[i] < -GYRE_MAX_POSITION || at[i] > GYRE_MAX_POSITION) {
            malformed(r, offset + 8 * (uint64_t)i, "a position past 2^31");
            return;
        }
}

static void get_gate_sums(reader *r, const gyre_cache *cache, int64_t page) {
    const int64_t fill = cache->page[page].fill;
    for (int64_t h = 0; h < cache->config.gate_heads; h++) {
        const uint64_t offset = r->offset;
        double *at = gyre_cache_gate_sum(cache, page, h, 0);
        get(r, at, sizeof *at, (size_t)fill);
        for (int64_t i = 0; i < fill; i++)
            if (!isfinite(at[i])) {
                malformed(r, offset + 8 * (uint64_t)i, "a gate sum that is not finite");
                return;
            }
    }
}

static void get_pages(reader *r, const gyre_cache *cache) {
    for (int64_t i = 0; i < cache->page_high_water && !r->status; i++) {
        if (cache->page[i].fill == 0) continue;
        get_slot_positions(r, cache, i);
        get_gate_sums(r, cache, i);
        get_rows(r, cache, &cache->k, i);
        if (!cache->config.values_in_keys) get_rows(r, cache, &cache->v, i);
    }
}

static int in_range(const gyre_cache *cache, const int64_t *at, const gyre_slot_range *s) {
    const gyre_encoding *encoding = cache->config.encoding;
    const int64_t low = encoding ? encoding->first_position : -GYRE_MAX_POSITION,
                  high = encoding ? encoding->last_position : GYRE_MAX_POSITION;
    for (int64_t a = 0; a < cache->axes; a++) {
        if (at[a] + s->delta[a] < low || at[a] + s->delta[a] > high) return 0;
    }
    return 1;
}

static void check_positions(reader *r, const gyre_cache *cache) {
    for (int64_t i = 0; i < cache->config.sequences && !r->status; i++)
        for (int64_t j = 0; j < cache->sequence[i].count; j++) {
            const gyre_slot_range *s = &cache->sequence[i].ranges[j];
            for (int64_t t = 0; t < s->count; t++)
                if (!in_range(cache, gyre_cache_position(cache, s->page, s->first + t), s))
                    malformed(r, r->offset, "a position outside the encoding's, before the end");
        }
}

/* -- the call -- */

static gyre_status load(reader *r, const gyre_encoding *encoding, const gyre_alloc *alloc, gyre_cache **out) {
    gyre_cache_header header = {0};
    double factor = 1, frequencies[GYRE_CACHE_MAX_CHANNELS / 2];
    get_header(r, &header, &factor, frequencies);
    if (r->status) return r->status;
    gyre_status status = check_encoding(r, &header, factor, frequencies, encoding);
    gyre_cache *cache = NULL;
    if (!status) status = create(r, &header, encoding, alloc, &cache);
    if (status) return status;
    get_counts(r, cache, &header);
    get_ranges(r, cache);
    get_fills(r, cache, &header);
    retain_all(r, cache);
    get_pages(r, cache);
    get_checksum(r);
    check_positions(r, cache);
    if (r->status) {
        gyre_cache_free(cache);
        return r->status;
    }
    *out = cache;
    return GYRE_OK;
}

/* Opens a file.  The size is compared with that of the header, and only a regular file has one: a pipe is not waited for. */
static gyre_status open_file(reader *r, const char *path) {
    r->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (r->fd < 0) return gyre_fail(r->err, gyre_status_of_errno(errno), "opening: %s (%.380s)", strerror(errno), path);
    struct stat file;
    gyre_status status = GYRE_OK;
    if (fstat(r->fd, &file) != 0)
        status = gyre_fail(r->err, gyre_status_of_errno(errno), "reading: %s (%.380s)", strerror(errno), path);
    else if (!S_ISREG(file.st_mode))
        status = gyre_fail(r->err, GYRE_EIO, "opening: not a regular file (%.380s)", path);
    if (status) {
        close(r->fd);
        return status;
    }
    r->size = (uint64_t)file.st_size;
    gyre_checksum_begin(&r->checksum);
    return GYRE_OK;
}

gyre_status gyre_cache_load(gyre_cache **out, const char *path, const gyre_encoding *encoding, const gyre_alloc *alloc,
                            gyre_error *err) {
    reader r = {.name = "gyre_cache_load", .err = err};
    if (!out || !path) return gyre_fail(err, GYRE_EINVAL, "arguments: out or path is NULL (%s)", r.name);
    gyre_status status = open_file(&r, path);
    if (status) return status;
    status = load(&r, encoding, alloc, out);
    close(r.fd);
    return status;
}

/* -- the caches of all layers -- */

static void get_caches_header(reader *r, int64_t wanted) {
    char magic[GYRE_CACHE_MAGIC_BYTES];
    uint32_t version;
    int64_t count;
    get(r, magic, 1, sizeof magic);
    if (memcmp(magic, GYRE_CACHES_MAGIC, sizeof magic) != 0) malformed(r, 0, "the magic is not " GYRE_CACHES_MAGIC);
    get(r, &version, sizeof version, 1);
    if (version != GYRE_CACHES_VERSION) malformed(r, sizeof magic, "an unknown version");
    get(r, &count, sizeof count, 1);
    get_checksum(r);
    if (!r->status && count != wanted)
        r->status = gyre_fail(r->err, GYRE_EINVAL, "count: is %" PRId64 ", but the file has %" PRId64 " layers (%s)", wanted,
                              count, r->name);
}

/* Reads the cache of one layer.  file_size: of the whole file. */
static void load_layer(reader *r, uint64_t file_size, const gyre_encoding *encoding, const gyre_alloc *alloc,
                       gyre_cache **out) {
    int64_t bytes;
    get(r, &bytes, sizeof bytes, 1);
    const uint64_t begin = r->begin + r->offset;
    if (r->status || bytes == 0) return;
    if (bytes < 0 || begin > file_size || (uint64_t)bytes > file_size - begin) {
        malformed(r, r->offset - sizeof bytes, "a cache past the end of the file");
        return;
    }
    r->begin = begin;
    r->offset = 0;
    r->size = (uint64_t)bytes;
    gyre_checksum_begin(&r->checksum);
    r->status = load(r, encoding, alloc, out);
}

static gyre_status load_all(reader *r, gyre_cache **out, int64_t count, const gyre_encoding *const *encodings,
                            const gyre_alloc *alloc) {
    const uint64_t file_size = r->size;
    get_caches_header(r, count);
    for (int64_t i = 0; i < count && !r->status; i++) {
        load_layer(r, file_size, encodings ? encodings[i] : NULL, alloc, &out[i]);
        if (r->status) r->status = gyre_caches_fail_layer(r->status, i, r->err);
    }
    if (!r->status && r->begin + r->offset != file_size) malformed(r, r->offset, "more bytes after the last layer");
    for (int64_t i = 0; i < count && r->status; i++) {
        gyre_cache_free(out[i]);
        out[i] = NULL;
    }
    return r->status;
}

gyre_status gyre_caches_load(gyre_cache **out, int64_t count, const char *path, const gyre_encoding *const *encodings,
                             const gyre_alloc *alloc, gyre_error *err) {
    reader r = {.name = "gyre_caches_load", .err = err};
    if (count < 0) return gyre_fail(err, GYRE_EINVAL, "count: %" PRId64 " is below 0 (%s)", count, r.name);
    if ((!out && count > 0) || !path) return gyre_fail(err, GYRE_EINVAL, "arguments: out or path is NULL (%s)", r.name);
    for (int64_t i = 0; i < count; i++)
        out[i] = NULL;
    gyre_status status = open_file(&r, path);
    if (status) return status;
    status = load_all(&r, out, count, encodings, alloc);
    close(r.fd);
    return status;
}
