/* tokenizer.h: the inside of a gyre_tokenizer, and how a file's reader builds one.
 *
 * Pieces are stored as the bytes of text that they stand for.  The reader of a file undoes the alphabet of byte-level
 * files and the U+2581 that sentencepiece writes for a space.  Text itself is never changed, so it survives encoding and
 * decoding: a literal U+2581 in it is an ordinary character, which has no piece. */
#ifndef GYRE_TOKENIZER_TOKENIZER_H
#define GYRE_TOKENIZER_TOKENIZER_H
#include "gyre/gyre_model.h"
#include "tokenizer/added_trie.h"
#include "tokenizer/pair_map.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/vocabulary.h"

/* Where the encoder puts a space before text, which the decoder removes again. */
typedef enum gyre_prepend_scheme {
    GYRE_PREPEND_NEVER,
    GYRE_PREPEND_FIRST, /* at the beginning of the text, unless it begins with an added token */
    GYRE_PREPEND_ALWAYS /* there and after every added token */
} gyre_prepend_scheme;

enum {
    GYRE_MAX_ADDED_TOKEN_BYTES = 512, /* each added token is searched for at every byte of a text */
    GYRE_TOKENIZER_NOTES_BYTES = 4096,
    GYRE_STRIPS_LEFT = 1, /* gyre_piece.strips */
    GYRE_STRIPS_RIGHT = 2
};

/* Of an added token that byte-level merges make of other bytes than it is written with: one id decodes to one of both. */
#define GYRE_WORD_NOTE         "%s: a token that the vocabulary makes of other bytes is not searched for in text as it is written"
#define GYRE_SPECIAL_WORD      "a special token that merges make of a text, where none may come from a text"
#define GYRE_NO_END_TOKEN_NOTE "%s: no token is added at the end" /* of the field that asks for one */

struct gyre_tokenizer {
    gyre_tokenizer_info info;
    gyre_vocabulary vocabulary;
    int32_t byte_ids[256]; /* the token of a byte, for characters that are no piece; -1 = none */
    int by_scores;         /* 1: merge neighbors that together are a piece, best rank first; 0: merge as `merges` lists */
    uint32_t *ranks;       /* [vocab] of pieces, by score */
    gyre_pair_map merges;  /* (left piece, right piece) -> rank, merged piece */
    unsigned char joins[8192]; /* bit 256 a + b: some merge joins a piece that ends with a to one that begins with b */
    uint32_t max_piece_bytes;  /* the longest piece that merges can make */
    int ignore_merges;         /* 1: a word that is a piece becomes that piece ("ignore_merges") */
    gyre_added_trie added[2];  /* added tokens; those of added[1] are searched for in what added[0] leaves */
    gyre_prepend_scheme prepend_scheme;
    gyre_pre_tokenizer steps; /* how text is cut into words; no steps: the text is one word */
    char *path;               /* for messages */
    char *chat_template;      /* NULL = none */
    char notes[GYRE_TOKENIZER_NOTES_BYTES];
};

/* -- building, while a file is read -- */
/* *out = a tokenizer without tokens. */
gyre_status gyre_tokenizer_create(gyre_tokenizer **out, const char *path, gyre_tokenizer_kind kind, gyre_error *err);
/* Adds a note (once) about something that the file asks for and Gyre does differently. */
void gyre_tokenizer_add_note(gyre_tokenizer *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Lets pieces[left] and pieces[right] be merged into pieces[merged] at that rank.  Returns 1, or 0 if one of the three
 * never comes from plain text, or -1 without memory. */
int gyre_tokenizer_add_merge(gyre_tokenizer *t, int32_t left, int32_t right, int32_t merged, uint32_t rank);
/* Makes a piece an added token, which is found in the text as it is written. */
gyre_status gyre_tokenizer_mark_added(gyre_tokenizer *t, int32_t id, int is_special, int is_normalized, int strips_left,
                                      int strips_right, gyre_error *err);
/* How text becomes a piece that it is not searched for. */
typedef enum gyre_making {
    GYRE_MADE_NEVER,
    GYRE_MADE_AS_WORD, /* where a whole word is the piece: ignore_merges */
    GYRE_MADE_BY_MERGE /* or the piece is a byte */
} gyre_making;
/* *out = [vocab] a gyre_making each, which the caller frees.  Needs the merges.  Errors: ENOMEM. */
gyre_status gyre_tokenizer_list_made(const gyre_tokenizer *t, unsigned char **out, gyre_error *err);
/* Call last: derives byte_ids, joins and max_piece_bytes from the pieces. */
void gyre_tokenizer_finish(gyre_tokenizer *t);

/* -- files -- */
/* text: a tokenizer.json.  folder: where its tokenizer_config.json and config.json are looked for, or NULL. */
gyre_status gyre_tokenizer_from_json(gyre_tokenizer **out, const char *text, size_t bytes, const char *path,
                                     const char *folder, gyre_error *err);
/* bytes: a mapped GGUF. */
gyre_status gyre_tokenizer_from_gguf(gyre_tokenizer **out, const void *bytes, size_t size, const char *path,
                                     gyre_error *err);

#endif
