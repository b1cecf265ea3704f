/* tokenizer.h: what a tokenizer is made of, whatever file it came from.
 *
 * Pieces are kept as the bytes of text that they stand for: the alphabet of byte-level files and the U+2581 that stands for
 * a space in sentencepiece's are undone when a file is read.  Text is never changed, so it comes back as it was: a literal
 * U+2581 is a character like others, for which no piece stands. */
#ifndef GYRE_MODEL_TOKENIZER_H
#define GYRE_MODEL_TOKENIZER_H
#include "gyre/gyre_model.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/tokenizer_table.h"

/* Where a space is put before text, and left out of it again. */
typedef enum gyre_prepend_scheme {
    GYRE_PREPEND_NEVER,
    GYRE_PREPEND_FIRST, /* where the text begins, unless with an added token */
    GYRE_PREPEND_ALWAYS /* there and after every added token */
} gyre_prepend_scheme;

enum {
    GYRE_MAX_ADDED_TOKEN_BYTES = 512, /* bytes of an added token: each is looked for at every byte of a text */
    GYRE_TOKENIZER_NOTES_BYTES = 1024
};

struct gyre_tokenizer {
    gyre_tokenizer_info info;
    gyre_vocabulary vocabulary;
    int32_t byte_ids[256];     /* the token that stands for a byte where no piece stands for its character; -1 */
    int by_scores;             /* 1: neighbours whose joint piece has the best rank are merged, 0: those that merges list */
    uint32_t *ranks;           /* [vocab] of pieces, by score */
    gyre_pair_map merges;      /* left piece, right piece: rank, merged piece */
    unsigned char joins[8192]; /* bit 256 a + b: some merge joins a piece that ends with a to one that begins with b */
    uint32_t max_piece_bytes;  /* bytes of a piece that merges may make */
    int ignore_merges;         /* 1: a word that is a piece is not cut ("ignore_merges") */
    gyre_added_trie added[2];  /* tokens found as they are written; those of the second in what the first leave */
    gyre_prepend_scheme prepend_scheme;
    gyre_pre_tokenizer steps; /* how text is cut into words; none: it is one */
    char *path;               /* for messages */
    char notes[GYRE_TOKENIZER_NOTES_BYTES];
};

/* Growing ids. */
typedef struct gyre_ids {
    int32_t *ids;
    int64_t count, room;
} gyre_ids;
gyre_status gyre_ids_append(gyre_ids *ids, int32_t id, gyre_error *err);

/* Scratch of one call, reused from word to word. */
typedef struct gyre_bpe_scratch {
    struct gyre_bpe_symbol *symbols;
    struct gyre_bpe_bigram *heap;
    size_t symbols_room, heap_room;
} gyre_bpe_scratch;
void gyre_bpe_scratch_free(gyre_bpe_scratch *scratch);
/* Appends the tokens of one word: its characters (bytes, of byte-level files), of which the neighbours of best rank, the
 * first of several, are merged until none can be.  O(bytes log bytes). */
gyre_status gyre_bpe_encode_word(const gyre_tokenizer *t, gyre_bpe_scratch *scratch, const unsigned char *word, size_t bytes,
                                 gyre_ids *out, gyre_error *err);

/* -- while a file is read -- */
/* *out = one without tokens. */
gyre_status gyre_tokenizer_create(gyre_tokenizer **out, const char *path, gyre_tokenizer_kind kind, gyre_error *err);
/* Adds what is done otherwise than a file asks for to the notes, once. */
void gyre_tokenizer_add_note(gyre_tokenizer *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* out = 1 where pieces[left] and pieces[right] may be merged into pieces[merged] at that rank, else 0: one of the three
 * never comes of plain text.  GYRE_ENOMEM is -1. */
int gyre_tokenizer_add_merge(gyre_tokenizer *t, int32_t left, int32_t right, int32_t merged, uint32_t rank);
/* Marks the token as one that is found in text as it is written. */
gyre_status gyre_tokenizer_mark_added(gyre_tokenizer *t, int32_t id, int is_special, int is_normalized, int strips_left,
                                      int strips_right, gyre_error *err);
/* Once all is read. */
void gyre_tokenizer_finish(gyre_tokenizer *t);

/* bytes: of a tokenizer.json; folder: of its path, where tokenizer_config.json and config.json are looked for, or NULL. */
gyre_status gyre_tokenizer_from_json(gyre_tokenizer **out, const char *text, size_t bytes, const char *path,
                                     const char *folder, gyre_error *err);
/* A mapped GGUF. */
gyre_status gyre_tokenizer_from_gguf(gyre_tokenizer **out, const void *bytes, size_t size, const char *path,
                                     gyre_error *err);

#endif
