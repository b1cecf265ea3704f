/* fuzz_cached.c: caches that hold what arrays hold. */
#include "fuzz_cached.h"
#include "fuzz_support.h"

#include <stdlib.h>
#include <string.h>

gyre_cview fuzz_tokens_of(const gyre_cview *view, const fuzz_tokens *tokens) {
    gyre_cview out = *view;
    const int64_t at = tokens->batch * view->stride[0] + tokens->first * view->stride[1];
    if (view->data) out.data = (const char *)view->data + at * (int64_t)gyre_dtype_size(view->dtype);
    out.shape[0] = 1;
    out.shape[1] = tokens->count;
    return out;
}

static gyre_cache *make_cache(const gyre_encoding *encoding, const gyre_cview *k, const gyre_cview *v, int64_t tokens,
                              test_random *random) {
    gyre_error err = {0, ""};
    gyre_cache_config config = GYRE_INIT(gyre_cache_config);
    gyre_cache *cache = NULL;
    config.encoding = encoding;
    config.key_dtype = config.value_dtype = GYRE_DTYPE_F32;
    config.heads = k->shape[2];
    config.head_dim = k->shape[3];
    config.value_dim = v->shape[3];
    config.max_tokens = tokens + 1;
    config.page_tokens = (int64_t)(test_next(random) % 40);
    const gyre_status status = gyre_cache_create(&cache, &config, NULL, &err);
    fuzz_require_error(status, &err);
    fuzz_require(!status, err.text[0] ? err.text : "a legal cache is made");
    return cache;
}

/* out = the tokens as dense floats, which attention over arrays reads them as; a cache takes no F64. */
static gyre_cview floats_of(const gyre_cview *view, const fuzz_tokens *tokens) {
    const gyre_cview rows = fuzz_tokens_of(view, tokens);
    const int64_t heads = rows.shape[2], channels = rows.shape[3], *s = rows.stride;
    float *x = fuzz_room((size_t)(tokens->count * heads * channels), sizeof *x);
    for (int64_t i = 0; i < tokens->count * heads * channels; i++) {
        const int64_t at = i / channels / heads * s[1] + i / channels % heads * s[2] + i % channels * s[3];
        x[i] = (float)test_get(rows.data, rows.dtype, (size_t)at);
    }
    return gyre_cdense(x, GYRE_DTYPE_F32, 1, tokens->count, heads, channels);
}

gyre_cache *fuzz_cached_make(const gyre_encoding *encoding, const gyre_cview *k, const gyre_cview *v,
                             const fuzz_tokens *tokens, const int64_t *positions, test_random *random) {
    gyre_cache *cache = make_cache(encoding, k, v, tokens->count, random);
    const gyre_cview keys = floats_of(k, tokens), values = floats_of(v, tokens);
    fuzz_tokens piece = {0, 0, 0};
    for (; piece.first < tokens->count; piece.first += piece.count) {
        gyre_error err = {0, ""};
        piece.count = 1 + (int64_t)(test_next(random) % (uint64_t)(tokens->count - piece.first));
        const gyre_positions at = {.data = positions + piece.first, .dtype = GYRE_DTYPE_I64, .stride_token = 1};
        const gyre_cview some_keys = fuzz_tokens_of(&keys, &piece), some_values = fuzz_tokens_of(&values, &piece);
        const gyre_status status = gyre_cache_append(
            cache, GYRE_ARGS(gyre_cache_append_args, .k = some_keys, .v = some_values, .positions = &at), NULL, &err);
        fuzz_require(!status, err.text[0] ? err.text : "tokens are appended");
    }
    free((void *)keys.data);
    free((void *)values.data);
    return cache;
}

void fuzz_cached_require_same(const fuzz_view *result, const fuzz_view *whole, const fuzz_tokens *tokens) {
    const gyre_cview all = gyre_const(whole->view), rows = fuzz_tokens_of(&all, tokens);
    const size_t size = gyre_dtype_size(whole->view.dtype);
    const int64_t *shape = result->view.shape, *a = result->view.stride, *b = rows.stride;
    for (int64_t i = 0; i < shape[1] * shape[2] * shape[3]; i++) {
        const int64_t t = i / shape[3] / shape[2], h = i / shape[3] % shape[2], c = i % shape[3];
        const char *x = (const char *)result->view.data + (size_t)(t * a[1] + h * a[2] + c * a[3]) * size;
        const char *y = (const char *)rows.data + (size_t)(t * b[1] + h * b[2] + c * b[3]) * size;
        fuzz_require(memcmp(x, y, size) == 0, "a cache changes no bit of attention");
    }
}
