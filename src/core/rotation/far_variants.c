/* far_variants.c: ReRoPE, leaky ReRoPE, Self-Extend and Dual Chunk Attention, as positions. */
#include "core/rotation/far_variants.h"

#include <math.h>

enum { INTRA_CHUNK, SUCCESSIVE_CHUNK };

int gyre_variant_count(const gyre_config *config, gyre_role role) {
    if (gyre_is_chunked(&config->rope)) return role == GYRE_ROLE_QUERY ? 3 : 1;
    return config->rope.far == GYRE_FAR_AS_NEAR ? 1 : 2;
}

/* Positions may be negative: m mod L is 0 .. L - 1. */
static int64_t position_in_chunk(const gyre_config *config, int64_t m) {
    const int64_t length = config->rope.chunk.size - config->rope.chunk.local, rest = m % length;
    return rest < 0 ? rest + length : rest;
}

int64_t gyre_variant_last_key(const gyre_config *config, int variant, int64_t m) {
    if (!gyre_is_chunked(&config->rope)) return m - config->rope.far_window;
    const int64_t length = config->rope.chunk.size - config->rope.chunk.local;
    return m - position_in_chunk(config, m) - (variant - 1) * length - 1;
}

static double chunk_position(const gyre_config *config, gyre_role role, int variant, int64_t position) {
    const int64_t length = config->rope.chunk.size - config->rope.chunk.local,
                  in_chunk = position_in_chunk(config, position);
    const int paper = config->rope.far == GYRE_FAR_CHUNKED_PAPER;
    const int64_t cap = config->rope.chunk.size - paper, last = paper ? cap : 2 * length - 1;
    if (role == GYRE_ROLE_KEY || variant == INTRA_CHUNK) return (double)in_chunk;
    const int64_t next = variant == SUCCESSIVE_CHUNK ? length + in_chunk : last;
    return (double)(next < cap ? next : cap);
}

double gyre_variant_position(const gyre_config *config, gyre_role role, int variant, int64_t position) {
    const struct gyre_rope_config *rope = &config->rope;
    const double m = (double)position, w = (double)rope->far_window, factor = rope->far_factor;
    if (gyre_is_chunked(rope)) return chunk_position(config, role, variant, position);
    if (variant == 0) return m;
    switch (rope->far) {
    case GYRE_FAR_CLAMPED:
        return role == GYRE_ROLE_QUERY ? w : 0;
    case GYRE_FAR_LEAKY: /* (m + w (k - 1)) / k - n / k = w + (m - n - w) / k; the frequencies include the division */
        return role == GYRE_ROLE_QUERY ? m + w * (factor - 1) : m;
    case GYRE_FAR_GROUPED:
        return floor(m / factor) + (role == GYRE_ROLE_QUERY ? w - floor(w / factor) : 0);
    default:
        return m;
    }
}
