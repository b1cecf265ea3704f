/* recall.h: windows that ask at their end for earlier parts: passkeys, copied segments. */
#ifndef GYRE_EVAL_RECALL_H
#define GYRE_EVAL_RECALL_H
#include "gyre/gyre_model.h"

/* The last count * length bytes of a window are answers of equal length, next to each other. */
typedef struct gyre_recall {
    const char *what;      /* for errors: "passkey" */
    int64_t length;        /* bytes of an answer */
    int64_t from, to;      /* bytes from .. to - 1 of an answer are asked for, from >= 1 */
    int64_t default_count; /* answers in a window */
    int64_t min_bytes;     /* of a window, for each answer */
    int whole;             /* 1: an answer is right if all of its bytes are; 0: each byte counts */
    void (*draw)(const gyre_text *text, int64_t count, int64_t length, uint64_t *state, int32_t *out, unsigned char *asked);
} gyre_recall;

enum { GYRE_RECALL_MAX = 8 }; /* answers in a window */

/* out = how many answers a window of `length` bytes has room for, at most `wanted`. */
int64_t gyre_recall_fit(int64_t wanted, int64_t length, int64_t min_bytes);
/* order[0 .. n - 1] = the numbers below n in random order. */
void gyre_recall_shuffle(int32_t *order, int64_t n, uint64_t *state);
/* out = the place of item k of `count` items of `length` bytes, one at a random place in each of `count` equal parts of
 * `body` bytes. */
int64_t gyre_recall_place(int64_t k, int64_t count, int64_t length, int64_t body, uint64_t *state);
/* Measures.  Arguments and errors: those of gyre_passkey. */
gyre_status gyre_recall_measure(const gyre_recall *recall, const gyre_model *model, const gyre_text *text,
                                const gyre_passkey_options *options, gyre_passkey_result *out, const gyre_exec *exec,
                                gyre_error *err);

#endif
