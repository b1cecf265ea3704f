/* cache_set_encoding.c: rotates stored keys from one encoding to another.
 *
 * Slots keep their positions and ranges their deltas.  E(n) k becomes E'(n) k, rotated by the difference of the angles. */
#include "cache/cache.h"

#include "core/convert.h"
#include "core/exec.h"
#include "core/positions.h"
#include "core/rotation/angles.h"
#include "core/rotation/frequency.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

int gyre_cache_same_length(const gyre_cache *cache, int64_t length) {
    const gyre_encoding *encoding = cache->config.encoding;
    return length == cache->config.context_length ||
           gyre_rope_same_frequencies(&encoding->config, length, cache->config.context_length);
}

/* -- one row -- */

typedef struct rotation_change {
    const gyre_cache *cache;
    gyre_angles before, after;
} rotation_change;

static void read_row(const gyre_cache_rows *rows, int64_t row, double *x) {
    if (rows->dtype != GYRE_DTYPE_Q8) {
        gyre_load_row_f64(gyre_cache_data(rows, row), rows->dtype, 1, rows->channels, x);
        return;
    }
    const int8_t *whole = gyre_cache_data(rows, row);
    for (int64_t c = 0; c < rows->channels; c++)
        x[c] = (double)whole[c] * (double)rows->scale[row];
}

static void write_row(const gyre_cache *cache, const gyre_cache_rows *rows, int64_t row, const double *x) {
    if (rows->dtype != GYRE_DTYPE_Q8) {
        gyre_store_row_f64(x, rows->channels, gyre_cache_data(rows, row), rows->dtype, 1);
        return;
    }
    float narrow[GYRE_CACHE_MAX_CHANNELS];
    for (int64_t c = 0; c < rows->channels; c++)
        narrow[c] = (float)x[c];
    gyre_cache_store(cache, rows, row, narrow);
}

/* The frequencies of all pairs in both encodings. */
typedef struct frequencies {
    gyre_frequency before[GYRE_CACHE_MAX_CHANNELS / 2], after[GYRE_CACHE_MAX_CHANNELS / 2];
} frequencies;

static void read_frequencies(const gyre_angles *angles, int64_t pairs, gyre_frequency *out) {
    const gyre_frequency *of = gyre_angles_frequencies(angles, 0, pairs, out);
    if (of != out) memcpy(out, of, (size_t)pairs * sizeof *out);
}

/* cosine[i], sine[i] = what takes pair i from one encoding to the other at a position. */
static void rotation_between(const rotation_change *r, const frequencies *f, int64_t pairs, const double *position,
                             double *cosine, double *sine) {
    double c[GYRE_CACHE_MAX_CHANNELS / 2], s[GYRE_CACHE_MAX_CHANNELS / 2];
    for (int64_t first = 0, n; first < pairs; first += n) {
        n = pairs - first < GYRE_PAIR_CHUNK ? pairs - first : GYRE_PAIR_CHUNK;
        gyre_angles_f64(&r->before, f->before + first, first, n, position, c + first, s + first);
        gyre_angles_f64(&r->after, f->after + first, first, n, position, cosine + first, sine + first);
    }
    for (int64_t i = 0; i < pairs; i++) {
        const double size = c[i] * c[i] + s[i] * s[i], x = cosine[i], y = sine[i];
        cosine[i] = (x * c[i] + y * s[i]) / size;
        sine[i] = (y * c[i] - x * s[i]) / size;
    }
}

/* Rotates all heads of one slot. */
static void rotate_slot(const rotation_change *r, const frequencies *f, int64_t page, int64_t slot) {
    const gyre_cache *cache = r->cache;
    const struct gyre_rope_config *rope = &cache->config.encoding->config.rope;
    const int64_t pairs = rope->dim / 2, half = rope->layout == GYRE_LAYOUT_HALF;
    double cosine[GYRE_CACHE_MAX_CHANNELS / 2], sine[GYRE_CACHE_MAX_CHANNELS / 2], x[GYRE_CACHE_MAX_CHANNELS],
        at[GYRE_MAX_AXES];
    for (int64_t a = 0; a < cache->axes; a++)
        at[a] = (double)gyre_cache_position(cache, page, slot)[a];
    rotation_between(r, f, pairs, at, cosine, sine);
    for (int64_t h = 0; h < cache->config.heads; h++) {
        const int64_t row = gyre_cache_row(cache, page, h, slot);
        read_row(&cache->k, row, x);
        for (int64_t i = 0; i < pairs; i++) {
            double *a = x + rope->first_channel + (half ? i : 2 * i), *b = half ? a + pairs : a + 1;
            const double p = *a, q = *b;
            *a = p * cosine[i] - q * sine[i];
            *b = p * sine[i] + q * cosine[i];
        }
        write_row(cache, &cache->k, row, x);
    }
}

static void rotate_page(void *arg, int64_t page) {
    const rotation_change *r = arg;
    const int64_t pairs = r->cache->config.encoding->config.rope.dim / 2, fill = r->cache->page[page].fill;
    if (fill == 0) return;
    frequencies f;
    read_frequencies(&r->before, pairs, f.before);
    read_frequencies(&r->after, pairs, f.after);
    for (int64_t slot = 0; slot < fill; slot++)
        rotate_slot(r, &f, page, slot);
}

/* -- the call -- */

static const char name[] = "gyre_cache_set_encoding";

static gyre_status check_pairs(const gyre_encoding *before, const gyre_encoding *after, gyre_error *err) {
    const struct gyre_rope_config *a = &before->config.rope, *b = &after->config.rope;
    if (a->dim != b->dim || a->first_channel != b->first_channel)
        return gyre_fail(err, GYRE_ESHAPE,
                         "encoding: rotates %" PRId64 " channels from %" PRId64
                         " on, but keys are stored rotated in %" PRId64 " from %" PRId64 " on (%s)",
                         b->dim, b->first_channel, a->dim, a->first_channel, name);
    if (a->layout == b->layout) return GYRE_OK;
    return gyre_fail(err, GYRE_EINVAL, "encoding: rope.layout %d, but keys are stored rotated in %d (%s)", (int)b->layout,
                     (int)a->layout, name);
}

static gyre_status fail_position(const gyre_encoding *encoding, int64_t at, gyre_error *err) {
    return gyre_fail(err, GYRE_ERANGE, "encoding: a token is at %" PRId64 ", not in its %" PRId64 " .. %" PRId64 " (%s)", at,
                     encoding->first_position, encoding->last_position, name);
}

static gyre_status check_positions(const gyre_cache *cache, const gyre_encoding *encoding, gyre_error *err) {
    if (encoding->first_position <= -GYRE_MAX_POSITION && encoding->last_position >= GYRE_MAX_POSITION) return GYRE_OK;
    for (int64_t i = 0; i < cache->config.sequences; i++)
        for (int64_t j = 0; j < cache->sequence[i].count; j++) {
            const gyre_slot_range *s = &cache->sequence[i].ranges[j];
            for (int64_t t = 0; t < s->count; t++)
                for (int64_t a = 0; a < cache->axes; a++) {
                    const int64_t at = gyre_cache_position(cache, s->page, s->first + t)[a] + s->delta[a];
                    if (at < encoding->first_position || at > encoding->last_position)
                        return fail_position(encoding, at, err);
                }
        }
    return GYRE_OK;
}

static gyre_status check(const gyre_cache *cache, const gyre_encoding *encoding, gyre_error *err) {
    const gyre_encoding *before = cache->config.encoding;
    const int rotates = gyre_cache_rotates(encoding);
    if (rotates && encoding->config.head_dim != cache->config.head_dim)
        return gyre_fail(err, GYRE_ESHAPE, "encoding: head_dim %" PRId64 " is not the cache's %" PRId64 " (%s)",
                         encoding->config.head_dim, cache->config.head_dim, name);
    const gyre_status values = gyre_cache_check_values_in_keys(&cache->config, encoding, name, err);
    if (values) return values;
    if (gyre_cache_axes_of(encoding) != cache->axes)
        return gyre_fail(err, GYRE_EUNSUPPORTED, "encoding: %" PRId64 " axes, but the cache has %" PRId64 " (%s)",
                         gyre_cache_axes_of(encoding), cache->axes, name);
    if (cache->config.keys == GYRE_CACHE_KEYS_ROTATED) {
        gyre_status status = gyre_cache_can_store_rotated(encoding, err);
        if (!status && rotates != cache->rotated)
            status = gyre_fail(err, GYRE_ESHAPE, "encoding: it rotates %s, but the stored keys are%s rotated (%s)",
                               rotates ? "keys" : "nothing", rotates ? " not" : "", name);
        if (!status && rotates) status = check_pairs(before, encoding, err);
        if (status) return status;
    }
    return check_positions(cache, encoding, err);
}

gyre_status gyre_cache_set_encoding(gyre_cache *cache, const gyre_encoding *encoding, int64_t length, const gyre_exec *exec,
                                    gyre_error *err) {
    if (!cache || !encoding) return gyre_fail(err, GYRE_EINVAL, "%s: is NULL (%s)", cache ? "encoding" : "cache", name);
    if (length < 0) return gyre_fail(err, GYRE_EINVAL, "length: %" PRId64 " is below 0 (%s)", length, name);
    const gyre_status status = check(cache, encoding, err);
    if (status) return status;
    if (cache->rotated) {
        rotation_change r = {
            .cache = cache,
            .before = gyre_angles_of(cache->config.encoding, GYRE_DIRECTION_FORWARD, cache->config.context_length),
            .after = gyre_angles_of(encoding, GYRE_DIRECTION_FORWARD, length)};
        gyre_parallel(exec, rotate_page, &r, cache->page_high_water);
    }
    cache->config.encoding = encoding;
    cache->config.context_length = length;
    cache->kernels = gyre_kernels_beside(encoding->kernels);
    return GYRE_OK;
}
