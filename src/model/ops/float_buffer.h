/* float_buffer.h: memory for floats. */
#ifndef GYRE_MODEL_FLOAT_BUFFER_H
#define GYRE_MODEL_FLOAT_BUFFER_H
#include "util/integers.h"

enum { GYRE_CACHE_LINE_FLOATS = 16 }; /* 64 bytes: buffers inside one allocation begin at multiples of it */

/* out = n rounded up to whole cache lines. */
static inline int64_t gyre_round_up_floats(int64_t n) {
    return gyre_round_up_i64(n, GYRE_CACHE_LINE_FLOATS);
}

/* out = `count` zeroed floats, 64-byte aligned; NULL if there is no memory.  The caller releases them with free(). */
float *gyre_alloc_floats(int64_t count);

#endif
