/* edit_cache.c: sequences that fork, forget, shift and slide; a cache under another encoding; a cache in a file.
 *   edit_cache FOLDER */
#include "example.h"
#include <gyre/gyre_cache.h>

enum { TOKENS = 24, MORE = 4, HEADS = 2, DIM = 16 };

static float q[HEADS][DIM], k[TOKENS][HEADS][DIM], v[TOKENS][HEADS][DIM];

/* Four sequences of raw keys in floats, the first of TOKENS tokens at positions 0, 1, ... */
static gyre_cache *filled(const gyre_encoding *rope) {
    gyre_cache_config config = GYRE_INIT(gyre_cache_config);
    config.encoding = rope;
    config.keys = GYRE_CACHE_KEYS_RAW; /* so that a change of the encoding rounds nothing */
    config.heads = HEADS, config.head_dim = DIM;
    config.sequences = 4, config.max_tokens = 8 * TOKENS, config.page_tokens = 8;
    gyre_cache *cache = NULL;
    check(gyre_cache_create(&cache, &config, NULL, &err));
    const gyre_cview keys = gyre_cdense(k, GYRE_DTYPE_F32, 1, TOKENS, HEADS, DIM);
    const gyre_cview values = gyre_cdense(v, GYRE_DTYPE_F32, 1, TOKENS, HEADS, DIM);
    const gyre_positions from_zero = {0};
    gyre_cache_append_args tokens = GYRE_INIT(gyre_cache_append_args);
    tokens.k = keys, tokens.v = values, tokens.positions = &from_zero;
    check(gyre_cache_append(cache, &tokens, NULL, &err));
    return cache;
}

/* out = attention of one query at `position` over a sequence. */
static void attend(const gyre_cache *cache, int64_t sequence, int64_t position, float out[HEADS][DIM]) {
    gyre_attention_args args = GYRE_INIT(gyre_attention_args);
    args.q = gyre_cdense(q, GYRE_DTYPE_F32, 1, 1, HEADS, DIM);
    args.q_pos.base = position;
    args.out = gyre_dense(out, GYRE_DTYPE_F32, 1, 1, HEADS, DIM);
    size_t bytes;
    check(gyre_cache_attention_scratch(cache, &sequence, &args, NULL, &bytes, &err));
    const gyre_scratch scratch = take_scratch(bytes);
    check(gyre_cache_attention(cache, &sequence, &args, scratch, NULL, &err));
    free(scratch.memory);
}

/* Whether a query at m of sequence a gives what a query at n of sequence b gives. */
static int same(const gyre_cache *a, int64_t a_sequence, int64_t m, const gyre_cache *b, int64_t b_sequence, int64_t n) {
    float one[HEADS][DIM], other[HEADS][DIM];
    attend(a, a_sequence, m, one);
    attend(b, b_sequence, n, other);
    return most_apart(&one[0][0], &other[0][0], HEADS * DIM) < 1e-5;
}

static void fork_and_shift(gyre_cache *cache) {
    /* [gyre_cache_fork] */
    check(gyre_cache_fork(cache, 0, 1, &err)); /* a second answer to one prompt, say */
    gyre_cache_usage usage = GYRE_INIT(gyre_cache_usage);
    check(gyre_cache_get_usage(cache, &usage));
    expect(usage.shared_tokens == TOKENS); /* nothing is copied until one of them writes */
    expect(gyre_cache_tokens(cache, 1) == gyre_cache_tokens(cache, 0));
    /* [end] */
    expect(same(cache, 0, TOKENS, cache, 1, TOKENS));

    /* [gyre_cache_shift] */
    const int64_t delta[GYRE_MAX_AXES] = {1000}; /* axis 0; the others are 0 */
    check(gyre_cache_shift(cache, (gyre_cache_range){1, 0, TOKENS}, delta, &err));
    expect(same(cache, 0, TOKENS, cache, 1, TOKENS + 1000)); /* RoPE knows distances alone */
    /* [end] */

    /* [gyre_cache_remove] */
    check(gyre_cache_remove(cache, (gyre_cache_range){1, 4, 10}, &err)); /* tokens 4 .. 13 */
    int64_t positions[2];
    check(gyre_cache_positions(cache, (gyre_cache_range){1, 3, 2}, 0, positions, &err));
    expect(positions[0] == 1003 && positions[1] == 1014); /* later tokens keep theirs */
    /* [end] */
}

static void slide(gyre_cache *cache) {
    check(gyre_cache_fork(cache, 0, 2, NULL));

    /* [gyre_cache_slide] */
    int64_t next;
    check(gyre_cache_slide(cache, 2, 4, 12, &next, &err));   /* 4 sinks and the last 8 tokens remain */
    expect(next == 12 && gyre_cache_tokens(cache, 2) == 12); /* at positions 0 .. 11; the next token goes to 12 */
    /* [end] */
}

static void change_encoding(const gyre_encoding *rope) {
    gyre_cache *cache = filled(rope);
    gyre_encoding *linear = NULL;
    check(gyre_rope_create_scaled(&linear, rope, GYRE_SCALING_LINEAR, 2, 0, &err));
    gyre_cache *reread = filled(linear);

    /* [gyre_cache_set_encoding] */
    check(gyre_cache_set_encoding(cache, linear, 0, NULL, &err)); /* no key is appended again */
    expect(gyre_cache_get_config(cache)->encoding == linear);
    expect(same(cache, 0, TOKENS, reread, 0, TOKENS)); /* as if the text had been read under it */
    /* [end] */
    gyre_cache_free(reread);
    gyre_cache_free(cache);
    gyre_encoding_free(linear);
}

static void keep(const gyre_cache *cache, const gyre_encoding *rope, const char *folder) {
    char path[4096];
    snprintf(path, sizeof path, "%s/prompt.cache", folder);

    /* [gyre_cache_save gyre_cache_load] */
    check(gyre_cache_save(cache, path, &err)); /* all sequences */
    gyre_cache *loaded = NULL;
    check(gyre_cache_load(&loaded, path, rope, NULL, &err)); /* the encoding is checked against the file */
    expect(gyre_cache_tokens(loaded, 2) == 12);
    expect(same(cache, 0, TOKENS, loaded, 0, TOKENS));
    gyre_cache_free(loaded);
    /* [end] */
}

int main(int argc, char **argv) {
    if (argc < 2) return fprintf(stderr, "usage: edit_cache FOLDER\n"), 2;
    fill(&q[0][0], HEADS * DIM, 1);
    fill(&k[0][0][0], TOKENS * HEADS * DIM, 2);
    fill(&v[0][0][0], TOKENS * HEADS * DIM, 3);
    gyre_encoding *rope = NULL;
    check(gyre_rope_create(&rope, DIM, 10000, GYRE_LAYOUT_HALF, &err));
    gyre_cache *cache = filled(rope);
    fork_and_shift(cache);
    slide(cache);
    keep(cache, rope, argv[1]);
    gyre_cache_free(cache);
    change_encoding(rope);
    gyre_encoding_free(rope);
    return 0;
}
