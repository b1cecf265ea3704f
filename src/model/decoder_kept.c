/* decoder_kept.c: numbers that every token in the cache keeps: running sums, which the next token goes on from.  After
 * tokens were dropped that is an earlier token, so those of all are kept. */
#include "model/decoder.h"
#include "util/error.h"

#include <stdlib.h>
#include <string.h>

gyre_status gyre_kept_create(gyre_decoder_kept *k, int64_t layers, int64_t max_tokens, int64_t numbers, gyre_error *err) {
    if (!numbers) return GYRE_OK;
    *k = (gyre_decoder_kept){.numbers = numbers, .layers = layers, .max_tokens = max_tokens};
    k->last = calloc((size_t)(layers * numbers), sizeof *k->last);
    k->all = malloc((size_t)(layers * max_tokens * numbers) * sizeof *k->all);
    if (k->last && k->all) return GYRE_OK;
    return gyre_fail(err, GYRE_ENOMEM, "context: out of memory for sums of %lld tokens (gyre_context_create)",
                     (long long)max_tokens);
}

void gyre_kept_free(gyre_decoder_kept *k) {
    free(k->last);
    free(k->all);
}

int64_t gyre_kept_bytes(const gyre_decoder_kept *k) {
    return k->layers * (k->max_tokens + 1) * k->numbers * (int64_t)sizeof(double);
}

static double *token_at(const gyre_decoder_kept *k, int64_t layer, int64_t t) {
    return k->all + (layer * k->max_tokens + t) * k->numbers;
}

double *gyre_kept_last(const gyre_decoder_kept *k, int64_t layer) {
    return k->last + layer * k->numbers;
}

void gyre_kept_truncate(gyre_decoder_kept *k, int64_t tokens) {
    const size_t bytes = (size_t)k->numbers * sizeof(double);
    for (int64_t layer = 0; k->numbers && layer < k->layers; layer++) {
        if (tokens > 0)
            memcpy(gyre_kept_last(k, layer), token_at(k, layer, tokens - 1), bytes);
        else
            memset(gyre_kept_last(k, layer), 0, bytes);
    }
}

void gyre_kept_store(gyre_decoder_kept *k, int64_t layer, int64_t first, int64_t rows, const double *numbers) {
    const size_t bytes = (size_t)k->numbers * sizeof(double);
    if (!k->numbers) return;
    memcpy(token_at(k, layer, first), numbers, (size_t)rows * bytes);
    memcpy(gyre_kept_last(k, layer), numbers + (rows - 1) * k->numbers, bytes);
}
