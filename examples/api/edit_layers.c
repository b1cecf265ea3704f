/* edit_layers.c: the caches of all layers of a model, edited and kept in a file as one.
 *   edit_layers FOLDER */
#include "example.h"
#include <gyre/gyre_cache.h>

enum { LAYERS = 3, TOKENS = 24, HEADS = 2, DIM = 16 };

static float k[TOKENS][HEADS][DIM], v[TOKENS][HEADS][DIM];

/* Layer 1 reads the keys of layer 0, so it has no cache.  The keys of layer 2 have no positions. */
static void fill_caches(gyre_cache *caches[LAYERS], const gyre_encoding *const encodings[LAYERS]) {
    for (int layer = 0; layer < LAYERS; layer += 2) {
        gyre_cache_config config = GYRE_INIT(gyre_cache_config);
        config.encoding = encodings[layer];
        config.heads = HEADS, config.head_dim = DIM;
        config.sequences = 2, config.max_tokens = 4 * TOKENS, config.page_tokens = 8;
        check(gyre_cache_create(&caches[layer], &config, NULL, &err));
        const gyre_positions from_zero = {0};
        gyre_cache_append_args tokens = GYRE_INIT(gyre_cache_append_args);
        tokens.k = gyre_cdense(k, GYRE_DTYPE_F32, 1, TOKENS, HEADS, DIM);
        tokens.v = gyre_cdense(v, GYRE_DTYPE_F32, 1, TOKENS, HEADS, DIM);
        tokens.positions = &from_zero;
        check(gyre_cache_append(caches[layer], &tokens, NULL, &err));
    }
}

static void edit(gyre_cache *const caches[LAYERS]) {
    /* [gyre_caches_fork gyre_caches_remove gyre_caches_shift] */
    const int64_t delta[GYRE_MAX_AXES] = {-10};
    check(gyre_caches_fork(caches, LAYERS, 0, 1, &err));                                 /* in every layer, or in none */
    check(gyre_caches_remove(caches, LAYERS, (gyre_cache_range){1, 4, 10}, &err));       /* tokens 4 .. 13 */
    check(gyre_caches_shift(caches, LAYERS, (gyre_cache_range){1, 4, 10}, delta, &err)); /* the rest follows the first 4 */
    expect(gyre_cache_tokens(caches[0], 1) == 14 && gyre_cache_tokens(caches[2], 1) == 14);
    /* [end] */

    /* [gyre_caches_slide] */
    check(gyre_caches_slide(caches, LAYERS, 1, 4, 12, &err)); /* 4 sinks and the last 8 tokens remain */
    expect(gyre_cache_tokens(caches[0], 1) == 12 && gyre_cache_tokens(caches[2], 1) == 12);
    /* [end] */
}

static void keep(gyre_cache *const caches[LAYERS], const gyre_encoding *const encodings[LAYERS], const char *folder) {
    char path[4096];
    snprintf(path, sizeof path, "%s/layers.cache", folder);

    /* [gyre_caches_save gyre_caches_load] */
    check(gyre_caches_save(caches, LAYERS, path, &err));
    gyre_cache *loaded[LAYERS];
    check(gyre_caches_load(loaded, LAYERS, path, encodings, NULL, &err));
    expect(loaded[1] == NULL && gyre_cache_tokens(loaded[2], 1) == 12);
    for (int layer = 0; layer < LAYERS; layer++)
        gyre_cache_free(loaded[layer]);
    /* [end] */
}

int main(int argc, char **argv) {
    if (argc < 2) return fprintf(stderr, "usage: edit_layers FOLDER\n"), 2;
    fill(&k[0][0][0], TOKENS * HEADS * DIM, 1);
    fill(&v[0][0][0], TOKENS * HEADS * DIM, 2);
    gyre_encoding *rope = NULL;
    check(gyre_rope_create(&rope, DIM, 10000, GYRE_LAYOUT_HALF, &err));
    const gyre_encoding *const encodings[LAYERS] = {rope, rope, NULL};
    gyre_cache *caches[LAYERS] = {NULL};
    fill_caches(caches, encodings);
    edit(caches);
    keep(caches, encodings, argv[1]);
    for (int layer = 0; layer < LAYERS; layer++)
        gyre_cache_free(caches[layer]);
    gyre_encoding_free(rope);
    return 0;
}
