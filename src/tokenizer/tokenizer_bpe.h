/* tokenizer_bpe.h: one word into tokens by byte-pair merges. */
#ifndef GYRE_TOKENIZER_BPE_H
#define GYRE_TOKENIZER_BPE_H
#include "tokenizer/tokenizer.h"

/* A growing list of ids.  All zeros is empty.  The caller frees ids. */
typedef struct gyre_ids {
    int32_t *ids;
    int64_t count, capacity;
} gyre_ids;
gyre_status gyre_ids_append(gyre_ids *ids, int32_t id, gyre_error *err);

/* Memory that is reused from word to word.  All zeros is empty. */
typedef struct gyre_bpe_scratch {
    struct gyre_bpe_symbol *symbols;
    struct gyre_bpe_bigram *heap;
    size_t symbol_capacity, heap_capacity;
} gyre_bpe_scratch;
void gyre_bpe_scratch_free(gyre_bpe_scratch *scratch);

/* Appends the tokens of one word.  Starts from its characters (its bytes, if byte-level), and merges the two neighbors
 * of best rank, the leftmost of several, until nothing can be merged.  O(bytes log bytes). */
gyre_status gyre_bpe_encode_word(const gyre_tokenizer *t, gyre_bpe_scratch *scratch, const unsigned char *word, size_t bytes,
                                 gyre_ids *out, gyre_error *err);

#endif
