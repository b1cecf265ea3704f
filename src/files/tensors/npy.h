/* npy.h: reads the array of a .npy file, as numpy.save writes it.  The header is a literal of Python, of which this reader
 * takes no more than numpy writes: a dict with descr, fortran_order and shape. */
#ifndef GYRE_FILES_NPY_H
#define GYRE_FILES_NPY_H
#include "gyre/gyre.h"

enum { GYRE_NPY_MAX_HEADER = 65536 /* bytes; numpy writes 128 for an array of few extents */, GYRE_NPY_MAX_RANK = 4 };
typedef struct gyre_npy {
    char type[16];    /* descr: "<f4" */
    gyre_dtype dtype; /* of each number; <V2 is BF16, as ml_dtypes writes it */
    int rank;         /* with the extent of complex numbers */
    int64_t shape[4]; /* 1 past the rank; complex numbers add a last extent of 2 */
    int64_t stride[4];
    int64_t count; /* of numbers */
    size_t offset; /* of the data, in the file */
} gyre_npy;

/* *out = what the bytes of a whole file say.  path: for messages.
 * Errors: EFORMAT (no .npy, a header that is no such dict, a size that is not that of the shape), with the offset;
 * EUNSUPPORTED (another type or byte order, more than four extents, a version above 3). */
gyre_status gyre_npy_parse(gyre_npy *out, const unsigned char *bytes, size_t size, const char *path, gyre_error *err);

#endif
