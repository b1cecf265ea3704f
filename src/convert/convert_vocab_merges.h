/* convert_vocab_merges.h: the merges that follow from scores of pieces. */
#ifndef GYRE_CONVERT_VOCAB_MERGES_H
#define GYRE_CONVERT_VOCAB_MERGES_H
#include "convert/convert_vocab.h"

#include <jansson.h>

typedef struct gyre_convert_merge {
    int32_t merged_id, left, right;
    float score; /* of the merged token */
} gyre_convert_merge;
typedef struct gyre_convert_merges {
    gyre_convert_merge *list; /* best score first; the caller frees it */
    size_t count, capacity;
    /* Tokens for which the list is not all that scores do; -1 = none. */
    int32_t through_character; /* made of a character that is no token, which scores join to its neighbor all the same */
    int32_t too_long;          /* of more than GYRE_MAX_MERGED_BYTES */
} gyre_convert_merges;

enum { GYRE_MAX_MERGED_BYTES = 512 }; /* of tokens for which merges are searched: the work grows with its square */

/* out = 1 if a text may be merged into the token. */
int gyre_convert_token_merges(const gyre_convert_token *token);
/* *out = every way to split a token, between characters, into two others.  vocab: text -> id.  Returns 0 without memory. */
int gyre_convert_merges_of_scores(const gyre_convert_vocab *p, const json_t *vocab, gyre_convert_merges *out);
/* out = 1 if the list, best first, is exactly that of the scores of its tokens; 0 = it is not; -1 = no memory. */
int gyre_convert_merges_are_scores(const gyre_convert_vocab *p, const json_t *vocab, const gyre_convert_merge *list,
                                   size_t count);

#endif
