/* cache_set_encoding.c: keys that were turned by one encoding, turned by another.
 *
 * A slot keeps its position and a stretch its shift: what was E(n) k becomes E'(n) k, by the angle that lies between. */
#include "cache/cache.h"

#include "core/convert.h"
#include "core/exec.h"
#include "core/positions.h"
#include "core/rotation/angles.h"
#include "core/rotation/frequency.h"

#include <math.h>
#include <string.h>

int gyre_cache_same_length(const gyre_cache *cache, int64_t length) {
    const gyre_encoding *encoding = cache->config.encoding;
    return length == cache->config.context_length ||
           gyre_rope_same_frequencies(&encoding->config, length, cache->config.context_length);
}

/* -- one row -- */

typedef struct replan {
    const gyre_cache *cache;
    gyre_angles before, after;
} replan;

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

/* Of all pairs of the two encodings. */
typedef struct frequencies {
    gyre_frequency before[GYRE_CACHE_MAX_CHANNELS / 2], after[GYRE_CACHE_MAX_CHANNELS / 2];
} frequencies;

static void read_frequencies(const gyre_angles *angles, int64_t pairs, gyre_frequency *out) {
    const gyre_frequency *of = gyre_angles_frequencies(angles, 0, pairs, out);
    if (of != out) memcpy(out, of, (size_t)pairs * sizeof *out);
}

/* What takes each pair from one encoding to the other. */
static void rotation_between(const replan *r, const frequencies *f, int64_t pairs, const double *position, double *cosine,
                             double *sine) {
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

/* All heads of one slot. */
static void rotate_slot(const replan *r, const frequencies *f, int64_t page, int64_t slot) {
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
    const replan *r = arg;
    const int64_t pairs = r->cache->config.encoding->config.rope.dim / 2, fill = r->cache->page[page].fill;
    if (fill == 0) return;
    frequencies f;
    read_frequencies(&r->before, pairs, f.before);
    read_frequencies(&r->after, pairs, f.after);
    for (int64_t slot = 0; slot < fill; slot++)
        rotate_slot(r, &f, page, slot);
}

/* -- the call -- */

static gyre_status check_pairs(const gyre_encoding *before, const gyre_encoding *after) {
    const struct gyre_rope_config *a = &before->config.rope, *b = &after->config.rope;
    if (a->dim != b->dim || a->first_channel != b->first_channel) return GYRE_ESHAPE;
    return a->layout == b->layout ? GYRE_OK : GYRE_EINVAL;
}

/* Of all tokens. */
static gyre_status check_positions(const gyre_cache *cache, const gyre_encoding *encoding) {
    if (encoding->first_position <= -GYRE_MAX_POSITION && encoding->last_position >= GYRE_MAX_POSITION) return GYRE_OK;
    for (int64_t i = 0; i < cache->config.sequences; i++)
        for (int64_t j = 0; j < cache->sequence[i].count; j++) {
            const gyre_slot_range *s = &cache->sequence[i].ranges[j];
            for (int64_t t = 0; t < s->count; t++)
                for (int64_t a = 0; a < cache->axes; a++) {
                    const int64_t at = gyre_cache_position(cache, s->page, s->first + t)[a] + s->delta[a];
                    if (at < encoding->first_position || at > encoding->last_position) return GYRE_ERANGE;
                }
        }
    return GYRE_OK;
}

static gyre_status check(const gyre_cache *cache, const gyre_encoding *encoding) {
    const gyre_encoding *before = cache->config.encoding;
    const int rotates = gyre_cache_rotates(encoding);
    if (rotates && encoding->config.head_dim != cache->config.head_dim) return GYRE_ESHAPE;
    if (gyre_cache_axes_of(encoding) != cache->axes) return GYRE_EUNSUPPORTED;
    if (cache->config.keys == GYRE_CACHE_KEYS_ROTATED) {
        gyre_status status = gyre_cache_can_store_rotated(encoding, NULL);
        if (status == GYRE_OK && rotates != cache->rotated) status = GYRE_ESHAPE;
        if (status == GYRE_OK && rotates) status = check_pairs(before, encoding);
        if (status != GYRE_OK) return status;
    }
    return check_positions(cache, encoding);
}

gyre_status gyre_cache_set_encoding(gyre_cache *cache, const gyre_encoding *encoding, int64_t length, const gyre_exec *exec,
                                    gyre_error *err) {
    (void)err;
    if (!cache || !encoding || length < 0) return GYRE_EINVAL;
    const gyre_status status = check(cache, encoding);
    if (status != GYRE_OK) return status;
    if (cache->rotated) {
        replan r = {.cache = cache,
                    .before = gyre_angles_of(cache->config.encoding, GYRE_DIRECTION_FORWARD, cache->config.context_length),
                    .after = gyre_angles_of(encoding, GYRE_DIRECTION_FORWARD, length)};
        gyre_parallel(exec, rotate_page, &r, cache->page_high_water);
    }
    cache->config.encoding = encoding;
    cache->config.context_length = length;
    cache->kernels = encoding->kernels;
    return GYRE_OK;
}
