/* same_encoding.h: whether two methods make the same encoding, to the bit, so that what is measured under one holds for
 * both: none, linear, ntk and yarn within the trained length; ntk:4 and dynamic:1 at four times it. */
#ifndef GYRE_TOOLS_SAME_ENCODING_H
#define GYRE_TOOLS_SAME_ENCODING_H
#include "gyre/gyre_model.h"

/* out = 1 if tokens in a window of `length` tokens, at the positions from `first` on, get the same numbers from both, to the
 * bit; 0 if they may differ. */
int encodings_are_same(const gyre_encoding *a, const gyre_encoding *b, int64_t first, int64_t length);

/* A table of rows of one encoding each, at several lengths: the row that is measured in place of another. */
typedef struct same_rows {
    int64_t *first; /* [lengths][rows] the first row with the same encoding, a row itself if it has its own */
    int64_t rows, lengths;
} same_rows;

/* *out = the encoding of a row at a length; NULL = the row shares with none. */
typedef gyre_status same_rows_encoding(void *ctx, int64_t row, int64_t length, gyre_encoding **out, gyre_error *err);
typedef struct same_rows_search {
    const gyre_model *model; /* whose layers may train more than the encoding: then no row shares; NULL = none */
    int64_t rows, first_position;
    const int64_t *lengths; /* [count] */
    int64_t count;
    same_rows_encoding *make;
    void *ctx;
} same_rows_search;
/* A row whose encoding cannot be made shares with none.  Errors: EIO and ENOMEM of `make`. */
gyre_status same_rows_find(same_rows *out, const same_rows_search *of, gyre_error *err);
void same_rows_free(same_rows *same); /* also for one that is zeroed */
/* out = the row whose result the row shares at lengths[at]; -1 = it has its own. */
int64_t same_rows_of(const same_rows *same, int64_t row, int64_t at);
/* out = the next row after `after` (-1 = from the first on) that has the same encoding as the row; -1 = none. */
int64_t same_rows_next(const same_rows *same, int64_t row, int64_t at, int64_t after);
enum { SAME_ROWS_TEXT = 2048 };
/* out = one sentence that says which rows share at which of the first `count` lengths, "" if none do.  name: of a row. */
void same_rows_describe(const same_rows *same, const int64_t *lengths, int64_t count,
                        const char *(*name)(const void *of, int64_t row), const void *of, char out[SAME_ROWS_TEXT]);

#endif
