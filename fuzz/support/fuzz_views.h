/* fuzz_views.h: views of memory that is exactly as large as they need, in any type, order of axes and spacing. */
#ifndef GYRE_FUZZ_VIEWS_H
#define GYRE_FUZZ_VIEWS_H
#include "fuzz_bytes.h"
#include "gyre/gyre.h"
#include "numbers.h"

typedef struct fuzz_view {
    gyre_view view;
    size_t bytes;
} fuzz_view;

/* out = zeroed memory of this shape; the input chooses its strides.  fuzz_view_free frees it. */
fuzz_view fuzz_view_make(fuzz_bytes *in, gyre_dtype dtype, int64_t batch, int64_t tokens, int64_t heads, int64_t channels);
void fuzz_view_free(fuzz_view *v);
/* Random numbers in [-amplitude, amplitude], rounded to the type. */
void fuzz_view_fill(fuzz_view *v, test_random *random, double amplitude);
/* out = element [b][t][h][c]. */
double fuzz_view_at(const fuzz_view *v, int64_t b, int64_t t, int64_t h, int64_t c);
/* fuzz_require that every element is the same bits in both, NaN included. */
void fuzz_views_require_same(const fuzz_view *a, const fuzz_view *b, const char *what);

/* out = F32, F16 or BF16. */
gyre_dtype fuzz_dtype(fuzz_bytes *in);
/* out = how far a number of the type may be from the one that was rounded to it, next to `size`. */
double fuzz_rounding(gyre_dtype dtype, double size);

#endif
