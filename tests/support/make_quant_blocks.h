/* make_quant_blocks.h: random blocks of ggml's formats. */
#ifndef GYRE_TESTS_MAKE_QUANT_BLOCKS_H
#define GYRE_TESTS_MAKE_QUANT_BLOCKS_H
#include "kernels/quants/quant_blocks.h"
#include "numbers.h"

#include <math.h>
#include <string.h>

typedef struct quant_format {
    const char *name;
    int64_t numbers, bytes; /* of a block */
    int64_t scale, min;     /* offsets of the f16 scales; -1 = none */
    int ggml_type;          /* in a GGUF */
} quant_format;
static const quant_format quant_formats[] = {
#define GYRE_STORED_BLOCK(NAME, name, number, file_type, count, bytes, scale, least)                                        \
    {#name, count, bytes, scale, least, number},
#include "kernels/quants/stored_types.def"
};
enum { QUANT_FORMATS = sizeof quant_formats / sizeof *quant_formats };
enum { QUANT_MOST_BYTES = 292 /* of a block */ };

/* Random bytes, with scales of at most `scale`; a scale of 8 bits, in the first one, is a power of two. */
static inline void fill_quant_blocks(test_random *random, const quant_format *format, double scale, int64_t count,
                                     unsigned char *blocks) {
    for (int64_t i = 0; i < count * format->bytes; i++)
        blocks[i] = (unsigned char)(test_next(random) >> 32);
    for (int64_t i = 0; i < count; i++) {
        uint16_t half;
        test_put(&half, GYRE_DTYPE_F16, 0, test_uniform(random) * scale);
        if (format->scale >= 0)
            memcpy(blocks + i * format->bytes + format->scale, &half, sizeof half);
        else
            blocks[i * format->bytes] = (unsigned char)(127 + ilogb(scale) - 3 - (int)(test_next(random) >> 62));
        test_put(&half, GYRE_DTYPE_F16, 0, test_uniform(random) * scale);
        if (format->min >= 0) memcpy(blocks + i * format->bytes + format->min, &half, sizeof half);
    }
}

#endif
