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
    int64_t dim;        /* channels of the encoding; while the options are read, 0 = the question's own number */
    double base;
    int64_t position;  /* of the vector that rotation turns */
    int64_t positions; /* 0 = the question's own number */
    gyre_exec exec;
} show_options;

/* Prints to `text`, or if that is NULL, *out = the result as JSON, which the caller releases.  Errors: ENOMEM, those of the
 * library. */
typedef gyre_status show_question(const show_options *o, FILE *text, json_t **out, gyre_error *err);
show_question show_rotation, show_shift, show_repeats, show_interpolation, show_stretched;

/* A sequence of numbers in [-1, 1), the same on every machine. */
double show_random(uint64_t *state);

#endif
