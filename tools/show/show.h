/* show.h: gyre show: properties of position encodings, computed with the library.
 *
 * A question makes the encoding it is about, applies it with the public calls, and measures what they return. */
#ifndef GYRE_TOOLS_SHOW_H
#define GYRE_TOOLS_SHOW_H
#include "gyre/gyre.h"
#include "tools/cli/cli.h"

typedef struct show_options {
    cli_options common; /* first */
    int question;       /* -1 = none */
    int64_t dim;        /* channels of the encoding */
    double base;
    int64_t positions; /* 0 = the question's own number */
    gyre_exec exec;
} show_options;

/* Prints to `text`, or if that is NULL, *out = the result as JSON, which the caller releases.  Errors: ENOMEM, those of the
 * library. */
typedef gyre_status show_question(const show_options *o, FILE *text, json_t **out, gyre_error *err);
show_question show_shift, show_repeats, show_interpolation, show_stretched;

/* *out = a sinusoid in pairs [sin cos sin cos ...], or a rotation in such pairs that divides positions by `factor`. */
gyre_status show_sinusoid(const show_options *o, gyre_encoding **out, gyre_error *err);
gyre_status show_rotation(const show_options *o, int clockwise, double factor, gyre_encoding **out, gyre_error *err);
/* rows[count][dim] = the rows of positions first .. first + count - 1 of a sinusoid, in double. */
gyre_status show_rows(const show_options *o, const gyre_encoding *sinusoid, int64_t first, int64_t count, double *rows,
                      gyre_error *err);
/* A sequence of numbers in [-1, 1), the same on every machine. */
double show_random(uint64_t *state);

#endif
